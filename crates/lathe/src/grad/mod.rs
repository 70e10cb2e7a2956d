//! Derivatives of kernels as kernels of their own: for the command, and for `kernel d = vjp(f)` in files.

mod called;
mod check;
mod given;

use crate::codes;
use crate::program::{Failure, Program};
pub use check::{GradCheck, check};
pub use given::{Evidence, evidence};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_grad::differentiate;
pub use lathe_grad::parallel::{How, InThreads, in_threads};
pub use lathe_grad::{Accumulation, Derivative, Kept, Mode, Request, codes as refusals, shadow_name};
use lathe_ir::{Function, Module};
use lathe_lang::{KernelInfo, Program as Lang};
use serde::Serialize;
use std::collections::{BTreeMap, BTreeSet};

/// What differentiation does itself, as the last pass before it and the first one after it: loops that are equivalent to index
/// notation are brought into it, and what both sweeps compute is removed.
const RAISE: &str = "raise";
const TIDY: &str = "tidy";

/// Passes of the optimizer on the kernel and, after differentiation, on the derivative. `raise` may be the last one before, and `tidy`
/// the first one after it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Passes {
    pub before: Vec<String>,
    pub after: Vec<String>,
}

impl Passes {
    /// The default: loop-invariant values are hoisted, and so are their adjoints;
    /// afterwards, values that both sweeps compute are computed once.
    pub fn usual() -> Passes {
        Passes::parse("inline, licm, raise : tidy, cse, forward, cse, dse, dce, promote")
    }

    /// `inline, licm : cse, dce`; what is before the colon comes before differentiation.
    pub fn parse(text: &str) -> Passes {
        let names = |part: &str| names_of(part).map(str::to_string).collect();
        let (before, after) = text.split_once(':').unwrap_or((text, ""));
        Passes { before: names(before), after: names(after) }
    }
}

impl Default for Passes {
    /// None of the optimizer.
    fn default() -> Passes {
        Passes::parse("raise : tidy")
    }
}

/// The names of a list with commas.
fn names_of(list: &str) -> impl Iterator<Item = &str> {
    list.split(',').map(str::trim).filter(|n| !n.is_empty())
}

/// Applies passes of the optimizer (`inline, cse, dce`) to a function as it is: index notation stays.
///
/// # Errors
/// `E0620` for an unknown pass.
pub fn optimized(module: &Module, func: &Function, passes: &str) -> Result<Function, Diagnostic> {
    let names: Vec<&str> = names_of(passes).collect();
    lathe_transform::optimized(module, func, &names).map_err(|r| *r.diagnostic)
}

/// The derivative of a kernel, with passes before and after.
///
/// # Errors
/// What cannot be differentiated, by `E13xx`; `E0620` for an unknown pass.
pub fn differentiated(
    module: &Module,
    func: &Function,
    request: &Request,
    passes: &Passes,
) -> Result<Derivative, Diagnostic> {
    let (before, raise) = raised(&passes.before);
    let (tidy, after) = match passes.after.split_first() {
        Some((first, rest)) if first == TIDY => (true, rest),
        _ => (false, &passes.after[..]),
    };
    let request = Request { raise: request.raise && raise, tidy: request.tidy && tidy, ..request.clone() };
    let func = passed(module, func, before)?;
    let mut d = differentiate(module, &func, &request)?;
    d.func = passed(&d.within(module), &d.func, after)?;
    Ok(d)
}

/// The passes of the optimizer before differentiation, and whether it begins with [`RAISE`].
fn raised(before: &[String]) -> (&[String], bool) {
    match before.split_last() {
        Some((last, rest)) if last == RAISE => (rest, true),
        _ => (before, false),
    }
}

fn passed(module: &Module, func: &Function, passes: &[String]) -> Result<Function, Diagnostic> {
    if let Some(name) = passes.iter().find(|n| [RAISE, TIDY].contains(&n.as_str())) {
        let text = format!("`{name}` is not a pass that can be applied here");
        let help = "`raise` is the last pass before differentiation, `tidy` the first one after it";
        return Err(Diagnostic::error(lathe_transform::codes::ARGUMENT, text).help(help));
    }
    optimized(module, func, &passes.join(","))
}

/// Adds a kernel's derivative to a program, as one more kernel, and says what is known of it.
///
/// # Errors
/// What cannot be differentiated, by `E13xx`.
pub fn derive(
    program: &mut Program,
    kernel: &Function,
    request: &Request,
    passes: &Passes,
) -> Result<Derivative, Failure> {
    let lang = &mut program.lang;
    // The file may have a derivative of that name already.
    let others = (2..).map(|n| format!("{}{n}", request.name));
    let free = |n: &String| !lang.module.functions.contains_key(n.as_str());
    let name = std::iter::once(request.name.clone()).chain(others).find(free).unwrap_or_default();
    let request = Request { name: name.clone(), ..request.clone() };
    let d = differentiated(&lang.module, kernel, &request, passes)
        .map_err(|d| Failure::one(&program.sources, d))?;
    let of = lang.kernels.iter().find(|k| *k.name == *kernel.name);
    let span = of.map_or(Span::new(FileId(0), 0, 0), |k| k.span);
    let doc = format!("Derived from `{}`.", kernel.name);
    lang.kernels.push(KernelInfo { name, span, doc, sites: Vec::new() });
    lang.module = d.within(&lang.module);
    lang.module.functions.insert(d.func.name.clone(), d.func.clone());
    Ok(d)
}

