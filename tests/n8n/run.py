"""The workflows in a real n8n: what went in must stand in the sandbox once, and in the ledger as it should."""

import argparse
import collections
import hashlib
import json
import os
import random
import re
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
import uuid

ROOT = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
RUPOR, SERVER = os.environ["RUPOR_BIN"], os.environ["RUPOR_TEST_POSTGRES"]
N8N = os.path.join(os.environ["N8N_DIR"], "node_modules", ".bin", "n8n")
PUSH_SECRET, HOOK_SECRET, HOOK_KEY = (uuid.uuid4().hex * 2 for _ in range(3))
CHAT, MAX_CHAT, PERSON = -1001000000001, -70000000000001, 770077
NAME = "n8n_" + uuid.uuid4().hex[:8]
scratch = tempfile.mkdtemp(prefix="rupor-n8n.")
started = []


def free_port():
    """Below those that the system lends to outgoing connections: a server that is killed must find its port again."""
    while True:
        port = random.SystemRandom().randrange(20000, 30000)
        with socket.socket() as s:
            try:
                s.bind(("127.0.0.1", port))
                return port
            except OSError:
                continue


SANDBOX, HTTP, WEB, BROKER = (free_port() for _ in range(4))
HEAD, _ = SERVER.rsplit("/", 1)
DB = f"{HEAD}/{NAME}"
HOST = re.match(r"postgres(?:ql)?://(?:([^:@/]+)(?::([^@/]*))?@)?([^:/]+)(?::(\d+))?", SERVER)


def psql(sql, db=DB):
    done = subprocess.run(["psql", "-XqAt", "-v", "ON_ERROR_STOP=1", "-d", db, "-c", sql], capture_output=True, text=True)
    if done.returncode:
        raise SystemExit(f"psql: {done.stderr.strip()}\n{sql}")
    return done.stdout.strip()


def spawn(name, command, env=None):
    log = open(os.path.join(scratch, name + ".log"), "ab")
    process = subprocess.Popen(command, stdout=log, stderr=log, env=env or os.environ, cwd=scratch, start_new_session=True)
    started.append(process)
    return process


