from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ["lstm", "-b", 4]
# A step of a moment, for commands that end the same way for any model.
CONVNET = [f"{ROOT / 'tests' / 'tf' / 'small_models.py'}:convnet", "--allow-code"]
SMALL = [*CONVNET, "-b", 8]
# In smaller batches the weights are all that counts, and a share of the plain peak may be too little.
LARGER = [*CONVNET, "-b", 32]
pytestmark = [
    pytest.mark.heavy,
    pytest.mark.skipif(
        "not __import__('importlib.util').util.find_spec('tensorflow')", reason="needs TensorFlow"
    ),
]


def left_in(folder: Path) -> list[str]:
    """Return the names of the temporary files that commands left behind.

    Any program with TensorFlow leaves the bytecode of what AutoGraph converted there.
    """
    return sorted(path.name for path in folder.iterdir() if path.name != "__pycache__")


def start(folder: Path, *arguments: object) -> subprocess.Popen[str]:
    """Start ``checkmate …`` in ``folder``. Its temporary files lie in ``folder/tmp``."""
    (folder / "tmp").mkdir()
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "TMPDIR": str(folder / "tmp")}
    command = [sys.executable, "-m", "checkmate", *map(str, arguments)]
    return subprocess.Popen(
        command,
        cwd=folder,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


@pytest.fixture(scope="module")
def doubtful_ops(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Profile once; return how many ops were read on a busy machine. A quiet machine measures those again."""
    before = tmp_path_factory.mktemp("profile")
    process = start(before, "profile", *LARGER, "-o", "g.json", "--quiet", "--json")
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    reading = json.loads(out)["cost_reading"]
    assert reading["load"] >= 0 and reading["cores"] >= 1 and reading["spread"] >= 0
    return int(reading["doubtful_ops"])


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory, doubtful_ops: int) -> tuple[Path, str, str]:
    """Return one finished run's folder, standard output and error.

    A profile of the same step came before it.
    """
    folder = tmp_path_factory.mktemp("run")
    process = start(folder, "run", *LARGER, "--budget", "80%", "-o", "out", "--json")
    out, err = process.communicate(timeout=900)
    assert process.returncode == 0, err
    return folder, out, err


def test_the_report_holds_what_was_asked(exported: tuple[Path, str, str]) -> None:
    folder, out, _ = exported
    report = json.loads(out)
    assert report == json.loads((folder / "out" / "report.json").read_text())
    assert (report["format"], report["version"], report["ok"], report["problems"]) == (
        "checkmate-report",
        1,
        True,
        [],
    )
    assert report["gradients"]["equal"] and report["gradients"]["bitwise"]
    peak = report["peak_bytes"]
    assert 0 < peak["measured"] <= report["budget_bytes"] < peak["plain_measured"]
    assert 0 < peak["reloaded_measured"] <= report["budget_bytes"]
    assert report["loss"]["optimized"] == pytest.approx(report["loss"]["plain"], rel=1e-4)
    assert report["seconds"]["measured"] > 0 and report["seconds"]["plain_measured"] > 0


def test_costs_measured_before_are_used_and_named(exported: tuple[Path, str, str], doubtful_ops: int) -> None:
    _, out, err = exported
    used = any(note.startswith("op costs: measured before (cache, ") for note in json.loads(out)["notes"])
    assert used is ("measure: run" not in err) and "measure: measuring the plain step" in err
    assert used or doubtful_ops, "no cost of the earlier profile was used"


def test_seconds_are_predicted_as_profiled_and_for_today(exported: tuple[Path, str, str]) -> None:
    seconds = json.loads(exported[1])["seconds"]
    pace = seconds["plain_measured"] / seconds["plain_predicted"]
    assert seconds["predicted_today"] == pytest.approx(seconds["predicted"] * pace)


def test_the_folder_is_whole(exported: tuple[Path, str, str]) -> None:
    folder, _, err = exported
    names = {path.name for path in (folder / "out").iterdir()}
    assert names == {"saved_model", "graph.json", "schedule.json", "report.json", "train_example.py"}
    assert {path.name for path in folder.iterdir()} == {"out", "tmp"}
    assert not left_in(folder / "tmp"), "temporary files are left behind"
    assert "Traceback" not in err and "oneDNN" not in err


def test_its_schedule_passes_the_check(exported: tuple[Path, str, str]) -> None:
    folder = exported[0] / "out"
    files = folder / "graph.json", folder / "schedule.json"
    command = [sys.executable, "-m", "checkmate", "check", *files, "--json"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True, timeout=60)
    found = json.loads(done.stdout)
    assert found["valid"] and found["within_budget"]


def test_the_example_trains_without_checkmate(exported: tuple[Path, str, str], tmp_path: Path) -> None:
    """Test the example in a copy elsewhere. There nothing of this repository can be imported by accident."""
    script = exported[0] / "out" / "train_example.py"
    assert "checkmate" not in script.read_text().replace("Checkmate", "").split('"""')[-1]
    blocked = tmp_path / "checkmate.py"
    blocked.write_text("raise ImportError('the example must not need checkmate')\n")
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, str(script)],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-2000:]
    assert "loss" in done.stdout


