"""Attacks on the built binary. Each is a function whose first line says what an attacker tries; it returns nothing when
the attack failed, and raises Broken with what they got when it did not."""

import glob
import json
import os
import re
import socket
import stat
import struct
import subprocess
import sys
import threading
import time

import limits
from stage import BIN, CANARY, SECRET, Stage, connect, free_port, read_all, request, send, until


class Broken(Exception):
    pass


def must(holds, what):
    if not holds:
        raise Broken(what)


class Skipped(Exception):
    pass


# -- getting in

def open_board_by_accident(_):
    """start a node that other machines can read, without a token"""
    env = {k: v for k, v in os.environ.items() if not k.startswith("RUPOR_")}
    for arguments, variables in [
        (["run", "--listen", "0.0.0.0:0"], {}),
        (["run", "--listen", "[::]:0"], {}),
        (["run", "--listen", "127.0.0.1:0"], {"RUPOR_HTTP_HOSTS": "board.example"}),
        (["run", "--listen", "127.0.0.1:0"], {"RUPOR_HTTP_PROXIES": "127.0.0.1"}),
        (["run", "--listen", "0.0.0.0:0"], {"RUPOR_HTTP_TOKEN": "short"}),
        (["sandbox", "--listen", "0.0.0.0:0"], {}),
    ]:
        db = {"RUPOR_DB": "sqlite:/nonexistent/rupor.db"}
        try:
            done = subprocess.run([BIN, *arguments], env=env | db | variables, capture_output=True, timeout=10)
        except subprocess.TimeoutExpired:
            raise Broken(f"{arguments} {variables} runs") from None
        said = done.stderr.decode()
        must(done.returncode != 0 and ("TOKEN" in said or "--expose" in said), f"{arguments} {variables}: {said}")


def read_the_board_through_a_proxy(stage):
    """read a board without a token through a proxy that forwards to loopback"""
    for header in ["X-Forwarded-For: 203.0.113.9", "Forwarded: for=203.0.113.9", "Via: 1.1 x", "X-Real-IP: 127.0.0.1",
                   "X-Forwarded-Host: board.example", "X-Forwarded-Proto: https"]:
        for path in ["/", "/board/state", "/metrics"]:
            answer = stage.ask("GET", path, [tuple(header.split(": "))])
            must(answer.status == 403, f"{path} with {header}: {answer.status}")
    old = send(stage.at, b"GET /board/state HTTP/1.0\r\nHost: localhost\r\n\r\n")
    must(old.status == 403, f"HTTP/1.0: {old.status}")


def rebind_a_name(stage):
    """reach the node or the sandbox from a web page by a name that points at 127.0.0.1"""
    for at in [stage.at, stage.sandbox_at]:
        for raw, status in [
            (request("GET", "/", host="evil.example"), 421),
            (request("GET", "/", host="127.0.0.1.evil.example"), 421),
            (b"GET / HTTP/1.1\r\nHost: localhost\r\nHost: evil.example\r\nConnection: close\r\n\r\n", 400),
        ]:
            got = send(at, raw).status
            must(got == status, f"{raw!r}: {got}")
    for path in ["/board/state", "/board/events"]:
        got = stage.ask("GET", path, [("Origin", "http://evil.example")]).status
        must(got == 403, f"{path} from another origin: {got}")
    got = stage.ask_sandbox("POST", "/_/reset", b"{}", [("Origin", "http://evil.example")]).status
    must(got == 403, f"the sandbox was changed from another origin: {got}")


