//! From a file and what it uses to a [`Program`].

use crate::ast::{self, Item};
use crate::codes;
use crate::generic;
use crate::lower::{self, Globals, kernel::is_error, scalar_fun::ScalarFun};
use crate::parse::parse;
use crate::{Fun, KernelInfo, Program, Resolver, Rule};
use lathe_diagnostics::nearest;
use lathe_diagnostics::{Diagnostic, FileId, SourceMap, Span};
use lathe_ir::{Module, Name};
use lathe_pattern::ast::{FunAst, RuleAst};
use lathe_pattern::rules::Equation;
use lathe_strategy::parse::NORMALIZE;
use lathe_strategy::{ArgValue, Definition, Strategy};
use std::collections::{HashMap, HashSet};

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
    load_all(map, name, text, resolver, &[], None)
}

/// As [`load`], with the `print` and `assert` of one kernel, which writes what they show to a last parameter
/// ([`lower::debug`]). Those of kernels that it calls are left out, and so are all tests.
///
/// # Errors
/// As [`load`].
pub fn load_debugging(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    resolver: &mut dyn Resolver,
    kernel: &str,
) -> Result<(Program, Vec<Diagnostic>), Vec<Diagnostic>> {
    load_all(map, name, text, resolver, &[], Some(kernel))
}

/// As [`load`], for a text beside kernels that are written in another notation: strategies may be for those, too.
///
/// # Errors
/// As [`load`].
pub fn load_beside(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    resolver: &mut dyn Resolver,
    elsewhere: &[&str],
) -> Result<(Program, Vec<Diagnostic>), Vec<Diagnostic>> {
    load_all(map, name, text, resolver, elsewhere, None)
}

fn load_all(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    resolver: &mut dyn Resolver,
    elsewhere: &[&str],
    debug: Option<&str>,
) -> Result<(Program, Vec<Diagnostic>), Vec<Diagnostic>> {
    let mut all = Loaded { items: Vec::new(), errors: Vec::new() };
    let mut seen = HashSet::from([name.to_string()]);
    let prelude = map.add("prelude.lathe", PRELUDE);
    let (file, errors) = parse(prelude, PRELUDE);
    all.errors.extend(errors);
    let prelude = definitions(file.items);
    let main = add(map, name, text, resolver, true, &mut seen, &mut all);
    let mut errors = all.errors;
    let (items, generics) = generic::expand(all.items, &mut errors);
    let mut program = lower_all(map, prelude, &items, elsewhere, debug, &mut errors);
    program.file = Some(main);
    if !generics.is_empty() {
        // What is wrong with a generic kernel is wrong with each that it stands for.
        let mut seen = HashSet::new();
        errors.retain(|d| d.marks.first().is_none_or(|m| seen.insert((d.code, m.span))));
    }
    program.generics = generics;
    // Imported files have smaller numbers or larger ones; within a file, messages follow the source.
    errors.sort_by_key(|d| d.marks.first().map(|m| (m.span.file, m.span.start)));
    if errors.iter().any(is_error) { Err(errors) } else { Ok((program, errors)) }
}

/// Parses a file and, first, what it uses; its number.
fn add(
    map: &mut SourceMap,
    name: &str,
    text: &str,
    resolver: &mut dyn Resolver,
    main: bool,
    seen: &mut HashSet<String>,
    all: &mut Loaded,
) -> FileId {
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
    id
}

