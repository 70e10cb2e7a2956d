//! The tuner: searches the parameters of strategies, and of any program that scripts or functions run.
//!
//! [`tune_kernel`] searches a strategy's parameters with a measuring process and keeps the winner in the store,
//! where [`stored_winner`] finds it again. [`Tuner`] searches any space with any cost function.

pub mod codes;
mod described;
mod hash;
mod illegal;
mod kernel;
mod online;
mod order;
mod packed;
mod plot;
mod programs;
mod record;
mod recorded;
mod search;
mod sources;
mod space;
mod stored;
mod tuning;
mod work;
mod worker;

pub use codes::CODES;
pub use described::{Described, describe_program};
pub use hash::{Situation, kernel_key, strategy_hash};
pub use kernel::{KernelCost, WorkerCommand};
pub use lathe_measure::codes as store_codes;
pub use lathe_measure::cost::{Callable, CheckedCallable, Comparator, CostFunction, Gold, Sample, Scripts};
pub use lathe_measure::store::{self, Store};
pub use lathe_measure::worker::{Fault, Rule};
pub use lathe_system::interrupt::{interrupted, on_interrupt, with_interrupts};
pub use lathe_system::process::Limits;
pub use lathe_tune::{Cost, Ended, Entry, Invalid, Order, Outcome, Stop, Tuned, Why, stop_text, technique};
pub use online::{Online, OnlineTuning, Step};
pub use order::order;
pub use packed::{read_text as read_packed, unpacked};
pub use plot::{Dot, plot, svg};
pub use programs::{Counted, ProgramTuned, ProgramTuning, count, sample, tune_program};
pub use recorded::t4;
pub use search::{Found, Progress, Tuner};
pub use space::{StrategySpace, strategy_space};
pub use stored::{ForSizes, stored_winner, stored_winners};
pub use tuning::{KernelTuned, KernelTuning, tune_kernel};
pub use worker::work;

use lathe_diagnostics::Diagnostic;
use lathe_space::{Generate, Space, SpaceDef};

/// The space of a definition.
///
/// # Errors
/// What is wrong with the definition.
pub fn space(def: &SpaceDef) -> Result<Space, Diagnostic> {
    Space::generate(def, &Generate::default())
}
