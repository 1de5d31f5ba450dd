#!/usr/bin/env python3
"""Drives the built program over the text vectors, by the forms a user has: tokenize, detokenize, template, parse, grammar.

usage: text_vectors.py PROGRAM GOLDEN TOKENIZERS      (GOLDEN: a folder with tokenizer/ template/ jinja/ toolcall/ schema/ gbnf/;
TOKENIZERS: the unpacked tokenizer files, one folder each). What is not there is skipped and said so. Only the standard library.
Exit status 1 if any answer differs."""

import hashlib
import json
import os
import struct
import subprocess
import sys
import tempfile

PROGRAM, GOLDEN, TOKENIZERS = sys.argv[1:4]
failures = []


def lines(path):
    with open(path, encoding="utf-8") as f:
        return [json.loads(line) for line in f]


def ask(arguments, inputs):
    """One JSON line in, one out, in order."""
    text = "".join(json.dumps(x) + "\n" for x in inputs)
    run = subprocess.run([PROGRAM] + arguments, input=text.encode("utf-8", "surrogatepass"), capture_output=True)
    out = [json.loads(line) for line in run.stdout.decode("utf-8", "surrogatepass").split("\n") if line]
    if len(out) != len(inputs):
        raise RuntimeError("%s: %d answers to %d lines, status %d: %s" % (arguments, len(out), len(inputs), run.returncode, run.stderr[:300]))
    return out


def expect(what, got, want):
    if got != want:
        failures.append(what)
        if len(failures) <= 20:
            print("DIFFERS %s\n  got  %.300r\n  want %.300r" % (what, got, want))
    return got == want


def same_ids(got, want):
    if isinstance(want, dict):
        packed = struct.pack("<%dI" % len(got), *got) if isinstance(got, list) else b""
        return isinstance(got, list) and len(got) == want["n"] and hashlib.sha256(packed).hexdigest() == want["sha256"]
    return got == want


def check_ids(what, got, want):
    return expect(what, got, want) if not same_ids(got, want) else True


def tokenizer(name, corpus):
    folder = os.path.join(TOKENIZERS, name)
    files = [f for f in ("tokenizer.json", "tokenizer.model") if os.path.exists(os.path.join(folder, f))]
    files += [f for f in sorted(os.listdir(folder)) if f.endswith(".tiktoken")] if os.path.isdir(folder) else []
    if not files:
        return "skipped: no files"
    vectors = lines(os.path.join(GOLDEN, "tokenizer", name, "vectors.jsonl"))
    meta, rows = vectors[0]["meta"], [v for v in vectors[1:] if "id" in v]
    rows = [r for r in rows if r["id"] in corpus]
    texts = [corpus[r["id"]] for r in rows]
    main = ["tokenize", "--tokenizer", os.path.join(folder, files[0]), "--jsonl"]
    back = ["detokenize", "--tokenizer", os.path.join(folder, files[0]), "--jsonl"]
    if files[0].endswith(".tiktoken"):
        main += ["--pattern", "gpt2"]
        back += ["--pattern", "gpt2"]
    bare, before = files[0].endswith(".tiktoken"), len(failures)
    ids = ask(main, [{"text": t, "add_special": False, "parse_special": True} for t in texts])
    plain = ask(main, [{"text": t, "add_special": False, "parse_special": False} for t in texts])
    full = ask(main, [{"text": t, "add_special": True, "parse_special": True} for t in texts])
    for r, i, p, f in zip(rows, ids, plain, full):
        check_ids("%s %s np" % (name, r["id"]), p, r.get("np", r["ids"]))
        if bare:  # such a file has no special tokens
            continue
        check_ids("%s %s ids" % (name, r["id"]), i, r["ids"])
        if not isinstance(r["ids"], dict):
            check_ids("%s %s full" % (name, r["id"]), f, r.get("full", meta["pre"] + r["ids"] + meta["post"]))
    known = [(r, t) for r, t in zip(rows, texts) if not isinstance(r["ids"], dict) and not (bare and "np" in r)]
    dec = ask(back, [r["ids"] for r, _ in known])
    skip = ask(back, [{"ids": r["ids"], "skip_special": True} for r, _ in known])
    pieces = ask(back + ["--pieces"], [r["ids"] for r, _ in known])
    for (r, t), d, s, p in zip(known, dec, skip, pieces):
        want = r.get("dec", t)
        expect("%s %s dec" % (name, r["id"]), d, want)
        expect("%s %s skip" % (name, r["id"]), s, r.get("skip", want))
        expect("%s %s pieces" % (name, r["id"]), "".join(x or "" for x in p), want)
    if "tokenizer.model" in files[1:]:
        spm = ask(["tokenize", "--tokenizer", os.path.join(folder, "tokenizer.model"), "--jsonl"],
                  [{"text": t, "add_special": False, "parse_special": False} for t in texts])
        for r, i in zip(rows, spm):
            if isinstance(r["ids"], dict) and "spm" not in r:  # not recorded for long texts
                continue
            check_ids("%s %s spm" % (name, r["id"]), i, r.get("spm", r.get("np", r["ids"])))
    return "%d texts, %d differences" % (len(rows), len(failures) - before)


