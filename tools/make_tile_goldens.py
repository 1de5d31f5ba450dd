#!/usr/bin/env python3
"""Writes tests/data/multimodal_tiles.tar.xz: small checkpoints of LLaVA-NeXT, Mistral 3 and Pixtral within LLaVA with random weights, and what
transformers makes of images of other shapes than the goldens under multimodal/ have: tall ones, several with tiles of unlike number, sizes that are
no multiple of a block or a tile, padding, two feature layers, four channels; in three spellings of tensor names, one with MLX's kernels.

The files lie as those goldens do: config.json, model.safetensors (bfloat16), golden.json, arrays.
Needs numpy, torch, safetensors and transformers (5.24 was used): tools/make_tile_goldens.py [OUT.tar.xz]"""
import json
import os
import sys
import tarfile
import tempfile

import numpy as np
import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.llava_next import modeling_llava_next as next_

IMAGE, BREAK, END = 250, 252, 253
NEW = 6  # greedy tokens
GAP = 0.02  # between the first and second of them

TEXT = dict(model_type="mistral", hidden_size=48, num_hidden_layers=2, intermediate_size=56, num_attention_heads=2, num_key_value_heads=1,
            head_dim=24, rms_norm_eps=1e-5, vocab_size=256, max_position_embeddings=1024, sliding_window=None, tie_word_embeddings=False)
PIXTRAL = dict(model_type="pixtral", hidden_size=24, intermediate_size=28, num_hidden_layers=2, num_attention_heads=4, patch_size=4, image_size=64,
               head_dim=6, num_channels=3, hidden_act="silu", rope_theta=1000.0)
CLIP = dict(model_type="clip_vision_model", hidden_size=24, intermediate_size=28, num_hidden_layers=3, num_attention_heads=2, patch_size=4,
            image_size=14, num_channels=3, hidden_act="quick_gelu", projection_dim=16)
SHARED = dict(text_config=TEXT, image_token_index=IMAGE, torch_dtype="bfloat16", tie_word_embeddings=False)
# name: config, images of each case (height, width)
MODELS = {
    "llava_next_tiles": (dict(SHARED, model_type="llava_next", vision_config=CLIP, vision_feature_layer=[1, -2],
                              image_grid_pinpoints=[[14 * a, 14 * b] for a in (1, 2, 3) for b in (1, 2, 3)]),
                         dict(image=[(33, 90)], tall=[(71, 20)], three=[(90, 30), (40, 41), (9, 30)])),
    "mistral3_odd": (dict(SHARED, model_type="mistral3", vision_config=PIXTRAL, vision_feature_layer=-1, spatial_merge_size=2,
                          multimodal_projector_bias=True),
                     dict(image=[(22, 31)], tall=[(43, 9)], three=[(13, 20), (28, 12), (9, 8)])),
    "llava_pixtral": (dict(SHARED, model_type="llava", vision_config=dict(PIXTRAL, num_channels=4, patch_size=5, hidden_act="gelu"),
                           vision_feature_layer=[-1, 1], vision_feature_select_strategy="full"),
                      dict(image=[(10, 23)], two=[(6, 17), (13, 9)])),
}


class Tie(Exception):
    """Two tokens are all but equal, or a placeholder is chosen: other weights are taken."""


def spelling(name, key):
    """A tensor's name in the file: as saved, as later files have it, as MLX has it."""
    if name == "mistral3_odd":
        key = key.replace("language_model.model.", "language_model.")
        return key.replace("language_model.lm_head", "lm_head") if "lm_head" in key else "model." + key
    return key.replace("vision_tower.", "vision_tower.vision_model.") if name == "llava_pixtral" else key


