//! What every engine would decide alike, decided once: passes from tree to tree, before any code is made.
//!
//! [`lower`] runs them in order. Each is a file of its own, and what it makes is a tree like any other: it verifies, the
//! interpreter runs it, and file tests compare it with what it was made of. No step of a strategy sees it.
//!
//! | pass | after it, no function has |
//! |---|---|
//! | [`calls`] | calls of functions of the module |
//! | [`checks`] | loops over nothing but a check that vectors or threads could do faster |
//! | [`reductions`] | `op=` but where lanes combine in order |
//! | [`halves`] | arithmetic on floats of 16 bits |
//! | [`pitches`] | rows in frames that end within a vector |

pub mod calls;
pub mod checks;
pub mod halves;
pub mod pitches;
pub mod reductions;

use lathe_ir::{Function, Module};
use lathe_poly::simplify::simplify_function;

/// The function as engines for CPUs take it. One that calls itself keeps these calls.
pub fn lower(module: &Module, func: &Function) -> Function {
    let func = simplify_function(&checks::in_blocks(&calls::inline(module, func)));
    pitches::apart(&halves::in_floats(&reductions::as_stores(module, &func)))
}
