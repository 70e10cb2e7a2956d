//! Whether statements do what they did: the same operation on the same elements with the same values, once the variables
//! of the loops around are told apart.
//!
//! Order and instances say which executions there are and which come first; this says what each of them does. An execution
//! of the new tree is the one of the old tree that has the same label and instance vector. In most cases the vector gives
//! every old variable as an expression over the new ones, and the old statement with these in their place is the new one.
//! Where it does not, the old iteration is put beside the new one, under variables of its own, and what the vectors say of
//! both together decides whether expressions are equal.

use crate::budget::spend;
use crate::copy::same_iteration;
use crate::env::{Env, Item};
use crate::instances::Unkept;
use crate::leaves::{Leaf, leaves, on_data, written_buffers};
use crate::solve::{Answer, solve};
use crate::translate::Builder;
use crate::values::{Aligner, entered, only_in};
use lathe_ir::visit::{loads_of, substitute, substitute_stmt, vars_of};
use lathe_ir::{Binder, BufId, Buffer, Dim, Executor, Expr, Label, Scalar, Stmt, StmtKind, VarId, build};
use lathe_poly::simplify::{simplify_expr, simplify_stmt};
use lathe_poly::{Linear, Ranges};
use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;

/// In so many places a statement may stand before its copies are not compared pair by pair.
const MAX_COPIES: usize = 64;

/// What a pair costs of what an analysis may do.
const PAIR: u64 = 1000;

/// Whether every labelled statement of `after` does what it did in `before`, and under the conditions on data that it had.
/// Gives how many statements were compared. Statements that touch an array that only one of the trees has are left to
/// whoever knows what the array stands for. `known` is what holds at the place.
///
/// # Errors
/// The statement that does something else; or, not `known`, why it could not be decided.
pub fn same_content(
    env: &Env,
    before: &Stmt,
    after: &Stmt,
    known: &dyn Fn() -> Ranges,
) -> Result<usize, Unkept> {
    match compared(env, before, after) {
        // Steps simplify what they write, by all that is known at the place.
        Err(Unkept { known: true, .. }) => compared(env, &simplify_stmt(before, &mut known()), after),
        found => found,
    }
}

/// [`same_content`] with what the trees themselves say.
pub(super) fn compared(env: &Env, before: &Stmt, after: &Stmt) -> Result<usize, Unkept> {
    if before == after {
        return Ok(0);
    }
    let none: HashSet<BufId> = HashSet::new();
    let (old, new) = (leaves(before, &none)?, leaves(after, &none)?);
    let mut was: BTreeMap<&Label, Vec<&Leaf>> = BTreeMap::new();
    for leaf in &old {
        was.entry(leaf.label).or_default().push(leaf);
    }
    let arrays: Vec<Arc<Buffer>> = [only_in(before, after), only_in(after, before)].concat();
    let mut written = written_buffers(before);
    written.extend(written_buffers(after));
    let frame =
        Frame { env, written, own: arrays.iter().map(|b| b.id).collect(), first: free(env, &old, &new) };
    let mut compared = 0;
    for n in &new {
        // A label that is new is no matter of what statements did.
        let Some(was) = was.get(n.label) else { continue };
        compared += 1;
        if was.iter().any(|o| o.stmt == n.stmt && same_iteration(o, n)) {
            continue;
        }
        if was.len() > MAX_COPIES {
            let why = format!("`{}` stands in too many places to compare all", n.label);
            return Err(Unkept { why, known: false });
        }
        for o in was {
            if !spend(PAIR) {
                return Err(Unkept {
                    why: "what statements do takes too long to compare".into(),
                    known: false,
                });
            }
            frame.pair(o, n)?;
        }
    }
    Ok(compared)
}

/// A number that no variable of either tree has, nor a larger one.
fn free(env: &Env, old: &[Leaf], new: &[Leaf]) -> u32 {
    let bound = old.iter().chain(new).flat_map(|l| l.items.iter().filter_map(Item::binds));
    bound.map(|v| v.0 + 1).chain([env.func.next_id]).max().unwrap_or(0)
}

struct Frame<'e> {
    env: &'e Env<'e>,
    written: HashSet<BufId>,
    /// Arrays that only one tree has.
    own: HashSet<BufId>,
    /// The first variable that is free.
    first: u32,
}

/// What surrounds a place, by itself.
enum Around {
    Loop(Binder, Expr, Expr, i64, Executor),
    Cond(Expr, bool),
}

impl Around {
    fn item(&self) -> Item<'_> {
        match self {
            Around::Loop(binder, lo, hi, step, exec) => Item::Loop { binder, lo, hi, step: *step, exec },
            Around::Cond(cond, holds) => Item::Cond(cond, *holds),
        }
    }
}

