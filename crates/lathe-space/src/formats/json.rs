//! ATF's JSON form of tuned programs, made valid: lists are arrays, and there is no trailing comma.
//!
//! ```json
//! { "constants": { "N": 1024 },
//!   "tuning_parameters": [
//!     { "name": "WPT", "range": "interval<int>(1, N)", "constraint": "divides(N)" },
//!     { "name": "MODE", "range": ["fast", "safe"], "default": "safe" } ],
//!   "compile_script": ["cc", "-O2", "-DWPT=WPT", "prog.c"], "run_script": "./run.sh",
//!   "search_technique": "auc_bandit", "abort_condition": "duration<minutes>(30)" }
//! ```
//!
//! Keys may be written with `-` instead of `_`; `comment` is for people.

use super::expression::{Dialect, Scope, constraint};
use super::program::{Script, TuningProgram, abort_condition};
use super::range::{common_type, range, show, show_expr};
use crate::codes;
use crate::expr::Value;
use crate::param::ParamType;
use crate::parse::ParseError;
use crate::space::{Constraint, Scale, TuningParameter, ValueRange, derived_scale};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use serde_json::{Map, Value as Json, json};
use std::collections::HashMap;

/// Reads the JSON form. Errors of JSON itself have a place in `file`.
pub fn parse(text: &str, file: FileId) -> Result<TuningProgram, Diagnostic> {
    let json: Json = serde_json::from_str(text).map_err(|e| invalid(text, file, &e))?;
    let mut out = TuningProgram::default();
    let Json::Object(map) = &json else { return Err(error("the file is not an object".into())) };
    let mut params: &[Json] = &[];
    for (key, value) in map {
        let text = || match value {
            Json::String(s) => Ok(s.clone()),
            _ => Err(error(format!("`{key}` is a string"))),
        };
        match key.replace('-', "_").as_str() {
            "comment" => {}
            "constants" => {
                let Json::Object(all) = value else {
                    return Err(error("`constants` is an object of names and values".into()));
                };
                for (name, v) in all {
                    let v = scalar(v).ok_or_else(|| error(format!("constant `{name}` is not a value")))?;
                    out.space.constants.insert(name.clone(), v);
                }
            }
            "tuning_parameters" => match value {
                Json::Array(all) => params = all,
                _ => return Err(error("`tuning_parameters` is an array".into())),
            },
            "program_source" => out.program_source = Some(text()?),
            "compile_script" => out.compile_script = Some(script(key, value)?),
            "run_script" => out.run_script = Some(script(key, value)?),
            "cost_file" => out.cost_file = Some(text()?),
            "search_technique" => out.search_technique = Some(text()?),
            "abort_condition" => {
                let text = text()?;
                let types = HashMap::new();
                let scope = Scope { own: "", types: &types, args: &[] };
                let c = abort_condition(&text, &scope, &|_| None).map_err(|e| within(key, &text, &e))?;
                out.abort_condition = Some(c);
            }
            _ => {
                return Err(error(format!("unknown key `{key}`")).help(
                    "keys: tuning_parameters, constants, program_source, compile_script, run_script, cost_file, \
                     search_technique, abort_condition, comment",
                ));
            }
        }
    }
    if params.is_empty() {
        return Err(error("there are no `tuning_parameters`".into()));
    }
    let mut types: HashMap<String, ParamType> =
        out.space.constants.iter().map(|(n, v)| (n.clone(), common_type(std::slice::from_ref(v)))).collect();
    for (i, p) in params.iter().enumerate() {
        let p = parameter(p, i, &types)?;
        types.insert(p.name.clone(), p.ty);
        out.space.params.push(p);
    }
    // Constraints may mention parameters that are declared later.
    for (p, json) in out.space.params.iter_mut().zip(params) {
        let c = match json.get("constraint") {
            None | Some(Json::Null) => continue,
            Some(Json::String(c)) => c,
            Some(_) => return Err(error(format!("the constraint of parameter `{}` is a string", p.name))),
        };
        let scope = Scope { own: &p.name, types: &types, args: &[] };
        let read = constraint(c, Dialect::Cpp, &scope);
        let of = format!("the constraint of parameter `{}`", p.name);
        p.constraint = Some(read.map_err(|e| within(&of, c, &e))?);
    }
    Ok(out)
}

