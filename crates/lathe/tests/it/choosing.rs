//! What choosing does, counted, not timed: how many questions isl is asked, for it takes longer than everything else.

use lathe::{How, Machine, Program};

/// Questions that isl is asked while schedules on two threads are chosen for a kernel of `examples/polybench`, by a thread that
/// has asked nothing before.
fn questions(file: &str, kernel: &str, sizes: &[(&str, i64)]) -> u64 {
    let path = format!("{}/../../examples/polybench/{file}.lathe", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(path).expect("an example");
    let how = How {
        strategy: Some("auto".to_string()),
        sizes: sizes.iter().map(|(n, v)| (n.to_string(), *v)).collect(),
        threads: Some(2),
        ..How::default()
    };
    let choose = || {
        let program = Program::from_text(file, &text).expect("a program");
        let kernel = program.kernel(Some(kernel)).expect("a kernel");
        let machine = Machine::named("x86-64-v4").expect("a machine");
        let before = lathe_analysis::questions();
        lathe::schedule(&program, kernel, &how, &machine).expect("a schedule");
        lathe_analysis::questions() - before
    };
    std::thread::scope(|s| s.spawn(choose).join().expect("an answer"))
}

#[test]
fn little_is_asked_of_isl() {
    let all = [
        ("stencils", "heat_3d", 120, 150),
        // Rows that lie apart are looked at more closely.
        ("stencils", "seidel_2d", 2000, 260),
        ("solvers", "ludcmp", 2000, 150),
    ];
    let asked: Vec<String> = all
        .into_iter()
        .map(|(file, kernel, n, most)| (kernel, questions(file, kernel, &[("N", n)]), most))
        // None at all would mean that nothing is chosen among.
        .filter(|(_, asked, most)| *asked == 0 || asked > most)
        .map(|(kernel, asked, most)| format!("{kernel}: {asked}, at most {most} are expected"))
        .collect();
    assert!(asked.is_empty(), "{}", asked.join("\n"));
}
