//! `prefetch`: what a later iteration reads is loaded into a cache now (software prefetch).

use super::{make, scope};
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_ir::expr::{Access, View};
use lathe_ir::{BufId, Executor, Stmt, StmtKind, VarId, build, visit};
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
    /// Always legal: it changes nothing but the caches, and elements beyond the array may be prefetched. Refused where
    /// it would have to read other data to know for what (`A[X[i]]`), for loops whose iterations run at the same time
    /// (the next one is another thread's), and for arrays that are not parameters.
    ///
    /// ```lathe
    /// kernel mv(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    ///     y[i] = sum[j](A[i, j] * x[j])
    /// }
    /// strategy ahead for mv = split(j, 16) ; factor(y, j.i) ; vectorize(j.i, vector(f32)) ; prefetch(A, at: i)
    /// ```
    pub static PREFETCH = prefetch, version 1,
        (array: one Buffer, at: one Loop, ahead: optional Int, within: optional Loop),
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
    let l = names::loop_at(cursor, RULE, &path)?;
    let name = &l.binder.name;
    let refuse = |code, text: String, help: &str| {
        let places = cursor.at(&path).map(|s| s.places().clone()).unwrap_or_default();
        make::refuse(RULE, code, format!("`prefetch`: {text}"), help, &places)
    };
    if !cursor.func.params.iter().any(|p| p.array().is_some_and(|b| b.id == buffer.id)) {
        let text = format!("`{}` is no parameter", buffer.name);
        return Err(refuse(codes::UNSUPPORTED, text, "what a kernel allocates itself is in the caches"));
    }
    if !matches!(l.exec, Executor::Serial | Executor::Unrolled) {
        let text = format!("the iterations of `{name}` run at the same time, and have no next one");
        return Err(refuse(codes::UNSUPPORTED, text, "name a loop inside that runs in order"));
    }
    let target = inside.unwrap_or_else(|| path.clone());
    if !target.starts_with(&path) {
        let text = format!("the loop of `within:` is not inside of `{name}`");
        return Err(refuse(codes::SHAPE, text, ""));
    }
    let Some(s) = cursor.at(&target) else { return Err(refuse(codes::SHAPE, "no such loop".into(), "")) };
    let mut asking = Asking { buffer: buffer.id, var: l.binder.id, ahead, some: false, by_data: false };
    let new = if lanes(s).is_some() { asking.before(s, s.clone()) } else { asking.inside(s) };
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

/// A loop that vectors run, and how many lanes there are.
fn lanes(s: &Stmt) -> Option<(&lathe_ir::Loop, u32)> {
    let l = s.as_loop()?;
    match l.exec {
        Executor::Vector(w) | Executor::InScan(w) => Some((l, w)),
        _ => None,
    }
}
