//! What holds for the sources of all crates: a crate imports only from lower floors, and no decision about statements
//! passes a kind by in silence.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use syn::visit::Visit;

/// The floors of `ARCHITECTURE.md`.
const FLOORS: &[(&str, u32)] = &[
    ("lathe-diagnostics", 0),
    ("lathe-system", 0),
    ("lathe-graph", 0),
    ("lathe-syntax", 1),
    ("lathe-space", 2),
    ("lathe-ir", 2),
    ("lathe-host", 2),
    ("lathe-strategy", 3),
    ("lathe-target", 3),
    ("lathe-abi", 2),
    ("lathe-engine", 4),
    ("lathe-filetest", 3),
    ("lathe-device", 4),
    ("lathe-tune", 3),
    ("lathe-poly", 3),
    ("lathe-prove", 3),
    ("lathe-analysis", 4),
    ("lathe-pattern", 4),
    ("lathe-model", 4),
    ("lathe-transform", 5),
    ("lathe-grad", 6),
    ("lathe-c", 4),
    ("lathe-lower", 4),
    ("lathe-llvm", 5),
    ("lathe-source", 5),
    ("lathe-mdh", 6),
    ("lathe-lang", 5),
    ("lathe-gpu", 6),
    ("lathe-runtime", 7),
    ("lathe-measure", 6),
    ("lathe", 8),
    ("lathe-cli", 9),
    ("lathe-python", 9),
    ("lathe-ui", 9),
];

#[test]
fn crates_import_only_from_lower_floors() {
    let floors: BTreeMap<&str, u32> = FLOORS.iter().copied().collect();
    let out = Command::new(env!("CARGO"))
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .output()
        .expect("cargo metadata runs");
    let meta: serde_json::Value = serde_json::from_slice(&out.stdout).expect("cargo prints JSON");
    let packages = meta["packages"].as_array().expect("packages");
    let mut arrows = 0;
    for p in packages {
        let name = p["name"].as_str().expect("a name");
        let from = floors.get(name).unwrap_or_else(|| panic!("{name} has no floor in ARCHITECTURE.md"));
        for d in p["dependencies"].as_array().expect("dependencies") {
            let to_name = d["name"].as_str().expect("a name");
            if d["kind"] == "dev" {
                continue;
            }
            if let Some(to) = floors.get(to_name) {
                arrows += 1;
                assert!(to < from, "{name} (floor {from}) must not import {to_name} (floor {to})");
            }
        }
    }
    assert!(arrows > 10, "only {arrows} arrows seen: the test looks at the wrong thing");
}

/// Files of a crate that import one another in circles: how many, and what is true about that. A file may always import
/// from the folder that it is in.
const CIRCLES: &[(&str, usize, &str)] = &[
    ("lathe-ir", 2, "the inner loop of the interpreter counts the steps of the machine that it is a part of"),
    ("lathe-pattern", 2, "a fun is typed by what it calls"),
    (
        "lathe-python",
        13,
        "kernels, calls and refusals are classes that name one another; devices, their parts and launches, too",
    ),
    ("lathe-runtime", 4, "records of threads list scratch memory, and give it back where code was left"),
    ("lathe-transform", 2, "a rule edits through the door, which applies rules"),
];

/// What a file imports from its own crate, as paths of modules.
#[derive(Default)]
struct Imports {
    here: Vec<String>,
    paths: Vec<Vec<String>>,
}

impl Imports {
    /// A path from the root of the crate; none for other crates.
    fn add(&mut self, path: &[String]) {
        let supers = path.iter().take_while(|p| *p == "super").count();
        let mut whole = match path.first().map(String::as_str) {
            Some("crate") => Vec::new(),
            Some("super") => self.here[..self.here.len().saturating_sub(supers)].to_vec(),
            // A module of its own, or another crate: whoever knows the modules decides.
            _ => self.here.clone(),
        };
        whole.extend(path.iter().filter(|p| !["crate", "super", "self"].contains(&p.as_str())).cloned());
        self.paths.push(whole);
    }

    fn tree(&mut self, before: &[String], t: &syn::UseTree) {
        let with = |ident: &syn::Ident| [before, &[ident.to_string()]].concat();
        match t {
            syn::UseTree::Path(p) => self.tree(&with(&p.ident), &p.tree),
            syn::UseTree::Name(n) => self.add(&with(&n.ident)),
            syn::UseTree::Rename(n) => self.add(&with(&n.ident)),
            syn::UseTree::Glob(_) => self.add(before),
            syn::UseTree::Group(g) => g.items.iter().for_each(|t| self.tree(before, t)),
        }
    }
}

