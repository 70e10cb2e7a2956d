//! Signatures and statements of kernels.

use super::debug::Site;
use super::index::Assignment;
use super::scope::{Cx, Entity, Statement, place};
use super::types::Globals;
use crate::ast::{self, ExprKind as K, Ident, StmtKind as S, breaks};
use crate::codes;
use lathe_diagnostics::{Diagnostic, SourceMap, Span};
use lathe_ir::stmt::block::{Item, rebuilt};
use lathe_ir::{
    Binder, Buffer, Executor, Expr, Function, Loop, Mode, Param, ParamKind, Space, Stage, Stmt, StmtKind,
    Type, build,
};
use std::sync::Arc;

/// Lowers a kernel; `None` when an error was reported.
pub fn kernel(
    k: &ast::Kernel,
    globals: &Globals,
    map: &SourceMap,
    errors: &mut Vec<Diagnostic>,
) -> Option<Function> {
    Some(debugged(k, globals, map, errors, false)?.0)
}

/// As [`kernel`], and its `print` and `assert`; with `debug`, they are statements of it.
pub fn debugged(
    k: &ast::Kernel,
    globals: &Globals,
    map: &SourceMap,
    errors: &mut Vec<Diagnostic>,
    debug: bool,
) -> Option<(Function, Vec<Site>)> {
    let before = errors.iter().filter(|d| is_error(d)).count();
    let mut cx = Cx::new(globals, map, errors);
    let (sizes, mut params) = cx.signature(k);
    if debug {
        params.push(cx.logs());
    }
    let body = cx.block(&k.body);
    let sites = std::mem::take(&mut cx.log.sites);
    let next_id = cx.next_id;
    // Where a statement could not be read, it may have been the one that writes.
    let within = |d: &Diagnostic| {
        let at = d.marks.first().map(|m| m.span);
        at.is_some_and(|s| s.file == k.span.file && k.span.start <= s.start && s.start <= k.span.end)
    };
    let unread = cx.errors.iter().any(|d| is_error(d) && within(d));
    for r in k.results.iter().filter(|_| !unread) {
        if !cx.labels.contains_key(&r.name.text) {
            let message = format!("the output `{}` is never written", r.name.text);
            cx.error(codes::UNWRITTEN, message, r.name.span, "no statement assigns to it");
            cx.help("every cell of an output must be written");
        }
    }
    if errors.iter().filter(|d| is_error(d)).count() > before {
        return None;
    }
    let function = Function {
        name: k.name.text.as_str().into(),
        sizes,
        params,
        result: None,
        body,
        stage: Stage::Plain,
        summary: None,
        next_id,
    };
    Some((function, sites))
}

pub fn is_error(d: &Diagnostic) -> bool {
    d.severity == lathe_diagnostics::Severity::Error
}

