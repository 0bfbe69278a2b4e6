"""Test the page of results, and how a generated page is written."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from checkmate.bench.common.machine import this_machine
from checkmate.bench.fidelity import rows as fidelity
from checkmate.formats.files import write_json
from checkmate.solvers.problem import SolveOptions
from tests.docs.pages import DOCS
from tests.unit.bench.test_fidelity import MADE_WITH, row


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return ``docs/render_results.py`` as a module."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("render_results")


def results(folder: Path, rows: list[dict[str, Any]]) -> Path:
    """Write one result and its words; return their folder."""
    write_json(folder / "fidelity.json", fidelity.facts(rows, this_machine(), SolveOptions()))
    (folder / "fidelity.md").write_text("## Fidelity\n", encoding="utf-8")
    return folder


def test_versions_kernels_machine_and_load_are_shown(script: ModuleType, tmp_path: Path) -> None:
    page = script.page(results(tmp_path, [row(made_with=MADE_WITH)]))
    assert "TensorFlow 2.21.0, Keras 3.15.0, checkmate 0.1.0, Eigen's kernels on a processor" in page
    assert "other programs took at most 0.0 of 2 cores" in page


def test_a_file_without_them_is_shown_as_before(script: ModuleType, tmp_path: Path) -> None:
    over = row(status="over", problem="over by 1 MiB after 1 attempts: the export is refused")
    page = script.page(results(tmp_path, [over]))
    assert "| gpt b8 | 50 % |" in page and "measured with" not in page
    assert "after 1 attempt: the export" in page and "after 1 attempts" not in page


def test_a_page_is_written_or_checked(
    script: ModuleType,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    page = tmp_path / "page.md"
    monkeypatch.setattr(sys, "argv", ["make.py", "--check"])
    assert script.write_or_check(page, "text", "docs/make.py") == 1 and not page.exists()
    assert "is out of date; run: python docs/make.py" in capsys.readouterr().err
    monkeypatch.setattr(sys, "argv", ["make.py"])
    assert script.write_or_check(page, "text", "docs/make.py") == 0
    monkeypatch.setattr(sys, "argv", ["make.py", "--check"])
    assert script.write_or_check(page, "text", "docs/make.py") == 0
    assert script.write_or_check(page, "another", "docs/make.py") == 1
