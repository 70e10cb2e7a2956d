//! The equations that are data: how stages of a pipeline move past one another.

use super::equation::{Equation, parse_equations};

/// In the notation of the language. Every one is tested on random terms.
pub const EQUATIONS: &str = "
# transpose past the nest, the other way than transposeMove
rule transposeBack(f): transpose >> map(map(f)) => map(map(f)) >> transpose
rule splitBeforeMap(f, N): map(f) >> split(N) => split(N) >> map(map(f))
rule mapBeforeSplit(f, N): split(N) >> map(map(f)) => map(f) >> split(N)
rule joinBeforeMap(f): map(map(f)) >> join => join >> map(f)
rule mapBeforeJoin(f): join >> map(f) => map(map(f)) >> join
rule transposeSplit(N): transpose >> split(N) => map(split(N)) >> transpose >> map(transpose)
rule transposeMapSplit(N): transpose >> map(split(N)) => split(N) >> map(transpose) >> transpose
rule mapSplitTranspose(N): map(split(N)) >> transpose => transpose >> split(N) >> map(transpose)
rule joinTranspose: join >> transpose => map(transpose) >> transpose >> map(join)
rule transposeMapJoin: transpose >> map(join) => map(transpose) >> join >> transpose
rule mapTransposeJoin: map(transpose) >> join => transpose >> map(join) >> transpose
rule mapJoinTranspose: map(join) >> transpose => transpose >> map(transpose) >> join
rule joinJoin: join >> join => map(join) >> join
rule mapJoinJoin: map(join) >> join => join >> join
rule slideBeforeMap(f, N, S): map(f) >> slide(N, S) => slide(N, S) >> map(map(f))
rule mapSlideTranspose(N, S): map(slide(N, S)) >> transpose => transpose >> slide(N, S) >> map(transpose)
rule mapConcat(f, x, y): map(f, concat(x, y)) => concat(map(f, x), map(f, y))
rule transposeTranspose: transpose >> transpose => id
rule splitJoinId(N): split(N) >> join => id
rule unzipZip(x, y): unzip(zip(x, y)) => (x, y)
rule zipUnzip(p): zip(fst(unzip(p)), snd(unzip(p))) => p
rule asVectorScalar(N): asVector(N) >> asScalar => id
";

/// The text is part of the crate; a test reads it.
pub(super) fn all() -> Vec<Equation> {
    parse_equations(EQUATIONS).unwrap_or_default()
}
