"""Where a replay and the processes that its code starts meet: a folder, of which they know from their environment.

A process that code starts makes no effect while that code is replayed. What it does in a run that it joins is answered
from the log and compared, in that process; and the replay has to hear what came of it. So each of them leaves what it
has to say in files that appear whole, and the replay looks for them. The folder is made by the first that leaves
something, and is gone when the replay is over.
"""

from __future__ import annotations

import json
import os
import pickle
import secrets
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass, replace
from typing import Any, Final, NamedTuple

from .attaching import REPLAYED_AT
from .errors import AgentReplayError, UsageError

_LIVE: Final = "live"


class Live(NamedTuple):
    """As what code has gone on live that was executed against a recording.

    Attributes:
        run: uid of the run.
        what: is live where a tool that does harm has to be allowed, for messages; None where none has to be.
        allow: names of the tools that may be called.
    """

    run: str
    what: str | None
    allow: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Desk:
    """The meeting place of one replay.

    Attributes:
        folder: where.
        run: uid of the run that is replayed.
        store: its URL; of a store in memory the path of a cassette with the run, or None where nobody joined it.
        ignore: the rules of what is different each time.
        collect: whether differences are gathered.
        pid: of the process that replays.
        goes_on: whether the code goes on live where the recording is left; then other reports are no difference.
        since, until: the first and the last event of the run that the code is compared with.
    """

    folder: str
    run: str
    store: str | None
    ignore: tuple[str, ...] = ()
    collect: bool = False
    pid: int = 0
    goes_on: bool = False
    since: int = 0
    until: int | None = None

    @classmethod
    def opened(cls, run: str, store: str, ignore: tuple[str, ...], collect: bool, goes_on: bool = False) -> Desk:
        """A new one, of this process."""
        folder = os.path.join(tempfile.gettempdir(), f"agentreplay-{secrets.token_hex(16)}")
        return cls(folder, run, store, ignore, collect, os.getpid(), goes_on)

    @classmethod
    def of_another(cls) -> Desk | None:
        """That of the process which replays the code that has started this one; None if there is none."""
        told = os.environ.get(REPLAYED_AT)
        if not told:
            return None
        given = json.loads(told)
        desk = replace(cls(**given), ignore=tuple(given["ignore"]))
        return None if desk.pid == os.getpid() else desk

    def told(self) -> str:
        """What stands in the environment."""
        return json.dumps(asdict(self))

    def claim(self, name: str) -> bool:
        """Take something that only one may have; says whether it was free."""
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        try:
            os.close(os.open(os.path.join(self.folder, f"claimed-{name}"), os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        except FileExistsError:
            return False
        return True

    def is_claimed(self, name: str) -> bool:
        """Whether somebody has it."""
        return os.path.exists(os.path.join(self.folder, f"claimed-{name}"))

    def goes_live(self, live: Live) -> None:
        """Say that the code goes on live, and as what: whoever joins from now on records."""
        self._leave(json.dumps(live).encode(), os.path.join(self.folder, _LIVE))

    @property
    def live(self) -> Live | None:
        """As what the code has gone on live; None as long as it is answered from the log."""
        try:
            with open(os.path.join(self.folder, _LIVE), "rb") as file:
                run, what, allow = json.loads(file.read())
        except FileNotFoundError:
            return None
        return Live(run, what, tuple(allow))

    def put(self, message: Any) -> None:
        """Leave a message."""
        self._leave(pickle.dumps(message), os.path.join(self.folder, f"{secrets.token_hex(8)}.message"))

    def _leave(self, content: bytes, path: str) -> None:
        os.makedirs(self.folder, mode=0o700, exist_ok=True)
        name = os.path.join(self.folder, secrets.token_hex(8))
        with open(name, "xb") as file:
            file.write(content)
        os.replace(name, path)

    def report(self, failure: BaseException) -> None:
        """Leave word of what has stopped a process."""
        try:
            pickle.loads(pickle.dumps(failure))
        except Exception:  # an error of a class that only that process has
            failure = UsageError(str(failure)) if isinstance(failure, AgentReplayError) else UsageError(repr(failure))
        self.put(failure)

    def messages(self) -> Iterator[Any]:
        """Take the messages that were left, the oldest first."""
        try:
            found = [entry for entry in os.scandir(self.folder) if entry.name.endswith(".message")]
        except FileNotFoundError:
            return
        for entry in sorted(found, key=lambda one: one.stat().st_mtime_ns):
            with open(entry.path, "rb") as file:
                message = pickle.loads(file.read())  # which a process of this user's own has left
            os.unlink(entry.path)
            yield message

    def close(self) -> None:
        """Remove the folder."""
        shutil.rmtree(self.folder, ignore_errors=True)
