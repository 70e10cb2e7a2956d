//! From a kernel and the name of a strategy to scheduled trees with their evidence.

use crate::applied::{How, Version, on_loops};
use crate::choice::{Choice, StrategySource, leads_to_auto};
use crate::mdh;
use crate::parallel::each;
use crate::program::{Failure, Program};
use lathe_analysis::Assumptions;
use lathe_diagnostics::{Diagnostic, Severity};
use lathe_ir::{Function, Module};
use lathe_space::{Expr, Value};
use lathe_strategy::{Context, Definition, Evidence};
use lathe_target::Machine;
use std::collections::{BTreeMap, HashMap};
use std::path::Path;
use std::time::Instant;

/// A kernel with a strategy applied: one version or several that are chosen at the call.
#[derive(Clone, Debug)]
pub struct Schedule {
    pub strategy: String,
    pub source: StrategySource,
    /// Why this strategy was taken; empty where there was nothing to choose.
    pub reason: String,
    /// Strategies that nobody asked for and that these sizes refuse, each with the reason.
    pub refused: Vec<String>,
    pub params: BTreeMap<String, Value>,
    /// Constraints of the strategy over sizes: checked at the call.
    pub requires: Vec<Expr>,
    pub module: Module,
    /// As the front end made it, with the status of every access.
    pub plain: Function,
    /// The program is a fun: every strategy begins with a lowering of its own, whose labels are not those of `plain`.
    pub of_fun: bool,
    pub versions: Vec<Version>,
    /// Why a tree is not known to touch only what exists and to read only what was written: the interpreter finds out,
    /// no other engine runs it.
    pub unproved: Vec<Diagnostic>,
    /// Seconds per stage.
    pub times: Vec<(String, f64)>,
}

impl Schedule {
    pub fn steps(&self) -> impl Iterator<Item = &Evidence> {
        self.versions.iter().flat_map(|v| &v.steps)
    }

    /// What was not done, and why.
    pub fn notes(&self) -> Vec<String> {
        let of_versions = self.versions.iter().flat_map(|v| &v.notes);
        let mut all: Vec<String> = self.refused.iter().chain(of_versions).cloned().collect();
        all.dedup();
        all
    }

    /// Whether an engine that does not look at every access may run it.
    ///
    /// # Errors
    /// What could not be proved.
    pub fn proved(&self) -> Result<(), Diagnostic> {
        match self.unproved.first() {
            None => Ok(()),
            Some(d) => Err(d
                .clone()
                .help("only the interpreter runs accesses that are not proved: --engine interpreter")),
        }
    }

    /// Whether parallel iterations were not shown to keep apart.
    pub(crate) fn may_race(&self) -> bool {
        self.unproved.iter().any(|d| d.code == lathe_analysis::codes::RACE)
    }

    /// Seconds from source to scheduled trees.
    pub fn seconds(&self) -> f64 {
        self.times.iter().map(|t| t.1).sum()
    }

    /// Labels whose rounding or order of reduction some step changed.
    pub fn reassociates(&self) -> Vec<String> {
        let mut all: Vec<String> = self.steps().flat_map(|s| s.reassociates.iter().cloned()).collect();
        all.sort();
        all.dedup();
        all
    }

    /// Facts that were stated and not proved, and whether the kernel checks them.
    pub fn assumptions(&self) -> Vec<String> {
        let stated = lathe_transform::claims::assumptions(&self.plain);
        // A step that used a stated fact quotes who stated it.
        let known = |fact: &str| stated.iter().any(|(who, _)| fact.contains(who.as_str()));
        let used = self.steps().flat_map(|s| &s.facts).map(ToString::to_string).filter(|f| !known(f));
        let mut all: Vec<String> = used.collect();
        all.extend(stated.iter().map(|(who, checked)| {
            if *checked { format!("{who}, checked at the call") } else { who.clone() }
        }));
        all.sort();
        all.dedup();
        all
    }
}

/// The kernel before any strategy: every access proved or guarded, every output written.
///
/// # Errors
/// What the analysis refuses.
pub fn plain(program: &Program, kernel: &Function, assumptions: Assumptions) -> Result<Function, Failure> {
    examined(program, kernel, assumptions).and_then(|(func, unproved)| match unproved.is_empty() {
        true => Ok(func),
        false => Err(Failure::many(&program.sources, unproved)),
    })
}

