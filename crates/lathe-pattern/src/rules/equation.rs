//! Rules as data: `rule name(metavariables): left => right where conditions`.
//!
//! Sides may be functions: `map(f) >> transpose => …` rewrites `transpose(map(f, x))` for any `x`. Lower-case
//! metavariables stand for terms, upper-case ones for sizes; sizes that only the right side mentions are arguments of
//! the rule: `splitJoin(32)`. A metavariable for a function matches any function; what it matches must not mention
//! variables that are bound in the pattern, but for those that it is applied to: `map(|x| f(g(x)))`. Conditions are
//! over sizes: what is not known to hold becomes a condition of the call.

use crate::ast::{Ast, AstKind, LamParam, Pattern, RuleAst};
use crate::codes;
use crate::condition::fact_of;
use crate::facts::Fact;
use crate::infer::{Env, infer};
use crate::language::TermState;
use crate::names::primitive;
use crate::nat::{Atom, Nat};
use crate::parse::parse_rules;
use crate::prim::{FoldKind, Prim};
use crate::term::{Term, TermKind};
use crate::types::{Type, TypeKind};
use lathe_diagnostics::{Diagnostic, FileId, Span};
use lathe_ir::scalar::ScalarValue;
use lathe_ir::{Name, Scalar};
use lathe_strategy::{StepArg, Why};
use std::collections::BTreeMap;

/// A rule as data.
#[derive(Clone, Debug)]
pub struct Equation {
    pub name: String,
    /// In the order of their declaration.
    pub metas: Vec<Name>,
    /// Sizes that the call gives.
    pub arguments: Vec<Name>,
    /// Declared to hold up to rounding.
    pub rounds: bool,
    left: Ast,
    right: Ast,
    conditions: Vec<Fact>,
}

/// Why there is no result.
#[derive(Clone, Debug)]
pub enum Failed {
    Why(Why),
    /// The right side does not have the type of the left.
    Type(Diagnostic),
}

impl From<Why> for Failed {
    fn from(why: Why) -> Failed {
        Failed::Why(why)
    }
}

/// What metavariables stand for.
#[derive(Default)]
struct Bindings {
    terms: BTreeMap<Name, Term>,
    nats: BTreeMap<Name, Nat>,
    /// Operators and starts of reductions and scans.
    folds: Vec<Option<(Term, Term)>>,
}

impl Bindings {
    /// Whether a metavariable may stand for a term, which it does from now on.
    fn bind(&mut self, name: &Name, t: Term) -> bool {
        match self.terms.get(name) {
            Some(known) => *known == t,
            None => {
                self.terms.insert(name.clone(), t);
                true
            }
        }
    }
}

/// Whether a term is a literal of just this value: a zero has a sign.
fn literal(t: &Term, v: impl Fn(Scalar) -> Option<ScalarValue>) -> bool {
    match t.kind() {
        TermKind::Lit(x) => v(x.ty).is_some_and(|v| {
            x.bits == v.bits || (x.ty.is_float() && v.to_f64().is_nan() && x.to_f64().is_nan())
        }),
        _ => false,
    }
}

/// Whether numbers of type `index` are part of a type: sums of them may have no value in another order.
fn counts(t: &Type) -> bool {
    match t.kind() {
        TypeKind::Scalar(s) => *s == Scalar::Index,
        TypeKind::Array(_, e) | TypeKind::Vector(_, e) => counts(e),
        TypeKind::Tuple(ts) => ts.iter().any(counts),
        TypeKind::Fun(a, b) => counts(a) || counts(b),
        _ => false,
    }
}

/// Rules, one after the other; `#` begins a comment.
pub fn parse_equations(text: &str) -> Result<Vec<Equation>, Diagnostic> {
    parse_rules(FileId(0), text)?.iter().map(Equation::new).collect()
}

const ARGUMENT: &str = "argument of both sides";

fn is_size(n: &str) -> bool {
    n.starts_with(|c: char| c.is_ascii_uppercase())
}

