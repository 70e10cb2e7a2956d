//! Comparing arrays: the largest absolute and relative errors.

use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::ArrayValue;
use lathe_ir::{Function, Mode};
use lathe_runtime::Array;

/// Differences between what was computed and what should have been.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Difference {
    pub max_abs: f64,
    /// Largest `|a - b| / |b|` where `b` is not 0.
    pub max_rel: f64,
    /// Largest magnitude of a correct finite value.
    pub scale: f64,
    /// The first element that differs, as `C[1, 2]: got, expected`.
    pub first: Option<String>,
    /// Whether every element has the same value (NaN equal to NaN).
    pub equal: bool,
}

/// Compares the outputs (`out` and `inout`) of a call with reference values.
///
/// # Errors
/// When memory is short.
pub fn outputs(func: &Function, got: &[Array], want: &[ArrayValue]) -> Result<Difference, Diagnostic> {
    let mut d = Difference { equal: true, ..Difference::default() };
    for ((p, g), w) in func.params.iter().zip(got).zip(want) {
        if p.mode == Mode::In {
            continue;
        }
        let got = crate::convert::to_value(g)?;
        // Equal bytes are equal values, found without making numbers of them; the scale is asked for only where
        // something differs.
        if got.bytes() != w.bytes() {
            values(p.name(), &w.shape, &got.to_f64_vec(), &w.to_f64_vec(), &mut d);
        }
    }
    Ok(d)
}

/// Compares two lists of values and adds what it finds. Elements of aggregates are listed leaf by leaf.
pub fn values(name: &str, shape: &[usize], got: &[f64], want: &[f64], d: &mut Difference) {
    for (i, (g, w)) in got.iter().zip(want).enumerate() {
        if w.is_finite() {
            d.scale = d.scale.max(w.abs());
        }
        if g == w || (g.is_nan() && w.is_nan()) {
            continue;
        }
        d.equal = false;
        if d.first.is_none() {
            let elements: usize = shape.iter().product::<usize>().max(1);
            let leaves = (want.len() / elements).max(1);
            d.first = Some(format!("{name}{}: got {g:?}, expected {w:?}", subscripts(shape, i / leaves)));
        }
        let abs = (g - w).abs();
        // NaN against a number, or infinities that differ, are infinitely wrong.
        let abs = if abs.is_nan() { f64::INFINITY } else { abs };
        d.max_abs = d.max_abs.max(abs);
        if *w != 0.0 {
            d.max_rel = d.max_rel.max(abs / w.abs());
        }
    }
}

fn subscripts(shape: &[usize], mut position: usize) -> String {
    let mut index = vec![0; shape.len()];
    for d in (0..shape.len()).rev() {
        index[d] = position % shape[d].max(1);
        position /= shape[d].max(1);
    }
    format!("{index:?}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_equals_nan_and_nothing_else() {
        let mut d = Difference { equal: true, ..Difference::default() };
        values("x", &[2], &[f64::NAN, 1.0], &[f64::NAN, 1.0], &mut d);
        assert!(d.equal);
        values("x", &[2], &[f64::NAN, 1.0], &[0.0, 1.0], &mut d);
        assert!(!d.equal && d.max_abs == f64::INFINITY);
        assert_eq!(d.first.as_deref(), Some("x[0]: got NaN, expected 0.0"));
    }
}
