//! Objects of devices: the tree as text, and what the device's compiler made of its kernels.

use lathe_device::Limits;
use lathe_diagnostics::Diagnostic;
use lathe_engine::{Entry, Object, check_table, codes, needs, printed};
use lathe_ir::text::print_module;
use lathe_ir::{Function, Module};
use lathe_source::device::{DeviceSource, Language, print, race};
use std::time::{Duration, Instant};

/// The bytes of an object.
pub fn pack(module: &Module, func: &Function, code: &[u8]) -> Vec<u8> {
    let mut module = module.clone();
    module.functions.insert(func.name.clone(), func.clone());
    let text = print_module(&module);
    let mut out = (text.len() as u64).to_le_bytes().to_vec();
    out.extend(text.as_bytes());
    out.extend(code);
    out
}

/// What an object holds.
pub struct Unpacked {
    pub func: Function,
    pub entry: Entry,
    pub source: DeviceSource,
    pub code: Vec<u8>,
}

/// Reads an object again; the source is printed again, which gives the same text for the same tree.
///
/// `limits` are those that it was printed for.
///
/// # Errors
/// `E0705` for bytes of another kind.
pub fn unpack(object: &Object, language: Language, limits: Limits) -> Result<Unpacked, Diagnostic> {
    let refuse = |why: &str| Diagnostic::error(codes::OBJECT, format!("loading `{}`: {why}", object.symbol));
    let (length, rest) = object.bytes.split_at_checked(8).ok_or_else(|| refuse("it is too short"))?;
    let length = length.try_into().map(u64::from_le_bytes).unwrap_or(u64::MAX);
    let length = usize::try_from(length).map_err(|_| refuse("it is cut"))?;
    let (text, code) = rest.split_at_checked(length).ok_or_else(|| refuse("it is cut"))?;
    let text = std::str::from_utf8(text).map_err(|_| refuse("it contains no text"))?;
    let module = printed::parse(text).map_err(|_| refuse("the text is not a tree"))?;
    let func =
        module.functions.get(object.symbol.as_str()).ok_or_else(|| refuse("it has no such function"))?;
    let table = check_table(&module, func).map_err(|d| printed::unplaced(needs::free_size(d)))?;
    // That it has no race was asked when it was made.
    let source = print(&module, func, language, limits).map_err(printed::unplaced)?;
    let entry = Entry::of(&table, func);
    Ok(Unpacked { func: func.clone(), entry, source, code: code.to_vec() })
}

/// Bytes of the stack of the thread that runs a compiler: they call themselves.
const STACK: usize = 64 << 20;

/// What a compiler makes of a source, while this thread asks whether its kernels have a race; and how long each took.
///
/// # Errors
/// The race, or what the compiler refuses.
pub fn compiled<T: Send>(
    module: &Module,
    source: &DeviceSource,
    compile: impl FnOnce() -> Result<T, Diagnostic> + Send,
) -> Result<(T, Duration), Diagnostic> {
    let timed = move || {
        let start = Instant::now();
        compile().map(|made| (made, start.elapsed()))
    };
    std::thread::scope(|scope| {
        let compiler = std::thread::Builder::new().stack_size(STACK).spawn_scoped(scope, timed);
        let race = race(module, source);
        let made = match compiler {
            Ok(thread) => thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)),
            Err(e) => Err(Diagnostic::error(codes::DEFECT, format!("a compiler cannot be started: {e}"))),
        };
        match race {
            Some(race) => Err(race),
            None => made,
        }
    })
}
