//! Random nests for `affine_schedule`: imperfect, triangular, guarded, in time steps, with variables of an iteration
//! (`expand`), with reductions written as stores and conditions (`to_reduction`).

use super::case::{Case, Steps};
use super::data::Flavour;
use super::kernels::Source;
use super::rng::Rng;

/// A nest with the arguments of a schedule.
pub fn case(seed: u64) -> Case {
    made(seed, false)
}

/// A nest of which every other one treats borders of its arrays apart: by selections and subscripts that are clamped.
pub fn with_borders(seed: u64) -> Case {
    made(seed, seed.is_multiple_of(2))
}

fn made(seed: u64, borders: bool) -> Case {
    let mut r = Rng::new(seed ^ 0x5EED_AFF1);
    let elem = *r.pick(&["i32", "i32", "f64"]);
    let params = vec![
        "s: i32[N]".to_string(),
        "m: i32[M]".to_string(),
        format!("A: inout {elem}[N + 4, N + 4]"),
        format!("B: inout {elem}[N + 4, N + 4]"),
        format!("C: inout {elem}[N + 4]"),
    ];
    let mut g = Nests {
        r: &mut r,
        elem,
        borders,
        left: 5,
        names: 0,
        scope: Vec::new(),
        declared: Vec::new(),
        sums: Vec::new(),
    };
    let mut statements = Vec::new();
    for _ in 0..1 + g.r.below(2) {
        let timed = g.r.one_in(3);
        let body = g.block(&[], 0);
        statements.push(if timed { format!("for t in 0..M {{\n{body}\n}}") } else { body });
    }
    let mut steps: Vec<String> = g.declared.iter().map(|(t, i)| format!("expand({t}, at: {i})")).collect();
    let sums = std::mem::take(&mut g.sums);
    let labels = ["A", "A.2", "A.3", "B", "B.2", "C", "C.2"];
    steps.splice(0..0, labels.map(|l| format!("to_reduction({l})")));
    match sums.is_empty() || !r.one_in(4) {
        true => steps.push(format!("affine_schedule({})", arguments(&mut r))),
        // Reductions into an array of which other elements may be read.
        false => {
            for (array, i) in sums {
                steps.extend([format!("split({i}, 3)"), format!("factor({array}, {i}.i, at: {i}.o)")]);
            }
        }
    }
    let sizes = [("N", *r.pick(&[0, 1, 2, 3, 5, 7, 9, 12])), ("M", *r.pick(&[0, 1, 2, 3, 5]))];
    Case {
        seed,
        source: Source { items: Vec::new(), params, results: Vec::new(), statements },
        steps: Steps::Given(steps),
        sizes: sizes.map(|(n, v)| (n.to_string(), v)).into(),
        flavour: *r.pick(&[Flavour::Small, Flavour::Small, Flavour::Fractions]),
        strided: r.one_in(4),
        c: seed.is_multiple_of(50),
    }
}

fn arguments(r: &mut Rng) -> String {
    let mut out = Vec::new();
    match r.below(4) {
        0 => out.push("fuse: max".to_string()),
        1 => out.push("fuse: none".to_string()),
        _ => {}
    }
    if !r.one_in(3) {
        out.push(format!("vector: {}", r.pick(&[2, 4, 4, 8])));
        if r.one_in(3) {
            out.push(format!("lanes: {}", r.pick(&["any", "any", "none"])));
        }
    }
    if r.one_in(2) {
        out.push(format!("jam: {}", r.pick(&[2, 3, 4])));
    }
    if r.one_in(3) {
        out.push(format!("tile: {}", r.pick(&[2, 3, 4, 8])));
        if r.one_in(2) {
            out.push(format!("row: {}", r.pick(&[4, 8, 16])));
        }
    }
    if r.one_in(3) {
        out.push(format!("parallel: {}", r.pick(&["outer", "wavefront", "wavefront"])));
    }
    out.join(", ")
}

struct Nests<'r> {
    r: &'r mut Rng,
    elem: &'static str,
    borders: bool,
    /// Statements that may still be made.
    left: usize,
    names: usize,
    /// Variables that may be read here, and all of them with the loops that they are declared in.
    scope: Vec<String>,
    declared: Vec<(String, String)>,
    /// Arrays that are added to, each with the loop around.
    sums: Vec<(String, String)>,
}

