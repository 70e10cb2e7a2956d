//! Code in parts, and parts that are kept: the entry of a kernel, which reads and checks arguments, is the same whatever the
//! schedule, and its body for unit strides is the same whether there is one for any strides. What this process has compiled
//! is found by everything that it depends on: the module in LLVM's binary form, the passes, the machine, and LLVM.

use crate::Stages;
use crate::emit::Result;
use crate::ir::Ir;
use crate::machine::Machine;
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock};

/// Bytes of code that are kept; the oldest go first.
const MOST: usize = 64 << 20;

type Key = [u8; blake3::OUT_LEN];
/// Code, or why there is none; who needs what another thread compiles waits for it.
type Made = Arc<OnceLock<Result<Arc<[u8]>>>>;

#[derive(Default)]
struct Kept {
    made: HashMap<Key, Made>,
    /// What is finished, the oldest first, with its size.
    finished: VecDeque<(Key, usize)>,
    bytes: usize,
}

impl Kept {
    /// Counts what was finished, and drops what is too much.
    fn count(&mut self, key: Key, bytes: usize) {
        self.finished.push_back((key, bytes));
        self.bytes += bytes;
        while self.bytes > MOST
            && let Some((old, bytes)) = self.finished.pop_front()
        {
            self.made.remove(&old);
            self.bytes -= bytes;
        }
    }
}

static KEPT: LazyLock<Mutex<Kept>> = LazyLock::new(Mutex::default);

fn kept() -> MutexGuard<'static, Kept> {
    KEPT.lock().unwrap_or_else(|p| p.into_inner())
}

/// Drops all that is kept.
pub fn forget() {
    *kept() = Kept::default();
}

/// The object file of a verified module.
///
/// # Errors
/// What LLVM refuses.
pub fn object(machine: &Machine, ir: &Ir, passes: &[&str], stages: &mut Stages) -> Result<Arc<[u8]>> {
    let mut h = blake3::Hasher::new();
    for part in [machine.identity().as_bytes(), passes.join("\n").as_bytes(), &ir.bitcode()] {
        h.update(&(part.len() as u64).to_le_bytes());
        h.update(part);
    }
    let key = *h.finalize().as_bytes();
    let made = Arc::clone(kept().made.entry(key).or_default());
    stages.end("key");
    let mut own = false;
    let result = made.get_or_init(|| {
        own = true;
        machine.optimize(ir, passes)?;
        stages.end("passes");
        let bytes = machine.generate(ir, false)?;
        stages.end("code");
        Ok(bytes.into())
    });
    if own {
        match result {
            Ok(bytes) => kept().count(key, bytes.len()),
            Err(_) => drop(kept().made.remove(&key)),
        }
    }
    result.clone()
}

/// The first bytes of code that is in more than one object file.
const SEVERAL: &[u8] = b"ELFs of Lathe\n";

/// Object files as one sequence of bytes; one alone stays as it is.
pub fn join(parts: &[Arc<[u8]>]) -> Vec<u8> {
    if let [one] = parts {
        return one.to_vec();
    }
    let mut out = SEVERAL.to_vec();
    for p in parts {
        out.extend((p.len() as u64).to_le_bytes());
        out.extend(&**p);
    }
    out
}

/// The object files in what [`join`] made; none where it is damaged.
pub fn split(bytes: &[u8]) -> Option<Vec<&[u8]>> {
    let Some(mut rest) = bytes.strip_prefix(SEVERAL) else { return Some(vec![bytes]) };
    let mut out = Vec::new();
    while !rest.is_empty() {
        let (n, more) = rest.split_first_chunk::<8>()?;
        let (part, after) = more.split_at_checked(usize::try_from(u64::from_le_bytes(*n)).ok()?)?;
        out.push(part);
        rest = after;
    }
    Some(out)
}
