//! Random steps of strategies, with names drawn from the tree as it is.

use super::rng::Rng;
use lathe_ir::visit;
use lathe_ir::{BinOp, BufId, Executor, Expr, ExprKind, Function, Mode, ReduceOp, Stmt, StmtKind};
use lathe_strategy::syntax::{ArgValue, Strategy};
use lathe_transform::{Arg, Args, names};
use std::collections::HashMap;

/// A step as text, in the language of strategies.
pub fn random(r: &mut Rng, f: &Function) -> String {
    let loops = names::loop_names(&f.body);
    let labels = names::labels_in(&f.body);
    let buffers = buffers(f);
    if loops.is_empty() || labels.is_empty() || buffers.is_empty() {
        return "serial(none)".to_string();
    }
    if r.one_in(4)
        && let Some(step) = aimed(r, f)
    {
        return step;
    }
    let b = r.pick(&buffers).clone();
    // What the kernel writes, and what the steps before made.
    let written = written(f);
    let w = if written.is_empty() { b.clone() } else { r.pick(&written).clone() };
    let s = r.pick(&labels).clone();
    let (l, o, p) = (place(r, &loops, &labels), r.pick(&loops).clone(), r.pick(&loops).clone());
    let factor = *r.pick(&[1, 2, 3, 4, 5, 8, 16]);
    let width = *r.pick(&[2, 4, 4, 8, 16]);
    let space = *r.pick(&["", "", ", space: stack", ", space: register", ", space: host"]);
    let pad = *r.pick(&["", ", pad: true"]);
    let layout = *r.pick(&[
        "layout: tile(0, 4)",
        "layout: permute(1, 0)",
        "layout: tile(1, 2), layout: permute(1, 0, 2)",
        "layout: pad(0, 1)",
    ]);
    let staged = if r.one_in(3) { format!(", {layout}") } else { String::new() };
    match r.below(34) {
        0..=3 => format!("split({l}, {factor})"),
        4 => format!("tile({l}: {factor}, {o}: {width})"),
        5 | 6 => format!("reorder({l}, {o})"),
        7 => format!("reorder({l}, {o}, {p})"),
        8 => format!("fuse({l}, {o})"),
        9 => format!("fuse({l})"),
        10 | 11 => format!("fission({s})"),
        12 => format!("fission({l}, 1)"),
        13 => format!("unroll({l})"),
        14 => format!("unroll({l}, {factor})"),
        15 => format!("unroll_and_jam({l}, {factor})"),
        16 | 17 => format!("vectorize({l}, {width})"),
        18 => format!("vectorize({l}, {width}, tail: separate)"),
        19 | 20 => format!("parallel({l})"),
        21 | 22 => format!("stage({b}, at: {l}{space}{staged}{pad})"),
        23 => format!("accumulate({w}, at: {l}{space}{pad})"),
        24 => match r.below(3) {
            0 => format!("privatize({w}, {l}{space})"),
            1 if r.one_in(2) => format!("factor({w}, {l}{space}, combine: tree)"),
            1 => format!("factor({w}, {l}{space})"),
            _ => format!("factor({w}, {l}, at: {o})"),
        },
        25 if r.one_in(3) => format!("hoist({s}, {l})"),
        25 => format!("compute_at({w}, {l}{space})"),
        26 if r.one_in(2) => format!("materialize({s})"),
        26 => format!("inline({w})"),
        27 => match r.below(3) {
            0 => format!("peel({l})"),
            1 => format!("peel({l}, {}, from: end)", 1 + r.below(3)),
            _ => format!("cut({l}, {})", r.below(6)),
        },
        28 if r.one_in(2) => format!("separate({l}, partial: inside)"),
        28 => format!("separate({l})"),
        29 => format!("pad({l})"),
        30 => match r.below(4) {
            3 if r.one_in(3) => format!("prefetch({b}, at: {l}, spread: {o})"),
            3 => format!("prefetch({b}, at: {l}, ahead: {})", 1 + r.below(9)),
            0 if r.one_in(2) => format!("omit({s})"),
            0 => format!("nontemporal({s})"),
            1 => format!("fma({s})"),
            _ => format!("reassociate({s})"),
        },
        31 => match r.below(4) {
            0 => format!("remap({l}: {l}, {o}: {o} + {l})"),
            1 => format!("remap(w: {l} + {o}, {l}: {l})"),
            2 => format!("remap(p: ({l} + {o}) // 3, q: ({l} - {o}) // 3, {l}: {l}, {o}: {o})"),
            _ => format!("reverse({l})"),
        },
        32 => match r.below(2) {
            0 => format!("shift({l}, {})", r.below(4)),
            _ => format!("promote({w}{space})"),
        },
        _ => format!("set_layout({w}, {layout})"),
    }
}

