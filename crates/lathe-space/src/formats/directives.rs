//! `#atf::` directives in any source text: tuning parameters, constants, scripts, technique, stop rule, kernels.
//!
//! A directive is on a line of its own, alone or behind what begins a comment in the source's language. The
//! parts of a `tp` directive may go on over the next lines. What follows ` //` is a comment.

use super::expression::{Dialect, Scope, constraint, expression};
use super::program::{AbortCondition, Api, Input, Kernel, TuningProgram, abort_condition};
use super::range::range;
use crate::bind::parse_value;
use crate::codes;
use crate::eval::eval;
use crate::expr::{Expr, Value};
use crate::param::ParamType;
use crate::parse::ParseError;
use crate::space::{TuningParameter, derived_scale};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use std::collections::HashMap;

const MARK: &str = "#atf::";

/// The directives of a source text; `args` are what `$1`, `$2`, … stand for. Errors have places in `file`.
pub fn parse(text: &str, file: FileId, args: &[String]) -> Result<TuningProgram, Diagnostic> {
    let directives = directives(text);
    let source = Source { file };
    if directives.is_empty() {
        return Err(Diagnostic::error(codes::DIRECTIVE, "the file has no `#atf::` directives")
            .help("a parameter is declared like `#atf::tp name \"T\" range interval<int>(1, 64) constraint divides(64)`"));
    }
    let args: Vec<Value> = args.iter().map(|a| parse_value(a)).collect();
    let mut p = Parser { source, args, types: HashMap::new(), out: TuningProgram::default() };
    let mut later = Vec::new();
    for d in &directives {
        match d.key.split("::").collect::<Vec<_>>().as_slice() {
            ["var", name] => p.variable(name, d)?,
            ["tp"] => {
                let parts = p.parameter(d)?;
                later.push((d, parts));
            }
            _ => {}
        }
    }
    // Constraints may mention parameters that are declared later.
    for (i, (d, parts)) in later.iter().enumerate() {
        if let Some((at, text)) = &parts.constraint {
            let own = p.out.space.params[i].name.clone();
            let c = constraint(text, Dialect::Cpp, &p.scope(&own)).map_err(|e| p.source.bad(d, *at, e))?;
            p.out.space.params[i].constraint = Some(c);
        }
    }
    for d in &directives {
        p.program(d)?;
    }
    Ok(p.out)
}

/// Whether a text has directives.
pub fn found(text: &str) -> bool {
    !directives(text).is_empty()
}

/// How many arguments (`$1`, …) the directives of a text mention.
pub fn arguments(text: &str) -> usize {
    let number = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    directives(text).iter().flat_map(|d| d.text.split('$').skip(1).filter_map(number)).max().unwrap_or(0)
}

/// The text without its directives; lines keep their numbers.
pub fn strip(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    let mut at = 0;
    for d in directives(text) {
        for (start, end) in d.lines {
            out.push_str(&text[at..start]);
            at = end;
        }
    }
    out.push_str(&text[at..]);
    out
}

/// A directive with all its lines joined.
struct Directive {
    /// What follows `#atf::`, up to a space.
    key: String,
    text: String,
    /// Where pieces of `text` begin, in it and in the source.
    pieces: Vec<(usize, usize)>,
    /// The lines in the source, without their ends.
    lines: Vec<(usize, usize)>,
    /// The first line's directive in the source.
    place: (usize, usize),
}

/// What a `tp` directive says that is not used at once.
struct Parts {
    constraint: Option<(usize, String)>,
}

struct Source {
    file: FileId,
}

struct Parser {
    source: Source,
    args: Vec<Value>,
    types: HashMap<String, ParamType>,
    out: TuningProgram,
}

/// Characters that may be before a directive: beginnings of comments.
fn comment(c: char) -> bool {
    c.is_whitespace() || "/*#;-%!<\"'(".contains(c)
}

