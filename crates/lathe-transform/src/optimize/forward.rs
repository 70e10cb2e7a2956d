//! `forward`: store-to-load forwarding.

use crate::args::Args;
use crate::rule;
use crate::work::Work;
use lathe_analysis::{Memory, Place, Touched};
use lathe_diagnostics::Places;
use lathe_ir::stmt::block::{Item, flat, rebuilt};
use lathe_ir::{Access, Expr, ExprKind, Function, Module, Stmt, StmtKind, Store, View, build, visit};
use lathe_poly::Linear;
use lathe_strategy::Refusal;
use lathe_strategy::evidence::Simplified;
use std::collections::HashSet;

rule! {
    /// After `A[i] = e`, `forward` replaces loads of `A[i]` by the value of `e`, which is bound before the store: in
    /// the rest of the block, loops and branches included. An update (`A[i] += e`) of an element whose value is known
    /// becomes a store.
    ///
    /// **Legal** as long as nothing that may alias the element is written in between, and the subscripts do not change.
    /// Elements of the same array are known to be distinct if their subscripts differ by a constant.
    ///
    /// ```lathe
    /// kernel k(x: f32[N]) -> (y: f32[N], z: f32[N]) {
    ///     for i in 0..N {
    ///         y[i] = exp(x[i])
    ///         z[i] = y[i] + 1.0
    ///     }
    /// }
    /// strategy s for k = forward
    /// ```
    pub static RULE = forward, version 1, (), apply,
        "store-to-load forwarding: replaces a load by the value just stored to the element";
}

fn apply(work: &mut Work, _: &Args) -> Result<(), Refusal> {
    let module = work.module();
    work.pass(Simplified::Stored, |func| pass(module, func))
}

pub fn pass(module: &Module, func: &mut Function) {
    let memory = Memory::of(func);
    let body = func.body.clone();
    let mut f = Forward { module, memory, func };
    let body = f.block(&body, &[]);
    func.body = body;
}

/// An element with the value that it has.
#[derive(Clone)]
struct Known {
    target: Access,
    place: Place,
    /// What its subscripts read.
    subscripts: HashSet<Place>,
    value: Expr,
}

impl Known {
    /// Whether it still holds after something was touched.
    fn survives(&self, t: &Touched) -> bool {
        !t.writes(self.place) && !t.changes(&self.subscripts)
    }
}

struct Forward<'f> {
    module: &'f Module,
    memory: Memory,
    func: &'f mut Function,
}

