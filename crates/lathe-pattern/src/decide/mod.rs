//! Whether a rule holds: asked before anyone uses it.
//!
//! Both sides are evaluated over variables (`value`, `eval`, `fold`): arrays are functions of their position, sizes are
//! symbols (`indices`), and what is left are pairs of scalar formulas, which `lathe-prove` decides in machine
//! arithmetic, for every scalar type (`instance`). The right side has a value wherever the left side has one; where the
//! left side divides by zero, the right side fails as well, unless the left side drops what it computes there (`take`, a
//! function that ignores its argument): what nobody uses need not be computed (`drops.rs`). What is proved is tested all
//! the same, and what cannot be proved is only tested ([`crate::rules::try_rule`]).

mod compare;
mod eval;
mod fold;
mod indices;
mod instance;
mod laws;
mod value;

pub use laws::lawful;

use crate::codes;
use crate::drops::drops;
use crate::language::TermState;
use crate::normal::data_flow;
use crate::rules::{Equation, try_rule};
use crate::term::Term;
use compare::{Answer, Sense, compare};
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::Scalar;
use lathe_ir::scalar::ScalarValue;
use lathe_prove::Proof;
use lathe_strategy::Why;
use std::fmt;

/// How a rule holds.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Decision {
    pub how: How,
    /// Declared to hold up to rounding.
    pub rounds: bool,
    /// It relies on the laws of the operators of its reductions: they are decided wherever it is applied.
    pub laws: bool,
}

#[derive(Clone, PartialEq, Eq, Debug)]
pub enum How {
    /// For all sizes, types and values; what the scalars rest on.
    Proved(Vec<Proof>),
    /// On so many instances, which did not refute it; why it is not proved.
    Tested(usize, String),
}

impl Decision {
    pub fn is_proved(&self) -> bool {
        matches!(self.how, How::Proved(_))
    }
}

impl fmt::Display for Decision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.how {
            How::Proved(on) if on.is_empty() => {
                f.write_str("proved: both sides have the same normal form")?
            }
            How::Proved(on) => {
                let on: Vec<String> = on.iter().map(Proof::to_string).collect();
                write!(f, "proved: {}", on.join(", "))?;
            }
            How::Tested(n, why) => write!(f, "tested on {n} instances ({why})")?,
        }
        if self.rounds {
            f.write_str(", up to rounding")?;
        }
        if self.laws {
            f.write_str(", by the laws of its operators")?;
        }
        Ok(())
    }
}

/// Changes whenever a decision may: part of the key under which decisions are kept.
pub const VERSION: u32 = 1;

/// Instances on which a rule is tested that is proved, and one that is not.
const FEW: usize = 60;
const MANY: usize = 600;

