//! The nests that compute a local array, and whether they may be moved to where it is read.

use super::make::{self, refuse};
use super::scope::{self, Found};
use crate::codes;
use crate::rule::Cursor;
use crate::work::Work;
use lathe_analysis::{Memory, Place};
use lathe_diagnostics::Places;
use lathe_ir::stmt::{Effects, Enters};
use lathe_ir::visit::{self, Path};
use lathe_ir::{BufId, Buffer, Stmt};
use lathe_strategy::Refusal;
use lathe_strategy::evidence::Kind;
use std::collections::{BTreeSet, HashMap, HashSet};
use std::sync::Arc;

/// The statements that compute an array: children of one sequence, before everything that reads it.
pub struct Producer {
    /// Path of the array's allocation.
    pub alloc: Path,
    /// Path of the sequence, from the body.
    pub seq: Path,
    /// Their positions in the sequence.
    positions: BTreeSet<usize>,
    pub nests: Vec<Stmt>,
    pub places: Places,
}

impl Producer {
    /// Finds the nests of a local array and checks that they may be moved: into the loop `at`, which then must
    /// hold all that reads the array, or to every read.
    pub fn of(
        rule: &'static str,
        cursor: &Cursor,
        buffer: &Arc<Buffer>,
        at: Option<&Path>,
    ) -> Result<Producer, Refusal> {
        let name = &buffer.name;
        let fail = |message: String, help: &str, places: &Places| {
            refuse(rule, codes::SHAPE, format!("`{rule}`: {message}"), help, places)
        };
        let Some((alloc, _)) = make::find_alloc(cursor.func, buffer.id) else {
            return Err(fail(
                format!("`{name}` is an array of the caller, who wants all of it"),
                "only local arrays (`var`, or made by a step) can be computed elsewhere",
                &Places::none(),
            ));
        };
        let Some(root) = cursor.at(&alloc) else {
            return Err(fail(format!("`{name}` is not allocated any more"), "", &Places::none()));
        };
        let all = scope::accesses(root, &HashMap::new());
        let mine: Vec<&Found> = all.iter().filter(|f| f.buffer() == Some(buffer.id)).collect();
        let places =
            mine.iter().filter(|f| f.writes()).fold(Places::none(), |p, f| p.union(&f.access.places));
        if let Some(f) = mine.iter().find(|f| f.opaque) {
            return Err(fail(
                format!("`{name}` is used through a call, a view, or before it was opened into loops"),
                "`open` comes first",
                &f.access.places,
            ));
        }
        if all.iter().any(|f| f.buffer().is_none()) {
            return Err(fail("a pointer is followed near the array".into(), "", &places));
        }
        let at = at.map(|p| p.strip_prefix(alloc.as_slice()).unwrap_or(&[]).to_vec());
        if at.as_ref().is_some_and(|p| p.is_empty()) {
            return Err(fail(format!("`{name}` does not live around the loop"), "", &places));
        }
        // Reads of the nests' own results (a reduction's target) do not count as uses.
        let writers: Vec<&Path> = mine.iter().filter(|f| f.writes()).map(|f| &f.path).collect();
        let inside = |f: &Found| at.as_ref().is_some_and(|p| f.path.starts_with(p));
        let uses: Vec<&&Found> = mine
            .iter()
            .filter(|f| f.usage == scope::Use::Read)
            .filter(|f| at.is_none() || inside(f) || !writers.contains(&&f.path))
            .collect();
        let Some(first_use) = uses.first() else {
            return Err(fail(format!("nothing reads `{name}`"), "", &places));
        };
        if let Some(f) = uses.iter().find(|f| at.is_some() && !inside(f)) {
            return Err(fail(
                format!("`{name}` is also read outside of the loop"),
                "choose a loop around everything that reads it, or `inline` it",
                &f.access.places,
            ));
        }
        let goal = at.as_ref().unwrap_or(&first_use.path);
        let Some(first_write) = writers.first() else {
            return Err(fail(format!("nothing computes `{name}`"), "", &places));
        };
        let n = goal.iter().zip(first_write.iter()).take_while(|(a, b)| a == b).count();
        let seq_at = &goal[..n];
        let is_seq = visit::at(root, seq_at).is_some_and(|s| s.as_seq().is_some());
        let apart = |p: &Path| p.starts_with(seq_at) && p.get(n) < goal.get(n);
        if !is_seq || !writers.iter().all(|p| apart(p)) {
            return Err(fail(
                format!(
                    "the statements that compute `{name}` do not all stand before the loop, in one sequence with it"
                ),
                "`fission` separates what computes it from what reads it",
                &places,
            ));
        }
        let positions: BTreeSet<usize> = writers.iter().filter_map(|p| p.get(n).copied()).collect();
        let last = positions.iter().next_back().copied().unwrap_or(0);
        if let Some(f) =
            uses.iter().find(|f| !f.path.starts_with(seq_at) || f.path.get(n).is_none_or(|p| *p <= last))
        {
            return Err(fail(
                format!("`{name}` is read before it is complete"),
                "`fission` separates what computes it from what reads it",
                &f.access.places,
            ));
        }
        let repeated = (0..n).any(|k| {
            visit::at(root, &seq_at[..k])
                .is_some_and(|s| matches!(s.enters(seq_at[k]), Enters::Loop(_) | Enters::While(_)))
        });
        if repeated {
            return Err(fail(
                format!(
                    "a loop runs between the allocation of `{name}` and its use, and may keep old values"
                ),
                "declare the array inside of that loop",
                &places,
            ));
        }
        let Some(seq) = visit::at(root, seq_at) else {
            return Err(fail("the sequence is gone".into(), "", &places));
        };
        let nests: Vec<Stmt> = positions.iter().filter_map(|p| seq.child(*p).cloned()).collect();
        for s in &nests {
            pure(s, buffer.id)
                .map_err(|why| fail(format!("what computes `{name}` {why}"), "", s.places()))?;
        }
        // What the nests read must not change between their old and their new place.
        let memory = Memory::of(cursor.func);
        let mut read: HashSet<Place> = nests.iter().flat_map(|s| memory.touched(s).reads.clone()).collect();
        read.remove(&Place::Buffer(buffer.id));
        nests.iter().flat_map(visit::local_buffers).for_each(|b| {
            read.remove(&Place::Buffer(b));
        });
        let (from, until) = (positions.first(), uses.iter().filter_map(|f| f.path.get(n)).max());
        let between = seq.children().enumerate().filter(|(p, _)| {
            from.is_some_and(|from| p >= from)
                && until.is_some_and(|until| p <= until)
                && !positions.contains(p)
        });
        if let Some(s) = memory.changing(&read, between.map(|(_, s)| s)) {
            return Err(refuse(
                rule,
                codes::ORDER,
                format!(
                    "`{rule}`: what computes `{name}` reads an array that is written before it would be computed"
                ),
                "compute it from a copy, or leave it where it is",
                s.places(),
            ));
        }
        let seq = alloc.iter().chain(seq_at).copied().collect();
        Ok(Producer { alloc, seq, positions, nests, places })
    }

