//! `remap`: a nest under an affine bijection of its iterations.

use crate::args::{Args, IntoRefusal, wrong};
use crate::codes;
use crate::convert::{arg_expr, to_index, variable_at};
use crate::names::list;
use crate::nest::serial;
use crate::reorder::find_nest;
use crate::rule;
use crate::work::Work;
use lathe_analysis::{Env, scan_affine};
use lathe_diagnostics::Places;
use lathe_ir::visit::{self, Path, map_expr};
use lathe_ir::{BinOp, Binder, Executor, Expr, ExprKind, Loop, Stmt, StmtKind, build};
use lathe_poly::Affine;
use lathe_strategy::{Claim, Refusal};
use std::collections::HashMap;

rule! {
    /// `remap(t: t, x: x + t)` replaces the nest of the loops `t` and `x` by loops `t` and `x` over the image of their
    /// iterations: each argument names a new loop, outermost first, and says what its variable is in terms of the old
    /// ones. Bounds are computed so that every old iteration is run exactly once. Besides sums and constant multiples,
    /// `e // c` and `e % c` are allowed, so that tiles of any shape can be asked for:
    ///
    /// * skew: `remap(t: t, x: x + t)`
    /// * wavefront: `remap(w: i + j, i: i)`
    /// * diamonds of 32 by 32: `remap(p: (t + x) // 32, q: (t - x) // 32, t: t, x: x)`
    ///
    /// **Legal** if the map is a bijection of the iterations (different iterations get different numbers, and none is
    /// left out), and if every dependence keeps its order. The loops must be perfectly nested. In polyhedral compilers
    /// this is an *affine schedule*.
    ///
    /// ```lathe
    /// kernel seidel(u: inout f32[T, N]) {
    ///     for t in 0..T-1 { for x in 1..N-1 {
    ///         u[t+1, x] = u[t+1, x-1] + u[t, x+1]
    ///     } }
    /// }
    /// strategy s for seidel = remap(t: t, x: x + t) ; tile(t: 16, x: 64)
    /// ```
    pub static RULE = remap, version 1, (loop: many Data), apply,
        "affine schedule: transforms the iterations of a nest by an affine bijection (skew, wavefront, diamond)";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let mut rows = Vec::new();
    let mut names: Vec<String> = Vec::new();
    for (name, arg, span) in &args.items {
        let Some(name) = name else {
            let d = wrong("`remap` takes `new: expression` for each new loop".to_string(), *span);
            return Err(d.help("write remap(t: t, x: x + t)").into_refusal(work.rule()));
        };
        let e = arg_expr(arg);
        for n in lathe_space::names(&e) {
            let size = cursor.func.size(&n).is_some() || cursor.func.params.iter().any(|p| **p.name() == *n);
            if !size && !names.contains(&n) {
                names.push(n);
            }
        }
        rows.push((name.clone(), e, *span));
    }
    // A loop around the nest may be used like a size; the nest is what must be renumbered as a whole.
    let chain = find_nest(cursor, work.rule(), &names)?;
    let (path, nest) = perfect_nest(work, &chain)?;
    let mut new = Vec::new();
    for (name, e, span) in rows {
        let lookup = |n: &str| {
            let old =
                names.iter().position(|m| m == n).and_then(|p| cursor.at(&chain[p])).and_then(Stmt::as_loop);
            old.map(|l| build::var(&l.binder)).or_else(|| variable_at(cursor.func, &path, n))
        };
        let e = to_index(&e, &lookup)
            .map_err(|m| wrong(format!("`remap`: {m}"), span).into_refusal(work.rule()))?;
        new.push((name, e));
    }
    let made = renumber(work, &path, &nest, &new)?;
    let innermost = chain.iter().max_by_key(|p| p.len()).unwrap_or(&path);
    let inside = crate::nest::child(innermost, 0);
    let map = new.iter().map(|(n, e)| (n.clone(), work.formula(&inside, e))).collect();
    work.replace_checked(&path, made)?;
    work.renumbered(Claim::Renumbered { map });
    Ok(())
}

/// Perfectly nested loops.
pub struct Nest {
    pub loops: Vec<Loop>,
    pub places: Places,
    pub body: Stmt,
}

/// The nest of the loops of a chain: from the outermost to the innermost, with nothing else between.
pub fn perfect_nest(work: &Work, chain: &[Path]) -> Result<(Path, Nest), Refusal> {
    let (Some(outer), Some(inner)) =
        (chain.iter().min_by_key(|p| p.len()), chain.iter().max_by_key(|p| p.len()))
    else {
        return Err(work.refuse(codes::ARGUMENT, format!("`{}` needs at least one loop", work.rule())));
    };
    let mut here = work.at(outer)?.clone();
    let mut nest = Nest { loops: Vec::new(), places: here.places().clone(), body: here.clone() };
    for _ in outer.len()..=inner.len() {
        let Some(l) = here.as_loop() else {
            let names: Vec<String> = nest.loops.iter().map(|l| l.binder.name.to_string()).collect();
            let text =
                format!("the loops are not perfectly nested; inside {} is something else", list(&names));
            let help =
                "`fission` moves statements between loops to separate loops; `fuse` merges adjacent loops";
            return Err(work.refuse_at(codes::SHAPE, text, help, here.places()));
        };
        if l.exec != Executor::Serial {
            let word = crate::split::executor_word(&l.exec);
            return Err(work
                .refuse(codes::SHAPE, format!("`{}`: the loop `{}` is {word}", work.rule(), l.binder.name)));
        }
        nest.loops.push(l.clone());
        nest.body = l.body.clone();
        here = l.body.clone();
    }
    Ok((outer.clone(), nest))
}

