//! The optimizer: random programs keep their meaning under every pass, in every order.

use crate::support::*;
use lathe_ir::Function;
use lathe_ir::visit::walk;
use lathe_transform::optimize::{PASSES, optimize, optimized};
use std::fmt::Write;

/// A random program: lets, cells and local arrays, nested loops (also of no iterations), branches, a `while`, stores,
/// updates, index notation, checks. No two statements have one label.
struct Gen {
    r: Random,
    text: String,
    made: usize,
}

impl Gen {
    fn pick(&mut self, of: &[&str]) -> String {
        of[self.r.below(of.len() as u64) as usize].to_string()
    }

    /// A subscript within the arrays, which have N + 3 elements.
    fn at(&mut self, vars: &[String]) -> String {
        let v =
            if vars.is_empty() { "0".into() } else { vars[self.r.below(vars.len() as u64) as usize].clone() };
        match self.r.below(6) {
            0 => "1".to_string(),
            1 => "N".to_string(),
            2 => format!("{v} + 2"),
            3 => format!("index(k[{v}] * k[{v}]) % (N + 3)"),
            _ => v,
        }
    }

    fn value(&mut self, depth: u64, vars: &[String], names: &[String]) -> String {
        if depth == 0 || self.r.below(5) == 0 {
            if !names.is_empty() && self.r.below(2) == 0 {
                return names[self.r.below(names.len() as u64) as usize].clone();
            }
            let at = self.at(vars);
            return match self.r.below(5) {
                0 => "0.5:f64".to_string(),
                1 => "c".to_string(),
                2 => format!("x[{at}]"),
                3 => format!("u[{at}]"),
                _ => format!("w[{at}]"),
            };
        }
        let (a, b) = (self.value(depth - 1, vars, names), self.value(depth - 1, vars, names));
        match self.r.below(7) {
            0 => format!("sin({a})"),
            1 => format!("(sin({a}) + {b})"),
            2 => format!("max({a}, {b})"),
            3 => format!("select({a} < {b}, {a}, {b})"),
            4 => format!("({a} / (1.0:f64 + {b} * {b}))"),
            5 => format!("({a} - {b})"),
            _ => format!("({a} * {b})"),
        }
    }

    fn statement(&mut self, depth: u64, vars: &mut Vec<String>, names: &mut Vec<String>) {
        self.made += 1;
        let (n, all) = (self.made, vars.join(", "));
        let v = self.value(2, vars, names);
        let at = self.at(vars);
        let array = self.pick(&["u", "w"]);
        let kind = if depth == 0 { self.r.below(8) } else { self.r.below(14) };
        let _ = match kind {
            0 | 1 => writeln!(self.text, "'s{n}'[{all}]: {array}[{at}] = {v}"),
            2 => {
                let op = self.pick(&["sum", "max", "prod"]);
                writeln!(self.text, "'s{n}'[{all}]: {array}[{at}] {op}= {v}")
            }
            3 => {
                names.push(format!("v{n}"));
                writeln!(self.text, "let v{n}: f64 = {v}")
            }
            4 => {
                names.push(format!("t{n}[]"));
                let space = self.pick(&["register", ""]);
                writeln!(self.text, "alloc t{n}: f64[] {space}\n's{n}'[{all}]: t{n}[] = {v}")
            }
            5 => match names.iter().rfind(|t| t.ends_with("[]")).cloned() {
                Some(t) => writeln!(self.text, "'s{n}'[{all}]: {t} = {v}"),
                None => writeln!(self.text, "'s{n}'[{all}]: {array}[{at}] = {v}"),
            },
            6 => {
                let e = self.value(1, &["a".to_string()], names).replace(&format!("{array}["), "x[");
                let e = e.replace("a + 2", "a");
                writeln!(self.text, "compute 's{n}' over a in 0..N + 3 {{ {array}[a] = {e} }}")
            }
            7 => {
                // A norm: the same in every iteration around.
                names.push(format!("t{n}[]"));
                let e = self.value(1, &["q".to_string()], &[]);
                writeln!(
                    self.text,
                    "alloc t{n}: f64[]\n's{n}.init'[{all}]: t{n}[] = 0.0:f64\n\
                     for q in 0..N {{ 's{n}'[{}]: t{n}[] sum= {e} }}",
                    if all.is_empty() { "q".to_string() } else { format!("{all}, q") }
                )
            }
            8..=10 => {
                let i = format!("i{n}");
                let range = self.pick(&["0..N", "0..N", "0..3", "0..0", "1..N step 2"]);
                let range = if range.starts_with("0..3") { "0..min(3, N)".to_string() } else { range };
                let _ = writeln!(self.text, "for {i} in {range} {{");
                vars.push(i);
                self.block(depth - 1, vars, names);
                vars.pop();
                writeln!(self.text, "}}")
            }
            11 => {
                let cond = self.value(1, vars, names);
                let _ = writeln!(self.text, "if {cond} < 0.5:f64 {{");
                self.block(depth - 1, vars, names);
                if self.r.below(2) == 0 {
                    let _ = writeln!(self.text, "}} else {{");
                    self.block(depth - 1, vars, names);
                }
                writeln!(self.text, "}}")
            }
            12 => {
                let _ = writeln!(self.text, "alloc n{n}: i32[] register\n's{n}.n'[{all}]: n{n}[] = 0:i32");
                let _ = writeln!(self.text, "while n{n}[] < 2:i32 {{");
                self.block(depth - 1, vars, names);
                writeln!(self.text, "'s{n}.step'[{all}]: n{n}[] = n{n}[] + 1:i32\n}}")
            }
            _ => writeln!(self.text, "check N < 1000, \"large\", \"N is too large\""),
        };
    }

