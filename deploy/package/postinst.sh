#!/bin/sh
# After files have been put in place, at first or over older ones; deb and rpm.
set -e

[ -d /run/systemd/system ] || exit 0
case "$1" in
  configure) before=$2 ;;           # deb: the version that was there, if any
  1) before= ;;                     # rpm: the first of it
  [2-9]*) before=an-older-one ;;
  *) exit 0 ;;
esac

systemctl daemon-reload
if [ -z "$before" ]; then
  # Nothing is enabled or started: it has not been told its workers yet.
  echo "pdrouter: tell it its workers in /etc/pdrouter/pdrouter.yaml, then systemctl enable --now pdrouter"
  exit 0
fi
# Those that run become the new version, with their connections: none is closed
# and no stream is cut. One that cannot goes on running as the old one, which is no
# reason to leave the package broken.
for unit in $(systemctl list-units --plain --no-legend --state=active 'pdrouter.service' 'pdrouter@*.service' | cut -d' ' -f1); do
  instance=${unit%.service}
  instance=${instance#pdrouter}
  pdrouter upgrade --admin-socket "/run/pdrouter${instance:+-${instance#@}}/admin.sock" ||
    echo "pdrouter: $unit runs on as the old version; see why above, then: systemctl restart $unit" >&2
done
