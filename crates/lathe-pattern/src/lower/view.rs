//! Where values are read from and written to: functions from subscripts, composed, never data.

use super::Lower;
use crate::nat::Nat;
use crate::term::Term;
use lathe_diagnostics::Diagnostic;
use lathe_ir::{Buffer, Expr};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

pub(super) type Read = dyn Fn(&mut Lower, &Nat) -> Result<View, Diagnostic>;
/// What a stream does before its loop, and in an iteration.
pub(super) type Start = dyn Fn(&mut Lower) -> Result<(), Diagnostic>;
pub(super) type Turn = dyn Fn(&mut Lower, &Nat) -> Result<(), Diagnostic>;
pub(super) type Write = dyn Fn(&mut Lower, &Nat) -> Result<Acc, Diagnostic>;

/// The buffers of one value.
#[derive(Clone)]
pub(super) enum Storage {
    Buffer(Arc<Buffer>),
    Tuple(Vec<Storage>),
}

impl Storage {
    pub fn buffers(&self) -> Vec<Arc<Buffer>> {
        match self {
            Storage::Buffer(b) => vec![b.clone()],
            Storage::Tuple(parts) => parts.iter().flat_map(Storage::buffers).collect(),
        }
    }
}

/// A value that can be read.
#[derive(Clone)]
pub(super) enum View {
    Number(Expr),
    Index(Nat),
    Tuple(Vec<View>),
    Array(ArrayView),
}

/// Arrays and vectors.
#[derive(Clone)]
pub(super) struct ArrayView {
    pub size: Nat,
    pub at: Rc<Read>,
    /// Padded from so many elements by so many: reading it needs one element at least.
    pub pads: Vec<(Nat, Nat)>,
    /// Elements that must be read in order.
    pub streams: Vec<Rc<Stream>>,
    pub origin: Origin,
}

/// The buffers that an array is, and the subscripts so far; views that are more than that have none.
pub(super) type Origin = Option<Rc<(Storage, Vec<Nat>)>>;

/// Windows over elements that are loaded once; `mapSeq` drives it.
pub(super) struct Stream {
    /// Before the loop: loads what the first window shares with the next.
    pub start: Box<Start>,
    /// At the start of iteration `i`: loads the last element of window `i`.
    pub load: Box<Turn>,
    /// At its end.
    pub advance: Box<Turn>,
    /// The window that can be read now.
    pub now: RefCell<Option<Nat>>,
}

/// A place that can be written.
#[derive(Clone)]
pub(super) enum Acc {
    /// An element of a buffer.
    Cell(Arc<Buffer>, Vec<Nat>),
    Tuple(Vec<Acc>),
    Array(Rc<Write>, Origin),
}

/// What a variable stands for.
#[derive(Clone)]
pub(super) enum Val {
    View(View),
    Fun(Term, Env),
    /// The place that the enclosing layout function gives to its argument.
    Hole(Rc<RefCell<Option<Acc>>>),
}

/// Values of bound variables, innermost first.
#[derive(Clone, Default)]
pub(super) struct Env(Option<Rc<(Val, Env)>>);

impl Env {
    pub fn with(&self, v: Val) -> Env {
        Env(Some(Rc::new((v, self.clone()))))
    }

    pub fn get(&self, mut i: u32) -> Option<&Val> {
        let mut e = self;
        loop {
            let node = e.0.as_ref()?;
            if i == 0 {
                return Some(&node.0);
            }
            i -= 1;
            e = &node.1;
        }
    }
}

/// An argument of a function.
#[derive(Clone)]
pub(super) enum Arg {
    Term(Term, Env),
    View(View),
    Hole(Rc<RefCell<Option<Acc>>>),
}

impl ArrayView {
    pub fn new(size: Nat, at: impl Fn(&mut Lower, &Nat) -> Result<View, Diagnostic> + 'static) -> ArrayView {
        ArrayView { size, at: Rc::new(at), pads: Vec::new(), streams: Vec::new(), origin: None }
    }

    /// A view of the same elements, differently arranged within each.
    pub fn like(&self, at: impl Fn(&mut Lower, &Nat) -> Result<View, Diagnostic> + 'static) -> ArrayView {
        ArrayView {
            size: self.size.clone(),
            at: Rc::new(at),
            pads: self.pads.clone(),
            streams: self.streams.clone(),
            origin: None,
        }
    }
}

impl Acc {
    pub fn array(at: impl Fn(&mut Lower, &Nat) -> Result<Acc, Diagnostic> + 'static) -> Acc {
        Acc::Array(Rc::new(at), None)
    }
}
