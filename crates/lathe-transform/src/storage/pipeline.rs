//! `pipeline`: what a later iteration needs is copied while this one computes.

use super::make;
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_ir::build::{add, floor_mod, index, lt, sub, var};
use lathe_ir::lower::resolve;
use lathe_ir::stmt::Effects;
use lathe_ir::visit::{self, vars_of};
use lathe_ir::{Access, BufId, Buffer, Expr, Loop, Stmt, StmtKind, View};
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

const RULE: &str = "pipeline";

rule! {
    /// `pipeline(k.o, stages: 2)` lets every iteration of `k.o` fill the local buffers of the next one before it
    /// computes (software pipelining, double buffering): the buffers that the loop's body allocates and its first
    /// statements fill get one more dimension, of `stages` slots, and live around the loop; the first `stages - 1`
    /// fillings stand in front of it. So copies and arithmetic overlap, and where threads of a device share the
    /// buffers, one barrier is left of two. Buffers that are updated, or written by the rest of the body, such as
    /// accumulators, stay as they are, with what is computed from them. `stage` the arrays at the loop first, and do this
    /// last: loops of the copies that are bound or unrolled stay so.
    ///
    /// **Legal** if the loop is serial and steps by one, if nothing in it writes what the fillings read, and if filling
    /// a buffer does nothing else and cannot fail.
    ///
    /// ```lathe
    /// kernel mv(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    ///     y[i] = sum[j](A[i, j] * x[j])
    /// }
    /// strategy ahead for mv = split(j, 64) ; reorder(j.o, i, j.i) ; stage(x, at: j.o, space: stack) ; pipeline(j.o)
    /// ```
    pub static PIPELINE = pipeline, version 1, (loop: one Loop, stages: optional Int), apply,
        "copies what later iterations of a loop need while an earlier one computes";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let path = names::find_one_loop(cursor, RULE, &args.path(RULE, "loop", 0)?)?;
    let stages = args.opt_positive(RULE, "stages", 1)?.unwrap_or(2);
    let (l, s) = work.serial_loop(&path)?;
    let refuse = |code, text: String, help: &str| {
        make::refuse(RULE, code, format!("`{RULE}`: {text}"), help, s.places())
    };
    if stages < 2 {
        return Err(refuse(codes::ARGUMENT, "one stage is the loop as it is".into(), "take two or more"));
    }
    if l.step != 1 {
        return Err(refuse(codes::UNSUPPORTED, format!("`{}` steps by {}", l.binder.name, l.step), ""));
    }
    let body = Body::of(&l);
    let Some(filled) = body.filled().filter(|_| !body.rest.is_empty()) else {
        let text = format!("the body of `{}` does not begin by filling buffers of its own", l.binder.name);
        return Err(refuse(codes::SHAPE, text, "`stage` what it reads at this loop first"));
    };
    safe(&l, &filled).map_err(|(code, text)| refuse(code, text, ""))?;
    let room = |b: &Arc<Buffer>| {
        let mut extents = vec![index(stages)];
        extents.extend(b.extents.iter().cloned());
        let new = Buffer { extents, layout: b.layout.behind_one(), ..(**b).clone() };
        make::check_space_in(cursor.func, RULE, &new.name, &new.elem, &new.extents, new.space)?;
        Ok(Arc::new(new))
    };
    let rooms = filled.iter().map(room).collect::<Result<Vec<_>, Refusal>>()?;
    let ids: HashSet<BufId> = filled.iter().map(|b| b.id).collect();
    let slot = |at: &Expr| floor_mod(sub(at.clone(), l.lo.clone()), index(stages));
    let fill = Stmt::seq(body.fill.clone());
    let at = |work: &mut Work, iteration: &Expr, slot: &Expr| {
        let later = HashMap::from([(l.binder.id, iteration.clone())]);
        let filling = in_slot(&visit::substitute_stmt(&fill, &later), &ids, slot);
        let filling = work.copy(&filling);
        s.with_kind(StmtKind::If { cond: lt(iteration.clone(), l.hi.clone()), then: filling, other: None })
    };
    let mut out: Vec<Stmt> =
        (0..stages - 1).map(|n| at(work, &add(l.lo.clone(), index(n)), &index(n))).collect();
    let ahead = add(var(&l.binder), index(stages - 1));
    let next = at(work, &ahead, &slot(&ahead));
    let now = in_slot(&Stmt::seq(body.rest.clone()), &ids, &slot(&var(&l.binder)));
    let alloc = |body: Stmt, b: &Arc<Buffer>| {
        Stmt::new(StmtKind::Alloc { buffer: b.clone(), body }, s.places().clone())
    };
    let own = body.buffers.iter().filter(|b| !ids.contains(&b.id)).rev().fold(now, alloc);
    out.push(s.with_kind(StmtKind::Loop(Loop { body: Stmt::seq(vec![next, own]), ..l.clone() })));
    let new = rooms.iter().rev().fold(Stmt::seq(out), alloc);
    work.replace(&path, new, Kind::Split)?;
    rooms.iter().for_each(|b| work.made(&path, b));
    work.scheduled();
    let claim = Claim::FilledAhead {
        buffers: rooms.iter().map(|b| b.name.to_string()).collect(),
        over: l.binder.name.to_string(),
        slots: stages,
    };
    work.decide(claim, "`stage` copies of what the loop writes outside of it")
}

