"""What stands in for the functions that read the clock, chance, UUIDs and the environment.

Each stands in for one function: it asks whether this read is captured, and if it is not, calls the function as it is.
What is recorded is what was drawn, and no more: of `random.choice` the position and not the item, which in a replay is
the item of the list there is then; of `random.shuffle` the order; of `datetime.now(tz)` the moment. The rest is worked
out again, in the same way while recording and while replaying.

Where one function is made of others, the lowest is stood in for, so that it does not matter how the others are called:
`uuid.uuid4`, `secrets` and `random.SystemRandom` all come down to `os.urandom`, and each way to ask the environment to
the dict that `os.environ` keeps. A `random.Random()` that is made without a seed gets one that is recorded, and
what it draws follows; of a generator that was there before the run, each draw is recorded.

Not seen is what holds a function itself and is neither a name in a module nor an attribute: a default of a parameter,
or the factory of a field, such as `field(default_factory=time.time)`.
"""

from __future__ import annotations

import functools
import os
import random
import secrets
import sys
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, MutableMapping, Sequence
from datetime import UTC, date, datetime, tzinfo
from functools import partial
from typing import Any, Final, NamedTuple

from .ambient_asking import asked, asking, capturing
from .ambient_frames import seen_from
from .binding import binder

Function = Callable[..., Any]

_binder = functools.cache(binder)


class Patch(NamedTuple):
    """One function, and what stands in for it.

    Attributes:
        owner: the module, class or object that has it.
        name: under which it has it.
        stand_in: makes what stands in for it, from what the owner has there.
    """

    owner: Any
    name: str
    stand_in: Callable[[Any], Any]


def _as(original: Any, owner: Any, name: str) -> Callable[[Function], Function]:
    """Have a stand-in look like what it stands in for, so that it is shown and pickled under the same name."""

    def dress(function: Function) -> Function:
        functools.update_wrapper(function, original)
        function.__module__ = getattr(owner, "__module__", owner.__name__)
        function.__name__ = name
        if owner in (time, random, uuid, os):  # and not a class
            function.__qualname__ = name
        return function

    return dress


def _result(owner: Any, name: str, source: str) -> Patch:
    """A function whose result is recorded; of chance, with its arguments, if it has any."""
    what = f"{owner.__name__}.{name}"

    def stand_in(original: Function) -> Function:
        bind = _binder(original) if source == "random" and name != "random" else None

        @_as(original, owner, name)
        def read(*args: Any, **kwargs: Any) -> Any:
            asks = asked(source)
            if asks is None:
                return original(*args, **kwargs)
            return asks.read(what, partial(original, *args, **kwargs), bind and bind(args, kwargs))

        return read

    return Patch(owner, name, stand_in)


# -- the clock ----------------------------------------------------------------------------------------


def _of_moment(name: str, *defaults: tuple[Any, ...], at: int = 0, of: Callable[[float], Any] = float) -> Patch:
    """A function of `time` that takes a moment, and else uses the present one.

    Args:
        defaults: what stands where the moment does, and to the end, if the present one is meant.
        at: which of its arguments the moment is.
        of: makes the argument from seconds since 1970.
    """

    def stand_in(original: Function) -> Function:
        @_as(original, time, name)
        def of_moment(*args: Any) -> Any:
            if len(args) < at or args[at:] not in defaults or (asks := asked("clock")) is None:
                return original(*args)
            return original(*args[:at], of(asks.read(f"time.{name}", lambda: time.time())))

        return of_moment

    return Patch(time, name, stand_in)


def _now(original: Any) -> Any:
    @_as(original, datetime, "now")
    def now(cls: type[datetime], tz: Any = None) -> Any:
        asks = asked("clock")
        if asks is None or not (tz is None or isinstance(tz, tzinfo)):
            return original.__get__(None, cls)(tz)
        if tz is None:
            return _local(cls, asks.read("datetime.now", original.__get__(None, datetime)))
        moment = asks.read("datetime.now(tz)", lambda: original.__get__(None, datetime)(UTC))
        return tz.fromutc(cls.combine(moment.date(), moment.time(), tz))

    return classmethod(now)


def _utcnow(original: Any) -> Any:
    @_as(original, datetime, "utcnow")
    def utcnow(cls: type[datetime]) -> Any:
        asks = asked("clock")
        if asks is None:
            return original.__get__(None, cls)()
        return _local(cls, asks.read("datetime.utcnow", original.__get__(None, datetime)))

    return classmethod(utcnow)


