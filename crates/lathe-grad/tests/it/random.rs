//! Random kernels, by the same three comparisons. `LATHE_CASES` says how many, `LATHE_SEED` the first one.

use crate::common::{Outcome, Rng, compare, given, kernel};
use lathe_grad::{Mode, Request, widened};
use std::fmt::Write;

struct Gen {
    rng: Rng,
    text: String,
    locals: usize,
}

impl Gen {
    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.rng.below(from.len())]
    }

    /// An element that exists, given the loop variables in scope: arrays have 5 elements, variables run over 1..4.
    fn element(&mut self, vars: &[String], locals: &[String]) -> String {
        let shift = self.pick(&["", " - 1", " + 1"]);
        let at = match vars.last() {
            Some(_) => {
                let v = &vars[self.rng.below(vars.len())];
                format!("{v}{shift}")
            }
            None => self.rng.below(5).to_string(),
        };
        if !locals.is_empty() && self.rng.below(3) == 0 {
            return locals[self.rng.below(locals.len())].clone();
        }
        match self.rng.below(5) {
            0 | 1 => format!("u[{at}]"),
            2 => format!("x[{at}]"),
            3 => format!("w[{at}]"),
            _ => format!("x[index(k[{at}])]"),
        }
    }

    fn value(&mut self, depth: usize, vars: &[String], locals: &[String]) -> String {
        if depth == 0 {
            return match self.rng.below(5) {
                0 => "0.5".into(),
                1 => "c".into(),
                _ => self.element(vars, locals),
            };
        }
        let a = self.value(depth - 1, vars, locals);
        let b = self.value(depth - 1, vars, locals);
        match self.rng.below(11) {
            0 | 1 => format!("({a} * {b})"),
            2 | 3 => format!("({a} + {b})"),
            4 => format!("({a} - {b})"),
            5 => format!("sin({a})"),
            6 => format!("exp(-({a} * {a}))"),
            7 => format!("({a} / (1.5 + {b} * {b}))"),
            8 => format!("max({a}, {b})"),
            9 => match vars.last() {
                Some(v) => format!("select({v} == 2, {a}, {b})"),
                None => format!("min({a}, {b})"),
            },
            _ => format!("tanh({a})"),
        }
    }

    fn statement(&mut self, depth: usize, vars: &mut Vec<String>, locals: &mut Vec<String>) {
        let pad = "    ".repeat(vars.len() + 1);
        match self.rng.below(if depth == 0 { 4 } else { 10 }) {
            0 | 1 => {
                let (t, v) = (self.target(vars, locals), self.value(2, vars, locals));
                let _ = writeln!(self.text, "{pad}{t} = {v}");
            }
            2 => {
                let (t, v) = (self.target(vars, locals), self.value(2, vars, locals));
                let _ = writeln!(self.text, "{pad}{t} += {v}");
            }
            3 => {
                let (t, v) = (self.target(vars, locals), self.value(1, vars, locals));
                let op = self.pick(&["max=", "min=", "*="]);
                let _ = writeln!(self.text, "{pad}{t} {op} {v}");
            }
            4 | 5 => {
                let v = format!("i{}", vars.len());
                let range = match vars.last() {
                    Some(outer) if self.rng.below(3) == 0 => format!("1..{outer} + 1"),
                    Some(outer) if self.rng.below(3) == 0 => format!("1..min(index(k[{outer}]) + 1, 4)"),
                    _ => self.pick(&["1..4", "1..4", "1..N - 1", "1..1", "1..4 step 2"]).to_string(),
                };
                let _ = writeln!(self.text, "{pad}for {v} in {range} {{");
                vars.push(v);
                self.block(depth - 1, vars, locals);
                vars.pop();
                let _ = writeln!(self.text, "{pad}}}");
            }
            6 => {
                let a = self.element(vars, locals);
                let cond = match vars.last() {
                    Some(v) if self.rng.below(2) == 0 => format!("k[{v}] == 1"),
                    _ => format!("{a} > 0.6"),
                };
                let _ = writeln!(self.text, "{pad}if {cond} {{");
                self.block(depth - 1, vars, locals);
                if self.rng.below(2) == 0 {
                    let _ = writeln!(self.text, "{pad}}} else {{");
                    self.block(depth - 1, vars, locals);
                }
                let _ = writeln!(self.text, "{pad}}}");
            }
            7 => {
                let (a, b) = (self.value(1, vars, locals), self.value(1, vars, locals));
                let whole = match self.rng.below(7) {
                    0 => "u[j] = x[j] * w[j] + u[j]".to_string(),
                    1 => "w[j] = w[j] * u[j]".to_string(),
                    2 => "w[j] = sum[q](x[q] * u[j] * x[j])".to_string(),
                    3 => format!("u[j] = {a} * x[j]"),
                    4 => format!("w[2] = max[q](x[q] * u[q]) + {b}"),
                    5 => "u[index(k[q])] += x[q] * w[q]".to_string(),
                    _ => "w[j] = sum[q in 0..3](x[j] * u[q] * select(j + q < N, x[j + q], 0.5))".to_string(),
                };
                // Elements that others read at the same time are not whole arrays.
                let reads = |value: &str, array: char| whole.contains(value) && value.contains(array);
                if !reads(&a, 'u') && !reads(&b, 'w') {
                    let _ = writeln!(self.text, "{pad}{whole}");
                }
            }
            8 => {
                let (name, v) = (format!("l{}", self.locals), self.value(1, vars, locals));
                self.locals += 1;
                let _ = writeln!(self.text, "{pad}var {name}: f32\n{pad}{name} = {v}");
                locals.push(name);
            }
            _ => {
                let (name, v) = (format!("d{}", self.locals), self.value(1, vars, locals));
                self.locals += 1;
                let _ = writeln!(self.text, "{pad}let {name} = {v}");
                let t = self.target(vars, locals);
                let _ = writeln!(self.text, "{pad}{t} = {name} * {name}");
            }
        }
    }

    fn target(&mut self, vars: &[String], locals: &[String]) -> String {
        let own: Vec<&String> = locals.iter().filter(|l| l.starts_with('l')).collect();
        if !own.is_empty() && self.rng.below(3) == 0 {
            return own[self.rng.below(own.len())].clone();
        }
        let at = match vars.last() {
            Some(_) => vars[self.rng.below(vars.len())].clone() + self.pick(&["", "", " + 1"]),
            None => self.rng.below(5).to_string(),
        };
        let array = self.pick(&["u", "u", "w"]);
        if self.rng.below(8) == 0 { format!("{array}[index(k[{at}])]") } else { format!("{array}[{at}]") }
    }

    fn block(&mut self, depth: usize, vars: &mut Vec<String>, locals: &mut Vec<String>) {
        let known = locals.len();
        for _ in 0..1 + self.rng.below(3) {
            self.statement(depth, vars, locals);
        }
        // A block that ends with a declaration is none.
        let pad = "    ".repeat(vars.len() + 1);
        let _ = writeln!(self.text, "{pad}u[1] = u[1] * 0.9");
        locals.truncate(known);
    }
}

