"""What a step is given: the payload, the conversation, recorded reads of the world, and a way to say what changed.

`Context` carries what the CoreStep contract names (signal, report, logger, diagnostics, caches) and what this recorder
adds. Everything that it does becomes an event of the round that runs, and what a step reports names the run, the round,
and in a workflow the node and the visit by itself.
"""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakValueDictionary

from pydantic import ValidationError

from .copying import copy_value
from .decisions import NextStep, PayloadChangeRequest
from .errors import UsageError
from .events import (
    Data,
    MediaPromotedData,
    MemoryWrittenData,
    PlanProposedData,
    ScratchpadChangedData,
    SkillActivatedData,
)
from .flow_logger import Diagnostics, FlowLogger, Logger, say, visit_here
from .frozen import freeze
from .introspection import clean, isinstance_of
from .looking import Looks
from .messages import Messages
from .payload import build_request
from .reads import RecordedRandom
from .run_recorder import RunRecorder
from .scope import Scope, Visit
from .scratchpad import items_of, merge_scratchpad
from .signals import Interrupted
from .signals import Signal as Signal
from .subagents import Parent, downstream_payload
from .values import encode_bytes

if TYPE_CHECKING:
    from .loop import Agent

Value = TypeVar("Value")


class Context:
    """What a step, or a round of your own loop, works with.

    Attributes:
        signal: asks the run to stop; see `Signal`.
        logger: its lines become `report` events; None unless a logger was given (`logger=`).
        diagnostics: notes about the running round.
        cache: a dict that lives as long as the run.
        agent_cache: a dict that lives as long as the agent object, across its runs.
        messages: the conversation.
        input, params: what the run was given; frozen.
        random: a generator whose draws are recorded.
    """

    def __init__(
        self,
        recorder: RunRecorder,
        *,
        signal: Signal | None = None,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        agent_cache: dict[Any, Any] | None = None,
        logger: Logger = None,
    ) -> None:
        self._recorder = recorder
        recorder.context = self
        self.signal = signal or Signal()
        self.looks = Looks(recorder)
        self.logger = FlowLogger.of_run(recorder, logger)
        self.diagnostics = Diagnostics(recorder)
        self.cache: dict[Any, Any] = {}
        self.agent_cache: dict[Any, Any] = {} if agent_cache is None else agent_cache
        self.messages = Messages(recorder)
        self.input = freeze(copy_value(input))
        self.params: Mapping[str, Any] = freeze(copy_value(dict(params or {})))
        self.random = RecordedRandom(lambda draw, given: recorder.read("random", draw, arguments=given))
        self._scratchpad: dict[str, Any] = {}
        # As long as anybody has one, it is the one of its part; what nobody has cannot be told from another.
        self._sub_loggers: WeakValueDictionary[Visit | int, FlowLogger] = WeakValueDictionary()

    # -- the round -----------------------------------------------------------------------------------

    @property
    def run_id(self) -> str:
        """The run's id in this store, such as "run42"."""
        return self._recorder.info.id

    @property
    def round(self) -> int:
        """The round that runs, from 1."""
        return self._recorder.round

    @property
    def node(self) -> str | None:
        """Id of the node that is visited; None outside of a workflow."""
        visit = visit_here(self._recorder)
        return None if visit is None else visit.node

    @property
    def visit(self) -> int | None:
        """Which visit of that node in the run it is, from 1; None outside of a workflow."""
        visit = visit_here(self._recorder)
        return None if visit is None else visit.number

    def report(self, update: Any) -> None:
        """Record an update on the step's progress: a text, or any value."""
        if isinstance_of(update, str):
            say(self._recorder, message=clean(update))
        else:
            say(self._recorder, content=update)

    def create_sub_flow_logger(self) -> FlowLogger:
        """A logger for a part of the step: in a workflow for the visit of a node, else for the round.

        Calls within one visit give the same one. It is there without `logger`, too; its lines are recorded only then.
        """
        recorder = self._recorder
        with recorder.log.lock:
            part = visit_here(recorder) or recorder.round
            found = self._sub_loggers.get(part)
            if found is None:
                found = self._sub_loggers[part] = FlowLogger.of_part(recorder, self.logger, part)
            return found

    def event(self, name: str, **data: Any) -> None:
        """Record an event of your own, `name` being "x.<something>"; it is kept, shown, and changes no state."""
        self._recorder.event(name, data)

    # -- the payload ---------------------------------------------------------------------------------

    @property
    def payload(self) -> Any:
        """The working state, read only: mutators raise and name `change`."""
        return self._recorder.view()

    def change(
        self,
        request: Any = None,
        *,
        new: Any = None,
        update: Any = None,
        replace: Any = None,
        remove: Any = None,
        patch: Any = None,
        merge: Any = ...,
        payload: Any = ...,
        reason: str | None = None,
    ) -> Any:
        """Change the payload, and record what was asked and what came of it.

        Give one form (None is no form, but a value for `merge` and `payload`): `new`, `update`, `replace` and `remove`
        together are a change request by MemberJunction's rules; `patch` is a JSON Patch (RFC 6902), `merge` a merge
        patch (RFC 7396), `payload` the whole new payload, recorded as its difference; `request` is what a model asked
        for: a `PayloadChangeRequest`, or a request in the form that the run's applier takes. What a MemberJunction
        request asks for and the payload does not have afterwards is warned of, in the record and through `logging`.
        After the end of the run nothing changes, which `logging` is told.

        Args:
            reason: why, for whoever reads the run later.

        Returns:
            The new payload, read only.

        Raises:
            UsageError: the payload is what a function gives; no form, or more than one; or a part of the change
                request is no dict, nor a list for a payload that is a list.
            ChangeRefused: the change cannot be applied; the payload stays as it is.
        """
        sections = not (new is None and update is None and replace is None and remove is None)
        forms = [sections, request is not None, patch is not None, merge is not ..., payload is not ...]
        if sum(forms) != 1:
            raise UsageError(
                "change() takes one form: new=/update=/replace=/remove= (together), or patch=, or merge=, or payload=, "
                "or a payload change request"
            )
        recorder = self._recorder
        if recorder.log.ended and recorder.failure is None:
            recorder.warn_of_late("a change of the payload")
            return self.payload
        if recorder.watch is not None:
            raise UsageError(
                f"the payload of {recorder.info.id} is what its payload function gives; change that instead, "
                "or record with a payload of its own: ar.record(…, payload={…})"
            )
        if patch is not None:
            recorder.change(patch, applier="json-patch", reason=reason)
        elif merge is not ...:
            recorder.change(merge, applier="merge-patch", reason=reason)
        elif payload is not ...:
            recorder.change_whole(lambda _: payload, options=recorder.applier_options, reason=reason)
        elif sections:
            asked = build_request(new, update, replace, remove, payload=self.payload)
            recorder.change(asked, applier="memberjunction", reason=reason)
        elif isinstance(request, PayloadChangeRequest):
            recorder.change(request.document(), applier="memberjunction", reason=reason)
        else:
            recorder.change(request, reason=reason)
        return self.payload

    # -- decisions -----------------------------------------------------------------------------------

    def decide(
        self, decision: NextStep | Mapping[str, Any] | None = None, raw: str | None = None, **fields: Any
    ) -> NextStep:
        """Record what this round decides, and do what the decision says of the payload, scratchpad and memory.

        Args:
            decision: a NextStep, or its JSON.
            raw: the model's text that it was parsed from.
            **fields: any fields of NextStep instead, such as step="Actions", reasoning="one more look".

        Returns:
            The decision.

        Raises:
            UsageError: it is none.
            ChangeRefused: the change of the payload cannot be applied; the payload stays as it is.
        """
        given = decision.document() if isinstance(decision, NextStep) else dict(decision or {})
        try:
            step = decision if isinstance(decision, NextStep) and not fields else NextStep(**{**given, **fields})
        except (ValidationError, TypeError) as error:
            raise UsageError(f"this is no decision, which needs a `step` and fields named by texts: {error}") from error
        document, recorder = step.document(), self._recorder
        recorder.decide(document, raw)
        # Where the payload is what a function gives, the decision says what it asked for, and the function what came.
        if (request := step.change_request) is not None and recorder.watch is None:
            reason = request.get("reasoning") if isinstance(request, dict) else None
            source = recorder.asked_by_model()
            recorder.change(request, source=source, reason=reason if isinstance(reason, str) else None)
        if document.get("scratchpad") is not None:
            self.note(copy_value(document["scratchpad"]))
        for write in items_of(document.get("memoryWrites")):
            recorder.emit("memory.written", MemoryWrittenData(write=write))
        for skill in items_of(document.get("skillActivations")):
            recorder.emit("skill.activated", SkillActivatedData(skill=skill))
        if document.get("planDetails") is not None:
            recorder.emit("plan.proposed", PlanProposedData(plan=document["planDetails"]))
        for media in items_of(document.get("promoteMediaOutputs")):
            recorder.emit("media.promoted", MediaPromotedData(media=media))
        return step

    def note(self, change: Any) -> None:
        """Change the scratchpad, as a decision says that it is to be changed."""

        def make() -> Data:
            self._scratchpad = merge_scratchpad(self._scratchpad, change)
            return ScratchpadChangedData(change=change, scratchpad=self._scratchpad)

        self._recorder.emit("scratchpad.changed", make)

    def has_decided(self, decision: NextStep) -> bool:
        """Whether the round's decision so far is this one, so that it need not be carried out once more."""
        decided = self._recorder.decided
        return decided is not None and encode_bytes(decided)[0] == encode_bytes(decision.document())[0]

    @property
    def scratchpad(self) -> Mapping[str, Any]:
        """What the decisions noted so far: {notes?, taskList?: [task, …]}; frozen."""
        frozen: Mapping[str, Any] = freeze(self._scratchpad)
        return frozen

    def restore(self, messages: Sequence[Any], scratchpad: Mapping[str, Any] | None) -> None:
        """Begin with the conversation and the notes of a run whose rounds so far are not executed again."""
        self.messages.restore(messages)
        self._scratchpad = dict(scratchpad or {})

    def edit(self, messages: Sequence[Any], params: Mapping[str, Any], input: tuple[Any] | None) -> None:
        """Take over what was edited for a re-run: messages to add, parameters to replace, an input in a tuple."""
        for message in messages:
            self.messages.append(message)
        if params:
            self.params = freeze(copy_value({**self.params, **params}))
        if input is not None:
            self.input = freeze(copy_value(input[0]))

    # -- reads of the world --------------------------------------------------------------------------

    def now(self) -> datetime:
        """The time, aware, UTC; recorded."""
        return self._recorder.read("clock", lambda: datetime.fromtimestamp(time.time(), UTC))

    def uuid4(self) -> uuid.UUID:
        """A random UUID; recorded."""
        return self._recorder.read("uuid", uuid.uuid4)

    def read(self, name: str, fn: Callable[[], Value]) -> Value:
        """Read a value of your own, such as a setting or a file; recorded under `name`."""
        if name in ("clock", "random", "uuid", "env"):
            raise UsageError(f'"{name}" names a built-in source; choose a name of your own')
        return self._recorder.read(name, fn)

    # -- people and other agents ---------------------------------------------------------------------

    def interrupt(self, name: str, reason: Any = None) -> Any:
        """Ask a person. The run stops here, as interrupted, until it is resumed with the answer, which this returns.

        Args:
            name: what is asked, for programs.
            reason: what is asked, for people; any value.
        """
        recorder = self._recorder
        attachment = recorder.attachment
        if attachment is not None and (answer := attachment.answer_to(name, reason)) is not None:
            recorder.questions += 1
            return answer[0]
        raise Interrupted(recorder.info.uid, recorder.raise_interrupt(name, reason), name, reason)

    def run_agent(
        self,
        agent: Agent,
        payload: Any = ...,
        *,
        input: Any = None,
        params: Mapping[str, Any] | None = None,
        downstream: Sequence[str] = ("*",),
        upstream: Sequence[str] | None = None,
        scope: str | None = None,
        name: str | None = None,
    ) -> Any:
        """Run another agent as a child of this run.

        Args:
            agent: what `@ar.agent` made.
            payload: its starting payload; by default what `downstream` and `scope` select of this one's.
            input, params: what it is given.
            downstream: path specs of what it sees of the payload, by MemberJunction's rules.
            upstream: path specs of what it may bring back, such as ["refund.*:add,update"]; None brings nothing back.
            scope: pointer of the part of the payload that is its whole payload, such as "/order".
            name: how the child is called in this run; by default the agent's name.

        Returns:
            Its AgentResult; in a running event loop, an awaitable of it. A child that fails raises what it raised. One
            that waits for a person gives a result with stop reason "interrupt", and its payload is not brought back.
        """
        recorder = self._recorder
        if payload is ...:
            payload = downstream_payload(recorder, downstream, scope)
        parent = Parent(recorder.here() or Scope(recorder), name or agent.name, upstream, scope)
        return agent.run_within(parent, payload, input=input, params=params)