/// Decides a rule.
///
/// # Errors
/// `E1117` with an instance whose sides differ, `E1115` if they never have one type, `E1118` if there is no instance.
pub fn decide_rule(rule: &Equation, span: Span) -> Result<Decision, Diagnostic> {
    let sense = if rule.rounds { Sense::Rounding } else { Sense::Exact };
    let instances = instance::instances(rule);
    let mut why = (!instances.complete).then(|| "not every type and size was tried".to_string());
    // Of arrays an instance refutes sooner than a proof fails; of scalars a refutation of formulas says more.
    let arrays = |i: &instance::Instance| i.left.any(&mut |t| crate::make::elements(t.ty()).is_some());
    if instances.all.iter().any(arrays) {
        tried(rule, span, FEW)?;
    }
    let mut on = Vec::new();
    let (mut refuted, mut only_rounding, mut was_index) = (None, true, false);
    for i in &instances.all {
        if drops(&i.left, &i.right, &i.facts) {
            why.get_or_insert_with(|| {
                "the right side may evaluate something that the left side does not".to_string()
            });
        }
        match compare(&i.left, &i.right, &i.facts, sense) {
            Answer::Proved(p) => on.extend(p),
            Answer::Tested(n) => {
                why.get_or_insert_with(|| format!("its scalars were tried on {n} values"));
            }
            Answer::Unknown(text) => {
                why.get_or_insert_with(|| text.to_string());
            }
            Answer::Refuted { values, left, right } => {
                let index = i.left.any(&mut |t| t.ty().as_scalar() == Some(Scalar::Index));
                let float = i.left.any(&mut |t| t.ty().as_scalar().is_some_and(Scalar::is_float));
                only_rounding &= index
                    || float
                        && !rule.rounds
                        && matches!(
                            compare(&i.left, &i.right, &i.facts, Sense::Rounding),
                            Answer::Tested(_) | Answer::Proved(_)
                        );
                // Values of ordinary numbers say more.
                if refuted.is_none() || was_index && !index {
                    refuted = Some(refutation(rule, span, &values, [left, right]));
                    was_index = index;
                }
                if !only_rounding {
                    break;
                }
            }
        }
    }
    if let Some(d) = refuted {
        return Err(if only_rounding && !rule.rounds { d.help(ROUNDS) } else { d });
    }
    let tested = tried(rule, span, if why.is_some() { MANY } else { FEW })?;
    on.sort_unstable();
    on.dedup();
    let laws = why.is_some() && rule.has_operators();
    let how = match why {
        None => How::Proved(on),
        Some(why) => How::Tested(tested, why),
    };
    Ok(Decision { how, rounds: rule.rounds, laws })
}

/// Tests a rule; one that holds up to rounding is told to declare that.
fn tried(rule: &Equation, span: Span, instances: usize) -> Result<usize, Diagnostic> {
    try_rule(rule, span, instances).map_err(|d| {
        let mut rounds = rule.clone();
        rounds.rounds = true;
        let holds = d.code == codes::WRONG_RULE && !rule.rounds && try_rule(&rounds, span, FEW).is_ok();
        if holds { d.help(ROUNDS) } else { d }
    })
}

fn refutation(
    rule: &Equation,
    span: Span,
    values: &[(String, ScalarValue)],
    sides: [Option<ScalarValue>; 2],
) -> Diagnostic {
    let text = format!("the rule `{}` does not hold", rule.name);
    let mut d = Diagnostic::error(codes::WRONG_RULE, text).at(span, "its sides differ");
    for (name, v) in values {
        d = d.note(format!("{name}: {} = {v}", v.ty));
    }
    let [left, right] = sides.map(|v| v.map_or_else(|| "no value".to_string(), |v| v.to_string()));
    d.note(format!("the left side gives {left}")).note(format!("the right side gives {right}"))
}

/// Whether what a rule that is code makes of a side of an equation is proved to be equal to it, at all types and sizes;
/// `None` where it applies to neither side.
pub fn proves(
    equation: &Equation,
    apply: &dyn Fn(&Term, &mut TermState) -> Result<Term, Why>,
) -> Option<bool> {
    let open = instance::instances(equation).all;
    apply_all(&open, apply).or_else(|| apply_all(&instance::of_scalars(equation), apply))
}

fn apply_all(
    all: &[instance::Instance],
    apply: &dyn Fn(&Term, &mut TermState) -> Result<Term, Why>,
) -> Option<bool> {
    let mut out = None;
    for i in all {
        let forms = [&i.left, &i.right].map(|t| [t.clone(), data_flow(t)]);
        for before in forms.iter().flatten() {
            let mut state = TermState::new(&i.facts);
            let Ok(after) = apply(before, &mut state) else { continue };
            let same = compare(before, &after, &state.facts, Sense::Exact);
            out = Some(out.unwrap_or(true) && matches!(same, Answer::Proved(_)));
            break;
        }
    }
    out
}

/// What to do about a rule that changes rounding and does not say so.
const ROUNDS: &str = "if it may change rounding, declare that: `rule name(…) rounds: …`";
