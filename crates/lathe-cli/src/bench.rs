//! `lathe bench`: strategies in interleaved rounds of one pinned process.

use crate::args::BenchArgs;
use crate::run;
use crate::say::{self, note};
use crate::target::{self, Common};
use crate::{Outcome, Stop};
use indicatif::{ProgressBar, ProgressStyle};
use lathe::report::{CheckReport, DeviceReport, EvidenceCounts, RunReport, Transfers, compiled};
use lathe::rounds::Runs;
use lathe::{
    Build, Built, Data, Diagnostic, Failure, Pool, Reference, Schedule, ceilings, count, data, measure, stats,
};

/// A strategy's code, with arrays of its own.
struct Candidate<'a> {
    schedule: &'a Schedule,
    built: &'a Built,
    data: Data,
    /// It changes arrays that it reads.
    changes: bool,
    /// What it must give, and what the rounds gave so far.
    check: Option<(Reference, Option<CheckReport>)>,
}

/// What is measured: every call on the same inputs, every round's result compared.
struct Rounds<'a> {
    pool: &'a Pool,
    original: &'a Data,
    candidates: Vec<Candidate<'a>>,
}

impl Runs<Diagnostic> for Rounds<'_> {
    fn call(&mut self, i: usize) -> Result<(), Diagnostic> {
        let c = &mut self.candidates[i];
        c.built.call(self.pool, &mut c.data.arrays)
    }

    fn one_by_one(&self, i: usize) -> bool {
        self.candidates[i].changes
    }

    fn ready(&mut self, i: usize) -> Result<(), Diagnostic> {
        let c = &mut self.candidates[i];
        c.data.restore(&c.schedule.plain, self.original);
        Ok(())
    }

    fn round(&mut self, i: usize, done: bool) -> Result<(), Diagnostic> {
        let c = &mut self.candidates[i];
        let Some((reference, report)) = &mut c.check else { return Ok(()) };
        if !done {
            c.data.spoil(&c.schedule.plain);
            return Ok(());
        }
        let checked = reference.compare(c.schedule, &c.data)?;
        if !checked.report.ok {
            return Err(checked.diagnostic(&c.schedule.plain.name));
        }
        *report = Some(match report.take() {
            Some(before) => before.and(&checked.report),
            None => checked.report,
        });
        Ok(())
    }
}

