//! Whether two lists of formulas have equal values for all values of their variables.
//!
//! In this order: normal forms; a few hundred values; all values, where there are few; a SAT solver on circuits; many
//! values, near ties of comparisons among them. What only the last one did not refute is tested, not proved.

use crate::circuit::{Circuit, Wire};
use crate::formula::{Formulas, Id, Op};
use crate::guide::near_ties;
use crate::machine::{Column, Machine, vars_of};
use crate::normal::Normal;
use crate::sample::{Draw, assignments, mentioned};
use crate::sat::{Answer, satisfiable};
use lathe_ir::scalar::{self, ScalarValue};
use lathe_ir::{BinOp, Scalar};
use std::collections::HashMap;

/// How values are compared. A NaN equals every other, whatever its payload.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Equality {
    /// The same bits.
    Bits,
    /// Zeros of both signs are equal.
    Values,
}

/// Wherever what is given holds and the left sides have values, the right sides have the same ones.
#[derive(Clone, Debug)]
pub struct Question {
    /// Of type `bool`.
    pub given: Vec<Id>,
    pub pairs: Vec<(Id, Id)>,
    pub equality: Equality,
}

impl Question {
    /// Left, right, left, right, …, and what is given.
    fn roots(&self) -> Vec<Id> {
        self.pairs.iter().flat_map(|p| [p.0, p.1]).chain(self.given.iter().copied()).collect()
    }
}

/// What a proof rests on.
#[derive(Clone, Copy, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Proof {
    /// Both sides have one normal form.
    NormalForm,
    /// All values were tried.
    AllValues,
    /// No bits tell the sides apart, says a SAT solver.
    Bits,
}

#[derive(Clone, Debug)]
pub enum Verdict {
    Proved(Proof),
    /// On so many values.
    Tested(usize),
    Refuted(Counterexample),
    /// Too few values are within what is given.
    Untested,
}

/// Values of the variables (by number) at which a pair differs; `None`: no value.
#[derive(Clone, Debug)]
pub struct Counterexample {
    pub values: Vec<(u32, ScalarValue)>,
    pub pair: usize,
    pub left: Option<ScalarValue>,
    pub right: Option<ScalarValue>,
}

/// Variables of so many bits together have few values.
const FEW_BITS: u32 = 16;
/// Values before a proof is tried, and after one failed.
const FIRST: usize = 400;
const COMBINATIONS: usize = 5_000;
const RANDOM: usize = 6_000;
/// Tests count if so many of them are within what is given.
const LEAST: usize = 100;
const CONFLICTS: u64 = 4_000;
/// Cases that are told apart.
const CASES: usize = 200;

impl Proof {
    pub const ALL: [Proof; 3] = [Proof::NormalForm, Proof::AllValues, Proof::Bits];

    /// The inverse of its text.
    pub fn from_text(text: &str) -> Option<Proof> {
        Proof::ALL.into_iter().find(|p| p.to_string() == text)
    }
}

impl std::fmt::Display for Proof {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Proof::NormalForm => "normal form",
            Proof::AllValues => "all values",
            Proof::Bits => "bit-vectors",
        })
    }
}

/// Decides a question as far as it can.
pub fn decide(f: &mut Formulas, q: &Question) -> Verdict {
    let mut normal = Normal::default();
    let goal = Goal::new(f, &mut normal, q);
    if goal.holds {
        return Verdict::Proved(Proof::NormalForm);
    }
    let mut draw = Draw(0x1234_5678);
    let trial = Trial::new(f, q);
    match trial.run(0, FIRST, &mut draw) {
        Err(c) => return Verdict::Refuted(c),
        Ok(_) if trial.is_small() => return trial.all(),
        Ok(_) => {}
    }
    if goal.by_cases(f, &mut normal) {
        return Verdict::Proved(Proof::NormalForm);
    }
    match goal.ask(f, q) {
        Some(Answer::No) => return Verdict::Proved(Proof::Bits),
        Some(Answer::Yes(_)) | Some(Answer::Unknown) | None => {}
    }
    let mut tried = 0;
    for step in 0..3 {
        let done = match step {
            0 => goal
                .found
                .borrow()
                .iter()
                .try_fold(0, |n, row| Ok(n + trial.rows(std::slice::from_ref(row))?)),
            1 => trial.rows(&near_ties(f, &q.roots(), &mut draw)),
            _ => trial.run(COMBINATIONS, RANDOM, &mut draw),
        };
        match done {
            Ok(n) => tried += n,
            Err(c) => return Verdict::Refuted(c),
        }
    }
    if tried < LEAST { Verdict::Untested } else { Verdict::Tested(tried) }
}

