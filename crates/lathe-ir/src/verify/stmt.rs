//! What holds for statements.

use super::{Role, Verifier};
use crate::codes;
use crate::expr::{Access, Expr};
use crate::func::{Mode, ParamKind, Stage};
use crate::ids::{BufId, VarId};
use crate::ops::ReduceOp;
use crate::stmt::{
    Arg, Atomic, AtomicOp, Combine, Compute, Executor, Loop, MemoryOrder, Reduce, Stmt, StmtKind,
};
use crate::types::Type;

/// What goes out of scope where a block ends.
enum Bound {
    Var(VarId),
    Buf(BufId),
}

impl Verifier<'_> {
    /// A statement as the body of another. Scopes that reach to the end of a block are entered in a
    /// loop, since a block may hold thousands of them.
    pub(super) fn body(&mut self, s: &Stmt) {
        let mut bound = Vec::new();
        let mut rest = std::slice::from_ref(s);
        while let Some((last, init)) = rest.split_last() {
            for s in init {
                self.stmt(s, &mut bound);
            }
            if let Some(all) = last.as_seq() {
                rest = all;
                continue;
            }
            match last.rest_of_block() {
                Some(body) => {
                    self.header(last, &mut bound);
                    rest = std::slice::from_ref(body);
                }
                None => {
                    self.stmt(last, &mut bound);
                    break;
                }
            }
        }
        for b in bound {
            match b {
                Bound::Var(v) => {
                    self.vars.remove(&v);
                }
                Bound::Buf(b) => {
                    self.bufs.remove(&b);
                }
            }
        }
    }

    fn stmt(&mut self, s: &Stmt, bound: &mut Vec<Bound>) {
        if s.as_seq().is_some() || s.rest_of_block().is_some() {
            self.body(s);
        } else {
            self.header(s, bound);
        }
    }

    /// A statement without what may be the rest of its block.
    fn header(&mut self, s: &Stmt, bound: &mut Vec<Bound>) {
        self.at(s.places());
        match s.kind() {
            StmtKind::Seq(_) => {}
            StmtKind::Let { binder, value, .. } => {
                self.expr(value);
                self.value_fits(&binder.ty.into(), value);
                self.bind_var(binder, Role::Value);
                bound.push(Bound::Var(binder.id));
            }
            StmtKind::Alloc { buffer, .. } => {
                self.buffer(buffer, false);
                self.bind_buf(buffer.id, &buffer.name, buffer.extents.len(), &buffer.elem, false);
                bound.push(Bound::Buf(buffer.id));
            }
            StmtKind::Atomic(a) => {
                self.instance(&a.instance);
                self.access(&a.target, a.op.writes());
                self.atomic(a);
                if let Some(old) = &a.old {
                    if Type::Scalar(old.ty) != a.target.elem {
                        let text = format!(
                            "the old value `{}` is of type {}, but the element of type {}",
                            old.name, old.ty, a.target.elem
                        );
                        self.wrong(codes::VALUE_TYPE, [text.into()]);
                    }
                    self.bind_var(old, Role::Value);
                    bound.push(Bound::Var(old.id));
                } else {
                    self.body(&a.body);
                }
            }
            StmtKind::Store(st) => {
                self.instance(&st.instance);
                self.access(&st.target, true);
                self.expr(&st.value);
                self.value_fits(&st.target.elem, &st.value);
            }
            StmtKind::Reduce(r) => self.reduce(r),
            StmtKind::Loop(l) => self.loop_(l),
            StmtKind::If { cond, then, other } => {
                self.condition(cond);
                self.body(then);
                other.iter().for_each(|s| self.body(s));
            }
            StmtKind::While { cond, body } => {
                self.condition(cond);
                self.body(body);
            }
            StmtKind::Check { cond, .. } => self.condition(cond),
            StmtKind::Assume { fact, .. } => self.condition(fact),
            StmtKind::Prefetch(a) => self.access(a, false),
            StmtKind::Barrier { of, .. } => {
                let role = self.vars.get(of).map(|v| v.role);
                let reached = |strand| self.iterations.contains(&strand);
                if !matches!(role, Some(Role::Loop { parallel: Some(strand) }) if reached(strand)) {
                    let text = "a barrier does not name an enclosing parallel loop";
                    let help = "it synchronizes the iterations of the loop that it names: `for i in … cpu { … \
                                barrier i … }`";
                    self.wrong_help(codes::BARRIER, [text.into()], Some(help));
                }
            }
            StmtKind::Token { token, .. } => {
                if self.stage == Stage::Plain {
                    let text = format!("the token `{}` is opened in a plain tree", token.name);
                    let help = "plain trees have no asynchronous work; with tokens, the stage is `scheduled`";
                    self.wrong_help(codes::PLAIN_EXECUTOR, [text.into()], Some(help));
                }
                self.bind_var(token, Role::Token { strand: self.strand });
                bound.push(Bound::Var(token.id));
            }
            StmtKind::Async { token, body } => {
                self.token(*token, "async");
                self.in_strand(false, |v| v.body(body));
            }
            StmtKind::Wait { token, .. } => self.token(*token, "wait"),
            StmtKind::Call { function, args } => self.call(function, args),
            StmtKind::Compute(c) => self.compute(c),
        }
    }

    /// A token where it is used: it belongs to this strand.
    fn token(&mut self, token: VarId, word: &str) {
        let why = match self.vars.get(&token).map(|v| v.role) {
            Some(Role::Token { strand }) if strand == self.strand => return,
            Some(Role::Token { .. }) => {
                "a token of another strand: each iteration of a parallel loop, and each \
                                         asynchronous body, opens its own"
            }
            _ => "no token in scope",
        };
        let text = format!("`{word}` names %{}, which is {why}", token.0);
        let help = "`token t` opens one for the rest of its block";
        self.wrong_help(codes::TOKEN, [text.into()], Some(help));
    }

    /// What runs beside what is around it: tokens of the outside are not its own. An asynchronous body is not
    /// an iteration of the loops around it, and reaches none of their barriers.
    pub(super) fn in_strand(&mut self, iteration: bool, body: impl FnOnce(&mut Self)) {
        self.strands += 1;
        let strand = std::mem::replace(&mut self.strand, self.strands);
        let mut inside = if iteration { self.iterations.clone() } else { Vec::new() };
        inside.extend(iteration.then_some(self.strand));
        let iterations = std::mem::replace(&mut self.iterations, inside);
        body(self);
        (self.strand, self.iterations) = (strand, iterations);
    }

    fn atomic(&mut self, a: &Atomic) {
        a.op.for_each_expr(&mut |e| self.expr(e));
        match &a.op {
            AtomicOp::Load => {}
            AtomicOp::Store(e) | AtomicOp::Exchange(e) => self.value_fits(&a.target.elem, e),
            AtomicOp::CompareExchange { expected, desired } => {
                self.value_fits(&a.target.elem, expected);
                self.value_fits(&a.target.elem, desired);
            }
            AtomicOp::Update(op, value) => {
                self.update(op, std::slice::from_ref(&a.target), std::slice::from_ref(value));
            }
        }
        let order = a.order;
        let fits = match a.op {
            AtomicOp::Update(..) => true,
            _ if order == MemoryOrder::InOrder => false,
            AtomicOp::Load => !order.releases() || order == MemoryOrder::SeqCst,
            AtomicOp::Store(_) => !order.acquires() || order == MemoryOrder::SeqCst,
            AtomicOp::Exchange(_) | AtomicOp::CompareExchange { .. } => true,
        };
        if !fits {
            let text = format!("the memory order of `{}` is not valid for its kind", a.label);
            let help = "a load does not release, a store does not acquire, and only updates go in order";
            self.wrong_help(codes::ATOMIC_ORDER, [text.into()], Some(help));
        }
    }

    fn instance(&mut self, instance: &[Expr]) {
        for e in instance {
            self.expr(e);
            self.index(e, codes::INSTANCE_TYPE, "the instance");
        }
    }

    fn value_fits(&mut self, to: &Type, value: &Expr) {
        if value.ty() != to {
            let text = format!(" of type {} where {to} is expected", value.ty());
            self.wrong(codes::VALUE_TYPE, ["the value ".into(), value.into(), text.into()]);
        }
    }

    fn reduce(&mut self, r: &Reduce) {
        self.instance(&r.instance);
        r.targets.iter().for_each(|t| self.access(t, true));
        r.values.iter().for_each(|e| self.expr(e));
        self.update(&r.op, &r.targets, &r.values);
        let fused = |t: &Type| t.is_float() || t.complex_part().is_some();
        if r.contract && (r.op != ReduceOp::Sum || r.values.iter().any(|v| !fused(v.ty()))) {
            let text = format!("`{}` has `contract`, but is not a sum of floats", r.label);
            self.wrong(codes::CONTRACT, [text.into()]);
        }
    }

    /// Targets, values and operator of a reduction fit each other.
    fn update(&mut self, op: &ReduceOp, targets: &[Access], values: &[Expr]) {
        let types: Vec<&Type> = targets.iter().map(|t| &t.elem).collect();
        let wanted = op.targets();
        let counts = if wanted > 1 { targets.len() == wanted } else { !targets.is_empty() };
        if !counts || targets.len() != values.len() {
            let text = format!("`{op}` updates {} targets with {} values", targets.len(), values.len());
            return self.wrong(codes::REDUCE_COUNTS, [text.into()]);
        }
        for (t, v) in targets.iter().zip(values) {
            self.value_fits(&t.elem, v);
        }
        let each = |ok: fn(&Type) -> bool| types.iter().all(|t| ok(t));
        let fits = match op {
            ReduceOp::Sum | ReduceOp::Prod => each(Type::is_numeric),
            ReduceOp::Min | ReduceOp::Max => each(|t| t.is_int() || t.is_float()),
            ReduceOp::All | ReduceOp::Any => each(Type::is_bool),
            ReduceOp::ArgMin | ReduceOp::ArgMax => {
                (types[0].is_int() || types[0].is_float()) && types[1].is_int()
            }
            ReduceOp::User(name) => {
                let Some(user) = self.module.ops.get(name) else {
                    let text = format!("the operator `{name}` is not declared in the module");
                    return self.wrong(codes::UNKNOWN_OP, [text.into()]);
                };
                let fields = user.ty.fields();
                matches!(types.as_slice(), [t] if **t == user.ty) || types.iter().copied().eq(fields.iter())
            }
        };
        if !fits {
            let list: Vec<String> = types.iter().map(|t| t.to_string()).collect();
            let text = format!("`{op}` is not defined on {}", list.join(", "));
            self.wrong(codes::REDUCE_TYPES, [text.into()]);
        }
    }

    fn loop_(&mut self, l: &Loop) {
        for e in [&l.lo, &l.hi] {
            self.expr(e);
            self.index(e, codes::NOT_INDEX, "the bound");
        }
        if l.binder.ty != crate::types::Scalar::Index {
            let text = format!("the loop `{}` counts in {}, not in index", l.binder.name, l.binder.ty);
            self.wrong(codes::NOT_INDEX, [text.into()]);
        }
        if l.step <= 0 {
            let text = format!("the loop `{}` has the step {}", l.binder.name, l.step);
            self.wrong_help(codes::LOOP_STEP, [text.into()], Some("steps are positive"));
        }
        if l.exec == Executor::Vector(0) {
            self.wrong(codes::VECTOR_WIDTH, [format!("the loop `{}` has no lanes", l.binder.name).into()]);
        }
        if let Executor::InScan(width) = l.exec
            && let Err(why) = crate::lower::in_order(l, width)
        {
            let text = format!("the lanes of the loop `{}` cannot combine in order: {why}", l.binder.name);
            self.wrong(codes::LANES_IN_ORDER, [text.into()]);
        }
        if self.stage == Stage::Plain && l.exec != Executor::Serial {
            let text = format!("the loop `{}` has an executor in a plain tree", l.binder.name);
            let help = "plain loops are serial; with executors, the stage is `scheduled`";
            self.wrong_help(codes::PLAIN_EXECUTOR, [text.into()], Some(help));
        }
        if l.exec.is_ordered() {
            self.bind_var(&l.binder, Role::Loop { parallel: None });
            self.body(&l.body);
        } else {
            self.in_strand(true, |v| {
                v.bind_var(&l.binder, Role::Loop { parallel: Some(v.strand) });
                v.body(&l.body);
            });
        }
        self.vars.remove(&l.binder.id);
    }

    fn call(&mut self, function: &str, args: &[Arg]) {
        let Some(f) = self.module.callee(function) else {
            let text = format!("`{function}` is called, but the module has no such function");
            return self.wrong(codes::UNKNOWN_FUNCTION, [text.into()]);
        };
        if f.params.len() != args.len() {
            let text = format!("`{function}` takes {} arguments, not {}", f.params.len(), args.len());
            self.wrong(codes::CALL_ARGUMENTS, [text.into()]);
        }
        for (p, a) in f.params.iter().zip(args) {
            let why = match (&p.kind, a) {
                (ParamKind::Scalar(b), Arg::Value(e)) => {
                    self.expr(e);
                    (*e.ty() != Type::Scalar(b.ty)).then(|| format!("is of type {}, not {}", b.ty, e.ty()))
                }
                (ParamKind::Array(b), Arg::View(v)) => {
                    let view = self.view(v);
                    if p.mode != Mode::In {
                        self.writable(v);
                    }
                    match view {
                        Some((rank, _)) if rank != b.extents.len() => {
                            Some(format!("has {} dimensions, not {rank}", b.extents.len()))
                        }
                        Some((_, Some(elem))) if elem != b.elem => {
                            Some(format!("has elements of type {}, not {elem}", b.elem))
                        }
                        _ => None,
                    }
                }
                (ParamKind::Scalar(_), Arg::View(_)) => Some("is a scalar, not an array".to_string()),
                (ParamKind::Array(_), Arg::Value(_)) => Some("is an array, not a scalar".to_string()),
            };
            if let Some(why) = why {
                let text = format!("the parameter `{}` of `{function}` {why}", p.name());
                self.wrong(codes::CALL_ARGUMENTS, [text.into()]);
            }
        }
    }

    fn compute(&mut self, c: &Compute) {
        let mut op: Option<&ReduceOp> = None;
        for d in &c.dims {
            for e in [&d.lo, &d.hi] {
                self.expr(e);
                self.index(e, codes::NOT_INDEX, "the bound");
            }
            if d.binder.ty != crate::types::Scalar::Index {
                let text = format!("the index `{}` is of type {}", d.binder.name, d.binder.ty);
                self.wrong(codes::NOT_INDEX, [text.into()]);
            }
            if let Combine::Reduce(o) | Combine::Scan(o) = &d.combine {
                if let Some(other) = op.filter(|other| *other != o) {
                    let text = format!("`{}` combines with `{other}` and with `{o}`", c.label);
                    let help = "all reduced and scanned dimensions of a compute share one operator: use two \
                                computes";
                    self.wrong_help(codes::TWO_OPERATORS, [text.into()], Some(help));
                }
                op = Some(o);
            }
            self.bind_var(&d.binder, Role::Value);
        }
        c.targets.iter().for_each(|t| self.access(t, true));
        c.values.iter().for_each(|e| self.expr(e));
        c.guard.iter().for_each(|g| self.condition(g));
        match (op, &c.update) {
            (Some(op), _) | (None, Some(op)) => self.update(op, &c.targets, &c.values),
            (None, None) => {
                if c.targets.is_empty() || c.targets.len() != c.values.len() {
                    let (t, v) = (c.targets.len(), c.values.len());
                    let text = format!("`{}` stores {v} values to {t} targets", c.label);
                    self.wrong(codes::REDUCE_COUNTS, [text.into()]);
                }
                for (t, v) in c.targets.iter().zip(&c.values) {
                    self.value_fits(&t.elem, v);
                }
            }
        }
        if let (Some(op), Some(update)) = (op, c.update.as_ref())
            && op != update
        {
            self.update(update, &c.targets, &c.values);
        }
        for d in &c.dims {
            self.vars.remove(&d.binder.id);
        }
    }
}
