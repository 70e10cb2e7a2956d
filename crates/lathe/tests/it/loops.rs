//! What `auto` makes of loops, a file for each construct (`tests/loops`; see `lathe_filetest`). The results are compared with
//! the interpreter's of the loops as written, at the sizes that decisions are for and at all `#: sizes`, in the interpreter
//! and as machine code.
//!
//! | case | gives |
//! |---|---|
//! | `#: auto N=100 threads=1` | the steps of every version, each on a line, and the notes |
//! | `#: strategy S N=100` | the same of a strategy of the file |
//! | `#: fun f N=100` | what `auto` makes of a fun of the file |

use lathe::{Build, Built, Engine, How, Machine, Pool, Program, Reference, Schedule};
use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_filetest::{Found, Front, Given, Inputs, Loaded};
use std::collections::BTreeMap;
use std::fmt::Write;

struct Loops {
    pool: Pool,
}

struct Alone;

impl lathe_lang::Resolver for Alone {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("there is no file {name}"))
    }
}

impl Front for Loops {
    fn load(&self, map: &mut SourceMap, name: &str, text: &str) -> Loaded {
        match lathe_lang::load(map, name, text, &mut Alone) {
            Err(messages) => Loaded { module: None, messages },
            Ok((mut p, messages)) => {
                // Funs are translated as they stand.
                if let Ok(program) = Program::from_text(name, text) {
                    let funs = program.lang.funs.keys().filter_map(|f| program.kernel(Some(f)).ok());
                    p.module.functions.extend(funs.map(|f| (f.name.clone(), f.clone())));
                }
                Loaded { module: Some(p.module), messages }
            }
        }
    }

    fn words(&self) -> &'static [&'static str] {
        &["auto", "strategy", "fun"]
    }

    fn case(&self, word: &str, rest: &str, given: &Given) -> Result<Result<Found, Diagnostic>, String> {
        let named = || rest.split_once(' ').unwrap_or((rest, ""));
        let kernel = || given.function().map(|(_, func)| func.name.to_string());
        let (strategy, name, rest) = match word {
            "auto" => ("auto", kernel()?, rest),
            "fun" => ("auto", named().0.to_string(), named().1),
            _ => (named().0, kernel()?, named().1),
        };
        let program = Program::from_text("loops.lathe", given.text).map_err(|f| f.to_string())?;
        let kernel = program.kernel(Some(&name)).map_err(|f| f.to_string())?;
        let inputs = Inputs::parse(rest)?;
        let sizes = sizes_of(kernel, &inputs);
        let threads = inputs.named().find(|n| n.0 == "threads").map_or(1, |n| n.1 as usize);
        let machine = Machine::named("x86-64-v3").ok_or("no machine")?;
        let how = |strategy: &str| How {
            strategy: Some(strategy.to_string()),
            sizes: sizes.clone(),
            threads: Some(threads),
            ..How::default()
        };
        let schedule = |s: &str| lathe::schedule(&program, kernel, &how(s), &machine);
        let made = match schedule(strategy) {
            Ok(made) => made,
            Err(mut f) => return Ok(Err(f.diagnostics.remove(0))),
        };
        let naive = schedule("naive").map_err(|f| f.to_string())?;
        let mut found = Found { text: text(&made), wrong: None };
        let interpreted = Build { engine: Engine::INTERPRETER, ..Build::default() };
        let engines = [interpreted, Build { opt_level: 1, ..Build::default() }];
        let compiled = engines.iter().map(|build| lathe::compile(&made, build).map_err(|f| f.to_string()));
        let compiled = compiled.collect::<Result<Vec<_>, String>>()?;
        let others = given.inputs.iter().map(|i| sizes_of(kernel, i));
        for sizes in std::iter::once(sizes.clone()).chain(others) {
            if let Err(why) = self.compare(kernel, &naive, (&made, &compiled), &sizes) {
                found.wrong.get_or_insert(format!("{sizes:?}: {why}"));
            }
        }
        Ok(Ok(found))
    }
}

fn sizes_of(kernel: &lathe::Function, inputs: &Inputs) -> BTreeMap<String, i64> {
    let own = |n: &str| kernel.sizes.iter().any(|b| &*b.name == n);
    inputs.named().filter(|n| own(n.0)).map(|(n, v)| (n.to_string(), v)).collect()
}

impl Loops {
    fn compare(
        &self,
        kernel: &lathe::Function,
        naive: &Schedule,
        (made, compiled): (&Schedule, &[Built]),
        sizes: &BTreeMap<String, i64>,
    ) -> Result<(), String> {
        let given = lathe::Given { sizes: sizes.clone(), ..lathe::Given::default() };
        let data = lathe::data::make(kernel, &given).map_err(|d| d.to_string())?;
        let interpreted = Build { engine: Engine::INTERPRETER, ..Build::default() };
        let copy = || data.duplicate().map_err(|d| d.to_string());
        let reference =
            Reference::new(naive, &interpreted, copy()?, &self.pool).map_err(|f| f.to_string())?;
        for code in compiled {
            let mut after = copy()?;
            code.call(&self.pool, &mut after.arrays).map_err(|f| f.to_string())?;
            let checked = reference.compare(made, &after).map_err(|f| f.to_string())?;
            if !checked.report.ok {
                return Err(checked.first.unwrap_or_default());
            }
        }
        Ok(())
    }
}

/// The steps of every version, and what is noted.
fn text(made: &Schedule) -> String {
    let mut out = String::new();
    for v in &made.versions {
        let condition = v.condition.as_ref().map_or("otherwise".to_string(), |c| format!("when {c}"));
        let steps: Vec<&str> =
            v.taken.strategy.split(" ; ").filter(|s| !s.is_empty() && *s != "open()").collect();
        let _ = writeln!(out, "{condition}:{}", if steps.is_empty() { " as written" } else { "" });
        steps.iter().for_each(|s| {
            let _ = writeln!(out, "  {s}");
        });
        v.notes.iter().for_each(|n| {
            let _ = writeln!(out, "  note: {n}");
        });
    }
    out
}

#[test]
fn auto_takes_loops() {
    let pool = Pool::new(2).expect("a pool");
    lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/loops"), &Loops { pool });
}
