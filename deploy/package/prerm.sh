#!/bin/sh
# Before files are taken away: what runs is stopped, unless others take their place.
set -e

[ -d /run/systemd/system ] || exit 0
case "$1" in
  remove | 0)
    systemctl disable --now pdrouter.target pdrouter.socket pdrouter-metrics.socket pdrouter.service 'pdrouter@*.service' >/dev/null 2>&1 || true
    systemctl stop pdrouter.target pdrouter.socket pdrouter-metrics.socket pdrouter.service 'pdrouter@*.service' || true
    ;;
esac