/// Decides a question by a few values alone: for formulas too long for proofs.
pub(crate) fn decide_by_values(f: &Formulas, q: &Question) -> Verdict {
    match Trial::new(f, q).run(0, FIRST, &mut Draw(0x1234_5678)) {
        Err(c) => Verdict::Refuted(c),
        Ok(n) if n < LEAST => Verdict::Untested,
        Ok(n) => Verdict::Tested(n),
    }
}

/// What has to hold, in normal form.
struct Goal {
    given: Vec<Id>,
    /// Sides that are not the same formula.
    differ: Vec<(Id, Id)>,
    /// The left sides have values; the right sides have.
    left: Id,
    right: Id,
    /// Nothing is left to show.
    holds: bool,
    /// What the solver found, as rows.
    found: std::cell::RefCell<Vec<Vec<u64>>>,
}

impl Goal {
    fn new(f: &mut Formulas, normal: &mut Normal, q: &Question) -> Goal {
        let mut all = |f: &mut Formulas, ids: &mut dyn Iterator<Item = Id>| {
            let ids: Vec<Id> = ids.collect();
            let mut out = f.boolean(true);
            for id in ids {
                let d = f.defined(id);
                out = f.and(out, d);
            }
            normal.of(f, out)
        };
        let left = all(f, &mut q.pairs.iter().map(|p| p.0));
        let right = all(f, &mut q.pairs.iter().map(|p| p.1));
        let given: Vec<Id> = q.given.iter().map(|g| normal.of(f, *g)).collect();
        let differ: Vec<(Id, Id)> = q
            .pairs
            .iter()
            .map(|(a, b)| (normal.of(f, *a), normal.of(f, *b)))
            .filter(|(a, b)| a != b)
            .collect();
        let defined = f.is_true(right) || implies(f, left, right);
        let holds = differ.is_empty() && defined || given.iter().any(|g| f.is_false(*g));
        Goal { given, differ, left, right, holds, found: Default::default() }
    }

    /// Whether the sides have one normal form in each case of the conditions that they select by.
    fn by_cases(&self, f: &mut Formulas, normal: &mut Normal) -> bool {
        let both = f.and(self.left, self.right);
        let mut pairs = self.differ.clone();
        pairs.push((normal.of(f, both), self.left));
        let mut left = CASES;
        cases(f, normal, pairs, &mut left)
    }

    /// Asks the solver for values at which the goal does not hold.
    fn ask(&self, f: &Formulas, q: &Question) -> Option<Answer> {
        let mut c = Circuit::new(f);
        let mut wanted = Vec::new();
        for g in &self.given {
            wanted.push(c.of(*g)?[0]);
        }
        wanted.push(c.of(self.left)?[0]);
        let mut wrong = c.of(self.right)?[0].not();
        for (a, b) in &self.differ {
            let (x, y) = (c.of(*a)?, c.of(*b)?);
            let mut same = c.same(*a, *b);
            if q.equality == Equality::Values && f.ty(*a).is_float() {
                let zeros = zeros(&mut c, &x, &y);
                same = c.gates.or(same, zeros);
            }
            wrong = c.gates.or(wrong, same.not());
        }
        wanted.push(wrong);
        wanted.extend(c.holds.iter().copied());
        let answer = satisfiable(&c.gates, &wanted, CONFLICTS);
        if let Answer::Yes(values) = &answer {
            let bit = |w: &Wire| values[w.gate()] != w.is_complement();
            let value = |&(n, ty): &(u32, Scalar)| {
                let wires = c.inputs.iter().find(|(id, _)| matches!(f.get(*id).op, Op::Var(m) if m == n));
                let raw =
                    wires.map_or(0, |(_, w)| w.iter().rev().fold(0u64, |v, w| v << 1 | u64::from(bit(w))));
                if ty.is_int() { ScalarValue::int(ty, raw as i64).bits } else { raw }
            };
            self.found.borrow_mut().push(vars_of(f, &q.roots()).iter().map(value).collect());
        }
        Some(answer)
    }
}

