//! What the names of primitives mean in the text form.

use crate::ast::{Ast, AstKind};
use crate::codes;
use crate::nat::Nat;
use crate::parse::nat_of;
use crate::prim::{FoldKind, LEVELS, MapKind, PadMode, Prim, binary_name};
use lathe_diagnostics::{Diagnostic, Span};
use lathe_ir::{BinOp, MathFn, Name, Scalar, Space, UnOp};

/// A primitive that needs no argument in the text but terms.
fn plain(name: &str) -> Option<Prim> {
    Some(match name {
        "id" => Prim::Id,
        "neg" => Prim::Unary(UnOp::Neg),
        "select" => Prim::Select,
        "pair" => Prim::Tuple(2),
        "fst" => Prim::Proj(0, 2),
        "snd" => Prim::Proj(1, 2),
        "map" => Prim::Map(MapKind::High),
        "mapSeq" => Prim::Map(MapKind::Seq),
        "mapUnroll" => Prim::Map(MapKind::Unroll),
        "mapCpu" => Prim::Map(MapKind::Cpu),
        "reduce" => Prim::Reduce(FoldKind::High, None),
        "reduceSeq" => Prim::Reduce(FoldKind::Seq, None),
        "reduceUnroll" => Prim::Reduce(FoldKind::Unroll, None),
        "scan" => Prim::Scan(FoldKind::High),
        "scanSeq" => Prim::Scan(FoldKind::Seq),
        "scanUnroll" => Prim::Scan(FoldKind::Unroll),
        "zip" => Prim::Zip,
        "unzip" => Prim::Unzip,
        "join" => Prim::Join,
        "transpose" => Prim::Transpose,
        "concat" => Prim::Concat,
        "gather" => Prim::Gather,
        "scatter" => Prim::Scatter,
        "reorder" => Prim::Reorder,
        "at" => Prim::At,
        "asScalar" => Prim::AsScalar,
        "bind" => Prim::Let,
        _ => {
            if let Some(level) = LEVELS.iter().find(|l| l.0 == name) {
                Prim::Map(MapKind::Level(Name::from(level.1)))
            } else if let Some(op) = BinOp::ALL.into_iter().find(|op| binary_name(*op) == name) {
                Prim::Binary(op)
            } else if let Some(f) = MathFn::from_name(name) {
                Prim::Math(f)
            } else {
                Prim::Cast(Scalar::from_name(name)?)
            }
        }
    })
}

/// Number of size arguments that a name takes before its terms, if it takes any.
fn sized(name: &str) -> Option<usize> {
    Some(match name {
        "split" | "take" | "drop" | "generate" | "element" | "asVector" | "vectorFromScalar"
        | "rotateValues" | "iterate" | "iterateSeq" | "iterateUnroll" | "asIndex" | "size" | "toMem"
        | "reduceSeqIn" | "reduceUnrollIn" => 1,
        "slide" | "padValue" | "padWith" | "circularBuffer" | "part" => 2,
        "pad" => 3,
        _ => return None,
    })
}

/// Whether a name means a primitive.
pub fn is_primitive(name: &str) -> bool {
    name == "mapVec" || plain(name).is_some() || sized(name).is_some()
}

