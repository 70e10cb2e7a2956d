//! Trees as targets of the command.

use crate::common::{Folder, examples, load};
use lathe::npy;

/// The tree form of several versions is one program: a function of the kernel's name calls the one that is for the sizes,
/// and every command takes the file.
#[test]
fn versions_as_trees_are_targets() {
    let f = Folder::new();
    f.ok(&format!("emit {}/gemm.lathe:gemm -s fast --to tree -o g.tree", examples()));
    let tree = f.read("g.tree");
    assert!(tree.contains("call gemm_1(&A, &B, &C)") && tree.contains("call gemm_2("), "{tree}");
    f.ok("check g.tree");
    f.ok("fmt --check g.tree");
    // Sizes of every version, and what the source computes.
    for (n, sizes) in
        ["-D M=10 -D N=7 -D K=3", "-D M=64 -D N=64 -D K=64", "-D M=1 -D N=1 -D K=0"].iter().enumerate()
    {
        f.ok(&format!("run {}/gemm.lathe:gemm -s naive {sizes} --seed 5 -o C=want.npy", examples()));
        f.ok(&format!("run g.tree {sizes} --seed 5 --check -o C=got.npy"));
        f.ok(&format!("run g.tree {sizes} --seed 5 --engine interpreter -o C=seen.npy"));
        let (want, got, seen) = (load(&f, "want.npy"), load(&f, "got.npy"), load(&f, "seen.npy"));
        let near = want.iter().zip(&got).all(|(w, g)| (w - g).abs() <= 1e-5 * w.abs().max(1.0));
        assert!(near && want.len() == got.len() && got == seen, "{n}: {want:?} {got:?}");
    }
    f.fails("run g.tree:gemm_2 -D M=10 -D N=7 -D K=3", 1, "E0902");
    f.write(
        "p.lathe",
        "struct P { a: f32, b: f32 }\nkernel f(x: P[N]) -> (y: f32[N]) { y[i] = x[i].a + x[i].b }\n\
         strategy s for f = split(i, 4)\n",
    );
    f.ok("emit p.lathe:f -s s --to tree -o p.tree");
    f.ok("run p.tree -D N=9");
    // Its loops have schedules to search; where there are no loops, there is nothing.
    f.ok("tune p.tree -D N=9 --until evaluations(3)");
    f.write("q.tree", "func g()(x: in f32[], y: out f32[]) stage plain {\n  'y'[]: y[] = x[] + 1.0:f32\n}\n");
    f.fails("tune q.tree", 1, "E1085");
}

