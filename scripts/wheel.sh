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
# LLVM is inside, so size counts: functions with the same code are one, and relative relocations take a bit each (glibc
# 2.36, which the wheel's tag asks for). Nothing compares addresses of functions. On x86-64 rustc links by lld.
link=()
if [ "$(uname -sm)" = "Linux x86_64" ]; then
  link=(-- -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-z,pack-relative-relocs)
fi
rm -rf "$out"
VIRTUAL_ENV=$tools "$tools/bin/maturin" build --quiet --release --locked --compression-level 9 --manifest-path crates/lathe-python/Cargo.toml --out "$out" ${link[@]+"${link[@]}"} >&2
wheel=$(ls "$out"/lathe-*.whl)
size=$(stat -c %s "$wheel")
if [ "$size" -gt 32000000 ]; then
  printf 'wheel: %s has %s bytes, more than 32 MB\n' "$wheel" "$size" >&2
  exit 1
fi
printf '%s\n' "$wheel"
