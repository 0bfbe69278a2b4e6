"""Test how a step is measured on a GPU, as far as this CPU can show it."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
import tensorflow as tf

from checkmate.backends.tf import private
from checkmate.backends.tf.allocator.predict import predicted_allocated, usable_bytes
from checkmate.backends.tf.comparing import Compared
from checkmate.backends.tf.emit import reload_probe
from checkmate.backends.tf.live import measure as live_measure
from checkmate.backends.tf.measure import concrete, step
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement
from checkmate.backends.tf.plain import Plain
from checkmate.backends.tf.profiler import StepTrace
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.verification_report import Measurements, verification_report
from checkmate.errors import CheckmateError, ProfileError
from checkmate.ir import Device, Schedule
from checkmate.memory.bfc import Bfc, Request
from checkmate.progress import silent
from tests.programs import run_python
from tests.quick_start import QUICK
from tests.tf.fake_gpu import folded_for_gpu
from tests.tf.prepared import prepared, request_of

REQUEST = request_of("small_models", "convnet", 2)
MIB = 1 << 20


@pytest.mark.parametrize("warm", [False, True])
def test_the_first_run_on_a_gpu_is_not_metered(warm: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    log: list[str] = []
    losses: list[float] = []

    def run(function, batch):
        found = real(function, batch)
        log.append("run")
        losses.append(float(found[0].numpy()))
        return found

    real, reset = step.run_step, step.reset_peak
    monkeypatch.setattr(step, "run_step", run)
    monkeypatch.setattr(step, "reset_peak", lambda meter: (log.append("reset"), reset(meter)))
    monkeypatch.setattr(step, "warms_up", lambda kind: warm)
    (found,) = step.measure({"request": REQUEST.to_json(), "steps": None, "runs": 1}, silent)
    assert log == ["run"] * warm + ["reset", "run"] * 2 + ["run"]  # the last run is traced
    assert found["loss"] == losses[0] and found["first_peak_bytes"] > 0


class Step(tf.Module):
    """Act as an exported step whose loss counts its runs."""

    def __init__(self) -> None:
        super().__init__()
        self.runs = tf.Variable(0.0)

    @tf.function(input_signature=[tf.TensorSpec((4,))])
    def train_step(self, x):
        return {"loss": self.runs.assign_add(1.0) + 0 * tf.reduce_sum(x)}


@pytest.mark.parametrize(("gpus", "warm_ups"), [([], 0), (["a GPU"], 1)])
def test_the_reloaded_step_is_warmed_up_on_a_gpu(
    gpus: list[str], warm_ups: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    tf.saved_model.save(Step(), str(tmp_path / "step"))
    np.savez(tmp_path / "batch.npz", **{"000": np.zeros(4, np.float32)})
    resets: list[str] = []
    seen: list[str] = []
    peaks = iter([100, 100, 120, *[110] * 8])  # eight steps without a new peak are enough
    monkeypatch.setattr(tf.config, "list_physical_devices", lambda kind=None: gpus)
    monkeypatch.setattr(tf.config.experimental, "reset_memory_stats", resets.append)
    monkeypatch.setattr(
        tf.config.experimental,
        "get_memory_info",
        lambda meter: (seen.append(meter), {"peak": next(peaks)})[1],
    )
    reload_probe.main(str(tmp_path / "step"), str(tmp_path / "batch.npz"), str(tmp_path / "answer.json"))
    answer = json.loads((tmp_path / "answer.json").read_text())
    assert answer["losses"] == [float(run) for run in range(1, 12 + warm_ups)]
    assert answer["peak_bytes"] == 120 and answer["peaks"] == [100, 100, 120, *[110] * 8]
    assert resets == seen == ["GPU:0" if gpus else "CPU:0"] * 11


EXACT = """
import json, sys
import tensorflow as tf
from tensorflow.python.framework import config
from checkmate.backends.tf.devices import deterministic, make_exact
make_exact(sys.argv[1], 3)
assert not config.is_op_determinism_enabled()  # steps are traced as they are elsewhere
with deterministic(sys.argv[1]):
    drawn = float(tf.random.normal(())) if sys.argv[1] == "gpu" else None
    tf32 = tf.config.experimental.tensor_float_32_execution_enabled()
    found = [config.is_op_determinism_enabled(), tf32, drawn is not None]
options = tf.config.optimizer.get_experimental_options()
print(json.dumps([*found, config.is_op_determinism_enabled(), options]))
"""


@pytest.mark.heavy
@pytest.mark.parametrize(
    ("kind", "found"), [("gpu", [True, False, True, False]), ("cpu", [False, True, False, False])]
)
def test_exact_is_deterministic_and_without_tf32_on_a_gpu_alone(kind: str, found: list[bool]) -> None:
    *said, options = json.loads(run_python("-c", EXACT, kind, **QUICK).stdout.splitlines()[-1])
    assert said == found and options["disable_meta_optimizer"] is True


def types_of(function: Any) -> list[str]:
    return [op.type for op in function.graph.get_operations()]


@pytest.mark.heavy
@pytest.mark.parametrize("loss", ["sparse_categorical_crossentropy", "categorical_crossentropy"])
def test_a_step_is_traced_as_elsewhere_though_its_kernels_are_deterministic(
    loss: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TensorFlow traces these losses to other ops under determinism."""
    asked = dataclasses.replace(REQUEST, loss=loss)
    elsewhere = prepared(asked)
    plain = Schedule.plain(elsewhere.graph)
    switched: list[bool] = []
    traced: list[list[str]] = []
    forbid, real = private.forbid_nondeterminism, step.compiled_step
    expected = types_of(real(elsewhere, None, with_gradients=True))

    def note(folded: FoldedStep, *others: object, **named: object) -> object:
        assert not private.is_deterministic()
        made = real(folded, *others, **named)
        traced.append(types_of(made))
        return made

    monkeypatch.setattr(
        private, "forbid_nondeterminism", lambda forbidden: (switched.append(forbidden), forbid(forbidden))
    )
    monkeypatch.setattr(step, "choose_device", lambda request, here: Device("a GPU", "gpu"))
    monkeypatch.setattr(step, "make_exact", lambda kind, seed: None)
    monkeypatch.setattr(step, "compiled_step", note)
    exact = step.compare({"request": asked.to_json(), "steps": plain.steps.tolist(), "exact": True})
    assert switched == [True, False] and "note" not in exact
    assert len(traced) == 2 and traced[0] == expected  # the plain step, and the scheduled one
    assert exact["overall_relative_error"] < 1e-3  # these are the default kernels


