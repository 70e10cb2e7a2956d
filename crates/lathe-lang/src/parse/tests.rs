//! `test` items.

use super::Parser;
use crate::ast::{ExprKind, Setting, Stmt, StmtKind, Test};
use crate::codes;
use crate::lexer::Tok;

impl Parser<'_> {
    /// `test "name" for kernel { M = 5; A = random(1); expect C[i] = … within 1e-5 }`
    pub(super) fn test(&mut self) -> Option<Test> {
        let start = self.span();
        self.advance();
        let Tok::Str(name) = self.peek() else {
            self.expected("the test's name in quotes");
            return None;
        };
        let name = name.clone();
        self.advance();
        self.expect("for")?;
        let kernel = self.ident("the kernel's name")?;
        let open = self.expect("{")?;
        let mut test = Test {
            name,
            kernel,
            settings: Vec::new(),
            expect: Vec::new(),
            data: Vec::new(),
            tolerances: Vec::new(),
            span: start,
        };
        self.nested(true, |p| {
            p.test_body(&mut test);
            Some(())
        })?;
        self.close("}", open)?;
        test.span = self.since(start);
        Some(test)
    }

    fn test_body(&mut self, test: &mut Test) {
        let (lines, depth) = (self.lines, self.depth);
        loop {
            while self.take(";") || self.take(",") {}
            if self.is("}") || self.at_item() {
                return;
            }
            let start = self.at;
            if self.test_line(test).is_some() {
                if self.is(";") || self.is(",") || self.is("}") || self.newline() || self.at_item() {
                    continue;
                }
                self.expected("the end of the line");
            }
            (self.lines, self.depth) = (lines, depth);
            if self.at == start {
                self.advance();
            }
            self.skip_statement();
        }
    }

    fn test_line(&mut self, test: &mut Test) -> Option<()> {
        // `expect` is no reserved word: `expect = 3` sets an input of that name.
        if self.is_name("expect") && !self.is_at(1, "=") && !self.is_at(1, "[") {
            self.advance();
            return self.expectation(test);
        }
        let name = self.ident("a size, an input or `expect`")?;
        let mut indices = None;
        if self.is("[") {
            let open = self.expect("[")?;
            let list = self.nested(false, |p| p.list("]", |p| p.ident("an index")))?;
            self.close("]", open)?;
            indices = Some(list);
        }
        self.expect("=")?;
        test.settings.push(Setting { name, indices, value: self.expr()? });
        Some(())
    }

    /// `expect C[i] = formula`, `expect C = [1, 2]`, `expect { statements }`, each `within 1e-5`
    fn expectation(&mut self, test: &mut Test) -> Option<()> {
        let mut names = Vec::new();
        if self.is("{") {
            let block = self.block()?;
            assigned(&block, &mut names);
            test.expect.extend(block);
        } else {
            let start = self.span();
            let kind = self.assignment()?;
            match kind {
                StmtKind::Assign { label: None, target, value, .. }
                    if matches!(value.kind, crate::ast::ExprKind::List(_)) =>
                {
                    let Some(name) = target.as_name() else {
                        self.error(codes::TEST, "data stands for a whole array", target.span, "one element");
                        self.help("write `expect C = [[1, 2], [3, 4]]`");
                        return None;
                    };
                    let name = crate::ast::Ident { text: name.to_string(), span: target.span };
                    names.push(name.text.clone());
                    test.data.push((name, value));
                }
                kind => {
                    let one = Stmt { kind, span: self.since(start) };
                    assigned(std::slice::from_ref(&one), &mut names);
                    test.expect.push(one);
                }
            }
        }
        if self.is_name("within") {
            self.advance();
            let value = match self.peek() {
                Tok::Float(v) => *v,
                Tok::Int(v) => *v as f64,
                _ => {
                    self.expected("a tolerance");
                    return None;
                }
            };
            if !value.is_finite() {
                let here = self.span();
                self.error(codes::TEST, "everything would be within this tolerance", here, "not finite");
                self.help("write how far each element may be off: `within 1e-5`");
                return None;
            }
            self.advance();
            test.tolerances.extend(names.into_iter().map(|n| (n, value)));
        }
        Some(())
    }
}

/// The names that statements assign to: `C` of `C[i]`, `out.0` of `out.0[i]`.
fn assigned(stmts: &[Stmt], names: &mut Vec<String>) {
    for s in stmts {
        match &s.kind {
            StmtKind::Assign { target, .. } => {
                let of = match &target.kind {
                    ExprKind::Index(of, _) => of,
                    _ => target,
                };
                names.extend(match &of.kind {
                    ExprKind::Component(name, n, _) => name.as_name().map(|name| format!("{name}.{n}")),
                    _ => of.as_name().map(str::to_string),
                });
            }
            StmtKind::For { body, .. } | StmtKind::While { body, .. } => assigned(body, names),
            StmtKind::If { then, other, .. } => {
                assigned(then, names);
                assigned(other.as_deref().unwrap_or_default(), names);
            }
            StmtKind::Let { .. } | StmtKind::Var { .. } | StmtKind::Assume { .. } => {}
        }
    }
}
