//! Levels of machines as files have them: memories, cores, and what they demand of decisions.

use lathe_space::Value;
use serde::{Deserialize, Serialize};

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Memory {
    pub layer: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub region: Option<String>,
    /// The space of the tree that buffers in this region live in; none: ordinary memory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub space: Option<String>,
    /// A cache: it cannot be addressed, so placing a buffer there only says what is meant.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub implicit: bool,
    /// In bytes, for one instance of the region.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub capacity: Option<Limit>,
    /// Every core of this layer has a region of its own; none: there is one for all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Core {
    pub layer: String,
    /// Who runs the iterations in the tree: `cpu`, `vector`, `team`, `device`, `node`, or a level of a
    /// device (`grid`, `cluster`, `block`, `warp`, `lane`).
    pub executor: String,
}

/// What a model demands of decisions (thesis, App. .5.1).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "rule", rename_all = "snake_case", deny_unknown_fields)]
pub enum Constraint {
    /// All dimensions together have at most so many parts at these core layers, in each phase.
    Parts { cores: Vec<String>, at_most: Limit },
    /// What these cores combine, other than by concatenation, is written to one of these regions.
    Combine { core: String, regions: Vec<String> },
}

/// A number, or the name of a fact about the machine.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Limit {
    Number(u64),
    Fact(String),
}

impl Limit {
    /// The number; a fact that nobody knows limits nothing.
    pub fn value(&self, facts: &dyn Fn(&str) -> Option<Value>) -> Option<u64> {
        match self {
            Limit::Number(n) => Some(*n),
            Limit::Fact(name) => match facts(name) {
                Some(Value::Int(v)) => u64::try_from(v).ok(),
                _ => None,
            },
        }
    }
}

impl Memory {
    pub fn region(&self) -> &str {
        self.region.as_deref().unwrap_or(&self.layer)
    }
}
