//! Random device trees: phases of blocks and of clusters over shared memory and registers, atomics in both memories,
//! tree reductions, serial code and loops between phases. As they stand, as kernels in random orders with the
//! detection of races, on an OpenCL device, and on CPUs, where phases are loops.

use super::*;
use lathe_analysis::prove_concurrent;
use lathe_ir::{Function, Module, Stmt, StmtKind};
use lathe_runtime::fill::Random;

/// How many trees there are, unless `LATHE_CASES` says otherwise.
const CASES: u64 = 12;

struct Maker {
    random: Random,
    threads: i64,
    /// Blocks of a cluster, which share the threads.
    blocks: i64,
    /// Numbers that labels and loops have so far.
    names: u32,
    out: String,
}

impl Maker {
    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn pick<'a>(&mut self, all: &[&'a str]) -> &'a str {
        all[self.below(all.len() as u64) as usize]
    }

    fn name(&mut self) -> u32 {
        self.names += 1;
        self.names
    }

    /// A value that thread `t` may read while the array `own` is written by all.
    fn value(&mut self, own: &str) -> String {
        let (n, by) = (self.threads, self.below(7));
        let other = if own == "S" { "P" } else { "S" };
        match self.below(5) {
            0 => format!("A[g, t] + {by}:i32"),
            1 => format!("{other}[(t + {by}) % {n}] * 3:i32"),
            2 => format!("max({own}[t], A[g, (t * {by}) % {n}])"),
            3 => format!("R[t] - {other}[{}]", by % n as u64),
            _ => format!("select(t < {by}, R[t], {other}[t])"),
        }
    }

    /// What thread `t` does, for all of them: as one loop, or as one of a cluster around one of each of its blocks.
    fn nest(&mut self, body: &str) -> String {
        let (n, blocks) = (self.threads, self.blocks);
        if blocks == 1 || self.below(4) == 0 {
            return format!("for t in 0..{n} level(block) {{ {body} }}\n");
        }
        let each = n / blocks;
        let body = format!("let t: index = {each} * c + u {{ {body} }}");
        format!("for c in 0..{blocks} level(cluster) {{ for u in 0..{each} level(block) {{ {body} }} }}\n")
    }

    /// One phase: a loop over the threads, or serial code.
    fn phase(&mut self, around: &str, deep: u64) {
        let n = self.threads;
        let l = self.name();
        let most = match deep {
            0 => 7,
            _ => 9,
        };
        let text = match self.below(most) {
            0 | 1 => {
                let a = self.pick(&["S", "P"]);
                let v = self.value(a);
                self.nest(&format!("'{a}.{l}'[g, {around}t]: {a}[t] = {v}"))
            }
            2 => {
                let v = self.value("S");
                let v = v.replace("S[t]", "R[t]");
                self.nest(&format!("'R.{l}'[g, {around}t]: R[t] = R[t] + {v}"))
            }
            3 => {
                let (a, op) = (self.pick(&["S", "P"]), self.pick(&["sum", "max", "min"]));
                let (by, of) = (1 + self.below(5), 1 + self.below(n as u64));
                let rest = self.below(9);
                self.nest(&format!(
                    "atomic '{a}.{l}'[g, {around}t]: {a}[(t * {by}) % {of}] {op}= R[t] + {rest}:i32 relaxed scope system"
                ))
            }
            4 => {
                let (op, by) = ("sum", 1 + self.below(5));
                let a = self.pick(&["S", "P"]);
                self.nest(&format!(
                    "atomic 'H.{l}'[g, {around}t]: H[(t * {by}) % 8] {op}= {a}[t] relaxed scope system"
                ))
            }
            5 => {
                let a = self.pick(&["S", "P"]);
                let mut h = (n as u64).next_power_of_two() as i64 / 4;
                let mut all = String::new();
                while h > 0 {
                    let l = self.name();
                    all += &format!(
                        "for p in 0..{h} level(block) {{ '{a}.{l}'[g, {around}p]: {a}[p] sum= {a}[p + {h}] licensed }}\n"
                    );
                    h /= 2;
                }
                all
            }
            6 => {
                let (a, b) = (self.pick(&["S", "P"]), self.pick(&["S", "P"]));
                let (i, j) = (self.below(n as u64), self.below(n as u64));
                format!("'{a}.{l}'[g, {around}0]: {a}[{i}] = {b}[{j}] + {l}:i32\n")
            }
            7 => {
                let (r, trips) = (format!("r{l}"), 1 + self.below(3));
                self.out += &format!("for {r} in 0..{trips} {{\n");
                let inside = format!("{around}{r}, ");
                for _ in 0..1 + self.below(3) {
                    self.phase(&inside, deep - 1);
                }
                "}\n".to_string()
            }
            _ => {
                self.out += &format!("if (g + {l}) % 2 == 0 {{\n");
                self.phase(around, deep - 1);
                "}\n".to_string()
            }
        };
        self.out += &text;
    }
}

