"""Test that a later run trains by an earlier one's plans where it may."""

from __future__ import annotations

import dataclasses
import gc
import json
import shutil
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest
import tensorflow as tf

import checkmate
from checkmate.backends.tf import memory_check
from checkmate.backends.tf.live.measure import ReadyStep, StepMeasurement
from checkmate.backends.tf.live.trace import LiveStep, step_of_fit
from checkmate.backends.tf.models.batch import flatten, flatten_arguments
from checkmate.ir import CostUnit, Schedule
from checkmate.machine.cost_store import plans_folder
from checkmate.machine.plan_store import KeptPlan, PlanStore
from checkmate.planning import schedule_solver
from checkmate.planning.plan_request import PlanRequest
from checkmate.solvers.compile.cache import machine_code_file
from checkmate.training import kept as kept_module
from checkmate.training import trials
from checkmate.training.api import _plan_request
from checkmate.training.kept import look_up, made_with, name_of
from checkmate.training.known import facts_of, known_limit, known_plan, recall, seen_over
from checkmate.training.limit import Limit
from checkmate.training.plan import StepPlan, held_by_others
from checkmate.training.search import PlanSearch
from checkmate.training.trials import Trials, TriedStep
from checkmate.units import format_bytes
from tests.tf.rematerialize_files import EARLIER, X, Y, files, scheduled_file, told, trained
from tests.tf.rematerialized import FAST, conv_model, data, plans, recomputations, sentences, within

machine_code_file()  # compiled kernels are taken from where they are, whatever the cache folder of a test is


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
def measured_since(monkeypatch: pytest.MonkeyPatch) -> Callable[[], list[list[int]]]:
    """Return a function after whose call nothing is solved for.

    No plain step is measured either. What the function returns gets the schedules that are measured.
    """

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the plain step was measured, or something was solved for")

    def begin() -> list[list[int]]:
        found: list[list[int]] = []
        measure = trials.measure_scheduled

        def noted(ready: ReadyStep, *arguments: Any, **options: Any) -> StepMeasurement:
            found.append(ready.schedule.steps.tolist())
            return measure(ready, *arguments, **options)

        monkeypatch.setattr(trials, "measure_scheduled", noted)
        monkeypatch.setattr(trials, "measure_plain", refuse)
        monkeypatch.setattr(schedule_solver, "solve", refuse)
        return found

    return begin


def steps_of(model: Any) -> list[list[int] | None]:
    return [None if plan.schedule is None else plan.schedule.steps.tolist() for plan in plans(model)]


def test_a_second_run_measures_the_same_schedules_once_and_trains_by_them(
    kept: Run, measured_since: Callable[[], list[list[int]]], capfd: pytest.CaptureFixture[str]
) -> None:
    assert kept.steps[0] is not None and kept.steps[1] is None
    assert len(files()) == 2 and not any(EARLIER in line for line in kept.lines)
    measured = measured_since()
    second, losses = trained(quiet=False)
    assert steps_of(second) == kept.steps and recomputations(second) > 0
    assert measured == [kept.steps[0]]
    for line, before in zip(told(capfd), kept.lines, strict=True):
        assert line == f"{before}; {EARLIER}"
    assert losses == pytest.approx(kept.losses, rel=1e-4)
    planner = second.train_function.training.planner
    # It is watched as the first one was.
    assert planner.watched_bytes(plans(second)[0].layout) == planner.allowed_bytes == kept.allowed


def test_any_function_has_its_kept_plan(measured_since: Callable[[], list[list[int]]]) -> None:
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
    measured = measured_since()
    second = scheduled()
    found = [next(iter(each.planner.plans)) for each in (first, second)]
    assert measured == [found[0].schedule.steps.tolist()] == [found[1].schedule.steps.tolist()]
    assert EARLIER in found[1].sentence and np.isfinite(float(second(X[:16])))


