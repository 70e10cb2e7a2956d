//! Conditions over integers, truth values and words as trees over numbered slots of 64-bit integers.
//!
//! Truth values are 0 and 1, words their numbers in a [`Coder`]. Conditions that mention floats, or that are not
//! well typed, are not compiled; they are evaluated by their definition.

use super::def::SpaceDef;
use super::domain::Domain;
use crate::eval::{floor_div, power};
use crate::expr::{BinOp, Expr, UnOp, Value};
use crate::param::ParamType;
use std::collections::HashMap;

/// Numbers for the values of all parameters.
pub(crate) struct Coder {
    words: HashMap<String, i64>,
    /// Per parameter the numbers of its words and truth values.
    listed: Vec<Vec<i64>>,
}

impl Coder {
    pub fn new(domains: &[Domain]) -> Coder {
        let mut words = HashMap::new();
        let listed = domains
            .iter()
            .map(|d| match d {
                Domain::Words(values) => values
                    .iter()
                    .map(|v| match v {
                        Value::Str(s) => {
                            let next = words.len() as i64;
                            *words.entry(s.clone()).or_insert(next)
                        }
                        v => i64::from(*v == Value::Bool(true)),
                    })
                    .collect(),
                _ => Vec::new(),
            })
            .collect();
        Coder { words, listed }
    }

    /// The number of value `i` of parameter `p`, which has no floats.
    pub fn code(&self, domains: &[Domain], p: usize, i: u32) -> i64 {
        match &domains[p] {
            Domain::Range { lo, step, .. } => lo + step * i64::from(i),
            Domain::Ints { values, .. } => values[i as usize],
            Domain::Words(_) => self.listed[p][i as usize],
            Domain::Floats { .. } => 0,
        }
    }
}

#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Code {
    Const(i64),
    Slot(usize),
    Neg(Box<Code>),
    Not(Box<Code>),
    Bin(BinOp, Box<Code>, Box<Code>),
    Min(Vec<Code>),
    Max(Vec<Code>),
    Abs(Box<Code>),
    /// The first divides the second.
    Divides(Box<Code>, Box<Code>),
    CeilDiv(Box<Code>, Box<Code>),
    PowerOfTwo(Box<Code>),
    Pow(Box<Code>, Box<Code>),
}

/// The condition has no value here.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Failed;

#[derive(Clone, Copy, PartialEq)]
enum Ty {
    Int,
    Bool,
    Str,
}

/// What names are when a condition is compiled.
pub(crate) struct Names<'a> {
    pub def: &'a SpaceDef,
    pub coder: &'a Coder,
    /// The slots of parameters.
    pub slots: &'a dyn Fn(&str) -> Option<(usize, ParamType)>,
}

/// The code of a condition; `None` if it must be evaluated by its definition.
pub(crate) fn compile(e: &Expr, names: &Names) -> Option<Code> {
    match go(e, names)? {
        (code, Ty::Bool) => Some(code),
        _ => None,
    }
}

fn go(e: &Expr, names: &Names) -> Option<(Code, Ty)> {
    let constant = |v: &Value| match v {
        Value::Int(v) => Some((Code::Const(*v), Ty::Int)),
        Value::Bool(v) => Some((Code::Const(i64::from(*v)), Ty::Bool)),
        // A word that no parameter has equals none of theirs.
        Value::Str(s) => Some((Code::Const(names.coder.words.get(s).copied().unwrap_or(-1)), Ty::Str)),
        Value::Float(_) => None,
    };
    match e {
        Expr::Value(v) => constant(v),
        Expr::Name(n) => match (names.slots)(n) {
            Some((slot, ParamType::Int)) => Some((Code::Slot(slot), Ty::Int)),
            Some((slot, ParamType::Bool)) => Some((Code::Slot(slot), Ty::Bool)),
            Some((slot, ParamType::Str)) => Some((Code::Slot(slot), Ty::Str)),
            Some((_, ParamType::Float)) => None,
            None => constant(names.def.constants.get(n)?),
        },
        Expr::Unary(op, a) => match (op, go(a, names)?) {
            (UnOp::Neg, (a, Ty::Int)) => Some((fold(Code::Neg(Box::new(a))), Ty::Int)),
            (UnOp::Not, (a, Ty::Bool)) => Some((fold(Code::Not(Box::new(a))), Ty::Bool)),
            _ => None,
        },
        Expr::Binary(op, a, b) => {
            use BinOp::*;
            let ((a, ta), (b, tb)) = (go(a, names)?, go(b, names)?);
            // Two words that no parameter has look equal here.
            let lost = ta == Ty::Str && matches!((&a, &b), (Code::Const(_), Code::Const(_)));
            if ta != tb || lost {
                return None;
            }
            let ty = match (op, ta) {
                (Add | Sub | Mul | Div | FloorDiv | Mod, Ty::Int) => Ty::Int,
                (Lt | Le | Gt | Ge, Ty::Int) | (And | Or, Ty::Bool) | (Eq | Ne, _) => Ty::Bool,
                _ => return None,
            };
            Some((fold(Code::Bin(*op, Box::new(a), Box::new(b))), ty))
        }
        Expr::Call(name, args) => {
            if let Some(fact) = names.def.constants.get(&e.to_string()) {
                return constant(fact);
            }
            call(name, args, names)
        }
    }
}

