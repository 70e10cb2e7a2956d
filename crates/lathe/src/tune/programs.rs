//! Programs that are tuned through scripts, or kernels on a device: described by directives in their source, or by a
//! JSON form.

use super::codes;
use super::described::Described;
use super::kernel::WorkerCommand;
use super::recorded::RecordedCost;
use super::search::{Found, Progress, Tuner};
use super::sources;
use super::space::describe;
use lathe_diagnostics::Diagnostic;
use lathe_measure::cost::{CostFunction, Scripts, ScriptsCost};
use lathe_measure::store::{Device, Key, hash_of};
use lathe_measure::worker::Rule;
use lathe_space::formats::{AbortCondition, Api, Kernel, TuningProgram};
use lathe_space::{Configuration, Expr, Generate, Space, SpaceDef, Value, Values, eval};
use lathe_system::process::Limits;
use lathe_tune::technique::Technique;
use lathe_tune::{Order, Stop, Window};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// How to tune a program.
pub struct ProgramTuning {
    /// Over what the program says itself.
    pub stop: Option<Stop>,
    pub technique: Option<Box<dyn Technique>>,
    pub seed: u64,
    pub store: Option<PathBuf>,
    pub fresh: bool,
    pub threads: usize,
    pub limits: Limits,
    /// Time for one run while there is no best to derive it from.
    pub first: Duration,
    /// The right result, and the file that holds the program's own; `None`: its standard output.
    pub gold: Option<(lathe_measure::cost::Gold, Option<PathBuf>)>,
    /// So many configurations are compiled at once.
    pub jobs: usize,
    /// And run at once, too.
    pub side_by_side: bool,
    /// A T4 file from which costs are taken instead of running anything.
    pub recorded: Option<PathBuf>,
    /// How often each configuration is run, and the median taken; `None`: once where the program writes its cost, else
    /// until its time is known.
    pub runs: Option<usize>,
    /// Costs that the program writes may be below zero.
    pub negative: bool,
    /// How several costs are compared: what [`super::order`] reads; `None`: lexicographically.
    pub order: Option<String>,
    /// The process that runs kernels on devices, where no script runs them.
    pub worker: WorkerCommand,
    /// The device for these, over what directives say: `cuda:1`.
    pub device: Option<String>,
}

/// A tuned program.
#[derive(Debug)]
pub struct ProgramTuned {
    pub space: Arc<Space>,
    pub constants: Values,
    pub found: Found,
    /// Costs are seconds.
    pub timed: bool,
}