fn program(seed: u64) -> String {
    within(seed, "", "")
}

/// A kernel whose statements are in something.
fn within(seed: u64, before: &str, after: &str) -> String {
    let mut g = Gen { rng: Rng(seed), text: String::new(), locals: 0 };
    g.text.push_str("kernel r(x: f32[N], u: inout f32[N], w: inout f32[N], k: i32[N], c: f32) {\n");
    g.text.push_str(before);
    let depth = 1 + g.rng.below(3);
    g.block(depth, &mut Vec::new(), &mut Vec::new());
    g.text.push_str(after);
    g.text.push_str("}\n");
    g.text
}

fn cases(few: u64) -> std::ops::Range<u64> {
    let number = |name: &str| std::env::var(name).ok().and_then(|n| n.parse().ok());
    let first = number("LATHE_SEED").unwrap_or(0);
    first..first + number("LATHE_CASES").unwrap_or(few)
}

/// Asserts that of so many cases more than one in `share` were compared.
fn most(seeds: std::ops::Range<u64>, share: u64, one: impl Fn(u64) -> bool) {
    let n = seeds.end - seeds.start;
    let compared = seeds.filter(|seed| one(*seed)).count() as u64;
    assert!(compared * share > n, "only {compared} of {n} were compared");
}

/// Differences near a tie or a condition that changes are not derivatives: of several inputs, one must agree. All else
/// must hold for every input. Whether a comparison with differences was made at all.
fn survives(text: &str, ask: &Request, order: u32, seed: u64) -> bool {
    let (m, f) = kernel(text);
    let (m, f) = widened(&m, &f);
    let mut differs = None;
    for n in 0..4 {
        match compare(&m, &f, ask, &given("N=5").seeded(seed * 4 + n), order) {
            Outcome::Agrees => return true,
            Outcome::Differs(how) => differs = Some(how),
            Outcome::Large | Outcome::Refused => {}
        }
    }
    match differs {
        Some(how) => panic!("seed {seed}:\n{text}\n{how}"),
        None => false,
    }
}

