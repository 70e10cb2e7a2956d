//! Which arrays outermost loops carry from one iteration to the next: what checkpoints are of.

use super::{Reverse, apart, inner_vars};
use crate::checkpoint::Which;
use crate::node::{Leaf, Node, Scope, ScopeId, Site};
use lathe_ir::stmt::AccessMode;
use lathe_ir::visit::loads_of;
use lathe_ir::{Access, BufId, Buffer, Expr, ReduceOp, VarId};
use std::collections::BTreeSet;
use std::sync::Arc;

/// A loop that carries arrays.
pub struct Carried {
    pub which: Which,
    /// What its variable is called.
    pub name: String,
    pub states: Vec<Arc<Buffer>>,
}

impl Reverse<'_> {
    /// The outermost loops with active statements that carry arrays. An array is carried where iterations read what others
    /// wrote, and it has another value by the time of the reverse sweep.
    pub fn carried(&self, root: &Scope) -> Vec<Carried> {
        let mut out = Vec::new();
        self.carried_in(&root.body, &mut out);
        out
    }

    fn carried_in(&self, n: &Node, out: &mut Vec<Carried>) {
        match n {
            Node::Seq(list) => list.iter().for_each(|c| self.carried_in(c, out)),
            Node::Let { body, .. } => self.carried_in(body, out),
            Node::If { then, other, .. } => {
                self.carried_in(then, out);
                other.iter().for_each(|o| self.carried_in(o, out));
            }
            Node::Loop { l, body, .. } if self.is_active(&body.body) => {
                let which = Which::For(l.binder.id);
                out.extend(self.carried_by(which, &l.binder.name, Some(l.binder.id), body));
            }
            Node::While { number, body, trips: Some(_), .. } if self.is_active(&body.body) => {
                out.extend(self.carried_by(Which::While(*number), "while", None, body));
            }
            Node::Loop { .. } | Node::While { .. } | Node::Keep(..) | Node::Leaf(_) => {}
        }
    }

    /// What a loop carries, if anything. `time` is its variable, which tells elements of its iterations apart.
    fn carried_by(&self, which: Which, name: &str, time: Option<VarId>, body: &Scope) -> Option<Carried> {
        let (inside, mut found) = (inner_vars(&body.body), BTreeSet::<BufId>::new());
        let writes = |b: BufId| self.writes.get(&b).into_iter().flatten();
        let mine = |s: &Site| s.loops.first().is_some_and(|a| a.body == body.id);
        each_read(&body.body, &mut |site, a| {
            let Some(b) = a.view.buffer().filter(|b| self.scope_of.get(b) == Some(&0)) else {
                return;
            };
            let lost = writes(b).any(|w| self.may_overwrite(site, a, w, 0));
            let other = |w: &Access| time.is_none_or(|t| !apart(w, a, t, &inside));
            if lost && writes(b).any(|w| mine(&w.site) && other(&w.access)) {
                found.insert(b);
            }
        });
        let states: Vec<_> = found.iter().filter_map(|b| self.buffers.get(b).cloned()).collect();
        (!states.is_empty()).then(|| Carried { which, name: name.to_string(), states })
    }
}

/// The scope that is an iteration of a loop.
pub fn body_of(n: &Node, which: Which) -> Option<ScopeId> {
    match n {
        Node::Seq(list) => list.iter().find_map(|c| body_of(c, which)),
        Node::Let { body, .. } => body_of(body, which),
        Node::If { then, other, .. } => {
            body_of(then, which).or_else(|| other.as_ref().and_then(|o| body_of(o, which)))
        }
        Node::Loop { l, body, .. } => (which == Which::For(l.binder.id)).then_some(body.id),
        Node::While { number, body, .. } => (which == Which::While(*number)).then_some(body.id),
        Node::Keep(..) | Node::Leaf(_) => None,
    }
}

/// Every element that is read in a node, but by what only adds to it.
fn each_read(n: &Node, f: &mut dyn FnMut(&Site, &Access)) {
    let mut values = |site: &Site, all: &[&Expr]| {
        all.iter().flat_map(|e| loads_of(e)).for_each(|a| f(site, &a));
    };
    match n {
        Node::Seq(list) => list.iter().for_each(|c| each_read(c, f)),
        Node::Let { site, value, body, .. } => {
            values(site, &[value]);
            each_read(body, f);
        }
        Node::Loop { site, l, body } => {
            values(site, &[&l.lo, &l.hi]);
            each_read(&body.body, f);
        }
        Node::While { site, cond, body, .. } => {
            values(site, &[cond]);
            each_read(&body.body, f);
        }
        Node::If { site, cond, then, other } => {
            values(site, &[cond]);
            each_read(then, f);
            other.iter().for_each(|o| each_read(o, f));
        }
        Node::Keep(site, s) => values(site, &s.exprs()),
        Node::Leaf(l) => reads_of(l, f),
    }
}

fn reads_of(l: &Leaf, f: &mut dyn FnMut(&Site, &Access)) {
    l.reads().iter().for_each(|a| f(&l.site, a));
    for (a, mode) in l.stmt.accesses() {
        let adds = matches!(mode, AccessMode::Reduce { op: ReduceOp::Sum, .. });
        if mode.reads() && !adds {
            f(&l.site, a);
        }
    }
}
