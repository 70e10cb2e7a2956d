//! Trees as what strategies work on: one function within its module.

use crate::args::{Arg, Args, IntoRefusal};
use crate::codes;
use crate::handle::History;
use crate::names;
use crate::predicates;
use crate::rule::{Cursor, Edit, Rule};
use crate::taken::{self, Key, Left};
use lathe_diagnostics::Diagnostic;
use lathe_ir::structural_hash;
use lathe_ir::visit::{self, Path};
use lathe_ir::{Function, Module};
use lathe_strategy::syntax::Sort;
use lathe_strategy::{
    Context, Evidence, Location, Obligation, Refusal, RuleSignature, StepArg, Strategy, Trace, Tree,
};
use std::sync::Arc;

/// A function that is being transformed.
#[derive(Clone, Debug)]
pub struct Subject {
    /// Shared by all versions of the function.
    pub module: Arc<Module>,
    pub func: Function,
    /// What the steps made that led here.
    pub history: History,
    /// By what a step on it is found that was taken before; none where steps are taken again each time.
    key: Option<Key>,
}

impl PartialEq for Subject {
    /// The same program, whatever led to it.
    fn eq(&self, other: &Subject) -> bool {
        self.module == other.module && self.func == other.func
    }
}

impl Subject {
    /// A function to which nothing was done yet.
    pub fn new(module: &Module, func: &Function) -> Subject {
        Subject {
            module: Arc::new(module.clone()),
            func: func.clone(),
            history: History::default(),
            key: None,
        }
    }

    /// The same, for steps that need not be taken again where this process took them before.
    fn remembered(module: &Module, func: &Function) -> Subject {
        Subject { key: Some(taken::start(module, func)), ..Subject::new(module, func) }
    }

    fn step(&self, rule: &str, focus: &[usize], args: &[StepArg]) -> Result<(Subject, Evidence), Refusal> {
        let mut args =
            Args { items: args.iter().map(|a| (a.name.clone(), Arg::from(&a.value), a.span)).collect() };
        let cursor = Cursor {
            module: &self.module,
            func: &self.func,
            focus: focus.to_vec(),
            history: self.history.clone(),
        };
        if let Some(name) = crate::rule(rule).and_then(|r| left_out(&cursor, &r.signature, &args)) {
            args.items.insert(0, (None, Arg::Path(name), None));
        }
        let edit = apply(&cursor, rule, &args)?;
        let history = self.history.with(edit.made);
        Ok((Subject { module: self.module.clone(), func: edit.func, history, key: None }, edit.evidence))
    }
}

/// Runs a strategy (parameters bound, conditions over sizes decided) on a function. The step `open` comes
/// first, whether the strategy says so or not.
pub fn run(
    module: &Module,
    func: &Function,
    context: &Context,
    strategy: &Strategy,
) -> Result<(Function, Trace<Subject>), Refusal> {
    let all = Strategy::Seq(vec![open(), strategy.clone()]);
    let (subject, trace) = lathe_strategy::run(context, &all, Subject::remembered(module, func))?;
    Ok((subject.func, trace))
}

/// As [`run`] of no strategy, for who goes on with [`go_on`].
///
/// # Errors
/// As [`run`].
pub fn begin(
    module: &Module,
    func: &Function,
    context: &Context,
) -> Result<(Subject, Trace<Subject>), Refusal> {
    lathe_strategy::run(context, &open(), Subject::remembered(module, func))
}

/// Runs a strategy on what others left.
///
/// # Errors
/// As [`run`].
pub fn go_on(
    subject: &Subject,
    context: &Context,
    strategy: &Strategy,
) -> Result<(Subject, Trace<Subject>), Refusal> {
    lathe_strategy::go_on(context, strategy, subject.clone())
}

fn open() -> Strategy {
    Strategy::Call { name: "open".to_string(), args: Vec::new(), span: None }
}

/// Applies recorded steps to a function; every tree on the way must be the recorded one.
pub fn replay(module: &Module, func: &Function, steps: &[Evidence]) -> Result<Function, Refusal> {
    Ok(lathe_strategy::replay(Subject::new(module, func), steps)?.func)
}

/// The naive lowering: loops for every statement in index notation, and nothing else.
pub fn open_all(module: &Module, func: &Function) -> Result<Function, Refusal> {
    Ok(apply(&Cursor::new(module, func), "open", &Args::default())?.func)
}

