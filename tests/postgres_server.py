"""A PostgreSQL server for the tests: a cluster of its own in a temporary folder, on a free port, with a password.

The tests use the server that AGENTREPLAY_TEST_POSTGRES names, or start one where the server's programs are installed;
so `make test` covers PostgreSQL where it can. As a program this runs a command beside one server for all of it:
`python tests/postgres_server.py make test`.
"""

from __future__ import annotations

import os
import pwd
import secrets
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

VARIABLE = "AGENTREPLAY_TEST_POSTGRES"
USER = "tester"
SETTINGS = "fsync=off", "full_page_writes=off", "listen_addresses=127.0.0.1", "max_connections=100"
ATTEMPTS = 5


def programs() -> Path | None:
    """The folder of the newest server's `initdb` and `pg_ctl`, or None; Debian keeps them out of the PATH."""
    on_path = shutil.which("initdb")
    if on_path is not None:
        return Path(on_path).resolve().parent
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    return max((file.parent for file in found), key=lambda folder: int(folder.parent.name), default=None)


def is_at_hand() -> bool:
    """Whether there is a server, or one can be started."""
    return bool(os.environ.get(VARIABLE)) or programs() is not None


@contextmanager
def running() -> Iterator[str]:
    """The URL of a server's database: of the one that the variable names, or of a new one, which ends afterwards."""
    if named := os.environ.get(VARIABLE):
        yield named
        return
    folder = programs()
    if folder is None:
        raise FileNotFoundError(f"no PostgreSQL server: install Debian's postgresql, or name one in {VARIABLE}")
    with tempfile.TemporaryDirectory(prefix="agentreplay-postgres-") as temporary:
        cluster = _Cluster(folder, Path(temporary))
        try:
            yield cluster.start()
        finally:
            cluster.stop()


@contextmanager
def schema_on(server: str) -> Iterator[str]:
    """The URL of an empty schema, which is dropped afterwards: making a database takes ten times as long."""
    import psycopg  # whoever only runs a command beside a server does without

    schema = f"test_{secrets.token_hex(8)}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE SCHEMA {schema}".encode())
        yield f"{server}?application_name={schema}&options=-csearch_path%3D{schema}"
        connection.execute(f"DROP SCHEMA {schema} CASCADE".encode())


class _Cluster:
    """A cluster in a folder. Its programs refuse to run as root, who lends the folder to another user."""

    def __init__(self, programs: Path, folder: Path) -> None:
        self.programs = programs
        self.folder = folder
        self.data = folder / "data"
        self.account: dict[str, Any] = {}
        if os.geteuid() == 0:
            owner = pwd.getpwnam("postgres")  # of Debian's package
            self.account = {"user": owner.pw_uid, "group": owner.pw_gid, "extra_groups": []}
            os.chown(folder, owner.pw_uid, owner.pw_gid)

    def start(self) -> str:
        """Make the cluster and start its server; return the URL of its first database."""
        password = secrets.token_hex(12)
        passwords = self.folder / "password"
        passwords.write_text(password, encoding="ascii")
        passwords.chmod(0o644)  # the folder is closed to others
        self._run(
            "initdb", "--no-sync", "--encoding=UTF8", "--locale=C", "--auth=scram-sha-256", f"--username={USER}",
            f"--pwfile={passwords}",
        )  # fmt: skip
        settings = [f"-c {setting}" for setting in (*SETTINGS, f"unix_socket_directories={self.folder}")]
        for attempt in range(1, ATTEMPTS + 1):
            port = _free_port()
            try:
                self._run("pg_ctl", "start", "-w", "-l", self.folder / "log", "-o", " ".join([f"-p {port}", *settings]))
                break
            except subprocess.CalledProcessError:  # somebody else may have taken the port meanwhile
                if attempt == ATTEMPTS:
                    raise RuntimeError((self.folder / "log").read_text(encoding="utf-8")) from None
        return f"postgresql://{USER}:{password}@127.0.0.1:{port}/postgres"

    def stop(self) -> None:
        """End the server, whoever is connected."""
        if (self.data / "postmaster.pid").exists():
            self._run("pg_ctl", "stop", "-w", "-m", "immediate")

    def _run(self, program: str, *arguments: str | Path) -> None:
        command = [self.programs / program, "-D", self.data, *arguments]
        subprocess.run(command, check=True, cwd=self.folder, stdout=subprocess.DEVNULL, **self.account)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def main(command: list[str]) -> int:
    """Run a command with the variable set; return its exit code."""
    with running() as url:
        return subprocess.run(command, env={**os.environ, VARIABLE: url}, check=False).returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
