#!/usr/bin/env bash
# Fuzzes the front end, the tree's text and the .npy reader, FUZZ_SECONDS each (default 60). Needs nightly Rust.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo +nightly --version >/dev/null 2>&1; then
  echo "fuzzing needs nightly Rust: rustup toolchain install nightly" >&2
  exit 3
fi
cargo fuzz --version >/dev/null 2>&1 || cargo install --locked cargo-fuzz
for target in source tree npy; do
  mkdir -p "fuzz/corpus/$target"
  case $target in
    source) cp -n examples/*.lathe "fuzz/corpus/$target/" ;;
    tree) cp -n crates/lathe-ir/tests/*/*.tree "fuzz/corpus/$target/" 2>/dev/null || true ;;
  esac
  cargo +nightly fuzz run "$target" -- -max_total_time="${FUZZ_SECONDS:-60}"
done
