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
if "$dir/embed" "$dir/none" text 2>"$dir/err"; then echo "embed took a model that is not there"; exit 1; fi
grep -q none "$dir/err"
if [ -n "${MLXCEL_SMOLLM2:-}" ]; then
    printf 'My name is Ada.\nWhat is my name?\n' | "$dir/chat" "$MLXCEL_SMOLLM2" >"$dir/out"
    grep -q Ada "$dir/out" || { cat "$dir/out"; echo "chat forgot what was said"; exit 1; }
fi
# A tiny encoder with a tokenizer: equal texts have cosine 1, others less.
if [ -n "${MLXCEL_GOLDEN_DIR:-}" ] && [ -d "$MLXCEL_GOLDEN_DIR/encoder/bert_mean" ]; then
    cp -r "$MLXCEL_GOLDEN_DIR/encoder/bert_mean" "$dir/bert"
    cat >"$dir/bert/tokenizer.json" <<'END'
{"version":"1.0","added_tokens":[],"normalizer":null,"pre_tokenizer":{"type":"Whitespace"},"post_processor":null,"decoder":null,
"model":{"type":"WordPiece","unk_token":"[UNK]","continuing_subword_prefix":"##","max_input_chars_per_word":100,
"vocab":{"[UNK]":0,"a":1,"cat":2,"dog":3,"runs":4}}}
END
    "$dir/embed" "$dir/bert" "a cat runs" "a cat runs" "dog" >"$dir/out"
    sed -n 1p "$dir/out" | grep -Eq "^ 1.000  1.000  ?-?0" || { cat "$dir/out"; echo "embed: not the cosines of these texts"; exit 1; }
fi
echo "[  PASSED  ] examples"
