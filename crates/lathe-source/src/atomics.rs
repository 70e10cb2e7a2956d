//! Atomics: what the compiler or the device has for the type, else a loop around compare-and-swap.
//!
//! The host's compilers have builtins for every scalar type. Devices compare and swap integers of 32 and 64 bits; floats
//! are their bits, and what is smaller is swapped within the word around it. Memory of one thread needs none of that.

use crate::device::language::Language;
use crate::emit::{Emitter, Result, Var, ill_formed, unsupported};
use crate::helpers::{memory_type, unsigned_type};
use crate::writer::bare;
use lathe_diagnostics::Places;
use lathe_ir::build::var;
use lathe_ir::reduce::combine;
use lathe_ir::stmt::{Atomic, AtomicOp, MemoryOrder};
use lathe_ir::{Binder, Expr, ReduceOp, Scalar, Space, VarId};

/// Where an element is, as far as that decides how it is reached.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    Host,
    /// Of one thread of a device.
    Own,
    Cuda {
        shared: bool,
    },
    /// With the name of its address space.
    OpenCl(&'static str),
}

/// An element that is touched, and what is said about it.
pub(crate) struct Element {
    /// C text of its address.
    pub at: String,
    pub s: Scalar,
    memory: Memory,
    order: MemoryOrder,
}

impl Element {
    /// The unsigned type that has its bits.
    pub fn unsigned(&self) -> &'static str {
        unsigned_type(self.bits())
    }

    pub fn bits(&self) -> u32 {
        self.s.bytes() as u32 * 8
    }

    /// The address as one of integers that the device's functions take.
    fn word(&self, signed: bool) -> String {
        let word = match (self.memory, self.bits(), signed) {
            (Memory::OpenCl(_), 64, true) => "long",
            (Memory::OpenCl(_), 64, false) => "ulong",
            (Memory::OpenCl(_), _, false) => "uint",
            (_, 64, true) => "long long",
            (_, 64, false) => "unsigned long long",
            (_, _, true) => "int",
            (_, _, false) => "unsigned int",
        };
        match self.memory {
            Memory::OpenCl(space) => format!("(volatile {space} {word} *){}", self.at),
            _ => format!("({word} *){}", self.at),
        }
    }

    /// The device's function for words of 32 or 64 bits.
    fn function(&self, cuda: &str, opencl: &str) -> String {
        match (self.memory, self.bits()) {
            (Memory::OpenCl(_), 64) => format!("atom_{opencl}"),
            (Memory::OpenCl(_), _) => format!("atomic_{opencl}"),
            _ => format!("atomic{cuda}"),
        }
    }
}

fn name_of(order: MemoryOrder) -> &'static str {
    match order {
        MemoryOrder::Relaxed | MemoryOrder::InOrder => "__ATOMIC_RELAXED",
        MemoryOrder::Acquire => "__ATOMIC_ACQUIRE",
        MemoryOrder::Release => "__ATOMIC_RELEASE",
        MemoryOrder::AcqRel => "__ATOMIC_ACQ_REL",
        MemoryOrder::SeqCst => "__ATOMIC_SEQ_CST",
    }
}

/// The order of an exchange that does not take place.
fn failed(order: MemoryOrder) -> &'static str {
    match order {
        MemoryOrder::Relaxed | MemoryOrder::Release | MemoryOrder::InOrder => "__ATOMIC_RELAXED",
        MemoryOrder::Acquire | MemoryOrder::AcqRel => "__ATOMIC_ACQUIRE",
        MemoryOrder::SeqCst => "__ATOMIC_SEQ_CST",
    }
}

