//! What a measured process may take, and how it is ended.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicBool, Ordering};

/// Limits of a process that is measured.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Limits {
    /// Bytes of address space, of each process; `None`: the system's own limit.
    pub memory: Option<u64>,
}

/// Prepares a command: a process group of its own, so that everything it starts can be ended with it; the
/// memory limit; no core files; and death when its parent dies.
pub(super) fn confine(command: &mut Command, limits: Limits) {
    command.process_group(0);
    let parent = std::process::id();
    let before = move || {
        // Only calls that are allowed between fork and exec.
        if let Some(bytes) = limits.memory {
            set(libc::RLIMIT_AS, bytes)?;
        }
        set(libc::RLIMIT_CORE, 0)?;
        #[cfg(target_os = "linux")]
        {
            // SAFETY: plain system calls without pointers.
            let orphan = unsafe {
                libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL) != 0 || libc::getppid() as u32 != parent
            };
            if orphan {
                return Err(std::io::Error::last_os_error());
            }
        }
        Ok(())
    };
    // SAFETY: the closure allocates nothing and takes no locks.
    unsafe { command.pre_exec(before) };
}

fn set(what: libc::__rlimit_resource_t, bytes: u64) -> std::io::Result<()> {
    let limit = libc::rlimit { rlim_cur: bytes as libc::rlim_t, rlim_max: bytes as libc::rlim_t };
    // SAFETY: the structure lives during the call.
    if unsafe { libc::setrlimit(what, &limit) } == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// Ends a process with everything that it started, and waits for it.
pub(super) fn end(child: &mut Child) -> std::io::Result<std::process::ExitStatus> {
    if let Ok(group) = libc::pid_t::try_from(child.id()) {
        // SAFETY: a plain system call. The child was not waited for yet, so the number is still its own.
        unsafe { libc::kill(-group, libc::SIGKILL) };
    }
    child.wait()
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From now on Ctrl-C (and a request to terminate) only sets a flag; a second one ends the process as usual.
pub fn on_interrupt() {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
    }
    for signal in [libc::SIGINT, libc::SIGTERM] {
        // SAFETY: the handler only stores to an atomic; the structure is fully set before it is used.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
            action.sa_flags = libc::SA_RESETHAND | libc::SA_RESTART;
            libc::sigemptyset(&mut action.sa_mask);
            libc::sigaction(signal, &action, std::ptr::null_mut());
        }
    }
}

/// Runs `f` with Ctrl-C only setting the flag that [`interrupted`] reads; then it does again what it did before.
pub fn with_interrupts<R>(f: impl FnOnce() -> R) -> R {
    extern "C" fn note(_: libc::c_int) {
        INTERRUPTED.store(true, Ordering::SeqCst);
    }
    struct Restore(libc::sigaction);
    impl Drop for Restore {
        fn drop(&mut self) {
            // SAFETY: what `sigaction` gave for this signal.
            unsafe { libc::sigaction(libc::SIGINT, &self.0, std::ptr::null_mut()) };
            INTERRUPTED.store(false, Ordering::SeqCst);
        }
    }
    INTERRUPTED.store(false, Ordering::SeqCst);
    // SAFETY: as in `on_interrupt`.
    let _restore = unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        let mut old: libc::sigaction = std::mem::zeroed();
        action.sa_sigaction = note as extern "C" fn(libc::c_int) as usize;
        action.sa_flags = libc::SA_RESTART;
        libc::sigemptyset(&mut action.sa_mask);
        libc::sigaction(libc::SIGINT, &action, &mut old);
        Restore(old)
    };
    f()
}

/// Whether the user asked to stop since [`on_interrupt`] or [`with_interrupts`].
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::SeqCst)
}
