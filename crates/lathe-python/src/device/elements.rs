//! Types of elements of buffers: numpy's, as far as kernels have them.

use crate::refusals::argument_error;
use lathe_abi::dtype;
use pyo3::intern;
use pyo3::prelude::*;

/// A type of elements.
pub struct Elements {
    /// numpy's description.
    pub descr: Py<PyAny>,
    /// The ABI's code.
    pub code: u32,
    /// Of one element.
    pub bytes: u64,
}

/// numpy's names, with codes, and the codes and bits of DLPack.
const TYPES: [(&str, u32, (u8, u8)); 15] = [
    ("bool", dtype::BOOL, (6, 8)),
    ("int8", dtype::I8, (0, 8)),
    ("int16", dtype::I16, (0, 16)),
    ("int32", dtype::I32, (0, 32)),
    ("int64", dtype::I64, (0, 64)),
    ("uint8", dtype::U8, (1, 8)),
    ("uint16", dtype::U16, (1, 16)),
    ("uint32", dtype::U32, (1, 32)),
    ("uint64", dtype::U64, (1, 64)),
    ("float16", dtype::F16, (2, 16)),
    ("bfloat16", dtype::BF16, (4, 16)),
    ("float32", dtype::F32, (2, 32)),
    ("float64", dtype::F64, (2, 64)),
    ("complex64", dtype::C64, (5, 64)),
    ("complex128", dtype::C128, (5, 128)),
];

impl Elements {
    /// # Errors
    /// `E0809` for types that no kernel has, and for another byte order than this machine's.
    pub fn of(descr: &Bound<'_, PyAny>) -> PyResult<Elements> {
        let py = descr.py();
        let name: String = descr.getattr(intern!(py, "name"))?.extract()?;
        let native: bool = descr.getattr(intern!(py, "isnative"))?.extract()?;
        let bytes: u64 = descr.getattr(intern!(py, "itemsize"))?.extract()?;
        let fields = !descr.getattr(intern!(py, "fields"))?.is_none();
        let code = match TYPES.iter().find(|t| t.0 == name) {
            Some(t) => Some(t.1),
            None if fields && bytes > 0 => Some(dtype::AGGREGATE),
            None => None,
        };
        let Some(code) = code.filter(|_| native) else {
            let text = format!("buffers have no elements of type {descr}");
            let help = "numbers of numpy in this machine's byte order, or structured types";
            return Err(argument_error(py, lathe::runtime_codes::ARGUMENT_DTYPE, text, &[], Some(help)));
        };
        Ok(Elements { descr: descr.clone().unbind(), code, bytes })
    }

    /// The code and the bits of DLPack; none for structs.
    pub fn dlpack(&self) -> Option<(u8, u8)> {
        TYPES.iter().find(|t| t.1 == self.code).map(|t| t.2)
    }
}
