//! Tables of costs: synthetic ones, computed, and recorded ones, read.

use flate2::read::GzDecoder;
use lathe_space::{Configuration, Constraint, Generate, Space, SpaceDef, TuningParameter, Value, parse};
use lathe_tune::RecordedTable;
use lathe_tune::t4::Results;
use num_bigint::BigUint;
use num_traits::ToPrimitive;
use std::error::Error;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

/// Every configuration of a space with its cost; infinite where it is invalid.
pub struct Table {
    pub name: String,
    pub space: Arc<Space>,
    pub conditions: Vec<String>,
    pub costs: Vec<f64>,
}

impl Table {
    pub fn optimum(&self) -> f64 {
        self.costs.iter().copied().fold(f64::INFINITY, f64::min)
    }

    pub fn cost(&self, index: &BigUint) -> f64 {
        index.to_usize().map_or(f64::INFINITY, |i| self.costs[i])
    }
}

type Model = fn(&dyn Fn(&str) -> f64, &Configuration) -> Option<f64>;

pub fn ints(name: &str, values: &[i64]) -> TuningParameter {
    TuningParameter::ints(name, values.iter().copied())
}

pub fn powers(name: &str, from: u32, to: u32) -> TuningParameter {
    TuningParameter::ints(name, (from..=to).map(|i| 1i64 << i))
}

pub fn words(name: &str, values: &[&str]) -> TuningParameter {
    TuningParameter::strings(name, values.iter().copied())
}

/// Each condition constrains the last parameter that it names.
fn space(params: Vec<TuningParameter>, conditions: &[&str]) -> Result<Space, Box<dyn Error>> {
    let mut def = SpaceDef::new();
    def.params = params;
    for text in conditions {
        let e = parse(text).map_err(|e| format!("{text}: {}", e.message))?;
        let named = lathe_space::names(&e);
        let last = def.params.iter().rposition(|p| named.contains(&p.name)).ok_or("no parameter is named")?;
        let p = def.params.remove(last);
        def.params.insert(last, p.such_that(Constraint::Expr(e)));
    }
    Space::generate(&def, &Generate::default()).map_err(|d| d.to_string().into())
}

/// A number in 0..1 that depends on nothing but the text.
fn chance(text: &str) -> f64 {
    let mut h = 0xcbf2_9ce4_8422_2325u64;
    for b in text.bytes() {
        h = (h ^ u64::from(b)).wrapping_mul(0x0100_0000_01b3);
    }
    h ^= h >> 29;
    h = h.wrapping_mul(0xbf58_476d_1ce4_e5b9);
    h ^= h >> 32;
    (h >> 11) as f64 / (1u64 << 53) as f64
}

/// Measured times scatter by a few percent, always the same for one configuration.
pub fn scatter(c: &Configuration, part: f64) -> f64 {
    let u = chance(&c.to_string()) + chance(&format!("{c}!")) - 1.0;
    1.0 + part * u
}

pub fn synthetic(
    name: &str,
    params: Vec<TuningParameter>,
    conditions: &[&str],
    model: Model,
) -> Result<Table, Box<dyn Error>> {
    let space = space(params, conditions)?;
    let costs = space.iter().map(|c| {
        let at = |name: &str| match c.get(name) {
            Some(Value::Int(v)) => *v as f64,
            Some(Value::Float(v)) => *v,
            Some(Value::Bool(v)) => f64::from(u8::from(*v)),
            _ => f64::NAN,
        };
        model(&at, &c).unwrap_or(f64::INFINITY)
    });
    Ok(Table {
        name: name.to_string(),
        costs: costs.collect(),
        conditions: conditions.iter().map(|c| c.to_string()).collect(),
        space: Arc::new(space),
    })
}

/// A matrix product on a GPU: work groups, register tiles, vectors, local memory.
fn gemm(at: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let (mwg, nwg, kwg) = (at("MWG"), at("NWG"), at("KWG"));
    let (mdim, ndim) = (at("MDIMC"), at("NDIMC"));
    let (vm, vn, sa, sb) = (at("VWM"), at("VWN"), at("SA"), at("SB"));
    let registers = (mwg / mdim) * (nwg / ndim) + 12.0;
    let local = 4.0 * kwg * (sa * mwg + sb * nwg);
    if local > 16384.0 || registers > 160.0 {
        return None;
    }
    let threads = mdim * ndim;
    let groups = (2048.0 / (threads * (registers / 32.0).max(1.0))).min(49152.0 / local.max(1024.0)).floor();
    let occupancy = (groups * threads / 2048.0).clamp(0.02, 1.0);
    let traffic =
        (1.0 / mwg) * (if sb > 0.0 { 1.0 } else { 1.7 }) + (1.0 / nwg) * (if sa > 0.0 { 1.0 } else { 1.7 });
    let load = 1.0 + 0.25 * (4.0 / vm - 1.0).abs() + 0.15 * (2.0 / vn - 1.0).abs();
    let memory = 60.0 * traffic * load;
    let compute = (1.0 + 10.0 / (registers - 10.0)) / (0.3 + 0.7 * occupancy.powf(0.4));
    let sync = (sa + sb) * 8.0 / kwg;
    Some((compute.max(memory) + 0.3 * compute.min(memory) + sync) * scatter(c, 0.02))
}

