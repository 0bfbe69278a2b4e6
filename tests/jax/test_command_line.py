"""Test the commands with Keras on JAX, in processes of their own.

Keras chooses its backend once.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("jax")

import jax
from jax.extend.core import jaxpr_as_fun

from checkmate.backends.jax.models.compare import compare
from checkmate.backends.jax.step import begin, compiled_plain, trace
from checkmate.errors import ExitCode, NotCompiledError
from checkmate.formats import read_any_graph, read_schedule
from checkmate.planning import keep_everything_peak
from checkmate.progress import Progress, never, silent
from checkmate.solvers.problem import SolveOptions
from checkmate.training.jax_planner import JaxPlanner, request_of
from tests.jax.steps import data, dense, weights
from tests.programs import run_python

pytestmark = pytest.mark.heavy  # each command compiles

MODELS = Path(__file__).with_name("models.py")
# The command line; at the end, whether TensorFlow was imported.
RUN = """
import sys
from checkmate.cli.main import main
code = main(sys.argv[1:])
print("tensorflow" in sys.modules, file=sys.stderr)
sys.exit(code)
"""

# Train with an exported step and the state of a model, as the page on JAX says; Keras does the same.
TRAIN = """
import sys
from pathlib import Path
import jax, jax.export
import numpy as np
from tests.jax.models import net

model, made = net(), np.random.default_rng(0)
x, y = made.normal(size=(1024, 64)).astype("float32"), made.integers(0, 10, 1024).astype("int32")
model.train_on_batch(x, y)
model.reset_metrics()
parts = (model.trainable_variables, model.non_trainable_variables)
parts = (*parts, model.optimizer.variables, model.metrics_variables)
state = tuple([jax.numpy.copy(each.value) for each in part] for part in parts)
read = jax.export.deserialize(Path(sys.argv[1]).read_bytes())
step = jax.jit(read.call, donate_argnums=0)
logs, state = step(state, (x, y))
expected = model.train_on_batch(x, y, return_dict=True)
assert np.isclose(float(logs["loss"]), expected["loss"], rtol=1e-5), (logs, expected)
for one, other in zip(state[0], model.trainable_variables):
    assert np.allclose(one, other.value, atol=1e-4)
