//! `test` items: sizes and inputs become data, expectations a function of the kernel's own signature.

use super::data::{self, Env};
use super::expr::Val;
use super::kernel::{self, is_error};
use super::scope::{Cx, Entity};
use super::types::Globals;
use crate::ast::{self, AssignOp, ExprKind as K, Ident, StmtKind, Subscript};
use crate::codes;
use crate::{InputSpec, Number, TestDef};
use lathe_diagnostics::nearest;
use lathe_diagnostics::{Diagnostic, SourceMap, Span};
use lathe_ir::{Binder, Expr, Function, Mode, ParamKind, Scalar, Type};
use std::collections::BTreeMap;

/// Formulas are evaluated for at most so many elements.
const MAX_ELEMENTS: i64 = 1 << 20;

/// Lowers one test; `None` when an error was reported.
pub fn test(
    t: &ast::Test,
    number: usize,
    kernel: &ast::Kernel,
    function: &Function,
    globals: &Globals,
    map: &SourceMap,
    errors: &mut Vec<Diagnostic>,
) -> Option<TestDef> {
    let before = errors.iter().filter(|d| is_error(d)).count();
    let mut cx = Cx::new(globals, map, errors);
    let mut out = TestDef {
        name: t.name.clone(),
        kernel: t.kernel.text.clone(),
        span: t.span,
        sizes: Vec::new(),
        inputs: Vec::new(),
        expected: function.clone(),
        tolerances: BTreeMap::new(),
    };
    for (name, tolerance) in &t.tolerances {
        let known = out.tolerances.entry(name.clone()).or_insert(*tolerance);
        *known = known.max(*tolerance);
    }
    cx.names_of_test(t, function);
    cx.sizes_of_test(t, function, &mut out)?;
    let env: Env = function.sizes.iter().zip(&out.sizes).map(|(b, (_, v))| (b.id, *v)).collect();
    cx.inputs_of_test(t, function, &env, &mut out);
    let mut body = t.expect.clone();
    for (name, list) in &t.data {
        body.extend(cx.data_of_test(name, list, function, &env).unwrap_or_default());
    }
    if body.is_empty() && errors.iter().filter(|d| is_error(d)).count() == before {
        errors.push(
            Diagnostic::error(codes::TEST, format!("the test \"{}\" expects nothing", t.name))
                .at(t.span, "no `expect`")
                .help("write `expect C[i] = …`, independent of the kernel"),
        );
    }
    let expected = ast::Kernel {
        types: Vec::new(),
        name: Ident { text: format!("test.{number}"), span: kernel.name.span },
        body,
        ..kernel.clone()
    };
    if errors.iter().filter(|d| is_error(d)).count() > before {
        return None;
    }
    out.expected = kernel::kernel(&expected, globals, map, errors)?;
    Some(out)
}

