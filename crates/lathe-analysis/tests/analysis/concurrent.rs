//! Trees that say by themselves what runs at the same time.

use lathe_analysis::{codes, prove_concurrent};
use lathe_diagnostics::FileId;
use lathe_ir::text::parse_module;

fn races(text: &str) -> Vec<String> {
    let module = parse_module(FileId(0), text).unwrap_or_else(|d| panic!("{text}\n{d:?}"));
    let func = module.functions.values().next().expect("a function");
    prove_concurrent(&module, func).iter().map(|d| d.code.0.to_string()).collect()
}

#[test]
fn the_page_of_the_code_is_right() {
    for (code, word) in [(codes::RACE, "E0505"), (codes::DIVERGENT, "E0506")] {
        let page = codes::CODES.iter().find(|c| c.code == code).expect("a page");
        assert_eq!(races(page.wrong), [word]);
        assert!(races(page.right).is_empty());
    }
}

#[test]
fn iterations_that_share_elements_are_found() {
    for (body, ok) in [
        ("for i in 0..N cpu { 'h'[i]: h[i] = x[i] }", true),
        ("for i in 0..N cpu { 'h'[i]: h[i // 2] = x[i] }", false),
        ("for i in 0..N cpu { 'h'[i]: h[i % 8] = x[i] }", false),
        ("for i in 0..N device { for j in 0..8 level(block) { 'h'[i, j]: h[8 * i + j] = x[i] } }", true),
        ("for i in 1..N device { for j in 0..9 level(block) { 'h'[i, j]: h[8 * i - j] = x[i] } }", false),
        ("for i in 1..N cpu { 'h'[i]: h[i] = h[i - 1] + x[i] }", false),
        ("for i in 1..N { for j in 0..4 vector(4) { 'h'[i, j]: h[i * 4 + j] = x[j] } }", true),
        ("for j in 0..4 vector(4) { 'h'[j]: h[0] sum= x[j] }", false),
        // The inner loop runs in order, and each iteration of the outer one has a row.
        ("for i in 0..N cpu { for j in 0..8 { 'h'[i, j]: h[i] sum= x[j] licensed } }", true),
        ("for i in 0..N cpu { for j in 0..8 cpu { 'h'[i, j]: h[i] sum= x[j] licensed } }", false),
        ("for i in 0..N cpu { alloc t: i32[] stack { 't'[i]: t[] = x[i] 'h'[i]: h[i] = t[] } }", true),
        ("alloc t: i32[] stack { for i in 0..N cpu { 't'[i]: t[] = x[i] 'h'[i]: h[i] = t[] } }", false),
        ("for i in 0..N cpu { atomic 'h'[i]: h[x[i] % 8]! sum= 1:i32 relaxed scope system }", true),
    ] {
        let text = format!("func f(N)(x: in i32[N], h: inout i32[8 * N]) stage scheduled {{ {body} }}");
        assert_eq!(races(&text).is_empty(), ok, "{body}");
    }
}

/// What is decided about a body, with `M` and `N` for sizes, `w` for the threads of a block and `g` for blocks.
fn verdict(body: &str) -> &'static str {
    let text = format!(
        "func f(M, N)(x: in i32[N + 16], u: inout i32[M + 3, N + 3], v: inout i32[4 * N + 64], z: inout i32[4 * N + 64]) \
         stage scheduled {{ {body} }}"
    );
    match &races(&text)[..] {
        [] => "ok",
        [one] if one == "E0505" => "race",
        [one] if one == "E0506" => "divergent",
        other => panic!("{other:?} for {body}"),
    }
}

