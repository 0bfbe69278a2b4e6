"""Execute the notebooks of ``examples/`` in a kernel."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from tests.programs import ROOT

NOTEBOOKS = sorted((ROOT / "examples").glob("*.ipynb"))


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_is_kept_without_outputs(path: Path) -> None:
    cells = [cell for cell in json.loads(path.read_text("utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert cells and all(cell["outputs"] == [] and cell["execution_count"] is None for cell in cells)


def executed(name: str, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """Return the outputs of all cells, in order; a cell that fails raises an error."""
    nbformat, nbclient = pytest.importorskip("nbformat"), pytest.importorskip("nbclient")
    pytest.importorskip("ipykernel")
    monkeypatch.setenv("PYTHONPATH", str(ROOT))
    (path,) = (path for path in NOTEBOOKS if path.stem == name)
    notebook = nbformat.read(path, as_version=4)
    nbclient.NotebookClient(notebook, timeout=300, kernel_name="python3").execute(cwd=str(path.parent))
    return [output for cell in notebook.cells for output in cell.get("outputs", [])]


def texts(outputs: list[dict[str, Any]], stream: str) -> str:
    return "".join(output["text"] for output in outputs if output.get("name") == stream)


def shown(outputs: list[dict[str, Any]]) -> list[str]:
    return [output["data"]["text/html"] for output in outputs if "text/html" in output.get("data", {})]


@pytest.mark.heavy
def test_a_budget_is_tuned(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = executed("tune_budget", monkeypatch)
    pictures = shown(outputs)
    for part in (
        "unet: a graph",
        "unet: a schedule",
        "unet: no schedule",
        "extra cost against memory",
        "<iframe",
    ):
        assert sum(part in picture for picture in pictures) == 1, part
    # Progress is a line that is updated in its place, and nothing is written beside it.
    lines = [picture for picture in pictures if ">took " in picture]
    assert 3 <= len(lines) <= 4 and "checkmate [" not in texts(outputs, "stderr")
    assert "% cost" in texts(outputs, "stdout")


@pytest.mark.heavy
def test_a_model_is_trained_within_a_budget(monkeypatch: pytest.MonkeyPatch) -> None:
    outputs = executed("train_within_budget", monkeypatch)
    said = texts(outputs, "stdout")
    plain, within = (float(peak) for peak in re.findall(r"peak +([\d.]+) MiB", said))
    assert 0 < within < 0.8 * plain
    assert len(set(re.findall(r"loss (\d\.\d{4})", said))) == 1
    assert "checkmate [" not in texts(outputs, "stderr") and "recomputation" in texts(outputs, "stderr")
    assert len([picture for picture in shown(outputs) if ">took " in picture]) == 1
