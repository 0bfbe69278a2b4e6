"""Test that a profile uses the costs that earlier profiles measured."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import tensorflow as tf

from checkmate.backends.tf.costs import fresh, profile
from checkmate.backends.tf.costs.known import CostOptions, KnownCosts, NodeCosts, signatures
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.errors import CancelledError
from checkmate.ir import CostOrigin
from checkmate.machine.cost_origin import reading_words
from checkmate.machine.cost_store import CostStore
from checkmate.machine.load import CpuTimes, LoadMeter, Reading
from checkmate.progress import Progress, never, silent
from checkmate.request import ModelRequest

MODELS = Path(__file__).parents[1].joinpath("small_models.py")


def folded_model(name: str, **options: object) -> FoldedStep:
    request = ModelRequest(
        f"{MODELS}:{name}", **{"batch_size": 4, "device": "cpu", "allow_code": True, **options}
    )
    return trace_request(request, report=silent, cancelled=never)


@cache
def convnet() -> FoldedStep:
    return folded_model("convnet")


class Metered(LoadMeter):
    """A meter for two cores, ``others`` of them used by other programs; every run takes the same time."""

    def __init__(self, others: float) -> None:
        self.cores, self._others = 2, others
        self._seconds, self._clock = itertools.count(), itertools.count()

    def read(self) -> CpuTimes:
        at = float(next(self._seconds))
        return CpuTimes(at, everyone=at * (self._others + 1.0), own=at)

    def clock(self) -> float:
        return 0.01 * next(self._clock)

    def wait(self, seconds: float) -> None:
        pass


def profiled(folded: FoldedStep, store: CostStore, *, others: float = 0.0, **options: object) -> FoldedStep:
    costs = CostOptions("measured", store=store, meter=Metered(others), **options)
    return fresh.with_costs(folded, costs, report=silent, cancelled=never)


@contextmanager
def nothing_measured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    def refuse(*_: object, **__: object) -> None:
        raise AssertionError("something is measured")

    with monkeypatch.context() as patch:
        patch.setattr(profile, "measure_nodes", refuse)
        yield


def cache_facts(folded: FoldedStep) -> tuple[int, int]:
    facts = folded.graph.metadata["profile"]["cache"]
    return facts["ops"], facts["measured_now"]


@pytest.mark.heavy
def test_a_second_profile_measures_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "costs.sqlite"
    first = profiled(convnet(), CostStore(path))
    count = first.graph.n
    assert cache_facts(first) == (0, count)
    with nothing_measured(monkeypatch):
        second = profiled(folded_model("convnet"), CostStore(path))
        with pytest.raises(AssertionError, match="is measured"):
            profiled(convnet(), CostStore(path), refresh=True)
    assert cache_facts(second) == (count, 0) and second.graph.cost_origin is CostOrigin.MEASURED
    assert second.graph.base_cost == pytest.approx(first.graph.base_cost)
    keys = signatures(convnet())
    for graph in (first.graph, second.graph):
        assert all(op.cost >= 0 for op in graph.ops)
    alone = [node for node, key in enumerate(keys) if keys.count(key) == 1]
    assert len(alone) > count / 2
    for node in alone:
        assert second.graph.ops[node].cost == first.graph.ops[node].cost
    assert second.graph.metadata["profile"]["allocated_per_requested"] == pytest.approx(
        first.graph.metadata["profile"]["allocated_per_requested"]
    )


def test_signatures_tell_batches_apart_and_not_traces() -> None:
    here, again, larger = (
        signatures(step)
        for step in (convnet(), folded_model("convnet"), folded_model("convnet", batch_size=5))
    )
    assert here == again
    # Ops without a batch (weights, their update) cost the same.
    shared = [node for node, pair in enumerate(zip(here, larger, strict=True)) if pair[0] == pair[1]]
    assert all("Conv2D" not in convnet().graph.ops[node].type.split("+") for node in shared)
    assert len(shared) < len(here) / 2


def test_threads_and_device_are_part_of_a_signature(monkeypatch: pytest.MonkeyPatch) -> None:
    here = signatures(convnet())
    device = dataclasses.replace(convnet().graph.device, name="another")
    other = dataclasses.replace(convnet(), graph=dataclasses.replace(convnet().graph, device=device))
    assert not set(here) & set(signatures(other))
    monkeypatch.setattr(tf.config.threading, "get_intra_op_parallelism_threads", lambda: 17)
    assert not set(here) & set(signatures(convnet()))


@pytest.mark.parametrize("press", ["polite", pytest.param("at once", marks=pytest.mark.heavy)])
def test_an_interrupted_profile_goes_on(press: str, tmp_path: Path) -> None:
    path, reports = tmp_path / "costs.sqlite", []

    def report(progress: Progress) -> None:
        reports.append(progress)
        if press == "at once" and progress.message == "run 3":
            raise KeyboardInterrupt

    def cancelled() -> bool:
        return press == "polite" and any(progress.message == "run 2" for progress in reports)

    costs = CostOptions("measured", store=CostStore(path))
    with pytest.raises(CancelledError) as raised:
        fresh.with_costs(convnet(), costs, report=report, cancelled=cancelled)
    assert "what 2 runs measured is in the cost cache" in raised.value.hint
    known = KnownCosts.look_up(convnet(), CostStore(path), refresh=False)
    assert set(known.entries) == set(known.keys) and known.nodes == ()
    before = known.entries[known.keys[0]].runs
    assert before == 2 and known.runs_wanted == 1
    more: list[Progress] = []
    costs = CostOptions("measured", store=CostStore(path))
    ended = fresh.with_costs(convnet(), costs, report=more.append, cancelled=never)
    assert [progress.message for progress in more if progress.message.startswith("run ")] == ["run 1"]
    assert cache_facts(ended) == (0, convnet().graph.n)
    assert KnownCosts.look_up(convnet(), CostStore(path), refresh=False).is_all


def found(graph_size: int, seconds: float, runs: int = 3) -> NodeCosts:
    return NodeCosts((seconds,) * graph_size, (0.0,) * graph_size, (0,) * graph_size, runs, 1.0)


@pytest.mark.parametrize("busy", [0.25, 1.0, 4.0])
def test_known_costs_keep_their_proportions_and_the_quicker_one_counts(busy: float, tmp_path: Path) -> None:
    folded, store = convnet(), CostStore(tmp_path / "costs.sqlite")
    count = folded.graph.n
    first = NodeCosts(
        tuple(float(node + 1) for node in range(count)), (0.0,) * count, (4096,) * count, 5, 1.2
    )
    assert KnownCosts.look_up(folded, store, refresh=False).keep(first, folded.graph, ended=True)
    everything = KnownCosts.look_up(folded, store, refresh=False)
    assert everything.is_all and sum(everything.costs().seconds) == pytest.approx(sum(first.seconds))
    some = dataclasses.replace(
        everything, entries={key: everything.entries[key] for key in list(everything.entries)[::2]}
    )
    truth = everything.costs().seconds
    now = dataclasses.replace(found(count, 0.0), seconds=tuple(busy * cost for cost in truth))
    merged = some.merged(now)
    assert merged.seconds == pytest.approx([min(1.0, busy) * cost for cost in truth])
    known = some.nodes
    assert 0 < len(known) < count
    assert [node for node in range(count) if merged.workspace[node]] == list(known)
    some.keep(merged, folded.graph, ended=True)
    after = store.look_up(some.keys)
    assert all(after[key] == entry for key, entry in some.entries.items()), (
        "what was known stays as it was measured"
    )


def test_a_resumed_profile_weighs_its_runs(tmp_path: Path) -> None:
    folded, store = convnet(), CostStore(tmp_path / "costs.sqlite")
    count = folded.graph.n
    KnownCosts.look_up(folded, store, refresh=False).keep(
        found(count, 1.0, runs=2), folded.graph, ended=False
    )
    resumed = KnownCosts.look_up(folded, store, refresh=False)
    assert resumed.nodes == () and resumed.runs_wanted == 1
    uneven = NodeCosts(
        tuple(0.5 if node % 2 else 1.5 for node in range(count)), (0.0,) * count, (0,) * count, 1, 1.0
    )
    merged = resumed.merged(uneven)
    total = sum(merged.seconds)
    assert total == pytest.approx(min(sum(uneven.seconds), count))
    odd, even = merged.seconds[1], merged.seconds[0]
    assert odd / even == pytest.approx((2 + 0.5) / (2 + 1.5), rel=0.02), (
        "two runs of 1.0 and one of 0.5 or 1.5"
    )
    resumed.keep(merged, folded.graph, ended=True)
    assert KnownCosts.look_up(folded, store, refresh=False).costs().runs == 3


@pytest.mark.heavy
def test_costs_read_on_a_busy_machine_are_read_again_on_a_quiet_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path, count = tmp_path / "costs.sqlite", convnet().graph.n
    busy = profiled(convnet(), CostStore(path), others=1.4).graph
    told = busy.metadata["profile"]["reading"]
    assert (told["load"], told["cores"], told["spread"]) == (pytest.approx(1.4), 2, pytest.approx(0.0))
    spreads = busy.metadata["profile"]["op_spread"]
    assert len(spreads) == count and all(spread >= 0 for spread in spreads) and any(spreads)
    assert told["doubtful_ops"] == count and told["doubtful_share"] == pytest.approx(1.0)
    assert "busy machine (other programs took 1.4 of 2 cores" in reading_words(busy)
    with nothing_measured(monkeypatch):
        still = profiled(convnet(), CostStore(path), others=1.4)
        with pytest.raises(AssertionError, match="is measured"):
            profiled(convnet(), CostStore(path))
    assert cache_facts(still) == (count, 0) and reading_words(still.graph) == reading_words(busy)
    quiet = profiled(convnet(), CostStore(path))
    assert cache_facts(quiet) == (0, count) and reading_words(quiet.graph) == ""
    assert quiet.graph.metadata["profile"]["plain_per_predicted"] == pytest.approx(1.0)
    rows = CostStore(path).look_up(signatures(convnet()))
    assert rows and all(row.load == 0.0 for row in rows.values())
    profiled(convnet(), CostStore(path), others=1.4, refresh=True)
    again = CostStore(path).look_up(signatures(convnet()))
    assert again == rows, "a worse reading takes no place, even where all is measured anew"
    with nothing_measured(monkeypatch):
        assert reading_words(profiled(convnet(), CostStore(path)).graph) == ""


@pytest.mark.parametrize("others", [0.0, 1.4])
def test_a_measuring_process_starts_only_on_a_quiet_machine(
    others: float, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folded, store, started = convnet(), CostStore(tmp_path / "costs.sqlite"), []
    slow = dataclasses.replace(found(folded.graph.n, 1.0), reading=Reading(1.4, 2))
    assert KnownCosts.look_up(folded, store, refresh=False).keep(slow, folded.graph, ended=True)
    answer = {
        "costs": [0.5] * folded.graph.n,
        "notes": {"reading": found(folded.graph.n, 0.5).reading_facts()},
    }

    def run_task(task: dict[str, Any], **_: object) -> dict[str, Any]:
        started.append(task)
        return {**answer, "workspace": {}, "reserves": {}, "pieces": {}}

    monkeypatch.setattr(fresh, "run_task", run_task)
    request = ModelRequest(f"{MODELS}:convnet", batch_size=4, device="cpu", allow_code=True)
    costs = CostOptions("measured", store=store, meter=Metered(others))
    graph = fresh.with_costs(folded, costs, request=request, report=silent, cancelled=never).graph
    assert len(started) == (others == 0.0)
    assert graph.base_cost == pytest.approx(folded.graph.n * (1.0 if others else 0.5))
    assert ("busy machine" in reading_words(graph)) is (others > 0)


def half_doubtful(store: CostStore, folded: FoldedStep) -> KnownCosts:
    """Return costs of which every second op was read on a busy machine. Those ops took ten times as long."""
    every = found(folded.graph.n, 1.0)
    slow = dataclasses.replace(every, seconds=(10.0,) * folded.graph.n, reading=Reading(1.4, 2))
    keys = list(dict.fromkeys(signatures(folded)))
    for costs_read, some in ((every, keys[::2]), (slow, keys[1::2])):
        each = KnownCosts(tuple(signatures(folded)), {}, store)
        rows = {
            key: each._new_entry(key, [each.keys.index(key)], costs_read, folded.graph, True) for key in some
        }
        assert store.keep(rows)
    return KnownCosts.look_up(folded, store, refresh=False, is_quiet=lambda: True)


def test_only_doubtful_costs_are_read_again(tmp_path: Path) -> None:
    folded, store = convnet(), CostStore(tmp_path / "costs.sqlite")
    known = half_doubtful(store, folded)
    before = known.entries
    assert 0 < len(known.nodes) < folded.graph.n and known.runs_wanted == 3
    assert found(0, 0.0).reading_facts()["doubtful_share"] == 0.0
    merged = known.merged(found(folded.graph.n, 2.0))
    assert merged.seconds == pytest.approx([1.0] * folded.graph.n), (
        "only the quicker reading counts, and nothing of the busy one"
    )
    assert merged.reading_facts()["doubtful_ops"] == 0
    assert known.keep(merged, folded.graph, ended=True)
    after = store.look_up(known.keys)
    assert all(after[known.keys[node]] == before[known.keys[node]] for node in known.nodes)
    assert all(row.load == 0.0 and row.seconds == pytest.approx(1.0) for row in after.values())


def test_a_worse_or_interrupted_second_reading_changes_nothing(tmp_path: Path) -> None:
    folded, store = convnet(), CostStore(tmp_path / "costs.sqlite")
    known = half_doubtful(store, folded)
    worse = dataclasses.replace(found(folded.graph.n, 50.0), reading=Reading(1.9, 2))
    merged = known.merged(worse)
    kept = [known.entries[key].seconds for key in known.keys]
    assert merged.seconds == pytest.approx([cost * sum(merged.seconds) / sum(kept) for cost in kept])
    assert merged.reading_facts()["load"] == 1.4
    assert not known.keep(merged, folded.graph, ended=True)
    assert not known.keep(known.merged(found(folded.graph.n, 1.0, runs=2)), folded.graph, ended=False)
    assert store.look_up(known.keys) == known.entries
