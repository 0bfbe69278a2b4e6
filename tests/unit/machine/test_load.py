from __future__ import annotations

import dataclasses
import select
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from checkmate.cli.commands.info import info_text
from checkmate.cli.output import graph_facts
from checkmate.cli.step_report import profile_text, report_text
from checkmate.ir import CostOrigin, CostUnit, Graph, VerificationReport
from checkmate.machine.cost_origin import READ_AGAIN, origin_words, pace_words, reading_facts, reading_words
from checkmate.machine.load import CpuTimes, LoadMeter, Reading, seconds_computed, step_spread, this_moment

QUIET = {"load": 0.05, "cores": 2, "spread": 0.03, "doubtful_ops": 0, "doubtful_share": 0.0}
BUSY = {"load": 1.4, "cores": 2, "spread": 0.18, "doubtful_ops": 8, "doubtful_share": 1.0}


class Metered(LoadMeter):
    def __init__(self, *moments: tuple[float, float, float]) -> None:
        self.cores, self._moments, self.waited = 2, iter(moments), list[float]()

    def read(self) -> CpuTimes:
        return CpuTimes(*next(self._moments))

    def wait(self, seconds: float) -> None:
        self.waited.append(seconds)


@pytest.mark.parametrize(
    ("later", "load"),
    [
        ((2.0, 13.0, 5.0), 0.5),  # three seconds of CPU time in two, two of them our own
        ((2.0, 12.0, 5.0), 0.0),
        ((2.0, 11.9, 5.0), 0.0),  # rounding to ticks
        ((2.0, 99.0, 3.0), 2.0),  # never more than the number of cores
        ((0.0, 10.0, 3.0), 0.0),
    ],
)
def test_load_is_the_cpu_time_of_others_between_two_moments(
    later: tuple[float, float, float], load: float
) -> None:
    meter = Metered((0.0, 10.0, 3.0), later)
    assert meter.load_since(meter.read()) == pytest.approx(load)


@pytest.mark.parametrize(("others", "quiet"), [(0.0, True), (0.1, True), (0.5, False)])
def test_load_is_measured_over_a_while_and_not_in_an_instant(others: float, quiet: bool) -> None:
    meter = Metered((0.0, 10.0, 3.0), (0.5, 10.0 + others, 3.0))
    assert meter.is_quiet() is quiet and meter.waited == [0.5]


def test_cpu_times_only_grow() -> None:
    first = this_moment()
    total = sum(number * number for number in range(200_000))
    second = this_moment()
    assert total and second.at > first.at and second.everyone >= first.everyone > 0 and second.own > first.own


def test_a_system_that_does_not_say_looks_quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("psutil.cpu_times", refuse)
    assert this_moment().everyone == 0.0 and LoadMeter().is_quiet()


def test_doubt() -> None:
    assert not Reading(0.2, 2, 0.1).is_doubtful and Reading(0.4, 2, 0.1).is_busy
    assert Reading(0.9, 16).doubt < 1 < Reading(1.1, 16).doubt, "on many cores one whole core is enough"
    apart = Reading(0.0, 2, 0.3)
    assert apart.is_doubtful and not apart.is_busy
    assert Reading().replaces(apart) and not apart.replaces(Reading())
    assert Reading(0.2, 2).replaces(Reading(0.0, 2)), "of two good readings the later one is kept"
    assert apart.with_worse(Reading(1.0, 2, 0.1)) == Reading(1.0, 2, 0.3)


def test_spread_is_the_median_over_the_quickest() -> None:
    assert step_spread([1.2, 1.0, 9.0]) == pytest.approx(0.2)
    assert step_spread([1.0]) == step_spread([0.0, 0.0]) == 0.0


def measured(chain: Graph, profile: Any) -> Graph:
    return dataclasses.replace(
        chain, cost_unit=CostUnit.SECONDS, cost_origin=CostOrigin.MEASURED, metadata={"profile": profile}
    )


@pytest.mark.parametrize(
    ("reading", "words"),
    [
        (QUIET, ""),
        (BUSY, "costs were measured on a busy machine (other programs took 1.4 of 2 cores, spread 18 %)"),
        (
            {**BUSY, "doubtful_share": 0.4},
            "40 % of the step's cost was measured on a busy machine (other programs took 1.4 of 2 cores, "
            "spread 18 %)",
        ),
        ({**BUSY, "doubtful_share": 0.01}, ""),
        ({**BUSY, "load": 0.1}, "costs were measured in runs that differ much (spread 18 %)"),
        (None, ""),
        ("busy", ""),
        ({"load": 1.4}, ""),
        ({**BUSY, "load": "much"}, ""),
        ({**BUSY, "cores": 0}, ""),
        ({**BUSY, "spread": float("nan")}, ""),
        ({**BUSY, "doubtful_share": 1e300}, ""),
    ],
)
def test_doubts_are_said_in_a_sentence_and_only_then(reading: object, words: str, chain: Graph) -> None:
    graph = measured(chain, {"runs": 5, "noisy_ops": 0, "reading": reading})
    whole = f"{words}; {READ_AGAIN}" if words else ""
    assert reading_words(graph) == whole
    said = (profile_text(graph, Path("g.json")), info_text(graph, graph_facts(graph, detailed=True)))
    assert all((whole in text) if words else ("busy" not in text and "note" not in text) for text in said)
    assert reading_words(dataclasses.replace(graph, cost_origin=CostOrigin.GIVEN)) == ""
    assert graph_facts(graph)["cost_reading"] == reading_facts(graph)


