#!/usr/bin/env bash
# Builds the wheel, installs it into a fresh virtual environment, and runs the tests of the Python package there: from a
# copy of the tests beside nothing of the source tree, by two processes, file by file. Arguments go to pytest. LATHE_PYTHON is another interpreter,
# LATHE_TORCH=1 brings PyTorch, LATHE_PYRIGHT=1 a second type checker. LATHE_VERSIONS=oldest takes the oldest packages
# that are supported (for Python 3.10 and 3.11), LATHE_VERSIONS=newest the newest ones that there are.
set -euo pipefail
cd "$(dirname "$0")/.."
wheel=$(bash scripts/wheel.sh)
room=$(mktemp -d)
trap 'rm -rf "$room"' EXIT
# What is in it, and what it needs of a machine.
(cd scripts && python3 test_wheel_contents.py 2>"$room/contents.log") || { cat "$room/contents.log" >&2; exit 1; }
python3 scripts/wheel_contents.py "$wheel" "$(uname -m)"
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
env -u LLVM_SYS_221_PREFIX JAX_PLATFORMS=cpu LATHE_ROOT="$room" "$room/env/bin/python" -m pytest -q -p no:cacheprovider -n 2 --dist loadfile "$@"
