//! Sliding windows over elements that are loaded once: rotated through registers, or kept in a circular buffer.

use super::Lower;
use super::view::{Arg, ArrayView, Stream, View};
use crate::codes;
use crate::nat::Nat;
use crate::types::{Type, TypeKind};
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Executor, Space};
use std::cell::RefCell;
use std::rc::Rc;

impl Lower<'_> {
    /// `rotateValues(size, write, xs)`: a register per element of the window.
    pub(super) fn rotate(
        &mut self,
        size: &Nat,
        args: &[Arg],
        params: &[Type],
        result: &Type,
    ) -> Result<View, Diagnostic> {
        let (n, elem) = window_types(params, result);
        let constant = size.as_constant().is_some();
        let space = if constant && elem.is_element() { Space::Register } else { Space::Host };
        self.window(size, size, space, args, n, elem, true)
    }

    /// `circularBuffer(alloc, size, load, xs)`: a ring of `alloc` elements.
    pub(super) fn ring(
        &mut self,
        alloc: &Nat,
        size: &Nat,
        args: &[Arg],
        params: &[Type],
        result: &Type,
    ) -> Result<View, Diagnostic> {
        let n = window_types(params, result).0;
        let elem = match result.kind() {
            TypeKind::Array(_, w) => w.as_array().map_or(w.clone(), |a| a.1.clone()),
            _ => result.clone(),
        };
        self.window(alloc, size, Space::Host, args, n, elem, false)
    }

    #[allow(clippy::too_many_arguments)]
    fn window(
        &mut self,
        alloc: &Nat,
        size: &Nat,
        space: Space,
        args: &[Arg],
        n: Nat,
        elem: Type,
        hand_on: bool,
    ) -> Result<View, Diagnostic> {
        let xs = self.array(&args[1])?;
        if !xs.streams.is_empty() {
            return Err(self.refuse(codes::UNSUPPORTED, "windows over rotating windows"));
        }
        // Over nothing there are no windows that are larger than the padding.
        let pads = xs.pads.iter().filter(|p| !self.indices.is_below(&p.1, size)).cloned().collect();
        let ring = Type::array(alloc.clone(), elem.clone());
        let storage = self.allocate("window", &ring, space, &mut Vec::new())?;
        let (f, at, size, alloc) = (args[0].clone(), xs.at.clone(), size.clone(), alloc.clone());
        let one = Nat::constant(1);
        let shared = size.minus(&one);
        let exec =
            if hand_on && size.as_constant().is_some() { Executor::Unrolled } else { Executor::Serial };
        // Element `j` of all is kept at `slot`.
        let put = {
            let (storage, ring) = (storage.clone(), ring.clone());
            move |l: &mut Lower, j: &Nat, slot: &Nat| {
                let x = at(l, j)?;
                let to = Lower::place(&storage, &ring, Vec::new());
                let to = match &to {
                    super::view::Acc::Array(p, _) => p(l, slot)?,
                    _ => to,
                };
                l.call_into(&f, vec![x], &to)
            }
        };
        let start = {
            let (put, shared, exec, n) = (put.clone(), shared.clone(), exec.clone(), n.clone());
            move |l: &mut Lower| {
                // Without windows nothing is there to load.
                let loaded = l.block(|l| l.serial_loop("j", &shared, exec.clone(), |l, j| put(l, j, j)))?;
                if l.indices.is_below(&Nat::zero(), &n) {
                    l.items.push(lathe_ir::stmt::block::Item::Do(loaded));
                } else {
                    let cond = lathe_ir::build::lt(lathe_ir::build::index(0), l.indices.expr(&n));
                    l.emit(lathe_ir::StmtKind::If { cond, then: loaded, other: None });
                }
                Ok(())
            }
        };
        let load = {
            let (shared, alloc) = (shared.clone(), alloc.clone());
            move |l: &mut Lower, i: &Nat| {
                let j = i.plus(&shared);
                let slot = if hand_on { shared.clone() } else { l.slot(&j, &alloc) };
                put(l, &j, &slot)
            }
        };
        let advance = {
            let (storage, ring, elem) = (storage.clone(), ring.clone(), elem.clone());
            move |l: &mut Lower, _: &Nat| {
                if !hand_on {
                    return Ok(());
                }
                l.serial_loop("j", &shared, exec.clone(), |l, j| {
                    let all = l.read_buffers(&storage, &ring, Vec::new());
                    let (View::Array(all), super::view::Acc::Array(to, _)) =
                        (all, Lower::place(&storage, &ring, Vec::new()))
                    else {
                        return Ok(());
                    };
                    let (x, to) = ((all.at)(l, &j.plus(&1.into()))?, to(l, j)?);
                    l.copy(&to, &x, &elem)
                })
            }
        };
        let stream = Rc::new(Stream {
            start: Box::new(start),
            load: Box::new(load),
            advance: Box::new(advance),
            now: RefCell::new(None),
        });
        let driven = stream.clone();
        let mut out = ArrayView::new(n, move |l, i| {
            if driven.now.borrow().as_ref() != Some(i) {
                let text = "rotating windows are read out of order";
                return Err(l.refuse(codes::UNSUPPORTED, text).help("`mapSeq` reads in order"));
            }
            let (storage, ring, alloc, i) = (storage.clone(), ring.clone(), alloc.clone(), i.clone());
            Ok(View::Array(ArrayView::new(size.clone(), move |l, j| {
                let slot = if hand_on { j.clone() } else { l.slot(&i.plus(j), &alloc) };
                match l.read_buffers(&storage, &ring, Vec::new()) {
                    View::Array(all) => (all.at)(l, &slot),
                    v => Ok(v),
                }
            })))
        });
        out.pads = pads;
        out.streams = vec![stream];
        Ok(View::Array(out))
    }

    /// Where element `j` of all is in a ring.
    fn slot(&mut self, j: &Nat, alloc: &Nat) -> Nat {
        let (_, r) = self.indices.divide(j, alloc);
        if self.indices.is_inside(&r, alloc) {
            return r;
        }
        let e = lathe_ir::build::floor_mod(self.indices.expr(j), self.indices.expr(alloc));
        self.indices.atom(e, Some(alloc.clone()))
    }
}

fn window_types(params: &[Type], result: &Type) -> (Nat, Type) {
    let n = result.as_array().map_or_else(Nat::zero, |a| a.0.clone());
    (n, params[0].as_fun().map_or_else(|| result.clone(), |f| f.1.clone()))
}
