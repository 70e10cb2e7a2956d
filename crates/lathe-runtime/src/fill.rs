//! Random contents, the same on every machine for one seed.

use crate::array::Array;
use lathe_ir::{Scalar, Type};

/// SplitMix64 (Steele, Lea, Flood 2014): tiny, and any seed is good.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// Uniform in `0..bound`; 0 if `bound` is 0.
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Uniform in `-1..1`, a multiple of 2⁻²³ (exact in f32).
    pub fn unit(&mut self) -> f64 {
        (self.next_u64() >> 40) as f64 / f64::from(1 << 23) - 1.0
    }
}

/// Byte offset and scalar of every leaf of a type.
pub(crate) fn leaves(ty: &Type) -> Vec<(usize, Scalar)> {
    match ty.scalar() {
        Some(s) => vec![(0, s)],
        None => {
            let offsets: Vec<u64> = match ty {
                Type::Array(t, n) => (0..u64::from(*n)).map(|i| i * t.bytes()).collect(),
                Type::Vector(s, n) => (0..u64::from(*n)).map(|i| i * s.bytes()).collect(),
                _ => ty.offsets(),
            };
            let parts = ty.fields();
            let parts = parts.iter().zip(offsets);
            parts.flat_map(|(t, o)| leaves(t).into_iter().map(move |(p, s)| (p + o as usize, s))).collect()
        }
    }
}

impl Array {
    /// Fills with random values: floats in `-1..1`, signed integers in `-8..8`, unsigned ones in
    /// `0..16`, bools fairly.
    pub fn fill_random(&mut self, seed: u64) {
        self.fill_leaves(seed, |r, s| match s {
            Scalar::Bool => i128::from(r.below(2)),
            s if s.is_signed() => i128::from(r.below(16)) - 8,
            _ => i128::from(r.below(16)),
        });
    }

    /// Fills integers with values in `0..bound` (subscripts of a dimension of that extent); floats
    /// and bools as [`Array::fill_random`].
    pub fn fill_below(&mut self, seed: u64, bound: u64) {
        self.fill_leaves(seed, |r, s| match s {
            Scalar::Bool => i128::from(r.below(2)),
            s => {
                let most = 1u64.checked_shl(s.bits() - u32::from(s.is_signed())).unwrap_or(u64::MAX);
                i128::from(r.below(bound.min(most)))
            }
        });
    }

    fn fill_leaves(&mut self, seed: u64, mut int: impl FnMut(&mut Random, Scalar) -> i128) {
        let mut r = Random::new(seed);
        let parts = leaves(self.ty());
        self.for_each_mut(|element| {
            for (o, s) in &parts {
                let n = s.bytes() as usize;
                let to = &mut element[*o..*o + n];
                match s {
                    Scalar::F16 => to.copy_from_slice(&half::f16::from_f64(r.unit()).to_ne_bytes()),
                    Scalar::Bf16 => to.copy_from_slice(&half::bf16::from_f64(r.unit()).to_ne_bytes()),
                    Scalar::F32 => to.copy_from_slice(&(r.unit() as f32).to_ne_bytes()),
                    Scalar::F64 => to.copy_from_slice(&r.unit().to_ne_bytes()),
                    s => {
                        let v = int(&mut r, *s) as i64;
                        match n {
                            1 => to.copy_from_slice(&(v as u8).to_ne_bytes()),
                            2 => to.copy_from_slice(&(v as u16).to_ne_bytes()),
                            4 => to.copy_from_slice(&(v as u32).to_ne_bytes()),
                            _ => to.copy_from_slice(&v.to_ne_bytes()),
                        }
                    }
                }
            }
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_one_content() {
        let mut a = Array::zeros(Type::F32, &[3, 5]).unwrap();
        let mut b = Array::zeros(Type::F32, &[3, 5]).unwrap();
        a.fill_random(7);
        b.fill_random(7);
        assert_eq!(a.bytes(), b.bytes());
        b.fill_random(8);
        assert_ne!(a.bytes(), b.bytes());
        assert!(a.to_vec::<f32>().unwrap().iter().all(|v| (-1.0..1.0).contains(v)));
    }

    #[test]
    fn subscripts_stay_below_their_bound() {
        for s in Scalar::ALL.into_iter().filter(|s| s.is_int()) {
            let mut a = Array::zeros(s, &[200]).unwrap();
            a.fill_below(1, 300);
            let n = s.bytes() as usize;
            for c in a.bytes().chunks(n) {
                let mut v = [0; 8];
                v[..n].copy_from_slice(c);
                assert!(u64::from_le_bytes(v) < 300, "{s}");
            }
        }
        let mut t = Array::zeros(Type::Tuple(vec![Type::F64, Type::BOOL].into()), &[9]).unwrap();
        t.fill_random(3);
        assert!(t.bytes().chunks(16).all(|c| c[8] < 2));
    }
}
