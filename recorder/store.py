"""The event store: an append-only log per run, behind one small contract.

`EventStore` does what every store does the same way: it names runs, encodes and redacts events, chains them,
decodes and upcasts what is read, and verifies. A store of its own subclasses it and keeps rows: the methods that
begin with an underscore. One contract test (`tests/store_contract.py`) holds for all of them.

Appending is optimistic: the caller says which event it believes to be the last, and a store that finds another one
refuses the whole append with `VersionConflict`. So a run's log never has a gap, a duplicate or a branch.
"""

from __future__ import annotations

import json
import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from pydantic import ValidationError

from .errors import AgentReplayError, CorruptLog, RunNotFound, VersionConflict
from .event_codec import StoredEvent, decode_event, encode_event
from .events import Event
from .run_info import FIRST, Addition, Head, RunInfo, RunRef, Snapshot, Summary, new_uid
from .standings import Standings
from .values import loads
from .verifying import Problem, verify_run

if TYPE_CHECKING:
    from .redaction import RedactionRules, Redactor  # a reader does without them, and they take a while to import

__all__ = ["FIRST", "Addition", "EventStore", "Head", "RunInfo", "RunRef", "Snapshot", "Summary", "new_uid"]

REPEATED: Final = 64 * 1024
"""Blobs of at most so many bytes are kept at hand when they were read: many requests may refer to one."""

BLOBS_AT_HAND: Final = 64


