//! Whether two terms have equal values for all values of their metavariables.

use super::eval::value;
use super::indices::{Fuel, Indices};
use super::value::{Key, Out, Stop, Sym, World, unknown};
use crate::drops::keeps_failures;
use crate::facts::{Fact, Facts};
use crate::nat::Nat;
use crate::term::Term;
use crate::types::{Type, TypeKind};
use lathe_ir::scalar::ScalarValue;
use lathe_prove::rounding::decide_rounding;
use lathe_prove::{Counterexample, Equality, Formulas, Id, Op, Proof, Question, Verdict, decide};

/// What came of a comparison.
#[derive(Clone, Debug)]
pub(super) enum Answer {
    /// For all sizes and values; what the scalars rest on.
    Proved(Vec<Proof>),
    /// Scalars were tried on so many values.
    Tested(usize),
    /// Not within what is reasoned about.
    Unknown(&'static str),
    /// Values of what is named, and the sides.
    Refuted { values: Vec<(String, ScalarValue)>, left: Option<ScalarValue>, right: Option<ScalarValue> },
}

/// How values have to agree.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Sense {
    Exact,
    /// Up to rounding, where there are floats.
    Rounding,
}

/// Which side has a value where the other has one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Defined {
    /// The right one.
    Right,
    Both,
}

/// Cases of positions that are told apart, one inside of the other.
const CASES: usize = 7;

impl Answer {
    fn and(self, o: Answer) -> Answer {
        match (self, o) {
            (r @ Answer::Refuted { .. }, _) | (_, r @ Answer::Refuted { .. }) => r,
            (u @ Answer::Unknown(_), _) | (_, u @ Answer::Unknown(_)) => u,
            (Answer::Tested(a), Answer::Tested(b)) => Answer::Tested(a.min(b)),
            (Answer::Tested(n), _) | (_, Answer::Tested(n)) => Answer::Tested(n),
            (Answer::Proved(mut a), Answer::Proved(b)) => {
                a.extend(b);
                a.sort_unstable();
                a.dedup();
                Answer::Proved(a)
            }
        }
    }
}

/// Compares terms of one type under facts about their sizes.
pub(super) fn compare(left: &Term, right: &Term, facts: &Facts, sense: Sense) -> Answer {
    let sides = |w: &mut World| Ok((value(w, left)?, value(w, right)?));
    let defined = if keeps_failures(left, right, facts) { Defined::Both } else { Defined::Right };
    compare_values(&sides, left.ty(), facts, (sense, defined))
}

/// Compares values that are rebuilt in each case.
pub(super) fn compare_values(
    sides: &dyn Fn(&mut World) -> Out<(Sym, Sym)>,
    ty: &Type,
    facts: &Facts,
    how: (Sense, Defined),
) -> Answer {
    in_cases(sides, ty, facts, how, &Fuel::default(), CASES)
}

fn in_cases(
    sides: &dyn Fn(&mut World) -> Out<(Sym, Sym)>,
    ty: &Type,
    facts: &Facts,
    how: (Sense, Defined),
    fuel: &Fuel,
    left: usize,
) -> Answer {
    let mut w = World::new(Indices::new(facts.clone(), fuel.clone()));
    let mut pairs = Vec::new();
    let same = sides(&mut w).and_then(|(a, b)| equal(&mut w, &a, &b, ty, &mut pairs));
    match same {
        Ok(()) => scalars(&mut w, &pairs, how),
        Err(Stop::Unknown(why)) => Answer::Unknown(why),
        Err(Stop::Hidden) => Answer::Unknown("an accumulator is used as a whole"),
        Err(Stop::Split(_)) if left == 0 => Answer::Unknown("too many cases"),
        Err(Stop::Split(fact)) => {
            let Fact::AtMost(a, b) = &fact else { return Answer::Unknown("a case of divisibility") };
            let other = Fact::AtMost(b.plus(&Nat::constant(1)), a.clone());
            let mut out = Answer::Proved(Vec::new());
            for case in [fact.clone(), other] {
                let mut facts = facts.clone();
                facts.learn(case);
                out = out.and(in_cases(sides, ty, &facts, how, fuel, left - 1));
            }
            out
        }
    }
}

