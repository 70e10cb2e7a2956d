#!/usr/bin/env bash
# Makes benches/device/bundle: for every row of benches/device/rows.json a cubin and the list of its launches. With
# benches/device/rows.py they run on a machine that has a driver, Python and PyTorch, and nothing of Lathe.
#   scripts/device_bundle.sh [ARCH]      LATHE names the command, if it is built already.
set -euo pipefail
cd "$(dirname "$0")/.."
lathe=${LATHE:-}
if [ -z "$lathe" ]; then
  cargo build --release --quiet -p lathe-cli
  lathe=target/release/lathe
fi
out=benches/device/bundle
mkdir -p "$out"
cp benches/device/rows.json "$out/rows.json"
python3 - <<'P' | while read -r name target sizes; do
import json
for name, row in json.load(open("benches/device/rows.json")).items():
    strategy = f"--strategy {row['strategy']} " if "strategy" in row else ""
    print(name, row["target"], strategy + " ".join(f"-D {k}={v}" for k, v in row["sizes"].items()))
P
  for form in cubin launches; do
    suffix=cubin
    [ $form = launches ] && suffix=json
    # shellcheck disable=SC2086
    "$lathe" emit "examples/devices/$target" --to $form --arch "${1:-sm_90a}" --specialize $sizes -o "$out/$name.$suffix"
  done
done
du -sh "$out"
