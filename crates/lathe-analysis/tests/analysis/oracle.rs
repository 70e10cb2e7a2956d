//! Random affine programs and random changes of order: the verdict for symbolic sizes is compared with
//! the enumeration of all instance pairs at all sizes 0..=6.
//!
//! `LATHE_ORDER_CASES` raises the number of cases, `LATHE_ORDER_SEED` sets the seed.

use crate::kit::*;
use lathe_analysis::{Env, OrderRefusal, instances_preserved, order_preserved};
use lathe_ir::build::{add, ceil_div, eq, float, floor_div, floor_mod, lt, max, min, mul, sub, var};
use lathe_ir::visit::substitute_stmt;
use lathe_ir::{BinOp, Binder, BufId, Executor, Expr, ExprKind, Loop, Mode, Scalar, Stmt, StmtKind, VarId};
use std::collections::HashMap;

/// A small generator of pseudo-random numbers (splitmix64).
pub struct Dice(pub u64);

impl Dice {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    pub fn chance(&mut self, percent: u64) -> bool {
        self.below(100) < percent
    }
}

fn eval(e: &Expr, at: &HashMap<VarId, i64>) -> i64 {
    match e.kind() {
        ExprKind::Int(v) => *v,
        ExprKind::Var(v) => at[v],
        ExprKind::Bool(b) => i64::from(*b),
        ExprKind::Binary(op, a, b) => {
            let (x, y) = (eval(a, at), eval(b, at));
            match op {
                BinOp::Add => x + y,
                BinOp::Sub => x - y,
                BinOp::Mul => x * y,
                BinOp::FloorDiv => x.div_euclid(y),
                BinOp::FloorMod => x.rem_euclid(y),
                BinOp::Min => x.min(y),
                BinOp::Max => x.max(y),
                BinOp::Lt => i64::from(x < y),
                BinOp::Le => i64::from(x <= y),
                BinOp::Eq => i64::from(x == y),
                BinOp::And => x & y,
                _ => panic!("{op:?}"),
            }
        }
        _ => panic!("{e:?}"),
    }
}

/// One executed instance: what it is, what it touches, and when it runs.
struct Event {
    id: (String, Vec<i64>),
    touches: Vec<(BufId, Vec<i64>, bool)>,
    /// A position of a sequence, or an iteration (with whether its loop is ordered).
    time: Vec<(i64, bool)>,
}

fn run(s: &Stmt, at: &mut HashMap<VarId, i64>, time: &mut Vec<(i64, bool)>, out: &mut Vec<Event>) {
    match s.kind() {
        StmtKind::Seq(list) => {
            for (p, c) in list.iter().enumerate() {
                time.push((p as i64, true));
                run(c, at, time, out);
                time.pop();
            }
        }
        StmtKind::Loop(l) => {
            let mut v = eval(&l.lo, at);
            while v < eval(&l.hi, at) {
                at.insert(l.binder.id, v);
                time.push((v, l.exec.is_ordered()));
                run(&l.body, at, time, out);
                time.pop();
                v += l.step;
            }
        }
        StmtKind::If { cond, then, .. } => {
            if eval(cond, at) == 1 {
                run(then, at, time, out);
            }
        }
        StmtKind::Store(st) => {
            let cell = |ix: &[Expr]| ix.iter().map(|e| eval(e, at)).collect::<Vec<_>>();
            let mut touches =
                vec![(st.target.view.buffer().expect("buffer"), cell(&st.target.indices), true)];
            for l in lathe_ir::visit::loads_of(&st.value) {
                touches.push((l.view.buffer().expect("buffer"), cell(&l.indices), false));
            }
            let id = (st.label.to_string(), cell(&st.instance));
            out.push(Event { id, touches, time: time.clone() });
        }
        k => panic!("{k:?}"),
    }
}

/// Whether the first runs before the second; `None` if nothing orders them.
fn before(a: &Event, b: &Event) -> Option<bool> {
    for (x, y) in a.time.iter().zip(&b.time) {
        if x.0 != y.0 {
            return x.1.then_some(x.0 < y.0);
        }
    }
    None
}

