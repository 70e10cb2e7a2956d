//! Spaces in text: directives, ATF's JSON, T1.

use lathe_diagnostics::FileId;
use lathe_space::formats::{
    AbortCondition, Api, Input, Script, TuningProgram, directives, json, substitute, t1,
};
use lathe_space::space::Generate;
use lathe_space::{Expr, Scale, Space, SpaceDef, Value, eval};
use num_traits::ToPrimitive;

const F: FileId = FileId(0);

fn space(def: &SpaceDef) -> Space {
    Space::generate(def, &Generate::default()).unwrap()
}

fn size(def: &SpaceDef) -> u64 {
    space(def).size().to_u64().unwrap()
}

fn read(text: &str, args: &[&str]) -> TuningProgram {
    let args: Vec<String> = args.iter().map(|a| a.to_string()).collect();
    directives::parse(text, F, &args).unwrap()
}

const SAXPY: &str = r#"#atf::var::N $1

// Step 1: Describing the Search Space
#atf::tp name      "WPT"           // name
    range         interval<size_t>( 1,N ) // range
    constraint    divides( N )     // constraints

#atf::tp name      "LS"           // name
    range         interval<size_t>( 1,N ) // range

    constraint    divides( N/WPT )  && less_than(513)
// Step 2
#atf::ocl::platform "NVIDIA"     // OpenCL platform
#atf::ocl::device  "Tesla K20"   // OpenCL device
#atf::ocl::input scalar<int>( N ) // N
#atf::ocl::input scalar<float>() // a
#atf::ocl::input buffer<float>( 2*N ) // x
#atf::ocl::input atf::ocl::buffer<float>( file_name("./path") )
#atf::ocl::global_size N/WPT // OpenCL global size
#atf::ocl::local_size LS // OpenCL local size
#atf::search_technique auc_bandit
#atf::abort_condition duration<minutes>( 10 ) || (cost(0.5) && evaluations(100))
__kernel void saxpy(const int N) { for (int w = 0; w < WPT; ++w) { } }
"#;

