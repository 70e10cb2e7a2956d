//! The engine for trees whose sub-trees are trees: every combinator and traversal, with a budget, a trace,
//! and explanations.
//!
//! Steps are counted by the published convention: each successful application of a rule, predicate, `id` or
//! one-level traversal counts 1, in branches that are given up too; `;` and `<+` are free. So `id` is 1,
//! `body(id)` 2, `body(id) ; body(id)` 4, `body(id ; id)` 3.
//!
//! A strategy first runs without keeping reasons, since most failures are choices. If it fails as a whole it
//! runs once more, and the last reasons are told.

mod explain;
mod resolve;
mod search;

use crate::bind::{call, mark};
use crate::codes;
use crate::evidence::{Discharge, Evidence, Refusal};
use crate::node::{Entry, Node, Vocabulary, Why};
use crate::run::Context;
use crate::syntax::{ArgValue, Argument, Strategy};
use crate::tree::{StepArg, hash_text};
use lathe_diagnostics::{Code as DiagnosticCode, Diagnostic, Span};
use lathe_space::{Expr, Value, eval};
use std::cell::RefCell;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// One rule that was applied and not undone.
#[derive(Clone, Debug)]
pub struct Applied<N> {
    pub rule: String,
    pub args: Vec<String>,
    pub path: Vec<usize>,
    /// At the path.
    pub before: N,
    pub after: N,
}

/// What a strategy did.
#[derive(Clone, Debug)]
pub struct Outcome<N: Node> {
    pub tree: N,
    pub state: N::State,
    /// By the published convention.
    pub steps: u64,
    pub trace: Vec<Applied<N>>,
}

/// How deep definitions may call one another.
const DEPTH: usize = 250;

/// Applies a strategy to a tree. Definitions are those of the context; its budget bounds the applications
/// that are tried.
pub fn rewrite<N: Node>(
    context: &Context,
    words: &Vocabulary<N>,
    strategy: &Strategy,
    tree: N,
    state: N::State,
) -> Result<Outcome<N>, Refusal> {
    let searched = RefCell::new(HashMap::new());
    let start = |explain: bool| {
        let mut e = Engine::new(context, words, state.clone(), explain, &searched);
        let result = e.strategy(strategy).and_then(|code| e.run(&code, &tree));
        (e, result)
    };
    match start(false) {
        (e, Ok(tree)) => Ok(Outcome { tree, state: e.state, steps: e.steps, trace: e.trace }),
        (_, Err(Stop::Fatal(r))) => Err(*r),
        (_, Err(Stop::Failed)) => {
            // The same once more, with reasons.
            let (e, result) = start(true);
            match result {
                Err(Stop::Fatal(r)) => Err(*r),
                _ => Err(e.explanation(&tree)),
            }
        }
    }
}

/// The records of a trace, for storing.
pub fn evidence<N: Node>(root: &N, trace: &[Applied<N>]) -> Vec<Evidence> {
    let mut tree = root.clone();
    let mut out = Vec::new();
    for a in trace {
        let next = replace_at(&tree, &a.path, &a.after);
        let mut e = Evidence::new(&a.rule, 1).oblige(format!("the equation `{}`", a.rule), Discharge::ByRule);
        e.args.clone_from(&a.args);
        e.path.clone_from(&a.path);
        e.before = hash_text(tree.hash());
        e.after = hash_text(next.hash());
        out.push(e);
        tree = next;
    }
    out
}

