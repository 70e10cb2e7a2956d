//! One case: a kernel, steps, sizes and data, and everything that must agree about them.

use super::data::{self, Flavour};
use super::kernels::Source;
use super::rng::Rng;
use super::steps;
use lathe_diagnostics::{FileId, Severity};
use lathe_ir::interp::{self, ArrayValue, Options, Order};
use lathe_ir::{Function, Module};
use lathe_poly::simplify::simplify_function;
use lathe_runtime::{ArgView, Engine, Pool};
use lathe_transform::Cursor;
use std::collections::BTreeMap;
use std::fmt;

/// A case that can be run again, as it is or smaller.
#[derive(Clone, Debug)]
pub struct Case {
    pub seed: u64,
    pub source: Source,
    pub steps: Steps,
    pub sizes: Vec<(String, i64)>,
    pub flavour: Flavour,
    pub strided: bool,
    /// Whether the C compiler is asked too.
    pub c: bool,
}

#[derive(Clone, Debug)]
pub enum Steps {
    /// That many are tried.
    Random(usize),
    Given(Vec<String>),
    /// What `auto` makes for any sizes.
    Auto,
}

/// What happened; failures say which parties disagree.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Why the case said nothing, if so.
    pub skipped: Option<String>,
    pub failed: Option<Wrong>,
    pub accepted: Vec<String>,
    pub refused: Vec<String>,
    /// Runs and comparisons that took place.
    pub ran: BTreeMap<&'static str, usize>,
    /// What engines do not take.
    pub limits: BTreeMap<String, usize>,
}

#[derive(Clone, Debug)]
pub struct Wrong {
    pub kind: &'static str,
    pub text: String,
    pub tree: String,
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.source)?;
        let steps: Vec<String> = match &self.steps {
            Steps::Random(_) => vec!["id".to_string()],
            Steps::Auto => vec!["auto".to_string()],
            Steps::Given(v) if v.is_empty() => vec!["id".to_string()],
            Steps::Given(v) => v.clone(),
        };
        writeln!(f, "strategy s for k = {}", steps.join(" ;\n    "))?;
        writeln!(
            f,
            "# seed {}, sizes {:?}, data {:?}, strided {}",
            self.seed, self.sizes, self.flavour, self.strided
        )
    }
}

/// The most iterations that a run may take.
const STEPS: u64 = 400_000;

/// The pools that kernels run on: one thread, two threads.
pub struct Pools(pub Pool, pub Pool);

/// Runs a case. Whatever is found lies in the outcome; `case.steps` then lists the accepted steps.
pub fn run(case: &mut Case, pools: &Pools) -> Outcome {
    let mut out = Outcome::default();
    let mut accepted = Vec::new();
    let inner = std::panic::AssertUnwindSafe(|| {
        if let Err(stop) = attempt(case, pools, &mut out, &mut accepted) {
            match stop {
                Stop::Skip(why) => out.skipped = Some(why),
                Stop::Wrong(w) => out.failed = Some(w),
            }
        }
    });
    if let Err(payload) = std::panic::catch_unwind(inner) {
        let text = payload
            .downcast_ref::<String>()
            .cloned()
            .or_else(|| payload.downcast_ref::<&str>().map(|s| (*s).to_string()))
            .unwrap_or_default();
        out.failed = Some(Wrong { kind: "panic", text, tree: String::new() });
    }
    if !matches!(case.steps, Steps::Auto) {
        case.steps = Steps::Given(accepted);
    }
    out
}

enum Stop {
    Skip(String),
    Wrong(Wrong),
}

fn skip<T>(why: impl Into<String>) -> Result<T, Stop> {
    Err(Stop::Skip(why.into()))
}

fn wrong<T>(kind: &'static str, text: impl Into<String>, tree: &Function) -> Result<T, Stop> {
    let tree = lathe_ir::text::print_function(tree);
    Err(Stop::Wrong(Wrong { kind, text: text.into(), tree }))
}

