"""The control calls of the sandbox, for the Python conversations."""

import json
import os
import urllib.request

ORIGIN = os.environ["SANDBOX"]
METHODS = ORIGIN + "/vk/method/"


def control(path, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ORIGIN + path, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def picture(name):
    with urllib.request.urlopen(f"{ORIGIN}/_/pictures/{name}.jpg") as answer:
        return answer.read()


def account(token, kind, **fields):
    return control("/_/accounts", {"platform": "vk", "token": token, "kind": kind, **fields})


def fault(kind, **fields):
    return control("/_/faults", {"platform": "vk", "kind": kind, "times": 1, **fields})


def rows(method):
    return [row for row in control("/_/ledger?platform=vk")["vk"] if row["method"] == method]


def visible(chat):
    return [found for found in control("/_/chats?platform=vk")["vk"] if found["id"] == chat][0]
