//! The engine `opencl`: the devices of all platforms that `libOpenCL` knows, in its order.

pub(crate) mod open;

use crate::kept::{pack, unpack};
use crate::kernels::Kernels;
use crate::loaded::Loaded;
use crate::marks::Opened;
use crate::numbered;
use lathe_device::Limits;
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Capabilities, Code, Engine, Object, Options, no_form};
use lathe_ir::{Function, Module};
use lathe_source::device::{Language, capabilities, emit};
use open::device;
use std::sync::{Arc, LazyLock};
use std::time::Instant;

/// One device.
pub struct OpenCl {
    number: usize,
    name: &'static str,
}

impl OpenCl {
    /// The one of number 0.
    pub const FIRST: &'static OpenCl = &OpenCl { number: 0, name: "opencl" };

    /// The device of a number: `opencl` is `opencl:0`. None above the numbers that can be named.
    pub fn number(n: usize) -> Option<&'static OpenCl> {
        static ALL: LazyLock<Vec<OpenCl>> =
            LazyLock::new(|| numbered("opencl", |number, name| OpenCl { number, name }));
        ALL.get(n)
    }
}

impl Engine for OpenCl {
    fn name(&self) -> &'static str {
        self.name
    }

    fn compiler(&self) -> String {
        device(self.number).map_or_else(|d| d.message, |d| format!("{} {}", d.name, d.driver))
    }

    fn capabilities(&self) -> &Capabilities {
        capabilities()
    }

    fn fingerprint(&self) -> Result<String, Diagnostic> {
        let d = device(self.number)?;
        Ok(format!("{} {}", d.name, d.driver))
    }

    fn compile(&self, module: &Module, func: &Function, _: &Options) -> Result<Object, Diagnostic> {
        let start = Instant::now();
        let d = device(self.number)?;
        let source = emit(module, func, Language::OpenCl, d.limits())?;
        Ok(Object {
            engine: self.name().to_string(),
            fingerprint: self.fingerprint()?,
            symbol: func.name.to_string(),
            checks: source.checks.clone(),
            // The driver keeps what it compiles.
            bytes: pack(module, &source, source.source.as_bytes()),
            times: vec![("emit".to_string(), start.elapsed())],
        })
    }

    fn load(&self, object: &Object, _: &Function) -> Result<Box<dyn Code>, Diagnostic> {
        let d = device(self.number)?;
        let unpacked = unpack(object)?;
        Ok(Box::new(Loaded::new(Kernels::load(Arc::new(unpacked), Opened::OpenCl(d))?)))
    }

    fn forms(&self) -> &'static [&'static str] {
        if self.number == 0 { &["opencl"] } else { &[] }
    }

    fn emit(&self, module: &Module, func: &Function, form: &str, _: &Options) -> Result<Vec<u8>, Diagnostic> {
        match form {
            "opencl" => Ok(emit(module, func, Language::OpenCl, Limits::default())?.source.into_bytes()),
            _ => Err(no_form(self.name(), form, self.forms())),
        }
    }
}
