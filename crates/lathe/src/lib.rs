//! The session of Lathe: from a `.lathe` file to checked machine code; what users of Rust import.
//!
//! ```no_run
//! use lathe::{Build, Given, How, Machine, Pool, Program};
//!
//! let program = Program::open("examples/gemm.lathe")?;
//! let kernel = program.kernel(Some("gemm"))?;
//! let schedule = lathe::schedule(&program, kernel, &How::default(), &Machine::host())?;
//! let built = lathe::compile(&schedule, &Build::default())?;
//! let sizes = [("M".to_string(), 64), ("N".to_string(), 48), ("K".to_string(), 32)].into();
//! let mut data = lathe::data::make(kernel, &Given { sizes, ..Given::default() })?;
//! built.call(&Pool::new(2)?, &mut data.arrays)?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod applied;
pub mod build;
pub mod cache;
pub mod check;
mod choice;
pub mod codes;
pub mod convert;
pub mod data;
pub mod debug;
pub mod device;
mod dispatch;
pub mod doctor;
pub mod emit;
mod explain;
mod failure;
mod fun;
pub mod grad;
pub mod inputs;
mod kept;
mod late;
pub mod machine;
pub mod mdh;
mod open;
pub mod parallel;
pub mod program;
pub mod render;
mod replay;
pub mod report;
mod rules;
pub mod schedule;
pub mod source;
pub mod steps;
pub mod tests_of;
pub mod tree;
pub mod tune;
mod version;
pub mod which;

pub use applied::{Form, How, Version};
pub use build::{Build, Built, compile, compile_for};
pub use cache::Cache;
pub use check::{Reference, check_facts, check_result};
pub use choice::StrategySource;
pub use data::{Data, Given};
pub use emit::{Emit, emit, write_whole};
pub use explain::{explain, explain_json};
pub use kept::{Prepared, prepare};
pub use lathe_analysis::Assumptions;
pub use lathe_diagnostics::{Code, CodeInfo, Diagnostic, Severity, SourceMap, is_obeyed, nearest, visible};
pub use lathe_engine::codes::DEVICE_ARRAY;
pub use lathe_engine::dtype_of;
pub use lathe_ir::{self as ir, Function, Mode, Scalar, Type, text};
pub use lathe_lang as lang;
pub use lathe_measure::{Plan, ceilings, rounds, rounds::rounds as measure, stats};
pub use lathe_model::count;
pub use lathe_poly as poly;
pub use lathe_runtime::{
    ArgView, Array, Engine, Limits, Pool, PoolOptions, codes as runtime_codes, externals, npy,
};
pub use lathe_space as space;
pub use lathe_target::Machine;
pub use lathe_transform as transform;
pub use program::{Failure, Program};
pub use replay::{Stored, load_evidence, replay};
pub use schedule::Schedule;
pub use steps::apply_steps;
pub use tests_of::{ProgramReport, check_program};
pub use which::schedule;

/// Drops what this process keeps of earlier schedules and compilations, so that the next ones are done from the beginning:
/// for who measures how long they take.
pub fn forget() {
    lathe_transform::taken::forget();
    Engine::ALL.iter().for_each(|e| e.forget());
}

/// The codes of all crates.
pub fn all_codes() -> Vec<CodeInfo> {
    let tables: Vec<&[CodeInfo]> = vec![
        lathe_lang::CODES,
        lathe_ir::codes::CODES,
        lathe_ir::interp::codes::CODES,
        lathe_analysis::CODES,
        lathe_space::CODES,
        lathe_strategy::CODES,
        lathe_transform::CODES,
        lathe_mdh::CODES,
        lathe_grad::CODES,
        lathe_prove::CODES,
        lathe_pattern::CODES,
        lathe_target::CODES,
        lathe_engine::CODES,
        lathe_source::CODES,
        lathe_runtime::device_codes::CODES,
        lathe_runtime::device_codes::TREE_CODES,
        lathe_runtime::device_codes::HOST_CODES,
        lathe_runtime::CODES,
        lathe_tune::CODES,
        lathe_measure::CODES,
        codes::CODES,
        tune::CODES,
    ];
    let mut all: Vec<CodeInfo> = tables.into_iter().flatten().copied().collect();
    all.sort_by_key(|c| c.code);
    all.dedup_by_key(|c| c.code);
    all
}
