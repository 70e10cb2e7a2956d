//! The inner loop: instructions that need nothing but registers and memory.

use super::code::{AccessCode, HeldCode, Instr, Pc, Routine};
use super::failure::{RaceReport, Trap, statement};
use super::groups::trips;
use super::memory::{Descriptor, Heap};
use super::race::{self, Touch};
use super::{Counts, machine::Machine};
use crate::ops::{BinOp, MathFn};
use crate::scalar;
use crate::types::{Name, Scalar};
use std::collections::HashMap;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// How many steps a run may still take.
pub struct Steps<'a> {
    /// Before the next question.
    left: u64,
    /// After it.
    rest: u64,
    /// Whether the run is to end now.
    end: Option<&'a dyn Fn() -> bool>,
}

/// Steps between two questions: a few milliseconds.
const BETWEEN: u64 = 1 << 15;

impl<'a> Steps<'a> {
    pub fn new(most: u64, end: Option<&'a dyn Fn() -> bool>) -> Steps<'a> {
        let left = if end.is_some() { most.min(BETWEEN) } else { most };
        Steps { left, rest: most - left, end }
    }

    #[inline]
    pub fn take(&mut self) -> Result<(), Trap> {
        if self.left == 0 {
            self.more()?;
        }
        self.left -= 1;
        Ok(())
    }

    #[cold]
    fn more(&mut self) -> Result<(), Trap> {
        if self.rest == 0 {
            return Err(Trap::Steps);
        }
        if self.end.is_some_and(|end| end()) {
            return Err(Trap::Ended);
        }
        self.left = self.rest.min(BETWEEN);
        self.rest -= self.left;
        Ok(())
    }
}

/// What instructions may touch besides registers.
pub struct Context<'a, 'b> {
    pub routines: &'a [Routine],
    pub heap: &'a mut Heap,
    pub counts: Option<&'a mut Counts>,
    pub steps: &'a mut Steps<'b>,
    pub races: Option<&'a mut race::Order>,
    /// The event that accesses belong to.
    pub event: u32,
}

fn f32_of(bits: u64) -> f32 {
    f32::from_bits(bits as u32)
}

fn of_f32(v: f32) -> u64 {
    u64::from(v.to_bits())
}

impl Context<'_, '_> {
    /// Runs from `*pc` until an instruction that this function does not know, which is returned.
    pub fn run(
        &mut self,
        routine: &Routine,
        pc: &mut Pc,
        regs: &mut [u64],
        slots: &[Rc<Descriptor>],
    ) -> Result<Instr, Trap> {
        let code = &routine.code[..];
        macro_rules! get {
            ($r:expr) => {
                regs[$r as usize]
            };
        }
        loop {
            let instr = code[*pc as usize];
            if self.counts.is_some() {
                self.count(instr, routine);
            }
            match instr {
                Instr::Move { d, a } => get!(d) = get!(a),
                Instr::AddIndex { d, a, b } => {
                    get!(d) = (get!(a) as i64).checked_add(get!(b) as i64).ok_or(Trap::IndexOverflow)? as u64;
                }
                Instr::MulIndex { d, a, b } => {
                    get!(d) = (get!(a) as i64).checked_mul(get!(b) as i64).ok_or(Trap::IndexOverflow)? as u64;
                }
                Instr::AddF32 { d, a, b } => get!(d) = of_f32(f32_of(get!(a)) + f32_of(get!(b))),
                Instr::MulF32 { d, a, b } => get!(d) = of_f32(f32_of(get!(a)) * f32_of(get!(b))),
                Instr::AddF64 { d, a, b } => {
                    get!(d) = (f64::from_bits(get!(a)) + f64::from_bits(get!(b))).to_bits();
                }
                Instr::MulF64 { d, a, b } => {
                    get!(d) = (f64::from_bits(get!(a)) * f64::from_bits(get!(b))).to_bits();
                }
                Instr::Unary { op, ty, d, a } => get!(d) = scalar::unary(op, ty, get!(a))?,
                Instr::Binary { op, ty, d, a, b } => get!(d) = scalar::binary(op, ty, get!(a), get!(b))?,
                Instr::Math { f, ty, d, a } => get!(d) = scalar::exact_math(f, ty, get!(a))?,
                Instr::Fma { ty, d, a, b, c } => get!(d) = scalar::fma(ty, get!(a), get!(b), get!(c)),
                Instr::Cast { from, to, d, a } => get!(d) = scalar::cast(from, to, get!(a))?,
                Instr::Bitcast { from, to, d, a } => get!(d) = scalar::bitcast(from, to, get!(a))?,
                Instr::Select { d, c, a, b } => get!(d) = if get!(c) != 0 { get!(a) } else { get!(b) },
                Instr::Load { ty, d, access } => {
                    let access = &routine.accesses[access as usize];
                    let view = &slots[access.slot as usize];
                    let at = view.address(regs, &access.index).map_err(|dim| Trap::Bounds { dim })?;
                    permitted(access, view, at, false)?;
                    if self.races.is_some() {
                        self.touch(routine, access, view, at, Touch::Read, regs)?;
                    }
                    get!(d) = self.heap.of(view)?.load(at, ty).ok_or(Trap::Undefined)?;
                }
                Instr::Store { ty, a, access } => {
                    let access = &routine.accesses[access as usize];
                    let view = &slots[access.slot as usize];
                    let at = view.address(regs, &access.index).map_err(|dim| Trap::Bounds { dim })?;
                    permitted(access, view, at, true)?;
                    if self.races.is_some() {
                        self.touch(routine, access, view, at, Touch::Write, regs)?;
                    }
                    self.heap.of(view)?.store(at, ty, get!(a));
                }
                Instr::LoadMany { d, access } => {
                    let access = &routine.accesses[access as usize];
                    let view = &slots[access.slot as usize];
                    let at = view.address(regs, &access.index).map_err(|dim| Trap::Bounds { dim })?;
                    permitted(access, view, at, false)?;
                    if self.races.is_some() {
                        self.touch(routine, access, view, at, Touch::Read, regs)?;
                    }
                    let into = &mut regs[d as usize..d as usize + access.leaves.len()];
                    self.heap.load_many(view, at, access, into)?;
                }
                Instr::StoreMany { a, access } => {
                    let access = &routine.accesses[access as usize];
                    let view = &slots[access.slot as usize];
                    let at = view.address(regs, &access.index).map_err(|dim| Trap::Bounds { dim })?;
                    permitted(access, view, at, true)?;
                    if self.races.is_some() {
                        self.touch(routine, access, view, at, Touch::Write, regs)?;
                    }
                    let from = &regs[a as usize..a as usize + access.leaves.len()];
                    self.heap.store_many(view, at, access, from)?;
                }
                Instr::Address { d, access } => {
                    let access = &routine.accesses[access as usize];
                    let view = &slots[access.slot as usize];
                    let at = match (&view.dims[..], &access.index[..]) {
                        // The element after the last has an address, too.
                        ([(extent, stride)], [i]) if get!(*i) as i64 == *extent => {
                            Ok((view.base + extent * stride) as usize)
                        }
                        _ => view.address(regs, &access.index).map_err(|dim| Trap::Bounds { dim }),
                    };
                    get!(d) = self.heap.address(view, at?)?;
                }
                Instr::Within { a, b, dim } => {
                    if get!(a) as i64 >= get!(b) as i64 || (get!(a) as i64) < 0 {
                        return Err(Trap::Bounds { dim: dim as usize });
                    }
                }
                Instr::Jump { to } => {
                    *pc = to;
                    continue;
                }
                Instr::JumpIf { c, to } => {
                    if get!(c) != 0 {
                        *pc = to;
                        continue;
                    }
                }
                Instr::JumpUnless { c, to } => {
                    if get!(c) == 0 {
                        *pc = to;
                        continue;
                    }
                }
                Instr::JumpGe { a, b, to } => {
                    if get!(a) as i64 >= get!(b) as i64 {
                        *pc = to;
                        continue;
                    }
                }
                Instr::Next { i, hi, step, to } => {
                    self.step()?;
                    // Beyond the largest index there is no further iteration.
                    let next = (get!(i) as i64).checked_add(get!(step) as i64);
                    if let Some(next) = next.filter(|n| *n < get!(hi) as i64) {
                        get!(i) = next as u64;
                        *pc = to;
                        continue;
                    }
                }
                Instr::Step => self.step()?,
                Instr::Width { lo, hi, step, width } => {
                    let iterations = trips(get!(lo) as i64, get!(hi) as i64, get!(step) as i64);
                    if iterations > i64::from(width) {
                        return Err(Trap::Width { iterations, width });
                    }
                }
                Instr::Check { c, check } => {
                    if get!(c) == 0 {
                        return Err(Trap::Check(check));
                    }
                }
                Instr::EmptyReduction => return Err(Trap::EmptyReduction),
                _ => return Ok(instr),
            }
            *pc += 1;
        }
    }

