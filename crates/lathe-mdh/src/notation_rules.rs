//! What a definition in the notation of the thesis must satisfy for all sizes.

use crate::codes;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::interp::evaluate;
use lathe_ir::{Access, Binder, Combine, ReduceOp, VarId, visit};
use std::collections::HashMap;

/// A second operator, where it is: combining first along one dimension would differ from the other.
pub fn one_operator(operators: &[(Combine, Span)]) -> Option<(Span, Diagnostic)> {
    let mut first: Option<&ReduceOp> = None;
    for (combine, at) in operators {
        let (Combine::Reduce(op) | Combine::Scan(op)) = combine else { continue };
        match first {
            Some(other) if other != op => {
                let text = format!("`{other}` and `{op}` do not commute in one md_hom");
                let help = "reduce along one of them into a temporary array first";
                return Some((*at, Diagnostic::error(codes::MIXED, text).help(help)));
            }
            _ => first = Some(op),
        }
    }
    None
}

/// Every index that is concatenated is in a subscript of an output, and none that is reduced; and the first points of the
/// box have cells of their own. Whether all different indices write different elements depends on sizes, and is asked when
/// these are known.
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
                    format!("different `{}` write the same element of `{name}`", b.name)
                }
                _ => continue,
            };
            return Err(Diagnostic::error(codes::NOT_INJECTIVE, text)
                .help("an output is subscripted by all concatenated indices, and by no reduced one"));
        }
        let stay = binders.iter().zip(operators).filter(|(_, (op, _))| !matches!(op, Combine::Reduce(_)));
        let stay: Vec<&Binder> = stay.map(|x| x.0).collect();
        if let Some(same) = one_cell_for_two(access, &stay) {
            let names: Vec<String> = same.iter().map(|b| format!("`{}`", b.name)).collect();
            let text = format!(
                "different {} write the same cell of `{name}` wherever there are two of each",
                names.join(", ")
            );
            return Err(Diagnostic::error(codes::NOT_INJECTIVE, text)
                .help("every index that is concatenated must be told by the subscripts of the output"));
        }
    }
    Ok(())
}

/// So many indices are tried at most.
const TRIED: usize = 12;

/// Indices in which two of the first points differ that have one cell, if there are two: then no sizes but 1 tell them
/// apart.
fn one_cell_for_two<'b>(access: &Access, stay: &[&'b Binder]) -> Option<Vec<&'b Binder>> {
    let mut seen: HashMap<Vec<i64>, usize> = HashMap::new();
    for point in 0..1usize << stay.len().min(TRIED) {
        let all = access.indices.iter().flat_map(visit::vars_of).map(|v| (v, 0));
        let mut at: HashMap<VarId, i64> = all.collect();
        at.extend(stay.iter().enumerate().map(|(n, b)| (b.id, (point >> n & 1) as i64)));
        let cell = access.indices.iter().map(|e| evaluate(e, &at)).collect::<Option<Vec<i64>>>()?;
        if let Some(other) = seen.insert(cell, point) {
            let apart = stay.iter().enumerate().filter(|(n, _)| (other ^ point) >> n & 1 == 1);
            return Some(apart.map(|x| *x.1).collect());
        }
    }
    None
}
