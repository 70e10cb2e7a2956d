//! Foreign code as decisions (thesis, Figs 78 to 81: the matrix product of ResNet-50's training), and the worked
//! example (Figs 21 and 22).

use crate::support::{homomorphism, model, no_facts, sizes};
use lathe_diagnostics::Diagnostic;
use lathe_mdh::decisions::by_position;
use lathe_mdh::footprint::allocations;
use lathe_mdh::{Decisions, Homomorphism, Model, Shaped, check, codes, text};

/// TVM with Ansor on CUDA.
pub const FIG_78: &str = "\
decisions for C on cuda
parts    [2 50 1] [2 1 8] [4 20 1] [1 1 128] [1 1 2]
D1 S1 R1 [(1,1) (1,2) (1,3)] [(5,2) (5,3) (3,1)] [(2,1) (2,2) (2,3)] [(3,3) (4,1) (3,2)] [(4,3) (5,1) (4,2)]
D2 S2 R2 [SMX.y SMX.x SMX.z] [DEV.x DEV.y DEV.z] [CC.y CC.x CC.z] [SHR.x SHR.y SHR.z] [REG.x REG.y REG.z]
D3 A     [DM DM DM] [SM SM DM] [DM DM DM] [SM SM SM] [SM SM SM]
D3 B     [DM DM DM] [SM SM DM] [DM DM DM] [SM SM SM] [SM SM SM]
R3 C     [DM DM DM] [RM RM RM] [DM DM DM] [RM RM RM] [RM RM RM]
S3 A     RM
S3 B     RM
S5 C     RM
";

/// TVM with Ansor on OpenCL.
pub const FIG_79: &str = "\
decisions for C on opencl
parts    [1 125 1] [1 1 16] [16 1 1] [1 1 128] [1 8 1]
D1 S1 R1 [1 2 3] [4 5 6] [7 8 9] [10 11 12] [13 14 15]
D2 S2 R2 [WG.x WG.y WG.z] [GLB.x GLB.y GLB.z] [WI.x WI.y WI.z] [LCL.x LCL.y LCL.z] [PRV.x PRV.y PRV.z]
D3 A     [GM GM GM] [GM GM GM] [LM LM LM] [LM LM LM] [LM LM LM]
D3 B     [GM GM GM] [GM GM GM] [LM LM LM] [LM LM LM] [LM LM LM]
R3 C     [GM GM GM] [PM PM PM] [PM PM PM] [PM PM PM] [PM PM PM]
S3 A     PM
S3 B     PM
S5 C     PM
";

/// PPCG with ATF's tile sizes on CUDA.
pub const FIG_80: &str = "\
decisions for C on cuda
parts    [16 8 1] [1 1 1] [1 125 1] [1 1 1181] [1 1 1]
D1 S1 R1 [1 2 3] [4 5 6] [7 8 9] [10 11 12] [13 14 15]
D2 S2 R2 [SMX.x SMX.y SMX.z] [DEV.x DEV.y DEV.z] [CC.x CC.y CC.z] [SHR.x SHR.y SHR.z] [REG.x REG.y REG.z]
D3 A     [DM DM DM] [DM DM DM] [DM DM DM] [SM SM SM] [SM SM SM]
D3 B     [DM DM DM] [DM DM DM] [DM DM DM] [DM DM DM] [DM DM DM]
R3 C     [DM DM DM] [DM DM DM] [RM RM RM] [RM RM RM] [RM RM RM]
S3 A     SM
S3 B     DM
S5 C     RM
";

/// Pluto with ATF's tile sizes, in OpenMP.
pub const FIG_81: &str = "\
decisions for C on openmp
parts    [8 1 1] [1 1 9] [2 962 218] [1 1 1]
D1 S1 R1 [1 2 3] [4 5 6] [7 8 9] [10 11 12]
D2 S2 R2 [COR.x COR.y COR.z] [MM.x MM.y MM.z] [L2.x L2.y L2.z] [L1.x L1.y L1.z]
D3 A     [MM MM MM] [MM MM MM] [L2 L2 L2] [L1 L1 L1]
D3 B     [MM MM MM] [MM MM MM] [L2 L2 L2] [L1 L1 L1]
R3 C     [MM MM MM] [MM MM MM] [L2 L2 L2] [L1 L1 L1]
S3 A     L1
S3 B     L1
S5 C     L1
";

/// The figure's decisions; layouts are `[1,2]` everywhere.
fn figure(h: &Shaped, m: &Model, written: &str) -> Decisions {
    let mut d = text::parse(h.h, m, written).unwrap_or_else(|e| panic!("{e}"));
    let plain = Decisions::plain(h, m);
    for (p, from) in d.reads.iter_mut().chain(&mut d.writes).zip(plain.reads.iter().chain(&plain.writes)) {
        p.layout = from.layout.clone();
    }
    for (s, from) in
        d.operands.iter_mut().chain(&mut d.results).zip(plain.operands.iter().chain(&plain.results))
    {
        s.layout = from.layout.clone();
    }
    assert_eq!(d.open(), 0, "{written}");
    d
}

fn resnet(h: &Homomorphism) -> Shaped<'_> {
    h.at(&sizes(&[("I", 16), ("J", 1000), ("K", 2048)])).unwrap()
}

fn violations(written: &str, on: &str, partial: bool) -> Vec<Diagnostic> {
    let h = homomorphism("linear_algebra", "matmul");
    let (s, m) = (resnet(&h), model(on));
    let mut d = figure(&s, &m, written);
    d.partial_tiles = partial;
    check(&s, &m, &d, &no_facts)
}

