//! The engine of strategies, for all kinds of trees: every combinator and traversal, with a budget, a trace, and
//! explanations.
//!
//! Steps are counted by the published convention: each successful application of a rule, predicate, `id` or
//! one-level traversal counts 1, in branches that are given up too; `;` and `<+` are free. So `id` is 1,
//! `body(id)` 2, `body(id) ; body(id)` 4, `body(id ; id)` 3.
//!
//! A failure carries the reason that tells most of those that led to it. Where making reasons costs more than the rules
//! themselves, a strategy first runs without any, since most failures are choices, and once more if it fails as a whole.

mod explain;
mod record;
mod resolve;
mod search;
mod walk;

pub use record::{evidence, replace_at, replay_nodes};

use crate::bind::call;
use crate::codes;
use crate::context::{Context, EACH, LEAST, WORK};
use crate::evidence::{Evidence, Obligation, Refusal};
use crate::node::{Entry, Node, Vocabulary, Why};
use crate::syntax::{ArgValue, Argument, Strategy};
use crate::tree::{Location, StepArg};
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
        e.rooted = tree.focused();
        e.callers = callers.to_vec();
        let passes = WORK.saturating_add(strategy.written().saturating_mul(EACH));
        e.left = tree.cost().max(LEAST).saturating_mul(passes);
        let result = e.strategy(strategy).and_then(|code| e.run(&code, &tree));
        (e, result)
    };
    // Rules that refuse in full have made their reasons anyway.
    let mut first = start(tree.focused());
    if let (Engine { explain: false, .. }, Err(Stop::Failed(_))) = first {
        first = start(true);
    }
    match first {
        (e, Ok(tree)) => Ok(Outcome { tree, state: e.state, steps: e.steps, tried: e.tried, trace: e.trace }),
        (_, Err(Stop::Fatal(r))) => Err(*r),
        (_, Err(Stop::Failed(why))) => Err(explain::explanation(why, &tree)),
    }
}

/// A strategy ready to run: names resolved, arguments computed.
enum Code<N: Node> {
    Id,
    Fail(String),
    Rule(Step, crate::node::RuleFn<N>),
    Predicate(Step, crate::node::PredicateFn<N>),
    /// With the test as text, for the record.
    Tested(Step, crate::node::TestedFn<N>, Shared<N>, String),
    /// At one child.
    Into(Step, crate::node::IntoFn<N>, Shared<N>),
    /// A strategy that depends on the tree.
    Here(Step, crate::node::HereFn<N>),
    Search(search::Search<N>),
    Seq(Vec<Shared<N>>),
    Choice(Vec<Shared<N>>),
    /// At a place by name.
    At(Location, Shared<N>, Option<Span>),
    Repeat(Shared<N>),
    /// Through the tree.
    Walk(Walk, Shared<N>),
    /// A definition, unfolded when it is first run; what it is called, for messages.
    Call(Box<dyn Fn() -> Strategy>, String, RefCell<Option<Shared<N>>>),
}

/// A call of what a kind of tree has a word for.
#[derive(Clone)]
struct Step {
    name: String,
    args: Vec<StepArg>,
    span: Option<Span>,
}

impl Step {
    fn applied<N: Node>(&self, test: Option<&String>, path: Vec<usize>, before: &N, after: &N) -> Applied<N> {
        Applied {
            rule: self.name.clone(),
            args: test.cloned().into_iter().chain(self.args.iter().map(StepArg::to_string)).collect(),
            path,
            before: before.clone(),
            after: after.clone(),
        }
    }
}

/// Traversals, and questions.
#[derive(Clone, Copy)]
enum Walk {
    Not,
    /// Succeeds where its strategy does, and changes nothing.
    Where,
    One,
    All,
    Some,
    TopDown,
    BottomUp,
    AllTopDown,
    AllBottomUp,
    TryAll,
    Normalize,
}

type Shared<N> = Rc<Code<N>>;

/// Why there is no result.
enum Stop {
    /// Can be caught by `<+`.
    Failed(Reasons),
    /// A mistake in the strategy, or no end.
    Fatal(Box<Refusal>),
}

/// The reason that tells most, where reasons are kept.
type Reasons = Option<Box<explain::Reason>>;

/// A new tree, or why not, which a choice makes up for.
type Tried<N> = Result<Result<N, Reasons>, Stop>;

