//! Rules that create, re-lay or remove storage.
//!
//! * `scope`, `region`: accesses with their surroundings, boxes of elements (bounds of subscripts: `lathe_poly::bounds`).
//! * one file per rule: its page says what it means and when it is legal.

mod accumulate;
mod atomic;
mod begin;
mod compute_at;
mod expand;
mod fma;
mod hoist;
mod inline;
mod inscan;
mod localize;
mod lookback;
mod make;
mod materialize;
mod nontemporal;
mod options;
mod pad;
mod pipeline;
mod prefetch;
mod prereduce;
mod prescan;
mod privatize;
mod producer;
mod reassociate;
mod region;
mod relayout;
mod scope;
mod stage;

pub use fma::with_fma;
pub use hoist::{replaced, unchanged};
pub use make::zero;
pub(crate) use make::{fresh_name, may_alias, proved};

use crate::rule::Rule;

/// One entry per file of this folder.
pub static RULES: &[&Rule] = &[
    &stage::STAGE,
    &accumulate::ACCUMULATE,
    &pad::PAD,
    &pipeline::PIPELINE,
    &privatize::PRIVATIZE,
    &privatize::FACTOR,
    &prescan::PRESCAN,
    &lookback::LOOKBACK,
    &inscan::INSCAN,
    &prereduce::PREREDUCE,
    &compute_at::COMPUTE_AT,
    &inline::INLINE,
    &localize::LOCALIZE,
    &expand::EXPAND,
    &materialize::MATERIALIZE,
    &hoist::HOIST,
    &relayout::SET_LAYOUT,
    &relayout::PROMOTE,
    &relayout::DISTRIBUTE,
    &fma::FMA,
    &reassociate::REASSOCIATE,
    &atomic::ATOMIC,
    &nontemporal::NONTEMPORAL,
    &prefetch::PREFETCH,
];
