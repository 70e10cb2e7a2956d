//! The measuring process of a kernel: it keeps the program, the data and the pool, and answers questions.

use super::illegal::illegal;
use crate::applied::How;
use crate::build::{Build, Built, compile};
use crate::check::{Limits, Reference};
use crate::data::{Data, Given, make};
use crate::parallel::STACK;
use crate::program::Program;
use crate::report::CheckReport;
use crate::schedule::Schedule;
use crate::which::schedule;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_measure::rounds::Processors;
use lathe_measure::stats::Summary;
use lathe_measure::worker::{Race, Rule};
use lathe_measure::{Plan, rounds};
use lathe_runtime::{Engine, Pool};
use lathe_space::Values;
use lathe_target::Machine;
use lathe_tune::{Invalid, Why};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// What a worker works on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Setup {
    pub file: PathBuf,
    pub kernel: String,
    pub strategy: String,
    pub sizes: BTreeMap<String, i64>,
    pub inputs: BTreeMap<String, String>,
    pub seed: u64,
    pub threads: usize,
    /// The engine by its name.
    pub engine: String,
    /// The machine by its name or file; `host` for this one.
    pub machine: String,
    pub specialize: bool,
    /// The system model of decisions that name none.
    #[serde(default)]
    pub model: Option<String>,
    /// What a check may cost, as a part of what it costs where time does not matter.
    #[serde(default = "whole")]
    pub checking: f64,
}

fn whole() -> f64 {
    1.0
}

/// What a worker is asked.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Question {
    /// Compiles several side by side, since they will be asked about next.
    Prepare { all: Vec<Values> },
    /// How long one configuration takes, compared with the best so far.
    Measure { params: Values, best: Option<f64>, rule: Rule },
    /// Whether its result is right.
    Check { params: Values },
    /// Several of them, in interleaved rounds.
    Compare { all: Vec<Values>, runs: usize },
}

/// How long something took.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Timing {
    pub median: f64,
    pub low: f64,
    pub high: f64,
    pub runs: usize,
    /// The single runs, in seconds.
    pub runtimes: Vec<f64>,
}

/// A short call is repeated within one sample until this much time has passed.
const SAMPLE: Duration = Duration::from_millis(2);

/// What compiling a configuration came to, and the seconds it took.
type Made = (Result<(Schedule, Built), Invalid>, f64);

pub(super) struct Work {
    setup: Setup,
    program: Program,
    kernel: Function,
    machine: Machine,
    build: Build,
    pool: Pool,
    original: Data,
    data: Data,
    last: Option<(Values, Schedule, Built)>,
    /// Compiled for the next questions.
    ready: Vec<(Values, Made)>,
    /// What all results are compared with, once one was asked about.
    reference: Option<Reference>,
    /// Where compiling may run: not only where measuring does.
    processors: Option<Processors>,
}

/// Why a configuration of a device has no time. After some failures no later call of the same process would succeed: it
/// ends, and the next question starts another.
pub(super) fn failed(d: &Diagnostic) -> Invalid {
    use lathe_runtime::device_codes as codes;
    if [codes::DRIVER, codes::DEVICE_TIME, codes::FAILED, codes::LOST].contains(&d.code) {
        eprintln!("{}", short(d));
        std::process::exit(1);
    }
    let why = match d.code {
        codes::DEVICE_COMPILER => Why::Compile,
        codes::DEVICE_LIMIT | codes::ARGUMENTS => Why::Refused,
        codes::MEMORY => Why::Memory,
        _ => Why::Runtime,
    };
    Invalid::new(why, short(d))
}

