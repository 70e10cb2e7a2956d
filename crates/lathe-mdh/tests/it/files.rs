//! Computes in files, decisions about them, and what these become (`tests/files`; see `lathe_filetest`): the strategy and
//! the tree that it makes, which leaves what the compute as it was written leaves. Programs are in the language or in the
//! notation of the thesis.
//!
//! | case | gives |
//! |---|---|
//! | `#: decisions MODEL N=8` | the strategy of the decisions in the lines that follow (others as in the plain ones), and its tree |
//! | `#: chosen MODEL N=8` | the decisions that are taken without measuring, their strategy, and its tree |
//! | `#: auto N=8` | the strategy for the whole function, and its tree |
//! | `#: forms sm_90a N=8` | the strategies for a device that may be tried, each with its tree or the code of its refusal |
//!
//! Sizes are constants of the function; with the word `any` they only guide, and the trees are compared at all
//! `#: sizes`. `threads=2` and `l2_bytes=4096` say more of the machine.

use crate::support::{fixed, no_facts};
use lathe_diagnostics::{Diagnostic, SourceMap};
use lathe_filetest::{Found, Front, Given, Inputs, Loaded, agree};
use lathe_ir::text::{Ids, print_function_with};
use lathe_ir::{Function, Module};
use lathe_mdh::auto::{auto, device};
use lathe_mdh::choose::Setting;
use lathe_mdh::lower::{self, Options};
use lathe_mdh::semantics::alone;
use lathe_mdh::{Decisions, Homomorphism, Model, Shaped, choose, notation, require, text};
use lathe_strategy::{Context, Definitions, Strategy};
use lathe_target::{Code, Machine};
use std::collections::BTreeMap;
use std::fmt::Write;

struct Computes;

impl Front for Computes {
    fn load(&self, map: &mut SourceMap, name: &str, text: &str) -> Loaded {
        if name.ends_with(".mdh") {
            let file = map.add(name, text);
            return match notation::parse(file, text, &BTreeMap::new()) {
                Ok(m) => Loaded { module: Some(m), messages: Vec::new() },
                Err(d) => Loaded { module: None, messages: vec![d] },
            };
        }
        match lathe_lang::load(map, name, text, &mut crate::support::Alone) {
            Err(messages) => Loaded { module: None, messages },
            Ok((p, messages)) => Loaded { module: Some(p.module), messages },
        }
    }

    fn values(&self) -> &'static str {
        "-4..4"
    }

    fn words(&self) -> &'static [&'static str] {
        &["decisions", "chosen", "auto", "forms"]
    }

    fn case(&self, word: &str, rest: &str, given: &Given) -> Result<Result<Found, Diagnostic>, String> {
        let (module, func) = given.function()?;
        let (first, lines) = rest.split_once('\n').unwrap_or((rest, ""));
        let (on, first) =
            if word == "auto" { ("", first) } else { first.split_once(' ').unwrap_or((first, "")) };
        let case = Case { module, func, on, at: At::parse(first)?, given };
        let mut found = Found::default();
        let made = match word {
            "decisions" => case.decisions(Some(lines), &mut found),
            "chosen" => case.decisions(None, &mut found),
            "auto" => case.auto(&mut found),
            _ => case.forms(&mut found),
        };
        Ok(made.map(|()| found))
    }
}

/// What is behind the word of a case.
struct At {
    sizes: BTreeMap<String, i64>,
    inputs: Inputs,
    machine: Machine,
    /// The sizes are constants.
    exact: bool,
}

impl At {
    fn parse(text: &str) -> Result<At, String> {
        let (any, rest): (Vec<&str>, Vec<&str>) = text.split_whitespace().partition(|w| *w == "any");
        let inputs = Inputs::parse(&rest.join(" "))?;
        let mut machine = Machine { threads: 3, ..Machine::named("x86-64-v3").ok_or("no machine")? };
        let mut sizes = BTreeMap::new();
        for (name, value) in inputs.named() {
            match name {
                "threads" => machine.threads = value as u64,
                "l1_bytes" => machine.l1_bytes = value as u64,
                "l2_bytes" => machine.l2_bytes = value as u64,
                "l3_bytes" => machine.l3_bytes = value as u64,
                _ => {
                    sizes.insert(name.to_string(), value);
                }
            }
        }
        Ok(At { sizes, inputs, machine, exact: any.is_empty() })
    }
}