def no_kernel(text: str) -> CheckmateError:
    wrapped = CheckmateError("the step failed to run")
    wrapped.__cause__ = tf.errors.UnimplementedError(None, None, text)
    return wrapped


def test_an_op_without_a_deterministic_kernel_is_one_sentence_and_a_tolerance(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    switched: list[bool] = []
    monkeypatch.setattr(private, "forbid_nondeterminism", switched.append)
    said = "A deterministic GPU implementation of unsorted segment reduction op is not currently available."
    answers = iter([no_kernel(said), 7])

    def run() -> int:
        found = next(answers)
        if isinstance(found, CheckmateError):
            raise found
        return found

    found, note = concrete.run_deterministically("gpu", lambda: run)
    assert found == 7 and switched == [True, False]
    assert said in note and note.startswith("gradients were compared within")
    assert concrete.run_deterministically("cpu", lambda: lambda: 8) == (8, "")
    with pytest.raises(CheckmateError, match="the step failed to run"):
        concrete.run_deterministically(
            "cpu", lambda: lambda: (_ for _ in ()).throw(no_kernel("no kernel for this type"))
        )
    assert switched == [True, False]


@pytest.mark.heavy
def test_the_note_reaches_the_report(monkeypatch: pytest.MonkeyPatch) -> None:
    real, failed = step._comparison, []

    def fails_once(*arguments):
        def fail():
            raise no_kernel("deterministic kernels are not available")

        made = real(*arguments)
        if failed:
            return made
        failed.append(True)
        return fail

    monkeypatch.setattr(step, "_comparison", fails_once)
    monkeypatch.setattr(step, "make_exact", lambda kind, seed: None)
    monkeypatch.setattr(private, "forbid_nondeterminism", lambda forbidden: None)
    graph = prepared(REQUEST).graph
    plain = Schedule.plain(graph)
    exact = step.compare({"request": REQUEST.to_json(), "steps": plain.steps.tolist(), "exact": True})
    assert "no deterministic kernel on this GPU (deterministic kernels are not available)" in exact["note"]
    measured = FreshMeasurement(1, 1, 1, 1.0, 1.0, graph.fingerprint, "", "GPU:0")
    compared = Compared({"exact": exact, "usual": exact}, 2, "gpu")
    made = Measurements(Plain(1, (), 2, measured), measured, compared)
    found = verification_report(REQUEST, graph, plain, made, budget_bytes=10)
    assert exact["note"] in found.notes and found.gradients["equal"]


def test_the_replica_of_a_full_card_reports_the_missing_bytes() -> None:
    allocator = Bfc(capacity=4 * MIB)
    assert allocator.play([Request(0, 2 * MIB), Request(1, MIB)]) == 3 * MIB and allocator.missing == 0
    allocator.play([Request(2, 2 * MIB)])
    assert allocator.missing == 2 * MIB
    too_small = Bfc(capacity=MIB)
    too_small.allocate(0, 3 * MIB)
    assert too_small.missing == 2 * MIB


def test_a_step_too_large_for_the_card_is_predicted_over_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    folded = folded_for_gpu(monkeypatch, "convnet")
    steps = list(range(folded.graph.n))

    def predicted(memory: int) -> int:
        graph = dataclasses.replace(folded.graph, device=Device("Fake", "gpu", memory))
        return predicted_allocated(folded, graph, steps, [(0, 5 * MIB)])

    endless = predicted(0)
    assert endless == predicted(usable_of(2 * endless)) and endless > 10 * MIB
    small = usable_of(endless // 2)
    assert predicted(small) > small


def usable_of(wanted: int) -> int:
    """Return the memory of a card that leaves ``wanted`` for TensorFlow. ``wanted`` is in bytes."""
    return wanted + (225 << 20)


def test_tensorflow_leaves_some_of_a_card_to_the_system() -> None:
    assert usable_bytes(1 << 30) == (1 << 30) - (225 << 20)
    assert usable_bytes(16 << 30) == (16 << 30) - (1536 << 20)
    assert usable_bytes(1 << 20) == 0


def test_an_allocator_that_shows_nothing_does_not_mean_a_peak_of_zero(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    folded = folded_for_gpu(monkeypatch, "convnet", batch_size=2)
    monkeypatch.setattr(live_measure, "trace_run", lambda run, *, device: StepTrace((), ()))

    class Live:
        graph, arguments = folded.graph, staticmethod(lambda tensors: list(tensors))

    Live.folded = folded  # type: ignore[attr-defined]

    def add(x: tf.Tensor) -> tf.Tensor:
        return x + 1

    with pytest.raises(ProfileError, match="the GPU's allocator showed no requests") as raised:
        live_measure._traces(cast(Any, Live), lambda: add, [tf.zeros((2,))], live_measure._Peaks())
    assert "TF_GPU_ALLOCATOR" in raised.value.hint