impl<'ast> Visit<'ast> for Imports {
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if m.ident != "tests" {
            syn::visit::visit_item_mod(self, m);
        }
    }

    fn visit_item_use(&mut self, u: &'ast syn::ItemUse) {
        // What is shown to others is not used here.
        if matches!(u.vis, syn::Visibility::Inherited) {
            self.tree(&[], &u.tree);
        }
    }

    fn visit_path(&mut self, p: &'ast syn::Path) {
        let path: Vec<String> = p.segments.iter().map(|s| s.ident.to_string()).collect();
        if path.len() > 1 {
            self.add(&path);
        }
        syn::visit::visit_path(self, p);
    }
}

#[test]
fn files_import_one_another_in_known_circles_only() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    // Per crate, the modules and what they import.
    let mut all: BTreeMap<String, BTreeMap<Vec<String>, Imports>> = BTreeMap::new();
    for file in sources(&crates) {
        let path = file.strip_prefix(&crates).expect("a source of a crate").with_extension("");
        let mut parts = path.iter().map(|p| p.to_string_lossy().to_string());
        let (krate, here): (String, Vec<String>) = (parts.next().expect("a crate"), parts.skip(1).collect());
        let here: Vec<String> =
            here.into_iter().filter(|p| !["mod", "lib", "main"].contains(&p.as_str())).collect();
        let text = std::fs::read_to_string(&file).expect("a source");
        let mut imports = Imports { here: here.clone(), paths: Vec::new() };
        imports.visit_file(&syn::parse_file(&text).expect("a source"));
        all.entry(krate).or_default().insert(here, imports);
    }
    let mut found = Vec::new();
    for (krate, modules) in &all {
        let longest = |path: &Vec<String>| {
            let mut prefixes = (1..=path.len()).rev().map(|n| path[..n].to_vec());
            prefixes.find_map(|p| modules.get_key_value(&p)).map(|(to, _)| to)
        };
        let arrows: BTreeMap<&Vec<String>, BTreeSet<&Vec<String>>> = modules
            .iter()
            .map(|(from, i)| {
                (from, i.paths.iter().filter_map(longest).filter(|to| !from.starts_with(to)).collect())
            })
            .collect();
        let round: Vec<String> =
            modules.keys().filter(|m| reached(&arrows, m).contains(*m)).map(|m| m.join("::")).collect();
        if !round.is_empty() {
            found.push((krate.as_str(), round.len(), round.join(", ")));
        }
    }
    assert!(all.len() > 20, "only {} crates seen", all.len());
    let known = |krate: &str| CIRCLES.iter().find(|c| c.0 == krate).map_or(0, |c| c.1);
    let other: Vec<_> = found.iter().filter(|f| f.1 != known(f.0)).collect();
    assert!(other.is_empty(), "other files than are listed import one another in circles: {other:#?}");
    assert_eq!(found.len(), CIRCLES.len(), "the list names circles that there are no more");
}

/// The questions of a newcomer lead to files that there are, with what is to be looked for in them.
#[test]
fn questions_lead_to_files() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let text = std::fs::read_to_string(root.join("ARCHITECTURE.md")).expect("a page");
    let section = text.split("\n## ").find(|s| s.starts_with("Where to look")).expect("a section");
    let rows = section.lines().filter_map(|l| l.strip_prefix("| ")?.split_once(" | `")?.1.split_once('`'));
    let mut seen = 0;
    for (file, rest) in rows {
        let name = rest.split('`').nth(1).expect("a name");
        let found = std::fs::read_to_string(root.join(file)).is_ok_and(|t| t.contains(name));
        assert!(found, "`{file}` has no `{name}`");
        seen += 1;
    }
    assert!(seen > 15, "only {seen} questions");
}

/// What is reached from a module by one arrow or more.
fn reached<'m>(
    arrows: &BTreeMap<&'m Vec<String>, BTreeSet<&'m Vec<String>>>,
    from: &'m Vec<String>,
) -> BTreeSet<&'m Vec<String>> {
    let (mut seen, mut open) = (BTreeSet::new(), vec![from]);
    while let Some(next) = open.pop() {
        open.extend(arrows[next].iter().filter(|to| seen.insert(**to)));
    }
    seen
}

