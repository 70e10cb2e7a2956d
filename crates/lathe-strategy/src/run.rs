//! The interpreter: runs a strategy on a tree and keeps the trace. Sequences, choices and places by name are
//! its own, since there a step may move the place; traversals and predicates run in [`mod@crate::rewrite`],
//! as they do on every other kind of tree.

use crate::bind::{call, mark};
use crate::codes;
use crate::context::{Context, LEAST, WORK, distance};
use crate::evidence::{Discharge, Evidence, Refusal};
use crate::rewrite::{TRAVERSALS, rewrite};
use crate::rooted::{Log, Rooted, vocabulary};
use crate::syntax::{Argument, Strategy};
use crate::tree::{Location, StepArg, Tree};
use lathe_diagnostics::{Diagnostic, Span};
use lathe_space::{Expr, Value, eval};
use std::collections::BTreeMap;
use std::rc::Rc;

/// The most definitions that are entered: each of two calls per definition doubles them.
const CALLS: u32 = 50_000;

/// The most notes about what else failed.
const NOTES: usize = 8;

/// How deep calls of definitions may nest.
const DEPTH: usize = 200;

/// What was done, in order.
#[derive(Clone, Debug, PartialEq)]
pub struct Trace<T> {
    pub steps: Vec<Evidence>,
    /// The tree before each step.
    pub trees: Vec<T>,
}

impl<T> Trace<T> {
    /// Number of obligations by how they were discharged.
    pub fn counts(&self) -> BTreeMap<Discharge, usize> {
        let mut out = BTreeMap::new();
        for o in self.steps.iter().flat_map(|e| &e.obligations) {
            *out.entry(o.by).or_insert(0) += 1;
        }
        out
    }

    /// Labels whose rounding may differ from the reference: a step reassociated or contracted them.
    pub fn reassociates(&self) -> Vec<&str> {
        let mut out: Vec<&str> =
            self.steps.iter().flat_map(|e| &e.reassociates).map(String::as_str).collect();
        out.sort_unstable();
        out.dedup();
        out
    }
}

/// Runs a strategy whose parameters are bound (see [`crate::instantiate`]).
pub fn run<T: Tree + 'static>(
    context: &Context,
    strategy: &Strategy,
    tree: T,
) -> Result<(T, Trace<T>), Refusal> {
    let mut r = Runner {
        context,
        left: tree.size().max(LEAST).saturating_mul(WORK),
        calls: 0,
        tree,
        trace: Trace { steps: Vec::new(), trees: Vec::new() },
        steps: 0,
        callers: Vec::new(),
        focus: Vec::new(),
    };
    match r.strategy(strategy) {
        Ok(()) => {
            let owed = r.trace.trees.first().map(Tree::owes).unwrap_or_default();
            if let Some(first) = r.trace.steps.first_mut() {
                owed.into_iter().for_each(|o| first.oblige(o));
            }
            Ok((r.tree, r.trace))
        }
        Err(Failure::Refused(refusal) | Failure::Fatal(refusal)) => Err(refusal),
    }
}

/// Applies the recorded steps again. Each must be legal, and leave just the record that is given: the same trees, the
/// same relations, the same obligations discharged in the same way.
pub fn replay<T: Tree>(mut tree: T, steps: &[Evidence]) -> Result<T, Refusal> {
    let mut owed = tree.owes();
    for (n, e) in steps.iter().enumerate() {
        let wrong = |what: &str| {
            let text = format!("replay of step {} (`{}`): {what}", n + 1, e.rule);
            Refusal::new(&e.rule, Diagnostic::error(codes::REPLAY, text))
        };
        let before = tree.digest();
        if before != e.before {
            return Err(wrong("the tree before it is another one"));
        }
        let args = e.args.iter().map(|a| StepArg::read(a)).collect::<Option<Vec<_>>>();
        let args = args.ok_or_else(|| wrong("an argument cannot be read"))?;
        let (next, mut again) = tree.apply(&e.rule, &e.path, &args)?;
        again.args.clone_from(&e.args);
        again.path.clone_from(&e.path);
        again.before = before;
        again.after = next.digest();
        owed.drain(..).for_each(|o| again.oblige(o));
        if let Some(what) = e.differs(&again) {
            return Err(wrong(what));
        }
        tree = next;
    }
    Ok(tree)
}

