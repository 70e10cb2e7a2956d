//! Loops that are equivalent to index notation become computes, whose adjoints are gathers that strategies take: a loop
//! whose iterations touch elements of their own only is one compute per statement, and one that only adds is a sum.
//! A loop in time stays around such computes.

use lathe_ir::visit::{self, loads_of, refresh, substitute, vars_of, walk_expr};
use lathe_ir::{
    Access, BinOp, BufId, Combine, Compute, Dim, Executor, Expr, ExprKind, Function, Loop, ReduceOp, Stmt,
    StmtKind, VarId, View,
};
use lathe_poly::Linear;
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// The function with such loops in index notation.
pub fn raised(func: &Function) -> Function {
    if func.params.iter().any(|p| p.alias.is_some()) {
        return func.clone();
    }
    let mut out = func.clone();
    let mut extents: Extents =
        func.params.iter().filter_map(|p| p.array()).map(|b| (b.id, b.extents.clone())).collect();
    visit::walk(&func.body, &mut |s, _| {
        extents.extend(s.allocated().map(|b| (b.id, b.extents.clone())));
        true
    });
    out.body = stmt(&func.body, &mut out.next_id, &Rc::new(extents));
    out
}

type Extents = HashMap<BufId, Vec<Expr>>;

fn stmt(s: &Stmt, next: &mut u32, extents: &Rc<Extents>) -> Stmt {
    if let Some(l) = s.as_loop() {
        let mut body = Body { extents: extents.clone(), ..Body::default() };
        if body.read_loop(l).is_some() && body.may_inline() {
            let made = body.items.into_iter().map(|i| i.of.with_kind(StmtKind::Compute(i.compute)));
            // Each has indices of its own.
            return Stmt::seq(made.map(|s| refresh(&s, next)));
        }
    }
    let new: Vec<Stmt> = s.children().map(|c| stmt(c, next, extents)).collect();
    let same = s.children().zip(&new).all(|(a, b)| a.ptr_eq(b));
    if same { s.clone() } else { s.with_children(new) }
}

/// A statement, with the dimensions that the loops around it became.
struct Item {
    compute: Compute,
    of: Stmt,
}

/// A `let`, which is written out where it is used.
struct Bound {
    value: Expr,
    /// The arrays that it reads, and the `let`s that it uses.
    reads: HashSet<BufId>,
    uses: HashSet<VarId>,
    is_costly: bool,
    /// How many statements are before it, in how many loops.
    position: usize,
    depth: usize,
}

/// The statements of nested loops, in order.
#[derive(Default)]
struct Body {
    items: Vec<Item>,
    lets: HashMap<VarId, Bound>,
    /// Which statement, in how many loops, uses which `let`.
    used: Vec<(usize, usize, VarId)>,
    depth: usize,
    extents: Rc<Extents>,
}

impl Body {
    /// `None` if the loop is not a sequence of computes.
    fn read_loop(&mut self, l: &Loop) -> Option<()> {
        let from = self.items.len();
        let (lo, hi) = (self.inlined(&l.lo), self.inlined(&l.hi));
        if l.step != 1 || l.exec != Executor::Serial || [&lo, &hi].iter().any(|e| !loads_of(e).is_empty()) {
            return None;
        }
        self.depth += 1;
        self.read(&l.body)?;
        self.depth -= 1;
        let own = l.binder.id;
        let extents = self.extents.clone();
        let items = &mut self.items[from..];
        if !are_apart(items, own) {
            return None;
        }
        for i in items {
            let c = &mut i.compute;
            if c.dims.iter().any(|d| [&d.lo, &d.hi].iter().any(|e| vars_of(e).contains(&own))) {
                return None;
            }
            let free = c.targets[0].indices.iter().any(|e| vars_of(e).contains(&own));
            let combine = match (&c.update, free) {
                (_, true) => Combine::Concat,
                // A sum of nothing has its element, too: a loop that never runs has none.
                (Some(op), false) if exists(&c.targets[0], &extents) => Combine::Reduce(op.clone()),
                (Some(_), false) => return None,
                (None, false) => return None,
            };
            c.dims.insert(0, Dim { binder: l.binder.clone(), lo: lo.clone(), hi: hi.clone(), combine });
        }
        Some(())
    }

    fn read(&mut self, s: &Stmt) -> Option<()> {
        if let Some(list) = s.as_seq() {
            return list.iter().try_for_each(|c| self.read(c));
        }
        if let Some(l) = s.as_loop() {
            return self.read_loop(l);
        }
        if let Some((binder, value, body)) = s.as_let() {
            let mut is_costly = false;
            walk_expr(value, &mut |e| {
                is_costly |= matches!(e.kind(), ExprKind::Math(..) | ExprKind::Call(..))
                    || matches!(e.kind(), ExprKind::Binary(op, ..) if !matches!(op, BinOp::Add | BinOp::Sub | BinOp::Mul));
            });
            let value_of = self.inlined(value);
            let bound = Bound {
                reads: loads_of(&value_of).iter().filter_map(|a| a.view.buffer()).collect(),
                uses: vars_of(value),
                value: value_of,
                is_costly,
                position: self.items.len(),
                depth: self.depth,
            };
            self.lets.insert(binder.id, bound);
            return self.read(body);
        }
        let (label, target, value, update) = if let Some(st) = s.as_store() {
            (&st.label, &st.target, &st.value, None)
        } else if let Some(r) = s.as_reduce()
            && let ([target], [value], ReduceOp::Sum) = (&r.targets[..], &r.values[..], &r.op)
            && r.licence
            && !r.contract
        {
            (&r.label, target, value, Some(ReduceOp::Sum))
        } else {
            return self.read_compute(s);
        };
        let target_of =
            Access { indices: target.indices.iter().map(|e| self.inlined(e)).collect(), ..target.clone() };
        let value_of = self.inlined(value);
        self.note(target.indices.iter().chain([value]));
        let (targets, values) = (vec![target_of], vec![value_of]);
        let compute =
            Compute { label: label.clone(), dims: Vec::new(), targets, values, guard: None, update };
        self.push(compute, s)
    }

