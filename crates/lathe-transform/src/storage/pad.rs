//! `pad`: a partial tile runs as a full one, on storage that has room for it.

use super::linear::{self, Linear, Ranged};
use super::make;
use super::region::{self, Region};
use super::scope::{self, Around, Found, Use};
use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::names;
use crate::rule::{Cursor, Rule};
use crate::work::Work;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::expr::Expr;
use lathe_ir::{BufId, Buffer, Loop, Stmt, StmtKind, VarId, build, visit};
use lathe_strategy::evidence::Kind;
use lathe_strategy::syntax::{Formal, Sort};
use lathe_strategy::{Claim, Obligation, Refusal, RuleSignature};
use std::collections::HashSet;
use std::sync::Arc;

const RULE: &str = "pad";

pub static PAD: Rule = Rule {
    signature: RuleSignature {
        name: RULE,
        version: 1,
        formals: &[Formal { name: "loop", sort: Sort::Loop, optional: false, many: false }],
        summary: "runs a partial tile as a full one, on staged buffers that have room for it",
        page: PAGE,
    },
    apply,
};

const PAGE: &str = "\
`pad(j.i)` turns a loop `0..min(T, n - T*j.o)` into `0..T`. What the additional iterations compute is never used: \
they may write only elements of local buffers that no statement reads and no copy takes out, and may read only \
elements that exist and are defined. So stage what the tile reads with `pad: true`, stage what it writes, and pad \
then. This is what makes micro-kernels free of branches for sizes that nothing divides.

Legal when (1) the loop's body holds only stores and reductions (no checks, calls, atomics) into local buffers, \
whose subscript in one dimension grows with the loop; (2) every read of such a buffer anywhere stays below the \
first element that an additional iteration writes; (3) everything read in the body is in bounds and filled.

```lathe
kernel twice(A: f32[N]) -> (B: f32[N]) {
    B[i] = 2.0 * A[i]
}
strategy full for twice = split(i, 8) ; stage(A, at: i.o, pad: true) ; stage(B, at: i.o) ; pad(i.i)
```
";

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    args.check(&PAD.signature)?;
    let name = args.path(RULE, "loop", 0)?;
    let path = names::find_one_loop(cursor, RULE, &name)?;
    let l = names::loop_at(cursor, RULE, &path)?;
    let around = Around::of(cursor.func, &path);
    let lo = linear::of(&visit::substitute(&l.lo, &around.lets));
    let hi = linear::of(&visit::substitute(&l.hi, &around.lets));
    let length = hi.minus(&lo);
    let full = length.as_ref().and_then(|n| linear::constant_upper(n, &around.loops));
    let (Some(length), Some(full)) = (length, full.filter(|n| *n > 0)) else {
        return Err(refuse(
            format!("`pad`: the number of iterations of `{name}` is not bounded by a constant"),
            "split the loop first: pad the inner one",
            &Places::none(),
        ));
    };
    if l.step != 1 {
        return Err(refuse(format!("`pad`: `{name}` does not step by one"), "", &Places::none()));
    }
    let new_hi = lo.offset(full).unwrap_or(Linear::constant(full)).to_expr();
    let check = Check { cursor, path: &path, l, around: &around, new_hi: &new_hi };
    if length.as_constant() != Some(full) {
        check.run()?.into_iter().for_each(|o| work.oblige(o));
    } else {
        work.oblige(Obligation::by_rule(Claim::Full { over: name }));
    }
    let old = work.at(&path)?.clone();
    let new = old.with_kind(StmtKind::Loop(Loop { hi: new_hi.clone(), ..l.clone() }));
    work.replace_storage(&path, new, Kind::Bijection)
}

fn refuse(message: String, help: &str, places: &Places) -> Refusal {
    let d = Diagnostic::error(codes::PADDING, message).at_places(places, "here");
    if help.is_empty() { d.into_refusal(RULE) } else { d.help(help).into_refusal(RULE) }
}

struct Check<'a> {
    cursor: &'a Cursor<'a>,
    path: &'a [usize],
    l: &'a Loop,
    around: &'a Around,
    new_hi: &'a Expr,
}

