#!/usr/bin/env bash
# Makes benches/device/bundle: for every row of benches/device/rows.json a cubin and the list of its launches; and of these, the
# examples and the Python package one folder, target/device-bundle, for a machine that has a driver and Python 3.10 or later:
#   python3 benches/device/sanitize.py --bundle benches/device/small    runs every kernel, with nothing but the driver
#   python3 benches/device/rows.py --out rows.json                      checks and times the rows, with PyTorch
#   pip install lathe-*.whl                                             the package, with numpy
#   python3 benches/device/compile_rows.py                              then: compiling, and loading from disk
#
#   scripts/device_bundle.sh [ARCH]            LATHE names the command, if it is built already.
#   scripts/device_bundle.sh ARCH small        benches/device/small of small.json instead, for sanitize.py
set -euo pipefail
cd "$(dirname "$0")/.."
lathe=${LATHE:-}
if [ -z "$lathe" ]; then
  cargo build --release --quiet -p lathe-cli
  lathe=target/release/lathe
fi
list=${2:-rows}
out=benches/device/bundle
[ "$list" = rows ] || out=benches/device/$list
mkdir -p "$out"
cp "benches/device/$list.json" "$out/rows.json"
LIST=$list python3 - <<'P' | while read -r name target sizes; do
import json, os
for name, row in json.load(open(f"benches/device/{os.environ['LIST']}.json")).items():
    strategy = f"--strategy {row['strategy']} " if "strategy" in row else ""
    print(name, row["target"], strategy + " ".join(f"-D {k}={v}" for k, v in row["sizes"].items()))
P
  forms="cubin launches"
  # What compile_rows.py gives NVRTC.
  case $list/$name in rows/sum|rows/softmax|rows/gemm4096|rows/scan|rows/layernorm) forms+=" cuda" ;; esac
  for form in $forms; do
    suffix=cubin
    [ $form = launches ] && suffix=json
    [ $form = cuda ] && suffix=cu
    # shellcheck disable=SC2086
    "$lathe" emit "examples/devices/$target" --to $form --arch "${1:-sm_90a}" --specialize $sizes -o "$out/$name.$suffix"
  done
done
du -sh "$out"
[ "$list" = rows ] || exit 0

# One folder.
LATHE=$lathe bash scripts/device_bundle.sh "${1:-sm_90a}" small
all=target/device-bundle
most=60
rm -rf "$all"
mkdir -p "$all/benches" "$all/examples"
cp -r benches/device "$all/benches/"
cp -r examples/devices examples/mdh "$all/examples/"
wheels() { ls -t target/wheels/lathe-*"$(uname -m)".whl 2>/dev/null | head -1; }
[ -n "$(wheels)" ] || bash scripts/wheel.sh
cp "$(wheels)" "$all/"
sed -n '2,/^#$/s/^# \?//p' scripts/device_bundle.sh > "$all/README.txt"
size=$(du -sm "$all" | cut -f1)
echo "$all: $size MB"
if [ "$size" -gt "$most" ]; then
  echo "$all has $size MB; $most are the limit" >&2
  exit 1
fi
