//! Random kernels as text: index notation and loops.
//!
//! Every input has extents `S + 4`, so that the subscripts of the generator (`v + c`, `S + 3 - v`, `v // 2`,
//! small data) are inside; what the front end or the analysis still refuses is counted, not hidden.

use super::rng::Rng;
use std::fmt;

/// A kernel in parts, so that a failing one can be made smaller.
#[derive(Clone, Debug)]
pub struct Source {
    pub items: Vec<String>,
    pub params: Vec<String>,
    pub results: Vec<String>,
    pub statements: Vec<String>,
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for i in &self.items {
            writeln!(f, "{i}")?;
        }
        write!(f, "kernel k({})", self.params.join(", "))?;
        if !self.results.is_empty() {
            write!(f, " -> ({})", self.results.join(", "))?;
        }
        writeln!(f, " {{")?;
        for s in &self.statements {
            writeln!(f, "    {}", s.replace('\n', "\n    "))?;
        }
        writeln!(f, "}}")
    }
}

/// A variable with its range `lo .. size + hi`.
#[derive(Clone)]
struct Var {
    name: String,
    size: &'static str,
    lo: i64,
    hi: i64,
}

/// An array of elements `ty` with extents `size + 4`.
#[derive(Clone)]
struct Arr {
    name: String,
    ty: &'static str,
    sizes: Vec<&'static str>,
}

struct Maker<'r> {
    r: &'r mut Rng,
    ty: &'static str,
    arrays: Vec<Arr>,
    /// The size of an array of structs, if there is one.
    records: Option<&'static str>,
    /// Only sums of products.
    plain: bool,
    names: usize,
}

const SIZES: [&str; 3] = ["N", "M", "K"];
fn size(r: &mut Rng) -> &'static str {
    SIZES[r.below(SIZES.len())]
}

const TYPES: [&str; 17] = [
    "f32", "f32", "f32", "f32", "f32", "f64", "f64", "f16", "bf16", "i32", "i64", "i16", "i8", "u8", "u16",
    "u32", "u64",
];

fn float(ty: &str) -> bool {
    ty.starts_with('f') || ty.starts_with('b')
}

/// One random kernel.
pub fn source(r: &mut Rng) -> Source {
    let ty = *r.pick(&TYPES);
    // The bound of rounding errors is for the wider floats.
    let plain = r.one_in(4) && !matches!(ty, "f16" | "bf16");
    let mut m = Maker { r, ty, arrays: Vec::new(), records: None, plain, names: 0 };
    let mut params = Vec::new();
    for (name, rank) in [("A", 2), ("B", 2), ("C", 1), ("D", 3)] {
        let rank = if m.r.one_in(4) { 1 + m.r.below(2) } else { rank };
        let ty = if !plain && m.r.one_in(6) { *m.r.pick(&TYPES) } else { ty };
        let sizes = (0..rank).map(|_| size(m.r)).collect();
        let a = Arr { name: name.to_string(), ty, sizes };
        params.push(format!("{name}: {}", type_of(&a)));
        m.arrays.push(a);
    }
    // Sizes are bound by parameters; small subscripts for gathers are data.
    params.extend(SIZES.map(|s| format!("Z{s}: u8[{s}]")));
    params.push("G: i32[N + 4]".to_string());
    params.push("S: u8[M + 4, K + 4]".to_string());
    let mut s = Source { items: Vec::new(), params, results: Vec::new(), statements: Vec::new() };
    if !plain && m.r.one_in(5) {
        let size = size(m.r);
        s.items.push(format!("struct R {{ a: {ty}, b: (i32, {ty}) }}"));
        s.params.push(format!("Q: R[{size} + 4]"));
        m.records = Some(size);
    }
    if m.r.below(3) == 0 && !plain {
        loops(&mut m, &mut s);
    } else {
        notation(&mut m, &mut s);
    }
    s
}

fn type_of(a: &Arr) -> String {
    let extents: Vec<String> = a.sizes.iter().map(|s| format!("{s} + 4")).collect();
    format!("{}[{}]", a.ty, extents.join(", "))
}

