"""aiogram_broadcaster with a storage that survives a kill; started again, it goes on with what its storage says.

Usage: library.py API TOKEN PEOPLE DATABASE RATE
"""

import asyncio
import pathlib
import sys

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram_broadcaster import Broadcaster
from aiogram_broadcaster.contents import TextContent
from aiogram_broadcaster.intervals import SimpleInterval
from aiogram_broadcaster.storages.sqlalchemy import SQLAlchemyStorage


async def main(api, token, people, database, rate):
    session = AiohttpSession(api=TelegramAPIServer.from_base(api))
    storage = SQLAlchemyStorage.from_url(f"sqlite+aiosqlite:///{database}")
    async with Bot(token, session=session) as bot:
        is_new = not pathlib.Path(database).exists()
        await storage.startup()
        broadcaster = Broadcaster(bot, storage=storage)
        if is_new:
            with open(people) as lines:
                everybody = [int(line) for line in lines]
            content = TextContent(text="Здравствуйте! В субботу день открытых дверей.")
            await broadcaster.create_mailer(chats=everybody, content=content, bot=bot, interval=SimpleInterval(interval=1 / float(rate)))
        else:
            await broadcaster.restore_mailers()
        tasks = [mailer.start() for mailer in broadcaster.get_mailers() if mailer.can_started]
        await asyncio.gather(*tasks)
        await storage.shutdown()


asyncio.run(main(*sys.argv[1:]))
