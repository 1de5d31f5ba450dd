#!/bin/sh
# The programs of examples/ compile without a warning against the installed header and library, and answer.
set -eu
B=${B:-build} CC=${CC:-gcc} MAKE=${MAKE:-make}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
$MAKE --no-print-directory -j1 B="$B" DESTDIR="$dir" PREFIX=/opt/mlxcel install-files >"$dir/log" 2>&1 || { cat "$dir/log"; exit 1; }
prefix=$dir/opt/mlxcel
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
for source in examples/*.c; do
    # shellcheck disable=SC2046 # lists of words
    "$CC" -std=gnu11 -Wall -Wextra -Werror -o "$dir/$(basename "$source" .c)" "$source" \
        $(pkg-config --define-variable=prefix="$prefix" --cflags --libs mlxcel)
done
export LD_LIBRARY_PATH="$prefix/lib"
if "$dir/chat" "$dir/none" 2>"$dir/err"; then echo "chat took a model that is not there"; exit 1; fi
grep -q none "$dir/err"
if [ -n "${MLXCEL_SMOLLM2:-}" ]; then
    printf 'My name is Ada.\nWhat is my name?\n' | "$dir/chat" "$MLXCEL_SMOLLM2" >"$dir/out"
    grep -q Ada "$dir/out" || { cat "$dir/out"; echo "chat forgot what was said"; exit 1; }
fi
echo "[  PASSED  ] examples"
