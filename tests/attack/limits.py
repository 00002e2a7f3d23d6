"""A node that may have little: 400 MB of memory, 64 open files, a disk of 200 MB, and a thousand visitors."""

import base64
import os
import shutil
import struct
import subprocess
import tempfile
import threading
import time
import zlib

from stage import SHOP_SECRET, Stage, connect, request, until


def png(width, height, honest=True):
    """A grey picture: honest ones hold every row, the others only claim their size."""
    chunk = lambda kind, body: struct.pack(">I", len(body)) + kind + body + struct.pack(">I", zlib.crc32(kind + body))
    packer, rows = zlib.compressobj(1), b""
    if honest:
        row = b"\0" + bytes(range(256)) * (width // 256 + 1)
        for _ in range(height):
            rows += packer.compress(row[:width + 1])
    rows += packer.flush()
    head = chunk(b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + head + chunk(b"IDAT", rows) + chunk(b"IEND", b"")


def put_picture(stage, name, picture):
    """Uploads bytes to the sandbox; returns the address from which a node may fetch them."""
    edge = b"--edge\r\nContent-Disposition: form-data; name="
    body = (edge + b'"chat_id"\r\n\r\n5\r\n' + edge + b'"document"; filename="' + name.encode()
            + b'"\r\nContent-Type: application/octet-stream\r\n\r\n' + picture + b"\r\n--edge--\r\n")
    kind = [("Content-Type", "multipart/form-data; boundary=edge")]
    answer = stage.ask_sandbox("POST", "/telegram/bot9:uploads/sendDocument", body, kind)
    if answer.status != 200:
        raise SystemExit(f"attack: the sandbox took no picture: {answer.body!r}")
    chats = stage.ask_sandbox("GET", "/_/chats?platform=telegram&chat=5&last=1").json()["telegram"]
    url = chats[0]["messages"][-1]["media"][0]["url"]
    return url if url.startswith("http") else f"http://127.0.0.1:{stage.sandbox_port}{url}"


def hostile_pictures(stage):
    """Ten addresses: pictures of 36 megapixels and of 100, and some that only claim to be 900."""
    urls = [put_picture(stage, f"large-{n}.png", png(9_000 - n, 4_000)) for n in range(5)]
    urls += [put_picture(stage, f"huge-{n}.png", png(10_000 - n, 10_000)) for n in range(2)]
    return urls + [put_picture(stage, f"claims-{n}.png", png(30_000 - n, 30_000, honest=False)) for n in range(3)]


def little_memory(must, _):
    """fill 400 MB of memory with pictures that unfold"""
    with Stage(prefix=["prlimit", f"--data={400 << 20}", "--"]) as stage:
        urls = hostile_pictures(stage)
        statuses = []

        def push(n):
            post = {"text": f"unfolding {n}", "photos": urls, "origin_id": f"unfolding {n}"}
            statuses.append(stage.push(post, SHOP_SECRET, timeout=120).status)

        # Beside them the door of tokens: bodies of nearly 16 MiB on as many connections as one household may have.
        token = stage.api_token("hog", "shop")
        heavy = [base64.b64encode(png(64 + n, 64) + bytes(11 << 20)).decode() for n in range(3)]
        sent = []

        def send(n):
            for k in range(3):
                message = {"text": f"heavy {n} {k}", "photos": [{"data": heavy[(n + k) % 3], "name": "heavy.png"}]}
                try:
                    sent.append(stage.send_message(message, token, f"127.0.0.{4 + n % 3}", 120).status)
                except OSError:
                    sent.append(0)

        threads = [threading.Thread(target=push, args=(n,)) for n in range(20)]
        threads += [threading.Thread(target=send, args=(n,)) for n in range(20)]
        for thread in threads:
            thread.start()
        waited = []
        while any(thread.is_alive() for thread in threads):
            begun = time.monotonic()
            status = stage.ask("GET", "/healthz", source="127.0.0.2").status
            waited.append(time.monotonic() - begun)
            must(status == 200, f"/healthz answered {status}; the node said:\n{stage.log()[-800:]}")
            time.sleep(0.1)
        taken = lambda: stage.push({"text": "after the pictures"}, source="127.0.0.3").status == 202
        must(until(taken, 60, 1.0), "nothing is taken in any more")
        must(stage.arrived("after the pictures", 60), "nothing goes out any more")
        must(stage.node.poll() is None, "the node is dead")
        peak = stage.peak_megabytes()
        must(peak < 400, f"{peak:.0f} MB")
        taken = sum(status == 202 for status in statuses)
        must(202 in sent and set(sent) <= {0, 202, 408, 429, 503}, f"large messages: {sent}")
        heavy = f"{len(sent)} messages of 15 MB ({sent.count(202)} taken)"
        return f"{len(statuses)} posts of 10 pictures ({taken} taken), {heavy}, at most {peak:.0f} MB, /healthz within {max(waited) * 1000:.0f} ms"


def few_files(must, _):
    """take all of 64 open files with two hundred visitors"""
    with Stage(prefix=["prlimit", "--nofile=64", "--"]) as stage:
        held = []
        for n in range(200):
            try:
                sock = connect(stage.at, f"127.0.1.{n + 1}", 0.3)
                sock.sendall(request("GET", "/board/events").replace(b"Connection: close\r\n", b""))
                held.append(sock)
            except OSError:
                break
        done = stage.rupor("channel", "test", "news", "--send", "with few files")
        must(done.returncode == 0, done.stderr.decode())
        must(stage.arrived("with few files", 60), "nothing goes out beside the visitors:\n" + stage.log()[-800:])
        for sock in held:
            sock.close()
        must(until(lambda: stage.ask("GET", "/readyz").status == 200, 30), "the node does not answer afterwards")
        return f"a post went out beside {len(held)} visitors"


def many_clients(must, _):
    """come with a thousand visitors from a thousand addresses at once"""
    with Stage() as stage:
        waited, refused, lock = [], [], threading.Lock()

        def visit(n):
            source = f"127.0.{2 + n // 250}.{n % 250 + 1}"
            begun = time.monotonic()
            answer = stage.ask("GET", "/board/state", source=source, timeout=60)
            with lock:
                (waited if answer.status == 200 else refused).append(time.monotonic() - begun)

        threads = [threading.Thread(target=visit, args=(n,)) for n in range(1_000)]
        for thread in threads:
            thread.start()
        must(stage.push({"text": "beside a thousand"}, source="127.0.0.2").status == 202, "a post was refused")
        for thread in threads:
            thread.join()
        must(stage.arrived("beside a thousand"), "nothing goes out")
        must(len(waited) >= 990, f"{len(refused)} of 1000 were refused")
        waited.sort()
        return f"{len(waited)} answered, half within {waited[500] * 1000:.0f} ms, the last after {waited[-1] * 1000:.0f} ms"


def little_disk(must, skipped):
    """fill a disk of 200 MB"""
    if os.geteuid() != 0:
        raise skipped("needs root to mount a small file system")
    folder = tempfile.mkdtemp(prefix="rupor-attack-disk.")
    if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=200m", "tmpfs", folder], capture_output=True).returncode != 0:
        os.rmdir(folder)
        raise skipped("a small file system cannot be mounted here")
    try:
        with Stage(folder=folder) as stage:
            must(stage.push({"text": "before"}).status == 202, "it does not begin well")
            must(stage.arrived("before"), "it does not begin well")
            filler = stage.path("filler")
            is_told = lambda: any("left on the disk" in str(event) and event["name"] == "alert" for event in stage.events())
            with open(filler, "wb", buffering=0) as file:
                # Little space is told while there is still some.
                while os.statvfs(folder).f_bavail * os.statvfs(folder).f_frsize > 6 << 20:
                    file.write(b"x" * 65_536)
                must(until(is_told, 30, 1.0), "no alert")
                try:
                    while file.write(b"x" * 4_096):
                        pass
                except OSError:
                    pass
            statuses = [stage.push({"text": f"full {n} " + "я" * 20_000}, timeout=60).status for n in range(20)]
            must(stage.node.poll() is None, "the node is dead")
            must(set(statuses) <= {202, 503, 500}, f"answers: {statuses}")
            stopped = stage.rupor("stop-all")
            said = "" if stopped.returncode == 0 else f"; stop-all failed: {stopped.stderr.decode().strip()[:160]}"
            os.remove(filler)
            stage.rupor("release")
            must(until(lambda: stage.ask("GET", "/readyz").status == 200, 60), "it does not get ready again")
            must(stage.push({"text": "after"}).status == 202 and stage.arrived("after", 60), "it does not recover")
            refused = sum(status != 202 for status in statuses)
            must(not said, said)
            return f"{refused} of 20 posts refused while it was full, none lost, little space was an alert, stop-all worked, it went on afterwards"
    finally:
        subprocess.run(["umount", "-l", folder], check=False)
        shutil.rmtree(folder, ignore_errors=True)


ALL = [few_files, many_clients, little_memory, little_disk]
