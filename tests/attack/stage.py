"""The stage: a sandbox and a node as processes in a scratch folder, and a client that sees every byte."""

import json
import os
import re
import shutil
import socket
import subprocess
import tempfile
import time

BIN = os.environ["RUPOR_BIN"]
# Looked for wherever it must not be.
CANARY = "CANARY0123456789invented"
SECRET = "secret-of-the-site-0123456789abcdef"
SHOP_SECRET = "secret-of-the-shop-0123456789abcdef"
TOKEN = "0123456789abcdef0123456789abcdef"

CONFIG = """
preset = "mirror"
[accounts.bot]
platform = "telegram"
token = { env = "ATTACK_TOKEN" }
[channels.news]
account = "bot"
target = -1009750000001
dedup = "off"
[endpoints.site]
kind = "push"
secret = { env = "ATTACK_SECRET" }
rate = 1000
[workspaces.shop]
preset = "mirror"
[workspaces.shop.accounts.bot]
platform = "telegram"
token = { env = "ATTACK_SHOP_TOKEN" }
[workspaces.shop.channels.offers]
account = "bot"
target = -1009750000002
dedup = "off"
[workspaces.shop.endpoints.shop]
kind = "push"
secret = { env = "ATTACK_SHOP_SECRET" }
rate = 1000
"""


class Answer:
    def __init__(self, raw):
        self.raw = raw
        head, _, self.body = raw.partition(b"\r\n\r\n")
        self.head = head.decode("latin-1").lower()
        words = self.head.split(" ", 2)
        self.status = int(words[1]) if len(words) > 1 and words[1].isdigit() else 0
        if "transfer-encoding: chunked" in self.head:
            self.body = unchunked(self.body)

    def json(self):
        return json.loads(self.body)


def unchunked(body):
    whole = b""
    while True:
        size, _, rest = body.partition(b"\r\n")
        n = int(size or b"0", 16)
        if n == 0 or len(rest) < n:
            return whole
        whole, body = whole + rest[:n], rest[n + 2:]


def connect(at, source="127.0.0.1", timeout=30):
    sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    sock.settimeout(timeout)
    if source != "127.0.0.1":
        sock.bind((source, 0))
    sock.connect(at)
    return sock


def read_all(sock):
    raw = b""
    try:
        while piece := sock.recv(1 << 16):
            raw += piece
    except (ConnectionError, socket.timeout):
        pass
    return raw


def send(at, raw, source="127.0.0.1", timeout=30):
    """Sends bytes and reads to the end; status 0 if nothing came back."""
    try:
        with connect(at, source, timeout) as sock:
            try:
                sock.sendall(raw)
            except OSError:
                pass  # who refuses early may close before everything is written
            return Answer(read_all(sock))
    except OSError:
        return Answer(b"")


def request(method, path, headers=(), body=b"", host="localhost"):
    if not isinstance(body, bytes):
        body = json.dumps(body, ensure_ascii=False).encode()
    lines = [f"{method} {path} HTTP/1.1", f"Host: {host}", "Connection: close", f"Content-Length: {len(body)}"]
    lines += [f"{name}: {value}" for name, value in headers]
    return ("\r\n".join(lines) + "\r\n\r\n").encode() + body


def free_port():
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return sock.getsockname()[1]


