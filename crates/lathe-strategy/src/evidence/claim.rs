//! What steps have to show: a closed list of claims with their operands. Sentences are made from these when they are
//! wanted, and stored nowhere.

use super::formula::{Formula, list};
use serde::{Deserialize, Serialize};
use std::fmt;

/// The five theorems that all claims fall under.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Theorem {
    /// The same instances run, and conflicting ones in the same order.
    Order,
    /// Every read sees the value that it saw.
    Value,
    /// An equation or a law of operators.
    Algebra,
    /// What was changed has no meaning for results.
    NoMeaning,
    /// A number of iterations, an extent or a subscript is what it has to be.
    Size,
}

/// Forms of rewriting that keep instances and their order whatever the program is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Construction {
    /// Loops over all indices of a compute.
    Opened,
    /// A nest that opens to what it was.
    Closed,
    /// Blocks of consecutive iterations.
    Blocks,
    /// Two loops, one after the other, over two parts of a range.
    Cut,
    /// Full blocks and what is left.
    Separated,
    Unrolled,
    /// Another number for each iteration.
    Shifted,
    /// The reference order.
    Serial,
    /// Lanes that combine in their order.
    InOrder,
    /// Some instances, which do nothing, are left out.
    Guarded,
    /// Stores and conditions become the reductions that they are.
    Combined,
    /// Nothing moved.
    Unchanged,
}

impl Construction {
    /// The two trees say it, whatever made the one of the other.
    pub fn is_decided(self) -> bool {
        use Construction::*;
        matches!(self, Blocks | Cut | Separated | Unrolled | Shifted | Serial | InOrder | Guarded | Combined)
    }
}

/// A law of a combine operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Law {
    Associative,
    Commutative,
    Identity,
}

/// Why a function computes the same after a pass of the optimizer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Simplified {
    /// Several statements computed it, and nothing that it reads is written between them.
    Common,
    /// It was just stored, and nothing that may be the element is written before it is read.
    Stored,
    /// Every iteration would compute it alike.
    Invariant,
    /// It was stored, and overwritten or gone before anything read it.
    Overwritten,
    /// Nothing that is left reads it.
    Unread,
    /// One store fills the cell, before anything reads it.
    Cell,
    /// A call of a function that only computes a value.
    Call,
}

/// Where an array is touched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Within {
    Statement,
    Loop,
    /// One iteration of a loop.
    Iteration,
}

/// One dimension of a window into an array: `size` elements from `lo` on, `step` apart.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Range {
    pub lo: Formula,
    pub size: Formula,
    pub step: i64,
}

/// The partial results of an array: `buffer` has as many copies of the window as there are parts.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Partial {
    pub array: String,
    pub buffer: String,
    pub window: Vec<Range>,
}

/// What had to hold. Operands are names of the function and formulas.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case", deny_unknown_fields)]
pub enum Claim {
    /// Conflicting instances run in the order of the old tree.
    DependencesKept,
    /// Every instance is run exactly once, and no other one.
    InstancesKept,
    /// The same instances in the same order, by the form of the rewrite.
    OrderKept { by: Construction },
    /// The new loops run over the image of the old iterations, each once: what each new loop counts.
    Renumbered { map: Vec<(String, Formula)> },
    /// Tiles along absolute multiples hold every iteration once: factor of each loop.
    Tiled { factors: Vec<(String, i64)> },

