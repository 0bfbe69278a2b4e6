"""Test that the transform keeps the budget.

XLA's own bytes keep it, and the step computes the same.
"""

from __future__ import annotations

import functools
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp

import checkmate.jax
from checkmate.backends.jax import ways
from checkmate.backends.jax.compiled import memory_of
from checkmate.backends.jax.compiler import JaxCompilation
from checkmate.backends.jax.step import begin
from checkmate.backends.jax.ways import holds_order, usual_ways, ways_on
from checkmate.backends.outcomes import TAKEN_OUT
from checkmate.backends.xla_policy.waits import Waiting, WaitPolicy
from checkmate.errors import InfeasibleError, NoScheduleError, PlanningError, TraceError, UsageError
from checkmate.solvers.problem import SolveOptions
from checkmate.units import format_bytes_up
from tests.benchmarks.jax_networks import dense as dense_blocks
from tests.benchmarks.jax_networks import resnet
from tests.jax.steps import (
    copied,
    data,
    dense,
    dropout,
    largest_difference,
    scanned,
    updated,
    weights,
)

QUICK: dict[str, Any] = {"options": SolveOptions(time_limit_s=1), "quiet": True}


def args_of(step: Any) -> tuple[Any, ...]:
    found = (weights(), *data())
    return (*found, jax.random.key(7)) if step is dropout else found


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("step", "share"), [(dense, 75), (dense, 60), (dropout, 60), (dropout, 45), (scanned, 75)]
)
def test_the_compiled_step_keeps_the_budget(step: Any, share: int) -> None:
    args = args_of(step)
    found = checkmate.jax.rematerialize(
        step, f"{share}%", of="temporary", donate_argnums=0, example=args, **QUICK
    )
    report = found.report
    assert report.reached.whole <= report.budget_bytes < report.plain.whole
    assert report.reached.temporary <= share / 100 * report.plain.temporary
    assert report.recomputations > 0 and not report.over_bytes
    assert "compiled, not run" in report.sentence
    expected, given = jax.jit(step)(*args), copied(args[0])
    result = found(given, *args[1:])
    assert largest_difference(result, expected) <= 1e-6
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(given))  # they were donated


