#!/usr/bin/env bash
# Builds the wheel for AArch64 (glibc 2.36, as the one for x86-64) on a machine with x86-64 and Debian 12, into target/wheels-aarch64,
# checks what is in it, and prints its path. LLVM's archives for AArch64 come from Debian's packages, which are unpacked and not
# installed; so does the C++ library of the cross compiler (`scripts/setup.sh` installs that).
set -euo pipefail
cd "$(dirname "$0")/.."
target=${CARGO_TARGET_DIR:-$PWD/target}
room=$target/aarch64
triple=aarch64-unknown-linux-gnu
fail() { printf 'wheel for AArch64: %s\n' "$1" >&2; exit 3; }
command -v aarch64-linux-gnu-gcc >/dev/null || fail 'aarch64-linux-gnu-gcc is missing: make setup'
[ -d "$(rustc --print sysroot)/lib/rustlib/$triple" ] || rustup target add "$triple" >&2 || fail "rustc has no $triple"

# Packages of another architecture: apt with lists of its own.
root=$room/root
if ! [ -e "$room/unpacked" ]; then
  rm -rf "$root"
  mkdir -p "$room/lists/partial" "$room/cache/archives/partial" "$root"
  apt=(apt-get -o "Dir::State::lists=$room/lists" -o "Dir::Cache=$room/cache" -o APT::Architecture=arm64 -o APT::Architectures=arm64)
  "${apt[@]}" -qq update >&2
  (cd "$room" && "${apt[@]}" -qq download llvm-22-dev libzstd-dev zlib1g-dev libstdc++-12-dev-arm64-cross >&2)
  for package in "$room"/*.deb; do dpkg -x "$package" "$root"; done
  touch "$room/unpacked"
fi
llvm=$root/usr/lib/llvm-22
# LLVM's account of itself, which is the same on both machines but for the place.
mkdir -p "$llvm/bin"
cat >"$llvm/bin/llvm-config" <<EOF
#!/bin/sh
/usr/lib/llvm-22/bin/llvm-config "\$@" | sed 's|/usr/lib/llvm-22|$llvm|g'
EOF
# Where `crates/lathe-llvm/build.rs` asks for static libraries.
cat >"$room/c++" <<EOF
#!/bin/sh
exec aarch64-linux-gnu-gcc -B$root/usr/lib/gcc-cross/aarch64-linux-gnu/12/ -B$root/usr/lib/aarch64-linux-gnu/ "\$@"
EOF
# isl's configure is told of no other machine by its crate, but reads this.
cat >"$room/config.site" <<EOF
cross_compiling=yes
host_alias=aarch64-linux-gnu
ac_cv_host=$triple
CC=aarch64-linux-gnu-gcc
AR=aarch64-linux-gnu-ar
RANLIB=aarch64-linux-gnu-ranlib
STRIP=aarch64-linux-gnu-strip
EOF
chmod +x "$llvm/bin/llvm-config" "$room/c++"

tools=$target/python/tools
if ! [ -x "$tools/bin/maturin" ]; then
  python3 -m venv "$tools" >&2
  "$tools/bin/pip" install --quiet --disable-pip-version-check 'maturin>=1.16,<2' >&2
fi
out=$target/wheels-aarch64
rm -rf "$out"
lld=$(rustc --print sysroot)/lib/rustlib/$(rustc -vV | sed -n 's/^host: //p')/bin/gcc-ld
LLVM_SYS_221_PREFIX=$llvm CXX=$room/c++ CONFIG_SITE=$room/config.site PYO3_CROSS_PYTHON_VERSION=3.10 \
  CC_aarch64_unknown_linux_gnu=aarch64-linux-gnu-gcc AR_aarch64_unknown_linux_gnu=aarch64-linux-gnu-ar \
  CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER=aarch64-linux-gnu-gcc \
  VIRTUAL_ENV=$tools "$tools/bin/maturin" build --quiet --release --locked --compression-level 9 --target "$triple" \
  --compatibility manylinux_2_36 --auditwheel skip --manifest-path crates/lathe-python/Cargo.toml --out "$out" -- \
  -C "link-arg=-B$lld" -C link-arg=-fuse-ld=lld -C link-arg=-Wl,--icf=all -C link-arg=-Wl,-z,pack-relative-relocs >&2
wheel=$(ls "$out"/lathe-*.whl)
python3 scripts/wheel_contents.py "$wheel" aarch64 >&2
printf '%s\n' "$wheel"
