//! Clusters of blocks: loops of theirs are thread loops, of which each block runs its part.

use super::*;

/// Devices with clusters, and without.
const WITH: Limits = Limits { threads: 1024, cluster: 8 };

/// The sum of squares of every row, by clusters of blocks: threads have `own` elements each and partial results, the blocks
/// combine them in their own memory and leave theirs in the first block's.
fn rows(blocks: i64, threads: i64, own: i64) -> String {
    let n = own * blocks * threads;
    let halves = halves(threads, "g, c");
    format!(
        "func rows(M)(A: in f32[M, {n}], B: out f32[M, {n}]) stage scheduled {{
  for g in 0..M level(grid) {{
    alloc R: f32[{n}] register
    for c in 0..{blocks} level(cluster) {{ for t in 0..{threads} level(block) {{ for r in 0..{own} unrolled {{
      'R'[g, c, t, r]: R[r * {each} + c * {threads} + t] = A[g, r * {each} + c * {threads} + t]
    }} }} }}
    alloc s: f32[1] shared
    alloc Q: f32[{blocks}] shared
      for c in 0..{blocks} level(cluster) {{
        alloc P: f32[{threads}] shared
          for t in 0..{threads} level(block) {{ 'P.init'[g, c, t]: P[t] = 0.0:f32 }}
          for t in 0..{threads} level(block) {{ for r in 0..{own} unrolled {{
            'P'[g, c, t, r]: P[t] sum= R[r * {each} + c * {threads} + t] * R[r * {each} + c * {threads} + t] licensed
          }} }}
{halves}          'Q'[g, c]: Q[c] = P[0]
      }}
      's.init'[g]: s[0] = 1.0:f32
      for c in 0..{blocks} {{ 's'[g, c]: s[0] sum= Q[c] licensed }}
    for c in 0..{blocks} level(cluster) {{ for t in 0..{threads} level(block) {{ for r in 0..{own} unrolled {{
      'B'[g, c, t, r]: B[g, r * {each} + c * {threads} + t] = R[r * {each} + c * {threads} + t] / s[0]
    }} }} }}
  }}
}}",
        each = blocks * threads
    )
}

#[test]
fn blocks_of_a_cluster_share_rows() {
    for (blocks, threads) in [(2, 64), (8, 32), (4, 33)] {
        let text = rows(blocks, threads, 2);
        agree(&text, &[&[1], &[3], &[0]]);
        let (m, f) = parse(&text);
        let source = emit(&m, &f, Language::Cuda, WITH).unwrap().source;
        assert!(source.contains(&format!("__cluster_dims__({blocks}, 1, 1)")), "{source}");
        assert_eq!(source.matches("    lathe_cluster_barrier();").count(), 3, "{source}");
        #[cfg(feature = "llvm")]
        {
            let (ptx, _) = ptx_of(&m, &f, "sm_90a");
            for holds in ["mapa.shared::cluster", "ld.shared::cluster", "st.shared::cluster"] {
                assert!(ptx.contains(holds), "{holds}: {ptx}");
            }
            assert_eq!(ptx.matches("barrier.cluster.arrive").count(), 3, "{ptx}");
            assert!(!ptx_of(&m, &f, "sm_80").0.contains("cluster"));
        }
        // More blocks than a cluster has, and devices without any: one block has all threads.
        for limits in [Limits::default(), Limits { cluster: blocks - 1, ..WITH }] {
            let source = emit(&m, &f, Language::Cuda, limits).unwrap().source;
            assert!(!source.contains("cluster") && source.contains("__launch_bounds__"), "{source}");
        }
    }
}

/// While blocks of one cluster wait, those of another one load: compilers are told for how many of them registers have to do.
#[test]
fn several_blocks_of_clusters_run_on_a_processor() {
    // Elements of a thread, threads of a block, and blocks that a processor holds by CUDA's compilers and by LLVM.
    for (own, threads, cuda, llvm) in
        [(64, 256, 3, 2), (32, 512, 2, 2), (40, 500, 2, 2), (112, 512, 1, 1), (2, 64, 4, 4)]
    {
        let text = rows(8, threads, own);
        let (m, f) = parse(&text);
        let source = emit(&m, &f, Language::Cuda, WITH).unwrap().source;
        let bounds = if cuda > 1 { format!("{threads}, {cuda}") } else { threads.to_string() };
        assert!(source.contains(&format!("__launch_bounds__({bounds}) ")), "{source}");
        let others = emit(&m, &f, Language::OpenCl, Limits::default()).unwrap().source;
        assert!(!others.contains("launch_bounds"), "{others}");
        #[cfg(feature = "llvm")]
        {
            let (ptx, _) = ptx_of(&m, &f, "sm_90a");
            assert_eq!(ptx.contains(&format!(".minnctapersm {llvm}")), llvm > 1, "{ptx}");
        }
        let _ = llvm;
    }
}

/// Shuffles leave barriers out, which others may wait for: they stand right behind one.
#[test]
fn shuffles_keep_the_barriers_that_others_wait_for() {
    let halves: String = [16, 8, 4, 2, 1]
        .map(|h| format!("for p in 0..{h} level(block) {{ 'P.{h}'[i, p]: P[p] sum= P[p + {h}] licensed }}\n"))
        .concat();
    let text = |own: &str| {
        format!(
            "func sums(M)(A: in f32[M, 32], B: out f32[M, 32], C: out f32[M, 32]) stage scheduled {{
  for i in 0..M level(grid) {{
    alloc P: f32[32] shared
    alloc Q: f32[32] shared
    alloc U: f32[32] shared
    for t in 0..32 level(block) {{ 'P'[i, t]: P[t] = A[i, t] }}
    for t in 0..32 level(block) {{ 'U'[i, t]: U[t] = A[i, t] }}
    for t in 0..32 level(block) {{ 'C'[i, t]: C[i, t] = {own}[31 - t] }}
    for t in 0..32 level(block) {{ 'Q'[i, t]: Q[t] = A[i, t] }}
    {halves}for t in 0..32 level(block) {{ 'B'[i, t]: B[i, t] = P[0] + Q[31 - t] }}
  }}
}}"
        )
    };
    // `Q` waits for the barrier between the first two rounds, unless one is right before them.
    for (own, shuffles) in [("U", 4), ("P", 5)] {
        let wanted = text(own);
        agree(&wanted, &[&[1], &[3]]);
        let (m, f) = parse(&wanted);
        let source = emit(&m, &f, Language::Cuda, Limits::default()).unwrap().source;
        assert_eq!(source.matches("__shfl_down_sync").count(), shuffles, "{source}");
    }
}
