//! `separate`: full blocks get separate code, without the conditions that partial blocks need.

use crate::args::Args;
use crate::names::{find_all_loops, find_loops};
use crate::nest::{around, mentions};
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::build::{add, ceil_div, floor_div, index, lt, max, min};
use lathe_ir::names::Role;
use lathe_ir::stmt::Enters;
use lathe_ir::visit;
use lathe_ir::{BinOp, Executor, Expr, ExprKind, Loop, Stmt, StmtKind, VarId};
use lathe_poly::Linear;
use lathe_poly::simplify::simplify_stmt;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Construction, Obligation, Refusal};
use std::collections::{HashMap, HashSet};

rule! {
    /// After `split(i, 8)`, the loop `i.i` runs to `min(8, n - 8*i.o)`. `separate(i.o)` cuts the outer loop where that
    /// becomes less than 8: the full blocks have a constant trip count of 8, so they can be unrolled and vectorized
    /// without masks; the last, partial block is executed by copies of the loops whose names end in `.rest`; with
    /// constant sizes its bounds are constants, too. `separate(i)` means `separate(i.o)`.
    ///
    /// `separate(i.o, partial: inside)` leaves the loop whole, and a condition in it chooses between the two: for a loop
    /// that runs on threads, where the partial block behind it would run on one of them.
    ///
    /// **Legal** for every loop over blocks: the order of the iterations stays. Where all blocks are full nothing
    /// changes.
    ///
    /// ```lathe
    /// kernel scale(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy s for scale = split(i, 8) ; separate(i.o) ; unroll(i.i)
    /// ```
    pub static RULE = separate, version 1, (loop: one Loop, partial: optional Word), apply,
        "full-tile separation: generates separate code for full blocks and for the partial block at the end";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let mut name = args.path(work.rule(), "loop", 0)?;
    let outer = Role::Outer.of(&name);
    let inside = args.opt_word(work.rule(), "partial", 1, &["after", "inside"])? == Some("inside");
    if find_loops(cursor, &name).is_empty() && !find_loops(cursor, &outer).is_empty() {
        name = outer;
    }
    for path in find_all_loops(cursor, work.rule(), &name)?.into_iter().rev() {
        let (l, s) = work.loop_at(&path)?;
        if l.exec != Executor::Cpu {
            work.serial_loop(&path)?;
        }
        if !has_blocks(&l) {
            let text = format!("`{name}` is not a loop over blocks");
            return Err(work.refuse_loop(&s, text, "split the loop first"));
        }
        let Some(Full { cut, remains, sizes }) = full_blocks(&l) else {
            if work.ranges(&path).le(&l.hi, &l.lo) || !has_min(&l) {
                work.oblige(Obligation::by_rule(Claim::Full { over: name.clone() }));
                continue;
            }
            let text = format!("blocks of `{name}` have no fixed full size");
            return Err(work.refuse_loop(&s, text, "name the outer loop of a `split`, for example `i.o`"));
        };
        let new = if inside {
            chosen(work, &l, s.places(), Full { cut, remains, sizes })
        } else {
            with_remains(&cut_loop(work, &l, s.places(), cut, Role::Rest, false), &l, remains)
        };
        let new = with_known_blocks(&simplify_stmt(&new, &mut work.ranges(&path)));
        work.replace_by_rule(&path, new, Kind::Bijection, Construction::Separated)?;
    }
    Ok(())
}

/// The loop as it is, whose iterations from a value on run a copy of its body.
fn chosen(work: &mut Work, l: &Loop, places: &Places, Full { cut, remains, sizes }: Full) -> Stmt {
    let copy = work.copy_as(Role::Rest, &l.body);
    let known = |e: Expr| remains.as_ref().filter(|r| r.0 == e).map_or(e, |r| index(r.1));
    let copy = visit::map_exprs(&copy, &mut |e| visit::map_expr(e, &mut |e| known(e)));
    // What the condition says of sizes of blocks.
    let full = |e: Expr| sizes.iter().find(|s| s.is(&e)).map_or(e.clone(), |s| s.full.clone());
    let full = visit::map_exprs(&l.body, &mut |e| visit::map_expr(e, &mut |e| full(e)));
    let one_cut = sizes.iter().all(|s| s.cut == cut);
    let rest = |e: Expr| sizes.iter().find(|s| one_cut && s.is(&e)).map_or(e.clone(), |s| s.partial.clone());
    let copy = visit::map_exprs(&copy, &mut |e| visit::map_expr(e, &mut |e| rest(e)));
    // Where these are one, its number is known.
    let one = match (cut.as_int(), l.hi.as_int()) {
        (Some(cut), Some(hi)) if l.step == 1 && cut + 1 == hi => Some(cut),
        _ => None,
    };
    let copy = match one {
        Some(n) => visit::substitute_stmt(&copy, &HashMap::from([(l.binder.id, index(n))])),
        None => copy,
    };
    let cond = lt(lathe_ir::build::var(&l.binder), cut);
    let body = StmtKind::If { cond, then: full, other: Some(copy) };
    around(l, places, Stmt::new(body, places.clone()))
}

