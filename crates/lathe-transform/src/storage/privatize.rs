//! `privatize` and `factor`: every iteration of a loop gets accumulators of its own.

mod extent;
mod first;
mod maker;

use self::first::First;
use self::maker::Maker;
use super::make::{self, fresh_name, nest, proved, refuse};
use super::options;
use super::region::{self, Region};
use super::scope::{self, Around, Found};
use crate::args::Args;
use crate::codes;
use crate::laws::{self, Relied};
use crate::names;
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_analysis::Env;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, Expr, View};
use lathe_ir::names::Role;
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Binder, BufId, Buffer, Function, Label, Mode, Module, Reduce, ReduceOp, Scalar, Space, Stmt, StmtKind,
    Store, VarId, build,
};
use lathe_poly::Linear;
use lathe_poly::bounds;
use lathe_prove::Which;
use lathe_strategy::evidence::{Kind, Partial, Within};
use lathe_strategy::{Claim, Obligation, Refusal};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

rule! {
    /// `privatize(H, c.o)` gives every iteration of `c.o` a copy of the elements of `H` that it reduces into: the
    /// copies start from the identity of the operator, the loop reduces into them, and afterwards they are combined
    /// into `H`, in order (`H.combine`); where the operator has no identity, each copy starts from its first element.
    /// Then iterations of `c.o` no longer touch a common element, and `parallel(c.o)` is legal. Split the loop into as
    /// many chunks as there are threads first; the copies are one more dimension of one buffer, in scratch memory
    /// unless `space:` says otherwise. Subscripts may depend on data: then the whole array is copied.
    ///
    /// Legal for reductions with a licence (`sum[k]`, `op=`), when nothing else in the loop writes the array, and what
    /// it reads of it are other elements than those that it reduces into. The copies are made around the outermost loop
    /// that the subscripts do not depend on, or around `at:`; if that is not the loop itself, the operator must be
    /// commutative. The result is associated differently, which is recorded.
    ///
    /// ```lathe
    /// kernel histogram(X: i32[N], H: inout i32[B]) {
    ///     for i in 0..N { H[X[i]] += 1 }
    /// }
    /// strategy par for histogram = split(i, 1024) ; privatize(H, i.o) ; parallel(i.o)
    /// ```
    pub static PRIVATIZE = privatize, version 1,
        (array: one Buffer, loop: one Loop, at: optional Loop, space: optional Word, name: optional Word, combine: optional Word),
        apply,
        "privatization: gives every iteration of a loop its own copy of what it reduces into";
}

rule! {
    /// `factor(s, i.i)` (Halide's and TVM's `rfactor`) splits the reduction into `s` by the loop `i.i`: each of its
    /// iterations accumulates into an element of its own, and the partial results are combined in order afterwards
    /// (`s.combine`). It is `privatize` with the partial results on the stack (`space: register` keeps them in
    /// registers); `i.i` needs a constant number of iterations, so split the reduced loop first. Then `i.i` can be
    /// vectorized or unrolled.
    ///
    /// `combine: tree` is a tree reduction: it combines the second half of the partial results into the first, until
    /// one is left: loops `s.halve.p`, `s.halve2.p`, … that lanes can run, so that sixteen lanes take four steps and
    /// not sixteen that wait for one another. It needs a commutative operator with an identity and a constant number of
    /// partial results.
    ///
    /// Legality is that of `privatize`.
    ///
    /// ```lathe
    /// kernel dot(x: f32[N], y: f32[N]) -> (s: f32) {
    ///     s = sum[i](x[i] * y[i])
    /// }
    /// strategy lanes for dot = split(i, 64) ; factor(s, i.i) ; vectorize(i.i, vector(f32))
    /// ```
    pub static FACTOR = factor, version 1,
        (array: one Buffer, loop: one Loop, at: optional Loop, space: optional Word, name: optional Word, combine: optional Word),
        apply,
        "splits a reduction into independent partial ones, for example one per vector lane (Halide's rfactor)";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let (rule, cursor) = (work.rule(), &work.cursor());
    let signature = if rule == "factor" { &FACTOR.signature } else { &PRIVATIZE.signature };
    args.check(signature)?;
    let buffer = names::find_buffer(cursor, rule, &args.path(rule, "array", 0)?)?;
    let inner = names::find_one_loop(cursor, rule, &args.path(rule, "loop", 1)?)?;
    let first = First::of(cursor, buffer.id, &inner);
    let whole = cursor;
    let plain = first.as_ref().map(|f| Cursor { func: &f.plain, ..cursor.clone() });
    let cursor = plain.as_ref().unwrap_or(cursor);
    let job = Job { rule, cursor, whole, first: first.as_ref(), buffer, inner };
    let reduction = job.reduction(&job.inner)?;
    let target = match args.opt_path(rule, "at", 2)? {
        Some(name) => {
            let p = names::find_one_loop(cursor, rule, &name)?;
            if !job.inner.starts_with(&p) {
                return Err(refuse(
                    rule,
                    codes::ARGUMENT,
                    format!("`{rule}`: `{name}` is not around the loop"),
                    "`at:` names the loop around which the partial results live",
                    &Places::none(),
                ));
            }
            p
        }
        None => job.outermost(&reduction),
    };
    let space = options::space(rule, args, 3)?;
    // `halves`: as it was called.
    let halves =
        args.opt_word(rule, "combine", 5, &["in_order", "tree", "halves"])?.is_some_and(|w| w != "in_order");
    job.rewrite(work, &target, space, args.opt_path(rule, "name", 4)?, halves)
}