impl Emitter<'_> {
    /// The access, and what stands inside of it.
    pub fn atomic(&mut self, a: &Atomic, places: &Places) -> Result<()> {
        let (e, values, text) = self.touched(a, places)?;
        if a.order == MemoryOrder::InOrder && self.device.is_some() {
            return self.turn_of_thread(a, &e, &values[0]);
        }
        let memory = e.memory;
        let fence = match memory {
            Memory::Cuda { .. } => Some(Language::Cuda.fence()),
            Memory::OpenCl(_) => Some(Language::OpenCl.fence()),
            Memory::Host | Memory::Own => None,
        };
        fence.filter(|_| a.order.releases()).into_iter().for_each(|f| self.line(f));
        let old = match memory {
            Memory::Host => self.by_builtin(a, &e, &values)?,
            Memory::Own => self.by_nobody_else(a, &e, &text, &values)?,
            Memory::Cuda { .. } | Memory::OpenCl(_) => self.by_device(a, &e, &values)?,
        };
        fence.filter(|_| a.order.acquires()).into_iter().for_each(|f| self.line(f));
        if let Some(binder) = &a.old {
            let old = old.ok_or_else(|| ill_formed("an atomic that does not tell what it found"))?;
            let name = self.names.fresh(&binder.name);
            self.line(format!("const {} {name} = {};", memory_type(e.s), bare(&old)));
            let frame = self.frames.len() - 1;
            self.vars.insert(binder.id, Var { name, ty: e.s, frame, lanes: false });
        }
        self.stmt(&a.body)
    }

    /// The element of an atomic, the values that it is given, and C text of the element.
    pub(crate) fn touched(&mut self, a: &Atomic, places: &Places) -> Result<(Element, Vec<String>, String)> {
        let Some(s) = a.target.elem.scalar().filter(|_| self.lanes.is_none()) else {
            return Err(unsupported(format!("the atomic `{}`", a.label), places));
        };
        let (b, indices) = (self.buf_of(&a.target)?, &a.target.indices);
        let mut operands: Vec<&Expr> = Vec::new();
        a.op.for_each_expr(&mut |e| operands.push(e));
        self.begin(&indices.iter().chain(operands.iter().copied()).collect::<Vec<_>>());
        let mut values = Vec::new();
        for e in operands {
            let text = self.uniform(e)?;
            let name = self.names.fresh("value");
            self.line(format!("const {} {name} = {};", memory_type(s), bare(&text)));
            values.push(name);
        }
        let text = self.element(&b, indices)?;
        let memory = match (self.device.map(|d| d.language), b.decl.space) {
            (None, _) => Memory::Host,
            (Some(_), Space::Stack | Space::Register) => Memory::Own,
            (Some(Language::Cuda), space) => Memory::Cuda { shared: space == Space::Shared },
            (Some(Language::OpenCl), Space::Shared) => Memory::OpenCl("__local"),
            (Some(Language::OpenCl), _) => Memory::OpenCl("__global"),
        };
        let e = Element { at: format!("&{text}"), s, memory, order: a.order };
        Ok((e, values, text))
    }

    /// A value in memory form, as a variable whose address can be taken.
    fn in_memory(&mut self, e: &Element, value: &str) -> String {
        let name = self.names.fresh("cell");
        self.line(format!("{} {name} = {};", memory_type(e.s), bare(value)));
        name
    }

    /// By GCC's and Clang's builtins; the value that was found.
    fn by_builtin(&mut self, a: &Atomic, e: &Element, values: &[String]) -> Result<Option<String>> {
        let (at, order, t) = (&e.at, name_of(e.order), memory_type(e.s));
        let found = match (&a.op, values) {
            (AtomicOp::Load, _) => {
                let found = self.names.fresh("found");
                self.line(format!("{t} {found};"));
                self.line(format!("__atomic_load({at}, &{found}, {order});"));
                found
            }
            (AtomicOp::Store(_), [v]) if a.old.is_none() => {
                let v = self.in_memory(e, v);
                self.line(format!("__atomic_store({at}, &{v}, {order});"));
                return Ok(None);
            }
            (AtomicOp::Store(_) | AtomicOp::Exchange(_), [v]) => {
                let (v, found) = (self.in_memory(e, v), self.names.fresh("found"));
                self.line(format!("{t} {found};"));
                self.line(format!("__atomic_exchange({at}, &{v}, &{found}, {order});"));
                found
            }
            (AtomicOp::CompareExchange { .. }, [expected, desired]) => {
                let (found, v) = (self.in_memory(e, expected), self.in_memory(e, desired));
                let failed = failed(e.order);
                self.line(format!("__atomic_compare_exchange({at}, &{found}, &{v}, 0, {order}, {failed});"));
                found
            }
            (AtomicOp::Update(op, _), [v]) => {
                let builtin = match op {
                    ReduceOp::Sum if e.s.is_int() => Some("add"),
                    ReduceOp::All if e.s == Scalar::Bool => Some("and"),
                    ReduceOp::Any if e.s == Scalar::Bool => Some("or"),
                    _ => None,
                };
                if let Some(builtin) = builtin {
                    let call = format!("__atomic_fetch_{builtin}({at}, {v}, {order})");
                    return Ok(self.found_by(a, e, call));
                }
                let found = self.names.fresh("found");
                self.line(format!("{t} {found};"));
                self.line(format!("__atomic_load({at}, &{found}, __ATOMIC_RELAXED);"));
                self.open("for (;;) {");
                let new = self.combined(a, op, e.s, (&found.clone(), v))?;
                let (new, failed) = (self.in_memory(e, &new), failed(e.order));
                self.line(format!(
                    "if (__atomic_compare_exchange({at}, &{found}, &{new}, 0, {order}, {failed})) break;"
                ));
                self.close("}");
                found
            }
            _ => return Err(ill_formed("an atomic with a wrong number of values")),
        };
        Ok(Some(found))
    }

    /// A call whose value is what was found, as a variable where that is asked for.
    fn found_by(&mut self, a: &Atomic, e: &Element, call: String) -> Option<String> {
        if a.old.is_none() {
            self.line(format!("{call};"));
            return None;
        }
        let found = self.names.fresh("found");
        self.line(format!("const {t} {found} = ({t}){call};", t = memory_type(e.s)));
        Some(found)
    }

    /// What `element op= v` makes of what was found there in memory form; as C text of a value.
    pub(crate) fn combined(
        &mut self,
        a: &Atomic,
        op: &ReduceOp,
        s: Scalar,
        (found, v): (&str, &str),
    ) -> Result<String> {
        let name = self.names.fresh("old");
        self.line(format!("const {} {name} = {found};", memory_type(s)));
        let bound = |e: &mut Self, name: &str| {
            let binder = Binder { id: VarId(e.fresh_id()), name: name.into(), ty: s };
            let frame = e.frames.len() - 1;
            e.vars.insert(binder.id, Var { name: name.to_string(), ty: s, frame, lanes: false });
            var(&binder)
        };
        let (old, v) = (bound(self, &name), bound(self, v));
        let new = combine(self.module, op, &[old], &[v])
            .and_then(|n| n.into_iter().next())
            .ok_or_else(|| ill_formed(format!("`{op}` is not defined on the target of `{}`", a.label)))?;
        let new = lathe_lower::halves::expr(&new);
        self.begin(&[&new]);
        self.uniform(&new)
    }

    /// In memory of one thread, an update is a read and a write.
    fn by_nobody_else(
        &mut self,
        a: &Atomic,
        e: &Element,
        text: &str,
        values: &[String],
    ) -> Result<Option<String>> {
        let found = self.names.fresh("found");
        self.line(format!("const {} {found} = {text};", memory_type(e.s)));
        let (new, only) = match (&a.op, values) {
            (AtomicOp::Load, _) => (None, None),
            (AtomicOp::Store(_) | AtomicOp::Exchange(_), [v]) => (Some(v.clone()), None),
            (AtomicOp::CompareExchange { .. }, [expected, desired]) => {
                let expected = self.in_memory(e, expected);
                let same = format!("{} == {}", self.bits_of(e, &found), self.bits_of(e, &expected));
                (Some(desired.clone()), Some(same))
            }
            (AtomicOp::Update(op, _), [v]) => (Some(self.combined(a, op, e.s, (&found.clone(), v))?), None),
            _ => return Err(ill_formed("an atomic with a wrong number of values")),
        };
        if let Some(new) = new {
            let only = only.map_or(String::new(), |c| format!("if ({c}) "));
            self.line(format!("{only}{text} = {};", bare(&new)));
        }
        Ok(Some(found))
    }

    /// The bits of an element in memory form.
    pub(crate) fn bits_of(&mut self, e: &Element, text: &str) -> String {
        match e.s {
            Scalar::F32 => format!("{}({text})", self.helpers.bits(Scalar::F32, Scalar::U32)),
            Scalar::F64 => format!("{}({text})", self.helpers.bits(Scalar::F64, Scalar::U64)),
            _ => format!("({}){text}", e.unsigned()),
        }
    }

    /// An element in memory form from its bits.
    pub(crate) fn of_bits(&mut self, e: &Element, text: &str) -> String {
        match e.s {
            Scalar::F32 => format!("{}({text})", self.helpers.bits(Scalar::U32, Scalar::F32)),
            Scalar::F64 => format!("{}({text})", self.helpers.bits(Scalar::U64, Scalar::F64)),
            _ => format!("({}){text}", memory_type(e.s)),
        }
    }

    /// What the device found in memory that blocks or threads share.
    fn by_device(&mut self, a: &Atomic, e: &Element, values: &[String]) -> Result<Option<String>> {
        let u = e.unsigned();
        let mut bits = Vec::new();
        for v in values {
            bits.push(self.bits_of(e, v));
        }
        let small = e.bits() < 32;
        let found = match (&a.op, bits.as_slice()) {
            (AtomicOp::Load, _) => self.read(e),
            (AtomicOp::Store(_) | AtomicOp::Exchange(_), [v]) if !small => {
                let call = format!("{}({}, {v})", e.function("Exch", "xchg"), e.word(false));
                if a.old.is_none() {
                    self.line(format!("{call};"));
                    return Ok(None);
                }
                let found = self.names.fresh("found");
                self.line(format!("const {u} {found} = {call};"));
                found
            }
            (AtomicOp::CompareExchange { .. }, [expected, desired]) => {
                let call = self.swap(e, expected, desired);
                let found = self.names.fresh("found");
                self.line(format!("const {u} {found} = {call};"));
                found
            }
            (AtomicOp::Update(op, _), [v]) => {
                if let Some(call) = instruction(e, op, &values[0]) {
                    return Ok(self.found_by(a, e, call));
                }
                let _ = v;
                self.until_swapped(e, |me, found| {
                    let memory = me.of_bits(e, found);
                    let new = me.combined(a, op, e.s, (&memory, &values[0]))?;
                    Ok(me.bits_of(e, &new))
                })?
            }
            (AtomicOp::Store(_) | AtomicOp::Exchange(_), [v]) => {
                let v = v.clone();
                self.until_swapped(e, |_, _| Ok(v))?
            }
            _ => return Err(ill_formed("an atomic with a wrong number of values")),
        };
        let memory = self.of_bits(e, &found);
        Ok(Some(memory))
    }

    /// A variable with the element's bits.
    fn read(&mut self, e: &Element) -> String {
        let (u, found) = (e.unsigned(), self.names.fresh("found"));
        let space = if let Memory::OpenCl(space) = e.memory { space } else { "" };
        self.line(format!("{u} {found} = *(const volatile {space} {u} *){};", e.at));
        found
    }

    /// Replaces the element by what `new` makes of what was found, until no other thread came between.
    fn until_swapped(
        &mut self,
        e: &Element,
        new: impl FnOnce(&mut Self, &str) -> Result<String>,
    ) -> Result<String> {
        let found = self.read(e);
        self.open("for (;;) {");
        let new = new(self, &found)?;
        let (swap, seen) = (self.swap(e, &found, &new), self.names.fresh("seen"));
        self.line(format!("const {} {seen} = {swap};", e.unsigned()));
        self.line(format!("if ({seen} == {found}) break;"));
        self.line(format!("{found} = {seen};"));
        self.close("}");
        Ok(found)
    }

    /// Compares and swaps an element's bits; the value is what was found.
    fn swap(&mut self, e: &Element, expected: &str, desired: &str) -> String {
        match (e.memory, e.bits()) {
            (Memory::Cuda { .. }, 16) => {
                format!("atomicCAS((unsigned short *){}, {expected}, {desired})", e.at)
            }
            (_, 32 | 64) => {
                let (f, at) = (e.function("CAS", "cmpxchg"), e.word(false));
                format!("{f}({at}, {expected}, {desired})")
            }
            (_, bits) => {
                let f = self.small_swap(e, bits);
                format!("{f}({}, {expected}, {desired})", e.at)
            }
        }
    }

    /// The helper that compares and swaps within the word around an element of 8 or 16 bits. Arrays begin where 16
    /// divides the address, and a word around their last element ends before their memory does.
    fn small_swap(&mut self, e: &Element, bits: u32) -> String {
        let (u, m) = (e.unsigned(), memory_type(e.s));
        let (space, suffix, swap, address) = match e.memory {
            Memory::OpenCl(space) => (
                format!("{space} "),
                if space == "__local" { "_local" } else { "_global" },
                "atomic_cmpxchg",
                "size_t",
            ),
            _ => (String::new(), "", "atomicCAS", "uint64_t"),
        };
        let name = format!("lathe_swap_{m}{suffix}");
        let mask = if bits == 8 { "0xffu" } else { "0xffffu" };
        self.helpers.other(
            2,
            format!(
                "static inline {u} {name}({space}{m} *at, {u} expected, {u} desired) {{\n    \
                 volatile {space}uint32_t *word = (volatile {space}uint32_t *)(({address})at & ~({address})3);\n    \
                 const uint32_t shift = (uint32_t)(({address})at & 3) * 8;\n    \
                 uint32_t seen = *word;\n    \
                 for (;;) {{\n        \
                 if (({u})(seen >> shift) != expected) return ({u})(seen >> shift);\n        \
                 const uint32_t wanted = (seen & ~({mask} << shift)) | (uint32_t)desired << shift;\n        \
                 const uint32_t found = {swap}(({volatile}{space}uint32_t *)word, seen, wanted);\n        \
                 if (found == seen) return expected;\n        \
                 seen = found;\n    \
                 }}\n}}",
                volatile = if suffix.is_empty() { "" } else { "volatile " },
            ),
        );
        name
    }
}

/// The device's instruction for an update: `call` gives the value that was found, in memory form.
fn instruction(e: &Element, op: &ReduceOp, v: &str) -> Option<String> {
    let cuda = matches!(e.memory, Memory::Cuda { .. });
    let bits = e.bits();
    match op {
        // Beside global memory subnormal numbers become zeros.
        ReduceOp::Sum if cuda && e.s == Scalar::F32 && e.memory == (Memory::Cuda { shared: true }) => {
            Some(format!("atomicAdd({}, {v})", e.at))
        }
        ReduceOp::Sum if cuda && e.s == Scalar::F64 => Some(format!("atomicAdd({}, {v})", e.at)),
        ReduceOp::Sum if e.s.is_int() && bits >= 32 => {
            Some(format!("{}({}, ({}){v})", e.function("Add", "add"), e.word(false), e.unsigned()))
        }
        ReduceOp::Min | ReduceOp::Max if e.s.is_int() && (bits == 32 || cuda && bits == 64) => {
            let (cuda, opencl) = if *op == ReduceOp::Min { ("Min", "min") } else { ("Max", "max") };
            Some(format!("{}({}, {v})", e.function(cuda, opencl), e.word(e.s.is_signed())))
        }
        _ => None,
    }
}
