"""What a workflow is, and what is refused where it is defined."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.recorder.memory_store import MemoryStore
from hypothesis import given
from hypothesis import strategies as st

State = dict[str, Any]


def nothing(state: State) -> None:
    """Change nothing.

    At all.
    """


def always(state: State) -> bool:
    return True


def node(id: str, *routes: ar.Route, starts_round: bool = False) -> ar.Node[State]:
    return ar.node(id, run=nothing, routes=routes, starts_round=starts_round)


TO, DELIVER = ar.route.to, ar.route.deliver


# -- nodes -------------------------------------------------------------------------------------------------------------


def test_a_node_is_made_by_a_call_or_above_a_function() -> None:
    """Both say the same; a node can be called, as the function that it is; it is described by its docstring."""
    called = ar.node("draft", run=nothing, routes=[DELIVER("text")])

    @ar.node("draft", routes=[DELIVER("text")], description="writes", starts_round=True)
    def draft(state: State) -> State:
        return {"text": state["topic"]}

    assert (called.id, called.routes, called.description) == ("draft", (DELIVER("text"),), "Change nothing.")
    assert (called.starts_round, called.takes_context) == (False, False)
    assert (draft.id, draft.routes, draft.description, draft.starts_round) == (
        "draft",
        (DELIVER("text"),),
        "writes",
        True,
    )
    assert draft({"topic": "tea"}) == {"text": "tea"}


def test_a_node_may_be_a_dict_of_its_arguments() -> None:
    """The same names, the same node."""
    made = ar.define_workflow("w", [{"id": "a", "run": nothing, "routes": [DELIVER("x")], "starts_round": True}])
    assert made.first == node("a", DELIVER("x"), starts_round=True)
    assert (made.id, list(made.nodes)) == ("w", ["a"])


class Callable_:
    def __call__(self, state: State, context: Any) -> None: ...


@pytest.mark.parametrize(
    ("run", "takes_context"),
    [
        (lambda state: None, False),
        (lambda state, context: None, True),
        (lambda state, context=None: None, True),
        (lambda state, limit=3: None, False),
        (lambda *state: None, False),
        (functools.partial(lambda limit, state: None, 3), False),
        (Callable_(), True),
        (dict, False),
    ],
)
def test_a_node_is_given_the_context_if_it_takes_one(run: Any, takes_context: bool) -> None:
    """A second argument that it needs, or that is called context."""
    assert ar.node("a", run=run, routes=[DELIVER("x")]).takes_context is takes_context


@ar.agent("helper")
def helper(i: int, context: ar.Context) -> ar.Complete[int]:
    return ar.Complete(1)


async def asks(state: State) -> bool:
    return True


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ar.node("", run=nothing), "a node has an id, a text, not ''"),
        (
            lambda: ar.node("a", run=3),
            "node 'a': run is a function of the state, or of the state and the context, not 3",
        ),
        (lambda: ar.node("a", run=lambda: None), "node 'a': run takes the state, or the state and the context"),
        (lambda: ar.node("a", run=lambda x, y, z: None), "node 'a': run takes the state, or the state and the context"),
        (lambda: ar.node("a", run=lambda x, *, y: None), "node 'a': run takes the state, or the state and the context"),
        (lambda: ar.node("a", run=helper), r"node 'a': helper is an agent; .* context.run_agent\(helper, …\)"),
        (lambda: ar.node("a", run=nothing, routes=["b"]), r"node 'a': its routes are .*, not 'b'"),
        (lambda: TO(""), r"route.to\(\) takes the id of a node, a text, not ''"),
        (lambda: DELIVER(3), r"route.deliver\(\) takes a key of the state, a text, not 3"),
        (lambda: TO("a", when=3), "when= is a plain function of the state"),
        (lambda: TO("a", when=asks), "when= is a plain function of the state"),
    ],
)
def test_what_is_no_node_and_no_route_is_refused(make: Any, message: str) -> None:
    """At once, with its name."""
    with pytest.raises(ar.UsageError, match=message):
        make()


# -- workflows ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ([], "workflow 'w' has no nodes; it needs one at least"),
        ([3], "workflow 'w', node 1 is 3; a node is what ar.node"),
        ([ar.node("a", routes=[DELIVER("x")])], "workflow 'w', node 1 is <function .*; a node is what ar.node"),
        ([{"id": "a"}], "workflow 'w', node 1: a node needs run"),
        ([{"id": "a", "run": nothing, "startsRound": 1}], "workflow 'w', node 1: there is no 'startsRound' in a node"),
        ([node("a", DELIVER("x")), node("a", DELIVER("x"))], "workflow 'w': two nodes have the id 'a'; give one"),
        ([node("a")], "workflow 'w', node 'a' has no routes: say what comes next"),
        (
            [node("draft", TO("reveiw")), node("review", DELIVER("x"))],
            "workflow 'w', node 'draft': there is no node 'reveiw' to go to; did you mean 'review'",
        ),
        ([node("a", TO("zzz"))], "workflow 'w', node 'a': there is no node 'zzz' to go to; there are 'a'"),
        (
            [node("a", DELIVER("x"), TO("b")), node("b", DELIVER("x"))],
            "workflow 'w', node 'a': the route to 'b' can never be taken, since the route that delivers 'x' stands",
        ),
        (
            [node("a", DELIVER("x")), node("b", DELIVER("x"))],
            "workflow 'w': node 'b' can never be reached from 'a', which comes first; lead a route to it",
        ),
        (
            [node("a", TO("b")), node("b", TO("a"), starts_round=True)],
            "workflow 'w': from node 'a' no route that delivers can be reached",
        ),
        (
            [
                node("a", DELIVER("x", when=always), TO("b")),
                node("b", TO("c")),
                node("c", TO("b"), starts_round=True),
            ],
            "workflow 'w': from node 'b' no route that delivers can be reached",
        ),
        (
            [node("a", TO("b")), node("b", DELIVER("x", when=always), TO("c")), node("c", TO("b"))],
            "workflow 'w': b → c → b is a circle within one round, .*; let one of these nodes begin a round",
        ),
        (
            [node("a", DELIVER("x", when=always), TO("a"))],
            "workflow 'w': a → a is a circle within one round",
        ),
    ],
)
def test_what_cannot_work_is_refused_where_it_is_defined(nodes: Any, message: str) -> None:
    """Each mistake with the node's name, and what to do."""
    with pytest.raises(ar.UsageError, match=message):
        ar.define_workflow("w", nodes)
    with pytest.raises(ar.UsageError, match="a workflow has an id"):
        ar.define_workflow("", nodes)


