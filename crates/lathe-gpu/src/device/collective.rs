//! Reductions over devices: every device's part becomes the combination of all parts. NCCL does them.
//!
//! What other libraries call broadcast, scatter and gather is an access: a launch that reads a part gets it, from where it
//! is.

use super::arguments::Part;
use super::group::Group;
use super::open::{Devices, Launch};
use crate::codes;
use crate::work::{Memory, Outcome, Queue, Start};
use lathe_abi::dtype;
use lathe_diagnostics::Diagnostic;
use lathe_host::{Access, Mode};
use std::ffi::c_int;
use std::sync::Arc;

/// How the elements of devices are combined.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Combine {
    Sum,
    Product,
    Max,
    Min,
}

/// The number of an element type in `nccl.h`.
fn element(dtype: Option<u32>) -> Option<c_int> {
    Some(match dtype? {
        dtype::I8 => 0,
        dtype::U8 => 1,
        dtype::I32 => 2,
        dtype::U32 => 3,
        dtype::I64 => 4,
        dtype::U64 => 5,
        dtype::F32 => 7,
        dtype::F64 => 8,
        _ => return None,
    })
}

impl Devices {
    /// The n-th part becomes, on the n-th device, the combination of all parts, element by element: one part for each device,
    /// of one length and type, none with an element of another. Order and rounding of sums are NCCL's.
    ///
    /// # Errors
    /// `E0856` where there is no NCCL, or a device is not of CUDA; `E0850` for parts that do not match; as
    /// [`super::Device::launch`].
    pub fn all_reduce(&self, combine: Combine, parts: &[Part]) -> Result<Vec<Launch>, Diagnostic> {
        let refuse = |text: String| Err(Diagnostic::error(codes::ARGUMENTS, text));
        if parts.len() != self.len() {
            return refuse(format!("{} parts for {} devices", parts.len(), self.len()));
        }
        let Some(first) = parts.first() else { return Ok(Vec::new()) };
        let bytes = first.range.end - first.range.start;
        for (n, p) in parts.iter().enumerate() {
            if p.range.end - p.range.start != bytes || p.dtype != first.dtype {
                return refuse(format!("part {n} has another length or type than part 0"));
            }
            let meets = |o: &&Part| {
                o.buffer == p.buffer && o.range.start.max(p.range.start) < o.range.end.min(p.range.end)
            };
            if parts[..n].iter().find(meets).is_some() {
                return refuse(format!("part {n} has elements of another part"));
            }
        }
        let Some(element) = element(first.dtype) else {
            return refuse("reductions take integers of 8, 32 and 64 bits, f32 and f64".to_string());
        };
        let group = self.shared().group()?;
        let operator = match combine {
            Combine::Sum => 0,
            Combine::Product => 1,
            Combine::Max => 2,
            Combine::Min => 3,
        };
        let mut works = Vec::new();
        for (n, p) in parts.iter().enumerate() {
            let access = self.device(n)?.access(p, Mode::ReadWrite)?;
            let count = (bytes / first.elem_bytes.max(1)) as usize;
            let part = Member {
                group: Arc::clone(&group),
                number: n,
                offset: access.range.start,
                count,
                element,
                operator,
            };
            works.push((n, [access], part));
        }
        let all: Vec<(usize, &[Access], &(dyn Start + 'static))> =
            works.iter().map(|(n, a, w)| (*n, &a[..], w as &(dyn Start + 'static))).collect();
        let mut state = self.shared().lock()?;
        let events = state.executor.launch_together("all_reduce", &all);
        if events.is_err() {
            // Members that were begun would wait for the others.
            self.shared().disband();
        }
        let shared = self.shared();
        Ok(events?.into_iter().map(|event| Launch { shared: Arc::clone(shared), event }).collect())
    }
}

/// One device's part of a reduction. The first begins the group of NCCL's calls, the last ends it; the executor gives the
/// driver nothing else in between.
struct Member {
    group: Arc<Group>,
    number: usize,
    offset: u64,
    count: usize,
    element: c_int,
    operator: c_int,
}

impl Start for Member {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let fault = |text| Diagnostic::error(lathe_host::codes::FAILED, text);
        let (nccl, last) = (self.group.nccl, self.group.members.len() - 1);
        if self.number == 0 {
            nccl.start().map_err(fault)?;
        }
        let reduced = match memory.first().copied().flatten() {
            Some(m) if self.count > 0 => {
                let what = (m.raw() + self.offset, self.count, self.element);
                nccl.all_reduce(what, self.operator, self.group.members[self.number], queue.raw())
            }
            _ => Ok(()),
        };
        if self.number == last || reduced.is_err() {
            let ended = nccl.end();
            reduced.and(ended).map_err(fault)?;
        }
        Ok(Outcome::None)
    }

    fn starts_later(&self) -> bool {
        true
    }
}
