//! Whether two trees execute the same instances.

use crate::copy::{Copy, Place, earlier, equal, same_iteration, same_up_to_names};
use crate::cover::{expand, uncovered};
use crate::env::{Env, Item};
use crate::isl_set::Projection;
use crate::leaves::{Leaf, Relative, leaves, relate};
use crate::refusal::{instance_text, sizes_text};
use crate::solve::{Answer, solve};
use crate::system::{Conj, Lin};
use crate::translate::{Builder, Scope};
use lathe_ir::visit::{loads_of, vars_of, walk_expr};
use lathe_ir::{BinOp, BufId, Expr, ExprKind, Label, Name, Stmt, VarId};
use std::collections::{BTreeMap, HashSet};

/// Why two trees may not execute the same instances.
#[derive(Clone, Debug, PartialEq)]
pub struct Unkept {
    pub why: String,
    /// An instance is lost, new, or repeated; else it could not be decided (conditions on data, `while` loops).
    pub known: bool,
}

impl From<String> for Unkept {
    fn from(why: String) -> Unkept {
        Unkept { why, known: false }
    }
}

/// Whether every instance that `before` executes is executed exactly once by `after`, and no other. Gives how many statements
/// were compared.
///
/// # Errors
/// The instance that is lost, new, or repeated; or the reason why it could not be decided.
pub(crate) fn same_instances(env: &Env, before: &Stmt, after: &Stmt) -> Result<usize, Unkept> {
    if before == after {
        return Ok(0);
    }
    decide(env, before, after, false)
}

/// The same of the instances that would be executed if all conditions on data held.
pub(crate) fn same_candidates(env: &Env, before: &Stmt, after: &Stmt) -> Result<usize, Unkept> {
    decide(env, before, after, true)
}

/// So many copies of one statement are compared pair by pair.
const MAX_COPIES: usize = 64;

fn decide(env: &Env, before: &Stmt, after: &Stmt, candidates: bool) -> Result<usize, Unkept> {
    let none: HashSet<BufId> = HashSet::new();
    let (mut old, mut new) = (leaves(before, &none)?, leaves(after, &none)?);
    if candidates {
        old.iter_mut().chain(&mut new).for_each(|l| *l = l.under_no_data());
    }
    let (old, new) = (by_label(&old), by_label(&new));
    let lost = |why: String| Unkept { why, known: true };
    let written = crate::leaves::written_buffers(before);
    let mut frame = Frame { env, written: &written, shared: Vec::new() };
    let mut compared = 0;
    for (label, was) in &old {
        let now = new.get(label).map(Vec::as_slice).unwrap_or(&[]);
        compared += now.len();
        // Most statements stand where they stood, under the same loops and conditions.
        let same = |(x, y): (&&Leaf, &&Leaf)| same_iteration(x, y) || same_up_to_names(x, y);
        if was.len() == now.len() && was.iter().zip(now).all(same) {
            continue;
        }
        if was.len().max(now.len()) > MAX_COPIES {
            return Err(format!("`{label}` stands in too many places to compare all").into());
        }
        let rank = was[0].instance.len();
        if was.iter().chain(now).any(|l| l.instance.len() != rank) {
            return Err(format!("the instance vectors of `{label}` differ in length").into());
        }
        frame.shared.clear();
        for leaf in was.iter().chain(now) {
            frame.share_quotients(leaf);
        }
        for leaf in was.iter().chain(now) {
            let met = frame.shared_values(leaf)?;
            frame.shared.extend(met.into_iter().filter(|e| !frame.shared.contains(e)).collect::<Vec<_>>());
        }
        let (a, b) = (frame.parts(was)?, frame.parts(now)?);
        let (outer, dims) = frame.dims(rank);
        let (a, b) = (Projection { dims, parts: &a }, Projection { dims, parts: &b });
        for (x, y, what) in [(&a, &b, "is no longer executed"), (&b, &a, "was not executed before")] {
            match uncovered(x, y) {
                Some(None) => {}
                Some(Some(point)) => {
                    let at = &point[dims as usize - rank..];
                    return Err(lost(format!(
                        "{} {what}{}",
                        instance_text(label.as_str(), at),
                        frame.with_sizes(&outer, &point)
                    )));
                }
                None => return Err(format!("the instances of `{label}` could not be compared").into()),
            }
        }
        for (i, x) in now.iter().enumerate() {
            for y in &now[i..] {
                frame.repeated(x, y)?;
            }
        }
    }
    match new.keys().find(|l| !old.contains_key(*l)) {
        Some(label) => Err(lost(format!("`{label}` was not executed before"))),
        None => Ok(compared),
    }
}

fn by_label<'l, 'a>(leaves: &'l [Leaf<'a>]) -> BTreeMap<&'a Label, Vec<&'l Leaf<'a>>> {
    let mut out: BTreeMap<&Label, Vec<&Leaf>> = BTreeMap::new();
    for leaf in leaves {
        out.entry(leaf.label).or_default().push(leaf);
    }
    out
}

struct Frame<'e> {
    env: &'e Env<'e>,
    written: &'e HashSet<BufId>,
    /// Values that are not affine, and quotients, which mean the same in both trees.
    shared: Vec<Expr>,
}

