"""vk_api against the sandbox: version 5.92, old shapes of answers, form bodies, its own upload helpers.

The library has no setting for its host, so its HTTP session rewrites the address.
"""

import io
import threading

import requests
import vk_api
from vk_api.bot_longpoll import VkBotEventType, VkBotLongPoll
from vk_api.exceptions import ApiError, Captcha
from vk_api.keyboard import VkKeyboard, VkKeyboardColor
from vk_api.requests_pool import VkRequestsPool
from vk_api.tools import VkTools
from vk_api.upload import VkUpload
from vk_api.utils import get_random_id

from sandbox_control import METHODS, account, control, fault, picture, rows, visible

GROUP = 7001
USER = 9001


class Session(requests.Session):
    def request(self, method, url, *args, **kwargs):
        for host in ("https://api.vk.ru/method/", "https://api.vk.com/method/"):
            url = url.replace(host, METHODS)
        return super().request(method, url, *args, **kwargs)


def session(token):
    return vk_api.VkApi(token=token, session=Session())


def named(name):
    file = io.BytesIO(picture(name))
    file.name = f"{name}.jpg"
    return file


def walls():
    vk_session = session("vkapi-user")
    vk = vk_session.get_api()
    upload = VkUpload(vk_session)
    assert vk.users.get()[0]["id"] == USER
    assert vk.groups.getById(group_id=GROUP)[0]["screen_name"] == "sandbox_pets"
    assert vk.utils.resolveScreenName(screen_name="sandbox_pets")["object_id"] == GROUP
    assert vk.utils.resolveScreenName(screen_name="nobody_here") == []

    photos = [upload.photo_wall(named(name), group_id=GROUP)[0] for name in ("rex", "tom", "kit")]
    names = [f"photo{photo['owner_id']}_{photo['id']}" for photo in photos]
    assert max(size["width"] for size in photos[0]["sizes"]) == 800
    post = {"owner_id": -GROUP, "from_group": 1, "message": "Пропал пёс Рекс", "attachments": ",".join(names), "guid": "a1"}
    first = vk.wall.post(**post)["post_id"]
    assert vk.wall.post(**post)["post_id"] == first, "a repeated guid is the same post"
    assert [row["visible_id"] for row in rows("wall.post")] == [first, first]
    stored = vk.wall.getById(posts=f"{-GROUP}_{first}")[0]
    assert len(stored["attachments"]) == 3 and stored["from_id"] == -GROUP
    largest = max(stored["attachments"][0]["photo"]["sizes"], key=lambda size: size["width"] * size["height"])
    assert requests.get(largest["url"]).content == picture("rex")
    smallest = stored["attachments"][0]["photo"]["sizes"][0]
    assert 0 < len(requests.get(smallest["url"]).content) < len(picture("rex"))

    vk.wall.edit(owner_id=-GROUP, post_id=first, message="Рекс дома", attachments=names[0])
    edited = vk.wall.getById(posts=f"{-GROUP}_{first}")[0]
    assert edited["text"] == "Рекс дома" and edited["edited"] and len(edited["attachments"]) == 1
    comment = vk.wall.createComment(owner_id=-GROUP, post_id=first, message="Ура", guid="c1")["comment_id"]
    assert vk.wall.getComments(owner_id=-GROUP, post_id=first)["items"][0]["id"] == comment
    vk.wall.pin(owner_id=-GROUP, post_id=first)
    second = vk.wall.post(owner_id=-GROUP, message="от человека")["post_id"]
    listed = vk.wall.get(owner_id=-GROUP, count=10)
    assert [item["id"] for item in listed["items"]] == [first, second] and listed["items"][0]["is_pinned"] == 1
    assert vk.wall.delete(owner_id=-GROUP, post_id=second) == 1

    document = upload.document_wall(io.BytesIO(b"report"), title="отчёт.txt", group_id=GROUP)
    assert document["doc"]["owner_id"] and document["doc"]["url"]
    for number in range(30):
        vk.wall.post(owner_id=-GROUP, from_group=1, message=f"пост {number}")
    everything = VkTools(vk_session).get_all("wall.get", 10, {"owner_id": -GROUP})
    assert len(everything["items"]) == 31, len(everything["items"])

    with VkRequestsPool(vk_session) as pool:
        answers = [pool.method("users.get", {"user_ids": number}) for number in (1, 2, 3)]
    assert [answer.result[0]["id"] for answer in answers] == [1, 2, 3]
    return first