@pytest.mark.parametrize(
    ("pace", "word"), [(1.8, "slower"), (0.5, "quicker"), (1.1, ""), (None, ""), ("x", ""), (0, "")]
)
def test_a_plain_step_of_another_speed_is_reported(pace: object, word: str, chain: Graph) -> None:
    graph = measured(chain, {"runs": 5, "noisy_ops": 0, "plain_per_predicted": pace})
    said = pace_words(graph)
    assert (f"the machine is {word} now" in said) if word else said == ""
    assert not word or said in profile_text(graph, Path("g.json"))


@pytest.mark.parametrize(
    ("today", "words"),
    [
        (6.0, "(predicted 10.8 s as profiled, 6 s scaled by today's plain step)"),
        (10.5, "(predicted 10.5 s)"),
        (None, "(predicted 10.8 s)"),  # a report from before
    ],
)
def test_a_report_says_both_predictions_where_they_differ(today: float | None, words: str) -> None:
    seconds = {"predicted": 10.8, "measured": 6.1, "plain_predicted": 9.0, "plain_measured": 5.0}
    if today is not None:
        seconds["predicted_today"] = today
    report = VerificationReport(
        model="m",
        device="d",
        batch_size=8,
        budget_bytes=2**20,
        gradients={
            "bitwise": True,
            "equal": True,
            "overall_relative_error": 0.0,
            "worst": {"name": "w", "relative_error": 0.0},
            "worst_of_largest": {"name": "w", "error": 0.0},
        },
        loss={"plain": 1.0, "optimized": 1.0},
        peak_bytes={"predicted": 1, "measured": 1, "plain_measured": 1, "reloaded_measured": None},
        seconds=seconds,
        recomputations=1,
        steps=2,
    )
    text = report_text(report, None)
    assert words in text and "as promised" in text and "NOT as promised" not in text
    wrong = report_text(dataclasses.replace(report, problems=("the peak is over the budget",)), None)
    assert "NOT as promised" in wrong and "the peak is over the budget" in wrong


@pytest.mark.parametrize(
    ("profile", "words"),
    [
        ({}, "measured"),
        ({"cache": {"ops": 0, "measured_now": 8}}, "measured"),
        (
            {"cache": {"ops": 8, "measured_now": 0, "oldest": "2026-11-20", "newest": "2026-11-20"}},
            "measured before (cache, 2026-11-20)",
        ),
        (
            {"cache": {"ops": 6, "measured_now": 2, "oldest": "2026-11-19", "newest": "2026-11-20"}},
            "measured, 6 of 8 ops before (cache, 2026-11-19 to 2026-11-20)",
        ),
        ({"cache": "yes"}, "measured"),
        ("nothing", "measured"),
    ],
)
def test_words_say_what_was_measured_before(profile: object, words: str, chain: Graph) -> None:
    graph = measured(chain, profile)
    assert origin_words(graph) == words
    assert origin_words(dataclasses.replace(graph, cost_origin=CostOrigin.GIVEN)) == "given"


COMPUTING = "import time\nwhile time.process_time() < {}: pass"
# A child computes for half a processor second, ends, and the process waits.
PARENT = f"""
import subprocess, sys, time
print("begun", flush=True)
subprocess.run([sys.executable, "-c", {COMPUTING.format(0.5)!r}])
print("ended", flush=True)
time.sleep(60)
"""


@pytest.fixture
def parent() -> Iterator[subprocess.Popen[str]]:
    process = subprocess.Popen([sys.executable, "-c", PARENT], stdout=subprocess.PIPE, text=True)
    yield process
    process.kill()
    process.wait()
    assert process.stdout
    process.stdout.close()


def test_what_a_child_computed_counts_while_it_runs_and_afterwards(parent: subprocess.Popen[str]) -> None:
    assert parent.stdout and parent.stdout.readline() == "begun\n"
    seen = [seconds_computed(parent.pid)]
    while not select.select([parent.stdout], [], [], 0.01)[0]:
        seen.append(seconds_computed(parent.pid))
    assert parent.stdout.readline() == "ended\n"
    seen.append(seconds_computed(parent.pid))
    assert seen == sorted(seen) and seen[-2] - seen[0] > 0.1
    waiting = seconds_computed(parent.pid)
    time.sleep(0.3)
    assert seconds_computed(parent.pid) == pytest.approx(waiting, abs=0.03)


def test_a_process_that_is_not_there_computes_nothing() -> None:
    assert seconds_computed(0) == 0.0 == seconds_computed(2**22 + 1)
