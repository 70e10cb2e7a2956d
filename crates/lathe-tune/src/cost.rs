//! Costs: one number or several, how they are compared, and why a configuration has none.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use serde::{Deserialize, Serialize};
use std::cmp::Ordering;
use std::fmt;
use std::sync::Arc;

/// What is minimized: one number, or several objectives. The numbers are finite once a session accepted them.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Cost(Vec<f64>);

impl Cost {
    pub fn new(numbers: impl Into<Vec<f64>>) -> Cost {
        Cost(numbers.into())
    }

    pub fn numbers(&self) -> &[f64] {
        &self.0
    }

    /// The first objective; NaN for a cost without numbers.
    pub fn first(&self) -> f64 {
        self.0.first().copied().unwrap_or(f64::NAN)
    }

    /// Reads what a program writes to its cost file: numbers, separated by commas.
    pub fn parse(text: &str) -> Result<Cost, Diagnostic> {
        let numbers: Result<Vec<f64>, _> = text.trim().split(',').map(|t| t.trim().parse::<f64>()).collect();
        numbers.map(Cost).map_err(|_| {
            let shown: String = text.trim().chars().take(60).collect();
            Diagnostic::error(codes::COST_TEXT, format!("`{shown}` is not a cost"))
                .help("a cost is one number, or several separated by commas, for example `0.25,17`")
        })
    }
}

impl From<f64> for Cost {
    fn from(v: f64) -> Cost {
        Cost(vec![v])
    }
}

impl From<(f64, f64)> for Cost {
    fn from(v: (f64, f64)) -> Cost {
        Cost(vec![v.0, v.1])
    }
}

impl From<(f64, f64, f64)> for Cost {
    fn from(v: (f64, f64, f64)) -> Cost {
        Cost(vec![v.0, v.1, v.2])
    }
}

impl fmt::Display for Cost {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, v) in self.0.iter().enumerate() {
            write!(f, "{}{v}", if i > 0 { ", " } else { "" })?;
        }
        Ok(())
    }
}

/// What kind of fault made a configuration invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Why {
    /// The program or the transformation refused the configuration before it was compiled.
    Refused,
    Compile,
    /// It crashed, or said that it failed.
    Runtime,
    Timeout,
    Memory,
    /// It ran, and computed something wrong.
    Wrong,
    /// Its cost was not a finite number, or not as many numbers as the others' costs.
    NotANumber,
}

impl Why {
    /// The word of texts, plots and files.
    pub fn word(self) -> &'static str {
        match self {
            Why::Refused => "refused",
            Why::Compile => "compile",
            Why::Runtime => "runtime",
            Why::Timeout => "timeout",
            Why::Memory => "memory",
            Why::Wrong => "wrong",
            Why::NotANumber => "notanumber",
        }
    }
}

/// An invalid configuration's reason. It is not an error of tuning: the search goes on.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Invalid {
    pub why: Why,
    pub message: String,
}

impl Invalid {
    pub fn new(why: Why, message: impl Into<String>) -> Invalid {
        Invalid { why, message: message.into() }
    }
}

impl fmt::Display for Invalid {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What measuring one configuration came to.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Outcome {
    Valid(Cost),
    Invalid(Invalid),
}

impl Outcome {
    pub fn cost(&self) -> Option<&Cost> {
        match self {
            Outcome::Valid(c) => Some(c),
            Outcome::Invalid(_) => None,
        }
    }
}

/// Compares two costs; `Less` is better. Must be a total order.
pub type Compare = Arc<dyn Fn(&Cost, &Cost) -> Ordering + Send + Sync>;

/// Which of two costs is better.
#[derive(Clone)]
pub enum Order {
    /// The first objective decides, ties go to the next. Values within `tolerance`, relative to the least, of the least
    /// value so far are tied.
    Lexicographic { tolerance: f64 },
    /// The user's own order, of costs of at least so many numbers.
    By { compare: Compare, objectives: usize },
    /// No objective outranks another: all configurations that nothing dominates are kept. Techniques are led by
    /// the geometric mean of the objectives, and the best is the one of the front with the least of it.
    Pareto,
}

impl Default for Order {
    fn default() -> Order {
        Order::Lexicographic { tolerance: 0.0 }
    }
}

impl fmt::Debug for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Lexicographic { tolerance } => write!(f, "Lexicographic({tolerance})"),
            Order::By { objectives, .. } => write!(f, "By({objectives} objectives)"),
            Order::Pareto => f.write_str("Pareto"),
        }
    }
}

impl Order {
    /// How many numbers a cost needs at least to be compared.
    pub fn objectives(&self) -> usize {
        match self {
            Order::By { objectives, .. } => *objectives,
            Order::Lexicographic { .. } | Order::Pareto => 1,
        }
    }

