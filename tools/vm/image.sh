#!/usr/bin/env bash
# Makes, in the directory of the first argument, what tools/vm.sh boots; makes nothing twice.
#
#   kernel         of Debian's stock cloud image, taken out of its package; nothing is installed
#   initramfs.gz   busybox, the modules that the guest needs, tools/vm/init.sh
#   system.sqsh    the files of the Debian packages that this machine has of the groups `sandbox`
#                  and `test` of packages.txt, and all they depend on: a read-only root file system
#
# The cloud kernel has no 9p, and virtiofsd wants to be root, so the system is an image. It is not
# compressed: the guest would have to undo it under emulation.
set -euo pipefail
cd "$(dirname "$0")/../.."

kernel_package=linux-image-cloud-amd64
modules=(virtio_pci virtio_blk squashfs)

out=$1
mkdir -p "$out"
out=$(cd "$out" && pwd)
scratch=$(mktemp -d "$out/scratch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

say() { printf 'vm: %s\n' "$*" >&2; }

# unpack PACKAGE DIR : downloads a Debian package and takes its files out
unpack() {
    mkdir -p "$scratch/$1"
    (
        cd "$scratch/$1"
        # The sandbox user of apt cannot write here; what it fetches is checked by its hash.
        apt-get -qq -o APT::Sandbox::User=root download "$1"
        dpkg-deb -x ./*.deb "$2"
    )
}

# The metapackage only names the kernel of the day.
kernel_of_the_day() {
    { apt-cache depends --no-recommends --no-suggests "$kernel_package" 2>/dev/null || true; } |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
}

# module_closure DEPFILE NAME... : files, each after those it needs
module_closure() {
    local dep=$1
    shift
    awk -v wanted="$*" '
        { file = $1; sub(/:$/, "", file); name = file; gsub(/.*\/|\.ko.*/, "", name)
          path[name] = file; needs[file] = substr($0, length($1) + 1) }
        function load(file,    n, i, list) {
            if (seen[file]++)
                return
            n = split(needs[file], list, " ")
            for (i = n; i > 0; i--)
                load(list[i])
            print file
        }
        END { n = split(wanted, list, " ")
              for (i = 1; i <= n; i++) if (list[i] in path) load(path[list[i]]) }' "$dep"
}

make_kernel() {
    local package have files busybox root file
    package=$(kernel_of_the_day)
    have=$(cat "$out/kernel.name" 2>/dev/null || true)
    if [[ -n $have && "${package:-${have%% *}} ${modules[*]}" == "$have" ]]; then
        return
    fi
    if [[ -z $package ]]; then
        say "apt knows no $kernel_package; it is in Debian's main archive (apt-get update?)"
        exit 1
    fi
    say "unpacking $package"
    files=$scratch/files
    unpack "$package" "$files"
    unpack busybox-static "$scratch/busybox"
    rm -rf "${out:?}/boot"
    mkdir -p "$out/boot/modules" "$out/boot/bin"
    busybox=$out/boot/bin/busybox
    cp "$(find "$scratch/busybox" -path '*bin/busybox' | head -n 1)" "$busybox"
    root=$(echo "$files"/lib/modules/*)
    "$busybox" depmod -b "$files" "${root##*/}"
    : >"$out/boot/modules.list"
    module_closure "$root/modules.dep" "${modules[@]}" | while read -r file; do
        cp "$root/$file" "$out/boot/modules/"
        echo "${file##*/}" >>"$out/boot/modules.list"
    done
    cp "$files"/boot/vmlinuz-* "$out/kernel"
    echo "$package ${modules[*]}" >"$out/kernel.name"
}

# The initramfs is small and its init changes with the sources: made anew each time.
make_initramfs() {
    local root=$scratch/initramfs
    cp -r "$out/boot" "$root"
    mkdir -p "$root"/{proc,sys,dev,system,root}
    install -m 755 tools/vm/init.sh "$root/init"
    local busybox=$root/bin/busybox applet
    for applet in sh mount mkdir insmod tar cp switch_root; do
        ln -s busybox "$root/bin/$applet"
    done
    (cd "$root" && find . | "$busybox" cpio -o -H newc 2>/dev/null | gzip -1) \
        >"$out/initramfs.gz"
}

# packages : what is installed of the groups and of what a system must have, with all they need
packages() {
    local names
    names=$({
        awk '/^[[:space:]]*(#|$)/ { next }
             /^\[/ { on = /sandbox|test/; next }
             on    { gsub(/\|/, " "); print }' packages.txt
        dpkg-query -W -f '${Essential} ${Priority} ${Package}\n' |
            awk '$1 == "yes" || $2 == "required" { print $NF }'
        echo libjansson4
    } | xargs apt-cache depends --recurse --installed --no-recommends --no-suggests \
        --no-conflicts --no-breaks --no-replaces --no-enhances 2>/dev/null |
        sed -n 's/^\([a-z0-9][^:<]*\).*/\1/p' | sort -u)
    # Some are virtual; dpkg-query says so and fails.
    # shellcheck disable=SC2086 # names, split on purpose
    {
        dpkg-query -W -f '${db:Status-Status} ${binary:Package} ${Version}\n' $names \
            2>/dev/null || true
    } | sed -n 's/^installed //p'
}

# files_of PACKAGE... : the files that are there, and what maintainer scripts have made of them
files_of() {
    local skip='/usr/(include|lib/gcc|src|share/(doc|man|info|locale|lintian|bug|unicode))/'
    {
        dpkg-query -L "$@" |
            sed -n -E 's#^/(bin|sbin|lib|lib32|lib64|libx32)/#/usr/\1/#; /^\/[^.]/p' |
            grep -v -E "^$skip|\.a\$"
        printf '%s\n' /bin /sbin /lib /lib32 /lib64 /libx32 /etc/ld.so.cache /etc/localtime \
            /etc/alternatives /etc/ssl/certs
        find /etc/alternatives /etc/ssl/certs -mindepth 1
        find /usr/bin /usr/sbin /usr/lib -lname '/etc/alternatives/*'
    } | sort -u | while read -r path; do
        [[ ! -e $path && ! -L $path ]] || echo "${path#/}"
    done
}

make_system() {
    local names=$scratch/packages
    packages >"$names"
    # A change of what is packed counts like a change of a package.
    cat "$names" tools/vm/image.sh >"$names.key"
    if [[ -f $out/system.sqsh ]] && cmp -s "$names.key" "$out/system.key"; then
        return
    fi
    say "packing the files of $(wc -l <"$names") packages"
    # shellcheck disable=SC2046 # names, split on purpose
    files_of $(cut -d ' ' -f 1 "$names") >"$scratch/files.list"
    # Compiled Python is not in the packages, but without it every import is slow.
    sed -n 's#/[^/]*\.py$#/__pycache__#p' "$scratch/files.list" | sort -u |
        while read -r dir; do [[ ! -d /$dir ]] || echo "$dir"; done >"$scratch/compiled.list"
    rm -f "$scratch/system.sqsh"
    tar -C / -c --ignore-failed-read --warning=no-failed-read --owner=0 --group=0 --numeric-owner \
        --no-recursion -T "$scratch/files.list" --recursion -T "$scratch/compiled.list" |
        sqfstar -quiet -no-progress -noI -noD -noF -noX -no-xattrs "$scratch/system.sqsh" >&2
    mv "$scratch/system.sqsh" "$out/system.sqsh"
    mv "$names.key" "$out/system.key"
}

make_kernel
make_initramfs
make_system