/// One to three statements in index notation; some results are locals that later ones read.
fn notation(m: &mut Maker, s: &mut Source) {
    let count = if m.plain { 1 } else { 1 + m.r.below(3) };
    for n in 0..count {
        let local = n + 1 < count && m.r.one_in(2);
        let name = format!("{}{n}", if local { "T" } else { "O" });
        let rank = *m.r.pick(&[0, 1, 1, 2, 2, 2, 3]);
        let rank = if local { rank.max(1) } else { rank };
        let vars: Vec<Var> = (0..rank)
            .map(|d| Var {
                name: ["i", "j", "l"][d].to_string(),
                size: size(m.r),
                lo: 0,
                // What later statements read must have the extents of inputs.
                hi: if local { 4 } else { m.r.below(2) as i64 },
            })
            .collect();
        let (ty, text) = assignment(m, s, &name, &vars, local);
        let extents: Vec<String> = vars.iter().map(|v| format!("{} + {}", v.size, v.hi)).collect();
        let dims = if extents.is_empty() { String::new() } else { format!("[{}]", extents.join(", ")) };
        if local {
            s.statements.push(format!("var {name}: {ty}{dims}"));
        } else {
            s.results.push(format!("{name}: {ty}{dims}"));
        }
        s.statements.extend(text);
        if local && ty == m.ty {
            m.arrays.push(Arr { name, ty: m.ty, sizes: vars.iter().map(|v| v.size).collect() });
        }
    }
    if !m.plain && m.r.one_in(6) {
        let e = m.expr(&[Var { name: "e".to_string(), size: "N", lo: 0, hi: 4 }], 2);
        s.params.push(format!("H: inout {}[M + 4]", m.ty));
        let op = *m.r.pick(&["+=", "max=", "min="]);
        s.statements.push(format!("H[G[e]] {op} {e}"));
    }
    if !m.plain && m.r.one_in(8) {
        s.params.push(format!("X: inout {}[K + 4]", m.ty));
        s.statements.push(match m.r.below(3) {
            0 => "X[q] = X[K + 3 - q]".to_string(),
            1 => "X[q] = X[q] + X[q - 1] where q in 1..K + 4".to_string(),
            _ => "X[q] *= 2".to_string(),
        });
    }
}

