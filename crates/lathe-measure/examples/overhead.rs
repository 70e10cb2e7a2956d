//! What one evaluation costs beside compiling and running: search, bookkeeping, the store, and the messages to a
//! worker process. Prints the mean, the median and the 99th percentile of each, and of their sum; the goal is a mean
//! below 1 ms, for 8 parameters as well as for the 322 flags of a compiler. Of the search the processor's time counts, of
//! the rest, where processes wait for each other, the time by the clock.
//!
//! `cargo run --release -p lathe-measure --example overhead [EVALUATIONS]`

use lathe_measure::store::{Evaluation, Key, Measured, Outcome, SessionInfo, Store};
use lathe_measure::worker::{Patience, Spec, Worker, serve};
use lathe_space::{Constraint, Generate, Space, SpaceDef, TuningParameter, Value, parse};
use lathe_system::process::Limits;
use lathe_tune::{Stop, Tuner};
use serde_json::json;
use std::error::Error;
use std::io::BufReader;
use std::time::{Duration, Instant};

/// The processor's time that this thread has had: what else the machine does plays no part in it.
fn busy() -> Duration {
    let t = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(t.tv_sec as u64, t.tv_nsec as u32)
}

/// Tiles of four loops, each with a block around it; or flags of a compiler: switches, levels, and numbers.
fn space(parameters: usize) -> Result<Space, Box<dyn Error>> {
    let mut def = SpaceDef::new().constant("N", Value::Int(4096));
    if parameters == 8 {
        for i in 0..4 {
            let divides = |text: &str| Constraint::divides(parse(text).unwrap_or(0.into()));
            let outer = TuningParameter::int(format!("block{i}"), 1, 4096).such_that(divides("N"));
            let inner = TuningParameter::int(format!("tile{i}"), 1, 4096);
            def = def.param(outer).param(inner.such_that(divides(&format!("block{i}"))));
        }
    } else {
        for i in 0..parameters {
            let most = [1, 1, 3, 100, 1, 9][i % 6];
            def = def.param(TuningParameter::int(format!("flag{i}"), 0, most));
        }
    }
    Ok(Space::generate(&def, &Generate::default())?)
}

fn main() -> Result<(), Box<dyn Error>> {
    if std::env::args().nth(1).as_deref() == Some("worker") {
        return Ok(serve(
            BufReader::new(std::io::stdin()),
            std::io::stdout(),
            Ok,
            |_, question, running| {
                running();
                Ok(question)
            },
        )?);
    }
    let evaluations = std::env::args().nth(1).map_or(Ok(1000), |n| n.parse())?;
    for parameters in [8, 20, 40, 100, 322] {
        measure(parameters, evaluations)?;
    }
    Ok(())
}

fn measure(parameters: usize, evaluations: u64) -> Result<(), Box<dyn Error>> {
    let folder = tempfile::tempdir()?;
    let store = Store::open(&folder.path().join("results.sqlite"))?;
    let record = store.begin(&Key::default(), &SessionInfo::default())?;
    let mut worker = Worker::new(Spec {
        program: std::env::current_exe()?.into(),
        arguments: vec!["worker".into()],
        setup: json!(null),
        limits: Limits::default(),
        starting: Duration::from_secs(10),
    });
    let patience = Patience { compile: Duration::from_secs(10), run: Duration::from_secs(10) };
    worker.ask(&json!(0), patience).map_err(|f| format!("{f:?}"))?;
    let space = space(parameters)?;
    println!("{parameters} parameters, {} configurations, {evaluations} of them tried", space.size());
    let start = Instant::now();
    let mut session = Tuner::new(space).stop(Stop::Evaluations(evaluations)).seed(1).session()?;
    println!("begun in {:.1} ms", start.elapsed().as_secs_f64() * 1e3);
    let (mut search, mut messages, mut written) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let start = busy();
        let Some(p) = session.get_configuration()? else { break };
        let chosen = busy() - start;
        let values = p.configuration.to_values();
        let start = Instant::now();
        worker
            .ask(&json!({ "params": values, "best": session.best_number() }), patience)
            .map_err(|f| format!("{f:?}"))?;
        messages.push(start.elapsed().as_secs_f64());
        // A smooth cost with its best somewhere inside.
        let place = |i: usize| 0.1 * (i % 10) as f64;
        let cost: f64 = p.coordinates.iter().enumerate().map(|(i, c)| (c - place(i)).powi(2)).sum();
        let start = Instant::now();
        let measured = Measured { costs: vec![cost], interval: Some((cost, cost)), runs: 6 };
        let e = Evaluation::new(values, Outcome::Measured(measured));
        store.record(record, &Evaluation { coordinates: Some(p.coordinates.clone()), ..e })?;
        written.push(start.elapsed().as_secs_f64());
        let start = busy();
        session.report_cost(cost)?;
        search.push((chosen + busy() - start).as_secs_f64());
    }
    let total: Vec<f64> = (0..search.len()).map(|i| search[i] + messages[i] + written[i]).collect();
    for (what, times) in [
        ("search and bookkeeping", &search),
        ("messages to a worker", &messages),
        ("the store", &written),
        ("together", &total),
    ] {
        let mut sorted = times.clone();
        sorted.sort_by(f64::total_cmp);
        let at = |part: f64| sorted[((sorted.len() - 1) as f64 * part) as usize] * 1e3;
        let mean = sorted.iter().sum::<f64>() / sorted.len() as f64 * 1e3;
        println!("{what:24} median {:8.4} ms   mean {mean:8.4} ms   99 % below {:8.4} ms", at(0.5), at(0.99));
    }
    Ok(())
}