def test_a_budget_below_what_one_op_needs(tmp_path: Path) -> None:
    process = start(tmp_path, "run", *SMALL, "--budget", "1MiB", "--costs", "analytic", "-o", "out")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 3, err
    assert "needs by itself" in err and out == ""
    assert "fold: " in err and "measure: " not in err, "it is refused before anything is measured"
    assert [path.name for path in tmp_path.iterdir()] == ["tmp"]


def test_an_unwritable_folder_is_refused_before_any_work(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    process = start(tmp_path, "run", *SAMPLE, "--budget", "90%", "-o", "file/out")
    out, err = process.communicate(timeout=300)
    assert process.returncode == 2 and out == ""
    assert err.startswith("checkmate: cannot write file/out: "), "a stage was begun"
    assert "is a file, not a folder" in err and "Traceback" not in err


def test_the_stages_one_by_one(tmp_path: Path) -> None:
    """Test profile, solve, verify and export one by one.

    ``verify`` refuses another model before it measures the schedule.
    """

    def done(*arguments: object) -> tuple[int, str, str]:
        if (tmp_path / "tmp").exists():
            assert not left_in(tmp_path / "tmp"), "temporary files are left behind"
            shutil.rmtree(tmp_path / "tmp")
        process = start(tmp_path, *arguments)
        out, err = process.communicate(timeout=600)
        return process.returncode, out, err

    code, out, err = done("profile", *SMALL, "--costs", "analytic", "-o", "g.json.gz", "--json")
    assert code == 0, err
    facts = json.loads(out)
    assert (facts["name"], facts["batch_size"], facts["cost_origin"]) == ("convnet", 8, "analytic")
    assert facts["fixed_bytes"] < facts["keep_everything_peak_bytes"]
    assert done("solve", "g.json.gz", "--budget", "95%", "-o", "s.json", "--quiet")[0] == 0
    code, out, err = done("verify", *CONVNET, "s.json", "-g", "g.json.gz", "--budget", "1MiB", "--json")
    assert code == 5, err
    report = json.loads(out)
    assert report["gradients"]["bitwise"] and report["budget_bytes"] == 2**20 and not report["ok"]
    assert any("is over the budget 1.00 MiB" in problem for problem in report["problems"])
    code, _, err = done("verify", "resnet", "s.json", "-g", "g.json.gz")
    assert code == 2
    assert "was made for graph" in err and "not for 'resnet'" in err
    # The schedule is over this budget of the user's own, so another one is written.
    code, out, err = done(
        "export", *CONVNET, "s.json", "-g", "g.json.gz", "-o", "out", "--budget", "80%", "--json"
    )
    assert code == 0, err
    report = json.loads(out)
    assert (
        max(report["peak_bytes"]["measured"], report["peak_bytes"]["reloaded_measured"])
        <= report["budget_bytes"]
    )
    assert any("the schedule that was asked for" in note for note in report["notes"])
    assert (tmp_path / "out" / "saved_model").is_dir() and (tmp_path / "out" / "report.json").is_file()
