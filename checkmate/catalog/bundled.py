"""Find the bundled files: fonts, icons, profiled graphs, licences.

``checkmate/resources`` is a link to ``resources/`` in a checkout, real files in a wheel."""

from __future__ import annotations

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

_GRAPH = ".graph"


def resource(*parts: str) -> Traversable:
    """Return the bundled file or folder at ``parts``, such as ``resource("fonts", "LICENSE-Inter.txt")``."""
    return files("checkmate").joinpath("resources", *parts)


def contents(folder: str, ending: str) -> list[Traversable]:
    """Return the files of the bundled ``folder`` that end in ``ending``, by name; none where there is no such
    folder."""
    there = resource(folder)
    found = there.iterdir() if there.is_dir() else iter(())
    return sorted((entry for entry in found if entry.name.endswith(ending)), key=lambda entry: entry.name)


def graph_files() -> list[Path]:
    return [_on_disk(entry) for entry in contents("graphs", ".json.gz")]


def graph_name(path: Path) -> str:
    """Return the name of the bundled graph in ``path``. Commands accept it; for example ``unet-b8.graph``."""
    return path.name.split(".")[0] + _GRAPH


def find_graph(name: str) -> Path | None:
    return next((path for path in graph_files() if graph_name(path) == name), None)


def _on_disk(entry: Traversable) -> Path:
    # Packages are always unpacked: TensorFlow and Qt cannot run from an archive. So this is the file itself,
    # not a temporary copy.
    with as_file(entry) as path:
        return path
