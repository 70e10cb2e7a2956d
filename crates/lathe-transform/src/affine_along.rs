//! How accesses change along one dimension of an affine schedule: which of its dimensions are contiguous in memory, and along which
//! results stay the same.

use lathe_analysis::affine::Schedule;
use lathe_ir::visit;
use lathe_ir::{Access, Expr, Stmt, VarId};
use lathe_poly::Affine;
use std::collections::HashMap;

/// How the iterators of a unit change along a member of a band.
pub(crate) type Moves = HashMap<(usize, usize), Vec<i64>>;

/// How accesses change from one iteration of a member to the next.
#[derive(Default)]
pub(crate) struct Along {
    /// To the next element in memory.
    pub near: usize,
    /// Not at all.
    pub same: usize,
    /// Farther, or nobody knows.
    pub far: usize,
    /// What is written is another element each time.
    pub moves_results: bool,
    /// What one of the most frequent statements writes is the same element each time.
    pub reduces: bool,
}

impl Along {
    pub fn of(s: &Schedule, member: (usize, usize), units: &[usize], moves: &[Moves]) -> Along {
        let mut out = Along { moves_results: true, ..Along::default() };
        // What runs less often may be slow.
        let deepest = units.iter().map(|u| s.units[*u].iters.len()).max();
        for u in units {
            let unit = &s.units[*u];
            let often = Some(unit.iters.len()) == deepest;
            let Some(step) = moves[*u].get(&member) else {
                out.far += 1;
                continue;
            };
            let by: HashMap<VarId, i64> = unit.iters.iter().zip(step).map(|(b, k)| (b.id, *k)).collect();
            // A unit that this dimension does not move is run in one of its iterations.
            if step.iter().all(|k| *k == 0) {
                continue;
            }
            visit::walk(&unit.stmt, &mut |stmt: &Stmt, _| {
                for (a, mode) in stmt.accesses() {
                    let change = change(s, a, &by);
                    out.count(change, often);
                    let stays = change == Some(0) && mode.writes();
                    out.moves_results &= !stays;
                    out.reduces |= stays && often;
                }
                stmt.for_each_part(&mut |p| {
                    p.for_each_expr(&mut |e| {
                        for load in visit::loads_of(e) {
                            out.count(change(s, &load, &by), often);
                        }
                    });
                });
                true
            });
        }
        out
    }

    fn count(&mut self, change: Option<i64>, often: bool) {
        match change {
            _ if !often => {}
            Some(0) => self.same += 1,
            Some(1) => self.near += 1,
            _ => self.far += 1,
        }
    }
}

/// How far the element of an access moves, if only the subscript does that leads to the next one in memory; 0: not at all.
fn change(s: &Schedule, a: &Access, by: &HashMap<VarId, i64>) -> Option<i64> {
    let of = |e: &Expr| -> Option<i64> {
        if visit::vars_of(e).iter().all(|v| by.get(v).is_none_or(|k| *k == 0)) {
            return Some(0);
        }
        Affine::of(e).map(|f| f.terms.iter().map(|(v, k)| by.get(v).unwrap_or(&0) * k).sum())
    };
    let last = s.innermost(a);
    let others = a.indices.iter().enumerate().filter(|(n, _)| Some(*n) != last);
    if !others.map(|(_, e)| e).all(|e| of(e) == Some(0)) {
        return None;
    }
    last.and_then(|n| a.indices.get(n)).map_or(Some(0), of)
}
