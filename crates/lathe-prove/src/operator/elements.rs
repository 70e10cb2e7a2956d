//! What an operator combines.

use super::{Broken, Which, law};
use lathe_ir::{Combine, Expr, ExprKind, Function, Mode, Module, Name, ReduceOp, Type, reduce, visit};

/// Every operator of a module with a law that it declares and that does not hold for what the module's functions
/// combine by it.
pub fn broken(module: &Module) -> Vec<(Name, Broken)> {
    let mut out = Vec::new();
    for (name, user) in &module.ops {
        let op = ReduceOp::User(name.clone());
        let types = [user.ty.clone()];
        for which in [Which::Associative, Which::Commutative, Which::Identity] {
            let uses: Vec<Vec<Expr>> =
                module.functions.values().flat_map(|f| elements(module, f, &op, &types)).collect();
            match law(module, &op, &types, which, &uses) {
                Ok(_) | Err(Broken::Undeclared { .. }) => {}
                // Of what it will be asked to combine nothing is known yet.
                Err(Broken::Refuted { .. }) if uses.is_empty() => {}
                Err(b) => out.push((name.clone(), b)),
            }
        }
    }
    out
}

/// What an operator combines in a function, where that can be told: the values of its reductions, and what is stored
/// where such values are loaded from: arrays that the function makes, and results, which hold nothing before. Nothing
/// where it may be anything.
pub fn elements(module: &Module, func: &Function, op: &ReduceOp, types: &[Type]) -> Vec<Vec<Expr>> {
    let mut local = visit::local_buffers(&func.body);
    let results = func.params.iter().filter(|p| p.mode == Mode::Out && p.alias.is_none());
    local.extend(results.filter_map(|p| p.array().map(|b| b.id)));
    let identity = reduce::identity(module, op, types).unwrap_or_default();
    let held = |e: &Expr| match e.kind() {
        ExprKind::Load(a) => a.view.buffer().is_some_and(|b| local.contains(&b)),
        _ => identity.contains(e),
    };
    let mut out: Vec<Vec<Expr>> = Vec::new();
    let mut known = true;
    visit::walk(&func.body, &mut |s, _| {
        let mut values = Vec::new();
        if let Some(r) = s.as_reduce().filter(|r| r.op == *op) {
            values.clone_from(&r.values);
            // What it is combined with is an element, too.
            known &= r.targets.iter().all(|t| t.view.buffer().is_some_and(|b| local.contains(&b)));
        }
        if let Some(c) = s.as_compute().filter(|c| c.dims.iter().any(|d| combines(&d.combine, op))) {
            values.clone_from(&c.values);
        }
        if let Some(st) = s.as_store().filter(|st| types.contains(&st.target.elem)) {
            let here = st.target.view.buffer().is_some_and(|b| local.contains(&b));
            if here && !held(&st.value) {
                // A part of a value that is in several arrays is not an element.
                known &= types.len() == 1;
                values = vec![st.value.clone()];
            }
        }
        if !values.is_empty() && !values.iter().all(held) && !out.contains(&values) {
            out.push(values);
        }
        true
    });
    if known { out } else { Vec::new() }
}

fn combines(c: &Combine, op: &ReduceOp) -> bool {
    match c {
        Combine::Concat => false,
        Combine::Reduce(o) | Combine::Scan(o) => o == op,
    }
}
