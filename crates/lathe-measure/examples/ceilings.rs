//! Prints the ceilings of this machine.
fn main() {
    lathe_measure::rounds::pin_to_first(1);
    if let Some(f) = lathe_measure::ceilings::peak_flops_f32(&lathe_target::Machine::host()) {
        println!("f32 fused multiply-add, one thread: {:.1} GFLOP/s", f / 1e9);
    }
    if let Some(b) = lathe_measure::ceilings::copy_bytes_per_second() {
        println!("streaming copy, one thread: {:.1} GB/s", b / 1e9);
    }
}
