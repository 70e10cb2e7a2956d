//! Arrays that hold values of expressions: one tree stores a value and loads it, the other computes it where it is loaded.

use super::align::{Aligner, Block, Use, Value, folded};
use super::{Change, only_in};
use crate::env::{Env, Item};
use crate::leaves::{Leaf, Relative, leaves, relate};
use crate::memory::{Memory, Place as Cell};
use crate::solve::{Answer, Reduced, solve, solve_from};
use crate::system::{Lin, ge, gt};
use crate::translate::Builder;
use crate::written_before_read;
use lathe_ir::visit::{substitute, vars_of};
use lathe_ir::{Access, BufId, Buffer, Expr, Function, Stmt, Type, VarId, build};
use lathe_poly::simplify::simplify_stmt;
use lathe_poly::{Linear, Ranges};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Which tree has the arrays.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tables {
    Removed,
    Made,
}

/// Whether one tree loads from arrays of these names what the other computes in the place of the loads, and nothing else
/// is different: whatever stores to an element that is loaded stores the value of that expression, some store to it comes
/// before, and nothing that it is computed from is written in between. Arrays that a step made hold nothing that the tree
/// before did not compute. Gives how many statements and loads were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn holds_values(c: &Change, names: &[String], which: Tables) -> Result<usize, String> {
    let place = c.place()?;
    let simpler = |f: &Function, s: &Stmt| simplify_stmt(s, &mut Ranges::at(f, &place.path));
    let check = |old: &Stmt, new: &Stmt| {
        let env = c.env(&place.path);
        let (func, with, plain) = match which {
            Tables::Removed => (c.before, old, new),
            Tables::Made => (c.after, new, old),
        };
        let tables: Vec<Arc<Buffer>> = only_in(with, plain);
        let tables: Vec<Arc<Buffer>> =
            tables.into_iter().filter(|b| names.contains(&b.name.to_string())).collect();
        if names.iter().any(|n| tables.iter().all(|b| *b.name != **n)) {
            return Err("both trees have the array, or none".to_string());
        }
        let ids: HashSet<BufId> = tables.iter().map(|b| b.id).collect();
        let mut aligner = Aligner {
            env: &env,
            written: &place.written,
            through: &ids,
            tables: &ids,
            uses: Vec::new(),
            blocks: Vec::new(),
            compared: 0,
        };
        aligner.stmts(&mut Vec::new(), with, plain)?;
        let blocks = std::mem::take(&mut aligner.blocks);
        let mut known = 0;
        for block in &blocks {
            let uses: Vec<Use> = std::mem::take(&mut aligner.uses);
            let memory = Memory::of(func);
            let mut check = Check { aligner: &mut aligner, block, uses: &uses, ids: &ids, memory, which };
            known += check.run()?;
            aligner.uses = uses;
        }
        if known < tables.len() {
            Err("an array is not followed".into())
        } else {
            Ok(aligner.compared + aligner.uses.len())
        }
    };
    check(place.old, place.new).or_else(|why| {
        // What rules make is simplified.
        let (old, new) = (simpler(c.before, place.old), simpler(c.after, place.new));
        if old == *place.old && new == *place.new { Err(why) } else { check(&old, &new) }
    })
}

struct Check<'c, 'e, 'a> {
    aligner: &'c mut Aligner<'e, 'a>,
    block: &'c Block<'a>,
    uses: &'c [Use<'a>],
    ids: &'c HashSet<BufId>,
    memory: Memory,
    which: Tables,
}

impl<'a> Check<'_, '_, 'a> {
    /// Gives how many tables the block has.
    fn run(&mut self) -> Result<usize, String> {
        let block = self.block;
        for (n, s) in block.tables.iter().enumerate() {
            let Some((buffer, body)) = s.as_alloc() else { continue };
            if block.tables[..n].iter().any(|o| o.allocated().is_some_and(|b| b.id == buffer.id)) {
                return Err(format!("`{}` is allocated twice", buffer.name));
            }
            self.table(buffer, body)?;
        }
        let own = |b: &BufId| block.tables.iter().any(|s| s.allocated().is_some_and(|a| a.id == *b));
        let elsewhere = |s: &Stmt| {
            let written = crate::leaves::written_buffers(s);
            self.ids.iter().any(|b| written.contains(b) && !own(b))
        };
        match block.parts.iter().find(|p| p.fills && elsewhere(p.stmt)) {
            Some(_) => Err("an array is filled elsewhere than it is allocated".into()),
            None => Ok(block.tables.len()),
        }
    }