impl Frame<'_> {
    /// Executions of one instance, by a statement of the old tree and one of the new tree, do the same.
    fn pair(&self, o: &Leaf, n: &Leaf) -> Result<(), Unkept> {
        let differs = |why: String| Unkept { why, known: true };
        if o.instance.len() != n.instance.len() {
            return Err(Unkept {
                why: format!("the instance vectors of `{}` differ in length", n.label),
                known: false,
            });
        }
        if self.own_arrays(o.stmt) || self.own_arrays(n.stmt) {
            return Ok(());
        }
        let mut map = given(o, n);
        let beside = self.beside(o, n, &mut map);
        let now = self.names(o, n, &mut map);
        let old = substitute_stmt(&alone(o.stmt), &map);
        let new = substitute_stmt(&alone(n.stmt), &now);
        let conditions = |l: &Leaf, map: &HashMap<VarId, Expr>| -> Vec<(Expr, bool)> {
            let all = l.items.iter().filter_map(|i| match i {
                Item::Cond(c, holds) => Some((*c, *holds)),
                Item::While(c) => Some((*c, true)),
                _ => None,
            });
            all.filter(|c| on_data(c.0)).map(|(c, holds)| (substitute(c, map), holds)).collect()
        };
        let (was, is) = (conditions(o, &map), conditions(n, &now));
        let one_of = |c: &(Expr, bool), all: &[(Expr, bool)]| all.contains(c);
        if old == new && was.iter().all(|c| one_of(c, &is)) && is.iter().all(|c| one_of(c, &was)) {
            return Ok(());
        }
        let mut items: Vec<Item> = n.items.clone();
        items.extend(n.dims.iter().map(point));
        items.extend(beside.iter().map(Around::item));
        let same = |a: &Expr, b: &Expr| self.same(&items, a, b);
        let found =
            |c: &(Expr, bool), all: &[(Expr, bool)]| all.iter().any(|d| d.1 == c.1 && same(&c.0, &d.0));
        let does = match_header(&old, &new)
            && old.evaluated().into_iter().zip(new.evaluated()).all(|(a, b)| same(a, b));
        let under = || was.iter().all(|c| found(c, &is)) && is.iter().all(|c| found(c, &was));
        if does && under() || self.never(o, n) {
            return Ok(());
        }
        let what = if does { "runs under another condition" } else { "does something else" };
        Err(differs(format!("`{}` {what} than before", n.label)))
    }

    fn own_arrays(&self, s: &Stmt) -> bool {
        let own = |b: Option<BufId>| b.is_none_or(|b| self.own.contains(&b));
        !self.own.is_empty()
            && (s.touches().iter().any(|t| own(t.0.buffer()))
                || s.evaluated().iter().any(|e| loads_of(e).iter().any(|l| own(l.view.buffer()))))
    }

    /// Old variables that the vectors do not give get names of their own; what is known of them.
    fn beside(&self, o: &Leaf, n: &Leaf, map: &mut HashMap<VarId, Expr>) -> Vec<Around> {
        let mut used: HashSet<VarId> = HashSet::new();
        o.stmt.evaluated().iter().for_each(|e| used.extend(vars_of(e)));
        for item in o.items.iter().rev() {
            match item {
                Item::Cond(c, _) | Item::While(c) if on_data(c) => used.extend(vars_of(c)),
                Item::Let(b, value) if used.contains(&b.id) => used.extend(vars_of(value)),
                _ => {}
            }
        }
        if bound(o).iter().all(|v| map.contains_key(v) || !used.contains(v)) {
            return Vec::new();
        }
        self.copied(o, n, map)
    }

    /// Values that have names: a name stays where it means the same in both trees, so that chains of names take as long as
    /// they are; the values stand in place of all others, which the returned map does for the new ones. What an atomic
    /// found is what the same one finds.
    fn names(&self, o: &Leaf, n: &Leaf, map: &mut HashMap<VarId, Expr>) -> HashMap<VarId, Expr> {
        let opaque = |l: &Leaf| -> Vec<Binder> {
            let all = l.items.iter().filter_map(|i| match i {
                Item::Opaque(b) => Some((*b).clone()),
                _ => None,
            });
            let own = if let StmtKind::Atomic(a) = l.stmt.kind() { a.old.clone() } else { None };
            all.chain(own).collect()
        };
        let (was, is) = (opaque(o), opaque(n));
        if was.len() == is.len() {
            map.extend(was.iter().zip(&is).map(|(a, b)| (a.id, build::var(b))));
        }
        let mut values: HashMap<VarId, &Expr> = HashMap::new();
        values.extend(n.items.iter().filter_map(|i| match i {
            Item::Let(b, value) => Some((b.id, *value)),
            _ => None,
        }));
        let mut kept: HashSet<VarId> = HashSet::new();
        for item in &o.items {
            if let Item::Let(b, value) = item {
                let value = substitute(value, map);
                if values.get(&b.id).is_some_and(|v| self.same(&n.items, v, &value)) {
                    kept.insert(b.id);
                    map.insert(b.id, build::var(b));
                } else {
                    map.insert(b.id, value);
                }
            }
        }
        let mut now = HashMap::new();
        for item in &n.items {
            if let Item::Let(b, value) = item
                && !kept.contains(&b.id)
            {
                let value = substitute(value, &now);
                now.insert(b.id, value);
            }
        }
        now
    }

    /// The surroundings of an old iteration under other names, beside those of the new one.
    fn copied(&self, o: &Leaf, n: &Leaf, map: &mut HashMap<VarId, Expr>) -> Vec<Around> {
        let mut out = Vec::new();
        let mut later = Vec::new();
        let loops = |item: &Item| match item {
            Item::Loop { binder, lo, hi, step, exec } => {
                Some(((*binder).clone(), (*lo).clone(), (*hi).clone(), *step, (*exec).clone()))
            }
            _ => None,
        };
        let mut next = self.first;
        for item in o.items.iter().cloned().chain(o.dims.iter().map(point)) {
            if let Some((binder, lo, hi, step, exec)) = loops(&item) {
                let (lo, hi) = (substitute(&lo, map), substitute(&hi, map));
                let copy = Binder { id: VarId(next), ..binder.clone() };
                next += 1;
                if let Some(given) = map.insert(binder.id, build::var(&copy)) {
                    later.push(Around::Cond(build::eq(build::var(&copy), given), true));
                }
                out.push(Around::Loop(copy, lo, hi, step, exec));
            } else if let Item::Cond(c, holds) = item {
                out.push(Around::Cond(substitute(c, map), holds));
            } else if let Item::Let(b, value) = item {
                let value = substitute(value, map);
                map.insert(b.id, value);
            }
        }
        out.extend(later);
        for (a, b) in o.instance.iter().zip(&n.instance) {
            out.push(Around::Cond(build::eq(substitute(a, map), b.clone()), true));
        }
        out
    }

    fn same(&self, items: &[Item], a: &Expr, b: &Expr) -> bool {
        if a == b {
            return true;
        }
        let ranges = entered(self.env, items);
        let (x, y) = (simplify_expr(a, &ranges), simplify_expr(b, &ranges));
        if x == y || x.ty().is_index() && Linear::of(&x) == Linear::of(&y) {
            return true;
        }
        let none = HashSet::new();
        let mut aligner = Aligner {
            env: self.env,
            written: &self.written,
            through: &none,
            tables: &none,
            uses: Vec::new(),
            blocks: Vec::new(),
            compared: 0,
        };
        aligner.same(&mut items.to_vec(), &x, &y)
    }

    /// No instance is executed by both.
    fn never(&self, o: &Leaf, n: &Leaf) -> bool {
        let mut map = HashMap::new();
        let beside = self.copied(o, n, &mut map);
        let mut builder = Builder::new(&self.written);
        let mut scope = builder.surroundings(self.env);
        let own = n.items.iter().cloned().chain(n.dims.iter().map(point));
        for item in own.chain(beside.iter().map(Around::item)) {
            builder.item(&mut scope, &item);
        }
        solve(&builder.system) == Answer::Empty
    }
}

