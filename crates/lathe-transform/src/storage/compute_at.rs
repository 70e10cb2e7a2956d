//! `compute_at`: an intermediate array is computed where it is used, part by part.

use super::make::{self, check_space};
use super::options;
use super::producer::Producer;
use super::region::{self, Region};
use super::scope::{self, Around, Found};
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::expr::Expr;
use lathe_ir::visit;
use lathe_ir::{Buffer, Loop, Space, Stmt, StmtKind, VarId, build};
use lathe_poly::Linear;
use lathe_poly::bounds;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};
use std::collections::HashMap;

const RULE: &str = "compute_at";

rule! {
    /// `compute_at(P, y.o)` moves the nests that compute the local array `P` into the loop `y.o`, restricted to the
    /// elements that one iteration reads; the array shrinks to that box. Elements that several iterations need (the
    /// rims of stencils) are computed again by each. The loops keep their names, and the space is `stack` where the box
    /// is bounded by a small constant, else `host`; `space:` overrides it. Do this before splitting the loops that
    /// compute `P`.
    ///
    /// Legal when `P` is local, everything that reads it is inside of the loop, the nests that compute it stand before
    /// the loop in one sequence, have no other effect, subscript `P` by plain loop variables, and read nothing that is
    /// written between their old and their new place.
    ///
    /// ```lathe
    /// kernel blur(A: f32[H, W]) -> (B: f32[H-2, W-2]) {
    ///     var T: f32[H, W-2]
    ///     T[y, x] = (A[y, x] + A[y, x+1] + A[y, x+2]) / 3.0
    ///     B[y, x] = (T[y, x] + T[y+1, x] + T[y+2, x]) / 3.0
    /// }
    /// strategy fused for blur = split(B.y, 32) ; compute_at(T, y.o)
    /// ```
    pub static COMPUTE_AT = compute_at, version 1,
        (array: one Buffer, at: one Loop, space: optional Word),
        apply,
        "computes the part of an intermediate array that a loop's body needs, inside of that loop";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let at = names::find_one_loop(cursor, RULE, &args.path(RULE, "at", 1)?)?;
    let space = options::space(RULE, args, 2)?;
    let producer = Producer::of(RULE, cursor, &buffer, Some(&at))?;
    let mut target = at.clone();
    target.push(0);
    let Some(body) = cursor.at(&target) else {
        return Err(refuse("the loop does not exist any more".into(), "", &Places::none()));
    };
    let around = Around::of(cursor.func, &target);
    if around.lanes().is_some() {
        return Err(refuse(
            "the loop is inside of a vector loop".into(),
            "do this before vectorizing",
            &Places::none(),
        ));
    }
    let reads = scope::accesses(body, &around.lets);
    let reads: Vec<&Found> = reads.iter().filter(|f| f.buffer() == Some(buffer.id)).collect();
    let inner = scope::bound_in(body);
    let extents: Vec<Expr> = buffer.extents.iter().map(|e| visit::substitute(e, &around.lets)).collect();
    let region = Region::of(&reads, 0, &around.loops, &inner, &extents, &around.sizes);

    let shape = region::shape(&region, &around);
    let small = check_space(RULE, &buffer.name, &buffer.elem, &shape, Space::Stack).is_ok();
    let space = space.unwrap_or(if small { Space::Stack } else { Space::Host });
    check_space(RULE, &buffer.name, &buffer.elem, &shape, space)?;

    let local =
        Buffer::local(work.fresh_buf(), buffer.name.clone(), buffer.elem.clone(), shape.clone(), space);
    let redirect = |s: &Stmt| region::redirect(s, buffer.id, &local, &region, &|_| true);
    let shared = Around::of(cursor.func, &producer.seq).binders.len();
    let repeats = around.instance().split_off(shared);
    let mut parts = Vec::new();
    for nest in &producer.nests {
        let restricted = restrict(nest, &buffer, &region, &around)?;
        parts.push(redirect(&again(&restricted, &repeats)));
    }
    parts.push(redirect(body));
    let new =
        Stmt::new(StmtKind::Alloc { buffer: local.clone(), body: Stmt::seq(parts) }, producer.places.clone());
    work.replace_storage(&target, new, Kind::Recomputation)?;
    producer.remove(work, Kind::Recomputation)?;
    work.made(&target, &local);
    work.becomes(&*buffer, &*local);
    let window = region::window(work, &target, &region, &around);
    let claim = Claim::Recomputed { array: buffer.name.to_string(), window };
    work.decide_at(&target, claim, "choose another loop")
}

