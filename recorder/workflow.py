"""What a workflow is: nodes that change a state, and routes from each to the next, or to the result.

A node is a function of the state that gives what it changes of it. Its routes say what comes then, the first that holds
counts: another node, or `deliver`, which ends the run with a key of the state. Most nodes follow each other within one
round; one that starts a round begins the next, so a workflow that goes in circles is a loop, bounded like any other.

Here it is only defined and checked: that every route leads somewhere, every node can be reached and can come to an
end, and no circle is without a node that starts a round. `engine` runs it.
"""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches
from types import MappingProxyType
from typing import Any, Final, Generic, TypeAlias, TypeVar, overload

from .context import Context
from .errors import UsageError
from .loop import Agent

State = TypeVar("State", bound=Mapping[str, Any])
Changes: TypeAlias = Mapping[str, Any] | None
"""What a node changes: some keys of the state, with their new values; None for nothing."""

Run: TypeAlias = (
    Callable[[State], Changes | Awaitable[Changes]] | Callable[[State, Context], Changes | Awaitable[Changes]]
)
"""What a node does."""

When: TypeAlias = Callable[[Any], object]
"""Whether a route holds, from the state after the node's changes."""


@dataclass(frozen=True, slots=True)
class Route:
    """Where a node leads. Made by `to` and `deliver`.

    Attributes:
        target: id of the next node; None of a route that delivers.
        key: of the state, which is delivered; None of a route to a node.
        when: whether it holds, of the state; None always does.
    """

    target: str | None = None
    key: str | None = None
    when: When | None = None

    @classmethod
    def to(cls, node: str, *, when: When | None = None) -> Route:
        """Go on to a node, named by its id; `when(state)` says whether this route is taken."""
        return cls(target=_text(node, "route.to() takes the id of a node"), when=_condition(when))

    @classmethod
    def deliver(cls, key: str, *, when: When | None = None) -> Route:
        """End the run, its value being this key of the state; `when(state)` says whether this route is taken."""
        return cls(key=_text(key, "route.deliver() takes a key of the state"), when=_condition(when))

    def __str__(self) -> str:
        return f"the route to {self.target!r}" if self.key is None else f"the route that delivers {self.key!r}"


route: Final = Route