#[test]
fn random_kernels() {
    most(cases(120), 2, |seed| survives(&program(seed), &Request::new(Mode::Reverse, ""), 1, seed));
}

#[test]
fn random_kernels_twice() {
    let one = |seed| survives(&program(seed ^ 0xdead_0000), &Request::new(Mode::Reverse, ""), 2, seed);
    most(cases(24), 3, one);
}

/// Loops in time, some within bounds that are data, with few snapshots of what they carry.
#[test]
fn random_loops_with_checkpoints() {
    let one = |seed: u64| {
        let time = ["for t in 0..5 {\n", "for t in 2..9 step 3 {\n", "for t in 0..index(k[0]) + 3 {\n"];
        let text = within(seed ^ 0xbeef_0000, time[seed as usize % 3], "}\n");
        let checkpoints = std::num::NonZeroU16::new(1 + seed as u16 % 4);
        survives(&text, &Request { checkpoints, ..Request::new(Mode::Reverse, "") }, 1, seed)
    };
    most(cases(80), 2, one);
}

/// The same, with few snapshots of what they carry.
#[test]
fn random_loops_of_unknown_length_with_checkpoints() {
    most(cases(80), 2, |seed| of_unknown_length(seed, 1 + seed as u16 % 4));
}

/// Loops whose length only running them tells: `while`, `break`, bounds that the kernel computes.
#[test]
fn random_loops_of_unknown_length() {
    most(cases(120), 2, |seed| of_unknown_length(seed, 0));
}

fn of_unknown_length(seed: u64, checkpoints: u16) -> bool {
    let kinds = [
        ("    var steps: i32\n    steps = 0\n    while steps < 3 {\n", "        steps = steps + 1\n    }\n"),
        (
            "    var steps: i32\n    steps = 0\n    while select(steps < 7, u[2] < 1.1, false) {\n",
            "        u[2] = abs(u[2]) + 0.25\n        steps = steps + 1\n    }\n",
        ),
        (
            "    for t in 0..6 {\n",
            "        if u[3] > 0.5 {\n            break\n        }\n        u[3] = u[3] + 0.1\n    }\n",
        ),
        (
            "    var times: i32[N]\n    times[i] = k[i] + 1\n    for t in 0..index(times[1]) {\n",
            "        times[1] = times[1] - 1\n    }\n",
        ),
        (
            "    for p in 1..4 {\n        var z: f32\n        z = x[p]\n        while z < 2 {\n",
            "            z = z * 1.5 + 0.1\n            u[p] = u[p] * z\n        }\n    }\n",
        ),
    ];
    let (before, after) = kinds[seed as usize % kinds.len()];
    let checkpoints = std::num::NonZeroU16::new(checkpoints);
    let ask = Request { checkpoints, ..Request::new(Mode::Reverse, "") };
    survives(&within(seed ^ 0xabcd_0000, before, after), &ask, 1, seed)
}
