//! Six samples, five of them those of HCA's evaluation (Rasch, section 3.7): each file has kernels in CUDA C, host code with
//! Lathe, and the same by hand against the driver. Lines between `begin` and `end` are counted.

pub mod hand;
pub mod heat;
mod monte_carlo;
mod n_body;
mod reduction;
mod scaled_dot;
mod tone_mapping;

use hand::Cubin;
use lathe_diagnostics::Diagnostic;
use lathe_gpu::device::{Devices, Kernel};
use lathe_source::device::Language;

/// A sample.
pub struct Sample {
    pub name: &'static str,
    pub source: &'static str,
    /// The kernels of the source, in the order in which the host code takes them.
    pub kernels: &'static [&'static str],
    /// A number that says what came out.
    pub lathe: fn(&Devices, &[Kernel]) -> Result<f64, Diagnostic>,
    pub hand: fn(&[Cubin]) -> f64,
    text: &'static str,
}

macro_rules! sample {
    ($module:ident, $($kernel:literal),*) => {
        Sample {
            name: stringify!($module),
            source: $module::KERNELS,
            kernels: &[$($kernel),*],
            lathe: $module::lathe,
            hand: $module::hand,
            text: include_str!(concat!(stringify!($module), ".rs")),
        }
    };
}

pub const ALL: [Sample; 6] = [
    sample!(reduction, "reduction"),
    sample!(monte_carlo, "monte_carlo"),
    sample!(n_body, "n_body"),
    sample!(scaled_dot, "scaled_dot"),
    sample!(tone_mapping, "luminance", "tone_map"),
    sample!(heat, "heat"),
];

impl Sample {
    pub fn compiled(&self) -> Result<Vec<Kernel>, Diagnostic> {
        self.kernels.iter().map(|k| Kernel::of(self.source, Language::Cuda, Some(k))).collect()
    }

    /// Lines of host code: with Lathe, and by hand without what the samples have in common.
    pub fn lines(&self) -> [usize; 2] {
        [lines(self.text, "// begin"), lines(self.text, "// begin by hand")]
    }
}

/// Lines of code by hand that the samples have in common.
pub fn common_lines() -> usize {
    lines(include_str!("hand.rs"), "// begin by hand")
}

fn lines(text: &str, begin: &str) -> usize {
    let (mut count, mut inside) = (0, false);
    for line in text.lines().map(str::trim) {
        match line {
            "// end" => inside = false,
            _ if line.starts_with("// begin") => inside = line == begin,
            _ => count += usize::from(inside && !line.is_empty()),
        }
    }
    count
}

pub const N: usize = 1 << 25;
pub const BLOCKS: usize = 1024;

pub fn data<const N: usize>(i: usize) -> f32 {
    ((i.wrapping_mul(2_654_435_761) % N) as f32) / N as f32
}
