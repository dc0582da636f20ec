#!/usr/bin/env bash
# Makes what the tests need beside Go: a Python virtual environment (.venv) with
# the official clients and uvicorn, the npm client in .cache/node, and
# Debian's Prometheus in .cache/prometheus (unpacked, not installed: nothing is
# started). What cannot be had is said, and the tests that need it are skipped;
# with CI=true they fail.
set -uo pipefail
cd "$(dirname "$0")/.."
wanted=cmd/pdrouter/testdata/clients

have() { command -v "$1" >/dev/null 2>&1; }

if have apt-get && [ "$(id -u)" = 0 ] && ! python3 -c 'import venv, ensurepip' 2>/dev/null; then
  apt-get update -qq && apt-get install -y -qq python3 python3-venv || echo "setup: python3-venv could not be installed"
fi
if [ ! -f .venv/ok ] || ! cmp -s .venv/ok "$wanted/requirements.txt"; then
  if have python3 && python3 -m venv .venv && .venv/bin/pip install -q -r "$wanted/requirements.txt"; then
    cp "$wanted/requirements.txt" .venv/ok
  else
    echo "setup: no Python environment; tests with uvicorn and the Python client are skipped"
  fi
fi
if have apt-get && [ "$(id -u)" = 0 ] && ! have curl; then
  apt-get update -qq && apt-get install -y -qq curl || echo "setup: curl could not be installed"
fi
if have apt-get && [ "$(id -u)" = 0 ] && ! have npm; then
  apt-get update -qq && apt-get install -y -qq nodejs npm || echo "setup: npm could not be installed"
fi
if [ ! -f .cache/node/ok ] || ! cmp -s .cache/node/ok "$wanted/package.json"; then
  mkdir -p .cache/node && cp "$wanted/package.json" .cache/node/
  if have npm && (cd .cache/node && npm install --silent --no-audit --no-fund --no-package-lock); then
    cp "$wanted/package.json" .cache/node/ok
  else
    echo "setup: no npm client; tests with it are skipped"
  fi
fi
if [ ! -x .cache/prometheus/usr/bin/prometheus ]; then
  mkdir -p .cache/prometheus
  fetch() { (cd .cache/prometheus && apt-get download -qq prometheus && dpkg-deb -x prometheus_*.deb . && rm prometheus_*.deb); }
  if ! have apt-get || ! { fetch 2>/dev/null || { [ "$(id -u)" = 0 ] && apt-get update -qq && fetch; }; }; then
    echo "setup: no Prometheus; the test with it is skipped"
  fi
fi
exit 0
