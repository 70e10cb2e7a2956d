//! Kernels and their statements.

use super::Parser;
use crate::ast::{AssignOp, Derived, Expr, ExprKind, Ident, Kernel, Range, Stmt, StmtKind, TypeParam};
use crate::codes;
use crate::lexer::Tok;
use lathe_diagnostics::Span;

impl Parser<'_> {
    pub(super) fn kernel(&mut self, doc: String) -> Option<Kernel> {
        let start = self.span();
        self.advance();
        let name = self.ident("the kernel's name")?;
        let types = if self.is("<") { self.type_params()? } else { Vec::new() };
        let params = self.params()?;
        let results = if self.take("->") { self.params()? } else { Vec::new() };
        let body = self.block()?;
        Some(Kernel { name, types, params, results, body, doc, span: self.since(start) })
    }

    /// `<T [= f32] in {f32, f64}, …>`
    fn type_params(&mut self) -> Option<Vec<TypeParam>> {
        self.angles.push(self.at);
        let open = self.expect("<")?;
        let types = self.nested(false, |p| {
            p.list(">", |p| {
                let name = p.ident("the name of an element type")?;
                let default = if p.take("=") { Some(p.ident("a type's name")?) } else { None };
                p.expect("in")?;
                let open = p.expect("{")?;
                let choices = p.list("}", |p| p.ident("a type's name"))?;
                p.close("}", open)?;
                Some(TypeParam { name, default, choices })
            })
        })?;
        self.angles.push(self.at);
        self.close(">", open)?;
        Some(types)
    }

    /// `kernel name = vjp(kernel, wrt: (A, B))`
    pub(super) fn derived(&mut self, doc: String) -> Option<Derived> {
        let start = self.span();
        self.advance();
        let name = self.ident("the kernel's name")?;
        self.expect("=")?;
        let rule = self.ident("`jvp`, `vjp` or `hvp`")?;
        if !["jvp", "vjp", "hvp"].contains(&rule.text.as_str()) {
            self.error(
                codes::EXPECTED,
                "a derived kernel is `jvp(…)`, `vjp(…)` or `hvp(…)`",
                rule.span,
                "not this",
            );
            return None;
        }
        let open = self.expect("(")?;
        let mut d = self.nested(false, |p| {
            let of_kernel = p.ident("the kernel to differentiate")?;
            let (wrt, of, doc, span) = (Vec::new(), Vec::new(), String::new(), start);
            let mut d =
                Derived { name, rule, of_kernel, wrt, of, value: false, allow_steps: false, doc, span };
            while p.take(",") && !p.is(")") {
                let option = p.ident("`wrt`, `of`, `value` or `allow`")?;
                p.expect(":")?;
                match option.text.as_str() {
                    "wrt" => d.wrt = p.names()?,
                    "of" => d.of = p.names()?,
                    "value" => {
                        d.value = p.is("true") || p.is_name("true");
                        if !d.value && !p.is("false") && !p.is_name("false") {
                            p.expected("`true` or `false`");
                            return None;
                        }
                        p.advance();
                    }
                    "allow" if p.is_name("steps") => {
                        d.allow_steps = true;
                        p.advance();
                    }
                    _ => {
                        let help = "options: `wrt: (A, B)`, `of: (C)`, `value: true`, `allow: steps`";
                        p.error(codes::EXPECTED, "no option of a derivative", option.span, "not this");
                        p.help(help);
                        return None;
                    }
                }
            }
            Some(d)
        })?;
        self.close(")", open)?;
        (d.doc, d.span) = (doc, self.since(start));
        Some(d)
    }

    /// `A` or `(A, B)`
    fn names(&mut self) -> Option<Vec<Ident>> {
        if !self.is("(") {
            return Some(vec![self.ident("a parameter's name")?]);
        }
        let open = self.expect("(")?;
        let names = self.nested(false, |p| p.list(")", |p| p.ident("a parameter's name")))?;
        self.close(")", open)?;
        Some(names)
    }

    /// `{ statements }`
    pub(super) fn block(&mut self) -> Option<Vec<Stmt>> {
        let open = self.expect("{")?;
        let body = self.nested(true, |p| Some(p.statements()))?;
        self.close("}", open)?;
        Some(body)
    }

    /// Statements up to the closing brace. A broken one is skipped.
    fn statements(&mut self) -> Vec<Stmt> {
        let (lines, depth) = (self.lines, self.depth);
        let mut out = Vec::new();
        loop {
            while self.take(";") {}
            if self.is("}") || self.at_item() {
                return out;
            }
            let start = self.at;
            let parsed = self.statement();
            let ok = parsed.is_some();
            out.extend(parsed);
            if ok && (self.is(";") || self.is("}") || self.newline() || self.at_item()) {
                continue;
            }
            if ok {
                self.expected("the end of the statement");
            }
            (self.lines, self.depth) = (lines, depth);
            if self.at == start {
                self.advance();
            }
            self.skip_statement();
        }
    }

    pub(super) fn statement(&mut self) -> Option<Stmt> {
        let start = self.span();
        let kind = match self.peek() {
            Tok::Word("for") => self.for_loop()?,
            Tok::Word("while") => {
                self.advance();
                let cond = self.expr()?;
                StmtKind::While { cond, body: self.block()? }
            }
            Tok::Word("if") => self.conditional()?,
            Tok::Word("let") => {
                self.advance();
                let name = self.ident("a name")?;
                self.expect("=")?;
                StmtKind::Let { name, value: self.expr()? }
            }
            Tok::Word("var") => {
                self.advance();
                let name = self.ident("a name")?;
                self.expect(":")?;
                let ty = self.ty()?;
                if self.is("=") {
                    let here = self.span();
                    self.error(codes::EXPECTED, "`var` only declares", here, "no value here");
                    let help = format!("assign on the next line: `{} = …`", name.text);
                    self.help(help);
                    return None;
                }
                StmtKind::Var { name, ty }
            }
            Tok::Word("assume") => {
                self.advance();
                let open = self.expect("(")?;
                let cond = self.nested(false, |p| p.expr())?;
                self.close(")", open)?;
                StmtKind::Assume { cond }
            }
            _ => self.assignment()?,
        };
        Some(Stmt { kind, span: self.since(start) })
    }

    fn for_loop(&mut self) -> Option<StmtKind> {
        self.advance();
        let var = self.ident("the loop's name")?;
        self.expect("in")?;
        let (lo, hi) = self.bounds()?;
        let step = if self.take("step") { Some(self.sum()?) } else { None };
        Some(StmtKind::For { var, lo, hi, step, body: self.block()? })
    }

    fn conditional(&mut self) -> Option<StmtKind> {
        self.advance();
        let cond = self.expr()?;
        let then = self.block()?;
        let mut other = None;
        if self.take("else") {
            other = Some(if self.is("if") {
                let start = self.span();
                let kind = self.nested(true, |p| p.conditional())?;
                vec![Stmt { kind, span: self.since(start) }]
            } else {
                self.block()?
            });
        }
        Some(StmtKind::If { cond, then, other })
    }

    /// `lo..hi`, half-open.
    pub(super) fn bounds(&mut self) -> Option<(Expr, Expr)> {
        let lo = self.sum()?;
        if self.is("..=") {
            let here = self.span();
            self.error(codes::EXPECTED, "ranges of indices are half-open", here, "`..=` is for parameters");
            self.help("write `a..b + 1`");
            return None;
        }
        self.expect("..")?;
        Some((lo, self.sum()?))
    }

    /// `i in lo..hi`, `i`
    pub(super) fn range(&mut self) -> Option<Range> {
        let index = self.ident("an index")?;
        let bounds = if self.take("in") { Some(self.bounds()?) } else { None };
        Some(Range { index, bounds })
    }

    /// `[label ':'] target op expr ['where' ranges]`
    pub(super) fn assignment(&mut self) -> Option<StmtKind> {
        let mut label = None;
        if matches!(self.peek(), Tok::Name(_)) && self.is_at(1, ":") {
            label = self.ident("a label");
            self.advance();
        }
        if !matches!(self.peek(), Tok::Name(_)) {
            self.expected("a statement");
            return None;
        }
        let target = self.postfix()?;
        let op = match self.peek() {
            Tok::Sym("=") => AssignOp::Set,
            Tok::Sym("+=") => AssignOp::Add,
            Tok::Sym("*=") => AssignOp::Mul,
            Tok::Sym("min=") => AssignOp::Min,
            Tok::Sym("max=") => AssignOp::Max,
            Tok::Sym("any=") => AssignOp::Any,
            Tok::Sym("all=") => AssignOp::All,
            Tok::Sym("-") if self.is_at(1, "=") => {
                let here = self.span().to(self.tokens[self.at + 1].span);
                self.error(codes::EXPECTED, "there is no `-=`", here, "not an operator");
                self.help("write `+= -(…)`");
                return None;
            }
            _ => {
                let name = target.as_name().unwrap_or("").to_string();
                self.expected("`=` or `+=`, `*=`, `min=`, `max=`, `any=`, `all=`");
                if let Some(near) = crate::suggest::nearest(&name, crate::lexer::WORDS.iter().copied()) {
                    self.help(format!("did you mean `{near}`?"));
                }
                return None;
            }
        };
        self.advance();
        let value = self.expr()?;
        let mut ranges = Vec::new();
        if self.take("where") {
            loop {
                let r = self.range()?;
                if r.bounds.is_none() {
                    self.expected("`in` and a range");
                    return None;
                }
                ranges.push(r);
                if !self.take(",") {
                    break;
                }
            }
        }
        if !matches!(target.kind, ExprKind::Name(_) | ExprKind::Index(..)) {
            self.not_a_target(target.span);
            return None;
        }
        Some(StmtKind::Assign { label, target, op, value, ranges })
    }

    fn not_a_target(&mut self, span: Span) {
        self.error(codes::EXPECTED, "this cannot be assigned to", span, "neither a name nor an element");
        self.help("assign to a whole element: `a[i] = P(v: …, i: …)`");
    }
}