fn attempt(case: &Case, pools: &Pools, out: &mut Outcome, accepted: &mut Vec<String>) -> Result<(), Stop> {
    let text = case.source.to_string();
    let program = match lathe::Program::from_text("random.lathe", &text) {
        Ok(p) => p,
        Err(e) => return skip(format!("front end: {}", first_line(&e.to_string()))),
    };
    let Ok(kernel) = program.kernel(Some("k")) else { return skip("no kernel") };
    let plain = match lathe::schedule::plain(&program, kernel, lathe::Assumptions::Checked) {
        Ok(p) => p,
        Err(e) => return skip(format!("analysis: {}", first_line(&e.to_string()))),
    };
    let module = &program.lang.module;
    let Some(input) = data::values(&plain, &case.sizes, case.flavour, case.seed) else {
        return skip("sizes do not fit");
    };
    let mut want = input.clone();
    let options = Options { max_steps: Some(STEPS), ..Options::default() };
    if let Err(e) = interp::run(module, &plain, &mut want, &options) {
        return skip(format!("interpreter: {}", first_line(&e.diagnostic.to_string())));
    }
    *out.ran.entry("interpreter, plain tree").or_default() += 1;

    let (func, evidence) = match case.steps {
        Steps::Auto => by_itself(case, &program, kernel, &plain, out)?,
        _ => transform(case, module, &plain, out, accepted)?,
    };
    let reassociates = evidence.iter().any(|e| !e.reassociates.is_empty());
    let func = simplify_function(&func);
    match lathe_transform::replay(module, &plain, &evidence) {
        Ok(f) if lathe_ir::structural_hash(&simplify_function(&f)) == lathe_ir::structural_hash(&func) => {}
        Ok(_) => return wrong("replay", "the replayed evidence gives another tree", &func),
        Err(e) => return wrong("replay", e.diagnostic.to_string(), &func),
    }
    sound(module, &func)?;

    let mut reference = input.clone();
    let options = Options { max_steps: Some(20 * STEPS), ..Options::default() };
    if let Err(e) = interp::run(module, &func, &mut reference, &options) {
        return wrong("transformed tree fails", e.diagnostic.to_string(), &func);
    }
    *out.ran.entry("interpreter, transformed tree").or_default() += 1;
    if let Some(d) = data::difference(&plain, &reference, &want) {
        if !reassociates {
            return wrong("transformed tree", d, &func);
        }
        let mut named: Vec<String> = evidence.iter().flat_map(|e| e.reassociates.iter().cloned()).collect();
        named.dedup();
        let value = |b: &lathe_ir::Binder| case.sizes.iter().find(|s| *s.0 == *b.name).map(|s| (b.id, s.1));
        let sizes = plain.sizes.iter().filter_map(value).collect();
        let Some(bounds) = lathe::check::bounds(module, &plain, &sizes, &input, &named, 100 * STEPS) else {
            return skip("no bounds");
        };
        match data::beyond(&plain, &reference, &want, &bounds) {
            Ok(0) => *out.ran.entry("within the bound of rounding").or_default() += 1,
            Ok(_) => *out.ran.entry("rounding decides some of it").or_default() += 1,
            Err(d) => return wrong("transformed tree, rounding", d, &func),
        }
    }
    let mut other = input.clone();
    let options = Options { order: Order::Seed(case.seed), races: true, ..options };
    match interp::run(module, &func, &mut other, &options) {
        Err(e) => return wrong("another order fails", e.diagnostic.to_string(), &func),
        Ok(_) => {
            if let Some(d) = data::difference(&plain, &other, &reference) {
                return wrong("another order", d, &func);
            }
        }
    }
    let tree = Tree { module, func: &func, input: &input, want: &reference };
    engine(case, pools, &tree, Engine::LLVM, out)?;
    if case.c {
        engine(case, pools, &tree, Engine::C, out)?;
    }
    Ok(())
}

/// The first version of `auto` for sizes that nobody knows, on one thread and on two.
fn by_itself(
    case: &Case,
    program: &lathe::Program,
    kernel: &Function,
    plain: &Function,
    out: &mut Outcome,
) -> Result<(Function, Vec<lathe_strategy::Evidence>), Stop> {
    let threads = Some(1 + (case.seed % 2) as usize);
    let how = lathe::How { strategy: Some("auto".to_string()), threads, ..lathe::How::default() };
    match lathe::schedule(program, kernel, &how, &lathe::Machine::host()) {
        Ok(mut s) if !s.versions.is_empty() => {
            let v = s.versions.swap_remove(0);
            out.accepted.extend(v.steps.iter().map(|e| e.rule.clone()));
            Ok((v.func, v.steps))
        }
        Ok(_) => wrong("auto", "no version", plain),
        Err(f) => wrong("auto", f.to_string(), plain),
    }
}

