"""Test the edge of planning: what fails there trains as before."""

from __future__ import annotations

import logging
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from checkmate.errors import (
    CheckmateError,
    DynamicShapeError,
    ExportError,
    NotCompiledError,
    PlanningError,
    TraceError,
    UsageError,
)
from checkmate.fallback import planned, unplanned
from checkmate.request import OnMiss


def failing(error: BaseException, **options: Any) -> str:
    def make() -> str:
        raise error

    return planned(make, unplanned, **{"on_miss": OnMiss.CLOSEST, **options})


def test_what_can_be_planned_is() -> None:
    assert planned(lambda: 3, lambda error: 0, OnMiss.RAISE) == 3


def test_an_expected_error_is_said_with_what_to_do() -> None:
    said = failing(TraceError("the batch holds text", hint="feed token ids"))
    assert said == (
        "this step cannot be scheduled: the batch holds text. It trains as before. "
        "To change that, feed token ids."
    )
    assert failing(ExportError("no.")) == "this step cannot be scheduled: no. It trains as before."


@pytest.mark.parametrize(
    ("error", "why"),
    [
        (KeyError("x"), "KeyError: 'x'"),
        (RuntimeError(), "RuntimeError"),
        (ValueError("Not this. Nor that.\nNor more"), "ValueError: Not this"),
        (MemoryError("all of it"), "MemoryError: all of it"),
    ],
)
def test_what_nobody_expected_is_named_and_logged(
    error: Exception, why: str, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG, "checkmate.fallback")
    said = failing(error)
    said, _, path = said.partition(", and attach ")
    assert said == (
        f"this step cannot be scheduled: unexpected {why}. It trains as before. "
        "To change that, please report this fault of checkmate"
    )
    assert "raise error" in Path(path.rstrip(".")).read_text()
    assert caplog.records[0].exc_info[1] is error
    assert len(said.partition("as before.")[0].split()) <= 30
    with pytest.raises(PlanningError) as caught:
        failing(error, on_miss=OnMiss.RAISE)
    assert str(caught.value) == f"unexpected {why}" and caught.value.__cause__ is error


def test_an_interrupt_passes() -> None:
    with pytest.raises(KeyboardInterrupt):
        failing(KeyboardInterrupt())


def test_an_error_that_passes_is_raised_as_it_is() -> None:
    error = NotCompiledError("not by XLA")
    with pytest.raises(NotCompiledError) as caught:
        failing(error, passes=(NotCompiledError,))
    assert caught.value is error and error.__cause__ is None


@pytest.mark.parametrize(
    ("error", "raised"),
    [
        (TraceError("wrong"), True),
        (UsageError("wrong"), True),
        (DynamicShapeError("open"), False),
        (ExportError("ours"), False),
        (KeyError("ours"), False),
    ],
)
def test_of_an_example_what_may_be_wrong_with_it_is_raised(error: CheckmateError, raised: bool) -> None:
    with pytest.raises(CheckmateError, match="wrong") if raised else nullcontext():
        failing(error, example=True)


def test_what_is_said_keeps_nothing_of_the_batch() -> None:
    heard: list[CheckmateError] = []
    planned(lambda: [][0], heard.append, OnMiss.CLOSEST)
    assert heard[0].__traceback__ is None is heard[0].__cause__ is heard[0].__context__
