"""Test what is said of a plan: short lines, with figures that add up."""

from __future__ import annotations

import dataclasses
import itertools
import re
from types import SimpleNamespace
from typing import Any

import pytest
import tensorflow as tf
from hypothesis import given
from hypothesis import strategies as st

from checkmate.backends.tf.live.measure import PeakSource, StepMeasurement
from checkmate.backends.tf.models.batch import flatten
from checkmate.ir import Schedule
from checkmate.memory.simulate import simulate
from checkmate.training.limit import Limit, limit_of
from checkmate.training.trials import TriedStep
from checkmate.training.wording import impossible, nothing_to_save, sentence_of, what_runs, why_missed
from checkmate.units import parse_budget, parse_bytes
from tests.generated_graphs import training_chain

MIB = 2**20
MOST = 31  # words in a line
SIZE = r"([\d.,]+ [KMGT]?i?B)"
BUDGET = re.compile(
    rf"peak {SIZE} of {SIZE} \((?:{SIZE}, )?60 % of the (?:plain {SIZE}|{SIZE} as written)"
    rf"(?:, \+ {SIZE} of others)?\)"
)


def words(line: str) -> int:
    return len(re.findall(r"\S*\w\S*", line))


def trials_of(**known: Any) -> Any:
    graph = known.pop("graph", training_chain(4))
    layout, _ = flatten((tf.zeros((16, 32, 64)), None))
    step = SimpleNamespace(layout=layout, name="model")
    known = {
        "held": 5 * MIB,
        "metered": True,
        "plain": None,
        "as_written": None,
        "everything": 293 * MIB,
        **known,
    }
    return SimpleNamespace(step=step, graph=graph, rate=1.1, all=(), why_not_plain="", **known)


def in_a_loop() -> Any:
    """Return a graph whose peak is in a loop."""
    graph = training_chain(4)
    ops = (dataclasses.replace(op, type="While", name=f"model/lstm/while_{op.name}") for op in graph.ops)
    return dataclasses.replace(graph, ops=tuple(ops))


def least(bytes_: int) -> Any:
    """Return a least memory that is proved to be so much."""
    return SimpleNamespace(bound=SimpleNamespace(bytes=bytes_))


def every_case() -> list[str]:
    """Return all that is said of plans."""
    found: list[str] = []
    limits = (
        Limit(197 * MIB),
        Limit(197 * MIB, "60 % of the plain 293 MiB", 21 * MIB, ("the highest was 310 MiB",)),
        Limit(197 * MIB, "60 % of the 293 MiB requested", 21 * MIB),
        Limit(197 * MIB, "as in an earlier phase", 21 * MIB),
        Limit(197 * MIB, "the least that was kept on the meter, with room to vary"),
    )
    proofs = (None, least(90), least(189 * MIB))
    sources = [source for source in PeakSource if source is not PeakSource.EXHAUSTED]
    for graph, source, (peak, metered) in itertools.product(
        (training_chain(4), in_a_loop()), sources, ((190, True), (240, True), (240, False))
    ):
        for limit, proof in itertools.product(limits, proofs if peak == 240 else (None,)):
            measured = StepMeasurement(peak * MIB, limit.others, source=source, seconds=3.0, op_seconds=2.5)
            quicker = StepMeasurement(293 * MIB, limit.others, seconds=2.0, op_seconds=2.0)
            told = TriedStep(None, quicker, limit.others) if limit.words else None
            trials = trials_of(graph=graph, metered=metered, held=limit.others, plain=told)
            tried = TriedStep(Schedule.of(graph, [*range(graph.n), 0]), measured, limit.others)
            plain = TriedStep(None, measured, limit.others)
            found.append(sentence_of(trials, tried, limit, proof, what_runs(trials, tried)))
        found.append(sentence_of(trials, plain, limit, proof, what_runs(trials, plain)))
        found.append(nothing_to_save(trials, plain, limit, 280 * MIB))
        for closest, proved in ((tried, False), (plain, True), (None, False)):
            error = impossible(trials, closest, limit.bytes, None, proved=proved)
            found += [str(error), error.hint, error.details["why"]]
    return found


def test_no_line_has_more_than_thirty_one_words() -> None:
    lines = {line for text in every_case() for line in text.splitlines()}
    assert len(lines) > 40
    longest = max(lines, key=words)
    assert words(longest) <= MOST, longest


