#!/usr/bin/env python3
"""Writes tests/data/encode/encode.safetensors: f32 rows and what gguf-py and MLX make of them.

Usage: tools/make_encode_vectors.py gguf PART.npz        (needs the package gguf)
       tools/make_encode_vectors.py mlx PART.npz OUT     (needs mlx[cpu]; joins both parts)
Two steps because the two packages may live in different environments.
"""
import json
import struct
import sys

import numpy as np

ROWS, COLS = 14, 256
GGUF_TYPES = ("Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0", "MXFP4")


def rows():
    rng = np.random.default_rng(20)
    w = rng.standard_normal((ROWS, COLS)) * np.exp2(rng.integers(-10, 4, (ROWS, 1)))
    w[0] = 0
    w[1] = 1.5
    w[2] = np.abs(w[2])
    w[3] = -np.abs(w[3])
    w[4] *= 1e-5
    w[5] = np.round(w[5] * 4) / 4
    w[6] = np.exp2(rng.integers(-4, 4, COLS)) * np.sign(rng.standard_normal(COLS))
    w[7] = rng.integers(-12, 13, COLS) / 4  # ties of fp4
    w[8] = np.nextafter(np.float32(8), np.float32(0))
    w[9, 1::2] = 0
    w[10] *= 1000
    return (w.astype(np.float16) + np.float16(0)).astype(np.float32)  # exact in f16, no -0


def write(path, tensors):
    header, blob = {}, b""
    for name, (dtype, a) in tensors.items():
        data = np.ascontiguousarray(a).tobytes()
        header[name] = {"dtype": dtype, "shape": list(a.shape), "data_offsets": [len(blob), len(blob) + len(data)]}
        blob += data
    header["__metadata__"] = {"meta": json.dumps({"format": "encode"})}
    text = json.dumps(header).encode()
    open(path, "wb").write(struct.pack("<Q", len(text)) + text + blob)


def gguf_part(path):
    import gguf
    np.savez(path, **{t: gguf.quants.quantize(rows(), getattr(gguf.GGMLQuantizationType, t)) for t in GGUF_TYPES})


def mlx_part(part, path):
    import mlx.core as mx
    tensors = {"rows": ("F32", rows())}
    for name, a in np.load(part).items():
        tensors["gguf." + name] = ("U8", a)
    dtypes = {"F32": mx.float32, "F16": mx.float16, "BF16": mx.bfloat16}

    def raw(a):
        view = {mx.float32: mx.uint32, mx.float16: mx.uint16, mx.bfloat16: mx.uint16}.get(a.dtype)
        a = np.array(a.view(view) if view else a)
        return "U8", a.view(np.uint8).reshape(ROWS, -1)

    cases = [("affine", b, g) for b in (1, 2, 3, 4, 5, 6, 8) for g in (32, 64, 128)]
    cases += [("mxfp4", 4, 32), ("mxfp8", 8, 32), ("nvfp4", 4, 16)]
    for mode, bits, group in cases:
        for dtype, t in dtypes.items():
            if mode == "affine" and (bits not in (3, 4) or group != 64) and dtype != "BF16":
                continue
            out = mx.quantize(mx.array(rows()).astype(t), group_size=group, bits=bits, mode=mode)
            for part_name, a in zip(("weight", "scales", "biases"), out):
                tensors["mlx_%s.%d.%d.%s.%s" % (mode, bits, group, dtype, part_name)] = raw(a)
    write(path, tensors)


if __name__ == "__main__":
    if sys.argv[1] == "gguf":
        gguf_part(sys.argv[2])
    else:
        mlx_part(sys.argv[2], sys.argv[3])
