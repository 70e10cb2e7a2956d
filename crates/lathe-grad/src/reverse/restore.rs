//! Values of the primal in the reverse sweep: read again where they are still available, otherwise stored on a tape.

use super::Reverse;
use super::tape::{Ahead, Tape};
use crate::arrays::buffers_of;
use crate::codes::{self, refuse};
use crate::node::{Around, ScopeId, Site};
use crate::{Kept, bytes};
use lathe_diagnostics::Diagnostic;
use lathe_ir::build::{add, floor_div, index, load, lt, max, sub, var};
use lathe_ir::visit::{loads_of, vars_of};
use lathe_ir::{Access, BufId, Buffer, Dim, Expr, ExprKind, Scalar, Space, VarId, View};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// When an expression of the primal is evaluated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum When {
    /// In the reverse sweep.
    Back,
    /// Where the statements of a scope run forward: in the forward sweep (scope 0), or in a recomputation.
    Forward(ScopeId),
}

/// A value that the reverse sweep, or what is computed again in it, asked for.
pub struct Asked {
    pub site: Rc<Site>,
    pub dims: Vec<Dim>,
    pub value: Expr,
    pub under: Option<Expr>,
    pub when: When,
    /// The arrays that it goes to, where it is computed again for their sake.
    pub into: Vec<BufId>,
}