fn events(s: &Stmt, sizes: &[VarId], n: i64) -> Vec<Event> {
    let mut at: HashMap<VarId, i64> = sizes.iter().map(|v| (*v, n)).collect();
    let mut out = Vec::new();
    run(s, &mut at, &mut Vec::new(), &mut out);
    out
}

/// Legal at one size: every conflicting pair keeps its order. `None`: other instances are executed.
fn legal_at(old: &Stmt, new: &Stmt, sizes: &[VarId], n: i64) -> Option<bool> {
    let (old, new) = (events(old, sizes, n), events(new, sizes, n));
    let mut place: HashMap<&(String, Vec<i64>), &Event> = HashMap::new();
    for e in &new {
        if place.insert(&e.id, e).is_some() {
            return None;
        }
    }
    if place.len() != old.len() || !old.iter().all(|e| place.contains_key(&e.id)) {
        return None;
    }
    for (i, a) in old.iter().enumerate() {
        for b in &old[i + 1..] {
            let conflict =
                a.touches.iter().any(|x| b.touches.iter().any(|y| x.0 == y.0 && x.1 == y.1 && (x.2 || y.2)));
            // `old` is in reference order.
            if conflict && before(place[&a.id], place[&b.id]) != Some(true) {
                return Some(false);
            }
        }
    }
    Some(true)
}

/// A random program: a nest (or two) of one to three loops with one to three statements.
struct Program {
    kit: Kit,
    arrays: Vec<(BufId, usize)>,
    statements: usize,
}

impl Program {
    fn subscript(&mut self, d: &mut Dice, vars: &[Expr]) -> Expr {
        let v = d.pick(vars).clone();
        let e = match d.below(8) {
            0 => add(v, d.pick(vars).clone()),
            1 => mul(v, k(2)),
            2 => sub(v, d.pick(vars).clone()),
            3 => floor_div(v, k(2)),
            _ => v,
        };
        add(e, k(d.below(3) as i64 - 1))
    }

    fn statement(&mut self, d: &mut Dice, vars: &[Expr]) -> Stmt {
        self.statements += 1;
        let label = format!("S{}", self.statements);
        let access = |p: &mut Program, d: &mut Dice| {
            let (b, rank) = *d.pick(&p.arrays);
            (b, (0..rank).map(|_| p.subscript(d, vars)).collect::<Vec<_>>())
        };
        let (target, at) = access(self, d);
        let mut value = float(Scalar::F32, 1.0);
        for _ in 0..d.below(3) {
            let (b, ix) = access(self, d);
            value = add(value, load(b, ix));
        }
        let s = store(&label, vars.to_vec(), target, at, value);
        match d.below(6) {
            0 => if_(lt(vars[0].clone(), d.pick(vars).clone()), s),
            1 => if_(eq(floor_mod(d.pick(vars).clone(), k(2)), k(0)), s),
            _ => s,
        }
    }

    fn nest(&mut self, d: &mut Dice, depth: usize, vars: &mut Vec<Expr>) -> Stmt {
        let n = self.kit.size(0);
        let b = self.kit.binder(&format!("i{}", vars.len()));
        let (mut lo, mut hi) = (k(0), n.clone());
        if let Some(outer) = vars.last().cloned() {
            match d.below(6) {
                0 => lo = outer,
                1 => hi = add(outer, k(1)),
                2 => lo = max(k(0), sub(outer, k(1))),
                3 => hi = min(n.clone(), add(outer, k(2))),
                _ => {}
            }
        }
        if d.chance(15) {
            hi = sub(n, k(1));
        }
        vars.push(var(&b));
        let mut body = Vec::new();
        if depth > 1 {
            if d.chance(20) {
                body.push(self.statement(d, vars));
            }
            body.push(self.nest(d, depth - 1, vars));
        } else {
            for _ in 0..1 + d.below(2) {
                body.push(self.statement(d, vars));
            }
        }
        vars.pop();
        for_(&b, lo, hi, Stmt::seq(body))
    }
}