/// What a tree runs at the same time is shown to have no races before an engine takes it; the interpreter needs no proof and
/// looks for races in the run.
#[test]
fn trees_with_races_run_in_the_interpreter_alone() {
    let f = Folder::new();
    f.write(
        "race.tree",
        "func f(N)(x: in i32[N], s: inout i32[]) stage scheduled {\n  for i in 0..N cpu { 's'[i]: s[] sum= x[i] }\n}\n",
    );
    let checked = f.ok("check race.tree");
    assert!(checked.stderr.contains("E0505"), "{}", checked.stderr);
    f.fails("run race.tree -D N=9", 1, "E0505");
    // The interpreter runs it all the same, and sees what happens.
    f.fails("run race.tree -D N=9 --engine interpreter", 1, "E0410");
    f.ok("run race.tree -D N=1 --engine interpreter");
    // Barriers order what stands on both sides of them; all iterations must reach them.
    let rows = |first: &str, second: &str| {
        format!(
            "func f(N)(x: in i32[N, 8], y: out i32[N, 8]) stage scheduled {{\n  for g in 0..N level(grid) {{\n    \
             alloc s: i32[8] shared\n    for t in 0..8 level(block) {{\n      's'[g, t]: s[t] = x[g, t]\n      {first}\n      \
             'y'[g, t]: y[g, t] = s[7 - t]\n      {second}\n    }}\n  }}\n}}\n"
        )
    };
    f.write("rows.tree", rows("barrier t", ""));
    assert!(!f.ok("check rows.tree").stderr.contains("E05"));
    f.ok("run rows.tree -D N=3 --engine interpreter");
    f.write("rows.tree", rows("", "barrier t"));
    let checked = f.ok("check rows.tree").stderr;
    assert!(checked.contains("E0505") && checked.contains("`barrier t`"), "{checked}");
    f.write("rows.tree", rows("if t < 4 { barrier t }", ""));
    assert!(f.ok("check rows.tree").stderr.contains("E0506"));
    // What tokens order is not proved: it is looked at in every run.
    let copy = |before: &str, after: &str| {
        format!(
            "func f(N)(x: in f32[N], y: out f32[N]) stage scheduled {{\n  alloc t: f32[1] host\n  token k\n  \
             async k {{\n    'c': t[0] = x[0]\n  }}\n  {before}for i in 0..N {{\n    'y'[i]: y[i] = t[0]\n  }}\n{after}}}\n"
        )
    };
    f.write("late.tree", copy("", "  wait k\n"));
    f.fails("run late.tree -D N=9 --engine interpreter", 1, "E0410");
    f.write("right.tree", copy("wait k\n  ", ""));
    f.ok("run right.tree -D N=9 --engine interpreter");
    // So it is with what they call.
    let called = |body: &str| {
        f.write(
            "called.tree",
            format!(
                "func inner(N)(x: in i32[N], y: inout i32[N]) stage scheduled {{\n  for i in 0..N cpu {{ 'y'[i]: {body} }}\n}}\n\
                 func outer(N)(x: in i32[N], y: inout i32[N]) stage scheduled {{\n  call inner(&x, &y)\n}}\n"
            ),
        );
    };
    called("y[0] = x[i]");
    f.fails("run called.tree -D N=9", 1, "E0505");
    called("y[i] = x[i + 1]");
    f.fails("run called.tree -D N=9", 1, "E0501");
    called("y[i] = x[index(x[i])]");
    f.ok("run called.tree -D N=9");
    called("y[i] = x[index(x[i]) * 9 + 9]");
    f.fails("run called.tree -D N=9", 1, "E0814");
    // What a function declares of its arrays, those who call it keep.
    let inner = "func inner(N)(x: in i32[N], y: inout i32[N]) stage scheduled {\n  for i in 0..N { 'y'[i]: y[i] = x[N - 1 - i] }\n}\n";
    for (outer, sizes) in [
        ("func outer(N)(y: inout i32[N]) stage scheduled {\n  call inner(&y, &y)\n}\n", "-D N=9"),
        (
            "func outer(N, M)(x: in i32[M], y: inout i32[N]) stage scheduled {\n  call inner(&x, &y)\n}\n",
            "-D N=9 -D M=9",
        ),
    ] {
        f.write("called.tree", format!("{inner}{outer}"));
        f.fails(&format!("run called.tree {sizes}"), 1, "E0504");
    }
    // Conditions around a call say what sizes are.
    let under = |cond: &str| {
        let outer = format!(
            "func outer(N, M)(x: in i32[M], y: inout i32[N]) stage scheduled {{\n  if {cond} {{ call inner(&x, &y) }}\n}}\n"
        );
        f.write("called.tree", format!("{inner}{outer}"));
    };
    under("M == N and N >= 1");
    f.ok("run called.tree -D N=9 -D M=9");
    under("M <= N and N >= 1");
    f.fails("run called.tree -D N=9 -D M=9", 1, "E0504");
}

