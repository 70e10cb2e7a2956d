//! A kernel as a cost function: its time in a measuring process.

use super::work::{Question, Setup, Timing};
use crate::report::CheckReport;
use lathe_diagnostics::Diagnostic;
use lathe_measure::cost::{CostFunction, Sample};
use lathe_measure::worker::{Fault, Limits, Patience, Rule, Spec, Worker};
use lathe_space::Values;
use lathe_tune::{Cost, Pruning};
use serde_json::Value as Json;
use std::ffi::OsString;
use std::time::Duration;

/// How measuring processes are started: the program and arguments after which [`super::work`] runs.
#[derive(Clone, Debug)]
pub struct WorkerCommand {
    pub program: OsString,
    pub arguments: Vec<OsString>,
}

/// Measures configurations of a kernel's strategy.
#[derive(Debug)]
pub struct KernelCost {
    worker: Worker,
    rule: Rule,
    /// Time for one configuration while there is no best to derive it from.
    first: Duration,
    /// Parameters that are not searched.
    fixed: Values,
    batch: usize,
}

/// More configurations than this are not chosen at once: a search learns between batches.
const AT_ONCE: usize = 4;

/// The longest that compiling one configuration may take.
const COMPILE: Duration = Duration::from_secs(60);

impl KernelCost {
    /// # Errors
    /// When the setup has no JSON form.
    pub fn new(
        command: &WorkerCommand,
        setup: &Setup,
        fixed: Values,
        first: Duration,
    ) -> Result<KernelCost, Diagnostic> {
        let setup = serde_json::to_value(setup)
            .map_err(|e| Diagnostic::error(lathe_measure::codes::WORKER, e.to_string()))?;
        let worker = Worker::new(Spec {
            program: command.program.clone(),
            arguments: command.arguments.clone(),
            setup,
            limits: Limits { memory: memory() },
            starting: Duration::from_secs(300),
        });
        let batch = std::thread::available_parallelism().map_or(1, usize::from).min(AT_ONCE);
        Ok(KernelCost { worker, rule: Rule::default(), first, fixed, batch })
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
        let q = Question::Check { params: self.all(configuration) };
        read(self.ask(&q, Patience { compile: time, run: time })?)
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
        let best = best.map(Cost::first);
        let q = Question::Measure { params: self.all(configuration), best, rule: self.rule };
        let patience = Patience::from_best(best, self.rule.time, self.first);
        let timing: Timing = read(self.ask(&q, patience)?)?;
        Ok(sample(&timing))
    }

    /// As many as are compiled side by side.
    fn batch(&self) -> usize {
        self.batch
    }

    fn measure_all(
        &mut self,
        all: &[Values],
        best: Option<&Cost>,
        answer: &mut dyn FnMut(usize, Result<Sample, Fault>),
    ) {
        let mut best = best.cloned();
        for (chunk, part) in all.chunks(self.batch).enumerate() {
            let at = chunk * self.batch;
            if part.len() > 1 {
                let q = Question::Prepare { all: part.iter().map(|c| self.all(c)).collect() };
                let limit = COMPILE * part.len() as u32;
                match self.ask(&q, Patience { compile: limit, run: limit }) {
                    Err(fault @ (Fault::Fatal(_) | Fault::Interrupted)) => return answer(at, Err(fault)),
                    // What ended the process shows when each is compiled alone.
                    Ok(_) | Err(Fault::Invalid(_)) => {}
                }
            }
            for (i, configuration) in part.iter().enumerate() {
                let done = self.measure(configuration, best.as_ref());
                if let Ok(s) = &done
                    && best.as_ref().is_none_or(|b| s.cost.first() < b.first())
                {
                    best = Some(s.cost.clone());
                }
                let stop = matches!(done, Err(Fault::Fatal(_) | Fault::Interrupted));
                answer(at + i, done);
                if stop {
                    return;
                }
            }
        }
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
    Diagnostic::error(lathe_measure::codes::WORKER, format!("the worker's answer makes no sense: {why}"))
        .into()
}

/// All of the machine's memory: a configuration that needs more would only wake the system's own killer.
fn memory() -> Option<u64> {
    let info = std::fs::read_to_string("/proc/meminfo").ok()?;
    let line = info.lines().find_map(|l| l.strip_prefix("MemTotal:"))?;
    let kilobytes: u64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kilobytes * 1024)
}