/// Applies recorded steps again; every tree in between must have the recorded hash. The definitions of the
/// context are what the tests of rules that search may call.
pub fn replay_nodes<N: Node>(
    context: &Context,
    words: &Vocabulary<N>,
    root: &N,
    mut state: N::State,
    steps: &[Evidence],
) -> Result<(N, N::State), Refusal> {
    let mut tree = root.clone();
    for (n, e) in steps.iter().enumerate() {
        let wrong = |what: &str| {
            let text = format!("replay of step {} (`{}`): {what}", n + 1, e.rule);
            Refusal::new(&e.rule, Diagnostic::error(codes::REPLAY, text))
        };
        if hash_text(tree.hash()) != e.before {
            return Err(wrong("the tree before it is another one"));
        }
        let Some(entry) = words.get(&e.rule) else { return Err(wrong("there is no such rule")) };
        let focus = e.path.iter().try_fold(tree.clone(), |t, n| t.child(*n));
        let focus = focus.ok_or_else(|| wrong("there is no such place"))?;
        let values = |args: &[String]| {
            let args = args.iter().map(|a| crate::run::parse_arg(a)).collect::<Option<Vec<_>>>();
            args.ok_or_else(|| wrong("an argument cannot be read"))
        };
        let after = match (entry, e.args.split_first()) {
            (Entry::Rule(f), _) => f(&focus, &mut state, &values(&e.args)?),
            (Entry::Tested(f), Some((test, args))) => {
                let searched = RefCell::new(HashMap::new());
                let mut engine = Engine::new(context, words, state.clone(), false, &searched);
                let test = crate::text::parse_strategy(test).map_err(|d| Refusal::new(&e.rule, d))?;
                let test = engine.strategy(&test).map_err(|_| wrong("its test cannot be read"))?;
                let out = engine.tested(f, &test, &focus, &values(args)?);
                let out = out.map_err(|_| wrong("its test does not end"))?;
                state = engine.state;
                out
            }
            _ => return Err(wrong("there is no such rule")),
        };
        let after = after.map_err(|w| wrong(&w.to_string()))?;
        tree = replace_at(&tree, &e.path, &after);
        if hash_text(tree.hash()) != e.after {
            return Err(wrong("the tree after it is another one"));
        }
    }
    Ok((tree, state))
}

/// The tree with another sub-tree at a path.
pub fn replace_at<N: Node>(root: &N, path: &[usize], new: &N) -> N {
    match path.split_first() {
        None => new.clone(),
        Some((first, rest)) => match root.child(*first) {
            Some(c) => root.with_child(*first, replace_at(&c, rest, new)),
            None => root.clone(),
        },
    }
}

/// A strategy ready to run: names resolved, arguments computed.
enum Code<N: Node> {
    Id,
    Fail(String),
    Rule(String, crate::node::RuleFn<N>, Vec<StepArg>, Option<Span>),
    Predicate(String, crate::node::PredicateFn<N>, Vec<StepArg>),
    /// With the test as text, for the record.
    Tested(String, crate::node::TestedFn<N>, Shared<N>, String, Vec<StepArg>),
    Into(String, crate::node::IntoFn<N>, Vec<StepArg>, Shared<N>),
    /// What it is called with, for finding it again.
    Search(String, String, crate::node::SearchFn<N>, Vec<StepArg>, Vec<Shared<N>>),
    Seq(Vec<Shared<N>>),
    Choice(Vec<Shared<N>>),
    Not(Shared<N>),
    /// Succeeds where its strategy does, and changes nothing.
    Where(Shared<N>),
    Repeat(Shared<N>),
    One(Shared<N>),
    All(Shared<N>),
    Some(Shared<N>),
    TopDown(Shared<N>),
    BottomUp(Shared<N>),
    AllTopDown(Shared<N>),
    AllBottomUp(Shared<N>),
    TryAll(Shared<N>),
    Normalize(Shared<N>),
    /// A definition, unfolded when it is first run; what it is called, for messages.
    Call(Box<dyn Fn() -> Strategy>, String, RefCell<Option<Shared<N>>>),
}

type Shared<N> = Rc<Code<N>>;

/// What is repeated: a new tree, or none where it fails.
type Once<'f, E, N> = dyn FnMut(&mut E, &N) -> Result<Option<N>, Stop> + 'f;

/// Why there is no result.
enum Stop {
    /// Can be caught by `<+`.
    Failed,
    /// A mistake in the strategy, or no end.
    Fatal(Box<Refusal>),
}

