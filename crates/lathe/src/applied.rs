//! How a strategy is applied, and what one version of a kernel becomes.

use crate::mdh::Taken;
use lathe_analysis::Assumptions;
use lathe_ir::{Function, Module};
use lathe_pattern::Term;
use lathe_space::Expr;
use lathe_strategy::{Context, Evidence, Refusal, Strategy, Trace};
use lathe_transform::Subject;
use std::collections::BTreeMap;

/// How to schedule.
#[derive(Clone, Debug, Default)]
pub struct How {
    /// `None`: what [`crate::which`] finds.
    pub strategy: Option<String>,
    pub params: BTreeMap<String, String>,
    /// Sizes to bake in (`--specialize`); empty: all stay symbols.
    pub specialize: BTreeMap<String, i64>,
    /// Sizes that calls will have, as far as they are known: decisions (`mdh`, `auto`) are taken for them.
    pub sizes: BTreeMap<String, i64>,
    /// The code is kept, and will be called with other sizes, too.
    pub others: bool,
    /// Threads that calls will have; `None`: all of the machine's.
    pub threads: Option<usize>,
    /// The system model of decisions that name none: a name, or a file.
    pub model: Option<String>,
    /// What becomes of `assume` in loops and about data.
    pub assumptions: Assumptions,
}

impl How {
    /// Whether every size of a function is known.
    pub fn knows(&self, func: &Function) -> bool {
        let known = |n: &str| self.specialize.contains_key(n) || self.sizes.contains_key(n);
        func.sizes.iter().all(|b| known(&b.name))
    }
}

/// One scheduled tree, and for which sizes it is meant.
#[derive(Clone, Debug)]
pub struct Version {
    /// Over sizes; `None`: whatever the earlier versions left.
    pub condition: Option<Expr>,
    pub func: Function,
    pub steps: Vec<Evidence>,
    /// What there was before each step and after the last, for `explain --diff`.
    pub forms: Vec<Form>,
    /// Sizes that became constants before the first step.
    pub baked: BTreeMap<String, i64>,
    /// Decisions that became steps.
    pub taken: Taken,
    /// What was not done, and why.
    pub notes: Vec<String>,
    /// Of a fun: steps on terms by ELEVATE's convention (every successful application of a rule, predicate, `id` or
    /// one-level traversal counts, in branches that are given up, too).
    pub rewriting: Option<u64>,
}

impl Version {
    pub(crate) fn new(
        condition: Option<Expr>,
        func: Function,
        steps: Vec<Evidence>,
        forms: Vec<Form>,
    ) -> Version {
        Version {
            condition,
            func,
            steps,
            forms,
            baked: BTreeMap::new(),
            taken: Taken::default(),
            notes: Vec::new(),
            rewriting: None,
        }
    }
}

/// What a step works on.
#[derive(Clone, Debug)]
pub enum Form {
    Tree(Function),
    /// Of a fun, before the step `lower`.
    Term(Term),
}

impl Form {
    pub fn text(&self) -> String {
        match self {
            Form::Tree(f) => lathe_ir::text::print_function(f),
            Form::Term(t) => t.to_string(),
        }
    }
}

/// Applies steps on loops: the tree, what was done, and what there was before each step and after the last.
pub(crate) fn on_loops(
    module: &Module,
    func: &Function,
    context: &Context,
    strategy: &Strategy,
) -> Result<(Function, Vec<Evidence>, Vec<Form>), Refusal> {
    let mut on = Progress::begin(module, func, context)?;
    on.then(context, strategy)?;
    Ok(on.simplified())
}

/// A function on which strategies are tried one after the other, each on what those before it left: who keeps many of them
/// does not take their steps again for each.
pub(crate) struct Progress {
    subject: Subject,
    steps: Vec<Evidence>,
    before: Vec<Form>,
}

impl Progress {
    pub fn begin(module: &Module, func: &Function, context: &Context) -> Result<Progress, Refusal> {
        let (subject, trace) = lathe_transform::begin(module, func, context)?;
        let mut on = Progress { subject, steps: Vec::new(), before: Vec::new() };
        on.note(trace);
        Ok(on)
    }

    /// If it is refused, all is as before.
    pub fn then(&mut self, context: &Context, strategy: &Strategy) -> Result<(), Refusal> {
        let (subject, trace) = lathe_transform::go_on(&self.subject, context, strategy)?;
        self.subject = subject;
        self.note(trace);
        Ok(())
    }

    fn note(&mut self, trace: Trace<Subject>) {
        self.steps.extend(trace.steps);
        self.before.extend(trace.trees.into_iter().map(|t| Form::Tree(t.func)));
    }

    pub fn func(&self) -> &Function {
        &self.subject.func
    }

    /// The tree as the steps left it, the steps, and what there was before each.
    pub fn plain(self) -> (Function, Vec<Evidence>, Vec<Form>) {
        (self.subject.func, self.steps, self.before)
    }

    /// As [`Progress::plain`], with the tree simplified, which is the last of the forms.
    pub fn simplified(self) -> (Function, Vec<Evidence>, Vec<Form>) {
        let (tree, steps, mut forms) = self.plain();
        let func = lathe_poly::simplify::simplify_function(&tree);
        forms.push(Form::Tree(func.clone()));
        (func, steps, forms)
    }
}
