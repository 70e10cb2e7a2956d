//! Generated items are named after what they were made from and their role: this is the one place that spells
//! these names. Steps create names here, and strategies for later steps look them up here; roles are never parsed
//! from names (handles have them: `lathe_transform::Handle`).
//!
//! ```
//! use lathe_ir::names::{self, Role};
//! assert_eq!(Role::Outer.of("i"), "i.o");
//! assert_eq!(Role::Inner.of(Role::Outer.of("i")), "i.o.i");
//! assert_eq!((Role::Init.nth("C", 0), Role::Init.nth("C", 1)), ("C.init".into(), "C.init2".into()));
//! assert_eq!(names::around("C", "i"), "C.i");
//! assert_eq!(names::dimension(&names::copy_of("A"), 0), "copy(A).0");
//! ```

use std::fmt::Display;

macro_rules! roles {
    ($($(#[$doc:meta])* $role:ident = $word:literal,)*) => {
        /// The role of a loop, a statement or an array relative to the one that it is named after.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Role { $($(#[$doc])* $role,)* }

        impl Role {
            /// All roles.
            pub const ALL: &[Role] = &[$(Role::$role,)*];

            /// How the role is spelled in names.
            pub const fn word(self) -> &'static str {
                match self { $(Role::$role => $word,)* }
            }
        }
    };
}

roles! {
    /// The loop over blocks of a loop.
    Outer = "o",
    /// The loop inside of a block.
    Inner = "i",
    /// The copy of a loop that runs the iterations that make no full block, and of the loops in it.
    Rest = "rest",
    /// The copy of a loop that runs the iterations that were taken out of it.
    Peel = "peel",
    /// The loop over tiles of blocks that a schedule by isl has.
    Tile = "t",

    /// The statement that gives what a reduction starts from.
    Init = "init",
    /// The statement that stores the running value of a scan.
    Store = "store",
    /// The running value of a scan.
    Running = "acc",
    /// Whether a reduction without an identity has its first value; the statement that says yes.
    Started = "started",
    /// The statement that says that there is none yet.
    Unstarted = "unstarted",
    /// Further targets of a statement; and the copy of an array back to where it was copied from.
    Out = "out",
    /// A reduction inside of a larger expression.
    Temporary = "t",
    /// Whether a loop that can be ended goes on; where it is; where it ends at the latest.
    Goes = "goes",
    Next = "next",
    End = "end",
    /// The value at the position that `argmin` or `argmax` finds.
    Best = "best",

    /// Partial results, and the loop over them.
    Parts = "p",
    /// The statement that combines partial results.
    Combine = "combine",
    /// A round of a tree reduction of partial results.
    Halve = "halve",
    /// A round of a tree scan of totals.
    Double = "double",
    /// A reduction that is done before the one that it is part of.
    Part = "part",

    /// A copy of an array in another place; further stores into an array.
    Staged = "s",
    /// The statement that fills a copy up to its padded extents.
    Pad = "pad",
    /// An intermediate array of the values of a statement.
    Values = "f",
    /// The statement that computes such values.
    Map = "map",

    /// The totals of the blocks of a scan, and the loops that add them up.
    Total = "total",
    /// What the blocks of a scan start from, and the loop that computes it.
    Carry = "carry",
    /// The running value of one block of a scan.
    Run = "run",
    /// The statements that begin and end the blocks of a scan.
    Start = "start",

    /// The loop of a level of a homomorphism.
    Level = "p",
    /// What is left of a loop while its levels are cut off.
    Uncut = "q",
    /// The loop over rounds of partial tiles.
    Rounds = "r",
    /// Partial results of the cores of a level.
    Cores = "c",
    /// A copy in the memory of a level.
    Moved = "m",
    /// A copy that the first of several nests makes.
    Down = "d",
    /// The loop over blocks of rows that several computes share.
    Shared = "f",
    /// The loop over the rows of such a block.
    Rows = "b",
}

impl Role {
    /// The name of the item with this role for `base`: `i.o`.
    pub fn of(self, base: impl Display) -> String {
        format!("{base}.{}", self.word())
    }

    /// The name of the `n`-th of several, counted from 0: `C.init`, `C.init2`.
    pub fn nth(self, base: impl Display, n: usize) -> String {
        if n == 0 { self.of(base) } else { self.numbered(base, n + 1) }
    }

    /// The name of one of several that all have numbers: `i.p1`.
    pub fn numbered(self, base: impl Display, n: usize) -> String {
        format!("{base}.{}{n}", self.word())
    }

    /// Whether this is the name of one of several, [`Role::nth`].
    pub fn is_of(self, name: &str, base: &str) -> bool {
        let rest = name.strip_prefix(base).and_then(|r| r.strip_prefix('.')?.strip_prefix(self.word()));
        rest.is_some_and(|n| n.is_empty() || n.parse().is_ok_and(|n: usize| n > 1))
    }
}

/// The label of the statement that copies an array: `copy(A)`.
pub fn copy_of(array: impl Display) -> String {
    format!("copy({array})")
}

/// The label of the statement that gives partial results of an array their first values: `private(A)`.
pub fn private(array: impl Display) -> String {
    format!("private({array})")
}

/// The loop over a dimension of what a statement of this label does, counted from 0: `copy(A).0`.
pub fn dimension(label: impl Display, d: usize) -> String {
    format!("{label}.{d}")
}

/// The loop of a name around a statement of a label only: `C.i`.
pub fn around(label: impl Display, l: impl Display) -> String {
    format!("{label}.{l}")
}

/// A name that is taken already `n` times: `s.p`, `s.p.2`, `s.p.3`.
pub fn again(name: impl Display, n: usize) -> String {
    if n == 0 { name.to_string() } else { format!("{name}.{}", n + 1) }
}

/// `C.init`, `C.2` and `C.t1` are of the family of `C`.
pub fn of_family(label: &str, family: &str) -> bool {
    label.strip_prefix(family).is_some_and(|rest| rest.is_empty() || rest.starts_with('.'))
}
