//! Effects of functions: on arrays of parameters, globals, memory behind pointers, and the outside world.

use crate::expr::Expr;
use crate::ids::BufId;
use crate::ops::ReduceOp;
use crate::stmt::Effects;
use crate::types::Name;
use std::fmt;

/// Storage that a function shares with its caller.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Base {
    /// The array of a parameter.
    Param(BufId),
    Global(Name),
    /// Whatever pointers of an alias class point to.
    Class(Name),
}

/// How storage is touched.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum TouchMode {
    Read,
    Write,
    /// Changed by `op=` and in no other way, so that calls that do the same commute.
    Reduce(ReduceOp),
}

/// One of a function's effects on storage.
#[derive(Clone, Debug, PartialEq)]
pub struct Touch {
    pub base: Base,
    pub mode: TouchMode,
    /// A box of logical indices, `lo..hi` per dimension, over the function's sizes and scalar parameters; `None`:
    /// anywhere.
    pub region: Option<Vec<(Expr, Expr)>>,
}

/// All effects of a function. What it does not list it does not do.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Summary {
    pub touches: Vec<Touch>,
    pub effects: Effects,
}

impl Summary {
    /// Whether one may stand where the other is expected: it touches no more, and has no more effects. Regions are
    /// not compared.
    pub fn covers(&self, other: &Summary) -> bool {
        self.missing(other).is_none()
    }

    /// What another summary does beyond this one, in words.
    pub fn missing(&self, other: &Summary) -> Option<String> {
        let allowed = |t: &Touch| {
            let mut same = self.touches.iter().filter(|a| a.base == t.base);
            match &t.mode {
                TouchMode::Reduce(_) => {
                    let (mut reads, mut writes) = (false, false);
                    same.any(|a| {
                        reads |= a.mode == TouchMode::Read;
                        writes |= a.mode == TouchMode::Write;
                        a.mode == t.mode || (reads && writes)
                    })
                }
                mode => same.any(|a| a.mode == *mode),
            }
        };
        if let Some(t) = other.touches.iter().find(|t| !allowed(t)) {
            return Some(t.to_string());
        }
        let more = other.effects.without(self.effects);
        (!more.is_none()).then(|| format!("{more:?}"))
    }
}

impl fmt::Display for Touch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.mode {
            TouchMode::Read => f.write_str("read ")?,
            TouchMode::Write => f.write_str("write ")?,
            TouchMode::Reduce(op) => write!(f, "reduce({op}) ")?,
        }
        match &self.base {
            Base::Param(b) => write!(f, "@{}", b.0),
            Base::Global(name) => write!(f, "global({name})"),
            Base::Class(name) => write!(f, "class({name})"),
        }
    }
}
