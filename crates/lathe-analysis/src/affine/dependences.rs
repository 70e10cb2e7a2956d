//! Dependences between two units: pairs of instances that access the same element, at least one of which writes.

use super::{Context, Member, Tree, Unit};
use crate::copy::{Copy, Place, earlier, equal};
use crate::cover::expand;
use crate::env::Env;
use crate::leaves::{Leaf, Relative, Role, Touch, leaves, relate, written_buffers};
use crate::order::{aliases, conflict_of, may_reorder};
use crate::solve::{Answer, Reduced, normalize, solve_from};
use crate::system::{Col, Con, Conj, Lin};
use crate::translate::Builder;
use lathe_ir::visit::Path;
use lathe_ir::{Stmt, VarId};
use std::collections::{HashMap, HashSet};

/// Instances of unit `from` that come before instances of unit `to`.
#[derive(Clone, Debug)]
pub(super) struct Dependence {
    pub from: usize,
    pub to: usize,
    /// Unknowns of the iterators of both.
    pub columns: (Vec<Col>, Vec<Col>),
    /// The disjunction; unknowns that belong to neither the iterators nor the context are existential.
    pub when: Vec<Conj>,
    /// Both update an element by the same reduction operator: any order is legal, but not concurrently.
    pub licensed: bool,
    /// What the later one reads, the earlier one wrote.
    pub flow: bool,
}

impl Dependence {
    /// Without the unknowns that equalities determine by iterators and surroundings: isl's linear programs grow with
    /// them.
    fn narrowed(mut self, context: &Context) -> Dependence {
        let mut kept: HashSet<Col> = context.variables.values().copied().collect();
        kept.extend(self.columns.0.iter().chain(&self.columns.1));
        for when in &mut self.when {
            *when = narrowed(when, &kept).unwrap_or_else(|| std::mem::take(when));
        }
        self
    }
}

/// The conjunction over fewer unknowns; `None` if numbers grow too large.
fn narrowed(when: &Conj, kept: &HashSet<Col>) -> Option<Conj> {
    let mut out = when.clone();
    let told = |c: &Con| {
        let free = c.lin.terms.iter().find(|t| !kept.contains(&t.0) && matches!(t.1, 1 | -1));
        free.copied().filter(|_| c.eq)
    };
    while let Some((at, (col, k))) = out.iter().enumerate().find_map(|(n, c)| Some((n, told(c)?))) {
        let by = out.swap_remove(at);
        for c in &mut out {
            let factor = c.lin.coefficient(&col).checked_mul(-k)?;
            c.lin = c.lin.combine(1, &by.lin, factor)?;
        }
    }
    normalize(out)
}

/// All dependences of a subtree.
pub(super) fn dependences(
    context: &Context,
    env: &Env,
    root: &Stmt,
    units: &[Unit],
) -> Result<Vec<Dependence>, String> {
    let mut conflicting = written_buffers(root);
    let pairs = aliases(env);
    for (a, b) in &pairs {
        if conflicting.contains(a) {
            conflicting.insert(*b);
        }
    }
    let all = leaves(root, &conflicting)?;
    let mut owned: Vec<(usize, &Leaf)> = Vec::new();
    for leaf in &all {
        let path: Path = leaf.path.iter().map(|s| s.position).collect();
        let unit = units.iter().position(|u| path.starts_with(&u.path));
        owned.push((unit.ok_or("a statement belongs to no unit")?, leaf));
    }
    let mut out = Vec::new();
    for (from, a) in &owned {
        for (to, b) in &owned {
            for x in &a.touches {
                for y in &b.touches {
                    let meet = x.buffer == y.buffer || pairs.contains(&(x.buffer, y.buffer));
                    if meet && (x.role.writes() || y.role.writes()) {
                        let found = pair(env, &conflicting, units, (*from, a, x), (*to, b, y))?;
                        out.extend(found.map(|d| d.narrowed(context)));
                    }
                }
            }
        }
    }
    Ok(out)
}

type One<'a> = (usize, &'a Leaf<'a>, &'a Touch);

fn pair(
    env: &Env,
    written: &HashSet<lathe_ir::BufId>,
    units: &[Unit],
    (from, a, x): One,
    (to, b, y): One,
) -> Result<Option<Dependence>, String> {
    let at = (Place::of(x), Place::of(y));
    let (common, relative) = relate(&a.path[..at.0.depth], &b.path[..at.1.depth]);
    let levels = a.levels(common);
    // Within one unit everything keeps its order by itself.
    let last = relative == Relative::First && from != to;
    if levels.is_empty() && !last {
        return Ok(None);
    }
    let mut builder = Builder::new(written);
    let outer = builder.surroundings(env);
    let mut p = Copy::new(&mut builder, &outer, a, &at.0);
    let mut q = Copy::new(&mut builder, &outer, b, &at.1);
    let conflict = conflict_of(&mut builder, a, &levels, (&mut p, &mut q), (x, y));
    builder.system.cons.extend(conflict.when);
    let mut order: Vec<Conj> = (0..levels.len()).map(|l| earlier(&levels, l, &p, &q)).collect();
    if last {
        order.push(equal(&levels, &p, &q));
    }
    builder.system.clause(order);
    let mut when = Vec::new();
    expand(&builder.system, builder.system.columns, &mut when)?;
    let of = |u: usize, c: &Copy| -> Option<Vec<Col>> {
        units[u].iters.iter().map(|b| c.scope.col(b.id)).collect()
    };
    let (Some(first), Some(second)) = (of(from, &p), of(to, &q)) else {
        return Err("a bound or condition around the loops reads data written inside them".into());
    };
    if when.is_empty() {
        return Ok(None);
    }
    let licensed = may_reorder(env, (a, x), (b, y));
    let flow = x.role.writes() && y.role != Role::Write;
    Ok(Some(Dependence { from, to, columns: (first, second), when, licensed, flow }))
}

