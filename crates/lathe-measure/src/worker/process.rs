//! One run of a program under limits, and how it ended.

use super::limits::{Limits, confine, end, interrupted};
use std::io::Read;
use std::os::unix::process::ExitStatusExt;
use std::process::{Command, ExitStatus, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

/// How a process ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Ended {
    Well,
    /// With this exit status.
    Status(i32),
    /// By this signal.
    Signal(i32),
    /// It was ended when its time was over.
    Timeout,
    /// It was ended because the user wants to stop.
    Interrupted,
}

/// What is left of a process.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    pub ended: Ended,
    pub seconds: f64,
    /// The beginning of what it printed.
    pub output: String,
    /// The end of what it printed on standard error.
    pub errors: String,
}

/// How much of an output is kept.
const KEPT: usize = 1 << 20;

/// How much of a standard error is kept.
pub(super) const TAIL: usize = 4096;

/// How often a wait looks whether the user wants to stop.
pub(super) const GLANCE: Duration = Duration::from_millis(50);

impl Ended {
    pub(super) fn of(status: ExitStatus) -> Ended {
        match (status.code(), status.signal()) {
            (Some(0), _) => Ended::Well,
            (Some(n), _) => Ended::Status(n),
            (None, s) => Ended::Signal(s.unwrap_or(0)),
        }
    }

    /// For messages: `exit status 3`, `segmentation fault`.
    pub fn text(&self) -> String {
        match self {
            Ended::Well => "ended".to_string(),
            Ended::Status(n) => format!("exit status {n}"),
            Ended::Signal(n) => match signal_name(*n) {
                Some(name) => format!("{name} (signal {n})"),
                None => format!("signal {n}"),
            },
            Ended::Timeout => "out of time".to_string(),
            Ended::Interrupted => "interrupted".to_string(),
        }
    }
}

fn signal_name(n: i32) -> Option<&'static str> {
    Some(match n {
        libc::SIGSEGV => "segmentation fault",
        libc::SIGABRT => "aborted",
        libc::SIGILL => "illegal instruction",
        libc::SIGBUS => "bus error",
        libc::SIGFPE => "arithmetic error",
        libc::SIGKILL => "killed",
        libc::SIGTERM => "terminated",
        libc::SIGXCPU => "out of processor time",
        _ => return None,
    })
}

/// Whether what a process left behind says that memory ran out.
pub(crate) fn out_of_memory(ended: &Ended, errors: &str) -> bool {
    const SAID: [&str; 8] = [
        "memory allocation of",
        "out of memory",
        "Out of memory",
        "Cannot allocate memory",
        "std::bad_alloc",
        "MemoryError",
        "memory exhausted",
        "failed to map segment",
    ];
    // A kill that was not ours is the system's, when it has no memory left.
    *ended == Ended::Signal(libc::SIGKILL) || SAID.iter().any(|s| errors.contains(s))
}

/// Runs a command to its end, or to the end of its time. An error means that it could not be started.
///
/// # Errors
/// What the system says about starting it.
pub fn run(command: &mut Command, limits: Limits, time: Duration) -> std::io::Result<Finished> {
    confine(command, limits);
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    let (done, wait) = mpsc::channel::<()>();
    let mut readers = Vec::new();
    if let Some(out) = child.stdout.take() {
        let done = done.clone();
        readers.push(std::thread::spawn(move || {
            let text = head(out);
            drop(done);
            text
        }));
    }
    if let Some(err) = child.stderr.take() {
        readers.push(std::thread::spawn(move || {
            let text = tail(err);
            drop(done);
            text
        }));
    }
    // Both pipes are closed when the process, and whatever it left running, has ended.
    let ended = loop {
        let left = time.saturating_sub(start.elapsed());
        let closed = wait.recv_timeout(left.min(GLANCE)) == Err(mpsc::RecvTimeoutError::Disconnected);
        if closed && let Some(status) = child.try_wait()? {
            break Ended::of(status);
        }
        if closed && left > Duration::ZERO {
            // It closed its pipes but still runs.
            std::thread::sleep(Duration::from_millis(1).min(left));
        }
        if interrupted() {
            end(&mut child)?;
            break Ended::Interrupted;
        }
        if left == Duration::ZERO {
            // What ran in time but left something behind in the background was still in time.
            let status = child.try_wait()?;
            end(&mut child)?;
            break status.map_or(Ended::Timeout, Ended::of);
        }
    };
    let seconds = start.elapsed().as_secs_f64();
    let mut texts = readers.into_iter().map(|r| r.join().unwrap_or_default());
    let (output, errors) = (texts.next().unwrap_or_default(), texts.next().unwrap_or_default());
    Ok(Finished { ended, seconds, output, errors })
}

