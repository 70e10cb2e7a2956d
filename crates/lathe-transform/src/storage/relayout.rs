//! `set_layout`, `promote` and `distribute`: where and how a local buffer is stored.

use super::make;
use super::options;
use crate::args::{Args, IntoRefusal, as_path};
use crate::codes;
use crate::names;
use crate::optimize;
use crate::rule;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_diagnostics::Diagnostic;
use lathe_ir::visit::Path;
use lathe_ir::{Buffer, Name, Space, StmtKind};
use lathe_strategy::evidence::{Kind, Simplified};
use lathe_strategy::{Claim, Refusal};
use std::sync::Arc;

rule! {
    /// `set_layout(Ap, tile(0, 8), permute(1, 0, 2))` gives a local buffer a layout: the steps `tile(dim, size)`,
    /// `permute(…)`, `pad(dim, multiple)` and `swizzle(dim, by, modulus)` are applied one after the other to its list of
    /// dimensions, and what they leave is stored row by row. `swizzle` combines subscript `dim` with that of dimension
    /// `by`, modulo a power of two, by exclusive or, so that neighbours in a column of shared memory are in different
    /// banks; only `pad` follows it. Subscripts in the program never change.
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

rule! {
    /// `distribute(C, ty, tx)` gives every element of a local buffer to the thread that uses it: to the iterations of the
    /// concurrent loops of these names (several may have one name: those of the statements that fill, update and read
    /// the buffer). Each thread then has its part in registers, in whose subscripts the loops do not occur. How the loops divide
    /// each dimension is found from the subscripts: in blocks, cyclically, or both. It comes after `bind`, and after
    /// what changes these loops.
    ///
    /// Legal if all accesses agree: each iteration accesses only elements that it holds, and all accesses are in loops
    /// of the same names, order and bounds.
    ///
    /// ```lathe
    /// kernel twice(A: f32[N, 128]) -> (B: f32[N, 128]) {
    ///     B[i, j] = 2.0 * A[i, j]
    /// }
    /// strategy own for twice = bind(i, grid) ; stage(B, at: i, name: Bp)
    ///     ; split(B.j, 32, outer: jo, inner: t) ; split(copy(B).out.1, 32, outer: jo, inner: t)
    ///     ; reorder(B.t, B.jo) ; reorder(copy(B).out.t, copy(B).out.jo) ; bind(t, block) ; distribute(Bp, t)
    /// ```
    pub static DISTRIBUTE = distribute, version 1, (array: one Buffer, over: many Loop), apply_distribute,
        "gives the elements of a local buffer to the threads that use them";
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

fn apply_distribute(work: &mut Work, args: &Args) -> Result<(), Refusal> {
    let cursor = &work.cursor();
    let rule = DISTRIBUTE.signature.name;
    let (path, buffer) = local(cursor, rule, &args.path(rule, "array", 0)?)?;
    let named = args.items.iter().filter(|i| i.0.as_deref() == Some("over")).map(|i| (&i.1, i.2));
    let mut over: Vec<Name> = Vec::new();
    for (arg, span) in named.chain(args.positional().skip(1)) {
        for path in names::find_all_loops(cursor, rule, &as_path(rule, "over", arg, span)?)? {
            let name = &names::loop_at(cursor, rule, &path)?.binder.name;
            if !over.contains(name) {
                over.push(name.clone());
            }
        }
    }
    let refuse = |text: String, help: &str| {
        Diagnostic::error(codes::SHAPE, text).help(help.to_string()).into_refusal(rule)
    };
    if over.is_empty() {
        return Err(refuse(format!("`{rule}` names no loop"), "write `distribute(C, ty, tx)`"));
    }
    if !buffer.layout.is_row_major() {
        let text = format!("`{rule}`: `{}` has a layout already", buffer.name);
        return Err(refuse(text, "distribute it before it is padded, tiled or permuted"));
    }
    let s = work.at(&path)?.clone();
    let mut ranges = work.ranges(&path);
    let layout = s.as_alloc().and_then(|(b, body)| {
        ranges.enter_child(&s, 0);
        lathe_device::layout_over(b, body, &ranges, &over)
    });
    let Some(layout) = layout else {
        let text =
            format!("`{rule}`: iterations of {} do not divide `{}` among them", list(&over), buffer.name);
        let help = "each access needs these loops around it, one directly inside of the other, bound and of constant extents; \
                    their variables must divide each dimension into equal blocks";
        return Err(refuse(text, help));
    };
    let new = Buffer { layout, space: Space::Register, ..(*buffer).clone() };
    let part = lathe_ir::lower::part(&new).map(|b| b.extents).unwrap_or_else(|_| buffer.extents.clone());
    make::check_space(rule, &buffer.name, &buffer.elem, &part, Space::Register)?;
    let array = new.name.to_string();
    rebind(work, &path, new, Claim::LayoutOnly { array: array.clone() })?;
    work.decide(Claim::HeldByUsers { array }, "exchange values between threads by shared memory")
}

fn list(names: &[Name]) -> String {
    names::list(&names.iter().map(|n| n.to_string()).collect::<Vec<_>>())
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
