//! Partial results of cores, and where they live.

/// Partial results of a core level of a reduced dimension: a step that makes an array of them.
pub struct Split {
    /// The loop whose parts get results of their own, and the position of the loop around which they live.
    pub at: String,
    pub position: usize,
    pub by_lanes: bool,
    pub made: String,
    /// Given as `at:`, where they live further outside than the step would have it.
    pub around: Option<String>,
}

/// What cores combine: one split per core level, outermost first.
pub struct Results {
    pub splits: Vec<Split>,
    pub by_lanes: bool,
}