def guess_secrets(stage, seconds=2.0):
    """guess secrets as fast as one connection and fifty connections can"""
    started, looked, refused = time.monotonic(), 0, 0

    def guess(n, source):
        nonlocal looked, refused
        while time.monotonic() - started < seconds:
            status = stage.push({"text": "x"}, f"wrong-{n}-{time.monotonic()}", source, timeout=seconds + 8).status
            looked, refused = looked + (status == 401), refused + (status != 401)

    threads = [threading.Thread(target=guess, args=(n, "127.0.0.1")) for n in range(50)]
    for thread in threads:
        thread.start()
    time.sleep(min(1.0, seconds / 2))
    begun = time.monotonic()
    other = stage.push({"text": "from another household"}, source="127.0.0.2")
    took = time.monotonic() - begun
    for thread in threads:
        thread.join()
    lasted = time.monotonic() - started
    # What is on its way when the first mistakes are counted: one look for each of a household's 64 connections.
    must(looked <= 64 + 2 * lasted + 5, f"{looked} secrets were looked at in {lasted:.1f} s")
    must(other.status == 202, f"another household was refused meanwhile: {other.status} {other.body!r}")
    told = until(lambda: [e for e in stage.events() if e["name"] == "ingress_rejected"], 15, 0.5)
    must(told, "nothing tells of it")
    must("wrong-" not in json.dumps(told), "the guesses themselves are written down")
    return f"{looked} looked at and {refused} turned away in {lasted:.1f} s; another household waited {took * 1000:.0f} ms"


def forge_and_confuse(stage):
    """send requests that two readers understand differently, bombs and wrong kinds of bodies"""
    own = [("Authorization", f"Bearer {SECRET}"), ("Content-Type", "application/json")]
    deep = b'{"text": ' + b"[" * 100_000 + b"]" * 100_000 + b"}"
    keys = b"{" + b",".join(b'"k%d":1' % n for n in range(60_000)) + b"}"
    for what, headers, body, statuses in [
        ("two Authorization headers", [*own, ("Authorization", "Bearer x")], b"{}", {400}),
        ("a key twice", own, b'{"text": "a", "text": "b"}', {400}),
        ("a foreign workspace in the body", own, {"text": "a", "workspace_id": 2}, {400}),
        ("a foreign channel", own, {"text": "a", "channels": ["offers"]}, {422}),
        ("a file for a photo", own, {"text": "a", "photos": ["file:///etc/passwd"]}, {422}),
        ("deep nesting", own, deep, {400}),
        ("many keys", own, keys, {400}),
        ("digits without end", own, b'{"text":"a","date":' + b"9" * 900_000 + b"}", {400}),
        ("ten megabytes", own, b" " * 10_000_000, {413}),
        ("compressed", [*own, ("Content-Encoding", "gzip")], b"\x1f\x8b", {415}),
        ("a form", [own[0], ("Content-Type", "application/x-www-form-urlencoded")], b"text=a", {415}),
        ("TRACE", own, b"", {405}),
    ]:
        method = "TRACE" if what == "TRACE" else "POST"
        got = stage.ask(method, "/v1/ingest", headers, body).status
        must(got in statuses, f"{what}: {got}")
    token = stage.api_token("forms")
    part = lambda head, body=b"a": b"--edge\r\nContent-Disposition: form-data; " + head + b"\r\n\r\n" + body + b"\r\n"
    text, end = part(b'name="text"'), b"--edge--\r\n"
    for what, kind, body, statuses in [
        ("a form without a border", "multipart/form-data", text + end, {400}),
        ("a border that never comes", "multipart/form-data; boundary=other", text + end, {400}),
        ("a form that never ends", "multipart/form-data; boundary=edge", text, {400}),
        ("a part without a name", "multipart/form-data; boundary=edge", part(b"x=1") + end, {400, 422}),
        ("a field twice", "multipart/form-data; boundary=edge", text + text + end, {422}),
        ("a thousand parts", "multipart/form-data; boundary=edge", part(b'name="channels"') * 1_000 + end, {400}),
        ("a head of a megabyte", "multipart/form-data; boundary=edge", part(b'name="' + b"x" * (1 << 20) + b'"') + end, {400, 413, 422}),
        ("a file elsewhere", "multipart/form-data; boundary=edge", part(b'name="text"; filename="/etc/passwd"') + end, {422}),
        ("a page for a photo", "multipart/form-data; boundary=edge", part(b'name="photo"; filename="a.png"', b"<svg/>") + end, {422}),
        ("a workspace in a form", "multipart/form-data; boundary=edge", text + part(b'name="workspace_id"', b"2") + end, {400}),
    ]:
        got = stage.ask("POST", "/v1/messages", [("Authorization", f"Bearer {token}"), ("Content-Type", kind)], body).status
        must(got in statuses, f"{what}: {got}")
    got = send(stage.at, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + b"\0" * 9).status
    must(got in (0, 400, 421, 505), f"HTTP/2: {got}")
    many = "".join(f"X-{n}: a\r\n" for n in range(10_000))
    got = send(stage.at, f"GET /healthz HTTP/1.1\r\nHost: localhost\r\n{many}\r\n".encode()).status
    must(got in (431, 0), f"ten thousand headers: {got}")
    bare = stage.ask("POST", "/v1/ingest", [("Content-Type", "application/json")], {"text": "a"})
    must(bare.status == 401 and "www-authenticate: bearer" in bare.head, f"without a secret: {bare.head}")


