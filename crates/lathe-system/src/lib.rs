//! Files, folders and processes of the machine, taken with care: nothing that others put there is trusted, nothing
//! endless is waited for, and nothing of ours is left behind.
//!
//! * [`files`]: regular files only, opened once, read up to a limit.
//! * [`folder`]: temporary folders that only this user can enter, which the next process removes if this one is
//!   killed.
//! * [`room`]: a folder that is kept, held open, whose files nobody else can exchange.
//! * [`process`]: programs under limits of time and memory, ended with everything that they started.
//! * [`interrupt`]: Ctrl-C as a flag.

pub mod files;
pub mod folder;
pub mod interrupt;
pub mod process;
pub mod room;
