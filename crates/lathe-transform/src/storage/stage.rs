//! `stage`: a part of an array is copied to a local buffer, used there, and copied back.

mod copies;
mod touched;

use super::begin;
use super::make::{self, check_space_in, fresh_name, nest, proved, refuse};
use super::options::{self, Pad};
use super::region::{self, Region};
use super::scope::{self, Around, Found, Use};
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_analysis::Env;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, Expr};
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Binder, Buffer, Function, Label, Layout, Mode, Scalar, Space, Stmt, StmtKind, Store, VarId, build,
};
use lathe_poly::Linear;
use lathe_poly::bounds;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use touched::Touched;

const RULE: &str = "stage";

rule! {
    /// `stage(A, at: k.o)` finds the box of elements of `A` that one iteration of `k.o` uses, allocates a local buffer
    /// of that size in the loop's body, copies the elements in (`copy(A)`), redirects every access, and copies what was
    /// written back (`copy(A).out`). Elements that the body surely writes before it reads them are not copied in. Where
    /// the box has elements that may not have been computed, or that other threads write, exactly those that the body
    /// touches are copied, if each access surely happens; and where a reduction without identity begins with its first
    /// element, the box is copied in only where the reduction goes on.
    ///
    /// `space:` is `host` (scratch memory, the default), `stack` or `register`; the last two need a box that constants
    /// bound, so split the loops first. `name:` names the buffer (`A.s` otherwise). `layout:` may be given several
    /// times; `tile(dim, size)`, `permute(…)` and `pad(dim, multiple)` are applied in this order (packing). The copying
    /// loops are called `copy(A).0`, `copy(A).1`, … after the dimensions.
    ///
    /// `pad: true` fills the copy with zeros up to multiples of the layout's tiles (without tiles: up to the constant
    /// size of the buffer); `pad: pad(1, 32)` does so for one dimension. The rule `pad` can then run full tiles. In
    /// `space: shared` the copying loops are full, too, and select between an element and zero, so that threads share
    /// them evenly.
    ///
    /// `window:` says which part it is instead of leaving that to `stage`: one `range(lo, size)`, or `range(lo, size,
    /// step)`, per dimension, over loops around and sizes, for example `window: range(64 * k.o, min(64, K - 64 *
    /// k.o))`. It may be larger than what is used, but not beyond the array. A wrong window is refused: every access
    /// and every copy is checked, whoever found the window.
    ///
    /// `invariant: i` copies only what those accesses touch that are the same in all iterations of `i`, a loop inside; the
    /// others still go to `A`. So one array that is updated in place is packed as if it were several.
    ///
    /// Legal when every access to `A` in the body is a plain one (no call, no slice), `A` may not alias another array,
    /// and no thread that runs at the same time writes elements that would be copied without being used. The checker
    /// shows that every access to the buffer touches the copy of its element, that what is read was copied in or
    /// written before, and that what is written is copied out; and that what still goes to `A` writes no element of the
    /// box, and reads none that is written.
    ///
    /// ```lathe
    /// kernel mv(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    ///     y[i] = sum[j](A[i, j] * x[j])
    /// }
    /// strategy staged for mv = split(j, 64) ; reorder(j.o, i, j.i) ; stage(x, at: j.o, space: stack)
    /// ```
    pub static STAGE = stage, version 1,
        (array: one Buffer, at: one Loop, space: optional Word, name: optional Word, layout: optional Data, pad: optional Data, window: optional Data, invariant: optional Loop),
        apply,
        "copies the part of an array that a loop's body uses to a local buffer";
}

/// What the user asked for.
pub struct Options {
    pub space: Space,
    pub name: Option<String>,
    pub layout: Layout,
    pub pad: Vec<Pad>,
    /// Per dimension: the first element, how many, and how far apart; none where it is to be found.
    pub window: Option<Region>,
    /// Loops inside; accesses that one of them changes still go to the array.
    pub apart: HashSet<VarId>,
}

