//! Strategies as text, both ways: what libraries of strategies are written in below the language.

use crate::codes;
use crate::syntax::{ArgValue, Argument, Definition, Strategy};
use lathe_diagnostics::Diagnostic;
use lathe_space::{Expr, ParamType, Parameter};
use std::fmt;

/// Steps, e.g. `split(4) @ innermost(appliedReduce) ; try(unroll)`.
pub fn parse_strategy(text: &str) -> Result<Strategy, Diagnostic> {
    let mut p = Parser { text, at: 0, depth: 0 };
    let s = p.choice()?;
    p.space();
    if p.at < text.len() { p.error("the end") } else { Ok(s) }
}

/// Definitions `strategy name(params) = steps`, one after the other; `#` begins a comment.
pub fn parse_definitions(text: &str) -> Result<Vec<Definition>, Diagnostic> {
    let bare: String = text.lines().map(|l| l.split('#').next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let mut out = Vec::new();
    let mut p = Parser { text: &bare, at: 0, depth: 0 };
    p.space();
    while p.at < bare.len() {
        if !p.word("strategy") {
            return p.error("`strategy`");
        }
        let name = p.name()?;
        let mut params = Vec::new();
        if p.eat("(") {
            while !p.eat(")") {
                let name = p.name()?;
                params.push(Parameter { name, ty: ParamType::Int, default: None, range: None });
                if !p.eat(",") && !p.peek(")") {
                    return p.error("`,`");
                }
            }
        }
        if !p.eat("=") {
            return p.error("`=`");
        }
        let body = p.choice()?;
        out.push(Definition { name, params, constraints: Vec::new(), target: None, body, span: None });
        p.space();
    }
    Ok(out)
}

struct Parser<'a> {
    text: &'a str,
    at: usize,
    depth: usize,
}

impl Parser<'_> {
    fn error<T>(&self, wanted: &str) -> Result<T, Diagnostic> {
        let rest: String = self.text[self.at..].chars().take(20).collect();
        let here = if rest.is_empty() { "the end".to_string() } else { format!("`{rest}`") };
        Err(Diagnostic::error(codes::CALL, format!("{wanted} is missing in a strategy, here is {here}")))
    }

    fn space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    fn peek(&mut self, s: &str) -> bool {
        self.space();
        self.text[self.at..].starts_with(s)
    }

    fn eat(&mut self, s: &str) -> bool {
        let yes = self.peek(s);
        if yes {
            self.at += s.len();
        }
        yes
    }

    fn next_word(&mut self) -> &str {
        self.space();
        let rest = &self.text[self.at..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '_' && c != '.').unwrap_or(rest.len());
        &rest[..end]
    }

    fn word(&mut self, w: &str) -> bool {
        let yes = self.next_word() == w;
        if yes {
            self.at += w.len();
        }
        yes
    }

    fn name(&mut self) -> Result<String, Diagnostic> {
        let n = self.next_word().to_string();
        if n.is_empty() || n.starts_with(|c: char| c.is_ascii_digit()) {
            return self.error("a name");
        }
        self.at += n.len();
        Ok(n)
    }

    fn choice(&mut self) -> Result<Strategy, Diagnostic> {
        self.depth += 1;
        if self.depth > 200 {
            return self.error("less nesting");
        }
        let s = if self.word("if") {
            let from = self.at;
            while !self.text[self.at..].is_empty() && self.next_word() != "then" {
                self.skip();
            }
            let cond = self.arithmetic(from, self.at)?;
            if !self.word("then") {
                return self.error("`then`");
            }
            let then = Box::new(self.choice()?);
            if !self.word("else") {
                return self.error("`else`");
            }
            let other = Box::new(self.choice()?);
            Strategy::If { cond, then, other, span: None }
        } else {
            let mut all = vec![self.sequence()?];
            while self.eat("<+") {
                all.push(self.sequence()?);
            }
            if all.len() == 1 { all.remove(0) } else { Strategy::Choice(all) }
        };
        self.depth -= 1;
        Ok(s)
    }

    /// One word or one other character.
    fn skip(&mut self) {
        let n = self.next_word().len();
        self.at += if n > 0 { n } else { self.text[self.at..].chars().next().map_or(0, char::len_utf8) };
    }

    fn arithmetic(&self, from: usize, to: usize) -> Result<Expr, Diagnostic> {
        let text = self.text[from..to].trim();
        lathe_space::parse(text)
            .map_err(|e| Diagnostic::error(codes::CALL, format!("`{text}` cannot be read: {}", e.message)))
    }

    fn sequence(&mut self) -> Result<Strategy, Diagnostic> {
        let mut all = vec![self.located()?];
        loop {
            // `a ;; b` normalizes between.
            if self.eat(";;") {
                all.push(Strategy::Call { name: "normalForm".to_string(), args: Vec::new(), span: None });
            } else if !self.eat(";") {
                return Ok(if all.len() == 1 { all.remove(0) } else { Strategy::Seq(all) });
            }
            all.push(self.located()?);
        }
    }

    fn located(&mut self) -> Result<Strategy, Diagnostic> {
        let mut s = self.atom()?;
        while self.eat("@") {
            s = Strategy::At(Box::new(s), Box::new(self.atom()?));
        }
        Ok(s)
    }

    fn atom(&mut self) -> Result<Strategy, Diagnostic> {
        if self.eat("(") {
            let s = self.choice()?;
            return if self.eat(")") { Ok(s) } else { self.error("`)`") };
        }
        let name = self.name()?;
        let mut args = Vec::new();
        if self.eat("(") {
            while !self.eat(")") {
                args.push(self.argument()?);
                if !self.eat(",") && !self.peek(")") {
                    return self.error("`,`");
                }
            }
        }
        Ok(match (name.as_str(), args.is_empty()) {
            ("id", true) => Strategy::Id,
            ("fail", true) => Strategy::Fail("`fail`".to_string()),
            _ => Strategy::Call { name, args, span: None },
        })
    }

    /// A step, or arithmetic where it reads as that; perhaps `name: value`.
    fn argument(&mut self) -> Result<Argument, Diagnostic> {
        let before = self.at;
        if let Ok(name) = self.name()
            && self.eat(":")
        {
            return Ok(Argument { name: Some(name), ..self.argument()? });
        }
        self.at = before;
        let (from, mut depth) = (self.at, 0usize);
        let rest = &self.text[from..];
        let end = rest
            .char_indices()
            .find(|(_, c)| match c {
                '(' => {
                    depth += 1;
                    false
                }
                ')' if depth > 0 => {
                    depth -= 1;
                    false
                }
                ')' => true,
                ',' => depth == 0,
                _ => false,
            })
            .map_or(rest.len(), |e| e.0);
        let text = rest[..end].trim();
        let steps = text.contains([';', '@'])
            || text.contains("<+")
            || text.starts_with("if ")
            || text.contains("not(");
        if !steps && let Ok(e) = lathe_space::parse(text) {
            self.at = from + end;
            return Ok(Argument::positional(e));
        }
        let s = self.choice()?;
        Ok(Argument { name: None, value: ArgValue::Strategy(Box::new(s)), span: None })
    }
}

