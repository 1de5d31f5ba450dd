"""A small imitation of the hub for tests/hub_check.py: the routes, redirects, ranges and headers of the real one, and its
faults on demand. Two ports: the hub itself, and a CDN on another one, which must never see the token."""
import hashlib
import http.server
import json
import socket
import threading
import time
import urllib.parse

COMMIT = "c" * 40


class Repo:
    def __init__(self, files, lfs=lambda name: name.endswith((".safetensors", ".gguf"))):
        self.files, self.lfs = dict(files), lfs
        self.token = None  # needed to see it
        self.gated = False
        self.sizes = True  # in the listing
        self.only_tree = False  # a copy of the hub that knows one route
        self.wrong_hash = set()

    def sha(self, name):
        good = hashlib.sha256(self.files[name]).hexdigest()
        return "0" * 64 if name in self.wrong_hash else good

    def oid(self, name):
        data = self.files[name]
        return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()

    def tree(self):
        lfs = lambda n: {"lfs": {"oid": self.sha(n), "size": len(self.files[n]), "pointerSize": 130}} if self.lfs(n) else {}
        return [{"type": "file", "path": n, "size": len(self.files[n]), "oid": self.oid(n), **lfs(n)} for n in self.files]

    def listing(self):
        rows = []
        for name in self.files:
            row = {"rfilename": name}
            if self.sizes:
                row.update(size=len(self.files[name]), blobId=self.oid(name))
                if self.lfs(name):
                    row["lfs"] = {"sha256": self.sha(name), "size": len(self.files[name]), "pointerSize": 130}
            rows.append(row)
        return {"id": "x", "sha": COMMIT, "siblings": rows}


class Hub:
    """faults: list of functions (handler, kind, name) -> True when it answered itself; kind: api, resolve, cdn."""

    def __init__(self):
        self.repos, self.faults, self.log = {}, [], []
        self.ranges, self.rate = True, 0
        self.lock = threading.Lock()
        self.hub, self.cdn = self._serve("hub"), self._serve("cdn")
        self.url = "http://127.0.0.1:%d" % self.hub.server_port
        self.cdn_url = "http://127.0.0.1:%d" % self.cdn.server_port

    def _serve(self, side):
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *args):
                pass

            def do_GET(self):
                outer.answer(self, side)

            do_HEAD = do_GET

        class Server(http.server.ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, request, client_address):
                pass

        server = Server(("127.0.0.1", 0), Handler)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server

    def reply(self, h, status, body=b"", headers=()):
        h.send_response(status)
        for k, v in headers:
            h.send_header(k, v)
        h.send_header("Content-Length", str(len(body)))
        h.end_headers()
        if h.command != "HEAD":
            h.wfile.write(body)
        return True

    def answer(self, h, side):
        path = urllib.parse.unquote(urllib.parse.urlsplit(h.path).path)
        parts = path.strip("/").split("/")
        with self.lock:
            self.log.append((side, h.command, path, h.headers.get("Range"), h.headers.get("Authorization")))
        if side == "cdn":
            repo, name = self.repos["/".join(parts[:2])], "/".join(parts[2:])
            return self.fault(h, "cdn", name) or self.content(h, repo.files[name])
        if parts[:2] == ["api", "models"]:
            return self.api(h, "/".join(parts[2:4]), parts[4:])
        return self.resolve(h, "/".join(parts[:2]), parts[3], "/".join(parts[4:]))

    def fault(self, h, kind, name):
        with self.lock:
            faults = list(self.faults)
        return any(f(h, kind, name) for f in faults)

    def visible(self, h, name):
        repo = self.repos.get(name)
        sent = h.headers.get("Authorization")
        if repo is None or (repo.token and sent != "Bearer " + repo.token):
            self.reply(h, 401, b"{}", [("X-Error-Code", "RepoNotFound")])
            return None
        if repo.gated:
            self.reply(h, 403, b"{}", [("X-Error-Code", "GatedRepo"), ("X-Error-Message", "access is restricted")])
            return None
        return repo

    def api(self, h, name, rest):
        repo = self.visible(h, name)
        if repo is None or self.fault(h, "api", name):
            return True
        if rest[0] == "tree":
            return self.reply(h, 200, json.dumps(repo.tree()).encode())
        if repo.only_tree:
            return self.reply(h, 404, b"no such route")
        if rest[0] != "revision" or rest[1] not in ("main", COMMIT, "v1"):
            return self.reply(h, 404, b"{}", [("X-Error-Code", "RevisionNotFound")])
        return self.reply(h, 200, json.dumps(repo.listing()).encode(), [("Content-Type", "application/json")])

    def resolve(self, h, name, rev, file):
        repo = self.visible(h, name)
        if repo is None or self.fault(h, "resolve", file):
            return True
        if file not in repo.files:
            return self.reply(h, 404, b"", [("X-Error-Code", "EntryNotFound")])
        head = [("X-Repo-Commit", COMMIT), ("ETag", '"%s"' % repo.oid(file))]
        if not repo.lfs(file):
            return self.content(h, repo.files[file], head)
        head += [("X-Linked-Etag", '"%s"' % repo.sha(file)), ("X-Linked-Size", str(len(repo.files[file])))]
        head += [("Location", "%s/%s/%s?signature=x" % (self.cdn_url, name, urllib.parse.quote(file)))]
        return self.reply(h, 302, b"elsewhere", head)

    def content(self, h, data, headers=()):
        wanted = h.headers.get("Range")
        if not wanted or not self.ranges:
            return self.send(h, 200, data, list(headers))
        lo, hi = wanted.split("=")[1].split("-")
        lo, hi = int(lo), min(int(hi or len(data) - 1), len(data) - 1)
        if lo >= len(data):
            return self.reply(h, 416, b"", [("Content-Range", "bytes */%d" % len(data))])
        return self.send(h, 206, data[lo:hi + 1], list(headers) + [("Content-Range", "bytes %d-%d/%d" % (lo, hi, len(data)))])

    def send(self, h, status, data, headers):
        h.send_response(status)
        for k, v in headers:
            h.send_header(k, v)
        h.send_header("Content-Length", str(len(data)))
        h.end_headers()
        if h.command == "HEAD":
            return True
        for i in range(0, len(data), 65536):
            h.wfile.write(data[i:i + 65536])
            if self.rate:
                time.sleep(65536 / self.rate)
        return True


def cut(h):
    """Ends a connection in the middle."""
    h.close_connection = True
    try:
        h.connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
    return True
