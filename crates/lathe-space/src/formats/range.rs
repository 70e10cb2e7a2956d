//! Ranges in the notation of ATF: `interval<int>(1, N, 2)`, `interval<size_t>(1, 10, pow(2))`, `set<string>{cat, dog}`.

use super::expression::{Dialect, Reader, Scope, expression, lambda_head};
use super::typed::{Ty, literal};
use crate::bind::parse_value;
use crate::eval::eval;
use crate::expr::{Expr, Value};
use crate::param::ParamType;
use crate::parse::ParseError;
use crate::space::{Generator, ValueRange};

/// A range and the type of its values. What it mentions goes by `scope`.
pub(crate) fn range(text: &str, scope: &Scope) -> Result<(ParamType, ValueRange), ParseError> {
    let mut r = Reader::new(text, Dialect::Cpp, scope);
    r.eat_word("atf");
    r.eat("::");
    let range = match r.peek_word() {
        "interval" => interval(&mut r)?,
        "set" => set(&mut r)?,
        _ => return r.error("expected `interval<type>(begin, end)` or `set<type>{value, …}`"),
    };
    r.end()?;
    Ok(range)
}

/// `<type>` after the word, if it is there.
fn element_type(r: &mut Reader) -> Result<Option<ParamType>, ParseError> {
    let word = r.peek_word();
    r.at += word.len();
    if !r.eat("<") {
        return Ok(None);
    }
    let start = r.at;
    let Some(end) = r.rest().find('>') else { return r.error("expected `>` after the type") };
    let name = r.rest()[..end].trim();
    let Some(ty) = type_of(name) else {
        r.at = start;
        return r.error(format!("unknown type `{name}`: bool, integers, float, double and string are known"));
    };
    r.at += end + 1;
    Ok(Some(ty))
}

/// The types of C++ and OpenCL that parameters can have.
fn type_of(name: &str) -> Option<ParamType> {
    let plain = name.rsplit("::").next().unwrap_or(name);
    let words: Vec<&str> = plain.split_whitespace().filter(|w| *w != "const").collect();
    Some(match words.as_slice() {
        ["bool"] => ParamType::Bool,
        ["float" | "double" | "half"] | ["long", "double"] => ParamType::Float,
        ["string"] | ["char", "*"] | ["char*"] => ParamType::Str,
        all if !all.is_empty() && all.iter().all(|w| integer_word(w)) => ParamType::Int,
        _ => return None,
    })
}

fn integer_word(w: &str) -> bool {
    matches!(
        w,
        "int"
            | "unsigned"
            | "signed"
            | "short"
            | "long"
            | "char"
            | "size_t"
            | "uint"
            | "ulong"
            | "ushort"
            | "uchar"
    ) || (w.trim_start_matches("uint").trim_start_matches("int").trim_end_matches("_t").parse::<u8>().is_ok())
}

fn interval(r: &mut Reader) -> Result<(ParamType, ValueRange), ParseError> {
    let start = r.at;
    let ty = element_type(r)?.unwrap_or(ParamType::Int);
    if ty == ParamType::Str {
        r.at = start;
        return r.error("an interval has numbers; strings are listed in a `set`");
    }
    r.expect("(")?;
    let lo = r.value()?.e;
    r.expect(",")?;
    let hi = r.value()?.e;
    if ty == ParamType::Bool {
        return bools(r, &lo, &hi);
    }
    let (mut step, mut made) = (None, None);
    if r.eat(",") {
        made = generator(r, ty)?;
        if made.is_none() {
            step = Some(r.value()?.e);
            if r.eat(",") {
                made = generator(r, ty)?;
                if made.is_none() {
                    return r.error(
                        "expected a generator: `pow(b)`, `multiple_of(n)` or `(int i) { return …; }`",
                    );
                }
            }
        }
    }
    r.expect(")")?;
    let (generator, ty) = match made {
        Some((g, ty)) => (Some(g), ty),
        None => (None, ty),
    };
    Ok((ty, ValueRange::Interval { lo, hi, step, generator }))
}

/// `interval<bool>(false, true)`.
fn bools(r: &mut Reader, lo: &Expr, hi: &Expr) -> Result<(ParamType, ValueRange), ParseError> {
    let value = |e: &Expr| match eval(e, &|_| None) {
        Ok(Value::Bool(b)) => Some(b),
        Ok(Value::Int(i)) => Some(i != 0),
        _ => None,
    };
    let (Some(lo), Some(hi)) = (value(lo), value(hi)) else {
        return r.error("the ends of an interval of truth values are `false` and `true`");
    };
    r.expect(")")?;
    let all = [false, true].into_iter().filter(|v| lo <= *v && *v <= hi).map(Value::Bool);
    Ok((ParamType::Bool, ValueRange::Set(all.collect())))
}