/// A dimension of a compute, around its values.
fn point(d: &Dim) -> Item<'_> {
    Item::Loop { binder: &d.binder, lo: &d.lo, hi: &d.hi, step: 1, exec: &Executor::Serial }
}

/// The statement without what it holds.
fn alone(s: &Stmt) -> Stmt {
    if s.children().len() == 0 {
        s.clone()
    } else {
        s.with_children(s.children().map(|_| Stmt::empty()).collect())
    }
}

/// The same operation, whatever it is done to.
fn match_header(old: &Stmt, new: &Stmt) -> bool {
    if old.exprs().len() != new.exprs().len() {
        return false;
    }
    let cast = old.with_exprs(new.exprs().into_iter().cloned().collect());
    if let (StmtKind::Atomic(a), StmtKind::Atomic(b)) = (cast.kind(), new.kind()) {
        let mut a = a.clone();
        a.old.clone_from(&b.old);
        return StmtKind::Atomic(a) == *new.kind();
    }
    cast == *new
}

/// The variables of the loops and dimensions around a statement.
fn bound(l: &Leaf) -> HashSet<VarId> {
    let loops = l.items.iter().filter(|i| matches!(i, Item::Loop { .. })).filter_map(Item::binds);
    loops.chain(l.dims.iter().map(|d| d.binder.id)).collect()
}

/// What the instance vectors say of the old variables, each by itself, over the new ones.
fn given(o: &Leaf, n: &Leaf) -> HashMap<VarId, Expr> {
    let mut open = bound(o);
    let mut map = HashMap::new();
    let mut left: Vec<(Linear, &Expr)> = o.instance.iter().map(Linear::of).zip(&n.instance).collect();
    while let Some((at, v, factor)) = left.iter().enumerate().find_map(|(at, (f, _))| {
        let own: Vec<VarId> = open.iter().copied().filter(|v| f.mentions(&HashSet::from([*v]))).collect();
        let [v] = own.as_slice() else { return None };
        let factor = f.factor(*v);
        (factor.abs() == 1).then_some((at, *v, factor))
    }) {
        let (form, now) = left.remove(at);
        let rest = form.without(&build::var_id(v, Scalar::Index));
        // A variable that stands in a quotient as well is not given.
        if rest.mentions(&HashSet::from([v])) {
            continue;
        }
        let rest = Linear::of(&substitute(&rest.to_expr(), &map));
        let Some(value) = Linear::of(now).minus(&rest).and_then(|d| d.scaled(factor)) else { continue };
        map.insert(v, value.to_expr());
        open.remove(&v);
    }
    map
}
