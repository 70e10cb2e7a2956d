//! What a definition in the notation of the thesis must satisfy for all sizes.

use crate::codes;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::{Access, Binder, Combine, ReduceOp, visit};

/// A second operator, where it stands: combining first along one dimension would differ from the other.
pub fn one_operator(operators: &[(Combine, Span)]) -> Option<(Span, Diagnostic)> {
    let mut first: Option<&ReduceOp> = None;
    for (combine, at) in operators {
        let (Combine::Reduce(op) | Combine::Scan(op)) = combine else { continue };
        match first {
            Some(other) if other != op => {
                let text = format!("`{other}` and `{op}` do not interchange in one md_hom");
                let help = "reduce along one of them into a temporary array first";
                return Some((*at, Diagnostic::error(codes::MIXED, text).help(help)));
            }
            _ => first = Some(op),
        }
    }
    None
}

/// Every index that is concatenated is in a subscript of an output, and none that is reduced. That different indices
/// then write different elements depends on sizes, and is asked when these are known.
///
/// # Errors
/// E1209.
pub fn told_apart(
    name: &str,
    accesses: &[Access],
    binders: &[Binder],
    operators: &[(Combine, Span)],
) -> Result<(), Diagnostic> {
    for access in accesses {
        for (b, (op, _)) in binders.iter().zip(operators) {
            let used = access.indices.iter().any(|e| visit::vars_of(e).contains(&b.id));
            let text = match op {
                Combine::Reduce(_) if used => {
                    format!("`{name}` is subscripted by `{}`, which is reduced", b.name)
                }
                Combine::Concat | Combine::Scan(_) if !used => {
                    format!("different `{}` write the same cell of `{name}`", b.name)
                }
                _ => continue,
            };
            return Err(Diagnostic::error(codes::NOT_INJECTIVE, text).help(
                "an output is subscripted by all indices that are concatenated, and by no reduced one",
            ));
        }
    }
    Ok(())
}
