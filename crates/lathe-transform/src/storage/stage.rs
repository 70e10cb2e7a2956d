//! `stage`: a part of an array is copied to a local buffer, used there, and copied back.

use super::linear::{self, Linear};
use super::make::{self, check_space, fresh_name, nest, proved, refuse};
use super::options::{self, Pad};
use super::region::{self, Region};
use super::scope::{self, Around, Found, Use};
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule::{Cursor, Edit, Rule};
use lathe_analysis::Env;
use lathe_diagnostics::Places;
use lathe_ir::expr::{Access, Expr};
use lathe_ir::visit::{self, Path};
use lathe_ir::{
    Binder, Buffer, Executor, Function, Label, Layout, Mode, Scalar, Space, Stmt, StmtKind, Store, View,
    build,
};
use lathe_strategy::syntax::{Formal, Sort};
use lathe_strategy::{Discharge, Evidence, Refusal, RuleSignature};
use std::sync::Arc;

const RULE: &str = "stage";

pub static STAGE: Rule = Rule {
    signature: RuleSignature {
        name: RULE,
        version: 1,
        formals: &[
            Formal { name: "array", sort: Sort::Buffer, optional: false, many: false },
            Formal { name: "at", sort: Sort::Loop, optional: false, many: false },
            Formal { name: "space", sort: Sort::Word, optional: true, many: false },
            Formal { name: "name", sort: Sort::Word, optional: true, many: false },
            Formal { name: "layout", sort: Sort::Data, optional: true, many: false },
            Formal { name: "pad", sort: Sort::Data, optional: true, many: false },
        ],
        summary: "copies the part of an array that a loop's body uses to a local buffer",
        page: PAGE,
    },
    apply,
};

const PAGE: &str = "\
`stage(A, at: k.o)` finds the box of elements of `A` that one iteration of `k.o` uses, allocates a local buffer \
of that size in the loop's body, copies the elements in (`copy(A)`), redirects every access, and copies what was \
written back (`copy(A).out`). Elements that the body surely writes before it reads them are not copied in.

`space:` is `host` (scratch memory, the default), `stack` or `register`; the last two need a box that constants \
bound, so split the loops first. `name:` names the buffer (`A.s` otherwise). `layout:` may be given several times; \
`tile(dim, size)`, `permute(…)` and `pad(dim, multiple)` are applied in this order (packing). The copying loops are \
called `copy(A).0`, `copy(A).1`, … after the dimensions.

`pad: true` fills the copy with zeros up to multiples of the layout's tiles (without tiles: up to the constant \
size of the buffer); `pad: pad(1, 32)` does so for one dimension. The rule `pad` can then run full tiles.

Legal when every access to `A` in the body is a plain one (no call, no slice), `A` may not alias another array, and \
no thread that runs at the same time writes elements that would be copied without being used. Sound by construction: \
the buffer is used by nothing else.

```lathe
kernel mv(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    y[i] = sum[j](A[i, j] * x[j])
}
strategy staged for mv = split(j, 64) ; reorder(j.o, i, j.i) ; stage(x, at: j.o, space: stack)
```
";

/// What the user asked for.
pub struct Options {
    pub space: Space,
    pub name: Option<String>,
    pub layout: Layout,
    pub pad: Vec<Pad>,
}

fn apply(cursor: &Cursor, args: &Args) -> Result<Edit, Refusal> {
    args.check(&STAGE.signature)?;
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
    };
    stage_around(RULE, cursor, &target, &buffer, &options)
}

/// What is known about the array within the statement that the buffer will serve.
struct Plan<'a> {
    rule: &'a str,
    around: Around,
    buffer: Arc<Buffer>,
    found: Vec<Found>,
    /// All accesses.
    region: Region,
    /// The written elements; `None` if there are none.
    written: Option<Region>,
    copy_in: bool,
}

