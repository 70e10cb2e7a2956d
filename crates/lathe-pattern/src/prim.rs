//! The primitives, as data. High-level ones say what is computed, low-level ones also who computes it and
//! where results are kept; layout primitives only say where things are found, and never cost anything.

use crate::nat::Nat;
use lathe_ir::{BinOp, MathFn, Name, Scalar, Space, UnOp};

/// Who runs the elements of a `map`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MapKind {
    /// Not decided.
    High,
    /// A loop.
    Seq,
    /// Written out; constant size.
    Unroll,
    /// Threads of the host.
    Cpu,
    /// A level of a target: `grid`, `cluster`, `block`, `warp`, `lane`.
    Level(Name),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum FoldKind {
    High,
    Seq,
    Unroll,
}

/// What `pad` reads outside of the array.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PadMode {
    /// The nearest element.
    Clamp,
    /// Reflected at the border, the border element twice: `b a | a b c`.
    Mirror,
    /// From the other end.
    Wrap,
}

/// Types are in [`crate::scheme`], meanings in [`crate::eval`].
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Prim {
    Id,
    Unary(UnOp),
    Binary(BinOp),
    Math(MathFn),
    /// Also of an index to a number.
    Cast(Scalar),
    /// `select(c, a, b)`, lazy.
    Select,
    /// Makes a tuple of so many parts.
    Tuple(usize),
    /// Part `.0` of a tuple of `.1` parts.
    Proj(usize, usize),
    /// A size as a number.
    NatValue(Nat),
    /// A number as an index below a size; it must be one.
    AsIndex(Nat),

    Map(MapKind),
    /// SIMD: over a vector, or (with a width) over an array of any size, the last lanes masked.
    MapVec(Option<Nat>),
    /// `.1`: where the accumulator is kept, if the program says so.
    Reduce(FoldKind, Option<Space>),
    /// Inclusive: element `i` combines elements `0..=i`.
    Scan(FoldKind),
    /// So many applications of a function to its own result; `.1`: in which space the two buffers are.
    Iterate(Nat, FoldKind),

    Zip,
    Unzip,
    /// Into chunks of a length.
    Split(Nat),
    Join,
    Transpose,
    /// Windows of a size, so many elements apart.
    Slide(Nat, Nat),
    /// Left, right.
    Pad(Nat, Nat, PadMode),
    /// `padValue(l, r, v)`: a value outside.
    PadValue(Nat, Nat),
    /// `padWith(l, r, h)`: `h(i, n)` outside, where `i` counts from the first element of `n`.
    PadWith(Nat, Nat),
    Take(Nat),
    Drop(Nat),
    Concat,
    /// Element `i` is element `f(i)` of the argument.
    Gather,
    /// Element `f(i)` is element `i` of the argument, for a bijection `f`.
    Scatter,
    /// `reorder(f, g)`: gathers by `f`, whose inverse is `g`.
    Reorder,
    Generate(Nat),
    /// `at(i, xs)`, an index below the size.
    At,
    /// An element by a constant position.
    AtNat(Nat),

    AsVector(Nat),
    AsScalar,
    VectorFromScalar(Nat),

    /// `let(e, |x| b)`, computed once.
    Let,
    /// `toMem(space, e, |x| b)`: stored, then read as `x` in `b`.
    ToMem(Space),
    /// `circularBuffer(alloc, size, load, xs)`: windows whose elements are loaded once, kept in a ring of `alloc`.
    CircularBuffer(Nat, Nat),
    /// `rotateValues(size, write, xs)`: windows whose elements are loaded once and rotated through registers.
    RotateValues(Nat),
}

/// Levels of targets that `map` has names for.
pub const LEVELS: [(&str, &str); 5] = [
    ("mapGrid", "grid"),
    ("mapCluster", "cluster"),
    ("mapBlock", "block"),
    ("mapWarp", "warp"),
    ("mapLane", "lane"),
];

/// The sizes in a primitive, shared or exclusive as it is given.
macro_rules! nats {
    ($prim:expr) => {
        match $prim {
            Prim::NatValue(n)
            | Prim::AsIndex(n)
            | Prim::Iterate(n, _)
            | Prim::Split(n)
            | Prim::Take(n)
            | Prim::Drop(n)
            | Prim::Generate(n)
            | Prim::AtNat(n)
            | Prim::AsVector(n)
            | Prim::VectorFromScalar(n)
            | Prim::RotateValues(n)
            | Prim::MapVec(Some(n)) => vec![n],
            Prim::Slide(a, b)
            | Prim::Pad(a, b, _)
            | Prim::PadValue(a, b)
            | Prim::PadWith(a, b)
            | Prim::CircularBuffer(a, b) => vec![a, b],
            _ => vec![],
        }
    };
}

