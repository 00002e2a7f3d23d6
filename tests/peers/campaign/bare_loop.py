"""The loop that everybody writes first: one person after the other, a pause between two, a file of who has it.

Usage: bare_loop.py API TOKEN PEOPLE DONE RATE
"""

import asyncio
import sys

from aiogram import Bot
from aiogram.client.session.aiohttp import AiohttpSession
from aiogram.client.telegram import TelegramAPIServer
from aiogram.exceptions import TelegramAPIError, TelegramRetryAfter


async def say(bot, person):
    while True:
        try:
            return await bot.send_message(person, "Здравствуйте! В субботу день открытых дверей.")
        except TelegramRetryAfter as flood:
            await asyncio.sleep(flood.retry_after)
        except TelegramAPIError as problem:
            print(person, problem, file=sys.stderr)
            return None


async def main(api, token, people, done, rate):
    with open(people) as lines:
        everybody = [int(line) for line in lines]
    with open(done, "a+") as memory:
        memory.seek(0)
        have_it = {int(line) for line in memory if line.strip()}
        session = AiohttpSession(api=TelegramAPIServer.from_base(api))
        async with Bot(token, session=session) as bot:
            for person in everybody:
                if person in have_it:
                    continue
                await say(bot, person)
                print(person, file=memory, flush=True)
                await asyncio.sleep(1 / float(rate))


asyncio.run(main(*sys.argv[1:]))
