#!/usr/bin/env bash
# One environment of rivals for all benchmarks: benches/.env (Python packages, the C rivals, the Rust rivals).
# Versions are pinned; OpenBLAS and oneDNN come from the system's packages.
set -euo pipefail
cd "$(dirname "$0")"
root=$PWD/.env
mkdir -p "$root"
have() { command -v "$1" >/dev/null 2>&1; }

need=()
[ -e /usr/lib/x86_64-linux-gnu/openblas-pthread/libopenblas.so.0 ] || need+=(libopenblas0-pthread)
[ -e /usr/include/dnnl.h ] || [ -e /usr/include/oneapi/dnnl/dnnl.h ] || need+=(libdnnl-dev)
ldconfig -p | grep -q libgomp.so.1 || need+=(libgomp1)
have python3 || need+=(python3)
python3 -c 'import venv, ensurepip' 2>/dev/null || need+=(python3-venv)
if [ ${#need[@]} -gt 0 ]; then
  as_root=(); [ "$(id -u)" -eq 0 ] || as_root=(sudo)
  "${as_root[@]}" apt-get update -qq
  "${as_root[@]}" apt-get install -y --no-install-recommends "${need[@]}"
fi

if [ ! -e "$root/python-ready" ]; then
  python3 -m venv "$root/python"
  "$root/python/bin/pip" install --quiet numpy==2.4.6 jax==0.10.2 apache-tvm==0.27.0.post1 apache-tvm-ffi==0.1.14.post0 \
    halide==21.0.0 psutil cloudpickle tornado
  touch "$root/python-ready"
fi
if [ ! -e "$root/mdh-ready" ]; then
  "$root/python/bin/pip" install --quiet numba==0.68.1 opt_einsum==3.4.0
  touch "$root/mdh-ready"
fi

if [ ! -e "$root/metaschedule-ready" ]; then
  "$root/python/bin/pip" install --quiet xgboost-cpu==3.2.0 pandas==3.1.1
  touch "$root/metaschedule-ready"
fi

if [ -n "$(find rivals -name '*.[ch]' -newer "$root/rivals.so" 2>/dev/null)" ] || [ ! -e "$root/rivals.so" ]; then
  gcc -O3 -march=native -fopenmp -shared -fPIC -Wall -o "$root/rivals.so" rivals/*.c -ldnnl -lm
fi
# The same for AVX2 (LATHE_BENCH_ISA=AVX2).
if [ -n "$(find rivals -name '*.[ch]' -newer "$root/rivals-avx2.so" 2>/dev/null)" ] || [ ! -e "$root/rivals-avx2.so" ]; then
  gcc -O3 -march=x86-64-v3 -fopenmp -shared -fPIC -Wall -o "$root/rivals-avx2.so" rivals/*.c -ldnnl -lm
fi
(cd harness && cargo build --release --quiet)
cp "${CARGO_TARGET_DIR:-harness/target}/release/libharness.so" "$root/harness.so"
(cd crates && cargo build --release --quiet --no-default-features)
cp "${CARGO_TARGET_DIR:-crates/target}/release/libcrates.so" "$root/crates-avx2.so"
(cd crates && cargo build --release --quiet)
cp "${CARGO_TARGET_DIR:-crates/target}/release/libcrates.so" "$root/crates.so"
echo "rivals are in $root"
