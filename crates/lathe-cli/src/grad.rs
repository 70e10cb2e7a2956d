//! `lathe grad`: the derivative of a kernel as a kernel.

use crate::args::GradArgs;
use crate::files::{Used, apart};
use crate::run;
use crate::say::{self, note};
use crate::target::{self, Common};
use crate::{Outcome, Stop};
use lathe::grad::{
    Evidence, GradCheck, How, InThreads, Mode, Passes, Request, check, derive, differentiated, evidence,
    in_threads,
};
use lathe::rounds::Runs;
use lathe::{
    Assumptions, Build, Built, Data, Diagnostic, Failure, Function, Pool, Program, codes, data, measure,
    stats,
};
use serde::Serialize;
use std::collections::{BTreeMap, HashMap};
use std::num::NonZeroU16;

/// Sizes of a check where none are given.
const SMALL: i64 = 6;

#[derive(Serialize)]
struct TapeBytes {
    expression: String,
    /// Where all sizes are known.
    value: Option<i64>,
}

#[derive(Serialize)]
struct Accumulated {
    plain: usize,
    reduction: usize,
    private: usize,
    atomic: usize,
}

#[derive(Serialize)]
struct RuleReport {
    name: String,
    evidence: Evidence,
}

#[derive(Serialize)]
struct GradReport {
    kernel: String,
    derivative: String,
    mode: &'static str,
    wrt: Vec<String>,
    of: Vec<String>,
    /// The derivative that the file gives.
    rule: Option<RuleReport>,
    passes: Passes,
    check: Option<GradCheck>,
    tape_bytes: TapeBytes,
    /// What would be stored if every value that the reverse sweep needs and that is gone by then were.
    everything_bytes: Option<TapeBytes>,
    /// Arrays whose values are kept, with the statements that read them.
    stored: Vec<String>,
    /// Statements that are recomputed in the reverse sweep.
    recomputed: Vec<String>,
    accumulation: Accumulated,
    /// Differentiation with passes before and after, and the analysis of what came out, in seconds.
    derive_s: f64,
    primal_s: Option<f64>,
    gradient_s: Option<f64>,
    ratio: Option<f64>,
}