/// A stencil on a CPU: tiles, time steps per tile, vectors, threads, schedules.
fn stencil(at: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let (tx, ty, steps) = (at("tile_x"), at("tile_y"), at("time_steps"));
    let (vector, unroll, threads) = (at("vector"), at("unroll"), at("threads"));
    let bytes = 8.0 * (tx + 2.0 * steps) * (ty + 2.0 * steps);
    let level = if bytes < 32e3 {
        1.0
    } else if bytes < 1e6 {
        1.6
    } else {
        3.5
    };
    let redundant = (1.0 + 2.0 * steps / tx) * (1.0 + 2.0 * steps / ty);
    let memory = 4.0 / steps;
    let lanes = vector.min(8.0) * if vector > 8.0 { 0.8 } else { 1.0 };
    let compute =
        redundant * level * (1.0 / lanes + 0.3 / unroll + if unroll * vector > 32.0 { 0.2 } else { 0.0 });
    let tiles = 4096.0 * 4096.0 / (tx * ty);
    let dynamic = matches!(c.get("schedule"), Some(Value::Str(s)) if s == "dynamic");
    let guided = matches!(c.get("schedule"), Some(Value::Str(s)) if s == "guided");
    let balance = if dynamic {
        1.0 + 2e-4 * tiles / threads
    } else if guided {
        1.05
    } else {
        1.12
    };
    let scale =
        threads / (1.0 + 0.06 * threads) / if threads > 8.0 { 1.0 + 0.05 * (threads - 8.0) } else { 1.0 };
    Some((compute.max(memory / (1.0 + threads / 6.0) * threads) / scale * balance + 0.02) * scatter(c, 0.03))
}

/// A nest of tiles whose sizes divide each other.
fn divisors(at: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let (i1, i2, j1, j2, k1) = (at("i1"), at("i2"), at("j1"), at("j2"), at("k1"));
    let inner = i2 * j2;
    let registers = inner / 8.0 + i2 + j2 / 8.0;
    let spill = if registers > 28.0 { 1.0 + 0.08 * (registers - 28.0) } else { 1.0 };
    let lanes = if j2 % 8.0 == 0.0 {
        1.0
    } else if j2 % 4.0 == 0.0 {
        1.7
    } else {
        4.0
    };
    let work = lanes * spill * (1.0 + 3.0 / inner.sqrt());
    let bytes = 4.0 * (i1 * k1 + k1 * j1);
    let cache = if bytes < 24e3 {
        1.0
    } else if bytes < 400e3 {
        1.15
    } else {
        1.9
    };
    let reload = 1.0 + 6.0 / k1 + 20.0 / (i1 * j1).sqrt();
    Some(work * cache * reload * scatter(c, 0.04))
}

/// Flags of a compiler: most do little, some need each other, some break the program.
fn flags(at: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let level = match c.get("level") {
        Some(Value::Str(s)) if s == "O1" => 1.35,
        Some(Value::Str(s)) if s == "O2" => 1.1,
        Some(Value::Str(s)) if s == "O3" => 1.05,
        _ => 1.2,
    };
    if at("fast_math") > 0.0 && at("strict_alias") > 0.0 && at("inline") == 0.0 {
        return None;
    }
    let mut cost = level;
    for (i, name) in FLAGS.iter().enumerate() {
        cost *= 1.0 + at(name) * 0.12 * (chance(&format!("one{i}")) - 0.55);
        for (j, other) in FLAGS.iter().enumerate().take(i) {
            if chance(&format!("pair{i}.{j}")) < 0.25 {
                cost *= 1.0 + at(name) * at(other) * 0.16 * (chance(&format!("two{i}.{j}")) - 0.5);
            }
        }
    }
    Some(cost * scatter(c, 0.01))
}

const FLAGS: [&str; 10] = [
    "inline",
    "unroll",
    "vectorize",
    "fast_math",
    "strict_alias",
    "prefetch",
    "peel",
    "fuse",
    "hoist",
    "gcse",
];

/// A rugged landscape: every parameter's share depends on two others, without any order.
fn rugged(_: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let v = c.values();
    let n = v.len();
    let share = |i: usize| chance(&format!("{i}:{}/{}/{}", v[i], v[(i + 1) % n], v[(i + 3) % n]));
    let sum: f64 = (0..n).map(share).sum();
    Some(0.2 + (sum / n as f64).powi(2) * 5.0)
}

