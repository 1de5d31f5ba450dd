#!/bin/sh
# The libraries show the public functions and nothing else: a program that links them can have any other name of its own.
set -u
B=${B:-build}
status=0
for file in libmlxcel.a libmlxcel.so; do
    case $file in *.so) dynamic=-D ;; *) dynamic= ;; esac
    shown=$(nm -g --defined-only $dynamic "$B/$file" | awk 'NF == 3 { print $3 }')
    others=$(echo "$shown" | grep -v '^mlxcel_' | grep -v '^$')
    if [ -n "$others" ]; then
        echo "$file shows names that do not start with mlxcel_:"
        echo "$others" | head -n 20
        status=1
    fi
    if ! echo "$shown" | grep -q '^mlxcel_'; then
        echo "$file shows no function that starts with mlxcel_"
        status=1
    fi
done
[ $status = 0 ] && echo "[  PASSED  ] exported symbols"
exit $status