fn with_loop(l: &Loop, body: Stmt) -> Stmt {
    Stmt::of(StmtKind::Loop(Loop { body, ..l.clone() }))
}

/// The variable of `l` replaced by an expression, in a body.
fn put(body: &Stmt, v: &Binder, e: Expr) -> Stmt {
    substitute_stmt(body, &HashMap::from([(v.id, e)]))
}

/// A random change at a loop; `None` if it does not apply.
fn change(kit: &mut Kit, d: &mut Dice, s: &Stmt) -> Option<(&'static str, Stmt)> {
    let l = s.as_loop()?;
    let tile = *d.pick(&[2i64, 3]);
    let (o, i) = (kit.binder("o"), kit.binder("i"));
    let split = |inner_body: Stmt| {
        let extent = sub(l.hi.clone(), l.lo.clone());
        let rest = sub(extent.clone(), mul(var(&o), k(tile)));
        let inner = for_(&i, k(0), min(k(tile), rest), inner_body);
        for_(&o, k(0), ceil_div(extent, tile), inner)
    };
    let at = add(l.lo.clone(), add(mul(var(&o), k(tile)), var(&i)));
    Some(match d.below(10) {
        0 => {
            // reverse
            let r = add(l.lo.clone(), sub(sub(l.hi.clone(), k(1)), var(&i)));
            ("reverse", for_(&i, l.lo.clone(), l.hi.clone(), put(&l.body, &l.binder, r)))
        }
        1 => {
            let exec = if d.chance(50) { Executor::Cpu } else { Executor::Vector(64) };
            ("parallel", Stmt::of(StmtKind::Loop(Loop { exec, ..l.clone() })))
        }
        2 => ("split", split(put(&l.body, &l.binder, at))),
        3 | 4 => {
            // interchange, bounds by guards: for j in all { for i { if inside { .. } } }
            let inner = l.body.as_loop()?;
            let range = kit.size(0);
            let wide = add(range, k(3));
            let inside = lathe_ir::build::and(
                lathe_ir::build::le(inner.lo.clone(), var(&inner.binder)),
                lt(var(&inner.binder), inner.hi.clone()),
            );
            let body = if_(inside, inner.body.clone());
            let moved = for_(&inner.binder, k(0), wide, with_loop(l, body));
            ("interchange", moved)
        }
        5 => {
            // tile an inner loop over this one: for j.o { for i { for j.i } }
            let inner = l.body.as_loop()?;
            if lathe_ir::visit::vars_of(&inner.lo).contains(&l.binder.id)
                || lathe_ir::visit::vars_of(&inner.hi).contains(&l.binder.id)
            {
                return None;
            }
            let extent = sub(inner.hi.clone(), inner.lo.clone());
            let rest = sub(extent.clone(), mul(var(&o), k(tile)));
            let at = add(inner.lo.clone(), add(mul(var(&o), k(tile)), var(&i)));
            let body = for_(&i, k(0), min(k(tile), rest), put(&inner.body, &inner.binder, at));
            ("strip and interchange", for_(&o, k(0), ceil_div(extent, tile), with_loop(l, body)))
        }
        6 => {
            // fission
            let StmtKind::Seq(list) = l.body.kind() else { return None };
            let at = 1 + d.below(list.len() as u64 - 1) as usize;
            let part = |p: &[Stmt]| with_loop(l, Stmt::seq(p.iter().cloned()));
            let (x, y) = (part(&list[..at]), part(&list[at..]));
            ("fission", if d.chance(80) { Stmt::seq([x, y]) } else { Stmt::seq([y, x]) })
        }
        8 => {
            // two loops, each with a part of the range
            let at = min(add(l.lo.clone(), k(tile)), l.hi.clone());
            let (first, rest) = (put(&l.body, &l.binder, var(&o)), put(&l.body, &l.binder, var(&i)));
            let parts = [for_(&o, l.lo.clone(), at.clone(), first), for_(&i, at, l.hi.clone(), rest)];
            let [x, y] = parts;
            ("cut", if d.chance(80) { Stmt::seq([x, y]) } else { Stmt::seq([y, x]) })
        }
        7 => {
            // shift the second half of the body by one iteration
            let StmtKind::Seq(list) = l.body.kind() else { return None };
            let at = 1 + d.below(list.len() as u64 - 1) as usize;
            let (x, y) = (Stmt::seq(list[..at].to_vec()), Stmt::seq(list[at..].to_vec()));
            let by = *d.pick(&[1i64, -1]);
            let early = if_(
                lathe_ir::build::and(
                    lathe_ir::build::le(l.lo.clone(), var(&l.binder)),
                    lt(var(&l.binder), l.hi.clone()),
                ),
                x,
            );
            let old = sub(var(&l.binder), k(by));
            let late = if_(
                lathe_ir::build::and(
                    lathe_ir::build::le(l.lo.clone(), old.clone()),
                    lt(old.clone(), l.hi.clone()),
                ),
                put(&y, &l.binder, old),
            );
            let body = Stmt::seq([early, late]);
            ("shift", for_(&l.binder, sub(l.lo.clone(), k(1)), add(l.hi.clone(), k(1)), body))
        }
        _ => {
            // skew the inner loop by this one, then interchange: for p { for i { if .. S(i, p - i) } }
            let inner = l.body.as_loop()?;
            let j = sub(var(&i), var(&l.binder));
            let inside = lathe_ir::build::and(
                lathe_ir::build::le(inner.lo.clone(), j.clone()),
                lt(j.clone(), inner.hi.clone()),
            );
            let body = if_(inside, put(&inner.body, &inner.binder, j));
            let wide = add(mul(kit.size(0), k(2)), k(4));
            ("skew and interchange", for_(&i, k(-2), wide, with_loop(l, body)))
        }
    })
}

