"""agentreplay: record every round of an agent run, then debug it step by step.

Everything public comes from here. Names are loaded at first use, so that `import agentreplay` costs only what
recording needs.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .exporting import export_run as export_run
    from .importing import import_file as import_file
    from .recorder.agent_result import AgentResult as AgentResult
    from .recorder.context import Context as Context
    from .recorder.context import Signal as Signal
    from .recorder.decisions import Complete as Complete
    from .recorder.decisions import Continue as Continue
    from .recorder.decisions import NextStep as NextStep
    from .recorder.decisions import PayloadChangeRequest as PayloadChangeRequest
    from .recorder.decorators import model as model
    from .recorder.decorators import tool as tool
    from .recorder.decorators import wrap as wrap
    from .recorder.engine import CoreEngine as CoreEngine
    from .recorder.errors import AgentReplayError as AgentReplayError
    from .recorder.errors import CassetteDiverged as CassetteDiverged
    from .recorder.errors import ChangeRefused as ChangeRefused
    from .recorder.errors import CompensationFailed as CompensationFailed
    from .recorder.errors import CorruptLog as CorruptLog
    from .recorder.errors import Divergence as Divergence
    from .recorder.errors import ExportFailed as ExportFailed
    from .recorder.errors import ImportFailed as ImportFailed
    from .recorder.errors import LiveCallRefused as LiveCallRefused
    from .recorder.errors import LossyAnswer as LossyAnswer
    from .recorder.errors import NothingCaptured as NothingCaptured
    from .recorder.errors import PayloadFrozen as PayloadFrozen
    from .recorder.errors import RecordedError as RecordedError
    from .recorder.errors import RecordingFailed as RecordingFailed
    from .recorder.errors import RedactedValue as RedactedValue
    from .recorder.errors import RoundLimitReached as RoundLimitReached
    from .recorder.errors import RunNotFound as RunNotFound
    from .recorder.errors import StoreError as StoreError
    from .recorder.errors import UnknownType as UnknownType
    from .recorder.errors import UnknownVersion as UnknownVersion
    from .recorder.errors import UnregisteredType as UnregisteredType
    from .recorder.errors import UsageError as UsageError
    from .recorder.errors import VersionConflict as VersionConflict
    from .recorder.errors import WorkflowError as WorkflowError
    from .recorder.locate import open_store as open_store
    from .recorder.loop import agent as agent
    from .recorder.payload import ChangeResult as ChangeResult
    from .recorder.payload import apply_change as apply_change
    from .recorder.recording import record as record
    from .recorder.redaction import RedactionRules as RedactionRules
    from .recorder.redaction import SecretPattern as SecretPattern
    from .recorder.values import register_type as register_type
    from .recorder.workflow import Node as Node
    from .recorder.workflow import Route as Route
    from .recorder.workflow import Workflow as Workflow
    from .recorder.workflow import define_workflow as define_workflow
    from .recorder.workflow import node as node
    from .recorder.workflow import route as route
    from .replay.bisecting import bisect as bisect
    from .replay.bisection import Bisection as Bisection
    from .replay.compare import RunComparison as RunComparison
    from .replay.compare import compare_runs as compare_runs
    from .replay.diff import Change as Change
    from .replay.diff import diff_states as diff_states
    from .replay.diff import diff_values as diff_values
    from .replay.diff import to_json_patch as to_json_patch
    from .replay.joining import join as join
    from .replay.reading import blame as blame
    from .replay.reading import state_at as state_at
    from .replay.reading import watch as watch
    from .replay.replayer import ReplayResult as ReplayResult
    from .replay.replayer import areplay as areplay
    from .replay.replayer import replay as replay
    from .replay.rerunning import NOT_DONE as NOT_DONE
    from .replay.rerunning import arerun as arerun
    from .replay.rerunning import aresume as aresume
    from .replay.rerunning import rerun as rerun
    from .replay.rerunning import resume as resume
    from .replay.state import RunState as RunState
    from .replay.testing import aassert_replays as aassert_replays
    from .replay.testing import assert_replays as assert_replays
    from .replay.watching import Watched as Watched

_HOME = {
    "AgentReplayError": "recorder.errors",
    "AgentResult": "recorder.agent_result",
    "Bisection": "replay.bisection",
    "CassetteDiverged": "recorder.errors",
    "Change": "replay.diff",
    "ChangeRefused": "recorder.errors",
    "ChangeResult": "recorder.payload",
    "CompensationFailed": "recorder.errors",
    "Complete": "recorder.decisions",
    "Context": "recorder.context",
    "Continue": "recorder.decisions",
    "CoreEngine": "recorder.engine",
    "CorruptLog": "recorder.errors",
    "Divergence": "recorder.errors",
    "ExportFailed": "recorder.errors",
    "ImportFailed": "recorder.errors",
    "LiveCallRefused": "recorder.errors",
    "LossyAnswer": "recorder.errors",
    "NOT_DONE": "replay.rerunning",
    "NextStep": "recorder.decisions",
    "Node": "recorder.workflow",
    "NothingCaptured": "recorder.errors",
    "PayloadChangeRequest": "recorder.decisions",
    "PayloadFrozen": "recorder.errors",
    "RecordedError": "recorder.errors",
    "RecordingFailed": "recorder.errors",
    "RedactedValue": "recorder.errors",
    "RedactionRules": "recorder.redaction",
    "ReplayResult": "replay.replayer",
    "RoundLimitReached": "recorder.errors",
    "Route": "recorder.workflow",
    "RunComparison": "replay.compare",
    "RunNotFound": "recorder.errors",
    "RunState": "replay.state",
    "SecretPattern": "recorder.redaction",
    "Signal": "recorder.context",
    "StoreError": "recorder.errors",
    "UnknownType": "recorder.errors",
    "UnknownVersion": "recorder.errors",
    "UnregisteredType": "recorder.errors",
    "UsageError": "recorder.errors",
    "VersionConflict": "recorder.errors",
    "Watched": "replay.watching",
    "Workflow": "recorder.workflow",
    "WorkflowError": "recorder.errors",
    "aassert_replays": "replay.testing",
    "agent": "recorder.loop",
    "apply_change": "recorder.payload",
    "areplay": "replay.replayer",
    "arerun": "replay.rerunning",
    "aresume": "replay.rerunning",
    "assert_replays": "replay.testing",
    "bisect": "replay.bisecting",
    "blame": "replay.reading",
    "compare_runs": "replay.compare",
    "define_workflow": "recorder.workflow",
    "diff_states": "replay.diff",
    "diff_values": "replay.diff",
    "export_run": "exporting",
    "import_file": "importing",
    "join": "replay.joining",
    "model": "recorder.decorators",
    "node": "recorder.workflow",
    "open_store": "recorder.locate",
    "record": "recorder.recording",
    "register_type": "recorder.values",
    "rerun": "replay.rerunning",
    "resume": "replay.rerunning",
    "route": "recorder.workflow",
    "state_at": "replay.reading",
    "to_json_patch": "replay.diff",
    "tool": "recorder.decorators",
    "watch": "replay.reading",
    "wrap": "recorder.decorators",
}

_RECORDING = ("recorder.engine", "recorder.loop", "recorder.recording")

__all__ = [
    "NOT_DONE",
    "AgentReplayError",
    "AgentResult",
    "Bisection",
    "Change",
    "ChangeRefused",
    "ChangeResult",
    "CompensationFailed",
    "Complete",
    "Context",
    "Continue",
    "CoreEngine",
    "CorruptLog",
    "Divergence",
    "ExportFailed",
    "ImportFailed",
    "LiveCallRefused",
    "LossyAnswer",
    "NextStep",
    "Node",
    "NothingCaptured",
    "PayloadChangeRequest",
    "PayloadFrozen",
    "RecordedError",
    "RecordingFailed",
    "RedactedValue",
    "RedactionRules",
    "ReplayResult",
    "RoundLimitReached",
    "Route",
    "RunComparison",
    "RunNotFound",
    "RunState",
    "SecretPattern",
    "Signal",
    "StoreError",
    "UnknownType",
    "UnknownVersion",
    "UnregisteredType",
    "UsageError",
    "VersionConflict",
    "Workflow",
    "WorkflowError",
    "aassert_replays",
    "agent",
    "apply_change",
    "areplay",
    "arerun",
    "aresume",
    "assert_replays",
    "bisect",
    "blame",
    "compare_runs",
    "define_workflow",
    "diff_states",
    "diff_values",
    "export_run",
    "import_file",
    "join",
    "model",
    "node",
    "open_store",
    "record",
    "register_type",
    "replay",
    "rerun",
    "resume",
    "route",
    "state_at",
    "to_json_patch",
    "tool",
    "watch",
    "wrap",
]

__version__ = "0.1.0"


def __getattr__(name: str) -> Any:
    if name == "replay":
        return import_module(".replay", __name__)  # the package, which can be called
    if name == "strands":
        return import_module(".recorder.integrations.strands", __name__)  # an extra, so it is in no `__all__`
    home = _HOME.get(name)
    if home is None:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f".{home}", __name__), name)
    if home in _RECORDING:
        import_module(".snapshotting", __name__).start()
    return value


def __dir__() -> list[str]:
    return sorted([*__all__, "__version__"])
