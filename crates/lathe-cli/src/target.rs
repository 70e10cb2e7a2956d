//! What the commands on a target share.

use crate::Stop;
use crate::args::{DataArgs, EngineArg, TargetArgs};
use lathe::{Diagnostic, Engine, Failure, How, Machine, Program, codes, data};
use std::collections::BTreeMap;

/// Options of every command.
pub struct Common {
    pub json: bool,
    pub time_passes: bool,
}

/// The machine that code is made for.
pub fn machine(t: &TargetArgs) -> Machine {
    match &t.cpu {
        Some(name) => Machine::named(name).unwrap_or_else(Machine::host),
        None => Machine::host(),
    }
}

pub fn engine(t: &TargetArgs) -> Result<Engine, Stop> {
    let wanted = match t.engine {
        Some(EngineArg::C) => Engine::C,
        Some(EngineArg::Llvm) => Engine::Llvm,
        None => Engine::default(),
    };
    if wanted == Engine::Llvm && !cfg!(feature = "llvm") {
        let d = Diagnostic::error(codes::UNAVAILABLE, "this build has no LLVM engine")
            .help("use --engine c, or build with the cargo feature `llvm`");
        return Err(d.into());
    }
    Ok(wanted)
}

/// `-D` values as integers; wrong ones are usage errors.
pub fn sizes(t: &TargetArgs) -> Result<BTreeMap<String, i64>, Stop> {
    let mut out = BTreeMap::new();
    for (name, text) in &t.sizes {
        let v: i64 = text.parse().map_err(|_| {
            Stop::from(
                Diagnostic::error(codes::SIZES, format!("`{text}` is no value for the size {name}"))
                    .help("sizes are integers that fit 64 bits: -D N=1024"),
            )
        })?;
        out.insert(name.clone(), v);
    }
    Ok(out)
}

/// How to schedule, for one name of a strategy.
pub fn how(t: &TargetArgs, strategy: Option<&str>) -> Result<How, Stop> {
    Ok(How {
        strategy: strategy.map(str::to_string),
        params: t.params.iter().cloned().collect(),
        specialize: if t.specialize { sizes(t)? } else { BTreeMap::new() },
    })
}

/// Opens the file of a target; prints warnings.
pub fn open(t: &TargetArgs) -> Result<(Program, Option<String>), Stop> {
    let (file, name) = lathe::program::split_target(&t.target);
    let program = Program::open(file)?;
    crate::render::print(&program.sources, &program.warnings);
    Ok((program, name))
}

pub fn given(t: &TargetArgs, d: &DataArgs) -> Result<data::Given, Stop> {
    Ok(data::Given { sizes: sizes(t)?, inputs: d.inputs.iter().cloned().collect(), seed: d.seed })
}

pub fn threads(d: &DataArgs) -> Result<usize, Stop> {
    let all = std::thread::available_parallelism().map_or(1, usize::from);
    match d.threads {
        Some(0) => Err(Failure::bare(
            Diagnostic::error(codes::UNAVAILABLE, "0 threads can run nothing")
                .help("--threads 1 is the fewest"),
        )
        .into()),
        Some(n) => Ok(n),
        None => Ok(all),
    }
}

/// Prints the times of the stages on standard error.
pub fn print_times(times: &[(String, f64)]) {
    let width = times.iter().map(|t| t.0.len()).max().unwrap_or(0);
    for (name, s) in times {
        eprintln!("  {name:width$}  {:9.3} ms", s * 1e3);
    }
}

/// One JSON value on standard output.
pub fn print_json(value: &impl serde::Serialize) {
    match serde_json::to_string_pretty(value) {
        Ok(text) => println!("{text}"),
        Err(e) => eprintln!("cannot print JSON: {e}"),
    }
}
