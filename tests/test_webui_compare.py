"""Two runs side by side and the tree of forks in a browser: what they show, where they lead, and that it is text."""

from __future__ import annotations

import re
from functools import cache
from typing import Any

import agentreplay as ar
import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.memory_store import MemoryStore
from agentreplay.replay.compare import compare_runs
from agentreplay.replay.forks import tree_of
from agentreplay.webui.tree_views import MARGIN, ROW, WIDTH, tree_view
from cassette_runs import UID, record_family, record_forks
from event_builder import EventBuilder
from flask.testing import FlaskClient
from web import client_of, page

BAD = "</td><script>x()</script>\x1b[31m\u202e"


@cache
def corrected() -> MemoryStore:
    """The example as run1, its child as run2, and run1's re-run from step 7 with what was missing as run3."""
    store = MemoryStore()
    failed = refunds.step.run(refunds.START, store=store).run.uid
    ar.rerun(failed, refunds.step, 7, set={"/order/coupon/used": True}, allow=["issue_refund"], store=store)
    return store


@pytest.fixture
def client() -> FlaskClient:
    return client_of(corrected())


def texts(html: str) -> str:
    """The text of a page, its elements left out."""
    return re.sub(r"\s+", " ", re.sub(r"<[^>]*>", " ", html))


# -- comparing ---------------------------------------------------------------------------------------------------------


def test_two_runs_stand_side_by_side_at_their_first_difference(client: FlaskClient) -> None:
    """The pair that differs first is marked and looked into: the edit, and all that follows from it in that step."""
    html = page(client, "/compare/run1/run3")
    text = texts(html)
    assert "run3 is a fork of run1" in text
    assert "6 the same" in text
    assert "4 different" in text
    assert re.findall(r'<li class="pairrow (\w+)( first)?">', html) == [
        *[("same", "")] * 3,
        ("differs", " first"),
        *[("differs", "")] * 3,
    ]
    assert "… 3 steps that both have as events" in text
    assert [told.strip() for told in re.findall(r"<h3><bdi>(step 7[^<]*)", html)] == [
        "step 7: another payload",
        "step 7: another message",
        "step 7, call 7.1: other arguments",
        "step 7: another decision",
        "step 7: another payload",
    ]
    assert "The first difference" in text
    assert "order.coupon.used" in text.split("another message")[0]
    assert 'href="/diff?from=run1%3A7&amp;to=run3%3A7"' in html
    assert 'href="/compare/run3/run1"' in html


def test_every_pair_can_be_looked_into_by_its_address(client: FlaskClient) -> None:
    """Neighbouring differences are a key away; what is long is a link to where it is."""
    html = page(client, "/compare/run1/run3?at=9:9")
    assert re.findall(r'aria-current="true"', html) == ['aria-current="true"']
    assert 'href="/compare/run1/run3?at=8%3A8" data-go="-1"' in html
    assert 'href="/compare/run1/run3?at=10%3A10" data-go="1"' in html
    assert "step 9, call 9.2: other arguments tool issue_refund" in texts(html)
    for link in set(re.findall(r'href="(/[^"]*/value[^"]*)"', html)):
        page(client, link.replace("&amp;", "&"))
    for wrong in ("3:3", "7:8", "x", "7", ":", "99999999999:1"):
        assert client.get("/compare/run1/run3", query_string={"at": wrong}).status_code == 404


def test_runs_that_are_the_same_say_so(client: FlaskClient) -> None:
    """A run beside itself."""
    text = texts(page(client, "/compare/run1/run1"))
    assert "No step differs" in text
    assert "the same run" in text


def test_a_step_that_only_one_run_has_stands_alone() -> None:
    """With what it decided and called."""
    store = MemoryStore()
    for rounds in (2, 3):
        log = EventBuilder({})
        for n in range(rounds):
            log.begin()
            log.call(f"{n}", f"tool{n}")
            log.add("step.decided", decision={"step": "Actions"})
            log.end()
        info = store.create_run("counts")
        store.append(info, -1, log.events)
    html = page(client_of(store), "/compare/run1/run2")
    assert '<li class="pairrow extra first">' in html
    assert "step 3 of run2: extra step" in html
    assert "run1 has no such step" in html
    page(client_of(store), "/compare/run1/run2?at=:3")
    html = page(client_of(store), "/compare/run2/run1?all=1")
    assert html.count('<li class="pairrow') == 4
    assert "only those that differ" in html


def test_a_run_to_compare_with_is_asked_for(client: FlaskClient) -> None:
    """Forks and parents are offered first; two names lead to the comparison."""
    html = page(client, "/compare?a=run1")
    offered = re.findall(r'class="name" href="([^"]*)"', html)
    assert offered == ["/compare/run1/run3", "/compare/run1/run2"]
    answer = client.get("/compare?a=run1&b=3")
    assert (answer.status_code, answer.headers["Location"]) == (302, "/compare/run1/run3")
    assert "Where do two runs part?" in page(client, "/compare")
    assert client.get("/compare?a=run9").status_code == 404
    assert client.get("/compare/run1/run9").status_code == 404


def test_a_comparison_follows_runs_that_grow() -> None:
    """It is kept only as long as neither run has another event."""
    store = MemoryStore()
    for word in ("a", "b"):
        log = EventBuilder({})
        log.begin()
        log.add("step.decided", decision={"step": "Actions"})
        log.end()
        log.begin()
        info = store.create_run("counts")
        store.append(info, -1, log.events)
        last = log.add("step.decided", decision={"step": word})
    browser = client_of(store)
    assert "No step differs" in page(browser, "/compare/run1/run2")
    store.append("run2", last.seq - 1, [last])
    assert "step 2: another decision" in page(browser, "/compare/run1/run2")


