//! What the commands on a target share.

use crate::Stop;
use crate::args::{InputArgs, KernelArgs, TargetArgs};
use crate::files::Used;
use crate::say::note;
use lathe::tune::Situation;
use lathe::{
    Assumptions, Build, Diagnostic, Engine, Function, How, Machine, Program, Schedule, StrategySource, Type,
    codes, data,
};
use std::collections::BTreeMap;
use std::path::Path;

/// Options of every command.
pub struct Common {
    pub json: bool,
    pub time_passes: bool,
}

/// The machine that code is made for.
pub fn machine(t: &KernelArgs) -> Result<Machine, Stop> {
    Ok(match &t.cpu {
        Some(name) => lathe::machine::open(name)?,
        None => on_device(Machine::host(), t),
    })
}

fn on_device(m: Machine, t: &KernelArgs) -> Machine {
    match t.device.as_deref().filter(|_| kind(t) == Some("cuda")) {
        Some(device) => lathe::machine::with_device(m, device),
        None => m,
    }
}

/// The machine that code is made for, which must be one that runs it here.
pub fn machine_here(t: &KernelArgs) -> Result<Machine, Stop> {
    let m = match &t.cpu {
        Some(name) => lathe::machine::open(name)?,
        None => Machine::host(),
    };
    lathe::machine::runs_here(&m)?;
    Ok(on_device(lathe::machine::here(m), t))
}

pub fn engine(t: &KernelArgs) -> Result<Engine, Stop> {
    let on_cpu = || match &t.engine {
        Some(name) => Engine::named(name),
        None => Ok(Engine::default()),
    };
    let device = match t.device.as_deref() {
        None | Some("cpu") => return Ok(on_cpu()?),
        Some("interpreter") => Engine::INTERPRETER,
        Some(name) => Engine::device(name)?,
    };
    if let Some(e) = t.engine.as_deref().filter(|e| *e != device.name()) {
        let d = Diagnostic::error(
            lathe::runtime_codes::NO_ENGINE,
            format!("`--engine {e}` chooses an engine of the CPU, but `--device {device}` is not the CPU"),
        );
        return Err(d.help("omit one of the two").into());
    }
    Ok(device)
}

/// `cuda` or `opencl`, where code is made for a device.
fn kind(t: &KernelArgs) -> Option<&str> {
    let name = t.device.as_deref()?.split(':').next()?;
    matches!(name, "cuda" | "opencl").then_some(name)
}

/// The system model of decisions that name none: what is asked for, else that of the device.
pub fn model(t: &KernelArgs) -> Option<String> {
    t.model.clone().or_else(|| kind(t).map(str::to_string))
}

/// The strategy where none is asked for.
pub fn strategy_for(t: &KernelArgs, program: &Program, kernel: &Function) -> Option<String> {
    if t.strategy.is_some() || kind(t).is_none() {
        return t.strategy.clone();
    }
    Some(lathe::which::of_device(program, kernel).to_string())
}

/// `-D` values as integers, element types apart; wrong ones are usage errors.
pub fn sizes(t: &KernelArgs) -> Result<BTreeMap<String, i64>, Stop> {
    let mut out = BTreeMap::new();
    for (name, text) in &once("-D", &t.sizes)? {
        if Type::element_named(text).is_some() {
            continue;
        }
        let v: i64 = text.parse().map_err(|_| {
            Stop::from(
                Diagnostic::error(codes::SIZES, format!("`{text}` is not a value for the size {name}"))
                    .help("sizes are 64-bit integers: -D N=1024"),
            )
        })?;
        out.insert(name.clone(), v);
    }
    Ok(out)
}

/// How to schedule, for one name of a strategy.
pub fn how(target: &TargetArgs, strategy: Option<&str>) -> Result<How, Stop> {
    let t = &target.how;
    Ok(How {
        strategy: strategy.map(str::to_string),
        params: once("--param", &t.params)?,
        specialize: if t.specialize { sizes(t)? } else { BTreeMap::new() },
        sizes: BTreeMap::new(),
        others: false,
        threads: None,
        model: model(t),
        assumptions: if target.trust_assumptions { Assumptions::Trusted } else { Assumptions::Checked },
    })
}

/// How to schedule where nothing is run, so that `-D` has a meaning only with `--specialize`, or where the strategy
/// takes decisions for sizes. Elsewhere code that is written without them would not be what was asked for; an
/// explanation is the same, so `optional` sizes are only said to change nothing.
pub fn how_unrun(
    target: &TargetArgs,
    program: &Program,
    kernel: &Function,
    optional: bool,
) -> Result<How, Stop> {
    let t = &target.how;
    let given = sizes(t)?;
    data::given_sizes(kernel, &given)?;
    if given.is_empty() || t.specialize {
        if !t.specialize || !given.is_empty() {
            return how(target, strategy_for(t, program, kernel).as_deref());
        }
        let d = Diagnostic::error(codes::SIZES, "`--specialize` needs sizes");
        let first = kernel.sizes.first().map(|b| format!("--specialize -D {}=1024 bakes a size in", b.name));
        let help = first.unwrap_or_else(|| format!("`{}` has no sizes: omit it", kernel.name));
        return Err(d.help(help).into());
    }
    let how = How { sizes: given, ..how(target, strategy_for(t, program, kernel).as_deref())? };
    if lathe::which::decides(program, kernel, &how)? {
        return Ok(how);
    }
    let text = "`-D` changes nothing without `--specialize` here";
    if optional {
        note!("note: {text}: the strategy does not depend on sizes");
        return Ok(how);
    }
    Err(Diagnostic::error(codes::SIZES, text).help("--specialize bakes the sizes in").into())
}

