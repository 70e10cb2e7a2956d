//! Sketches: programs with open places, as goals of a search (Kœhler and others, "Sketch-Guided Equality
//! Saturation", section 4).
//!
//! `?` is any program; `contains(s)` one with `s` somewhere inside; `s or t` either; and an operator with
//! sketches of its first arguments, `map(s)`, `reduce(s)`, `zip(s, t)`, `s + 2`: sketches look through
//! lambdas, so that the sketch of a function is one of its body. Sizes come first: `map(32, s)` maps over
//! 32 elements, `split(4, s)` splits by 4. `anyMap` and `anyReduce` are maps and reductions of any kind.

use crate::facts::Facts;
use crate::make;
use crate::nat::Nat;
use crate::parse::parse_nat;
use crate::prim::{FoldKind, Prim};
use crate::term::Term;
use lathe_space::{BinOp, Expr, Value};
use std::fmt;

#[derive(Clone, Debug, PartialEq)]
pub enum Sketch {
    Any,
    Contains(Box<Sketch>),
    Or(Box<Sketch>, Box<Sketch>),
    /// A number that is in the program.
    Number(f64),
    /// Name, sizes, arguments.
    Op(String, Vec<Nat>, Vec<Sketch>),
}

impl Sketch {
    /// From an argument of a strategy.
    pub fn read(e: &Expr) -> Result<Sketch, String> {
        let arithmetic = |op: &BinOp| match op {
            BinOp::Add => Some("add"),
            BinOp::Sub => Some("sub"),
            BinOp::Mul => Some("mul"),
            BinOp::Div => Some("div"),
            _ => None,
        };
        match e {
            Expr::Name(n) if n == "?" || n == "_" => Ok(Sketch::Any),
            Expr::Name(n) => Sketch::operator(n, &[]),
            Expr::Call(n, args) if n == "contains" => match args.as_slice() {
                [s] => Ok(Sketch::Contains(Box::new(Sketch::read(s)?))),
                _ => Err("`contains` takes one sketch".to_string()),
            },
            Expr::Call(n, args) => Sketch::operator(n, args),
            Expr::Binary(BinOp::Or, a, b) => {
                Ok(Sketch::Or(Box::new(Sketch::read(a)?), Box::new(Sketch::read(b)?)))
            }
            Expr::Binary(op, a, b) => match arithmetic(op) {
                Some(name) => {
                    Ok(Sketch::Op(name.to_string(), Vec::new(), vec![Sketch::read(a)?, Sketch::read(b)?]))
                }
                None => Err(format!("`{e}` is not a sketch")),
            },
            Expr::Value(Value::Int(v)) => Ok(Sketch::Number(*v as f64)),
            Expr::Value(Value::Float(v)) => Ok(Sketch::Number(*v)),
            Expr::Value(_) | Expr::Unary(..) => {
                Err(format!("`{e}` is not a sketch: `?`, `contains(s)`, `s or t`, `map(32, s)`, …"))
            }
        }
    }

    fn operator(name: &str, args: &[Expr]) -> Result<Sketch, String> {
        if name != "anyMap" && name != "anyReduce" && !is_primitive(name) {
            return Err(format!("`{name}` is not an operator"));
        }
        let sizes = args.iter().take_while(|a| is_size(a)).count();
        let nats = args[..sizes]
            .iter()
            .map(|a| parse_nat(&a.to_string()).map_err(|_| format!("`{a}` is not a size")))
            .collect::<Result<Vec<_>, _>>()?;
        let inner = args[sizes..].iter().map(Sketch::read).collect::<Result<Vec<_>, _>>()?;
        Ok(Sketch::Op(name.to_string(), nats, inner))
    }

    /// How deep operators nest.
    pub fn depth(&self) -> usize {
        match self {
            Sketch::Any | Sketch::Number(_) => 0,
            Sketch::Contains(s) => s.depth(),
            Sketch::Or(a, b) => a.depth().max(b.depth()),
            Sketch::Op(_, _, v) => 1 + v.iter().map(Sketch::depth).max().unwrap_or(0),
        }
    }

    /// With everything open below so many operators: what is asked for first.
    pub fn cut(&self, depth: usize) -> Sketch {
        match self {
            Sketch::Any | Sketch::Number(_) => self.clone(),
            Sketch::Contains(s) => match s.cut(depth) {
                Sketch::Any => Sketch::Any,
                s => Sketch::Contains(Box::new(s)),
            },
            Sketch::Or(a, b) => Sketch::Or(Box::new(a.cut(depth)), Box::new(b.cut(depth))),
            Sketch::Op(..) if depth == 0 => Sketch::Any,
            Sketch::Op(n, sizes, v) => {
                Sketch::Op(n.clone(), sizes.clone(), v.iter().map(|s| s.cut(depth - 1)).collect())
            }
        }
    }
}

/// Whether the operator of a sketch is that of a node: a primitive with so many arguments.
pub fn names(name: &str, sizes: &[Nat], prim: &Term, arguments: usize, facts: &Facts) -> bool {
    let Some(p) = prim.as_prim() else { return false };
    let named = match name {
        "anyMap" => matches!(p, Prim::Map(_) | Prim::MapVec(_)),
        "anyReduce" => matches!(p, Prim::Reduce(..)),
        // The high-level one and the one in order are one reduction: splitting makes the latter of the former.
        "reduce" => matches!(p, Prim::Reduce(FoldKind::High | FoldKind::Seq, None)),
        n => p.name() == n,
    };
    if !named || arguments < p.arity() {
        return false;
    }
    let own = p.nats();
    if own.len() >= sizes.len() && !own.is_empty() {
        return sizes.iter().zip(own).all(|(s, n)| facts.same(s, n));
    }
    // The extents of the last argument.
    let mut ty = prim.ty();
    for _ in 1..p.arity() {
        ty = ty.as_fun().map_or(ty, |f| f.1);
    }
    let Some(mut data) = ty.as_fun().map(|f| f.0.clone()) else { return sizes.is_empty() };
    for s in sizes {
        match make::elements(&data) {
            Some((n, e)) if facts.same(s, &n) => data = e,
            _ => return false,
        }
    }
    true
}

/// Sizes are numbers, names in upper case, and arithmetic of them.
fn is_size(e: &Expr) -> bool {
    match e {
        Expr::Value(v) => matches!(v, Value::Int(_)),
        Expr::Name(n) => n.starts_with(|c: char| c.is_ascii_uppercase()),
        Expr::Unary(_, a) => is_size(a),
        Expr::Binary(_, a, b) => is_size(a) && is_size(b),
        Expr::Call(..) => false,
    }
}

fn is_primitive(name: &str) -> bool {
    crate::names::is_primitive(name)
}

impl fmt::Display for Sketch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Sketch::Any => f.write_str("?"),
            Sketch::Number(v) => write!(f, "{v}"),
            Sketch::Contains(s) => write!(f, "contains({s})"),
            Sketch::Or(a, b) => write!(f, "{a} or {b}"),
            Sketch::Op(n, sizes, v) => {
                f.write_str(n)?;
                if sizes.is_empty() && v.is_empty() {
                    return Ok(());
                }
                let all: Vec<String> =
                    sizes.iter().map(Nat::to_string).chain(v.iter().map(Sketch::to_string)).collect();
                write!(f, "({})", all.join(", "))
            }
        }
    }
}