pub fn grad(a: &GradArgs, common: &Common) -> Outcome {
    let t = &a.target;
    let (mut program, kernel) = target::open(t)?;
    if let Some(file) = &a.output {
        apart(&[Used::new(file, "the derivative")], &target::read(&program, &t.how, &a.data.inputs))?;
    }
    let reverse = a.mode == "reverse";
    let request = Request {
        wrt: a.wrt.clone(),
        of: a.of.clone(),
        value: a.value || !reverse,
        allow_steps: a.allow.iter().any(|w| w == "steps"),
        ..Request::new(
            if reverse { Mode::Reverse } else { Mode::Forward },
            format!("{}_{}", kernel.name, if reverse { "vjp" } else { "jvp" }),
        )
    };
    let passes = a.passes.as_deref().map_or_else(Passes::usual, Passes::parse);
    let given = target::given(&t.how, &a.data)?;
    let sizes = known(&program, &kernel, &given)?;
    let request = Request { sizes: named(&kernel, &sizes), ..request };
    let at_once = checkpoints(&a.checkpoint, |n| {
        let request = Request { checkpoints: NonZeroU16::new(n), ..request.clone() };
        let d = differentiated(&program.lang.module, &kernel, &request, &passes)?;
        Ok(lathe::ir::interp::evaluate(&d.tape_bytes(), &sizes))
    });
    let at_once = at_once.map_err(|d| Stop::from(Failure::one(&program.sources, d)))?;
    let request = Request { checkpoints: at_once, ..request };
    let begun = std::time::Instant::now();
    let d = derive(&mut program, &kernel, &request, &passes)?;
    // The derivative passes the same analysis as what users write.
    let trust = if t.trust_assumptions { Assumptions::Trusted } else { Assumptions::Checked };
    let proved = lathe::schedule::plain(&program, &d.func, trust)?;
    let derive_s = begun.elapsed().as_secs_f64();
    let at = |d: Diagnostic| Stop::from(Failure::one(&program.sources, d));
    let checked = match a.check {
        true => Some(compared(&program, &kernel, &request, &passes, &given).map_err(at)?),
        false => None,
    };
    let threads = threaded(a, &program, &proved, &request.sizes).map_err(at)?;
    let times = match a.runs {
        Some(runs) => Some(timed(a, &given, &program, &kernel, (&d.func, threads.as_ref()), runs)?),
        None => None,
    };
    let rule = match &d.rule {
        Some(name) => {
            let module = &program.lang.module;
            let known = module.functions.get(name.as_str()).map(|rule| evidence(module, &kernel, rule));
            let known = known.transpose().map_err(at)?;
            known.map(|evidence| RuleReport { name: name.clone(), evidence })
        }
        None => None,
    };
    let bytes = d.tape_bytes();
    let scope = lathe::text::Scope::of_function(&d.func);
    let everything = d.everything_bytes();
    let sums = threads.as_ref().map_or_else(|| d.accumulation(), |t| t.accumulation);
    let shown = threads.as_ref().map_or(&d.func, |t| &t.func);
    let report = GradReport {
        kernel: kernel.name.to_string(),
        derivative: d.func.name.to_string(),
        mode: if reverse { "reverse" } else { "forward" },
        wrt: d.wrt.clone(),
        of: d.of.clone(),
        rule,
        passes,
        check: checked,
        tape_bytes: TapeBytes {
            expression: lathe::text::print_expr(&bytes, &scope),
            value: lathe::ir::interp::evaluate(&bytes, &sizes),
        },
        everything_bytes: everything.map(|e| TapeBytes {
            expression: lathe::text::print_expr(&e, &scope),
            value: lathe::ir::interp::evaluate(&e, &sizes),
        }),
        stored: d.kept.iter().map(|k| format!("{} for {}", k.of, k.label)).collect(),
        recomputed: d.recomputed(),
        accumulation: Accumulated {
            plain: sums.plain,
            reduction: sums.reduction,
            private: sums.private,
            atomic: sums.atomic,
        },
        derive_s,
        primal_s: times.map(|t| t.0),
        gradient_s: times.map(|t| t.1),
        ratio: times.map(|t| t.1 / t.0),
    };
    let called = program.lang.module.reached(shown);
    let called = called.values().map(lathe::text::print_function).collect::<String>();
    let text = lathe::text::print_function(shown) + &called;
    if let Some(file) = &a.output {
        lathe::write_whole(file, text.as_bytes()).map_err(at)?;
    }
    if common.json {
        return say::json(&report);
    }
    show(&report);
    if a.output.is_none() {
        say::data(text.as_bytes())?;
    }
    Ok(())
}

/// Sizes and integers by name.
fn named(kernel: &Function, sizes: &HashMap<lathe::ir::VarId, i64>) -> BTreeMap<String, i64> {
    let scalars = kernel.params.iter().filter_map(|p| match &p.kind {
        lathe::ir::ParamKind::Scalar(b) => Some(b),
        lathe::ir::ParamKind::Array(_) => None,
    });
    let all = kernel.sizes.iter().chain(scalars);
    all.filter_map(|b| Some((b.name.to_string(), *sizes.get(&b.id)?))).collect()
}

/// The sizes and integers that are given.
fn known(
    program: &Program,
    kernel: &Function,
    given: &data::Given,
) -> Result<HashMap<lathe::ir::VarId, i64>, Stop> {
    let mut sizes =
        data::given_sizes(kernel, &given.sizes).map_err(|d| Stop::from(Failure::one(&program.sources, d)))?;
    for p in &kernel.params {
        if let lathe::ir::ParamKind::Scalar(b) = &p.kind
            && let Some(v) = given.inputs.get(&*b.name).and_then(|v| v.parse().ok())
        {
            sizes.insert(b.id, v);
        }
    }
    Ok(sizes)
}

