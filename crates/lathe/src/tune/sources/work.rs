//! The measuring process of a kernel in a device's language.

use super::data::{Given, make};
use super::{Setup, codes, number, texts};
use crate::tune::described::{Described, describe_program};
use crate::tune::work::{Question, failed, timing};
use lathe_diagnostics::Diagnostic;
use lathe_measure::cost::Gold;
use lathe_measure::store::hash_of;
use lathe_measure::worker::Race;
use lathe_runtime::device::{Argument, Device, Devices, Grid, Kernel, Language, dim3, nd_range};
use lathe_space::formats::{self, Api};
use lathe_space::{Expr, Value, Values};
use lathe_tune::{Invalid, Why};
use serde_json::Value as Json;
use std::path::PathBuf;
use std::time::Instant;

/// A compiled kernel, or why there is none, and the seconds that took.
type Made = (Result<Kernel, Invalid>, f64);

pub(crate) struct Work {
    described: Described,
    kernel: formats::Kernel,
    source: String,
    folder: PathBuf,
    seed: u64,
    gold: Option<(Gold, Option<String>)>,
    devices: Devices,
    device: Device,
    /// Compiled for the next questions.
    ready: Vec<(Values, Made)>,
    /// The data of the last configuration, and what its directives' sizes and values were.
    data: Option<(Vec<Option<Value>>, Vec<Given>)>,
}

impl Work {
    pub fn start(setup: Setup) -> Result<Work, Diagnostic> {
        let first = |f: crate::Failure| {
            let none =
                || Diagnostic::error(codes::FORM, "the file does not describe a tuning problem any more");
            f.diagnostics.into_iter().next().unwrap_or_else(none)
        };
        let described = describe_program(&setup.described, &setup.arguments).map_err(first)?;
        let (Some(kernel), Some(source)) = (described.program.kernel.clone(), described.text.clone()) else {
            return Err(Diagnostic::error(codes::FORM, "the file does not describe a kernel any more"));
        };
        let texts = texts(&described, &kernel)?;
        if hash_of(&texts.iter().map(String::as_str).collect::<Vec<_>>()) != setup.hash {
            let text =
                format!("`{}`, or a file of it, was changed during the search", setup.described.display());
            return Err(Diagnostic::error(codes::FORM, text));
        }
        let devices = Devices::named(&setup.device)?;
        let device = devices.device(0)?;
        devices.keep_profile(true)?;
        let folder = super::folder(&setup.described).to_path_buf();
        let gold = setup.gold.map(|g| (g.gold(), g.of));
        Ok(Work {
            described,
            kernel,
            source,
            folder,
            seed: setup.seed,
            gold,
            devices,
            device,
            ready: Vec::new(),
            data: None,
        })
    }

    pub fn answer(&mut self, question: Json, running: &mut dyn FnMut()) -> Result<Json, Invalid> {
        let broken =
            |e: serde_json::Error| Invalid::new(Why::Runtime, format!("a message of the tuner: {e}"));
        match serde_json::from_value(question).map_err(broken)? {
            Question::Prepare { all } => {
                self.compile_all(&all);
                let seconds = |p: &Values| self.ready.iter().find(|r| r.0 == *p).map(|r| r.1.1);
                serde_json::to_value(all.iter().map(seconds).collect::<Vec<_>>()).map_err(broken)
            }
            Question::Measure { params, best, rule } => {
                let ready = self.ready.iter().position(|r| r.0 == params);
                let made = match ready {
                    Some(i) => self.ready.swap_remove(i).1,
                    None => self.compile(&params),
                };
                let kernel = made.0?;
                let values = self.values(&params);
                let grid = self.grid(&values)?;
                self.prepare(&values)?;
                running();
                // The first run is checked; it takes the device out of its sleep, too.
                self.run(&kernel, grid)?;
                self.check(&kernel)?;
                let mut runtimes = Vec::new();
                let (s, _) = Race::new(rule, best).run(|| {
                    let seconds = self.run(&kernel, grid)?;
                    runtimes.push(seconds);
                    Ok(seconds)
                })?;
                serde_json::to_value(timing(&s, runtimes)).map_err(broken)
            }
            Question::Check { .. } | Question::Compare { .. } => {
                Err(Invalid::new(Why::Refused, "a kernel in a device's language has no reference run"))
            }
        }
    }

    /// Parameters and constants.
    fn values(&self, params: &Values) -> Values {
        let mut all = self.described.program.space.constants.clone();
        all.extend(params.clone());
        all
    }

    fn compile(&self, params: &Values) -> Made {
        let start = Instant::now();
        let made = self.compiled(params);
        (made, start.elapsed().as_secs_f64())
    }

    fn compiled(&self, params: &Values) -> Result<Kernel, Invalid> {
        let language = match self.kernel.api {
            Api::OpenCl => Language::OpenCl,
            Api::Cuda => Language::Cuda,
        };
        let mut kernel =
            Kernel::of(&self.source, language, self.kernel.name.as_deref()).map_err(|d| failed(&d))?;
        for (name, value) in params {
            kernel = kernel.flag(&format!("-D{name}={}", text(name, value)?));
        }
        // Flags are separated by blanks.
        let folder = self.folder.display().to_string();
        if !folder.contains(char::is_whitespace) {
            kernel = kernel.flag(&format!("-I{folder}"));
        }
        self.device.compile(&kernel).map_err(|d| failed(&d))?;
        Ok(kernel)
    }

