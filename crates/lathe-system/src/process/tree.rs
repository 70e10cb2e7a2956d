//! A process with all that it started, also where a part of it left the process group (`setsid`, daemons).
//!
//! Between this process and the program stands another one of ours, which inherits all orphans below it (Linux calls
//! it a sub-reaper) and stays until the last of them has ended. So everything that the program started, and nothing
//! else, is found below it. What the program itself ends with, it says through a pipe.

use super::limits::{Limits, apply, die_with};
use std::os::fd::{AsRawFd, OwnedFd, RawFd};
use std::os::unix::process::CommandExt;
use std::process::{Child, Command, ExitStatus};
use std::time::Duration;

/// Prepares a command: limits, a process group, and the process in between. The pipe tells the program's wait status.
pub(super) fn stand_between(command: &mut Command, limits: Limits) -> std::io::Result<OwnedFd> {
    let (tells, told) = rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)?;
    command.process_group(0);
    let parent = std::process::id() as libc::pid_t;
    // `told` is owned by the closure, and closed with the command.
    let before = move || {
        // SAFETY: between fork and exec, where only system calls are made.
        unsafe { split(parent, told.as_raw_fd(), limits) }
    };
    // SAFETY: the closure allocates nothing and takes no locks.
    unsafe { command.pre_exec(before) };
    Ok(tells)
}

/// Forks once more: the child returns and becomes the program; the parent waits, and never returns.
///
/// # Safety
/// Must be called between fork and exec.
unsafe fn split(parent: libc::pid_t, tell: RawFd, limits: Limits) -> std::io::Result<()> {
    // SAFETY: system calls that are allowed between fork and exec; the memory that they are given lives during them.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) != 0 {
            return Err(std::io::Error::last_os_error());
        }
        die_with(parent)?;
        let between = libc::getpid();
        match libc::fork() {
            -1 => Err(std::io::Error::last_os_error()),
            0 => {
                apply(limits)?;
                die_with(between)
            }
            program => wait(program, tell),
        }
    }
}

/// The process in between: waits for everything, tells how the program ended, and ends.
///
/// # Safety
/// As [`split`].
unsafe fn wait(program: libc::pid_t, tell: RawFd) -> ! {
    // SAFETY: as in `split`.
    unsafe {
        // Its copies of the program's pipes would keep these open.
        if tell != 0 {
            libc::dup2(tell, 0);
        }
        close_from(1);
        loop {
            let mut status: libc::c_int = 0;
            let ended = libc::waitpid(-1, &mut status, 0);
            if ended == program {
                let bytes = status.to_ne_bytes();
                libc::write(0, bytes.as_ptr().cast(), bytes.len());
            }
            if ended == -1 && std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) {
                libc::_exit(0);
            }
        }
    }
}

/// # Safety
/// Nothing of this process uses the files that are closed.
unsafe fn close_from(first: libc::c_uint) {
    // SAFETY: system calls without pointers.
    unsafe {
        #[cfg(target_os = "linux")]
        if libc::syscall(libc::SYS_close_range, first, libc::c_uint::MAX, 0) == 0 {
            return;
        }
        for fd in first..4096 {
            libc::close(fd as RawFd);
        }
    }
}

/// Ends a process with everything that it started, and waits for it.
///
/// # Errors
/// What the system says about waiting.
pub fn end(child: &mut Child) -> std::io::Result<ExitStatus> {
    if let Some(status) = child.try_wait()? {
        return Ok(status);
    }
    kill_below(child);
    // SAFETY: a plain system call. The child was not waited for yet, so the number is still its own.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    child.wait()
}

/// The same for a process that stands between: it ends by itself when nothing is left below it.
pub(super) fn end_below(child: &mut Child) -> std::io::Result<ExitStatus> {
    // What is ended while it starts another leaves that one to be found in the next round.
    for _ in 0..1000 {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        kill_below(child);
        std::thread::sleep(Duration::from_millis(1));
    }
    end(child)
}

fn kill_below(child: &Child) {
    for p in below(child.id() as i32) {
        // SAFETY: a plain system call. Its ancestor was not waited for, so the number is still its own.
        unsafe { libc::kill(p, libc::SIGKILL) };
    }
}

/// The processes below one, itself not included, that have not ended.
fn below(root: i32) -> Vec<i32> {
    let mut all: Vec<(i32, i32)> = Vec::new();
    for e in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
        let Some(pid) = e.file_name().to_str().and_then(|n| n.parse::<i32>().ok()) else { continue };
        let Ok(stat) = std::fs::read(e.path().join("stat")) else { continue };
        // The name stands in parentheses, and may hold any character.
        let Some(name) = stat.iter().rposition(|b| *b == b')') else { continue };
        let rest = String::from_utf8_lossy(&stat[name + 1..]).into_owned();
        let mut words = rest.split_whitespace();
        let (state, parent) = (words.next(), words.next().and_then(|w| w.parse().ok()));
        if let (Some(state), Some(parent)) = (state, parent)
            && !matches!(state, "Z" | "X")
        {
            all.push((pid, parent));
        }
    }
    let mut out = vec![root];
    let mut at = 0;
    while let Some(p) = out.get(at).copied() {
        out.extend(all.iter().filter(|a| a.1 == p).map(|a| a.0));
        at += 1;
    }
    out.remove(0);
    out
}
