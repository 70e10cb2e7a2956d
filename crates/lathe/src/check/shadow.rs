//! A function run on numbers with bounds: what each result may be in every evaluation that the evidence admits.
//!
//! Statements of the labels whose order or rounding a step changed are taken in any order and with any rounding; all
//! others as they stand. Where rounding decides which way the program goes, what it writes there is unknown.

use super::approx::{self, Approx, Terms};
use lathe_ir::interp::ArrayValue;
use lathe_ir::scalar::{self, ScalarValue};
use lathe_ir::{
    Access, BinOp, BufId, Expr, ExprKind, Function, Loop, MathFn, Mode, Module, ParamKind, Reduce, ReduceOp,
    Scalar, Stmt, StmtKind, Type, VarId, View, reduce, visit,
};
use std::collections::{HashMap, HashSet};
use std::rc::Rc;

/// A scalar: a float with its bound, exact bits of anything else, or nothing that is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    Float(Approx),
    Bits(u64),
    Unknown,
}

/// The scalars of a value, depth first.
#[derive(Clone, Debug)]
enum Value {
    One(Number),
    Many(Rc<[Number]>),
}

/// Why a run ends early: it takes too long, or has something that is not followed here.
#[derive(Clone, Copy, Debug)]
struct Stopped;

type Done<T> = Result<T, Stopped>;

/// What outputs may be. Elements that are not in it were not computed.
pub struct Computed {
    params: Vec<Option<Buffer>>,
}

impl Computed {
    /// A leaf of an element of an output.
    pub fn leaf(&self, param: usize, element: usize, leaf: usize) -> Number {
        let Some(Some(b)) = self.params.get(param) else { return Number::Unknown };
        if b.lost {
            return Number::Unknown;
        }
        b.cells.get(&(element * b.leaves.len() + leaf)).copied().unwrap_or(Number::Unknown)
    }
}

/// Runs a function without computes; `inexact` says of which labels the order or rounding may be another one, and
/// `limit` how many expressions and statements may be evaluated.
pub fn run(
    module: &Module,
    func: &Function,
    sizes: &HashMap<VarId, i64>,
    args: &[ArrayValue],
    inexact: &dyn Fn(&str) -> bool,
    limit: u64,
) -> Option<Computed> {
    let mut m =
        Machine { module, inexact, vars: HashMap::new(), buffers: HashMap::new(), any: false, left: limit };
    for (id, v) in sizes {
        m.vars.insert(*id, Number::Bits(*v as u64));
    }
    for (p, a) in func.params.iter().zip(args) {
        match &p.kind {
            ParamKind::Scalar(b) => {
                let v = a.leaf(0, 0).map_or(Number::Unknown, known);
                m.vars.insert(b.id, v);
            }
            ParamKind::Array(b) => {
                let extents = a.shape.iter().map(|n| *n as i64).collect();
                let given = (p.mode != Mode::Out).then(|| a.clone());
                m.buffers.insert(b.id, Buffer::new(&b.elem, extents, given));
            }
        }
    }
    m.stmt(&func.body).ok()?;
    let params = func.params.iter().map(|p| match &p.kind {
        ParamKind::Array(b) if p.mode != Mode::In => m.buffers.remove(&b.id),
        _ => None,
    });
    Some(Computed { params: params.collect() })
}

fn known(v: ScalarValue) -> Number {
    if v.ty.is_float() { Number::Float(Approx::exact(v.to_f64())) } else { Number::Bits(v.bits) }
}

/// An array: what it was given, and what was written since.
struct Buffer {
    extents: Vec<i64>,
    leaves: Vec<Scalar>,
    given: Option<ArrayValue>,
    cells: HashMap<usize, Number>,
    /// What was combined into a cell so far, in whatever order.
    terms: HashMap<usize, Terms>,
    /// Something was written to a place that is not known.
    lost: bool,
}

impl Buffer {
    fn new(elem: &Type, extents: Vec<i64>, given: Option<ArrayValue>) -> Buffer {
        let (cells, terms) = (HashMap::new(), HashMap::new());
        Buffer { extents, leaves: elem.leaves(), given, cells, terms, lost: false }
    }

    fn load(&self, at: usize) -> Number {
        if self.lost {
            return nothing(self.leaves[at % self.leaves.len()]);
        }
        if let Some(v) = self.cells.get(&at) {
            return *v;
        }
        let n = self.leaves.len();
        let given = self.given.as_ref().and_then(|g| g.leaf(at / n, at % n));
        given.map_or_else(|| nothing(self.leaves[at % n]), known)
    }

