#!/bin/bash
# usage: boot.sh DIR FILES
# Boots this machine's own systemd as PID 1 of new namespaces, over an overlay of
# its root directory: nothing of the host is written. DIR is an empty directory to
# mount things on, FILES a directory whose contents are found under /opt/hosttest.
# Ends when that systemd does.
set -eu
groups=$(awk '$3 == "cgroup2" {print $2; exit}' /proc/mounts)/pdrouter-hosttest.$$
mkdir "$groups"
echo $$ >"$groups/cgroup.procs"
exec unshare --pid --mount --uts --ipc --net --cgroup --fork --kill-child --propagation private bash -c '
set -eu
dir=$1 files=$2
mount -t tmpfs tmpfs "$dir"
mkdir "$dir/upper" "$dir/work" "$dir/root"
root=$dir/root
mount -t overlay overlay -o "lowerdir=/,upperdir=$dir/upper,workdir=$dir/work" "$root"
mkdir -p "$root/opt/hosttest"
cp -a "$files/." "$root/opt/hosttest/"
hostname pdhost
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 tmpfs "$root/dev"
for device in null zero full random urandom tty; do
  touch "$root/dev/$device"
  mount --bind "/dev/$device" "$root/dev/$device"
done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666,mode=620 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
ln -s /proc/self/fd "$root/dev/fd"
mount -t tmpfs tmpfs "$root/dev/shm"
mount -t tmpfs -o mode=755 tmpfs "$root/run"
mount -t tmpfs tmpfs "$root/tmp"
# A journal of its own, and no units of the host but those of systemd.
rm -rf "$root/var/log/journal"
for unit in "$root"/etc/systemd/system/*.wants/*; do
  case "$unit" in */getty@* | */*.timer | */*.service | */*.socket) rm -f "$unit" ;; esac
done
ip link set lo up
cd "$root"
mkdir -p mnt
pivot_root . mnt
umount -l /mnt
mount --make-rshared /
exec env -i container=hosttest PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd --system --log-target=journal --show-status=no --unit=basic.target
' boot "$1" "$2"
