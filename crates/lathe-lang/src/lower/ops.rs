//! Declarations of combine operators.

use super::scope::{Cx, Entity};
use super::types::{Globals, duplicate};
use crate::ast;
use crate::codes;
use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_ir::{CombineOp, Space};

/// Lowers `op name(a: T, b: T) -> T … = body`; `None` when an error was reported.
pub fn combine_op(
    op: &ast::Op,
    globals: &Globals,
    map: &SourceMap,
    errors: &mut Vec<Diagnostic>,
) -> Option<CombineOp> {
    let taken = super::reduction::REDUCERS.contains(&op.name.text.as_str()) || op.name.text == "scan";
    if taken {
        errors.push(
            Diagnostic::error(codes::DUPLICATE, format!("`{}` is built in", op.name.text))
                .at(op.name.span, "choose another name"),
        );
        return None;
    }
    if let Some((_, first)) = globals.ops.get(&op.name.text) {
        errors.push(duplicate("operator", &op.name, *first));
        return None;
    }
    let ty = globals.element(&op.result, errors)?;
    let same = |p: &ast::Param, errors: &mut Vec<Diagnostic>| {
        p.ty.extents.is_none() && !p.inout && globals.element(&p.ty, errors).is_some_and(|t| t == ty)
    };
    let [a, b] = op.params.as_slice() else {
        errors.push(
            Diagnostic::error(codes::OP, "a combine operator takes two values")
                .at(op.name.span, format!("takes {}", op.params.len()))
                .help("write `op name(a: T, b: T) -> T … = …`"),
        );
        return None;
    };
    if !same(a, errors) || !same(b, errors) || op.result.extents.is_some() {
        errors.push(
            Diagnostic::error(codes::OP, "a combine operator takes two values of a type and gives one of it")
                .at(op.name.span, "the types differ")
                .help("write `op name(a: T, b: T) -> T … = …`; arrays are not combined, elements are"),
        );
        return None;
    }
    if !op.associative {
        errors.push(
            Diagnostic::error(codes::OP, format!("`{}` is not declared associative", op.name.text))
                .at(op.name.span, "parts could not be combined")
                .help("a combine operator must be: add `associative` after its type"),
        );
        return None;
    }
    let mut cx = Cx::new(globals, map, errors);
    // The identity cannot mention the operands.
    let identity = match &op.identity {
        Some(e) => Some(cx.expr_as(e, &ty)?),
        None => None,
    };
    let left = cx.buffer(&a.name.text, ty.clone(), Vec::new(), Space::Register);
    let right = cx.buffer(&b.name.text, ty.clone(), Vec::new(), Space::Register);
    cx.declare(&a.name, Entity::Array { buffer: left.clone(), read_only: Some("an operand") });
    cx.declare(&b.name, Entity::Array { buffer: right.clone(), read_only: Some("an operand") });
    let body = cx.expr_as(&op.body, &ty)?;
    if let Some(r) = cx.st.reductions.first() {
        let span = r.span;
        cx.error(codes::OP, "a combine operator cannot reduce", span, "a reduction");
        return None;
    }
    Some(CombineOp {
        name: op.name.text.as_str().into(),
        ty,
        a: left.id,
        b: right.id,
        body,
        associative: op.associative,
        commutative: op.commutative,
        identity,
    })
}
