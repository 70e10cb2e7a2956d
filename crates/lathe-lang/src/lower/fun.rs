//! Funs: typed by `lathe-pattern`, and translated as they stand, so that they can be run like kernels.

use crate::ast::{self, ExprKind, Ident, StmtKind};
use crate::parse;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::{CombineOp, Function, Module, ReduceOp};
use lathe_pattern::ast::FunAst;
use lathe_pattern::lower::{lower, lower_declaring};
use lathe_pattern::{Nat, Program, Type, TypeKind, library};
use lathe_prove::operator::{Which, elements, law};

/// The fun by the strategy `naive` of the library: what it means, as a tree. From here on it has the operators that
/// combine tuples in its reductions, as far as laws that allow any order hold for them, as they would have to be declared.
///
/// # Errors
/// What the translation does not do, with the place.
pub fn reference(p: &mut Program) -> Result<Function, Diagnostic> {
    let (mut low, _) = library::transform(p, "naive")?;
    let (func, operators) = lower_declaring(&low)?;
    if operators.is_empty() {
        return Ok(func);
    }
    let mut module = Module::default();
    module.ops.extend(operators.iter().map(|o| (o.name.clone(), o.clone())));
    let holds = |o: &CombineOp| {
        let (op, types) = (ReduceOp::User(o.name.clone()), [o.ty.clone()]);
        let combined = elements(&module, &func, &op, &types);
        let mut laws = [Which::Associative, Which::Commutative, Which::Identity].into_iter();
        laws.all(|which| law(&module, &op, &types, which, &combined).is_ok())
    };
    p.operators = operators.into_iter().filter(holds).collect();
    low.operators.clone_from(&p.operators);
    lower(&low)
}

/// The fun as a kernel without statements: parameters, then the result `out` (or `out.0`, `out.1`, … for the
/// parts of a tuple); what tests are checked against. `None` where a type has no array.
pub fn header(fun: &FunAst, f: &Function) -> Option<ast::Kernel> {
    let at = |text: &str, span: Span| Ident { text: text.to_string(), span };
    let param = |name: &str, ty: &Type, span: Span| {
        Some(ast::Param { name: at(name, span), inout: false, ty: of_type(ty, span)? })
    };
    let params = fun.params.iter().map(|p| param(&p.name, &p.ty, p.span)).collect::<Option<Vec<_>>>()?;
    let outputs = f.params.iter().filter(|p| p.mode == lathe_ir::Mode::Out);
    let results = match fun.result.kind() {
        TypeKind::Tuple(ts) if outputs.clone().count() == ts.len() && ts.len() > 1 => {
            outputs.zip(ts).map(|(p, t)| param(p.name(), t, fun.result_span)).collect::<Option<Vec<_>>>()?
        }
        _ => vec![param("out", &fun.result, fun.result_span)?],
    };
    Some(ast::Kernel {
        types: Vec::new(),
        name: at(&fun.name, fun.name_span),
        params,
        results,
        body: Vec::new(),
        doc: String::new(),
        span: fun.span,
    })
}

/// In tests `out.0[i]` is the first result of several: the array `out.0`.
pub fn name_parts(stmts: &mut [ast::Stmt]) {
    for s in stmts {
        match &mut s.kind {
            StmtKind::Assign { target, .. } => {
                let of = match &mut target.kind {
                    ExprKind::Index(of, _) => of.as_mut(),
                    _ => target,
                };
                if let ExprKind::Component(name, n, _) = &of.kind
                    && let Some(name) = name.as_name()
                {
                    of.kind = ExprKind::Name(format!("{name}.{n}"));
                }
            }
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => name_parts(body),
            StmtKind::If { then, other, .. } => {
                name_parts(then);
                name_parts(other.as_deref_mut().unwrap_or_default());
            }
            StmtKind::Let { .. }
            | StmtKind::Var { .. }
            | StmtKind::Assume { .. }
            | StmtKind::Print { .. }
            | StmtKind::Assert { .. }
            | StmtKind::Call { .. }
            | StmtKind::Break => {}
        }
    }
}

/// Arrays of scalars, or of tuples of scalars.
fn of_type(t: &Type, span: Span) -> Option<ast::Type> {
    let (mut sizes, mut elem) = (Vec::new(), t);
    while let TypeKind::Array(n, e) = elem.kind() {
        sizes.push(n);
        elem = e;
    }
    let name = |n: &str| ast::TypeKind::Name(Ident { text: n.to_string(), span }, Vec::new());
    let kind = match elem.kind() {
        TypeKind::Scalar(s) => name(s.name()),
        TypeKind::Complex(_) => name(&elem.to_string()),
        TypeKind::Index(_) => name("index"),
        TypeKind::Tuple(ts) => {
            ast::TypeKind::Tuple(ts.iter().map(|t| of_type(t, span)).collect::<Option<Vec<_>>>()?)
        }
        _ => return None,
    };
    let extent = |n: &&Nat| parse::expression(span.file, &n.to_string());
    let extents =
        if sizes.is_empty() { None } else { Some(sizes.iter().map(extent).collect::<Option<Vec<_>>>()?) };
    Some(ast::Type { kind, extents, span })
}