pub fn bench(a: &BenchArgs, common: &Common) -> Outcome {
    let t = &a.target;
    let (program, kernel) = target::open(t)?;
    let at = |d: Diagnostic| Stop::from(Failure::one(&program.sources, d));
    let machine = target::machine_here(&t.how)?;
    let given = target::given(&t.how, &a.data.given)?;
    let original = data::make_in(&program.lang.module, &kernel, &given).map_err(at)?;
    let sizes = original.named_sizes(&kernel);
    let threads = target::threads(&a.data.given);
    lathe::rounds::pin_to_first(threads);
    let pool = Pool::new(threads).map_err(at)?;
    let engine = target::engine(&t.how)?;
    let build = Build { engine, ..Build::default() }.on(&machine);
    let names: Vec<Option<String>> = match &t.how.strategy {
        Some(list) => list.split(',').map(|s| Some(s.trim().to_string())).collect(),
        None => vec![None],
    };
    let mut kernels = Vec::new();
    for s in &names {
        let of = target::situation(&t.how, &given, &sizes, &build, threads);
        let schedule = target::scheduled(t, s.as_deref(), &program, &kernel, of)?;
        let built = lathe::compile_for(&schedule, &build, Some(&sizes)).map_err(at)?;
        kernels.push((schedule, built));
    }
    let mut rounds = Rounds { pool: &pool, original: &original, candidates: Vec::new() };
    for (schedule, built) in &kernels {
        let mut check = None;
        if a.data.check {
            lathe::check_facts(schedule, &build, &original, &pool).map_err(at)?;
            let before = original.duplicate().map_err(at)?;
            check = Some((Reference::new(schedule, &build, before, &pool).map_err(at)?, None));
        }
        let data = original.duplicate().map_err(at)?;
        let changes = kernel.params.iter().any(|p| p.mode == lathe::Mode::InOut);
        rounds.candidates.push(Candidate { schedule, built, data, changes, check });
    }
    // Once before anything is timed: what fails or is wrong is not measured.
    for i in 0..kernels.len() {
        rounds.round(i, false).map_err(at)?;
        rounds.ready(i).map_err(at)?;
        rounds.call(i).map_err(at)?;
        rounds.round(i, true).map_err(at)?;
    }
    let plan = run::plan(a.runs);
    let bar = ProgressBar::new(plan.runs as u64);
    if let Ok(style) = ProgressStyle::with_template("{bar:30} round {pos} of {len}, {eta} left") {
        bar.set_style(style);
    }
    let times = if engine.is_device() {
        // By the device's clock; what is copied for a call is not part of it.
        let mut all = Vec::new();
        for c in &mut rounds.candidates {
            all.push(c.built.device_seconds(&mut c.data.arrays, plan.runs).map_err(at)?.unwrap_or_default());
        }
        all
    } else {
        measure(kernels.len(), &plan, &mut rounds, |done| bar.set_position(done as u64)).map_err(at)?
    };
    bar.finish_and_clear();

    let peak = ceilings::peak_flops_f32(&machine);
    let mut reports = Vec::new();
    let device = DeviceReport::of(engine);
    for (c, seconds) in rounds.candidates.iter().zip(&times) {
        let (schedule, built) = (c.schedule, c.built);
        let Some(s) = stats::summarize(seconds) else { continue };
        let rate = |n: Option<f64>| n.map(|n| n / s.median / 1e9);
        let run = built.last_run();
        reports.push(RunReport {
            kernel: kernel.name.to_string(),
            strategy: schedule.strategy.clone(),
            strategy_source: schedule.source.name().to_string(),
            strategy_reason: schedule.reason.clone(),
            params: schedule.params.clone(),
            sizes: sizes.clone(),
            specialized: t.how.specialize,
            threads,
            engine: engine.name().to_string(),
            device: device.clone(),
            kernel_s: run.map(|_| s.median),
            launches: run.map(|r| r.launches),
            transfers: run.as_ref().map(Transfers::of),
            compiled: compiled(built),
            compile_s: built.compile_seconds + schedule.seconds(),
            runs: s.runs,
            median_s: Some(s.median),
            min_s: Some(s.min),
            max_s: Some(s.max),
            gflops: rate(count::flops(&schedule.plain, &original.sizes).filter(|f| *f > 0.0)),
            gbytes_per_s: rate(count::bytes(&schedule.plain, &original.sizes)),
            check: c.check.as_ref().and_then(|c| c.1.clone()),
            evidence: EvidenceCounts::of(schedule.steps()),
            made_inputs: original.made.clone(),
            assumptions: schedule.assumptions(),
            reassociates: schedule.reassociates(),
        });
    }
    if reports.is_empty() {
        note!("nothing was measured");
        return Err(Stop::Status(1));
    }
    if common.json {
        match reports.as_slice() {
            [one] => say::json(one)?,
            all => say::json(&all)?,
        }
    } else {
        for (i, r) in reports.iter().enumerate() {
            run::show(r);
            if let (Some(p), Some(g)) = (peak, r.gflops) {
                let share = g * 1e9 / (p * threads as f64) * 100.0;
                note!(
                    "  {share:.1} % of {threads} × {:.1} GFLOP/s (f32 fused multiply-add, measured)",
                    p / 1e9
                );
            }
            if i > 0
                && let Some(s) = lathe::rounds::speedup(&times[0], &times[i])
            {
                note!(
                    "  {:.3} × as fast as {} [{:.3}..{:.3}, 95 %]",
                    s.median,
                    reports[0].strategy,
                    s.interval.0,
                    s.interval.1
                );
            }
        }
    }
    if common.time_passes {
        for (schedule, built) in &kernels {
            target::print_times(&schedule.times);
            target::print_times(&built.times);
        }
    }
    Ok(())
}
