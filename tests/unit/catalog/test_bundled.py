"""Test that bundled files are read as package data and are complete."""

from __future__ import annotations

import struct
import subprocess
import sys
from pathlib import Path

import pytest

from checkmate.catalog.bundled import contents, find_graph, graph_files, graph_name, resource
from checkmate.cli.main import main
from checkmate.formats import read_any_graph
from checkmate.graphs.by_name import read_or_build
from checkmate.listing import listing

ROOT = Path(__file__).resolve().parents[3]
SIZES = {16, 24, 32, 48, 64, 128, 256}


def test_the_package_has_what_the_project_has() -> None:
    for folder in ("fonts", "graphs", "icons", "desktop", "tables"):
        names = sorted(path.name for path in (ROOT / "resources" / folder).iterdir())
        assert names == [entry.name for entry in contents(folder, "")]
        assert names
        for name in names:
            assert resource(folder, name).read_bytes() == (ROOT / "resources" / folder / name).read_bytes()
    assert contents("nowhere", "") == []


def test_fonts_come_with_their_licence() -> None:
    fonts = contents("fonts", ".otf")
    assert len(fonts) == 3 and all(font.read_bytes()[:4] == b"OTTO" for font in fonts)
    assert "License: OFL-1.1" in resource("fonts", "LICENSE-Inter.txt").read_text(encoding="utf-8")


def test_icons_have_the_size_their_names_say() -> None:
    found = set()
    for icon in contents("icons", ".png"):
        width, height = struct.unpack(">II", icon.read_bytes()[16:24])
        assert width == height and icon.name == f"checkmate-explorer-{width}.png"
        found.add(width)
    assert found == SIZES
    assert "<svg" in resource("icons", "checkmate-explorer.svg").read_text(encoding="utf-8")


def test_bundled_graphs_have_names_that_commands_take(
    capsys: pytest.CaptureFixture[str], monkeypatch, tmp_path
) -> None:
    monkeypatch.chdir(tmp_path)  # names must not depend on the current folder
    names = [row["name"] for row in listing("models") if row["kind"] == "graph"]
    assert names == [graph_name(path) for path in graph_files()] and "unet-b8.graph" in names
    for name, path in zip(names, graph_files(), strict=True):
        assert find_graph(name) == path
        assert read_or_build(name).fingerprint == read_any_graph(path).fingerprint
        assert main(["info", name]) == 0
        assert f"batch {read_any_graph(path).batch_size}" in capsys.readouterr().out
    assert find_graph("unet-b9.graph") is None


def test_a_file_of_that_name_is_the_user_s(tmp_path: Path, monkeypatch) -> None:
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "unet-b8.graph"
    path.write_text("{}", encoding="utf-8")
    assert main(["info", "unet-b8.graph"]) == 2


def test_reading_loads_nothing_heavy() -> None:
    code = (
        "import sys, checkmate.catalog.bundled as b; b.graph_files(); print(sorted({'numpy', "
        "'PySide6', 'tensorflow'} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
