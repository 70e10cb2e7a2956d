//! Executors of loops, and reductions across cores.

use super::Options;
use super::copies::Copies;
use super::loops::{Digit, Kind, Loops, Rest};
use super::results::{Results, Split};
use super::steps::{Blocks, attempt, call, data, int, name, named, split, unroll, vectorize, with, word};
use super::unsupported;
use crate::choose::facts;
use crate::decisions::{Decisions, at};
use crate::homomorphism::Shaped;
use crate::model::Model;
use crate::view::Operand;
use lathe_diagnostics::Diagnostic;
use lathe_ir::names::{self, Role};
use lathe_ir::{Combine, ExprKind, ReduceOp};
use lathe_strategy::{Argument, Strategy};

/// `privatize` and `factor` for core levels that reduce; scans over cores are cut at once.
///
/// # Errors
/// E1222 for cores inside of lanes.
pub fn partial_results(
    h: &Shaped,
    loops: &Loops,
    options: &Options,
    out: &mut Vec<Strategy>,
) -> Result<Results, Diagnostic> {
    let mut results = Results { splits: Vec::new(), by_lanes: false };
    let mut lanes: Option<&Digit> = None;
    let mut scanned = 0;
    for (position, n) in loops.order.iter().enumerate() {
        let Some(digit) = loops.digits().find(|x| x.name == *n) else { continue };
        let Some(level) = digit.level.filter(|_| digit.kind.is_core()) else {
            continue;
        };
        if let Some(outer) = lanes.and_then(|l| l.level) {
            return unsupported(
                &format!("level {level} is executed by cores inside of the lanes of level {outer}"),
                "rank lanes inside of everything else that cores run, and use one level of them",
            );
        }
        let by_lanes = matches!(digit.kind, Kind::Lanes(_));
        lanes = by_lanes.then_some(digit);
        match &h.h.dims[level.dim].combine {
            Combine::Concat => {}
            Combine::Scan(_) => {
                // Blocks of blocks: each has a running value of its own.
                let running = running(&loops.label, scanned);
                if in_one_pass(h, loops, digit, options) {
                    let args =
                        vec![Argument::positional(name(&running)), Argument::positional(name(&loops.at(n)))];
                    out.push(with("lookback", args.into_iter().chain([word("scope", "cpu")]).collect()));
                    out.push(with(
                        "promote",
                        vec![Argument::positional(name(&running)), word("space", "host")],
                    ));
                } else {
                    out.push(call("prescan", vec![name(&running), name(&loops.at(n))]));
                }
                if let Some(inner) = innermost(loops, digit) {
                    out.extend(totals(h, (&loops.label, scanned), &inner.name, options));
                }
                scanned += 1;
            }
            Combine::Reduce(_) => {
                // Once for all that the innermost loops reduce; in order where the operator asks for it.
                let around = loops
                    .innermost_reduction()
                    .filter(|at| {
                        by_lanes && !h.h.dims[level.dim].ordered && loops.position(at) < Some(position)
                    })
                    .map(str::to_string);
                let position = match &around {
                    Some(a) => loops.position(a).unwrap_or(position),
                    None => loops.reduced_from(position),
                };
                // Results of a coarser core's part lie inside of its loop.
                let outer = results.splits.iter().filter_map(|s| loops.position(&s.at)).max();
                let position = outer.map_or(position, |o| position.max(o + 1));
                let mut made = Role::Cores.numbered(&loops.label, level.layer + 1);
                if results.splits.iter().any(|s| s.made == made) {
                    made = format!("{made}.{}", h.h.dims[level.dim].name);
                }
                results.splits.push(Split { at: n.clone(), position, by_lanes, made, around });
                results.by_lanes |= by_lanes;
            }
        }
    }
    Ok(results)
}