/// How many states are kept at once: `none`, `revolve:N`, or as many as fit in a number of bytes (`1000`, `64K`, `64M`, `2G`).
/// `bytes` is what is kept with so many.
fn checkpoints(
    text: &str,
    mut bytes: impl FnMut(u16) -> Result<Option<i64>, Diagnostic>,
) -> Result<Option<NonZeroU16>, Diagnostic> {
    if text == "none" {
        return Ok(None);
    }
    let wrong = || {
        let text =
            format!("`--checkpoint {text}` is neither `none`, nor a number of states, nor one of bytes");
        Diagnostic::error(codes::OPTION, text).help("`revolve:8`, with 1 to 65535 states, or bytes: `64M`")
    };
    if let Some(n) = text.strip_prefix("revolve:") {
        return n.parse().map(Some).map_err(|_| wrong());
    }
    let (digits, unit) = match text.char_indices().last() {
        Some((n, 'K')) => (&text[..n], 1 << 10),
        Some((n, 'M')) => (&text[..n], 1 << 20),
        Some((n, 'G')) => (&text[..n], 1 << 30),
        _ => (text, 1),
    };
    let limit =
        digits.parse::<i64>().ok().and_then(|n| n.checked_mul(unit)).filter(|n| *n > 0).ok_or_else(wrong)?;
    let (Some(one), Some(two)) = (bytes(1)?, bytes(2)?) else {
        let text = "how many states fit in a number of bytes depends on sizes that are not given";
        return Err(
            Diagnostic::error(codes::OPTION, text).help("give all sizes by `-D`, and numbers by `-i`")
        );
    };
    if limit < one {
        let text = format!("{limit} bytes do not hold what must be kept: {one} with one state");
        let help = format!("`--checkpoint {one}` or more");
        return Err(Diagnostic::error(lathe::grad::refusals::CHECKPOINT, text).help(help));
    }
    let states = 1 + (limit - one).checked_div(two - one).unwrap_or(i64::from(u16::MAX));
    Ok(NonZeroU16::new(u16::try_from(states).unwrap_or(u16::MAX)))
}

/// The derivative in threads, where that is asked for; `proved` is the derivative as it was analyzed.
fn threaded(
    a: &GradArgs,
    program: &Program,
    proved: &Function,
    sizes: &BTreeMap<String, i64>,
) -> Result<Option<InThreads>, Diagnostic> {
    let how = match a.accumulate.as_deref() {
        None if !a.deterministic => return Ok(None),
        Some("plain") => How::Plain,
        Some("reduce") => How::Reduce,
        Some("private") => How::Private,
        Some("atomic") => How::Atomic,
        _ => How::Auto,
    };
    let known = proved.sizes.iter().filter_map(|b| Some((b.id, *sizes.get(&*b.name)?))).collect();
    in_threads(&program.lang.module, proved, how, a.deterministic, &known).map(Some)
}

/// `--check`: an error where the derivative is wrong.
fn compared(
    program: &Program,
    kernel: &Function,
    request: &Request,
    passes: &Passes,
    given: &data::Given,
) -> Result<GradCheck, Diagnostic> {
    let mut small = given.clone();
    if small.sizes.is_empty() && small.inputs.is_empty() {
        small.sizes = kernel.sizes.iter().map(|b| (b.name.to_string(), SMALL)).collect();
    }
    let data = data::make(kernel, &small)?;
    let values = lathe::convert::to_values(&data.arrays)?;
    let c = check(&program.lang.module, kernel, request, passes, &values, &data.sizes, small.seed)?;
    if c.ok {
        return Ok(c);
    }
    let text = format!("the derivative of `{}` disagrees with finite differences", kernel.name);
    let errors = format!(
        "relative error {:.3e}, of the adjoint identity {:.3e}",
        c.max_rel_error, c.adjoint_rel_error
    );
    let help = "near a point without a derivative (abs, min, max, a condition) finite differences do not approximate the derivative: try another --seed";
    Err(Diagnostic::error(codes::WRONG_RESULT, text).note(errors).help(help))
}

