//! How a nest uses the layers of a model: threads outermost, lanes innermost.

use crate::model::Model;

/// Numbers of layers of the computation, from coarse to fine.
#[derive(Clone, Debug, PartialEq)]
pub struct Layers {
    pub threads: Option<usize>,
    /// Blocks of a sum.
    pub outer: usize,
    /// Blocks for a cache.
    pub block: usize,
    /// What one thread processes at a time.
    pub rest: usize,
    /// All other loops.
    pub inner: usize,
    pub registers: Option<usize>,
    pub lanes: Option<usize>,
    /// The layer of the model that each layer of the computation is assigned to.
    pub assigned: Vec<usize>,
}

impl Layers {
    /// None for models with cores that are not part of a CPU.
    pub fn of(model: &Model) -> Option<Layers> {
        let memories = model.memories.len();
        let cores = |word: &str| {
            (memories..model.layers())
                .filter(|l| model.core(*l).is_some_and(|c| c.executor == word))
                .collect::<Vec<_>>()
        };
        let (threads, lanes) = (cores("cpu"), cores("vector"));
        if threads.len() + lanes.len() < model.cores.len() {
            return None;
        }
        let assigned: Vec<usize> =
            threads.iter().copied().chain(0..memories).chain(lanes.iter().copied()).collect();
        let at = |layer: Option<usize>| layer.and_then(|l| assigned.iter().position(|a| *a == l));
        let registers = model.memories.iter().position(|m| m.space.as_deref() == Some("register"));
        // The memories before the registers, from the outside: there may be fewer than uses.
        let plain: Vec<usize> =
            (0..memories).filter(|m| Some(*m) != registers).filter_map(|m| at(Some(m))).collect();
        let nth = |n: usize| plain.get(n).or(plain.last()).copied().unwrap_or(0);
        Some(Layers {
            threads: at(threads.first().copied()),
            outer: nth(0),
            block: nth(1),
            rest: nth(2),
            inner: nth(3),
            registers: at(registers),
            lanes: at(lanes.first().copied()),
            assigned,
        })
    }

    /// Whether the uses have layers of their own: else a dimension has one loop at most.
    pub fn distinct(&self) -> bool {
        let mut all = [self.outer, self.block, self.rest, self.inner];
        all.sort_unstable();
        all.windows(2).all(|w| w[0] != w[1])
    }
}
