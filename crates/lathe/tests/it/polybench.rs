//! PolyBench's 30 kernels and the programs of `examples/programs` at small sizes: the interpreter beside plain C, and
//! machine code, as written and as `auto` makes it, beside the interpreter.

use lathe::data::Data;
use lathe::{Array, Build, How, Machine, Pool, Program, Schedule};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

type Failure = Box<dyn std::error::Error>;

/// How far the interpreter and C may be apart, of the largest element: C contracts products and sums, and has functions
/// of its own.
fn tolerance(a: &Array) -> f64 {
    match a.ty().to_string().as_str() {
        "f64" => 1e-9,
        "f32" => 1e-4,
        _ => 0.0,
    }
}

fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples").join(name)
}

/// An entry of `kernels.toml`.
#[derive(Clone)]
struct Entry {
    name: String,
    file: String,
    sizes: BTreeMap<String, i64>,
    scalars: BTreeMap<String, f64>,
    /// A letter, and the size that is the most where it needs one.
    fill: BTreeMap<String, (char, String)>,
    folder: PathBuf,
}

fn entries(of: &str) -> Vec<Entry> {
    let folder = folder(of);
    let text = std::fs::read_to_string(folder.join("kernels.toml")).expect("kernels.toml");
    let table: toml::Table = text.parse().expect("kernels.toml is TOML");
    let entry = |(name, e): (&String, &toml::Value)| {
        let of = |key: &str| e.get(key).and_then(toml::Value::as_table).cloned().unwrap_or_default();
        // Three values are those of the three sizes.
        let number = |v: &toml::Value| {
            let v = v.as_array().and_then(|a| a.first()).unwrap_or(v);
            v.as_float().or(v.as_integer().map(|n| n as f64)).expect("a number")
        };
        Entry {
            name: name.clone(),
            file: e["file"].as_str().expect("a file").to_string(),
            sizes: of("mini").iter().map(|(n, v)| (n.clone(), v.as_integer().expect("a size"))).collect(),
            scalars: of("scalars").iter().map(|(n, v)| (n.clone(), number(v))).collect(),
            fill: of("fill")
                .iter()
                .map(|(n, v)| {
                    let text = v.as_str().expect("a letter");
                    let (letter, most) = text.split_once(':').unwrap_or((text, ""));
                    (n.clone(), (letter.chars().next().expect("a letter"), most.to_string()))
                })
                .collect(),
            folder: folder.clone(),
        }
    };
    table.iter().map(entry).collect()
}

fn c_type(a: &Array) -> &'static str {
    match a.ty().to_string().as_str() {
        "f64" => "double",
        "f32" => "float",
        "i32" => "int32_t",
        "index" | "i64" => "int64_t",
        other => panic!("no kernel has {other}"),
    }
}

