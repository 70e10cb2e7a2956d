//! Files that commands read and write: byte order marks, records, and nothing silently lost.

use crate::common::{Folder, form, parsed, script};
use lathe::{Array, npy};

const TWO: &str = "kernel f(A: f32[N], W: inout f32[N]) -> (B: f32[N], C: f32[N]) {\n\
                   B[i] = 2 * A[i]\n C[i] = 3 * A[i]\n W[i] = W[i] + 1 }";

fn save(f: &Folder, name: &str, data: &[f32]) {
    npy::write(&f.path(name), &Array::from_slice(&[data.len() as i64], data).expect("an array"))
        .expect("a file");
}

#[test]
fn no_file_is_written_twice_or_over_what_is_read() {
    let f = Folder::new();
    f.write("f.lathe", TWO);
    save(&f, "a.npy", &[1.0, 2.0]);
    save(&f, "w.npy", &[5.0, 6.0]);
    std::fs::create_dir(f.path("sub")).expect("a folder");
    let run = "run f.lathe -i A=a.npy -i W=w.npy";
    for outputs in [
        "-o B=x.npy -o C=x.npy",
        "-o B=x.npy -o C=./x.npy",
        "-o B=x.npy -o C=sub/../x.npy",
        "-o B=a.npy",
        "-o B=sub/../a.npy",
        "-o W=w.npy",
        "-o B=f.lathe",
    ] {
        f.fails(&format!("{run} {outputs}"), 1, "E0907");
    }
    assert!(!f.path("x.npy").exists());
    assert_eq!(npy::read(&f.path("a.npy")).expect("an array").to_vec::<f32>(), Some(vec![1.0, 2.0]));
    f.ok(&format!("{run} -o B=b.npy -o C=c.npy -o W=v.npy"));
    assert_eq!(npy::read(&f.path("v.npy")).expect("an array").to_vec::<f32>(), Some(vec![6.0, 7.0]));
    // An old result is replaced, as ever.
    f.ok(&format!("{run} -o B=b.npy"));
    f.fails("emit f.lathe --to c -o f.lathe", 1, "E0907");
    f.fails("tune f.lathe --plot f.lathe", 1, "E0907");
    f.fails("tune f.lathe --plot x.svg --t4 x.svg", 1, "E0907");
    assert_eq!(f.read("f.lathe"), TWO);
}

/// Whatever a command reads, by whatever way it came to it.
#[test]
fn no_output_replaces_what_the_program_is_made_of() {
    let f = Folder::new();
    f.write("two.lathe", TWO);
    f.write(
        "sub.lathe",
        "use \"two.lathe\"\nstrategy s for g = mdh(of: B, model: \"mod.toml\")\n\
             kernel g(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] }",
    );
    let levels = "format = 1\nname = \"mine\"\nbase = \"x86-64-v3\"\n";
    f.write("cpu.toml", levels);
    f.write("mod.toml", levels);
    let whole = [f.read("two.lathe"), f.read("cpu.toml"), f.read("mod.toml")];
    f.fails("run sub.lathe:g -D N=2 -o B=two.lathe", 1, "E0907");
    for line in [
        "--to c -o two.lathe",
        "--to tree --cpu ./cpu.toml -o cpu.toml",
        "--to tree --model ./mod.toml -s naive -o mod.toml",
        "--to tree -s naive -o mod.toml",
        "--to tree -s naive -o results.sqlite",
    ] {
        f.fails(&format!("emit sub.lathe:g {line}"), 1, "E0907");
    }
    f.fails("grad sub.lathe:g -o two.lathe", 1, "E0907");
    f.fails("explain sub.lathe:g -s auto -D N=64 --picture two.lathe", 1, "E0907");
    f.fails("tune sub.lathe:g -s auto -D N=64 --plot two.lathe", 1, "E0907");
    // Of a program that scripts run.
    script(&f, "run.sh", "echo 1 > cost");
    f.write("prog.txt", "#include \"head.h\"\nX");
    f.write("head.h", " # include \"sub/deep.h\"\n");
    std::fs::create_dir(f.path("sub")).expect("a folder");
    f.write("sub/deep.h", "#include \"../head.h\"\n");
    let json = serde_json::json!({
        "program_source": "prog.txt", "run_script": "./run.sh fast", "compile_script": ["cat", "prog.txt"],
        "cost_file": "cost", "tuning_parameters": [{"name": "X", "range": "interval<int>(1, 2)"}],
    });
    form(&f, "a.json", &json);
    let told = f.read("a.json");
    for file in ["run.sh", "prog.txt", "a.json", "./run.sh", "head.h", "sub/deep.h"] {
        f.fails(&format!("tune a.json --fresh --t4 {file}"), 1, "E0907");
        f.fails(&format!("tune a.json --fresh --plot {file}"), 1, "E0907");
    }
    assert_eq!([f.read("two.lathe"), f.read("cpu.toml"), f.read("mod.toml")], whole);
    assert_eq!(f.read("a.json"), told);
    assert!(f.read("prog.txt").ends_with("X") && f.read("head.h").contains("deep"));
    assert!(f.read("run.sh").ends_with("cost\n"));
}