/// Statements that write all of one result, with the type of its elements.
fn assignment(
    m: &mut Maker,
    s: &mut Source,
    name: &str,
    vars: &[Var],
    local: bool,
) -> (&'static str, Vec<String>) {
    let names: Vec<&str> = vars.iter().map(|v| v.name.as_str()).collect();
    let target = if names.is_empty() { name.to_string() } else { format!("{name}[{}]", names.join(", ")) };
    let k = if m.r.one_in(3) {
        Var { name: "r".to_string(), size: "0", lo: 0, hi: 3 }
    } else {
        Var { name: "k".to_string(), size: size(m.r), lo: 0, hi: m.r.below(3) as i64 }
    };
    let range = format!("{} in 0..{}", k.name, bound(&k));
    let inner: Vec<Var> = vars.iter().cloned().chain([k.clone()]).collect();
    let choice = match (m.plain, local && m.r.one_in(2)) {
        (true, _) => 2 + m.r.below(4),
        // What a later statement reads is often computed by one expression.
        (_, true) => 0,
        _ => m.r.below(14),
    };
    match choice {
        0 | 1 => (m.ty, vec![format!("{target} = {}", m.expr(vars, 3))]),
        2 if m.r.one_in(2) => {
            let (c, e) = (m.condition(&inner), m.expr(&inner, 2));
            (m.ty, vec![format!("{target} = sum[{range}](select({c}, {e}, 0))")])
        }
        2..=4 => (m.ty, vec![format!("{target} = sum[{range}]({})", m.expr(&inner, 2))]),
        5 => {
            let start = if m.r.one_in(2) { "0".to_string() } else { m.expr(vars, 1) };
            let e = m.expr(&inner, 2);
            (m.ty, vec![format!("{target} = {start}"), format!("{target} += {e} where {range}")])
        }
        6 => {
            let op = *m.r.pick(&["max", "min", "prod"]);
            let e = m.expr(&inner, 2);
            // Extrema of nothing are infinite; of unsigned or signed numbers the extreme ones.
            (m.ty, vec![format!("{target} = {op}[{range}]({e})")])
        }
        7 if !vars.is_empty() => {
            let v = m.r.pick(vars).name.clone();
            let op = *m.r.pick(&["sum", "sum", "max", "min"]);
            let e =
                if m.r.one_in(2) { format!("{op}[{range}]({})", m.expr(&inner, 2)) } else { m.expr(vars, 2) };
            (m.ty, vec![format!("{target} = scan({op})[{v}]({e})")])
        }
        8 if !local => {
            let op = *m.r.pick(&["all", "any"]);
            ("bool", vec![format!("{target} = {op}[{range}]({})", m.condition(&inner))])
        }
        9 if !local => {
            let op = *m.r.pick(&["argmin", "argmax"]);
            let k = Var { hi: 1 + k.hi, ..k };
            let inner: Vec<Var> = vars.iter().cloned().chain([k.clone()]).collect();
            let e = m.expr(&inner, 1);
            ("i64", vec![format!("{target} = {op}[{} in 0..{}]({e})", k.name, bound(&k))])
        }
        10 if !local => {
            if !s.items.iter().any(|i| i.starts_with("struct P")) {
                let ty = m.ty;
                s.items.push(format!("struct P {{ v: {ty}, i: i64 }}"));
                let least = match ty {
                    "i32" => "-2147483647 - 1",
                    "i64" => LEAST,
                    _ => "-inf",
                };
                s.items.push(format!(
                    "op better(a: P, b: P) -> P associative commutative identity(P(v: {least}, i: {LEAST})) =\n    \
                     select(a.v > b.v or (a.v == b.v and a.i > b.i), a, b)"
                ));
            }
            let e = m.expr(&inner, 1);
            ("P", vec![format!("{target} = better[{range}](P(v: {e}, i: i64({})))", k.name)])
        }
        11 => {
            let e = m.expr(&inner, 1);
            let f = m.expr(vars, 1);
            (m.ty, vec![format!("{target} = {f} + sum[{range}]({e}) * 2")])
        }
        12 if !vars.is_empty() => {
            let c = m.condition(vars);
            let e = m.expr(&inner, 1);
            (m.ty, vec![format!("{target} = select({c}, sum[{range}]({e}), 1)")])
        }
        _ => {
            let second = Var { name: "s".to_string(), size: size(m.r), lo: 0, hi: 1 };
            let all: Vec<Var> = inner.iter().cloned().chain([second.clone()]).collect();
            let e = m.expr(&all, 2);
            (m.ty, vec![format!("{target} = sum[{range}, s in 0..{}]({e})", bound(&second))])
        }
    }
}

fn bound(v: &Var) -> String {
    if v.size == "0" { v.hi.to_string() } else { format!("{} + {}", v.size, v.hi) }
}

/// Nests of loops over arrays that are read and written in place.
fn loops(m: &mut Maker, s: &mut Source) {
    for (name, rank) in [("U", 1), ("V", 2)] {
        let sizes = (0..rank).map(|_| size(m.r)).collect();
        let a = Arr { name: name.to_string(), ty: m.ty, sizes };
        s.params.push(format!("{name}: inout {}", type_of(&a)));
        m.arrays.push(a);
    }
    for n in 0..1 + m.r.below(2) {
        let mut vars = Vec::new();
        if m.r.one_in(2) {
            // Time: no subscript mentions it, or as every other variable.
            vars.push(Var { name: format!("t{n}"), size: "0", lo: 0, hi: 3 });
            let depth = 1 + m.r.below(2);
            let body = nest(m, &mut vars, n, depth);
            s.statements.push(format!("for t{n} in 0..3 {{\n    {}\n}}", body.replace('\n', "\n    ")));
        } else {
            let depth = 1 + m.r.below(3);
            let body = nest(m, &mut vars, n, depth);
            s.statements.push(body);
        }
    }
}