"""


def checkmate(*arguments: str | Path, backend: str = "jax", code: int = 0) -> str:
    """Run a command and return what it prints, without TensorFlow."""
    done = run_python("-c", RUN, *arguments, "--quiet", code=code, KERAS_BACKEND=backend)
    if backend == "jax":
        assert done.stderr.split()[-1] == "False", done.stderr
    return done.stdout if code in (ExitCode.DONE, ExitCode.NOT_AS_PROMISED) else done.stderr


def model(name: str) -> tuple[str, str]:
    return f"{MODELS}:{name}", "--allow-code"


def test_the_graph_is_of_the_model_s_jax_step(tmp_path: Path) -> None:
    path = tmp_path / "g.json"
    said = checkmate("profile", *model("net"), "-b", "128", "-o", path)
    assert "equations of JAX, batch 128" in said and "for XLA" in said and "costs are counted" in said
    graph = read_any_graph(path)
    told = graph.metadata
    assert (told["framework"], told["target"], told["jax"]) == ("jax", "xla", jax.__version__)
    assert told["request"]["batch_size"] == 128 and graph.batch_size == 128
    assert graph.name == "net" and graph.device is not None and graph.device.kind == "cpu"
    assert {"dense", "dense_1"} & {op.group.split("/")[0] for op in graph.ops}
    weights = 4 * (5 * (64 * 64 + 64) + 64 * 10 + 10)
    assert graph.fixed_bytes > 3 * weights  # with Adam's two slots
    solved = tmp_path / "s.json"
    checkmate("solve", path, "--budget", "70%", "--time-limit", "2", "-o", solved)
    found = read_schedule(solved, graph)
    assert (found.peak_bytes or 0) <= 0.7 * keep_everything_peak(graph)


@pytest.mark.parametrize(
    ("arguments", "batch"),
    [
        ((*model("two"), "-b", "16"), 16),
        (model("with_batch"), 32),
        ((*model("own_step"), "-b", "64"), 64),
        (("lstm", "-b", "4", "--input-shape", "8,4"), 4),
    ],
)
def test_every_kind_of_model_is_profiled(tmp_path: Path, arguments: tuple[str, ...], batch: int) -> None:
    told = json.loads(checkmate("profile", *arguments, "-o", tmp_path / "g.json", "--json"))
    assert told["batch_size"] == batch and told["target"] == "xla" and told["cost_origin"] == "analytic"
    assert told["phases"]["backward"] > 0


def test_a_saved_model_is_profiled(tmp_path: Path) -> None:
    saved = tmp_path / "net.keras"
    code = f"from tests.jax.models import net; net().save({str(saved)!r})"
    run_python("-c", code, KERAS_BACKEND="jax")
    checkmate("profile", saved, "-b", "32", "-o", tmp_path / "saved.json")
    checkmate("profile", *model("net"), "-b", "32", "-o", tmp_path / "built.json")
    one, other = (read_any_graph(tmp_path / f"{name}.json") for name in ("saved", "built"))
    assert one.fingerprint == other.fingerprint
    assert "model_file" in one.metadata


def test_run_verifies_and_exports_what_keeps_the_budget(tmp_path: Path) -> None:
    folder = tmp_path / "out"
    asked = ("-b", "1024", "--budget", "50%", "--time-limit", "1", "-o", folder)
    told = json.loads(checkmate("run", *model("net"), *asked, "--json"))
    peak = told["peak_bytes"]
    assert peak["predicted"] <= told["budget_bytes"] < peak["plain_predicted"]
    assert peak["reloaded_predicted"] <= told["budget_bytes"] and peak["measured"] is None
    assert told["gradients"]["bitwise"] is True and told["gradients"]["count"] > 30 and told["ok"]
    assert told["loss"]["plain"] == pytest.approx(told["loss"]["optimized"], rel=1e-5)
    assert told["seconds"]["measured"] > 0 and told["seconds"]["plain_measured"] > 0
    assert told["recomputations"] > 0 and told["settings"]["framework"] == "jax"
    graph = read_any_graph(folder / "graph.json")
    assert len(read_schedule(folder / "schedule.json", graph).require_schedule().steps) == told["steps"]
    exported = json.loads((folder / "export.json").read_text())
    assert exported["reloaded_bytes"]["whole"] == peak["reloaded_predicted"]
    assert exported["donate_argnums"] == [0]
    read = jax.export.deserialize(bytearray((folder / exported["file"]).read_bytes()))
    state_count = sum(each["path"].startswith("[0]") for each in exported["arguments"])
    assert len(read.in_avals) == len(exported["arguments"]) == state_count + 2
    run_python("-c", TRAIN, folder / exported["file"], KERAS_BACKEND="jax")


def test_a_step_of_jax_alone_is_run_in_words(tmp_path: Path) -> None:
    asked = ("--budget", "75%", "--time-limit", "1", "-o", tmp_path / "out")
    said = checkmate("run", *model("own_step"), "-b", "512", *asked)
    assert "by JAX: as promised" in said and "bitwise equal to the plain step's" in said
    assert said.count("read from XLA") == 2 and "by counts" in said and "measured time" in said


def test_a_schedule_of_a_file_is_verified_and_exported(tmp_path: Path) -> None:
    graph, schedule, folder = (tmp_path / name for name in ("g.json", "s.json", "out"))
    checkmate("profile", *model("own_step"), "-b", "512", "-o", graph)
    checkmate("solve", graph, "--budget", "75%", "--time-limit", "1", "-o", schedule)
    name, allow = model("own_step")
    given = (name, schedule, "-g", graph, allow)
    told = json.loads(checkmate("verify", *given, "--budget", "90%", "--json"))
    steps = read_schedule(schedule, read_any_graph(graph)).require_schedule().steps
    assert told["steps"] == len(steps) and told["gradients"]["bitwise"] and told["ok"]
    over = json.loads(checkmate("verify", *given, "--budget", "40%", "--json", code=ExitCode.NOT_AS_PROMISED))
    assert "over the budget" in over["problems"][0]
    checkmate("export", *given, "--budget", "90%", "-o", folder)
    written = read_schedule(folder / "schedule.json", read_any_graph(folder / "graph.json"))
    assert written.require_schedule().steps.tolist() == steps.tolist()
    assert (folder / "step.jax-export").is_file()
    said = checkmate("verify", *given, backend="tensorflow", code=ExitCode.BAD_INPUT)
    assert "graph of a JAX step" in said and "KERAS_BACKEND=jax" in said
    other = checkmate("verify", f"{MODELS}:net", *given[1:], code=ExitCode.BAD_INPUT)
    assert "trace and solve it anew" in other or "model has changed" in other


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("run", *model("net"), "--budget", "60%", "--target", "executor"), "is compiled by XLA"),
        (("run", *model("net"), "--budget", "min"), "not known before a step is compiled"),
        (("run", *model("net"), "--budget", "60%", "--refresh"), "are counted"),
        (("profile", *model("net"), "--device", "gpu:1"), "JAX runs on the cpu here"),
        (("profile", *model("broken_step")), "no such layer"),
        (("profile", *model("own_step"), "--loss", "mse"), "brings its own"),
        (("profile", *model("with_batch"), "-b", "7"), "has no batch of 7"),
        (("profile", f"{MODELS}:net"), "--allow-code"),
    ],
)
def test_what_does_not_apply_is_said_in_a_sentence(
    tmp_path: Path, arguments: tuple[str, ...], sentence: str
) -> None:
    said = checkmate(*arguments, "-o", tmp_path / "out", code=ExitCode.BAD_INPUT)
    assert sentence in said and "Traceback" not in said
    assert not (tmp_path / "out").exists()


def test_what_needs_tensorflow_says_so() -> None:
    said = checkmate("plan", *model("own_step"), "--devices", "T4", code=ExitCode.BAD_INPUT)
    assert "seconds of the device that JAX ran on" in said and "KERAS_BACKEND=tensorflow" in said


def test_a_budget_that_cannot_be_kept_is_said(tmp_path: Path) -> None:
    asked = ("--budget", "10%", "--time-limit", "1", "-o", tmp_path / "out")
    said = checkmate("run", *model("own_step"), *asked, code=ExitCode.NO_SCHEDULE)
    assert "no schedule that was compiled keeps" in said and "raise the budget" in said
    assert not (tmp_path / "out").exists()


def test_a_plain_step_that_does_not_fit_is_said() -> None:
    plan, traced = planned()

    def too_large(*flat: Any) -> Any:
        raise jax.errors.JaxRuntimeError("RESOURCE_EXHAUSTED: Out of memory allocating 9 bytes.")

    def told(plain: Any) -> Any:
        return compare(plan, plain, traced.jaxpr, arguments, report=silent, cancelled=never)

    found = told(too_large)
    assert found.compiled is None and found.exact is None
    assert found.losses[0] is None and found.losses[1] is not None
    assert found.seconds[0] is None and found.seconds[1] > 0


def test_a_step_that_computes_something_else_is_found() -> None:
    plan, traced = planned()
    wrong = jax.make_jaxpr(lambda params, x, y: dense([2 * w for w in params], x, y))(*arguments())
    plain = jax.jit(jaxpr_as_fun(traced.jaxpr))
    right = compare(plan, plain, traced.jaxpr, arguments, report=silent, cancelled=never)
    assert right.exact is not None and right.exact.bitwise and right.exact.whole_equal
    found = compare(plan, plain, wrong, arguments, report=silent, cancelled=never)
    assert found.exact is not None and not found.exact.bitwise and found.exact.overall > 1e-3


def test_a_fault_of_the_program_is_not_put_on_the_step() -> None:
    def failing(progress: Progress) -> None:
        if progress.stage == "compile":
            raise RuntimeError("ours")

    with pytest.raises(RuntimeError, match="ours"):
        begin(dense, arguments(), (), None, report=failing)


def test_what_xla_cannot_compile_is_said() -> None:
    class Refused:
        def lower(self, *avals: Any) -> Refused:
            return self

        def compile(self, options: dict[str, Any]) -> Any:
            raise jax.errors.JaxRuntimeError("INTERNAL: no such kernel")

    traced = trace(dense, arguments(), (), None)
    with pytest.raises(NotCompiledError, match="cannot compile the plain step: INTERNAL: no such kernel"):
        compiled_plain(traced, Refused(), [{}])


def arguments() -> tuple[Any, ...]:
    return weights(), *data()


def planned() -> tuple[Any, Any]:
    planner = JaxPlanner(dense, request_of("80%", quiet=True, options=SolveOptions(time_limit_s=1)))
    return planner.plan(arguments(), part=True), trace(dense, arguments(), (), None)