    fn store(&mut self, at: usize, v: Number) {
        self.terms.remove(&at);
        self.cells.insert(at, v);
    }
}

/// What is known of a scalar of which nothing is known.
fn nothing(ty: Scalar) -> Number {
    if ty.is_float() { Number::Float(Approx::unknown()) } else { Number::Unknown }
}

struct Machine<'a> {
    module: &'a Module,
    inexact: &'a dyn Fn(&str) -> bool,
    vars: HashMap<VarId, Number>,
    buffers: HashMap<BufId, Buffer>,
    /// Whether the statement that is run may be rounded in other ways.
    any: bool,
    left: u64,
}

impl Machine<'_> {
    fn step(&mut self) -> Done<()> {
        self.left = self.left.checked_sub(1).ok_or(Stopped)?;
        Ok(())
    }

    fn stmt(&mut self, s: &Stmt) -> Done<()> {
        self.step()?;
        if let Some(all) = s.as_seq() {
            return all.iter().try_for_each(|s| self.stmt(s));
        }
        if let Some((binder, value, body)) = s.as_let() {
            let v = self.scalar(value)?;
            self.vars.insert(binder.id, v);
            return self.stmt(body);
        }
        if let Some((buffer, body)) = s.as_alloc() {
            let mut extents = Vec::new();
            for e in &buffer.extents {
                let Number::Bits(n) = self.scalar(e)? else { return Err(Stopped) };
                extents.push(n as i64);
            }
            self.buffers.insert(buffer.id, Buffer::new(&buffer.elem, extents, None));
            self.stmt(body)?;
            self.buffers.remove(&buffer.id);
            return Ok(());
        }
        if let Some(l) = s.as_loop() {
            return self.iterations(l);
        }
        if let StmtKind::Store(st) = s.kind() {
            self.any = (self.inexact)(st.label.as_str());
            let v = self.eval(&st.value)?;
            self.any = false;
            return self.write(&st.target, &v);
        }
        if let StmtKind::Reduce(r) = s.kind() {
            return self.reduce(r);
        }
        if let StmtKind::If { cond, then, other } = s.kind() {
            return match (self.scalar(cond)?, other) {
                (Number::Bits(0), Some(other)) => self.stmt(other),
                (Number::Bits(0), None) => Ok(()),
                (Number::Bits(_), _) => self.stmt(then),
                (_, other) => {
                    self.lose(then)?;
                    other.iter().try_for_each(|o| self.lose(o))
                }
            };
        }
        if let StmtKind::While { cond, body } = s.kind() {
            return loop {
                match self.scalar(cond)? {
                    Number::Bits(0) => break Ok(()),
                    Number::Bits(_) => self.stmt(body)?,
                    _ => break self.lose(body),
                }
            };
        }
        let checked =
            matches!(s.kind(), StmtKind::Check { .. }) || matches!(s.kind(), StmtKind::Assume { .. });
        // Whatever else there is, is not followed.
        if checked || matches!(s.kind(), StmtKind::Prefetch(_)) { Ok(()) } else { Err(Stopped) }
    }

    fn iterations(&mut self, l: &Loop) -> Done<()> {
        let (Number::Bits(lo), Number::Bits(hi)) = (self.scalar(&l.lo)?, self.scalar(&l.hi)?) else {
            return self.lose(&l.body);
        };
        let (mut i, hi) = (lo as i64, hi as i64);
        while i < hi {
            self.vars.insert(l.binder.id, Number::Bits(i as u64));
            self.stmt(&l.body)?;
            match i.checked_add(l.step) {
                Some(next) => i = next,
                None => break,
            }
        }
        Ok(())
    }

    /// Nothing is known any more of what a statement writes.
    fn lose(&mut self, s: &Stmt) -> Done<()> {
        let mut written = HashSet::new();
        visit::walk(s, &mut |s, _| {
            written.extend(s.written().filter_map(View::buffer));
            true
        });
        for b in written {
            if let Some(b) = self.buffers.get_mut(&b) {
                b.lost = true;
            }
        }
        Ok(())
    }

    fn write(&mut self, target: &Access, v: &Value) -> Done<()> {
        let place = self.place(target)?;
        let Some(b) = target.view.buffer().and_then(|b| self.buffers.get_mut(&b)) else {
            return Err(Stopped);
        };
        match place {
            Some(at) => numbers(v).iter().enumerate().for_each(|(k, n)| b.store(at + k, *n)),
            None => b.lost = true,
        }
        Ok(())
    }

    fn reduce(&mut self, r: &Reduce) -> Done<()> {
        self.any = (self.inexact)(r.label.as_str());
        let values = r.values.iter().map(|v| self.eval(v)).collect::<Done<Vec<Value>>>()?;
        let (any, added) = (self.any, r.op == ReduceOp::Sum);
        if any
            && let ([target], [value]) = (&r.targets[..], &values[..])
            && let Some(part) = target.elem.scalar().or(target.elem.complex_part().filter(|_| added))
            && let Some(parts) = floats(value)
            && matches!(r.op, ReduceOp::Sum | ReduceOp::Prod)
        {
            self.any = false;
            let Some(at) = self.place(target)? else {
                return self.write(target, &map(value, |_| Number::Unknown));
            };
            let Some(b) = target.view.buffer().and_then(|b| self.buffers.get_mut(&b)) else {
                return Err(Stopped);
            };
            // Each part of a complex number is a sum of its own.
            for (v, at) in parts.into_iter().zip(at..) {
                let Number::Float(old) = b.load(at) else { return Err(Stopped) };
                let start = || {
                    let mut t = if r.op == ReduceOp::Sum { Terms::sum() } else { Terms::product() };
                    t.add(old);
                    t
                };
                // What was multiplied before is one term of a sum, and the other way round.
                let before = b.terms.remove(&at).filter(|t| t.is_product() == (r.op == ReduceOp::Prod));
                let mut terms = before.unwrap_or_else(start);
                terms.add(v);
                let result = terms.result(part).ok_or(Stopped)?;
                b.cells.insert(at, Number::Float(result));
                b.terms.insert(at, terms);
            }
            return Ok(());
        }
        let mut old = Vec::new();
        for t in &r.targets {
            old.push(self.load(t)?);
        }
        let mut new = self.combine(&r.op, &r.targets, &old, &values)?;
        self.any = false;
        let complex = r.targets.iter().any(|t| t.elem.complex_part().is_some());
        if any && (matches!(r.op, ReduceOp::User(_)) || complex && !added) {
            // What is declared of an operator is not expected of it where a number is none.
            let nan = |n: &Number| matches!(n, Number::Float(a) if a.value.is_nan());
            let lost = old.iter().chain(&values).any(|v| numbers(v).iter().any(nan));
            // Its rounding in another order is estimated, not bounded: so much more than in this one.
            new.iter_mut().for_each(|v| *v = map(v, if lost { forget } else { widen }));
        }
        r.targets.iter().zip(&new).try_for_each(|(t, v)| self.write(t, v))
    }

    /// Two values per target combined by an operator.
    fn combine(&mut self, op: &ReduceOp, targets: &[Access], a: &[Value], b: &[Value]) -> Done<Vec<Value>> {
        // As expressions over variables, which stand for the scalars of both.
        let mut next = u32::MAX;
        let mut stand_in = |values: &[Value]| -> Vec<Expr> {
            let mut of = |ty: &Type, numbers: &mut std::slice::Iter<Number>| {
                leaf_vars(ty, numbers, &mut self.vars, &mut next)
            };
            targets.iter().zip(values).map(|(t, v)| of(&t.elem, &mut numbers(v).iter())).collect()
        };
        let (x, y) = (stand_in(a), stand_in(b));
        let combined = reduce::combine(self.module, op, &x, &y).ok_or(Stopped)?;
        combined.iter().map(|e| self.eval(e)).collect()
    }

    /// Where the scalars of an element begin; `None` if that is not known or outside.
    fn place(&mut self, a: &Access) -> Done<Option<usize>> {
        let mut index = Vec::new();
        for i in &a.indices {
            match self.scalar(i)? {
                Number::Bits(v) => index.push(v as i64),
                _ => return Ok(None),
            }
        }
        let Some((buffer, index)) = self.resolve(&a.view, index)? else { return Ok(None) };
        let Some(b) = self.buffers.get(&buffer) else { return Err(Stopped) };
        if index.len() != b.extents.len() {
            return Err(Stopped);
        }
        let mut at = 0i64;
        for (i, n) in index.iter().zip(&b.extents) {
            if !(0..*n).contains(i) {
                return Ok(None);
            }
            at = at * n + i;
        }
        Ok(Some(at as usize * b.leaves.len()))
    }

    /// Through slices and reshapes to a buffer.
    fn resolve(&mut self, view: &View, index: Vec<i64>) -> Done<Option<(BufId, Vec<i64>)>> {
        match view {
            View::Buffer(b) => Ok(Some((*b, index))),
            View::Slice { base, offsets, steps } => {
                let mut inner = Vec::new();
                for ((offset, step), i) in offsets.iter().zip(steps).zip(index) {
                    let Number::Bits(o) = self.scalar(offset)? else { return Ok(None) };
                    inner.push((o as i64).wrapping_add(i.wrapping_mul(*step)));
                }
                self.resolve(base, inner)
            }
            View::Reshape { base, extents } => {
                let mut at = 0i64;
                for (e, i) in extents.iter().zip(index) {
                    let Number::Bits(n) = self.scalar(e)? else { return Ok(None) };
                    if !(0..n as i64).contains(&i) {
                        return Ok(None);
                    }
                    at = at.wrapping_mul(n as i64).wrapping_add(i);
                }
                self.resolve(base, vec![at])
            }
            View::Global(_) | View::Reinterpret { .. } | View::Deref { .. } => Err(Stopped),
        }
    }

    fn load(&mut self, a: &Access) -> Done<Value> {
        let place = self.place(a)?;
        let leaves = a.elem.leaves();
        let b = a.view.buffer().and_then(|b| self.buffers.get(&b)).ok_or(Stopped)?;
        let one = |k: usize| place.map_or_else(|| nothing(leaves[k]), |at| b.load(at + k));
        Ok(if leaves.len() == 1 && a.elem.scalar().is_some() {
            Value::One(one(0))
        } else {
            Value::Many((0..leaves.len()).map(one).collect())
        })
    }

    fn scalar(&mut self, e: &Expr) -> Done<Number> {
        match self.eval(e)? {
            Value::One(n) => Ok(n),
            Value::Many(_) => Err(Stopped),
        }
    }

    fn eval(&mut self, e: &Expr) -> Done<Value> {
        self.step()?;
        Ok(Value::One(match e.kind() {
            ExprKind::Bool(v) => Number::Bits(u64::from(*v)),
            ExprKind::Int(v) => Number::Bits(*v as u64),
            ExprKind::Float(v) => {
                let ty = e.ty().scalar().ok_or(Stopped)?;
                Number::Float(Approx::exact(scalar::to_f64(ty, scalar::of_f64(ty, v.get()))))
            }
            ExprKind::Var(v) => *self.vars.get(v).ok_or(Stopped)?,
            ExprKind::Unary(op, a) => {
                let ty = a.ty().scalar().ok_or(Stopped)?;
                match self.scalar(a)? {
                    Number::Float(v) => approx::unary(*op, v).map_or(Number::Unknown, Number::Float),
                    Number::Bits(v) => scalar::unary(*op, ty, v).map_or(Number::Unknown, Number::Bits),
                    Number::Unknown => Number::Unknown,
                }
            }
            ExprKind::Binary(op, a, b) => {
                let ty = a.ty().scalar().ok_or(Stopped)?;
                let (x, y) = (self.scalar(a)?, self.scalar(b)?);
                self.binary(*op, ty, x, y)
            }
            ExprKind::Select(c, a, b) => {
                return match self.scalar(c)? {
                    Number::Bits(0) => self.eval(b),
                    Number::Bits(_) => self.eval(a),
                    _ => {
                        let (a, b) = (self.eval(a)?, self.eval(b)?);
                        let both = numbers(&a).iter().zip(numbers(&b)).map(|(a, b)| either(*a, *b));
                        let both: Vec<Number> = both.collect();
                        Ok(match a {
                            Value::One(_) => Value::One(both[0]),
                            Value::Many(_) => Value::Many(both.into()),
                        })
                    }
                };
            }
            ExprKind::Cast(a) => {
                let (from, to) = (a.ty().scalar().ok_or(Stopped)?, e.ty().scalar().ok_or(Stopped)?);
                cast(from, to, self.scalar(a)?)
            }
            ExprKind::Bitcast(a) => {
                let (from, to) = (a.ty().scalar().ok_or(Stopped)?, e.ty().scalar().ok_or(Stopped)?);
                let bits = match self.scalar(a)? {
                    Number::Bits(v) => Some(v),
                    Number::Float(v) if v == Approx::exact(v.value) => Some(scalar::of_f64(from, v.value)),
                    _ => None,
                };
                let bits = bits.and_then(|b| scalar::bitcast(from, to, b).ok());
                bits.map_or_else(|| nothing(to), |bits| known(ScalarValue { ty: to, bits }))
            }
            ExprKind::Math(f, args) => {
                let ty = e.ty().scalar().ok_or(Stopped)?;
                let values = args.iter().map(|a| self.scalar(a)).collect::<Done<Vec<Number>>>()?;
                let floats: Option<Vec<Approx>> =
                    values.iter().map(|v| if let Number::Float(v) = v { Some(*v) } else { None }).collect();
                match (floats, &values[..]) {
                    (Some(v), _) => {
                        let r = approx::math(*f, ty, &v, self.any);
                        Number::Float(r.unwrap_or(Approx::unknown()))
                    }
                    (None, [Number::Bits(v)]) if *f == MathFn::Abs => {
                        scalar::exact_math(*f, ty, *v).map_or(Number::Unknown, Number::Bits)
                    }
                    _ => nothing(ty),
                }
            }
            ExprKind::Load(a) => return self.load(a),
            ExprKind::Address(_) => return Err(Stopped),
            ExprKind::Aggregate(parts) => {
                let mut all = Vec::new();
                for p in parts {
                    all.extend_from_slice(numbers(&self.eval(p)?));
                }
                return Ok(Value::Many(all.into()));
            }
            ExprKind::Field(a, n) => {
                let fields = a.ty().fields();
                let v = self.eval(a)?;
                let before: usize = fields[..*n as usize].iter().map(|t| t.leaves().len()).sum();
                let own = &numbers(&v)[before..before + fields[*n as usize].leaves().len()];
                return Ok(if e.ty().scalar().is_some() {
                    Value::One(own[0])
                } else {
                    Value::Many(own.into())
                });
            }
            ExprKind::Call(name, args) => {
                let f = self.module.functions.get(name).ok_or(Stopped)?;
                let values = args.iter().map(|a| self.scalar(a)).collect::<Done<Vec<Number>>>()?;
                let mut own = HashMap::new();
                for (p, v) in f.params.iter().zip(values) {
                    let ParamKind::Scalar(b) = &p.kind else { return Err(Stopped) };
                    own.insert(b.id, v);
                }
                let around = std::mem::replace(&mut self.vars, own);
                let r = f.result.as_ref().ok_or(Stopped).and_then(|r| self.eval(r));
                self.vars = around;
                return r;
            }
        }))
    }

    fn binary(&self, op: BinOp, ty: Scalar, x: Number, y: Number) -> Number {
        match (x, y) {
            (Number::Float(x), Number::Float(y)) if op.is_comparison() => {
                approx::compare(op, x, y).map_or(Number::Unknown, |v| Number::Bits(u64::from(v)))
            }
            (Number::Float(x), Number::Float(y)) => {
                Number::Float(approx::binary(op, ty, x, y, self.any).unwrap_or(Approx::unknown()))
            }
            (Number::Bits(x), Number::Bits(y)) => {
                scalar::binary(op, ty, x, y).map_or(Number::Unknown, Number::Bits)
            }
            // One operand may decide alone.
            (Number::Bits(v), _) | (_, Number::Bits(v)) if ty == Scalar::Bool => match (op, v) {
                (BinOp::And, 0) => Number::Bits(0),
                (BinOp::Or, 1) => Number::Bits(1),
                _ => Number::Unknown,
            },
            _ if ty.is_float() && !op.is_comparison() => nothing(ty),
            _ => Number::Unknown,
        }
    }
}

