#!/usr/bin/env python3
"""Writes a Llama-shaped checkpoint with random weights, for measuring: how fast it loads, what it takes in memory.

Usage: tools/make_model.py OUT --type TYPE [--hidden N] [--layers N] [--ffn N] [--vocab N] [--heads N] [--kv-heads N]

OUT ending in .gguf: TYPE is one of F32 F16 BF16 Q4_0 Q4_1 Q5_0 Q8_0 Q4_K Q6_K IQ2_XXS IQ3_S IQ4_XS TQ1_0 for all
matrices. Otherwise OUT is a directory of safetensors, and TYPE is F32, F16, BF16, F8 (128 x 128 blocks), MLX4, MLX8
(groups of 64) or GPTQ4 (groups of 128). There is no tokenizer. Nothing but Python's library is needed.
"""
import argparse
import json
import os
import random
import struct

# GGUF: id, elements and bytes of a block, where its f16 scales are
BLOCKS = {
    "F32": (0, 1, 4, None), "F16": (1, 1, 2, [0]), "BF16": (30, 1, 2, None), "Q4_0": (2, 32, 18, [0]),
    "Q4_1": (3, 32, 20, [0, 2]), "Q5_0": (6, 32, 22, [0]), "Q8_0": (8, 32, 34, [0]), "Q4_K": (12, 256, 144, [0, 2]),
    "Q6_K": (14, 256, 210, [208]), "IQ2_XXS": (16, 256, 66, [0]), "IQ3_S": (21, 256, 110, [0]),
    "IQ4_XS": (23, 256, 136, [0]), "TQ1_0": (34, 256, 54, [52]),
}
PATTERN_BLOCKS = 4096


def pattern(kind, rng):
    """Some blocks of random bytes with small scales, repeated to fill a tensor."""
    if kind == "F32":
        return struct.pack("<%df" % 65536, *(rng.uniform(-0.05, 0.05) for _ in range(65536)))
    if kind == "BF16":
        f = pattern("F32", rng)
        return b"".join(f[i + 2:i + 4] for i in range(0, len(f), 4))
    if kind == "F16":
        return struct.pack("<%de" % 65536, *(rng.uniform(-0.05, 0.05) for _ in range(65536)))
    _, _, size, scales = BLOCKS[kind]
    data = bytearray(rng.randbytes(size * PATTERN_BLOCKS))
    for b in range(0, len(data), size):
        for at in scales:
            data[b + at:b + at + 2] = struct.pack("<e", rng.uniform(0.0005, 0.001))
    return bytes(data)


