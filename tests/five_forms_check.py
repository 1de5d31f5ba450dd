"""The same model as bf16 safetensors, MLX 4-bit, GGUF Q4_0, GPTQ and AWQ runs through generate, inspect and score; and
what quantize says to wrong flags. Run by tests/five_forms_test.sh from the repository root; standard library only."""
import json
import os
import subprocess
import sys
import tempfile

PROGRAM = os.path.join(os.environ.get("B", "build"), "mlxcel")
QUANTIZED = os.path.join(os.environ.get("MLXCEL_GOLDEN_DIR", "build/goldens"), "quantized")
IDS = "5 17 99 3 42 7 120 11 64 200 31 8"
failures = []


def run(*args):
    return subprocess.run([PROGRAM, *args], capture_output=True, text=True, timeout=120)


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def quantize(source, out, *flags):
    r = run("quantize", "-m", source, "-o", out, "--json", *flags)
    check(r.returncode == 0, "quantize %s: %s" % (flags, r.stderr))
    return json.loads(r.stdout or "{}")


def forms(tmp):
    gptq, awq = os.path.join(QUANTIZED, "gptq_4bit_g128_sym"), os.path.join(QUANTIZED, "awq_g64")
    bf16, mlx, gguf = (os.path.join(tmp, n) for n in ("bf16", "mlx4", "q4_0.gguf"))
    report = quantize(gptq, bf16, "--dequantize", "--dtype", "bfloat16")
    check(report["was_quantized"] and report["quantized"] == 0, "a GPTQ input is decoded: %r" % report)
    report = quantize(bf16, mlx, "--bits", "4", "--group-size", "32")
    check(not report["was_quantized"] and report["quantized"] > 0, "bf16 becomes 4 bits: %r" % report)
    quantize(bf16, gguf, "--gguf", "Q4_0")
    return {"bf16": (bf16, "BF16"), "mlx": (mlx, "mlx"), "gguf": (gguf, "Q4_0"), "gptq": (gptq, "gptq"), "awq": (awq, "awq")}


def try_form(name, path, quantization):
    r = run("inspect", "-m", path, "--json")
    check(r.returncode == 0 and quantization.lower() in r.stdout.lower(), "inspect of %s: %s%s" % (name, r.stderr, r.stdout[:200]))
    r = run("generate", "-m", path, "--ids", IDS, "-n", "6", "--temp", "0", "--ignore-eos", "--json")
    check(r.returncode == 0 and json.loads(r.stdout), "generate with %s: %s" % (name, r.stderr))
    r = run("generate", "-m", path, "-p", "Hello", "-n", "3", "--no-chat-template")
    check(r.returncode == 0, "generate from text with %s: %s" % (name, r.stderr))
    r = run("score", "-m", path, "--ids", IDS, "--json")
    check(r.returncode == 0, "score with %s: %s" % (name, r.stderr))
    return json.loads(r.stdout)["nll"]


def same_model(tmp):
    nll = {name: try_form(name, *form) for name, form in forms(tmp).items()}
    print("nll:", {k: round(v, 3) for k, v in nll.items()})
    for name in ("gptq", "mlx", "gguf"):
        check(abs(nll[name] - nll["bf16"]) < 0.1 * nll["bf16"], "%s is another model than bf16: %r" % (name, nll))


def same_tokens(tmp):
    """The GGUF's vocabulary reads text as tokenizer.json does."""
    texts = "\n".join(json.dumps(t) for t in ("Hello, world!", "I'm  12345\n\n x", "naïve 你好 😀", "")) + "\n"
    answers = [subprocess.run([PROGRAM, "tokenize", "-m", os.path.join(tmp, m), "--jsonl"], input=texts.encode(),
                              capture_output=True, timeout=120).stdout for m in ("bf16", "q4_0.gguf")]
    check(answers[0] == answers[1] and answers[0].count(b"\n") == 4, "tokens differ: %r" % answers)


def wrong_flags(tmp):
    source, out = os.path.join(tmp, "bf16"), os.path.join(tmp, "never")
    for rc, word, *flags in (
            (2, "-o OUT", "-m", source), (2, "model", "-o", out), (2, "--bits", "-m", source, "-o", out, "--bits", "99"),
            (2, "--mode", "-m", source, "-o", out, "--mode", "int4"), (2, "predicate", "-m", source, "-o", out, "--predicate", "x"),
            (2, "--gguf", "-m", source, "-o", out, "--gguf", "Q8_0", "--bits", "4"),
            (2, "--dequantize", "-m", source, "-o", out, "--dequantize", "--gguf", "F16"),
            (2, "--bits", "-m", source, "-o", out, "--predicate", "mixed_3_6", "--bits", "4"),
            (1, "7 bits", "-m", source, "-o", out, "--bits", "7"), (1, "Q9", "-m", source, "-o", out, "--gguf", "Q9"),
            (1, "group size 48", "-m", source, "-o", out, "--group-size", "48"),
            (1, "not empty", "-m", source, "-o", os.path.join(tmp, "mlx4")), (1, "there already", "-m", source, "-o",
                                                                             os.path.join(tmp, "q4_0.gguf"), "--gguf", "F16"),
            (1, "no regular file", "-m", source, "-o", os.devnull, "--gguf", "F16", "--force"),
            (1, "nowhere", "-m", os.path.join(tmp, "nowhere"), "-o", out)):
        r = run("quantize", *flags)
        good = r.returncode == rc and word in r.stderr and len(r.stderr.splitlines()) == 1 and r.stdout == ""
        check(good, "%r: rc %d, %r; wanted rc %d and %r" % (flags, r.returncode, r.stderr, rc, word))
        check(not os.path.exists(out), "%r left something" % (flags,))


def main():
    with tempfile.TemporaryDirectory() as tmp:
        same_model(tmp)
        same_tokens(tmp)
        wrong_flags(tmp)
    print("five forms: %d failures" % len(failures))
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