/// The body of a loop: buffers, statements that only fill them, and the rest.
struct Body {
    buffers: Vec<Arc<Buffer>>,
    fill: Vec<Stmt>,
    rest: Vec<Stmt>,
}

impl Body {
    fn of(l: &Loop) -> Body {
        // Staging one array after the other nests their buffers.
        let (mut buffers, mut all) = (Vec::new(), vec![l.body.clone()]);
        while let Some(last) = all.pop() {
            match (last.as_alloc(), last.as_seq()) {
                (Some((b, body)), _) => {
                    buffers.push(b.clone());
                    all.push(body.clone());
                }
                (_, Some(more)) if !more.is_empty() => all.extend_from_slice(more),
                _ => {
                    all.push(last);
                    break;
                }
            }
        }
        let ids: HashSet<BufId> = buffers.iter().map(|b| b.id).collect();
        let count = all.iter().take_while(|s| fills(s, &ids)).count();
        let rest = all.split_off(count);
        // What the rest writes, too, and what is updated is no copy (an accumulator), nor is what reads that.
        let updated = |s: &Stmt| &read(s) & &written(s);
        let mut theirs: HashSet<BufId> =
            rest.iter().flat_map(written).chain(all.iter().flat_map(updated)).collect();
        theirs.retain(|b| ids.contains(b));
        let stay = |s: &Stmt, theirs: &HashSet<BufId>| !(&read(s) | &written(s)).is_disjoint(theirs);
        while let Some(s) = all.iter().find(|s| stay(s, &theirs) && !written(s).is_subset(&theirs)) {
            theirs.extend(written(s));
        }
        let (begun, fill): (Vec<_>, Vec<_>) = all.into_iter().partition(|s| stay(s, &theirs));
        Body { buffers, fill, rest: begun.into_iter().chain(rest).collect() }
    }

    /// The buffers that are filled, if there are any.
    fn filled(&self) -> Option<Vec<Arc<Buffer>>> {
        let written: HashSet<BufId> = self.fill.iter().flat_map(written_outside).flatten().collect();
        let all: Vec<_> = self.buffers.iter().filter(|b| written.contains(&b.id)).cloned().collect();
        (!all.is_empty()).then_some(all)
    }
}

/// Whether all that a statement does is to write these buffers, or buffers of its own.
fn fills(s: &Stmt, ids: &HashSet<BufId>) -> bool {
    let Some(written) = written_outside(s) else { return false };
    let mut pure = true;
    visit::walk(s, &mut |s, _| {
        let plain = s.own_effects().without(Effects::ALLOCATES).is_none();
        pure &= plain && !s.evaluated().into_iter().any(crate::failing::may_fail);
        pure
    });
    pure && !written.is_empty() && written.is_subset(ids)
}

/// The buffers that a statement reads.
fn read(s: &Stmt) -> HashSet<BufId> {
    let mut out = HashSet::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.evaluated().into_iter().flat_map(visit::loads_of).filter_map(|a| a.view.buffer()));
        out.extend(s.touches().iter().filter(|t| t.1.reads()).filter_map(|t| t.0.buffer()));
        true
    });
    out
}

/// The buffers that a statement writes.
fn written(s: &Stmt) -> HashSet<BufId> {
    let mut out = HashSet::new();
    visit::walk(s, &mut |s, _| {
        out.extend(s.written().filter_map(View::buffer));
        true
    });
    out
}

/// The buffers that a statement writes, but for its own; `None` where one is not known.
fn written_outside(s: &Stmt) -> Option<HashSet<BufId>> {
    let (mut written, mut own) = (HashSet::new(), HashSet::new());
    visit::walk(s, &mut |s, _| {
        written.extend(s.written().map(View::buffer));
        own.extend(s.allocated().map(|b| Some(b.id)));
        true
    });
    written.difference(&own).copied().collect()
}

/// Whether the loop is one whose iterations could be filled earlier.
fn safe(l: &Loop, filled: &[Arc<Buffer>]) -> Result<(), (lathe_diagnostics::Code, String)> {
    let name = &l.binder.name;
    let mut orders = false;
    visit::walk(&l.body, &mut |s, _| {
        orders |=
            s.own_effects().contains(Effects::SYNCHRONIZES) || s.own_effects().contains(Effects::ATOMIC);
        !orders
    });
    if orders {
        return Err((codes::UNSUPPORTED, format!("threads wait for one another in `{name}`")));
    }
    let inside: HashSet<_> = std::iter::once(l.binder.id).collect();
    match filled.iter().find(|b| b.extents.iter().any(|e| !vars_of(e).is_disjoint(&inside))) {
        Some(b) => Err((codes::UNSUPPORTED, format!("the size of `{}` depends on `{name}`", b.name))),
        None => Ok(()),
    }
}

/// Every access to one of the buffers as one to a slot of it.
fn in_slot(s: &Stmt, ids: &HashSet<BufId>, slot: &Expr) -> Stmt {
    visit::map_accesses(s, &mut |a: &Access| {
        if !a.view.buffer().is_some_and(|b| ids.contains(&b)) {
            return None;
        }
        let (id, indices) = resolve(a).ok()?;
        let indices = std::iter::once(slot.clone()).chain(indices).collect();
        Some(Access { view: View::Buffer(id), indices, ..a.clone() })
    })
}
