//! What Lathe itself costs: compiling GEMM, calling a kernel, and how its stages grow with the program.
//! Prints tables; `make bench` runs it. Build with `--release`.

use lathe::transform::Subject;
use lathe::{Build, Failure, Given, How, Machine, Pool, Program, compile, data, rounds, schedule, stats};
use lathe_strategy::{Tree, replay_step};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::time::Instant;

fn main() {
    // Trees are walked by recursion, as by the command.
    let work = std::thread::Builder::new().stack_size(lathe::parallel::STACK).spawn(measure);
    let done = work.map_err(|e| e.to_string()).map(|w| w.join());
    match done {
        Ok(Ok(Ok(()))) => {}
        Ok(Ok(Err(f))) => {
            eprintln!("{f}");
            std::process::exit(1);
        }
        other => panic!("no measurement: {other:?}"),
    }
}

/// The parts that the command line names, or all.
fn measure() -> Result<(), Failure> {
    let parts: [(&str, Part); 7] = [
        ("gemm", gemm),
        ("edit", edit),
        ("steps", steps),
        ("call", call),
        ("chains", chains),
        ("nests", nests),
        ("unrolled", unrolled),
    ];
    let asked: Vec<String> = std::env::args().skip(1).collect();
    parts.into_iter().filter(|p| asked.is_empty() || asked.iter().any(|a| a == p.0)).try_for_each(
        |(name, part)| {
            // Compiling gemm has a thread per version, as for every user; what follows runs on one.
            if !["gemm", "edit"].contains(&name) {
                rounds::pin_to_first(1);
            }
            part()
        },
    )
}

type Part = fn() -> Result<(), Failure>;

/// Median of 15 runs after two that do not count.
fn median(mut f: impl FnMut() -> Result<f64, Failure>) -> Result<f64, Failure> {
    let mut times = Vec::new();
    for run in 0..17 {
        let t = f()?;
        if run >= 2 {
            times.push(t);
        }
    }
    Ok(stats::median(&times).unwrap_or(f64::NAN))
}

fn gemm() -> Result<(), Failure> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/gemm.lathe");
    let machine = Machine::host();
    let program = Program::open(path)?;
    let kernel = program.kernel(Some("gemm"))?;
    let how = How { strategy: Some("fast".to_string()), ..How::default() };
    let mut strategy = Vec::new();
    let total = median(|| {
        lathe::forget();
        let start = Instant::now();
        let s = schedule(&program, kernel, &how, &machine)?;
        strategy.push(s.seconds());
        compile(&s, &Build::default()).map_err(Failure::bare)?;
        Ok(start.elapsed().as_secs_f64())
    })?;
    let strategy = stats::median(&strategy).unwrap_or(f64::NAN);
    println!(
        "compiling gemm with its strategy `fast`: {:.1} ms (strategy and checks {:.1} ms)",
        total * 1e3,
        strategy * 1e3
    );
    Ok(())
}

/// One step of a strategy changes, in a kernel that was compiled before: from the text to code that runs.
fn edit() -> Result<(), Failure> {
    const ROUNDS: i64 = 40;
    let gemm = include_str!("../../../examples/gemm.lathe");
    let plain =
        "kernel gemm(A: f32[M, K], B: f32[K, N]) -> (C: f32[M, N]) { C[i, j] = sum[k](A[i, k] * B[k, j]) }";
    let map = "kernel map(x: f32[N]) -> (y: f32[N]) { y[i] = x[i] * 2 + 1 }";
    let own = |from: &str, to: &str| gemm.replacen(from, to, 1);
    type Edit<'a> = (&'a str, &'a str, &'a dyn Fn(i64) -> String);
    let edits: [Edit; 5] = [
        ("map", "mine", &|n| {
            format!(
                "{map}\nstrategy mine for map = split(i, {}) ; vectorize(i.i, 8) ; parallel(i.o)",
                64 + 8 * n
            )
        }),
        ("gemm", "mine", &|n| {
            let tiles = format!("tile(i: {}, j: 32) ; split(k, 64)", 8 + n);
            let rest = "reorder(i.o, j.o, k.o, i.i, k.i, j.i) ; vectorize(j.i, 16) ; parallel(i.o)";
            format!("{plain}\nstrategy mine for gemm = {tiles} ; {rest}")
        }),
        ("gemm", "packed", &|n| own("split(i, mc)", &format!("split(i, {})", 16 + 8 * n))),
        ("gemm", "small", &|n| own("split(C.k, kc)", &format!("split(C.k, {})", 48 + n))),
        ("gemm", "direct", &|n| {
            own(
                "split(j, vector(T)) ; split(i, mr)",
                &format!("split(j, vector(T)) ; split(i, {})", 4 + n % 13),
            )
        }),
    ];
    let machine = Machine::host();
    for (kernel, strategy, text) in edits {
        let mut all: BTreeMap<String, Vec<f64>> = BTreeMap::new();
        lathe::forget();
        for n in 0..ROUNDS {
            let text = text(n);
            let start = Instant::now();
            let mut note = |name: &str, t: f64| all.entry(name.to_string()).or_default().push(t);
            let program = Program::from_text("edit.lathe", &text)?;
            note("front end", start.elapsed().as_secs_f64());
            let how = How { strategy: Some(strategy.to_string()), ..How::default() };
            let s = schedule(&program, program.kernel(Some(kernel))?, &how, &machine)?;
            s.times.iter().for_each(|(name, t)| note(name, *t));
            let built = compile(&s, &Build::default()).map_err(Failure::bare)?;
            // Parts of code go through the same stages.
            let mut stages: BTreeMap<&str, f64> = BTreeMap::new();
            built.times.iter().for_each(|(name, t)| *stages.entry(name).or_default() += t);
            stages.iter().for_each(|(name, t)| note(name, *t));
            note("total", start.elapsed().as_secs_f64());
        }
        let least = |t: &[f64]| t.iter().copied().fold(f64::INFINITY, f64::min);
        let total = all.remove("total").unwrap_or_default();
        let middle = stats::median(&total).unwrap_or(f64::NAN);
        print!(
            "a step of `{strategy}` of {kernel} changed, to code: {:.1} ms (median {:.1}):",
            least(&total) * 1e3,
            middle * 1e3
        );
        all.iter().for_each(|(name, t)| print!(" {name} {:.2}", least(t) * 1e3));
        println!();
    }
    Ok(())
}

