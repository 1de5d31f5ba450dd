"""download, list and rm against a hub of our own (hub_server.py). Run by tests/hub_test.sh from the repository root; needs
no network; standard library only."""
import hashlib
import json
import os
import random
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time

sys.path.insert(0, "tests")
import hub_server  # noqa: E402
from hub_server import COMMIT, Hub, Repo, cut  # noqa: E402

PROGRAM = os.path.join(os.environ.get("B", "build"), "mlxcel")
failures = []
hub = Hub()
top = tempfile.mkdtemp()
n_homes = 0
BIG = random.Random(1).randbytes(11 << 20) + b"tail"
FILES = {"config.json": b'{"a":1}', "model.safetensors": BIG, "tokenizer.json": b"{}", "README.md": b"hi", "code.py": b"evil",
         "pytorch_model.bin": b"pickle", "sub/dir/a b%.json": b"[1]", "empty.txt": b""}
hub.repos["o/m"] = Repo(FILES)


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


def home():
    """A fresh home directory, an empty cache in it."""
    global n_homes
    n_homes += 1
    path = os.path.join(top, "home%d" % n_homes)
    os.mkdir(path)
    hub.faults.clear()
    hub.log.clear()
    hub.ranges, hub.rate = True, 0
    return path


def start(where, *args, env=None, **more):
    full = {k: v for k, v in os.environ.items() if not k.startswith(("HF_", "MLXCEL_", "XDG_", "OLLAMA")) and "proxy" not in k.lower()}
    full.update({"HOME": where, "HF_ENDPOINT": hub.url, **(env or {})})
    return subprocess.Popen([PROGRAM, *args], env=full, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                            text=True, **more)


def run(where, *args, env=None, stdin=""):
    p = start(where, *args, env=env)
    out, err = p.communicate(stdin, timeout=120)
    return p.returncode, out, err


def good(result, what):
    check(result[0] == 0, "%s: rc %d, stderr %r" % (what, result[0], result[2]))
    return result[1].strip()


def bad(result, *words):
    rc, out, err = result
    ok = rc == 1 and out == "" and err.count("\n") == 1 and err.startswith("mlxcel: ") and all(w in err for w in words)
    check(ok, "rc %d, stdout %r, stderr %r; wanted 1 and one line with %r" % (rc, out, err, words))


def folder(where):
    return os.path.join(where, ".cache/huggingface/hub/models--o--m")


def whole(path, files, what):
    for name, data in files.items():
        at = os.path.join(path, name)
        check(os.path.isfile(at) and open(at, "rb").read() == data, "%s: %s is not what the hub has" % (what, name))


def tree(path):
    return sorted(os.path.relpath(os.path.join(d, f), path) for d, _, fs in os.walk(path) for f in fs)


WANTED = {k: v for k, v in FILES.items() if not k.endswith((".md", ".py", ".bin"))}


def layout():
    hub.repos["o/m"] = Repo(FILES)
    h = home()
    path = good(run(h, "download", "o/m"), "download")
    f = folder(h)
    check(path == os.path.join(f, "snapshots", COMMIT), "the path printed: %r" % path)
    whole(path, WANTED, "snapshot")
    check(tree(path) == sorted(WANTED), "only model files: %r" % tree(path))
    check(open(os.path.join(f, "refs/main")).read() == COMMIT, "refs/main")
    link = os.readlink(os.path.join(path, "sub/dir/a b%.json"))
    check(link.startswith("../../../../blobs/"), "links are relative: %r" % link)
    check(os.path.exists(os.path.join(f, "blobs", hashlib.sha256(BIG).hexdigest())), "a large blob is named by its sha256")
    check(any(x[3] for x in hub.log if x[0] == "cdn") and len([x for x in hub.log if x[0] == "cdn"]) >= 3, "ranges are used")
    hub.log.clear()
    good(run(h, "download", "o/m"), "again")
    check(not [x for x in hub.log if x[0] == "cdn"], "nothing is fetched twice")
    rows = json.loads(good(run(h, "list", "--json"), "list"))
    check(rows[0]["repo_id"] == "o/m" and rows[0]["own"] and rows[0]["path"] == path, "list: %r" % rows)
    doc = json.loads(good(run(h, "download", "o/m", "--json", "--revision", "v1"), "json"))
    check(doc["commit"] == COMMIT and doc["missing_bytes"] == 0, "json: %r" % doc)
    check(os.path.exists(os.path.join(f, "refs/v1")), "refs/v1")
    path = good(run(h, "download", "m", env={"MLXCEL_DEFAULT_ORG": "o", "HF_HUB_CACHE": h + "/x"}), "bare name")
    check(path.startswith(h + "/x/models--o--m/"), "HF_HUB_CACHE: %r" % path)
    path = good(run(h, "download", "o/m", env={"HF_HUB_OFFLINE": "1"}), "offline, but here")
    check(path.endswith(COMMIT), "offline: %r" % path)
    bad(run(h, "download", "o/other", env={"HF_HUB_OFFLINE": "1"}), "HF_HUB_OFFLINE")


