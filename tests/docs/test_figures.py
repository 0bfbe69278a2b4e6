"""Test that no table of figures is typed by hand.

Each is made from a file."""

from __future__ import annotations

import importlib
import json
import re
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from tests.docs.pages import DOCS, PAGES, ROOT, name_of

MEASURED = [ROOT / "README.md", *(page for page in PAGES if page.parent.name == "benchmarks")]
_GENERATED = re.compile(r"<!-- Written by (docs/\w+\.py) ")
_FIGURE = re.compile(r"[*+≥–-]*\d")


@pytest.fixture
def scripts(monkeypatch: pytest.MonkeyPatch) -> tuple[ModuleType, ModuleType]:
    """Return ``docs/regions.py`` and ``docs/render_figures.py`` as modules."""
    monkeypatch.syspath_prepend(str(DOCS))
    return importlib.import_module("regions"), importlib.import_module("render_figures")


def typed_by_hand(page: str, regions: ModuleType) -> list[str]:
    """Return the rows with figures that no script wrote.

    A row's number in front of it is no figure.
    """
    rows = [line for line in regions.outside(page).splitlines() if line.startswith("|")]
    return [row for row in rows if any(_FIGURE.match(cell.strip()) for cell in row.split("|")[2:])]


@pytest.mark.parametrize("page", MEASURED, ids=name_of)
def test_no_table_of_figures_is_typed_by_hand(page: Path, scripts: tuple[ModuleType, ModuleType]) -> None:
    text = page.read_text(encoding="utf-8")
    written_by = _GENERATED.search(text)
    if written_by is not None:
        assert f'"{Path(written_by[1]).name}"' in (ROOT / "tests/docs/test_pages.py").read_text("utf-8")
    else:
        assert typed_by_hand(text, scripts[0]) == []


def test_a_figure_that_is_typed_by_hand_is_found(scripts: tuple[ModuleType, ModuleType]) -> None:
    regions, _ = scripts
    region = "<!-- figures: a/b -->\n\n| U-Net | 217 |\n\n<!-- end of figures -->\n"
    assert typed_by_hand(region, regions) == []
    assert typed_by_hand(region + "| 1 | U-Net | **217** MiB |\n", regions) == ["| 1 | U-Net | **217** MiB |"]
    again = regions.filled(region, lambda name: f"made from {name}\n")
    assert again == region.replace("| U-Net | 217 |", "made from a/b")


@pytest.mark.parametrize("path", sorted((DOCS / "results" / "records").glob("*.json")), ids=name_of)
def test_a_record_says_where_and_when_it_was_read(path: Path, scripts: tuple[ModuleType, ModuleType]) -> None:
    record: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    assert all(record[key] for key in ("copied_from", "date", "machine", "versions", "load", "command"))
    shown = scripts[1].figures(f"records/{path.stem}")
    assert f"Copied from {record['copied_from']}." in shown and record["rows"][-1][0] in shown


def test_every_result_is_on_a_page() -> None:
    """Leave out ``training``: the page of examples shows all of it."""
    pages = "".join(page.read_text(encoding="utf-8") for page in PAGES)
    for path in (DOCS / "results").rglob("*.json"):
        if path.parent.name != "training":
            assert f"`docs/results/{path.relative_to(DOCS / 'results')}`" in pages