#[test]
fn item_35_directives_of_the_thesis() {
    assert_eq!(directives::arguments(SAXPY), 1);
    let p = read(SAXPY, &["1024"]);
    assert_eq!(p.space.constants["N"], Value::Int(1024));
    // 66 pairs, of which WPT = 1 has the local size 1024.
    assert_eq!(size(&p.space), 65);
    assert_eq!(size(&read(SAXPY, &["12"]).space), 18);
    assert_eq!(p.search_technique.as_deref(), Some("auc_bandit"));
    assert_eq!(
        p.abort_condition,
        Some(AbortCondition::Or(
            Box::new(AbortCondition::Duration(600.0)),
            Box::new(AbortCondition::And(
                Box::new(AbortCondition::Cost(0.5)),
                Box::new(AbortCondition::Evaluations(100))
            ))
        ))
    );
    let k = p.kernel.unwrap();
    assert_eq!(
        (k.api, k.platform.as_deref(), k.device.as_deref()),
        (Api::OpenCl, Some("NVIDIA"), Some("Tesla K20"))
    );
    assert_eq!(k.inputs.len(), 4);
    assert_eq!(k.inputs[1], Input::Scalar { ty: "float".into(), value: None });
    assert_eq!(k.inputs[3], Input::BufferFile { ty: "float".into(), path: "./path".into() });
    assert_eq!(k.global_size, [lathe_space::parse("N // WPT").unwrap()]);
    let stripped = directives::strip(SAXPY);
    assert_eq!(stripped.lines().count(), SAXPY.lines().count());
    assert!(!stripped.contains("#atf") && stripped.contains("__kernel") && !stripped.contains("constraint"));
    // The best values as JSON.
    let s = space(&p.space);
    let best = s.configuration(&3u32.into()).unwrap();
    assert_eq!(serde_json::to_string(&best).unwrap(), r#"{"WPT":1,"LS":8}"#);
    assert_eq!(substitute::configured("w < WPT; WPTX", &best), "w < 1; WPTX");
}

#[test]
fn directives_in_comments_of_any_language() {
    let text = "#!/bin/sh\n\
        # #atf::tp name \"opt\" range set<string>{-O1, \"-O2\", -O3} default -O2\n\
        -- #atf::tp name \"B\" \\\n--   range interval<bool>(false, true) \\\n--   constraint equal(true) || unequal(false)\n\
        /* #atf::tp name 'P' range interval<size_t>(1,10, atf::pow(2)) */\n\
        ; #atf::tp name \"Q\" range interval<int>(0, 8, 2, (int i){ return i * i + 1; })\n\
        <!-- #atf::tp name \"D\" range interval<double>(0, 1, 0.1) constraint (double v){ return v <= 0.5; } -->\n\
        #atf::run_script ./run.sh --fast\n#atf::compile_script \"./a b.sh\"\n#atf::cost_file cost.txt\n\
        g++ opt x.cpp\n";
    let p = read(text, &[]);
    let s = space(&p.space);
    let n: Vec<u32> = (0..5).map(|i| s.values_of(i)).collect();
    assert_eq!(n, [3, 2, 10, 5, 11]);
    assert_eq!(s.value_of(0, 1), Some(Value::Str("-O2".into())));
    assert_eq!(p.space.params[0].default, Some(Value::Str("-O2".into())));
    assert_eq!((s.value_of(2, 0), s.value_of(2, 9)), (Some(Value::Int(2)), Some(Value::Int(1024))));
    assert_eq!(p.space.params[2].scale, Scale::Ratio);
    assert_eq!(s.value_of(3, 4), Some(Value::Int(65)));
    assert_eq!(s.value_of(4, 10), Some(Value::Float(1.0)));
    assert_eq!(s.size().to_u64(), Some(3 * 10 * 5 * 6));
    assert_eq!(p.run_script, Some("./run.sh --fast".into()));
    assert_eq!(p.compile_script, Some("./a b.sh".into()));
    assert_eq!(p.cost_file.as_deref(), Some("cost.txt"));
}

#[test]
fn item_04_directives_may_mention_later_parameters() {
    let text = "// #atf::tp name \"A\" range interval<int>(1, 12) constraint divides(B)\n\
                // #atf::tp name \"B\" range set<int>{6, 9}\n";
    assert_eq!(size(&read(text, &[]).space), 7);
}

#[test]
fn wrong_directives_are_shown() {
    let cases: &[(&str, &str)] = &[
        ("x = 1", ""),
        ("#atf::frob 1", ""),
        ("#atf::tp name \"T\" interval<int>(1, 8)", ""),
        ("#atf::tp range interval<int>(1, 8)", ""),
        ("#atf::tp name \"T\" range interval<int>(1 8)", "8)"),
        ("#atf::tp name \"T\" range interval<frob>(1, 8)", "frob>"),
        ("#atf::tp name \"T\" range interval<int>(1, 8)\n constraint divides(", ""),
        ("#atf::var::N $2", "$2"),
        ("#atf::run_script a\n#atf::run_script b", "b"),
        ("#atf::run_script", ""),
        ("#atf::abort_condition speed(1)", "speed"),
        ("#atf::abort_condition fraction(2)", "fraction"),
        ("#atf::ocl::frob 1", ""),
        ("#atf::ocl::device 0\n#atf::cuda::device 0", "0"),
        ("#atf::ocl::input array<int>(3)", "array"),
        ("#atf::tp name \"T\" range set<int>{1, x}", "x}"),
        ("#atf::tp name \"T\" range interval<int>(1, 8) constraint 1 < 2 < 3", ""),
    ];
    for (text, place) in cases {
        let d = directives::parse(text, F, &[]).unwrap_err();
        assert_eq!(d.code.0, "E1010", "{text}: {d}");
        if !place.is_empty() {
            let at = d.marks[0].span.start as usize;
            assert!(text[at..].starts_with(place), "{text}: at {at}, {d}");
        }
    }
    let deep =
        format!("#atf::tp name \"T\" range interval<int>(1, {}1{})", "(".repeat(9999), ")".repeat(9999));
    assert!(directives::parse(&deep, F, &[]).is_err());
    let long = format!("#atf::tp name \"T\" range interval<int>(1, {}1)", "1+".repeat(99_999));
    assert!(directives::parse(&long, F, &[]).is_err());
}

#[test]
fn item_36_json_with_322_parameters() {
    let mut params = vec![r#"{"name": "opt_level", "range": ["-O0", "-O1", "-O2", "-O3"]}"#.to_string()];
    params.extend((0..176).map(|i| format!(r#"{{"name": "flag-{i}", "range": ["-ff{i}", "-fno-f{i}"]}}"#)));
    params.extend(
        (0..145).map(|i| format!(r#"{{"name": "param-{i}_val", "range": "interval<int>(0, {})"}}"#, i + 1)),
    );
    let text = format!(
        r#"{{ "tuning-parameters": [{}], "program_source": "./s.sh", "compile_script": "./s.sh", "run_script": "./r",
             "search_technique": "open_tuner", "abort_condition": "duration<minutes>(30)" }}"#,
        params.join(",")
    );
    let p = json::parse(&text, F).unwrap();
    assert_eq!(p.space.params.len(), 322);
    let s = space(&p.space);
    assert_eq!(s.groups().len(), 322);
    assert_eq!(s.size(), s.unconstrained());
    assert!(s.size().bits() > 500);
    let last = s.size() - 1u32;
    let c = s.configuration(&last).unwrap();
    assert_eq!(s.index_of(&c), Some(last));
    let script = "g++ opt_level flag-0 flag-17 --param x=param-3_val";
    assert_eq!(substitute::configured(script, &c), "g++ -O3 -fno-f0 -fno-f17 --param x=4");
    assert_eq!(json::parse(&json::write(&p).unwrap(), F).unwrap(), p);
}

#[test]
fn json_reads_what_it_writes() {
    let text = r#"{
      "comment": "all kinds",
      "constants": { "N": 64, "MODE": "x" },
      "tuning_parameters": [
        { "name": "A", "range": "interval<int>(1, N, 3)", "constraint": "divides(N) || less_than(B) && !(A == 7)" },
        { "name": "B", "range": "interval<size_t>(0, 5, pow(2))", "default": 4, "scale": "linear" },
        { "name": "C", "range": [0.5, 1, 2], "constraint": "C / 2 <= A" },
        { "name": "D", "range": [true, false], "constraint": "D || A % 2 == 0 && MODE == \"x\"" },
        { "name": "E", "range": "set<string>{ a, \"b, c\" }", "constraint": "(string s) { return s != \"q\" || A > 3; }" },
        { "name": "F", "range": "interval<int>(A, N)", "constraint": "multiple_of(A) and at_most(20)" },
        { "name": "G", "range": "interval<int>(1, 4, (int i) { return i * N; })", "comment": "squares" }
      ],
      "cost_file": "cost", "abort_condition": "speedup<hours>(1.5, 2) || speedup(1.1, 50) && fraction(0.5)"
    }"#;
    let p = json::parse(text, F).unwrap();
    let again = json::parse(&json::write(&p).unwrap(), F).unwrap();
    assert_eq!(p.abort_condition, again.abort_condition);
    let (a, b) = (space(&p.space), space(&again.space));
    assert!(a.same_trees(&b));
    assert!(a.size() < a.unconstrained());
    assert_eq!(a.params()[1].scale, Scale::Linear);
    assert_eq!(b.params()[1].default, Some(Value::Int(4)));
    // Every configuration satisfies what was written.
    for c in a.iter().step_by(7) {
        let int = |n: &str| match c.get(n) {
            Some(Value::Int(v)) => *v,
            _ => 0,
        };
        let (av, f) = (int("A"), int("F"));
        assert!(64 % av == 0 || (av < int("B") && av != 7), "{c}");
        assert!(f >= av && f % av == 0 && f <= 20, "{c}");
        assert!(int("G") % 64 == 0);
    }
}

#[test]
fn conditions_may_take_remainders_of_floats() {
    let text = r#"{ "ConfigurationSpace": {
        "TuningParameters": [{ "Name": "x", "Type": "float", "Values": "[0.5, 1.0, 1.5, 2.0]" }],
        "Conditions": [{ "Expression": "x % 1.0 == 0", "Parameters": ["x"] }] } }"#;
    assert_eq!(size(&t1::parse(text, F).unwrap().space), 2);
    let text = r#"{"tuning_parameters": [
        {"name": "x", "range": [0.5, 1.0, 1.5, 2.0], "constraint": "x % 0.75 != 0 && divides(3.0)"}]}"#;
    assert_eq!(size(&json::parse(text, F).unwrap().space), 2);
}

