#!/usr/bin/env bash
# usage: fuzz.sh TIME   runs every fuzz target of the module for TIME, one after another
set -euo pipefail
for pkg in $(go list ./...); do
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    echo "fuzz $pkg $target"
    go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$pkg" | tail -n 2
  done
done