/// A kernel with blocks of threads that must fit the device; many configurations fail at run time.
fn hotspot(at: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let (bx, by) = (at("block_x"), at("block_y"));
    let (tx, ty, t) = (at("tile_x"), at("tile_y"), at("steps"));
    let (pad, blocks) = (at("pad"), at("blocks_per_sm"));
    let threads = bx * by;
    let registers = 18.0 + 5.0 * tx * ty + 2.0 * t;
    let limit = if blocks > 0.0 { (65536.0 / (blocks * threads)).min(255.0) } else { 255.0 };
    if threads * registers.min(limit) > 65536.0 {
        return None;
    }
    let width = bx * tx + 2.0 * t;
    let height = by * ty + 2.0 * t;
    let local = 8.0 * width * height * (1.0 + pad / 32.0);
    if local > 48.0 * 1024.0 {
        return None;
    }
    let useful = (width - 2.0 * t) * (height - 2.0 * t) / (width * height);
    let spill = if registers > limit { 1.0 + (registers - limit) / 20.0 } else { 1.0 };
    let resident =
        (2048.0 / threads).min(98304.0 / local).min(65536.0 / (threads * registers.min(limit))).floor();
    let occupancy = (resident.max(1.0) * threads / 2048.0).min(1.0);
    let conflicts = if bx % 32.0 == 0.0 || pad > 0.0 { 1.0 } else { 1.2 };
    let warps = (threads / 32.0).ceil() * 32.0 / threads;
    let memory = 3.0 / t * warps;
    let compute = spill * conflicts * warps / (0.25 + 0.75 * occupancy.sqrt());
    Some((memory + compute) / useful * scatter(c, 0.02))
}

/// A reduction with floating-point and word parameters.
fn reduction(at: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let (threads, items, ratio) = (at("threads"), at("items"), at("ratio"));
    let word = |name: &str, w: &str| matches!(c.get(name), Some(Value::Str(s)) if s == w);
    let blocks = 1e7 / (threads * items);
    let waves = (blocks / 432.0).ceil() / (blocks / 432.0);
    let load = if word("load", "vector4") {
        1.0
    } else if word("load", "vector2") {
        1.15
    } else {
        1.4
    };
    let combine = if word("combine", "shuffle") {
        1.0
    } else if word("combine", "tree") {
        1.3 + threads / 4096.0
    } else {
        0.8 + 0.002 * threads
    };
    let cached = 1.0 + 1.5 * (ratio - 0.62).powi(2) * if at("cache") > 0.0 { 2.0 } else { 0.7 };
    let second = if word("finish", "atomic") { 0.15 * blocks / 4000.0 } else { 0.25 };
    let few = 1.0 + 6.0 / items;
    Some((load * few * waves * cached + 0.2 * combine + second) * scatter(c, 0.02))
}