fn lower_all(
    map: &mut SourceMap,
    prelude: Vec<Definition>,
    items: &[(Item, bool)],
    elsewhere: &[&str],
    debug: Option<&str>,
    errors: &mut Vec<Diagnostic>,
) -> Program {
    let mut globals = Globals::default();
    for (item, _) in items {
        match item {
            Item::Struct(s) => globals.declare_struct(s, errors),
            Item::Kernel(k) => {
                globals.callables.push(k.name.text.clone());
                globals.kernels.entry(k.name.text.clone()).or_insert_with(|| k.clone().into());
            }
            Item::Fun(f, _) => globals.callables.push(f.name.to_string()),
            _ => {}
        }
    }
    // Kernels call funs that stand anywhere in the file.
    let mut program = Program { prelude, ..Program::default() };
    let mut headers = HashMap::new();
    for (item, _) in items {
        if let Item::Fun(f, _) = item
            && !program.funs.contains_key(&*f.name)
        {
            headers.insert(f.name_span, fun(f, &mut program, errors));
            let scalar = program.module.functions.get(&f.name).and_then(ScalarFun::of);
            globals.funs.extend(scalar.map(|s| (f.name.to_string(), s)));
        }
    }
    let derived: Vec<&ast::Derived> =
        items.iter().filter_map(|(i, _)| if let Item::Derived(d) = i { Some(d) } else { None }).collect();
    let typed = headers.values().flatten().map(|k: &ast::Kernel| (k.name.text.clone(), k.clone()));
    lower::derived::declare(&derived, &typed.collect(), &mut globals);
    for (item, _) in items {
        if let Item::Op(op) = item
            && let Some(o) = lower::ops::combine_op(op, &globals, map, errors)
        {
            globals.ops.insert(op.name.text.clone(), (o, op.name.span));
        }
    }
    let mut targets: Vec<Target> = Vec::new();
    for (item, main) in items {
        let (what, name, span) = match item {
            Item::Kernel(k) => ("kernel", k.name.text.as_str(), k.name.span),
            Item::Fun(f, _) => ("fun", &*f.name, f.name_span),
            Item::Derived(d) => ("kernel", d.name.text.as_str(), d.name.span),
            Item::Rule(r) => {
                rule(map, r, &mut program, errors);
                continue;
            }
            Item::Derivative(d) => {
                // Derivatives are of kernels that are not debugged.
                if debug.is_none_or(|k| d.of.text != k && d.rule.text != k) {
                    program.derivatives.push(d.clone());
                }
                continue;
            }
            _ => continue,
        };
        if let Some(first) = targets.iter().find(|t| t.name == name) {
            let ident = ast::Ident { text: name.to_string(), span };
            errors.push(lower::types::duplicate(what, &ident, first.span));
            continue;
        }
        let mut sites = Vec::new();
        let (header, doc) = match item {
            Item::Kernel(k) => {
                let debug = debug == Some(k.name.text.as_str());
                if let Some((f, shows)) = lower::kernel::debugged(k, &globals, map, errors, debug) {
                    program.module.functions.insert(f.name.clone(), f);
                    sites = shows;
                }
                (Some(k.clone()), k.doc.clone())
            }
            Item::Fun(f, doc) => (headers.remove(&f.name_span).flatten(), doc.clone()),
            // Its function is made once all kernels are there, by those who can differentiate.
            Item::Derived(d) => {
                if debug.is_none_or(|k| !comes_from(d, k, &derived)) {
                    program.derived.push(d.clone());
                }
                (None, d.doc.clone())
            }
            _ => continue,
        };
        if *main && (what == "kernel" || program.module.functions.contains_key(name)) {
            program.kernels.push(KernelInfo { name: name.to_string(), span, doc, sites });
        }
        targets.push(Target { name, span, header, is_fun: what == "fun" });
    }
    if !program.funs.is_empty() {
        let file = map.add("patterns.lathe", lathe_pattern::library::LIBRARY);
        let (library, more) = parse(file, lathe_pattern::library::LIBRARY);
        errors.extend(more);
        program.library = definitions(library.items);
    }
    strategies(items, &targets, elsewhere, &mut program, errors);
    // A kernel that is debugged has a parameter more than its tests know.
    if debug.is_none() {
        tests(map, items, &targets, &globals, &mut program, errors);
    }
    let Module { structs, ops, .. } = &mut program.module;
    structs.extend(globals.structs.into_values().map(|(s, _)| (s.name.clone(), s)));
    let places: HashMap<Name, Span> = globals.ops.values().map(|(o, span)| (o.name.clone(), *span)).collect();
    ops.extend(globals.ops.into_values().map(|(o, _)| (o.name.clone(), o)));
    if !errors.iter().any(is_error) {
        // What an operator declares is believed by everyone who reorders: it is decided before it is used.
        let broken = lathe_prove::operator::broken(&program.module);
        errors.extend(broken.into_iter().map(|(name, broken)| match places.get(&name) {
            Some(span) => broken.diagnostic().at(*span, "declared here"),
            None => broken.diagnostic(),
        }));
    }
    program
}