class Model:
    def __init__(self, name, folder, seed):
        self.name, self.folder, self.rng = name, folder, np.random.default_rng(seed)
        self.config = json.loads(json.dumps(MODELS[name][0]))
        with open(os.path.join(folder, "config.json"), "w") as f:
            json.dump(self.config, f)
        config = transformers.AutoConfig.from_pretrained(folder)
        self.net = transformers.AutoModelForImageTextToText.from_config(config, attn_implementation="eager", dtype=torch.float32).eval()
        with torch.no_grad():
            for key, p in self.net.named_parameters():
                p.copy_(torch.tensor(self.value(key, tuple(p.shape))).to(torch.bfloat16))
        self.store()

    def value(self, key, shape):
        if len(shape) == 1:
            return ("norm" in key and key.endswith("weight")) + self.rng.normal(0, 0.2, shape).astype(np.float32)
        return self.rng.normal(0, 1 if "embed" in key and "patch" not in key else 1.3 / np.sqrt(np.prod(shape[1:])), shape).astype(np.float32)

    def store(self):
        self.net.save_pretrained(self.folder)
        path, out, mlx = os.path.join(self.folder, "model.safetensors"), {}, self.name == "llava_pixtral"
        for key, t in load_file(path).items():
            t = t.permute(0, 2, 3, 1) if mlx and "patch_conv" in key else t
            out[spelling(self.name, key)] = t.to(torch.bfloat16).contiguous()
        save_file(out, path)
        if mlx:
            self.config["model_type"] = "pixtral"
        for extra in os.listdir(self.folder):
            if extra not in ("model.safetensors",):
                os.remove(os.path.join(self.folder, extra))
        with open(os.path.join(self.folder, "config.json"), "w") as f:
            json.dump(self.config, f, indent=1)

    def some(self, n):
        return [int(x) for x in self.rng.integers(3, 249, n)]

    def tiles(self, sizes):
        """Placeholders of each image, and pixels, of which tiles that an image has not are zero."""
        v, pins = self.config["vision_config"], self.config["image_grid_pinpoints"]
        size, side, runs, counts = v["image_size"], v["image_size"] // v["patch_size"], [], []
        for s in sizes:
            down, across = next_.get_anyres_image_grid_shape(s, pins, size)
            kept = next_.unpad_image(torch.zeros(1, down * side, across * side), s).shape
            runs.append([IMAGE] * (side**2 + kept[1] * (kept[2] + 1)))
            counts.append(1 + down * across)
        pixels = self.pixels(len(sizes), max(counts), v["num_channels"], size, size)
        for i, n in enumerate(counts):
            pixels[i, n:] = 0
        return runs, pixels

    def sized(self, sizes):
        v = self.config["vision_config"]
        block = v["patch_size"] * self.config.get("spatial_merge_size", 1)
        runs = [([IMAGE] * (w // block) + [BREAK]) * (h // block) + [END] for h, w in sizes]
        margin = 5 if len(sizes) > 1 else 0
        return runs, self.pixels(len(sizes), v["num_channels"], max(h for h, _ in sizes) + margin, max(w for _, w in sizes) + margin)

    def pixels(self, *shape):
        return (self.rng.integers(-128, 129, shape) / 64).astype(np.float32)

    def logits(self, tokens, inputs):
        with torch.no_grad():
            return self.net(input_ids=torch.tensor([tokens]), use_cache=False, **inputs).logits[0].numpy()

    def case(self, name, sizes):
        prefix = "" if name == "image" else name + "_"
        tokens, inputs, listed = self.some(5), {}, {}
        if sizes:
            runs, pixels = (self.tiles if self.name == "llava_next_tiles" else self.sized)(sizes)
            for run in runs:
                tokens += run + self.some(3)
            np.save(os.path.join(self.folder, prefix + "pixel_values.npy"), pixels)
            listed = dict(pixel_values=prefix + "pixel_values.npy", image_sizes=sizes)
            inputs = dict(pixel_values=torch.tensor(pixels), image_sizes=torch.tensor(sizes))
        tokens += self.some(6)
        logits = self.logits(tokens, inputs)
        np.save(os.path.join(self.folder, prefix + "logits.npy"), logits)
        greedy = []
        for _ in range(NEW):
            last = self.logits(tokens + greedy, inputs)[-1]
            best = np.argsort(last)[::-1]
            if last[best[0]] - last[best[1]] < GAP or best[0] == IMAGE:
                raise Tie
            greedy.append(int(best[0]))
        return dict(name=name, tokens=tokens, inputs=listed, outputs=dict(logits=prefix + "logits.npy"), greedy=greedy)


def make(name, root):
    folder = os.path.join(root, "multimodal", name)
    os.makedirs(folder)
    for seed in range(100):
        try:
            model = Model(name, folder, seed)
            cases = [model.case(case, [list(s) for s in sizes]) for case, sizes in dict(MODELS[name][1], text=[]).items()]
        except Tie:
            continue
        with open(os.path.join(folder, "golden.json"), "w") as f:
            json.dump(dict(name=name, kind="multimodal", seed=seed, transformers_version=transformers.__version__, cases=cases), f)
        return
    raise SystemExit(f"{name}: every seed ends in a tie")


def main(out):
    transformers.logging.set_verbosity_error()
    with tempfile.TemporaryDirectory() as root:
        for name in MODELS:
            make(name, root)
        with tarfile.open(out, "w:xz") as tar:
            tar.add(os.path.join(root, "multimodal"), "multimodal", filter=lambda i: i.replace(mtime=0, uid=0, gid=0, uname="", gname="", deep=False))


if __name__ == "__main__":
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "tests/data/multimodal_tiles.tar.xz"))
