//! The one reader of strategies: of files, options, libraries, and stored evidence.
//!
//! Steps and arithmetic share one ladder of precedence (`if`, `<+`, `;`, `@`, then arithmetic); what a node is gets
//! decided when both sides are known, so nothing is read twice.

use crate::codes;
use crate::syntax::{ArgValue, Argument, Definition, Strategy};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_space::parse::{FORM, literal, negative, operation, path};
use lathe_space::{BinOp, Expr, ParamType, Parameter, Range, UnOp, Value};
use lathe_syntax::{Cursor, Dialect, EXPRESSIONS, Expressions, KERNELS, Read, Rules, SOURCE, Tok, read_all};

/// What `;;` goes through.
pub const NORMALIZE: &str = "normalForm";

/// Steps, e.g. `split(4) @ innermost(appliedReduce) ; try(unroll)`.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_strategy(text: &str) -> Read<Strategy> {
    read(&EXPRESSIONS, text, |p| p.steps())
}

/// The steps of a file, places and comments included.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_steps(file: FileId, text: &str) -> Read<Strategy> {
    read_all(&SOURCE, &KERNELS, (file, text), |cursor| Parser { cursor, placed: true }.steps())
}

/// Definitions `strategy name(params) = steps`, one after the other; `#` begins a comment.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_definitions(text: &str) -> Read<Vec<Definition>> {
    let dialect = Dialect { comments: true, ..EXPRESSIONS };
    read(&dialect, text, |p| {
        let mut out = Vec::new();
        while !p.ended() {
            out.push(p.definition()?.definition);
        }
        Ok(out)
    })
}

/// `16`, `i.o`, `at: k.o`, or a step.
///
/// # Errors
/// The first thing that is wrong.
pub fn parse_argument(text: &str) -> Read<Argument> {
    read(&EXPRESSIONS, text, |p| p.argument())
}

/// A definition of a file, with the places of its name and of its target.
#[derive(Clone, Debug)]
pub struct Written {
    pub definition: Definition,
    pub name: Span,
    pub target: Option<Span>,
}

/// The definition that begins at a cursor: `strategy NAME(params [where c, …]) [for TARGET] = steps`.
///
/// # Errors
/// The first thing that is wrong.
pub fn definition(cursor: &mut Cursor) -> Read<Written> {
    cursor.operators = 0;
    Parser { cursor, placed: true }.definition()
}

fn read<T>(dialect: &Dialect, text: &str, rule: impl FnOnce(&mut Parser) -> Read<T>) -> Read<T> {
    let file = (FileId(0), text);
    let read = read_all(dialect, &FORM, file, |cursor| rule(&mut Parser { cursor, placed: false }));
    // Places in a text that no map of sources has mean nothing.
    read.map_err(|d| {
        let line = d.marks.first().and_then(|m| text[..m.span.start as usize].lines().last()).unwrap_or(text);
        Diagnostic { marks: Vec::new(), ..d }.note(format!("after `{}`", line.trim()))
    })
}

/// A step or an arithmetic expression; a call may still be either.
enum Node {
    Expr(Expr),
    Call { name: String, args: Vec<Argument>, span: Option<Span> },
    Step(Strategy),
}

struct Parser<'c, 'a> {
    cursor: &'c mut Cursor<'a>,
    /// Whether places in the text are places in a file.
    placed: bool,
}

