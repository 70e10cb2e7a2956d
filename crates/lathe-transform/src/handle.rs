//! Handles: what a step made, and where what was there before is now (as Exo's cursors, which steps carry forward). A
//! name is for people, and several loops may have one; a handle means one loop, statement or array, whatever steps
//! call what they make of it. What has a part (`i.o` is the loop over blocks of `i`) is told by the step; what became
//! of a loop that is gone is read off the two trees.
//!
//! ```
//! use lathe_ir::names::Role;
//! use lathe_transform::{Arg, Args, Cursor, Handle, History, apply};
//! let text = "func f(N)(x: in f32[N], y: out f32[N]) stage plain { for i in 0..N { 'y'[i]: y[i] = x[i] } }";
//! let module = lathe_ir::text::parse_module(lathe_diagnostics::FileId(0), text).expect("a program");
//! let func = module.functions.values().next().expect("a function");
//! let i = Handle::of_loop(func, "i").expect("the loop");
//! let args = Args { items: vec![(None, Arg::Path("i".into()), None), (None, Arg::Int(8), None)] };
//! let edit = apply(&Cursor::new(&module, func), "split", &args).expect("a legal step");
//! let outer = edit.made.iter().find(|m| m.role == Some(Role::Outer)).expect("blocks");
//! assert_eq!((&outer.of, &*outer.new.name), (&i, "i.o"));
//! // The loop is gone; its handle leads to what it became.
//! let now: Vec<_> = History::default().with(edit.made).forward(&i, &edit.func);
//! assert_eq!(now.iter().map(|h| &*h.name).collect::<Vec<_>>(), ["i.o", "i.i"]);
//! ```

use lathe_ir::difference::Difference;
use lathe_ir::names::Role;
use lathe_ir::types::Name;
use lathe_ir::{Binder, BufId, Buffer, Function, Label, Stmt, VarId, visit};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;

/// One loop, statement (with all its copies) or array of a function.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Handle {
    pub thing: Thing,
    /// How people call it.
    pub name: Name,
}

/// What a handle is one of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Thing {
    Loop(VarId),
    Array(BufId),
    /// The one of the name, which is its label.
    Statement,
}

/// What a step made, and of what.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// The part that it plays; none for a loop that only takes the place of another.
    pub role: Option<Role>,
    pub of: Handle,
    pub new: Handle,
}

impl From<&Binder> for Handle {
    fn from(b: &Binder) -> Handle {
        Handle { thing: Thing::Loop(b.id), name: b.name.clone() }
    }
}

impl From<&Buffer> for Handle {
    fn from(b: &Buffer) -> Handle {
        Handle { thing: Thing::Array(b.id), name: b.name.clone() }
    }
}

impl From<&Label> for Handle {
    fn from(l: &Label) -> Handle {
        Handle { thing: Thing::Statement, name: l.as_str().into() }
    }
}

impl Handle {
    /// The only loop of a name; none where there is none, or several.
    pub fn of_loop(func: &Function, name: &str) -> Option<Handle> {
        let mut found = Present::of(func).loops.into_values().filter(|h| &*h.name == name);
        found.next().filter(|_| found.next().is_none())
    }
}

/// Everything that handles can refer to in a function.
struct Present {
    loops: HashMap<VarId, Handle>,
    arrays: HashSet<BufId>,
    labels: HashSet<Name>,
}

impl Present {
    fn of(func: &Function) -> Present {
        Present::in_scope(func, &[], std::slice::from_ref(&func.body))
    }

    /// In some statements, and around the place where they are.
    fn in_scope(func: &Function, path: &[usize], all: &[Stmt]) -> Present {
        let arrays = func.params.iter().filter_map(|p| p.array()).map(|b| b.id).collect();
        let mut out = Present { loops: HashMap::new(), arrays, labels: HashSet::new() };
        let mut here = &func.body;
        for n in path {
            out.add(here);
            here = here.child(*n).unwrap_or(here);
        }
        for s in all {
            visit::walk(s, &mut |s, _| {
                out.add(s);
                true
            });
        }
        out
    }

    fn add(&mut self, s: &Stmt) {
        self.loops.extend(s.as_loop().map(|l| (l.binder.id, Handle::from(&l.binder))));
        self.arrays.extend(s.allocated().map(|b| b.id));
        if let Some(l) = s.label()
            && !self.labels.contains(l.as_str())
        {
            self.labels.insert(l.as_str().into());
        }
    }

    fn has(&self, h: &Handle) -> bool {
        match h.thing {
            Thing::Loop(v) => self.loops.contains_key(&v),
            Thing::Array(b) => self.arrays.contains(&b),
            Thing::Statement => self.labels.contains(&h.name),
        }
    }
}

