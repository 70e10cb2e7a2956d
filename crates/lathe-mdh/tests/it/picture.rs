//! Pictures draw what the decisions say: compared by structure, not by pixels.

use crate::support::{homomorphism, model, sizes};
use lathe_mdh::picture::picture;
use lathe_mdh::{Decisions, text};

/// The groups of a picture with their attributes, one per line.
fn structure(svg: &str) -> Vec<String> {
    let group = |l: &str| {
        let inside = l.strip_prefix("<g ")?.strip_suffix('>')?;
        Some(inside.replace("class=", "").replace("data-", "").replace('"', ""))
    };
    svg.lines().filter_map(group).collect()
}

/// The worked example of the thesis (Section 2.3, Fig. 21 and 22).
#[test]
fn the_worked_example_is_drawn_step_by_step() {
    let h = homomorphism("linear_algebra", "matvec");
    let shaped = h.at(&sizes(&[("I", 512), ("K", 4096)])).unwrap();
    let m = model("toy");
    let written = "\
parts    [2 4] [32 64] [8 16]
D1 S1 R1 [1 2] [5 6] [3 4]
D2 S2 R2 [HM.x HM.y] [L1.x L1.y] [COR.x COR.y]
D3 v     [HM HM] [L1 L1] [HM L1]
D3 M     [HM HM] [HM HM] [HM HM]
R3 w     [HM HM] [L1 L1] [HM HM]
S3 v     L1
";
    let fixed = text::parse(&h, &m, written).unwrap();
    let mut full = fixed.clone();
    full.complete_from(&Decisions::plain(&shaped, &m));
    let svg = picture(&shaped, &m, &full, &fixed).unwrap();
    let all = structure(&svg);
    let steps: Vec<&str> =
        all.iter().filter(|l| l.starts_with("step") || l.starts_with("scalar")).map(String::as_str).collect();
    let want = "\
step phase=down number=1 level=(1,1) dim=i parts=2 by=HM.x runs=loop operator=++ chosen=no
step phase=up number=13 level=(1,1) dim=i parts=2 by=HM.x runs=loop operator=++ chosen=no
step phase=down number=2 level=(1,2) dim=k parts=4 by=HM.y runs=loop operator=++ chosen=no
step phase=up number=12 level=(1,2) dim=k parts=4 by=HM.y runs=loop operator=+ chosen=no
step phase=down number=3 level=(3,1) dim=i parts=8 by=COR.x runs=cores operator=++ chosen=no
step phase=up number=11 level=(3,1) dim=i parts=8 by=COR.x runs=cores operator=++ chosen=no
step phase=down number=4 level=(3,2) dim=k parts=16 by=COR.y runs=cores operator=++ chosen=no
step phase=up number=10 level=(3,2) dim=k parts=16 by=COR.y runs=cores operator=+ chosen=no
step phase=down number=5 level=(2,1) dim=i parts=32 by=L1.x runs=loop operator=++ chosen=no
step phase=up number=9 level=(2,1) dim=i parts=32 by=L1.x runs=loop operator=++ chosen=no
step phase=down number=6 level=(2,2) dim=k parts=64 by=L1.y runs=loop operator=++ chosen=no
step phase=up number=8 level=(2,2) dim=k parts=64 by=L1.y runs=loop operator=+ chosen=no
scalar number=7";
    assert_eq!(steps.join("\n"), want, "\n{}", steps.join("\n"));
    // The vector is copied at the innermost core level, and stays there; its layout was not said.
    let v: Vec<&String> = all.iter().filter(|l| l.starts_with("buffer") && l.contains("name=v")).collect();
    let moved: Vec<bool> = v.iter().map(|l| l.contains("moved=yes")).collect();
    assert_eq!(moved, [false, false, false, false, true, false, false, false], "{v:#?}");
    assert!(v.iter().skip(1).all(|l| l.contains("chosen=layout")), "{v:#?}");
    for text in
        ["[512, 4096]", "(i, k)", "[512]", "8 × i", "COR.x", "copied here", "md_hom&lt; i 512, k 4096 &gt;"]
    {
        assert!(svg.contains(text), "{text}");
    }
}

/// What a strategy fixes looks so, entry by entry: a number of parts is fixed where their order is chosen.
#[test]
fn fixed_entries_are_framed_and_others_are_shaded() {
    let h = homomorphism("linear_algebra", "matvec");
    let shaped = h.at(&sizes(&[("I", 512), ("K", 4096)])).unwrap();
    let m = model("toy");
    let fixed = text::parse(&h, &m, "parts    [2 4] [32 64] [8 16]\n").unwrap();
    let mut full = fixed.clone();
    full.complete_from(&Decisions::plain(&shaped, &m));
    let svg = picture(&shaped, &m, &full, &fixed).unwrap();
    let steps: Vec<String> = structure(&svg).into_iter().filter(|l| l.starts_with("step")).collect();
    assert!(steps.iter().all(|l| l.ends_with("chosen=order,by")), "{steps:#?}");
    // Six steps down and up, and the legend.
    assert_eq!(svg.matches("stroke-width=\"1.6\"").count(), 6 + 1);
}

#[test]
fn phases_have_orders_of_their_own_and_levels_with_one_part_are_no_steps() {
    let h = homomorphism("convolution", "mcc");
    let all: Vec<(&str, i64)> =
        ["N", "H", "W", "C", "K", "R", "S"].into_iter().zip([1, 6, 6, 4, 8, 3, 3]).collect();
    let shaped = h.at(&sizes(&all)).unwrap();
    let m = model("cuda");
    let mut d = Decisions::plain(&shaped, &m);
    d.up.order[0].swap(1, 3);
    let svg = picture(&shaped, &m, &d, &Decisions::free(&h, &m)).unwrap();
    let all = structure(&svg);
    let of = |phase: &str| -> Vec<String> {
        let mine = all.iter().filter(|l| l.starts_with(&format!("step phase={phase}")));
        mine.filter_map(|l| Some(l.split("dim=").nth(1)?.split(' ').next()?.to_string())).collect()
    };
    assert_eq!(of("down"), ["p", "q", "k", "r", "s", "c"]);
    assert_eq!(of("up"), ["k", "q", "p", "r", "s", "c"]);
    assert!(all.iter().filter(|l| l.starts_with("step")).all(|l| l.ends_with("chosen=yes")));
    let mut free = d.clone();
    free.parts[0][1] = None;
    assert!(picture(&shaped, &m, &Decisions::free(&h, &m), &free).is_none(), "free decisions are not drawn");
}
