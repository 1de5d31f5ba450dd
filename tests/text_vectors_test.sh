#!/bin/sh
# The text vectors through the built program (text_vectors.py), where the larger set of reference data is at hand.
set -eu
[ -n "${MLXCEL_GOLDEN:-}" ] || { echo "text vectors: skipped, MLXCEL_GOLDEN is not set"; exit 0; }
out=build/goldens/tokenizers
for f in "$MLXCEL_GOLDEN"/tokenizer/*/*.xz; do
    to=$out/$(basename "$(dirname "$f")")/$(basename "$f" .xz)
    [ -s "$to" ] || { mkdir -p "$(dirname "$to")" && xz -dc "$f" > "$to"; }
done
exec python3 tests/text_vectors.py "${B:-build}/mlxcel" "$MLXCEL_GOLDEN" "$out"