impl Cx<'_> {
    /// Every setting names a size or an input, once.
    fn names_of_test(&mut self, t: &ast::Test, f: &Function) {
        let inputs = f.params.iter().filter(|p| p.mode != Mode::Out).map(|p| &**p.name());
        let known: Vec<&str> = f.sizes.iter().map(|b| &*b.name).chain(inputs).collect();
        for (i, s) in t.settings.iter().enumerate() {
            if !known.contains(&s.name.text.as_str()) {
                let message = format!("`{}` is no size or input of `{}`", s.name.text, f.name);
                self.error(codes::TEST, message, s.name.span, "unknown");
                self.help(match nearest(&s.name.text, known.iter().copied()) {
                    Some(n) => format!("did you mean `{n}`?"),
                    None => format!("it has {}", known.join(", ")),
                });
            }
            if t.settings[..i].iter().any(|o| o.name.text == s.name.text) {
                self.error(codes::TEST, format!("`{}` is given twice", s.name.text), s.name.span, "again");
            }
        }
    }

    fn sizes_of_test(&mut self, t: &ast::Test, f: &Function, out: &mut TestDef) -> Option<()> {
        let mut ok = true;
        for b in &f.sizes {
            let value = match t.settings.iter().find(|s| *s.name.text == *b.name) {
                Some(s) => match self.val(&s.value, Some(&Type::INDEX)) {
                    Some(Val::Int(v)) if v >= 0 && s.indices.is_none() => Some(v),
                    _ => {
                        let message = format!("the size `{}` is a constant, at least 0", b.name);
                        self.error(codes::TEST, message, s.value.span, "is not");
                        None
                    }
                },
                None => {
                    let message = format!("the test \"{}\" does not give the size `{}`", t.name, b.name);
                    self.error(codes::TEST, message, t.span, format!("no `{} = …`", b.name));
                    None
                }
            };
            match value {
                Some(v) => out.sizes.push((b.name.to_string(), v)),
                None => ok = false,
            }
        }
        ok.then_some(())
    }

    fn inputs_of_test(&mut self, t: &ast::Test, f: &Function, env: &Env, out: &mut TestDef) {
        for p in f.params.iter().filter(|p| p.mode != Mode::Out) {
            let name = p.name().to_string();
            let Some(s) = t.settings.iter().find(|s| s.name.text == name) else {
                let message = format!("the test \"{}\" does not give the input `{name}`", t.name);
                self.error(codes::TEST, message, t.span, format!("no `{name} = …`"));
                self.help(format!("write `{name} = random(1)`, `iota`, `constant(0)`, data or a formula"));
                continue;
            };
            let (elem, extents) = match &p.kind {
                ParamKind::Array(b) => (b.elem.clone(), b.extents.as_slice()),
                ParamKind::Scalar(b) => (b.ty.into(), &[] as &[Expr]),
            };
            let shape: Option<Vec<i64>> = extents.iter().map(|e| data::integer(e, env)).collect();
            let Some(shape) = shape.filter(|s| s.iter().all(|n| *n >= 0)) else {
                let message = format!("an extent of `{name}` is negative for these sizes");
                self.error(codes::TEST, message, s.name.span, "has no such shape");
                continue;
            };
            let spec = self.input(s, &elem, &shape, f, env);
            if let Some(spec) = spec {
                out.inputs.push((name, spec));
            }
        }
    }

    fn input(
        &mut self,
        s: &ast::Setting,
        elem: &Type,
        shape: &[i64],
        f: &Function,
        env: &Env,
    ) -> Option<InputSpec> {
        if let Some(indices) = &s.indices {
            return self.formula(s, indices, elem, shape, f, env);
        }
        let named = match &s.value.kind {
            K::Name(n) => Some((n.as_str(), &[] as &[ast::CallArg])),
            K::Call(c, args) => c.as_name().map(|n| (n, args.as_slice())),
            _ => None,
        };
        if let (Some((n @ ("iota" | "constant"), args)), Some(_)) = (named, elem.complex_part()) {
            return self.complex_data(n, args, elem, shape, env, s.value.span);
        }
        if let Some((n @ ("random" | "iota" | "constant"), args)) = named {
            let args: Option<Vec<Number>> = args
                .iter()
                .map(|a| {
                    match self
                        .val(&a.value, elem.scalar().or(elem.complex_part()).map(Type::from).as_ref())?
                    {
                        Val::Int(v) => Some(Number::Int(v)),
                        Val::Large(v) => Some(Number::Int(v as i64)),
                        Val::Float(v) => Some(Number::Float(v)),
                        Val::Imaginary(_) => None,
                        Val::Expr(e) => data::leaves(&e, env)?.first().copied(),
                    }
                })
                .collect();
            let spec = InputSpec::named(n, &args?);
            if spec.is_none() {
                self.error(codes::TEST, format!("wrong arguments of `{n}`"), s.value.span, "not like this");
                self.help("write `random(seed)`, `random(seed, lo, hi)`, `iota` or `constant(value)`");
            }
            return spec;
        }
        if shape.is_empty() {
            let e = self.expr_as(&s.value, elem)?;
            return match data::leaves(&e, env) {
                Some(v) => Some(InputSpec::Data(v)),
                None => self.not_data(s.value.span),
            };
        }
        let mut values = Vec::new();
        self.list(&s.value, elem, shape, &mut |_, e| {
            values.push(e);
        })?;
        let leaves: Option<Vec<Vec<Number>>> = values.iter().map(|e| data::leaves(e, env)).collect();
        match leaves {
            Some(l) => Some(InputSpec::Data(l.concat())),
            None => self.not_data(s.value.span),
        }
    }

    /// `iota` and `constant(z)` of complex numbers, written out.
    fn complex_data(
        &mut self,
        name: &str,
        args: &[ast::CallArg],
        elem: &Type,
        shape: &[i64],
        env: &Env,
        span: Span,
    ) -> Option<InputSpec> {
        let count = shape.iter().try_fold(1i64, |n, x| n.checked_mul(*x)).filter(|n| *n <= MAX_ELEMENTS);
        let Some(count) = count else {
            self.error(codes::TEST, "too many elements for a constant", span, "larger than 2^20");
            self.help("use `random(seed)`, or smaller sizes");
            return None;
        };
        let one = match (name, args) {
            ("constant", [ast::CallArg { name: None, value }]) => {
                let e = self.expr_as(value, elem)?;
                match data::leaves(&e, env) {
                    Some(v) => Some(v),
                    None => return self.not_data(value.span),
                }
            }
            ("iota", []) => None,
            _ => {
                self.error(codes::TEST, format!("wrong arguments of `{name}`"), span, "not like this");
                self.help("write `random(seed)`, `random(seed, lo, hi)`, `iota` or `constant(value)`");
                return None;
            }
        };
        let each = |n: i64| one.clone().unwrap_or_else(|| vec![Number::Int(n), Number::Int(0)]);
        Some(InputSpec::Data((0..count).flat_map(each).collect()))
    }

    fn not_data<T>(&mut self, span: Span) -> Option<T> {
        self.error(codes::TEST, "this is not a constant", span, "cannot be computed here");
        self.help("data are numbers, or a formula over indices: `A[i] = f32(i)`");
        None
    }

    /// Nested lists of the right lengths, row by row.
    fn list(
        &mut self,
        e: &ast::Expr,
        elem: &Type,
        shape: &[i64],
        each: &mut dyn FnMut(&ast::Expr, Expr),
    ) -> Option<()> {
        let Some((n, inner)) = shape.split_first() else {
            let x = self.expr_as(e, elem)?;
            each(e, x);
            return Some(());
        };
        let K::List(parts) = &e.kind else {
            self.error(codes::TEST, "expected a list of data", e.span, "not `[…]`");
            return None;
        };
        if parts.len() as i64 != *n {
            let message = format!("expected {n} values, here are {}", parts.len());
            self.error(codes::TEST, message, e.span, "wrong length for these sizes");
            return None;
        }
        for p in parts {
            self.list(p, elem, inner, each)?;
        }
        Some(())
    }

    /// `A[i, j] = f32(i + j)`
    fn formula(
        &mut self,
        s: &ast::Setting,
        indices: &[Ident],
        elem: &Type,
        shape: &[i64],
        f: &Function,
        env: &Env,
    ) -> Option<InputSpec> {
        if indices.len() != shape.len() {
            let message = format!("`{}` has {} dimensions", s.name.text, shape.len());
            self.error(codes::TEST, message, s.name.span, format!("{} indices", indices.len()));
            return None;
        }
        if shape.iter().try_fold(1i64, |n, x| n.checked_mul(*x)).is_none_or(|n| n > MAX_ELEMENTS) {
            self.error(codes::TEST, "too many elements for a formula", s.name.span, "larger than 2^20");
            self.help("use `random(seed)`, or smaller sizes");
            return None;
        }
        self.scopes.push(Default::default());
        // Binders of the function keep their numbers; those made here come after them.
        self.next_id = self.next_id.max(f.next_id);
        for b in &f.sizes {
            let id = Ident { text: b.name.to_string(), span: s.name.span };
            self.declare(&id, Entity::Size(b.clone()));
        }
        let binders: Vec<Binder> = indices
            .iter()
            .map(|i| {
                let b = self.fresh_var(&i.text, Scalar::Index);
                self.declare(i, Entity::Value(b.clone(), "an index"));
                b
            })
            .collect();
        let value = self.expr_as(&s.value, elem);
        self.scopes.pop();
        let value = value?;
        let mut env = env.clone();
        let mut at = vec![0i64; shape.len()];
        let mut out = Vec::new();
        if shape.contains(&0) {
            return Some(InputSpec::Data(out));
        }
        loop {
            env.extend(binders.iter().map(|b| b.id).zip(at.iter().copied()));
            match data::leaves(&value, &env) {
                Some(v) => out.extend(v),
                None => return self.not_data(s.value.span),
            }
            let Some(d) = (0..shape.len()).rev().find(|d| at[*d] + 1 < shape[*d]) else {
                return Some(InputSpec::Data(out));
            };
            at[d] += 1;
            at[d + 1..].fill(0);
        }
    }

    /// `expect C = [[1, 2], [3, 4]]` as one statement per element.
    fn data_of_test(
        &mut self,
        name: &Ident,
        list: &ast::Expr,
        f: &Function,
        env: &Env,
    ) -> Option<Vec<ast::Stmt>> {
        let Some(buffer) = f.array(&name.text).cloned() else {
            let message = format!("`{}` is no output of `{}`", name.text, f.name);
            self.error(codes::TEST, message, name.span, "unknown");
            return None;
        };
        let shape: Option<Vec<i64>> = buffer.extents.iter().map(|e| data::integer(e, env)).collect();
        let mut cells = Vec::new();
        self.list(list, &buffer.elem, &shape?, &mut |e, _| cells.push(e.clone()))?;
        let shape: Vec<i64> = buffer.extents.iter().filter_map(|e| data::integer(e, env)).collect();
        let span = list.span;
        let leaf = |kind: K| ast::Expr { kind, span, height: 1 };
        let mut out = Vec::new();
        for (n, value) in cells.into_iter().enumerate() {
            let mut rest = n as i64;
            let mut subs: Vec<Subscript> = Vec::new();
            for extent in shape.iter().rev() {
                subs.push(Subscript::Expr(leaf(K::Int(rest % extent.max(&1)))));
                rest /= extent.max(&1);
            }
            subs.reverse();
            let base = ast::Expr { span: name.span, ..leaf(K::Name(name.text.clone())) };
            let target = leaf(K::Index(Box::new(base), subs));
            let kind = StmtKind::Assign { label: None, target, op: AssignOp::Set, value, ranges: Vec::new() };
            out.push(ast::Stmt { kind, span });
        }
        if out.is_empty() {
            // Nothing to write, but an expectation all the same.
            let zero = leaf(K::Int(0));
            let cond = leaf(K::Binary(ast::BinOp::Eq, Box::new(zero.clone()), Box::new(zero)));
            out.push(ast::Stmt { kind: StmtKind::Assume { cond }, span });
        }
        Some(out)
    }
}
