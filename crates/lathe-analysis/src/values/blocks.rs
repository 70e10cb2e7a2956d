//! Reduce-then-scan: blocks of a running value start from the totals of the blocks before.

use super::align::{Aligner, flat};
use super::{Change, Place, only_in};
use crate::env::{Env, Item};
use crate::memory::{Memory, Place as Cell};
use crate::turns::within;
use lathe_ir::interp::evaluate;
use lathe_ir::stmt::{AtomicOp, MemoryOrder};
use lathe_ir::visit::{self, loads_of, substitute};
use lathe_ir::{
    Access, BufId, Buffer, Executor, Expr, ExprKind, Loop, ReduceOp, Stmt, StmtKind, Store, VarId, View,
    build,
};
use lathe_poly::Ranges;
use lathe_poly::simplify::simplify_stmt;
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// Whether a loop that changes the running value `array` by reductions has become five statements around `totals`: its
/// first element is the value before; for every iteration of the loop, the element after it starts from the identity and
/// gets what this iteration combines; elements are combined one after the other, in order; the loop does what it did, but
/// every iteration on a value of its own that starts from the element of all iterations before; the last element is the
/// value after. What iterations combine may not depend on what the loop writes. Gives how many statements and accesses
/// were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn starts_from_totals(c: &Change, array: &str, totals: &str) -> Result<usize, String> {
    decide(c, c.place()?, array, totals, from_totals)
}

/// Whether every iteration of a loop that changes the running value `array` by reductions now first combines the same
/// into `total`, from the identity on; combines that into `array` by one atomic update in the order of the iterations; and
/// does what it did on a value of its own that starts from what the update found. What iterations combine may not depend
/// on what the loop writes. Gives how many statements and accesses were examined.
///
/// # Errors
/// What could not be shown, in words.
pub fn starts_in_order(c: &Change, array: &str, total: &str) -> Result<usize, String> {
    // The loop stays; its body is another.
    let mut place = c.place()?;
    place.path.pop();
    let here = visit::at(&c.before.body, &place.path).zip(visit::at(&c.after.body, &place.path));
    (place.old, place.new) = here.ok_or("something else than the body of a loop was changed")?;
    decide(c, place, array, total, in_order)
}

fn decide<'a>(
    c: &Change<'a>,
    place: Place<'a>,
    array: &str,
    totals: &str,
    parts: fn(&mut Check, &Stmt) -> Result<(), String>,
) -> Result<usize, String> {
    examine(c, &place, array, totals, parts).or_else(|why| {
        // What rules make is simplified.
        let old = simplify_stmt(place.old, &mut Ranges::at(c.before, &place.path));
        if old == *place.old {
            return Err(why);
        }
        let (path, written) = (place.path.clone(), place.written.clone());
        examine(c, &Place { path, old: &old, new: place.new, written }, array, totals, parts)
    })
}

fn examine<'a>(
    c: &Change<'a>,
    place: &Place<'a>,
    array: &str,
    totals: &str,
    parts: fn(&mut Check, &Stmt) -> Result<(), String>,
) -> Result<usize, String> {
    let l = place.old.as_loop().ok_or("something else than a loop was changed")?;
    let env = c.env(&place.path);
    let made = only_in(place.new, place.old);
    let one = |all: Vec<&Arc<Buffer>>, name: &str| match all.as_slice() {
        [b] => Ok((*b).clone()),
        _ => Err(format!("there is not one `{name}`")),
    };
    let carry = one(made.iter().filter(|b| &*b.name == totals).collect(), totals)?;
    let own = one(
        made.iter().filter(|b| b.id != carry.id && b.extents.is_empty()).collect(),
        "value of an iteration",
    )?;
    let running = env.items.iter().rev().find_map(|i| match i {
        Item::Alloc(b) if &*b.name == array => Some((*b).clone()),
        _ => None,
    });
    let acc =
        running.filter(|b| b.extents.is_empty()).ok_or_else(|| format!("`{array}` is no running value"))?;
    let mut check =
        Check { c, place, env: &env, l, acc: &acc, carry: &carry, own: &own, examined: 5, op: None };
    check.operator()?;
    parts(&mut check, place.new)?;
    Ok(check.examined)
}

