#!/bin/sh
# Installs what a build lacks, and only that. With everything there it costs a few milliseconds and asks nobody.
#
#   tools/bootstrap.sh NAME...
#
# NAME is a pkg-config module (oniguruma, libcurl, cmocka, ...) or a command (gcc, python3, pip, clang, ...). Packages come
# from apt, as root or through sudo; on other systems the script names what is missing. MLXCEL_NO_BOOTSTRAP=1 never installs.
set -eu

# name -> Debian and Ubuntu package
package_of() {
    case $1 in
    gcc | cc) echo gcc libc6-dev ;;
    oniguruma) echo libonig-dev ;;
    libcurl) echo libcurl4-openssl-dev ;;
    libedit) echo libedit-dev ;;
    cmocka) echo libcmocka-dev ;;
    libmicrohttpd) echo libmicrohttpd-dev ;;
    libwslay) echo libwslay-dev ;;
    libjpeg) echo libjpeg-dev ;;
    libpng) echo libpng-dev ;;
    libwebp) echo libwebp-dev ;;
    yaml-0.1) echo libyaml-dev ;;
    libcrypto | openssl) echo libssl-dev ;;
    libxxhash) echo libxxhash-dev ;;
    pkg-config) echo pkg-config ;;
    xz) echo xz-utils ;;
    pip) echo python3-pip ;;
    clang) # its sanitizers are a package of their own on some releases
        echo clang
        if apt-cache show libclang-rt-dev >/dev/null 2>&1; then echo libclang-rt-dev; fi
        ;;
    nm) echo binutils ;;
    *) echo "$1" ;;
    esac
}

is_command() {
    case $1 in
    gcc | cc | g++ | clang | clang-format | clang-tidy | python3 | pip | pkg-config | xz | nm | unzip | make | git) return 0 ;;
    esac
    return 1
}

have() {
    case $1 in
    pip) python3 -c 'import pip' >/dev/null 2>&1 || command -v pip3 >/dev/null 2>&1 ;;
    cc | gcc) command -v "${CC:-gcc}" >/dev/null 2>&1 && [ -e /usr/include/stdio.h -o "$(uname -s)" != Linux ] ;;
    *)
        if is_command "$1"; then
            command -v "$1" >/dev/null 2>&1
        else
            command -v pkg-config >/dev/null 2>&1 && pkg-config --exists "$1"
        fi
        ;;
    esac
}

modules= commands=
for name in "$@"; do
    if is_command "$name"; then commands="$commands $name"; else modules="$modules $name"; fi
done

missing=
for name in $commands; do have "$name" || missing="$missing $name"; done
# shellcheck disable=SC2086 # lists of words
if [ -n "$modules" ] && ! { command -v pkg-config >/dev/null 2>&1 && pkg-config --exists $modules; }; then
    for name in $modules; do have "$name" || missing="$missing $name"; done
fi
[ -n "$missing" ] || exit 0

list_packages() {
    packages=
    for name in $missing; do packages="$packages $(package_of "$name" | tr '\n' ' ')"; done
}

if [ -n "${MLXCEL_NO_BOOTSTRAP:-}" ] || ! command -v apt-get >/dev/null 2>&1; then
    list_packages
    echo "mlxcel: missing for this build:$missing (on Debian:$packages)" >&2
    exit 1
fi

as_root=
if [ "$(id -u)" != 0 ]; then
    command -v sudo >/dev/null 2>&1 || {
        list_packages
        echo "mlxcel: missing for this build:$missing; run as root: apt-get install$packages" >&2
        exit 1
    }
    as_root="sudo"
fi
apt() { $as_root env DEBIAN_FRONTEND=noninteractive apt-get "$@" >>"$log" 2>&1; }
log=$(mktemp)
trap 'rm -f "$log"' EXIT
apt update -qq || true # an old list may still do
list_packages
echo "mlxcel: installing$packages" >&2
# shellcheck disable=SC2086
if ! apt install -y -qq --no-install-recommends $packages; then
    tail -n 20 "$log" >&2
    echo "mlxcel: apt-get could not install$packages" >&2
    exit 1
fi
