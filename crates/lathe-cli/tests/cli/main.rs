//! The command, run as its users run it.

mod attacks;
mod bad_input;
mod common;
mod debugging;
mod devices;
mod embed;
mod files;
mod grad;
mod mdh;
mod messages;
mod mutations;
mod run;
mod tools;
mod trees;
mod tune;
mod tune_attacks;
mod tune_hard;
mod tune_programs;
mod tune_wrong;
mod unbounded;
