//! The neighbourhood of complete decisions: what a search may change in the choice of the cost model.
//!
//! [`crate::space`] is the thesis's space, of every factorization and order. Most of that space is poor; this
//! one keeps the shape of the choice, and varies numbers, the order, and copies. Parameters are named like
//! the arguments of the step `mdh(…)`:
//!
//! * `parts.DIM.LAYER`: how many parts, for every free entry of a layer of registers, caches, vectors and threads
//!   that the choice uses, but one per dimension, which takes what the others leave;
//! * `order`: 0, or which two adjacent loops are interchanged;
//! * `pack.A`: whether input `A` is copied into another layout where the choice copies it.

use crate::decisions::{Decisions, Level, Phase, Table, at, by_position, ranks_of};
use crate::homomorphism::Shaped;
use crate::model::Model;
use lathe_ir::Combine;
use lathe_space::{BinOp, Constraint, Expr, SpaceDef, TuningParameter, Value, Values};

/// The decisions that a search begins with, and which of their entries it may not change.
pub struct Around<'a> {
    pub h: &'a Shaped<'a>,
    pub model: &'a Model,
    /// Entries that are fixed here stay.
    pub fixed: &'a Decisions,
    pub chosen: &'a Decisions,
}

/// The largest numbers of parts that are tried: in registers, and on other layers.
const SIDE: u64 = 16;
const MOST: u64 = 1 << 20;
/// Results that registers hold at most: all of 32 vectors of 16.
const HELD: i64 = 512;
/// Operations on scalars or vectors that are written out at most: more takes the code generator seconds.
const WRITTEN: i64 = 512;