@pytest.mark.parametrize("own", [False, True])
def test_the_function_that_was_measured_of_a_kept_plan_trains(
    own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Check that nothing is emitted again, and losses are as before."""

    class Own(keras.Model):  # type: ignore[misc]
        def train_step(self, data: Any) -> Any:
            return super().train_step(data)

    def history() -> tuple[Any, dict[str, list[float]]]:
        model = conv_model(metrics=["accuracy"])
        if own:
            optimizer, loss, model = model.optimizer, model.loss, Own(model.inputs, model.outputs)
            model.compile(optimizer, loss, metrics=["accuracy"], jit_compile=False)
        model = within(model, cache=True)
        weights = {0: 1.0, 1: 2.0, 2: 0.5, 3: 1.0}
        return model, model.fit(
            X, Y, batch_size=16, epochs=2, shuffle=False, verbose=0, class_weight=weights
        ).history

    def refuse(*arguments: Any, **options: Any) -> None:
        raise AssertionError("the step was emitted once more")

    first, expected = history()
    monkeypatch.setattr(LiveStep, "run", refuse)
    second, found = history()
    assert recomputations(first) > 0 and steps_of(second) == steps_of(first)
    assert found.keys() == expected.keys() and len(found) >= 1
    for name, values in expected.items():
        assert found[name] == pytest.approx(values, rel=1e-4), name


def test_a_random_op_without_a_variable_begins_anew_in_training() -> None:
    weights = [tf.Variable(0.005 * tf.ones((3, 3, 3 if not i else 16, 16))) for i in range(5)]

    def step(x: tf.Tensor) -> tf.Tensor:
        with tf.GradientTape() as tape:
            x += tf.random.normal(tf.shape(x), seed=3)
            for weight in weights:
                x = tf.nn.tanh(tf.nn.conv2d(x, weight, 1, "SAME"))
            loss = tf.reduce_mean(tf.square(x))
        gradients = tape.gradient(loss, weights)
        for weight, gradient in zip(weights, gradients, strict=True):
            weight.assign_sub(0.0 * gradient)
        return loss

    def losses() -> list[float]:
        options = {"options": FAST, "solver": "greedy", "quiet": True}
        scheduled = checkmate.rematerialize_function(step, "70%", example=X[:16], **options)
        (plan,) = scheduled.planner.plans
        assert plan.schedule.recomputations > 0 and plan.ready is None
        return [float(scheduled(X[:16])) for _ in range(3)]

    expected = losses()
    assert losses() == pytest.approx(expected, rel=1e-5) and len(set(expected)) == 3


def request(budget: Any = "75%", **options: Any) -> PlanRequest:
    chosen = {"on_miss": "closest", "solver": "greedy", "options": FAST, "cache": True, "quiet": True}
    return _plan_request(budget, **{**chosen, **options})


def key(model: Any = None, count: int = 16, **options: Any) -> str:
    layout, _ = flatten(data(count))
    return name_of(step_of_fit(model or conv_model(), layout), request(**options))


def mixed() -> Any:
    keras.config.set_dtype_policy("mixed_float16")
    try:
        return conv_model()
    finally:
        keras.config.set_dtype_policy("float32")


def test_the_key_is_that_of_the_step_and_of_all_that_decides(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = key()
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
        traced = scheduled.trace(flatten_arguments(((tf.constant(X[:16]),), {}))[0])
        return name_of(traced, request())

    usual = looping()
    assert looping() == usual
    assert len({usual, looping(count=4), looping(width=9), looping(rate=0.25)}) == 4


@dataclass(frozen=True)
class Measured:
    """A step that was measured before, in MiB of its own beside 10 MiB.

    The plain step took 40 to 44; three schedules took 26, 22 and 18, each with more recomputations.
    """

    step: Any
    request: PlanRequest
    kept: KeptPlan

    def plan(
        self, held: float, rooms: tuple[int, ...] = (26 * 2**20,), budget: float = 0, **changes: Any
    ) -> StepPlan | None:
        """Return the plan of a later run while others hold ``held`` MiB. ``budget``: in MiB; 0: a share."""
        kept = dataclasses.replace(self.kept, rooms=rooms, **changes)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(trials, "held_by_others", lambda graph: int(held * 2**20))
            now = Trials(self.step, (), None, lambda _: None)
            recall(now, kept)
            limit = Limit(int(budget * 2**20)) if budget else known_limit(kept, self.request, now)
            assert limit is not None
            return known_plan(PlanSearch(now, limit, self.request), kept)


@pytest.fixture(scope="module")
def measured() -> Measured:
    layout, _ = flatten(data(16))
    step, asked = step_of_fit(conv_model(), layout), request("80%")
    held, before = 10 * 2**20, Trials(step, (), None, lambda _: None)
    tried = []
    for own, repeated in ((44, None), (26, 1), (22, 2), (18, 3)):
        order = [*range(step.graph.n)]
        again = [node for node in order if step.graph.ops[node].recomputable][: repeated or 0]
        schedule = None if repeated is None else Schedule.of(step.graph, order + again)
        peak = own * 2**20 + held
        found = StepMeasurement(peak, held, least_bytes=peak - 4 * 2**20 * (repeated is None))
        tried.append(TriedStep(schedule, found, held))
    before.recall(tried, dataclasses.replace(step.graph, cost_unit=CostUnit.SECONDS), 1.1)
    chosen, limit = tried[1], int(0.8 * 40 * 2**20) + held
    kept = dataclasses.replace(
        facts_of(before, ()),
        steps=tuple(chosen.schedule.steps.tolist()),
        peak_bytes=chosen.peak_bytes,
        held_bytes=held,
        limit_bytes=limit,
        sentence="as it was",
        date="2026-01-01",
    )
    return Measured(step, asked, kept)


def own_mib(plan: StepPlan | None) -> float | None:
    return None if plan is None else (plan.peak_bytes - plan.held_bytes) / 2**20


def test_a_later_run_takes_the_same_schedule_whatever_others_hold(measured: Measured) -> None:
    """Check that what others hold changes neither the plan nor needs a search.

    The budget is 80 % of what the plain step takes at least, and what others hold.
    """
    found = {held: measured.plan(held) for held in (10, 10.5, 0, 20, 40)}
    assert [own_mib(found[held]) for held in found] == [26] * 5
    for held in (10, 10.5):
        assert found[held].sentence == f"as it was; {EARLIER}\nit was measured then, 2026-01-01"
    assert found[0].sentence.endswith("since others hold 10.0 MiB less than then")
    assert "+ 40.0 MiB of others" in found[40].sentence
    assert found[40].sentence.endswith("since others hold 30.0 MiB more than then")
    assert all(
        not plan.over_bytes and plan.peak_bytes <= (0.8 * 40 + held) * 2**20 for held, plan in found.items()
    )


def test_within_bytes_a_later_run_takes_the_cheapest_schedule_that_fits_beside_others(
    measured: Measured,
) -> None:
    found = [measured.plan(10, budget=42), measured.plan(40, budget=64)]
    assert [own_mib(plan) for plan in found] == [26, 22]
    assert not any(plan.over_bytes for plan in found)


def test_a_search_is_due_where_nothing_known_fits_or_far_more_is_left(measured: Measured) -> None:
    assert measured.plan(80, budget=96) is None  # 16 MiB are left for the step
    cheaper = measured.kept.tried[:1] + measured.kept.tried[3:]  # the plain step, and 18 MiB
    dear = {"steps": cheaper[1].steps, "peak_bytes": cheaper[1].peak_bytes, "tried": cheaper}
    assert own_mib(measured.plan(0, (18 * 2**20,), **dear)) is None
    assert own_mib(measured.plan(0, (31 * 2**20,), **dear)) == 18  # nothing better was found then


def test_where_a_search_found_nothing_that_fits_the_closest_is_taken(measured: Measured) -> None:
    plan = measured.plan(80, (17 * 2**20,), budget=96)
    assert own_mib(plan) == 18 and plan.over_bytes > 0
    assert "the closest one trains" in plan.sentence and "30" not in plan.sentence[:20]


def test_a_plan_that_was_seen_over_the_budget_makes_room_for_the_next(measured: Measured) -> None:
    plan = measured.plan(10)
    seen = seen_over(measured.kept, plan, plan.peak_bytes + 8 * 2**20)
    again = measured.plan(10, tried=seen.tried)
    assert own_mib(plan) == 26 and own_mib(again) == 22 and not again.over_bytes


def test_without_the_cache_nothing_is_read_or_kept(kept: Run) -> None:
    before = {path: path.stat().st_mtime_ns for path in files()}
    model = within(conv_model(), example=(X[:16], Y[:16]), cache=False)
    assert EARLIER not in plans(model)[0].sentence
    assert {path: path.stat().st_mtime_ns for path in files()} == before


def test_what_a_passing_shortage_decides_is_not_kept(kept: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check that a kept plan is not used without room, and stays for later."""
    before = {path: path.read_bytes() for path in files()}
    monkeypatch.setattr(memory_check, "free_bytes", lambda kind: 10_000)
    model, _ = trained()
    assert not any(EARLIER in plan.sentence for plan in plans(model))
    assert "the plain step's peak was not measured" in plans(model)[0].sentence
    assert {path: path.read_bytes() for path in files()} == before
    monkeypatch.undo()


def test_only_a_sound_plan_of_this_step_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a plan that can be used, one of another step's, and a damaged one."""
    lines, asked = sentences(monkeypatch), request("9MiB")
    layout, _ = flatten(data(16))
    step = step_of_fit(conv_model(), layout)
    name, order = name_of(step, asked), tuple(range(step.graph.n))
    plan = KeptPlan(order, 2**20, 0, 9 * 2**20, "", 0, 1.5, "batch of 16: kept", "")
    store = PlanStore(plans_folder())
    store.keep(name, plan)
    assert look_up(step, asked, name) == plan and not lines
    store.keep(name, dataclasses.replace(plan, steps=order[::-1]))
    assert look_up(step, asked, name) is None
    assert "the independent check rejects its schedule" in lines[0]
    (path,) = files()
    path.write_bytes(path.read_bytes()[:200])
    assert look_up(step, asked, name) is None
    assert lines[1].startswith(f"a kept plan is damaged and not used: {path}") and len(lines) == 2


def test_a_kept_plan_whose_step_holds_more_here_is_not_believed(capfd: pytest.CaptureFixture[str]) -> None:
    """Keep the order that keeps everything, as if it took half a budget."""
    layout, _ = flatten(data(16))
    step = step_of_fit(conv_model(), layout)
    held = held_by_others(step.graph)
    budget = 15 * 2**19 + held
    name, order = name_of(step, request(budget)), tuple(range(step.graph.n))
    false = KeptPlan(order, budget // 2, held, budget, "", 0, 1.5, "batch of 16: kept", "2026-01-01")
    PlanStore(plans_folder()).keep(name, false)
    model = within(conv_model(), budget, cache=True, quiet=False, example=(X[:16], Y[:16]))
    (plan,) = plans(model)
    first, *_ = told(capfd)
    assert "batch of 16: a kept plan is not used: its step held " in first
    assert first.endswith(f"and {format_bytes(budget // 2)} were expected; the step is planned anew")
    assert not plan.over_bytes and plan.peak_bytes <= budget and EARLIER not in plan.sentence
    assert json.loads(scheduled_file().read_text())["steps"] == plan.schedule.steps.tolist()


def test_a_kept_share_is_used_though_others_come_to_hold_more_meanwhile(
    kept: Run, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hold 3 MiB from the trial on, as a data set holds its next batches."""
    run, prepared = Trials.run, list[Any]()

    def beside(trials: Trials, *arguments: Any, **words: Any) -> TriedStep:
        prepared[:] = prepared or [tf.zeros((3 * 2**20,), tf.int8)]
        return run(trials, *arguments, **words)

    monkeypatch.setattr(Trials, "run", beside)
    model = within(conv_model(), cache=True, example=(X[:16], Y[:16]))
    (plan,), allowed = plans(model), model.train_function.training.planner.allowed_bytes
    # Other tests' leftovers may let another of the kept schedules be chosen.
    assert prepared and "from an earlier run's plan" in plan.sentence and not plan.over_bytes
    assert kept.steps[0] is not None and plan.schedule is not None
    # The step is watched for as much more as they came to hold.
    assert plan.held_bytes >= 3 * 2**20 and plan.peak_bytes <= allowed + plan.came_bytes
    assert 2 * 2**20 < plan.came_bytes <= plan.held_bytes
    assert model.train_function.training.planner.watched_bytes(plan.layout) == allowed + plan.came_bytes


def test_a_plan_made_with_something_else_is_told_of_and_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    lines, asked = sentences(monkeypatch), request("9MiB")
    layout, _ = flatten(data(16))
    step, store = step_of_fit(conv_model(), layout), PlanStore(plans_folder())
    with monkeypatch.context() as patch:
        patch.setattr(tf, "__version__", "9.8.7")
        patch.setattr(kept_module, "processor_name", lambda: "another one")
        order = tuple(range(step.graph.n))
        plan = KeptPlan(order, 1, 0, 2, "", 0, 1.0, "kept", "", made_with=made_with(step))
        store.keep(name_of(step, asked), plan)
        assert look_up(step, asked, name_of(step, asked)) == plan and not lines
    assert look_up(step, asked, name_of(step, asked)) is None
    assert lines == [
        f"a kept plan is not used: it was made with TensorFlow 9.8.7, not {tf.__version__}, and with device "
        f"another one, not {kept_module.processor_name()}; the step is planned anew"
    ]
    other = step_of_fit(conv_model(blocks=4), layout)
    assert look_up(other, asked, name_of(other, asked)) is None and len(lines) == 1
