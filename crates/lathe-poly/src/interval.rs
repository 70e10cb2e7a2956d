//! Ranges of numbers, and what arithmetic makes of them.
//!
//! The ends are wider than any integer of the tree, so that the range of a result shows whether it can leave the
//! type: sums and quotients of 64-bit numbers fit 128 bits, and products that do not are saturated.

use lathe_ir::{BinOp, Scalar};

/// Ends from here on count as unbounded: no product of two 64-bit numbers is beyond.
pub(crate) const FAR: i128 = 1 << 126;

/// The numbers `lo..=hi`; never empty.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Interval {
    pub lo: i128,
    pub hi: i128,
}

impl Interval {
    /// All values of `index`.
    pub const INDEX: Interval = Interval { lo: i64::MIN as i128, hi: i64::MAX as i128 };

    pub fn new(lo: impl Into<i128>, hi: impl Into<i128>) -> Interval {
        let (lo, hi) = (lo.into(), hi.into());
        Interval { lo, hi: hi.max(lo) }
    }

    pub fn point(v: impl Into<i128>) -> Interval {
        let v = v.into();
        Interval { lo: v, hi: v }
    }

    /// All values of a type; of a float, nothing is said, and of a `bool` 0 and 1.
    pub fn of_type(s: Scalar) -> Interval {
        match s {
            Scalar::Bool => Interval::new(0, 1),
            _ if s.is_signed() => Interval::new(-(1i128 << (s.bits() - 1)), (1i128 << (s.bits() - 1)) - 1),
            Scalar::U8 | Scalar::U16 | Scalar::U32 | Scalar::U64 => Interval::new(0, (1i128 << s.bits()) - 1),
            _ => Interval::INDEX,
        }
    }

    /// Whether all numbers of the other one are in this one.
    pub fn contains(self, o: Interval) -> bool {
        self.lo <= o.lo && o.hi <= self.hi
    }

    /// The numbers in both; `None` if there is none.
    pub fn meet(self, o: Interval) -> Option<Interval> {
        let (lo, hi) = (self.lo.max(o.lo), self.hi.min(o.hi));
        (lo <= hi).then_some(Interval { lo, hi })
    }

    /// The smallest range that holds both.
    pub fn join(self, o: Interval) -> Interval {
        Interval { lo: self.lo.min(o.lo), hi: self.hi.max(o.hi) }
    }

    pub fn negated(self) -> Interval {
        Interval { lo: self.hi.saturating_neg(), hi: self.lo.saturating_neg() }
    }

    pub fn magnitude(self) -> Interval {
        let most = self.lo.saturating_abs().max(self.hi.saturating_abs());
        Interval { lo: self.lo.max(self.hi.saturating_neg()).max(0), hi: most }
    }

    pub fn plus(self, o: Interval) -> Interval {
        // An end that was saturated stays one: what is added to it may not bring it back.
        let lo = if self.lo.min(o.lo) <= -FAR { i128::MIN } else { self.lo.saturating_add(o.lo) };
        let hi = if self.hi.max(o.hi) >= FAR { i128::MAX } else { self.hi.saturating_add(o.hi) };
        Interval { lo, hi }
    }

    pub fn times(self, o: Interval) -> Interval {
        self.ends(o, i128::saturating_mul)
    }

    fn ends(self, o: Interval, f: impl Fn(i128, i128) -> i128) -> Interval {
        let all = [f(self.lo, o.lo), f(self.lo, o.hi), f(self.hi, o.lo), f(self.hi, o.hi)];
        all.into_iter().map(Interval::point).reduce(Interval::join).unwrap_or(self)
    }