/// The numbers of a value that are floats, all of them.
fn floats(v: &Value) -> Option<Vec<Approx>> {
    let one = |n: &Number| if let Number::Float(v) = n { Some(*v) } else { None };
    numbers(v).iter().map(one).collect()
}

fn numbers(v: &Value) -> &[Number] {
    match v {
        Value::One(n) => std::slice::from_ref(n),
        Value::Many(all) => all,
    }
}

/// An expression that is made of variables with these numbers.
fn leaf_vars(
    ty: &Type,
    from: &mut std::slice::Iter<Number>,
    vars: &mut HashMap<VarId, Number>,
    next: &mut u32,
) -> Expr {
    match ty.scalar() {
        Some(s) => {
            let id = VarId(*next);
            *next -= 1;
            vars.insert(id, from.next().copied().unwrap_or(Number::Unknown));
            lathe_ir::build::var_id(id, s)
        }
        None => {
            let parts = ty.fields().iter().map(|t| leaf_vars(t, from, vars, next)).collect();
            lathe_ir::build::aggregate(ty.clone(), parts)
        }
    }
}

fn either(a: Number, b: Number) -> Number {
    match (a, b) {
        (Number::Float(a), Number::Float(b)) => Number::Float(Approx::either(a, b)),
        (a, b) if a == b => a,
        _ => Number::Unknown,
    }
}

