"""Find the bundled files: fonts, icons, profiled graphs, licences.

In the project they are in ``resources/``. The package has them as ``checkmate/resources``: a link in a
checkout, real files in a wheel. So one way of reading works for a checkout, an editable install and a
wheel.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

_GRAPH = ".graph"


def resource(*parts: str) -> Traversable:
    """Return the bundled file or folder at ``parts``.

    For example ``resource("fonts", "LICENSE-Inter.txt")``.
    """
    return files("checkmate").joinpath("resources", *parts)


def contents(folder: str, ending: str) -> list[Traversable]:
    """Return the files of the bundled ``folder`` that end in ``ending``.

    They are sorted by name; empty where there is no such folder.
    """
    there = resource(folder)
    found = there.iterdir() if there.is_dir() else iter(())
    return sorted((entry for entry in found if entry.name.endswith(ending)), key=lambda entry: entry.name)


def graph_files() -> list[Path]:
    """Return the files of the bundled graphs, by name."""
    return [_on_disk(entry) for entry in contents("graphs", ".json.gz")]


def graph_name(path: Path) -> str:
    """Return the name of the bundled graph in ``path``. Commands accept it; for example ``unet-b8.graph``."""
    return path.name.split(".")[0] + _GRAPH


def find_graph(name: str) -> Path | None:
    """Return the file of the bundled graph called ``name``, if there is one."""
    return next((path for path in graph_files() if graph_name(path) == name), None)


def _on_disk(entry: Traversable) -> Path:
    # Packages are always unpacked: TensorFlow and Qt cannot run from an archive. So this is the file itself,
    # not a temporary copy.
    with as_file(entry) as path:
        return path