    fn table(&mut self, buffer: &Buffer, body: &Stmt) -> Result<(), String> {
        let (block, name) = (self.block, &buffer.name);
        let writes = |s: &Stmt| crate::leaves::written_buffers(s).contains(&buffer.id);
        let filling = |n: &usize| block.parts[*n].fills && writes(block.parts[*n].stmt);
        let fillers: Vec<usize> = (0..block.parts.len()).filter(filling).collect();
        let mine = |n: &usize| self.uses[block.parts[*n].uses.clone()].iter().any(|u| u.table == buffer.id);
        let users: Vec<usize> = (0..block.parts.len()).filter(mine).collect();
        let uses: Vec<&Use<'a>> = users
            .iter()
            .flat_map(|n| &self.uses[block.parts[*n].uses.clone()])
            .filter(|u| u.table == buffer.id)
            .collect();
        let (Some(first), Some(last)) = (fillers.first(), users.last()) else {
            return Err(format!("`{name}` is not filled, or not read"));
        };
        if fillers.last() >= users.first() {
            return Err(format!("`{name}` may be read before it is filled"));
        }
        let mut all = Vec::new();
        for n in &fillers {
            all.extend(leaves(block.parts[*n].stmt, self.ids)?);
        }
        let folds = uses.iter().filter(|u| matches!(u.value, Value::Folded(..))).count();
        if folds > 0 {
            let fold = if folds == uses.len() { self.fold(buffer, &all, &uses) } else { None };
            fold.ok_or_else(|| format!("`{name}` may not hold what the loops combined"))?;
            return self.kept(buffer, *first, *last, &fillers);
        }
        let mut writers = Vec::new();
        for l in all.iter().filter(|l| !l.touches.is_empty()) {
            let store = l.stmt.as_store().filter(|_| l.touches.iter().all(|t| t.role.writes()));
            let store = store.ok_or_else(|| format!("`{}` does not only store", l.label))?;
            if store.target.view.buffer() == Some(buffer.id) {
                writers.push((l, Definition::of(l, &store.target, &store.value)));
            }
        }
        for u in &uses {
            let mut sure = false;
            for (l, d) in &writers {
                let at = d.iteration(&u.at);
                if !self.computes(d, &at, u) {
                    return Err(format!("`{}` may store another value than the one that is read", l.label));
                }
                sure = sure || self.covers(buffer, d, &at, u);
            }
            if !sure && !self.written_first(buffer, body) {
                return Err(format!("an element of `{name}` may be read that was not stored before"));
            }
        }
        self.kept(buffer, *first, *last, &fillers)?;
        if self.which == Tables::Made {
            for (l, d) in &writers {
                if !self.no_more(d, &uses) {
                    return Err(format!("`{}` may compute what was not computed before", l.label));
                }
            }
        }
        Ok(())
    }

    /// Whether the value that is stored is that in the place of the load, wherever both mean one element.
    fn computes(&mut self, d: &Definition, at: &HashMap<VarId, Expr>, u: &Use<'a>) -> bool {
        if vars_of(&d.value).iter().any(|v| d.binds(*v) && !at.contains_key(v)) {
            return false;
        }
        let Value::Is(there) = u.value else { return false };
        let value = substitute(&d.value, at);
        value == *there || self.aligner.same(&mut u.items.clone(), &value, there)
    }

