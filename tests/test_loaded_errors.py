"""Errors of the program's own classes and of libraries come back as themselves, without a declaration."""

from __future__ import annotations

import importlib
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import agentreplay as ar
import jsonpatch
import jsonpointer
import pytest
from agentreplay.recorder.errors import RecordedError
from agentreplay.recorder.events import ErrorInfo
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.recorder.verbatim import Opaque
from agentreplay.replay.loaded_errors import loaded_error
from answered import Refused, answers, recorded


class NotFound(Exception):
    """What a tool raises, and an agent catches."""


class Missing(LookupError):
    """An error of one's own that is a builtin one, too."""


class Outer:
    """Has an error within it."""

    class Inner(NotFound):
        """An error within a class."""


class Failed(Exception):
    """Like the errors of a client: with what cannot be stored."""

    def __init__(self, code: int, response: object) -> None:
        super().__init__(f"failed with {code}")
        self.code = code
        self.response = response


def played(catch: Callable[[], str], tell: Callable[[], str] | None = None) -> ar.ReplayResult:
    """Record an agent that returns what a function says, and replay that with another one, or the same."""

    def agent_of(body: Callable[[], str]) -> Any:
        @ar.agent("careful")
        def step(round_index: int, context: ar.Context) -> ar.Complete:
            return ar.Complete(body())

        return step

    store = MemoryStore()
    run = agent_of(catch).run({}, store=store).run
    return ar.replay(run.id, agent_of(tell or catch), store=store)


def test_code_that_catches_an_error_of_its_own_is_replayed() -> None:
    """The class is not declared anywhere; it is loaded, as it was while the run was recorded."""

    @ar.tool(safety="pure")
    def find() -> int:
        raise NotFound("x", 3)

    def catch() -> str:
        try:
            find()
        except NotFound as error:
            return f"caught {error.args}"
        return "found"

    assert played(catch).verdict == "identical"


def test_code_that_catches_an_error_of_a_library_is_replayed() -> None:
    """`except jsonpointer.JsonPointerException`, of a library that the agent imports."""

    @ar.tool(safety="pure")
    def find() -> Any:
        return jsonpointer.resolve_pointer({}, "/a")

    def catch() -> str:
        try:
            find()
        except jsonpointer.JsonPointerException as error:
            return str(error)
        return "found"

    assert played(catch).verdict == "identical"


def test_code_that_catches_a_builtin_error_is_replayed_with_one_of_its_subclasses() -> None:
    """`except LookupError` sees a subclass of it, of a wrapped function, also from a model and in a stream."""

    def missing() -> int:
        raise Missing("x")

    wrapped = ar.wrap(missing, kind="tool", safety="pure")

    @ar.model(name="ask")
    def ask() -> Iterator[str]:
        yield "a"
        raise Missing("y")

    def catch() -> str:
        said = []
        try:
            wrapped()
        except LookupError as error:
            said.append(str(error))
        try:
            said.extend(ask())
        except LookupError as error:
            said.append(type(error).__name__)
        return ", ".join(said)

    assert played(catch).verdict == "identical"


def test_the_name_of_a_caught_error_is_the_recorded_one() -> None:
    """Code that catches all and says which class it was says the same."""

    @ar.tool(safety="pure")
    def find() -> int:
        raise Outer.Inner("x")

    def catch() -> str:
        try:
            find()
        except Exception as error:
            return f"{type(error).__qualname__} {error}"
        return "found"

    assert played(catch).verdict == "identical"


def test_an_error_that_is_defined_in_a_function_comes_back() -> None:
    """It is found beside the function that raised it, where each call of a factory has a class of its own."""

    def factory() -> tuple[type[Exception], Callable[[], str]]:
        class Local(Exception):
            pass

        @ar.tool(safety="pure")
        def find() -> int:
            raise Local("x")

        def catch() -> str:
            try:
                find()
            except Local:
                return "caught"
            return "found"

        return Local, catch

    first, second = factory(), factory()
    assert first[0] is not second[0]
    assert played(first[1], first[1]).verdict == "identical"
    assert played(first[1], second[1]).verdict == "identical"
    assert played(second[1], first[1]).verdict == "identical"


def test_an_error_that_nothing_shows_but_its_base_is_found_by_its_name() -> None:
    """Libraries make classes as they go; the newest of that name is meant."""
    made = [type("MadeAsItGoes", (NotFound,), {"__module__": __name__}) for _ in range(2)]
    found = loaded_error(f"{__name__}:MadeAsItGoes")
    assert found is not None
    assert found.cls is made[1]