/// A labelled statement, as far as steps can aim at it.
struct Target {
    label: String,
    /// Names of the loops around, outermost first.
    loops: Vec<String>,
    /// The buffer that it reduces into, and whether it adds products of floats.
    reduces: Option<(String, bool)>,
    /// Local buffers that it reads and does not write.
    reads: Vec<String>,
    /// Its value is a chain of operands of one operator.
    chain: bool,
    /// It reduces one of two values.
    selects: bool,
}

/// A step of the kinds that names drawn at random seldom fit: producers with their consumers, reductions.
fn aimed(r: &mut Rng, f: &Function) -> Option<String> {
    let mut names: HashMap<BufId, String> =
        f.params.iter().filter_map(|p| p.array()).map(|b| (b.id, b.name.to_string())).collect();
    let mut locals: Vec<BufId> = Vec::new();
    visit::walk(&f.body, &mut |s, _| {
        if let StmtKind::Alloc { buffer, .. } = s.kind() {
            names.insert(buffer.id, buffer.name.to_string());
            locals.push(buffer.id);
        }
        true
    });
    let mut all = Vec::new();
    targets(&f.body, &mut Vec::new(), &names, &locals, &mut all);
    let reductions: Vec<&Target> =
        all.iter().filter(|t| t.reduces.is_some() && !t.loops.is_empty()).collect();
    let consumers: Vec<&Target> = all.iter().filter(|t| !t.reads.is_empty() && !t.loops.is_empty()).collect();
    let space = *r.pick(&["", "", ", space: stack", ", space: host"]);
    let mut threads: Vec<String> = Vec::new();
    visit::walk(&f.body, &mut |s, _| {
        threads.extend(s.as_loop().filter(|l| l.exec == Executor::Cpu).map(|l| l.binder.name.to_string()));
        true
    });
    if !threads.is_empty() && r.one_in(12) {
        return Some(format!("serial({})", r.pick(&threads)));
    }
    // Scans are rare, and only their running values are for this rule.
    let running: Vec<&&Target> = reductions
        .iter()
        .filter(|t| t.reduces.as_ref().is_some_and(|(buffer, _)| buffer.ends_with(".acc")))
        .collect();
    if !running.is_empty() && r.one_in(2) {
        let t = r.pick(&running);
        let (buffer, _) = t.reduces.as_ref()?;
        let at = format!("{buffer}, {}.{}", t.label, r.pick(&t.loops));
        let lanes = *r.pick(&[2, 4, 8]);
        return Some(match r.below(4) {
            0 => format!("prescan({at})"),
            3 => format!("lookback({at}, scope: cpu)"),
            1 => format!("inscan({at}, {lanes})"),
            _ => format!("prereduce({})", t.label),
        });
    }
    let selecting: Vec<&Target> = all.iter().filter(|t| t.selects).collect();
    if !selecting.is_empty() && r.one_in(4) {
        return Some(format!("guard({})", r.pick(&selecting).label));
    }
    match r.below(7) {
        6 => {
            let chains: Vec<&Target> = all.iter().filter(|t| t.chain).collect();
            if chains.is_empty() { None } else { Some(format!("reassociate({})", r.pick(&chains).label)) }
        }
        0 => {
            let adding: Vec<&&Target> =
                reductions.iter().filter(|t| t.reduces.as_ref().is_some_and(|p| p.1)).collect();
            if adding.is_empty() { None } else { Some(format!("fma({})", r.pick(&adding).label)) }
        }
        1 | 2 if !reductions.is_empty() => {
            let t = r.pick(&reductions);
            let (buffer, _) = t.reduces.as_ref()?;
            let (l, rule) = (r.pick(&t.loops), *r.pick(&["privatize", "factor"]));
            Some(format!("{rule}({buffer}, {}.{l}{space})", t.label))
        }
        3 | 4 if !consumers.is_empty() => {
            let t = r.pick(&consumers);
            Some(format!("compute_at({}, {}.{}{space})", r.pick(&t.reads), t.label, r.pick(&t.loops)))
        }
        5 if !consumers.is_empty() => {
            let t = r.pick(&consumers);
            Some(format!("inline({})", r.pick(&t.reads)))
        }
        _ => None,
    }
}

