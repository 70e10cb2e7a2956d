//! What `lathe tune` shows: a bar while it searches, and what it found.

use crate::run::seconds;
use crate::say::note;
use indicatif::{ProgressBar, ProgressStyle};
use lathe::report::CheckReport;
use lathe::space::Values;
use lathe::tune::{Found, KernelTuned, Progress};
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

/// The bar of a search, on standard error.
pub struct Bar {
    bar: ProgressBar,
    /// Costs are seconds.
    timed: bool,
}

/// Parts of a bar.
const PARTS: u64 = 1000;

impl Bar {
    /// Without a terminal nothing is drawn.
    pub fn new(timed: bool) -> Bar {
        let bar = ProgressBar::new(PARTS);
        if let Ok(style) = ProgressStyle::with_template("{bar:24} {msg}") {
            bar.set_style(style);
        }
        bar.enable_steady_tick(Duration::from_millis(200));
        Bar { bar, timed }
    }

    pub fn show(&self, p: &Progress) {
        let rate = p.evaluations as f64 / p.elapsed.as_secs_f64().max(1e-9);
        let best = match &p.best {
            Some((c, v)) => format!("best {} ({c})", self.cost(v.first())),
            None => "nothing valid yet".to_string(),
        };
        let end = p.remaining.map_or(String::new(), |r| format!(", {:.0} s left", r.as_secs_f64()));
        let known = if p.known > 0 { format!(", {} known", p.known) } else { String::new() };
        self.bar.set_position((p.done * PARTS as f64) as u64);
        let message = format!("{} tried, {} valid{known}, {rate:.1}/s{end}; {best}", p.evaluations, p.valid);
        self.bar.set_message(lathe::visible(&message).into_owned());
    }

    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn cost(&self, c: f64) -> String {
        if self.timed { seconds(c) } else { format!("{c}") }
    }
}

/// Configurations that have no cost, by kind.
#[derive(Serialize)]
pub struct Reason {
    pub count: u64,
    pub first: String,
}

/// A time at which the best cost improved.
#[derive(Serialize)]
pub struct Step {
    pub evaluation: u64,
    pub at_s: f64,
    pub cost: f64,
}

/// The course of a search; the same for kernels and programs.
#[derive(Serialize)]
pub struct SearchReport {
    pub technique: String,
    pub seed: u64,
    pub space_size: String,
    pub evaluations: u64,
    pub valid: u64,
    /// Taken from the store.
    pub known: u64,
    pub evaluations_to_best: Option<u64>,
    pub invalid: BTreeMap<String, Reason>,
    pub improvements: Vec<Step>,
    pub elapsed_s: f64,
    pub stopped: String,
    /// The entry of the store, and where it lies.
    pub entry: Option<String>,
    pub store: String,
}

impl SearchReport {
    pub fn new(found: &Found, space_size: String, store: &Path) -> SearchReport {
        let t = &found.tuned;
        let reasons = found.reasons().into_iter();
        SearchReport {
            technique: t.technique.clone(),
            seed: t.seed,
            space_size,
            evaluations: t.evaluations(),
            valid: t.valid(),
            known: found.known,
            evaluations_to_best: t.evaluations_to_best(),
            invalid: reasons.map(|(kind, (count, first))| (kind, Reason { count, first })).collect(),
            improvements: t
                .improvements
                .iter()
                .map(|i| Step { evaluation: i.evaluation, at_s: i.at.as_secs_f64(), cost: i.cost.first() })
                .collect(),
            elapsed_s: t.elapsed.as_secs_f64(),
            stopped: found.stopped.clone(),
            entry: found.entry(),
            store: store.display().to_string(),
        }
    }

    /// On standard error.
    pub fn show(&self) {
        let known = if self.known > 0 { format!(", {} of them known", self.known) } else { String::new() };
        note!(
            "  {} of {} configurations tried{known}, {} valid, by {} in {:.1} s ({})",
            self.evaluations,
            self.space_size,
            self.valid,
            self.technique,
            self.elapsed_s,
            self.stopped
        );
        for (kind, r) in &self.invalid {
            // Further lines are indented under the first.
            note!("  {} invalid ({kind}), the first: {}", r.count, r.first.replace('\n', "\n      "));
        }
        if let Some(entry) = &self.entry {
            note!("  stored as {} in {}", &entry[..entry.len().min(8)], self.store);
        }
    }
}

/// `NAME=VALUE …`.
pub fn assignments(values: &Values) -> String {
    let all: Vec<String> = values.iter().map(|(n, v)| format!("{n}={v}")).collect();
    all.join(" ")
}

/// A tuned kernel.
#[derive(Serialize)]
pub struct KernelReport {
    pub kernel: String,
    pub strategy: String,
    pub params: Values,
    pub sizes: BTreeMap<String, i64>,
    pub threads: usize,
    pub engine: String,
    pub median_s: f64,
    pub interval_s: Option<(f64, f64)>,
    /// With the strategy's own values.
    pub default_s: Option<f64>,
    pub check: Option<CheckReport>,
    /// Why it was not checked.
    pub unchecked: Option<String>,
    /// How the starting results differ from this problem.
    pub began_with: Vec<Vec<&'static str>>,
    pub processes: u64,
    #[serde(flatten)]
    pub search: SearchReport,
}

impl KernelReport {
    pub fn new(kernel: &str, t: &KernelTuned, threads: usize, engine: &str, store: &Path) -> KernelReport {
        KernelReport {
            kernel: kernel.to_string(),
            strategy: t.strategy.clone(),
            params: t.params.clone(),
            sizes: t.sizes.clone(),
            threads,
            engine: engine.to_string(),
            median_s: t.sample.cost.first(),
            interval_s: t.sample.interval,
            default_s: t.default,
            check: t.check.clone(),
            unchecked: t.unchecked.clone(),
            began_with: t.near.iter().map(|n| n.1.clone()).collect(),
            processes: t.processes,
            search: SearchReport::new(&t.found, t.space.space.size().to_string(), store),
        }
    }

    /// On standard error.
    pub fn show(&self) {
        let sizes: Vec<String> = self.sizes.iter().map(|(n, v)| format!("{n}={v}")).collect();
        note!(
            "{} {}: strategy {} with {}, engine {}, {} thread{}",
            self.kernel,
            sizes.join(" "),
            self.strategy,
            assignments(&self.params),
            self.engine,
            self.threads,
            if self.threads == 1 { "" } else { "s" }
        );
        let faster = self.default_s.map_or(String::new(), |d| {
            format!(", {:.2} × as fast as with the strategy's defaults", d / self.median_s)
        });
        note!("  {}{faster}", seconds(self.median_s));
        match (&self.check, &self.unchecked) {
            (Some(c), _) => note!("  {c}"),
            (None, Some(why)) => note!("  not verified: {why}"),
            (None, None) => {}
        }
        for differs in &self.began_with {
            note!("  started from a result for other {}", differs.join(", "));
        }
        self.search.show();
    }
}
