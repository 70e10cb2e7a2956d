//! Search spaces: what configurations of parameters are valid, counted, numbered and walked.
//!
//! A [`SpaceDef`] lists parameters with ranges and constraints. [`Space::generate`] finds the groups of parameters
//! that depend on each other, makes for each group the tree of its valid combinations, and shares equal
//! subtrees, so that a space of 10²⁰ configurations takes kilobytes. Search techniques see it as numbers below
//! [`Space::size`], or as points of a cube with one dimension per parameter.
//!
//! ```
//! use lathe_space::space::{Generate, Space, SpaceDef, TuningParameter};
//! use lathe_space::{Constraint, Value, parse};
//!
//! // Work per thread divides the size, the local size what is left of it.
//! let def = SpaceDef::new()
//!     .constant("N", Value::Int(1024))
//!     .param(TuningParameter::int("WPT", 1, 1024).such_that(Constraint::divides(parse("N").unwrap())))
//!     .param(TuningParameter::int("LS", 1, 1024).such_that(Constraint::divides(parse("N // WPT").unwrap())));
//! let space = Space::generate(&def, &Generate::default()).unwrap();
//! assert_eq!(space.size().to_string(), "66");
//! assert_eq!(space.configuration(&9u32.into()).unwrap().to_string(), "WPT = 1, LS = 512");
//! ```
//!
//! Within a group the levels are ordered as declared, or otherwise if that makes much less work
//! ([`Order`]); [`Space::level_param`] tells. The trees are stored as graphs in which what does not depend on each
//! other hangs side by side and equal parts are one, so the *refined groups* of the thesis's outlook come by
//! themselves.
//!
//! After the Auto-Tuning Framework (Rasch, Schulze, Steuwer, Gorlatch: *Efficient Auto-Tuning of Parallel Programs
//! with Interdependent Tuning Parameters via Auto-Tuning Framework*, TACO 2021).

mod build;
mod classes;
mod compile;
mod configuration;
mod constraint;
mod count;
mod def;
mod domain;
mod expand;
mod generate;
mod groups;
mod intern;
mod plan;
mod prune;
mod shape;
mod strategy;
mod threads;
mod tree;
mod walk;

pub use configuration::Configuration;
pub use constraint::{ALIASES, Alias, Constraint, ConstraintFn};
pub use def::{Generator, GeneratorFn, Scale, SpaceDef, TuningParameter, ValueRange, derived_scale};
pub use generate::{Generate, Order};
pub use strategy::strategy_space;
pub use walk::Blocks;

use crate::bind::Values;
use crate::expr::Value;
use domain::Domain;
use generate::Stored;
use lathe_diagnostics::Diagnostic;
use num_bigint::BigUint;
use num_traits::{One, ToPrimitive};
use std::ops::Range;
use std::sync::Arc;

/// All valid configurations of a definition. Immutable; share it in an [`Arc`].
#[derive(Clone, Debug)]
pub struct Space {
    params: Vec<TuningParameter>,
    names: Arc<[String]>,
    domains: Vec<Domain>,
    groups: Vec<Group>,
    trees: Vec<Stored>,
    /// Per level: the group, the level in its tree, and the parameter.
    levels: Vec<(usize, usize, usize)>,
    size: BigUint,
    /// The size, if it fits.
    small: Option<u64>,
    /// The groups in runs that one number of 64 bits can count.
    runs: Vec<Run>,
    unconstrained: BigUint,
    checks: u64,
}

/// Neighbouring groups.
#[derive(Clone, Debug)]
struct Run {
    groups: Range<usize>,
    /// How many combinations they have; `None` for a single group of more than 64 bits.
    product: Option<u64>,
}

/// The longest runs of these trees.
fn runs(trees: &[Stored]) -> Vec<Run> {
    let mut out: Vec<Run> = Vec::new();
    for (g, tree) in trees.iter().enumerate() {
        let own = if let Stored::Small(t) = tree { Some(t.total) } else { None };
        let last = out.last_mut().and_then(|r| Some((r.product?.checked_mul(own?)?, r)));
        match last {
            Some((product, run)) => (run.groups.end, run.product) = (g + 1, Some(product)),
            None => out.push(Run { groups: g..g + 1, product: own }),
        }
    }
    out
}

/// Parameters that depend on each other, directly or through others.
#[derive(Clone, Debug, PartialEq)]
pub struct Group {
    /// Declared parameters, ascending.
    pub params: Vec<usize>,
    /// The levels of the space that are these parameters.
    pub levels: Range<usize>,
    /// The number of valid combinations of their values.
    pub size: BigUint,
}

