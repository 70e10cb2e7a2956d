//! The launches of a function as JSON: what a program that loads the cubin itself has to do, in order.

use crate::codes;
use crate::host::{self, Known, Launch, Launcher, Value};
use crate::kept::Hosted;
use lathe_diagnostics::Diagnostic;
use lathe_ir::interp::evaluate;
use lathe_ir::{BufId, Buffer, ParamKind};
use std::collections::HashMap;
use std::fmt::Write;

/// More launches than this are not written out.
const MOST: usize = 100_000;

/// The launches of a function whose sizes are known: `arrays` (its parameters, in order), `buffers` (memory to give),
/// and `launches` (kernel, blocks, threads, bytes of shared memory that are asked for at the launch, the word of the status that
/// is looked at first, arguments).
///
/// # Errors
/// `E0846` for unknown sizes, and for more launches than fit a file.
pub fn launches(hosted: &Hosted) -> Result<String, Diagnostic> {
    let f = &hosted.function;
    let refuse = |why: &str| {
        Diagnostic::error(codes::LAUNCHES, format!("the launches of `{}` cannot be written: {why}", f.name))
            .help("bake the sizes in: --specialize -D N=1024")
    };
    if let Some(size) = f.sizes.first() {
        return Err(refuse(&format!("the size `{}` is not known", size.name)));
    }
    let mut names = HashMap::new();
    let mut arrays = Vec::new();
    let mut known = Known::default();
    for p in &f.params {
        match &p.kind {
            ParamKind::Array(b) => {
                names.insert(b.id, b.name.to_string());
                let extents = b.extents.iter().map(|e| evaluate(e, &HashMap::new()));
                let extents: Option<Vec<i64>> = extents.collect();
                let extents = extents.ok_or_else(|| refuse("an extent is not known"))?;
                arrays.push(format!(
                    "{{\"name\": {:?}, \"type\": \"{}\", \"shape\": {extents:?}, \"mode\": \"{}\"}}",
                    &*b.name,
                    b.elem,
                    p.mode.name()
                ));
            }
            ParamKind::Scalar(b) => {
                known.scalars.insert(b.id, Value::Named(b.name.clone(), b.ty));
                arrays.push(format!(
                    "{{\"name\": {:?}, \"type\": \"{}\", \"mode\": \"scalar\"}}",
                    &*b.name, b.ty
                ));
            }
        }
    }
    let mut list = List { names, buffers: Vec::new(), launches: Vec::new() };
    host::run(hosted, &mut list, &known)?;
    Ok(format!(
        "{{\n  \"function\": {:?},\n  \"arrays\": [\n    {}\n  ],\n  \"buffers\": [{}],\n  \"launches\": [\n    {}\n  ]\n}}\n",
        &*f.name,
        arrays.join(",\n    "),
        list.buffers.join(", "),
        list.launches.join(",\n    ")
    ))
}

struct List {
    names: HashMap<BufId, String>,
    buffers: Vec<String>,
    launches: Vec<String>,
}

impl Launcher for List {
    fn alloc(&mut self, buffer: &Buffer, bytes: u64) -> Result<(), Diagnostic> {
        let known = self.names.len();
        let name = self.names.entry(buffer.id).or_insert_with(|| format!("{}.{known}", buffer.name));
        let text = format!("{{\"name\": {name:?}, \"bytes\": {bytes}}}");
        if !self.buffers.contains(&text) {
            self.buffers.push(text);
        }
        Ok(())
    }

    fn free(&mut self, _: BufId) {}

    fn launch(&mut self, l: &Launch) -> Result<(), Diagnostic> {
        if self.launches.len() >= MOST {
            return Err(Diagnostic::error(codes::LAUNCHES, format!("there are more than {MOST} launches")));
        }
        let mut arguments = Vec::new();
        for a in &l.arguments {
            arguments.push(match a {
                Value::Array(b) => {
                    format!("{{\"array\": {:?}}}", self.names.get(b).map_or("", String::as_str))
                }
                Value::Bytes(bytes, ty) => {
                    let mut hex = String::new();
                    for b in bytes {
                        let _ = write!(hex, "{b:02x}");
                    }
                    format!("{{\"bytes\": \"{hex}\", \"type\": \"{ty}\"}}")
                }
                Value::Named(n, ty) => format!("{{\"scalar\": {:?}, \"type\": \"{ty}\"}}", &**n),
            });
        }
        let dynamic = if l.kernel.dynamic { l.kernel.shared_bytes } else { 0 };
        self.launches.push(format!(
            "{{\"kernel\": {:?}, \"blocks\": {}, \"threads\": {}, \"dynamic_shared\": {dynamic}, \"turns\": {}, \"status\": {}, \"after\": {}, \"arguments\": [{}]}}",
            l.kernel.name,
            l.blocks,
            l.threads,
            l.turns,
            l.kernel.status,
            l.kernel.after.map_or("null".to_string(), |word| word.to_string()),
            arguments.join(", ")
        ));
        Ok(())
    }
}