/// Finds out which members carry dependences by themselves: [`Member::alone`].
pub(super) fn carriers(
    context: &Context,
    units: &[Unit],
    dependences: &[Dependence],
    t: &mut Tree,
    inside: &[usize],
    around: &mut Vec<Member>,
) {
    match t {
        Tree::Leaf => {}
        Tree::Sequence(parts) => {
            for (inside, t) in parts {
                carriers(context, units, dependences, t, inside, around);
            }
        }
        Tree::Blocks { child, .. } => carriers(context, units, dependences, child, inside, around),
        Tree::Band { members, child, .. } => {
            let here: Vec<&Dependence> =
                dependences.iter().filter(|d| inside.contains(&d.from) && inside.contains(&d.to)).collect();
            for m in 0..members.len() {
                let others: Vec<&Member> = around
                    .iter()
                    .chain(members.iter().enumerate().filter(|o| o.0 != m).map(|o| o.1))
                    .collect();
                let alone = !members[m].coincident
                    && here.iter().any(|d| crosses(context, units, d, &members[m], &others) != Some(false));
                members[m].alone = alone;
            }
            let outside = around.len();
            around.extend(members.iter().cloned());
            carriers(context, units, dependences, child, inside, around);
            around.truncate(outside);
        }
    }
}

/// Whether a dependence is carried by a member, and by none of the others. `None`: unknown.
pub(super) fn crosses(
    context: &Context,
    units: &[Unit],
    d: &Dependence,
    member: &Member,
    others: &[&Member],
) -> Option<bool> {
    let far = distance(context, units, d, member)?;
    let apart = [far.offset(-1)?, far.scaled(-1)?.offset(-1)?];
    let sides: Vec<Conj> = apart.into_iter().map(|lin| vec![Con { lin, eq: false }]).collect();
    within(context, units, d, others, &sides)
}

/// Whether a dependence goes backwards along a member, within one iteration of all others. `None`: unknown.
pub(super) fn back(
    context: &Context,
    units: &[Unit],
    d: &Dependence,
    member: &Member,
    others: &[&Member],
) -> Option<bool> {
    let far = distance(context, units, d, member)?;
    within(context, units, d, others, &[vec![Con { lin: far.scaled(-1)?.offset(-1)?, eq: false }]])
}

/// Whether a dependence stays within an iteration of all these members. `None`: nobody knows.
pub(super) fn stays(context: &Context, units: &[Unit], d: &Dependence, members: &[&Member]) -> Option<bool> {
    within(context, units, d, members, &[Conj::new()])
}

/// The dependence distance along a member.
fn distance(context: &Context, units: &[Unit], d: &Dependence, m: &Member) -> Option<Lin> {
    let own = |u: usize, columns: &[Col]| -> HashMap<VarId, Col> {
        units[u].iters.iter().zip(columns).map(|(b, c)| (b.id, *c)).collect()
    };
    let (x, y) = (own(d.from, &d.columns.0), own(d.to, &d.columns.1));
    let (a, b) = (m.rows.get(&d.from)?, m.rows.get(&d.to)?);
    context.lin(b, &y)?.minus(&context.lin(a, &x)?)
}

/// Whether a dependence has instances within one iteration of all members for which one of the conjunctions holds.
fn within(
    context: &Context,
    units: &[Unit],
    d: &Dependence,
    members: &[&Member],
    one_of: &[Conj],
) -> Option<bool> {
    let mut equal = Conj::new();
    for m in members {
        equal.push(Con { lin: distance(context, units, d, m)?, eq: true });
    }
    for when in &d.when {
        let all = when.iter().chain(&equal).chain(one_of.iter().flatten());
        let columns = all.flat_map(|c| &c.lin.terms).map(|t| t.0 + 1).max().unwrap_or(0);
        let mut state = Reduced::default();
        if !state.absorb(when) || !state.absorb(&equal) {
            continue;
        }
        for more in one_of {
            if solve_from(&state, more, &[], columns) != Answer::Empty {
                return Some(true);
            }
        }
    }
    Some(false)
}
