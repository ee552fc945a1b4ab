"""Adapters: agents of other frameworks, recorded through the seams that those frameworks have.

An adapter says where the seams are, and nothing else: a run around each invocation, the model and the tools as calls
(`calls`), the framework's own state as the payload, its conversation as messages. What stands behind a call, the world
or a recording, is no matter to it. So replay, re-run and resumption come from the same mechanism as for all runs.

None of these modules is loaded before it is asked for: their frameworks are extras.
"""
