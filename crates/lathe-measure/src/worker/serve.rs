//! The child's side, and the messages of both.

use lathe_diagnostics::Diagnostic;
use lathe_tune::Invalid;
use serde::{Deserialize, Serialize};
use serde_json::Value as Json;
use std::io::{BufRead, Write};

/// From parent to child; number 0 says what to work on.
#[derive(Debug, Serialize, Deserialize)]
pub(super) struct Message {
    pub id: u64,
    pub body: Json,
}

/// From child to parent.
#[derive(Debug, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Reply {
    /// Compiling is over.
    Running {
        id: u64,
    },
    Done {
        id: u64,
        body: Json,
    },
    Invalid {
        id: u64,
        reason: Invalid,
    },
    /// The child cannot work on what it was given.
    Refused {
        message: String,
        help: Option<String>,
    },
}

pub(super) fn write(to: &mut impl Write, message: &impl Serialize) -> std::io::Result<()> {
    let mut line = serde_json::to_vec(message)?;
    line.push(b'\n');
    to.write_all(&line)?;
    to.flush()
}

/// Answers a parent until it closes the pipe. `start` gets what to work on; `measure` gets each question, and a
/// function to call when compiling is over and running begins.
///
/// # Errors
/// When a pipe breaks.
pub fn serve<S>(
    input: impl BufRead,
    mut output: impl Write,
    start: impl FnOnce(Json) -> Result<S, Diagnostic>,
    mut measure: impl FnMut(&mut S, Json, &mut dyn FnMut()) -> Result<Json, Invalid>,
) -> std::io::Result<()> {
    let mut lines = input.lines();
    let Some(first) = lines.next().transpose()? else { return Ok(()) };
    let refused = |message: String, help| Reply::Refused { message, help };
    let setup: Message = match serde_json::from_str(&first) {
        Ok(m) => m,
        Err(e) => return write(&mut output, &refused(format!("no message to a worker: {e}"), None)),
    };
    let mut state = match start(setup.body) {
        Ok(s) => s,
        Err(d) => return write(&mut output, &refused(d.message, d.help)),
    };
    write(&mut output, &Reply::Done { id: setup.id, body: Json::Null })?;
    for line in lines {
        let line = line?;
        let Message { id, body } = match serde_json::from_str(&line) {
            Ok(m) => m,
            Err(e) => return write(&mut output, &refused(format!("no message to a worker: {e}"), None)),
        };
        let mut broken = None;
        let mut running = || broken = write(&mut output, &Reply::Running { id }).err();
        let answer = measure(&mut state, body, &mut running);
        if let Some(e) = broken {
            return Err(e);
        }
        match answer {
            Ok(body) => write(&mut output, &Reply::Done { id, body })?,
            Err(reason) => write(&mut output, &Reply::Invalid { id, reason })?,
        }
    }
    Ok(())
}
