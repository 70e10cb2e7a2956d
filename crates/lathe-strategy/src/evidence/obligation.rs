//! How claims were discharged, and by which witness.

use super::claim::{Claim, Construction, Theorem};
use serde::{Deserialize, Serialize};
use std::fmt;

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

impl fmt::Display for Discharge {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

/// What was found when a claim was discharged, as far as it can be said again.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Witness {
    /// The form of the tree before, or of the rewrite, says it.
    Form,
    /// So many pairs of statements were examined: for none of them is there a pair of instances that says otherwise.
    Pairs(usize),
    /// So many accesses were examined, each for all of its instances.
    Accesses(usize),
    /// It was tried on many values.
    Trials,
    /// A law, and up to what it holds.
    Law { up_to_rounding: bool, up_to_zero_sign: bool, nan_aside: bool, on_elements: bool },
    /// The condition stands in the code.
    Guard,
    /// Whoever wrote the strategy or the program wants it so.
    Stated,
}

/// A claim, and how it was discharged.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Obligation {
    pub claim: Claim,
    pub by: Discharge,
    pub witness: Witness,
}

impl Obligation {
    /// Discharged by the form of the rewrite.
    pub fn by_rule(claim: Claim) -> Obligation {
        Obligation { claim, by: Discharge::ByRule, witness: Witness::Form }
    }

    /// An equation that was proved.
    pub fn equation(rule: &str) -> Obligation {
        Obligation::by_rule(Claim::Equation { rule: rule.to_string() })
    }

    /// An equation that was only tried.
    pub fn tested_equation(rule: &str) -> Obligation {
        let claim = Claim::Equation { rule: rule.to_string() };
        Obligation { claim, by: Discharge::Tested, witness: Witness::Trials }
    }

    /// Discharged by the checker, which looked at so many accesses.
    pub fn by_accesses(claim: Claim, accesses: usize) -> Obligation {
        Obligation { claim, by: Discharge::ByDependence, witness: Witness::Accesses(accesses) }
    }

    /// Wanted by whoever wrote the strategy or the program.
    pub fn stated(claim: Claim) -> Obligation {
        Obligation { claim, by: Discharge::ByDeclaration, witness: Witness::Stated }
    }

    /// Looked after by a guard in the code.
    pub fn guarded(claim: Claim) -> Obligation {
        Obligation { claim, by: Discharge::ByCheck, witness: Witness::Guard }
    }

    pub fn order(by: Construction) -> Obligation {
        Obligation::by_rule(Claim::OrderKept { by })
    }

    /// Why a claim cannot have been discharged like this; none if it can.
    pub fn flaw(&self) -> Option<String> {
        use {Claim as C, Discharge as D, Witness as W};
        let witnessed = matches!(
            (&self.by, &self.witness),
            (D::ByDependence, W::Pairs(_) | W::Accesses(_))
                | (D::ByRule, W::Form | W::Law { .. })
                | (D::Tested, W::Law { .. } | W::Trials)
                | (D::ByCheck, W::Guard)
                | (D::ByDeclaration | D::Trusted, W::Stated)
        );
        if !witnessed {
            return Some(format!("`{}` has no such witness", self.by));
        }
        let fits = match (&self.claim, self.claim.theorem()) {
            (C::DependencesKept, _) => self.by == D::ByDependence && matches!(self.witness, W::Pairs(_)),
            (C::InstancesKept, _) => self.by == D::ByDependence,
            (C::OrderKept { by }, _) if by.is_decided() => {
                self.by == D::ByRule || self.by == D::ByDependence && matches!(self.witness, W::Accesses(_))
            }
            (C::Tiled { .. } | C::Renumbered { .. }, _) => matches!(self.by, D::ByRule | D::ByDependence),
            (C::Law { .. }, _) => matches!(self.witness, W::Law { .. }),
            (C::Equation { .. }, _) => matches!(self.witness, W::Form | W::Trials),
            (C::RoundedOnce { .. } | C::Unordered { .. }, _) => self.by == D::ByDeclaration,
            (C::Associated { .. }, _) => matches!(self.by, D::ByRule | D::ByDeclaration),
            (C::InBounds { .. } | C::NoFailure { .. }, _) => self.by == D::ByCheck,
            (C::Fact { .. }, _) => matches!(self.by, D::ByCheck | D::ByDeclaration),
            (
                C::LayoutOnly { .. }
                | C::HeldByUsers { .. }
                | C::SpaceOnly { .. }
                | C::CachesOnly { .. }
                | C::RouteOnly { .. }
                | C::IndivisibleOnly { .. }
                | C::ComputedInPlace { .. }
                | C::ComputedOnce { .. }
                | C::CombinedFirst { .. }
                | C::StartsFromTotals { .. }
                | C::StartsInOrder { .. }
                | C::Phases
                | C::Threads { .. }
                | C::OwnElements { .. }
                | C::OnlyInside { .. }
                | C::FilledAhead { .. }
                | C::Simplified { .. }
                | C::Overwritten { .. }
                | C::InputsKept { .. }
                | C::OnlyBy { .. }
                | C::Redirected { .. }
                | C::Exclusive { .. }
                | C::Recomputed { .. }
                | C::WrittenFirst { .. },
                _,
            ) => self.by == D::ByDependence && matches!(self.witness, W::Accesses(_)),
            (_, Theorem::Order | Theorem::NoMeaning | Theorem::Size) => self.by == D::ByRule,
            (_, Theorem::Value | Theorem::Algebra) => matches!(self.by, D::ByRule | D::ByDependence),
        };
        (!fits).then(|| format!("“{}” is never discharged `{}`", self.claim, self.by))
    }
}

impl fmt::Display for Obligation {
    /// One sentence.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.claim.fmt(f)?;
        match &self.witness {
            Witness::Pairs(n) => write!(f, " ({n} pairs of statements)"),
            Witness::Accesses(n) => write!(f, " ({n} accesses)"),
            Witness::Law { up_to_rounding, up_to_zero_sign, nan_aside, on_elements } => {
                f.write_str(if self.by == Discharge::Tested { " (tested" } else { " (proved" })?;
                if *up_to_rounding {
                    f.write_str(", up to rounding")?;
                } else if *up_to_zero_sign {
                    f.write_str(", up to the sign of zero")?;
                }
                for (holds, text) in
                    [(nan_aside, ", comparisons with NaN aside"), (on_elements, ", for what is combined")]
                {
                    f.write_str(if *holds { text } else { "" })?;
                }
                f.write_str(")")
            }
            Witness::Trials => f.write_str(" (tested)"),
            Witness::Form | Witness::Guard | Witness::Stated => Ok(()),
        }
    }
}
