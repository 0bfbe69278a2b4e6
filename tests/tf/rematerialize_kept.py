"""Test that a later run trains by an earlier one's plans where it may."""

from __future__ import annotations

import dataclasses
import gc
import json
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkmate
from checkmate.machine.stores.plan_folder import default_folder
from checkmate.machine.stores.plan_store import KeptPlan, PlanStore
from checkmate.solvers.compile.cache import cache_folder
from checkmate.tf import room
from checkmate.tf.devices import held_bytes, reset_peak
from checkmate.tf.models.batch import flatten, flatten_arguments
from checkmate.tf.training.plans import kept as kept_plans
from checkmate.tf.training.plans import planner as planner_module
from checkmate.tf.training.plans import trials
from checkmate.tf.training.plans.kept import _still_holds, earlier_plan, key_of
from checkmate.tf.training.plans.limit import Limit
from checkmate.tf.training.plans.plan import PlanRequest, foreseen, held_by_others, read_ahead
from checkmate.tf.training.plans.trials import Trials
from checkmate.tf.training.trace import live_step
from checkmate.tf.training.watch import reading_of, went_over
from checkmate.training import _plan_request
from tests.tf.rematerialized import FAST, conv_model, data, plans, reader, recomputations, within

cache_folder()  # compiled kernels are taken from where they are, whatever the cache folder of a test is

EARLIER = "from an earlier run's plan (measured then, "
X, Y = data(16 + 6)


@dataclass(frozen=True)
class Run:
    """A run that was the first: what it said, and how it trained."""

    cache: Path
    steps: list[list[int] | None]
    allowed: int
    lines: list[str]
    losses: list[float]


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """Return a run with a smaller last batch, whose plans are kept."""
    cache, lines = tmp_path_factory.mktemp("first"), list[str]()
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(cache))
        patch.setattr(sys.stderr, "write", lines.append)
        model, losses = trained(quiet=False)
    said = [line.strip() for line in lines if line.startswith("checkmate: ")]
    return Run(cache, steps_of(model), model.train_function.training.planner.allowed_bytes, said, losses)


@pytest.fixture(autouse=True)
def cache_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Keep plans where no other test does, and hold no models of other tests."""
    keras.backend.clear_session()
    gc.collect()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def kept(first: Run, tmp_path: Path, cache_of_its_own: None) -> Run:
    """Return the first run; its plans are in this test's cache too."""
    shutil.copytree(first.cache, tmp_path / "cache")
    return first