/// The program with a function for every `kernel d = vjp(f)` of its file, in any order of the file.
///
/// # Errors
/// What cannot be differentiated, and derivatives of nothing or of themselves.
pub(crate) fn filled(mut program: Program) -> Result<Program, Failure> {
    match fill(&mut program.lang) {
        Ok(()) => Ok(program),
        Err(diagnostics) => Err(Failure { sources: program.sources, diagnostics }),
    }
}

fn fill(lang: &mut Lang) -> Result<(), Vec<Diagnostic>> {
    let mut open: Vec<lathe_lang::Derived> = std::mem::take(&mut lang.derived);
    let mut rules: Vec<lathe_lang::Derivative> = std::mem::take(&mut lang.derivatives);
    let mut errors = trees(lang);
    let derived: BTreeSet<String> = open.iter().map(|d| d.name.text.clone()).collect();
    // What a kernel calls is written out before anybody asks for it.
    let mut waiting: BTreeMap<String, BTreeSet<String>> = BTreeMap::new();
    for f in lang.module.functions.values() {
        waiting.insert(f.name.to_string(), called::called(f, &derived));
    }
    waiting.retain(|_, all| !all.is_empty());
    loop {
        let made = |name: &String| lang.module.functions.contains_key(name.as_str());
        if let Some(caller) = waiting.iter().find(|(_, all)| all.iter().all(made)).map(|(f, _)| f.clone()) {
            let all = waiting.remove(&caller).unwrap_or_default();
            if let Some(f) = lang.module.functions.get(caller.as_str()) {
                let f = called::written_out(&lang.module, f, &all);
                lang.module.functions.insert(f.name.clone(), f);
            }
            continue;
        }
        let whole =
            |lang: &Lang, name: &str| primal(lang, name).filter(|f| !waiting.contains_key(&*f.name)).cloned();
        // Rules come before the derivatives that they are for.
        let ready =
            |r: &lathe_lang::Derivative| [&r.of, &r.rule].iter().all(|k| whole(lang, &k.text).is_some());
        if let Some(n) = rules.iter().position(ready) {
            let r = rules.remove(n);
            if let Err(e) = register(lang, &r) {
                errors.push(e.at(r.span, "given here"));
            }
            continue;
        }
        let ready = open.iter().position(|d| {
            let given = rules.iter().any(|r| stands_for(lang, &r.of.text, &d.of_kernel.text));
            !given && whole(lang, &d.of_kernel.text).is_some()
        });
        let Some(n) = ready else { break };
        let d = open.remove(n);
        let Some(f) = whole(lang, &d.of_kernel.text) else { continue };
        match one(&lang.module, &f, &d) {
            Ok(d) => {
                lang.module = d.within(&lang.module);
                lang.module.functions.insert(d.func.name.clone(), d.func);
            }
            Err(e) => errors.push(if e.marks.is_empty() { e.at(d.span, "derived here") } else { e }),
        }
    }
    for t in &mut lang.tests {
        let all = called::called(&t.expected, &derived);
        if !all.is_empty() {
            t.expected = called::written_out(&lang.module, &t.expected, &all);
        }
    }
    errors.extend(left(lang, &open, &rules, &waiting));
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// Why derivatives and rules were left.
fn left(
    lang: &Lang,
    open: &[lathe_lang::Derived],
    rules: &[lathe_lang::Derivative],
    waiting: &BTreeMap<String, BTreeSet<String>>,
) -> Vec<Diagnostic> {
    let mut errors = Vec::new();
    let waits =
        |name: &str| rules.iter().any(|r| stands_for(lang, &r.of.text, name)) && primal(lang, name).is_some();
    for d in open {
        let name = &d.of_kernel.text;
        let calls = primal(lang, name).and_then(|f| waiting.get(&*f.name));
        let text = match calls {
            // What it calls has a message of its own, unless that is a derivative of it.
            Some(all) if !all.iter().any(|n| open.iter().any(|o| o.name.text == *n)) => continue,
            Some(_) => format!("`{name}` calls a derivative that is made of it"),
            None if waits(name) => {
                format!("the derivative that the file gives of `{name}` is made of itself, or missing")
            }
            None => format!("`{name}` is not a kernel that can be differentiated"),
        };
        errors.push(Diagnostic::error(codes::NO_KERNEL, text).at(d.of_kernel.span, "of this"));
    }
    for k in rules.iter().flat_map(|r| [&r.of, &r.rule]) {
        let derived = || open.iter().any(|d| d.name.text == k.text);
        if primal(lang, &k.text).is_none() && !derived() {
            let text = format!("there is no kernel `{}`", k.text);
            errors.push(Diagnostic::error(codes::NO_KERNEL, text).at(k.span, "not found"));
        }
    }
    errors
}

/// Decides the derivatives that a tree gives.
fn trees(lang: &Lang) -> Vec<Diagnostic> {
    let m = &lang.module;
    let pairs = m.derivatives.iter().flat_map(|(f, rules)| rules.iter().map(move |g| (f, g)));
    let known = pairs.filter_map(|(f, g)| Some((m.functions.get(f)?, m.functions.get(g)?)));
    known.filter_map(|(f, g)| evidence(m, f, g).err()).collect()
}

/// Enters a derivative that a file gives; of generic kernels, for every choice of types that both have.
fn register(lang: &mut Lang, r: &lathe_lang::Derivative) -> Result<(), Diagnostic> {
    let pairs: Vec<(String, String)> = match (lang.generics.get(&r.of.text), lang.generics.get(&r.rule.text))
    {
        (Some(f), Some(g)) => {
            let same =
                |types: &Vec<lathe_ir::Type>| g.choices.iter().find(|c| c.0 == *types).map(|c| c.1.clone());
            f.choices.iter().filter_map(|(types, name)| Some((name.clone(), same(types)?))).collect()
        }
        _ => {
            let name = |k: &str| primal(lang, k).map(|f| f.name.to_string());
            name(&r.of.text).zip(name(&r.rule.text)).into_iter().collect()
        }
    };
    for (of, rule) in pairs {
        let m = &mut lang.module;
        let (Some(f), Some(g)) = (m.functions.get(of.as_str()), m.functions.get(rule.as_str())) else {
            continue;
        };
        let mode = lathe_grad::custom::fits(f, g)?;
        if let Some(other) = lathe_grad::custom::rule_of(m, f, mode) {
            let text = format!("`{of}` has the derivative `{}` already", other.name);
            return Err(Diagnostic::error(refusals::RULE, text));
        }
        evidence(m, f, g)?;
        let (of, rule) = (f.name.clone(), g.name.clone());
        m.derivatives.entry(of).or_default().push(rule);
    }
    Ok(())
}

/// Whether a kernel has this name, or is generic and has this choice.
fn stands_for(lang: &Lang, name: &str, kernel: &str) -> bool {
    let chosen = |g: &lathe_lang::Generic| g.choices.iter().any(|c| c.1 == kernel);
    name == kernel || lang.generics.get(name).is_some_and(chosen)
}

/// The kernel that is differentiated; of a generic one, that for the usual types.
fn primal<'a>(lang: &'a Lang, name: &str) -> Option<&'a Function> {
    let chosen = lang.generics.get(name).and_then(|g| g.choose(&BTreeMap::new()).ok());
    lang.module.functions.get(chosen.unwrap_or(name))
}

