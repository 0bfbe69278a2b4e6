"""Test that an exported step is the scheduled one, within its budget."""

from __future__ import annotations

import json
import textwrap
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

pytest.importorskip("jax")

import jax
import jax.numpy as jnp
from jax import export as jax_export

import checkmate
from checkmate.backends.jax.compiled import memory_of
from checkmate.backends.jax.exported import REPORT_FILE, STEP_FILE, write_step
from checkmate.backends.jax.ways import Way
from checkmate.backends.xla_policy.waits import WaitPolicy
from checkmate.errors import ExportError, UsageError
from checkmate.jax import export, rematerialize
from checkmate.reports.gather import gather
from checkmate.units import Budget
from tests.jax.steps import copied, data, dense, dropout, weights
from tests.programs import run_python

pytestmark = pytest.mark.heavy  # each compiles several steps

QUICK = checkmate.SolveOptions(time_limit_s=1)


def scheduled(step: Any, budget: str | int | Budget, **more: Any) -> Any:
    return rematerialize(step, budget, options=QUICK, quiet=True, **more)


def read(folder: Path) -> Any:
    return jax_export.deserialize(bytearray((folder / STEP_FILE).read_bytes()))


def same_bits(one: Any, other: Any) -> bool:
    return jax.tree.all(jax.tree.map(lambda a, b: np.array_equal(a, b), one, other))


@pytest.mark.parametrize("share", ["85%", "70%"])
def test_the_step_of_the_file_keeps_the_budget_and_gives_the_same_bits(tmp_path: Path, share: str) -> None:
    params, (x, y) = weights(), data()
    step = scheduled(dense, share, donate_argnums=0)
    found = export(step, tmp_path / "out", params, x, y)
    plan = step.portable_plan()
    assert plan.report.recomputations > 0 and not plan.alone
    again = jax.jit(read(tmp_path / "out").call, donate_argnums=0)
    memory = memory_of(again.lower(params, x, y).compile())
    assert memory == found.reloaded
    assert memory.whole <= found.report.budget_bytes < found.report.plain.whole
    assert found.donate_argnums == (0,) and not found.problems
    ours, theirs = copied(params), copied(params)
    for _ in range(2):
        (ours, loss), (theirs, other) = plan.call((ours, x, y)), again(theirs, x, y)
    assert same_bits((ours, loss), (theirs, other))


def test_ties_are_what_keeps_the_budget_in_the_file(tmp_path: Path) -> None:
    params, (x, y) = weights(), data()
    step = scheduled(dense, "55%")
    export(step, tmp_path / "out", params, x, y)
    plain = jax_export.export(jax.jit(dense))(params, x, y)
    of_plain = memory_of(jax.jit(plain.call).lower(params, x, y).compile()).temporary
    of_ours = memory_of(jax.jit(read(tmp_path / "out").call).lower(params, x, y).compile()).temporary
    assert of_ours <= 0.6 * of_plain


def test_a_process_with_jax_alone_trains_with_the_file(tmp_path: Path) -> None:
    params, (x, y) = weights(), data()
    step = scheduled(dense, "70%", donate_argnums=0)
    export(step, tmp_path / "out", params, x, y)
    expected = float(step(copied(params), x, y)[1])
    np.savez(tmp_path / "data.npz", x=x, y=y, **{f"w{number}": w for number, w in enumerate(params)})
    code = f"""
    import jax, numpy, sys
    from pathlib import Path
    made = numpy.load({str(tmp_path / "data.npz")!r})
    read = jax.export.deserialize(Path({str(tmp_path / "out" / STEP_FILE)!r}).read_bytes())
    step = jax.jit(read.call, donate_argnums=0)
    params = [jax.numpy.asarray(made[f"w{{number}}"]) for number in range({len(params)})]
    params, loss = step(params, made["x"], made["y"])
    assert "checkmate" not in sys.modules
    print(float(loss))
    """
    code = textwrap.dedent(code).replace("import jax,", "import jax, jax.export,")
    assert float(run_python("-c", code).stdout) == expected


