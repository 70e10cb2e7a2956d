#!/usr/bin/env bash
# Fuzzes every reader of what others may have written: FUZZ_RUNS inputs each (default 10 million), or FUZZ_SECONDS of
# them; FUZZ_TARGETS names some of the readers. Needs nightly Rust. An input that panics, takes longer than 10 s or more
# than 4 GB ends it, and is kept in fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "fuzzing needs nightly Rust: rustup toolchain install nightly" >&2
  exit 3
fi
cargo +nightly fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
LATHE_SEEDS="$PWD/fuzz/corpus" cargo test --quiet -p lathe --test it good_inputs
if [ -n "${FUZZ_SECONDS:-}" ]; then limit=(-max_total_time="$FUZZ_SECONDS"); else limit=(-runs="${FUZZ_RUNS:-10000000}"); fi
targets=${FUZZ_TARGETS:-$(cargo +nightly fuzz list)}
for target in $targets; do
  echo "fuzz: $target"
  # What lives as long as the process would be called a leak.
  cargo +nightly fuzz run "$target" -- "${limit[@]}" -timeout=10 -rss_limit_mb=4096 -detect_leaks=0
done
