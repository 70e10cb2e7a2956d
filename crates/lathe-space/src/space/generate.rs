//! From a definition to the trees of its groups.

use super::build::{Allowed, Built, Failure, Stop, build};
use super::compile::Coder;
use super::constraint::Constraint;
use super::def::{SpaceDef, ValueRange};
use super::domain::{Domain, domain, unusable};
use super::expand::World;
use super::groups::{Analysis, Condition, Members, analyse, free_names, unknown_function};
use super::plan::{PlanLevel, narrow_order, plan};
use super::prune::{failure, live, tree};
use super::threads::Threads;
use super::tree::{Level, Tree};
use crate::codes;
use crate::eval::eval;
use crate::expr::{EvalError, Expr, Value};
use lathe_diagnostics::Diagnostic;
use num_bigint::BigUint;

/// How a space is made. What is made does not depend on the number of threads or parallel levels.
#[derive(Clone, Debug, PartialEq)]
pub struct Generate {
    /// Threads that may work; 0 is one per processor.
    pub threads: usize,
    /// Levels of each group whose nodes several threads share; the others are one thread's work per group.
    pub parallel_levels: usize,
    pub order: Order,
    /// The most nodes that a group may have while it is made, dead ends included.
    pub max_nodes: usize,
}

/// The order of the levels within a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// As declared (a parameter that mentions later ones moves behind them).
    Declared,
    /// So that few earlier parameters matter at each level.
    Narrow,
    /// As declared if that is little work, else whichever of a few orders is made with the least work.
    Auto,
}

impl Default for Generate {
    fn default() -> Generate {
        Generate { threads: 0, parallel_levels: usize::MAX, order: Order::Auto, max_nodes: 1 << 26 }
    }
}

/// The tree of a group, with counts as small as they fit.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Stored {
    Small(Tree<u64>),
    Big(Tree<BigUint>),
}

pub(crate) struct Generated {
    pub domains: Vec<Domain>,
    pub groups: Vec<(Members, Stored)>,
    pub checks: u64,
}

pub(crate) fn generate(def: &SpaceDef, options: &Generate) -> Result<Generated, Diagnostic> {
    let Analysis { conditions, groups } = analyse(def)?;
    let domains = domains(def, &conditions)?;
    constant_conditions(def, &conditions)?;
    let threads = Threads::new(options.threads);
    let coder = Coder::new(&domains);
    let context = Context {
        def,
        conditions: &conditions,
        domains: &domains,
        coder: &coder,
        threads: &threads,
        options,
    };
    // Most groups are little work, for which starting threads would take longer.
    let mut made: Vec<Option<_>> = groups.iter().map(|g| context.quick(g)).collect();
    let slow: Vec<usize> = (0..groups.len()).filter(|g| made[*g].is_none()).collect();
    let rest = threads.map(slow.len(), |i| context.slow(&groups[slow[i]]));
    for (g, result) in slow.into_iter().zip(rest) {
        made[g] = Some(result);
    }
    let (mut trees, mut checks) = (Vec::with_capacity(groups.len()), 0);
    for made in made.into_iter().flatten() {
        let (stored, tried) = made?;
        trees.push(stored);
        checks += tried;
    }
    Ok(Generated { domains, groups: groups.into_iter().zip(trees).collect(), checks })
}

/// The values of every parameter.
fn domains(def: &SpaceDef, conditions: &[Condition]) -> Result<Vec<Domain>, Diagnostic> {
    let mut out: Vec<Option<Domain>> = vec![None; def.params.len()];
    // Ranges over constants first; the others take what any values of the parameters that they mention give.
    let depends: Vec<bool> =
        (0..def.params.len()).map(|i| conditions.iter().any(|c| c.range && c.owner == i)).collect();
    for (i, p) in def.params.iter().enumerate().filter(|(i, _)| !depends[*i]) {
        out[i] = Some(domain(p, &def.constants)?);
    }
    // Sorting made sure that there is no circle, so each round finds at least one.
    for _ in 0..def.params.len() {
        for i in (0..def.params.len()).filter(|i| depends[*i]) {
            if out[i].is_none() {
                out[i] = hull(def, i, &out)?;
            }
        }
    }
    out.into_iter()
        .enumerate()
        .map(|(i, d)| d.ok_or_else(|| unusable(&def.params[i], "its bounds cannot be determined".into())))
        .collect()
}

