//! The inputs of `test` items.

use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::ArrayValue;
use lathe_ir::{Scalar, build};
use lathe_lang::{InputSpec, Number};
use lathe_runtime::Array;

/// Fills an array as a test asks for. Random integers that are subscripts were drawn when the array was made, so
/// `Random` without a range keeps those and only sets the seed of all others.
///
/// # Errors
/// `E0906` when data do not have as many numbers as the array has scalars.
pub fn fill(a: &mut Array, spec: &InputSpec, subscripts_below: Option<i64>) -> Result<(), Diagnostic> {
    match spec {
        InputSpec::Random { seed, range: None } => match subscripts_below {
            Some(n) => a.fill_below(*seed, n.max(1) as u64),
            None => a.fill_random(*seed),
        },
        InputSpec::Random { seed, range: Some((lo, hi)) } => {
            a.fill_random(*seed);
            let mut unit = lathe_runtime::fill::Random::new(*seed);
            write(a, |_| Number::Float(lo + (hi - lo) * (unit.unit() + 1.0) / 2.0))?;
        }
        InputSpec::Iota => write(a, |i| Number::Int(i as i64))?,
        InputSpec::Constant(n) => write(a, |_| *n)?,
        InputSpec::Data(numbers) => {
            let leaves = a.ty().leaves().len();
            if numbers.len() != a.len() * leaves {
                return Err(Diagnostic::error(
                    codes::INPUT,
                    format!("{} numbers were given for {} elements", numbers.len(), a.len() * leaves),
                )
                .help("data are row-major; components of structs follow each other"));
            }
            let floats = a.ty().leaves().iter().any(|s| s.is_float());
            if floats && numbers.iter().any(|n| matches!(n, Number::Int(v) if v.unsigned_abs() > 1 << 53)) {
                return Err(Diagnostic::error(codes::INPUT, "integers in data of floats must be below 2^53"));
            }
            write(a, |i| numbers[i])?;
        }
    }
    Ok(())
}

/// The bits of a number as a scalar; integers of 64 bits keep all of theirs.
fn bits(s: Scalar, n: Number) -> u64 {
    match n {
        Number::Int(v) if s.is_int() => build::wrap(s, v) as u64,
        n => lathe_ir::scalar::of_f64(s, n.as_f64()),
    }
}

/// Sets scalar `i` (row-major, components one after the other) to a value, converted as a cast would.
fn write(a: &mut Array, mut value: impl FnMut(usize) -> Number) -> Result<(), Diagnostic> {
    let old = crate::convert::to_value(a)?;
    let leaves = a.ty().leaves();
    let mut new = ArrayValue::zeros(old.ty.clone(), &old.shape);
    for i in 0..a.len() {
        for (l, s) in leaves.iter().enumerate() {
            new.set_leaf(i, l, bits(*s, value(i * leaves.len() + l)));
        }
    }
    let dense = crate::convert::from_value(&new)?;
    *a = dense;
    Ok(())
}
