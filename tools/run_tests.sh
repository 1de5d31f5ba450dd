#!/bin/sh
# Runs test programs, a few at a time, and shows what each printed once it is done.
#
#   tools/run_tests.sh LOG_DIR PROGRAM...
#
# TEST_JOBS programs run at once (default: the processors), TEST_SECONDS bounds each (default 900), TEST_WRAP is a command
# put before each. Exit status 1 if any failed, with the names last.
set -u

logs=$1
shift
mkdir -p "$logs"
rm -f "$logs"/*.failed
export logs TEST_SECONDS="${TEST_SECONDS:-900}" TEST_WRAP="${TEST_WRAP:-}"

# One program, its output kept together.
one='
name=$(basename "$1")
if timeout "$TEST_SECONDS" ${TEST_WRAP:-} "$1" >"$logs/$name.log" 2>&1; then status=0; else status=$?; fi
{
    echo "== $1"
    cat "$logs/$name.log"
    if [ $status != 0 ]; then
        echo "== $1: exit status $status"
        echo "$1: exit status $status" >"$logs/$name.failed"
    fi
} >"$logs/$name.out"
cat "$logs/$name.out"
rm -f "$logs/$name.out"
'
printf '%s\n' "$@" | xargs -P "${TEST_JOBS:-$(nproc 2>/dev/null || echo 1)}" -I{} sh -c "$one" sh {}

failed=$(cat "$logs"/*.failed 2>/dev/null)
if [ -n "$failed" ]; then
    printf '== failed of %d test programs:\n%s\n' "$#" "$failed"
    exit 1
fi
echo "== all $# test programs passed"
