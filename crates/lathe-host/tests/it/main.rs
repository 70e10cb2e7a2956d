//! The host's side of devices, on devices that are made up: memory of their own, actions that take time and end in any
//! order that events and streams allow, and faults on demand.

mod cases;
mod fake;
mod faults;
mod paths;
mod random;

/// How many random programs: 300, or `LATHE_CASES`.
fn cases() -> u64 {
    std::env::var("LATHE_CASES").ok().and_then(|n| n.parse().ok()).unwrap_or(300)
}