    /// In the statement, `buffer` stands for a window of `array`: every access touches the position of its element, what is
    /// read was copied in or written before, and what is written is copied out.
    Redirected { array: String, buffer: String, window: Vec<Range> },
    /// Nothing but the statement touches the array while the buffer lives.
    Exclusive { array: String, buffer: String },
    /// Every element of the array that an iteration reads was written by it before; all that it touches is in the window.
    WrittenFirst { array: String, window: Vec<Range> },
    /// A window of `array` is computed in front of the statement that holds all that reads it: every read finds the value
    /// that it found, by the expression that it had, and nothing that it is computed from is written until then.
    Recomputed { array: String, window: Vec<Range> },
    /// Every contribution to an element of an array goes to one of its partial results, number `own`, which starts from
    /// the identity, or where there is none from its first contribution, and is combined into the element once.
    PartsCombined { parts: Vec<Partial>, own: Formula },
    /// Nothing outside touches the array.
    OnlyInside { array: String, within: Within },
    /// What every read of the array saw is computed in its place.
    ComputedInPlace { array: String },
    /// Every iteration has elements of the array that no other one touches.
    OwnElements { array: String },
    /// Nothing that is read to compute the label is written in the statement.
    InputsKept { label: String },
    /// Every value is computed once, by the expression that it had, and read from arrays.
    ComputedOnce { of: String, arrays: Vec<String> },
    /// What inner loops combine is combined first, from the identity on and in their order, and read from arrays.
    CombinedFirst { of: String, arrays: Vec<String> },
    /// Every iteration of a loop starts from the total of all iterations before it, combined in their order, and the
    /// array has the total of all in the end.
    StartsFromTotals { array: String, totals: String },
    /// Every iteration of a loop combines its total into the array at once, in the order of the iterations, and starts from
    /// what it found.
    StartsInOrder { array: String, total: String },
    /// The tree is what its concurrent loops are divided into at their barriers; no two iterations that run at the same
    /// time touch an element that one of them writes, before and after.
    Phases,
    /// The tree has a loop of at most so many threads for each kernel, in clusters of at most so many blocks, and barriers
    /// wherever phases ended; no two iterations that run at the same time touch an element that one of them
    /// writes, before and after.
    Threads { threads: i64, cluster: i64 },
    /// Nothing but the label touches, or changes, the array.
    OnlyBy { label: String, array: String, within: Within },
    /// Every part of a reduction without identity has a first element.
    PartsBegin { label: String },
    /// Elements that padding writes are never read.
    PaddingUnread { array: String, over: String },
    /// What a pass of the optimizer removed, or put in the place of what it removed: the values that got names.
    Simplified { by: Simplified, named: Vec<(Formula, Formula)> },
    /// Removed stores of the label wrote nothing that was read: all of it is written again before.
    Overwritten { label: String },
    /// Every iteration of the loop fills one of as many slots of these buffers and reads it, in an order that keeps every
    /// dependence.
    FilledAhead { buffers: Vec<String>, over: String, slots: i64 },
    /// Whatever padding reads exists and has a value.
    PaddingDefined { over: String },

    /// A law of an operator.
    Law { operator: String, law: Law },
    /// An equation between terms, by the name of its rule.
    Equation { rule: String },
    /// Operands of sums, products, least or greatest values in another association.
    Associated { label: String },
    /// A product is added without being rounded.
    RoundedOnce { label: String },
    /// Parts may be combined in another order.
    Unordered { label: String },

    /// Nothing but the caches changes.
    CachesOnly { array: String },
    /// A layout is injective, and no subscript changes.
    LayoutOnly { array: String },
    /// Every access of a distributed array is made by the iteration that its layout gives the element.
    HeldByUsers { array: String },
    /// Where a local buffer is.
    SpaceOnly { array: String },
    /// How a store reaches memory.
    RouteOnly { label: String },
    /// Updates of an element are one step each.
    IndivisibleOnly { label: String },
    /// Local arrays live longer.
    LifetimeOnly,
    /// The translation of terms takes no choice.
    Translated,

    /// The loop, or its blocks, have as many iterations as they can.
    Full { over: String },
    /// Accesses are inside of their arrays, because a check in the tree makes sure of this.
    InBounds { holds: Formula },
    /// Nothing fails that would fail otherwise, because a check in the tree makes sure of this.
    NoFailure { holds: Formula },
    /// A fact about sizes or inputs that the tree states or checks.
    Fact { holds: Formula },
}

impl Claim {
    pub fn theorem(&self) -> Theorem {
        use Claim::*;
        match self {
            DependencesKept
            | InstancesKept
            | OrderKept { .. }
            | Renumbered { .. }
            | Tiled { .. }
            | Phases
            | Threads { .. } => Theorem::Order,
            Exclusive { .. }
            | WrittenFirst { .. }
            | Redirected { .. }
            | Recomputed { .. }
            | PartsCombined { .. }
            | OnlyInside { .. }
            | ComputedInPlace { .. }
            | OwnElements { .. }
            | InputsKept { .. }
            | ComputedOnce { .. }
            | CombinedFirst { .. }
            | StartsFromTotals { .. }
            | StartsInOrder { .. }
            | OnlyBy { .. }
            | PartsBegin { .. }
            | PaddingUnread { .. }
            | Simplified { .. }
            | Overwritten { .. }
            | FilledAhead { .. }
            | PaddingDefined { .. } => Theorem::Value,
            Law { .. } | Equation { .. } | Associated { .. } | RoundedOnce { .. } | Unordered { .. } => {
                Theorem::Algebra
            }
            CachesOnly { .. }
            | LayoutOnly { .. }
            | HeldByUsers { .. }
            | SpaceOnly { .. }
            | RouteOnly { .. }
            | IndivisibleOnly { .. }
            | LifetimeOnly
            | Translated => Theorem::NoMeaning,
            Full { .. } | InBounds { .. } | NoFailure { .. } | Fact { .. } => Theorem::Size,
        }
    }

