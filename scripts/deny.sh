#!/usr/bin/env bash
# What Lathe depends on: advisories, licences, sources, duplicates, as `deny.toml` says. Without `cargo deny`, which takes
# longer to build than Lathe, or without a network, `cargo test -p lathe --test it dependencies` checks all but advisories.
set -euo pipefail
cd "$(dirname "$0")/.."
if ! cargo deny --version >/dev/null 2>&1; then
  echo "lint: advisories are not looked up: cargo install --locked cargo-deny"
elif cargo deny fetch >/dev/null 2>&1; then
  cargo deny check
else
  echo "lint: advisories are not looked up: there is no network"
  cargo deny check bans licenses sources
fi