fn from_totals(check: &mut Check, new: &Stmt) -> Result<(), String> {
    let (carry, totals) = (check.carry, &check.carry.name);
    let (mut parts, mut outside) = (Vec::new(), Vec::new());
    flat(new, &mut parts, &mut outside);
    if !matches!(outside.as_slice(), [s] if s.allocated().is_some_and(|b| b.id == carry.id)) {
        return Err(format!("`{totals}` does not live around the loop"));
    }
    let [enter, total, chain @ .., main, leave] = parts.as_slice() else {
        return Err("the loop did not become five statements or more".into());
    };
    let first = check.entering(enter)?;
    check.totals(total, &first)?;
    match chain {
        [one] if one.as_loop().is_some() => check.chain(one, &first)?,
        rounds => check.rounds(rounds)?,
    }
    check.main(main, &first)?;
    check.leaving(leave, &first)?;
    check.independent(total)
}

fn in_order(check: &mut Check, new: &Stmt) -> Result<(), String> {
    let unlike = || "the loop runs otherwise".to_string();
    let l = check.same_range(new)?;
    let (own, body) = l
        .body
        .as_alloc()
        .filter(|_| l.binder == check.l.binder && l.exec == check.l.exec)
        .ok_or_else(unlike)?;
    let (total, rest) = match body.as_seq() {
        Some([total, rest @ ..]) if own.id == check.own.id => (total, Stmt::seq(rest.to_vec())),
        _ => return Err(unlike()),
    };
    let inside = total.as_alloc().filter(|(b, _)| b.id == check.carry.id).map(|(_, inside)| inside);
    let Some([start, kept @ .., exchange]) = inside.and_then(|s| s.as_seq()) else {
        return Err(format!("`{}` does not live before the rest of an iteration", check.carry.name));
    };
    let kept: Vec<&Stmt> = kept.iter().collect();
    check.total(start, &kept, &HashMap::new(), &build::index(0))?;
    check.exchange(exchange)?;
    check.rest(&rest)?;
    check.independent(&Stmt::seq(kept.into_iter().cloned()))
}

/// More totals than this are not followed one by one.
const MOST_FOLLOWED: i64 = 1 << 14;

struct Check<'e, 'a> {
    c: &'e Change<'a>,
    place: &'e Place<'a>,
    env: &'e Env<'a>,
    l: &'a Loop,
    acc: &'e Buffer,
    carry: &'e Buffer,
    own: &'e Buffer,
    examined: usize,
    op: Option<ReduceOp>,
}

