"""Test the wheel and the source archive, and that they agree."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tarfile
import zipfile
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
NEEDED = ("app", "checkmate", "docs", "resources", "pyproject.toml", "README.md", "LICENSE")
pytest.importorskip("setuptools", minversion="77", reason="builds with the setuptools that is installed")
pytestmark = pytest.mark.heavy


def built(kind: str, source: Path, folder: Path) -> Path:
    """Build ``source`` with setuptools: a ``wheel`` or an ``sdist``."""
    folder.mkdir(exist_ok=True)
    code = f"import setuptools.build_meta as b, sys; b.build_{kind}(sys.argv[1])"
    subprocess.run(
        [sys.executable, "-c", code, str(folder)], cwd=source, check=True, capture_output=True, timeout=300
    )
    (made,) = folder.iterdir()
    return made


def files_in(wheel: Path) -> dict[str, bytes]:
    with zipfile.ZipFile(wheel) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Copy the project without what earlier builds left. setuptools would take that in."""
    folder = tmp_path_factory.mktemp("source")
    for name in NEEDED:
        if (ROOT / name).is_dir():
            shutil.copytree(
                ROOT / name, folder / name, symlinks=True, ignore=shutil.ignore_patterns("__pycache__")
            )
        else:
            shutil.copy(ROOT / name, folder / name)
    return folder


@pytest.fixture(scope="module")
def wheel(source: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    made = built("wheel", source, tmp_path_factory.mktemp("built") / "wheel")
    assert made.stat().st_size < 2.5 * 2**20
    return files_in(made)


def test_every_module_is_inside(wheel: dict[str, bytes]) -> None:
    modules = {
        str(path.relative_to(ROOT)) for name in ("app", "checkmate") for path in (ROOT / name).rglob("*.py")
    }
    assert {name for name in wheel if name.endswith(".py")} == modules
    assert {name.partition("/")[0] for name in wheel} - {"app", "checkmate"} == {
        "checkmate_explorer-0.1.0.dist-info"
    }


def test_the_kernels_translation_is_inside(wheel: dict[str, bytes]) -> None:
    name = "checkmate/solvers/compile/kernels.bc.xz"
    assert wheel[name] == (ROOT / name).read_bytes()


def test_resources_and_licences_are_inside_and_pictures_for_readers_are_not(wheel: dict[str, bytes]) -> None:
    folders = ("export", "fonts", "graphs", "icons", "desktop", "report", "tables", "theme")
    wanted = {
        f"checkmate/resources/{f}/{path.name}": path
        for f in folders
        for path in (ROOT / "resources" / f).iterdir()
    }
    found = {name for name in wheel if name.startswith("checkmate/resources/")}
    assert found == set(wanted) and len(found) >= 14
    assert all(wheel[name] == path.read_bytes() for name, path in wanted.items())
    licences = {name.partition("/licenses/")[2] for name in wheel if "/licenses/" in name}
    assert licences == {"LICENSE", "resources/fonts/LICENSE-Inter.txt"}
    metadata = next(body for name, body in wheel.items() if name.endswith("/METADATA")).decode("utf-8")
    assert "License-Expression: Apache-2.0 AND OFL-1.1" in metadata


def test_the_source_archive_makes_the_same_wheel(
    source: Path, wheel: dict[str, bytes], tmp_path: Path
) -> None:
    archive = built("sdist", source, tmp_path / "sdist")
    with tarfile.open(archive) as packed:
        assert not any("/docs/" in name for name in packed.getnames())
        # Python before 3.11.4 has no filters; the archive is our own.
        packed.extractall(tmp_path, **({"filter": "data"} if hasattr(tarfile, "data_filter") else {}))
    again = files_in(built("wheel", tmp_path / archive.name.removesuffix(".tar.gz"), tmp_path / "wheel"))
    assert again.keys() == wheel.keys()
    assert [name for name in wheel if wheel[name] != again[name]] == []