fn nest(m: &mut Maker, vars: &mut Vec<Var>, n: usize, depth: usize) -> String {
    if depth == 0 {
        let mut out = Vec::new();
        for _ in 0..1 + m.r.below(2) {
            out.push(in_loops(m, vars));
        }
        return out.join("\n");
    }
    let name = format!("{}{n}", ["x", "y", "z"][depth - 1]);
    let size = size(m.r);
    let lo = m.r.below(3) as i64;
    let hi = m.r.below(3) as i64;
    let same = vars.iter().find(|v| v.size == size).cloned();
    let step = if m.r.one_in(8) { " step 2" } else { "" };
    let (var, range) = match same {
        // A triangle.
        Some(v) if m.r.one_in(2) => {
            if m.r.one_in(2) {
                (Var { name: name.clone(), size, lo: 0, hi: v.hi }, format!("0..{} + 1", v.name))
            } else {
                (
                    Var { name: name.clone(), size, lo: v.lo, hi: v.hi },
                    format!("{}..{size} + {}", v.name, v.hi),
                )
            }
        }
        _ => (Var { name: name.clone(), size, lo, hi }, format!("{lo}..{size} + {hi}")),
    };
    vars.push(var);
    let inner = nest(m, vars, n, depth - 1);
    let before = if m.r.one_in(6) { in_loops(m, vars) + "\n" } else { String::new() };
    vars.pop();
    format!("for {name} in {range}{step} {{\n    {}\n}}", (before + &inner).replace('\n', "\n    "))
}

fn in_loops(m: &mut Maker, vars: &[Var]) -> String {
    let target = m.arrays[m.arrays.len() - 1 - m.r.below(2)].clone();
    let place = m.access(&target, vars);
    let e = m.expr(vars, 2);
    let op = *m.r.pick(&["=", "=", "=", "+=", "max=", "*="]);
    match m.r.below(9) {
        8 => {
            let (c, times) = (m.fresh("c"), 1 + m.r.below(3));
            let start = match vars.last() {
                Some(v) => format!("i32({}) % {times} + 1", v.name),
                None => times.to_string(),
            };
            let body = format!("{place} {op} {e}").replace('\n', "\n    ");
            format!("var {c}: i32\n{c} = {start}\nwhile {c} > 0 {{\n    {body}\n    {c} = {c} - 1\n}}")
        }
        0 => {
            let c = m.condition(vars);
            let other = m.expr(vars, 1);
            format!("if {c} {{\n    {place} {op} {e}\n}} else {{\n    {place} = {other}\n}}")
        }
        1 => {
            let h = m.fresh("h");
            format!("let {h} = {e}\n{place} {op} {h} + {h}")
        }
        2 => {
            let f = m.expr(vars, 1);
            let ty = m.ty;
            let w = m.fresh("w");
            format!("var {w}: {ty}[2]\n{w}[0] = {e}\n{w}[1] = {f}\n{place} {op} {w}[0] - {w}[1]")
        }
        _ => format!("{place} {op} {e}"),
    }
}