#[test]
fn commands_may_be_lists() {
    let text =
        r#"{"tuning_parameters": [{"name": "a", "range": [1]}], "compile_script": ["cc", "-DA=a", "x y.c"]}"#;
    let p = json::parse(text, F).unwrap();
    let words = ["cc", "-DA=a", "x y.c"].map(str::to_string).to_vec();
    assert_eq!(p.compile_script, Some(Script::List(words)));
    let again = json::write(&p).unwrap();
    assert_eq!(json::parse(&again, F).unwrap(), p);
}

#[test]
fn wrong_json_is_explained() {
    let cases = [
        "{",
        "[]",
        "{}",
        r#"{"tuning_parameters": {}}"#,
        r#"{"tuning_parameters": [{"range": [1]}]}"#,
        r#"{"tuning_parameters": [{"name": "a"}]}"#,
        r#"{"tuning_parameters": [{"name": "a", "range": [[1]]}]}"#,
        r#"{"tuning_parameters": [{"name": "a", "range": [1], "constrain": "x"}]}"#,
        r#"{"tuning_parameters": [{"name": "a", "range": [1], "constraint": "a +"}]}"#,
        r#"{"tuning_parameters": [{"name": "a", "range": [1]}], "frob": 1}"#,
        r#"{"tuning_parameters": [{"name": "a", "range": [1]}], "run_script": 1}"#,
        r#"{"tuning_parameters": [{"name": "a", "range": [1]}], "run_script": ["p", 1]}"#,
        r#"{"tuning_parameters": [{"name": "a", "range": [1]}], "cost_file": 1}"#,
    ];
    for text in cases {
        let d = json::parse(text, F).unwrap_err();
        assert_eq!(d.code.0, "E1011", "{text}: {d}");
    }
    let d = json::parse("{\n  \"a\": 1,\n}", F).unwrap_err();
    assert_eq!(d.marks[0].span.start, 12);
}