/// Where a line begins to say something, behind the beginning of a comment.
fn lead(line: &str) -> usize {
    let text = line.trim_start();
    let marks = ["///", "//", "/*", "*", "#", "--", "<!--", ";", "%", "(*"];
    let text = marks.iter().find_map(|m| text.strip_prefix(m)).unwrap_or(text).trim_start();
    line.len() - text.len()
}

/// What a text says up to a comment at its end.
fn said(text: &str) -> &str {
    let mut quoted = None;
    let mut end = text.len();
    let mut space = true;
    for (i, c) in text.char_indices() {
        match quoted {
            Some(q) if c == q => quoted = None,
            Some(_) => {}
            None if c == '"' || c == '\'' => quoted = Some(c),
            None if space && text[i..].starts_with("//") => {
                end = i;
                break;
            }
            None => {}
        }
        space = c.is_whitespace();
    }
    let text = text[..end].trim_end();
    ["*/", "-->", "*)"].iter().find_map(|m| text.strip_suffix(m)).unwrap_or(text).trim_end()
}

fn directives(text: &str) -> Vec<Directive> {
    let mut out: Vec<Directive> = Vec::new();
    // Whether the next line may go on with the last directive; whether it must.
    let (mut open, mut forced) = (false, false);
    let mut at = 0;
    for line in text.split_inclusive('\n') {
        let start = at;
        at += line.len();
        let line = line.trim_end_matches(['\n', '\r']);
        let mark = line.find(MARK).filter(|m| line[..*m].chars().all(comment));
        if let Some(mark) = mark {
            let rest = &line[mark + MARK.len()..];
            let key: String = rest.chars().take_while(|c| !c.is_whitespace()).collect();
            let begin = mark + MARK.len() + key.len();
            let skip = line[begin..].len() - line[begin..].trim_start().len();
            let (text, more) = go_on(said(&line[begin + skip..]));
            out.push(Directive {
                text: text.to_string(),
                pieces: vec![(0, start + begin + skip)],
                lines: vec![(start, start + line.len())],
                place: (start + mark, start + begin + skip + text.len()),
                key,
            });
            forced = more;
            open = out.last().is_some_and(|d| d.key == "tp");
            continue;
        }
        let skip = lead(line);
        let text = said(&line[skip..]);
        let word: String = text.chars().take_while(|c| c.is_alphanumeric()).collect();
        let part = matches!(word.as_str(), "name" | "range" | "constraint" | "default");
        match out.last_mut().filter(|_| forced || (open && part)) {
            Some(d) => {
                let (text, more) = go_on(text);
                d.text.push(' ');
                d.pieces.push((d.text.len(), start + skip));
                d.text.push_str(text);
                d.lines.push((start, start + line.len()));
                forced = more;
            }
            // Empty lines and lines of comments lie between parts.
            None if text.is_empty() => {}
            None => open = false,
        }
    }
    out
}

/// A line without the backslash that makes the next one part of it.
fn go_on(said: &str) -> (&str, bool) {
    match said.strip_suffix('\\') {
        Some(s) => (s.trim_end(), true),
        None => (said, false),
    }
}

impl Source {
    /// The error at a byte of a directive's text.
    fn at(&self, d: &Directive, at: usize, message: impl Into<String>) -> Diagnostic {
        let (from, to) = d.pieces.iter().rev().find(|p| p.0 <= at).copied().unwrap_or((0, d.place.0));
        let place = to + at - from;
        let span = Span::new(self.file, place, place + 1);
        let span = if d.text.is_empty() { Span::new(self.file, d.place.0, d.place.1) } else { span };
        Diagnostic::error(codes::DIRECTIVE, message.into()).at(span, "here")
    }

    fn bad(&self, d: &Directive, base: usize, e: ParseError) -> Diagnostic {
        self.at(d, base + e.at, format!("in `#atf::{}`: {}", d.key, e.message))
    }
}

impl Parser {
    fn scope<'a>(&'a self, own: &'a str) -> Scope<'a> {
        Scope { own, types: &self.types, args: &self.args }
    }