def refusals(first):
    user, community, service = (session(f"vkapi-{kind}").get_api() for kind in ("user", "community", "service"))
    for call, code in (
        (lambda: community.wall.get(owner_id=-GROUP), 27),
        (lambda: community.photos.getWallUploadServer(group_id=GROUP), 27),
        (lambda: community.wall.edit(owner_id=-GROUP, post_id=first, message="x"), 27),
        (lambda: service.wall.post(owner_id=-GROUP, message="x"), 28),
        (lambda: user.wall.post(owner_id=-GROUP), 100),
        (lambda: user.wall.nothing(), 3),
    ):
        try:
            call()
        except ApiError as error:
            assert error.code == code, (error.code, code)
        else:
            raise AssertionError(f"error {code} was expected")
    fault("401", method="users.get")
    try:
        user.users.get()
    except ApiError as error:
        assert error.code == 5 and "invalid access_token" in str(error)
    else:
        raise AssertionError("a dead token was expected")
    assert service.wall.get(owner_id=-GROUP)["count"] > 0
    assert community.wall.post(owner_id=-GROUP, message="от сообщества")["post_id"]

    fault("vk_error", code=9, method="wall.post")
    try:
        user.wall.post(owner_id=-GROUP, message="флуд")
    except ApiError as error:
        assert error.code == 9 and "Flood control" in str(error)
    else:
        raise AssertionError("flood control was expected")
    fault("429", method="wall.post")
    assert user.wall.post(owner_id=-GROUP, message="после паузы")["post_id"], "error 6 is waited for by the library"
    fault("captcha", method="wall.post")
    try:
        user.wall.post(owner_id=-GROUP, message="капча")
    except Captcha as captcha:
        assert captcha.get_url() and captcha.get_image()
        assert captcha.try_again("слово")["post_id"]
    else:
        raise AssertionError("a captcha was expected")


def messages():
    vk_session = session("vkapi-community")
    vk = vk_session.get_api()
    upload = VkUpload(vk_session)
    longpoll = VkBotLongPoll(vk_session, GROUP, wait=5)
    control("/_/updates/vk", {"chat": USER, "from": USER, "text": "Привет", "account": str(GROUP)})
    event = longpoll.check()[0]
    assert event.type == VkBotEventType.MESSAGE_NEW and event.from_user
    assert event.message.text == "Привет" and event.message.from_id == USER

    photos = upload.photo_messages([named("a"), named("b")])
    keyboard = VkKeyboard(inline=True)
    keyboard.add_callback_button("Да", color=VkKeyboardColor.POSITIVE, payload={"answer": "yes"})
    keyboard.add_openlink_button("Сайт", link="https://example.org")
    sent = vk.messages.send(
        peer_id=USER,
        random_id=77,
        message="Ваша собака?",
        keyboard=keyboard.get_keyboard(),
        attachment=[f"photo{photo['owner_id']}_{photo['id']}_{photo['access_key']}" for photo in photos],
        reply_to=event.message.id,
    )
    assert vk.messages.send(peer_id=USER, random_id=77, message="Ваша собака?") == sent
    history = vk.messages.getHistory(peer_id=USER)
    assert history["count"] == 2 and len(history["items"][0]["attachments"]) == 2
    assert history["items"][0]["reply_message"]["text"] == "Привет"

    press = {"user_id": USER, "peer_id": USER, "payload": {"answer": "yes"}}
    control("/_/updates/vk", {"type": "message_event", "object": press, "account": str(GROUP)})
    pressed = [found for found in longpoll.check() if found.type == VkBotEventType.MESSAGE_EVENT][0]
    assert pressed.object["payload"] == {"answer": "yes"}
    answer = {"event_id": pressed.object["event_id"], "user_id": USER, "peer_id": USER}
    assert vk.messages.sendMessageEventAnswer(event_data='{"type": "show_snackbar", "text": "Принято"}', **answer) == 1
    assert vk.messages.edit(peer_id=USER, message_id=sent, message="Нашлась") == 1
    assert vk.messages.markAsRead(peer_id=USER) == 1
    assert vk.messages.setActivity(peer_id=USER, type="typing") == 1
    extra = vk.messages.send(user_id=USER, random_id=get_random_id(), message="лишнее")
    assert vk.messages.delete(message_ids=extra, delete_for_all=1) == {str(extra): 1}
    shown = [message for message in visible(USER)["messages"]]
    assert [message["text"] for message in shown] == ["Привет", "Нашлась"] and shown[1]["edited_at"]
    assert vk.messages.getConversations()["items"][0]["conversation"]["peer"]["id"] == USER

    # A poll that waits is woken by what happens meanwhile.
    later = threading.Timer(0.3, control, ("/_/updates/vk", {"chat": USER, "from": USER, "text": "ещё", "account": str(GROUP)}))
    later.start()
    texts = [found.message.text for _ in range(4) for found in longpoll.check() if found.type == VkBotEventType.MESSAGE_NEW]
    assert "ещё" in texts, texts


account("vkapi-user", "user", id=USER, name="Вера Ветрова")
account("vkapi-community", "community", id=GROUP, name="Питомцы", username="sandbox_pets")
account("vkapi-service", "service")
refusals(walls())
messages()
print("vk_api: ok")