/// Combinations of mentioned values that are tried for the bounds of a range.
const COMBINATIONS: u64 = 1 << 20;

/// All values that an interval with bounds over other parameters can have; `None` while those are not known.
fn hull(def: &SpaceDef, i: usize, known: &[Option<Domain>]) -> Result<Option<Domain>, Diagnostic> {
    let p = &def.params[i];
    let ValueRange::Interval { lo, hi, step, .. } = &p.values else { return Ok(None) };
    let find = |e: &Expr| -> Result<Option<Vec<Value>>, Diagnostic> {
        let mut names = mentioned(def, &p.name, e)?;
        names.retain(|n| !def.constants.contains_key(n));
        let mut over = Vec::new();
        for n in &names {
            let Some(q) = def.params.iter().position(|q| q.name == *n) else {
                return Err(super::domain::unknown(&p.name, n, "range"));
            };
            let Some(d) = &known[q] else { return Ok(None) };
            over.push(d);
        }
        let n = over.iter().try_fold(1u64, |n, d| n.checked_mul(u64::from(d.len())));
        let Some(n) = n.filter(|n| *n <= COMBINATIONS) else {
            return Err(unusable(p, format!("`{e}` mentions too many combinations of values")));
        };
        let mut values = Vec::new();
        let mut error = None;
        for mut c in 0..n {
            let picked: Vec<Value> = over
                .iter()
                .map(|d| {
                    let v = d.value((c % u64::from(d.len())) as u32);
                    c /= u64::from(d.len());
                    v
                })
                .collect();
            let env = |name: &str| match names.iter().position(|n| n == name) {
                Some(i) => Some(picked[i].clone()),
                None => def.constants.get(name).cloned(),
            };
            match eval(e, &env) {
                Ok(v) => values.push(v),
                Err(e) => error = Some(e),
            }
        }
        match (values.is_empty(), error) {
            (true, Some(err)) => Err(unusable(p, format!("`{e}`: {err}"))),
            _ => Ok(Some(values)),
        }
    };
    let (Some(lows), Some(highs)) = (find(lo)?, find(hi)?) else { return Ok(None) };
    let constant = mentioned(def, &p.name, lo)?.iter().all(|n| def.constants.contains_key(n));
    let step = match step {
        Some(e) if constant => match find(e)? {
            // Steps from a fixed begin by a fixed amount; otherwise any value may be on one.
            Some(v) if v.windows(2).all(|w| w[0] == w[1]) => v.into_iter().next(),
            Some(_) => None,
            None => return Ok(None),
        },
        _ => None,
    };
    let whole = |values: Vec<Value>| -> Result<Vec<i64>, Diagnostic> {
        let int = |v| if let Value::Int(v) = v { Some(v) } else { None };
        let all: Option<Vec<i64>> = values.into_iter().map(int).collect();
        all.ok_or_else(|| unusable(p, "bounds that mention parameters are integers".into()))
    };
    let lo = whole(lows)?.into_iter().min().unwrap_or(0);
    let hi = whole(highs)?.into_iter().max().unwrap_or(-1);
    let at = |v: i64| Expr::Value(Value::Int(v));
    let values =
        ValueRange::Interval { lo: at(lo), hi: at(hi), step: step.map(Expr::Value), generator: None };
    let fixed = super::def::TuningParameter { values, ..p.clone() };
    domain(&fixed, &def.constants).map(Some)
}

/// The names in an expression; facts like `vector(f32)` count as one.
fn mentioned(def: &SpaceDef, own: &str, e: &Expr) -> Result<Vec<String>, Diagnostic> {
    match free_names(&Constraint::Expr(e.clone()), own, &def.constants) {
        Ok(names) => Ok(names.into_iter().collect()),
        Err(function) => Err(unknown_function(own, &function, "range")),
    }
}

