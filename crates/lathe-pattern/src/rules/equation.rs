//! Rules as data: `rule name(metavariables): left => right where conditions`.
//!
//! Sides may be functions: `map(f) >> transpose => …` rewrites `transpose(map(f, x))` for any `x`. Lower-case
//! metavariables stand for terms, upper-case ones for sizes. A metavariable for a function matches any
//! function; what it matches must not mention variables that are bound in the pattern.

use crate::ast::{Ast, AstKind};
use crate::codes;
use crate::infer::{Env, infer};
use crate::language::TermState;
use crate::names::primitive;
use crate::nat::{Atom, Nat};
use crate::parse::parse_term;
use crate::prim::Prim;
use crate::term::{Term, TermKind};
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::Name;
use lathe_strategy::Why;
use std::collections::BTreeMap;

/// A rule as data.
#[derive(Clone, Debug)]
pub struct Equation {
    pub name: String,
    /// In the order of their declaration.
    pub metas: Vec<Name>,
    left: Ast,
    right: Ast,
}

/// What metavariables stand for.
#[derive(Default)]
struct Bindings {
    terms: BTreeMap<Name, Term>,
    nats: BTreeMap<Name, Nat>,
}

/// Rules, one after the other; `#` begins a comment.
pub fn parse_equations(text: &str) -> Result<Vec<Equation>, Diagnostic> {
    let bare: String = text.lines().map(|l| l.split('#').next().unwrap_or("")).collect::<Vec<_>>().join("\n");
    let wrong = |what: &str, of: &str| {
        Diagnostic::error(
            codes::SYNTAX,
            format!("a rule is `rule name(f, g): left => right`; {what} in `{of}`"),
        )
    };
    let mut out = Vec::new();
    for part in bare.split("rule ").map(str::trim).filter(|p| !p.is_empty()) {
        let (head, sides) = part.split_once(':').ok_or_else(|| wrong("there is no `:`", part))?;
        let (left, right) = sides.split_once("=>").ok_or_else(|| wrong("there is no `=>`", part))?;
        let (name, metas) = match head.split_once('(') {
            Some((n, m)) => {
                (n, m.trim_end().strip_suffix(')').ok_or_else(|| wrong("there is no `)`", head))?)
            }
            None => (head, ""),
        };
        let metas = metas.split(',').map(str::trim).filter(|m| !m.is_empty()).map(Name::from).collect();
        out.push(Equation::new(name.trim(), metas, parse_term(left.trim())?, parse_term(right.trim())?));
    }
    Ok(out)
}

const ARGUMENT: &str = "argument of both sides";

fn is_size(n: &str) -> bool {
    n.starts_with(|c: char| c.is_ascii_uppercase())
}

impl Equation {
    /// Sides that are functions are applied to one more metavariable.
    pub fn new(name: &str, metas: Vec<Name>, left: Ast, right: Ast) -> Equation {
        let known = |n: &str| is_size(n) && metas.iter().any(|m| &**m == n);
        let (left, right) = if is_function(&left, &known) {
            let x = |span: Span| Ast::new(AstKind::Name(Name::from(ARGUMENT)), span);
            (compose(&left, x(left.span)), compose(&right, x(right.span)))
        } else {
            (left, right)
        };
        Equation { name: name.to_string(), metas, left, right }
    }

    pub fn apply(&self, t: &Term, state: &mut TermState) -> Result<Term, Why> {
        let mut b = Bindings::default();
        if !self.matches(&self.left, t, 0, &mut b) {
            return Err(super::SHAPE);
        }
        let mut env = Env { facts: (*state.facts).clone(), holes: b.terms, nats: b.nats, ..Env::default() };
        let term_sizes = t.ty().sizes();
        for v in term_sizes.iter().flat_map(Nat::vars) {
            env.sizes.insert(v, None);
        }
        let typed = infer(&env, &self.right, Some((t.ty(), self.right.span)))
            .map_err(|d| Why::Condition(format!("the result has no type: {}", d.message)))?;
        for (f, _) in typed.obligations {
            state.need(f)?;
        }
        Ok(typed.term)
    }

    /// Whether a pattern matches, `depth` binders inside of it.
    fn matches(&self, p: &Ast, t: &Term, depth: u32, b: &mut Bindings) -> bool {
        match &*p.kind {
            AstKind::Name(n) if self.is_meta(n) => {
                let Some(t) = (0..depth).try_fold(t.clone(), |t, _| t.lower()) else { return false };
                match b.terms.get(n) {
                    Some(known) => *known == t,
                    None => {
                        b.terms.insert(n.clone(), t);
                        true
                    }
                }
            }
            AstKind::Typed(x) => {
                *x == *t || matches!((x.kind(), t.kind()), (TermKind::Bound(i), TermKind::Bound(j)) if i == j)
            }
            AstKind::Name(_) | AstKind::Call(..) | AstKind::Then(..) => {
                // A function against a lambda: both applied to its variable.
                if let TermKind::Lam(_, body) = t.kind() {
                    let Some((from, _)) = t.ty().as_fun() else { return false };
                    let x = Ast::new(AstKind::Typed(Term::bound(0, from.clone())), p.span);
                    return self.matches(&compose(p, x), body, depth + 1, b);
                }
                let (f, args): (&Ast, &[Ast]) = match &*p.kind {
                    AstKind::Call(f, args) => (f, args),
                    _ => (p, &[]),
                };
                let AstKind::Name(name) = &*f.kind else { return false };
                let known = |n: &str| is_size(n) && self.metas.iter().any(|m| &**m == n);
                let Ok(Some((prim, taken))) = primitive(name, args, p.span, &known) else { return false };
                let Some((actual, terms)) = t.spine() else { return false };
                if !same_primitive(&prim, actual, b) || terms.len() != args.len() - taken {
                    return false;
                }
                args[taken..].iter().zip(terms).all(|(p, t)| self.matches(p, t, depth, b))
            }
            _ => false,
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
