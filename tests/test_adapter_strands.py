"""The contract of adapters, held to by the real Strands SDK."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from typing import Any

import agentreplay as ar
from agentreplay.adapter_contract import AdapterContract, Script
from agentreplay.recorder.store import EventStore
from strands import Agent, ToolContext, tool
from strands.models import Model


class ScriptedModel(Model):
    """The model of a script, as the SDK speaks to one."""

    def __init__(self, script: Script) -> None:
        self.script = script

    def update_config(self, **config: Any) -> None:
        """There is none."""

    def get_config(self) -> Any:
        return {}

    async def structured_output(self, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        raise NotImplementedError
        yield

    async def stream(self, messages: Any, *args: Any, **kwargs: Any) -> AsyncIterator[Any]:
        before = sum(message["role"] == "assistant" for message in messages)
        answer = self.script.answer(before, [{k: m[k] for k in ("role", "content")} for m in messages])
        yield {"messageStart": {"role": "assistant"}}
        for at, use in enumerate(answer.uses):
            start = {"name": use.tool, "toolUseId": f"use-{before}-{at}"}
            yield {"contentBlockStart": {"start": {"toolUse": start}}}
            yield {"contentBlockDelta": {"delta": {"toolUse": {"input": json.dumps(dict(use.arguments))}}}}
            yield {"contentBlockStop": {}}
        if answer.text:
            yield {"contentBlockStart": {"start": {}}}
            yield {"contentBlockDelta": {"delta": {"text": answer.text}}}
            yield {"contentBlockStop": {}}
        yield {"messageStop": {"stopReason": "tool_use" if answer.uses else "end_turn"}}


def tools_of(script: Script) -> list[Any]:
    """The tools of a script as functions that the SDK reads the arguments of."""

    async def called(name: str, arguments: dict[str, Any], context: ToolContext) -> Any:
        return await asyncio.to_thread(script.call, name, arguments, context.agent.state.set)

    @tool(name="find", context=True)
    async def find_by_number(number: str, tool_context: ToolContext) -> Any:
        """Find a parcel."""
        return await called("find", {"number": number}, tool_context)

    @tool(name="find", context=True)
    async def find_with_key(api_key: str, tool_context: ToolContext) -> Any:
        """Find what a key opens."""
        return await called("find", {"api_key": api_key}, tool_context)

    @tool(context=True)
    async def draw(tool_context: ToolContext) -> Any:
        """Draw a ticket."""
        return await called("draw", {}, tool_context)

    @tool(context=True)
    async def note(text: str, tool_context: ToolContext) -> Any:
        """Note something."""
        return await called("note", {"text": text}, tool_context)

    @tool(context=True)
    async def slow(name: str, seconds: float, tool_context: ToolContext) -> Any:
        """Take some time."""
        return await called("slow", {"name": name, "seconds": seconds}, tool_context)

    takes_key = any("api_key" in use.arguments for one in script.answers for use in getattr(one, "uses", ()))
    return [find_with_key if takes_key else find_by_number, draw, note, slow]


class TestStrands(AdapterContract):
    """Agents with the plugin, tools beside each other."""

    def app(self, script: Script, store: EventStore | None) -> Callable[[], Any]:
        plugins = [] if store is None else [ar.strands.Recorder(store=store)]
        agent = Agent(
            model=ScriptedModel(script),
            tools=tools_of(script),
            callback_handler=None,
            retry_strategy=None,
            plugins=plugins,
        )
        return lambda: str(agent(script.prompt)).strip()
