"""Secrets that the recording does not hold.

A password in the payload, a key in a model's request, a session token in a tool's answer: each is replaced before
anything is written. The same secret gives the same token, so the run can be read, compared and replayed.

    agentreplay state @last
"""

from __future__ import annotations

from typing import Any

import agentreplay as ar

# Made up, and put together so that no scanner takes them for real ones.
PASSWORD = "correct-" + "horse-battery-9"
API_KEY = "sk-" + "proj-" + "Zx9Qw8Er7Ty6Ui5Op4As3Df2Gh1Jk0Lm"
SESSION = "ses_" + "4f9a7c1e2b6d8035"

START: dict[str, Any] = {"user": "ada", "password": PASSWORD}


@ar.tool(safety="pure")
def log_in(user: str, password: str) -> dict[str, str]:
    """Open a session."""
    return {"user": user, "session_token": SESSION if password == PASSWORD else ""}


@ar.tool(safety="pure")
def read_subjects(session_token: str) -> list[str]:
    """List the subjects of the mails in the inbox."""
    return ["Invoice 17 is due", "Lunch?"] if session_token == SESSION else []


@ar.model(model="scripted-1")
def choose(messages: list[dict[str, Any]], api_key: str) -> dict[str, Any]:
    """Answer like a language model would: which mail cannot wait."""
    urgent = [line for line in messages[-1]["content"].splitlines() if "due" in line]
    return {"role": "assistant", "content": urgent[0] if urgent else "none"}


@ar.agent("mailbox", max_rounds=3)
def step(round_index: int, context: ar.Context) -> ar.Continue | ar.Complete[str]:
    """First round: log in. Second round: read the inbox and have the model choose."""
    if round_index == 1:
        opened = log_in(context.payload["user"], context.payload["password"])
        context.change(new={"session_token": opened["session_token"]}, reason="logged in")
        return ar.Continue()
    subjects = read_subjects(context.payload["session_token"])
    context.messages.append({"role": "user", "content": "\n".join(subjects)})
    answer = choose(list(context.messages), api_key=API_KEY)
    context.messages.append(answer)
    context.change(new={"urgent": answer["content"]}, reason="the model has chosen")
    return ar.Complete(answer["content"])


def main() -> None:
    """Look into the inbox."""
    result = step.run(START)
    print(f"{result.run.id} found {result.value!r} to be urgent, and recorded the password as")
    print(ar.state_at(result.run.id).payload["password"])


if __name__ == "__main__":
    main()
