"""score --input NAME=FILE.npy or JSON, --output NAME=FILE.npy, generate --input: against the goldens, and what is refused. Run
by tests/media_cli_test.sh from the repository root; standard library only."""
import array
import json
import math
import os
import subprocess
import sys
import tempfile

sys.path.insert(0, "tests")
import cli_model  # noqa: E402

LLAVA = os.path.join(cli_model.GOLDENS, "multimodal", "llava")
LLAMA = os.path.join(cli_model.GOLDENS, "decoder", "llama")
EXACT = ("--backend", "ref", "--cache-type-k", "f32", "--cache-type-v", "f32")
failures = []


def run(*args):
    p = subprocess.run([cli_model.PROGRAM, *map(str, args)], stdin=subprocess.DEVNULL, capture_output=True, timeout=120)
    return p.returncode, p.stdout.decode(), p.stderr.decode()


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def fails(what, rc, words, *args):
    got, out, err = run(*args)
    one_line = err.startswith("mlxcel: ") and err.count("\n") == 1
    check(got == rc and out == "" and one_line and all(w in err for w in words), "%s: rc %d, stdout %r, stderr %r" % (what, got, out[:80], err))


def npy(path):
    """Shape and values of a float32 file in C order."""
    with open(path, "rb") as f:
        data = f.read()
    n = data[8] | data[9] << 8
    header = eval(data[10:10 + n].decode(), {})  # noqa: S307 -- a golden, or made by this test
    assert header["descr"] == "<f4" and not header["fortran_order"]
    return header["shape"], array.array("f", data[10 + n:])


def same(what, path, golden, limit):
    shape, got = npy(path)
    want_shape, want = npy(golden)
    check(shape == want_shape, "%s: shape %r instead of %r" % (what, shape, want_shape))
    if shape == want_shape:
        rms = math.sqrt(sum(v * v for v in want) / len(want))
        worst = max(abs(a - b) for a, b in zip(got, want)) / rms
        check(worst <= limit, "%s is off by %g rms" % (what, worst))


def nested(values, shape):
    if not shape:
        return values[0]
    step = len(values) // shape[0]
    return [nested(values[i * step:(i + 1) * step], shape[1:]) for i in range(shape[0])]


def test_golden(case, folder):
    pixels, ids = os.path.join(LLAVA, case["inputs"]["pixel_values"]), " ".join(map(str, case["tokens"]))
    logits, embeds = os.path.join(folder, "logits.npy"), os.path.join(folder, "embeds.npy")
    common = ("-m", LLAVA, "--ids", ids, "--input", "pixel_values=" + pixels, *EXACT)
    rc, out, err = run("score", *common, "--logits", logits, "--output", "image_embeds=" + embeds, "--json")
    check(rc == 0 and json.loads(out)["tokens"] == len(case["tokens"]), "score --input: rc %d, %s" % (rc, err))
    if rc == 0:
        same(case["name"] + ": logits", logits, os.path.join(LLAVA, case["outputs"]["logits"]), 1e-3)
        same(case["name"] + ": image_embeds", embeds, os.path.join(LLAVA, case["outputs"]["image_embeds"]), 1e-4)
    rc, out, err = run("generate", *common, "-n", 12, "--temp", 0, "--ignore-eos", "--json")
    check(rc == 0 and json.loads(out)["ids"] == case["greedy"], "generate --input: rc %d, %s %s" % (rc, out[:200], err))


def test_json(case, folder):
    """The same tensor as JSON gives the same bytes."""
    shape, values = npy(os.path.join(LLAVA, case["inputs"]["pixel_values"]))
    ids, files = " ".join(map(str, case["tokens"])), []
    for i, given in enumerate((os.path.join(LLAVA, case["inputs"]["pixel_values"]), json.dumps(nested(values.tolist(), shape)))):
        files.append(os.path.join(folder, "%d.npy" % i))
        rc, _, err = run("score", "-m", LLAVA, "--ids", ids, "--input", "pixel_values=" + given, "--logits", files[-1])
        check(rc == 0, "an array %s: %s" % ("as JSON" if i else "in a file", err))
    if all(map(os.path.exists, files)):
        check(open(files[0], "rb").read() == open(files[1], "rb").read(), "JSON and a file differ")


def test_refused(case, folder):
    pixels, ids = "pixel_values=" + os.path.join(LLAVA, case["inputs"]["pixel_values"]), " ".join(map(str, case["tokens"]))
    score, more, out = ("score", "-m", LLAVA, "--ids", ids), os.path.join(folder, "none.npy"), os.path.join(folder, "out.npy")
    short = os.path.join(folder, "short.npy")
    with open(pixels.split("=")[1], "rb") as f, open(short, "wb") as g:
        g.write(f.read()[:-4])
    fails("an unknown input", 1, ["no_such"], *score, "--input", pixels, "--input", "no_such=[1]")
    fails("another name", 1, ["pixel_values"], *score, "--input", pixels.replace("pixel_values=", "pixels=", 1))
    fails("another shape", 1, ["pixel_values", "4"], *score, "--input", "pixel_values=[[0.5, 1]]")
    fails("no file", 1, ["pixel_values", more], *score, "--input", "pixel_values=" + more)
    fails("half a file", 1, ["pixel_values", short, "bytes"], *score, "--input", "pixel_values=" + short)
    fails("broken JSON", 1, ["pixel_values"], *score, "--input", "pixel_values=[[1, 2], [3]]")
    fails("no value", 2, ["--input", "NAME="], *score, "--input", "pixel_values")
    fails("twice", 1, ["pixel_values", "twice"], *score, "--input", pixels, "--input", pixels)
    fails("a placeholder too many", 1, [str(case["tokens"].count(250) + 1), "placeholder"], *score[:-1], ids + " 250", "--input", pixels)
    fails("no placeholder", 1, ["placeholder"], *score[:-1], "1 2 3", "--input", pixels)
    fails("a model of text", 1, ["text"], "score", "-m", LLAMA, "--ids", "1 2", "--input", pixels)
    fails("an unknown output", 1, ["no_such", "image_embeds"], *score, "--input", pixels, "--output", "no_such=" + out)
    fails("output without input", 2, ["--output"], *score, "--output", "image_embeds=" + out)
    fails("a place that cannot be written", 1, ["no/such"], *score, "--input", pixels, "--output", "image_embeds=" + os.path.join(folder, "no/such/x.npy"))
    check(not os.path.exists(out), "a refused output left a file")
    check(not [n for n in os.listdir(folder) if n.endswith(".part")], "half-written files are left")


def main():
    with open(os.path.join(LLAVA, "golden.json")) as f:
        cases = [c for c in json.load(f)["cases"] if c["inputs"]]
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            test_golden(case, folder)
        test_json(cases[0], folder)
        test_refused(cases[0], folder)
    print("%d failures" % len(failures) if failures else "[  PASSED  ] media on the command line")
    sys.exit(bool(failures))


main()
