//! What other systems call the steps: for people who come from them.

/// The word of another system, and the step that does it here.
const WORDS: &[(&str, &str)] = &[
    ("interchange", "reorder"),
    ("permute", "reorder"),
    ("strip_mine", "split"),
    ("stripmine", "split"),
    ("block", "tile"),
    ("tiling", "tile"),
    ("jam", "unroll_and_jam"),
    ("unroll_jam", "unroll_and_jam"),
    ("interleave", "unroll_and_jam"),
    ("register_tile", "unroll_and_jam"),
    ("skew", "remap"),
    ("wavefront", "remap"),
    ("affine", "remap"),
    ("map_domain", "remap"),
    ("simd", "vectorize"),
    ("vec", "vectorize"),
    ("vector", "vectorize"),
    ("bind", "parallel"),
    ("parallelize", "parallel"),
    ("omp", "parallel"),
    ("cache_read", "stage"),
    ("cache_write", "stage"),
    ("cache", "stage"),
    ("pack", "stage"),
    ("prefetch", "stage"),
    ("buffer_at", "stage"),
    ("accumulate", "stage"),
    ("store_at", "compute_at"),
    ("compute_root", "fission"),
    ("compute_inline", "inline"),
    ("loop_fission", "fission"),
    ("merge", "fuse"),
    ("loop_fusion", "fuse"),
    ("rfactor", "factor"),
    ("split_reduction", "factor"),
    ("index_split", "cut"),
    ("partition", "cut"),
    ("isolate", "separate"),
    ("guard", "separate"),
    ("fused_multiply_add", "fma"),
    ("fp_contract", "fma"),
    ("atomics", "atomic"),
    ("stream", "nontemporal"),
    ("streaming", "nontemporal"),
    ("layout", "set_layout"),
    ("transform_layout", "set_layout"),
    ("reassoc", "reassociate"),
    ("fast_math", "reassociate"),
    ("expand", "privatize"),
];

/// Words of the language of strategies that had other names: steps, and values of named arguments. The old ones are still
/// accepted, and `lathe fmt` writes the new ones.
pub const RENAMED: &[Renamed] = &[
    // Contraction is what `localize` does to an array.
    Renamed { argument: None, old: "contract", new: "fma" },
    Renamed { argument: Some("combine"), old: "halves", new: "tree" },
];

/// A word that had another name.
#[derive(Clone, Copy, Debug)]
pub struct Renamed {
    /// The argument of which it is a value; of steps none.
    pub argument: Option<&'static str>,
    pub old: &'static str,
    pub new: &'static str,
}

/// The name that a step has now.
pub fn current(name: &str) -> &str {
    let step = |r: &&Renamed| r.argument.is_none() && r.old == name;
    RENAMED.iter().find(step).map_or(name, |r| r.new)
}

/// The step of ours that another system's word means.
pub fn meant(name: &str) -> Option<&'static str> {
    let plain = name.to_ascii_lowercase().replace('-', "_");
    WORDS.iter().find(|w| w.0 == plain).map(|w| w.1)
}
