"""Small agents that run without a network, one idea each; `agentreplay demo` runs the first of them.

- `refunds` works a refund through and makes a mistake that shows later
- `rates` tries again where a tool fails, and is taken up again where it failed
- `trip` hands parts of its work to sub-agents
- `digest` calls three tools at once
- `pictures` calls tools in threads
- `wordcount` has other processes take part
- `story` listens to a model that streams
- `approval` waits for a person
- `backup` is cancelled
- `payout` is killed, and resumed
- `mailbox` handles secrets
- `greenhouse` reads clock and sensor, and reports
- `invoices` carries out loops that were decided
- `newsletter` is a workflow

Each is a program, `python -m agentreplay.examples.rates`, and each was recorded: see `fixtures/cassettes`.
"""
