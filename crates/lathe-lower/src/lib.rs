//! What every engine would decide alike, decided once: passes from tree to tree, before any code is made.
//!
//! [`lower`] and [`lower_for_vectors`] run them in order. Each is a file of its own, and what it makes is a tree like any other: it verifies, the
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
//! | [`lanes`] | masks of updates of rows in registers, where nobody reads the lanes behind the edge |
//! | [`counts`] | guards of iterations that are written out in a loop in which their number does not change |
//! | [`gathers`] | gathers that are the same in all iterations of a loop around |
//! | [`pitches`] | rows in frames that end within a vector |
//! | [`addresses`] | views, and layouts that move elements |
//! | [`collapse`] | loops on threads directly inside of each other, where their trip counts are constants |

pub mod addresses;
pub mod calls;
pub mod checks;
pub mod collapse;
pub mod counts;
pub mod externals;
pub mod gathers;
pub mod halves;
pub mod lanes;
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
    lowered(module, func, Function::clone)
}

/// The same for an engine that emits vectors and masks itself: [`lanes`], [`counts`] and [`gathers`] are applied, too. C compilers make
/// worse code of what they leave, and take longer.
///
/// # Errors
/// As [`lower`].
pub fn lower_for_vectors(module: &Module, func: &Function) -> Result<Function, Unsupported> {
    lowered(module, func, |f| gathers::ahead(&counts::outside(&lanes::whole(f))))
}

fn lowered(
    module: &Module,
    func: &Function,
    rows: impl Fn(&Function) -> Function,
) -> Result<Function, Unsupported> {
    let func = externals::in_memory(&levels::on_cpus(&calls::inline(module, func))?);
    let func = turns::by_tickets(&func);
    let func = simplify_function(&checks::in_blocks(&func));
    let func = halves::in_floats(&reductions::as_stores(module, &func));
    let func = addresses::plain(&pitches::apart(&rows(&func)))?;
    Ok(collapse::nested(&func))
}
