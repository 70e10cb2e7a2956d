//! Every reader of something that others may have written, as a function of bytes: whatever these are, it ends with a
//! value or a message. The test beside this file mutates good inputs a little; `make fuzz` does so at length, led by the
//! code that they reach (`fuzz/`).

use lathe::lang::Resolver;
use lathe::{Array, Cache, Machine, Program, SourceMap, space, tune};
use lathe_diagnostics::FileId;
use lathe_measure::cost::{Tokens, substitute};
use std::path::{Path, PathBuf};

/// A reader: whether it took the bytes; and good inputs.
pub struct Reader {
    pub name: &'static str,
    pub read: fn(&[u8]) -> bool,
    pub seeds: fn() -> Vec<Vec<u8>>,
}

pub const ALL: &[Reader] = &[
    Reader { name: "source", read: source, seeds: sources },
    Reader { name: "tree", read: tree, seeds: || files("crates/lathe-ir/tests/run", "tree") },
    Reader { name: "mdh", read: mdh, seeds: || files("examples/mdh", "mdh") },
    Reader { name: "machine", read: machine, seeds: || files("crates/lathe-target/machines", "toml") },
    Reader { name: "strategy", read: strategy, seeds: || texts(STRATEGIES) },
    Reader { name: "evidence", read: evidence, seeds: accounts },
    Reader { name: "npy", read: npy, seeds: arrays },
    Reader { name: "form", read: form, seeds: forms },
    Reader { name: "t1", read: t1, seeds: || files("crates/lathe-space/tests/data", "json") },
    Reader { name: "t4", read: t4, seeds: || texts(&[RESULTS]) },
    Reader { name: "rule", read: rule, seeds: || texts(RULES) },
    Reader { name: "export", read: export, seeds: || vec![full_store().1] },
    Reader { name: "store", read: store, seeds: || vec![full_store().0] },
    Reader { name: "cache", read: cache, seeds: entries },
];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn files(folder: &str, end: &str) -> Vec<Vec<u8>> {
    let folder = root().join(folder);
    let all = std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display()));
    let mut all: Vec<PathBuf> = all.map(|e| e.expect("an entry").path()).collect();
    all.retain(|f| f.extension().is_some_and(|e| e == end));
    all.sort();
    all.iter().map(|f| std::fs::read(f).expect("a file")).collect()
}

fn texts(all: &[&str]) -> Vec<Vec<u8>> {
    all.iter().map(|t| t.as_bytes().to_vec()).collect()
}

fn text(data: &[u8]) -> Option<&str> {
    std::str::from_utf8(data).ok()
}

struct Alone;

impl Resolver for Alone {
    fn load(&mut self, _: &str, name: &str) -> Result<(String, String), String> {
        Err(format!("there is no file {name}"))
    }
}

/// What `lathe explain --json` prints; what is read is written as the same.
pub fn evidence(data: &[u8]) -> bool {
    let Some(Ok(stored)) = text(data).map(lathe::load_evidence) else { return false };
    for v in &stored {
        let written = serde_json::to_string(&v.steps).expect("evidence is data");
        let mut again = v.clone();
        again.steps = serde_json::from_str(&written).expect("what was written");
        assert_eq!(again, *v);
    }
    true
}

fn accounts() -> Vec<Vec<u8>> {
    let program = Program::open(root().join("examples/matvec.lathe")).expect("an example");
    let kernel = program.kernel(None).expect("one kernel");
    let how = lathe::How::default();
    let schedule = lathe::schedule(&program, kernel, &how, &lathe::Machine::host()).expect("a strategy");
    vec![lathe::explain_json("matvec", "", &schedule).to_string().into_bytes()]
}

fn sources() -> Vec<Vec<u8>> {
    let folders = ["examples", "examples/patterns", "crates/lathe-lang/tests/files"];
    folders.iter().flat_map(|f| files(f, "lathe")).collect()
}

/// `.lathe` files; what is formatted once stays as it is.
pub fn source(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    if let Ok(once) = lathe::lang::format(text) {
        let twice = lathe::lang::format(&once);
        assert_eq!(twice.as_deref(), Ok(once.as_str()), "formatting twice changes something");
    }
    lathe::lang::load(&mut SourceMap::new(), "fuzz.lathe", text, &mut Alone).is_ok()
}

