#!/usr/bin/env bash
# Makes packages of two versions, looks whether the same commit gives the same
# bytes and whether lintian finds errors, and tries them on a real systemd
# (systemd/hosttest). Needs root, systemd and dpkg; where these are missing it says
# so and does nothing, which is a failure in CI that runs as root.
set -euo pipefail
cd "$(dirname "$0")/.."

skip() {
  echo "host-test: $1"
  if [ "${CI:-}" = true ] && [ "$(id -u)" = 0 ]; then exit 1; fi
  exit 0
}
[ "$(id -u)" = 0 ] || skip "not root, so no systemd can be booted; skipped"
for program in systemd-analyze systemd-run unshare nsenter setpriv dpkg rpm lintian; do
  if ! command -v $program >/dev/null; then
    { apt-get update -qq && apt-get install -y -qq --no-install-recommends systemd util-linux rpm lintian; } >/dev/null 2>&1 || true
  fi
  command -v $program >/dev/null || skip "$program is missing; skipped"
done
[ -x /lib/systemd/systemd ] || skip "no systemd; skipped"
grep -q ' cgroup2 ' /proc/mounts || skip "no cgroup2; skipped"
[ -x .cache/prometheus/usr/bin/prometheus ] || skip ".cache/prometheus is missing: make e2e-setup; skipped"

work=dist/host
rm -rf $work
mkdir -p $work/files
make_packages() { # into $1
  bash tools/package.sh "$1" >"$1.log" 2>&1 || { cat "$1.log"; exit 1; }
}
for version in old again; do make_packages $work/$version; done
VERSION=$(dpkg-deb -f $work/old/*.deb Version)+upgrade make_packages $work/new
for package in $work/old/*.deb $work/old/*.rpm; do
  cmp "$package" "$work/again/$(basename "$package")" || { echo "host-test: built twice, $package differs"; exit 1; }
done
echo "built twice, the packages are equal: $(cd $work/old && ls ./*.deb ./*.rpm | tr '\n' ' ')"
lintian --fail-on error --suppress-tags bad-distribution-in-changes-file $work/old/*.deb 2>&1 | grep -v '^running with root' | tee $work/lintian.log || true
! grep -q '^E:' $work/lintian.log || { echo "host-test: lintian finds errors"; exit 1; }
rpm -qp --scripts $work/old/*.rpm >/dev/null
cp $work/old/*.deb $work/files/old.deb
cp $work/new/*.deb $work/files/new.deb
cp .cache/prometheus/usr/bin/prometheus $work/files/
CGO_ENABLED=0 go build -o $work/files/hosttest ./systemd/hosttest
$work/files/hosttest -files $work/files "$@"
