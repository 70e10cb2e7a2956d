//! Versions whose code is made when the first call takes them.

use lathe::{Array, Build, Built, Cache, How, Machine, Pool, Prepared, Program, Scalar};
use std::sync::Arc;

/// Three versions, which `f` can tell apart: each adds in blocks of its own.
const TEXT: &str = "kernel add(A: f32[N]) -> (B: f32[N]) { B[i] = A[i] * 3 + 1 }
strategy few for add = split(i, 4)
strategy mine for add =
    if N <= 8 then few else if N % 16 == 0 then split(i, 16) ; vectorize(i.i, 16) else split(i, 32)";

fn program() -> Arc<Program> {
    Arc::new(Program::from_text("add.lathe", TEXT).expect("a program"))
}

fn how() -> How {
    How { strategy: Some("mine".to_string()), ..How::default() }
}

/// Calls it with so many elements, and says whether the code was there before.
fn called(built: &Built, n: usize) -> bool {
    let given: Vec<f32> = (0..n).map(|i| i as f32).collect();
    let mut a = Array::from_slice(&[n as i64], &given).expect("memory");
    let mut b = Array::zeros(Scalar::F32, &[n as i64]).expect("memory");
    let mut views = [a.view_mut(), b.view_mut()];
    let ready = built.is_ready(&views);
    let pool = Pool::new(1).expect("a pool");
    built.call_views(&pool, &mut views).expect("runs");
    assert!(built.is_ready(&views), "{n}");
    let want: Vec<f32> = (0..n).map(|i| i as f32 * 3.0 + 1.0).collect();
    assert_eq!(b.to_vec::<f32>().expect("floats"), want, "{n} elements");
    ready
}

#[test]
fn the_version_for_the_sizes_is_compiled_and_others_when_they_are_called() {
    let program = program();
    let kernel = program.kernel(None).expect("a kernel");
    let s = lathe::schedule(&program, kernel, &how(), &Machine::host()).expect("a schedule");
    assert_eq!(s.versions.len(), 3);
    let sizes = [("N".to_string(), 32)].into();
    let built = lathe::compile_for(&s, &Build::default(), Some(&sizes)).expect("code");
    assert!(built.was_compiled() && called(&built, 32));
    assert!(!called(&built, 5) && called(&built, 8) && called(&built, 0));
    assert!(!called(&built, 33) && called(&built, 47));

    let none = lathe::compile_for(&s, &Build::default(), None).expect("nothing to do");
    assert!(!none.was_compiled() && !called(&none, 16) && called(&none, 64));
    none.complete().expect("code");
    assert!(called(&none, 7) && called(&none, 9));

    let all = lathe::compile(&s, &Build::default()).expect("code");
    assert!([3, 16, 17].iter().all(|n| called(&all, *n)));
}

#[test]
fn threads_that_call_a_version_at_once_get_one_code() {
    let program = program();
    let kernel = program.kernel(None).expect("a kernel");
    let s = lathe::schedule(&program, kernel, &how(), &Machine::host()).expect("a schedule");
    let built = lathe::compile_for(&s, &Build::default(), None).expect("nothing to do");
    std::thread::scope(|scope| {
        (0..8).for_each(|t| {
            drop(scope.spawn({
                let built = &built;
                move || called(built, 5 + t)
            }))
        });
    });
    assert!(called(&built, 5));
}

/// As another process would find it.
fn prepared(cache: &Arc<Cache>, how: &How) -> Prepared {
    let build = Build { cache: Some(Arc::clone(cache)), ..Build::default() };
    lathe::prepare(&program(), "add", how, &Machine::host(), &build).expect("code")
}

#[test]
fn a_cache_has_what_was_called_and_the_rest_is_made_again() {
    let folder = tempfile::tempdir().expect("a folder");
    let cache = Arc::new(Cache::at(folder.path(), 64 << 20));
    let first = prepared(&cache, &how());
    assert!(!first.from_cache && !called(&first.built, 32));
    let second = prepared(&cache, &how());
    assert!(second.from_cache && called(&second.built, 32) && !called(&second.built, 5));
    let third = prepared(&cache, &how());
    assert!(
        third.from_cache && called(&third.built, 32) && called(&third.built, 5) && !called(&third.built, 33)
    );
    // Sizes that are known choose what is compiled.
    let sized = How { sizes: [("N".to_string(), 32)].into(), ..how() };
    let fourth = prepared(&cache, &sized);
    assert!(!fourth.from_cache && called(&fourth.built, 16));
}