    fn variable(&mut self, name: &str, d: &Directive) -> Result<(), Diagnostic> {
        if name.is_empty() {
            return Err(self.source.at(d, 0, "the variable has no name"));
        }
        if self.out.space.constants.contains_key(name) {
            return Err(self.source.at(d, 0, format!("`{name}` already has a value")));
        }
        let read = expression(&d.text, Dialect::Cpp, &self.scope(""));
        let value = match read {
            Ok(v) => match (&v.e, eval(&v.e, &|n| self.out.space.constants.get(n).cloned())) {
                (_, Ok(v)) => v,
                // A bare word.
                (Expr::Name(word), Err(_)) => Value::Str(word.clone()),
                (_, Err(e)) => return Err(self.source.at(d, 0, format!("the value of `{name}`: {e}"))),
            },
            Err(e) => return Err(self.source.bad(d, 0, e)),
        };
        let ty = match value {
            Value::Bool(_) => ParamType::Bool,
            Value::Int(_) => ParamType::Int,
            Value::Float(_) => ParamType::Float,
            Value::Str(_) => ParamType::Str,
        };
        self.types.insert(name.to_string(), ty);
        self.out.space.constants.insert(name.to_string(), value);
        Ok(())
    }

    /// Name and range of a parameter; the constraint is read when all types are known.
    fn parameter(&mut self, d: &Directive) -> Result<Parts, Diagnostic> {
        let parts = split_parts(&d.text);
        let get = |key: &str| parts.iter().find(|p| p.0 == key).map(|p| (p.1, p.2));
        let first = d.text.split_whitespace().next().unwrap_or("");
        if !first.is_empty() && !parts.iter().any(|p| p.0 == first) {
            let text = format!("expected `name`, `range` or `constraint`, not `{first}`");
            return Err(self.source.at(d, 0, text));
        }
        let name = get("name").map(|(_, t)| unquote(t)).filter(|n| !n.is_empty());
        let Some(name) = name else {
            return Err(self.source.at(d, 0, "the parameter has no name: `#atf::tp name \"T\" range …`"));
        };
        let Some((at, text)) = get("range") else {
            return Err(self.source.at(d, 0, format!("parameter `{name}` has no range")));
        };
        let (ty, values) = range(text, &self.scope(&name)).map_err(|e| self.source.bad(d, at, e))?;
        let scale = derived_scale(ty, &values);
        let default = get("default").map(|(_, t)| parse_value(&unquote(t)));
        self.types.insert(name.clone(), ty);
        let p = TuningParameter { name, ty, values, constraint: None, default, scale };
        self.out.space.params.push(p);
        Ok(Parts { constraint: get("constraint").map(|(at, t)| (at, t.to_string())) })
    }

    /// The directives that are not about the space.
    fn program(&mut self, d: &Directive) -> Result<(), Diagnostic> {
        let text = || unquote(&d.text);
        let path: Vec<&str> = d.key.split("::").collect();
        match path.as_slice() {
            ["var", _] | ["tp"] => return Ok(()),
            ["ocl", what] => return self.kernel(d, Api::OpenCl, what),
            ["cuda", what] => return self.kernel(d, Api::Cuda, what),
            ["abort_condition"] => {
                let c = self.abort(d)?;
                return self.once(d, |out| out.abort_condition.replace(c).is_some());
            }
            _ => {}
        }
        if d.text.is_empty() {
            return Err(self.source.at(d, 0, format!("`#atf::{}` says nothing", d.key)));
        }
        match path.as_slice() {
            ["program_source"] => self.once(d, |out| out.program_source.replace(text()).is_some()),
            ["compile_script"] => self.once(d, |out| out.compile_script.replace(text().into()).is_some()),
            ["run_script"] => self.once(d, |out| out.run_script.replace(text().into()).is_some()),
            ["cost_file"] => self.once(d, |out| out.cost_file.replace(text()).is_some()),
            ["search_technique"] => self.once(d, |out| out.search_technique.replace(text()).is_some()),
            _ => Err(self.source.at(d, 0, format!("unknown directive `#atf::{}`", d.key)).help(
                "directives: tp, var::NAME, program_source, compile_script, run_script, cost_file, search_technique, \
                 abort_condition, ocl::… and cuda::…",
            )),
        }
    }