    /// The formulas among the operands.
    pub fn formulas(&self) -> Vec<&Formula> {
        fn of(window: &[Range]) -> Vec<&Formula> {
            window.iter().flat_map(|r| [&r.lo, &r.size]).collect()
        }
        match self {
            Claim::Renumbered { map } => map.iter().map(|m| &m.1).collect(),
            Claim::Redirected { window, .. }
            | Claim::Recomputed { window, .. }
            | Claim::WrittenFirst { window, .. } => of(window),
            Claim::PartsCombined { parts, own } => {
                parts.iter().flat_map(|p| of(&p.window)).chain([own]).collect()
            }
            Claim::InBounds { holds } | Claim::NoFailure { holds } | Claim::Fact { holds } => vec![holds],
            Claim::Simplified { named, .. } => named.iter().flat_map(|(name, value)| [name, value]).collect(),
            _ => Vec::new(),
        }
    }
}

impl fmt::Display for Simplified {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Simplified::Common => {
                "nothing that the expression reads is written between the places where it is computed"
            }
            Simplified::Stored => {
                "nothing that may alias the element is written between the store and the load"
            }
            Simplified::Invariant => {
                "nothing in the loop writes what is read, and every iteration would compute the same"
            }
            Simplified::Overwritten => {
                "a removed store is overwritten, or goes out of scope, before it is read"
            }
            Simplified::Unread => "nothing that remains reads what is removed",
            Simplified::Cell => "the variable is stored to once, before it is read",
            Simplified::Call => "a call of a pure function equals its value",
        })
    }
}

impl fmt::Display for Construction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Construction::Opened => "loops over all indices compute what the index notation says",
            Construction::Closed => "lowered again (`open`), it gives the original nest",
            Construction::Blocks => "blocks of consecutive iterations keep their order",
            Construction::Cut => "both parts keep their order",
            Construction::Separated => "the blocks keep their order",
            Construction::Unrolled => "unrolled iterations keep their order",
            Construction::Shifted => "the same iterations in the same order, numbered differently",
            Construction::Serial => "a serial loop runs its iterations in the reference order",
            Construction::InOrder => "iterations are added up in their order",
            Construction::Guarded => "the remaining instances keep their order",
            Construction::Combined => "every instance gives its element the value that it gave it",
            Construction::Unchanged => "the loops are already in this order",
        })
    }
}

impl fmt::Display for Range {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} + 0..{}", self.lo, self.size)?;
        if self.step == 1 { Ok(()) } else { write!(f, " by {}", self.step) }
    }
}

fn window(all: &[Range]) -> String {
    all.iter().map(Range::to_string).collect::<Vec<_>>().join(", ")
}

fn quoted(names: &[String]) -> String {
    names.iter().map(|b| format!("`{b}`")).collect::<Vec<_>>().join(", ")
}

