"""The files that come along with the program: fonts, icons, profiled graphs, licences.

In the project they lie in ``resources/``. The package has them as ``checkmate/resources``: a link in a checkout, real files
in a wheel. So one way of reading works from a checkout, an editable install and a wheel.
"""

from __future__ import annotations

from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path

_GRAPH = ".graph"


def resource(*parts: str) -> Traversable:
    """Return the bundled file or folder at ``parts``, for example ``resource("fonts", "LICENSE-Inter.txt")``."""
    return files("checkmate").joinpath("resources", *parts)


def contents(folder: str, ending: str) -> list[Traversable]:
    """Return the files of the bundled ``folder`` whose names end in ``ending``, by name; empty where there is no folder."""
    there = resource(folder)
    found = there.iterdir() if there.is_dir() else iter(())
    return sorted((entry for entry in found if entry.name.endswith(ending)), key=lambda entry: entry.name)


def graph_files() -> list[Path]:
    """Return the files of the bundled graphs, by name."""
    return [_on_disk(entry) for entry in contents("graphs", ".json.gz")]


def graph_name(path: Path) -> str:
    """Return the name under which commands take the bundled graph in ``path``, for example ``unet-b8.graph``."""
    return path.name.split(".")[0] + _GRAPH


def find_graph(name: str) -> Path | None:
    """Return the file of the bundled graph called ``name``, if there is one."""
    return next((path for path in graph_files() if graph_name(path) == name), None)


def _on_disk(entry: Traversable) -> Path:
    # Packages are always unpacked: TensorFlow and Qt cannot run from an archive. So this is the file itself, and it stays.
    with as_file(entry) as path:
        return path