impl Check<'_> {
    fn run(&self) -> Result<Vec<Obligation>, Refusal> {
        self.only_stores(&self.l.body)?;
        let found = scope::accesses(&self.l.body, &self.around.lets);
        let mut written: Vec<BufId> = Vec::new();
        for f in &found {
            if let (true, Some(b)) = (f.writes(), f.buffer())
                && !written.contains(&b)
            {
                written.push(b);
            }
        }
        let over = self.l.binder.name.to_string();
        let mut out = Vec::new();
        for b in &written {
            let array = self.additional_writes_unused(*b, &found)?;
            let claim = Claim::PaddingUnread { array, over: over.clone() };
            out.push(Obligation::by_accesses(claim, found.iter().filter(|f| f.buffer() == Some(*b)).count()));
        }
        let reads: Vec<&Found> = found.iter().filter(|f| f.reads()).collect();
        reads.iter().try_for_each(|f| self.readable(f))?;
        out.push(Obligation::by_accesses(Claim::PaddingDefined { over }, reads.len()));
        Ok(out)
    }

    fn only_stores(&self, s: &Stmt) -> Result<(), Refusal> {
        if s.exprs().into_iter().any(make::may_fail) {
            return Err(refuse(
                format!("`pad`: an additional iteration of `{}` might divide by zero", self.l.binder.name),
                "only divisors that are constants are safe on padding",
                s.places(),
            ));
        }
        if !s.own_effects().is_none() || s.as_compute().is_some() || s.as_alloc().is_some() {
            return Err(refuse(
                format!("`pad`: `{}` holds more than stores into staged buffers", self.l.binder.name),
                "additional iterations may compute, but not check, call or allocate",
                s.places(),
            ));
        }
        s.children().try_for_each(|c| self.only_stores(c))
    }

    /// The local buffer of an id, with the path of its allocation.
    fn local(&self, id: BufId) -> Option<(visit::Path, Arc<Buffer>)> {
        make::find_alloc(self.cursor.func, id)
    }

    /// The name of the array. Additional iterations write only elements that nobody reads: in some dimension every additional
    /// element lies at or above an end that every read stays below.
    fn additional_writes_unused(&self, id: BufId, found: &[Found]) -> Result<String, Refusal> {
        let v = self.l.binder.id;
        let writes: Vec<&Found> = found.iter().filter(|f| f.buffer() == Some(id) && f.writes()).collect();
        let places = writes.first().map_or(Places::none(), |f| f.access.places.clone());
        let name = &self.l.binder.name;
        let Some((alloc, buffer)) = self.local(id) else {
            let what = self.cursor.func.params.iter().filter_map(|p| p.array()).find(|b| b.id == id);
            let what = what.map_or("an array".to_string(), |b| format!("`{}`", b.name));
            return Err(refuse(
                format!("`pad`: additional iterations of `{name}` would write {what}"),
                "stage what the tile writes in a local buffer first; only what exists is copied out of it",
                &places,
            ));
        };
        let Some(root) = self.cursor.at(&alloc) else {
            return Err(refuse("`pad`: the buffer is not allocated any more".into(), "", &places));
        };
        let outer = Around::of(self.cursor.func, &alloc);
        let reads: Vec<Found> = scope::accesses(root, &outer.lets)
            .into_iter()
            .filter(|f| f.buffer() == Some(id) && f.reads())
            .collect();
        // The write of a reduction is no reason to keep its value.
        let inside = self.path.get(alloc.len()..).unwrap_or(&[]);
        let consumed: Vec<&Found> =
            reads.iter().filter(|r| !(r.usage == Use::Update && r.path.starts_with(inside))).collect();
        let own: Vec<&Found> =
            reads.iter().filter(|r| r.usage == Use::Update && r.path.starts_with(inside)).collect();
        let bound: HashSet<VarId> = scope::bound_in(root);
        let extents = &buffer.extents;
        for d in 0..extents.len() {
            let Some(ends) = self.first_additional(&writes, d, v, &bound) else { continue };
            let below = |r: &&Found| {
                let region = Region::of(&[r], 0, &outer.loops, &bound, extents, &outer.sizes);
                ends.iter().all(|e| {
                    region.hi[d]
                        .iter()
                        .any(|h| e.minus(h).is_some_and(|g| linear::nonneg(&g, &outer.loops, &outer.sizes)))
                })
            };
            // A reduction's own target is read where it is written: by the same element, so that a full
            // iteration meets an additional element only if some other subscript does.
            let separate = own.iter().all(|r| {
                r.indices.get(d).is_some_and(|x| writes.iter().all(|w| w.indices.get(d) == Some(x)))
            });
            if separate && consumed.iter().all(below) {
                self.writes_fit(&writes, &buffer)?;
                return Ok(buffer.name.to_string());
            }
        }
        Err(refuse(
            format!("`pad`: what additional iterations of `{name}` write to `{}` may be read", buffer.name),
            "they must write beyond the elements that are copied out; stage the array at the loop around the tile",
            &places,
        ))
    }

    /// The first elements along a dimension that an additional iteration may write, one per reason why
    /// the iteration is additional; over variables outside of the buffer's allocation only.
    fn first_additional(
        &self,
        writes: &[&Found],
        d: usize,
        v: VarId,
        bound: &HashSet<VarId>,
    ) -> Option<Vec<Linear>> {
        let var = linear::of(&build::var(&self.l.binder));
        let mut out = Vec::new();
        for w in writes {
            let x = w.indices.get(d)?;
            if x.factor(v) != 1 {
                return None;
            }
            // x = v + rest; additional iterations have v >= one of the ends
            for end in linear::mins(&linear::of(&visit::substitute(&self.l.hi, &self.around.lets))) {
                if end.minus(&linear::of(&self.l.lo)).is_some_and(|n| {
                    n.as_constant().is_some()
                        && linear::of(self.new_hi).minus(&end).and_then(|g| g.as_constant()) == Some(0)
                }) {
                    continue;
                }
                let first = x.minus(&var)?.plus(&end, 1)?;
                let lows = linear::lowers(&first, &w.loops);
                let low = lows.into_iter().find(|f| !f.mentions(bound) && !f.reads())?;
                if !out.contains(&low) {
                    out.push(low);
                }
            }
        }
        Some(out)
    }

    /// All of the full loop's writes are inside of the buffer.
    fn writes_fit(&self, writes: &[&Found], buffer: &Buffer) -> Result<(), Refusal> {
        for w in writes {
            self.in_bounds(w, &buffer.extents, &buffer.name)?;
        }
        Ok(())
    }

    /// The loops around an access when the loop is full.
    fn scope_of(&self, f: &Found) -> Vec<Ranged> {
        let mut all = self.around.loops.clone();
        all.push(Ranged::new(self.l.binder.id, self.l.lo.clone(), self.new_hi.clone()));
        all.extend(f.loops.iter().cloned());
        all
    }

    fn in_bounds(&self, f: &Found, extents: &[Expr], name: &str) -> Result<(), Refusal> {
        let scope = self.scope_of(f);
        let sizes = &self.around.sizes;
        for (x, e) in f.indices.iter().zip(extents) {
            let room = linear::of(e).minus(x).and_then(|g| g.offset(-1));
            let fits =
                room.is_some_and(|g| linear::nonneg(&g, &scope, sizes)) && linear::nonneg(x, &scope, sizes);
            if !fits {
                return Err(refuse(
                    format!(
                        "`pad`: additional iterations of `{}` may touch elements of `{name}` that do not exist",
                        self.l.binder.name
                    ),
                    "stage what the tile reads with `pad: true`, and what it writes, before padding the loop",
                    &f.access.places,
                ));
            }
        }
        Ok(())
    }

    /// Reads of additional iterations are in bounds and defined.
    fn readable(&self, f: &Found) -> Result<(), Refusal> {
        if f.opaque {
            return Err(refuse(
                format!("`pad`: `{}` reads through a view", self.l.binder.name),
                "",
                &f.access.places,
            ));
        }
        let Some(id) = f.buffer() else { return Ok(()) };
        let moves = f.indices.iter().any(|x| x.mentions(&[self.l.binder.id].into()))
            || f.loops
                .iter()
                .any(|r| [&r.lo, &r.hi].into_iter().any(|e| visit::vars_of(e).contains(&self.l.binder.id)));
        if !moves && !f.guarded && self.never_empty() {
            return Ok(());
        }
        if let Some(p) = self.cursor.func.params.iter().find(|p| p.array().is_some_and(|b| b.id == id)) {
            let Some(b) = p.array() else { return Ok(()) };
            if p.mode == lathe_ir::Mode::Out {
                return Err(refuse(
                    format!("`pad`: additional iterations would read the output `{}`", b.name),
                    "stage it first",
                    &f.access.places,
                ));
            }
            return self.in_bounds(f, &b.extents, &b.name);
        }
        let Some((alloc, buffer)) = self.local(id) else { return Ok(()) };
        self.in_bounds(f, &buffer.extents, &buffer.name)?;
        self.filled(f, &alloc, &buffer)
    }

    fn never_empty(&self) -> bool {
        let n = linear::of(&self.l.hi).minus(&linear::of(&self.l.lo)).and_then(|n| n.offset(-1));
        n.is_some_and(|n| linear::nonneg(&n, &self.around.loops, &self.around.sizes))
    }

    /// What the read touches was filled before: by nests that stand before the loop, merged into one box
    /// where they continue each other.
    fn filled(&self, f: &Found, alloc: &[usize], buffer: &Buffer) -> Result<(), Refusal> {
        let Some(root) = self.cursor.at(alloc) else { return Ok(()) };
        let outer = Around::of(self.cursor.func, alloc);
        let inside = self.path.get(alloc.len()..).unwrap_or(&[]);
        let all = scope::accesses(root, &outer.lets);
        let mut filled: Option<Region> = None;
        let mut covers = false;
        for w in all.iter().filter(|w| w.buffer() == Some(buffer.id) && w.usage == Use::Write) {
            if !region::before(&w.path, inside) || !region::is_exact(w, 0) {
                continue;
            }
            let bound: HashSet<VarId> = w.loops.iter().map(|r| r.var).collect();
            let this = self.exact_box(w, &outer, &bound);
            filled = Some(match filled.take() {
                Some(before) => before.join(&this).unwrap_or(this),
                None => this,
            });
            covers |= filled.as_ref().is_some_and(|r| self.inside(f, r));
            if covers {
                break;
            }
        }
        if covers || self.same_place_before(f, &all, inside) {
            return Ok(());
        }
        Err(refuse(
            format!(
                "`pad`: additional iterations of `{}` may read elements of `{}` that were never filled",
                self.l.binder.name, buffer.name
            ),
            "stage the array with `pad: true`",
            &f.access.places,
        ))
    }

    /// The same element is written earlier in the same iteration.
    fn same_place_before(&self, f: &Found, all: &[Found], inside: &[usize]) -> bool {
        all.iter().any(|w| {
            let own = w.path.strip_prefix(inside).map(|p| p.get(1..).unwrap_or(&[]));
            w.usage == Use::Write
                && !w.guarded
                && w.buffer() == f.buffer()
                && w.indices == f.indices
                && own.is_some_and(|p| region::before(p, &f.path))
                && w.loops.iter().rev().zip(f.loops.iter().rev()).all(|(a, b)| a.var == b.var)
        })
    }

    /// The box of an exact write; its ends are kept as they are written.
    fn exact_box(&self, w: &Found, outer: &Around, bound: &HashSet<VarId>) -> Region {
        let mut r = Region { lo: Vec::new(), hi: Vec::new(), step: vec![1; w.indices.len()] };
        for x in &w.indices {
            let lone =
                w.loops.iter().find(|l| *x == linear::of(&build::var_id(l.var, lathe_ir::Scalar::Index)));
            match lone {
                Some(l) => {
                    r.lo.push(linear::of(&l.lo));
                    r.hi.push(vec![linear::of(&l.hi)]);
                }
                None => {
                    let keep = |forms: Vec<Linear>| -> Vec<Linear> {
                        forms.into_iter().filter(|f| !f.mentions(bound)).collect()
                    };
                    r.lo.push(keep(linear::lowers(x, &w.loops)).into_iter().next().unwrap_or(x.clone()));
                    let highs = keep(linear::uppers(x, &w.loops));
                    let highs = highs.iter().filter_map(|h| h.offset(1)).collect();
                    r.hi.push(linear::prune(highs, &outer.loops, &outer.sizes));
                }
            }
        }
        r
    }

    fn inside(&self, f: &Found, r: &Region) -> bool {
        let scope = self.scope_of(f);
        let sizes = &self.around.sizes;
        f.indices.iter().enumerate().all(|(d, x)| {
            let low = x.minus(&r.lo[d]).is_some_and(|g| linear::nonneg(&g, &scope, sizes));
            low && r.hi[d].iter().all(|h| {
                h.minus(x).and_then(|g| g.offset(-1)).is_some_and(|g| linear::nonneg(&g, &scope, sizes))
            })
        })
    }
}
