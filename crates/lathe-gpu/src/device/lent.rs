//! Memory that somebody else has on a device.

use crate::marks::Opened;
use lathe_diagnostics::Diagnostic;
use lathe_engine::codes;
use std::ffi::c_void;

/// Copies bytes at an address of a device of CUDA to the host, after everything that a stream of the driver was given before,
/// and waits for that: for scalars that lie on the device, where launches need their values.
///
/// # Errors
/// `E0841` where there is no such device, `E0843` for what the driver refuses.
///
/// # Safety
/// So many bytes at the address are memory of the device, which stays until this returns.
pub unsafe fn fetch(device: usize, stream: u64, address: u64, to: &mut [u8]) -> Result<(), Diagnostic> {
    let Opened::Cuda(device) = Opened::new("cuda", device)? else {
        return Err(Diagnostic::error(codes::DEVICE_ARRAY, "memory of CUDA only"));
    };
    let _entered = device.enter()?;
    // To memory that is not page-locked, the driver copies while its caller waits.
    let done =
        (device.calls.to_host_on)(to.as_mut_ptr().cast::<c_void>(), address, to.len(), stream as usize as _);
    device.check("copying scalars from the device", done)
}