impl Split {
    /// One step does all targets of a reduction. `from` has so many dimensions, those of coarser parts first.
    pub fn steps(&self, from: &str, rank: usize, loops: &Loops, out: &mut Vec<Strategy>) {
        let rule = if self.by_lanes { "factor" } else { "privatize" };
        let mut args = vec![
            Argument::positional(name(from)),
            Argument::positional(name(&loops.at(&self.at))),
            word("name", &self.made),
        ];
        args.extend(self.around.as_ref().map(|a| named("at", name(&loops.at(a)))));
        let step = with(rule, args.clone());
        out.push(if self.by_lanes {
            // Lanes do not wait for one another, where the operator allows it.
            args.push(word("combine", "tree"));
            Strategy::Choice(vec![with(rule, args), step])
        } else {
            step
        });
        if self.by_lanes && rank > 0 {
            // The partial results of one element are the lanes.
            let layout = data("permute", (1..=rank).chain([0]));
            out.push(call("set_layout", vec![name(&self.made), layout]));
        }
    }
}

/// The running value of a scan that was cut into blocks of blocks so often.
fn running(label: &str, cuts: usize) -> String {
    match cuts.checked_sub(1) {
        None => Role::Running.of(label),
        Some(n) => names::again(Role::Run.of(label), n),
    }
}

/// Blocks of a scan that threads take one after the other, many each: they exchange their totals while they run, where they
/// would meet between two passes over all that they read.
pub fn in_one_pass(h: &Shaped, loops: &Loops, digit: &Digit, options: &Options) -> bool {
    let scalar = h.h.outputs.first().is_some_and(|o| o.buffer.elem.scalar().is_some());
    let outermost = loops.position(&digit.name) == Some(0);
    let many = digit.parts >= ROUNDS * options.machine.threads && options.machine.threads > 1;
    digit.kind == Kind::Threads && outermost && scalar && many
}

/// So many blocks for each thread are run in one pass.
pub const ROUNDS: u64 = 4;

/// The loop that adds up the blocks of one that is scanned; `n` scans were cut before.
fn total(label: &str, n: usize, of: &str) -> String {
    names::around(names::again(Role::Total.of(label), n), Role::Total.of(of))
}

/// The levels of a scan that cores run, outermost first.
fn scanned<'a>(h: &Shaped, loops: &'a Loops) -> Vec<&'a Digit> {
    let find = |n: &String| loops.digits().find(|d| d.name == *n);
    let scan = |d: &&Digit| matches!(h.h.dims[d.dim].combine, Combine::Scan(_)) && d.kind.is_core();
    loops.order.iter().filter_map(find).filter(scan).collect()
}

/// The loop that adds up the blocks of a scan that a level's cores run.
fn totals_of(h: &Shaped, loops: &Loops, digit: &Digit) -> Option<String> {
    let n = scanned(h, loops).iter().position(|d| d.name == digit.name)?;
    Some(total(&loops.label, n, &digit.name))
}

/// The innermost loop of the blocks of a scan, if threads take these.
fn innermost<'a>(loops: &'a Loops, blocks: &Digit) -> Option<&'a Digit> {
    let inner = || loops.digits().rfind(|d| d.dim == blocks.dim && d.tile < blocks.tile);
    (blocks.kind == Kind::Threads).then(inner).flatten()
}

/// The totals of a scan's blocks are sums like others: by lanes, several vectors side by side. `n` scans were cut
/// before.
fn totals(h: &Shaped, (label, n): (&str, usize), inner: &str, options: &Options) -> Option<Strategy> {
    let bytes = h.h.outputs[0].buffer.elem.scalar()?.bytes();
    let width = options.machine.lanes(bytes);
    if h.extents.len() > 1 || width < 2 {
        return None;
    }
    let (cut, blocks) = split(&total(label, n, inner), 4 * width);
    let (lanes, vectors) = vectorize(&blocks.inner, width);
    let carry = names::again(Role::Carry.of(label), n);
    Some(attempt(Strategy::Seq(vec![
        cut,
        call("factor", vec![name(&carry), name(&blocks.inner)]),
        call("separate", vec![name(&blocks.outer)]),
        lanes,
        unroll(&vectors.outer),
    ])))
}

