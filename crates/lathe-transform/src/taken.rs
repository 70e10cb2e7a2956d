//! Steps that this process took before. What a rule does depends on the program, on what the steps before it made, and on its
//! arguments, and on nothing else: where all of these are the same, so are the tree and the evidence. Who changes one step of
//! a strategy has those before it checked already; a search over parameters, those that do not depend on them.
//!
//! The key of a step is the hash of everything before it, so that nothing is compared but keys.

use crate::handle::History;
use lathe_ir::text::{print_function, print_module};
use lathe_ir::visit::{walk, walk_expr};
use lathe_ir::{Access, ExprKind, Function, Module};
use lathe_strategy::{Evidence, StepArg};
use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};

/// What a tree and all that led to it are found by.
pub type Key = [u8; blake3::OUT_LEN];

/// Nodes of trees that are kept, those that trees share counted for each of them; the oldest go first.
const MOST: u64 = 1 << 20;

/// What a step left.
#[derive(Clone)]
pub struct Left {
    pub module: Arc<Module>,
    pub func: Function,
    pub history: History,
    pub evidence: Evidence,
}

#[derive(Default)]
struct Taken {
    steps: HashMap<Key, Left>,
    order: VecDeque<(Key, u64)>,
    nodes: u64,
}

static TAKEN: LazyLock<Mutex<Taken>> = LazyLock::new(Mutex::default);

fn all() -> MutexGuard<'static, Taken> {
    TAKEN.lock().unwrap_or_else(|p| p.into_inner())
}

/// The key of a function to which nothing was done: its text with all numbers, what it may call, and the places that
/// messages about it show.
pub fn start(module: &Module, func: &Function) -> Key {
    let mut h = blake3::Hasher::new();
    let reached = Module { functions: module.reached(func).into(), ..module.clone() };
    feed(&mut h, print_module(&reached).as_bytes());
    feed(&mut h, print_function(func).as_bytes());
    feed(&mut h, format!("{:?}", func.summary).as_bytes());
    let mut spans = Vec::new();
    let mut note = |places: &lathe_diagnostics::Places| {
        spans.push(u32::MAX);
        spans.extend(places.spans().iter().flat_map(|s| [s.file.0, s.start, s.end]));
    };
    walk(&func.body, &mut |s, _| {
        note(s.places());
        s.accesses().for_each(|(a, _)| note(&a.places));
        for e in s.exprs() {
            walk_expr(e, &mut |e| {
                if let ExprKind::Load(Access { places, .. }) | ExprKind::Address(Access { places, .. }) =
                    e.kind()
                {
                    note(places);
                }
            });
        }
        true
    });
    let bytes: Vec<u8> = spans.into_iter().flat_map(u32::to_le_bytes).collect();
    feed(&mut h, &bytes);
    *h.finalize().as_bytes()
}

/// The key of what a step leaves.
pub fn step(before: &Key, rule: &str, focus: &[usize], args: &[StepArg]) -> Key {
    let mut h = blake3::Hasher::new();
    feed(&mut h, before);
    feed(&mut h, rule.as_bytes());
    // With the places of the arguments.
    feed(&mut h, format!("{focus:?} {args:?}").as_bytes());
    *h.finalize().as_bytes()
}

fn feed(h: &mut blake3::Hasher, part: &[u8]) {
    h.update(&(part.len() as u64).to_le_bytes());
    h.update(part);
}

pub fn get(key: &Key) -> Option<Left> {
    all().steps.get(key).cloned()
}

pub fn put(key: Key, left: Left) {
    let nodes = left.func.body.nodes();
    if nodes > MOST / 16 {
        return;
    }
    let mut taken = all();
    if taken.steps.insert(key, left).is_none() {
        taken.order.push_back((key, nodes));
        taken.nodes += nodes;
    }
    while taken.nodes > MOST
        && let Some((old, nodes)) = taken.order.pop_front()
    {
        taken.steps.remove(&old);
        taken.nodes -= nodes;
    }
}

/// Drops all of them: for who measures how long steps take.
pub fn forget() {
    *all() = Taken::default();
}
