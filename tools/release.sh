#!/usr/bin/env bash
# usage: release.sh DIR
# Makes what a release consists of in DIR: packages of both architectures, the
# programs alone, an SBOM (CycloneDX) of each, and the checksums of them all.
set -euo pipefail
cd "$(dirname "$0")/.."
GOTOOLCHAIN=${GOTOOLCHAIN:-$(cat tools/toolchain)} # the one with which make vulncheck finds nothing
export GOTOOLCHAIN
dist=$1
rm -rf "$dist"/*.deb "$dist"/*.rpm "$dist"/pdrouter-linux-* "$dist/SHA256SUMS" # of other versions
bash tools/package.sh "$dist" amd64 arm64
for arch in amd64 arm64; do
  cp "$dist/stage/$arch/pdrouter" "$dist/pdrouter-linux-$arch"
  go tool -modfile=tools/pack/go.mod cyclonedx-gomod bin -json -noserial -notimestamp -output "$dist/pdrouter-linux-$arch.cdx.json" "$dist/pdrouter-linux-$arch" 2>/dev/null
done
rm -rf "$dist/stage"
cd "$dist"
sha256sum -- *.deb *.rpm pdrouter-linux-* >SHA256SUMS
cat SHA256SUMS
