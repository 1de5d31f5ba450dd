"""Talks with `mlxcel run` through a pseudo-terminal. Run by tests/repl_test.sh from the repository root; standard library only.

What the model says means nothing; what was understood is read from the files that /save writes."""
import json
import os
import pty
import select
import signal
import sys
import tempfile
import time

sys.path.insert(0, "tests")
import cli_model  # noqa: E402

WAIT = 60.0  # seconds until a missing answer counts as a failure
PROMPT = b">>> "
failures = []


def check(ok, what):
    if not ok:
        failures.append(what)
        print("FAILED:", what)


class Terminal:
    def __init__(self, *args, **env):
        self.seen = b""
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.environ.update(env)
            os.execv(cli_model.PROGRAM, [cli_model.PROGRAM, *args])

    def send(self, text):
        os.write(self.fd, text.encode() if isinstance(text, str) else text)

    def read(self, timeout):
        if not select.select([self.fd], [], [], timeout)[0]:
            return b""
        try:
            data = os.read(self.fd, 65536)
        except OSError:  # the other side is gone
            data = b""
        self.seen += data
        return data

    def until(self, text, what):
        """Everything up to and with text."""
        text = text.encode() if isinstance(text, str) else text
        end = time.monotonic() + WAIT
        while text not in self.seen and time.monotonic() < end:
            self.read(0.2)
        check(text in self.seen, "%s: waited for %r, got %r" % (what, text, self.seen[-300:]))
        before, _, self.seen = self.seen.partition(text)
        return before

    def line(self, text, what):
        """A line, and the answer to it, up to the next prompt."""
        self.send(text + "\r")
        return self.until(PROMPT, what)

    def quiet(self):
        """Until nothing has come for a moment: the program waits for keys."""
        while self.read(0.3):
            pass

    def leave(self, what):
        end = time.monotonic() + WAIT
        while time.monotonic() < end:
            self.read(0.1)
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            if pid:
                check(os.WIFEXITED(status) and os.WEXITSTATUS(status) == 0, "%s: wait status %d" % (what, status))
                while self.read(0):
                    pass
                os.close(self.fd)
                return
        os.kill(self.pid, signal.SIGKILL)
        os.waitpid(self.pid, 0)
        check(False, what + ": it does not leave")


def messages(t, folder, name):
    path = os.path.join(folder, name)
    t.line("/save " + path, name)
    if not os.path.exists(path):
        check(False, name + " was not saved")
        return []
    with open(path, encoding="utf-8") as f:
        return json.load(f)


def said(talk, role="user"):
    return [m["content"] for m in talk if m["role"] == role]


def test_talk(model, folder):
    env = {"XDG_CACHE_HOME": os.path.join(folder, "cache"), "LC_ALL": "C", "TERM": "xterm"}
    t = Terminal("run", model, "-t", "1", "-n", "3", "--logit-bias", "66+100", **env)
    t.until(PROMPT, "the first prompt")
    # Hangul and wide characters: two are taken back, one is put in front of the last.
    t.send("안녕하세요")
    t.quiet()
    t.send("\x7f\x7f")
    t.quiet()
    t.send("\x1b[D한")
    t.quiet()
    check(b"BBB" in t.line("", "Hangul"), "an answer on the terminal")
    t.send("pasted one\npasted two\n\npasted four\n")
    t.until(b"BBB", "pasted lines")
    t.until(PROMPT, "pasted lines")
    t.send('"""\r')
    t.until(b"... ", "a block")
    t.send("/exit\r")
    t.until(b"... ", "a block's second line")
    t.line('end"""', "a block's end")
    t.line("/set n_predict 2", "/set")
    t.line("/system Be brief", "/system")
    t.line("/usr/bin is a path", "a message that begins with a slash")
    check(b"mlxcel:" in t.line("/set temperature hot", "/set with a bad value"), "a bad value is refused")
    check(b"/help" in t.line("/hlep", "an unknown command"), "an unknown command names the nearest")
    check(b"tok/s" in t.line("/stats", "/stats"), "/stats")
    talk = messages(t, folder, "talk.json")
    check(said(talk) == ["안녕한하", "pasted one\npasted two\n\npasted four", "/exit\nend", "/usr/bin is a path"],
          "what was understood: %r" % said(talk))
    check(said(talk, "assistant") == ["BBB", "BBB", "BBB", "BB"], "answers: %r" % said(talk, "assistant"))
    check(said(talk, "system") == ["Be brief"], "the system message")
    t.line("/set n_predict 4", "/set again")
    t.line("/regen", "/regen")
    check(said(messages(t, folder, "regen.json"), "assistant") == ["BBB", "BBB", "BBB", "BBBB"], "/regen replaces the last answer")
    t.line("/clear", "/clear")
    check(said(messages(t, folder, "clear.json")) == [], "/clear")
    t.line("/load " + os.path.join(folder, "talk.json"), "/load")
    check(messages(t, folder, "load.json") == talk, "/load brings back what /save wrote")
    t.send("\x04")
    t.leave("Ctrl-D")
    history = os.path.join(env["XDG_CACHE_HOME"], "mlxcel", "history")
    check(os.path.exists(history) and os.stat(history).st_mode & 0o777 == 0o600, "the history is private")
    t = Terminal("chat", model, "-t", "1", "-n", "1", **env)
    t.until(PROMPT, "a second start")
    t.send("\x1b[A")  # the last line of the history: the last command
    t.quiet()
    check(b"load.json" in t.seen, "the history is there again: %r" % t.seen)
    t.line("", "a line from the history")
    t.send("/bye\r")
    t.leave("/bye")


