//! Affine schedules that are worth trying for a nest: arguments of the step, from which the cost model chooses.

use super::setting::Setting;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, Function, Stmt, StmtKind};
use lathe_transform::{Arg, Args};
use std::collections::HashSet;

/// Iterations of another loop side by side, and the width of tiles for results in registers. The model knows too little
/// of skewed tiles to choose others.
const JAM: i64 = 4;
const TILE: i64 = 128;
/// The same where threads share tiles: there are more of them.
const SHARED: i64 = 32;
/// Rows side by side whose elements wait for one another; those of integers take half of the registers that those of floats may.
const ROWS: [i64; 2] = [4, 8];
/// Widths of tiles of time steps, for arrays beyond the second cache.
pub(super) const STEPS: [i64; 3] = [32, 16, 8];

/// Arguments worth trying.
#[derive(Default)]
pub(super) struct Candidates {
    pub alone: Vec<Args>,
    /// Those for threads, each with the place of what it is on one thread, where that is tried, too.
    pub on_threads: Vec<(Args, Option<usize>)>,
}

/// Arguments worth trying: lanes of the elements that are written, alone, with results in registers, with tiles.
pub(super) fn candidates(set: &Setting, func: &Function, path: &Path, large: bool) -> Candidates {
    let Some(nest) = visit::at(&func.body, path) else { return Candidates::default() };
    let (mut bytes, mut depth) = (8, 0);
    visit::walk(nest, &mut |s, p| {
        bytes = s.accesses().map(|(a, _)| a.elem.bytes() as i64).fold(bytes, |n, b| n.min(b.max(1)));
        if s.label().is_some() {
            let above =
                (0..=p.len()).filter(|n| visit::at(nest, &p[..*n]).is_some_and(|s| s.as_loop().is_some()));
            depth = depth.max(above.count());
        }
        true
    });
    let lanes = (set.machine.vector_bytes as i64 / bytes).max(2);
    type Named = Vec<(&'static str, Word)>;
    let with = |of: &[(&'static str, Word)]| -> Named { of.to_vec() };
    let (number, word) = (Word::Number, Word::Name);
    let mut all: Vec<Named> = vec![with(&[("vector", number(lanes))])];
    if depth > 1 {
        all.push(with(&[("vector", number(lanes)), ("fuse", word("none"))]));
        all.push(with(&[("vector", number(lanes)), ("lanes", word("any"))]));
    }
    let steps = depth > 2 && large && in_time(nest);
    // In three dimensions, wider tiles hold more rows than the second cache.
    let widths = if depth > 3 { &STEPS[2..] } else { &STEPS[..] };
    if steps {
        all.extend(widths.iter().map(|n| with(&[("vector", number(lanes)), ("tile", number(*n))])));
    }
    if steps && reduces(func, path) {
        // Each element may follow from its neighbours of the same step, which leaves no lanes.
        all.extend(STEPS.map(|n| with(&[("tile", number(n))])));
    }
    // Rows of which each element waits for the one before: those of several overlap.
    if depth > 1 && waits(nest) {
        let floats = !has(nest, &|s| s.accesses().any(|(a, mode)| mode.writes() && !a.elem.is_float()));
        for n in ROWS.into_iter().filter(|n| floats || *n == ROWS[0]) {
            all.push(with(&[("jam", number(n))]));
            if steps {
                all.push(with(&[("tile", number(STEPS[0])), ("jam", number(n))]));
            }
        }
    }
    if depth > 1 && reduces(func, path) && writes_apart(nest) {
        // What is added up stays in registers.
        all.push(with(&[("vector", number(2 * lanes)), ("lanes", word("any")), ("jam", number(JAM))]));
    }
    if depth > 2 && reduces(func, path) {
        let jammed = with(&[("vector", number(2 * lanes)), ("jam", number(JAM))]);
        let and = |more| jammed.iter().copied().chain([more]).collect::<Named>();
        all.extend([jammed.clone(), and(("fuse", word("none"))), and(("tile", number(TILE)))]);
    }
    let mut on_threads = Vec::new();
    if set.machine.threads > 1 {
        // Tiles of results that depend on one another were slower along diagonals than on one thread (Cholesky, Nussinov): the
        // model knows too little of them. Independent ones are offered.
        let in_results = |of: &Named| of.iter().any(|a| matches!(a, ("tile", Word::Number(TILE))));
        let mut concurrent: Vec<_> = all.iter().cloned().zip((0..).map(Some)).collect();
        // What the compiler below makes lanes of, and what nobody can.
        concurrent.push((Vec::new(), None));
        if steps && !all.iter().any(|c| matches!(c.as_slice(), [("tile", _)])) {
            concurrent.push((with(&[("tile", number(STEPS[0]))]), None));
        }
        let narrow = |(args, same): &(Named, Option<usize>)| {
            let tile = ("tile", number(SHARED));
            let all = args.iter().map(|a| if a.0 == "tile" { tile } else { *a });
            in_results(args)
                .then(|| (arguments(&all.chain([("parallel", word("outer"))]).collect::<Named>()), *same))
        };
        on_threads.extend(concurrent.iter().filter_map(narrow));
        on_threads.extend(concurrent.into_iter().map(|(mut args, same)| {
            let tiled = args.iter().any(|a| a.0 == "tile") && !in_results(&args);
            args.push(("parallel", word(if tiled { "wavefront" } else { "outer" })));
            (arguments(&args), same)
        }));
    }
    Candidates { alone: all.into_iter().map(|a| arguments(&a)).collect(), on_threads }
}

/// Whether no loop of a nest writes neighbours in memory.
fn writes_apart(nest: &Stmt) -> bool {
    let mut loops = HashSet::new();
    let mut apart = true;
    visit::walk(nest, &mut |s, _| {
        loops.extend(s.as_loop().map(|l| l.binder.id));
        let along = |a: &Access| a.indices.last().is_some_and(|e| !visit::vars_of(e).is_disjoint(&loops));
        apart &= !s.accesses().any(|(a, mode)| mode.writes() && along(a));
        apart
    });
    apart
}

/// Whether an innermost loop stores what another one of its iterations may load.
fn waits(nest: &Stmt) -> bool {
    has(nest, &|s| {
        let Some(l) = s.as_loop().filter(|l| !has(&l.body, &|s| s.as_loop().is_some())) else { return false };
        let (mut stored, mut loaded): (Vec<Access>, Vec<Access>) = (Vec::new(), Vec::new());
        visit::walk(&l.body, &mut |s, _| {
            stored.extend(s.as_store().map(|st| st.target.clone()));
            loaded.extend(s.evaluated().into_iter().flat_map(visit::loads_of));
            true
        });
        let moves = |a: &Access| a.indices.iter().any(|e| visit::vars_of(e).contains(&l.binder.id));
        // The element of another iteration, or one of all iterations.
        let waits = |t: &Access, a: &Access| a.view == t.view && (a.indices != t.indices) == moves(a);
        stored.iter().any(|t| loaded.iter().any(|a| waits(t, a)))
    })
}

/// Whether arguments of a schedule are those of rows side by side, without lanes.
pub(super) fn rows_jammed(args: &Args) -> bool {
    args.named("jam").is_some() && args.named("vector").is_none()
}

/// Whether arguments of a schedule ask for lanes wherever they may be, elements of different rows, too.
pub(super) fn across_rows(args: &Args) -> bool {
    args.named("lanes").is_some_and(|a| *a.0 == Arg::Path("any".into()))
}

/// Whether each iteration of the outermost loop writes the same elements as the one before.
pub(super) fn in_time(nest: &Stmt) -> bool {
    let Some(t) = nest.as_loop().map(|l| l.binder.id) else { return false };
    let mut steps = true;
    visit::walk(nest, &mut |s, _| {
        steps &= !s
            .accesses()
            .any(|(a, mode)| mode.writes() && a.indices.iter().any(|e| visit::vars_of(e).contains(&t)));
        steps
    });
    steps
}

/// What an argument says.
#[derive(Clone, Copy)]
pub(super) enum Word {
    Number(i64),
    Name(&'static str),
}

pub(super) fn arguments(all: &[(&'static str, Word)]) -> Args {
    let mut args = Args::default();
    for (name, value) in all {
        let value = match value {
            Word::Number(n) => Arg::Int(*n),
            Word::Name(n) => Arg::Path((*n).to_string()),
        };
        args.push(Some(name), value);
    }
    args
}

/// Whether a nest combines values into elements that its iterations share.
pub(super) fn reduces(func: &Function, path: &Path) -> bool {
    // `x = x + e` is combined in its order, which loops may keep as well.
    let updates = |s: &Stmt| {
        s.as_store().is_some_and(|st| {
            visit::loads_of(&st.value)
                .iter()
                .any(|a| a.view == st.target.view && a.indices == st.target.indices)
        })
    };
    visit::at(&func.body, path).is_some_and(|s| has(s, &|s| s.as_reduce().is_some() || updates(s)))
}

/// Whether a statement is of some kind, or has one in it.
pub(super) fn has(s: &Stmt, what: &dyn Fn(&Stmt) -> bool) -> bool {
    let mut found = false;
    visit::walk(s, &mut |s, _| {
        found |= what(s);
        !found
    });
    found
}

/// Whether a statement is a loop, of whatever kind.
pub(super) fn repeats(s: &Stmt) -> bool {
    s.as_loop().is_some() || matches!(s.kind(), StmtKind::While { .. })
}