struct Job<'a> {
    rule: &'static str,
    /// Where reductions without identity have no special beginning; and as it is.
    cursor: &'a Cursor<'a>,
    whole: &'a Cursor<'a>,
    first: Option<&'a First>,
    buffer: Arc<Buffer>,
    /// Path of the loop whose iterations get their own accumulators.
    inner: Path,
}

/// The reductions into the array within a statement, all by one operator.
struct Reduction {
    op: ReduceOp,
    /// Of the first one, and of all.
    label: Label,
    labels: Vec<Label>,
    /// Buffers of the targets, in the operator's order.
    targets: Vec<BufId>,
    /// Accesses of the targets, all reductions of the statement.
    found: Vec<Found>,
    places: Places,
}

impl Job<'_> {
    fn refuse(&self, message: String, help: &str, places: &Places) -> Refusal {
        refuse(self.rule, codes::SHAPE, format!("`{}`: {message}", self.rule), help, places)
    }

    /// Checks that a statement touches the array by licensed reductions of one operator only.
    fn reduction(&self, path: &[usize]) -> Result<Reduction, Refusal> {
        let name = &self.buffer.name;
        let Some(stmt) = self.cursor.at(path) else {
            return Err(self.refuse("the loop does not exist any more".into(), "", &Places::none()));
        };
        let mut all: Vec<Reduce> = Vec::new();
        visit::walk(stmt, &mut |s, _| {
            if let Some(r) = s.as_reduce()
                && r.targets.iter().any(|t| t.view.buffer() == Some(self.buffer.id))
            {
                all.push(r.clone());
            }
            true
        });
        let Some(first) = all.first() else {
            return Err(self.refuse(
                format!("nothing in the loop reduces into `{name}`"),
                "name the array that `sum[…]` or `op=` writes, and a loop around that statement",
                stmt.places(),
            ));
        };
        let buffers = |r: &Reduce| r.targets.iter().map(|t| t.view.buffer()).collect::<Vec<_>>();
        let places = first.targets.iter().fold(Places::none(), |p, t| p.union(&t.places));
        let Some(targets) = buffers(first).into_iter().collect::<Option<Vec<BufId>>>() else {
            return Err(self.refuse("the reduction writes through a pointer".into(), "", &places));
        };
        if all.iter().any(|r| r.op != first.op || buffers(r) != buffers(first)) {
            return Err(self.refuse(
                format!("different reductions write `{name}` in the loop"),
                "separate them by `fission`, or choose a loop around one of them",
                &places,
            ));
        }
        if let Some(r) = all.iter().find(|r| !r.licence) {
            return Err(self.refuse(
                format!("`{}` has no licence to be reordered", r.label),
                "write `x += e` or `sum[k](e)`: `x = x + e` keeps its order",
                &places,
            ));
        }
        let around = Around::of(self.cursor.func, path);
        let found: Vec<Found> = scope::accesses(stmt, &around.lets)
            .into_iter()
            .filter(|f| f.buffer().is_none_or(|b| targets.contains(&b)))
            .collect();
        let own = |f: &Found| {
            f.usage == scope::Use::Update
                && !f.opaque
                && f.label.as_ref().is_some_and(|l| all.iter().any(|r| r.label == *l))
        };
        let (found, others): (Vec<_>, Vec<_>) = found.into_iter().partition(own);
        let reads = |f: &Found| f.usage == scope::Use::Read && !f.opaque && self.first.is_none();
        let apart = match others.iter().find(|f| !reads(f)) {
            Some(_) => Err(String::new()),
            None if others.is_empty() => Ok(()),
            None => self.reads_apart(path, stmt, &first.op, &targets),
        };
        apart.map_err(|why| {
            let (f, colon) = (
                others.iter().find(|f| !reads(f)).or(others.first()),
                if why.is_empty() { "" } else { ": " },
            );
            self.refuse(
                format!("something else in the loop touches `{name}`{colon}{why}"),
                "choose a loop that holds nothing but the reduction (`fission` separates the initialization)",
                f.map_or(&places, |f| &f.access.places),
            )
        })?;
        let labels = all.iter().map(|r| r.label.clone()).collect();
        Ok(Reduction { op: first.op.clone(), label: first.label.clone(), labels, targets, found, places })
    }

    /// Whether what a statement reads of the targets are other elements than those that it combines into.
    fn reads_apart(
        &self,
        path: &[usize],
        stmt: &Stmt,
        op: &ReduceOp,
        targets: &[BufId],
    ) -> Result<(), String> {
        let env = Env::at(self.cursor.module, self.cursor.func, path);
        let one = |id: &BufId| match env.buffer(*id) {
            Some(b) => lathe_analysis::reads_apart(&env, stmt, op, b).map(|_| ()),
            None => Err("it is allocated inside of the loop".to_string()),
        };
        targets.iter().try_for_each(one)
    }

    /// The body of the loop.
    fn inside(&self) -> Path {
        self.inner.iter().copied().chain([0]).collect()
    }

    /// How many statements in a subtree reduce into the array.
    fn count(&self, path: &[usize]) -> usize {
        let mut count = 0;
        if let Some(stmt) = self.cursor.at(path) {
            visit::walk(stmt, &mut |s, _| {
                let own = |r: &Reduce| r.targets.iter().any(|t| t.view.buffer() == Some(self.buffer.id));
                count += usize::from(s.as_reduce().is_some_and(own));
                true
            });
        }
        count
    }

    /// The outermost loop around the inner one up to which the subscripts do not depend on any loop.
    fn outermost(&self, r: &Reduction) -> Path {
        let mut best = self.inner.clone();
        for n in (0..self.inner.len()).rev() {
            let path = &self.inner[..n];
            let Some(l) = self.cursor.at(path).and_then(Stmt::as_loop) else { continue };
            let fixed = r
                .found
                .iter()
                .all(|f| f.access.indices.iter().all(|e| !visit::vars_of(e).contains(&l.binder.id)));
            if !fixed || self.count(path) != self.count(&self.inner) || self.reduction(path).is_err() {
                break;
            }
            best = path.to_vec();
        }
        best
    }

    /// What partial results start from, and the laws that combining them relies on.
    fn operator(
        &self,
        op: &ReduceOp,
        types: &[lathe_ir::Type],
        commutes: bool,
        p: &Places,
    ) -> Result<(Option<Vec<Expr>>, Vec<Relied>), Refusal> {
        let module: &Module = self.cursor.module;
        let rely = |which| laws::rely(self.rule, module, self.cursor.func, op, types, which, p);
        let mut relied = vec![rely(Which::Associative)?];
        if commutes {
            relied.push(rely(Which::Commutative).map_err(|mut r| {
                let help = "partial results would interleave: split so that each iteration of the loop takes \
                            consecutive elements, or give `at:` the loop itself";
                r.diagnostic.help = Some(help.to_string());
                r
            })?);
        }
        let identity = lathe_ir::reduce::identity(module, op, types).filter(|_| self.first.is_none());
        if identity.is_none() && self.first.is_none() {
            return Err(self.refuse(
                format!("the operator `{op}` has no identity to start partial results from"),
                "declare one: `identity(e)`, or start with the first element, as `open` does",
                p,
            ));
        }
        if identity.is_some() {
            relied.push(rely(Which::Identity)?);
        }
        Ok((identity, relied))
    }

    /// The labels of the loops that halve a constant number of partial results.
    fn halvings(&self, func: &Function, count: &Expr, r: &Reduction) -> Result<Vec<String>, Refusal> {
        let Some(mut left) = count.as_int().filter(|_| self.first.is_none()) else {
            let what = if self.first.is_some() {
                "an operator without identity"
            } else {
                "a number of partial results that is not constant"
            };
            return Err(self.refuse(
                format!("`combine: tree` cannot do {what}"),
                "leave `combine:` out: then they are combined in order",
                &r.places,
            ));
        };
        let mut out = Vec::new();
        while left > 1 {
            out.push(fresh_name(func, &Role::Halve.nth(&r.label, out.len())));
            left -= left / 2;
        }
        Ok(out)
    }

    fn rewrite(
        &self,
        work: &mut Work,
        target: &Path,
        space: Option<Space>,
        name: Option<String>,
        halves: bool,
    ) -> Result<(), Refusal> {
        let (rule, cursor) = (self.rule, self.cursor);
        let r = self.reduction(target)?;
        if self.count(target) != self.count(&self.inner) {
            return Err(self.refuse(
                format!("`{}` is reduced into beside the loop, too, where its iterations have no number", self.buffer.name),
                "give `at:` a loop that holds no other copy of the statement (`separate` and `unroll` leave a remainder)",
                &r.places,
            ));
        }
        let (Some(stmt), Some(old)) = (cursor.at(target), self.whole.at(target)) else {
            return Err(self.refuse("the loop does not exist any more".into(), "", &r.places));
        };
        let around = Around::of(cursor.func, target);
        if around.lanes().is_some() {
            return Err(self.refuse(
                "the loop is inside of a vector loop".into(),
                "do this before vectorizing",
                &r.places,
            ));
        }
        let env = Env::at(cursor.module, cursor.func, target);
        let parts = r
            .targets
            .iter()
            .map(|id| {
                let b = env.buffer(*id).cloned();
                b.ok_or_else(|| self.refuse("a target is allocated inside of the loop".into(), "", &r.places))
            })
            .collect::<Result<Vec<_>, _>>()?;
        let types: Vec<_> = parts.iter().map(|b| b.elem.clone()).collect();
        let commutes = *target != self.inner || halves;
        let (identity, relied) = self.operator(&r.op, &types, commutes, &r.places)?;

        let bound = scope::bound_in(stmt);
        let (first, mut count, room) = self.iterations(target, &around, &bound, &r)?;
        let (region, mut unsure) = self.box_of(&r, &parts, target, &around, &bound)?;
        let mut labels = Labels::new(work.func(), &r.label, &self.buffer.name);
        let empty = || {
            self.refuse(
                format!("`{}` has no identity, and parts of the loop may be empty", r.op),
                "declare one: `identity(e)`, or split so that every part has an element",
                &r.places,
            )
        };
        let mut exists = None;
        if let Some(f) = self.first {
            count = f.count(cursor, target, &self.inner).ok_or_else(empty)?;
            let part = work.fresh(Role::Parts.of(&labels.combine));
            let own = bounds::normal(&build::var(&part)).plus(&first, 1).ok_or_else(empty)?;
            let cond = f.has_first(cursor, target, &self.inner, &own.to_expr()).ok_or_else(empty)?;
            exists = Some((part, cond));
        }
        if halves {
            labels.halves = Some(self.halvings(work.func(), &count, &r)?);
        }
        let mut locals = Vec::new();
        for (n, b) in parts.iter().enumerate() {
            let mut extents = vec![room.clone()];
            extents.extend((0..region[n].rank()).map(|d| {
                let constant = region[n].constant_size(d, &around.loops);
                constant.map_or_else(|| region[n].size_expr(d, &around.loops, &around.sizes), build::index)
            }));
            let wanted = match (&name, n) {
                (Some(name), 0) => name.clone(),
                _ => Role::Parts.of(&b.name),
            };
            let small = make::check_space(rule, &b.name, &b.elem, &extents, Space::Stack).is_ok();
            let default = if rule == "factor" && small { Space::Stack } else { Space::Host };
            let space = space.unwrap_or(default);
            let fresh = fresh_name(work.func(), &wanted);
            make::check_space(rule, &fresh, &b.elem, &extents, space)?;
            let id = work.fresh_buf();
            locals.push(Buffer::local(id, fresh, b.elem.clone(), extents, space));
        }
        // An empty part combines nothing.
        let sometimes = exists.as_ref().is_some_and(|e| e.1.as_bool() != Some(true));
        if sometimes {
            unsure = parts.clone();
        }
        let m = Maker {
            job: self,
            r: &r,
            around: &around,
            parts: &parts,
            locals: &locals,
            region: &region,
            count,
            exists,
        };
        let init = identity.as_ref().map(|start| m.init(work, start, &mut labels)).unwrap_or_default();
        // One array after the other goes to its parts.
        let mut main = (0..parts.len()).fold(old.clone(), |so_far, n| m.redirect(&so_far, &first, n));
        if let Some(f) = self.first {
            let outside: Vec<VarId> = around.binders.iter().map(|b| b.id).collect();
            main = f.restart(&main, &locals, &outside);
        }
        let combine = m.combine(work, &mut labels);
        let own = m.own(&first).ok_or_else(empty)?;
        let body = Stmt::seq(init.into_iter().chain([main, combine]));
        let new = locals
            .iter()
            .rev()
            .fold(body, |body, b| Stmt::new(StmtKind::Alloc { buffer: b.clone(), body }, r.places.clone()));
        work.replace_storage(target, new, Kind::Split)?;
        let func = work.func();
        for b in &unsure {
            self.computed(func, b, &labels.combine, &r)?;
        }
        // Parts are told from empty ones where they are combined: whatever is read there or before was written.
        let root = Env::root(cursor.module, func);
        let begun = |b: &Arc<Buffer>| lathe_analysis::written_before_read(&root, &func.body, b, None);
        if sometimes && !locals.iter().all(begun) {
            return Err(empty());
        }

        let label = r.label.to_string();
        let partial = |(n, (b, local)): (usize, (&Arc<Buffer>, &Arc<Buffer>))| Partial {
            array: b.name.to_string(),
            buffer: local.name.to_string(),
            window: region::window(work, target, &region[n], &around),
        };
        let all: Vec<Partial> = parts.iter().zip(&locals).enumerate().map(partial).collect();
        let alone = all.iter().map(|p| Claim::Exclusive { array: p.array.clone(), buffer: p.buffer.clone() });
        let alone: Vec<Claim> = alone.collect();
        let claim = Claim::PartsCombined { parts: all, own: work.formula(&self.inside(), &own) };
        let help = "choose another loop, or `at:`";
        if self.first.is_none() {
            work.decide_at(target, claim, help)?;
        } else {
            work.oblige(Obligation::by_rule(claim));
            let array = self.buffer.name.to_string();
            let only = Claim::OnlyBy { label: label.clone(), array, within: Within::Statement };
            work.decide_at(target, only, help)?;
        }
        for claim in alone {
            work.decide_at(target, claim, "privatize before `parallel`")?;
        }
        relied.iter().for_each(|l| work.relies_on(l));
        r.labels.iter().for_each(|l| work.changes_rounding(l.as_str()));
        if self.first.is_some() {
            work.oblige(Obligation::by_rule(Claim::PartsBegin { label }));
        }
        locals.iter().for_each(|b| work.made(target, b));
        parts.iter().zip(&locals).for_each(|(b, local)| work.plays(Role::Parts, &**b, &**local));
        work.plays(Role::Combine, &r.label, &Label::new(&labels.combine));
        labels.halves.iter().flatten().for_each(|l| work.plays(Role::Halve, &r.label, &Label::new(l)));
        Ok(())
    }
}

struct Labels {
    init: String,
    combine: String,
    /// One per halving, if partial results are combined so.
    halves: Option<Vec<String>>,
}

impl Labels {
    fn new(func: &Function, label: &Label, buffer: &str) -> Labels {
        Labels {
            init: fresh_name(func, &lathe_ir::names::private(buffer)),
            combine: fresh_name(func, &Role::Combine.of(label)),
            halves: None,
        }
    }
}