/// Trees; what is printed reads as the same.
pub fn tree(data: &[u8]) -> bool {
    let Some(input) = text(data) else { return false };
    let Ok(module) = lathe::text::parse_module(FileId(0), input) else { return false };
    let _ = lathe::ir::verify::verify(&module);
    let printed = lathe::text::print_module(&module);
    match lathe::text::parse_module(FileId(0), &printed) {
        Ok(again) => assert_eq!(lathe::text::print_module(&again), printed),
        Err(e) => panic!("printed text does not parse: {e:?}\n{printed}"),
    }
    true
}

/// Homomorphisms.
pub fn mdh(data: &[u8]) -> bool {
    text(data).is_some_and(|t| Program::from_text("fuzz.mdh", t).is_ok())
}

/// Machines, and the models of systems that they are for homomorphisms.
pub fn machine(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    let machine = Machine::parse(text).is_ok();
    lathe_mdh::Model::parse(text).is_ok() || machine
}

const STRATEGIES: &[&str] = &[
    "split(4) @ innermost(appliedReduce) ; try(unroll) ; (a <+ b(c, n: 3))",
    "strategy two(n) = split(n) ; interchange # twice\nstrategy all = repeat(topDown(two(4)))",
    "map(|x| f(g(x)))(join(split(4, xs)))",
    "[N]f32 -> [N / 4][4](f32, i64)",
    // These were read otherwise when they were printed, or not in a lifetime.
    "o(\"Aass.1j\",).2",
    "not(vlit(t(3,(xs)-f-\"\"/\"y.then\"*a*Xtf)))",
    "not(f-\"\"/\"\"*a*Xtft(t(3,(xs)-\"\"/-\"f\"*a*Xtf)))",
    "ab(not(notab()))",
    "i8 [n%a%b%c%d%e%f%g%h%i%j%k%l%m%n%o%p%q%r%s%t%u%v%w%x%y%z%a%b%c%d%e%f%g%h%i%j%k%l%m]",
];

/// Strategies as text, terms and types of patterns.
pub fn strategy(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    let definitions = lathe_strategy::parse_definitions(text).is_ok_and(|d| !d.is_empty());
    let steps = lathe_strategy::parse_strategy(text);
    let steps = steps.map(|s| {
        let printed = s.to_string();
        let again = lathe_strategy::parse_strategy(&printed).map(|s| s.to_string());
        assert_eq!(again.ok(), Some(printed), "what is printed reads otherwise");
    });
    let term = lathe_pattern::parse_term(text).is_ok();
    lathe_pattern::parse_type(text).is_ok() || term || steps.is_ok() || definitions
}

fn arrays() -> Vec<Vec<u8>> {
    let headers = [
        ("'<f4'", "(2, 3)", 24),
        ("'>i8'", "(0, 7)", 0),
        ("[('v', '<i2'), ('', '|V1'), ('w', [('u', '|b1')])]", "(6,)", 24),
        ("'|b1'", "()", 1),
    ];
    let one = |(dtype, shape, bytes): (&str, &str, usize)| {
        let header = format!("{{'descr': {dtype}, 'fortran_order': False, 'shape': {shape}, }}");
        let mut out = b"\x93NUMPY\x01\x00".to_vec();
        out.extend((header.len() as u16).to_le_bytes());
        out.extend(header.as_bytes());
        out.extend(vec![1; bytes]);
        out
    };
    headers.into_iter().map(one).collect()
}

/// Arrays of NumPy.
pub fn npy(data: &[u8]) -> bool {
    let Ok(array) = lathe::npy::from_bytes(data) else { return false };
    assert!(array.bytes().len() <= 8 * data.len(), "an array is larger than its file");
    let mut out = Vec::new();
    if lathe::npy::write_to(&array, &mut out).is_ok() {
        let again: Array = lathe::npy::from_bytes(&out).expect("what was written");
        assert_eq!((again.bytes(), again.shape()), (array.bytes(), array.shape()));
    }
    true
}

