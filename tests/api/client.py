"""A program on top of a generated client; see tests/api/client. It fails where an answer is not what the document says."""

import base64
import http.server
import json
import os
import struct
import sys
import threading
import time
import zlib

sys.path.insert(0, sys.argv[1])
from rupor_client import AuthenticatedClient  # noqa: E402
from rupor_client.api.default import (  # noqa: E402
    campaign_report,
    create_message,
    delivery,
    message,
    new_campaign,
    operate_campaign,
    operate_channel,
    photo_of_message,
)
from rupor_client.models import (  # noqa: E402
    CampaignAsk,
    Message,
    NewCampaign,
    NewMessage,
    Order,
    PhotoBytes,
    Problem,
)
from standardwebhooks import Webhook  # noqa: E402

AT = "http://127.0.0.1:7928"
client = AuthenticatedClient(base_url=AT, token=os.environ["TOKEN"], raise_on_unexpected_status=True)
heard, verifier = [], Webhook(os.environ["CALLS"])


class Heard(http.server.BaseHTTPRequestHandler):
    """Verifies each call with the library of the standard."""

    def do_POST(self):
        body = self.rfile.read(int(self.headers["content-length"]))
        heard.append(verifier.verify(body, dict(self.headers)))
        self.send_response(204)
        self.end_headers()

    def log_message(self, *_):
        pass


threading.Thread(target=http.server.HTTPServer(("127.0.0.1", 7926), Heard).serve_forever, daemon=True).start()


def until(what, so):
    for _ in range(300):
        found = so()
        if found:
            return found
        time.sleep(0.1)
    raise SystemExit(f"{what}: not within 30 s; {json.dumps(heard)[:500]}")


def picture():
    """A small PNG."""
    rows = b"".join(b"\0" + bytes((x * 4, y * 4, 128)) * 1 for y in range(1) for x in range(1))
    chunk = lambda kind, data: struct.pack(">I", len(data)) + kind + data + struct.pack(">I", zlib.crc32(kind + data))
    side = 64
    rows = b"".join(b"\0" + b"".join(bytes((x * 4, y * 4, 128)) for x in range(side)) for y in range(side))
    head = struct.pack(">IIBBBBB", side, side, 8, 2, 0, 0, 0)
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", head) + chunk(b"IDAT", zlib.compress(rows)) + chunk(b"IEND", b"")


png = picture()
words = NewMessage(
    text="Пропала собака Буся, Пермь, ул. Ленина, 89120000001",
    photos=[PhotoBytes(data=base64.b64encode(png).decode(), name="dog.png")],
)
made = create_message.sync(client=client, body=words, idempotency_key="order-1")
assert isinstance(made, Message), made
again = create_message.sync(client=client, body=words, idempotency_key="order-1")
assert again.id == made.id, "the same key is the same message"
assert made.photos[0].bytes_ == len(png), made.photos
shown = photo_of_message.sync_detailed(made.id, 0, client=client)
assert shown.status_code == 200 and shown.content == png, shown.status_code

sent = until("the message is sent", lambda: (m := message.sync(made.id, client=client)).status == "sent" and m)
reader = sent.deliveries[0].provider_message_id
assert reader and sent.deliveries[0].url.endswith(f"/{reader}"), sent
told = until("the callback", lambda: [call for call in heard if call["data"]["message_id"] == made.id])
assert told[0]["type"] == "delivery.sent" and told[0]["data"]["provider_message_id"] == reader, told
one = delivery.sync(sent.deliveries[0].id, client=client)
assert one.attempts[-1].outcome == "sent", one

assert isinstance(message.sync(999_999, client=client), Problem)
wrong = create_message.sync_detailed(client=client, body=NewMessage(text="", channels=["nowhere"]))
assert isinstance(wrong.parsed, Problem) and wrong.parsed.field, wrong
assert operate_channel.sync_detailed("lost", "pause", client=client, body=Order(reason="lunch")).status_code == 200
assert operate_channel.sync_detailed("lost", "resume", client=client, body=Order()).status_code == 200

draft = new_campaign.sync(client=client, body=NewCampaign(name="autumn", accounts=["bot"], text="Hello"))
assert draft.state == "draft", draft
operate_campaign.sync("autumn", "start", client=client, body=CampaignAsk())
lines = until(
    "the campaign is over",
    lambda: (r := campaign_report.sync("autumn", client=client)).items and all(m.state == "sent" for m in r.items) and r,
)
assert len(lines.items) == 2, lines
print(f"a generated client: message {made.id} is {reader} for its readers, {len(heard)} signed callback(s), 2 people written to")
