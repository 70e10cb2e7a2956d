//! `test` items.

use super::Parser;
use crate::ast::{ExprKind, Setting, Stmt, StmtKind, Test};
use crate::codes;
use lathe_syntax::{Expressions, Number, Read, Rules};

impl Parser<'_> {
    /// `test "name" for kernel { M = 5; A = random(1); expect C[i] = … within 1e-5 }`
    pub(super) fn test(&mut self) -> Read<Test> {
        let start = self.span();
        self.advance();
        let name = self.string("the test's name in quotes")?;
        self.expect("for")?;
        let kernel = self.ident("the kernel's name")?;
        let mut test = Test {
            name,
            kernel,
            settings: Vec::new(),
            expect: Vec::new(),
            data: Vec::new(),
            tolerances: Vec::new(),
            span: start,
        };
        self.inside("{", "}", |p| {
            p.in_lines(|p| p.recovering(&[";", ","], "the end of the line", |p| p.test_line(&mut test)));
            Ok(())
        })?;
        test.span = self.since(start);
        Ok(test)
    }

    fn test_line(&mut self, test: &mut Test) -> Read<()> {
        // `expect` is no reserved word: `expect = 3` sets an input of that name.
        if self.is("expect") && !self.is_at(1, "=") && !self.is_at(1, "[") {
            self.advance();
            return self.expectation(test);
        }
        let name = self.ident("a size, an input or `expect`")?;
        let mut indices = None;
        if self.is("[") {
            indices = Some(self.listed("[", "]", |p| p.ident("an index"))?);
        }
        self.expect("=")?;
        test.settings.push(Setting { name, indices, value: self.expr()? });
        Ok(())
    }

    /// `expect C[i] = formula`, `expect C = [1, 2]`, `expect { statements }`, each `within 1e-5`
    fn expectation(&mut self, test: &mut Test) -> Read<()> {
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
                        let text = "data stands for a whole array";
                        let d = self.error(codes::TEST, text, target.span, "one element");
                        return Err(d.help("write `expect C = [[1, 2], [3, 4]]`"));
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
        if self.take("within") {
            let value = match self.numeral(false)? {
                Some(Number::Float(v)) => v,
                Some(Number::Int(v)) => v as f64,
                None => return self.expected("a tolerance"),
            };
            if value.is_nan() || value >= 1.0 {
                let text = "0 would be within this tolerance of everything";
                let d = self.error(codes::TEST, text, self.last_span(), "not less than 1");
                return Err(d.help("write how far each element may be off: `within 1e-5`"));
            }
            test.tolerances.extend(names.into_iter().map(|n| (n, value)));
        }
        Ok(())
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
            StmtKind::Call { results, .. } => names.extend(results.iter().map(|r| r.text.clone())),
            StmtKind::Let { .. }
            | StmtKind::Var { .. }
            | StmtKind::Assume { .. }
            | StmtKind::Print { .. }
            | StmtKind::Assert { .. }
            | StmtKind::Break => {}
        }
    }
}
