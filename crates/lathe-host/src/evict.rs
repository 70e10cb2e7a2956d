//! Eviction: the least recently used buffers leave a device.

use crate::codes;
use crate::host::{Host, joined};
use crate::plan::{Action, BufferId, Place, Plan};
use lathe_diagnostics::Diagnostic;

impl Host {
    /// Makes room for buffers that a launch is about to use at a place, beside those that it uses and are there.
    ///
    /// # Errors
    /// `E0853`: what the launch uses exceeds the device's memory.
    pub(crate) fn make_room(
        &mut self,
        at: Place,
        used: &[BufferId],
        plan: &mut Plan,
    ) -> Result<(), Diagnostic> {
        let Some(bound) = at.number().and_then(|n| self.devices[n].bytes) else { return Ok(()) };
        if used.iter().all(|b| self.buffers[b].allocated[at.index()]) {
            return Ok(());
        }
        let bytes = |host: &Host, b: &BufferId| host.buffers[b].bytes_at(at);
        let wanted: u64 = used.iter().map(|b| bytes(self, b)).sum();
        if wanted > bound {
            let device = &self.devices[at.number().unwrap_or(0)].name;
            let text = format!("a launch uses {wanted} bytes, but `{device}` has {bound}");
            return Err(Diagnostic::error(codes::MEMORY, text).help(
                "the buffers of one launch must fit together: use smaller buffers, and several launches",
            ));
        }
        loop {
            let here: Vec<BufferId> =
                self.buffers.iter().filter(|(_, b)| b.allocated[at.index()]).map(|(id, _)| *id).collect();
            let held: u64 = here.iter().map(|b| bytes(self, b)).sum();
            let missing: u64 = used.iter().filter(|b| !here.contains(b)).map(|b| bytes(self, b)).sum();
            if held + missing <= bound {
                return Ok(());
            }
            let others = here.iter().filter(|b| !used.contains(b) && bytes(self, b) > 0);
            let victim = others.min_by_key(|b| self.buffers[b].used[at.index()]).copied();
            // What is held beyond what is used is more than nothing, so there is one.
            let Some(victim) = victim else { return Ok(()) };
            self.evict(at, victim, plan);
            plan.evicted.push((at, victim));
            self.counts.evictions += 1;
        }
    }

    /// Gives the memory of a buffer at a place back; what only lies there is copied to the host first.
    pub(crate) fn evict(&mut self, at: Place, id: BufferId, plan: &mut Plan) {
        let only: Vec<_> = {
            let b = &self.buffers[&id];
            let alone = |c: &[crate::buffer::Copy]| c.iter().filter(|c| c.valid).count() == 1;
            let all = 0..b.pieces.len();
            let pieces = b.pieces.of(&all);
            pieces.filter(|(_, c)| c[at.index()].valid && alone(c)).map(|(r, _)| r).collect()
        };
        for range in joined(only) {
            self.copy(id, at, Place::HOST, range, plan);
        }
        self.free(at, id, plan);
    }

    /// Gives the memory back once all that uses it has ended.
    pub(crate) fn free(&mut self, at: Place, id: BufferId, plan: &mut Plan) {
        let Some(b) = self.buffers.get_mut(&id).filter(|b| b.allocated[at.index()]) else { return };
        let all = 0..b.pieces.len();
        let mut after: Vec<_> = b.before_write(at, &all).collect();
        b.allocated[at.index()] = false;
        b.pieces.change(&all, |_, c| c[at.index()] = crate::buffer::Copy::default());
        self.only_pending(&mut after);
        plan.actions.push(Action::Free { at, buffer: id, after });
    }
}