class EventStore(ABC):
    """An append-only log per run.

    Args:
        rules: what to redact; the default rules unless given. The key of the redaction tokens belongs to the store.
    """

    url: str

    def __init__(self, rules: RedactionRules | None = None) -> None:
        self._rules = rules
        self._redactor: Redactor | None = None
        self._read_blobs: dict[str, bytes] = {}  # the last ones that were read
        self._heads: dict[int, Head] = {}
        self._standings = Standings()

    @property
    def name(self) -> str:
        """The URL as it may be shown: without a password."""
        return self.url

    # -- writing ------------------------------------------------------------------------------------

    @property
    def rules(self) -> RedactionRules:
        """What this process redacts in the store, beyond the built-in rules."""
        if self._rules is None:
            from .redaction import RedactionRules

            self._rules = RedactionRules()
        return self._rules

    @property
    def redactor(self) -> Redactor:
        """Redacts with this store's key, so that a secret has one token in all its runs."""
        if self._redactor is None:
            from .redaction import Redactor

            self._redactor = Redactor(self._redaction_key(), self.rules)
        return self._redactor

    def create_run(
        self,
        agent: str,
        *,
        uid: str | None = None,
        parent: str | None = None,
        fork_of: str | None = None,
        fork_seq: int | None = None,
        note: Mapping[str, Any] | None = None,
    ) -> RunInfo:
        """Make room for a new run and give it the next number; it has no events yet.

        Args:
            agent: its name.
            uid: the run's; a new one unless given.
            parent: the uid of the run that starts it.
            fork_of, fork_seq: the run it continues, and the last event that they share.
            note: what the store is to know of it beside its events; see `note`.

        Raises:
            StoreError: the store cannot be written, or has a run of that uid.
        """
        head = Head(FIRST, "")
        if fork_of is not None and fork_seq is not None:
            shared = next(iter(self.rows(fork_of, after=fork_seq - 1, until=fork_seq)), None)
            if shared is None:
                raise RunNotFound(f"cannot fork {fork_of} at event {fork_seq}: it has no such event")
            head = Head(fork_seq, shared.hash)
        run = RunInfo(
            number=0,
            uid=uid or new_uid(),
            agent=self.redactor.redact_text(agent),
            started=int(time.time() * 1_000_000),
            parent=parent,
            fork_of=fork_of,
            fork_seq=fork_seq,
            head_seq=head.seq,
            head_hash=head.hash,
            process_seq=head.seq + 1,
        )
        run = replace(run, number=self._insert_run(run, note))
        self._heads[run.number] = head
        return run

    def append(self, run: RunRef, expected_seq: int, events: Sequence[Event]) -> Head:
        """Append events to a run, all or none, and commit before returning.

        Args:
            run: the run.
            expected_seq: seq of the event that the caller believes to be the last, -1 for none. The events' own
                seqs must follow it without a gap.
            events: at least one event. Their values are encoded and redacted now.

        Returns:
            The new end of the log.

        Raises:
            VersionConflict: the log ends elsewhere; nothing was written.
            StoreError: the store could not be written; nothing was written.
        """
        info = run if type(run) is RunInfo else self.run(run)
        redactor = self._redactor or self.redactor
        rows = []
        for seq, event in enumerate(events, expected_seq + 1):
            if event.seq != seq:
                raise ValueError(f"event {event.seq} cannot follow event {seq - 1}: seqs are gapless")
            rows.append(encode_event(event, redactor))
        return self.append_rows(info, expected_seq, rows, Summary.of(events))

    def append_rows(self, info: RunInfo, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> Head:
        """Append encoded events; see `append`. Their hashes are set here."""
        head = self._heads.get(info.number)
        if head is None or head.seq != expected_seq:
            head = self._read_head(info.number)
            if head.seq != expected_seq:
                raise VersionConflict(info.uid, expected_seq, head.seq)
        previous = head.hash
        for row in rows:
            row.hash = previous = row.chained(previous, info.uid)
        fields = summary.fields
        if fields:
            if "agent" in fields:
                fields["agent"] = self.redactor.redact_text(fields["agent"])
            if fields.get("origin", "recorded") != "recorded":
                fields["process_seq"] = None
            # By the rows: a background writer numbers its events last.
            fields.update(("process_seq", row.seq) for row in rows if row.kind == "run.resumed")
        try:
            self._write(info.number, expected_seq, rows, summary)
        except BaseException:
            self._heads.pop(info.number, None)
            raise
        head = self._heads[info.number] = Head(rows[-1].seq, previous)
        return head

    def last_known(self, number: int) -> int:
        """The last event of a run as far as this process has written it; `FIRST` if it did not."""
        head = self._heads.get(number)
        return FIRST if head is None else head.seq

    def keep_heartbeats(self, numbers: Sequence[int]) -> None:
        """Note beside the log that these runs are in progress now, and look whether the store itself is still there.

        Raises:
            StoreError: the store cannot be written.
        """
        self._write_heartbeats(numbers, int(time.time() * 1_000_000))

    def add_runs(self, runs: Sequence[tuple[RunInfo, Sequence[StoredEvent]]]) -> list[RunInfo]:
        """Add whole runs from elsewhere, all of them or none, and commit before returning.

        Args:
            runs: of each run what is known of it (its number and head are found here), and its events, encoded, from
                seq 0 on without a gap; their hashes are set here.

        Returns:
            The runs as the store has them.

        Raises:
            StoreError: the store could not be written, or has a run of one of the uids; nothing was written.
        """
        whole = []
        for info, rows in runs:
            previous = ""
            for seq, row in enumerate(rows):
                if row.seq != seq:
                    raise ValueError(f"event {row.seq} cannot follow event {seq - 1}: seqs are gapless")
                row.hash = previous = row.chained(previous, info.uid)
            named = self.redactor.redact_text(info.agent)
            whole.append(Addition(replace(info, agent=named, head_seq=len(rows) - 1, head_hash=previous), rows))
        return self.add_recorded(whole)

    def add_recorded(self, additions: Sequence[Addition]) -> list[RunInfo]:
        """Add events as they were recorded elsewhere, hashes included, all of them or none, and commit.

        The caller has verified that they follow one another and that what they refer to comes with them. A run stands
        before its forks.

        Returns:
            The runs as the store has them.

        Raises:
            VersionConflict: a run that is to be continued ends elsewhere; nothing was written.
            StoreError: the store could not be written, or has a run of one of the uids; nothing was written.
        """
        additions = [replace(addition, info=addition.stored_info) for addition in additions]
        numbers = self._add(additions)
        for number in numbers:
            self._heads.pop(number, None)
        return [replace(addition.info, number=number) for number, addition in zip(numbers, additions, strict=True)]

    # -- reading ------------------------------------------------------------------------------------

    def runs(self) -> list[RunInfo]:
        """Every run, oldest first."""
        return [self._as_it_stands(info) for info in self._list_runs()]

    def run(self, name: RunRef) -> RunInfo:
        """The run of that name: "run42", 42, "42", a uid, a unique prefix of one (4 characters or more), or "@last".

        The last run is the one that was started last; a child run goes with its parent and is not meant.

        Raises:
            RunNotFound: there is none, or the prefix fits several.
        """
        if isinstance(name, RunInfo):
            return name
        text = str(name).strip()
        number = text.removeprefix("run")
        if number.isascii() and number.isdigit() and len(number) < 10 and not number.startswith("0"):
            found = self._find_runs(number=int(number))
        elif text == "@last":
            found = self._find_runs(last=True)
        elif len(text) >= 4:
            found = self._find_runs(prefix=text.lower())
        else:
            found = []
        if len(found) == 1:
            return self._as_it_stands(found[0])
        if found:
            names = ", ".join(f"{run.id} ({run.uid})" for run in found[:5])
            raise RunNotFound(f'"{text}" fits several runs: {names}. Give more of the uid.')
        short = " A uid is named by 4 of its characters or more." if 0 < len(text) < 4 else ""
        raise RunNotFound(f'no run "{text}" in {self.name}.{short} {self._known_runs()}')

    def _as_it_stands(self, info: RunInfo) -> RunInfo:
        """What the row says of a run, and what is derived where it never ended; see `standings`."""
        return self._standings.now(info, self.rows, self._read_rows, self._read_heartbeat)

    def _known_runs(self) -> str:
        last = self._find_runs(last=True)
        return f"Its last run is {last[0].id}; `agentreplay ls` lists all." if last else "It holds no runs yet."

    def rows(self, run: RunRef, after: int = FIRST, until: int | None = None) -> Iterator[StoredEvent]:
        """The stored events with `after` < seq <= `until`, in order; those that a fork shares included."""
        info = self.run(run)
        if info.fork_of is not None and info.fork_seq is not None and after < info.fork_seq:
            shared = info.fork_seq if until is None else min(until, info.fork_seq)
            yield from self.rows(info.fork_of, after, shared)
            after = info.fork_seq
        if until is None or after < until:
            yield from self._read_rows(info.number, after, until)

    def events(
        self, run: RunRef, after: int = FIRST, until: int | None = None, *, conversations: bool = True
    ) -> Iterator[Event]:
        """The events with `after` < seq <= `until`, in order, in today's shape; values in stored form.

        Args:
            run: the run.
            after, until: seqs.
            conversations: read the messages that model requests repeat. What only folds does without: reading every
                request of a long run costs the square of its length. A request then holds the tag that stands for them,
                `{"$type": "messages", hash, count}`.

        Raises:
            CorruptLog: a stored event cannot be read.
        """
        info = self.run(run)
        for row in self.rows(info, after, until):
            yield self.decode(info, row, conversations=conversations)

    def decode(self, info: RunInfo, row: StoredEvent, *, conversations: bool = True, blobs: bool = True) -> Event:
        """Read one stored event; see `events`.

        Without `blobs` a large value that may be of any type is the tag {"$type": "blob", hash, size} instead.
        """
        try:
            return decode_event(row, self._conversation if conversations else None, self._blob, leave_blobs=not blobs)
        except AgentReplayError:
            raise
        except (ValidationError, ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
            raise CorruptLog(
                f"{info.id}, event {row.seq} ({row.kind}): its stored data cannot be read ({type(error).__name__}). "
                f"`agentreplay verify {info.id}` shows what is damaged.",
                run=info.id,
                seq=row.seq,
            ) from error

    def _conversation(self, row: StoredEvent, name: str) -> list[Any]:
        addresses = row.conversations[name]
        contents = self.read_contents(addresses)
        parsed: dict[str, Any] = {}
        for address in addresses:
            if address not in parsed:
                parsed[address] = loads(contents[address])
        return [parsed[address] for address in addresses]

    def _blob(self, address: str) -> bytes:
        known = self._read_blobs.get(address)
        if known is None:
            known = self.read_contents([address])[address]
            if len(known) <= REPEATED:
                while len(self._read_blobs) >= BLOBS_AT_HAND:
                    self._read_blobs.pop(next(iter(self._read_blobs)), None)
                self._read_blobs[address] = known
        return known

    def note(self, uid: str) -> dict[str, Any]:
        """What the store knows of a run beside its events. None of it is exported.

        `code`: {file, name, module, host} of the code that recorded the run into this store; no file that is imported
        can say that. `named`: the same of what a person has named to be run, if that is known.
        Of a run that came from a cassette: `prefix`: true if only the events are here that a fork shares.
        `lost`: {seq, hash} of the last event that the run had, if it was salvaged from a file that had lost its end.
        `header` and `run`: fields of the cassette's header that are not of this version.
        """
        written = self._read_note(uid)
        try:
            note = json.loads(written) if written else {}
        except ValueError:
            note = None
        if type(note) is not dict:
            raise CorruptLog(f"what the store notes of the run {uid} was changed", run=uid)
        return note

    def snapshot(self, run: RunRef, step: int | None = None) -> Snapshot | None:
        """The last snapshot of a run at `step` or before (by default: the last), those that a fork shares included."""
        info = self.run(run)
        found = self._read_snapshot(info.number, step, None)
        while found is None and info.fork_of is not None:
            shared = info.fork_seq
            info = self.run(info.fork_of)
            found = self._read_snapshot(info.number, step, shared)
        return found

    def keep_snapshot(self, run: RunRef, snapshot: Snapshot) -> None:
        """Keep a snapshot beside the log; one that is kept already stays.

        Raises:
            StoreError: the store cannot be written.
        """
        self._write_snapshot(self.run(run).number, snapshot)

    def verify(self, run: RunRef | None = None) -> list[Problem]:
        """Check the chain, the head, and every body, message and blob of a run, or of all runs.

        Works on the stored bytes alone. An empty list means that nothing was changed, lost or cut off.
        """
        infos = self.runs() if run is None else [self.run(run.uid if isinstance(run, RunInfo) else run)]
        problems = [problem for info in infos for problem in verify_run(self, info)]
        return problems + (self.verify_whole() if run is None else [])

    def verify_whole(self) -> list[Problem]:
        """Check what belongs to no single run: the list of runs, and the key of the redaction tokens."""
        what = "its events are there, but the run was taken out of the list of runs"
        problems = [Problem(f"run{number}", None, what) for number in self._numbers_without_runs()]
        try:
            self._redaction_key()
        except CorruptLog as error:
            problems.append(Problem("", None, str(error)))
        return problems

    # -- what a store implements ------------------------------------------------------------------------

    @abstractmethod
    def close(self) -> None:
        """Release what the store holds open. A closed store may not be used."""

    @abstractmethod
    def _redaction_key(self) -> bytes:
        """The 32 random bytes that this store was made with.

        Raises:
            CorruptLog: they are no longer those.
        """

    @abstractmethod
    def _insert_run(self, run: RunInfo, note: Mapping[str, Any] | None = None) -> int:
        """Keep a new run, and its note; return its number, the next one."""

    @abstractmethod
    def _add(self, additions: Sequence[Addition]) -> list[int]:
        """Keep new runs and continue others, with their rows, messages, blobs and notes, in one transaction.

        A content that an earlier row had need not come with a later one. Returns the runs' numbers.
        """

    @abstractmethod
    def _read_note(self, uid: str) -> bytes | None:
        """The JSON of a run's note, if it has one."""

    @abstractmethod
    def _write(self, number: int, expected_seq: int, rows: Sequence[StoredEvent], summary: Summary) -> None:
        """Write rows, their messages and blobs, the head and the summary, in one transaction."""

    @abstractmethod
    def _read_head(self, number: int) -> Head:
        """The end of the run's log, as committed."""

    @abstractmethod
    def _read_rows(self, number: int, after: int, until: int | None) -> Iterator[StoredEvent]:
        """The run's own rows, in order of seq."""

    @abstractmethod
    def read_contents(self, addresses: Sequence[str]) -> Mapping[str, bytes]:
        """The stored bytes of messages and blobs by content address.

        Raises:
            CorruptLog: one of them is missing.
        """

    @abstractmethod
    def _numbers_without_runs(self) -> list[int]:
        """The numbers of runs that have events, but are not among the runs."""

    @abstractmethod
    def _read_snapshot(self, number: int, step: int | None, until: int | None) -> Snapshot | None:
        """The run's own last snapshot at `step` or before, and after event `until` or one before it."""

    @abstractmethod
    def _write_snapshot(self, number: int, snapshot: Snapshot) -> None:
        """Keep a snapshot, unless there is one of that step."""

    @abstractmethod
    def _write_heartbeats(self, numbers: Sequence[int], time: int) -> None:
        """Keep the time, in microseconds since 1970, in the place of the last one of each of these runs."""

    @abstractmethod
    def _read_heartbeat(self, number: int) -> int | None:
        """The time that was kept last of the run, if one was."""

    @abstractmethod
    def _list_runs(self) -> list[RunInfo]:
        """Every run by number."""

    @abstractmethod
    def _find_runs(self, *, number: int | None = None, prefix: str | None = None, last: bool = False) -> list[RunInfo]:
        """The runs of that number or uid prefix (at most 6), or the last one that is no child of another."""
