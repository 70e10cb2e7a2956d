//! What one evaluation costs beside compiling and running: search, bookkeeping, the store, and the messages to a
//! worker process. Prints the median and the 99th percentile of each, and their sum; the goal is below 1 ms.
//!
//! `cargo run --release -p lathe-measure --example overhead`

use lathe_measure::store::{Evaluation, Key, Measured, Outcome, SessionInfo, Store};
use lathe_measure::worker::{Limits, Patience, Spec, Worker, serve};
use lathe_space::{Constraint, Generate, Space, SpaceDef, TuningParameter, Value, parse};
use lathe_tune::{Stop, Tuner};
use serde_json::json;
use std::error::Error;
use std::io::BufReader;
use std::time::{Duration, Instant};

const EVALUATIONS: usize = 2000;

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
    let def = (0..4).fold(SpaceDef::new().constant("N", Value::Int(4096)), |def, i| {
        let inner = TuningParameter::int(format!("tile{i}"), 1, 4096);
        let outer = TuningParameter::int(format!("block{i}"), 1, 4096);
        let divides = |text: &str| Constraint::divides(parse(text).unwrap_or(0.into()));
        def.param(outer.such_that(divides("N"))).param(inner.such_that(divides(&format!("block{i}"))))
    });
    let space = Space::generate(&def, &Generate::default())?;
    println!("{} configurations, {EVALUATIONS} of them tried", space.size());
    let mut session = Tuner::new(space).stop(Stop::Evaluations(EVALUATIONS as u64)).seed(1).session()?;
    let (mut search, mut messages, mut written) = (Vec::new(), Vec::new(), Vec::new());
    loop {
        let start = Instant::now();
        let Some(p) = session.get_configuration()? else { break };
        let chosen = start.elapsed();
        let values = p.configuration.to_values();
        let start = Instant::now();
        worker
            .ask(&json!({ "params": values, "best": session.best_number() }), patience)
            .map_err(|f| format!("{f:?}"))?;
        messages.push(start.elapsed().as_secs_f64());
        // A smooth cost with its best somewhere inside.
        let cost: f64 = p.coordinates.iter().enumerate().map(|(i, c)| (c - 0.1 * i as f64).powi(2)).sum();
        let start = Instant::now();
        let measured = Measured { costs: vec![cost], interval: Some((cost, cost)), runs: 6 };
        let e = Evaluation::new(values, Outcome::Measured(measured));
        store.record(record, &Evaluation { coordinates: Some(p.coordinates.clone()), ..e })?;
        written.push(start.elapsed().as_secs_f64());
        let start = Instant::now();
        session.report_cost(cost)?;
        search.push((chosen + start.elapsed()).as_secs_f64());
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