/// A path or a command, or a list of a program and its arguments.
fn script(key: &str, value: &Json) -> Result<Script, Diagnostic> {
    let word = |v: &Json| v.as_str().map(str::to_string);
    match value {
        Json::String(text) => Some(Script::Shell(text.clone())),
        Json::Array(all) if !all.is_empty() => all.iter().map(word).collect::<Option<_>>().map(Script::List),
        _ => None,
    }
    .ok_or_else(|| error(format!("`{key}` is a path, a command, or a list of a program and its arguments")))
}

fn error(text: String) -> Diagnostic {
    Diagnostic::error(codes::JSON, text)
}

/// The error in a text within the file.
fn within(of: &str, text: &str, e: &ParseError) -> Diagnostic {
    let at = text.get(e.at..).unwrap_or("");
    let at = if at.is_empty() { "at its end".to_string() } else { format!("at `{at}`") };
    error(format!("{of}, `{text}`: {} {at}", e.message))
}

/// What is not JSON, with its place.
pub(crate) fn invalid(text: &str, file: FileId, e: &serde_json::Error) -> Diagnostic {
    let line: usize = text.split_inclusive('\n').take(e.line().saturating_sub(1)).map(str::len).sum();
    let at = (line + e.column().saturating_sub(1)).min(text.len());
    error(format!("the file is not JSON: {e}")).at(Span::new(file, at, (at + 1).min(text.len())), "here")
}

fn parameter(p: &Json, i: usize, types: &HashMap<String, ParamType>) -> Result<TuningParameter, Diagnostic> {
    let Some(name) = p.get("name").and_then(Json::as_str) else {
        return Err(error(format!("tuning parameter {} has no name", i + 1)));
    };
    let known = ["name", "range", "constraint", "default", "scale", "comment"];
    if let Some(key) = p.as_object().into_iter().flatten().map(|e| e.0).find(|k| !known.contains(&k.as_str()))
    {
        return Err(error(format!("unknown key `{key}` of parameter `{name}`"))
            .help(format!("keys of parameters: {}", known.join(", "))));
    }
    let (ty, values) = match p.get("range") {
        Some(Json::String(text)) => {
            let scope = Scope { own: name, types, args: &[] };
            range(text, &scope).map_err(|e| within(&format!("the range of parameter `{name}`"), text, &e))?
        }
        Some(Json::Array(all)) => {
            let values: Option<Vec<Value>> = all.iter().map(scalar).collect();
            let Some(values) = values else {
                let text = format!("the range of parameter `{name}` lists something that is not a value");
                return Err(error(text));
            };
            (common_type(&values), ValueRange::Set(values))
        }
        _ => {
            let text =
                format!("parameter `{name}` needs a `range`: a list of values, or `interval<int>(1, 8)`");
            return Err(error(text));
        }
    };
    let default = match p.get("default") {
        None | Some(Json::Null) => None,
        Some(v) => {
            let v = scalar(v);
            Some(v.ok_or_else(|| error(format!("the default of parameter `{name}` is not a value")))?)
        }
    };
    let scale = match p.get("scale").map(|s| s.as_str()) {
        None => derived_scale(ty, &values),
        Some(Some("linear")) => Scale::Linear,
        Some(Some("ratio")) => Scale::Ratio,
        Some(Some("category")) => Scale::Category,
        Some(_) => {
            return Err(error(format!("the scale of parameter `{name}` is linear, ratio or category")));
        }
    };
    Ok(TuningParameter { name: name.to_string(), ty, values, constraint: None, default, scale })
}

