from __future__ import annotations

import csv
import json
import signal
from pathlib import Path
from xml.etree import ElementTree

import pytest

from checkmate.formats import write_graph
from tests.end2end.test_cli import call, one_object, start
from tests.generated_graphs import training_dag

SECONDS = ("--time-limit", "4")


def test_the_table_and_the_files(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / f"curve.{ending}" for ending in ("svg", "csv", "json")]
    given = [argument for path in files for argument in ("-o", path)]
    code, out, err = call(capsys, "frontier", chain_file, "--budgets", "1,50%,70,min", *SECONDS, *given)
    assert code == 0 and "frontier: baseline griewank" in err
    lines = out.splitlines()
    assert lines[0].startswith("chain: 16 ops, keep-everything needs 90 B; solved by auto in ")
    assert [line.split()[0] for line in lines[2:6]] == ["1", "40", "45", "70"]
    assert lines[2].endswith("infeasible, proved") and lines[5].endswith("optimal, proved")
    assert [line for line in lines if line.startswith("wrote ")] == [f"wrote {path}" for path in files]
    ElementTree.fromstring(files[0].read_text(encoding="utf-8"))
    rows = list(csv.DictReader(files[1].read_text(encoding="utf-8").splitlines()))
    told = json.loads(files[2].read_text(encoding="utf-8"))
    budgets = [int(row["budget_bytes"]) for row in rows if row["kind"] == "budget"]
    assert budgets == [row["budget_bytes"] for row in told["budgets"]] == [1, 40, 45, 70]


def test_the_contract_s_own_names_of_options(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    files = [tmp_path / f"curve.{ending}" for ending in ("svg", "csv", "json")]
    given = ("--points", "3", "--svg", files[0], "--csv", files[1], "-o", files[2], "--baseline", "none")
    code, out, _ = call(capsys, "frontier", chain_file, *SECONDS, *given)
    assert code == 0 and [line for line in out.splitlines() if line.startswith("wrote ")] == [
        f"wrote {path}" for path in files
    ]
    assert len(json.loads(files[2].read_text(encoding="utf-8"))["budgets"]) == 3


def test_json_quiet_and_chosen_baselines(chain_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    options = ("--budgets", "3", "--json", "--quiet", "--baseline", "griewank", "--baseline", "greedy")
    code, out, err = call(capsys, "frontier", chain_file, *SECONDS, *options)
    found = one_object(out)
    assert (code, err) == (0, "")
    assert [baseline["solver"] for baseline in found["baselines"]] == ["griewank", "greedy"]
    assert len(found["budgets"]) == 3
    code, out, _ = call(
        capsys, "frontier", chain_file, *SECONDS, "--budgets", "3", "--json", "--baseline", "none"
    )
    assert code == 0 and one_object(out)["baselines"] == []


def test_a_graph_that_fits_no_budget(chain_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, out, _ = call(
        capsys, "frontier", chain_file, *SECONDS, "--budgets", "10,20,30", "--baseline", "none"
    )
    assert code == 3 and out.count("infeasible, proved") == 3


def test_a_file_that_is_no_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "g.json").write_text("[]")
    code, _, err = call(capsys, "frontier", tmp_path / "g.json")
    assert code == 2 and "is neither a checkmate graph nor a node-link graph" in err


@pytest.mark.heavy
def test_ctrl_c_keeps_what_was_found(tmp_path: Path) -> None:
    graph, out = tmp_path / "g.json", tmp_path / "curve.csv"
    write_graph(graph, training_dag(2, 60))
    baselines = ("--baseline", "keep-all", "--baseline", "chen-greedy-linear")
    process = start(
        "frontier", graph, "--budgets", "4", "--time-limit", "20", *baselines, "-o", out, "--json"
    )
    assert process.stderr is not None
    while "of 4)" not in (line := process.stderr.readline()):
        assert line, "it ended before it was asked to"
    process.send_signal(signal.SIGINT)
    text, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert one_object(text)["cancelled"] is True
    assert err.endswith("checkmate: interrupted; what was found so far is kept\n") and "Traceback" not in err
    rows = list(csv.DictReader(out.read_text(encoding="utf-8").splitlines()))
    budgets = [row for row in rows if row["kind"] == "budget"]
    assert len(budgets) == 4 and budgets[-1]["status"] == "optimal"
    assert sum(row["kind"] == "baseline" for row in rows) > 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["curve.csv", "g.json"]
