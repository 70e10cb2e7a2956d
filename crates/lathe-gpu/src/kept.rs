//! Objects of devices: what the device's compiler made of kernels, and what the host has to know of them. A load takes no
//! decision again: it needs neither the printer nor any proof.

use lathe_abi::CheckKind;
use lathe_device::{Argument, Item, Plan, plan};
use lathe_diagnostics::Diagnostic;
use lathe_engine::{CheckTable, Entry, Object, check_table, codes, needs, printed};
use lathe_ir::text::print_module;
use lathe_ir::{Binder, BufId, Buffer, Function, Module, ParamKind, Stmt, VarId, visit};
use lathe_source::device::{DeviceKernel, DeviceSource, race};
use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// The version of what [`pack`] writes.
const VERSION: u64 = 1;
/// Words of the status ([`DeviceKernel::after`]), and one more for none.
const WORDS: u64 = 2;

/// What the host knows of the kernels of a function.
#[derive(Clone, Debug)]
pub struct Hosted {
    /// The tree that was printed; its parameters and sizes are those of the function that was compiled.
    pub function: Function,
    pub plan: Plan,
    /// In the order of the plan's.
    pub kernels: Vec<DeviceKernel>,
    /// What the numbers of the status stand for; number 1 is the first.
    pub checks: Vec<CheckKind>,
}

impl From<&DeviceSource> for Hosted {
    fn from(s: &DeviceSource) -> Hosted {
        Hosted {
            function: s.function.clone(),
            plan: s.plan.clone(),
            kernels: s.kernels.clone(),
            checks: s.checks.clone(),
        }
    }
}

/// The bytes of an object: the version, facts of each kernel with its arguments, the tree, and the code. Numbers have eight
/// bytes, the least significant first.
///
/// An argument is the number of the variable or buffer in the order of the tree: numbers of a tree that is read again
/// are others, and code takes its arguments in the order of those that it was printed with.
pub fn pack(module: &Module, source: &DeviceSource, code: &[u8]) -> Vec<u8> {
    let mut module = module.clone();
    module.functions = [(source.function.name.clone(), source.function.clone())].into_iter().collect();
    let names = Names::of(&source.function);
    let mut out = Vec::new();
    let number = |out: &mut Vec<u8>, n: u64| out.extend(n.to_le_bytes());
    let text = |out: &mut Vec<u8>, t: &[u8]| {
        out.extend((t.len() as u64).to_le_bytes());
        out.extend(t);
    };
    number(&mut out, VERSION);
    number(&mut out, source.kernels.len() as u64);
    for (k, plan) in source.kernels.iter().zip(&source.plan.kernels) {
        text(&mut out, k.name.as_bytes());
        for n in [k.shared_bytes, u64::from(k.dynamic), u64::from(k.status), k.turns] {
            number(&mut out, n);
        }
        number(&mut out, k.after.map_or(WORDS, u64::from));
        number(&mut out, plan.arguments.len() as u64);
        for a in &plan.arguments {
            let at = match a {
                Argument::Array(b) => names.buffers.iter().position(|x| x.id == b.id),
                Argument::Scalar(b) => names.binders.iter().position(|x| x.id == b.id),
            };
            // What is in no list is refused when it is read.
            number(&mut out, at.map_or(u64::MAX, |n| n as u64));
        }
    }
    text(&mut out, print_module(&module).as_bytes());
    text(&mut out, code);
    out
}

/// All variables and buffers of a tree, in its order.
struct Names {
    binders: Vec<Binder>,
    buffers: Vec<Arc<Buffer>>,
}

impl Names {
    fn of(f: &Function) -> Names {
        let mut out = Names { binders: f.sizes.clone(), buffers: Vec::new() };
        for p in &f.params {
            match &p.kind {
                ParamKind::Array(b) => out.buffers.push(b.clone()),
                ParamKind::Scalar(b) => out.binders.push(b.clone()),
            }
        }
        visit::walk(&f.body, &mut |s, _| {
            out.buffers.extend(s.as_alloc().map(|a| a.0.clone()));
            out.binders.extend(s.as_loop().map(|l| l.binder.clone()));
            out.binders.extend(s.as_let().map(|l| l.0.clone()));
            true
        });
        out
    }
}

/// What an object holds.
pub struct Unpacked {
    pub host: Hosted,
    pub entry: Entry,
    /// What the driver takes: machine code, or the source.
    pub code: Vec<u8>,
}

