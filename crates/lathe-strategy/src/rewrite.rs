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
mod record;
mod resolve;
mod search;
mod walk;

pub use record::{evidence, replace_at, replay_nodes};

use crate::bind::{call, mark};
use crate::codes;
use crate::context::{Context, LEAST, WORK};
use crate::evidence::{Evidence, Obligation, Refusal};
use crate::node::{Entry, Node, Vocabulary, Why};
use crate::syntax::{ArgValue, Argument, Strategy};
use crate::tree::StepArg;
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
    /// Applications that were tried, whether they succeeded or not.
    pub tried: u64,
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
    rewrite_within(context, words, strategy, tree, state, &[])
}

/// As [`rewrite`], called by a strategy that is reached through the definitions `callers`.
fn rewrite_within<N: Node>(
    context: &Context,
    words: &Vocabulary<N>,
    strategy: &Strategy,
    tree: N,
    state: N::State,
    callers: &[String],
) -> Result<Outcome<N>, Refusal> {
    let searched = RefCell::new(HashMap::new());
    let start = |explain: bool| {
        let mut e = Engine::new(context, words, state.clone(), explain, &searched);
        e.callers = callers.to_vec();
        e.left = tree.cost().max(LEAST).saturating_mul(WORK);
        let result = e.strategy(strategy).and_then(|code| e.run(&code, &tree));
        (e, result)
    };
    match start(false) {
        (e, Ok(tree)) => Ok(Outcome { tree, state: e.state, steps: e.steps, tried: e.tried, trace: e.trace }),
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

/// A strategy ready to run: names resolved, arguments computed.
enum Code<N: Node> {
    Id,
    Fail(String),
    Rule(String, crate::node::RuleFn<N>, Vec<StepArg>, Option<Span>),
    Predicate(String, crate::node::PredicateFn<N>, Vec<StepArg>, Option<Span>),
    /// With the test as text, for the record.
    Tested(String, crate::node::TestedFn<N>, Shared<N>, String, Vec<StepArg>, Option<Span>),
    Into(String, crate::node::IntoFn<N>, Vec<StepArg>, Shared<N>, Option<Span>),
    /// A strategy that depends on the tree.
    Here(String, crate::node::HereFn<N>, Vec<StepArg>, Option<Span>),
    Search(search::Search<N>),
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
    /// How many parts of the sequences around it had succeeded.
    after: usize,
    /// The step.
    span: Option<Span>,
}

struct Engine<'a, N: Node> {
    context: &'a Context<'a>,
    words: &'a Vocabulary<N>,
    state: N::State,
    steps: u64,
    /// Applications that were tried.
    tried: u64,
    /// Nodes of trees that may still be looked at.
    left: u64,
    path: Vec<usize>,
    trace: Vec<Applied<N>>,
    callers: Vec<String>,
    /// Calls of definitions by name and arguments.
    calls: HashMap<String, Shared<N>>,
    /// What was made of strategies that depend on the tree, by their text: kept, so that no other one gets their address.
    made: HashMap<String, Shared<N>>,
    /// Where a strategy applies nowhere in a sub-tree, which lives as long as this does.
    nowhere: HashSet<(usize, usize)>,
    alive: Vec<N>,
    reasons: Option<Vec<Reason>>,
    /// Parts that succeeded of the sequences that are being run.
    reached: usize,
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
            left: 0,
            path: Vec::new(),
            trace: Vec::new(),
            callers: Vec::new(),
            calls: HashMap::new(),
            made: HashMap::new(),
            nowhere: HashSet::new(),
            alive: Vec::new(),
            reasons: explain.then(Vec::new),
            reached: 0,
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
            Code::Fail(why) => self.failure("fail", why.clone(), false, None, t),
            Code::Rule(name, f, args, span) => {
                self.count()?;
                match f(t, &mut self.state, args) {
                    Ok(new) => {
                        self.trace.push(Applied {
                            rule: name.clone(),
                            args: args.iter().map(StepArg::to_string).collect(),
                            path: self.path.clone(),
                            before: t.clone(),
                            after: new.clone(),
                        });
                        let cost = new.cost();
                        let Some(left) = self.left.checked_sub(cost) else {
                            return Err(self.endless(&format!("the program has grown to {cost} nodes")));
                        };
                        self.left = left;
                        self.success(new)
                    }
                    Err(why) => self.refused(name, why, *span, t),
                }
            }
            Code::Predicate(name, f, args, span) => {
                self.count()?;
                if f(t, args) {
                    return self.success(t.clone());
                }
                if self.reasons.is_some() {
                    return self.failure(name, "the predicate does not hold".to_string(), false, *span, t);
                }
                Err(Stop::Failed)
            }
            Code::Tested(name, f, test, shown, args, span) => {
                self.count()?;
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
                    Err(why) => self.refused(name, why, *span, t),
                }
            }
            Code::Into(name, f, args, s, span) => match f(t, args) {
                Some(n) => {
                    let new = self.at_child(s, t, n)?;
                    self.success(new)
                }
                None => {
                    if self.reasons.is_some() {
                        return self.failure(name, "there is no such part here".to_string(), false, *span, t);
                    }
                    Err(Stop::Failed)
                }
            },
            Code::Here(name, f, args, span) => {
                self.count()?;
                match f(t, args) {
                    Ok(s) => {
                        let text = s.to_string();
                        let code = match self.made.get(&text) {
                            Some(code) => code.clone(),
                            None => self.strategy(&s)?,
                        };
                        self.made.insert(text, code.clone());
                        self.run(&code, t)
                    }
                    Err(why) => self.refused(name, why, *span, t),
                }
            }
            Code::Search(s) => self.search(s, t),
            Code::Seq(v) => {
                let mut t = t.clone();
                let before = self.reached;
                for s in v {
                    let done = self.run(s, &t);
                    self.reached = if done.is_ok() { self.reached + 1 } else { before };
                    t = done?;
                }
                self.reached = before;
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
                true => self.failure("not", "the strategy applies".to_string(), false, None, t),
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
                self.enter(shown.clone())?;
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

    /// Into a definition; how deep they nest is bounded.
    fn enter(&mut self, caller: String) -> Result<(), Stop> {
        self.callers.push(caller);
        if self.callers.len() > DEPTH {
            let text = format!("the strategy does not end: {}", self.cycle());
            let help = "a definition that calls itself needs a step that fails in the end";
            return Err(self.mistake(codes::DIVERGES, text, None, Some(help)));
        }
        Ok(())
    }

    fn success(&mut self, t: N) -> Result<N, Stop> {
        self.steps += 1;
        self.count()?;
        Ok(t)
    }

    fn count(&mut self) -> Result<(), Stop> {
        self.tried += 1;
        if self.tried <= self.context.steps {
            return Ok(());
        }
        Err(self.endless(&format!("stopped after {} steps", self.context.steps)))
    }
}

/// What is built in for every kind of tree.
const BUILT_IN: [&str; 4] = ["id", "fail", "try", "repeat"];

/// What goes through trees, or asks about them.
pub const TRAVERSALS: [&str; 14] = [
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
    "rewritten",
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
