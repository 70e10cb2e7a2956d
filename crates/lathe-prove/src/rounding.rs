//! Formulas that are equal over the reals, and differ at most by how they round.
//!
//! The law: on numbers for which no operation of either side leaves the range of `f64`, the sides, computed in `f64`,
//! differ by no more than four times the sum of their running error bounds; and a NaN or an infinity that goes in comes
//! out of both sides or of none. It is tested on values, never proved.

use crate::bound::{self, Approximate, agree, widened};
use crate::decide::{Counterexample, Equality, Question, Verdict, same};
use crate::formula::{Formulas, Id, Op};
use crate::guide::near_ties;
use crate::machine::{Column, Machine, vars_of};
use crate::sample::{Draw, assignments, few, mentioned};
use lathe_ir::scalar::{self, ScalarValue};
use lathe_ir::{BinOp, MathFn, Scalar};

/// Values that are tried; of those that decide anything, the least number that counts.
const COMBINATIONS: usize = 3_000;
const RANDOM: usize = 4_000;
const LEAST: usize = 100;
const FEW: usize = 200;

/// Decides a question up to rounding; what is given is heeded. So many pairs in a row are the parts of one value: it
/// is NaN if a part is.
pub fn decide_rounding(f: &Formulas, q: &Question, parts: usize) -> Verdict {
    let special = special_values(f, q, parts.max(1));
    if let Err(c) = special {
        return Verdict::Refuted(c);
    }
    match numbers(f, q, (COMBINATIONS, RANDOM)) {
        Ok(n) if n < LEAST => Verdict::Untested,
        Ok(n) => Verdict::Tested(n),
        Err(c) => Verdict::Refuted(c),
    }
}

/// Whether something is converted on the way to a float type that lacks values of the type of the result: that loses
/// more than rounding of the result does, up to all of a large value.
fn narrows(f: &Formulas, result: Scalar, sides: &[Id]) -> bool {
    let holds = |ty: Scalar| ty == result || ty.bits() > result.bits();
    let narrow = |id: Id| matches!(f.get(id).op, Op::Cast(_)) && f.ty(id).is_float() && !holds(f.ty(id));
    result.is_float() && f.under(sides).into_iter().any(narrow)
}

/// Decides a question up to rounding by a few numbers: for formulas that are long.
pub(crate) fn round_few(f: &Formulas, q: &Question) -> Verdict {
    match numbers(f, q, (0, FEW)) {
        Ok(n) => Verdict::Tested(n),
        Err(c) => Verdict::Refuted(c),
    }
}

fn roots(q: &Question) -> Vec<Id> {
    q.pairs.iter().flat_map(|p| [p.0, p.1]).chain(q.given.iter().copied()).collect()
}

/// The sides over the reals; how many values told.
fn numbers(
    f: &Formulas,
    q: &Question,
    (combinations, random): (usize, usize),
) -> Result<usize, Counterexample> {
    if q.pairs.iter().any(|(a, b)| narrows(f, f.ty(*a), &[*a, *b])) {
        return Ok(0);
    }
    let Some((wide, all)) = widened(f, &roots(q)) else { return Ok(0) };
    let vars = vars_of(&wide, &all);
    let types: Vec<Scalar> = vars.iter().map(|v| v.1).collect();
    let pools: Vec<Vec<u64>> = types.iter().map(|t| mentioned(&wide, &all, *t)).collect();
    let mut draw = Draw(0x0dd_ba11);
    let mut columns = assignments(&types, &pools, combinations, random, &mut draw);
    for row in near_ties(&wide, &all, &mut draw) {
        for (c, v) in columns.iter_mut().zip(row) {
            c.push(v);
        }
    }
    let out = bound::run(&wide, &all, &vars, &columns, 5);
    let count = columns.first().map_or(1, Vec::len);
    let (sides, given) = out.split_at(2 * q.pairs.len());
    let mut told = 0;
    for n in 0..count {
        if !given.iter().all(|g| matches!(g[n], Approximate::Exact(1))) {
            continue;
        }
        let mut says = true;
        for pair in 0..q.pairs.len() {
            let (a, b) = (sides[2 * pair][n], sides[2 * pair + 1][n]);
            match agree(a, b) {
                Some((true, informative)) => says &= informative,
                Some((false, _)) => {
                    let values = vars.iter().zip(&columns);
                    let values =
                        values.map(|((v, ty), c)| (*v, ScalarValue { ty: *ty, bits: c[n] })).collect();
                    let value = |x: Approximate| match x {
                        Approximate::Float(v, _) => Some(ScalarValue::float(Scalar::F64, v)),
                        Approximate::Exact(bits) => Some(ScalarValue { ty: wide.ty(all[2 * pair]), bits }),
                        Approximate::None => None,
                    };
                    return Err(Counterexample { values, pair, left: value(a), right: value(b) });
                }
                None => says = false,
            }
        }
        told += usize::from(says);
    }
    Ok(told)
}