/// Whether pairs are equal in every case of a condition; `left` bounds the cases.
fn cases(f: &mut Formulas, normal: &mut Normal, pairs: Vec<(Id, Id)>, left: &mut usize) -> bool {
    let differ: Vec<(Id, Id)> = pairs.into_iter().filter(|(a, b)| a != b).collect();
    let Some((a, b)) = differ.first().copied() else { return true };
    let Some(condition) = condition(f, a, b) else { return false };
    [true, false].into_iter().all(|case| {
        *left = left.saturating_sub(1);
        if *left == 0 {
            return false;
        }
        let value = f.boolean(case);
        let mut instead = HashMap::from([(condition, value)]);
        let pairs = differ.iter().map(|(a, b)| {
            let (a, b) = (replaced(f, *a, &mut instead), replaced(f, *b, &mut instead));
            (normal.of(f, a), normal.of(f, b))
        });
        let pairs = pairs.collect();
        cases(f, normal, pairs, left)
    })
}

/// What one of two formulas selects by, as small as it can be: no conjunction, no negation.
fn condition(f: &Formulas, a: Id, b: Id) -> Option<Id> {
    let mut here = f.under(&[a, b]).into_iter().find_map(|id| match f.get(id).op {
        Op::Select(c, ..) => Some(c),
        _ => None,
    });
    if f.ty(a) == Scalar::Bool {
        here = here.or(Some(a).filter(|a| f.value(*a).is_none())).or(Some(b));
    }
    let mut here = here?;
    loop {
        here = match f.get(here).op {
            Op::Unary(_, x) => x,
            Op::Binary(BinOp::And | BinOp::Xor, x, _) if f.ty(x) == Scalar::Bool => x,
            Op::Select(c, ..) => c,
            Op::Const(_) => return None,
            _ => return Some(here),
        };
    }
}

/// A formula with others in the place of some.
fn replaced(f: &mut Formulas, id: Id, instead: &mut HashMap<Id, Id>) -> Id {
    for part in f.under(&[id]) {
        if !instead.contains_key(&part) {
            let parts: Vec<Id> = f.parts(part).iter().map(|p| instead[p]).collect();
            let new = f.with_parts(part, &parts);
            instead.insert(part, new);
        }
    }
    instead[&id]
}

/// Conjunctions: every operand of the second is one of the first.
fn implies(f: &Formulas, a: Id, b: Id) -> bool {
    let operands = |id: Id| {
        let (mut out, mut left) = (Vec::new(), vec![id]);
        while let Some(x) = left.pop() {
            match f.get(x).op {
                Op::Binary(BinOp::And, p, q) if f.ty(x) == Scalar::Bool => left.extend([p, q]),
                _ => out.push(x),
            }
        }
        out
    };
    let known = operands(a);
    operands(b).iter().all(|x| known.contains(x) || f.is_true(*x))
}

fn zeros(c: &mut Circuit, x: &[Wire], y: &[Wire]) -> Wire {
    let n = x.len();
    let any = x[..n - 1].iter().chain(&y[..n - 1]).fold(Wire::FALSE, |a, b| c.gates.or(a, *b));
    any.not()
}