def choices():
    h = home()
    good(run(h, "download", "o/m", "--include", "*.json", "--exclude", "tok*"), "include")
    check(tree(folder(h) + "/snapshots/" + COMMIT) == ["config.json", "sub/dir/a b%.json"], "include and exclude")
    bad(run(h, "download", "o/m", "--include", "nothing*"), "--include")
    names = ["m-Q4_K_M.gguf", "m-Q8_0-00001-of-00002.gguf", "m-Q8_0-00002-of-00002.gguf", "mmproj-F16.gguf", "m-IQ4_XS.gguf"]
    hub.repos["o/m"] = Repo({n: n.encode() * 9 for n in names + ["config.json"]})
    h = home()
    check(good(run(h, "download", "o/m"), "gguf").endswith("/m-Q4_K_M.gguf"), "Q4_K_M is the default")
    path = good(run(h, "download", "o/m:q8_0"), "quant")
    check(path.endswith("/m-Q8_0-00001-of-00002.gguf"), "the first part is the path: %r" % path)
    check(tree(os.path.dirname(path)) == names[:3], "one quantization at a time: %r" % tree(os.path.dirname(path)))
    bad(run(h, "download", "o/m:Q2_K"), "Q2_K", "m-Q4_K_M.gguf")
    hub.repos["o/m"] = Repo(FILES)


def refusals():
    h = home()
    bad(run(h, "download", "o/none"), "o/none", "HF_TOKEN")
    bad(run(h, "download", "o/m", "--revision", "v9"), "revision")
    hub.repos["o/m"].gated = True
    bad(run(h, "download", "o/m"), "403", "restricted")
    hub.repos["o/m"].gated = False
    bad(run(h, "download", "o/m", env={"HF_ENDPOINT": "http://example.invalid"}), "MLXCEL_ALLOW_INSECURE_ENDPOINT")
    check(run(h, "download", "../mlxcel-no-such-file")[0] == 1, "a name that is a path")
    for name in ["../evil.json", "/etc/evil.json", "a/../../evil.json", "a\x00b.json", "a//b.json", "x" * 3000 + ".json", "..\\evil.json"]:
        hub.repos["o/bad"] = Repo({"config.json": b"{}", name: b"evil"})
        bad(run(h, "download", "o/bad"), "refused")
    hub.repos["o/bad"] = Repo({"a.json": b"{}", "a.json/b.json": b"evil"})
    bad(run(h, "download", "o/bad"), "a.json")
    check(not tree(h), "nothing was written: %r" % tree(h)[:5])


def token():
    hub.repos["o/m"].token = "hf_secret"
    h = home()
    bad(run(h, "download", "o/m"), "HF_TOKEN")
    good(run(h, "download", "o/m", env={"HF_TOKEN": "hf_secret"}), "token")
    check(all(x[4] == "Bearer hf_secret" for x in hub.log if x[0] == "hub" and x[2].endswith("tensors")), "the hub sees it")
    check([x for x in hub.log if x[0] == "cdn"] and not any(x[4] for x in hub.log if x[0] == "cdn"), "the CDN does not see it")
    os.makedirs(h + "/t")
    open(h + "/t/token", "w").write("hf_secret\n")
    good(run(h, "download", "o/m", env={"HF_HOME": h + "/t"}), "token file")
    hub.repos["o/m"].token = None


def times(n, kind, action):
    """A fault that happens the first n times."""
    left = [n]

    def fault(h, k, name):
        with hub.lock:
            now = k == kind and left[0] > 0
            left[0] -= now
        return action(h) if now else False
    return fault