#[test]
fn links_to_nothing_are_the_files_that_they_name() {
    let f = Folder::new();
    f.write("f.lathe", TWO);
    std::fs::create_dir(f.path("sub")).expect("a folder");
    let link = |from: &str, to: &str| std::os::unix::fs::symlink(to, f.path(from)).expect("a link");
    link("l.npy", "x.npy");
    link("sub/m.npy", "../l.npy");
    link("circle.npy", "circle.npy");
    for outputs in ["-o B=x.npy -o C=l.npy", "-o B=sub/m.npy -o C=x.npy", "-o B=l.npy -o C=sub/m.npy"] {
        f.fails(&format!("run f.lathe -D N=2 {outputs}"), 1, "E0907");
    }
    assert!(!f.path("x.npy").exists());
    f.ok("run f.lathe -D N=2 -o B=circle.npy");
    f.ok("run f.lathe -D N=2 -o B=l.npy -o C=c.npy");
    npy::read(&f.path("l.npy")).expect("an array");
}

#[test]
fn index_scalars_and_structs_come_from_files() {
    let f = Folder::new();
    f.write(
        "s.lathe",
        "struct P { v: f32, i: index }\n\
         kernel pick(A: f32[N], n: index) -> (B: f32) { B = A[n] }\n\
         kernel swap(A: P[N], T: (i8, f64)[N]) -> (B: P[N], S: (f64, i8)[N]) {\n\
         B[i] = P(v: A[i].v + 1, i: 2 * A[i].i)\n S[i] = (T[i].1, T[i].0) }",
    );
    save(&f, "a.npy", &[1.0, 2.0, 3.0]);
    npy::write(&f.path("n.npy"), &Array::scalar(2i64).expect("an array")).expect("a file");
    npy::write(&f.path("m.npy"), &Array::scalar(2i32).expect("an array")).expect("a file");
    f.ok("run s.lathe:pick -i A=a.npy -i n=n.npy -o B=b.npy --check");
    assert_eq!(npy::read(&f.path("b.npy")).expect("an array").to_vec::<f32>(), Some(vec![3.0]));
    f.fails("run s.lathe:pick -i A=a.npy -i n=m.npy", 1, "E0906");
    f.fails("run s.lathe:pick -i A=a.npy -i n=a.npy", 1, "E0906");
    // As numpy writes them: packed records, big-endian, in another order of bytes than ours.
    let file = |descr: &str, data: &[u8]| {
        let text = format!("{{'descr': {descr}, 'fortran_order': False, 'shape': (2,), }}\n");
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((text.len() as u16).to_le_bytes());
        out.extend(text.bytes());
        out.extend(data);
        out
    };
    let p: Vec<u8> = [1u8, 2]
        .iter()
        .flat_map(|k| [(f32::from(*k)).to_be_bytes().to_vec(), i64::from(*k).to_be_bytes().to_vec()].concat())
        .collect();
    let t: Vec<u8> =
        [3u8, 4].iter().flat_map(|k| [vec![*k], f64::from(*k).to_le_bytes().to_vec()].concat()).collect();
    f.write("p.npy", file("[('v', '>f4'), ('i', '>i8')]", &p));
    f.write("t.npy", file("[('f0', '|i1'), ('f1', '<f8')]", &t));
    for engine in ["llvm", "c"] {
        let run = format!("run s.lathe:swap --engine {engine} --check");
        f.ok(&format!("{run} -i A=p.npy -i T=t.npy -o B=q.npy -o S=s.npy"));
        let b = npy::read(&f.path("q.npy")).expect("records");
        assert_eq!(b.bytes()[16..20], 3f32.to_le_bytes());
        assert_eq!(b.bytes()[24..32], 4i64.to_le_bytes());
        // What was written is read again.
        f.ok(&format!("{run} -i A=q.npy -i T=t.npy"));
    }
    for (descr, size) in [
        ("[('v', '<f4'), ('j', '<i8')]", 24),
        ("[('i', '<i8'), ('v', '<f4')]", 24),
        ("[('v', '<f4')]", 8),
        ("'<f4'", 8),
    ] {
        f.write("p.npy", file(descr, &vec![0; size]));
        f.fails("run s.lathe:swap -i A=p.npy -i T=t.npy", 1, "E0906");
    }
}