/// Every step of every strategy of the examples, checked anew from the tree that it was applied to.
fn steps() -> Result<(), Failure> {
    const ROUNDS: usize = 7;
    let folder = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples");
    let mut files: Vec<_> =
        std::fs::read_dir(folder).into_iter().flatten().filter_map(|e| Some(e.ok()?.path())).collect();
    files.retain(|f| f.extension().is_some_and(|e| e == "lathe"));
    files.sort();
    let machine = Machine::host();
    let mut each = Vec::new();
    let mut by_rule: BTreeMap<String, Vec<f64>> = BTreeMap::new();
    for file in files {
        let program = Program::open(file.to_str().unwrap_or_default())?;
        for kernel in program.lang.module.functions.values() {
            for d in program.strategies(&kernel.name) {
                let how = How { strategy: Some(d.name.clone()), ..How::default() };
                let Ok(s) = schedule(&program, kernel, &how, &machine) else { continue };
                for v in s.versions.iter().filter(|v| v.baked.is_empty() && v.condition.is_none()) {
                    let mut rounds = vec![Vec::new(); v.steps.len()];
                    for _ in 0..ROUNDS {
                        let mut tree = Subject::new(&s.module, &s.plain);
                        let mut owed = tree.owes();
                        for (n, (step, times)) in v.steps.iter().zip(&mut rounds).enumerate() {
                            let start = Instant::now();
                            tree = replay_step(tree, step, n, &mut owed)
                                .map_err(|r| Failure::bare(*r.diagnostic))?;
                            times.push(start.elapsed().as_secs_f64());
                        }
                    }
                    for (step, times) in v.steps.iter().zip(rounds) {
                        let time = stats::median(&times).unwrap_or(f64::NAN);
                        each.push(time);
                        by_rule.entry(step.rule.clone()).or_default().push(time);
                    }
                }
            }
        }
    }
    let (median, sum) = (stats::median(&each).unwrap_or(f64::NAN), each.iter().sum::<f64>());
    println!(
        "a checked step of {} of the examples: median {:.1} µs, all {:.1} ms",
        each.len(),
        median * 1e6,
        sum * 1e3
    );
    for (rule, each) in by_rule {
        let (median, sum) = (stats::median(&each).unwrap_or(f64::NAN), each.iter().sum::<f64>());
        println!("  {:14} {:4}: median {:8.1} µs, all {:6.1} ms", rule, each.len(), median * 1e6, sum * 1e3);
    }
    Ok(())
}

fn call() -> Result<(), Failure> {
    let params: Vec<String> = (0..13).map(|i| format!("a{i}: f32[N]")).collect();
    let sum: Vec<String> = (0..13).map(|i| format!("a{i}[i]")).collect();
    let text =
        format!("kernel sum13({}) -> (s: f32[N]) {{ s[i] = {} }}\n", params.join(", "), sum.join(" + "));
    let program = Program::from_text("call.lathe", &text)?;
    let kernel = program.kernel(None)?;
    let s = schedule(&program, kernel, &How::default(), &Machine::host())?;
    let built = compile(&s, &Build::default()).map_err(Failure::bare)?;
    let given = Given { sizes: [("N".to_string(), 1)].into(), ..Given::default() };
    let mut d = data::make(kernel, &given).map_err(Failure::bare)?;
    let pool = Pool::new(1).map_err(Failure::bare)?;
    let mut views: Vec<_> = d.arrays.iter_mut().map(lathe::Array::view_mut).collect();
    let t = median(|| {
        const CALLS: u32 = 10_000;
        let start = Instant::now();
        for _ in 0..CALLS {
            built.call_views(&pool, &mut views).map_err(Failure::bare)?;
        }
        Ok(start.elapsed().as_secs_f64() / f64::from(CALLS))
    })?;
    println!("calling a compiled kernel with 14 arguments: {:.3} µs", t * 1e6);
    Ok(())
}

