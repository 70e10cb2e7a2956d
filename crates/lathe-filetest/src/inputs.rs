//! Inputs of runs: sizes and scalars by name, everything else random, the same for the same text.

use lathe_ir::interp::{self, ArrayValue, leaf_offsets};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Function, Mode, Param, ParamKind, Scalar, Type, VarId};
use std::collections::HashMap;
use std::fmt;

/// The ranges that inputs are drawn from: whole numbers where both ends are.
#[derive(Clone, Debug, PartialEq)]
pub struct Values {
    all: (f64, f64),
    /// By name of the parameter; `ints` for all that are not floats.
    named: Vec<(String, (f64, f64))>,
}

impl Values {
    /// `-9..9`, `0.5..1.5; ints 0..3; I 0..7`.
    ///
    /// # Errors
    /// What is not a range.
    pub fn parse(text: &str) -> Result<Values, String> {
        let mut out = Values { all: (-9.0, 9.0), named: Vec::new() };
        for part in text.split(';').map(str::trim) {
            let (name, range) = part.rsplit_once(' ').map_or((None, part), |(n, r)| (Some(n.trim()), r));
            let ends = range.split_once("..").and_then(|(a, b)| Some((a.parse().ok()?, b.parse().ok()?)));
            let ends = ends
                .filter(|(a, b): &(f64, f64)| a <= b)
                .ok_or_else(|| format!("`{range}` is not a range"))?;
            match name {
                Some(name) => out.named.push((name.to_string(), ends)),
                None => out.all = ends,
            }
        }
        Ok(out)
    }

    fn of(&self, name: &str, ty: Scalar) -> (f64, f64) {
        let named = |n: &str| self.named.iter().find(|r| r.0 == n).map(|r| r.1);
        let ints = || if ty.is_float() { None } else { named("ints") };
        named(name).or_else(ints).unwrap_or(self.all)
    }
}

/// Values of sizes and scalar parameters, and where all other inputs are drawn from.
#[derive(Clone, Debug, PartialEq)]
pub struct Inputs {
    named: Vec<(String, i64)>,
    values: Values,
    seed: u64,
}

impl fmt::Display for Inputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let named: Vec<String> = self.named.iter().map(|(n, v)| format!("{n}={v}")).collect();
        f.write_str(&named.join(" "))
    }
}

impl Inputs {
    /// `N=4 M=3`, also with commas.
    ///
    /// # Errors
    /// What is not a size with a value.
    pub fn parse(text: &str) -> Result<Inputs, String> {
        let words = text.split([' ', ',', '\n']).filter(|w| !w.is_empty());
        let one = |w: &str| {
            let (name, value) = w.split_once('=')?;
            Some((name.to_string(), value.parse().ok()?))
        };
        let named = words.map(|w| one(w).ok_or_else(|| format!("`{w}` is not a size: write `N=4`")));
        let values = Values { all: (-9.0, 9.0), named: Vec::new() };
        Ok(Inputs { named: named.collect::<Result<_, _>>()?, values, seed: 7 })
    }

    /// The same, drawn from other ranges.
    #[must_use]
    pub fn drawn_from(self, values: &Values) -> Inputs {
        Inputs { values: values.clone(), ..self }
    }

    /// The same sizes with other draws.
    #[must_use]
    pub fn seeded(&self, seed: u64) -> Inputs {
        Inputs { seed, ..self.clone() }
    }

    /// The names that have values, with them.
    pub fn named(&self) -> impl Iterator<Item = (&str, i64)> {
        self.named.iter().map(|(n, v)| (&**n, *v))
    }

    fn get(&self, name: &str) -> Option<i64> {
        self.named().find(|n| n.0 == name).map(|n| n.1)
    }

    /// The values of a function's sizes.
    ///
    /// # Errors
    /// A size without a value.
    pub fn sizes(&self, func: &Function) -> Result<HashMap<VarId, i64>, String> {
        let value = |n: &str| self.get(n).ok_or_else(|| format!("`{n}` has no value"));
        func.sizes.iter().map(|b| Ok((b.id, value(&b.name)?))).collect()
    }

    /// The arguments of a function; the same for the same inputs.
    ///
    /// # Errors
    /// A size without a value, a shape that does not exist.
    pub fn arguments(&self, func: &Function) -> Result<Vec<ArrayValue>, String> {
        let known = self.sizes(func)?;
        let mut random = Random(self.seed);
        let mut out = Vec::new();
        for p in &func.params {
            let (ty, shape): (Type, Vec<usize>) = match &p.kind {
                ParamKind::Scalar(b) => (b.ty.into(), Vec::new()),
                ParamKind::Array(b) => {
                    let extent = |e| interp::evaluate(e, &known).and_then(|v| usize::try_from(v).ok());
                    let shape: Option<Vec<usize>> = b.extents.iter().map(extent).collect();
                    (b.elem.clone(), shape.ok_or_else(|| format!("`{}` has no such shape", b.name))?)
                }
            };
            let mut a = ArrayValue::undefined(ty, &shape);
            if p.mode != Mode::Out {
                self.fill(&mut a, p, &mut random);
            }
            out.push(a);
        }
        Ok(out)
    }

    fn fill(&self, a: &mut ArrayValue, p: &Param, random: &mut Random) {
        let given = self.get(p.name()).filter(|_| p.array().is_none());
        let leaves = leaf_offsets(&a.ty);
        for position in 0..a.len() {
            for (leaf, (ty, _)) in leaves.iter().enumerate() {
                let range = self.values.of(p.name(), *ty);
                let v = given.map_or_else(|| random.between(range, ty.is_float()), |v| v as f64);
                let value = match ty {
                    Scalar::Bool => ScalarValue::boolean(v as i64 & 1 == 1),
                    ty if ty.is_float() => ScalarValue::float(*ty, v),
                    ty => ScalarValue::int(*ty, given.unwrap_or(v as i64)),
                };
                a.set_leaf(position, leaf, value.bits);
            }
        }
    }
}

/// Small random numbers.
struct Random(u64);

impl Random {
    /// A whole number where both ends are, or where it must be one.
    fn between(&mut self, (lo, hi): (f64, f64), real: bool) -> f64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let drawn = self.0 >> 33;
        if real && (lo.fract() != 0.0 || hi.fract() != 0.0) {
            return lo + (hi - lo) * (drawn as f64 / (1u64 << 31) as f64);
        }
        let (lo, hi) = (lo.ceil() as i64, hi.floor() as i64);
        (lo + (drawn % (hi - lo).max(0).wrapping_add(1) as u64) as i64) as f64
    }
}