#[test]
fn sizes_change_nothing_where_no_decision_is_taken() {
    let f = Folder::new();
    f.write("f.lathe", "kernel f(A: inout f32[N]) { for i in 1..N { A[i] = 2 * A[i - 1] } }");
    let d = f.ok("explain f.lathe -D N=8");
    assert!(d.stderr.starts_with("note: "), "{}", d.stderr);
    let told = f.ok("explain f.lathe").stdout;
    assert!(d.stdout.ends_with(&told) && !told.is_empty(), "{}\n{told}", d.stdout);
    f.ok("explain f.lathe -D N=8 --strategy auto");
    f.fails("explain f.lathe -D M=8", 1, "E0904");
    f.fails("explain f.lathe --specialize", 1, "E0904");
    f.ok("emit f.lathe --to c -D N=8");
    // No help leads back to where it was given.
    for line in ["--picture p.svg", "--picture p.svg -s auto", "--picture p.svg -s auto -D N=8"] {
        let d = f.fails(&format!("explain f.lathe {line}"), 1, "E0914");
        assert!(!d.stderr.contains("help:"), "{}", d.stderr);
    }
    f.write("g.lathe", "kernel g(A: f32[2]) -> (B: f32[2]) { for i in 0..2 { B[i] = A[i] } }");
    let d = f.fails("explain g.lathe --specialize", 1, "E0904");
    assert!(d.stderr.contains("help:"), "{}", d.stderr);
}

/// Another name for `auto` is `auto`, with every extent.
#[test]
fn auto_by_another_name() {
    let f = Folder::new();
    f.write(
        "m.lathe",
        "kernel mm(A: f32[M, K], X: f32[K, N]) -> (B: f32[M, N]) { B[i, j] = sum[k](A[i, k] * X[k, j]) }\n\
         fun sq(xs: f32[N]) -> f32[N] = xs |> map(|x| x * x)\n\
         strategy mine for mm = auto\nstrategy other for mm = mine\nstrategy more for mm = auto ; id\n\
         strategy either for mm = if N < 2 then auto else other\nstrategy mine for sq = auto",
    );
    for n in 0..3 {
        for m in 0..3 {
            let sizes = format!("-D M={m} -D N={n} -D K={}", (m + n) % 3);
            let of = |s: &str| parsed(&f.ok(&format!("run m.lathe:mm {sizes} -s {s} --check --json")));
            let auto = of("auto");
            for s in ["mine", "other"] {
                let v = of(s);
                assert_eq!((&v["strategy"], &v["evidence"]), (&s.into(), &auto["evidence"]), "{sizes}");
            }
            of("either");
            of("more");
        }
        f.ok(&format!("run m.lathe:sq -D N={n} -s mine --check"));
    }
    let tree = |s: &str| f.ok(&format!("emit m.lathe:sq --to tree -D N=64 -s {s}")).stdout;
    assert_eq!(tree("mine"), tree("auto"));
    f.ok("check m.lathe");
}