impl Space {
    /// Makes the space of a definition.
    ///
    /// Errors: duplicate, unknown or circular names, unusable ranges, no valid configuration, too many nodes, and
    /// a constraint that cannot be evaluated (division by zero, overflow, wrong types) for values that no other
    /// constraint excludes.
    pub fn generate(def: &SpaceDef, options: &Generate) -> Result<Space, Diagnostic> {
        let made = generate::generate(def, options)?;
        let (mut groups, mut trees, mut levels) = (Vec::new(), Vec::new(), Vec::new());
        let mut size = BigUint::one();
        for (g, (members, stored)) in made.groups.into_iter().enumerate() {
            let (params, total): (Vec<usize>, BigUint) = match &stored {
                Stored::Small(t) => (t.levels.iter().map(|l| l.param).collect(), BigUint::from(t.total)),
                Stored::Big(t) => (t.levels.iter().map(|l| l.param).collect(), t.total.clone()),
            };
            let first = levels.len();
            levels.extend(params.iter().enumerate().map(|(l, p)| (g, l, *p)));
            size *= &total;
            let mut params = members.sorted;
            params.sort_unstable();
            groups.push(Group { params, levels: first..levels.len(), size: total });
            trees.push(stored);
        }
        Ok(Space {
            runs: runs(&trees),
            names: def.params.iter().map(|p| p.name.clone()).collect(),
            params: def.params.clone(),
            unconstrained: made.domains.iter().map(|d| BigUint::from(d.len())).product(),
            domains: made.domains,
            groups,
            trees,
            levels,
            small: size.to_u64(),
            size,
            checks: made.checks,
        })
    }

    /// The number of valid configurations, at least one.
    pub fn size(&self) -> &BigUint {
        &self.size
    }

    /// The number of configurations if there were no constraints.
    pub fn unconstrained(&self) -> &BigUint {
        &self.unconstrained
    }

    /// In the order of their first parameters.
    pub fn groups(&self) -> &[Group] {
        &self.groups
    }

    /// The values that are stored in all trees; a parameter that nothing constrains is stored as its range and
    /// counts one.
    pub fn nodes(&self) -> usize {
        self.trees
            .iter()
            .map(|t| match t {
                Stored::Small(t) => t.nodes(),
                Stored::Big(t) => t.nodes(),
            })
            .sum()
    }

    /// The memory of trees and values.
    pub fn bytes(&self) -> usize {
        let trees = self.trees.iter().map(|t| match t {
            Stored::Small(t) => t.bytes(),
            Stored::Big(t) => t.bytes(),
        });
        trees.sum::<usize>() + self.domains.iter().map(Domain::bytes).sum::<usize>()
    }

    /// Whether both have the same parameters, values and trees, so that equal numbers are equal configurations.
    pub fn same_trees(&self, other: &Space) -> bool {
        self.names == other.names && self.domains == other.domains && self.trees == other.trees
    }

    /// The values that were tried while the space was made.
    pub fn checks(&self) -> u64 {
        self.checks
    }

    /// The parameters, in the order of declaration.
    pub fn params(&self) -> &[TuningParameter] {
        &self.params
    }

    /// The position of a parameter in the order of declaration.
    pub fn param(&self, name: &str) -> Option<usize> {
        self.names.iter().position(|n| n == name)
    }

    /// The number of values of a declared parameter, valid or not.
    pub fn values_of(&self, param: usize) -> u32 {
        self.domains[param].len()
    }

    /// Value number `i` of a declared parameter.
    pub fn value_of(&self, param: usize, i: u32) -> Option<Value> {
        (i < self.domains[param].len()).then(|| self.domains[param].value(i))
    }
    /// The number of levels of the chain of trees, which is the number of parameters.
    pub fn dimensions(&self) -> usize {
        self.levels.len()
    }

    /// The declared parameter at a level below [`Space::dimensions`].
    pub fn level_param(&self, level: usize) -> usize {
        self.levels[level].2
    }

    /// A configuration, valid or not, from values by name. `None` if one is missing, unknown or of another type.
    pub fn read(&self, values: &Values) -> Option<Configuration> {
        if values.len() != self.names.len() {
            return None;
        }
        let ordered: Option<Vec<Value>> = self
            .params
            .iter()
            .map(|p| {
                use crate::param::ParamType::*;
                match (p.ty, values.get(&p.name)?) {
                    (Float, Value::Int(v)) => Some(Value::Float(*v as f64)),
                    (Bool, v @ Value::Bool(_))
                    | (Int, v @ Value::Int(_))
                    | (Float, v @ Value::Float(_))
                    | (Str, v @ Value::Str(_)) => Some(v.clone()),
                    _ => None,
                }
            })
            .collect();
        Some(Configuration::new(self.names.clone(), ordered?))
    }

    /// The defaults of all parameters, valid or not, if all have one.
    pub fn default_configuration(&self) -> Option<Configuration> {
        let values: Option<Values> =
            self.params.iter().map(|p| Some((p.name.clone(), p.default.clone()?))).collect();
        self.read(&values?)
    }
}
