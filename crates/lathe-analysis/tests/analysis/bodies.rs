//! Random trees with asynchronous bodies: races that are said to be certain are held against runs of the interpreter, which
//! looks for races by happens-before.
//!
//! `LATHE_ORDER_CASES` raises the number of cases, `LATHE_ORDER_SEED` sets the seed.

use crate::oracle::{Dice, number};
use lathe_analysis::{certain_race, prove_concurrent};
use lathe_diagnostics::FileId;
use lathe_ir::interp::{self, ArrayValue, Options};
use lathe_ir::text::parse_module;
use lathe_ir::{Function, Module, Scalar};

struct Tree<'d> {
    dice: &'d mut Dice,
    labels: usize,
    loops: Vec<String>,
    /// Tokens of the strand that is being written.
    tokens: Vec<String>,
    opened: usize,
    /// A wait leaves some bodies running.
    pending: bool,
}

impl Tree<'_> {
    fn index(&mut self) -> String {
        let Some(i) = self.loops.last().cloned() else { return self.dice.below(3).to_string() };
        match self.dice.below(6) {
            0 => "2".to_string(),
            1 => format!("{i} + 1"),
            2 => format!("{i} % 2"),
            3 => format!("2 * {i}"),
            _ => i,
        }
    }

    fn access(&mut self) -> String {
        self.labels += 1;
        let (to, from) = (self.index(), self.index());
        let (p, q) = if self.dice.chance(60) { ("A", "B") } else { ("B", "A") };
        let body = match self.dice.below(6) {
            0 => format!("{p}[{to}] = 1:i32"),
            1 => format!("{p}[{to}] sum= {q}[{from}]"),
            _ => format!("{p}[{to}] = {q}[{from}]"),
        };
        format!("'s{}'[{}]: {body} ", self.labels, self.loops.join(", "))
    }

    fn block(&mut self, depth: usize) -> String {
        (0..=self.dice.below(3)).map(|_| self.statement(depth)).collect()
    }

    fn statement(&mut self, depth: usize) -> String {
        let token = self.tokens.last().cloned();
        match (self.dice.below(if depth == 0 { 6 } else { 10 }), token) {
            (0..=2, Some(t)) => {
                let outer = std::mem::take(&mut self.tokens);
                let body =
                    if depth > 0 && self.dice.chance(30) { self.block(depth - 1) } else { self.access() };
                self.tokens = outer;
                format!("async {t} {{ {body}}} ")
            }
            (3, Some(t)) => {
                let some = self.dice.chance(10);
                self.pending |= some;
                format!("wait {t}{} ", if some { " pending 1" } else { "" })
            }
            (6 | 7, _) => {
                let i = format!("i{}", self.loops.len());
                let to = *self.dice.pick(&["2", "3", "N", "N"]);
                self.loops.push(i.clone());
                let body = self.block(depth - 1);
                self.loops.pop();
                format!("for {i} in 0..{to} {{ {body}}} ")
            }
            (8, _) => {
                let cond = match self.loops.last() {
                    Some(i) => format!("{i} > 0"),
                    None => "N > 2".to_string(),
                };
                format!("if {cond} {{ {}}} ", self.block(depth - 1))
            }
            (9, _) => {
                self.opened += 1;
                let t = format!("t{}", self.opened);
                self.tokens.push(t.clone());
                let body = self.block(depth - 1) + &self.block(depth - 1);
                self.tokens.pop();
                // A scope of its own: what is opened here is waited for at its end.
                format!("if N >= 0 {{ token {t} {body}}} ")
            }
            _ => self.access(),
        }
    }
}

/// The code that a run with races looked for fails with.
fn run(module: &Module, func: &Function, n: usize) -> Option<String> {
    let array = |len: usize| ArrayValue::zeros(Scalar::I32.into(), &[len]);
    let mut args = [array(n), array(400), array(400)];
    let options = Options { races: true, ..Options::default() };
    interp::run(module, func, &mut args, &options).err().map(|f| f.diagnostic.code.0.to_string())
}

#[test]
fn certain_races_are_those_of_runs() {
    let mut dice = Dice(number("LATHE_ORDER_SEED", 20_251_125));
    let wanted = number("LATHE_ORDER_CASES", 1500);
    let (mut free, mut found, mut missed) = (0u64, 0u64, 0u64);
    for _ in 0..wanted {
        let (loops, tokens) = (Vec::new(), vec!["t".to_string()]);
        let mut tree = Tree { dice: &mut dice, labels: 0, loops, tokens, opened: 0, pending: false };
        let body = tree.block(3) + &tree.block(3);
        let pending = tree.pending;
        let text = format!(
            "func f(N)(n: in i32[N], A: inout i32[400], B: inout i32[400]) stage scheduled {{ token t {body}}}"
        );
        let module = parse_module(FileId(0), &text).unwrap_or_else(|d| panic!("{text}\n{d:?}"));
        let func = module.functions.values().next().expect("a function");
        let said = certain_race(&module, func).map(|d| d.to_string());
        assert_eq!(prove_concurrent(&module, func).is_empty(), said.is_none(), "{text}");
        let runs = |n| run(&module, func, n).is_some_and(|code| code == "E0410");
        let raced = (0..=6).any(runs);
        match (said, raced) {
            (Some(race), false) => assert!((7..=24).any(runs), "no run has this: {race}\n{text}"),
            (Some(_), true) => found += 1,
            (None, true) if pending => {}
            (None, true) => missed += 1,
            (None, false) => free += 1,
        }
    }
    eprintln!(
        "{wanted} trees: {free} without races, {found} with races, {missed} whose races were not found"
    );
    assert!(free > wanted / 10 && found > wanted / 10, "{free} {found}");
    assert!(missed * 50 <= found, "{missed} races were not found");
}
