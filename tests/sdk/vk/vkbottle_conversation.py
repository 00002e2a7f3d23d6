"""vkbottle against the sandbox: version 5.199, typed answers that refuse a wrong shape, a bot on the long poll."""

import asyncio
import json

from vkbottle import (
    API,
    Callback,
    CaptchaError,
    DocMessagesUploader,
    GroupEventType,
    Keyboard,
    KeyboardButtonColor,
    PhotoMessageUploader,
    PhotoWallUploader,
    VideoUploader,
    VKAPIError,
)
from vkbottle.bot import Bot, Message, MessageEvent

from sandbox_control import METHODS, account, control, fault, picture, rows, visible

GROUP = 7002
USER = 9002
API.API_URL = METHODS


async def walls():
    api = API("bottle-user")
    assert (await api.users.get())[0].id == USER
    groups = await api.groups.get_by_id(group_ids=[GROUP], fields=["members_count"])
    assert groups.groups[0].id == GROUP and groups.groups[0].name == "Находки"
    resolved = await api.utils.resolve_screen_name(screen_name="bottle_pets")
    assert resolved.object_id == GROUP
    uploader = PhotoWallUploader(api)
    names = [await uploader.upload(picture(name), group_id=GROUP) for name in ("one", "two")]
    posted = await api.wall.post(owner_id=-GROUP, from_group=True, message="Нашли кота", attachments=names, guid="b1")
    again = await api.wall.post(owner_id=-GROUP, from_group=True, message="Нашли кота", attachments=names, guid="b1")
    assert posted.post_id == again.post_id
    wall = await api.wall.get(owner_id=-GROUP, count=5, extended=True)
    assert wall.count == 1 and len(wall.items[0].attachments) == 2 and wall.groups[0].id == GROUP
    photo = wall.items[0].attachments[0].photo
    assert max(size.width for size in photo.sizes) == 800
    found = await api.wall.get_by_id(posts=[f"-{GROUP}_{posted.post_id}"])
    assert found.items[0].text == "Нашли кота"
    assert (await api.wall.edit(owner_id=-GROUP, post_id=posted.post_id, message="Кот дома")).post_id == posted.post_id
    comment = await api.wall.create_comment(owner_id=-GROUP, post_id=posted.post_id, message="Рады")
    comments = await api.wall.get_comments(owner_id=-GROUP, post_id=posted.post_id)
    assert comments.items[0].id == comment.comment_id and comments.count == 1
    video = await VideoUploader(api).upload(file_source=b"....ftypmp42....", name="Ролик", group_id=GROUP)
    assert video.startswith(f"video-{GROUP}_")
    assert await api.wall.delete(owner_id=-GROUP, post_id=posted.post_id) == 1
    assert not [chat for chat in control("/_/chats?platform=vk")["vk"] if chat["id"] == -GROUP][0]["messages"]


async def refusals():
    api = API("bottle-user")
    fault("vk_error", code=9, method="wall.post")
    try:
        await api.wall.post(owner_id=-GROUP, message="флуд")
    except VKAPIError[9] as error:
        assert "Flood control" in error.error_msg and error.request_params["method"] == "wall.post"
    else:
        raise AssertionError("flood control was expected")
    fault("captcha", method="wall.post")
    try:
        await api.wall.post(owner_id=-GROUP, message="капча")
    except CaptchaError as error:
        assert error.captcha_sid and error.captcha_img
    else:
        raise AssertionError("a captcha was expected")
    try:
        await API("bottle-community").wall.get(owner_id=-GROUP)
    except VKAPIError[27]:
        pass
    else:
        raise AssertionError("group auth was to be refused")


async def bot():
    bot = Bot("bottle-community")
    done = asyncio.Event()
    steps = []

    @bot.on.message(text="Привет")
    async def hello(message: Message):
        steps.append("hello")
        keyboard = Keyboard(inline=True).add(Callback("Да", {"cmd": "yes"}), KeyboardButtonColor.POSITIVE)
        photo = await PhotoMessageUploader(bot.api).upload(picture("three"), peer_id=message.peer_id)
        document = await DocMessagesUploader(bot.api).upload(b"report", title="отчёт.txt", peer_id=message.peer_id)
        await message.answer("Здравствуйте!", attachment=f"{photo},{document}", keyboard=keyboard.get_json())
        await message.reply("ответ на сообщение")
        press = {"user_id": USER, "peer_id": USER, "payload": {"cmd": "yes"}}
        control("/_/updates/vk", {"type": "message_event", "object": press, "account": str(GROUP)})

    @bot.on.raw_event(GroupEventType.MESSAGE_EVENT, dataclass=MessageEvent)
    async def pressed(event: MessageEvent):
        steps.append("pressed")
        assert event.payload == {"cmd": "yes"}
        await event.show_snackbar("Принято")
        sent = (await bot.api.messages.send(peer_ids=[USER], message="черновик", random_id=0))[0]
        await bot.api.messages.edit(peer_id=USER, message="готово", cmid=sent.conversation_message_id)
        history = await bot.api.messages.get_history(peer_id=USER, count=10)
        assert history.items[0].text == "готово" and history.count == 4, history.count
        done.set()

    async def listen():
        async for event in bot.polling.listen():
            for update in event["updates"]:
                await bot.router.route(update, bot.api)
            if done.is_set():
                return

    control("/_/updates/vk", {"chat": USER, "from": USER, "text": "до начала", "account": str(GROUP)})
    control("/_/reset", {})
    task = asyncio.create_task(listen())
    while not rows("a_check"):
        await asyncio.sleep(0.05)
    control("/_/updates/vk", {"chat": USER, "from": USER, "text": "Привет", "account": str(GROUP)})
    await asyncio.wait_for(done.wait(), 30)
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)
    assert steps == ["hello", "pressed"], steps
    texts = [message["text"] for message in visible(USER)["messages"]]
    assert texts == ["Привет", "Здравствуйте!", "ответ на сообщение", "готово"], texts
    conversations = await bot.api.messages.get_conversations(extended=True)
    assert conversations.items[0].conversation.peer.id == USER
    permissions = await bot.api.groups.get_token_permissions()
    assert permissions.mask and permissions.permissions
    assert json.loads(json.dumps((await bot.api.groups.get_long_poll_settings(group_id=GROUP)).is_enabled))


async def main():
    account("bottle-user", "user", id=USER)
    account("bottle-community", "community", id=GROUP, name="Находки", username="bottle_pets")
    await walls()
    await refusals()
    await bot()
    await API("bottle-user").http_client.close()
    print("vkbottle: ok")


asyncio.run(main())
