//! Random trees of threads with barriers: what is said about them for all sizes is compared with runs of the interpreter,
//! which looks for races by happens-before.
//!
//! `LATHE_ORDER_CASES` raises the number of cases, `LATHE_ORDER_SEED` sets the seed.

use crate::oracle::{Dice, number};
use lathe_analysis::{certain_race, prove_concurrent};
use lathe_diagnostics::FileId;
use lathe_ir::interp::{self, ArrayValue, Options};
use lathe_ir::text::parse_module;
use lathe_ir::{Function, Module, Scalar};

/// A tree under construction.
struct Tree<'d> {
    dice: &'d mut Dice,
    labels: usize,
    /// Variables in scope: those that differ between threads first.
    threads: Vec<&'static str>,
    loops: Vec<String>,
    /// The loops that barriers may name here.
    owners: Vec<&'static str>,
    /// Under what not all threads may reach.
    apart: bool,
}

impl Tree<'_> {
    fn index(&mut self) -> String {
        let threads: Vec<&str> = self.threads.clone();
        let t = *self.dice.pick(&threads);
        let mut out = match self.dice.below(8) {
            0 => "2".to_string(),
            1 => format!("{t} + 1"),
            2 => format!("({t} + 1) % 4"),
            3 => format!("2 * {t}"),
            4 => format!("{t} // 2"),
            _ => t.to_string(),
        };
        if let Some(i) = self.loops.last().cloned()
            && self.dice.chance(40)
        {
            out = match self.dice.below(3) {
                0 => format!("{out} + 8 * ({i} % 2)"),
                1 => format!("{out} + {i}"),
                _ => format!("{out} + 8 * {i}"),
            };
        }
        if threads.len() > 1 && self.dice.chance(60) {
            out = format!("{out} + 16 * {}", threads[0]);
        }
        out
    }

    fn access(&mut self) -> String {
        self.labels += 1;
        let vars: Vec<String> =
            self.threads.iter().map(|t| t.to_string()).chain(self.loops.iter().cloned()).collect();
        let (to, from) = (self.index(), self.index());
        let (p, q) = if self.dice.chance(70) { ("A", "B") } else { ("B", "A") };
        let body = match self.dice.below(10) {
            0 => format!("{p}[{to}] = 1:i32"),
            1 => format!("{p}[{to}] = {p}[{from}]"),
            2 => format!("{p}[{to}] sum= 1:i32 licensed"),
            _ => format!("{p}[{to}] = {q}[{from}]"),
        };
        format!("'S{}'[{}]: {body} ", self.labels, vars.join(", "))
    }

    fn block(&mut self, depth: usize) -> String {
        let mut out = String::new();
        for _ in 0..=self.dice.below(3) {
            out += &self.statement(depth);
        }
        out
    }

    fn statement(&mut self, depth: usize) -> String {
        match self.dice.below(if depth == 0 { 6 } else { 11 }) {
            0..=2 => self.access(),
            3..=5 if !self.apart => {
                let owners = self.owners.clone();
                format!("barrier {} ", self.dice.pick(&owners))
            }
            6 | 7 => {
                let i = format!("i{depth}");
                let bounds = match self.dice.below(6) {
                    0 => "0..N".to_string(),
                    1 => "0..3".to_string(),
                    2 => "1..N".to_string(),
                    3 => "0..5 step 2".to_string(),
                    4 => self.loops.last().map_or("0..2".to_string(), |i| format!("{i}..N")),
                    _ => "0..N // 2".to_string(),
                };
                self.loops.push(i.clone());
                let body = self.block(depth - 1);
                self.loops.pop();
                format!("for {i} in {bounds} {{ {body}}} ")
            }
            8 => {
                let cond = match (self.dice.below(5), self.loops.last().cloned()) {
                    (0, Some(i)) => format!("{i} > 0"),
                    (1, Some(i)) => format!("{i} + 1 < N"),
                    (2, Some(i)) => format!("{i} % 2 == 0"),
                    (3, _) => "A[3] < 1:i32".to_string(),
                    _ => "N > 2".to_string(),
                };
                let then = self.block(depth - 1);
                if self.dice.chance(30) {
                    let other = self.block(depth - 1);
                    return format!("if {cond} {{ {then}}} else {{ {other}}} ");
                }
                format!("if {cond} {{ {then}}} ")
            }
            9 => {
                let threads = self.threads.clone();
                let cond = format!("{} < {}", self.dice.pick(&threads), self.dice.below(3));
                let before = std::mem::replace(&mut self.apart, true);
                let then = self.block(depth - 1);
                self.apart = before;
                format!("if {cond} {{ {then}}} ")
            }
            _ => self.access(),
        }
    }
}

