#!/usr/bin/env bash
# usage: fuzz.sh INPUTS|TIME   runs every fuzz target of the module, one after another, as in 20000x or 30s
set -euo pipefail
for pkg in $(go list ./...); do
  for target in $(go test -list '^Fuzz' "$pkg" | grep '^Fuzz' || true); do
    if out=$(go test -run '^$' -fuzz "^$target\$" -fuzztime "$1" "$pkg" 2>&1); then
      echo "fuzz $target: $(tail -n 1 <<<"$out")"
    else
      printf 'fuzz %s %s failed:\n%s\n' "$pkg" "$target" "$out"
      exit 1
    fi
  done
done