def write_repeated(f, chunk, n):
    whole = chunk * max(1, (4 << 20) // len(chunk))
    while n > 0:
        f.write(whole[:n] if n < len(whole) else whole)
        n -= len(whole)


def matrices(a):
    """(name in HF, name in GGUF, rows, columns)"""
    head = a.hidden // a.heads
    out = [("model.embed_tokens", "token_embd", a.vocab, a.hidden), ("lm_head", "output", a.vocab, a.hidden)]
    for i in range(a.layers):
        hf, gg = "model.layers.%d." % i, "blk.%d." % i
        out += [
            (hf + "self_attn.q_proj", gg + "attn_q", a.hidden, a.hidden),
            (hf + "self_attn.k_proj", gg + "attn_k", a.kv_heads * head, a.hidden),
            (hf + "self_attn.v_proj", gg + "attn_v", a.kv_heads * head, a.hidden),
            (hf + "self_attn.o_proj", gg + "attn_output", a.hidden, a.hidden),
            (hf + "mlp.gate_proj", gg + "ffn_gate", a.ffn, a.hidden),
            (hf + "mlp.up_proj", gg + "ffn_up", a.ffn, a.hidden),
            (hf + "mlp.down_proj", gg + "ffn_down", a.hidden, a.ffn),
        ]
    return out


def norms(a):
    out = [("model.norm", "output_norm")]
    for i in range(a.layers):
        out += [("model.layers.%d.input_layernorm" % i, "blk.%d.attn_norm" % i),
                ("model.layers.%d.post_attention_layernorm" % i, "blk.%d.ffn_norm" % i)]
    return out


def gguf_string(s):
    return struct.pack("<Q", len(s)) + s.encode()


def write_gguf(a, rng):
    type_id, elements, size, _ = BLOCKS[a.type]
    keys = [("general.architecture", "llama"), ("llama.context_length", 8192), ("llama.embedding_length", a.hidden),
            ("llama.block_count", a.layers), ("llama.feed_forward_length", a.ffn),
            ("llama.attention.head_count", a.heads), ("llama.attention.head_count_kv", a.kv_heads),
            ("llama.attention.layer_norm_rms_epsilon", 1e-5), ("llama.vocab_size", a.vocab)]
    tensors = [(gg + ".weight", (cols, rows), type_id, rows * cols // elements * size)
               for _, gg, rows, cols in matrices(a)]
    tensors += [(gg + ".weight", (a.hidden,), 0, a.hidden * 4) for _, gg in norms(a)]
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(keys))
    for k, v in keys:
        head += gguf_string(k)
        head += (struct.pack("<I", 8) + gguf_string(v) if isinstance(v, str) else
                 struct.pack("<If", 6, v) if isinstance(v, float) else struct.pack("<II", 4, v))
    at = 0
    for name, dims, t, n in tensors:
        head += gguf_string(name) + struct.pack("<I%dQIQ" % len(dims), len(dims), *dims, t, at)
        at += (n + 31) // 32 * 32
    chunk, ones = pattern(a.type, rng), struct.pack("<f", 1.0) * 1024
    with open(a.out, "wb") as f:
        f.write(head + b"\0" * (-len(head) % 32))
        for _, _, t, n in tensors:
            write_repeated(f, ones if t == 0 and n == a.hidden * 4 else chunk, n)
            f.write(b"\0" * (-n % 32))


def parts(a, name, rows, cols, rng_chunks):
    """The tensors of one matrix: (name, dtype, shape, bytes, pattern)"""
    c = rng_chunks
    if a.type in ("F32", "F16", "BF16"):
        return [(name + ".weight", a.type, [rows, cols], rows * cols * (4 if a.type == "F32" else 2), c[a.type])]
    if name == "lm_head" or name.endswith("embed_tokens"):
        if not a.type.startswith("MLX"):
            return [(name + ".weight", "BF16", [rows, cols], rows * cols * 2, c["BF16"])]
    if a.type == "F8":
        s = [(rows + 127) // 128, (cols + 127) // 128]
        return [(name + ".weight", "F8_E4M3", [rows, cols], rows * cols, c["bytes"]),
                (name + ".weight_scale_inv", "F32", s, s[0] * s[1] * 4, c["scale"])]
    if a.type == "GPTQ4":
        groups = cols // 128
        return [(name + ".qweight", "I32", [cols // 8, rows], rows * cols // 2, c["bytes"]),
                (name + ".qzeros", "I32", [groups, rows // 8], groups * rows // 2, b"\x77" * 4096),
                (name + ".scales", "F16", [groups, rows], groups * rows * 2, c["F16"]),
                (name + ".g_idx", "I32", [cols], cols * 4, struct.pack("<%dI" % cols, *(k // 128 for k in range(cols))))]
    bits = int(a.type[3:])
    groups = cols // 64
    return [(name + ".weight", "U32", [rows, cols * bits // 32], rows * cols * bits // 8, c["bytes"]),
            (name + ".scales", "BF16", [rows, groups], rows * groups * 2, c["BF16"]),
            (name + ".biases", "BF16", [rows, groups], rows * groups * 2, c["BF16"])]


def write_safetensors(a, rng):
    c = {k: pattern(k, rng) for k in ("F32", "F16", "BF16")}
    c["bytes"] = bytes(b & 0x77 for b in rng.randbytes(1 << 18))
    c["scale"] = struct.pack("<f", 0.001) * 1024
    tensors = [t for hf, _, rows, cols in matrices(a) for t in parts(a, hf, rows, cols, c)]
    tensors += [(hf + ".weight", "F32", [a.hidden], a.hidden * 4, struct.pack("<f", 1.0) * 1024) for hf, _ in norms(a)]
    at, header = 0, {}
    for name, dtype, shape, n, _ in tensors:
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [at, at + n]}
        at += n
    config = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": a.hidden,
              "intermediate_size": a.ffn, "num_hidden_layers": a.layers, "num_attention_heads": a.heads,
              "num_key_value_heads": a.kv_heads, "vocab_size": a.vocab, "rms_norm_eps": 1e-5, "rope_theta": 10000.0,
              "max_position_embeddings": 8192, "tie_word_embeddings": False, "torch_dtype": "bfloat16"}
    if a.type == "F8":
        config["quantization_config"] = {"quant_method": "fp8", "weight_block_size": [128, 128]}
    if a.type == "GPTQ4":
        config["quantization_config"] = {"quant_method": "gptq", "bits": 4, "group_size": 128, "desc_act": False,
                                         "sym": True}
    if a.type.startswith("MLX"):
        config["quantization"] = {"bits": int(a.type[3:]), "group_size": 64}
    os.makedirs(a.out, exist_ok=True)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(os.path.join(a.out, "config.json"), "w") as f:
        json.dump(config, f, indent=1)
    with open(os.path.join(a.out, "model.safetensors"), "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for _, _, _, n, chunk in tensors:
            write_repeated(f, chunk, n)


def main(argv=None):
    p = argparse.ArgumentParser()
    p.add_argument("out")
    p.add_argument("--type", required=True)
    for name, value in (("hidden", 2048), ("layers", 8), ("ffn", 5632), ("vocab", 32000), ("heads", 32),
                        ("kv-heads", 8)):
        p.add_argument("--" + name, type=int, default=value)
    a = p.parse_args(argv)
    (write_gguf if a.out.endswith(".gguf") else write_safetensors)(a, random.Random(1))


if __name__ == "__main__":
    main()
