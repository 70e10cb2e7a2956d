//! Random modules of every kind of node, mostly well formed, from a seed.

use lathe_diagnostics::Places;
use lathe_ir::ids::Label;
use lathe_ir::stmt::{
    Arg, Atomic, AtomicOp, Combine, Compute, Dim, Effects, Executor, Loop, MemoryOrder, Reduce, Store,
};
use lathe_ir::summary::{Base, Summary, Touch, TouchMode};
use lathe_ir::*;
use std::sync::Arc;

/// SplitMix64.
pub struct Rng(pub u64);

impl Rng {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn chance(&mut self, percent: usize) -> bool {
        self.below(100) < percent
    }

    pub fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.below(from.len())].clone()
    }
}

const NAMES: &[&str] = &[
    "i",
    "i.o",
    "i.o.i",
    "A",
    "C.t1",
    "copy(A).i",
    "for",
    "sum",
    "f32",
    "",
    "a`b\n\\",
    "x%3",
    "3",
    "ü",
    "slice",
    "next",
    "stage",
    "reduce",
    "_",
    "nan",
];

#[derive(Clone)]
struct Buf {
    id: BufId,
    elem: Type,
    rank: usize,
}

pub struct Gen {
    pub rng: Rng,
    next: u32,
    vars: Vec<Binder>,
    bufs: Vec<Buf>,
    structs: Vec<Arc<StructType>>,
    /// Expressions that were made before, to be shared.
    pool: Vec<Expr>,
}

pub fn module(seed: u64) -> Module {
    let rng = Rng(seed);
    let mut g =
        Gen { rng, next: 0, vars: Vec::new(), bufs: Vec::new(), structs: Vec::new(), pool: Vec::new() };
    let mut m = Module::default();
    for name in ["P", "f32", "Q", "exp", "in"] {
        let n = g.rng.below(4);
        let fields =
            (0..n).map(|i| (Name::from(format!("{}{i}", ["v", "x.y", "let", ""][i])), g.ty(2))).collect();
        let s = Arc::new(StructType { name: name.into(), fields });
        g.structs.push(s.clone());
        m.structs.insert(name.into(), s);
    }
    for name in ["better", "sum", "a b"] {
        g.restart();
        let ty = g.ty(2);
        let (a, b) = (g.buf_id(), g.buf_id());
        let identity = if g.rng.chance(50) { Some(g.expr(&ty, 3)) } else { None };
        g.bufs = [a, b].into_iter().map(|id| Buf { id, elem: ty.clone(), rank: 0 }).collect();
        let op = CombineOp {
            name: name.into(),
            body: g.expr(&ty, 4),
            ty,
            a,
            b,
            associative: g.rng.chance(50),
            commutative: g.rng.chance(50),
            identity,
        };
        m.ops.insert(name.into(), op);
    }
    for name in ["x", "global"] {
        let global = g.global(name);
        m.globals.insert(name.into(), global);
    }
    for name in ["erf", "a.b", "func"] {
        let external = g.external(name);
        m.externals.insert(name.into(), external);
    }
    for name in ["f", "g.1", "while"] {
        let f = g.function(name);
        m.functions.insert(name.into(), f);
    }
    m
}

impl Gen {
    fn restart(&mut self) {
        self.next = 0;
        self.vars.clear();
        self.bufs.clear();
        self.pool.clear();
    }

    fn id(&mut self) -> u32 {
        if self.rng.chance(30) {
            self.next += self.rng.below(5) as u32;
        }
        self.next += 1;
        self.next - 1
    }

    fn buf_id(&mut self) -> BufId {
        BufId(self.id())
    }

    fn name(&mut self) -> Name {
        Name::from(self.rng.pick(NAMES))
    }

    fn scalar(&mut self) -> Scalar {
        self.rng.pick(&Scalar::ALL)
    }

