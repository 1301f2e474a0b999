#!/bin/sh
# The first program in the guest, from the initramfs, run by busybox: loads the modules that were
# packed for it (modules.list is in the order in which they need each other), puts a writable layer
# over the read-only system image, unpacks the project, and hands over to guest.sh.
set -e

mount -t proc proc /proc
mount -t sysfs sysfs /sys
mount -t devtmpfs dev /dev

while read -r module; do
    insmod "/modules/$module"
done </modules.list

# /dev/vda is the system, /dev/vdb a plain tar archive of the project.
mount -t tmpfs -o mode=755 layer /layer
mkdir /layer/upper /layer/work
mount -t squashfs -o ro /dev/vda /system
mount -t overlay -o lowerdir=/system,upperdir=/layer/upper,workdir=/layer/work overlay /root
mkdir -p /root/glovebox
tar -x -C /root/glovebox </dev/vdb

cp /bin/busybox /root/run/busybox
for dir in proc sys dev; do
    mount --move "/$dir" "/root/$dir"
done
exec switch_root /root /bin/sh /glovebox/.vm/guest.sh
