#!/bin/sh
# After files have been taken away. A purge takes what an operator wrote too.
set -e

case "$1" in
  purge)
    rm -rf /etc/pdrouter
    # The state of a service with DynamicUser= is in private, with a link to it.
    rm -rf /var/lib/private/pdrouter /var/lib/private/pdrouter-*
    rm -rf /var/lib/pdrouter /var/lib/pdrouter-*
    rm -rf /etc/systemd/system/pdrouter.service.d /etc/systemd/system/pdrouter@*.service.d
    rm -rf /etc/systemd/system/pdrouter.socket.d /etc/systemd/system/pdrouter-metrics.socket.d
    find /etc/systemd/system -name 'pdrouter*' -type l -exec rm -f {} + 2>/dev/null || true
    find /etc/systemd/system -name 'pdrouter*.wants' -type d -empty -exec rmdir {} + 2>/dev/null || true
    ;;
esac
if [ -d /run/systemd/system ] && [ "$1" != upgrade ]; then
  systemctl daemon-reload || true
  systemctl reset-failed 'pdrouter*' 2>/dev/null || true
fi