/// The file of a target and its kernel, for the element types that `-D` chooses; prints warnings.
pub fn open(t: &TargetArgs) -> Result<(Program, Function), Stop> {
    let (file, name) = lathe::program::split_target(&t.target);
    let program = Program::open(file)?;
    crate::render::print(&program.sources, &program.warnings);
    let given = once("-D", &t.how.sizes)?;
    let types = given.into_iter().filter_map(|(n, text)| Some((n, Type::element_named(&text)?))).collect();
    let kernel = program.kernel_for(name.as_deref(), &types)?.clone();
    Ok((program, kernel))
}

/// The files that a command on a target reads, which it does not replace.
pub fn read(program: &Program, t: &KernelArgs, inputs: &[(String, String)]) -> Vec<Used> {
    let here = Path::new("");
    let described = |name: &Option<String>, what: &str| {
        let file = name.as_ref().and_then(|n| lathe::machine::file(n, here));
        file.map(|f| Used::new(f, what))
    };
    let mut all: Vec<Used> = inputs.iter().map(|(n, f)| Used::new(f, format!("the input {n}"))).collect();
    all.extend(program.files().into_iter().enumerate().map(|(n, f)| {
        let what = if n == 0 { "the source" } else { "a file that the source uses" };
        Used::new(f, what)
    }));
    all.extend(described(&t.cpu, "the machine"));
    all.extend(described(&t.model, "the model"));
    all.extend(lathe::tune::store::path(None).map(|f| Used::new(f, "the store of results")));
    all
}

pub fn given(t: &KernelArgs, d: &InputArgs) -> Result<data::Given, Stop> {
    Ok(data::Given { sizes: sizes(t)?, inputs: once("--input", &d.inputs)?, seed: d.seed })
}

/// How many threads run `parallel` loops; where that is more than the process may use, it is said.
pub fn threads(d: &InputArgs) -> usize {
    let most = std::thread::available_parallelism().map_or(1, usize::from);
    let threads = d.threads.map_or(most, |n| n as usize);
    if threads > most {
        let s = if most == 1 { "" } else { "s" };
        note!(
            "note: {threads} threads share the {most} processor{s} that this process may use: more is not faster"
        );
    }
    threads
}

/// What a target is run for.
pub fn situation<'a>(
    t: &KernelArgs,
    given: &'a data::Given,
    sizes: &'a BTreeMap<String, i64>,
    build: &'a Build,
    threads: usize,
) -> Situation<'a> {
    Situation { sizes, inputs: &given.inputs, build, specialize: t.specialize, threads }
}

/// The schedule for a call with these sizes: what the options ask for; else the winner of tuning exactly this; else
/// the kernel's usual strategy. A store that cannot be read is only warned of.
pub fn scheduled(
    target: &TargetArgs,
    strategy: Option<&str>,
    program: &Program,
    kernel: &Function,
    of: Situation,
) -> Result<Schedule, Stop> {
    let t = &target.how;
    let usual = strategy_for(t, program, kernel);
    let strategy = strategy.or(usual.as_deref());
    let mut how = How { sizes: of.sizes.clone(), threads: Some(of.threads), ..how(target, strategy)? };
    if t.specialize {
        how.specialize = of.sizes.clone();
    }
    // Without a home there is no store.
    let store = lathe::tune::store::path(None).ok();
    let assumptions = how.assumptions;
    // On a device its usual strategy and model are asked for by nobody: a winner comes before them.
    let unasked = kind(t).is_some() && t.model.is_none() && t.strategy.is_none() && t.params.is_empty();
    let asked = match unasked && strategy == usual.as_deref() {
        true => How { strategy: None, model: None, ..how.clone() },
        false => how.clone(),
    };
    let model = how.model.clone();
    let mut decided = lathe::which::decide(store.as_deref(), program, kernel, asked, of);
    if !decided.stored {
        decided.how = how;
    }
    decided.how.model = decided.how.model.or(model);
    decided.how.assumptions = assumptions;
    if let Some(d) = &decided.trouble {
        crate::tune_options::trouble(Some(d));
    }
    let mut schedule = lathe::schedule(program, kernel, &decided.how, &machine_here(t)?)?;
    if decided.stored {
        schedule.source = StrategySource::Stored;
        schedule.reason = "the fastest found by a search for these sizes".to_string();
    }
    print_notes(&schedule);
    Ok(schedule)
}

/// What was not done, and why, on standard error.
pub fn print_notes(schedule: &Schedule) {
    for note in schedule.notes() {
        note!("note: {}: {note}", schedule.strategy);
    }
}

/// Assignments by name; what is given twice is refused, since one of the two would be lost.
pub fn once(option: &str, given: &[(String, String)]) -> Result<BTreeMap<String, String>, Stop> {
    let mut out = BTreeMap::new();
    for (name, value) in given {
        if let Some(old) = out.insert(name.clone(), value.clone()) {
            let d = Diagnostic::error(
                codes::TWICE,
                format!("{option} gives `{name}` twice: `{old}` and `{value}`"),
            );
            return Err(d.help("give it once").into());
        }
    }
    Ok(out)
}

/// Prints the times of the stages on standard error.
pub fn print_times(times: &[(String, f64)]) {
    let width = times.iter().map(|t| t.0.len()).max().unwrap_or(0);
    for (name, s) in times {
        note!("  {name:width$}  {:9.3} ms", s * 1e3);
    }
}
