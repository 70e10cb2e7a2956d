//! `lathe fmt`.

use crate::args::FmtArgs;
use crate::{Outcome, Stop, render};
use lathe::{Diagnostic, Failure, SourceMap, codes};

pub fn fmt(a: &FmtArgs) -> Outcome {
    let mut changed = false;
    let mut failed = false;
    for file in &a.files {
        let text = std::fs::read_to_string(file).map_err(|e| {
            Failure::bare(Diagnostic::error(codes::NO_FILE, format!("cannot read `{}`: {e}", file.display())))
        })?;
        match lathe::lang::format(&text) {
            Err(diagnostics) => {
                let mut map = SourceMap::new();
                map.add(file.display().to_string(), text.as_str());
                render::print(&map, &diagnostics);
                failed = true;
            }
            Ok(new) if new != text => {
                changed = true;
                if a.check {
                    println!("{}", file.display());
                } else if let Err(e) = std::fs::write(file, new) {
                    let d =
                        Diagnostic::error(codes::OUTPUT, format!("cannot write `{}`: {e}", file.display()));
                    return Err(d.into());
                }
            }
            Ok(_) => {}
        }
    }
    if failed || (a.check && changed) { Err(Stop::Status(1)) } else { Ok(()) }
}