/// Why a strategy did not succeed. A refused step can be caught (`<+`, `try`); a mistake in the
/// strategy itself cannot.
enum Failure {
    Refused(Refusal),
    Fatal(Refusal),
}

struct Runner<'a, T> {
    context: &'a Context<'a>,
    tree: T,
    trace: Trace<T>,
    steps: u64,
    /// Nodes of trees that may still be looked at.
    left: u64,
    /// Definitions that were entered.
    calls: u32,
    /// Definitions being run, outermost first.
    callers: Vec<String>,
    /// Locations in force, outermost first, with the path where each was found last.
    focus: Vec<(Location, Vec<usize>, Option<Span>)>,
}

impl<T: Tree + 'static> Runner<'_, T> {
    fn strategy(&mut self, s: &Strategy) -> Result<(), Failure> {
        match s {
            Strategy::Id => Ok(()),
            Strategy::Fail(why) => {
                let d = Diagnostic::error(codes::FAILED, format!("the strategy gives up: {why}"));
                Err(Failure::Refused(self.explain(Refusal::new("fail", d), None)))
            }
            Strategy::Seq(v) => v.iter().try_for_each(|s| self.strategy(s)),
            Strategy::Choice(v) => self.choice(v),
            Strategy::At(s, place) => self.at(s, place),
            Strategy::If { cond, then, other, span } => match eval(cond, self.context.facts) {
                Ok(Value::Bool(true)) => self.strategy(then),
                Ok(Value::Bool(false)) => self.strategy(other),
                Ok(v) => Err(self.mistake(
                    codes::CONDITION,
                    format!("`{cond}` is `{v}`, not true or false"),
                    *span,
                    None,
                )),
                Err(e) => {
                    let help = "conditions may use parameters, machine facts and sizes";
                    Err(self.mistake(
                        codes::CONDITION,
                        format!("the condition `{cond}`: {e}"),
                        *span,
                        Some(help),
                    ))
                }
            },
            Strategy::Call { name, args, span } => self.call(name, args, *span),
        }
    }

    /// Runs a strategy; on a refusal everything is as before.
    fn attempt(&mut self, s: &Strategy) -> Result<Result<(), Refusal>, Failure> {
        let (tree, steps) = (self.tree.clone(), self.trace.steps.len());
        let (callers, focus) = (self.callers.len(), self.focus.len());
        match self.strategy(s) {
            Ok(()) => Ok(Ok(())),
            Err(Failure::Refused(r)) => {
                self.tree = tree;
                self.trace.steps.truncate(steps);
                self.trace.trees.truncate(steps);
                self.callers.truncate(callers);
                self.focus.truncate(focus);
                Ok(Err(r))
            }
            Err(fatal) => Err(fatal),
        }
    }

    fn choice(&mut self, options: &[Strategy]) -> Result<(), Failure> {
        let mut refused: Vec<Refusal> = Vec::new();
        for s in options {
            match self.attempt(s)? {
                Ok(()) => return Ok(()),
                Err(r) => refused.push(r),
            }
        }
        let Some(mut last) = refused.pop() else { return Ok(()) };
        let others = refused.len().saturating_sub(NOTES);
        for r in refused.into_iter().take(NOTES) {
            last.diagnostic
                .notes
                .push(format!("before that, another choice failed: {}", r.diagnostic.message));
        }
        if others > 0 {
            last.diagnostic.notes.push(format!("and {others} other choices"));
        }
        Err(Failure::Refused(last))
    }

