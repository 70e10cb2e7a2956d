#!/usr/bin/env bash
# Races between threads in the runtime of devices, by ThreadSanitizer: the tests of lathe-host on simulated devices, and those of
# lathe-gpu with several threads on the driver that has no device. The standard library is instrumented, too. Needs nightly Rust
# with its sources.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! [ -d "$(rustc +nightly --print sysroot 2>/dev/null)/lib/rustlib/src/rust/library" ]; then
  echo "ThreadSanitizer needs nightly Rust and its sources: rustup toolchain install nightly --component rust-src" >&2
  exit 3
fi
target=$(rustc +nightly -vV | sed -n 's/^host: //p')
export RUSTFLAGS="-Zsanitizer=thread" CARGO_TARGET_DIR="${CARGO_TARGET_DIR:-target}/races"
export TSAN_OPTIONS="halt_on_error=1 abort_on_error=1 second_deadlock_stack=1"
tested() { cargo +nightly test -Zbuild-std --target "$target" --quiet "$@"; }
LATHE_CASES="${LATHE_CASES:-50}" tested -p lathe-host --test it
tested -p lathe-gpu --test cuda
