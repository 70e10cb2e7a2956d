//! Kernels in files with their derivatives (`tests/files`; see `lathe_filetest`), printed, and compared with differences and
//! with one another at all `#: sizes`.
//!
//! | case | gives |
//! |---|---|
//! | `#: forward`, `#: reverse` | the derived function, and what it keeps between the sweeps |
//! | `#: sparsity` | the function of dependences, whose results bound those of forward mode |
//! | `#: second` | the tangents of the cotangents; all derivatives of derivatives are compared |
//!
//! Behind the word may stand `wrt A, B`, `of C`, `value`, `steps` (which count as locally constant), and how many
//! checkpoints loops have.

use crate::common::{NoFiles, Outcome, VALUES, compare};
use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_filetest::{Found, Front, Given, Loaded};
use lathe_grad::{Derivative, Mode, Request, differentiate, shadow_name, sparsity, widened};
use lathe_ir::text::{Ids, Scope, print_expr, print_function_with};
use lathe_ir::{Function, Module};

struct Derivatives;

impl Front for Derivatives {
    fn load(&self, map: &mut SourceMap, name: &str, text: &str) -> Loaded {
        if name.ends_with(".tree") {
            return lathe_filetest::load_tree(map, name, text);
        }
        match lathe_lang::load(map, name, text, &mut NoFiles) {
            Err(messages) => Loaded { module: None, messages },
            Ok((p, messages)) => Loaded { module: Some(p.module), messages },
        }
    }

    fn values(&self) -> &'static str {
        VALUES
    }

    fn words(&self) -> &'static [&'static str] {
        &["forward", "reverse", "second", "sparsity"]
    }

    fn case(&self, word: &str, rest: &str, given: &Given) -> Result<Result<Found, Diagnostic>, String> {
        let (module, func) = given.function()?;
        let ask = request(if word == "forward" { Mode::Forward } else { Mode::Reverse }, rest)?;
        if given.inputs.is_empty() {
            return Err("no `#: sizes` before it".into());
        }
        let made = match derivative(module, func, word, &ask) {
            Ok(made) => made,
            Err(d) => return Ok(Err(d)),
        };
        let all = made.within(module);
        let errors = lathe_ir::verify::verify_function(&all, &made.func);
        let wrong =
            errors.first().map(ToString::to_string).or_else(|| differs(module, func, word, &ask, given));
        let mut text = print_function_with(&made.func, Ids::Hidden);
        made.also.iter().for_each(|f| text += &print_function_with(f, Ids::Hidden));
        let scope = Scope::of_function(&made.func);
        for k in &made.kept {
            let extents: Vec<String> = k.extents.iter().map(|e| print_expr(e, &scope)).collect();
            text += &format!("keeps {} for '{}': {}[{}]\n", k.of, k.label, k.elem, extents.join(", "));
        }
        Ok(Ok(Found { text, wrong }))
    }
}

fn derivative(module: &Module, func: &Function, word: &str, ask: &Request) -> Result<Derivative, Diagnostic> {
    if word == "sparsity" {
        return sparsity(module, func, &Request { name: word.into(), ..ask.clone() });
    }
    let first = differentiate(module, func, ask)?;
    if word != "second" {
        return Ok(first);
    }
    let of = first.wrt.iter().map(|n| shadow_name(func, n, Mode::Reverse)).collect();
    let ask = Request { wrt: first.wrt.clone(), of, name: "second".into(), ..ask.clone() };
    let all = first.within(module);
    let mut second = differentiate(&all, &first.func, &Request { mode: Mode::Forward, value: true, ..ask })?;
    second.also.splice(0..0, first.also);
    Ok(second)
}

/// How a derivative is none, at any of the sizes.
fn differs(module: &Module, func: &Function, word: &str, ask: &Request, given: &Given) -> Option<String> {
    let (module, func) = widened(module, func);
    let order = if word == "second" { 2 } else { 1 };
    given.inputs.iter().find_map(|at| match compare(&module, &func, ask, at, order) {
        Outcome::Agrees => None,
        Outcome::Differs(how) => Some(format!("at `{at}`: {how}")),
        Outcome::Large => Some(format!("at `{at}`: values are too large to be compared")),
        Outcome::Refused => Some(format!("at `{at}`: a derivative has no derivative")),
    })
}

/// `wrt A, B of C value steps`.
fn request(mode: Mode, text: &str) -> Result<Request, String> {
    let mut ask = Request::new(mode, if mode == Mode::Forward { "jvp" } else { "vjp" });
    let mut list: Option<bool> = None;
    for word in text.split([' ', ',', '\n']).filter(|w| !w.is_empty()) {
        match (word, list) {
            ("wrt", _) => list = Some(true),
            ("of", _) => list = Some(false),
            ("value", _) => ask.value = true,
            ("steps", _) => ask.allow_steps = true,
            (number, _) if number.parse::<u16>().is_ok() => ask.checkpoints = number.parse().ok(),
            (name, Some(true)) => ask.wrt.push(name.to_string()),
            (name, Some(false)) => ask.of.push(name.to_string()),
            (word, None) => return Err(format!("`{word}` says nothing of a derivative")),
        }
    }
    Ok(ask)
}

#[test]
fn files_do_as_they_say() {
    lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files"), &Derivatives);
}
