#!/usr/bin/env bash
# usage: enginetest.sh DIR [flags of the test program's]
# Installs real engines into DIR, where they stay for the next time, and runs
# enginetest before one pair after the other. What cannot be installed is said
# and skipped; with CI=true that is a failure. ENGINE=vllm or sglang: that alone.
set -euo pipefail
cd "$(dirname "$0")/.."
dir=$1
shift
mkdir -p "$dir" bin && dir=$(cd "$dir" && pwd)
began=$SECONDS

CGO_ENABLED=0 go build -trimpath -o bin/pdrouter ./cmd/pdrouter
go test -c -o bin/enginetest.test ./enginetest

failed=0
for engine in ${ENGINE:-vllm sglang}; do
  since=$SECONDS
  if ! command -v python3.11 >/dev/null || ! command -v cc >/dev/null || ! command -v readelf >/dev/null; then
    trouble="Python 3.11, cc or binutils are missing"
  elif ! bash "enginetest/setup/$engine/install.sh" "$dir" >"$dir/$engine-install.log" 2>&1; then
    trouble="it could not be installed: $(tail -n 3 "$dir/$engine-install.log")"
  else
    printf '%-11s %-58s %6.1f s  %s\n' "$engine" "installed, or there already" $((SECONDS - since)) "$(du -sh "$dir/$engine" | cut -f1)"
    logs=$dir/$engine-logs
    rm -rf "$logs" && mkdir -p "$logs"
    (cd enginetest && ../bin/enginetest.test -test.timeout 40m -router ../bin/pdrouter -engines "$dir" -only "$engine" -logs "$logs" "$@") || failed=1
    continue
  fi
  echo "engine-test: $engine: $trouble; skipped"
  [ "${CI:-}" != true ] || failed=1
done
echo "engine-test: $((SECONDS - began)) s, logs in $dir/*-logs"
exit $failed
