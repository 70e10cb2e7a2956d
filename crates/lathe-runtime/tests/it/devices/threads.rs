//! Random trees of threads with barriers where their authors put them: values, local arrays and old values of atomics
//! that live across barriers, conditions and loops around them, warps in blocks, barriers of the grid. In the
//! interpreter in random orders with the detection of races, as phases there, and on CPUs.

use super::*;
use lathe_analysis::prove_concurrent;
use lathe_lower::phases;
use lathe_runtime::fill::Random;

/// How many trees there are, unless `LATHE_CASES` says otherwise.
const CASES: u64 = 40;

struct Maker {
    random: Random,
    /// Threads of a warp, and warps of a block.
    lanes: u64,
    warps: u64,
    /// Numbers that labels, variables and loops have so far.
    names: u32,
    /// `i32` expressions that a thread may use.
    values: Vec<String>,
    /// Variables of the loops around, as instances name them.
    around: String,
    /// What is made now is in a `while`: engines for CPUs take no atomics there, which may wait for other iterations.
    repeated: bool,
    out: String,
}

impl Maker {
    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn name(&mut self) -> u32 {
        self.names += 1;
        self.names
    }

    fn value(&mut self) -> String {
        let pick = |m: &mut Maker| {
            let at = m.below(m.values.len() as u64) as usize;
            m.values[at].clone()
        };
        let (a, b, k) = (pick(self), pick(self), self.below(9));
        match self.below(5) {
            0 => format!("{a} + {k}:i32"),
            1 => format!("max({a}, {b})"),
            2 => format!("{a} * 3:i32 - {b}"),
            3 => format!("select({a} < {b}, {b}, {k}:i32)"),
            _ => a,
        }
    }

    /// An element of what all threads share, that a thread may read between two barriers.
    fn element(&mut self) -> String {
        let (n, k) = (self.lanes * self.warps, self.below(7));
        match self.below(4) {
            0 => format!("S[(u + {k}) % {n}]"),
            1 => format!("S[{n} - 1 - u]"),
            2 => format!("S[{}]", k % n),
            _ => format!("P[u, {}]", k % 2),
        }
    }

    fn line(&mut self, text: &str) {
        self.out += text;
        self.out.push('\n');
    }

