//! The main job, end to end: GEMM and a stencil from `examples/`, on arrays from `.npy` files that this program
//! makes, naive and with their strategies, each verified, beside the machine's measured ceilings.

use lathe::report::EvidenceCounts;
use lathe::{
    Build, Failure, Given, How, Machine, Plan, Pool, Program, ceilings, compile, count, data, measure, npy,
    rounds, schedule, stats,
};
use std::collections::BTreeMap;
use std::path::Path;

/// File, kernel, sizes.
type Job<'a> = (&'a str, &'a str, &'a [(&'a str, i64)]);

fn main() {
    if let Err(f) = run() {
        eprintln!("{f}");
        std::process::exit(1);
    }
}

fn run() -> Result<(), Failure> {
    let threads = std::thread::available_parallelism().map_or(1, usize::from).min(2);
    rounds::pin_to_first(threads);
    let peak = ceilings::peak_flops_f32(&lathe::Machine::host());
    let copy = ceilings::copy_bytes_per_second();
    let show = |v: Option<f64>| v.map_or("unknown".to_string(), |v| format!("{:.1}", v / 1e9));
    println!(
        "machine, one thread, measured: {} GFLOP/s (f32 FMA), {} GB/s (streaming copy)\n",
        show(peak),
        show(copy)
    );
    println!(
        "{:24} {:8} {:>7}  {:>11}  {:>9}  {:>7}  {:>9}  {:>6}  verified against",
        "kernel", "strategy", "threads", "time", "rate", "of peak", "compile", "proved"
    );
    let jobs: [Job; 2] = [
        ("gemm.lathe", "gemm", &[("M", 1024), ("N", 1024), ("K", 1024)]),
        ("jacobi.lathe", "jacobi2d", &[("N", 4096)]),
    ];
    for (file, kernel, sizes) in jobs {
        job(file, kernel, sizes, threads, peak, copy)?;
    }
    println!("\n`proved` counts the obligations that were discharged by the dependences of the program.");
    Ok(())
}

fn job(
    file: &str,
    kernel: &str,
    sizes: &[(&str, i64)],
    threads: usize,
    peak: Option<f64>,
    copy: Option<f64>,
) -> Result<(), Failure> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(file);
    let program = Program::open(path)?;
    let func = program.kernel(Some(kernel))?;
    let bare = |d| Failure::one(&program.sources, d);
    let sizes: BTreeMap<String, i64> = sizes.iter().map(|(n, v)| ((*n).to_string(), *v)).collect();

    // The inputs go through files, as a user's would.
    let folder = tempfile::tempdir().map_err(|e| {
        bare(lathe::Diagnostic::error(lathe::codes::OUTPUT, format!("no folder for temporary files: {e}")))
    })?;
    let made = data::make(func, &Given { sizes: sizes.clone(), ..Given::default() }).map_err(bare)?;
    let mut inputs = BTreeMap::new();
    for (p, a) in func.params.iter().zip(&made.arrays) {
        if p.mode != lathe::Mode::Out {
            let file = folder.path().join(format!("{}.npy", p.name()));
            npy::write(&file, a).map_err(bare)?;
            inputs.insert(p.name().to_string(), file.display().to_string());
        }
    }
    let given = Given { sizes, inputs, seed: 0 };

    for (strategy, threads) in [("naive", 1), ("fast", 1), ("fast", threads)] {
        let pool = Pool::new(threads).map_err(bare)?;
        let how = How { strategy: Some(strategy.to_string()), ..How::default() };
        let s = schedule(&program, func, &how, &Machine::host())?;
        let build = Build::default();
        let built = compile(&s, &build).map_err(bare)?;
        let mut d = data::make(func, &given).map_err(bare)?;
        let before = d.duplicate().map_err(bare)?;
        built.call(&pool, &mut d.arrays).map_err(bare)?;
        let checked = lathe::check_result(&s, &build, before, &d, &pool).map_err(bare)?;
        if !checked.report.ok {
            return Err(bare(checked.diagnostic(kernel)));
        }
        let plan = if strategy == "naive" {
            Plan { runs: 3, warmup: 0, ..Plan::default() }
        } else {
            Plan::default()
        };
        let times = measure(1, &plan, &mut |_| built.call(&pool, &mut d.arrays), |_| {}).map_err(bare)?;
        let median = stats::median(&times[0]).unwrap_or(f64::NAN);
        let flops = count::flops(&s.plain, &d.sizes).unwrap_or(0.0);
        let bytes = count::bytes(&s.plain, &d.sizes).unwrap_or(0.0);
        // A kernel is measured by what limits it: arithmetic if it does much per byte, else memory.
        let (rate, unit, ceiling) = if flops / bytes > 16.0 {
            (flops / median / 1e9, "GFLOP/s", peak.map(|p| p * threads as f64 / 1e9))
        } else {
            (bytes / median / 1e9, "GB/s", copy.map(|c| c / 1e9))
        };
        let share = ceiling.map_or(String::new(), |c| format!("{:.0} %", rate / c * 100.0));
        println!(
            "{:24} {:8} {:>7}  {:>8.3} ms  {:>6.1} {:7} {:>5}  {:>6.0} ms  {:>6}  {} (error {:.1e})",
            format!("{kernel} ({file})"),
            strategy,
            threads,
            median * 1e3,
            rate,
            unit,
            share,
            (built.compile_seconds + s.seconds()) * 1e3,
            EvidenceCounts::of(s.steps()).by_dependence,
            checked.report.against,
            checked.report.max_abs_error
        );
    }
    Ok(())
}
