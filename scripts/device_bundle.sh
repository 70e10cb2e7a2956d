#!/usr/bin/env bash
# Makes benches/device/bundle: for every row of benches/device/rows.json a cubin and the list of its launches. With
# benches/device/rows.py and benches/device/rivals they run on a machine that has a driver, Python and PyTorch, and nothing of Lathe.
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
  for form in cubin launches; do
    suffix=cubin
    [ $form = launches ] && suffix=json
    # shellcheck disable=SC2086
    "$lathe" emit "examples/devices/$target" --to $form --arch "${1:-sm_90a}" --specialize $sizes -o "$out/$name.$suffix"
  done
done
du -sh "$out"