/// A change somewhere on the way down.
fn change_somewhere(kit: &mut Kit, d: &mut Dice, s: &Stmt) -> Option<(&'static str, Stmt)> {
    if let StmtKind::Seq(list) = s.kind() {
        // Two nests: sometimes fuse them.
        if let (Some(x), Some(y), true) =
            (list[0].as_loop(), list.get(1).and_then(Stmt::as_loop), d.chance(60))
            && x.lo == y.lo
            && x.hi == y.hi
            && list.len() == 2
        {
            let moved = put(&y.body, &y.binder, var(&x.binder));
            return Some(("fusion", with_loop(x, Stmt::seq([x.body.clone(), moved]))));
        }
        if d.chance(15) {
            let mut all = list.clone();
            let at = d.below(list.len() as u64 - 1) as usize;
            all.swap(at, at + 1);
            return Some(("swap", Stmt::of(StmtKind::Seq(all))));
        }
        let at = d.below(list.len() as u64) as usize;
        let (what, new) = change_somewhere(kit, d, &list[at])?;
        let mut all = list.clone();
        all[at] = new;
        return Some((what, Stmt::of(StmtKind::Seq(all))));
    }
    let l = s.as_loop()?;
    if d.chance(25) {
        let (what, body) = change_somewhere(kit, d, &l.body)?;
        return Some((what, with_loop(l, body)));
    }
    change(kit, d, s)
}

pub fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).ok().and_then(|v| v.parse().ok()).unwrap_or(default)
}

