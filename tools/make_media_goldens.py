#!/usr/bin/env python3
"""Writes tests/data/multimodal_mlx.tar.xz: small checkpoints of Qwen's wrappers with random weights and what they make of images and videos.

Towers and text models are mlx-vlm's (float32 on the CPU); rope coordinates, placement and deepstack masks are worked out here by the rule of
transformers' get_rope_index. The files lie as the goldens under multimodal/ do: config.json, model.safetensors (bfloat16), golden.json, arrays.
It covers what those do not: videos, Qwen2-VL, Qwen3.5, nested and flat configs, MLX's names and kernels.
Needs numpy, mlx and mlx-vlm (0.7.10 was used): tools/make_media_goldens.py [OUT.tar.xz]"""
import importlib
import itertools
import json
import os
import sys
import tarfile
import tempfile

import numpy as np
import mlx.core as mx
from mlx.utils import tree_flatten

IMAGE, VIDEO, START, END = 250, 251, 252, 253
MERGE, ROW = 2, 3 * 2 * 4 * 4  # patches a side of a block; floats of a patch
NEW = 6  # greedy tokens
GAP = 0.02  # between the first and second of them


class Tie(Exception):
    """Two tokens are all but equal: other weights are taken."""


VISION = dict(depth=3, num_heads=2, in_channels=3, patch_size=4, spatial_merge_size=MERGE, temporal_patch_size=2)
TEXT = dict(hidden_size=48, num_hidden_layers=2, intermediate_size=56, num_attention_heads=2, num_key_value_heads=1, rms_norm_eps=1e-6,
            vocab_size=256, max_position_embeddings=256, tie_word_embeddings=False)
SECTIONS = dict(rope_theta=1e6, rope_scaling={"type": "mrope", "mrope_section": [4, 5, 3]})
TURNS = {"rope_type": "default", "mrope_section": [5, 4, 3], "mrope_interleaved": True}
KINDS = {
    "qwen2_vl": (dict(embed_dim=24, hidden_size=48, mlp_ratio=3), SECTIONS),
    "qwen2_5_vl": (dict(hidden_size=24, out_hidden_size=48, intermediate_size=28, window_size=16, fullatt_block_indexes=[1], tokens_per_second=3),
                   SECTIONS),
    "qwen3_vl": (dict(hidden_size=24, out_hidden_size=48, intermediate_size=28, num_position_embeddings=36, deepstack_visual_indexes=[2, 1]),
                 dict(head_dim=24, rope_theta=5e6, rope_scaling=TURNS)),
    "qwen3_5": (dict(hidden_size=24, out_hidden_size=48, intermediate_size=28, num_position_embeddings=36),
                dict(head_dim=32, linear_num_value_heads=2, linear_num_key_heads=1, linear_key_head_dim=16, linear_value_head_dim=16,
                     linear_conv_kernel_dim=4, full_attention_interval=2,
                     rope_parameters=dict(TURNS, mrope_section=[3, 3, 2], rope_theta=1e5, partial_rotary_factor=0.5))),
}
# name: kind, layout of files: flat config, nested config, MLX's names
MODELS = {
    "qwen2_vl": ("qwen2_vl", "flat"),
    "qwen2_5_vl_nested": ("qwen2_5_vl", "nested"),
    "qwen2_5_vl_mlx": ("qwen2_5_vl", "mlx"),
    "qwen3_vl_video": ("qwen3_vl", "nested"),
    "qwen3_vl_mlx": ("qwen3_vl", "mlx"),
    "qwen3_5_image": ("qwen3_5", "nested"),
}
# name: grids of images, of videos, seconds from frame to frame
CASES = {
    "image": ([[1, 4, 6]], [], None),
    "text": ([], [], None),
    "video": ([], [[3, 4, 6]], None),
    "mixed": ([[1, 6, 2], [1, 6, 10]], [[2, 6, 4], [1, 2, 2]], [0.7, 1.6]),
}
SHIFTED = (".input_layernorm.weight", ".post_attention_layernorm.weight", "model.norm.weight", ".q_norm.weight", ".k_norm.weight")


def bf16(a):
    return np.array(mx.array(np.asarray(a, np.float32)).astype(mx.bfloat16).astype(mx.float32))