impl fmt::Display for Claim {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        use Claim::*;
        match self {
            DependencesKept => f.write_str("every dependence keeps its order"),
            OrderKept { by } => by.fmt(f),
            Renumbered { map } => {
                let all: Vec<String> = map.iter().map(|(n, e)| format!("{n} = {e}")).collect();
                write!(
                    f,
                    "the new loops run over the image of the old iterations, each once: {}",
                    all.join(", ")
                )
            }
            Tiled { factors } => {
                let all: Vec<String> = factors.iter().map(|(n, c)| format!("{n} by {c}")).collect();
                write!(f, "the tiles contain every iteration once: {}", all.join(", "))
            }
            Redirected { array, buffer, window: w } => write!(
                f,
                "`{buffer}` stands for the box `{array}[{}]` in the statement: every access touches the copy of the element \
                 that it touched, what is read was copied in or written before, and what is written is copied out",
                window(w)
            ),
            Exclusive { array, buffer } => write!(
                f,
                "nothing else accesses `{array}` during the lifetime of `{buffer}`: no call, view or alias"
            ),
            WrittenFirst { array, window: w } => write!(
                f,
                "every element of `{array}` that an iteration reads was written by it before, in the box `{array}[{}]`",
                window(w)
            ),
            Recomputed { array, window: w } => write!(
                f,
                "everything that reads `{array}` is inside of the loop and in the box `{array}[{}]`, which is computed \
                 there alike, from the same values",
                window(w)
            ),
            PartsCombined { parts, own } => {
                let boxes: Vec<String> = parts
                    .iter()
                    .map(|p| format!("`{}[{}]` in `{}`", p.array, window(&p.window), p.buffer))
                    .collect();
                write!(
                    f,
                    "what was combined into {} goes to partial result {own}, each of which is combined into its element once",
                    boxes.join(", ")
                )
            }
            OnlyInside { array, .. } => {
                write!(f, "`{array}` is only used in the body of the loop")
            }
            ComputedInPlace { array } => {
                write!(
                    f,
                    "the value of every read of `{array}` is recomputed in its place, from the same values"
                )
            }
            OwnElements { array } => {
                write!(
                    f,
                    "every iteration has its own elements of `{array}`, which no other iteration accesses"
                )
            }
            InputsKept { label } => {
                write!(f, "nothing that `{label}` is computed from is written before it is complete")
            }
            ComputedOnce { of, arrays } => write!(
                f,
                "every value of `{of}` is computed once, by the original expression, and read from {}",
                quoted(arrays)
            ),
            CombinedFirst { of, arrays } => write!(
                f,
                "contributions of inner loops to `{of}` are combined first, from the identity and in \
                 order, and read from {}",
                quoted(arrays)
            ),
            StartsFromTotals { array, totals } => write!(
                f,
                "every iteration starts from the element of `{totals}` that holds, in order, everything that was combined \
                 into `{array}` before it"
            ),
            StartsInOrder { array, total } => write!(
                f,
                "every iteration combines `{total}`, which is what it combines into `{array}`, in order and at once, and starts \
                 from what it found"
            ),
            Phases => write!(
                f,
                "loops are divided at their barriers, and iterations that run at the same time touch nothing that one of them \
                 writes"
            ),
            Threads { threads, .. } => write!(
                f,
                "up to {threads} threads run the phases of a block, and no two touch what one of them writes without a barrier \
                 in between"
            ),
            OnlyBy { label, array, within: Within::Statement } => {
                write!(f, "only `{label}` accesses `{array}` in the statement")
            }
            OnlyBy { label, array, .. } => write!(f, "only `{label}` changes `{array}` in the loop"),
            PartsBegin { label } => write!(f, "every part of `{label}` has a first element"),
            PaddingUnread { array, over } => {
                write!(f, "elements of `{array}` that the added iterations of `{over}` write are never read")
            }
            Simplified { by, named } => {
                by.fmt(f)?;
                let all: Vec<String> = named.iter().map(|(n, e)| format!("{n} = {e}")).collect();
                if all.is_empty() { Ok(()) } else { write!(f, ": {}", all.join(", ")) }
            }
            FilledAhead { buffers, over, slots } => write!(
                f,
                "iterations of `{over}` fill {}, of {slots} slots, once each, before they read them and after the \
                 last use of their old content",
                quoted(buffers)
            ),
            PaddingDefined { over } => {
                write!(f, "every element that an added iteration of `{over}` reads exists and is defined")
            }
            Law { operator, law: self::Law::Identity } => write!(f, "`{operator}` has a neutral identity"),
            Law { operator, law: self::Law::Associative } => write!(f, "`{operator}` is associative"),
            Law { operator, law: self::Law::Commutative } => write!(f, "`{operator}` is commutative"),
            Equation { rule } => write!(f, "the equation `{rule}`"),
            Associated { label } => write!(f, "the operands of `{label}` are reassociated"),
            RoundedOnce { label } => {
                write!(f, "products are added to `{label}` without rounding them first (fused multiply-add)")
            }
            Unordered { label } => write!(f, "partial results of `{label}` may be combined in any order"),
            CachesOnly { array } => write!(f, "a prefetch of `{array}` affects only the caches"),
            LayoutOnly { array } => {
                write!(f, "the layout of `{array}` is injective, and no subscript changes")
            }
            HeldByUsers { array } => {
                write!(f, "every access of `{array}` is made by the iteration that holds the element")
            }
            SpaceOnly { array } => write!(f, "the memory space of `{array}` does not affect its values"),
            RouteOnly { label } => {
                write!(
                    f,
                    "the store instruction of `{label}` affects neither the stored values nor their order"
                )
            }
            Overwritten { label } => {
                write!(
                    f,
                    "every element that a removed store of `{label}` wrote is written again before it is read"
                )
            }
            IndivisibleOnly { label } => {
                write!(f, "every update of `{label}` is atomic, and combines the same value")
            }
            InstancesKept => f.write_str("every instance is run exactly once"),
            LifetimeOnly => f.write_str("local arrays may have a longer lifetime"),
            Translated => f.write_str("the term determines every choice: the translation makes none"),
            Full { over } => write!(f, "`{over}` has full blocks only"),
            InBounds { holds } => write!(f, "{holds} holds: an access is within the array's bounds"),
            NoFailure { holds } => write!(f, "{holds} holds: an operation does not fail"),
            Fact { holds } => write!(f, "{holds} holds"),
        }
    }
}

/// A buffer that a step made, or put elsewhere.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Made {
    pub name: String,
    pub extents: Vec<Formula>,
    pub space: String,
}

impl fmt::Display for Made {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}[{}] in {}", self.name, list(&self.extents), self.space)
    }
}

/// A fact that was in force, and who says so.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Relied {
    pub fact: Formula,
    pub from: String,
}

impl fmt::Display for Relied {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({})", self.fact, self.from)
    }
}