/// Conditions without parameters hold for all configurations or for none.
fn constant_conditions(def: &SpaceDef, conditions: &[Condition]) -> Result<(), Diagnostic> {
    for c in conditions.iter().filter(|c| c.scope.is_empty()) {
        let p = &def.params[c.owner];
        match c.constraint.holds(&p.name, &|n| def.constants.get(n).cloned()) {
            Ok(true) => {}
            Ok(false) => {
                let text = format!("no configuration: `{}` of parameter `{}` is false", c.constraint, p.name);
                return Err(Diagnostic::error(codes::SPACE_EMPTY, text));
            }
            Err(e) => return Err(failed(def, c, &[], &e)),
        }
    }
    Ok(())
}

/// The error about a condition that cannot be evaluated for some values.
fn failed(def: &SpaceDef, c: &Condition, values: &[(usize, Value)], e: &EvalError) -> Diagnostic {
    let own = &def.params[c.owner].name;
    let at: Vec<String> = values
        .iter()
        .filter(|(p, _)| c.scope.contains(p))
        .map(|(p, v)| format!("{} = {v}", def.params[*p].name))
        .chain(
            def.constants
                .iter()
                .filter(|(n, _)| c.constraint.names(own).contains(n))
                .map(|(n, v)| format!("{n} = {v}")),
        )
        .collect();
    let at = if at.is_empty() { String::new() } else { format!(" for {}", at.join(", ")) };
    let text = format!("the constraint `{}` of parameter `{own}` fails{at}: {e}", c.constraint);
    Diagnostic::error(codes::SPACE_CONSTRAINT, text)
        .help("exclude such values by another constraint, or before `and` in this one")
}

/// What making a group looks at.
struct Context<'a> {
    def: &'a SpaceDef,
    conditions: &'a [Condition],
    domains: &'a [Domain],
    coder: &'a Coder,
    threads: &'a Threads,
    options: &'a Generate,
}

/// The work after which other orders are tried.
const FIRST_TRY: u64 = 1 << 16;
/// The last work after which orders are compared.
const LAST_TRY: u64 = FIRST_TRY << 3;
/// Larger groups are made as declared: finding another order takes cubic time.
const ORDERED: usize = 300;

