"""aiogram against the sandbox: every call goes through the library's own types, which refuse a wrong shape."""

import asyncio
import json
import os
import urllib.request

from aiogram import Bot, Dispatcher, F, types
from aiogram.client.default import DefaultBotProperties
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.enums import ChatAction, ParseMode
from aiogram.exceptions import TelegramBadRequest, TelegramForbiddenError, TelegramRetryAfter
from aiogram.utils.media_group import MediaGroupBuilder

ORIGIN = os.environ["SANDBOX"]
TOKEN = "4242:aiogram-token"
CHANNEL = -1000000000777
USER = 55


def control(path, body=None, method=None):
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(ORIGIN + path, data, {"content-type": "application/json"}, method=method)
    with urllib.request.urlopen(request) as answer:
        return json.load(answer)


def picture(name):
    with urllib.request.urlopen(f"{ORIGIN}/_/pictures/{name}.jpg") as answer:
        return answer.read()


async def talk(bot):
    me = await bot.get_me()
    assert me.is_bot and me.id == 4242
    await bot.delete_webhook(drop_pending_updates=True)
    assert await bot.set_my_commands([types.BotCommand(command="start", description="Начать")])
    assert (await bot.get_my_commands())[0].command == "start"

    keyboard = types.InlineKeyboardMarkup(inline_keyboard=[[types.InlineKeyboardButton(text="Да", callback_data="yes")]])
    message = await bot.send_message(USER, "<b>Пропал</b> кот, тел. +79000000001", reply_markup=keyboard)
    assert message.html_text.startswith("<b>Пропал</b> кот"), message.html_text
    assert [entity.type for entity in message.entities] == ["bold", "phone_number"]
    assert message.reply_markup.inline_keyboard[0][0].callback_data == "yes"
    reply = await bot.send_message(USER, "ответ", reply_parameters=types.ReplyParameters(message_id=message.message_id))
    assert reply.reply_to_message.message_id == message.message_id

    photo = await bot.send_photo(CHANNEL, types.BufferedInputFile(picture("rex"), "rex.jpg"), caption="<i>Рекс</i>")
    assert photo.photo[-1].width == 800 and photo.caption_entities[0].type == "italic" and photo.sender_chat.id == CHANNEL
    again = await bot.send_photo(CHANNEL, photo.photo[-1].file_id)
    assert again.photo[-1].file_unique_id == photo.photo[-1].file_unique_id
    by_url = await bot.send_photo(CHANNEL, f"{ORIGIN}/_/pictures/tom.jpg")
    file = await bot.get_file(photo.photo[-1].file_id)
    assert (await bot.download_file(file.file_path)).read() == picture("rex")

    album = MediaGroupBuilder(caption="Двое")
    album.add_photo(types.BufferedInputFile(picture("a"), "a.jpg"))
    album.add_photo(types.BufferedInputFile(picture("b"), "b.jpg"))
    posted = await bot.send_media_group(CHANNEL, album.build())
    assert len(posted) == 2 and posted[0].media_group_id == posted[1].media_group_id and posted[0].caption == "Двое"
    document = await bot.send_document(USER, types.BufferedInputFile(b"report", "отчёт.txt"))
    assert document.document.file_name == "отчёт.txt"
    animation = await bot.send_animation(USER, types.BufferedInputFile(b"GIF89a\x10\x00\x10\x00rest", "a.gif"))
    assert animation.animation.width == 16 and animation.document
    await bot.send_chat_action(USER, ChatAction.TYPING)

    edited = await bot.edit_message_text("дома", chat_id=USER, message_id=message.message_id, reply_markup=keyboard)
    assert edited.text == "дома" and edited.edit_date
    caption = await bot.edit_message_caption(chat_id=CHANNEL, message_id=photo.message_id, caption="новая")
    assert caption.caption == "новая"
    media = types.InputMediaPhoto(media=types.BufferedInputFile(picture("c"), "c.jpg"))
    await bot.edit_message_media(media, chat_id=CHANNEL, message_id=by_url.message_id)
    await bot.edit_message_reply_markup(chat_id=USER, message_id=message.message_id, reply_markup=None)
    await bot.edit_message_reply_markup(chat_id=USER, message_id=message.message_id, reply_markup=keyboard)
    assert (await bot.copy_message(USER, CHANNEL, photo.message_id)).message_id > 0
    forwarded = await bot.forward_message(USER, CHANNEL, photo.message_id)
    assert forwarded.forward_origin.type == "channel"
    assert await bot.pin_chat_message(CHANNEL, photo.message_id)
    assert await bot.delete_message(CHANNEL, again.message_id)
    chat = await bot.get_chat(CHANNEL)
    assert chat.type == "channel"
    member = await bot.get_chat_member(CHANNEL, me.id)
    assert member.status == "administrator" and member.can_post_messages
    assert await bot.get_chat_administrators(CHANNEL)
    assert (await bot.get_webhook_info()).url == ""
    return message


async def troubles(bot):
    """Refusals surface as the library's own exceptions."""
    try:
        await bot.send_message(USER, "<p>")
        raise AssertionError("accepted")
    except TelegramBadRequest as error:
        assert 'Unsupported start tag "p" at byte offset 0' in error.message
    control("/_/faults", {"platform": "telegram", "account": "4242", "kind": "429", "retry_after": 7, "times": 1})
    try:
        await bot.send_message(USER, "быстро")
        raise AssertionError("accepted")
    except TelegramRetryAfter as error:
        assert error.retry_after == 7
    control("/_/faults", {"platform": "telegram", "account": "4242", "kind": "blocked", "times": 1})
    try:
        await bot.send_message(USER, "привет")
        raise AssertionError("accepted")
    except TelegramForbiddenError as error:
        assert "bot was blocked by the user" in error.message


async def poll(bot, message):
    """A user writes and presses a button while the library polls."""
    dispatcher, seen = Dispatcher(), []

    @dispatcher.message(F.text)
    async def on_message(update):
        seen.append(update.text)
        await update.answer("слышу")

    @dispatcher.callback_query()
    async def on_press(query):
        seen.append(query.data)
        await query.answer("принято")
        await dispatcher.stop_polling()

    polling = asyncio.create_task(dispatcher.start_polling(bot, handle_signals=False, polling_timeout=20))
    control("/_/updates/telegram", {"account": TOKEN, "chat": USER, "from": {"id": USER, "first_name": "Аня"}, "text": "/start"})
    press = {"data": "yes", "message": {"message_id": message.message_id, "chat": {"id": USER}}}
    control("/_/updates/telegram", {"account": TOKEN, "callback_query": press})
    await asyncio.wait_for(polling, 40)
    assert sorted(seen) == ["/start", "yes"], seen


async def main():
    session = AiohttpSession(api=TelegramAPIServer.from_base(f"{ORIGIN}/telegram"))
    bot = Bot(TOKEN, session=session, default=DefaultBotProperties(parse_mode=ParseMode.HTML))
    async with bot:
        message = await talk(bot)
        await troubles(bot)
        await poll(bot, message)
    rows = [row for row in control("/_/ledger")["telegram"] if row["account"] == TOKEN.split(":")[0]]
    methods = {row["method"] for row in rows if row["accepted"]}
    assert len(methods) >= 15, methods
    print(f"aiogram: {len(rows)} calls, {len(methods)} methods")


asyncio.run(main())