struct Reason {
    rule: String,
    path: Vec<usize>,
    why: String,
    term: String,
    /// The shape fitted: says more than what was not there.
    condition: bool,
}

struct Engine<'a, N: Node> {
    context: &'a Context<'a>,
    words: &'a Vocabulary<N>,
    state: N::State,
    steps: u64,
    /// Applications that were tried.
    tried: u64,
    path: Vec<usize>,
    trace: Vec<Applied<N>>,
    callers: Vec<String>,
    /// Calls of definitions by name and arguments.
    calls: HashMap<String, Shared<N>>,
    /// Where a strategy applies nowhere in a sub-tree, which lives as long as this does.
    nowhere: HashSet<(usize, usize)>,
    alive: Vec<N>,
    reasons: Option<Vec<Reason>>,
    /// What searches found: the run that explains does not repeat them.
    searched: &'a RefCell<search::Found<N>>,
}

impl<'a, N: Node> Engine<'a, N> {
    fn new(
        context: &'a Context<'a>,
        words: &'a Vocabulary<N>,
        state: N::State,
        explain: bool,
        searched: &'a RefCell<search::Found<N>>,
    ) -> Self {
        Engine {
            context,
            words,
            state,
            steps: 0,
            tried: 0,
            path: Vec::new(),
            trace: Vec::new(),
            callers: Vec::new(),
            calls: HashMap::new(),
            nowhere: HashSet::new(),
            alive: Vec::new(),
            reasons: explain.then(Vec::new),
            searched,
        }
    }

    /// Applies a rule that asks where a strategy applies.
    fn tested(
        &mut self,
        f: &crate::node::TestedFn<N>,
        test: &Shared<N>,
        t: &N,
        args: &[StepArg],
    ) -> Result<Result<N, Why>, Stop> {
        let (mut state, mut fatal) = (self.state.clone(), None);
        let mut holds = |n: &N| match self.probe(test, n) {
            Ok(yes) => yes && fatal.is_none(),
            Err(stop) => {
                fatal.get_or_insert(stop);
                false
            }
        };
        let result = f(t, &mut state, &mut holds, args);
        if let Some(stop) = fatal {
            return Err(stop);
        }
        if result.is_ok() {
            self.state = state;
        }
        Ok(result)
    }

