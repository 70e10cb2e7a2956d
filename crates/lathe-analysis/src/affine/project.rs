//! What the constraints of a unit say about its outer dimensions alone, level by level, and what is implied by what.

use super::Context;
use crate::solve::{Answer, Reduced, normalize, solve_from};
use crate::system::{Col, Con, Conj, Lin};
use lathe_ir::Expr;
use lathe_ir::build::{add, index, mul, neg, sub};
use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};

/// Factors beyond this are given up.
const LARGE: i64 = 1 << 40;

/// So many points are kept that answered a question.
const POINTS: usize = 16;

/// What holds everywhere.
pub(super) struct Facts {
    state: Reduced,
    /// The same as it was said.
    cons: Conj,
    clauses: Vec<Vec<Conj>>,
    columns: u32,
    /// Points that were found, the latest one last: it often answers the next question, too.
    points: RefCell<VecDeque<Vec<i64>>>,
}

impl Facts {
    /// For systems of that many unknowns.
    pub fn new(context: &Context, columns: u32) -> Facts {
        let mut state = Reduced::default();
        // Surroundings that contradict themselves are never reached: any loops will do.
        state.absorb(&context.cons);
        let (cons, clauses) = (context.cons.clone(), context.clauses.clone());
        Facts { state, cons, clauses, columns, points: RefCell::default() }
    }

    /// These constraints are unsatisfiable.
    pub fn impossible(&self, cons: &[Con]) -> bool {
        let all = |cons: &[Con], p: &[i64]| cons.iter().all(|c| c.holds(p));
        let fits = |p: &Vec<i64>| {
            let one_of = |alternatives: &Vec<Conj>| alternatives.iter().any(|a| all(a, p));
            all(cons, p) && all(&self.cons, p) && self.clauses.iter().all(one_of)
        };
        if self.points.borrow().iter().rev().any(fits) {
            return false;
        }
        match solve_from(&self.state, cons, &self.clauses, self.columns) {
            Answer::Empty => return true,
            Answer::Point(p) => {
                let mut points = self.points.borrow_mut();
                points.push_back(p);
                if points.len() > POINTS {
                    points.pop_front();
                }
            }
            Answer::Unknown => {}
        }
        false
    }

    pub fn implies(&self, known: &[Con], con: &Con) -> bool {
        halves(std::slice::from_ref(con)).iter().all(|c| {
            let Some(not) = negated(c) else { return false };
            let mut all = known.to_vec();
            all.push(not);
            self.impossible(&all)
        })
    }

    /// Without constraints that the others and `known` imply.
    pub fn pruned(&self, known: &[Con], mut cons: Conj) -> Conj {
        let mut i = 0;
        while i < cons.len() {
            let mut others = known.to_vec();
            others.extend(cons.iter().enumerate().filter(|(j, _)| *j != i).map(|(_, c)| c.clone()));
            if self.implies(&others, &cons[i]) {
                cons.remove(i);
            } else {
                i += 1;
            }
        }
        cons
    }

    /// Per number of leading dimensions, what is left of the constraints when the later ones are eliminated (Fourier
    /// and Motzkin; over the rationals, so outer levels may have room for points that inner ones do not have).
    ///
    /// `Ok(None)`: there is no point at all.
    pub fn levels(&self, cons: &Conj, dims: &[Col]) -> Result<Option<Vec<Conj>>, String> {
        let Some(mut rest) = normalize(cons.clone()) else { return Ok(None) };
        let mut out = vec![rest.clone()];
        for d in dims.iter().rev() {
            let equal = rest.iter().find(|c| c.eq && matches!(c.lin.coefficient(d), 1 | -1)).cloned();
            let next = match equal {
                Some(e) => replaced(&rest, d, &e)?,
                None => combined(&rest, d)?,
            };
            if next
                .iter()
                .any(|c| c.lin.terms.iter().any(|t| t.1.abs() > LARGE) || c.lin.constant.abs() > LARGE)
            {
                return Err("the coefficients grow too large".into());
            }
            let Some(next) = normalize(next) else { return Ok(None) };
            rest = self.pruned(&[], next);
            out.push(rest.clone());
        }
        out.reverse();
        Ok(Some(out))
    }
}

fn overflow() -> String {
    "the coefficients grow too large".to_string()
}

/// With the value that an equality gives a dimension.
fn replaced(cons: &Conj, d: &Col, e: &Con) -> Result<Conj, String> {
    let k = e.lin.coefficient(d);
    let others = cons.iter().filter(|c| *c != e);
    others
        .map(|c| {
            let lin = c.lin.combine(1, &e.lin, -c.lin.coefficient(d) * k).ok_or_else(overflow)?;
            Ok(Con { lin, eq: c.eq })
        })
        .collect()
}

/// Every lower bound of a dimension is below every upper one.
fn combined(cons: &Conj, d: &Col) -> Result<Conj, String> {
    let (here, mut out): (Conj, Conj) = cons.iter().cloned().partition(|c| c.lin.coefficient(d) != 0);
    let here = halves(&here);
    for l in here.iter().filter(|c| c.lin.coefficient(d) > 0) {
        for u in here.iter().filter(|c| c.lin.coefficient(d) < 0) {
            let (a, b) = (l.lin.coefficient(d), -u.lin.coefficient(d));
            out.push(Con { lin: l.lin.combine(b, &u.lin, a).ok_or_else(overflow)?, eq: false });
        }
    }
    Ok(out)
}

/// The opposite of an inequality.
pub(super) fn negated(c: &Con) -> Option<Con> {
    Some(Con { lin: c.lin.scaled(-1)?.offset(-1)?, eq: false })
}

/// Equalities as two inequalities.
pub(crate) fn halves(cons: &[Con]) -> Conj {
    let mut out = Conj::with_capacity(cons.len());
    for con in cons {
        if con.eq {
            out.extend(con.lin.scaled(-1).map(|lin| Con { lin, eq: false }));
        }
        out.push(Con { lin: con.lin.clone(), eq: false });
    }
    out
}

/// A form as an expression.
pub(crate) fn to_expr(lin: &Lin, meaning: &HashMap<Col, Expr>) -> Expr {
    let mut terms: Vec<(Expr, i64)> = lin
        .terms
        .iter()
        .map(|(col, k)| (meaning.get(col).cloned().unwrap_or_else(|| index(0)), *k))
        .collect();
    terms.sort_by_key(|t| t.1 < 0);
    let mut out: Option<Expr> = None;
    for (e, k) in terms {
        out = Some(match out {
            None if k == -1 => neg(e),
            None => mul(e, index(k)),
            Some(o) if k < 0 => sub(o, mul(e, index(k.saturating_neg()))),
            Some(o) => add(o, mul(e, index(k))),
        });
    }
    add(out.unwrap_or_else(|| index(0)), index(lin.constant))
}