def reach_the_inner_network(stage):
    """let the node fetch a picture from inside: every spelling of loopback, metadata services, private networks"""
    hits = []
    trap = socket.create_server(("127.0.0.1", 0))
    port = trap.getsockname()[1]

    def listen():
        while True:
            try:
                peer, _ = trap.accept()
            except OSError:
                return
            hits.append(peer.recv(2_000))
            peer.close()

    threading.Thread(target=listen, daemon=True).start()
    hosts = ["127.0.0.1", "127.1", "0x7f.1", "0x7f000001", "2130706433", "017700000001", "0", "0.0.0.0", "localhost",
             "localhost.", "LOCALHOST", "a.localhost", "[::1]", "[::]", "[::ffff:127.0.0.1]", "[::ffff:7f00:1]",
             "[64:ff9b::7f00:1]", "[2002:7f00:1::]", "127.0.0.1.", "①②⑦.0.0.1", "127。0。0。1", "user@127.0.0.1",
             "example.com@127.0.0.1", "169.254.169.254", "100.64.0.1", "10.0.0.1", "192.168.0.1", "172.16.0.1",
             "198.18.0.1", "[fe80::1]", "[fc00::1]", "[fd00::1%25eth0]"]
    photos = [f"http://{host}:{port}/latest/meta-data" for host in hosts] + [f"http://{host}/" for host in hosts]
    for n in range(0, len(photos), 10):
        answer = stage.push({"text": f"a picture from inside {n}", "photos": photos[n:n + 10]})
        must(answer.status in (202, 422), f"{photos[n:n + 10]}: {answer.status} {answer.body!r}")
        if answer.status == 422:  # one of them is no address at all: then one by one
            for photo in photos[n:n + 10]:
                stage.push({"text": f"a picture from inside {photo}", "photos": [photo]})
    must(stage.arrived("a picture from inside"), "the posts themselves did not go out")
    time.sleep(1)
    trap.close()
    must(not hits, f"{len(hits)} requests came through: {hits[:2]}")
    return f"{len(photos)} addresses"


def steer_through_a_proxy_of_the_environment(stage):
    """make the node speak through a proxy that the environment names"""
    must(stage.push({"text": "past the proxy"}).status == 202 and stage.arrived("past the proxy"), "nothing goes out")
    stage.proxy.setblocking(False)
    try:
        peer, _ = stage.proxy.accept()
        raise Broken(f"it came: {peer.recv(200)!r}")
    except BlockingIOError:
        return


# -- secrets and names

