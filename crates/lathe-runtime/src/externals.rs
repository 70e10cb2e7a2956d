//! External functions of this process, by name: what an `extern` of a tree is bound to when a kernel is called.
//!
//! As for symbols of a linker, there is one function of a name in a process. Given before the kernels that call it are compiled, it
//! is called by them; else code is made of what it means, where it says so. A call looks its functions up, so that one
//! that is given anew is called from then on.

use crate::codes;
use lathe_abi::KernelFn;
use lathe_diagnostics::Diagnostic;
pub use lathe_engine::externals::called;
use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW};
use std::collections::BTreeMap;
use std::path::Path;
use std::sync::{PoisonError, RwLock};

/// What symbols of libraries begin with: without it, any function of the C library would be found, whatever it takes.
pub const PREFIX: &str = "lathe_";

#[derive(Default)]
struct Given {
    functions: BTreeMap<String, KernelFn>,
    /// The last one that was linked is asked first. They stay: kernels may be running in them.
    libraries: Vec<Library>,
}

static GIVEN: RwLock<Given> = RwLock::new(Given { functions: BTreeMap::new(), libraries: Vec::new() });

impl Given {
    fn find(&self, name: &str) -> Option<KernelFn> {
        let symbol = format!("{PREFIX}{name}");
        let linked = |library: &Library| {
            // SAFETY: `link` demands that such symbols are functions of this type.
            unsafe { library.get::<KernelFn>(symbol.as_bytes()) }.ok().map(|s| *s)
        };
        self.functions.get(name).copied().or_else(|| self.libraries.iter().rev().find_map(linked))
    }
}

fn read<T>(f: impl FnOnce(&Given) -> T) -> T {
    f(&GIVEN.read().unwrap_or_else(PoisonError::into_inner))
}

/// Gives the external function of a name; it takes the place of one that was given before, of libraries, too.
///
/// It has the interface of kernels: `args` has one descriptor per parameter, in order, scalars with rank 0; what it writes,
/// it writes there. 0 is success.
///
/// # Safety
/// The function stays as long as the process. It may be called from any thread, and from several at once; for
/// arguments of the types and ranks that trees declare for it, it does not access other memory than theirs, and does
/// not unwind.
pub unsafe fn give(name: &str, function: KernelFn) {
    let mut given = GIVEN.write().unwrap_or_else(PoisonError::into_inner);
    given.functions.insert(name.to_string(), function);
}

/// Loads a shared library, which is code of the user's own: its functions `lathe_NAME` are those of external functions
/// NAME, with the interface of [`give`] and under its conditions.
///
/// # Errors
/// `E0826` with the reason of the system.
pub fn link(library: &Path) -> Result<(), Diagnostic> {
    // A name without a folder would be looked for elsewhere.
    let path = std::path::absolute(library).unwrap_or_else(|_| library.to_path_buf());
    // SAFETY: the user's own code runs here, as it does in calls; that it may be run is what linking it says.
    let opened = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    let opened = opened.map_err(|e| {
        let text = format!("`{}` cannot be linked: {e}", library.display());
        Diagnostic::error(codes::NO_EXTERNAL, text)
            .help("a shared library (`cc -shared -fPIC`) of this machine")
    })?;
    GIVEN.write().unwrap_or_else(PoisonError::into_inner).libraries.push(opened);
    Ok(())
}

/// Whether there is an external function of that name.
pub fn given(name: &str) -> bool {
    read(|g| g.find(name).is_some())
}

/// The functions of a kernel's names, in their order.
///
/// # Errors
/// `E0826` with the first one that is not given.
pub(crate) fn table<'n>(
    kernel: &str,
    names: impl Iterator<Item = &'n str>,
) -> Result<Vec<KernelFn>, Diagnostic> {
    let mut names = names.peekable();
    if names.peek().is_none() {
        return Ok(Vec::new());
    }
    read(|g| {
        let found = names.map(|n| g.find(n).ok_or(n));
        found.collect::<Result<_, _>>().map_err(|name| {
            let text = format!("`{kernel}` calls the external function `{name}`, which is not given");
            Diagnostic::error(codes::NO_EXTERNAL, text).help(format!(
                "link a library that defines `{PREFIX}{name}` (`--link`, `lathe.link`), give a function (`lathe.external`), or write `meaning f` behind its effects"
            ))
        })
    })
}