def tokenizers():
    path = os.path.join(GOLDEN, "tokenizer")
    if not os.path.isdir(path) or not os.path.isdir(TOKENIZERS):
        return print("tokenizer: skipped, no vectors or no files")
    corpus = {r["id"]: r["text"] for r in lines(os.path.join(path, "corpus.jsonl")) if "id" in r}
    for name in sorted(os.listdir(path)):
        if os.path.exists(os.path.join(path, name, "vectors.jsonl")):
            print("tokenizer %s: %s" % (name, tokenizer(name, corpus)), flush=True)
    folder = os.path.join(path, "vocab_gguf")
    for f in sorted(os.listdir(folder)) if os.path.isdir(folder) else []:
        gguf = next((g for g in (os.path.join(d, f[:-6] + ".gguf") for d in (folder, os.path.join(TOKENIZERS, "vocab_gguf"))) if os.path.exists(g)), "")
        if f.endswith(".jsonl") and not gguf:
            print("vocab_gguf %s: skipped, packed" % f)
        elif f.endswith(".jsonl"):
            rows, before = [r for r in lines(os.path.join(folder, f)) if "text" in r], len(failures)
            got = ask(["tokenize", "--tokenizer", gguf, "--jsonl"],
                      [{"text": r["text"], "add_special": False, "parse_special": True} for r in rows])
            for k, (r, g) in enumerate(zip(rows, got)):
                check_ids("%s %d" % (f, k), g, r["ids"])
            print("vocab_gguf %s: %d texts, %d differences" % (f, len(rows), len(failures) - before), flush=True)


def rendered(what, got, row):
    if "out" in row:
        return expect(what, got.get("text"), row["out"])
    if row.get("error") == "raise":
        return expect(what, got.get("error"), row["message"])
    return expect(what + " fails", "error" in got, True)


def templates():
    path = os.path.join(GOLDEN, "template")
    if not os.path.isdir(path):
        return print("template: skipped")
    conversations = json.load(open(os.path.join(path, "conversations.json"), encoding="utf-8"))
    n, before = 0, len(failures)
    for f in sorted(os.listdir(path)):
        if not f.endswith(".jsonl"):
            continue
        rows = lines(os.path.join(path, f))
        meta, rows = rows[0]["meta"], rows[1:]
        contexts = [dict(meta["special_tokens"], **conversations[r["case"]]) for r in rows]
        got = ask(["template", "--template-file", os.path.join(path, f[:-6] + ".jinja"), "--now", meta["now"], "--raw", "--jsonl"], contexts)
        for r, g in zip(rows, got):
            rendered("%s %s" % (f, r["case"]), g, r)
        n += len(rows)
    print("template: %d prompts, %d differences" % (n, len(failures) - before), flush=True)


def parses():
    path = os.path.join(GOLDEN, "toolcall", "cases.jsonl")
    if not os.path.exists(path):
        return print("toolcall: skipped")
    rows = lines(path)
    tools, rows, before = rows[0]["meta"]["tools"] if "tools" in rows[0]["meta"] else rows[0].get("tools"), rows[1:], len(failures)
    for name in sorted({r["format"] for r in rows}):
        mine = [r for r in rows if r["format"] == name]
        inputs = [{"text": r["output"], "tools": r.get("tools", tools), "prompt_tail": r.get("prompt_tail", ""),
                   "finish": r.get("finish", "stop")} for r in mine]
        for split in ("0", "1", "7"):
            extra = ["--split", split] if split != "0" else []
            for r, g in zip(mine, ask(["parse", "--format", name, "--jsonl"] + extra, inputs)):
                want, what = r["expect"], "%s split %s" % (r["id"], split)
                calls = [{"name": c["name"], "arguments": c["arguments"]} for c in g.get("tool_calls", [])]
                wanted = [{"name": c["name"], "arguments": c["arguments"]} for c in want.get("tool_calls", [])]
                if r.get("open") or want.get("open"):
                    expect(what, calls[:len(wanted)], wanted)
                    continue
                expect(what, [(g.get("content") or "").strip(), (g.get("reasoning") or "").strip(), calls],
                       [(want.get("content") or "").strip(), (want.get("reasoning") or "").strip(), wanted])
    print("toolcall: %d replies, %d differences" % (len(rows), len(failures) - before), flush=True)


def grammar_answers(kind, source, texts):
    with tempfile.NamedTemporaryFile("w", suffix=".txt", encoding="utf-8") as f:
        f.write(source)
        f.flush()
        return ask(["grammar", kind, f.name, "--jsonl"], texts)


def grammars():
    path = os.path.join(GOLDEN, "schema", "schemas.jsonl")
    before, n, refused = len(failures), 0, 0
    for r in lines(path)[1:] if os.path.exists(path) else []:
        texts = r["valid"] + r["invalid"]
        try:
            got = grammar_answers("--json-schema", json.dumps(r["schema"]), texts)
        except RuntimeError as e:
            refused += 1
            expect("%s refused: %s" % (r["id"], e), r["level"], "ext")
            continue
        n += len(texts)
        expect(r["id"], got, [True] * len(r["valid"]) + [False] * len(r["invalid"]))
    print("schema: %d texts, %d schemas refused, %d differences" % (n, refused, len(failures) - before), flush=True)
    path, before, n = os.path.join(GOLDEN, "gbnf", "cases.jsonl"), len(failures), 0
    for r in lines(path) if os.path.exists(path) else []:
        if "grammar" not in r:
            continue
        texts = r["accept"] + r["reject"]
        n += len(texts)
        expect(r["id"], grammar_answers("--gbnf", r["grammar"], texts), [True] * len(r["accept"]) + [False] * len(r["reject"]))
    print("gbnf: %d texts, %d differences" % (n, len(failures) - before), flush=True)


templates()
parses()
grammars()
tokenizers()
print("%d differences" % len(failures))
sys.exit(1 if failures else 0)
