//! Statements: loops, stores, local arrays, and the functions that `cpu` loops become.

use crate::device::{cluster, language::Language};
use crate::emit::{
    Buf, Emitter, NOT_IN_REGISTERS, Place, Result, Var, fallback, ill_formed, lift, unsupported,
};
use crate::helpers::memory_type;
use crate::writer::{bare, is_atom};
use lathe_diagnostics::Places;
use lathe_ir::build::{add, int, sub};
use lathe_ir::lower::storage;
use lathe_ir::visit::substitute_stmt;
use lathe_ir::{Access, Buffer, Executor, Expr, Loop, Scalar, Space, Stmt, StmtKind, Store};
use lathe_lower::{halves, reductions};
use lathe_poly::{Interval, MOST_GUARDED};
use std::collections::HashMap;
use std::sync::Arc;

/// Local arrays up to this many bytes stand on the stack.
const MOST_STACK: u64 = 256 << 10;
/// Loops with more iterations than this are left to the C compiler's unroller.
const MOST_UNROLLED: i64 = 4096;

impl Emitter<'_> {
    pub fn stmt(&mut self, s: &Stmt) -> Result<()> {
        self.written(s)?;
        if self.copies.ends_group(s) {
            self.line("lathe_group();");
        }
        Ok(())
    }

    fn written(&mut self, s: &Stmt) -> Result<()> {
        let places = s.places();
        match s.kind() {
            StmtKind::Seq(all) if self.device.is_some() => self.device_sequence(all),
            StmtKind::Seq(all) => all.iter().try_for_each(|s| self.stmt(s)),
            StmtKind::Let { .. } => self.lets(s),
            StmtKind::Store(st) => self.store(st),
            // In kernels of devices, where some of them are shuffles.
            StmtKind::Reduce(r) => {
                let stores = reductions::stores(self.module, r, places, &mut self.next_id);
                let stores = stores.ok_or_else(|| ill_formed(format!("`{}` is not defined here", r.op)))?;
                self.stmt(&halves::stmt(&stores))
            }
            StmtKind::Loop(l) => self.within(s, 0, |e| e.run_loop(l, places)),
            StmtKind::If { cond, then, other } => {
                if let Some(a) = self.is_turn_of_warp(s) {
                    return self.turn_of_warp(a);
                }
                self.begin(&[cond]);
                let c = self.uniform(cond)?;
                self.open(format!("if ({}) {{", bare(&c)));
                self.within(s, 0, |e| e.stmt(then))?;
                self.end_of_branch(then);
                if let Some(other) = other {
                    self.close("} else {");
                    self.within(s, 1, |e| e.stmt(other))?;
                    self.end_of_branch(other);
                }
                self.close("}");
                Ok(())
            }
            StmtKind::While { cond, body } => {
                self.open("for (;;) {");
                self.begin(&[cond]);
                let c = self.uniform(cond)?;
                self.line(format!("if (!{}) break;", parenthesized(&c)));
                self.stmt(body)?;
                if lathe_lower::turns::waits(body) && self.device.is_none() {
                    self.begin(&[cond]);
                    let (c, status) = (self.uniform(cond)?, self.names.fresh("status"));
                    let rt = self.runtime();
                    self.line(format!(
                        "const int32_t {status} = {} ? {rt}->wait({rt}->ctx) : 0;",
                        parenthesized(&c)
                    ));
                    self.leave_if(&format!("{status} != 0"), &status)?;
                }
                self.close("}");
                Ok(())
            }
            StmtKind::Alloc { buffer, body } => self.alloc(buffer, body, places),
            StmtKind::Check { cond, code, message } => {
                let number = self.table.user(code, message);
                let number = number.ok_or_else(|| ill_formed(format!("check `{code}` has no number")))?;
                self.begin(&[cond]);
                let c = self.uniform(cond)?;
                let text = message.replace("*/", "* /");
                self.line(format!("/* {} */", text.lines().next().unwrap_or_default()));
                self.leave_if(&format!("!{}", parenthesized(&c)), &number.to_string())
            }
            StmtKind::Assume { .. } => Ok(()),
            // Calls of functions of the module are gone.
            StmtKind::Call { function, args } => self.external(function, args, places),
            StmtKind::Compute(_) => Err(ill_formed("a statement that is gone after lowering")),
            StmtKind::Atomic(a) => self.atomic(a, places),
            StmtKind::Prefetch(a) => self.prefetch(a),
            StmtKind::Barrier { of, .. } => match self.device {
                Some(d) => {
                    match self.copies.waits(s) {
                        None => {}
                        Some(0) => self.line("lathe_copied();"),
                        Some(n) => self.line(format!("lathe_copied_but<{n}>();")),
                    }
                    let all = d.rank == Some(*of);
                    self.line(if all { cluster::BARRIER } else { d.language.barrier() });
                    Ok(())
                }
                None => Err(unsupported("a barrier", places)),
            },
            StmtKind::Token { .. } | StmtKind::Async { .. } | StmtKind::Wait { .. } => {
                Err(unsupported("an asynchronous statement", places))
            }
        }
    }

    /// Names in a row; nothing is written between them, so their values share what they have in common.
    fn lets(&mut self, s: &Stmt) -> Result<()> {
        let chain = std::iter::successors(Some(s), |s| s.as_let().map(|l| l.2));
        self.begin(&chain.filter_map(|s| s.as_let().map(|l| l.1)).collect::<Vec<_>>());
        let mut marks = Vec::new();
        let mut inside = s;
        while let Some((binder, value, body)) = inside.as_let() {
            let v = self.expr(value)?;
            let t = if v.lanes { self.lanes_type(value.ty())? } else { memory_type(binder.ty).to_string() };
            let name = self.names.fresh(&binder.name);
            self.line(format!("const {t} {name} = {};", bare(&v.text)));
            let frame = self.frames.len() - 1;
            self.vars.insert(binder.id, Var { name, ty: binder.ty, frame, lanes: v.lanes });
            marks.push(self.ranges.enter_child(inside, 0));
            inside = body;
        }
        let written = self.stmt(inside);
        marks.into_iter().rev().for_each(|mark| self.ranges.leave(mark));
        written
    }

    /// Writes what is inside a statement's child, knowing what the statement says about it.
    fn within(&mut self, s: &Stmt, child: usize, write: impl FnOnce(&mut Self) -> Result<()>) -> Result<()> {
        let mark = self.ranges.enter_child(s, child);
        let written = write(self);
        self.ranges.leave(mark);
        written
    }

    fn store(&mut self, st: &Store) -> Result<()> {
        if self.copied(st, None)? {
            return Ok(());
        }
        let indices = &st.target.indices;
        let mut exprs: Vec<&Expr> = indices.iter().collect();
        exprs.push(&st.value);
        self.begin(&exprs);
        let v = self.expr(&st.value)?;
        let b = self.buf_of(&st.target)?;
        if v.lanes || self.lanes.is_some() && self.varies(indices) {
            return self.lanes_store(&b, indices, &st.target, &v, st.nontemporal);
        }
        let at = self.element(&b, indices)?;
        let word =
            matches!(st.target.elem.scalar(), Some(Scalar::F32 | Scalar::F64 | Scalar::I32 | Scalar::U32));
        let global =
            !matches!(b.decl.space, Space::Shared | Space::Register | Space::Stack | Space::Fragment);
        let cuda = self.device.is_some_and(|d| d.language == Language::Cuda);
        if st.nontemporal && cuda && word && global {
            // A store that leaves the caches first.
            self.line(format!("__stcs(&{at}, {});", bare(&v.text)));
            return Ok(());
        }
        self.line(format!("{at} = {};", bare(&v.text)));
        Ok(())
    }

    /// Arithmetic on integers: the element need not exist.
    fn prefetch(&mut self, a: &Access) -> Result<()> {
        let b = self.buf_of(a)?;
        if self.lanes.is_some() || self.device.is_some() || matches!(b.storage, Place::Registers { .. }) {
            return Ok(());
        }
        self.begin(&a.indices.iter().collect::<Vec<_>>());
        let offset = self.offset(&b, &a.indices)?;
        let (name, offset) = (&b.name, parenthesized(&offset));
        self.line(format!(
            "__builtin_prefetch((const char *)((uintptr_t){name} + (uintptr_t){offset} * sizeof *{name}), 0, 2);"
        ));
        Ok(())
    }

    fn run_loop(&mut self, l: &Loop, places: &Places) -> Result<()> {
        match &l.exec {
            Executor::Serial => self.serial(l, None),
            Executor::Unrolled => self.unrolled(l),
            Executor::Vector(w) => self.vector(l, *w),
            Executor::Cpu => self.cpu(l, places),
            other => {
                let name = match other {
                    Executor::Level(n) => n.to_string(),
                    o => format!("{o:?}").to_lowercase(),
                };
                Err(unsupported(format!("loop `{}`, run by `{name}`,", l.binder.name), places)
                    .help("CPUs run `cpu`, `vector` and `serial` loops"))
            }
        }
    }

    /// Binds a loop's variable for its body.
    pub fn with_var<R>(
        &mut self,
        l: &Loop,
        name: &str,
        body: impl FnOnce(&mut Self) -> Result<R>,
    ) -> Result<R> {
        let frame = self.frames.len() - 1;
        let old = self
            .vars
            .insert(l.binder.id, Var { name: name.to_string(), ty: l.binder.ty, frame, lanes: false });
        let r = body(self);
        match old {
            Some(old) => self.vars.insert(l.binder.id, old),
            None => self.vars.remove(&l.binder.id),
        };
        r
    }

    /// A loop as C writes it; `pragma` stands in front.
    pub fn serial(&mut self, l: &Loop, pragma: Option<&str>) -> Result<()> {
        self.begin(&[&l.lo, &l.hi]);
        let (lo, hi) = (self.uniform(&l.lo)?, self.uniform(&l.hi)?);
        let name = self.names.fresh(&l.binder.name);
        let hi = if is_atom(&hi) {
            hi
        } else {
            let end = self.names.fresh(&format!("{}_end", l.binder.name));
            self.line(format!("const int64_t {end} = {};", bare(&hi)));
            end
        };
        let near_end = self.ranges.range(&l.hi).hi + i128::from(l.step) > Interval::INDEX.hi;
        let step = match l.step {
            1 => format!("{name}++"),
            // What lies behind the end may not fit 64 bits.
            step if near_end => format!(
                "{name} = (uint64_t){hi} - (uint64_t){name} > UINT64_C({step}) ? {name} + INT64_C({step}) : {hi}"
            ),
            step => format!("{name} += {step}"),
        };
        let t = memory_type(l.binder.ty);
        if let Some(p) = pragma {
            self.line(p);
        }
        self.open(format!("for ({t} {name} = {}; {name} < {hi}; {step}) {{", bare(&lo)));
        self.with_var(l, &name, |e| e.stmt(&l.body))?;
        self.close("}");
        Ok(())
    }

    /// The iterations one after the other, so that subscripts become constants.
    fn unrolled(&mut self, l: &Loop) -> Result<()> {
        let Some(trip) = lathe_poly::constant_trips(l) else {
            return match lathe_poly::most_trips(l, &self.ranges) {
                Some(most) if self.device.is_none() && most <= MOST_GUARDED => self.guarded(l, most),
                _ => self.serial(l, None),
            };
        };
        if self.device.is_some() {
            return self.device_unrolled(l, trip);
        }
        if trip > MOST_UNROLLED {
            return self.serial(l, Some("#pragma GCC unroll 8"));
        }
        if (trip - 1).checked_mul(l.step).is_none() {
            return self.serial(l, None);
        }
        for i in 0..trip {
            let at = add(l.lo.clone(), int(l.binder.ty, i * l.step));
            let body = substitute_stmt(&l.body, &HashMap::from([(l.binder.id, at)]));
            // Locals of one copy must not meet those of the next.
            let block = body.as_store().is_none() && body.as_reduce().is_none() && body.as_loop().is_none();
            if block {
                self.open("{");
            }
            self.stmt(&body)?;
            if block {
                self.close("}");
            }
        }
        Ok(())
    }

    /// The same where only a constant that bounds their number is known: each is inside of the condition of the one before.
    fn guarded(&mut self, l: &Loop, most: i64) -> Result<()> {
        let last = self.ranges.range(&l.lo).hi + i128::from(most) * i128::from(l.step);
        if last > Interval::INDEX.hi {
            return self.serial(l, None);
        }
        self.begin(&[&l.hi]);
        let hi = self.uniform(&l.hi)?;
        let end = self.names.fresh(&format!("{}_end", l.binder.name));
        self.line(format!("const int64_t {end} = {};", bare(&hi)));
        for i in 0..most {
            let at = add(l.lo.clone(), int(l.binder.ty, i * l.step));
            self.begin(&[&at]);
            let here = self.uniform(&at)?;
            self.open(format!("if ({here} < {end}) {{"));
            self.stmt(&substitute_stmt(&l.body, &HashMap::from([(l.binder.id, at)])))?;
        }
        (0..most).for_each(|_| self.close("}"));
        Ok(())
    }

    fn alloc(&mut self, buffer: &Arc<Buffer>, body: &Stmt, places: &Places) -> Result<()> {
        if self.lanes.is_some() {
            return Err(fallback());
        }
        if let Some(d) = self.device {
            return self.thread_array(d.language, buffer, body);
        }
        if !matches!(buffer.space, Space::Host | Space::Stack | Space::Register) {
            return Err(unsupported(
                format!("memory `{}` in the space `{}`", buffer.name, buffer.space.name()),
                places,
            ));
        }
        if let Some(width) = crate::registers::candidate(buffer, body)
            && !self.lane_loops_only
            && self.attempt(NOT_IN_REGISTERS, |e| e.in_registers(buffer, body, width))?
        {
            return Ok(());
        }
        let st = storage(buffer).map_err(lift)?;
        let elem = self.element_type(&buffer.elem)?;
        let name = self.names.fresh(&buffer.name);
        let constant = st
            .extents
            .iter()
            .map(|e| e.as_int().map(|n| n.max(0) as u64))
            .try_fold(1u64, |n, e| n.checked_mul(e?));
        let bytes = constant.and_then(|n| n.checked_mul(buffer.elem.bytes()));
        let heap = match bytes {
            Some(b) => b > MOST_STACK || buffer.space == Space::Host && b > 4096,
            None => true,
        };
        let frame = self.frames.len() - 1;
        let local = Buf {
            decl: buffer.clone(),
            name: name.clone(),
            frame,
            storage: Place::Local { strides: st.strides },
        };
        if heap {
            let scale = self.helpers.scale();
            let size = self.names.fresh(&format!("{}_bytes", buffer.name));
            self.begin(&[]);
            let mut tests = Vec::new();
            for e in &st.extents {
                let text = self.uniform(e)?;
                tests.push(format!("{scale}(&{size}, {})", bare(&text)));
            }
            self.line(format!("uint64_t {size} = sizeof({elem});"));
            if !tests.is_empty() {
                self.leave_if(&tests.join(" || "), "LATHE_SIZE_OVERFLOW")?;
            }
            let rt = self.runtime();
            self.line(format!("{elem} *{name} = {rt}->alloc({rt}->ctx, {size});"));
            self.leave_if(&format!("!{name}"), "LATHE_OUT_OF_MEMORY")?;
            self.frame().scratch.push(name.clone());
        } else {
            let n = constant.unwrap_or(1).max(1);
            self.line(format!("{elem} {name}[{n}] __attribute__((aligned(64)));"));
        }
        let old = self.bufs.insert(buffer.id, local);
        self.stmt(body)?;
        match old {
            Some(old) => self.bufs.insert(buffer.id, old),
            None => self.bufs.remove(&buffer.id),
        };
        if heap {
            self.frame().scratch.pop();
            let rt = self.runtime();
            self.line(format!("{rt}->free({rt}->ctx, {name});"));
        }
        Ok(())
    }

    /// A parallel loop: its body becomes a function over a range of iterations, and what it uses of
    /// the code around goes through a struct.
    fn cpu(&mut self, l: &Loop, places: &Places) -> Result<()> {
        if self.lanes.is_some() {
            return Err(fallback());
        }
        if l.step < 1 {
            return Err(unsupported(format!("the step {} of loop `{}`", l.step, l.binder.name), places));
        }
        self.begin(&[&l.lo, &l.hi]);
        let (lo, hi) = (self.uniform(&l.lo)?, self.uniform(&l.hi)?);
        let hint = format!("{}_{}", self.base, l.binder.name);
        let name = self.names.fresh(&hint);
        let var = self.names.fresh(&l.binder.name);
        let first = self.names.fresh(&format!("{}_first", l.binder.name));
        let constant_lo = l.lo.as_int().is_some();
        let start = if constant_lo { lo.clone() } else { first.clone() };
        if !constant_lo {
            self.line(format!("const int64_t {first} = {};", bare(&lo)));
        }

        self.push_frame(1);
        let at = match (l.step, start.as_str()) {
            (1, "0") => "lathe_at".to_string(),
            (1, s) => format!("{s} + lathe_at"),
            (step, "0") => format!("lathe_at * {step}"),
            (step, s) => format!("{s} + lathe_at * {step}"),
        };
        if !constant_lo {
            let outer = self.frames.len() - 2;
            self.capture(outer, &first, format!("const int64_t {first}"));
        }
        self.open("for (int64_t lathe_at = begin; lathe_at < end; lathe_at++) {");
        self.line(format!("const {} {var} = {at};", memory_type(l.binder.ty)));
        self.with_var(l, &var, |e| e.stmt(&l.body))?;
        self.close("}");
        let Some(frame) = self.frames.pop() else { return Err(ill_formed("a loop outside of a function")) };

        let body = frame.out.finish();
        let mut text = String::new();
        if !frame.captures.is_empty() {
            text.push_str(&format!("struct {name}_env {{\n"));
            for declaration in frame.captures.values() {
                text.push_str(&format!("    {};\n", declaration.replace("restrict ", "")));
            }
            text.push_str("};\n\n");
        }
        text.push_str(&format!("/* Iterations begin..end of the parallel loop `{}`. */\n", l.binder.name));
        text.push_str(&format!("static int32_t {name}(void *env_, int64_t begin, int64_t end) {{\n"));
        if frame.captures.is_empty() {
            text.push_str("    (void)env_;\n");
        } else {
            text.push_str(&format!("    const struct {name}_env *env = env_;\n"));
        }
        for (n, declaration) in &frame.captures {
            text.push_str(&format!("    {declaration} = env->{n};\n"));
        }
        text.push_str(&body);
        if body.contains("lathe_stream") {
            text.push_str("    lathe_stream_end();\n");
        }
        text.push_str("    return 0;\n}\n");
        self.functions.push(text);

        self.open("{");
        let count = match (start.as_str(), l.step) {
            ("0", 1) => bare(&hi).to_string(),
            (s, 1) if self.ranges.fits(&sub(l.hi.clone(), l.lo.clone())) => format!("{hi} - {s}"),
            (s, 1) => format!("{s} < {hi} ? {hi} - {s} : 0"),
            (s, step) => format!("{s} < {hi} ? ({hi} - {s} - 1) / {step} + 1 : 0"),
        };
        let env = if frame.captures.is_empty() {
            "0".to_string()
        } else {
            let fields: Vec<&str> = frame.captures.keys().map(String::as_str).collect();
            // Names in scope here, some of them in turn taken from the function around.
            self.line(format!("struct {name}_env env_of_loop = {{{}}};", fields.join(", ")));
            "&env_of_loop".to_string()
        };
        let status = self.names.fresh("status");
        let rt = self.runtime();
        self.line(format!("const int32_t {status} = {rt}->parallel_for({rt}->ctx, {count}, {name}, {env});"));
        self.leave_if(&format!("{status} != 0"), &status)?;
        self.close("}");
        Ok(())
    }
}

fn parenthesized(text: &str) -> String {
    if is_atom(text) || bare(text).len() < text.len() { text.to_string() } else { format!("({text})") }
}
