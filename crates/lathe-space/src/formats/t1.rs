//! The T1 format of the auto-tuning community: a space with conditions in Python, and a kernel.

use super::expression::{Dialect, Reader, Scope, constraint, expression};
use super::json::{invalid, scalar, unscalar};
use super::range::common_type;
use super::typed::Typed;
use crate::codes;
use crate::eval::eval;
use crate::expr::{BinOp, Expr, UnOp, Value};
use crate::param::ParamType;
use crate::parse::ParseError;
use crate::space::{Constraint, Generate, Space, SpaceDef, TuningParameter, ValueRange};
use lathe_diagnostics::{Diagnostic, FileId};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;

/// A T1 file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct T1 {
    pub space: SpaceDef,
    /// Everything else, as it was: `General`, `KernelSpecification`, …
    pub rest: Map<String, Json>,
}

/// Reads a T1 file. Each condition goes to the last declared parameter that it mentions.
pub fn parse(text: &str, file: FileId) -> Result<T1, Diagnostic> {
    let json: Json = serde_json::from_str(text).map_err(|e| invalid(text, file, &e))?;
    let Json::Object(mut rest) = json else { return Err(error("the file is not an object".into())) };
    let Some(space) = rest.remove("ConfigurationSpace") else {
        return Err(error("there is no `ConfigurationSpace`".into()));
    };
    let Some(params) = space.get("TuningParameters").and_then(Json::as_array) else {
        return Err(error("`ConfigurationSpace` has no array `TuningParameters`".into()));
    };
    let mut def = SpaceDef::new();
    for (i, p) in params.iter().enumerate() {
        def.params.push(parameter(p, i)?);
    }
    let types: HashMap<String, ParamType> = def.params.iter().map(|p| (p.name.clone(), p.ty)).collect();
    let conditions = space.get("Conditions").and_then(Json::as_array).map_or(&[][..], Vec::as_slice);
    for c in conditions {
        let Some(text) = c.get("Expression").or(Some(c)).and_then(Json::as_str) else {
            return Err(error("a condition has no `Expression`".into()));
        };
        let scope = Scope { own: "", types: &types, args: &[] };
        let read = constraint(text, Dialect::Python, &scope).map_err(|e| within("condition", text, &e))?;
        let names = read.names("");
        let last = def.params.iter().rposition(|p| names.contains(&p.name)).unwrap_or(0);
        match def.params.get_mut(last) {
            Some(p) => *p = p.clone().such_that(read),
            None => return Err(error("there are conditions, but no parameters".into())),
        }
    }
    Ok(T1 { space: def, rest })
}

fn error(text: String) -> Diagnostic {
    Diagnostic::error(codes::T1, text)
}

fn within(of: &str, text: &str, e: &ParseError) -> Diagnostic {
    let at = text.get(e.at..).unwrap_or("");
    let at = if at.is_empty() { "at its end".to_string() } else { format!("at `{at}`") };
    error(format!("{of} `{text}`: {} {at}", e.message))
}

fn parameter(p: &Json, i: usize) -> Result<TuningParameter, Diagnostic> {
    let Some(name) = p.get("Name").and_then(Json::as_str) else {
        return Err(error(format!("tuning parameter {} has no `Name`", i + 1)));
    };
    let values = match p.get("Values") {
        Some(Json::String(text)) => {
            values(text).map_err(|e| within(&format!("values of parameter `{name}`"), text, &e))?
        }
        Some(Json::Array(all)) => {
            let all: Option<Vec<Value>> = all.iter().map(scalar).collect();
            all.ok_or_else(|| error(format!("parameter `{name}` lists something that is not a value")))?
        }
        _ => return Err(error(format!("parameter `{name}` has no `Values`"))),
    };
    let listed = common_type(&values);
    let ty = match p.get("Type").and_then(Json::as_str).map(str::to_ascii_lowercase).as_deref() {
        Some("bool" | "boolean") if listed == ParamType::Bool => ParamType::Bool,
        Some("float" | "double" | "real") if listed != ParamType::Str => ParamType::Float,
        // What is listed counts: files call any integer `int`, and any number `uint`.
        _ => listed,
    };
    let mut out = TuningParameter::new(name, ty, ValueRange::Set(values));
    out.default = match p.get("Default") {
        None | Some(Json::Null) => None,
        Some(v) => scalar(v),
    };
    Ok(out)
}