    fn ty(&mut self, depth: usize) -> Type {
        match self.rng.below(if depth == 0 { 4 } else { 9 }) {
            0..=4 => self.scalar().into(),
            5 => {
                let n = self.rng.below(3);
                Type::Tuple((0..n).map(|_| self.ty(depth - 1)).collect::<Vec<_>>().into())
            }
            6 if !self.structs.is_empty() => Type::Struct(self.rng.pick(&self.structs)),
            7 => Type::Array(Arc::new(self.ty(depth - 1)), self.rng.below(4) as u32),
            _ => Type::Vector(self.scalar(), 1 + self.rng.below(4) as u32),
        }
    }

    fn binder(&mut self) -> Binder {
        let ty = if self.rng.chance(70) { Scalar::Index } else { self.scalar() };
        Binder { id: VarId(self.id()), name: self.name(), ty }
    }

    fn exprs(&mut self, n: usize, depth: usize) -> Vec<Expr> {
        (0..n).map(|_| self.expr(&Type::INDEX, depth)).collect()
    }

    fn constant(&mut self, s: Scalar) -> Expr {
        let bits = if self.rng.chance(50) { self.rng.next() } else { self.rng.below(20) as u64 };
        if s == Scalar::Bool {
            return build::boolean(bits & 1 == 1);
        }
        if s.is_int() {
            return build::int(s, bits as i64);
        }
        let v = match self.rng.below(6) {
            0 => self.rng.pick(&[f64::INFINITY, f64::NEG_INFINITY, f64::NAN, -0.0, 0.0, f64::MIN_POSITIVE]),
            1 => f64::from_bits(bits),
            2 => f64::from(f32::from_bits(bits as u32)),
            _ => bits as f64 / 8.0,
        };
        if v.is_nan() {
            return Expr::new(ExprKind::Float(v.into()), s.into());
        }
        build::float(s, v)
    }

    fn var(&mut self, ty: &Type) -> Option<Expr> {
        let wanted: Vec<Binder> = self.vars.iter().filter(|b| Type::Scalar(b.ty) == *ty).cloned().collect();
        if self.rng.chance(3) {
            let id = VarId(self.rng.below(50) as u32);
            return ty.scalar().map(|s| build::var_id(id, s));
        }
        if wanted.is_empty() { None } else { Some(build::var(&self.rng.pick(&wanted))) }
    }

    /// An expression of a type; now and then one that was made before, and now and then ill-typed.
    fn expr(&mut self, ty: &Type, depth: usize) -> Expr {
        if self.rng.chance(15) {
            let old: Vec<Expr> = self.pool.iter().filter(|e| e.ty() == ty).cloned().collect();
            if !old.is_empty() {
                return self.rng.pick(&old);
            }
        }
        let e = self.fresh_expr(ty, depth);
        if self.pool.len() < 200 {
            self.pool.push(e.clone());
        }
        e
    }

