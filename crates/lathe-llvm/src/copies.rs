//! What copy units do: elements, or neighbours of an unrolled loop at once, from global to shared memory (`cp.async`).

use crate::emit::{Emitter, Result};
use crate::ir::Value;
use crate::value::Leaf;
use lathe_device::copies::{Piece, piece};
use lathe_ir::lower::storage;
use lathe_ir::{Access, Stmt, Store, VarId};

/// Numbers of LLVM's address spaces.
const GLOBAL: u32 = 1;
const SHARED: u32 = 3;

impl Emitter<'_> {
    /// Leaves a store to the copy units, if it may be: of one element, or of all iterations of a loop over neighbours.
    pub fn copied(&mut self, st: &Store, all: Option<(VarId, i64)>) -> Result<bool> {
        if !self.device.copies.contains(&st.label) || self.frame.lanes.is_some() {
            return Ok(false);
        }
        let mut strides = |a: &Access| {
            let buffer = a.view.buffer().and_then(|b| self.frame.bufs.get(&b))?;
            Some(storage(&buffer.decl).ok()?.strides)
        };
        let Some(Piece { cond, to, from, bytes }) = piece(st, all, &mut strides) else { return Ok(false) };
        let Some(s) = st.target.elem.scalar() else { return Ok(false) };
        self.forget();
        let (to, from) = (self.place(&to)?, self.place(&from)?);
        let (Some(to), Some(from)) = (self.address(&to, s), self.address(&from, s)) else { return Ok(false) };
        let ir = self.ir;
        let mut args: Vec<Value> = vec![ir.to_space(to, SHARED), ir.to_space(from, GLOBAL)];
        let kept = if bytes == 16 { "cg" } else { "ca" };
        let name = format!("llvm.nvvm.cp.async.{kept}.shared.global.{bytes}");
        let mut form = "";
        if let Some(cond) = cond {
            let Leaf::Uniform(there) = self.scalar(&cond)? else { return Ok(false) };
            args.push(ir.select(there, ir.i32(bytes as i32), ir.i32(0)));
            form = "s";
        }
        let name = [name.as_str(), form].into_iter().filter(|s| !s.is_empty()).collect::<Vec<_>>().join(".");
        ir.intrinsic(&name, &[], &args);
        Ok(true)
    }

    /// What the thread has begun to copy since the last group is one.
    pub fn end_group(&self) {
        self.ir.intrinsic("llvm.nvvm.cp.async.commit.group", &[], &[]);
    }

    /// Waits for the copies that the thread has started, as far as the barrier needs them.
    pub fn wait_for_copies(&self, barrier: &Stmt) {
        match self.device.copies.waits(barrier) {
            None => {}
            Some(0) => drop(self.ir.intrinsic("llvm.nvvm.cp.async.wait.all", &[], &[])),
            Some(n) => {
                let n = self.ir.i32(n as i32);
                self.ir.intrinsic("llvm.nvvm.cp.async.wait.group", &[], &[n]);
            }
        }
    }
}