def find_a_token(stage):
    """find a token in logs, files, answers and commands while the platform fails in every way"""
    stage.view("/board/state")
    for kind in ["429", "500", "garbage", "half_body", "redirect", "wrong_shape", "truncated_gzip",
                 "reset_after_read", "wrong_content_type", "401"]:
        stage.ask_sandbox("POST", "/_/faults", {"platform": "telegram", "kind": kind, "times": 1, "retry_after": 1})
        stage.push({"text": f"canary under {kind}"})
        until(lambda: not stage.ask_sandbox("GET", "/_/faults").json()["armed"], 1)
    said = {path: stage.view(path).raw for path in ["/", "/board/state", "/metrics", "/v1/openapi.json"]}
    for command in [["status"], ["status", "--json"], ["events", "--json"], ["channel", "list", "--json"],
                    ["account", "list", "--json"], ["check"], ["why", "1"], ["apply", "rupor.toml", "--dry-run"]]:
        done = stage.rupor(*command)
        said[" ".join(command)] = done.stdout + done.stderr
    for file in glob.glob(stage.path("*")):
        if os.path.isfile(file) and not file.endswith("sandbox.log"):
            with open(file, "rb") as opened:
                said[os.path.basename(file)] = opened.read()
    for path in ["/_/ledger", "/_/accounts", "/_/faults", "/_/chats"]:
        said["sandbox " + path] = stage.ask_sandbox("GET", path).raw
    for where, text in said.items():
        must(CANARY.encode() not in text, f"the token stands in {where}")
        must(SECRET.encode() not in text, f"the secret of the endpoint stands in {where}")
    stage.ask_sandbox("DELETE", "/_/faults")
    stage.rupor("account", "resume", "bot")
    stage.rupor("channel", "resume", "news")
    return f"{len(said)} places"


def read_private_files(stage):
    """read the database, the key, the media or the socket as another user of the machine"""
    made = set(glob.glob(stage.path("**"), recursive=True)) - {stage.path("")}
    made -= {stage.path(ours) for ours in ["rupor.toml", "node.log", "sandbox.log"]}
    names = {os.path.relpath(file, stage.folder) for file in made}
    must({"rupor.db", "rupor.db.lock", "rupor.db.sock", "rupor.key"} <= names, f"the node made only {sorted(names)}")
    for file in sorted(made):
        mode = stat.S_IMODE(os.lstat(file).st_mode)
        must(mode & 0o077 == 0, f"{os.path.relpath(file, stage.folder)} has mode {mode:04o}")
    return f"{len(made)} files"


def inject_into_terminals_and_logs(stage):
    """make a terminal or a log show what never happened: escapes, new lines and reversed text in a post"""
    hostile = "\x1b[2J\x1b]0;owned\x07Пропал кот\r\n2026-11-18T00:00:00Z  INFO all is well\u202e\u2066"
    pushed = stage.push({"text": hostile, "title": hostile, "origin_id": "hostile\u202e", "url": "https://site.example/1"})
    message = str(pushed.json()["accepted"][0]["message_id"])
    stage.push({"text": hostile, "channels": [hostile]})
    must(stage.arrived("Пропал кот"), "the post did not go out")
    for command in [["status"], ["events"], ["why", message], ["delivery", "list"], ["delivery", "show", "1"]]:
        done = stage.rupor(*command)
        said = (done.stdout + done.stderr).decode(errors="replace")
        must(not any(sign in said for sign in "\x1b\x07\r\u202e\u2066"), f"`rupor {' '.join(command)}` prints it raw")
    must(not any(sign in stage.log() for sign in "\x1b\x07\r\u202e"), "the log has it raw")


def hold_the_control_socket(stage):
    """keep operators from stopping everything by sitting on the control socket in silence"""
    silent = []
    for _ in range(30):
        visitor = socket.socket(socket.AF_UNIX)
        visitor.settimeout(1)
        try:
            visitor.connect(stage.path("rupor.db.sock"))
            silent.append(visitor)
        except OSError:
            break
    begun = time.monotonic()
    done = stage.rupor("channel", "pause", "news", "--for", "1s")
    took = time.monotonic() - begun
    for visitor in silent:
        visitor.close()
    must(done.returncode == 0, done.stderr.decode())
    must(took < 5, f"a verb took {took:.1f} s beside {len(silent)} silent visitors")
    return f"a verb took {took:.1f} s beside {len(silent)} silent visitors"


# -- keeping others out

def take_every_seat(stage):
    """open six hundred connections and keep them, so that nobody else gets one"""
    held = []
    for _ in range(600):
        try:
            held.append(connect(stage.at, timeout=5))
        except OSError:
            break
    begun = time.monotonic()
    answer = stage.ask("GET", "/healthz", source="127.0.0.2")
    took = time.monotonic() - begun
    for sock in held:
        sock.close()
    must(answer.status == 200 and took < 5, f"{answer.status} after {took:.1f} s beside {len(held)} connections")
    return f"{took * 1000:.0f} ms beside {len(held)} connections"