/// What an operator of users may round in another order: this many times what it rounds in the program's.
const ORDERS: f64 = 8.0;

fn widen(n: &Number) -> Number {
    match n {
        Number::Float(a) if !a.same => Number::Float(Approx { error: a.error * ORDERS, ..*a }),
        other => *other,
    }
}

fn forget(n: &Number) -> Number {
    if matches!(n, Number::Float(_)) { Number::Float(Approx::unknown()) } else { Number::Unknown }
}

fn map(v: &Value, f: fn(&Number) -> Number) -> Value {
    match v {
        Value::One(n) => Value::One(f(n)),
        Value::Many(all) => Value::Many(all.iter().map(f).collect()),
    }
}

fn cast(from: Scalar, to: Scalar, v: Number) -> Number {
    match v {
        Number::Float(v) if to.is_float() => {
            Number::Float(approx::to_float(from, to, v).unwrap_or(Approx::unknown()))
        }
        Number::Float(v) => {
            // The same number wherever it is in its range.
            let ends = [v.value - v.error, v.value + v.error];
            let bits = ends.map(|e| scalar::cast(Scalar::F64, to, e.to_bits()).ok());
            match bits {
                [Some(a), Some(b)] if a == b && v.error.is_finite() => Number::Bits(a),
                _ => Number::Unknown,
            }
        }
        Number::Bits(b) => {
            scalar::cast(from, to, b).map_or_else(|_| nothing(to), |bits| known(ScalarValue { ty: to, bits }))
        }
        Number::Unknown => nothing(to),
    }
}

