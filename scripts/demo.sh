#!/usr/bin/env bash
# The main job, end to end: GEMM and a stencil from examples/, on arrays from .npy files, naive and with their
# strategies, each verified, with the machine's measured ceilings beside them.
set -euo pipefail
lathe=$1
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
exec "$lathe" demo --dir "$dir"
