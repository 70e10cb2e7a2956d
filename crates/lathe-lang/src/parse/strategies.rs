//! Strategies: definitions, steps and arguments.
//!
//! Steps and arithmetic share one precedence ladder (`if`, `<+`, `;`, `@`, then arithmetic); what a node
//! is gets decided when both sides are known, so nothing is parsed twice.

use super::Parser;
use crate::ast;
use crate::codes;
use crate::lexer::Tok;
use lathe_diagnostics::Span;
use lathe_space::{BinOp, Expr, ParamType, Parameter, Range, UnOp, Value};
use lathe_strategy::{ArgValue, Argument, Definition, Strategy};

/// What `;;` goes through.
pub(crate) const NORMALIZE: &str = "normalForm";

/// A step or an arithmetic expression; a call may still be either.
enum Node {
    Expr(Expr),
    Call { name: String, args: Vec<Argument>, span: Span },
    Step(Strategy),
}

impl Parser<'_> {
    /// `strategy NAME(params [where c, …]) [for TARGET] = steps`
    pub(super) fn strategy(&mut self) -> Option<ast::Strategy> {
        let start = self.span();
        self.advance();
        let name = self.ident("the strategy's name")?;
        let (mut params, mut constraints) = (Vec::new(), Vec::new());
        if self.is("(") {
            let open = self.expect("(")?;
            (params, constraints) = self.nested(false, |p| p.strategy_params())?;
            self.close(")", open)?;
        }
        let target = if self.take("for") { Some(self.ident("the kernel's name")?) } else { None };
        self.expect("=")?;
        let node = self.node_if()?;
        let body = self.as_step(node)?;
        let definition = Definition {
            name: name.text.clone(),
            params,
            constraints,
            target: target.as_ref().map(|t| t.text.clone()),
            body,
            span: Some(self.since(start)),
        };
        Some(ast::Strategy { definition, name, target })
    }

    fn strategy_params(&mut self) -> Option<(Vec<Parameter>, Vec<Expr>)> {
        let (mut params, mut constraints) = (Vec::new(), Vec::new());
        while !self.is(")") && !self.is("where") {
            params.push(self.strategy_param()?);
            if !self.take(",") {
                break;
            }
        }
        if self.take("where") {
            constraints = self.list(")", |p| p.arith_or())?;
        }
        Some((params, constraints))
    }

    /// `name [':' type] ['=' default] ['in' lo..=hi [step s] | 'in' {v, …}]`
    fn strategy_param(&mut self) -> Option<Parameter> {
        let name = self.ident("a parameter's name")?;
        let mut ty = None;
        if self.take(":") {
            let t = self.ident("a parameter's type")?;
            ty = Some(match t.text.as_str() {
                "bool" => ParamType::Bool,
                "int" => ParamType::Int,
                "float" => ParamType::Float,
                "str" => ParamType::Str,
                other => {
                    let message = format!("parameters cannot have the type `{other}`");
                    self.error(codes::PARAMETER, message, t.span, "unknown here");
                    self.help("the types of parameters are `bool`, `int`, `float` and `str`");
                    return None;
                }
            });
        }
        let default = if self.take("=") { Some(self.arith_sum()?) } else { None };
        let mut range = None;
        if self.take("in") {
            range = Some(if self.is("{") {
                let open = self.expect("{")?;
                let values = self.list("}", |p| p.value())?;
                self.close("}", open)?;
                Range::Set(values)
            } else {
                let lo = self.arith_sum()?;
                if self.is("..") {
                    let here = self.span();
                    self.error(codes::PARAMETER, "ranges of parameters include their end", here, "half-open");
                    self.help("write `lo..=hi`");
                    return None;
                }
                self.expect("..=")?;
                let hi = self.arith_sum()?;
                let step = if self.take("step") { Some(self.arith_sum()?) } else { None };
                Range::Interval { lo, hi, step }
            });
            if default.is_none() {
                let message = format!("the parameter `{}` has a range but no default", name.text);
                self.error(codes::PARAMETER, message, name.span, "no default");
                self.help(format!("give one: `{} = 16 in …`", name.text));
            }
        }
        let ty = ty.unwrap_or(match &default {
            Some(Expr::Value(Value::Bool(_))) => ParamType::Bool,
            Some(Expr::Value(Value::Float(_))) => ParamType::Float,
            Some(Expr::Value(Value::Str(_))) => ParamType::Str,
            _ => ParamType::Int,
        });
        Some(Parameter { name: name.text, ty, default, range })
    }

    /// A constant of a set.
    fn value(&mut self) -> Option<Value> {
        let negative = self.take("-");
        let v = match self.peek() {
            Tok::Int(v) => Value::Int(if negative { v.wrapping_neg() } else { *v }),
            Tok::Float(v) => Value::Float(if negative { -v } else { *v }),
            Tok::Word("true") if !negative => Value::Bool(true),
            Tok::Word("false") if !negative => Value::Bool(false),
            Tok::Str(s) | Tok::Name(s) if !negative => Value::Str(s.clone()),
            _ => {
                self.expected("a constant");
                return None;
            }
        };
        self.advance();
        Some(v)
    }

    fn node_if(&mut self) -> Option<Node> {
        let start = self.span();
        if !self.take("if") {
            return self.choice();
        }
        let cond = self.arith_or()?;
        self.expect("then")?;
        let then = self.nested(false, |p| p.node_if())?;
        let then = self.as_step(then)?;
        self.expect("else")?;
        let other = self.nested(false, |p| p.node_if())?;
        let other = self.as_step(other)?;
        let span = Some(self.since(start));
        Some(Node::Step(Strategy::If { cond, then: Box::new(then), other: Box::new(other), span }))
    }

    /// `a <+ b <+ c`
    fn choice(&mut self) -> Option<Node> {
        let first = self.sequence()?;
        if !self.is("<+") {
            return Some(first);
        }
        let mut all = vec![self.as_step(first)?];
        while self.take("<+") {
            let next = self.sequence()?;
            all.push(self.as_step(next)?);
        }
        Some(Node::Step(Strategy::Choice(all)))
    }

    /// `a ; b ;; c`
    fn sequence(&mut self) -> Option<Node> {
        let first = self.located()?;
        if !self.is(";") && !self.is(";;") {
            return Some(first);
        }
        let mut all = vec![self.as_step(first)?];
        loop {
            // `a ;; b` normalizes between.
            if self.is(";;") {
                let span = Some(self.span());
                self.advance();
                all.push(Strategy::Call { name: NORMALIZE.to_string(), args: Vec::new(), span });
            } else if !self.take(";") {
                return Some(Node::Step(Strategy::Seq(all)));
            }
            let next = self.located()?;
            all.push(self.as_step(next)?);
        }
    }

    /// `step @ location`
    fn located(&mut self) -> Option<Node> {
        let mut node = self.arith(0)?;
        let mut places = 0;
        while self.take("@") {
            places += 1;
            if places > super::MAX_DEPTH {
                let here = self.span();
                self.error(codes::NESTING, "this nests too deeply", here, "too many locations");
                return None;
            }
            let step = self.as_step(node)?;
            let place = self.arith(0)?;
            let place = self.as_step(place)?;
            node = Node::Step(Strategy::At(Box::new(step), Box::new(place)));
        }
        Some(node)
    }

    fn arith_or(&mut self) -> Option<Expr> {
        let n = self.arith(0)?;
        self.as_expr(n)
    }

    fn arith_sum(&mut self) -> Option<Expr> {
        let n = self.arith(3)?;
        self.as_expr(n)
    }

    /// Arithmetic from a level of precedence on: 0 `or`, 1 `and`, 2 comparisons, 3 sums, 4 products.
    fn arith(&mut self, level: usize) -> Option<Node> {
        const LEVELS: [&[(&str, BinOp)]; 5] = [
            &[("or", BinOp::Or)],
            &[("and", BinOp::And)],
            &[
                ("==", BinOp::Eq),
                ("!=", BinOp::Ne),
                ("<=", BinOp::Le),
                (">=", BinOp::Ge),
                ("<", BinOp::Lt),
                (">", BinOp::Gt),
            ],
            &[("+", BinOp::Add), ("-", BinOp::Sub)],
            &[("*", BinOp::Mul), ("//", BinOp::FloorDiv), ("/", BinOp::Div), ("%", BinOp::Mod)],
        ];
        let Some(ops) = LEVELS.get(level) else { return self.arith_unary() };
        if level == 2 && self.is("not") {
            let span = Some(self.span());
            self.advance();
            // Of a predicate, or of arithmetic.
            return Some(match self.nested(false, |p| p.arith(2))? {
                Node::Step(s) => {
                    let arg = Argument { name: None, value: ArgValue::Strategy(Box::new(s)), span };
                    Node::Step(Strategy::Call { name: "not".to_string(), args: vec![arg], span })
                }
                a => Node::Expr(Expr::Unary(UnOp::Not, Box::new(self.as_expr(a)?))),
            });
        }
        let mut left = self.arith(level + 1)?;
        let mut terms = 0;
        while let Some((_, op)) = ops.iter().find(|(s, _)| self.is(s)) {
            terms += 1;
            if terms > super::MAX_HEIGHT {
                let here = self.span();
                self.error(codes::NESTING, "this expression is too large", here, "too many operations");
                return None;
            }
            if level == 2 && terms > 1 {
                let here = self.span();
                self.error(codes::CHAIN, "comparisons cannot be chained", here, "second comparison");
                self.help("join two with `and`: `a < b and b < c`");
                return None;
            }
            let a = self.as_expr(left)?;
            self.advance();
            let b = self.arith(level + 1)?;
            let b = self.as_expr(b)?;
            left = Node::Expr(Expr::Binary(*op, Box::new(a), Box::new(b)));
        }
        Some(left)
    }

    fn arith_unary(&mut self) -> Option<Node> {
        if self.take("-") {
            let a = self.nested(false, |p| p.arith_unary())?;
            return Some(Node::Expr(match self.as_expr(a)? {
                Expr::Value(Value::Int(v)) => Expr::Value(Value::Int(v.wrapping_neg())),
                Expr::Value(Value::Float(v)) => Expr::Value(Value::Float(-v)),
                a => Expr::Unary(UnOp::Neg, Box::new(a)),
            }));
        }
        let start = self.span();
        let value = match self.peek() {
            Tok::Int(v) => Value::Int(*v),
            Tok::Float(v) => Value::Float(*v),
            Tok::Str(s) => Value::Str(s.clone()),
            Tok::Word("true") => Value::Bool(true),
            Tok::Word("false") => Value::Bool(false),
            // An open place of a sketch.
            Tok::Sym("?") => {
                self.advance();
                return Some(Node::Expr(Expr::Name("?".to_string())));
            }
            Tok::Sym("(") => {
                self.advance();
                let inner = self.nested(false, |p| p.node_if())?;
                self.close(")", start)?;
                return Some(inner);
            }
            Tok::Name(_) => return self.step_or_name(),
            // `where(p)`: a test that changes nothing.
            Tok::Word("where") if self.is_at(1, "(") => return self.step_or_name(),
            _ => {
                self.expected("a step");
                return None;
            }
        };
        self.advance();
        Some(Node::Expr(Expr::Value(value)))
    }

    /// `name.path` or `name(args)`
    fn step_or_name(&mut self) -> Option<Node> {
        let start = self.span();
        let name = self.dotted()?;
        if !self.is("(") {
            // A dotted name is a path, never a step.
            return Some(if name.contains('.') {
                Node::Expr(Expr::Name(name))
            } else {
                Node::Call { name, args: Vec::new(), span: self.since(start) }
            });
        }
        let open = self.expect("(")?;
        let args = self.nested(false, |p| p.list(")", |p| p.step_argument()))?;
        self.close(")", open)?;
        if self.is(".") {
            // `copy(A).i`: a path whose first part names a statement that a step made.
            if let [Argument { name: None, value: ArgValue::Expr(Expr::Name(of)), .. }] = args.as_slice() {
                let mut path = format!("{name}({of})");
                while self.is(".") {
                    self.segment(&mut path)?;
                }
                return Some(Node::Expr(Expr::Name(path)));
            }
        }
        let span = self.since(start);
        if args.is_empty() {
            // `name()` can only be a step.
            return Some(Node::Step(Strategy::Call { name, args, span: Some(span) }));
        }
        Some(Node::Call { name, args, span })
    }

    /// `i.o`, `C.2`
    fn dotted(&mut self) -> Option<String> {
        if self.take("where") {
            return Some("where".to_string());
        }
        let mut name = self.ident("a name")?.text;
        while self.is(".") {
            self.segment(&mut name)?;
        }
        Some(name)
    }

    /// `.o`, `.2`: appended to a path.
    fn segment(&mut self, path: &mut String) -> Option<()> {
        self.advance();
        let part = match self.peek() {
            Tok::Int(v) => v.to_string(),
            Tok::Name(n) => n.clone(),
            _ => {
                self.expected("a part of a loop's name");
                return None;
            }
        };
        self.advance();
        path.push('.');
        path.push_str(&part);
        Some(())
    }

    /// `16`, `i.o`, `j.i: 16`, `at: k.o`, or a step
    fn step_argument(&mut self) -> Option<Argument> {
        let start = self.span();
        let mut node = self.node_if()?;
        let mut name = None;
        if self.is(":") {
            match node {
                Node::Call { name: n, args, .. } if args.is_empty() => name = Some(n),
                Node::Expr(Expr::Name(n)) => name = Some(n),
                _ => {
                    self.expected("`,` or `)`");
                    return None;
                }
            }
            self.advance();
            node = self.node_if()?;
        }
        let value = match node {
            Node::Expr(e) => ArgValue::Expr(e),
            Node::Step(s) => ArgValue::Strategy(Box::new(s)),
            call => match expression(call) {
                Ok(e) => ArgValue::Expr(e),
                Err(s) => ArgValue::Strategy(Box::new(s)),
            },
        };
        Some(Argument { name, value, span: Some(self.since(start)) })
    }

    fn as_expr(&mut self, n: Node) -> Option<Expr> {
        let span = self.last_span();
        match n {
            Node::Expr(e) => Some(e),
            Node::Step(_) => {
                self.error(codes::KIND, "a step where a number is needed", span, "ends here");
                None
            }
            call => match expression(call) {
                Ok(e) => Some(e),
                Err(_) => {
                    self.error(codes::KIND, "a step where a number is needed", span, "ends here");
                    None
                }
            },
        }
    }

    fn as_step(&mut self, n: Node) -> Option<Strategy> {
        match n {
            Node::Step(s) => Some(s),
            Node::Call { name, args, .. } if name == "id" && args.is_empty() => Some(Strategy::Id),
            Node::Call { name, args, .. } if name == "fail" && args.len() <= 1 => {
                let why = match args.first().map(|a| &a.value) {
                    Some(ArgValue::Expr(Expr::Value(Value::Str(s)))) => s.clone(),
                    _ => "asked to fail".to_string(),
                };
                Some(Strategy::Fail(why))
            }
            Node::Call { name, args, span } => Some(Strategy::Call { name, args, span: Some(span) }),
            Node::Expr(Expr::Name(name)) => {
                Some(Strategy::Call { name, args: Vec::new(), span: Some(self.last_span()) })
            }
            // `not p` reads as arithmetic too.
            Node::Expr(e @ Expr::Unary(UnOp::Not, _)) => {
                let span = Some(self.last_span());
                ArgValue::Expr(e).as_strategy(span)
            }
            Node::Expr(_) => {
                let span = self.last_span();
                self.error(codes::KIND, "arithmetic where a step is needed", span, "ends here");
                self.help("steps are calls like `split(i, 8)`, joined with `;`");
                None
            }
        }
    }
}

/// A call as arithmetic, if its arguments allow it.
fn expression(n: Node) -> Result<Expr, Strategy> {
    match n {
        Node::Expr(e) => Ok(e),
        Node::Step(s) => Err(s),
        Node::Call { name, args, .. } if args.is_empty() => Ok(Expr::Name(name)),
        Node::Call { name, args, span } => {
            let all = args.iter().all(|a| a.name.is_none() && matches!(a.value, ArgValue::Expr(_)));
            if !all {
                return Err(Strategy::Call { name, args, span: Some(span) });
            }
            let exprs = args.into_iter().filter_map(|a| match a.value {
                ArgValue::Expr(e) => Some(e),
                ArgValue::Strategy(_) => None,
            });
            Ok(Expr::Call(name, exprs.collect()))
        }
    }
}