/// Stages around the statement at a path: the copy lives exactly as long as that statement runs.
pub fn stage_around(
    rule: &str,
    cursor: &Cursor,
    target: &Path,
    buffer: &Arc<Buffer>,
    options: &Options,
) -> Result<Edit, Refusal> {
    let Some(stmt) = cursor.at(target) else {
        return Err(refuse(
            rule,
            codes::SHAPE,
            "the place does not exist any more".into(),
            "",
            &Places::none(),
        ));
    };
    let plan = Plan::make(rule, cursor, target, stmt, buffer)?;
    let mut func = cursor.func.clone();
    let (made, extents) = plan.rewrite(&mut func, stmt, options)?;
    make::replace(rule, &mut func, target, made.stmt)?;
    let env = Env::at(cursor.module, cursor.func, target);
    let shape: Vec<String> = extents.iter().map(|e| env.text(e)).collect();
    let name = &buffer.name;
    let mut ev = Evidence::new(rule, 1)
        .oblige(
            format!("every access to `{name}` in the statement lies in the box that `{}` holds", made.name),
            Discharge::ByRule,
        )
        .oblige(
            format!(
                "nothing else touches `{name}` while `{}` lives: no call, view or alias of it",
                made.name
            ),
            Discharge::ByDependence,
        );
    if plan.written.is_some() && !plan.copy_in {
        ev = ev.oblige(
            format!("every element of `{}` is written before it is read or copied out", made.name),
            Discharge::ByDependence,
        );
    }
    ev.buffers.push(format!("{}[{}] in {}", made.name, shape.join(", "), options.space.name()));
    for label in made.labels {
        ev.relations.push(make::relation(cursor.module, cursor.func, &func, &label, "new"));
    }
    Ok(Edit { func, evidence: ev })
}

/// The new statement, with the names it introduces.
struct Made {
    stmt: Stmt,
    name: String,
    labels: Vec<String>,
}