impl Equation {
    /// Sides that are functions are applied to one more metavariable.
    ///
    /// # Errors
    /// `E1108` where the left side is not a pattern, or a condition none over sizes.
    pub fn new(rule: &RuleAst) -> Result<Equation, Diagnostic> {
        let metas = rule.metas.clone();
        let known = |n: &str| is_size(n) && metas.iter().any(|m| &**m == n);
        let (left, right) = if is_function(&rule.left, &known) {
            let x = |span: Span| Ast::new(AstKind::Name(Name::from(ARGUMENT)), span);
            (compose(&rule.left, x(rule.left.span)), compose(&rule.right, x(rule.right.span)))
        } else {
            (rule.left.clone(), rule.right.clone())
        };
        let mut conditions = Vec::new();
        for c in &rule.conditions {
            conditions.extend(fact_of(c)?);
        }
        let mut on_the_left = Vec::new();
        names(&left, &mut on_the_left);
        let missing = |m: &&Name| !on_the_left.contains(m);
        if let Some(m) = metas.iter().filter(missing).find(|m| !is_size(m)) {
            return Err(Diagnostic::error(
                codes::ARGUMENTS,
                format!("the left side of `{}` does not mention `{m}`", rule.name),
            )
            .at(rule.left.span, "it is not determined by this side"));
        }
        let arguments = metas.iter().filter(missing).cloned().collect();
        let name = rule.name.to_string();
        let rounds = rule.rounds;
        let rule = Equation { name, metas, arguments, rounds, left, right, conditions };
        rule.is_pattern(&rule.left)?;
        Ok(rule)
    }

    pub fn apply(&self, t: &Term, state: &mut TermState) -> Result<Term, Why> {
        self.apply_with(t, state, &[])
    }

    /// Applies it with the sizes that it takes as arguments.
    pub fn apply_with(&self, t: &Term, state: &mut TermState, args: &[StepArg]) -> Result<Term, Why> {
        self.rewrite(t, state, args).map_err(|f| match f {
            Failed::Why(why) => why,
            Failed::Type(d) => Why::Condition(format!("the result has no type: {}", d.message)),
        })
    }

    /// As [`Equation::apply_with`], with all that is wrong with the type of the right side.
    pub fn rewrite(&self, t: &Term, state: &mut TermState, args: &[StepArg]) -> Result<Term, Failed> {
        if args.len() != self.arguments.len() {
            let text = format!("{} arguments are given, {} expected", args.len(), self.arguments.len());
            return Err(Why::Mistake(text).into());
        }
        let mut b = Bindings::default();
        for n in 0..args.len() {
            b.nats.insert(self.arguments[n].clone(), super::size(args, n)?);
        }
        if !self.matches(&self.left, t, &mut Vec::new(), &mut b) {
            return Err(super::SHAPE.into());
        }
        if self.rounds && b.terms.values().chain([t]).any(|t| counts(t.ty())) {
            let text = "a rule that holds up to rounding does not apply to numbers of type `index`";
            return Err(Why::Condition(text.to_string()).into());
        }
        for f in &self.conditions {
            state.need(f.replace_vars(&|n| b.nats.get(n).cloned()))?;
        }
        let mut env = Env { facts: (*state.facts).clone(), holes: b.terms, nats: b.nats, ..Env::default() };
        let term_sizes = t.ty().sizes();
        for v in term_sizes.iter().flat_map(Nat::vars) {
            env.sizes.insert(v, None);
        }
        let typed = infer(&env, &self.right, Some((t.ty(), self.right.span))).map_err(Failed::Type)?;
        for (f, _) in typed.obligations {
            state.need(f)?;
        }
        Ok(typed.term)
    }

    /// The operators of the reductions and scans of the left side with their starts, where it matches a term; none for
    /// one that depends on variables which the pattern binds: it has no laws that could be asked for.
    pub fn operators(&self, t: &Term) -> Vec<Option<(Term, Term)>> {
        let mut b = Bindings::default();
        if self.matches(&self.left, t, &mut Vec::new(), &mut b) { b.folds } else { Vec::new() }
    }

    /// The left side with its metavariables as parameters, and these; for the test with random instances.
    pub fn left(&self) -> (&Ast, Vec<Name>) {
        let mut all: Vec<Name> = self.metas.iter().filter(|m| !is_size(m)).cloned().collect();
        let mut mentioned = Vec::new();
        names(&self.left, &mut mentioned);
        if mentioned.iter().any(|n| &**n == ARGUMENT) {
            all.push(Name::from(ARGUMENT));
        }
        (&self.left, all)
    }