impl Prim {
    /// The name in the text form; [`Prim::nats`] and others follow it as arguments.
    pub fn name(&self) -> &str {
        match self {
            Prim::Id => "id",
            Prim::Unary(UnOp::Neg) => "neg",
            Prim::Unary(UnOp::Not) => "not",
            Prim::Binary(op) => binary_name(*op),
            Prim::Math(f) => f.name(),
            Prim::Cast(s) => s.name(),
            Prim::Select => "select",
            Prim::Tuple(2) => "pair",
            Prim::Tuple(_) => "tuple",
            Prim::Proj(0, 2) => "fst",
            Prim::Proj(1, 2) => "snd",
            Prim::Proj(..) => "part",
            Prim::NatValue(_) => "size",
            Prim::AsIndex(_) => "asIndex",
            Prim::Map(k) => match k {
                MapKind::High => "map",
                MapKind::Seq => "mapSeq",
                MapKind::Unroll => "mapUnroll",
                MapKind::Cpu => "mapCpu",
                MapKind::Level(l) => LEVELS.iter().find(|e| e.1 == &**l).map_or("mapLevel", |e| e.0),
            },
            Prim::MapVec(_) => "mapVec",
            Prim::Reduce(FoldKind::High, _) => "reduce",
            Prim::Reduce(FoldKind::Seq, None) => "reduceSeq",
            Prim::Reduce(FoldKind::Seq, Some(_)) => "reduceSeqIn",
            Prim::Reduce(FoldKind::Unroll, None) => "reduceUnroll",
            Prim::Reduce(FoldKind::Unroll, Some(_)) => "reduceUnrollIn",
            Prim::Scan(FoldKind::High) => "scan",
            Prim::Scan(FoldKind::Seq) => "scanSeq",
            Prim::Scan(FoldKind::Unroll) => "scanUnroll",
            Prim::Iterate(_, FoldKind::High) => "iterate",
            Prim::Iterate(_, FoldKind::Seq) => "iterateSeq",
            Prim::Iterate(_, FoldKind::Unroll) => "iterateUnroll",
            Prim::Zip => "zip",
            Prim::Unzip => "unzip",
            Prim::Split(_) => "split",
            Prim::Join => "join",
            Prim::Transpose => "transpose",
            Prim::Slide(..) => "slide",
            Prim::Pad(..) => "pad",
            Prim::PadValue(..) => "padValue",
            Prim::PadWith(..) => "padWith",
            Prim::Take(_) => "take",
            Prim::Drop(_) => "drop",
            Prim::Concat => "concat",
            Prim::Gather => "gather",
            Prim::Scatter => "scatter",
            Prim::Reorder => "reorder",
            Prim::Generate(_) => "generate",
            Prim::At => "at",
            Prim::AtNat(_) => "element",
            Prim::AsVector(_) => "asVector",
            Prim::AsScalar => "asScalar",
            Prim::VectorFromScalar(_) => "vectorFromScalar",
            Prim::Let => "bind",
            Prim::ToMem(_) => "toMem",
            Prim::CircularBuffer(..) => "circularBuffer",
            Prim::RotateValues(_) => "rotateValues",
        }
    }

    /// Size arguments, in the order of the text form.
    pub fn nats(&self) -> Vec<&Nat> {
        nats!(self)
    }

    /// With other size arguments.
    pub fn map_nats(&self, f: &mut dyn FnMut(&Nat) -> Nat) -> Prim {
        let mut new = self.clone();
        for n in nats!(&mut new) {
            *n = f(n);
        }
        new
    }

    /// Number of term arguments that saturate it.
    pub fn arity(&self) -> usize {
        match self {
            Prim::NatValue(_) => 0,
            Prim::Binary(_)
            | Prim::Map(_)
            | Prim::MapVec(_)
            | Prim::Iterate(..)
            | Prim::Zip
            | Prim::PadValue(..)
            | Prim::PadWith(..)
            | Prim::Concat
            | Prim::Gather
            | Prim::Scatter
            | Prim::At
            | Prim::Let
            | Prim::ToMem(_)
            | Prim::CircularBuffer(..)
            | Prim::RotateValues(_) => 2,
            Prim::Select | Prim::Reduce(..) | Prim::Scan(_) | Prim::Reorder => 3,
            Prim::Tuple(n) => *n,
            Prim::Math(f) => f.arity(),
            _ => 1,
        }
    }
    /// Computes on scalars.
    pub fn is_scalar_operation(&self) -> bool {
        matches!(self, Prim::Unary(_) | Prim::Binary(_) | Prim::Math(_) | Prim::Cast(_) | Prim::Select)
    }

    /// Only says where things are found.
    pub fn is_layout(&self) -> bool {
        matches!(
            self,
            Prim::Zip
                | Prim::Unzip
                | Prim::Split(_)
                | Prim::Join
                | Prim::Transpose
                | Prim::Slide(..)
                | Prim::Pad(..)
                | Prim::PadValue(..)
                | Prim::PadWith(..)
                | Prim::Take(_)
                | Prim::Drop(_)
                | Prim::Concat
                | Prim::Gather
                | Prim::Scatter
                | Prim::Reorder
                | Prim::Generate(_)
                | Prim::At
                | Prim::AtNat(_)
                | Prim::AsVector(_)
                | Prim::AsScalar
                | Prim::VectorFromScalar(_)
                | Prim::Tuple(_)
                | Prim::Proj(..)
                | Prim::Id
        )
    }
}

/// Names of operators as functions, as in `reduce(add, 0)`.
pub(crate) fn binary_name(op: BinOp) -> &'static str {
    use BinOp::*;
    match op {
        Add => "add",
        Sub => "sub",
        Mul => "mul",
        Div => "div",
        FloorDiv => "floordiv",
        FloorMod => "floormod",
        TruncDiv => "tdiv",
        TruncRem => "trem",
        Min => "min",
        Max => "max",
        And => "bitand",
        Or => "bitor",
        Xor => "xor",
        Shl => "shl",
        Shr => "shr",
        Eq => "equal",
        Ne => "unequal",
        Lt => "less",
        Le => "lessequal",
        Gt => "greater",
        Ge => "greaterequal",
    }
}
