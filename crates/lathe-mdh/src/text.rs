//! Decisions as text and as JSON, both ways.
//!
//! ```text
//! decisions for C on openmp
//! partial tiles                        # only where parts need not multiply to extents
//! parts    [8 1 1] [1 1 9] [2 962 218] [1 1 1]
//! D1 S1 R1 [1 2 3] [4 5 6] [7 8 9] [10 11 12]
//! D2 S2 R2 [COR.x COR.y COR.z] [MM.x MM.y MM.z] [L2.x L2.y L2.z] [L1.x L1.y L1.z]
//! D3 A     [MM MM MM] [MM MM MM] [L2 L2 L2] [L1 L1 L1]
//! D4 A     [<1,2> <1,2> <1,2>] …
//! S3 A     L1
//! ```
//!
//! One bracket per layer, one entry per dimension; `_` is free, and a line that is missing leaves its whole
//! decision free. Several decisions with the same entries share a line. A rank may be written like a level,
//! `(3,2)`: the rank of that level in lexicographic order. `D1 by position [(2,1) …]` lists levels in their
//! order instead, outermost first.

use crate::codes;
use crate::decisions::{AsmLevel, Decisions, Level, Phase, Placement, Spot, Table, ranks_of};
use crate::homomorphism::Homomorphism;
use crate::model::Model;
use lathe_diagnostics::Diagnostic;
use serde_json::{Map, Value as Json};

/// One decision, of one buffer where it is about buffers: texts of its entries.
#[derive(Clone, Debug, PartialEq)]
struct Row {
    keys: Vec<String>,
    buffer: Option<String>,
    by_position: bool,
    cells: Vec<Vec<String>>,
}

/// The longest text that is read.
const MOST: usize = 1 << 20;

/// As text that [`parse`] reads.
pub fn print(h: &Homomorphism, model: &Model, d: &Decisions) -> String {
    let mut out = format!("decisions for {} on {}\n", h.name, model.name);
    if d.partial_tiles {
        out += "partial tiles\n";
    }
    let mut rows = rows(model, d);
    // Decisions of equal entries share a line.
    let mut n = 0;
    while n < rows.len() {
        let same =
            |r: &Row| r.cells == rows[n].cells && r.buffer == rows[n].buffer && kind(r) == kind(&rows[n]);
        if let Some(first) = rows[..n].iter().position(same) {
            let keys = rows.remove(n).keys;
            rows[first].keys.extend(keys);
        } else {
            n += 1;
        }
    }
    for r in rows {
        let keys = r.keys.join(" ");
        let name = r.buffer.map_or(keys.clone(), |b| format!("{keys} {b}"));
        let cells: Vec<String> = r.cells.iter().map(|c| format!("[{}]", c.join(" "))).collect();
        let single = matches!(r.keys[0].as_str(), "S3" | "S4" | "S5" | "S6");
        let cells = if single { r.cells.concat().join(" ") } else { cells.join(" ") };
        out += &format!("{name:<9}{}{cells}\n", if name.len() >= 9 { " " } else { "" });
    }
    out
}

/// What a decision's number says: 1 is an order, 2 an assignment.
fn kind(r: &Row) -> &str {
    r.keys[0].get(1..).unwrap_or("")
}

/// Reads decisions for a computation and a model.
///
/// # Errors
/// E1203 for text of another form, E1204 for entries of another computation or model.
pub fn parse(h: &Homomorphism, model: &Model, text: &str) -> Result<Decisions, Diagnostic> {
    limit(text)?;
    let mut d = Decisions::free(h, model);
    for (n, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or("").trim();
        let mut words = line.split_whitespace();
        let place = |e: Diagnostic| e.note(format!("in line {}: {line}", n + 1));
        match words.next() {
            None => {}
            Some("decisions") => header(h, model, &words.collect::<Vec<_>>()).map_err(place)?,
            Some("partial") if words.clone().eq(["tiles"]) => d.partial_tiles = true,
            Some(_) => {
                let row = row(line).map_err(place)?;
                set(h, model, &mut d, &row).map_err(place)?;
            }
        }
    }
    Ok(d)
}