/// A loop over one known block says its number in its body, so that the bounds inside are constants where sizes are.
fn with_known_blocks(s: &Stmt) -> Stmt {
    if let Some(all) = s.as_seq() {
        return Stmt::seq(all.iter().map(with_known_blocks));
    }
    let bounds = s.as_loop().and_then(|l| Some((l, l.lo.as_int()?, l.hi.as_int()?)));
    match bounds {
        Some((l, lo, hi)) if lo < hi && lo + l.step >= hi => {
            let body = visit::substitute_stmt(&l.body, &HashMap::from([(l.binder.id, index(lo))]));
            around(l, s.places(), body)
        }
        _ => s.clone(),
    }
}

/// A loop cut at a value: `lo..cut` and `cut..hi`. A cut before the beginning leaves the first part empty, one beyond the end
/// the second. One of the two (`first`: the one before the cut) is a copy whose loops have a part.
pub fn cut_loop(work: &mut Work, l: &Loop, places: &Places, cut: Expr, role: Role, first: bool) -> Stmt {
    let (end, begin) = if l.step == 1 {
        (min(cut.clone(), l.hi.clone()), max(l.lo.clone(), cut))
    } else {
        // The second part starts at an iteration of the loop.
        let within = max(l.lo.clone(), min(cut, l.hi.clone()));
        let count = ceil_div(lathe_ir::build::sub(within, l.lo.clone()), l.step);
        let cut = crate::split::iteration(l, count);
        (cut.clone(), cut)
    };
    let before = around(&Loop { hi: end, ..l.clone() }, places, l.body.clone());
    let after = around(&Loop { lo: begin, ..l.clone() }, places, l.body.clone());
    if first {
        let copy = work.copy_as(role, &before);
        Stmt::seq([copy, after])
    } else {
        let copy = work.copy_as(role, &after);
        Stmt::seq([before, copy])
    }
}

/// Whether an iteration is a block: of some statement inside, instances differ within it, or from one to the next by more
/// than one.
fn has_blocks(l: &Loop) -> bool {
    let inner: HashSet<VarId> = loops_in(&l.body);
    let mut found = false;
    visit::walk(&l.body, &mut |s, _| {
        found |= s.instance().iter().any(|e| {
            let form = Linear::of(e);
            mentions(e, l.binder.id) && (form.factor(l.binder.id).abs() != 1 || form.mentions(&inner))
        });
        !found
    });
    found
}

fn loops_in(s: &Stmt) -> HashSet<VarId> {
    let mut out = HashSet::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.as_loop().map(|l| l.binder.id));
        true
    });
    out
}

fn has_min(l: &Loop) -> bool {
    let mut found = false;
    visit::walk(&l.body, &mut |s, _| {
        if let Some(inner) = s.as_loop() {
            visit::walk_expr(&inner.hi, &mut |e| {
                found |= matches!(e.kind(), ExprKind::Binary(BinOp::Min, ..)) && mentions(e, l.binder.id);
            });
        }
        true
    });
    found
}

/// The full blocks of a loop.
struct Full {
    /// Where the loop must be cut so that every `min(T, e - k·i)` in the bounds inside is constantly `T` before.
    cut: Expr,
    /// What such an `e - k·i` is in the block that is not full, if that is one number.
    remains: Option<(Expr, i64)>,
    sizes: Vec<Size>,
}

/// The size of a block, `min(full, partial)`, which is full before a value.
struct Size {
    full: Expr,
    partial: Expr,
    cut: Expr,
}

impl Size {
    fn is(&self, e: &Expr) -> bool {
        let ExprKind::Binary(BinOp::Min, a, b) = e.kind() else { return false };
        (a, b) == (&self.full, &self.partial) || (b, a) == (&self.full, &self.partial)
    }
}

