//! The diagnostics of homomorphisms: system models, reading a compute, decisions, lowering (E12xx).

use lathe_diagnostics::{Code, CodeInfo};
pub use lathe_target::codes::{FORM as MODEL_FORM, MODEL};

/// Decisions that cannot be read.
pub const DECISIONS_FORM: Code = Code("E1203");
/// Decisions for another computation or model.
pub const DECISIONS_SHAPE: Code = Code("E1204");
/// A subscript that depends on data.
pub const SPARSE: Code = Code("E1205");
/// A computation over a domain that is not a box.
pub const RAGGED: Code = Code("E1206");
/// Different reductions in one homomorphism.
pub const MIXED: Code = Code("E1207");
/// Two results for one cell of an output.
pub const NOT_INJECTIVE: Code = Code("E1209");
/// A subscript out of bounds of its buffer.
pub const LEAVES: Code = Code("E1210");
/// The numbers of parts do not multiply to the extent.
pub const PARTS: Code = Code("E1211");
/// An order that is not a permutation of the levels.
pub const ORDER: Code = Code("E1212");
/// An assignment that is not a bijection.
pub const ASSIGNMENT: Code = Code("E1213");
/// A region that the model does not have.
pub const REGION: Code = Code("E1214");
/// A layout that is not a permutation of the buffer's dimensions.
pub const LAYOUT: Code = Code("E1215");
/// Parts of a scan are combined in an order that changes the result.
pub const SCAN_ORDER: Code = Code("E1216");
/// More parts at a core layer than the model allows.
pub const CORES: Code = Code("E1217");
/// Partial results where the cores that combine them cannot reach them.
pub const COMBINE_REGION: Code = Code("E1218");
/// More data in a region than fits.
pub const CAPACITY: Code = Code("E1219");
/// A decision that is still free.
pub const FREE: Code = Code("E1220");
/// The notation of homomorphisms cannot be read.
pub const NOTATION: Code = Code("E1221");
/// Not supported by the lowering.
pub const UNSUPPORTED: Code = Code("E1222");
/// A size that is missing or unusable.
pub const SIZE: Code = Code("E1223");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: DECISIONS_FORM,
        title: "decisions that cannot be read",
        explanation: "Decisions are written one per line, one bracket per layer and one entry per dimension; `_` leaves \
                      an entry to the tuner. The JSON form has the same entries, with `null` for what is free.",
        wrong: "parts [2 50 1] [2 1",
        right: "parts [2 50 1] [2 1 8]",
    },
    CodeInfo {
        code: DECISIONS_SHAPE,
        title: "decisions for another computation or model",
        explanation: "There must be one entry per layer of the model and dimension of the computation, and the tables \
                      of buffers must name buffers of the computation.",
        wrong: "parts [4 4] [2 2]   # for a computation with three dimensions",
        right: "parts [4 4 1] [2 2 1]",
    },
    CodeInfo {
        code: SPARSE,
        title: "subscript that depends on data",
        explanation: "The views of a homomorphism are static: which element an index reads must not depend on values \
                      (sparse formats, gathers). Write a strategy for such a computation.",
        wrong: "kernel gather(A: f32[N], at: i32[M]) -> (B: f32[M]) {\n    B[i] = A[at[i]]\n}",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}",
    },
    CodeInfo {
        code: RAGGED,
        title: "computation over a domain that is not a box",
        explanation: "A homomorphism combines the values of all indices of a box. Ranges that depend on other indices, \
                      guards, updates of old values, and subscripts that are not affine are not supported.",
        wrong: "kernel triangle(A: f32[N, N]) -> (s: f32[N]) {\n    s[i] = sum[j in 0..i](A[i, j])\n}",
        right: "kernel square(A: f32[N, N]) -> (s: f32[N]) {\n    s[i] = sum[j](A[i, j])\n}",
    },
    CodeInfo {
        code: MIXED,
        title: "different reductions in one homomorphism",
        explanation: "Dimensions may be reduced by different operators only if the operators commute with each other: combining rows and \
                      then columns must give what combining columns and then rows gives. Otherwise write \
                      two homomorphisms, one after the other.",
        wrong: "md_hom<I, J>( f, (pw(sum), pw(prod)) )",
        right: "md_hom<I, J>( f, (pw(sum), pw(sum)) )",
    },
    CodeInfo {
        code: NOT_INJECTIVE,
        title: "two results for one element of an output",
        explanation: "The output view must send different indices of concatenated dimensions to different elements.",
        wrong: "kernel fold(A: f32[N]) -> (B: f32[M]) {\n    B[i // 2] = A[i]\n}",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}",
    },
    CodeInfo {
        code: LEAVES,
        title: "subscript out of bounds of its buffer",
        explanation: "For the given sizes, an index function yields a subscript that is out of bounds.",
        wrong: "out_view<f32>( O:(i)->(i) ) o md_hom<N>( f, (++) ) o inp_view<f32>( I:(i)->(i-1) )",
        right: "out_view<f32>( O:(i)->(i) ) o md_hom<N>( f, (++) ) o inp_view<f32>( I:(i)->(i+1) )",
    },
    CodeInfo {
        code: PARTS,
        title: "numbers of parts that do not multiply to the extent",
        explanation: "The numbers of parts of all layers must multiply to the extent of the dimension, so that \
                      every fully indexed part is one point. With `partial tiles`, the remainder (or the \
                      excess) is processed as partial tiles.",
        wrong: "parts [16] [1] [1181]   # for an extent of 2048",
        right: "parts [16] [1] [128]",
    },
    CodeInfo {
        code: ORDER,
        title: "order that is not a permutation",
        explanation: "D1, S1 and R1 give every level its rank; each rank from 1 to the number of levels occurs once.",
        wrong: "D1 [1 2] [2 4]",
        right: "D1 [1 2] [3 4]",
    },
    CodeInfo {
        code: ASSIGNMENT,
        title: "assignment that is not a bijection",
        explanation: "D2, S2 and R2 assign every level of the computation to one level (layer and dimension) of the \
                      model; no two levels may share one.",
        wrong: "D2 [COR.x COR.x]",
        right: "D2 [COR.x COR.y]",
    },
    CodeInfo {
        code: REGION,
        title: "region that the model does not have",
        explanation: "D3, S3, S5 and R3 name memory regions of the model.",
        wrong: "S3 A SM   # for an OpenMP model",
        right: "S3 A L1",
    },
    CodeInfo {
        code: LAYOUT,
        title: "layout that is not a permutation",
        explanation: "D4, S4, S6 and R4 permute the dimensions of a buffer: `<1,2>` is row-major, `<2,1>` column-major.",
        wrong: "S4 A <1,1>",
        right: "S4 A <2,1>",
    },
    CodeInfo {
        code: SCAN_ORDER,
        title: "scan combined out of order",
        explanation: "In a dimension whose operator depends on the order of indices (a prefix sum, or an operator that \
                      is only associative), coarser layers must be combined outside of finer ones: R1 must rank the \
                      layers of this dimension in increasing order. Otherwise parts interleave and the result is wrong.",
        wrong: "R1 [2] [1]   # for a scan",
        right: "R1 [1] [2]",
    },
    CodeInfo {
        code: CORES,
        title: "too many parts for a core layer",
        explanation: "The model limits how many parts all dimensions together may have at one of its core layers, for \
                      example the threads of a block.",
        wrong: "parts [64 32]   # 2048 threads on CUDA",
        right: "parts [32 32]",
    },
    CodeInfo {
        code: COMBINE_REGION,
        title: "partial results in a region that not all cores can access",
        explanation: "When cores combine (reduce) their results, these must be in a region that all of them can access: \
                      blocks combine in device memory, threads of a block in device or shared memory.",
        wrong: "R3 C [SM]   # the level is reduced by blocks",
        right: "R3 C [DM]",
    },
    CodeInfo {
        code: CAPACITY,
        title: "region too small",
        explanation: "The tiles that the decisions place in a region need more bytes than the model gives it.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: FREE,
        title: "decision that is still free",
        explanation: "Lowering and evaluation need every decision; leave free ones to the tuner, or complete them.",
        wrong: "parts [_ 4]",
        right: "parts [8 4]",
    },
    CodeInfo {
        code: NOTATION,
        title: "homomorphism that cannot be read",
        explanation: "The notation is `NAME<T in TYPE | SIZES in IN> := out_view<..>(..) o md_hom<..>(f, (..)) o \
                      inp_view<..>(..)`, with index functions like `(i,k)->(i,k+1)`.",
        wrong: "out_view<f32>( w:(i)->(i) ) o md_hom<I,K>( *, (++,+) ) o inp_view<f32>( v:(i,k)->(k) )",
        right: "out_view<f32>( w:(i,k)->(i) ) o md_hom<I,K>( id, (++,+) ) o inp_view<f32>( v:(i,k)->(k) )",
    },
    CodeInfo {
        code: UNSUPPORTED,
        title: "decisions for which lowering is not implemented yet",
        explanation: "The decisions are valid, but this version has no sequence of steps for \
                      them; the message names the decision.",
        wrong: "",
        right: "",
    },
    CodeInfo {
        code: SIZE,
        title: "size that is missing or unusable",
        explanation: "Every size of the computation needs a value of at least 0, and no extent may be negative.",
        wrong: "",
        right: "",
    },
];