def test_of_an_undeclared_error_what_cannot_be_had_is_described() -> None:
    """The class and all else are exact, so that `except` sees it; where it is declared, all of it has to be."""
    error = Failed(429, object())
    back: Any = answers().error(recorded(error), "call c1")
    assert (type(back), back.args, back.code, str(back)) == (Failed, ("failed with 429",), 429, "failed with 429")
    assert isinstance(back.response, Opaque)
    assert back.response.cls == "builtins:object"
    again: Any = answers().error(recorded(ValueError("a")), "call c1")
    assert answers().lacks(recorded(error), back, "call c1") == (
        "call c1: of the test_loaded_errors:Failed that was raised only a description is known of "
        "a builtins:object (<object object at 0x…>) at '/state/response'"
    )
    assert answers().lacks(recorded(ValueError("a")), again, "call c1") is None


def test_a_divergence_says_how_an_unknown_error_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the class is gone, `except` does not see what stands for the error; the message has the remedy."""
    gone = ModuleType("gone_for_good")
    exec("class Vanished(Exception): pass", vars(gone))
    monkeypatch.setitem(sys.modules, "gone_for_good", gone)

    @ar.tool(safety="pure")
    def find() -> int:
        raise vars(gone)["Vanished"]("x")

    def catch() -> str:
        try:
            find()
        except Exception as error:
            return "a stand-in" if type(error) is RecordedError else "caught"
        return "found"

    def tell() -> str:
        vars(gone)["Vanished"].__module__ = "moved"
        return catch()

    with pytest.raises(ar.Divergence) as caught:
        played(catch, tell)
    told = str(caught.value)
    assert "give @ar.tool(raises=(Vanished,)), or call ar.register_type(Vanished) beforehand" in told
    assert "gone_for_good:Vanished" in told


# -- programs and files ------------------------------------------------------------------------------------------------

PROGRAM = """
import agentreplay as ar


class NotFound(Exception):
    pass


@ar.tool(safety="pure")
def find(order_id: str) -> dict:
    raise NotFound(order_id)


@ar.agent("shop")
def step(round_index: int, context: ar.Context):
    if round_index == 1:
        try:
            find("A-17")
        except NotFound as error:
            context.change(new={"missing": str(error)}, reason="looked")
        return ar.Continue()
    return ar.Complete("told")


if __name__ == "__main__":
    ar.export_run(step.run({"n": 1}).run.id, "shop.jsonl")