def _today(original: Any) -> Any:
    @_as(original, date, "today")
    def today(cls: type[date]) -> Any:
        asks = asked("clock")
        if asks is None:
            return original.__get__(None, cls)()
        if issubclass(cls, datetime):
            return _local(cls, asks.read("datetime.today", original.__get__(None, datetime)))
        return cls.fromordinal(asks.read("date.today", original.__get__(None, date)).toordinal())

    return classmethod(today)


def _local(cls: type[datetime], moment: datetime) -> datetime:
    return cls.combine(moment.date(), moment.time())


_CLOCK: Final = (
    _result(time, "time", "clock"),
    _result(time, "time_ns", "clock"),
    _of_moment("localtime", (), (None,)),
    _of_moment("gmtime", (), (None,)),
    _of_moment("ctime", (), (None,)),
    _of_moment("asctime", (), of=time.localtime),
    _of_moment("strftime", (), at=1, of=time.localtime),
    Patch(datetime, "now", _now),
    Patch(datetime, "utcnow", _utcnow),
    Patch(date, "today", _today),
)


# -- chance -------------------------------------------------------------------------------------------


def _choice(original: Function) -> Function:
    @_as(original, random, "choice")
    def choice(seq: Any) -> Any:
        asks = asked("random")
        if asks is None:
            return original(seq)
        return seq[asks.read("random.choice", lambda: original(range(len(seq))), {"items": len(seq)})]

    return choice


def _choices(original: Function) -> Function:
    @_as(original, random, "choices")
    def choices(population: Any, weights: Any = None, *, cum_weights: Any = None, k: int = 1) -> Any:
        draw = partial(original, weights=weights, cum_weights=cum_weights, k=k)
        asks = asked("random")
        if asks is None:
            return draw(population)
        given = {"items": len(population), "weights": weights, "cum_weights": cum_weights, "k": k}
        return [population[at] for at in asks.read("random.choices", lambda: draw(range(len(population))), given)]

    return choices


def _sample(original: Function) -> Function:
    @_as(original, random, "sample")
    def sample(population: Any, k: int, *, counts: Any = None) -> Any:
        asks = asked("random") if isinstance(population, Sequence) else None
        if asks is None:
            return original(population, k, counts=counts)
        draw = partial(original, range(len(population)), k, counts=counts)
        given = {"items": len(population), "k": k, "counts": counts}
        return [population[at] for at in asks.read("random.sample", draw, given)]

    return sample


def _shuffle(original: Function) -> Function:
    @_as(original, random, "shuffle")
    def shuffle(x: Any) -> None:
        asks = asked("random")
        if asks is None:
            original(x)
            return

        def draw() -> list[int]:
            order = list(range(len(x)))
            original(order)
            return order

        _put_in_order(x, asks.read("random.shuffle", draw, {"items": len(x)}))

    return shuffle


def _put_in_order(items: Any, order: list[int]) -> None:
    """Swap items until they are in an order, in the swaps that a shuffle makes.

    Args:
        items: anything that has items by number.
        order: where each of them is at first.
    """
    at = list(range(len(order)))
    where = list(at)  # each item that was at first at a place is now
    for i in reversed(range(1, len(order))):
        j = where[order[i]]
        items[i], items[j] = items[j], items[i]
        at[i], at[j] = at[j], at[i]
        where[at[i]], where[at[j]] = i, j


_RANDOM_FILE: Final = random.Random.choice.__code__.co_filename
_ASKING_A_GENERATOR: Final = frozenset((_RANDOM_FILE,))


def _seed(original: Function) -> Function:
    @_as(original, random.Random, "seed")
    def seed(self: random.Random, a: Any = None, version: int = 2) -> None:
        if a is None and (asks := asked("random", _ASKING_A_GENERATOR)) is not None:
            a = asks.read("random.Random", lambda: int.from_bytes(os.urandom(32)))
        original(self, a, version)
        if a is not None and (recorder := capturing("random")) is not None and recorder.captured is not None:
            recorder.captured.seeded[id(self)] = self

    return seed


def _draw(name: str) -> Patch:
    """A method with which generators draw, those that were there before the run."""

    def stand_in(original: Function) -> Function:
        @_as(original, random.Random, name)
        def draw(self: random.Random, *args: Any) -> Any:
            recorder = capturing("random")
            if recorder is None or recorder.captured is None or recorder.captured.seeded.get(id(self)) is self:
                return original(self, *args)
            asks = asked("random", _ASKING_A_GENERATOR)
            if asks is None:
                return original(self, *args)
            given = {"k": args[0]} if args else None
            return asks.read(f"Random.{name}", partial(original, self, *args), given)

        return draw

    return Patch(random.Random, name, stand_in)


