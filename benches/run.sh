#!/usr/bin/env bash
# Every row of the benchmark table. The first argument (the built command) is not used by the rows themselves, which
# call the library in their own process; it is run once so that a broken build is noticed first.
set -euo pipefail
cd "$(dirname "$0")"
"../$1" doctor
bash setup.sh
shift
exec .env/python/bin/python bench.py "$@"
