//! Online tuning: the program that calls a kernel tunes it by calling it.

use super::space::strategy_space;
use crate::applied::How;
use crate::build::{Build, Built, compile};
use crate::program::{Failure, Program};
use crate::which::schedule;
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_runtime::{Array, Pool};
use lathe_space::{Space, Values};
use lathe_target::Machine;
use lathe_tune::technique::{Technique, portfolio};
use lathe_tune::{Ended, Invalid, Outcome, Stop, TuningSession, Why};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

/// What to tune while it is used.
pub struct OnlineTuning {
    /// `None`: what would run without tuning.
    pub strategy: Option<String>,
    /// The sizes of all calls.
    pub sizes: BTreeMap<String, i64>,
    /// Parameters that keep a value.
    pub fixed: Values,
    pub build: Build,
    pub machine: Machine,
    pub specialize: bool,
    /// When calls stop to try something new; `None`: when everything was tried.
    pub stop: Option<Stop>,
    pub technique: Option<Box<dyn Technique>>,
    pub seed: u64,
}

impl OnlineTuning {
    /// Everything else as usual.
    pub fn new(sizes: BTreeMap<String, i64>) -> OnlineTuning {
        OnlineTuning {
            strategy: None,
            sizes,
            fixed: Values::new(),
            build: Build::default(),
            machine: Machine::host(),
            specialize: false,
            stop: None,
            technique: None,
            seed: 0,
        }
    }
}

/// A kernel that gets faster by being called, in one of two modes (Rasch 2024, section 5.6.4):
///
/// * *program-guided*: [`Online::call`] wherever the program would call the kernel. As long as the search goes on,
///   each call runs the next configuration on the real data; its result is the call's result, and its time the
///   configuration's cost. Afterwards each call runs the best one.
/// * *plain*: [`Online::tune`] once, on representative data whose results are thrown away; then [`Online::call`].
///
/// Configurations that the strategy refuses, or that cannot be compiled, never reach a call: the next one is taken.
/// Unlike the tuner with its own process, this one cannot survive a configuration that crashes.
pub struct Online<'p> {
    program: &'p Program,
    kernel: Function,
    strategy: String,
    how: How,
    build: Build,
    machine: Machine,
    fixed: Values,
    session: TuningSession,
    /// The fastest so far, ready to be called.
    best: Option<(Values, Built)>,
}

/// What a call ran.
#[derive(Clone, Debug, PartialEq)]
pub struct Step {
    pub params: Values,
    pub seconds: f64,
    /// It was tried for the first time.
    pub tried: bool,
}

