"""Drives build/mlxcel as scripts do. Run by tests/cli_test.sh from the repository root; standard library only."""
import json
import math
import os
import re
import struct
import subprocess
import sys
import tempfile

sys.path.insert(0, "tests")
import cli_model  # noqa: E402

PROGRAM, GOLDENS = cli_model.PROGRAM, cli_model.GOLDENS
LLAMA = os.path.join(GOLDENS, "decoder", "llama")
EXACT = ["--cache-type-k", "f32", "--cache-type-v", "f32", "-t", "1"]
failures = []


class Result:
    def __init__(self, p):
        self.rc, self.out, self.err = p.returncode, p.stdout.decode("utf-8", "replace"), p.stderr.decode("utf-8", "replace")

    def json(self):
        return json.loads(self.out)


def run(*args, stdin=b"", env=None, **more):
    more.setdefault("timeout", 120)
    if isinstance(stdin, str):
        stdin = stdin.encode()
    full = dict(os.environ, **(env or {}))
    return Result(subprocess.run([PROGRAM, *map(str, args)], input=stdin, capture_output=True, env=full, **more))


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def fails(r, rc, *words, what):
    """One line on stderr that says so, nothing on stdout."""
    lines = r.err.splitlines()
    good = r.rc == rc and r.out == "" and len(lines) == 1 and lines[0].startswith("mlxcel: ")
    good = good and all(w in r.err for w in words)
    check(good, "%s: rc %d, stdout %r, stderr %r; wanted rc %d and one line with %r" % (what, r.rc, r.out[:100], r.err[:300], rc, words))


def jsonl(args, lines):
    text = "\n".join(x if isinstance(x, str) else json.dumps(x) for x in lines) + "\n"
    r = run(*args, "--jsonl", stdin=text)
    check(r.rc == 0 and r.err == "", "%r: rc %d, stderr %r" % (args, r.rc, r.err[:200]))
    answers = [json.loads(x) for x in r.out.split("\n")[:-1]]
    check(len(answers) == len(lines), "%r: %d answers to %d lines" % (args, len(answers), len(lines)))
    return answers