    fn run(&mut self, code: &Code<N>, t: &N) -> Result<N, Stop> {
        match code {
            Code::Id => self.success(t.clone()),
            Code::Fail(why) => self.failure("fail", why.clone(), t),
            Code::Rule(name, f, args, span) => {
                self.count(*span)?;
                match f(t, &mut self.state, args) {
                    Ok(new) => {
                        self.trace.push(Applied {
                            rule: name.clone(),
                            args: args.iter().map(StepArg::to_string).collect(),
                            path: self.path.clone(),
                            before: t.clone(),
                            after: new.clone(),
                        });
                        self.success(new)
                    }
                    Err(Why::Mistake(text)) => {
                        Err(self.mistake(codes::CALL, format!("`{name}`: {text}"), *span, None))
                    }
                    Err(why) => {
                        if self.reasons.is_some() {
                            let condition = matches!(why, Why::Condition(_));
                            let out = self.failure(name, why.to_string(), t);
                            if let Some(r) = self.reasons.as_mut().and_then(|r| r.last_mut()) {
                                r.condition = condition;
                            }
                            return out;
                        }
                        Err(Stop::Failed)
                    }
                }
            }
            Code::Predicate(name, f, args) => {
                self.count(None)?;
                if f(t, args) {
                    return self.success(t.clone());
                }
                if self.reasons.is_some() {
                    return self.failure(name, "the predicate does not hold".to_string(), t);
                }
                Err(Stop::Failed)
            }
            Code::Tested(name, f, test, shown, args) => {
                self.count(None)?;
                match self.tested(f, test, t, args)? {
                    Ok(new) => {
                        let args = std::iter::once(shown.clone()).chain(args.iter().map(StepArg::to_string));
                        self.trace.push(Applied {
                            rule: name.clone(),
                            args: args.collect(),
                            path: self.path.clone(),
                            before: t.clone(),
                            after: new.clone(),
                        });
                        self.success(new)
                    }
                    Err(why) => {
                        let condition = matches!(why, Why::Condition(_));
                        let out = self.failure(name, why.to_string(), t);
                        if let Some(r) = self.reasons.as_mut().and_then(|r| r.last_mut()) {
                            r.condition = condition;
                        }
                        out
                    }
                }
            }
            Code::Into(name, f, args, s) => match f(t, args) {
                Some(n) => {
                    let new = self.at_child(s, t, n)?;
                    self.success(new)
                }
                None => {
                    if self.reasons.is_some() {
                        return self.failure(name, "there is no such part here".to_string(), t);
                    }
                    Err(Stop::Failed)
                }
            },
            Code::Search(name, call, f, args, moves) => self.search(name, call, f, args, moves, t),
            Code::Seq(v) => {
                let mut t = t.clone();
                for s in v {
                    t = self.run(s, &t)?;
                }
                Ok(t)
            }
            Code::Choice(v) => {
                for s in v {
                    if let Some(new) = self.attempt(s, t)? {
                        return Ok(new);
                    }
                }
                Err(Stop::Failed)
            }
            Code::Not(s) => match self.probe(s, t)? {
                true => self.failure("not", "the strategy applies".to_string(), t),
                false => self.success(t.clone()),
            },
            Code::Where(s) => match self.probe(s, t)? {
                true => self.success(t.clone()),
                false => Err(Stop::Failed),
            },
            Code::Repeat(s) => self.repeat(t, &mut |e, t| e.attempt(s, t)),
            Code::Normalize(s) => self.repeat(t, &mut |e, t| {
                let marks = e.marks();
                match e.top_down(s, t) {
                    Ok(new) => Ok(Some(new)),
                    Err(Stop::Failed) => {
                        e.undo(marks);
                        Ok(None)
                    }
                    Err(fatal) => Err(fatal),
                }
            }),
            Code::One(s) => {
                for k in 0..t.arity() {
                    let n = t.visited(k);
                    if let Some(new) = self.attempt_child(s, t, n)? {
                        return self.success(new);
                    }
                }
                Err(Stop::Failed)
            }
            Code::All(s) => {
                let mut out = t.clone();
                for k in 0..t.arity() {
                    out = self.at_child(s, &out, t.visited(k))?;
                }
                self.success(out)
            }
            Code::Some(s) => {
                let (mut out, mut any) = (t.clone(), false);
                for k in 0..t.arity() {
                    if let Some(new) = self.attempt_child(s, &out, t.visited(k))? {
                        out = new;
                        any = true;
                    }
                }
                if any { self.success(out) } else { Err(Stop::Failed) }
            }
            Code::TopDown(s) => self.top_down(s, t),
            Code::BottomUp(s) => self.bottom_up(s, t),
            Code::AllTopDown(s) => {
                let mut out = self.run(s, t)?;
                for k in 0..out.arity() {
                    let n = out.visited(k);
                    out = self.at_child_of(&out, n, &mut |e, c| e.run(code, c))?;
                }
                self.success(out)
            }
            Code::AllBottomUp(s) => {
                let mut out = t.clone();
                for k in 0..t.arity() {
                    out = self.at_child_of(&out, t.visited(k), &mut |e, c| e.run(code, c))?;
                }
                self.steps += 1;
                self.run(s, &out)
            }
            Code::TryAll(s) => {
                let mut out = t.clone();
                for k in 0..t.arity() {
                    // Steps may have taken children away.
                    if k >= out.arity() {
                        break;
                    }
                    out = self.at_child_of(&out, t.visited(k), &mut |e, c| e.run(code, c))?;
                }
                self.steps += 1;
                match self.attempt(s, &out)? {
                    Some(new) => Ok(new),
                    None => self.success(out),
                }
            }
            Code::Call(body, shown, unfolded) => {
                self.callers.push(shown.clone());
                if self.callers.len() > DEPTH {
                    let text = format!("the strategy does not end: {}", self.cycle());
                    let help = "a definition that calls itself needs a step that fails in the end";
                    return Err(self.mistake(codes::DIVERGES, text, None, Some(help)));
                }
                let code = unfolded.borrow().clone();
                let code = match code {
                    Some(c) => c,
                    None => {
                        let c = self.strategy(&body())?;
                        *unfolded.borrow_mut() = Some(c.clone());
                        c
                    }
                };
                let out = self.run(&code, t);
                if out.is_ok() || matches!(out, Err(Stop::Failed)) {
                    self.callers.pop();
                }
                out
            }
        }
    }

