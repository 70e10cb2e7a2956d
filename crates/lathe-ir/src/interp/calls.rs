//! Requirements on calls and pointers: distinct arrays, declared effects, alias classes.

use super::array::ArrayValue;
use super::code::Declared;
use super::failure::Trap;
use super::machine::{Machine, Task};
use super::memory::{Descriptor, Permit};
use super::shapes::evaluate;
use super::{Outside, codes};
use crate::expr::Expr;
use crate::func::{Function, Mode, Param, ParamKind};
use crate::ids::VarId;
use crate::scalar::ScalarValue;
use crate::summary::{Base, TouchMode};
use crate::types::Name;
use lathe_diagnostics::Diagnostic;
use std::collections::HashMap;
use std::rc::Rc;

impl Machine<'_> {
    /// The arrays of a call as the callee may touch them by what is declared of it. `values` are its sizes and integer
    /// parameters; `arrays` has one for each of its array parameters.
    pub(super) fn permits(
        &self,
        callee: &Function,
        (name, summary): &Declared,
        arrays: &[Rc<Descriptor>],
        values: &HashMap<VarId, i64>,
    ) -> Vec<Rc<Descriptor>> {
        let params = callee.params.iter().filter_map(Param::array);
        let mut out = Vec::new();
        for (b, d) in params.zip(arrays) {
            let cells = &self.heap.cells[d.heap as usize];
            let size = cells.elem_bytes.max(1);
            let mut bits = vec![0u8; cells.data.len().div_ceil(size)];
            for t in summary.touches.iter().filter(|t| t.base == Base::Param(b.id)) {
                let bit = match t.mode {
                    TouchMode::Read => 1,
                    TouchMode::Write => 2,
                    TouchMode::Reduce(_) => 3,
                };
                for at in within(d, t.region.as_deref(), values) {
                    for byte in 0..d.elem_bytes as usize {
                        bits[(at as usize + byte) / size] |= bit;
                    }
                }
            }
            let function = name.clone();
            let permit = Permit { bits, elem_bytes: size, function, outer: d.permit.clone() };
            out.push(Rc::new(Descriptor { permit: Some(Rc::new(permit)), ..(**d).clone() }));
        }
        out
    }

    /// Runs what stands outside for a function, if something does. Arrays are copied there and back.
    pub(super) fn runs_outside(
        &mut self,
        outside: &Outside,
        callee: &Function,
        scalars: &[u64],
        arrays: &[Rc<Descriptor>],
    ) -> Result<bool, Trap> {
        let (mut scalars, mut from) = (scalars.iter(), arrays.iter());
        let mut values = Vec::new();
        for p in &callee.params {
            values.push(match &p.kind {
                ParamKind::Scalar(b) => {
                    let bits = scalars.next().copied().unwrap_or_default();
                    Some(ArrayValue::scalar(ScalarValue { ty: b.ty, bits }))
                }
                ParamKind::Array(b) => match from.next() {
                    Some(d) => self.copied(d, &b.elem)?,
                    None => None,
                },
            });
        }
        let values: Option<Vec<ArrayValue>> = values.into_iter().collect();
        let mut values = values.ok_or_else(|| {
            let text = format!("a call of `{}` passes arrays of other types", callee.name);
            Trap::Argument(Box::new(Diagnostic::error(codes::ARGUMENTS, text)))
        })?;
        match outside(&callee.name, &mut values) {
            None => return Ok(false),
            Some(done) => done.map_err(|d| Trap::Argument(Box::new(d)))?,
        }
        let written = callee.params.iter().zip(&values).filter(|(p, _)| p.array().is_some()).zip(arrays);
        for ((_, v), d) in written.filter(|((p, _), _)| p.mode != Mode::In) {
            self.copy_back(d, v)?;
        }
        Ok(true)
    }

    fn copied(&self, d: &Descriptor, elem: &crate::types::Type) -> Result<Option<ArrayValue>, Trap> {
        let (cells, size) = (self.heap.of_ref(d)?, d.elem_bytes as usize);
        let at = |at: i64| cells.data.get(at as usize..at as usize + size).unwrap_or_default();
        let bytes: Vec<u8> = d.offsets().into_iter().flat_map(at).copied().collect();
        let shape: Vec<usize> = d.extents().iter().map(|n| *n as usize).collect();
        Ok(ArrayValue::from_bytes(elem.clone(), &shape, bytes))
    }

    /// Stores what may be written; other elements must be as they were.
    fn copy_back(&mut self, d: &Descriptor, v: &ArrayValue) -> Result<(), Trap> {
        let size = d.elem_bytes as usize;
        let cells = self.heap.of(d)?;
        for (at, new) in d.offsets().into_iter().zip(v.bytes().chunks_exact(size.max(1))) {
            let at = at as usize;
            let Some(old) = cells.data.get_mut(at..at + size) else { continue };
            match d.permit.as_ref().and_then(|p| p.forbids(at, size, true)) {
                None => {
                    old.copy_from_slice(new);
                    if !cells.shadow.is_empty() {
                        cells.shadow[at..at + size].fill(0xFF);
                    }
                }
                Some(_) if old == new => {}
                Some(function) => return Err(Trap::Undeclared { function: function.clone() }),
            }
        }
        Ok(())
    }

    /// What lies from an address on, as elements of some size, in an array that pointers of the class may point into.
    pub(super) fn deref(
        &self,
        t: &Task,
        address: u64,
        class: &Name,
        (elem_bytes, align): (u64, u64),
    ) -> Result<Descriptor, Trap> {
        let (heap, life, offset) = self.heap.at_address(address)?;
        let cells = &self.heap.cells[heap as usize];
        let callee = &self.compiled.functions[t.routine as usize];
        let arrays = callee.params.iter().filter(|p| p.array().is_some());
        let named = arrays
            .zip(t.array_params(self.compiled))
            .find(|(p, d)| p.alias.as_ref() == Some(class) && d.heap == heap && d.life == life);
        if cells.class.as_ref() != Some(class) && named.is_none() {
            return Err(Trap::BadView("a pointer to an array that is not of its alias class"));
        }
        if !address.is_multiple_of(align.max(1)) {
            return Err(Trap::BadView("a pointer that is misaligned for its type"));
        }
        let left = (cells.data.len() - offset) as u64 / elem_bytes.max(1);
        Ok(Descriptor {
            heap,
            life,
            base: offset as i64,
            dims: vec![(left as i64, elem_bytes as i64)],
            elem_bytes,
            permit: named.and_then(|(_, d)| d.permit.clone()),
        })
    }
}

/// Byte offsets of the elements of a view within a box; all of them without one, none of one that cannot be computed.
fn within(d: &Descriptor, region: Option<&[(Expr, Expr)]>, values: &HashMap<VarId, i64>) -> Vec<i64> {
    let Some(region) = region else { return d.offsets() };
    let mut cut = d.clone();
    for (dim, (lo, hi)) in cut.dims.iter_mut().zip(region) {
        let (Some(lo), Some(hi)) = (evaluate(lo, values), evaluate(hi, values)) else { return Vec::new() };
        let (lo, hi) = (lo.clamp(0, dim.0), hi.clamp(0, dim.0));
        cut.base += lo * dim.1;
        dim.0 = hi - lo;
    }
    cut.offsets()
}