impl Nests<'_> {
    /// Loops and statements that follow one another.
    fn block(&mut self, around: &[String], depth: usize) -> String {
        let mut out = Vec::new();
        for _ in 0..1 + self.r.below(2) {
            let one = match self.r.below(7) {
                0 | 1 if !around.is_empty() => self.statement(around),
                5 if !around.is_empty() && self.r.one_in(3) => self.by_hand(around),
                2 if around.len() > 1 => {
                    let cond = format!("{} {} {}", around[0], self.r.pick(&["<", "<=", "=="]), around[1]);
                    format!("if {cond} {{\n{}\n}}", self.statement(around))
                }
                _ if depth < 3 && self.left > 0 => self.nest(around, depth),
                _ => self.statement(around),
            };
            out.push(one);
        }
        out.join("\n")
    }

    /// Iterators run within `1..N + 1`.
    fn nest(&mut self, around: &[String], depth: usize) -> String {
        self.names += 1;
        let name = format!("i{}", self.names);
        let outer = around.last().cloned();
        let (lo, hi) = match (outer, self.r.below(4)) {
            (Some(o), 0) => (o, "N + 1".to_string()),
            (Some(o), 1) => ("1".to_string(), format!("{o} + 1")),
            (Some(o), 2) => ("1".to_string(), o),
            _ => (self.r.pick(&["1", "2"]).to_string(), self.r.pick(&["N + 1", "N"]).to_string()),
        };
        let inside: Vec<String> = around.iter().cloned().chain([name.clone()]).collect();
        let outside = self.scope.len();
        let mut before = String::new();
        if self.r.one_in(5) {
            let t = format!("t{}", self.names);
            let (elem, first) = (self.elem, self.access(&inside));
            before = format!("var {t}: {elem}\n{t} = {first}\n");
            self.declared.push((t.clone(), name.clone()));
            self.scope.push(t);
        }
        let body = format!("{before}{}", self.block(&inside, depth + 1));
        self.scope.truncate(outside);
        format!("for {name} in {lo}..{hi} {{\n{body}\n}}")
    }

    fn statement(&mut self, around: &[String]) -> String {
        self.left = self.left.saturating_sub(1);
        let variable = self.scope.last().cloned().filter(|_| self.r.one_in(3));
        let target = variable.unwrap_or_else(|| self.access(around));
        let op = *self.r.pick(&["=", "=", "+=", "+=", "max="]);
        let array = target.split_once('[').map(|t| t.0.to_string()).filter(|_| op == "+=");
        self.sums.extend(array.zip(around.last().cloned()));
        let value = match self.r.below(3) {
            _ if self.borders && !around.is_empty() && self.r.one_in(2) => {
                let v = self.r.pick(around).clone();
                let cond = self.r.pick(&["> 1", "< N", "== 2", "!= N", "<= 2", ">= N - 1"]).to_string();
                format!("select({v} {cond}, {}, {})", self.access(around), self.access(around))
            }
            0 => self.access(around),
            1 => format!("{} + {}", self.access(around), self.access(around)),
            _ => format!("{} - 2 * {}", self.access(around), self.access(around)),
        };
        match self.scope.last() {
            Some(t) if self.r.one_in(2) => format!("{target} {op} {value} + {t}"),
            _ => format!("{target} {op} {value}"),
        }
    }

    /// A reduction that is not written as one, or a store under a condition on data.
    fn by_hand(&mut self, around: &[String]) -> String {
        self.left = self.left.saturating_sub(1);
        let (x, e) = (self.access(around), self.access(around));
        match self.r.below(if self.elem == "i32" { 5 } else { 4 }) {
            3 => {
                let (cond, op) = (self.access(around), *self.r.pick(&["+=", "max=", "*=", "=", "="]));
                format!("if {cond} > 1 {{\n{x} {op} {e}\n}}")
            }
            0 => format!("{x} = {x} + {e}"),
            1 => format!("{x} = max({e}, {x})"),
            2 => format!("{x} = {x} - {e}"),
            _ => format!("if {e} {} {x} {{\n{x} = {e}\n}}", self.r.pick(&[">", "<", ">=", "<="])),
        }
    }

    fn access(&mut self, around: &[String]) -> String {
        let array = *self.r.pick(&["A", "A", "B", "C"]);
        let rank = if array == "C" { 1 } else { 2 };
        let subscripts: Vec<String> = (0..rank).map(|_| self.subscript(around)).collect();
        format!("{array}[{}]", subscripts.join(", "))
    }

    fn subscript(&mut self, around: &[String]) -> String {
        if around.is_empty() || self.r.one_in(8) {
            return self.r.below(3).to_string();
        }
        let v = self.r.pick(around).clone();
        if self.borders && self.r.one_in(3) {
            return self
                .r
                .pick(&["max({v} - 2, 0)", "min({v} + 1, N + 1)", "max({v} - 1, 1)"])
                .replace("{v}", &v);
        }
        match self.r.below(8) {
            0 => format!("N + 1 - {v}"),
            1 => format!("{v} - 1"),
            2 => format!("{v} + 1"),
            3 => format!("{v} + 2"),
            _ => v,
        }
    }
}
