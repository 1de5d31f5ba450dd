#!/bin/sh
# llama-bench as scripts call it: the same flags and output (-o md|csv|json|jsonl), our engine.
exec "${MLXCEL:-$(dirname "$0")/../build/mlxcel}" bench "$@"