    /// Whether every element that is read starts from the identity, and gets what the loops in the place of the read
    /// combine, in their order, and nothing else.
    fn fold(&mut self, buffer: &Buffer, all: &[Leaf<'a>], uses: &[&Use<'a>]) -> Option<()> {
        let mine = |l: &&Leaf| l.touches.iter().any(|t| t.buffer == buffer.id);
        let own: Vec<&Leaf> = all.iter().filter(mine).collect();
        let [start, add] = own.as_slice() else { return None };
        let (store, r) = (start.stmt.as_store()?, add.stmt.as_reduce()?);
        let n = r.targets.iter().position(|t| t.view.buffer() == Some(buffer.id))?;
        let types: Vec<Type> = r.targets.iter().map(|t| t.elem.clone()).collect();
        let identity = lathe_ir::reduce::identity(self.aligner.env.module, &r.op, &types)?;
        // An element belongs to one iteration of the outer loops, which begins it.
        let first = Definition::of(start, &store.target, identity.get(n)?);
        let depth = start.items.len();
        let mut outer = (*add).clone();
        outer.items.truncate(depth);
        let d = Definition::of(&outer, &r.targets[n], &r.values[n]);
        let levels = start.path.iter().zip(&add.path).take_while(|(x, y)| x.position == y.position).count();
        let one_nest = start.items.len() <= add.items.len()
            && relate(&start.path, &add.path).1 == Relative::First
            && start.levels(levels).len() == start.levels(start.path.len()).len();
        let only = start.touches.iter().chain(&add.touches).all(|t| t.role.writes());
        let begins = only && store.value == *identity.get(n)? && store.target.indices == r.targets[n].indices;
        let whole = first.plain && !first.conditional && d.plain && !d.conditional;
        if !one_nest || !begins || !whole || r.targets.iter().any(|t| t.indices != r.targets[n].indices) {
            return None;
        }
        let mut conditions = Vec::new();
        for u in uses {
            let Value::Folded(s, k) = u.value else { return None };
            let (loops, old) = folded(s)?;
            let mut at = d.iteration(&u.at);
            let mut inner = add.items[depth..].iter();
            let mut items = u.items.clone();
            for l in &loops {
                let Some(Item::Loop { binder, lo, hi, step, exec }) = inner.next() else { return None };
                let same =
                    |aligner: &mut Aligner<'_, 'a>, e: &Expr, b: &'a Expr, items: &mut Vec<Item<'a>>| {
                        let e = substitute(e, &at);
                        e == *b || aligner.same(items, &e, b)
                    };
                let ordered = *step == l.step && **exec == l.exec && exec.is_ordered();
                if !ordered
                    || !same(self.aligner, lo, &l.lo, &mut items)
                    || !same(self.aligner, hi, &l.hi, &mut items)
                {
                    return None;
                }
                at.insert(binder.id, build::var(&l.binder));
                items.push(Item::Loop {
                    binder: &l.binder,
                    lo: &l.lo,
                    hi: &l.hi,
                    step: l.step,
                    exec: &l.exec,
                });
            }
            let value = substitute(&r.values[n], &at);
            let there = old.values.get(k)?;
            let same = value == *there || self.aligner.same(&mut items, &value, there);
            if inner.next().is_some() || k != n || old.op != r.op || r.contract != old.contract || !same {
                return None;
            }
            conditions.extend(self.same_domain(&d, &d.iteration(&u.at), u));
            if !self.covers(buffer, &d, &d.iteration(&u.at), u) {
                return None;
            }
        }
        complete(conditions).then_some(())
    }

    /// Whether the iteration that stores the element is surely one.
    fn covers(&self, buffer: &Buffer, d: &Definition, at: &HashMap<VarId, Expr>, u: &Use) -> bool {
        if d.conditional || !d.plain || d.loops.iter().any(|l| l.step != 1 || !at.contains_key(&l.var)) {
            return false;
        }
        let mut builder = Builder::new(self.aligner.written);
        let mut scope = builder.surroundings(self.aligner.env);
        for item in &u.items {
            builder.item(&mut scope, item);
        }
        // Elements that the program reads exist.
        if self.which == Tables::Removed {
            for (e, extent) in u.at.iter().zip(&buffer.extents) {
                let (e, n) = (builder.value(&mut scope, e), builder.value(&mut scope, extent));
                builder.system.ge(&e, &Lin::default());
                builder.system.push(gt(&n, &e));
            }
        }
        let mut outside = Vec::new();
        for l in &d.loops {
            let (lo, hi) = (substitute(&l.lo, at), substitute(&l.hi, at));
            let x = builder.value(&mut scope, &at[&l.var]);
            let (lo, hi) = (builder.value(&mut scope, &lo), builder.value(&mut scope, &hi));
            outside.extend([gt(&lo, &x), ge(&x, &hi)]);
        }
        let mut state = Reduced::default();
        if !state.absorb(&builder.system.cons) {
            return true;
        }
        let system = &builder.system;
        outside.into_iter().all(|o| {
            o.is_some_and(|o| solve_from(&state, &[o], &system.clauses, system.columns) == Answer::Empty)
        })
    }