def test_the_report_says_what_the_file_takes(tmp_path: Path) -> None:
    params, (x, y), key = weights(3, 16), data(64, 16), jax.random.key(3)
    step = scheduled(dropout, "80%", donate_argnums=0)
    found = export(step, tmp_path / "out", params, x, y, key)
    told = json.loads((tmp_path / "out" / REPORT_FILE).read_text())
    (section,) = gather([tmp_path / "out" / REPORT_FILE]).sections  # as ``checkmate report`` shows it
    assert section.title == "dropout: exported by jax.export" and section.cards[0][0] == "as promised"
    assert told["format"] == "checkmate-jax-export" and told["version"] == 1
    assert told["budget_bytes"] == found.report.budget_bytes
    assert told["reloaded_bytes"]["whole"] == found.reloaded.whole
    assert told["plain_bytes"]["whole"] == found.report.plain.whole
    assert told["call"] == "tree" and told["donate_argnums"] == [0] and told["platform"] == "cpu"
    assert told["versions"]["jax"] == jax.__version__
    assert [each["path"] for each in told["arguments"]] == ["[0][0]", "[0][1]", "[0][2]", "[1]", "[2]", "[3]"]
    assert [each["donated"] for each in told["arguments"]] == [True] * 3 + [False] * 3
    assert told["arguments"][-1]["dtype"] == "key<fry>"
    assert told["results"][-1] == {"path": "[1]", "shape": [], "dtype": "float32"}
    ours, theirs = step.portable_plan().call((copied(params), x, y, key)), read(tmp_path / "out")
    assert same_bits(ours, jax.jit(theirs.call)(params, x, y, key))


class Trained(NamedTuple):
    """State of a type that no file can name."""

    params: Any
    count: Any


def counted(state: Trained, x: Any, y: Any) -> tuple[Trained, Any]:
    params, loss = dense(state.params, x, y)
    return Trained(params, state.count + 1), loss


def test_trees_of_other_types_are_flat_in_the_file(tmp_path: Path) -> None:
    (x, y), state = data(), Trained(weights(), jnp.zeros((), jnp.int32))
    step = scheduled(counted, "75%", donate_argnums=0)
    found = export(step, tmp_path / "out", state, x, y)
    assert found.leaves and found.donate_argnums == tuple(range(9))
    again = jax.jit(read(tmp_path / "out").call, donate_argnums=found.donate_argnums)
    ours = step.portable_plan().call((jax.tree.map(jnp.copy, state), x, y))
    theirs = again(*jax.tree.leaves((jax.tree.map(jnp.copy, state), x, y)))
    assert same_bits(jax.tree.leaves(ours), theirs)
    assert found.reloaded.whole <= found.report.budget_bytes


def test_a_plan_that_needs_options_is_made_anew_without(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test with the thrifty way alone, where a step is a program of its own."""
    monkeypatch.setattr(
        "checkmate.backends.jax.compiler.ways_on",
        lambda platform, *, alone: ((Way(WaitPolicy.ALL, thrifty=alone),),),
    )
    params, (x, y) = weights(), data()
    step = scheduled(dense, "70%")
    step.prepare(params, x, y)
    assert step.plans[-1].alone
    with pytest.raises(ExportError, match="options"):
        write_step(step.plans[-1], "dense", tmp_path, tmp_path)
    found = export(step, tmp_path / "out")
    assert not step.plans[-1].alone and len(step.plans) == 2
    assert found.reloaded == found.report.reached


def test_static_arguments_are_constants_of_the_file(tmp_path: Path) -> None:
    params, (x, y) = weights(), data()

    def scaled(params: Any, rate: float, x: Any, y: Any) -> Any:
        new, loss = dense(params, x, y)
        return jax.tree.map(lambda a, b: a + rate * (b - a), params, new), loss

    step = scheduled(scaled, "75%", static_argnums=1, donate_argnums=0)
    found = export(step, tmp_path / "out", params, 0.5, x, y)
    assert found.donate_argnums == (0,)
    again = jax.jit(read(tmp_path / "out").call, donate_argnums=0)
    plan = step.portable_plan()
    assert same_bits(plan.call((copied(params), 0.5, x, y)), again(copied(params), x, y))


def test_what_cannot_be_exported_is_said(tmp_path: Path) -> None:
    params, (x, y) = weights(), data()
    with pytest.raises(UsageError, match="no scheduled step"):
        export(dense, tmp_path / "out")  # type: ignore[arg-type]
    with pytest.raises(UsageError, match="no plan was made"):
        export(scheduled(dense, "80%"), tmp_path / "out")

    def printing(params: Any, x: Any, y: Any) -> Any:
        new, loss = dense(params, x, y)
        jax.debug.print("loss {}", loss)
        return new, loss

    with pytest.raises(ExportError) as caught:
        export(scheduled(printing, "80%"), tmp_path / "out", params, x, y)
    assert caught.value.hint
    assert not (tmp_path / "out").exists()
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "notes.txt").write_text("mine")
    with pytest.raises(ExportError, match="not empty"):
        export(scheduled(dense, "80%"), tmp_path / "other", params, x, y)


def test_an_earlier_export_is_replaced(tmp_path: Path) -> None:
    params, (x, y) = weights(), data()
    step = scheduled(dense, "80%")
    first = export(step, tmp_path / "out", params, x, y)
    second = export(step, tmp_path / "out")
    assert first.to_json() == second.to_json()
    assert sorted(each.name for each in tmp_path.iterdir()) == ["out"]