fn call(name: &str, args: &[Expr], names: &Names) -> Option<(Code, Ty)> {
    let args: Vec<(Code, Ty)> = args.iter().map(|a| go(a, names)).collect::<Option<_>>()?;
    if name == "int" && args.len() == 1 && args[0].1 != Ty::Str {
        return Some((args[0].0.clone(), Ty::Int));
    }
    if args.is_empty() || args.iter().any(|a| a.1 != Ty::Int) {
        return None;
    }
    let codes: Vec<Code> = args.into_iter().map(|a| a.0).collect();
    let (code, ty) = match (name, codes.as_slice()) {
        ("min", _) => (Code::Min(codes), Ty::Int),
        ("max", _) => (Code::Max(codes), Ty::Int),
        ("abs", [a]) => (Code::Abs(Box::new(a.clone())), Ty::Int),
        ("divides", [a, b]) => (Code::Divides(Box::new(a.clone()), Box::new(b.clone())), Ty::Bool),
        ("is_multiple", [a, b]) => (Code::Divides(Box::new(b.clone()), Box::new(a.clone())), Ty::Bool),
        ("ceil_div", [a, b]) => (Code::CeilDiv(Box::new(a.clone()), Box::new(b.clone())), Ty::Int),
        ("is_power_of_two", [a]) => (Code::PowerOfTwo(Box::new(a.clone())), Ty::Bool),
        ("pow", [a, b]) => (Code::Pow(Box::new(a.clone()), Box::new(b.clone())), Ty::Int),
        _ => return None,
    };
    Some((fold(code), ty))
}

/// The value of code without slots, if it has one.
fn fold(code: Code) -> Code {
    if code.mentions(&|_| true) {
        return code;
    }
    code.run(&[]).map_or(code, Code::Const)
}

impl Code {
    /// The value for the values of the slots. The same as [`crate::eval()`] gives.
    pub fn run(&self, slots: &[i64]) -> Result<i64, Failed> {
        let some = |v: Option<i64>| v.ok_or(Failed);
        match self {
            Code::Const(v) => Ok(*v),
            Code::Slot(i) => Ok(slots[*i]),
            Code::Neg(a) => some(a.run(slots)?.checked_neg()),
            Code::Not(a) => Ok(1 - a.run(slots)?),
            Code::Bin(op @ (BinOp::And | BinOp::Or), a, b) => {
                let left = a.run(slots)?;
                if (left != 0) == (*op == BinOp::Or) { Ok(left) } else { b.run(slots) }
            }
            Code::Bin(op, a, b) => {
                let (x, y) = (a.run(slots)?, b.run(slots)?);
                match op {
                    BinOp::Add => some(x.checked_add(y)),
                    BinOp::Sub => some(x.checked_sub(y)),
                    BinOp::Mul => some(x.checked_mul(y)),
                    BinOp::Div => match x.checked_rem(y) {
                        Some(0) => some(x.checked_div(y)),
                        _ => Err(Failed),
                    },
                    BinOp::FloorDiv => some(floor_div(x, y)),
                    BinOp::Mod => some(floor_div(x, y).and_then(|q| x.checked_sub(q.checked_mul(y)?))),
                    BinOp::Eq => Ok(i64::from(x == y)),
                    BinOp::Ne => Ok(i64::from(x != y)),
                    BinOp::Lt => Ok(i64::from(x < y)),
                    BinOp::Le => Ok(i64::from(x <= y)),
                    BinOp::Gt => Ok(i64::from(x > y)),
                    BinOp::Ge | BinOp::And | BinOp::Or => Ok(i64::from(x >= y)),
                }
            }
            Code::Min(all) => best(all, slots, |v, b| v < b),
            Code::Max(all) => best(all, slots, |v, b| v > b),
            Code::Abs(a) => some(a.run(slots)?.checked_abs()),
            Code::Divides(d, v) => {
                let (d, v) = (d.run(slots)?, v.run(slots)?);
                if d == 0 { Err(Failed) } else { Ok(i64::from(v.checked_rem(d).unwrap_or(0) == 0)) }
            }
            Code::CeilDiv(a, b) => {
                let (a, b) = (a.run(slots)?, b.run(slots)?);
                some(a.checked_neg().and_then(|a| floor_div(a, b)).and_then(i64::checked_neg))
            }
            Code::PowerOfTwo(a) => {
                let v = a.run(slots)?;
                Ok(i64::from(v > 0 && (v as u64).is_power_of_two()))
            }
            Code::Pow(a, b) => power(a.run(slots)?, b.run(slots)?).map_err(|_| Failed),
        }
    }