fn one(module: &Module, f: &Function, d: &lathe_lang::Derived) -> Result<Derivative, Diagnostic> {
    let names = |all: &[lathe_lang::ast::Ident]| all.iter().map(|i| i.text.clone()).collect::<Vec<_>>();
    let request = |mode, name: &str| Request {
        wrt: names(&d.wrt),
        of: names(&d.of),
        value: mode == Mode::Forward || d.value,
        allow_steps: d.allow_steps,
        checkpoints: d.checkpoints,
        directions: d.directions.as_ref().map(|i| i.text.clone()),
        ..Request::new(mode, name)
    };
    let name = d.name.text.as_str();
    let passes = Passes::usual();
    match d.rule.text.as_str() {
        "jvp" => differentiated(module, f, &request(Mode::Forward, name), &passes),
        "vjp" => differentiated(module, f, &request(Mode::Reverse, name), &passes),
        "sparsity" => {
            let func = passed(module, f, raised(&passes.before).0)?;
            let mut d = lathe_grad::sparsity(module, &func, &request(Mode::Forward, name))?;
            d.func = passed(module, &d.func, &passes.after[1..])?;
            Ok(d)
        }
        // Forward over reverse: how the cotangents change along a direction of the inputs.
        _ => {
            let first = Request { value: false, directions: None, ..request(Mode::Reverse, name) };
            let before = Passes { after: Vec::new(), ..passes.clone() };
            let first = differentiated(module, f, &first, &before)?;
            let of = first.wrt.iter().map(|n| shadow_name(f, n, Mode::Reverse)).collect();
            let second = Request { wrt: first.wrt.clone(), of, ..Request::new(Mode::Forward, name) };
            let directions = d.directions.as_ref().map(|i| i.text.clone());
            let second = Request { allow_steps: d.allow_steps, directions, ..second };
            let mut d = differentiated(&first.within(module), &first.func, &second, &passes)?;
            d.also.splice(0..0, first.also);
            Ok(d)
        }
    }
}
