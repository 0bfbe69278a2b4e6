"""Test ``checkmate bench`` through the real solvers.

Tested are the table, the JSON, bad input and exit codes.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path
from typing import Any

import pytest

from checkmate import planning
from checkmate.errors import CancelledError, ExitCode
from checkmate.formats import write_graph
from tests.end2end.test_cli import call, one_object, start
from tests.graphs_strategies import training_chain


def test_smoke_through_the_real_solvers(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "bench.json"
    arguments = ("bench", "solvers", "--smoke", "--solver", "auto", "--solver", "greedy", "--json", "-o", out)
    code, text, err = call(capsys, *arguments)
    assert code == 0
    found = one_object(text)
    assert found == json.loads(out.read_text()) and found["format"] == "checkmate-bench"
    assert [(t["graph"], t["solver"]) for t in found["trials"]] == [
        (graph, solver) for graph in ("layered30", "chain8", "network0") for solver in ("auto", "greedy")
    ]
    for trial in found["trials"]:
        assert trial["status"] in ("optimal", "feasible")
        assert trial["peak_bytes"] <= trial["budget_bytes"] == int(0.8 * trial["plain_peak_bytes"])
        assert trial["lower_bound"] <= trial["cost"] == trial["costs"][-1][1]
        assert trial["seconds_to_first"] <= trial["seconds_to_within_1_percent"] <= trial["seconds_to_final"]
        assert trial["relative_to_best"] >= 1
    assert "bench: chain at %, auto" in "".join(c for c in err if not c.isdigit())


@pytest.mark.long
def test_fidelity_smoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "fidelity.json"
    code, text, _ = call(capsys, "bench", "fidelity", "--smoke", "--json", "-o", out)
    found = one_object(text)
    assert code == 0 and found == json.loads(out.read_text())
    assert [(row["model"], row["budget"]) for row in found["rows"]] == [("two_io", 0.6), ("gru", 0.6)]
    for row in found["rows"]:
        assert row["status"] in ("fits", "infeasible", "limit"), row["problem"]
        if row["status"] == "fits":
            assert row["peak_bytes"]["measured"] <= row["budget_bytes"]
            assert row["gradients"]["equal"]
            assert abs(row["peak_bytes"]["predicted"] / row["peak_bytes"]["measured"] - 1) < 0.08
    assert any(row["status"] == "fits" for row in found["rows"])


@pytest.mark.long
def test_peers_smoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "peers.json"
    code, text, _ = call(capsys, "bench", "peers", "--smoke", "--json", "-o", out)
    found = one_object(text)
    assert code == 0 and found == json.loads(out.read_text())
    assert (
        found["summary"]["peers"] == 8
        and found["summary"]["ours_compared"] == found["summary"]["ours_correct"] > 0
    )


@pytest.mark.long
def test_compiled_peers_smoke(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "peers.json"
    code, text, _ = call(capsys, "bench", "peers", "--target", "xla", "--smoke", "--json", "-o", out)
    found = one_object(text)
    assert code == 0 and found == json.loads(out.read_text()) and found["target"] == "xla"
    assert found["rows"][0]["label"] == "XLA alone" and found["summary"]["peers"] == 8
    assert found["summary"]["ours_compared"] == found["summary"]["ours_correct"] > 0


def test_peers_for_xla_ask_for_xla_and_say_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test that a file goes on with its own target, and is refused to others."""
    right = {"bitwise": False, "relative_error": 1e-7, "worst": 1e-6, "state_bitwise": True}
    ours = {"method": "ours-9", "label": "ours", "ours": True, "status": "ok", "note": "", "peak_bytes": 9}
    asked: list[str | None] = []

    def measured(request: Any, **_: Any) -> list[dict[str, Any]]:
        asked.append(request.target)
        return [{**ours, "compared": {**right, "worst": 0.5 if "gpt" in request.model else 1e-6}}]

    monkeypatch.setattr(planning, "peers", measured)
    out = tmp_path / "x.json"
    arguments = ("bench", "peers", "-o", out, "--models")
    code, text, _ = call(capsys, *arguments, "gru", "--target", "xla")
    assert code == 0 and "MiB read from XLA" in text and json.loads(out.read_text())["target"] == "xla"
    code, text, _ = call(capsys, *arguments, "gru,gpt", "--target", "xla", "--json")
    assert code == 5 and [row["model"] for row in one_object(text)["rows"]] == ["gru", "gpt"]
    code, _, err = call(capsys, *arguments, "gru")
    assert code == 2 and "did not run on TensorFlow's executor" in " ".join("".join(err).split())
    assert asked == ["xla", "xla"]
    code, text, _ = call(capsys, "bench", "peers", "--models", "gru", "--json")
    assert code == 0 and one_object(text)["target"] == "executor" and asked[2:] == [None]


