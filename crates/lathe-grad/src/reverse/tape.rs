//! What the reverse sweep keeps of the primal, and where.

use crate::node::{ScopeId, Site};
use lathe_ir::{Access, Buffer, Dim, Expr};
use std::rc::Rc;
use std::sync::Arc;

/// Values that are kept for one place.
pub struct Tape {
    pub scope: ScopeId,
    pub site: Rc<Site>,
    /// What the place reads, or what it evaluates.
    pub value: Expr,
    pub under: Option<Expr>,
    pub buffer: Arc<Buffer>,
    /// The site before which it is stored, and how, if that is not the place itself.
    pub at: usize,
    pub ahead: Option<Ahead>,
    /// Subscripts of the tape, in the variables of the place.
    pub indices: Vec<Expr>,
    /// Of these, dimensions of a compute.
    pub dims: Vec<Dim>,
    /// The loop whose iterations a counter numbers: the number is the first subscript.
    pub counted: Option<ScopeId>,
    /// All of the array is kept: its own subscripts are the last ones of the tape.
    pub whole: bool,
    /// What it keeps of states behind loops, for places that read them.
    pub ends: Vec<End>,
}

/// A value that loops around a place do not change is stored before the first of them.
#[derive(Clone)]
pub struct Ahead {
    /// How many loops are around that.
    pub depth: usize,
    /// What must hold for it to exist: the loops that do not change it run, and conditions around it.
    pub under: Vec<Expr>,
    /// The loops in these that do.
    pub dims: Vec<Dim>,
}

/// What a tape keeps of the state behind a loop.
#[derive(Clone)]
pub struct End {
    /// The body of the loop, and the subscript that counts its iterations.
    pub body: ScopeId,
    pub position: usize,
    pub dims: Vec<Dim>,
    pub access: Access,
    pub indices: Vec<Expr>,
    /// Where the loop runs at all.
    pub under: Expr,
}
