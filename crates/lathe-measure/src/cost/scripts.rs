//! Programs of any language: a script or command that compiles, one that runs, and a file with the cost.
//!
//! Both are run in a folder of their own, in which the program's source and the scripts lie with the
//! parameters' names replaced by their values, beside links to everything else of the program's folder. Every
//! parameter, constant and computed number is an environment variable, too. `LATHE_FOLDER` is the program's own folder.

use super::place::{Job, Place};
use super::step::{Step, Text, missing};
use super::{CostFunction, Gold, Sample};
use crate::worker::{Fault, Limits, Patience, Race, Rule};
use lathe_diagnostics::Diagnostic;
use lathe_space::{EvalError, Expr, Value, Values, eval};
use lathe_tune::{Cost, Pruning};
use std::path::PathBuf;
use std::sync::mpsc::channel;
use std::time::Duration;

/// What to run.
#[derive(Clone, Debug)]
pub struct Scripts {
    /// The folder that relative paths start from.
    pub folder: PathBuf,
    /// The program's text, with the parameters' names in it.
    pub source: Option<PathBuf>,
    /// What stands in that file, as far as it is the program's; `None`: all of it.
    pub text: Option<String>,
    /// A path to a script, or a command for the shell; likewise `run`.
    pub compile: Option<String>,
    pub run: String,
    /// Where the program writes its cost, as numbers separated by commas; `None`: the time of `run` is the cost.
    pub cost_file: Option<PathBuf>,
    /// Sizes and other constants.
    pub constants: Values,
    /// Further variables: numbers computed from parameters and constants, separated by blanks. For a configuration
    /// that one of them cannot be computed for, it is not set.
    pub computed: Vec<(String, Vec<Expr>)>,
    /// The right result, and the file that the program writes its own to; `None`: its standard output.
    pub gold: Option<(Gold, Option<PathBuf>)>,
    pub limits: Limits,
    /// Time for one run, while there is no best to derive it from; also the most for compiling.
    pub first: Duration,
    /// How often a configuration is run. With a cost file, [`Rule::once`] trusts the program's own numbers.
    pub rule: Rule,
    /// So many configurations are compiled at once.
    pub jobs: usize,
    /// And run at once, too: for costs that do not depend on what else the machine does.
    pub side_by_side: bool,
}

impl Scripts {
    /// A program that is only run, and timed.
    pub fn new(folder: impl Into<PathBuf>, run: impl Into<String>) -> Scripts {
        Scripts {
            folder: folder.into(),
            source: None,
            text: None,
            compile: None,
            run: run.into(),
            cost_file: None,
            constants: Values::new(),
            computed: Vec::new(),
            gold: None,
            limits: Limits::default(),
            first: Duration::from_secs(60),
            rule: Rule { warmup: 0, min: 1, max: 3, ..Rule::default() },
            jobs: 1,
            side_by_side: false,
        }
    }

    /// Checks that everything is there and may be run, and makes the folder to work in.
    ///
    /// # Errors
    /// `E1081`, for what is missing.
    pub fn prepare(self) -> Result<ScriptsCost, Diagnostic> {
        let folder = self.folder.canonicalize().map_err(|e| missing("folder", &self.folder, &e))?;
        let scripts = Scripts { folder, ..self };
        let run = Step::new(&scripts, &scripts.run)?;
        let compile = scripts.compile.as_deref().map(|c| Step::new(&scripts, c)).transpose()?;
        let source = match &scripts.source {
            Some(path) => {
                let read = Text::read(&scripts, path)?;
                Some(Text { text: scripts.text.clone().unwrap_or(read.text), ..read })
            }
            None => None,
        };
        let job = Job { scripts, run, compile, source };
        // Without anything to compile, only what runs side by side needs more than one place.
        let together = job.compile.is_some() || job.scripts.side_by_side;
        let n = if together { job.scripts.jobs.max(1) } else { 1 };
        let places = (0..n).map(|_| Place::new(&job)).collect::<Result<_, _>>()?;
        Ok(ScriptsCost { job, places, fastest: None })
    }
}

/// Runs scripts, and times them.
#[derive(Debug)]
pub struct ScriptsCost {
    job: Job,
    /// As many as are compiled at once.
    places: Vec<Place>,
    /// The time of the fastest run so far, from which the limit of the next is derived.
    fastest: Option<f64>,
}

/// What running a configuration came to, and the time of its fastest run.
type Ran = (Result<Sample, Fault>, Option<f64>);

impl ScriptsCost {
    /// The texts that decide what is measured: the source, the scripts, and the files that they name.
    pub fn texts(&self) -> Vec<String> {
        let step = |s: &Step| match s {
            Step::Script(t) => t.text.clone(),
            Step::Command(c) => c.clone(),
        };
        let job = &self.job;
        let source = job.source.as_ref().map_or(String::new(), |t| t.text.clone());
        let mut texts = vec![source, job.compile.as_ref().map_or(String::new(), step), step(&job.run)];
        let results = job.scripts.gold.as_ref().and_then(|g| g.1.as_ref());
        let written: Vec<PathBuf> = job.scripts.cost_file.iter().chain(results).cloned().collect();
        texts.extend(super::named::contents(&job.scripts.folder, &texts, &written));
        texts
    }

    /// Parameters, constants, and what is computed from them, by name.
    fn values(&self, configuration: &Values) -> Values {
        let mut values = self.job.scripts.constants.clone();
        values.extend(configuration.clone());
        let at = |n: &str| values.get(n).cloned();
        let text = |(name, all): &(String, Vec<Expr>)| {
            let numbers: Result<Vec<String>, _> = all.iter().map(|e| Ok(eval(e, &at)?.to_string())).collect();
            Some((name.clone(), Value::Str(numbers.map_err(|_: EvalError| ()).ok()?.join(" "))))
        };
        let computed: Vec<(String, Value)> = self.job.scripts.computed.iter().filter_map(text).collect();
        values.extend(computed);
        values
    }

