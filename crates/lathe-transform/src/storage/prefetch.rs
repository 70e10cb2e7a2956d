//! `prefetch`: what a later iteration reads is loaded into a cache now (software prefetch).

use super::{make, scope};
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_ir::expr::{Access, View};
use lathe_ir::{BufId, Executor, Stmt, StmtKind, VarId, build, visit};
use lathe_poly::bounds;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};
use std::collections::HashMap;

const RULE: &str = "prefetch";
/// Bytes of a line of the caches.
const LINE: i64 = 64;

rule! {
    /// `prefetch(A, at: k.o, ahead: 8)` lets every iteration of `k.o` prefetch the elements of `A` that the same reads
    /// touch 8 iterations later, so that they are in the second cache by then. Without `ahead:` it is the next
    /// iteration; `within:` names a loop inside, and only what is read there is prefetched. Vector loops prefetch once
    /// per line and not per lane, so vectorize first. Processors read ahead by themselves, but not beyond pages, and
    /// not of many rows at a time.
    ///
    /// `spread: i.o` prefetches a little at a time: each iteration of `i.o`, a loop inside of `at:`, its share of what
    /// they all will read in a later iteration of `at:`, in the innermost loop along which it is read. What many
    /// tiles of rows read one after the other, as a panel of packed columns, so is in the second cache when the first
    /// of them needs it.
    ///
    /// Always legal: it changes nothing but the caches, and elements beyond the array may be prefetched. Refused where
    /// it would have to read other data to know for what (`A[X[i]]`), for loops whose iterations run at the same time
    /// (the next one is another thread's), and, but with `spread:`, for arrays that are not parameters.
    ///
    /// ```lathe
    /// kernel mv(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    ///     y[i] = sum[j](A[i, j] * x[j])
    /// }
    /// strategy ahead for mv = split(j, 16) ; factor(y, j.i) ; vectorize(j.i, vector(f32)) ; prefetch(A, at: i)
    /// ```
    pub static PREFETCH = prefetch, version 1,
        (array: one Buffer, at: one Loop, ahead: optional Int, within: optional Loop, spread: optional Loop),
        apply,
        "software prefetch: loads into a cache what a later iteration reads of an array";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let buffer = names::find_buffer(cursor, RULE, &args.path(RULE, "array", 0)?)?;
    let path = names::find_one_loop(cursor, RULE, &args.path(RULE, "at", 1)?)?;
    let ahead = args.opt_positive(RULE, "ahead", 2)?.unwrap_or(1);
    let inside = args.opt_path(RULE, "within", 3)?;
    let inside = inside.map(|n| names::find_one_loop(cursor, RULE, &n)).transpose()?;
    let spread = args.opt_path(RULE, "spread", 4)?;
    let spread = spread.map(|n| names::find_one_loop(cursor, RULE, &n)).transpose()?;
    let l = names::loop_at(cursor, RULE, &path)?;
    let name = &l.binder.name;
    let refuse = |code, text: String, help: &str| {
        let places = cursor.at(&path).map(|s| s.places().clone()).unwrap_or_default();
        make::refuse(RULE, code, format!("`prefetch`: {text}"), help, &places)
    };
    let parameter = cursor.func.params.iter().any(|p| p.array().is_some_and(|b| b.id == buffer.id));
    if !parameter && spread.is_none() {
        let text = format!("`{}` is no parameter", buffer.name);
        return Err(refuse(codes::UNSUPPORTED, text, "what a kernel allocates itself is in the caches"));
    }
    if !matches!(l.exec, Executor::Serial | Executor::Unrolled) {
        let text = format!("the iterations of `{name}` run at the same time, and have no next one");
        return Err(refuse(codes::UNSUPPORTED, text, "name a loop inside that runs in order"));
    }
    if let (Some(_), Some(_)) = (&inside, &spread) {
        return Err(refuse(codes::SHAPE, "both `within:` and `spread:`".into(), "give one of them"));
    }
    let which = if spread.is_some() { "spread" } else { "within" };
    let target = inside.or(spread.clone()).unwrap_or_else(|| path.clone());
    if !target.starts_with(&path) || spread.is_some() && target == path {
        let text = format!("the loop of `{which}:` is not inside of `{name}`");
        return Err(refuse(codes::SHAPE, text, ""));
    }
    let Some(s) = cursor.at(&target) else { return Err(refuse(codes::SHAPE, "no such loop".into(), "")) };
    let mut asking = Asking { buffer: buffer.id, var: l.binder.id, ahead, some: false, by_data: false };
    let new = match s.as_loop().filter(|_| spread.is_some()) {
        Some(shared) => {
            let trips = bounds::most_trips(shared, &work.ranges(&target)).filter(|n| *n > 0);
            let Some(trips) = trips.filter(|_| matches!(shared.exec, Executor::Serial)) else {
                let by = &shared.binder.name;
                let text = match shared.exec {
                    Executor::Serial => format!("how many iterations `{by}` has at most is not known"),
                    _ => format!("the iterations of `{by}` do not run one after the other"),
                };
                return Err(refuse(
                    codes::UNSUPPORTED,
                    text,
                    "name a loop over tiles that runs in order, within a block of constant size",
                ));
            };
            if asking.mentions(&shared.body, shared.binder.id) {
                let text = format!("iterations of `{}` read different elements", shared.binder.name);
                return Err(refuse(codes::SHAPE, text, "name a loop whose iterations all read the same"));
            }
            asking.shares(s, &Share { by: build::var(&shared.binder), trips })
        }
        None if lanes(s).is_some() => asking.before(s, s.clone()),
        None => asking.inside(s),
    };
    if !asking.some {
        return Err(match asking.by_data {
            true => refuse(codes::UNSUPPORTED, format!("data say where `{}` is read", buffer.name), ""),
            false => refuse(
                codes::SHAPE,
                format!("no read of `{}` in there depends on `{name}`", buffer.name),
                "name a loop whose iterations read different elements",
            ),
        });
    }
    work.replace_storage(&target, new, Kind::Bijection)?;
    work.decide(Claim::CachesOnly { array: buffer.name.to_string() }, "leave it out")
}