/// A JSON value as ours; numbers that need more than 64 bits are floats.
pub(crate) fn scalar(v: &Json) -> Option<Value> {
    match v {
        Json::Bool(b) => Some(Value::Bool(*b)),
        Json::Number(n) => n.as_i64().map(Value::Int).or_else(|| n.as_f64().map(Value::Float)),
        Json::String(s) => Some(Value::Str(s.clone())),
        Json::Null | Json::Array(_) | Json::Object(_) => None,
    }
}

/// Our value as JSON.
pub(crate) fn unscalar(v: &Value) -> Json {
    match v {
        Value::Bool(b) => json!(b),
        Value::Int(i) => json!(i),
        Value::Float(f) => json!(f),
        Value::Str(s) => json!(s),
    }
}

/// Writes the JSON form. Rust closures and kernels of directives have no form in it and are errors.
pub fn write(p: &TuningProgram) -> Result<String, Diagnostic> {
    if p.kernel.is_some() {
        return Err(error("directives of OpenCL and CUDA have no JSON form".into()));
    }
    let mut params = Vec::with_capacity(p.space.params.len());
    for t in &p.space.params {
        let closure = || error(format!("parameter `{}` uses a Rust closure, which JSON cannot hold", t.name));
        let mut map = Map::new();
        map.insert("name".into(), json!(t.name));
        let plain = |v: &Value| !matches!(v, Value::Float(f) if !f.is_finite());
        let range = match &t.values {
            ValueRange::Set(values) if common_type(values) == t.ty && values.iter().all(plain) => {
                Json::Array(values.iter().map(unscalar).collect())
            }
            range => json!(show(t.ty, range).ok_or_else(closure)?),
        };
        map.insert("range".into(), range);
        if let Some(c) = &t.constraint {
            map.insert("constraint".into(), json!(text(c).ok_or_else(closure)?));
        }
        if let Some(v) = &t.default {
            map.insert("default".into(), unscalar(v));
        }
        if t.scale != derived_scale(t.ty, &t.values) {
            let word = match t.scale {
                Scale::Linear => "linear",
                Scale::Ratio => "ratio",
                Scale::Category => "category",
            };
            map.insert("scale".into(), json!(word));
        }
        params.push(Json::Object(map));
    }
    let mut out = Map::new();
    if !p.space.constants.is_empty() {
        let all = p.space.constants.iter().map(|(n, v)| (n.clone(), unscalar(v))).collect();
        out.insert("constants".into(), Json::Object(all));
    }
    out.insert("tuning_parameters".into(), Json::Array(params));
    let texts = [
        ("program_source", p.program_source.clone()),
        ("cost_file", p.cost_file.clone()),
        ("search_technique", p.search_technique.clone()),
        ("abort_condition", p.abort_condition.as_ref().map(ToString::to_string)),
    ];
    for (key, value) in texts {
        if let Some(v) = value {
            out.insert(key.into(), json!(v));
        }
    }
    for (key, value) in [("compile_script", &p.compile_script), ("run_script", &p.run_script)] {
        match value {
            Some(Script::Shell(text)) => _ = out.insert(key.into(), json!(text)),
            Some(Script::List(words)) => _ = out.insert(key.into(), json!(words)),
            None => {}
        }
    }
    serde_json::to_string_pretty(&Json::Object(out)).map_err(|e| error(e.to_string()))
}

/// A constraint as text that reads back; closures have none.
fn text(c: &Constraint) -> Option<String> {
    let join = |all: &[Constraint], word: &str, none: &str| {
        let parts: Option<Vec<String>> =
            all.iter().map(|c| text(c).map(|t| if all.len() > 1 { format!("({t})") } else { t })).collect();
        parts.map(|p| if p.is_empty() { none.to_string() } else { p.join(word) })
    };
    match c {
        Constraint::Expr(e) => Some(show_expr(e)),
        Constraint::Alias(a, e) => Some(format!("{}({})", a.name(), show_expr(e))),
        Constraint::Closure { .. } => None,
        Constraint::And(all) => join(all, " && ", "true"),
        Constraint::Or(all) => join(all, " || ", "false"),
    }
}