/// The values of a list in Python: `[1, 2]`, `range(1, 9)`, `list(range(8))`, `[2**i for i in range(5)]`, sums.
fn values(text: &str) -> Result<Vec<Value>, ParseError> {
    let types = HashMap::new();
    let scope = Scope { own: "", types: &types, args: &[] };
    let mut r = Reader::new(text, Dialect::Python, &scope);
    let mut all = list(&mut r, 0)?;
    while r.eat("+") {
        all.extend(list(&mut r, 0)?);
    }
    r.end()?;
    Ok(all)
}

/// More values than this are not listed.
const MANY: i64 = 1 << 24;

fn list(r: &mut Reader, depth: u32) -> Result<Vec<Value>, ParseError> {
    if depth > 20 {
        return r.error("nested too deeply");
    }
    let start = r.at;
    match r.peek_word() {
        "list" | "tuple" | "sorted" => {
            r.at += r.peek_word().len();
            r.expect("(")?;
            let all = list(r, depth + 1)?;
            r.expect(")")?;
            Ok(all)
        }
        "range" => {
            r.at += "range".len();
            r.expect("(")?;
            let args = r.list(")")?;
            let numbers: Option<Vec<i64>> = args
                .iter()
                .map(|a| match eval(&a.e, &|_| None) {
                    Ok(Value::Int(v)) => Some(v),
                    _ => None,
                })
                .collect();
            let (from, to, step) = match numbers.as_deref() {
                Some([to]) => (0, *to, 1),
                Some([from, to]) => (*from, *to, 1),
                Some([from, to, step]) if *step != 0 => (*from, *to, *step),
                _ => {
                    r.at = start;
                    return r.error("expected `range(to)`, `range(from, to)` or `range(from, to, step)`");
                }
            };
            let way = i128::from(to) - i128::from(from);
            let n = (way + i128::from(step) - i128::from(step.signum())) / i128::from(step);
            if n > i128::from(MANY) {
                return r.error("too many values");
            }
            let out = (0..n.max(0) as i64).map(|i| Value::Int(from + i * step)).collect();
            Ok(out)
        }
        _ => {
            let close = if r.eat("[") {
                "]"
            } else if r.eat("(") {
                ")"
            } else {
                return r.error("expected a list or `range(…)`");
            };
            if r.eat(close) {
                return Ok(Vec::new());
            }
            let first = r.value()?;
            if r.eat_word("for") {
                return comprehension(r, &first, close, depth);
            }
            let mut all = vec![first];
            if !r.eat(close) {
                r.expect(",")?;
                all.extend(r.list(close)?);
            }
            all.iter().map(|v| value(v, &|_| None, r)).collect()
        }
    }
}

fn value(v: &Typed, env: &dyn Fn(&str) -> Option<Value>, r: &Reader) -> Result<Value, ParseError> {
    eval(&v.e, env).or_else(|e| r.error(format!("not a value: {e}")))
}

/// `[body for name in list if condition]`, after `for`.
fn comprehension(r: &mut Reader, body: &Typed, close: &str, depth: u32) -> Result<Vec<Value>, ParseError> {
    let name = r.peek_word().to_string();
    r.at += name.len();
    if name.is_empty() || !r.eat_word("in") {
        return r.error("expected `for name in list`");
    }
    let over = list(r, depth + 1)?;
    let condition = if r.eat_word("if") { Some(r.value()?) } else { None };
    r.expect(close)?;
    let mut out = Vec::new();
    for v in over {
        let env = |n: &str| (n == name).then(|| v.clone());
        let keep = match &condition {
            Some(c) => value(c, &env, r)? == Value::Bool(true),
            None => true,
        };
        if keep {
            out.push(value(body, &env, r)?);
        }
    }
    Ok(out)
}

/// Writes a T1 file. Constants are written as their values; ranges are listed. Rust closures are errors.
pub fn write(t1: &T1) -> Result<String, Diagnostic> {
    // The space knows the values of ranges; constraints do not matter for that.
    let mut free = t1.space.clone();
    free.params.iter_mut().for_each(|p| p.constraint = None);
    let listed = Space::generate(&free, &Generate::default())?;
    let (mut params, mut conditions) = (Vec::new(), Vec::new());
    for (i, p) in t1.space.params.iter().enumerate() {
        let n = listed.values_of(i);
        if i64::from(n) > MANY {
            return Err(error(format!("parameter `{}` has too many values to list", p.name)));
        }
        let values: Vec<Json> = (0..n).filter_map(|v| listed.value_of(i, v)).map(|v| unscalar(&v)).collect();
        let ty = match p.ty {
            ParamType::Bool => "bool",
            ParamType::Int => "int",
            ParamType::Float => "float",
            ParamType::Str => "string",
        };
        let text = python_list(&listed, i);
        let mut map = Map::new();
        map.insert("Name".into(), json!(p.name));
        map.insert("Type".into(), json!(ty));
        map.insert("Values".into(), json!(text));
        let default = p.default.as_ref().map(unscalar).or_else(|| values.first().cloned());
        map.insert("Default".into(), default.unwrap_or(Json::Null));
        params.push(Json::Object(map));
        for c in p.constraint.iter().flat_map(parts) {
            let text = c.expr(&p.name).and_then(|e| python(&e, 0, &t1.space)).ok_or_else(|| {
                error(format!("the constraint `{c}` of parameter `{}` has no form in Python", p.name))
            })?;
            let mut names = c.names(&p.name);
            names.retain(|n| t1.space.params.iter().any(|p| p.name == *n));
            conditions.push(json!({ "Expression": text, "Parameters": names }));
        }
    }
    let mut out = t1.rest.clone();
    out.insert("ConfigurationSpace".into(), json!({ "TuningParameters": params, "Conditions": conditions }));
    serde_json::to_string_pretty(&Json::Object(out)).map_err(|e| error(e.to_string()))
}

