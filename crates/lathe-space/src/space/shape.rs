//! Conditions whose values can be listed or bounded without trying each.

use super::compile::Code;
use super::domain::Domain;
use crate::expr::BinOp;

/// A relation of the own value to something that does not mention it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Shape {
    Divides(Code),
    Multiple(Code),
    /// A comparison with the own value on the left.
    Bound(BinOp, Code),
}

/// Numbers of values.
#[derive(Debug, PartialEq)]
pub(crate) enum Found {
    /// `from..to`.
    Range(u32, u32),
    /// Ascending; the second is a value for which the condition has no value.
    List(Vec<u32>, Option<u32>),
}

/// The shape of a condition with respect to a slot.
pub(crate) fn shape(code: &Code, own: usize) -> Option<Shape> {
    let is_own = |c: &Code| *c == Code::Slot(own);
    let free = |c: &Code| !c.mentions(&|s| s == own);
    let divides = |d: &Code, v: &Code| {
        if is_own(d) && free(v) {
            Some(Shape::Divides(v.clone()))
        } else if is_own(v) && free(d) {
            Some(Shape::Multiple(d.clone()))
        } else {
            None
        }
    };
    match code {
        Code::Divides(d, v) => divides(d, v),
        Code::Bin(op, a, b) => {
            use BinOp::*;
            match (op, &**a, &**b) {
                (Eq, Code::Bin(Mod, v, d), Code::Const(0)) | (Eq, Code::Const(0), Code::Bin(Mod, v, d)) => {
                    divides(d, v)
                }
                (Eq | Lt | Le | Gt | Ge, a, b) if is_own(a) && free(b) => Some(Shape::Bound(*op, b.clone())),
                (Eq | Lt | Le | Gt | Ge, a, b) if is_own(b) && free(a) => {
                    let flipped = match op {
                        Lt => Gt,
                        Le => Ge,
                        Gt => Lt,
                        Ge => Le,
                        op => *op,
                    };
                    Some(Shape::Bound(flipped, a.clone()))
                }
                _ => None,
            }
        }
        _ => None,
    }
}

impl Shape {
    /// The values for which the condition holds, and the number of trials that took; `None` if trying each
    /// value is the better or the only way.
    pub fn find(&self, slots: &[i64], d: &Domain) -> Option<(Found, u64)> {
        let ordered = matches!(d, Domain::Range { .. } | Domain::Ints { ascending: true, .. });
        if !ordered {
            return None;
        }
        match self {
            Shape::Divides(e) => divisors(e.run(slots).ok()?, d),
            Shape::Multiple(e) => multiples(e.run(slots).ok()?, d),
            Shape::Bound(op, e) => {
                let e = e.run(slots).ok()?;
                if *op == BinOp::Eq {
                    return Some((Found::List(d.int_position(e).into_iter().collect(), None), 1));
                }
                let falling = matches!(d, Domain::Range { step, .. } if *step < 0);
                // Where the condition stops or starts to hold.
                let holds = |i: u32| {
                    let v = number(d, i);
                    match op {
                        BinOp::Lt => v < e,
                        BinOp::Le => v <= e,
                        BinOp::Gt => v > e,
                        _ => v >= e,
                    }
                };
                let first = matches!(op, BinOp::Lt | BinOp::Le) != falling;
                let (mut a, mut b) = (0, d.len());
                while a < b {
                    let middle = a + (b - a) / 2;
                    if holds(middle) == first { a = middle + 1 } else { b = middle }
                }
                Some((if first { Found::Range(0, a) } else { Found::Range(a, d.len()) }, 1))
            }
        }
    }
}

fn number(d: &Domain, i: u32) -> i64 {
    match d {
        Domain::Range { lo, step, .. } => lo + step * i64::from(i),
        Domain::Ints { values, .. } => values[i as usize],
        Domain::Floats { .. } | Domain::Words(_) => 0,
    }
}

fn divisors(e: i64, d: &Domain) -> Option<(Found, u64)> {
    let e = e.unsigned_abs();
    let root = e.isqrt();
    if e == 0 || root >= u64::from(d.len()) {
        return None;
    }
    let (first, last) = (number(d, 0), number(d, d.len() - 1));
    let negative = first.min(last) < 0;
    let mut found = Vec::new();
    let mut add = |v: u64| {
        if let Ok(v) = i64::try_from(v) {
            found.extend(d.int_position(v));
            if negative {
                found.extend(d.int_position(-v));
            }
        }
    };
    for small in (1..=root).filter(|s| e.is_multiple_of(*s)) {
        add(small);
        if small != e / small {
            add(e / small);
        }
    }
    let zero = d.int_position(0);
    found.extend(zero);
    found.sort_unstable();
    Some((Found::List(found, zero), root))
}

/// Multiples within a range of all integers.
fn multiples(e: i64, d: &Domain) -> Option<(Found, u64)> {
    let Domain::Range { lo, step: 1, n } = d else { return None };
    let e = i128::from(e.checked_abs().filter(|e| *e > 1)?);
    let (lo, n) = (i128::from(*lo), i128::from(*n));
    let mut at = (-lo).rem_euclid(e);
    let mut found = Vec::new();
    while at < n {
        found.push(at as u32);
        at += e;
    }
    let trials = found.len() as u64 + 1;
    Some((Found::List(found, None), trials))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes_find_what_trying_finds() {
        let domains = [
            Domain::Range { lo: -30, step: 1, n: 100 },
            Domain::Range { lo: 40, step: -3, n: 30 },
            Domain::Range { lo: 5, step: 1, n: 60 },
            Domain::Ints { values: vec![-6, 0, 1, 2, 12, 13], ascending: true },
            Domain::Ints { values: vec![3, 1, 2], ascending: false },
        ];
        let (own, e) = (|| Box::new(Code::Slot(1)), || Box::new(Code::Slot(0)));
        let mut codes = vec![
            Code::Divides(own(), e()),
            Code::Divides(e(), own()),
            Code::Bin(BinOp::Eq, Box::new(Code::Bin(BinOp::Mod, e(), own())), Box::new(Code::Const(0))),
        ];
        for op in [BinOp::Eq, BinOp::Lt, BinOp::Le, BinOp::Gt, BinOp::Ge] {
            codes.push(Code::Bin(op, own(), e()));
            codes.push(Code::Bin(op, e(), own()));
        }
        for code in &codes {
            let shape = shape(code, 1).unwrap();
            for d in &domains {
                for e in -20..25 {
                    let Some((found, _)) = shape.find(&[e], d) else { continue };
                    let tried: Vec<(u32, bool)> = (0..d.len())
                        .filter_map(|i| match code.run(&[e, number(d, i)]) {
                            Ok(0) => None,
                            Ok(_) => Some((i, false)),
                            Err(_) => Some((i, true)),
                        })
                        .collect();
                    let found: Vec<(u32, bool)> = match found {
                        Found::Range(a, b) => (a..b).map(|i| (i, false)).collect(),
                        Found::List(all, bad) => all.into_iter().map(|i| (i, Some(i) == bad)).collect(),
                    };
                    assert_eq!(found, tried, "{code:?} {d:?} {e}");
                }
            }
        }
    }
}
