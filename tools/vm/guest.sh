#!/bin/sh
# PID 1 of the guest once the system image is the root: sets it up as systemd would (mounts,
# loopback, a tree of cgroups), runs /glovebox/.vm/command as each of the users that
# /glovebox/.vm/who names, writes the highest exit status to the third disk, and powers off the
# machine.
#
# Who, and the cgroup in which the command starts:
#   root     root, in its own service
#   user     uid 64001, nameless, in a scope of a cgroup tree that was delegated to it
#   subids   the same with a name and a range of subordinate ids
#   service  uid 64001 in a system service with User= and Delegate=yes: only its group is delegated
#   login    uid 64001 in a session that belongs to root: nothing is delegated
uid=64001
cgroups=/sys/fs/cgroup
busybox=/run/busybox

export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
exec >/dev/console 2>&1 </dev/null
# The line is a pipe to a terminal on the host, which adds its own carriage returns.
$busybox stty -F /dev/console -onlcr

mount_all() {
    mkdir -p /dev/shm /dev/pts
    mount -t tmpfs -o nosuid,nodev shm /dev/shm
    mount -t devpts -o nosuid,noexec,gid=5,mode=620,ptmxmode=666 devpts /dev/pts
    mount -t tmpfs -o nosuid,nodev,mode=1777 tmp /tmp
    # As systemd mounts it.
    mount -t cgroup2 -o nosuid,nodev,noexec,nsdelegate,memory_recursiveprot cgroup2 $cgroups
    ln -sf /proc/self/fd /dev/fd
    ln -sf /proc/self/fd/0 /dev/stdin
    ln -sf /proc/self/fd/1 /dev/stdout
    ln -sf /proc/self/fd/2 /dev/stderr
}

accounts() {
    cp /usr/share/base-passwd/passwd.master /etc/passwd
    cp /usr/share/base-passwd/group.master /etc/group
    : >/etc/subuid
    : >/etc/subgid
    [ "$1" = subids ] || return 0
    echo "gbtest:x:$uid:$uid::/home/gbtest:/bin/sh" >>/etc/passwd
    echo "gbtest:x:$uid:" >>/etc/group
    echo "gbtest:1800000000:65536" | tee /etc/subuid >/etc/subgid
}

# cgroup_path PATH : creates it, with the controllers enabled in every group on the way
cgroup_path() {
    at=$cgroups
    for part in $(echo "$1" | tr / ' '); do
        echo "+memory +pids +cpu" >"$at/cgroup.subtree_control"
        at=$at/$part
        mkdir -p "$at"
    done
}

# cgroup_give PATH : delegates it as `Delegate=yes` and systemd --user do
cgroup_give() {
    chown $uid:$uid "$1" "$1/cgroup.procs" "$1/cgroup.subtree_control" "$1/cgroup.threads"
}

# place WHO : the cgroup tree of such a user; prints the group in which the command starts
place() {
    cgroup_path init.scope
    echo 1 >$cgroups/init.scope/cgroup.procs
    case $1 in
    root)
        cgroup_path system.slice/vm.service
        ;;
    service)
        cgroup_path system.slice/vm.service
        cgroup_give "$at"
        ;;
    login)
        cgroup_path user.slice/user-$uid.slice/session-1.scope
        ;;
    *)
        cgroup_path user.slice/user-$uid.slice/user@$uid.service/app.slice/vm.scope
        for dir in "${at%/*/*}" "${at%/*}" "$at"; do
            cgroup_give "$dir"
        done
        ;;
    esac
    echo "$at"
}

# run WHO : the command, in its cgroup, under its user; its status is our status
run() {
    as=
    [ "$1" = root ] || as="setpriv --reuid=$uid --regid=$uid --clear-groups --inh-caps=-all"
    mkdir -p /home/gbtest
    chown $uid:$uid /home/gbtest
    home=/home/gbtest
    [ "$1" != root ] || home=/root
    group=$(place "$1")
    (
        exec 3>&-
        # shellcheck disable=SC3028 # not $$, which is 1 in here
        sh -c 'echo $PPID' >"$group/cgroup.procs"
        cd /glovebox || exit 125
        # shellcheck disable=SC2086 # words, split on purpose
        exec env -i PATH="$PATH" HOME=$home LANG=C.UTF-8 $as \
            bash /glovebox/.vm/command
    )
}

read -r everybody </glovebox/.vm/who
mount_all
hostname glovebox-vm
$busybox ip link set lo up
highest=0
for who in $everybody; do
    accounts "$who"
    [ "$who" = "$everybody" ] || printf '\n== as %s\n' "$who"
    # Through a pipe, so that nothing of the command has the console.
    {
        run "$who" 2>&1 3>&-
        echo $? >&3
    } 3>/run/status | cat
    read -r status </run/status
    [ "$status" -le "$highest" ] || highest=$status
done
echo "$highest" >/dev/vdc
sync
# The kernel's last message has the level of an emergency.
echo 0 >/proc/sys/kernel/printk
$busybox poweroff -f