    fn step(&mut self) -> Result<(), Trap> {
        self.steps.take()
    }

    fn count(&mut self, instr: Instr, routine: &Routine) {
        let Some(c) = self.counts.as_deref_mut() else { return };
        match instr {
            Instr::AddIndex { .. } | Instr::MulIndex { .. } => c.int_ops += 1,
            Instr::AddF32 { .. } | Instr::MulF32 { .. } | Instr::AddF64 { .. } | Instr::MulF64 { .. } => {
                c.flops += 1;
            }
            Instr::Fma { .. } => c.flops += 2,
            Instr::Math { f: MathFn::Sqrt, .. } => c.flops += 1,
            Instr::Binary { op, ty, .. } if !op.is_comparison() => {
                if ty.is_float() {
                    c.flops += 1;
                } else if ty != Scalar::Bool && !matches!(op, BinOp::And | BinOp::Or | BinOp::Xor) {
                    c.int_ops += 1;
                }
            }
            Instr::Load { access, .. } | Instr::LoadMany { access, .. } => {
                let a = &routine.accesses[access as usize];
                if a.counted {
                    c.loads += 1;
                    c.bytes_read += a.bytes;
                }
            }
            Instr::Store { access, .. } | Instr::StoreMany { access, .. } => {
                let a = &routine.accesses[access as usize];
                if a.counted {
                    c.stores += 1;
                    c.bytes_written += a.bytes;
                }
            }
            _ => {}
        }
    }

