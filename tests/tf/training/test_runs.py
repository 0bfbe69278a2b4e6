"""Test how often a step is run to measure it, and what is read of a run."""

from __future__ import annotations

from collections.abc import Iterator

from checkmate.backends.tf.live.measure import _Costs, _measured, _Peaks, _PlainPeaks
from checkmate.backends.tf.profiler import MemoryEvent, StepTrace


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
    assert runs_until(_Peaks(), [10**12, 0, 0]) == 2  # without a budget to hold it against


def test_plain_runs_go_on_where_their_peaks_differ() -> None:
    assert runs_until(_PlainPeaks(), [40, 100, 101, 102] + [0] * 9) == 4  # the first one is cold
    assert runs_until(_PlainPeaks(), [100, 100, 103, 100] + [100] * 9) == 8


def test_the_lowest_warm_peak_and_what_the_function_goes_on_holding_are_read() -> None:
    def step(before: int, peak: int) -> StepTrace:
        begin = MemoryEvent(0, 1, 1, before + 1, "op")
        return StepTrace((), (begin, MemoryEvent(1, 1, 1, peak, "op")))

    found = _measured([step(10, 40), step(30, 90), step(30, 80)], ())
    assert (found.peak_bytes, found.least_bytes) == (90, 80)
    assert (found.held_bytes, found.constant_bytes) == (10, 20)


def costs(seconds: list[tuple[float, ...]]) -> _Costs:
    """Return costs that learn ``seconds`` from the second run on."""
    left: Iterator[tuple[float, ...]] = iter(seconds)
    return _Costs(lambda trace: next(left))


def test_costs_that_settled_end_it_and_the_quickest_run_counts_op_by_op() -> None:
    quiet = costs([(1.0, 2.0), (1.1, 1.9), (1.2, 2.1), (9.0, 9.0)])
    assert runs_until(quiet, [0] * 9) == 4  # a cold run and three warm ones
    assert quiet.least == (1.0, 1.9)


def test_costs_of_a_busy_machine_are_measured_longer_but_not_for_ever() -> None:
    falling = costs([(8.0,), (7.0,), (6.0,), (5.0,), (4.0,), (3.0,)])
    assert runs_until(falling, [0] * 9) == 6
    assert falling.least == (4.0,)
    late = costs([(8.0,), (7.0,), (6.0,), (6.0,), (1.0,)])
    assert runs_until(late, [0] * 9) == 5


def test_ops_without_times_end_it_too() -> None:
    unseen = costs([()] * 5)
    assert runs_until(unseen, [0] * 9) == 4 and unseen.least == ()