    fn learn(&mut self, (answer, fastest): Ran) -> Result<Sample, Fault> {
        keep_least(&mut self.fastest, fastest);
        answer
    }

    /// Compiles side by side, each in its place, then runs one after the other.
    fn run_in_turn(
        &mut self,
        part: &[Values],
        best: Option<&Cost>,
        answer: &mut dyn FnMut(usize, Result<Sample, Fault>),
    ) {
        let job = &self.job;
        let compiled: Vec<Result<(), Fault>> = std::thread::scope(|scope| {
            let pairs = self.places.iter().zip(part);
            let threads: Vec<_> =
                pairs.map(|(place, values)| scope.spawn(|| place.compile(job, values))).collect();
            let join = |t: std::thread::ScopedJoinHandle<'_, _>| {
                t.join().unwrap_or_else(|p| std::panic::resume_unwind(p))
            };
            threads.into_iter().map(join).collect()
        });
        for (i, compiled) in compiled.into_iter().enumerate() {
            let ran = match compiled {
                Ok(()) => time(&self.job, &self.places[i], &part[i], best, self.fastest),
                Err(f) => (Err(f), None),
            };
            let done = self.learn(ran);
            let stop = matches!(done, Err(Fault::Fatal(_) | Fault::Interrupted));
            answer(i, done);
            if stop {
                return;
            }
        }
    }

    /// Compiles and runs side by side, each in its place.
    fn run_side_by_side(
        &mut self,
        part: &[Values],
        best: Option<&Cost>,
        answer: &mut dyn FnMut(usize, Result<Sample, Fault>),
    ) {
        let (job, known, places) = (&self.job, self.fastest, &self.places);
        let (send, receive) = channel();
        std::thread::scope(|scope| {
            for (i, (place, values)) in places.iter().zip(part).enumerate() {
                let send = send.clone();
                scope.spawn(move || {
                    let ran = match place.compile(job, values) {
                        Ok(()) => time(job, place, values, best, known),
                        Err(f) => (Err(f), None),
                    };
                    // The receiver lives longer than this thread.
                    let _ = send.send((i, ran));
                });
            }
            drop(send);
            // Told at once: what one of them came to is safe while the others still run.
            for (i, (done, fastest)) in receive.iter() {
                keep_least(&mut self.fastest, fastest);
                answer(i, done);
            }
        });
    }
}

fn keep_least(least: &mut Option<f64>, new: Option<f64>) {
    *least = match (*least, new) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (a, b) => a.or(b),
    };
}

/// Runs what lies compiled in a place; `known` is the fastest run of all so far.
fn time(job: &Job, place: &Place, values: &Values, best: Option<&Cost>, known: Option<f64>) -> Ran {
    let scripts = &job.scripts;
    let limit = Patience::from_best(known, Duration::ZERO, scripts.first).run.min(scripts.first);
    let timed = scripts.cost_file.is_none();
    // Costs that a program states itself need not be seconds.
    let rule = Rule { time: if timed { scripts.rule.time } else { Duration::MAX }, ..scripts.rule };
    let race = Race::new(rule, best.filter(|_| timed).map(Cost::first));
    let mut costs: Vec<Cost> = Vec::new();
    let mut fastest: Option<f64> = None;
    let done = race.run(|| {
        let (cost, seconds) = place.once(job, values, limit, costs.is_empty())?;
        fastest = Some(fastest.map_or(seconds, |f| f.min(seconds)));
        let first = cost.first();
        costs.push(cost);
        Ok::<f64, Fault>(first)
    });
    let sample = done.map(|(summary, _)| {
        // Of several runs the one with the median of the first number.
        let near = |c: &&Cost| (c.first() - summary.median).abs();
        let cost = match costs.iter().min_by(|a, b| near(a).total_cmp(&near(b))) {
            Some(c) if c.numbers().len() > 1 => c.clone(),
            _ => summary.median.into(),
        };
        let interval = (summary.runs > 1).then_some(summary.interval);
        Sample { cost, interval, runs: summary.runs as u64 }
    });
    (sample, fastest)
}

impl CostFunction for ScriptsCost {
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        let values = self.values(configuration);
        self.places[0].compile(&self.job, &values)?;
        let ran = time(&self.job, &self.places[0], &values, best, self.fastest);
        self.learn(ran)
    }

    fn batch(&self) -> usize {
        self.places.len()
    }

    fn measure_all(
        &mut self,
        all: &[Values],
        best: Option<&Cost>,
        answer: &mut dyn FnMut(usize, Result<Sample, Fault>),
    ) {
        let all: Vec<Values> = all.iter().map(|v| self.values(v)).collect();
        let width = self.places.len();
        for (chunk, part) in all.chunks(width).enumerate() {
            let mut stop = false;
            let mut tell = |i: usize, done: Result<Sample, Fault>| {
                stop |= matches!(done, Err(Fault::Fatal(_) | Fault::Interrupted));
                answer(chunk * width + i, done);
            };
            if self.job.scripts.side_by_side {
                self.run_side_by_side(part, best, &mut tell);
            } else {
                self.run_in_turn(part, best, &mut tell);
            }
            if stop {
                return;
            }
        }
    }

    fn prune(&mut self, rules: Pruning) {
        self.job.scripts.rule.pruning = Some(rules);
    }
}