fn full_blocks(l: &Loop) -> Option<Full> {
    let mut inside: HashSet<VarId> = HashSet::new();
    let mut cut: Option<Expr> = None;
    let mut sizes: Vec<Size> = Vec::new();
    visit::walk(&l.body, &mut |s, _| {
        inside.extend(s.binders().into_iter().map(|b| b.0.id));
        let bounds: Vec<&Expr> = match s.enters(0) {
            Enters::Loop(inner) => vec![&inner.lo, &inner.hi],
            Enters::Let(_, value) => vec![value],
            Enters::Nothing
            | Enters::Condition(..)
            | Enters::While(_)
            | Enters::Alloc(_)
            | Enters::Value(_) => vec![],
        };
        for e in bounds {
            visit::walk_expr(e, &mut |e| {
                let ExprKind::Binary(BinOp::Min, a, b) = e.kind() else { return };
                for (full, partial) in [(a, b), (b, a)] {
                    if let Some(c) = block_cut(l.binder.id, full, partial, &inside) {
                        if !sizes.iter().any(|s| (&s.full, &s.partial) == (full, partial)) {
                            sizes.push(Size { full: full.clone(), partial: partial.clone(), cut: c.clone() });
                        }
                        cut = Some(match cut.take() {
                            Some(old) if old != c => min(old, c),
                            _ => c,
                        });
                        return;
                    }
                }
            });
        }
        true
    });
    let remains = match sizes.as_slice() {
        [one] => remainder(l, &one.full, &one.partial).map(|n| (one.partial.clone(), n)),
        _ => None,
    };
    Some(Full { cut: cut?, remains, sizes })
}

/// What `partial = r - T·i` is where it is more than 0 and less than the full `T`, if `r` leaves only one remainder
/// there, and the loop ends with the last block that has anything in it.
fn remainder(l: &Loop, full: &Expr, partial: &Expr) -> Option<i64> {
    let size = full.as_int().filter(|n| *n > 1 && l.step == 1)?;
    let mut all = Linear::of(partial);
    let at = all.terms.iter().position(|t| t.0.as_var() == Some(l.binder.id) && t.1 == -size)?;
    all.terms.remove(at);
    let blocks = |e: &Expr| Linear::of(e).to_expr();
    if blocks(&ceil_div(all.to_expr(), size)) != blocks(&l.hi) {
        return None;
    }
    let mut left: Vec<i64> = remainders(&all, size)?.into_iter().filter(|n| *n != 0).collect();
    left.dedup();
    if let [one] = left.as_slice() { Some(*one) } else { None }
}

/// What remains of a form after division, for each of the values that a minimum in it may take.
fn remainders(form: &Linear, size: i64) -> Option<Vec<i64>> {
    let mut out = vec![form.constant.rem_euclid(size)];
    for (atom, factor) in &form.terms {
        if factor % size == 0 {
            continue;
        }
        let ExprKind::Binary(BinOp::Min, a, b) = atom.kind() else { return None };
        let mut each = remainders(&Linear::of(a), size)?;
        each.extend(remainders(&Linear::of(b), size)?);
        let sums = out.iter().flat_map(|o| each.iter().map(move |e| (o, e)));
        let sums = sums.map(|(o, e)| Some((o + e.checked_mul(*factor)?).rem_euclid(size)));
        out = sums.collect::<Option<_>>()?;
        out.sort_unstable();
        out.dedup();
    }
    Some(out)
}

/// The part that holds the block that is not full (the second one), with its size as a number.
fn with_remains(s: &Stmt, old: &Loop, remains: Option<(Expr, i64)>) -> Stmt {
    let (Some(parts), Some((partial, n))) = (s.as_seq(), remains) else { return s.clone() };
    let rest = parts.last().and_then(|p| Some((p, p.as_loop()?)));
    let Some((stmt, l)) = rest.filter(|r| r.1.binder.id != old.binder.id) else { return s.clone() };
    let new = HashMap::from([(old.binder.id, lathe_ir::build::var(&l.binder))]);
    let partial = visit::substitute(&partial, &new);
    let known = |e: Expr| if e == partial { index(n) } else { e };
    let body = visit::map_exprs(&l.body, &mut |e| visit::map_expr(e, &mut |e| known(e)));
    let rest = around(l, stmt.places(), body);
    Stmt::seq(parts[..parts.len() - 1].iter().cloned().chain([rest]))
}

/// `partial = r - k·i ≥ full` holds for `i < (r - full + k) // k`.
fn block_cut(i: VarId, full: &Expr, partial: &Expr, inside: &HashSet<VarId>) -> Option<Expr> {
    let unknown = |e: &Expr| visit::vars_of(e).iter().any(|v| *v == i || inside.contains(v));
    if unknown(full) {
        return None;
    }
    let mut form = Linear::of(partial);
    let at = form.terms.iter().position(|t| t.0.as_var() == Some(i))?;
    let k = form.terms.remove(at).1.checked_neg().filter(|k| *k > 0)?;
    if form.terms.iter().any(|t| unknown(&t.0)) {
        return None;
    }
    let reach = form.minus(&Linear::of(full))?;
    Some(floor_div(add(reach.to_expr(), index(k)), index(k)))
}
