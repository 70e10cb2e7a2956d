//! Chains of dependences that loops carry: a lower bound of the cycles that their instructions take.

use super::{Kind, Walk};
use crate::accesses::Place;
use lathe_ir::visit;
use lathe_ir::{Access, BinOp, Executor, Expr, ExprKind, MathFn, Reduce, ReduceOp, Space, Stmt, VarId};
use lathe_target::Costs;
use std::collections::HashMap;

impl Walk<'_> {
    /// An update waits for the one before on the same element.
    pub(super) fn chain(&mut self, r: &Reduce, times: f64) {
        let Some(p) = r.targets.first().and_then(|t| Place::of(t, self.known, &self.values)) else { return };
        let mut serial = self.path.iter().rev().filter(|l| l.kind == Kind::Serial);
        let Some(inner) = serial.next() else { return };
        // A tile in memory is stored and loaded again for each update of its elements.
        let (times, forward) = match p.mentions(inner.var) {
            // Loops that may end early store every time what others see.
            false if self.bag.ends_early && !matches!(p.buffer.space, Space::Register | Space::Stack) => {
                (times, self.machine.costs.forward)
            }
            false => (times, 0.0),
            true if p.buffer.space != Space::Register || self.in_registers(&p) => return,
            true if serial.next().is_none_or(|l| p.mentions(l.var)) => return,
            true => (times / inner.trips, self.machine.costs.forward),
        };
        let latency = match &r.op {
            ReduceOp::Min | ReduceOp::Max if p.buffer.elem.is_float() => 2.0,
            ReduceOp::ArgMin | ReduceOp::ArgMax => 2.5,
            ReduceOp::User(_) => 3.0,
            _ if r.contract => 1.0,
            _ => self.machine.costs.add_latency,
        };
        let in_turn = self.written_out(|v| !p.mentions(v));
        let lanes = self.lanes().filter(|l| !p.mentions(l.0)).map_or(1.0, |l| l.1);
        let scan = self.path.iter().any(|l| matches!(l.kind, Kind::Lanes { scan: true, .. }));
        // Of a scan in lanes only the last one waits for the vector before.
        let steps = if scan { 2.0 } else { lanes };
        let cycles = times * in_turn * steps * (latency * self.machine.fma_latency as f64 + forward);
        self.bag.chain = self.bag.chain.max(cycles);
    }

    /// A store whose value is computed from what the iteration before stored.
    pub(super) fn recurrence(&mut self, s: &Stmt, times: f64) {
        let Some(st) = s.as_store() else { return };
        let Some(inner) = self.path.iter().rev().find(|l| l.kind == Kind::Serial).map(|l| l.var) else {
            return;
        };
        let Some(target) = Place::of(&st.target, self.known, &self.values) else { return };
        let behind = |p: &Place| {
            p.buffer.id == target.buffer.id
                && p.subscripts.iter().zip(&target.subscripts).all(|(a, b)| match (a, b) {
                    (Some(a), Some(b)) => {
                        a.same_terms(b) && (a.constant == b.constant || a.coefficient(&inner) != 0)
                    }
                    _ => false,
                })
                && p.exprs != target.exprs
        };
        // What an iteration of the loop before stored is a chain of its own in each copy that is written out.
        let copies = std::cell::Cell::new(1.0f64);
        let waits = |a: &Access| {
            let p = Place::of(a, self.known, &self.values).filter(|p| behind(p))?;
            let steps = p.steps_from(&target, inner);
            // What a later iteration stores is there as it was before the loop.
            if steps.is_some_and(|n| n < 0) {
                return None;
            }
            let apart = steps.is_some_and(|n| n > 0);
            let all = self.written_out(|v| !(apart && target.mentions(v)));
            copies.set(copies.get().max(all));
            Some(0.0)
        };
        let same = |a: &Access| (!target.mentions(inner) && *a == st.target).then_some(0.0);
        let costs = &self.machine.costs;
        let cycles_of = |steps: f64| steps * self.machine.fma_latency as f64;
        let latency =
            |of: &dyn Fn(&Access) -> Option<f64>| Latency { costs, named: &self.named, of }.of(&st.value);
        let cycles = if let Some(steps) = latency(&waits) {
            (cycles_of(steps) + costs.forward) * copies.get()
        } else if let Some(steps) = latency(&same) {
            // A sum that is written as a store.
            let wait = if self.in_registers(&target) { 0.0 } else { costs.forward };
            (cycles_of(steps) + wait) * self.written_out(|v| !target.mentions(v))
        } else {
            return;
        };
        self.bag.chain = self.bag.chain.max(times * cycles);
        // Rows of such chains, each of which begins when the one before is a little ahead.
        let mut around = self.path.iter().rev().filter(|l| l.kind == Kind::Serial);
        if let (Some(row), Some(outer)) = (around.next(), around.next())
            && target.mentions(outer.var)
        {
            self.bag.row = Some(row.trips);
        }
    }

    /// Places that all iterations of a loop without loops in it store into, without combining.
    pub(super) fn carried_by(&self, body: &Stmt, v: VarId) -> Vec<Place> {
        let mut out: Vec<Place> = Vec::new();
        let mut inner = true;
        visit::walk(body, &mut |s, _| {
            inner &= s.as_loop().is_none_or(|l| {
                matches!(l.exec, Executor::Unrolled | Executor::Vector(_) | Executor::InScan(_))
            });
            let place = s.as_store().and_then(|st| Place::of(&st.target, self.known, &self.values));
            out.extend(place.filter(|p| !p.mentions(v)));
            inner
        });
        if inner { out } else { Vec::new() }
    }

    /// A store of a loop that carries values by several statements: the next iteration waits for what depends on them.
    pub(super) fn carries(&mut self, s: &Stmt, times: f64) {
        let Some(st) = s.as_store().filter(|_| !self.bag.carried.is_empty()) else { return };
        let Some(target) = Place::of(&st.target, self.known, &self.values) else { return };
        let same = |a: &Place, b: &Place| a.buffer.id == b.buffer.id && a.exprs == b.exprs;
        let begins = |a: &Access| {
            let p = Place::of(a, self.known, &self.values)?;
            let held = self.bag.holds.iter().rev().find(|h| same(&h.0, &p));
            held.map_or_else(|| self.bag.carried.iter().any(|h| same(h, &p)).then_some(0.0), |h| h.1)
        };
        let costs = &self.machine.costs;
        let steps = Latency { costs, named: &self.named, of: &begins }.of(&st.value);
        if let (Some(steps), true) = (steps, self.bag.carried.iter().any(|h| same(h, &target))) {
            let copies = self.written_out(|v| !target.mentions(v));
            self.bag.chain = self.bag.chain.max(steps * self.machine.fma_latency as f64 * copies * times);
        }
        self.bag.holds.push((target, steps));
    }
}

