//! From a file and what it uses to a [`Program`].

use crate::ast::{self, Item};
use crate::codes;
use crate::lower::{self, Globals, kernel::is_error};
use crate::parse::parse;
use crate::suggest::nearest;
use crate::{KernelInfo, Program, Resolver};
use lathe_diagnostics::{Diagnostic, SourceMap, Span};
use lathe_ir::Module;
use std::collections::HashSet;

const PRELUDE: &str = include_str!("prelude.lathe");

/// Items of all files, imported ones first; `main` says which belong to the file itself.
struct Loaded {
    items: Vec<(Item, bool)>,
    errors: Vec<Diagnostic>,
}

/// Loads a file: parses it and what it uses, resolves names, checks types, infers ranges, lowers.
///
/// `name` is the canonical name of the file: `resolver` gives names of the same kind for `use "file"`.
/// Warnings come beside the program.
///
/// # Errors
/// Every error that was found, in the order of the source.
pub fn load(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    resolver: &mut dyn Resolver,
) -> Result<(Program, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut all = Loaded { items: Vec::new(), errors: Vec::new() };
    let mut seen = HashSet::from([name.to_string()]);
    let prelude = map.add("prelude.lathe", PRELUDE);
    let (file, errors) = parse(prelude, PRELUDE);
    all.errors.extend(errors);
    all.items.extend(file.items.into_iter().map(|i| (i, false)));
    add(map, name, text, resolver, true, &mut seen, &mut all);
    let mut errors = all.errors;
    let program = lower_all(map, &all.items, &mut errors);
    // Imported files have smaller numbers or larger ones; within a file, messages follow the source.
    errors.sort_by_key(|d| d.marks.first().map(|m| (m.span.file, m.span.start)));
    if errors.iter().any(is_error) { Err(errors) } else { Ok((program, errors)) }
}

/// Parses a file and, first, what it uses.
fn add(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    resolver: &mut dyn Resolver,
    main: bool,
    seen: &mut HashSet<String>,
    all: &mut Loaded,
) {
    let id = map.add(name, text);
    let (file, errors) = parse(id, text);
    all.errors.extend(errors);
    for item in &file.items {
        let Item::Use { file: used, span } = item else { continue };
        match resolver.load(name, used) {
            Ok((canonical, text)) => {
                // A file that is used twice, or in a circle, is loaded once.
                if seen.insert(canonical.clone()) {
                    add(map, &canonical, &text, resolver, false, seen, all);
                }
            }
            Err(why) => all.errors.push(
                Diagnostic::error(codes::USE, format!("cannot use \"{used}\": {why}"))
                    .at(*span, "not loaded"),
            ),
        }
    }
    all.items.extend(file.items.into_iter().map(|i| (i, main)));
}

fn lower_all(map: &SourceMap, items: &[(Item, bool)], errors: &mut Vec<Diagnostic>) -> Program {
    let mut globals = Globals::default();
    for (item, _) in items {
        match item {
            Item::Struct(s) => globals.declare_struct(s, errors),
            Item::Kernel(k) => globals.callables.push(k.name.text.clone()),
            Item::Fun(f) => globals.callables.push(f.name.text.clone()),
            _ => {}
        }
    }
    for (item, _) in items {
        if let Item::Op(op) = item
            && let Some(o) = lower::ops::combine_op(op, &globals, map, errors)
        {
            globals.ops.insert(op.name.text.clone(), (o, op.name.span));
        }
    }
    let mut program = Program::default();
    let mut kernels: Vec<&ast::Kernel> = Vec::new();
    for (item, main) in items {
        let (what, name) = match item {
            Item::Kernel(k) => {
                if let Some(first) = kernels.iter().find(|o| o.name.text == k.name.text) {
                    errors.push(lower::types::duplicate("kernel", &k.name, first.name.span));
                    continue;
                }
                kernels.push(k);
                if let Some(f) = lower::kernel::kernel(k, &globals, map, errors) {
                    program.module.functions.insert(f.name.clone(), f);
                }
                if *main {
                    let name = k.name.text.clone();
                    program.kernels.push(KernelInfo { name, span: k.name.span, doc: k.doc.clone() });
                }
                continue;
            }
            Item::Fun(f) => ("functional programs (`fun`)", &f.name),
            Item::Rule(r) => ("rules of one's own (`rule`)", &r.name),
            _ => continue,
        };
        errors.push(
            Diagnostic::error(codes::NOT_YET, format!("{what} are not available yet"))
                .at(name.span, "declared here")
                .help("kernels say the same with index notation"),
        );
    }
    strategies(items, &kernels, &mut program, errors);
    tests(map, items, &kernels, &globals, &mut program, errors);
    let Module { structs, ops, .. } = &mut program.module;
    structs.extend(globals.structs.into_values().map(|(s, _)| (s.name.clone(), s)));
    ops.extend(globals.ops.into_values().map(|(o, _)| (o.name.clone(), o)));
    program
}

