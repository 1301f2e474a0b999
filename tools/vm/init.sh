#!/bin/sh
# The first program in the guest, from the initramfs, run by busybox: loads the modules packed for
# it (modules.list is in dependency order), creates a root in memory with the image's /usr, unpacks
# the project, and hands over to guest.sh.
set -e

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev

while read -r module; do
    insmod "/modules/$module"
done </modules.list

# /dev/vda is the system, /dev/vdb a plain tar archive of the project. Only /usr is large, and
# nothing writes there. No overlay: its mount options would show its layers in every box.
mount -t squashfs -o ro /dev/vda /system
mount -t tmpfs -o mode=755 root /root
for entry in /system/*; do
    [ "$entry" = /system/usr ] || cp -a "$entry" /root/
done
mkdir -p /root/usr /root/glovebox
mount --bind /system/usr /root/usr
tar -x -C /root/glovebox </dev/vdb

cp /bin/busybox /root/run/busybox
for dir in proc sys dev; do
    mount --move "/$dir" "/root/$dir"
done
exec switch_root /root /bin/sh /glovebox/.vm/guest.sh