def test_a_circle_through_a_node_that_starts_a_round_is_a_loop() -> None:
    """Also through several of them, and of one node with itself."""
    ar.define_workflow("w", [node("a", DELIVER("x", when=always), TO("a"), starts_round=True)])
    ar.define_workflow(
        "w",
        [
            node("a", TO("b"), starts_round=True),
            node("b", DELIVER("x", when=always), TO("c", when=always), TO("a")),
            node("c", TO("a")),
        ],
    )


_IDS = ["a", "b", "c", "d"]


@st.composite
def graphs(draw: st.DrawFn) -> list[ar.Node[State]]:
    """Any few nodes with any routes between them, each with a condition."""
    count = draw(st.integers(1, 4))
    nodes = []
    for id in _IDS[:count]:
        targets = draw(st.lists(st.sampled_from([*_IDS[:count], None]), min_size=1, max_size=3))
        routes = [DELIVER("x", when=always) if one is None else TO(one, when=always) for one in targets]
        nodes.append(ar.node(id, run=nothing, routes=routes, starts_round=draw(st.booleans())))
    return nodes


@given(graphs(), st.lists(st.integers(0, 2), max_size=40))
def test_what_is_defined_ends_whatever_its_conditions_say(nodes: list[ar.Node[State]], turns: list[int]) -> None:
    """A law: a workflow that is not refused visits no node twice in a round, so that its bound of rounds bounds it."""
    try:
        workflow = ar.define_workflow("w", nodes)
    except ar.UsageError:
        return
    visits: list[tuple[int, str | None]] = []
    left = list(turns)

    def seen(state: Mapping[str, Any], context: ar.Context) -> None:
        visits.append((context.round, context.node))

    def condition(number: int) -> Any:
        return lambda state: bool(left) and left.pop() % 3 == number

    watched = ar.define_workflow(
        "w",
        [
            ar.node(
                one.id,
                run=seen,
                starts_round=one.starts_round,
                routes=[ar.Route(each.target, each.key, condition(number)) for number, each in enumerate(one.routes)],
            )
            for one in workflow.nodes.values()
        ],
    )
    with suppress(ar.WorkflowError):  # no route holds
        ar.CoreEngine(workflow=watched, max_rounds=5).run({"x": 1}, store=MemoryStore())
    assert len(set(visits)) == len(visits) <= 5 * len(nodes)
    assert visits[0] == (1, nodes[0].id)