struct Case<'a> {
    module: &'a Module,
    func: &'a Function,
    /// A model, or what code is made for.
    on: &'a str,
    at: At,
    given: &'a Given<'a>,
}

type Done = Result<(), Diagnostic>;

impl Case<'_> {
    fn setting(&self) -> Setting<'_> {
        Setting { machine: &self.at.machine, threads: self.at.machine.threads, exact: self.at.exact }
    }

    fn decisions(&self, written: Option<&str>, found: &mut Found) -> Done {
        let model = Model::named(self.on)?;
        let h = Homomorphism::of(self.module, self.func, None)?;
        let shaped = h.at(&self.at.sizes)?;
        let d = match written {
            Some(written) => {
                let mut d = text::parse(&h, &model, written)?;
                d.complete_from(&Decisions::plain(&shaped, &model));
                d
            }
            None => {
                let d = choose(&shaped, &model, &self.setting());
                found.text += &text::print(&h, &model, &d);
                d
            }
        };
        require(&shaped, &model, &d, &no_facts)?;
        let options = Options { exact: self.at.exact, machine: self.at.machine.clone(), ..Options::exact() };
        let steps = lower::strategy(&shaped, &model, &d, &options)?;
        let func = alone(self.func, &h);
        self.applied(&self.shaped(&func, Some(&shaped))?, &steps, found)
    }

    fn auto(&self, found: &mut Found) -> Done {
        let func = self.shaped(self.func, None)?;
        let chosen = auto(self.module, &func, &self.at.sizes, &self.setting())?;
        for (labels, rows) in &chosen.chains {
            let _ = writeln!(found.text, "{} by {rows} rows", labels.join(", "));
        }
        self.applied(&func, &chosen.strategy, found)
    }

    fn forms(&self, found: &mut Found) -> Done {
        let code = Code { arch: "nvptx64".into(), cpu: self.on.into(), ..Code::default() };
        let func = self.shaped(self.func, None)?;
        let made = device::forms(self.module, &func, &code, false);
        for form in made.forms {
            let steps = lathe_mdh::auto::in_sequence(&[Strategy::Seq(made.first.clone()), form.strategy]);
            if let Err(refusal) = self.applied(&func, &steps, found) {
                let _ = writeln!(found.text, "refused: {}", refusal.code);
            }
        }
        Ok(())
    }

    /// The function with its sizes as constants, if they are.
    fn shaped(&self, func: &Function, shaped: Option<&Shaped>) -> Result<Function, Diagnostic> {
        if !self.at.exact {
            return Ok(func.clone());
        }
        if let Some(s) = shaped {
            return Ok(fixed(func, s));
        }
        let label = lathe_mdh::auto::labels(func).into_iter().next().unwrap_or_default();
        let h = Homomorphism::of(self.module, func, Some(&label))?;
        Ok(fixed(func, &h.at(&self.at.sizes)?))
    }

    /// Prints a strategy and what it makes of a function, which leaves the same.
    fn applied(&self, func: &Function, steps: &Strategy, found: &mut Found) -> Done {
        let each = match steps {
            Strategy::Seq(all) => all.iter().map(ToString::to_string).collect::<Vec<_>>().join(" ;\n"),
            s => s.to_string(),
        };
        let _ = writeln!(found.text, "{each}");
        let (definitions, facts) = (Definitions::default(), |_: &str| None);
        let context = Context::new(&definitions, None, &facts);
        let (new, _) = lathe_transform::run(self.module, func, &context, steps).map_err(|r| *r.diagnostic)?;
        found.text += &print_function_with(&new, Ids::Hidden);
        let own = self.at.inputs.clone().drawn_from(&self.given.values);
        // Examples of sizes may be larger than what the interpreter runs.
        let all = if self.at.exact { std::slice::from_ref(&own) } else { &self.given.inputs };
        if all.is_empty() {
            found.wrong.get_or_insert("no `#: sizes` before it".to_string());
        }
        for inputs in all {
            let why = match agree(self.module, func, &new, inputs, self.given.within) {
                Ok(true) => continue,
                Ok(false) => "both fail".to_string(),
                Err(why) => why,
            };
            found.wrong.get_or_insert(format!("at `{inputs}`: {why}"));
        }
        Ok(())
    }
}

#[test]
fn files_do_as_they_say() {
    lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files"), &Computes);
}