struct Asking {
    buffer: BufId,
    var: VarId,
    ahead: i64,
    /// Something is prefetched.
    some: bool,
    /// Data say where something is.
    by_data: bool,
}

impl Asking {
    /// A loop with prefetches in its body, as far inside as the reads, but outside of vectors.
    fn inside(&mut self, s: &Stmt) -> Stmt {
        let children = s.children().map(|c| {
            let new = if lanes(c).is_some() { c.clone() } else { self.inside(c) };
            self.before(c, new)
        });
        s.with_children(children.collect())
    }

    fn before(&mut self, s: &Stmt, new: Stmt) -> Stmt {
        let asked = self.wanted(s);
        self.some |= !asked.is_empty();
        let asked = asked.into_iter().map(|a| Stmt::new(StmtKind::Prefetch(a), s.places().clone()));
        Stmt::seq(asked.chain([new]))
    }

    /// A loop whose innermost loops along which the array is read prefetch the share of this iteration of the loop that shares.
    fn shares(&mut self, s: &Stmt, share: &Share) -> Stmt {
        let mut deeper = false;
        s.children().for_each(|c| {
            visit::walk(c, &mut |x, _| {
                deeper |= x.as_loop().is_some_and(|l| self.along(l));
                !deeper
            });
        });
        if deeper {
            return s.with_children(s.children().map(|c| self.shares(c, share)).collect());
        }
        let Some(l) = s.as_loop().filter(|l| self.along(l)) else { return s.clone() };
        let asked = self.share(l, share);
        self.some |= !asked.is_empty();
        let asked = asked.into_iter().map(|a| Stmt::new(StmtKind::Prefetch(a), s.places().clone()));
        s.with_children(vec![Stmt::seq(asked.chain([l.body.clone()]))])
    }

    /// Whether iterations of a loop that run in order read different elements.
    fn along(&self, l: &lathe_ir::Loop) -> bool {
        matches!(l.exec, Executor::Serial) && self.mentions(&l.body, l.binder.id)
    }

    /// Whether it depends on a variable what the array is read at.
    fn mentions(&self, s: &Stmt, var: VarId) -> bool {
        let mut some = false;
        let by = |a: &Access| self.reads(a) && a.indices.iter().any(|e| visit::vars_of(e).contains(&var));
        visit::walk(s, &mut |s, _| {
            some |= s.exprs().into_iter().flat_map(visit::loads_of).any(|a| by(&a));
            !some
        });
        some
    }

