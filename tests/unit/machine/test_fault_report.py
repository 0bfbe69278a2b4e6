"""Test what a fault of the program says, and what is in the file to attach."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import Any

import pytest

from checkmate import __version__
from checkmate.errors import PlanningError, TraceError
from checkmate.machine import fault_report
from checkmate.machine.fault_report import as_known
from checkmate.machine.processor import processor_name
from tests.graphs_strategies import training_chain


def fault(**held: Any) -> Exception:
    """Return an error whose frames hold a graph and ``held``."""
    graph = training_chain(4)
    try:
        raise KeyError(graph.n, *held)
    except KeyError as error:
        return error


def report_of(error: Exception) -> Path:
    return Path(as_known(error).hint.partition("attach ")[2])


def test_an_expected_error_is_itself_and_writes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(fault_report, "_written", lambda error: pytest.fail("written"))
    error = TraceError("the batch holds text")
    assert as_known(error) is error


def test_a_report_says_what_whoever_mends_it_asks() -> None:
    text = report_of(fault()).read_text()
    assert f"Checkmate Explorer {__version__}" in text and f"Python {platform.python_version()}" in text
    assert processor_name() in text and "raise KeyError(graph.n" in text
    types = {op.type for op in training_chain(4).ops}
    (line,) = (line for line in text.splitlines() if line.startswith("ops of the graph: "))
    assert types and all(f"{kind} " in line for kind in types)


def test_a_report_holds_no_values_and_no_name_of_the_user(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Path, "home", lambda: Path(__file__).parents[2])
    text = report_of(fault(secret="31.4159")).read_text()
    assert "31.4159" not in text and str(Path.home()) not in text and "~/unit/machine" in text


def test_the_same_fault_again_writes_the_same_file() -> None:
    first, again = (report_of(fault()) for _ in range(2))
    assert first == again != report_of(fault(other=1))


def test_where_no_report_can_be_written_that_is_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    (tmp_path / "checkmate-explorer").write_text("a file in the way")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    known = as_known(fault())
    assert isinstance(known, PlanningError) and str(known).startswith("unexpected KeyError")
    assert "no report of it could be written (" in known.hint
