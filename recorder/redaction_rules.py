"""What a user says is a secret, beyond the built-in rules, and what is none."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from re import _parser  # type: ignore[attr-defined]  # the one parser of these expressions there is
from typing import Any, Final

from .errors import UsageError

_KIND: Final = re.compile(r"[a-z0-9][a-z0-9-]{0,39}")


@dataclass(frozen=True, slots=True)
class SecretPattern:
    """A user's own pattern: what `regex` matches in a text is a secret.

    A match of more than 1,024 characters is replaced in pieces: no search sees more than 2,048. Expressions in which
    a repeat holds another repeat, or alternatives, are refused, because a hostile text can make them run for ever.

    Attributes:
        name: the kind of the tokens: lower-case letters, digits and dashes.
        regex: for Python's `re`. With a group called "secret" only that group is replaced.
        needles: texts of which each match holds at least one, such as ("acme_",). Optional: without them, every value
            that is recorded is searched, and the fast way for values without secrets is lost.

    Raises:
        UsageError: the name or expression cannot be used.
    """

    name: str
    regex: str
    needles: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if _KIND.fullmatch(self.name) is None:
            raise UsageError(f"a pattern's name is up to 40 lower-case letters, digits and dashes, not {self.name!r}")
        try:
            compiled = re.compile(self.regex)
        except re.error as error:
            raise UsageError(f"the pattern {self.name!r} is no regular expression: {error}") from error
        if compiled.match("") is not None:
            raise UsageError(f"the pattern {self.name!r} matches the empty text")
        if _may_run_for_ever(self.regex):
            raise UsageError(
                f"the pattern {self.name!r} repeats without bound what itself repeats or branches; "
                "write the outer repeat as a possessive one, such as (…)*+"
            )
        if not all(self.needles):
            raise UsageError(f"the needles of the pattern {self.name!r} must be texts of at least one character")


@dataclass(frozen=True, slots=True)
class RedactionRules:
    """What is a secret beyond the built-in rules, and what is none.

    Attributes:
        keys: names of secrets, in any one spelling: "patient name" is also `patientName` and `OLD_PATIENT_NAME`. The
            longest word of a name had better be a rare one: it is looked for in all that is recorded.
        patterns: what secrets look like.
        allowed_keys: names that the built-in rules take for a secret and that are none here, in any one spelling;
            "token" allows that name only, not `access_token`.
        enabled: False lets everything through; see `off`.

    Raises:
        UsageError: a field has another type.
    """

    keys: tuple[str, ...] = ()
    patterns: tuple[SecretPattern, ...] = ()
    allowed_keys: tuple[str, ...] = ()
    enabled: bool = True

    def __post_init__(self) -> None:
        for name in ("keys", "patterns", "allowed_keys"):
            given = getattr(self, name)
            wanted = SecretPattern if name == "patterns" else str
            if isinstance(given, str) or not all(isinstance(item, wanted) and item for item in given):
                raise UsageError(f"{name} is a sequence of {wanted.__name__}, not {given!r}")
            object.__setattr__(self, name, tuple(given))

    @classmethod
    def off(cls) -> RedactionRules:
        """Return rules by which nothing is a secret: everything is stored as it is."""
        return cls(enabled=False)

    @classmethod
    def described(cls, description: Mapping[str, Any]) -> RedactionRules:
        """Return the rules by which a run was recorded, from what its `run.started` says of them.

        Raises:
            UsageError: it does not say it as we do.
        """
        if description.get("enabled") is False:
            return cls.off()
        try:
            patterns = [SecretPattern(name, regex, tuple(needles)) for name, regex, needles in description["own_looks"]]
            return cls(tuple(description["own_names"]), tuple(patterns), tuple(description["allowed_names"]))
        except (KeyError, TypeError, ValueError) as error:
            raise UsageError(f"these are no redaction rules of ours: {error!r}") from error


def _may_run_for_ever(regex: str) -> bool:
    """Say whether a repeat of an expression holds something that it could match in several ways."""
    todo: list[tuple[Any, bool]] = [(_parser.parse(regex), False)]
    while todo:
        part, repeated = todo.pop()
        if isinstance(part, _parser.SubPattern):
            todo.extend((item, repeated) for item in part.data)
        elif isinstance(part, tuple):
            name = str(part[0])
            varies = name in ("MAX_REPEAT", "MIN_REPEAT") and part[1][0] != part[1][1]
            if repeated and (varies or name == "BRANCH"):
                return True
            many = name in ("MAX_REPEAT", "MIN_REPEAT") and int(part[1][1]) > 8
            todo.extend((item, repeated or many) for item in part[1:])
        elif isinstance(part, list):
            todo.extend((item, repeated) for item in part)
    return False
