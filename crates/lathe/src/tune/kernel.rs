//! A kernel as a cost function: its time in a measuring process.

use super::work::{Question, Timing};
use crate::report::CheckReport;
use lathe_diagnostics::Diagnostic;
use lathe_measure::cost::{Answer, CostFunction, Sample};
use lathe_measure::worker::{Fault, Patience, Rule, Spec, Worker};
use lathe_space::Values;
use lathe_system::process::Limits;
use lathe_tune::{Cost, Invalid, Pruning, Times, Why};
use serde_json::Value as Json;
use std::ffi::OsString;
use std::time::{Duration, Instant};

/// How measuring processes are started: the program and arguments after which [`super::work`] runs.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    pub program: OsString,
    pub arguments: Vec<OsString>,
}

/// Measures configurations of a kernel's strategy. What is faster than all before it is compared with the reference run
/// before it is believed: a wrong result that comes fast would otherwise decide what is too slow to be measured.
#[derive(Debug)]
pub struct KernelCost {
    worker: Worker,
    rule: Rule,
    /// Time for one configuration while there is no best to derive it from.
    first: Duration,
    /// Parameters that are not searched.
    fixed: Values,
    batch: usize,
    around: Duration,
    /// What was compared, and is right.
    right: Vec<(Values, CheckReport)>,
    /// Why results cannot be compared during a search, if they cannot.
    uncompared: Option<String>,
}

/// What limits a measuring process, and its measurements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bounds {
    /// Bytes of memory; none where the system alone says.
    pub memory: Option<u64>,
    /// Configurations that are compiled side by side.
    pub batch: usize,
    pub rule: Rule,
    /// What one configuration may take beyond its runs: copies before each of them.
    pub around: Duration,
}

impl Default for Bounds {
    fn default() -> Bounds {
        let batch = std::thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE);
        Bounds { memory: memory(), batch, rule: Rule::default(), around: Duration::ZERO }
    }
}

/// More configurations than this are not chosen at once: a search learns between batches.
const AT_ONCE: usize = 4;

/// The longest that compiling one configuration may take.
const COMPILE: Duration = Duration::from_secs(60);

impl KernelCost {
    /// # Errors
    /// When the setup has no JSON form.
    pub(super) fn new(
        command: &WorkerCommand,
        setup: &impl serde::Serialize,
        fixed: Values,
        first: Duration,
        bounds: Bounds,
    ) -> Result<KernelCost, Diagnostic> {
        let setup = serde_json::to_value(setup)
            .map_err(|e| Diagnostic::error(lathe_measure::codes::WORKER, e.to_string()))?;
        let worker = Worker::new(Spec {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            setup,
            limits: Limits { memory: bounds.memory },
            starting: Duration::from_secs(300),
        });
        let (right, uncompared) = (Vec::new(), None);
        let Bounds { batch, rule, around, .. } = bounds;
        Ok(KernelCost { worker, rule, first, fixed, batch: batch.max(1), around, right, uncompared })
    }

    /// How many processes were needed so far; all but the first replaced one that was lost.
    pub fn processes(&self) -> u64 {
        self.worker.starts()
    }

    fn all(&self, configuration: &Values) -> Values {
        let mut all = self.fixed.clone();
        all.extend(configuration.clone());
        all
    }

    fn ask(&mut self, q: &Question, patience: Patience) -> Result<Json, Fault> {
        let q = serde_json::to_value(q)
            .map_err(|e| Diagnostic::error(lathe_measure::codes::WORKER, e.to_string()))?;
        self.worker.ask(&q, patience)
    }

    /// Whether a configuration's result is right, by the reference run, which may take `time`.
    ///
    /// # Errors
    /// As [`CostFunction::measure`].
    pub fn check(&mut self, configuration: &Values, time: Duration) -> Result<CheckReport, Fault> {
        if let Some((_, report)) = self.right.iter().find(|r| r.0 == *configuration) {
            return Ok(report.clone());
        }
        let q = Question::Check { params: self.all(configuration) };
        let report: CheckReport = read(self.ask(&q, Patience { compile: time, run: time })?)?;
        self.right.push((configuration.clone(), report.clone()));
        Ok(report)
    }

    /// As [`KernelCost::check`] during a search: where the reference run takes too long, or fails, the search goes on
    /// without it.
    fn believe(&mut self, configuration: &Values) -> Result<(), Fault> {
        if self.uncompared.is_some() {
            return Ok(());
        }
        // Compiling and running the candidate is known to work; what is left is the reference.
        match self.check(configuration, COMPILE.min(self.first)) {
            Ok(_) => Ok(()),
            Err(Fault::Invalid(i)) if i.why != Why::Wrong => {
                self.uncompared = Some(i.message);
                Ok(())
            }
            Err(fault) => Err(fault),
        }
    }