    fn at(&mut self, s: &Strategy, place: &Strategy) -> Result<(), Failure> {
        let span = match place {
            Strategy::Call { span, .. } => *span,
            _ => None,
        };
        let Some(location) = Location::from_strategy(place) else {
            if let Strategy::Call { name, .. } = place
                && self.traverses(name)
            {
                let both = Strategy::At(Box::new(s.clone()), Box::new(place.clone()));
                return self.traverse(&both, span);
            }
            let help =
                "write `s @ stmt(C)`, `s @ loop(i)`, `s @ outermost(loop(i))`, `s @ innermost(isLoop)`";
            return Err(self.mistake(codes::LOCATION, "this is no location".to_string(), span, Some(help)));
        };
        let path = self.locate(&location, span)?;
        self.focus.push((location, path, span));
        let result = self.strategy(s);
        self.focus.pop();
        result
    }

    /// The one place of a location within the focus.
    fn locate(&mut self, location: &Location, span: Option<Span>) -> Result<Vec<usize>, Failure> {
        let within = self.focus.last().map(|f| f.1.clone()).unwrap_or_default();
        let mut found = self.places(location, &within, span)?;
        match found.len() {
            1 => Ok(found.remove(0)),
            0 => {
                let d = Diagnostic::error(codes::LOCATION, format!("there is no `{location}` here"));
                Err(Failure::Refused(self.explain(Refusal::new("@", d), span)))
            }
            n => {
                let d = Diagnostic::error(codes::LOCATION, format!("`{location}` is in {n} places"));
                let d = d.help(format!(
                    "write `outermost({location})` or `innermost({location})`, or narrow the name"
                ));
                Err(Failure::Refused(self.explain(Refusal::new("@", d), span)))
            }
        }
    }

    fn places(
        &self,
        location: &Location,
        within: &[usize],
        span: Option<Span>,
    ) -> Result<Vec<Vec<usize>>, Failure> {
        let pick = |all: Vec<Vec<usize>>, inner: bool| {
            // Of equally deep places the first in the text.
            let best = if inner {
                all.into_iter().rev().max_by_key(Vec::len)
            } else {
                all.into_iter().min_by_key(Vec::len)
            };
            Ok(best.into_iter().collect())
        };
        match location {
            Location::Outermost(l) => pick(self.places(l, within, span)?, false),
            Location::Innermost(l) => pick(self.places(l, within, span)?, true),
            l => self.tree.locate(l, within).map_err(|r| Failure::Refused(self.explain(r, span))),
        }
    }

    fn call(&mut self, name: &str, args: &[Argument], span: Option<Span>) -> Result<(), Failure> {
        match name {
            "id" if args.is_empty() => return Ok(()),
            "fail" => {
                let why = args.first().map_or(String::new(), |a| match &a.value {
                    crate::ArgValue::Expr(e) => e.to_string(),
                    crate::ArgValue::Strategy(_) => String::new(),
                });
                return self.strategy(&Strategy::Fail(why));
            }
            "try" | "repeat" => {
                let step = match args {
                    [Argument { name: None, value, span }] => value.as_strategy(*span),
                    _ => None,
                };
                let Some(step) = step else {
                    return Err(self.mistake(codes::CALL, format!("`{name}` takes one step"), span, None));
                };
                return if name == "try" {
                    self.attempt(&step).map(|_| ())
                } else {
                    self.repeat(&step, span)
                };
            }
            _ => {}
        }
        if let Some(d) = self.context.definitions.find(name, self.context.target) {
            if self.callers.len() >= DEPTH {
                let cycle = self.cycle();
                let help =
                    "a definition that calls itself needs a way out: `try`, `<+`, or a step that fails";
                return Err(self.mistake(
                    codes::DIVERGES,
                    format!("`{name}` calls itself without end: {cycle}"),
                    span,
                    Some(help),
                ));
            }
            self.calls += 1;
            if self.calls > CALLS {
                let text = format!("the strategy does not end: stopped after {CALLS} calls of definitions");
                return Err(self.mistake(codes::DIVERGES, text, span, None));
            }
            let body = call(d, args, self.context.facts)
                .map_err(|e| Failure::Fatal(self.explain(Refusal::new(name, e), span)))?;
            self.callers.push(name.to_string());
            self.strategy(&body)?;
            self.callers.pop();
            return Ok(());
        }
        if self.traverses(name) {
            let call = Strategy::Call { name: name.to_string(), args: args.to_vec(), span };
            return self.traverse(&call, span);
        }
        self.rule(name, args, span)
    }