impl Around<'_> {
    /// The parameters; the values of the choice are the defaults.
    pub fn space(&self) -> SpaceDef {
        self.named("")
    }

    /// The parameters, with names that begin so.
    pub fn named(&self, prefix: &str) -> SpaceDef {
        let mut def = SpaceDef::new();
        for l in self.changeable() {
            let values = self.values(l);
            if values.len() > 1 {
                def = def.param(TuningParameter::ints(format!("{prefix}{}", self.name(l)), values));
            }
        }
        let lanes = self.changeable().into_iter().filter(|l| self.lanes(*l));
        let lanes = lanes.map(|l| self.chosen.parts_at(l).min(16) as i64).fold(1, i64::saturating_mul);
        // Lanes of a sum hold partial results.
        for (most, reduced) in [(HELD, false), (WRITTEN.saturating_mul(lanes), true)] {
            let tile = |l: Level| {
                let free = self.h.h.dims[l.dim].combine == Combine::Concat;
                self.lanes(l) || (self.registers(l) && (free || reduced))
            };
            // It belongs to the last parameter that it mentions.
            if let Some(e) = self.at_most(prefix, most, &tile)
                && let Some(last) =
                    def.params.iter_mut().rev().find(|p| lathe_space::names(&e).contains(&p.name))
            {
                *last = last.clone().such_that(Constraint::Expr(e));
            }
        }
        let swaps = self.swaps().len() as i64;
        if swaps > 0 && self.order_is_free() {
            def = def.param(TuningParameter::int(format!("{prefix}order"), 0, swaps));
        }
        for input in self.copied() {
            def = def.param(TuningParameter::strings(format!("{prefix}pack.{input}"), ["yes", "no"]));
        }
        def
    }

    /// The configuration that is the choice.
    pub fn start(&self) -> Values {
        let mut out = Values::new();
        for p in self.space().params {
            let level = self.chosen.levels().find(|l| self.name(*l) == p.name);
            let value = match level {
                Some(l) => Value::Int(self.chosen.parts_at(l) as i64),
                None if p.name == "order" => Value::Int(0),
                None => Value::Str("yes".to_string()),
            };
            out.insert(p.name, value);
        }
        out
    }

    /// The decisions of a configuration; what it does not say is as chosen. They may break a rule of the model, of
    /// capacity for example; [`crate::check`](fn@crate::check) tells.
    pub fn bind(&self, values: &Values) -> Decisions {
        let mut d = self.chosen.clone();
        for l in self.changeable() {
            if let Some(Value::Int(n)) = values.get(&self.name(l)) {
                d.parts[l.layer][l.dim] = Some((*n).max(1) as u64);
            }
        }
        for (dim, extent) in self.h.extents.iter().enumerate() {
            let Some(rest) = self.follower(dim) else { continue };
            let others = (0..d.layers()).filter(|l| *l != rest).map(|layer| d.parts_at(Level { layer, dim }));
            let others = others.fold(1u64, u64::saturating_mul);
            let same = (0..d.layers()).all(|layer| d.parts[layer][dim] == self.chosen.parts[layer][dim]);
            if !same {
                d.parts[rest][dim] = Some(extent.div_ceil(others).max(1));
            }
        }
        if let Some(Value::Int(n)) = values.get("order")
            && let Some(swap) =
                usize::try_from(*n).ok().and_then(|n| self.swaps().get(n.checked_sub(1)?).copied())
        {
            self.exchange(&mut d, swap);
        }
        for ((read, operand), input) in d.reads.iter_mut().zip(&mut d.operands).zip(&self.h.h.inputs) {
            if values.get(&format!("pack.{}", read.buffer)) == Some(&Value::Str("no".to_string())) {
                let plain: Vec<usize> = (0..input.rank()).collect();
                read.layout.iter_mut().flatten().for_each(|e| *e = Some(plain.clone()));
                operand.layout = Some(plain);
            }
        }
        d.complete_fixed(self.fixed);
        d
    }

    /// Named after the layer of the model that executes it.
    fn name(&self, l: Level) -> String {
        format!("parts.{}.{}", self.h.h.dims[l.dim].name, self.model.layer_name(self.by(l)))
    }

    /// The layer of the model that executes a level.
    fn by(&self, l: Level) -> usize {
        at(&self.chosen.down.assignment, l).map_or(l.layer, |a| a.layer)
    }

    /// The layer of a dimension that takes what the others leave: of those that are loops in memory the one with the
    /// most parts.
    fn follower(&self, dim: usize) -> Option<usize> {
        let loops = (0..self.chosen.layers()).filter(|layer| {
            let l = Level { layer: *layer, dim };
            self.fixed.parts[*layer][dim].is_none() && self.memory(l) && !self.registers(l)
        });
        loops.max_by_key(|layer| {
            (self.chosen.parts_at(Level { layer: *layer, dim }), std::cmp::Reverse(*layer))
        })
    }

    fn memory(&self, l: Level) -> bool {
        self.by(l) < self.model.memories.len()
    }

    fn lanes(&self, l: Level) -> bool {
        self.model.core(self.by(l)).is_some_and(|c| c.executor == "vector")
    }

    fn registers(&self, l: Level) -> bool {
        self.model.memories.get(self.by(l)).is_some_and(|m| m.space.as_deref() == Some("register"))
    }

    /// Free entries whose parts may change.
    fn changeable(&self) -> Vec<Level> {
        let worth = |l: &Level| {
            let free = self.fixed.parts[l.layer][l.dim].is_none() && self.follower(l.dim) != Some(l.layer);
            let used = self.chosen.parts_at(*l) > 1;
            let scanned = matches!(self.h.h.dims[l.dim].combine, Combine::Scan(_));
            free && self.h.extents[l.dim] > 1
                && !scanned
                && (used || self.registers(*l) || self.near_cache(*l))
        };
        self.chosen.levels().filter(worth).collect()
    }

    /// Every level of caches would make many names for one loop: the nearest two.
    fn near_cache(&self, l: Level) -> bool {
        let caches: Vec<usize> =
            (0..self.model.memories.len()).filter(|m| self.model.memories[*m].implicit).collect();
        caches.iter().rev().take(2).any(|m| *m == self.by(l))
    }

    fn values(&self, l: Level) -> Vec<i64> {
        let (extent, chosen) = (self.h.extents[l.dim], self.chosen.parts_at(l));
        let core = self.model.core(self.by(l)).map(|c| c.executor.as_str());
        let most = extent.min(if self.registers(l) { SIDE } else { MOST });
        let mut out: Vec<u64> = match core {
            // Half, as many, and twice as many lanes.
            Some("vector") => vec![chosen / 2, chosen, 2 * chosen],
            _ if self.registers(l) => (1..=most.min(8)).chain([10, 12, 14, 16]).collect(),
            _ => (0..20)
                .map(|n| 1 << n)
                .chain([chosen, chosen.div_ceil(2), 2 * chosen, 3, 6, 12, 24, 48])
                .collect(),
        };
        out.retain(|v| (1..=most).contains(v) || *v == chosen);
        out.sort_unstable();
        out.dedup();
        out.into_iter().map(|v| v as i64).collect()
    }

    fn order_is_free(&self) -> bool {
        Phase::ALL.iter().all(|p| self.fixed.steps(*p).order.iter().flatten().all(Option::is_none))
    }

    /// Neighbours in the order, of different dimensions, both with parts, outside of registers and vectors.
    fn swaps(&self) -> Vec<(Level, Level)> {
        let Some(order) = by_position(&self.chosen.down.order) else { return Vec::new() };
        let loops: Vec<Level> = order
            .into_iter()
            .filter(|l| self.chosen.parts_at(*l) > 1 && !self.registers(*l) && !self.lanes(*l))
            .collect();
        let pairs = loops.windows(2).filter(|w| w[0].dim != w[1].dim).map(|w| (w[0], w[1]));
        pairs.filter(|swap| self.may_exchange(*swap)).collect()
    }

    /// Whether the choice keeps to the rules of the model with these two exchanged: results that registers hold may
    /// become too many.
    fn may_exchange(&self, swap: (Level, Level)) -> bool {
        let mut d = self.chosen.clone();
        self.exchange(&mut d, swap);
        crate::check(self.h, self.model, &d, &|_| None).is_empty()
    }

    /// The parts of these levels multiply to no more than this, or to what was chosen.
    fn at_most(&self, prefix: &str, most: i64, of: &dyn Fn(Level) -> bool) -> Option<Expr> {
        let all = self.changeable().into_iter().filter(|l| of(*l) && self.values(*l).len() > 1);
        let all: Vec<Level> = all.collect();
        let chosen = all.iter().map(|l| self.chosen.parts_at(*l) as i64).fold(1, i64::saturating_mul);
        let product = all
            .into_iter()
            .map(|l| Expr::Name(format!("{prefix}{}", self.name(l))))
            .reduce(|a, b| Expr::Binary(BinOp::Mul, Box::new(a), Box::new(b)))?;
        let most = Expr::Value(Value::Int(most.max(chosen)));
        Some(Expr::Binary(BinOp::Le, Box::new(product), Box::new(most)))
    }

    fn exchange(&self, d: &mut Decisions, (a, b): (Level, Level)) {
        let Some(mut order) = by_position(&d.down.order) else { return };
        let place = |l: Level| order.iter().position(|x| *x == l);
        if let (Some(x), Some(y)) = (place(a), place(b)) {
            order.swap(x, y);
            let ranks: Option<Table<usize>> = ranks_of(&order, d.layers(), d.dims());
            for p in Phase::ALL {
                if let Some(r) = &ranks {
                    d.steps_mut(p).order = r.clone();
                }
            }
        }
    }

    /// Inputs that the choice copies, and whose layouts are free.
    fn copied(&self) -> Vec<String> {
        let moved = |l: &Vec<usize>| l.iter().enumerate().any(|(n, k)| n != *k);
        let free = self.fixed.reads.iter().map(|r| r.layout.iter().flatten().all(Option::is_none));
        let all = self.chosen.reads.iter().zip(free);
        all.filter(|(r, free)| *free && r.layout.iter().flatten().flatten().any(moved))
            .map(|(r, _)| r.buffer.clone())
            .collect()
    }
}

impl Decisions {
    /// Entries that are fixed in `other` take the value that they have there.
    fn complete_fixed(&mut self, other: &Decisions) {
        let mut d = other.clone();
        d.complete_from(self);
        d.partial_tiles = self.partial_tiles;
        *self = d;
    }
}