/// In the notation of the language; parses back to the same strategy.
impl fmt::Display for Strategy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn level(s: &Strategy) -> u8 {
            match s {
                Strategy::If { .. } => 0,
                Strategy::Choice(_) => 1,
                Strategy::Seq(_) => 2,
                Strategy::At(..) => 3,
                _ => 4,
            }
        }
        fn child(f: &mut fmt::Formatter<'_>, s: &Strategy, at_least: u8) -> fmt::Result {
            if level(s) < at_least { write!(f, "({s})") } else { write!(f, "{s}") }
        }
        fn join(f: &mut fmt::Formatter<'_>, v: &[Strategy], sign: &str, at_least: u8) -> fmt::Result {
            for (n, s) in v.iter().enumerate() {
                if n > 0 {
                    f.write_str(sign)?;
                }
                child(f, s, at_least)?;
            }
            Ok(())
        }
        match self {
            Strategy::Id => f.write_str("id"),
            Strategy::Fail(_) => f.write_str("fail"),
            Strategy::Seq(v) if v.is_empty() => f.write_str("id"),
            Strategy::Choice(v) if v.is_empty() => f.write_str("fail"),
            Strategy::Seq(v) => join(f, v, " ; ", 3),
            Strategy::Choice(v) => join(f, v, " <+ ", 2),
            Strategy::At(s, place) => {
                child(f, s, 3)?;
                f.write_str(" @ ")?;
                child(f, place, 4)
            }
            Strategy::If { cond, then, other, .. } => write!(f, "if {cond} then {then} else {other}"),
            Strategy::Call { name, args, .. } => {
                f.write_str(name)?;
                if args.is_empty() {
                    return Ok(());
                }
                f.write_str("(")?;
                for (n, a) in args.iter().enumerate() {
                    if n > 0 {
                        f.write_str(", ")?;
                    }
                    if let Some(name) = &a.name {
                        write!(f, "{name}: ")?;
                    }
                    match &a.value {
                        ArgValue::Expr(e) => write!(f, "{e}")?,
                        ArgValue::Strategy(s) => write!(f, "{s}")?,
                    }
                }
                f.write_str(")")
            }
        }
    }
}