"""


@pytest.fixture
def shop(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """A program in a file of its own, recorded as a script, and imported here."""
    (tmp_path / "shop_of_errors.py").write_text(PROGRAM)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("AGENTREPLAY_STORE", str(tmp_path / "runs.db"))
    subprocess.run([sys.executable, "shop_of_errors.py"], check=True)
    yield importlib.import_module("shop_of_errors")
    sys.modules.pop("shop_of_errors", None)


def test_an_error_of_a_script_is_known_where_the_script_is_imported(shop: Any) -> None:
    """It was `__main__.NotFound`; a cassette, a store and a re-run of the run are answered all the same."""
    assert "__main__:NotFound" in Path("shop.jsonl").read_text()
    ar.assert_replays("shop.jsonl", shop.step)
    assert ar.replay("@last", shop.step).verdict == "identical"
    rerun = ar.rerun("@last", shop.step, step=2)
    assert rerun.value == "told"


def test_an_error_is_known_to_the_command_that_replays_files(shop: Any) -> None:
    """`agentreplay replay shop.jsonl --app shop_of_errors.py:step`, in a process of its own."""
    command = [sys.executable, "-m", "agentreplay", "replay", "shop.jsonl", "--app", "shop_of_errors.py:step"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert (done.returncode, "identical" in done.stdout) == (0, True), done.stdout + done.stderr


# -- what a file may not do --------------------------------------------------------------------------------------------

RAN: list[str] = []


class Hostile(Exception):
    """Each way of making, copying or comparing it does something."""

    def __new__(cls, *args: Any) -> Hostile:
        RAN.append("new")
        return super().__new__(cls, *args)

    def __init__(self, *args: Any) -> None:
        RAN.append("init")

    def __setstate__(self, state: Any) -> None:
        RAN.append("setstate")

    def __reduce__(self) -> Any:
        RAN.append("reduce")
        return (Hostile, ())

    def __setattr__(self, name: str, value: Any) -> None:
        RAN.append(f"setattr {name}")

    def __getattribute__(self, name: str) -> Any:
        RAN.append(f"get {name}")
        return super().__getattribute__(name)

    def __eq__(self, other: object) -> bool:
        RAN.append("eq")
        return True

    def __hash__(self) -> int:
        RAN.append("hash")
        return 1


class Failing(subprocess.CalledProcessError):
    """A subclass of an error that takes a command."""

    def __init__(self, *args: Any) -> None:
        RAN.append("init of a command")


class Leaving(Exception):
    """Does something when it goes."""

    def __del__(self) -> None:
        RAN.append("del")


class Stops(BaseException):
    """No error."""


class Verdict(ar.AgentReplayError):
    """What only the replay says."""


class Meta(type):
    """A class of classes with opinions."""

    def __call__(cls, *args: Any) -> Any:
        RAN.append("call")
        return super().__call__(*args)

    def __getattribute__(cls, name: str) -> Any:
        RAN.append(f"class get {name}")
        return super().__getattribute__(name)

    def __subclasses__(cls) -> Any:
        RAN.append("subclasses")
        return []


class Opinionated(Exception, metaclass=Meta):
    """Of that class."""


def error_of(name: str, **fields: Any) -> BaseException:
    tag = {"$type": "exception", "class": name, "args": ["true"], "state": {"cmd": "true"}, **fields}
    return answers().error(ErrorInfo(type=name.replace(":", "."), message="m", value=tag), "call c1")


@pytest.mark.parametrize("cls", [Hostile, Failing, Opinionated])
def test_no_code_of_a_class_that_a_file_names_runs(cls: type[Exception]) -> None:
    """Not its constructors, nor what copies it, nor what sets attributes."""
    RAN.clear()
    cause = {"$type": "exception", "class": "builtins:ValueError", "args": []}
    name = f"{__name__}:{type.__dict__['__qualname__'].__get__(cls)}"
    back = error_of(name, cause=cause, suppress_context=True)
    assert RAN == []
    assert type(back) is cls
    assert BaseException.__dict__["args"].__get__(back) == ("true",)
    assert type(BaseException.__dict__["__cause__"].__get__(back)) is ValueError


@pytest.mark.parametrize(
    "name",
    [
        "os:system",
        "builtins:eval",
        "subprocess:Popen",
        f"{__name__}:Leaving",
        f"{__name__}:Stops",
        f"{__name__}:Verdict",
        f"{__name__}:subprocess.CalledProcessError",
        f"{__name__}:NotFound.__class__",
        f"{__name__}:jsonpatch.JsonPatchException",
        "agentreplay:Divergence",
        "agentreplay.recorder.errors:Divergence",
        "antigravity:Thing",
        "this_is_not_there:Error",
        ":",
        "",
        "a.b.c",
    ],
)
def test_a_name_in_a_file_leads_to_nothing_but_loaded_errors(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither functions, nor other classes, nor errors by another name than their own; and nothing is imported."""
    assert jsonpatch.JsonPatchException is not None
    RAN.clear()
    loaded = set(sys.modules)
    monkeypatch.setattr("os.system", RAN.append)
    back = error_of(name)
    assert type(back) is RecordedError
    assert (RAN, set(sys.modules) - loaded) == ([], set())


def test_a_module_that_is_loaded_when_it_is_used_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """Not even looking at what is in it may run code of its own."""

    class Lazy(ModuleType):
        def __getattribute__(self, name: str) -> Any:
            RAN.append(name)
            return super().__getattribute__(name)

    lazy = Lazy("lazy_module")
    monkeypatch.setitem(sys.modules, "lazy_module", lazy)
    RAN.clear()
    assert loaded_error("lazy_module:Error") is None
    assert RAN == []


def test_only_errors_are_looked_for_among_what_is_loaded() -> None:
    """Any other tag with the name of a loaded error is of a class that nobody declared."""
    for kind in ("dataclass", "object", "enum", "class", "subclass", "registered", "model", "namedtuple"):
        tag = {"$type": kind, "class": f"{__name__}:Hostile", "fields": {}, "state": {}, "name": "a", "value": "x"}
        tag |= {"fields_set": [], "args": []}
        RAN.clear()
        with pytest.raises(ar.UnknownType):
            answers().value([json.loads(json.dumps(tag))], "call c1")
        assert RAN == []


def test_a_declared_error_is_exact_or_stops_the_replay() -> None:
    """Who declares a class relies on what it holds."""
    with pytest.raises(ar.LossyAnswer):
        answers(raises=(Failed,)).error(recorded(Failed(1, object())), "call c1")
    assert type(answers().error(recorded(Refused(7, key=object())), "call c1")) is Refused  # type: ignore[arg-type]