/// The beginning of a stream; the rest is read and dropped, so that its writer never waits.
fn head(mut from: impl Read) -> String {
    let mut kept = Vec::new();
    let mut block = [0u8; 8192];
    while let Ok(n) = from.read(&mut block) {
        if n == 0 {
            break;
        }
        kept.extend_from_slice(&block[..n.min(KEPT.saturating_sub(kept.len()))]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// The end of a stream.
fn tail(mut from: impl Read) -> String {
    let mut kept = Vec::new();
    let mut block = [0u8; 8192];
    while let Ok(n) = from.read(&mut block) {
        if n == 0 {
            break;
        }
        keep_tail(&mut kept, &block[..n]);
    }
    String::from_utf8_lossy(&kept).into_owned()
}

/// Appends, and drops what lies more than [`TAIL`] bytes back.
pub(super) fn keep_tail(kept: &mut Vec<u8>, new: &[u8]) {
    kept.extend_from_slice(new);
    if kept.len() > TAIL {
        kept.drain(..kept.len() - TAIL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(text: &str, limits: Limits, ms: u64) -> Finished {
        let mut c = Command::new("sh");
        c.args(["-c", text]);
        run(&mut c, limits, Duration::from_millis(ms)).unwrap()
    }

    #[test]
    fn how_processes_end() {
        let f = sh("echo out; echo err >&2; exit 3", Limits::default(), 10_000);
        assert_eq!((f.ended, f.output.as_str(), f.errors.as_str()), (Ended::Status(3), "out\n", "err\n"));
        assert_eq!(sh("true", Limits::default(), 10_000).ended, Ended::Well);
        let f = sh("kill -SEGV $$", Limits::default(), 10_000);
        assert_eq!(f.ended.text(), "segmentation fault (signal 11)");
        assert!(run(&mut Command::new("/nowhere"), Limits::default(), Duration::ZERO).is_err());
    }

    #[test]
    fn a_process_that_hangs_is_ended_with_its_children() {
        let dir = tempfile::tempdir().unwrap();
        let mark = dir.path().join("mark");
        let text = format!("(sleep 1; touch {}) & sleep 100", mark.display());
        assert_eq!(sh(&text, Limits::default(), 100).ended, Ended::Timeout);
        // Closing its pipes does not help it.
        assert_eq!(sh("exec >&- 2>&-; sleep 100", Limits::default(), 100).ended, Ended::Timeout);
        std::thread::sleep(Duration::from_millis(1100));
        assert!(!mark.exists(), "the child in the background went on");
    }

    #[test]
    fn endless_output_is_not_kept() {
        let f = sh("yes | head -c 3000000; yes err | head -c 100000 >&2", Limits::default(), 20_000);
        assert_eq!((f.ended, f.output.len()), (Ended::Well, KEPT));
        assert!(f.errors.len() <= TAIL && f.errors.ends_with("err\n"));
    }

    #[test]
    fn a_process_that_eats_memory_is_ended() {
        let eat = "dd if=/dev/zero of=/dev/null bs=1G count=1";
        let f = sh(eat, Limits { memory: Some(256 << 20) }, 20_000);
        assert!(f.ended != Ended::Timeout && f.ended != Ended::Well, "{f:?}");
        assert!(out_of_memory(&f.ended, &f.errors), "{f:?}");
    }
}
