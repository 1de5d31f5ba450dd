#!/bin/sh
# tools/lint finds each kind of fault it is there for, at its line, and passes a clean tree.
set -eu
root=$(cd "$(dirname "$0")/.." && pwd)
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
mkdir -p "$dir/tools" "$dir/src/base" "$dir/src/json" "$dir/src/op"
cp "$root/tools/lint" "$root/tools/layers.txt" "$dir/tools"
printf '/* a.h: x. */\n#ifndef MLXCEL_BASE_A_H\n#define MLXCEL_BASE_A_H\n\n#endif\n' >"$dir/src/base/a.h"
printf '#include "base/a.h"\n\n/* sprintf(a, "b") in words is fine, and a string: */\nconst char *s = "gets(x)";\n' >"$dir/src/base/a.c"
"$dir/tools/lint" >"$dir/out" || { echo "a clean tree is refused:"; cat "$dir/out"; exit 1; }

# finds PATH LINE WORD TEXT: writing TEXT to PATH must give a finding at LINE that has WORD
finds() {
    printf "$4" >"$dir/$1"
    if "$dir/tools/lint" >"$dir/out"; then echo "not found: $3 in $1"; exit 1; fi
    grep -q "^$1:$2: .*$3" "$dir/out" || { echo "expected $1:$2 $3, got:"; cat "$dir/out"; exit 1; }
    rm "$dir/$1"
}
finds src/base/b.c 1 'layers' '#include "json/x.h"\n'
finds src/op/b.c 2 'layers' '#include "quant/x.h"\n#include "json/x.h"\n'
finds src/base/b.c 2 'strcpy' '\nvoid f(void) { strcpy(a, b); }\n'
finds src/base/b.c 1 'malloc' 'void *f(void) { return malloc(1); }\n'
finds src/json/b.c 1 'printf' 'void f(void) { printf("x"); }\n'
finds src/json/b.c 1 'print' 'void f(void) { fprintf(stderr, "x"); }\n'
finds src/json/a.c 1 'there already' 'int x;\n'
finds src/json/b.c 1 'exit' 'void f(void) { exit(1); }\n'
finds src/json/b.c 1 'CamelCase' 'typedef struct B b_t;\n'
finds src/json/b.c 1 'unfinished' "/* TO""DO */\n"
finds src/json/b.c 1 'blanks' 'int x; \n'
finds src/json/b.c 1 'registry' "/* py""pi.org */\n"
finds src/json/b.c 1 'one machine' '/* see /wo''rk/x */\n'
finds src/json/b.h 1 'guard' '/* b */\nint x;\n'
finds src/json/b.h 1 'comment' '#ifndef MLXCEL_JSON_B_H\n#define MLXCEL_JSON_B_H\n#endif\n'
lines=$(i=0; while [ $i -lt 801 ]; do printf 'int x%d;\\n' $i; i=$((i + 1)); done)
finds src/json/b.c 1 '801 lines' "$lines"
body=$(i=0; while [ $i -lt 100 ]; do printf '    x++;\\n'; i=$((i + 1)); done)
finds src/json/b.c 2 'function of 102 lines' "\nvoid f(void) {\n$body}\n"
mkdir "$dir/src/odd"
finds src/odd/b.c 1 'no line in tools/layers.txt' 'int x;\n'
echo "[  PASSED  ] lint finds what it should"
