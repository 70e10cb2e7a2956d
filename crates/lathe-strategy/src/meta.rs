//! Strategies as trees that strategies rewrite. The rules keep what a strategy does: where it fails, and
//! what it gives; they only save steps.

use crate::node::{Node, Vocabulary, Why};
use crate::syntax::{ArgValue, Argument, Strategy};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::rc::Rc;

/// A strategy as a tree. Children are the parts of `;`, `<+` and `@`, the branches of `if`, and the
/// arguments of calls that are steps.
#[derive(Clone, Debug)]
pub struct Meta(pub Rc<Strategy>);

impl Meta {
    pub fn new(s: Strategy) -> Meta {
        Meta(Rc::new(s))
    }

    fn parts(&self) -> Vec<Strategy> {
        match &*self.0 {
            Strategy::Id | Strategy::Fail(_) => Vec::new(),
            Strategy::Seq(v) | Strategy::Choice(v) => v.clone(),
            Strategy::At(s, p) => vec![(**s).clone(), (**p).clone()],
            Strategy::If { then, other, .. } => vec![(**then).clone(), (**other).clone()],
            Strategy::Call { args, .. } => args.iter().filter_map(as_step).collect(),
        }
    }
}

/// An argument that is a step: other than a number or a bare name, which may be a loop or a size.
fn as_step(a: &Argument) -> Option<Strategy> {
    match &a.value {
        ArgValue::Strategy(s) => Some((**s).clone()),
        e => e.as_strategy(a.span),
    }
}

impl Node for Meta {
    type State = ();

    fn arity(&self) -> usize {
        self.parts().len()
    }

    fn child(&self, n: usize) -> Option<Meta> {
        self.parts().into_iter().nth(n).map(Meta::new)
    }

    fn with_child(&self, n: usize, new: Meta) -> Meta {
        let new = (*new.0).clone();
        Meta::new(match (*self.0).clone() {
            Strategy::Seq(mut v) if n < v.len() => {
                v[n] = new;
                Strategy::Seq(v)
            }
            Strategy::Choice(mut v) if n < v.len() => {
                v[n] = new;
                Strategy::Choice(v)
            }
            Strategy::At(_, p) if n == 0 => Strategy::At(Box::new(new), p),
            Strategy::At(s, _) => Strategy::At(s, Box::new(new)),
            Strategy::If { cond, other, span, .. } if n == 0 => {
                Strategy::If { cond, then: Box::new(new), other, span }
            }
            Strategy::If { cond, then, span, .. } => Strategy::If { cond, then, other: Box::new(new), span },
            Strategy::Call { name, mut args, span } => {
                if let Some(a) = args.iter_mut().filter(|a| as_step(a).is_some()).nth(n) {
                    a.value = ArgValue::Strategy(Box::new(new));
                }
                Strategy::Call { name, args, span }
            }
            s => s,
        })
    }

    fn hash(&self) -> u64 {
        let mut h = DefaultHasher::new();
        self.0.to_string().hash(&mut h);
        h.finish()
    }

    fn address(&self) -> Option<usize> {
        Some(Rc::as_ptr(&self.0) as usize)
    }

    fn same(&self, o: &Meta) -> bool {
        self.0.to_string() == o.0.to_string()
    }

    fn show(&self) -> String {
        self.0.to_string()
    }
}

/// The strategy inside of a one-level location: `body(s)`, also written `s @ body`.
fn inside(s: &Strategy) -> Option<(&str, Strategy)> {
    match s {
        Strategy::Call { name, args, .. } if matches!(name.as_str(), "body" | "function" | "argument") => {
            match args.as_slice() {
                [a] => Some((name, as_step(a)?)),
                _ => None,
            }
        }
        Strategy::At(s, place) => match &**place {
            Strategy::Call { name, args, .. }
                if args.is_empty() && matches!(name.as_str(), "body" | "function" | "argument") =>
            {
                Some((name, (**s).clone()))
            }
            _ => None,
        },
        _ => None,
    }
}

fn is_id(s: &Strategy) -> bool {
    match s {
        Strategy::Id => true,
        Strategy::Seq(v) => v.is_empty(),
        Strategy::Call { name, args, .. } => name == "id" && args.is_empty(),
        _ => false,
    }
}

