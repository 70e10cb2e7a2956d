//! How long work on a device may take.

use std::sync::OnceLock;
use std::time::Duration;

/// `LATHE_DEVICE_SECONDS`, or a minute.
pub fn limit() -> Duration {
    static LIMIT: OnceLock<Duration> = OnceLock::new();
    *LIMIT.get_or_init(|| {
        let given = std::env::var("LATHE_DEVICE_SECONDS").ok().and_then(|s| s.parse::<u64>().ok());
        Duration::from_secs(given.unwrap_or(60).max(1))
    })
}