/// What deciding one step may take ([`lathe_analysis::within_work`]): some seconds, where the steps of real programs take
/// milliseconds.
const WORK: u64 = 40_000_000;

/// Applies one rule by name: checks its arguments, and runs it on [`Work`](crate::work::Work).
pub fn apply(cursor: &Cursor, name: &str, args: &Args) -> Result<Edit, Refusal> {
    let Some(rule) = crate::rule(name) else {
        return Err(
            Diagnostic::error(codes::ARGUMENT, format!("there is no rule `{name}`")).into_refusal(name)
        );
    };
    apply_rule(cursor, rule, args)
}

/// Applies a rule, be it in the table or not, as [`apply`] does.
pub fn apply_rule(cursor: &Cursor, rule: &'static Rule, args: &Args) -> Result<Edit, Refusal> {
    args.check(&rule.signature)?;
    let mut edit = lathe_analysis::within_work(WORK, || crate::work::perform(cursor, rule, args))?;
    edit.evidence.before = digest(cursor.func);
    edit.evidence.after = digest(&edit.func);
    Ok(edit)
}

/// What evidence calls a function by.
pub fn digest(func: &Function) -> String {
    lathe_strategy::hexadecimal(lathe_ir::digest(func))
}

impl Tree for Subject {
    fn rules(&self) -> Vec<&'static str> {
        crate::rules().map(|r| r.name()).collect()
    }

    fn apply(&self, rule: &str, focus: &[usize], args: &[StepArg]) -> Result<(Self, Evidence), Refusal> {
        let Some(here) = &self.key else { return self.step(rule, focus, args) };
        let key = taken::step(here, rule, focus, args);
        if let Some(Left { module, func, history, evidence }) = taken::get(&key) {
            return Ok((Subject { module, func, history, key: Some(key) }, evidence));
        }
        let (made, evidence) = self.step(rule, focus, args)?;
        let Subject { module, func, history, .. } = made.clone();
        taken::put(key, Left { module, func, history, evidence: evidence.clone() });
        Ok((Subject { key: Some(key), ..made }, evidence))
    }

    fn arity(&self, path: &[usize]) -> usize {
        visit::at(&self.func.body, path).map_or(0, |s| s.children().len())
    }

    fn predicates(&self) -> &'static [&'static str] {
        predicates::NAMES
    }

    fn holds(&self, predicate: &str, path: &[usize], args: &[StepArg]) -> bool {
        let cursor = Cursor::new(&self.module, &self.func);
        predicates::holds(&cursor, predicate, path, args)
    }

    fn locate(&self, location: &Location, within: &[usize]) -> Result<Vec<Path>, Refusal> {
        let cursor = Cursor {
            module: &self.module,
            func: &self.func,
            focus: within.to_vec(),
            history: self.history.clone(),
        };
        match location {
            Location::Loop(name) => names::find_all_loops(&cursor, "loop", name),
            Location::Stmt(label) => names::find_family(&cursor, label).map(|p| vec![p]),
            // The interpreter picks; every place of the inner location is a candidate.
            Location::Outermost(l) | Location::Innermost(l) => self.locate(l, within),
        }
    }

    fn size(&self) -> u64 {
        self.func.body.nodes()
    }

    fn owes(&self) -> Vec<Obligation> {
        crate::claims::claims(&self.module, &self.func)
    }

    fn hash(&self) -> u64 {
        structural_hash(&self.func)
    }

    fn digest(&self) -> String {
        digest(&self.func)
    }
}

/// The loop that is at the focus, where a rule of one loop does not say which.
fn left_out(cursor: &Cursor, signature: &RuleSignature, args: &Args) -> Option<String> {
    let [first, rest @ ..] = signature.formals else { return None };
    if first.sort != Sort::Loop || first.many || cursor.focus.is_empty() || args.named(first.name).is_some() {
        return None;
    }
    let l = cursor.focused().as_loop()?;
    let given = match args.positional().next() {
        Some((Arg::Path(_) | Arg::Data(_), _)) => true,
        Some(_) => rest.is_empty(),
        None => false,
    };
    let name = l.binder.name.to_string();
    (!given && names::find_loops(cursor, &name) == [cursor.focus.clone()]).then_some(name)
}
