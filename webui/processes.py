"""A process of our own: started, told something, listened to, stopped; and never left behind.

It is told what to do in one line on its standard input, which then stays open: when that closes, for whatever reason,
the process stops by itself (`agentreplay rerun --attended`). That is how it is asked to stop, and why it does not
outlive a server that was killed. What it writes is kept up to a bound, the first of it and the last.

Each has a session of its own, so that what it starts in turn can be ended with it, before its number is given to
another process. One thread waits for all that happens to it.
"""

from __future__ import annotations

import contextlib
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from typing import IO, Final

HEAD: Final = 16_000
TAIL: Final = 48_000
"""Bytes of what a process writes to standard error that are kept: of its beginning and of its end."""

ANSWER: Final = 4_000_000
"""Bytes of the beginning of standard output that are kept: it is the answer, which is useless if it is cut."""

STOP_SECONDS: Final = 6.0
"""How long a process may take to stop once it was asked to; then it is killed."""

LINGER_SECONDS: Final = 0.5
"""How long it is still listened to what others hold open that it started, once it has ended."""

LOOK_SECONDS: Final = 0.05
"""How often it is looked whether it has ended."""

CHUNK: Final = 65_536


class Output:
    """What was written, its beginning and its end; for any thread.

    Args:
        head, tail: how many bytes of either are kept; at least one.
    """

    def __init__(self, head: int, tail: int) -> None:
        self._most = (head, tail)
        self._lock = threading.Lock()
        self._head = b""
        self._tail = b""
        self._total = 0

    def add(self, data: bytes) -> None:
        """Keep more of it."""
        head, tail = self._most
        with self._lock:
            self._total += len(data)
            room = head - len(self._head)
            if room > 0:
                self._head += data[:room]
                data = data[room:]
            self._tail = (self._tail + data)[-tail:]

    @property
    def left_out(self) -> int:
        """How many bytes in the middle are not kept."""
        with self._lock:
            return self._total - len(self._head) - len(self._tail)

    def text(self) -> str:
        """What is kept, as text; between its parts stands how much is not."""
        with self._lock:
            head, tail, left_out = self._head, self._tail, self._total - len(self._head) - len(self._tail)
        if left_out:
            return f"{_decoded(head)}\n… {left_out:,} bytes left out …\n{_decoded(tail)}"
        return _decoded(head + tail)


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "replace").replace("\r\n", "\n")


class Process:
    """A process that is running, or was.

    Args:
        command: the program and its arguments; no shell reads them.
        line: what it is told, without the line break.
        folder: where it works.
        environment: that it has.
        ended: called in the thread of the process, once it is gone and all that it wrote is kept.

    Attributes:
        out, err: what it wrote to standard output and standard error.
        code: its exit code, negative of a signal; None while it goes on.
        stopped: whether it was asked to stop.

    Raises:
        OSError: it cannot be started.
    """

    def __init__(
        self,
        command: Sequence[str],
        line: bytes,
        *,
        folder: str,
        environment: Mapping[str, str],
        ended: Callable[[], None] = lambda: None,
    ) -> None:
        self.out = Output(ANSWER, TAIL)
        self.err = Output(HEAD, TAIL)
        self.code: int | None = None
        self.stopped = False
        self._line = line + b"\n"
        self._ended = ended
        self._over = threading.Event()
        self._asked = threading.Event()
        self._popen = subprocess.Popen(
            list(command),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            cwd=folder,
            env=dict(environment),
            start_new_session=True,
        )
        self.pid = self._popen.pid
        self._thread = threading.Thread(target=self._work, name=f"agentreplay-process-{self.pid}", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to stop; if it does not, it is killed after `STOP_SECONDS`. Does not wait for that."""
        if self.code is None:
            self.stopped = True
        self._asked.set()

    def kill(self) -> None:
        """End it and what it started, at once."""
        self.stopped = self.stopped or self.code is None
        if not self._over.is_set():
            _kill_group(self.pid)
        self._asked.set()

    def wait(self, seconds: float | None = None) -> bool:
        """Wait until it is gone; says whether it is."""
        return self._over.wait(seconds)

    # -- its thread ------------------------------------------------------------------------------------

    def _work(self) -> None:
        try:
            with selectors.DefaultSelector() as selector:
                self._listen(selector)
        finally:
            _kill_group(self.pid)  # what it left behind, while the number is still its own
            self.code = self._popen.wait()
            for pipe in self._pipes():
                with contextlib.suppress(OSError):
                    pipe.close()
            try:
                self._ended()
            finally:
                self._over.set()

    def _pipes(self) -> list[IO[bytes]]:
        return [pipe for pipe in (self._popen.stdin, self._popen.stdout, self._popen.stderr) if pipe is not None]

    def _listen(self, selector: selectors.BaseSelector) -> None:
        stdin, stdout, stderr = self._pipes()
        for pipe in (stdin, stdout, stderr):
            os.set_blocking(pipe.fileno(), False)
        selector.register(stdout, selectors.EVENT_READ, self.out)
        selector.register(stderr, selectors.EVENT_READ, self.err)
        selector.register(stdin, selectors.EVENT_WRITE)
        left = memoryview(self._line)
        killed_at = linger_until = None
        while True:
            for key, _ in selector.select(LOOK_SECONDS):
                if key.fileobj is stdin:
                    left = self._write(selector, left)
                else:
                    _read(selector, key)
            now = time.monotonic()
            if self._asked.is_set() and killed_at is None:
                killed_at = now + STOP_SECONDS
                if left:
                    selector.unregister(stdin)
                    left = memoryview(b"")
                stdin.close()
            if killed_at is not None and now > killed_at:
                _kill_group(self.pid)
            if linger_until is None and _has_ended(self._popen):
                linger_until = now + LINGER_SECONDS
            if linger_until is not None and (now > linger_until or not _readers(selector)):
                return

    def _write(self, selector: selectors.BaseSelector, left: memoryview) -> memoryview:
        """Tell it some more of its line."""
        stdin = self._popen.stdin
        assert stdin is not None  # it has a pipe
        try:
            left = left[os.write(stdin.fileno(), left[:CHUNK]) :]
        except BlockingIOError:
            return left
        except OSError:  # it is gone, or has closed it
            left = memoryview(b"")
        if not left:
            selector.unregister(stdin)
            self._line = b""
        return left


def _readers(selector: selectors.BaseSelector) -> int:
    return sum(1 for key in selector.get_map().values() if key.events & selectors.EVENT_READ)


def _read(selector: selectors.BaseSelector, key: selectors.SelectorKey) -> None:
    try:
        data = os.read(key.fd, CHUNK)
    except BlockingIOError:
        return
    except OSError:
        data = b""
    if data:
        key.data.add(data)
    else:
        selector.unregister(key.fileobj)


def _has_ended(popen: subprocess.Popen[bytes]) -> bool:
    """Whether a process has ended; where that can be known without it, its number is not given away with this."""
    if sys.platform == "win32" or not hasattr(os, "waitid"):
        return popen.poll() is not None
    return os.waitid(os.P_PID, popen.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _kill_group(pid: int) -> None:
    """Kill what runs in the session of a process that was not waited for yet."""
    if hasattr(os, "killpg"):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(pid, signal.SIGKILL)
