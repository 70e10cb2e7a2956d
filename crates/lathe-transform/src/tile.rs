//! `tile`: split several loops of a nest and bring the loops over tiles outward.

use crate::args::{Args, IntoRefusal, as_positive};
use crate::codes;
use crate::nest::{is_loop, mentions};
use crate::remap::{perfect_nest, renumber};
use crate::reorder::{find_chain, reorder};
use crate::rule;
use crate::rule::Cursor;
use crate::split::split;
use crate::work::Work;
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{floor_div, floor_mod, index, var};
use lathe_ir::names::Role;
use lathe_ir::visit::Path;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Obligation, Refusal};

rule! {
    /// `tile(i: 64, j: 64)` splits both loops and reorders them to `i.o, j.o, i.i, j.i`: first over tiles, then inside
    /// a tile. It is `split(i, 64) ; split(j, 64) ; reorder(i.o, j.o, i.i, j.i)`, for any number of nested loops. The
    /// loops over tiles are in the order of the arguments, and so are those inside. Loops whose bounds depend on one
    /// another (triangles, skewed nests) are cut along absolute multiples, `i.o = i // 64`, so that tiles line up.
    ///
    /// **Legal** if every dependence keeps its order. A stencil that is updated in place, or stepped in time, is tiled
    /// after a skew (see `remap`).
    ///
    /// ```lathe
    /// kernel transpose(A: f32[M, N]) -> (B: f32[N, M]) {
    ///     B[i, j] = A[j, i]
    /// }
    /// strategy s for transpose = tile(i: 32, j: 32)
    /// ```
    pub static RULE = tile, version 1, (factor: many Int), apply,
        "loop tiling (blocking): cuts a nest into tiles, `tile(i: 64, j: 64)`, any number of loops";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let mut names = Vec::new();
    let mut factors = Vec::new();
    for (name, arg, span) in &args.items {
        let Some(name) = name else {
            let d = crate::args::wrong("`tile` takes `loop: factor` for each loop".to_string(), *span);
            return Err(d.help("write tile(i: 64, j: 64)").into_refusal(work.rule()));
        };
        names.push(name.clone());
        factors.push(as_positive(work.rule(), name, arg, *span)?);
    }
    if names.is_empty() {
        return Err(Diagnostic::error(codes::ARGUMENT, "`tile` needs at least one loop")
            .help("write tile(i: 64, j: 64)")
            .into_refusal(work.rule()));
    }
    let chain = find_chain(cursor, work.rule(), &names)?;
    if depend_on_one_another(cursor, &chain) {
        tile_skewed(work, &chain, &factors)?;
        return Ok(());
    }
    // Splitting from the innermost outward keeps the paths of those not yet split; each split puts one
    // more loop around what is inside.
    let mut by_depth: Vec<usize> = (0..chain.len()).collect();
    by_depth.sort_by_key(|n| std::cmp::Reverse(chain[*n].len()));
    for n in by_depth {
        let (l, s) = work.serial_loop(&chain[n])?;
        let new = split(work, &l, &s, factors[n], (None, None));
        work.replace(&chain[n], new, Kind::Bijection)?;
    }
    // Where the loops are now: every split loop above adds a position.
    let now = |n: usize, inside: usize| -> Path {
        let mut path = Path::new();
        for (depth, step) in chain[n].iter().enumerate() {
            if chain.iter().any(|c| c.len() == depth && chain[n].starts_with(c)) {
                path.push(0);
            }
            path.push(*step);
        }
        path.extend(std::iter::repeat_n(0, inside));
        path
    };
    let order: Vec<Path> =
        (0..chain.len()).map(|n| now(n, 0)).chain((0..chain.len()).map(|n| now(n, 1))).collect();
    if order.iter().any(|p| !is_loop(&work.func().body, p)) {
        return Err(work.refuse(codes::SHAPE, "a tile of size 0"));
    }
    let compared = work.runs_compared()?;
    reorder(work, &order)?;
    let named = |(p, f): (&Path, &i64)| {
        let l = cursor.at(p).and_then(|s| s.as_loop()).map_or(String::new(), |l| l.binder.name.to_string());
        (l, *f)
    };
    let claim = Claim::Tiled { factors: chain.iter().zip(&factors).map(named).collect() };
    work.oblige(match compared {
        Some(compared) => Obligation::by_accesses(claim, compared),
        None => Obligation::by_rule(claim),
    });
    Ok(())
}

fn depend_on_one_another(cursor: &Cursor, chain: &[Path]) -> bool {
    let loops: Vec<_> = chain.iter().filter_map(|p| cursor.at(p)?.as_loop()).collect();
    loops.iter().any(|l| loops.iter().any(|o| mentions(&l.lo, o.binder.id) || mentions(&l.hi, o.binder.id)))
}

/// Tiles of a nest that is not a box: all loops are renumbered at once.
fn tile_skewed(work: &mut Work, chain: &[Path], factors: &[i64]) -> Result<(), Refusal> {
    let (path, nest) = perfect_nest(work, chain)?;
    let mut outer = Vec::new();
    let mut inner = Vec::new();
    // Loops of the nest that are not tiled stay among those inside, where they are.
    let first = path.len();
    let mut wanted: Vec<(usize, Option<i64>)> =
        chain.iter().zip(factors).map(|(p, f)| (p.len() - first, Some(*f))).collect();
    for position in 0..nest.loops.len() {
        if !wanted.iter().any(|w| w.0 == position) {
            wanted.insert(position.min(wanted.len()), (position, None));
        }
    }
    for (position, factor) in wanted {
        let l = &nest.loops[position];
        let (name, i) = (&l.binder.name, var(&l.binder));
        match factor {
            Some(f) => {
                outer.push((Role::Outer.of(name), floor_div(i.clone(), index(f))));
                inner.push((Role::Inner.of(name), floor_mod(i, index(f))));
            }
            None => inner.push((name.to_string(), i)),
        }
    }
    outer.extend(inner);
    let made = renumber(work, &path, &nest, &outer)?;
    let outer_names: Vec<String> =
        chain.iter().map(|p| nest.loops[p.len() - first].binder.name.to_string()).collect();
    let factors = outer_names.into_iter().zip(factors.iter().copied()).collect();
    work.replace_checked(&path, made)?;
    work.renumbered(Claim::Tiled { factors });
    Ok(())
}