@dataclass(frozen=True, slots=True)
class Node(Generic[State]):
    """One node of a workflow; calling it calls what it does.

    Attributes:
        id: what routes call it.
        run: `run(state)` or `run(state, context)`; gives the changes, or an awaitable of them.
        routes: where it leads; the first that holds is taken.
        description: what it does, for people.
        starts_round: whether it begins the next round when it is come to.
        takes_context: whether `run` takes the context, too.
    """

    id: str
    run: Callable[..., Any]
    routes: tuple[Route, ...]
    description: str | None = None
    starts_round: bool = False
    takes_context: bool = field(default=False, kw_only=True)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the node does, by itself."""
        return self.run(*args, **kwargs)


@overload
def node(
    id: str,
    run: Run[State],
    *,
    routes: Sequence[Route],
    description: str | None = ...,
    starts_round: bool = ...,
) -> Node[State]: ...


@overload
def node(
    id: str,
    *,
    routes: Sequence[Route],
    description: str | None = ...,
    starts_round: bool = ...,
) -> Callable[[Run[State]], Node[State]]: ...


def node(
    id: str,
    run: Run[Any] | None = None,
    *,
    routes: Sequence[Route] = (),
    description: str | None = None,
    starts_round: bool = False,
) -> Any:
    """Make a node of a workflow: `node("draft", run=draft, routes=[…])`, or `@node("draft", routes=[…])`.

    Args:
        id: what routes call it.
        run: `run(state)`, or `run(state, context)`; a plain function or a coroutine function. The state is read only.
            What it returns are the keys of the state that change, with their new values; None or {} for none.
        routes: where it leads: `route.to(…)` and `route.deliver(…)`; the first that holds is taken.
        description: what it does, for people; by default the first line of the function's docstring.
        starts_round: whether it begins the next round when it is come to.

    Raises:
        UsageError: one of these is none.
    """

    def made(run: Callable[..., Any]) -> Node[Any]:
        where = f"node {id!r}"
        takes_context = _takes_context(run, where)
        given = tuple(routes) if isinstance(routes, list | tuple) else (routes,)
        if wrong := [one for one in given if not isinstance(one, Route)]:
            raise UsageError(
                f"{where}: its routes are a list of ar.route.to(…) and ar.route.deliver(…), not {wrong[0]!r}"
            )
        told = description or next(iter((inspect.getdoc(run) or "").splitlines()), None)
        return Node(id, run, given, told, bool(starts_round), takes_context=takes_context)

    _text(id, "a node has an id")
    return made if run is None else made(run)


_FIELDS: Final = ("id", "run", "routes", "description", "starts_round")


@dataclass(frozen=True, slots=True)
class Workflow(Generic[State]):
    """Nodes and the routes between them. Made by `define_workflow`.

    Attributes:
        id: its name, which its runs have unless their engine has another.
        nodes: by id, in the order in which they were given; the first one begins.
    """

    id: str
    nodes: Mapping[str, Node[State]]

    @property
    def first(self) -> Node[State]:
        """The node with which a run begins."""
        return next(iter(self.nodes.values()))


@overload
def define_workflow(id: str, nodes: Iterable[Node[State]]) -> Workflow[State]: ...


@overload
def define_workflow(id: str, nodes: Iterable[Node[Any] | Mapping[str, Any]]) -> Workflow[Any]: ...


def define_workflow(id: str, nodes: Iterable[Any]) -> Workflow[Any]:
    """Define a workflow.

    Args:
        id: its name.
        nodes: in any order but for the first, with which a run begins; each made by `node`, or a dict of its arguments.

    Raises:
        UsageError: two nodes have one id, a route leads to a node that is not there or can never be taken, a node has
            no route, cannot be reached, or cannot come to a route that delivers, or nodes lead in a circle without one
            that starts a round. The message names the node and says what to do.
    """
    where = f"workflow {_text(id, 'a workflow has an id')!r}"
    made: dict[str, Node[Any]] = {}
    for number, one in enumerate(nodes, 1):
        each = _node_of(one, f"{where}, node {number}")
        if each.id in made:
            raise UsageError(f"{where}: two nodes have the id {each.id!r}; give one of them another")
        made[each.id] = each
    if not made:
        raise UsageError(f"{where} has no nodes; it needs one at least, ar.node(…)")
    _check_routes(made, where)
    _check_ways(made, where)
    return Workflow(id, MappingProxyType(made))


# -- checking one node -----------------------------------------------------------------------------------


def _text(value: Any, what: str) -> str:
    if not isinstance(value, str) or not value:
        raise UsageError(f"{what}, a text, not {value!r}")
    return value


def _condition(when: Any) -> When | None:
    if when is None:
        return None
    if not callable(when) or inspect.iscoroutinefunction(when):
        raise UsageError(f"when= is a plain function of the state that says whether the route holds, not {when!r}")
    condition: When = when
    return condition


def _takes_context(run: Any, where: str) -> bool:
    """Whether what a node does takes the context beside the state."""
    if isinstance(run, Agent):
        raise UsageError(
            f"{where}: {run.name} is an agent; have a function run it, context.run_agent({run.name}, …), and give what "
            "it changes"
        )
    if not callable(run):
        raise UsageError(f"{where}: run is a function of the state, or of the state and the context, not {run!r}")
    try:
        parameters = list(inspect.signature(run).parameters.values())
    except (TypeError, ValueError):  # a builtin that says nothing of itself
        return False
    by_place = [one for one in parameters if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = len([one for one in by_place if one.default is one.empty])
    any_number = any(one.kind is one.VAR_POSITIONAL for one in parameters)
    by_name = [one.name for one in parameters if one.kind is one.KEYWORD_ONLY and one.default is one.empty]
    if by_name or needed > _MOST_ARGUMENTS or not (by_place or any_number):
        raise UsageError(f"{where}: run takes the state, or the state and the context, and nothing else that it needs")
    return needed == _MOST_ARGUMENTS or [one.name for one in by_place[1:2]] == ["context"]


_MOST_ARGUMENTS: Final = 2


def _node_of(given: Any, where: str) -> Node[Any]:
    if isinstance(given, Node):
        return given
    if isinstance(given, Mapping):
        if unknown := [name for name in given if name not in _FIELDS]:
            raise UsageError(f"{where}: there is no {unknown[0]!r} in a node; it has {', '.join(_FIELDS)}")
        if missing := [name for name in ("id", "run") if name not in given]:
            raise UsageError(f"{where}: a node needs {' and '.join(missing)}")
        return node(**given)
    raise UsageError(
        f"{where} is {given!r}; a node is what ar.node(…) makes, with run= or above a function, or a dict of the same"
    )


# -- checking the ways between them ----------------------------------------------------------------------


def _check_routes(nodes: Mapping[str, Node[Any]], where: str) -> None:
    for one in nodes.values():
        here = f"{where}, node {one.id!r}"
        if not one.routes:
            raise UsageError(f"{here} has no routes: say what comes next, ar.route.to(…), or ar.route.deliver(…)")
        for each in one.routes:
            if each.target is not None and each.target not in nodes:
                near = get_close_matches(each.target, nodes, 1)
                meant = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(map(repr, nodes))}"
                raise UsageError(f"{here}: there is no node {each.target!r} to go to; {meant}")
        open_end = next((at for at, each in enumerate(one.routes) if each.when is None), len(one.routes))
        if behind := one.routes[open_end + 1 :]:
            raise UsageError(
                f"{here}: {behind[0]} can never be taken, since {one.routes[open_end]} stands before it and always "
                "holds; give that a condition, when=, or put it last"
            )


def _check_ways(nodes: Mapping[str, Node[Any]], where: str) -> None:
    ahead = {one.id: [each.target for each in one.routes if each.target is not None] for one in nodes.values()}
    first = next(iter(nodes))
    reached = _reached([first], ahead)
    for one in nodes:
        if one not in reached:
            raise UsageError(
                f"{where}: node {one!r} can never be reached from {first!r}, which comes first; lead a route to it, or "
                "leave it out"
            )
    back: dict[str, list[str]] = {one: [] for one in nodes}
    for source, targets in ahead.items():
        for target in targets:
            back[target].append(source)
    ends = _reached([one.id for one in nodes.values() if any(each.key is not None for each in one.routes)], back)
    for one in nodes:
        if one not in ends:
            raise UsageError(
                f"{where}: from node {one!r} no route that delivers can be reached, so the run could never complete; "
                "give it or one that follows ar.route.deliver(…)"
            )
    within = {source: [one for one in targets if not nodes[one].starts_round] for source, targets in ahead.items()}
    if circle := _circle(within):
        raise UsageError(
            f"{where}: {' → '.join(circle)} is a circle within one round, which nothing bounds; let one of these nodes "
            "begin a round, starts_round=True"
        )


def _reached(start: Iterable[str], ways: Mapping[str, Sequence[str]]) -> set[str]:
    found = set(start)
    todo = list(found)
    while todo:
        new = [one for one in ways[todo.pop()] if one not in found]
        found.update(new)
        todo += new
    return found


def _circle(ways: Mapping[str, Sequence[str]]) -> list[str]:
    """A circle in the ways, its first node at its end once more; empty if there is none."""
    done: set[str] = set()
    for start in ways:
        path: dict[str, None] = {}
        todo = [(start, False)]
        while todo:
            one, left = todo.pop()
            if left:
                del path[one]
                done.add(one)
            elif one in path:
                along = list(path)
                return [*along[along.index(one) :], one]
            elif one not in done:
                path[one] = None
                todo += [(one, True), *((target, False) for target in ways[one])]
    return []
