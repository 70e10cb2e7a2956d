//! Small buffers as vector variables: an array that is only touched by whole vectors at constant
//! places (an accumulator tile) is written as one variable per vector, which C compilers keep in
//! registers, as they do not keep arrays.

use crate::emit::{Buf, Emitter, Place, Result, Val, lift, not_in_registers};
use crate::helpers::memory_type;
use crate::writer::bare;
use lathe_ir::build::{add, index, mul};
use lathe_ir::lower::storage;
use lathe_ir::visit::{substitute, walk};
use lathe_ir::{Buffer, Executor, Expr, Scalar, Space, Stmt};
use std::collections::HashMap;
use std::sync::Arc;

/// More variables than this are an array after all.
const MOST_VECTORS: i64 = 64;

/// The width of vectors that a buffer may consist of, by the first vector loop in its scope.
pub fn candidate(b: &Buffer, body: &Stmt) -> Option<u32> {
    let s = b.elem.scalar()?;
    let small = matches!(b.space, Space::Register | Space::Stack);
    if !small || matches!(s, Scalar::Bool | Scalar::F16 | Scalar::Bf16) {
        return None;
    }
    let mut width = None;
    walk(body, &mut |s, _| {
        if let Some(l) = s.as_loop()
            && let Executor::Vector(w) = l.exec
            && width.is_none()
        {
            width = Some(w);
        }
        width.is_none()
    });
    width.filter(|w| w.is_power_of_two() && *w > 1)
}

impl Emitter<'_> {
    /// Writes a buffer's scope with the buffer as variables.
    pub fn in_registers(&mut self, buffer: &Arc<Buffer>, body: &Stmt, width: u32) -> Result<()> {
        let st = storage(buffer).map_err(lift)?;
        let size = st.extents.iter().try_fold(1i64, |n, e| n.checked_mul(e.as_int()?));
        let Some(scalar) = buffer.elem.scalar() else { return Err(not_in_registers()) };
        let w = i64::from(width);
        let Some(count) = size.filter(|n| *n > 0 && n % w == 0).map(|n| n / w).filter(|n| *n <= MOST_VECTORS)
        else {
            return Err(not_in_registers());
        };
        let names: Arc<[String]> =
            (0..count).map(|k| self.names.fresh(&format!("{}_{k}", buffer.name))).collect();
        let s = if scalar == Scalar::Index { Scalar::I64 } else { scalar };
        let t = self.define_vector(s, width);
        for some in names.chunks(8) {
            self.line(format!("{t} {};", some.join(", ")));
        }
        let frame = self.frames.len() - 1;
        let place = Place::Registers { strides: st.strides, width, names };
        let local = Buf { decl: buffer.clone(), name: buffer.name.to_string(), frame, storage: place };
        let old = self.bufs.insert(buffer.id, local);
        let written = self.stmt(body);
        match old {
            Some(old) => self.bufs.insert(buffer.id, old),
            None => self.bufs.remove(&buffer.id),
        };
        written
    }

    /// The variable that holds the lanes' elements.
    fn register(&mut self, b: &Buf, indices: &[Expr]) -> Result<String> {
        let (Place::Registers { strides, width, names }, Some(l)) = (&b.storage, self.lanes.clone()) else {
            return Err(not_in_registers());
        };
        if l.width != *width || self.step(b, indices)? != Some(1) {
            return Err(not_in_registers());
        }
        let map = HashMap::from([(l.binder, l.lo.clone())]);
        let terms = indices.iter().map(|i| substitute(i, &map)).zip(strides);
        let offset = terms.fold(index(0), |sum, (i, s)| add(sum, mul(i, s.clone()))).as_int();
        let w = i64::from(*width);
        let whole = offset.filter(|o| *o >= 0 && o % w == 0).and_then(|o| names.get((o / w) as usize));
        whole.cloned().ok_or_else(not_in_registers)
    }

    pub fn registers_load(&mut self, b: &Buf, indices: &[Expr]) -> Result<Val> {
        Ok(Val { text: self.register(b, indices)?, lanes: true })
    }

    /// Lanes that are masked off keep what they have.
    pub fn registers_store(&mut self, b: &Buf, indices: &[Expr], s: Scalar, value: &Val) -> Result<()> {
        let name = self.register(b, indices)?;
        let Some(n) = self.active() else {
            self.line(format!("{name} = {};", bare(&value.text)));
            return Ok(());
        };
        let m = self.mask_type(s.bits())?;
        let w = self.width()?;
        let numbers: Vec<String> = (0..w).map(|l| l.to_string()).collect();
        let pick = self.pick(s)?;
        let t = memory_type(match s.bits() {
            8 => Scalar::I8,
            16 => Scalar::I16,
            64 => Scalar::I64,
            _ => Scalar::I32,
        });
        let mask = format!("(({m}){{{}}} < ({t}){n})", numbers.join(", "));
        self.line(format!("{name} = {pick}({mask}, {}, {name});", bare(&value.text)));
        Ok(())
    }
}