def trouble():
    for what, kind, action in [
            ("429", "cdn", lambda h: hub.reply(h, 429, b"", [("Retry-After", "1")])),
            ("503 of the listing", "api", lambda h: hub.reply(h, 503)),
            ("500", "resolve", lambda h: hub.reply(h, 500, b"oops")),
            ("expired address", "cdn", lambda h: hub.reply(h, 403, b"expired")),
            ("416", "cdn", lambda h: hub.reply(h, 416, b"", [("Content-Range", "bytes */%d" % len(BIG))])),
            ("cut before the answer", "cdn", cut)]:
        h = home()
        hub.faults.append(times(1 if what == "416" else 2, kind, action))
        whole(good(run(h, "download", "o/m"), what), WANTED, what)
    h = home()

    def half(handler):  # promises all, sends some
        handler.send_response(206)
        lo = int(handler.headers["Range"].split("=")[1].split("-")[0])
        hi = int(handler.headers["Range"].split("-")[1])
        handler.send_header("Content-Length", str(hi - lo + 1))
        handler.send_header("Content-Range", "bytes %d-%d/%d" % (lo, hi, len(BIG)))
        handler.end_headers()
        handler.wfile.write(BIG[lo:lo + 300000])
        return cut(handler)
    hub.faults.append(times(5, "cdn", half))
    whole(good(run(h, "download", "o/m"), "broken"), WANTED, "broken connections")
    h = home()
    hub.ranges = False
    whole(good(run(h, "download", "o/m"), "no ranges"), WANTED, "a server without ranges")
    h = home()
    hub.faults.append(times(99, "cdn", lambda x: hub.reply(x, 500)))
    bad(run(h, "download", "o/m", "--retries", "1"), "500", "model.safetensors")
    check(not os.path.exists(folder(h) + "/snapshots"), "no snapshot of what is not whole")
    h = home()
    hub.faults.append(times(99, "cdn", lambda x: hub.reply(x, 416)))
    bad(run(h, "download", "o/m", "--retries", "1"), "416", "model.safetensors")
    h = home()

    def small_disk():  # a limit of files' sizes fails writes as a full disk does
        resource.setrlimit(resource.RLIMIT_FSIZE, (4 << 20, 4 << 20))
    p = start(h, "download", "o/m", preexec_fn=small_disk)
    out, err = p.communicate(timeout=120)
    bad((p.returncode, out, err), "cannot write", "File too large")
    check(not os.path.exists(folder(h) + "/snapshots"), "no snapshot on a full disk")
    whole(good(run(h, "download", "o/m"), "room again"), WANTED, "after a full disk")
    h = home()
    hub.faults.append(times(1, "cdn", lambda x: time.sleep(3) or cut(x)))
    whole(good(run(h, "download", "o/m", env={"HF_HUB_DOWNLOAD_TIMEOUT": "1"}), "stalled"), WANTED, "a stalled connection")
    hub.repos["o/m"].sizes = False
    h = home()
    whole(good(run(h, "download", "o/m"), "no sizes"), WANTED, "a listing without sizes")
    hub.repos["o/m"].sizes, hub.repos["o/m"].only_tree = True, True
    h = home()
    whole(good(run(h, "download", "o/m"), "tree"), WANTED, "a hub with the tree route only")
    hub.repos["o/m"].only_tree = False


def hashes():
    hub.repos["o/m"].wrong_hash.add("model.safetensors")
    h = home()
    bad(run(h, "download", "o/m"), "sha256", "0" * 64)
    check(not os.path.exists(folder(h) + "/snapshots"), "a wrong file is no part of a snapshot")
    hub.repos["o/m"].wrong_hash.clear()
    h = home()
    blob = os.path.join(folder(h), "blobs", hashlib.sha256(BIG).hexdigest())
    os.makedirs(os.path.dirname(blob))
    open(blob + ".incomplete", "wb").write(BIG[:6000000])
    whole(good(run(h, "download", "o/m"), "resume"), WANTED, "resume")
    starts = sorted(int(x[3].split("=")[1].split("-")[0]) for x in hub.log if x[0] == "cdn" and x[3])
    check(starts[0] == 6000000, "it goes on from what is there: %r" % starts)
    for what, data in [("a wrong prefix", b"x" * 6000000), ("a prefix that is too long", BIG + b"xx"), ("all of it", BIG)]:
        h = home()
        blob = os.path.join(folder(h), "blobs", hashlib.sha256(BIG).hexdigest())
        os.makedirs(os.path.dirname(blob))
        open(blob + ".incomplete", "wb").write(data)
        whole(good(run(h, "download", "o/m"), what), WANTED, what)


