//! A driver of CUDA that has no device, in place of the machine's: for tests of what is asked of it, and for what the host
//! does itself at a launch.

use lathe_gpu::device::{Devices, Keep};
use std::path::Path;
use std::process::Command;
use std::sync::Arc;

/// Runs this program once more with these arguments, and with the driver; what it printed, and whether it went well.
pub fn run(arguments: &[&str], set: &[(&str, &str)]) -> (bool, String) {
    let folder = tempfile::tempdir().expect("a folder");
    build("libcuda.c", &folder.path().join("libcuda.so.1"));
    build("libnccl.c", &folder.path().join("libnccl.so.2"));
    let program = std::env::current_exe().expect("this program");
    let mut command = Command::new(program);
    command.args(arguments).env("LD_LIBRARY_PATH", folder.path()).env("LATHE_NCCL", folder.path());
    command.env(INSIDE, "1");
    let out = command.envs(set.iter().copied()).output().expect("it starts");
    let text = String::from_utf8_lossy(&out.stdout) + String::from_utf8_lossy(&out.stderr);
    (out.status.success(), text.into_owned())
}

const INSIDE: &str = "LATHE_TEST_DRIVER";

/// Whether this process is one that was started with the driver.
pub fn is_inside() -> bool {
    std::env::var_os(INSIDE).is_some()
}

fn build(source: &str, to: &Path) {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/driver").join(source);
    let done = Command::new("cc").args(["-O2", "-shared", "-fPIC", "-o"]).arg(to).arg(source).status();
    assert!(done.expect("a C compiler").success(), "the driver of the tests does not compile");
}

/// How often the driver was asked for something.
pub fn calls(name: &str) -> i64 {
    // SAFETY: the library of the tests, which is loaded already and stays.
    let library = unsafe { libloading::Library::new("libcuda.so.1") }.expect("the driver");
    let name = std::ffi::CString::new(name).expect("a name");
    // SAFETY: its type in the source beside this file.
    let asked =
        unsafe { library.get::<extern "C" fn(*const std::ffi::c_char) -> std::ffi::c_long>(b"fake_calls") };
    let count = asked.expect("the driver of the tests")(name.as_ptr());
    std::mem::forget(library);
    count
}

/// Kernels need no compiler: the driver knows what they do by their names.
pub struct Named;

impl Keep for Named {
    fn get(&self, key: &[&str]) -> Option<Vec<u8>> {
        let name = key[3];
        Some([&(name.len() as u32).to_le_bytes()[..], name.as_bytes(), b"\x7fELF"].concat())
    }
    fn put(&self, _: &[&str], _: &[u8]) {}
}

/// Devices with such kernels.
pub fn devices() -> Devices {
    let devices = Devices::of_kind("cuda").expect("devices of the driver");
    devices.keep_code(Arc::new(Named));
    devices
}
