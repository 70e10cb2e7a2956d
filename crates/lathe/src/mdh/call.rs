//! The arguments of a step `mdh(…)`.
//!
//! ```text
//! mdh(of: C, model: openmp_l3_simd, tiles: partial, parts.i.COR: 2, parts.j.SIMD: 16, D4.B: "[<1,2> <1,2>] …")
//! ```
//!
//! * `of: C` names the compute; none: every compute of the kernel.
//! * `model: NAME` or `model: "file.json"`.
//! * `tiles: partial`: parts need not multiply to the extent; `tiles: full`: they must.
//! * `parts.DIM.LAYER: n` fixes one number of parts.
//! * `KEY: "…"`, `KEY.BUFFER: "…"`, `KEY.KEY: "…"`: a line of the text form of decisions.
//! * `"…"`: lines of the text form, as they are.

use lathe_diagnostics::{Diagnostic, Span};
use lathe_mdh::{Decisions, Homomorphism, Model, Phase, codes, text};
use lathe_space::{Expr, Value};
use lathe_strategy::{ArgValue, Argument};

/// A call, before it is known for which computation.
#[derive(Clone, Debug)]
pub struct Call<'a> {
    pub of: Option<String>,
    pub model: Option<String>,
    /// Whether tiles may be partial, if it is said.
    pub tiles: Option<bool>,
    pub span: Option<Span>,
    items: Vec<Item<'a>>,
}

/// What a call fixes.
#[derive(Clone, Debug)]
struct Item<'a> {
    argument: &'a Argument,
    what: What,
}

#[derive(Clone, Debug)]
enum What {
    /// Lines of the text form.
    Lines(String),
    /// Parts of a dimension at a layer.
    Parts(String, String, u64),
}

fn wrong(message: impl Into<String>, span: Option<Span>) -> Diagnostic {
    mark(Diagnostic::error(codes::DECISIONS_FORM, message), span)
}

/// The diagnostic with a place, if it has none.
pub fn mark(d: Diagnostic, span: Option<Span>) -> Diagnostic {
    match span {
        Some(s) if d.marks.is_empty() => d.at(s, "of this step"),
        _ => d,
    }
}