/// The places that a new kind of statement must be told to: the interface of statements, the text form, the verifier,
/// what collects accesses, bounds and definedness, the interpreter and every engine.
const MOST_DECISIONS: usize = 15;

/// A `match` on the kinds of statements says what it does with each: with `_ =>`, a kind that comes later would be
/// passed by in silence. What concerns one kind alone asks for it (`as_loop`, `if let`); what concerns all asks the
/// interface (`crates/lathe-ir/src/stmt`).
#[test]
fn matches_on_statements_have_no_catch_all() {
    let mut seen = Matches::default();
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    for file in sources(&crates) {
        let text = std::fs::read_to_string(&file).expect("a source");
        if !text.contains("StmtKind") {
            continue;
        }
        let parsed = syn::parse_file(&text).unwrap_or_else(|e| panic!("{}: {e}", file.display()));
        seen.file = file.strip_prefix(&crates).unwrap_or(&file).display().to_string();
        // The statements of a source language are others.
        seen.own = !seen.file.starts_with("lathe-lang/");
        seen.printing = seen.file.contains("/text/print");
        seen.visit_file(&parsed);
    }
    assert!(seen.wrong.is_empty(), "these pass kinds by in silence:\n{}", seen.wrong.join("\n"));
    let decisions = seen.exhaustive.join("\n");
    assert!(seen.exhaustive.len() >= 8, "only these decide per kind:\n{decisions}");
    assert!(seen.exhaustive.len() <= MOST_DECISIONS, "too many decide per kind:\n{decisions}");
}

