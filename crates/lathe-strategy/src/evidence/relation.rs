//! How instances of the new tree correspond to those of the old one: for every copy of a labelled statement that a step
//! touched, its place, its domain, and its instance vector. A copy's vector, written in the variables of its domain, is
//! the affine map from what the tree runs to the instances that the program means; where the map of a copy before and of
//! one after give the same vector, they run the same instance.

use super::formula::{Formula, list};
use serde::{Deserialize, Serialize};
use std::fmt;
use std::sync::Arc;

/// What a step did to the instances of a label.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Kind {
    /// Each old instance is one new instance.
    Bijection,
    /// One statement's instances are run by several, or in parts.
    Split,
    /// Loops became index notation.
    Combine,
    /// Some old instances, which do nothing, are left out.
    Subset,
    /// Some old instances run several times.
    Recomputation,
    /// Several old instances became one.
    Contraction,
    /// There was no such label.
    New,
    /// There is no such label any more.
    Removed,
}

/// What is around a copy.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Bound {
    /// `for var in lo..hi` by `step`.
    Loop { var: Formula, lo: Formula, hi: Formula, step: i64 },
    /// A condition that has the given value.
    Condition { cond: Formula, holds: bool },
    /// A variable with a value; none where data say it.
    Let { var: Formula, value: Option<Formula> },
    /// The condition of a `while` loop.
    While { cond: Formula },
}

/// One copy of a labelled statement.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Copy {
    /// From the body of the function.
    pub path: Vec<usize>,
    /// What is around it inside of the changed place, outermost first.
    pub domain: Vec<Arc<Bound>>,
    pub instance: Vec<Formula>,
}

/// For one label, its copies in the changed places before and after.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relation {
    pub label: String,
    pub kind: Kind,
    pub before: Vec<Copy>,
    pub after: Vec<Copy>,
}

impl Relation {
    /// All formulas.
    pub fn formulas(&self) -> impl Iterator<Item = &Formula> {
        self.before.iter().chain(&self.after).flat_map(|c| {
            c.instance.iter().chain(c.domain.iter().flat_map(|b| match &**b {
                Bound::Loop { var, lo, hi, .. } => vec![var, lo, hi],
                Bound::Condition { cond, .. } | Bound::While { cond } => vec![cond],
                Bound::Let { var, value } => std::iter::once(var).chain(value).collect(),
            }))
        })
    }
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Bijection => "bijection",
            Kind::Split => "split",
            Kind::Combine => "combine",
            Kind::Subset => "subset",
            Kind::Recomputation => "recomputation",
            Kind::Contraction => "contraction",
            Kind::New => "new",
            Kind::Removed => "removed",
        })
    }
}

impl fmt::Display for Relation {
    /// `C bijection: { C[i, j] -> C[8 * i.o + i.i, j] }`; every different vector of its copies once.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}: {{ ", self.label, self.kind)?;
        for (n, side) in [&self.before, &self.after].into_iter().filter(|s| !s.is_empty()).enumerate() {
            let mut texts: Vec<String> = Vec::new();
            for c in side {
                let text = format!("{}[{}]", self.label, list(&c.instance));
                if !texts.contains(&text) {
                    texts.push(text);
                }
            }
            let more = texts.len().saturating_sub(SHOWN);
            texts.truncate(SHOWN);
            if more > 0 {
                texts.push(format!("{more} more"));
            }
            write!(f, "{}{}", if n == 0 { "" } else { " -> " }, texts.join(", "))?;
        }
        f.write_str(" }")
    }
}

/// So many vectors of one side are shown.
const SHOWN: usize = 4;
