//! Signatures of derived kernels, `kernel d = vjp(f)`, by those of what they are derived from: kernels call them before
//! they are made (by those who can differentiate). Their bodies are empty here.

use super::types::Globals;
use crate::ast::{self, Derived, Ident, Param, Type, TypeKind};
use lathe_ir::Scalar;
use std::collections::BTreeMap;
use std::sync::Arc;

/// Parameters of what is derived from. Each derivative of a derivative has up to twice as many; who makes one with more
/// than any program has refuses it.
const MOST_PARAMETERS: usize = 2_000;

/// Enters every derivative of a known kernel, in any order of the file; `funs` are the signatures of funs.
pub fn declare(all: &[&Derived], funs: &BTreeMap<String, ast::Kernel>, globals: &mut Globals) {
    let mut open: Vec<&Derived> =
        all.iter().filter(|d| !globals.kernels.contains_key(&d.name.text)).copied().collect();
    loop {
        let known = |d: &&Derived| {
            let of = &d.of_kernel.text;
            globals.kernels.get(of).map(|k| (**k).clone()).or_else(|| funs.get(of).cloned())
        };
        let Some((n, of)) = open.iter().enumerate().find_map(|(n, d)| Some((n, known(d)?))) else { return };
        let d = open.remove(n);
        if of.params.len() + of.results.len() > MOST_PARAMETERS {
            continue;
        }
        let made = signature(globals, &of, d);
        globals.derived.insert(d.name.text.clone());
        globals.kernels.entry(d.name.text.clone()).or_insert_with(|| Arc::new(made));
    }
}

fn signature(globals: &Globals, f: &ast::Kernel, d: &Derived) -> ast::Kernel {
    let names = |all: &[Ident]| all.iter().map(|i| i.text.clone()).collect::<Vec<_>>();
    let k = d.directions.as_ref();
    let made = match d.rule.text.as_str() {
        "vjp" => reverse(globals, f, &names(&d.wrt), &names(&d.of), d.value, k),
        "hvp" => {
            let first = reverse(globals, f, &names(&d.wrt), &names(&d.of), false, None);
            let by = chosen(globals, &f.params, &names(&d.wrt));
            let of = by.iter().map(|n| shadow(f, n, "bar")).collect::<Vec<_>>();
            forward(globals, &first, &by, &of, false, k)
        }
        rule => forward(globals, f, &names(&d.wrt), &names(&d.of), rule == "sparsity", k),
    };
    ast::Kernel { name: d.name.clone(), span: d.span, doc: d.doc.clone(), types: Vec::new(), ..made }
}

/// The parameters that are asked for; without names, all that hold floats.
fn chosen<'a>(globals: &Globals, all: impl IntoIterator<Item = &'a Param>, asked: &[String]) -> Vec<String> {
    let floats = |p: &Param| {
        let elem = globals.element(&p.ty, &mut Vec::new());
        elem.is_some_and(|t| t.leaves().into_iter().any(Scalar::is_float))
    };
    let fit = all.into_iter().filter(|p| floats(p) && (asked.is_empty() || asked.contains(&p.name.text)));
    fit.map(|p| p.name.text.clone()).collect()
}

fn outputs(f: &ast::Kernel) -> impl Iterator<Item = &Param> {
    f.params.iter().filter(|p| p.inout).chain(&f.results)
}

/// What the tangent or cotangent of a parameter is called.
fn shadow(f: &ast::Kernel, name: &str, suffix: &str) -> String {
    let base = format!("{name}_{suffix}");
    let taken = |n: &String| f.params.iter().chain(&f.results).any(|p| p.name.text == *n);
    let others = (2..).map(|n| format!("{base}{n}"));
    std::iter::once(base.clone()).chain(others).find(|n| !taken(n)).unwrap_or(base)
}

/// A tangent or cotangent, with one dimension more where there are several directions.
fn of_param(f: &ast::Kernel, p: &Param, suffix: &str, inout: bool, directions: Option<&Ident>) -> Param {
    let name = Ident { text: shadow(f, &p.name.text, suffix), span: p.name.span };
    let mut ty = p.ty.clone();
    if let Some(k) = directions {
        let extent = ast::Expr { kind: ast::ExprKind::Name(k.text.clone()), span: k.span, height: 1 };
        ty.extents.get_or_insert_default().push(extent);
    }
    Param { name, inout, ty }
}

fn reverse(
    globals: &Globals,
    f: &ast::Kernel,
    wrt: &[String],
    of: &[String],
    value: bool,
    directions: Option<&Ident>,
) -> ast::Kernel {
    let (by, asked) = (chosen(globals, &f.params, wrt), chosen(globals, outputs(f), of));
    let mut params: Vec<Param> =
        f.params.iter().map(|p| Param { inout: p.inout && value, ..p.clone() }).collect();
    let mut results = if value { f.results.clone() } else { Vec::new() };
    let mut gradients = Vec::new();
    for (p, out) in each(f) {
        let given = (out || p.inout) && asked.contains(&p.name.text);
        let made = !out && by.contains(&p.name.text);
        if !given && !made {
            continue;
        }
        let mut bar = of_param(f, p, "bar", given && made, directions);
        if given {
            // The cotangent of a number is an array of no dimensions.
            bar.ty.extents.get_or_insert_default();
        }
        if given { params.push(bar) } else { gradients.push(bar) }
    }
    results.extend(gradients);
    ast::Kernel { params, results, ..empty(f) }
}

/// Parameters, and whether they are outputs only.
fn each(f: &ast::Kernel) -> impl Iterator<Item = (&Param, bool)> {
    f.params.iter().map(|p| (p, false)).chain(f.results.iter().map(|p| (p, true)))
}

fn forward(
    globals: &Globals,
    f: &ast::Kernel,
    wrt: &[String],
    of: &[String],
    pattern: bool,
    directions: Option<&Ident>,
) -> ast::Kernel {
    let (by, asked) = (chosen(globals, &f.params, wrt), chosen(globals, outputs(f), of));
    let mut params: Vec<Param> =
        f.params.iter().map(|p| Param { inout: p.inout && !pattern, ..p.clone() }).collect();
    let mut results = if pattern { Vec::new() } else { f.results.clone() };
    for (p, out) in each(f) {
        let given = !out && by.contains(&p.name.text);
        let made = (out || p.inout) && asked.contains(&p.name.text);
        let mut dot = of_param(f, p, "dot", given && made, directions);
        if pattern {
            let name = Ident { text: Scalar::Bool.name().to_string(), span: p.ty.span };
            dot.ty = Type { kind: TypeKind::Name(name, Vec::new()), ..dot.ty };
        }
        if given {
            params.push(dot);
        } else if made {
            results.push(dot);
        }
    }
    ast::Kernel { params, results, ..empty(f) }
}

fn empty(f: &ast::Kernel) -> ast::Kernel {
    ast::Kernel { params: Vec::new(), results: Vec::new(), body: Vec::new(), types: Vec::new(), ..f.clone() }
}
