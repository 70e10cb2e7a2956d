//! What a program to be tuned says about its tuning, whatever the notation.

use super::expression::{Dialect, Reader, Scope};
use crate::eval::eval;
use crate::expr::{Expr, Value};
use crate::parse::ParseError;
use crate::space::SpaceDef;

/// A space and how the program is compiled, run and searched. Paths are as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct TuningProgram {
    pub space: SpaceDef,
    /// The file in which names of parameters are replaced by values.
    pub program_source: Option<String>,
    pub compile_script: Option<Script>,
    pub run_script: Option<Script>,
    /// Where the program writes its cost, or several separated by commas.
    pub cost_file: Option<String>,
    /// The name of a technique, as written.
    pub search_technique: Option<String>,
    pub abort_condition: Option<AbortCondition>,
    /// Kernels for OpenCL or CUDA, kept as data.
    pub kernel: Option<Kernel>,
}

/// What is run: a path to a script, or a command.
#[derive(Clone, Debug, PartialEq)]
pub enum Script {
    /// A path, or text for the shell.
    Shell(String),
    /// A program and its arguments, which no shell reads.
    List(Vec<String>),
}

impl Script {
    /// What may be names of files in it.
    pub fn words(&self) -> Vec<String> {
        match self {
            // A path may have spaces.
            Script::Shell(text) => {
                let parts = text.split(|c: char| c.is_whitespace() || "\"'`;|&<>()".contains(c));
                let parts = parts.filter(|w| !w.is_empty());
                std::iter::once(text.as_str()).chain(parts).map(str::to_string).collect()
            }
            Script::List(words) => words.clone(),
        }
    }
}

impl From<&str> for Script {
    fn from(text: &str) -> Script {
        Script::Shell(text.to_string())
    }
}

impl From<String> for Script {
    fn from(text: String) -> Script {
        Script::Shell(text)
    }
}

/// When a search stops.
#[derive(Clone, Debug, PartialEq)]
pub enum AbortCondition {
    /// `duration<unit>(t)`, in seconds.
    Duration(f64),
    /// `evaluations(n)`.
    Evaluations(u64),
    /// `fraction(f)` of the size of the space, from 0 to 1.
    Fraction(f64),
    /// `cost(c)`: a cost of at most `c` was found.
    Cost(f64),
    /// `speedup<unit>(s, t)`: the last `seconds` did not lower the cost by a factor of at least `factor`.
    SpeedupTime {
        factor: f64,
        seconds: f64,
    },
    /// `speedup(s, n)`: the last `evaluations` did not lower the cost by a factor of at least `factor`.
    SpeedupCount {
        factor: f64,
        evaluations: u64,
    },
    And(Box<AbortCondition>, Box<AbortCondition>),
    Or(Box<AbortCondition>, Box<AbortCondition>),
}

