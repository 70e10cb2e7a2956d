//! `reorder`: loops of a nest in another order, statements between them distributed as needed.

use crate::args::{Args, IntoRefusal, as_path};
use crate::codes;
use crate::names::{find_all_loops, list};
use crate::nest::{around, mentions};
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::stmt::{Effects, Enters};
use lathe_ir::visit::{self, Path};
use lathe_ir::{Expr, Loop, Stmt, StmtKind};
use lathe_poly::Ranges;
use lathe_strategy::{Construction, Obligation, Refusal};

rule! {
    /// `reorder(k, i, j)` puts three nested loops into that order, outermost first (*loop interchange*). Loops of the
    /// nest that are not named stay where they are. Statements between the loops, such as `C.init` before the loop `k`
    /// of a reduction, get separate loops (see `fission`); outermost loops that keep their place stay shared.
    /// Conditions between the loops are moved inside them, if they read no array.
    ///
    /// **Legal** if every dependence keeps its order, and if no loop is moved out of a loop that its bounds depend on.
    ///
    /// ```lathe
    /// kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) {
    ///     C[i, j] = sum[k](A[i, k] * B[k, j])
    /// }
    /// strategy s for gemm = reorder(i, k, j)
    /// ```
    pub static RULE = reorder, version 1, (loop: many Loop), apply,
        "loop interchange: puts loops of a nest into the given order, outermost first";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let mut names = Vec::new();
    for (name, arg, span) in &args.items {
        if name.is_some() {
            let d = crate::args::wrong("`reorder` takes loops only, outermost first".to_string(), *span);
            return Err(d.into_refusal(work.rule()));
        }
        names.push(as_path(work.rule(), "loop", arg, *span)?);
    }
    let order = find_chain(cursor, work.rule(), &names)?;
    reorder(work, &order)?;
    Ok(())
}

/// One loop for each name, all of one nest, in the order of the names; no loop has two of the names.
pub fn find_chain(cursor: &Cursor, rule: &str, names: &[String]) -> Result<Vec<Path>, Refusal> {
    let chain = find_nest(cursor, rule, names)?;
    for (n, path) in chain.iter().enumerate() {
        let Some(first) = chain[..n].iter().position(|p| p == path) else { continue };
        let (a, b) = (&names[first], &names[n]);
        let text = match a == b {
            true => format!("`{rule}` names the loop `{a}` twice"),
            false => format!("`{rule}`: `{a}` and `{b}` are the same loop"),
        };
        let d = Diagnostic::error(codes::ARGUMENT, text);
        let d = cursor.at(path).into_iter().fold(d, |d, s| d.at_places(s.places(), "both name this loop"));
        return Err(d.help("name every loop once").into_refusal(rule));
    }
    Ok(chain)
}

/// One loop for each name, all of one nest, in the order of the names; several names may denote one loop.
pub fn find_nest(cursor: &Cursor, rule: &str, names: &[String]) -> Result<Vec<Path>, Refusal> {
    let mut all = Vec::new();
    for n in names {
        all.push(find_all_loops(cursor, rule, n)?);
    }
    // An innermost loop decides: around it there may be at most one loop of each other name.
    let mut chains: Vec<Vec<Path>> = Vec::new();
    for inner in all.iter().flatten() {
        let chain: Option<Vec<Path>> =
            all.iter().map(|ps| ps.iter().rfind(|p| inner.starts_with(p)).cloned()).collect();
        if let Some(c) = chain
            && !chains.contains(&c)
        {
            chains.push(c);
        }
    }
    match chains.len() {
        1 => Ok(chains.remove(0)),
        0 => {
            let d = Diagnostic::error(
                codes::SHAPE,
                format!("`{rule}`: the loops {} are not nested", list(names)),
            );
            let places = all.iter().flatten().filter_map(|p| cursor.at(p));
            let d = places.take(4).fold(d, |d, s| d.at_places(s.places(), "one of the loops"));
            Err(d.help("`fuse` makes one loop of two adjacent ones").into_refusal(rule))
        }
        n => Err(Diagnostic::error(
            codes::AMBIGUOUS,
            format!("`{rule}`: {} nests have the loops {}", n, list(names)),
        )
        .help(format!("select one by a label inside it: `{rule}(…) @ stmt(C)`"))
        .into_refusal(rule)),
    }
}

