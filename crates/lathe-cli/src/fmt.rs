//! `lathe fmt`.

use crate::args::FmtArgs;
use crate::say;
use crate::{Outcome, Stop, render};
use lathe::{Diagnostic, SourceMap, codes};

/// Formats each file; one that cannot be read or parsed is reported and left as it is, and the others are done.
pub fn fmt(a: &FmtArgs) -> Outcome {
    let mut changed = String::new();
    let mut failed = false;
    for file in &a.files {
        let mut map = SourceMap::new();
        let done = match lathe::source::read(file) {
            Err(e) => {
                Err(vec![Diagnostic::error(codes::NO_FILE, format!("cannot read `{}`: {e}", file.display()))])
            }
            Ok(text) => {
                map.add(file.display().to_string(), text.as_str());
                let format =
                    if lathe::tree::is_tree(file) { lathe::text::format } else { lathe::lang::format };
                format(&text).and_then(|new| {
                    if new == text {
                        return Ok(());
                    }
                    changed += &format!("{}\n", file.display());
                    if a.check {
                        Ok(())
                    } else {
                        lathe::write_whole(file, new.as_bytes()).map_err(|d| vec![d])
                    }
                })
            }
        };
        if let Err(diagnostics) = done {
            render::print(&map, &diagnostics);
            failed = true;
        }
    }
    if a.check {
        say::text(&changed)?;
    }
    if failed || (a.check && !changed.is_empty()) { Err(Stop::Status(1)) } else { Ok(()) }
}