    /// The lines that vectors of a loop's body read, one in each iteration: the shares are the first lines of the vectors
    /// of the first iterations, then the second lines, and each takes turns with so many others that all iterations have one.
    fn share(&mut self, l: &lathe_ir::Loop, share: &Share) -> Vec<Access> {
        let mut out: Vec<Access> = Vec::new();
        let mut found = Vec::new();
        vectors(&l.body, &mut Vec::new(), &mut found);
        for (written_out, v, width) in found {
            let mut reads = Vec::new();
            visit::walk(&v.body, &mut |s, _| {
                reads.extend(s.exprs().into_iter().flat_map(visit::loads_of).filter(|a| self.reads(a)));
                true
            });
            let Some(bytes) = reads.first().map(|a| (a.elem.bytes() as i64).max(1)) else { continue };
            let vectors = written_out.map_or(1, |o| bounds::constant_trips(o).unwrap_or(1)).max(1);
            let (in_line, in_vector) = ((LINE / (width * bytes)).max(1), (width * bytes / LINE).max(1));
            let lines = ((vectors + in_line - 1) / in_line * in_vector).max(1);
            // A power of two, by which to divide is no work.
            let turns = 1i64 << (share.trips / lines).max(1).ilog2();
            let line = build::floor_div(share.by.clone(), build::index(turns));
            let line = build::min(line, build::index(lines - 1));
            let vector = build::floor_div(line.clone(), build::index(in_vector));
            let vector = build::mul(vector, build::index(in_line));
            let lane =
                build::mul(build::floor_mod(line, build::index(in_vector)), build::index(LINE / bytes));
            let row = build::sub(build::var(&l.binder), l.lo.clone());
            let row = build::mul(build::floor_div(row, build::index(turns)), build::index(turns));
            let turn = build::floor_mod(share.by.clone(), build::index(turns));
            let row = build::add(l.lo.clone(), build::add(row, turn));
            let mut at = HashMap::from([(l.binder.id, row), (v.binder.id, build::add(v.lo.clone(), lane))]);
            if let Some(o) = written_out {
                at.insert(o.binder.id, build::add(o.lo.clone(), vector));
            }
            // Where names that are bound inside say where, nothing can be said outside.
            let bound = scope::bound_in(&l.body);
            let said = |e: &lathe_ir::Expr| visit::vars_of(&visit::substitute(e, &at)).is_disjoint(&bound);
            reads.retain(|a| a.indices.iter().all(said));
            self.add(reads, &at, &mut out);
        }
        out
    }

    /// What is prefetched in front of a statement: of a plain one what itself reads, of a vector loop one per line.
    fn wanted(&mut self, s: &Stmt) -> Vec<Access> {
        let mut out: Vec<Access> = Vec::new();
        let Some((l, width)) = lanes(s) else {
            for e in s.exprs() {
                self.add(visit::loads_of(e), &HashMap::new(), &mut out);
            }
            return out;
        };
        let mut reads = Vec::new();
        visit::walk(&l.body, &mut |s, _| {
            reads.extend(s.exprs().into_iter().flat_map(visit::loads_of));
            true
        });
        // Where names that are bound inside say where, nothing can be said outside.
        let bound = scope::bound_in(&l.body);
        reads.retain(|a| a.indices.iter().all(|e| visit::vars_of(e).is_disjoint(&bound)));
        let bytes = reads.iter().find(|a| self.reads(a)).map_or(1, |a| a.elem.bytes() as i64).max(1);
        let per_line = (LINE / bytes).max(1);
        for n in 0..(i64::from(width) + per_line - 1) / per_line {
            let lane = build::add(l.lo.clone(), build::index(n * per_line));
            self.add(reads.clone(), &HashMap::from([(l.binder.id, lane)]), &mut out);
        }
        out
    }

    fn reads(&self, a: &Access) -> bool {
        a.view == View::Buffer(self.buffer)
    }

    fn add(&mut self, reads: Vec<Access>, lanes: &HashMap<VarId, lathe_ir::Expr>, out: &mut Vec<Access>) {
        let later = build::add(build::var_id(self.var, lathe_ir::Scalar::Index), build::index(self.ahead));
        let later = HashMap::from([(self.var, later)]);
        for a in reads.into_iter().filter(|a| a.view == View::Buffer(self.buffer)) {
            if a.indices.iter().any(|e| !visit::loads_of(e).is_empty()) {
                self.by_data = true;
                continue;
            }
            if !a.indices.iter().any(|e| visit::vars_of(e).contains(&self.var)) {
                continue;
            }
            let at = |e| visit::substitute(&visit::substitute(e, lanes), &later);
            let new = Access {
                places: a.places.clone(),
                ..make::proved(self.buffer, &a.elem, a.indices.iter().map(at).collect())
            };
            if !out.iter().any(|o| o.indices == new.indices) {
                out.push(new);
            }
        }
    }
}

/// The iteration of the loop whose iterations share a prefetch, and how many there are at most.
struct Share {
    by: lathe_ir::Expr,
    trips: i64,
}

/// The vector loops of a body, each with the loop around it that is written out and how many lanes it has.
fn vectors<'s>(
    s: &'s Stmt,
    around: &mut Vec<&'s lathe_ir::Loop>,
    out: &mut Vec<(Option<&'s lathe_ir::Loop>, &'s lathe_ir::Loop, i64)>,
) {
    if let Some((l, width)) = lanes(s) {
        out.push((around.last().copied(), l, i64::from(width)));
        return;
    }
    let unrolled = s.as_loop().filter(|l| matches!(l.exec, Executor::Unrolled));
    around.extend(unrolled);
    s.children().for_each(|c| vectors(c, around, out));
    if unrolled.is_some() {
        around.pop();
    }
}

/// A loop that vectors run, and how many lanes there are.
fn lanes(s: &Stmt) -> Option<(&lathe_ir::Loop, u32)> {
    let l = s.as_loop()?;
    match l.exec {
        Executor::Vector(w) | Executor::InScan(w) => Some((l, w)),
        _ => None,
    }
}