impl<'a> Check<'_, 'a> {
    /// The one operator by which the loop changes the value.
    fn operator(&mut self) -> Result<(), String> {
        let (mut ops, mut plain) = (Vec::new(), self.l.step == 1 && self.l.exec.is_ordered());
        visit::walk(&self.l.body, &mut |s, _| {
            if s.written().any(|v| v.buffer() == Some(self.acc.id)) {
                let one = s.as_reduce().filter(|r| r.targets.len() == 1);
                plain &= one.is_some();
                ops.extend(one.map(|r| r.op.clone()));
            }
            true
        });
        let op = ops.first().filter(|op| plain && ops.iter().all(|o| o == *op));
        self.op =
            Some(op.ok_or_else(|| format!("`{}` is changed in more than one way", self.acc.name))?.clone());
        Ok(())
    }

    fn store<'s>(&self, s: &'s Stmt, what: &str) -> Result<&'s Store, String> {
        s.as_store().ok_or_else(|| format!("{what} is no store"))
    }

    /// The subscript of an access to the totals.
    fn at(&self, a: &Access) -> Result<Expr, String> {
        match a.indices.as_slice() {
            [at] if a.view == View::Buffer(self.carry.id) => Ok(at.clone()),
            // There is one, of this iteration.
            [] if a.view == View::Buffer(self.carry.id) => Ok(build::index(0)),
            _ => Err(format!("something else than an element of `{}` is touched", self.carry.name)),
        }
    }

    fn is(&self, a: &Access, b: &Buffer) -> bool {
        a.view == View::Buffer(b.id) && a.indices.is_empty()
    }

    fn equal(&self, items: &[Item], a: &Expr, b: &Expr) -> Result<(), String> {
        if a == b || super::equal(self.env, &self.place.written, items, a, b) {
            return Ok(());
        }
        Err(format!("an element of `{}` that is touched is not the one of its iteration", self.carry.name))
    }

    /// How many iterations there are.
    fn count(&self) -> Expr {
        build::max(build::index(0), build::sub(self.l.hi.clone(), self.l.lo.clone()))
    }

    /// The element for what comes before an iteration.
    fn before(&self, first: &Expr, iteration: &Expr) -> Expr {
        build::add(first.clone(), build::sub(iteration.clone(), self.l.lo.clone()))
    }

    fn entering(&self, s: &Stmt) -> Result<Expr, String> {
        let st = self.store(s, "what comes first")?;
        let first = self.at(&st.target)?;
        // All elements exist, the last one for what comes after all iterations.
        let end = build::add(build::add(first.clone(), self.count()), build::index(1));
        if first.as_int() != Some(0) || self.carry.extents.len() != 1 {
            return Err(format!("`{}` does not begin at its first element", self.carry.name));
        }
        self.equal(&[], &self.carry.extents[0], &end)?;
        match st.value.kind() {
            ExprKind::Load(a) if self.is(a, self.acc) => Ok(first),
            _ => Err(format!("`{}` does not start from `{}`", self.carry.name, self.acc.name)),
        }
    }

    fn leaving(&self, s: &Stmt, first: &Expr) -> Result<(), String> {
        let st = self.store(s, "what comes last")?;
        match st.value.kind() {
            ExprKind::Load(a) if self.is(&st.target, self.acc) => {
                self.equal(&[], &self.at(a)?, &build::add(first.clone(), self.count()))
            }
            _ => Err(format!("`{}` does not get the last total", self.acc.name)),
        }
    }

    /// A loop over the iterations of the old one, whoever runs them.
    fn same_range<'s>(&self, s: &'s Stmt) -> Result<&'s Loop, String> {
        let l = s.as_loop().filter(|l| l.step == 1).ok_or("a part is no loop that steps by one")?;
        self.equal(&[], &l.lo, &self.l.lo)?;
        self.equal(&[], &l.hi, &self.l.hi)?;
        Ok(l)
    }

    fn item(l: &Loop) -> Item<'_> {
        Item::Loop { binder: &l.binder, lo: &l.lo, hi: &l.hi, step: l.step, exec: &l.exec }
    }

    fn totals(&mut self, s: &Stmt, first: &Expr) -> Result<(), String> {
        let l = self.same_range(s)?;
        let (mut parts, mut buffers) = (Vec::new(), Vec::new());
        flat(&l.body, &mut parts, &mut buffers);
        let (start, rest) = parts.split_first().ok_or("totals are not computed")?;
        let st = self.store(start, "how a total starts")?;
        let mine = build::add(self.before(first, &build::var(&l.binder)), build::index(1));
        let target = self.at(&st.target)?;
        self.equal(&[Self::item(l)], &target, &mine)?;
        let names = HashMap::from([(l.binder.id, build::var(&self.l.binder))]);
        self.total(start, rest, &names, &substitute(&target, &names))
    }

    /// A total starts from the identity, and gets what an iteration combines.
    fn total(
        &mut self,
        start: &Stmt,
        rest: &[&Stmt],
        names: &HashMap<VarId, Expr>,
        target: &Expr,
    ) -> Result<(), String> {
        let st = self.store(start, "how a total starts")?;
        self.at(&st.target)?;
        let op = self.op.clone().ok_or("there is no operator")?;
        let types = std::slice::from_ref(&self.acc.elem);
        let identity = lathe_ir::reduce::identity(self.c.module, &op, types);
        if !identity.is_some_and(|i| i == std::slice::from_ref(&st.value)) {
            return Err("a total does not start from the identity".into());
        }
        self.kept(&[&self.l.body], rest, names, target, &mut vec![Self::item(self.l)])
    }

    /// The total goes into the running value at once and in order, and what was there into the iteration's own value.
    fn exchange(&self, s: &Stmt) -> Result<(), String> {
        let other = || format!("totals are not combined into `{}` in order", self.acc.name);
        let StmtKind::Atomic(a) = s.kind() else { return Err(other()) };
        let (AtomicOp::Update(op, value), MemoryOrder::InOrder, Some(old)) = (&a.op, a.order, &a.old) else {
            return Err(other());
        };
        let total = matches!(value.kind(), ExprKind::Load(v) if self.is(v, self.carry));
        if Some(op) != self.op.as_ref() || !total || !self.is(&a.target, self.acc) {
            return Err(other());
        }
        if within(self.env, &a.scope) {
            return Err(format!(
                "a loop around would make the update in order of `{}` several times",
                self.acc.name
            ));
        }
        let st = self.store(&a.body, "how an iteration starts")?;
        if self.is(&st.target, self.own) && st.value.as_var() == Some(old.id) {
            return Ok(());
        }
        Err("an iteration does not start from what was combined before".into())
    }

    /// The second statements are those of the first that change the running value, by the same loops and conditions.
    fn kept(
        &mut self,
        all: &[&'a Stmt],
        kept: &[&Stmt],
        names: &HashMap<VarId, Expr>,
        total: &Expr,
        items: &mut Vec<Item<'a>>,
    ) -> Result<(), String> {
        let (mut parts, mut ignored) = (Vec::new(), Vec::new());
        all.iter().for_each(|s| flat(s, &mut parts, &mut ignored));
        let (mut now, mut own) = (Vec::new(), Vec::new());
        kept.iter().for_each(|s| flat(s, &mut now, &mut own));
        if !own.is_empty() {
            return Err("totals need arrays of their own".into());
        }
        let mut now = now.into_iter();
        let around = items.len();
        for s in parts {
            if crate::leaves::written_buffers(s).contains(&self.acc.id) {
                let other = now.next().ok_or("a total lacks what an iteration combines")?;
                self.kept_one(s, other, names, total, items)?;
            }
            items.extend(Item::after(s));
        }
        items.truncate(around);
        if now.next().is_some() { Err("a total gets more than an iteration combines".into()) } else { Ok(()) }
    }

    fn kept_one(
        &mut self,
        s: &'a Stmt,
        now: &Stmt,
        names: &HashMap<VarId, Expr>,
        total: &Expr,
        items: &mut Vec<Item<'a>>,
    ) -> Result<(), String> {
        self.examined += 1;
        let other = || "a total is computed otherwise than an iteration combines".to_string();
        let here = |e: &Expr| substitute(e, names);
        if let (Some(r), Some(n)) = (s.as_reduce(), now.as_reduce()) {
            let ([v], [w], [t]) = (r.values.as_slice(), n.values.as_slice(), n.targets.as_slice()) else {
                return Err(other());
            };
            self.equal(items, &here(&self.at(t)?), total)?;
            let fine = r.op == n.op && r.contract == n.contract && self.same(items, &here(w), v);
            return if fine { Ok(()) } else { Err(other()) };
        }
        if s.children().len() != now.children().len() {
            // A branch that changes nothing.
            let (Some((c, then, no)), Some((d, yes, None))) = (s.as_if(), now.as_if()) else {
                return Err(other());
            };
            let silent = no.is_none_or(|s| !crate::leaves::written_buffers(s).contains(&self.acc.id));
            if !silent || !self.same(items, &here(d), c) {
                return Err(other());
            }
            items.push(Item::Cond(c, true));
            let done = self.kept(&[then], &[yes], names, total, items);
            items.pop();
            return done;
        }
        let (a, b) = (s.evaluated(), now.evaluated());
        if s.children().len() == 0
            || a.len() != b.len()
            || !a.iter().zip(b).all(|(a, b)| self.same(items, &here(b), a))
        {
            return Err(other());
        }
        let mut names = names.clone();
        match (s.as_loop(), now.as_loop(), s.as_let(), now.as_let()) {
            (Some(l), Some(n), ..) => {
                // Lanes that combine in order store running values; totals are nobody's to see.
                let serial = matches!(l.exec, Executor::InScan(_)) && n.exec == Executor::Serial;
                if l.step != n.step || l.exec != n.exec && !serial {
                    return Err(other());
                }
                names.insert(n.binder.id, build::var(&l.binder));
            }
            (_, _, Some((b, ..)), Some((n, ..))) if b.ty == n.ty => drop(names.insert(n.id, build::var(b))),
            _ if s.as_if().is_some() && now.as_if().is_some() => {}
            _ => return Err(other()),
        }
        for (n, (x, y)) in s.children().zip(now.children()).enumerate() {
            let around = items.len();
            items.extend(Item::entering(s, n));
            self.kept(&[x], &[y], &names, total, items)?;
            items.truncate(around);
        }
        Ok(())
    }

    fn aligner<'w>(&'w self, none: &'w HashSet<BufId>) -> Aligner<'w, 'a> {
        let (env, written) = (self.env, &self.place.written);
        Aligner {
            env,
            written,
            through: none,
            tables: none,
            uses: Vec::new(),
            blocks: Vec::new(),
            compared: 0,
        }
    }

    fn same(&self, items: &[Item<'a>], a: &Expr, b: &'a Expr) -> bool {
        a == b || self.aligner(&HashSet::new()).same(&mut items.to_vec(), a, b)
    }

    /// Every total is combined with all before it.
    fn chain(&self, s: &Stmt, first: &Expr) -> Result<(), String> {
        let l = s
            .as_loop()
            .filter(|l| l.step == 1 && l.exec.is_ordered())
            .ok_or("totals are not combined in order")?;
        self.equal(&[], &build::max(build::index(0), build::sub(l.hi.clone(), l.lo.clone())), &self.count())?;
        let st = self.store(&l.body, "how totals are combined")?;
        let (items, c) = ([Self::item(l)], build::var(&l.binder));
        let before = build::add(first.clone(), build::sub(c, l.lo.clone()));
        let after = build::add(before.clone(), build::index(1));
        self.equal(&items, &self.at(&st.target)?, &after)?;
        let mut loads: Vec<Expr> = Vec::new();
        for a in loads_of(&st.value) {
            let e = build::load(a.clone());
            self.at(&a)?;
            if !loads.contains(&e) {
                loads.push(e);
            }
        }
        let op = self.op.as_ref().ok_or("there is no operator")?;
        let place = |e: &Expr, at: &Expr| match e.kind() {
            ExprKind::Load(a) => self.at(a).is_ok_and(|x| self.equal(&items, &x, at).is_ok()),
            _ => false,
        };
        let sum = |a: &Expr, b: &Expr| {
            lathe_ir::reduce::combine(self.c.module, op, std::slice::from_ref(a), std::slice::from_ref(b))
                .is_some_and(|all| all == std::slice::from_ref(&st.value))
        };
        let pairs = || loads.iter().flat_map(|a| loads.iter().map(move |b| (a, b)));
        let found = pairs().any(|(a, b)| sum(a, b) && place(a, &before) && place(b, &after));
        if found { Ok(()) } else { Err("a total is not combined with the one before it".into()) }
    }

    /// Constant loops of stores that combine totals with those right before them, until each stands for all before it:
    /// they are followed one by one.
    fn rounds(&mut self, all: &[&Stmt]) -> Result<(), String> {
        let n = self
            .count()
            .as_int()
            .filter(|n| *n <= MOST_FOLLOWED)
            .ok_or("there are too many totals to follow")?;
        let mut first: Vec<i64> = (0..=n).collect();
        for s in all {
            let (l, body) = s.as_loop().map_or((None, *s), |l| (Some(l), &l.body));
            if l.is_some_and(|l| !l.exec.is_ordered()) {
                return Err("totals are not combined in order".into());
            }
            let ends = l.map_or(Some((0, 1)), |l| l.lo.as_int().zip(l.hi.as_int()).filter(|_| l.step == 1));
            let (lo, hi) =
                ends.filter(|(lo, hi)| hi - lo <= n).ok_or("a round is no loop of constant bounds")?;
            let st = self.store(body, "how totals are combined")?;
            let (far, near) = self.operands(st)?;
            let target = self.at(&st.target)?;
            for i in lo..hi {
                self.examined += 1;
                let here = l.map_or_else(HashMap::new, |l| HashMap::from([(l.binder.id, i)]));
                let at = |e: &Expr| evaluate(e, &here).filter(|v| (0..=n).contains(v));
                let all = at(&target).zip(at(&near)).zip(at(&far));
                let ((to, near), far) = all.ok_or("a total that does not exist is combined")?;
                let begins = usize::try_from(to).ok().filter(|_| to == near && far < to);
                let begins = begins.and_then(|t| Some((t, usize::try_from(far).ok()?)));
                let (t, f) = begins.ok_or("a total is not combined with one before it")?;
                if first[t] != far + 1 {
                    return Err("a total is not combined with the one right before what it stands for".into());
                }
                first[t] = first[f];
            }
        }
        if first.iter().all(|f| *f == 0) {
            Ok(())
        } else {
            Err("a total does not stand for all before it".into())
        }
    }

    /// The subscripts of the two totals that a store combines, in their order.
    fn operands(&self, st: &Store) -> Result<(Expr, Expr), String> {
        let op = self.op.as_ref().ok_or("there is no operator")?;
        let mut loads: Vec<Expr> = Vec::new();
        for a in loads_of(&st.value) {
            self.at(&a)?;
            let e = build::load(a);
            if !loads.contains(&e) {
                loads.push(e);
            }
        }
        let sum = |a: &Expr, b: &Expr| {
            lathe_ir::reduce::combine(self.c.module, op, std::slice::from_ref(a), std::slice::from_ref(b))
                .is_some_and(|all| all == std::slice::from_ref(&st.value))
        };
        let target = self.at(&st.target)?;
        for a in &loads {
            for b in loads.iter().filter(|b| sum(a, b)) {
                if let (ExprKind::Load(x), ExprKind::Load(y)) = (a.kind(), b.kind()) {
                    let (far, near) = (self.at(x)?, self.at(y)?);
                    if near == target {
                        return Ok((far, near));
                    }
                }
            }
        }
        Err("a total is not combined with another one".into())
    }

    /// The loop does what it did, on a value of its own.
    fn main(&mut self, s: &Stmt, first: &Expr) -> Result<(), String> {
        let l = self.same_range(s)?;
        let unlike = || "the loop runs otherwise".to_string();
        let (b, body) = l.body.as_alloc().filter(|_| l.binder == self.l.binder).ok_or_else(unlike)?;
        let (start, rest) = match body.as_seq() {
            Some([start, rest @ ..]) if b.id == self.own.id => (start, Stmt::seq(rest.to_vec())),
            _ => return Err(unlike()),
        };
        let st = self.store(start, "how an iteration starts")?;
        match st.value.kind() {
            ExprKind::Load(a) if self.is(&st.target, self.own) => {
                self.equal(&[Self::item(l)], &self.at(a)?, &self.before(first, &build::var(&l.binder)))?;
            }
            _ => return Err("an iteration does not start from the totals before".into()),
        }
        self.rest(&rest)
    }

    /// What an iteration did on the running value, it does on its own.
    fn rest(&mut self, rest: &Stmt) -> Result<(), String> {
        if Memory::of(self.c.after).touched(rest).reads.contains(&Cell::Buffer(self.acc.id)) {
            return Err(format!("an iteration still reads `{}`", self.acc.name));
        }
        let back = visit::map_accesses(rest, &mut |a| {
            self.is(a, self.own).then(|| Access { view: View::Buffer(self.acc.id), ..a.clone() })
        });
        let erased = |s: &Stmt| {
            visit::map_accesses(s, &mut |a| {
                self.is(a, self.acc).then(|| Access::buffer(self.acc.id, a.elem.clone(), Vec::new()))
            })
        };
        let none = HashSet::new();
        let (back, plain) = (erased(&back), erased(&self.l.body));
        let mut aligner = Aligner {
            env: self.env,
            written: &self.place.written,
            through: &none,
            tables: &none,
            uses: Vec::new(),
            blocks: Vec::new(),
            compared: 0,
        };
        aligner
            .stmts(&mut vec![Self::item(self.l)], &plain, &back)
            .map_err(|why| format!("{why} in the loop"))?;
        self.examined += aligner.compared;
        Ok(())
    }

    /// What totals are computed from is not written by the loop.
    fn independent(&self, total: &Stmt) -> Result<(), String> {
        let memory = Memory::of(self.c.after);
        let mut reads = memory.touched(total).reads.clone();
        reads.remove(&Cell::Buffer(self.carry.id));
        if reads.contains(&Cell::Buffer(self.acc.id))
            || memory.changing(&reads, [&self.l.body].into_iter()).is_some()
        {
            return Err("what an iteration combines may depend on what the loop writes".into());
        }
        Ok(())
    }
}
