from __future__ import annotations

import json
import os
import subprocess
import sys
import zipfile
from pathlib import Path
from typing import Any

import pytest

from tests.end2end.test_cli import call

ROOT = Path(__file__).resolve().parents[2]
_CODE = """
import json, sys
from checkmate.cli.main import main
code = main(sys.argv[1:])
heavy = {"tensorflow", "keras", "h5py", "numba", "highspy", "PySide6"}
print(json.dumps([code, sorted(heavy & set(sys.modules))]))
"""

UNWRITABLE = [
    "profile unet -o /proc/out",
    "run unet --budget 60% -o /proc/out",
    "run unet --budget 60% -o /proc/out/deeper",
    "solve unet-b8.graph --budget 60% -o /proc/out",
    "solve unet-b8.graph --budget 60% --matrices /proc/out",
    "solve unet-b8.graph --budget 60% --certificate /proc/out",
    "certify unet-b8.graph --budget 60% -o /proc/out",
    "frontier unet-b8.graph -o /proc/out.json",
    "frontier unet-b8.graph --svg /proc/out.svg",
    "frontier unet-b8.graph --csv /proc/out.csv",
    "max-batch unet --budget 1GiB -o /proc/out",
    "report . -o /proc/out",
    "explore unet --screenshot /proc/out",
    "explore unet --figure /proc/out.pdf",
]


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("run nofile.keras --budget 60% -o out", "there is no file or sample 'nofile.keras'"),
        ("run unett --budget 60% -o out", "did you mean the sample unet?"),
        ("run resnet50 --budget 60% -o out", "did you mean keras.applications.ResNet50?"),
        ("run other.py --budget 60% -o out", "name the function too: other.py:function"),
        ("run keras.applications.ResNet51 --budget 60% -o out", "did you mean keras.applications.ResNet50?"),
        ("run missing.py:build --budget 60% -o out", "there is no file missing.py"),
        ("run model.py:build --budget 60% -o out", "--allow-code runs it"),
        ("run notes.txt --budget 60% -o out", "notes.txt is neither a .keras nor an .h5 model file"),
        ("run unet --budget 60q -o out", "cannot read '60q' as a budget"),
        ("run unet --budget 60% --solver nope -o out", "there is no solver 'nope'"),
        ("run unet --budget 60% --input-shape 0,128,3 -o out", "is not a shape"),
        ("profile nofile.keras -o g.json", "there is no file or sample 'nofile.keras'"),
        ("verify nofile.keras s.json -g g.json", "there is no file g.json"),
        ("export nofile.keras s.json -g g.json -o out", "there is no file g.json"),
        ("max-batch nofile.keras --budget 1GiB", "there is no file or sample 'nofile.keras'"),
        (
            "max-batch nofile.keras --dimension input --budget 1GiB",
            "there is no file or sample 'nofile.keras'",
        ),
        ("max-batch unet --budget 1q", "cannot read '1q' as a budget"),
        ("explore nofile.keras", "there is no file or sample 'nofile.keras'"),
        ("explore unet --budget 7q", "cannot read '7q' as a budget"),
        ("solve nofile.json --budget 60%", "there is no file nofile.json"),
    ],
)
def test_nothing_heavy_is_imported(line: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("raise SystemExit('this must not run')\n")
    (tmp_path / "notes.txt").write_text("no model\n")
    code, err, heavy = ended(line, tmp_path)
    assert said in err
    assert code == 2 and heavy == set()
    assert not (tmp_path / "out").exists()


def ended(line: str, folder: Path) -> tuple[int, str, set[str]]:
    """Return a command's exit code, standard error and heavy imports."""
    done = subprocess.run(
        [sys.executable, "-c", _CODE, *line.split()],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    code, heavy = json.loads(done.stdout.splitlines()[-1])
    return code, done.stderr, set(heavy)


# Nobody can make a file in /proc, root included, and permissions do not tell so.
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc")
@pytest.mark.parametrize("line", UNWRITABLE)
def test_a_place_that_cannot_be_written_is_said_before_the_work(line: str, tmp_path: Path) -> None:
    code, err, heavy = ended(line, tmp_path)
    assert code == 2 and "cannot write /proc/out" in err
    assert not {"tensorflow", "keras", "PySide6"} & heavy and list(tmp_path.iterdir()) == []


def zipped(path: Path, **files: str) -> None:
    with zipfile.ZipFile(path, "w") as archive:
        for name, text in files.items():
            archive.writestr(name, text)


@pytest.fixture
def models(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Go to a folder with models of Keras and of PyTorch, new and old."""
    monkeypatch.chdir(tmp_path)
    weights = {"model.weights.h5": ""}
    zipped(tmp_path / "new.keras", **{"config.json": '{"class_name": "Functional"}'}, **weights)
    (tmp_path / "old.h5").write_bytes(b"\x89HDF\r\n\x1a\n")
    zipped(tmp_path / "new.pt", **{"archive/data.pkl": ""})
    (tmp_path / "old.pth").write_bytes(b"\x80\x02\x8a\nl\xfc\x9cF\xf9 j\xa8P\x19.\x80\x02M")


@pytest.mark.parametrize(
    ("name", "said", "then"),
    [
        ("new.keras", "new.keras is a model, not a graph", "checkmate profile new.keras -o G.json"),
        ("old.h5", "old.h5 is a model, not a graph", "checkmate profile old.h5 -o G.json"),
        ("unet", "unet is a model, not a graph", "checkmate profile unet -o G.json"),
        ("keras.applications.VGG16", "VGG16 is a model, not a graph", "keras.applications.VGG16 -o G.json"),
        ("new.pt", "new.pt is a PyTorch file", "PyTorch's models are not supported"),
        ("old.pth", "old.pth is a PyTorch file", "PyTorch's models are not supported"),
    ],
)
@pytest.mark.parametrize(
    "line",
    [
        "info {}",
        "info unet-b8.graph {}",
        "solve {} --budget 60%",
        "check {} s.json",
        "certify {} --budget 60% -o c.json",
        "frontier {}",
        "cards {}",
        "export unet s.json -g {} -o out",
        "verify unet s.json -g {}",
    ],
)
def test_a_model_in_place_of_a_graph(
    line: str, name: str, said: str, then: str, models: None, capsys: Any
) -> None:
    code, _, err = call(capsys, *line.format(name).split(), "--quiet")
    sentence, hint = err.splitlines()
    assert code == 2 and said in sentence and then in hint


@pytest.mark.parametrize("line", ["profile {} -o g.json", "run {} --budget 60% -o out"])
@pytest.mark.parametrize("name", ["new.pt", "old.pth"])
def test_a_model_of_pytorch(line: str, name: str, models: None, capsys: Any) -> None:
    code, _, err = call(capsys, *line.format(name).split(), "--quiet")
    assert code == 2 and f"{name} is a PyTorch file" in err and "PyTorch's models are not supported" in err