/// The arrays before and after a call of the kernel in C: a program of its own, which makes them.
fn in_c(e: &Entry, kernel: &lathe::Function, shaped: &Data) -> Result<(Data, Data), Failure> {
    let (mut make, mut call, mut write) = (String::new(), String::new(), String::new());
    for (i, (p, a)) in kernel.params.iter().zip(&shaped.arrays).enumerate() {
        let name = p.name().to_string();
        let (rows, all) = (a.shape().first().copied().unwrap_or(1), a.len() as i64);
        let ty = c_type(a);
        let columns = all / rows.max(1);
        writeln!(make, "    {ty} *a{i} = malloc({all} * sizeof *a{i});")?;
        match e.scalars.get(&name) {
            Some(v) => writeln!(make, "    *a{i} = {v};")?,
            None => {
                let (kind, most) = e.fill.get(&name).cloned().unwrap_or(('r', String::new()));
                let most = e.sizes.get(&most).copied().unwrap_or(0);
                let fill = match ty {
                    "double" => "fill_f64",
                    "float" => "fill_f32",
                    "int32_t" => "fill_i32",
                    _ => "fill_i64",
                };
                writeln!(make, "    {fill}(a{i}, {rows}, {columns}, '{kind}', {}, {most});", i + 1)?;
            }
        }
        write!(call, "{}(void *)a{i}", if i == 0 { "" } else { ", " })?;
        writeln!(write, "    fwrite(a{i}, sizeof *a{i}, {all}, stdout);")?;
    }
    let text = format!(
        "#include <stdio.h>\n#include <stdlib.h>\n#include \"../polybench/data.c\"\n#include \"{}.c\"\nint main(void) {{\n{make}{write}    \
         {}({call});\n{write}    return 0;\n}}\n",
        e.file, e.name
    );
    let at = tempfile::tempdir()?;
    std::fs::write(at.path().join("main.c"), text)?;
    let mut cc = Command::new("cc");
    cc.args(["-std=gnu11", "-O1", "-w"]).arg(format!("-I{}", e.folder.display()));
    cc.arg(format!("-DKERNEL_{}", e.name)).args(e.sizes.iter().map(|(n, v)| format!("-D{n}={v}")));
    let done = cc.arg("main.c").args(["-o", "main", "-lm"]).current_dir(at.path()).output()?;
    if !done.status.success() {
        return Err(String::from_utf8_lossy(&done.stderr).into());
    }
    let bytes = Command::new(at.path().join("main")).output()?.stdout;
    let mut rest = bytes.as_slice();
    let mut read = || -> Result<Data, Failure> {
        let mut data = shaped.duplicate()?;
        for a in &mut data.arrays {
            let n = a.bytes().len();
            let (now, later) = rest.split_at_checked(n).ok_or("the program in C wrote too little")?;
            a.bytes_mut().copy_from_slice(now);
            rest = later;
        }
        Ok(data)
    };
    Ok((read()?, read()?))
}

fn values(a: &Array) -> Vec<f64> {
    let wide = |all: Vec<f32>| all.iter().map(|x| f64::from(*x)).collect();
    let whole = || a.to_vec::<i32>().unwrap_or_default().iter().map(|x| f64::from(*x)).collect();
    a.to_vec::<f64>().or_else(|| a.to_vec::<f32>().map(wide)).unwrap_or_else(whole)
}

fn close(kernel: &lathe::Function, got: &Data, want: &Data) -> Result<(), Failure> {
    for (p, (g, w)) in kernel.params.iter().zip(got.arrays.iter().zip(&want.arrays)) {
        if p.mode == lathe::Mode::In {
            continue;
        }
        let tolerance = tolerance(g);
        let (g, w) = (values(g), values(w));
        let most = w.iter().fold(0.0, |m: f64, x| m.max(x.abs()));
        for (n, (x, y)) in g.iter().zip(&w).enumerate() {
            if (x - y).abs() > tolerance * most || x.is_nan() != y.is_nan() {
                return Err(format!("{}: element {n} is {x}, but {y} in C", p.name()).into());
            }
        }
    }
    Ok(())
}

fn one(e: &Entry, pool: &Pool, auto: &mut usize) -> Result<(), Failure> {
    let program = Program::open(e.folder.join(format!("{}.lathe", e.file)))?;
    let kernel = program.kernel(Some(&e.name))?;
    let machine = Machine::host();
    let given = lathe::Given { sizes: e.sizes.clone(), ..lathe::Given::default() };
    let shaped = lathe::data::make(kernel, &given)?;
    let (before, in_c) = in_c(e, kernel, &shaped)?;
    let with = |strategy: &str| -> Result<Schedule, Failure> {
        let how = How {
            strategy: Some(strategy.to_string()),
            sizes: e.sizes.clone(),
            threads: Some(2),
            ..How::default()
        };
        Ok(lathe::schedule(&program, kernel, &how, &machine)?)
    };
    let naive = with("naive")?;
    let mut by_interpreter = before.duplicate()?;
    let on_interpreter = Build { engine: lathe::Engine::INTERPRETER, ..Build::default() };
    lathe::compile(&naive, &on_interpreter)?.call(pool, &mut by_interpreter.arrays)?;
    close(kernel, &by_interpreter, &in_c)?;
    let build = Build { opt_level: 1, ..Build::default() };
    let reference = lathe::Reference::new(&naive, &build, before.duplicate()?, pool)?;
    for made in [naive, with("auto")?] {
        let mut after = before.duplicate()?;
        lathe::compile(&made, &build)?.call(pool, &mut after.arrays)?;
        let checked = reference.compare(&made, &after)?;
        if !checked.report.ok {
            let first = checked.first.unwrap_or_default();
            return Err(format!("with {}: {first}", made.strategy).into());
        }
        *auto += usize::from(made.strategy == "auto" && made.versions.iter().any(|v| v.steps.len() > 1));
    }
    Ok(())
}