/// What follows an atomic lies in the scope of its old value: barriers there stand behind it.
#[test]
fn barriers_behind_an_atomic_order_it() {
    let update = |at: &str| format!("atomic 'v'[{at}]: v[w] sum= 1:i32 relaxed scope block as o: i32");
    let (once, again) = (update("w"), update("w, r"));
    let read = "'z'[w]: z[w] = v[7 - w]";
    for (body, ok) in [
        (format!("for r in 0..3 {{ {again} barrier w }} {read}"), "ok"),
        (format!("for r in 0..3 {{ {again} 'z.o'[w, r]: z[w] = o }} {read}"), "race"),
        (format!("for r in 0..3 {{ barrier w {again} }} {read}"), "race"),
        (format!("if N > 3 {{ {once} barrier w }} {read}"), "ok"),
        (format!("if N > 3 {{ {once} if M > 3 {{ barrier w }} }} {read}"), "race"),
        (format!("{once} barrier w {read}"), "ok"),
    ] {
        assert_eq!(
            verdict(&format!("for t in 0..1 {{ for w in 0..8 level(block) {{ {body} }} }}")),
            ok,
            "{body}"
        );
    }
}

/// The rows of the table of verdicts about Loopy's dependences (section 2.5 of its notes) that have threads: a wave
/// equation, segments between barriers, tiles with two barriers, pipelines, triangular loops, loops without iterations.
#[test]
fn barriers_order_what_stands_on_both_sides() {
    let wave = "'u'[t, x]: u[t + 2, x + 1] = u[t + 1, x] + u[t + 1, x + 1] + u[t + 1, x + 2] + u[t, x + 1]";
    let block = |body: &str| format!("for t0 in 0..1 {{ for w in 0..8 level(block) {{ {body} }} }}");
    let wave_by = |around: &str| around.replace("S", wave);
    // `u` of time `t + 2` and place `w + 1`.
    let cases = [
        (wave_by("for t in 0..M { for x in 0..N { S } }"), "ok"),
        (wave_by("for x in 0..N level(block) { for t in 0..M { S } }"), "race"),
        (wave_by("for x in 0..N level(block) { for t in 0..M { barrier x S } }"), "ok"),
        (wave_by("for x in 0..N level(block) { for t in 0..M { S barrier x } }"), "ok"),
        (
            wave_by(
                "for x in 0..N level(grid) { for q in 0..1 level(block) { for t in 0..M { S barrier q } } }",
            ),
            "race",
        ),
        (wave_by("for x in 0..N level(grid) { for t in 0..M { S barrier x } }"), "ok"),
        (
            wave_by(
                "for g in 0..(N + 13) // 14 level(grid) { for l in 0..min(14, N - 14 * g) level(block) { \
                 let x: index = 14 * g + l for t in 0..M { S } } }",
            ),
            "race",
        ),
        (
            wave_by(
                "for g in 0..N // 14 level(grid) { for l in 0..14 level(block) { \
                 let x: index = 14 * g + l for t in 0..M { S barrier l } } }",
            ),
            "race",
        ),
        (
            wave_by(
                "for g in 0..N // 14 level(grid) { for l in 0..14 level(block) { \
                 let x: index = 14 * g + l barrier g for t in 0..M { S } } }",
            ),
            "race",
        ),
        (
            wave_by(
                "for g in 0..N // 14 level(grid) { for l in 0..14 level(block) { \
                 let x: index = 14 * g + l for t in 0..M { S barrier g } } }",
            ),
            "ok",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(verdict(&body), expected, "{body}");
    }
    // Each statement of a place has an element of `v` of its own per thread; the pair under test shares them all.
    let own = |label: &str, of: &str| format!("'{label}'[w, {of}]: z[w] = 1:i32");
    let writes = |label: &str, of: &str| format!("'{label}'[w, {of}]: v[w] = 2:i32");
    let reads = |label: &str, of: &str| format!("'{label}'[w, {of}]: z[w] = v[(w + 1) % 8]");
    let (put, get, other) = (|l| writes(l, "i"), |l| reads(l, "i"), |l| own(l, "i"));
    let cases = [
        // One segment, two segments.
        (format!("let i: index = 0 {} {}", put("a"), get("b")), "race"),
        (format!("let i: index = 0 {} barrier w {}", put("a"), get("b")), "ok"),
        // A loop with a barrier: what was before it and its first half share a segment.
        (format!("let q: index = 0 {} for i in 0..4 {{ {} barrier w {} }}", writes("a", "q"), get("b"), other("c")), "race"),
        (
            format!(
                "let q: index = 0 {} for i in 0..4 {{ if i > 0 {{ {} }} barrier w {} }}",
                writes("a", "q"),
                get("b"),
                other("c")
            ),
            "ok",
        ),
        // The second half of one iteration and the first half of the next; of the one after that.
        (format!("for i in 0..4 {{ {} barrier w {} }}", put("a"), get("b")), "race"),
        (format!("for i in 0..4 {{ if i == 0 {{ {} }} barrier w if i > 0 {{ {} }} }}", put("a"), get("b")), "ok"),
        (format!("for i in 0..4 {{ if i == 1 {{ {} }} barrier w if i == 0 {{ {} }} }}", put("a"), get("b")), "race"),
        (format!("for i in 0..4 {{ if i == 2 {{ {} }} barrier w if i == 0 {{ {} }} }}", put("a"), get("b")), "ok"),
        (
            format!("for i in 0..9 step 2 {{ if i == 2 {{ {} }} barrier w if i == 0 {{ {} }} }}", put("a"), get("b")),
            "race",
        ),
        (
            format!("for i in 0..9 step 2 {{ if i == 4 {{ {} }} barrier w if i == 0 {{ {} }} }}", put("a"), get("b")),
            "ok",
        ),
        // The second half of the last iteration and what follows; of the ones before.
        (format!("for i in 0..4 {{ {} barrier w {} }} let q: index = 0 {}", other("a"), put("b"), reads("c", "q")), "race"),
        (format!("for i in 0..4 {{ {} barrier w if i < 3 {{ {} }} }} let q: index = 0 {}", other("a"), put("b"), reads("c", "q")), "ok"),
        (format!("for i in 0..4 {{ {} barrier w {} }} let q: index = 0 {}", put("a"), other("b"), reads("c", "q")), "ok"),
        // Tiles: filled, used, filled again.
        (format!("for i in 0..N {{ {} {} }}", put("F"), get("C")), "race"),
        (format!("for i in 0..N {{ {} barrier w {} }}", put("F"), get("C")), "race"),
        (format!("for i in 0..N {{ {} {} barrier w }}", put("F"), get("C")), "race"),
        (format!("for i in 0..N {{ {} barrier w {} barrier w }}", put("F"), get("C")), "ok"),
        // Two buffers in turn need one barrier.
        (
            "for i in 0..N { 'F'[w, i]: v[i % 2 * 8 + w] = x[w] barrier w \
             'C'[w, i]: z[w] = v[i % 2 * 8 + (w + 1) % 8] }"
                .to_string(),
            "ok",
        ),
        // A pipeline: filled ahead.
        (
            format!(
                "let q: index = 0 {} for i in 0..N {{ barrier w {} barrier w {} }}",
                writes("F0", "q"),
                get("C"),
                put("F")
            ),
            "ok",
        ),
        // Triangular loops: no iteration of the inner one, no barrier.
        (
            "for i in 0..N { 'a'[w, i]: v[w] = 1:i32 for j in i..N { barrier w } 'c'[w, i]: z[w] = v[(w + 1) % 8] \
             barrier w }"
                .to_string(),
            "ok",
        ),
        (
            "for i in 0..N + 1 { 'a'[w, i]: v[w] = 1:i32 for j in i..N { barrier w } 'c'[w, i]: z[w] = v[(w + 1) % 8] \
             barrier w }"
                .to_string(),
            "race",
        ),
        (
            "'a'[w]: v[w] = 1:i32 for i in 0..N { barrier w } 'b'[w]: z[w] = v[(w + 1) % 8]".to_string(),
            "race",
        ),
        (
            "'a'[w]: v[w] = 1:i32 for i in 0..N + 1 { barrier w } 'b'[w]: z[w] = v[(w + 1) % 8]".to_string(),
            "ok",
        ),
        // A barrier that not all threads reach.
        ("for i in 0..w { barrier w }".to_string(), "divergent"),
        ("if w < 3 { barrier w }".to_string(), "divergent"),
        ("alloc t: i32[] stack { 't'[w]: t[] = x[w] if t[] < 3 { barrier w } }".to_string(), "divergent"),
        // A condition on shared memory is the same for all, unless someone writes it at the same time.
        ("if v[0] < 3 { barrier w 'b'[w]: v[w] = 1:i32 }".to_string(), "ok"),
        ("if v[0] < 3 { barrier w } 'b'[w]: v[w] = 1:i32".to_string(), "race"),
        ("'b'[w]: v[w] = 1:i32 if v[0] < 3 { barrier w }".to_string(), "race"),
        ("if v[0] < 3 { barrier w } else { barrier w } 'b'[w]: v[w] = 1:i32".to_string(), "ok"),
        ("for i in 0..index(v[0]) { barrier w } 'b'[w]: v[w] = 1:i32".to_string(), "race"),
        ("for i in 0..index(v[0]) { 'a'[w, i]: z[w] = 1:i32 } barrier w 'b'[w]: v[w] = 1:i32".to_string(), "ok"),
        ("while v[0] < 3 { barrier w 'b'[w]: v[w] = 1:i32 }".to_string(), "race"),
        ("while v[0] < 3 { barrier w 'b'[w]: v[w] = 1:i32 barrier w }".to_string(), "ok"),
        ("if v[w] < 3 { barrier w }".to_string(), "divergent"),
        ("'b'[w]: v[w] = 1:i32 barrier w while v[0] < 3 { barrier w if w == 0 { 'c'[w]: v[0] sum= 1:i32 licensed } barrier w }".to_string(), "ok"),
        ("'b'[w]: v[w] = 1:i32 barrier w while v[0] < 3 { barrier w if w == 0 { 'c'[w]: v[0] sum= 1:i32 licensed } }".to_string(), "race"),
        ("'b'[w]: v[w] = 1:i32 barrier w while v[0] < 3 { if w == 0 { 'c'[w]: v[0] sum= 1:i32 licensed } barrier w }".to_string(), "race"),
        ("if x[0] < 3 { 'a'[w]: v[w] = 1:i32 barrier w 'b'[w]: z[w] = v[(w + 1) % 8] }".to_string(), "ok"),
        // Under a condition of sizes, the barrier is there or not.
        ("'a'[w]: v[w] = 1:i32 if N > 3 { barrier w } 'b'[w]: z[w] = v[(w + 1) % 8]".to_string(), "race"),
        (
            "'a'[w]: v[w] = 1:i32 if N > 3 { barrier w } if N > 5 { 'b'[w]: z[w] = v[(w + 1) % 8] }".to_string(),
            "ok",
        ),
        // Which spaces a barrier orders.
        ("'a'[w]: v[w] = 1:i32 barrier w(shared) 'b'[w]: z[w] = v[(w + 1) % 8]".to_string(), "race"),
        ("'a'[w]: v[w] = 1:i32 barrier w(host) 'b'[w]: z[w] = v[(w + 1) % 8]".to_string(), "ok"),
    ];
    for (body, expected) in cases {
        assert_eq!(verdict(&block(&body)), expected, "{body}");
    }
    // A barrier of an outer loop orders the iterations of the inner ones, and one of an inner loop only these.
    let nest = |body: &str, inner: &str| {
        format!(
            "for w in 0..4 level(warp) {{ for l in 0..8 level(lane) {{ 'a'[w, l]: v[8 * w + l] = x[l] {body} 'b'[w, l]: z[8 * w + l] = v[{inner}] }} }}"
        )
    };
    let (beside, across) = ("8 * w + (l + 1) % 8", "8 * ((w + 1) % 4) + l");
    for (body, read, expected) in [
        ("", beside, "race"),
        ("barrier l", beside, "ok"),
        ("barrier w", beside, "ok"),
        ("barrier l", across, "race"),
        ("barrier w", across, "ok"),
    ] {
        let body = nest(body, read);
        assert_eq!(verdict(&body), expected, "{body}");
    }
}

/// Diamond tiles of a wave equation, 32 wide, for any sizes (the tiling of Loopy's slides; section 2.5 of its notes):
/// half steps of time need a barrier of the whole grid, steps within a tile one of its block.
#[test]
fn diamond_tiles_need_both_barriers() {
    let point = "let t: index = 32 * tt + 16 * half + it \
                 let x: index = 32 * tx + 16 * half - 16 + ix \
                 if ix - it >= 0 and ix - it < 32 and it + ix >= 0 and it + ix < 32 { \
                 if t >= 0 and t < M and x >= 0 and x < N { \
                 'u'[t, x]: u[t + 2, x + 1] = u[t + 1, x] + u[t + 1, x + 1] + u[t + 1, x + 2] + u[t, x + 1] } }";
    let tiles = "for tx in 0..(N + 48) // 32 level(grid)";
    let times = "for tt in 0..(M + 32) // 32 + 1 { for half in 0..2";
    let (its, ixs) = ("for it in -16..17", "for ix in 0..32");
    let local = format!("{ixs} level(block)");
    let cases = [
        (format!("{tiles} {{ {times} {{ {its} {{ {ixs} {{ {point} }} }} }} }} }}"), "race"),
        (format!("{tiles} {{ {times} {{ {its} {{ {ixs} {{ {point} }} }} barrier tx }} }} }}"), "ok"),
        (format!("{tiles} {{ {times} {{ {its} {{ {ixs} {{ {point} }} }} }} barrier tx }} }}"), "race"),
        (format!("{tiles} {{ {local} {{ {times} {{ {its} {{ {point} }} barrier tx }} }} }} }}"), "race"),
        (
            format!("{tiles} {{ {local} {{ {times} {{ {its} {{ {point} barrier ix }} barrier tx }} }} }} }}"),
            "ok",
        ),
        (
            format!("{tiles} {{ {local} {{ {times} {{ {its} {{ {point} barrier ix }} barrier ix }} }} }} }}"),
            "race",
        ),
        // Tiles one after the other, and the threads of each.
        (
            format!(
                "{times} {{ for tx in 0..(N + 48) // 32 {{ {local} {{ {its} {{ {point} barrier ix }} }} }} }} }}"
            ),
            "ok",
        ),
    ];
    for (body, expected) in cases {
        assert_eq!(verdict(&body), expected, "{body}");
    }
}

/// Wavefronts of a triangular solve: planes of `j + k`, with the third dimension inside (section 2.5 of the same notes).
#[test]
fn wavefronts_need_a_barrier_of_the_grid() {
    let cell = "let k: index = wave - j if k >= 0 and k < N { 'q'[i, j, k]: q[i + 1, j + 1, k + 1] = \
                q[i + 1, j + 1, k] + q[i + 1, j, k + 1] + q[i, j + 1, k + 1] }";
    let (waves, rows) = ("for wave in 0..2 * N", "for i in 0..N");
    let (grid, block) = ("for j in 0..N level(grid)", "for j in 0..N level(block)");
    let cases = [
        (format!("{grid} {{ {waves} {{ {rows} {{ {cell} }} }} }}"), "race"),
        (format!("{grid} {{ {waves} {{ {rows} {{ {cell} }} barrier j }} }}"), "ok"),
        (format!("{block} {{ {waves} {{ {rows} {{ {cell} }} barrier j }} }}"), "ok"),
        (format!("{grid} {{ {rows} level(block) {{ {waves} {{ {cell} barrier j }} }} }}"), "race"),
        (format!("{waves} {{ {grid} {{ {rows} {{ {cell} }} }} }}"), "ok"),
        (format!("{waves} level(grid) {{ for j in 0..N {{ {rows} {{ {cell} }} barrier wave }} }}"), "race"),
    ];
    for (body, expected) in cases {
        let text = format!("func f(N)(q: inout i32[N + 1, N + 1, N + 1]) stage scheduled {{ {body} }}");
        assert_eq!(races(&text).is_empty(), expected == "ok", "{body}");
    }
}
