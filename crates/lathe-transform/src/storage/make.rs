//! Small makers of trees that the storage rules share: nests, names, zeros, messages.

use crate::args::IntoRefusal;
use crate::codes;
use lathe_diagnostics::{Diagnostic, Places};
use lathe_ir::expr::{Access, Expr};
use lathe_ir::names;
use lathe_ir::visit;
use lathe_ir::{
    Binder, BufId, Buffer, Executor, Function, Loop, Scalar, Space, Status, Stmt, StmtKind, Type, build,
};
use lathe_strategy::Refusal;
use std::collections::HashSet;
use std::sync::Arc;

/// Serial loops around a body, outermost first.
pub fn nest(loops: Vec<(Binder, Expr, Expr)>, body: Stmt, places: &Places) -> Stmt {
    loops.into_iter().rev().fold(body, |body, (binder, lo, hi)| {
        Stmt::new(
            StmtKind::Loop(Loop { binder, lo, hi, step: 1, exec: Executor::Serial, body }),
            places.clone(),
        )
    })
}

/// A made access: in bounds and defined by construction.
pub fn proved(buffer: BufId, elem: &Type, indices: Vec<Expr>) -> Access {
    Access { status: Status::Proved, ..Access::buffer(buffer, elem.clone(), indices) }
}

/// `C` or, where the name is taken by a label, loop or array already, `C.2`, `C.3`, ….
pub fn fresh_name(func: &Function, wanted: &str) -> String {
    let taken = |name: &str| {
        func.array(name).is_some()
            || (func.body.may_name(name) && {
                let mut hit = false;
                visit::walk(&func.body, &mut |s, _| {
                    hit |= s.label().is_some_and(|l| l.as_str() == name)
                        || s.allocated().is_some_and(|b| &*b.name == name);
                    !hit
                });
                hit
            })
    };
    if !taken(wanted) {
        return wanted.to_string();
    }
    let mut known: HashSet<String> = func.params.iter().map(|p| p.name().to_string()).collect();
    visit::walk(&func.body, &mut |s, _| {
        known.extend(s.label().map(|l| l.as_str().to_string()));
        known.extend(s.allocated().map(|b| b.name.to_string()));
        true
    });
    (1..).map(|n| names::again(wanted, n)).find(|n| !known.contains(n)).unwrap_or_default()
}

/// The zero of a type, component by component.
pub fn zero(ty: &Type) -> Expr {
    match ty {
        Type::Scalar(Scalar::Bool) => build::boolean(false),
        Type::Scalar(s) if s.is_float() => build::float(*s, 0.0),
        Type::Scalar(s) => build::int(*s, 0),
        t => build::aggregate(t.clone(), t.fields().iter().map(zero).collect()),
    }
}

/// Limits on the cells of a buffer that lives in registers or on the stack.
const REGISTER_BYTES: i64 = 16 << 10;
const STACK_BYTES: i64 = 512 << 10;
/// What all threads of eight blocks, which a cluster may have, have in registers together, other values beside.
const CLUSTER_BYTES: i64 = 1 << 20;

/// Checks that extents suit a space: constant, and not too many.
pub fn check_space(rule: &str, name: &str, ty: &Type, extents: &[Expr], space: Space) -> Result<(), Refusal> {
    match space {
        Space::Register => check_bytes(rule, name, ty, extents, space, REGISTER_BYTES),
        Space::Stack => check_bytes(rule, name, ty, extents, space, STACK_BYTES),
        _ => Ok(()),
    }
}

/// The same for a function that may run on a device, where threads of a block or a cluster of blocks share what is in registers.
pub fn check_space_in(
    func: &Function,
    rule: &str,
    name: &str,
    ty: &Type,
    extents: &[Expr],
    space: Space,
) -> Result<(), Refusal> {
    let grid = |e: &Executor| matches!(e, Executor::Level(l) if &**l == "grid");
    if space == Space::Register && crate::executors::any_executor(&func.body, &grid) {
        return check_bytes(rule, name, ty, extents, space, CLUSTER_BYTES);
    }
    check_space(rule, name, ty, extents, space)
}

fn check_bytes(
    rule: &str,
    name: &str,
    ty: &Type,
    extents: &[Expr],
    space: Space,
    limit: i64,
) -> Result<(), Refusal> {
    let mut bytes = ty.bytes() as i64;
    for (d, e) in extents.iter().enumerate() {
        let Some(n) = e.as_int() else {
            return Err(Diagnostic::error(
                codes::SHAPE,
                format!(
                    "`{rule}`: dimension {d} of `{name}` is not bounded by a constant, as space `{}` needs",
                    space.name()
                ),
            )
            .help(
                "split the loop that runs over it, so that the part inside is bounded; or use `space: host`",
            )
            .into_refusal(rule));
        };
        bytes = bytes.saturating_mul(n.max(0));
    }
    if bytes > limit {
        return Err(Diagnostic::error(
            codes::UNSUPPORTED,
            format!(
                "`{rule}`: `{name}` would take {bytes} bytes of space `{}`; {limit} is the limit",
                space.name()
            ),
        )
        .help("make the tile smaller, or use `space: host`")
        .into_refusal(rule));
    }
    Ok(())
}

/// The path of the allocation of a local buffer, and the buffer.
pub fn find_alloc(func: &Function, id: BufId) -> Option<(visit::Path, Arc<Buffer>)> {
    let mut out = None;
    visit::walk(&func.body, &mut |s, path| {
        if let Some(buffer) = s.allocated()
            && buffer.id == id
        {
            out = Some((path.to_vec(), buffer.clone()));
        }
        out.is_none()
    });
    out
}

/// A refusal with a message, marked at places, with help.
pub fn refuse(
    rule: &str,
    code: lathe_diagnostics::Code,
    message: String,
    help: &str,
    places: &Places,
) -> Refusal {
    Diagnostic::error(code, message).at_places(places, "here").help(help).into_refusal(rule)
}

/// Whether an array is a parameter that may share memory with another one.
pub fn may_alias(func: &Function, b: BufId) -> bool {
    func.params.iter().any(|p| p.alias.is_some() && p.array().is_some_and(|a| a.id == b))
}