#[test]
fn ansors_nests_are_accepted() {
    for (fig, on) in [(FIG_78, "cuda"), (FIG_79, "opencl")] {
        let found = violations(fig, on, false);
        assert!(found.is_empty(), "{on}: {}", found[0]);
    }
}

#[test]
fn nests_with_partial_tiles_need_the_option() {
    for (fig, on, dims) in [(FIG_80, "cuda", &["k"][..]), (FIG_81, "openmp", &["j", "k"][..])] {
        let found = violations(fig, on, false);
        assert_eq!(found.len(), dims.len(), "{on}: {found:?}");
        for (d, dim) in found.iter().zip(dims) {
            assert_eq!(d.code, codes::PARTS);
            assert!(d.message.contains(&format!("`{dim}`")), "{d}");
        }
        let found = violations(fig, on, true);
        assert!(found.is_empty(), "{on}: {}", found[0]);
    }
    let text = violations(FIG_80, "cuda", false)[0].to_string();
    assert!(["1181", "2048", "(4,3)"].iter().all(|quoted| text.contains(quoted)), "{text}");
}

/// The order of Fig. 78 is TVM's own `reorder`, and one buffer per input lies in shared memory, one accumulator in
/// registers.
#[test]
fn ansors_nest_on_cuda_has_the_printed_shape() {
    let h = homomorphism("linear_algebra", "matmul");
    let (s, m) = (resnet(&h), model("cuda"));
    let d = figure(&s, &m, FIG_78);
    let loops: Vec<String> = by_position(&d.down.order)
        .unwrap()
        .into_iter()
        .filter(|l| d.parts_at(*l) > 1)
        .map(|l| {
            let asm = d.down.assignment[l.layer][l.dim].unwrap();
            format!("{}:{}x{}", m.layer_name(asm.layer), h.dims[l.dim].name, d.parts_at(l))
        })
        .collect();
    assert_eq!(
        loops,
        ["SMX:ix2", "SMX:jx50", "CC:ix4", "CC:jx20", "DEV:kx8", "SHR:kx128", "REG:kx2", "DEV:ix2"]
    );
    let all: Vec<(String, &str, Vec<u64>, u64)> = allocations(&s, &m, &d)
        .unwrap()
        .into_iter()
        .map(|a| (a.buffer, m.memories[a.region].region(), a.tile, a.bytes))
        .collect();
    assert_eq!(
        all,
        [
            ("A".to_string(), "SM", vec![8, 20, 256], 8 * 256 * 4),
            ("A".to_string(), "RM", vec![1, 1, 1], 4),
            ("B".to_string(), "SM", vec![8, 20, 256], 20 * 256 * 4),
            ("B".to_string(), "RM", vec![1, 1, 1], 4),
            ("C".to_string(), "RM", vec![2, 1, 2048], 2 * 4),
        ]
    );
}

/// M is 512 × 4096; 8 × 16 threads each do blocks of 32 × 64, once per each of 2 × 4 tiles of the main memory.
pub const WORKED: &str = "\
decisions for w on toy
parts    [2 4] [8 16] [32 64]
D1 S1 R1 [1 2] [3 4] [5 6]
D2 S2 R2 [HM.x HM.y] [COR.x COR.y] [L1.x L1.y]
D3 M     [HM HM] [HM HM] [HM HM]
D4 M     [<1,2> <1,2>] [<1,2> <1,2>] [<1,2> <1,2>]
D3 v     [HM HM] [HM HM] [L1 L1]
D4 v     [<1> <1>] [<1> <1>] [<1> <1>]
R3 w     [HM HM] [HM HM] [L1 L1]
R4 w     [<1> <1>] [<1> <1>] [<1> <1>]
S3 M     HM
S4 M     <1,2>
S3 v     L1
S4 v     <1>
S5 w     L1
S6 w     <1>
";

#[test]
fn the_worked_example_reads_as_printed() {
    let h = homomorphism("linear_algebra", "matvec");
    let (s, m) = (h.at(&sizes(&[("I", 512), ("K", 4096)])).unwrap(), model("toy"));
    let d = text::parse(&h, &m, WORKED).unwrap();
    assert_eq!(d.open(), 0);
    let found = check(&s, &m, &d, &no_facts);
    assert!(found.is_empty(), "{found:?}");
    assert_eq!(text::print(&h, &m, &d), WORKED);
    // v and w have tiles in L1, one per thread; M has none.
    let all: Vec<_> =
        allocations(&s, &m, &d).unwrap().into_iter().map(|a| (a.buffer, a.region, a.tile, a.bytes)).collect();
    assert_eq!(all, [("v".to_string(), 1, vec![32, 64], 64 * 4), ("w".to_string(), 1, vec![32, 64], 32 * 4)]);
    // The other two taggings of the thesis: threads on the outer parts, and on the inner ones.
    for (tags, threads) in [
        ("[COR.x COR.y] [HM.x HM.y] [L1.x L1.y]", [2, 4]),
        ("[HM.x HM.y] [L1.x L1.y] [COR.x COR.y]", [32, 64]),
    ] {
        let written = WORKED.replace("[HM.x HM.y] [COR.x COR.y] [L1.x L1.y]", tags);
        let written = written.replace("R3 w     [HM HM] [HM HM] [L1 L1]", "R3 w     [HM HM] [HM HM] [HM HM]");
        let d = text::parse(&h, &m, &written).unwrap();
        assert!(check(&s, &m, &d, &no_facts).is_empty(), "{tags}");
        let cores: Vec<u64> = d
            .levels()
            .filter(|l| m.core(d.down.assignment[l.layer][l.dim].unwrap().layer).is_some())
            .map(|l| d.parts_at(l))
            .collect();
        assert_eq!(cores, threads, "{tags}");
    }
}