/// As JSON that [`from_json`] reads.
pub fn to_json(h: &Homomorphism, model: &Model, d: &Decisions) -> Json {
    let cell = |c: &String| match (c.as_str(), c.parse::<u64>()) {
        ("_", _) => Json::Null,
        (_, Ok(v)) => Json::from(v),
        (text, _) => Json::from(text),
    };
    let mut out = Map::new();
    out.insert("computation".into(), Json::from(h.name.as_str()));
    out.insert("model".into(), Json::from(model.name.as_str()));
    out.insert("partial_tiles".into(), Json::from(d.partial_tiles));
    for r in rows(model, d) {
        let cells = r.cells.iter().map(|row| Json::Array(row.iter().map(cell).collect()));
        let cells = Json::Array(cells.collect());
        match r.buffer {
            None => {
                out.insert(r.keys[0].clone(), cells);
            }
            Some(b) => {
                let of = out.entry(r.keys[0].clone()).or_insert_with(|| Json::Object(Map::new()));
                if let Json::Object(of) = of {
                    of.insert(b, cells);
                }
            }
        }
    }
    Json::Object(out)
}

/// Reads the JSON form.
///
/// # Errors
/// E1203 for JSON of another form, E1204 for entries of another computation or model.
pub fn from_json(h: &Homomorphism, model: &Model, text: &str) -> Result<Decisions, Diagnostic> {
    limit(text)?;
    let json: Json = serde_json::from_str(text).map_err(|e| bad(format!("these are not decisions: {e}")))?;
    let Json::Object(all) = json else { return Err(bad("decisions are a JSON object".to_string())) };
    let mut d = Decisions::free(h, model);
    for (key, value) in &all {
        match (key.as_str(), value) {
            ("computation", Json::String(s)) => header(h, model, &["for", s, "on", &model.name])?,
            ("model", Json::String(s)) => header(h, model, &["for", &h.name, "on", s])?,
            ("partial_tiles", Json::Bool(b)) => d.partial_tiles = *b,
            (_, Json::Object(buffers)) => {
                for (b, cells) in buffers {
                    set(h, model, &mut d, &json_row(key, Some(b), cells)?)?;
                }
            }
            (_, cells) => set(h, model, &mut d, &json_row(key, None, cells)?)?,
        }
    }
    Ok(d)
}

fn json_row(key: &str, buffer: Option<&str>, cells: &Json) -> Result<Row, Diagnostic> {
    let wrong = || bad(format!("`{}` is a list of lists, one per layer", key.escape_debug()));
    let cell = |c: &Json| match c {
        Json::Null => Ok("_".to_string()),
        Json::Number(n) => Ok(n.to_string()),
        Json::String(s) => Ok(s.clone()),
        _ => Err(wrong()),
    };
    let row = |r: &Json| match r {
        Json::Array(cells) => cells.iter().map(cell).collect::<Result<Vec<_>, _>>(),
        _ => Err(wrong()),
    };
    let Json::Array(rows) = cells else { return Err(wrong()) };
    let cells = rows.iter().map(row).collect::<Result<Vec<_>, _>>()?;
    Ok(Row { keys: vec![key.to_string()], buffer: buffer.map(str::to_string), by_position: false, cells })
}

fn limit(text: &str) -> Result<(), Diagnostic> {
    if text.len() > MOST {
        return Err(bad(format!("decisions have at most {MOST} bytes")));
    }
    Ok(())
}

fn bad(message: String) -> Diagnostic {
    Diagnostic::error(codes::DECISIONS_FORM, message)
}

fn other(message: String) -> Diagnostic {
    Diagnostic::error(codes::DECISIONS_SHAPE, message)
}