impl Reverse<'_> {
    /// An expression of a site, as it is evaluated at another time. `dims` are those of the site's compute; `under` is
    /// where it is evaluated at all.
    ///
    /// # Errors
    /// `E1304` where a value must be kept and the number of such values is not known.
    pub fn restore(
        &mut self,
        site: &Rc<Site>,
        dims: &[Dim],
        e: &Expr,
        under: Option<&Expr>,
        when: When,
    ) -> Result<Expr, Diagnostic> {
        self.restore_into(site, dims, e, under, when, &[])
    }

    /// The same, of what is written to arrays.
    pub fn restore_into(
        &mut self,
        site: &Rc<Site>,
        dims: &[Dim],
        e: &Expr,
        under: Option<&Expr>,
        when: When,
        into: &[BufId],
    ) -> Result<Expr, Diagnostic> {
        if let Some(asked) = &mut self.asked {
            let (site, dims, value, under) = (site.clone(), dims.to_vec(), e.clone(), under.cloned());
            asked.push(Asked { site, dims, value, under, when, into: into.to_vec() });
        }
        self.restored(site, dims, e, under, when, &mut HashMap::new())
    }

    fn restored(
        &mut self,
        site: &Rc<Site>,
        dims: &[Dim],
        e: &Expr,
        under: Option<&Expr>,
        when: When,
        memo: &mut HashMap<usize, Expr>,
    ) -> Result<Expr, Diagnostic> {
        if let Some(done) = memo.get(&e.address()) {
            return Ok(done.clone());
        }
        if self.is_kept(site, e, under, when) {
            let out = self.kept_value(site, dims, e, under, when)?;
            memo.insert(e.address(), out.clone());
            return Ok(out);
        }
        let now = match e.kind() {
            ExprKind::Load(a) => self.again(site, a, when).map(load),
            _ => None,
        };
        let e = now.as_ref().unwrap_or(e);
        let taped = match e.kind() {
            ExprKind::Load(a) => self.overwritten(site, a, when),
            _ => None,
        };
        let out = match (taped, e.kind()) {
            (Some(scope), ExprKind::Load(a)) => self.taped(site, dims, a, under, when, scope)?,
            _ => {
                let old = e.children();
                let mut new = Vec::with_capacity(old.len());
                for c in &old {
                    new.push(self.restored(site, dims, c, under, when, memo)?);
                }
                if old.iter().zip(&new).all(|(a, b)| *a == b) { e.clone() } else { e.with_children(new) }
            }
        };
        memo.insert(e.address(), out.clone());
        Ok(out)
    }

    /// The same access at another time: its subscripts are evaluated then.
    pub fn restore_access(
        &mut self,
        site: &Rc<Site>,
        dims: &[Dim],
        a: &Access,
        under: Option<&Expr>,
        when: When,
    ) -> Result<Access, Diagnostic> {
        let mut new = Vec::new();
        for e in a.exprs() {
            new.push(self.restore(site, dims, e, under, when)?);
        }
        Ok(a.with_exprs(new))
    }

    /// The scope of the array whose element, read at a site, has another value by then; notes the need for those that
    /// are still available.
    pub fn overwritten(&mut self, site: &Site, a: &Access, when: When) -> Option<ScopeId> {
        let b = a.view.buffer()?;
        // Shadows and tapes are none of the primal's.
        let scope = *self.scope_of.get(&b)?;
        let same_run = matches!(when, When::Forward(of) if site.depth(scope) >= site.depth(of));
        let lost = !same_run
            && self
                .writes
                .get(&b)
                .is_some_and(|all| all.iter().any(|w| self.may_overwrite(site, a, w, scope)));
        if lost {
            return Some(scope);
        }
        let filled_by = match when {
            When::Forward(of) if same_run => of,
            _ => scope,
        };
        self.needs.insert((filled_by, b));
        None
    }

    /// Whether an expression has the same value wherever its variables have: it reads only what is never written.
    pub fn is_constant(&self, e: &Expr) -> bool {
        loads_of(e).iter().all(|a| a.view.buffer().is_some_and(|b| !self.writes.contains_key(&b)))
    }

    /// Whether an expression says the same at the beginning of a scope around which some loops are.
    fn is_known(&self, e: &Expr, outside: &HashSet<VarId>) -> bool {
        vars_of(e).iter().all(|v| self.constants.contains(v) || outside.contains(v))
    }

    /// The scope that keeps values for a site: an iteration of a checkpointed loop, or the function.
    pub fn home(&self, site: &Site) -> ScopeId {
        let around = |s: &ScopeId| site.loops.iter().any(|l| l.body == *s);
        self.revolves.iter().map(|r| r.body).find(around).unwrap_or(0)
    }

    /// Whether a scope keeps values: the function, and an iteration of a checkpointed loop.
    pub fn is_home(&self, s: ScopeId) -> bool {
        s == 0 || self.revolving(s).is_some()
    }

    /// Whether the statements of a site ran forward before that time, in the scope that keeps values for it.
    pub fn is_behind(&self, site: &Site, when: When) -> bool {
        match when {
            When::Back => true,
            When::Forward(of) => site.depth(of) > site.depth(self.home(site)),
        }
    }

    /// Whether a value is one that is kept as it is.
    fn is_kept(&self, site: &Site, e: &Expr, under: Option<&Expr>, when: When) -> bool {
        !self.values.is_empty()
            && self.is_behind(site, when)
            && self.counting.is_none()
            && self.values.contains(&(site.id, under.cloned(), e.clone()))
    }

    /// The load of such a value from its tape.
    fn kept_value(
        &mut self,
        site: &Rc<Site>,
        dims: &[Dim],
        e: &Expr,
        under: Option<&Expr>,
        when: When,
    ) -> Result<Expr, Diagnostic> {
        let home = self.home(site);
        let same = |t: &Tape| {
            t.site.id == site.id && t.scope == home && !t.whole && t.value == *e && t.under.as_ref() == under
        };
        let n = match self.tapes.iter().position(same) {
            Some(n) => n,
            None => {
                let tape = self.new_tape(site, dims, e, under, home)?;
                self.tapes.push(tape);
                self.tapes.len() - 1
            }
        };
        self.read_tape(n, site, &[], when)
    }

    /// The load of a value from the tape that keeps it.
    pub fn taped(
        &mut self,
        site: &Rc<Site>,
        dims: &[Dim],
        a: &Access,
        under: Option<&Expr>,
        when: When,
        scope: ScopeId,
    ) -> Result<Expr, Diagnostic> {
        let whole = self.all_of(site, dims, a, scope);
        let same = |t: &Tape| {
            t.site.id == site.id && t.scope == scope && t.access() == Some(a) && t.under.as_ref() == under
        };
        let known = match &whole {
            Some((all, _)) => {
                let here = |t: &Tape| t.whole && t.site.id == site.id && t.scope == scope && t.is_of(a);
                let found = self.tapes.iter().position(here);
                found.or_else(|| self.equivalent(site, all, None, scope, true))
            }
            None => {
                let found = self.tapes.iter().position(same);
                found.or_else(|| self.equivalent(site, a, under, scope, false))
            }
        };
        let n = match known {
            Some(n) => n,
            None => {
                let mut tape = match &whole {
                    Some((all, dims)) => self.new_tape(site, dims, &load(all.clone()), None, scope)?,
                    None => self.new_tape(site, dims, &load(a.clone()), under, scope)?,
                };
                tape.whole = whole.is_some();
                self.tapes.push(tape);
                self.tapes.len() - 1
            }
        };
        self.read_tape(n, site, &a.indices, when)
    }

    /// The load from a tape at a place; of a whole array, of the element with these subscripts.
    fn read_tape(&self, n: usize, site: &Rc<Site>, element: &[Expr], when: When) -> Result<Expr, Diagnostic> {
        let t = &self.tapes[n];
        let depth = |s: ScopeId| site.loops.iter().position(|l| l.body == s);
        if let (Some(body), When::Forward(of)) = (t.counted, when)
            && depth(body) > depth(of)
        {
            // The numbers of iterations that run again are not known.
            let text = format!(
                "values of `{}` would have to be kept for a loop that is recomputed",
                self.name_of(t)
            );
            return Err(refuse(codes::TAPE, text, &site.places)
                .help("give the loop bounds that do not depend on data, or move the array out of the loop"));
        }
        let mut indices = t.indices.clone();
        if t.whole {
            indices.truncate(indices.len() - element.len());
            indices.extend(element.iter().cloned());
        }
        Ok(load(Access::buffer(t.buffer.id, t.buffer.elem.clone(), indices).at(site.places.clone())))
    }

    /// All elements of an array, where a compute reads all but a fixed number of them: with them, every access that
    /// is the same but for a constant shares one tape.
    fn all_of(
        &mut self,
        site: &Site,
        dims: &[Dim],
        a: &Access,
        scope: ScopeId,
    ) -> Option<(Access, Vec<Dim>)> {
        let id = a.view.buffer().filter(|_| matches!(a.view, View::Buffer(_)) && !a.indices.is_empty())?;
        let buffer = self.buffers.get(&id)?.clone();
        let outside: HashSet<VarId> =
            site.loops[..site.loops.len() - site.loops_in(scope).len()].iter().map(|l| l.binder.id).collect();
        let mut seen: Vec<VarId> = Vec::new();
        for (i, extent) in a.indices.iter().zip(&buffer.extents) {
            let form = Linear::of(i);
            let [(atom, 1)] = &form.terms[..] else { return None };
            let d = dims.iter().find(|d| atom.as_var() == Some(d.binder.id))?;
            let read = Linear::of(&sub(d.hi.clone(), d.lo.clone()));
            let left = read.minus(&Linear::of(extent))?;
            if left.as_constant().is_none()
                || seen.contains(&d.binder.id)
                || !self.is_constant(extent)
                || !self.is_known(extent, &outside)
            {
                return None;
            }
            seen.push(d.binder.id);
        }
        let dims = buffer.extents.iter().enumerate().map(|(n, e)| Dim {
            binder: self.func.fresh_var(format!("i{n}"), Scalar::Index),
            lo: index(0),
            hi: e.clone(),
            combine: lathe_ir::Combine::Concat,
        });
        let dims: Vec<Dim> = dims.collect();
        let indices = dims.iter().map(|d| var(&d.binder)).collect();
        Some((Access { indices, ..a.clone() }, dims))
    }

    /// A tape that keeps the same values for another place of the same iterations, which is reached whenever this one is.
    fn equivalent(
        &self,
        site: &Site,
        a: &Access,
        under: Option<&Expr>,
        scope: ScopeId,
        whole: bool,
    ) -> Option<usize> {
        let read: Vec<BufId> =
            a.view.buffer().into_iter().chain(a.exprs().into_iter().flat_map(buffers_of)).collect();
        // What is written from one place on before the other.
        let stands = |first: usize, last: usize| {
            let mut writes = read.iter().flat_map(|b| self.writes.get(b)).flatten();
            !writes.any(|w| (first..last).contains(&w.site.id))
        };
        self.tapes.iter().position(|t| {
            let (mine, theirs) = (&site.loops, &t.site.loops);
            t.scope == scope
                && if whole { t.whole && t.is_of(a) } else { t.access() == Some(a) && t.dims.is_empty() }
                && under.is_none()
                && t.under.is_none()
                && mine.len() == theirs.len()
                && mine.iter().zip(theirs).all(|(x, y)| x.binder.id == y.binder.id)
                && site.branches.starts_with(&t.site.branches)
                && stands(site.id.min(t.site.id), site.id.max(t.site.id))
        })
    }

    pub fn name(&self, a: &Access) -> String {
        let b = a.view.buffer().and_then(|b| self.buffers.get(&b));
        b.map_or_else(|| "?".to_string(), |b| b.name.to_string())
    }

    /// What a tape is of.
    pub fn name_of(&self, t: &Tape) -> String {
        t.access().map_or_else(|| t.site.label.to_string(), |a| self.name(a))
    }

    /// A tape for a value of a place, which has no entries for loops that do not change it.
    pub fn new_tape(
        &mut self,
        site: &Rc<Site>,
        dims: &[Dim],
        value: &Expr,
        under: Option<&Expr>,
        scope: ScopeId,
    ) -> Result<Tape, Diagnostic> {
        let all = site.loops_in(scope);
        match self.ahead(site, dims, value, under, all) {
            Some((from, to, ahead)) => {
                let at = all[from].header;
                let loops = all[..from].iter().chain(&all[to..]).cloned().collect();
                let tape = self.tape(site, dims, value, under, scope, loops)?;
                Ok(Tape { at, ahead: Some(ahead), ..tape })
            }
            None => self.tape(site, dims, value, under, scope, all.to_vec()),
        }
    }

    /// The loops around a site that do not change a value, if it can be stored before the first of them.
    fn ahead(
        &self,
        site: &Site,
        dims: &[Dim],
        value: &Expr,
        under: Option<&Expr>,
        loops: &[Around],
    ) -> Option<(usize, usize, Ahead)> {
        let changes = self.changing(site, dims, value, under, loops);
        let from = changes.iter().position(|c| !c)?;
        let to = changes[from..].iter().position(|c| *c).map_or(loops.len(), |n| from + n);
        let (same, inner) = (&loops[from..to], &loops[to..]);
        let first = &same[0];
        let constant = |l: &Around| l.is_bounded && self.is_constant(&l.lo) && self.is_constant(&l.hi);
        let inside: HashSet<VarId> = loops[from..].iter().map(|l| l.binder.id).collect();
        let outer = |e: &Expr| vars_of(e).iter().all(|v| !inside.contains(v));
        let conditions = &site.conditions[first.branches..];
        let fits = under.is_none()
            && changes[to..].iter().all(|c| *c)
            && conditions.iter().all(|c| self.is_constant(c) && outer(c))
            && same.iter().all(|l| constant(l) && outer(&l.lo) && outer(&l.hi))
            && inner.iter().all(|l| constant(l) && l.step == 1);
        let dims = inner.iter().map(|l| Dim {
            binder: l.binder.clone(),
            lo: l.lo.clone(),
            hi: l.hi.clone(),
            combine: lathe_ir::Combine::Concat,
        });
        let depth = site.loops.len() - loops.len() + from;
        let runs = same.iter().map(|l| lt(l.lo.clone(), l.hi.clone()));
        let under = runs.chain(conditions.iter().cloned()).collect();
        fits.then(|| (from, to, Ahead { depth, under, dims: dims.collect() }))
    }

    /// A tape that keeps a value for every iteration of all loops around.
    pub fn tape_of_all(&mut self, site: &Rc<Site>, dims: &[Dim], value: &Expr) -> Option<Tape> {
        self.tape(site, dims, value, None, 0, site.loops.clone()).ok()
    }

    /// Which of some loops around a site a value may differ in.
    fn changing(
        &self,
        site: &Site,
        dims: &[Dim],
        value: &Expr,
        under: Option<&Expr>,
        loops: &[Around],
    ) -> Vec<bool> {
        let mut vars: HashSet<VarId> = [value].into_iter().chain(under).flat_map(vars_of).collect();
        // Dimensions have ranges, which have variables.
        for d in dims.iter().rev().filter(|d| vars.contains(&d.binder.id)).cloned().collect::<Vec<_>>() {
            vars.extend([&d.lo, &d.hi].into_iter().flat_map(vars_of));
        }
        let ranges = dims.iter().filter(|d| vars.contains(&d.binder.id)).flat_map(|d| [&d.lo, &d.hi]);
        let read: Vec<BufId> = [value].into_iter().chain(under).chain(ranges).flat_map(buffers_of).collect();
        let known = |v: &VarId| {
            self.constants.contains(v)
                || site.loops.iter().any(|l| l.binder.id == *v)
                || dims.iter().any(|d| d.binder.id == *v)
        };
        // A name for what a loop reads, and an array that nothing is known of, may be anything.
        let any = !vars.iter().all(known) || read.iter().any(|b| !self.scope_of.contains_key(b));
        let mut out = Vec::new();
        // From the inside out: ranges of loops that count have variables, too.
        for l in loops.iter().rev() {
            let lives_in =
                |b: &BufId| self.scope_of.get(b).is_none_or(|s| site.depth(*s) >= site.depth(l.body));
            let is_written = |b: &BufId| {
                let mut all = self.writes.get(b).into_iter().flatten();
                all.any(|w| w.site.loops.iter().any(|x| x.body == l.body))
            };
            let changes =
                any || vars.contains(&l.binder.id) || read.iter().any(|b| lives_in(b) || is_written(b));
            if changes {
                vars.extend([&l.lo, &l.hi].into_iter().flat_map(vars_of));
            }
            out.push(changes);
        }
        out.reverse();
        out
    }

    fn tape(
        &mut self,
        site: &Rc<Site>,
        dims: &[Dim],
        value: &Expr,
        under: Option<&Expr>,
        scope: ScopeId,
        loops: Vec<Around>,
    ) -> Result<Tape, Diagnostic> {
        // The dimensions that the value depends on, and those that their ranges depend on.
        let mut vars: HashSet<VarId> = [value].into_iter().chain(under).flat_map(vars_of).collect();
        let mut used: Vec<Dim> = Vec::new();
        for d in dims.iter().rev() {
            if vars.contains(&d.binder.id) {
                vars.extend([&d.lo, &d.hi].into_iter().flat_map(vars_of));
                used.insert(0, Dim { combine: lathe_ir::Combine::Concat, ..d.clone() });
            }
        }
        let inside = site.loops_in(scope).len();
        let outside: HashSet<VarId> =
            site.loops[..site.loops.len() - inside].iter().map(|l| l.binder.id).collect();
        // The outer loops that are numbered: all others are in a box.
        let box_of = |from: usize| {
            let mut ranges: Vec<Range> = Vec::new();
            let mut extents = Vec::new();
            for l in &loops[from..] {
                let known = l.is_bounded && self.is_constant(&l.lo) && self.is_constant(&l.hi);
                let size = known.then(|| extent(&l.lo, &l.hi, l.step, &ranges))??;
                extents.push(self.is_known(&size, &outside).then_some(size)?);
                ranges.push((l.binder.id, l.lo.clone(), l.hi.clone()));
            }
            Some((extents, ranges))
        };
        let found = (0..loops.len()).find_map(|n| Some((n, box_of(n)?)));
        let (outer, (mut extents, mut ranges)) = found.unwrap_or((loops.len(), (Vec::new(), Vec::new())));
        let at = |l: &Around| floor_div(sub(var(&l.binder), l.lo.clone()), index(l.step));
        let mut indices: Vec<Expr> = loops[outer..].iter().map(at).collect();
        let counted = outer.checked_sub(1).map(|n| loops[n].body);
        if let Some(n) = outer.checked_sub(1) {
            // Of the loop, among all those around.
            let n = site.loops_in(scope).iter().position(|l| l.body == loops[n].body).unwrap_or(n);
            let n = self.counter(site, scope, n);
            extents.insert(0, var(&self.counters[n].total));
            indices.insert(0, var(&self.counters[n].number));
        }
        for d in &used {
            let known = self.is_constant(&d.lo) && self.is_constant(&d.hi);
            let size = extent(&d.lo, &d.hi, 1, &ranges).filter(|s| known && self.is_known(s, &outside));
            let Some(size) = size else {
                let name = match value.kind() {
                    ExprKind::Load(a) => self.name(a),
                    _ => site.label.to_string(),
                };
                let text = format!("the number of values of `{name}` to keep depends on data");
                return Err(refuse(codes::TAPE, text, &site.places));
            };
            extents.push(size);
            indices.push(sub(var(&d.binder), d.lo.clone()));
            ranges.push((d.binder.id, d.lo.clone(), d.hi.clone()));
        }
        let space = if extents.is_empty() { Space::Register } else { Space::Host };
        let of = match value.kind() {
            ExprKind::Load(a) => self.name(a),
            _ => site.label.to_string(),
        };
        let id = self.func.fresh_buf();
        let buffer = Buffer::local(id, format!("{of}.tape"), value.ty().clone(), extents, space);
        let (value, under) = (value.clone(), under.cloned());
        Ok(Tape {
            scope,
            site: site.clone(),
            at: site.id,
            ahead: None,
            value,
            under,
            buffer,
            indices,
            dims: used,
            counted,
            whole: false,
            ends: Vec::new(),
        })
    }

    /// What is kept for the whole sweep, or for the longest of the iterations that a checkpointed loop reverses one by one.
    pub fn kept(&self) -> Vec<Kept> {
        let all = self.tapes.iter().filter(|t| self.is_home(t.scope));
        let longest = |t: &Tape| {
            let kept = self.kept_by(t);
            let outside = &t.site.loops[..t.site.depth(t.scope)];
            let ranges: Vec<Range> =
                outside.iter().map(|l| (l.binder.id, l.lo.clone(), l.hi.clone())).collect();
            let most = |e: &Expr| {
                let moves = vars_of(e).iter().any(|v| ranges.iter().any(|r| r.0 == *v));
                let over = if moves { extent(&index(0), bytes::inner(e), 1, &ranges) } else { None };
                over.unwrap_or_else(|| e.clone())
            };
            Kept { extents: kept.extents.iter().map(most).collect(), ..kept }
        };
        all.map(longest).chain(self.snapshots()).collect()
    }

    /// What a tape keeps.
    pub fn kept_by(&self, t: &Tape) -> Kept {
        Kept {
            of: self.name_of(t),
            label: t.site.label.to_string(),
            extents: t.buffer.extents.clone(),
            elem: t.buffer.elem.clone(),
        }
    }
}