#[cfg(test)]
mod tests {
    use crate::Program;
    use lathe_ir::interp::{self, ArrayValue};
    use lathe_ir::scalar::ScalarValue;

    /// Updates of old values by different operators, all in any order: what the program gives lies in the middle, and
    /// the bound is that of its roundings.
    #[test]
    fn old_values_are_terms() {
        for (body, units) in [
            ("c[i] *= b; c[i] += a[k] * a[k]", 4.0),
            ("c[i] += a[k]; c[i] *= b", 6.0),
            ("c[i] += a[k]; c[i] += a[k] * a[k]; c[i] *= b; c[i] *= a[0]; c[i] += a[k]", 16.0),
        ] {
            let text = format!("kernel k(b: f64, a: f64[K], c: inout f64[N]) {{ {body} }}");
            let p = Program::from_text("k.lathe", &text).unwrap_or_else(|f| panic!("{text}: {f}"));
            let func = p.kernel(None).unwrap();
            let given = [("K".to_string(), 2), ("N".to_string(), 3)];
            let given = crate::Given { sizes: given.into(), ..Default::default() };
            let data = crate::data::make(func, &given).unwrap();
            let args = crate::convert::to_values(&data.arrays).unwrap();
            let mut want = args.clone();
            interp::run(&p.lang.module, func, &mut want, &interp::Options::default()).unwrap();
            let named = ["c".to_string()];
            let bounds =
                crate::check::bounds(&p.lang.module, func, &data.sizes, &args, &named, 1_000_000).unwrap();
            let number = |a: &ArrayValue, at| a.leaf(at, 0).map(ScalarValue::to_f64).unwrap();
            for at in 0..3 {
                let super::Number::Float(a) = bounds.leaf(2, at, 0) else { panic!("{text}") };
                let want = number(&want[2], at);
                assert!((a.value - want).abs() <= a.error, "{text}: {a:?}, {want}");
                assert!(a.error >= f64::EPSILON / 2.0 * want.abs(), "{text}: {a:?}");
                assert!(a.error <= units * f64::EPSILON * (4.0 + want.abs()), "{text}: {a:?}");
            }
        }
    }
}