impl<'a> Plan<'a> {
    fn make(
        rule: &'a str,
        cursor: &Cursor,
        target: &Path,
        stmt: &Stmt,
        buffer: &Arc<Buffer>,
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
        if let Some(e) = around.executors.iter().find(|e| !e.is_ordered() && **e != Executor::Cpu) {
            return Err(refuse(
                rule,
                codes::UNSUPPORTED,
                format!("`{rule}` cannot make a buffer inside of a loop run by {e:?}"),
                "stage before vectorizing, at a loop around it",
                places,
            ));
        }
        let param = cursor.func.params.iter().find(|p| p.array().is_some_and(|b| b.id == buffer.id));
        if param.is_some_and(|p| p.alias.is_some()) {
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
                format!("`{rule}`: a pointer is followed here, which might lead into `{name}`"),
                "",
                places,
            ));
        }
        let found: Vec<Found> = all.into_iter().filter(|f| f.buffer() == Some(buffer.id)).collect();
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
        let region_of = |set: &[&Found]| Region::of(set, 0, &around.loops, &inner, &extents, &around.sizes);
        let everything: Vec<&Found> = found.iter().collect();
        let region = region_of(&everything);
        let writes: Vec<&Found> = found.iter().filter(|f| f.writes()).collect();
        let written = (!writes.is_empty()).then(|| region_of(&writes));
        let exact_over = |set: &[&Found], r: &Region| {
            let mut exact = set.iter().filter(|f| region::is_exact(f, 0));
            exact.any(|f| region_of(&[f]).contains(r, &around.loops, &around.sizes))
        };
        // Copied in unless all that is read or copied out was surely written first.
        let fresh = written.as_ref().is_some_and(|w| {
            exact_over(&writes.iter().filter(|f| f.usage == Use::Write).copied().collect::<Vec<_>>(), w)
                && found.iter().filter(|f| f.reads()).all(|r| region::covered(r, &writes, &around, &extents))
        });
        let copy_in = !fresh;
        let given = param.is_some_and(|p| matches!(p.mode, Mode::In | Mode::InOut));
        let if_run = |f: &&&Found| region::is_exact_if_run(f, 0);
        let whole = |f: &&Found| region_of(&[*f]).contains(&region, &around.loops, &around.sizes);
        let known = given
            || everything.iter().filter(if_run).any(whole)
            || region::defined_before(cursor.func, target, buffer, &region);
        if copy_in && !known {
            return Err(refuse(
                rule,
                codes::UNSUPPORTED,
                format!("`{rule}` would copy elements of `{name}` that may not have been computed"),
                "only a box that the statement uses entirely can be copied from an output or a local array",
                places,
            ));
        }
        if let Some(outer) = &around.parallel {
            let elsewhere = cursor.at(outer).map_or(Vec::new(), |s| scope::accesses(s, &around.lets));
            let shared = elsewhere.iter().any(|f| f.buffer() == Some(buffer.id) && f.writes());
            let sure =
                exact_over(&everything, &region) && written.as_ref().is_none_or(|w| exact_over(&writes, w));
            if shared && !sure {
                return Err(refuse(
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
        Ok(Plan { rule, around, buffer: buffer.clone(), found, region, written, copy_in })
    }

    fn rewrite(&self, func: &mut Function, stmt: &Stmt, o: &Options) -> Result<(Made, Vec<Expr>), Refusal> {
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
        let name = fresh_name(func, &o.name.clone().unwrap_or_else(|| format!("{}.s", self.buffer.name)));
        check_space(self.rule, &name, &self.buffer.elem, &extents, o.space)?;
        let id = func.fresh_buf();
        let local = Arc::new(Buffer {
            id,
            name: name.clone().into(),
            elem: self.buffer.elem.clone(),
            extents: extents.clone(),
            space: o.space,
            layout: o.layout.clone(),
        });
        let label = fresh_name(func, &format!("copy({})", self.buffer.name));
        let copies = Copies { plan: self, local: &local, label: &label, live: &live, full: &full };
        let mut labels = Vec::new();
        let mut parts = Vec::new();
        if self.copy_in {
            labels.push(label.clone());
            parts.extend(copies.enter(func, o));
        }
        parts.push(self.redirect(stmt, &local));
        if let Some(w) = &self.written {
            labels.push(format!("{label}.out"));
            parts.push(copies.leave(func, w, o));
        }
        let body = Stmt::seq(parts);
        let stmt = Stmt::new(StmtKind::Alloc { buffer: local, body }, self.places());
        Ok((Made { stmt, name, labels }, extents))
    }

    fn places(&self) -> Places {
        self.found.iter().fold(Places::none(), |p, f| p.union(&f.access.places))
    }

    fn redirect(&self, stmt: &Stmt, local: &Buffer) -> Stmt {
        visit::map_accesses(stmt, &mut |a| {
            if a.view != View::Buffer(self.buffer.id) {
                return None;
            }
            let indices = a.indices.iter().zip(&self.region.lo).map(|(e, lo)| {
                Linear::of(e).minus(lo).map_or_else(|| build::sub(e.clone(), lo.to_expr()), |l| l.to_expr())
            });
            Some(Access { places: a.places.clone(), ..proved(local.id, &local.elem, indices.collect()) })
        })
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

impl Copies<'_> {
    fn binders(&self, func: &mut Function, label: &str) -> Vec<Binder> {
        (0..self.live.len()).map(|d| func.fresh_var(format!("{label}.{d}"), Scalar::Index)).collect()
    }

    /// The array's element for a position in the buffer.
    fn outside(&self, vars: &[Binder]) -> Vec<Expr> {
        let lows = self.plan.region.lo.iter();
        lows.zip(vars)
            .map(|(lo, v)| lo.plus(&Linear::of(&build::var(v)), 1).unwrap_or(Linear::constant(0)).to_expr())
            .collect()
    }

    fn store(&self, label: &str, vars: &[Binder], target: Access, value: Expr) -> Stmt {
        let mut instance = self.plan.around.instance();
        instance.extend(self.outside(vars));
        let store = Store { label: Label::new(label), instance, target, value, nontemporal: false };
        Stmt::new(StmtKind::Store(store), self.plan.places())
    }

    fn here(&self, vars: &[Binder]) -> Access {
        proved(self.local.id, &self.local.elem, vars.iter().map(build::var).collect())
    }

    fn there(&self, vars: &[Binder]) -> Access {
        proved(self.plan.buffer.id, &self.local.elem, self.outside(vars))
    }

    /// The first position whose element is in the array.
    fn first(&self, d: usize) -> Expr {
        let r = &self.plan.region;
        if r.starts_inside(d, &self.plan.around.loops, &self.plan.around.sizes) {
            return build::index(0);
        }
        let below = r.lo[d].scaled(-1).unwrap_or(Linear::constant(0));
        build::max(build::index(0), below.to_expr())
    }

    /// Copies in, and fills up to the padded extents.
    fn enter(&self, func: &mut Function, o: &Options) -> Vec<Stmt> {
        if o.space == Space::Register {
            return vec![self.enter_register(func, o)];
        }
        let rank = self.live.len();
        let vars = self.binders(func, self.label);
        let store = self.store(self.label, &vars, self.here(&vars), build::load(self.there(&vars)));
        let loops = vars.iter().enumerate().map(|(d, v)| (v.clone(), self.first(d), self.live[d].clone()));
        let mut out = vec![nest(loops.collect(), store, &self.plan.places())];
        // The last dimension first: each fill makes the filled box longer in one dimension.
        for d in (0..rank).rev().filter(|d| self.full[*d] != self.live[*d]) {
            let label = format!("{}.pad", self.label);
            let vars = self.binders(func, &label);
            let store = self.store(&label, &vars, self.here(&vars), make::zero(&self.local.elem));
            let loops = vars.iter().enumerate().map(|(e, v)| {
                let (lo, hi) = match e.cmp(&d) {
                    std::cmp::Ordering::Less => (build::index(0), &self.live[e]),
                    std::cmp::Ordering::Equal => (self.live[e].clone(), &self.full[e]),
                    std::cmp::Ordering::Greater => (build::index(0), &self.full[e]),
                };
                (v.clone(), lo, hi.clone())
            });
            out.push(nest(loops.collect(), store, &self.plan.places()));
        }
        out
    }

    /// Constant loops, which can be unrolled, with guards for elements that do not exist.
    fn enter_register(&self, func: &mut Function, o: &Options) -> Stmt {
        let vars = self.binders(func, self.label);
        let padded = o.pad.iter().any(|p| *p != Pad::Exact);
        let load = build::load(self.there(&vars));
        let mut conds: Vec<Option<Expr>> = Vec::new();
        for (d, v) in vars.iter().enumerate() {
            conds.push(self.guard(d, v, &self.first(d), &self.live[d]));
        }
        let all = conds.iter().flatten().cloned().reduce(build::and);
        if padded {
            let value = match all {
                Some(c) => build::select(c, load, make::zero(&self.local.elem)),
                None => load,
            };
            let store = self.store(self.label, &vars, self.here(&vars), value);
            return self.constant_nest(&vars, vec![None; vars.len()], store);
        }
        let store = self.store(self.label, &vars, self.here(&vars), load);
        self.constant_nest(&vars, conds, store)
    }

    /// `lo <= v < hi`, as far as it is not always true in the buffer.
    fn guard(&self, d: usize, v: &Binder, lo: &Expr, hi: &Expr) -> Option<Expr> {
        let low = (lo.as_int() != Some(0)).then(|| build::le(lo.clone(), build::var(v)));
        let room = self.local.extents[d].as_int();
        let ends = linear::mins(&Linear::of(hi));
        let ends: Vec<Linear> =
            ends.into_iter().filter(|e| e.as_constant().is_none_or(|c| Some(c) < room)).collect();
        let high = linear::min_expr(&ends).map(|hi| build::lt(build::var(v), hi));
        low.into_iter().chain(high).reduce(build::and)
    }

    fn constant_nest(&self, vars: &[Binder], conds: Vec<Option<Expr>>, body: Stmt) -> Stmt {
        let places = self.plan.places();
        vars.iter().zip(conds).enumerate().rev().fold(body, |body, (d, (v, cond))| {
            let body = match cond {
                Some(cond) => Stmt::new(StmtKind::If { cond, then: body, other: None }, places.clone()),
                None => body,
            };
            nest(vec![(v.clone(), build::index(0), self.local.extents[d].clone())], body, &places)
        })
    }

    /// Copies the written elements back, and only those.
    fn leave(&self, func: &mut Function, w: &Region, o: &Options) -> Stmt {
        let label = format!("{}.out", self.label);
        let vars = self.binders(func, &label);
        let (around, sizes) = (&self.plan.around.loops, &self.plan.around.sizes);
        let mut ranges = Vec::new();
        for d in 0..vars.len() {
            let base = &self.plan.region.lo[d];
            let gap = w.lo[d].minus(base).unwrap_or(Linear::constant(0));
            let lo = match gap.as_constant() {
                Some(0) if w.starts_inside(d, around, sizes) => build::index(0),
                _ if w.starts_inside(d, around, sizes) => gap.to_expr(),
                _ => build::max(gap.to_expr(), self.first(d)),
            };
            let forms: Vec<Linear> = w.hi[d].iter().filter_map(|h| h.minus(base)).collect();
            let hi = linear::min_expr(&forms).unwrap_or_else(|| self.live[d].clone());
            ranges.push((lo, hi));
        }
        let store = self.store(&label, &vars, self.there(&vars), build::load(self.here(&vars)));
        if o.space == Space::Register {
            let conds = vars.iter().enumerate().map(|(d, v)| self.guard(d, v, &ranges[d].0, &ranges[d].1));
            return self.constant_nest(&vars, conds.collect(), store);
        }
        let loops = vars.iter().zip(ranges).map(|(v, (lo, hi))| (v.clone(), lo, hi));
        nest(loops.collect(), store, &self.plan.places())
    }
}