    /// The results of an operation on integers before they are brought into the type; `None` where nothing is known
    /// but the type. Divisors that are 0 give no result, and count for nothing.
    pub fn binary(op: BinOp, a: Interval, b: Interval) -> Option<Interval> {
        Some(match op {
            BinOp::Add => a.plus(b),
            BinOp::Sub => a.plus(b.negated()),
            BinOp::Mul => a.times(b),
            BinOp::Min => Interval { lo: a.lo.min(b.lo), hi: a.hi.min(b.hi) },
            BinOp::Max => Interval { lo: a.lo.max(b.lo), hi: a.hi.max(b.hi) },
            BinOp::FloorDiv => Interval::quotients(a, b, floor_div)?,
            BinOp::TruncDiv => Interval::quotients(a, b, |x, y| x / y)?,
            BinOp::FloorMod => {
                let period = floor_div(a.lo, b.lo.max(1));
                if b.lo > 0 && b.lo == b.hi && a.lo > -FAR && period == floor_div(a.hi, b.lo) {
                    a.plus(Interval::point(-period * b.lo))
                } else if b.lo > 0 {
                    let most = b.hi - 1;
                    if a.lo >= 0 { Interval::new(0, a.hi.min(most)) } else { Interval::new(0, most) }
                } else if b.hi < 0 {
                    Interval::new(b.lo + 1, 0)
                } else {
                    Interval::new((b.lo + 1).min(0), (b.hi - 1).max(0))
                }
            }
            BinOp::TruncRem => {
                let most = (b.magnitude().hi - 1).max(0);
                Interval::new(a.lo.min(0).max(-most), a.hi.max(0).min(most))
            }
            BinOp::And if a.lo >= 0 && b.lo >= 0 => Interval::new(0, a.hi.min(b.hi)),
            BinOp::Shr if b.lo == b.hi => {
                let by = b.lo.rem_euclid(64) as u32;
                Interval::new(a.lo >> by, a.hi >> by)
            }
            BinOp::Shl if b.lo == b.hi && (0..64).contains(&b.lo) && a.magnitude().hi < 1 << 63 => {
                Interval::new(a.lo << b.lo, a.hi << b.lo)
            }
            _ => return None,
        })
    }

    /// Quotients rise or fall with each side as long as the divisor keeps its sign.
    fn quotients(a: Interval, b: Interval, f: impl Fn(i128, i128) -> i128) -> Option<Interval> {
        let below = (b.lo < 0).then(|| Interval::new(b.lo, b.hi.min(-1)));
        let above = (b.hi > 0).then(|| Interval::new(b.lo.max(1), b.hi));
        below.into_iter().chain(above).map(|b| a.ends(b, &f)).reduce(Interval::join)
    }
}

fn floor_div(a: i128, b: i128) -> i128 {
    let q = a / b;
    if a % b != 0 && (a < 0) != (b < 0) { q - 1 } else { q }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lathe_ir::build::fold_int;

    /// Every result of small numbers lies in the range that is computed from ranges around them.
    #[test]
    fn ranges_hold_all_results() {
        let ops = [
            BinOp::Add,
            BinOp::Sub,
            BinOp::Mul,
            BinOp::Min,
            BinOp::Max,
            BinOp::FloorDiv,
            BinOp::FloorMod,
            BinOp::TruncDiv,
            BinOp::TruncRem,
            BinOp::And,
            BinOp::Shr,
            BinOp::Shl,
        ];
        let ranges: Vec<(i64, i64)> = (-4..5).flat_map(|lo| [0, 1, 3, 7].map(|n| (lo, lo + n))).collect();
        for op in ops {
            for (a, b) in ranges.iter().flat_map(|a| ranges.iter().map(move |b| (*a, *b))) {
                let Some(all) = Interval::binary(op, Interval::new(a.0, a.1), Interval::new(b.0, b.1)) else {
                    continue;
                };
                for (x, y) in (a.0..=a.1).flat_map(|x| (b.0..=b.1).map(move |y| (x, y))) {
                    if let Some(v) = fold_int(op, Scalar::I64, x, y) {
                        assert!(all.contains(Interval::point(v)), "{x} {op:?} {y} = {v}, not in {all:?}");
                    }
                }
            }
        }
    }

    #[test]
    fn results_beyond_64_bits_are_seen() {
        let most = Interval::point(i64::MAX);
        assert_eq!(most.plus(Interval::point(1)).hi, 1 << 63);
        assert_eq!(Interval::INDEX.times(Interval::INDEX).hi, 1 << 126);
        let q = Interval::binary(BinOp::FloorDiv, Interval::INDEX, Interval::new(-1, 5)).unwrap();
        assert_eq!((q.lo, q.hi), (i64::MIN as i128, 1 << 63));
        assert_eq!(Interval::of_type(Scalar::U64).hi, u64::MAX as i128);
    }
}
