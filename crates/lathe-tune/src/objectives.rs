//! How many objectives a session has: as many numbers as most costs have.
//!
//! A cost with another number of them cannot be compared with the others, so its configuration is invalid. Which number
//! is the odd one is not known when the first costs come, so costs that were put aside are taken back when theirs turns
//! out to be the usual number.

use crate::codes;
use crate::cost::{Cost, Invalid, Outcome, Why};
use crate::history::Entry;
use lathe_diagnostics::Diagnostic;
use std::collections::BTreeMap;

/// When so many costs have fewer numbers than the order of costs needs, and none has enough, the order is wrong.
const TOO_SHORT: u64 = 10;

#[derive(Debug, Default)]
pub(crate) struct Objectives {
    /// As many as the order of costs needs.
    needed: usize,
    usual: Option<usize>,
    /// How many costs have so many numbers.
    counts: BTreeMap<usize, u64>,
    too_short: u64,
    /// Costs with an unusual number, by the place of their evaluation in the history.
    aside: Vec<(usize, Cost)>,
}

impl Objectives {
    pub fn new(needed: usize) -> Objectives {
        Objectives { needed, ..Objectives::default() }
    }

    /// A cost with too few numbers for the order makes its configuration invalid; if all of the first have too few, it
    /// is an error.
    pub fn judge(&mut self, cost: Cost) -> Result<Outcome, Diagnostic> {
        let n = cost.numbers().len();
        if n >= self.needed {
            return Ok(Outcome::Valid(cost));
        }
        self.too_short += 1;
        let text = format!("the cost has {}, and the order of costs needs {}", numbers(n), self.needed);
        if self.usual.is_none() && self.too_short >= TOO_SHORT {
            let d = Diagnostic::error(codes::OBJECTIVES, text)
                .note(format!("the same held for each of the first {TOO_SHORT} configurations with a cost"))
                .help("write as many costs, separated by commas, or compare them in another order");
            return Err(d);
        }
        Ok(Outcome::Invalid(Invalid::new(Why::NotANumber, text)))
    }

    /// Takes notice of the last entry. If most costs have another number of objectives since then, all entries follow,
    /// and the answer is true; else only the last one may become invalid.
    pub fn settle(&mut self, history: &mut [Entry]) -> bool {
        let Some((last, entry)) = history.iter_mut().enumerate().next_back() else { return false };
        let Some(n) = entry.outcome.cost().map(|c| c.numbers().len()) else { return false };
        let count = self.counts.entry(n).or_default();
        *count += 1;
        let count = *count;
        let usual = *self.usual.get_or_insert(n);
        if n == usual {
            return false;
        }
        if count <= self.counts.get(&usual).copied().unwrap_or(0) {
            self.put_aside(last, entry, usual);
            return false;
        }
        self.usual = Some(n);
        for (i, cost) in std::mem::take(&mut self.aside) {
            history[i].outcome = Outcome::Valid(cost);
        }
        history.iter_mut().enumerate().for_each(|(i, entry)| self.put_aside(i, entry, n));
        true
    }

    /// Makes an evaluation invalid if its cost has not the usual number of objectives.
    fn put_aside(&mut self, at: usize, entry: &mut Entry, usual: usize) {
        let Some(cost) = entry.outcome.cost().filter(|c| c.numbers().len() != usual) else { return };
        let n = cost.numbers().len();
        let text = format!("the cost has {}, and those of most configurations have {usual}", numbers(n));
        self.aside.push((at, cost.clone()));
        entry.outcome = Outcome::Invalid(Invalid::new(Why::NotANumber, text));
    }
}

fn numbers(n: usize) -> String {
    format!("{n} number{}", if n == 1 { "" } else { "s" })
}