def test_time_is_measured_else_predicted_and_a_gap_explained() -> None:
    graph = training_chain(4)
    plain = TriedStep(None, StepMeasurement(293 * MIB, 0, seconds=2.0, op_seconds=2.0), 0)
    trials = trials_of(graph=graph, plain=plain)
    schedule = Schedule.of(graph, [*range(graph.n), 0])
    predicted = simulate(graph, schedule).cost / graph.base_cost
    for seconds, far in ((2.0 * (predicted + 0.05), False), (2.0 * (predicted + 0.2), True)):
        tried = TriedStep(schedule, StepMeasurement(190 * MIB, 0, seconds=seconds, op_seconds=2.1), 0)
        line, *further = sentence_of(
            trials, tried, Limit(197 * MIB), None, what_runs(trials, tried)
        ).splitlines()
        assert f"1 recomputation, {50 * seconds - 100:+.0f} % time measured;" in line
        assert (
            any(
                f"the +{100 * (predicted - 1):.2f} % predicted: its ops take +5 %" in each for each in further
            )
            == far
        )
    trials.as_written = TriedStep(None, StepMeasurement(0, 0, seconds=0.8 * seconds), 0)
    assert what_runs(trials, tried).endswith(" % time measured (+25 % on the step as written)")
    unknown = what_runs(trials_of(graph=graph), tried)
    assert unknown == f"1 recomputation, +{100 * (predicted - 1):.2f} % time predicted"


@pytest.mark.parametrize(("others", "said"), [(0, False), (1, False), (40, True)])
def test_a_miss_says_what_others_hold_of_the_peak(others: int, said: bool) -> None:
    trials = trials_of(held=others * MIB)
    tried = TriedStep(Schedule.plain(trials.graph), StepMeasurement(240 * MIB, 0), others * MIB)
    line, *_ = sentence_of(trials, tried, Limit(197 * MIB), None, "it").splitlines()
    beside = f" ({others:.1f} MiB of others)" if said else ""
    assert f"peak 240 MiB{beside}, 21.8 % over the budget of 197 MiB" in line


def number(text: str) -> tuple[float, float]:
    """Return the bytes that ``text`` says, and by how much they may be off."""
    figure, unit = text.replace(",", "").split()
    digits, scale = len(figure.partition(".")[2]), parse_bytes(f"1 {unit}")
    return float(figure) * scale, 0.5001 * 10**-digits * scale + 1


def adds_up(whole: str, *parts: str, share: float = 1.0) -> bool:
    (total, wrong), found = number(whole), [number(part) for part in parts]
    gap = abs(total - share * sum(each for each, _ in found))
    return gap <= wrong + share * sum(each for _, each in found)


SIZES = st.integers(2**10, 2**45)


@given(own=SIZES, others=st.one_of(st.just(0), SIZES), written=st.one_of(st.none(), SIZES))
def test_the_figures_of_a_budget_add_up(own: int, others: int, written: int | None) -> None:
    def taking(own: int) -> TriedStep:
        return TriedStep(None, StepMeasurement(own + others, others, least_bytes=own + others), others)

    plain, as_written = taking(own), None if written is None else taking(written)
    ways = {"run_plain": lambda what: plain, "run_as_written": lambda: as_written}
    trials = trials_of(plain=plain, held=others, **ways)
    request: Any = SimpleNamespace(budget=parse_budget("60%"))
    limit = limit_of(request, trials)
    assert limit.own <= 0.6 * min(own, own if written is None else written)
    fits = TriedStep(Schedule.plain(trials.graph), StepMeasurement(limit.bytes - 1, others), others)
    line = sentence_of(trials, fits, limit, None, "").splitlines()[0]
    match = BUDGET.search(line)
    assert match is not None, line
    _, whole, share, plainly, recomputing, beside = match.groups()
    of = plainly or recomputing
    if beside is None:
        assert share is None and adds_up(whole, of, share=0.6), line
    else:
        assert adds_up(whole, share, beside) and adds_up(share, of, share=0.6), line


@pytest.mark.parametrize(("own", "proved"), [(60, False), (70, True)])
def test_a_bound_above_what_was_measured_proves_nothing(own: int, proved: bool) -> None:
    graph = training_chain(4)
    tried = TriedStep(Schedule.plain(graph), StepMeasurement((own + 5) * MIB, 5 * MIB), 5 * MIB)
    said = why_missed(graph, tried, allowed=40 * MIB, held=5 * MIB, proof=least(69 * MIB))
    known = "at least 69.0 MiB beside the 5.00 MiB that others hold, each op whole and at its traced size"
    assert (f"it is proved that the ops of any schedule request {known}" in said) == proved
    assert ("more than was measured, so nothing is proved" in said) == (not proved)