    /// Some statements after a barrier and before the next one, at the end of which a barrier stands.
    fn part(&mut self, deep: u64) {
        let (l, around) = (self.name(), self.around.clone());
        match self.below(if deep == 0 { 7 } else { 12 }) {
            0 | 1 => {
                let (e, op) = (self.element(), ["+", "-"][self.below(2) as usize]);
                let v = self.value();
                self.line(&format!("let x{l}: i32 = {e} {op} ({v})"));
                self.values.push(format!("x{l}"));
            }
            2 => {
                let v = self.value();
                self.line("barrier t");
                self.line(&format!("'S.{l}'[{around}]: S[u] = {v}"));
                self.line("barrier t");
            }
            3 => {
                let (v, k) = (self.value(), self.below(2));
                self.line(&format!("'R.{l}'[{around}]: R[{k}] = {v}"));
            }
            4 | 5 if self.repeated => {}
            4 => {
                // Each thread its own element, so that the old value is the same in each order.
                let v = self.value();
                self.line("barrier t");
                self.line(&format!(
                    "atomic 'S.{l}'[{around}]: S[u] sum= {v} relaxed scope block as o{l}: i32"
                ));
                self.values.push(format!("o{l}"));
                self.line("barrier t");
            }
            5 => {
                let v = self.value();
                self.line(&format!("atomic 'H.{l}'[{around}]: H[u % 3] sum= {v} relaxed scope system"));
            }
            6 => {
                // Of a warp alone.
                let (v, k) = (self.value(), self.below(self.lanes));
                self.line("barrier l");
                self.line(&format!("'W.{l}'[{around}]: W[w, l] = {v}"));
                self.line("barrier l");
                self.line(&format!("let y{l}: i32 = W[w, (l + {k}) % {}]", self.lanes));
                self.values.push(format!("y{l}"));
            }
            7 | 8 => {
                let trips = self.below(4);
                let bound = ["", "index(many) - "][self.below(2) as usize];
                self.line(&format!("for r{l} in 0..{bound}{trips} {{"));
                self.around = format!("{around}, r{l}");
                self.parts(deep - 1);
                self.around = around;
                self.line("}");
            }
            9 => {
                let cond = [format!("(g + {l}) % 2 == 0"), "S[0] > 1:i32".into(), "many < 2:i32".into()];
                let cond = &cond[self.below(3) as usize];
                self.line(&format!("if {cond} {{"));
                self.parts(deep - 1);
                let other = self.below(2);
                self.line(["}", "} else {"][other as usize]);
                if other == 1 {
                    self.parts(deep - 1);
                    self.line("}");
                }
            }
            10 => {
                self.line("barrier t");
                self.line(&format!("if u == 0 {{ 'left.{l}'[{around}]: left[] = 2:i32 }}"));
                self.line("barrier t");
                self.line("while left[] > 0:i32 {");
                let outer = std::mem::replace(&mut self.repeated, true);
                self.parts(deep - 1);
                self.repeated = outer;
                self.line("barrier t");
                self.line(&format!("if u == 0 {{ 'less.{l}'[{around}]: left[] = left[] - 1:i32 }}"));
                self.line("barrier t");
                self.line("}");
            }
            _ => {
                // Of all blocks.
                let v = self.value();
                self.line(&format!("'G.{l}'[{around}]: G[g, u] = {v}"));
            }
        }
    }

    fn parts(&mut self, deep: u64) {
        let mark = self.values.len();
        for _ in 0..1 + self.below(4) {
            self.part(deep);
        }
        self.line("barrier t");
        self.values.truncate(mark);
    }
}

fn tree(seed: u64) -> String {
    let mut m = Maker {
        random: Random::new(seed),
        lanes: 0,
        warps: 0,
        names: 0,
        values: ["R[0]", "R[1]", "a", "many", "i32(u)"].map(String::from).to_vec(),
        around: "g, w, l".into(),
        repeated: false,
        out: String::new(),
    };
    m.below(1);
    (m.lanes, m.warps) = ([1, 3, 4, 8][m.below(4) as usize], [1, 2, 3][m.below(3) as usize]);
    (0..2 + m.below(4)).for_each(|_| m.parts(2));
    let (lanes, n) = (m.lanes, m.lanes * m.warps);
    // Blocks wait for one another, too: one of the random parts may be divided between them.
    let all =
        if m.below(3) == 0 { "barrier g\nlet z: i32 = G[N - 1 - g, u]\n" } else { "let z: i32 = 0:i32\n" };
    let (warps, out) = (m.warps, m.out);
    format!(
        "func random(N)(A: in i32[N, {n}], n: in i32[1], B: out i32[N, {n}], G: inout i32[N, {n}], H: inout i32[3]) stage scheduled {{
for g in 0..N level(grid) {{
alloc S: i32[{n}] shared
alloc P: i32[{n}, 2] shared
alloc W: i32[{warps}, {lanes}] shared
alloc left: i32[] shared
let many: i32 = n[0] % 4:i32
for t in 0..{warps} level(warp) {{
for l in 0..{lanes} level(lane) {{
let w: index = t
alloc R: i32[2] register
let u: index = {lanes} * w + l
let a: i32 = A[g, u]
'R'[g, w, l]: R[0] = a
'R.1'[g, w, l]: R[1] = a * 2:i32
'S'[g, w, l]: S[u] = a + 1:i32
'P'[g, w, l]: P[u, 0] = a - 1:i32
'P.1'[g, w, l]: P[u, 1] = a
if u == 0 {{ 'left'[g]: left[] = 0:i32 }}
barrier t
{out}{all}'B'[g, w, l]: B[g, u] = S[u] + R[0] * 7:i32 + R[1] * 11:i32 + z
}}
}}
}}
}}"
    )
}