# -- the tree ----------------------------------------------------------------------------------------------------------


def test_the_tree_shows_what_came_from_what(client: FlaskClient) -> None:
    """Each run with where it parted, what was edited, how it ended, and a way to compare it with its parent."""
    html = page(client, "/runs/run3/tree")
    text = texts(html)
    assert "3 runs, 1 fork, 1 child run" in text
    rows = re.findall(r'<tr class="(\w+) (\w+)( asked)?"', html)
    assert rows == [("root", "failed", ""), ("child", "completed", ""), ("fork", "completed", " asked")]
    assert "from step 7" in text
    assert "set /order/coupon/used true" in text
    assert "started in step 5" in text
    assert 'href="/compare/run1/run3"' in html


def test_a_fork_hangs_from_the_run_that_it_left() -> None:
    """On one scale of steps, at the step at which it parted, as far down as that fork is; drawn with the upper run."""
    store = MemoryStore()
    record_forks(store)
    view = tree_view(tree_of("run1", store))
    third = (WIDTH - 2 * MARGIN) / 4
    lines = {row.run: row.line for row in view.rows}
    assert (lines["run1"].left, lines["run1"].right) == (MARGIN, MARGIN + 2 * third)
    assert (lines["run5"].left, lines["run5"].right) == (MARGIN + 2 * third, MARGIN + 3 * third)
    assert (MARGIN + 2 * third, 4 * ROW) in lines["run1"].drops
    assert (lines["run6"].left, lines["run5"].drops) == (MARGIN + 3 * third, ((MARGIN + 3 * third, ROW),))
    html = page(client_of(store), "/runs/run1/tree")
    assert html.index('class="hang"') < html.index('class="life"')
    assert (lines["run2"].left, lines["run2"].right) == (MARGIN + third, MARGIN + third)
    assert view.marks == ((0, MARGIN), (2, MARGIN + 2 * third), (4, WIDTH - MARGIN))


def test_a_parent_that_is_not_here_is_no_link() -> None:
    """Its name is shown, and that it is missing."""
    store = MemoryStore()
    store.create_run("inspector", uid=UID(3), parent=UID(1))
    store.append(UID(3), -1, EventBuilder({}).events)
    html = page(client_of(store), "/runs/run1/tree")
    assert f'<bdi class="data">{UID(1)}</bdi>' in html
    assert "it is not in this store" in html
    assert f'href="/runs/{UID(1)}"' not in html


# -- files and programs ------------------------------------------------------------------------------------------------


def test_a_run_can_be_downloaded_as_a_file(client: FlaskClient) -> None:
    """The page that `export --format html` writes, under a name that is safe whatever the agent is called."""
    answer = client.get("/runs/run1/export")
    uid = corrected().run("run1").uid
    assert answer.headers["Content-Disposition"] == f'attachment; filename="refunds.{uid[:13]}.html"'
    assert answer.get_data().startswith(b"<!doctype html>")
    store = MemoryStore()
    store.create_run(BAD + "/../", uid=UID(1))
    store.append(UID(1), -1, EventBuilder({}).events[:1])
    name = client_of(store).get("/runs/run1/export").headers["Content-Disposition"]
    assert re.fullmatch(r'attachment; filename="[A-Za-z0-9_.-]+"', name)


def test_programs_get_what_the_command_line_prints(client: FlaskClient) -> None:
    """The comparison and the tree, as JSON; both are in the document that describes the API."""
    store: Any = corrected()
    assert client.get("/api/v1/compare/run1/run3").get_json() == compare_runs("run1", "run3", store).to_json()
    assert client.get("/api/v1/runs/run3/tree").get_json() == tree_of("run3", store).to_json()
    assert {"/api/v1/compare/{run}/{other}", "/api/v1/runs/{run}/tree"} <= set(
        client.get("/api/v1/openapi.json").get_json()["paths"]
    )
    assert client.get("/api/v1").get_json()["features"] == ["compare", "export", "rerun", "tree"]
    assert client.get("/api/v1/compare/run1/run9").status_code == 404


def test_the_page_of_a_run_leads_to_these(client: FlaskClient) -> None:
    """To the comparison, the tree and the file."""
    html = page(client, "/runs/run3")
    for link in ("/compare?a=run3", "/runs/run3/tree", "/runs/run3/export"):
        assert f'href="{link}"' in html


def test_what_was_recorded_is_text_on_these_pages() -> None:
    """Names, words, keys and values with markup, and characters that hide or act."""
    store = MemoryStore()
    for n in range(2):
        log = EventBuilder({BAD: n})
        log.begin()
        log.call("1.1", BAD, arguments={BAD: BAD + str(n)})
        log.add("tool.failed", call="1.1", error={"type": BAD, "message": BAD + str(n)})
        log.add("step.decided", decision={"step": BAD, "reasoning": BAD + str(n)})
        log.end()
        log.finish(value=BAD + str(n))
        info = store.create_run(BAD)
        store.append(info, -1, log.events)
    browser = client_of(store)
    for url in ("/compare/run1/run2", "/compare/run1/run2?at=1:1", "/runs/run1/tree", "/compare?a=run1"):
        html = page(browser, url)
        assert "<script>x()" not in html
        assert not {"\x1b", "\u202e"} & set(texts(html))


def test_a_damaged_run_is_named_on_these_pages() -> None:
    """The event that cannot be read, beside what is sound."""
    store = MemoryStore()
    record_family(store)
    row = next(row for row in store.rows("run1") if row.kind == "round.finished")
    row.body = b"{"
    browser = client_of(store)
    assert "event 6" in page(browser, "/compare/run1/run2")
    assert "event 6" in page(browser, "/runs/run1/export")
    page(browser, "/runs/run1/tree")
