//! What a search may spend, and what it prefers.

use super::graph::Head;
use lathe_space::{Expr, Value};
use lathe_strategy::StepArg;
use std::collections::BTreeMap;
use std::time::Duration;

/// The named arguments of `reach`.
pub struct Options {
    /// `seconds: 8`: for everything, also for saying what was not reached.
    pub time: Duration,
    /// `nodes: 200000`, and what `megabytes: 2048` has room for.
    pub nodes: usize,
    /// `rounds: 30`: how often all moves are tried.
    pub rounds: usize,
    /// `after: 0`: so many rounds more once the sketch is met, for a cheaper term.
    pub after: usize,
    /// `depth: 3`: how long the chains of nodes are that a move may look at.
    pub depth: usize,
    /// `cost: weights(transpose(5), …)`: by primitive; all others cost 1.
    weights: BTreeMap<String, u64>,
}

/// What a node and all that is kept of it takes, as measured, rounded up.
const NODE_BYTES: usize = 32768;

impl Options {
    pub fn read(args: &[StepArg]) -> Result<Options, String> {
        let mut o = Options {
            time: Duration::from_secs(8),
            nodes: 200_000,
            rounds: 30,
            after: 0,
            depth: 3,
            weights: BTreeMap::new(),
        };
        let mut room = (2048 << 20) / NODE_BYTES;
        for a in args {
            let Some(name) = a.name.as_deref() else { continue };
            let number = || match &a.value {
                Expr::Value(Value::Int(v)) if *v >= 1 => Ok(*v as usize),
                v => Err(format!("`{name}` takes a positive number, not `{v}`")),
            };
            match name {
                "seconds" => o.time = Duration::from_secs(number()?.min(1 << 20) as u64),
                "nodes" => o.nodes = number()?,
                "megabytes" => room = (number()?.min(1 << 20) << 20) / NODE_BYTES,
                "rounds" => o.rounds = number()?,
                "after" => o.after = number()?,
                "depth" => o.depth = number()?.min(6),
                "cost" => o.weights = weights(&a.value)?,
                _ => {
                    let known = "`cost`, `seconds`, `megabytes`, `nodes`, `rounds`, `after` and `depth`";
                    return Err(format!("there is no `{name}`; known: {known}"));
                }
            }
        }
        o.nodes = o.nodes.min(room.max(1));
        Ok(o)
    }

    /// The cost of a node.
    pub fn weight(&self, h: &Head) -> u64 {
        match h {
            Head::Leaf(t) => {
                t.as_prim().and_then(|p| self.weights.get(p.name())).copied().unwrap_or(1).max(1)
            }
            Head::Lam(..) | Head::Apply => 1,
        }
    }
}

fn weights(e: &Expr) -> Result<BTreeMap<String, u64>, String> {
    let wrong = || format!("a cost is `weights(transpose(5), map(2))` or `size`, not `{e}`");
    match e {
        Expr::Name(n) if n == "size" => Ok(BTreeMap::new()),
        Expr::Call(n, all) if n == "weights" => all
            .iter()
            .map(|w| match w {
                Expr::Call(p, v) => match v.as_slice() {
                    [Expr::Value(Value::Int(v))] if (1..=1_000_000).contains(v) => Ok((p.clone(), *v as u64)),
                    _ => Err(wrong()),
                },
                _ => Err(wrong()),
            })
            .collect(),
        _ => Err(wrong()),
    }
}