    /// Measures one configuration, which was compiled in so many seconds before.
    fn one(&mut self, configuration: &Values, best: Option<f64>, compiled: Option<f64>) -> Answer {
        let start = Instant::now();
        let q = Question::Measure { params: self.all(configuration), best, rule: self.rule };
        let mut patience = Patience::from_best(best, self.rule.time.min(self.first), self.first);
        patience.run += self.around;
        let timing = self.ask(&q, patience).and_then(read::<Timing>);
        let mut times = Times { run: start.elapsed().as_secs_f64(), ..Times::default() };
        if let Err(Fault::Invalid(Invalid { why: Why::Compile | Why::Refused, .. })) = &timing {
            times.compile = std::mem::take(&mut times.run);
        }
        times.compile += compiled.unwrap_or(0.0);
        let timing = match timing {
            Ok(t) => t,
            Err(fault) => return Answer { times, ..Err(fault).into() },
        };
        let start = Instant::now();
        let done = match best.is_none_or(|b| timing.median < b) {
            true => self.believe(configuration).map(|()| sample(&timing)),
            false => Ok(sample(&timing)),
        };
        times.validate = start.elapsed().as_secs_f64();
        Answer { done, times, runtimes: timing.runtimes }
    }

    /// Measures several configurations in interleaved rounds.
    ///
    /// # Errors
    /// As [`CostFunction::measure`].
    pub fn compare(&mut self, all: &[Values], runs: usize, time: Duration) -> Result<Vec<Sample>, Fault> {
        let all: Vec<Values> = all.iter().map(|c| self.all(c)).collect();
        let n = all.len();
        let answer = self.ask(&Question::Compare { all, runs }, Patience { compile: time, run: time })?;
        let timings: Vec<Timing> = read(answer)?;
        if timings.len() != n {
            return Err(broken(format!("{} times for {n} configurations", timings.len())));
        }
        Ok(timings.iter().map(sample).collect())
    }
}

impl CostFunction for KernelCost {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        self.one(configuration, best.map(Cost::first), None).done
    }

    /// As many as are compiled side by side.
    fn batch(&self) -> usize {
        self.batch
    }

    fn measure_all(&mut self, all: &[Values], best: Option<&Cost>, answer: &mut dyn FnMut(usize, Answer)) {
        let mut best = best.map(Cost::first);
        for (chunk, part) in all.chunks(self.batch).enumerate() {
            let at = chunk * self.batch;
            let mut compiled: Vec<Option<f64>> = Vec::new();
            let q = Question::Prepare { all: part.iter().map(|c| self.all(c)).collect() };
            let limit = COMPILE * part.len() as u32;
            match self.ask(&q, Patience { compile: limit, run: limit }).and_then(read) {
                Ok(seconds) => compiled = seconds,
                // What ended the process shows when each is compiled alone.
                Err(Fault::Invalid(_)) => {}
                Err(fault) => return answer(at, Err(fault).into()),
            }
            for (i, configuration) in part.iter().enumerate() {
                let done = self.one(configuration, best, compiled.get(i).copied().flatten());
                if let Ok(s) = &done.done {
                    best = Some(best.map_or(s.cost.first(), |b| b.min(s.cost.first())));
                }
                let stop = done.ends_all();
                answer(at + i, done);
                if stop {
                    return;
                }
            }
        }
    }

    fn believe(&mut self, configuration: &Values) -> Result<(), Fault> {
        KernelCost::believe(self, configuration)
    }

    fn prune(&mut self, rules: Pruning) {
        self.rule.pruning = Some(rules);
    }
}

fn sample(t: &Timing) -> Sample {
    Sample { cost: t.median.into(), interval: (t.runs > 1).then_some((t.low, t.high)), runs: t.runs as u64 }
}

fn read<T: serde::de::DeserializeOwned>(answer: Json) -> Result<T, Fault> {
    serde_json::from_value(answer).map_err(|e| broken(e.to_string()))
}

fn broken(why: String) -> Fault {
    Diagnostic::error(lathe_measure::codes::WORKER, format!("the worker's answer is invalid: {why}")).into()
}

/// All of the machine's memory: a configuration that needs more would only wake the system's own killer.
fn memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
