//! Funs in files, what strategies make of their terms, and the trees that they become (`tests/files`; see
//! `lathe_filetest`). A file may have strategies and rules of its own, each from the beginning of a line.
//!
//! | case | gives |
//! |---|---|
//! | `#: rewrite S` | the fun after the strategy `S`, and the rules that were applied: it has the same type, and the evaluator finds the same value |
//! | `#: lower`, `#: lower S` | the tree of the fun, after the strategy `S`: run in any order, it gives what the evaluator finds for the fun as it was written |
//!
//! Where a size breaks what the fun relies on, nothing is compared; at one of the sizes it is.

use crate::support::{arguments, interpret};
use lathe_diagnostics::{Diagnostic, FileId, SourceMap, Span};
use lathe_filetest::{Found, Front, Given, Loaded};
use lathe_ir::interp::Order;
use lathe_ir::text::{Ids, print_function_with};
use lathe_ir::{Module, verify};
use lathe_pattern::check::{check, same_type};
use lathe_pattern::eval::{Sizes, evaluate, holds, sizes};
use lathe_pattern::language::TermState;
use lathe_pattern::library::{LIBRARY, STEPS, add_decided, definitions, vocabulary};
use lathe_pattern::print::print_fun;
use lathe_pattern::rules::parse_equations;
use lathe_pattern::value::element_type;
use lathe_pattern::{Program, TypeKind, Value, decide_rule, lower, program, programs};
use lathe_strategy::Context;
use lathe_strategy::{Definition, Definitions, parse_definitions, parse_strategy, rewrite};
use std::collections::HashSet;
use std::fmt::Write;

struct Terms;

/// The parts of a file, each with all lines of it at their places.
pub fn parts(text: &str) -> [String; 3] {
    let mut out = [String::new(), String::new(), String::new()];
    let mut here = 0;
    for line in text.lines() {
        match line.split(' ').next() {
            Some("fun") => here = 0,
            Some("strategy") => here = 1,
            Some("rule") => here = 2,
            _ => {}
        }
        for (n, part) in out.iter_mut().enumerate() {
            if n == here {
                part.push_str(line);
            }
            part.push('\n');
        }
    }
    out
}

impl Front for Terms {
    fn load(&self, map: &mut SourceMap, name: &str, text: &str) -> Loaded {
        let file = map.add(name, text);
        let loaded = programs(file, &parts(text)[0]);
        Loaded { module: None, messages: loaded.err().into_iter().collect() }
    }

    fn words(&self) -> &'static [&'static str] {
        &["rewrite", "lower"]
    }

    fn case(&self, word: &str, rest: &str, given: &Given) -> Result<Result<Found, Diagnostic>, String> {
        let p = chosen(given)?;
        if given.inputs.is_empty() {
            return Err("no `#: sizes` before it".into());
        }
        let steps = if rest.is_empty() { "id" } else { rest };
        // Its places are in the strategy, which is not part of the program.
        let Made { fun: q, rules, .. } = match transformed(given.text, &p, steps)? {
            Ok(made) => made,
            Err(d) => return Ok(Err(Diagnostic { marks: Vec::new(), ..d })),
        };
        if let Err(d) = check(&q.facts, &q.term, &[]) {
            return Err(format!("{d}: {}", q.term));
        }
        assert!(same_type(&q.facts, q.term.ty(), p.term.ty()), "{} is {}", q.term, q.term.ty());
        if word == "rewrite" {
            let mut text = print_fun(&q) + "\n";
            // The text is the same fun.
            let again = program(&text).map_err(|d| format!("{d}: {text}"))?;
            if !rules.is_empty() {
                let _ = writeln!(text, "by {}", rules.join(", "));
            }
            let wrong = same_value(&p, &q, given).or_else(|| same_value(&p, &again, given));
            return Ok(Ok(Found { text, wrong }));
        }
        let m = match lower::lower_to_module(&q) {
            Ok(m) => m,
            Err(d) => {
                return Ok(Err(if rest.is_empty() { d } else { Diagnostic { marks: Vec::new(), ..d } }));
            }
        };
        let text = print_function_with(&m.functions[&q.name], Ids::Hidden);
        let wrong = verify::verify(&m).first().map(ToString::to_string);
        Ok(Ok(Found { text, wrong: wrong.or_else(|| same_results(&p, &q, &m, given)) }))
    }
}

/// The fun that is meant: the one of the name, or the last.
fn chosen(given: &Given) -> Result<Program, String> {
    let text = &parts(given.text)[0];
    let Some(name) = given.name() else { return program(text).map_err(|d| d.to_string()) };
    let all = programs(FileId(0), text).map_err(|d| d.to_string())?;
    all.get(name).cloned().ok_or_else(|| format!("there is no fun `{name}`"))
}

/// What a strategy makes of a fun.
pub struct Made {
    pub fun: Program,
    /// The rules that were applied, each once.
    rules: Vec<String>,
    pub steps: u64,
}