def npy(path):
    """float32 in C order: shape and values."""
    with open(path, "rb") as f:
        data = f.read()
    assert data[:6] == b"\x93NUMPY" and data[6] == 1
    n = struct.unpack("<H", data[8:10])[0]
    header = eval(data[10:10 + n].decode(), {})  # noqa: S307 -- a file that this test made
    assert header["descr"] == "<f4" and not header["fortran_order"] and (10 + n) % 64 == 0
    body = data[10 + n:]
    return header["shape"], struct.unpack("<%df" % (len(body) // 4), body)


def golden(name):
    with open(os.path.join(GOLDENS, "decoder", name, "golden.json")) as f:
        return json.load(f)


def ids_text(ids):
    return " ".join(map(str, ids))


def test_usage(model):
    fails(run(), 2, "command", what="no command")
    fails(run("generat"), 2, "generate", what="a misspelt command names the nearest")
    fails(run("xyzzy"), 2, "xyzzy", what="an unknown command")
    fails(run("generate", "--tmp", "1"), 2, "--tmp", "--temp", what="a misspelt flag names the nearest")
    fails(run("generate", "-m", model, "--top-k"), 2, "--top-k", what="a flag without its value")
    fails(run("generate", "-m", model, "-p", "x", "--temp", "hot"), 2, "hot", what="a number that is none")
    fails(run("generate", "-m", model, "-p", "x", "--top-p", "1.5"), 2, "1.5", what="a number out of range")
    fails(run("generate", "-m", model, "-p", "x", "-n", "ten"), 2, "ten", what="-n ten")
    fails(run("generate", "-m", model, "-p", "x", "--threads=0"), 2, "--threads", what="--threads=0")
    fails(run("generate", "-p", "x"), 2, "model", what="no model")
    fails(run("generate", "-m", model, "--ids", "1 x"), 2, "x", what="an id that is none")
    fails(run("generate", "-m", model, "--ids", "1", "-p", "x"), 2, "--ids", what="ids and a prompt")
    fails(run("arch", "more"), 2, "more", what="an argument too many")
    fails(run("generate", "-m", model, "--ids", "1", "more"), 2, "more", what="an argument beside -m")
    fails(run("two\nlines"), 2, "two", what="a message that quotes a line end is one line")
    fails(run("inspect", "-m", model, env={"MLXCEL_CPU": "z80"}), 2, "MLXCEL_CPU", "z80", what="an unknown instruction set")
    fails(run("generate", "-m", model, "-p", "x", "--logit-bias", "5"), 2, "--logit-bias", what="a bias without its value")
    fails(run("generate", "-m", model, "-p", "x", "--stop", ""), 2, "--stop", what="an empty stop string")
    fails(run("generate", "-m", model, "-p", "x", "--regex", "a", "--json-object"), 2, "--regex", what="two grammars")
    fails(run("tokenize", "-m", model, "--jsonl", "-p", "x"), 2, "--jsonl", what="lines and a text")
    one = run("run", model, "-n", "1", "--ids", "1", env={"MLXCEL_MODEL": "absent"})
    check(one.rc == 0, "the command line's model wins over the environment's: %r" % one.err)
    fails(run("grammar", "--jsonl"), 2, "--regex", what="a grammar that is not given")
    fails(run("bench", "-m", model, "-p", "1x"), 2, "1x", what="a list with a bad number")
    fails(run("bench", "-m", model, "-o", "xml"), 2, "xml", what="an unknown output format")
    for args in ([], ["generate"], ["run"], ["score"], ["bench"], ["inspect"], ["tokenize"]):
        r = run(*args, "--help")
        check(r.rc == 0 and "usage: mlxcel" in r.out and "Examples" in r.out and r.err == "", "help of %r" % args)
    check(run("--version").out.startswith("mlxcel "), "--version")


def test_failures(model, folder):
    plain = os.path.join(folder, "plain")
    os.makedirs(plain, exist_ok=True)
    fails(run("generate", "-m", os.path.join(folder, "absent"), "-p", "x", "--json"), 1, "absent", what="a path that is not there")
    fails(run("generate", "-m", plain, "-p", "x"), 1, "plain", what="a directory that is no model")
    fails(run("generate", "-m", "nobody/nothing", "-p", "x", env={"HF_HUB_CACHE": folder}), 1, "nobody/nothing", folder,
          what="a name that is not in the cache")
    with open(os.path.join(plain, "config.json"), "w") as f:
        json.dump({"model_type": "no_such_model"}, f)
    fails(run("generate", "-m", plain, "-p", "x"), 1, what="a model without weights")
    unknown = cli_model.make(os.path.join(folder, "unknown"))
    with open(os.path.join(unknown, "config.json")) as f:
        config = json.load(f)
    config["model_type"] = "no_such_model"
    with open(os.path.join(unknown, "config.json"), "w") as f:
        json.dump(config, f)
    fails(run("generate", "-m", unknown, "-p", "x", "--json"), 1, "no_such_model", what="an unknown model type")
    fails(run("generate", "-m", LLAMA, "-p", "x", "--json"), 1, "tokenizer", what="text for a model without a tokenizer")
    fails(run("generate", "-m", LLAMA, "--ids", "1 256"), 1, "256", what="an id outside the vocabulary")
    fails(run("generate", "-m", model, "-p", "x" * 100, "-c", "64"), 1, "64", what="a prompt longer than the context")
    fails(run("generate", "-m", model, "-p", "x", "--cache-type-k", "q3"), 2, "q3", what="an unknown cache type")
    fails(run("generate", "-m", model, "-p", "x", "--backend", "warp"), 2, "warp", what="an unknown backend")
    fails(run("generate", "-m", model, "-f", os.path.join(folder, "absent")), 1, "absent", what="a prompt file that is not there")
    fails(run("generate", "-m", model, "-p", "x", "-j", '{"$ref":"http://x/y"}'), 1, "$ref",
          what="a schema that cannot be enforced")
    fails(run("generate", "-m", model, "-p", "x", "--chat-template", "{% broken"), 1, what="a broken template")
    fails(run("score", "-m", model, "--ids", "1 2", "--input", "x=y"), 1, "--input", what="media for a text model")
    fails(run("score", "-m", model, "--ids", "1 2", "--logits", os.path.join(folder, "no/such/dir.npy")), 1, "dir.npy",
          what="a place that cannot be written")
    fails(run("embed", "-m", model, "-p", "x", "--json"), 1, "embed", what="embed with a generator")
    fails(run("rerank", "-m", model, "-q", "x", "-d", "y", "--json"), 1, "rerank", what="rerank with a generator")
    fails(run("inspect", "-m", model, "--tensor", "no.such", "--npy", os.path.join(folder, "t.npy")), 1, "no.such", what="a tensor that is not there")
    if os.path.exists("/dev/full"):
        with open("/dev/full", "wb") as full:
            p = subprocess.run([PROGRAM, "arch", "--json"], stdout=full, stderr=subprocess.PIPE, timeout=60)
        check(p.returncode == 1 and p.stderr.startswith(b"mlxcel: "), "a full disk is an error")


def test_generate(model):
    g = golden("llama")
    r = run("generate", "-m", LLAMA, "--ids", ids_text(g["tokens"][1]), "-n", 24, "--ignore-eos", "--temp", 0, "--json", *EXACT)
    doc = r.json()
    check(r.rc == 0 and doc["ids"] == g["greedy"], "greedy ids of the golden: %r" % doc["ids"])
    check(doc["prompt_ids"] == g["tokens"][1] and doc["finish_reason"] == "length", "prompt_ids and finish_reason")
    for key in ("prompt_n", "cached_n", "prompt_ms", "predicted_n", "predicted_ms", "load_ms", "ttft_ms", "draft_n",
                "draft_n_accepted", "draft_rounds"):
        check(key in doc["timings"], "timings has " + key)
    check(doc["timings"]["prompt_n"] == 7 and doc["timings"]["predicted_n"] == 24, "counts")
    ref = run("generate", "-m", LLAMA, "--ids", ids_text(g["tokens"][1]), "-n", 24, "--ignore-eos", "--json", "--backend", "ref", *EXACT)
    check(ref.json()["ids"] == g["greedy"], "the ref backend says the same")
    r = run("generate", "-m", LLAMA, "--ids", "[1, 2,3]", "-n", 3, "--ignore-eos", "--json", "--logprobs", 2)
    lp = r.json()["logprobs"]
    check(len(lp) == 3 and all(len(t["top_logprobs"]) == 2 and t["logprob"] <= 0 for t in lp), "log probabilities")
    check(all(t["id"] == t["top_logprobs"][0]["id"] for t in lp), "greedy takes the best")
    args = ("generate", "-m", model, "-p", "Hello", "-n", 12, "--ignore-eos", "--temp", 1, "--seed", 7)
    a, b = run(*args, "--json").json(), run(*args, "--json").json()
    check(a["ids"] == b["ids"] and len(a["ids"]) == 12, "a seed fixes the answer")
    check(run(*args).out == a["text"] + ("" if a["text"].endswith("\n") else "\n"), "the stream is the text")
    env = run("generate", "-m", model, "-p", "Hello", "-n", 12, "--json",
              env={"MLXCEL_TEMP": "1", "MLXCEL_SEED": "7", "MLXCEL_IGNORE_EOS": "true"}).json()
    check(env["ids"] == a["ids"], "flags have twins in the environment")
    over = run(*args, "--json", env={"MLXCEL_SEED": "8"}).json()
    check(over["ids"] == a["ids"], "the command line wins over the environment")
    fails(run("generate", "-m", model, "-p", "x", env={"MLXCEL_TOP_K": "many"}), 2, "MLXCEL_TOP_K", what="a bad value in the environment")
    rendered = "<system>Be brief\n<user>Hi\n<assistant>"
    doc = run("generate", "-m", model, "-p", "Hi", "-sys", "Be brief", "-n", 1, "--json").json()
    check(doc["prompt_ids"] == list(rendered.encode()), "the chat template is applied")
    doc = run("generate", "-m", model, "-p", "a\\nb", "-e", "--no-chat-template", "-n", 1, "--json").json()
    check(doc["prompt_ids"] == list(b"a\nb"), "-e and --no-chat-template")
    doc = run("generate", "-m", model, "--no-chat-template", "-n", 1, "--json", stdin="from a pipe").json()
    check(doc["prompt_ids"] == list(b"from a pipe"), "stdin is the prompt")
    doc = run("generate", "-m", model, "-p", "x", "--regex", "(ab)+c", "-n", 30, "--temp", 1, "--seed", 1, "--json").json()
    text = doc["text"]
    check(doc["finish_reason"] == "length" or (text.endswith("c") and text[:-1].replace("ab", "") == ""), "a regular expression holds: %r" % text)
    doc = run("generate", "-m", model, "-p", "x", "-j", '{"enum":["yes","no"]}', "-n", 200, "--json").json()
    check(doc["finish_reason"] == "stop" and json.loads(doc["text"]) in ("yes", "no"), "a schema holds: %r" % doc["text"])
    bias = run("generate", "-m", model, "-p", "x", "-n", 3, "--logit-bias", "65+100", "--json").json()
    check(bias["text"] == "AAA", "logit bias: %r" % bias["text"])
    look = run("generate", "-m", model, "-p", "Hello", "-n", 12, "--ignore-eos", "--temp", 1, "--seed", 7, "--prompt-lookup", "--json")
    check(look.rc == 0 and look.json()["ids"] == a["ids"], "drafting changes no answer")
    stop = run("generate", "-m", model, "-p", "x", "-n", 9, "--logit-bias", "65:100", "--stop", "AA", "--json").json()
    check(stop["finish_reason"] == "stop" and stop["text"] == "", "stop strings")


def test_run(model):
    args = ("run", model, "-n", 4, "--logit-bias", "66+100")
    r = run(*args, "-p", "Hi")
    check(r.rc == 0 and r.out == "BBBB\n" and r.err == "", "run -p: %r %r" % (r.out, r.err))
    check(run(*args, stdin="Hi").out == "BBBB\n", "run reads a pipe")
    doc = run("run", model, "-p", "Explain", "-n", 1, "--json", stdin="this").json()
    check(doc["prompt_ids"] == list(b"<user>Explain\nthis\n<assistant>"), "a pipe is added to -p")
    fails(run("run", model), 2, "no prompt", what="nothing on stdin")
    r = run(*args, "-p", "Hi", "-ngl", 99, "-fa", "on", "--no-mmap")
    check(r.rc == 0 and r.out == "BBBB\n" and "--n-gpu-layers" in r.err, "flags of other engines: %r" % r.err)
    r = run(*args, "-p", "Hi", "--stats")
    check(r.rc == 0 and "tok/s" in r.err, "--stats")
    r = run(*args, "-p", "Hi", "--profile")
    check(r.rc == 0 and "[TTFT]" in r.err and "LINEAR" in r.err and r.out == "BBBB\n", "--profile")
    # A reader that leaves early ends the program quietly.
    p = subprocess.Popen([PROGRAM, "run", model, "-p", "Hi", "--ignore-eos", "-n", "60000"], stdout=subprocess.PIPE,
                         stderr=subprocess.PIPE, stdin=subprocess.DEVNULL)
    p.stdout.read(10)
    p.stdout.close()
    err = p.stderr.read()
    check(p.wait(timeout=120) == 0 and err == b"", "a closed pipe: rc %r, %r" % (p.returncode, err))


def test_score(model, folder):
    g, out, base = golden("llama"), os.path.join(folder, "l.npy"), os.path.join(LLAMA, "logits.npy")
    r = run("score", "-m", LLAMA, "--ids", ids_text(g["tokens"][0]), "--logits", out, "--kl-base", base, "--json", *EXACT)
    doc = r.json()
    shape, x = npy(out)
    with open(base, "rb") as f:
        data = f.read()
    y = struct.unpack("<%df" % (shape[0] * shape[1]), data[-4 * shape[0] * shape[1]:])
    rms = math.sqrt(sum(v * v for v in y) / len(y))
    worst = max(abs(a - b) for a, b in zip(x, y)) / rms
    check(shape == (40, 256) and worst < 1e-3, "logits: shape %r, off by %g rms" % (shape, worst))
    check(doc["tokens"] == 40 and doc["kl_mean"] < 1e-9 and doc["kl_p999"] < 1e-8 and doc["top1_agreement"] == 1, "KL with itself: %r" % doc)
    nll = 0.0
    for i, t in enumerate(g["tokens"][0][1:]):
        row = y[i * 256:(i + 1) * 256]
        top = max(row)
        nll += top + math.log(sum(math.exp(v - top) for v in row)) - row[t]
    check(abs(doc["nll"] - nll / 39) < 1e-3 and abs(doc["perplexity"] / math.exp(doc["nll"]) - 1) < 1e-9, "nll")
    ids = os.path.join(folder, "ids.txt")
    with open(ids, "w") as f:
        f.write("\n".join(map(str, g["tokens"][0])))
    again = run("score", "-m", LLAMA, "--ids-file", ids, "--json", *EXACT).json()
    check(again["nll"] == doc["nll"], "--ids-file")
    fails(run("score", "-m", LLAMA, "--ids", "1 2 3", "--kl-base", base, "--json"), 1, "[40, 256]", what="another shape")
    text = os.path.join(folder, "text.txt")
    with open(text, "w") as f:
        f.write("some text")
    check(run("score", "-m", model, "-f", text, "--json").json()["tokens"] == 9, "text from a file")
    check(not [n for n in os.listdir(folder) if ".part" in n], "no temporary files are left")


def test_lines(model):
    tokenizer = os.path.join(model, "tokenizer.json")
    bad = jsonl(["tokenize", "-m", model], ["\"Hé\"", "not json", "", {"text": "a"}, {"text": 5}, "[", "\"b\""])
    check(bad[0] == list("Hé".encode()) and bad[3] == [97] and bad[6] == [98], "tokenize: %r" % bad)
    check(all("error" in bad[i] for i in (1, 2, 4, 5)), "bad lines are answered: %r" % bad)
    check(jsonl(["tokenize", "--tokenizer", tokenizer], ["\"ab\""]) == [[97, 98]], "--tokenizer")
    r = run("tokenize", "-m", model, "-p", "ab")
    check(r.rc == 0 and r.out == "[97,98]\n", "one text")
    r = run("tokenize", "-m", model, "--jsonl", stdin=b"\"no line end\"")
    check(r.out.count("\n") == 1, "a last line without its end")
    raw = jsonl(["detokenize", "-m", model], [[72, 0xC3, 0xA9], {"ids": [65]}, [-1], "nope", [0xE2, 0x80, 0xA8]])
    check(raw[0] == "Hé" and raw[1] == "A" and "error" in raw[2] and "error" in raw[3] and raw[4] == "\u2028", "detokenize: %r" % raw)
    r = run("detokenize", "-m", model, "--jsonl", stdin="[226,128,168]\n")
    check(r.out == "\"\\u2028\"\n", "no character in a line that some reader takes for its end: %r" % r.out)
    pieces = jsonl(["detokenize", "-m", model, "--pieces"], [[72, 0xC3, 0xA9]])[0]
    check(pieces[:3] == ["H", None, "é"], "pieces: %r" % pieces)
    context = {"messages": [{"role": "user", "content": "Hi"}], "add_generation_prompt": True}
    out = jsonl(["template", "-m", model], [context, {"messages": 5}, "x"])
    check(out[0] == {"text": "<user>Hi\n<assistant>"} and "error" in out[2], "template: %r" % out)
    out = jsonl(["template", "--chat-template", "{{ strftime_now('%Y') }}{{ x }}", "--now", "2026-01-02T03:04:05", "--raw"], [{"x": 1.0}])
    check(out == [{"text": "20261.0"}], "--now, --raw: %r" % out)
    out = jsonl(["template", "--chat-template", "{{ raise_exception('no ' + x) }}"], [{"x": "way"}])
    check(out == [{"error": "no way"}], "raise_exception: %r" % out)
    out = jsonl(["template", "--chat-template", "{% broken %}"], [{}, "x"])
    check(all(list(x) == ["error"] for x in out), "a template that does not compile is the error of every line: %r" % out)
    fails(run("template", "--chat-template", "{% broken %}", "-p", "{}"), 1, "broken", what="a template that does not compile")
    fails(run("template", "-m", os.devnull, "--jsonl"), 1, os.devnull, what="a template of what is no model")
    with tempfile.NamedTemporaryFile() as f:
        for text, want in (("chatml", "chatml"), ("Hello", "Hello"), ("\na\n", "\na"), ("", "")):
            f.seek(0)
            f.truncate()
            f.write(text.encode())
            f.flush()
            check(jsonl(["template", "--template-file", f.name], [context]) == [{"text": want}], "a file is no name: %r" % text)
        f.write(b"a\0b")
        f.flush()
        fails(run("template", "--template-file", f.name, "--jsonl"), 1, "NUL", what="a template that is no text")
    fails(run("template", "-m", model, "-p", "{"), 1, "JSON", what="one bad input is a failure")
    fails(run("parse", "--format", "hermes", "-p", "{}"), 1, "text", what="one bad input is a failure")
    r = run("tokenize", "-m", model, "-f", "/dev/stdin", stdin=b"ab")
    check(r.out == "[97,98]\n", "a file that is a pipe: %r" % r.err)
    reply = {"text": "<think>Hm</think>Yes", "finish": "stop"}
    want = {"content": "Yes", "reasoning": "Hm", "tool_calls": []}
    for split in (0, 1, 5):
        out = jsonl(["parse", "--format", "think_only", "--split", split], [reply, "{}", "?"])
        check(out[0] == want and "error" in out[1] and "error" in out[2], "parse --split %d: %r" % (split, out))
    fails(run("parse", "--format", "nonsense", "--jsonl"), 2, "nonsense", "hermes", what="an unknown format")
    check(jsonl(["grammar", "--regex", "a+b"], ["\"aab\"", "\"b\"", "5"])[:2] == [True, False], "grammar --regex")


def test_grammar_files(folder):
    path = os.path.join(folder, "g.gbnf")
    with open(path, "w") as f:
        f.write('root ::= "yes" | "no"\n')
    check(jsonl(["grammar", "--gbnf", path], ["\"yes\"", "\"maybe\""]) == [True, False], "grammar --gbnf")
    with open(path, "w") as f:
        f.write('{"type":"integer"}')
    check(jsonl(["grammar", "--json-schema", path], ["\"12\"", "\"x\""]) == [True, False], "grammar --json-schema")
    with open(path, "w") as f:
        f.write("root ::= missing")
    fails(run("grammar", "--gbnf", path, "--jsonl"), 1, "missing", what="a grammar with a hole")


def test_inspect(model, folder):
    doc = run("inspect", "-m", LLAMA, "--json").json()
    check(doc["architecture"] == "llama" and doc["vocab_size"] == 256 and doc["n_tensors"] == len(doc["tensors"]), "inspect --json")
    for key in ("weights_bytes", "kv_bytes_total", "kv_bytes_per_token", "activation_bytes", "total_bytes", "budget_bytes", "fits"):
        check(key in doc["budget"], "budget has " + key)
    whole = run("inspect", "-m", model, "--json", "-c", 1024).json()
    small = whole["budget"]
    large = run("inspect", "-m", model, "--json", "-c", 4096, "--parallel", 4).json()["budget"]
    check(large["kv_bytes_total"] > 3 * small["kv_bytes_total"] and large["n_parallel"] == 4, "the budget follows -c")
    check(small["score_total_bytes"] >= small["total_bytes"] + 60 * 4 * whole["vocab_size"], "score plans for its rows of logits")
    r = run("inspect", "-m", model, "-c", 10**9)
    check(r.rc == 0 and "What would fit instead" in r.out, "what does not fit is no failure, and says what would")
    check("LINEAR" in run("inspect", "-m", model, "--program").out, "--program")
    out = os.path.join(folder, "t.npy")
    r = run("inspect", "-m", LLAMA, "--tensor", "model.norm.weight", "--npy", out)
    shape, x = npy(out)
    check(r.rc == 0 and shape == (64,) and all(math.isfinite(v) for v in x), "--tensor")
    doc = run("inspect", "--file", os.path.join(LLAMA, "model.safetensors"), "--json").json()
    check(any(t["name"] == "model.norm.weight" and t["shape"] == [64] for t in doc["tensors"]), "--file safetensors")
    check(run("inspect", "--file", os.path.join(LLAMA, "config.json"), "--json").json() == {"valid": True}, "--file json")
    fails(run("inspect", "--file", os.path.join(folder, "absent.gguf"), "--json"), 1, "absent.gguf", what="a file that is not there")
    fails(run("inspect", "--file", __file__, "--json"), 1, "cli_check.py", what="a file of another kind")
    families = run("arch", "--json").json()
    check(any(f["name"] == "llama" and "llama" in f["model_types"] and f["kind"] == "text" for f in families), "arch --json")


def test_malformed():
    """Files that lie: refused with one line, or accepted, as the index says; never a signal."""
    top = "tests/data/malformed"
    with open(os.path.join(top, "index.jsonl")) as f:
        cases = [json.loads(line) for line in f]
    for c in cases:
        if c["kind"] not in ("safetensors", "gguf", "json"):
            continue
        path = os.path.join(top, c["file"])
        if not path.endswith((".safetensors", ".gguf", ".json")) or not os.path.exists(path):
            continue
        r = run("inspect", "--file", path, "--json", timeout=60)
        if r.rc == 1:
            check(c["must"] != "accept" and r.out == "" and len(r.err.splitlines()) == 1, "%s: %r" % (c["file"], r.err[:200]))
        else:
            check(r.rc == 0, "%s: exit status %d" % (c["file"], r.rc))
            # Some faults of a GGUF show only when the model is put together.
            check(c["must"] != "refuse" or c["kind"] == "gguf", "%s was accepted: %s" % (c["file"], c["why"]))


def test_bench(model):
    doc = run("bench", "-m", model, "-p", "16,32", "-n", 4, "-d", "0,64", "-B", "1,2", "-t", 1, "-r", 2, "--json").json()
    tests = [row["test"] for row in doc["rows"]]
    check(len(tests) == 12 and tests[0] == "pp16" and "tg4 @ d64 B2" in tests, "bench: %r" % tests)
    check(all(len(row["samples_ts"]) == 2 and row["avg_ts"] > 0 and row["share"] > 0 for row in doc["rows"]), "bench rows")
    check(doc["machine"]["read_gbs"] > 0 and doc["machine"]["int8_gmacs"] > 0, "ceilings")
    rows = run("bench", "-m", model, "-p", 0, "-n", 4, "-t", 1, "-r", 2, "-o", "json").json()
    check(len(rows) == 1 and rows[0]["n_gen"] == 4 and len(rows[0]["samples_ts"]) == 2, "-o json")
    lines = run("bench", "-m", model, "-p", 8, "-n", 0, "-t", 1, "-r", 1, "-o", "jsonl").out.splitlines()
    check(len(lines) == 1 and json.loads(lines[0])["n_prompt"] == 8, "-o jsonl")
    csv = run("bench", "-m", model, "-p", 8, "-n", 4, "-t", 1, "-r", 1, "-o", "csv").out.splitlines()
    check(len(csv) == 3 and csv[0].startswith("build_commit,") and csv[1].startswith('"'), "-o csv")
    table = run("bench", "-m", model, "-p", 8, "-n", 0, "-t", 1, "-r", 1, "--no-ceilings").out
    check(re.search(r"\| +pp8 \| +[0-9.]+ ± 0.00 \|", table), "-o md: %r" % table)


def test_cache_lookup(folder):
    snapshot = os.path.join(folder, "hub", "models--me--tiny", "snapshots", "abc")
    cli_model.make(snapshot)
    refs = os.path.join(folder, "hub", "models--me--tiny", "refs")
    os.makedirs(refs)
    with open(os.path.join(refs, "main"), "w") as f:
        f.write("abc")
    env = {"HF_HUB_CACHE": os.path.join(folder, "hub")}
    for name in ("me/tiny", "tiny"):
        r = run("inspect", "-m", name, "--json", env=env)
        check(r.rc == 0 and r.json()["path"].endswith("snapshots/abc"), "%s in the Hugging Face cache: %r" % (name, r.err))
    fails(run("inspect", "-m", "me/tiny:Q8_0", env=env), 1, "Q8_0", what="a quantization that is not there")
    fails(run("inspect", "-m", "../tiny", env=env), 1, "../tiny", what="no way out of the cache")


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = cli_model.make(os.path.join(folder, "tiny"))
        test_usage(model)
        test_failures(model, folder)
        test_generate(model)
        test_run(model)
        test_score(model, folder)
        test_lines(model)
        test_grammar_files(folder)
        test_inspect(model, folder)
        test_malformed()
        test_bench(model)
        test_cache_lookup(folder)
    print("%d failures" % len(failures) if failures else "[  PASSED  ] the command line")
    sys.exit(bool(failures))


main()