    /// Compiles all side by side; nothing runs until all of it is done.
    fn compile_all(&mut self, all: &[Values]) {
        let this = &*self;
        self.ready = std::thread::scope(|scope| {
            let one = |params: &Values| {
                let params = params.clone();
                std::thread::Builder::new().spawn_scoped(scope, move || {
                    let made = this.compile(&params);
                    (params, made)
                })
            };
            let threads: Vec<_> = all.iter().map(one).collect();
            // What does not start, or panics, is compiled again when it is asked about, and says so then.
            threads.into_iter().filter_map(|t| t.ok()?.join().ok()).collect()
        });
    }

    /// How many threads run.
    fn grid(&self, values: &Values) -> Result<Grid, Invalid> {
        let three = |all: &[Expr]| -> Result<(u32, u32, u32), Invalid> {
            let mut out = [1; 3];
            for (to, e) in out.iter_mut().zip(all) {
                *to = match number(e, values) {
                    Ok(Value::Int(n)) => u32::try_from(n).ok().filter(|n| *n > 0),
                    Ok(_) => None,
                    Err(why) => return Err(Invalid::new(Why::Refused, format!("`{e}`: {why}"))),
                }
                .ok_or_else(|| Invalid::new(Why::Refused, format!("`{e}` is not a number of threads")))?;
            }
            Ok(out.into())
        };
        let (global, local) = (three(&self.kernel.global_size)?, three(&self.kernel.local_size)?);
        Ok(match self.kernel.api {
            Api::OpenCl => nd_range(global, local),
            Api::Cuda => dim3(global, local),
        })
    }

    /// Makes the data, unless sizes and values are those of the last configuration.
    fn prepare(&mut self, values: &Values) -> Result<(), Invalid> {
        use formats::Input::{Buffer, BufferFile, Scalar};
        let expression = |i: &formats::Input| match i {
            Scalar { value: Some(e), .. } | Buffer { size: e, .. } => number(e, values).ok(),
            Scalar { value: None, .. } | BufferFile { .. } => None,
        };
        let sizes: Vec<Option<Value>> = self.kernel.inputs.iter().map(expression).collect();
        if self.data.as_ref().is_none_or(|d| d.0 != sizes) {
            // What was there before makes room first.
            self.data = None;
            let made = make(&self.kernel.inputs, values, &self.devices, &self.folder, self.seed);
            self.data = Some((sizes, made.map_err(|d| failed(&d))?));
        }
        Ok(())
    }

    /// One run on the data as it was made: its seconds by the clock of the device.
    fn run(&self, kernel: &Kernel, grid: Grid) -> Result<f64, Invalid> {
        let Some((_, given)) = &self.data else { return Err(Invalid::new(Why::Runtime, "there is no data")) };
        let mut arguments: Vec<Argument> = Vec::new();
        for g in given {
            arguments.push(match g {
                Given::Scalar(a) => a.clone(),
                Given::Array(a) => {
                    a.reset().map_err(|d| failed(&d))?;
                    a.argument()
                }
            });
        }
        let launch = self.device.launch(kernel, grid, &arguments).map_err(|d| failed(&d))?;
        launch.wait().map_err(|d| failed(&d))?;
        let profile = self.devices.profile().map_err(|d| failed(&d))?;
        let kernels = profile.spans.iter().filter(|s| s.bytes.is_none() && s.device.is_some());
        Ok(kernels.map(|s| s.end - s.start).sum())
    }

    /// Compares an array with what it must be.
    fn check(&self, kernel: &Kernel) -> Result<(), Invalid> {
        let (Some((gold, name)), Some((_, given))) = (&self.gold, &self.data) else { return Ok(()) };
        let mut arrays = given.iter().enumerate().filter_map(|(n, g)| match g {
            Given::Array(a) => Some((n, a)),
            Given::Scalar(_) => None,
        });
        let parameters: Vec<&str> =
            kernel.parameters().iter().filter(|p| !p.local).map(|p| p.name.as_str()).collect();
        let named = |n: usize| name.as_deref().is_none_or(|name| parameters.get(n) == Some(&name));
        let Some((_, array)) = arrays.rfind(|(n, _)| named(*n)) else {
            let text = format!("no array of the kernel is called `{}`", name.as_deref().unwrap_or_default());
            return Err(Invalid::new(Why::Refused, text));
        };
        gold.check(&array.numbers().map_err(|d| failed(&d))?)
    }
}

/// A value as the preprocessor of C is given it.
fn text(name: &str, value: &Value) -> Result<String, Invalid> {
    let text = match value {
        Value::Bool(b) => u8::from(*b).to_string(),
        other => other.to_string(),
    };
    // Options are words, and a program chooses only values.
    if text.is_empty() || text.contains(|c: char| c.is_whitespace() || c.is_control() || "\"'`\\".contains(c))
    {
        let why = format!("the value of `{name}` cannot be a macro: {value:?}");
        return Err(Invalid::new(Why::Refused, why));
    }
    Ok(text)
}