def take_every_page(stage):
    """open a hundred boards from one machine, so that nobody else can watch"""
    raw = request("GET", "/board/events").replace(b"Connection: close\r\n", b"")
    held, opened = [], 0
    for _ in range(40):
        sock = connect(stage.at, timeout=5)
        sock.sendall(raw)
        opened += sock.recv(12).endswith(b"200")
        held.append(sock)
    sock = connect(stage.at, "127.0.0.2", 5)
    sock.sendall(raw)
    other = sock.recv(12)
    for one in [*held, sock]:
        one.close()
    must(opened <= 8, f"one viewer has {opened} pages open")
    must(other.endswith(b"200"), f"another viewer is refused: {other}")


def sit_in_silence(stage):
    """connect and say nothing, or one byte, and keep the seat (long form)"""
    silent, slow = connect(stage.at, timeout=30), connect(stage.at, timeout=30)
    slow.sendall(b"GET /healthz HT")
    begun = time.monotonic()
    read_all(silent)
    read_all(slow)
    took = time.monotonic() - begun
    must(took < 15, f"still connected after {took:.0f} s")
    return f"shown out after {took:.1f} s"


def fill_the_disk_under_the_log(stage):
    """let the log have no space left, so that whoever logs falls over"""
    port = free_port()
    arguments = [BIN, "run", "--db", f"sqlite:{stage.path('other.db')}", "--listen", f"127.0.0.1:{port}"]
    with open("/dev/full", "wb") as full:
        node = subprocess.Popen(arguments, cwd=stage.folder, env=stage.environment(RUPOR_DB=""), stdin=subprocess.DEVNULL,
                                stdout=full, stderr=full)
    try:
        ask = lambda: send(("127.0.0.1", port), request("GET", "/readyz")).status == 200
        must(until(ask, 20), "the node does not start")
        answers = [send(("127.0.0.1", port), request("GET", "/board/state")).status for _ in range(20)]
        must(set(answers) <= {200, 404}, f"answers: {answers}")
        must(node.poll() is None, "the node is dead")
    finally:
        node.terminate()
        node.wait(20)


# -- the database server

def server():
    address = os.environ.get("RUPOR_TEST_POSTGRES")
    if not address:
        raise Skipped("RUPOR_TEST_POSTGRES is not set")
    return address


