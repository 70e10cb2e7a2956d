//! Whether a function computes: then its map is a loop, and no view.

use super::view::{Arg, Env, Val};
use crate::prim::{MapKind, Prim};
use crate::term::{Term, TermKind};

/// A sub-term of a function that computes: what a layout function must not have.
pub(super) fn computes(f: &Arg) -> Option<Term> {
    let Arg::Term(t, env) = f else { return None };
    let mut found = None;
    fn go(t: &Term, env: &Env, depth: u32, found: &mut Option<Term>) {
        if found.is_some() {
            return;
        }
        match t.kind() {
            TermKind::Prim(p) => {
                // Arguments of these say positions and values outside, not results.
                if !p.is_layout()
                    && !matches!(p, Prim::Map(MapKind::High) | Prim::NatValue(_) | Prim::AsIndex(_))
                {
                    *found = Some(t.clone());
                }
            }
            TermKind::Bound(i) if *i >= depth => {
                if let Some(Val::Fun(f, e)) = env.get(*i - depth) {
                    go(f, e, 0, found);
                }
            }
            TermKind::App(..) => {
                // The functions of `generate`, `gather` and the like are views themselves.
                if let Some((p, args)) = t.spine() {
                    let skip = match p {
                        Prim::Generate(_) | Prim::Gather | Prim::Scatter | Prim::PadWith(..) => 1,
                        Prim::Reorder => 2,
                        Prim::At => 1,
                        _ => 0,
                    };
                    if skip > 0 {
                        return args.iter().skip(skip).for_each(|a| go(a, env, depth, found));
                    }
                }
                t.children().into_iter().for_each(|c| go(c, env, depth, found));
            }
            TermKind::Lam(_, b) => go(b, env, depth + 1, found),
            _ => t.children().into_iter().for_each(|c| go(c, env, depth, found)),
        }
    }
    go(t, env, 0, &mut found);
    // The whole body says more than the primitive in it.
    found.map(|_| t.clone())
}