def kill(process):
    """The process and what it started; by the group that it leads."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass
    process.wait()


def call(url, body=None, headers=None, method=None, timeout=30):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, data, {"Content-Type": "application/json", **(headers or {})}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=timeout) as answer:
            text, status = answer.read().decode(), answer.status
    except urllib.error.HTTPError as error:
        text, status = error.read().decode(), error.code
    try:
        return status, json.loads(text)
    except ValueError:
        return status, text


def until(what, check, seconds=60):
    end = time.time() + seconds
    while time.time() < end:
        try:
            if found := check():
                return found
        except (OSError, ValueError):
            pass
        time.sleep(0.3)
    raise SystemExit(f"FAILED: {what} did not happen within {seconds} s; logs in {scratch}")


def good(what, true, detail=""):
    print(("ok    " if true else "FAILED ") + what + (f" ({detail})" if detail != "" else ""), flush=True)
    if not true:
        raise SystemExit(f"logs in {scratch}")


def rupor(*words):
    done = subprocess.run([RUPOR, *words, "--db", DB, "--key-file", f"{scratch}/key"], capture_output=True, text=True, cwd=scratch, env=ENV)
    if done.returncode:
        raise SystemExit(f"rupor {' '.join(words)}: {done.stderr}")
    return done.stdout


ENV = {**os.environ, "RUPOR_PUSH_SECRET": PUSH_SECRET, "TG": "42:practice", "MX": "practice-max",
       "RUPOR_TELEGRAM_API": f"http://127.0.0.1:{SANDBOX}/telegram", "RUPOR_MAX_API": f"http://127.0.0.1:{SANDBOX}/max",
       "RUPOR_PLATFORM_LIMITS": "off", "RUPOR_LOG": "info"}
CONFIG = f"""
preset = "mirror"
[accounts.bot]
platform = "telegram"
token = {{ env = "TG" }}
[accounts.max]
platform = "max"
token = {{ env = "MX" }}
[channels.news]
account = "bot"
target = {CHAT}
dedup = "content"
rate = 20
[channels.max]
account = "max"
target = {MAX_CHAT}
dedup = "content"
rate = 20
[endpoints.site]
kind = "push"
secret = {{ env = "RUPOR_PUSH_SECRET" }}
rate = 1000
[bots.help]
accounts = ["bot"]
rules = "help.toml"
receive = "webhook"
"""
RULES = """
engine = 1
start = "menu"
fallback = ["Не понял."]
[states.menu]
[[rules]]
name = "found"
on = { text = "нашёл" }
reply = "Спасибо! Пришлите место."
[[rules]]
name = "cancel"
on = { command = "cancel" }
interrupt = true
reply = "Хорошо."
goto = "menu"
"""


def n8n_env():
    user, password, host, port = HOST.group(1) or "postgres", HOST.group(2) or "", HOST.group(3), HOST.group(4) or "5432"
    return {**os.environ, "DB_TYPE": "postgresdb", "DB_POSTGRESDB_HOST": host, "DB_POSTGRESDB_PORT": port,
            "DB_POSTGRESDB_DATABASE": NAME + "_own", "DB_POSTGRESDB_USER": user, "DB_POSTGRESDB_PASSWORD": password,
            "N8N_USER_FOLDER": scratch, "N8N_PORT": str(WEB), "N8N_LISTEN_ADDRESS": "127.0.0.1", "N8N_RUNNERS_BROKER_PORT": str(BROKER),
            "N8N_ENCRYPTION_KEY": uuid.UUID(int=7).hex, "N8N_DIAGNOSTICS_ENABLED": "false", "N8N_VERSION_NOTIFICATIONS_ENABLED": "false",
            "N8N_TEMPLATES_ENABLED": "false", "N8N_LOG_LEVEL": "info", "N8N_SECURE_COOKIE": "false"}


def n8n(*words, may_fail=False):
    done = subprocess.run([N8N, *words], capture_output=True, text=True, env=n8n_env(), cwd=scratch, timeout=240)
    if done.returncode and not may_fail:
        raise SystemExit(f"n8n {' '.join(words)}: {done.stdout[-3000:]}{done.stderr[-3000:]}")
    return done.stdout


def prepare():
    for name in (NAME, NAME + "_own"):
        psql(f"CREATE DATABASE {name}", SERVER)
    rupor("migrate")
    with open(f"{scratch}/rupor.toml", "w") as file:
        file.write(CONFIG)
    with open(f"{scratch}/help.toml", "w") as file:
        file.write(RULES)
    spawn("sandbox", [RUPOR, "sandbox", "--listen", f"127.0.0.1:{SANDBOX}", "--any-token"])
    until("the sandbox", lambda: call(f"http://127.0.0.1:{SANDBOX}/_/stats")[0] == 200)
    rupor("apply", "rupor.toml", "--yes")
    psql(f"UPDATE bot_accounts SET hook_key = '{HOOK_KEY}', hook_secret_hash = '{hashlib.sha256(HOOK_SECRET.encode()).hexdigest()}'")
    # The roles as docs/n8n.md has them created.
    psql(f"CREATE ROLE {NAME}_app LOGIN PASSWORD 'practice' IN ROLE rupor_app; ALTER ROLE {NAME}_app SET rupor.workspace = '1'; "
         f"CREATE ROLE {NAME}_dispatcher LOGIN PASSWORD 'practice' IN ROLE rupor_dispatcher")
    return json.loads(rupor("token", "new", "n8n", "--scope", "adapter", "--json"))["token"]


def node(*only):
    words = [RUPOR, "run", "--db", DB, "--key-file", f"{scratch}/key", "--lease", "10s"]
    return spawn("node", words + [word for loop in only for word in ("--only", loop)] + ["--listen", f"127.0.0.1:{HTTP}"], ENV)


def import_all(token):
    host, port = HOST.group(3), int(HOST.group(4) or 5432)
    login = lambda role: {"host": host, "port": port, "database": NAME, "user": f"{NAME}_{role}", "password": "practice", "ssl": "disable"}
    credentials = [
        {"id": "ruporWorkspace", "name": "Rupor workspace", "type": "postgres", "data": login("app")},
        {"id": "ruporDispatcher", "name": "Rupor dispatcher", "type": "postgres", "data": login("dispatcher")},
        {"id": "ruporAdapterToken", "name": "Rupor adapter token", "type": "httpHeaderAuth",
         "data": {"name": "Authorization", "value": f"Bearer {token}"}}]
    with open(f"{scratch}/credentials.json", "w") as file:
        json.dump(credentials, file)
    n8n("import:credentials", f"--input={scratch}/credentials.json")
    os.mkdir(f"{scratch}/workflows")
    for name in sorted(os.listdir(f"{ROOT}/workflows")):
        with open(f"{ROOT}/workflows/{name}") as file:
            text = file.read()
        # The one Set node of each: this rehearsal listens elsewhere.
        with open(f"{scratch}/workflows/{name}", "w") as file:
            file.write(text.replace("http://127.0.0.1:7878", f"http://127.0.0.1:{HTTP}"))
    n8n("import:workflow", "--separate", f"--input={scratch}/workflows")


def execute(flow):
    """By hand, once; the JSON of the run. Exits non-zero where a node failed."""
    text = n8n("execute", f"--id={flow}", "--rawOutput")
    begin = text.find('{\n')
    return json.loads(text[begin:text.rfind("}") + 1]) if begin >= 0 else {}


def items_of(run, node_name):
    runs = run.get("data", run).get("resultData", {}).get("runData", {}).get(node_name, [])
    return [item["json"] for one in runs for output in one["data"]["main"] if output for item in output]


def ledger(platform="telegram"):
    return call(f"http://127.0.0.1:{SANDBOX}/_/ledger")[1][platform]


def visible(platform="telegram", chat=None):
    return [row for row in ledger(platform) if row["accepted"] and row["visible_id"] and (chat is None or str(row["chat"]) == str(chat))]


def push(text, key):
    return call(f"http://127.0.0.1:{WEB}/webhook/rupor/ingest", {"text": text},
                {"Authorization": f"Bearer {PUSH_SECRET}", "Idempotency-Key": key})


def tell_bot(update_id, text):
    update = {"update_id": update_id, "message": {"message_id": update_id, "date": int(time.time()), "text": text,
              "chat": {"id": PERSON, "type": "private", "first_name": "Проба"}, "from": {"id": PERSON, "is_bot": False, "first_name": "Проба"}}}
    return call(f"http://127.0.0.1:{WEB}/webhook/rupor/bot?platform=telegram&key={HOOK_KEY}", update, {"X-Telegram-Bot-Api-Secret-Token": HOOK_SECRET})


def statuses():
    return dict(line.split("|") for line in psql("SELECT status, count(*) FROM deliveries GROUP BY 1").splitlines())


def start_n8n():
    process = spawn("n8n", [N8N, "start"], n8n_env())
    until("n8n serves its webhooks", lambda: push("", "probe")[0] in (202, 401, 422), 120)
    return process


def scenario():
    # Before it is started for good: each of the four that can be run by hand, by hand.
    for flow in ("ruporDispatcher", "ruporMonitor", "ruporBotEngine", "ruporBotMonitor"):
        execute(flow)
    good("02, 03, 12 and 13 run by hand on an empty queue", True)
    for flow in ("ruporIngest", "ruporDispatcher", "ruporBotIngest", "ruporBotEngine"):
        n8n("publish:workflow", f"--id={flow}")
    running = start_n8n()

    status, first = push("Пропала собака, Примерск. Тел. 8 900 000-00-01", "k1")
    good("a push is accepted", status == 202, first)
    until("the push is sent", lambda: statuses().get("sent") == "2")
    good("it stands once in each channel", (len(visible("telegram", CHAT)), len(visible("max"))) == (1, 1))
    good("a repeat gets the same answer", push("Пропала собака, Примерск. Тел. 8 900 000-00-01", "k1") == (202, first))
    good("another body under its key is refused", push("Другое", "k1")[0] == 422)
    good("a stranger is refused", call(f"http://127.0.0.1:{WEB}/webhook/rupor/ingest", {"text": "x"}, {"Authorization": "Bearer no"})[0] == 401)
    good("nothing was stored twice", psql("SELECT count(*) FROM messages") == "1")

    call(f"http://127.0.0.1:{SANDBOX}/_/faults", {"platform": "telegram", "method": "sendMessage", "kind": "429", "times": 1, "retry_after": 3})
    push("Найдена кошка, Примерск. Тел. 8 900 000-00-02", "k2")
    until("a 429 becomes a retry", lambda: int(psql("SELECT count(*) FROM events WHERE name = 'retry_scheduled'")) > 0)
    until("and is sent afterwards", lambda: statuses().get("sent") == "4")
    good("a flood is obeyed: said once after the wait", len(visible("telegram", CHAT)) == 2,
         psql("SELECT string_agg(a.outcome, ' ' ORDER BY a.attempt) FROM attempts AS a JOIN deliveries AS d USING (delivery_id) WHERE d.flood_waits > 0"))

    good("the bot's webhook is answered", tell_bot(501, "нашёл")[0] == 200)
    good("its duplicate too", tell_bot(501, "нашёл")[0] == 200)
    until("the bot answers", lambda: len(visible("telegram", PERSON)) == 1)
    time.sleep(5)
    answers = [row["text"] for row in visible("telegram", PERSON)]
    good("the bot answered once", answers == ["Спасибо! Пришлите место."], answers)
    good("a wrong secret is refused", call(f"http://127.0.0.1:{WEB}/webhook/rupor/bot?platform=telegram&key={HOOK_KEY}", {"update_id": 1})[0] == 401)
    kill(running)

    psql("UPDATE accounts SET paused = true, paused_why = '401: revoked' WHERE name = 'bot'")
    told = items_of(execute("ruporMonitor"), "Tell people")
    good("an alert comes out", [(one["state"], one["kind"]) for one in told] == [("raised", "account_paused")], told)
    good("once", items_of(execute("ruporMonitor"), "Tell people") == [])
    psql("UPDATE accounts SET paused = false WHERE name = 'bot'; SELECT resume_account(1, account_id) FROM accounts WHERE name = 'bot'")
    told = items_of(execute("ruporMonitor"), "Tell people")
    good("and its end", [(one["state"], one["kind"]) for one in told] == [("ended", "account_paused")], told)
    psql("UPDATE bot_accounts SET problem = 'the platform refuses', heard_at = now() - interval '2 minutes'")
    told = items_of(execute("ruporBotMonitor"), "Tell people")
    good("an alert of the bot comes out", [one["kind"] for one in told] == ["bot_deaf"], told)
    psql("UPDATE bot_accounts SET problem = NULL")
    good("ledger", True, statuses())


BOTS, MAX_BOTS, CHANNELS_EACH = 6, 3, 2
BURST = 15
# Seconds that who was killed stays away, and is left alone when back. n8n takes twenty seconds and more to come up on a busy machine,
# and without its adapter it can send nothing: a node that is away for a while leaves it its share.
AWAY = {"node": (10, 35), "n8n": (0, 2), "adapter": (0, 2)}
LEFT_ALONE = {"node": 5, "n8n": 60, "adapter": 15}


def crowd():
    """Accounts and channels enough that two senders find work at the same moment."""
    words = [CONFIG]
    for n in range(BOTS + MAX_BOTS):
        platform, chat = ("telegram", -1002000000000) if n < BOTS else ("max", -71000000000000)
        words.append(f'[accounts.crowd{n}]\nplatform = "{platform}"\ntoken = {{ env = "CROWD{n}" }}\n')
        ENV[f"CROWD{n}"] = f"{900 + n}:crowd-{n}" if platform == "telegram" else f"crowd-{n}"
        for k in range(CHANNELS_EACH):
            words.append(f'[channels.crowd{n}_{k}]\naccount = "crowd{n}"\ntarget = {chat - n * 10 - k}\ndedup = "content"\nrate = 20\n')
    with open(f"{scratch}/crowd.toml", "w") as file:
        file.write("".join(words))
    rupor("apply", "crowd.toml", "--yes")


def sender():
    """A node that sends and serves no HTTP: the adapter that n8n calls is another process."""
    words = [RUPOR, "run", "--db", DB, "--key-file", f"{scratch}/key", "--lease", "10s", "--only", "dispatch"]
    return spawn("sender", words, ENV)


def both(seconds, seed, adapter):
    """A sending node and the dispatcher of n8n on one database; each is killed again and again, and so is the adapter."""
    dice = random.Random(seed)
    crowd()
    # Answers take a while, so that a kill meets requests that are out.
    for platform, method in (("telegram", "sendMessage"), ("max", None)):
        fault = {"platform": platform, "kind": "slow_drip", "delay_ms": 1, "probability": 0.2}
        status, answer = call(f"http://127.0.0.1:{SANDBOX}/_/faults", {**fault, **({"method": method} if method else {})})
        good("a fifth of the answers drips", status in (200, 201), answer if status >= 300 else "")
    makers = {"adapter": lambda: node("sources"), "node": sender, "n8n": lambda: spawn("n8n", [N8N, "start"], n8n_env())}
    alive = {"adapter": adapter, "node": sender(), "n8n": start_n8n()}
    back_at, ready_at, kills = {}, {}, collections.Counter()
    began, accepted, text = time.time(), [], None
    next_kill, next_push = began + 5, began
    while time.time() < began + seconds:
        now = time.time()
        if now >= next_push:
            # The same words under the same key until they are accepted: who was killed may have taken them already.
            text = text or f"Новость {len(accepted)} {uuid.UUID(int=dice.getrandbits(128)).hex}."
            try:
                status, _ = call(f"http://127.0.0.1:{HTTP}/v1/ingest", {"text": text},
                                 {"Authorization": f"Bearer {PUSH_SECRET}", "Idempotency-Key": f"b{len(accepted)}"}, timeout=10)
                if status == 202:
                    accepted.append(text)
                    text = None
            except OSError:
                pass
            # In bursts, so that both find work at the same moment.
            next_push = now + (0.02 if len(accepted) % BURST else 2.0 * BURST)
        if now >= next_kill:
            ready = [who for who in sorted(alive) if now >= ready_at.get(who, 0)]
            who = dice.choice(ready) if ready else None
            pause = dice.uniform(3, 12)
            if who:
                kill(alive.pop(who))
                kills[who] += 1
                back_at[who] = now + dice.uniform(*AWAY[who])
            next_kill = now + pause
        for who in [who for who, at in back_at.items() if now >= at]:
            del back_at[who]
            alive[who] = makers[who]()
            ready_at[who] = now + LEFT_ALONE[who]
        time.sleep(0.05)
    for who in list(makers):
        if who not in alive:
            alive[who] = makers[who]()
    print("the last kill is over:", dict(kills), statuses(), flush=True)
    until("everything has ended", lambda: set(statuses()) <= {"sent", "dead", "failed_permanent", "deduped"}, 400)
    judge(seconds, seed, accepted, kills)
    for process in alive.values():
        kill(process)


def judge(seconds, seed, accepted, kills):
    """Row by row: what the ledger of the queue says against what stands in the chats."""
    seen = collections.Counter()
    for platform in ("telegram", "max"):
        for row in visible(platform):
            text = next((word for word in (row["text"] or "").splitlines() if word.startswith("Новость ")), None)
            seen[str(row["chat"]), text] += 1
    rows = psql("SELECT json_agg(json_build_object('text', m.payload->>'text', 'chat', c.target, 'status', d.status, 'reason', d.reason, "
                "'unknowns', d.unknowns)) FROM deliveries AS d JOIN messages AS m USING (message_id) JOIN channels AS c USING (channel_id) "
                "WHERE m.payload->>'text' LIKE 'Новость %'")
    rows = json.loads(rows)
    channels = 2 + (BOTS + MAX_BOTS) * CHANNELS_EACH
    lost = [r for r in rows if r["status"] == "sent" and not seen[r["chat"], r["text"]]]
    dropped = [r for r in rows if r["status"] != "sent" and not (r["status"] == "dead" and r["unknowns"])]
    twice = [r for r in rows if seen[r["chat"], r["text"]] > 1]
    beyond = [r for r in twice if seen[r["chat"], r["text"]] > 1 + min(r["unknowns"], 1)]
    sent_by = psql("SELECT CASE WHEN run_id LIKE 'n8n-%' THEN 'n8n' ELSE 'node' END, count(*) FROM attempts WHERE outcome = 'sent' GROUP BY 1 ORDER BY 1")
    report = {"seconds": seconds, "seed": seed, "posts": len(accepted), "deliveries": len(rows), "kills": dict(kills),
              "sent by": sent_by.replace("\n", ", "), "unknown outcomes": sum(r["unknowns"] for r in rows), "said twice": len(twice),
              "beyond the policy": len(beyond), **{"ended " + k: v for k, v in statuses().items()}}
    print(json.dumps(report, ensure_ascii=False), flush=True)
    good("every accepted post has a delivery for every channel",
         collections.Counter(r["text"] for r in rows if r["text"] in set(accepted)) == {text: channels for text in accepted})
    good("what the ledger calls sent stands in its chat", not lost, lost[:3])
    good("nothing else ended but after an outcome that nobody knew", not dropped, dropped[:3])
    good("nothing is said twice beyond the policy", not beyond, beyond[:3])
    shares = dict(line.split("|") for line in sent_by.splitlines())
    # How the work is shared depends on the machine: n8n is slow on a busy one. Neither may have been a bystander.
    good("neither was a bystander", all(int(shares.get(who, 0)) >= 100 for who in ("node", "n8n")), sent_by.replace("\n", ", "))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--both", type=int, default=0, metavar="SECONDS")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--keep", action="store_true", help="keep the logs")
    options = parser.parse_args()
    try:
        token = prepare()
        alone = node("sources")
        until("the node", lambda: call(f"http://127.0.0.1:{HTTP}/healthz")[0] == 200)
        import_all(token)
        print("imported", flush=True)
        scenario()
        if options.both:
            both(options.both, options.seed, alone)
        print("all of it held")
    except SystemExit:
        options.keep = True
        raise
    finally:
        for process in started:
            kill(process)
        for name in (NAME, NAME + "_own"):
            psql(f"DROP DATABASE IF EXISTS {name} WITH (FORCE)", SERVER)
        psql(f"DROP ROLE IF EXISTS {NAME}_app; DROP ROLE IF EXISTS {NAME}_dispatcher", SERVER)
        if not options.keep:
            shutil.rmtree(scratch, ignore_errors=True)


sys.exit(main())