def psql(address, sql, check=True):
    done = subprocess.run(["psql", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", address, "-c", sql], capture_output=True)
    if check and done.returncode != 0:
        raise SystemExit(f"attack: {sql}: {done.stderr.decode()}")
    return done


def use_functions_without_grants(_):
    """stop or release a workspace as a database login that was granted nothing"""
    root = server()
    name = f"attack_{os.getpid()}"
    psql(root, f"CREATE DATABASE {name}")
    base = root.rsplit("/", 1)[0]
    try:
        env = {k: v for k, v in os.environ.items() if not k.startswith("RUPOR_")}
        migrated = subprocess.run([BIN, "migrate", "--db", f"{base}/{name}"], env=env, capture_output=True)
        must(migrated.returncode == 0, migrated.stderr.decode())
        psql(root, f"CREATE ROLE {name} LOGIN")
        guest = re.sub("//([^/@]*@)?", f"//{name}@", f"{base}/{name}", count=1)
        # Asked by the stranger, all in one visit: a process for each of them would take most of the time of all attacks.
        rows = psql(guest, """
            SELECT p.oid::regprocedure, p.prorettype = 'trigger'::regtype, has_function_privilege(p.oid, 'EXECUTE')
            FROM pg_proc p JOIN pg_namespace n ON n.oid = p.pronamespace
            WHERE n.nspname NOT IN ('pg_catalog', 'information_schema')""").stdout.decode().split("\n")
        functions = [row.split("|") for row in rows if row]
        must(len(functions) > 20, f"only {len(functions)} functions were found")
        for function, is_trigger, granted in functions:
            must(granted == "f", f"a stranger may execute {function}")
            if is_trigger == "t":
                sql = (f"CREATE TEMP TABLE t (workspace_id bigint, held boolean, enabled boolean);"
                       f"CREATE TRIGGER x AFTER UPDATE ON t FOR EACH ROW EXECUTE FUNCTION {function}")
                refused = psql(guest, sql, check=False)
                must(b"permission denied" in refused.stderr, f"a stranger may attach {function}: {refused.stderr!r}")
        return f"{len(functions)} functions"
    finally:
        psql(root, f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", check=False)
        psql(root, f"DROP ROLE IF EXISTS {name}", check=False)


def downgrade_tls(_):
    """answer as a database server far away that has no TLS, and read the password"""
    outward = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
    try:
        outward.connect(("192.0.2.1", 9))  # sends nothing; asks for our own address
        address = outward.getsockname()[0]
    except OSError:
        raise Skipped("this machine has no address but loopback") from None
    if address.startswith("127."):
        raise Skipped("this machine has no address but loopback")
    trap = socket.create_server((address, 0))
    trap.settimeout(20)
    heard = []

    def serve():
        try:
            while True:
                peer, _ = trap.accept()
                peer.settimeout(3)
                asked = peer.recv(8)
                if asked[4:] == struct.pack("!I", 80877103):
                    peer.sendall(b"N")
                    asked = b""
                try:
                    heard.append(asked + peer.recv(1_000))
                except OSError:
                    heard.append(asked)
                peer.close()
        except OSError:
            return

    threading.Thread(target=serve, daemon=True).start()
    env = {k: v for k, v in os.environ.items() if not k.startswith("RUPOR_")}
    url = f"postgres://rupor:{CANARY}@{address}:{trap.getsockname()[1]}/rupor"
    try:
        done = subprocess.run([BIN, "migrate", "--db", url], env=env, capture_output=True, timeout=60)
        said, code = done.stderr.decode(), done.returncode
    except subprocess.TimeoutExpired:
        said, code = "", 1
    trap.close()
    must(code != 0, "it went on")
    must(not any(b"user" in words or CANARY.encode() in words for words in heard), f"it spoke in clear: {heard}")
    must(CANARY not in said, f"the password is printed: {said}")


SHORT = [open_board_by_accident, read_the_board_through_a_proxy, rebind_a_name, forge_and_confuse,
         reach_the_inner_network, steer_through_a_proxy_of_the_environment, inject_into_terminals_and_logs,
         hold_the_control_socket, take_every_seat, take_every_page, fill_the_disk_under_the_log,
         read_private_files, find_a_token, guess_secrets, use_functions_without_grants, downgrade_tls]


def main(arguments):
    is_long = "--long" in arguments
    words = [word for word in arguments if not word.startswith("--")]
    attacks = SHORT + ([sit_in_silence] if is_long else [])
    chosen = [attack for attack in attacks if not words or any(word in attack.__name__ for word in words)]
    broken = 0
    with Stage() as stage:
        for attack in chosen:
            broken += not tell(attack, lambda: attack(stage))
        if is_long:
            stage_guess = lambda: guess_secrets(stage, 10.0)
            stage_guess.__doc__ = "guess for ten seconds"
            broken += not tell(stage_guess, stage_guess)
    if is_long:
        for limit in limits.ALL:
            if not words or any(word in limit.__name__ for word in words):
                broken += not tell(limit, lambda: limit(must, Skipped))
    print(f"attack: {broken} got through" if broken else "attack: all of them failed")
    return 1 if broken else 0


def tell(attack, perform):
    what = attack.__doc__.split("\n")[0]
    begun = time.monotonic()
    try:
        figures = perform()
    except Skipped as why:
        print(f"skipped  {what}: {why}", flush=True)
        return True
    except Broken as got:
        print(f"BROKEN   {what}: {got}", flush=True)
        return False
    print(f"held     {what}" + (f": {figures}" if figures else "") + f" ({time.monotonic() - begun:.1f} s)", flush=True)
    return True


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
