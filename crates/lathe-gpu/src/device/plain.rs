//! What devices do together where NCCL does not connect them: launches that copy and combine parts, in the order of the
//! devices. What they read of other devices comes to them as for every launch.

use super::arguments::{Part, dim3, read, read_write};
use super::buffer::Buffer;
use super::collective::bytes;
use super::kernel::Kernel;
use super::open::{Device, Devices, Launch};
use crate::nccl::Combine;
use crate::work::{Memory, Outcome, Queue, Start};
use lathe_abi::dtype;
use lathe_diagnostics::Diagnostic;
use lathe_host::Mode;
use lathe_source::device::Language;

const THREADS: u64 = 256;

/// `to[i]` becomes the combination of itself and `from[i]`.
fn kernel(combine: Combine, part: &Part) -> Result<Kernel, Diagnostic> {
    let ty = match part.dtype {
        Some(dtype::I8) => "char",
        Some(dtype::U8) => "unsigned char",
        Some(dtype::I32) => "int",
        Some(dtype::U32) => "unsigned int",
        Some(dtype::I64) => "long",
        Some(dtype::U64) => "unsigned long",
        Some(dtype::F32) => "float",
        _ => "double",
    };
    let (name, value) = match combine {
        Combine::Sum => ("combine_sum", "to[i] + from[i]"),
        Combine::Product => ("combine_product", "to[i] * from[i]"),
        Combine::Max => ("combine_max", "to[i] > from[i] ? to[i] : from[i]"),
        Combine::Min => ("combine_min", "to[i] < from[i] ? to[i] : from[i]"),
    };
    let text = format!(
        "extern \"C\" __global__ void {name}({ty} *to, const {ty} *from, unsigned long n) {{
    unsigned long i = blockIdx.x * (unsigned long)blockDim.x + threadIdx.x;
    if (i < n) to[i] = {value};
}}"
    );
    Kernel::of(&text, Language::Cuda, None)
}

fn piece(of: &Part, n: usize, bytes: u64) -> Part {
    let start = of.range.start + n as u64 * bytes;
    Part { range: start..start + bytes, shape: None, ..of.clone() }
}

/// Elements that are copied from one part to another, on a device that has both.
struct Copied {
    from: u64,
    to: u64,
    bytes: u64,
}

impl Start for Copied {
    fn start(&self, queue: Queue, memory: &[Option<Memory>]) -> Result<Outcome, Diagnostic> {
        if let [Some(from), Some(to)] = memory {
            queue.0.copy((*from, self.from), (*to, self.to), self.bytes)?;
        }
        Ok(Outcome::None)
    }
}

impl Device {
    fn copy_part(&self, name: &str, from: &Part, to: &Part) -> Result<Launch, Diagnostic> {
        let accesses = [self.access(from, Mode::Read)?, self.access(to, Mode::Write)?];
        let work = Copied { from: from.range.start, to: to.range.start, bytes: bytes(from) };
        self.give(name, &accesses, &work)
    }
}

impl Devices {
    /// The first parts, then all others combined with them, on one device.
    fn combined(
        &self,
        device: usize,
        kernel: &Kernel,
        parts: &[Part],
        to: &Part,
    ) -> Result<Option<Launch>, Diagnostic> {
        let device = self.device(device)?;
        let mut last = None;
        for (k, p) in parts.iter().enumerate() {
            let count = bytes(p) / p.elem_bytes.max(1);
            last = Some(match k {
                0 => device.copy_part(kernel.name(), p, to)?,
                _ if count == 0 => continue,
                _ => {
                    let blocks = u32::try_from(count.div_ceil(THREADS)).unwrap_or(u32::MAX);
                    let arguments = [read_write(to.clone()), read(p.clone()), count.into()];
                    device.launch(kernel, dim3(blocks, THREADS as u32), &arguments)?
                }
            });
        }
        Ok(last)
    }

    pub(crate) fn plain_all_reduce(
        &self,
        combine: Combine,
        parts: &[Part],
    ) -> Result<Vec<Launch>, Diagnostic> {
        let kernel = kernel(combine, &parts[0])?;
        // All are read before one is written.
        let mut sums = Vec::new();
        for n in 0..self.len() {
            let own = Buffer::<u8>::new(self, bytes(&parts[n]) as usize)?;
            let sum = Part { dtype: parts[n].dtype, elem_bytes: parts[n].elem_bytes, ..Part::from(&own) };
            self.combined(n, &kernel, parts, &sum)?;
            sums.push((own, sum));
        }
        let each = sums.iter().zip(parts).enumerate();
        each.map(|(n, ((_, sum), p))| self.device(n)?.copy_part(kernel.name(), sum, p)).collect()
    }

    pub(crate) fn plain_reduce_scatter(
        &self,
        combine: Combine,
        arrays: &[Part],
        parts: &[Part],
    ) -> Result<Vec<Launch>, Diagnostic> {
        let kernel = kernel(combine, &parts[0])?;
        let mut out = Vec::new();
        for (n, to) in parts.iter().enumerate() {
            let pieces: Vec<Part> = arrays.iter().map(|a| piece(a, n, bytes(to))).collect();
            out.extend(self.combined(n, &kernel, &pieces, to)?);
        }
        Ok(out)
    }

    pub(crate) fn plain_broadcast(&self, root: usize, parts: &[Part]) -> Result<Vec<Launch>, Diagnostic> {
        let others = parts.iter().enumerate().filter(|(n, _)| *n != root);
        others.map(|(n, p)| self.device(n)?.copy_part("broadcast", &parts[root], p)).collect()
    }

    pub(crate) fn plain_all_gather(
        &self,
        parts: &[Part],
        arrays: &[Part],
    ) -> Result<Vec<Launch>, Diagnostic> {
        let mut out = Vec::new();
        for (n, a) in arrays.iter().enumerate() {
            for (k, p) in parts.iter().enumerate() {
                let to = piece(a, k, bytes(p));
                if to.buffer != p.buffer || to.range != p.range {
                    out.push(self.device(n)?.copy_part("all_gather", p, &to)?);
                }
            }
        }
        Ok(out)
    }
}