/// The kernel before any strategy. Of a tree it need not be proved that it is in bounds and defined: then it stays as it
/// is, and what is not proved comes beside it.
fn examined(
    program: &Program,
    kernel: &Function,
    assumptions: Assumptions,
) -> Result<(Function, Vec<Diagnostic>), Failure> {
    // The translation of a fun is in bounds and defined by its types.
    if program.lang.funs.contains_key(&*kernel.name) {
        let func = lathe_analysis::prove_arithmetic(&program.lang.module, kernel);
        return func.map(|f| (f, Vec::new())).map_err(|d| Failure::many(&program.sources, d));
    }
    let (func, mut diagnostics) = lathe_analysis::prove_accesses(&program.lang.module, kernel, assumptions);
    diagnostics.extend(lathe_analysis::prove_defined(&program.lang.module, &func));
    let is_tree = crate::tree::is_tree(&program.path);
    if is_tree {
        let module = &program.lang.module;
        let called = module.reached(&func);
        for f in std::iter::once(&func).chain(called.values()) {
            diagnostics.extend(lathe_analysis::prove_concurrent(module, f));
            diagnostics.extend(lathe_device::prove_held(f));
            diagnostics.extend(lathe_analysis::prove_calls(module, f));
        }
        diagnostics.extend(called.values().flat_map(|f| crate::tree::examined(module, f).1));
    }
    let wrong = |d: &Diagnostic| d.severity == Severity::Error;
    if !diagnostics.iter().any(wrong) {
        return Ok((func, Vec::new()));
    }
    if is_tree {
        diagnostics.retain(wrong);
        return Ok((kernel.clone(), diagnostics));
    }
    Err(Failure::many(&program.sources, diagnostics))
}

/// The machine with the threads that calls will have.
pub(crate) fn on(machine: &Machine, how: &How) -> Machine {
    Machine { threads: how.threads.map_or(machine.threads, |n| n as u64), ..machine.clone() }
}

