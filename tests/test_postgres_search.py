"""What runs recorded is found in a store on PostgreSQL as in any other."""

from __future__ import annotations

from contextlib import closing

from agentreplay.recorder.sql_store import SqlStore
from postgres_server import running, schema_on
from test_webui_searching import check_prompts


def test_prompts_are_found_in_a_store_on_a_server() -> None:
    """Conversations and blobs come from tables of their own there, too."""
    with running() as server, schema_on(server) as url, closing(SqlStore(url)) as store:
        check_prompts(store)
