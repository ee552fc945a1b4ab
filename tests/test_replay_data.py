"""Data that code sends and reads outside its calls is on its way as long as it may be read, and nothing is missing."""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import threading
from collections.abc import Callable, Coroutine, Iterator
from contextlib import closing
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore

Program = Callable[[bool], Coroutine[Any, Any, Any]]
"""Code that makes all of its calls, or none after the first data that it reads."""


@pytest.fixture(autouse=True)
def swept() -> Iterator[None]:
    """What stopped code leaves open is closed within the test that stops it."""
    yield
    gc.collect()


@ar.tool(safety="pure")
async def count(text: str) -> int:
    await asyncio.sleep(0.001)
    return len(text)


async def over_a_pair_of_sockets(whole: bool) -> None:
    one, other = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=one)
    far_reader, far_writer = await asyncio.open_connection(sock=other)
    writer.write(b"hi\n")
    line = await far_reader.readline()
    if whole:
        await count(line.decode())
    far_writer.write(b"hello\n")
    await count((await reader.readline()).decode())
    writer.close()
    far_writer.close()


async def with_a_server_of_its_own(whole: bool) -> None:
    async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while line := await reader.readline():
            size = await count(line.decode()) if whole else 0
            writer.write(f"{size}\n".encode())
        writer.close()

    server = await asyncio.start_server(serve, "127.0.0.1", 0)
    port = server.sockets[0].getsockname()[1]

    async def ask(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for turn in range(3):
            writer.write(b"x" * (number + turn) + b"\n")
            await count((await reader.readline()).decode())
        writer.close()

    async with server:
        await asyncio.gather(*[ask(number) for number in range(3)])


async def through_a_pipe(whole: bool) -> None:
    out, into = os.pipe()
    loop, came = asyncio.get_running_loop(), asyncio.Event()
    loop.add_reader(out, came.set)
    os.write(into, b"x")
    await came.wait()
    loop.remove_reader(out)
    if whole:
        await count(os.read(out, 1).decode())
    os.close(out)
    os.close(into)


async def from_another_process(whole: bool) -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as listens:
        address = listens.getsockname()
        code = f"import socket, time; s = socket.create_connection({address}); time.sleep(0.3); s.send(b'a\\n')"
        listens.setblocking(False)
        pid = os.spawnv(os.P_NOWAIT, sys.executable, [sys.executable, "-c", code])
        try:
            accepted, _ = await asyncio.get_running_loop().sock_accept(listens)
            reader, writer = await asyncio.open_connection(sock=accepted)
            line = await reader.readline()
            if whole:
                await count(line.decode())
            writer.close()
        finally:
            os.waitpid(pid, 0)


async def from_a_thread_that_is_no_part_of_it(whole: bool) -> None:
    one, other = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=one)
    timer = threading.Timer(0.2, other.send, [b"a\n"])
    timer.daemon = True
    timer.start()
    line = await reader.readline()
    if whole:
        await count(line.decode())
    writer.close()
    other.close()


async def beside_a_socket_that_may_always_be_written_to(whole: bool) -> None:
    one, other = socket.socketpair()
    loop = asyncio.get_running_loop()
    loop.add_writer(one, lambda: None)
    await asyncio.gather(count("a"), count("bc"))
    if whole:
        await count("def")
    loop.remove_writer(one)
    one.close()
    other.close()


PROGRAMS = [
    *(over_a_pair_of_sockets, with_a_server_of_its_own, through_a_pipe, beside_a_socket_that_may_always_be_written_to),
    *(from_another_process, from_a_thread_that_is_no_part_of_it),
]


def recorded(program: Program) -> tuple[MemoryStore, ar.Agent, list[bool]]:
    """A run of a program, its agent, and whether the program is whole."""
    store, whole = MemoryStore(), [True]

    @ar.agent("a")
    async def step(i: int, context: ar.Context) -> Any:
        await program(whole[0])
        return ar.Complete(1)

    asyncio.run(step.arun({}, store=store))
    return store, step, whole


@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_data_that_was_sent_is_read_before_a_call_is_missed(program: Program) -> None:
    """Unchanged code is identical, each time, in the order that was recorded."""
    store, step, _ = recorded(program)
    for _ in range(3):
        result = ar.replay("run1", step, store=store)
        assert (result.verdict, result.coverage.notes) == ("identical", [])


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # stopped code leaves sockets open
@pytest.mark.parametrize("program", PROGRAMS, ids=lambda program: program.__name__)
def test_a_call_that_is_missing_beside_sockets_is_told_of(program: Program) -> None:
    """Whoever reads data and makes no call of it has parted from the recording."""
    store, step, whole = recorded(program)
    whole[0] = False
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", step, store=store)
    assert raised.value.difference.kind in ("missing call", "other arguments")


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_code_that_waits_at_a_socket_for_ever_is_told_of() -> None:
    """Nobody sends what it waits for, and the call that it would make of it is missing."""
    store, waits = MemoryStore(), False

    @ar.agent("a")
    async def step(i: int, context: ar.Context) -> Any:
        one, other = socket.socketpair()
        reader, writer = await asyncio.open_connection(sock=one)
        if not waits:
            other.send(b"a\n")
        await count((await reader.readline()).decode())
        writer.close()
        other.close()
        return ar.Complete(1)

    asyncio.run(step.arun({}, store=store))
    assert ar.replay("run1", step, store=store).verdict == "identical"
    waits = True
    with pytest.raises(ar.Divergence) as raised:
        ar.replay("run1", step, store=store)
    assert (raised.value.difference.kind, raised.value.difference.step) == ("missing call", 1)