    /// `s <+ one(topDown(s))`
    fn top_down(&mut self, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        let key = t.address().map(|a| (Rc::as_ptr(s) as *const u8 as usize, a));
        if self.reasons.is_none() && key.is_some_and(|k| self.nowhere.contains(&k)) {
            return Err(Stop::Failed);
        }
        if let Some(new) = self.attempt(s, t)? {
            return Ok(new);
        }
        for k in 0..t.arity() {
            let n = t.visited(k);
            match self.at_child_of(t, n, &mut |e, c| e.top_down(s, c)) {
                Ok(new) => return self.success(new),
                Err(Stop::Failed) => {}
                Err(fatal) => return Err(fatal),
            }
        }
        if let Some(k) = key {
            self.nowhere.insert(k);
            self.alive.push(t.clone());
        }
        Err(Stop::Failed)
    }

    /// `one(bottomUp(s)) <+ s`
    fn bottom_up(&mut self, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        for k in 0..t.arity() {
            let n = t.visited(k);
            match self.at_child_of(t, n, &mut |e, c| e.bottom_up(s, c)) {
                Ok(new) => return self.success(new),
                Err(Stop::Failed) => {}
                Err(fatal) => return Err(fatal),
            }
        }
        match self.attempt(s, t)? {
            Some(new) => Ok(new),
            None => Err(Stop::Failed),
        }
    }

    /// The last success; coming back to a tree that was seen before is no end.
    fn repeat(&mut self, t: &N, once: &mut Once<Self, N>) -> Result<N, Stop> {
        let mut t = t.clone();
        let mut seen: HashMap<u64, usize> = HashMap::from([(t.hash(), self.trace.len())]);
        while let Some(new) = once(self, &t)? {
            self.count(None)?;
            t = new;
            if let Some(since) = seen.insert(t.hash(), self.trace.len()) {
                let rules: Vec<String> = self.trace[since.min(self.trace.len())..]
                    .iter()
                    .take(8)
                    .map(|a| format!("`{}`", a.rule))
                    .collect();
                let what = if rules.is_empty() {
                    "what is repeated changes nothing".to_string()
                } else {
                    format!("{} lead back to the same place", rules.join(" → "))
                };
                let text = format!("the strategy does not end: {what}");
                let help = "`repeat(s)` ends when `s` fails";
                return Err(self.mistake(codes::DIVERGES, text, None, Some(help)));
            }
        }
        Ok(t)
    }

    fn at_child(&mut self, s: &Shared<N>, t: &N, n: usize) -> Result<N, Stop> {
        self.at_child_of(t, n, &mut |e, c| e.run(s, c))
    }

    fn at_child_of(
        &mut self,
        t: &N,
        n: usize,
        f: &mut dyn FnMut(&mut Self, &N) -> Result<N, Stop>,
    ) -> Result<N, Stop> {
        let Some(c) = t.child(n) else { return Err(Stop::Failed) };
        self.path.push(n);
        let out = f(self, &c);
        self.path.pop();
        let new = out?;
        let same = c.address().is_some() && new.address() == c.address();
        Ok(if same { t.clone() } else { t.with_child(n, new) })
    }

    fn marks(&self) -> (usize, N::State) {
        (self.trace.len(), self.state.clone())
    }

    fn undo(&mut self, marks: (usize, N::State)) {
        self.trace.truncate(marks.0);
        self.state = marks.1;
    }

