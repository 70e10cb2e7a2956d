//! A process with all that it started, also where a part of it left the process group (`setsid`, daemons).
//!
//! Between this process and the program stands another one of ours, which inherits all orphans below it (Linux calls
//! it a sub-reaper) and stays until the last of them has ended. So everything that the program started, and nothing
//! else, is found below it. What the program itself ends with, it says through a pipe. If this process is killed, the
//! one in between ends everything below it and then itself.

use super::limits::{Limits, apply, die_with};
use rustix::process::{Pid, WaitId, WaitIdOptions, waitid};
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
/// The process in between takes no signals, so that neither a program that signals its whole group nor one that signals
/// its parent ends it. The death of the parent is told by a signal as well, which wakes it.
///
/// # Safety
/// Must be called between fork and exec.
unsafe fn split(parent: libc::pid_t, tell: RawFd, limits: Limits) -> std::io::Result<()> {
    // SAFETY: system calls that are allowed between fork and exec; the memory that they are given lives during them.
    unsafe {
        let mut all: libc::sigset_t = std::mem::zeroed();
        let mut usual: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &all, &mut usual);
        // Where they are ignored, nobody is told how children end.
        libc::signal(libc::SIGCHLD, libc::SIG_DFL);
        #[cfg(target_os = "linux")]
        if libc::prctl(libc::PR_SET_CHILD_SUBREAPER, 1) != 0
            || libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGTERM) != 0
        {
            return Err(std::io::Error::last_os_error());
        }
        let between = libc::getpid();
        match libc::fork() {
            -1 => Err(std::io::Error::last_os_error()),
            0 => {
                libc::sigprocmask(libc::SIG_SETMASK, &usual, std::ptr::null_mut());
                apply(limits)?;
                die_with(between)
            }
            program => wait(program, parent, tell),
        }
    }
}

/// The process in between: waits for everything, tells how the program ended, and ends. When its parent is gone, nobody
/// else can end what is below it, so it does.
///
/// # Safety
/// As [`split`].
unsafe fn wait(program: libc::pid_t, parent: libc::pid_t, tell: RawFd) -> ! {
    const LOOK: libc::c_int = if cfg!(target_os = "linux") { libc::WNOHANG } else { 0 };
    // SAFETY: as in `split`.
    unsafe {
        // Its copies of the program's pipes would keep these open.
        if tell != 0 {
            libc::dup2(tell, 0);
        }
        close_from(1);
        loop {
            let mut status: libc::c_int = 0;
            match libc::waitpid(-1, &mut status, LOOK) {
                0 if libc::getppid() == parent => wait_for_signal(),
                0 => {
                    end_children();
                    // What they started becomes a child when they end, which is not told.
                    libc::usleep(1000);
                }
                -1 if std::io::Error::last_os_error().raw_os_error() != Some(libc::EINTR) => libc::_exit(0),
                ended if ended == program => {
                    let bytes = status.to_ne_bytes();
                    libc::write(0, bytes.as_ptr().cast(), bytes.len());
                }
                _ => {}
            }
        }
    }
}

/// Sleeps until a child ends, or the parent.
///
/// # Safety
/// All signals are blocked.
unsafe fn wait_for_signal() {
    #[cfg(target_os = "linux")]
    // SAFETY: the set lives during the calls; nothing is written.
    unsafe {
        let mut wakes: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&mut wakes);
        libc::sigaddset(&mut wakes, libc::SIGCHLD);
        libc::sigaddset(&mut wakes, libc::SIGTERM);
        libc::sigwaitinfo(&wakes, std::ptr::null_mut());
    }
}

/// Ends the children of this process, as the system lists them: numbers, each followed by a blank.
///
/// # Safety
/// As [`split`]; this process has one thread.
unsafe fn end_children() {
    // SAFETY: system calls; the buffer lives during them. Children that were not waited for keep their numbers.
    unsafe {
        let list = libc::open(c"/proc/thread-self/children".as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if list < 0 {
            // Without such a list only the group is known, to which this process belongs.
            libc::kill(0, libc::SIGKILL);
        }
        let mut block = [0u8; 4096];
        let mut child: libc::pid_t = 0;
        loop {
            let n = libc::read(list, block.as_mut_ptr().cast(), block.len());
            let Some(read) = usize::try_from(n).ok().filter(|n| *n > 0).and_then(|n| block.get(..n)) else {
                break;
            };
            for byte in read {
                if byte.is_ascii_digit() {
                    child = child.wrapping_mul(10).wrapping_add(libc::pid_t::from(byte - b'0'));
                } else if child > 1 {
                    libc::kill(child, libc::SIGKILL);
                    child = 0;
                }
            }
        }
        libc::close(list);
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
    end_group(child)
}

/// The same for a process that was not waited for yet, and may have ended: what it left in its group ends, too.
pub(super) fn end_group(child: &mut Child) -> std::io::Result<ExitStatus> {
    let look = WaitIdOptions::EXITED | WaitIdOptions::NOWAIT | WaitIdOptions::NOHANG;
    let id = Pid::from_raw(child.id() as i32);
    if !id.is_some_and(|id| matches!(waitid(WaitId::Pid(id), look), Ok(Some(_)))) {
        kill_below(child);
    }
    // SAFETY: a plain system call. The child was not waited for yet, so the number is still its own.
    unsafe { libc::kill(-(child.id() as libc::pid_t), libc::SIGKILL) };
    child.wait()
}

/// The same for a process that is between: it ends by itself when nothing is left below it.
pub(super) fn end_below(child: &mut Child) -> std::io::Result<ExitStatus> {
    // What is ended while it starts another leaves that one to be found in the next round.
    for round in 0..1000 {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        // It follows its program at once where nothing is left.
        if round < 20 {
            std::thread::sleep(Duration::from_micros(100));
        } else {
            kill_below(child);
            std::thread::sleep(Duration::from_millis(1));
        }
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
        // The name is in parentheses, and may hold any character.
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
