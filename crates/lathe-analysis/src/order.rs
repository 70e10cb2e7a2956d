//! Whether a change of order keeps every dependence (ARCHITECTURE.md, "How legality is kept").
//!
//! For each pair of statements that touch one buffer, the question is put as one system: two instances
//! that touch one element, ordered in the old tree; the same two instances in the new tree, not ordered
//! that way. Happens-before is lexicographic: the outermost loop in which two instances differ decides,
//! if it runs its iterations in order; where all common loops agree, the sequence does.

use crate::copy::{Copy, Place, earlier, equal, same_header};
use crate::descend::descend;
use crate::env::{Env, Item};
use crate::followed::{Followed, Whereabouts};
use crate::kept::kept_locals;
use crate::leaves::{Leaf, Level, Relative, Role, Touch, leaves, relate, written_buffers};
use crate::refusal::{DepKind, OrderProof, OrderRefusal, Undecided, Violation};
use crate::solve::{Answer, Reduced, refuted, solve_from};
use crate::system::{Conj, Lin, eq};
use crate::translate::{Builder, Scope};
use crate::turns::{takes_several_turns, takes_turns, within};
use lathe_ir::stmt::MemoryOrder;
use lathe_ir::{BufId, Label, Name, ReduceOp, Stmt, StmtKind};
use std::collections::{HashMap, HashSet};

/// Are all conflicting pairs of instances of `before` still ordered the same way in `after`?
///
/// Instances are matched by label and instance vector. Reassociable reductions (same label, same
/// operator) may be reordered among themselves, which is recorded in
/// [`OrderProof::used_licence`] where it happens, but must remain ordered. The subtree is taken to
/// execute the same instances before and after for each value of what is bound outside
/// ([`crate::instances_preserved`] decides that).
pub fn order_preserved(env: &Env, before: &Stmt, after: &Stmt) -> Result<OrderProof, OrderRefusal> {
    let mut proof = OrderProof { facts: env.facts(), ..OrderProof::default() };
    descend(env, before, after, &mut |env, old, new| compare(env, old, new, &mut proof))?;
    proof.used_licence.sort();
    proof.used_licence.dedup();
    Ok(proof)
}

fn undecided(why: String) -> OrderRefusal {
    OrderRefusal::Undecided(why.into())
}

fn undecided_at(statements: &[&Leaf], why: String) -> OrderRefusal {
    OrderRefusal::Undecided(Undecided::at(why, statements))
}

/// Pairs of copies of one pair of labels (unrolled or peeled code) before the check gives up.
const MAX_COPIES: usize = 50_000;

/// The check of one changed subtree.
fn compare(env: &Env, before: &Stmt, after: &Stmt, proof: &mut OrderProof) -> Result<(), OrderRefusal> {
    let written = written_buffers(before);
    if written.is_empty() {
        return Ok(());
    }
    let kept = kept_locals(before, after);
    let mut conflicting: HashSet<BufId> = written.difference(&kept).copied().collect();
    // A buffer that may overlap a written one conflicts with it.
    for (a, b) in aliases(env) {
        if written.contains(&a) {
            conflicting.insert(b);
        }
    }
    compare_of(env, (before, after), &conflicting, &written, proof)
}

