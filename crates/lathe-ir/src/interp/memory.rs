//! Buffers at run time: bytes with a shadow that says which are defined, seen through descriptors.

use super::array::load_bits;
use super::code::AccessCode;
use super::failure::Trap;
use super::race::History;
use crate::buffer::Space;
use crate::func::{Mode, Param};
use crate::types::{Name, Scalar, Type};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// The cells of one buffer.
#[derive(Default)]
pub struct Cells {
    pub name: Option<Name>,
    pub data: Vec<u8>,
    /// Empty: all defined.
    pub shadow: Vec<u8>,
    pub elem_bytes: usize,
    /// One bit of [`Space::ALL`].
    pub space: u8,
    /// Pointers of this class may point into it.
    pub class: Option<Name>,
    /// Where it lies for pointers, once an address was asked for.
    pub address: Option<u64>,
    /// Counts the lives of this entry: a descriptor of an earlier life is stale.
    pub life: u32,
    pub history: History,
    /// Of a distributed array: which iteration wrote each element.
    pub holders: HashMap<usize, u64>,
}

/// How a buffer, or a view of it, is addressed: extents and strides in bytes.
#[derive(Clone, Debug)]
pub struct Descriptor {
    pub heap: u32,
    pub life: u32,
    pub base: i64,
    pub dims: Vec<(i64, i64)>,
    pub elem_bytes: u64,
    /// What the functions around declare that they touch of it.
    pub permit: Option<Rc<Permit>>,
}

/// Which elements a function may touch by its own declaration; those of its callers hold, too.
#[derive(Debug)]
pub struct Permit {
    /// Bit 0: may be read; bit 1: may be written; by number of the element in the buffer.
    pub bits: Vec<u8>,
    /// Bytes of the buffer's elements.
    pub elem_bytes: usize,
    /// Whose declaration it is.
    pub function: Name,
    pub outer: Option<Rc<Permit>>,
}

impl Permit {
    /// The function that does not declare to read (or write) the bytes.
    pub fn forbids(&self, at: usize, bytes: usize, write: bool) -> Option<&Name> {
        let size = self.elem_bytes.max(1);
        let bit = if write { 2 } else { 1 };
        let all = (at / size..=(at + bytes.max(1) - 1) / size)
            .all(|k| self.bits.get(k).is_some_and(|b| b & bit != 0));
        if !all {
            return Some(&self.function);
        }
        self.outer.as_ref().and_then(|p| p.forbids(at, bytes, write))
    }
}

impl Descriptor {
    pub fn row_major(heap: u32, life: u32, elem_bytes: u64, extents: &[i64]) -> Descriptor {
        let mut dims = vec![(0, 0); extents.len()];
        let mut stride = elem_bytes as i64;
        for (d, e) in dims.iter_mut().zip(extents).rev() {
            *d = (*e, stride);
            stride = stride.saturating_mul(*e);
        }
        Descriptor { heap, life, base: 0, dims, elem_bytes, permit: None }
    }

    /// The byte offsets of all elements.
    pub fn offsets(&self) -> Vec<i64> {
        let mut out = vec![self.base];
        for (extent, stride) in &self.dims {
            let steps = 0..(*extent).max(0);
            out = out.into_iter().flat_map(|at| steps.clone().map(move |k| at + k * stride)).collect();
        }
        out
    }

    /// The first and the last byte of all elements; `None` if there are none.
    pub fn span(&self) -> Option<(i64, i64)> {
        let mut span = (self.base, self.base + self.elem_bytes as i64 - 1);
        for (extent, stride) in &self.dims {
            let far = (extent - 1) * stride;
            if *extent <= 0 {
                return None;
            }
            span = (span.0 + far.min(0), span.1 + far.max(0));
        }
        Some(span)
    }

    /// Whether two views of one buffer share a byte.
    pub fn overlaps(&self, other: &Descriptor) -> bool {
        let (Some(a), Some(b)) = (self.span(), other.span()) else { return false };
        if self.heap != other.heap || self.life != other.life || a.1 < b.0 || b.1 < a.0 {
            return false;
        }
        let bytes = |d: &Descriptor| -> Vec<i64> {
            let own = 0..d.elem_bytes as i64;
            d.offsets().into_iter().flat_map(|at| own.clone().map(move |k| at + k)).collect()
        };
        let mine: std::collections::HashSet<i64> = bytes(self).into_iter().collect();
        bytes(other).iter().any(|b| mine.contains(b))
    }

    pub fn extents(&self) -> Vec<i64> {
        self.dims.iter().map(|d| d.0).collect()
    }

    fn is_contiguous(&self) -> bool {
        let mut stride = self.elem_bytes as i64;
        self.dims.iter().rev().all(|(e, s)| {
            let fits = *s == stride || *e <= 1;
            stride = stride.saturating_mul(*e);
            fits
        })
    }

