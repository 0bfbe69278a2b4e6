"""Test what a verification's report makes of the measurements."""

from __future__ import annotations

import dataclasses
from types import SimpleNamespace
from typing import Any

import pytest

from checkmate.backends.tf.comparing import Compared
from checkmate.backends.tf.emit.reload_probe import settled
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement
from checkmate.backends.tf.verification_report import Measurements, verification_report
from checkmate.ir import CostOrigin, CostUnit, Graph, Schedule, VerificationReport
from checkmate.request import ModelRequest


def in_seconds(chain: Graph) -> Graph:
    return dataclasses.replace(
        chain, cost_unit=CostUnit.SECONDS, cost_origin=CostOrigin.MEASURED, metadata={"profile": {}}
    )


def verified(
    chain: Graph,
    plain: FreshMeasurement,
    scheduled: FreshMeasurement,
    reloaded: dict[str, Any] | None = None,
) -> VerificationReport:
    schedule = Schedule.of(chain, [*range(chain.n), 0])
    same = {
        "bitwise": True,
        "state_bitwise": True,
        "worst": {"name": "w", "relative_error": 0.0},
        "worst_of_largest": {"name": "w", "error": 0.0},
        "gradients": 1,
    }
    same |= {"plain_rerun_relative_error": 0.0, "overall_relative_error": 0.0, "sum_rounding": 0.0}
    same["loss"] = {"plain": 1.0, "optimized": 1.0}
    return verification_report(
        ModelRequest("m", batch_size=8), chain, schedule,
        Measurements(
            plain=SimpleNamespace(
                measured=plain, predicted_bytes=100, peak_bytes=100, batch=8, note="", facts=dict
            ),
            measured=scheduled,
            compared=Compared({"exact": same, "usual": same}, batch=8, device="cpu"),
            reloaded=reloaded,
        ),
        budget_bytes=2**30,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("peaks", "reloaded", "said"),
    [
        ((), (), ""),
        ((100, 101, 101), (101, 100), ""),
        ((2**20, 2**20, 2**20), (2**20, 2**21), "1.00 MiB to 2.00 MiB in 2 steps"),
        ((2**20, 2**20, 2**20), (2**21, 2**21), ""),  # another process, whose chunks lie otherwise
        ((2**21, 2**20), (), "1.00 MiB to 2.00 MiB in 2 steps"),
    ],
)
def test_a_peak_that_varies_is_said(
    peaks: tuple[int, ...], reloaded: tuple[int, ...], said: str, chain: Graph
) -> None:
    graph = in_seconds(chain)
    step = FreshMeasurement(100, 100, 100, 1.0, 1.0, "", "a processor", "CPU:0", peaks=peaks)
    after = {"peak_bytes": max(reloaded), "peaks": list(reloaded)} if reloaded else None
    notes = verified(graph, step, step, after).notes
    assert any("the peak differs from step to step" in note for note in notes) is bool(said)
    assert not said or any(said in note for note in notes)


@pytest.mark.parametrize(
    ("peaks", "seconds", "enough"),
    [
        ([], 0.0, False),
        ([5] * 3, 1.0, False),
        ([5] * 4, 1.0, True),
        ([6, *[5] * 7], 1.0, False),
        ([6, *[5] * 8], 1.0, True),
        ([*[5] * 8, 6], 1.0, False),
        ([*[5] * 8, 6, *[5] * 8], 1.0, True),
        (list(range(31)), 1.0, False),
        (list(range(32)), 1.0, True),
        ([5, 6], 15.1, True),
    ],
)
def test_the_peak_has_settled(peaks: list[int], seconds: float, enough: bool) -> None:
    assert settled(peaks, seconds) is enough


@pytest.mark.parametrize(("load", "said"), [(0.1, False), (1.4, True)])
def test_predicted_seconds_follow_the_plain_step_of_the_day(load: float, said: bool, chain: Graph) -> None:
    graph = in_seconds(chain)
    step = FreshMeasurement(
        100, 100, 100, 2.5 * graph.base_cost, 1.0, "", "a processor", "CPU:0", load=load, cores=2
    )
    seconds = verified(graph, dataclasses.replace(step, load=0.0), step).seconds
    again = graph.base_cost + graph.ops[0].cost
    assert seconds["predicted"] == pytest.approx(again) and seconds["plain_predicted"] == graph.base_cost
    assert seconds["predicted_today"] == pytest.approx(2.5 * again)
    notes = verified(graph, dataclasses.replace(step, load=0.0), step).notes
    assert any("other programs took 1.4 of 2 cores" in note for note in notes) is said
    assert said or not notes
    counted = dataclasses.replace(graph, cost_unit=CostUnit.FLOP)
    assert verified(counted, step, step).seconds["predicted_today"] is None