/// Least-squares slope of log(time) over log(size).
fn slope(points: &[(f64, f64)]) -> f64 {
    let n = points.len() as f64;
    let logs: Vec<(f64, f64)> = points.iter().map(|(x, y)| (x.ln(), y.max(1e-9).ln())).collect();
    let (mx, my) = (logs.iter().map(|p| p.0).sum::<f64>() / n, logs.iter().map(|p| p.1).sum::<f64>() / n);
    let top: f64 = logs.iter().map(|p| (p.0 - mx) * (p.1 - my)).sum();
    top / logs.iter().map(|p| (p.0 - mx).powi(2)).sum::<f64>()
}

/// Times the stages of one program per size and prints the slope of Lathe's own stages.
fn growth(
    title: &str,
    sizes: &[usize],
    text: impl Fn(usize) -> String,
    strategy: &str,
) -> Result<(), Failure> {
    println!("\n{title}");
    let (mut points, mut emitted, mut all) = (Vec::new(), Vec::new(), Vec::new());
    for &n in sizes {
        let source = text(n);
        let start = Instant::now();
        let program = Program::from_text("growth.lathe", &source)?;
        let front = start.elapsed().as_secs_f64();
        let kernel = program.kernel(None)?;
        let how = How { strategy: Some(strategy.to_string()), ..How::default() };
        let s = schedule(&program, kernel, &how, &Machine::host())?;
        let own = front + s.seconds();
        let mut line = format!("  {n:5}: front end {:8.2} ms", front * 1e3);
        for (name, t) in &s.times {
            let _ = write!(line, ", {name} {:.2} ms", t * 1e3);
        }
        {
            let built = compile(&s, &Build::default()).map_err(Failure::bare)?;
            let emit = built.times.iter().find(|t| t.0 == "emit").map_or(0.0, |t| t.1);
            emitted.push((n as f64, emit));
            all.push((n as f64, own + built.compile_seconds));
            let _ = write!(
                line,
                "; emit {:.2} ms, LLVM {:.2} ms",
                emit * 1e3,
                (built.compile_seconds - emit) * 1e3
            );
        }
        println!("{line}");
        points.push((n as f64, own));
    }
    println!(
        "  slope of Lathe's own stages (log-log): {:.2}; of emission {:.2}; of everything, LLVM included, {:.2}",
        slope(&points),
        slope(&emitted),
        slope(&all)
    );
    Ok(())
}

fn chains() -> Result<(), Failure> {
    let text = |n: usize| {
        let mut s = String::from("kernel chain(A0: f32[N + 2]) -> (B: f32[N]) {\n");
        for i in 1..=n {
            let _ = writeln!(s, "    var A{i}: f32[N + 2]\n    A{i}[i] = 0 where i in 0..N + 2");
            let _ = writeln!(
                s,
                "    S{i}: A{i}[i + 1] = A{p}[i] + A{p}[i + 1] + A{p}[i + 2] where i in 0..N",
                p = i - 1
            );
        }
        let _ = writeln!(
            s,
            "    B[i] = A{n}[i + 1]\n}}\nstrategy tiled for chain = split(B.i, 64) ; parallel(B.i.o)"
        );
        s
    };
    growth("chains of stencils", &[10, 30, 100, 300, 1000], text, "tiled")
}

fn nests() -> Result<(), Failure> {
    let text = |n: usize| {
        let mut s = String::from("kernel nests(A: f32[N, N]");
        let outs: Vec<String> = (1..=n).map(|i| format!("B{i}: f32[N, N]")).collect();
        let _ = writeln!(s, ") -> ({}) {{", outs.join(", "));
        for i in 1..=n {
            let _ = writeln!(s, "    B{i}[i, j] = A[i, j] * {i}");
        }
        s.push_str("}\nstrategy tiled for nests = tile(B1.i: 16, B1.j: 16) ; parallel(B1.i.o)\n");
        s
    };
    growth("separate nests", &[1, 5, 20, 100, 500], text, "tiled")
}

fn unrolled() -> Result<(), Failure> {
    let text = |n: usize| {
        format!(
            "kernel copy(A: f32[N]) -> (B: f32[N]) {{ B[i] = A[i] + 1 }}\nstrategy u for copy = split(i, {n}) ; separate(i.o) ; unroll(i.i)\n"
        )
    };
    growth("unrolling statements", &[16, 64, 256, 1024, 4096], text, "u")
}
