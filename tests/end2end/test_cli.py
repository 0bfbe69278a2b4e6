from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from checkmate.cli.main import main
from checkmate.formats import read_schedule, write_graph
from checkmate.ir import Graph
from checkmate.solvers.compile import compilation
from checkmate.solvers.compile.compilation import load_kernels
from checkmate.solvers.portfolio import auto
from tests.graphs_strategies import training_chain

ROOT = Path(__file__).resolve().parents[2]


def call(capsys: pytest.CaptureFixture[str], *arguments: object) -> tuple[int, str, str]:
    code = main([str(argument) for argument in arguments])
    out, err = capsys.readouterr()
    return code, out, err


def one_object(text: str) -> dict[str, Any]:
    """Return the one JSON object that ``text`` is. It is on one line, and nothing else is there."""
    assert text.count("\n") == 1 and text.endswith("\n")
    found = json.loads(text)
    assert isinstance(found, dict)
    return found


def test_solve_then_check(
    chain: Graph, chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.json"
    code, text, _ = call(capsys, "solve", chain_file, "--budget", "60", "-o", out)
    assert code == 0
    assert "chain within 60 B" in text and f"wrote {out}" in text
    result = read_schedule(out, chain)
    assert result.peak_bytes is not None and result.peak_bytes <= 60
    code, text, _ = call(capsys, "check", chain_file, out)
    assert code == 0
    assert text.startswith("valid, within the budget 60 B\n")


OF = "of this graph, with its sizes and costs and each op whole"


@pytest.mark.parametrize(
    ("asked", "said"),
    [
        ("--budget 60 --solver greedy", f"  bound     {OF}; the solver's own, which is trusted here; check"),
        ("--budget 60 --keep a0", f"  proof     {OF}; the solver's own, which is trusted here\n"),
        ("--max-overhead 5%", f"  proof     {OF}; the solver's own, which is trusted here\n"),
        ("--budget 60", f"  proof     {OF}; verified apart from the solver"),
    ],
)
def test_solve_says_who_proves_its_bound(
    asked: str, said: str, chain_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    code, text, _ = call(capsys, "solve", chain_file, *asked.split())
    assert code == 0 and said in text


def test_json_is_one_object_and_nothing_else(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.json"
    code, text, _ = call(capsys, "solve", chain_file, "--budget", "70%", "-o", out, "--json")
    solved = one_object(text)
    assert code == 0
    assert (solved["format"], solved["budget_bytes"]) == ("checkmate-schedule", 63)
    assert solved["steps"] == json.loads(out.read_text())["steps"]
    code, text, _ = call(capsys, "check", chain_file, out, "--json")
    checked = one_object(text)
    assert code == 0
    assert (checked["valid"], checked["within_budget"], checked["problems"]) == (True, True, [])
    assert (checked["peak_bytes"], checked["cost"]) == (solved["peak_bytes"], solved["cost"])
    code, text, _ = call(capsys, "info", chain_file, "--json")
    facts = one_object(text)
    assert (facts["ops"], facts["keep_everything_peak_bytes"], facts["minimum_bound_bytes"]) == (16, 90, 40)
    assert sum(entry["bytes"] for entry in facts["alive_at_peak"]) == 90
    for what in ("solvers", "loaders", "exporters", "models"):
        code, text, _ = call(capsys, "list", what, "--json")
        assert code == 0 and one_object(text)[what]


def test_info_in_words(chain_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = call(capsys, "info", chain_file)
    assert code == 0
    assert "chain: 16 ops, 16 values" in text
    assert "8 forward, 8 backward" in text
    assert "keep everything   90 B (peak while 'b7' runs)" in text
    assert "at least 40 B" in text


def test_info_of_two_graphs(chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    other = tmp_path / "other.json"
    write_graph(other, training_chain(20))
    code, text, _ = call(capsys, "info", chain_file, other)
    assert code == 0 and text.startswith("chain (A) and ")
    rows = {line.strip().split("  ")[0]: line.split() for line in text.splitlines()}
    assert rows["ops"][1:] == ["16", "40", "x", "2.5"]
    code, text, _ = call(capsys, "info", chain_file, other, "--json")
    told = one_object(text)
    assert (code, told["format"], told["version"]) == (0, "checkmate-graphs", 1)
    alone = [one_object(call(capsys, "info", path, "--json")[1]) for path in (chain_file, other)]
    assert told["graphs"] == alone
    code, text, _ = call(capsys, "info", chain_file, chain_file)
    assert code == 0 and text.count("the same") >= 5


def test_a_device_is_named_only_where_there_was_one(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    from checkmate.ir import Device

    path = tmp_path / "g.json"
    for device, said in ((Device("analytic", "none"), False), (Device("Some GPU", "gpu"), True)):
        write_graph(path, replace(training_chain(2), device=device))
        assert ("profiled on" in call(capsys, "info", path)[1]) == said


def test_list_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert "greedy" in call(capsys, "list", "solvers")[1]
    assert "transformer" in call(capsys, "list", "models")[1]
    code, text, err = call(capsys, "list", "potatoes")
    assert (code, text) == (2, "")
    assert "invalid choice: 'potatoes'" in err


def test_progress_goes_to_standard_error_and_quiet_silences_it(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    _, loud_out, loud_err = call(capsys, "solve", chain_file, "--budget", "60", "--solver", "greedy")
    _, quiet_out, quiet_err = call(
        capsys, "solve", chain_file, "--budget", "60", "--solver", "greedy", "--quiet"
    )
    assert "solve: best so far +" in loud_err and "best so far" not in loud_out
    assert quiet_err == ""
    assert quiet_out.splitlines()[:3] == loud_out.splitlines()[:3]


def test_a_budget_of_potatoes(chain_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, err = call(capsys, "solve", chain_file, "--budget", "6.5 potatoes")
    assert (code, text) == (2, "")
    assert err == (
        "checkmate: argument --budget: cannot read '6.5 potatoes' as a budget; write it like 6.5GiB, 16GB, "
        "60% (of the plain peak) or min\n  see: checkmate solve --help\n"
    )
    code, text, _ = call(capsys, "solve", chain_file, "--budget", "6.5 potatoes", "--json")
    failed = one_object(text)
    assert (code, failed["exit_code"]) == (2, 2)
    assert "6.5 potatoes" in failed["error"]["message"]


def test_a_budget_below_the_minimum(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.json"
    code, text, _ = call(capsys, "solve", chain_file, "--budget", "39", "-o", out)
    assert code == 3
    assert "chain within 39 B: infeasible, proved" in text
    assert "budget 39 B is below the 40 B that op 'b6' needs by itself" in text
    assert "raise the budget to at least 40 B" in text
    assert not out.exists()
    code, text, _ = call(capsys, "solve", chain_file, "--budget", "39", "--json")
    assert (code, one_object(text)["status"], one_object(text)["steps"]) == (3, "infeasible", [])


def test_a_limit_without_a_schedule(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Test keep-all, which needs 90 bytes and proves nothing about others."""
    out = tmp_path / "s.json"
    code, text, _ = call(capsys, "solve", chain_file, "--budget", "60", "--solver", "keep-all", "-o", out)
    assert code == 4
    assert "no schedule found; one may exist" in text
    assert not out.exists()


def test_the_minimum_as_a_budget(chain_file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = call(capsys, "solve", chain_file, "--budget", "min", "--json")
    assert code == 0
    assert 40 <= one_object(text)["peak_bytes"] <= 50


def test_a_schedule_for_another_graph(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, out = tmp_path / "other.json", tmp_path / "s.json"
    write_graph(other, training_chain(5))
    assert call(capsys, "solve", other, "--budget", "100", "-o", out)[0] == 0
    code, text, err = call(capsys, "check", chain_file, out)
    assert (code, text) == (2, "")
    assert "the schedule was made for graph sha256:" in err
    assert "solve this graph again, or pass the graph file that the schedule was solved on" in err


def test_check_says_what_is_wrong(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.json"
    call(capsys, "solve", chain_file, "--budget", "100", "-o", out)
    good = json.loads(out.read_text())
    code, text, _ = call(capsys, "check", chain_file, out, "--budget", "80")
    assert code == 5 and "valid, OVER the budget 80 B" in text
    out.write_text(json.dumps({**good, "steps": good["steps"][:-1]}))
    code, text, _ = call(capsys, "check", chain_file, out)
    assert code == 5 and "NOT VALID" in text and "op 15 'b0' never runs" in text
    out.write_text(json.dumps({**good, "peak_bytes": 17}))
    code, text, _ = call(capsys, "check", chain_file, out)
    assert code == 5 and "the schedule says its peak is 17, the replay finds 90" in text
    out.write_text(json.dumps({**good, "cost": 3.0}))
    code, text, _ = call(capsys, "check", chain_file, out, "--json")
    assert code == 5 and one_object(text)["valid"] is False


def test_check_lists_what_is_computed_again(
    chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "s.json"
    call(capsys, "solve", chain_file, "--budget", "60", "-o", out)
    code, text, _ = call(capsys, "check", chain_file, out, "--recomputed", "--json")
    told = one_object(text)
    assert code == 0 and len(told["recomputed"]) == told["recomputations"] > 0
    for each in told["recomputed"]:
        assert each["step_before"] <= each["freed_after"] < each["step"] < each["read_at"]
        assert each["fullest_bytes"] <= told["peak_bytes"]
    code, text, _ = call(capsys, "check", chain_file, out, "--recomputed")
    lines = text.splitlines()
    first = told["recomputed"][0]
    assert code == 0 and "computed again:" in lines
    row = lines[lines.index("computed again:") + 2].split()
    assert row[:2] == [str(first["step"]), first["op"]] and row[-1] == first["reader"]
    call(capsys, "solve", chain_file, "--budget", "100%", "-o", out)
    assert "nothing is computed again" in call(capsys, "check", chain_file, out, "--recomputed")[1]


def test_matrices(chain_file: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "m.npz"
    code, text, _ = call(capsys, "solve", chain_file, "--budget", "60", "--matrices", path, "--json")
    assert code == 0
    with np.load(path, allow_pickle=False) as stored:
        computed, held, order = stored["R"], stored["S"], stored["order"]
    assert computed.shape == held.shape == (16, 16) and computed.dtype == held.dtype == bool
    steps = one_object(text)["steps"]
    assert order.tolist() == list(dict.fromkeys(steps))
    assert computed.sum() <= len(steps) and computed.sum() > 16
    assert all(computed[stage, op] for stage, op in enumerate(order))


def test_no_command_is_a_question_for_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        main([])
    assert ended.value.code == 0 and capsys.readouterr().out.startswith("usage: checkmate")


def test_debug_shows_the_traceback(capsys: pytest.CaptureFixture[str]) -> None:
    code, _, err = call(capsys, "info", "none.json", "--debug")
    assert code == 2 and "Traceback" in err


def test_a_missing_library_is_named() -> None:
    blocked = "import sys; sys.modules['tensorflow'] = sys.modules['keras'] = None"
    code = f"{blocked}; from checkmate.cli.main import main; sys.exit(main(['list', 'devices']))"
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ran.returncode == 2 and "which is not installed" in ran.stderr


def start(*arguments: object, cwd: Path | None = None) -> subprocess.Popen[str]:
    command = [sys.executable, "-m", "checkmate", *map(str, arguments)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.Popen(
        command,
        cwd=cwd,
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def test_as_a_module_with_a_closed_standard_input(chain_file: Path) -> None:
    process = start("check", chain_file, chain_file, "--json")
    out, err = process.communicate(timeout=60)
    assert process.returncode == 2
    assert one_object(out)["exit_code"] == 2
    assert err.startswith("checkmate: ")


def test_ctrl_c_during_a_long_solve(tmp_path: Path) -> None:
    graph, out = tmp_path / "g.json", tmp_path / "s.json"
    write_graph(graph, training_chain(120))
    process = start(
        "solve",
        graph,
        "--budget",
        "400",
        "--solver",
        "local-search",
        "--time-limit",
        "300",
        "-o",
        out,
        "--json",
    )
    assert process.stderr is not None
    assert "solve: " in process.stderr.readline()
    time.sleep(0.5)
    process.send_signal(signal.SIGINT)
    asked = time.monotonic()
    text, err = process.communicate(timeout=30)
    assert time.monotonic() - asked < 10
    assert process.returncode == 130
    assert one_object(text)["exit_code"] == 130
    assert err.endswith("checkmate: interrupted; nothing was written\n") and "Traceback" not in err
    assert sorted(path.name for path in tmp_path.iterdir()) == ["g.json"]


def test_ctrl_c_in_a_stage_that_does_not_ask(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Test that the first Ctrl-C ends such a stage at once.

    In a stage that asks, the first Ctrl-C is a request; only the second one ends it.
    """
    from checkmate import listing
    from checkmate.terminal import Interrupt

    def slow(what: str) -> list[dict[str, Any]]:
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(10)
        raise AssertionError("the signal was not heard")

    monkeypatch.setattr(listing, "listing", slow)
    code, text, err = call(capsys, "list", "models")
    assert (code, text, err) == (130, "", "checkmate: interrupted; nothing was written\n")
    interrupt = Interrupt()
    with interrupt.listening():
        assert not interrupt()
        os.kill(os.getpid(), signal.SIGINT)
        assert interrupt()
        with pytest.raises(KeyboardInterrupt):
            os.kill(os.getpid(), signal.SIGINT)


def test_an_unexpected_error(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from checkmate import listing

    def broken(what: str) -> list[dict[str, Any]]:
        raise RuntimeError("first line\nsecond line")

    monkeypatch.setattr(listing, "listing", broken)
    code, text, err = call(capsys, "list", "models", "--json")
    assert (code, one_object(text)["exit_code"]) == (1, 1)
    assert err.splitlines()[0] == "checkmate: unexpected RuntimeError: first line"
    assert "RuntimeError: first line" in Path(err.split("attach ")[1].strip()).read_text()


def test_solve_reports_the_compilation_before_the_search(
    chain_file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    load_kernels()
    for module in (auto, compilation):
        monkeypatch.setattr(module, "is_compiled", lambda: False)
    monkeypatch.setattr(compilation, "module_command", lambda name: ["true"])  # nothing is left to compile
    code, text, err = call(capsys, "solve", chain_file, "--budget", "70%", "--time-limit", "5")
    assert code == 0 and "within" in text
    said = [line for line in err.splitlines() if "] prepare: " in line]
    assert said and "] prepare: compiled the search, once for this machine, in " in said[-1]
