//! `show` and breakpoints of kernels, on every engine.

use crate::common::{Folder, load, save};

const SHOWS: &str = "kernel shows(x: f32[N], most: i64) -> (y: f32[N], n: i64[1]) {
    n[0] = 0
    for i in 0..N {
        print(\"x[{}] is {}, {{}}\", i, x[i], x[i] > 1.5, f64(x[i]) / 3.0)
        let twice = 2.0 * x[i]
        assert(x[i] < 3.0, \"{} is too large\", twice)
        while n[0] < i64(i) {
            assert(n[0] < most and twice < 100.0)
            n[0] += 1
        }
        y[i] = twice
    }
    print(\"sum\", sum[k](x[k]), c64(x[0], -x[1]))
}

test \"too large\" for shows {
    N = 3
    most = 5
    x[i] = 1.0 + f32(i)
    expect y[i] = 2.0 + 2.0 * f32(i)
    expect n[i] = 2
}";

#[test]
fn kernels_are_debugged_on_every_engine() {
    let f = Folder::new();
    f.write("shows.lathe", SHOWS);
    save(&f, "x.npy", &[3], &[1.0, 2.0, 0.1]);
    save(&f, "large.npy", &[3], &[1.0, 2.0, 4.0]);
    let two = "x[0] is 1.0, {} false 0.3333333333333333\nx[1] is 2.0, {} true 0.6666666666666666\n";
    let small = "x[2] is 0.1, {} false 0.033333333830038704\n";
    let large = "x[2] is 4.0, {} true 1.3333333333333333\n";
    let line = |engine: &str, x: &str, most: i64, more: &str| {
        format!("run shows.lathe -i x={x}.npy -i most={most} -o y=y.npy --engine {engine} --threads 2 {more}")
    };
    for engine in ["llvm", "c", "interpreter"] {
        let d = f.ok(&line(engine, "x", 5, "--debug"));
        assert_eq!(d.stdout, format!("{two}{small}sum 3.1 1.0 - 2.0i\n"), "{engine}");
        assert_eq!(load(&f, "y.npy"), [2., 4., 0.2]);
        for (x, most, third, says) in [
            ("large", 5, large, ["does not hold: 8.0 is too large", "x[i] = 4.0", "i = 2"]),
            ("x", 1, small, ["shows.lathe:8", "most = 1", "twice = 0.2"]),
        ] {
            let d = f.lathe(&line(engine, x, most, "--debug"));
            assert_eq!((d.status, d.stdout), (1, format!("{two}{third}")), "{engine}: {}", d.stderr);
            assert!(d.stderr.contains("E0921"), "{engine}: {}", d.stderr);
            assert!(says.iter().all(|v| d.stderr.contains(v)), "{engine}: {}", d.stderr);
        }
        // Without the option they are not there; the interpreter always runs them.
        let d = f.lathe(&line(engine, "large", 5, ""));
        match engine {
            "interpreter" => assert!(d.status == 1 && d.stdout.starts_with(two), "{}", d.stderr),
            _ => assert!(d.status == 0 && d.stdout.is_empty(), "{engine}: {}", d.stderr),
        }
    }
    // Steps that would bring them out of order are refused, those that do not are not.
    f.write(
        "map.lathe",
        "kernel map(x: f32[N]) -> (y: f32[N]) {\n    for i in 0..N {\n        y[i] = x[i]\n        print(i)\n    }\n}\n\
         strategy two for map = open; parallel(i)\nstrategy blocks for map = open; split(i, 2)",
    );
    assert_eq!(f.ok("run map.lathe -D N=3 --strategy two").stdout, "");
    let d = f.lathe("run map.lathe -D N=3 --strategy two --debug");
    assert!(d.status == 1 && d.stderr.contains("E0623") && d.stderr.contains("debug.log"), "{}", d.stderr);
    assert_eq!(f.ok("run map.lathe -D N=3 --strategy blocks --debug").stdout, "0\n1\n2\n");
    // Tests run them in the interpreter.
    let d = f.lathe("check shows.lathe");
    assert!(d.status == 1 && d.stderr.contains("E0921") && !d.stderr.contains("x[0] is"), "{}", d.stderr);
    f.write("more.lathe", SHOWS.replace("< 3.0", "< 9.0"));
    let d = f.ok("check more.lathe --debug");
    assert!(d.stderr.contains("test \"too large\": x[2] is 3.0, {} true 1.0"), "{}", d.stderr);
}

#[test]
fn what_is_shown_is_bounded_and_checked() {
    let f = Folder::new();
    f.write(
        "many.lathe",
        "kernel many(n: i64) -> (y: i64[1]) {\n    y[0] = n\n    for i in 0..index(n) {\n        print(i)\n        assert(i < 200000)\n    }\n}",
    );
    let d = f.ok("run many.lathe -i n=150000 --debug --engine llvm");
    let lines: Vec<&str> = d.stdout.lines().collect();
    assert!(lines.len() == 130_944 && lines[130_942] == "130942", "{}", lines.len());
    assert_eq!(lines[130_943], "… 19057 more were dropped");
    // An assert that fails has room.
    let d = f.lathe("run many.lathe -i n=300000 --debug --engine llvm");
    assert!(d.status == 1 && d.stderr.contains("i = 200000"), "{}", d.stderr);
    assert!(d.stdout.lines().last().is_some_and(|l| l.contains("69058")), "{}", d.stdout.len());
    // What is wrong in them is wrong without the option, too.
    for (wrong, code) in [
        ("print(z)", "unknown name `z`"),
        ("assert(1)", "bool"),
        ("assert(x[0] > 0.0, w)", "unknown name `w`"),
        ("print(\"{} {}\", x[0])", "no value"),
        ("print(\"{x}\", x[0])", "single `{`"),
        ("print(\"}\", x[0])", "single `}`"),
        ("print(x)", "x"),
    ] {
        f.write(
            "wrong.lathe",
            format!("kernel f(x: f32[N]) -> (y: f32[N]) {{\n    y[i] = x[i]\n    {wrong}\n}}"),
        );
        let d = f.lathe("check wrong.lathe");
        assert!(d.status != 0 && d.stderr.contains(code), "{wrong}: {}", d.stderr);
    }
    // What they access is within bounds, or checked when they run.
    f.write("far.lathe", "kernel far(x: f32[N]) -> (y: f32[N]) {\n    y[i] = x[i]\n    print(x[N])\n}");
    f.ok("run far.lathe -D N=3");
    let d = f.lathe("run far.lathe -D N=3 --debug");
    assert!(d.status == 1 && d.stderr.contains("far.lathe:3"), "{}", d.stderr);
}
