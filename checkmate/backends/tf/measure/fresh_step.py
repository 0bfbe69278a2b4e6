"""Measure a step, or compare its gradients, in a fresh process."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from checkmate.backends.tf.environment import EXACT
from checkmate.backends.tf.tasks import run_task
from checkmate.backends.tf.xla.tied import XlaEmission, emission_of
from checkmate.ir import Schedule
from checkmate.progress import Cancelled, Report
from checkmate.request import ModelRequest


@dataclass(frozen=True)
class FreshMeasurement:
    """One step measured in a fresh process.

    ``peaks``: the peak of each metered run; ``first_peak_bytes`` and ``peak_bytes``: the first and the
    largest of them. ``requested_peak_bytes``: the peak of the bytes that were requested in a traced run, with
    the graph's ``fixed_bytes``. ``seconds``: median of the warm runs. ``loss``: of the first run; None if the
    user's own step returns none. ``history``: (handle, bytes) pairs as ``checkmate.memory.bfc.Request``.
    ``load``: how many of the ``cores`` other programs used during the timed runs. ``curve``: requested bytes
    at each step of the schedule; empty for the plain step. ``settings``: ``DeviceSettings.facts``.
    ``compared``: the comparison with the plain step in the same process; None if there was none.
    """

    first_peak_bytes: int
    peak_bytes: int
    requested_peak_bytes: int
    seconds: float
    loss: float | None
    fingerprint: str
    device: str
    meter: str
    history: tuple[tuple[int, int], ...] = ()
    load: float = 0.0
    cores: int = 1
    fixed_bytes: int = 0
    curve: tuple[int, ...] = ()
    settings: Mapping[str, Any] = field(default_factory=dict)
    peaks: tuple[int, ...] = ()
    compared: Mapping[str, Any] | None = None


def measure_fresh(
    request: ModelRequest,
    schedule: Schedule | None,
    *,
    message: str,
    report: Report,
    cancelled: Cancelled,
    stage: str = "measure",
    region: int = 0,
    history: bool = False,
    xla: XlaEmission | None = None,
    as_written: bool = False,
    in_turn: bool = False,
    compare_within: int | None = None,
) -> FreshMeasurement:
    """Measure the plain (``schedule`` None) or a scheduled step in a fresh process.

    ``region``: bytes that a CPU's allocator fetches in one piece before anything else. ``history``: also
    record the allocator's requests from loading the model to the first step, without those that set memory
    aside for a scheduled step. ``xla``, ``as_written``: as for ``step_body``. ``in_turn``: as for
    ``FoldedStep``. ``compare_within``: compare a scheduled step whose peak is at most so many bytes with the
    plain step afterwards, if there is room; None: never compare.

    Raises:
        StepTooLargeError: the step has no room in the device's memory. Others as in ``run_task``.
    """
    steps = None if schedule is None else schedule.steps.tolist()
    task = {
        "do": "measure",
        "within": compare_within,
        "request": request.to_json(),
        "steps": steps,
        "region": region,
        "history": history,
        "as_written": as_written,
        "in_turn": in_turn,
        **({} if xla is None else {"xla": xla.to_json()}),
    }
    answer = run_task(task, message=message, report=report, cancelled=cancelled, stage=stage)
    sequences = {
        "history": tuple(map(tuple, answer["history"])),
        "curve": tuple(answer.get("curve", ())),
        "peaks": tuple(answer.get("peaks", ())),
    }
    return FreshMeasurement(**{**answer, **sequences})


def compare_fresh(
    task: Mapping[str, Any],
    *,
    what: str = "gradients",
    where: str = "",
    report: Report,
    cancelled: Cancelled,
    usual: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """Compare the scheduled step with the plain one in fresh processes.

    Returns what ``compare`` found under ``exact`` (Eigen kernels) and ``usual`` (default kernels; compiled
    where the step is for XLA). ``what`` is compared, in words. ``where``: added to the messages, such as ``"
    at batch 8"``. ``usual``: where that is known. A StepTooLargeError: the plain step does not fit.
    """
    xla = emission_of(task)
    op_by_op = {} if xla is None else {"xla": xla.op_by_op().to_json()}
    exact = run_task(
        {**task, **op_by_op, "do": "compare", "exact": True},
        message=f"comparing {what}{where}, same kernels",
        report=report,
        cancelled=cancelled,
        environment=EXACT,
        stage="verify",
    )
    if usual is not None:
        return {"exact": exact, "usual": usual}
    message = f"comparing {what}{where}, {'default kernels' if xla is None else 'compiled by XLA'}"
    usual = run_task(
        {**task, "do": "compare"}, message=message, report=report, cancelled=cancelled, stage="verify"
    )
    return {"exact": exact, "usual": usual}