/// Whether a derivative is one of a kernel, or of its derivatives.
fn comes_from(d: &ast::Derived, kernel: &str, all: &[&ast::Derived]) -> bool {
    let mut of = &d.of_kernel.text;
    for _ in all {
        match all.iter().find(|o| o.name.text == *of) {
            Some(o) if *of != kernel => of = &o.of_kernel.text,
            _ => break,
        }
    }
    of == kernel
}

/// What strategies and tests can be for.
struct Target<'a> {
    name: &'a str,
    span: Span,
    /// Its signature; a fun without kernel has none.
    header: Option<ast::Kernel>,
    is_fun: bool,
}

/// Types a fun and translates it; its signature as a kernel, if it has one.
fn fun(f: &FunAst, program: &mut Program, errors: &mut Vec<Diagnostic>) -> Option<ast::Kernel> {
    let known = program.funs.iter().map(|(n, f)| (n.as_str().into(), f.program.clone())).collect();
    let mut typed = lathe_pattern::Program::new(f, &known).map_err(|d| errors.push(d)).ok()?;
    let reference = match typed.helps() {
        Some(why) => Err(why),
        None => lower::fun::reference(&mut typed),
    };
    let header = reference.as_ref().ok().and_then(|r| lower::fun::header(f, r));
    let no_kernel = reference.map(|r| program.module.functions.insert(r.name.clone(), r)).err();
    program.module.ops.extend(typed.operators.iter().map(|o| (o.name.clone(), o.clone())));
    let fun = Fun { program: typed, span: f.name_span, no_kernel };
    program.funs.insert(f.name.to_string(), fun);
    header
}

fn rule(map: &SourceMap, r: &RuleAst, program: &mut Program, errors: &mut Vec<Diagnostic>) {
    let name = ast::Ident { text: r.name.to_string(), span: r.name_span };
    if let Some(first) = program.rules.iter().find(|o| o.equation.name == name.text) {
        errors.push(lower::types::duplicate("rule", &name, first.span));
        return;
    }
    if lathe_pattern::library::vocabulary().get(&name.text).is_some() {
        errors.push(
            Diagnostic::error(codes::DUPLICATE, format!("there is a step `{}` already", name.text))
                .at(name.span, "choose another name"),
        );
        return;
    }
    let part = r.span.start as usize..r.span.end as usize;
    let text = lathe_pattern::parse::normalized(r.span.file, map.text(r.span.file), part);
    match Equation::new(r) {
        Ok(equation) => program.rules.push(Rule { equation, text, span: r.span }),
        Err(d) => errors.push(d),
    }
}

fn definitions(items: Vec<Item>) -> Vec<Definition> {
    let strategy = |i| match i {
        Item::Strategy(s) => Some(s.definition),
        _ => None,
    };
    items.into_iter().filter_map(strategy).collect()
}