/// Chains of dependences from some loads on, each of which has so much latency already.
struct Latency<'a> {
    costs: &'a Costs,
    named: &'a HashMap<VarId, Expr>,
    of: &'a dyn Fn(&Access) -> Option<f64>,
}

/// Latency of an operation on integers, in that of a fused multiply-add.
const INTEGER: f64 = 0.25;

impl Latency<'_> {
    /// That of an expression from the last of these loads on, in that of a fused multiply-add; `None` if there is none in it.
    fn of(&self, e: &Expr) -> Option<f64> {
        self.longest(e, &mut HashMap::new())
    }

    fn longest(&self, e: &Expr, known: &mut HashMap<usize, Option<f64>>) -> Option<f64> {
        if let Some(found) = known.get(&e.address()) {
            return *found;
        }
        let found = match e.kind() {
            ExprKind::Load(a) => (self.of)(a),
            ExprKind::Var(v) => self.named.get(v).and_then(|value| self.longest(value, known)),
            kind => {
                let longest = e.children().iter().filter_map(|c| self.longest(c, known)).reduce(f64::max);
                longest.map(|l| l + self.operation(e, kind))
            }
        };
        known.insert(e.address(), found);
        found
    }

    fn operation(&self, e: &Expr, kind: &ExprKind) -> f64 {
        let float = |e: &Expr| e.ty().is_float();
        match kind {
            ExprKind::Binary(BinOp::Add | BinOp::Sub, ..) if float(e) => self.costs.add_latency,
            // By a power of two is a product.
            ExprKind::Binary(BinOp::Div, _, by) if float(e) && !is_power_of_two(by) => {
                self.costs.division_latency
            }
            ExprKind::Math(MathFn::Sqrt, _) => self.costs.root_latency,
            ExprKind::Binary(BinOp::Min | BinOp::Max, ..) if float(e) => 2.0,
            ExprKind::Binary(
                BinOp::Div | BinOp::FloorDiv | BinOp::FloorMod | BinOp::TruncDiv | BinOp::TruncRem,
                ..,
            ) if !float(e) => 20.0 * INTEGER,
            ExprKind::Call(..) => 5.0,
            ExprKind::Unary(..) | ExprKind::Select(..) => 0.5,
            _ if !float(e) => INTEGER,
            _ => 1.0,
        }
    }
}

fn is_power_of_two(e: &Expr) -> bool {
    let ExprKind::Float(value) = e.kind() else { return false };
    let value = value.get();
    value.is_normal() && value.to_bits().trailing_zeros() >= 52
}