def test_fidelity_with_peers_prints_both_and_writes_both(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    ours = {
        "method": "chen-sqrt-ap",
        "label": "ours, Chen",
        "ours": True,
        "status": "ok",
        "note": "",
        "peak_bytes": 9,
    }
    wrong = {"bitwise": False, "relative_error": 0.5, "worst": 0.5, "state_bitwise": True}
    rows: list[dict[str, object]] = [ours]
    monkeypatch.setattr(
        planning, "fidelity", lambda *_, **__: [{"budget": 0.6, "status": "limit", "problem": ""}]
    )
    monkeypatch.setattr(planning, "peers", lambda *_, **__: list(rows))
    arguments = (
        "bench",
        "fidelity",
        "--peers",
        "--models",
        "gru",
        "--budgets",
        "60",
        "-o",
        tmp_path / "f.json",
    )
    code, text, _ = call(capsys, *arguments)
    assert code == 0 and "ours, Chen" in text and text.count("wrote ") == 2
    assert json.loads((tmp_path / "f-peers.json").read_text())["rows"][0]["method"] == "chen-sqrt-ap"
    rows[0] = {**ours, "compared": wrong}
    code, text, _ = call(capsys, *arguments, "--json", "--models", "gpt")
    assert code == 5 and [row["model"] for row in one_object(text)["peers"]["rows"]] == ["gru", "gpt"]
    (tmp_path / "f-peers.json").write_text("{}")
    code, _, err = call(capsys, *arguments)
    assert code == 2 and "f-peers.json is not a measurement of peers" in err


def test_in_words(chain_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = call(
        capsys, "bench", "solvers", chain_file, "--budget", "70%", "--fraction", "0.5", "--solver", "greedy",
        "--solver", "keep-all", "--quiet",
    )  # fmt: skip
    assert code == 0 and err == ""
    head, *rows = text.splitlines()[:5]
    assert head.split()[:5] == ["graph", "ops", "budget", "solver", "status"]
    assert [row.split()[2:5] for row in rows] == [
        ["70%", "greedy", "feasible"],
        ["70%", "keep-all", "limit"],
        ["f=0.5", "greedy", "feasible"],
        ["f=0.5", "keep-all", "limit"],
    ]
    assert "keeping everything needs 90 B" in text and "\non " in text


def test_an_infeasible_budget_is_a_measurement(chain_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = call(
        capsys, "bench", "solvers", chain_file, "--budget", "39", "--solver", "greedy", "--json"
    )
    (trial,) = one_object(text)["trials"]
    assert (code, trial["status"], trial["costs"]) == (0, "infeasible", [])
    assert "op 'b6' needs by itself" in trial["message"]


def test_bench_alone_prints_help(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = call(capsys, "bench")
    assert code == 0 and err == ""
    assert text.startswith("usage: checkmate bench") and "solvers" in text


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("potatoes",), "invalid choice: 'potatoes'"),
        (("solvers", "--solver", "nope"), "there is no solver 'nope'"),
        (("solvers", "none.json"), "there is no file none.json"),
        (("solvers", "--budget", "6.5 potatoes"), "cannot read '6.5 potatoes' as a budget"),
        (
            ("solvers", "--fraction", "1.5"),
            "'1.5' is not between 0 (least reachable peak) and 1 (keep everything)",
        ),
        (("solvers", "--fraction", "-0.1"), "'-0.1' is not between 0"),
        (("solvers", "--fraction", "nan"), "'nan' is not between 0"),
        (("solvers", "--time-limit", "soon"), "'soon' is not a number of seconds"),
        (("solvers", "--workers", "0"), "'0' is not a whole number of at least 1"),
        (("solvers", "-o", "no/such/folder/b.json"), "there is no folder"),
        (("fidelity", "--models", "potato"), "the zoo has no model 'potato'"),
        (("fidelity", "--budgets", "75,half"), "'75,half' is not a list of percentages"),
        (("fidelity", "--budgets", "0"), "'0' is not a list of percentages"),
        (("fidelity", "--budgets", "250"), "'250' is not a list of percentages"),
        (("peers", "--models", "potato"), "the zoo has no model 'potato'"),
        (("peers", "-o", "no/such/folder/b.json"), "there is no folder"),
        (("fidelity", "-b", "0"), "'0' is not a whole number of at least 1"),
        (("fidelity", "-o", "no/such/folder/b.json"), "there is no folder"),
    ],
)
def test_bad_usage(arguments: tuple[str, ...], sentence: str, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = call(capsys, "bench", *arguments)
    assert (code, text) == (2, "")
    assert sentence in err and err.startswith("checkmate: ") and err.count("\n") <= 2
    code, text, _ = call(capsys, "bench", *arguments, "--json")
    assert (code, one_object(text)["exit_code"]) == (2, 2)


def test_ctrl_c(tmp_path: Path) -> None:
    graph, out = tmp_path / "g.json", tmp_path / "b.json"
    write_graph(graph, training_chain(120))
    process = start(
        "bench",
        "solvers",
        graph,
        "--budget",
        "400",
        "--solver",
        "local-search",
        "--time-limit",
        "300",
        "-o",
        out,
    )
    assert process.stderr is not None
    for line in process.stderr:
        if "] bench: " in line:
            break
    process.send_signal(signal.SIGINT)
    text, err = process.communicate(timeout=60)
    assert (process.returncode, text) == (130, "")
    assert err.endswith("checkmate: interrupted; nothing was written\n") and "Traceback" not in err
    assert not out.exists()


def test_interrupted_peers_say_what_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "peers.json"

    def interrupted(*wanted: Any, save: Any, **others: Any) -> Any:
        save([])
        raise CancelledError("cancelled")

    monkeypatch.setattr("checkmate.bench.peers.rows.run", interrupted)
    code, _, said = call(capsys, "bench", "peers", "--smoke", "--quiet", "-o", out)
    assert code == ExitCode.INTERRUPTED
    assert f"interrupted; {out} has the rows so far" in said and "continues where it stopped" in said