/// A loop on the way from the outermost to the innermost loop that moves, and what is beside the next one.
struct Level {
    l: Loop,
    places: Places,
    before: Vec<Stmt>,
    after: Vec<Stmt>,
}

/// Puts nested loops into the order given.
pub fn reorder(work: &mut Work, order: &[Path]) -> Result<(), Refusal> {
    let mut slots: Vec<&Path> = order.iter().collect();
    slots.sort_by_key(|p| p.len());
    let moved: Vec<bool> = slots.iter().zip(order).map(|(a, b)| *a != b).collect();
    let (Some(first), Some(last)) = (moved.iter().position(|m| *m), moved.iter().rposition(|m| *m)) else {
        work.oblige(Obligation::order(Construction::Unchanged));
        return Ok(());
    };
    let outer = slots[first].clone();
    let inner = slots[last].clone();
    let (levels, body) = levels(work, &outer, &inner)?;
    // Positions of the levels in the new order: those not named keep their slot.
    let place_of = |p: &Path| {
        (outer.len()..=p.len())
            .filter(|n| crate::nest::is_loop(&work.func().body, &p[..*n]))
            .count()
            .saturating_sub(1)
    };
    let mut new: Vec<usize> = (0..levels.len()).collect();
    for (slot, wanted) in slots.iter().zip(order).take(last + 1).skip(first) {
        new[place_of(slot)] = place_of(wanted);
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut tail: Vec<Part> = Vec::new();
    for (q, level) in levels.iter().enumerate() {
        let loops: Vec<usize> = new.iter().copied().filter(|n| *n <= q).collect();
        if !level.before.is_empty() {
            parts.push(Part { loops: loops.clone(), body: Stmt::seq(level.before.clone()), core: false });
        }
        if !level.after.is_empty() {
            if level.after.iter().any(has_check) {
                let name = &level.l.binder.name;
                return Err(
                    work.refuse(codes::SHAPE, format!("a check at the end of `{name}` would be delayed"))
                );
            }
            tail.push(Part { loops, body: Stmt::seq(level.after.clone()), core: false });
        }
    }
    parts.push(Part { loops: new, body, core: true });
    parts.extend(tail.into_iter().rev());
    let made = build(work, &levels, parts)?;
    work.replace_checked(&outer, made)
}

/// Statements with the loops (by level) they are to have around them, outermost first.
struct Part {
    loops: Vec<usize>,
    body: Stmt,
    /// Keeps the binders; the others get fresh ones.
    core: bool,
}

/// Nests for the parts one after the other; a loop that all begin with is shared.
fn build(work: &mut Work, levels: &[Level], mut parts: Vec<Part>) -> Result<Stmt, Refusal> {
    if let Some(first) = parts[0].loops.first().copied()
        && parts.iter().all(|p| p.loops.first() == Some(&first))
    {
        let l = &levels[first].l;
        for p in &parts {
            for inside in &p.loops[1..] {
                let (b, other) = (l.binder.id, &levels[*inside].l);
                debug_assert_ne!(b, other.binder.id);
                if mentions(&l.lo, other.binder.id) || mentions(&l.hi, other.binder.id) {
                    return Err(bounds_refusal(work, &levels[first], other));
                }
            }
        }
        for p in &mut parts {
            p.loops.remove(0);
        }
        let body = build(work, levels, parts)?;
        return Ok(around(l, &levels[first].places, body));
    }
    if parts.len() == 1 {
        let p = parts.remove(0);
        return Ok(p.body);
    }
    let mut out = Vec::new();
    for p in parts {
        let core = p.core;
        let nest = build(work, levels, vec![p])?;
        out.push(if core { nest } else { work.copy(&nest) });
    }
    Ok(Stmt::seq(out))
}

fn bounds_refusal(work: &Work, level: &Level, other: &Loop) -> Refusal {
    let (a, b) = (&level.l.binder.name, &other.binder.name);
    let text = format!("the bounds of `{a}` depend on `{b}`, which would be inside it");
    let help = format!(
        "`affine_schedule({b})` computes new bounds for loops that depend on one another, and so does `remap({a}: …, {b}: …)`"
    );
    work.refuse_at(codes::SHAPE, text, help, &level.places)
}

fn has_check(s: &Stmt) -> bool {
    s.effects().contains(Effects::FAILS)
}

/// Whether a condition may be asked inside of the loops that it guards: it reads no memory, and neither it nor their
/// bounds fail where it is false. `known` is what is known where it is.
fn moves_inward(cond: &Expr, then: &Stmt, mut known: Ranges) -> bool {
    fn bounds(s: &Stmt, known: &mut Ranges) -> bool {
        let ends = s.as_loop().into_iter().flat_map(|l| [&l.lo, &l.hi]);
        let safe = ends.into_iter().all(|e| visit::loads_of(e).is_empty() && known.fits(e));
        safe && s.children().enumerate().all(|(k, c)| {
            let mark = s.as_if().is_none().then(|| known.enter_child(s, k));
            let safe = bounds(c, known);
            mark.into_iter().for_each(|m| known.leave(m));
            safe
        })
    }
    visit::loads_of(cond).is_empty() && known.fits(cond) && bounds(then, &mut known)
}

/// The loops from `outer` to `inner`, and the body of the innermost.
fn levels(work: &Work, outer: &Path, inner: &Path) -> Result<(Vec<Level>, Stmt), Refusal> {
    let mut here = work.at(outer)?.clone();
    let mut steps = inner[outer.len()..].iter().copied();
    let mut out: Vec<Level> = Vec::new();
    // Conditions between the loops, outermost first: what they guard keeps them.
    let mut conds: Vec<Expr> = Vec::new();
    let guarded = |s: &Stmt, conds: &[Expr]| {
        conds.iter().rev().fold(s.clone(), |then, cond| {
            Stmt::new(StmtKind::If { cond: cond.clone(), then, other: None }, s.places().clone())
        })
    };
    loop {
        if let Some(l) = here.as_loop() {
            let places = here.places().clone();
            out.push(Level { l: l.clone(), places, before: Vec::new(), after: Vec::new() });
            match steps.next() {
                Some(_) => here = l.body.clone(),
                None => return Ok((out, guarded(&l.body, &conds))),
            }
        } else if let Some((cond, then, None)) = here.as_if()
            && steps.len() > 0
            && moves_inward(cond, then, work.ranges(&inner[..inner.len() - steps.len()]))
        {
            steps.next();
            conds.push(cond.clone());
            here = then.clone();
        } else if let Some(v) = here.as_seq() {
            let (Some(p), Some(level)) = (steps.next(), out.last_mut()) else { break };
            let Some(next) = v.get(p) else { break };
            level.before.extend(v[..p].iter().map(|s| guarded(s, &conds)));
            // What follows an outer sequence comes after what follows an inner one.
            level.after.splice(0..0, v[p + 1..].iter().map(|s| guarded(s, &conds)));
            here = next.clone();
        } else {
            let what = match here.enters(0) {
                Enters::Alloc(buffer) => format!("the local array `{}`", buffer.name),
                Enters::Let(binder, _) => format!("`let {}`", binder.name),
                Enters::Condition(..) => "an `if`".to_string(),
                Enters::While(_) => "a `while`".to_string(),
                Enters::Nothing | Enters::Loop(_) | Enters::Value(_) => "another statement".to_string(),
            };
            let text = format!("{what} is between the loops");
            let help = match (here.allocated(), out.last()) {
                (Some(b), Some(outer)) => format!(
                    "give every iteration its own copy first: `expand({}, at: {})`; `affine_schedule` then schedules the nest",
                    b.name, outer.l.binder.name
                ),
                _ => "between interchanged loops there may only be loops and their sibling statements"
                    .to_string(),
            };
            return Err(work.refuse_at(codes::SHAPE, text, help, here.places()));
        }
    }
    Err(work.refuse(codes::SHAPE, "the loops are gone"))
}
