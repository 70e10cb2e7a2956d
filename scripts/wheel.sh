#!/usr/bin/env bash
# Builds the wheel of the Python package, with LLVM inside, into target/wheels; prints its path.
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
tools=$target/python/tools
if ! [ -x "$tools/bin/maturin" ]; then
  python3 -m venv "$tools" >&2
  "$tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.16,<2' >&2
fi
out=$target/wheels
rm -rf "$out"
VIRTUAL_ENV=$tools "$tools/bin/maturin" build --quiet --release --locked --compression-level 9 --manifest-path crates/lathe-python/Cargo.toml --out "$out" >&2
wheel=$(ls "$out"/lathe-*.whl)
size=$(stat -c %s "$wheel")
if [ "$size" -gt 32000000 ]; then
  printf 'wheel: %s has %s bytes, more than 32 MB\n' "$wheel" "$size" >&2
  exit 1
fi
printf '%s\n' "$wheel"
