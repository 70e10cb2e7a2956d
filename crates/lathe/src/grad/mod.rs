//! Derivatives of kernels as kernels of their own: for the command, and for `kernel d = vjp(f)` in files.

mod check;

use crate::codes;
use crate::program::{Failure, Program};
pub use check::{GradCheck, check};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_grad::differentiate;
pub use lathe_grad::{Accumulation, Derivative, Kept, Mode, Request, codes as refusals, shadow_name};
use lathe_ir::{Function, Module};
use lathe_lang::{KernelInfo, Program as Lang};
use serde::Serialize;
use std::collections::BTreeMap;

/// Passes of the optimizer on the kernel and, after differentiation, on the derivative.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Passes {
    pub before: Vec<String>,
    pub after: Vec<String>,
}

impl Passes {
    /// The default: loop-invariant values are hoisted, and so are their adjoints;
    /// afterwards, values that both sweeps compute are computed once.
    pub fn usual() -> Passes {
        Passes::parse("inline, licm : cse, forward, cse, dse, dce, promote")
    }

    /// `inline, licm : cse, dce`; what is before the colon comes before differentiation.
    pub fn parse(text: &str) -> Passes {
        let names = |part: &str| names_of(part).map(str::to_string).collect();
        let (before, after) = text.split_once(':').unwrap_or((text, ""));
        Passes { before: names(before), after: names(after) }
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
    Ok(lathe_transform::optimize(module, func, &names).map_err(|r| *r.diagnostic)?.0)
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
    let names = |all: &[String]| all.iter().map(String::as_str).collect::<Vec<_>>().join(",");
    let func = optimized(module, func, &names(&passes.before))?;
    let mut d = differentiate(module, &func, request)?;
    d.func = optimized(module, &d.func, &names(&passes.after))?;
    Ok(d)
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
    lang.kernels.push(KernelInfo { name, span, doc });
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
    let mut errors = Vec::new();
    while !open.is_empty() {
        let ready = open.iter().position(|d| primal(lang, &d.of_kernel.text).is_some());
        let Some(n) = ready else {
            errors.extend(open.iter().map(|d| {
                let text = format!("`{}` is not a kernel that can be differentiated", d.of_kernel.text);
                Diagnostic::error(codes::NO_KERNEL, text).at(d.of_kernel.span, "of this")
            }));
            break;
        };
        let d = open.remove(n);
        let Some(f) = primal(lang, &d.of_kernel.text).cloned() else { continue };
        match one(&lang.module, &f, &d) {
            Ok(f) => {
                lang.module.functions.insert(f.name.clone(), f);
            }
            Err(e) => errors.push(if e.marks.is_empty() { e.at(d.span, "derived here") } else { e }),
        }
    }
    if errors.is_empty() { Ok(()) } else { Err(errors) }
}

/// The kernel that is differentiated; of a generic one, that for the usual types.
fn primal<'a>(lang: &'a Lang, name: &str) -> Option<&'a Function> {
    let chosen = lang.generics.get(name).and_then(|g| g.choose(&BTreeMap::new()).ok());
    lang.module.functions.get(chosen.unwrap_or(name))
}

fn one(module: &Module, f: &Function, d: &lathe_lang::Derived) -> Result<Function, Diagnostic> {
    let names = |all: &[lathe_lang::ast::Ident]| all.iter().map(|i| i.text.clone()).collect::<Vec<_>>();
    let request = |mode, name: &str| Request {
        wrt: names(&d.wrt),
        of: names(&d.of),
        value: mode == Mode::Forward || d.value,
        allow_steps: d.allow_steps,
        checkpoints: d.checkpoints,
        ..Request::new(mode, name)
    };
    let name = d.name.text.as_str();
    let passes = Passes::usual();
    let made = match d.rule.text.as_str() {
        "jvp" => differentiated(module, f, &request(Mode::Forward, name), &passes)?,
        "vjp" => differentiated(module, f, &request(Mode::Reverse, name), &passes)?,
        // Forward over reverse: how the cotangents change along a direction of the inputs.
        _ => {
            let first = Request { value: false, ..request(Mode::Reverse, name) };
            let before = Passes { after: Vec::new(), ..passes.clone() };
            let first = differentiated(module, f, &first, &before)?;
            let of = first.wrt.iter().map(|n| shadow_name(f, n, Mode::Reverse)).collect();
            let second = Request { wrt: first.wrt, of, ..Request::new(Mode::Forward, name) };
            let second = Request { allow_steps: d.allow_steps, ..second };
            differentiated(module, &first.func, &second, &passes)?
        }
    };
    Ok(made.func)
}