def interrupts():
    for sig, rc in [(signal.SIGINT, 130), (signal.SIGKILL, -9)]:
        h = home()
        hub.rate = 1 << 20
        blob = os.path.join(folder(h), "blobs", hashlib.sha256(BIG).hexdigest())
        p = start(h, "download", "o/m")
        end = time.time() + 30
        while time.time() < end and not (os.path.exists(blob + ".incomplete") and os.path.getsize(blob + ".incomplete") > 200000):
            time.sleep(0.02)
        p.send_signal(sig)
        err = p.communicate(timeout=30)[1]
        check(p.returncode == rc, "signal %d: rc %d, %r" % (sig, p.returncode, err))
        size = os.path.getsize(blob + ".incomplete") if os.path.exists(blob + ".incomplete") else -1
        check(size > 0 and open(blob + ".incomplete", "rb").read() == BIG[:size], "what is left is a prefix (%d bytes)" % size)
        hub.rate = 0
        whole(good(run(h, "download", "o/m"), "goes on"), WANTED, "after signal %d" % sig)


def two_at_once():
    h = home()
    hub.rate = 8 << 20
    all_ = [start(h, "download", "o/m") for _ in range(3)]
    for p in all_:
        out, err = p.communicate(timeout=60)
        check(p.returncode == 0, "together: rc %d %r" % (p.returncode, err))
    whole(folder(h) + "/snapshots/" + COMMIT, WANTED, "together")
    got = sum(int(x[3].split("-")[1]) - int(x[3].split("=")[1].split("-")[0]) + 1 for x in hub.log if x[0] == "cdn" and x[3])
    check(got == len(BIG), "each byte is fetched once: %d of %d" % (got, len(BIG)))


def local_dir():
    h = home()
    d = os.path.join(h, "here")
    good(run(h, "download", "o/m", "--local-dir", d), "local")
    whole(d, WANTED, "local")
    check(not os.path.islink(d + "/config.json") and not os.path.exists(folder(h)), "plain files, no cache")
    open(d + "/config.json", "w").write("{}")
    hub.log.clear()
    good(run(h, "download", "o/m", "--local-dir", d), "local again")
    whole(d, WANTED, "a changed local file")
    check(not [x for x in hub.log if x[0] == "cdn"], "what is right stays")
    shutil.rmtree(d)
    os.makedirs(d)
    os.makedirs(h + "/out/dir")
    os.symlink(h + "/out", d + "/sub")
    bad(run(h, "download", "o/m", "--local-dir", d), "link")
    check(tree(h + "/out") == [], "nothing is written through a link")


def models_dir():
    h = home()
    d = os.path.join(h, "a", "store")
    good(run(h, "download", "o/m", "--models-dir", d), "a folder of models")
    whole(d + "/o/m", WANTED, "a folder of models")
    check(not os.path.islink(d + "/o/m/config.json") and not os.path.exists(folder(h)), "plain files, no cache")
    rows = [r["repo_id"] for r in json.loads(good(run(h, "list", "--json", "--models-dir", d), "list"))]
    check(rows == ["o/m"], "what was downloaded is found by its name: %r" % rows)
    check(good(run(h, "download", "o/m", "--models-dir", d, env={"HF_HUB_OFFLINE": "1"}), "offline").strip() == d + "/o/m", "offline")
    good(run(h, "download", "o/m", env={"MLXCEL_MODELS_DIR": h + "/read"}), "the variable")
    check(not os.path.exists(h + "/read") and os.path.exists(folder(h)), "the variable is for reading")
    bad(run(h, "download", "o/m", "--models-dir", d, "--local-dir", d), "one of them")
    os.makedirs(h + "/out")
    os.makedirs(h + "/other")
    os.symlink(h + "/out", h + "/other/o")
    bad(run(h, "download", "o/m", "--models-dir", h + "/other"), "link")
    check(tree(h + "/out") == [], "nothing is written through a link")


