//! Random device trees with arrays that threads hold in parts: in blocks, cyclically, or both, over loops in either
//! order, beside shared memory. Right ones agree everywhere, and of wrong ones, in which a layout, a subscript, a loop's name
//! or the order of loops is another, what a run finds is found without one.

use super::*;
use lathe_device::prove_held;
use lathe_runtime::fill::Random;

/// How many trees there are, unless `LATHE_CASES` says otherwise.
const CASES: u64 = 25;

/// How a dimension is divided: threads, elements in a row that one has, and rounds.
#[derive(Clone, Copy)]
struct Divided {
    threads: u64,
    block: u64,
    rounds: u64,
}

impl Divided {
    fn extent(&self) -> u64 {
        self.threads * self.block * self.rounds
    }

    /// The element of thread `t`, number `e` of a block in round `r`.
    fn element(&self, t: &str, e: &str, r: &str) -> String {
        let (block, turn) = (self.block, self.block * self.threads);
        format!("{block} * {t} + {e} + {turn} * {r}")
    }
}

/// What is wrong with a tree.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Fault {
    Nothing,
    /// The layout has other blocks.
    Blocks,
    /// It is over the other loop.
    Swapped,
    /// A phase reads the element of a neighbour.
    Neighbour,
    /// Its loops are in the other order.
    Order,
    /// A loop of it has another name.
    Name,
    /// One dimension is not distributed.
    Copies,
}

const FAULTS: [Fault; 6] =
    [Fault::Blocks, Fault::Swapped, Fault::Neighbour, Fault::Order, Fault::Name, Fault::Copies];

struct Maker {
    random: Random,
    dims: [Divided; 2],
    fault: Fault,
    /// The phase in which it is.
    at: u64,
    phases: u64,
}

impl Maker {
    fn below(&mut self, n: u64) -> u64 {
        self.random.below(n)
    }

    fn layout(&self) -> String {
        let mut out = String::new();
        for (d, name) in [(1, "q"), (0, "p")] {
            let Divided { threads, mut block, .. } = self.dims[d];
            let name = match self.fault {
                Fault::Swapped => ["q", "p"][d],
                Fault::Copies if d == 1 => continue,
                _ => name,
            };
            block += u64::from(self.fault == Fault::Blocks && d == 0);
            out += &format!(
                " tile({d}, {}) tile({}, {block}) distribute({}, {name})",
                threads * block,
                d + 1,
                d + 1
            );
        }
        out
    }

    /// A nest of threads around what each of its elements gets.
    fn nest(&self, phase: u64, body: &str) -> String {
        let here = self.at == phase;
        let [p, q] = self.dims.map(|d| d.threads);
        let mut loops = [format!("for p in 0..{p} level(block)"), format!("for q in 0..{q} level(block)")];
        let mut body = body.to_string();
        if here && self.fault == Fault::Order {
            loops.reverse();
        }
        if here && self.fault == Fault::Name {
            loops[1] = format!("for v in 0..{q} level(block)");
            body = format!("let q: index = v {{ {body} }}");
        }
        let [a, b] = self.dims;
        format!(
            "{} {{ {} {{ for a in 0..{} unrolled {{ for b in 0..{} {{ for c in 0..{} {{ for d in 0..{} {{ {body} }} }} }} }} }} }}\n",
            loops[0], loops[1], a.block, a.rounds, b.block, b.rounds
        )
    }

    fn tree(&mut self) -> String {
        let [m, n] = self.dims.map(|d| d.extent());
        let i = self.dims[0].element("p", "a", "b");
        let j = self.dims[1].element("q", "c", "d");
        let element = format!("F[{i}, {j}]");
        let mut phases = String::new();
        for k in 0..self.phases {
            let (by, odd) = (1 + self.below(5), self.below(3));
            let mut read = match odd {
                0 => format!("{element} * {by}:i32"),
                1 => format!("S[({i} + {by}) % {m}, {j}] - {element}"),
                _ => format!("max({element}, A[g, {i}, {n} - 1 - ({j})])"),
            };
            if self.at == k && self.fault == Fault::Neighbour {
                read = format!("F[({i} + {}) % {m}, {j}]", self.dims[0].block);
            }
            phases += &self.nest(k, &format!("'F.{k}'[g, p, q, a, b, c, d]: {element} = {read}"));
            if self.below(3) == 0 {
                let own = self.nest(
                    u64::MAX,
                    &format!("'S.{k}'[g, p, q, a, b, c, d]: S[{i}, {j}] = {element} + {k}:i32"),
                );
                phases += &own;
            }
        }
        let fill = self.nest(u64::MAX, &format!("'F'[g, p, q, a, b, c, d]: {element} = A[g, {i}, {j}]"));
        let share =
            self.nest(u64::MAX, &format!("'S'[g, p, q, a, b, c, d]: S[{i}, {j}] = A[g, {i}, {j}] * 3:i32"));
        let out = self.nest(u64::MAX, &format!("'B'[g, p, q, a, b, c, d]: B[g, {i}, {j}] = {element}"));
        format!(
            "func owners(N)(A: in i32[N, {m}, {n}], B: out i32[N, {m}, {n}]) stage scheduled {{
for g in 0..N level(grid) {{
alloc S: i32[{m}, {n}] shared
alloc F: i32[{m}, {n}] register layout{}
{fill}{share}{phases}{out}}}
}}",
            self.layout()
        )
    }
}

