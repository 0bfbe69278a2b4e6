from __future__ import annotations

import subprocess
import sys
import zipfile
from pathlib import Path

import h5py
import pytest

from checkmate.catalog.file_kind import model_file_kind
from checkmate.errors import ModelReadError, UnsafeModelError
from tests.fuzz.models import KINDS
from tests.tf.conftest import dense_model, load

CHILD = """
import os, sys
os.environ["TF_CPP_MIN_LOG_LEVEL"] = "3"
from pathlib import Path
from tests.fuzz.judge import tried
from tests.fuzz.models import opened
kind, folder, count, seed = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4])
read, samples = opened(kind, folder)
os.chdir(folder)
verdict = tried(read, samples, count, seed)
print(verdict.tried, dict(verdict.outcomes))
for number, (broken, data) in enumerate(verdict.breaks.items()):
    print(verdict.times[broken], broken)
    Path(f"break-{number}").write_bytes(data)
sys.exit(1 if verdict.breaks else 0)
"""


def tried(folder: Path, kind: str, count: int, seed: int) -> None:
    told = subprocess.run(
        [sys.executable, "-c", CHILD, kind, str(folder), str(count), str(seed)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert told.returncode == 0, told.stdout[-3000:] + told.stderr[-3000:]
    assert "refused" in told.stdout


@pytest.mark.heavy
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_breaks_the_reader_of_models(kind: str, tmp_path: Path) -> None:
    tried(tmp_path, kind, 60, seed=1)


@pytest.mark.long
@pytest.mark.parametrize("kind", KINDS)
def test_ten_thousand_model_files_break_nothing(kind: str, tmp_path: Path) -> None:
    tried(tmp_path, kind, 10_000, seed=2)


def repacked(path: Path, **parts: bytes) -> Path:
    """Save a model and write other parts into its archive."""
    dense_model().save(path)
    with zipfile.ZipFile(path) as archive:
        whole = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, body in {**whole, **{n.replace("__", "."): b for n, b in parts.items()}}.items():
            archive.writestr(name, body)
    return path


def test_a_zip_bomb_is_refused_before_it_is_unpacked(tmp_path: Path) -> None:
    path = repacked(tmp_path / "bomb.keras", config__json=b" " * 2**28 + b"{}")
    with pytest.raises(ModelReadError, match="more than 100 times its size"):
        model_file_kind(path)


@pytest.mark.parametrize("name", ["../evil.json", "/etc/evil", "assets/../../evil", "..\\evil"])
def test_a_path_that_leads_out_of_the_archive_is_refused(name: str, tmp_path: Path) -> None:
    path = repacked(tmp_path / "out.keras")
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr(name, b"evil")
    with pytest.raises(ModelReadError, match="would be unpacked elsewhere"):
        load(str(path))
    assert not (tmp_path.parent / "evil.json").exists()


def test_a_config_that_is_nested_deeply_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ModelReadError, match="nested too deeply"):
        model_file_kind(repacked(tmp_path / "deep.keras", config__json=b'{"a":' * 100_000))


@pytest.mark.parametrize("ending", [".keras", ".h5"])
def test_weights_of_a_huge_declared_shape_are_refused(ending: str, tmp_path: Path) -> None:
    path = tmp_path / f"huge{ending}"
    weights = tmp_path / "w.h5"
    if ending == ".h5":
        dense_model().save(path)
    with h5py.File(path if ending == ".h5" else weights, "a") as file:
        file.create_dataset("huge", shape=(10**7, 10**4), dtype="float32", chunks=(1024, 1024))
    if ending == ".keras":
        repacked(path, **{"model__weights__h5": weights.read_bytes()})
    with pytest.raises(ModelReadError, match="says that it holds 400,000,000,"):
        load(str(path))


@pytest.mark.parametrize("kind", ["link", "storage", "virtual"])
def test_weights_in_another_file_are_not_read(kind: str, tmp_path: Path) -> None:
    path, secret = tmp_path / "m.h5", tmp_path / "secret"
    secret.write_bytes(bytes(4096))
    dense_model().save(path)
    with h5py.File(path, "a") as file:
        if kind == "link":
            file["other"] = h5py.ExternalLink(str(secret), "/")
        elif kind == "storage":
            file.create_dataset("other", shape=(4,), dtype="f4", external=[(str(secret), 0, 16)])
        else:
            layout = h5py.VirtualLayout(shape=(4,), dtype="f4")
            layout[:] = h5py.VirtualSource(str(secret), "x", shape=(4,))
            file.create_virtual_dataset("other", layout)
    with pytest.raises(UnsafeModelError, match="reads its data from another file"):
        load(str(path))


def test_links_in_a_circle_end(tmp_path: Path) -> None:
    path = tmp_path / "circle.h5"
    dense_model().save(path)
    with h5py.File(path, "a") as file:
        file["round"] = h5py.SoftLink("/")
        file["again"] = file["/"]
        file["gone"] = h5py.SoftLink("/nowhere")
    assert load(str(path)).model.trainable_variables


@pytest.mark.heavy
@pytest.mark.whole
def test_a_file_that_hdf5_reads_for_ever_is_refused() -> None:
    """Test a file that the mutator made. HDF5's library never ends reading one of its attributes."""
    with pytest.raises(ModelReadError, match="HDF5's library does not end when it reads it"):
        load(str(Path(__file__).parent / "data" / "endless.h5"))