fn refuse(message: String, help: &str, places: &Places) -> Refusal {
    make::refuse(RULE, codes::SHAPE, format!("`{RULE}`: {message}"), help, places)
}

/// The same statements, run once in every iteration of more loops: their variables tell the runs apart.
fn again(nest: &Stmt, repeats: &[Expr]) -> Stmt {
    visit::map_stmts(nest, &mut |s| match s.labelled() {
        Some((label, instance)) => {
            s.relabelled(label.clone(), repeats.iter().chain(instance).cloned().collect())
        }
        None => s,
    })
}

/// The nest with its loops over the array's dimensions restricted to the box, and counted from its start.
fn restrict(nest: &Stmt, buffer: &Buffer, region: &Region, around: &Around) -> Result<Stmt, Refusal> {
    let writes = scope::accesses(nest, &HashMap::new());
    let mut plan: HashMap<VarId, (usize, i64)> = HashMap::new();
    for w in writes.iter().filter(|f| f.buffer() == Some(buffer.id)) {
        for (d, x) in w.indices.iter().enumerate() {
            let lone = match x.terms.as_slice() {
                [(e, 1)] => e.as_var().filter(|v| w.loops.iter().any(|l| l.var == *v)),
                _ => None,
            };
            let Some(v) = lone.filter(|_| w.unit_steps) else {
                return Err(refuse(
                    format!(
                        "dimension {d} of `{}` is not subscripted by a loop variable where it is computed",
                        buffer.name
                    ),
                    "do this before splitting or remapping the loops that compute it",
                    &w.access.places,
                ));
            };
            if plan.insert(v, (d, x.constant)).is_some_and(|old| old != (d, x.constant)) {
                return Err(refuse(
                    format!("a loop runs over two places of `{}` at once", buffer.name),
                    "",
                    &w.access.places,
                ));
            }
        }
    }
    if carries(nest, &plan) {
        return Err(refuse(
            format!("each element of `{}` is computed from the ones before it", buffer.name),
            "a scan has to start at its beginning",
            nest.places(),
        ));
    }
    let shifted = |e: &Expr, shift: &Linear| {
        bounds::normal(e)
            .plus(shift, 1)
            .map_or_else(|| build::add(e.clone(), shift.to_expr()), |l| l.to_expr())
    };
    let mut shifts: HashMap<VarId, Expr> = HashMap::new();
    let restricted = visit::map_stmts(nest, &mut |s| {
        let Some(l) = s.as_loop() else { return s };
        let Some((d, c)) = plan.get(&l.binder.id) else { return s };
        let lo = &region.lo[*d];
        let start = lo.offset(-c).unwrap_or_else(|| lo.clone());
        shifts.insert(l.binder.id, build::add(build::var(&l.binder), start.to_expr()));
        let Some(back) = start.scaled(-1) else { return s };
        let inside = start
            .minus(&bounds::normal(&l.lo))
            .is_some_and(|g| bounds::nonneg(&g, &around.loops, &around.sizes));
        let low = if inside { build::index(0) } else { build::max(build::index(0), shifted(&l.lo, &back)) };
        let mut ends = region.size(*d);
        ends.extend(bounds::normal(&l.hi).plus(&back, 1));
        let ends = bounds::prune(ends, &around.loops, &around.sizes);
        let hi = bounds::min_expr(&ends).unwrap_or_else(|| shifted(&l.hi, &back));
        s.with_kind(StmtKind::Loop(Loop { lo: low, hi, ..l.clone() }))
    });
    Ok(visit::substitute_stmt(&restricted, &shifts))
}

/// Whether a buffer of the nest itself lives through iterations of a loop that is to be cut down: the
/// accumulator of a scan.
fn carries(nest: &Stmt, plan: &HashMap<VarId, (usize, i64)>) -> bool {
    let mut found = false;
    visit::walk(nest, &mut |s, _| {
        if let Some((_, body)) = s.as_alloc() {
            visit::walk(body, &mut |s, _| {
                found |= s.as_loop().is_some_and(|l| plan.contains_key(&l.binder.id));
                !found
            });
        }
        !found
    });
    found
}
