//! Requirements on calls and pointers: distinct arrays, declared effects, alias classes.

use super::code::Declared;
use super::failure::Trap;
use super::machine::{Machine, Task};
use super::memory::{Descriptor, Permit};
use super::shapes::evaluate;
use crate::expr::Expr;
use crate::func::{Function, Param};
use crate::ids::VarId;
use crate::summary::{Base, TouchMode};
use crate::types::Name;
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
