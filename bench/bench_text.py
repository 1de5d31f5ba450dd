#!/usr/bin/env python3
"""Measures the text side against the reference: the Hugging Face tokenizers, same files, same text, same run, one thread.

usage: bench/bench_text.py BENCH_TEXT [DIR...]     BENCH_TEXT: the built bench_text; DIR: more NAME/tokenizer.json[.xz]

Tokenizers come from tests/data/tokenizer, from $MLXCEL_GOLDEN/tokenizer and from the DIRs. The reference is installed into
a virtual environment in the build directory; without pip or a network the comparison is left out, and that is said. Both
sides are measured in processor time, in turn, and their ids are compared. Needs only Python 3 itself.
"""

import glob
import lzma
import os
import statistics
import subprocess
import sys
import time

os.environ["TOKENIZERS_PARALLELISM"] = "false"
OWN = "tests/data/tokenizer"
ROUNDS = 3
TARGET = 3.0


def lay_out(place, dirs):
    """name -> tokenizer.json, unpacked below place where it is packed. The first directory that has a name wins."""
    found = {}
    for directory in dirs:
        for path in sorted(glob.glob(os.path.join(directory, "*", "tokenizer.json*"))):
            name = os.path.basename(os.path.dirname(path))
            if name in found or not path.endswith((".json", ".json.xz")):
                continue
            if path.endswith(".xz"):
                packed, path = path, os.path.join(place, name, "tokenizer.json")
                os.makedirs(os.path.dirname(path), exist_ok=True)
                with lzma.open(packed) as source, open(path, "wb") as out:
                    out.write(source.read())
            found[name] = path
    return found


def reference_python(place):
    """A Python that has the reference, or None and why not."""
    python = os.path.join(place, "venv", "bin", "python")
    has = [python, "-c", "import tokenizers"]
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    if os.path.exists(python) and subprocess.call(has, **quiet) == 0:
        return python
    for command in (
        [sys.executable, "-m", "venv", os.path.join(place, "venv")],
        [python, "-m", "pip", "install", "--quiet", "tokenizers"],
    ):
        if subprocess.call(command, **quiet) != 0:
            print("not compared with the reference: '%s' fails here" % " ".join(command))
            return None
    return python


def ours(program, path, text_path):
    out = subprocess.run([program, "encode", path, text_path], check=True, capture_output=True, text=True).stdout
    ns, n, total = (int(word) for word in out.split())
    return ns, n, total


def theirs(tokenizer, text):
    begin = time.process_time_ns()
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    ns = time.process_time_ns() - begin
    return ns, len(ids), sum((i + 1) * x for i, x in enumerate(ids)) % 2**64


def compare(program, text_path, paths):
    """Runs inside the reference's Python."""
    import tokenizers

    text = open(text_path, encoding="utf-8", newline="").read()
    megabytes = len(text.encode()) / 1e6
    print("reference: tokenizers %s; encode of one text of %.1f MB" % (tokenizers.__version__, megabytes))
    print("%-15s %10s %10s %8s  %s" % ("tokenizer", "MB/s", "reference", "ratio", "ids"))
    low = []
    for path in paths:
        name = os.path.basename(os.path.dirname(path))
        tokenizer = tokenizers.Tokenizer.from_file(path)
        tokenizer.no_truncation()  # some files cut every text at 128 tokens
        tokenizer.no_padding()
        theirs(tokenizer, text)  # fills its caches
        rounds = [(ours(program, path, text_path), theirs(tokenizer, text)) for _ in range(ROUNDS)]
        a, b = (statistics.median(r[side][0] for r in rounds) / 1e9 for side in (0, 1))
        same = all(r[0][1:] == r[1][1:] for r in rounds)
        print("%-15s %10.1f %10.1f %8.2f  %s" % (name, megabytes / a, megabytes / b, b / a, "same" if same else "DIFFERENT"))
        if b / a < TARGET:
            low.append(name)
    print("below %g times the reference: %s" % (TARGET, ", ".join(low) or "none"))


def main():
    if sys.argv[1] == "--compare":
        return compare(sys.argv[2], sys.argv[3], sys.argv[4:])
    program = sys.argv[1]
    place = os.path.dirname(os.path.abspath(program)) + "/text"
    os.makedirs(place, exist_ok=True)
    golden = os.environ.get("MLXCEL_GOLDEN")
    paths = list(lay_out(place, [OWN] + ([os.path.join(golden, "tokenizer")] if golden else []) + sys.argv[2:]).values())
    subprocess.run([program] + paths, check=True)
    text_path = os.path.join(place, "mixed.txt")
    with open(text_path, "wb") as out:
        subprocess.run([program, "corpus"], check=True, stdout=out)
    python = reference_python(place)
    if python:
        sys.stdout.flush()
        subprocess.run([python, os.path.abspath(__file__), "--compare", program, text_path] + paths, check=True)


if __name__ == "__main__":
    main()
