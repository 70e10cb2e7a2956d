//! Values that are likely to tell two formulas apart: special ones of every type, every magnitude, and what the
//! formulas themselves mention, with its neighbours.

use crate::formula::{Formulas, Id};
use lathe_ir::Scalar;
use lathe_ir::scalar::{self, ScalarValue};

/// The special values of a type.
pub fn special(ty: Scalar) -> Vec<u64> {
    let mut out = Vec::new();
    if ty == Scalar::Bool {
        return vec![0, 1];
    }
    if ty.is_float() {
        let (p, most, least) = match ty {
            Scalar::F16 => (11, 65504.0, 2f64.powi(-24)),
            Scalar::Bf16 => (8, 3.389_531_389_251_535_5e38, 2f64.powi(-133)),
            Scalar::F32 => (24, f64::from(f32::MAX), 2f64.powi(-149)),
            _ => (53, f64::MAX, f64::from_bits(1)),
        };
        let normal = least * 2f64.powi(p - 1);
        let ulp = 2f64.powi(1 - p);
        let whole = 2f64.powi(p - 1);
        let positive = [
            0.0,
            1.0,
            0.5,
            2.0,
            3.0,
            1.5,
            2.5,
            10.0,
            100.0,
            0.1,
            1.0 / 3.0,
            std::f64::consts::PI,
            1.0 + ulp,
            1.0 - ulp / 2.0,
            2.0 - ulp,
            least,
            3.0 * least,
            normal - least,
            normal,
            normal + least,
            most,
            most / 2.0,
            most.sqrt(),
            normal.sqrt(),
            whole / 2.0,
            whole - 0.5,
            whole,
            whole + 1.0,
            2.0 * whole - 1.0,
            2.0 * whole,
            4.0 * whole + 4.0,
            127.0,
            128.0,
            255.0,
            256.0,
            32767.0,
            32768.0,
            65535.0,
            65536.0,
            2147483647.0,
            2147483648.0,
            4294967295.0,
            4294967296.0,
            9.223_372_036_854_775e18,
            9.223_372_036_854_776e18,
            1.844_674_407_370_955e19,
            1.844_674_407_370_955_2e19,
            f64::INFINITY,
        ];
        // Of two roundings, the first may make a tie of them that is none: to `f16` or `bf16` by way of another type.
        let ties = [11, 8].into_iter().flat_map(|p| {
            let (tie, little) = (2f64.powi(-p), 2f64.powi(-p - 5) + 2f64.powi(-40));
            [1.0 + tie + 2f64.powi(-40), 1.0 + tie + little, 1.0 + 3.0 * tie - 2f64.powi(-40)]
        });
        for v in positive.into_iter().chain(ties) {
            out.extend([ScalarValue::float(ty, v).bits, ScalarValue::float(ty, -v).bits]);
        }
        out.push(ScalarValue::float(ty, f64::NAN).bits);
    } else {
        let bits = ty.bits().min(64);
        for k in 0..bits {
            let p = 1u64 << k;
            for v in [p, p.wrapping_add(1), p.wrapping_sub(1)] {
                out.extend([int(ty, v), int(ty, v.wrapping_neg())]);
            }
        }
        out.extend([3, 5, 7, 10, 37, 100].map(|v| int(ty, v)));
        // Nearly in the middle of two floats: rounded twice, they are there.
        for (top, half) in [(60, 36), (60, 52), (40, 32), (30, 22), (30, 6)] {
            out.push(int(ty, (1 << top) + (1 << half) + 1));
        }
        out.push(int(ty, 0));
    }
    out.sort_unstable();
    out.dedup();
    out
}

