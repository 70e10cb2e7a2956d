//! Whether a side computes what it then drops: a function may have no value there, so the sides may differ although
//! what is left of both is equal. What the other side computes, too, is no matter.

use crate::facts::Facts;
use crate::nat::Nat;
use crate::prim::Prim;
use crate::term::{Term, TermKind};
use lathe_ir::BinOp;
use std::collections::BTreeSet;

/// Whether evaluating `right` may need a value that `left` does not need.
pub(crate) fn drops(left: &Term, right: &Term, facts: &Facts) -> bool {
    let known = |t: &Term| t.is_closed() && left.any(&mut |l| l == t);
    right.any(&mut |t| match t.spine() {
        Some((p, args)) => dropped(p, &args, facts).into_iter().any(|a| computes(a) && !known(a)),
        None => match t.as_app() {
            // A value that is computed before it is known to be used.
            Some((f, a)) => match f.as_lam() {
                Some(b) => computes(a) && !known(a) && !needs(b, 0),
                None => false,
            },
            None => false,
        },
    })
}

/// Whether the right side of a rule must have no value where the left side has none: where that divides, or makes a
/// subscript of a number, and does not drop what it computes.
pub(crate) fn keeps_failures(left: &Term, right: &Term, facts: &Facts) -> bool {
    let fails = left.any(&mut |t| match t.kind() {
        TermKind::Prim(Prim::Binary(op)) => divides(*op),
        TermKind::Prim(Prim::AsIndex(_)) => true,
        _ => false,
    });
    fails && !drops(right, left, facts)
}

fn divides(op: BinOp) -> bool {
    matches!(op, BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem)
}

/// The arguments of which a primitive may not use everything.
fn dropped<'a>(p: &Prim, args: &[&'a Term], facts: &Facts) -> Vec<&'a Term> {
    let last = |all: bool| if all { args.last().copied().into_iter().collect() } else { Vec::new() };
    match p {
        Prim::Take(_)
        | Prim::Drop(_)
        | Prim::Gather
        | Prim::Scatter
        | Prim::At
        | Prim::AtNat(_)
        | Prim::Proj(..)
        | Prim::Pad(..) => last(true),
        Prim::Slide(size, step) => {
            let d = size.minus(step);
            last(!(d.is_nonnegative() || facts.same(&d, &Nat::zero())))
        }
        Prim::Map(_) | Prim::MapVec(_) | Prim::Iterate(..) => {
            last(args.first().is_some_and(|f| f.as_lam().is_some_and(|b| !needs(b, 0))))
        }
        Prim::Reduce(..) | Prim::Scan(_) => {
            let Some(b) = args.first().and_then(|f| f.as_lam()).and_then(Term::as_lam) else {
                return Vec::new();
            };
            if needs(b, 0) && needs(b, 1) { Vec::new() } else { args[1..].to_vec() }
        }
        Prim::Let | Prim::ToMem(_) => match args {
            [e, f] if f.as_lam().is_some_and(|b| !needs(b, 0)) => vec![e],
            _ => Vec::new(),
        },
        _ => Vec::new(),
    }
}

/// Whether a variable is used, with all its parts, whatever the case: not in a branch alone, nor in a function that may
/// not be called.
fn needs(t: &Term, n: u32) -> bool {
    let mut uses = Uses::default();
    uses.look(t, n);
    uses.whole || (!uses.parts.is_empty() && uses.parts.len() == uses.of)
}

#[derive(Default)]
struct Uses {
    whole: bool,
    /// Parts of a tuple, of so many.
    parts: BTreeSet<usize>,
    of: usize,
}

impl Uses {
    fn look(&mut self, t: &Term, n: u32) {
        match (t.kind(), t.spine()) {
            (TermKind::Bound(i), _) => self.whole |= *i == n,
            (_, Some((Prim::Proj(i, of), args)))
                if args.first().is_some_and(|a| matches!(a.kind(), TermKind::Bound(k) if *k == n)) =>
            {
                self.parts.insert(*i);
                self.of = *of;
            }
            (_, Some((Prim::Select, args))) => args.iter().take(1).for_each(|c| self.look(c, n)),
            // What they do with a part of it is not looked into.
            (_, Some((Prim::Take(_) | Prim::Drop(_) | Prim::Gather | Prim::At | Prim::AtNat(_), _))) => {}
            (_, Some((_, args))) => args.iter().for_each(|a| self.look(a, n)),
            (TermKind::App(f, a), None) => {
                self.look(f, n);
                self.look(a, n);
            }
            _ => {}
        }
    }
}

/// Whether a term may have no value for some values of its metavariables: it calls a function, or divides.
fn computes(t: &Term) -> bool {
    t.any(&mut |t| match t.kind() {
        TermKind::Free(_) => !t.ty().is_data(),
        TermKind::Prim(Prim::Binary(op)) => divides(*op) || is_index(t),
        TermKind::Prim(Prim::Unary(_) | Prim::Math(_) | Prim::Cast(_)) => is_index(t),
        TermKind::Prim(Prim::AsIndex(_) | Prim::Scatter | Prim::Reorder) => true,
        _ => false,
    })
}

fn is_index(t: &Term) -> bool {
    let mut ty = t.ty();
    loop {
        match ty.as_fun() {
            Some((from, to)) => {
                if from.as_scalar() == Some(lathe_ir::Scalar::Index) {
                    return true;
                }
                ty = to;
            }
            None => return ty.as_scalar() == Some(lathe_ir::Scalar::Index),
        }
    }
}
