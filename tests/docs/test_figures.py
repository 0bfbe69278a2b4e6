from __future__ import annotations

import importlib
import json
import re
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.pages import DOCS, ROOT, name_of

MEASURED = [ROOT / "README.md", DOCS / "pages" / "benchmarks.md"]
RESULTS = DOCS / "results"
_FIGURE = re.compile(r"[*+≥–-]*\d")


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return ``docs/render_figures.py`` as a module."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("render_figures")


def typed_by_hand(page: str, script: ModuleType) -> list[str]:
    """Return the rows with figures that no script wrote. A row's number in front of it is no figure."""
    rows = [line for line in script.outside(page).splitlines() if line.startswith("|")]
    return [row for row in rows if any(_FIGURE.match(cell.strip()) for cell in row.split("|")[2:])]


@pytest.mark.parametrize("page", MEASURED, ids=name_of)
def test_no_table_of_figures_is_typed_by_hand(page: Path, script: ModuleType) -> None:
    assert typed_by_hand(page.read_text(encoding="utf-8"), script) == []


def test_a_figure_that_is_typed_by_hand_is_found(script: ModuleType) -> None:
    region = "<!-- figures: a/b -->\n\n| U-Net | 217 |\n\n<!-- end of figures -->\n"
    assert typed_by_hand(region, script) == []
    assert typed_by_hand(region + "| 1 | U-Net | **217** MiB |\n", script) == ["| 1 | U-Net | **217** MiB |"]
    again = script.filled(region, lambda name: f"made from {name}\n")
    assert again == region.replace("| U-Net | 217 |", "made from a/b")


def test_a_record_says_where_and_when_it_was_read() -> None:
    for path in (RESULTS / "records").glob("*.json"):
        record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        assert all(record[key] for key in ("copied_from", "date", "machine", "versions", "load", "command"))


def test_every_result_is_on_a_page(script: ModuleType) -> None:
    pages = "".join(page.read_text(encoding="utf-8") for page in script.pages())
    names = {str(path.relative_to(RESULTS).with_suffix("")) for path in RESULTS.rglob("*.json")}
    assert names == set(script.VIEWS)
    assert all(f"<!-- figures: {name} -->" in pages for name in names)


def test_a_page_is_written_or_checked(
    script: ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
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
