//! The parent's side: a child that is kept, asked, and restarted when it is lost.

use super::serve::{Message, Reply};
use super::{Fault, out_of_memory, serve};
use crate::codes;
use lathe_diagnostics::Diagnostic;
use lathe_system::interrupt::interrupted;
use lathe_system::process::{Ended, GLANCE, Kept, Limits, confine, end};
use lathe_tune::{Invalid, Why};
use serde_json::Value as Json;
use std::ffi::OsString;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

/// How a child is started.
#[derive(Clone, Debug)]
pub struct Spec {
    /// The program and its arguments; it must call [`serve`].
    pub program: OsString,
    pub arguments: Vec<OsString>,
    /// Sent to each new child: what it works on.
    pub setup: Json,
    pub limits: Limits,
    /// How long a child may take to get ready.
    pub starting: Duration,
}

/// How long an answer may take.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Patience {
    /// Until the child says that it begins to run what it compiled.
    pub compile: Duration,
    /// From then on.
    pub run: Duration,
}

impl Patience {
    /// Limits from the best time so far: measuring takes at most `time` and a few runs, of which none is
    /// worth waiting for beyond ten times the best. Without a best, `first`.
    pub fn from_best(best: Option<f64>, time: Duration, first: Duration) -> Patience {
        const COMPILE: Duration = Duration::from_secs(60);
        let run = match best {
            Some(b) => Duration::try_from_secs_f64(10.0 * b.max(0.0)).unwrap_or(first).min(first),
            None => first,
        };
        Patience { compile: COMPILE.min(first.max(Duration::from_secs(10))), run: run + 2 * time + GRACE }
    }
}

/// What a busy machine may add.
const GRACE: Duration = Duration::from_millis(500);

/// What [`Worker::ask`] needs beyond the question.
pub type Ask<'a> = &'a Json;

/// A child that measures. It is started when it is first asked, and ended when this is dropped.
#[derive(Debug)]
pub struct Worker {
    spec: Spec,
    running: Option<Running>,
    asked: u64,
    starts: u64,
}

#[derive(Debug)]
struct Running {
    child: Child,
    input: ChildStdin,
    lines: Receiver<String>,
    errors: Arc<Mutex<Kept>>,
}

impl Worker {
    pub fn new(spec: Spec) -> Worker {
        Worker { spec, running: None, asked: 0, starts: 0 }
    }

    /// How many children there were so far.
    pub fn starts(&self) -> u64 {
        self.starts
    }