impl Context<'_> {
    /// A group that is little work in the first order that comes to mind.
    fn quick(&self, group: &Members) -> Option<Result<(Stored, u64), Diagnostic>> {
        if group.conditions.is_empty() {
            return Some(Ok((self.free(group.sorted[0]), 0)));
        }
        let plan = match self.options.order {
            Order::Narrow => self.plan(group, &self.narrow(group)),
            Order::Declared | Order::Auto => self.plan(group, &group.sorted),
        };
        let built = self.build(&plan, FIRST_TRY).ok()?;
        Some(self.finish(group, &plan, built))
    }

    /// A parameter that nothing constrains.
    fn free(&self, param: usize) -> Stored {
        let n = self.domains[param].len();
        let level = Level {
            param,
            parent: None,
            children: Vec::new(),
            full: Some(n),
            starts: Vec::new(),
            values: Vec::new(),
            below: Vec::new(),
            kids: Vec::new(),
        };
        Stored::Small(Tree { levels: vec![level], roots: vec![0], total: u64::from(n) })
    }

    /// Any group.
    fn slow(&self, group: &Members) -> Result<(Stored, u64), Diagnostic> {
        let mut plans = Vec::with_capacity(2);
        let order = self.options.order;
        if order == Order::Narrow || (order == Order::Auto && group.sorted.len() <= ORDERED) {
            plans.push(self.plan(group, &self.narrow(group)));
        }
        if order != Order::Narrow {
            let declared = self.plan(group, &group.sorted);
            if !plans.contains(&declared) {
                plans.push(declared);
            }
        }
        // Each order may work a while, then longer; the one that gets farther is made. One that needs too many
        // nodes is out.
        let (mut work, mut reason) = (FIRST_TRY, None);
        while !plans.is_empty() {
            if plans.len() == 1 || work > LAST_TRY {
                work = u64::MAX;
            }
            let mut left: Vec<(Vec<PlanLevel>, usize)> = Vec::with_capacity(2);
            for plan in plans {
                match self.build(&plan, work) {
                    Ok(built) => return self.finish(group, &plan, built),
                    Err(Stop::Work(level)) => left.push((plan, level)),
                    Err(stop) => reason = Some(self.stopped(group, &plan, stop)),
                }
            }
            left.sort_by_key(|p| std::cmp::Reverse(p.1));
            plans = left.into_iter().map(|p| p.0).collect();
            work = work.saturating_mul(8);
        }
        Err(reason.unwrap_or_else(|| self.too_large(group)))
    }

    fn stopped(&self, group: &Members, plan: &[PlanLevel], stop: Stop) -> Diagnostic {
        match stop {
            Stop::Nodes { failed: Some(f) } => self.failure(plan, &f),
            Stop::Nodes { failed: None } | Stop::Work(_) => self.too_large(group),
        }
    }

    fn plan(&self, group: &Members, order: &[usize]) -> Vec<PlanLevel> {
        plan(order, self.conditions, &group.conditions)
    }

    fn narrow(&self, group: &Members) -> Vec<usize> {
        let weight = |p: usize| f64::from(self.domains[p].len()).ln();
        narrow_order(&group.sorted, self.conditions, &group.conditions, &weight)
    }

    fn build(&self, plan: &[PlanLevel], work: u64) -> Result<Built, Stop> {
        let world =
            World { def: self.def, domains: self.domains, conditions: self.conditions, coder: self.coder };
        let allowed = Allowed {
            threads: self.threads,
            parallel_levels: self.options.parallel_levels,
            work,
            nodes: self.options.max_nodes.min(u32::MAX as usize - 1),
        };
        build(world, plan, &allowed)
    }

    fn finish(&self, group: &Members, plan: &[PlanLevel], built: Built) -> Result<(Stored, u64), Diagnostic> {
        let Some(live) = live(plan, &built) else { return Err(self.empty(group)) };
        if let Some(f) = failure(plan, &built, &live) {
            return Err(self.failure(plan, &f));
        }
        let stored = match tree::<u64>(plan, &built, &live) {
            Some(t) => Stored::Small(t),
            None => Stored::Big(tree(plan, &built, &live).ok_or_else(|| self.too_large(group))?),
        };
        Ok((stored, built.checks))
    }

    /// The error about a condition that has no answer for a value.
    fn failure(&self, plan: &[PlanLevel], at: &Failure) -> Diagnostic {
        let l = at.level;
        let mut values: Vec<(usize, Value)> = plan[l]
            .context
            .iter()
            .zip(&at.key)
            .map(|(a, v)| (plan[*a].param, self.domains[plan[*a].param].value(*v)))
            .collect();
        values.push((plan[l].param, self.domains[plan[l].param].value(at.value)));
        let env = |n: &str| match values.iter().find(|(p, _)| self.def.params[*p].name == n) {
            Some((_, v)) => Some(v.clone()),
            None => self.def.constants.get(n).cloned(),
        };
        for c in plan[l].tests.iter().map(|c| &self.conditions[*c]) {
            if let Err(e) = c.constraint.holds(&self.def.params[c.owner].name, &env) {
                return failed(self.def, c, &values, &e);
            }
        }
        Diagnostic::error(codes::SPACE_CONSTRAINT, "a constraint cannot be evaluated")
    }

    fn names(&self, group: &Members) -> String {
        let names: Vec<String> =
            group.sorted.iter().map(|p| format!("`{}`", self.def.params[*p].name)).collect();
        names.join(", ")
    }

    fn empty(&self, group: &Members) -> Diagnostic {
        let constraints: Vec<String> = group
            .conditions
            .iter()
            .map(|c| &self.conditions[*c])
            .map(|c| format!("{}: {}", self.def.params[c.owner].name, c.constraint))
            .collect();
        Diagnostic::error(
            codes::SPACE_EMPTY,
            format!("no configuration: no values of {} satisfy their constraints", self.names(group)),
        )
        .note(format!("constraints: {}", constraints.join("; ")))
    }

    fn too_large(&self, group: &Members) -> Diagnostic {
        let text = format!(
            "the combinations of the interdependent parameters {} exceed {} nodes",
            self.names(group),
            self.options.max_nodes
        );
        Diagnostic::error(codes::SPACE_LARGE, text)
            .help("narrow their ranges, or split constraints into ones that mention fewer parameters")
    }
}