fn forms() -> Vec<Vec<u8>> {
    let mut all = files("examples/opencl", "cl");
    let nameless = r#"{ "tuning_parameters": [ { "name": "W", "range": "interval<int>(0, 64)",
        "constraint": "v::(64) && less_than(33)" } ], "program_source": "p.c", "run_script": "./a.out" }"#;
    all.extend(texts(&[nameless]));
    all.extend(texts(&[r#"{ "comment": "", "tuning_parameters": [
        { "name": "WPT", "range": "interval<int>(1, 64, 2)", "constraint": "divides(64) && less_than(33)" },
        { "name": "MODE", "range": ["fast", "safe"], "default": "safe" },
        { "name": "F", "range": "set<float>{0.5, 1.5}", "constraint": "F * WPT < 20.0 || MODE == \"safe\"" } ],
        "program_source": "prog.c", "compile_script": ["cc", "-DWPT=WPT", "prog.c"], "run_script": "./a.out",
        "cost_file": "cost", "search_technique": "auc_bandit",
        "abort_condition": "duration<minutes>(30) || cost(0.5)" }"#]));
    all
}

/// Programs to be tuned: directives and forms. What is written as a form reads as the same.
pub fn form(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    let arguments = ["64".to_string(), "x".to_string()];
    let directives = space::formats::directives::parse(text, FileId(0), &arguments);
    let form = space::formats::json::parse(text, FileId(0));
    if let Ok(program) = &form
        && let Ok(written) = space::formats::json::write(program)
    {
        let again = space::formats::json::parse(&written, FileId(0));
        assert_eq!(again.ok().as_ref(), Some(program), "what is written reads otherwise:\n{written}");
    }
    form.is_ok() || directives.is_ok_and(|p| !p.space.params.is_empty())
}

/// Spaces in the format T1.
pub fn t1(data: &[u8]) -> bool {
    text(data).is_some_and(|t| space::formats::t1::parse(t, FileId(0)).is_ok())
}

const RESULTS: &str = r#"{ "metadata": { "timeunit": "milliseconds" }, "schema_version": "1.0.0", "results": [
    { "timestamp": "2024-02-29T23:59:59+00:00", "configuration": { "t": 8, "m": "fast", "b": true, "f": 0.5 },
      "times": { "compilation": 12.5, "framework": 0, "search_algorithm": 0.1, "validation": 0, "runtimes": [1.5, 2] },
      "invalidity": "correct", "correctness": 1, "objectives": ["time"],
      "measurements": [{ "name": "time", "value": 1.5, "unit": "ms" }] },
    { "configuration": { "t": 16 }, "invalidity": "compile", "correctness": 0, "objectives": ["time"],
      "measurements": [{ "name": "time", "value": "CompilationFailedConfig", "unit": "" }] } ] }"#;

/// Results in the format T4, packed or not.
pub fn t4(data: &[u8]) -> bool {
    const LONGEST: u64 = 16 << 20;
    let Ok(bytes) = tune::unpacked(data.to_vec(), LONGEST) else { return false };
    let Ok(results) = lathe_tune::t4::Results::read(&bytes) else { return false };
    results.results.iter().for_each(|r| _ = r.outcome());
    lathe_tune::t4::Results::read(results.write().as_bytes()).is_ok()
}

const RULES: &[&str] = &[
    "200 evaluations || 5% && cost <= 0.01",
    "duration<minutes>(10) || speedup(1.05, 100)",
    "1.5, 2e-3, inf",
    "lexicographic(0.05)",
    "c1 + 0.1 * c2",
    "N % 4 == 0 and (A // 2 < max(B, 3) or not C) and divides(2, N)",
    "echo $((1 << 2)) \"$(cat <<E\nX\nE\n)\" # it's",
];

/// What is in command lines, forms and cost files: stop rules, costs, orders, conditions, and texts for shells.
pub fn rule(data: &[u8]) -> bool {
    let Some(text) = text(data) else { return false };
    let stop = tune::stop_text::parse(text).is_ok();
    let cost = tune::Cost::parse(text).is_ok();
    let order = tune::order(text).is_ok();
    let _ = space::parse_value(text);
    let condition = space::parse(text).map(|e| {
        let _ = space::eval(&e, &|_: &str| Some(space::Value::Int(3)));
    });
    let values =
        |value: &str| -> space::Values { [("X".to_string(), space::Value::Str(value.into()))].into() };
    let _ = substitute("echo X \"X\" 'X' `X` $(X)", &values(text), Tokens::Shell);
    let _ = substitute(text, &values("it's"), Tokens::Shell);
    stop || cost || order || condition.is_ok()
}

