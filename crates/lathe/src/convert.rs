//! Arrays of a run as values of the interpreter, and back.

use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::ArrayValue;
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