/// Searches the parameters of a program. A kernel that directives describe completely needs no scripts: it is compiled and
/// run on its device by a measuring process.
///
/// # Errors
/// `E0841` if there is no device for it; `E1087` if it does not say how it is run; `E1081` for scripts that cannot be; `E1086` if nothing valid was
/// found; what the space or the store refuse.
pub fn tune_program(
    described: &Described,
    t: ProgramTuning,
    mut show: impl FnMut(&Progress),
) -> Result<ProgramTuned, Diagnostic> {
    let p = &described.program;
    let space = Arc::new(Space::generate(&p.space, &Generate::default())?);
    let timed = p.cost_file.is_none() && t.recorded.is_none();
    let mut device = Device::host();
    let mut compiler = format!("scripts, at most {:?} a run, memory {:?}", t.first, t.limits.memory);
    let (mut cost, mut texts): (Box<dyn CostFunction>, Vec<String>) = match (&t.recorded, &p.kernel) {
        (Some(file), _) => (Box::new(RecordedCost::read(file, &space)?), Vec::new()),
        (None, Some(kernel)) if p.run_script.is_none() => {
            for (given, option) in [(t.side_by_side, "--side-by-side"), (t.negative, "--negative-costs")] {
                if given {
                    let text = format!("{option} does not apply to a kernel that runs on a device");
                    return Err(Diagnostic::error(codes::OPTIONS, text).help("its cost is its time there"));
                }
            }
            let asked = sources::Asked {
                seed: t.seed,
                memory: t.limits.memory,
                first: t.first,
                jobs: t.jobs,
                runs: t.runs,
                gold: t.gold.as_ref().map(|(gold, of)| (gold, of.as_deref())),
                device: t.device.as_deref(),
                worker: &t.worker,
            };
            let made = sources::prepare(described, kernel, &asked)?;
            (device, compiler) = (made.device, made.compiler);
            (Box::new(made.cost), made.texts)
        }
        (None, _) => {
            if let Some(d) = &t.device {
                let text = format!("--device {d} does not apply to a program that scripts run");
                let d = Diagnostic::error(codes::OPTIONS, text);
                return Err(d.help("scripts see LATHE_PLATFORM and LATHE_DEVICE of the directives"));
            }
            let cost = scripts(described, &t)?;
            let texts = cost.texts();
            (Box::new(cost), texts)
        }
    };
    let order = t.order.as_deref().map_or(Ok(Order::default()), super::order)?;
    // What counts as valid is a part of the question.
    texts.push(format!("{:?} {:?}", p.cost_file, t.gold));
    if let Some(k) = &p.kernel {
        texts.push(format!("{:?} {:?} {:?}", k.platform, k.device, computed(k)));
    }
    let mut objective = if timed { "seconds" } else { "cost file" }.to_string();
    if let Some(text) = &t.order {
        objective += &format!(" by {text}");
    }
    if let Some(n) = t.runs {
        objective += &format!(", median of {n}");
    }
    if t.negative {
        objective += ", perhaps negative";
    }
    if t.side_by_side {
        objective += &format!(", {} at once", t.jobs);
    }
    let key = Key {
        program: described.file.file_name().map_or(String::new(), |n| n.to_string_lossy().into_owned()),
        program_hash: hash_of(&texts.iter().map(String::as_str).collect::<Vec<_>>()),
        space_hash: hash_of(&[&describe(&p.space, &Values::new())]),
        sizes: p.space.constants.clone(),
        device,
        threads: t.threads as u64,
        compiler,
        objective,
        ..Key::default()
    };
    let mut tuner =
        Tuner::new(Arc::clone(&space)).order(order).seed(t.seed).fresh(t.fresh).on_progress(&mut show);
    tuner = match (t.technique, &p.search_technique) {
        (Some(technique), _) => tuner.technique(technique),
        (None, Some(name)) => tuner.technique_named(usual_name(name))?,
        (None, None) => tuner,
    };
    if let Some(stop) = t.stop.or_else(|| p.abort_condition.as_ref().map(stop)) {
        tuner = tuner.stop(stop);
    }
    // What was recorded is known already.
    if let (Some(path), None) = (t.store, &t.recorded) {
        tuner = tuner.store(path, key);
    }
    if let Some(threads) = p.kernel.as_ref().and_then(|k| threads(k, &p.space.constants)) {
        tuner = tuner.threads(threads);
    }
    let found = tuner.negative_costs(t.negative).tune(&mut *cost)?;
    if let (Some(text), Some((_, best))) = (&t.order, &found.best) {
        super::order::means_something(text, &best.cost)?;
    }
    Ok(ProgramTuned { space, constants: p.space.constants.clone(), found, timed })
}

fn scripts(described: &Described, t: &ProgramTuning) -> Result<ScriptsCost, Diagnostic> {
    let p = &described.program;
    let file = &described.file;
    let Some(run) = &p.run_script else {
        let d =
            Diagnostic::error(codes::FORM, format!("`{}` does not specify how to run it", file.display()))
                .note("costs can also be read from a recorded search: --recorded FILE");
        return Err(d.help("add #atf::run_script, or \"run_script\" in a JSON form"));
    };
    let folder = file.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new(".")).to_path_buf();
    // Directives are in the program itself.
    let source = match &described.text {
        Some(_) => file.file_name().map(PathBuf::from),
        None => p.program_source.as_ref().map(PathBuf::from),
    };
    let usual = Scripts::new(folder, run.clone());
    let rule = match t.runs {
        Some(n) => Rule { min: n, max: n, warmup: 0, time: Duration::MAX, precision: 0.0, ..usual.rule },
        None if p.cost_file.is_some() => Rule::once(),
        None => usual.rule,
    };
    Scripts {
        source,
        text: described.text.clone(),
        compile: p.compile_script.clone(),
        cost_file: p.cost_file.as_ref().map(PathBuf::from),
        negative: t.negative,
        constants: constants(p),
        computed: p.kernel.as_ref().map_or(Vec::new(), computed),
        gold: t.gold.clone(),
        limits: t.limits,
        first: t.first,
        rule,
        jobs: t.jobs,
        side_by_side: t.side_by_side,
        ..usual
    }
    .prepare()
}

