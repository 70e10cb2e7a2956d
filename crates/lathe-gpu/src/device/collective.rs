//! What all devices do together: reductions, broadcasts, gathers. NCCL does them where it connects the devices; elsewhere
//! they are launches like others, which copy and combine parts in the order of the devices ([`super::plain`]).
//!
//! Parts of buffers move by themselves, so that a kernel which reads a part needs none of this; these are for every device to
//! have its own copy.

use super::arguments::Part;
use super::group::Group;
use super::open::{Devices, Launch};
use crate::codes;
use crate::nccl::{Asked, Combine};
use crate::work::{Memory, Outcome, Queue, Start};
use lathe_abi::dtype;
use lathe_diagnostics::Diagnostic;
use lathe_host::{Access, Mode};
use std::ffi::c_int;
use std::sync::Arc;

/// The number of an element type in `nccl.h`.
fn element(part: &Part) -> Result<c_int, Diagnostic> {
    Ok(match part.dtype {
        Some(dtype::I8) => 0,
        Some(dtype::U8) => 1,
        Some(dtype::I32) => 2,
        Some(dtype::U32) => 3,
        Some(dtype::I64) => 4,
        Some(dtype::U64) => 5,
        Some(dtype::F32) => 7,
        Some(dtype::F64) => 8,
        _ => return Err(refusal("reductions take integers of 8, 32 and 64 bits, f32 and f64".to_string())),
    })
}

fn refusal(text: String) -> Diagnostic {
    Diagnostic::error(codes::ARGUMENTS, text)
}

pub(crate) fn bytes(p: &Part) -> u64 {
    p.range.end - p.range.start
}

fn meet(a: &Part, b: &Part) -> bool {
    a.buffer == b.buffer && a.range.start.max(b.range.start) < a.range.end.min(b.range.end)
}

impl Devices {
    /// The n-th part becomes, on the n-th device, the combination of all parts, element by element: one part for each device,
    /// of one length and type, none with an element of another. Order and rounding of sums are NCCL's where it does it; else
    /// parts are combined in the order of the devices.
    ///
    /// # Errors
    /// `E0856` where the devices are several of CUDA and there is no NCCL; `E0850` for parts that do not match; as
    /// [`super::Device::launch`].
    pub fn all_reduce(&self, combine: Combine, parts: &[Part]) -> Result<Vec<Launch>, Diagnostic> {
        self.alike(parts, "part")?;
        let Some(first) = parts.first() else { return Ok(Vec::new()) };
        let element = element(first)?;
        if !self.connected() {
            return self.plain_all_reduce(combine, parts);
        }
        let count = bytes(first) / first.elem_bytes.max(1);
        let accesses = parts.iter().map(|p| vec![(p.clone(), Mode::ReadWrite)]).collect();
        self.together("all_reduce", Asked::AllReduce(combine), accesses, (count, element))
    }

    /// The n-th part becomes, on the n-th device, the combination of the n-th pieces of all arrays, which have as many
    /// pieces as there are devices. No part has an element of an array.
    ///
    /// # Errors
    /// As [`Devices::all_reduce`].
    pub fn reduce_scatter(
        &self,
        combine: Combine,
        arrays: &[Part],
        parts: &[Part],
    ) -> Result<Vec<Launch>, Diagnostic> {
        self.pieces(arrays, parts)?;
        let Some(first) = parts.first() else { return Ok(Vec::new()) };
        if parts.iter().any(|p| arrays.iter().any(|a| meet(a, p))) {
            return Err(refusal("a part has elements of an array that is reduced".to_string()));
        }
        let element = element(first)?;
        if !self.connected() {
            return self.plain_reduce_scatter(combine, arrays, parts);
        }
        let count = bytes(first) / first.elem_bytes.max(1);
        let one = |(a, p): (&Part, &Part)| vec![(a.clone(), Mode::Read), (p.clone(), Mode::Write)];
        let accesses = arrays.iter().zip(parts).map(one).collect();
        self.together("reduce_scatter", Asked::ReduceScatter(combine), accesses, (count, element))
    }

    /// The n-th part becomes, on the n-th device, what the part of the device `root` is.
    ///
    /// # Errors
    /// `E0850` for parts that do not match; as [`super::Device::launch`].
    pub fn broadcast(&self, root: usize, parts: &[Part]) -> Result<Vec<Launch>, Diagnostic> {
        self.alike(parts, "part")?;
        self.device(root)?;
        let Some(first) = parts.first() else { return Ok(Vec::new()) };
        if !(self.connected() && self.shared().group().is_ok()) {
            return self.plain_broadcast(root, parts);
        }
        let mode = |n: usize| if n == root { Mode::Read } else { Mode::Write };
        let accesses = parts.iter().enumerate().map(|(n, p)| vec![(p.clone(), mode(n))]).collect();
        self.together("broadcast", Asked::Broadcast(root), accesses, (bytes(first), 0))
    }