    /// Byte offset of an element; the failing dimension otherwise.
    #[inline]
    pub fn address(&self, regs: &[u64], index: &[u32]) -> Result<usize, usize> {
        if index.len() != self.dims.len() {
            return Err(usize::MAX);
        }
        let mut at = self.base;
        for (k, ((extent, stride), r)) in self.dims.iter().zip(index).enumerate() {
            let i = regs[*r as usize];
            if i >= *extent as u64 {
                return Err(k);
            }
            at += i as i64 * stride;
        }
        Ok(at as usize)
    }

    pub fn slice(&self, offsets: &[i64], steps: &[i64]) -> Result<Descriptor, Trap> {
        if offsets.len() != self.dims.len() || steps.len() != self.dims.len() {
            return Err(Trap::BadView("a slice with a wrong number of dimensions"));
        }
        let mut d = self.clone();
        for ((dim, offset), step) in d.dims.iter_mut().zip(offsets).zip(steps) {
            let (extent, stride) = *dim;
            // As many elements as the base has from the offset on, in the direction of the step.
            let left = if *step > 0 { extent - offset } else { offset + 1 };
            if *step == 0 || *offset < 0 || *offset > extent || (*step < 0 && *offset >= extent) {
                return Err(Trap::BadView("a slice that starts outside of its base"));
            }
            d.base += offset * stride;
            *dim = ((left + step.abs() - 1) / step.abs(), stride * step);
        }
        Ok(d)
    }

    pub fn reshape(&self, extents: &[i64]) -> Result<Descriptor, Trap> {
        let count = |mut it: std::slice::Iter<i64>| it.try_fold(1i64, |n, e| n.checked_mul(*e));
        let old = self.extents();
        let fits = match (count(extents.iter()), count(old.iter())) {
            (Some(new), Some(old)) => new <= old,
            _ => false,
        };
        if !fits || extents.iter().any(|e| *e < 0) || !self.is_contiguous() {
            return Err(Trap::BadView("a reshape that does not fit its base"));
        }
        let dims = Descriptor::row_major(self.heap, self.life, self.elem_bytes, extents).dims;
        Ok(Descriptor { dims, ..self.clone() })
    }

    pub fn reinterpret(&self, elem_bytes: u64, align: u32) -> Result<Descriptor, Trap> {
        if !self.is_contiguous() {
            return Err(Trap::BadView("bytes that are not contiguous, seen as another type"));
        }
        if align > 0 && self.base % i64::from(align) != 0 {
            return Err(Trap::BadView("bytes that are not aligned, seen as another type"));
        }
        let bytes = self.extents().iter().fold(self.elem_bytes as i64, |n, e| n.saturating_mul(*e));
        let n = bytes / (elem_bytes as i64).max(1);
        Ok(Descriptor { dims: vec![(n, elem_bytes as i64)], elem_bytes, ..self.clone() })
    }
}

impl Cells {
    #[inline]
    pub fn load(&self, at: usize, ty: Scalar) -> Option<u64> {
        let end = at + ty.bytes() as usize;
        if !self.shadow.is_empty() && self.shadow[at..end].contains(&0) {
            return None;
        }
        Some(load_bits(&self.data[at..end], ty))
    }

    #[inline]
    pub fn store(&mut self, at: usize, ty: Scalar, bits: u64) {
        let n = ty.bytes() as usize;
        let raw = bits.to_le_bytes();
        match (n, &mut self.data[at..at + n]) {
            (4, cell) => cell.copy_from_slice(&raw[..4]),
            (8, cell) => cell.copy_from_slice(&raw),
            (_, cell) => cell.copy_from_slice(&raw[..n]),
        }
        if !self.shadow.is_empty() {
            self.shadow[at..at + n].fill(0xFF);
        }
    }
}

/// All buffers of a run.
pub struct Heap {
    pub cells: Vec<Cells>,
    free: Vec<u32>,
    /// Bytes that may still be taken.
    pub left: u64,
    pub races: bool,
    /// Buffers whose address was asked for, by their first byte: entry and life.
    places: BTreeMap<u64, (u32, u32)>,
    /// Beyond all of them.
    next_address: u64,
}

/// Buffers begin at multiples of this for pointers, with as much between them that belongs to none.
const PAGE: u64 = 4096;

impl Heap {
    pub fn new(limit: u64, races: bool) -> Heap {
        Heap {
            cells: Vec::new(),
            free: Vec::new(),
            left: limit,
            races,
            places: BTreeMap::new(),
            next_address: PAGE,
        }
    }

    /// A buffer whose cells are undefined.
    pub fn alloc(
        &mut self,
        name: &Name,
        elem: &Type,
        extents: &[i64],
        space: Space,
    ) -> Result<Rc<Descriptor>, Trap> {
        if let Some(e) = extents.iter().find(|e| **e < 0) {
            return Err(Trap::NegativeExtent { name: name.clone(), extent: *e });
        }
        let bytes = if extents.contains(&0) {
            Some(0)
        } else {
            extents.iter().try_fold(elem.bytes(), |n, e| n.checked_mul(*e as u64))
        };
        // Data and shadow.
        let bytes = match bytes.and_then(|b| b.checked_mul(2)) {
            Some(b) if b <= self.left => b / 2,
            _ => return Err(Trap::Memory { name: name.clone() }),
        };
        self.left -= bytes * 2;
        let n = bytes as usize;
        let id = self.free.pop().unwrap_or_else(|| {
            self.cells.push(Cells::default());
            self.cells.len() as u32 - 1
        });
        let c = &mut self.cells[id as usize];
        c.data.resize(n, 0);
        c.shadow.clear();
        c.shadow.resize(n, 0);
        self.describe(id, name, elem.bytes(), space);
        let life = self.cells[id as usize].life;
        Ok(Rc::new(Descriptor::row_major(id, life, elem.bytes(), extents)))
    }