    fn fresh_expr(&mut self, ty: &Type, depth: usize) -> Expr {
        let new = |kind| Expr::new(kind, ty.clone());
        if depth == 0 || self.rng.chance(10) {
            if let Some(v) = self.var(ty) {
                return v;
            }
            return match ty.scalar() {
                Some(s) => self.constant(s),
                None => {
                    let parts = ty.fields().iter().map(|t| self.expr(t, 0)).collect();
                    new(ExprKind::Aggregate(parts))
                }
            };
        }
        let d = depth - 1;
        let any = if self.rng.chance(5) { self.ty(1) } else { ty.clone() };
        if self.rng.chance(2) {
            let address = build::address(self.access(d));
            return if *ty == *address.ty() { address } else { new(address.kind().clone()) };
        }
        match self.rng.below(14) {
            0 => new(ExprKind::Unary(self.rng.pick(&[UnOp::Neg, UnOp::Not]), self.expr(&any, d))),
            1..=4 => {
                let op = self.rng.pick(&BinOp::ALL);
                let from: Type = if op.is_comparison() && ty.is_bool() { self.scalar().into() } else { any };
                new(ExprKind::Binary(op, self.expr(&from, d), self.expr(&from, d)))
            }
            5 => new(ExprKind::Select(self.expr(&Type::BOOL, d), self.expr(&any, d), self.expr(ty, d))),
            6 => {
                let from = self.scalar().into();
                new(ExprKind::Cast(self.expr(&from, d)))
            }
            7 => {
                let from = self.scalar().into();
                new(ExprKind::Bitcast(self.expr(&from, d)))
            }
            8 => {
                let f = self.rng.pick(&MathFn::ALL);
                let n = if self.rng.chance(95) { f.arity() } else { self.rng.below(3) };
                new(ExprKind::Math(f, (0..n).map(|_| self.expr(&any, d)).collect()))
            }
            9 | 10 => {
                let mut a = self.access(d);
                if self.rng.chance(90) {
                    a.elem = ty.clone();
                }
                new(ExprKind::Load(a))
            }
            11 => {
                let whole = Type::Tuple(vec![self.ty(1), ty.clone()].into());
                new(ExprKind::Field(self.expr(&whole, d), 1))
            }
            12 => {
                let structs = self.structs.clone();
                let found = structs.into_iter().find_map(|s| {
                    let i = s.fields.iter().position(|f| f.1 == *ty)?;
                    Some((Type::Struct(s), i as u32))
                });
                match found {
                    Some((t, i)) => new(ExprKind::Field(self.expr(&t, d), i)),
                    None => self.fresh_expr(ty, 0),
                }
            }
            _ => {
                let n = self.rng.below(3);
                new(ExprKind::Call(self.name(), self.exprs(n, d)))
            }
        }
    }

    fn view(&mut self, depth: usize) -> (View, usize, Type) {
        if depth > 0 && self.rng.chance(25) {
            let d = depth - 1;
            let (base, rank, elem) = self.view(d);
            let base = Box::new(base);
            return match self.rng.below(4) {
                0 => {
                    let offsets = self.exprs(rank, d);
                    let steps = (0..rank).map(|_| self.rng.below(7) as i64 - 3).collect();
                    (View::Slice { base, offsets, steps }, rank, elem)
                }
                1 => {
                    let n = self.rng.below(4);
                    (View::Reshape { base, extents: self.exprs(n, d) }, n, elem)
                }
                2 => {
                    let elem = self.ty(1);
                    (
                        View::Reinterpret { base, elem: elem.clone(), align: 1 << self.rng.below(8) },
                        rank,
                        elem,
                    )
                }
                _ => {
                    let pointer = Box::new(self.expr(&Type::I64, d));
                    (View::Deref { pointer, class: self.name() }, 1, self.ty(1))
                }
            };
        }
        if self.rng.chance(3) {
            return (View::Global(self.name()), 1, self.ty(1));
        }
        if self.bufs.is_empty() || self.rng.chance(3) {
            return (View::Buffer(BufId(self.rng.below(60) as u32)), 1, self.ty(1));
        }
        let b = self.rng.pick(&self.bufs);
        (View::Buffer(b.id), b.rank, b.elem)
    }

    fn access(&mut self, depth: usize) -> Access {
        let (view, rank, elem) = self.view(depth);
        let status = match self.rng.below(4) {
            0 => Status::Unproved,
            1 => Status::Proved,
            2 => Status::Checked,
            _ => Status::Assumed(self.name()),
        };
        Access { view, indices: self.exprs(rank, depth), elem, status, places: Places::none() }
    }

    fn op(&mut self) -> ReduceOp {
        let names = ["sum", "prod", "min", "max", "all", "any", "argmin", "argmax", "better", "a b"];
        match self.rng.below(11) {
            // An operator of the user that is named like one of the language.
            10 => ReduceOp::User("sum".into()),
            i => ReduceOp::from_name(names[i]),
        }
    }

    fn layout(&mut self) -> Layout {
        let n = if self.rng.chance(70) { 0 } else { self.rng.below(4) };
        let steps = (0..n)
            .map(|_| {
                let (dim, by) = (self.rng.below(4), self.rng.below(4));
                match self.rng.below(5) {
                    0 => LayoutStep::Permute((0..self.rng.below(4)).rev().collect()),
                    1 => LayoutStep::Tile { dim, size: self.rng.next() },
                    2 => LayoutStep::Pad { dim, multiple: 8 },
                    3 => LayoutStep::Swizzle { dim, by, modulus: 4 },
                    _ => LayoutStep::Distribute { dim, over: self.name() },
                }
            })
            .collect();
        Layout { steps }
    }

