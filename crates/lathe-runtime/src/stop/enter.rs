//! How generated code is entered, and left at any instruction; and a word of each thread that a signal handler can read.

use super::Thread;

/// Enters generated code: `code(a, b, c)`. Before the call, the stack pointer is stored in the first word of `thread`, after
/// it that word is 0 again; whoever finds it set may continue at [`left`] with it as the stack pointer.
///
/// # Safety
/// That of the code.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[unsafe(naked)]
pub unsafe extern "C" fn enter(code: *const (), a: usize, b: usize, c: usize, thread: *const Thread) -> i32 {
    // What the callee keeps by the ABI (System V, 3.2.1), the control words of both units of floats, and the record.
    std::arch::naked_asm!(
        "push rbp",
        "push rbx",
        "push r12",
        "push r13",
        "push r14",
        "push r15",
        "sub rsp, 24",
        "stmxcsr [rsp]",
        "fnstcw [rsp + 4]",
        "mov [rsp + 8], r8",
        "mov rax, rdi",
        "mov rdi, rsi",
        "mov rsi, rdx",
        "mov rdx, rcx",
        "mov [r8], rsp",
        "call rax",
        "mov r8, [rsp + 8]",
        "mov qword ptr [r8], 0",
        "add rsp, 24",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
    )
}

/// Where code that was abandoned continues: returns from [`enter`] with the status of stopped calls.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[unsafe(naked)]
unsafe extern "C" fn left() {
    std::arch::naked_asm!(
        "mov r8, [rsp + 8]",
        "mov qword ptr [r8], 0",
        "ldmxcsr [rsp]",
        "fldcw [rsp + 4]",
        "mov eax, {stopped}",
        "add rsp, 24",
        "pop r15",
        "pop r14",
        "pop r13",
        "pop r12",
        "pop rbx",
        "pop rbp",
        "ret",
        stopped = const lathe_abi::status::STOPPED,
    )
}

/// Makes an interrupted thread continue at [`left`] when its signal handler returns.
///
/// # Safety
/// `context` is the one that the handler got, on a thread that runs generated code, which was entered with this stack
/// pointer.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub unsafe fn leave(context: *mut libc::c_void, resume: usize) {
    /// Set while strings are processed backwards; the ABI wants it clear.
    const DIRECTION: i64 = 1 << 10;
    // SAFETY: by the caller.
    let registers = unsafe { &mut (*context.cast::<libc::ucontext_t>()).uc_mcontext.gregs };
    registers[libc::REG_RSP as usize] = resume as i64;
    registers[libc::REG_RIP as usize] = left as *const () as i64;
    registers[libc::REG_EFL as usize] &= !DIRECTION;
}

// The word lies in the static block of thread-local storage: the usual way to a thread-local variable of a library may
// allocate and lock, which neither a signal handler nor code that may be abandoned should do.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
std::arch::global_asm!(
    ".pushsection .tbss.lathe_thread,\"awT\",@nobits",
    ".globl lathe_thread",
    ".hidden lathe_thread",
    ".type lathe_thread, @object",
    ".size lathe_thread, 8",
    ".balign 8",
    "lathe_thread:",
    ".zero 8",
    ".popsection",
);

/// The record of this thread, or null.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
#[inline]
pub fn record() -> *const Thread {
    let found: *const Thread;
    // SAFETY: reads a word of this thread, at its distance from the thread pointer.
    unsafe {
        std::arch::asm!(
            "mov {at}, qword ptr [rip + lathe_thread@GOTTPOFF]",
            "mov {at}, qword ptr fs:[{at}]",
            at = out(reg) found,
            options(nostack, preserves_flags, readonly),
        );
    }
    found
}

/// Sets what [`record`] gives.
#[cfg(all(target_arch = "x86_64", target_os = "linux"))]
pub fn set_record(record: *const Thread) {
    // SAFETY: writes that word.
    unsafe {
        std::arch::asm!(
            "mov {at}, qword ptr [rip + lathe_thread@GOTTPOFF]",
            "mov qword ptr fs:[{at}], {record}",
            at = out(reg) _,
            record = in(reg) record,
            options(nostack, preserves_flags),
        );
    }
}

#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
mod plain {
    use super::Thread;
    use std::cell::Cell;

    /// Enters generated code, which is not left before its end.
    ///
    /// # Safety
    /// That of the code.
    pub unsafe fn enter(code: *const (), a: usize, b: usize, c: usize, _: *const Thread) -> i32 {
        // SAFETY: by the caller; the ABI passes unused arguments in registers that are not looked at.
        unsafe { std::mem::transmute::<*const (), extern "C" fn(usize, usize, usize) -> i32>(code)(a, b, c) }
    }

    /// Never called: no thread has a stack pointer to continue with.
    ///
    /// # Safety
    /// None needed.
    pub unsafe fn leave(_: *mut libc::c_void, _: usize) {}

    thread_local! {
        static RECORD: Cell<*const Thread> = const { Cell::new(std::ptr::null()) };
    }

    pub fn record() -> *const Thread {
        RECORD.try_with(Cell::get).unwrap_or(std::ptr::null())
    }

    pub fn set_record(record: *const Thread) {
        let _ = RECORD.try_with(|r| r.set(record));
    }
}
#[cfg(not(all(target_arch = "x86_64", target_os = "linux")))]
pub use plain::{enter, leave, record, set_record};
