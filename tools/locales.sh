#!/bin/bash
# Makes the locales that programs in boxes can use besides C.UTF-8, in UTF-8: those of the usual
# languages, and those that this host has. Usage: tools/locales.sh DIR [LOCALE...]
#
# DIR is build/locales, where the binary next to it finds them, or that of an installation. Each
# takes about a second of CPU time, once: what is there already is kept, unless the C library has
# changed since. Without their sources (Debian's package locales) nothing is made, which is no error:
# boxes then have the locales of the host.
set -euo pipefail

usual=(ar_SA cs_CZ da_DK de_CH de_DE el_GR en_GB en_IN en_US es_ES fi_FI fr_FR he_IL hi_IN hu_HU
       it_IT ja_JP ko_KR nb_NO nl_NL pl_PL pt_BR pt_PT ro_RO ru_RU sv_SE tr_TR uk_UA zh_CN zh_TW)
sources=${I18N_SOURCES:-/usr/share/i18n/locales}

dir=${1:?usage: tools/locales.sh DIR [LOCALE...]}
shift
if [ ! -d "$sources" ] || ! command -v localedef >/dev/null; then
    echo "no locales are made: there is no $sources, or no localedef (Debian: package locales)" >&2
    exit 0
fi
if [ $# -gt 0 ]; then
    wanted=("$@")
else
    mapfile -t own < <(locale -a 2>/dev/null | sed -nE 's/^([a-z]{2,3}_[A-Z]{2})\.(utf8|UTF-8)$/\1/p')
    mapfile -t wanted < <(printf '%s\n' "${usual[@]}" "${own[@]}" | sort -u)
fi

# Compiled locales are only for the C library that made them.
version=$(localedef --version | head -1)
umask 022   # boxes are other users; and what others may write to is not used
mkdir -p "$dir"
chmod 755 "$dir"
if [ "$(cat "$dir/.version" 2>/dev/null)" != "$version" ]; then
    rm -rf "$dir"/*.utf8 "$dir"/.new.*
    printf '%s\n' "$version" >"$dir/.version"
fi
rm -rf "$dir"/.new.*   # of one that was interrupted

# In the directory itself: files that others there have too become links to them.
make_one() {
    local new=$dir/.new.$1
    [ -f "$sources/$1" ] || { echo "there is no locale $1 in $sources" >&2; return 1; }
    localedef --quiet --force --no-archive -i "$1" -f UTF-8 "$new" 2>"$new.log" || true
    if [ ! -f "$new/LC_CTYPE" ] || [ ! -f "$new/LC_TIME" ]; then
        echo "the locale $1 could not be made: $(head -1 "$new.log")" >&2
        return 1
    fi
    mv "$new" "$dir/$1.utf8"
    rm -f "$new.log"
}
export -f make_one
export dir sources

missing=()
for name in "${wanted[@]}"; do
    case $name in
        *[!A-Za-z_@]*) echo "not the name of a locale: $name" >&2; exit 2 ;;
    esac
    [ -d "$dir/$name.utf8" ] || missing+=("$name")
done
[ ${#missing[@]} -gt 0 ] || exit 0
echo "making ${#missing[@]} locales in $dir (once; about a second each)"
printf '%s\n' "${missing[@]}" | xargs -P "$(nproc)" -I{} bash -c 'make_one {}'