    /// Whether its left side has reductions or scans: their operators have laws.
    pub fn has_operators(&self) -> bool {
        let mut any = false;
        self.left.walk(&mut |e| {
            any |= matches!(&*e.kind, AstKind::Name(n) if matches!(&**n, "reduce" | "scan"));
        });
        any
    }

    /// The numbers that its sides mention.
    pub fn constants(&self) -> Vec<f64> {
        let mut out = Vec::new();
        for side in [&self.left, &self.right] {
            side.walk(&mut |e| match &*e.kind {
                AstKind::Int(v) => out.push(*v as f64),
                AstKind::Float(v) => out.push(*v),
                _ => {}
            });
        }
        out
    }

    /// Its metavariables for sizes that the left side gives a value.
    pub fn sizes(&self) -> Vec<Name> {
        self.metas.iter().filter(|m| is_size(m) && !self.arguments.contains(m)).cloned().collect()
    }

    /// Whether matching understands every part of the left side.
    fn is_pattern(&self, p: &Ast) -> Result<(), Diagnostic> {
        let wrong = |span: Span, what: &str| {
            Err(Diagnostic::error(
                codes::ARGUMENTS,
                format!("the left side of `{}` is not a pattern: {what}", self.name),
            )
            .at(span, "here")
            .help("patterns are made of primitives, operators, literals, lambdas and metavariables"))
        };
        match &*p.kind {
            AstKind::Call(f, args) => match &*f.kind {
                AstKind::Name(_) => args.iter().try_for_each(|a| self.is_pattern(a)),
                _ => wrong(f.span, "only primitives can be applied"),
            },
            AstKind::Then(a, b) | AstKind::Binary(_, a, b) => {
                self.is_pattern(a)?;
                self.is_pattern(b)
            }
            AstKind::Unary(_, a) | AstKind::Part(a, _) => self.is_pattern(a),
            AstKind::Tuple(parts) => parts.iter().try_for_each(|a| self.is_pattern(a)),
            AstKind::Index(a, subscripts) => {
                self.is_pattern(a)?;
                subscripts.iter().try_for_each(|a| self.is_pattern(a))
            }
            AstKind::Lam(params, body) => {
                let plain = |p: &LamParam| matches!(p, LamParam::Data(Pattern::Name(_) | Pattern::Any, _));
                if params.iter().all(plain) {
                    self.is_pattern(body)
                } else {
                    wrong(p.span, "its lambdas use `.0` and `.1` to access components")
                }
            }
            AstKind::Let(..) => wrong(p.span, "`let` cannot be matched"),
            AstKind::Imaginary(_) => wrong(p.span, "a complex number is a pair of its parts"),
            AstKind::Name(_) | AstKind::Int(_) | AstKind::Float(_) | AstKind::Bool(_) => Ok(()),
        }
    }