#[test]
fn the_recorded_convolution_space() {
    let text = include_str!("data/convolution_space_T1.json");
    let read = t1::parse(text, F).unwrap();
    let s = space(&read.space);
    assert_eq!(s.unconstrained().to_u64(), Some(10_240));
    assert_eq!(s.size().to_u64(), Some(4_362));
    assert_eq!(read.rest["General"]["BenchmarkName"], "convolution_milo");
    assert_eq!(read.space.params[5].default, Some(Value::Int(1)));
    let again = t1::parse(&t1::write(&read).unwrap(), F).unwrap();
    assert_eq!(again.rest, read.rest);
    assert_eq!(again.space, read.space);
    let e = t1::python_expression("(262144 // block_size_x) // tile_size_x", &read.space).unwrap();
    let env = |n: &str| Some(Value::Int(if n == "block_size_x" { 32 } else { 2 }));
    assert_eq!(eval(&e, &env), Ok(Value::Int(4096)));
}

/// The valid pairs of `a` and `b` in 0..=5 and 1..=5, with a bool and a string beside them.
fn python(condition: &str) -> u64 {
    let quoted = serde_json::to_string(condition).unwrap();
    let text = format!(
        r#"{{"ConfigurationSpace": {{"TuningParameters": [
            {{"Name": "a", "Type": "int", "Values": "list(range(6))"}},
            {{"Name": "b", "Type": "int", "Values": "[i for i in range(1, 10) if i <= 5]"}},
            {{"Name": "q", "Type": "bool", "Values": "[True, False]"}},
            {{"Name": "s", "Type": "string", "Values": "['x', \"y\"]"}},
            {{"Name": "f", "Type": "float", "Values": [0.5]}}],
          "Conditions": [{{"Expression": {quoted}}}]}}}}"#
    );
    size(&t1::parse(&text, F).unwrap_or_else(|d| panic!("{condition}: {d}")).space)
}

