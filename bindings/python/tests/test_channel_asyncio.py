"""Channels in an event loop of asyncio."""

import asyncio
import sys

import numpy as np
import pytest

from shmarray import Channel
from test_channel import numbers

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="only Linux has channels")


def test_an_event_loop_waits_for_several_channels():
    names = ["one", "two", "three"]
    # They have room for all: a send that waits stops the loop in which the receivers run.
    sends = [Channel.create(name, (), "i8", slots=16) for name in names]

    async def gather(name):
        async with asyncio.timeout(60):
            return [int(a) async for a in Channel.open(name)]

    async def all_of_them():
        tasks = [asyncio.create_task(gather(name)) for name in names]
        for number in range(10):
            for channel in sends:
                channel.send(np.array(number))
            await asyncio.sleep(0)
        for channel in sends:
            channel.close()
        return await asyncio.gather(*tasks)

    assert asyncio.run(all_of_them()) == [list(range(10))] * 3


def test_a_task_that_waits_sees_that_another_closes():
    async def wait(channel):
        async with asyncio.timeout(60):
            async for _ in channel:
                pass

    async def close_meanwhile():
        channel = numbers()
        waiting = [asyncio.create_task(wait(channel)) for _ in range(2)]
        for _ in range(10):
            await asyncio.sleep(0)  # both wait
        channel.close()
        return await asyncio.gather(*waiting, return_exceptions=True)

    assert [type(error) for error in asyncio.run(close_meanwhile())] == [ValueError] * 2


def test_tasks_that_share_a_channel_of_the_latest_value_each_see_the_last():
    sends = Channel.create("pose", (), "i8", mode="latest")
    reads = Channel.open("pose")

    async def last_seen():
        seen = []
        async with asyncio.timeout(60):
            async for message in reads.messages():
                seen.append(int(message.array))
                await asyncio.sleep(0)
        return seen

    async def both():
        tasks = [asyncio.create_task(last_seen()) for _ in range(2)]
        for number in range(50):
            sends.send(np.array(number))
            await asyncio.sleep(0)
        sends.close()
        return await asyncio.gather(*tasks)

    for seen in asyncio.run(both()):
        assert seen == sorted(set(seen)), "each newer one, once"
        assert seen[-1] == 49