fn is_fail(s: &Strategy) -> bool {
    match s {
        Strategy::Fail(_) => true,
        Strategy::Call { name, args, .. } => name == "fail" && args.is_empty(),
        _ => false,
    }
}

fn seq(mut v: Vec<Strategy>) -> Strategy {
    match v.len() {
        0 => Strategy::Id,
        1 => v.remove(0),
        _ => Strategy::Seq(v),
    }
}

/// The words whose meaning the rules rely on.
pub const RELIED_ON: [&str; 6] = ["id", "fail", "try", "body", "function", "argument"];

const SHAPE: Why = Why::Shape("not of the rule's shape");

/// Rules and predicates of strategies.
pub fn vocabulary() -> Vocabulary<Meta> {
    let mut v = Vocabulary::default();
    // body(f) ; body(g) = body(f ; g), likewise for the other one-level locations
    v.rule("bodyFusion", |s: &Meta, _, _| {
        let Strategy::Seq(all) = &*s.0 else { return Err(SHAPE) };
        for n in 0..all.len().saturating_sub(1) {
            if let (Some((a, f)), Some((b, g))) = (inside(&all[n]), inside(&all[n + 1]))
                && a == b
            {
                let arg = ArgValue::Strategy(Box::new(Strategy::Seq(vec![f, g])));
                let args = vec![Argument { name: None, value: arg, span: None }];
                let mut out = all.clone();
                out[n] = Strategy::Call { name: a.to_string(), args, span: None };
                out.remove(n + 1);
                return Ok(Meta::new(seq(out)));
            }
        }
        Err(SHAPE)
    });
    // id ; s = s = s ; id, and id <+ s = id. Not body(id) = id: that fails where there is no body.
    v.rule("idSimplification", |s: &Meta, _, _| match &*s.0 {
        Strategy::Seq(all) if all.len() > 1 && all.iter().any(is_id) => {
            Ok(Meta::new(seq(all.iter().filter(|s| !is_id(s)).cloned().collect())))
        }
        Strategy::Choice(all) => match all.iter().position(is_id) {
            Some(0) if all.len() > 1 => Ok(Meta::new(Strategy::Id)),
            Some(n) if n + 1 < all.len() => Ok(Meta::new(Strategy::Choice(all[..=n].to_vec()))),
            _ => Err(SHAPE),
        },
        _ => Err(SHAPE),
    });
    // fail <+ s = s = s <+ fail, and fail ; s = fail
    v.rule("failSimplification", |s: &Meta, _, _| match &*s.0 {
        Strategy::Choice(all) if all.len() > 1 && all.iter().any(is_fail) => {
            let mut rest: Vec<Strategy> = all.iter().filter(|s| !is_fail(s)).cloned().collect();
            Ok(Meta::new(match rest.len() {
                0 => all[0].clone(),
                1 => rest.remove(0),
                _ => Strategy::Choice(rest),
            }))
        }
        Strategy::Seq(all) if all.len() > 1 && is_fail(&all[0]) => Ok(Meta::new(all[0].clone())),
        _ => Err(SHAPE),
    });
    // body(id) = where(body(id)) saves nothing, but under a strategy that needs no body it goes:
    // try(body(id)) = id
    v.rule("tryNothing", |s: &Meta, _, _| match &*s.0 {
        Strategy::Call { name, args, .. } if name == "try" => match args.as_slice() {
            [a] => match as_step(a).as_ref().and_then(inside) {
                Some((_, inner)) if is_id(&inner) => Ok(Meta::new(Strategy::Id)),
                _ => Err(SHAPE),
            },
            _ => Err(SHAPE),
        },
        _ => Err(SHAPE),
    });
    // (a ; b) ; c = a ; b ; c
    v.rule("flatten", |s: &Meta, _, _| match &*s.0 {
        Strategy::Seq(all) if all.iter().any(|s| matches!(s, Strategy::Seq(_))) => {
            let flat = all.iter().flat_map(|s| match s {
                Strategy::Seq(v) => v.clone(),
                s => vec![s.clone()],
            });
            Ok(Meta::new(seq(flat.collect())))
        }
        _ => Err(SHAPE),
    });
    v.predicate("isSeq", |s: &Meta| matches!(&*s.0, Strategy::Seq(_)));
    v.predicate("isChoice", |s: &Meta| matches!(&*s.0, Strategy::Choice(_)));
    v
}