/// A question on values.
struct Trial<'a> {
    q: &'a Question,
    m: Machine,
    types: Vec<Scalar>,
    /// Nothing but variables: all values can be tried.
    closed: bool,
    mentioned: Vec<Vec<u64>>,
}

impl<'a> Trial<'a> {
    fn new(f: &Formulas, q: &'a Question) -> Trial<'a> {
        let roots = q.roots();
        let m = Machine::new(f, &roots);
        let types: Vec<Scalar> = m.vars.iter().map(|v| v.1).collect();
        let closed = !f.under(&roots).iter().any(|i| matches!(f.get(*i).op, Op::Apply(..)));
        let mentioned = types.iter().map(|t| mentioned(f, &roots, *t)).collect();
        Trial { q, m, types, closed, mentioned }
    }

    fn is_small(&self) -> bool {
        self.closed && self.types.iter().map(|t| t.bits()).sum::<u32>() <= FEW_BITS
    }

    fn run(&self, combinations: usize, random: usize, draw: &mut Draw) -> Result<usize, Counterexample> {
        let columns = assignments(&self.types, &self.mentioned, combinations, random, draw);
        self.columns(&columns, draw.next())
    }

    fn rows(&self, rows: &[Vec<u64>]) -> Result<usize, Counterexample> {
        if rows.is_empty() {
            return Ok(0);
        }
        let columns: Vec<Vec<u64>> =
            (0..self.types.len()).map(|k| rows.iter().map(|r| r[k]).collect()).collect();
        self.columns(&columns, 77)
    }

    fn all(&self) -> Verdict {
        let bits: Vec<u32> = self.types.iter().map(|t| t.bits()).collect();
        let count = 1u64 << bits.iter().sum::<u32>();
        let mut shift = 0;
        let mut columns = Vec::new();
        for (b, ty) in bits.iter().zip(&self.types) {
            let value = |n: u64| {
                let raw = n >> shift & ((1 << b) - 1);
                if ty.is_int() { ScalarValue::int(*ty, raw as i64).bits } else { raw }
            };
            columns.push((0..count).map(value).collect());
            shift += b;
        }
        match self.columns(&columns, 0) {
            Ok(_) => Verdict::Proved(Proof::AllValues),
            Err(c) => Verdict::Refuted(c),
        }
    }

    /// How many assignments were within what is given and had a value.
    fn columns(&self, columns: &[Vec<u64>], seed: u64) -> Result<usize, Counterexample> {
        let out = self.m.run(columns, seed);
        let count = columns.first().map_or(1, Vec::len);
        let (sides, given) = out.split_at(2 * self.q.pairs.len());
        let mut held = 0;
        for n in 0..count {
            let defined = |c: &Column| c[n].is_some();
            if !given.iter().all(|g| g[n] == Some(1)) || !sides.iter().step_by(2).all(defined) {
                continue;
            }
            held += 1;
            for pair in 0..self.q.pairs.len() {
                let ty = self.m.type_of(2 * pair);
                let (a, b) = (sides[2 * pair][n], sides[2 * pair + 1][n]);
                let same = matches!((a, b), (Some(a), Some(b)) if same(ty, a, b, self.q.equality));
                if !same {
                    let value = |v: Option<u64>| v.map(|bits| ScalarValue { ty, bits });
                    let values = self.m.vars.iter().zip(columns);
                    let values = values.map(|((v, ty), c)| (*v, ScalarValue { ty: *ty, bits: c[n] }));
                    let values = values.collect();
                    return Err(Counterexample { values, pair, left: value(a), right: value(b) });
                }
            }
        }
        Ok(held)
    }
}

/// Equal values of a type.
pub(crate) fn same(ty: Scalar, a: u64, b: u64, equality: Equality) -> bool {
    if a == b {
        return true;
    }
    if !ty.is_float() {
        return false;
    }
    let (x, y) = (scalar::to_f64(ty, a), scalar::to_f64(ty, b));
    (x.is_nan() && y.is_nan()) || (equality == Equality::Values && x == y)
}