fn cases() -> u64 {
    std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES)
}

#[test]
fn random_trees_of_threads_agree() {
    let mut undecided = 0;
    for seed in 0..cases() {
        let text = tree(seed);
        // What a failure shows.
        println!("{seed}: {text}");
        let (m, f) = parse(&text);
        undecided += prove_concurrent(&m, &f).len() as u64;
        let phased = phases::to_phased(&f, &|_| true).unwrap_or_else(|u| panic!("{}", u.construct));
        let wrong = lathe_ir::verify::verify_function(&m, &phased);
        assert!(wrong.is_empty(), "{wrong:?}\n{}", print_function(&phased));
        let plain = Program::new(&m, &f, Order::Reference, false).unwrap();
        let orders = Program::new(&m, &f, Order::Seed(0), true).unwrap();
        let loops = Program::new(&m, &phased, Order::Seed(0), true).unwrap();
        for sizes in [[0i64], [1], [3]] {
            let given = inputs(&f, &sizes, seed);
            let run = |p: &Program, order: Order, races: bool| {
                let mut all = given.clone();
                let done = p.run(&mut all, &Run { order, races, ..Run::default() });
                done.unwrap_or_else(|d| panic!("{seed} {sizes:?}: {d:?}\n{}", print_function(&phased)));
                all.iter().map(|v| v.bytes().to_vec()).collect::<Vec<_>>()
            };
            let want = run(&plain, Order::Reference, false);
            assert_eq!(run(&orders, Order::Seed(seed), true), want, "{seed} {sizes:?}, another order");
            assert_eq!(run(&loops, Order::Seed(seed), true), want, "{seed} {sizes:?}, phases");
        }
        let mut engines = vec![Engine::LLVM];
        engines.extend((seed % 20 == 0).then_some(Engine::C));
        agree_with(&engines, &[false], 1, &text, &[&[0], &[1], &[3]]);
    }
    println!("{undecided} of {} trees are not proved to be free of races", cases());
    assert!(undecided <= cases() / 50, "{undecided} of {}", cases());
}

/// Kernels end where blocks wait for one another; what lives across that is in the memory of the device.
#[test]
fn barriers_of_the_grid_divide_kernels() {
    let text = "func both(N)(A: in i32[N, 16], B: out i32[N, 16], s: out i32[]) stage scheduled {
  alloc T: i32[N] global
  for g in 0..N level(grid) {
    alloc S: i32[16] shared
    for t in 0..16 level(block) {
      let x: i32 = A[g, t]
      'S'[g, t]: S[15 - t] = x
      if t == 0 { 'T'[g]: T[g] = 0:i32 }
      barrier t
      atomic 'T.2'[g, t]: T[g] sum= x relaxed scope block
      barrier t
      barrier g
      for r in 0..N {
        let y: i32 = T[(g + r) % N]
        barrier g
        if t == 0 { 'T.3'[g, r]: T[g] = y + S[r % 16] }
        barrier g
      }
      'B'[g, t]: B[g, t] = x + S[t] * T[N - 1 - g]
      if g == 0 and t == 0 { 's'[]: s[] = T[0] }
    }
  }
}";
    let (m, f) = parse(text);
    assert!(prove_concurrent(&m, &f).is_empty(), "{}", prove_concurrent(&m, &f)[0]);
    compiles(&m, &f);
    let source = emit(&m, &f, Language::Cuda, Limits::default()).unwrap();
    assert_eq!(source.kernels.len(), 4, "{}", source.source);
    agree_with(&[opencl(), Engine::LLVM, Engine::C], &[false], 2, text, &[&[1], &[2], &[5]]);
}