/// The sides on values with infinities and NaN, in the formulas' own types. Where no operation makes an
/// infinity or a zero of ordinary numbers, and no order is asked of what has none, the sides are of one kind.
fn special_values(f: &Formulas, q: &Question, parts: usize) -> Result<(), Counterexample> {
    let roots = roots(q);
    let vars = vars_of(f, &roots);
    if !vars.iter().any(|v| v.1.is_float()) {
        return Ok(());
    }
    let every = f.under(&roots);
    let m = Machine::new(f, &every);
    let types: Vec<Scalar> = m.vars.iter().map(|v| v.1).collect();
    let mut draw = Draw(0xfeed);
    let columns = special_assignments(&types, &mut draw);
    let out = m.run(&columns, 3);
    let count = columns.first().map_or(1, Vec::len);
    let at = |id: Id| every.binary_search(&id).ok().map(|k| &out[k]);
    let clean: Vec<bool> = (0..count).map(|n| every.iter().all(|id| is_clean(f, *id, n, &at))).collect();
    for n in (0..count).filter(|n| clean[*n]) {
        if !q.given.iter().all(|g| at(*g).is_some_and(|c| c[n] == Some(1))) {
            continue;
        }
        let value = |id: Id| at(id).and_then(|c| c[n]);
        let nan = |id: Id| {
            let v = value(id).filter(|_| f.ty(id).is_float());
            v.is_some_and(|v| scalar::to_f64(f.ty(id), v).is_nan())
        };
        for (pair, (a, b)) in q.pairs.iter().enumerate() {
            let whole = &q.pairs[pair / parts * parts..(pair / parts * parts + parts).min(q.pairs.len())];
            if whole.iter().any(|p| nan(p.0)) && whole.iter().any(|p| nan(p.1)) {
                continue;
            }
            let ty = f.ty(*a);
            let (x, y) = (value(*a), value(*b));
            let agrees = match (x, y) {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(x), Some(y)) if !ty.is_float() => x == y,
                (Some(x), Some(y)) => alike(ty, x, y, scale(f, &every, &out, n)),
            };
            if !agrees {
                let values = m.vars.iter().zip(&columns);
                let values = values.map(|((v, ty), c)| (*v, ScalarValue { ty: *ty, bits: c[n] })).collect();
                let typed = |v: Option<u64>| v.map(|bits| ScalarValue { ty, bits });
                return Err(Counterexample { values, pair, left: typed(x), right: typed(y) });
            }
        }
    }
    Ok(())
}

/// All combinations of a few values where there are few variables, else random ones; each with one that is special.
fn special_assignments(types: &[Scalar], draw: &mut Draw) -> Vec<Vec<u64>> {
    let small: Vec<Vec<u64>> = types.iter().map(|t| few(*t)).collect();
    let all = small.iter().try_fold(1usize, |n, p| n.checked_mul(p.len()).filter(|n| *n <= 20_000));
    let mut columns = vec![Vec::new(); types.len()];
    let mut put = |row: Vec<u64>| {
        let infinite = |(t, v): (&Scalar, &u64)| t.is_float() && !scalar::to_f64(*t, *v).is_finite();
        if types.iter().zip(&row).any(infinite) {
            for (c, v) in columns.iter_mut().zip(row) {
                c.push(v);
            }
        }
    };
    match all {
        Some(count) => {
            for n in 0..count {
                let mut n = n;
                put(small.iter().map(|p| (p[n % p.len()], n /= p.len()).0).collect());
            }
        }
        None => {
            for _ in 0..20_000 {
                put(small.iter().map(|p| p[draw.below(p.len())]).collect());
            }
        }
    }
    columns
}

/// Whether an operation does nothing on these values that rounding may do otherwise in another order.
fn is_clean<'a>(f: &Formulas, id: Id, n: usize, at: &dyn Fn(Id) -> Option<&'a Column>) -> bool {
    let float = |x: Id| -> Option<f64> {
        let bits = at(x)?[n]?;
        f.ty(x).is_float().then(|| scalar::to_f64(f.ty(x), bits))
    };
    let parts = f.parts(id);
    match &f.get(id).op {
        Op::Binary(op, a, b) if op.is_comparison() => {
            let nan = |x: Id| float(x).is_some_and(f64::is_nan);
            a == b || !(nan(*a) || nan(*b))
        }
        Op::Binary(BinOp::Min | BinOp::Max, ..) | Op::Select(..) | Op::Var(_) | Op::Const(_) => true,
        Op::Apply(..) => true,
        Op::Binary(..) | Op::Math(..) | Op::Cast(_) => {
            let Some(v) = float(id) else { return true };
            // No operation makes a NaN from numbers.
            if v.is_nan() && !parts.iter().any(|p| float(*p).is_some_and(f64::is_nan)) {
                return false;
            }
            let ordinary = parts.iter().all(|p| float(*p).is_none_or(f64::is_finite));
            let product = matches!(
                f.get(id).op,
                Op::Binary(BinOp::Mul | BinOp::Div, ..)
                    | Op::Math(MathFn::Exp | MathFn::Exp2 | MathFn::Pow, _)
            );
            let nonzero = parts.iter().all(|p| float(*p).is_none_or(|v| v != 0.0 && v.is_finite()));
            let vanishes = product && nonzero && v.abs() < 1e-30;
            (v.is_finite() || !ordinary) && !vanishes
        }
        _ => true,
    }
}

/// The largest number that a formula has in a row.
fn scale(f: &Formulas, every: &[Id], out: &[Column], n: usize) -> f64 {
    let float = |(id, c): (&Id, &Column)| {
        let ty = f.ty(*id);
        c[n].filter(|_| ty.is_float()).map_or(0.0, |v| scalar::to_f64(ty, v).abs())
    };
    every.iter().zip(out).map(float).filter(|v| v.is_finite()).fold(0.0, f64::max)
}

/// Both numbers, nearly equal as to the largest one on the way, or both none; infinities of one sign.
fn alike(ty: Scalar, x: u64, y: u64, scale: f64) -> bool {
    if same(ty, x, y, Equality::Values) {
        return true;
    }
    let (x, y) = (scalar::to_f64(ty, x), scalar::to_f64(ty, y));
    match (x.is_finite(), y.is_finite()) {
        (true, true) => {
            let precision = match ty {
                Scalar::F16 | Scalar::Bf16 => 0.2,
                _ => 1e-2,
            };
            (x - y).abs() <= precision * scale
        }
        (false, false) => x.is_nan() || y.is_nan() || x == y,
        _ => false,
    }
}
