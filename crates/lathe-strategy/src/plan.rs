//! Versions of a strategy that decides by size: each is compiled, and the call dispatches.

use crate::bind::call;
use crate::codes;
use crate::context::Context;
use crate::evidence::Refusal;
use crate::run::at_step;
use crate::syntax::{ArgValue, Argument, Strategy};
use lathe_diagnostics::Diagnostic;
use lathe_space::{BinOp, Expr, UnOp, Value, names, reduce};
use std::cell::Cell;
use std::collections::BTreeSet;

/// One way through the conditions over sizes.
#[derive(Clone, Debug, PartialEq)]
pub struct Version {
    /// Over sizes; `None`: everywhere where no version before applies.
    pub cond: Option<Expr>,
    /// Without conditions over sizes.
    pub strategy: Strategy,
}

/// The versions, in the order in which the call tries their conditions; the last has none.
#[derive(Clone, Debug, PartialEq)]
pub struct Plan {
    pub versions: Vec<Version>,
}

/// More versions than this are refused: each is compiled.
const VERSIONS: usize = 64;

/// How deep definitions with conditions over sizes may nest.
const DEPTH: usize = 100;

/// The most definitions that are entered: two calls in each double them.
const CALLS: u32 = 4_000;

/// Unfolds the conditions that mention sizes; all others are left to the run.
pub fn plan(context: &Context, strategy: &Strategy, sizes: &BTreeSet<String>) -> Result<Plan, Refusal> {
    let p = Planner { context, sizes, left: Cell::new(CALLS) };
    let paths = p.strategy(strategy, Known::default(), 0)?;
    let last = paths.len() - 1;
    let versions = paths.into_iter().enumerate().map(|(n, (known, strategy))| Version {
        cond: if n == last { None } else { known.condition() },
        strategy,
    });
    Ok(Plan { versions: versions.collect() })
}

/// Decisions taken on the way, in order.
#[derive(Clone, Default)]
struct Known(Vec<(Expr, bool)>);

impl Known {
    fn condition(&self) -> Option<Expr> {
        self.0
            .iter()
            .map(|(c, yes)| if *yes { c.clone() } else { Expr::Unary(UnOp::Not, Box::new(c.clone())) })
            .reduce(|a, b| Expr::Binary(BinOp::And, Box::new(a), Box::new(b)))
    }
}

struct Planner<'a> {
    context: &'a Context<'a>,
    sizes: &'a BTreeSet<String>,
    /// How many definitions may still be entered.
    left: Cell<u32>,
}

type Paths<S> = Vec<(Known, S)>;

