//! `lathe run`.

use crate::args::RunArgs;
use crate::files::{Used, apart};
use crate::say::{self, note};
use crate::target::{self, Common};
use crate::{Outcome, Stop};
use lathe::report::{DeviceReport, EvidenceCounts, RunReport, Transfers, compiled};
use lathe::{ArgView, Array, Build, Diagnostic, Failure, Limits, Mode, Plan, Pool, codes, count, data, npy};
use std::path::Path;

pub fn run(a: &RunArgs, common: &Common) -> Outcome {
    let (program, kernel) = target::open(&a.target)?;
    let interpreted = a.target.how.engine.as_deref() == Some("interpreter") && !a.data.check;
    let debugged = match a.debug || interpreted {
        true => program.debugging(&kernel.name)?,
        false => None,
    };
    let mut t = a.target.clone();
    let debug = debugged.is_some();
    let (program, kernel) = match debugged {
        Some(program) => {
            // Strategies that bring its statements out of order are refused.
            t.how.strategy.get_or_insert_with(|| "naive".to_string());
            let kernel = program.kernel(Some(&kernel.name))?.clone();
            (program, kernel)
        }
        None => (program, kernel),
    };
    let t = &t;
    let at = |d: Diagnostic| Stop::from(Failure::one(&program.sources, d));
    let outputs = target::once("--output", &a.outputs)?;
    for output in outputs.keys() {
        if !kernel.params.iter().any(|p| &**p.name() == output.as_str() && p.mode != Mode::In) {
            let names: Vec<&str> =
                kernel.params.iter().filter(|p| p.mode != Mode::In).map(|p| &**p.name()).collect();
            return Err(at(Diagnostic::error(
                codes::OUTPUT,
                format!("`{}` has no output `{output}`", kernel.name),
            )
            .help(format!("its outputs: {}", names.join(", ")))));
        }
    }
    let read = target::read(&program, &t.how, &a.data.given.inputs);
    let written: Vec<Used> =
        outputs.iter().map(|(n, file)| Used::new(file, format!("the output {n}"))).collect();
    apart(&written, &read)?;
    let machine = target::machine_here(&t.how)?;
    let given = target::given(&t.how, &a.data.given)?;
    let mut data = data::make_in(&program.lang.module, &kernel, &given).map_err(at)?;
    let sizes = data.named_sizes(&kernel);
    let engine = target::engine(&t.how)?;
    if debug {
        lathe::debug::on_host(engine.is_device()).map_err(at)?;
        if let Some(last) = data.arrays.last_mut() {
            *last = lathe::debug::log().map_err(at)?;
        }
        data.made.remove(lathe::debug::LOG);
    }
    let build = Build { engine, cache: lathe::Cache::user(), ..Build::default() }.on(&machine);
    let threads = target::threads(&a.data.given);
    let of = target::situation(&t.how, &given, &sizes, &build, threads);
    let schedule = target::scheduled(t, t.how.strategy.as_deref(), &program, &kernel, of)?;
    let built = lathe::compile_for(&schedule, &build, Some(&sizes)).map_err(at)?;
    for text in build.cache.iter().flat_map(|c| c.notes()) {
        note!("note: {text}");
    }
    let pool = Pool::new(threads).map_err(at)?;

    if a.data.check {
        lathe::check_facts(&schedule, &build, &data, &pool).map_err(at)?;
    }
    let before = if a.data.check { Some(data.duplicate().map_err(at)?) } else { None };
    let start = std::time::Instant::now();
    let mut views: Vec<ArgView> = data.arrays.iter_mut().map(Array::view_mut).collect();
    let limits = Limits { time: a.time_limit, ..Limits::default() };
    let done = built.call_within(&pool, &mut views, &limits);
    let seconds = start.elapsed().as_secs_f64();
    if debug {
        let log = data.arrays.last().and_then(|a| a.to_vec::<i64>()).unwrap_or_default();
        let shown = program.shown(&kernel.name, &log);
        for line in &shown.printed {
            match common.json {
                true => note!("{line}"),
                false => say::text(&format!("{line}\n"))?,
            }
        }
        if let Some(f) = shown.failed {
            return Err(at(lathe::debug::failed(&kernel.name, &f)));
        }
    }
    done.map_err(at)?;
    let check = match before {
        Some(before) => Some(lathe::check_result(&schedule, &build, before, &data, &pool).map_err(at)?),
        None => None,
    };
    // What is known to be wrong is not written.
    if let Some(c) = check.as_ref().filter(|c| !c.report.ok) {
        return Err(at(c.diagnostic(&kernel.name)));
    }
    for (output, file) in &outputs {
        let i = kernel.params.iter().position(|p| &**p.name() == output.as_str());
        if let Some(array) = i.and_then(|i| data.arrays.get(i)) {
            npy::write(Path::new(file), array).map_err(at)?;
        }
    }
    let flops = count::flops(&schedule.plain, &data.sizes);
    let bytes = count::bytes(&schedule.plain, &data.sizes);
    let rate = |n: Option<f64>| n.map(|n| n / seconds / 1e9);
    let run = built.last_run();
    let report = RunReport {
        kernel: kernel.name.to_string(),
        strategy: schedule.strategy.clone(),
        strategy_source: schedule.source.name().to_string(),
        strategy_reason: schedule.reason.clone(),
        params: schedule.params.clone(),
        sizes,
        specialized: t.how.specialize,
        threads,
        engine: engine.name().to_string(),
        device: DeviceReport::of(engine),
        kernel_s: run.map(|r| r.kernel_seconds),
        launches: run.map(|r| r.launches),
        transfers: run.as_ref().map(Transfers::of),
        compiled: compiled(&built),
        compile_s: built.compile_seconds + schedule.seconds(),
        runs: 1,
        median_s: Some(seconds),
        min_s: Some(seconds),
        max_s: Some(seconds),
        gflops: rate(flops.filter(|f| *f > 0.0)),
        gbytes_per_s: rate(bytes),
        check: check.as_ref().map(|c| c.report.clone()),
        evidence: EvidenceCounts::of(schedule.steps()),
        made_inputs: data.made.clone(),
        assumptions: schedule.assumptions(),
        reassociates: schedule.reassociates(),
    };
    if common.json {
        say::json(&report)?;
    } else {
        show(&report);
    }
    if common.time_passes {
        target::print_times(&schedule.times);
        target::print_times(&built.times);
    }
    Ok(())
}

