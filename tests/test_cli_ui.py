"""The verb `ui`: it serves, and refuses to show runs to others than this machine without a token."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from agentreplay.examples import refunds
from agentreplay.recorder.locate import open_store
from cli_runs import invoke


@pytest.fixture
def store(tmp_path: Path) -> Path:
    path = tmp_path / "store.db"
    opened = open_store(path)
    refunds.step.run(refunds.START, store=opened)
    opened.close()
    return path


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.168.1.7", "example.org"])
def test_beyond_loopback_it_asks_for_a_token(host: str, store: Path) -> None:
    """Before anything is served: usage, and what to do."""
    result = invoke("ui", "--host", host, "--store", store)
    assert result.exit_code == 2
    assert "--token" in result.stderr


def test_a_token_that_can_be_guessed_is_refused(store: Path) -> None:
    """Sixteen characters at least."""
    result = invoke("ui", "--token", "secret", "--store", store)
    assert result.exit_code == 2
    assert "16 characters" in result.stderr


def test_a_reader_of_no_store_is_told(tmp_path: Path) -> None:
    """--read-only makes no store; otherwise an empty one is there to be recorded into."""
    result = invoke("ui", "--read-only", "--store", tmp_path / "none.db")
    assert result.exit_code == 3
    assert not (tmp_path / "none.db").exists()


def test_it_serves_at_the_address_that_it_prints(store: Path) -> None:
    """In a process of its own, at a free port, with a token; and it ends when it is told to."""
    token = "a-token-that-nobody-guesses"
    command = [sys.executable, "-m", "agentreplay", "ui", "--store", str(store), "--port", "0", "--token", token]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env={**os.environ})
    try:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        assert address.startswith("http://127.0.0.1:")
        assert address.endswith(f"/?token={token}")
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(address, timeout=20) as answer:
            assert answer.url.endswith("/runs")
            assert b"refunds" in answer.read()
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(address.partition("?")[0] + "runs", timeout=20)
        assert refused.value.code == 401
        refused.value.close()
        forged = urllib.request.Request(address.partition("?")[0] + "runs", headers={"Host": "evil.example"})
        with pytest.raises(urllib.error.HTTPError) as refused:
            urllib.request.urlopen(forged, timeout=20)
        assert refused.value.code == 421
        refused.value.close()
        process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=20)
        assert process.returncode == 0
        assert "Traceback" not in errors
    finally:
        process.kill()
        process.communicate()


def test_a_port_that_is_taken_is_said(store: Path) -> None:
    """With what to do, instead of a traceback."""
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        result = invoke("ui", "--store", store, "--port", taken.getsockname()[1])
    assert result.exit_code == 2
    assert "--port 0" in result.stderr