    fn read_compute(&mut self, s: &Stmt) -> Option<()> {
        let c = s.as_compute()?;
        let fits = |d: &Dim| matches!(d.combine, Combine::Concat | Combine::Reduce(ReduceOp::Sum));
        let uses = c.dims.iter().flat_map(|d| [&d.lo, &d.hi]).chain(&c.values);
        let uses: Vec<&Expr> = uses.chain(c.targets.iter().flat_map(|t| &t.indices)).collect();
        let is_let = |v: &VarId| self.lets.contains_key(v);
        if c.targets.len() != 1
            || c.guard.is_some()
            || c.update.as_ref().is_some_and(|u| *u != ReduceOp::Sum)
            || !c.dims.iter().all(fits)
            || uses.into_iter().any(|e| vars_of(e).iter().any(is_let))
        {
            return None;
        }
        self.push(c.clone(), s)
    }

    fn push(&mut self, compute: Compute, s: &Stmt) -> Option<()> {
        let target = &compute.targets[0];
        let plain = matches!(target.view, View::Buffer(_))
            && target.indices.iter().all(|e| loads_of(e).is_empty())
            && compute.values.iter().flat_map(loads_of).all(|a| matches!(a.view, View::Buffer(_)));
        self.items.push(Item { compute, of: s.clone() });
        plain.then_some(())
    }

    fn inlined(&self, e: &Expr) -> Expr {
        let used = vars_of(e);
        let map = used.iter().filter_map(|v| Some((*v, self.lets.get(v)?.value.clone())));
        let map: HashMap<VarId, Expr> = map.collect();
        if map.is_empty() { e.clone() } else { substitute(e, &map) }
    }

    /// The next statement uses the `let`s of these expressions, and those that these use.
    fn note<'e>(&mut self, es: impl Iterator<Item = &'e Expr>) {
        let mut open: Vec<VarId> = es.flat_map(vars_of).collect();
        let mut seen = HashSet::new();
        while let Some(v) = open.pop() {
            if let Some(b) = self.lets.get(&v)
                && seen.insert(v)
            {
                open.extend(&b.uses);
                self.used.push((self.items.len(), self.depth, v));
            }
        }
    }

    /// Whether `let`s have the same values where they are used, and cost no more: what is costly is used by one
    /// statement, in no other loop.
    fn may_inline(&self) -> bool {
        let writes =
            |i: &Item, b: &Bound| i.compute.targets[0].view.buffer().is_some_and(|w| b.reads.contains(&w));
        self.used.iter().all(|(at, depth, v)| {
            let b = &self.lets[v];
            let inner = *depth > b.depth;
            let until = if inner { self.items.len() } else { *at };
            let stands = !self.items[b.position..until].iter().any(|i| writes(i, b));
            let once = !self.used.iter().any(|u| u.2 == *v && u.0 != *at) && !inner;
            stands && (!b.is_costly || once)
        })
    }
}

/// Whether the constant subscripts of an element are within its array, whatever the sizes.
fn exists(a: &Access, extents: &Extents) -> bool {
    let of = a.view.buffer().and_then(|b| extents.get(&b));
    let within = |(i, n): (&Expr, &Expr)| match (i.as_int(), n.as_int()) {
        (Some(i), Some(n)) => (0..n).contains(&i),
        (Some(_), None) => false,
        (None, _) => true,
    };
    of.is_some_and(|n| a.indices.iter().zip(n).all(within))
}

/// Whether iterations of a loop touch nothing of one another but to add to it, statement by statement: then each
/// statement may run for all of them before the next one does.
fn are_apart(items: &[Item], own: VarId) -> bool {
    let inner: HashSet<VarId> =
        items.iter().flat_map(|i| i.compute.dims.iter().map(|d| d.binder.id)).collect();
    let same = |a: &Access, b: &Access| {
        a.indices.len() == b.indices.len()
            && a.indices.iter().zip(&b.indices).any(|(p, q)| {
                let (p, q) = (Linear::of(p), Linear::of(q));
                p.factor(own) != 0 && p == q && !p.mentions(&inner) && !p.reads()
            })
    };
    let mut touched: HashMap<BufId, Vec<(Access, bool, bool)>> = HashMap::new();
    for i in items {
        let c = &i.compute;
        let mut note = |a: &Access, writes: bool, adds: bool| {
            if let Some(b) = a.view.buffer() {
                touched.entry(b).or_default().push((a.clone(), writes, adds));
            }
        };
        c.values.iter().flat_map(loads_of).for_each(|a| note(&a, false, false));
        note(&c.targets[0], true, c.update.is_some());
    }
    touched.values().all(|all| {
        all.iter().enumerate().all(|(n, (a, writes, adds))| {
            all[n..].iter().all(|(b, also, add)| {
                let reads_only = !writes && !also;
                let adds_only = *writes && *also && *adds && *add;
                reads_only || adds_only || same(a, b)
            })
        })
    })
}
