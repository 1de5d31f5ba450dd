#!/usr/bin/env python3
"""Times loading against the disk, and what a model takes in memory against the estimate.

Usage: bench/bench_load.py BENCH_LOAD [MODEL ...]

Without models some are made by tools/make_model.py in the temporary directory and removed again. Cold: the file's pages
are dropped from the page cache first, for our loading and for a plain read in pieces of 16 MiB alike.
"""
import json
import os
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
MAKER = os.path.join(HERE, "..", "tools", "make_model.py")
MADE = [
    ("q4_0.gguf", ["--type", "Q4_0"]),
    ("q8_0.gguf", ["--type", "Q8_0"]),
    ("f16.gguf", ["--type", "F16", "--hidden", "1024", "--ffn", "4096", "--layers", "16", "--heads", "16"]),
    ("q4_k.gguf", ["--type", "Q4_K"]),
    ("iq3_s.gguf", ["--type", "IQ3_S", "--vocab", "128000"]),
    ("gptq4", ["--type", "GPTQ4"]),
    ("fp8", ["--type", "F8", "--hidden", "3072", "--layers", "4", "--heads", "24", "--ffn", "8192"]),
    ("mlx4", ["--type", "MLX4", "--layers", "16"]),
]


def files(model):
    if os.path.isfile(model):
        return [model]
    return [os.path.join(model, f) for f in sorted(os.listdir(model)) if f.endswith((".safetensors", ".gguf"))]


def drop(model):
    for f in files(model):
        fd = os.open(f, os.O_RDONLY)
        os.fsync(fd)
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(fd)


def read(model):
    """Seconds of a plain read."""
    buf = bytearray(16 << 20)
    t = time.monotonic()
    for f in files(model):
        with open(f, "rb", buffering=0) as h:
            while h.readinto(buf):
                pass
    return time.monotonic() - t


def load(bench, model, *args):
    out = subprocess.run([bench, model, *args], capture_output=True, text=True)
    if out.returncode:
        sys.exit("bench_load.py: %s: %s" % (model, out.stderr.strip()))
    return json.loads(out.stdout)


def median(values):
    return sorted(values)[len(values) // 2]


def show(bench, model):
    size = sum(os.path.getsize(f) for f in files(model))
    disk, cold = [], []
    for _ in range(3):
        drop(model)
        disk.append(read(model))
        drop(model)
        cold.append(load(bench, model)["load_ms"] / 1e3)
    read(model)
    runs = [load(bench, model) for _ in range(3)]
    warm, user, kernel = (median([r[k] / 1e3 for r in runs]) for k in ("load_ms", "user_ms", "system_ms"))
    one = runs[0]
    gbs = lambda s: size / s / 1e9
    print("%-12s %6.0f MB  cold %5.2f GB/s (disk %5.2f, %3.0f %%)  warm %5.2f GB/s (a core: ours %5.2f, with the kernel's part %5.2f) | packed %.3f of "
          "the file  peak %6.1f MiB, estimate %6.1f (%+.1f %%)" %
          (os.path.basename(model), size / 1e6, gbs(median(cold)), gbs(median(disk)),
           100 * median(disk) / median(cold), gbs(warm), gbs(user), gbs(user + kernel),
           one["weight_bytes"] / size,
           one["peak"] / 2**20, one["estimate"] / 2**20, 100 * (one["estimate"] / one["peak"] - 1)), flush=True)


def main():
    bench, models = sys.argv[1], sys.argv[2:]
    if models:
        for m in models:
            show(bench, m)
        return
    with tempfile.TemporaryDirectory() as d:
        for name, args in MADE:
            path = os.path.join(d, name)
            subprocess.run([sys.executable, MAKER, path, *args], check=True)
            show(bench, path)
            for f in files(path):
                os.remove(f)


if __name__ == "__main__":
    main()