impl Unpacked {
    /// The code, where it is a source.
    ///
    /// # Errors
    /// `E0705` where it is none.
    pub fn text(&self) -> Result<&str, Diagnostic> {
        let refuse = |_| Diagnostic::error(codes::OBJECT, "the code of a kernel is no text");
        std::str::from_utf8(&self.code).map_err(refuse)
    }
}

/// Reads an object again.
///
/// # Errors
/// `E0705` for bytes of another kind or version, and for damaged ones.
pub fn unpack(object: &Object) -> Result<Unpacked, Diagnostic> {
    let refuse = |why: &str| Diagnostic::error(codes::OBJECT, format!("loading `{}`: {why}", object.symbol));
    let mut r = Reader { rest: &object.bytes };
    let cut = || refuse("it is cut");
    let version = r.number().ok_or_else(cut)?;
    if version != VERSION {
        return Err(refuse(&format!("its facts of kernels are version {version}, not {VERSION}")));
    }
    let (facts, text, code) = r.all().ok_or_else(cut)?;
    if !r.rest.is_empty() {
        return Err(refuse("something follows it"));
    }
    let text = std::str::from_utf8(text).map_err(|_| refuse("it contains no text"))?;
    let module = printed::parse(text).map_err(|_| refuse("the text is not a tree"))?;
    let function =
        module.functions.get(object.symbol.as_str()).ok_or_else(|| refuse("it has no such function"))?;
    // The checks of the arguments follow from the parameters; the others have the numbers that the code has.
    let head = Function { body: Stmt::empty(), ..function.clone() };
    let head = check_table(&module, &head).map_err(|d| printed::unplaced(needs::free_size(d)))?;
    let user = |c: &CheckKind| matches!(c, CheckKind::User { .. });
    let (own, others) = object.checks.split_at_checked(head.entries.len()).ok_or_else(cut)?;
    if own != head.entries || !others.iter().all(user) {
        return Err(refuse("its checks are those of other parameters"));
    }
    let mut plan = plan(function).map_err(printed::unplaced)?;
    let names = Names::of(function);
    if facts.len() != plan.kernels.len() || !runs(&plan.items) {
        return Err(refuse("its kernels are those of another tree"));
    }
    let mut kernels = Vec::new();
    for ((kernel, order), plan) in facts.into_iter().zip(&mut plan.kernels) {
        plan.arguments = ordered(&names, &plan.arguments, &order).ok_or_else(|| {
            refuse(&format!("the arguments of `{}` are those of another tree", kernel.name))
        })?;
        kernels.push(kernel);
    }
    let table = CheckTable { entries: object.checks.clone(), sizes: head.sizes };
    let entry = Entry::of(&table, function);
    let host = Hosted { function: function.clone(), plan, kernels, checks: table.entries };
    Ok(Unpacked { host, entry, code: code.to_vec() })
}

/// The same arguments in an order, which has each of them once.
fn ordered(names: &Names, own: &[Argument], order: &[u64]) -> Option<Vec<Argument>> {
    let arrays: HashMap<BufId, &Argument> =
        own.iter().filter_map(|a| if let Argument::Array(b) = a { Some((b.id, a)) } else { None }).collect();
    let scalars: HashMap<VarId, &Argument> =
        own.iter().filter_map(|a| if let Argument::Scalar(b) = a { Some((b.id, a)) } else { None }).collect();
    if order.len() != own.len() {
        return None;
    }
    // Arrays come first.
    let (first, rest) = order.split_at_checked(arrays.len())?;
    let at = |n: &u64| usize::try_from(*n).ok();
    let first = first.iter().map(|n| arrays.get(&names.buffers.get(at(n)?)?.id).copied());
    let rest = rest.iter().map(|n| scalars.get(&names.binders.get(at(n)?)?.id).copied());
    let all: Vec<&Argument> = first.chain(rest).collect::<Option<_>>()?;
    let each = own.iter().all(|a| all.iter().filter(|b| **b == a).count() == 1);
    each.then(|| all.into_iter().cloned().collect())
}

/// Whether the host can run what it is told: no verifier saw it.
fn runs(items: &[Item]) -> bool {
    items.iter().all(|i| match i {
        Item::Loop { step, body, .. } => *step > 0 && runs(body),
        Item::Alloc { body, .. } | Item::Let { body, .. } => runs(body),
        Item::If { then, other, .. } => runs(then) && runs(other),
        Item::Check { .. } | Item::Launch(_) => true,
    })
}