impl<'e> Frame<'e> {
    /// Quotients that the surroundings fix are the same in both trees, too: without that, where one loop ends and another
    /// one begins would be two numbers.
    fn share_quotients(&mut self, leaf: &Leaf) {
        let outer: HashSet<VarId> = self.env.items.iter().filter_map(Item::binds).collect();
        let fixed = |e: &Expr| loads_of(e).is_empty() && vars_of(e).is_subset(&outer);
        let mut see = |e: &Expr| {
            walk_expr(e, &mut |e| {
                let quotient =
                    matches!(e.kind(), ExprKind::Binary(BinOp::FloorDiv, _, by) if by.as_int().is_some());
                if quotient && fixed(e) && !self.shared.contains(e) {
                    self.shared.push(e.clone());
                }
            });
        };
        for item in &leaf.items {
            match item {
                Item::Loop { lo, hi, .. } => {
                    see(lo);
                    see(hi);
                }
                Item::Cond(e, _) | Item::Let(_, e) => see(e),
                Item::Size(_)
                | Item::Scalar(_)
                | Item::Opaque(_)
                | Item::While(_)
                | Item::Alloc(_)
                | Item::Fact(..)
                | Item::Checked(_) => {}
            }
        }
    }

    fn shared_values(&self, leaf: &Leaf) -> Result<Vec<Expr>, String> {
        let (mut builder, outer, vector) = self.start(leaf.instance.len());
        self.execute(&mut builder, &outer, leaf, &vector)?;
        Ok(builder.shared_values())
    }

    /// A system whose first unknowns are the surroundings and an instance vector.
    fn start(&self, rank: usize) -> (Builder<'e>, Scope, Vec<Lin>) {
        let mut builder = Builder::new(self.written);
        let mut outer = builder.surroundings(self.env);
        builder.share(&mut outer, &self.shared);
        let vector = (0..rank).map(|_| Lin::atom(builder.system.fresh())).collect();
        (builder, outer, vector)
    }

    fn dims(&self, rank: usize) -> (Scope, u32) {
        let (builder, outer, _) = self.start(rank);
        (outer, builder.system.columns)
    }

    /// The instances that leaves of one label execute, as conjunctions.
    fn parts(&self, leaves: &[&Leaf]) -> Result<Vec<Conj>, String> {
        let mut out = Vec::new();
        for leaf in leaves {
            let (mut builder, outer, vector) = self.start(leaf.instance.len());
            self.execute(&mut builder, &outer, leaf, &vector)?;
            let (_, dims) = self.dims(leaf.instance.len());
            expand(&builder.system, dims, &mut out)?;
        }
        Ok(out)
    }

    /// One execution of a leaf, with the given instance vector.
    fn execute(
        &self,
        builder: &mut Builder,
        outer: &Scope,
        leaf: &Leaf,
        vector: &[Lin],
    ) -> Result<Copy, String> {
        let mut copy = Copy::new(builder, outer, leaf, &Place::own(leaf));
        for (v, e) in vector.iter().zip(copy.instance(builder, leaf)) {
            let e = e.ok_or_else(|| format!("an instance of `{}` cannot be tracked", leaf.label))?;
            builder.system.eq(v, &e);
        }
        if !builder.system.exact {
            return Err(format!("which instances of `{}` are executed depends on data", leaf.label));
        }
        Ok(copy)
    }

    /// Refuses two executions of one instance, by one leaf or by two.
    fn repeated(&self, a: &Leaf, b: &Leaf) -> Result<(), Unkept> {
        let (mut builder, outer, vector) = self.start(a.instance.len());
        let x = self.execute(&mut builder, &outer, a, &vector)?;
        let y = self.execute(&mut builder, &outer, b, &vector)?;
        let (common, relative) = relate(&a.path, &b.path);
        let levels = a.levels(common);
        if relative == Relative::Same || relative == Relative::Apart {
            // Different executions differ in some loop; which of the two is first does not matter for
            // one leaf, and for two leaves of different branches both orders do.
            let mut apart: Vec<Conj> = (0..levels.len()).map(|l| earlier(&levels, l, &x, &y)).collect();
            if relative == Relative::Apart {
                apart.extend((0..levels.len()).map(|l| earlier(&levels, l, &y, &x)));
            }
            builder.system.clause(apart);
        } else {
            let mut any = vec![equal(&levels, &x, &y)];
            any.extend(
                (0..levels.len()).flat_map(|l| [earlier(&levels, l, &x, &y), earlier(&levels, l, &y, &x)]),
            );
            builder.system.clause(any);
        }
        match solve(&builder.system) {
            Answer::Empty => Ok(()),
            Answer::Point(point) => {
                let at: Vec<i64> = vector.iter().filter_map(|v| v.at(&point)).collect();
                let why = format!(
                    "{} is executed more than once{}",
                    instance_text(a.label.as_str(), &at),
                    self.with_sizes(&outer, &point)
                );
                Err(Unkept { why, known: true })
            }
            Answer::Unknown => {
                Err(format!("whether `{}` repeats an instance could not be decided", a.label).into())
            }
        }
    }

    fn with_sizes(&self, outer: &Scope, point: &[i64]) -> String {
        let values: Vec<(Name, i64)> = self
            .env
            .items
            .iter()
            .filter_map(|i| match i {
                Item::Size(b) | Item::Loop { binder: b, .. } => Some(*b),
                _ => None,
            })
            .filter_map(|b| Some((b.name.clone(), *point.get(outer.col(b.id)? as usize)?)))
            .collect();
        if values.is_empty() { String::new() } else { format!(", with {}", sizes_text(&values)) }
    }
}
