//! `lathe explain` and `lathe --explain CODE`.

use crate::Outcome;
use crate::Stop;
use crate::args::ExplainArgs;
use crate::files::{Used, apart};
use crate::say::{self, note};
use crate::target::{self, Common};
use std::fmt::Write;
use std::path::{Path, PathBuf};

pub fn explain(a: &ExplainArgs, common: &Common) -> Outcome {
    let t = &a.target;
    let (program, kernel) = target::open(t)?;
    let how = target::how_unrun(t, &program, &kernel, true)?;
    if let Some(path) = &a.picture {
        let all = lathe::mdh::pictures(&program, &kernel, &how, &target::machine(&t.how)?)?;
        if all.is_empty() {
            return Err(nothing_to_draw(&program, &kernel, &how)?.into());
        }
        let all = named(path, all);
        let written: Vec<Used> = all.iter().map(|(_, f, _)| Used::new(f, "the picture")).collect();
        apart(&written, &target::read(&program, &t.how, &[]))?;
        for (compute, file, picture) in all {
            lathe::write_whole(&file, picture.as_bytes())?;
            note!("the decisions for {compute} are drawn in {}", file.display());
        }
    }
    let schedule = lathe::schedule(&program, &kernel, &how, &target::machine(&t.how)?)?;
    target::print_notes(&schedule);
    // Those that a file uses have no entry.
    let info = program.lang.kernels.iter().find(|k| k.name == *kernel.name);
    let doc = info.map_or("", |k| &k.doc);
    if common.json {
        return say::json(&lathe::explain_json(&kernel.name, doc, &schedule));
    }
    let mut out: String = doc.lines().map(|l| format!("# {l}\n")).collect();
    out += &lathe::explain(&schedule, a.diff);
    if common.time_passes {
        target::print_times(&schedule.times);
    }
    say::text(&out)
}

/// Why there is no picture, and what gives one.
fn nothing_to_draw(
    program: &lathe::Program,
    kernel: &lathe::Function,
    how: &lathe::How,
) -> Result<lathe::Diagnostic, crate::Stop> {
    let d = |text: &str| lathe::Diagnostic::error(lathe::codes::NO_PICTURE, text);
    if !lathe::mdh::has_computes(kernel) {
        return Ok(d("nothing is in index notation, so there are no decisions to draw"));
    }
    let decides = lathe::which::decides(program, kernel, how)?;
    Ok(match kernel.sizes.iter().find(|b| !how.sizes.contains_key(&*b.name)) {
        _ if !decides => d("the strategy takes no decisions").help("draw `--strategy auto`"),
        Some(b) => {
            d("decisions can only be drawn for given sizes").help(format!("give them: -D {}=1024", b.name))
        }
        None => d("the strategy takes no decisions here, so there is nothing to draw"),
    })
}

/// One picture per compute, with its file; where there are several, each file has its compute's name in its own.
fn named(path: &Path, all: Vec<(String, String)>) -> Vec<(String, PathBuf, String)> {
    let several = all.len() > 1;
    let file = |compute: &str| match several {
        true => path.with_extension(format!("{compute}.svg")),
        false => path.to_path_buf(),
    };
    all.into_iter().map(|(compute, picture)| (compute.clone(), file(&compute), picture)).collect()
}

/// Prints what a code means, with a wrong and a right program.
pub fn code(wanted: &str) -> Outcome {
    let Some(info) = lathe::all_codes().into_iter().find(|c| c.code.0.eq_ignore_ascii_case(wanted)) else {
        note!("there is no code `{wanted}`; docs/errors.md lists them all");
        return Err(Stop::Status(2));
    };
    let mut out = String::new();
    let _ = writeln!(out, "{}: {}\n\n{}", info.code, info.title, info.explanation);
    for (title, text) in [("Wrong", info.wrong), ("Right", info.right)] {
        if !text.is_empty() {
            let _ = writeln!(out, "\n{title}:\n");
            for line in text.lines() {
                let _ = writeln!(out, "    {line}");
            }
        }
    }
    say::text(&out)
}
