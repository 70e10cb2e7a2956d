//! What the rules of the library that are code mean, as equations: tests prove them, and that the code does what they
//! say; the table in `docs/rules.md` is made of this one.

/// Name; why it holds, where that is no matter of the equation alone; the equation, where there is one.
pub type Stated = (&'static str, &'static str, &'static str);

const LAMBDA: &str = "the λ-calculus: both sides have the same normal form";
const KIND: &str =
    "it only chooses an executor or where a result is stored: such terms have the same meaning";
const LAWS: &str =
    "the laws of the operator, which are known for built-in ones and decided for others; up to rounding";
const STORE: &str = "a value that is stored and read again is unchanged";

/// In the order in which they are documented.
pub const STATED: &[Stated] = &[
    ("addId", "", "rule addId(x): id(x) => x"),
    ("removeId", "", "rule removeId(x): id(x) => x"),
    ("idToTranspose", "", "rule idToTranspose(x): id(transpose(transpose(x))) => x"),
    ("transposeMove", "", "rule transposeMove(f): map(map(f)) >> transpose => transpose >> map(map(f))"),
    ("mapFusion", "", "rule mapFusion(f, g): map(g) >> map(f) => map(|x| f(g(x)))"),
    ("mapFission", "", "rule mapFission(f, g): map(|x| f(g(x))) => map(g) >> map(f)"),
    ("splitJoin", "", "rule splitJoin(f, N): map(f) => split(N) >> map(map(f)) >> join"),
    ("mapIdentity", "", "rule mapIdentity: map(|x| x) => id"),
    ("mapConstant", "", "rule mapConstant(c, f, N): map(|_| c, generate(N, f)) => generate(N, |_| c)"),
    ("partOfTuple", "", "rule partOfTuple(x, y): (x, y).0 => x"),
    ("mapPartOfZip", "", "rule mapPartOfZip(x, y): map(fst, zip(x, y)) => x"),
    (
        "fuseReduceMap",
        "",
        "rule fuseReduceMap(f, o, z): map(f) >> reduceSeq(o, z) => reduceSeq(|a, y| o(a, f(y)), z)",
    ),
    (
        "fissionReduceMap",
        "",
        "rule fissionReduceMap(f, o, z): reduceSeq(|a, y| o(a, f(y)), z) => map(f) >> reduceSeq(o, z)",
    ),
    (
        "splitReduceSeq",
        "",
        "rule splitReduceSeq(o, z, N): reduceSeq(o, z) => split(N) >> reduceSeq(|a, c| reduceSeq(o, a, c), z)",
    ),
    ("split", "", "rule split(f, N): map(f) => split(N) >> map(map(f)) >> join"),
    (
        "blockReduce",
        LAWS,
        "rule blockReduce(o, z, N) rounds: reduce(o, z) => split(N) >> reduceSeq(|a, c| o(a, reduce(o, z, c)), z)",
    ),
    (
        "liftReduce",
        "",
        "rule liftReduce(e, o, z, xs): map(|x| reduceSeq(o, z, e(x)), xs) => reduceSeq(|a, y| map(|p| o(p.0, p.1), zip(a, y)), map(|_| z, xs), transpose(map(e, xs)))",
    ),
    (
        "exchangeMaps",
        "",
        "rule exchangeMaps(f, e): map(|x| map(f, e(x))) => map(e) >> transpose >> map(map(f)) >> transpose",
    ),
    (
        "sinkReduce",
        "",
        "rule sinkReduce(o, z, xs): reduceSeq(|a, y| map(|p| o(p), zip(a, y)), z, xs) => map(|p| reduceSeq(|a, y| o((a, y)), p.0, p.1), zip(z, transpose(xs)))",
    ),
    ("exchangeReduces", LAWS, ""),
    ("tileSlide", "", "rule tileSlide(A, U): slide(A, 1) => slide(U, U - A + 1) >> map(slide(A, 1)) >> join"),
    ("tileSlideRest", "", ""),
    ("slideToSplit", "", "rule slideToSplit(N): slide(N, N) => split(N)"),
    ("splitToSlide", "", "rule splitToSlide(N): split(N) => slide(N, N)"),
    ("joinSplit", "", "rule joinSplit(N): split(N) >> join => id"),
    ("mapTransposePair", "", "rule mapTransposePair: map(transpose) >> map(transpose) => id"),
    ("vectorize", "", "rule vectorize(f, N): map(f) => asVector(N) >> map(mapVec(f)) >> asScalar"),
    ("useFma", "one rounding instead of two", "rule useFma(x, y, z) rounds: x * y + z => fma(x, y, z)"),
    ("betaReduction", LAMBDA, ""),
    ("etaReduction", LAMBDA, ""),
    ("etaAbstraction", LAMBDA, ""),
    ("DFNF", LAMBDA, ""),
    ("storeWhere", STORE, ""),
    ("viewOutOfMem", STORE, ""),
    ("storeIntermediate", STORE, ""),
    ("storeIn", STORE, ""),
    ("copyElements", STORE, ""),
    ("copyByMap", STORE, ""),
    ("writeCopies", STORE, ""),
    ("accumulateIn", KIND, ""),
    ("lowerMap", KIND, ""),
    ("vectorizeMasked", KIND, ""),
    ("unroll", KIND, ""),
    ("toMapSeq", KIND, ""),
];