/// The constants of a program, and which device its directives are for.
fn constants(p: &TuningProgram) -> Values {
    let mut all = p.space.constants.clone();
    if let Some(k) = &p.kernel {
        for (name, value) in [("LATHE_PLATFORM", &k.platform), ("LATHE_DEVICE", &k.device)] {
            all.extend(value.iter().map(|v| (name.to_string(), Value::Str(v.clone()))));
        }
    }
    all
}

/// How many threads its directives want, as scripts are told.
fn computed(k: &Kernel) -> Vec<(String, Vec<Expr>)> {
    let names = match k.api {
        Api::OpenCl => ["LATHE_GLOBAL_SIZE", "LATHE_LOCAL_SIZE"],
        Api::Cuda => ["LATHE_GRID_DIM", "LATHE_BLOCK_DIM"],
    };
    let sizes = [&k.global_size, &k.local_size].into_iter().zip(names).filter(|(s, _)| !s.is_empty());
    sizes.map(|(s, name)| (name.to_string(), s.clone())).collect()
}

/// How many threads a kernel for a device runs with, where its directives say so.
fn threads(
    k: &Kernel,
    constants: &Values,
) -> Option<impl Fn(&Values) -> Option<u64> + Send + Sync + 'static> {
    // OpenCL's global size counts threads, CUDA's grid counts blocks.
    let mut sizes = k.global_size.clone();
    if k.api == Api::Cuda {
        sizes.extend(k.local_size.iter().cloned());
    }
    let constants = constants.clone();
    (!sizes.is_empty()).then_some(move |c: &Values| {
        let at = |n: &str| c.get(n).or_else(|| constants.get(n)).cloned();
        sizes.iter().try_fold(1u64, |all, e| match eval(e, &at) {
            Ok(Value::Int(v)) => all.checked_mul(u64::try_from(v).ok()?),
            _ => None,
        })
    })
}

/// What ATF calls some techniques.
fn usual_name(name: &str) -> &str {
    match name {
        "simulated_annealing" | "simulated-annealing" => "annealing",
        other => other,
    }
}

/// A condition of a file as a stop rule.
fn stop(c: &AbortCondition) -> Stop {
    let time = |s: f64| Duration::try_from_secs_f64(s.max(0.0)).unwrap_or(Duration::MAX);
    match c {
        AbortCondition::Duration(s) => Stop::Duration(time(*s)),
        AbortCondition::Evaluations(n) => Stop::Evaluations(*n),
        AbortCondition::Fraction(f) => Stop::Fraction(*f),
        AbortCondition::Cost(c) => Stop::Cost((*c).into()),
        AbortCondition::SpeedupTime { factor, seconds } => {
            Stop::Speedup { factor: *factor, over: Window::Time(time(*seconds)) }
        }
        AbortCondition::SpeedupCount { factor, evaluations } => {
            Stop::Speedup { factor: *factor, over: Window::Evaluations(*evaluations) }
        }
        AbortCondition::And(a, b) => stop(a).and(stop(b)),
        AbortCondition::Or(a, b) => stop(a).or(stop(b)),
    }
}

/// The number of points of a definition, of valid points, and how long it took to know.
#[derive(Clone, Debug)]
pub struct Counted {
    pub space: Space,
    pub seconds: f64,
}

/// Makes a space, and takes the time.
///
/// # Errors
/// What is wrong with the definition.
pub fn count(def: &SpaceDef) -> Result<Counted, Diagnostic> {
    let start = std::time::Instant::now();
    let space = Space::generate(def, &Generate::default())?;
    Ok(Counted { space, seconds: start.elapsed().as_secs_f64() })
}

/// Draws configurations, all equally likely, and hands each to `take`; returns the seconds that drawing and looking up
/// took.
pub fn sample(space: &Space, n: u64, seed: u64, mut take: impl FnMut(Configuration)) -> f64 {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut seconds = 0.0;
    for _ in 0..n {
        let start = std::time::Instant::now();
        let drawn = space.configuration(&space.sample(&mut rng));
        seconds += start.elapsed().as_secs_f64();
        drawn.into_iter().for_each(&mut take);
    }
    seconds
}
