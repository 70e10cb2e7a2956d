//! The memory of devices: taken from what is kept or from the driver, and given back.

use crate::Event;
use crate::driver::{Driver, Fault, FaultKind};
use crate::executor::{Executor, refusal};
use crate::plan::{BufferId, Place};
use crate::pool::{Block, size_of_block};
use lathe_diagnostics::Diagnostic;

impl<D: Driver> Executor<D> {
    pub(crate) fn allocate(&mut self, at: Place, buffer: BufferId, bytes: u64) -> Result<(), Diagnostic> {
        let Some(device) = at.number() else { return Ok(()) };
        let made = if self.host.is_shared(buffer) {
            match self.hosts.get(&buffer) {
                Some(host) => self.driver.attach(device, host).map(|memory| Block { memory, size: None }),
                None => Err(Fault::new(FaultKind::Failed, "the buffer was released")),
            }
        } else {
            self.block(device, bytes)
        };
        match made {
            Ok(block) => {
                self.memory.insert((device, buffer), block);
                Ok(())
            }
            Err(fault) => {
                let memory = &self.memory;
                self.host.unreserve(device, &|b| memory.contains_key(&(device, b)));
                let name = format!("memory of {bytes} bytes");
                Err(refusal(&name, &fault))
            }
        }
    }

    /// A block that is kept, or a new one; to make room, what is kept goes first, and then what is still used is waited for.
    fn block(&mut self, device: usize, bytes: u64) -> Result<Block<D::Memory>, Fault> {
        let size = size_of_block(bytes);
        let mut refused = None;
        loop {
            if let Some(memory) = self.pools[device].take(size) {
                return Ok(Block { memory, size: Some(size) });
            }
            let (fits, idle) = (self.pools[device].fits(size), self.pools[device].is_idle());
            // Blocks are somewhat larger than buffers, so that those that the plan allows may not fit the bound.
            if (fits || idle) && !(idle && refused.is_some()) {
                match self.driver.allocate(device, size) {
                    Ok(memory) => {
                        self.pools[device].allocated(size);
                        return Ok(Block { memory, size: Some(size) });
                    }
                    Err(f) if f.kind != FaultKind::Memory => return Err(f),
                    Err(f) => refused = Some(f),
                }
            }
            let kept = self.pools[device].clear();
            if !kept.is_empty() {
                refused = None;
                kept.into_iter().for_each(|m| self.driver.free(device, m));
            } else if let Some(events) = self.pools[device].first() {
                self.wait(&events);
                let events = self.host.events();
                self.pools[device].settle(&|e| events.is_pending(e));
            } else if let Some(f) = refused {
                return Err(f);
            }
        }
    }

    pub(crate) fn free(&mut self, at: Place, buffer: BufferId, after: &[Event]) {
        let Some(device) = at.number() else { return };
        let Some(block) = self.memory.remove(&(device, buffer)) else { return };
        match block.size {
            Some(size) => self.pools[device].give(size, block.memory, after.to_vec()),
            None => {
                self.wait(after);
                self.driver.detach(device, block.memory);
            }
        }
    }
}