/// Operands of the sum at the top.
fn operands(e: &Expr) -> usize {
    match e.kind() {
        ExprKind::Binary(BinOp::Add, a, b) => operands(a) + operands(b),
        _ => 1,
    }
}

fn targets(
    s: &Stmt,
    loops: &mut Vec<String>,
    names: &HashMap<BufId, String>,
    locals: &[BufId],
    out: &mut Vec<Target>,
) {
    let written: Vec<BufId> = match s.kind() {
        StmtKind::Store(st) => st.target.view.buffer().into_iter().collect(),
        StmtKind::Reduce(x) => x.targets.iter().filter_map(|t| t.view.buffer()).collect(),
        _ => Vec::new(),
    };
    if let Some(label) = s.label() {
        let reads = s.exprs().into_iter().flat_map(visit::loads_of).filter_map(|a| a.view.buffer());
        let reads = reads.filter(|b| locals.contains(b) && !written.contains(b));
        let reduces = match s.kind() {
            StmtKind::Reduce(x) => {
                let product = matches!(x.values[0].kind(), ExprKind::Binary(BinOp::Mul, ..));
                let adds = x.op == ReduceOp::Sum && product && x.values[0].ty().is_float();
                written.first().and_then(|b| names.get(b)).map(|n| (n.clone(), adds))
            }
            _ => None,
        };
        out.push(Target {
            label: label.to_string(),
            loops: loops.clone(),
            reduces,
            reads: reads.filter_map(|b| names.get(&b).cloned()).collect(),
            selects: matches!(s.kind(), StmtKind::Reduce(r) if matches!(r.values[0].kind(), ExprKind::Select(..))),
            chain: matches!(s.kind(), StmtKind::Store(st) if operands(&st.value) >= 4),
        });
    }
    let inside = s.as_loop().map(|l| l.binder.name.to_string());
    let depth = loops.len();
    loops.extend(inside);
    for c in s.children() {
        targets(c, loops, names, locals, out);
    }
    loops.truncate(depth);
}

/// A loop, sometimes named by a label around it.
fn place(r: &mut Rng, loops: &[String], labels: &[String]) -> String {
    let l = r.pick(loops).clone();
    if r.one_in(3) { format!("{}.{l}", r.pick(labels)) } else { l }
}

fn buffers(f: &Function) -> Vec<String> {
    let read = f.params.iter().filter(|p| p.mode == Mode::In).filter_map(|p| p.array());
    read.map(|b| b.name.to_string()).filter(|n| !n.starts_with('Z')).chain(written(f)).collect()
}

/// Outputs and local buffers.
fn written(f: &Function) -> Vec<String> {
    let params = f.params.iter().filter(|p| p.mode != Mode::In).filter_map(|p| p.array());
    let mut out: Vec<String> = params.map(|b| b.name.to_string()).collect();
    visit::walk(&f.body, &mut |s, _| {
        if let StmtKind::Alloc { buffer, .. } = s.kind() {
            // Twice: what the kernel or a step made is more interesting than an input.
            out.extend([buffer.name.to_string(), buffer.name.to_string()]);
        }
        true
    });
    out
}

/// Reads a step as the language does; `None` if it is not a single call.
pub fn parse(text: &str) -> Option<(String, Args)> {
    let Ok(Strategy::Call { name, args, .. }) = lathe_strategy::parse_strategy(text) else { return None };
    let mut out = Args::default();
    for a in args {
        let ArgValue::Expr(e) = &a.value else { return None };
        out.push(a.name.as_deref(), Arg::from(e));
    }
    Some((name, out))
}