/// What directives say about a kernel.
#[derive(Clone, Debug, PartialEq)]
pub struct Kernel {
    pub api: Api,
    /// Name or number.
    pub platform: Option<String>,
    /// Name or number.
    pub device: Option<String>,
    /// The function, where the source has several.
    pub name: Option<String>,
    pub inputs: Vec<Input>,
    /// Global size (OpenCL) or grid (CUDA), one to three expressions over parameters and constants.
    pub global_size: Vec<Expr>,
    /// Local size (OpenCL) or block (CUDA).
    pub local_size: Vec<Expr>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Api {
    OpenCl,
    Cuda,
}

/// An argument of a kernel; `ty` as written, for example `float`.
#[derive(Clone, Debug, PartialEq)]
pub enum Input {
    /// Random without a value.
    Scalar { ty: String, value: Option<Expr> },
    /// Filled at random.
    Buffer { ty: String, size: Expr },
    /// One value per line of a text file.
    BufferFile { ty: String, path: String },
}

/// An abort condition; numbers may be expressions over constants, which `constants` knows.
pub(crate) fn abort_condition(
    text: &str,
    scope: &Scope,
    constants: &dyn Fn(&str) -> Option<Value>,
) -> Result<AbortCondition, ParseError> {
    let mut r = Reader::new(text, Dialect::Cpp, scope);
    let c = either(&mut r, constants, 0)?;
    r.end()?;
    Ok(c)
}

type Constants<'a> = &'a dyn Fn(&str) -> Option<Value>;

fn either(r: &mut Reader, constants: Constants, depth: u32) -> Result<AbortCondition, ParseError> {
    let mut left = both(r, constants, depth)?;
    while r.eat("||") || r.eat_word("or") {
        left = AbortCondition::Or(Box::new(left), Box::new(both(r, constants, depth)?));
    }
    Ok(left)
}

fn both(r: &mut Reader, constants: Constants, depth: u32) -> Result<AbortCondition, ParseError> {
    let mut left = one(r, constants, depth)?;
    while r.eat("&&") || r.eat_word("and") {
        left = AbortCondition::And(Box::new(left), Box::new(one(r, constants, depth)?));
    }
    Ok(left)
}

fn one(r: &mut Reader, constants: Constants, depth: u32) -> Result<AbortCondition, ParseError> {
    if depth > 100 {
        return r.error("nested too deeply");
    }
    if r.eat("(") {
        let inner = either(r, constants, depth + 1)?;
        r.expect(")")?;
        return Ok(inner);
    }
    r.eat_word("atf");
    r.eat("::");
    let start = r.at;
    let word = r.peek_word();
    r.at += word.len();
    let unit = if r.eat("<") {
        let Some(end) = r.rest().find('>') else { return r.error("expected `>`") };
        let name = r.rest()[..end].trim();
        let Some(seconds) = unit(name) else {
            return r.error(format!("unknown unit of time `{name}`"));
        };
        r.at += end + 1;
        Some(seconds)
    } else {
        None
    };
    r.expect("(")?;
    let numbers_at = r.at;
    let numbers: Vec<f64> = {
        let values = r.list(")")?;
        let number = |e: &Expr| match eval(e, constants) {
            Ok(Value::Int(v)) => Some(v as f64),
            Ok(Value::Float(v)) => Some(v),
            _ => None,
        };
        match values.iter().map(|v| number(&v.e)).collect::<Option<_>>() {
            Some(all) => all,
            None => {
                r.at = numbers_at;
                return r.error("expected numbers");
            }
        }
    };
    let count = |v: f64| ((1.0..=9e15).contains(&v) && v.fract() == 0.0).then_some(v as u64);
    let positive = |v: f64| v > 0.0 && v.is_finite();
    let made = match (word, unit, numbers.as_slice()) {
        ("duration", u, [t]) if positive(*t) => Some(AbortCondition::Duration(t * u.unwrap_or(1.0))),
        ("evaluations", None, [n]) => count(*n).map(AbortCondition::Evaluations),
        ("fraction", None, [f]) if (0.0..=1.0).contains(f) => Some(AbortCondition::Fraction(*f)),
        ("cost", None, [c]) if !c.is_nan() => Some(AbortCondition::Cost(*c)),
        ("speedup", Some(u), [s, t]) if positive(*s) && positive(*t) => {
            Some(AbortCondition::SpeedupTime { factor: *s, seconds: t * u })
        }
        ("speedup", None, [s, n]) if positive(*s) => {
            count(*n).map(|n| AbortCondition::SpeedupCount { factor: *s, evaluations: n })
        }
        _ => None,
    };
    match made {
        Some(c) => Ok(c),
        None => {
            r.at = start;
            r.error(
                "expected `duration<minutes>(t)`, `evaluations(n)`, `fraction(f)`, `cost(c)`, \
                 `speedup<minutes>(s, t)` or `speedup(s, n)` with positive numbers",
            )
        }
    }
}

/// Seconds of a unit.
fn unit(name: &str) -> Option<f64> {
    Some(match name.rsplit("::").next().unwrap_or(name) {
        "nanoseconds" | "ns" => 1e-9,
        "microseconds" | "us" => 1e-6,
        "milliseconds" | "ms" => 1e-3,
        "seconds" | "s" => 1.0,
        "minutes" | "min" => 60.0,
        "hours" | "h" => 3600.0,
        "days" => 86_400.0,
        _ => return None,
    })
}

/// As text that reads back.
impl std::fmt::Display for AbortCondition {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        use AbortCondition::*;
        match self {
            Duration(s) => write!(f, "duration<seconds>({s:?})"),
            Evaluations(n) => write!(f, "evaluations({n})"),
            Fraction(x) => write!(f, "fraction({x:?})"),
            Cost(c) => write!(f, "cost({c:?})"),
            SpeedupTime { factor, seconds } => write!(f, "speedup<seconds>({factor:?}, {seconds:?})"),
            SpeedupCount { factor, evaluations } => write!(f, "speedup({factor:?}, {evaluations})"),
            And(a, b) => {
                let side = |c: &AbortCondition| {
                    if matches!(c, Or(..)) { format!("({c})") } else { c.to_string() }
                };
                write!(f, "{} && {}", side(a), side(b))
            }
            Or(a, b) => write!(f, "{a} || {b}"),
        }
    }
}