/// `for NAME on MODEL`
fn header(h: &Homomorphism, model: &Model, words: &[&str]) -> Result<(), Diagnostic> {
    match words {
        ["for", name, "on", m] if *name == h.name && *m == model.name => Ok(()),
        ["for", name, "on", m] => Err(other(format!(
            "these decisions are for `{}` on `{}`, not for `{}` on `{}`",
            name.escape_debug(),
            m.escape_debug(),
            h.name,
            model.name
        ))),
        _ => Err(bad("the first line is `decisions for NAME on MODEL`".to_string())),
    }
}

/// `D1 S1 R1 by position [..] [..]`, `D3 A [..] [..]`, `S3 A SM`
fn row(line: &str) -> Result<Row, Diagnostic> {
    let is_key = |w: &str| {
        w == "parts" || (w.len() == 2 && w.starts_with(['D', 'S', 'R']) && w.as_bytes()[1].is_ascii_digit())
    };
    let (head, cells) = match line.split_once('[') {
        Some((head, rest)) => {
            let mut cells = Vec::new();
            for part in rest.split('[') {
                let Some((inside, after)) = part.split_once(']') else {
                    return Err(bad("a bracket is not closed".to_string()));
                };
                if !after.trim().is_empty() {
                    return Err(bad(format!(
                        "unexpected `{}` between brackets",
                        after.trim().escape_debug()
                    )));
                }
                cells.push(inside.split_whitespace().map(str::to_string).collect());
            }
            (head, cells)
        }
        None => match line.rsplit_once(char::is_whitespace) {
            Some((head, last)) => (head, vec![vec![last.to_string()]]),
            None => return Err(bad(format!("`{}` is not a decision", line.escape_debug()))),
        },
    };
    let words: Vec<&str> = head.split_whitespace().collect();
    let n = words.iter().take_while(|w| is_key(w)).count();
    let (keys, rest) = words.split_at(n);
    let (buffer, by_position) = match rest {
        [] => (None, false),
        ["by", "position"] => (None, true),
        [one] => (Some(one.to_string()), false),
        _ => return Err(bad(format!("`{}` is not a decision", head.trim().escape_debug()))),
    };
    if keys.is_empty() {
        return Err(bad(format!("`{}` is not a decision", head.trim().escape_debug()))
            .help("decisions are: parts, D1 to D4, S1 to S6, R1 to R4"));
    }
    Ok(Row { keys: keys.iter().map(|k| k.to_string()).collect(), buffer, by_position, cells })
}

fn rows(model: &Model, d: &Decisions) -> Vec<Row> {
    fn cells<T>(t: &Table<T>, show: &dyn Fn(&T) -> String) -> Vec<Vec<String>> {
        let one = |e: &Option<T>| e.as_ref().map_or("_".to_string(), show);
        t.iter().map(|r| r.iter().map(one).collect()).collect()
    }
    let row = |key: String, buffer: Option<&String>, cells: Vec<Vec<String>>| Row {
        keys: vec![key],
        buffer: buffer.cloned(),
        by_position: false,
        cells,
    };
    let region = |r: &usize| model.memories.get(*r).map_or("?".to_string(), |m| m.region().to_string());
    let layout = |l: &Vec<usize>| {
        let all: Vec<String> = l.iter().map(|k| (k + 1).to_string()).collect();
        format!("<{}>", all.join(","))
    };
    let asm = |a: &AsmLevel| format!("{}.{}", model.layer_name(a.layer), dim_name(a.dim));
    let mut out = vec![row("parts".into(), None, cells(&d.parts, &|p| p.to_string()))];
    for p in Phase::ALL {
        let (s, c) = (d.steps(p), p.letter());
        out.push(row(format!("{c}1"), None, cells(&s.order, &|r| (r + 1).to_string())));
        out.push(row(format!("{c}2"), None, cells(&s.assignment, &asm)));
    }
    for (keys, all) in [(["D3", "D4"], &d.reads), (["R3", "R4"], &d.writes)] {
        for p in all {
            out.push(row(keys[0].into(), Some(&p.buffer), cells(&p.region, &region)));
            out.push(row(keys[1].into(), Some(&p.buffer), cells(&p.layout, &layout)));
        }
    }
    for (keys, all) in [(["S3", "S4"], &d.operands), (["S5", "S6"], &d.results)] {
        for s in all {
            let one = |t: Option<String>| vec![vec![t.unwrap_or_else(|| "_".to_string())]];
            out.push(row(keys[0].into(), Some(&s.buffer), one(s.region.as_ref().map(region))));
            out.push(row(keys[1].into(), Some(&s.buffer), one(s.layout.as_ref().map(layout))));
        }
    }
    out
}