def test_interrupts(model, folder):
    t = Terminal("run", model, "-t", "1", "--ignore-eos", "--logit-bias", "67+100", XDG_CACHE_HOME=folder, TERM="xterm")
    t.until(PROMPT, "the first prompt")
    t.send("go on\r")
    t.until(b"CCCCCCCC", "a long answer")
    t.send("\x03")
    t.until(PROMPT, "Ctrl-C stops the answer")
    t.send("half a line")
    t.quiet()
    t.send("\x03")
    t.until(PROMPT, "Ctrl-C drops the line")
    talk = messages(t, folder, "stopped.json")
    answers = said(talk, "assistant")
    check(said(talk) == ["go on"] and len(answers) == 1 and set(answers[0]) == {"C"}, "the answer as far as it came")
    for _ in range(40):  # as soon as the prompt is seen: the program may not wait for keys yet
        t.line("/stats", "a command between two Ctrl-C")
        t.send("\x03")
        t.until(b"again", "Ctrl-C at an empty prompt warns")
        t.until(PROMPT, "Ctrl-C at an empty prompt")
    t.send("\x03")
    t.leave("a second Ctrl-C")


def screen(model, *args, **env):
    """What a command that ends by itself leaves on a terminal."""
    t = Terminal("generate", "-m", model, "-t", "1", "-p", "x", "-n", "2", "--logit-bias", "66+100", *args, TERM="xterm", **env)
    t.leave("a command on a terminal")
    return t.seen


def test_progress(model):
    bar, wiped = b"[#", b"\r\x1b[K"
    seen = screen(model, MLXCEL_PROGRESS_DELAY="0")
    check(bar in seen and b"loading" in seen, "loading shows a bar: %r" % seen)
    check(seen.rfind(b"loading") < seen.rfind(wiped) < seen.rfind(b"BB"), "the bar is gone before the answer: %r" % seen)
    check(bar not in screen(model, MLXCEL_PROGRESS_DELAY="1000"), "what is done sooner shows no bar")
    check(bar not in screen(model, MLXCEL_PROGRESS_DELAY="0", MLXCEL_NO_PROGRESS="1"), "MLXCEL_NO_PROGRESS")
    check(bar not in screen(model, "--json", MLXCEL_PROGRESS_DELAY="0"), "no bar beside JSON")


def main():
    with tempfile.TemporaryDirectory() as folder:
        model = cli_model.make(os.path.join(folder, "tiny"))
        test_talk(model, folder)
        test_interrupts(model, folder)
        test_progress(model)
    print("%d failures" % len(failures) if failures else "[  PASSED  ] the conversation")
    sys.exit(bool(failures))


main()