def removal():
    h = home()
    good(run(h, "download", "o/m"), "download")
    rc, out, err = run(h, "rm", "o/m")
    check(rc == 2 and "--yes" in err and os.path.exists(folder(h)), "rm asks: %d %r" % (rc, err))
    foreign = os.path.join(folder(h), "blobs", "theirs")
    open(foreign, "w").write("x")
    check(run(h, "rm", "o/m", "--dry-run")[0] == 0 and os.path.exists(folder(h) + "/snapshots"), "dry run")
    good(run(h, "rm", "o/m", "--yes"), "rm")
    check(tree(folder(h)) == ["blobs/theirs"], "only its own: %r" % tree(folder(h)))
    bad(run(h, "rm", "o/m", "--yes"), "not downloaded by mlxcel")
    os.unlink(foreign)
    good(run(h, "download", "o/m"), "download")
    good(run(h, "rm", "o/m", "--yes"), "rm")
    check(not os.path.exists(folder(h)), "nothing is left")
    bad(run(h, "rm", "o/m", "--yes"), "not on this machine")


def stores():
    h = home()
    root = os.path.join(h, ".ollama/models")
    blob = b"GGUF?"
    digest = hashlib.sha256(blob).hexdigest()
    os.makedirs(root + "/blobs")
    open(root + "/blobs/sha256-" + digest, "wb").write(blob)
    for name, layer in [("library/tiny/latest", "sha256:" + digest), ("me/evil/latest", "sha256:../../../../etc/passwd")]:
        at = root + "/manifests/registry.ollama.ai/" + name
        os.makedirs(os.path.dirname(at))
        json.dump({"layers": [{"mediaType": "application/vnd.ollama.image.model", "digest": layer, "size": 5}]}, open(at, "w"))
    lm = os.path.join(h, ".lmstudio/models/pub/thing")
    os.makedirs(lm)
    open(lm + "/thing-Q4_K_M.gguf", "wb").write(blob)
    rows = {r["repo_id"]: r for r in json.loads(good(run(h, "list", "--json"), "list"))}
    check(sorted(rows) == ["pub/thing", "tiny:latest"], "stores: %r" % sorted(rows))
    check(rows["tiny:latest"]["store"] == "ollama" and rows["pub/thing"]["store"] == "lmstudio", "stores: %r" % rows)
    for name in ["tiny", "tiny:latest", "ollama:tiny", "pub/thing", "thing"]:
        bad(run(h, "generate", "-m", name, "-p", "x"), "GGUF" if "tiny" not in name else "sha256-")
    own = os.path.join(h, "mine")
    os.makedirs(own + "/we/ours")
    open(own + "/we/ours/ours.gguf", "wb").write(blob)
    args = ["--models-dir", own]
    rows = [r["repo_id"] for r in json.loads(good(run(h, "list", "--json", *args), "list --models-dir"))]
    check("we/ours" in rows and "pub/thing" in rows, "--models-dir adds a folder: %r" % rows)
    bad(run(h, "generate", "-m", "we/ours", "-p", "x", *args), "GGUF")
    bad(run(h, "generate", "-m", "we/ours", "-p", "x"), "mlxcel download we/ours")
    bad(run(h, "rm", "pub/thing", "--yes"), "not downloaded by mlxcel")
    bad(run(h, "generate", "-m", "no/such", "-p", "x"), "mlxcel download no/such")


def running():
    h = home()
    rc, out, err = run(h, "run", "-p", "hi", env={"MLXCEL_DEFAULT_MODEL": "o/m"})
    check("downloading o/m" in err and "MB" in err.splitlines()[0], "run says what it fetches: %r" % err)
    check(os.path.exists(folder(h) + "/refs/main"), "run fetches")


for part in [layout, choices, refusals, token, trouble, hashes, interrupts, two_at_once, local_dir, models_dir, removal, stores, running]:
    if len(sys.argv) < 2 or part.__name__ in sys.argv[1:]:
        part()
shutil.rmtree(top, ignore_errors=True)
print("%d failures" % len(failures) if failures else "[  PASSED  ] the model store")
sys.exit(1 if failures else 0)
