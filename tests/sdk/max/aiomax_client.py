"""A conversation of aiomax with the sandbox.

aiomax 2.12.5 has a knob for the API address and still writes one address into the code, that of callback answers;
the session below leads that one to the sandbox too.
"""

import asyncio
import io
import json
import os
import urllib.request

import aiohttp
import aiomax
from aiomax import buttons, exceptions

ORIGIN = os.environ["SANDBOX"]
TOKEN = "aiomax-client-token"
calls = 0


def group(n):
    return -72000000000000 - n


def control(method, where, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{ORIGIN}/_/{where}", data=data, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def picture(name):
    with urllib.request.urlopen(f"{ORIGIN}/_/pictures/{name}.jpg") as answer:
        file = io.BytesIO(answer.read())
    file.name = f"{name}.jpg"
    return file


async def step(name, call):
    """The limit of 30 requests a second is on: a pause keeps the conversation below it."""
    global calls
    await asyncio.sleep(0.04)
    result = await call
    calls += 1
    print(f"ok {calls} {name}", flush=True)
    return result


class Session(aiohttp.ClientSession):
    """Leads the one written-out address to the sandbox."""

    def _build_url(self, str_or_url):
        text = str(str_or_url).replace("https://botapi.max.ru/", f"{ORIGIN}/max/")
        return super()._build_url(text)


async def main():
    bot = aiomax.Bot(TOKEN, api_url=f"{ORIGIN}/max/", default_format="markdown")
    user = 500300
    heard = {}
    done = asyncio.get_running_loop().create_future()

    @bot.on_message()
    async def wrote(message: aiomax.Message):
        heard["text"] = message.content
        keyboard = buttons.KeyboardBuilder()
        keyboard.add(buttons.CallbackButton("Это мой", "mine"))
        question = await message.reply("Это ваш пёс?", keyboard=keyboard)
        body = {
            "account": TOKEN,
            "update_type": "message_callback",
            "callback": {"payload": "mine", "user": {"user_id": user}},
            "message": {"body": {"mid": question.id}},
        }
        await asyncio.to_thread(control, "POST", "updates/max", body)

    @bot.on_button_callback("mine")
    async def pressed(callback: aiomax.Callback):
        heard["payload"] = callback.payload
        await callback.answer(text="Ура, нашёлся!", attachments=[])
        done.set_result(callback.message.id)

    session = Session(headers={"Authorization": TOKEN}, base_url=f"{ORIGIN}/max/")
    polling = asyncio.create_task(bot.start_polling(session))
    while bot.id is None:
        await asyncio.sleep(0.05)
    await methods(bot)
    control(
        "POST",
        "updates/max",
        {"account": TOKEN, "chat": bot.id ^ user, "from": {"user_id": user, "name": "Анна"}, "text": "Видели пса?"},
    )
    mid = await step("long polling, callback, answer", asyncio.wait_for(done, 30))
    assert heard == {"text": "Видели пса?", "payload": "mine"}, heard
    after = await step("get_message after the answer", bot.get_message(mid))
    assert after.content == "Ура, нашёлся!"
    await refusals(bot)
    bot.polling = False
    polling.cancel()
    await asyncio.gather(polling, return_exceptions=True)
    assert calls >= 15
    print(f"aiomax: {calls} calls")


async def methods(bot):
    me = await step("get_me", bot.get_me())
    assert me.is_bot
    await step("patch_me", bot.patch_me(description="Ищет питомцев"))
    post = await step("send_message", bot.send_message("**Пропал** пёс", chat_id=group(1)))
    assert post.content == "Пропал пёс" and post.body.markup[0].type == "strong"
    first = await step("upload_image", bot.upload_image(picture("rex")))
    second = await step("upload_image", bot.upload_image(picture("murka")))
    album = await step("album", bot.send_message("Два фото", chat_id=group(2), attachments=[first, second]))
    assert [item.type for item in album.body.attachments] == ["image", "image"]
    video = await step("upload_video", bot.upload_video(io.BytesIO(b"\x00\x00\x00\x18ftypmp42" + bytes(500))))
    control(
        "POST", "faults", {"platform": "max", "method": "/messages", "kind": "attachment_not_ready", "times": 1}
    )
    film = await step("video, not ready at first", bot.send_message("Видео", chat_id=group(3), attachments=video))
    assert film.body.attachments[0].type == "video"
    leaflet = await step("upload_file", bot.upload_file(io.BytesIO(b"%PDF-1.4 leaflet"), "leaflet.pdf"))
    await step("file", bot.send_message("Листовка", chat_id=group(4), attachments=leaflet))
    await step("edit_message", bot.edit_message(post.id, "_Найден_"))
    edited = await step("get_message", bot.get_message(post.id))
    assert edited.content == "Найден"
    await step("post_action", bot.post_action(group(2), "typing_on"))
    await step("pin", bot.pin(group(2), album.id))
    pinned = await step("get_pin", bot.get_pin(group(2)))
    assert pinned.id == album.id
    await step("delete_pin", bot.delete_pin(group(2)))
    chat = await step("get_chat", bot.get_chat(group(2)))
    assert chat.type == "chat"
    await step("my_membership", bot.my_membership(group(2)))
    admins = await step("get_admins", bot.get_admins(group(2)))
    assert bot.id in [admin.user_id for admin in admins]
    member = await step("get_memberships", bot.get_memberships(group(2), bot.id))
    assert member.is_admin
    await step("patch_chat", bot.patch_chat(group(2), title="Поиск питомцев"))
    chats = [chat async for chat in bot.get_chats()]
    assert any(chat.title == "Поиск питомцев" for chat in chats)
    await step("delete_message", bot.delete_message(post.id))


async def refusals(bot):
    """The third message within a second to one chat, and what aiomax makes of other errors."""
    global calls
    # Whatever was asked before must not count into the limit of 30 a second.
    await asyncio.sleep(1.1)
    sends = [bot.send_message(str(n), chat_id=group(5)) for n in range(3)]
    results = await asyncio.gather(*sends, return_exceptions=True)
    refused = [error for error in results if isinstance(error, Exception)]
    assert len(refused) == 1, results
    assert isinstance(refused[0], exceptions.UnknownErrorException), refused
    assert refused[0].text == "too.many.requests"
    calls += 3
    print(f"ok {calls} flood is an UnknownErrorException too.many.requests")
    for kind, expected in [("chat_not_found", exceptions.ChatNotFound), ("500", exceptions.InternalError)]:
        control("POST", "faults", {"platform": "max", "method": "POST /messages", "kind": kind, "times": 1})
        try:
            await bot.send_message("x", chat_id=group(6))
            raise AssertionError(f"{kind} was not refused")
        except expected:
            pass
    try:
        await bot.send_message("й" * 4001, chat_id=group(7))
        raise AssertionError("a long text was accepted")
    except exceptions.IncorrectTextLength:
        pass


if __name__ == "__main__":
    asyncio.run(main())
