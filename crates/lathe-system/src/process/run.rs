//! One run of a program under limits, and how it ended.

use super::limits::Limits;
use super::tree::{end_below, end_group, stand_between};
use crate::interrupt::interrupted;
use rustix::process::{WaitId, WaitIdOptions, waitid};
use std::io::Read;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
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
    /// Until the program itself ended, whatever it left behind.
    pub seconds: f64,
    /// The beginning of what it printed.
    pub output: String,
    /// It printed more than was kept.
    pub cut: bool,
    /// The beginning and the end of what it printed on standard error.
    pub errors: String,
}

/// How often a wait looks whether the user wants to stop.
pub const GLANCE: Duration = Duration::from_millis(50);

/// So long after a program has ended its output is waited for: what it left in the background may hold it open for ever.
const LINGER: Duration = Duration::from_millis(500);

impl Ended {
    pub fn of(status: ExitStatus) -> Ended {
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

/// Runs a command that is not trusted to its end, or to the end of its time; then ends everything that it left running,
/// also what left its process group. At most `output` bytes of what it prints are kept.
///
/// # Errors
/// What the system says about starting it.
pub fn run(mut command: Command, limits: Limits, time: Duration, output: u64) -> std::io::Result<Finished> {
    let told = stand_between(&mut command, limits)?;
    watch(command, time, output, end_below, move |_, tell| {
        std::thread::spawn(move || {
            let mut status = [0; 4];
            let mut from = std::fs::File::from(told);
            // Without a status the process in between was killed.
            let status = from.read_exact(&mut status).map_or(libc::SIGKILL, |()| i32::from_ne_bytes(status));
            let _ = tell.send(Event::Status(ExitStatus::from_raw(status), Instant::now()));
        });
    })
}

/// Runs a command that stays in its process group, such as a compiler. Costs less than [`run`], and is as safe in a
/// process with many threads as starting any program is.
///
/// # Errors
/// As [`run`].
pub fn run_trusted(mut command: Command, time: Duration) -> std::io::Result<Finished> {
    command.process_group(0);
    const OUTPUT: u64 = 1 << 20;
    watch(command, time, OUTPUT, end_group, |child, tell| {
        let id = rustix::process::Pid::from_raw(child.id() as i32);
        std::thread::spawn(move || {
            // It stays there to be collected.
            let options = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT;
            let ended = id.and_then(|id| waitid(WaitId::Pid(id), options).ok().flatten());
            let status = ended.map_or(libc::SIGKILL, |e| match (e.exit_status(), e.terminating_signal()) {
                (Some(code), _) => (code & 0xff) << 8,
                (None, signal) => signal.unwrap_or(libc::SIGKILL),
            });
            let _ = tell.send(Event::Status(ExitStatus::from_raw(status), Instant::now()));
        });
    })
}

/// What is heard of a process.
enum Event {
    /// How the program ended, and when.
    Status(ExitStatus, Instant),
    /// One of its two outputs is closed, by it and by all that it left running.
    Output(Vec<u8>, bool),
    Errors(Kept),
}

fn watch(
    mut command: Command,
    time: Duration,
    output: u64,
    end: fn(&mut Child) -> std::io::Result<ExitStatus>,
    listen: impl FnOnce(&Child, Sender<Event>),
) -> std::io::Result<Finished> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let start = Instant::now();
    let mut child = command.spawn()?;
    // It holds our copy of the pipe through which the status is told.
    drop(command);
    let (tell, events) = channel();
    listen(&child, tell.clone());
    if let Some(out) = child.stdout.take() {
        let tell = tell.clone();
        std::thread::spawn(move || {
            let (text, cut) = head(out, output);
            let _ = tell.send(Event::Output(text, cut));
        });
    }
    if let Some(err) = child.stderr.take() {
        std::thread::spawn(move || {
            let mut kept = Kept::default();
            kept.take_all(err);
            let _ = tell.send(Event::Errors(kept));
        });
    }
    let (mut status, mut printed, mut errors) = (None, None, None);
    let (ended, at) = loop {
        let left = match status {
            Some((s, at)) if printed.is_some() && errors.is_some() => break (Ended::of(s), at),
            Some((_, at)) => LINGER.saturating_sub(Instant::now().saturating_duration_since(at)),
            None => time.saturating_sub(start.elapsed()),
        };
        match events.recv_timeout(left.min(GLANCE)) {
            Ok(Event::Status(s, at)) => status = Some((s, at)),
            Ok(Event::Output(text, cut)) => printed = Some((text, cut)),
            Ok(Event::Errors(kept)) => errors = Some(kept),
            Err(_) if interrupted() => break (Ended::Interrupted, Instant::now()),
            Err(_) if left == Duration::ZERO => {
                break status.map_or((Ended::Timeout, Instant::now()), |(s, at)| (Ended::of(s), at));
            }
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    let seconds = at.saturating_duration_since(start).as_secs_f64();
    end(&mut child)?;
    // With all its processes gone, the pipes are closed.
    while printed.is_none() || errors.is_none() {
        match events.recv_timeout(Duration::from_secs(1)) {
            Ok(Event::Output(text, cut)) => printed = Some((text, cut)),
            Ok(Event::Errors(kept)) => errors = Some(kept),
            Ok(Event::Status(..)) => {}
            Err(_) => break,
        }
    }
    let (text, cut) = printed.unwrap_or_default();
    Ok(Finished {
        ended,
        seconds,
        output: String::from_utf8_lossy(&text).into_owned(),
        cut,
        errors: errors.unwrap_or_default().text(),
    })
}

/// The beginning of a stream; the rest is read and dropped, so that its writer never waits.
fn head(mut from: impl Read, most: u64) -> (Vec<u8>, bool) {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let (mut kept, mut cut) = (Vec::new(), false);
    let mut block = [0u8; 8192];
    while let Ok(n) = from.read(&mut block) {
        if n == 0 {
            break;
        }
        let room = most.saturating_sub(kept.len());
        cut |= n > room;
        kept.extend_from_slice(&block[..n.min(room)]);
    }
    (kept, cut)
}

/// The beginning and the end of a stream: where an error is first told, and what came of it.
#[derive(Clone, Debug, Default)]
pub struct Kept {
    first: Vec<u8>,
    last: Vec<u8>,
    /// Something between the two was dropped.
    cut: bool,
}

/// How much of the beginning, and of the end, is kept.
const PART: usize = 4096;

impl Kept {
    /// Reads a stream to its end.
    pub fn take_all(&mut self, mut from: impl Read) {
        let mut block = [0u8; 8192];
        while let Ok(n) = from.read(&mut block) {
            if n == 0 {
                return;
            }
            self.push(&block[..n]);
        }
    }

    pub fn push(&mut self, new: &[u8]) {
        let (first, rest) = new.split_at(new.len().min(PART - self.first.len()));
        self.first.extend_from_slice(first);
        self.last.extend_from_slice(rest);
        if self.last.len() > PART {
            self.last.drain(..self.last.len() - PART);
            self.cut = true;
        }
    }

    pub fn text(&self) -> String {
        if !self.cut {
            return String::from_utf8_lossy(&[&self.first[..], &self.last].concat()).into_owned();
        }
        format!("{}\n…\n{}", String::from_utf8_lossy(&self.first), String::from_utf8_lossy(&self.last))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const KEPT: u64 = 1 << 20;

    fn sh(text: &str, limits: Limits, ms: u64) -> Finished {
        let mut c = Command::new("sh");
        c.args(["-c", text]);
        run(c, limits, Duration::from_millis(ms), KEPT).unwrap()
    }

    fn trusted(text: &str, ms: u64) -> Finished {
        let mut c = Command::new("sh");
        c.args(["-c", text]);
        run_trusted(c, Duration::from_millis(ms)).unwrap()
    }

    #[test]
    fn how_processes_end() {
        for f in [
            sh("echo out; echo err >&2; exit 3", Limits::default(), 10_000),
            trusted("echo out; echo err >&2; exit 3", 10_000),
        ] {
            assert_eq!((f.ended, f.output.as_str(), f.errors.as_str()), (Ended::Status(3), "out\n", "err\n"));
        }
        assert_eq!(sh("true", Limits::default(), 10_000).ended, Ended::Well);
        for f in [sh("kill -SEGV $$", Limits::default(), 10_000), trusted("kill -SEGV $$", 10_000)] {
            assert_eq!(f.ended.text(), "segmentation fault (signal 11)");
        }
        let nowhere = || Command::new("/nowhere");
        assert!(run(nowhere(), Limits::default(), Duration::ZERO, KEPT).is_err());
        assert!(run_trusted(nowhere(), Duration::ZERO).is_err());
        assert_eq!(trusted("sleep 100", 100).ended, Ended::Timeout);
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
    #[cfg(target_os = "linux")]
    fn children_that_leave_the_group_end_too() {
        let dir = tempfile::tempdir().unwrap();
        let mark = |n: usize| dir.path().join(format!("mark{n}"));
        let escape = |n: usize| {
            format!("setsid sh -c '(sleep 1; touch {}) >/dev/null 2>&1 &' >/dev/null 2>&1", mark(n).display())
        };
        // At the time limit, and after an end in time; by a parent that waits, and by one that is gone.
        assert_eq!(sh(&format!("{}; sleep 100", escape(0)), Limits::default(), 300).ended, Ended::Timeout);
        assert_eq!(sh(&escape(1), Limits::default(), 10_000).ended, Ended::Well);
        assert_eq!(sh(&format!("{} & exit 4", escape(2)), Limits::default(), 10_000).ended, Ended::Status(4));
        std::thread::sleep(Duration::from_millis(1300));
        for n in 0..3 {
            assert!(!mark(n).exists(), "child {n} went on");
        }
    }

    #[test]
    fn what_is_left_in_the_background_takes_no_time() {
        // Its limit would be a minute, and the time of the program is not that of what holds its output open.
        for f in [
            sh("(sleep 100 &) ; echo done", Limits::default(), 60_000),
            trusted("sleep 100 & echo done", 60_000),
        ] {
            assert_eq!((&f.ended, f.output.as_str()), (&Ended::Well, "done\n"));
            assert!(f.seconds < 30.0, "{}", f.seconds);
        }
        // What was printed counts at the limit as well, and so does how it ended.
        let f = sh("sleep 100 & echo done; exit 3", Limits::default(), 300);
        assert_eq!((f.ended, f.output.as_str()), (Ended::Status(3), "done\n"));
        // Short work in the background is waited for, and is not part of the program's time.
        let f = sh("(sleep 0.1; echo late) &", Limits::default(), 20_000);
        assert_eq!((f.ended, f.output.as_str()), (Ended::Well, "late\n"));
    }

    #[test]
    fn a_program_that_signals_its_group_or_its_parent_harms_only_itself() {
        let f = sh("trap 'echo ended; exit 5' TERM; kill -TERM 0; sleep 100", Limits::default(), 20_000);
        assert_eq!((f.ended, f.output.as_str()), (Ended::Status(5), "ended\n"));
        let f = sh("kill -TERM $PPID; kill -HUP $PPID; echo on", Limits::default(), 20_000);
        assert_eq!((f.ended, f.output.as_str()), (Ended::Well, "on\n"));
    }

    #[test]
    fn endless_output_is_not_kept() {
        let f = sh("yes | head -c 3000000; yes err | head -c 100000 >&2", Limits::default(), 20_000);
        assert_eq!((f.ended, f.output.len(), f.cut), (Ended::Well, KEPT as usize, true));
        assert!(f.errors.len() <= 2 * PART + 8 && f.errors.contains("\n…\n"));
    }

    #[test]
    fn of_errors_the_beginning_and_the_end_are_kept() {
        let mut kept = Kept::default();
        kept.push(b"first\n");
        assert_eq!(kept.text(), "first\n");
        for _ in 0..PART {
            kept.push(b"between\n");
        }
        kept.push(b"last\n");
        let text = kept.text();
        assert!(text.starts_with("first\n") && text.ends_with("last\n") && text.len() < 3 * PART);
    }
}