/// A tree, and how many elements one thread holds of its array.
fn tree(seed: u64, fault: Fault) -> (String, i64) {
    let mut random = Random::new(seed);
    random.below(1);
    let mut dim = || Divided {
        threads: [1, 2, 3, 4, 8][random.below(5) as usize],
        block: 1 + random.below(3),
        rounds: 1 + random.below(3),
    };
    let dims = [dim(), dim()];
    let phases = 1 + random.below(4);
    let at = random.below(phases);
    let own = dims.iter().map(|d| d.block * d.rounds).product::<u64>();
    (Maker { random, dims, fault, at, phases }.tree(), own as i64)
}

#[test]
fn random_trees_with_owners_agree() {
    let cases = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    for seed in 0..cases {
        let (text, own) = tree(seed, Fault::Nothing);
        let sizes: &[&[i64]] = &[&[1], &[3], &[0]];
        let (m, f) = parse(&text);
        let wrong = prove_held(&f);
        assert!(wrong.is_empty(), "{seed}: {}\n{text}", wrong[0]);
        assert!(!runs_wrong(&text), "{seed}\n{text}");
        orders_agree(&text, sizes);
        for language in [Language::Cuda, Language::OpenCl] {
            emit(&m, &f, language, Limits::default()).unwrap_or_else(|d| panic!("{seed}: {d}\n{text}"));
        }
        // The part of a thread, and no more.
        let kernels = to_spmd(&f, Limits::default()).expect("kernels");
        let mut elements = None;
        lathe_ir::visit::walk(&kernels.body, &mut |s, _| {
            if let Some(b) = s.allocated().filter(|b| &*b.name == "F") {
                elements = b.extents.iter().map(|e| e.as_int()).product::<Option<i64>>();
            }
            true
        });
        assert_eq!(elements, Some(own), "{seed}: {}", print_function(&kernels));
        becomes_ptx(&m, &f, "sm_90a");
        agree_with(&[opencl()], &[false], 2, &text, sizes);
        agree_with(&[Engine::LLVM], &[false], 1, &text, sizes);
    }
}

/// Whether a run finds that a thread accesses what another one holds.
fn runs_wrong(text: &str) -> bool {
    let (m, f) = parse(text);
    let program = Program::new(&m, &f, Order::Reference, true).expect("a program");
    match program.run(&mut inputs(&f, &[2], 3), &Run { races: true, ..Run::default() }) {
        Ok(_) => false,
        Err(failure) => {
            assert_eq!(failure.diagnostic.code.0, "E0418", "{failure}\n{text}");
            true
        }
    }
}

#[test]
fn wrong_owners_are_found() {
    let cases = std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(CASES);
    let (mut all, mut in_runs) = (0, 0);
    for fault in FAULTS {
        let (mut without_a_run, mut by_runs) = (0, 0);
        for seed in 0..cases {
            let (text, _) = tree(seed, fault);
            let (_, f) = parse(&text);
            let found = prove_held(&f);
            let ran = runs_wrong(&text);
            assert!(
                !ran || !found.is_empty(),
                "{seed}, {fault:?}: a run is wrong that is not refused\n{text}"
            );
            assert_eq!(found.is_empty(), to_spmd(&f, Limits::default()).is_ok(), "{seed}, {fault:?}\n{text}");
            without_a_run += u64::from(!found.is_empty());
            by_runs += u64::from(ran);
        }
        println!("{fault:?}: {without_a_run} of {cases} refused, {by_runs} found by runs");
        assert!(without_a_run > 0, "{fault:?}");
        all += without_a_run;
        in_runs += by_runs;
    }
    assert!(in_runs > all / 3, "{in_runs} of {all}");
}