    fn traverses(&self, name: &str) -> bool {
        let own = TRAVERSALS.contains(&name) || name == "body" || self.tree.predicates().contains(&name);
        own && self.context.definitions.find(name, self.context.target).is_none()
    }

    /// A traversal of the tree from the place in force.
    fn traverse(&mut self, s: &Strategy, span: Option<Span>) -> Result<(), Failure> {
        let path = self.focus_now();
        let words = vocabulary(&self.tree);
        let root = Rooted { tree: Rc::new(self.tree.clone()), path };
        let out = rewrite(self.context, &words, s, root, Log::default());
        let out = out.map_err(|r| {
            let failed = r.diagnostic.code == codes::FAILED;
            let r = self.explain(r, span);
            if failed { Failure::Refused(r) } else { Failure::Fatal(r) }
        })?;
        for (evidence, before) in out.state.steps() {
            self.trace.steps.push(evidence.clone());
            self.trace.trees.push(before.clone());
            self.count(span)?;
        }
        self.tree = (*out.tree.tree).clone();
        Ok(())
    }

    fn rule(&mut self, name: &str, args: &[Argument], span: Option<Span>) -> Result<(), Failure> {
        let name = crate::words::current(name);
        let rules = self.tree.rules();
        if !rules.contains(&name) {
            let mut known: Vec<&str> = self.context.definitions.names(self.context.target);
            known.extend(&rules);
            known.extend(["id", "fail", "try", "repeat"]);
            known.extend(TRAVERSALS);
            known.extend(self.tree.predicates());
            let near = known.iter().copied().min_by_key(|k| distance(k, name));
            let meant = crate::words::meant(name).filter(|m| rules.contains(m));
            let help = match meant {
                Some(m) => Some(format!("that step is called `{m}` here")),
                None => near
                    .filter(|k| distance(k, name) <= 1 + name.len() / 3)
                    .map(|k| format!("did you mean `{k}`?")),
            };
            return Err(self.mistake(
                codes::UNKNOWN_STEP,
                format!("there is no step `{name}`"),
                span,
                help.as_deref(),
            ));
        }
        self.count(span)?;
        let mut bound = Vec::new();
        for a in args {
            let value = match &a.value {
                crate::ArgValue::Expr(e) => {
                    lathe_space::reduce(e, &|n| (self.context.facts)(n).map(Expr::Value)).map_err(|err| {
                        self.mistake(codes::ARITHMETIC, format!("`{e}`: {err}"), a.span.or(span), None)
                    })?
                }
                crate::ArgValue::Strategy(_) => {
                    let text = format!("`{name}` takes no steps as arguments");
                    return Err(self.mistake(codes::CALL, text, a.span.or(span), None));
                }
            };
            bound.push(StepArg { name: a.name.clone(), value, span: a.span });
        }
        let focus = self.focus_now();
        match self.tree.apply(name, &focus, &bound) {
            Ok((tree, mut evidence)) => {
                evidence.args = bound.iter().map(StepArg::to_string).collect();
                evidence.path = focus;
                // The tree before it is what the last step left.
                let last = self.trace.steps.last().map(|e| e.after.clone());
                evidence.before = last.unwrap_or_else(|| self.tree.digest());
                evidence.after = tree.digest();
                self.trace.trees.push(std::mem::replace(&mut self.tree, tree));
                self.trace.steps.push(evidence);
                self.spend(span)
            }
            Err(r) => Err(Failure::Refused(self.explain(r, span))),
        }
    }