impl<'a> Call<'a> {
    /// Reads the arguments.
    ///
    /// # Errors
    /// `E1203` for an argument that says nothing.
    pub fn read(args: &'a [Argument], span: Option<Span>) -> Result<Call<'a>, Diagnostic> {
        let mut call = Call { of: None, model: None, tiles: None, span, items: Vec::new() };
        for a in args {
            let place = a.span.or(span);
            let ArgValue::Expr(value) = &a.value else {
                return Err(wrong("a decision is not a step", place));
            };
            let what = match (a.name.as_deref(), value) {
                (None, Expr::Value(Value::Str(lines))) => What::Lines(lines.clone()),
                (Some("of"), Expr::Name(label)) => {
                    call.of = Some(label.clone());
                    continue;
                }
                (Some("model"), Expr::Name(m) | Expr::Value(Value::Str(m))) => {
                    call.model = Some(m.clone());
                    continue;
                }
                (Some("tiles"), Expr::Name(t)) if t == "partial" || t == "full" => {
                    call.tiles = Some(t == "partial");
                    continue;
                }
                (Some(key), Expr::Value(Value::Str(cells))) => {
                    What::Lines(format!("{} {cells}", key.replace('.', " ")))
                }
                (Some(key), Expr::Value(Value::Int(n))) => {
                    let path: Vec<&str> = key.split('.').collect();
                    match (path.as_slice(), u64::try_from(*n)) {
                        (["parts", dim, layer], Ok(n)) => {
                            What::Parts((*dim).to_string(), (*layer).to_string(), n)
                        }
                        (["parts", ..], Err(_)) => {
                            return Err(wrong(format!("`{n}` is not a number of parts"), place));
                        }
                        _ => return Err(unknown(key, place)),
                    }
                }
                (Some(key), other) => {
                    let d = wrong(format!("`{key}: {other}` fixes no decision"), place);
                    return Err(d.help("write decisions in quotes: `D1: \"[1 2] [3 4]\"`; a name that is not a parameter has no value"));
                }
                (None, other) => {
                    let d = wrong(format!("`{other}` fixes no decision"), place);
                    return Err(d.help("write `parts.i.COR: 2`, or lines of the text form in quotes"));
                }
            };
            call.items.push(Item { argument: a, what });
        }
        Ok(call)
    }

    /// What the call fixes for a computation; everything else is free. `usual` says which layer of the model does
    /// which layer of the computation where the call does not: `parts.i.COR` are the parts that cores do.
    ///
    /// # Errors
    /// What the text form refuses, at the argument; `E1204` for dimensions and layers that are not there.
    pub fn decisions(
        &self,
        h: &Homomorphism,
        model: &Model,
        usual: Option<&Decisions>,
    ) -> Result<Decisions, Diagnostic> {
        // The text form last wins line by line, so that all lines are one text, and single parts come after.
        let mut all = String::new();
        for item in &self.items {
            if let What::Lines(l) = &item.what {
                // Each for itself first: its mistakes have its place.
                text::parse(h, model, l).map_err(|d| mark(d, item.argument.span.or(self.span)))?;
                all += l;
                all.push('\n');
            }
        }
        let mut d = text::parse(h, model, &all).map_err(|d| mark(d, self.span))?;
        for item in &self.items {
            let What::Parts(dim, layer, n) = &item.what else { continue };
            let place = item.argument.span.or(self.span);
            let shape = |text: String, help: String| {
                mark(Diagnostic::error(codes::DECISIONS_SHAPE, text).help(help), place)
            };
            let Some(k) = h.dim(dim) else {
                let names: Vec<&str> = h.dims.iter().map(|d| d.name.as_str()).collect();
                return Err(shape(
                    format!("parts: `{}` has no dimension `{dim}`", h.name),
                    format!("its dimensions: {}", names.join(", ")),
                ));
            };
            let Some(l) = model.layer(layer) else {
                let names: Vec<&str> = (0..model.layers()).map(|l| model.layer_name(l)).collect();
                return Err(shape(
                    format!("parts: the model `{}` has no layer `{layer}`", model.name),
                    format!("its layers: {}", names.join(", ")),
                ));
            };
            let done_by = |of: &Decisions| {
                let all = Phase::ALL.into_iter().map(|p| &of.steps(p).assignment);
                let mine = |layer: &usize| all.clone().any(|t| t[*layer][k].is_some_and(|a| a.layer == l));
                (0..model.layers()).find(mine)
            };
            let layer = done_by(&d).or_else(|| usual.and_then(done_by)).unwrap_or(l);
            d.parts[layer][k] = Some(*n);
        }
        // The cost model uses partial tiles, so that they are forbidden only by name.
        d.partial_tiles |= self.tiles != Some(false);
        Ok(d)
    }

    /// The place of a violation: the argument whose decision the message names, else the step.
    pub fn blame(&self, d: Diagnostic) -> Diagnostic {
        let names = |item: &&Item| match &item.what {
            What::Parts(..) => d.message.contains("#PRT") || d.message.contains("parts"),
            What::Lines(l) => l.split_whitespace().take_while(|w| !w.starts_with('[')).any(|w| {
                let is_key = w == "parts" || (w.len() == 2 && w.starts_with(['D', 'S', 'R']));
                let shown = if w == "parts" { "#PRT" } else { w };
                is_key && (d.message.contains(shown) || d.message.contains(w))
            }),
        };
        let found = self.items.iter().find(names).and_then(|i| i.argument.span);
        mark(d, found.or(self.span))
    }
}

fn unknown(key: &str, place: Option<Span>) -> Diagnostic {
    wrong(format!("there is no decision `{key}` with a number"), place).help(
        "`parts.DIM.LAYER: n` is; the others are texts in quotes, and `of`, `model` and `tiles` are names",
    )
}

/// Decisions as the arguments of a step `mdh(…)` that fixes all of them.
pub fn as_call(h: &Homomorphism, model: &Model, d: &Decisions) -> String {
    let tiles = if d.partial_tiles { "partial" } else { "full" };
    let mut out = format!("mdh(of: {}, model: {}, tiles: {tiles}", h.name, model.name);
    for line in text::print(h, model, d).lines().skip(1).filter(|l| *l != "partial tiles") {
        let is_key = |w: &&str| {
            *w == "parts"
                || (w.len() == 2 && w.starts_with(['D', 'S', 'R']) && w.as_bytes()[1].is_ascii_digit())
        };
        let words: Vec<&str> = line.split_whitespace().collect();
        let keys = words.iter().take_while(|w| is_key(w)).count();
        // A buffer's name follows, unless there are none left to name.
        let named = words.get(keys).is_some_and(|w| !w.starts_with('['));
        let key = words[..keys + usize::from(named)].join(".");
        let cells = words[(keys + usize::from(named)).min(words.len())..].join(" ");
        out += &format!(",\n    {key}: \"{cells}\"");
    }
    out.push(')');
    out
}
