//! Kernels and their statements.

use super::Parser;
use crate::ast::{
    AssignOp, CallArg, Derived, Expr, ExprKind, Ident, Kernel, Printed, Range, Stmt, StmtKind, TypeParam,
    UnOp,
};
use crate::codes;
use lathe_syntax::{Expressions, Read, Rules, Tok, WORDS};

/// Words that are operators of assignments with a `=` that touches them.
const REDUCING: [(&str, AssignOp); 4] =
    [("min", AssignOp::Min), ("max", AssignOp::Max), ("any", AssignOp::Any), ("all", AssignOp::All)];

impl Parser<'_> {
    pub(super) fn kernel(&mut self, doc: String) -> Read<Kernel> {
        let start = self.span();
        self.advance();
        let name = self.ident("the kernel's name")?;
        let types = if self.is("<") { self.type_params()? } else { Vec::new() };
        let params = self.params()?;
        let results = if self.take("->") { self.params()? } else { Vec::new() };
        let body = self.block()?;
        Ok(Kernel { name, types, params, results, body, doc, span: self.since(start) })
    }

    /// `<T [= f32] in {f32, f64}, …>`
    fn type_params(&mut self) -> Read<Vec<TypeParam>> {
        self.listed("<", ">", |p| {
            let name = p.ident("the name of an element type")?;
            let default = if p.take("=") { Some(p.ident("a type's name")?) } else { None };
            p.expect("in")?;
            let choices = p.listed("{", "}", |p| p.ident("a type's name"))?;
            Ok(TypeParam { name, default, choices })
        })
    }

    /// `kernel name = vjp(kernel, wrt: (A, B))`
    pub(super) fn derived(&mut self, doc: String) -> Read<Derived> {
        let start = self.span();
        self.advance();
        let name = self.ident("the kernel's name")?;
        self.expect("=")?;
        let rule = self.ident("`jvp`, `vjp`, `hvp` or `sparsity`")?;
        if !["jvp", "vjp", "hvp", "sparsity"].contains(&rule.text.as_str()) {
            let text = "a derived kernel is `jvp(…)`, `vjp(…)`, `hvp(…)` or `sparsity(…)`";
            return Err(self.error(codes::EXPECTED, text, rule.span, "not this"));
        }
        let mut d = self.inside("(", ")", |p| {
            let of_kernel = p.ident("the kernel to differentiate")?;
            let mut d = Derived {
                name,
                rule,
                of_kernel,
                wrt: Vec::new(),
                of: Vec::new(),
                value: false,
                allow_steps: false,
                checkpoints: None,
                directions: None,
                doc: String::new(),
                span: start,
            };
            while p.take(",") && !p.is(")") {
                let option = p.ident("`wrt`, `of`, `value`, `allow`, `checkpoint` or `directions`")?;
                p.expect(":")?;
                match option.text.as_str() {
                    "wrt" => d.wrt = p.names()?,
                    "of" => d.of = p.names()?,
                    "value" => {
                        d.value = p.is("true");
                        if !p.take("true") && !p.take("false") {
                            return p.expected("`true` or `false`");
                        }
                    }
                    "directions" => d.directions = Some(p.ident("a name for the number of directions")?),
                    "allow" if p.take("steps") => d.allow_steps = true,
                    "checkpoint" => {
                        let Tok::Int(n) = p.peek() else { return p.expected("how many states are kept") };
                        d.checkpoints = n.parse().ok();
                        if d.checkpoints.is_none() {
                            return p.expected("a number of states from 1 to 65535");
                        }
                        p.advance();
                    }
                    _ => {
                        let text = "no option of a derivative";
                        let d = p.error(codes::EXPECTED, text, option.span, "not this");
                        let help = "options: `wrt: (A, B)`, `of: (C)`, `value: true`, `allow: steps`, `checkpoint: 8`, \
                                    `directions: K`";
                        return Err(d.help(help));
                    }
                }
            }
            Ok(d)
        })?;
        (d.doc, d.span) = (doc, self.since(start));
        Ok(d)
    }

    /// `A` or `(A, B)`
    fn names(&mut self) -> Read<Vec<Ident>> {
        if !self.is("(") {
            return Ok(vec![self.ident("a parameter's name")?]);
        }
        self.listed("(", ")", |p| p.ident("a parameter's name"))
    }

    /// `{ statements }`
    pub(super) fn block(&mut self) -> Read<Vec<Stmt>> {
        self.inside("{", "}", |p| {
            Ok(p.in_lines(|p| p.recovering(&[";"], "the end of the statement", Self::statement)))
        })
    }

    pub(super) fn statement(&mut self) -> Read<Stmt> {
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
                    let text = "`var` only declares";
                    let d = self.error(codes::EXPECTED, text, self.span(), "no value here");
                    return Err(d.help(format!("assign on the next line: `{} = …`", name.text)));
                }
                StmtKind::Var { name, ty }
            }
            Tok::Word("assume") => {
                self.advance();
                StmtKind::Assume { cond: self.inside("(", ")", Self::expr)? }
            }
            Tok::Word("break") => {
                self.advance();
                StmtKind::Break
            }
            Tok::Name("print") if self.is_at(1, "(") => {
                self.advance();
                StmtKind::Print { parts: self.listed("(", ")", Self::printed)? }
            }
            Tok::Name("assert") if self.is_at(1, "(") => {
                self.advance();
                self.enclosed("(", ")", "`,` or `)`", |p| {
                    let cond = p.expr()?;
                    let mut says = Vec::new();
                    while p.take(",") && !p.is(")") {
                        says.push(p.printed()?);
                    }
                    Ok(StmtKind::Assert { cond, says })
                })?
            }
            _ => self.assignment()?,
        };
        Ok(Stmt { kind, span: self.since(start) })
    }

    fn printed(&mut self) -> Read<Printed> {
        if let Tok::Quoted('"', _) = self.peek() {
            let span = self.span();
            return Ok(Printed::Text(self.string("a text")?, span));
        }
        Ok(Printed::Value(self.expr()?))
    }

    fn for_loop(&mut self) -> Read<StmtKind> {
        self.advance();
        let var = self.ident("the loop's name")?;
        self.expect("in")?;
        let (lo, hi) = self.bounds()?;
        let step = if self.take("step") { Some(self.sum()?) } else { None };
        Ok(StmtKind::For { var, lo, hi, step, body: self.block()? })
    }

    fn conditional(&mut self) -> Read<StmtKind> {
        self.advance();
        let cond = self.expr()?;
        let then = self.block()?;
        let mut other = None;
        if self.take("else") {
            other = Some(if self.is("if") {
                let start = self.span();
                let kind = self.deeper(Self::conditional)?;
                vec![Stmt { kind, span: self.since(start) }]
            } else {
                self.block()?
            });
        }
        Ok(StmtKind::If { cond, then, other })
    }

    /// `lo..hi`, half-open.
    pub(super) fn bounds(&mut self) -> Read<(Expr, Expr)> {
        let lo = self.sum()?;
        if self.is("..=") {
            let text = "ranges of indices are half-open";
            let d = self.error(codes::EXPECTED, text, self.span(), "`..=` is for parameters");
            return Err(d.help("write `a..b + 1`"));
        }
        self.expect("..")?;
        Ok((lo, self.sum()?))
    }

    /// `i in lo..hi`, `i`
    pub(super) fn range(&mut self) -> Read<Range> {
        let index = self.ident("an index")?;
        let bounds = if self.take("in") { Some(self.bounds()?) } else { None };
        Ok(Range { index, bounds })
    }

    /// `'(' names ')' '=' kernel '(' arguments ')'`
    fn call_of_several(&mut self) -> Read<StmtKind> {
        let results = self.listed("(", ")", |p| p.ident("an array's name"))?;
        self.expect("=")?;
        let call = self.postfix()?;
        match called(&call) {
            Some((kernel, args)) => Ok(StmtKind::Call { results, kernel, args }),
            None => {
                let text = "several arrays are assigned to by the call of a kernel only";
                Err(self.error(codes::EXPECTED, text, call.span, "not a call"))
            }
        }
    }

    /// `[label ':'] target op expr ['where' ranges]`
    pub(super) fn assignment(&mut self) -> Read<StmtKind> {
        if self.is("(") {
            return self.call_of_several();
        }
        let mut label = None;
        if self.is_name() && self.is_at(1, ":") {
            label = Some(self.ident("a label")?);
            self.advance();
        }
        if !self.is_name() {
            return self.expected("a statement");
        }
        let target = self.postfix()?;
        let op = match self.peek() {
            Tok::Sym("=") => AssignOp::Set,
            Tok::Sym("+=" | "-=") => AssignOp::Add,
            Tok::Sym("*=") => AssignOp::Mul,
            Tok::Name(name)
                if REDUCING.iter().any(|r| r.0 == name) && self.is_at(1, "=") && self.token(1).glued =>
            {
                self.advance();
                REDUCING.iter().find(|r| r.0 == name).map_or(AssignOp::Set, |r| r.1)
            }
            _ => {
                if let Some((kernel, args)) = called(&target).filter(|_| label.is_none()) {
                    return Ok(StmtKind::Call { results: Vec::new(), kernel, args });
                }
                let mut d = self.unexpected("`=` or `+=`, `*=`, `min=`, `max=`, `any=`, `all=`");
                let near = lathe_diagnostics::nearest(target.as_name().unwrap_or(""), WORDS.iter().copied());
                d.help = near.map(|near| format!("did you mean `{near}`?")).or(d.help);
                return Err(d);
            }
        };
        let less = self.is("-=");
        self.advance();
        let mut value = self.expr()?;
        if less {
            let span = value.span;
            value = self.unary(UnOp::Neg, value, span)?;
        }
        let mut ranges = Vec::new();
        if self.take("where") {
            loop {
                let r = self.range()?;
                if r.bounds.is_none() {
                    return self.expected("`in` and a range");
                }
                ranges.push(r);
                if !self.take(",") {
                    break;
                }
            }
        }
        if !matches!(target.kind, ExprKind::Name(_) | ExprKind::Index(..)) {
            let text = "this cannot be assigned to";
            let d = self.error(codes::EXPECTED, text, target.span, "neither a name nor an element");
            return Err(d.help("assign to a whole element: `a[i] = P(v: …, i: …)`"));
        }
        Ok(StmtKind::Assign { label, target, op, value, ranges })
    }
}

/// `name(arguments)`
fn called(e: &Expr) -> Option<(Ident, Vec<CallArg>)> {
    let ExprKind::Call(f, args) = &e.kind else { return None };
    Some((Ident { text: f.as_name()?.to_string(), span: f.span }, args.clone()))
}