/// The check of one changed subtree, for accesses to some buffers.
fn compare_of(
    env: &Env,
    (before, after): (&Stmt, &Stmt),
    conflicting: &HashSet<BufId>,
    written: &HashSet<BufId>,
    proof: &mut OrderProof,
) -> Result<(), OrderRefusal> {
    let old = leaves(before, conflicting).map_err(undecided)?;
    let new = leaves(after, conflicting).map_err(undecided)?;
    let mut by_label: HashMap<&Label, Vec<&Leaf>> = HashMap::new();
    for leaf in &new {
        by_label.entry(leaf.label).or_default().push(leaf);
    }
    atomics_stay(env, (before, &old), (after, &new)).map_err(undecided)?;
    let aliases: HashSet<(BufId, BufId)> = aliases(env).into_iter().collect();
    let mut builder = Builder::new(written);
    let outer = builder.surroundings(env);
    let whereabouts = Whereabouts::of(&old);
    let check = Check { env, start: (builder, outer), aliases, by_label, whereabouts };
    // Statements that share a buffer, each pair once.
    let mut touching: HashMap<BufId, Vec<usize>> = HashMap::new();
    for (i, leaf) in old.iter().enumerate() {
        for t in &leaf.touches {
            let list = touching.entry(t.buffer).or_default();
            if list.last() != Some(&i) {
                list.push(i);
            }
        }
    }
    for (i, first) in old.iter().enumerate() {
        let mut partners: Vec<usize> = first
            .touches
            .iter()
            .flat_map(|t| {
                let others = check.aliases.iter().filter(|a| a.0 == t.buffer).map(|a| a.1);
                std::iter::once(t.buffer).chain(others).filter_map(|b| touching.get(&b)).flatten().copied()
            })
            .filter(|j| *j >= i)
            .collect();
        partners.sort_unstable();
        partners.dedup();
        for j in partners {
            proof.pairs += 1;
            check.pair(first, &old[j], proof)?;
            if i != j {
                check.pair(&old[j], first, proof)?;
            }
        }
    }
    match new.iter().find(|leaf| takes_several_turns(env, leaf)) {
        Some(leaf) => {
            let label = leaf.label;
            let why = format!("one iteration would make the update `{label}` in order more than once");
            Err(undecided_at(&[leaf], why))
        }
        None => Ok(()),
    }
}

/// Pairs of different parameters of one alias class, both ways.
pub(crate) fn aliases(env: &Env) -> Vec<(BufId, BufId)> {
    let classed: Vec<(BufId, &Name)> =
        env.func.params.iter().filter_map(|p| Some((p.array()?.id, p.alias.as_ref()?))).collect();
    let mut out = Vec::new();
    for a in &classed {
        for b in &classed {
            if a.0 != b.0 && a.1 == b.1 {
                out.push((a.0, b.0));
            }
        }
    }
    out
}

struct Check<'e, 'n> {
    env: &'e Env<'e>,
    /// What surrounds both trees.
    start: (Builder<'e>, Scope),
    aliases: HashSet<(BufId, BufId)>,
    by_label: HashMap<&'n Label, Vec<&'n Leaf<'n>>>,
    whereabouts: Whereabouts<'n>,
}

/// Two conflicting instances in their old order, as far as both trees agree on them.
struct Base<'w> {
    builder: Builder<'w>,
    state: Reduced,
    /// The state with one alternative of each clause, but for those that elimination refutes.
    ways: Vec<Reduced>,
    /// How many constraints of the builder the state holds.
    absorbed: usize,
    /// Which elements meet; which loop carries it.
    clauses: Vec<Vec<Conj>>,
}

/// What two instances are compared for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Demand<'d> {
    /// They run in the old order, or in the order of iteration numbers if they were unordered.
    Ordered,
    /// They run in the old order, if they had one.
    KeptOrdered,
    /// They do not run at the same time.
    NotConcurrent,
    /// They do not run at the same time where one is not indivisible to the other: outside of these scopes.
    Indivisible(&'d Name, &'d Name),
}

/// How two touches of one element may lie to each other.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Freedom {
    /// As they did.
    None,
    /// As they did, if they were ordered: atomics that observe the order.
    Unordered,
    /// In any order: reassociable reductions.
    AnyOrder,
    /// In any order, and concurrently: atomic updates.
    Atomic,
}

/// One way in which two leaves conflict, for messages.
pub(crate) struct Conflict<'t> {
    pub touches: (&'t Touch, &'t Touch),
    /// Holds where this is the conflict.
    pub when: Conj,
    /// Subscripts, where they are known exactly.
    pub element: Option<Vec<Lin>>,
}