/// Every sum of a scan depends on the previous one: lanes combine in order, where the innermost loop is that of the scan.
pub fn in_order(h: &Shaped, loops: &Loops, options: &Options, out: &mut Vec<Strategy>) {
    let innermost = loops.order.last().and_then(|n| loops.digits().find(|d| d.name == *n));
    let Some(inner) = innermost.filter(|d| d.kind == Kind::Memory) else { return };
    let built_in = matches!(
        &h.h.dims[inner.dim].combine,
        Combine::Scan(op) if !matches!(op, ReduceOp::ArgMin | ReduceOp::ArgMax | ReduceOp::User(_))
    );
    let Some(elem) = h.h.outputs.first().and_then(|o| o.buffer.elem.scalar()) else { return };
    let width = options.machine.lanes(elem.bytes());
    if !built_in || width < 2 {
        return;
    }
    let (running, at) = (running(&loops.label, scanned(h, loops).len()), loops.at(&inner.name));
    out.push(attempt(call("inscan", vec![name(&running), name(&at), int(width)])));
    // Vectors whose shuffles do not wait for one another.
    out.push(attempt(call("unroll", vec![name(&Blocks::of(&at).outer), int(4)])));
}

/// `vectorize`, and the vectors that stand side by side written out.
pub fn lanes(h: &Shaped, loops: &Loops, rests: &[Rest], out: &mut Vec<Strategy>) {
    for digit in loops.digits() {
        let Kind::Lanes(width) = digit.kind else { continue };
        let several = digit.parts > width;
        let written = |l: &str, write_out: &dyn Fn(&str) -> Strategy| {
            let (lanes, vectors) = vectorize(l, width);
            let side_by_side = several.then(|| attempt(write_out(&vectors.outer)));
            std::iter::once(lanes).chain(side_by_side).collect::<Vec<_>>()
        };
        let steps = |l: &str| written(l, &unroll);
        let partial = |l: &str| written(l, &|l| loops.write_out(l));
        out.extend(steps(&loops.at(&digit.name)));
        if loops.own_init(digit) {
            out.push(attempt(Strategy::Seq(steps(&loops.at_init(&digit.name)))));
        }
        out.extend(totals_of(h, loops, digit).map(|l| attempt(Strategy::Seq(steps(&l)))));
        if matches!(h.h.dims[digit.dim].combine, Combine::Reduce(_)) {
            // Partial results that begin as single elements would have to be in memory for the first vector.
            let begins = |o: &Operand| {
                attempt(Strategy::Seq(steps(&names::dimension(names::private(&o.buffer.name), 0))))
            };
            out.extend(h.h.outputs.iter().map(begins));
            out.extend(halves(loops, digit.parts, width));
        }
        for rest in rests.iter().map(|r| r.of(&digit.name)) {
            let (lanes, vectors) = vectorize(&loops.at(&rest), width);
            out.push(attempt(lanes));
            out.push(attempt(loops.write_out(&vectors.outer)));
            if loops.own_init(digit) {
                out.push(attempt(Strategy::Seq(partial(&loops.at_init(&rest)))));
            }
        }
    }
}

/// Partial results that are combined by a tree reduction, vectors with vectors.
fn halves(loops: &Loops, parts: u64, width: u64) -> impl Iterator<Item = Strategy> {
    let pairs = std::iter::successors(Some(parts), |n| Some(n - n / 2)).take_while(|n| *n > 1).map(|n| n / 2);
    let vectors = pairs.enumerate().filter(|(_, pairs)| *pairs > 1);
    vectors.map(move |(n, pairs)| {
        let parts = Role::Parts.of(Role::Halve.nth(&loops.label, n));
        attempt(vectorize(&parts, pairs.min(width)).0)
    })
}

