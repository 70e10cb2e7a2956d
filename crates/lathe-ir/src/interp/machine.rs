//! One run: tasks, the instructions that concern more than registers, and failures.

use super::code::{ArgCode, CallCode, Instr, ParamCode, Pc, ViewCode};
use super::compile::Compiled;
use super::exec::Steps;
use super::failure::{Failure, Trap, Where, access_of, explain};
use super::groups::{AsyncBody, Group, TaskId, Token, trips};
use super::memory::{Descriptor, Heap, overlapping};
use super::race::{self, Event, Kind, Level, Position};
use super::{Counts, Order, shapes};
use crate::ids::VarId;
use crate::types::Name;
use std::collections::HashMap;
use std::rc::Rc;

/// Where to go on after a call.
struct Frame {
    routine: u32,
    pc: Pc,
    base: usize,
    slots: usize,
    result: Option<u32>,
    event: u32,
    /// Buffers of arguments given by value.
    temporaries: Vec<Rc<Descriptor>>,
}

/// A strand of execution that can be paused between instructions.
#[derive(Default)]
pub struct Task {
    pub routine: u32,
    pub pc: Pc,
    base: usize,
    slot_base: usize,
    regs: Vec<u64>,
    slots: Vec<Rc<Descriptor>>,
    frames: Vec<Frame>,
    /// Orders of the random loops it is in.
    orders: Vec<Vec<i64>>,
    pub group: Option<usize>,
    /// Its number among the iterations of its group.
    pub iteration: usize,
    /// The asynchronous body that its end completes.
    pub completes: Option<usize>,
    pub path: Vec<Level>,
    position: Option<Position>,
    event: u32,
}

/// Why a task stopped.
pub enum Pause {
    Done,
    Barrier {
        of: VarId,
        spaces: u8,
    },
    Fork(u32),
    Spawn {
        token: u32,
        body: Pc,
    },
    /// The task waits for a token; the instruction runs again later.
    Wait,
    Yield,
    /// All other strands run first.
    Spin,
}

pub struct Machine<'c> {
    pub compiled: &'c Compiled,
    pub heap: Heap,
    pub counts: Counts,
    pub count: bool,
    pub steps: Steps<'c>,
    pub races: Option<race::Order>,
    pub order: Order,
    pub random: u64,
    pub tasks: Vec<Task>,
    pub free_tasks: Vec<TaskId>,
    pub ready: Vec<TaskId>,
    pub groups: Vec<Group>,
    pub tokens: Vec<Token>,
    /// Numbers of closed tokens, for reuse.
    pub free_tokens: Vec<usize>,
    pub bodies: Vec<AsyncBody>,
    pub globals: HashMap<Name, Rc<Descriptor>>,
    /// The task that is running.
    pub current: Option<TaskId>,
    /// What runs in place of functions of the module.
    pub outside: Option<&'c super::Outside<'c>>,
}

/// Calls nest at most so deep.
const MAX_DEPTH: usize = 10_000;

/// About what one event of the race detection takes.
const EVENT_BYTES: u64 = 128;

impl Task {
    fn nowhere() -> Rc<Descriptor> {
        Rc::new(Descriptor::row_major(0, u32::MAX, 1, &[]))
    }

    /// The position of the task now.
    pub fn position(&mut self) -> Position {
        let path = &self.path;
        self.position.get_or_insert_with(|| path.as_slice().into()).clone()
    }

    /// Changes the path; positions taken from here on are new.
    pub fn path_mut(&mut self) -> &mut Vec<Level> {
        self.position = None;
        &mut self.path
    }

    pub fn reg(&self, r: u32) -> u64 {
        self.regs[self.base + r as usize]
    }

    pub fn set_reg(&mut self, r: u32, bits: u64) {
        self.regs[self.base + r as usize] = bits;
    }