impl Check<'_, '_> {
    /// Conflicts of instances of `a` that run before instances of `b`.
    fn pair(&self, a: &Leaf, b: &Leaf, proof: &mut OrderProof) -> Result<(), OrderRefusal> {
        // Within one compute the order is its own business: it is a statement, before and after.
        if !a.dims.is_empty() && std::ptr::eq(a, b) {
            return Ok(());
        }
        let mut places: Vec<(Place, Place)> = Vec::new();
        for x in &a.touches {
            for y in &b.touches {
                let at = (Place::of(x), Place::of(y));
                if self.conflict(x, y) && !places.contains(&at) {
                    places.push(at);
                }
            }
        }
        for at in places {
            let mut kinds: [Vec<(&Touch, &Touch)>; 4] = Default::default();
            for x in a.touches.iter().filter(|t| Place::of(t) == at.0) {
                for y in b.touches.iter().filter(|t| Place::of(t) == at.1) {
                    if self.conflict(x, y) {
                        kinds[self.freedom((a, x), (b, y)) as usize].push((x, y));
                    }
                }
            }
            let [strict, unordered, licensed, atomic] = kinds;
            let scopes = atomic.first().and_then(|(x, y)| Some((x.role.scope()?, y.role.scope()?)));
            let indivisible = scopes.map(|(p, q)| Demand::Indivisible(p, q));
            for (touches, demand) in [
                (&strict, Demand::Ordered),
                (&unordered, Demand::KeptOrdered),
                (&licensed, Demand::NotConcurrent),
                (&atomic, indivisible.unwrap_or(Demand::NotConcurrent)),
            ] {
                if !touches.is_empty()
                    && let Some(v) = self.violation(a, b, at, touches, demand)?
                {
                    return Err(OrderRefusal::Violation(Box::new(v)));
                }
            }
            for free in [licensed, atomic] {
                let known = free.is_empty() || proof.used_licence.contains(a.label);
                if !known && self.violation(a, b, at, &free, Demand::Ordered)?.is_some() {
                    proof.used_licence.push(a.label.clone());
                }
            }
        }
        Ok(())
    }

    fn conflict(&self, x: &Touch, y: &Touch) -> bool {
        (x.role.writes() || y.role.writes())
            && (x.buffer == y.buffer || self.aliases.contains(&(x.buffer, y.buffer)))
    }

    fn freedom(&self, (a, x): (&Leaf, &Touch), (b, y): (&Leaf, &Touch)) -> Freedom {
        match (&x.role, &y.role) {
            (Role::Atomic(p), Role::Atomic(q)) => match (&p.update, &q.update) {
                (Some((f, exact)), Some((g, _))) if f == g && x.buffer == y.buffer => {
                    // Of one statement, or of any where not even rounding tells the order.
                    let any = *exact || a.label == b.label;
                    if any && commutes(self.env, f) { Freedom::Atomic } else { Freedom::Unordered }
                }
                _ => Freedom::Unordered,
            },
            _ if may_reorder(self.env, (a, x), (b, y)) => Freedom::AnyOrder,
            _ => Freedom::None,
        }
    }