impl Cx<'_> {
    /// Sizes in order of appearance, parameters in calling order: inputs, then outputs.
    fn signature(&mut self, k: &ast::Kernel) -> (Vec<Binder>, Vec<Param>) {
        let all: Vec<(&ast::Param, bool)> =
            k.params.iter().map(|p| (p, false)).chain(k.results.iter().map(|p| (p, true))).collect();
        let sizes = self.bind_sizes(&all);
        let (mut extents, mut wrong) = (Vec::new(), false);
        for (p, _) in &all {
            // Of the right rank even if an extent is wrong, so that uses give no further errors.
            let rank = p.ty.extents.as_ref().map_or(0, Vec::len);
            let known = self.param_extents(p, &all);
            wrong |= known.is_none();
            extents.push(known.unwrap_or_else(|| vec![build::index(0); rank]));
        }
        if !wrong {
            self.check_sizes(&sizes, &extents);
        }
        let sizes = sizes.into_iter().map(|s| s.0).collect();
        let mut params = Vec::new();
        for ((p, out), extents) in all.iter().zip(extents) {
            let Some(elem) = self.globals.element(&p.ty, self.errors) else {
                // Declared anyway, so that its uses give no further errors about the name.
                let buffer = self.buffer(&p.name.text, Type::F32, extents, Space::Host);
                self.declare(&p.name, Entity::Array { buffer, read_only: None });
                continue;
            };
            if *out && p.inout {
                self.error(codes::ASSIGN, "an output cannot be `inout`", p.name.span, "is a result");
                self.help("move it to the parameters");
            }
            let mode = match (out, p.inout) {
                (true, _) => Mode::Out,
                (false, true) => Mode::InOut,
                (false, false) => Mode::In,
            };
            let scalar = elem.scalar().filter(|_| mode == Mode::In && p.ty.extents.is_none());
            let kind = match scalar {
                Some(s) => {
                    let b = self.fresh_var(&p.name.text, s);
                    self.declare(&p.name, Entity::Value(b.clone(), "an input"));
                    ParamKind::Scalar(b)
                }
                None => {
                    let buffer = self.buffer(&p.name.text, elem, extents, Space::Host);
                    let read_only = (mode == Mode::In).then_some("an input");
                    self.declare(&p.name, Entity::Array { buffer: buffer.clone(), read_only });
                    ParamKind::Array(buffer)
                }
            };
            params.push(Param { kind, mode, alias: None });
        }
        (sizes, params)
    }

    /// Names in extents are sizes: those that are a whole extent first.
    fn bind_sizes(&mut self, all: &[(&ast::Param, bool)]) -> Vec<(Binder, Span)> {
        let extents = || all.iter().flat_map(|(p, _)| p.ty.extents.iter().flatten());
        let whole = extents().filter_map(|e| Some(Ident { text: e.as_name()?.to_string(), span: e.span }));
        let mut names: Vec<Ident> = whole.collect();
        extents().for_each(|e| names_of(e, &mut names));
        let mut sizes: Vec<(Binder, Span)> = Vec::new();
        for n in names {
            let known = sizes.iter().any(|(s, _)| *s.name == *n.text);
            if known || all.iter().any(|(q, _)| q.name.text == n.text) {
                continue;
            }
            let b = self.fresh_var(&n.text, lathe_ir::Scalar::Index);
            self.sizes.insert(b.id);
            self.declare(&n, Entity::Size(b.clone()));
            sizes.push((b, n.span));
        }
        sizes
    }

    /// Every size must follow from the extents.
    fn check_sizes(&mut self, sizes: &[(Binder, Span)], extents: &[Vec<Expr>]) {
        let each = |(p, dims): (usize, &'_ Vec<Expr>)| (0..dims.len()).map(move |d| (p, d));
        let at: Vec<(usize, usize)> = extents.iter().enumerate().flat_map(each).collect();
        let all: Vec<_> = at.into_iter().map(|(p, d)| ((p, d), &extents[p][d])).collect();
        let binders: Vec<Binder> = sizes.iter().map(|s| s.0.clone()).collect();
        let told = lathe_poly::sizes::sources_in(&binders, &all);
        for (b, span) in sizes.iter().filter(|(b, _)| told.iter().all(|s| s.equation.size != b.id)) {
            self.error(
                codes::SIZE,
                format!("nothing determines the size `{}`", b.name),
                *span,
                "no extent tells it",
            );
            self.help(format!(
                "make it the whole extent of some array, `A: f32[{0}]`, or one that is linear in it",
                b.name
            ));
        }
    }

    fn param_extents(&mut self, p: &ast::Param, all: &[(&ast::Param, bool)]) -> Option<Vec<Expr>> {
        let mut out = Vec::new();
        for e in p.ty.extents.iter().flatten() {
            let mut names = Vec::new();
            names_of(e, &mut names);
            for n in names {
                if all.iter().any(|(q, _)| q.name.text == n.text) {
                    let message = format!("the parameter `{}` cannot be part of an extent", n.text);
                    self.error(codes::EXTENT, message, n.span, "a parameter, not a size");
                    self.help("extents are made of sizes; a size is a name of its own: `A: f32[N]`");
                    return None;
                }
            }
            let x = self.index_expr(e)?;
            if x.as_int().is_some_and(|v| v < 0) {
                self.error(codes::EXTENT, "an extent is negative", e.span, "negative");
                return None;
            }
            out.push(x);
        }
        Some(out)
    }

    pub fn buffer(&mut self, name: &str, elem: Type, extents: Vec<Expr>, space: Space) -> Arc<Buffer> {
        let id = self.fresh_buf();
        Buffer::local(id, name, elem, extents, space)
    }

    /// Statements in a scope of their own.
    pub fn block(&mut self, stmts: &[ast::Stmt]) -> Stmt {
        self.scopes.push(Default::default());
        let mut pieces = Vec::new();
        for (n, s) in stmts.iter().enumerate() {
            pieces.extend(self.statement(s).unwrap_or_default());
            if self.escape.is_some() && breaks(std::slice::from_ref(s)) {
                pieces.extend(self.unless_ended(&stmts[n + 1..]));
                break;
            }
        }
        self.scopes.pop();
        rebuilt(pieces)
    }

    fn statement(&mut self, s: &ast::Stmt) -> Option<Vec<Item>> {
        self.st = Statement::default();
        match &s.kind {
            S::Assign { label: None, target, op: ast::AssignOp::Set, value, ranges }
                if ranges.is_empty() && self.calls_kernel(target, value).is_some() =>
            {
                let (result, kernel, args) = self.calls_kernel(target, value)?;
                self.kernel_call(&[result], &kernel, args, s.span)
            }
            S::Call { results, kernel, args } => self.kernel_call(results, kernel, args, s.span),
            S::Assign { label, target, op, value, ranges } => {
                let a = Assignment { label: label.as_ref(), target, op: *op, value, ranges, span: s.span };
                self.assign(&a).map(|s| vec![Item::Do(s)])
            }
            S::For { var, lo, hi, step, body } => self.for_loop(var, lo, hi, step.as_ref(), body, s.span),
            S::While { cond, body } => {
                let c = self.expr_as(cond, &Type::BOOL);
                if let Some(r) = self.st.reductions.first() {
                    let span = r.span;
                    let message = "reductions in the condition of `while` are not available yet";
                    self.error(codes::NOT_YET, message, span, "would be computed once");
                    self.help("compute it into a `var` before the loop and at its end");
                }
                if breaks(body) {
                    let pieces =
                        self.while_until(c.clone().unwrap_or_else(|| build::boolean(true)), body, s.span);
                    return c.map(|_| pieces);
                }
                let body = self.unbroken(body);
                Some(vec![Item::Do(Stmt::new(StmtKind::While { cond: c?, body }, place(s.span)))])
            }
            S::If { cond, then, other } => {
                let c = self.expr_as(cond, &Type::BOOL);
                let c = c.and_then(|c| self.without_reductions(c, "if"));
                let then = self.block(then);
                let other = other.as_ref().map(|o| self.block(o));
                let (mut pieces, cond) = c?;
                pieces.push(Item::Do(Stmt::new(StmtKind::If { cond, then, other }, place(s.span))));
                // What the condition needed lives around this statement only.
                Some(vec![Item::Do(rebuilt(pieces))])
            }
            S::Print { parts } => self.print(parts, s.span),
            S::Assert { cond, says } => self.assert(cond, says, s.span),
            S::Break => self.escape(s.span),
            S::Let { name, value } => self.binding(name, value, s.span),
            S::Var { name, ty } => self.variable(name, ty, s.span),
            S::Assume { cond } => {
                let fact = self.expr_as(cond, &Type::BOOL)?;
                if let Some(r) = self.st.reductions.first() {
                    let span = r.span;
                    self.error(
                        codes::NOT_YET,
                        "reductions in `assume` are not available yet",
                        span,
                        "in a fact",
                    );
                    return None;
                }
                let text = self.map.text(s.span.file);
                let source = text.get(s.span.start as usize..s.span.end as usize).unwrap_or("assume");
                let (line, _) = self.map.line_column(s.span.file, s.span.start);
                let words: Vec<&str> = source.split_whitespace().collect();
                let provenance = format!("{} (line {line})", words.join(" "));
                let kind = StmtKind::Assume { fact, provenance: provenance.as_str().into() };
                Some(vec![Item::Do(Stmt::new(kind, place(s.span)))])
            }
        }
    }

    fn for_loop(
        &mut self,
        var: &Ident,
        lo: &ast::Expr,
        hi: &ast::Expr,
        step: Option<&ast::Expr>,
        body: &[ast::Stmt],
        span: Span,
    ) -> Option<Vec<Item>> {
        let low = self.index_expr(lo);
        let high = self.index_expr(hi);
        let bounds = match (low, high) {
            (Some(lo), Some(hi)) => {
                let both = build::aggregate(pair(), vec![lo, hi]);
                self.without_reductions(both, &var.text)
            }
            _ => None,
        };
        let step = self.step(step);
        if breaks(body) {
            let none = || build::index(0);
            let (mut pieces, both) =
                bounds.unwrap_or_else(|| (Vec::new(), build::aggregate(pair(), vec![none(), none()])));
            let ends = (build::field(both.clone(), 0), build::field(both, 1));
            pieces.extend(self.for_until(var, ends, step.unwrap_or(1), body, span));
            return Some(vec![Item::Do(rebuilt(pieces))]);
        }
        let binder = self.fresh_var(&var.text, lathe_ir::Scalar::Index);
        self.scopes.push(Default::default());
        self.declare(var, Entity::Value(binder.clone(), "a loop's variable"));
        self.loops.push(binder.clone());
        let body = self.unbroken(body);
        self.loops.pop();
        self.scopes.pop();
        let (mut pieces, both) = bounds?;
        let (lo, hi) = (build::field(both.clone(), 0), build::field(both, 1));
        let l = Loop { binder, lo, hi, step: step?, exec: Executor::Serial, body };
        pieces.push(Item::Do(Stmt::new(StmtKind::Loop(l), place(span))));
        Some(vec![Item::Do(rebuilt(pieces))])
    }

    fn step(&mut self, step: Option<&ast::Expr>) -> Option<i64> {
        let Some(e) = step else { return Some(1) };
        let x = self.index_expr(e)?;
        match x.as_int() {
            Some(v) if v > 0 => Some(v),
            known => {
                self.error(codes::STEP, "the step of a loop is a positive constant", e.span, "is not");
                self.help(match known {
                    Some(_) => "to go down, count up and subtract: `for y in 0..n { let x = n - 1 - y … }`",
                    None => "count the iterations and multiply: `for y in 0..(n + s - 1) // s { let x = s * y … }`",
                });
                None
            }
        }
    }

    fn binding(&mut self, name: &Ident, value: &ast::Expr, span: Span) -> Option<Vec<Item>> {
        let v = self.expr(value, None);
        let done = v.and_then(|v| self.without_reductions(v, &name.text));
        let Some((mut pieces, value)) = done else {
            // Bound all the same: its uses are not at fault.
            let b = self.fresh_var(&name.text, lathe_ir::Scalar::F32);
            self.declare(name, Entity::Value(b, "a `let`"));
            return None;
        };
        match value.ty().scalar() {
            Some(s) => {
                let b = self.fresh_var(&name.text, s);
                self.declare(name, Entity::Value(b.clone(), "a `let`"));
                pieces.push(Item::Let(b, value, place(span)));
            }
            None => {
                let buffer = self.buffer(&name.text, value.ty().clone(), Vec::new(), Space::Register);
                let entity = Entity::Array { buffer: buffer.clone(), read_only: Some("a `let`") };
                self.declare(name, entity);
                let label = self.label(None, &name.text);
                self.keep(&buffer, label, value, span, &mut pieces);
            }
        }
        Some(pieces)
    }

    fn variable(&mut self, name: &Ident, ty: &ast::Type, span: Span) -> Option<Vec<Item>> {
        let elem = self.globals.element(ty, self.errors);
        let mut extents = Vec::new();
        let mut ok = elem.is_some();
        for e in ty.extents.iter().flatten() {
            match self.index_expr(e) {
                Some(x) if x.as_int().is_some_and(|v| v < 0) => {
                    self.error(codes::EXTENT, "an extent is negative", e.span, "negative");
                    ok = false;
                }
                Some(x) => extents.push(x),
                None => ok = false,
            }
        }
        if let Some(r) = self.st.reductions.first() {
            let span = r.span;
            self.error(codes::EXTENT, "an extent cannot be a reduction", span, "reduced");
            self.help("name it with `let` first");
            ok = false;
        }
        let space = if ty.extents.is_none() { Space::Register } else { Space::Host };
        let buffer = self.buffer(&name.text, elem.unwrap_or(Type::F32), extents, space);
        self.declare(name, Entity::Array { buffer: buffer.clone(), read_only: None });
        ok.then(|| vec![Item::Alloc(buffer, place(span))])
    }
}

/// The type of a loop's bounds.
fn pair() -> Type {
    Type::Tuple(Arc::from(vec![Type::INDEX, Type::INDEX]))
}

/// The names in an extent.
pub(super) fn names_of(e: &ast::Expr, out: &mut Vec<Ident>) {
    match &e.kind {
        K::Name(n) => out.push(Ident { text: n.clone(), span: e.span }),
        K::Unary(_, a) | K::Field(a, _) | K::Component(a, ..) => names_of(a, out),
        K::Binary(_, a, b) => {
            names_of(a, out);
            names_of(b, out);
        }
        K::Call(_, args) => args.iter().for_each(|a| names_of(&a.value, out)),
        K::Block(lets, e) => {
            lets.iter().for_each(|l| names_of(&l.1, out));
            names_of(e, out);
        }
        _ => {}
    }
}