/// What a step made: what it told, as far as that is in the new tree, and what loops became of which it told nothing.
pub(crate) fn complete(told: Vec<Made>, old: &Function, new: &Function) -> Vec<Made> {
    let place = Difference::between(&old.body, &new.body);
    let before = Present::in_scope(old, &place.path, place.gone());
    let after = Present::in_scope(new, &place.path, place.made());
    // What was made on the way, of which something else was made then, leads on to that.
    let origin = |h: &Handle| {
        let up = |h: &Handle| told.iter().find(|m| m.new == *h && m.of != *h).map(|m| m.of.clone());
        let mut ways = std::iter::successors(Some(h.clone()), up).take(told.len() + 1);
        ways.find(|h| before.has(h))
    };
    let mut out: Vec<Made> = Vec::new();
    for m in told.iter().filter(|m| after.has(&m.new)) {
        let Some(of) = origin(&m.of) else { continue };
        let made = Made { of, ..m.clone() };
        if !out.contains(&made) {
            out.push(made);
        }
    }
    let gone = |v: &VarId| before.loops.contains_key(v) && !after.loops.contains_key(v);
    let told: HashSet<VarId> = out.iter().filter_map(|m| loop_of(&m.of)).collect();
    let lost: HashSet<VarId> =
        before.loops.keys().copied().filter(|v| gone(v) && !told.contains(v)).collect();
    if lost.is_empty() {
        return out;
    }
    // Where a subscript of an instance mentioned the loop, it mentions what the loop became.
    let (was, now) = (subscripts(place.gone()), subscripts(place.made()));
    for (at, vars) in &was.order {
        let became = now.all.get(at).into_iter().flatten().filter(|v| !vars.contains(v));
        let became: Vec<&Handle> = became.filter_map(|v| after.loops.get(v)).collect();
        for v in vars.iter().filter(|v| lost.contains(v)) {
            for new in &became {
                let made = Made { role: None, of: before.loops[v].clone(), new: (*new).clone() };
                if !out.contains(&made) {
                    out.push(made);
                }
            }
        }
    }
    out
}

fn loop_of(h: &Handle) -> Option<VarId> {
    match h.thing {
        Thing::Loop(v) => Some(v),
        Thing::Array(_) | Thing::Statement => None,
    }
}

/// The variables in each subscript of the instances of each label.
#[derive(Default)]
struct Subscripts {
    order: Vec<((Label, usize), Vec<VarId>)>,
    all: HashMap<(Label, usize), Vec<VarId>>,
}

fn subscripts(roots: &[Stmt]) -> Subscripts {
    let mut out = Subscripts::default();
    let mut add = |s: &Stmt, _: &[usize]| {
        let Some(label) = s.label() else { return true };
        for (n, e) in s.instance().iter().enumerate() {
            let vars: Vec<VarId> = visit::vars_of(e).into_iter().collect();
            let at = (label.clone(), n);
            let all = out.all.entry(at.clone()).or_default();
            vars.iter().for_each(|v| {
                if !all.contains(v) {
                    all.push(*v)
                }
            });
            out.order.push((at, vars));
        }
        true
    };
    roots.iter().for_each(|s| visit::walk(s, &mut add));
    out
}

/// What steps made, the last ones first found; cheap to copy.
#[derive(Clone, Debug, Default)]
pub struct History(Option<Arc<Entry>>);

#[derive(Debug)]
struct Entry {
    made: Vec<Made>,
    before: History,
}

impl Drop for Entry {
    /// One after the other: strategies may have many steps.
    fn drop(&mut self) {
        let mut next = self.before.0.take();
        while let Some(mut e) = next.and_then(|e| Arc::try_unwrap(e).ok()) {
            next = e.before.0.take();
        }
    }
}

impl History {
    /// This history, and what one more step made.
    pub fn with(&self, made: Vec<Made>) -> History {
        if made.is_empty() {
            return self.clone();
        }
        History(Some(Arc::new(Entry { made, before: self.clone() })))
    }

    /// All that was made, what was made last first.
    pub fn iter(&self) -> impl Iterator<Item = &Made> {
        let entries = std::iter::successors(self.0.as_deref(), |e| e.before.0.as_deref());
        entries.flat_map(|e| &e.made)
    }

    /// Where a handle leads in a function that these steps left: to itself, or else to what it became, in the order in
    /// which that was made; nowhere, if nothing is left of it (a loop without iterations, an array that became a value).
    pub fn forward(&self, h: &Handle, func: &Function) -> Vec<Handle> {
        let present = Present::of(func);
        let (mut open, mut seen, mut out) = (vec![h], HashSet::new(), Vec::new());
        while let Some(h) = open.pop() {
            if !seen.insert(h) {
                continue;
            }
            if present.has(h) {
                out.push(h.clone());
                continue;
            }
            let became: Vec<&Handle> = self.iter().filter(|m| m.of == *h).map(|m| &m.new).collect();
            open.extend(became.into_iter().rev());
        }
        out
    }

    /// The part that the loop of a name plays, by the step that made the last one of that name.
    pub fn role(&self, name: &str) -> Option<&Made> {
        self.iter().find(|m| &*m.new.name == name && loop_of(&m.new).is_some() && m.role.is_some())
    }

    /// What the loops became that had this name and are gone.
    pub fn became(&self, name: &str, func: &Function) -> Vec<Name> {
        let was = self.iter().map(|m| &m.of).find(|h| &*h.name == name && loop_of(h).is_some());
        let now = was.map(|h| self.forward(h, func)).unwrap_or_default();
        now.into_iter().map(|h| h.name).filter(|n| &**n != name).collect()
    }
}
