#!/usr/bin/env bash
# Fuzzes every reader of what others may have written: FUZZ_RUNS inputs each (default 10 million), or FUZZ_SECONDS of
# them; FUZZ_READERS names some of the readers. They share one program, and as many run at once as there are processors.
# Needs nightly Rust. An input that panics, takes longer than 10 s or more than 4 GB ends its reader, and is kept in
# fuzz/artifacts.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "fuzzing needs nightly Rust: rustup toolchain install nightly" >&2
  exit 3
fi
cargo +nightly fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
LATHE_SEEDS="$PWD/fuzz/corpus" cargo test --quiet -p lathe --test it good_inputs
if [ -n "${FUZZ_SECONDS:-}" ]; then limit=-max_total_time=$FUZZ_SECONDS; else limit=-runs=${FUZZ_RUNS:-10000000}; fi
# Memory is Rust's to guard: an address sanitizer would take most of the time.
cargo +nightly fuzz build --sanitizer none any
mkdir -p fuzz/artifacts
one() {
  # What lives as long as the process would be called a leak.
  if READER=$1 cargo +nightly fuzz run --sanitizer none any "fuzz/corpus/$1" -- "$2" -timeout=10 -rss_limit_mb=4096 \
    -detect_leaks=0 -print_final_stats=1 >"fuzz/artifacts/$1.log" 2>&1; then
    echo "fuzz: $1: $(sed -n 's/^stat::number_of_executed_units: *//p' "fuzz/artifacts/$1.log") inputs"
  else
    echo "fuzz: $1: FAILED, see fuzz/artifacts/$1.log" >&2
    return 1
  fi
}
export -f one
# shellcheck disable=SC2086
printf '%s\n' ${FUZZ_READERS:-$(ls fuzz/corpus)} | xargs -P "$(nproc)" -I '{}' bash -c 'one "$1" "$2"' _ '{}' "$limit"