    /// What the current function was given for its array parameters.
    pub fn array_params<'t>(&'t self, compiled: &'t Compiled) -> impl Iterator<Item = &'t Rc<Descriptor>> {
        let params = &compiled.routines[self.routine as usize].params;
        params.iter().filter_map(|p| match p {
            ParamCode::Array(slot) => Some(&self.slots[self.slot_base + *slot as usize]),
            ParamCode::Scalar(_) => None,
        })
    }

    /// A task that goes on from the current frame's registers at another place.
    pub fn branch(&self, pc: Pc) -> Task {
        Task {
            routine: self.routine,
            pc,
            regs: self.regs[self.base..].to_vec(),
            slots: self.slots[self.slot_base..].to_vec(),
            path: self.path.clone(),
            event: self.event,
            ..Task::default()
        }
    }
}

impl Machine<'_> {
    /// The task that runs the first routine.
    pub fn root(&mut self, sizes: &HashMap<VarId, i64>, scalars: &[u64], arrays: &[Rc<Descriptor>]) -> Task {
        let mut t = Task::default();
        if let Some(races) = &mut self.races {
            t.path.push(Level::new(0, Kind::Root, u32::MAX));
            let (position, loops) = (t.position(), Box::default());
            races.events.push(Event { position, routine: 0, site: 0, instance: None, loops });
        }
        self.enter(&mut t, 0, sizes, scalars, arrays);
        t
    }

    /// Sets up the frame of a routine behind what the task has.
    fn enter(
        &self,
        t: &mut Task,
        routine: u32,
        sizes: &HashMap<VarId, i64>,
        scalars: &[u64],
        arrays: &[Rc<Descriptor>],
    ) {
        let r = &self.compiled.routines[routine as usize];
        let f = &self.compiled.functions[routine as usize];
        (t.routine, t.pc) = (routine, 0);
        (t.base, t.slot_base) = (t.regs.len(), t.slots.len());
        t.regs.resize(t.base + r.registers as usize, 0);
        t.slots.resize(t.slot_base + r.slots as usize, Task::nowhere());
        for (reg, bits) in &r.constants {
            t.set_reg(*reg, *bits);
        }
        for (binder, reg) in f.sizes.iter().zip(&r.sizes) {
            t.set_reg(*reg, sizes.get(&binder.id).copied().unwrap_or(0) as u64);
        }
        for (slot, name) in &r.globals {
            if let Some(d) = self.globals.get(name) {
                t.slots[t.slot_base + *slot as usize] = d.clone();
            }
        }
        let (mut scalars, mut arrays) = (scalars.iter(), arrays.iter());
        for p in &r.params {
            match p {
                ParamCode::Scalar(reg) => t.set_reg(*reg, scalars.next().copied().unwrap_or(0)),
                ParamCode::Array(slot) => {
                    if let Some(d) = arrays.next() {
                        t.slots[t.slot_base + *slot as usize] = d.clone();
                    }
                }
            }
        }
    }

    /// Runs a task until it pauses.
    pub fn advance(&mut self, t: &mut Task) -> Result<Pause, Trap> {
        let compiled = self.compiled;
        loop {
            let routine = &compiled.routines[t.routine as usize];
            let mut pc = t.pc;
            let regs = &mut t.regs[t.base..];
            let slots = &t.slots[t.slot_base..];
            let stopped = self.context(t.event).run(routine, &mut pc, regs, slots);
            t.pc = pc;
            if let Some(pause) = self.special(t, stopped?)? {
                return Ok(pause);
            }
        }
    }

    /// An instruction that concerns more than registers.
    fn special(&mut self, t: &mut Task, instr: Instr) -> Result<Option<Pause>, Trap> {
        let compiled = self.compiled;
        let routine = &compiled.routines[t.routine as usize];
        match instr {
            Instr::Shuffle { lo, hi, step } => {
                let (lo, hi, step) = (t.reg(lo) as i64, t.reg(hi) as i64, t.reg(step) as i64);
                let n = trips(lo, hi, step);
                if n as u64 > self.heap.left / 8 {
                    return Err(Trap::Steps);
                }
                let mut order: Vec<i64> = (0..n).map(|k| lo + k * step).collect();
                for k in (1..order.len()).rev() {
                    let other = self.random_below(k + 1);
                    order.swap(k, other);
                }
                t.orders.push(order);
            }
            Instr::Draw { i, to } => match t.orders.last_mut().and_then(Vec::pop) {
                Some(v) => t.set_reg(i, v as u64),
                None => {
                    t.orders.pop();
                    t.pc = to;
                    return Ok(None);
                }
            },
            Instr::EnterParallel { executor } => {
                if let Some(races) = &mut self.races {
                    let kind = Kind::Iteration(races.new_instance());
                    let strand = races.new_strand();
                    t.path_mut().push(Level::new(strand, kind, executor));
                }
            }
            Instr::Iteration { .. } => {
                if let Some(races) = &mut self.races {
                    let strand = races.new_strand();
                    if let Some(last) = t.path_mut().last_mut() {
                        *last = Level::new(strand, last.kind, last.executor);
                    }
                }
            }
            Instr::LeaveParallel => {
                t.path_mut().pop();
            }
            Instr::Instance { site } => self.name_instance(t, site)?,
            Instr::Alloc { alloc } => {
                let a = &routine.allocs[alloc as usize];
                let extents: Vec<i64> = a.extents.iter().map(|r| t.reg(*r) as i64).collect();
                let d = self.heap.alloc(&a.name, &a.elem, &extents, a.space)?;
                t.slots[t.slot_base + a.slot as usize] = d;
            }
            Instr::Free { slot } => {
                let d = t.slots[t.slot_base + slot as usize].clone();
                self.heap.release(&d);
            }
            Instr::View { view } => {
                let (slot, code) = &routine.views[view as usize];
                let values = |regs: &[u32]| regs.iter().map(|r| t.reg(*r) as i64).collect::<Vec<_>>();
                let from = |slot: &u32| &t.slots[t.slot_base + *slot as usize];
                let made = match code {
                    ViewCode::Slice { from: f, offsets, steps } => from(f).slice(&values(offsets), steps)?,
                    ViewCode::Reshape { from: f, extents } => from(f).reshape(&values(extents))?,
                    ViewCode::Reinterpret { from: f, elem_bytes, align } => {
                        from(f).reinterpret(*elem_bytes, *align)?
                    }
                    ViewCode::Deref { pointer, class, elem_bytes, align } => {
                        self.deref(t, t.reg(*pointer), class, (*elem_bytes, *align))?
                    }
                };
                t.slots[t.slot_base + *slot as usize] = Rc::new(made);
            }
            Instr::Call { call } => {
                self.call(t, &routine.calls[call as usize])?;
                return Ok(None);
            }
            Instr::Return => return Ok(self.leave(t)),
            Instr::Fork { fork } => {
                t.pc += 1;
                return Ok(Some(Pause::Fork(fork)));
            }
            Instr::Spawn { token, body } => {
                t.pc += 1;
                return Ok(Some(Pause::Spawn { token, body }));
            }
            Instr::Barrier { barrier } => {
                let b = &routine.barriers[barrier as usize];
                t.pc += 1;
                return Ok(Some(Pause::Barrier { of: b.of, spaces: b.spaces }));
            }
            Instr::OpenToken { token } => {
                let number = self.open_token();
                t.set_reg(token, number as u64);
            }
            Instr::CloseToken { token } => self.close_token(t.reg(token) as usize),
            Instr::Wait { token, pending } => {
                if !self.await_token(t, t.reg(token) as usize, pending as usize) {
                    return Ok(Some(Pause::Wait));
                }
            }
            Instr::Turn { scope, site } => {
                if !self.take_turn(t, scope, (t.routine, site))? {
                    return Ok(Some(Pause::Wait));
                }
            }
            Instr::Spin => {
                if !self.ready.is_empty() {
                    t.pc += 1;
                    return Ok(Some(Pause::Spin));
                }
            }
            Instr::Yield => {
                if !self.ready.is_empty() && self.random_below(2) == 0 {
                    t.pc += 1;
                    return Ok(Some(Pause::Yield));
                }
            }
            _ => return Ok(Some(Pause::Done)),
        }
        t.pc += 1;
        Ok(None)
    }

    fn call(&mut self, t: &mut Task, call: &CallCode) -> Result<(), Trap> {
        if t.frames.len() >= MAX_DEPTH {
            return Err(Trap::Depth);
        }
        let compiled = self.compiled;
        let callee = &compiled.functions[call.routine as usize];
        let bad = |what: &str| {
            let d = lathe_diagnostics::Diagnostic::error(
                super::codes::ARGUMENTS,
                format!("a call of `{}` passes {what}", callee.name),
            );
            Trap::Argument(Box::new(d))
        };
        if call.args.len() != callee.params.len() {
            return Err(bad("a wrong number of arguments"));
        }
        let (mut scalars, mut arrays, mut shapes) = (Vec::new(), Vec::new(), Vec::new());
        let (mut temporaries, mut known, mut passed) = (Vec::new(), HashMap::new(), Vec::new());
        for (p, a) in callee.params.iter().zip(&call.args) {
            match (&p.kind, a) {
                (crate::func::ParamKind::Scalar(b), ArgCode::Value(r, ty)) => {
                    if ty.scalar() != Some(b.ty) {
                        return Err(bad(&format!("a value of type {ty} for `{}`", b.name)));
                    }
                    if b.ty.is_int() {
                        known.insert(b.id, t.reg(*r) as i64);
                    }
                    scalars.push(t.reg(*r));
                    shapes.push(Vec::new());
                }
                (crate::func::ParamKind::Array(b), ArgCode::Value(r, ty)) if b.extents.is_empty() => {
                    if *ty != b.elem {
                        return Err(bad(&format!("a value of type {ty} for `{}`", b.name)));
                    }
                    let d = self.heap.alloc(&b.name, &b.elem, &[], b.space)?;
                    let cells = self.heap.of(&d)?;
                    for (k, (leaf, offset)) in super::array::leaf_offsets(ty).into_iter().enumerate() {
                        cells.store(offset as usize, leaf, t.reg(*r + k as u32));
                    }
                    shapes.push(Vec::new());
                    temporaries.push(d.clone());
                    arrays.push(d);
                }
                (crate::func::ParamKind::Array(b), ArgCode::Slot(slot)) => {
                    let d = t.slots[t.slot_base + *slot as usize].clone();
                    if d.elem_bytes != b.elem.bytes() {
                        return Err(bad(&format!("elements of another type for `{}`", b.name)));
                    }
                    shapes.push(d.extents());
                    passed.push((p, d.clone()));
                    arrays.push(d);
                }
                _ => return Err(bad(&format!("a value for the array `{}`, or the reverse", p.name()))),
            }
        }
        if let Some((a, b)) = overlapping(&passed) {
            return Err(bad(&format!(
                "the same array for `{}` and `{}`, one of which is written",
                a.name(),
                b.name()
            )));
        }
        let mut values = known.clone();
        let sizes = shapes::sizes(callee, &shapes, known).map_err(|d| Trap::Argument(Box::new(d)))?;
        values.extend(sizes.iter().map(|(v, n)| (*v, *n)));
        if let Some(summary) = &call.summary {
            arrays = self.permits(callee, summary, &arrays, &values);
        }
        if let Some(outside) = self.outside
            && self.runs_outside(outside, callee, &scalars, &arrays)?
        {
            for d in &temporaries {
                self.heap.release(d);
            }
            t.pc += 1;
            return Ok(());
        }
        let frame = Frame {
            routine: t.routine,
            pc: t.pc + 1,
            base: t.base,
            slots: t.slot_base,
            result: call.result,
            event: t.event,
            temporaries,
        };
        t.frames.push(frame);
        self.enter(t, call.routine, &sizes, &scalars, &arrays);
        Ok(())
    }

    fn leave(&mut self, t: &mut Task) -> Option<Pause> {
        let Some(frame) = t.frames.pop() else { return Some(Pause::Done) };
        let result = self.compiled.routines[t.routine as usize].result;
        if let (Some(to), Some((from, n))) = (frame.result, result) {
            for k in 0..n {
                let bits = t.reg(from + k);
                t.regs[frame.base + (to + k) as usize] = bits;
            }
        }
        t.regs.truncate(t.base);
        t.slots.truncate(t.slot_base);
        for d in &frame.temporaries {
            self.heap.release(d);
        }
        (t.routine, t.pc, t.base, t.slot_base) = (frame.routine, frame.pc, frame.base, frame.slots);
        t.event = frame.event;
        None
    }

    /// Computes the instance vector of a site with a task's registers.
    fn instance(&mut self, t: &mut Task, site: u32) -> Option<Vec<i64>> {
        let compiled = self.compiled;
        let routine = &compiled.routines[t.routine as usize];
        let s = &routine.sites[site as usize];
        if s.label.is_none() || s.instance.is_empty() {
            return s.label.as_ref().map(|_| Vec::new());
        }
        let mut pc = s.start;
        let regs = &mut t.regs[t.base..];
        let slots = &t.slots[t.slot_base..];
        let mut context = self.context(t.event);
        (context.counts, context.races) = (None, None);
        context.run(routine, &mut pc, regs, slots).ok()?;
        Some(s.instance.iter().map(|r| t.reg(*r) as i64).collect())
    }

    fn name_instance(&mut self, t: &mut Task, site: u32) -> Result<(), Trap> {
        // Alone on the root strand, before any asynchronous body: ordered with all there will be, so
        // the first event stands for all of them.
        let alone = t.path.len() == 1 && self.bodies.is_empty();
        if alone {
            t.event = 0;
            return Ok(());
        }
        if self.heap.left < EVENT_BYTES {
            return Err(Trap::Memory { name: "events".into() });
        }
        self.heap.left -= EVENT_BYTES;
        let instance = self.instance(t, site).map(Vec::into_boxed_slice);
        let routine = t.routine;
        let loops = &self.compiled.routines[routine as usize].sites[site as usize].loops;
        let loops = loops.iter().map(|l| t.reg(l.1) as i64).collect();
        let position = t.position();
        if let Some(races) = &mut self.races {
            t.event = races.events.len() as u32;
            races.events.push(Event { position, routine, site, instance, loops });
        }
        Ok(())
    }

    /// The failure that a trap in a task becomes.
    pub fn fail(&mut self, t: &mut Task, trap: Trap) -> Failure {
        let compiled = self.compiled;
        let routine = &compiled.routines[t.routine as usize];
        let at = (t.pc as usize).min(routine.code.len() - 1);
        let (instr, site) = (routine.code[at], routine.site_of[at]);
        let loops: Vec<(Name, i64)> = routine.sites[site as usize]
            .loops
            .iter()
            .map(|(name, r)| (name.clone(), t.reg(*r) as i64))
            .collect();
        let access = access_of(instr).map(|id| {
            let a = &routine.accesses[id as usize];
            let index = a.index.iter().map(|r| t.reg(*r) as i64).collect();
            let extents = t.slots[t.slot_base + a.slot as usize].extents();
            (routine.slot_names[a.slot as usize].clone(), index, extents)
        });
        let within = match instr {
            Instr::Within { a, b, dim } => Some((t.reg(a) as i64, t.reg(b) as i64, dim)),
            _ => None,
        };
        let instance = self.instance(t, site);
        explain(trap, Where { routine, site, instr, instance, loops, access, within })
    }
}