@pytest.fixture
def nothing_is_tried(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Return a function after whose call no step may be measured."""

    def refuse(*arguments: Any) -> None:
        raise AssertionError("a step was measured")

    def begin() -> None:
        monkeypatch.setattr(trials.Trials, "run", refuse)
        monkeypatch.setattr(trials.Trials, "run_plain", refuse)

    return begin


def trained(budget: Any = "75%", **options: Any) -> tuple[Any, list[float]]:
    """Train a model with a smaller last batch; return it and its losses."""
    model = within(conv_model(), budget, cache=True, **options)
    losses = model.fit(X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0).history["loss"]
    return model, losses


def steps_of(model: Any) -> list[list[int] | None]:
    return [None if plan.schedule is None else plan.schedule.steps.tolist() for plan in plans(model)]


def told(capfd: pytest.CaptureFixture[str]) -> list[str]:
    return [line for line in capfd.readouterr().err.splitlines() if line.startswith("checkmate: ")]


def files() -> list[Path]:
    return sorted(default_folder().iterdir()) if default_folder().exists() else []


def scheduled_file() -> Path:
    """Return the file of the plan that is not plain."""
    (found,) = [path for path in files() if json.loads(path.read_text())["steps"] is not None]
    return found


def test_a_second_run_trains_by_the_same_schedules_at_once(
    kept: Run, nothing_is_tried: Any, capfd: pytest.CaptureFixture[str]
) -> None:
    assert kept.steps[0] is not None and kept.steps[1] is None
    assert len(files()) == 2 and not any(EARLIER in line for line in kept.lines)
    nothing_is_tried()
    second, losses = trained(quiet=False)
    assert steps_of(second) == kept.steps and recomputations(second) > 0
    for line, before in zip(told(capfd), kept.lines, strict=True):
        assert line.startswith(f"{before}; {EARLIER}20")
    assert losses == pytest.approx(kept.losses, rel=1e-4)
    planner = second.train_function.training.planner
    # It is watched as the first one was.
    assert planner.watched_bytes(plans(second)[0].layout) == planner.allowed_bytes == kept.allowed


def test_any_function_has_its_kept_plan(nothing_is_tried: Any) -> None:
    weights = [tf.Variable(0.1 * tf.ones((3, 3, 3 if not i else 16, 16))) for i in range(5)]

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            for weight in weights:
                x = tf.nn.tanh(tf.nn.conv2d(x, weight, 1, "SAME"))
            loss = tf.reduce_mean(tf.square(x))
        for weight, gradient in zip(weights, tape.gradient(loss, weights), strict=True):
            weight.assign_sub(0.5 * gradient)
        return loss

    def scheduled() -> Any:
        options = {"options": FAST, "solver": "greedy", "quiet": True}
        return checkmate.rematerialize_function(step, "70%", example=X[:16], **options)

    first = scheduled()
    nothing_is_tried()
    second = scheduled()
    found = [next(iter(each.planner._plans.values())) for each in (first, second)]
    assert found[1].schedule.steps.tolist() == found[0].schedule.steps.tolist()
    assert EARLIER in found[1].sentence and np.isfinite(float(second(X[:16])))


def request(budget: Any = "75%", **options: Any) -> PlanRequest:
    chosen = {"on_miss": "closest", "solver": "greedy", "options": FAST, "cache": True, "quiet": True}
    return _plan_request(budget, **{**chosen, **options})


def key(model: Any = None, count: int = 16, limit: Limit | None = None, **options: Any) -> str:
    layout, _ = flatten(data(count))
    return key_of(live_step(model or conv_model(), layout), request(**options), limit)


def mixed() -> Any:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return conv_model()
    finally:
        keras.config.set_dtype_policy("float32")


def test_the_key_is_that_of_the_step_and_of_all_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = key()
    # A budget in bytes does not depend on which layout came first.
    assert key(budget="3MiB", limit=Limit(3 * 2**20)) == key(budget="3MiB")
    # Not the names that Keras counts on, nor what the optimizer's numbers are.
    assert key() == usual == key(conv_model(optimizer=keras.optimizers.Adam(0.5)))
    others = {
        "batch": key(count=15),
        "optimizer": key(conv_model(optimizer="sgd")),
        "loss": key(conv_model(loss=keras.losses.SparseCategoricalCrossentropy(ignore_class=3))),
        "more layers": key(conv_model(blocks=4)),
        "precision": key(mixed()),
        "share": key(budget="74%"),
        "bytes": key(budget="3MiB"),
        "of another step": key(limit=Limit(10**7)),
        "solver": key(solver="auto"),
        "time": key(options=checkmate.SolveOptions(time_limit_s=2.0)),
        "seed": key(options=checkmate.SolveOptions(time_limit_s=1.0, seed=1)),
        "on_miss": key(on_miss="raise"),
    }
    monkeypatch.setenv("TF_CPU_BFC_MEM_LIMIT_IN_MB", "1234")
    others["memory"] = key()
    monkeypatch.undo()
    monkeypatch.setattr(checkmate, "__version__", "0.0.1")
    others["version"] = key()
    assert usual not in others.values()
    assert len(set(others.values())) == len(others)


@pytest.mark.parametrize("conditional", [False, True])
def test_the_key_is_that_of_the_bodies_of_loops_and_conditions_too(conditional: bool) -> None:
    def looping(count: int = 3, width: int = 8, rate: float = 0.5) -> str:
        def turn(i: tf.Tensor, x: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
            return i + 1, x + rate * tf.matmul(tf.ones((16, width)), tf.ones((width, 3072)))

        def step(x: tf.Tensor) -> tf.Tensor:
            flat = tf.tanh(tf.reshape(x, (16, 3072)))
            if conditional:
                found = tf.cond(flat[0, 0] > 0.0, lambda: turn(0, flat)[1] * float(count), lambda: flat)
            else:
                _, found = tf.while_loop(lambda i, x: i < count, turn, (0, flat))
            return tf.reduce_sum(tf.tanh(found))

        scheduled = checkmate.rematerialize_function(step, "90%", options=FAST, solver="greedy", quiet=True)
        traced = scheduled._traced(flatten_arguments(((tf.constant(X[:16]),), {}))[0])
        return key_of(traced, request(), None)

    usual = looping()
    assert looping() == usual
    assert len({usual, looping(count=4), looping(width=9), looping(rate=0.25)}) == 4


def test_a_plan_is_looked_for_where_others_hold_a_little_more_or_less(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    layout, _ = flatten(data(16))
    step = live_step(conv_model(), layout)
    found, grain = [], 2 * read_ahead(step.graph)
    for held in (0, grain // 2, 3 * grain // 2, 9 * grain):
        monkeypatch.setattr(kept_plans, "held_by_others", lambda graph, held=held: held)
        found.append(kept_plans.names_of(step, request(), None))
    assert found[0] == found[1]
    assert found[2][0] != found[1][0] and found[2][0] in found[1] and found[1][0] in found[2]
    assert not set(found[3]) & set(found[0])


def test_without_the_cache_nothing_is_read_or_kept(kept: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in files()}
    model = within(conv_model(), example=(X[:16], Y[:16]), cache=False)
    assert EARLIER not in plans(model)[0].sentence
    assert {path: path.stat().st_mtime_ns for path in files()} == before


def test_what_a_passing_shortage_decides_is_not_kept(kept: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a kept plan is not used without room, and stays for later."""
    before = {path: path.read_bytes() for path in files()}
    monkeypatch.setattr(room, "free_bytes", lambda kind: 10_000)
    model, _ = trained()
    assert not any(EARLIER in plan.sentence for plan in plans(model))
    assert "because the plain step's peak was not measured" in plans(model)[0].sentence
    assert {path: path.read_bytes() for path in files()} == before
    monkeypatch.undo()


def test_only_a_sound_plan_of_this_step_is_used() -> None:
    """Check a plan that can be used, one of another step's, and a damaged one."""
    lines: list[str] = []
    asked = dataclasses.replace(request("9MiB"), tell=lines.append)
    layout, _ = flatten(data(16))
    step = live_step(conv_model(), layout)
    name, limit = key_of(step, asked, None), Limit(9 * 2**20)
    order = tuple(range(step.graph.n))
    plan = KeptPlan(
        order, 2**20, held_by_others(step.graph), limit.bytes, "", 0, 1.5, "batch of 16: kept", ""
    )
    store = PlanStore(default_folder())
    store.keep(name, plan)
    found = earlier_plan(step, asked, name)
    assert found is not None and (found.limit, found.rate, lines) == (limit, 1.5, [])
    assert found.plan.schedule is not None and tuple(found.plan.schedule.steps.tolist()) == order
    missed = dataclasses.replace(plan, peak_bytes=10 * 2**20, over_bytes=2**20, sentence="over by 1 MiB")
    store.keep(name, missed)
    found = earlier_plan(step, asked, name)
    assert found is not None and found.plan.over_bytes == 2**20
    assert found.plan.sentence.startswith(f"over by 1 MiB; {EARLIER}")
    # What others hold now counts, and the line says how the peak was known.
    store.keep(name, dataclasses.replace(missed, held_bytes=missed.held_bytes + 2**19, measured=False))
    found = earlier_plan(step, asked, name)
    assert found is not None and found.plan.over_bytes == 2**19
    assert "from an earlier run's plan (predicted then, " in found.plan.sentence
    store.keep(name, dataclasses.replace(plan, steps=order[::-1]))
    assert earlier_plan(step, asked, name) is None
    assert "the independent check rejects its schedule" in lines[0]
    (path,) = files()
    path.write_bytes(path.read_bytes()[:200])
    assert earlier_plan(step, asked, name) is None
    assert lines[1].startswith(f"a kept plan is damaged and not used: {path}") and len(lines) == 2


def test_a_plan_is_used_only_where_it_fits_beside_what_others_hold() -> None:
    plan = KeptPlan(None, 80, 10, 100, "", 0, 0.0, "", "")  # 70 of its own
    assert [held for held in range(60) if _still_holds(plan, held, 3)] == list(range(31))
    crowded = dataclasses.replace(plan, peak_bytes=100, held_bytes=30)
    # With far less around it, a cheaper plan may fit.
    assert [held for held in range(60) if _still_holds(crowded, held, 3)] == list(range(15, 31))
    assert [held for held in range(60) if _still_holds(crowded, held, 10)] == list(range(10, 31))
    over = dataclasses.replace(plan, held_bytes=30, over_bytes=5)
    assert [held for held in range(60) if _still_holds(over, held, 3)] == list(range(15, 46))


def test_what_goes_over_the_budget_in_training_is_replaced() -> None:
    model, _ = trained()
    planner, plan, path = model.train_function.training.planner, plans(model)[0], scheduled_file()
    planner.exceeded(plan.layout, int(1.05 * planner.allowed_bytes))
    better = planner.plan(plan.layout, flatten(data(16))[1])
    assert better.peak_bytes < 0.97 * planner.allowed_bytes and EARLIER not in better.sentence
    assert json.loads(path.read_text())["steps"] == better.schedule.steps.tolist()


def test_what_was_seen_over_the_budget_is_not_kept_where_nothing_is_better(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    for _ in range(2):
        model = within(conv_model(), "9MiB", cache=True, example=(X[:16], Y[:16]))
    planner, plan = model.train_function.training.planner, plans(model)[0]
    assert EARLIER in plan.sentence
    before = {path: json.loads(path.read_text())["steps"] for path in files()}
    monkeypatch.setattr(planner, "_make", lambda *arguments: dataclasses.replace(plan, over_bytes=1))
    planner.exceeded(plan.layout, int(1.05 * planner.allowed_bytes))
    again = planner.plan(plan.layout, flatten(data(16))[1])
    assert again.sentence.endswith("the earlier plan is kept")
    (gone,) = before.keys() - set(files())
    assert before[gone] == plan.schedule.steps.tolist()


@pytest.mark.parametrize("warms", [True, False])
def test_the_first_step_of_a_kept_plan_is_not_judged_where_it_warms_up(
    warms: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = within(conv_model(), "9MiB", cache=True, example=(X[:16], Y[:16]))
    monkeypatch.setattr(planner_module, "warms_up", lambda kind: warms)  # as on a GPU
    model = within(conv_model(), "9MiB", cache=True, example=(X[:16], Y[:16]))
    planner, layout = model.train_function.training.planner, plans(model)[0].layout
    assert EARLIER in plans(model)[0].sentence

    def took_much() -> bool:
        before = reading_of(planner, layout)
        tf.zeros((2 * planner.allowed_bytes + before.peak_bytes,), tf.int8)
        return went_over(planner, [layout], before)

    reset_peak("CPU:0")
    assert took_much() is not warms
    if warms:
        assert reading_of(planner, layout).peak_bytes < planner.allowed_bytes
        assert took_much()  # the next step is judged


def test_what_others_take_is_told_once_and_no_reason_to_plan_again() -> None:
    model = within(conv_model(), "9MiB", example=(X[:16], Y[:16]))
    planner, plan = model.train_function.training.planner, plans(model)[0]
    # What is foreseen is the most that others held in any trial, so it may be more than beside this one.
    assert plan.foreseen_bytes >= foreseen(plan.step, plan.held_bytes) >= read_ahead(plan.step.graph)
    lines: list[str] = []
    planner.request = dataclasses.replace(planner.request, tell=lines.append)

    def step_beside(others: int, took: int) -> bool:
        reset_peak("CPU:0")
        before = reading_of(planner, plan.layout)
        cache = tf.zeros((others,), tf.int8)
        tf.zeros((took,), tf.int8)
        over = went_over(planner, [plan.layout], before)
        del cache
        return over

    allowed = planner.allowed_bytes
    assert not step_beside(plan.foreseen_bytes + allowed, took=2**20)
    assert len(lines) == 1 and "because others hold" in lines[0] and lines[0].endswith("keeps to its plan")
    assert not step_beside(plan.foreseen_bytes + allowed, took=2**20) and len(lines) == 1
    assert planner.planned(plan.layout) is plan
    # The step itself took more than the budget.
    assert step_beside(plan.foreseen_bytes + allowed, took=2 * allowed)
    assert planner.planned(plan.layout) is None and "solving again for less" in lines[-1]


def test_what_others_come_to_hold_while_a_plan_is_made_is_not_the_step_s() -> None:
    layout, tensors = flatten(data(16))
    step = live_step(conv_model(), layout)
    trials = Trials(step, tensors, None, lambda _: None)
    alone = trials.run(step.everything, "alone")
    before = held_bytes("CPU:0")
    batches = tf.zeros((8, 2**20), tf.int8)  # as a data set prepares them
    taken = held_bytes("CPU:0") - before  # their chunk may be larger
    assert taken >= int(tf.size(batches))
    beside = trials.run(step.everything, "beside them")
    assert abs(beside.own_bytes - alone.own_bytes) < 2**19
    assert abs(beside.others_bytes - alone.others_bytes - taken) < 2**19
    assert trials.held == beside.others_bytes


def test_a_new_length_is_planned_with_what_is_known_of_the_last(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    asked: list[bool] = []
    measure = trials.measure_scheduled

    def noted(*arguments: Any, costs: bool, within: int | None) -> Any:
        asked.append(costs)
        return measure(*arguments, costs=costs, within=within)

    monkeypatch.setattr(trials, "measure_scheduled", noted)
    model = within(reader(), "75%", quiet=False)
    for length in (96, 104):
        tokens = np.arange(16 * length).reshape(16, length) % 50
        model.train_on_batch(tokens, np.ones((16, length, 8), np.float32))
        asked.append(False)
    lines = told(capfd)
    lengths = [line.split(": ")[1] for line in lines if " recomputation" in line]
    assert lengths[0] == "batch of 16, length 96" and lengths[-1] == "batch of 16, length 104"
    assert asked[0] and not any(asked[1:])  # the costs of ops are measured once
    assert recomputations(model) > 0 and all(plan.schedule is not None for plan in plans(model))
    assert (
        max(plan.peak_bytes for plan in plans(model)) <= model.train_function.training.planner.allowed_bytes
    )
