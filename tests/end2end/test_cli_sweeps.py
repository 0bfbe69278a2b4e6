from __future__ import annotations

import csv
import signal
import time
from pathlib import Path

import pytest

from checkmate.formats import write_graph
from tests.end2end.test_cli import call, one_object, start
from tests.generated_graphs import training_dag
from tests.unit.sweeps.counting import read_entries

MOVES = ("--solver", "local-search", "--moves", "1500")
LONGER = ("--solver", "local-search", "--moves", "30000")


@pytest.fixture
def files(tmp_path: Path) -> list[Path]:
    paths = [tmp_path / f"net{seed}.json" for seed in (1, 2)]
    for seed, path in enumerate(paths):
        write_graph(path, training_dag(seed, 10))
    return paths


@pytest.mark.heavy
def test_ctrl_c_and_the_same_command_again(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    journal = tmp_path / "sweep.jsonl"
    shares = ",".join(f"{share}%" for share in range(60, 99, 3))
    given = ("--budgets", shares, "--baseline", "none", *LONGER)
    arguments = ("frontier", files[0], *given, "--jobs", "2", "--journal", journal)
    process = start(*arguments)
    end = time.monotonic() + 60
    while not journal.exists() or len(read_entries(journal)) < 3:
        assert process.poll() is None and time.monotonic() < end
        time.sleep(0.01)
    process.send_signal(signal.SIGINT)
    _, err = process.communicate(timeout=60)
    kept = read_entries(journal)
    assert process.returncode == 130 and "Traceback" not in err
    assert "checkmate: interrupted; what was found so far is kept" in err and 3 <= len(kept) < 13
    code, out, _ = call(capsys, *arguments, "--json")
    curve = one_object(out)
    assert code == 0 and len(curve["budgets"]) == 13
    assert read_entries(journal).items() >= kept.items()
    code, out, err = call(capsys, *arguments, "--json")
    assert code == 0 and one_object(out)["budgets"] == curve["budgets"] and "sweep" not in err


@pytest.mark.heavy
def test_curves_of_several_graphs(
    files: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    given = ("--budgets", "3", *MOVES, "--baseline", "keep-all", "-o", tmp_path / "{graph}.csv")
    code, out, _ = call(capsys, "frontier", *files, *given, "--engine", "processes:2", "--json")
    found = one_object(out)
    assert code == 0 and found["format"] == "checkmate-frontiers"
    assert [curve["graph"]["name"] for curve in found["curves"]] == ["network0", "network1"]
    for path, curve in zip(files, found["curves"], strict=True):
        rows = list(csv.DictReader(path.with_suffix(".csv").read_text(encoding="utf-8").splitlines()))
        budgets = [int(row["budget_bytes"]) for row in rows if row["kind"] == "budget"]
        assert budgets == [row["budget_bytes"] for row in curve["budgets"]] and len(budgets) == 3


def test_several_graphs_without_an_engine(files: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(
        capsys, "frontier", *files, "--budgets", "80%,90%", "--time-limit", "2", "--baseline", "none"
    )
    assert code == 0 and out.count("solved by auto in") == 2 and "by itself" not in out