    fn buffer(&mut self) -> Arc<Buffer> {
        let rank = self.rng.below(3);
        Arc::new(Buffer {
            id: self.buf_id(),
            name: self.name(),
            elem: self.ty(2),
            extents: self.exprs(rank, 2),
            space: self.rng.pick(&Space::ALL),
            layout: self.layout(),
        })
    }

    fn enter(&mut self, b: &Buffer) {
        self.bufs.push(Buf { id: b.id, elem: b.elem.clone(), rank: b.extents.len() });
    }

    fn global(&mut self, name: &str) -> Global {
        self.restart();
        let elem = self.ty(2);
        let extents = (0..self.rng.below(3)).map(|_| self.rng.below(5) as u64).collect();
        let init = match self.rng.below(3) {
            0 => Init::Undefined,
            1 => Init::Zero,
            _ => Init::Values((0..self.rng.below(4)).map(|_| self.expr(&elem, 1)).collect()),
        };
        let alias = if self.rng.chance(30) { Some(self.name()) } else { None };
        Global { name: name.into(), elem, extents, space: self.rng.pick(&Space::ALL), init, alias }
    }

    fn external(&mut self, name: &str) -> External {
        let (sizes, params) = self.signature();
        let result = if self.rng.chance(40) { Some(self.ty(2)) } else { None };
        let summary = self.summary(&params);
        let meaning = if self.rng.chance(40) { Some(self.name()) } else { None };
        External { name: name.into(), sizes, params, result, summary, meaning }
    }

    fn summary(&mut self, params: &[Param]) -> Summary {
        let arrays: Vec<BufId> = params.iter().filter_map(Param::array).map(|b| b.id).collect();
        let touch = |g: &mut Gen| {
            let base = match g.rng.below(4) {
                0 => Base::Global(g.name()),
                1 => Base::Class(g.name()),
                _ if arrays.is_empty() => Base::Class(g.name()),
                _ => Base::Param(g.rng.pick(&arrays)),
            };
            let mode = match g.rng.below(3) {
                0 => TouchMode::Read,
                1 => TouchMode::Write,
                _ => TouchMode::Reduce(g.op()),
            };
            let range = |g: &mut Gen| (g.expr(&Type::INDEX, 2), g.expr(&Type::INDEX, 2));
            let n = g.rng.below(3);
            let region = if g.rng.chance(50) { Some((0..n).map(|_| range(g)).collect()) } else { None };
            Touch { base, mode, region }
        };
        let touches = (0..self.rng.below(3)).map(|_| touch(self)).collect();
        let mut effects = Effects::NONE;
        for (one, _) in Effects::NAMES {
            if self.rng.chance(30) {
                effects = effects.and(one);
            }
        }
        Summary { touches, effects }
    }

    /// Sizes and parameters, which are in scope afterwards.
    fn signature(&mut self) -> (Vec<Binder>, Vec<Param>) {
        self.restart();
        let sizes: Vec<Binder> = (0..self.rng.below(3)).map(|_| self.binder()).collect();
        self.vars.extend(sizes.iter().cloned());
        let mut params = Vec::new();
        for _ in 0..self.rng.below(4) {
            let mode = self.rng.pick(&[Mode::In, Mode::Out, Mode::InOut]);
            let alias = if self.rng.chance(20) { Some(self.name()) } else { None };
            let kind = if self.rng.chance(30) {
                let b = self.binder();
                self.vars.push(b.clone());
                ParamKind::Scalar(b)
            } else {
                let b = self.buffer();
                self.enter(&b);
                ParamKind::Array(b)
            };
            params.push(Param { kind, mode, alias });
        }
        (sizes, params)
    }

