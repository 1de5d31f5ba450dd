#!/bin/sh
# `make install` gives what a program needs: found by pkg-config, it compiles and links against the shared and the static
# library, and the programs are there.
set -eu
B=${B:-build} CC=${CC:-gcc} MAKE=${MAKE:-make}
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT

$MAKE --no-print-directory -j1 B="$B" DESTDIR="$dir" PREFIX=/opt/mlxcel install-files >"$dir/log" 2>&1 || {
    cat "$dir/log"
    exit 1
}
prefix=$dir/opt/mlxcel
for file in bin/mlxcel include/mlxcel.h lib/libmlxcel.a lib/libmlxcel.so lib/pkgconfig/mlxcel.pc; do
    [ -e "$prefix/$file" ] || { echo "make install left no $file"; exit 1; }
done

cat >"$dir/user.c" <<'C'
#include <mlxcel.h>
/* A name of ours that is hidden in the libraries must be free for their users. */
int err_set(void);
int err_set(void) { return 0; }
int main(void) { return err_set(); }
C
export PKG_CONFIG_PATH="$prefix/lib/pkgconfig"
flags="--define-variable=prefix=$prefix"
# shellcheck disable=SC2046 # lists of words
"$CC" -Wall -Wextra -Werror -o "$dir/shared" "$dir/user.c" $(pkg-config "$flags" --cflags --libs mlxcel)
LD_LIBRARY_PATH="$prefix/lib" "$dir/shared"
readelf -d "$prefix/lib/libmlxcel.so" | grep -q 'SONAME.*libmlxcel\.so\.[0-9]' || { echo "no soname"; exit 1; }
rm "$prefix/lib/libmlxcel.so" "$prefix"/lib/libmlxcel.so.*
# shellcheck disable=SC2046
"$CC" -Wall -Wextra -Werror -o "$dir/static" "$dir/user.c" $(pkg-config "$flags" --static --cflags --libs mlxcel)
"$dir/static"
echo "[  PASSED  ] install"
