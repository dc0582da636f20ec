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
# Those that run become the new version, with their connections. One that cannot
# goes on running as the old one, which is no reason to leave the package broken.
for unit in $(systemctl list-units --plain --no-legend --state=active 'pdrouter.service' 'pdrouter@*.service' | cut -d' ' -f1); do
  systemctl try-restart "$unit" || echo "pdrouter: $unit could not be restarted" >&2
done
