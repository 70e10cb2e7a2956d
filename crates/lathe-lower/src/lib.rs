//! What every engine would decide alike, decided once: passes from tree to tree, before any code is made.
//!
//! [`lower`] runs them in order. Each is a file of its own, and what it makes is a tree like any other: it verifies, the
//! interpreter runs it, and file tests compare it with what it was made of. No step of a strategy sees it.
//!
//! | pass | after it, no function has |
//! |---|---|
//! | [`calls`] | calls of functions of the module |
//! | [`externals`] | arrays outside of memory that calls of external functions pass |
//! | [`phases`] | barriers |
//! | [`levels`] | loops of levels, and the spaces of devices |
//! | [`turns`] | updates in the order of a loop on threads |
//! | [`checks`] | loops over nothing but a check that vectors or threads could do faster |
//! | [`reductions`] | `op=` but where lanes combine in order |
//! | [`halves`] | arithmetic on floats of 16 bits |
//! | [`pitches`] | rows in frames that end within a vector |
//! | [`addresses`] | views, and layouts that move elements |
//! | [`collapse`] | loops on threads directly inside of each other, where their trip counts are constants |

pub mod addresses;
pub mod calls;
pub mod checks;
pub mod collapse;
pub mod externals;
pub mod halves;
pub mod levels;
pub mod phases;
pub mod pitches;
pub mod reductions;
pub mod turns;

use lathe_ir::lower::Unsupported;
use lathe_ir::{Function, Module};
use lathe_poly::simplify::simplify_function;

/// The function as engines for CPUs take it. One that calls itself keeps these calls.
///
/// # Errors
/// Barriers that [`phases`] does not take away, views and layouts that [`addresses`] does not.
pub fn lower(module: &Module, func: &Function) -> Result<Function, Unsupported> {
    let func = externals::in_memory(&levels::on_cpus(&calls::inline(module, func))?);
    let func = turns::by_tickets(&func);
    let func = simplify_function(&checks::in_blocks(&func));
    let func = addresses::plain(&pitches::apart(&halves::in_floats(&reductions::as_stores(module, &func))))?;
    Ok(collapse::nested(&func))
}