    /// Takes an argument's bytes.
    pub fn adopt(
        &mut self,
        name: &Name,
        elem: &Type,
        extents: &[i64],
        space: Space,
        (data, shadow): (Vec<u8>, Vec<u8>),
    ) -> Rc<Descriptor> {
        self.cells.push(Cells { data, shadow, ..Cells::default() });
        let id = self.cells.len() as u32 - 1;
        self.describe(id, name, elem.bytes(), space);
        Rc::new(Descriptor::row_major(id, 0, elem.bytes(), extents))
    }

    fn describe(&mut self, id: u32, name: &Name, elem_bytes: u64, space: Space) {
        let c = &mut self.cells[id as usize];
        (c.name, c.class, c.address) = (Some(name.clone()), None, None);
        c.elem_bytes = elem_bytes as usize;
        c.space = 1 << Space::ALL.iter().position(|s| *s == space).unwrap_or(0);
        let elements = if elem_bytes == 0 { 0 } else { c.data.len() / elem_bytes as usize };
        c.history.reset(if self.races { elements } else { 0 });
        c.holders.clear();
    }

    /// The address of a byte of a buffer.
    pub fn address(&mut self, d: &Descriptor, at: usize) -> Result<u64, Trap> {
        let next = self.next_address;
        let cells = self.of(d)?;
        let size = cells.data.len() as u64;
        let address = *cells.address.get_or_insert(next);
        if address == next {
            self.places.insert(next, (d.heap, d.life));
            self.next_address = next + size.next_multiple_of(PAGE) + PAGE;
        }
        Ok(address + at as u64)
    }

    /// What lies from an address on, of the buffer that it is in. The entry of that buffer, the offset of the byte.
    pub fn at_address(&self, address: u64) -> Result<(u32, u32, usize), Trap> {
        let nowhere = Trap::BadView("a pointer that does not come from an address");
        let Some((first, (heap, life))) = self.places.range(..=address).next_back() else {
            return Err(nowhere);
        };
        let cells = &self.cells[*heap as usize];
        if cells.life != *life {
            return Err(Trap::Stale);
        }
        let offset = (address - first) as usize;
        if offset > cells.data.len() { Err(nowhere) } else { Ok((*heap, *life, offset)) }
    }

    /// Ends the life of an allocated buffer.
    pub fn release(&mut self, d: &Descriptor) {
        let c = &mut self.cells[d.heap as usize];
        if c.life == d.life {
            self.left += c.data.len() as u64 * 2;
            c.life += 1;
            self.free.push(d.heap);
        }
    }

    /// The cells behind a descriptor, unless their buffer is gone.
    #[inline]
    pub fn of(&mut self, d: &Descriptor) -> Result<&mut Cells, Trap> {
        let c = &mut self.cells[d.heap as usize];
        if c.life == d.life { Ok(c) } else { Err(Trap::Stale) }
    }

    pub fn of_ref(&self, d: &Descriptor) -> Result<&Cells, Trap> {
        let c = &self.cells[d.heap as usize];
        if c.life == d.life { Ok(c) } else { Err(Trap::Stale) }
    }

    /// Loads every leaf of an element.
    pub fn load_many(
        &mut self,
        d: &Descriptor,
        at: usize,
        access: &AccessCode,
        into: &mut [u64],
    ) -> Result<(), Trap> {
        let c = self.of(d)?;
        for ((ty, offset), r) in access.leaves.iter().zip(into) {
            *r = c.load(at + *offset as usize, *ty).ok_or(Trap::Undefined)?;
        }
        Ok(())
    }

    pub fn store_many(
        &mut self,
        d: &Descriptor,
        at: usize,
        access: &AccessCode,
        from: &[u64],
    ) -> Result<(), Trap> {
        let c = self.of(d)?;
        for ((ty, offset), bits) in access.leaves.iter().zip(from) {
            c.store(at + *offset as usize, *ty, *bits);
        }
        Ok(())
    }
}

/// Two arguments that share an element, one of them for a parameter that is written, with no alias class in common.
pub fn overlapping<'p>(passed: &[(&'p Param, Rc<Descriptor>)]) -> Option<(&'p Param, &'p Param)> {
    let apart = |a: &Param, b: &Param| a.alias.is_none() || a.alias != b.alias;
    for (n, (p, x)) in passed.iter().enumerate() {
        for (q, y) in &passed[..n] {
            let written = p.mode != Mode::In || q.mode != Mode::In;
            if written && apart(p, q) && x.overlaps(y) {
                return Some((q, p));
            }
        }
    }
    None
}
