//! `expand`: a local array of one iteration becomes an array with elements for every iteration (scalar and array
//! expansion; Feautrier, 1988), the inverse of `localize`.

use super::make;
use crate::args::Args;
use crate::codes;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::Places;
use lathe_ir::stmt::Enters;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Access, Buffer, Expr, Function, Layout, Loop, Space, Stmt, StmtKind, VarId, View, build};
use lathe_poly::Affine;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Refusal};
use std::collections::HashSet;
use std::sync::Arc;

const RULE: &str = "expand";

rule! {
    /// `expand(t, at: i)` moves the variable or local array `t` (all of that name, of which the second one and those after
    /// it get names of their own, such as `t.2`), which is declared inside of the loop `i`, out of that loop: it gets a dimension more for `i`, and for every loop between `i` and its
    /// declaration, in the memory of the host. Iterations share nothing then, and no declaration stands between the
    /// loops, so that they may be cut apart (`fission`), interchanged and scheduled anew (`affine_schedule`).
    /// `localize` is the inverse.
    ///
    /// **Legal** always: every iteration finds its own elements. Refused (`E0624`) where a `while` stands between, the
    /// bounds of loops between are no affine forms, or the array's own extents follow a loop.
    ///
    /// ```lathe
    /// kernel norms(A: f64[M, N]) -> (y: f64[M]) {
    ///     for i in 0..M {
    ///         var t: f64
    ///         t = sum[j](A[i, j] * A[i, j])
    ///         y[i] = sqrt(t)
    ///     }
    /// }
    /// strategy s for norms = expand(t, at: i) ; fission(t)
    /// ```
    pub static EXPAND = expand, version 1, (array: one Buffer, at: one Loop), apply,
        "gives every iteration of a loop an element of its own of a variable that is declared in it";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let mut top = names::find_one_loop(cursor, RULE, &args.path(RULE, "at", 1)?)?;
    let name = args.path(RULE, "array", 0)?;
    let outside = top.clone();
    let mut found = declared(work.func(), &top, &name);
    if found.is_none() {
        // A name that there is not, or one that is declared elsewhere.
        names::find_buffer(cursor, RULE, &name)?;
        let text = format!("`{RULE}`: `{name}` is not declared inside of the loop");
        let help = "name a loop around its declaration";
        return Err(make::refuse(RULE, codes::SHAPE, text, help, &Places::none()));
    }
    let mut own = name.clone();
    while let Some((alloc, buffer)) = found {
        let called = Buffer { id: work.fresh_buf(), name: own.into(), ..(*buffer).clone() };
        let (larger, new) = expanded(work.func(), (&top, &alloc), &buffer, called).map_err(|why| {
            let text = format!("`{RULE}`: `{name}` {why}");
            let places = work.at(&alloc).map_or(Places::none(), |s| s.places().clone());
            make::refuse(RULE, codes::SHAPE, text, "name a loop further inside", &places)
        })?;
        work.replace(&top, new, Kind::Bijection)?;
        work.made(&outside, &larger);
        top.push(0);
        found = declared(work.func(), &top, &name);
        // They stand around one another now.
        own = make::fresh_name(work.func(), &name);
    }
    work.decide(Claim::OwnElements { array: name }, "name a loop further inside")
}

/// The first array of that name that is declared inside of the loop.
fn declared(func: &Function, top: &Path, name: &str) -> Option<(Path, Arc<Buffer>)> {
    let mut found = None;
    visit::walk(visit::at(&func.body, top)?, &mut |s, p| {
        if let Some(b) = s.allocated().filter(|b| found.is_none() && &*b.name == name) {
            found = Some((top.iter().chain(p).copied().collect(), b.clone()));
        }
        found.is_none()
    });
    found
}

/// The larger array, which is `called` so, and the loop with it.
fn expanded(
    func: &Function,
    (top, alloc): (&Path, &Path),
    buffer: &Buffer,
    called: Buffer,
) -> Result<(Arc<Buffer>, Stmt), &'static str> {
    let gone = "is not there any more";
    let root = visit::at(&func.body, top).ok_or(gone)?.clone();
    let inner = &alloc[top.len()..];
    let mut dims: Vec<(Loop, Affine, Affine)> = Vec::new();
    let mut bound: HashSet<VarId> = HashSet::new();
    let mut here = &root;
    for n in inner {
        match here.enters(*n) {
            Enters::Loop(l) => {
                let (lo, hi) = ends(l, &dims)?;
                bound.insert(l.binder.id);
                dims.push((l.clone(), lo, hi));
            }
            Enters::While(_) => return Err("is declared in a `while`"),
            Enters::Let(b, _) | Enters::Value(b) => drop(bound.insert(b.id)),
            Enters::Nothing | Enters::Condition(..) | Enters::Alloc(_) => {}
        }
        here = here.child(*n).ok_or(gone)?;
    }
    let follows = |e: &Expr| !visit::vars_of(e).is_disjoint(&bound) || !visit::loads_of(e).is_empty();
    if buffer.extents.iter().any(follows)
        || dims.iter().any(|(_, lo, hi)| lo.terms.iter().chain(&hi.terms).any(|t| bound.contains(&t.0)))
    {
        return Err("has extents that follow the loop");
    }
    if buffer.layout != Layout::row_major() {
        return Err("has a layout of its own");
    }
    let extent = |(_, lo, hi): &(Loop, Affine, Affine)| {
        build::max(build::index(0), build::sub(hi.to_expr(), lo.to_expr()))
    };
    let larger = Arc::new(Buffer {
        extents: dims.iter().map(extent).chain(buffer.extents.iter().cloned()).collect(),
        space: Space::Host,
        ..called
    });
    let own: Vec<Expr> =
        dims.iter().map(|(l, lo, _)| build::sub(build::var(&l.binder), lo.to_expr())).collect();
    let (_, body) = here.as_alloc().ok_or(gone)?;
    let mut plain = true;
    let body = visit::map_accesses(body, &mut |a| {
        if a.view != View::Buffer(buffer.id) {
            plain &= a.view.buffer() != Some(buffer.id);
            return None;
        }
        let indices = own.iter().chain(&a.indices).cloned().collect();
        Some(Access { view: View::Buffer(larger.id), indices, ..a.clone() })
    });
    visit::walk(&body, &mut |s, _| {
        plain &= s.accesses().all(|(a, _)| a.view.buffer() != Some(buffer.id));
        plain &= s.written().all(|v| v.buffer() != Some(buffer.id));
        true
    });
    if !plain {
        return Err("is used otherwise than by subscripts");
    }
    let inside = visit::replace_at(&root, inner, body).ok_or(gone)?;
    let places = root.places().clone();
    Ok((larger.clone(), Stmt::new(StmtKind::Alloc { buffer: larger, body: inside }, places)))
}

/// The least first and the largest last bound of a loop over all iterations of those around.
fn ends(l: &Loop, around: &[(Loop, Affine, Affine)]) -> Result<(Affine, Affine), &'static str> {
    let none = "stands in a loop whose bounds are no affine forms";
    let end = |e: &Expr, largest: bool| -> Option<Affine> {
        let mut form = Affine::of(e)?;
        for (l, lo, hi) in around.iter().rev() {
            let k = form.coefficient(&l.binder.id);
            if k == 0 {
                continue;
            }
            let at = if (k > 0) == largest { hi.offset(-1)? } else { lo.clone() };
            form = form.without(&l.binder.id).plus(&at, k)?;
        }
        Some(form)
    };
    end(&l.lo, false).zip(end(&l.hi, true)).ok_or(none)
}
