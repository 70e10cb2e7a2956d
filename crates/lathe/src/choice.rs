//! A strategy that may run, and where it comes from.

use lathe_strategy::{Definition, Definitions, Strategy};

/// The strategy of the prelude that leaves everything to the cost model.
pub const AUTO: &str = "auto";

/// The step that takes decisions.
pub const STEP: &str = "mdh";

/// Why this strategy was taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum StrategySource {
    Requested,
    /// The winner of tuning exactly this.
    Stored,
    Fast,
    /// What the cost model chooses.
    Auto,
    Naive,
}

impl StrategySource {
    pub fn name(self) -> &'static str {
        match self {
            StrategySource::Requested => "requested",
            StrategySource::Stored => "stored",
            StrategySource::Fast => "fast",
            StrategySource::Auto => "auto",
            StrategySource::Naive => "naive",
        }
    }

    /// The source of a name.
    pub fn from_name(name: &str) -> Option<StrategySource> {
        use StrategySource::{Auto, Fast, Naive, Requested, Stored};
        [Requested, Stored, Fast, Auto, Naive].into_iter().find(|s| s.name() == name)
    }
}

/// A strategy, by whatever name it was found.
#[derive(Clone, Copy, Debug)]
pub struct Choice<'a> {
    /// As it is reported.
    pub name: &'a str,
    pub definition: &'a Definition,
    pub source: StrategySource,
    /// It is `auto`, or an alias of it: everything is left to the cost model, and missing decisions are not an error.
    /// For a fun the definition is then what comes before the decisions.
    pub auto: bool,
}

/// Whether a definition is the `auto` that needs no import; a kernel may have another one of its own.
pub fn is_auto(d: &Definition) -> bool {
    d.name == AUTO && d.target.is_none()
}

/// Whether a strategy is nothing but another name for `auto`. To funs `auto` is not a definition, but known all the same.
pub fn leads_to_auto(definitions: &Definitions, target: &str, s: &Strategy) -> bool {
    let mut s = s;
    // Names may be cyclic.
    for _ in 0..64 {
        match s {
            Strategy::Call { name, args, .. } if args.is_empty() => {
                match definitions.find(name, Some(target)) {
                    Some(d) if is_auto(d) => return true,
                    Some(d) if d.params.is_empty() => s = &d.body,
                    Some(_) => return false,
                    None => return name == AUTO,
                }
            }
            Strategy::Seq(all) if all.len() == 1 => s = &all[0],
            _ => return false,
        }
    }
    false
}