/// The fun after a strategy of the file's words, or the refusal.
pub fn transformed(text: &str, p: &Program, steps: &str) -> Result<Result<Made, Diagnostic>, String> {
    let [_, strategies, rules] = parts(text);
    let wrong = |d: Diagnostic| d.to_string();
    let own: Vec<Definition> = parse_definitions(&strategies).map_err(wrong)?;
    let mut words = vocabulary();
    let decided = parse_equations(&rules).map_err(wrong)?.into_iter().map(|e| {
        let decision = decide_rule(&e, Span::new(FileId(0), 0, 0))?;
        Ok((e, decision))
    });
    add_decided(&mut words, decided.collect::<Result<Vec<_>, _>>().map_err(wrong)?);
    let definitions = Definitions::new(definitions().into_iter().chain(own));
    let facts = |_: &str| None;
    let mut context = Context::new(&definitions, None, &facts);
    context.steps = STEPS;
    let strategy = match parse_strategy(steps) {
        Ok(s) => s,
        Err(d) => return Ok(Err(d)),
    };
    Ok(match rewrite(&context, &words, &strategy, p.term.clone(), TermState::new(&p.facts)) {
        Err(r) => Err(*r.diagnostic),
        Ok(out) => {
            let mut rules: Vec<String> = Vec::new();
            for a in &out.trace {
                if !rules.contains(&a.rule) {
                    rules.push(a.rule.clone());
                }
            }
            let fun = p.with_term(out.tree, out.state.facts.all().to_vec());
            Ok(Made { fun, rules, steps: out.steps })
        }
    })
}

/// Sizes at which both funs are defined, with arguments and the value of the first.
fn each(
    p: &Program,
    q: &Program,
    given: &Given,
    mut wrong: impl FnMut(&Sizes, &[Value], &Value) -> Option<String>,
) -> Option<String> {
    let mut ran = false;
    for i in &given.inputs {
        let s = sizes(i.named());
        if !q.facts.all().iter().chain(p.facts.all()).all(|f| holds(f, &s)) {
            continue;
        }
        for seed in 1..4 {
            let args = arguments(p, &s, seed);
            ran = true;
            let why = match evaluate(p, &s, &args) {
                Err(d) => Some(d.to_string()),
                Ok(want) => wrong(&s, &args, &want),
            };
            if let Some(why) = why {
                return Some(format!("at `{i}`: {why}"));
            }
        }
    }
    (!ran).then(|| "it is defined at none of the sizes".to_string())
}

fn same_value(p: &Program, q: &Program, given: &Given) -> Option<String> {
    each(p, q, given, |s, args, want| match evaluate(q, s, args) {
        Err(d) => Some(d.to_string()),
        Ok(got) => (got != *want).then(|| format!("its value is {got:?} and not {want:?}")),
    })
}

/// Whether the tree leaves what the evaluator finds, bit for bit, in several orders and without races.
fn same_results(p: &Program, q: &Program, m: &Module, given: &Given) -> Option<String> {
    each(p, q, given, |s, args, want| {
        let wants: Vec<Value> = match (q.result.kind(), want) {
            (TypeKind::Tuple(_), Value::Tuple(v)) if element_type(&q.result).is_none() => v.to_vec(),
            _ => vec![want.clone()],
        };
        [Order::Reference, Order::Seed(1), Order::Seed(5)].into_iter().find_map(|order| {
            let got: Vec<Value> = interpret(q, m, s, args, order).iter().map(Value::from_array).collect();
            (got != wants).then(|| format!("it leaves {got:?} and not {wants:?}, in order {order:?}"))
        })
    })
}

#[test]
fn files_do_as_they_say() {
    lathe_filetest::check(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files"), &Terms);
}

/// Every primitive that is more than a function of numbers.
const PATTERNS: &str = "id select pair fst snd map mapSeq mapUnroll mapCpu mapGrid mapCluster mapBlock mapWarp mapLane \
    mapVec reduce reduceSeq reduceUnroll scan scanSeq scanUnroll zip unzip join transpose concat gather scatter reorder \
    at asScalar split take drop generate element asVector vectorFromScalar rotateValues iterate iterateSeq \
    iterateUnroll asIndex size toMem reduceSeqIn reduceUnrollIn slide padValue padWith circularBuffer pad part";

/// Every primitive and every rule is somewhere in the files.
#[test]
fn nothing_is_missing() {
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/files");
    let files = std::fs::read_dir(folder).expect("a folder").map(|f| f.expect("an entry").path());
    let all: String = files.map(|f| std::fs::read_to_string(f).expect("a text")).collect();
    let words: HashSet<&str> = all.split(|c: char| !c.is_alphanumeric() && c != '_').collect();
    assert!(parse_definitions(LIBRARY).is_ok_and(|d| d.len() >= 20), "the library does not read");
    let rules = vocabulary();
    let names = rules.rules().into_iter().map(str::to_string);
    let patterns = PATTERNS.split_whitespace().map(str::to_string);
    assert!(patterns.clone().all(|n| lathe_pattern::names::is_primitive(&n)));
    let missing: Vec<String> = names.chain(patterns).filter(|n| !words.contains(&**n)).collect();
    assert!(missing.is_empty(), "{missing:?}");
}