/// The parts of a conjunction.
fn parts(c: &Constraint) -> Vec<&Constraint> {
    match c {
        Constraint::And(all) => all.iter().flat_map(parts).collect(),
        c => vec![c],
    }
}

fn python_list(space: &Space, param: usize) -> String {
    let all: Vec<String> = (0..space.values_of(param))
        .filter_map(|v| space.value_of(param, v))
        .map(|v| python_value(&v))
        .collect();
    format!("[{}]", all.join(", "))
}

fn python_value(v: &Value) -> String {
    match v {
        Value::Bool(true) => "True".into(),
        Value::Bool(false) => "False".into(),
        Value::Str(s) => format!("\"{}\"", s.replace('\\', "\\\\").replace('"', "\\\"")),
        v => v.to_string(),
    }
}

/// An expression in Python, with parentheses where it binds less tightly than `at_least`.
fn python(e: &Expr, at_least: u8, def: &SpaceDef) -> Option<String> {
    let (text, precedence) = match e {
        Expr::Value(v) => (python_value(v), if python_value(v).starts_with('-') { 7 } else { 9 }),
        Expr::Name(n) => match def.constants.get(n) {
            Some(v) => return python(&Expr::Value(v.clone()), at_least, def),
            None => (n.clone(), 9),
        },
        Expr::Unary(UnOp::Neg, a) => (format!("-{}", python(a, 8, def)?), 7),
        Expr::Unary(UnOp::Not, a) => (format!("not {}", python(a, 3, def)?), 3),
        Expr::Binary(op, a, b) => {
            let p = op.precedence();
            let left = if p == 4 { 5 } else { p };
            let symbol = if *op == BinOp::Div { "/" } else { op.symbol() };
            (format!("{} {symbol} {}", python(a, left, def)?, python(b, p + 1, def)?), p)
        }
        Expr::Call(name, args) => {
            if let Some(v) = def.constants.get(&e.to_string()) {
                return python(&Expr::Value(v.clone()), at_least, def);
            }
            let arg = |i: usize, p: u8| args.get(i).and_then(|a| python(a, p, def));
            match name.as_str() {
                "divides" => (format!("{} % {} == 0", arg(1, 6)?, arg(0, 7)?), 4),
                "is_multiple" => (format!("{} % {} == 0", arg(0, 6)?, arg(1, 7)?), 4),
                "ceil_div" => (format!("-(-{} // {})", arg(0, 8)?, arg(1, 7)?), 7),
                "pow" => (format!("{} ** {}", arg(0, 9)?, arg(1, 9)?), 8),
                "is_power_of_two" => {
                    let all: Vec<String> = (0..63).map(|i| (1i64 << i).to_string()).collect();
                    (format!("{} in [{}]", arg(0, 5)?, all.join(", ")), 4)
                }
                "min" | "max" | "abs" | "int" => {
                    let all: Option<Vec<String>> = args.iter().map(|a| python(a, 0, def)).collect();
                    (format!("{name}({})", all?.join(", ")), 9)
                }
                _ => return None,
            }
        }
    };
    Some(if precedence < at_least { format!("({text})") } else { text })
}

/// An expression of the kernel specification (sizes, shared memory), which is Python too.
pub fn python_expression(text: &str, def: &SpaceDef) -> Result<Expr, Diagnostic> {
    let types = def.params.iter().map(|p| (p.name.clone(), p.ty)).collect();
    let scope = Scope { own: "", types: &types, args: &[] };
    expression(text, Dialect::Python, &scope).map(|v| v.e).map_err(|e| within("expression", text, &e))
}
