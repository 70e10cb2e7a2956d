//! The diagnostics of the tuner's search.

use lathe_diagnostics::Code;

lathe_diagnostics::codes! {
    /// A stop rule says when tuning ends: a duration, a number of evaluations, a fraction of the space, a cost
    /// to reach, or a time without speedup; joined by `&&` and `||`. Units must be given.
    STOP = Code("E1040"), "an invalid stop rule",
        wrong: "lathe tune gemm.lathe:gemm --strategy tiled --until '60'",
        right: "lathe tune gemm.lathe:gemm --strategy tiled --until '60s || cost(0.5)'";

    /// The techniques that come with the tuner are listed in the message. From Rust, any type that implements
    /// `Technique` can be used.
    TECHNIQUE = Code("E1041"), "unknown search technique",
        wrong: "lathe tune gemm.lathe:gemm --strategy tiled --technique gradient-descent",
        right: "lathe tune gemm.lathe:gemm --strategy tiled --technique auc-bandit";

    /// A program that reports its own cost writes one number, or several separated by commas.
    COST_TEXT = Code("E1042"), "a cost that is not a number",
        wrong: "echo 'took 0.25 seconds' > cost.txt",
        right: "echo 0.25 > cost.txt";

    /// Costs are compared objective by objective. A configuration with a different number of objectives than
    /// most others is invalid, and the search continues. The search ends if the order of costs uses more
    /// objectives than any of the first configurations report.
    OBJECTIVES = Code("E1043"), "a wrong number of objectives",
        wrong: "lathe tune saxpy.json --order 'c1 + 0.1 * c2'   # and the program: echo 0.25 > cost.txt",
        right: "lathe tune saxpy.json --order 'c1 + 0.1 * c2'   # and the program: echo 0.25,16 > cost.txt";

    /// A negative time means that the cost function is wrong, not the configuration, so tuning ends; what was
    /// found so far is kept. If the objective is not a time and may be negative, declare that
    /// (`--negative-costs`).
    NEGATIVE = Code("E1044"), "a negative time",
        wrong: "echo -0.25 > cost.txt",
        right: "echo 0.25 > cost.txt";

    /// A session proposes configurations and waits for their costs before it proposes more. Only proposed
    /// configurations can be reported, and a finished session cannot be continued.
    ORDER = Code("E1045"), "a proposal or report out of order",
        wrong: "session.get_configuration()?;\nsession.get_configuration()?;",
        right: "session.get_configuration()?;\nsession.report_cost(0.25)?;\nsession.get_configuration()?;";

    /// A starting point names every parameter of the space. One that violates constraints is moved to the
    /// nearest valid configuration; one that does not fit the parameters at all is refused.
    START = Code("E1046"), "a starting point that cannot be used",
        wrong: "lathe tune gemm.lathe:gemm --strategy tiled --start tile=big",
        right: "lathe tune gemm.lathe:gemm --strategy tiled --start tile=64";

    /// Recorded results are read in the T4 format: a JSON object with a list `results`, each with a
    /// `configuration`, its `measurements` and its `invalidity`. The message says where the text deviates from
    /// that.
    RESULTS = Code("E1047"), "a results file that cannot be read",
        wrong: "{\"results\": [{\"configuration\": {\"a\": [1]}}]}",
        right: "{\"results\": [{\"configuration\": {\"a\": 1}, \"invalidity\": \"correct\", \"measurements\": [{\"name\": \
                \"time\", \"value\": 0.5}]}]}";

    /// A recorded table serves as a cost function only if its configurations have the parameters of the space
    /// and belong to it.
    RESULTS_SPACE = Code("E1048"), "results that do not fit the space",
        wrong: "RecordedTable::new(&space_of_a_and_b, &results_of_a_and_c)",
        right: "RecordedTable::new(&space_of_a_and_b, &results_of_a_and_b)";

    /// No combination of parameter values meets all constraints, so that there is no configuration to measure.
    EMPTY = Code("E1049"), "nothing to tune",
        wrong: "strategy s(t in 1..=4 where t > 8) for copy = split(i, t)",
        right: "strategy s(t in 1..=16 where t > 8) for copy = split(i, t)";
}
