"""The version of this package, as it was installed."""

from __future__ import annotations

from importlib.metadata import version
from typing import Final

VERSION: Final = version("agentreplay-debugger")