    /// A pair of instances, `a`'s before `b`'s in the old tree, that conflict by one of the given
    /// pairs of touches and do not meet the demand in the new tree.
    fn violation(
        &self,
        a: &Leaf,
        b: &Leaf,
        at: (Place, Place),
        touches: &[(&Touch, &Touch)],
        demand: Demand,
    ) -> Result<Option<Violation>, OrderRefusal> {
        let kept = |l: &Level| demand != Demand::KeptOrdered || is_ordered(l) || takes_turns(l, a, b);
        let (common, relative) = relate(&a.path[..at.0.depth], &b.path[..at.1.depth]);
        let levels = a.levels(common);
        let last = relative == Relative::First;
        if levels.is_empty() && !last {
            return Ok(None);
        }
        let (mut builder, outer) = self.start.clone();
        let mut x = Copy::new(&mut builder, &outer, a, &at.0);
        let mut y = Copy::new(&mut builder, &outer, b, &at.1);
        let conflicts: Vec<Conflict> =
            touches.iter().map(|t| conflict_of(&mut builder, a, &levels, (&mut x, &mut y), *t)).collect();
        let inner = (0..levels.len()).filter(|l| kept(&levels[*l]));
        let mut old_order: Vec<Conj> = inner.map(|l| earlier(&levels, l, &x, &y)).collect();
        if last {
            old_order.push(equal(&levels, &x, &y));
        }
        if old_order.is_empty() {
            return Ok(None);
        }
        // The most telling alternatives first: which elements meet, then which loop carries it.
        let mut clauses = vec![conflicts.iter().map(|c| c.when.clone()).collect(), old_order];
        let front = clauses.clone();
        clauses.extend(builder.system.clauses.iter().cloned());
        let mut state = Reduced::default();
        if !state.absorb(&builder.system.cons) {
            return Ok(None);
        }
        let absorbed = builder.system.cons.len();
        // The ways in which they may conflict: most are none.
        let own = &builder.system.clauses;
        let ways: Vec<Reduced> =
            alternatives(&state, &front).into_iter().filter(|way| !refuted(way, own)).collect();
        if ways.is_empty() {
            return Ok(None);
        }
        let columns = builder.system.columns;
        // They conflict: where do they are in the new tree?
        let (instance_a, instance_b) = (x.instance(&mut builder, a), y.instance(&mut builder, b));
        let none = Vec::new();
        let new_a = self.by_label.get(a.label).unwrap_or(&none);
        let new_b = self.by_label.get(b.label).unwrap_or(&none);
        // Whoever cannot say where they are may still say that they do not conflict.
        let never = |state: &Reduced| solve_from(state, &[], &clauses, columns) == Answer::Empty;
        if new_a.len() * new_b.len() > MAX_COPIES {
            if never(&state) {
                return Ok(None);
            }
            let why = format!("the statement `{}` occurs in too many places to examine all pairs", a.label);
            return Err(undecided_at(&[a], why));
        }
        let base = Base { builder, state, ways, absorbed, clauses: front };
        let new_a = self.whereabouts.within(&self.start, (a, at.0), new_a);
        let new_b = self.whereabouts.within(&self.start, (b, at.1), new_b);
        let touched: (Vec<&Touch>, Vec<&Touch>) = touches.iter().copied().unzip();
        for &na in &new_a {
            for &nb in &new_b {
                for pa in places_of(na, &touched.0, (a, at.0)) {
                    for pb in places_of(nb, &touched.1, (b, at.1)) {
                        let one = Followed { old: (a, at.0, &x, &instance_a), new: (na, pa) };
                        let two = Followed { old: (b, at.1, &y, &instance_b), new: (nb, pb) };
                        let found = match self.in_new_tree(&base, &outer, one, two, demand) {
                            Err(_) if never(&base.state) => return Ok(None),
                            found => found?,
                        };
                        let Some((point, concurrent, matched)) = found else { continue };
                        let text = |v: &[Option<Lin>]| -> Vec<i64> {
                            v.iter().map(|l| l.as_ref().and_then(|l| l.at(&point)).unwrap_or(0)).collect()
                        };
                        if !matched {
                            let why = format!(
                                "the instances of `{}` and `{}` cannot be matched before and after the change",
                                a.label, b.label
                            );
                            return Err(undecided_at(&[a, b], why));
                        }
                        let hit = conflicts.iter().find(|c| c.when.iter().all(|c| c.holds(&point)));
                        let touch = hit.map_or(touches[0], |c| c.touches);
                        return Ok(Some(Violation {
                            first: (a.label.clone(), text(&instance_a[..a.instance.len()])),
                            second: (b.label.clone(), text(&instance_b[..b.instance.len()])),
                            buffer: buffer_name(self.env, a, touch.0.buffer),
                            element: hit
                                .and_then(|c| c.element.as_ref())
                                .and_then(|e| e.iter().map(|l| l.at(&point)).collect()),
                            kind: kind_of(touch),
                            sizes: outer_values(self.env, &outer, &point),
                            places: (a.stmt.places().clone(), b.stmt.places().clone()),
                            carried_by: carrier(&levels, &x, &y, &point),
                            concurrent,
                        }));
                    }
                }
            }
        }
        Ok(None)
    }

