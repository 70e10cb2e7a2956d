//! Starting points: winners of the same program and strategy for other sizes, devices or threads.

use super::{Key, Store, Winner};
use lathe_diagnostics::Diagnostic;
use lathe_space::Value;
use rusqlite::params;

/// A winner that was found for something else.
#[derive(Clone, Debug, PartialEq)]
pub struct Near {
    pub key: Key,
    pub winner: Winner,
    /// In which parts of the key it differs.
    pub differs: Vec<&'static str>,
}

impl Store {
    /// Winners of the same program and strategy whose key differs elsewhere, the nearest first: fewer
    /// different parts, then nearer sizes. They are where a search may begin, never its result.
    ///
    /// # Errors
    /// What the store refuses, or a damaged row.
    pub fn near(&self, key: &Key) -> Result<Vec<Near>, Diagnostic> {
        let own = key.digest();
        let which = "WHERE program = ?1 AND strategy = ?2 AND digest <> ?3 ORDER BY id";
        let mut out = Vec::new();
        for (id, other) in self.keys(which, params![key.program_hash, key.strategy_hash, own])? {
            if let Some(winner) = self.winner_of(id)? {
                let differs = other.differences(key);
                out.push(Near { key: other, winner, differs });
            }
        }
        let rank = |n: &Near| (n.differs.len(), distance(key, &n.key));
        out.sort_by(|a, b| {
            let (x, y) = (rank(a), rank(b));
            x.0.cmp(&y.0).then(x.1.total_cmp(&y.1))
        });
        Ok(out)
    }
}

/// How far apart sizes are: the sum of the logarithms of their ratios.
fn distance(a: &Key, b: &Key) -> f64 {
    let number = |v: &Value| match v {
        Value::Int(v) => Some(*v as f64),
        Value::Float(v) => Some(*v),
        Value::Bool(_) | Value::Str(_) => None,
    };
    let apart = |(name, x): (&String, &Value)| match (number(x), b.sizes.get(name).and_then(number)) {
        (Some(x), Some(y)) => ((x.abs() + 1.0) / (y.abs() + 1.0)).ln().abs(),
        _ if b.sizes.get(name) == Some(x) => 0.0,
        _ => 10.0,
    };
    a.sizes.iter().map(apart).sum()
}
