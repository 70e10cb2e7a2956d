//! A search of `auto` begins with what `auto` takes, whatever form of the kernel that is; every value of its parameters
//! gives a right result or is refused.

use lathe::tune::{StrategySpace, strategy_space};
use lathe::{Build, Data, How, Machine, Pool, Program, Reference, Schedule};
use std::collections::BTreeMap;

/// A kernel of `examples/polybench`, with sizes.
struct Case {
    program: Program,
    kernel: &'static str,
    how: How,
    machine: Machine,
}

impl Case {
    fn new(file: &str, kernel: &'static str, sizes: &[(&str, i64)], threads: usize) -> Case {
        let path = format!("{}/../../examples/polybench/{file}.lathe", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(path).expect("an example");
        let how = How {
            strategy: Some("auto".to_string()),
            sizes: sizes.iter().map(|(n, v)| (n.to_string(), *v)).collect(),
            threads: Some(threads),
            ..How::default()
        };
        let machine = Machine::named("x86-64-v3").expect("a machine");
        Case { program: Program::from_text(file, &text).expect("a program"), kernel, how, machine }
    }

    fn function(&self) -> &lathe::Function {
        self.program.kernel(Some(self.kernel)).expect("a kernel")
    }

    fn with(&self, params: &BTreeMap<String, String>) -> Result<Schedule, lathe::Failure> {
        let how = How { params: params.clone(), ..self.how.clone() };
        lathe::schedule(&self.program, self.function(), &how, &self.machine)
    }

    fn space(&self) -> Result<StrategySpace, lathe::Failure> {
        let none = lathe_space::Values::new();
        strategy_space(&self.program, self.function(), "auto", &self.how, &self.machine, &none)
    }
}

fn texts(values: &lathe_space::Values) -> BTreeMap<String, String> {
    values.iter().map(|(n, v)| (n.clone(), v.to_string())).collect()
}

#[test]
fn a_search_begins_with_what_auto_takes() {
    let cases = [
        ("datamining", "covariance", vec![("M", 200), ("N", 240)]),
        ("products", "two_mm", vec![("NI", 40), ("NJ", 48), ("NK", 56), ("NL", 64)]),
        ("blas", "trmm", vec![("M", 100), ("N", 120)]),
        ("stencils", "jacobi_2d", vec![("N", 90)]),
        ("blas", "gesummv", vec![("N", 300)]),
        ("products", "mvt", vec![("N", 2000)]),
    ];
    let mut forms = Vec::new();
    for (file, kernel, sizes) in cases {
        for threads in [1, 2] {
            let case = Case::new(file, kernel, &sizes, threads);
            let space = case.space().unwrap_or_else(|f| panic!("{kernel}: {f}"));
            let start = texts(&space.default.expect("begins somewhere"));
            forms.extend(start.get("form").cloned());
            let taken = |params| case.with(params).unwrap_or_else(|f| panic!("{kernel}: {f}"));
            let (auto, began) = (taken(&BTreeMap::new()), taken(&start));
            let steps = |s: &Schedule| s.versions[0].taken.strategy.clone();
            assert_eq!(steps(&auto), steps(&began), "{kernel} on {threads} from {start:?}");
        }
    }
    // Not all of them are as they are written.
    assert!(!forms.is_empty());
}

#[test]
fn every_schedule_of_a_search_is_right_or_refused() {
    let pool = Pool::new(2).expect("a pool");
    let cases = [
        ("datamining", "covariance", vec![("M", 9), ("N", 13)]),
        ("blas", "trmm", vec![("M", 9), ("N", 11)]),
        ("solvers", "lu", vec![("N", 13)]),
    ];
    let mut right = 0;
    for (file, kernel, sizes) in cases {
        let case = Case::new(file, kernel, &sizes, 2);
        let space = case.space().unwrap_or_else(|f| panic!("{kernel}: {f}"));
        let start = texts(&space.default.expect("begins somewhere"));
        let given = lathe::Given { sizes: case.how.sizes.clone(), ..lathe::Given::default() };
        let data: Data = lathe::data::make(case.function(), &given).expect("data");
        let naive = How { strategy: Some("naive".to_string()), ..case.how.clone() };
        let naive =
            lathe::schedule(&case.program, case.function(), &naive, &case.machine).expect("as written");
        let build = Build { opt_level: 1, ..Build::default() };
        let reference =
            Reference::new(&naive, &build, data.duplicate().expect("memory"), &pool).expect("a reference");
        for name in start.keys().filter(|n| n.ends_with(".schedule")) {
            let param = space.space.param(name).expect("a parameter");
            for n in 0..space.space.values_of(param) {
                let value = space.space.value_of(param, n).expect("a value");
                let mut params = start.clone();
                params.insert(name.clone(), value.to_string());
                let Ok(made) = case.with(&params) else { continue };
                let code = lathe::compile(&made, &build).expect("compiles");
                let mut after = data.duplicate().expect("memory");
                code.call(&pool, &mut after.arrays).expect("runs");
                let checked = reference.compare(&made, &after).expect("compares");
                assert!(checked.report.ok, "{kernel} {name} = {value}: {:?}", checked.first);
                right += 1;
            }
        }
        let mut params = start.clone();
        params.insert("form".to_string(), "none of them".to_string());
        assert!(case.with(&params).is_err_and(|f| f.to_string().contains("none of them")));
    }
    // More than what the model takes and the nests as they are.
    assert!(right > 12, "{right}");
}