/// Sizes that a strategy is not for fail the call as they do in the source; scalars are passed on; what only a called
/// function uses as a subscript is drawn as one; versions whose size no array tells are in one function.
#[test]
fn trees_choose_as_their_sources_do() {
    let f = Folder::new();
    f.write(
        "s.lathe",
        "kernel s(x: f32[N], p: i32[N], a: f32) -> (y: f32[N]) { y[i] = a * x[p[i]] }\n\
         strategy fast(t = 4 where divides(2, N)) for s =\n\
         if N <= 10 then id else if ceil_div(N, 2) % 3 == 0 then vectorize(i, 8) else split(i, t)\n",
    );
    f.ok("emit s.lathe -s fast --to tree -o s.tree");
    let tree = f.read("s.tree");
    assert!(tree.contains("call s_3(&x, &p, a, &y)") && tree.contains("strategy is for sizes"), "{tree}");
    for n in [0, 2, 10, 12, 20] {
        f.ok(&format!("run s.lathe -s fast -D N={n} --seed 2 -i a=1.5 -o y=want.npy"));
        f.ok(&format!("run s.tree -D N={n} --seed 2 -i a=1.5 --check -o y=got.npy"));
        assert_eq!(load(&f, "want.npy"), load(&f, "got.npy"), "{n}");
    }
    f.fails("run s.lathe -s fast -D N=7", 1, "E");
    f.fails("run s.tree -D N=7", 1, "E");
    // A grid is in no function that is called.
    f.write(
        "v.lathe",
        "kernel v(x: f32[N]) -> (y: f32[N]) { y[i] = 2 * x[i] }\n\
         strategy fast for v = if N <= 4 then id else (split(i, 4) ; bind(i.o, grid) ; bind(i.i, block))\n",
    );
    f.ok("emit v.lathe:v -s fast --to tree -o v.tree");
    let tree = f.read("v.tree");
    assert!(!tree.contains("call") && tree.contains("if N <= 4"), "{tree}");
    for n in [1, 4, 9] {
        f.ok(&format!("run v.lathe:v -s fast -D N={n} --seed 2 --engine interpreter -o y=want.npy"));
        f.ok(&format!("run v.tree -D N={n} --seed 2 --engine interpreter --check -o y=got.npy"));
        assert_eq!(load(&f, "want.npy"), load(&f, "got.npy"), "{n}");
    }
    // What no tree can decide is told, and the versions are there one by one.
    f.write(
        "p.lathe",
        "kernel p(x: f32[N]) -> (y: f32[N]) { y[i] = 2 * x[i] }\n\
         strategy fast for p = if is_power_of_two(N) then id else split(i, 4)\n",
    );
    f.ok("emit p.lathe -s fast --to tree -o p.tree");
    assert!(f.read("p.tree").contains("# No code selects a version: "), "{}", f.read("p.tree"));
    f.ok("run p.tree:p_2 -D N=7 --check");
}

/// What only the interpreter runs is no mistake of its author.
#[test]
fn trees_for_the_interpreter_alone_are_checked() {
    let f = Folder::new();
    f.write(
        "fact.tree",
        "func f()(n: in i64, y: out i64[]) stage scheduled {\n  if n <= 1:i64 { 'y'[]: y[] = 1:i64 } else {\n    \
         alloc t: i64[] stack\n    call f(n - 1:i64, &t)\n    'y.2'[]: y[] = t[] * n\n  }\n}\n",
    );
    assert!(f.ok("check fact.tree").stderr.contains("E0701"));
    f.ok("run fact.tree -i n=5 --engine interpreter -o y=y.npy");
    let y = npy::read(&f.path("y.npy")).expect("an array");
    assert_eq!(y.to_vec::<i64>(), Some(vec![120]));
    f.fails("run fact.tree -i n=5", 1, "E0701");
}

/// A tree with versions, as `emit` writes it, is code for devices, too.
#[test]
fn trees_with_versions_become_kernels_of_devices() {
    let f = Folder::new();
    let gemm = format!("{}/devices/gemm.lathe:gemm", examples());
    f.ok(&format!("emit {gemm} --to tree --device cuda -s device -o d.tree"));
    assert!(f.read("d.tree").contains("call "));
    for to in ["cuda", "opencl"] {
        let code = f.ok(&format!("emit d.tree --to {to}")).stdout;
        assert!(!code.is_empty());
    }
}
