//! Calls of kernels as statements, `y = norm(x)`: the statements of the kernel in place of the call, with the arrays
//! and values that are passed in place of its parameters. So steps see one kernel. Derived kernels are made later: their calls
//! stay until those who make them write their statements.

use super::call::built_in;
use super::kernel::names_of;
use super::scope::{Cx, Entity, Frame, Statement, place};
use crate::ast::{self, CallArg, ExprKind as K, Ident};
use crate::codes;
use lathe_diagnostics::{Code, Span};
use lathe_ir::stmt::Arg;
use lathe_ir::stmt::block::Item;
use lathe_ir::{Access, Buffer, Expr, Label, Space, Stmt, StmtKind, Store, View, build, visit};
use lathe_poly::Affine;
use std::collections::BTreeMap;
use std::sync::Arc;

/// So many statements of called kernels may stand in one kernel, written out.
const MOST: usize = 10_000;

impl Cx<'_> {
    /// The result, the kernel and the arguments, if an assignment is the call of a kernel.
    pub(super) fn calls_kernel<'a>(
        &self,
        target: &ast::Expr,
        value: &'a ast::Expr,
    ) -> Option<(Ident, Ident, &'a [CallArg])> {
        let (K::Name(result), K::Call(f, args)) = (&target.kind, &value.kind) else { return None };
        let known = |n: &&str| self.globals.kernels.contains_key(*n) && !built_in(n);
        let kernel = f.as_name().filter(known)?;
        let ident = |text: &str, span| Ident { text: text.to_string(), span };
        Some((ident(result, target.span), ident(kernel, f.span), args))
    }

    pub(super) fn kernel_call(
        &mut self,
        results: &[Ident],
        kernel: &Ident,
        args: &[CallArg],
        span: Span,
    ) -> Option<Vec<Item>> {
        let k = self.callee(kernel, args, results)?;
        let (mut pieces, mut arrays) = (Vec::new(), Vec::new());
        let mut scope: BTreeMap<String, (Entity, Span)> = BTreeMap::new();
        for (p, a) in k.params.iter().zip(args) {
            let elem = self.globals.element(&p.ty, self.errors)?;
            if let Some(s) = elem.scalar().filter(|_| !p.inout && p.ty.extents.is_none()) {
                let value = self.expr_as(&a.value, &elem)?;
                let (before, value) = self.without_reductions(value, &p.name.text)?;
                let b = self.fresh_var(&p.name.text, s);
                pieces.extend(before);
                pieces.push(Item::Let(b.clone(), value, place(span)));
                scope.insert(p.name.text.clone(), (Entity::Value(b, "an input"), p.name.span));
                continue;
            }
            if p.ty.extents.as_ref().is_some_and(Vec::is_empty) && !p.inout {
                let value = self.expr_as(&a.value, &elem)?;
                let (before, value) = self.without_reductions(value, &p.name.text)?;
                pieces.extend(before);
                let b = self.buffer(&p.name.text, elem, Vec::new(), Space::Register);
                let label = self.label(None, &format!("{}_{}", kernel.text, p.name.text));
                self.keep(&b, label, value, span, &mut pieces);
                arrays.push((p, b, a.value.span, false));
                continue;
            }
            arrays.push((p, self.passed(p, &a.value, p.inout)?, a.value.span, p.inout));
        }
        for (p, r) in k.results.iter().zip(results) {
            let name = ast::Expr { kind: K::Name(r.text.clone()), span: r.span, height: 1 };
            arrays.push((p, self.passed(p, &name, true)?, r.span, true));
        }
        for (n, (p, written, at, _)) in arrays.iter().enumerate().filter(|(_, a)| a.3) {
            let twice = arrays.iter().enumerate().any(|(m, a)| m != n && a.1.id == written.id);
            if twice {
                let text = format!(
                    "`{}` is what `{}` writes as `{}`, and is passed to it once more",
                    written.name, kernel.text, p.name.text
                );
                return self.no(
                    codes::ARGUMENTS,
                    text,
                    *at,
                    "passed twice",
                    "write to another array, and copy it",
                );
            }
        }
        for (p, b, ..) in &arrays {
            let sizes = p.ty.extents.iter().flatten().zip(&b.extents);
            for (name, known) in sizes.filter_map(|(e, known)| Some((e.as_name()?, known))) {
                let size = (Entity::Named(known.clone(), "a size"), p.name.span);
                scope.entry(name.to_string()).or_insert(size);
            }
        }
        for (p, b, at, written) in &arrays {
            let read_only = (!written).then_some("an input");
            let array = Entity::Array { buffer: b.clone(), read_only };
            scope.insert(p.name.text.clone(), (array, p.name.span));
            self.determined(p, &scope, kernel, *at)?;
        }
        if self.globals.derived.contains(&kernel.text) {
            let outside = std::mem::replace(&mut self.scopes, vec![scope]);
            let fits = arrays.iter().all(|(p, b, at, _)| self.fits(p, b, kernel, *at));
            let called = std::mem::replace(&mut self.scopes, outside).pop()?;
            self.st = Statement::default();
            if !fits {
                return None;
            }
            for (_, written, ..) in arrays.iter().filter(|a| a.3) {
                *self.labels.entry(written.name.to_string()).or_default() += 1;
            }
            let arg = |p: &ast::Param| match called.get(&p.name.text) {
                Some((Entity::Value(b, _), _)) => Some(Arg::Value(build::var(b))),
                Some((Entity::Array { buffer, .. }, _)) => Some(Arg::View(View::Buffer(buffer.id))),
                _ => None,
            };
            let args = k.params.iter().chain(&k.results).map(arg).collect::<Option<Vec<_>>>()?;
            let call = StmtKind::Call { function: kernel.text.as_str().into(), args };
            pieces.push(Item::Do(Stmt::new(call, place(span))));
            return Some(pieces);
        }
        let frame = Frame { kernel: kernel.text.clone(), first: self.next_id };
        self.calls.push(frame);
        let outside = (std::mem::replace(&mut self.scopes, vec![scope]), self.escape.take());
        let fits = arrays.iter().all(|(p, b, at, _)| self.fits(p, b, kernel, *at));
        let body = fits.then(|| self.block(&k.body));
        (self.scopes, self.escape) = outside;
        self.calls.pop();
        self.st = Statement::default();
        pieces.push(Item::Do(body?));
        Some(pieces)
    }

    /// Declares a local element, and stores its value.
    pub(super) fn keep(
        &mut self,
        b: &Arc<Buffer>,
        label: Label,
        value: Expr,
        span: Span,
        pieces: &mut Vec<Item>,
    ) {
        let target = Access::buffer(b.id, b.elem.clone(), Vec::new()).at(place(span));
        let instance = self.loops.iter().map(build::var).collect();
        pieces.push(Item::Alloc(b.clone(), place(span)));
        let store = Store::new(label, instance, target, value);
        pieces.push(Item::Do(Stmt::new(StmtKind::Store(store), place(span))));
    }

    /// A refusal, with help.
    fn no<T>(&mut self, code: Code, text: String, at: Span, mark: &str, help: &str) -> Option<T> {
        self.error(code, text, at, mark);
        self.help(help);
        None
    }

    /// The kernel, if it takes so many arguments and gives so many results.
    fn callee(&mut self, kernel: &Ident, args: &[CallArg], results: &[Ident]) -> Option<Arc<ast::Kernel>> {
        let name = &kernel.text;
        let Some(k) = self.globals.kernels.get(name).cloned() else {
            let all: Vec<&str> = self.globals.kernels.keys().map(String::as_str).collect();
            let near = lathe_diagnostics::nearest(name, all.iter().copied());
            let help = near.map_or("statements call kernels of the file".to_string(), |n| {
                format!("did you mean `{n}`?")
            });
            return self.no(
                codes::UNKNOWN,
                format!("there is no kernel `{name}`"),
                kernel.span,
                "not a kernel",
                &help,
            );
        };
        if self.calls.iter().any(|f| f.kernel == *name) {
            let text = format!("`{name}` calls itself");
            return self.no(codes::NOT_YET, text, kernel.span, "again", "calls are written out: use a loop");
        }
        self.written += count(&k.body);
        if self.calls.len() > 100 || self.written > MOST {
            let text = format!("calls of kernels are more than {MOST} statements, written out");
            return self.no(
                codes::NESTING,
                text,
                kernel.span,
                "one more",
                "call them one after the other from outside",
            );
        }
        if let Some(named) = args.iter().find_map(|a| a.name.as_ref()) {
            let text = format!("`{name}` takes no named arguments");
            return self.no(
                codes::ARGUMENTS,
                text,
                named.span,
                "a name",
                "arguments have the order of the parameters",
            );
        }
        let of = |n: usize, what: &str| format!("{n} {what}{}", if n == 1 { "" } else { "s" });
        let (p, r) = (k.params.len(), k.results.len());
        if args.len() != p || results.len() != r {
            let text = format!("`{name}` takes {} and gives {}", of(p, "argument"), of(r, "result"));
            let mark = format!("{} and {}", of(args.len(), "argument"), of(results.len(), "result"));
            return self.no(
                codes::ARGUMENTS,
                text,
                kernel.span,
                &mark,
                "results stand on the left: `(a, b) = f(x)`",
            );
        }
        Some(k)
    }

    /// The array that is passed for a parameter.
    fn passed(&mut self, p: &ast::Param, a: &ast::Expr, written: bool) -> Option<Arc<Buffer>> {
        let elem = self.globals.element(&p.ty, self.errors)?;
        let found = a.as_name().and_then(|n| self.lookup(n)).cloned();
        let Some(Entity::Array { buffer, read_only }) = found else {
            let text = format!("`{}` is an array that is passed as a whole", p.name.text);
            return self.no(
                codes::ARGUMENTS,
                text,
                a.span,
                "not the name of an array",
                "copy it to a `var`, and pass that",
            );
        };
        if let Some(why) = read_only.filter(|_| written) {
            let text = format!("`{}` cannot be assigned to", buffer.name);
            let help = "pass a `var`, an output, or an `inout` parameter";
            return self.no(codes::ASSIGN, text, a.span, &format!("is {why}"), help);
        }
        if buffer.elem != elem {
            let text =
                format!("`{}` has elements of {}, and `{}` of {elem}", buffer.name, buffer.elem, p.name.text);
            return self.no(
                codes::MISMATCH,
                text,
                a.span,
                &format!("of {}", buffer.elem),
                "convert it: `B[i] = f64(A[i])`",
            );
        }
        let rank = p.ty.extents.as_ref().map_or(0, Vec::len);
        if buffer.extents.len() != rank {
            let text = format!(
                "`{}` has {} dimensions, and `{}` has {rank}",
                buffer.name,
                buffer.extents.len(),
                p.name.text
            );
            return self.no(codes::RANK, text, a.span, "of another rank", "pass an array of the same rank");
        }
        if buffer.extents.iter().any(|e| !visit::loads_of(e).is_empty()) {
            let text = format!("the extents of `{}` depend on data", buffer.name);
            return self.no(
                codes::NOT_YET,
                text,
                a.span,
                "not passed to kernels",
                "give it an extent of sizes",
            );
        }
        Some(buffer)
    }

    /// Whether all sizes of a parameter's extents are whole extents of what is passed.
    fn determined(
        &mut self,
        p: &ast::Param,
        scope: &BTreeMap<String, (Entity, Span)>,
        kernel: &Ident,
        at: Span,
    ) -> Option<()> {
        let mut names = Vec::new();
        p.ty.extents.iter().flatten().for_each(|e| names_of(e, &mut names));
        match names.into_iter().find(|n| !scope.contains_key(&n.text)) {
            None => Some(()),
            Some(n) => {
                let text = format!("this call of `{}` does not tell its size `{}`", kernel.text, n.text);
                let help = format!("make it the whole extent of some parameter: `f64[{}]`", n.text);
                self.no(codes::SIZE, text, at, &format!("passed for `{}`", p.name.text), &help)
            }
        }
    }

    /// Whether an array has a parameter's extents, in the scope of the called kernel.
    fn fits(&mut self, p: &ast::Param, b: &Buffer, kernel: &Ident, at: Span) -> bool {
        self.st = Statement::default();
        p.ty.extents.iter().flatten().zip(&b.extents).enumerate().all(|(d, (e, has))| {
            let Some(wants) = self.index_expr(e) else { return false };
            let same = |a: &Expr, b: &Expr| {
                a == b
                    || Affine::of(&build::sub(a.clone(), b.clone()))
                        .is_some_and(|f| f.as_constant() == Some(0))
            };
            if !same(&wants, has) {
                let text = format!("`{}` may not have the extents that `{}` takes", b.name, kernel.text);
                let mark = format!("dimension {d} of `{}`", p.name.text);
                let help = "arrays that share a size there have extents of the same sizes here";
                return self.no::<()>(codes::EXTENT, text, at, &mark, help).is_some();
            }
            true
        })
    }

    /// What labels of statements that write to a name begin with: the array that it stands for; local arrays of a
    /// called kernel are called after that kernel, too.
    pub(super) fn as_labelled(&self, name: &str) -> String {
        match (self.calls.last(), self.lookup(name)) {
            (Some(f), Some(Entity::Array { buffer, .. })) if buffer.id.0 < f.first => buffer.name.to_string(),
            (Some(f), _) => format!("{}_{name}", f.kernel),
            (None, _) => name.to_string(),
        }
    }

    /// A label of the user's; in called kernels, which may be called several times, with a number where it is taken.
    pub(super) fn label_in_call(&self, text: &str) -> String {
        let taken = |t: &String| !self.calls.is_empty() && self.used_labels.contains(t);
        let numbered = (2..).map(|n| format!("{text}.{n}"));
        std::iter::once(text.to_string()).chain(numbered).find(|t| !taken(t)).unwrap_or_default()
    }
}

/// How many statements a block has, with all in it.
fn count(stmts: &[ast::Stmt]) -> usize {
    let inside = |s: &ast::Stmt| match &s.kind {
        ast::StmtKind::For { body, .. } | ast::StmtKind::While { body, .. } => count(body),
        ast::StmtKind::If { then, other, .. } => count(then) + other.as_deref().map_or(0, count),
        _ => 0,
    };
    stmts.iter().map(|s| 1 + inside(s)).sum()
}