impl Work {
    pub fn start(setup: Json) -> Result<Work, Diagnostic> {
        let wrong = |e: String| Diagnostic::error(lathe_measure::codes::WORKER, e);
        let setup: Setup = serde_json::from_value(setup).map_err(|e| wrong(e.to_string()))?;
        let program = Program::open(&setup.file).map_err(|f| wrong(f.to_string()))?;
        let kernel = program.kernel(Some(&setup.kernel)).map_err(|f| wrong(f.to_string()))?.clone();
        let engine = Engine::named(&setup.engine)?;
        let machine = crate::machine::here(crate::machine::open(&setup.machine)?);
        let own = machine.clone();
        let machine = match engine.is_device() {
            true => crate::machine::with_device(machine, engine.name()),
            false => machine,
        };
        let given = Given { sizes: setup.sizes.clone(), inputs: setup.inputs.clone(), seed: setup.seed };
        let original = make(&kernel, &given)?;
        let data = original.duplicate()?;
        let processors = Processors::allowed();
        rounds::pin_to_first(setup.threads);
        let pool = Pool::new(setup.threads)?;
        let build = Build { engine, ..Build::default() }.on(&own);
        Ok(Work {
            setup,
            program,
            kernel,
            machine,
            build,
            pool,
            original,
            data,
            last: None,
            ready: Vec::new(),
            reference: None,
            processors,
        })
    }

    pub fn answer(&mut self, question: Json, running: &mut dyn FnMut()) -> Result<Json, Invalid> {
        let broken =
            |e: serde_json::Error| Invalid::new(Why::Runtime, format!("a message of the tuner: {e}"));
        match serde_json::from_value(question).map_err(broken)? {
            Question::Prepare { all } => {
                self.compile_all(all.clone());
                // In the order of the question; nothing for what is compiled again.
                let seconds = |p: &Values| self.ready.iter().find(|r| r.0 == *p).map(|r| r.1.1);
                serde_json::to_value(all.iter().map(seconds).collect::<Vec<_>>()).map_err(broken)
            }
            Question::Measure { params, best, rule } => {
                self.prepare(&params)?;
                running();
                let timing = self.measure(best, rule)?;
                serde_json::to_value(timing).map_err(broken)
            }
            Question::Check { params } => {
                self.prepare(&params)?;
                running();
                serde_json::to_value(self.check()?).map_err(broken)
            }
            Question::Compare { all, runs } => {
                let mut built = Vec::new();
                self.compile_all(all.clone());
                for params in &all {
                    self.prepare(params)?;
                    built.extend(self.last.take());
                }
                running();
                serde_json::to_value(self.compare(&built, runs)?).map_err(broken)
            }
        }
    }

    /// Compiles a configuration, unless it is the last one.
    fn prepare(&mut self, params: &Values) -> Result<(), Invalid> {
        if self.last.as_ref().is_none_or(|l| l.0 != *params) {
            self.last = None;
            let ready = self.ready.iter().position(|r| r.0 == *params);
            let made = match ready {
                Some(i) => self.ready.swap_remove(i).1,
                None => self.compile(params),
            };
            let (schedule, built) = made.0?;
            self.last = Some((params.clone(), schedule, built));
        }
        Ok(())
    }

    fn compile(&self, params: &Values) -> Made {
        let start = Instant::now();
        let made = self.compiled(params);
        (made, start.elapsed().as_secs_f64())
    }

    fn compiled(&self, params: &Values) -> Result<(Schedule, Built), Invalid> {
        let how = How {
            strategy: Some(self.setup.strategy.clone()),
            params: params.iter().map(|(n, v)| (n.clone(), v.to_string())).collect(),
            specialize: if self.setup.specialize { self.setup.sizes.clone() } else { BTreeMap::new() },
            sizes: self.setup.sizes.clone(),
            threads: Some(self.setup.threads),
            model: self.setup.model.clone(),
            ..How::default()
        };
        let schedule = schedule(&self.program, &self.kernel, &how, &self.machine).map_err(|f| {
            let text: Vec<String> = f.diagnostics.iter().map(short).collect();
            Invalid::new(Why::Refused, text.join("; "))
        })?;
        if let Some(why) = illegal(&schedule, &self.setup.sizes) {
            return Err(Invalid::new(Why::Refused, why));
        }
        let built = compile(&schedule, &self.build).map_err(|d| Invalid::new(Why::Compile, short(&d)))?;
        Ok((schedule, built))
    }

