//! Code that is made when the first call takes it. Of several versions of a kernel most processes call one or two, and to compile
//! one takes as long as to choose it.

use crate::codes;
use crate::parallel::STACK;
use lathe_diagnostics::Diagnostic;
use lathe_runtime::Kernel;
use std::sync::OnceLock;

/// Makes the code of a version.
pub(crate) type Make = Box<dyn Fn() -> Result<Kernel, Diagnostic> + Send + Sync>;

/// The code of a version, now or later; who needs what another thread makes waits for it.
pub(crate) struct Late {
    made: OnceLock<Result<Kernel, Diagnostic>>,
    make: Option<Make>,
}

impl From<Kernel> for Late {
    fn from(kernel: Kernel) -> Late {
        Late { made: OnceLock::from(Ok(kernel)), make: None }
    }
}

impl Late {
    pub fn by(make: Make) -> Late {
        Late { made: OnceLock::new(), make: Some(make) }
    }

    /// The code, if it is there.
    pub fn made(&self) -> Option<&Kernel> {
        self.made.get()?.as_ref().ok()
    }

    /// The code, made now if it is not there.
    ///
    /// # Errors
    /// What the engine does not take, or lacks: the same at each call.
    #[inline]
    pub fn get(&self) -> Result<&Kernel, Diagnostic> {
        let made = match self.made.get() {
            Some(made) => made,
            None => self.made.get_or_init(|| self.make()),
        };
        made.as_ref().map_err(Clone::clone)
    }

    /// Trees are walked by recursion, and callers come with stacks of any size.
    #[cold]
    fn make(&self) -> Result<Kernel, Diagnostic> {
        let failed = |why: String| Diagnostic::error(codes::UNAVAILABLE, why);
        let make = self.make.as_ref().ok_or_else(|| failed("code that nobody makes".to_string()))?;
        std::thread::scope(|scope| {
            let thread = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, make);
            match thread {
                Ok(t) => t.join().unwrap_or_else(|p| std::panic::resume_unwind(p)),
                Err(e) => Err(failed(format!("no thread for the compiler: {e}"))),
            }
        })
    }
}