/// A sum of products is added with one rounding.
pub fn rounding(h: &Shaped, loops: &Loops, out: &mut Vec<Strategy>) {
    if h.h.op == Some(ReduceOp::Sum) && h.h.values.iter().any(lathe_ir::reduce::adds_products) {
        out.push(call("fma", vec![name(&loops.label)]));
    }
}

/// Results that R3 puts into the first memory bypass the caches, where whole vectors of them are stored once; but not
/// those whose old values are read, which are in a cache by then (and an update `op=` is no plain store).
pub fn streaming(
    h: &Shaped,
    model: &Model,
    d: &Decisions,
    loops: &Loops,
    copies: &Copies,
    out: &mut Vec<Strategy>,
) {
    let scans = h.h.dims.iter().any(|d| matches!(d.combine, Combine::Scan(_)));
    let lanes = scans || loops.digits().any(|d| matches!(d.kind, Kind::Lanes(_)));
    let written = |o: &str| copies.outputs().filter(|c| c.operand_name(h) == o).count();
    let read = h.h.inputs.iter().any(|i| h.h.outputs.iter().any(|o| i.buffer.id == o.buffer.id));
    for w in d.writes.iter().filter(|_| lanes && !read) {
        let cached = |r: &usize| model.memories.get(*r).is_some_and(|m| m.implicit);
        let mut levels = loops.digits().filter_map(|x| x.level).peekable();
        let far = levels.peek().is_some() && levels.all(|l| !at(&w.region, l).is_some_and(cached));
        match (far, written(&w.buffer)) {
            (true, 0) if h.h.op.is_none() => {
                // One label for all that a statement writes.
                out.push(attempt(call("nontemporal", vec![name(&loops.label)])));
                return;
            }
            (true, 0) if scans => {
                out.push(attempt(call("nontemporal", vec![name(&Role::Store.of(&loops.label))])));
                return;
            }
            (true, 1) if copies.init_inside(loops) => {
                let label = Role::Out.of(names::copy_of(&w.buffer));
                out.push(attempt(call("nontemporal", vec![name(&label)])));
            }
            _ => {}
        }
    }
}

/// `parallel` or `bind`, last: everything inside is as it will stay. Coarse cores first.
pub fn threads(h: &Shaped, loops: &Loops, options: &Options, out: &mut Vec<Strategy>) {
    let mut cores: Vec<&Digit> =
        loops.digits().filter(|d| matches!(d.kind, Kind::Threads | Kind::Cores(_))).collect();
    cores.sort_by_key(|d| d.kind.depth());
    for digit in cores {
        out.extend(run_by(digit.kind, &loops.at(&digit.name)));
        if loops.own_init(digit) {
            out.extend(run_by(digit.kind, &loops.at_init(&digit.name)).map(attempt));
        }
        if let Some(totals) = totals_of(h, loops, digit).filter(|_| !in_one_pass(h, loops, digit, options)) {
            out.extend(run_by(digit.kind, &totals));
        }
    }
}

/// The step that binds a loop to cores.
pub fn run_by(kind: Kind, l: &str) -> Option<Strategy> {
    match kind {
        Kind::Threads => Some(call("parallel", vec![name(l)])),
        Kind::Cores(c) => Some(call("bind", vec![name(l), name(c)])),
        _ => None,
    }
}

/// A value of at least so many operations is guarded by a branch instead of computed and selected.
const COSTLY: f64 = 8.0;

/// Last: predicate a reduction (`guard`) one of whose alternatives adds nothing and whose other one is costly.
pub fn guards(h: &Shaped, out: &mut Vec<Strategy>) {
    let costly = |e: &lathe_ir::Expr| match e.kind() {
        ExprKind::Select(_, a, b) => facts::work(a).max(facts::work(b)) >= COSTLY,
        _ => false,
    };
    if h.h.identity && !h.h.values.is_empty() && h.h.values.iter().all(costly) {
        out.push(attempt(call("guard", vec![name(&h.h.name)])));
    }
}