    fn once(
        &mut self,
        d: &Directive,
        set: impl FnOnce(&mut TuningProgram) -> bool,
    ) -> Result<(), Diagnostic> {
        if set(&mut self.out) {
            return Err(self.source.at(d, 0, format!("`#atf::{}` is given twice", d.key)));
        }
        Ok(())
    }

    fn abort(&self, d: &Directive) -> Result<AbortCondition, Diagnostic> {
        let constants = |n: &str| self.out.space.constants.get(n).cloned();
        abort_condition(&d.text, &self.scope(""), &constants).map_err(|e| self.source.bad(d, 0, e))
    }

    fn kernel(&mut self, d: &Directive, api: Api, what: &str) -> Result<(), Diagnostic> {
        let sizes: &[&str] = match api {
            Api::OpenCl => &["platform", "global_size", "local_size"],
            Api::Cuda => &["grid_dim", "block_dim", "grid_size", "block_size"],
        };
        let known = sizes.contains(&what) || matches!(what, "device" | "device_id" | "input" | "kernel_name");
        if !known {
            let text = format!("unknown directive `#atf::{}`", d.key);
            return Err(self.source.at(d, 0, text).help(match api {
                Api::OpenCl => "of OpenCL: platform, device, kernel_name, input, global_size, local_size",
                Api::Cuda => "of CUDA: device, kernel_name, input, grid_dim, block_dim",
            }));
        }
        let twice = self.source.at(d, 0, format!("`#atf::{}` is given twice", d.key));
        let input = if what == "input" { Some(self.input(d)?) } else { None };
        let sizes = match what {
            "global_size" | "local_size" | "grid_dim" | "block_dim" | "grid_size" | "block_size" => {
                self.sizes(d)?
            }
            _ => Vec::new(),
        };
        let kernel = self.out.kernel.get_or_insert_with(|| Kernel {
            api,
            platform: None,
            device: None,
            name: None,
            inputs: Vec::new(),
            global_size: Vec::new(),
            local_size: Vec::new(),
        });
        if kernel.api != api {
            return Err(self.source.at(d, 0, "directives of OpenCL and of CUDA cannot be mixed"));
        }
        let text = Some(unquote(&d.text));
        let free = match what {
            "platform" => std::mem::replace(&mut kernel.platform, text).is_none(),
            "device" | "device_id" => std::mem::replace(&mut kernel.device, text).is_none(),
            "kernel_name" => std::mem::replace(&mut kernel.name, text).is_none(),
            "input" => {
                kernel.inputs.extend(input);
                true
            }
            "global_size" | "grid_dim" | "grid_size" => {
                std::mem::replace(&mut kernel.global_size, sizes).is_empty()
            }
            _ => std::mem::replace(&mut kernel.local_size, sizes).is_empty(),
        };
        if free { Ok(()) } else { Err(twice) }
    }

    /// One to three expressions, separated by commas.
    fn sizes(&self, d: &Directive) -> Result<Vec<Expr>, Diagnostic> {
        let pieces = commas(&d.text);
        if pieces.len() > 3 {
            return Err(self.source.at(d, 0, "at most three sizes"));
        }
        pieces
            .into_iter()
            .map(|(at, t)| {
                expression(t, Dialect::Cpp, &self.scope(""))
                    .map(|v| v.e)
                    .map_err(|e| self.source.bad(d, at, e))
            })
            .collect()
    }