/// The report as lines on standard error.
pub fn show(r: &RunReport) {
    let sizes: Vec<String> = r.sizes.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let params: Vec<String> = r.params.iter().map(|(n, v)| format!("{n}={v}")).collect();
    let with = if params.is_empty() { String::new() } else { format!(" ({})", params.join(", ")) };
    note!(
        "{} {}: strategy {}{with} [{}], engine {}, {} thread{}",
        r.kernel,
        sizes.join(" "),
        r.strategy,
        r.strategy_source,
        r.engine,
        r.threads,
        if r.threads == 1 { "" } else { "s" }
    );
    if !r.strategy_reason.is_empty() {
        note!("  {}: {}", r.strategy_source, r.strategy_reason);
    }
    for (name, how) in &r.made_inputs {
        note!("  input {name}: {how}");
    }
    for fact in &r.assumptions {
        note!("  assumed: {fact}");
    }
    note!("  {} (compiled in {})", timing(r), seconds(r.compile_s));
    if let (Some(d), Some(s), Some(n), Some(t)) = (&r.device, r.kernel_s, r.launches, &r.transfers) {
        note!(
            "  {}: {n} kernel{} in {}, {} bytes to the device, {} from it",
            d.name,
            if n == 1 { "" } else { "s" },
            seconds(s),
            t.to_device_bytes,
            t.from_device_bytes
        );
    }
    let e = &r.evidence;
    note!(
        "  obligations: {} by dependence, {} by rule, {} tested, {} by check, {} by declaration, {} trusted",
        e.by_dependence,
        e.by_rule,
        e.tested,
        e.by_check,
        e.by_declaration,
        e.trusted
    );
    if let Some(c) = &r.check {
        note!("  {c}");
    }
}

pub fn timing(r: &RunReport) -> String {
    let mut s = r.median_s.map_or_else(|| "not measured".to_string(), seconds);
    if r.runs > 1
        && let (Some(lo), Some(hi)) = (r.min_s, r.max_s)
    {
        s += &format!(" [{}..{}]", seconds(lo), seconds(hi));
    }
    if let Some(g) = r.gflops {
        s += &format!(", {g:.2} GFLOP/s");
    }
    if let Some(g) = r.gbytes_per_s {
        s += &format!(", {g:.2} GB/s");
    }
    s
}

pub fn seconds(s: f64) -> String {
    match s {
        s if s >= 1.0 => format!("{s:.3} s"),
        s if s >= 1e-3 => format!("{:.3} ms", s * 1e3),
        s => format!("{:.3} µs", s * 1e6),
    }
}

/// How much `bench` measures.
pub fn plan(runs: u32) -> Plan {
    Plan { runs: runs as usize, ..Plan::default() }
}