    /// The n-th array becomes, on the n-th device, all parts, one after the other. The n-th part may be its place in the n-th
    /// array.
    ///
    /// # Errors
    /// As [`Devices::broadcast`].
    pub fn all_gather(&self, parts: &[Part], arrays: &[Part]) -> Result<Vec<Launch>, Diagnostic> {
        self.pieces(arrays, parts)?;
        let Some(first) = parts.first() else { return Ok(Vec::new()) };
        for (n, p) in parts.iter().enumerate() {
            for (m, a) in arrays.iter().enumerate().filter(|(_, a)| meet(a, p)) {
                let place = a.range.start + n as u64 * bytes(p);
                if n != m || p.range.start != place {
                    return Err(refusal(format!("part {n} is not where array {m} gets it")));
                }
            }
        }
        if !(self.connected() && self.shared().group().is_ok()) {
            return self.plain_all_gather(parts, arrays);
        }
        let one = |(p, a): (&Part, &Part)| vec![(p.clone(), Mode::Read), (a.clone(), Mode::Write)];
        let accesses = parts.iter().zip(arrays).map(one).collect();
        self.together("all_gather", Asked::AllGather, accesses, (bytes(first), 0))
    }

    /// Whether NCCL is for these devices: several of CUDA, each once.
    fn connected(&self) -> bool {
        let ordinals: Option<Vec<c_int>> =
            (0..self.len()).map(|n| self.shared().opened(n).cuda().map(|d| d.ordinal)).collect();
        ordinals.is_some_and(|o| o.len() > 1 && (1..o.len()).all(|n| !o[..n].contains(&o[n])))
    }

    /// Parts of one length and type, one for each device, none with an element of another.
    fn alike(&self, parts: &[Part], what: &str) -> Result<(), Diagnostic> {
        if parts.len() != self.len() {
            return Err(refusal(format!("{} {what}s for {} devices", parts.len(), self.len())));
        }
        for (n, p) in parts.iter().enumerate() {
            if bytes(p) != bytes(&parts[0])
                || p.dtype != parts[0].dtype
                || p.elem_bytes != parts[0].elem_bytes
            {
                return Err(refusal(format!("{what} {n} has another length or type than {what} 0")));
            }
            if parts[..n].iter().any(|o| meet(o, p)) {
                return Err(refusal(format!("{what} {n} has elements of another {what}")));
            }
        }
        Ok(())
    }

    /// Arrays of as many pieces as there are devices, and parts of the size of a piece.
    fn pieces(&self, arrays: &[Part], parts: &[Part]) -> Result<(), Diagnostic> {
        self.alike(arrays, "array")?;
        self.alike(parts, "part")?;
        let (Some(a), Some(p)) = (arrays.first(), parts.first()) else { return Ok(()) };
        if bytes(a) != bytes(p) * self.len() as u64 || a.dtype != p.dtype || a.elem_bytes != p.elem_bytes {
            let text = format!("arrays are {} parts of one type, one after the other", self.len());
            return Err(refusal(text));
        }
        Ok(())
    }

    /// Gives NCCL's calls to all devices.
    fn together(
        &self,
        name: &str,
        asked: Asked,
        parts: Vec<Vec<(Part, Mode)>>,
        (count, element): (u64, c_int),
    ) -> Result<Vec<Launch>, Diagnostic> {
        let group = self.shared().group()?;
        let mut works = Vec::new();
        for (n, parts) in parts.iter().enumerate() {
            let device = self.device(n)?;
            let accesses: Vec<Access> =
                parts.iter().map(|(p, mode)| device.access(p, *mode)).collect::<Result<_, _>>()?;
            let offsets = accesses.iter().map(|a| a.range.start).collect();
            let member = Member {
                group: Arc::clone(&group),
                number: n,
                asked,
                offsets,
                count: count as usize,
                element,
            };
            works.push((n, accesses, member));
        }
        let all: Vec<(usize, &[Access], &(dyn Start + 'static))> =
            works.iter().map(|(n, a, w)| (*n, &a[..], w as &(dyn Start + 'static))).collect();
        let shared = self.shared();
        let mut state = shared.lock()?;
        let events = state.executor.launch_together(name, &all);
        if events.is_err() {
            // Members that were begun would wait for the others.
            shared.disband();
        }
        Ok(events?.into_iter().map(|event| Launch { shared: Arc::clone(shared), event }).collect())
    }
}

/// One device's call of NCCL. The first begins the group of calls, the last ends it; the executor gives the driver nothing
/// else in between.
struct Member {
    group: Arc<Group>,
    number: usize,
    asked: Asked,
    /// Where the parts that it uses begin in their buffers: what is read, then what is written; one, if that is the same.
    offsets: Vec<u64>,
    count: usize,
    element: c_int,
}

impl Start for Member {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        let fault = |text| Diagnostic::error(lathe_host::codes::FAILED, text);
        let (nccl, last) = (self.group.nccl, self.group.members.len() - 1);
        if self.number == 0 {
            nccl.start().map_err(fault)?;
        }
        let at = |n: usize| memory.get(n).copied().flatten().map(|m| m.raw() + self.offsets[n]);
        let from = at(0);
        let to = if self.offsets.len() > 1 { at(1) } else { from };
        let done = match (from, to) {
            (Some(from), Some(to)) if self.count > 0 => {
                let member = (self.group.members[self.number], queue.raw());
                nccl.ask(self.asked, [from, to], (self.count, self.element), member)
            }
            _ => Ok(()),
        };
        if self.number == last || done.is_err() {
            let ended = nccl.end();
            done.and(ended).map_err(fault)?;
        }
        Ok(Outcome::None)
    }

    fn starts_later(&self) -> bool {
        true
    }
}
