//! What a step did and why it was legal, as data that can be stored, read again and checked.
//!
//! * [`claim`]: what had to hold: a closed list.
//! * [`obligation`]: how it was discharged.
//! * [`relation`]: which old instance every copy of a statement runs.
//! * [`formula`]: the expressions in both.

pub mod claim;
pub mod formula;
pub mod obligation;
pub mod relation;

pub use claim::{Claim, Construction, Law, Made, Partial, Range, Relied, Simplified, Theorem, Within};
pub use formula::Formula;
pub use obligation::{Discharge, Obligation, Witness};
pub use relation::{Bound, Copy, Kind, Relation};

use lathe_diagnostics::Diagnostic;
use serde::{Deserialize, Serialize};

/// The version of this form. Evidence of another version is refused.
pub const VERSION: u32 = 5;

/// The record of one step.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Evidence {
    pub rule: String,
    pub version: u32,
    /// As written, parameters bound.
    pub args: Vec<String>,
    /// Path of the focus in the tree before.
    pub path: Vec<usize>,
    /// Hashes of the function before and after, in hexadecimal.
    pub before: String,
    pub after: String,
    pub relations: Vec<Relation>,
    pub obligations: Vec<Obligation>,
    /// Facts that were in force where something was checked.
    pub facts: Vec<Relied>,
    pub buffers: Vec<Made>,
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

    /// Adds an obligation, once.
    pub fn oblige(&mut self, o: Obligation) {
        if !self.obligations.contains(&o) {
            self.obligations.push(o);
        }
    }

    /// What contradicts itself, for records that someone else may have written.
    pub fn flaw(&self) -> Option<String> {
        let formulas = self.obligations.iter().flat_map(|o| o.claim.formulas());
        let formulas = formulas.chain(self.relations.iter().flat_map(Relation::formulas));
        let formulas = formulas.chain(self.facts.iter().map(|f| &f.fact));
        let mut formulas = formulas.chain(self.buffers.iter().flat_map(|b| &b.extents));
        if formulas.any(|f| f.depth() > Formula::DEPTH) {
            return Some("a formula is nested too deeply".to_string());
        }
        self.obligations.iter().find_map(Obligation::flaw)
    }

    /// Where a record differs from what the step, taken again, leaves; none where it says the same.
    pub fn differs(&self, again: &Evidence) -> Option<&'static str> {
        let Evidence {
            rule,
            version,
            args,
            path,
            before,
            after,
            relations,
            obligations,
            facts,
            buffers,
            reassociates,
        } = again;
        let same = [
            (self.rule == *rule, "the rule differs"),
            (self.version == *version, "the version of the rule differs"),
            (self.args == *args && self.path == *path, "its arguments or its place differ"),
            (self.before == *before, "the tree before it differs"),
            (self.after == *after, "the tree after it differs"),
            (self.relations == *relations, "the relation of instances differs"),
            (self.obligations == *obligations, "the obligations or their discharges differ"),
            (self.facts == *facts, "it relies on different facts"),
            (self.buffers == *buffers, "it creates different buffers"),
            (self.reassociates == *reassociates, "it changes the rounding of different labels"),
        ];
        same.iter().find(|(same, _)| !same).map(|(_, what)| *what)
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