impl Maker<'_> {
    /// A name that no other statement has.
    fn fresh(&mut self, stem: &str) -> String {
        self.names += 1;
        format!("{stem}{}", self.names)
    }

    /// An expression of the kernel's type.
    fn expr(&mut self, vars: &[Var], depth: usize) -> String {
        let ty = self.ty;
        if depth == 0 || self.r.one_in(5) {
            return self.leaf(vars);
        }
        if self.plain {
            let op = *self.r.pick(&["+", "*", "*"]);
            return format!("({} {op} {})", self.expr(vars, depth - 1), self.expr(vars, depth - 1));
        }
        let a = self.expr(vars, depth - 1);
        match self.r.below(14) {
            0..=5 => {
                let op = *self.r.pick(&["+", "-", "*", "*"]);
                format!("({a} {op} {})", self.expr(vars, depth - 1))
            }
            6 => format!("{}({a}, {})", self.r.pick(&["min", "max"]), self.expr(vars, depth - 1)),
            7 | 8 => {
                let c = self.condition(vars);
                format!("select({c}, {a}, {})", self.expr(vars, depth - 1))
            }
            9 if float(ty) => format!("({a} / {})", self.expr(vars, depth - 1)),
            9 => format!("({a} {} {})", self.r.pick(&["//", "%"]), 2 + self.r.below(4)),
            10 if float(ty) => {
                let f = *self.r.pick(&["sqrt", "exp", "log", "sin", "tanh", "abs", "floor"]);
                format!("{f}({a})")
            }
            11 if !ty.starts_with('u') => format!("(-{a})"),
            13 => {
                let more: Vec<String> = (0..4).map(|_| self.leaf(vars)).collect();
                format!("({})", more.join(" + "))
            }
            12 => {
                let via = *self.r.pick(&["f32", "f64", "f16", "bf16", "i32", "i64", "u8", "i16"]);
                format!("{ty}({via}({a}))")
            }
            _ => format!("({a} + {})", self.leaf(vars)),
        }
    }

    fn leaf(&mut self, vars: &[Var]) -> String {
        let ty = self.ty;
        match self.r.below(10) {
            0 if float(ty) => format!("{}.{}", self.r.below(3), if self.plain { 0 } else { 5 }),
            0 => format!("{ty}({})", self.r.below(4)),
            1 if !vars.is_empty() => format!("{ty}({})", self.r.pick(vars).name),
            2 if !self.plain && vars.iter().any(|v| v.size == "N") => {
                // A gather: data below 4 are subscripts of everything.
                let v = vars.iter().find(|v| v.size == "N").map(|v| v.name.clone()).unwrap_or_default();
                let a = self.arrays.iter().find(|a| a.sizes.len() == 1).cloned();
                match a {
                    Some(a) => self.cast(&a, format!("{}[G[{v}]]", a.name)),
                    None => self.load(vars),
                }
            }
            3 if self.records.is_some() => {
                let at = self.subscript(vars, self.records.unwrap_or("N"));
                let field = *self.r.pick(&["a", "b.0", "b.1"]);
                if field == "b.0" { format!("{ty}(Q[{at}].b.0)") } else { format!("Q[{at}].{field}") }
            }
            _ => self.load(vars),
        }
    }

    fn load(&mut self, vars: &[Var]) -> String {
        let local = self.arrays.iter().rfind(|a| a.name.starts_with('T')).filter(|_| self.r.one_in(3));
        let a = local.unwrap_or_else(|| self.r.pick(&self.arrays)).clone();
        let text = self.access(&a, vars);
        self.cast(&a, text)
    }

    fn cast(&self, a: &Arr, text: String) -> String {
        if a.ty == self.ty { text } else { format!("{}({text})", self.ty) }
    }

    fn access(&mut self, a: &Arr, vars: &[Var]) -> String {
        let subs: Vec<String> = a.sizes.iter().map(|s| self.subscript(vars, s)).collect();
        format!("{}[{}]", a.name, subs.join(", "))
    }

    /// A subscript within `0 .. size + 4`.
    fn subscript(&mut self, vars: &[Var], size: &str) -> String {
        let fit: Vec<&Var> = vars.iter().filter(|v| v.size == size).collect();
        let small = vars.iter().find(|v| v.size == "0").map(|v| v.name.clone());
        if fit.is_empty() || self.r.one_in(10) {
            return match small {
                Some(r) => r,
                None => self.r.below(4).to_string(),
            };
        }
        let v = (*self.r.pick(&fit)).clone();
        let room = 4 - v.hi;
        match self.r.below(8) {
            0 if room > 0 => format!("{} + {}", v.name, 1 + self.r.below(room as usize)),
            1 if v.lo > 0 => format!("{} - {}", v.name, 1 + self.r.below(v.lo as usize)),
            2 => format!("{size} + {} - {}", 3 - self.r.below(room.clamp(1, 3) as usize), v.name),
            3 => format!("{} // 2", v.name),
            4 if room >= 2 && small.is_some() => format!("{} + {}", v.name, small.unwrap_or_default()),
            5 if self.r.one_in(4) => format!("(3 * {} + 1) % ({size} + 4)", v.name),
            _ => v.name,
        }
    }

    fn condition(&mut self, vars: &[Var]) -> String {
        let op = *self.r.pick(&["<", "<=", ">", "==", "!="]);
        let one = match vars {
            [a, .., b] if self.r.one_in(2) => format!("{} {op} {}", a.name, b.name),
            [a, ..] if self.r.one_in(2) => format!("{} % 3 {op} 1", a.name),
            _ => format!("{} {op} {}", self.load(vars), self.load(vars)),
        };
        match self.r.below(6) {
            0 => format!("{one} and {} < {}", self.load(vars), self.leaf(vars)),
            1 => format!("not ({one})"),
            _ => one,
        }
    }
}

/// The least `i64`.
const LEAST: &str = "-9223372036854775807 - 1";