/// A few of the special values, for many variables at once.
pub(crate) fn few(ty: Scalar) -> Vec<u64> {
    if ty == Scalar::Bool {
        return vec![0, 1];
    }
    if ty.is_float() {
        let v = [0.0, -0.0, 1.0, -1.0, 0.5, 3.0, f64::MAX, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
        return v.map(|v| ScalarValue::float(ty, v).bits).to_vec();
    }
    let top = 1u64 << (ty.bits() - 1);
    let mut out = [0, 1, 2, 1u64.wrapping_neg(), top, top.wrapping_sub(1), top.wrapping_add(1), 7]
        .map(|v| int(ty, v))
        .to_vec();
    out.sort_unstable();
    out.dedup();
    out
}

fn int(ty: Scalar, v: u64) -> u64 {
    ScalarValue::int(ty, v as i64).bits
}

/// Any value of a type, by a number: of all magnitudes alike, or special, or small.
pub fn any(ty: Scalar, random: u64) -> u64 {
    let (kind, r) = (random % 16, mix(random));
    if kind == 0 {
        let all = special(ty);
        return all[(r % all.len() as u64) as usize];
    }
    if ty == Scalar::Bool {
        return r & 1;
    }
    if !ty.is_float() {
        let bits = 1 + (r >> 58) % u64::from(ty.bits());
        let v = mix(r) >> (64 - bits);
        return int(ty, if kind % 2 == 0 { v } else { v.wrapping_neg() });
    }
    let v = match kind {
        // Any bits at all.
        1..=4 => {
            let bits = r >> (64 - ty.bits());
            return if scalar::to_f64(ty, bits).is_nan() {
                ScalarValue::float(ty, f64::NAN).bits
            } else {
                bits
            };
        }
        5..=7 => (r % 41) as f64 - 20.0,
        8 => ((r % 401) as f64 - 200.0) / 8.0,
        // Of an ordinary size.
        _ => {
            let fraction = (r >> 12) as f64 / (1u64 << 52) as f64;
            let size = 2f64.powi((mix(r) % 33) as i32 - 16);
            (1.0 + fraction) * if r & 1 == 1 { -size } else { size }
        }
    };
    ScalarValue::float(ty, v).bits
}

/// A value's place in the order of its type.
pub fn place(ty: Scalar, bits: u64) -> i128 {
    if ty.is_float() {
        let n = ty.bits();
        let magnitude = bits & ((1u64 << (n - 1)) - 1);
        let v = i128::from(magnitude);
        return if bits >> (n - 1) & 1 == 1 { -v } else { v };
    }
    if ty.is_signed() { i128::from(bits as i64) } else { i128::from(bits) }
}

/// The value at a place, or the nearest one that there is.
pub fn at_place(ty: Scalar, place: i128) -> u64 {
    if ty == Scalar::Bool {
        return u64::from(place > 0);
    }
    let n = ty.bits();
    if ty.is_float() {
        let infinite = ScalarValue::float(ty, f64::INFINITY).bits;
        let magnitude = place.unsigned_abs().min(u128::from(infinite)) as u64;
        return if place < 0 { magnitude | 1 << (n - 1) } else { magnitude };
    }
    if ty.is_signed() {
        let most = (1i128 << (n - 1)) - 1;
        return place.clamp(-most - 1, most) as i64 as u64;
    }
    place.clamp(0, (1i128 << n) - 1) as u64
}

/// What formulas mention, as values of a type, with neighbours, doubles, halves and opposites.
pub(crate) fn mentioned(f: &Formulas, roots: &[Id], ty: Scalar) -> Vec<u64> {
    let mut out = Vec::new();
    for id in f.under(roots) {
        let Some(v) = f.value(id) else { continue };
        let mut near = Vec::new();
        match (v.ty.is_float(), ty.is_float()) {
            (_, _) if v.ty == Scalar::Bool || ty == Scalar::Bool => continue,
            (false, false) => {
                let x = place(v.ty, v.bits);
                near.extend([x, -x, 2 * x, x / 2, x.wrapping_mul(x), 1 - x].map(|x| int(ty, x as u64)));
            }
            _ => {
                let x = v.to_f64();
                let all = [x, -x, 2.0 * x, x / 2.0, x * x, x.abs().sqrt(), 1.0 / x, 1.0 - x];
                near.extend(all.map(|x| {
                    if ty.is_float() { ScalarValue::float(ty, x).bits } else { int(ty, x as i64 as u64) }
                }));
            }
        }
        for x in near {
            if ty.is_float() && scalar::to_f64(ty, x).is_nan() {
                continue;
            }
            let at = place(ty, x);
            out.extend((-2..=2).map(|d| at_place(ty, at + d)));
        }
    }
    out.sort_unstable();
    out.dedup();
    // Formulas that write out long tables would say nothing more.
    out.truncate(600);
    out
}

/// Draws of one question: the same in every run.
pub(crate) struct Draw(pub u64);

impl Draw {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        mix(self.0)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }
}

/// Assignments for variables of some types, as columns: all combinations of special and mentioned values where there
/// are few, then random ones, in which variables are often equal, opposite or neighbours.
pub(crate) fn assignments(
    types: &[Scalar],
    mentioned: &[Vec<u64>],
    combinations: usize,
    random: usize,
    draw: &mut Draw,
) -> Vec<Vec<u64>> {
    let mut columns: Vec<Vec<u64>> = vec![Vec::new(); types.len()];
    let pools: Vec<Vec<u64>> =
        types.iter().zip(mentioned).map(|(t, m)| [special(*t), m.clone()].concat()).collect();
    let all = |pools: &[Vec<u64>]| {
        pools.iter().try_fold(1usize, |n, p| n.checked_mul(p.len()).filter(|n| *n <= combinations))
    };
    let small: Vec<Vec<u64>> = types
        .iter()
        .zip(mentioned)
        .map(|(t, m)| few(*t).into_iter().chain(m.iter().copied().step_by(1 + m.len() / 6)).collect())
        .collect();
    for pools in [&pools, &small] {
        let Some(count) = all(pools) else { continue };
        for n in 0..count {
            let mut n = n;
            for (c, p) in columns.iter_mut().zip(pools) {
                c.push(p[n % p.len()]);
                n /= p.len();
            }
        }
        break;
    }
    for _ in 0..random {
        let mut row: Vec<u64> = Vec::with_capacity(types.len());
        for (k, ty) in types.iter().enumerate() {
            let before: Vec<usize> = (0..k).filter(|j| types[*j] == *ty).collect();
            let v = match (draw.below(8), before.is_empty()) {
                (0, false) => row[before[draw.below(before.len())]],
                (1, false) if *ty != Scalar::Bool => {
                    let x = place(*ty, row[before[draw.below(before.len())]]);
                    let d = draw.below(5) as i128 - 2;
                    at_place(*ty, if draw.below(2) == 0 { x + d } else { d - x })
                }
                (2, _) => pools[k][draw.below(pools[k].len())],
                _ => any(*ty, draw.next()),
            };
            row.push(v);
        }
        for (c, v) in columns.iter_mut().zip(row) {
            c.push(v);
        }
    }
    columns
}

/// A step of SplitMix64 (Steele, Lea and Flood, 2014).
pub(crate) fn mix(v: u64) -> u64 {
    let z = v.wrapping_add(0x9e37_79b9_7f4a_7c15);
    let z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}