/// The primitive of a name, and how many of the arguments belong to it; `None` if it is not a primitive.
/// `known` says whether a name is a size.
pub fn primitive(
    name: &str,
    args: &[Ast],
    span: Span,
    known: &dyn Fn(&str) -> bool,
) -> Result<Option<(Prim, usize)>, Diagnostic> {
    // With a width it works on arrays, without on vectors.
    if name == "mapVec" {
        return Ok(Some(match args.first() {
            Some(a) if is_size(a, known) => (Prim::MapVec(Some(nat_of(a)?)), 1),
            _ => (Prim::MapVec(None), 0),
        }));
    }
    let Some(count) = sized(name) else { return Ok(plain(name).map(|p| (p, 0))) };
    if args.len() < count {
        let text = format!("`{name}` takes {}", arguments(name));
        return Err(Diagnostic::error(codes::ARGUMENTS, text).at(span, "arguments are missing"));
    }
    let nat = |n: usize| -> Result<Nat, Diagnostic> {
        let size = nat_of(&args[n])?;
        match size.vars().iter().find(|v| !known(v)) {
            None => Ok(size),
            Some(v) => {
                let text = format!("`{name}` takes {}; `{v}` is not a size", arguments(name));
                Err(Diagnostic::error(codes::ARGUMENTS, text)
                    .at(args[n].span, "sizes are bound by the types of parameters"))
            }
        }
    };
    let space = |n: usize| match &*args[n].kind {
        AstKind::Name(s) if Space::from_name(s).is_some() => Ok(Space::from_name(s).unwrap_or(Space::Host)),
        _ => {
            let names: Vec<&str> = Space::ALL.into_iter().map(Space::name).collect();
            Err(Diagnostic::error(codes::ARGUMENTS, format!("`{name}` takes {}", arguments(name)))
                .at(args[n].span, "no space")
                .help(format!("spaces are {}", names.join(", "))))
        }
    };
    let part = |n: usize| {
        let v = nat_of(&args[n])?.as_constant();
        v.and_then(|v| usize::try_from(v).ok()).ok_or_else(|| {
            Diagnostic::error(codes::ARGUMENTS, "`part` takes two numbers").at(args[n].span, "no number")
        })
    };
    let prim = match name {
        "split" => Prim::Split(nat(0)?),
        "take" => Prim::Take(nat(0)?),
        "drop" => Prim::Drop(nat(0)?),
        "generate" => Prim::Generate(nat(0)?),
        "element" => Prim::AtNat(nat(0)?),
        "asVector" => Prim::AsVector(nat(0)?),
        "vectorFromScalar" => Prim::VectorFromScalar(nat(0)?),
        "rotateValues" => Prim::RotateValues(nat(0)?),
        "iterate" => Prim::Iterate(nat(0)?, FoldKind::High),
        "iterateSeq" => Prim::Iterate(nat(0)?, FoldKind::Seq),
        "iterateUnroll" => Prim::Iterate(nat(0)?, FoldKind::Unroll),
        "asIndex" => Prim::AsIndex(nat(0)?),
        "size" => Prim::NatValue(nat(0)?),
        "toMem" => Prim::ToMem(space(0)?),
        "reduceSeqIn" => Prim::Reduce(FoldKind::Seq, Some(space(0)?)),
        "reduceUnrollIn" => Prim::Reduce(FoldKind::Unroll, Some(space(0)?)),
        "slide" => Prim::Slide(nat(0)?, nat(1)?),
        "padValue" => Prim::PadValue(nat(0)?, nat(1)?),
        "padWith" => Prim::PadWith(nat(0)?, nat(1)?),
        "circularBuffer" => Prim::CircularBuffer(nat(0)?, nat(1)?),
        "part" => match (part(0)?, part(1)?) {
            (i, n) if i < n && n <= 64 => Prim::Proj(i, n),
            _ => {
                return Err(Diagnostic::error(codes::ARGUMENTS, "there is no such component")
                    .at(args[0].span, "counts from 0"));
            }
        },
        _ => {
            let mode = match &*args[2].kind {
                AstKind::Name(m) if &**m == "clamp" => PadMode::Clamp,
                AstKind::Name(m) if &**m == "mirror" => PadMode::Mirror,
                AstKind::Name(m) if &**m == "wrap" => PadMode::Wrap,
                _ => {
                    return Err(Diagnostic::error(
                        codes::ARGUMENTS,
                        format!("`pad` takes {}", arguments(name)),
                    )
                    .at(args[2].span, "what is outside")
                    .help("`padValue(l, r, v)` has a value outside, `padWith(l, r, h)` a function"));
                }
            };
            Prim::Pad(nat(0)?, nat(1)?, mode)
        }
    };
    Ok(Some((prim, count)))
}

/// Whether an expression says a size.
fn is_size(e: &Ast, known: &dyn Fn(&str) -> bool) -> bool {
    !matches!(&*e.kind, AstKind::Call(..)) && nat_of(e).is_ok_and(|n| n.vars().iter().all(|v| known(v)))
}

/// The arguments of a primitive in words.
fn arguments(name: &str) -> &'static str {
    match name {
        "slide" => "the size of the windows, their stride, and an array",
        "pad" => "how much left, how much right, `clamp`, `mirror` or `wrap`, and an array",
        "padValue" => "how much left, how much right, a value, and an array",
        "padWith" => "how much left, how much right, a function of position and size, and an array",
        "circularBuffer" => "the size of the ring, the size of the windows, a function, and an array",
        "toMem" => "a space, what is stored, and a function of it",
        "reduceSeqIn" | "reduceUnrollIn" => "a space, an operator, a start, and an array",
        "part" => "which component, of how many, and a tuple",
        _ => "a size first",
    }
}
