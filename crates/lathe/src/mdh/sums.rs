//! Reductions that run innermost in a nest: partial results in lanes, where the elements lie side by side in memory.

use super::made::Made;
use super::setting::Setting;
use lathe_ir::names::{self, Role};
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, BufId, Executor, Function, Param, Stmt, VarId};
use lathe_poly::Affine;
use lathe_transform::names::labels_in;
use lathe_transform::{Arg, Args};

/// Vectors of partial results side by side.
const VECTORS: i64 = 2;
/// Loops that are looked at in one nest.
const LOOPS: usize = 8;

/// The nest with every such loop in lanes; `None` if there is none that takes them.
pub(super) fn in_lanes(set: &Setting, start: &Made, nest: &Path) -> Option<Made> {
    let mut made = start.clone();
    let mut found = loops(&start.func, nest);
    found.truncate(LOOPS);
    // From the last one to the first: paths of earlier ones stay what they are.
    for (path, names) in found.into_iter().rev() {
        made = one(set, &made, &path, &names).unwrap_or(made);
    }
    (made.steps.len() > start.steps.len()).then_some(made)
}

struct Names {
    label: String,
    array: String,
    var: String,
    bytes: i64,
}

/// Serial loops around one reduction, of which each iteration takes the next elements.
fn loops(func: &Function, nest: &Path) -> Vec<(Path, Names)> {
    let mut out = Vec::new();
    let Some(root) = visit::at(&func.body, nest) else { return out };
    visit::walk(root, &mut |s, p| {
        if let Some(names) = summed(func, s) {
            out.push((nest.iter().chain(p).copied().collect(), names));
        }
        true
    });
    out
}

fn summed(func: &Function, s: &Stmt) -> Option<Names> {
    let l = s.as_loop().filter(|l| l.exec == Executor::Serial && l.step == 1)?;
    let mut body = &l.body;
    while let Some([one]) = body.as_seq() {
        body = one;
    }
    let (label, r) = (body.label()?, body.as_reduce()?);
    let [target] = r.targets.as_slice() else { return None };
    let v = l.binder.id;
    let loads: Vec<Access> = r.values.iter().flat_map(visit::loads_of).collect();
    let moves = |a: &Access| a.indices.iter().any(|e| visit::vars_of(e).contains(&v));
    let fits = r.licence && !moves(target) && loads.iter().any(moves);
    if !fits || !loads.iter().all(|a| !moves(a) || next(a, v)) {
        return None;
    }
    let array = array(func, target.view.buffer()?)?;
    Some(Names {
        label: label.to_string(),
        array,
        var: l.binder.name.to_string(),
        bytes: target.elem.bytes().max(1) as i64,
    })
}

fn array(func: &Function, id: BufId) -> Option<String> {
    let mut out =
        func.params.iter().filter_map(Param::array).find(|b| b.id == id).map(|b| b.name.to_string());
    visit::walk(&func.body, &mut |s, _| {
        out = out.take().or_else(|| s.allocated().filter(|b| b.id == id).map(|b| b.name.to_string()));
        out.is_none()
    });
    out
}

/// Whether the next iteration takes the next element in memory.
fn next(a: &Access, v: VarId) -> bool {
    let Some((last, others)) = a.indices.split_last() else { return false };
    let outside = others.iter().all(|e| !visit::vars_of(e).contains(&v));
    outside && Affine::of(last).is_some_and(|f| f.coefficient(&v) == 1)
}

fn one(set: &Setting, start: &Made, path: &Path, names: &Names) -> Option<Made> {
    let lanes = set.machine.vector_bytes as i64 / names.bytes;
    if lanes < 2 {
        return None;
    }
    let Names { label, var, array, .. } = names;
    let parts = lanes * VECTORS;
    let own = names::around(label, var);
    let (outer, inner) = (Role::Outer.of(&own), Role::Inner.of(&own));
    let step = |m: &Made, rule: &str, args: Vec<Arg>, named: &[(&str, &str)]| {
        let mut all = Args::default();
        args.into_iter().for_each(|a| all.push(None, a));
        named.iter().for_each(|(n, v)| all.push(Some(n), Arg::Path((*v).to_string())));
        m.then(set, path, rule, &all).ok()
    };
    let at = |path: &String| Arg::Path(path.clone());
    let split = step(start, "split", vec![Arg::Path(own), Arg::Int(parts)], &[])?;
    let mut made =
        step(&split, "factor", vec![at(array), at(&inner)], &[("at", &outer), ("combine", "tree")])?;
    made = step(&made, "separate", vec![at(&outer)], &[]).unwrap_or(made);
    made = step(&made, "vectorize", vec![at(&inner), Arg::Int(lanes)], &[])?;
    let first = names::dimension(first_values(&split.func, &made.func)?, 0);
    // What follows makes it faster where it can be done.
    let mut more = |rule: &str, path: String, number: Option<i64>| {
        let args = std::iter::once(Arg::Path(path)).chain(number.map(Arg::Int)).collect();
        if let Some(next) = step(&made, rule, args, &[]) {
            made = next;
        }
    };
    let rest = Role::Rest.of(&inner);
    more("unroll", Role::Outer.of(&inner), None);
    more("vectorize", rest.clone(), Some(lanes));
    more("unroll", Role::Outer.of(rest), None);
    more("vectorize", first.clone(), Some(lanes));
    more("unroll", Role::Outer.of(first), None);
    for round in 0..(parts / 2).max(1).ilog2() {
        let pairs = (parts / 2) >> round;
        more("vectorize", Role::Parts.of(Role::Halve.nth(label, round as usize)), Some(pairs.min(lanes)));
    }
    more("fma", label.clone(), None);
    Some(made)
}

/// The label of the statement that gives partial results their first values.
fn first_values(before: &Function, after: &Function) -> Option<String> {
    let known = labels_in(&before.body);
    let mut out = None;
    visit::walk(&after.body, &mut |s, _| {
        let new = s.as_store().map(|st| st.label.to_string()).filter(|l| !known.contains(l));
        out = out.take().or(new);
        out.is_none()
    });
    out
}