#[test]
fn verdicts_agree_with_enumeration() {
    let seed = number("LATHE_ORDER_SEED", 20_240_611);
    let wanted = number("LATHE_ORDER_CASES", 2000);
    let mut d = Dice(seed);
    let (mut cases, mut legal, mut refused, mut undecided) = (0u64, 0u64, 0u64, 0u64);
    let mut by_kind: HashMap<&'static str, (u64, u64, u64)> = HashMap::new();
    while cases < wanted {
        let case_seed = d.next();
        let mut c = Dice(case_seed);
        let mut p = Program { kit: Kit::new(&["N"]), arrays: Vec::new(), statements: 0 };
        for (name, rank) in [("A", 1), ("B", 2)] {
            let n = p.kit.size(0);
            let id = p.kit.array(name, vec![n; rank], Mode::InOut);
            p.arrays.push((id, rank));
        }
        let nests = if c.chance(25) { 2 } else { 1 };
        let parts: Vec<Stmt> = (0..nests)
            .map(|_| {
                let depth = 1 + c.below(3) as usize;
                p.nest(&mut c, depth, &mut Vec::new())
            })
            .collect();
        let mut old = Stmt::seq(parts);
        // A change before: there may be several copies of one statement, each with iterations of its own.
        let sizes: Vec<VarId> = p.kit.func.sizes.iter().map(|b| b.id).collect();
        if c.chance(50)
            && let Some((what, cut)) = change_somewhere(&mut p.kit, &mut c, &old)
            // The enumeration takes the old order to be that of its events.
            && what != "parallel"
            && (0..=6).all(|n| legal_at(&old, &cut, &sizes, n).is_some())
        {
            old = cut;
        }
        let Some((what, mut new)) = change_somewhere(&mut p.kit, &mut c, &old) else { continue };
        if c.chance(30)
            && let Some((_, twice)) = change_somewhere(&mut p.kit, &mut c, &new)
        {
            new = twice;
        }
        let truth: Option<Vec<bool>> = (0..=6).map(|n| legal_at(&old, &new, &sizes, n)).collect();
        // A change that loses instances is not one of order.
        let Some(truth) = truth else { continue };
        let truth = truth.iter().all(|t| *t);
        cases += 1;
        let (module, func) = p.kit.with_body(old.clone());
        let env = Env::root(&module, &func);
        let verdict = order_preserved(&env, &old, &new);
        // A refusal must hold at its own sizes, which may be larger than those enumerated.
        let mut truth = truth;
        if let Err(OrderRefusal::Violation(v)) = &verdict {
            let n = v.sizes[0].1;
            if n <= 16 {
                assert_ne!(legal_at(&old, &new, &sizes, n), Some(true), "case seed {case_seed}: {v:?}");
                truth = false;
            }
        }
        let kind = by_kind.entry(what).or_default();
        match (&verdict, truth) {
            (Ok(_), true) => (kind.0, legal) = (kind.0 + 1, legal + 1),
            (Ok(_), false) => panic!("illegal {what} accepted, case seed {case_seed}:\n{old:#?}\n{new:#?}"),
            (Err(why), true) => {
                (kind.1, legal, refused) = (kind.1 + 1, legal + 1, refused + 1);
                if matches!(why, OrderRefusal::Undecided(_)) {
                    undecided += 1;
                }
                if std::env::var("LATHE_ORDER_SHOW").is_ok() {
                    eprintln!("legal {what} refused, case seed {case_seed}: {why:?}\n{old:?}\n{new:?}");
                }
            }
            (Err(_), false) => kind.2 += 1,
        }
        if cases % 8 == 0 {
            let same = instances_preserved(&env, &old, &new);
            // Changes with bounds that were guessed may lose instances at larger sizes.
            let kept = same.is_ok() || (7..=10).any(|n| legal_at(&old, &new, &sizes, n).is_none());
            assert!(kept, "{what}, case seed {case_seed}: {same:?}\n{old:?}\n{new:?}");
        }
    }
    eprintln!(
        "seed {seed}: {cases} cases, {legal} legal, of these refused {refused} ({undecided} undecided); illegal accepted 0"
    );
    for (what, (accepted, refused, right)) in by_kind {
        eprintln!("  {what}: {accepted} accepted, {refused} legal but refused, {right} rightly refused");
    }
    assert!(refused * 20 <= legal, "more than 5 % of the legal changes were refused");
}
