//! The diagnostics of the tuner's search.

use lathe_diagnostics::{Code, CodeInfo};

/// A stop rule that cannot be read.
pub const STOP: Code = Code("E1040");
/// A search technique that nobody knows.
pub const TECHNIQUE: Code = Code("E1041");
/// A cost that is not a number.
pub const COST_TEXT: Code = Code("E1042");
/// A wrong number of objectives.
pub const OBJECTIVES: Code = Code("E1043");
/// A negative time.
pub const NEGATIVE: Code = Code("E1044");
/// Asking and reporting out of turn.
pub const ORDER: Code = Code("E1045");
/// A starting point that cannot be used.
pub const START: Code = Code("E1046");
/// A results file that cannot be read.
pub const RESULTS: Code = Code("E1047");
/// Results that do not fit the space.
pub const RESULTS_SPACE: Code = Code("E1048");
/// A session with an empty space.
pub const EMPTY: Code = Code("E1049");

pub static CODES: &[CodeInfo] = &[
    CodeInfo {
        code: STOP,
        title: "an invalid stop rule",
        explanation: "A stop rule says when tuning ends: a duration, a number of evaluations, a fraction of \
                      the space, a cost to reach, or a time without speedup; joined by `&&` and `||`. Units \
                      must be given.",
        wrong: "lathe tune gemm.lathe:gemm --strategy tiled --until '60'",
        right: "lathe tune gemm.lathe:gemm --strategy tiled --until '60s || cost(0.5)'",
    },
    CodeInfo {
        code: TECHNIQUE,
        title: "unknown search technique",
        explanation: "The techniques that come with the tuner are listed in the message. From Rust, any type that \
                      implements `Technique` can be used.",
        wrong: "lathe tune gemm.lathe:gemm --strategy tiled --technique gradient-descent",
        right: "lathe tune gemm.lathe:gemm --strategy tiled --technique auc-bandit",
    },
    CodeInfo {
        code: COST_TEXT,
        title: "a cost that is not a number",
        explanation: "A program that reports its own cost writes one number, or several separated by commas.",
        wrong: "echo 'took 0.25 seconds' > cost.txt",
        right: "echo 0.25 > cost.txt",
    },
    CodeInfo {
        code: OBJECTIVES,
        title: "a wrong number of objectives",
        explanation: "Costs are compared objective by objective. A configuration with a different number of \
                      objectives than most others is invalid, and the search continues. The search ends if the order of \
                      costs uses more objectives than any of the first configurations report.",
        wrong: "lathe tune saxpy.json --order 'c1 + 0.1 * c2'   # and the program: echo 0.25 > cost.txt",
        right: "lathe tune saxpy.json --order 'c1 + 0.1 * c2'   # and the program: echo 0.25,16 > cost.txt",
    },
    CodeInfo {
        code: NEGATIVE,
        title: "a negative time",
        explanation: "A negative time means that the cost function is wrong, not the configuration, \
                      so tuning ends; what was found so far is kept. If the objective is not a time and may be \
                      negative, declare that (`--negative-costs`).",
        wrong: "echo -0.25 > cost.txt",
        right: "echo 0.25 > cost.txt",
    },
    CodeInfo {
        code: ORDER,
        title: "a proposal or report out of order",
        explanation: "A session proposes configurations and waits for their costs before it proposes more. \
                      Only proposed configurations can be reported, and a finished session cannot be continued.",
        wrong: "session.get_configuration()?;\nsession.get_configuration()?;",
        right: "session.get_configuration()?;\nsession.report_cost(0.25)?;\nsession.get_configuration()?;",
    },
    CodeInfo {
        code: START,
        title: "a starting point that cannot be used",
        explanation: "A starting point names every parameter of the space. One that violates constraints is moved to \
                      the nearest valid configuration; one that does not fit the parameters at all is refused.",
        wrong: "lathe tune gemm.lathe:gemm --strategy tiled --start tile=big",
        right: "lathe tune gemm.lathe:gemm --strategy tiled --start tile=64",
    },
    CodeInfo {
        code: RESULTS,
        title: "a results file that cannot be read",
        explanation: "Recorded results are read in the T4 format: a JSON object with a list `results`, each with a \
                      `configuration`, its `measurements` and its `invalidity`. The message says where \
                      the text deviates from that.",
        wrong: "{\"results\": [{\"configuration\": {\"a\": [1]}}]}",
        right: "{\"results\": [{\"configuration\": {\"a\": 1}, \"invalidity\": \"correct\", \"measurements\": [{\"name\": \
                \"time\", \"value\": 0.5}]}]}",
    },
    CodeInfo {
        code: RESULTS_SPACE,
        title: "results that do not fit the space",
        explanation: "A recorded table serves as a cost function only if its configurations have the \
                      parameters of the space and belong to it.",
        wrong: "RecordedTable::new(&space_of_a_and_b, &results_of_a_and_c)",
        right: "RecordedTable::new(&space_of_a_and_b, &results_of_a_and_b)",
    },
    CodeInfo {
        code: EMPTY,
        title: "nothing to tune",
        explanation: "No combination of parameter values meets all constraints, so that there is no configuration to \
                      measure.",
        wrong: "strategy s(t in 1..=4 where t > 8) for copy = split(i, t)",
        right: "strategy s(t in 1..=16 where t > 8) for copy = split(i, t)",
    },
];