    /// Tells the race detection about an access.
    fn touch(
        &mut self,
        routine: &Routine,
        access: &AccessCode,
        view: &Descriptor,
        at: usize,
        touch: Touch,
        regs: &[u64],
    ) -> Result<(), Trap> {
        let Some(order) = self.races.as_deref_mut() else { return Ok(()) };
        let cells = self.heap.of(view)?;
        let size = cells.elem_bytes.max(1);
        if let Some(held) = &access.held {
            is_held(held, &mut cells.holders, at / size, touch, regs)?;
        }
        let touch = match (access.atomic, touch) {
            (Some(_), Touch::Read) => Touch::AtomicRead,
            (Some(_), Touch::Write) => Touch::Atomic,
            (_, plain) => plain,
        };
        // Reinterpreted bytes may cover several elements of the buffer.
        for element in at / size..=(at + (access.bytes as usize).max(1) - 1) / size {
            let space = cells.space;
            let Some(conflict) =
                order.touch(&mut cells.history, element, (touch, access.atomic), self.event, space)
            else {
                continue;
            };
            let name = |event: u32| {
                let e = &order.events[event as usize];
                let site = &self.routines[e.routine as usize].sites[e.site as usize];
                let loops: Vec<_> =
                    site.loops.iter().zip(e.loops.iter()).map(|(l, v)| (l.0.clone(), *v)).collect();
                (
                    statement(site.label.as_ref(), site.what, e.instance.as_deref(), &loops),
                    site.places.clone(),
                )
            };
            let index: Vec<String> =
                access.index.iter().map(|r| (regs[*r as usize] as i64).to_string()).collect();
            let buffer = &routine.slot_names[access.slot as usize];
            let (earlier, places) = name(conflict.earlier);
            return Err(Trap::Race(Box::new(RaceReport {
                element: format!("{buffer}[{}]", index.join(", ")),
                earlier: (earlier, conflict.earlier_touch, places),
                later: (name(self.event).0, touch),
            })));
        }
        Ok(())
    }
}

/// Whether the iteration that accesses an element of a distributed array has it: the one that the layout names, and, to
/// read it, the one that wrote it.
fn is_held(
    held: &HeldCode,
    holders: &mut HashMap<usize, u64>,
    element: usize,
    touch: Touch,
    regs: &[u64],
) -> Result<(), Trap> {
    for (over, owner, here) in &held.owners {
        let (owner, here) = (regs[*owner as usize] as i64, here.map(|r| regs[r as usize] as i64));
        if here != Some(owner) {
            return Err(Trap::NotHeld { over: over.clone(), owner: Some(owner), here });
        }
    }
    let mut me = std::hash::DefaultHasher::new();
    held.around.iter().for_each(|(name, r)| (name, regs[*r as usize]).hash(&mut me));
    let me = me.finish();
    if touch == Touch::Write {
        holders.insert(element, me);
        return Ok(());
    }
    let others = |l: &&(Name, u32)| held.owners.iter().all(|o| o.0 != l.0);
    match holders.get(&element) {
        Some(holder) if *holder != me => {
            let (over, r) = held.around.iter().find(others).or(held.around.first()).cloned().unzip();
            let here = r.map(|r| regs[r as usize] as i64);
            Err(Trap::NotHeld { over: over.unwrap_or_default(), owner: None, here })
        }
        _ => Ok(()),
    }
}

/// Whether the functions around declare the access.
#[inline]
fn permitted(access: &AccessCode, view: &Descriptor, at: usize, write: bool) -> Result<(), Trap> {
    let forbidden = view.permit.as_ref().and_then(|p| p.forbids(at, access.bytes as usize, write));
    forbidden.map_or(Ok(()), |function| Err(Trap::Undeclared { function: function.clone() }))
}

impl<'c> Machine<'c> {
    pub(super) fn context(&mut self, event: u32) -> Context<'_, 'c> {
        Context {
            routines: &self.compiled.routines,
            heap: &mut self.heap,
            counts: self.count.then_some(&mut self.counts),
            steps: &mut self.steps,
            races: self.races.as_mut(),
            event,
        }
    }
}