/// Strategies for any target, and those for kernels that there are; unique per name and target.
fn strategies(
    items: &[(Item, bool)],
    targets: &[Target],
    elsewhere: &[&str],
    program: &mut Program,
    errors: &mut Vec<Diagnostic>,
) {
    let mut places: Vec<Span> = Vec::new();
    for (item, _) in items {
        let Item::Strategy(s) = item else { continue };
        let target = match &s.target {
            Some(t) if elsewhere.contains(&t.text.as_str()) => None,
            Some(t) => match target(t, targets, "strategy", errors) {
                Some(t) => Some(t),
                None => continue,
            },
            None => None,
        };
        let d = &s.definition;
        if target.is_some_and(|t| !t.is_fun)
            && let Some(span) = normalizes(&d.body)
        {
            errors.push(
                Diagnostic::error(codes::TERMS_ONLY, "`;;` is for strategies over terms only")
                    .at(span, "normalizes terms")
                    .help("kernels are rewritten step by step: use `;`"),
            );
            continue;
        }
        if d.target.is_none()
            && let Some(p) = program.prelude.iter().find(|p| p.name == d.name)
            && let Some(first) = p.span
        {
            errors.push(lower::types::duplicate("strategie", &s.name, first));
            continue;
        }
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
    targets: &[Target],
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
        let Some(target) = target(&t.kernel, targets, "test", errors) else { continue };
        if let Some(why) = program.funs.get(&t.kernel.text).and_then(|f| f.no_kernel.clone()) {
            errors.push(why.at(t.kernel.span, "this test needs it"));
            continue;
        }
        if program.derived.iter().any(|d| d.name.text == t.kernel.text) {
            let text = format!("tests of the derivative `{}` cannot be written", t.kernel.text);
            errors.push(
                Diagnostic::error(codes::NOT_YET, text)
                    .at(t.kernel.span, "this test is for it")
                    .help("`lathe grad --check` compares it with differences"),
            );
            continue;
        }
        // A kernel with errors has its own messages.
        let Some(f) = program.module.functions.get(t.kernel.text.as_str()) else { continue };
        let Some(k) = &target.header else {
            let text =
                format!("tests of `{}` cannot be written: its types have no data in the text", t.kernel.text);
            errors.push(Diagnostic::error(codes::NOT_YET, text).at(t.kernel.span, "this test is for it"));
            continue;
        };
        let mut t = t.clone();
        if target.is_fun {
            lower::fun::name_parts(&mut t.expect);
        }
        program.tests.extend(lower::tests::test(&t, number, k, f, globals, map, errors));
    }
}

/// The kernel or fun that a strategy or test is for; reports one that there is not.
fn target<'a>(
    t: &ast::Ident,
    targets: &'a [Target<'a>],
    what: &str,
    errors: &mut Vec<Diagnostic>,
) -> Option<&'a Target<'a>> {
    let found = targets.iter().find(|k| k.name == t.text);
    if found.is_some() {
        return found;
    }
    let names = || targets.iter().map(|k| k.name);
    let mut d = Diagnostic::error(codes::TARGET, format!("there is no kernel or fun `{}`", t.text))
        .at(t.span, format!("the {what} is for it"));
    if let Some(n) = nearest(&t.text, names()) {
        d = d.help(format!("did you mean `{n}`?"));
    } else if targets.is_empty() {
        d = d.help("the file has none");
    } else {
        d = d.help(format!("there are {}", names().collect::<Vec<_>>().join(", ")));
    }
    errors.push(d);
    None
}

/// Where a strategy says `;;`, if it does.
fn normalizes(s: &Strategy) -> Option<Span> {
    match s {
        Strategy::Call { name, span, .. } if name == NORMALIZE => *span,
        Strategy::Call { args, .. } => args.iter().find_map(|a| match &a.value {
            ArgValue::Strategy(s) => normalizes(s),
            ArgValue::Expr(_) => None,
        }),
        Strategy::Seq(all) | Strategy::Choice(all) => all.iter().find_map(normalizes),
        Strategy::At(s, place) => normalizes(s).or_else(|| normalizes(place)),
        Strategy::If { then, other, .. } => normalizes(then).or_else(|| normalizes(other)),
        Strategy::Id | Strategy::Fail(_) => None,
    }
}