impl Planner<'_> {
    fn fail<S>(&self, text: String, span: Option<lathe_diagnostics::Span>) -> Result<S, Refusal> {
        Err(Refusal::new("strategy", at_step(Diagnostic::error(codes::CONDITION, text), span)))
    }

    fn strategy(&self, s: &Strategy, known: Known, depth: usize) -> Result<Paths<Strategy>, Refusal> {
        match s {
            Strategy::Id | Strategy::Fail(_) => Ok(vec![(known, s.clone())]),
            Strategy::Seq(v) => wrap(self.list(v, known, depth)?, Strategy::Seq),
            Strategy::Choice(v) => wrap(self.list(v, known, depth)?, Strategy::Choice),
            Strategy::At(s, place) => {
                wrap(self.strategy(s, known, depth)?, |s| Strategy::At(Box::new(s), place.clone()))
            }
            Strategy::If { cond, then, other, span } => {
                let facts = |n: &str| (self.context.facts)(n).map(Expr::Value);
                let cond = match reduce(cond, &facts) {
                    Ok(c) => c,
                    Err(e) => return self.fail(format!("the condition `{cond}`: {e}"), *span),
                };
                if let Expr::Value(v) = &cond {
                    return match v {
                        Value::Bool(true) => self.strategy(then, known, depth),
                        Value::Bool(false) => self.strategy(other, known, depth),
                        v => self.fail(format!("the condition is `{v}`, not a boolean"), *span),
                    };
                }
                if let Some(n) = names(&cond).iter().find(|n| !self.sizes.contains(*n)) {
                    let known: Vec<&str> = self.sizes.iter().map(String::as_str).collect();
                    return self.fail(
                        format!(
                            "the condition `{cond}` uses `{n}`, which is not a parameter, fact or size ({})",
                            known.join(", ")
                        ),
                        *span,
                    );
                }
                if let Some((_, yes)) = known.0.iter().find(|k| k.0 == cond) {
                    return self.strategy(if *yes { then } else { other }, known.clone(), depth);
                }
                let with = |yes: bool| {
                    let mut k = known.clone();
                    k.0.push((cond.clone(), yes));
                    k
                };
                let mut out = self.strategy(then, with(true), depth)?;
                out.extend(self.strategy(other, with(false), depth)?);
                if out.len() > VERSIONS {
                    return self.fail(format!("more than {VERSIONS} versions by size"), *span);
                }
                Ok(out)
            }
            Strategy::Call { name, args, span } => {
                if let Some(d) = self.context.definitions.find(name, self.context.target) {
                    if !self.decides(&d.body, &mut BTreeSet::from([name.clone()])) {
                        return Ok(vec![(known, s.clone())]);
                    }
                    if depth > DEPTH {
                        return self.fail(
                            format!("`{name}` branches on sizes and calls itself without terminating"),
                            *span,
                        );
                    }
                    let Some(left) = self.left.get().checked_sub(1) else {
                        let text = format!(
                            "the strategy does not terminate: more than {CALLS} calls branch on sizes"
                        );
                        let d = Diagnostic::error(codes::DIVERGES, text);
                        return Err(Refusal::new("strategy", at_step(d, *span)));
                    };
                    self.left.set(left);
                    let body = call(d, args, self.context.facts)
                        .map_err(|e| Refusal::new(name, at_step(e, *span)))?;
                    return self.strategy(&body, known, depth + 1);
                }
                // Steps as arguments of combinators.
                let mut out: Paths<Vec<Argument>> = vec![(known, Vec::new())];
                for a in args {
                    let step = match &a.value {
                        ArgValue::Strategy(s) => Some((**s).clone()),
                        v @ ArgValue::Expr(_) if matches!(name.as_str(), "try" | "repeat") => {
                            v.as_strategy(a.span)
                        }
                        ArgValue::Expr(_) => None,
                    };
                    let mut next = Vec::new();
                    for (known, done) in out {
                        let with = |value: ArgValue| {
                            let mut done = done.clone();
                            done.push(Argument { value, ..a.clone() });
                            done
                        };
                        match &step {
                            None => next.push((known, with(a.value.clone()))),
                            Some(s) => {
                                for (k, s) in self.strategy(s, known, depth)? {
                                    next.push((k, with(ArgValue::Strategy(Box::new(s)))));
                                }
                            }
                        }
                    }
                    out = next;
                }
                wrap(out, |args| Strategy::Call { name: name.clone(), args, span: *span })
            }
        }
    }

    fn list(&self, v: &[Strategy], known: Known, depth: usize) -> Result<Paths<Vec<Strategy>>, Refusal> {
        let mut out: Paths<Vec<Strategy>> = vec![(known, Vec::new())];
        for s in v {
            let mut next = Vec::new();
            for (known, done) in out {
                let mut ways = self.strategy(s, known, depth)?;
                let last = ways.pop();
                for (k, s) in ways {
                    let done = done.iter().cloned().chain([s]).collect();
                    next.push((k, done));
                }
                // One way, as almost always, needs no copy of what is done.
                if let Some((k, s)) = last {
                    let mut done = done;
                    done.push(s);
                    next.push((k, done));
                }
            }
            if next.len() > VERSIONS {
                return self.fail(format!("more than {VERSIONS} versions by size"), None);
            }
            out = next;
        }
        Ok(out)
    }

    /// Whether a body, or a definition that it calls, has a condition that mentions a size.
    fn decides(&self, s: &Strategy, seen: &mut BTreeSet<String>) -> bool {
        match s {
            Strategy::Id | Strategy::Fail(_) => false,
            Strategy::Seq(v) | Strategy::Choice(v) => v.iter().any(|s| self.decides(s, seen)),
            Strategy::At(s, _) => self.decides(s, seen),
            Strategy::If { cond, then, other, .. } => {
                names(cond).iter().any(|n| self.sizes.contains(n))
                    || self.decides(then, seen)
                    || self.decides(other, seen)
            }
            Strategy::Call { name, args, .. } => {
                let inside = args.iter().any(|a| match &a.value {
                    ArgValue::Strategy(s) => self.decides(s, seen),
                    v @ ArgValue::Expr(_) => match v.as_strategy(None) {
                        Some(s @ Strategy::Call { .. }) => self.decides(&s, seen),
                        _ => false,
                    },
                });
                inside
                    || match self.context.definitions.find(name, self.context.target) {
                        Some(d) if seen.insert(name.clone()) => self.decides(&d.body, seen),
                        _ => false,
                    }
            }
        }
    }
}

fn wrap<A, B>(paths: Paths<A>, f: impl Fn(A) -> B) -> Result<Paths<B>, Refusal> {
    Ok(paths.into_iter().map(|(k, a)| (k, f(a))).collect())
}
