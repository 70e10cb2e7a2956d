//! Rules that create, re-lay or remove storage.
//!
//! * [`linear`], `scope`, `region`: bounds of subscripts, accesses with their surroundings, boxes of elements.
//! * one file per rule: its page says what it means and when it is legal.

mod accumulate;
mod contract;
pub mod linear;
mod make;
mod nontemporal;
mod options;
mod pad;
mod reassociate;
mod region;
mod relayout;
mod scope;
mod stage;

use crate::rule::Rule;

/// One entry per file of this folder.
pub static RULES: &[&Rule] = &[
    &stage::STAGE,
    &accumulate::ACCUMULATE,
    &pad::PAD,
    &relayout::SET_LAYOUT,
    &relayout::PROMOTE,
    &contract::CONTRACT,
    &reassociate::REASSOCIATE,
    &nontemporal::NONTEMPORAL,
];