impl Tape {
    /// The element that it keeps, if it is one.
    pub fn access(&self) -> Option<&Access> {
        match self.value.kind() {
            ExprKind::Load(a) => Some(a),
            _ => None,
        }
    }

    /// Whether it keeps elements of the array that an access is to.
    fn is_of(&self, a: &Access) -> bool {
        self.access().is_some_and(|own| own.view == a.view)
    }
}

/// A variable, and what it ranges over.
type Range = (VarId, Expr, Expr);

/// The largest number of steps that a loop takes, over what the variables before it range over.
fn extent(lo: &Expr, hi: &Expr, step: i64, before: &[Range]) -> Option<Expr> {
    let mut size = sub(hi.clone(), lo.clone());
    for (v, from, to) in before.iter().rev() {
        let form = Linear::of(&size);
        let k = form.factor(*v);
        let mut rest = form.clone().terms.into_iter().filter(|t| t.0.as_var() != Some(*v));
        if rest.any(|t| vars_of(&t.0).contains(v)) {
            return None;
        }
        if k != 0 {
            let end = if k > 0 { sub(to.clone(), index(1)) } else { from.clone() };
            size = lathe_ir::visit::substitute(&form.to_expr(), &HashMap::from([(*v, end)]));
        }
    }
    let size = Linear::of(&size).to_expr();
    let trips = floor_div(add(size, index(step - 1)), index(step));
    // A size is never negative.
    Some(if matches!(trips.kind(), ExprKind::Var(_)) { trips } else { max(trips, index(0)) })
}