    /// Whether a slot that `wanted` accepts occurs.
    pub fn mentions(&self, wanted: &dyn Fn(usize) -> bool) -> bool {
        match self {
            Code::Const(_) => false,
            Code::Slot(i) => wanted(*i),
            Code::Neg(a) | Code::Not(a) | Code::Abs(a) | Code::PowerOfTwo(a) => a.mentions(wanted),
            Code::Bin(_, a, b) | Code::Divides(a, b) | Code::CeilDiv(a, b) | Code::Pow(a, b) => {
                a.mentions(wanted) || b.mentions(wanted)
            }
            Code::Min(all) | Code::Max(all) => all.iter().any(|a| a.mentions(wanted)),
        }
    }
}

fn best(all: &[Code], slots: &[i64], better: fn(i64, i64) -> bool) -> Result<i64, Failed> {
    let mut best = all[0].run(slots)?;
    for c in &all[1..] {
        let v = c.run(slots)?;
        if better(v, best) {
            best = v;
        }
    }
    Ok(best)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::eval::eval;
    use crate::parse::parse;

    #[test]
    fn code_computes_what_eval_computes() {
        let def = SpaceDef::new().constant("N", Value::Int(60)).constant("vector(f32)", Value::Int(8));
        let coder = Coder::new(&[]);
        let slots = |n: &str| match n {
            "a" => Some((0, ParamType::Int)),
            "b" => Some((1, ParamType::Int)),
            "q" => Some((2, ParamType::Bool)),
            _ => None,
        };
        let names = Names { def: &def, coder: &coder, slots: &slots };
        let texts = [
            "a + b * 2 - N <= a // b",
            "a % b == 0 and q or not q and a / b == 3",
            "divides(a, N) or is_multiple(b, a)",
            "min(a, b, 3) < max(a, -b) and abs(b) >= 2",
            "ceil_div(a, b) != vector(f32) or pow(a, b) > 100",
            "is_power_of_two(a) == q",
            "int(q) + int(a) == b",
            "a * 9223372036854775807 > b",
            "q != (a < b)",
        ];
        for text in texts {
            let e = parse(text).unwrap();
            let code = compile(&e, &names).unwrap();
            for a in -4..5i64 {
                for b in -4..5i64 {
                    for q in [false, true] {
                        let env = |n: &str| match n {
                            "a" => Some(Value::Int(a)),
                            "b" => Some(Value::Int(b)),
                            "q" => Some(Value::Bool(q)),
                            n => def.constants.get(n).cloned(),
                        };
                        let fast = code.run(&[a, b, i64::from(q)]).map(|v| Value::Bool(v != 0));
                        assert_eq!(fast.ok(), eval(&e, &env).ok(), "{text} a={a} b={b} q={q}");
                    }
                }
            }
        }
        assert!(compile(&parse("a + 1").unwrap(), &names).is_none());
        assert!(compile(&parse("a < q").unwrap(), &names).is_none());
        assert!(compile(&parse("a < 1.5").unwrap(), &names).is_none());
    }
}