    /// Takes the nests and the allocation out of a function in which only later statements were changed.
    pub fn remove(&self, work: &mut Work, kind: Kind) -> Result<(), Refusal> {
        let seq = work.at(&self.seq)?.clone();
        let kept = seq.children().enumerate().filter(|(i, _)| !self.positions.contains(i));
        let new = Stmt::seq(kept.map(|(_, s)| s.clone()));
        let new = if new.as_seq().is_some() { new.with_places(seq.places().clone()) } else { new };
        work.replace_as_is(&self.seq, new, kind)?;
        if let Some((_, body)) = work.at(&self.alloc)?.as_alloc() {
            let body = body.clone();
            work.replace_as_is(&self.alloc, body, kind)?;
        }
        Ok(())
    }
}

/// Whether a nest does nothing but compute an array (and arrays of its own); says why not.
fn pure(s: &Stmt, id: BufId) -> Result<(), String> {
    let own = visit::local_buffers(s);
    for f in scope::accesses(s, &HashMap::new()) {
        match f.buffer() {
            Some(b) if f.writes() && b != id && !own.contains(&b) => {
                return Err("also writes another array".to_string());
            }
            Some(b) if b == id && f.usage == scope::Use::Read => {
                return Err("reads it, too".to_string());
            }
            _ => {}
        }
    }
    let mut bad = Ok(());
    visit::walk(s, &mut |s, _| {
        let ok = s.own_effects().without(Effects::ALLOCATES).is_none() && s.as_compute().is_none();
        if !ok {
            bad = Err("does more than store".to_string());
        }
        ok
    });
    bad
}
