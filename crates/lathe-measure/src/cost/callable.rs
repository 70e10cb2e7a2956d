//! Functions of Rust as cost functions.

use super::{CostFunction, Gold, Sample};
use crate::worker::{Fault, Race, Rule};
use lathe_space::Values;
use lathe_tune::{Cost, Invalid, Pruning, Why};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Instant;

/// A function that says itself what a configuration costs. A panic makes the configuration invalid.
pub struct Callable<F>(pub F);

impl<F, C> CostFunction for Callable<F>
where
    F: FnMut(&Values) -> Result<C, Invalid>,
    C: Into<Cost>,
{
    fn measure(&mut self, configuration: &Values, _best: Option<&Cost>) -> Result<Sample, Fault> {
        let cost = caught(|| (self.0)(configuration))?;
        Ok(Sample::from(cost.into()))
    }
}

/// A function that computes something: its time is the cost, measured until it is known well enough, and its
/// result must agree with the gold.
pub struct CheckedCallable<F> {
    pub function: F,
    pub gold: Option<Gold>,
    pub rule: Rule,
}

impl<F> CostFunction for CheckedCallable<F>
where
    F: FnMut(&Values) -> Result<Vec<f64>, Invalid>,
{
    fn measure(&mut self, configuration: &Values, best: Option<&Cost>) -> Result<Sample, Fault> {
        let mut checked = false;
        let race = Race::new(self.rule, best.map(Cost::first));
        let (summary, _) = race.run(|| {
            let start = Instant::now();
            let result = caught(|| (self.function)(configuration))?;
            let seconds = start.elapsed().as_secs_f64();
            if let Some(gold) = self.gold.as_ref().filter(|_| !checked) {
                gold.check(&result)?;
                checked = true;
            }
            Ok::<f64, Invalid>(seconds)
        })?;
        let interval = (summary.runs > 1).then_some(summary.interval);
        Ok(Sample { cost: summary.median.into(), interval, runs: summary.runs as u64 })
    }

    fn prune(&mut self, rules: Pruning) {
        self.rule.pruning = Some(rules);
    }
}

fn caught<T>(call: impl FnOnce() -> Result<T, Invalid>) -> Result<T, Invalid> {
    catch_unwind(AssertUnwindSafe(call)).unwrap_or_else(|p| {
        let text = p.downcast_ref::<&str>().map(|s| s.to_string()).or(p.downcast_ref::<String>().cloned());
        Err(Invalid::new(Why::Runtime, format!("panicked: {}", text.unwrap_or_default())))
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Comparator;
    use lathe_space::Value;

    fn at(i: i64) -> Values {
        [("i".to_string(), Value::Int(i))].into()
    }

    fn number(v: &Values) -> f64 {
        match v["i"] {
            Value::Int(i) => i as f64,
            _ => f64::NAN,
        }
    }

    #[test]
    fn checklist_31_a_callable_gives_costs_and_reasons() {
        let mut f = Callable(|v: &Values| match number(v) {
            1.0 => Err(Invalid::new(Why::Refused, "odd")),
            2.0 => panic!("two"),
            n => Ok((n, 2.0 * n)),
        });
        assert_eq!(f.measure(&at(4), None).unwrap().cost, (4.0, 8.0).into());
        let Err(Fault::Invalid(i)) = f.measure(&at(1), None) else { panic!() };
        assert_eq!(i.why, Why::Refused);
        let Err(Fault::Invalid(i)) = f.measure(&at(2), None) else { panic!() };
        assert!(i.message.contains("two"), "{i}");
    }

    #[test]
    fn checklist_33_results_are_compared_with_gold() {
        let gold = Gold::from_fn(|| vec![0.0, 3.0], Comparator::Within(0.1));
        let function = |v: &Values| Ok(vec![0.05, number(v)]);
        let mut f = CheckedCallable { function, gold: Some(gold), rule: Rule::default() };
        let sample = f.measure(&at(3), None).unwrap();
        assert!(sample.runs > 1 && sample.interval.is_some());
        let Err(Fault::Invalid(i)) = f.measure(&at(4), None) else { panic!() };
        assert_eq!(i.why, Why::Wrong);
    }
}