@pytest.mark.parametrize(("platform", "segments"), [("gpu", True), ("cpu", False)])
def test_segments_are_preferred_on_a_gpu(
    platform: str, segments: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """On a CPU all steps wait, so runs of recomputations are nothing special."""
    begun = begin(dense, args_of(dense), (), None)
    monkeypatch.setattr(jax, "default_backend", lambda: platform)
    step = JaxCompilation(begun, "dense", alone=True)
    assert {compiler.segments for compiler in step.compilers} == {segments}


@pytest.mark.heavy
def test_order_alone_is_tried_first() -> None:
    step, args = dense_blocks(lambda block: block)
    report = checkmate.jax.rematerialize(step, "45%", of="temporary", example=args, **QUICK).report
    assert report.reached.temporary <= 0.45 * report.plain.temporary
    assert report.recomputations == 0 and report.predicted_overhead == 0
    assert not report.is_plain and "0 recomputations" in report.sentence
    assert report.compilations == 3  # plain, a trial in the first way, and the one that runs


@pytest.mark.heavy
def test_what_was_tried_as_it_runs_is_not_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    compiled: list[Any] = []

    def counted(search: JaxCompilation, jitted: Any, options: dict[str, Any]) -> Any:
        compiled.append(jitted)
        return executable(search, jitted, options)

    executable = JaxCompilation.executable
    monkeypatch.setattr(JaxCompilation, "executable", counted)
    monkeypatch.setattr(jax, "default_backend", lambda: "tpu")
    args = args_of(dense)
    found = checkmate.jax.rematerialize(dense, "60%", of="temporary", example=args, **QUICK)
    assert len(compiled) == len(set(map(id, compiled))) == found.report.compilations - 1
    assert largest_difference(found(*args), jax.jit(dense)(*args)) <= 1e-6


def wrapped(params: Any, x: Any, y: Any, *, remat: bool = True) -> Any:
    """Train layers that are each in ``jax.checkpoint``, behind a call."""
    layer = lambda h, w: jnp.tanh(jnp.tanh(h @ w) @ w)  # noqa: E731
    layer = jax.checkpoint(layer) if remat else layer
    loss = jax.jit(lambda params: jnp.mean((functools.reduce(layer, params, x) - y) ** 2))
    return updated(params, jax.grad(loss)(params))


def test_the_plain_step_is_the_one_without_its_own_recomputation() -> None:
    args = (weights(3), *data())
    as_it_is = memory_of(jax.jit(wrapped).lower(*args).compile())
    begun, without = (begin(partial(wrapped, remat=remat), args, (), None) for remat in (True, False))
    assert [each.traced.taken_out for each in (begun, without)] == [True, False]
    assert begun.plain == without.plain != as_it_is


def test_a_share_is_of_the_step_as_written_where_that_takes_less() -> None:
    begun = begin(wrapped, (weights(3), *data()), (), None)
    as_it_is = memory_of(jax.jit(wrapped).lower(weights(3), *data()).compile())
    assert as_it_is.whole > begun.plain.whole  # a CPU's XLA gains nothing by jax.checkpoint here
    assert JaxCompilation(begun, "step", alone=False).share_of == begun.plain
    traced = replace(begun.traced, jaxpr=begun.traced.as_written, as_written=begun.traced.jaxpr)
    turned = JaxCompilation(replace(begun, traced=traced, plain=as_it_is), "step", alone=False)
    assert turned.plain_bytes == as_it_is.whole and turned.share_of == begun.plain


@pytest.mark.heavy
def test_its_own_recomputation_is_planned_anew_and_that_is_said(capfd: pytest.CaptureFixture[str]) -> None:
    args = args_of(dense)
    found = checkmate.jax.rematerialize(wrapped, "60%", example=args, options=QUICK["options"])
    assert found.report.recomputations > 0
    notes = [line for line in capfd.readouterr().err.splitlines() if TAKEN_OUT in line]
    assert notes == [f"checkmate: {TAKEN_OUT}"]
    assert largest_difference(found(*args), jax.jit(wrapped)(*args)) <= 1e-6


def test_what_a_loop_recomputes_stays() -> None:
    begun = begin(scanned_anew, args_of(dense), (), None)
    assert not begun.traced.taken_out
    assert (
        begun.plain.temporary == memory_of(jax.jit(scanned_anew).lower(*args_of(dense)).compile()).temporary
    )


def scanned_anew(params: Any, x: Any, y: Any) -> Any:
    def loss(params: Any) -> Any:
        body = jax.checkpoint(lambda h, w: (jnp.tanh(jnp.tanh(h @ w) @ w), None))
        return jnp.mean((jax.lax.scan(body, x, jnp.stack(params))[0] - y) ** 2)

    return updated(params, jax.grad(loss)(params))


def test_the_first_call_of_a_plan_waits_for_its_results(monkeypatch: pytest.MonkeyPatch) -> None:
    waited: list[int] = []
    wait = jax.block_until_ready
    monkeypatch.setattr(jax, "block_until_ready", lambda tree: (waited.append(1), wait(tree))[1])
    step = checkmate.jax.rematerialize(lambda x: jnp.sin(x) * 2, "1GiB", quiet=True)
    for _ in range(3):
        step(jnp.ones(4))
    assert len(waited) == 1
    step(jnp.ones(5))
    assert len(waited) == 2
    assert jax.jit(step)(jnp.ones(6)).shape == (6,) and len(waited) == 2
    step(jnp.ones(6))
    assert len(waited) == 3


def test_a_program_of_its_own_is_first_left_to_xlas_scheduler_for_memory() -> None:
    first, second = ways_on("cpu", alone=True)
    assert {(way.ties, way.thrifty) for way in first} == {(WaitPolicy.RUNS, True)}
    assert first[0].waiting is Waiting.BARRIERS and usual_ways(first, "cpu") == len(first)
    assert first[0].options and holds_order(first[0], "cpu")
    assert set(second) > set(ways_on("cpu", alone=False)[0])


def test_only_a_cpu_needs_the_order_held() -> None:
    (on_gpu,) = ways_on("gpu", alone=True)
    for way in on_gpu:
        assert not holds_order(way, "gpu") and way.options == {} and way.emitted("gpu").barriers
    (part,) = ways_on("cpu", alone=False)
    assert any(holds_order(way, "cpu") for way in part)
    assert not any(way.options or way.emitted("cpu").barriers for way in part)
    assert usual_ways(on_gpu, "gpu") == 1 and on_gpu[0].ties is WaitPolicy.RUNS


def test_what_is_compiled_for_its_memory_alone_is_compiled_quickly() -> None:
    way = ways_on("gpu", alone=True)[0][0]
    on_gpu, on_cpu = way.trial_options("gpu"), way.trial_options("cpu")
    assert on_gpu[0] == {"xla_gpu_autotune_level": 0} and way.trial_options("tpu") == [{}]
    assert on_gpu[-1] == on_cpu[-1] == way.options
    assert on_cpu[0] and not set(on_cpu[0]) & set(on_gpu[0])


@pytest.mark.heavy
def test_where_xla_fails_to_compile_quickly_it_compiles_as_usual(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(ways._QUICK, "cpu", ({"no_such_option": 1}, {"neither_this": True}))
    args = args_of(dense)
    found = checkmate.jax.rematerialize(dense, "45%", of="temporary", example=args, **QUICK)
    assert found.report.reached.temporary <= 0.45 * found.report.plain.temporary
    assert largest_difference(found(*args), jax.jit(dense)(*args)) <= 1e-6


@pytest.mark.heavy
def test_a_part_of_a_program_does_not_rely_on_options_of_the_whole() -> None:
    step, args = resnet(lambda block: block)
    found = checkmate.jax.rematerialize(step, "72%", of="temporary", example=args, **QUICK)
    assert found.plans[0].alone and found.report.recomputations == 0
    inside = memory_of(jax.jit(lambda *given: found(*given)).lower(*args).compile())
    assert len(found.plans) == 2 and not found.plans[1].alone
    assert inside.temporary <= 0.72 * found.report.plain.temporary
    found.prepare(*args)
    assert len(found.plans) == 2


@pytest.mark.heavy
def test_twenty_steps_train_as_plainly() -> None:
    params, x, y = args_of(dense)
    found = checkmate.jax.rematerialize(dense, "45%", of="temporary", **QUICK)
    plain, ours = params, params
    for _ in range(20):
        plain, expected = jax.jit(dense)(plain, x, y)
        ours, loss = found(ours, x, y)
        assert float(loss) == pytest.approx(float(expected), rel=1e-5)
    assert len(found.plans) == 1
    assert found.report.reached.whole <= found.report.budget_bytes


def test_what_fits_stays_plain() -> None:
    args = args_of(dense)
    found = checkmate.jax.rematerialize(dense, "10GiB", example=args, **QUICK)
    assert found.report.is_plain and found.report.recomputations == 0
    assert found.plans[0].graph is None
    assert largest_difference(found(*args), jax.jit(dense)(*args)) == 0


def test_the_donation_of_a_jitted_step_is_kept() -> None:
    args = args_of(dense)
    step = jax.jit(dense, donate_argnums=(0,))
    report = checkmate.jax.rematerialize(step, "10GiB", example=args, **QUICK).report
    assert report.plain.shared == sum(leaf.nbytes for leaf in args[0])
    undonated = checkmate.jax.rematerialize(dense, "10GiB", example=args, **QUICK).report
    assert undonated.plain.shared == 0


def test_each_layout_has_its_plan_and_shapes_are_enough() -> None:
    params, x, y = args_of(dense)
    found = checkmate.jax.rematerialize(dense, "10GiB", **QUICK)
    with pytest.raises(UsageError, match="no plan was made yet"):
        _ = found.report
    shapes = jax.tree.map(lambda leaf: jax.ShapeDtypeStruct(leaf.shape, leaf.dtype), (params, x, y))
    found.prepare(*shapes)
    found(params, x, y)
    assert len(found.plans) == 1
    found(params, x[:100], y[:100])
    assert len(found.plans) == 2


def test_static_arguments_are_constants_of_a_layout() -> None:
    def step(w: Any, power: int) -> Any:
        return w**power

    found = checkmate.jax.rematerialize(step, "10GiB", static_argnums=1, **QUICK)
    assert float(found(jnp.float32(3), 2)) == 9
    assert float(found(jnp.float32(3), 3)) == 27


@pytest.mark.heavy
def test_inside_of_another_function_it_is_a_function() -> None:
    args = args_of(dense)
    found = checkmate.jax.rematerialize(dense, "60%", of="temporary", example=args, **QUICK)

    @jax.jit
    def twice(params: Any, x: Any, y: Any) -> Any:
        params, _ = found(params, x, y)
        return found(params, x, y)

    params, _ = jax.jit(dense)(*args)
    assert largest_difference(twice(*args), jax.jit(dense)(params, *args[1:])) <= 1e-6


@pytest.mark.heavy
def test_effects_are_seen_once_and_in_order() -> None:
    seen: list[int] = []

    def step(params: Any, x: Any, y: Any) -> Any:
        for number in range(3):
            jax.debug.callback(lambda value, n=number: seen.append(n), params[number][0, 0], ordered=True)
        return dense(params, x, y)

    args = args_of(dense)
    found = checkmate.jax.rematerialize(step, "60%", of="temporary", example=args, **QUICK)
    jax.block_until_ready(found(*args))
    jax.effects_barrier()
    assert found.report.recomputations > 0
    assert seen == [0, 1, 2]


@pytest.mark.heavy
def test_a_budget_out_of_reach() -> None:
    args = args_of(dense)
    found = checkmate.jax.rematerialize(dense, "1%", of="temporary", example=args, **QUICK)
    report = found.report
    assert report.over_bytes > 0 and "over the budget" in report.sentence
    assert f"raise the budget to {format_bytes_up(report.reached.whole)} or more" in report.sentence
    assert report.reached.temporary < 0.6 * report.plain.temporary
    assert largest_difference(found(*args), jax.jit(dense)(*args)) <= 1e-6
    with pytest.raises(NoScheduleError, match="arguments and results") as caught:
        checkmate.jax.rematerialize(dense, "1%", of="temporary", on_miss="raise", example=args, **QUICK)
    assert "smaller batch" in caught.value.hint
    assert not isinstance(caught.value, InfeasibleError)  # nothing is proved of XLA


def fail(*_: Any, **__: Any) -> Any:
    raise KeyError("seeded")


@pytest.mark.parametrize(
    "stage",
    [
        "training.jax_planner.begin",
        "backends.jax.step.memory_of",
        "backends.jax.compiler.read_program",
        "backends.jax.compiler.graph_of",
        "planning.compiling.GroupSearch.run",
    ],
)
def test_a_fault_at_any_stage_runs_as_before(
    stage: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    args = args_of(dense)
    expected = jax.jit(dense)(*args)
    monkeypatch.setattr(f"checkmate.{stage}", fail)
    found = checkmate.jax.rematerialize(dense, "60%", donate_argnums=0, options=QUICK["options"])
    given = copied(args[0])
    for params in (given, copied(args[0])):
        assert largest_difference(found(params, *args[1:]), expected) == 0
    assert all(leaf.is_deleted() for leaf in jax.tree.leaves(given))
    (line,) = [line for line in capfd.readouterr().err.splitlines() if "checkmate: " in line]
    assert "this step cannot be scheduled: unexpected KeyError: 'seeded'. It trains as before. " in line
    with pytest.raises(PlanningError) as caught:
        checkmate.jax.rematerialize(dense, "60%", on_miss="raise", **QUICK)(*args)
    assert isinstance(caught.value.__cause__, KeyError)


def test_what_jax_cannot_trace_is_its_own_error() -> None:
    def wrong(x: Any) -> Any:
        return jnp.zeros((3, 3)) @ x

    with pytest.raises(TypeError, match="dot_general"):
        checkmate.jax.rematerialize(wrong, "60%", **QUICK)(jnp.zeros(4))


@pytest.mark.parametrize(
    ("given", "error", "message"),
    [
        ({"step": 3, "budget": "60%"}, UsageError, "no function"),
        ({"budget": "sixty"}, UsageError, "cannot read"),
        ({"budget": "min"}, UsageError, "not known before"),
        ({"budget": "60%", "of": "half"}, UsageError, "of='half'"),
        ({"budget": "60%", "on_miss": "weep"}, UsageError, "on_miss"),
        ({"budget": "60%", "donate_argnums": 5}, UsageError, "no argument 5"),
        ({"budget": "60%", "example": ("word",)}, TraceError, "cannot trace"),
    ],
)
def test_what_is_wrong_is_said(given: dict[str, Any], error: type[Exception], message: str) -> None:
    given = {"step": np.tanh if "example" in given else dense, "example": args_of(dense), **given}
    with pytest.raises(error, match=message) as caught:
        checkmate.jax.rematerialize(given.pop("step"), given.pop("budget"), **given, **QUICK)
    assert getattr(caught.value, "hint", "")