/// Strategies for any target, and those for kernels that there are; unique per name and target.
fn strategies(
    items: &[(Item, bool)],
    kernels: &[&ast::Kernel],
    program: &mut Program,
    errors: &mut Vec<Diagnostic>,
) {
    let mut places: Vec<Span> = Vec::new();
    for (item, _) in items {
        let Item::Strategy(s) = item else { continue };
        if let Some(t) = &s.target
            && !unknown_kernel(t, kernels, "strategy", errors)
        {
            continue;
        }
        let d = &s.definition;
        let same = program.strategies.iter().position(|o| o.name == d.name && o.target == d.target);
        if let Some(n) = same {
            let mut e = lower::types::duplicate("strategie", &s.name, places[n]);
            e.message = match &d.target {
                Some(t) => format!("two strategies for `{t}` are called `{}`", d.name),
                None => format!("two strategies are called `{}`", d.name),
            };
            errors.push(e);
            continue;
        }
        let mut names = HashSet::new();
        for p in &d.params {
            if !names.insert(&p.name) {
                errors.push(
                    Diagnostic::error(codes::DUPLICATE, format!("two parameters are called `{}`", p.name))
                        .at(s.name.span, "of this strategy"),
                );
            }
        }
        places.push(s.name.span);
        program.strategies.push(d.clone());
    }
}

fn tests(
    map: &SourceMap,
    items: &[(Item, bool)],
    kernels: &[&ast::Kernel],
    globals: &Globals,
    program: &mut Program,
    errors: &mut Vec<Diagnostic>,
) {
    let mut number = 0;
    for (item, main) in items {
        let Item::Test(t) = item else { continue };
        if !main {
            continue;
        }
        number += 1;
        if !unknown_kernel(&t.kernel, kernels, "test", errors) {
            continue;
        }
        let Some(k) = kernels.iter().find(|k| k.name.text == t.kernel.text) else { continue };
        // A kernel with errors has its own messages.
        let Some(f) = program.module.functions.get(t.kernel.text.as_str()) else { continue };
        program.tests.extend(lower::tests::test(t, number, k, f, globals, map, errors));
    }
}

/// Reports a target that is no kernel; true if it is one.
fn unknown_kernel(
    t: &ast::Ident,
    kernels: &[&ast::Kernel],
    what: &str,
    errors: &mut Vec<Diagnostic>,
) -> bool {
    if kernels.iter().any(|k| k.name.text == t.text) {
        return true;
    }
    let names = || kernels.iter().map(|k| k.name.text.as_str());
    let mut d = Diagnostic::error(codes::TARGET, format!("there is no kernel `{}`", t.text))
        .at(t.span, format!("the {what} is for it"));
    if let Some(n) = nearest(&t.text, names()) {
        d = d.help(format!("did you mean `{n}`?"));
    } else if kernels.is_empty() {
        d = d.help("the file has no kernel");
    } else {
        d = d.help(format!("there are {}", names().collect::<Vec<_>>().join(", ")));
    }
    errors.push(d);
    false
}
