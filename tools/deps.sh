#!/usr/bin/env bash
# Installs the missing packages of packages.txt. Prints nothing if all are
# installed.
#
#   tools/deps.sh [GROUP...]      groups of packages.txt, all of them by default
#
# Apt is called as root, or through sudo if it can ask for a password; otherwise the exact command
# is printed. On a system without apt, or without Linux, it says what is needed and where to get
# it. It must start on bash 3.2, the version of macOS.
set -euo pipefail

root=$(cd "$(dirname "$0")/.." && pwd)
list=$root/packages.txt

say() { printf 'glovebox: %s\n' "$*" >&2; }

not_linux() {
    say "this is $(uname -s); boxes are made of Linux namespaces, seccomp and cgroups."
    cat >&2 <<'END'

Two ways to run Linux here:

  Windows   WSL2    wsl --install -d Debian
                    https://learn.microsoft.com/windows/wsl/install
  macOS     Lima    brew install lima
                    limactl start --name=debian template://debian-12 && limactl shell debian
                    https://lima-vm.io

Then clone the project inside it and run the same make command.
END
    exit 1
}

# wanted GROUP... : the packages of these groups, one per line (a line may hold alternatives)
wanted() {
    awk -v groups=" $* " '
        /^[[:space:]]*(#|$)/ { next }
        /^\[/                { gsub(/[][[:space:]]/, ""); on = index(groups, " " $0 " "); next }
        on && !seen[$0]++    { print }' "$list"
}

group_names() { sed -n 's/^\[\(.*\)\]$/\1/p' "$list"; }

no_apt() {
    say "apt is not available; please install the equivalents of these Debian packages yourself:"
    local group
    for group in "${groups[@]}"; do
        printf '\n  %-8s %s\n' "$group" "$(wanted "$group" | sed 's/ |.*//' | tr '\n' ' ')"
    done >&2
    cat >&2 <<'END'

What each contains:                 https://packages.debian.org/bookworm/<name>
What your system calls it:          https://repology.org/projects/
When they are installed, run make again with NO_DEPS=1.
END
    exit 1
}

# missing : lines of packages.txt (stdin) of which no alternative is installed; dpkg is asked once.
# Packages provided by others count too: npm may be part of nodejs.
missing() {
    local lines
    lines=$(cat)
    {
        dpkg-query -W -f '${db:Status-Status} ${Package} ${Provides}\n' 2>/dev/null || true
        printf '%s\n' --- "$lines"
    } | awk '
        $1 == "---"        { asked = 1; next }
        !asked && $1 == "installed" {
            gsub(/\([^)]*\)|,/, " ")
            for (i = 2; i <= NF; i++)
                have[$i] = 1
        }
        !asked             { next }
        {
            for (i = 1; i <= NF; i++)
                if ($i != "|" && have[$i])
                    next
            print
        }'
}

# choose : the first alternative of each line that apt knows
choose() {
    local line name
    while read -r line; do
        for name in ${line//|/ }; do
            if [[ $line != *'|'* ]] || apt-cache show "$name" >/dev/null 2>&1; then
                echo "$name"
                continue 2
            fi
        done
        echo "${line%% *}"
    done
}

apt_install() {
    local names=("$@") sudo=()
    local apt=(env DEBIAN_FRONTEND=noninteractive apt-get)
    local by_hand="apt-get update && apt-get install --no-install-recommends ${names[*]}"

    if [[ $(id -u) != 0 ]]; then
        if command -v sudo >/dev/null && sudo -n true 2>/dev/null; then
            sudo=(sudo -n)
        elif command -v sudo >/dev/null && [[ -t 0 && -t 2 ]]; then
            say "sudo may ask for your password, to install: ${names[*]}"
            sudo=(sudo)
        else
            say "missing: ${names[*]}"
            say "as root, run:  $by_hand"
            exit 1
        fi
    fi
    say "installing: ${names[*]}"
    # The lists may be old or, in an image, missing; a failed update alone is not a reason to stop.
    ${sudo[@]+"${sudo[@]}"} "${apt[@]}" -qq update || say "apt-get update failed; continuing"
    if ! ${sudo[@]+"${sudo[@]}"} "${apt[@]}" -qq -y install --no-install-recommends \
        "${names[@]}" >/dev/null; then
        say "apt could not install them; as root, try:  $by_hand"
        exit 1
    fi
}

[[ $(uname -s) == Linux ]] || not_linux
[[ -z ${NO_DEPS:-} ]] || exit 0

known=$(group_names)
groups=("$@")
if [[ $# == 0 ]]; then
    # shellcheck disable=SC2206 # names, split on purpose
    groups=($known)
fi
for group in "${groups[@]}"; do
    if ! grep -qx -- "$group" <<<"$known"; then
        say "no group '$group' in packages.txt; the groups are: ${known//$'\n'/ }"
        exit 2
    fi
done
if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
    no_apt
fi

lacking=$(wanted "${groups[@]}" | missing)
if [[ -n $lacking ]]; then
    # shellcheck disable=SC2046 # names, split on purpose
    apt_install $(choose <<<"$lacking")
fi
