//! Rows that read one of their own elements, as in Floyd and Warshall's closure or Gauss and Jordan's elimination: a loop that stores
//! `p[i, j]` for all `j` loads `p[i, k]`, where a loop around fixes `k`. Only the iteration `j = k` stores what others load. With a loop of its own
//! (index-set splitting), those before and behind it depend on nothing but iterations outside, and become vectors, or threads.

use super::made::Made;
use super::setting::Setting;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, Executor, Expr, Loop, Stmt, VarId};
use lathe_poly::{Affine, Linear};
use lathe_space as space;
use lathe_transform::{Arg, Args};
use std::collections::HashSet;

/// The nest with such rows cut at their elements and in lanes; with `threads`, loops around them are cut and shared, too. None, if there are no
/// such rows.
pub(super) fn cut(set: &Setting, start: &Made, nest: &Path, threads: bool) -> Option<Made> {
    let mut p = Pivots { set, made: start.clone(), threads, lanes: false, shared: false };
    p.nest(nest, false)?;
    (p.lanes && p.shared == threads).then_some(p.made)
}

/// The outermost loops inside of the one at a place.
fn loops_in(path: &Path, l: &Loop) -> Vec<Path> {
    let mut inner: Vec<Path> = Vec::new();
    visit::walk(&l.body, &mut |s, p| {
        let below = || path.iter().copied().chain([0]).chain(p.iter().copied()).collect();
        inner.extend(s.as_loop().map(|_| below()));
        s.as_loop().is_none()
    });
    inner
}

struct Pivots<'a> {
    set: &'a Setting<'a>,
    made: Made,
    threads: bool,
    /// Whether some loop got lanes, or threads.
    lanes: bool,
    shared: bool,
}