impl Options {
    /// Whether an access is one that goes to the copy.
    fn takes(apart: &HashSet<VarId>, a: &Access) -> bool {
        a.indices.iter().all(|e| visit::vars_of(e).is_disjoint(apart))
    }
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let mut target = names::find_one_loop(cursor, RULE, &args.path(RULE, "at", 1)?)?;
    target.push(0);
    let rank = buffer.extents.len();
    let layout = options::layout(RULE, args, usize::MAX, rank)?;
    let options = Options {
        space: options::space(RULE, args, 2)?.unwrap_or(Space::Host),
        name: args.opt_path(RULE, "name", 3)?,
        pad: options::pads(RULE, args, &layout, rank)?,
        layout,
        window: options::window(work, args, &target, rank)?,
        apart: options::invariant(work, args, &target)?,
    };
    stage_around(work, &target, &buffer, &options)
}

/// What is known about the array within the statement that the buffer will serve.
pub(super) struct Plan<'a> {
    rule: &'a str,
    pub around: Around,
    buffer: Arc<Buffer>,
    pub found: Vec<Found>,
    /// All accesses.
    pub region: Region,
    /// The written elements; `None` if there are none.
    written: Option<Region>,
    /// Some element may be read, or copied out, that the statement did not write before.
    pub copy_in: bool,
    /// What is copied in is known to have been computed.
    known: bool,
    /// All that the statement reads had a value before it.
    had_values: bool,
    /// Whether nobody else writes the elements of the box that the statement does not touch.
    whole: Result<(), Refusal>,
    /// Whether the statement surely writes all that it reads before it does.
    begins: bool,
}

/// Stages around the statement at a path: the copy lives exactly as long as that statement runs.
pub fn stage_around(
    work: &mut Work,
    target: &Path,
    buffer: &Arc<Buffer>,
    options: &Options,
) -> Result<(), Refusal> {
    let (rule, cursor) = (work.rule(), &work.cursor());
    let Some(stmt) = cursor.at(target) else {
        return Err(work.refuse(codes::SHAPE, "the place does not exist any more"));
    };
    let of = (options.window.as_ref(), &options.apart);
    let plan = Plan::make(rule, cursor, target, stmt, buffer, of)?;
    let env = Env::at(cursor.module, cursor.func, target);
    let window = region::window(work, target, &plan.region, &plan.around);
    let mut attempt = |exactly: bool, resumes: Option<&Expr>| {
        work.attempt(|work| {
            let made = plan.rewrite(work, stmt, options, exactly, resumes)?;
            work.replace_storage(target, made.stmt.clone(), Kind::Bijection)?;
            if resumes.is_some() || !(if exactly { plan.had_values } else { plan.known }) {
                plan.computed(cursor, work.func(), &made.copied)?;
            }
            // Where nothing is copied in, the statement itself has to begin.
            if resumes.is_some() && !lathe_analysis::written_before_read(&env, &made.stmt, &made.local, None)
            {
                return Err(plan.unknown());
            }
            let (array, copy) = (buffer.name.to_string(), made.local.name.to_string());
            let stands =
                Claim::Redirected { array: array.clone(), buffer: copy.clone(), window: window.clone() };
            let help = "give a `window:` that holds all that the statement touches, or stage at another loop";
            work.decide_at(target, stands, help)?;
            work.decide_at(target, Claim::Exclusive { array, buffer: copy }, "stage before `parallel`")?;
            Ok(made)
        })
    };
    let mut either = |resumes: Option<&Expr>| {
        plan.whole
            .clone()
            .and_then(|()| attempt(false, resumes))
            .or_else(|e| attempt(true, resumes).map_err(|_| e))
    };
    let resumes = begin::resumes(cursor, target, stmt, buffer.id).filter(|_| plan.copy_in);
    let made =
        either(None).or_else(|e: Refusal| resumes.as_ref().and_then(|r| either(Some(r)).ok()).ok_or(e))?;
    work.made(target, &made.local);
    work.plays(Role::Staged, &**buffer, &*made.local);
    Ok(())
}

