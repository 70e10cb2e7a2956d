//! The diagnostics of homomorphisms: system models, reading a compute, decisions, lowering (E12xx).

use lathe_diagnostics::Code;
pub use lathe_target::codes::{FORM as MODEL_FORM, MODEL};

lathe_diagnostics::codes! {
    /// Decisions are written one per line, one bracket per layer and one entry per dimension; `_` leaves an
    /// entry to the tuner. The JSON form has the same entries, with `null` for what is free.
    DECISIONS_FORM = Code("E1203"), "decisions that cannot be read",
        wrong: "parts [2 50 1] [2 1",
        right: "parts [2 50 1] [2 1 8]";

    /// There must be one entry per layer of the model and dimension of the computation, and the tables of
    /// buffers must name buffers of the computation.
    DECISIONS_SHAPE = Code("E1204"), "decisions for another computation or model",
        wrong: "parts [4 4] [2 2]   # for a computation with three dimensions",
        right: "parts [4 4 1] [2 2 1]";

    /// The views of a homomorphism are static: which element an index reads must not depend on values (sparse
    /// formats, gathers). Write a strategy for such a computation.
    SPARSE = Code("E1205"), "subscript that depends on data",
        wrong: "kernel gather(A: f32[N], at: i32[M]) -> (B: f32[M]) {\n    B[i] = A[at[i]]\n}",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}";

    /// A homomorphism combines the values of all indices of a box. Ranges that depend on other indices, guards,
    /// updates of old values, and subscripts that are not affine are not supported.
    RAGGED = Code("E1206"), "computation over a domain that is not a box",
        wrong: "kernel triangle(A: f32[N, N]) -> (s: f32[N]) {\n    s[i] = sum[j in 0..i](A[i, j])\n}",
        right: "kernel square(A: f32[N, N]) -> (s: f32[N]) {\n    s[i] = sum[j](A[i, j])\n}";

    /// Dimensions may be reduced by different operators only if the operators commute with each other:
    /// combining rows and then columns must give what combining columns and then rows gives. Otherwise write
    /// two homomorphisms, one after the other.
    MIXED = Code("E1207"), "different reductions in one homomorphism",
        wrong: "md_hom<I, J>( f, (pw(sum), pw(prod)) )",
        right: "md_hom<I, J>( f, (pw(sum), pw(sum)) )";

    /// The output view must send different indices of concatenated dimensions to different elements.
    NOT_INJECTIVE = Code("E1209"), "two results for one element of an output",
        wrong: "kernel fold(A: f32[N]) -> (B: f32[M]) {\n    B[i // 2] = A[i]\n}",
        right: "kernel copy(A: f32[N]) -> (B: f32[N]) {\n    B[i] = A[i]\n}";

    /// For the given sizes, an index function yields a subscript that is out of bounds.
    LEAVES = Code("E1210"), "subscript out of bounds of its buffer",
        wrong: "out_view<f32>( O:(i)->(i) ) o md_hom<N>( f, (++) ) o inp_view<f32>( I:(i)->(i-1) )",
        right: "out_view<f32>( O:(i)->(i) ) o md_hom<N>( f, (++) ) o inp_view<f32>( I:(i)->(i+1) )";

    /// The numbers of parts of all layers must multiply to the extent of the dimension, so that every fully
    /// indexed part is one point. With `partial tiles`, the remainder (or the excess) is processed as partial
    /// tiles.
    PARTS = Code("E1211"), "numbers of parts that do not multiply to the extent",
        wrong: "parts [16] [1] [1181]   # for an extent of 2048",
        right: "parts [16] [1] [128]";

    /// D1, S1 and R1 give every level its rank; each rank from 1 to the number of levels occurs once.
    ORDER = Code("E1212"), "order that is not a permutation",
        wrong: "D1 [1 2] [2 4]",
        right: "D1 [1 2] [3 4]";

    /// D2, S2 and R2 assign every level of the computation to one level (layer and dimension) of the model; no
    /// two levels may share one.
    ASSIGNMENT = Code("E1213"), "assignment that is not a bijection",
        wrong: "D2 [COR.x COR.x]",
        right: "D2 [COR.x COR.y]";

    /// D3, S3, S5 and R3 name memory regions of the model.
    REGION = Code("E1214"), "region that the model does not have",
        wrong: "S3 A SM   # for an OpenMP model",
        right: "S3 A L1";

    /// D4, S4, S6 and R4 permute the dimensions of a buffer: `<1,2>` is row-major, `<2,1>` column-major.
    LAYOUT = Code("E1215"), "layout that is not a permutation",
        wrong: "S4 A <1,1>",
        right: "S4 A <2,1>";

    /// In a dimension whose operator depends on the order of indices (a prefix sum, or an operator that is only
    /// associative), coarser layers must be combined outside of finer ones: R1 must rank the layers of this
    /// dimension in increasing order. Otherwise parts interleave and the result is wrong.
    SCAN_ORDER = Code("E1216"), "scan combined out of order",
        wrong: "R1 [2] [1]   # for a scan",
        right: "R1 [1] [2]";

    /// The model limits how many parts all dimensions together may have at one of its core layers, for example
    /// the threads of a block.
    CORES = Code("E1217"), "too many parts for a core layer",
        wrong: "parts [64 32]   # 2048 threads on CUDA",
        right: "parts [32 32]";

    /// When cores combine (reduce) their results, these must be in a region that all of them can access: blocks
    /// combine in device memory, threads of a block in device or shared memory.
    COMBINE_REGION = Code("E1218"), "partial results in a region that not all cores can access",
        wrong: "R3 C [SM]   # the level is reduced by blocks",
        right: "R3 C [DM]";

    /// The tiles that the decisions place in a region need more bytes than the model gives it.
    CAPACITY = Code("E1219"), "region too small";

    /// Lowering and evaluation need every decision; leave free ones to the tuner, or complete them.
    FREE = Code("E1220"), "decision that is still free",
        wrong: "parts [_ 4]",
        right: "parts [8 4]";

    /// The notation is `NAME<T in TYPE | SIZES in IN> := out_view<..>(..) o md_hom<..>(f, (..)) o
    /// inp_view<..>(..)`, with index functions like `(i,k)->(i,k+1)`.
    NOTATION = Code("E1221"), "homomorphism that cannot be read",
        wrong: "out_view<f32>( w:(i)->(i) ) o md_hom<I,K>( *, (++,+) ) o inp_view<f32>( v:(i,k)->(k) )",
        right: "out_view<f32>( w:(i,k)->(i) ) o md_hom<I,K>( id, (++,+) ) o inp_view<f32>( v:(i,k)->(k) )";

    /// The decisions are valid, but this version has no sequence of steps for them; the message names the
    /// decision.
    UNSUPPORTED = Code("E1222"), "decisions for which lowering is not implemented yet";

    /// Every size of the computation needs a value of at least 0, and no extent may be negative.
    SIZE = Code("E1223"), "size that is missing or unusable";
}
