//! `lathe tune --list`, `--show`, `--export`, `--import`, `--forget`.

use crate::Outcome;
use crate::args::TuneArgs;
use crate::say::{self, note};
use crate::target::Common;
use crate::tune_show::assignments;
use lathe::tune::Store;
use lathe::tune::store::{Entry, ExportedEntry, Outcome as Measured};
use lathe::{Diagnostic, codes};
use serde_json::json;
use std::path::Path;

pub fn manage(a: &TuneArgs, common: &Common) -> Outcome {
    let path = crate::tune_options::store(a)?;
    let m = &a.manage;
    // Only what writes makes a store where there is none.
    let reading = || -> Result<Store, crate::Stop> {
        match Store::open_to_read(&path)? {
            Some(s) => Ok(s),
            None => Ok(Store::open(&path)?),
        }
    };
    if m.list {
        return list(&reading()?.list()?, common);
    }
    if let Some(name) = &m.show {
        let (entry, all) = reading()?.show(name)?;
        return show(&entry, &all, common);
    }
    if let Some(file) = &m.export {
        let export = reading()?.export(None)?;
        if file == Path::new("-") {
            return say::json(&export);
        }
        let text = serde_json::to_string_pretty(&export)
            .map_err(|e| Diagnostic::error(codes::OUTPUT, format!("cannot print JSON: {e}")))?;
        lathe::write_whole(file, format!("{text}\n").as_bytes())?;
        return done("exported", export.entries.len(), "entries", common);
    }
    if let Some(file) = &m.import {
        let text = lathe::tune::read_packed(file)?;
        return done("imported", Store::open(&path)?.import(&text)?, "evaluations", common);
    }
    let name = m.forget.as_deref().filter(|n| *n != "all");
    let forgotten = match name {
        // A store that is not there is not made for this.
        None if !path.exists() => 0,
        Some(n) if !path.exists() => {
            let text = format!("there is no entry `{n}`: the store `{}` does not exist", path.display());
            return Err(Diagnostic::error(lathe::tune::store_codes::NO_ENTRY, text).into());
        }
        _ => Store::open(&path)?.forget(name)?,
    };
    done("forgot", forgotten, "entries", common)
}

fn done(what: &str, n: usize, of: &str, common: &Common) -> Outcome {
    if common.json {
        return say::json(&json!({ what: n }));
    }
    note!("{what} {n} {of}");
    Ok(())
}

fn list(entries: &[Entry], common: &Common) -> Outcome {
    if common.json {
        return say::json(&entries);
    }
    let mut out = String::new();
    for e in entries {
        out += &line(e);
        out.push('\n');
    }
    if entries.is_empty() {
        note!("the store is empty");
    }
    say::text(&out)
}

fn line(e: &Entry) -> String {
    let k = &e.key;
    let best = match &e.winner {
        Some(w) => {
            let costs: Vec<String> = w.measured.costs.iter().map(|c| format!("{c:.6e}")).collect();
            format!("{} with {}", costs.join(", "), assignments(&w.configuration))
        }
        None => "no winner".to_string(),
    };
    let strategy = if k.strategy.is_empty() { String::new() } else { format!(" {}", k.strategy) };
    let threads = if k.threads == 1 { "" } else { "s" };
    format!(
        "{}  {}{strategy} {} {} thread{threads}: {best} ({} configurations)",
        &e.digest[..8],
        k.program,
        assignments(&k.sizes),
        k.threads,
        e.evaluations
    )
}

fn show(e: &Entry, all: &ExportedEntry, common: &Common) -> Outcome {
    if common.json {
        return say::json(all);
    }
    let mut out = format!("{}\n  {}, {}\n", line(e), e.key.device.name, e.key.compiler);
    for s in &all.sessions {
        let stopped = s.stopped.as_deref().unwrap_or("not ended");
        out += &format!("search by {}, seed {}, {stopped}:\n", s.info.technique, s.info.seed);
        for v in &s.evaluations {
            let what = match &v.outcome {
                Measured::Measured(m) => {
                    let costs: Vec<String> = m.costs.iter().map(|c| format!("{c:.6e}")).collect();
                    format!("{} ({} runs)", costs.join(", "), m.runs)
                }
                Measured::Invalid(i) => format!("invalid: {i}"),
            };
            out += &format!(
                "  +{:.3} s  {}  {what}\n",
                (v.at - s.started) as f64 / 1e3,
                assignments(&v.configuration)
            );
        }
    }
    say::text(&out)
}
