//! Which strategy runs? The one that is asked for; else the winner of tuning exactly this; else the one of `fast`, `auto`
//! (where there is index notation or a loop) and `naive` that the model expects to be the fastest for these sizes on
//! this machine.
//!
//! [`candidates`] says which there are, [`schedule`] takes one of them and says why; [`decide`] asks the store before.

use crate::applied::How;
use crate::choice::{Choice, StrategySource, is_auto, leads_to_auto};
use crate::mdh;
use crate::parallel::each;
use crate::program::{Failure, Program};
use crate::schedule::{Schedule, on, with};
use crate::tune::{Situation, stored_winner};
use lathe_diagnostics::Diagnostic;
use lathe_ir::Function;
use lathe_space::{Value, eval};
use lathe_strategy::Definition;
use lathe_target::Machine;
use std::collections::BTreeMap;
use std::path::Path;

/// The name of strategies that are meant for devices.
pub const DEVICE: &str = "device";

/// The strategy of code for a device where none is asked for: the kernel's own that is called `device`, else `auto`.
pub fn of_device(program: &Program, kernel: &Function) -> &'static str {
    let own = program.strategies(&kernel.name).iter().any(|d| d.name == DEVICE);
    if own { DEVICE } else { mdh::AUTO }
}

/// The strategies that a kernel or fun may run with where the store is not asked, those before others that are to be
/// taken where nothing tells them apart. One, where one is asked for, and where parameters or a system model are given,
/// which are a strategy's own.
///
/// # Errors
/// `E0903` for a name that there is not.
pub fn candidates<'a>(
    program: &'a Program,
    kernel: &Function,
    how: &How,
) -> Result<Vec<Choice<'a>>, Failure> {
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
    let of_library = || program.lang.prelude.iter().find(|d| is_auto(d));
    if let Some(n) = &how.strategy {
        let own = all.iter().any(|d| d.name == *n);
        let auto = of_library().filter(|d| fun && !own && d.name == *n);
        return Ok(vec![match auto {
            Some(auto) => choice(auto, StrategySource::Requested)?,
            None => choice(program.strategy(target, n)?, StrategySource::Requested)?,
        }]);
    }
    let own = |name: &str| all.iter().find(|d| d.name == name && d.target.is_some());
    let mut out = Vec::new();
    if let Some(d) = own("fast") {
        out.push(choice(d, StrategySource::Fast)?);
    }
    let naive = choice(program.strategy(target, "naive")?, StrategySource::Naive)?;
    // Who writes a `naive` and nothing else for the kernel has said how it runs.
    if (own("fast").is_some() || own("naive").is_none()) && (fun || mdh::has_loops(kernel)) {
        let auto = all.iter().find(|d| d.name == mdh::AUTO).copied().or_else(of_library);
        out.extend(auto.map(|d| choice(d, StrategySource::Auto)).transpose()?);
    }
    // The loops of a fun are what its author meant before they are anything else.
    out.insert(if fun && own("fast").is_none() { 0 } else { out.len() }, naive);
    if !how.params.is_empty() || how.model.is_some() {
        out.truncate(1);
    }
    Ok(out)
}

/// Applies a strategy to a kernel: the one that is asked for; else that of the candidates which the model expects to be
/// the fastest for the sizes of the call. Where these are not known, `fast` or `auto`, by the geometric mean over many sizes;
/// the first of the candidates, where there is no `fast`.
///
/// A candidate that is refused for sizes that are baked in, which its author may never have thought of, is none; the
/// schedule says so.
///
/// # Errors
/// What the analysis, the binding of parameters, or a step refuses.
pub fn schedule(
    program: &Program,
    kernel: &Function,
    how: &How,
    machine: &Machine,
) -> Result<Schedule, Failure> {
    let mut all = candidates(program, kernel, how)?;
    if !how.knows(kernel) {
        match all.iter().any(|c| c.source == StrategySource::Fast) {
            true => all.retain(|c| c.source != StrategySource::Naive),
            false => all.truncate(1),
        }
    }
    if all.len() == 1 {
        return with(program, kernel, how, machine, &all[0]);
    }
    let of = on(machine, how);
    let given: BTreeMap<String, i64> =
        how.sizes.iter().chain(&how.specialize).map(|(n, v)| (n.clone(), *v)).collect();
    let (known, points) = match how.knows(kernel) {
        true => (true, vec![given]),
        false => (false, lathe_mdh::sizes::spread(&program.lang.module, kernel, &given)),
    };
    let make = |choice: &Choice| -> Result<(Schedule, f64), Failure> {
        let made = with(program, kernel, how, machine, choice)?;
        let cycles = points
            .iter()
            .map(|p| (expected(&made, p, &of) + if known { 0.0 } else { CALL }).max(1.0).ln())
            .sum::<f64>()
            / points.len() as f64;
        Ok((made, cycles.exp()))
    };
    let (mut made, mut refused) = (Vec::new(), Vec::new());
    for (choice, result) in all.iter().zip(each(&all, make)) {
        match result {
            Ok(m) => made.push(m),
            Err(f) if how.specialize.is_empty() => return Err(f),
            Err(f) => refused.push((choice.name, f)),
        }
    }
    if made.is_empty() {
        return Err(refused.swap_remove(0).1);
    }
    // Decisions for this machine are before those of an author on another one; no decisions come after them. Of sizes that
    // nobody gave the author knows more.
    made.sort_by_key(|(s, _)| match s.source {
        StrategySource::Auto if known && s.versions.iter().any(|v| !v.taken.computes.is_empty()) => 0,
        StrategySource::Auto => 2,
        StrategySource::Naive => 3,
        _ => 1,
    });
    let each: Vec<_> = made.iter().map(|(s, n)| (s.strategy.as_str(), *n)).collect();
    let (at, reason) = fastest(&each, known);
    let refused = refused.iter().map(|(name, f)| refusal(name, f)).collect();
    Ok(Schedule { reason, refused, ..made.swap_remove(at).0 })
}

