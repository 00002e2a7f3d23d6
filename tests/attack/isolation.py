"""What trouble in one workspace costs another: the lag of a healthy channel alone and beside trouble, as the sandbox sees
it. The troubles take turns, so that a noisy machine is noisy for all of them; the middle of the rounds counts. Prints one
JSON object; exits with 1 if the middle lag or the 95th grows by more than half (and by more than the noise)."""

import json
import statistics
import sys
import threading
import time

from limits import hostile_pictures
from stage import SHOP_SECRET, Stage, until

ROUNDS = 5
SECONDS = 8
EVERY = 0.2
# Lags below this are the noise of the machine: a ratio of two of them says nothing.
NOISE_MS = 40.0


def measure(stage, name):
    """Pushes posts evenly; returns lag figures in milliseconds."""
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

    until(all_there, 60, 0.5)
    lags = sorted(arrived[text] - pushed[text] for text in arrived)
    at = lambda part: round(lags[min(len(lags) - 1, int(len(lags) * part))], 1) if lags else None
    return {"posts": n, "arrived": len(lags), "p50_ms": at(0.5), "p95_ms": at(0.95)}


def slow_peer(stage):
    stage.ask_sandbox("POST", "/_/faults", {"platform": "telegram", "account": "434343", "kind": "hang"})
    for n in range(200):
        stage.push({"text": f"never answered {n}"}, SHOP_SECRET, "127.0.0.8")
    return lambda: stage.ask_sandbox("DELETE", "/_/faults")


def memory_hog(stage):
    urls = hostile_pictures(stage)
    stop = threading.Event()

    def push(k):
        n = 0
        while not stop.is_set():
            # New names each time, or the pictures would be known.
            fresh = [f"{url}?{k}-{n}" for url in urls]
            stage.push({"text": f"hog {k} {n}", "photos": fresh}, SHOP_SECRET, "127.0.0.8", timeout=120)
            n += 1

    threads = [threading.Thread(target=push, args=(k,), daemon=True) for k in range(4)]
    for thread in threads:
        thread.start()

    def end():
        stop.set()
        for thread in threads:
            thread.join()
    return end


# The loops of a node that can panic beside somebody's posts; each does so a second and a half after every start.
LOOPS = ["sources", "dispatch", "campaigns", "bot", "monitor", "callbacks"]


def one_round(trouble, begin):
    loop = trouble.removeprefix("panic in ")
    environment = {"RUPOR_PLANTED_PANIC": f"{loop}:1500"} if loop in LOOPS else {}
    with Stage(environment=environment) as stage:
        end = begin(stage) if begin else None
        row = measure(stage, trouble)
        row["peak_mb"] = round(stage.peak_megabytes())
        if end:
            end()
        return row


def main():
    troubles = {"alone": None, "slow_peer": slow_peer, "memory_hog": memory_hog}
    if "--panics" in sys.argv:
        # Debug builds only: nothing can be planted in the product.
        troubles = {"alone": None} | {f"panic in {loop}": None for loop in LOOPS}
    rounds = {trouble: [] for trouble in troubles}
    for _ in range(ROUNDS):
        for trouble, begin in troubles.items():
            rounds[trouble].append(one_round(trouble, begin))
    figures, worst = {}, 0.0
    for trouble, rows in rounds.items():
        row = {"posts": sum(row["posts"] for row in rows), "arrived": sum(row["arrived"] for row in rows)}
        row["peak_mb"] = max(row["peak_mb"] for row in rows)
        for part in ["p50_ms", "p95_ms"]:
            row[part + "_rounds"] = [each[part] for each in rows]
            row[part] = statistics.median(each[part] or 60_000.0 for each in rows)
            alone = figures.get("alone", row)[part]
            row[part + "_to_alone"] = round(row[part] / max(alone, NOISE_MS), 2)
            worst = max(worst, row[part + "_to_alone"])
        if row["arrived"] < row["posts"] * 0.99:
            worst = 99.0
        figures[trouble] = row
    figures["worst_ratio"] = worst
    print(json.dumps(figures, indent=1))
    return 1 if worst > 1.5 else 0


if __name__ == "__main__":
    sys.exit(main())