_SELF_MADE: Final = ("Random", "SystemRandom", "seed", "getstate", "setstate", "choice", "choices", "sample", "shuffle")

_RANDOM: Final = (
    *(_result(random, name, "random") for name in random.__all__ if name not in _SELF_MADE),
    Patch(random, "choice", _choice),
    Patch(random, "choices", _choices),
    Patch(random, "sample", _sample),
    Patch(random, "shuffle", _shuffle),
    Patch(random.Random, "seed", _seed),
    _draw("random"),
    _draw("getrandbits"),
)


# -- bytes of the system's, and what is made of them ----------------------------------------------------

_UUID_FILE: Final = uuid.uuid4.__code__.co_filename
_NAMES: Final = {
    _UUID_FILE: "uuid.",
    secrets.token_bytes.__code__.co_filename: "secrets.",
    _RANDOM_FILE: "random.SystemRandom.",
}
_ASKING_THE_SYSTEM: Final = frozenset(_NAMES)


def _urandom(original: Function) -> Function:
    @_as(original, os, "urandom")
    def urandom(size: int, /) -> Any:
        recorder = capturing("random", "uuid")
        if recorder is None or recorder.captured is None:
            return original(size)
        whose, frame, last = seen_from(sys._getframe(1), _ASKING_THE_SYSTEM, recorder.captured.home)
        file = None if last is None else last.f_code.co_filename
        asks = asking(recorder, "uuid" if file == _UUID_FILE else "random", whose, frame)
        if asks is None:
            return original(size)
        what = "os.urandom" if last is None or file is None else f"{_NAMES[file]}{last.f_code.co_name}"
        if what == "uuid.uuid4":  # people look for the UUID, which is made of these bytes and makes them again
            return asks.read(what, lambda: uuid.UUID(bytes=original(size), version=4)).bytes
        return asks.read(what, lambda: original(size), {"size": size})

    return urandom


_SYSTEM: Final = (Patch(os, "urandom", _urandom), Patch(random, "_urandom", _urandom))

_UUID: Final = tuple(
    _result(uuid, name, "uuid") for name in ("uuid1", "uuid6", "uuid7", "uuid8") if hasattr(uuid, name)
)


# -- the environment ------------------------------------------------------------------------------------

_ASKING_ENVIRON: Final = frozenset((os.getenv.__code__.co_filename, Mapping.get.__code__.co_filename))


class Variables(MutableMapping[Any, Any]):
    """What stands in for the dict in which `os.environ` keeps the variables, encoded as the system has them."""

    def __init__(self, variables: MutableMapping[Any, Any]) -> None:
        self._variables = variables

    def __getitem__(self, key: Any) -> Any:
        asks = asked("env", _ASKING_ENVIRON)
        if asks is None:
            return self._variables[key]
        environ: Any = os.environ
        name = environ.decodekey(key)

        def read() -> dict[str, str | None]:
            return {name: environ.decodevalue(self._variables[key]) if key in self._variables else None}

        # Under its name, since by that it is seen whether it is a secret.
        value = asks.read(name, read)[name]
        if value is None:
            raise KeyError(key)
        return environ.encodevalue(value)

    def __iter__(self) -> Iterator[Any]:
        asks = asked("env", _ASKING_ENVIRON)
        if asks is None:
            return iter(self._variables)
        environ: Any = os.environ
        names = asks.read("os.environ", lambda: [environ.decodekey(key) for key in self._variables])
        return iter([environ.encodekey(name) for name in names])

    def __len__(self) -> int:
        return len(self._variables)

    def __setitem__(self, key: Any, value: Any) -> None:
        self._variables[key] = value

    def __delitem__(self, key: Any) -> None:
        del self._variables[key]


# In place of a method of its class: where the interpreter has learnt which method `[]` calls, it may not look again.
_ENV: Final = (Patch(os.environ, "_data", Variables),)


PATCHES: Final[Mapping[str, tuple[Patch, ...]]] = {
    "clock": _CLOCK,
    "env": _ENV,
    "random": _RANDOM,
    "system": _SYSTEM,
    "uuid": _UUID,
}
"""What is stood in for, in groups."""

GROUPS: Final[Mapping[str, tuple[str, ...]]] = {
    "clock": ("clock",),
    "env": ("env",),
    "random": ("random", "system"),
    "uuid": ("uuid", "system"),
}
"""The groups that each source needs."""