    /// Looks for a violation at one pair of places of the new tree: the point, whether the two run at
    /// the same time there, and whether their instances could be matched exactly.
    fn in_new_tree(
        &self,
        base: &Base,
        outer: &Scope,
        one: Followed,
        two: Followed,
        demand: Demand,
    ) -> Result<Option<(Vec<i64>, bool, bool)>, OrderRefusal> {
        let ((na, pa), (nb, pb)) = (one.new, two.new);
        let (common, relative) = relate(&na.path[..pa.depth], &nb.path[..pb.depth]);
        let levels = na.levels(common);
        let mut builder = base.builder.clone();
        let (x, followed_a) = one.copy(&mut builder, outer)?;
        let (y, followed_b) = two.copy(&mut builder, outer)?;
        let matched = followed_a && followed_b;
        let mut wrong: Vec<(Conj, bool)> = Vec::new();
        let in_order = matches!(demand, Demand::Ordered | Demand::KeptOrdered);
        let divisible = |l: usize| match demand {
            Demand::Indivisible(p, q) => beyond(self.env, na, p, l) || beyond(self.env, nb, q, l),
            _ => true,
        };
        for (l, level) in levels.iter().enumerate() {
            let reversed = earlier(&levels, l, &y, &x);
            let turns = demand == Demand::KeptOrdered && takes_turns(level, na, nb);
            if !is_ordered(level) && !turns {
                if divisible(l) {
                    wrong.push((earlier(&levels, l, &x, &y), true));
                    wrong.push((reversed, true));
                }
            } else if in_order {
                wrong.push((reversed, false));
            }
        }
        if in_order && matches!(relative, Relative::Second | Relative::Same) {
            wrong.push((equal(&levels, &x, &y), false));
        }
        if wrong.is_empty() {
            return Ok(None);
        }
        let more = builder.system.cons.get(base.absorbed..).unwrap_or(&[]);
        let either: Vec<Conj> = wrong.iter().map(|w| w.0.clone()).collect();
        let none = base.ways.iter().all(|way| {
            let mut way = way.clone();
            !way.absorb(more)
                || alternatives(&way, std::slice::from_ref(&either))
                    .iter()
                    .all(|wrong| refuted(wrong, &builder.system.clauses))
        });
        if none {
            return Ok(None);
        }
        // Which one is found first is what the message says.
        let mut clauses = base.clauses.clone();
        clauses.push(either);
        clauses.append(&mut builder.system.clauses);
        match solve_from(&base.state, more, &clauses, builder.system.columns) {
            Answer::Empty => Ok(None),
            Answer::Point(p) => {
                let how = wrong.iter().find(|w| w.0.iter().all(|c| c.holds(&p)));
                let concurrent = how.is_some_and(|w| w.1);
                Ok(Some((p, concurrent, matched)))
            }
            Answer::Unknown => {
                let (a, b) = (na.label, nb.label);
                let why = format!("the order of `{a}` and `{b}` could not be decided within the budget");
                Err(undecided_at(&[na, nb], why))
            }
        }
    }
}

/// Whether a loop around a leaf, by its number, is outside of the loops that a scope names.
pub(crate) fn beyond(env: &Env, leaf: &Leaf, scope: &Name, level: usize) -> bool {
    !within(env, scope) && scope_level(leaf, scope).is_some_and(|first| level < first)
}

pub(crate) fn buffer_name(env: &Env, leaf: &Leaf, id: BufId) -> Name {
    let allocated = leaf.path.iter().filter_map(|step| step.stmt.allocated());
    let local = allocated.filter(|b| b.id == id).map(|b| b.name.clone()).next();
    local.or_else(|| env.buffer(id).map(|b| b.name.clone())).unwrap_or_else(|| "?".into())
}

