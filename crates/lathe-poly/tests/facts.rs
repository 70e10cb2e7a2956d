//! What is known at a place is true: random scopes, conditions and expressions, looked at where machine integers end.
//! The oracle is the interpreter's arithmetic at points of the scope where all conditions hold.

use lathe_ir::build::{self, boolean, index, select};
use lathe_ir::interp::evaluate;
use lathe_ir::{BinOp, Expr, MathFn, Scalar, VarId};
use lathe_poly::{Ranges, fits, simplify};
use rand::{Rng as _, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::collections::HashMap;

const NUMBERS: [i64; 20] = [
    0,
    0,
    1,
    1,
    -1,
    2,
    3,
    -3,
    5,
    7,
    8,
    -8,
    1 << 31,
    -(1 << 31),
    3037000500,
    1 << 62,
    -(1 << 62),
    i64::MAX,
    i64::MIN,
    i64::MAX - 2,
];

struct Rng(ChaCha8Rng);

impl Rng {
    fn below(&mut self, n: usize) -> usize {
        self.0.gen_range(0..n)
    }

    fn number(&mut self) -> i64 {
        NUMBERS[self.below(NUMBERS.len())]
    }
}

fn v(n: u32) -> Expr {
    build::var_id(VarId(n), Scalar::Index)
}

/// A random `index` expression over the first variables.
fn expr(r: &mut Rng, vars: u32, depth: usize) -> Expr {
    if depth == 0 || r.below(5) == 0 {
        return if vars > 0 && r.below(3) > 0 { v(r.below(vars as usize) as u32) } else { index(r.number()) };
    }
    let sub = |r: &mut Rng| expr(r, vars, depth - 1);
    match r.below(14) {
        0 | 1 => build::add(sub(r), sub(r)),
        2 | 3 => build::sub(sub(r), sub(r)),
        4..=6 => build::mul(sub(r), sub(r)),
        7 => build::binary([BinOp::FloorDiv, BinOp::TruncDiv][r.below(2)], sub(r), sub(r)),
        8 => build::binary([BinOp::FloorMod, BinOp::TruncRem][r.below(2)], sub(r), sub(r)),
        9 => build::min(sub(r), sub(r)),
        10 => build::max(sub(r), sub(r)),
        11 => build::neg(sub(r)),
        12 => select(condition(r, vars, depth - 1), sub(r), sub(r)),
        _ => build::math(MathFn::Abs, vec![sub(r)]),
    }
}

/// A random condition.
fn condition(r: &mut Rng, vars: u32, depth: usize) -> Expr {
    let all = [BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge, BinOp::Eq, BinOp::Ne];
    if depth > 0 {
        match r.below(8) {
            0 => return build::and(condition(r, vars, depth - 1), condition(r, vars, depth - 1)),
            1 => return build::or(condition(r, vars, depth - 1), condition(r, vars, depth - 1)),
            2 => return build::not(condition(r, vars, depth - 1)),
            3 => {
                let c = condition(r, vars, depth - 1);
                let arms = [condition(r, vars, depth - 1), boolean(true), boolean(false)];
                let other = arms[r.below(3)].clone();
                return select(c, condition(r, vars, depth - 1), other);
            }
            _ => {}
        }
    }
    let (a, b) = (expr(r, vars, depth), expr(r, vars, depth));
    build::binary(all[r.below(6)], a, b)
}

/// Variables, what was learned, and points where it holds.
struct Scene {
    ranges: Ranges,
    said: Vec<String>,
    points: Vec<HashMap<VarId, i64>>,
    vars: u32,
}

/// Narrows the points to those where a condition has a value and holds, or does not.
fn keep(points: &mut Vec<HashMap<VarId, i64>>, cond: &Expr, holds: bool) {
    points.retain(|p| evaluate(cond, p) == Some(i64::from(holds)));
}

fn scene(r: &mut Rng) -> Scene {
    let sizes = [0, 1, 2, 3, 8, 1 << 31, (1 << 48) - 1];
    let mut ranges = Ranges::default();
    let mut said = Vec::new();
    (0..2).for_each(|n| ranges.enter_size(VarId(n)));
    let mut points: Vec<HashMap<VarId, i64>> = (0..24)
        .map(|_| {
            let mut p: HashMap<VarId, i64> = (0..2).map(|n| (VarId(n), sizes[r.below(6)])).collect();
            p.extend((2..4).map(|n| (VarId(n), r.number())));
            p
        })
        .collect();
    let mut vars = 4;
    for _ in 0..r.below(4) {
        match r.below(4) {
            0 => {
                let (lo, hi) = (expr(r, vars, 1), expr(r, vars, 1));
                let id = VarId(vars);
                points.retain_mut(|p| {
                    let (Some(a), Some(b)) = (evaluate(&lo, p), evaluate(&hi, p)) else { return false };
                    if a >= b {
                        return false;
                    }
                    let at = [a, b - 1, (i128::from(a) + i128::from(b)).div_euclid(2) as i64][r.below(3)];
                    p.insert(id, at);
                    true
                });
                ranges.enter_loop(id, &lo, &hi);
                said.push(format!("{id:?} in {lo:?} .. {hi:?}"));
                vars += 1;
            }
            1 => {
                let value = expr(r, vars, 2);
                let id = VarId(vars);
                points.retain_mut(|p| evaluate(&value, p).map(|at| p.insert(id, at)).is_some());
                ranges.enter_let(id, &value);
                said.push(format!("{id:?} = {value:?}"));
                vars += 1;
            }
            _ => {
                let (cond, holds) = (condition(r, vars, 2), r.below(4) > 0);
                keep(&mut points, &cond, holds);
                let possible = ranges.learn(&cond, holds);
                said.push(format!("{cond:?} is {holds}"));
                assert!(possible || points.is_empty(), "impossible: {said:#?}\nat {:?}", points[0]);
            }
        }
    }
    Scene { ranges, said, points, vars }
}

fn cases() -> usize {
    std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(4_000)
}

fn seed() -> u64 {
    std::env::var("LATHE_SEED").ok().and_then(|n| n.parse().ok()).unwrap_or(1)
}

#[test]
fn what_is_known_is_true() {
    let mut told = [0usize; 4];
    for case in 0..cases() as u64 {
        let mut r = Rng(ChaCha8Rng::seed_from_u64(seed().wrapping_add(case)));
        let scene = scene(&mut r);
        if scene.points.is_empty() {
            continue;
        }
        for _ in 0..6 {
            let e = expr(&mut r, scene.vars, 3);
            let what = |p: &HashMap<VarId, i64>| format!("case {case}: {e:?}\n{:#?}\nat {p:?}", scene.said);
            let range = scene.ranges.range(&e);
            let always = scene.ranges.fits(&e);
            let needed = fits::condition(&e, &scene.ranges).unwrap_or_else(|| boolean(true));
            let simple = simplify::simplify_expr(&e, &scene.ranges);
            let c = condition(&mut r, scene.vars, 2);
            let decided = simplify::simplify_expr(&c, &scene.ranges);
            for p in &scene.points {
                let value = evaluate(&e, p);
                told[usize::from(value.is_some())] += 1;
                told[2] += usize::from(always);
                assert!(!always || value.is_some(), "it does not fit: {}", what(p));
                let said = evaluate(&needed, p);
                assert_eq!(said, Some(i64::from(value.is_some())), "{needed:?}: {}", what(p));
                if let Some(value) = value {
                    let here = range.lo <= value.into() && i128::from(value) <= range.hi;
                    assert!(here, "{value} is not in {range:?}: {}", what(p));
                    assert_eq!(evaluate(&simple, p), Some(value), "simplified to {simple:?}: {}", what(p));
                }
                if let Some(value) = evaluate(&c, p) {
                    told[3] += usize::from(decided.as_bool().is_some());
                    let said = evaluate(&decided, p);
                    assert_eq!(
                        said,
                        Some(value),
                        "case {case}: {c:?} became {decided:?}\n{:#?}\nat {p:?}",
                        scene.said
                    );
                }
            }
        }
    }
    assert!(told.iter().all(|n| *n > cases() / 10), "{told:?}");
}

/// Conditions of checks that are nested in each other: were each gone through for every case of those around it, there
/// would be 2²⁰⁰ of them.
#[test]
fn deeply_nested_conditions_are_learned() {
    let (x, y) = (build::var_id(VarId(0), Scalar::Index), build::var_id(VarId(1), Scalar::Index));
    let mut both = build::le(index(0), x.clone());
    let mut either = build::le(index(0), y.clone());
    for n in 1..200 {
        both = select(both, build::le(x.clone(), index(1000 - n)), boolean(false));
        let other = build::le(y.clone(), index(1000 - n));
        either = build::binary(BinOp::Or, either, build::binary(BinOp::And, other.clone(), other));
    }
    let mut known = Ranges::default();
    assert!(known.learn(&both, true));
    let range = known.range(&x);
    assert_eq!((range.lo, range.hi), (0, 801));
    known.learn(&either, true);
    known.learn(&either, false);
}
