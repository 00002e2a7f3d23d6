"""A conversation of maxapi with the sandbox."""

import asyncio
import json
import os
import sys
import urllib.request

from maxapi import Bot, Dispatcher
from maxapi.enums.chat_permission import ChatPermission
from maxapi.enums.parse_mode import ParseMode
from maxapi.enums.sender_action import SenderAction
from maxapi.exceptions.max import InvalidToken, MaxApiError
from maxapi.types import (
    ButtonsPayload,
    CallbackButton,
    Command,
    InputMediaBuffer,
    LinkButton,
    MessageCallback,
    MessageCreated,
)
from maxapi.enums.upload_type import UploadType
from maxapi.types.command import BotCommand

ORIGIN = os.environ["SANDBOX"]
TOKEN = "maxapi-client-token"
calls = 0


def group(n):
    return -71000000000000 - n


def control(method, where, body=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"{ORIGIN}/_/{where}", data=data, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def picture(name):
    with urllib.request.urlopen(f"{ORIGIN}/_/pictures/{name}.jpg") as answer:
        return answer.read()


async def step(name, call):
    """The limit of 30 requests a second is on: a pause keeps the conversation below it."""
    global calls
    await asyncio.sleep(0.04)
    result = await call
    calls += 1
    print(f"ok {calls} {name}", flush=True)
    return result


async def main():
    bot = Bot(TOKEN)
    bot.set_api_url(f"{ORIGIN}/max")
    bot.after_input_media_delay = 0
    me = await step("get_me", bot.get_me())
    assert me.is_bot
    await step("set_commands", bot.set_commands(BotCommand(name="start", description="Начать")))

    keyboard = ButtonsPayload(
        buttons=[[CallbackButton(text="Это мой", payload="mine"), LinkButton(text="Сайт", url="https://max.ru")]]
    ).pack()
    sent = await step(
        "send_message",
        bot.send_message(chat_id=group(1), text="<b>Пропал</b> пёс", parse_mode=ParseMode.HTML, attachments=[keyboard]),
    )
    post = sent.message
    assert post.body.text == "Пропал пёс" and post.body.html_text == "<b>Пропал</b> пёс"

    album = await step(
        "album of two uploads",
        bot.send_message(
            chat_id=group(2),
            text="Два фото",
            attachments=[
                InputMediaBuffer(buffer=picture("rex"), filename="rex.jpg", type=UploadType.IMAGE),
                InputMediaBuffer(buffer=picture("murka"), filename="murka.jpg", type=UploadType.IMAGE),
            ],
        ),
    )
    assert [str(item.type) for item in album.message.body.attachments] == ["image", "image"]
    assert album.message.body.attachments[0].payload.photo_id

    clip = b"\x00\x00\x00\x18ftypmp42" + bytes(1000)
    video = await step(
        "video",
        bot.send_message(
            chat_id=group(3),
            attachments=[InputMediaBuffer(buffer=clip, filename="clip", type=UploadType.VIDEO)],
        ),
    )
    info = await step("get_video", bot.get_video(video.message.body.attachments[0].payload.token))
    assert info.urls.mp4_720
    leaflet = await step(
        "file",
        bot.send_message(
            chat_id=group(4),
            text="Листовка",
            attachments=[InputMediaBuffer(buffer=b"%PDF-1.4 leaflet", filename="leaflet", type=UploadType.FILE)],
        ),
    )
    assert leaflet.message.body.attachments[0].size == 16

    await step(
        "edit_message",
        bot.edit_message(
            message_id=post.body.mid, text="**Найден**", parse_mode=ParseMode.MARKDOWN, attachments=[keyboard]
        ),
    )
    edited = await step("get_message", bot.get_message(post.body.mid))
    assert edited.body.text == "Найден" and edited.body.md_text == "**Найден**"
    found = await step("get_messages", bot.get_messages(chat_id=group(2)))
    assert found.messages[0].body.mid == album.message.body.mid
    await step("send_action", bot.send_action(chat_id=group(2), action=SenderAction.TYPING_ON))
    await step("pin_message", bot.pin_message(chat_id=group(2), message_id=album.message.body.mid))
    pinned = await step("get_pin_message", bot.get_pin_message(chat_id=group(2)))
    assert pinned.message.body.mid == album.message.body.mid
    await step("delete_pin_message", bot.delete_pin_message(chat_id=group(2)))
    chat = await step("get_chat_by_id", bot.get_chat_by_id(group(2)))
    assert str(chat.type) == "chat"
    mine = await step("get_me_from_chat", bot.get_me_from_chat(group(2)))
    assert ChatPermission.WRITE in mine.permissions
    members = await step("get_chat_members", bot.get_chat_members(group(2)))
    assert any(member.user_id == me.user_id for member in members.members)
    await step("get_list_admin_chat", bot.get_list_admin_chat(group(2)))
    await step("delete_message", bot.delete_message(leaflet.message.body.mid))

    await conversation(bot, me)
    await refusals(bot)
    await bot.close_session()
    assert calls >= 15
    print(f"maxapi: {calls} calls")


async def conversation(bot, me):
    """Long polling, a message of a user, a pressed button and the answer to it."""
    user = 500200
    dispatcher = Dispatcher()
    done = asyncio.get_running_loop().create_future()
    heard = {}
    keyboard = ButtonsPayload(buttons=[[CallbackButton(text="Это мой", payload="mine")]]).pack()

    @dispatcher.message_created(Command("start"))
    async def started(event: MessageCreated):
        heard["text"] = event.message.body.text
        question = await event.message.answer("Это ваш пёс?", attachments=[keyboard])
        body = {
            "account": TOKEN,
            "update_type": "message_callback",
            "callback": {"payload": "mine", "user": {"user_id": user}},
            "message": {"body": {"mid": question.message.body.mid}},
        }
        await asyncio.to_thread(control, "POST", "updates/max", body)

    @dispatcher.message_callback()
    async def pressed(event: MessageCallback):
        heard["payload"] = event.callback.payload
        await event.answer(new_text="Ура, нашёлся!", notification="Спасибо")
        done.set_result(event.message.body.mid)

    polling = asyncio.create_task(dispatcher.start_polling(bot))
    control(
        "POST",
        "updates/max",
        {"account": TOKEN, "chat": me.user_id ^ user, "from": {"user_id": user, "name": "Анна"}, "text": "/start"},
    )
    mid = await step("long polling, callback, answer", asyncio.wait_for(done, 30))
    assert heard == {"text": "/start", "payload": "mine"}, heard
    await dispatcher.stop_polling()
    polling.cancel()
    after = await step("get_message after the answer", bot.get_message(mid))
    assert after.body.text == "Ура, нашёлся!"


async def refusals(bot):
    """The third message within a second to one chat; a token that is none."""
    global calls
    # Whatever was asked before must not count into the limit of 30 a second.
    await asyncio.sleep(1.1)
    sends = [bot.send_message(chat_id=group(5), text=str(n)) for n in range(3)]
    results = await asyncio.gather(*sends, return_exceptions=True)
    refused = [error for error in results if isinstance(error, Exception)]
    assert len(refused) == 1, results
    assert isinstance(refused[0], MaxApiError) and refused[0].code == 429, refused
    assert refused[0].raw["code"] == "too.many.requests"
    calls += 3
    print(f"ok {calls} flood is a MaxApiError 429")
    stranger = Bot("Bearer x")
    stranger.set_api_url(f"{ORIGIN}/max")
    try:
        await stranger.get_me()
        raise AssertionError("a wrong token was accepted")
    except InvalidToken:
        pass
    finally:
        await stranger.close_session()
    rows = control("GET", "ledger?platform=max")["max"]
    albums = [row for row in rows if row["accepted"] and len(row["media"]) == 2]
    assert any(row["method"] == "POST /messages" and row["chat"] == group(2) for row in albums)


if __name__ == "__main__":
    asyncio.run(main())
    sys.exit(0)
