//! Whether calls satisfy the declarations of the called function: arrays of the extents that follow from its sizes,
//! which share no memory where it writes. Functions are examined by themselves, and rely on that.

use crate::codes::UNDECIDED;
use lathe_diagnostics::Diagnostic;
use lathe_ir::stmt::Arg;
use lathe_ir::visit::{substitute, walk};
use lathe_ir::{BufId, Buffer, Expr, Function, Mode, Module, Param, Stmt, StmtKind, VarId, View};
use lathe_poly::{Linear, Ranges};
use std::collections::HashMap;
use std::sync::Arc;

/// Refuses the calls of a function of which that is not shown.
pub fn prove_calls(module: &Module, func: &Function) -> Vec<Diagnostic> {
    let mut arrays: HashMap<BufId, Arc<Buffer>> = HashMap::new();
    arrays.extend(func.params.iter().filter_map(|p| Some((p.array()?.id, p.array()?.clone()))));
    let mut out = Vec::new();
    walk(&func.body, &mut |s, path| {
        arrays.extend(s.allocated().map(|b| (b.id, b.clone())));
        if let StmtKind::Call { function, args } = s.kind()
            && let Some(callee) = module.functions.get(function)
            && let Some(why) = problem(callee, args, &arrays, &|| Ranges::at(func, path))
        {
            out.push(refused(s, &callee.name, &why));
        }
        true
    });
    out
}

fn refused(s: &Stmt, name: &str, why: &str) -> Diagnostic {
    Diagnostic::error(UNDECIDED, format!("the call of `{name}` cannot be shown to be legal: {why}"))
        .at_places(s.places(), "this call")
}

/// Why a call may be wrong, where `known` is what holds.
fn problem(
    callee: &Function,
    args: &[Arg],
    arrays: &HashMap<BufId, Arc<Buffer>>,
    known: &dyn Fn() -> Ranges,
) -> Option<String> {
    let mut given: Vec<(&Param, &Arc<Buffer>)> = Vec::new();
    for (p, a) in callee.params.iter().zip(args) {
        let Arg::View(v) = a else { continue };
        let View::Buffer(id) = v else {
            return Some(format!("the argument for `{}` is not a whole array", p.name()));
        };
        let Some(b) = arrays.get(id) else {
            return Some(format!("the argument for `{}` is an unknown array", p.name()));
        };
        for (q, other) in &given {
            let apart = p.alias.is_none() || p.alias != q.alias;
            let written = p.mode != Mode::In || q.mode != Mode::In;
            if other.id == b.id && apart && written {
                return Some(format!("`{}` and `{}` are the same array", q.name(), p.name()));
            }
        }
        given.push((p, b));
    }
    let mut sizes: HashMap<VarId, Expr> = HashMap::new();
    let extents = || {
        given.iter().flat_map(|(p, b)| {
            let declared = p.array().map_or(&[][..], |d| &d.extents[..]);
            declared.iter().zip(&b.extents).map(move |(d, e)| (p, d, e))
        })
    };
    for (_, declared, e) in extents() {
        if let Some(v) = declared.as_var().filter(|v| callee.sizes.iter().any(|s| s.id == *v)) {
            sizes.entry(v).or_insert_with(|| e.clone());
        }
    }
    let mut open = extents()
        .map(|(p, declared, e)| (p, substitute(declared, &sizes), e))
        .filter(|(_, declared, e)| Linear::of(declared) != Linear::of(e))
        .peekable();
    open.peek()?;
    // Sizes may be what a condition around the call says, as where versions for certain sizes are chosen.
    let known = known();
    open.find(|(_, declared, e)| !(known.le(declared, e) && known.le(e, declared)))
        .map(|(p, ..)| format!("the extents of `{}` may not match", p.name()))
}
