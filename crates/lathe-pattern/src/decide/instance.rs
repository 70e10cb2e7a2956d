//! The instances of a rule that stand for all: sizes are variables, data of which a rule asks nothing has a type of
//! which nothing is known, and scalars have every type that there is.

use crate::facts::{Fact, Facts};
use crate::infer::{Choose, Env, infer_instance};
use crate::language::TermState;
use crate::nat::Nat;
use crate::rules::equation::{Equation, Failed};
use crate::solve::Class;
use crate::term::Term;
use crate::types::{Type, TypeKind};
use lathe_ir::{Name, Scalar};
use lathe_space::Expr;
use lathe_strategy::{StepArg, Why};

/// Instances of one rule; rules with more are only tested.
const MOST: usize = 220;

/// A rule at types.
pub(super) struct Instance {
    pub left: Term,
    pub right: Term,
    pub facts: Facts,
}

/// The instances; `complete` if they stand for every one.
pub(super) struct Instances {
    pub all: Vec<Instance>,
    pub complete: bool,
}

/// Chooses like a counter: which of the scalars each unknown one is.
struct Counter {
    digits: Vec<usize>,
    bases: Vec<usize>,
    at: usize,
    /// Names that were given.
    types: u32,
    sizes: u32,
    /// Data are scalars.
    concrete: bool,
    /// Only what rounds, and machine integers: of `index` a step may have no value.
    rounds: bool,
}

fn scalars(class: Class, concrete: bool, rounds: bool) -> Vec<Type> {
    let all = Scalar::ALL.into_iter().filter(|s| !(rounds && *s == Scalar::Index)).filter(|s| match class {
        Class::Any | Class::Data => concrete,
        _ => class.admits(*s),
    });
    let mut out: Vec<Type> = all.map(Type::scalar).collect();
    if class == Class::Single {
        out.push(Type::index(Nat::var("index size")));
    }
    out
}

impl Choose for Counter {
    fn ty(&mut self, class: Class) -> Type {
        let options = scalars(class, self.concrete, self.rounds);
        if options.is_empty() {
            self.types += 1;
            return Type::new(TypeKind::Var(Name::from(format!("t{}", self.types))));
        }
        if self.at == self.digits.len() {
            self.digits.push(0);
            self.bases.push(options.len());
        }
        self.bases[self.at] = options.len();
        let chosen = options[self.digits[self.at].min(options.len() - 1)].clone();
        self.at += 1;
        chosen
    }

    fn size(&mut self) -> Nat {
        self.sizes += 1;
        Nat::var(&format!("size {}", self.sizes))
    }

    fn which(&mut self, _: usize) -> usize {
        0
    }
}

pub(super) fn instances(rule: &Equation) -> Instances {
    let mut out = counted(rule, false);
    if !out.complete {
        // It may ask for more than its left side does: some of these show that it does not hold.
        out.all.extend(counted(rule, true).all);
    }
    out.complete &= !out.all.is_empty();
    out
}

/// Instances in which all data are scalars.
pub(super) fn of_scalars(rule: &Equation) -> Vec<Instance> {
    counted(rule, true).all
}

fn counted(rule: &Equation, concrete: bool) -> Instances {
    let mut out = Instances { all: Vec::new(), complete: true };
    let rounds = rule.rounds;
    let mut c =
        Counter { digits: Vec::new(), bases: Vec::new(), at: 0, types: 0, sizes: 0, concrete, rounds };
    for _ in 0..MOST {
        (c.at, c.types, c.sizes) = (0, 0, 0);
        match instance(rule, &mut c) {
            Some(Ok(i)) => out.all.push(i),
            // Whether other sizes or types would fit is not known.
            Some(Err(open)) => out.complete &= !open,
            None => {}
        }
        // The next number.
        let next = (0..c.digits.len()).find(|k| c.digits[*k] + 1 < c.bases[*k]);
        let Some(next) = next else { return out };
        c.digits[..next].fill(0);
        c.digits[next] += 1;
    }
    out.complete = false;
    out
}

/// An instance of the left side with the right side that it becomes; `Err` if there is none: whether that is for
/// these sizes and types only. `None`: the choices do not fit the left side.
fn instance(rule: &Equation, c: &mut Counter) -> Option<Result<Instance, bool>> {
    let (left, metas) = rule.left();
    let nats = rule.sizes().into_iter().map(|n| (n.clone(), Nat::var(&n)));
    let env = Env { nats: nats.collect(), ..Env::default() };
    let typed = infer_instance(&env, left, &metas, c).ok()?;
    let facts = Facts::new(typed.obligations.into_iter().map(|o| o.0));
    let mut state = TermState::new(&facts);
    let args: Vec<StepArg> = rule
        .arguments
        .iter()
        .map(|n| StepArg { name: None, value: Expr::Name(n.to_string()), span: None })
        .collect();
    let mut facts = facts;
    for n in &rule.arguments {
        // Arguments are positive.
        facts.learn(Fact::AtMost(Nat::constant(1), Nat::var(n)));
    }
    state.facts = facts.into();
    let open = c.types + c.sizes > 0 || !rule.sizes().is_empty() || !rule.arguments.is_empty();
    match rule.rewrite(&typed.term, &mut state, &args) {
        Ok(right)
            if right.ty() == typed.term.ty()
                || crate::check::same_type(&state.facts, right.ty(), typed.term.ty()) =>
        {
            Some(Ok(Instance { left: typed.term, right, facts: (*state.facts).clone() }))
        }
        Ok(_) => Some(Err(true)),
        Err(Failed::Why(Why::Mistake(_)) | Failed::Type(_) | Failed::Why(_)) => Some(Err(open)),
    }
}
