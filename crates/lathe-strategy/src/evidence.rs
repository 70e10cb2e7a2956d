//! What a step did and why it was legal, as a record that can be stored and checked (design, section 4).

use lathe_diagnostics::Diagnostic;
use serde::{Deserialize, Serialize};

/// How an obligation was discharged.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Discharge {
    /// By the dependences of the program.
    ByDependence,
    /// By an equation that holds for every program of the rule's shape.
    ByRule,
    /// By an equation or a law that was tried on many values and refuted by none; nobody proved it.
    Tested,
    /// By a guard in the code.
    ByCheck,
    /// The user said so.
    ByDeclaration,
    /// Extern code or a micro-kernel.
    Trusted,
}

impl std::fmt::Display for Discharge {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Discharge::ByDependence => "by-dependence",
            Discharge::ByRule => "by-rule",
            Discharge::Tested => "tested",
            Discharge::ByCheck => "by-check",
            Discharge::ByDeclaration => "by-declaration",
            Discharge::Trusted => "trusted",
        })
    }
}

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Obligation {
    /// What had to hold, in words with labels and names.
    pub what: String,
    pub by: Discharge,
}

/// For one label, how new instances correspond to old ones.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Relation {
    pub label: String,
    /// E.g. `{ C[i, j, k] -> C[8*i.o + i.i, j, k] }`.
    pub map: String,
    /// `bijection`, `recomputation`, `split`, `new` or `removed`.
    pub kind: String,
}

/// The record of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Evidence {
    pub rule: String,
    pub version: u32,
    /// As written, parameters bound.
    pub args: Vec<String>,
    /// Path of the focus in the tree before.
    pub path: Vec<usize>,
    /// Structural hashes of the function before and after, in hexadecimal.
    pub before: String,
    pub after: String,
    pub relations: Vec<Relation>,
    pub obligations: Vec<Obligation>,
    /// Facts that were used, with their provenance.
    pub facts: Vec<String>,
    pub buffers: Vec<String>,
    /// Labels whose licence to be reassociated the step used, or whose rounding it changed.
    pub reassociates: Vec<String>,
}

impl Evidence {
    pub fn new(rule: &str, version: u32) -> Evidence {
        Evidence {
            rule: rule.to_string(),
            version,
            args: Vec::new(),
            path: Vec::new(),
            before: String::new(),
            after: String::new(),
            relations: Vec::new(),
            obligations: Vec::new(),
            facts: Vec::new(),
            buffers: Vec::new(),
            reassociates: Vec::new(),
        }
    }

    pub fn oblige(mut self, what: impl Into<String>, by: Discharge) -> Evidence {
        self.obligations.push(Obligation { what: what.into(), by });
        self
    }
}

/// Why a step was refused: a message for people, and the data behind it.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    pub rule: String,
    pub diagnostic: Box<Diagnostic>,
}

impl Refusal {
    pub fn new(rule: &str, diagnostic: Diagnostic) -> Refusal {
        Refusal { rule: rule.to_string(), diagnostic: Box::new(diagnostic) }
    }
}