impl Forward<'_> {
    fn block(&mut self, s: &Stmt, known: &[Known]) -> Stmt {
        let mut known = known.to_vec();
        let mut items = flat(s);
        let mut n = 0;
        while n < items.len() {
            match items[n].clone() {
                Item::Let(b, value, places) => items[n] = Item::Let(b, with(&value, &known), places),
                // What was known of an array of this scope's last life is known of nothing.
                Item::Alloc(b, _) => known.retain(|k| k.place != Place::Buffer(b.id)),
                Item::Do(s) => {
                    let touched = self.memory.touched(&s);
                    let new = self.statement(&s, &known, &touched);
                    let new = self.updated(&new, &known).unwrap_or(new);
                    match new.as_store() {
                        Some(st) => {
                            let target = st.target.clone();
                            known.retain(|k| self.apart(k, &target));
                            if let Some(named) = self.learn(&new, &items[n + 1..], &mut known) {
                                let (binding, store) = named;
                                items[n] = store;
                                items.insert(n, binding);
                                n += 1;
                            } else {
                                items[n] = Item::Do(new);
                            }
                        }
                        None => {
                            known.retain(|k| k.survives(&touched));
                            items[n] = Item::Do(new);
                        }
                    }
                }
            }
            n += 1;
        }
        rebuilt(items)
    }

    /// A statement with what is known put in.
    fn statement(&mut self, s: &Stmt, known: &[Known], touched: &Touched) -> Stmt {
        let within: Vec<Known> = known.iter().filter(|k| k.survives(touched)).cloned().collect();
        // A store, a condition and the bounds of a loop are evaluated before anything is written.
        let first = s.as_store().is_some() || s.as_if().is_some() || s.as_loop().is_some();
        let own = if first { known } else { &within };
        let exprs: Vec<Expr> = s.exprs().into_iter().map(|e| with(e, own)).collect();
        let same = s.exprs().into_iter().zip(&exprs).all(|(a, b)| a == b);
        let s = if same { s.clone() } else { s.with_exprs(exprs) };
        if s.children().len() == 0 {
            return s;
        }
        let inside = if s.as_if().is_some() { known } else { &within };
        let inside = if touched.anything { &[] } else { inside };
        let children = s.children().map(|c| self.block(c, inside)).collect();
        s.with_children(children)
    }

    /// An update of an element whose value is known, as the store that it is.
    fn updated(&self, s: &Stmt, known: &[Known]) -> Option<Stmt> {
        let r = s.as_reduce().filter(|r| !r.contract)?;
        let [target] = &r.targets[..] else { return None };
        let old = known.iter().rev().find(|k| is_element(&k.target, target))?;
        let values =
            lathe_ir::reduce::combine(self.module, &r.op, std::slice::from_ref(&old.value), &r.values)?;
        let [value] = &values[..] else { return None };
        let (label, instance) = (r.label.clone(), r.instance.clone());
        let store = Store::new(label, instance, target.clone(), value.clone());
        Some(s.with_kind(StmtKind::Store(store)))
    }

    /// Whether what is known of an element still holds after a store to another one.
    fn apart(&self, k: &Known, target: &Access) -> bool {
        let written = self.memory.place(&target.view);
        if k.subscripts.contains(&written) {
            return false;
        }
        if k.place != written {
            return true;
        }
        let differ = |a: &Expr, b: &Expr| Linear::difference(a, b).is_some_and(|d| d != 0);
        k.target.view == target.view
            && matches!(target.view, View::Buffer(_))
            && k.target.indices.len() == target.indices.len()
            && k.target.indices.iter().zip(&target.indices).any(|(a, b)| differ(a, b))
    }

    /// Notes what a store says; if its value needs a name, that and the store of it.
    fn learn(&mut self, s: &Stmt, later: &[Item], known: &mut Vec<Known>) -> Option<(Item, Item)> {
        let st = s.as_store()?;
        let ty = st.value.ty().scalar()?;
        let place = self.memory.place(&st.target.view);
        let subscripts: HashSet<Place> =
            st.target.exprs().into_iter().flat_map(|e| self.memory.read_by(e)).collect();
        let Place::Buffer(_) = place else { return None };
        // A subscript that the store itself changes names another element afterwards.
        if subscripts.contains(&place) || st.target.elem != *st.value.ty() {
            return None;
        }
        let entry =
            |value: Expr| Known { target: st.target.clone(), place, subscripts: subscripts.clone(), value };
        let leaf = matches!(
            st.value.kind(),
            ExprKind::Var(_) | ExprKind::Int(_) | ExprKind::Float(_) | ExprKind::Bool(_)
        );
        if leaf {
            known.push(entry(st.value.clone()));
            return None;
        }
        if !later.iter().any(|i| reads_element(&i.alone(), &st.target)) {
            return None;
        }
        let b = self.func.fresh_var(name(s), ty);
        known.push(entry(build::var(&b)));
        let places: Places = s.places().clone();
        let store = Store { value: build::var(&b), ..st.clone() };
        Some((Item::Let(b, st.value.clone(), places), Item::Do(s.with_kind(StmtKind::Store(store)))))
    }
}

/// What a value is called: after the statement that stores it.
fn name(s: &Stmt) -> String {
    s.label().map_or_else(|| "value".to_string(), |l| format!("{l}.value"))
}

fn is_element(a: &Access, of: &Access) -> bool {
    a.view == of.view && a.indices == of.indices
}

fn reads_element(s: &Stmt, target: &Access) -> bool {
    s.evaluated().into_iter().any(|e| {
        let mut found = false;
        visit::walk_expr(e, &mut |x| {
            found |= matches!(x.kind(), ExprKind::Load(a) if is_element(a, target));
        });
        found
    }) || s.children().any(|c| reads_element(c, target))
}

/// An expression with known values in the place of loads.
fn with(e: &Expr, known: &[Known]) -> Expr {
    if known.is_empty() {
        return e.clone();
    }
    visit::map_expr(e, &mut |x| match x.kind() {
        ExprKind::Load(a) => {
            known.iter().rev().find(|k| is_element(a, &k.target)).map_or(x.clone(), |k| k.value.clone())
        }
        _ => x,
    })
}