/// `x`, `y`, `z`, `4`, …
fn dim_name(dim: usize) -> String {
    match dim {
        0 => "x".to_string(),
        1 => "y".to_string(),
        2 => "z".to_string(),
        n => (n + 1).to_string(),
    }
}

fn set(h: &Homomorphism, model: &Model, d: &mut Decisions, row: &Row) -> Result<(), Diagnostic> {
    let (layers, dims) = (model.layers(), h.dims.len());
    for key in &row.keys {
        let phase = match key.as_bytes().first() {
            Some(b'D') => Phase::Down,
            Some(b'R') => Phase::Up,
            _ => Phase::Scalar,
        };
        let ranks = |t: &str| rank(t, layers, dims);
        match key.as_str() {
            "parts" => d.parts = table(row, layers, dims, &|t| number(t))?,
            "D1" | "S1" | "R1" if row.by_position => {
                let levels: Option<Vec<Level>> = row.cells.concat().iter().map(|t| level(t)).collect();
                let order = levels.and_then(|l| ranks_of(&l, layers, dims));
                d.steps_mut(phase).order = order.ok_or_else(|| {
                    bad(format!("{key}: given by position, every level must be named once"))
                })?;
            }
            "D1" | "S1" | "R1" => d.steps_mut(phase).order = table(row, layers, dims, &ranks)?,
            "D2" | "S2" | "R2" => {
                d.steps_mut(phase).assignment = table(row, layers, dims, &|t| assigned(model, t))?;
            }
            "D3" | "R3" => {
                let t = table(row, layers, dims, &|t| region(model, t))?;
                placement(d, phase, key, row)?.region = t;
            }
            "D4" | "R4" => {
                let t = table(row, layers, dims, &layout)?;
                placement(d, phase, key, row)?.layout = t;
            }
            "S3" | "S5" => {
                let t = table(row, 1, 1, &|t| region(model, t))?;
                spot(d, key, row)?.region = t[0][0];
            }
            "S4" | "S6" => {
                let mut t = table(row, 1, 1, &layout)?;
                spot(d, key, row)?.layout = t[0].remove(0);
            }
            _ => {
                return Err(bad(format!("there is no decision `{}`", key.escape_debug()))
                    .help("decisions are: parts, D1 to D4, S1 to S6, R1 to R4"));
            }
        }
    }
    Ok(())
}

fn table<T>(
    row: &Row,
    layers: usize,
    dims: usize,
    read: &dyn Fn(&str) -> Result<T, Diagnostic>,
) -> Result<Table<T>, Diagnostic> {
    let key = &row.keys[0];
    if row.by_position {
        return Err(bad(format!("{key} is not an order: it cannot be given by position")));
    }
    if row.cells.len() != layers || row.cells.iter().any(|r| r.len() != dims) {
        let have: Vec<String> = row.cells.iter().map(|r| r.len().to_string()).collect();
        return Err(other(format!(
            "{key} needs {layers} layers of {dims} entries; there are {} layers of {} entries",
            row.cells.len(),
            have.join(", ")
        )));
    }
    let cell = |t: &String| if t == "_" { Ok(None) } else { read(t).map(Some) };
    row.cells.iter().map(|r| r.iter().map(cell).collect()).collect()
}