    /// The same, where it takes more than one iteration to say so.
    fn written_first(&self, buffer: &Buffer, body: &Stmt) -> bool {
        let env = self.aligner.env;
        let items = env.items.iter().chain(&self.block.items).cloned().collect();
        written_before_read(&Env { module: env.module, func: env.func, items }, body, buffer, None)
    }

    /// Nothing that the table is filled from is written until it is read for the last time.
    fn kept(&self, buffer: &Buffer, first: usize, last: usize, fillers: &[usize]) -> Result<(), String> {
        let parts = &self.block.parts;
        // What fills tables reads none of them, but for sums that it goes on with.
        let mut read = HashSet::new();
        for n in fillers {
            let s = parts[*n].stmt;
            read.extend(self.memory.touched(s).reads.iter().copied());
            for b in super::allocated(s) {
                read.remove(&Cell::Buffer(b.id));
            }
        }
        read.retain(|p| !matches!(p, Cell::Buffer(b) if self.ids.contains(b)));
        let between = parts[first..=last].iter().map(|p| p.stmt);
        match self.memory.changing(&read, between) {
            Some(_) => Err(format!(
                "something that `{}` is computed from may be written before it is read",
                buffer.name
            )),
            None => Ok(()),
        }
    }

    /// Whether every iteration that stores is one that the other tree has: that of a statement which reads the element.
    fn no_more(&self, d: &Definition, uses: &[&Use]) -> bool {
        if d.conditional || !d.plain {
            return false;
        }
        // The conditions under which iterations of the same loops read.
        let mut conditions: Vec<Vec<(&Expr, bool)>> = Vec::new();
        for u in uses {
            let at = d.iteration(&u.at);
            conditions.extend(self.same_domain(d, &at, u));
        }
        complete(conditions)
    }

    /// Whether a loop has an iteration wherever the surroundings are.
    fn begins(&self, items: &[Item], lo: &Expr, hi: &Expr) -> bool {
        let mut builder = Builder::new(self.aligner.written);
        let mut scope = builder.surroundings(self.aligner.env);
        for item in items {
            builder.item(&mut scope, item);
        }
        let (lo, hi) = (builder.value(&mut scope, lo), builder.value(&mut scope, hi));
        let Some(empty) = ge(&lo, &hi) else { return false };
        builder.system.cons.push(empty);
        solve(&builder.system) == Answer::Empty
    }

    /// The conditions around a use whose loops are those of the stores by other names; none if they are not. Further loops
    /// around the use surely have an iteration wherever they begin: then some iteration reads what each store writes.
    fn same_domain<'u>(
        &self,
        d: &Definition,
        at: &HashMap<VarId, Expr>,
        u: &'u Use,
    ) -> Option<Vec<(&'u Expr, bool)>> {
        let mut left: HashSet<VarId> = HashSet::new();
        for l in &d.loops {
            left.insert(at.get(&l.var)?.as_var()?);
        }
        let mut conditions = Vec::new();
        let around = self.block.items.len();
        for (n, item) in u.items.iter().enumerate().skip(around) {
            match item {
                Item::Loop { binder, lo, hi, step: 1, .. } => {
                    let own = d.loops.iter().find(|l| at[&l.var].as_var() == Some(binder.id));
                    let Some(own) = own else {
                        if self.begins(&u.items[..n], lo, hi) {
                            continue;
                        }
                        return None;
                    };
                    let equal = |a: &Expr, b: &Expr| {
                        let a = substitute(a, at);
                        a == *b
                            || super::align::equal(self.aligner.env, self.aligner.written, &u.items, &a, b)
                    };
                    if own.step != 1 || !left.remove(&binder.id) || !equal(&own.lo, lo) || !equal(&own.hi, hi)
                    {
                        return None;
                    }
                }
                Item::Cond(c, holds) => conditions.push((*c, *holds)),
                Item::Let(..) | Item::Alloc(_) | Item::Fact(..) | Item::Checked(_) => {}
                Item::Loop { .. } | Item::While(_) | Item::Opaque(_) | Item::Size(_) | Item::Scalar(_) => {
                    return None;
                }
            }
        }
        left.is_empty().then_some(conditions)
    }
}