class Model:
    def __init__(self, kind, rng):
        self.kind, self.rng = kind, rng
        vision, text = KINDS[kind]
        self.vision = dict(VISION, **vision, model_type=kind)
        self.text = dict(TEXT, **text)
        self.apart = kind in ("qwen3_vl", "qwen3_5")  # text stands between the frames of a video
        part = lambda name: importlib.import_module(f"mlx_vlm.models.{kind}.{name}")
        configs = part("config")
        copy = json.loads(json.dumps(self.text))  # mlx-vlm edits what it is given
        tc = configs.TextConfig(model_type="qwen2_vl" if kind == "qwen2_vl" else kind + "_text", **copy)
        vc = configs.VisionConfig(**{k: v for k, v in self.vision.items() if k in configs.VisionConfig.__dataclass_fields__})
        mc = configs.ModelConfig(text_config=tc, vision_config=vc, model_type=kind, image_token_id=IMAGE, video_token_id=VIDEO,
                                 vision_start_token_id=START)
        self.tower, self.language = part("vision").VisionModel(vc), part("language").LanguageModel(tc, mc)
        self.weights = {}
        for prefix, module in (("vision_tower.", self.tower), ("language_model.", self.language)):
            self.fill(prefix, module)
        self.table = self.weights["language_model.model.embed_tokens.weight"]

    def value(self, name, shape):
        if name.endswith("A_log"):
            return np.log(self.rng.uniform(1, 8, shape))
        if len(shape) == 1:
            return name.endswith("weight") + self.rng.normal(0, 0.2, shape)
        wide = "embed_tokens" in name or "pos_embed" in name
        return self.rng.normal(0, 1, shape) * (1 if wide else 1.3 / np.sqrt(np.prod(shape[1:])))

    def fill(self, prefix, module):
        new = []
        for name, p in tree_flatten(module.parameters()):
            if "inv_freq" in name or name.split(".")[-1].startswith("_"):
                continue
            shifted = self.kind == "qwen3_5" and (prefix + name).endswith(SHIFTED)  # bfloat16 holds w, not 1 + w
            a = bf16(self.value(name, p.shape) - shifted) + np.float32(shifted)
            self.weights[prefix + name] = a
            new.append((name, mx.array(a)))
        module.load_weights(new, strict=False)

    def see(self, pixels, grid):
        """Rows for the placeholders, and the rows for the text model's first layers."""
        out = self.tower(mx.array(pixels), mx.array(np.array(grid)))
        rows, deep = out if isinstance(out, tuple) else (out, [])
        return np.array(rows), [np.array(x) for x in deep]

    def logits(self, tokens, rows, pos, deep, mask):
        more = {}
        if self.kind == "qwen3_vl" and deep:
            more = dict(visual_pos_masks=mx.array(mask)[None], deepstack_visual_embeds=[mx.array(x) for x in deep])
        h = self.language.model(mx.array([tokens]), inputs_embeds=mx.array(rows)[None], position_ids=mx.array(pos)[:, None, :], **more)
        return np.array(self.language.lm_head(h))[0].astype(np.float32)

    def prompt(self, images, videos):
        some = lambda n: [int(x) for x in self.rng.integers(3, 249, n)]
        items = [(IMAGE, g) for g in images] + [(VIDEO, g) for g in videos]
        tokens, order = some(5), self.rng.permutation(len(items))
        for kind, (t, h, w) in (items[i] for i in order):
            n = h * w // MERGE**2
            for _ in range(t if kind == VIDEO and self.apart else 1):
                tokens += some(2) + [START] + [kind] * (n if self.apart else n * t) + [END]
            tokens += some(2)
        grids = [[items[i][1] for i in order if items[i][0] == kind] for kind in (IMAGE, VIDEO)]
        return tokens + some(4), *grids

    def positions(self, tokens, images, videos, seconds):
        if self.apart:
            videos = [[1, h, w] for t, h, w in videos for _ in range(t)]
        images, videos, seconds = iter(images), iter(videos), iter(seconds or [1] * len(tokens))
        parts, at = [], 0
        for kind, run in itertools.groupby(t if t in (IMAGE, VIDEO) else 0 for t in tokens):
            n = len(list(run))
            if not kind:
                parts.append(np.tile(np.arange(n), (3, 1)) + at)
                at += n
                continue
            t, h, w = next(images if kind == IMAGE else videos)
            timed = kind == VIDEO and self.kind == "qwen2_5_vl"
            step = np.float32(self.vision["tokens_per_second"]) * np.float32(next(seconds)) if timed else np.float32(1)
            time = (np.arange(t).astype(np.float32) * step).astype(np.int64)
            parts.append(np.stack(np.meshgrid(time, np.arange(h // MERGE), np.arange(w // MERGE), indexing="ij")).reshape(3, -1) + at)
            at += max(h, w) // MERGE
        pos = np.concatenate(parts, 1)
        return pos, int(pos.max() + 1 - len(tokens))

    def config(self, layout):
        text = dict(self.text)
        if self.kind == "qwen3_5":
            text["layer_types"] = ["linear_attention", "full_attention"] * (text["num_hidden_layers"] // 2)
        c = dict(model_type=self.kind, image_token_id=IMAGE, video_token_id=VIDEO, vision_start_token_id=START, vision_end_token_id=END,
                 tie_word_embeddings=False, torch_dtype="bfloat16", vision_config=self.vision)
        return dict(c, **text) if layout == "flat" else dict(c, text_config=dict(text, model_type=self.kind + "_text"))

    def stored(self, layout, name, a):
        """Name and values as the layout has them."""
        if layout == "mlx":
            return name, a
        nested = layout == "nested"
        if name.startswith("vision_tower."):
            if name.endswith("patch_embed.proj.weight"):
                a = a.transpose(0, 4, 1, 2, 3)
            return ("model.visual." if nested else "visual.") + name[len("vision_tower."):], a
        if self.kind == "qwen3_5":
            a = a.transpose(0, 2, 1) if name.endswith("conv1d.weight") else a - name.endswith(SHIFTED)
        name = name[len("language_model."):]
        return name.replace("model.", "model.language_model.", 1) if nested and name.startswith("model.") else name, a


class Case:
    def __init__(self, model, folder, name):
        self.folder, self.prefix = folder, "" if name == "image" else name + "_"
        images, videos, seconds = CASES[name]
        tokens, images, videos = model.prompt(images, videos)
        seconds = seconds if model.kind == "qwen2_5_vl" else None
        self.inputs, self.outputs, ids = {}, {}, np.array(tokens)
        rows, mask, deep = model.table[tokens].copy(), (ids == IMAGE) | (ids == VIDEO), []
        pos, delta = model.positions(tokens, images, videos, seconds)
        for token, grids, what in ((IMAGE, images, ("pixel_values", "image_grid_thw")), (VIDEO, videos, ("pixel_values_videos", "video_grid_thw"))):
            if not grids:
                continue
            pixels = (model.rng.integers(-128, 129, (sum(t * h * w for t, h, w in grids), ROW)) / 64).astype(np.float32)
            self.put(self.inputs, what[0], pixels)
            self.inputs[what[1]] = grids
            seen, stack = model.see(pixels, grids)
            rows[ids == token] = seen
            deep = deep or [np.zeros_like(rows) for _ in stack]
            for whole, part in zip(deep, stack):
                whole[ids == token] = part
        if seconds:
            self.put(self.inputs, "second_per_grid_ts", np.array(seconds, np.float32))
        deep = [x[mask] for x in deep]
        if self.inputs:
            self.put(self.outputs, "image_embeds", rows[mask])
            self.put(self.outputs, "position_ids", pos.astype(np.int32))
        if deep:
            self.put(self.outputs, "deepstack_embeds", np.stack(deep))
        self.put(self.outputs, "logits", model.logits(tokens, rows, pos, deep, mask))
        self.golden = dict(name=name, tokens=list(tokens), inputs=self.inputs, outputs=self.outputs,
                           greedy=self.greedy(model, list(tokens), rows, pos, deep, mask, delta))

    def put(self, where, name, a):
        where[name] = self.prefix + name + ".npy"
        np.save(os.path.join(self.folder, where[name]), a)

    def greedy(self, model, tokens, rows, pos, deep, mask, delta):
        out = []
        for _ in range(NEW):
            last = model.logits(tokens, rows, pos, deep, mask)[-1]
            if np.diff(np.sort(last)[-2:]) < GAP:
                raise Tie
            out.append(int(last.argmax()))
            pos = np.concatenate([pos, np.full((3, 1), len(tokens) + delta)], 1)
            tokens.append(out[-1])
            rows, mask = np.concatenate([rows, model.table[out[-1:]]]), np.append(mask, False)
        return out


def write(root, name, seed):
    kind, layout = MODELS[name]
    folder = os.path.join(root, "multimodal", name)
    os.makedirs(folder)
    for attempt in itertools.count():
        model = Model(kind, np.random.default_rng([seed, attempt]))
        try:
            cases = [Case(model, folder, c).golden for c in CASES]
            break
        except Tie:
            continue
    with open(os.path.join(folder, "golden.json"), "w") as f:
        json.dump(dict(name=name, model_type=kind, cases=cases), f)
    with open(os.path.join(folder, "config.json"), "w") as f:
        json.dump(model.config(layout), f, indent=1)
    tensors = dict(model.stored(layout, k, v) for k, v in model.weights.items())
    mx.save_safetensors(os.path.join(folder, "model.safetensors"),
                        {k: mx.array(np.ascontiguousarray(v)).astype(mx.bfloat16) for k, v in tensors.items()}, metadata={"format": "pt"})


def main(out):
    mx.set_default_device(mx.cpu)
    with tempfile.TemporaryDirectory() as root:
        for i, name in enumerate(MODELS):
            write(root, name, i)
        with tarfile.open(out, "w:xz", preset=9) as tar:
            tar.add(os.path.join(root, "multimodal"), "multimodal", filter=plain)


def plain(info):
    """The same bytes whoever runs this, and when."""
    info.uid = info.gid = info.mtime = 0
    info.uname = info.gname = ""
    return info


if __name__ == "__main__":
    here = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    main(sys.argv[1] if len(sys.argv) > 1 else os.path.join(here, "tests/data/multimodal_mlx.tar.xz"))