/// Sizes and enclosing variables with their values.
pub(crate) fn outer_values(env: &Env, outer: &Scope, point: &[i64]) -> Vec<(Name, i64)> {
    let binders = env.items.iter().filter_map(|i| match i {
        Item::Size(b) | Item::Loop { binder: b, .. } => Some(*b),
        Item::Scalar(b) | Item::Let(b, _) if b.ty.is_int() => Some(*b),
        _ => None,
    });
    binders.filter_map(|b| Some((b.name.clone(), *point.get(outer.col(b.id)? as usize)?))).collect()
}

/// A state with one alternative of each clause, as far as they do not contradict each other evidently.
fn alternatives(state: &Reduced, clauses: &[Vec<Conj>]) -> Vec<Reduced> {
    clauses.iter().fold(vec![state.clone()], |all, clause| {
        let each = all.iter().flat_map(|state| clause.iter().map(move |c| (state, c)));
        let absorbed = each.filter_map(|(state, c)| {
            let mut state = state.clone();
            state.absorb(c).then_some(state)
        });
        absorbed.collect()
    })
}

pub(crate) fn is_ordered(level: &Level) -> bool {
    match level {
        Level::Loop(_, exec) => exec.is_ordered(),
        Level::While(_) => true,
    }
}

/// The number of the first loop around a leaf that is run by the executor of that name.
fn scope_level(leaf: &Leaf, scope: &Name) -> Option<usize> {
    let all = leaf.levels(leaf.path.len());
    all.iter().position(|l| matches!(l, Level::Loop(_, exec) if exec.name() == *scope))
}

/// An atomic that orders accesses beside its own.
pub(crate) fn orders_others(root: &Stmt) -> Option<Label> {
    let mut found = None;
    lathe_ir::visit::walk(root, &mut |s, _| {
        if let StmtKind::Atomic(a) = s.kind()
            && !matches!(a.order, MemoryOrder::Relaxed | MemoryOrder::InOrder)
        {
            found = Some(a.label.clone());
        }
        found.is_none()
    });
    found
}

/// Refuses what pairs of accesses do not show: atomics that order other accesses, and atomics whose
/// scope shrinks.
fn atomics_stay(
    env: &Env,
    (before, old): (&Stmt, &[Leaf]),
    (after, new): (&Stmt, &[Leaf]),
) -> Result<(), String> {
    if let Some(label) = [before, after].into_iter().find_map(orders_others) {
        return Err(format!("the atomic `{label}` orders other accesses"));
    }
    let parallel = |i: &Item| matches!(i, Item::Loop { exec, .. } if !exec.is_ordered());
    if !env.items.iter().any(parallel) {
        return Ok(());
    }
    for leaf in new {
        for scope in leaf.touches.iter().filter_map(|t| t.role.scope()).filter(|s| !within(env, s)) {
            let had = |o: &&Leaf| o.label == leaf.label && scope_level(o, scope).is_some();
            if scope_level(leaf, scope).is_some() && !old.iter().any(|o| had(&o)) {
                let label = leaf.label;
                return Err(format!("the atomic `{label}` would only be atomic within one `{scope}`"));
            }
        }
    }
    Ok(())
}

fn commutes(env: &Env, op: &ReduceOp) -> bool {
    match op {
        ReduceOp::User(name) => env.module.ops.get(name).is_some_and(|o| o.commutative),
        _ => true,
    }
}

/// Two updates commute: they are of one licensed reduction, or of two with one operator where not even rounding tells
/// their order.
pub(crate) fn may_reorder(env: &Env, (a, x): (&Leaf, &Touch), (b, y): (&Leaf, &Touch)) -> bool {
    let (
        Role::Combine { target: i, op: p, licence: true },
        Role::Combine { target: j, op: q, licence: true },
    ) = (&x.role, &y.role)
    else {
        return false;
    };
    let one = a.label == b.label || exact(a) && exact(b);
    one && i == j && p == q && x.buffer == y.buffer && commutes(env, p)
}

