#!/usr/bin/env bash
# Every row of the benchmark table: makes the environment of rivals, then measures. Arguments go to bench.py.
set -euo pipefail
cd "$(dirname "$0")"
bash setup.sh
exec .env/python/bin/python bench.py "$@"
