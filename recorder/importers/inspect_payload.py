"""The payload of a sample: its `state` and its `store`, changed by the patches that the file holds.

    {"state": {"messages": […], "tools": […], "output": {…}, "store": {…}, …},  "store": {…}}

`state` is the TaskState that solvers hand on, and starts as the event `sample_init` has it. `store` is the document
that solvers, tools and agents share, and starts as the state's own `store`. A `state` event patches the first, a
`store` event the second, so the paths of a patch are read below "/state" or "/store". (The state has the store too,
but brings it up to date only when a solver ends.)

Both kinds of event are written when a span ends, and hold the difference *since that span began*: what an inner span
has reported, its outer span reports again. So a patch is applied to the document as it stood when its span began, and
what comes out is the document now. A patch that does not apply there, of a file written by other rules, is applied to
the document as it stands. Where no span is named, the innermost step or call that is open stands for it. A missing
`value` is null: nulls are left out when a log is written.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Final

import jsonpatch
from jsonpointer import JsonPointerException

from ..errors import ChangeRefused
from ..hashes import same
from ..payload import apply_change
from ..values import has_tags
from .inspect_run import SampleRun

DOCUMENTS: Final = ("state", "store")

WITH_VALUE: Final = ("add", "replace", "test")

COPIED_LIMIT: Final = 1_000_000
"""Values that a payload may have after a patch that copies."""


def starting_payload(state: Any) -> dict[str, Any]:
    """The payload before the first event, from the state that `sample_init` has, if it has one."""
    start = state if type(state) is dict else {}
    store = start.get("store")
    return {"state": start, "store": store if type(store) is dict else {}}


@dataclass(slots=True)
class Documents:
    """Applies the patches of a sample to the payload of its run.

    Attributes:
        run: whose payload it is.
        marks: id of an open span, or place in the stack of steps and calls → the payload when it began.
    """

    run: SampleRun
    marks: dict[str, Any] = field(default_factory=dict)
    stack: list[Any] = field(default_factory=list)

    def begin(self, span: str) -> None:
        """A span begins."""
        self.marks[span] = self.run.payload

    def end(self, span: str) -> None:
        """A span ends."""
        self.marks.pop(span, None)

    def push(self) -> None:
        """A step, or a call with events of its own, begins."""
        self.stack.append(self.run.payload)

    def pop(self) -> None:
        """The innermost step or call ends; nothing happens if none is open."""
        if self.stack:
            self.stack.pop()

    def change(self, document: str, changes: Any, *, span: Any, call: str | None, reason: str) -> str:
        """Apply a patch and record the change.

        Args:
            document: "state" or "store".
            changes: the patch, as the file has it, attachments put back.
            span: the span that the event names.
            call: the tool call within which it happened.
            reason: why.

        Returns:
            Why it could not be applied, or "". Nothing was changed or recorded then.
        """
        if type(changes) is not list:
            return "`changes` is no list"
        now = self.run.payload
        marked = type(span) is str and span in self.marks
        base = self.marks[span] if marked else self.stack[-1] if self.stack else now
        patch = [_below(document, change) for change in changes]
        applied, reason_not = _applied(now, patch)
        target = applied
        if base[document] is not now[document]:
            since, _ = _applied({**now, document: base[document]}, patch)
            target = applied if since is None else since
        if target is None:
            return reason_not
        if applied is None or not same(applied, target):
            patch = []
        if patch or same(now, target):
            recorded = self.run.patch_payload(patch, call=call, reason=reason)
        else:
            recorded = False
        if not recorded:
            self.run.change_payload(target, call=call, reason=reason)
        # Files of other writers report twice in a span; then the second patch follows the first.
        if marked:
            self.marks[span] = {**base, document: target[document]}
        elif self.stack:
            self.stack[-1] = {**base, document: target[document]}
        return ""


def _applied(payload: Any, patch: list[Any]) -> tuple[Any, str]:
    """The payload after a patch, or None and why it does not apply."""
    try:
        result = apply_change(payload, patch, "json-patch").result
    except ChangeRefused as error:
        result = _applied_to_data(payload, patch) if has_tags([payload, patch]) else None
        if result is None:
            return None, str(error)
    if type(result) is not dict or any(name not in result for name in DOCUMENTS):
        return None, "it would take away the document"
    copies = any(type(operation) is dict and operation.get("op") == "copy" for operation in patch)
    if copies and not _fits(result):
        return None, f"its copies come to more than {COPIED_LIMIT} values"
    return result, ""


def _applied_to_data(payload: Any, patch: list[Any]) -> Any:
    """The payload after a patch that leads into an object with the key "$type", or None.

    In what is stored such an object is one value, into which no path leads; in the file it is data like any other.
    """
    try:
        return jsonpatch.apply_patch(payload, patch)
    except (jsonpatch.JsonPatchException, JsonPointerException, TypeError, ValueError, LookupError, AttributeError):
        return None


def _fits(tree: Any) -> bool:
    """Whether a tree has no more values than `COPIED_LIMIT`: a few copies of copies make a tree without end."""
    todo, count = [tree], 0
    while todo:
        value = todo.pop()
        inner = list(value.values()) if type(value) is dict else value if type(value) is list else []
        count += len(inner)
        if count > COPIED_LIMIT:
            return False
        todo.extend(inner)
    return True


def _below(document: str, change: Any) -> Any:
    """An operation with its paths below the document."""
    if type(change) is not dict:
        return change
    moved = dict(change)
    for name in ("path", "from"):
        if type(moved.get(name)) is str and moved[name][:1] in ("", "/"):
            moved[name] = f"/{document}{moved[name]}"
    if moved.get("from", 0) is None:
        del moved["from"]
    if moved.get("op") in WITH_VALUE and "value" not in moved:
        moved["value"] = None
    return moved
