//! Numbers of configurations: 64 bits where they suffice, else big integers.

use num_bigint::BigUint;
use num_traits::{One, ToPrimitive, Zero};

/// What the counts of a tree are stored as.
pub(crate) trait Count: Clone + Ord + Send + Sync {
    fn one() -> Self;
    fn zero() -> Self;
    fn from_len(n: u32) -> Self;
    /// `None` if the result does not fit.
    fn plus(&self, other: &Self) -> Option<Self>;
    /// `None` if the result does not fit.
    fn times(&self, other: &Self) -> Option<Self>;
    /// `other <= self`.
    fn minus(&self, other: &Self) -> Self;
    /// Quotient and remainder; `other` is not 0.
    fn div_rem(&self, other: &Self) -> (Self, Self);
    /// As a position in a list, if it fits.
    fn position(&self) -> u32;
    /// `self / total`, correctly rounded for small numbers and to about 50 bits for large ones.
    fn fraction(&self, total: &Self) -> f64;
    /// Memory beside the value itself.
    fn heap(&self) -> usize;
}

impl Count for u64 {
    fn one() -> u64 {
        1
    }

    fn zero() -> u64 {
        0
    }

    fn from_len(n: u32) -> u64 {
        u64::from(n)
    }

    fn plus(&self, other: &u64) -> Option<u64> {
        self.checked_add(*other)
    }

    fn times(&self, other: &u64) -> Option<u64> {
        self.checked_mul(*other)
    }

    fn minus(&self, other: &u64) -> u64 {
        self - other
    }

    fn div_rem(&self, other: &u64) -> (u64, u64) {
        (self / other, self % other)
    }

    fn position(&self) -> u32 {
        u32::try_from(*self).unwrap_or(u32::MAX)
    }

    fn fraction(&self, total: &u64) -> f64 {
        *self as f64 / *total as f64
    }

    fn heap(&self) -> usize {
        0
    }
}

impl Count for BigUint {
    fn one() -> BigUint {
        One::one()
    }

    fn zero() -> BigUint {
        Zero::zero()
    }

    fn from_len(n: u32) -> BigUint {
        BigUint::from(n)
    }

    fn plus(&self, other: &BigUint) -> Option<BigUint> {
        Some(self + other)
    }

    fn times(&self, other: &BigUint) -> Option<BigUint> {
        Some(self * other)
    }

    fn minus(&self, other: &BigUint) -> BigUint {
        self - other
    }

    fn div_rem(&self, other: &BigUint) -> (BigUint, BigUint) {
        (self / other, self % other)
    }

    fn position(&self) -> u32 {
        self.to_u32().unwrap_or(u32::MAX)
    }

    fn fraction(&self, total: &BigUint) -> f64 {
        // Beyond the range of a float the lowest bits do not matter.
        let extra = total.bits().saturating_sub(1000);
        let float = |v: &BigUint| (v >> extra).to_f64().unwrap_or(f64::MAX);
        float(self) / float(total)
    }

    fn heap(&self) -> usize {
        self.bits().div_ceil(64) as usize * 8
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fractions_of_huge_numbers() {
        let total = BigUint::from(1u32) << 5000u32;
        assert_eq!((&total >> 2u32).fraction(&total), 0.25);
        assert_eq!(3u64.fraction(&4), 0.75);
    }
}
