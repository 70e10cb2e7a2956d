//! Constant arrays at file scope.

use crate::device::Language;
use crate::emit::{Buf, Emitter, Place, Result, lift};
use lathe_device::constants::{Constant, MOST};
use lathe_engine::needs::free_size;
use lathe_ir::lower::{Unsupported, storage};
use std::fmt::Write;

/// Their declarations. What is beyond constant memory is in global memory where the language has such arrays.
///
/// # Errors
/// `E0701` where it has none, with both sizes.
pub(super) fn declare(e: &mut Emitter, all: &[Constant], language: Language) -> Result<String> {
    let mut out = String::new();
    for c in all {
        let b = &c.buffer;
        let word = ["uint8_t", "uint16_t", "uint32_t", "uint64_t"][c.word.trailing_zeros() as usize];
        let array = e.names.fresh(&format!("{}_bits", b.name));
        let elem = e.element_type(&b.elem)?;
        let (space, pointer) = match language {
            Language::Cuda if c.fits => ("static __constant__ ", format!("const {elem} *")),
            Language::Cuda => ("static __device__ const ", format!("const {elem} *")),
            Language::OpenCl if c.fits => ("__constant ", format!("__constant {elem} *")),
            Language::OpenCl => {
                let (bytes, left) = (c.bytes(), c.left);
                let text = format!(
                    "the constant array `{}` of {bytes} bytes in OpenCL C, which has {left} left of {MOST}",
                    b.name
                );
                let u = Unsupported::new(text).help("make it a parameter of the function");
                return Err(free_size(u));
            }
        };
        let _ = write!(out, "{space}{word} {array}[{}] = {{", c.words.len());
        for (n, w) in c.words.iter().enumerate() {
            let before = if n % 8 == 0 { "\n    " } else { " " };
            let _ = write!(out, "{before}0x{w:x}{},", if c.word == 8 { "UL" } else { "u" });
        }
        out.push_str("\n};\n");
        let storage = Place::Local { strides: storage(b).map_err(lift)?.strides };
        let name = format!("(({pointer}){array})");
        e.bufs.insert(b.id, Buf { decl: b.clone(), name, frame: 0, storage });
    }
    Ok(out)
}
