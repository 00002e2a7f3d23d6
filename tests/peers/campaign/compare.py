"""Runs each sender twice on one sandbox, once in peace and once through kills, and reads the sandbox's ledger.

Usage: compare.py [people] [kills]          The judge is the ledger: what readers saw, not what a sender believes.
"""

import collections
import json
import os
import pathlib
import random
import re
import signal
import subprocess
import sys
import tempfile
import time
import urllib.request

RUPOR = os.environ["RUPOR_BIN"]
HERE = pathlib.Path(__file__).parent
PEOPLE = int(sys.argv[1]) if len(sys.argv) > 1 else 600
KILLS = int(sys.argv[2]) if len(sys.argv) > 2 else 10
# What Telegram allows a bot in a second.
RATE = 30
PATIENCE = 900


class Sender:
    """One that writes to `people`; started again after a kill it should go on."""

    def __init__(self, n, folder, origin):
        self.token = f"{97000 + n}:invented-token-of-a-peer-aaaaaaaaaaaaaaa"
        self.folder, self.origin = folder, origin
        self.people = [980_000_000 + n * 1_000_000 + i for i in range(PEOPLE)]
        self.list = folder / "people"
        self.list.write_text("".join(f"{person}\n" for person in self.people))

    def prepare(self):
        pass

    def is_done(self, child):
        return child.poll() is not None


class Python(Sender):
    def start(self):
        memory = self.folder / "memory"
        args = [f"{self.origin}/telegram", self.token, self.list, memory, RATE]
        return subprocess.Popen([sys.executable, HERE / self.script, *map(str, args)], stderr=open(self.folder / "log", "a"))


class BareLoop(Python):
    name, script = "bare aiogram loop with a file of who has it", "bare_loop.py"


class Library(Python):
    name, script = "aiogram_broadcaster 0.6.8, SQLAlchemy storage", "library.py"


class Rupor(Sender):
    name = "rupor campaign, SQLite"

    def call(self, *args, wait=True):
        env = {**os.environ, "RUPOR_LOG": "warn", "PEER_TOKEN": self.token, "RUPOR_LEASE": "5s"}
        child = subprocess.Popen([RUPOR, *args, "--db", f"sqlite:{self.folder}/rupor.db"], cwd=self.folder, env=env,
                                 stdout=subprocess.PIPE if wait else subprocess.DEVNULL, stderr=open(self.folder / "log", "a"), text=True)
        if not wait:
            return child
        out, _ = child.communicate()
        assert child.returncode == 0, (args, (self.folder / "log").read_text())
        return out

    def prepare(self):
        (self.folder / "rupor.toml").write_text(
            f'[accounts.bot]\nplatform = "telegram"\ntoken = {{ env = "PEER_TOKEN" }}\napi_base = "{self.origin}/telegram"\n')
        (self.folder / "people.csv").write_text("address\n" + self.list.read_text())
        self.call("apply", "rupor.toml", "--yes")
        self.call("audience", "import", "people.csv", "--account", "bot")
        self.call("campaign", "new", "peers", "--account", "bot", "--text", "Здравствуйте! В субботу день открытых дверей.")
        # Without a node the verb writes to the database itself; the node then goes on.
        self.call("campaign", "start", "peers", "--yes")

    def start(self):
        return self.call("run", wait=False)

    def is_done(self, child):
        return json.loads(self.call("campaign", "status", "peers", "--json"))["state"] == "finished"


def ledger(origin):
    with urllib.request.urlopen(f"{origin}/_/ledger?platform=telegram") as answer:
        rows = json.load(answer)["telegram"]
    return [row for row in rows if row["method"] == "sendMessage" and row["accepted"]]


def seen_by(sender):
    mine = set(sender.people)
    return [row for row in ledger(sender.origin) if int(row["chat"]) in mine]


def run(sender, kills, dice):
    """Until it says that it is done; `kills` times it is killed on the way."""
    sender.prepare()
    child, begun, left = sender.start(), time.time(), kills
    goals = [PEOPLE * (n + 1) // (kills + 1) for n in range(kills)]
    looked = 0
    while True:
        assert time.time() - begun < PATIENCE, f"{sender.name} does not end"
        time.sleep(0.02)
        received = len(seen_by(sender)) if left else 0
        if left and (received >= goals[kills - left] or child.poll() is not None):
            time.sleep(dice.random() * 0.05)
            child.send_signal(signal.SIGKILL)
            child.wait()
            left -= 1
            child = sender.start()
        elif not left and time.time() - looked > 1:
            looked = time.time()
            if sender.is_done(child):
                break
    if child.poll() is None:
        child.terminate()
        child.wait()
    return seen_by(sender)


def main():
    dice = random.Random(18)
    folder = pathlib.Path(tempfile.mkdtemp(prefix="rupor-peers-"))
    sandbox = subprocess.Popen([RUPOR, "sandbox", "--listen", "127.0.0.1:0", "--any-token", "--limits", "real"],
                               stdout=subprocess.PIPE, text=True)
    origin = re.search(r"http://\S+", sandbox.stdout.readline()).group()
    try:
        print(f"{PEOPLE} people, {KILLS} kills, allowed {RATE}/s\n")
        print("| Sender | messages a second | people who got it twice or more, after the kills | copies too many | people who never got it |")
        print("|---|---|---|---|---|")
        for n, kind in enumerate([Rupor, BareLoop, Library]):
            figures = []
            for m, kills in enumerate([0, KILLS]):
                own = folder / f"{n}{m}"
                own.mkdir()
                sender = kind(2 * n + m, own, origin)
                rows = run(sender, kills, dice)
                copies = collections.Counter(int(row["chat"]) for row in rows)
                times = sorted(row["at"] for row in rows)
                rate = (len(times) - 1) * 1000 / max(1, times[-1] - times[0])
                twice = sum(1 for count in copies.values() if count > 1)
                figures.append((rate, twice, sum(copies.values()) - len(copies), PEOPLE - len(copies)))
            print(f"| {kind.name} | {figures[0][0]:.1f} | {figures[1][1]} | {figures[1][2]} | {figures[1][3]} |", flush=True)
    finally:
        sandbox.terminate()


main()