/// Applies the steps of the case, or random ones; what is refused is dropped.
fn transform(
    case: &Case,
    module: &Module,
    plain: &Function,
    out: &mut Outcome,
    accepted: &mut Vec<String>,
) -> Result<(Function, Vec<lathe_strategy::Evidence>), Stop> {
    let mut r = Rng::new(case.seed ^ 0xABCD);
    let mut func = plain.clone();
    let mut evidence = Vec::new();
    let open = lathe_transform::apply(&Cursor::new(module, &func), "open", &lathe_transform::Args::default());
    match open {
        Ok(e) => {
            func = e.func;
            let mut first = e.evidence;
            lathe_transform::claims::claims(module, plain).into_iter().for_each(|o| first.oblige(o));
            evidence.push(first);
        }
        Err(e) => return wrong("open", e.diagnostic.to_string(), plain),
    }
    let count = match &case.steps {
        Steps::Random(n) => *n,
        Steps::Given(v) => v.len(),
        Steps::Auto => 0,
    };
    for n in 0..count {
        let text = match &case.steps {
            Steps::Given(v) => v[n].clone(),
            _ => steps::random(&mut r, &func),
        };
        let Some((rule, args)) = steps::parse(&text) else { continue };
        // What a panic leaves behind names the step that was being tried.
        accepted.push(text);
        match lathe_transform::apply(&Cursor::new(module, &func), &rule, &args) {
            // Whole unrolling multiplies: such trees cost time and show nothing new.
            Ok(e) if lathe_ir::text::print_function(&e.func).len() > 60_000 => {
                accepted.pop();
            }
            Ok(e) => {
                func = e.func;
                evidence.push(e.evidence);
                out.accepted.push(rule);
            }
            Err(_) => {
                accepted.pop();
                out.refused.push(rule);
            }
        }
    }
    Ok((func, evidence))
}

/// The verifier takes the tree, and its text form is it.
fn sound(module: &Module, func: &Function) -> Result<(), Stop> {
    let errors = lathe_ir::verify::verify_function(module, func);
    if let Some(d) = errors.iter().find(|d| d.severity == Severity::Error) {
        return wrong("verifier", d.to_string(), func);
    }
    let whole = Module { functions: [(func.name.clone(), func.clone())].into(), ..module.clone() };
    let text = lathe_ir::text::print_module(&whole);
    match lathe_ir::text::parse_module(FileId(0), &text) {
        Err(e) => wrong("text form", format!("{:?}", e.first().map(ToString::to_string)), func),
        Ok(m) if lathe_ir::text::print_module(&m) != text => wrong("text form", "prints otherwise", func),
        Ok(_) => Ok(()),
    }
}

/// A transformed tree with the interpreter's results for it.
struct Tree<'a> {
    module: &'a Module,
    func: &'a Function,
    input: &'a [ArrayValue],
    want: &'a [ArrayValue],
}

/// Compiles a tree and compares what it computes, with one thread and with two.
fn engine(case: &Case, pools: &Pools, tree: &Tree, engine: Engine, out: &mut Outcome) -> Result<(), Stop> {
    let Tree { module, func, input, want } = *tree;
    // Every level, those that compile quickly more often.
    let opt_level = [0, 1, 0, 1, 2, 0, 1, 3][(case.seed % 8) as usize];
    let options = lathe_runtime::Options { opt_level, ..lathe_runtime::Options::default() };
    let kernel = match lathe_runtime::compile(engine, module, func, &options) {
        Ok(k) => k,
        // What an engine does not take it says; that is a limit and no wrong result.
        Err(e) if matches!(e.code.0, "E0701" | "E0702") => {
            *out.limits.entry(format!("{}: {}", engine.name(), limit(&e.to_string()))).or_default() += 1;
            return Ok(());
        }
        Err(e) => {
            let what = if engine == Engine::C { "C engine fails" } else { "LLVM engine fails" };
            return wrong(what, e.to_string(), func);
        }
    };
    for (pool, name) in
        [(&pools.0, ["LLVM, 1 thread", "C, 1 thread"]), (&pools.1, ["LLVM, 2 threads", "C, 2 threads"])]
    {
        let name = name[usize::from(engine == Engine::C)];
        let mut r = Rng::new(case.seed ^ 77);
        let arrays: Option<Vec<_>> =
            input.iter().map(|v| data::array(v, case.strided.then_some(&mut r))).collect();
        let Some(mut arrays) = arrays else { return skip("no such array") };
        {
            let mut views: Vec<ArgView> = arrays.iter_mut().map(lathe::Array::view_mut).collect();
            if let Err(e) = kernel.call(pool, &mut views) {
                return wrong(name, e.to_string(), func);
            }
        }
        let Ok(got) = lathe::convert::to_values(&arrays) else { return skip("memory") };
        if let Some(d) = data::difference(func, &got, want) {
            return wrong(name, d, func);
        }
        *out.ran.entry(name).or_default() += 1;
    }
    Ok(())
}

/// The first line without the names in it.
fn limit(text: &str) -> String {
    first_line(text).split('`').step_by(2).collect::<Vec<_>>().join("…")
}

fn first_line(text: &str) -> String {
    text.lines().next().unwrap_or("").to_string()
}