    fn function(&mut self, name: &str) -> Function {
        let (sizes, params) = self.signature();
        let summary = if self.rng.chance(30) { Some(self.summary(&params)) } else { None };
        let ty = self.ty(2);
        let result = if self.rng.chance(20) { Some(self.expr(&ty, 5)) } else { None };
        let body = self.stmt(5);
        let stage = self.rng.pick(&[Stage::Plain, Stage::Scheduled, Stage::Machine]);
        let next_id = self.next + self.rng.below(2) as u32;
        Function { name: name.into(), sizes, params, result, body, stage, summary, next_id }
    }

    /// Runs something in a scope of its own.
    fn scoped<T>(&mut self, f: impl FnOnce(&mut Gen) -> T) -> T {
        let (vars, bufs) = (self.vars.len(), self.bufs.len());
        let out = f(self);
        self.vars.truncate(vars);
        self.bufs.truncate(bufs);
        out
    }

    fn bound_stmt(&mut self, b: &Binder, depth: usize) -> Stmt {
        self.scoped(|g| {
            g.vars.push(b.clone());
            g.stmt(depth)
        })
    }

    fn label(&mut self) -> Label {
        Label::new(self.name())
    }

    fn instance(&mut self) -> Vec<Expr> {
        let n = self.rng.below(3);
        self.exprs(n, 2)
    }

    fn stmt(&mut self, depth: usize) -> Stmt {
        let d = depth.saturating_sub(1);
        let choice = if depth == 0 { 9 + self.rng.below(8) } else { self.rng.below(17) };
        Stmt::of(match choice {
            0 | 1 => {
                let n = self.rng.below(4);
                self.scoped(|g| StmtKind::Seq((0..n).map(|_| g.stmt(d)).collect()))
            }
            2 => {
                let binder = self.binder();
                let ty = binder.ty.into();
                let value = self.expr(&ty, 4);
                StmtKind::Let { body: self.bound_stmt(&binder, d), binder, value }
            }
            3 | 4 => {
                let binder = self.binder();
                let (lo, hi) = (self.expr(&binder.ty.into(), 2), self.expr(&binder.ty.into(), 2));
                let exec = match self.rng.below(9) {
                    0 => Executor::Unrolled,
                    1 => Executor::Vector(self.rng.below(17) as u32),
                    2 => Executor::Cpu,
                    3 => Executor::Team,
                    4 => Executor::Device,
                    5 => Executor::Node,
                    6 => Executor::Level(self.name()),
                    _ => Executor::Serial,
                };
                let step = if self.rng.chance(80) { 1 } else { self.rng.next() as i64 };
                let body = self.bound_stmt(&binder, d);
                StmtKind::Loop(Loop { binder, lo, hi, step, exec, body })
            }
            5 => {
                let cond = self.expr(&Type::BOOL, 3);
                let then = self.scoped(|g| g.stmt(d));
                let other = if self.rng.chance(50) { Some(self.scoped(|g| g.stmt(d))) } else { None };
                StmtKind::If { cond, then, other }
            }
            6 => StmtKind::While { cond: self.expr(&Type::BOOL, 3), body: self.scoped(|g| g.stmt(d)) },
            7 => {
                let buffer = self.buffer();
                let body = self.scoped(|g| {
                    g.enter(&buffer);
                    g.stmt(d)
                });
                StmtKind::Alloc { buffer, body }
            }
            8 if self.rng.chance(50) => {
                let token = self.binder();
                StmtKind::Token { body: self.bound_stmt(&token, d), token }
            }
            8 => StmtKind::Async { token: self.known_var(), body: self.scoped(|g| g.stmt(d)) },
            9 => {
                let target = self.access(3);
                let value = self.expr(&target.elem.clone(), 6);
                let (label, instance) = (self.label(), self.instance());
                StmtKind::Store(Store { label, instance, target, value, nontemporal: self.rng.chance(30) })
            }
            10 => {
                let (label, instance, op) = (self.label(), self.instance(), self.op());
                let (targets, values) = self.updates();
                let (licence, contract) = (self.rng.chance(50), self.rng.chance(50));
                StmtKind::Reduce(Reduce { label, instance, op, targets, values, licence, contract })
            }
            11 => {
                use MemoryOrder::*;
                let target = self.access(2);
                let elem = target.elem.clone();
                let op = match self.rng.below(6) {
                    0 => AtomicOp::Load,
                    1 => AtomicOp::Store(self.expr(&elem, 3)),
                    2 => AtomicOp::Exchange(self.expr(&elem, 3)),
                    3 => {
                        let (expected, desired) = (self.expr(&elem, 3), self.expr(&elem, 3));
                        AtomicOp::CompareExchange { expected, desired }
                    }
                    _ => AtomicOp::Update(self.op(), self.expr(&elem, 3)),
                };
                let (label, instance) = (self.label(), self.instance());
                let order = self.rng.pick(&[Relaxed, Acquire, Release, AcqRel, SeqCst, InOrder]);
                let scope = self.name();
                let old = if self.rng.chance(50) { Some(self.binder()) } else { None };
                let body = match &old {
                    Some(b) if depth > 0 => self.bound_stmt(b, d),
                    None if depth > 0 && self.rng.chance(30) => self.scoped(|g| g.stmt(d)),
                    _ => Stmt::empty(),
                };
                StmtKind::Atomic(Atomic { label, instance, target, op, order, scope, old, body })
            }
            12 => {
                let cond = self.expr(&Type::BOOL, 3);
                StmtKind::Check { cond, code: self.name(), message: self.name() }
            }
            13 => StmtKind::Assume { fact: self.expr(&Type::BOOL, 3), provenance: self.name() },
            14 => {
                if self.rng.chance(50) {
                    let n = self.rng.below(3);
                    let spaces = (0..n).map(|_| self.rng.pick(&Space::ALL)).collect();
                    StmtKind::Barrier { of: self.known_var(), spaces }
                } else {
                    StmtKind::Wait { token: self.known_var(), pending: self.rng.below(3) as u32 }
                }
            }
            15 => {
                let n = self.rng.below(3);
                let args = (0..n)
                    .map(|_| match self.rng.chance(50) {
                        true => Arg::View(self.view(2).0),
                        false => {
                            let ty = self.ty(1);
                            Arg::Value(self.expr(&ty, 3))
                        }
                    })
                    .collect();
                StmtKind::Call { function: self.name(), args }
            }
            _ => self.scoped(|g| StmtKind::Compute(g.compute())),
        })
    }

