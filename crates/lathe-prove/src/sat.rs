//! Circuits asked of a SAT solver (`batsat`, after MiniSat), within a budget of conflicts.

use crate::circuit::{Gate, Gates, Wire};
use batsat::{Callbacks, ClauseKind, Lit, Solver, SolverInterface, Var, lbool};
use std::cell::Cell;

/// An assignment of all gates, or none, or no answer in time.
pub(crate) enum Answer {
    Yes(Vec<bool>),
    No,
    Unknown,
}

/// Stops after so many conflicts: the same in every run, unlike a clock.
struct Budget {
    learnt: Cell<u64>,
    most: u64,
}

impl Callbacks for Budget {
    fn on_new_clause(&mut self, _: &[Lit], kind: ClauseKind) {
        if matches!(kind, ClauseKind::Learnt) {
            self.learnt.set(self.learnt.get() + 1);
        }
    }

    fn stop(&self) -> bool {
        self.learnt.get() > self.most
    }
}

/// Whether all of the wires can be true at once.
pub(crate) fn satisfiable(gates: &Gates, wanted: &[Wire], conflicts: u64) -> Answer {
    if wanted.contains(&Wire::FALSE) {
        return Answer::No;
    }
    let used = used(gates, wanted);
    let budget = Budget { learnt: Cell::new(0), most: conflicts };
    let mut s = Solver::new(batsat::SolverOpts::default(), budget);
    let mut vars: Vec<Option<Var>> = vec![None; gates.len()];
    for (n, u) in used.iter().enumerate() {
        if *u {
            vars[n] = Some(s.new_var_default());
        }
    }
    let Some(zero) = vars[0] else { return Answer::Unknown };
    let lit = |w: Wire| Lit::new(vars[w.gate()].unwrap_or(zero), !w.is_complement());
    let mut clause = Vec::new();
    let mut add = |s: &mut Solver<Budget>, lits: &[Lit]| {
        clause.clear();
        clause.extend_from_slice(lits);
        s.add_clause_reuse(&mut clause);
    };
    // Gate 0 is the constant false.
    add(&mut s, &[lit(Wire::TRUE)]);
    for n in (1..gates.len()).filter(|n| used[*n]) {
        let Some(v) = vars[n] else { continue };
        let (o, no) = (Lit::new(v, true), Lit::new(v, false));
        match gates.get(n) {
            Gate::Input => {}
            Gate::And(a, b) => {
                add(&mut s, &[no, lit(a)]);
                add(&mut s, &[no, lit(b)]);
                add(&mut s, &[o, !lit(a), !lit(b)]);
            }
            Gate::Xor(a, b) => {
                let (a, b) = (lit(a), lit(b));
                add(&mut s, &[no, a, b]);
                add(&mut s, &[no, !a, !b]);
                add(&mut s, &[o, !a, b]);
                add(&mut s, &[o, a, !b]);
            }
            Gate::Choose(c, a, b) => {
                let (c, a, b) = (lit(c), lit(a), lit(b));
                add(&mut s, &[!c, no, a]);
                add(&mut s, &[!c, o, !a]);
                add(&mut s, &[c, no, b]);
                add(&mut s, &[c, o, !b]);
                // What both say.
                add(&mut s, &[no, a, b]);
                add(&mut s, &[o, !a, !b]);
            }
        }
    }
    for w in wanted {
        add(&mut s, &[lit(*w)]);
    }
    let result = s.solve_limited(&[]);
    if result == lbool::TRUE {
        let value = |v: &Option<Var>| v.is_some_and(|v| s.value_var(v) == lbool::TRUE);
        Answer::Yes(vars.iter().map(value).collect())
    } else if result == lbool::FALSE {
        Answer::No
    } else {
        Answer::Unknown
    }
}

/// The gates that the wires hang on, and the constant.
fn used(gates: &Gates, wanted: &[Wire]) -> Vec<bool> {
    let mut used = vec![false; gates.len()];
    used[0] = true;
    let mut left: Vec<usize> = wanted.iter().map(|w| w.gate()).collect();
    while let Some(n) = left.pop() {
        if std::mem::replace(&mut used[n], true) {
            continue;
        }
        match gates.get(n) {
            Gate::Input => {}
            Gate::And(a, b) | Gate::Xor(a, b) => left.extend([a.gate(), b.gate()]),
            Gate::Choose(c, a, b) => left.extend([c.gate(), a.gate(), b.gate()]),
        }
    }
    used
}