/// All synthetic tables.
pub fn all_synthetic() -> Result<Vec<Table>, Box<dyn Error>> {
    let mut flag_params = vec![words("level", &["O1", "O2", "O3", "Os"])];
    flag_params.extend(FLAGS.iter().map(|f| ints(f, &[0, 1])));
    Ok(vec![
        synthetic(
            "gemm",
            vec![
                powers("MWG", 4, 7),
                powers("NWG", 4, 7),
                ints("KWG", &[16, 32]),
                powers("MDIMC", 3, 5),
                powers("NDIMC", 3, 5),
                powers("VWM", 0, 3),
                powers("VWN", 0, 3),
                ints("SA", &[0, 1]),
                ints("SB", &[0, 1]),
            ],
            &["MWG % (MDIMC * VWM) == 0", "NWG % (NDIMC * VWN) == 0", "MDIMC * NDIMC <= 512"],
            gemm,
        )?,
        synthetic(
            "stencil",
            vec![
                powers("tile_x", 4, 9),
                powers("tile_y", 1, 6),
                ints("time_steps", &[1, 2, 3, 4]),
                ints("vector", &[1, 4, 8, 16]),
                ints("unroll", &[1, 2, 4]),
                ints("threads", &[2, 4, 8, 12, 16]),
                words("schedule", &["static", "dynamic", "guided"]),
            ],
            &[
                "tile_x % vector == 0",
                "2 * time_steps <= tile_y",
                "unroll * vector <= tile_x",
                "tile_x * tile_y >= 256",
            ],
            stencil,
        )?,
        synthetic(
            "divisors",
            vec![
                TuningParameter::int("i1", 1, 240),
                TuningParameter::int("i2", 1, 24),
                TuningParameter::int("j1", 1, 384),
                TuningParameter::int("j2", 1, 64),
                TuningParameter::int("k1", 1, 512),
            ],
            &[
                "240 % i1 == 0",
                "i1 % i2 == 0",
                "i1 >= 8",
                "384 % j1 == 0",
                "j1 >= 32",
                "j1 % j2 == 0",
                "512 % k1 == 0",
                "k1 >= 32",
                "i1 * j1 >= 64",
            ],
            divisors,
        )?,
        synthetic("flags", flag_params, &["fuse == 0 or hoist == 1"], flags)?,
        synthetic(
            "rugged",
            vec![
                ints("a", &[1, 2, 3, 4]),
                ints("b", &[1, 2, 3, 4, 5]),
                ints("c", &[1, 2, 3]),
                ints("d", &[1, 2, 3, 4]),
                ints("e", &[0, 1]),
                ints("f", &[1, 2, 3, 4]),
                ints("g", &[1, 2, 3]),
            ],
            &["a + b <= 7", "c * d != 6", "e == 0 or f > 1"],
            rugged,
        )?,
        synthetic(
            "hotspot",
            vec![
                ints("block_x", &[8, 16, 24, 32, 48, 64, 96, 128, 256]),
                ints("block_y", &[1, 2, 4, 8, 16, 32]),
                ints("tile_x", &[1, 2, 3, 4, 5]),
                ints("tile_y", &[1, 2, 3, 4]),
                ints("steps", &[1, 2, 3, 4, 6]),
                ints("pad", &[0, 1]),
                ints("blocks_per_sm", &[0, 1, 2, 4]),
            ],
            &["block_x * block_y >= 64", "block_x * block_y <= 1024", "tile_x * tile_y <= 12"],
            hotspot,
        )?,
        synthetic(
            "reduction",
            vec![
                ints("threads", &[32, 64, 96, 128, 192, 256, 384, 512, 768, 1024]),
                ints("items", &[1, 2, 4, 6, 8, 12, 16, 24, 32]),
                TuningParameter::floats("ratio", [0.1, 0.3, 0.5, 0.7, 0.9]),
                words("load", &["scalar", "vector2", "vector4"]),
                words("combine", &["shuffle", "tree", "atomic"]),
                words("finish", &["second", "atomic"]),
                ints("cache", &[0, 1]),
            ],
            &["threads * items <= 8192", "items >= 2 or cache == 0"],
            reduction,
        )?,
    ])
}

/// The convolution of the benchmark hub, recorded on the GPU of a T4 file.
pub fn recorded(path: &Path) -> Result<Table, Box<dyn Error>> {
    let bytes = std::fs::read(path)?;
    let mut text = Vec::new();
    if path.extension().is_some_and(|e| e == "gz") {
        GzDecoder::new(bytes.as_slice()).read_to_end(&mut text)?;
    } else {
        text = bytes;
    }
    let began = std::time::Instant::now();
    let results = Results::read(&text).map_err(|d| d.to_string())?;
    let ms = 1e3 * began.elapsed().as_secs_f64();
    println!("{}: {} results read in {ms:.1} ms", path.display(), results.results.len());
    let conditions = [
        "use_padding == 0 or block_size_x % 32 != 0",
        "block_size_x * block_size_y <= 1024",
        "use_padding == 0 or use_shmem != 0",
        "use_shmem == 0 or (block_size_x * tile_size_x + (filter_width - 1)) * (block_size_y * tile_size_y + (filter_height - 1)) < 12 * 1024",
    ];
    let space = Arc::new(space(
        vec![
            ints("block_size_x", &(1..=16).map(|i| 16 * i).collect::<Vec<_>>()),
            ints("block_size_y", &[1, 2, 4, 8, 16]),
            ints("tile_size_x", &[1, 2, 3, 4]),
            ints("tile_size_y", &[1, 2, 3, 4]),
            ints("read_only", &[0, 1]),
            ints("use_padding", &[0, 1]),
            ints("use_shmem", &[0, 1]),
            ints("use_cmem", &[1]),
            ints("filter_height", &[15]),
            ints("filter_width", &[15]),
        ],
        &conditions,
    )?);
    let table = RecordedTable::new(space.clone(), &results).map_err(|d| d.to_string())?;
    let cost = |c: Configuration| table.measure(&c).outcome.cost().map_or(f64::INFINITY, |c| c.first());
    let stem = path.file_name().map_or(String::new(), |n| n.to_string_lossy().to_string());
    Ok(Table {
        name: stem.replace("_T4.json", "").replace(".gz", "").replace("convolution_", "conv-"),
        conditions: conditions.iter().map(|c| c.to_string()).collect(),
        costs: space.iter().map(cost).collect(),
        space,
    })
}
