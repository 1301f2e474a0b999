#!/usr/bin/env bash
# Creates the files that tools/vm.sh boots, in the directory of the first argument; creates
# nothing twice.
#
#   kernel         of Debian's stock cloud image, taken out of its package; nothing is installed
#   initramfs.gz   busybox, the modules that the guest needs, tools/vm/init.sh
#   system.sqsh    the files of the Debian packages that this machine has of the groups `sandbox`
#                  and `test` of packages.txt, and all they depend on: a read-only root file system
#
# With VM_ARCH=arm64 all of it is for that processor. Then no files can be taken from this
# machine: the packages are downloaded, with a private state of apt, and unpacked; the steps of
# their maintainer scripts that a test needs are done here.
#
# The cloud kernel has no 9p, and virtiofsd wants to be root, so the system is an image. It is not
# compressed: the guest would have to decompress it under emulation.
set -euo pipefail
cd "$(dirname "$0")/../.."

arch=${VM_ARCH:-amd64}
kernel_package=linux-image-cloud-$arch
modules=(virtio_pci virtio_blk squashfs)

out=$1
mkdir -p "$out"
out=$(cd "$out" && pwd)
scratch=$(mktemp -d "$out/scratch.XXXXXX")
trap 'rm -rf "$scratch"' EXIT

say() { printf 'vm: %s\n' "$*" >&2; }

# The sandbox user of apt cannot write here; downloads are checked by their hashes.
apt_options=(-qq -o APT::Sandbox::User=root)

# apt_private : apt for another processor, without adding it to this machine's dpkg
apt_private() {
    local state=$out/apt
    mkdir -p "$state"/{lists,cache/archives}/partial
    : >"$state/status"
    apt_options+=(-o APT::Architecture="$arch" -o APT::Architectures="$arch"
        -o Dir::State="$state" -o Dir::State::status="$state/status"
        -o Dir::State::lists="$state/lists" -o Dir::Cache="$state/cache")
    apt-get "${apt_options[@]}" update || say "apt-get update failed; continuing"
}

