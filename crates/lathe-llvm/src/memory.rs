//! Reading and writing elements.

use crate::emit::{Buf, Emitter, Lanes, Result, defect};
use crate::ir::Value;
use crate::value::{self, Leaf, Val};
use lathe_ir::{Access, Scalar, Type};
use lathe_lower::addresses;
use llvm_sys::LLVMIntPredicate as I;

/// An element, or one per lane.
pub struct Place {
    pub buf: Buf,
    /// From the buffer's first element, in elements.
    offset: Leaf,
    /// Elements from lane to lane, of which only the run knows how many; the offset is that of the first lane.
    apart: Option<Value>,
}

impl Place {
    pub fn new(buf: Buf, offset: Leaf) -> Place {
        Place { buf, offset, apart: None }
    }

    /// If it is known how far lanes are apart.
    pub fn offset(&self) -> Option<Leaf> {
        self.apart.is_none().then_some(self.offset)
    }
}

/// Elements before and after a private buffer.
pub const PADDING: u64 = 64;
/// Bytes of a line of the caches, where fields begin.
const LINE: u64 = 64;

/// How the lanes of an access lie in memory.
enum Lie {
    One(Value),
    /// One after the other from a first address; downwards if reversed.
    Row {
        first: Value,
        reversed: bool,
    },
    /// So many bytes from one to the next.
    Apart {
        first: Value,
        bytes: Value,
    },
    Anywhere(Value),
}

/// Elements of lanes one after the other, as one vector.
struct Block {
    at: Value,
    s: Scalar,
    /// Scalars of an element, two to four.
    parts: u32,
    width: u32,
    reversed: bool,
    /// One bit for each scalar.
    mask: Option<Value>,
}

/// The scalars of an element that is nothing but two to four of one type.
fn packed(ty: &Type) -> Option<(Scalar, u32)> {
    let mut leaves = Vec::new();
    leaf_offsets(ty, 0, &mut leaves);
    let s = leaves.first().filter(|l| l.1 != Scalar::Bool)?.1;
    let side_by_side = leaves.iter().zip(0..).all(|((at, t), n)| *t == s && *at == n * s.bytes());
    let whole = ty.bytes() == leaves.len() as u64 * s.bytes();
    ((2..=4).contains(&leaves.len()) && side_by_side && whole).then_some((s, leaves.len() as u32))
}

/// Byte offset and type of every scalar of an element.
fn leaf_offsets(ty: &Type, at: u64, out: &mut Vec<(u64, Scalar)>) {
    match ty {
        Type::Scalar(s) => out.push((at, *s)),
        Type::Vector(s, n) => out.extend((0..u64::from(*n)).map(|i| (at + i * s.bytes(), *s))),
        _ => {
            for (t, o) in ty.fields().iter().zip(ty.offsets()) {
                leaf_offsets(t, at + o, out);
            }
        }
    }
}

/// Bytes of all fields of elements that are kept field by field, up to the one that an element has at `at`.
fn field_start(ty: &Type, count: u64, at: Option<u64>) -> u64 {
    let mut leaves = Vec::new();
    leaf_offsets(ty, 0, &mut leaves);
    let before = leaves.iter().take_while(|l| Some(l.0) != at);
    before.map(|(_, s)| (count * s.bytes()).next_multiple_of(LINE)).sum()
}

/// Bytes of elements that are kept field by field.
pub fn fields_bytes(ty: &Type, count: u64) -> u64 {
    field_start(ty, count, None)
}

