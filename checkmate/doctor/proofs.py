"""Small networks of each kind through all stages, each in a process of its own, which may crash."""

from __future__ import annotations

import json
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from checkmate.errors import CancelledError
from checkmate.processes.stages import probe
from checkmate.progress import Cancelled, Progress, Report
from checkmate.request import ModelRequest

LIMIT_S = 600.0
_LEAST_S = 20.0  # with less time left, no network is started
_LOG_LINES = 60
_CHILD = "checkmate.doctor.child_entry"


@dataclass(frozen=True)
class ProofNetwork:
    """``share``: its budget, as a share of the plain step's measured peak."""

    kind: str
    request: ModelRequest
    share: float


# Each share is well above the least that its network needs, so that a schedule is found at once.
NETWORKS: tuple[ProofNetwork, ...] = (
    ProofNetwork("convolutional", ModelRequest("zoo.adamw_clipped", batch_size=16), 0.75),
    ProofNetwork("transformer", ModelRequest("zoo.encoder_small", batch_size=16), 0.85),
    ProofNetwork("recurrent", ModelRequest("lstm", batch_size=4), 0.9),
    ProofNetwork("mixed precision", ModelRequest("zoo.mixed_float16", batch_size=16), 0.8),
)


@dataclass(frozen=True)
class Proof:
    """``report``: as ``checkmate-report`` has it; None where the run did not get that far. ``trace``: the
    traceback or the end of the log.
    """

    kind: str
    model: str
    batch_size: int
    seconds: float
    report: Mapping[str, Any] | None = None
    error: str = ""
    trace: str = ""

    @property
    def ok(self) -> bool:
        """Gradients must be equal and the peak within the budget."""
        return self.report is not None and bool(self.report["ok"])

    @property
    def verdict(self) -> str:
        if self.report is None:
            return self.error
        return "fits" if self.ok else "; ".join(self.report["problems"])

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "ok": self.ok, "seconds": round(self.seconds, 1)}


def prove(
    networks: Sequence[ProofNetwork] = NETWORKS,
    *,
    limit_s: float = LIMIT_S,
    done: Callable[[Proof], None] = lambda proof: None,
    report: Report,
    cancelled: Cancelled,
) -> tuple[Proof, ...]:
    """Profile, solve, measure, verify, export and reload each network within ``limit_s`` seconds in all.

    A network's failure is in its proof, never raised here.

    Raises:
        CancelledError: the user cancelled; the processes are gone.
    """
    until = time.monotonic() + limit_s
    proofs: list[Proof] = []
    for number, network in enumerate(networks):
        left = until - time.monotonic()
        where = f"{number + 1} of {len(networks)}, {network.kind}"
        if left < _LEAST_S:
            request = network.request
            late = f"not started: the time limit of {limit_s:.0f} s was over"
            proof = Proof(network.kind, request.model, request.batch_size, 0.0, error=late)
        else:
            proof = _proved(network, left, where, report, cancelled)
        proofs.append(proof)
        done(proof)
    return tuple(proofs)


def _proved(network: ProofNetwork, limit_s: float, where: str, report: Report, cancelled: Cancelled) -> Proof:
    started = time.monotonic()
    request = network.request
    with tempfile.TemporaryDirectory(prefix="checkmate-prove-") as folder:
        task = json.dumps({"request": request.to_json(), "share": network.share})
        progress = Path(folder, "progress")

        def meanwhile() -> None:
            passed = time.monotonic() - started
            report(Progress("prove", passed, None, f"{where}: {_last(progress) or 'loading TensorFlow'}"))

        command = (_CHILD, "prove", task, str(progress), str(Path(folder, "out")))
        ended = probe(command, limit_s=limit_s, cancelled=cancelled, meanwhile=meanwhile)
        if cancelled():
            raise CancelledError("cancelled")
        last = _last(progress)
    answer = ended.found.get("run")
    if answer is None:
        doing = f" while {last}" if last else ""
        why = ended.errors.get("run") or (ended.why() if ended.crashed else "it gave no reason")
        answer = {"error": f"ended{doing}: {why}", "trace": "\n".join(ended.log.splitlines()[-_LOG_LINES:])}
    return Proof(network.kind, request.model, request.batch_size, time.monotonic() - started, **answer)


def _last(progress: Path) -> str:
    try:
        return progress.read_text(encoding="utf-8")
    except OSError:
        return ""
