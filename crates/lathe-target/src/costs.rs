//! What instructions and traffic cost: the numbers of the cost model, which files state under `[costs]`.

use crate::Masks;

macro_rules! costs {
    ($($(#[doc = $doc:literal])+ $name:ident = $usual:literal;)+) => {
        /// Costs in cycles, or in what their comments say. What a file does not state has the value of a recent processor.
        #[derive(Clone, Debug, PartialEq)]
        pub struct Costs {
            $($(#[doc = $doc])+ pub $name: f64,)+
        }

        impl Default for Costs {
            fn default() -> Costs {
                Costs { $($name: $usual),+ }
            }
        }

        impl Costs {
            pub const NAMES: &[&str] = &[$(stringify!($name)),+];

            /// A cost by its name.
            pub fn get(&self, name: &str) -> Option<f64> {
                match name {
                    $(stringify!($name) => Some(self.$name),)+
                    _ => None,
                }
            }

            pub(crate) fn set(&mut self, name: &str, value: f64) {
                match name {
                    $(stringify!($name) => self.$name = value,)+
                    _ => {}
                }
            }
        }
    };
}

costs! {
    /// Arithmetic instructions per cycle.
    arithmetic_per_cycle = 2.0;
    /// Loads per cycle.
    loads_per_cycle = 2.0;
    /// Stores per cycle.
    stores_per_cycle = 1.0;
    /// Instructions of any kind per cycle.
    issued_per_cycle = 5.0;
    /// What masks multiply the cost of arithmetic by. Its usual value follows from the fact `masks`.
    masked_arithmetic = 1.0;
    /// The same for loads and stores.
    masked_memory = 1.2;
    /// Latency of an addition, in that of a fused multiply-add (the fact `fma_latency`).
    add_latency = 0.6;
    /// Latency of a division, in the same.
    division_latency = 3.3;
    /// Latency of a square root, in the same.
    root_latency = 4.8;
    /// Registers that are stored and loaded again for one that there are too few of.
    spilled = 1.5;
    /// Loads for one element of a vector whose elements lie apart in memory.
    gather = 2.8;
    /// Stores for one.
    scatter = 1.5;
    /// Until a stored value can be loaded again.
    forward = 5.0;
    /// Until a vector can be loaded that parts of two stored ones make up.
    pieced = 20.0;
    /// Starting a loop.
    loop_start = 4.0;
    /// A branch that is guessed wrong.
    guessed_wrong = 20.0;
    /// Allocating and freeing a buffer.
    buffer = 40.0;
    /// A loop on threads: fork and join.
    wake = 4000.0;
    /// The same for each of the threads.
    wake_each = 900.0;
    /// Until a line is there that another core writes, for each thread that may be that one.
    contended = 15.0;
    /// Until a core has a line that another one holds, where they follow one another.
    handed = 40.0;
    /// Bytes per cycle and thread from the second cache; what comes from memory is among the facts.
    l2_bytes_per_cycle = 64.0;
    /// The same from the third cache.
    l3_bytes_per_cycle = 20.0;
    /// Until a line from beyond the second cache is there that comes one by one, beside those that are on their way with it.
    alone = 15.0;
    /// Until the place of a page is known that was forgotten.
    page = 30.0;
    /// Until a line has left that bypasses the caches in parts.
    parted = 270.0;
    /// Of what instructions and traffic take, the part that does not overlap.
    serial = 0.25;
}

impl Costs {
    /// The usual costs of a machine whose masks are such.
    pub fn with(masks: Masks) -> Costs {
        match masks {
            Masks::Dear => Costs { masked_arithmetic: 1.2, masked_memory: 3.0, ..Costs::default() },
            Masks::Cheap | Masks::None => Costs::default(),
        }
    }
}

/// The least and the largest number that a cost may be.
pub(crate) const RANGE: std::ops::RangeInclusive<f64> = 0.001..=1e9;
