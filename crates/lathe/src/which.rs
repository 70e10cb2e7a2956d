//! Which strategy runs? The one that is asked for; else the winner of tuning exactly this; else `fast`; else `auto`,
//! where there is something in index notation; else `naive`.

use crate::mdh;
use crate::program::{Failure, Program};
use crate::schedule::How;
use crate::tune::{Situation, stored_winner};
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_strategy::{Definition, Definitions, Strategy};
use std::path::Path;

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
    /// It is `auto`, or a name for it: all is left to the cost model, and nothing fails for want of decisions. For a
    /// fun the definition is then what comes before the decisions.
    pub auto: bool,
}

/// The strategy that a kernel or fun runs with where the store is not asked.
///
/// # Errors
/// `E0903` for a name that there is not.
pub fn choose<'a>(program: &'a Program, kernel: &Function, how: &How) -> Result<Choice<'a>, Failure> {
    let target = &*kernel.name;
    let all = program.strategies(target);
    let fun = program.lang.funs.contains_key(target);
    let choice = |definition: &'a Definition, source| -> Result<Choice<'a>, Failure> {
        let auto =
            is_auto(definition) || leads_to_auto(&program.definitions(target), target, &definition.body);
        // A fun has no `auto` on terms: it is for the loops that it becomes.
        let start = if auto && fun { program.strategy(target, "naive")? } else { definition };
        Ok(Choice { name: &definition.name, definition: start, source, auto })
    };
    if let Some(n) = &how.strategy {
        let own = all.iter().any(|d| d.name == *n);
        if let Some(auto) = program.lang.prelude.iter().find(|d| fun && !own && is_auto(d) && d.name == *n) {
            return choice(auto, StrategySource::Requested);
        }
        return choice(program.strategy(target, n)?, StrategySource::Requested);
    }
    if let Some(d) = all.iter().find(|d| d.name == "fast" && d.target.is_some()) {
        return choice(d, StrategySource::Fast);
    }
    // Who writes a `naive` for the kernel has said how it runs.
    let said = all.iter().any(|d| d.name == "naive" && d.target.is_some());
    let indexed = !said && mdh::has_computes(kernel);
    if let Some(d) = all.iter().find(|d| indexed && d.name == mdh::AUTO) {
        return choice(d, StrategySource::Auto);
    }
    choice(program.strategy(target, "naive")?, StrategySource::Naive)
}

/// Whether a definition is the `auto` that needs no import; a kernel may have another one of its own.
pub(crate) fn is_auto(d: &Definition) -> bool {
    d.name == mdh::AUTO && d.target.is_none()
}

/// Whether a strategy is nothing but another name for `auto`. To funs `auto` is no definition, but known all the same.
pub(crate) fn leads_to_auto(definitions: &Definitions, target: &str, s: &Strategy) -> bool {
    let mut s = s;
    // Names may lead in a circle.
    for _ in 0..64 {
        match s {
            Strategy::Call { name, args, .. } if args.is_empty() => {
                match definitions.find(name, Some(target)) {
                    Some(d) if is_auto(d) => return true,
                    Some(d) if d.params.is_empty() => s = &d.body,
                    Some(_) => return false,
                    None => return name == mdh::AUTO,
                }
            }
            Strategy::Seq(all) if all.len() == 1 => s = &all[0],
            _ => return false,
        }
    }
    false
}

/// How a call is scheduled, the store included.
#[derive(Debug)]
pub struct Decided {
    pub how: How,
    /// It is the winner of tuning exactly this.
    pub stored: bool,
    /// What is wrong with the store, which keeps nobody from running something else.
    pub trouble: Option<Diagnostic>,
}

/// What a call is scheduled with: what is asked for; where nothing is, the winner that the store has for exactly this,
/// if there is a store.
pub fn decide(
    store: Option<&Path>,
    program: &Program,
    kernel: &Function,
    asked: How,
    of: Situation,
) -> Decided {
    let nothing_asked = asked.strategy.is_none() && asked.params.is_empty() && asked.model.is_none();
    let winner = match store.filter(|_| nothing_asked) {
        Some(store) => stored_winner(store, program, kernel, of),
        None => Ok(None),
    };
    match winner {
        Ok(Some(how)) => Decided { how, stored: true, trouble: None },
        other => Decided { how: asked, stored: false, trouble: other.err() },
    }
}