/// Why a strategy that nobody asked for does not run.
fn refusal(name: &str, f: &Failure) -> String {
    let why = f.diagnostics.first().map_or(String::new(), |d| format!(" ({}: {})", d.code.0, d.message));
    format!("the strategy `{name}` is refused for these sizes{why}")
}

/// The candidate that [`schedule`] takes.
///
/// # Errors
/// As [`schedule`].
pub fn choose<'a>(
    program: &'a Program,
    kernel: &Function,
    how: &How,
    machine: &Machine,
) -> Result<Choice<'a>, Failure> {
    let all = candidates(program, kernel, how)?;
    if all.len() == 1 {
        return Ok(all[0]);
    }
    let source = schedule(program, kernel, how, machine)?.source;
    Ok(all.iter().copied().find(|c| c.source == source).unwrap_or(all[0]))
}

/// Cycles of a call with these sizes, as the model expects; infinite where a call is refused.
fn expected(s: &Schedule, sizes: &BTreeMap<String, i64>, machine: &Machine) -> f64 {
    let value = |n: &str| sizes.get(n).map(|v| Value::Int(*v));
    let holds = |e: &lathe_space::Expr| eval(e, &value) == Ok(Value::Bool(true));
    let refused = s.requires.iter().any(|e| eval(e, &value) == Ok(Value::Bool(false)));
    match s.versions.iter().find(|v| v.condition.as_ref().is_none_or(holds)).filter(|_| !refused) {
        Some(v) => lathe_model::estimate(&v.func, sizes, machine).cycles(),
        None => f64::INFINITY,
    }
}

/// Cycles of a call besides its loops: where sizes are unknown, small ones of them are not what decides.
const CALL: f64 = 2000.0;

/// So much better an estimate must be to speak against a candidate that is before; that of loops as they are more so, since what
/// the compiler below makes of them is less known than what a schedule says.
const CLEARLY: f64 = 0.95;
const SURELY: f64 = 0.9;

/// The position of the one to run of candidates with their cycles, and the reason.
fn fastest(all: &[(&str, f64)], known: bool) -> (usize, String) {
    let mut best = 0;
    for (i, m) in all.iter().enumerate() {
        let better = if m.0 == "naive" { SURELY } else { CLEARLY };
        if m.1 < all[best].1 * better {
            best = i;
        }
    }
    let one = |(name, n): &(&str, f64)| match n.is_finite() {
        true => format!("{} for `{name}`", cycles(*n)),
        false if known => format!("that `{name}` is refused for these sizes"),
        false => format!("that `{name}` is refused for some sizes"),
    };
    let each: Vec<String> = all.iter().map(one).collect();
    let when = if known { "" } else { "in the mean over sizes, " };
    (best, format!("{when}the model expects {}", each.join(", ")))
}

/// `1.2 million cycles`
fn cycles(n: f64) -> String {
    match n {
        n if n >= 1e9 => format!("{:.1} billion cycles", n / 1e9),
        n if n >= 1e6 => format!("{:.1} million cycles", n / 1e6),
        n => format!("{n:.0} cycles"),
    }
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

/// Whether a strategy that may run takes decisions for sizes.
///
/// # Errors
/// Where there is no such strategy.
pub fn decides(program: &Program, kernel: &Function, how: &How) -> Result<bool, Failure> {
    let all = candidates(program, kernel, how)?;
    let definitions = program.definitions(&kernel.name);
    let decides = |c: &Choice| c.auto || mdh::uses(&definitions, Some(&kernel.name), &c.definition.body);
    Ok(all.iter().any(decides))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_clearly_fastest_is_taken_and_the_reason_names_all() {
        let at = |fast, auto, naive| fastest(&[("fast", fast), ("auto", auto), ("naive", naive)], true);
        assert_eq!(at(100.0, 200.0, 900.0).0, 0);
        assert_eq!(at(100.0, 90.0, 900.0).0, 1);
        assert_eq!(at(100.0, 90.0, 10.0).0, 2);
        // Estimates that are about the same speak for what stands first.
        assert_eq!(at(100.0, 99.0, 98.0).0, 0);
        assert_eq!((at(100.0, 94.0, 200.0).0, at(100.0, 100.0, 94.0).0, at(100.0, 100.0, 89.0).0), (1, 0, 2));
        // A strategy that refuses the sizes never runs, unless nothing else is there.
        assert_eq!(at(f64::INFINITY, 90.0, 900.0).0, 1);
        assert_eq!(fastest(&[("fast", f64::INFINITY)], true).0, 0);
        let (_, reason) = at(f64::INFINITY, 2.5e6, 4e9);
        for part in ["`fast` is refused", "2.5 million cycles for `auto`", "4.0 billion cycles for `naive`"] {
            assert!(reason.contains(part), "{reason}");
        }
        let (at, reason) = fastest(&[("fast", f64::INFINITY), ("auto", 5.0)], false);
        assert_eq!(at, 1);
        assert!(reason.contains("in the mean") && reason.contains("for some sizes"), "{reason}");
    }
}
