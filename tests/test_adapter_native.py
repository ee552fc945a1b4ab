"""The contract of adapters, held to by agentreplay's own loop."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import agentreplay as ar
from agentreplay.adapter_contract import AdapterContract, Answer, Script
from agentreplay.recorder.store import EventStore


class TestNativeLoop(AdapterContract):
    """A step function with a model and tools of its own; tools of one answer run beside each other."""

    def app(self, script: Script, store: EventStore | None) -> Callable[[], Any]:
        @ar.model
        def ask(messages: list[dict[str, Any]]) -> Answer:
            return script.answer(sum(message["role"] == "assistant" for message in messages), messages)

        def tool_named(name: str, context: Any) -> Callable[..., Any]:
            def write(key: str, value: Any) -> None:
                context.change(new={key: value})

            def call(**arguments: Any) -> Any:
                return script.call(name, arguments, write)

            return ar.wrap(call, kind="tool", name=name)

        async def called(context: Any, answer: Answer) -> list[Any]:
            calls = [asyncio.to_thread(tool_named(use.tool, context), **use.arguments) for use in answer.uses]
            return await asyncio.gather(*calls)

        @ar.agent("native")
        async def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[str]:
            if round_index == 1:
                context.messages.append({"role": "user", "content": context.input})
            answer = ask(messages=list(context.messages))
            context.messages.append({"role": "assistant", "content": answer.text})
            if not answer.uses:
                return ar.Complete(answer.text)
            for given in await called(context, answer):
                context.messages.append({"role": "tool", "content": given})
            return ar.Continue()

        ar.register_type(Answer)

        def run() -> str:
            if store is None:
                return bare(script)
            return str(step.run({}, input=script.prompt, store=store).value)

        return run


def bare(script: Script) -> str:
    """The same loop with nothing of agentreplay in it."""
    messages = [{"role": "user", "content": script.prompt}]
    state: dict[str, Any] = {}
    while True:
        answer = script.answer(sum(message["role"] == "assistant" for message in messages), messages)
        messages.append({"role": "assistant", "content": answer.text})
        if not answer.uses:
            return answer.text
        for use in answer.uses:
            messages.append({"role": "tool", "content": script.call(use.tool, use.arguments, state.__setitem__)})
