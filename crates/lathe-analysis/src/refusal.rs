//! The result of an order check: a proof, or the reason why there is none.

use crate::leaves::Leaf;
use lathe_diagnostics::{Code, Diagnostic, Places};
use lathe_ir::{Label, Name};
use std::fmt::Write;

/// The order of every conflicting pair is kept.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OrderProof {
    /// Pairs of statements that were examined.
    pub pairs: usize,
    /// Labels of reassociable reductions whose instances were reordered among themselves.
    pub used_licence: Vec<Label>,
    /// Facts (`assume`, with provenance) that were in force.
    pub facts: Vec<String>,
}

#[derive(Clone, Debug, PartialEq)]
pub enum OrderRefusal {
    /// A concrete pair that would be swapped, or run at the same time.
    Violation(Box<Violation>),
    /// Neither refuted nor proved.
    Undecided(Undecided),
}

/// Why an order could be neither refuted nor proved.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Undecided {
    pub why: String,
    /// The statements that the reason names, where it names any.
    pub statements: Vec<(Label, Places)>,
}

impl Undecided {
    pub(crate) fn at(why: impl Into<String>, statements: &[&Leaf]) -> Undecided {
        let mut named: Vec<(Label, Places)> = Vec::new();
        for leaf in statements {
            if named.iter().all(|n| n.0 != *leaf.label) {
                named.push((leaf.label.clone(), leaf.stmt.places().clone()));
            }
        }
        Undecided { why: why.into(), statements: named }
    }
}

impl From<String> for Undecided {
    fn from(why: String) -> Undecided {
        Undecided { why, statements: Vec::new() }
    }
}

/// The kind of a dependence, from the first to the second access in the reference order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum DepKind {
    /// A write, then a read.
    Flow,
    /// A read, then a write.
    Anti,
    /// Two writes.
    Output,
}

impl DepKind {
    fn words(self) -> &'static str {
        match self {
            DepKind::Flow => "reads what was written",
            DepKind::Anti => "overwrites what was read",
            DepKind::Output => "overwrites what was written",
        }
    }
}

/// Two statement instances that touch one element, and that the new tree no longer runs in the old order.
#[derive(Clone, Debug, PartialEq)]
pub struct Violation {
    /// Runs first in the reference run: label and instance vector.
    pub first: (Label, Vec<i64>),
    pub second: (Label, Vec<i64>),
    pub buffer: Name,
    /// The element both touch, where its subscripts are known.
    pub element: Option<Vec<i64>>,
    pub kind: DepKind,
    /// Values of the sizes, and of variables bound outside, for which it happens.
    pub sizes: Vec<(Name, i64)>,
    pub places: (Places, Places),
    /// The loop of the old tree that carries the dependence; `None` if it is within one iteration of all.
    pub carried_by: Option<Name>,
    /// The new tree runs the two at the same time, rather than in the other order.
    pub concurrent: bool,
}

/// `C[1, 2]`
pub(crate) fn instance_text(label: &str, instance: &[i64]) -> String {
    if instance.is_empty() {
        return label.to_string();
    }
    let parts: Vec<String> = instance.iter().map(i64::to_string).collect();
    format!("{label}[{}]", parts.join(", "))
}

/// `N = 3, M = 1`
pub(crate) fn sizes_text(sizes: &[(Name, i64)]) -> String {
    let parts: Vec<String> = sizes.iter().map(|(n, v)| format!("{n} = {v}")).collect();
    parts.join(", ")
}

impl Violation {
    /// The message of a refused step: the rule, both places, the concrete pair and the sizes.
    pub fn to_diagnostic(&self, code: Code, rule: &str) -> Diagnostic {
        let first = instance_text(self.first.0.as_str(), &self.first.1);
        let second = instance_text(self.second.0.as_str(), &self.second.1);
        let how = if self.concurrent {
            format!("`{rule}` would run `{first}` and `{second}` at the same time")
        } else {
            format!("`{rule}` would run `{second}` before `{first}`")
        };
        let mut d = Diagnostic::error(code, how)
            .at_places(&self.places.0, &format!("`{first}` must run first"))
            .at_places(&self.places.1, &format!("`{second}` must run after it"));
        let element = match &self.element {
            Some(e) => format!("`{}`", instance_text(&self.buffer, e)),
            None => format!("an element of `{}`", self.buffer),
        };
        let mut why = format!("both access {element}: `{second}` {} by `{first}`", self.kind.words());
        if !self.sizes.is_empty() {
            let _ = write!(why, ", with {}", sizes_text(&self.sizes));
        }
        d = d.note(why);
        if let Some(l) = &self.carried_by {
            d = d.note(format!("the dependence is carried by the loop `{l}`"));
        }
        d
    }
}

impl OrderRefusal {
    /// The message of a refused step, either way.
    pub fn to_diagnostic(&self, code: Code, rule: &str) -> Diagnostic {
        match self {
            OrderRefusal::Violation(v) => v.to_diagnostic(code, rule),
            OrderRefusal::Undecided(Undecided { why, statements }) => {
                let d = Diagnostic::error(code, format!("`{rule}` could not be shown to be legal: {why}"));
                statements.iter().fold(d, |d, (label, places)| d.at_places(places, &format!("`{label}`")))
            }
        }
    }
}
