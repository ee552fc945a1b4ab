"""The files of a Strands session as what they are of: agents with their messages, graphs and swarms, and what is odd.

All damage is found before anything is made of a session, since a damaged one is refused whole, naming the first file
that is at fault. When it is to be salvaged, each file at fault is a damaged record with a note that says the same, and
what can be read of it stays.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Final

from ..errors import ImportFailed
from .source import SourceFile, clean_text, failure, time_of
from .strands_folder import SessionFolder, listed
from .strands_shapes import (
    BLOCKS,
    ROLES,
    Flaw,
    agent_flaws,
    decoded,
    entry_flaws,
    is_usable,
    kind_of,
    orchestra_flaws,
)

SALVAGE: Final = "`agentreplay import --salvage` keeps what is sound of it."

FAULTS: Final = 100
"""How many faults are named one by one."""

_AGENT: Final = re.compile(r"agents/agent_([^/]+)/")
_ABOUT: Final = re.compile(r"agents/agent_([^/]+)/agent\.json")
_MESSAGE: Final = re.compile(r"agents/agent_([^/]+)/messages/message_([0-9]+)\.json")
_ORCHESTRA: Final = re.compile(r"multi_agents/multi_agent_([^/]+)/multi_agent\.json")

_OF_MESSAGE: Final = frozenset(("message", "message_id", "redact_message", "created_at", "updated_at"))


@dataclass(frozen=True, slots=True)
class Entry:
    """A message as a session has it: its file, what it says, when it was written, and what has no place in a run."""

    path: str
    message: dict[str, Any]
    at: datetime | None
    beside: dict[str, Any]


@dataclass(slots=True)
class AgentParts:
    """What a session has of one agent.

    Attributes:
        about: `agent.json`; empty where it cannot be read.
        entries: its messages in order, as far as they can stand in a conversation.
        damaged: whether anything of it is.
    """

    id: str
    about: dict[str, Any] = field(default_factory=dict)
    entries: list[Entry] = field(default_factory=list)
    damaged: bool = False

    @property
    def home(self) -> str:
        """Its folder."""
        return f"agents/agent_{self.id}"


@dataclass(frozen=True, slots=True)
class Damage:
    """A fault.

    Attributes:
        error: the refusal for it.
        path: the file in the folder.
        owner: the folder of the agent, graph or swarm that it is about, or None.
        content: what stands there, as far as it can be read.
    """

    error: ImportFailed
    path: str
    owner: str | None
    content: Any

    @property
    def told(self) -> str:
        """What is wrong, and where."""
        return str(self.error).removeprefix("cannot import ")


@dataclass(slots=True)
class SessionParts:
    """A session, file by file.

    Attributes:
        agents: by id.
        orchestras: the states of its graphs and swarms, by folder.
        session: `session.json`, or None.
        others: JSON that is no part of a session, by path.
        damages: all faults, in order.
        missing: how many records there are not, beyond the damaged files.
        sound: records that are as they should be.
        notes: what is odd, and no fault.
    """

    agents: dict[str, AgentParts] = field(default_factory=dict)
    orchestras: dict[str, dict[str, Any]] = field(default_factory=dict)
    session: Any = None
    others: dict[str, Any] = field(default_factory=dict)
    damages: list[Damage] = field(default_factory=list)
    missing: int = 0
    sound: int = 0
    notes: list[str] = field(default_factory=list)

    @property
    def damaged(self) -> int:
        """How many records are damaged or missing."""
        return len({damage.path for damage in self.damages}) + self.missing

    def refusal(self) -> ImportFailed:
        """The first fault, with the names of other files at fault."""
        first = self.damages[0]
        more = list(dict.fromkeys(clean_text(one.path) for one in self.damages if one.path != first.path))
        others = f" {len(more)} more are damaged: {listed(more)}." if len(more) > 1 else ""
        others = f" Another is damaged: {more[0]}." if len(more) == 1 else others
        return ImportFailed(f"{first.error}{others} {SALVAGE}", path=first.error.path, line=first.error.line)

    def told(self) -> Iterator[str]:
        """What is wrong, fault by fault, up to a limit."""
        yield from [damage.told for damage in self.damages[:FAULTS]]
        if len(self.damages) > FAULTS:
            yield f"and {len(self.damages) - FAULTS} more that are damaged"


def parts_of(folder: SessionFolder) -> SessionParts:
    """Read the files of a session, and find all that is wrong with them."""
    return _Reader(folder).read()


class _Reader:
    def __init__(self, folder: SessionFolder) -> None:
        self._folder = folder
        self._parts = SessionParts()
        self._left = dict.fromkeys([*folder.files, *folder.unread])

    def read(self) -> SessionParts:
        """Read all of it."""
        numbers: dict[str, dict[int, list[str]]] = {}
        for path in [*self._left, *[f"{folder}/" for folder in self._folder.folders]]:
            if found := _AGENT.match(path):
                numbers.setdefault(found[1], {})
            if found := _MESSAGE.fullmatch(path):
                numbers[found[1]].setdefault(int(found[2]), []).append(path)
        for id in sorted(numbers):
            self._agent(id, numbers[id])
        for path in [path for path in self._left if _ORCHESTRA.fullmatch(path)]:
            self._orchestra(path)
        self._session()
        for path in [*self._left]:
            content = self._parsed(path, None)
            if content is not None:
                self._parts.others[path] = content[0]
        if self._folder.aside:
            self._parts.notes.append(f"not read, being no JSON: {listed([*map(clean_text, self._folder.aside)])}")
        return self._parts

    # -- parts -----------------------------------------------------------------------------------------

    def _agent(self, id: str, numbers: dict[int, list[str]]) -> None:
        agent = AgentParts(id)
        self._parts.agents[id] = agent
        before = len(self._parts.damages)
        home = agent.home
        path = f"{home}/agent.json"
        about = self._object(path, home, "what the SDK knows of the agent, which it writes before the first message")
        if about is not None:
            self._check(path, home, about, [*decoded(about), *agent_flaws(about, id)])
            agent.about = about
        if f"{home}/messages" not in self._folder.folders and not self._closed(f"{home}/messages"):
            expected_there = "the folder of its messages, which the SDK makes with the agent, also for none"
            self._fault(f"{home}/messages", home, "it is missing", expected_there, None, "Was the folder copied whole?")
        expected = 0
        for number in sorted(numbers):
            if number > expected and not self._closed(f"{home}/messages"):
                self._gap(home, expected, number - 1)
            expected = number + 1
            first, *others = sorted(numbers[number], key=len)
            self._message(agent, first, number)
            for other in others:
                found = f"it has the number of {first.rpartition('/')[2]}"
                content = self._parsed(other, home)
                if content is not None:
                    self._fault(other, home, found, "one file for each number", content[0])
        agent.damaged = len(self._parts.damages) > before

    def _message(self, agent: AgentParts, path: str, number: int) -> None:
        entry = self._object(path, agent.home, "a message")
        if entry is None:
            return
        self._check(path, agent.home, entry, [*decoded(entry), *entry_flaws(entry, number)])
        redacted = entry.get("redact_message")
        message = entry.get("message") if redacted is None else redacted
        if redacted is not None:
            self._parts.notes.append(
                f"{clean_text(path)}: the message was redacted; what it was before is not taken over"
            )
        if not is_usable(message):
            return
        self._note_unknown(path, message)
        beside = {name: value for name, value in entry.items() if name not in _OF_MESSAGE}
        agent.entries.append(Entry(path, message, time_of(entry.get("created_at")), beside))

    def _note_unknown(self, path: str, message: dict[str, Any]) -> None:
        path = clean_text(path)
        if message["role"] not in ROLES:
            role = clean_text(json.dumps(message["role"], ensure_ascii=False))
            self._parts.notes.append(f"{path}: the role {role} is not known here; the message is kept as it is")
        blocks = [block for block in message["content"] if type(block) is dict]
        for kind in dict.fromkeys(kind for block in blocks for kind in block if kind not in BLOCKS):
            self._parts.notes.append(
                f'{path}: blocks of the kind "{clean_text(kind)}" are not known here; they are kept as they are'
            )

    def _gap(self, home: str, first: int, last: int) -> None:
        path = f"{home}/messages/message_{first}.json"
        found = "it is missing" if first == last else f"it is missing, as are those up to message_{last}.json"
        self._fault(
            path, home, found, "messages numbered from 0 on, without a gap", None, "Was the folder copied whole?"
        )
        self._parts.missing += last - first

    def _orchestra(self, path: str) -> None:
        home = path.rpartition("/")[0]
        state = self._object(path, home, "the state of a graph or a swarm")
        if state is not None:
            self._check(path, home, state, [*decoded(state), *orchestra_flaws(state)])
            self._parts.orchestras[home] = state

    def _session(self) -> None:
        session = self._object("session.json", None, "the file with which the SDK begins a session")
        if session is not None:
            self._check("session.json", None, session, [])
            self._parts.session = session

    # -- files -----------------------------------------------------------------------------------------

    def _object(self, path: str, owner: str | None, expected: str) -> dict[str, Any] | None:
        """The object in a file; None, with a fault, where there is none."""
        if path not in self._left:
            if not self._closed(path):
                self._fault(path, owner, "it is missing", expected, None, "Was the folder copied whole?")
            return None
        content = self._parsed(path, owner)
        if content is not None and type(content[0]) is not dict:
            self._fault(path, owner, f"it holds {kind_of(content[0])}", f"an object, {expected}", content[0])
            return None
        return None if content is None else content[0]

    def _closed(self, path: str) -> bool:
        """Whether a folder that a path leads through could not be read, which is told already."""
        parts = path.split("/")
        return any("/".join(parts[:length]) in self._folder.unread for length in range(1, len(parts) + 1))

    def _parsed(self, path: str, owner: str | None) -> list[Any] | None:
        """The JSON in a file, in a list since it may be null; None, with a fault, where it is not JSON."""
        del self._left[path]
        shown = self._folder.shown(path)
        unread = self._folder.unread.get(path)
        if unread is not None:
            self._parts.damages.append(Damage(unread, path, owner, None))
            return None
        data = self._folder.files[path]
        source = SourceFile(shown, clean_text(path), data, "", self._folder.modified)
        try:
            _refuse_nothing(shown, data)
            content = source.json()
        except ImportFailed as error:
            self._parts.damages.append(Damage(error, path, owner, data.decode("utf-8", "surrogateescape")))
            return None
        for defect in source.defects:
            self._fault(path, owner, defect.message, "a file as the SDK writes it", defect.content)
        encoding = json.detect_encoding(data)
        if encoding != "utf-8":
            self._parts.notes.append(f"{clean_text(path)} is in {encoding}, and is read so; the SDK writes plain UTF-8")
        return [content]

    # -- what is wrong ---------------------------------------------------------------------------------

    def _check(self, path: str, owner: str | None, content: Any, flaws: Iterable[Flaw]) -> None:
        """Note the flaws of a file; without any, and without a fault of the file itself, it is sound."""
        for flaw in flaws:
            self._fault(path, owner, flaw.found, flaw.expected, content)
            content = None  # it is kept once
        if not any(damage.path == path for damage in self._parts.damages[-1:]):
            self._parts.sound += 1

    def _fault(self, path: str, owner: str | None, found: str, expected: str, content: Any, advice: str = "") -> None:
        error = failure(self._folder.shown(path), found, expected, advice or "Is it as the SDK wrote it?")
        self._parts.damages.append(Damage(error, path, owner, content))


def _refuse_nothing(shown: str, data: bytes) -> None:
    """Refuse what a file holds that was never written, which a parser tells in words of its own."""
    zeros = len(data) - len(data.lstrip(b"\0"))
    found = "it is empty" if not data.strip() else ""
    if zeros == len(data) != 0:
        found = f"it holds nothing but {zeros} NUL bytes"
    elif zeros >= 4:  # fewer begin a text in UTF-16 or UTF-32
        found = f"it begins with {zeros} NUL bytes"
    if found:
        raise failure(shown, found, "JSON", "Files are so after a power loss, or while they are being copied.")