/// How many kernels of a folder there are, and how many `auto` changed.
fn all_agree(folder: &str) -> (usize, usize) {
    let (all, pool) = (entries(folder), Pool::new(2).expect("a pool"));
    let mut changed = 0;
    let wrong =
        |e: &Entry, changed: &mut usize| one(e, &pool, changed).err().map(|f| format!("{}: {f}", e.name));
    let failures: Vec<String> = all.iter().filter_map(|e| wrong(e, &mut changed)).collect();
    assert!(failures.is_empty(), "{}", failures.join("\n"));
    (all.len(), changed)
}

#[test]
fn all_thirty_agree_with_c_and_the_interpreter() {
    let (all, changed) = all_agree("polybench");
    assert_eq!(all, 30);
    assert!(changed >= 10, "`auto` changed {changed} kernels");
}

#[test]
fn programs_agree_with_c_and_the_interpreter() {
    let (all, changed) = all_agree("programs");
    assert_eq!(all, 11);
    assert!(changed >= 6, "`auto` changed {changed} programs");
}

/// `+=` and `*=` on old values do not prevent `auto`.
#[test]
fn updates_take_decisions() {
    for e in
        entries("polybench").iter().filter(|e| ["gemm", "gemver", "mvt", "two_mm"].contains(&e.name.as_str()))
    {
        let program =
            Program::open(e.folder.join(format!("{}.lathe", e.file))).unwrap_or_else(|f| panic!("{f}"));
        let kernel = program.kernel(Some(&e.name)).unwrap_or_else(|f| panic!("{f}"));
        let how = How { strategy: Some("auto".to_string()), sizes: e.sizes.clone(), ..How::default() };
        let made =
            lathe::schedule(&program, kernel, &how, &Machine::host()).unwrap_or_else(|f| panic!("{f}"));
        assert_eq!(made.notes(), Vec::<String>::new(), "{}", e.name);
        assert!(!made.versions[0].taken.computes.is_empty(), "{}", e.name);
    }
}

/// Factorizations of large matrices run in blocks, and are right where the last block is not full.
#[test]
fn factorizations_run_in_blocks() {
    let pool = Pool::new(2).unwrap_or_else(|f| panic!("{f}"));
    let machine = Machine::named("x86-64-v4").expect("is known");
    // What the updates at the end of blocks are made of: products of packed panels.
    let kernels =
        [("lu", "invariant: k.rest"), ("cholesky", "invariant: k.rest"), ("ludcmp", "invariant: i.rest")];
    for e in entries("polybench") {
        let Some((_, update)) = kernels.iter().find(|k| k.0 == e.name) else { continue };
        let sizes = |n| {
            let mut e = e.clone();
            e.sizes.iter_mut().for_each(|(_, size)| *size = n);
            e
        };
        let (small, e) = (sizes(203), sizes(2000));
        one(&small, &pool, &mut 0).unwrap_or_else(|f| panic!("{}: {f}", e.name));
        let program =
            Program::open(e.folder.join(format!("{}.lathe", e.file))).unwrap_or_else(|f| panic!("{f}"));
        let kernel = program.kernel(Some(&e.name)).unwrap_or_else(|f| panic!("{f}"));
        let how = How { strategy: Some("auto".to_string()), sizes: e.sizes.clone(), ..How::default() };
        let made = lathe::schedule(&program, kernel, &how, &machine).unwrap_or_else(|f| panic!("{f}"));
        let steps = &made.versions[0].taken.strategy;
        assert!(steps.contains("affine_schedule(blocks: ") && steps.contains(update), "{}: {steps}", e.name);
    }
}