/// Makes values equal part by part; scalars are left as pairs.
fn equal(w: &mut World, a: &Sym, b: &Sym, ty: &Type, pairs: &mut Vec<(Id, Id)>) -> Out<()> {
    w.spend()?;
    match (a, b, ty.kind()) {
        (Sym::Scalar(a), Sym::Scalar(b), _) => {
            pairs.push((*a, *b));
            Ok(())
        }
        (Sym::Index(a), Sym::Index(b), _) if w.indices.same(a, b) => Ok(()),
        (Sym::Key(a), Sym::Key(b), _) if a == b => Ok(()),
        (Sym::Tuple(x), Sym::Tuple(y), TypeKind::Tuple(ts)) => {
            x.iter().zip(y).zip(ts).try_for_each(|((x, y), t)| equal(w, x, y, t, pairs))
        }
        (Sym::Array(..), Sym::Array(..), TypeKind::Array(n, t) | TypeKind::Vector(n, t)) => {
            // The same name in every case: what is known of the position of one case is asked in the next.
            w.depth += 1;
            let name = format!("i{}", w.depth);
            let i = w.indices.range(&name, n);
            let (x, y) = (w.at(a, &i)?, w.at(b, &i)?);
            equal(w, &x, &y, t, pairs)
        }
        (Sym::Fun(_), Sym::Fun(_), TypeKind::Fun(from, to)) => {
            w.depth += 1;
            let key = w.key(Key::Parameter(w.depth));
            let x = w.reflect(key, from);
            let (y, z) = (w.call(a, x.clone())?, w.call(b, x)?);
            equal(w, &y, &z, to, pairs)
        }
        _ => unknown("unknown values cannot be shown to be equal"),
    }
}

fn scalars(w: &mut World, pairs: &[(Id, Id)], (sense, defined): (Sense, Defined)) -> Answer {
    if pairs.is_empty() {
        return Answer::Proved(Vec::new());
    }
    let there = one_way(w, pairs, sense);
    if defined == Defined::Right {
        return there;
    }
    let swapped: Vec<(Id, Id)> = pairs.iter().map(|(a, b)| (*b, *a)).collect();
    there.and(match one_way(w, &swapped, sense) {
        Answer::Refuted { values, left, right } => Answer::Refuted { values, left: right, right: left },
        back => back,
    })
}

/// Whether the right sides have the values of the left ones wherever these have any.
fn one_way(w: &mut World, pairs: &[(Id, Id)], sense: Sense) -> Answer {
    let q = Question { given: Vec::new(), pairs: pairs.to_vec(), equality: Equality::Bits };
    let floats = pairs.iter().any(|p| w.f.ty(p.0).is_float());
    let verdict = match sense {
        Sense::Exact => decide(&mut w.f, &q),
        Sense::Rounding => match decide(&mut w.f, &q) {
            Verdict::Proved(p) => Verdict::Proved(p),
            _ if floats => decide_rounding(&w.f, &q, 1),
            other => other,
        },
    };
    match verdict {
        Verdict::Proved(p) => Answer::Proved(vec![p]),
        Verdict::Tested(n) => Answer::Tested(n),
        Verdict::Untested => Answer::Unknown("too few values are defined"),
        Verdict::Refuted(c) => refuted(w, &q, &c),
    }
}

/// Values that refute do so only if metavariables can have them.
fn refuted(w: &World, q: &Question, c: &Counterexample) -> Answer {
    let roots: Vec<Id> = q.pairs.iter().flat_map(|p| [p.0, p.1]).collect();
    if !w.f.under(&roots).iter().all(|id| is_free(w, &w.f, *id)) {
        return Answer::Unknown("values that differ may not be");
    }
    let values = c.values.iter().filter_map(|(k, v)| Some((shown(w, *k)?, *v))).collect();
    Answer::Refuted { values, left: c.left, right: c.right }
}

/// Whether a variable may have any value, whatever others have.
fn is_free(w: &World, f: &Formulas, id: Id) -> bool {
    match f.get(id).op {
        Op::Var(k) => shown(w, k).is_some(),
        _ => true,
    }
}

/// A part of a metavariable as people write it.
fn shown(w: &World, key: u32) -> Option<String> {
    match w.meaning(key) {
        Key::Meta(n) => Some(if n.contains(' ') { "of".to_string() } else { n.to_string() }),
        Key::At(k, i) => Some(format!("{}[{i}]", shown(w, *k)?)),
        Key::Part(k, n) => Some(format!("{}.{n}", shown(w, *k)?)),
        // Of several applications equal arguments may ask for equal results.
        Key::Apply(f, _) if w.is_applied_once(*f) => Some(format!("{}(…)", shown(w, *f)?)),
        _ => None,
    }
}
