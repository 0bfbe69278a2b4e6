"""Test how often a step is run to measure it, and what is read of a run."""

from __future__ import annotations

import pytest

from checkmate.backends.tf.live import measure
from checkmate.backends.tf.live.measure import _Costs, _measured, _Peaks, _PlainPeaks
from checkmate.backends.tf.profiler import MemoryEvent, OpRun, StepTrace


def run(in_use: int = 0) -> StepTrace:
    return StepTrace((), (MemoryEvent(0, 1, 1, in_use, "op"),))


def runs_until(known: _Peaks | _PlainPeaks | _Costs, peaks: list[int]) -> int:
    traces: list[StepTrace] = []
    while not traces or not known.enough(traces):
        traces.append(run(peaks[len(traces)]))
    return len(traces)


def test_a_step_over_the_budget_is_run_once() -> None:
    assert runs_until(_Peaks(100), [101, 0, 0]) == 1
    assert runs_until(_Peaks(100), [100, 101, 0]) == 2
    assert runs_until(_Peaks(), [10**12, 0, 0]) == 3  # without a budget to hold it against


def test_plain_runs_go_on_where_their_peaks_differ() -> None:
    assert runs_until(_PlainPeaks(), [40, 100, 101, 102] + [0] * 9) == 4  # the first one is cold
    assert runs_until(_PlainPeaks(), [100, 100, 103, 100] + [100] * 9) == 8


def test_the_lowest_warm_peak_and_what_the_function_goes_on_holding_are_read() -> None:
    def step(before: int, peak: int, took_ps: int) -> StepTrace:
        begin = MemoryEvent(0, 1, 1, before + 1, "op")
        runs = (OpRun("op", 0, took_ps), OpRun("op", 0, took_ps))
        return StepTrace(runs, (begin, MemoryEvent(1, 1, 1, peak, "op")))

    found = _measured([step(10, 40, 10**12), step(30, 90, 3 * 10**12), step(30, 80, 2 * 10**12)], 2.5)
    assert (found.peak_bytes, found.least_bytes, found.seconds, found.op_seconds) == (90, 80, 2.5, 4.0)
    assert (found.held_bytes, found.constant_bytes) == (10, 20)


@pytest.mark.parametrize(
    ("warm_seconds", "runs", "least"),
    [
        ([(1.0, 2.0), (1.1, 1.9), (1.2, 2.1), (9.0, 9.0)], 4, (1.0, 1.9)),  # settled; the quickest, op by op
        ([(8.0,), (7.0,), (6.0,), (5.0,), (4.0,), (3.0,)], 6, (4.0,)),  # a busy machine, but not for ever
        ([(8.0,), (7.0,), (6.0,), (6.0,), (1.0,)], 5, (6.0,)),
        ([()] * 5, 4, ()),  # ops without times
    ],
)
def test_costs_are_measured_until_they_settle(
    warm_seconds: list[tuple[float, ...]],
    runs: int,
    least: tuple[float, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    left = iter(warm_seconds)
    monkeypatch.setattr(measure, "node_seconds", lambda *_: next(left))
    costs = _Costs(None, [])  # type: ignore[arg-type]
    assert runs_until(costs, [0] * 9) == runs
    assert costs.least == least
