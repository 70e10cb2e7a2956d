//! Kernels in CUDA C or OpenCL C whose directives say what they are given and how many threads run: they are compiled with a
//! configuration's values as macros, and run on a device, in a measuring process. No host program is needed. (The cost
//! functions for OpenCL and CUDA of ATF: Rasch et al., "Efficient auto-tuning of parallel programs with interdependent
//! tuning parameters", TACO 2021.)

mod data;
mod work;

pub(super) use work::Work;

use super::codes;
use super::described::Described;
use super::kernel::{Bounds, KernelCost, WorkerCommand};
use lathe_diagnostics::Diagnostic;
use lathe_measure::cost::{Comparator, Gold};
use lathe_measure::store::{Device, hash_of, hash_of_file};
use lathe_measure::worker::Rule;
use lathe_runtime::Engine;
use lathe_runtime::device::{DeviceInfo, devices_of};
use lathe_space::formats::{Api, Input, Kernel};
use lathe_space::{Expr, Value, Values, eval};
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What a measuring process works on.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Setup {
    /// The file with the directives, and what they call `$1`, `$2`, …
    described: PathBuf,
    arguments: Vec<String>,
    /// Of everything that was read: it must be the same there.
    hash: String,
    /// `opencl:0`, …
    device: String,
    seed: u64,
    gold: Option<GoldSetup>,
}

impl Setup {
    /// The setup of this kind, if it is one.
    pub fn of(setup: &Json) -> Option<Setup> {
        setup.get("described").and_then(|_| serde_json::from_value(setup.clone()).ok())
    }
}

/// The right elements of one array.
#[derive(Clone, Debug, Serialize, Deserialize)]
struct GoldSetup {
    /// JSON has no infinities and no NaN.
    expected: Vec<String>,
    by: By,
    /// The parameter of the kernel; the last array where none is named.
    of: Option<String>,
}

#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
enum By {
    Equal,
    Within(f64),
    Relative(f64),
}

impl GoldSetup {
    fn new(gold: &Gold, of: Option<&Path>) -> Result<GoldSetup, Diagnostic> {
        let by = match gold.comparator() {
            Comparator::Equal => By::Equal,
            Comparator::Within(t) => By::Within(*t),
            Comparator::Relative(t) => By::Relative(*t),
            Comparator::By(_) => {
                let text =
                    "results of kernels on devices are compared in another process, where no function is";
                return Err(Diagnostic::error(codes::OPTIONS, text).help("compare with a tolerance"));
            }
        };
        let expected = gold.expected().iter().map(f64::to_string).collect();
        Ok(GoldSetup { expected, by, of: of.map(|p| p.display().to_string()) })
    }

    fn gold(&self) -> Gold {
        let by = match self.by {
            By::Equal => Comparator::Equal,
            By::Within(t) => Comparator::Within(t),
            By::Relative(t) => Comparator::Relative(t),
        };
        Gold::new(self.expected.iter().map(|n| n.parse().unwrap_or(f64::NAN)).collect(), by)
    }
}

/// A kernel's cost function, and what the store is told of it.
pub(super) struct Prepared {
    pub cost: KernelCost,
    pub device: Device,
    pub compiler: String,
    pub texts: Vec<String>,
}

/// How a kernel is tuned.
pub(super) struct Asked<'a> {
    pub seed: u64,
    pub memory: Option<u64>,
    /// Time for one configuration while there is no best to derive it from.
    pub first: Duration,
    pub jobs: usize,
    pub runs: Option<usize>,
    /// What an array must be, and its parameter.
    pub gold: Option<(&'a Gold, Option<&'a Path>)>,
    pub device: Option<&'a str>,
    pub worker: &'a WorkerCommand,
}

/// Prepares the tuning of a kernel without a host program.
///
/// # Errors
/// `E1087` where its directives leave something open; `E0841` where there is no such device; `E1088` for a function that
/// compares results.
pub(super) fn prepare(described: &Described, k: &Kernel, t: &Asked) -> Result<Prepared, Diagnostic> {
    complete(described, k)?;
    let info = device(k, t.device)?;
    let engine = Engine::named(&info.id)?;
    let texts = texts(described, k)?;
    let setup = Setup {
        described: described.file.canonicalize().unwrap_or_else(|_| described.file.clone()),
        arguments: described.arguments.clone(),
        hash: hash_of(&texts.iter().map(String::as_str).collect::<Vec<_>>()),
        device: info.id.clone(),
        seed: t.seed,
        gold: t.gold.map(|(g, of)| GoldSetup::new(g, of)).transpose()?,
    };
    let rule = match t.runs {
        Some(n) => Rule { min: n, max: n, warmup: 0, time: t.first, precision: 0.0, ..Rule::default() },
        None => Rule::default(),
    };
    // Every run is given its data anew.
    let runs = (rule.max + rule.warmup + 1) as f64;
    let copies = bytes(described, k) as f64 / SLOWEST * runs;
    let around = Duration::try_from_secs_f64(copies).unwrap_or(t.first);
    let bounds = Bounds { memory: t.memory, batch: t.jobs, rule, around };
    let cost = KernelCost::new(t.worker, &setup, Values::new(), t.first, bounds)?;
    Ok(Prepared {
        cost,
        device: Device { name: format!("{} ({}, {})", info.name, info.kind, info.arch), vector_bytes: 0 },
        compiler: engine.compiler(),
        texts,
    })
}