/// Applies one strategy to a kernel.
///
/// # Errors
/// What the analysis, the binding of parameters, or a step refuses.
pub(crate) fn with(
    program: &Program,
    kernel: &Function,
    how: &How,
    machine: &Machine,
    choice: &Choice,
) -> Result<Schedule, Failure> {
    let fail = |d: Diagnostic| Failure::one(&program.sources, d);
    let mut times = Vec::new();
    let mut start = Instant::now();
    let mut lap = |name: &str, times: &mut Vec<(String, f64)>| {
        times.push((name.to_string(), start.elapsed().as_secs_f64()));
        start = Instant::now();
    };
    let definition = choice.definition;
    let (mut func, unproved) = examined(program, kernel, how.assumptions)?;
    lap("bounds and definedness", &mut times);
    if !how.specialize.is_empty() {
        func = specialize(&func, &how.specialize).map_err(fail)?;
        lap("specialize", &mut times);
    }
    // A size that is baked in is known, to conditions and constraints of the strategy, too.
    let facts = |name: &str| how.specialize.get(name).map(|n| Value::Int(*n)).or_else(|| machine.fact(name));
    let definitions = program.definitions(&kernel.name);
    let decides = mdh::uses(&definitions, Some(&kernel.name), &definition.body);
    let given: lathe_space::Values =
        how.params.iter().map(|(n, v)| (n.clone(), lathe_space::parse_value(v))).collect();
    // What is not a parameter of the strategy is one of its decisions.
    let (given, free): (lathe_space::Values, lathe_space::Values) =
        given.into_iter().partition(|(n, _)| !decides || definition.params.iter().any(|p| p.name == *n));
    let machine = &on(machine, how);
    let (strategy, mut open) = lathe_strategy::instantiate(definition, &given, &facts).map_err(fail)?;
    let of = format!("strategy `{}`", definition.name);
    let params = lathe_space::bind(&of, &definition.params, &definition.constraints, &given, &facts)
        .map_err(fail)?
        .values;
    let context = Context::new(&definitions, Some(&*kernel.name), &facts);
    let sizes = func.sizes.iter().map(|b| b.name.to_string()).collect();
    let plan = lathe_strategy::plan(&context, &strategy, &sizes).map_err(|r| fail(*r.diagnostic))?;
    lap("binding parameters", &mut times);
    // Versions do not know of each other: each is made by a thread of its own.
    let fun = program.lang.funs.get(&*kernel.name);
    let set = mdh::Setting {
        module: &program.lang.module,
        func: &func,
        machine,
        model: how.model.as_deref(),
        folder: program.path.parent().unwrap_or(Path::new("")),
        params: &free,
    };
    let wanted = mdh::Wanted { set, sizes: &how.sizes, others: how.others, lenient: choice.auto };
    let apply = |v: &lathe_strategy::Version| {
        let context = Context::new(&definitions, Some(&*kernel.name), &facts);
        let condition = v.cond.clone();
        if let Some(fun) = fun.filter(|_| choice.auto) {
            return mdh::versions_of_fun(&wanted, program, fun, how, &context, v);
        }
        if let Some(fun) = fun {
            return crate::fun::version(program, fun, how, &context, v)
                .map(|made| vec![Version { condition, ..made }])
                .map_err(|d| in_strategy(definition, d));
        }
        if decides {
            let lenient = choice.auto || leads_to_auto(&definitions, &kernel.name, &v.strategy);
            let wanted = mdh::Wanted { lenient, ..wanted };
            return mdh::versions(&wanted, &context, v).map_err(|d| in_strategy(definition, d));
        }
        let func = match &v.cond {
            Some(c) => crate::version::under(&func, c),
            None => func.clone(),
        };
        on_loops(&program.lang.module, &func, &context, &v.strategy)
            .map(|(func, steps, forms)| vec![Version::new(condition, func, steps, forms)])
            .map_err(|r| in_strategy(definition, *r.diagnostic))
    };
    let mut versions = Vec::new();
    for done in each(&plan.versions, apply) {
        versions.extend(done.map_err(fail)?);
    }
    // What comes after a version for everything is never taken.
    if let Some(last) = versions.iter().position(|v| v.condition.is_none()) {
        versions.truncate(last + 1);
    }
    lap("strategy", &mut times);
    open.dedup();
    Ok(Schedule {
        strategy: choice.name.to_string(),
        source: choice.source,
        reason: String::new(),
        refused: Vec::new(),
        params,
        requires: open,
        module: program.lang.module.clone(),
        plain: func,
        of_fun: fun.is_some(),
        versions,
        unproved,
        times,
    })
}

/// A refusal with the strategy that was refused: its name, and its place where no step of it is marked.
fn in_strategy(definition: &Definition, d: Diagnostic) -> Diagnostic {
    let mut d = d.note(format!("in the strategy `{}`", definition.name));
    if let Some(s) = definition.span {
        let own = |m: &lathe_diagnostics::Mark| {
            m.span.file == s.file && (s.start..s.end.max(s.start + 1)).contains(&m.span.start)
        };
        // The strategy is before the step of the library.
        if !d.marks.iter().any(own) {
            let other = d.marks.first().is_none_or(|m| m.span.file != s.file);
            d = d.at(s, "in this strategy");
            if other {
                d.marks.rotate_right(1);
            }
        }
    }
    d
}

/// Replaces sizes by constants: a visible step, never done silently.
pub(crate) fn specialize(func: &Function, sizes: &BTreeMap<String, i64>) -> Result<Function, Diagnostic> {
    let values = crate::data::given_sizes(func, sizes)?;
    let map: HashMap<_, _> = values.iter().map(|(v, n)| (*v, lathe_ir::build::index(*n))).collect();
    let mut out = func.clone();
    out.body = lathe_ir::visit::substitute_stmt(&func.body, &map);
    for p in &mut out.params {
        if let lathe_ir::ParamKind::Array(b) = &mut p.kind {
            let extents = b.extents.iter().map(|e| lathe_ir::visit::substitute(e, &map)).collect();
            *b = std::sync::Arc::new(lathe_ir::Buffer { extents, ..(**b).clone() });
        }
    }
    out.sizes.retain(|b| !map.contains_key(&b.id));
    Ok(out)
}
