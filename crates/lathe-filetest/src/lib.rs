//! File tests: one driver for every crate that makes or rewrites trees. Used by tests only.
//!
//! A file is a program with comments that state the expected results. It is still a program: any command that accepts
//! a `.tree` or `.lathe` file accepts a test as well. `LATHE_BLESS=1 cargo test` rewrites the expected parts; read the
//! difference before you commit it.
//!
//! ```text
//! # The program comes first. A message of its loading is at its line: code, and column.
//! func k(N)(A: in i32[N], B: out i32[N]) stage plain {
//!   for i in 0..N { 'B'[i]: B[i] = A[i] + c }  #! E0303:41
//! }
//! ```
//!
//! A line `#! E0347` before the program is a message without a place; `#! warning E0230:5` is a warning. Cases follow:
//! a line `#: WORD …`, and below it what it gives, `#| text` or the codes of the refusal, `#! E0623`. A line that
//! begins with `#:` and two spaces continues the one before.
//!
//! | case | gives |
//! |---|---|
//! | `#: steps S` | the function after the strategy `S`, and it computes the same at all `sizes` |
//! | `#: tree` | the module as it was loaded |
//! | `#: run N=4` | what the outputs hold after a run, or the code that it fails with: in twenty orders, with races looked for |
//!
//! Crates add cases of their own ([`Front::words`]); lines that continue such a case stay lines. A refusal with a place in
//! the program is noted with it, `#! E1112 at 3:14`.
//!
//! Settings hold for the cases below them:
//!
//! | setting | means |
//! |---|---|
//! | `#: sizes N=0; N=7 M=3` | where runs before and after the steps are compared: sizes and scalar parameters; none after `#: sizes` is one run of a function without sizes |
//! | `#: values -9..9` | the range of inputs, which are whole numbers in floats, too, if its ends are; for integers alone `ints 0..3`, for one parameter `I 0..3`, after `;` |
//! | `#: within 1e-6` | how far floats may be apart, relative to the larger of them and 1; otherwise they are equal bit for bit |
//! | `#: for NAME` | the function; otherwise the only one that no other one calls |
//!
//! Before and after are compared element by element, undefined elements and globals too; a run that fails before
//! must fail with the same code after. At one of the sizes, at least, it must not fail.

mod agree;
mod file;
mod inputs;

pub use agree::agree;
pub use inputs::{Inputs, Values};

use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_ir::text::{Ids, parse_module, print_module};
use lathe_ir::verify::verify;
use lathe_ir::{Function, Module};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};

/// What the loading of a program gives.
#[derive(Debug, Default)]
pub struct Loaded {
    /// `None` if it has errors.
    pub module: Option<Module>,
    pub messages: Vec<Diagnostic>,
}

/// How a crate reads programs, and what steps are in it.
pub trait Front {
    /// Reads a program. The file that messages refer to is added to the map.
    fn load(&self, map: &mut SourceMap, name: &str, text: &str) -> Loaded {
        load_tree(map, name, text)
    }

    /// Applies the text of steps to a function of the module.
    ///
    /// # Errors
    /// The refusal.
    fn apply(&self, module: &Module, func: &Function, steps: &str) -> Result<Function, Diagnostic> {
        let _ = (module, func);
        panic!("there are no steps here: `{steps}`")
    }

    /// The range of inputs where no `#: values` is given.
    fn values(&self) -> &'static str {
        "-9..9"
    }

    /// Whether made trees are printed with the numbers of their variables. Where all are new, only names say something.
    fn ids(&self) -> Ids {
        Ids::Exact
    }

    /// The words of its own cases.
    fn words(&self) -> &'static [&'static str] {
        &[]
    }

    /// Performs a case of its own. Errors within are refusals.
    ///
    /// # Errors
    /// What is wrong with the form of the case.
    fn case(&self, word: &str, rest: &str, given: &Given) -> Result<Result<Found, Diagnostic>, String> {
        let _ = (rest, given);
        Err(format!("there is no case `{word}` here"))
    }
}

/// What a case of a front's own has to work on.
pub struct Given<'a> {
    /// The program, each line at its place in the file.
    pub text: &'a str,
    /// What the program was loaded as, if that is a tree.
    pub module: Option<&'a Module>,
    function: Option<&'a str>,
    /// Where to compare; empty without `#: sizes`.
    pub inputs: Vec<Inputs>,
    /// Where inputs are drawn from.
    pub values: Values,
    /// How far floats may be apart.
    pub within: f64,
}

impl<'a> Given<'a> {
    /// What `#: for` says.
    pub fn name(&self) -> Option<&'a str> {
        self.function
    }

    /// The module and the function that is meant.
    ///
    /// # Errors
    /// If there is no module, or it is not clear which function is meant.
    pub fn function(&self) -> Result<(&'a Module, &'a Function), String> {
        let module = self.module.ok_or("the program has no tree")?;
        if let Some(name) = self.function {
            let f = module.functions.get(name);
            return Ok((module, f.ok_or_else(|| format!("there is no function `{name}`"))?));
        }
        let called = module.called();
        let mut free = module.functions.values().filter(|f| !called.contains(&f.name));
        match (free.next(), free.next()) {
            (Some(f), None) => Ok((module, f)),
            _ => Err("`#: for NAME` must say which function is meant".to_string()),
        }
    }
}

