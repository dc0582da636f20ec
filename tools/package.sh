#!/usr/bin/env bash
# usage: package.sh DIR [ARCH...]
# Makes a deb and an rpm of each architecture (default: this machine's) in DIR.
# The same commit gives the same bytes. VERSION and SOURCE_DATE_EPOCH may be set;
# they are those of the commit else. The rest is what release.sh needs.
set -euo pipefail
cd "$(dirname "$0")/.."
dist=$1
shift
[ $# -gt 0 ] || set -- "$(go env GOARCH)"
export TZ=UTC LC_ALL=C GOFLAGS=-mod=readonly
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct)}

# A tag v1.2.3, and what came after it: 1.2.3+4.gabcdef0. Without one, the time of
# the commit, so that later ones are newer.
version() {
  local tag
  if tag=$(git describe --tags --match 'v[0-9]*' 2>/dev/null); then
    echo "${tag#v}" | sed -E 's/-([0-9]+)-(g[0-9a-f]+)$/+\1.\2/; s/-/~/g'
  else
    echo "0.0.0~git$(date -d "@$SOURCE_DATE_EPOCH" +%Y%m%d%H%M%S).$(git rev-parse --short=8 HEAD)"
  fi
}
VERSION=${VERSION:-$(version)}
MTIME=$(date -d "@$SOURCE_DATE_EPOCH" +%Y-%m-%dT%H:%M:%SZ)
STAGE=$dist/stage
rm -rf "$STAGE"
mkdir -p "$STAGE/completion"

build() { # OS and architecture are the environment's
  CGO_ENABLED=0 go build -trimpath -ldflags "-s -w -X main.version=v$VERSION" -o "$1" ./cmd/pdrouter
}
build "$STAGE/native"
for shell in bash zsh fish; do "$STAGE/native" completion "$shell" >"$STAGE/completion/$shell"; done
go test ./cmd/pdrouter -count=1 -run '^TestManPages$' -man "$(realpath "$STAGE")/man" >/dev/null
cp -r systemd/examples "$STAGE/examples"
for part in prometheus grafana; do
  [ ! -d "deploy/$part" ] || cp -r "deploy/$part" "$STAGE/examples/"
done
rm -rf "$STAGE/examples/prometheus/tests"
chmod -R u=rwX,go=rX "$STAGE/examples"
gzip -9n "$STAGE"/man/*.1
cat >"$STAGE/changelog.yaml" <<END
- semver: $VERSION
  date: $MTIME
  packager: pdrouter maintainers <maintainers@pdrouter.invalid>
  deb: {urgency: medium, distributions: [stable]}
  changes: [{note: "See CHANGELOG.md of this version."}]
END
for ARCH in "$@"; do
  GOOS=linux GOARCH=$ARCH build "$STAGE/$ARCH/pdrouter"
  sed "s|\${STAGE}|$STAGE|g; s|\${ARCH}|$ARCH|g; s|\${VERSION}|$VERSION|g; s|\${MTIME}|$MTIME|g" deploy/package/nfpm.yaml >"$STAGE/nfpm.yaml"
  for packager in deb rpm; do
    go tool -modfile=tools/pack/go.mod nfpm package --config "$STAGE/nfpm.yaml" --packager "$packager" --target "$dist"
  done
done
