#!/usr/bin/env bash
# Installs what building Lathe needs and is missing: LLVM 22 (code generation), libtool, automake and a C
# compiler (isl is built from source), Clang's and GCC's headers; PoCL and NVRTC, which
# tests of device code run and compile it with; a cross compiler and an emulator for AArch64, for tests of its
# code. Does nothing, quickly, when all is there.
set -euo pipefail

have() { command -v "$1" >/dev/null 2>&1; }
fail() { printf 'setup: %s\n' "$1" >&2; exit 3; }

have cargo || fail "cargo is missing: install Rust 1.95 or newer with rustup first."

need=()
[ -x /usr/lib/llvm-22/bin/llvm-config ] || need+=(llvm-22-dev)
have libtoolize || need+=(libtool)
have autoconf || need+=(autoconf)
have automake || need+=(automake)
have gcc || need+=(gcc libc6-dev)
have g++ || need+=(g++)
have pkg-config || need+=(pkg-config)
have unzip || need+=(unzip)
# OpenCL on CPUs, for tests of device code.
ls /etc/OpenCL/vendors/pocl*.icd >/dev/null 2>&1 || need+=(pocl-opencl-icd ocl-icd-libopencl1)
# A compiler for AArch64 and an emulator of it, for tests of code for other machines.
have qemu-aarch64 || need+=(qemu-user)
have aarch64-linux-gnu-gcc || need+=(gcc-aarch64-linux-gnu libc6-dev-arm64-cross)
python3 -c 'import ensurepip, venv' 2>/dev/null || need+=(python3 python3-venv)
for header in zlib.h zstd.h libxml2/libxml/parser.h; do
  [ -e "/usr/include/$header" ] && continue
  case $header in
    zlib.h) need+=(zlib1g-dev) ;;
    zstd.h) need+=(libzstd-dev) ;;
    *) need+=(libxml2-dev) ;;
  esac
done

# A file of one of NVIDIA's wheels, which need no device, in a folder beside the user's other caches.
wheel() { # folder package file
  local to=${XDG_CACHE_HOME:-$HOME/.cache}/$1 made
  [ -e "$to/nvidia/cu13/$3" ] && return
  printf 'setup: fetching %s 13.0\n' "$2"
  made=$(mktemp -d)
  python3 -m venv "$made/venv" &&
    "$made/venv/bin/pip" install -q --disable-pip-version-check --no-deps --target "$made/wheel" "$2==13.0.*" || return
  rm -f "$made"/wheel/nvidia/cu13/lib/*.alt.so* "$made"/wheel/nvidia/cu13/lib/*static*
  mkdir -p "$(dirname "$to")"
  rm -rf "$to"
  mv "$made/wheel" "$to"
  rm -rf "$made"
}

# NVRTC, the compiler of CUDA C, and the assembler of PTX, with which tests assemble what LLVM makes.
nvidia() {
  [ -n "${LATHE_NVRTC:-}" ] || wheel lathe-nvrtc nvidia-cuda-nvrtc lib/libnvrtc.so.13 ||
    fail "pip could not fetch nvidia-cuda-nvrtc 13.0; name a folder with libnvrtc.so in LATHE_NVRTC."
  have ptxas || wheel lathe-ptxas nvidia-cuda-nvcc bin/ptxas ||
    fail "pip could not fetch nvidia-cuda-nvcc 13.0; put its ptxas on the path."
}

[ ${#need[@]} -eq 0 ] && { nvidia; exit 0; }

have apt-get || fail "missing: ${need[*]}. Install them with your system's package manager (this script knows Debian's apt-get only)."
if [ "$(id -u)" -eq 0 ]; then
  as_root=()
elif have sudo; then
  as_root=(sudo)
else
  fail "missing: ${need[*]}. Run as root, or install sudo, or ask your administrator to run: apt-get install ${need[*]}"
fi
printf 'setup: installing %s\n' "${need[*]}"
log=$(mktemp)
if ! { "${as_root[@]}" apt-get update && "${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -y --no-install-recommends "${need[@]}"; } >"$log" 2>&1; then
  tail -n 20 "$log" >&2
  fail "apt-get failed; the lines above say why. LLVM 22 comes with Debian 12's updates (package llvm-22-dev)."
fi
rm -f "$log"
nvidia
