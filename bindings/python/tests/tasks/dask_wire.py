"""Both ends of a Dask comm in this process, for the tests of `shmarray.dask`."""

import asyncio
import contextlib

from distributed.comm import connect, listen
from distributed.protocol import to_serialize


@contextlib.asynccontextmanager
async def wire(*, is_scheduler=False):
    """Returns both ends of a TCP comm. With `is_scheduler` the second leaves data serialized."""
    arrived = asyncio.get_running_loop().create_future()

    async def handle(comm):
        arrived.set_result(comm)

    listening = listen("tcp://127.0.0.1:0", handle, deserialize=not is_scheduler)
    async with listening as listener:
        here = await connect(listener.contact_address)
        there = await arrived
        try:
            yield here, there
        finally:
            here.abort()
            there.abort()


async def sent_through(here, there, obj):
    """Returns an object as the other end receives it."""
    # The comm is small: whoever reads and whoever writes wait for one another.
    _, message = await asyncio.gather(here.write({"data": to_serialize(obj)}), there.read())
    return message["data"]


def sent(obj, **options):
    """Returns an object as another end receives it."""

    async def send():
        async with wire(**options) as (here, there):
            return await sent_through(here, there, obj)

    return asyncio.run(send())