def until(what, seconds=20, every=0.05):
    """Waits for something to be true; None if it never is."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if found := what():
            return found
        time.sleep(every)
    return None


class Stage:
    """A sandbox and a node against it."""

    def __init__(self, folder=None, token=None, prefix=(), config=CONFIG, environment=None):
        self.own_folder = folder is None
        self.folder = folder or tempfile.mkdtemp(prefix="rupor-attack.")
        self.token, self.config, self.processes = token, config, []
        self.sandbox_port, self.port = free_port(), free_port()
        self.at, self.sandbox_at = ("127.0.0.1", self.port), ("127.0.0.1", self.sandbox_port)
        self.path("rupor.toml", config)
        # Whoever believes the environment comes by here.
        self.proxy = socket.create_server(("127.0.0.1", 0))
        self.sandbox = self.start(["sandbox", "--listen", f"127.0.0.1:{self.sandbox_port}", "--any-token"], "sandbox.log")
        if not until(lambda: self.ask_sandbox("GET", "/_/stats").status == 200):
            raise SystemExit("attack: the sandbox does not answer")
        run = ["run", "--config", "rupor.toml", "--listen", f"127.0.0.1:{self.port}", "--poll-interval", "1s"]
        self.node = self.start(run, "node.log", prefix, **(environment or {}))
        if not until(lambda: self.ask("GET", "/readyz").status == 200, 60):
            raise SystemExit("attack: the node does not answer:\n" + self.log()[-2000:])

    def path(self, name, text=None):
        path = os.path.join(self.folder, name)
        if text is not None:
            with open(path, "w", encoding="utf-8") as file:
                file.write(text)
        return path

    def environment(self, **more):
        base = f"http://127.0.0.1:{self.sandbox_port}"
        env = {k: v for k, v in os.environ.items() if not k.startswith(("RUPOR_", "TG_", "VK_", "MAX_", "DATABASE_"))}
        env |= {
            "RUPOR_DB": f"sqlite:{self.path('rupor.db')}",
            "RUPOR_TELEGRAM_API": f"{base}/telegram", "RUPOR_VK_API": f"{base}/vk", "RUPOR_MAX_API": f"{base}/max",
            "RUPOR_LOG": "debug", "RUPOR_PLATFORM_LIMITS": "off", "ATTACK_TOKEN": f"424242:{CANARY}", "ATTACK_SHOP_TOKEN": f"434343:{CANARY}shop",
            "ATTACK_SECRET": SECRET, "ATTACK_SHOP_SECRET": SHOP_SECRET,
        }
        proxy = f"http://127.0.0.1:{self.proxy.getsockname()[1]}"
        env |= {name: proxy for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "http_proxy", "https_proxy", "all_proxy"]}
        env.pop("NO_PROXY", None)
        env.pop("no_proxy", None)
        if self.token:
            env["RUPOR_HTTP_TOKEN"] = self.token
        return env | more

    def start(self, arguments, log, prefix=(), **environment):
        out = open(self.path(log), "ab")
        process = subprocess.Popen([*prefix, BIN, *arguments], cwd=self.folder, env=self.environment(**environment),
                                   stdin=subprocess.DEVNULL, stdout=out, stderr=out)
        self.processes.append(process)
        return process

    def rupor(self, *arguments, timeout=60, **environment):
        """A command beside the node."""
        return subprocess.run([BIN, *arguments], cwd=self.folder, env=self.environment(**environment),
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=timeout)

    def log(self):
        with open(self.path("node.log"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def ask(self, method, path, headers=(), body=b"", source="127.0.0.1", host="localhost", timeout=30):
        return send(self.at, request(method, path, headers, body, host), source, timeout)

    def view(self, path, source="127.0.0.1"):
        headers = [("Authorization", f"Bearer {self.token}")] if self.token else []
        return self.ask("GET", path, headers, source=source)

    def push(self, post, secret=SECRET, source="127.0.0.1", headers=(), timeout=60):
        own = [("Authorization", f"Bearer {secret}"), ("Content-Type", "application/json"), *headers]
        return self.ask("POST", "/v1/ingest", own, post, source, timeout=timeout)

    def api_token(self, name, workspace="default"):
        """A token that may hand messages in."""
        made = self.rupor("token", "new", name, "--scope", "ingest", "--workspace", workspace, "--json")
        if made.returncode != 0:
            raise SystemExit(f"attack: no token: {made.stderr.decode()}")
        return json.loads(made.stdout)["token"]

    def send_message(self, message, token, source="127.0.0.1", timeout=60):
        own = [("Authorization", f"Bearer {token}"), ("Content-Type", "application/json")]
        return self.ask("POST", "/v1/messages", own, message, source, timeout=timeout)

    def ask_sandbox(self, method, path, body=b"", headers=()):
        return send(self.sandbox_at, request(method, path, headers, body, f"127.0.0.1:{self.sandbox_port}"))

    def ledger(self):
        return self.ask_sandbox("GET", "/_/ledger?platform=telegram").json()["telegram"]

    def arrived(self, text, seconds=30):
        is_it = lambda row: row["accepted"] and text in (row["text"] or "")
        return until(lambda: any(is_it(row) for row in self.ledger()), seconds, 0.2)

    def events(self, workspace="default"):
        done = self.rupor("events", "--workspace", workspace, "--json", "--limit", "200")
        text = done.stdout.decode()
        try:
            return json.loads(text)
        except ValueError:
            return [json.loads(line) for line in text.splitlines() if line.startswith("{")]

    def peak_megabytes(self):
        with open(f"/proc/{self.node.pid}/status", encoding="ascii") as file:
            return int(re.search(r"VmHWM:\s+(\d+) kB", file.read())[1]) / 1024

    def close(self):
        self.proxy.close()
        for process in reversed(self.processes):
            if process.poll() is None:
                process.terminate()
                try:
                    process.wait(15)
                except subprocess.TimeoutExpired:
                    process.kill()
                    process.wait()
        if self.own_folder:
            shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