    /// `Less` if `a` is better than `b`, as far as two costs alone can tell: a tolerance needs all of them, and is left
    /// out.
    pub fn compare(&self, a: &Cost, b: &Cost) -> Ordering {
        match self {
            Order::Lexicographic { .. } => {
                let each =
                    a.0.iter().zip(&b.0).map(|(x, y)| x.partial_cmp(y).unwrap_or_else(|| x.total_cmp(y)));
                each.into_iter().find(|o| o.is_ne()).unwrap_or_else(|| a.0.len().cmp(&b.0.len()))
            }
            Order::By { compare, .. } => compare(a, b),
            Order::Pareto => mean(a).total_cmp(&mean(b)),
        }
    }
}

/// The geometric mean where it exists, else the arithmetic one.
pub(crate) fn mean(c: &Cost) -> f64 {
    let n = c.0.len().max(1) as f64;
    if c.0.iter().all(|v| *v > 0.0) {
        (c.0.iter().map(|v| v.ln()).sum::<f64>() / n).exp()
    } else {
        c.0.iter().sum::<f64>() / n
    }
}

/// Whether `a` is nowhere worse than `b`, and somewhere better.
pub fn dominates(a: &Cost, b: &Cost) -> bool {
    a.0.len() == b.0.len() && a.0.iter().zip(&b.0).all(|(x, y)| x <= y) && a.0 != b.0
}

/// Checks what a cost function delivered. A number that is not finite, or no number at all, makes the configuration
/// invalid; a negative one, where none is allowed, is an error of the cost function.
pub(crate) fn accept(outcome: Outcome, negative: bool) -> Result<Outcome, Diagnostic> {
    let Outcome::Valid(cost) = outcome else { return Ok(outcome) };
    if cost.0.is_empty() {
        return Ok(Outcome::Invalid(Invalid::new(Why::NotANumber, "the cost has no number")));
    }
    if let Some(v) = cost.0.iter().find(|v| !v.is_finite()) {
        return Ok(Outcome::Invalid(Invalid::new(Why::NotANumber, format!("the cost is {v}"))));
    }
    if let Some(v) = cost.0.iter().find(|v| **v < 0.0)
        && !negative
    {
        return Err(Diagnostic::error(
            codes::NEGATIVE,
            format!("the cost function delivered {v}, which cannot be a time"),
        )
        .help("if the objective may be negative, say so: `.negative_costs(true)`"));
    }
    Ok(Outcome::Valid(cost))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checklist_34_tuples_are_compared_lexicographically() {
        let order = Order::default();
        let less = |a: (f64, f64), b: (f64, f64)| order.compare(&a.into(), &b.into()).is_lt();
        assert!(less((1.0, 9.0), (2.0, 0.0)));
        assert!(less((1.0, 2.0), (1.0, 3.0)));
        assert!(!less((1.0, 3.0), (1.0, 3.0)));
    }

    #[test]
    fn reasons_have_one_word_each() {
        use Why::*;
        for why in [Refused, Compile, Runtime, Timeout, Memory, Wrong, NotANumber] {
            assert_eq!(serde_json::to_value(why).unwrap(), why.word());
        }
    }

    #[test]
    fn dominance_needs_one_strictly_better_objective() {
        assert!(dominates(&(1.0, 2.0).into(), &(1.0, 3.0).into()));
        assert!(!dominates(&(1.0, 2.0).into(), &(1.0, 2.0).into()));
        assert!(!dominates(&(1.0, 4.0).into(), &(2.0, 3.0).into()));
    }

    #[test]
    fn not_a_number_is_invalid_and_negative_is_an_error() {
        let nan = accept(Outcome::Valid(f64::NAN.into()), false).unwrap();
        assert!(matches!(nan, Outcome::Invalid(Invalid { why: Why::NotANumber, .. })));
        let inf = accept(Outcome::Valid((1.0, f64::INFINITY).into()), false).unwrap();
        assert!(inf.cost().is_none());
        assert_eq!(accept(Outcome::Valid((-1.0).into()), false).unwrap_err().code, codes::NEGATIVE);
        assert!(accept(Outcome::Valid((-1.0).into()), true).is_ok());
        let none = accept(Outcome::Valid(Cost::new([])), true).unwrap();
        assert!(matches!(none, Outcome::Invalid(Invalid { why: Why::NotANumber, .. })));
    }

    #[test]
    fn cost_files_hold_numbers_separated_by_commas() {
        assert_eq!(Cost::parse(" 1.5 , 2\n").unwrap(), (1.5, 2.0).into());
        assert_eq!(Cost::parse("fast").unwrap_err().code, codes::COST_TEXT);
        assert!(Cost::parse("").is_err());
    }
}
