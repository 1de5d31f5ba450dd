#!/bin/sh
# docs/environment.md lists every flag's twin as `mlxcel env` prints it, and the order is command line, environment, default.
# With --write the page is brought up to date instead.
set -eu
program=${B:-build}/mlxcel page=docs/environment.md
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "$*"; exit 1; }

"$program" env >"$dir/table"
awk -v table="$dir/table" '
    /^<!-- end -->/ { skip = 0 }
    !skip { print }
    /^<!-- flags -->/ { skip = 1; print "```text"; while ((getline line < table) > 0) print line; print "```" }
' "$page" >"$dir/page"
if [ "${1:-}" = --write ]; then
    cat "$dir/page" >"$page"
    exit 0
fi
cmp -s "$dir/page" "$page" || { diff "$page" "$dir/page" | head -n 20; fail "$page is out of date: tests/environment_test.sh --write"; }

# An error of the checked value shows which source was heard.
heard() { "$@" 2>&1 || true; }
MLXCEL_THREADS=x heard "$program" generate -m none -p x | grep -q 'MLXCEL_THREADS is "x"' || fail "the environment is not heard"
MLXCEL_THREADS=x heard "$program" generate -m none -p x -t 1 | grep -q 'MLXCEL_THREADS' && fail "the command line does not win"
MLXCEL_DEVICE=gpu heard "$program" generate -m none -p x | grep -q 'MLXCEL_DEVICE is "gpu"' || fail "MLXCEL_DEVICE is not heard"
MLXCEL_DEVICE=gpu heard "$program" generate -m none -p x --backend ref | grep -q 'MLXCEL_DEVICE' && fail "--backend does not win"
MLXCEL_VERBOSE=maybe heard "$program" list | grep -q 'MLXCEL_VERBOSE is "maybe"' || fail "a flag's value is not checked"
echo "[  PASSED  ] environment"