impl Emitter<'_> {
    /// The place of an access; its subscripts are emitted here.
    pub fn place(&mut self, a: &Access) -> Result<Place> {
        let ir = self.ir;
        let buf = addresses::buffer(a).and_then(|b| self.frame.bufs.get(&b)).cloned();
        let buf = buf.ok_or_else(|| defect("an access of a buffer that is not bound here"))?;
        let width = self.width();
        let (mut offset, mut apart) = (Leaf::Uniform(ir.i64(0)), None);
        for (i, stride) in a.indices.iter().zip(buf.strides.clone()) {
            let mut i = self.scalar(i)?;
            if let Leaf::Linear { base, step } = i
                && ir.as_const(stride).is_none()
                && buf.per_lane.is_none()
            {
                let by = ir.mul_index(stride, ir.i64(step));
                apart = Some(apart.map_or(by, |a| ir.add_index(a, by)));
                i = Leaf::Uniform(base);
            }
            offset = value::add(ir, offset, value::mul(ir, i, Leaf::Uniform(stride), width), width);
        }
        if let Some(w) = buf.per_lane {
            let lanes = Leaf::Uniform(ir.i64(i64::from(w)));
            let lane = Leaf::Linear { base: ir.i64(0), step: 1 };
            offset = value::add(ir, value::mul(ir, offset, lanes, width), lane, width);
        }
        match (apart, offset, width) {
            (Some(by), Leaf::Linear { base, step }, _) => {
                apart = Some(ir.add_index(by, ir.i64(step)));
                offset = Leaf::Uniform(base);
            }
            (Some(by), Leaf::Varying(v), Some(w)) => {
                let lanes = ir.mul_index(ir.splat(by, w), ir.ramp(1, w));
                (apart, offset) = (None, Leaf::Varying(ir.add_index(v, lanes)));
            }
            _ => {}
        }
        Ok(Place { buf, offset, apart })
    }

    pub fn load(&mut self, a: &Access) -> Result<Val> {
        if let Some(v) = addresses::buffer(a).and_then(|b| self.frame.values.get(&b)) {
            return Ok(v.clone());
        }
        let place = self.place(a)?;
        Ok(self.load_place(&place))
    }

    pub fn load_place(&mut self, p: &Place) -> Val {
        if let Some(block) = self.block_of(p) {
            return self.load_block(&block);
        }
        let mut leaves = Vec::new();
        leaf_offsets(&p.buf.decl.elem, 0, &mut leaves);
        leaves.into_iter().map(|(at, s)| self.load_leaf(p, at, s)).collect()
    }

    pub fn store_place(&mut self, p: &Place, v: &Val, nontemporal: bool) {
        if let Some(block) = self.block_of(p) {
            return self.store_block(&block, v, nontemporal);
        }
        let mut leaves = Vec::new();
        leaf_offsets(&p.buf.decl.elem, 0, &mut leaves);
        for ((at, s), leaf) in leaves.into_iter().zip(v) {
            self.store_leaf(p, at, s, *leaf, nontemporal);
        }
    }

    /// Where lanes one after the other access elements of several scalars of one type: these are one vector, from which the
    /// scalars are taken by shuffles (complex numbers, pixels).
    fn block_of(&self, p: &Place) -> Option<Block> {
        let lanes = self.frame.lanes.filter(|_| p.buf.fields.is_none())?;
        let elem = &p.buf.decl.elem;
        let (s, parts) = packed(elem)?;
        let ir = self.ir;
        let (first, reversed) = match p.offset {
            Leaf::Linear { base, step: 1 } => (base, false),
            Leaf::Linear { base, step: -1 } => (ir.add_index(base, ir.i64(1 - i64::from(lanes.width))), true),
            _ => return None,
        };
        let bytes = ir.mul_index(first, ir.i64(elem.bytes() as i64));
        let at = ir.element(ir.int_ty(8), p.buf.ptr, bytes);
        let mask = lanes.mask.map(|m| {
            let each = (0..lanes.width).flat_map(|l| std::iter::repeat_n(l, parts as usize));
            let m = if reversed { ir.reverse(m, lanes.width) } else { m };
            ir.shuffle(m, m, each)
        });
        Some(Block { at, s, parts, width: lanes.width, reversed, mask })
    }

    fn load_block(&self, b: &Block) -> Val {
        let ir = self.ir;
        let vector = ir.widen(ir.memory_ty(b.s), Some(b.width * b.parts));
        let all = match b.mask {
            Some(m) => {
                let args = [b.at, m, ir.zero(vector)];
                let call = ir.intrinsic("llvm.masked.load", &[vector, ir.ptr_ty()], &args);
                ir.align_argument(call, 0, b.s.bytes());
                call
            }
            None => ir.load(vector, b.at, b.s.bytes()),
        };
        let part = |n: u32| {
            let v = ir.shuffle(all, all, (0..b.width).map(|l| l * b.parts + n));
            Leaf::Varying(if b.reversed { ir.reverse(v, b.width) } else { v })
        };
        (0..b.parts).map(part).collect()
    }

    fn store_block(&mut self, b: &Block, v: &Val, nontemporal: bool) {
        let ir = self.ir;
        let vectors = v.iter().map(|leaf| {
            let v = leaf.at(ir, Some(b.width));
            if b.reversed { ir.reverse(v, b.width) } else { v }
        });
        let vectors: Vec<Value> = vectors.collect();
        let w = b.width;
        let pair = |a: Value, c: Value| ir.shuffle(a, c, 0..2 * w);
        // The lane of part `n` of element `l` when the parts lie one after the other.
        let lanes = (0..w).flat_map(|l| (0..b.parts).map(move |n| n * w + l));
        let all = match vectors[..] {
            [x, y] => ir.shuffle(x, y, lanes),
            [x, y, z] => ir.shuffle(pair(x, y), pair(z, z), lanes),
            [x, y, z, u] => ir.shuffle(pair(x, y), pair(z, u), lanes),
            _ => return,
        };
        let bytes = b.s.bytes();
        match b.mask {
            None if nontemporal => self.store_nontemporal(all, b.at, bytes * u64::from(w * b.parts), bytes),
            None => {
                ir.store(all, b.at, bytes);
            }
            Some(m) => {
                let overloads = [ir.type_of(all), ir.ptr_ty()];
                let call = ir.intrinsic("llvm.masked.store", &overloads, &[all, b.at, m]);
                ir.align_argument(call, 1, bytes);
            }
        }
    }

    /// Hints that an element will be read soon: to the second cache.
    pub fn prefetch(&mut self, p: &Place) {
        let Some(s) = p.buf.decl.elem.scalar().filter(|_| p.buf.fields.is_none() && !p.buf.private) else {
            return;
        };
        if let Lie::One(address) = self.lie(p, 0, s) {
            let (ir, read, second, data) = (self.ir, 0, 2, 1);
            let args = [address, ir.i32(read), ir.i32(second), ir.i32(data)];
            ir.intrinsic("llvm.prefetch", &[ir.ptr_ty()], &args);
        }
    }

    /// The address of a scalar, if it is the same for all lanes.
    pub fn address(&self, p: &Place, s: Scalar) -> Option<Value> {
        match self.lie(p, 0, s) {
            Lie::One(at) => Some(at),
            Lie::Row { .. } | Lie::Apart { .. } | Lie::Anywhere(_) => None,
        }
    }

    /// Whether all lanes would write one element.
    pub fn is_shared(&self, p: &Place) -> bool {
        self.frame.lanes.is_some() && p.offset().is_some_and(Leaf::is_uniform)
    }

    /// Whether lanes that are masked off may be read and written back: the padding of private buffers
    /// is as wide as a vector, so one lane that takes part keeps all others inside.
    fn is_harmless(&self, p: &Place) -> bool {
        let l = self.frame.lanes;
        let Some(Leaf::Uniform(base) | Leaf::Linear { base, .. }) = p.offset() else { return false };
        p.buf.private
            && (self.ir.as_const(base).is_some() || l.is_none_or(|l| !l.maybe_empty))
            && l.is_none_or(|l| u64::from(l.width) <= PADDING)
    }

    /// Whether the lanes that are masked off are between the rows of a buffer, where nothing is.
    fn is_between_rows(&self, p: &Place, l: &Lanes) -> bool {
        let row = p.buf.decl.extents.last().filter(|_| p.buf.private);
        let apart = p.buf.strides.len().checked_sub(2).and_then(|d| self.ir.as_const(p.buf.strides[d]));
        let (Some(row), Some(apart), Some(n)) =
            (row.and_then(|x| x.as_int()), apart.filter(|s| *s > 0), l.first)
        else {
            return false;
        };
        let Leaf::Linear { base, step: 1 } = p.offset else { return false };
        let column = self.ir.as_const(base).filter(|b| *b >= 0).map(|b| b % apart);
        column.is_some_and(|c| c + n >= row && c + i64::from(l.width) <= apart)
    }

    fn lie(&self, p: &Place, at: u64, s: Scalar) -> Lie {
        let ir = self.ir;
        let elem = &p.buf.decl.elem;
        let plain = elem.scalar().is_some();
        let size = elem.bytes() as i64;
        let byte = ir.int_ty(8);
        let apart = |first: Value, size: i64| {
            let bytes = ir.mul_index(p.apart?, ir.i64(size));
            let from = ir.mul_index(p.offset.at(ir, None), ir.i64(size));
            Some(Lie::Apart { first: ir.element(byte, first, from), bytes })
        };
        if let Some(f) = p.buf.fields {
            let start = field_start(elem, f.count, Some(at)) + f.padding * s.bytes();
            let first = ir.element_in_bounds(byte, p.buf.ptr, ir.i64(start as i64));
            if let Some(apart) = apart(first, s.bytes() as i64) {
                return apart;
            }
            let ty = ir.memory_ty(s);
            let address = |index: Value| ir.element_in_bounds(ty, first, index);
            return match p.offset {
                Leaf::Uniform(v) => Lie::One(address(v)),
                Leaf::Linear { base, step: 1 } => Lie::Row { first: address(base), reversed: false },
                offset => {
                    let width = self.width();
                    let lanes = offset.at(ir, width);
                    let size = ir.splat_const(ir.i64(s.bytes() as i64), width);
                    Lie::Anywhere(ir.element(byte, first, ir.mul_index(lanes, size)))
                }
            };
        }
        if let Some(apart) = apart(ir.element(byte, p.buf.ptr, ir.i64(at as i64)), size) {
            return apart;
        }
        let address = |index: Value| {
            if plain {
                let ty = ir.memory_ty(s);
                return if p.buf.private {
                    ir.element_in_bounds(ty, p.buf.ptr, index)
                } else {
                    ir.element(ty, p.buf.ptr, index)
                };
            }
            let bytes = ir.add_index(ir.mul_index(index, ir.i64(size)), ir.i64(at as i64));
            ir.element(byte, p.buf.ptr, bytes)
        };
        match p.offset {
            Leaf::Uniform(v) => Lie::One(address(v)),
            Leaf::Linear { base, step: 1 } if plain => Lie::Row { first: address(base), reversed: false },
            Leaf::Linear { base, step: -1 } if plain => {
                let w = i64::from(self.width().unwrap_or(1));
                Lie::Row { first: address(ir.add_index(base, ir.i64(1 - w))), reversed: true }
            }
            offset => {
                let width = self.width();
                let lanes = offset.at(ir, width);
                let c = |v| ir.splat_const(ir.i64(v), width);
                let bytes = ir.add_index(ir.mul_index(lanes, c(size)), c(at as i64));
                Lie::Anywhere(ir.element(byte, p.buf.ptr, bytes))
            }
        }
    }

    fn load_leaf(&mut self, p: &Place, at: u64, s: Scalar) -> Leaf {
        let ir = self.ir;
        let ty = ir.memory_ty(s);
        let lanes = self.frame.lanes;
        let width = self.width();
        let vector = ir.widen(ty, width);
        let align = s.bytes();
        let (v, width) = match (self.lie(p, at, s), lanes) {
            (Lie::One(ptr), Some(l)) if l.maybe_empty && !self.is_harmless(p) => {
                // No lane may take part, and then nothing may be read: as a gather of one place.
                let ptrs = ir.splat(ptr, l.width);
                let mask = l.mask.unwrap_or_else(|| self.all_lanes(l.width));
                (self.gather(vector, ptrs, mask, align), width)
            }
            (Lie::One(ptr), _) => (ir.load(ty, ptr, align), None),
            (Lie::Row { first, reversed }, Some(l)) => {
                let v = match l.mask {
                    Some(m) if !self.is_harmless(p) => {
                        let known = l.count.filter(|_| !reversed);
                        match known.and_then(|n| self.first_elements(first, n, s, l.width)) {
                            Some(v) => v,
                            None => {
                                let m = if reversed { ir.reverse(m, l.width) } else { m };
                                let args = [first, m, ir.zero(vector)];
                                let call =
                                    ir.intrinsic("llvm.masked.load", &[vector, ir.type_of(first)], &args);
                                ir.align_argument(call, 0, align);
                                call
                            }
                        }
                    }
                    _ => ir.load(vector, first, align),
                };
                (if reversed { ir.reverse(v, l.width) } else { v }, width)
            }
            (Lie::Row { first, .. }, None) => (ir.load(ty, first, align), None),
            (Lie::Apart { first, bytes }, Some(l)) => (self.load_apart((first, bytes), &l, s), width),
            (Lie::Apart { first, .. }, None) => (ir.load(ty, first, align), None),
            (Lie::Anywhere(ptrs), l) => {
                let v = self.load_strided(p, at, s).unwrap_or_else(|| {
                    let w = width.unwrap_or(1);
                    let mask = l.and_then(|l| l.mask).unwrap_or_else(|| self.all_lanes(w));
                    self.gather(vector, ptrs, mask, align)
                });
                (v, width)
            }
        };
        let v = if s == Scalar::Bool { ir.icmp(I::LLVMIntNE, v, ir.zero(ir.type_of(v))) } else { v };
        Leaf::of(v, width)
    }

    /// The first `n` lanes of a vector, with zeros in the others, by an instruction whose mask is a vector. LLVM's own masks
    /// are bits, which it makes such vectors of at every use where they come from outside of a loop.
    fn first_elements(&mut self, at: Value, n: Value, s: Scalar, width: u32) -> Option<Value> {
        const WORDS: u64 = 8;
        let name = match (s, u64::from(width) * s.bytes()) {
            _ if self.bit_masks || !self.avx2 || !self.x86 => return None,
            (Scalar::F32, 16) => "llvm.x86.avx.maskload.ps",
            (Scalar::F32, 32) => "llvm.x86.avx.maskload.ps.256",
            (Scalar::F64, 16) => "llvm.x86.avx.maskload.pd",
            (Scalar::F64, 32) => "llvm.x86.avx.maskload.pd.256",
            _ => return None,
        };
        let ir = self.ir;
        let words = (s.bytes() / 4) as i64;
        let table = *self.frame.ones_and_zeros.get_or_insert_with(|| {
            let ones = (0..2 * WORDS).map(|n| if n < WORDS { u32::MAX } else { 0 });
            ir.table("lanes", &ones.collect::<Vec<_>>())
        });
        let from = ir.sub(ir.i64(WORDS as i64), ir.mul_index(n, ir.i64(words)));
        let mask_ty = ir.widen(ir.int_ty(8 * s.bytes() as u32), Some(width));
        let mask = ir.load(mask_ty, ir.element(ir.int_ty(32), table, from), 4);
        Some(ir.intrinsic(name, &[], &[at, mask]))
    }

    pub(crate) fn all_lanes(&self, w: u32) -> Value {
        self.ir.splat_const(self.ir.int(1, 1), Some(w))
    }

    pub(crate) fn gather(&self, vector: crate::ir::Ty, ptrs: Value, mask: Value, align: u64) -> Value {
        let ir = self.ir;
        let args = [ptrs, mask, ir.zero(vector)];
        let call = ir.intrinsic("llvm.masked.gather", &[vector, ir.type_of(ptrs)], &args);
        ir.align_argument(call, 0, align);
        call
    }

    pub(crate) fn scatter(&self, v: Value, ptrs: Value, mask: Value, align: u64) {
        let ir = self.ir;
        let overloads = [ir.type_of(v), ir.type_of(ptrs)];
        let call = ir.intrinsic("llvm.masked.scatter", &overloads, &[v, ptrs, mask]);
        ir.align_argument(call, 1, align);
    }

    fn store_leaf(&mut self, p: &Place, at: u64, s: Scalar, leaf: Leaf, nontemporal: bool) {
        let ir = self.ir;
        let align = s.bytes();
        let to_memory = |v: Value, width| {
            if s == Scalar::Bool { ir.zext(v, ir.widen(ir.int_ty(8), width)) } else { v }
        };
        let width = self.width();
        match (self.lie(p, at, s), self.frame.lanes) {
            (Lie::One(ptr), _) => {
                let store = ir.store(to_memory(leaf.at(ir, None), None), ptr, align);
                if nontemporal && align >= 4 {
                    ir.set_nontemporal(store);
                    self.frame.nontemporal = true;
                }
            }
            (Lie::Row { first, reversed }, Some(l)) => {
                let mut v = to_memory(leaf.at(ir, width), width);
                let mut mask = l.mask;
                if reversed {
                    v = ir.reverse(v, l.width);
                    mask = mask.map(|m| ir.reverse(m, l.width));
                }
                match mask {
                    None if nontemporal => {
                        self.store_nontemporal(v, first, align * u64::from(l.width), align)
                    }
                    None => {
                        ir.store(v, first, align);
                    }
                    Some(_) if self.is_between_rows(p, &l) => {
                        ir.store(v, first, align);
                    }
                    Some(m) if self.is_harmless(p) => {
                        let old = ir.load(ir.type_of(v), first, align);
                        ir.store(ir.select(m, v, old), first, align);
                    }
                    Some(m) => {
                        let overloads = [ir.type_of(v), ir.type_of(first)];
                        let call = ir.intrinsic("llvm.masked.store", &overloads, &[v, first, m]);
                        ir.align_argument(call, 1, align);
                    }
                }
            }
            (Lie::Row { first, .. }, None) => {
                ir.store(to_memory(leaf.at(ir, None), None), first, align);
            }
            (Lie::Apart { first, bytes }, Some(l)) => {
                self.store_apart((first, bytes), &l, to_memory(leaf.at(ir, width), width), align);
            }
            (Lie::Apart { first, .. }, None) => {
                ir.store(to_memory(leaf.at(ir, None), None), first, align);
            }
            (Lie::Anywhere(ptrs), l) => {
                let v = to_memory(leaf.at(ir, width), width);
                let mask = l.and_then(|l| l.mask).unwrap_or_else(|| self.all_lanes(width.unwrap_or(1)));
                self.scatter(v, ptrs, mask, align);
            }
        }
    }

    /// A store of whole vectors that bypasses the caches where the address is a multiple of its size,
    /// as the machine demands.
    fn store_nontemporal(&mut self, v: Value, ptr: Value, bytes: u64, align: u64) {
        let ir = self.ir;
        if !bytes.is_power_of_two() || bytes < 16 {
            ir.store(v, ptr, align);
            return;
        }
        // Vectors longer than a register are split into registers.
        let whole = bytes.min(64);
        let address = ir.ptr_to_int(ptr, ir.int_ty(64));
        let off = ir.and(address, ir.i64(whole as i64 - 1));
        let aligned = ir.icmp(I::LLVMIntEQ, off, ir.i64(0));
        let (past, plain, join) = (self.block("stream"), self.block("plain"), self.block("stored"));
        ir.cond_br(aligned, past, plain);
        ir.at_end(past);
        ir.set_nontemporal(ir.store(v, ptr, whole));
        ir.br(join);
        ir.at_end(plain);
        ir.store(v, ptr, align);
        ir.br(join);
        ir.at_end(join);
        self.frame.nontemporal = true;
    }
}
