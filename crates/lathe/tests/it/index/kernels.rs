//! Random kernels over index scalars and data, and what they mean: by integers of 128 bits, in which no single operation
//! on 64-bit numbers can wrap. Nothing here is shared with the compiler but the text of the kernel.

pub use crate::random::rng::Rng;
use std::fmt::{Display, Formatter, Result as Written};

pub const MAX: i64 = i64::MAX;
pub const MIN: i64 = i64::MIN;

/// Numbers around which 64-bit arithmetic turns.
const EDGES: [i64; 15] =
    [0, 0, 1, 1, -1, 2, 1 << 31, -(1 << 31), 1 << 62, -(1 << 62), MAX, MAX - 1, MAX - 3, MIN, MIN + 1];

const OPERATORS: [&str; 10] = ["+", "+", "-", "-", "*", "*", "//", "%", "min", "max"];

/// An expression of type `index`.
#[derive(Clone, Debug)]
pub enum Index {
    Number(i64),
    /// A scalar, a size or a loop variable.
    Name(String),
    /// An element of `p`.
    Data(Box<Index>),
    Op(&'static str, Box<Index>, Box<Index>),
    /// `-e`, `abs(e)`
    One(&'static str, Box<Index>),
    Select(Box<Cond>, Box<Index>, Box<Index>),
}

#[derive(Clone, Debug)]
pub enum Cond {
    Compare(&'static str, Index, Index),
    Both(&'static str, Box<Cond>, Box<Cond>),
    Not(Box<Cond>),
}

/// An expression of type `i64`, which wraps.
#[derive(Clone, Debug)]
pub enum Value {
    Of(Index),
    /// An element of `x`.
    Data(Index),
    Op(&'static str, Box<Value>, Box<Value>),
}

#[derive(Clone, Debug)]
pub enum Stmt {
    /// `y[at] op value`
    Write(Index, &'static str, Value),
    If(Cond, Vec<Stmt>, Vec<Stmt>),
    For(String, Index, Index, i64, Vec<Stmt>),
    Assume(Cond),
    /// `z[r] = value where r in 0..R`
    Each(Value),
    /// `y[at] = sum[r](value) where r in 0..R`
    Sum(Index, Value),
}

#[derive(Clone, Debug)]
pub struct Source(pub Vec<Stmt>);

/// What a call is given.
#[derive(Clone, Debug)]
pub struct Call {
    pub a: i64,
    pub b: i64,
    pub p: Vec<i64>,
    pub x: Vec<i64>,
    pub y: Vec<i64>,
    pub z: Vec<i64>,
}

/// Why there is no result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// The call must fail.
    Fails,
    /// It takes too long to be tried.
    Long,
}

impl Call {
    pub fn random(r: &mut Rng) -> Call {
        let len = |r: &mut Rng| *r.pick(&[0, 1, 2, 3, 5, 8]);
        let (n, m, k) = (len(r), len(r), len(r));
        let scalar = |r: &mut Rng| if r.one_in(2) { *r.pick(&EDGES) } else { r.below(10) as i64 - 2 };
        let array = |r: &mut Rng, n: usize| (0..n).map(|_| *r.pick(&EDGES)).collect::<Vec<_>>();
        let p = (0..k).map(|_| if r.one_in(3) { *r.pick(&EDGES) } else { r.below(8) as i64 - 1 }).collect();
        let (a, b) = (scalar(r), scalar(r));
        Call { a, b, p, x: array(r, n), y: array(r, m), z: array(r, k) }
    }

    pub fn sizes(&self) -> [(&'static str, i64); 3] {
        [("N", self.x.len() as i64), ("M", self.y.len() as i64), ("R", self.p.len() as i64)]
    }
}

impl Source {
    pub fn random(r: &mut Rng) -> Source {
        let mut maker = Maker { r, loops: Vec::new() };
        let n = 1 + maker.r.below(3);
        Source((0..n).map(|_| maker.stmt(2)).collect())
    }

    /// What `y` and `z` are afterwards.
    pub fn run(&self, call: &Call) -> Result<[Vec<i64>; 2], Stop> {
        let mut m = Meaning { call: call.clone(), loops: Vec::new(), steps: 0 };
        m.all(&self.0)?;
        Ok([m.call.y, m.call.z])
    }
}

struct Maker<'a> {
    r: &'a mut Rng,
    loops: Vec<String>,
}

impl Maker<'_> {
    fn stmt(&mut self, depth: usize) -> Stmt {
        match self.r.below(if depth == 0 { 4 } else { 9 }) {
            0..3 => {
                let op = *self.r.pick(&["=", "=", "+="]);
                Stmt::Write(self.index(2), op, self.value(1))
            }
            3 => {
                if self.loops.is_empty() {
                    let value = self.with("r".to_string(), |m| m.value(2));
                    if self.r.one_in(2) { Stmt::Each(value) } else { Stmt::Sum(self.index(1), value) }
                } else {
                    Stmt::Assume(self.cond(1))
                }
            }
            4..6 => {
                let cond = self.cond(1);
                let then = self.body(depth - 1);
                let other = if self.r.one_in(3) { self.body(depth - 1) } else { Vec::new() };
                Stmt::If(cond, then, other)
            }
            6 => Stmt::Assume(self.cond(1)),
            _ => {
                let name = format!("i{}", self.loops.len());
                let (lo, hi) = match self.r.below(4) {
                    0 => (self.index(1), self.index(1)),
                    1 => {
                        let lo = self.index(1);
                        let n = Index::Number(self.r.below(4) as i64);
                        (lo.clone(), Index::Op("+", lo.into(), n.into()))
                    }
                    2 => (Index::Number(0), Index::Name("R".into())),
                    _ => (Index::Name("a".into()), Index::Name("b".into())),
                };
                let step = *self.r.pick(&[1, 1, 1, 2, 3, 1 << 31, 1 << 62, MAX]);
                let body = self.with(name.clone(), |m| m.body(depth - 1));
                Stmt::For(name, lo, hi, step, body)
            }
        }
    }

    fn with<T>(&mut self, name: String, f: impl FnOnce(&mut Self) -> T) -> T {
        self.loops.push(name);
        let out = f(self);
        self.loops.pop();
        out
    }

    fn body(&mut self, depth: usize) -> Vec<Stmt> {
        (0..1 + self.r.below(2)).map(|_| self.stmt(depth)).collect()
    }

    fn cond(&mut self, depth: usize) -> Cond {
        match self.r.below(if depth == 0 { 3 } else { 6 }) {
            3 | 4 => {
                let op = *self.r.pick(&["and", "or"]);
                Cond::Both(op, self.cond(depth - 1).into(), self.cond(depth - 1).into())
            }
            5 => Cond::Not(self.cond(depth - 1).into()),
            _ => {
                let op = *self.r.pick(&["<", "<=", ">", ">=", "==", "!="]);
                Cond::Compare(op, self.index(1), self.index(1))
            }
        }
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.r.below(if depth == 0 { 4 } else { 6 }) {
            0..2 => Value::Of(self.index(2)),
            2..4 => Value::Data(self.index(2)),
            _ => {
                let op = *self.r.pick(&["+", "-", "*"]);
                Value::Op(op, self.value(depth - 1).into(), self.value(depth - 1).into())
            }
        }
    }

    fn index(&mut self, depth: usize) -> Index {
        match self.r.below(if depth == 0 { 7 } else { 14 }) {
            0 => Index::Number(*self.r.pick(&EDGES)),
            1 => Index::Number(self.r.below(6) as i64),
            2 => Index::Name(self.r.pick(&["a", "b"]).to_string()),
            3 => Index::Name(self.r.pick(&["N", "M", "R", "a"]).to_string()),
            4..6 if !self.loops.is_empty() => Index::Name(self.r.pick(&self.loops.clone()).clone()),
            4 | 5 => Index::Name("a".into()),
            6 if depth > 0 || !self.loops.is_empty() => {
                let at = match self.loops.first() {
                    Some(v) if self.r.below(4) > 0 => Index::Name(v.clone()),
                    _ => self.index(depth.saturating_sub(1)),
                };
                Index::Data(at.into())
            }
            6 => Index::Name("b".into()),
            7 => Index::One(self.r.pick::<&str>(&["-", "abs"]), self.index(depth - 1).into()),
            8 => {
                let (a, b) = (self.index(depth - 1), self.index(depth - 1));
                Index::Select(self.cond(0).into(), a.into(), b.into())
            }
            _ => Index::Op(
                self.r.pick::<&str>(&OPERATORS),
                self.index(depth - 1).into(),
                self.index(depth - 1).into(),
            ),
        }
    }
}

struct Meaning {
    call: Call,
    loops: Vec<(String, i64)>,
    steps: usize,
}

fn fit(v: Option<i128>) -> Result<i64, Stop> {
    v.and_then(|v| i64::try_from(v).ok()).ok_or(Stop::Fails)
}

fn floor(a: i128, b: i128) -> Option<i128> {
    let q = a.checked_div(b)?;
    Some(if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q })
}

impl Meaning {
    fn index(&self, e: &Index) -> Result<i64, Stop> {
        match e {
            Index::Number(v) => Ok(*v),
            Index::Name(n) => Ok(match n.as_str() {
                "a" => self.call.a,
                "b" => self.call.b,
                "N" => self.call.x.len() as i64,
                "M" => self.call.y.len() as i64,
                "R" => self.call.p.len() as i64,
                n => self.loops.iter().rev().find(|l| l.0 == n).expect("a loop").1,
            }),
            Index::Data(at) => element(&self.call.p, self.index(at)?),
            Index::One(op, e) => {
                let v = i128::from(self.index(e)?);
                fit(Some(if *op == "-" { -v } else { v.abs() }))
            }
            Index::Op(op, a, b) => {
                let (a, b) = (i128::from(self.index(a)?), i128::from(self.index(b)?));
                fit(match *op {
                    "+" => Some(a + b),
                    "-" => Some(a - b),
                    "*" => Some(a * b),
                    "//" => floor(a, b),
                    "%" => floor(a, b).map(|q| a - b * q),
                    "min" => Some(a.min(b)),
                    _ => Some(a.max(b)),
                })
            }
            Index::Select(c, a, b) => self.index(if self.cond(c)? { a } else { b }),
        }
    }

    fn cond(&self, c: &Cond) -> Result<bool, Stop> {
        Ok(match c {
            Cond::Compare(op, a, b) => {
                let (a, b) = (self.index(a)?, self.index(b)?);
                match *op {
                    "<" => a < b,
                    "<=" => a <= b,
                    ">" => a > b,
                    ">=" => a >= b,
                    "==" => a == b,
                    _ => a != b,
                }
            }
            // Both sides are evaluated.
            Cond::Both(op, a, b) => {
                let (a, b) = (self.cond(a)?, self.cond(b)?);
                if *op == "and" { a && b } else { a || b }
            }
            Cond::Not(a) => !self.cond(a)?,
        })
    }

    fn value(&self, v: &Value) -> Result<i64, Stop> {
        Ok(match v {
            Value::Of(e) => self.index(e)?,
            Value::Data(at) => element(&self.call.x, self.index(at)?)?,
            Value::Op(op, a, b) => {
                let (a, b) = (i128::from(self.value(a)?), i128::from(self.value(b)?));
                (match *op {
                    "+" => a + b,
                    "-" => a - b,
                    _ => a * b,
                }) as i64
            }
        })
    }

    fn all(&mut self, list: &[Stmt]) -> Result<(), Stop> {
        list.iter().try_for_each(|s| self.stmt(s))
    }

    fn stmt(&mut self, s: &Stmt) -> Result<(), Stop> {
        self.steps += 1;
        if self.steps > 400 {
            return Err(Stop::Long);
        }
        match s {
            Stmt::Write(at, op, v) => {
                let (at, v) = (self.index(at)?, self.value(v)?);
                let old = element(&self.call.y, at)?;
                self.call.y[at as usize] =
                    if *op == "=" { v } else { (i128::from(old) + i128::from(v)) as i64 };
            }
            Stmt::If(c, then, other) => {
                let list = if self.cond(c)? { then } else { other };
                self.all(list)?;
            }
            Stmt::For(name, lo, hi, step, body) => {
                let (lo, hi) = (i128::from(self.index(lo)?), i128::from(self.index(hi)?));
                let mut i = lo;
                while i < hi {
                    self.loops.push((name.clone(), i as i64));
                    self.all(body)?;
                    self.loops.pop();
                    self.steps += 1;
                    if self.steps > 400 {
                        return Err(Stop::Long);
                    }
                    i += i128::from(*step);
                }
            }
            Stmt::Assume(c) => {
                if !self.cond(c)? {
                    return Err(Stop::Fails);
                }
            }
            Stmt::Each(v) => {
                for r in 0..self.call.p.len() {
                    self.call.z[r] = self.at(r, v)?;
                }
            }
            Stmt::Sum(at, v) => {
                let mut sum = 0i128;
                for r in 0..self.call.p.len() {
                    sum += i128::from(self.at(r, v)?);
                }
                let at = self.index(at)?;
                element(&self.call.y, at)?;
                self.call.y[at as usize] = sum as i64;
            }
        }
        Ok(())
    }

    fn at(&mut self, r: usize, v: &Value) -> Result<i64, Stop> {
        self.loops.push(("r".to_string(), r as i64));
        let out = self.value(v);
        self.loops.pop();
        out
    }
}

fn element(of: &[i64], at: i64) -> Result<i64, Stop> {
    usize::try_from(at).ok().and_then(|at| of.get(at)).copied().ok_or(Stop::Fails)
}

fn number(v: i64) -> String {
    match v {
        // There is no literal of 2^63.
        MIN => format!("(-{MAX} - 1)"),
        v if v < 0 => format!("({v})"),
        v => v.to_string(),
    }
}

impl Index {
    fn is_made_of_literals(&self) -> bool {
        match self {
            Index::Number(_) => true,
            Index::Name(_) | Index::Data(_) => false,
            Index::Op(_, a, b) | Index::Select(_, a, b) => a.is_made_of_literals() && b.is_made_of_literals(),
            Index::One(_, e) => e.is_made_of_literals(),
        }
    }
}

impl Display for Index {
    fn fmt(&self, f: &mut Formatter) -> Written {
        match self {
            Index::Number(v) => f.write_str(&number(*v)),
            Index::Name(n) => f.write_str(n),
            Index::Data(at) => write!(f, "p[{at}]"),
            Index::One("-", e) => write!(f, "(-{e})"),
            Index::One(op, e) => write!(f, "{op}({e})"),
            Index::Op(op @ ("min" | "max"), a, b) => write!(f, "{op}({a}, {b})"),
            Index::Op(op, a, b) => write!(f, "({a} {op} {b})"),
            Index::Select(c, a, b) => write!(f, "select({c}, {a}, {b})"),
        }
    }
}

impl Display for Cond {
    fn fmt(&self, f: &mut Formatter) -> Written {
        match self {
            Cond::Compare(op, a, b) => write!(f, "{a} {op} {b}"),
            Cond::Both(op, a, b) => write!(f, "(({a}) {op} ({b}))"),
            Cond::Not(a) => write!(f, "(not ({a}))"),
        }
    }
}

impl Display for Value {
    fn fmt(&self, f: &mut Formatter) -> Written {
        match self {
            // Literals alone have the type that is asked of them.
            Value::Of(e) if e.is_made_of_literals() => write!(f, "i64(index({e}))"),
            Value::Of(e) => write!(f, "i64({e})"),
            Value::Data(at) => write!(f, "x[{at}]"),
            Value::Op(op, a, b) => write!(f, "({a} {op} {b})"),
        }
    }
}

fn block(f: &mut Formatter, list: &[Stmt], indent: usize) -> Written {
    let pad = " ".repeat(4 * indent);
    for s in list {
        match s {
            Stmt::Write(at, op, v) => writeln!(f, "{pad}y[{at}] {op} {v}")?,
            Stmt::If(c, then, other) => {
                writeln!(f, "{pad}if {c} {{")?;
                block(f, then, indent + 1)?;
                if !other.is_empty() {
                    writeln!(f, "{pad}}} else {{")?;
                    block(f, other, indent + 1)?;
                }
                writeln!(f, "{pad}}}")?;
            }
            Stmt::For(name, lo, hi, step, body) => {
                let step = if *step == 1 { String::new() } else { format!(" step {step}") };
                writeln!(f, "{pad}for {name} in {lo}..{hi}{step} {{")?;
                block(f, body, indent + 1)?;
                writeln!(f, "{pad}}}")?;
            }
            Stmt::Assume(c) => writeln!(f, "{pad}assume({c})")?,
            Stmt::Each(v) => writeln!(f, "{pad}z[r] = {v} where r in 0..R")?,
            Stmt::Sum(at, v) => writeln!(f, "{pad}y[{at}] = sum[r]({v}) where r in 0..R")?,
        }
    }
    Ok(())
}

impl Display for Source {
    fn fmt(&self, f: &mut Formatter) -> Written {
        let params = "x: i64[N], p: index[R], y: inout i64[M], z: inout i64[R], a: index, b: index";
        writeln!(f, "kernel k({params}) {{")?;
        block(f, &self.0, 1)?;
        writeln!(f, "}}")
    }
}
