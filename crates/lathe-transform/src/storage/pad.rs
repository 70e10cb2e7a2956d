//! `pad`: a partial tile runs as a full one, on storage that has room for it.

use super::scope::Around;
use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::names;
use crate::rule;
use crate::work::Work;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::{Loop, Stmt, StmtKind, visit};
use lathe_poly::Linear;
use lathe_poly::bounds;
use lathe_strategy::evidence::Kind;
use lathe_strategy::{Claim, Obligation, Refusal};

const RULE: &str = "pad";

rule! {
    /// `pad(j.i)` turns a loop `0..min(T, n - T*j.o)` into `0..T`. What the additional iterations compute is never
    /// used: they may write only elements of local buffers that no statement reads and no copy takes out, and may read
    /// only elements that exist and are defined. So stage what the tile reads with `pad: true`, stage what it writes,
    /// and pad then. This is what makes micro-kernels free of branches for sizes that nothing divides.
    ///
    /// Legal when (1) the loop's body holds only stores and reductions (no checks, calls, atomics) into local buffers,
    /// which have room for them; (2) no statement reads an element that an additional iteration writes, but additional
    /// iterations; (3) everything that they read exists and was written before.
    ///
    /// ```lathe
    /// kernel twice(A: f32[N]) -> (B: f32[N]) {
    ///     B[i] = 2.0 * A[i]
    /// }
    /// strategy full for twice = split(i, 8) ; stage(A, at: i.o, pad: true) ; stage(B, at: i.o) ; pad(i.i)
    /// ```
    pub static PAD = pad, version 1, (loop: one Loop), apply,
        "runs a partial tile as a full one, on staged buffers that have room for it";
}

fn apply(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let name = args.path(RULE, "loop", 0)?;
    let path = names::find_one_loop(cursor, RULE, &name)?;
    let l = names::loop_at(cursor, RULE, &path)?;
    let around = Around::of(cursor.func, &path);
    let lo = bounds::normal(&visit::substitute(&l.lo, &around.lets));
    let hi = bounds::normal(&visit::substitute(&l.hi, &around.lets));
    let length = hi.minus(&lo);
    let full = length.as_ref().and_then(|n| bounds::constant_upper(n, &around.loops));
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
    if length.as_constant() == Some(full) {
        work.oblige(Obligation::by_rule(Claim::Full { over: name }));
    } else {
        only_stores(l, &l.body)?;
        work.check_padding(&path, &new_hi)?;
    }
    let old = work.at(&path)?.clone();
    let new = old.with_kind(StmtKind::Loop(Loop { hi: new_hi.clone(), ..l.clone() }));
    work.replace_storage(&path, new, Kind::Bijection)
}

fn refuse(message: String, help: &str, places: &Places) -> Refusal {
    let d = Diagnostic::error(codes::PADDING, message).at_places(places, "here");
    if help.is_empty() { d.into_refusal(RULE) } else { d.help(help).into_refusal(RULE) }
}

/// Additional iterations may compute, but not fail, call or allocate.
fn only_stores(l: &Loop, s: &Stmt) -> Result<(), Refusal> {
    if s.exprs().into_iter().any(crate::failing::may_fail) {
        return Err(refuse(
            format!("`pad`: an additional iteration of `{}` might divide by zero", l.binder.name),
            "only divisors that are constants are safe on padding",
            s.places(),
        ));
    }
    if !s.own_effects().is_none() || s.as_compute().is_some() || s.as_alloc().is_some() {
        return Err(refuse(
            format!("`pad`: `{}` holds more than stores into staged buffers", l.binder.name),
            "additional iterations may compute, but not check, call or allocate",
            s.places(),
        ));
    }
    s.children().try_for_each(|c| only_stores(l, c))
}