fn tree(seed: u64) -> String {
    let mut m = Maker { random: Random::new(seed), threads: 0, blocks: 1, names: 0, out: String::new() };
    m.below(1);
    m.threads = [64, 32, 48, 7][m.below(4) as usize];
    m.blocks = [1, 2, 4][m.below(3) as usize];
    m.blocks = if m.threads % m.blocks == 0 { m.blocks } else { 1 };
    let phases = 2 + m.below(6);
    for _ in 0..phases {
        m.phase("", 2);
    }
    let (n, phases) = (m.threads, m.out);
    format!(
        "func random(N)(A: in i32[N, {n}], B: out i32[N, {n}], H: inout i32[8]) stage scheduled {{
for g in 0..N level(grid) {{
alloc S: i32[{n}] shared
alloc P: i32[{n}] shared
alloc R: i32[{n}] register
for t in 0..{n} level(block) {{ 'S'[g, t]: S[t] = A[g, t] }}
for t in 0..{n} level(block) {{ 'P'[g, t]: P[t] = A[g, {n} - 1 - t] * 2:i32 }}
for t in 0..{n} level(block) {{ 'R'[g, t]: R[t] = A[g, t] - 5:i32 }}
{phases}for t in 0..{n} level(block) {{ 'B'[g, t]: B[g, t] = S[t] + P[t] * 7:i32 + R[t] * 11:i32 }}
}}
}}"
    )
}

#[test]
fn random_trees_agree() {
    let cases = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    for seed in 0..cases {
        let text = tree(seed);
        let sizes: &[&[i64]] = &[&[1], &[5], &[0]];
        orders_agree(&text, sizes);
        let (m, f) = parse(&text);
        for language in [Language::Cuda, Language::OpenCl] {
            for cluster in [1, 8] {
                let limits = Limits { cluster, ..Limits::default() };
                emit(&m, &f, language, limits).unwrap_or_else(|d| panic!("{seed}: {d}\n{text}"));
            }
        }
        // What a failure shows.
        println!("{seed}: {text}");
        becomes_ptx(&m, &f, "sm_90a");
        agree_with(&[opencl()], &[false], 2, &text, sizes);
        agree_with(&[Engine::LLVM], &[false], 1, &text, sizes);
        let kernels = print_function(&to_spmd(&f, Limits::default()).expect("kernels"));
        agree_with(&[Engine::LLVM], &[false], 1, &kernels, sizes);
    }
}

/// The statement without its `n`-th barrier, if it has so many.
fn without_barrier(s: &Stmt, n: &mut usize) -> Stmt {
    if matches!(s.kind(), StmtKind::Barrier { .. }) {
        *n = n.wrapping_sub(1);
        return if *n == usize::MAX { Stmt::empty() } else { s.clone() };
    }
    let children: Vec<Stmt> = s.children().map(|c| without_barrier(c, n)).collect();
    if children.is_empty() { s.clone() } else { s.with_children(children) }
}

/// Whether a run of two blocks, or clusters, finds a race, or reads what was to be written before.
fn races(m: &Module, f: &Function) -> bool {
    let program = Program::new(m, f, Order::Reference, true).expect("a program");
    program.run(&mut inputs(f, &[2], 3), &Run { races: true, ..Run::default() }).is_err()
}

/// Kernels are proved to be free of races for all sizes; with a barrier left out, the proof and runs find the same.
#[test]
fn missing_barriers_are_found_without_a_run() {
    let cases = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let (mut needed, mut found) = (0, 0);
    for seed in 0..cases {
        let text = tree(seed);
        let (m, f) = parse(&text);
        for cluster in [1, 8] {
            let limits = Limits { cluster, ..Limits::default() };
            let kernel = to_spmd(&f, limits).expect("kernels");
            let said = prove_concurrent(&m, &kernel);
            assert!(said.is_empty(), "{seed}: {}\n{}", said[0], print_function(&kernel));
            for n in 0.. {
                let mut left = n;
                let body = without_barrier(&kernel.body, &mut left);
                if left <= n {
                    break;
                }
                let kernel = Function { body, ..kernel.clone() };
                let said = prove_concurrent(&m, &kernel);
                let raced = races(&m, &kernel);
                assert!(!raced || !said.is_empty(), "{seed}, barrier {n}:\n{}", print_function(&kernel));
                needed += usize::from(raced);
                found += usize::from(!said.is_empty());
            }
        }
    }
    println!("{needed} barriers are needed in runs, {found} by proof");
    assert!(needed > 0 && found - needed <= found / 20, "{needed} of {found}");
}
