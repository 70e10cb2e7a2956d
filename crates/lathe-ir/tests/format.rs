//! The formatter of tree text: it changes nothing but white space, once, and leaves what was printed.

use lathe_diagnostics::FileId;
use lathe_ir::text::{format, parse_module, print_module};
use std::path::{Path, PathBuf};

mod random;

/// Everything but white space, comments apart.
fn parts(text: &str) -> (String, Vec<String>) {
    let (mut code, mut comments) = (String::new(), Vec::new());
    for line in text.lines() {
        // No string of these texts holds a `#`.
        let (before, comment) = line.split_once('#').map_or((line, None), |(b, c)| (b, Some(c)));
        code.extend(before.chars().filter(|c| !c.is_whitespace()));
        comments.extend(comment.map(|c| c.trim_end().to_string()));
    }
    (code, comments)
}

/// Formats, and looks whether that kept what it must.
fn formatted(text: &str, about: &str) -> String {
    let once = format(text).unwrap_or_else(|e| panic!("{about}: {}", e[0]));
    assert_eq!(parts(&once), parts(text), "{about}:\n{once}");
    assert_eq!(format(&once).as_deref(), Ok(&*once), "{about}: once is not enough");
    let read = |t: &str| parse_module(FileId(0), t).unwrap_or_else(|e| panic!("{about}: {}\n{t}", e[0]));
    let (old, new) = (read(text), read(&once));
    assert_eq!(old, new, "{about}:\n{once}");
    once
}

fn trees(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("a folder").map(|e| e.expect("an entry").path()) {
        if entry.is_dir() && !entry.ends_with("target") {
            trees(&entry, out);
        } else if entry.extension().is_some_and(|e| e == "tree") {
            out.push(entry);
        }
    }
}

#[test]
fn every_tree_of_the_repository_is_kept() {
    let mut all = Vec::new();
    trees(&Path::new(env!("CARGO_MANIFEST_DIR")).join(".."), &mut all);
    let mut done = 0;
    for path in &all {
        let text = std::fs::read_to_string(path).expect("a text");
        if let Ok(m) = parse_module(FileId(0), &text) {
            formatted(&text, &path.display().to_string());
            let printed = print_module(&m);
            assert_eq!(formatted(&printed, "printed"), printed, "{}", path.display());
            done += 1;
        }
    }
    assert!(done > 100, "only {done} of {} trees parse", all.len());
}

/// Without any blank that is not needed, and with one on a line of its own after every token that stands alone.
#[test]
fn random_modules_are_kept_however_they_are_written() {
    for seed in 0..400 {
        let printed = print_module(&random::module(seed));
        let found = formatted(&printed, "printed");
        let differ = printed.lines().zip(found.lines()).find(|(a, b)| a != b);
        assert!(found == printed, "{seed}: {differ:#?}");
        let flat = printed.split_whitespace().collect::<Vec<_>>().join(" ");
        // A global's space may not begin a line, and an item must; only code without globals is flat.
        if !printed.contains("global ") {
            formatted(&flat, "on one line");
            formatted(&flat.replace(' ', "\n\n\n"), "one word per line");
        }
    }
}

#[test]
fn what_is_written_by_hand_becomes_regular() {
    let text = "# What it is for.

  # More.
op  mine ( a , b ) : i32 associative = a [] + b[]   # beside


func k ( N )(A:in i32[ N ],B : out i32[N])stage scheduled { # begins
  # Alone.
  for i in 0 .. N step 2{ 'B'[ i ]:B[i]=- A[i]+-3 :i32*( A[N-1-i]%4:i32 ) }


  # Before the end.

} # ends
struct P{v:f32}
func empty()() { }
func one(N)(A: inout i32[N]) {
  let x : i32 =
    # why
    A[0]
  if x>0:i32{'A'[]:A[0] sum = x licensed}else if x<0:i32 { 'A.2'[]: A[0]=0:i32 } else { }
}
# The end.
";
    let want = "# What it is for.

# More.
op mine(a, b): i32 associative
  = a[] + b[]  # beside

func k(N)(A: in i32[N], B: out i32[N]) stage scheduled {  # begins
  # Alone.
  for i in 0..N step 2 {
    'B'[i]: B[i] = -A[i] + -3:i32 * (A[N - 1 - i] % 4:i32)
  }

  # Before the end.
}  # ends

struct P { v: f32 }

func empty()() {}

func one(N)(A: inout i32[N]) {
  let x: i32 =
    # why
    A[0]
  if x > 0:i32 {
    'A'[]: A[0] sum= x licensed
  } else if x < 0:i32 {
    'A.2'[]: A[0] = 0:i32
  } else {}
}
# The end.
";
    let found = formatted(text, "by hand");
    assert!(found == want, "{found}");
}

#[test]
fn a_text_with_errors_is_left_alone() {
    for text in ["func k(", "func k()() { for i in 0..N { } }", "x"] {
        let errors = format(text).expect_err(text);
        assert_eq!(errors[0].code.0[..3], *"E03", "{text}: {}", errors[0]);
    }
    assert_eq!(format("").as_deref(), Ok(""));
    assert_eq!(format("# only\n\n\n# comments").as_deref(), Ok("# only\n\n# comments\n"));
}