    fn block(&mut self, depth: u64, vars: &mut Vec<String>, names: &mut Vec<String>) {
        let known = names.len();
        for _ in 0..2 + self.r.below(4) {
            self.statement(depth, vars, names);
        }
        // No block ends with a declaration.
        self.made += 1;
        let (n, all) = (self.made, vars.join(", "));
        let v = self.value(1, vars, names);
        let _ = writeln!(self.text, "'s{n}'[{all}]: u[1] = {v}");
        names.truncate(known);
    }
}

fn program(seed: u64) -> String {
    let mut g = Gen { r: Random(seed * 7919 + 3), text: String::new(), made: 0 };
    g.text.push_str(
        "func f(N)(x: in f64[N + 3], k: in i32[N + 3], c: in f64, u: inout f64[N + 3], w: inout f64[N + 3]) \
         stage plain {\n",
    );
    g.block(2, &mut Vec::new(), &mut Vec::new());
    g.text.push_str("}\n");
    g.text
}

fn statements(f: &Function) -> usize {
    let mut n = 0;
    walk(&f.body, &mut |s, _| {
        n += usize::from(s.label().is_some());
        true
    });
    n
}

#[test]
fn passes_keep_results_in_every_order() {
    let cases = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let (mut changed, mut fewer) = ([0; PASSES.len()], 0);
    for seed in 0..cases {
        let text = program(seed);
        let module = parse(&text);
        let mut r = Random(seed);
        let mut func = only(&module).clone();
        let mut done: Vec<&str> = Vec::new();
        for _ in 0..1 + r.below(8) {
            let n = r.below(PASSES.len() as u64) as usize;
            done.push(PASSES[n]);
            let (next, steps) = optimize(&module, &func, &[PASSES[n]])
                .unwrap_or_else(|d| panic!("{done:?}: {}\n{text}", d.diagnostic));
            assert_eq!(steps.len(), 1, "seed {seed}, {done:?}: not decided\n{}", show(&func));
            changed[n] += usize::from(next.body != func.body);
            func = next;
        }
        fewer += usize::from(statements(&func) < statements(only(&module)));
        // All at once, compared once.
        let at_once = optimized(&module, only(&module), &done).expect("known passes");
        assert_eq!(statements(&at_once), statements(&func), "seed {seed}, {done:?}");
        let compare = || {
            [0, 1, 2, 5].iter().for_each(|n| {
                same(&module, &func, &[*n]);
                same(&module, &at_once, &[*n]);
            });
        };
        if let Err(e) = std::panic::catch_unwind(std::panic::AssertUnwindSafe(compare)) {
            println!("seed {seed}: {done:?}\n{text}");
            std::panic::resume_unwind(e);
        }
    }
    // There are no calls in these programs.
    let idle: Vec<&str> =
        PASSES.iter().zip(changed).filter(|(p, n)| **p != "inline" && *n == 0).map(|p| *p.0).collect();
    assert!(
        idle.is_empty() && fewer > cases as usize / 10,
        "idle: {idle:?}, {fewer} of {cases} became shorter"
    );
}

#[test]
fn a_second_run_of_all_passes_finds_little() {
    for seed in 0..60 {
        let module = parse(&program(seed));
        let once = optimize(&module, only(&module), &PASSES).expect("passes never refuse").0;
        let twice = optimize(&module, &once, &PASSES).expect("passes never refuse").0;
        assert!(statements(&twice) <= statements(&once), "seed {seed}: {}", show(&twice));
    }
}

#[test]
fn unknown_passes_are_refused() {
    let module = parse(
        "func f(N)(x: in f64[N], y: out f64[N]) stage plain { compute 'y' over i in 0..N { y[i] = x[i] } }",
    );
    assert!(optimize(&module, only(&module), &["dce", "magic"]).is_err());
    assert!(optimized(&module, only(&module), &["dce", "magic"]).is_err());
}

#[test]
fn a_norm_in_a_loop_is_computed_once() {
    let f = check(
        "func norm(N)(x: in f64[N], y: out f64[N]) stage plain {
            for i in 0..N {
                alloc s: f64[] register
                's.init'[i]: s[] = 0.0:f64
                for j in 0..N { 's'[i, j]: s[] sum= x[j] * x[j] }
                'y'[i]: y[i] = x[i] / sqrt(s[])
            }
        }",
        "licm",
        &[&[0], &[1], &[4]],
    );
    let mut nested = 0;
    walk(&f.body, &mut |s, _| {
        nested += usize::from(s.as_loop().is_some_and(|l| {
            let mut inner = false;
            walk(&l.body, &mut |c, _| {
                inner |= c.as_loop().is_some();
                true
            });
            inner
        }));
        true
    });
    assert_eq!(nested, 0, "{}", show(&f));
}

#[test]
fn evidence_of_passes_replays() {
    let module = parse(&program(11));
    let (f, steps) = run(&module, &PASSES.join(" ; ")).unwrap_or_else(|r| panic!("{}", r.diagnostic));
    let again = lathe_transform::replay(&module, only(&module), &steps)
        .unwrap_or_else(|r| panic!("{}", r.diagnostic));
    assert_eq!(again.body, f.body);
}
