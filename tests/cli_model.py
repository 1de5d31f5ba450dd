"""A tiny model with a tokenizer and a chat template, for tests of the command line: a golden checkpoint (random weights, 256
ids) with a byte-level tokenizer beside it, and room for long answers. What it says means nothing."""
import json
import os
import shutil

PROGRAM = os.path.join(os.environ.get("B", "build"), "mlxcel")
GOLDENS = os.environ.get("MLXCEL_GOLDEN_DIR", "build/goldens")
TEMPLATE = ("{% for m in messages %}<{{ m['role'] }}>{{ m['content'] }}\n{% endfor %}"
            "{% if add_generation_prompt %}<assistant>{% endif %}")


def byte_alphabet():
    """GPT-2's printable stand-ins for the 256 bytes, in the order of the bytes."""
    shown = list(range(33, 127)) + list(range(161, 173)) + list(range(174, 256))
    chars, extra = [], 0
    for b in range(256):
        if b in shown:
            chars.append(chr(b))
        else:
            chars.append(chr(256 + extra))
            extra += 1
    return chars


def make(folder, source=None, context=65536):
    source = source or os.path.join(GOLDENS, "decoder", "llama")
    os.makedirs(folder, exist_ok=True)
    with open(os.path.join(source, "config.json")) as f:
        config = json.load(f)
    assert config["vocab_size"] == 256, config["vocab_size"]
    config["max_position_embeddings"] = context
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(config, f)
    for name in os.listdir(source):
        if name.endswith(".safetensors") or name == "model.safetensors.index.json":
            shutil.copy(os.path.join(source, name), folder)
    vocab = {c: i for i, c in enumerate(byte_alphabet())}
    level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    tokenizer = {"version": "1.0", "truncation": None, "padding": None, "added_tokens": [], "normalizer": None,
                 "pre_tokenizer": level, "post_processor": None, "decoder": level,
                 "model": {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None,
                           "end_of_word_suffix": None, "fuse_unk": False, "byte_fallback": False, "vocab": vocab,
                           "merges": []}}
    with open(os.path.join(folder, "tokenizer.json"), "w") as f:
        json.dump(tokenizer, f)
    with open(os.path.join(folder, "tokenizer_config.json"), "w") as f:
        json.dump({"chat_template": TEMPLATE, "add_bos_token": False}, f)
    return folder
