//! The tests of the session: one program, because each that is linked has LLVM inside.

mod check;
mod choosing;
mod dependencies;
mod docs;
#[cfg(feature = "llvm")]
mod edges;
#[cfg(feature = "llvm")]
mod emulated;
mod evidence;
mod examples;
mod files;
mod forms;
mod gradients;
mod house;
mod index;
#[cfg(feature = "llvm")]
mod late;
mod loops;
mod machines;
mod mdh;
mod patterns;
mod polybench;
mod random;
mod readers;
#[cfg(feature = "llvm")]
mod rows;
#[cfg(feature = "llvm")]
mod searches;
mod tune_wrong;
