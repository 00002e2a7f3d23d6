"""What trouble in one workspace, or a panic in one loop, costs another: the lag of a healthy channel alone and beside the
trouble, as the sandbox sees it. The troubles take turns, so that a noisy machine is noisy for all of them; the posts of all
rounds are judged together. Prints one JSON object; exits with 1 if half of the posts, or 95 of 100, wait more than one and
a half times as long as alone, or if a planted panic did not happen.

  --panics        a panic in every loop instead of a slow peer and a memory hog (debug builds: nothing can be planted in the product)
  --rounds N      how often each trouble takes its turn (5)
  --only WORDS    only the troubles whose names contain one of these words, separated by commas, beside `alone`
"""

import argparse
import json
import multiprocessing
import signal
import socket
import sys
import threading
import time

from limits import hostile_pictures
from stage import CONFIG, SHOP_SECRET, Stage, until

SECONDS = 8
# Enough for a 95th to mean something: 160 posts in a round.
EVERY = 0.05
ALLOWED = 1.5

# A neighbour with walls that can break.
NEIGHBOUR = CONFIG + """
[workspaces.shop.accounts.reader]
platform = "vk"
token = { env = "ATTACK_SHOP_TOKEN" }
[workspaces.shop.sources.walls]
kind = "vk"
account = "reader"
groups = [-101, -102, -103, -104, -105]
interval = "1s"
"""


def measure(stage, name):
    """Pushes posts evenly; the lag of each that arrived, in milliseconds, and how many were pushed."""
    pushed = {}
    begun = time.monotonic()
    n = 0
    while time.monotonic() - begun < SECONDS:
        text = f"{name} {n} end"
        pushed[text] = time.time() * 1000
        if stage.push({"text": text}, source="127.0.0.9").status != 202:
            del pushed[text]
        n += 1
        time.sleep(max(0.0, n * EVERY - (time.monotonic() - begun)))
    arrived = {}

    def all_there():
        for row in stage.ledger():
            if row["accepted"] and (text := (row["text"] or "").strip()) in pushed:
                arrived.setdefault(text, row["at"])
        return len(arrived) == len(pushed)

    until(all_there, 70, 0.5)
    return [arrived[text] - pushed[text] for text in arrived], n


def slow_peer(stage):
    stage.ask_sandbox("POST", "/_/faults", {"platform": "telegram", "account": "434343", "kind": "hang"})
    for n in range(200):
        stage.push({"text": f"never answered {n}"}, SHOP_SECRET, "127.0.0.8")
    return lambda: stage.ask_sandbox("DELETE", "/_/faults")


def over_and_over(act, threads=1, pause=0.0):
    """Does something again and again beside the posts; returns what ends it."""
    stop = threading.Event()

    def work(k):
        n = 0
        while not stop.is_set():
            act(k, n)
            n += 1
            time.sleep(pause)

    running = [threading.Thread(target=work, args=(k,), daemon=True) for k in range(threads)]
    for thread in running:
        thread.start()

    def end():
        stop.set()
        for thread in running:
            thread.join()
    return end


def memory_hog(stage):
    """From a process of its own: an interpreter shared with whoever holds the stopwatch would be what is measured."""
    urls = hostile_pictures(stage)
    taken = multiprocessing.Value("i", 0)

    def push(k, n):
        # New names each time, or the pictures would be known.
        fresh = [f"{url}?{k}-{n}" for url in urls]
        answer = stage.push({"text": f"hog {k} {n}", "photos": fresh}, SHOP_SECRET, "127.0.0.8", timeout=120)
        with taken.get_lock():
            taken.value += answer.status == 202

    def work():
        over_and_over(push, threads=4)
        signal.pause()

    hog = multiprocessing.get_context("fork").Process(target=work, daemon=True)
    hog.start()

    def end():
        hog.kill()
        hog.join()
        return taken.value
    return end


def ask_for_a_page(stage):
    return over_and_over(lambda *_: stage.ask("GET", "/v1/openapi.json", source="127.0.0.8"), pause=0.5)


def visit_the_socket(stage):
    def visit(*_):
        try:
            with socket.socket(socket.AF_UNIX) as visitor:
                visitor.settimeout(2)
                visitor.connect(stage.path("rupor.db.sock"))
                visitor.recv(1)
        except OSError:
            pass
    return over_and_over(visit, pause=0.5)


