//! Arguments of a rule after parameters were bound, and the checks that every rule shares.

use crate::codes;
use lathe_diagnostics::{Diagnostic, Span};
use lathe_space::{Expr, Value};
use lathe_strategy::syntax::Sort;
use lathe_strategy::{Refusal, RuleSignature};
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Arg {
    Int(i64),
    Float(f64),
    Bool(bool),
    /// A loop, label, buffer or keyword: `i.o`, `C.i`, `A`.
    Path(String),
    /// A symbolic call, e.g. a layout.
    Data(Expr),
}

impl fmt::Display for Arg {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Arg::Int(v) => write!(f, "{v}"),
            Arg::Float(v) => write!(f, "{v:?}"),
            Arg::Bool(v) => write!(f, "{v}"),
            Arg::Path(p) => f.write_str(p),
            Arg::Data(e) => write!(f, "{e}"),
        }
    }
}

impl From<&Expr> for Arg {
    fn from(e: &Expr) -> Arg {
        match e {
            Expr::Value(Value::Int(v)) => Arg::Int(*v),
            Expr::Value(Value::Float(v)) => Arg::Float(*v),
            Expr::Value(Value::Bool(v)) => Arg::Bool(*v),
            Expr::Value(Value::Str(s)) => Arg::Path(s.clone()),
            Expr::Name(n) => Arg::Path(n.clone()),
            e => Arg::Data(e.clone()),
        }
    }
}

/// Arguments in the order of the text: a name (the text before the colon, perhaps a loop's path), the
/// value, and where it was written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Args {
    pub items: Vec<(Option<String>, Arg, Option<Span>)>,
}

impl Args {
    pub fn push(&mut self, name: Option<&str>, value: Arg) {
        self.items.push((name.map(str::to_string), value, None));
    }

    /// As written, for the evidence.
    pub fn texts(&self) -> Vec<String> {
        self.items
            .iter()
            .map(|(n, v, _)| match n {
                Some(n) => format!("{n}: {v}"),
                None => v.to_string(),
            })
            .collect()
    }

    /// Arguments without a name, in order.
    pub fn positional(&self) -> impl Iterator<Item = (&Arg, Option<Span>)> {
        self.items.iter().filter(|i| i.0.is_none()).map(|i| (&i.1, i.2))
    }

    /// The argument of a name, or else the `position`-th of those without one.
    pub fn get(&self, name: &str, position: usize) -> Option<(&Arg, Option<Span>)> {
        self.named(name).or_else(|| self.positional().nth(position))
    }

    /// The argument written `name: value`.
    pub fn named(&self, name: &str) -> Option<(&Arg, Option<Span>)> {
        self.items.iter().find(|i| i.0.as_deref() == Some(name)).map(|i| (&i.1, i.2))
    }

    /// Arguments `name: value` whose name is none of `keywords`; `tile(i: 8, j: 8)` gives loops so.
    pub fn pairs<'a>(
        &'a self,
        keywords: &'a [&'a str],
    ) -> impl Iterator<Item = (&'a str, &'a Arg, Option<Span>)> {
        self.items.iter().filter_map(move |(n, v, s)| {
            let n = n.as_deref()?;
            (!keywords.contains(&n)).then_some((n, v, *s))
        })
    }

    pub fn int(&self, rule: &str, name: &str, position: usize) -> Result<i64, Refusal> {
        self.opt_int(rule, name, position)?.ok_or_else(|| missing(rule, name, "an integer"))
    }

    pub fn opt_int(&self, rule: &str, name: &str, position: usize) -> Result<Option<i64>, Refusal> {
        self.get(name, position).map(|(a, span)| as_int(rule, name, a, span)).transpose()
    }

    /// An integer of at least 1.
    pub fn positive(&self, rule: &str, name: &str, position: usize) -> Result<i64, Refusal> {
        self.opt_positive(rule, name, position)?.ok_or_else(|| missing(rule, name, "a positive integer"))
    }

    pub fn opt_positive(&self, rule: &str, name: &str, position: usize) -> Result<Option<i64>, Refusal> {
        self.get(name, position).map(|(a, span)| as_positive(rule, name, a, span)).transpose()
    }

    /// A loop, label, buffer or keyword.
    pub fn path(&self, rule: &str, name: &str, position: usize) -> Result<String, Refusal> {
        self.opt_path(rule, name, position)?.ok_or_else(|| missing(rule, name, "a name"))
    }

    pub fn opt_path(&self, rule: &str, name: &str, position: usize) -> Result<Option<String>, Refusal> {
        self.get(name, position).map(|(a, span)| as_path(rule, name, a, span)).transpose()
    }

    /// One of `words`, or none.
    pub fn opt_word(
        &self,
        rule: &str,
        name: &str,
        position: usize,
        words: &[&'static str],
    ) -> Result<Option<&'static str>, Refusal> {
        let Some((arg, span)) = self.get(name, position) else { return Ok(None) };
        let text = as_path(rule, name, arg, span)?;
        match words.iter().find(|w| **w == text) {
            Some(w) => Ok(Some(w)),
            None => Err(wrong(format!("`{name}` of `{rule}` cannot be `{text}`"), span)
                .help(format!("write one of: {}", words.join(", ")))
                .into_refusal(rule)),
        }
    }

    /// Every argument must have a formal of the signature: by name, or by position.
    pub fn check(&self, signature: &RuleSignature) -> Result<(), Refusal> {
        let rule = signature.name;
        let many = signature.formals.iter().any(|f| f.many);
        for (name, _, span) in &self.items {
            let Some(name) = name else { continue };
            if !many && !signature.formals.iter().any(|f| f.name == name) {
                return Err(wrong(format!("`{rule}` has no argument `{name}`"), *span)
                    .help(usage(signature))
                    .into_refusal(rule));
            }
        }
        let given = self.positional().count();
        if !many && given > signature.formals.len() {
            let span = self.positional().nth(signature.formals.len()).and_then(|a| a.1);
            return Err(wrong(
                format!("`{rule}` takes {} arguments, not {given}", signature.formals.len()),
                span,
            )
            .help(usage(signature))
            .into_refusal(rule));
        }
        for (position, formal) in signature.formals.iter().enumerate() {
            if !formal.optional && !formal.many && self.get(formal.name, position).is_none() {
                return Err(wrong(format!("`{rule}` needs the argument `{}`", formal.name), None)
                    .help(usage(signature))
                    .into_refusal(rule));
            }
        }
        Ok(())
    }
}