/// Whether a reduction is of one array of integers or truth values, by an operator that is the same in any order.
fn exact(leaf: &Leaf) -> bool {
    leaf.stmt.as_reduce().is_some_and(|r| {
        let whole = |t: &lathe_ir::Access| t.elem.scalar().is_some_and(|s| !s.is_float());
        let any = matches!(
            r.op,
            ReduceOp::Sum | ReduceOp::Prod | ReduceOp::Min | ReduceOp::Max | ReduceOp::All | ReduceOp::Any
        );
        any && r.targets.len() == 1 && r.targets.iter().all(whole)
    })
}

/// The places at which a leaf of the new tree touches what `touches` touched at a place of the old one: of the conditions and
/// bounds around it that read these buffers, those that both trees have are themselves; any other may be any.
fn places_of(new: &Leaf, touches: &[&Touch], (old, was): (&Leaf, Place)) -> Vec<Place> {
    let around = |t: &&Touch, leaf: &Leaf| t.depth < leaf.path.len();
    let buffers: Vec<BufId> = touches.iter().filter(|t| around(t, old)).map(|t| t.buffer).collect();
    if buffers.is_empty() {
        return vec![Place::own(new)];
    }
    let mut out: Vec<Place> = Vec::new();
    for t in new.touches.iter().filter(|t| around(t, new) && buffers.contains(&t.buffer)) {
        if !out.contains(&Place::of(t)) {
            out.push(Place::of(t));
        }
    }
    if out.len() > 1 {
        let others = old.touches.iter().filter(|t| around(t, old)).map(Place::of).filter(|p| *p != was);
        let others: Vec<Place> = others.collect();
        let is = |p: &Place, q: &Place| same_header((old, p), (new, q));
        let other = |q: &&Place| others.iter().any(|p| is(p, q)) && !is(&was, q);
        let own: Vec<Place> = out.iter().filter(|q| !other(q)).copied().collect();
        if !own.is_empty() {
            return own;
        }
    }
    if out.is_empty() {
        out.push(Place::own(new));
    }
    out
}

/// When two touches meet in one element.
pub(crate) fn conflict_of<'t>(
    builder: &mut Builder,
    a: &Leaf,
    levels: &[Level],
    (x, y): (&mut Copy, &mut Copy),
    touches: (&'t Touch, &'t Touch),
) -> Conflict<'t> {
    let mut when = Conj::new();
    let mut element = None;
    if touches.0.buffer == touches.1.buffer {
        if let (Some(i), Some(j)) = (&touches.0.indices, &touches.1.indices)
            && i.len() == j.len()
        {
            let system = &mut builder.system;
            let before = (std::mem::replace(&mut system.exact, true), std::mem::take(&mut system.symbolic));
            let i: Vec<Lin> = i.iter().map(|e| builder.value(&mut x.scope, e)).collect();
            if builder.system.exact && !builder.system.symbolic {
                element = Some(i.clone());
            }
            let j: Vec<Lin> = j.iter().map(|e| builder.value(&mut y.scope, e)).collect();
            when.extend(i.iter().zip(&j).filter_map(|(p, q)| eq(p, q)));
            builder.system.exact &= before.0;
            builder.system.symbolic |= before.1;
        }
        // Each execution of an allocation has storage of its own.
        if let Some(steps) = a.allocated_at(touches.0.buffer) {
            let around = a.levels(steps).len();
            when.extend(equal(levels.get(..around).unwrap_or(levels), x, y));
        }
    }
    Conflict { touches, when, element }
}

fn kind_of((x, y): (&Touch, &Touch)) -> DepKind {
    match (&x.role, &y.role) {
        (Role::Read, _) => DepKind::Anti,
        (_, Role::Write) => DepKind::Output,
        _ => DepKind::Flow,
    }
}

/// The outermost loop of the old tree in which two instances differ.
fn carrier(levels: &[Level], x: &Copy, y: &Copy, point: &[i64]) -> Option<Name> {
    levels.iter().find_map(|l| {
        let (a, b) = (x.level(l)?.at(point)?, y.level(l)?.at(point)?);
        match l {
            Level::Loop(binder, _) if a != b => Some(binder.name.clone()),
            _ => None,
        }
    })
}
