"""The rules by which MemberJunction applies a change request.

Every key that some section of the request names is handled once, in this order of precedence: a `replaceElements`
entry puts its value in place of what is there; `removeElements` deletes; `newElements` adds a key that is missing;
`updateElements` merges objects key by key and arrays by position, and overwrites anything else. A model that mixes up
new and update is forgiven, with a warning. Array items of `newElements` are appended.

What a section says about a place is found by the *joined path* of its keys, `a.b.0`, and so a few requests reach places
one would not expect: `{"x": {"y": …}}` changes what is under a key `x.y` as well. This module finds the same places
without searching the payload for them: it goes only where some section has something, copies only the containers that
change, and shares all others with the payload it was given.
"""

from __future__ import annotations

from operator import is_
from typing import Any

from ..errors import ChangeRefused
from .analyzer import analyze
from .permissions import Operation, Permissions
from .property_paths import is_falsy, item
from .request import NEW, REMOVE, REPLACE, UPDATE, Correction, correct_stray_keys, is_delete
from .result import ChangeResult, Options
from .sections import Request, is_significant, join_path
from .strict import StrictNotes
from .trees import UNDEFINED, Trees, is_array, is_unchanged, key_name


def apply_memberjunction(payload: Any, request: Any, options: Options) -> ChangeResult:
    """Apply a memberjunction request; see `apply_change`."""
    trees = options.trees
    if not trees.is_object(request):
        raise ChangeRefused(
            f"a memberjunction request is an object with {NEW}, {UPDATE}, {REPLACE} or {REMOVE}; "
            f"this is {type(request).__name__}. Nothing was changed."
        )
    corrected = Correction(request)
    if not options.ignore_stray_keys:
        corrected = correct_stray_keys(request, payload, options.agent_name, trees)
    warnings = corrected.warnings
    permissions = Permissions(options.allowed_paths) if options.allowed_paths is not None else None
    notes = StrictNotes(permissions) if options.strict and not options.stored else None
    if notes is not None:
        notes.request(request, corrected.request)
    start = {} if is_falsy(payload) else payload
    work = _Application(permissions, notes, warnings, trees)
    result = work.node(start, None, Request.of(corrected.request, corrected.names, trees))
    applied_request = corrected.request
    if corrected.names:
        alone = _Application(permissions, None, [], trees).node(start, None, Request.of(applied_request, {}, trees))
        if not trees.same(alone, result):  # then only the keys where they were say what was applied
            hung = {key: value for names in corrected.names.values() for key, value in names.items()}
            applied_request = {**applied_request, **hung}
    feedback = False
    if options.analyze and not options.stored:
        findings = analyze(payload, result, touched=work.touched)
        feedback = bool(findings)
        warnings.extend(map(str, findings))
    if notes is not None:
        warnings.extend(notes.texts)
    return ChangeResult(
        result=result,
        applied={"additions": work.additions, "updates": work.updates, "deletions": work.deletions},
        warnings=warnings,
        blocked_operations=work.blocked,
        requires_feedback=feedback,
        applied_request=applied_request,
    )


class _Draft:
    """An object that is copied when it is first written to."""

    __slots__ = ("_keys", "_source", "value")

    def __init__(self, value: dict[Any, Any]) -> None:
        self.value = self._source = value
        self._keys: dict[Any, None] | None = None

    def get(self, key: Any) -> Any:
        return self.value.get(key, UNDEFINED)

    def set(self, key: Any, value: Any) -> None:
        if not is_unchanged(self.get(key), value):
            self._write(key)[key] = value

    def remove(self, key: Any) -> None:
        if key in self.value:
            del self._write(key)[key]

    def finish(self, touched: dict[int, tuple[Any, Any, Any]]) -> dict[Any, Any]:
        if self._keys is None:
            return self.value
        if all(self.get(key) is self._source.get(key, UNDEFINED) for key in self._keys) and all(
            map(is_, self.value, self._source)
        ):
            return self._source  # what was written is gone again
        touched[id(self.value)] = (self.value, self._source, self._keys)
        return self.value

    def _write(self, key: Any) -> dict[Any, Any]:
        if self._keys is None:
            self.value, self._keys = dict(self.value), {}
        self._keys[key] = None
        return self.value