fn show(r: &GradReport) {
    let (wrt, of) = (r.wrt.join(", "), r.of.join(", "));
    note!("{}: {} mode of {}, by {wrt}, of {of}", r.derivative, r.mode, r.kernel);
    if let Some(rule) = &r.rule {
        note!("  given by {}: {}", rule.name, rule.evidence.name());
    }
    let value = r.tape_bytes.value.map_or_else(String::new, |v| format!(" = {v}"));
    note!("  keeps {}{value} bytes", r.tape_bytes.expression);
    for s in &r.stored {
        note!("    {s}");
    }
    if !r.recomputed.is_empty() {
        note!("  runs again: {}", r.recomputed.join(", "));
    }
    if let Some(c) = &r.check {
        let error = c.max_rel_error.max(c.adjoint_rel_error);
        note!("  agrees with {}: relative error {error:.3e}", c.against);
    }
    if let (Some(p), Some(g), Some(ratio)) = (r.primal_s, r.gradient_s, r.ratio) {
        note!("  primal {}, derivative {}: {ratio:.2} times", run::seconds(p), run::seconds(g));
    }
}

/// A kernel and its derivative, each with arrays of its own.
struct Pair<'a> {
    pool: &'a Pool,
    kernels: Vec<(&'a Function, Built, Data, Data)>,
}

impl Runs<Diagnostic> for Pair<'_> {
    fn call(&mut self, i: usize) -> Result<(), Diagnostic> {
        let (_, built, data, _) = &mut self.kernels[i];
        built.call(self.pool, &mut data.arrays)
    }

    /// A kernel that modifies its inputs gets fresh copies: both are treated alike.
    fn one_by_one(&self, _: usize) -> bool {
        self.kernels.iter().any(|k| k.0.params.iter().any(|p| p.mode == lathe::Mode::InOut))
    }

    fn ready(&mut self, i: usize) -> Result<(), Diagnostic> {
        let (f, _, data, original) = &mut self.kernels[i];
        data.restore(f, original);
        Ok(())
    }
}

/// Medians of both kernels in interleaved rounds, each under its usual strategy.
fn timed(
    a: &GradArgs,
    given: &data::Given,
    program: &Program,
    kernel: &Function,
    (gradient, in_threads): (&Function, Option<&InThreads>),
    runs: u32,
) -> Result<(f64, f64), Stop> {
    let t = &a.target;
    let at = |d: Diagnostic| Stop::from(Failure::one(&program.sources, d));
    let threads = target::threads(&a.data);
    lathe::rounds::pin_to_first(threads);
    let pool = Pool::new(threads).map_err(at)?;
    let build =
        Build { engine: target::engine(&t.how)?, ..Build::default() }.on(&target::machine_here(&t.how)?);
    let mut pair = Pair { pool: &pool, kernels: Vec::new() };
    // Inputs that are given by name are inputs of both.
    let all = data::Given { sizes: given.sizes.clone(), inputs: BTreeMap::new(), seed: given.seed };
    for f in [kernel, gradient] {
        let named = given.inputs.iter().filter(|(n, _)| f.params.iter().any(|p| &**p.name() == n.as_str()));
        let given =
            data::Given { inputs: named.map(|(n, v)| (n.clone(), v.clone())).collect(), ..all.clone() };
        let original = data::make(f, &given).map_err(at)?;
        let sizes = original.named_sizes(f);
        let of = target::situation(&t.how, &given, &sizes, &build, threads);
        let mut schedule = target::scheduled(t, t.how.strategy.as_deref(), program, f, of)?;
        if let Some(threads) = in_threads.filter(|_| f.name == gradient.name)
            && let Some(version) = schedule.versions.first().cloned()
        {
            // Instead of what a strategy would make of it.
            let (func, steps) = (threads.func.clone(), threads.steps.clone());
            schedule.requires.clear();
            schedule.versions = vec![lathe::Version { condition: None, func, steps, ..version }];
        }
        let built = lathe::compile(&schedule, &build).map_err(at)?;
        let data = original.duplicate().map_err(at)?;
        pair.kernels.push((f, built, data, original));
    }
    let times = measure(2, &run::plan(runs), &mut pair, |_| ()).map_err(at)?;
    let median = |i: usize| stats::summarize(&times[i]).map(|s| s.median);
    match (median(0), median(1)) {
        (Some(p), Some(g)) => Ok((p, g)),
        _ => {
            note!("nothing was measured");
            Err(Stop::Status(1))
        }
    }
}