    /// Whether a pattern matches, under binders of these names.
    fn matches(&self, p: &Ast, t: &Term, scope: &mut Vec<Name>, b: &mut Bindings) -> bool {
        match &*p.kind {
            AstKind::Name(n) if scope.contains(n) => {
                let level = scope.iter().rposition(|s| s == n).unwrap_or(0);
                matches!(t.kind(), TermKind::Bound(i) if *i as usize == scope.len() - 1 - level)
            }
            AstKind::Name(n) if self.is_meta(n) => {
                let Some(t) = scope.iter().try_fold(t.clone(), |t, _| t.lower()) else { return false };
                b.bind(n, t)
            }
            AstKind::Int(v) => literal(t, |s| match s {
                s if s.is_float() => Some(ScalarValue::float(s, *v as f64)),
                s => crate::scalars::integer(s, *v),
            }),
            AstKind::Float(v) => literal(t, |s| s.is_float().then(|| ScalarValue::float(s, *v))),
            AstKind::Bool(v) => literal(t, |s| (s == Scalar::Bool).then(|| ScalarValue::boolean(*v))),
            AstKind::Call(f, args) if self.applied(f).is_some() => self.application(f, args, t, scope, b),
            AstKind::Lam(params, body) => {
                let Some((first, rest)) = params.split_first() else {
                    return self.matches(body, t, scope, b);
                };
                let TermKind::Lam(_, inside) = t.kind() else { return false };
                let name = match first {
                    LamParam::Data(Pattern::Name(n), _) => n.clone(),
                    _ => Name::from("_"),
                };
                let body = Ast::new(AstKind::Lam(rest.to_vec(), body.clone()), p.span);
                self.under(name, &body, inside, scope, b)
            }
            AstKind::Binary(op, x, y) => self.saturated(&Prim::Binary(*op), &[x, y], t, scope, b),
            AstKind::Unary(op, x) => self.saturated(&Prim::Unary(*op), &[x], t, scope, b),
            AstKind::Tuple(parts) => {
                let parts: Vec<&Ast> = parts.iter().collect();
                self.saturated(&Prim::Tuple(parts.len()), &parts, t, scope, b)
            }
            AstKind::Part(of, n) => match t.spine() {
                Some((Prim::Proj(i, _), args)) if i == n && args.len() == 1 => {
                    self.matches(of, args[0], scope, b)
                }
                _ => false,
            },
            AstKind::Index(of, subscripts) => {
                let Some((last, before)) = subscripts.split_last() else {
                    return self.matches(of, t, scope, b);
                };
                let of = Ast::new(AstKind::Index(of.clone(), before.to_vec()), p.span);
                match (t.spine(), &*last.kind) {
                    (Some((Prim::AtNat(i), args)), AstKind::Int(v)) if args.len() == 1 => {
                        i.as_constant().map(i128::from) == Some(*v) && self.matches(&of, args[0], scope, b)
                    }
                    (Some((Prim::At, args)), _) if args.len() == 2 => {
                        self.matches(last, args[0], scope, b) && self.matches(&of, args[1], scope, b)
                    }
                    _ => false,
                }
            }
            AstKind::Name(_) | AstKind::Call(..) | AstKind::Then(..) => {
                // A function against a lambda: both applied to its variable.
                if let TermKind::Lam(_, body) = t.kind() {
                    let name = Name::from(format!("variable {}", scope.len()).as_str());
                    let x = Ast::new(AstKind::Name(name.clone()), p.span);
                    return self.under(name, &compose(p, x), body, scope, b);
                }
                let (f, args): (&Ast, &[Ast]) = match &*p.kind {
                    AstKind::Call(f, args) => (f, args),
                    _ => (p, &[]),
                };
                let AstKind::Name(name) = &*f.kind else { return false };
                let known = |n: &str| is_size(n) && self.metas.iter().any(|m| &**m == n);
                let Ok(Some((prim, taken))) = primitive(name, args, p.span, &known) else { return false };
                let args: Vec<&Ast> = args[taken..].iter().collect();
                self.saturated(&prim, &args, t, scope, b)
            }
            AstKind::Let(..) | AstKind::Imaginary(_) => false,
        }
    }

    fn under(&self, name: Name, p: &Ast, t: &Term, scope: &mut Vec<Name>, b: &mut Bindings) -> bool {
        scope.push(name);
        let yes = self.matches(p, t, scope, b);
        scope.pop();
        yes
    }

    /// A primitive with just these arguments.
    fn saturated(
        &self,
        prim: &Prim,
        args: &[&Ast],
        t: &Term,
        scope: &mut Vec<Name>,
        b: &mut Bindings,
    ) -> bool {
        let Some((actual, terms)) = t.spine() else { return false };
        let yes = same_primitive(prim, actual, b)
            && terms.len() == args.len()
            && args.iter().zip(&terms).all(|(p, t)| self.matches(p, t, scope, b));
        if let (true, Prim::Reduce(FoldKind::High, _) | Prim::Scan(FoldKind::High), [op, start, ..]) =
            (yes, actual, terms.as_slice())
        {
            let outside = |t: &Term| scope.iter().try_fold(t.clone(), |t, _| t.lower());
            b.folds.push(outside(op).zip(outside(start)));
        }
        yes
    }

