//! Identities: binders, buffers and labels.

use crate::types::{Name, Scalar};
use std::fmt;
use std::hash::{Hash, Hasher};
use std::sync::Arc;

/// The identity of a binder (size, scalar parameter, loop, `let`). Unique within a function and made
/// fresh whenever code is duplicated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct VarId(pub u32);

/// The identity of a buffer; shares the counter of [`VarId`] but is a type of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct BufId(pub u32);

/// A variable where it is bound. The name is for people: several binders may share it.
#[derive(Clone, Debug)]
pub struct Binder {
    pub id: VarId,
    pub name: Name,
    pub ty: Scalar,
}

impl PartialEq for Binder {
    fn eq(&self, other: &Binder) -> bool {
        self.id == other.id
    }
}
impl Eq for Binder {}
impl Hash for Binder {
    fn hash<H: Hasher>(&self, h: &mut H) {
        self.id.hash(h);
    }
}

/// The label of a statement that touches memory, e.g. `C`, `C.2`, `C.init`, `copy(A)`.
///
/// A label names a statement *of the source* or of the step that created it. Unrolling and peeling
/// duplicate code, so several statements may carry one label; what tells their instances apart is the
/// statement's `instance` vector, which says, in the loop variables now in scope, which instance of
/// the label is executed here. Substituting into a statement substitutes into that vector too: that
/// is how the relation from old to new instances is transported for free.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(pub Arc<str>);

impl Label {
    pub fn new(text: impl AsRef<str>) -> Label {
        Label(Arc::from(text.as_ref()))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "'{}'", self.0)
    }
}