    /// Where the innermost location is now: steps before may have moved it. A place that cannot be found
    /// any more (a loop that was renamed) is where it was last.
    fn focus_now(&mut self) -> Vec<usize> {
        let mut within: Vec<usize> = Vec::new();
        for n in 0..self.focus.len() {
            let (location, _, span) = self.focus[n].clone();
            if let Ok([one]) = self.places(&location, &within, span).as_deref() {
                self.focus[n].1 = one.clone();
            }
            within = self.focus[n].1.clone();
        }
        within
    }

    fn repeat(&mut self, step: &Strategy, span: Option<Span>) -> Result<(), Failure> {
        loop {
            let (before, done) = (self.tree.hash(), self.trace.steps.len());
            if self.attempt(step)?.is_err() {
                return Ok(());
            }
            // A step that changes nothing would be repeated for ever.
            if self.tree.hash() == before {
                self.trace.steps.truncate(done);
                self.trace.trees.truncate(done);
                return Ok(());
            }
            self.count(span)?;
        }
    }

    fn count(&mut self, span: Option<Span>) -> Result<(), Failure> {
        self.steps += 1;
        if self.steps <= self.context.steps {
            return Ok(());
        }
        let text = format!("the strategy does not end: stopped after {} steps", self.context.steps);
        let help = "`repeat(s)` ends when `s` fails or changes nothing";
        Err(self.mistake(codes::DIVERGES, text, span, Some(help)))
    }

    /// Counts what a step costs: a strategy that makes the tree larger and larger is stopped long before its last step.
    fn spend(&mut self, span: Option<Span>) -> Result<(), Failure> {
        let size = self.tree.size();
        match self.left.checked_sub(size) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => {
                let steps = self.trace.steps.len();
                let text = format!(
                    "the strategy does not end: after {steps} steps the program is {size} nodes large"
                );
                let help = "what is repeated makes the program larger every time";
                Err(self.mistake(codes::DIVERGES, text, span, Some(help)))
            }
        }
    }

    /// The definitions on the way to a call that is nested too deeply, from the first repeated one.
    fn cycle(&self) -> String {
        let last = self.callers.last().map(String::as_str).unwrap_or_default();
        let before = self.callers[..self.callers.len().saturating_sub(1)].iter().rposition(|c| c == last);
        let from = before.unwrap_or(0);
        let names: Vec<String> = self.callers[from..].iter().take(8).map(|c| format!("`{c}`")).collect();
        names.join(" → ")
    }

    fn mistake(
        &self,
        code: lathe_diagnostics::Code,
        text: String,
        span: Option<Span>,
        help: Option<&str>,
    ) -> Failure {
        let mut d = Diagnostic::error(code, text);
        d.help = help.map(str::to_string);
        Failure::Fatal(self.explain(Refusal::new("strategy", d), span))
    }

    /// Adds the place of the step, and the definitions on the way to it.
    fn explain(&self, mut r: Refusal, span: Option<Span>) -> Refusal {
        if let Some(s) = span
            && !r.diagnostic.marks.iter().any(|m| m.text == STEP)
        {
            r.diagnostic.marks.insert(0, lathe_diagnostics::Mark { span: s, text: STEP.to_string() });
        }
        if !self.callers.is_empty() && !r.diagnostic.notes.iter().any(|n| n.starts_with(CALLED)) {
            let shown = self.callers.iter().take(6).map(|c| format!("`{c}`")).collect::<Vec<_>>();
            r.diagnostic.notes.push(format!("{CALLED}{}", shown.join(" → ")));
        }
        r
    }
}

const STEP: &str = "this step";
const CALLED: &str = "called through ";

/// Adds the place of a step to a message made outside of a run.
pub fn at_step(d: Diagnostic, span: Option<Span>) -> Diagnostic {
    mark(d, span, STEP)
}
