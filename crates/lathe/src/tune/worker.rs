//! The measuring process: of a kernel with its strategy, or of one whose source is in a device's language.

use super::sources;
use super::work::Work;
use lathe_diagnostics::Diagnostic;
use lathe_measure::worker::serve;
use serde_json::Value as Json;

/// Answers the tuner on standard input and output until it closes them: the hidden command of `lathe`.
///
/// # Errors
/// When a pipe breaks.
pub fn work() -> std::io::Result<()> {
    let (input, output) = (std::io::stdin().lock(), std::io::stdout().lock());
    serve(input, output, Any::start, |work, question, running| match work {
        Any::Kernel(work) => work.answer(question, running),
        Any::Source(work) => work.answer(question, running),
    })
}

/// A kernel with its strategy, or one whose source is in a device's language.
enum Any {
    Kernel(Box<Work>),
    Source(Box<sources::Work>),
}

impl Any {
    fn start(setup: Json) -> Result<Any, Diagnostic> {
        Ok(match sources::Setup::of(&setup) {
            Some(setup) => Any::Source(Box::new(sources::Work::start(setup)?)),
            None => Any::Kernel(Box::new(Work::start(setup)?)),
        })
    }
}