    /// The metavariable that is applied.
    fn applied<'a>(&self, f: &'a Ast) -> Option<&'a Name> {
        match &*f.kind {
            AstKind::Name(n) if self.is_meta(n) => Some(n),
            _ => None,
        }
    }

    /// `f(x, y)` for variables `x` and `y` of the pattern matches any term, which may mention them: `f` is the function
    /// of them (a pattern of Miller's). Of other arguments, as in `f(g(x))`, `f` is what is applied last, and does not
    /// mention variables of the pattern; then `g(x)` is more than a name.
    fn application(&self, f: &Ast, args: &[Ast], t: &Term, scope: &mut Vec<Name>, b: &mut Bindings) -> bool {
        let Some(name) = self.applied(f) else { return false };
        let variable = |a: &Ast| match &*a.kind {
            AstKind::Name(n) => scope.iter().rev().position(|s| s == n).map(|k| k as u32),
            _ => None,
        };
        let variables: Option<Vec<u32>> = args.iter().map(variable).collect();
        if let Some(v) = variables {
            let repeated = (0..v.len()).any(|k| v[..k].contains(&v[k]));
            return match t.abstracted(&v, scope.len() as u32) {
                Some(function) if !repeated => b.bind(name, function),
                _ => false,
            };
        }
        let mut head = t;
        for p in args.iter().rev() {
            let Some((g, a)) = head.as_app() else { return false };
            let is_call = matches!(&*p.kind, AstKind::Call(f, _) if self.applied(f).is_some());
            let is_name = matches!(a.kind(), TermKind::Bound(_) | TermKind::Free(_) | TermKind::Lit(_));
            if is_call && is_name || !self.matches(p, a, scope, b) {
                return false;
            }
            head = g;
        }
        match scope.iter().try_fold(head.clone(), |t, _| t.lower()) {
            Some(g) => b.bind(name, g),
            None => false,
        }
    }

    fn is_meta(&self, n: &str) -> bool {
        n == ARGUMENT || (!is_size(n) && self.metas.iter().any(|m| &**m == n))
    }
}

/// The same primitive; sizes of the pattern that are metavariables are bound.
fn same_primitive(p: &Prim, t: &Prim, b: &mut Bindings) -> bool {
    let (wanted, given) = (p.nats(), t.nats());
    if wanted.len() != given.len() {
        return false;
    }
    for (w, g) in wanted.into_iter().zip(given) {
        match w.as_atom() {
            Some(Atom::Var(n)) => match b.nats.get(n) {
                Some(known) if known != g => return false,
                Some(_) => {}
                None => {
                    b.nats.insert(n.clone(), g.clone());
                }
            },
            _ if w == g => {}
            _ => return false,
        }
    }
    let zero = |p: &Prim| p.map_nats(&mut |_| Nat::zero());
    zero(p) == zero(t)
}

/// Whether a side misses an argument.
fn is_function(p: &Ast, known: &dyn Fn(&str) -> bool) -> bool {
    match &*p.kind {
        AstKind::Then(..) => true,
        AstKind::Name(n) => matches!(primitive(n, &[], p.span, known), Ok(Some((q, _))) if q.arity() > 0),
        AstKind::Call(f, args) => match &*f.kind {
            AstKind::Name(n) => match primitive(n, args, p.span, known) {
                Ok(Some((q, taken))) => args.len() - taken < q.arity(),
                _ => false,
            },
            _ => false,
        },
        _ => false,
    }
}

/// A function applied: compositions become nested calls.
fn compose(f: &Ast, x: Ast) -> Ast {
    match &*f.kind {
        AstKind::Then(g, h) => compose(h, compose(g, x)),
        AstKind::Call(g, args) => {
            let mut args = args.clone();
            args.push(x);
            Ast::new(AstKind::Call(g.clone(), args), f.span)
        }
        // `id` on the right-hand side stands for nothing at all.
        AstKind::Name(n) if &**n == "id" => x,
        _ => Ast::new(AstKind::Call(f.clone(), vec![x]), f.span),
    }
}

/// All names in a term as it is written.
fn names(e: &Ast, out: &mut Vec<Name>) {
    e.walk(&mut |e| {
        if let AstKind::Name(n) = &*e.kind {
            out.push(n.clone());
        }
    });
}