    /// On failure everything is as before.
    fn attempt(&mut self, s: &Code<N>, t: &N) -> Result<Option<N>, Stop> {
        // Single rules leave nothing behind when they fail.
        if matches!(s, Code::Id | Code::Predicate(..)) {
            return match self.run(s, t) {
                Ok(new) => Ok(Some(new)),
                Err(Stop::Failed) => Ok(None),
                Err(fatal) => Err(fatal),
            };
        }
        let (marks, callers, path) = (self.marks(), self.callers.len(), self.path.len());
        match self.run(s, t) {
            Ok(new) => Ok(Some(new)),
            Err(Stop::Failed) => {
                self.undo(marks);
                self.callers.truncate(callers);
                self.path.truncate(path);
                Ok(None)
            }
            Err(fatal) => Err(fatal),
        }
    }

    fn attempt_child(&mut self, s: &Shared<N>, t: &N, n: usize) -> Result<Option<N>, Stop> {
        let marks = self.marks();
        match self.at_child(s, t, n) {
            Ok(new) => Ok(Some(new)),
            Err(Stop::Failed) => {
                self.undo(marks);
                Ok(None)
            }
            Err(fatal) => Err(fatal),
        }
    }

    /// Whether a strategy would apply; nothing stays of it.
    fn probe(&mut self, s: &Shared<N>, t: &N) -> Result<bool, Stop> {
        let marks = self.marks();
        let applies = self.attempt(s, t)?.is_some();
        self.undo(marks);
        Ok(applies)
    }

    fn success(&mut self, t: N) -> Result<N, Stop> {
        self.steps += 1;
        self.count(None)?;
        Ok(t)
    }

    fn failure(&mut self, rule: &str, why: String, t: &N) -> Result<N, Stop> {
        let path = self.path.clone();
        if let Some(r) = &mut self.reasons {
            if r.len() >= 1000 {
                r.drain(..500);
            }
            r.push(Reason { rule: rule.to_string(), path, why, term: t.show(), condition: false });
        }
        Err(Stop::Failed)
    }

    fn count(&mut self, span: Option<Span>) -> Result<(), Stop> {
        self.tried += 1;
        if self.tried <= self.context.steps {
            return Ok(());
        }
        let last: Vec<String> =
            self.trace.iter().rev().take(4).rev().map(|a| format!("`{}`", a.rule)).collect();
        let text = format!("the strategy does not end: stopped after {} steps", self.context.steps);
        let help = if last.is_empty() {
            "`repeat(s)` ends when `s` fails".to_string()
        } else {
            format!("the last rules were {}", last.join(", "))
        };
        Err(self.mistake(codes::DIVERGES, text, span, Some(&help)))
    }

    /// The definitions on the way, from the first repeated one.
    fn cycle(&self) -> String {
        let last = self.callers.last().map(String::as_str).unwrap_or_default();
        let before = self.callers[..self.callers.len().saturating_sub(1)].iter().rposition(|c| c == last);
        let names: Vec<String> =
            self.callers[before.unwrap_or(0)..].iter().take(8).map(|c| format!("`{c}`")).collect();
        names.join(" → ")
    }
}

/// What is built in for every kind of tree.
const BUILT_IN: [&str; 4] = ["id", "fail", "try", "repeat"];

/// What goes through trees, or asks about them.
pub const TRAVERSALS: [&str; 13] = [
    "not",
    "where",
    "one",
    "all",
    "some",
    "topDown",
    "bottomUp",
    "allTopDown",
    "allBottomUp",
    "tryAll",
    "normalize",
    "outermost",
    "innermost",
];

fn show_call(name: &str, args: &[Argument]) -> String {
    let args: Vec<String> = args
        .iter()
        .map(|a| match &a.value {
            ArgValue::Expr(e) => e.to_string(),
            ArgValue::Strategy(s) => s.to_string(),
        })
        .collect();
    if args.is_empty() { name.to_string() } else { format!("{name}({})", args.join(", ")) }
}
