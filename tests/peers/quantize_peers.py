#!/usr/bin/env python3
"""Whether peers read what `mlxcel quantize` writes, and get the same logits.

    tests/peers/quantize_peers.py --mlxcel build/mlxcel --goldens DIR [--llama DIR] [FAMILY...]

DIR holds golden checkpoints (decoder/<family> with golden.json). With mlx-lm importable, MLX
checkpoints are loaded by it; with --llama (a built llama.cpp), GGUF files by libllama. Prints one
line per family and form: the largest difference over the rms of our own logits (reference back end,
which computes the stored weights exactly). Not part of `make test`: the peers are not installed
there."""
import argparse
import json
import os
import subprocess
import sys
import tempfile

import numpy as np

FAMILIES = ("llama llama_bias llama_rope_llama3 llama_rope_yarn mistral mixtral qwen2 qwen3 qwen2_moe gemma "
            "gemma2 gemma3_text phi3 phi3_longrope olmoe gpt_oss").split()
MLX = [["--bits", "4", "--group-size", "32"], ["--bits", "8", "--group-size", "32"], ["--mode", "mxfp4"],
       ["--mode", "mxfp8"], ["--mode", "nvfp4"], ["--predicate", "mixed_3_6", "--group-size", "32"], ["--dequantize"]]
GGUF = [["--gguf", t] for t in ("F16", "Q8_0", "Q4_0", "Q4_K_M", "Q6_K")]


def ours(mlxcel, model, ids, tmp):
    out = os.path.join(tmp, "ours.npy")
    subprocess.run([mlxcel, "score", "-m", model, "--ids", " ".join(map(str, ids)), "--logits", out, "--backend", "ref",
                    "--cache-type-k", "f32", "--cache-type-v", "f32"], check=True, capture_output=True)
    return np.load(out)


def by_mlx(model, ids):
    import mlx.core as mx
    from pathlib import Path
    from mlx_lm.utils import load_model
    net, _ = load_model(Path(model), lazy=False)
    net.set_dtype(mx.float32)
    return np.array(net(mx.array([ids]))[0].astype(mx.float32))


def by_llama(program, model, ids, tmp):
    out = os.path.join(tmp, "llama.f32")
    done = subprocess.run([program, model, out, *map(str, ids)], capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError((done.stderr.strip().splitlines() or ["no reason given"])[-1])
    return np.fromfile(out, np.float32).reshape(len(ids), -1)


def build_llama(root, tmp):
    here = os.path.dirname(os.path.abspath(__file__))
    program, lib = os.path.join(tmp, "llama_logits"), os.path.join(root, "build", "bin")
    subprocess.run(["gcc", "-O2", "-I" + os.path.join(root, "include"), "-I" + os.path.join(root, "ggml", "include"),
                    os.path.join(here, "llama_logits.c"), "-o", program, "-L" + lib, "-lllama", "-lggml", "-lggml-base",
                    "-Wl,-rpath," + lib], check=True)
    return program


def main():
    ap = argparse.ArgumentParser()
    ap.add_argument("--mlxcel", default="build/mlxcel")
    ap.add_argument("--goldens", required=True)
    ap.add_argument("--llama")
    ap.add_argument("--no-mlx", action="store_true")
    ap.add_argument("--tokens", type=int, default=40, help="of the golden's 40; both peers ignore some windows beyond them")
    ap.add_argument("families", nargs="*")
    a = ap.parse_args()
    worst = 0
    with tempfile.TemporaryDirectory() as tmp:
        llama = build_llama(a.llama, tmp) if a.llama else None
        for family in a.families or FAMILIES:
            source = os.path.join(a.goldens, "decoder", family)
            ids = json.load(open(os.path.join(source, "golden.json")))["tokens"][0][:a.tokens]
            for form in ([] if a.no_mlx else MLX) + (GGUF if llama else []):
                is_gguf = form[0] == "--gguf"
                out = os.path.join(tmp, family + "_" + "_".join(form).replace("-", "") + (".gguf" if is_gguf else ""))
                label = f"{family:18} {' '.join(form):40}"
                made = subprocess.run([a.mlxcel, "quantize", "-m", source, "-o", out, *form], capture_output=True, text=True)
                if made.returncode:
                    print(label, made.stderr.strip())
                    continue
                try:
                    want = ours(a.mlxcel, out, ids, tmp)
                    got = by_llama(llama, out, ids, tmp) if is_gguf else by_mlx(out, ids)
                    off = np.abs(got - want).max() / np.sqrt((want ** 2).mean())
                    rms = np.sqrt(((got - want) ** 2).mean() / (want ** 2).mean())
                    worst = max(worst, rms)
                    print(label, f"max {off:.1e}  rms {rms:.1e}", flush=True)
                except Exception as e:  # a peer's refusal is a result too
                    print(label, "refused:", str(e).splitlines()[-1][:160], flush=True)
    print(f"worst rms {worst:.1e}")


if __name__ == "__main__":
    sys.exit(main())