# unpack PACKAGE DIR [APT-OPTION...] : downloads a Debian package and extracts its files
unpack() {
    local package=$1 dir=$2
    shift 2
    mkdir -p "$dir.deb"
    (
        cd "$dir.deb"
        apt-get "$@" download "$package"
        dpkg-deb -x ./*.deb "$dir"
    )
}

# The metapackage only names the current kernel.
kernel_of_the_day() {
    { apt-cache "${apt_options[@]}" depends --no-recommends --no-suggests "$kernel_package" \
        2>/dev/null || true; } |
        sed -n 's/^ *Depends: \(linux-image-[0-9].*\)/\1/p' | head -n 1
}

# module_closure DEPFILE NAME... : files, each after its dependencies
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
    if [[ -x $out/busybox && "${package:-${have%% *}} ${modules[*]}" == "$have" ]]; then
        return
    fi
    if [[ -z $package ]]; then
        say "apt knows no $kernel_package; it is in Debian's main archive (apt-get update?)"
        exit 1
    fi
    say "unpacking $package"
    files=$scratch/files
    unpack "$package" "$files" "${apt_options[@]}"
    unpack busybox-static "$scratch/busybox" "${apt_options[@]}"
    # One for the guest, and one for us.
    [[ $arch == amd64 ]] || unpack busybox-static "$scratch/busybox-here" "${apt_options[@]:0:3}"
    rm -rf "${out:?}/boot"
    mkdir -p "$out/boot/modules" "$out/boot/bin"
    cp "$(find "$scratch/busybox" -path '*bin/busybox' | head -n 1)" "$out/boot/bin/busybox"
    busybox=$out/busybox
    cp "$(find "$scratch"/busybox* -path '*bin/busybox' | tail -n 1)" "$busybox"
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

# The initramfs is small and its init changes with the sources: created each time.
make_initramfs() {
    local root=$scratch/initramfs
    cp -r "$out/boot" "$root"
    mkdir -p "$root"/{proc,sys,dev,system,root}
    install -m 755 tools/vm/init.sh "$root/init"
    local applet
    for applet in sh mount mkdir insmod tar cp switch_root; do
        ln -s busybox "$root/bin/$applet"
    done
    (cd "$root" && find . | "$out/busybox" cpio -o -H newc 2>/dev/null | gzip -1) \
        >"$out/initramfs.gz"
}

# names : the packages of the groups, the libraries that the binary was built with (their -dev
# packages depend on them), and those that a system must have. Not npm: the MCP proofs are not run
# in the guest.
names() {
    awk '/^[[:space:]]*(#|$)/ || $1 == "npm" { next }
         /^\[/                { on = /sandbox|test/; libraries = /build/; next }
         on                   { gsub(/\|/, " "); print }
         libraries && /^lib/  { print }' packages.txt
    dpkg-query -W -f '${Essential} ${Priority} ${Package}\n' |
        awk '$1 == "yes" || $2 == "required" { print $NF }'
}

# packages : the installed packages of the above, with all their dependencies
packages() { names | tools/vm/closure.py; }

# files_of PACKAGE... : the existing files, and those created by maintainer scripts
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
    # A change of these scripts counts like a change of a package.
    cat "$names" tools/vm/image.sh tools/vm/closure.py >"$names.key"
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

# make_system_foreign : the same from downloaded packages
make_system_foreign() {
    local root=$scratch/system deb library dir
    names | sort -u >"$scratch/names.key"
    cat tools/vm/image.sh >>"$scratch/names.key"
    if [[ -f $out/system.sqsh ]] && cmp -s "$scratch/names.key" "$out/system.key"; then
        return
    fi
    say "downloading the packages of a system for $arch"
    names | xargs apt-get "${apt_options[@]}" -y --download-only \
        --no-install-recommends install >/dev/null
    say "packing $(find "$out/apt/cache/archives" -name '*.deb' | wc -l) packages"
    mkdir -p "$root"/usr/{bin,sbin,lib} "$root"/{proc,sys,dev,tmp,run,root,home}
    mkdir -p "$root"/{var/tmp,etc/ssl/certs}
    ln -s usr/bin usr/sbin usr/lib "$root/"
    for deb in "$out"/apt/cache/archives/*.deb; do
        dpkg-deb --fsys-tarfile "$deb" | tar -x -C "$root" --keep-directory-symlink
    done
    rm -rf "$root"/usr/{include,share/{doc,man,info,locale,lintian,bug}}
    find "$root/usr/lib" -name '*.a' -delete
    # update-alternatives
    dir=$root/usr/lib/aarch64-linux-gnu
    for library in blas lapack; do
        ln -sf "$library/lib$library.so.3" "$dir/lib$library.so.3"
    done
    # ca-certificates, tzdata, py3compile; the byte code is the same for all processors
    find "$root/usr/share/ca-certificates" -name '*.crt' -exec cat {} + \
        >"$root/etc/ssl/certs/ca-certificates.crt"
    ln -sf /usr/share/zoneinfo/Etc/UTC "$root/etc/localtime"
    python3 -m compileall -q -j 2 -s "$root" "$root"/usr/lib/python3* >/dev/null || true
    rm -f "$scratch/system.sqsh"
    (cd "$root" && tar -c --owner=0 --group=0 --numeric-owner ./*) |
        sqfstar -quiet -no-progress -noI -noD -noF -noX -no-xattrs "$scratch/system.sqsh" >&2
    mv "$scratch/system.sqsh" "$out/system.sqsh"
    mv "$scratch/names.key" "$out/system.key"
}

if [[ $arch == amd64 ]]; then
    make_kernel
    make_initramfs
    make_system
else
    apt_private
    make_kernel
    make_initramfs
    make_system_foreign
fi
