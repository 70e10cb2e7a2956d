//! Arrays of a run as values of the interpreter, and back.

use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::ArrayValue;
use lathe_ir::{Scalar, Type};
use lathe_runtime::Array;

/// The content of an array, all cells defined.
///
/// # Errors
/// When memory is short.
pub fn to_value(a: &Array) -> Result<ArrayValue, Diagnostic> {
    let shape: Vec<usize> = a.shape().iter().map(|n| usize::try_from(*n).unwrap_or(0)).collect();
    let dense = a.to_row_major()?;
    let mut bytes = dense.bytes().to_vec();
    bytes.truncate(a.len() * a.ty().bytes() as usize);
    // The bytes were cut to what the shape asks for, so this always fits.
    Ok(ArrayValue::from_bytes(a.ty().clone(), &shape, bytes)
        .unwrap_or_else(|| ArrayValue::undefined(a.ty().clone(), &shape)))
}

/// All of several arrays.
///
/// # Errors
/// As [`to_value`].
pub fn to_values(arrays: &[Array]) -> Result<Vec<ArrayValue>, Diagnostic> {
    arrays.iter().map(to_value).collect()
}

/// A dense array with the content of a value.
///
/// # Errors
/// As [`Array::zeros`].
pub fn from_value(v: &ArrayValue) -> Result<Array, Diagnostic> {
    let shape: Vec<i64> = v.shape.iter().map(|n| *n as i64).collect();
    let mut a = Array::zeros(v.ty.clone(), &shape)?;
    let n = v.bytes().len().min(a.bytes().len());
    a.bytes_mut()[..n].copy_from_slice(&v.bytes()[..n]);
    Ok(a)
}

/// A 0-dimensional array with a complex number that is written as in the language: `1.5`, `2i`, `1.5-2i`. `None` for other
/// types and texts.
pub fn complex(ty: &Type, text: &str) -> Option<Array> {
    let part = ty.complex_part()?;
    let (re, im) = match text.strip_suffix('i') {
        None => (text, "0"),
        Some(parts) => {
            // The sign of the imaginary part, which is neither the first one nor that of an exponent.
            let signs = parts.char_indices().skip(1).filter(|(_, c)| matches!(c, '+' | '-'));
            let at = signs.map(|s| s.0).filter(|n| !parts[..*n].ends_with(['e', 'E'])).last();
            at.map_or(("0", parts), |n| parts.split_at(n))
        }
    };
    let mut bytes = Vec::new();
    for p in [re, im] {
        match part {
            Scalar::F32 => bytes.extend(p.parse::<f32>().ok()?.to_ne_bytes()),
            _ => bytes.extend(p.parse::<f64>().ok()?.to_ne_bytes()),
        }
    }
    let mut a = Array::zeros(ty.clone(), &[]).ok()?;
    a.bytes_mut()[..bytes.len()].copy_from_slice(&bytes);
    Some(a)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn complex_numbers_are_read_as_they_are_written() {
        let c128 = Type::complex_named("c128").expect("is a type");
        let read = |text: &str| {
            let v = to_value(&complex(&c128, text)?).ok()?;
            let part = |b: &[u8]| f64::from_ne_bytes(b.try_into().expect("eight bytes"));
            Some((part(&v.bytes()[..8]), part(&v.bytes()[8..16])))
        };
        for (text, want) in [
            ("1.5", (1.5, 0.0)),
            ("-2i", (0.0, -2.0)),
            ("1.5-2i", (1.5, -2.0)),
            ("-1e-3+2.5e+2i", (-1e-3, 250.0)),
            ("1e-3i", (0.0, 1e-3)),
            ("inf-infi", (f64::INFINITY, f64::NEG_INFINITY)),
        ] {
            assert_eq!(read(text), Some(want), "{text}");
        }
        for text in ["", "i", "1+i", "1+2", "1+2j", "z.npy", "1 + 2i"] {
            assert_eq!(read(text), None, "{text}");
        }
        assert!(complex(&Type::F64, "1i").is_none());
    }
}
