"""Test that smaller batches are tried where the plain step does not fit, and that the result says so."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkmate.backends.tf import comparing, plain
from checkmate.backends.tf.comparing import compare_where_it_fits
from checkmate.backends.tf.measure.fresh_step import FreshMeasurement
from checkmate.backends.tf.plain import Plain, measure_plain, share_of, smaller_batches
from checkmate.backends.tf.tasks import error_without_answer
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.errors import StepTooLargeError, TraceError, WorkerDiedError
from checkmate.ir import Schedule
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

MODELS = Path(__file__).parents[1].joinpath("small_models.py")
REQUEST = ModelRequest(f"{MODELS}:convnet", batch_size=32, device="cpu", allow_code=True)


def too_large(needed: int = 0, free: int | None = None) -> StepTooLargeError:
    details = {} if free is None else {"needed_bytes": needed, "free_bytes": free}
    return StepTooLargeError("the plain step has no room", details=details)


@pytest.fixture(scope="module")
def folded() -> FoldedStep:
    return trace_request(REQUEST, report=silent, cancelled=never)


class Device:
    """Measure plain steps up to a batch, and note what was asked."""

    def __init__(self, fits: int, error: StepTooLargeError) -> None:
        self.fits, self.error = fits, error
        self.asked: list[int] = []

    def __call__(self, request: ModelRequest, schedule: Schedule | None, **_: Any) -> FreshMeasurement:
        assert schedule is None
        self.asked.append(request.batch_size)
        if request.batch_size > self.fits:
            raise self.error
        return FreshMeasurement(70, 80, 60, 0.1, 1.0, "f", "cpu", "CPU:0", ((1, 4096),), 4096)


@pytest.fixture
def measured(folded: FoldedStep, monkeypatch: pytest.MonkeyPatch) -> Callable[[Device], Plain]:
    def measure(device: Device) -> Plain:
        monkeypatch.setattr(plain, "measure_fresh", device)
        return measure_plain(REQUEST, folded, report=silent, cancelled=never)

    return measure


Measured = Callable[[Device], Plain]


def test_a_plain_step_that_fits_is_measured_once(measured: Measured) -> None:
    device = Device(32, too_large())
    found = measured(device)
    assert device.asked == [32] and found.peak_bytes == 70 and found.batch == 32
    assert found.note == "" and found.facts()["fits"]


def test_the_largest_batch_that_should_fit_is_tried_first(measured: Measured) -> None:
    device = Device(10, too_large(needed=1000, free=500))
    found = measured(device)
    assert device.asked == [32, 14, 9]
    assert (found.batch, found.measured) == (9, None)
    assert found.peak_bytes == found.predicted_bytes > 2**20
    assert found.note.startswith("plain step: does not fit (predicted ") and " of " in found.note
    assert found.facts() | {"predicted_bytes": 0, "free_bytes": 0} == {
        "fits": False, "why": "the plain step has no room", "predicted_bytes": 0, "free_bytes": 0,
        "largest_batch": 9,
    }  # fmt: skip


def test_batches_are_halved_first_if_free_memory_is_unknown(measured: Measured) -> None:
    device = Device(0, too_large())
    found = measured(device)
    assert device.asked == [32, 16, 10, 6, 4, 2, 1]
    assert found.batch == 0 and found.facts()["largest_batch"] is None
    assert " of " not in found.note


def test_batches_end_at_one() -> None:
    assert list(smaller_batches(1, 0.9)) == []
    assert list(smaller_batches(2, 0.9)) == [1]
    assert next(smaller_batches(1000, share_of(too_large(100, 10)))) == 90
    assert all(list(smaller_batches(batch, 0.5))[-1] == 1 for batch in range(2, 60))


class Comparisons:
    """Compare where the plain step fits. It maps (device, batch) to the error there, if any."""

    def __init__(self, wrong: dict[tuple[str, int], Exception]) -> None:
        self.wrong = wrong
        self.tasks: list[dict[str, Any]] = []

    def __call__(self, task: dict[str, Any], *, usual: Any, **_: Any) -> dict[str, Any]:
        self.tasks.append(task)
        at = task["request"]
        error = self.wrong.get((at["device"], at["batch_size"]))
        if error is not None:
            raise error
        return {"exact": {}, "usual": usual or {}}

    @property
    def places(self) -> list[tuple[str, int]]:
        return [(task["request"]["device"], task["request"]["batch_size"]) for task in self.tasks]


@pytest.fixture
def compared(folded: FoldedStep, monkeypatch: pytest.MonkeyPatch) -> Callable[..., comparing.Compared]:
    def compare(comparisons: Comparisons, batch: int, step: Any = folded, **asked: Any) -> comparing.Compared:
        """Compare where the plain step fits up to a batch."""
        monkeypatch.setattr(comparing, "compare_fresh", comparisons)
        known, schedule = Plain(1, (), batch), Schedule.plain(folded.graph)
        asked = {"request": REQUEST, "report": silent, "cancelled": never, **asked}
        return compare_where_it_fits(folded=step, schedule=schedule, plain=known, **asked)

    return compare


Compare = Callable[..., comparing.Compared]


def test_what_was_compared_while_measuring_is_of_the_own_batch(compared: Compare) -> None:
    known = {"loss": 1.0}
    assert compared(Comparisons({}), 32, usual=known).found == {"exact": {}, "usual": known}
    assert compared(Comparisons({}), 9, usual=known).found == {"exact": {}, "usual": {}}


def test_at_its_own_batch_nothing_is_moved(compared: Compare) -> None:
    comparisons = Comparisons({})
    found = compared(comparisons, 32)
    assert (found.batch, found.device, found.note) == (32, "cpu", "")
    assert "nodes" not in comparisons.tasks[0]


def test_a_comparison_without_room_goes_to_a_smaller_batch(folded: FoldedStep, compared: Compare) -> None:
    wrong: dict[tuple[str, int], Exception] = {
        ("cpu", 32): too_large(1000, 500),
        ("cpu", 14): TraceError("another"),
    }
    comparisons = Comparisons(wrong)
    found = compared(comparisons, 32)
    assert comparisons.places == [("cpu", 32), ("cpu", 14), ("cpu", 9)]
    assert found.batch == 9 and "at batch 9: the largest batch tried" in found.note
    assert len(comparisons.tasks[2]["nodes"]) == folded.graph.n


def test_the_result_says_that_it_fits_nowhere(compared: Compare) -> None:
    found = compared(comparisons := Comparisons({}), 0)
    assert comparisons.tasks == [] and found.found is None
    other_error = Comparisons({("cpu", 9): WorkerDiedError("for another reason")})
    with pytest.raises(WorkerDiedError, match="for another reason"):
        compared(other_error, 9)


def test_a_gpu_without_room_has_the_cpu_compare(folded: FoldedStep, compared: Compare) -> None:
    device = replace(folded.graph.device, kind="gpu")
    on_gpu = replace(folded, graph=replace(folded.graph, device=device))
    found = compared(comparisons := Comparisons({}), 0, on_gpu, request=replace(REQUEST, device="gpu"))
    assert comparisons.places == [("cpu", 32)] and "nodes" in comparisons.tasks[0]
    assert "at batch 32 on the CPU" in found.note


@pytest.mark.parametrize(
    ("said", "code", "error"),
    [
        *(("", code, StepTooLargeError) for code in (-9, -11, -6)),
        ("Traceback\nMemoryError: std::bad_alloc", 1, StepTooLargeError),
        (
            "tensorflow.python.framework.errors_impl.ResourceExhaustedError: {{node x}} OOM",
            1,
            StepTooLargeError,
        ),
        ("ValueError: MemoryError is not it", 1, WorkerDiedError),
        ("", -15, WorkerDiedError),
    ],
)
def test_a_process_that_dies_for_lack_of_memory_is_too_large(said: str, code: int, error: type) -> None:
    assert type(error_without_answer("the measuring process", said, code)) is error