    /// A variable in scope, or seldom one that is not.
    fn known_var(&mut self) -> VarId {
        match self.vars.last() {
            Some(b) if self.rng.chance(90) => b.id,
            _ => VarId(self.rng.below(50) as u32),
        }
    }

    fn updates(&mut self) -> (Vec<Access>, Vec<Expr>) {
        let n = if self.rng.chance(70) { 1 } else { self.rng.below(4) };
        let m = if self.rng.chance(90) { n } else { self.rng.below(3) };
        let targets: Vec<Access> = (0..n).map(|_| self.access(2)).collect();
        let values = (0..m)
            .map(|i| {
                let ty = targets.get(i).map_or(Type::F32, |t| t.elem.clone());
                self.expr(&ty, 5)
            })
            .collect();
        (targets, values)
    }

    fn compute(&mut self) -> Compute {
        let label = self.label();
        let n = self.rng.below(4);
        let dims = (0..n)
            .map(|_| {
                let binder = self.binder();
                let (lo, hi) = (self.expr(&Type::INDEX, 2), self.expr(&Type::INDEX, 2));
                let combine = match self.rng.below(3) {
                    0 => Combine::Concat,
                    1 => Combine::Reduce(self.op()),
                    _ => Combine::Scan(self.op()),
                };
                self.vars.push(binder.clone());
                Dim { binder, lo, hi, combine }
            })
            .collect();
        let (targets, values) = self.updates();
        let guard = if self.rng.chance(40) { Some(self.expr(&Type::BOOL, 3)) } else { None };
        let update = if self.rng.chance(40) { Some(self.op()) } else { None };
        Compute { label, dims, targets, values, guard, update }
    }
}