impl<'p> Online<'p> {
    /// # Errors
    /// `E1085` if the strategy has no parameters with ranges; what binding or the space refuse.
    pub fn new(program: &'p Program, kernel: &Function, t: OnlineTuning) -> Result<Online<'p>, Failure> {
        let fail = |d: Diagnostic| Failure::one(&program.sources, d);
        let how = How { strategy: t.strategy.clone(), sizes: t.sizes.clone(), ..How::default() };
        let asked = crate::which::candidates(program, kernel, &how)?[0].name.to_string();
        let space = strategy_space(program, kernel, &asked, &how, &t.machine, &t.fixed)?;
        let technique = t.technique.unwrap_or_else(|| Box::new(portfolio()));
        let start = space.default.as_ref().and_then(|v| space.space.read(v));
        let mut tuner = lathe_tune::Tuner::new(Arc::clone(&space.space))
            .technique(technique)
            .seed(t.seed)
            .starting_points(start);
        if let Some(stop) = t.stop {
            tuner = tuner.stop(stop);
        }
        let strategy = space.definition.name.clone();
        Ok(Online {
            program,
            kernel: kernel.clone(),
            how: How {
                strategy: Some(strategy.clone()),
                params: BTreeMap::new(),
                specialize: if t.specialize { t.sizes } else { BTreeMap::new() },
                ..how
            },
            strategy,
            build: t.build,
            machine: t.machine,
            fixed: space.fixed,
            session: tuner.session().map_err(fail)?,
            best: None,
        })
    }

    /// Calls the kernel on one array per parameter, with the next configuration or with the best.
    ///
    /// # Errors
    /// What the call itself says: arguments that do not fit, a check of the kernel that fails. `E1086` if no
    /// configuration can be compiled.
    pub fn call(&mut self, pool: &Pool, arrays: &mut [Array]) -> Result<Step, Diagnostic> {
        while let Some(proposal) = self.session.get_configuration()? {
            let mut params = self.fixed.clone();
            params.extend(proposal.configuration.to_values());
            let built = match self.compile(&params) {
                Ok(built) => built,
                Err(i) => {
                    self.session.report_cost(Outcome::Invalid(i))?;
                    continue;
                }
            };
            let start = Instant::now();
            if let Err(d) = built.call(pool, arrays) {
                let text = format!("{}: {}", d.code, d.message);
                self.session.report_cost(Outcome::Invalid(Invalid::new(Why::Runtime, text)))?;
                return Err(d);
            }
            let seconds = start.elapsed().as_secs_f64();
            self.session.report_cost(seconds)?;
            let is_best = self.session.best().is_some_and(|(c, _)| *c == proposal.configuration);
            if is_best {
                self.best = Some((params.clone(), built));
            }
            return Ok(Step { params, seconds, tried: true });
        }
        let Some((params, built)) = &self.best else {
            let d =
                Diagnostic::error(super::codes::NOTHING_VALID, "no configuration can be compiled and run");
            let first = self.session.history().iter().find_map(|e| match &e.outcome {
                Outcome::Invalid(i) => Some(format!("{i} ({})", e.configuration)),
                Outcome::Valid(_) => None,
            });
            return Err(match first {
                Some(why) => d.note(format!("the first: {why}")),
                None => d,
            });
        };
        let start = Instant::now();
        built.call(pool, arrays)?;
        Ok(Step { params: params.clone(), seconds: start.elapsed().as_secs_f64(), tried: false })
    }

    /// Searches to the end on copies of these arrays.
    ///
    /// # Errors
    /// As [`Online::call`].
    pub fn tune(&mut self, pool: &Pool, representative: &[Array]) -> Result<(), Diagnostic> {
        loop {
            let mut copy = representative.iter().map(Array::duplicate).collect::<Result<Vec<_>, _>>()?;
            if !self.call(pool, &mut copy)?.tried {
                return Ok(());
            }
        }
    }

    /// The best configuration so far, and its time.
    pub fn best(&self) -> Option<(&Values, f64)> {
        let (_, cost) = self.session.best()?;
        self.best.as_ref().map(|b| (&b.0, cost.first()))
    }

    /// Whether calls still try something new.
    pub fn searching(&self) -> bool {
        *self.session.ended() == Ended::Running
    }

    /// Everything that was tried.
    pub fn history(&self) -> &[lathe_tune::Entry] {
        self.session.history()
    }

    pub fn space(&self) -> &Arc<Space> {
        self.session.space()
    }

    /// The strategy whose parameters are searched.
    pub fn strategy(&self) -> &str {
        &self.strategy
    }

    fn compile(&mut self, params: &Values) -> Result<Built, Invalid> {
        self.how.params = params.iter().map(|(n, v)| (n.clone(), v.to_string())).collect();
        let schedule = schedule(self.program, &self.kernel, &self.how, &self.machine).map_err(|f| {
            let text: Vec<String> =
                f.diagnostics.iter().map(|d| format!("{}: {}", d.code, d.message)).collect();
            Invalid::new(Why::Refused, text.join("; "))
        })?;
        compile(&schedule, &self.build)
            .map_err(|d| Invalid::new(Why::Compile, format!("{}: {}", d.code, d.message)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::data::{Given, make};

    const TEXT: &str = "kernel f(A: f32[N]) -> (B: f32[N]) { B[i] = 2 * A[i] }
strategy s(k = 0 in 0..=3 step 1, t = 8 in 8..=32 step 8) for f =
    if k == 1 then split(i, t) else if k == 2 then id else unroll(z)
strategy none(k = 0 in 0..=3 step 1) for f = unroll(z)";

    fn online<'p>(program: &'p Program, strategy: &str, stop: Option<Stop>) -> Online<'p> {
        let kernel = program.kernel(Some("f")).unwrap();
        let t = OnlineTuning {
            strategy: Some(strategy.to_string()),
            stop,
            ..OnlineTuning::new([("N".to_string(), 100)].into())
        };
        Online::new(program, kernel, t).unwrap()
    }

    fn arrays(program: &Program, seed: u64) -> Vec<Array> {
        let given = Given { sizes: [("N".to_string(), 100)].into(), seed, ..Given::default() };
        make(program.kernel(Some("f")).unwrap(), &given).unwrap().arrays
    }

    fn right(a: &[Array]) -> bool {
        (0..100).all(|i| a[1].get::<f32>(&[i]) == a[0].get::<f32>(&[i]).map(|v| 2.0 * v))
    }

    #[test]
    fn checklist_38_every_call_computes_its_own_result() {
        let program = Program::from_text("f.lathe", TEXT).unwrap();
        let pool = Pool::new(1).unwrap();
        let mut f = online(&program, "s", None);
        let mut tried = 0;
        for call in 0..20 {
            let mut data = arrays(&program, call);
            let step = f.call(&pool, &mut data).unwrap();
            assert!(right(&data), "call {call}");
            tried += usize::from(step.tried);
        }
        // Of 16 configurations the strategy refuses those with k = 0 and k = 3: they took no call.
        assert_eq!((tried, f.history().len(), f.searching()), (8, 16, false));
        let (params, seconds) = f.best().unwrap();
        assert!(seconds > 0.0 && params.len() == 2);
        // A call that does not fit is the caller's error, and costs no configuration its place.
        let mut wrong = arrays(&program, 1);
        wrong.truncate(1);
        assert!(f.call(&pool, &mut wrong).is_err());
    }

    #[test]
    fn checklist_38_plain_mode_throws_its_results_away() {
        let program = Program::from_text("f.lathe", TEXT).unwrap();
        let pool = Pool::new(1).unwrap();
        let mut f = online(&program, "s", Some(Stop::Evaluations(10)));
        let mut data = arrays(&program, 3);
        f.tune(&pool, &data).unwrap();
        assert!(!f.searching() && (0..100).all(|i| data[1].get::<f32>(&[i]) == Some(0.0)));
        let step = f.call(&pool, &mut data).unwrap();
        assert!(!step.tried && right(&data));
        assert_eq!(Some(&step.params), f.best().map(|b| b.0));
        let mut none = online(&program, "none", None);
        assert_eq!(none.call(&pool, &mut data).unwrap_err().code, crate::tune::codes::NOTHING_VALID);
    }
}