/// A generator, if one comes next, and the type of what it makes.
fn generator(r: &mut Reader, ty: ParamType) -> Result<Option<(Generator, ParamType)>, ParseError> {
    let before = r.at;
    if r.eat("[") {
        // A capture list says nothing here.
        match r.rest().find(']') {
            Some(end) => r.at += end + 1,
            None => return r.error("expected `]`"),
        }
    }
    r.space();
    if let Some((var, end)) = lambda_head(r.rest()) {
        r.at += end;
        r.expect("{")?;
        if !r.eat_word("return") {
            return r.error("expected `return`");
        }
        let outer = r.scope;
        let mut types = outer.types.clone();
        types.insert(var.clone(), ty);
        let scope = Scope { own: outer.own, types: &types, args: outer.args };
        let Some(length) = r.rest().find('}') else { return r.error("expected `}`") };
        let body = r.rest()[..length].trim_end().trim_end_matches(';');
        let value = expression(body, Dialect::Cpp, &scope)
            .map_err(|e| ParseError { at: e.at + r.at, message: e.message })?;
        r.at += length + 1;
        let ty = match value.ty {
            Ty::Float => ParamType::Float,
            Ty::Bool => ParamType::Bool,
            Ty::Str => ParamType::Str,
            Ty::Int | Ty::Unknown => ty,
        };
        return Ok(Some((Generator::Expr { var, body: value.e }, ty)));
    }
    r.eat_word("atf");
    r.eat("::");
    let word = r.peek_word();
    if !matches!(word, "pow" | "multiple_of") {
        r.at = before;
        return Ok(None);
    }
    r.at += word.len();
    r.expect("(")?;
    let base = r.value()?;
    r.expect(")")?;
    let ty = if base.ty == Ty::Float { ParamType::Float } else { ty };
    let made = if word == "pow" { Generator::Pow(base.e) } else { Generator::MultipleOf(base.e) };
    Ok(Some((made, ty)))
}

fn set(r: &mut Reader) -> Result<(ParamType, ValueRange), ParseError> {
    let ty = element_type(r)?;
    let close = if r.eat("{") {
        "}"
    } else {
        r.expect("(")?;
        ")"
    };
    let mut values = Vec::new();
    loop {
        r.space();
        if r.eat(close) {
            break;
        }
        if !values.is_empty() {
            r.expect(",")?;
            r.space();
        }
        values.push(element(r, ty, close)?);
    }
    let ty = ty.unwrap_or_else(|| common_type(&values));
    Ok((ty, ValueRange::Set(values)))
}

/// The type that listed values have.
pub(crate) fn common_type(values: &[Value]) -> ParamType {
    let all = |f: fn(&Value) -> bool| values.iter().all(f);
    if all(|v| matches!(v, Value::Int(_))) {
        ParamType::Int
    } else if all(|v| matches!(v, Value::Int(_) | Value::Float(_))) {
        ParamType::Float
    } else if all(|v| matches!(v, Value::Bool(_))) {
        ParamType::Bool
    } else {
        ParamType::Str
    }
}

/// One element: a string in quotes, a word, or an expression without names.
fn element(r: &mut Reader, ty: Option<ParamType>, close: &str) -> Result<Value, ParseError> {
    if r.rest().starts_with(['"', '\'']) {
        return r.quoted().map(Value::Str);
    }
    let Some(end) = r.rest().find([',', close.chars().next().unwrap_or('}')]) else {
        return r.error(format!("expected `{close}`"));
    };
    if ty == Some(ParamType::Str) {
        let word = r.rest()[..end].trim().to_string();
        r.at += end;
        return Ok(Value::Str(word));
    }
    let start = r.at;
    let value = r.value()?;
    let none = |_: &str| None;
    match (eval(&value.e, &none), ty) {
        (Ok(Value::Int(v)), Some(ParamType::Float)) => Ok(Value::Float(v as f64)),
        (Ok(Value::Int(v @ 0..=1)), Some(ParamType::Bool)) => Ok(Value::Bool(v == 1)),
        (Ok(v), _) => Ok(v),
        // A word in a set without type.
        (Err(_), None) => Ok(parse_value(r.text[start..r.at].trim())),
        (Err(e), Some(_)) => {
            r.at = start;
            r.error(format!("not a value: {e}"))
        }
    }
}

/// The range as text that reads back; closures have none.
pub(crate) fn show(ty: ParamType, range: &ValueRange) -> Option<String> {
    let word = match ty {
        ParamType::Bool => "bool",
        ParamType::Int => "int",
        ParamType::Float => "float",
        ParamType::Str => "string",
    };
    match range {
        ValueRange::Set(values) => {
            let all: Vec<String> = values.iter().map(|v| show_expr(&literal(v.clone()).e)).collect();
            Some(format!("set<{word}>{{{}}}", all.join(", ")))
        }
        ValueRange::Interval { lo, hi, step, generator } => {
            let mut text = format!("interval<{word}>({}, {}", show_expr(lo), show_expr(hi));
            if let Some(step) = step {
                text += &format!(", {}", show_expr(step));
            }
            match generator {
                None => {}
                Some(Generator::Pow(b)) => text += &format!(", pow({})", show_expr(b)),
                Some(Generator::MultipleOf(n)) => text += &format!(", multiple_of({})", show_expr(n)),
                Some(Generator::Expr { var, body }) => {
                    text += &format!(", ({word} {var}) {{ return {}; }}", show_expr(body));
                }
                Some(Generator::Closure(_)) => return None,
            }
            Some(text + ")")
        }
    }
}

/// An expression with strings in quotes.
pub(crate) fn show_expr(e: &Expr) -> String {
    fn quote(e: &Expr) -> Expr {
        match e {
            Expr::Value(Value::Str(s)) => {
                let escaped = s.replace('\\', "\\\\").replace('"', "\\\"");
                Expr::Name(format!("\"{escaped}\""))
            }
            Expr::Value(_) | Expr::Name(_) => e.clone(),
            Expr::Unary(op, a) => Expr::Unary(*op, Box::new(quote(a))),
            Expr::Binary(op, a, b) => Expr::Binary(*op, Box::new(quote(a)), Box::new(quote(b))),
            Expr::Call(n, args) => Expr::Call(n.clone(), args.iter().map(quote).collect()),
        }
    }
    quote(e).to_string()
}