    /// Starts a child, if there is none, and waits until it is ready.
    ///
    /// # Errors
    /// `E1080` if it cannot be started; the child's own diagnostic if it refuses its work.
    pub fn start(&mut self) -> Result<(), Fault> {
        if self.running.is_some() {
            return Ok(());
        }
        let broken = |text: String| Fault::Fatal(Diagnostic::error(codes::WORKER, text));
        let name = self.spec.program.to_string_lossy().into_owned();
        let mut command = Command::new(&self.spec.program);
        // What is kept of a crash is its last words, not where they came from.
        command.args(&self.spec.arguments).env("RUST_BACKTRACE", "0");
        confine(&mut command, self.spec.limits);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|e| broken(format!("the worker `{name}` cannot be started: {e}")))?;
        self.starts += 1;
        let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        let (Some(input), Some(output), Some(errors)) = pipes else {
            let _ = end(&mut child);
            return Err(broken(format!("the worker `{name}` has no pipes")));
        };
        let (send, lines) = channel();
        std::thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if send.send(line).is_err() {
                    break;
                }
            }
        });
        let tail = Arc::new(Mutex::new(Kept::default()));
        let kept = Arc::clone(&tail);
        std::thread::spawn(move || collect(errors, &kept));
        self.running = Some(Running { child, input, lines, errors: tail });
        let setup = Message { id: 0, body: self.spec.setup.clone() };
        let patience = Patience { compile: self.spec.starting, run: self.spec.starting };
        let ready = self.send(&setup).and_then(|()| self.answer(setup.id, patience));
        match ready {
            Ok(_) => Ok(()),
            Err(Fault::Invalid(i)) => {
                self.stop();
                Err(broken(format!("the worker did not become ready: {}", i.message)))
            }
            Err(other) => {
                self.stop();
                Err(other)
            }
        }
    }

    /// Asks the child, which is started if need be. A child that crashes, or does not answer in time, is
    /// lost, and the next question starts another.
    ///
    /// # Errors
    /// [`Fault::Invalid`] with what went wrong; [`Fault::Fatal`] if there is no child to be had.
    pub fn ask(&mut self, question: Ask, patience: Patience) -> Result<Json, Fault> {
        self.start()?;
        self.asked += 1;
        let message = Message { id: self.asked, body: question.clone() };
        if self.send(&message).is_err() {
            // It died between two questions, which says nothing about this one.
            self.stop();
            self.start()?;
            self.send(&message)?;
        }
        self.answer(message.id, patience)
    }

    /// Ends the child.
    pub fn stop(&mut self) {
        if let Some(mut r) = self.running.take() {
            let _ = end(&mut r.child);
        }
    }

    fn send(&mut self, message: &Message) -> Result<(), Fault> {
        let sent = match &mut self.running {
            Some(r) => serve::write(&mut r.input, message).map_err(|e| e.to_string()),
            None => Err("it was not started".to_string()),
        };
        sent.map_err(|e| Diagnostic::error(codes::WORKER, format!("the worker has ended: {e}")).into())
    }

    fn answer(&mut self, wanted: u64, patience: Patience) -> Result<Json, Fault> {
        let (mut limit, mut start, mut phase) = (patience.compile, Instant::now(), "compiling");
        loop {
            let left = limit.saturating_sub(start.elapsed());
            let Some(running) = &mut self.running else {
                return Err(Diagnostic::error(codes::WORKER, "there is no worker").into());
            };
            match running.lines.recv_timeout(left.min(GLANCE)) {
                Ok(line) => match serde_json::from_str::<Reply>(&line) {
                    Ok(Reply::Running { id }) if id == wanted => {
                        (limit, start, phase) = (patience.run, Instant::now(), "running");
                    }
                    Ok(Reply::Done { id, body }) if id == wanted => return Ok(body),
                    Ok(Reply::Invalid { id, reason }) if id == wanted => {
                        return Err(Fault::Invalid(reason));
                    }
                    Ok(Reply::Refused { message, help }) => {
                        let d = Diagnostic::error(codes::WORKER, message);
                        return Err(Fault::Fatal(match help {
                            Some(h) => d.help(h),
                            None => d,
                        }));
                    }
                    // What the measured program prints is none of ours.
                    _ => {}
                },
                Err(RecvTimeoutError::Timeout) if interrupted() => {
                    self.stop();
                    return Err(Fault::Interrupted);
                }
                Err(RecvTimeoutError::Timeout) if left == Duration::ZERO => {
                    self.stop();
                    let text = format!("{phase} took longer than {:.1} s", limit.as_secs_f64());
                    return Err(Invalid::new(Why::Timeout, text).into());
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    let (ended, errors) = self.lost();
                    let (why, text) = if out_of_memory(&ended, &errors) {
                        (Why::Memory, "out of memory")
                    } else {
                        (Why::Runtime, "the process ended")
                    };
                    let text = format!("{text} while {phase}: {}{}", ended.text(), last_words(&errors));
                    return Err(Invalid::new(why, text).into());
                }
            }
        }
    }

    /// Collects a child that is gone: how it ended, and the end of what it complained about.
    fn lost(&mut self) -> (Ended, String) {
        let Some(mut r) = self.running.take() else { return (Ended::Well, String::new()) };
        let ended = wait_briefly(&mut r.child);
        let kept = r.errors.lock().map(|e| e.text()).unwrap_or_default();
        (ended, kept)
    }
}

/// The last line that says something, after a colon.
fn last_words(errors: &str) -> String {
    let said = |l: &&str| !l.trim().is_empty() && !l.starts_with("note:");
    errors.lines().rev().find(said).map_or(String::new(), |l| format!(": {}", l.trim()))
}

impl Drop for Worker {
    fn drop(&mut self) {
        self.stop();
    }
}

/// A child whose output is closed is about to end by itself; its own status says more than a kill's.
fn wait_briefly(child: &mut Child) -> Ended {
    let start = Instant::now();
    while start.elapsed() < Duration::from_millis(500) {
        match child.try_wait() {
            Ok(Some(status)) => return Ended::of(status),
            Ok(None) => std::thread::sleep(Duration::from_millis(1)),
            Err(_) => break,
        }
    }
    end(child).map_or(Ended::Signal(0), Ended::of)
}

fn collect(mut from: impl Read, to: &Mutex<Kept>) {
    let mut block = [0u8; 1024];
    while let Ok(n) = from.read(&mut block) {
        let Ok(mut kept) = to.lock() else { return };
        if n == 0 {
            return;
        }
        kept.push(&block[..n]);
    }
}