struct Reader<'a> {
    rest: &'a [u8],
}

/// A kernel, and the numbers of its arguments.
type Fact = (DeviceKernel, Vec<u64>);

impl<'a> Reader<'a> {
    fn number(&mut self) -> Option<u64> {
        let (n, rest) = self.rest.split_first_chunk()?;
        self.rest = rest;
        Some(u64::from_le_bytes(*n))
    }

    fn text(&mut self) -> Option<&'a [u8]> {
        let n = usize::try_from(self.number()?).ok()?;
        let (text, rest) = self.rest.split_at_checked(n)?;
        self.rest = rest;
        Some(text)
    }

    fn truth(&mut self) -> Option<bool> {
        self.number().filter(|n| *n < 2).map(|n| n == 1)
    }

    fn kernel(&mut self) -> Option<Fact> {
        let name = std::str::from_utf8(self.text()?).ok()?;
        if !name.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'_') {
            return None;
        }
        let shared_bytes = self.number().filter(|n| *n <= u64::from(u32::MAX))?;
        let (dynamic, status, turns) = (self.truth()?, self.truth()?, self.number()?);
        let after = self.number().filter(|n| *n <= WORDS)?;
        let after = (after < WORDS).then_some(after as u32);
        let mut order = Vec::new();
        for _ in 0..self.number()? {
            order.push(self.number()?);
        }
        Some((DeviceKernel { name: name.to_string(), shared_bytes, dynamic, status, turns, after }, order))
    }

    /// Facts of kernels, the tree, and the code.
    fn all(&mut self) -> Option<(Vec<Fact>, &'a [u8], &'a [u8])> {
        let mut facts = Vec::new();
        for _ in 0..self.number()? {
            facts.push(self.kernel()?);
        }
        Some((facts, self.text()?, self.text()?))
    }
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::host::{Known, Launch, Launcher, Value, run};
    use lathe_device::Limits;
    use lathe_ir::text::{Ids, print_function_with};
    use lathe_source::device::{Language, print};
    use std::path::Path;

    /// The trees of the suite that are kernels for devices, as they are printed.
    fn sources() -> Vec<(Module, DeviceSource)> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../lathe-runtime/tests/suite");
        let mut files: Vec<_> =
            std::fs::read_dir(folder).expect("a folder").map(|f| f.expect("a file").path()).collect();
        files.sort();
        let read = |f: &Path| printed::parse(&std::fs::read_to_string(f).expect("text")).ok();
        let modules =
            files.iter().filter(|f| f.extension().is_some_and(|e| e == "tree")).filter_map(|f| read(f));
        let mut out = Vec::new();
        for m in modules {
            for f in m.functions.values() {
                let made = [Language::Cuda, Language::OpenCl].map(|l| print(&m, f, l, Limits::default()));
                out.extend(made.into_iter().flatten().map(|s| (m.clone(), s)));
            }
        }
        out
    }

    fn object(module: &Module, s: &DeviceSource) -> Object {
        Object {
            engine: "cuda".to_string(),
            fingerprint: String::new(),
            symbol: s.function.name.to_string(),
            checks: s.checks.clone(),
            bytes: pack(module, s, b"machine code"),
            times: Vec::new(),
        }
    }

    /// What is launched, with buffers by their names.
    struct Seen(HashMap<BufId, String>, Vec<String>);

    impl Launcher for Seen {
        fn alloc(&mut self, b: &Buffer, bytes: u64) -> Result<(), Diagnostic> {
            self.0.insert(b.id, format!("{} of {bytes}", b.name));
            Ok(())
        }

        fn free(&mut self, _: BufId) {}

        fn launch(&mut self, l: &Launch) -> Result<(), Diagnostic> {
            let given = l.arguments.iter().map(|a| match a {
                Value::Array(b) => self.0.get(b).cloned().unwrap_or_default(),
                other => format!("{other:?}"),
            });
            let given: Vec<String> = given.collect();
            self.1.push(format!("{:?} {} {} {} {given:?}", l.kernel, l.blocks, l.threads, l.turns));
            Ok(())
        }
    }

    /// All launches where each size is `n`; what the host finds wrong ends them.
    fn launched(h: &Hosted, n: i64) -> (Vec<String>, Option<i32>) {
        let (mut known, mut seen) = (Known::default(), Seen(HashMap::new(), Vec::new()));
        h.function.sizes.iter().for_each(|b| known.size(b.id, n));
        for p in &h.function.params {
            match &p.kind {
                ParamKind::Array(b) => drop(seen.0.insert(b.id, b.name.to_string())),
                ParamKind::Scalar(b) => {
                    known.integers.insert(b.id, 3);
                    known.scalars.insert(b.id, Value::Named(b.name.clone(), b.ty));
                }
            }
        }
        let ended = run(h, &mut seen, &known).ok();
        (seen.1, ended)
    }

    #[test]
    fn what_is_kept_launches_the_same() {
        let (mut kernels, mut launches) = (0, 0);
        for (module, mut s) in sources() {
            // The order of the arguments is that of the code, whatever the numbers of buffers are.
            for k in &mut s.plan.kernels {
                let arrays = k.arguments.iter().filter(|a| matches!(a, Argument::Array(_))).count();
                k.arguments[..arrays].reverse();
            }
            let u = unpack(&object(&module, &s)).unwrap_or_else(|d| panic!("{}: {d}", s.function.name));
            let text = |f: &Function| print_function_with(f, Ids::Hidden);
            assert_eq!(text(&u.host.function), text(&s.function));
            assert_eq!((&u.host.checks, &*u.code), (&s.checks, &b"machine code"[..]));
            let own = Hosted::from(&s);
            for n in [0, 1, 5] {
                let (made, want) = (launched(&u.host, n), launched(&own, n));
                assert_eq!(made, want, "{}", s.function.name);
                launches += made.0.len();
            }
            // Arguments are checked as those of the tree itself.
            let table = check_table(&module, &s.function).expect("it has one");
            let table = CheckTable { entries: s.checks.clone(), ..table };
            let of_tree = Entry::of(&table, &s.function);
            assert_eq!(
                (u.entry.values.len(), u.entry.sizes, u.entry.fails.len()),
                (of_tree.values.len(), of_tree.sizes, of_tree.fails.len())
            );
            kernels += s.kernels.len();
        }
        assert!(kernels > 40 && launches > 100, "{kernels} {launches}");
    }

    #[test]
    fn damaged_objects_and_those_of_other_versions_are_refused() {
        let text = "func two(N)(A: in i32[N], B: out i32[N], k: in i32) stage scheduled {
  alloc T: i32[N] {
    for g in 0..N level(grid) { 'T'[g]: T[g] = A[g] + k }
    for g in 0..N level(grid) { 'B'[g]: B[g] = T[g] * k }
  }
}";
        let module = printed::parse(text).expect("a tree");
        let f = module.functions.values().next().expect("a function");
        let s = print(&module, f, Language::Cuda, Limits::default()).expect("kernels");
        let good = object(&module, &s);
        assert!(unpack(&good).is_ok());
        let refused = |bytes: Vec<u8>| match unpack(&Object { bytes, ..good.clone() }) {
            Ok(_) => panic!("it is taken"),
            Err(d) => assert_eq!(d.code, codes::OBJECT, "{d}"),
        };
        for cut in 0..good.bytes.len() {
            refused(good.bytes[..cut].to_vec());
        }
        let changed = |at: usize, to: &[u8]| {
            let mut bytes = good.bytes.clone();
            bytes[at..at + to.len()].copy_from_slice(to);
            bytes
        };
        refused(changed(0, &(VERSION + 1).to_le_bytes()));
        // The number of kernels, the length of a name, the name, shared memory, a truth, the word, arguments.
        let name = s.kernels[0].name.len();
        for at in [8, 16, 24 + name, 32 + name, 40 + name, 56 + name, 64 + name, 72 + name] {
            refused(changed(at, &u64::MAX.to_le_bytes()));
        }
        refused(changed(24, b"\0"));
        // One argument twice.
        let (first, second) = (72 + name, 80 + name);
        refused(changed(second, &good.bytes[first..first + 8]));
        // No byte makes a panic.
        for at in 0..good.bytes.len() {
            let _ = unpack(&Object { bytes: changed(at, &[good.bytes[at] ^ 0x15]), ..good.clone() });
        }
        // Checks of other parameters.
        let mut checks = good.checks.clone();
        checks[0] = CheckKind::Overlap { a: 7, b: 9 };
        let other = Object { checks, ..good.clone() };
        assert_eq!(unpack(&other).err().map(|d| d.code), Some(codes::OBJECT));
        assert_eq!(
            unpack(&Object { checks: Vec::new(), ..good.clone() }).err().map(|d| d.code),
            Some(codes::OBJECT)
        );
    }
}
