"""The store in memory keeps the contract."""

from __future__ import annotations

import pytest
from agentreplay.recorder.memory_store import MemoryStore
from store_contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()