fn placement<'a>(
    d: &'a mut Decisions,
    p: Phase,
    key: &str,
    row: &Row,
) -> Result<&'a mut Placement, Diagnostic> {
    let all = if p == Phase::Down { &mut d.reads } else { &mut d.writes };
    let names: Vec<String> = all.iter().map(|p| format!("`{}`", p.buffer)).collect();
    let name = row.buffer.as_deref().unwrap_or("");
    all.iter_mut().find(|p| p.buffer == name).ok_or_else(|| unknown_buffer(key, name, &names))
}

fn spot<'a>(d: &'a mut Decisions, key: &str, row: &Row) -> Result<&'a mut Spot, Diagnostic> {
    let all = if matches!(key, "S3" | "S4") { &mut d.operands } else { &mut d.results };
    let names: Vec<String> = all.iter().map(|p| format!("`{}`", p.buffer)).collect();
    let name = row.buffer.as_deref().unwrap_or("");
    all.iter_mut().find(|p| p.buffer == name).ok_or_else(|| unknown_buffer(key, name, &names))
}

fn unknown_buffer(key: &str, name: &str, known: &[String]) -> Diagnostic {
    other(format!("{key} names no buffer of the computation: `{}`", name.escape_debug()))
        .help(format!("write {key} and one of: {}", known.join(", ")))
}

fn number(t: &str) -> Result<u64, Diagnostic> {
    t.parse().map_err(|_| bad(format!("`{}` is not a number of parts", t.escape_debug())))
}

/// `(2,1)`
fn level(t: &str) -> Option<Level> {
    let (layer, dim) = t.strip_prefix('(')?.strip_suffix(')')?.split_once(',')?;
    let one = |t: &str| t.parse::<usize>().ok()?.checked_sub(1);
    Some(Level { layer: one(layer)?, dim: one(dim)? })
}

/// `7`, or `(3,1)` for the same with three dimensions.
fn rank(t: &str, layers: usize, dims: usize) -> Result<usize, Diagnostic> {
    let of_level = || level(t).filter(|l| l.layer < layers && l.dim < dims).map(|l| l.layer * dims + l.dim);
    let plain = || t.parse::<usize>().ok()?.checked_sub(1);
    plain().or_else(of_level).ok_or_else(|| bad(format!("`{}` is not a rank", t.escape_debug())))
}

/// `COR.x`
fn assigned(model: &Model, t: &str) -> Result<AsmLevel, Diagnostic> {
    let split = t.rsplit_once('.').and_then(|(layer, dim)| {
        let dim = match dim {
            "x" => 0,
            "y" => 1,
            "z" => 2,
            n => n.parse::<usize>().ok()?.checked_sub(1)?,
        };
        Some((layer, dim))
    });
    let Some((name, dim)) = split else {
        return Err(
            bad(format!("`{}` is not a level of a model", t.escape_debug())).help("write LAYER.DIMENSION")
        );
    };
    match model.layer(name) {
        Some(layer) => Ok(AsmLevel { layer, dim }),
        None => {
            let known: Vec<&str> = (0..model.layers()).map(|l| model.layer_name(l)).collect();
            Err(other(format!("`{}` has no layer `{}`", model.name, name.escape_debug()))
                .help(format!("its layers: {}", known.join(", "))))
        }
    }
}

fn region(model: &Model, t: &str) -> Result<usize, Diagnostic> {
    model.region(t).ok_or_else(|| {
        let known: Vec<&str> = model.memories.iter().map(|m| m.region()).collect();
        Diagnostic::error(codes::REGION, format!("`{}` has no region `{}`", model.name, t.escape_debug()))
            .help(format!("its regions: {}", known.join(", ")))
    })
}

/// `<2,1>`
fn layout(t: &str) -> Result<Vec<usize>, Diagnostic> {
    let inside = t.strip_prefix('<').and_then(|t| t.strip_suffix('>'));
    let read = |t: &str| {
        if t.is_empty() {
            return Some(Vec::new());
        }
        t.split(',').map(|n| n.parse::<usize>().ok()?.checked_sub(1)).collect()
    };
    inside.and_then(read).ok_or_else(|| {
        bad(format!("`{}` is not a layout", t.escape_debug())).help("write a permutation such as <2,1>")
    })
}
