//! Scores search techniques on tables of costs, against random search and against each other.
//!
//! ```text
//! score [--seeds N] [--evaluations N] [--technique A,B] [--table A,B] [--curves FILE] [--write FOLDER] [--held-out]
//!       [T4 FILES]
//! ```
//! `--write` writes the tables as T1 and T4 files, so that other tuners can be scored on the same ones; `--curves`
//! writes every run's score, and the rows of the T4 file in the order of their evaluation. `--held-out` takes the tables that no technique was
//! developed with.

mod exchange;
mod held_out;
mod tables;

use lathe_tune::score::{random_baseline, score};
use lathe_tune::technique::{NAMES, by_name};
use lathe_tune::{Invalid, Measured, Outcome, Stop, Tuner, Why};
use num_traits::ToPrimitive;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;
use std::error::Error;
use std::path::PathBuf;
use std::time::Instant;
use tables::Table;

/// After so many evaluations, the score of that moment is shown.
const CHECKPOINTS: [usize; 8] = [5, 10, 20, 40, 70, 100, 150, 200];

struct Options {
    seeds: u64,
    evaluations: usize,
    techniques: Vec<String>,
    tables: Vec<String>,
    curves: Option<PathBuf>,
    write: Option<PathBuf>,
    files: Vec<PathBuf>,
    held_out: bool,
}

fn options() -> Result<Options, Box<dyn Error>> {
    let mut o = Options {
        seeds: 50,
        evaluations: 200,
        techniques: NAMES.iter().filter(|n| **n != "exhaustive").map(|n| n.to_string()).collect(),
        tables: Vec::new(),
        curves: None,
        write: None,
        files: Vec::new(),
        held_out: false,
    };
    let mut args = std::env::args().skip(1);
    while let Some(a) = args.next() {
        let mut value = || args.next().ok_or(format!("{a} needs a value"));
        let list = |v: String| v.split(',').map(str::to_string).collect::<Vec<_>>();
        match a.as_str() {
            "--seeds" => o.seeds = value()?.parse()?,
            "--evaluations" => o.evaluations = value()?.parse()?,
            "--technique" => o.techniques = list(value()?),
            "--table" => o.tables = list(value()?),
            "--curves" => o.curves = Some(value()?.into()),
            "--write" => o.write = Some(value()?.into()),
            "--held-out" => o.held_out = true,
            _ => o.files.push(a.into()),
        }
    }
    Ok(o)
}

/// The best cost after each evaluation, and the number of the configuration that it measured.
struct Run {
    best: Vec<f64>,
    trace: Vec<usize>,
}

fn run(table: &Table, technique: &str, seed: u64, evaluations: usize) -> Result<Run, Box<dyn Error>> {
    let technique = by_name(technique).map_err(|d| d.to_string())?;
    let tuner = Tuner::new(table.space.clone()).technique(technique).seed(seed);
    let mut session =
        tuner.stop(Stop::Evaluations(evaluations as u64)).session().map_err(|d| d.to_string())?;
    let mut run = Run { best: Vec::new(), trace: Vec::new() };
    while let Some(p) = session.get_configuration().map_err(|d| d.to_string())? {
        let cost = table.cost(&p.index);
        let outcome = if cost.is_finite() {
            Outcome::Valid(cost.into())
        } else {
            Outcome::Invalid(Invalid::new(Why::Runtime, "recorded as failed"))
        };
        session.report_cost(Measured::from(outcome)).map_err(|d| d.to_string())?;
        run.best.push(session.best_number().unwrap_or(f64::INFINITY));
        run.trace.push(p.index.to_usize().ok_or("an index beyond all tables")?);
    }
    Ok(run)
}

/// The 95 % interval of the mean, by drawing from the runs again.
fn interval(values: &[f64]) -> (f64, f64) {
    let mut rng = ChaCha8Rng::seed_from_u64(95);
    let mut means: Vec<f64> = (0..2000)
        .map(|_| {
            (0..values.len()).map(|_| values[rng.gen_range(0..values.len())]).sum::<f64>()
                / values.len() as f64
        })
        .collect();
    means.sort_by(f64::total_cmp);
    (means[50], means[1949])
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn main() -> Result<(), Box<dyn Error>> {
    let o = options()?;
    let mut tables = if o.held_out { held_out::all()? } else { tables::all_synthetic()? };
    for f in &o.files {
        tables.push(tables::recorded(f)?);
    }
    tables.retain(|t| o.tables.is_empty() || o.tables.contains(&t.name));
    for t in &tables {
        let failed = t.costs.iter().filter(|c| !c.is_finite()).count();
        println!(
            "{}: {} configurations, {failed} of them fail, optimum {}",
            t.name,
            t.costs.len(),
            t.optimum()
        );
        if let Some(folder) = &o.write {
            exchange::write(t, folder)?;
        }
    }
    print!("\n{:24}", "technique");
    tables.iter().for_each(|t| print!("{:>12}", t.name));
    println!("{:>8} {:>17} {:>9} {:>8}", "mean", "95 % interval", "best/opt", "ms/eval");
    let mut curves = Vec::new();
    let mut profiles: Vec<(&String, Vec<Vec<f64>>)> = Vec::new();
    for name in &o.techniques {
        print!("{name:24}");
        let mut per_table = Vec::new();
        let mut per_seed = vec![0.0; o.seeds as usize];
        let mut ratios = Vec::new();
        let mut profile = vec![Vec::new(); CHECKPOINTS.len()];
        let (mut spent, mut evaluations) = (0.0, 0);
        for t in &tables {
            let baseline = random_baseline(&t.costs, o.evaluations);
            let optimum = t.optimum();
            let mut scores = Vec::new();
            for seed in 0..o.seeds {
                let began = Instant::now();
                let Run { best, trace } = run(t, name, seed, o.evaluations)?;
                spent += began.elapsed().as_secs_f64();
                evaluations += best.len();
                let s = score(&best, &baseline, optimum);
                scores.push(s);
                for (at, parts) in CHECKPOINTS.iter().zip(&mut profile) {
                    if let (Some(b), Some(base)) = (best.get(at - 1), baseline.get(at - 1)) {
                        parts.push(score(&[*b], &[*base], optimum));
                    }
                }
                per_seed[seed as usize] += s / tables.len() as f64;
                ratios.push(best.last().copied().unwrap_or(f64::INFINITY) / optimum);
                curves.push(serde_json::json!({"table": t.name, "technique": name, "seed": seed, "score": s, "final": best.last(), "trace": trace}));
            }
            per_table.push(mean(&scores));
            print!("{:>12.3}", mean(&scores));
        }
        let (lo, hi) = interval(&per_seed);
        let per_evaluation = 1e3 * spent / f64::from(evaluations.max(1) as u32);
        println!(
            "{:>8.3} {lo:>8.3} {hi:>8.3} {:>9.4} {per_evaluation:>8.3}",
            mean(&per_table),
            mean(&ratios)
        );
        profiles.push((name, profile));
    }
    print!("\n{:24}", "score after");
    CHECKPOINTS.iter().for_each(|c| print!("{c:>8}"));
    println!();
    for (name, profile) in profiles {
        print!("{name:24}");
        profile.iter().for_each(|p| print!("{:>8.3}", mean(p)));
        println!();
    }
    if let Some(path) = &o.curves {
        std::fs::write(path, serde_json::to_string(&curves)?)?;
    }
    Ok(())
}
