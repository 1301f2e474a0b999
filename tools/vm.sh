#!/usr/bin/env bash
# Runs a command in a virtual machine with Debian's stock cloud kernel and cgroup v2, and exits with
# its status. QEMU emulates the processor, so no KVM and no root is needed; it is ten to twenty
# times slower than this machine.
#
#   tools/vm.sh [--as WHO[,WHO...]] [--limit SECONDS] [--with FILE]... COMMAND [ARG...]
#
# WHO is root (the default), user, subids, service or login. Several of them run the command one after
# the other in one boot; the status is then the highest of theirs.
#
# The command starts in a copy of the project, with the binary in build/glovebox and the files of
# --with beside it; files that it writes are not copied back. tools/vm/guest.sh explains the users
# of --as and the cgroups in which they start. Environment: GLOVEBOX (the binary; default
# build/glovebox), VM_DIR (build/vm), VM_MEMORY (10G), VM_CPUS (2); GB_* goes to the guest.
# VM_ARCH=arm64 emulates that processor instead of amd64, from build-aarch64 (`make cross`) and with
# a separate Debian, which is downloaded (qemu-system-arm must be installed).
#
# The command's output is sent over the serial line, its status is written to a disk: a number
# there was written by tools/vm/guest.sh, whatever the output says. Status 124: the limit was hit;
# 125: the machine did not shut down by itself.
set -euo pipefail
here=$(pwd)
cd "$(dirname "$0")/.."

who=root
limit=3600
with=()
while [[ ${1:-} == --* ]]; do
    case $1 in
    --as) who=$2 ;;
    --limit) limit=$2 ;;
    --with) with+=("$(cd "$here" && realpath "$2")") ;;
    *)
        echo "vm: no option '$1'" >&2
        exit 2
        ;;
    esac
    shift 2
done
if [[ $# == 0 || ! $who, =~ ^((root|user|subids|service|login),)+$ || ! $limit =~ ^[0-9]+$ ]]; then
    sed -n 's/^#   \(tools\/vm.sh.*\)/usage: \1/p' "$0" >&2
    exit 2
fi
case ${VM_ARCH:=amd64} in
amd64)
    build=build
    dir=${VM_DIR:-build/vm}
    # An old processor: with what newer ones have the libraries choose code that is slower to emulate.
    emulator=(qemu-system-x86_64 -cpu Nehalem)
    machine=
    # The kernel calibrates the TSC when it boots; when this machine stalled meanwhile, the result
    # was wrong once, and its seconds were twenty times too short. The ACPI timer needs no
    # calibration.
    console='ttyS0 tsc=unstable clocksource=acpi_pm no_timer_check'
    ;;
arm64)
    build='build-aarch64'
    dir=${VM_DIR:-build-aarch64/vm}
    # Pointer authentication as the architecture describes it is slow to emulate.
    emulator=(qemu-system-aarch64 -cpu "max,pauth-impdef=on,sve=off")
    machine=virt,
    console=ttyAMA0
    ;;
*)
    echo "vm: VM_ARCH is amd64 or arm64" >&2
    exit 2
    ;;
esac
export VM_ARCH
memory=${VM_MEMORY:-10G}
binary=$(cd "$here" && realpath "${GLOVEBOX:-$OLDPWD/$build/glovebox}")

tools/vm/image.sh "$dir"
scratch=$(mktemp -d "$dir/run.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

# project : a tar archive of the sources, the binary, and the command for the guest
project() {
    mkdir -p "$scratch/stage/.vm" "$scratch/stage/build"
    [[ ${#with[@]} == 0 ]] || cp "${with[@]}" "$scratch/stage/build/"
    cp "$binary" "$scratch/stage/build/glovebox"
    cp tools/vm/guest.sh "$scratch/stage/.vm/"
    echo "${who//,/ }" >"$scratch/stage/.vm/who"
    {
        # shellcheck disable=SC2086 # names, split on purpose
        [[ -z ${!GB_*} ]] || declare -p ${!GB_*}
        printf 'exec'
        printf ' %q' "$@"
        echo
    } >"$scratch/stage/.vm/command"
    tar -c --owner=0 --group=0 --mode=a+rX --exclude=./build --exclude='./build-*' \
        --exclude=./.git --exclude=__pycache__ . -C "$scratch/stage" .vm build
}
project "$@" >"$scratch/project.tar"

# Much of the memory is never touched: some tests reserve 8 GB, and the guest's kernel would refuse
# more than it has. Mitigations only cost time here: an emulated processor's caches cannot be
# attacked.
status=0
truncate --size 512 "$scratch/status"
timeout --kill-after=5 "$limit" "${emulator[@]}" \
    -accel tcg,thread=multi,tb-size=512 -smp "${VM_CPUS:-2}" -m "$memory" \
    -object "memory-backend-ram,id=memory,size=$memory,reserve=off" \
    -machine "${machine}memory-backend=memory" \
    -nodefaults -no-user-config -no-reboot -display none \
    -kernel "$dir/kernel" -initrd "$dir/initramfs.gz" \
    -append "console=$console loglevel=3 panic=-1 mitigations=off" \
    -drive "file=$dir/system.sqsh,if=virtio,format=raw,readonly=on" \
    -drive "file=$scratch/project.tar,if=virtio,format=raw,readonly=on" \
    -drive "file=$scratch/status,if=virtio,format=raw" \
    -chardev stdio,id=console,signal=off -serial chardev:console </dev/null || status=$?

if [[ $status == 124 || $status == 137 ]]; then
    echo "vm: stopped after $limit s" >&2
    exit 124
fi
answer=$(tr -d '\0\n' <"$scratch/status")
if [[ ! $answer =~ ^[0-9]+$ ]]; then
    echo "vm: the machine stopped without a status (qemu: $status)" >&2
    exit 125
fi
exit "$answer"
