//! Random searches for the largest or smallest element of a row, with and without its position, among NaNs, infinities and
//! zeros of both signs: by steps that give each lane a search of its own, or by `auto`.

use super::case::{Case, Steps};
use super::data::Flavour;
use super::kernels::Source;
use super::rng::Rng;

pub fn case(seed: u64) -> Case {
    let mut r = Rng::new(seed ^ 0x5EA_5C4);
    let elem = *r.pick(&["f32", "f64", "f64", "i32"]);
    let params = vec![
        format!("A: {elem}[M, N + 2]"),
        format!("C: inout {elem}[M + 1]"),
        "B: inout i32[M + 1]".to_string(),
        "D: inout f64[M + 1]".to_string(),
    ];
    let element =
        *r.pick(&["A[i, j]", "A[i, j]", "A[i, j + 1]", "A[i, N - j]", "A[i, j] * A[i, j + 2]", "A[0, 1]"]);
    let best = *r.pick(&["C[i]", "C[i + 1]", "C[0]", "C[M]"]);
    let cond = match r.below(8) {
        0 => format!("{element} {} {best}", r.pick(&[">=", "<="])),
        n if n < 5 => format!("{element} {} {best}", r.pick(&[">", "<"])),
        _ => format!("{best} {} {element}", r.pick(&[">", "<"])),
    };
    let mut stores = vec![format!("{best} = {element}")];
    if r.one_in(2) {
        stores.push(format!("B[i] = {}", r.pick(&["i32(j)", "i32(j + 10 * i)", "2 - i32(j)", "7"])));
    }
    if r.one_in(3) {
        stores.insert(0, "D[i + 1] = f64(j)".to_string());
    }
    let range = r.pick(&["0..N", "0..N", "1..N", "i..N"]).to_string();
    let inner = format!("for j in {range} {{\nif {cond} {{\n{}\n}}\n}}", stores.join("\n"));
    let lanes = *r.pick(&[2, 4, 8]);
    let steps = match r.one_in(2) {
        true => Steps::Auto,
        false => Steps::Given(vec![
            "to_reduction(C)".to_string(),
            format!("split(C.best.j, {})", lanes * r.pick(&[1, 2])),
            format!("factor(C.best, j.i, at: j.o{})", r.pick(&["", ", combine: tree"])),
            "separate(j.o)".to_string(),
            format!("vectorize(j.i, {lanes})"),
        ]),
    };
    let sizes = [("N", *r.pick(&[0, 1, 2, 3, 7, 8, 9, 17, 33, 64])), ("M", *r.pick(&[0, 1, 2, 5]))];
    Case {
        seed,
        source: Source {
            items: Vec::new(),
            params,
            results: Vec::new(),
            statements: vec![format!("for i in 0..M {{\n{inner}\n}}")],
        },
        steps,
        sizes: sizes.map(|(n, v)| (n.to_string(), v)).into(),
        flavour: *r.pick(&[Flavour::Special, Flavour::Special, Flavour::Small]),
        strided: r.one_in(4),
        c: seed.is_multiple_of(25),
    }
}