/// A folder of this process for what is only read from files.
fn scratch() -> &'static Path {
    static FOLDER: std::sync::OnceLock<PathBuf> = std::sync::OnceLock::new();
    FOLDER.get_or_init(|| {
        let folder = lathe_system::folder::Folder::new("readers").expect("a temporary folder");
        let path = folder.path().to_path_buf();
        // Statics are not dropped; the next process removes it.
        std::mem::forget(folder);
        path
    })
}

fn file_of_this_thread(end: &str) -> PathBuf {
    let id = format!("{:?}", std::thread::current().id());
    scratch().join(id.replace(|c: char| !c.is_ascii_digit(), "") + end)
}

/// A store with results, and its export.
fn full_store() -> (Vec<u8>, Vec<u8>) {
    use tune::store::{Evaluation, Key, Measured, Outcome, SessionInfo, Winner};
    let path = file_of_this_thread("-full.sqlite");
    let _ = std::fs::remove_file(&path);
    // The smallest pages: most bytes of the file say something.
    let empty = rusqlite::Connection::open(&path).expect("a database");
    empty.execute_batch("PRAGMA page_size = 512; VACUUM;").expect("an empty database");
    drop(empty);
    let store = tune::Store::open(&path).expect("a store");
    let key = Key { program: "p.lathe:f".into(), threads: 2, ..Key::default() };
    let session = store.begin(&key, &SessionInfo::default()).expect("a session");
    let values = |t: i64| -> space::Values { [("t".to_string(), space::Value::Int(t))].into() };
    let measured = |c: f64| Measured { costs: vec![c], interval: Some((c, c)), runs: 3 };
    for (t, outcome) in [
        (8, Outcome::Measured(measured(0.5))),
        (16, Outcome::Invalid(tune::Invalid::new(tune::Why::Timeout, "too slow"))),
    ] {
        store.record(session, &Evaluation::new(values(t), outcome)).expect("a record");
    }
    store
        .win(&key, &Winner::new(values(8), measured(0.5), Some("interpreter".into())), None)
        .expect("a winner");
    store.end(session, "evaluations").expect("an end");
    let export = serde_json::to_vec(&store.export(None).expect("an export")).expect("JSON");
    drop(store);
    (std::fs::read(path).expect("the file"), export)
}

/// Exports of stores.
pub fn export(data: &[u8]) -> bool {
    thread_local! {
        static STORE: tune::Store = tune::Store::open(&file_of_this_thread("-imports.sqlite")).expect("a store");
    }
    let Some(text) = text(data) else { return false };
    STORE.with(|store| {
        let taken = store.import(text).is_ok();
        if taken {
            let _ = store.list();
            let _ = store.export(None).map(|e| serde_json::to_string(&e));
            store.forget(None).expect("an empty store");
        }
        taken
    })
}

/// Stores: whatever the file holds, it is read as one or refused, also for writing.
pub fn store(data: &[u8]) -> bool {
    let Ok(Some(store)) = tune::Store::from_bytes(data) else { return false };
    let read = store.list().is_ok() && store.export(None).is_ok();
    if store.prepare(tune::store::PATIENCE).is_ok() {
        let _ = store.list();
        let _ = store.forget(None);
    }
    read
}

fn object() -> lathe_engine::Object {
    lathe_engine::Object {
        engine: "c".into(),
        fingerprint: "cc 14".into(),
        symbol: "f".into(),
        checks: vec![lathe_abi::CheckKind::Dtype { param: 0 }],
        bytes: vec![1, 2, 3],
        times: Vec::new(),
    }
}

fn entries() -> Vec<Vec<u8>> {
    let object = object().to_bytes();
    vec![Cache::sealed(KEY, &object), object]
}

const KEY: &str = "key";

/// Entries of the cache, and what is in them: the seal keeps others out, and what is under it is read with the same
/// care.
pub fn cache(data: &[u8]) -> bool {
    let content = Cache::unsealed(KEY, data);
    let mut taken = content.is_some();
    for bytes in [content, Some(data)].into_iter().flatten() {
        if let Ok(object) = lathe_engine::Object::from_bytes(bytes) {
            assert_eq!(object.to_bytes(), bytes, "what is written reads otherwise");
            taken = true;
        }
    }
    taken
}