lathe_syntax::parser!(<'a> Parser<'_, 'a>);

impl Parser<'_, '_> {
    fn place(&self, span: Span) -> Option<Span> {
        self.placed.then_some(span)
    }

    fn definition(&mut self) -> Read<Written> {
        let start = self.expect("strategy")?;
        let name_span = self.span();
        let name = self.name("the strategy's name")?.to_string();
        let (mut params, mut constraints) = (Vec::new(), Vec::new());
        if self.is("(") {
            (params, constraints) = self.inside("(", ")", Self::params)?;
        }
        let (mut target, mut target_span) = (None, None);
        if self.take("for") {
            target_span = Some(self.span());
            target = Some(self.name("the kernel's name")?.to_string());
        }
        self.expect("=")?;
        let body = self.steps()?;
        let span = self.place(self.since(start));
        let definition = Definition { name, params, constraints, target, body, span };
        Ok(Written { definition, name: name_span, target: target_span })
    }

    fn params(&mut self) -> Read<(Vec<Parameter>, Vec<Expr>)> {
        let mut params = Vec::new();
        while !self.is(")") && !self.is("where") {
            params.push(self.param()?);
            if !self.take(",") {
                break;
            }
        }
        let constraints = if self.take("where") { self.commas(")", Self::condition)? } else { Vec::new() };
        Ok((params, constraints))
    }

    /// `name [':' type] ['=' default] ['in' lo..=hi [step s] | 'in' {v, …}]`
    fn param(&mut self) -> Read<Parameter> {
        let wrong = |text: String, span, mark| Diagnostic::error(codes::PARAMETER, text).at(span, mark);
        let name_span = self.span();
        let name = self.name("a parameter's name")?.to_string();
        let mut ty = None;
        if self.take(":") {
            let span = self.span();
            ty = Some(match self.name("a parameter's type")? {
                "bool" => ParamType::Bool,
                "int" => ParamType::Int,
                "float" => ParamType::Float,
                "str" => ParamType::Str,
                other => {
                    let text = format!("parameters cannot have the type `{other}`");
                    let help = "the types of parameters are `bool`, `int`, `float` and `str`";
                    return Err(wrong(text, span, "unknown here").help(help));
                }
            });
        }
        let default = if self.take("=") { Some(self.amount()?) } else { None };
        let range = if self.take("in") { Some(self.range()?) } else { None };
        if range.is_some() && default.is_none() {
            let text = format!("the parameter `{name}` has a range but no default");
            let help = format!("give one: `{name} = 16 in …`");
            return Err(wrong(text, name_span, "no default").help(help));
        }
        let ty = ty.unwrap_or(match &default {
            Some(Expr::Value(Value::Bool(_))) => ParamType::Bool,
            Some(Expr::Value(Value::Float(_))) => ParamType::Float,
            Some(Expr::Value(Value::Str(_))) => ParamType::Str,
            _ => ParamType::Int,
        });
        Ok(Parameter { name, ty, default, range })
    }

    fn range(&mut self) -> Read<Range> {
        if self.is("{") {
            return Ok(Range::Set(self.listed("{", "}", Self::value)?));
        }
        let lo = self.amount()?;
        if self.is("..") {
            let text = "ranges of parameters include their end";
            let d = self.error(codes::PARAMETER, text, self.span(), "half-open");
            return Err(d.help("write `lo..=hi`"));
        }
        self.expect("..=")?;
        let hi = self.amount()?;
        let step = if self.take("step") { Some(self.amount()?) } else { None };
        Ok(Range::Interval { lo, hi, step })
    }

    /// A constant of a set.
    fn value(&mut self) -> Read<Value> {
        if let Tok::Name(n) = self.peek() {
            self.advance();
            return Ok(Value::Str(n.to_string()));
        }
        let signed = if self.is("-") { negative(self)? } else { literal(self, false)? };
        match signed {
            Some(Expr::Value(v)) => Ok(v),
            _ => self.expected("a constant"),
        }
    }

    fn steps(&mut self) -> Read<Strategy> {
        let node = self.node()?;
        self.as_step(node)
    }

    fn condition(&mut self) -> Read<Expr> {
        let node = self.expr()?;
        self.as_expr(node)
    }

    /// Arithmetic without comparisons.
    fn amount(&mut self) -> Read<Expr> {
        let node = self.sum()?;
        self.as_expr(node)
    }

    fn node(&mut self) -> Read<Node> {
        let start = self.span();
        if !self.take("if") {
            return self.choice();
        }
        let cond = self.condition()?;
        self.expect("then")?;
        let then = Box::new(self.deeper(Self::steps)?);
        self.expect("else")?;
        let other = Box::new(self.deeper(Self::steps)?);
        let span = self.place(self.since(start));
        Ok(Node::Step(Strategy::If { cond, then, other, span }))
    }

    /// `a <+ b <+ c`
    fn choice(&mut self) -> Read<Node> {
        let first = self.sequence()?;
        if !self.is("<+") {
            return Ok(first);
        }
        let mut all = vec![self.as_step(first)?];
        while self.take("<+") {
            let next = self.sequence()?;
            all.push(self.as_step(next)?);
        }
        Ok(Node::Step(Strategy::Choice(all)))
    }

    /// `a ; b ;; c`
    fn sequence(&mut self) -> Read<Node> {
        let first = self.located()?;
        if !self.is(";") && !self.is(";;") {
            return Ok(first);
        }
        let mut all = vec![self.as_step(first)?];
        loop {
            // `a ;; b` normalizes between.
            let span = self.place(self.span());
            if self.take(";;") {
                all.push(Strategy::Call { name: NORMALIZE.to_string(), args: Vec::new(), span });
            } else if !self.take(";") {
                return Ok(Node::Step(Strategy::Seq(all)));
            }
            let next = self.located()?;
            all.push(self.as_step(next)?);
        }
    }

    /// `step @ location`
    fn located(&mut self) -> Read<Node> {
        let mut node = self.expr()?;
        let mut places = 0;
        while self.take("@") {
            places += 1;
            if places > self.grammar.depth {
                let text = "this nests too deeply";
                return Err(self.error(self.grammar.nesting, text, self.span(), "too many locations"));
            }
            let step = self.as_step(node)?;
            let place = self.expr()?;
            let place = self.as_step(place)?;
            node = Node::Step(Strategy::At(Box::new(step), Box::new(place)));
        }
        Ok(node)
    }

    /// `16`, `i.o`, `j.i: 16`, `at: k.o`, or a step
    fn argument(&mut self) -> Read<Argument> {
        let start = self.span();
        let mut node = self.node()?;
        let mut name = None;
        if self.is(":") {
            match node {
                Node::Call { name: n, args, .. } if args.is_empty() => name = Some(n),
                Node::Expr(Expr::Name(n)) => name = Some(n),
                _ => return self.expected("`,` or `)`"),
            }
            self.advance();
            node = self.node()?;
        }
        let value = expression(node).map_or_else(|s| ArgValue::Strategy(Box::new(s)), ArgValue::Expr);
        Ok(Argument { name, value, span: self.place(self.since(start)) })
    }

    fn as_expr(&mut self, n: Node) -> Read<Expr> {
        expression(n).map_err(|_| {
            self.error(codes::KIND, "expected a number, found a step", self.last_span(), "ends here")
        })
    }

    fn as_step(&mut self, n: Node) -> Read<Strategy> {
        let span = self.place(self.last_span());
        match n {
            Node::Step(s) => Ok(s),
            Node::Call { name, args, .. } if name == "id" && args.is_empty() => Ok(Strategy::Id),
            Node::Call { name, args, .. } if name == "fail" && args.len() <= 1 => {
                Ok(Strategy::Fail(match args.first().map(|a| &a.value) {
                    Some(ArgValue::Expr(Expr::Value(Value::Str(s)))) => s.clone(),
                    _ => "asked to fail".to_string(),
                }))
            }
            Node::Call { name, args, span } => Ok(Strategy::Call { name, args, span }),
            // A name, or `not p`, which reads as arithmetic too.
            Node::Expr(e @ (Expr::Name(_) | Expr::Unary(UnOp::Not, _))) => {
                let step = ArgValue::Expr(e).as_strategy(span);
                step.map_or_else(|| self.expected("a step"), Ok)
            }
            Node::Expr(_) => {
                let text = "expected a step, found arithmetic";
                let d = self.error(codes::KIND, text, self.last_span(), "ends here");
                Err(d.help("steps are calls like `split(i, 8)`, joined with `;`"))
            }
        }
    }
}

/// A node as arithmetic, if its arguments allow it.
fn expression(n: Node) -> Result<Expr, Strategy> {
    match n {
        Node::Expr(e) => Ok(e),
        Node::Step(s) => Err(s),
        Node::Call { name, args, .. } if args.is_empty() => Ok(Expr::Name(name)),
        Node::Call { name, args, span } => {
            let all = args.iter().all(|a| a.name.is_none() && matches!(a.value, ArgValue::Expr(_)));
            if !all {
                return Err(Strategy::Call { name, args, span });
            }
            let exprs = args.into_iter().filter_map(|a| match a.value {
                ArgValue::Expr(e) => Some(e),
                ArgValue::Strategy(_) => None,
            });
            Ok(Expr::Call(name, exprs.collect()))
        }
    }
}

impl<'a> Expressions<'a> for Parser<'_, 'a> {
    type Expr = Node;

    fn operand(&mut self) -> Read<Node> {
        if self.is("(") {
            return self.inside("(", ")", Self::node);
        }
        if let Some(e) = literal(self, false)? {
            return Ok(Node::Expr(e));
        }
        let start = self.span();
        // `where(p)`: a test that changes nothing.
        let test = self.is("where") && self.is_at(1, "(") && self.take("where");
        let name = if test { "where" } else { self.name("a step")? }.to_string();
        if !self.is("(") {
            // A dotted name is a path, never a step.
            let dotted = self.is(".");
            let name = path(self, name)?;
            let (args, span) = (Vec::new(), self.place(self.since(start)));
            return Ok(if dotted { Node::Expr(Expr::Name(name)) } else { Node::Call { name, args, span } });
        }
        let args = self.listed("(", ")", Self::argument)?;
        let span = self.place(self.since(start));
        if args.is_empty() {
            // `name()` can only be a step.
            return Ok(Node::Step(Strategy::Call { name, args, span }));
        }
        let call = Node::Call { name, args, span };
        if !self.is(".") {
            return Ok(call);
        }
        // `copy(A).i`: a path whose first part names a statement that a step made.
        let first = self.as_expr(call)?.to_string();
        Ok(Node::Expr(Expr::Name(path(self, first)?)))
    }

    fn negative(&mut self) -> Read<Option<Node>> {
        Ok(negative(self)?.map(Node::Expr))
    }

    fn unary(&mut self, sign: UnOp, a: Node, span: Span) -> Read<Node> {
        Ok(match (sign, a) {
            // A call without arguments is a name.
            (UnOp::Not, Node::Step(Strategy::Call { name, args, .. })) if args.is_empty() => {
                Node::Expr(Expr::Unary(UnOp::Not, Box::new(Expr::Name(name))))
            }
            // `not` of a predicate, or of arithmetic.
            (UnOp::Not, Node::Step(s)) => {
                let span = self.place(span);
                let arg = Argument { name: None, value: ArgValue::Strategy(Box::new(s)), span };
                Node::Step(Strategy::Call { name: "not".to_string(), args: vec![arg], span })
            }
            (sign, a) => Node::Expr(Expr::Unary(sign, Box::new(self.as_expr(a)?))),
        })
    }

    fn binary(&mut self, op: BinOp, a: Node, b: Node, span: Span, _: usize) -> Read<Node> {
        let (a, b) = (self.as_expr(a)?, self.as_expr(b)?);
        operation(self, op, a, b, span).map(Node::Expr)
    }
}