    /// `scalar<T>(v)`, `scalar<T>()`, `buffer<T>(n)`, `buffer<T>(file_name("p"))`.
    fn input(&self, d: &Directive) -> Result<Input, Diagnostic> {
        let text =
            d.text.trim_start_matches("atf::").trim_start_matches("ocl::").trim_start_matches("cuda::");
        let base = d.text.len() - text.len();
        let wrong = || self.source.at(d, 0, "expected `scalar<type>(value)` or `buffer<type>(size)`");
        let (word, rest) = text.split_once('<').ok_or_else(wrong)?;
        let (ty, rest) = rest.split_once('>').ok_or_else(wrong)?;
        let inner = rest.trim().strip_prefix('(').and_then(|r| r.strip_suffix(')')).ok_or_else(wrong)?;
        let at = base + text.find('(').map_or(0, |p| p + 1);
        let ty = ty.trim().to_string();
        let read = |t: &str| {
            expression(t, Dialect::Cpp, &self.scope("")).map(|v| v.e).map_err(|e| self.source.bad(d, at, e))
        };
        let file = inner.trim().trim_start_matches("atf::").strip_prefix("file_name");
        match (word.trim(), inner.trim().is_empty(), file) {
            ("scalar", true, _) => Ok(Input::Scalar { ty, value: None }),
            ("scalar", false, None) => Ok(Input::Scalar { ty, value: Some(read(inner)?) }),
            ("buffer", false, Some(path)) => {
                let path =
                    path.trim().strip_prefix('(').and_then(|p| p.strip_suffix(')')).ok_or_else(wrong)?;
                Ok(Input::BufferFile { ty, path: unquote(path) })
            }
            ("buffer", false, None) => Ok(Input::Buffer { ty, size: read(inner)? }),
            _ => Err(wrong()),
        }
    }
}

/// A text without the quotes around it.
fn unquote(text: &str) -> String {
    let t = text.trim();
    let inner = ['"', '\''].into_iter().find_map(|q| t.strip_prefix(q)?.strip_suffix(q));
    inner.unwrap_or(t).to_string()
}

/// The parts of a `tp` directive: key, where its text begins, text.
fn split_parts(text: &str) -> Vec<(&str, usize, &str)> {
    let mut keys: Vec<(&str, usize, usize)> = Vec::new();
    let (mut depth, mut quoted, mut word) = (0i32, None, None);
    for (i, c) in text.char_indices().chain(std::iter::once((text.len(), ' '))) {
        if let Some(q) = quoted {
            if c == q {
                quoted = None;
            }
            continue;
        }
        match c {
            c if c == '_' || c.is_alphanumeric() => word = word.or(Some(i)),
            _ => {
                if let Some(start) = word.take() {
                    let w = &text[start..i];
                    let key = matches!(w, "name" | "range" | "constraint" | "default");
                    if key && depth == 0 && c.is_whitespace() | (c == '"') && !keys.iter().any(|k| k.0 == w) {
                        keys.push((w, start, i));
                    }
                }
                match c {
                    '"' | '\'' => quoted = Some(c),
                    '(' | '{' | '[' => depth += 1,
                    ')' | '}' | ']' => depth -= 1,
                    _ => {}
                }
            }
        }
    }
    let ends = keys.iter().skip(1).map(|k| k.1).chain(std::iter::once(text.len()));
    keys.iter()
        .zip(ends)
        .map(|((key, _, from), to)| {
            let body = &text[*from..to];
            let lead = body.len() - body.trim_start().len();
            (*key, from + lead, body.trim())
        })
        .collect()
}

/// Pieces between commas that are not in parentheses, with their places.
fn commas(text: &str) -> Vec<(usize, &str)> {
    let (mut depth, mut start) = (0, 0);
    let mut out = Vec::new();
    for (i, c) in text.char_indices() {
        match c {
            '(' | '[' | '{' => depth += 1,
            ')' | ']' | '}' => depth -= 1,
            ',' if depth == 0 => {
                out.push((start, &text[start..i]));
                start = i + 1;
            }
            _ => {}
        }
    }
    out.push((start, &text[start..]));
    out
}