/// Whether one of several lists of conditions holds in any case.
fn complete(all: Vec<Vec<(&Expr, bool)>>) -> bool {
    let Some(first) = all.first() else { return false };
    if all.iter().any(Vec::is_empty) {
        return true;
    }
    let condition = first[0].0;
    [true, false].into_iter().all(|holds| {
        let own = all.iter().filter(|c| c[0] == (condition, holds));
        complete(own.map(|c| c[1..].to_vec()).collect())
    })
}

/// `T[v₀ + c₀, …] = value`, in loops.
struct Definition {
    loops: Vec<Side>,
    target: Vec<Linear>,
    value: Expr,
    /// Every subscript is the variable of a loop and something that no loop changes, and every loop has its subscript.
    plain: bool,
    /// Something else than loops decides whether it is stored.
    conditional: bool,
}

struct Side {
    var: VarId,
    lo: Expr,
    hi: Expr,
    step: i64,
}

impl Definition {
    fn of(l: &Leaf, target: &Access, value: &Expr) -> Definition {
        let mut lets: HashMap<VarId, Expr> = HashMap::new();
        let (mut loops, mut conditional) = (Vec::new(), false);
        for item in &l.items {
            match item {
                Item::Let(b, value) => drop(lets.insert(b.id, substitute(value, &lets))),
                Item::Loop { binder, lo, hi, step, .. } => {
                    let (lo, hi) = (substitute(lo, &lets), substitute(hi, &lets));
                    loops.push(Side { var: binder.id, lo, hi, step: *step });
                }
                Item::Alloc(_) | Item::Fact(..) | Item::Checked(_) => {}
                Item::Cond(..) | Item::While(_) | Item::Opaque(_) | Item::Size(_) | Item::Scalar(_) => {
                    conditional = true;
                }
            }
        }
        let target: Vec<Linear> = target.indices.iter().map(|e| Linear::of(&substitute(e, &lets))).collect();
        let mut d = Definition { loops, target, value: substitute(value, &lets), plain: false, conditional };
        let mut left: HashSet<VarId> = d.loops.iter().map(|l| l.var).collect();
        d.plain = d.target.iter().all(|t| d.variable(t).is_some_and(|v| left.remove(&v))) && left.is_empty();
        d
    }

    fn binds(&self, v: VarId) -> bool {
        self.loops.iter().any(|l| l.var == v)
    }

    /// The variable of a loop that a subscript is, but for what no loop changes.
    fn variable(&self, t: &Linear) -> Option<VarId> {
        let own: HashSet<VarId> = self.loops.iter().map(|l| l.var).collect();
        let mut mine = t.terms.iter().filter(|x| !vars_of(&x.0).is_disjoint(&own));
        let (Some((e, 1)), None) = (mine.next(), mine.next()) else { return None };
        e.as_var()
    }

    /// What the variables of loops are in iterations that store to an element.
    fn iteration(&self, element: &[Expr]) -> HashMap<VarId, Expr> {
        let mut out = HashMap::new();
        for (t, e) in self.target.iter().zip(element) {
            let Some(v) = self.variable(t).filter(|v| !out.contains_key(v)) else { continue };
            let rest = t.clone().without(&build::var_id(v, lathe_ir::Scalar::Index));
            let Some(form) = Linear::of(e).minus(&rest) else { continue };
            out.insert(v, form.to_expr());
        }
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_branches_are_complete() {
        let (a, b) = (
            build::var_id(VarId(0), lathe_ir::Scalar::Bool),
            build::var_id(VarId(1), lathe_ir::Scalar::Bool),
        );
        assert!(complete(vec![vec![(&a, true)], vec![(&a, false)]]));
        assert!(complete(vec![vec![(&a, true), (&b, true)], vec![]]));
        assert!(!complete(vec![vec![(&a, true), (&b, true)], vec![(&a, false)]]));
        assert!(!complete(vec![]));
    }
}
