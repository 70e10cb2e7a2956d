//! `set_layout` and `promote`: where and how a local buffer is stored.

use super::make;
use super::options;
use crate::args::{Args, IntoRefusal};
use crate::codes;
use crate::names;
use crate::optimize;
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::Path;
use lathe_ir::{Buffer, Space, StmtKind};
use lathe_strategy::evidence::{Kind, Simplified};
use lathe_strategy::{Claim, Refusal};
use std::sync::Arc;

rule! {
    /// `set_layout(Ap, tile(0, 8), permute(1, 0, 2))` gives a local buffer a layout: the steps `tile(dim, size)`,
    /// `permute(…)` and `pad(dim, multiple)` are applied one after the other to its list of dimensions, and what they
    /// leave is stored row by row. Subscripts in the program never change.
    ///
    /// Always legal for local buffers: a layout is injective. Arrays of the caller keep theirs.
    ///
    /// ```lathe
    /// kernel mv(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    ///     y[i] = sum[j](A[i, j] * x[j])
    /// }
    /// strategy packed for mv = split(i, 8) ; stage(A, at: i.o, name: Ap) ; set_layout(Ap, permute(1, 0))
    /// ```
    pub static SET_LAYOUT = set_layout, version 1, (array: one Buffer, layout: many Data), apply_layout,
        "chooses how a local buffer is laid out in memory";
}

rule! {
    /// `promote(Cp)` moves a local buffer to registers, `promote(Cp, space: stack)` or `space: host` elsewhere.
    /// Registers and the stack need constant extents; what lives in registers is fast only if all subscripts are
    /// constants after unrolling and vectorizing. `promote` alone makes a value (`let`) of every local array without
    /// dimensions that one store fills, before anything reads it, and never refuses.
    ///
    /// Always legal: where a buffer lives does not change what it holds.
    ///
    /// ```lathe
    /// kernel mv(A: f32[M, N], x: f32[N]) -> (y: f32[M]) {
    ///     y[i] = sum[j](A[i, j] * x[j])
    /// }
    /// strategy kept for mv = split(j, 64) ; reorder(j.o, i, j.i) ; stage(x, at: j.o, name: xs) ; promote(xs, space: stack)
    /// ```
    pub static PROMOTE = promote, version 1, (array: optional Buffer, space: optional Word), apply_promote,
        "moves a local buffer to registers, the stack, or scratch memory; makes cells values";
}

fn apply_layout(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let rule = SET_LAYOUT.signature.name;
    let (path, buffer) = local(cursor, rule, &args.path(rule, "array", 0)?)?;
    let layout = options::layout(rule, args, 1, buffer.extents.len())?;
    let new = Buffer { layout, ..(*buffer).clone() };
    let array = new.name.to_string();
    rebind(work, &path, new, Claim::LayoutOnly { array })
}

fn apply_promote(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let rule = PROMOTE.signature.name;
    let Some(array) = args.opt_path(rule, "array", 0)? else {
        return work.pass(Simplified::Cell, optimize::cells_to_values);
    };
    let (path, buffer) = local(cursor, rule, &array)?;
    let space = options::space(rule, args, 1)?.unwrap_or(Space::Register);
    make::check_space(rule, &buffer.name, &buffer.elem, &buffer.extents, space)?;
    let new = Buffer { space, ..(*buffer).clone() };
    let array = new.name.to_string();
    rebind(work, &path, new, Claim::SpaceOnly { array })
}

fn local(cursor: &Cursor, rule: &str, name: &str) -> Result<(Path, Arc<Buffer>), Refusal> {
    let buffer = names::find_buffer(cursor, rule, name)?;
    make::find_alloc(cursor.func, buffer.id).ok_or_else(|| {
        Diagnostic::error(codes::UNSUPPORTED, format!("`{rule}`: `{name}` is an array of the caller"))
            .help(format!(
                "stage it: `stage({name}, at: …)` makes a local copy, whose layout and place are free"
            ))
            .into_refusal(rule)
    })
}

fn rebind(work: &mut Work, path: &[usize], new: Buffer, claim: Claim) -> Result<(), Refusal> {
    let s = work.at(path)?.clone();
    let Some((_, body)) = s.as_alloc() else {
        return Err(work.refuse(codes::SHAPE, format!("`{}`: no such buffer", work.rule())));
    };
    let new = Arc::new(new);
    work.made(path, &new);
    let alloc = s.with_kind(StmtKind::Alloc { buffer: new, body: body.clone() });
    work.replace_as_is(path, alloc, Kind::Bijection)?;
    work.scheduled();
    work.decide(claim, "give it another layout")
}
