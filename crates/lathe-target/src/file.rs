//! Machine files: their form, and how a file and the one that it is based on become one description.
//!
//! The first line says the version: `format = 1`. JSON without it is format 0, which had levels alone and is converted.

use crate::codes;
use crate::levels::{Constraint, Core, Memory};
use lathe_diagnostics::Diagnostic;
use lathe_space::Value;
use serde::Deserialize;
use std::collections::BTreeMap;

/// The machines that come with Lathe: the name, and the file.
pub(crate) static SHIPPED: &[(&str, &str)] = include!(concat!(env!("OUT_DIR"), "/machines.rs"));

/// The version of the form.
pub const FORMAT: u64 = 1;
/// The longest file: a machine may come from anywhere.
pub(crate) const MOST_BYTES: usize = 1 << 16;

/// A file as it is written.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    #[serde(default)]
    pub format: u64,
    pub name: String,
    #[serde(default)]
    pub about: String,
    /// A machine that comes with Lathe, which has whatever this file does not say.
    pub base: Option<String>,
    pub code: Option<Code>,
    #[serde(default)]
    pub facts: BTreeMap<String, Fact>,
    /// See [`crate::Costs`].
    #[serde(default)]
    pub costs: BTreeMap<String, f64>,
    /// Facts of the file's own, for strategies that ask for them.
    #[serde(default)]
    pub extra: BTreeMap<String, Fact>,
    /// Names of processors, with what their code needs besides.
    #[serde(default)]
    pub processors: BTreeMap<String, Vec<String>>,
    #[serde(default)]
    pub memories: Vec<Memory>,
    #[serde(default)]
    pub cores: Vec<Core>,
    #[serde(default)]
    pub constraints: Vec<Constraint>,
}

/// What compilers call the machine.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Code {
    /// As LLVM calls it: `x86_64`, `aarch64`, `nvptx64`.
    pub arch: String,
    /// Empty where it is not a machine that runs programs by itself.
    #[serde(default)]
    pub triple: String,
    /// The processor, as LLVM calls it.
    pub cpu: String,
    /// LLVM's list of features beyond the processor's: `+sve`.
    #[serde(default)]
    pub features: String,
    /// Vectors that scale have this many times 128 bits; 0: vectors do not scale.
    #[serde(default)]
    pub vscale: u32,
    /// What a processor must have to run the code.
    #[serde(default)]
    pub needs: Vec<String>,
}

#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(untagged)]
pub(crate) enum Fact {
    Bool(bool),
    Int(i64),
    Word(String),
}

impl Fact {
    pub fn value(&self) -> Value {
        match self {
            Fact::Bool(b) => Value::Bool(*b),
            Fact::Int(n) => Value::Int(*n),
            Fact::Word(w) => Value::Str(w.clone()),
        }
    }
}

/// The line and the column of an offset, for a message.
fn place(text: &str, offset: usize) -> String {
    let before = text.get(..offset).unwrap_or(text);
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!("line {}, column {column}: ", before.matches('\n').count() + 1)
}

/// The place of an entry of a table, for a message: empty where the text does not have it, because its base does.
pub(crate) fn place_of(text: &str, table: &str, key: &str) -> String {
    let whole = toml::de::DeTable::parse(text).ok();
    let entry = whole.as_ref().and_then(|w| w.get_ref().get(table)?.get_ref().as_table()?.get_key_value(key));
    entry.map(|(key, _)| place(text, key.span().start)).unwrap_or_default()
}

fn form(text: String) -> Diagnostic {
    Diagnostic::error(codes::FORM, text)
}

impl File {
    /// Reads one file, of this or an older version.
    pub fn read(text: &str) -> Result<File, Diagnostic> {
        const HELP: &str = "a machine has `format = 1`, `name`, `memories` and `cores` or a `base`, `constraints` and `facts`";
        if text.len() > MOST_BYTES {
            return Err(form(format!("a machine file has at most {MOST_BYTES} bytes, not {}", text.len())));
        }
        if text.trim_start().starts_with(['{', '[']) && !text.trim_start().starts_with("[[") {
            let file: File = serde_json::from_str(text)
                .map_err(|e| form(format!("this is not a machine file: {e}")).help(HELP))?;
            let stated = [&file.facts, &file.extra].iter().any(|f| !f.is_empty()) || !file.costs.is_empty();
            let levels =
                !(stated || file.base.is_some() || file.code.is_some() || !file.processors.is_empty());
            return match file.format {
                0 if levels => Ok(File { format: FORMAT, ..file }),
                0 => Err(form("a machine file of format 0 has levels alone".to_string()).help(HELP)),
                n => Err(form(format!("a machine file of format {n} is written in TOML"))),
            };
        }
        /// What every version begins with.
        #[derive(Deserialize)]
        struct Version {
            format: Option<u64>,
        }
        let bad = |e: toml::de::Error| {
            let place = e.span().map(|s| place(text, s.start)).unwrap_or_default();
            form(format!("this is not a machine file: {place}{}", e.message())).help(HELP)
        };
        let version: Version = toml::from_str(text).map_err(bad)?;
        match version.format {
            Some(FORMAT) => toml::from_str(text).map_err(bad),
            Some(0) => Err(form("a machine file of format 0 is written in JSON".to_string()).help(HELP)),
            Some(n) => {
                Err(form(format!("format {n} of machine files is unknown; this Lathe reads up to {FORMAT}"))
                    .help("a newer Lathe reads it"))
            }
            None => Err(form("a machine file must have a `format`".to_string()).help(HELP)),
        }
    }

    /// A file that comes with Lathe, with what it takes from its base.
    pub fn shipped(name: &str) -> Option<Result<File, Diagnostic>> {
        let (_, text) = SHIPPED.iter().find(|s| s.0 == name)?;
        Some(File::read(text).and_then(|f| f.on_base(0)))
    }

    /// Fills in what the file takes from its base.
    pub fn on_base(self, depth: u32) -> Result<File, Diagnostic> {
        let Some(base) = &self.base else { return Ok(self) };
        let fail = |text: String| {
            Diagnostic::error(codes::MODEL, format!("machine `{}`: {text}", self.name.escape_debug()))
        };
        let known = SHIPPED.iter().find(|s| s.0 == *base).filter(|_| depth < 8);
        let Some((_, text)) = known else {
            return Err(fail(format!("the base machine `{}` does not exist", base.escape_debug())));
        };
        let under = File::read(text)?.on_base(depth + 1)?;
        if self.memories.is_empty() != self.cores.is_empty() {
            return Err(fail(
                "it must either define all levels or inherit all levels of its base".to_string(),
            ));
        }
        let own = !self.memories.is_empty();
        fn merge<T>(mut a: BTreeMap<String, T>, b: BTreeMap<String, T>) -> BTreeMap<String, T> {
            a.extend(b);
            a
        }
        Ok(File {
            format: self.format,
            name: self.name,
            about: self.about,
            base: None,
            code: self.code.or(under.code),
            facts: merge(under.facts, self.facts),
            costs: merge(under.costs, self.costs),
            extra: merge(under.extra, self.extra),
            processors: self.processors,
            memories: if own { self.memories } else { under.memories },
            cores: if own { self.cores } else { under.cores },
            constraints: if own {
                self.constraints
            } else {
                under.constraints.into_iter().chain(self.constraints).collect()
            },
        })
    }
}
