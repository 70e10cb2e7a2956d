#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh virtual environment, and runs the tests of the Python package there: from a
# copy of the tests beside nothing of the source tree. Arguments go to pytest. LATHE_PYTHON is another interpreter,
# LATHE_TORCH=1 brings PyTorch, LATHE_PYRIGHT=1 a second type checker. LATHE_VERSIONS=oldest takes the oldest packages
# that are supported (for Python 3.10 and 3.11), LATHE_VERSIONS=newest the newest ones that there are.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(bash scripts/wheel.sh)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
unzip -q "$wheel" -d "$room/wheel"
# What the wheel needs of the machine: the C library, and nothing of LLVM.
needs=$(ldd "$room"/wheel/lathe/_lathe*.so | awk '{print $1}')
for library in $needs; do
  case $library in
    linux-vdso.so.1 | libm.so.6 | libgcc_s.so.1 | libc.so.6 | libdl.so.2 | librt.so.1 | libpthread.so.0 | */ld-linux-*) ;;
    *) printf 'the wheel needs %s, which a machine may not have\n' "$library" >&2; exit 1 ;;
  esac
done
# The C library of Debian 12 is enough.
newest=$(objdump -T "$room"/wheel/lathe/_lathe*.so | grep -o 'GLIBC_[0-9.]*' | sort -Vu | tail -n 1)
if [ "$(printf '%s\nGLIBC_2.36\n' "$newest" | sort -V | tail -n 1)" != GLIBC_2.36 ]; then
  printf 'the wheel needs %s, which Debian 12 does not have\n' "$newest" >&2
  exit 1
fi
# glibc keeps 1,664 bytes of each thread for all libraries that are loaded late and need theirs at once: PyTorch's OpenMP
# must find room beside ours.
threads_own=$(readelf -lW "$room"/wheel/lathe/_lathe*.so | awk '$1 == "TLS" { print $6 }')
if [ "$((threads_own))" -gt 900 ]; then
  printf 'the wheel needs %s bytes of thread-local memory, more than 900\n' "$((threads_own))" >&2
  exit 1
fi
"${LATHE_PYTHON:-python3}" -m venv "$room/env"
more=()
cp crates/lathe-python/tests/requirements.txt "$room/requirements.txt"
torch='torch>=2.4'
case ${LATHE_VERSIONS:-} in
  oldest)
    sed -i '/^jax/d' "$room/requirements.txt"
    more+=('numpy==1.25.0' 'jax==0.5.0' 'jaxlib==0.5.0' 'scipy<1.12')
    torch='torch==2.4.*'
    ;;
  newest) sed -i 's/^jax==[^;]*/jax/' "$room/requirements.txt" ;;
  '') ;;
  *) echo "LATHE_VERSIONS is oldest or newest" >&2; exit 2 ;;
esac
[ -n "${LATHE_TORCH:-}" ] && more+=("$torch")
[ -n "${LATHE_PYRIGHT:-}" ] && more+=('pyright')
"$room/env/bin/pip" install --quiet --disable-pip-version-check "$wheel" "${more[@]}" -r "$room/requirements.txt"
cp -r crates/lathe-python/tests "$room/tests"
for folder in docs examples; do cp -r "$folder" "$room/$folder"; done
mkdir "$room/benches" && cp -r benches/gradbench "$room/benches/gradbench"
cd "$room/tests"
env -u LLVM_SYS_221_PREFIX JAX_PLATFORMS=cpu LATHE_ROOT="$room" "$room/env/bin/python" -m pytest -q -p no:cacheprovider "$@"