/// What a case of a front's own gives.
#[derive(Debug, Default)]
pub struct Found {
    /// What is below the case.
    pub text: String,
    /// A failure that cannot be blessed.
    pub wrong: Option<String>,
}

/// Tree text: parsed, printed and parsed again, verified. There are no steps.
pub struct Trees;

impl Front for Trees {}

/// Reads tree text.
///
/// # Panics
/// If its printed form is another tree.
pub fn load_tree(map: &mut SourceMap, name: &str, text: &str) -> Loaded {
    let file = map.add(name, text);
    match parse_module(file, text) {
        Err(messages) => Loaded { module: None, messages },
        Ok(m) => {
            let printed = print_module(&m);
            assert_eq!(parse_module(file, &printed).as_ref(), Ok(&m), "{name}: {printed}");
            let messages = verify(&m);
            Loaded { module: messages.is_empty().then_some(m), messages }
        }
    }
}

/// A file that does what it says.
#[derive(Debug)]
pub struct Checked {
    pub path: PathBuf,
    /// The codes of the messages of loading it.
    pub messages: Vec<String>,
    /// How many cases were accepted, and how many refused.
    pub accepted: usize,
    pub refused: usize,
    /// Those of the accepted that have steps.
    pub steps: Vec<Case>,
}

/// Steps that were accepted.
#[derive(Clone, Debug)]
pub struct Case {
    pub module: Module,
    /// The function before the steps, and after them.
    pub before: Function,
    pub after: Function,
    pub steps: String,
    /// Where both were compared, and how far floats may be apart.
    pub inputs: Vec<Inputs>,
    pub within: f64,
}

/// Checks every `.tree`, `.lathe` and `.mdh` file below a folder; with `LATHE_BLESS` set, writes the expected parts.
///
/// # Panics
/// If one of them does not do what it says: with all of them and the differences. If there is none.
pub fn check(folder: impl AsRef<Path> + Sync, front: &(dyn Front + Sync)) -> Vec<Checked> {
    let bless = std::env::var_os("LATHE_BLESS").is_some();
    let mut failures = Vec::new();
    let mut out = Vec::new();
    let paths = files(folder.as_ref());
    let perform = |path: &PathBuf| {
        let name = path.strip_prefix(folder.as_ref()).unwrap_or(path).display().to_string();
        let text = std::fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let done = file::perform(&name, &text, front);
        (name, text, done)
    };
    for (path, (name, text, done)) in paths.iter().zip(on_all_cores(&paths, perform)) {
        let done = match done {
            Ok(done) => done,
            Err(why) => {
                failures.push(format!("{name}: {why}"));
                continue;
            }
        };
        failures.extend(done.failures.iter().map(|f| format!("{name}: {f}")));
        if done.text != text && bless {
            std::fs::write(path, &done.text).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        } else if done.text != text {
            failures.push(format!(
                "{name} (LATHE_BLESS=1 writes what is found):\n{}",
                difference(&text, &done.text)
            ));
        }
        let (messages, (accepted, refused), steps) = (done.messages, done.cases, done.steps);
        let path = path.clone();
        out.push(Checked { path, messages, accepted, refused, steps });
    }
    assert!(failures.is_empty(), "{} failures\n{}", failures.len(), failures.join("\n\n"));
    assert!(!out.is_empty(), "no tests in {}", folder.as_ref().display());
    out
}

/// Stacks of threads that walk trees.
const STACK: usize = 256 << 20;

/// The results of `f` on all items, in their order, by a thread per core.
fn on_all_cores<T: Sync, R: Send>(items: &[T], f: impl Fn(&T) -> R + Sync) -> Vec<R> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(items.len());
    let next = AtomicUsize::new(0);
    let work = || {
        let one = || {
            let n = next.fetch_add(1, Ordering::Relaxed);
            items.get(n).map(|item| (n, f(item)))
        };
        std::iter::from_fn(one).collect::<Vec<_>>()
    };
    let mut out: Vec<(usize, R)> = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, work);
        let all: Vec<_> = (0..threads).map(spawn).collect::<Result<_, _>>().expect("threads");
        let joined = all.into_iter().map(|t| t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)));
        joined.flatten().collect()
    });
    out.sort_by_key(|r| r.0);
    out.into_iter().map(|r| r.1).collect()
}

fn files(folder: &Path) -> Vec<PathBuf> {
    let (mut open, mut out) = (vec![folder.to_path_buf()], Vec::new());
    while let Some(dir) = open.pop() {
        let entries = std::fs::read_dir(&dir).unwrap_or_else(|e| panic!("{}: {e}", dir.display()));
        for path in entries.map(|e| e.expect("an entry").path()) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "tree" || e == "lathe" || e == "mdh") {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

/// The lines that differ, between those that are alike at both ends.
fn difference(wanted: &str, found: &str) -> String {
    let (a, b): (Vec<&str>, Vec<&str>) = (wanted.lines().collect(), found.lines().collect());
    let first = a.iter().zip(&b).take_while(|(x, y)| x == y).count();
    let rest = a.len().min(b.len()) - first;
    let last = a.iter().rev().zip(b.iter().rev()).take(rest).take_while(|(x, y)| x == y).count();
    let side = |lines: &[&str], sign: char| -> String {
        lines[first..lines.len() - last].iter().map(|l| format!("{sign}{l}\n")).collect()
    };
    format!("line {}\n{}{}", first + 1, side(&a, '-'), side(&b, '+'))
}

#[cfg(test)]
mod tests;