def push_to_the_neighbour(stage):
    push = lambda _, n: stage.push({"text": f"broken {n}"}, SHOP_SECRET, "127.0.0.8")
    return over_and_over(push, pause=0.5)


# What can panic beside somebody's posts: every loop of a node, so long after each of its starts (milliseconds) …
AFTER = 1_500
LOOPS = ["sources", "dispatch", "housekeeping", "recorder of marks", "recorder of ends", "campaigns", "bot", "monitor",
         "callbacks", "vitals", "quiet hours", "watch", "desk", "boot epoch", "http", "refusals", "control socket"]
# … and work of which there is much, with who sees to it that there is some. `housekeeping of the adapter` runs only in a
# node that lends its platforms to others.
WORK = {"source walls/-101": (0, None), "delivery of account 2": (0, push_to_the_neighbour),
        "request /v1/openapi.json": (0, ask_for_a_page), "visitor": (0, visit_the_socket)}


def one_round(trouble, begin, planted):
    environment = {"RUPOR_PLANTED_PANIC": planted} if planted else {}
    with Stage(config=NEIGHBOUR, environment=environment) as stage:
        end = begin(stage) if begin else None
        lags, posts = measure(stage, trouble)
        peak = round(stage.peak_megabytes())
        done = end() if end else None
        panics = stage.log().count(f"planted in {planted.rpartition(':')[0]}") if planted else 0
        return {"lags": lags, "posts": posts, "peak_mb": peak, "panics": panics, "hogged": done or 0}


def at(lags, part):
    lags = sorted(lags)
    return round(lags[min(len(lags) - 1, int(len(lags) * part))], 1) if lags else 60_000.0


def chosen(arguments):
    """The troubles by name: what begins them, and what is planted."""
    troubles = {"slow_peer": (slow_peer, None), "memory_hog": (memory_hog, None)}
    if arguments.panics:
        troubles = {f"panic in {loop}": (None, f"{loop}:{AFTER}") for loop in LOOPS}
        troubles |= {f"panic in {work}": (begin, f"{work}:{after}") for work, (after, begin) in WORK.items()}
    words = [word for word in arguments.only.split(",") if word]
    wanted = lambda name: not words or any(word in name for word in words)
    return {"alone": (None, None)} | {name: how for name, how in troubles.items() if wanted(name)}


def main():
    parser = argparse.ArgumentParser(prog="tests/attack/run --isolation")
    parser.add_argument("--panics", action="store_true")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--only", default="")
    arguments = parser.parse_args()
    troubles = chosen(arguments)
    rounds = {trouble: [] for trouble in troubles}
    for _ in range(arguments.rounds):
        for trouble, (begin, planted) in troubles.items():
            rounds[trouble].append(one_round(trouble, begin, planted))
    figures, failed = {}, []
    for trouble, rows in rounds.items():
        lags = [lag for row in rows for lag in row["lags"]]
        row = {"posts": sum(row["posts"] for row in rows), "arrived": len(lags), "peak_mb": max(row["peak_mb"] for row in rows),
               "p50_ms": at(lags, 0.5), "p95_ms": at(lags, 0.95), "max_ms": at(lags, 1.0),
               "p95_ms_rounds": [at(row["lags"], 0.95) for row in rows]}
        if trouble == "memory_hog":
            row["hostile_posts_taken"] = sum(row["hogged"] for row in rows)
            if not all(row["hogged"] for row in rows):
                failed.append(f"{trouble}: in some round no hostile post was taken")
        alone = figures.get("alone", row)
        row["p50_to_alone"] = round(row["p50_ms"] / alone["p50_ms"], 2)
        row["p95_to_alone"] = round(row["p95_ms"] / alone["p95_ms"], 2)
        if max(row["p50_to_alone"], row["p95_to_alone"]) > ALLOWED:
            failed.append(f"{trouble}: {row['p50_to_alone']} and {row['p95_to_alone']} times alone")
        if row["arrived"] < row["posts"]:
            failed.append(f"{trouble}: {row['arrived']} of {row['posts']} posts arrived")
        if trouble.startswith("panic"):
            row["panics"] = sum(row["panics"] for row in rows)
            if not all(row["panics"] for row in rows):
                failed.append(f"{trouble}: in some round nothing panicked")
        figures[trouble] = row
    print(json.dumps(figures | {"failed": failed}, indent=1))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