impl Pivots<'_> {
    /// Cuts the loop at a place, or those inside of it; `within` threads already.
    fn nest(&mut self, path: &Path, within: bool) -> Option<()> {
        let l = self.at(path)?;
        let innermost = loops_in(path, &l).is_empty();
        let shares = self.threads && !within && !innermost;
        let pivot = if innermost || shares { self.pivot(path, &l) } else { None };
        let Some(at) = pivot else { return self.inside(path, within) };
        let [before, own, behind] = self.three(path, &at)?;
        // From the last one to the first: paths of earlier ones stay what they are.
        for part in [&behind, &own, &before] {
            let alone = *part == own;
            self.inside(part, within || !innermost && !alone)?;
            match (alone, innermost) {
                (true, _) => {}
                (false, true) => self.in_lanes(part)?,
                (false, false) => self.on_threads(part)?,
            }
        }
        Some(())
    }

    /// Cuts the loops inside of one.
    fn inside(&mut self, path: &Path, within: bool) -> Option<()> {
        let l = self.at(path)?;
        loops_in(path, &l).iter().rev().try_for_each(|p| self.nest(p, within))
    }

    fn at(&self, path: &Path) -> Option<Loop> {
        let l = visit::at(&self.made.func.body, path)?.as_loop()?;
        (l.exec == Executor::Serial && l.step == 1).then(|| l.clone())
    }

    /// The one iteration of a loop that stores elements which others load.
    fn pivot(&self, path: &Path, l: &Loop) -> Option<Affine> {
        let (v, mut own) = (l.binder.id, HashSet::from([l.binder.id]));
        let (mut stored, mut loaded): (Vec<Access>, Vec<Access>) = (Vec::new(), Vec::new());
        visit::walk(&l.body, &mut |s, _| {
            own.extend(s.as_loop().map(|l| l.binder.id));
            own.extend(s.as_let().map(|l| l.0.id));
            stored.extend(s.as_store().map(|st| st.target.clone()));
            loaded.extend(s.evaluated().into_iter().flat_map(visit::loads_of));
            true
        });
        let mut found: Option<Expr> = None;
        for t in &stored {
            let Some(d) = t.indices.iter().position(|e| e.as_var() == Some(v)) else { continue };
            for a in loaded.iter().filter(|a| a.view == t.view && a.indices.len() == t.indices.len()) {
                let e = &a.indices[d];
                if e.as_var() == Some(v) {
                    continue;
                }
                // One element, or row of elements, for all iterations.
                if !visit::vars_of(e).is_disjoint(&own) || found.as_ref().is_some_and(|f| f != e) {
                    return None;
                }
                found = Some(e.clone());
            }
        }
        let e = found?;
        let apart = |a: &Expr, b: &Expr, by: i64| Linear::difference(a, b).is_some_and(|d| d >= by);
        // Where the range ends before it, or begins behind it, nothing is to be cut.
        if apart(&l.lo, &e, 1) || apart(&e, &l.hi, 0) {
            return None;
        }
        let form = Affine::of(&e)?;
        self.named(path, &form).map(|_| form)
    }

    /// A form as an argument of a step, in the names of loops and sizes.
    fn named(&self, path: &Path, form: &Affine) -> Option<Arg> {
        let name = |v: VarId| {
            let size = self.made.func.sizes.iter().find(|b| b.id == v).map(|b| b.name.to_string());
            let around =
                (0..path.len()).filter_map(|n| visit::at(&self.made.func.body, &path[..n])?.as_loop());
            size.or_else(|| around.map(|l| &l.binder).find(|b| b.id == v).map(|b| b.name.to_string()))
        };
        let number = |n: i64| space::Expr::Value(space::Value::Int(n));
        let both = |op, a, b| space::Expr::Binary(op, Box::new(a), Box::new(b));
        let mut all = Vec::new();
        for (v, k) in &form.terms {
            let of = space::Expr::Name(name(*v)?);
            all.push(if *k == 1 { of } else { both(space::BinOp::Mul, number(*k), of) });
        }
        if form.constant != 0 || form.terms.is_empty() {
            all.push(number(form.constant));
        }
        Some(match all.into_iter().reduce(|a, b| both(space::BinOp::Add, a, b))? {
            space::Expr::Name(n) => Arg::Path(n),
            space::Expr::Value(space::Value::Int(n)) => Arg::Int(n),
            e => Arg::Data(e),
        })
    }

    /// The loop before an iteration, that iteration, and the loop behind it.
    fn three(&mut self, path: &Path, at: &Affine) -> Option<[Path; 3]> {
        let below = |p: &Path, n: usize| p.iter().copied().chain([n]).collect::<Path>();
        self.step(path, "cut", vec![self.named(path, at)?])?;
        let rest = below(path, 1);
        self.step(&rest, "cut", vec![self.named(path, &at.offset(1)?)?])?;
        Some([below(path, 0), below(&rest, 0), below(&rest, 1)])
    }

    /// One step on the loop at a place.
    fn step(&mut self, path: &Path, rule: &str, more: Vec<Arg>) -> Option<()> {
        let mut args = Args::default();
        args.push(None, Arg::Path(self.at(path)?.binder.name.to_string()));
        more.into_iter().for_each(|a| args.push(None, a));
        if rule == "vectorize" {
            args.push(Some("tail"), Arg::Path("separate".to_string()));
        }
        self.made = self.made.then(self.set, path, rule, &args).ok()?;
        Some(())
    }

    fn in_lanes(&mut self, path: &Path) -> Option<()> {
        let mut bytes = 0;
        visit::walk(visit::at(&self.made.func.body, path)?, &mut |s: &Stmt, _| {
            bytes = s.accesses().map(|(a, _)| a.elem.bytes() as i64).fold(bytes, i64::max);
            true
        });
        let lanes = self.set.machine.vector_bytes as i64 / bytes.max(1);
        if lanes < 2 {
            return None;
        }
        self.step(path, "vectorize", vec![Arg::Int(lanes)])?;
        self.lanes = true;
        Some(())
    }

    fn on_threads(&mut self, path: &Path) -> Option<()> {
        self.step(path, "parallel", Vec::new())?;
        self.shared = true;
        Some(())
    }
}