/// The files below `src` of all crates.
fn sources(crates: &Path) -> Vec<PathBuf> {
    let list = |dir: &Path| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(dir).into_iter().flatten();
        entries.map(|e| e.expect("an entry").path()).collect()
    };
    let mut open: Vec<PathBuf> = list(crates).into_iter().map(|c| c.join("src")).collect();
    let mut out = Vec::new();
    while let Some(dir) = open.pop() {
        for path in list(&dir) {
            if path.is_dir() {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    assert!(out.len() > 300, "only {} sources found", out.len());
    out.sort();
    out
}

/// A library without unit tests is not built a second time for them, and one without examples in its comments is not read
/// for them: its manifest says so. One that has some does not say so.
#[test]
fn libraries_are_built_for_tests_that_they_have() {
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for (krate, (unit, examples)) in tests_of_libraries(&crates) {
        let manifest = crates.join(&krate).join("Cargo.toml");
        let manifest: toml::Table =
            std::fs::read_to_string(manifest).expect("a manifest").parse().expect("a manifest");
        let says = |what: &str| manifest.get("lib")?.get(what)?.as_bool();
        for (what, some) in [("test", unit), ("doctest", examples)] {
            if says(what).unwrap_or(true) != some {
                wrong.push(format!("crates/{krate}/Cargo.toml: `{what} = {some}` in `[lib]`"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Whether the sources of each library have unit tests, and examples that run.
fn tests_of_libraries(crates: &Path) -> BTreeMap<String, (bool, bool)> {
    let mut all: BTreeMap<String, (bool, bool)> = BTreeMap::new();
    for file in sources(crates) {
        let inside = file.strip_prefix(crates).expect("a source of a crate");
        let krate = inside.iter().next().expect("a crate").to_string_lossy().to_string();
        if !crates.join(&krate).join("src/lib.rs").exists() {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a source");
        let found = all.entry(krate).or_default();
        found.0 |= text.lines().any(|l| l.trim_start().starts_with("#[cfg(test)]"));
        found.1 |= has_example(&text);
    }
    all
}

/// Whether a comment of the documentation has a block of Rust.
fn has_example(text: &str) -> bool {
    let mut open = false;
    text.lines().any(|line| {
        let line = line.trim_start();
        let Some(comment) = line.strip_prefix("///").or_else(|| line.strip_prefix("//!")) else {
            open = false;
            return false;
        };
        let Some(language) = comment.trim().strip_prefix("```") else { return false };
        open = !open;
        open && ["", "rust", "no_run", "should_panic", "compile_fail"].contains(&language)
    })
}

#[test]
fn examples_in_comments_are_found() {
    assert!(has_example("/// Text.\n/// ```\n/// f();\n/// ```\nfn f() {}"));
    assert!(!has_example("/// ```lathe\n/// x\n/// ```\nfn f() {}\n// ```\n"));
}

#[derive(Default)]
struct Matches {
    file: String,
    own: bool,
    printing: bool,
    wrong: Vec<String>,
    exhaustive: Vec<String>,
}

/// How often a pattern or an expression names a kind.
fn kinds(tokens: impl quote::ToTokens) -> usize {
    tokens.to_token_stream().to_string().matches("StmtKind ::").count()
}

fn catches_all(p: &syn::Pat) -> bool {
    match p {
        syn::Pat::Wild(_) => true,
        syn::Pat::Ident(i) => i.subpat.is_none(),
        syn::Pat::Tuple(t) => t.elems.iter().all(catches_all),
        _ => false,
    }
}

impl<'ast> Visit<'ast> for Matches {
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !m.attrs.iter().any(|a| a.path().is_ident("cfg")) {
            syn::visit::visit_item_mod(self, m);
        }
    }

    fn visit_expr_match(&mut self, m: &'ast syn::ExprMatch) {
        let named: usize = m.arms.iter().map(|a| kinds(&a.pat)).sum();
        if named > 0 && self.own {
            let place = format!("{}:{}", self.file, m.match_token.span.start().line);
            if !m.arms.iter().any(|a| catches_all(&a.pat)) {
                self.exhaustive.push(place);
            } else if !self.printing {
                self.wrong.push(place);
            }
        }
        syn::visit::visit_expr_match(self, m);
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        if self.own && m.path.is_ident("matches") && kinds(&m.tokens) > 1 {
            self.wrong.push(format!("{}: `matches!` lists kinds: {}", self.file, m.tokens));
        }
    }
}

/// What is made is called by `lathe_ir::names`, and nobody reads a part out of a name: no other source has a string that
/// ends a name in a part (`{i}.o`), or that is such an end (`.o`), and none writes `copy(` or `private(` before a name.
#[test]
fn names_of_what_is_made_are_spelled_in_one_place() {
    // The test sees what it looks for.
    for (text, spelled) in [
        (r#"fn f() { g(format!("{}.o", l.name)) }"#, 1),
        (r#"fn f() { g(format!("{label}.init{n}"), format!("x: {l}.i`")) }"#, 2),
        (
            r#"fn f() -> bool { n.ends_with(".o") || n.strip_suffix(".rest").is_some() || n.starts_with(".out") }"#,
            3,
        ),
        (r#"fn f() { format!("copy({a})") }"#, 1),
        (r#"fn f() { format!("{}.operands of {file}.iter.json", ".cache") }"#, 0),
        (r#"#[cfg(test)] mod tests { fn f() { g("{}.o") } }"#, 0),
    ] {
        assert_eq!(Spelled::of(text).found.len(), spelled, "{text}");
    }
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let mut wrong = Vec::new();
    for file in sources(&crates).into_iter().filter(|f| !f.ends_with("lathe-ir/src/names.rs")) {
        let shown = file.strip_prefix(&crates).unwrap_or(&file).display().to_string();
        let found = Spelled::of(&std::fs::read_to_string(&file).expect("a source")).found;
        wrong.extend(found.into_iter().map(|(line, text)| format!("{shown}:{line}: {text:?}")));
    }
    assert!(wrong.is_empty(), "use lathe_ir::names:\n{}", wrong.join("\n"));
}

/// Strings that spell a part of `lathe_ir::names`, with their lines.
#[derive(Default)]
struct Spelled {
    found: Vec<(usize, String)>,
}

impl Spelled {
    fn of(text: &str) -> Spelled {
        let mut out = Spelled::default();
        out.visit_file(&syn::parse_file(text).expect("a source"));
        out
    }

    fn string(&mut self, s: &syn::LitStr) {
        let text = s.value();
        if spells(&text) {
            self.found.push((s.span().start().line, text));
        }
    }

    fn tokens(&mut self, tokens: proc_macro2::TokenStream) {
        for t in tokens {
            match t {
                proc_macro2::TokenTree::Group(g) => self.tokens(g.stream()),
                proc_macro2::TokenTree::Literal(l) => {
                    if let syn::Lit::Str(s) = syn::Lit::new(l) {
                        self.string(&s);
                    }
                }
                _ => {}
            }
        }
    }
}

impl<'ast> Visit<'ast> for Spelled {
    fn visit_item_mod(&mut self, m: &'ast syn::ItemMod) {
        if !m.attrs.iter().any(|a| a.path().is_ident("cfg")) {
            syn::visit::visit_item_mod(self, m);
        }
    }

    /// Documentation says what things are called.
    fn visit_attribute(&mut self, _: &'ast syn::Attribute) {}

    fn visit_lit_str(&mut self, s: &'ast syn::LitStr) {
        self.string(s);
    }

    fn visit_macro(&mut self, m: &'ast syn::Macro) {
        self.tokens(m.tokens.clone());
    }
}

/// Whether a string ends something that it is given, or nothing, in a part that things play.
fn spells(text: &str) -> bool {
    if ["copy({", "private({"].iter().any(|c| text.contains(c)) {
        return true;
    }
    let ends = |rest: &str| {
        let word = rest.split(|c: char| !c.is_ascii_lowercase()).next().unwrap_or_default();
        let after = &rest[word.len()..];
        let known = lathe_ir::names::Role::ALL.iter().any(|r| r.word() == word);
        // Another word of a path or of a file's name may follow, but no more of this one.
        let more = after.starts_with('.') && after[1..].starts_with(|c: char| c.is_ascii_alphabetic());
        // `{name}.c` is a file; cores have numbers.
        let file = word == "c" && !after.starts_with(|c: char| c == '{' || c.is_ascii_digit());
        known && !file && (!more || lathe_ir::names::Role::ALL.iter().any(|r| after[1..] == *r.word()))
    };
    text.strip_prefix('.').is_some_and(ends) || text.match_indices("}.").any(|(n, _)| ends(&text[n + 2..]))
}

/// Refusals are tested by their codes, and by what messages quote: names, numbers, places. Sentences may change, so no
/// test looks for two words in a row in a message, its notes or its help, in an exception of Python, or in what a failing
/// command prints, unless the words are quoted from the program.
#[test]
fn refusals_are_tested_by_their_codes() {
    let prose = |line: &str| sentences(line).next().is_some();
    assert!(prose(r#"assert!(d.message.contains("is not reached") && d.code.0 == "E0611");"#));
    assert!(prose(r#"assert!(f.fails("check k.lathe", 1, "E0621").stderr.contains("no such `i`"));"#));
    assert!(prose(r#"assert!(run(1).unwrap_err().contains("no parameter `i`"));"#));
    assert!(prose(r#"assert_eq!(d.message, "there is no `i`");"#));
    assert!(!prose(r#"assert!(d.message.contains("`not reached` 3") && text.contains("two words"));"#));
    assert!(!prose(r#"assert_eq!(d.message, "i: 3");"#));
    // What a command printed, and what a refusal was made to text as.
    let prose = |lines: &str| {
        let mut refused = Refused::default();
        lines.lines().any(|l| !refused.sentences(l).is_empty())
    };
    assert!(prose(
        "let d = f.fails(\"check k.lathe\", 1, \"E0\");\nassert!(d.stderr.contains(\"not reached\"));"
    ));
    assert!(prose(
        "let t =\n  v[0].to_diagnostic(c)\n  .to_string();\nassert!(t.starts_with(\"would run `A`\"));"
    ));
    assert!(!prose(
        "let d = f.fails(\"check\", 1, \"E0\");\nassert!(d.stderr.contains(\"`not reached` 3\"));"
    ));
    assert!(!prose(
        "let d = f.fails(\"\", 1, \"\");\nlet d = f.ok(\"\");\nassert!(d.stderr.contains(\"not reached\"));"
    ));
    assert!(!prose("let d = v.unwrap_err();\nfn f() {\nassert!(d.contains(\"not reached\"));"));
    let prose_of_python = |line: &str| python_sentences(line).next().is_some();
    assert!(prose_of_python(r#"with pytest.raises(lathe.ShapeError, match="has 2 dimensions, but has"):"#));
    assert!(prose_of_python(r#"assert e.value.line == 1 and "no such name" in str(e.value)"#));
    assert!(prose_of_python(r#"with refused(lathe.ShapeError, "E0811", "must have"):"#));
    assert!(!prose_of_python(r#"with refused(lathe.ShapeError, "E0811", "`not reached`", "K = 3") as e:"#));
    let crates = Path::new(env!("CARGO_MANIFEST_DIR")).join("..");
    let (mut seen, mut wrong) = (0, Vec::new());
    for file in all_sources(&crates) {
        let text = std::fs::read_to_string(&file).expect("a source");
        // What is not a test comes before the tests of a file.
        let tests = if file.iter().any(|part| part == "tests") {
            0
        } else {
            text.find("#[cfg(test)]").unwrap_or(text.len())
        };
        let mut refused = Refused::default();
        for line in text[tests..].lines() {
            seen += usize::from(line.contains(".message.contains("));
            wrong.extend(sentences(line).map(|s| format!("{}: {s:?}", file.display())));
            if !file.ends_with("tests/it/house.rs") {
                wrong.extend(refused.sentences(line).iter().map(|s| format!("{}: {s:?}", file.display())));
            }
        }
    }
    assert!(seen > 20, "only {seen} messages are looked at");
    let (mut seen, python) = (0, crates.join("lathe-python/tests"));
    for file in std::fs::read_dir(python).expect("a folder").flatten().map(|e| e.path()) {
        if file.extension().is_some_and(|e| e == "py") {
            for line in std::fs::read_to_string(&file).expect("a source").lines() {
                seen += usize::from(line.contains("refused("));
                wrong.extend(python_sentences(line).map(|s| format!("{}: {s:?}", file.display())));
            }
        }
    }
    assert!(seen > 20, "only {seen} refusals of Python are looked at");
    assert!(wrong.is_empty(), "name codes:\n{}", wrong.join("\n"));
}

/// The sentences that a line of a test looks for in messages.
fn sentences(line: &str) -> impl Iterator<Item = &str> {
    let places = ["message", "help", "notes", "diagnostic", "fails(", "unwrap_err"];
    let looks = ["contains(\"", "starts_with(\"", "ends_with(\"", "message, \"", "message == \""];
    let found = looks.into_iter().flat_map(move |what| line.match_indices(what));
    found.filter_map(move |(n, what)| {
        let of = line[..n + what.len()].rsplit("&&").next().unwrap_or_default();
        let rest = &line[n + what.len()..];
        let text = &rest[..rest.find('"').unwrap_or(rest.len())];
        let looked = places.iter().any(|p| of.contains(p)) && !line.trim_start().starts_with("assert!(prose");
        (looked && has_prose(text)).then_some(text)
    })
}

/// The variables of a test that hold a refusal, line by line.
#[derive(Default)]
struct Refused {
    names: BTreeSet<String>,
    /// The variable of a statement that goes on.
    open: Option<String>,
}

impl Refused {
    /// The sentences that a line looks for in them.
    fn sentences<'l>(&mut self, line: &'l str) -> Vec<&'l str> {
        let of_name = |c: &char| c.is_alphanumeric() || *c == '_';
        let trimmed = line.trim_start();
        if trimmed.starts_with("fn ") || trimmed.starts_with("pub fn ") {
            *self = Refused::default();
        }
        if let Some((_, rest)) = line.split_once("let ") {
            let name: String = rest.trim_start_matches("mut ").chars().take_while(of_name).collect();
            self.names.remove(&name);
            self.open = Some(name);
        }
        let refusals = ["fails(", ".lathe(", "unwrap_err", "expect_err", "to_diagnostic", "violation"];
        if refusals.iter().any(|r| line.contains(r)) {
            self.names.extend(self.open.clone());
        }
        if line.contains(';') {
            self.open = None;
        }
        let looks = ["contains(\"", "starts_with(\"", "ends_with(\""];
        let found = looks.into_iter().flat_map(|what| line.match_indices(what));
        let texts = found.filter_map(|(n, what)| {
            let of = |c: char| of_name(&c) || ".()".contains(c);
            let receiver = &line[line[..n].trim_end_matches(of).len()..n];
            let name: String = receiver.trim_start_matches('(').chars().take_while(of_name).collect();
            let text = line[n + what.len()..].split('"').next().unwrap_or_default();
            (self.names.contains(&name) && has_prose(text)).then_some(text)
        });
        texts.collect()
    }
}

/// The sentences that a line of a test in Python looks for in exceptions.
fn python_sentences(line: &str) -> impl Iterator<Item = &str> {
    let matched = ["match=\"", "match=r\""].into_iter().flat_map(move |what| line.match_indices(what));
    let matched = matched.map(move |(n, what)| line[n + what.len()..].split('"').next().unwrap_or_default());
    let within = ["\" in str(", "\" in e.value"].into_iter().flat_map(move |what| line.match_indices(what));
    let within = within.map(move |(n, _)| line[..n].rsplit('"').next().unwrap_or_default());
    // All texts of a call, which are every other part between quotation marks.
    let named = if line.contains("refused(") { line } else { "" };
    matched.chain(within).chain(named.split('"').skip(1).step_by(2)).filter(|text| has_prose(text))
}

/// Whether a text has two words in a row that it does not quote.
fn has_prose(text: &str) -> bool {
    text.split('`').step_by(2).any(|outside| {
        let word = |w: &str| w.len() > 1 && w.chars().all(|c| c.is_ascii_lowercase());
        let words: Vec<&str> = outside.split(' ').collect();
        words.windows(2).any(|two| two.iter().all(|w| word(w.trim_end_matches([',', '.', ':', ';']))))
    })
}

/// The files below `src`, `tests`, `examples` and `benches` of all crates.
fn all_sources(crates: &Path) -> Vec<PathBuf> {
    let mut open = vec![crates.to_path_buf()];
    let mut out = Vec::new();
    while let Some(dir) = open.pop() {
        for path in std::fs::read_dir(&dir).into_iter().flatten().flatten().map(|e| e.path()) {
            if path.is_dir() && !path.is_symlink() && !path.ends_with("target") {
                open.push(path);
            } else if path.extension().is_some_and(|e| e == "rs") {
                out.push(path);
            }
        }
    }
    out
}

/// What the field has a word for is called by that word: `dialect.txt` lists what a reader would have to guess. Where a
/// language writes a blank, prose may have the end of a line and the marks of a comment.
#[test]
fn sentences_use_the_words_of_the_field() {
    let list = include_str!("dialect.txt").lines().filter(|l| !l.starts_with('#'));
    let words: Vec<(&str, &str)> = list.filter_map(|l| l.split_once(" => ")).collect();
    assert!(words.len() > 10, "only {} words", words.len());
    // The test sees what it looks for, across lines, too.
    assert!(!dialect("/// loops that lie in one\n/// another", &words).is_empty());
    assert!(dialect("/// nested loops; the outlook is good", &words).is_empty());
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut open, mut seen, mut wrong) = (vec![root.clone()], 0, Vec::new());
    while let Some(dir) = open.pop() {
        for entry in std::fs::read_dir(&dir).expect("a folder").flatten() {
            let (path, name) = (entry.path(), entry.file_name().to_string_lossy().into_owned());
            let ours = |e: &std::ffi::OsStr| {
                ["rs", "md", "lathe", "py", "tree", "toml", "mdh", "ipynb", "sh"].iter().any(|o| e == *o)
            };
            if path.is_dir() && !path.is_symlink() {
                if !(name.starts_with('.') || ["target", "shared", "node_modules", "env"].contains(&&*name)) {
                    open.push(path);
                }
            } else if path.extension().is_some_and(ours) && name != "house.rs" {
                let text = std::fs::read_to_string(&path).unwrap_or_default();
                seen += 1;
                let shown = path.strip_prefix(&root).unwrap_or(&path).display().to_string();
                wrong.extend(dialect(&text, &words).into_iter().map(|w| format!("{shown}: {w}")));
            }
        }
    }
    assert!(seen > 500, "only {seen} files");
    wrong.sort();
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// The words of the list in a text, each with what to say instead.
fn dialect(text: &str, words: &[(&str, &str)]) -> Vec<String> {
    let marks = ["//!", "///", "//", "#", "\\"];
    let bare = |w: &&str| !marks.contains(w);
    let prose: Vec<String> = text.split_whitespace().filter(bare).map(str::to_lowercase).collect();
    let prose = format!(" {} ", prose.join(" "));
    let ends = |c: Option<char>| !c.is_some_and(|c| c.is_alphanumeric() || c == '_');
    let stands = |w: &str| {
        prose
            .match_indices(w)
            .any(|(n, _)| ends(prose[..n].chars().next_back()) && ends(prose[n + w.len()..].chars().next()))
    };
    words.iter().filter(|(w, _)| stands(w)).map(|(w, say)| format!("`{w}`: write {say}")).collect()
}
