#!/bin/sh
# The first program of a guest: mounts the root and goes on there. The second serial port is the host's.
export PATH=/bin
mount -t devtmpfs dev /dev
stty -F /dev/ttyS1 raw -echo
echo "@@vm init" > /dev/ttyS1
while read -r module; do
    insmod "/modules/$module" || echo "cannot load $module"
done < /modules/order
tries=0
while [ ! -b /dev/vda ] && [ "$tries" -lt 50 ]; do
    tries=$((tries + 1))
    sleep 0.1
done
mount -t ext4 /dev/vda /root
mount -o move /dev /root/dev
exec switch_root /root /init