class _Application:
    """One request being applied: the counts, warnings and blocked operations so far."""

    def __init__(
        self, permissions: Permissions | None, notes: StrictNotes | None, warnings: list[str], trees: Trees
    ) -> None:
        self.additions = 0
        self.updates = 0
        self.deletions = 0
        self.warnings = warnings
        self.blocked: list[dict[str, Any]] = []
        self.touched: dict[int, tuple[Any, Any, Any]] = {}
        self._permissions = permissions
        self._notes = notes
        self._trees = trees

    def node(self, target: Any, path: str | None, request: Request) -> Any:
        """Apply what the request says at and below a path; returns the same object if that changes nothing."""
        made = self._container(target, path, request)
        return target if made is UNDEFINED else made

    def _container(self, target: Any, path: str | None, request: Request) -> Any:
        """The same, but UNDEFINED if there is nothing below the target."""
        if is_array(target):
            return self._array(target, path, request)
        return self._object(target, path, request) if self._trees.is_object(target) else UNDEFINED

    def _object(self, target: dict[Any, Any], path: str | None, request: Request) -> Any:
        draft = _Draft(target)
        if self._notes is not None:
            self._notes.object_shapes(request.full(path), request.nodes(path))
        keys = request.keys(path)
        for key in keys:
            if isinstance(key, str):
                self._key(draft, key, join_path(path, key), request)
            else:
                self._key(draft, key, key_name(key), request.about(path, key, key_name(key)))
        self._delete_marked(draft, path, request)
        for key in request.below(draft.value, path, keys):
            draft.set(key, self.node(draft.value[key], join_path(path, key), request))
        return draft.finish(self.touched)

    def _delete_marked(self, draft: _Draft, path: str | None, request: Request) -> None:
        """Delete the keys that `updateElements` marks. They were updated to the mark before, and counted."""
        update = request.update.node(path)
        if not self._trees.is_object(update):
            return
        for key in [key for key, value in update.items() if is_delete(value) and key in draft.value]:
            if self._notes is not None:
                self._notes.unchecked("delete", request.full(join_path(path, key_name(key))), None)
            draft.remove(key)
            self.deletions += 1

    def _key(self, draft: _Draft, key: Any, path: str, request: Request) -> None:
        replace = request.replace.value(path)
        if replace is not UNDEFINED:
            self._replace(draft, key, path, replace, request)
            return
        remove = request.remove.value(path)
        if is_delete(remove):
            if self._denied("delete", "delete", path, draft.get(key), UNDEFINED, request):
                return
            draft.remove(key)
            self.deletions += 1
        new, update, old = request.new.value(path), request.update.value(path), draft.get(key)
        if old is UNDEFINED:
            if new is not UNDEFINED:
                self._add(draft, key, path, new, request)
            elif update is not UNDEFINED and self._add(draft, key, path, update, request):
                self.warnings.append(
                    f"Auto-corrected: '{key_name(key)}' was in updateElements but doesn't exist (treated as addition)"
                )
            return
        misplaced = update is UNDEFINED and new is not UNDEFINED and not self._is_merged(new, old)
        wanted = new if misplaced else update
        if wanted is not UNDEFINED:
            self._update(draft, key, path, wanted, misplaced, request)
        elif remove is not UNDEFINED or new is not UNDEFINED:
            # Parts of it are to be removed, items appended, or keys added.
            if self._notes is not None and new is None:
                self._notes.null_ignored(request.full(path))
            draft.set(key, self.node(old, path, request))

    def _replace(self, draft: _Draft, key: Any, path: str, value: Any, request: Request) -> None:
        old = draft.get(key)
        operation: Operation = "add" if old is UNDEFINED else "update"
        if self._denied("replace", operation, path, old, value, request):
            return
        if self._notes is not None:
            others = {REMOVE: request.remove, UPDATE: request.update, NEW: request.new}
            lost = [name for name, section in others.items() if section.value(path) is not UNDEFINED]
            self._notes.replaced(request.full(path), old, value, lost)
            self._notes.assigned(request.full(path), value)
        self.deletions += old is not UNDEFINED
        self.additions += 1
        draft.set(key, value)

    def _add(self, draft: _Draft, key: Any, path: str, value: Any, request: Request) -> bool:
        if self._denied("add", "add", path, UNDEFINED, value, request):
            return False
        if self._notes is not None and not is_delete(request.update.value(path)):
            self._notes.assigned(request.full(path), value)
        draft.set(key, value)
        self.additions += 1
        return True

    def _update(self, draft: _Draft, key: Any, path: str, value: Any, misplaced: bool, request: Request) -> None:
        old = draft.get(key)
        if self._denied("update", "update", path, old, value, request):
            return
        made = self._container(old, path, request) if self._trees.is_container(value) else UNDEFINED
        if made is not UNDEFINED:
            draft.set(key, made)
        else:
            if self._notes is not None and (misplaced or not is_delete(value)):
                self._notes.overwritten(request.full(path), old, value, misplaced)
                self._notes.assigned(request.full(path), value)
            draft.set(key, value)
            self.updates += 1
        if misplaced:
            self.warnings.append(
                f"Auto-corrected: '{key_name(key)}' was in newElements but already exists (treated as update)"
            )

    def _array(self, target: list[Any], path: str | None, request: Request) -> Any:
        remove, update, new = request.remove.node(path), request.update.node(path), request.new.node(path)
        if self._notes is not None:
            self._notes.array_shapes(request.full(path), len(target), request.nodes(path))
        inner = request.without_new()
        changed: dict[int, Any] = {}
        deleted: set[int] = set()
        for i in request.items(target, path):
            wanted = item(update, i, self._trees)
            if is_delete(item(remove, i, self._trees)) or is_delete(wanted):
                if self._notes is not None:
                    self._notes.unchecked("delete", request.full(join_path(path, str(i))), request.full(path))
                deleted.add(i)
                continue
            made = self._item(target[i], wanted, join_path(path, str(i)), inner)
            if not is_unchanged(target[i], made):
                changed[i] = made
        self.deletions += len(deleted)
        appended = [value for value in update[len(target) :] if is_significant(value)] if is_array(update) else []
        appended += [value for value in new if is_significant(value)] if is_array(new) else []
        self.additions += len(appended)
        if not (changed or deleted or appended):
            return target
        if self._notes is not None and appended:
            self._notes.unchecked("add", request.full(join_path(path, str(len(target)))), request.full(path))
            for i, value in enumerate(appended, len(target) - len(deleted)):
                self._notes.assigned(request.full(join_path(path, str(i))), value)
        if deleted:
            return [changed.get(i, value) for i, value in enumerate(target) if i not in deleted] + appended
        made = list(target)
        for i, value in changed.items():
            made[i] = value
        self.touched[id(made)] = (made, target, changed)
        made += appended
        return made

    def _item(self, old: Any, wanted: Any, path: str, request: Request) -> Any:
        if not is_significant(wanted):
            return self.node(old, path, request)
        if self._notes is not None:
            others = {REMOVE: request.remove.value(path), REPLACE: request.replace.value(path)}
            self._notes.lost_beside_update(request.full(path), others)
        if self._trees.is_object(wanted) and self._trees.is_object(old):
            return self._object(old, None, request.about_item(wanted, path))
        if self._notes is not None:
            self._notes.assigned(request.full(path), wanted)
        self.updates += 1
        return wanted

    def _denied(self, verb: str, operation: Operation, path: str, old: Any, wanted: Any, request: Request) -> bool:
        if self._permissions is None:
            return False
        full, path = request.full(path), request.permitted(path)
        allowed = self._permissions.allows(path, operation)
        if self._notes is not None:
            self._notes.decided(operation, path, full, allowed, wanted)
        if allowed:
            return False
        self.warnings.append(f"Operation denied: Cannot {verb} '{path}' - operation '{operation}' not allowed")
        operation_denied: dict[str, Any] = {"path": path, "operation": operation}
        if old is not UNDEFINED:
            operation_denied["from"] = old
        if wanted is not UNDEFINED:
            operation_denied["to"] = wanted
        self.blocked.append({**operation_denied, "reason": f"operation '{operation}' not allowed"})
        return True

    def _is_merged(self, new: Any, old: Any) -> bool:
        """Say whether a new value is merged into what is there: items appended, keys added. Null is an object too."""
        if is_array(old):
            return is_array(new)
        return (new is None or self._trees.is_object(new)) and self._trees.is_object(old)