/// How a rule is written, e.g. `split(loop, factor[, outer][, inner])`.
pub fn usage(signature: &RuleSignature) -> String {
    let mut text = format!("write {}(", signature.name);
    for (i, f) in signature.formals.iter().enumerate() {
        let comma = if i > 0 { ", " } else { "" };
        let sort = match f.sort {
            Sort::Int => "integer",
            Sort::Loop => "loop",
            Sort::Label => "label",
            Sort::Buffer => "array",
            Sort::Word => "word",
            Sort::Data => "data",
        };
        let one = if f.name == sort { f.name.to_string() } else { format!("{}: {sort}", f.name) };
        match (f.optional, f.many) {
            (_, true) => text += &format!("{comma}{one}, …"),
            (true, _) => text += &format!("[{comma}{one}]"),
            _ => text += &format!("{comma}{one}"),
        }
    }
    text + ")"
}

pub fn as_int(rule: &str, name: &str, arg: &Arg, span: Option<Span>) -> Result<i64, Refusal> {
    match arg {
        Arg::Int(v) => Ok(*v),
        other => {
            let help = match other {
                Arg::Data(_) => {
                    "what sizes give is a number where they are compiled in (`--specialize -D N=1024`); \
                     for any sizes, give a number or a parameter of the strategy"
                }
                _ => "give a number or a parameter of the strategy",
            };
            let d = wrong(format!("`{name}` of `{rule}` is an integer, not `{other}`"), span);
            Err(d.help(help).into_refusal(rule))
        }
    }
}

pub fn as_positive(rule: &str, name: &str, arg: &Arg, span: Option<Span>) -> Result<i64, Refusal> {
    match as_int(rule, name, arg, span)? {
        v if v >= 1 => Ok(v),
        v => Err(wrong(format!("`{name}` of `{rule}` is at least 1, not {v}"), span).into_refusal(rule)),
    }
}

pub fn as_path(rule: &str, name: &str, arg: &Arg, span: Option<Span>) -> Result<String, Refusal> {
    match arg {
        Arg::Path(p) => Ok(p.clone()),
        // `copy(A)` is a label.
        Arg::Data(e @ Expr::Call(_, args)) if args.iter().all(|a| matches!(a, Expr::Name(_))) => {
            Ok(e.to_string())
        }
        other => {
            Err(wrong(format!("`{name}` of `{rule}` is a name, not `{other}`"), span).into_refusal(rule))
        }
    }
}

/// Turns a finished diagnostic into the refusal of a rule.
pub trait IntoRefusal {
    fn into_refusal(self, rule: &str) -> Refusal;
}

impl IntoRefusal for Diagnostic {
    fn into_refusal(self, rule: &str) -> Refusal {
        Refusal::new(rule, self)
    }
}

/// A diagnostic about an argument, marked where it was written.
pub fn wrong(message: String, span: Option<Span>) -> Diagnostic {
    let d = Diagnostic::error(codes::ARGUMENT, message);
    match span {
        Some(span) => d.at(span, "this argument"),
        None => d,
    }
}

fn missing(rule: &str, name: &str, what: &str) -> Refusal {
    Diagnostic::error(codes::ARGUMENT, format!("`{rule}` needs `{name}`: {what}")).into_refusal(rule)
}
