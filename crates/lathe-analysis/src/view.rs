//! What is known at one place of a function, by how it is known: from ranges alone, from guards in the
//! code, from facts that the user stated.

use crate::env::{Env, Item};
use crate::solve::{Answer, Reduced, solve_from};
use crate::system::{Lin, ge, gt};
use crate::translate::{Builder, Scope};
use lathe_ir::{BufId, Expr, VarId};
use std::collections::HashSet;

/// One system with the unknowns of the variables in scope.
#[derive(Clone)]
struct Known<'w> {
    builder: Builder<'w>,
    scope: Scope,
    reduced: Reduced,
    absorbed: usize,
    /// Its constraints contradict each other: the place is never reached.
    impossible: bool,
}

impl Known<'_> {
    fn bind(&mut self, item: &Item) {
        self.builder.item(&mut self.scope, item);
        self.settle();
    }

    fn settle(&mut self) {
        let new = self.builder.system.cons.get(self.absorbed..).unwrap_or(&[]);
        self.impossible |= !self.reduced.absorb(new);
        self.absorbed = self.builder.system.cons.len();
    }
}

/// What is known at a place.
#[derive(Clone)]
pub(crate) struct Facts<'w> {
    /// From ranges; with guards; with stated facts. The second and the third are `None` where they would add nothing.
    tiers: [Option<Known<'w>>; 3],
}

/// Buffers that are written, for a whole function.
pub(crate) type Written = HashSet<BufId>;

/// The outcome of [`Facts::outside`].
pub(crate) struct Found {
    /// `None`: shown to be inside. Else a point where it is not, or that it is unknown.
    pub counterexample: Option<Answer>,
    /// What was needed to show it: 0 ranges, 1 guards, 2 facts.
    pub tier: usize,
    /// The counterexample is one of the program.
    pub exact: bool,
    pub subscript: Lin,
    pub extent: Lin,
}

impl<'w> Facts<'w> {
    pub fn new(env: &Env, written: &'w Written) -> Facts<'w> {
        let mut builder = Builder::new(written);
        let scope = builder.surroundings(env);
        let mut known = Known { builder, scope, reduced: Reduced::default(), absorbed: 0, impossible: false };
        known.settle();
        Facts { tiers: [Some(known), None, None] }
    }

    pub fn bind(&mut self, item: &Item) {
        for known in self.tiers.iter_mut().flatten() {
            known.bind(item);
        }
    }

    /// A condition of the code that holds (or does not) from here on.
    pub fn guard(&mut self, cond: &Expr, holds: bool) {
        if cond.as_bool() == Some(holds) {
            return;
        }
        if self.tiers[1].is_none() {
            self.tiers[1] = self.tiers[0].clone();
        }
        for known in self.tiers[1..].iter_mut().flatten() {
            known.bind(&Item::Cond(cond, holds));
        }
    }

    /// A fact that the user stated.
    pub fn assume(&mut self, fact: &Expr) {
        if self.tiers[2].is_none() {
            self.tiers[2] = self.tiers[1].clone().or_else(|| self.tiers[0].clone());
        }
        if let Some(known) = &mut self.tiers[2] {
            known.bind(&Item::Cond(fact, true));
        }
    }

    /// Whether a subscript can lie outside of `0..extent`.
    pub fn outside(&self, subscript: &Expr, extent: &Expr) -> Found {
        let mut last = None;
        for (tier, known) in self.tiers.iter().enumerate() {
            let Some(known) = known else { continue };
            let mut builder = known.builder.clone();
            let mut scope = known.scope.clone();
            let i = builder.value(&mut scope, subscript);
            let n = builder.value(&mut scope, extent);
            let mut found = Found {
                counterexample: None,
                tier,
                exact: builder.system.exact && !builder.system.symbolic,
                subscript: i,
                extent: n,
            };
            if known.impossible {
                return found;
            }
            let new = builder.system.cons.get(known.absorbed..).unwrap_or(&[]).to_vec();
            for outside in [gt(&Lin::default(), &found.subscript), ge(&found.subscript, &found.extent)] {
                let mut more = new.clone();
                match outside {
                    Some(c) => more.push(c),
                    None => found.exact = false,
                }
                let answer =
                    solve_from(&known.reduced, &more, &builder.system.clauses, builder.system.columns);
                if answer != Answer::Empty {
                    found.counterexample = Some(answer);
                    break;
                }
            }
            if found.counterexample.is_none() {
                return found;
            }
            last = Some(found);
        }
        last.unwrap_or(Found {
            counterexample: Some(Answer::Unknown),
            tier: 0,
            exact: false,
            subscript: Lin::default(),
            extent: Lin::default(),
        })
    }

    /// The value of a variable at a point.
    pub fn value_of(&self, v: VarId, point: &[i64]) -> Option<i64> {
        let known = self.tiers.iter().flatten().last()?;
        point.get(known.scope.col(v)? as usize).copied()
    }
}
