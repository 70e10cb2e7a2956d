//! Tables that no technique was developed with. They are for judging, not for choosing: whoever changes a technique
//! because of them has to write others.

use crate::tables::{Table, ints, powers, scatter, synthetic, words};
use lathe_space::{Configuration, TuningParameter, Value};
use std::error::Error;

fn word(c: &Configuration, name: &str) -> String {
    match c.get(name) {
        Some(Value::Str(s)) => s.clone(),
        _ => String::new(),
    }
}

/// Dedispersion of a telescope's signal: many channels are shifted and added. Blocks of threads, tiles per thread, in
/// which order a thread walks its tile, and how the sum over channels is unrolled.
fn dedispersion(at: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let (bx, by, tx, ty) = (at("block_x"), at("block_y"), at("tile_x"), at("tile_y"));
    let (strided_x, strided_y, unroll) = (at("stride_x") > 0.0, at("stride_y") > 0.0, at("unroll").max(1.0));
    let threads = bx * by;
    let registers = 20.0 + 3.0 * tx * ty + unroll.min(16.0) * tx;
    if threads * registers > 65536.0 || registers > 255.0 {
        return None;
    }
    let occupancy =
        (65536.0 / (threads * registers)).floor().min((2048.0 / threads).floor()) * threads / 2048.0;
    // Neighbouring threads read neighbouring samples only if tiles are strided.
    let coalesced = if strided_x || tx == 1.0 { 1.0 } else { 1.0 + 0.45 * (tx - 1.0).min(7.0) };
    let lanes = 32.0 / bx.min(32.0);
    // A tile over measures reuses samples; more so if its rows are next to each other.
    let reuse = 1.0 / (1.0 + 0.35 * (ty * by).ln() + if strided_y { 0.0 } else { 0.15 * ty.ln() });
    let memory = coalesced * lanes * (0.35 + reuse);
    let overhead = 0.6 / unroll + if 1536.0 % unroll == 0.0 { 0.0 } else { 0.2 } + 0.004 * unroll * tx;
    let compute = 0.4 + overhead / (tx * ty).sqrt();
    let hidden = (0.2 + 0.8 * occupancy.min(0.6) / 0.6) * (1.0 + 0.1 * (tx * ty).ln()).min(1.3);
    Some((memory.max(compute) + 0.3 * memory.min(compute)) / hidden * scatter(c, 0.03))
}

/// A layer of a network on a processor: the order of three loops, tiles, what is packed, vectors, threads.
fn layer(at: &dyn Fn(&str) -> f64, c: &Configuration) -> Option<f64> {
    let (tk, tc, tw) = (at("tile_k"), at("tile_c"), at("tile_w"));
    let (vector, unroll, threads) = (at("vector"), at("unroll"), at("threads"));
    let order = word(c, "order");
    let pack = word(c, "pack");
    let accumulators = unroll * tw.min(14.0) * (tk / vector).min(4.0);
    let spills = if accumulators > 30.0 { 1.0 + (accumulators - 30.0) / 40.0 } else { 1.0 };
    let chain = if accumulators < 10.0 { 10.0 / accumulators.max(1.0) } else { 1.0 };
    let mut cost = spills
        * chain.sqrt()
        * if vector == 16.0 {
            0.62
        } else if vector == 8.0 {
            1.0
        } else {
            1.8
        };
    let bytes = 4.0 * (tk * tc * 9.0 + tc * (tw + 2.0) * 3.0);
    cost *= if bytes < 32e3 {
        1.0
    } else if bytes < 512e3 {
        1.12
    } else {
        1.6
    };
    // Which operand stays while the innermost loop runs.
    cost *= match (order.as_str(), pack.as_str()) {
        ("kcw", "weights") => 1.0,
        ("kcw", "both") | ("ckw", "both") => 1.04,
        ("ckw", "weights") => 1.1,
        ("wkc", "input") => 1.08,
        (_, "none") => 1.45,
        _ => 1.22,
    };
    if pack == "both" {
        cost *= 1.0 + 8.0 / tc;
    }
    let tiles = (256.0 / tk).ceil() * (56.0 / tw).ceil() * if order == "kcw" { 1.0 } else { 2.0 };
    let balance = (tiles / threads).ceil() * threads / tiles;
    let speed = if threads > 8.0 { 8.0 + 0.25 * (threads - 8.0) } else { threads };
    Some(cost * balance / speed * (1.0 + 0.02 * threads) * scatter(c, 0.02))
}

pub fn all() -> Result<Vec<Table>, Box<dyn Error>> {
    Ok(vec![
        synthetic(
            "dedispersion",
            vec![
                ints("block_x", &[1, 2, 4, 8, 16, 32, 48, 64, 96, 128, 256]),
                ints("block_y", &[1, 2, 4, 8, 16, 32, 64]),
                ints("tile_x", &[1, 2, 3, 4, 6, 8]),
                ints("tile_y", &[1, 2, 3, 4, 5, 6, 7, 8]),
                ints("stride_x", &[0, 1]),
                ints("stride_y", &[0, 1]),
                ints("unroll", &[0, 1, 2, 3, 4, 8, 16]),
            ],
            &[
                "block_x * block_y >= 32",
                "block_x * block_y <= 1024",
                "stride_x == 0 or tile_x > 1",
                "stride_y == 0 or tile_y > 1",
            ],
            dedispersion,
        )?,
        synthetic(
            "layer",
            vec![
                powers("tile_k", 3, 8),
                powers("tile_c", 2, 7),
                TuningParameter::int("tile_w", 1, 56),
                ints("vector", &[4, 8, 16]),
                ints("unroll", &[1, 2, 4]),
                ints("threads", &[4, 8, 16]),
                words("order", &["kcw", "ckw", "wkc", "cwk"]),
                words("pack", &["none", "weights", "input", "both"]),
            ],
            &["tile_k % vector == 0", "56 % tile_w == 0", "unroll * tile_w <= 56"],
            layer,
        )?,
    ])
}