/// What is repeated.
type Once<'f, E, N> = dyn FnMut(&mut E, &N) -> Tried<N> + 'f;

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
    /// Whether failures have reasons.
    explain: bool,
    /// Whether places have names.
    rooted: bool,
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
            explain,
            rooted: false,
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
            Ok(applies) => applies.is_ok() && fatal.is_none(),
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

    /// Strategies nest as deep as trees do: what a step does is in functions of its own, for a small frame.
    fn run(&mut self, code: &Code<N>, t: &N) -> Result<N, Stop> {
        match code {
            Code::Id => self.success(t.clone()),
            Code::Fail(why) => self.fail(why, t),
            Code::Rule(step, f) => self.rule(step, f, t),
            Code::Predicate(step, f) => self.predicate(step, f, t),
            Code::Tested(step, f, test, shown) => self.tested_rule(step, f, test, shown, t),
            Code::Into(step, f, s) => self.into(step, f, s, t),
            Code::Here(step, f) => {
                let code = self.here(step, f, t)?;
                self.run(&code, t)
            }
            Code::Search(s) => self.search(s, t),
            Code::Seq(v) => {
                let mut t = t.clone();
                for (n, s) in v.iter().enumerate() {
                    t = self.run(s, &t).map_err(|stop| stop.after(n))?;
                }
                Ok(t)
            }
            Code::Choice(v) => self.first(v.iter(), &mut |e, s| e.attempt(s, t)),
            Code::At(location, s, span) => match t.places(location) {
                Ok(places) => {
                    let new = self.first(places.iter(), &mut |e, place| e.attempt(s, place))?;
                    Ok(t.back(new))
                }
                Err(why) => self.refused("@", why, *span, t),
            },
            Code::Repeat(s) => self.repeat(t, &mut |e, t| e.attempt(s, t)),
            Code::Walk(walk, s) => {
                let new = self.walk(*walk, s, &t.fixed()).map_err(Stop::on_the_way)?;
                Ok(t.back(new))
            }
            Code::Call(body, shown, unfolded) => {
                let code = self.entered(body, shown, unfolded)?;
                let out = self.run(&code, t);
                if !matches!(out, Err(Stop::Fatal(_))) {
                    self.callers.pop();
                }
                out
            }
        }
    }

    #[inline(never)]
    fn fail(&mut self, why: &str, t: &N) -> Result<N, Stop> {
        let d = Diagnostic::error(codes::FAILED, format!("the strategy fails: {why}"));
        self.refused("fail", Why::Refused(Refusal::new("fail", d)), None, t)
    }

    #[inline(never)]
    fn rule(&mut self, step: &Step, f: &crate::node::RuleFn<N>, t: &N) -> Result<N, Stop> {
        self.count()?;
        match f(t, &mut self.state, &step.args) {
            Ok(new) => {
                self.trace.push(step.applied(None, self.path.clone(), t, &new));
                self.spend(&new)?;
                self.success(new)
            }
            Err(why) => self.refused(&step.name, why, step.span, t),
        }
    }

    #[inline(never)]
    fn predicate(&mut self, step: &Step, f: &crate::node::PredicateFn<N>, t: &N) -> Result<N, Stop> {
        self.count()?;
        match f(t, &step.args) {
            true => self.success(t.clone()),
            false => self.refused(&step.name, Why::Shape("the predicate does not hold"), step.span, t),
        }
    }

    #[inline(never)]
    fn tested_rule(
        &mut self,
        step: &Step,
        f: &crate::node::TestedFn<N>,
        test: &Shared<N>,
        shown: &String,
        t: &N,
    ) -> Result<N, Stop> {
        self.count()?;
        match self.tested(f, test, t, &step.args)? {
            Ok(new) => {
                self.trace.push(step.applied(Some(shown), self.path.clone(), t, &new));
                self.success(new)
            }
            Err(why) => self.refused(&step.name, why, step.span, t),
        }
    }

    fn into(&mut self, step: &Step, f: &crate::node::IntoFn<N>, s: &Shared<N>, t: &N) -> Result<N, Stop> {
        let at = t.fixed();
        let Some(n) = f(&at, &step.args) else {
            return self.refused(&step.name, Why::Shape("there is no such part here"), step.span, t);
        };
        let new = self.at_child(s, &at, n).map_err(Stop::on_the_way)?;
        self.success(t.back(new))
    }

    /// What a strategy that depends on the tree is here.
    #[inline(never)]
    fn here(&mut self, step: &Step, f: &crate::node::HereFn<N>, t: &N) -> Result<Shared<N>, Stop> {
        self.count()?;
        let s = match f(t, &step.args) {
            Ok(s) => s,
            Err(why) => return Err(self.stop(&step.name, why, step.span, t)),
        };
        let text = s.to_string();
        let code = match self.made.get(&text) {
            Some(code) => code.clone(),
            None => self.strategy(&s)?,
        };
        self.made.insert(text, code.clone());
        Ok(code)
    }

    /// Into a definition.
    #[inline(never)]
    fn entered(
        &mut self,
        body: &dyn Fn() -> Strategy,
        shown: &str,
        unfolded: &RefCell<Option<Shared<N>>>,
    ) -> Result<Shared<N>, Stop> {
        self.enter(shown.to_string())?;
        if let Some(code) = &*unfolded.borrow() {
            return Ok(code.clone());
        }
        let code = self.strategy(&body())?;
        *unfolded.borrow_mut() = Some(code.clone());
        Ok(code)
    }

    /// Counts what a step costs: a strategy that makes the tree larger and larger is stopped long before its last step.
    fn spend(&mut self, new: &N) -> Result<(), Stop> {
        let cost = new.cost();
        match self.left.checked_sub(cost) {
            Some(left) => {
                self.left = left;
                Ok(())
            }
            None => Err(self.endless(&format!("the program has grown to {cost} nodes"))),
        }
    }

    /// Into a definition; how deep they nest is bounded.
    fn enter(&mut self, caller: String) -> Result<(), Stop> {
        self.count()?;
        self.callers.push(caller);
        if self.callers.len() > DEPTH {
            let text = format!("the strategy calls itself without terminating: {}", self.cycle());
            let help = "a recursive definition needs a step that eventually fails";
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
pub const BUILT_IN: [&str; 4] = ["id", "fail", "try", "repeat"];

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