/// The nest over new variables, each given as an expression in the old ones: affine, or with `// c` and
/// `% c` of affine expressions. A floor becomes a loop of one iteration inside the old nest, so that the
/// whole is an affine map again.
pub fn renumber(
    work: &mut Work,
    path: &[usize],
    nest: &Nest,
    rows: &[(String, Expr)],
) -> Result<Stmt, Refusal> {
    let refuse = |work: &Work, why: String| {
        let help = "give as many new loops as there are old ones; otherwise the map is not injective";
        Err(work.refuse_at(codes::SHAPE, why, help, &nest.places))
    };
    let mut floors = Floors { known: HashMap::new(), loops: Vec::new() };
    let mut new: Vec<(Binder, Affine)> = Vec::new();
    for (name, e) in rows {
        let e = floors.flatten(work, e);
        let Some(form) = Affine::of(&e) else {
            return refuse(
                work,
                format!("the new loop `{name}` is not an affine expression of the old ones"),
            );
        };
        let binder = work.fresh(name);
        new.push((binder, form));
    }
    // Bounds with steps count iterations instead.
    let mut old: Vec<Loop> = Vec::new();
    let mut body = nest.body.clone();
    for l in &nest.loops {
        if l.step == 1 {
            old.push(l.clone());
            continue;
        }
        return refuse(
            work,
            format!("the loop `{}` has step {}; `split` or normalize it", l.binder.name, l.step),
        );
    }
    old.extend(floors.loops);
    if new.len() < old.len() {
        return refuse(
            work,
            format!(
                "{} new loops cannot distinguish the iterations of {}",
                rows.len(),
                describe(&nest.loops, old.len())
            ),
        );
    }
    if new.len() > old.len() {
        let names = describe(&nest.loops, nest.loops.len());
        return refuse(
            work,
            format!("{} new loops, but only {names} appear in their expressions", rows.len()),
        );
    }
    let refs: Vec<&Loop> = old.iter().collect();
    let scan = {
        let env = Env::at(work.module(), work.func(), path);
        scan_affine(&env, &refs, &new)
    };
    let scan = match scan {
        Ok(s) => s,
        Err(why) => return refuse(work, why),
    };
    let map: HashMap<_, _> = scan.old.into_iter().collect();
    body = visit::substitute_stmt(&body, &map);
    let guard = scan.guards.into_iter().fold(build::boolean(true), build::and);
    if guard.as_bool() != Some(true) {
        body = Stmt::new(StmtKind::If { cond: guard, then: body, other: None }, nest.places.clone());
    }
    for (binder, lo, hi) in scan.loops.into_iter().rev() {
        body = serial(binder, lo, hi, body, &nest.places);
    }
    Ok(body)
}

fn describe(loops: &[Loop], all: usize) -> String {
    let names: Vec<String> = loops.iter().map(|l| l.binder.name.to_string()).collect();
    match all - loops.len() {
        0 => list(&names),
        n => format!("{} and {n} roundings", list(&names)),
    }
}

/// Loops of one iteration for the floors of affine expressions.
struct Floors {
    known: HashMap<(Expr, i64), Binder>,
    loops: Vec<Loop>,
}

impl Floors {
    /// The expression with floors as variables, and remainders in terms of them.
    fn flatten(&mut self, work: &mut Work, e: &Expr) -> Expr {
        map_expr(e, &mut |e| {
            let ExprKind::Binary(op @ (BinOp::FloorDiv | BinOp::FloorMod), a, b) = e.kind() else { return e };
            let Some(c) = b.as_int().filter(|c| *c > 0) else { return e };
            let quotient = self.floor(work, a, c);
            if *op == BinOp::FloorDiv {
                quotient
            } else {
                build::sub(a.clone(), build::mul(quotient, build::index(c)))
            }
        })
    }

    fn floor(&mut self, work: &mut Work, a: &Expr, c: i64) -> Expr {
        let key = (a.clone(), c);
        if let Some(b) = self.known.get(&key) {
            return build::var(b);
        }
        let binder = work.fresh("tile");
        let lo = build::floor_div(a.clone(), build::index(c));
        let hi = build::add(lo.clone(), build::index(1));
        let body = Stmt::empty();
        self.loops.push(Loop { binder: binder.clone(), lo, hi, step: 1, exec: Executor::Serial, body });
        self.known.insert(key, binder.clone());
        build::var(&binder)
    }
}