/// Bytes per second that any copy to a device reaches, made and compared on the host included.
const SLOWEST: f64 = 2e8;

/// Whether directives say all that a launch needs.
fn complete(described: &Described, k: &Kernel) -> Result<(), Diagnostic> {
    let (global, local) = match k.api {
        Api::OpenCl => ("ocl::global_size", "ocl::local_size"),
        Api::Cuda => ("cuda::grid_dim", "cuda::block_dim"),
    };
    let missing = |what: &str| {
        let text = format!("`{}` does not specify how its kernel is started", described.file.display());
        let d = Diagnostic::error(codes::FORM, text);
        Err(d.help(format!("add #atf::{what}, or a host program: #atf::run_script")))
    };
    if described.text.is_none() {
        return missing("tp in the kernel's own source");
    }
    if k.global_size.is_empty() {
        return missing(global);
    }
    if k.local_size.is_empty() { missing(local) } else { Ok(()) }
}

/// The device that directives name, by its name or by its number, among those of a platform if one is named; `asked`
/// is the user's own choice.
fn device(k: &Kernel, asked: Option<&str>) -> Result<DeviceInfo, Diagnostic> {
    let kind = match k.api {
        Api::OpenCl => "opencl",
        Api::Cuda => "cuda",
    };
    let all = devices_of(kind)?;
    let none = |wanted: String| {
        let names: Vec<String> =
            all.iter().map(|d| format!("{} ({} of {})", d.id, d.name, d.platform)).collect();
        let text = format!("this machine has no {wanted} for this kernel");
        Diagnostic::error(lathe_runtime::device_codes::NO_DEVICE, text)
            .note(format!("it has {}", names.join(", ")))
    };
    if let Some(asked) = asked {
        let id = if asked.contains(':') { asked.to_string() } else { format!("{asked}:0") };
        return all.iter().find(|d| d.id == id).cloned().ok_or_else(|| none(format!("device `{asked}`")));
    }
    let of = |d: &&DeviceInfo| match k.platform.as_deref().map(|p| (p, p.parse::<usize>())) {
        None => true,
        Some((_, Ok(n))) => d.platform_number == n,
        Some((name, Err(_))) => d.platform.contains(name),
    };
    let mut here = all.iter().filter(of);
    let found = match k.device.as_deref().map(|d| (d, d.parse::<usize>())) {
        None => here.next(),
        Some((_, Ok(n))) => here.nth(n),
        Some((name, Err(_))) => here.find(|d| d.name.contains(name)),
    };
    found.cloned().ok_or_else(|| {
        let device = k.device.as_deref().map_or("device".to_string(), |d| format!("device `{d}`"));
        none(k.platform.as_deref().map_or(device.clone(), |p| format!("{device} of platform `{p}`")))
    })
}

/// All that the time of a configuration depends on, besides the device.
fn texts(described: &Described, k: &Kernel) -> Result<Vec<String>, Diagnostic> {
    let mut all = vec![described.text.clone().unwrap_or_default(), format!("{k:?}")];
    let read = |file: &Path| -> Result<String, Diagnostic> {
        lathe_system::files::open(file).and_then(hash_of_file).map_err(|e| {
            let text = format!("`{}` cannot be read: {e}", file.display());
            Diagnostic::error(codes::FORM, text)
        })
    };
    for file in described.files().iter().skip(1) {
        all.push(read(file)?);
    }
    for input in &k.inputs {
        if let Input::BufferFile { path, .. } = input {
            all.push(read(&folder(&described.file).join(path))?);
        }
    }
    let constants: Vec<String> =
        described.program.space.constants.iter().map(|(n, v)| format!("{n} = {v}")).collect();
    all.push(constants.join(", "));
    Ok(all)
}

fn folder(file: &Path) -> &Path {
    file.parent().filter(|f| !f.as_os_str().is_empty()).unwrap_or(Path::new("."))
}

/// About how many bytes all arrays have: those whose size depends on parameters are not counted.
fn bytes(described: &Described, k: &Kernel) -> u64 {
    let of = |input: &Input| match input {
        Input::Scalar { .. } => 0,
        Input::Buffer { size, .. } => match number(size, &described.program.space.constants) {
            // The widest type.
            Ok(Value::Int(n)) => u64::try_from(n).unwrap_or(0).saturating_mul(16),
            _ => 0,
        },
        Input::BufferFile { path, .. } => {
            std::fs::metadata(folder(&described.file).join(path)).map_or(0, |m| m.len().saturating_mul(8))
        }
    };
    k.inputs.iter().map(of).fold(0, u64::saturating_add)
}

fn number(e: &Expr, values: &Values) -> Result<Value, String> {
    eval(e, &|n| values.get(n).cloned()).map_err(|e| e.to_string())
}