/// A function of threads, in one or two loops.
fn tree(dice: &mut Dice) -> String {
    let nested = dice.chance(40);
    let threads = if nested { vec!["g", "t"] } else { vec!["t"] };
    let extents = *dice.pick(&["4", "3", "N", "2"]);
    let around = dice.chance(20);
    let mut tree =
        Tree { dice, labels: 0, owners: threads.clone(), threads, loops: Vec::new(), apart: false };
    if around {
        tree.loops.push("r".to_string());
    }
    let body = tree.block(3);
    let mut out = format!("for t in 0..{extents} level(block) {{ {body} }}");
    if nested {
        out = format!("for g in 0..2 level(grid) {{ {out} }}");
    }
    if around {
        out = format!("for r in 0..2 {{ {out} }}");
    }
    format!("func f(N)(n: in i32[N], A: inout i32[400], B: inout i32[400]) stage scheduled {{ {out} }}")
}

/// The code that a run with races looked for fails with.
fn run(module: &Module, func: &Function, n: usize) -> Option<String> {
    let array = |len: usize| ArrayValue::zeros(Scalar::I32.into(), &[len]);
    let mut args = [array(n), array(400), array(400)];
    let options = Options { races: true, ..Options::default() };
    interp::run(module, func, &mut args, &options).err().map(|f| f.diagnostic.code.0.to_string())
}

#[test]
fn verdicts_agree_with_runs() {
    let mut dice = Dice(number("LATHE_ORDER_SEED", 20_241_124));
    let wanted = number("LATHE_ORDER_CASES", 1500);
    let (mut free, mut racing, mut spurious) = (0u64, 0u64, 0u64);
    for _ in 0..wanted {
        let text = tree(&mut dice);
        let module = parse_module(FileId(0), &text).unwrap_or_else(|d| panic!("{text}\n{d:?}"));
        let func = module.functions.values().next().expect("a function");
        let said = prove_concurrent(&module, func);
        let runs: Vec<Option<String>> = (0..=6).map(|n| run(&module, func, n)).collect();
        // A race or, where a condition reads what is raced for, a barrier that not all reach.
        let raced = runs.iter().any(Option::is_some);
        if let Some(other) = runs.iter().flatten().find(|code| !["E0410", "E0411"].contains(&code.as_str())) {
            panic!("a run failed with {other}:\n{text}");
        }
        match (said.first(), raced) {
            (None, true) => panic!("a race was not found: {runs:?}\n{text}"),
            (None, false) => free += 1,
            (Some(d), true) => {
                assert_eq!(d.code.0, "E0505", "{text}");
                racing += 1;
            }
            (Some(_), false) => {
                // It may be there at larger sizes.
                let certain = certain_race(&module, func).map(|d| d.to_string());
                let runs = |n| run(&module, func, n).is_some();
                assert!(certain.is_none() || (7..=24).any(runs), "no run has this: {certain:?}\n{text}");
                spurious += 1;
            }
        }
    }
    eprintln!(
        "{wanted} trees: {free} free of races, {racing} with races, {spurious} refused without one at sizes 0..=6"
    );
    assert!(free > wanted / 20 && racing > wanted / 20, "{free} {racing}");
    assert!(spurious <= wanted / 50, "{spurious} of {wanted} are refused for nothing");
}
