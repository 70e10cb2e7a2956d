//! What a process may take.

use std::os::unix::process::CommandExt;
use std::process::Command;

/// Limits of a process that is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of address space, of each process; `None`: the system's own limit.
    pub memory: Option<u64>,
}

/// Prepares a command: a process group of its own, so that everything it starts can be ended with it; the
/// memory limit; no core files; and death when its parent dies.
pub fn confine(command: &mut Command, limits: Limits) {
    command.process_group(0);
    let parent = std::process::id();
    let before = move || {
        // Only calls that are allowed between fork and exec.
        apply(limits)?;
        // SAFETY: plain system calls without pointers.
        unsafe { die_with(parent as libc::pid_t) }
    };
    // SAFETY: the closure allocates nothing and takes no locks.
    unsafe { command.pre_exec(before) };
}

/// Sets the limits of this process.
pub(super) fn apply(limits: Limits) -> std::io::Result<()> {
    if let Some(bytes) = limits.memory {
        set(libc::RLIMIT_AS, bytes)?;
    }
    set(libc::RLIMIT_CORE, 0)
}

/// From now on this process dies when its parent does, which must be `parent` still.
///
/// # Safety
/// Nothing is asked of the caller; it is one of those calls that are made between fork and exec.
pub(super) unsafe fn die_with(parent: libc::pid_t) -> std::io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        // SAFETY: plain system calls without pointers.
        let orphan =
            unsafe { libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::getppid() != parent };
        if orphan {
            return Err(std::io::Error::last_os_error());
        }
    }
    let _ = parent;
    Ok(())
}

fn set(what: libc::__rlimit_resource_t, bytes: u64) -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes as libc::rlim_t, rlim_max: bytes as libc::rlim_t };
    // SAFETY: the structure lives during the call.
    if unsafe { libc::setrlimit(what, &limit) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}