/// The new statement.
struct Made {
    stmt: Stmt,
    local: Arc<Buffer>,
    /// Labels of statements that copy in.
    copied: Vec<String>,
}

impl<'a> Plan<'a> {
    pub fn make(
        rule: &'a str,
        cursor: &Cursor,
        target: &Path,
        stmt: &Stmt,
        buffer: &Arc<Buffer>,
        (window, apart): (Option<&Region>, &HashSet<VarId>),
    ) -> Result<Plan<'a>, Refusal> {
        let name = &buffer.name;
        let places = stmt.places();
        let around = Around::of(cursor.func, target);
        if Env::at(cursor.module, cursor.func, target).buffer(buffer.id).is_none() {
            return Err(refuse(
                rule,
                codes::SHAPE,
                format!("`{rule}`: `{name}` is allocated inside of the loop"),
                "stage it at a loop inside of its allocation",
                places,
            ));
        }
        if let Some(e) = around.lanes() {
            return Err(refuse(
                rule,
                codes::UNSUPPORTED,
                format!("`{rule}` cannot make a buffer inside of a loop run by {e:?}"),
                "stage before vectorizing, at a loop around it",
                places,
            ));
        }
        let param = cursor.func.params.iter().find(|p| p.array().is_some_and(|b| b.id == buffer.id));
        if make::may_alias(cursor.func, buffer.id) {
            return Err(refuse(
                rule,
                codes::UNSUPPORTED,
                format!("`{rule}`: `{name}` may alias another array"),
                "declare the parameters distinct, then a copy of one cannot go stale",
                places,
            ));
        }
        let all = scope::accesses(stmt, &around.lets);
        if all.iter().any(|f| f.buffer().is_none()) {
            return Err(refuse(
                rule,
                codes::UNSUPPORTED,
                format!("`{rule}`: a pointer is dereferenced here, which may alias `{name}`"),
                "",
                places,
            ));
        }
        let mine = |f: &Found| f.buffer() == Some(buffer.id) && Options::takes(apart, &f.access);
        let found: Vec<Found> = all.into_iter().filter(mine).collect();
        if found.is_empty() {
            return Err(refuse(
                rule,
                codes::SHAPE,
                format!("`{rule}`: `{name}` is not used in this loop"),
                "name a loop around the statements that use it",
                places,
            ));
        }
        if let Some(f) = found.iter().find(|f| f.opaque) {
            let what = f.label.as_ref().map_or("a call".to_string(), |l| format!("`{l}`"));
            return Err(refuse(
                rule,
                codes::UNSUPPORTED,
                format!(
                    "`{rule}`: {what} uses `{name}` through a call, a view, an atomic, or before it was opened into loops"
                ),
                "only plain subscripts can be redirected",
                &f.access.places,
            ));
        }
        let inner = scope::bound_in(stmt);
        let extents: Vec<Expr> = buffer.extents.iter().map(|e| visit::substitute(e, &around.lets)).collect();
        let boxed = |set: &[&Found], steps: Option<&[i64]>| {
            Region::strided(set, 0, &around.loops, &inner, &extents, &around.sizes, steps)
        };
        let region_of = |set: &[&Found]| boxed(set, None);
        let everything: Vec<&Found> = found.iter().collect();
        let mut region = region_of(&everything);
        let writes: Vec<&Found> = found.iter().filter(|f| f.writes()).collect();
        let mut written = (!writes.is_empty()).then(|| boxed(&writes, Some(&region.step)));
        if written.as_ref().is_some_and(|w| w.step != region.step) {
            region = boxed(&everything, Some(&vec![1; extents.len()]));
            written = Some(boxed(&writes, Some(&vec![1; extents.len()])));
        }
        if let Some(wanted) = window {
            region = wanted.clone();
            written = written.map(|_| wanted.clone());
        }
        let exact_over = |set: &[&Found], r: &Region| {
            let mut exact = set.iter().filter(|f| region::fills(f, 0));
            exact.any(|f| region_of(&[f]).contains(r, &around.loops, &around.sizes))
        };
        // Copied in unless all that is read or copied out was surely written first.
        let sure = || {
            let env = Env::at(cursor.module, cursor.func, target);
            lathe_analysis::written_before_read(&env, stmt, buffer, None)
        };
        let covered = |r: &Found| region::covered(r, &writes, &around, &extents);
        let first = !writes.is_empty() && (found.iter().filter(|f| f.reads()).all(covered) || sure());
        let copy_in = !(first && written.as_ref().is_some_and(|w| exact_over(&writes, w)));
        let given = param.is_some_and(|p| matches!(p.mode, Mode::In | Mode::InOut));
        let if_run = |f: &&&Found| region::fills_if_run(f, 0);
        let whole = |f: &&Found| region_of(&[*f]).contains(&region, &around.loops, &around.sizes);
        // What the statement reads has a value before it, unless the statement itself may be what gives it one.
        let begins = found.iter().any(|f| f.usage == Use::Write);
        let had_values = given || !begins;
        let known = given
            || !copy_in
            || (!begins && everything.iter().filter(if_run).any(whole))
            || region::defined_before(cursor.func, target, buffer, &region);
        let mut whole = Ok(());
        if let Some(outer) = &around.parallel {
            let elsewhere = cursor.at(outer).map_or(Vec::new(), |s| scope::accesses(s, &around.lets));
            let shared = elsewhere.iter().any(|f| f.buffer() == Some(buffer.id) && f.writes());
            let sure =
                exact_over(&everything, &region) && written.as_ref().is_none_or(|w| exact_over(&writes, w));
            if shared && !sure {
                whole = Err(refuse(
                    rule,
                    codes::UNSUPPORTED,
                    format!(
                        "`{rule}`: threads run this loop, and would copy elements of `{name}` that others write"
                    ),
                    "stage before `parallel`, or at a loop whose iterations use whole boxes",
                    places,
                ));
            }
        }
        let buffer = buffer.clone();
        Ok(Plan {
            rule,
            around,
            buffer,
            found,
            region,
            written,
            copy_in,
            known,
            had_values,
            whole,
            begins: first,
        })
    }

    /// Whether what the copying statements of the new function read was written before.
    fn computed(&self, cursor: &Cursor, func: &Function, labels: &[String]) -> Result<(), Refusal> {
        let env = Env::root(cursor.module, func);
        let written =
            |label: &String| lathe_analysis::written_before_read(&env, &func.body, &self.buffer, Some(label));
        if labels.iter().all(written) { Ok(()) } else { Err(self.unknown()) }
    }

    fn unknown(&self) -> Refusal {
        let (rule, name) = (self.rule, &self.buffer.name);
        refuse(
            rule,
            codes::UNSUPPORTED,
            format!("`{rule}` would copy elements of `{name}` that may not have been computed"),
            "only a box that the statement uses entirely can be copied from an output or a local array",
            &self.places(),
        )
    }

    /// The whole box is copied, or exactly what the statement touches; in only where a reduction goes on.
    fn rewrite(
        &self,
        work: &mut Work,
        stmt: &Stmt,
        o: &Options,
        exactly: bool,
        resumes: Option<&Expr>,
    ) -> Result<Made, Refusal> {
        let rank = self.region.rank();
        let (around, sizes) = (&self.around.loops, &self.around.sizes);
        let mut extents = Vec::new();
        let mut live = Vec::new();
        let mut full = Vec::new();
        for d in 0..rank {
            let constant = self.region.constant_size(d, around);
            let size = self.region.size_expr(d, around, sizes);
            let extent = constant.map_or_else(|| size.clone(), build::index);
            let (extent, padded) = match o.pad.get(d).copied().unwrap_or(Pad::Exact) {
                Pad::Exact => (extent, size.clone()),
                Pad::Whole => (extent.clone(), extent),
                Pad::Multiple(m) => {
                    let up = |e: &Expr| build::mul(build::ceil_div(e.clone(), m), build::index(m));
                    (up(&extent), up(&size))
                }
            };
            if o.pad.get(d).is_some_and(|p| *p != Pad::Exact) && !self.region.starts_inside(d, around, sizes)
            {
                return Err(refuse(
                    self.rule,
                    codes::UNSUPPORTED,
                    format!(
                        "`{}`: dimension {d} of the box may begin before the array, so it cannot be padded",
                        self.rule
                    ),
                    "leave `pad` out",
                    stmt.places(),
                ));
            }
            extents.push(extent);
            live.push(size);
            full.push(padded);
        }
        let name =
            fresh_name(work.func(), &o.name.clone().unwrap_or_else(|| Role::Staged.of(&self.buffer.name)));
        check_space_in(work.func(), self.rule, &name, &self.buffer.elem, &extents, o.space)?;
        let id = work.fresh_buf();
        let local = Arc::new(Buffer {
            id,
            name: name.into(),
            elem: self.buffer.elem.clone(),
            extents,
            space: o.space,
            layout: o.layout.clone(),
        });
        let label = fresh_name(work.func(), &lathe_ir::names::copy_of(&self.buffer.name));
        let copies = Copies { plan: self, local: &local, label: &label, live: &live, full: &full };
        let takes = |a: &Access| Options::takes(&o.apart, a);
        let used = region::redirect(stmt, self.buffer.id, &local, &self.region, &takes);
        let out_of = Role::Out.of(&label);
        let never = resumes.is_some_and(|r| r.as_bool() == Some(false));
        let (before, copied, after);
        if exactly {
            let unsure = || {
                let text =
                    format!("`{}`: not every access to `{}` surely happens", self.rule, self.buffer.name);
                refuse(self.rule, codes::UNSUPPORTED, text, "", stmt.places())
            };
            if o.pad.iter().any(|p| *p != Pad::Exact) {
                return Err(unsure());
            }
            let touched = |which: fn(&Found) -> bool| {
                let these: Vec<&Found> = self.found.iter().filter(|f| which(f)).collect();
                Touched::all(&these, self).ok_or_else(unsure)
            };
            let reads = if self.begins || never { Vec::new() } else { touched(Found::reads)? };
            (before, copied) = copies.touched(work, &reads, &label, false);
            after = copies.touched(work, &touched(Found::writes)?, &out_of, true).0;
        } else {
            let copy_in = self.copy_in && !never;
            before = if copy_in { copies.enter(work, o) } else { Vec::new() };
            copied = if copy_in { vec![label.clone()] } else { Vec::new() };
            after = self.written.iter().map(|w| copies.leave(work, w, o)).collect();
        }
        let places = self.places();
        let goes_on = |then: Stmt| match resumes {
            Some(cond) => Stmt::new(StmtKind::If { cond: cond.clone(), then, other: None }, places.clone()),
            None => then,
        };
        let body = Stmt::seq(before.into_iter().map(goes_on).chain([used]).chain(after));
        let stmt = Stmt::new(StmtKind::Alloc { buffer: local.clone(), body }, self.places());
        Ok(Made { stmt, local, copied })
    }

    pub fn places(&self) -> Places {
        self.found.iter().fold(Places::none(), |p, f| p.union(&f.access.places))
    }
}

/// The copying nests.
struct Copies<'a> {
    plan: &'a Plan<'a>,
    local: &'a Buffer,
    label: &'a str,
    /// Elements that exist, and elements that are filled, per dimension.
    live: &'a [Expr],
    full: &'a [Expr],
}
