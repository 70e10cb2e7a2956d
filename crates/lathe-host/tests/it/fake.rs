//! Programs on simulated devices, as the tests write them.

use lathe_diagnostics::Diagnostic;
use lathe_host::simulated::{Ending, Id, Simulated, Work};
use lathe_host::{Access, BufferId, Device, Event, Executor, Mode};
use std::ops::Range;

pub use lathe_host::simulated::mix;

pub struct Fake {
    pub executor: Executor<Simulated>,
}

impl Fake {
    pub fn new(devices: Vec<Device>, seed: u64) -> Fake {
        let driver = Simulated::new(devices.iter().map(|d| d.bytes).collect(), seed);
        Fake { executor: Executor::new(devices, driver) }
    }

    /// A buffer with these bytes, or with bytes that mean nothing.
    pub fn buffer(&mut self, bytes: u64, data: Option<&[u8]>) -> BufferId {
        let host = self.executor.driver().host(bytes, data);
        self.executor.buffer(host, bytes, data.is_some(), false)
    }

    /// The same in memory that devices share with the host.
    pub fn shared(&mut self, bytes: u64, data: Option<&[u8]>) -> BufferId {
        let host = self.executor.driver().host(bytes, data);
        self.executor.buffer(host, bytes, data.is_some(), true)
    }

    pub fn launch(
        &mut self,
        name: &str,
        device: usize,
        accesses: &[Access],
        seed: u64,
        ending: Ending,
    ) -> Result<Event, Diagnostic> {
        let work = Work { seed, accesses: accesses.to_vec(), ending };
        self.executor.launch(name, device, accesses, &work)
    }

    pub fn read(&mut self, buffer: BufferId, range: Range<u64>) -> Result<Vec<u8>, Diagnostic> {
        let host = self.access(buffer, range.clone(), Mode::Read)?;
        Ok(self.executor.driver().read(host, &range))
    }

    pub fn write(&mut self, buffer: BufferId, at: u64, data: &[u8]) -> Result<(), Diagnostic> {
        let host = self.access(buffer, at..at + data.len() as u64, Mode::Write)?;
        self.executor.driver().write(host, at, data);
        Ok(())
    }

    fn access(&mut self, buffer: BufferId, range: Range<u64>, mode: Mode) -> Result<Id, Diagnostic> {
        self.executor.access(&Access { buffer, range, mode }).map(|host| *host)
    }

    pub fn release(&mut self, buffer: BufferId) {
        self.executor.release(buffer);
    }

    /// Until everything has ended.
    pub fn finish(&mut self) {
        self.executor.finish();
        assert_eq!(self.executor.host().events().pending(), 0);
        assert_eq!(self.executor.driver().under_way(), 0);
    }
}