    /// Compiles all side by side; nothing is measured until all of it is done.
    fn compile_all(&mut self, all: Vec<Values>) {
        let this = &*self;
        let made: Vec<_> = std::thread::scope(|scope| {
            let one = |params: Values| {
                let work = move || {
                    if let Some(p) = &this.processors {
                        p.bind();
                    }
                    let made = this.compile(&params);
                    (params, made)
                };
                std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work)
            };
            let threads: Vec<_> = all.into_iter().map(one).collect();
            // What does not start, or panics, is compiled again when it is asked about, and says so then.
            threads.into_iter().filter_map(|t| t.ok()?.join().ok()).collect()
        });
        self.ready = made;
    }

    fn measure(&mut self, best: Option<f64>, rule: Rule) -> Result<Timing, Invalid> {
        let Some((_, _, built)) = &self.last else { return Err(nothing()) };
        let (pool, data) = (&self.pool, &mut self.data);
        let mut runtimes = Vec::new();
        let (s, _) = Race::new(rule, best).run(|| {
            if let Some(seconds) = on_device(built, data)? {
                runtimes.push(seconds);
                return Ok(seconds);
            }
            let start = Instant::now();
            let mut calls = 0u32;
            while calls == 0 || start.elapsed() < SAMPLE {
                built.call(pool, &mut data.arrays).map_err(|d| failed(&d))?;
                calls += 1;
            }
            let seconds = start.elapsed().as_secs_f64() / f64::from(calls);
            runtimes.push(seconds);
            Ok(seconds)
        })?;
        Ok(timing(&s, runtimes))
    }

    fn compare(&mut self, built: &[(Values, Schedule, Built)], runs: usize) -> Result<Vec<Timing>, Invalid> {
        let plan = Plan { runs, warmup: 1, at_least: SAMPLE, wake: 1 };
        let (pool, data) = (&self.pool, &mut self.data);
        let one = |t: Vec<f64>| Some(timing(&lathe_measure::stats::summarize(&t)?, t));
        if self.build.engine.is_device() {
            let mut times = vec![Vec::new(); built.len()];
            for _ in 0..runs {
                for (b, t) in built.iter().zip(&mut times) {
                    t.extend(on_device(&b.2, data)?);
                }
            }
            return Ok(times.into_iter().filter_map(one).collect());
        }
        let mut call = |i: usize| built[i].2.call(pool, &mut data.arrays);
        let times = rounds::rounds(built.len(), &plan, &mut call, |_| {}).map_err(|d| failed(&d))?;
        Ok(times.into_iter().filter_map(one).collect())
    }

    fn check(&mut self) -> Result<CheckReport, Invalid> {
        let Some((_, schedule, built)) = &self.last else { return Err(nothing()) };
        let failed = |d: Diagnostic| failed(&d);
        let mut after = self.original.duplicate().map_err(failed)?;
        built.call(&self.pool, &mut after.arrays).map_err(failed)?;
        let reference = match &mut self.reference {
            Some(r) => r,
            none => {
                let before = self.original.duplicate().map_err(failed)?;
                let limits = Limits::default().part(self.setup.checking);
                let made = Reference::within(schedule, &self.build, before, &self.pool, limits);
                none.insert(made.map_err(failed)?)
            }
        };
        let checked = reference.compare(schedule, &after).map_err(failed)?;
        match checked.first {
            Some(first) if !checked.report.ok => {
                Err(Invalid::new(Why::Wrong, format!("the result is wrong: {first}")))
            }
            _ => Ok(checked.report),
        }
    }
}

/// So many runs of a device are one sample: their median.
const RUNS: usize = 5;

/// The seconds of a run by the clock of the device, without copies; none for code of the host.
fn on_device(built: &Built, data: &mut Data) -> Result<Option<f64>, Invalid> {
    let runs = built.device_seconds(&mut data.arrays, RUNS).map_err(|d| failed(&d))?;
    Ok(runs.and_then(|r| lathe_measure::stats::summarize(&r)).map(|s| s.median))
}

fn nothing() -> Invalid {
    Invalid::new(Why::Runtime, "nothing was compiled")
}

pub(super) fn timing(s: &Summary, runtimes: Vec<f64>) -> Timing {
    Timing { median: s.median, low: s.interval.0, high: s.interval.1, runs: s.runs, runtimes }
}

/// The code and the message: what a reason has room for.
pub(super) fn short(d: &Diagnostic) -> String {
    format!("{}: {}", d.code, d.message)
}