#[test]
fn conditions_in_python() {
    // Each counted by Python over a in 0..6, b in 1..6, q in two truth values, s in two words.
    let cases: &[(&str, u64)] = &[
        ("1 <= a < b <= 4", 24),
        ("a in [1, 3, 9]", 40),
        ("a not in (1, 3) and b == 1", 16),
        ("a", 100),
        ("not a", 20),
        ("not a == b and q", 50),
        ("(a > 2) + (b > 2) == 2", 36),
        ("q == 1", 60),
        ("q == (a > b)", 60),
        ("a ** 2 <= b + 1", 52),
        ("a / b > 0.5", 76),
        ("a // b == 2", 12),
        ("-a % b == 1 or s == 'x'", 74),
        ("s in ['x'] and f < 1", 60),
        ("min(a, b) * max(a, 2) <= 4", 68),
        ("a != b or not (a < 3 and b > 1)", 116),
        ("True", 120),
    ];
    for (condition, n) in cases {
        assert_eq!(python(condition), *n, "{condition}");
    }
}

#[test]
fn t1_writes_what_conditions_mean() {
    let text = r#"{"constants": {"N": 24}, "tuning_parameters": [
        {"name": "a", "range": "interval<int>(1, 24)", "constraint": "divides(N)"},
        {"name": "b", "range": "interval<int>(1, 24)", "constraint": "divides(N / a) && !(b > 6) || equal(a)"},
        {"name": "c", "range": [1, 2, 3], "constraint": "is_power_of_two(c) && ceil_div(a, c) <= pow(b, 2) && is_multiple(a * b, c)"}
    ]}"#;
    let def = json::parse(text, F).unwrap().space;
    let written = t1::write(&t1::T1 { space: def.clone(), ..Default::default() }).unwrap();
    let back = t1::parse(&written, F).unwrap().space;
    let (a, b) = (space(&def), space(&back));
    assert!(a.size() < a.unconstrained());
    let list = |s: &Space| s.iter().map(|c| c.to_string()).collect::<std::collections::BTreeSet<_>>();
    assert_eq!(list(&a), list(&b));
}

#[test]
fn wrong_t1_is_explained() {
    let with = |values: &str, condition: &str| {
        format!(
            r#"{{"ConfigurationSpace": {{"TuningParameters": [{{"Name": "a", "Type": "int", "Values": {values}}}],
                "Conditions": [{{"Expression": {condition}}}]}}}}"#
        )
    };
    let cases = [
        "{}".to_string(),
        r#"{"ConfigurationSpace": {}}"#.to_string(),
        with("\"[1, 2\"", "\"a\""),
        with("\"range(1, 2, 0)\"", "\"a\""),
        with("\"range(10**12)\"", "\"a\""),
        with("3", "\"a\""),
        with("[1]", "\"a if a else 1\""),
        with("[1]", "\"lambda a: 3\""),
        with("[1]", "3"),
    ];
    for text in cases {
        let d = t1::parse(&text, F).unwrap_err();
        assert_eq!(d.code.0, "E1012", "{text}: {d}");
    }
    let unknown = t1::parse(&with("[1]", "\"b > 3\""), F).unwrap();
    let d = Space::generate(&unknown.space, &Generate::default()).unwrap_err();
    assert_eq!(d.code.0, "E1002", "{d}");
    let e: Expr = 3.into();
    assert_eq!(e.to_string(), "3");
}
