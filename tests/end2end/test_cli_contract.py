from __future__ import annotations

import argparse
import shlex
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from checkmate import planning
from checkmate.cli.commands import assert_memory
from checkmate.cli.main import build_parser, main
from checkmate.formats import write_graph, write_schedule
from checkmate.formats.schedule import write_certificate
from checkmate.ir import VerificationReport
from checkmate.planning import RunOutcome
from checkmate.planning.step_memory import memory_of, write_memory
from checkmate.request import ModelRequest
from tests.end2end.test_cli import call, one_object, start
from tests.end2end.test_cli_doctor import doctor, stub
from tests.graphs_strategies import training_chain

LOG = Path(__file__).resolve().parents[1] / "unit" / "records" / "data" / "oom_2_21.log"
Keys = dict[str, str]

GRAPH = (
    "name ops values phases batch_size device cost_unit cost_origin cost_cache cost_reading base_cost "
    "fixed_bytes fixed keep_everything_peak_bytes fingerprint target"
)
SCHEDULE = (
    "format version graph_fingerprint graph_digest graph_name steps solver status budget_bytes peak_bytes "
    "cost base_cost lower_bound solve_seconds assumptions message cost_unit gap"
)
CHECKED = (
    "valid within_budget budget_bytes peak_bytes peak_step cost base_cost overhead_percent recomputations "
    "problems"
)
POLICY = (
    "graph_name framework budget_bytes fits segments steps peak_bytes cost base_cost overhead code schedule"
)
CERTIFIED = "claim budget_bytes cost schedule_cost gap bound base_cost cases"
REPORT = (
    "format version model device settings batch_size budget_bytes gradients loss peak_bytes seconds "
    "recomputations steps ok problems notes plain_step measured_live_bytes"
)
TRIALS = {
    "": "format version machine options trials solvers",
    "trials": "graph fingerprint ops budget budget_bytes plain_peak_bytes solver status message base_cost "
    "cost peak_bytes overhead_percent lower_bound bound_percent assumptions gap_percent "
    "relative_to_best seconds at_once host ended_by seconds_to_first seconds_to_within_1_percent "
    "seconds_to_final overhead_percent_after costs bounds published",
    "solvers": "solver relative_to_best solved cases",
}

# What is typed, the exit code, and the keys: of the object itself (""), and of the first one in each list.
SUCCEEDS: list[tuple[str, int, Keys]] = [
    (
        "info g.json",
        0,
        {
            "": f"{GRAPH} minimum_bound_bytes minimum_bound_op minimum_reached_bytes minimum_proved peak_op "
            "alive_at_peak alive_at_peak_by_layer",
            "alive_at_peak": "value bytes layer shape",
        },
    ),
    ("solve g.json --budget 60 --solver greedy", 0, {"": SCHEDULE}),
    ("solve g.json --budget 39", 3, {"": f"{SCHEDULE} proof"}),
    ("solve g.json --budget 60 --solver keep-all", 4, {"": SCHEDULE}),
    ("solve g.json --max-overhead 20% --time-limit 1", 0, {"": f"{SCHEDULE} least_memory"}),
    (
        "solve g.json --budget 60 --time-limit 5 --certificate c.json",
        0,
        {"": f"{SCHEDULE} certificate"},
    ),
    ("solve g.json --budget 39 --certificate c.json", 3, {"": f"{SCHEDULE} certificate"}),
    ("policy unet-b8.graph --budget 60% --time-limit 2", 0, {"": POLICY}),
    ("policy g.json --budget 60 --time-limit 2", 4, {"": POLICY}),  # it names no layers
    ("policy g.json --budget 39 --time-limit 2", 3, {"": POLICY}),
    ("check g.json s.json", 0, {"": CHECKED}),
    ("check g.json s.json --budget 41", 5, {"": CHECKED}),
    (
        "check g.json s.json --recomputed",
        0,
        {
            "": f"{CHECKED} recomputed",
            "recomputed": "op step step_before freed_after bytes cost read_at reader fullest_step "
            "fullest_bytes",
        },
    ),
    ("certify g.json --budget 60 --time-limit 5 -o c.json", 0, {"": CERTIFIED}),
    ("certify g.json s.json --time-limit 5 -o c.json", 0, {"": CERTIFIED}),
    ("certify g.json --budget 39 -o c.json", 0, {"": CERTIFIED}),
    ("check g.json --certificate proof.json", 0, {"": "certificate"}),
    ("check g.json s.json --certificate proof.json", 0, {"": f"{CHECKED} certificate"}),
    ("check g.json s.json --certificate false.json", 5, {"": "error exit_code"}),
    (
        "frontier g.json --budgets 60%,100% --time-limit 2 --baseline keep-all",
        0,
        {
            "": "format version graph cost_unit cost_origin base_cost keep_everything_peak_bytes "
            "infeasible_up_to_bytes solver time_limit_s seconds cancelled notes budgets schedules bounds "
            "baselines",
            "budgets": "budget_bytes status peak_bytes cost overhead_percent lower_bound gap solver seconds "
            "assumptions status_under_assumptions",
            "schedules": "peak_bytes cost overhead_percent budget_bytes solver",
            "bounds": "budget_bytes lower_bound",
            "baselines": "solver note points",
        },
    ),
    (
        "cards g.json --reserve 1GiB --time-limit 2",
        0,
        {
            "": "format version graph batch_size cost_unit cost_origin base_cost keep_everything_peak_bytes "
            "reserve_bytes rows seconds cancelled",
            "rows": "memory_bytes cards budget_bytes fit peak_bytes cost overhead_percent lower_bound proved",
        },
    ),
    ("cards g.json --reserve 1TiB --time-limit 2", 3, {"": "format version rows"}),
    (
        "plan paper.vgg16 --devices T4 --time-limit 1",
        0,
        {
            "": "format version name ops estimated extrapolation reserve_bytes assumed rows cancelled",
            "rows": "card memory_bytes budget_bytes bandwidth float32_operations half_operations answer "
            "plain largest upper_bound_batch proved",
        },
    ),
    ("plan paper.vgg16 --devices T4 --reserve 1TiB --time-limit 1", 3, {"": "format version rows"}),
    (
        "max-batch g.json --budget 800 --time-limit 1",
        0,
        {
            "": "format version name batch upper_bound_batch proved extrapolated_from_batch extrapolation "
            "budget_bytes peak_bytes fixed_bytes max_overhead rule cost base_cost cost_limit cost_unit "
            "overhead extra_forward_passes plain_batch baselines baselines_out_of_time solver seconds probes "
            "cancelled graph_fingerprint steps measured"
        },
    ),
    ("max-batch g.json --budget 3", 3, {"": "error exit_code"}),
    ("report s.json g.json -o r.html", 0, {"": "output sections left_out", "sections": "title sources"}),
    (
        f"explain {shlex.quote(str(LOG))}",
        0,
        {
            "": "format version name unread warnings records record next",
            "records": "source allocator asked limit_bytes pool_bytes in_use_bytes requested_bytes "
            "most_bytes free_bytes largest_free_bytes by_layer by_size curve cause missing_bytes split_bytes "
            "not_fetched_bytes parts estimated",
        },
    ),
    ("desktop", 0, {"": "written"}),
    ("desktop --remove", 0, {"": "removed"}),
    ("list solvers", 0, {"": "solvers", "solvers": "name description features available why"}),
    ("list models", 0, {"": "models", "models": "name description kind input_shape batch_size"}),
    ("list loaders", 0, {"": "loaders", "loaders": "name description available why"}),
    ("list exporters", 0, {"": "exporters", "exporters": "name description available why"}),
]

REFUSED = [
    "explore nofile.keras",
    "profile nofile.keras -o x.json",
    "assert unet",
    "assert unet --max 12potatoes",
    "assert unet --max 1GiB --write-baseline",
    "assert unet --baseline none.json",
    "assert unet --baseline g.json",
    "assert unet --baseline g.json --write-baseline",
    "assert unet --max 1GiB --tolerance 200%",
    "assert nofile.keras --max 1GiB",
    "info none.json",
    "solve none.json --budget 60",
    "solve g.json --budget 60 --keep a0 --certificate c.json",
    "solve g.json --max-overhead 5% --certificate c.json",
    "max-batch none.json --budget 60",
    "frontier none.json",
    "cards none.json",
    "plan none.json",
    "policy none.json --budget 60%",
    "policy g.json --budget 12potatoes",
    "plan paper.vgg16 --devices potato",
    "check g.json none.json",
    "check g.json",
    "check g.json --certificate s.json",
    "certify g.json -o c.json",
    "export unet s.json -g g.json -o out",
    "verify unet s.json -g g.json",
    "run nofile.keras --budget 60% -o out",
    "report none.json -o r.html",
    "explain none.log",
    "desktop --potato",
    "doctor -o without-prove.md",
    "list potatoes",
]
# Commands that run TensorFlow, Qt or both; each has a test of its own below.
ELSEWHERE = {"explore", "profile", "assert", "export", "verify", "run", "doctor"}


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Go to a folder with a graph and a schedule within 60 bytes."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path / "data"))
    graph = replace(training_chain(8), batch_size=4)
    write_graph(tmp_path / "g.json", graph)
    write_schedule(tmp_path / "s.json", graph, planning.solve(graph, 60, solver="greedy"))
    proof = planning.certify(graph, 60, seconds=5.0)
    assert proof is not None and proof.cost is not None
    write_certificate(tmp_path / "proof.json", proof.data)
    write_certificate(tmp_path / "false.json", {**proof.data, "cost": proof.cost + 1})
    return tmp_path


def leaves(parser: argparse.ArgumentParser, name: str = "") -> Iterator[str]:
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    if not below:
        yield name
    for action in below:
        for word, each in action.choices.items():
            yield from leaves(each, f"{name} {word}".strip())


COMMANDS = sorted(leaves(build_parser()))


def command_of(line: str) -> str:
    return shlex.split(line)[0]


def missing(told: dict[str, Any], keys: Keys) -> list[str]:
    """Return the promised keys that ``told`` does not have."""
    found = {place: told if not place else told[place][0] for place in keys}
    return [f"{place}.{key}" for place in keys for key in keys[place].split() if key not in found[place]]


def test_every_command_is_held_here() -> None:
    assert {command_of(line) for line, _, _ in SUCCEEDS} | ELSEWHERE == set(COMMANDS)
    assert sorted(set(map(command_of, REFUSED))) == COMMANDS


@pytest.mark.parametrize(("line", "code", "keys"), SUCCEEDS, ids=[line for line, _, _ in SUCCEEDS])
def test_exit_code_and_keys(line: str, code: int, keys: Keys, folder: Path, capsys: Any) -> None:
    found, text, _ = call(capsys, *shlex.split(line), "--json", "--quiet")
    assert (found, missing(one_object(text), keys)) == (code, [])


@pytest.mark.parametrize("line", REFUSED)
def test_bad_input_is_exit_code_2_and_says_so_in_json(line: str, folder: Path, capsys: Any) -> None:
    before = sorted(folder.iterdir())
    code, text, err = call(capsys, *shlex.split(line), "--json", "--quiet")
    told = one_object(text)
    assert (code, told["exit_code"]) == (2, 2)
    assert (
        missing(told, {"": "error exit_code"}) == missing(told["error"], {"": "message hint details"}) == []
    )
    assert told["error"]["message"] in err
    assert sorted(folder.iterdir()) == before


@pytest.mark.parametrize("command", COMMANDS)
def test_help_and_the_options_of_all(command: str, capsys: Any) -> None:
    with pytest.raises(SystemExit) as ended:
        main([*command.split(), "--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0 and text.startswith(f"usage: checkmate {command} ")
    assert all(option in text for option in ("--json", "--quiet", "--debug"))


def report(*, ok: bool) -> VerificationReport:
    """Return what is measured of a step, as promised or not."""
    worst = {"worst": {"name": "w", "relative_error": 0.0}, "worst_of_largest": {"name": "w", "error": 0.0}}
    return VerificationReport(
        model="unet",
        device="a CPU",
        batch_size=4,
        budget_bytes=60,
        gradients={"bitwise": ok, "equal": ok, "overall_relative_error": 0.0, **worst},
        loss={"plain": 0.5, "optimized": 0.5},
        peak_bytes={"predicted": 1, "measured": 1, "plain_measured": 1, "reloaded_measured": None},
        seconds={"predicted": 1.0, "measured": 1.0, "plain_predicted": 1.0, "plain_measured": 1.0},
        recomputations=1,
        steps=2,
        problems=() if ok else ("the measured peak is over the budget",),
    )


@pytest.mark.parametrize(("ok", "code"), [(True, 0), (False, 5)])
@pytest.mark.parametrize(
    "line",
    [
        "verify unet s.json -g g.json",
        "export unet s.json -g g.json -o out",
        "export unet s.json -g g.json -o out --budget 60%",
        "run unet --budget 60% -o out",
    ],
)
def test_a_measured_step(
    line: str, ok: bool, code: int, folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = {"request": ModelRequest("unet", batch_size=4).to_json()}
    graph = replace(training_chain(8), batch_size=4, metadata=asked)
    write_graph(folder / "g.json", graph)
    result = planning.solve(graph, 60, solver="greedy")
    found = report(ok=ok)
    monkeypatch.setattr(planning, "verify", lambda *_, **__: found)
    monkeypatch.setattr(planning, "export", lambda *_, **__: found)
    for name in ("run", "export_within"):
        monkeypatch.setattr(planning, name, lambda *_, **__: RunOutcome(found, result, graph))
    ended, text, _ = call(capsys, *shlex.split(line), "--json", "--quiet")
    assert (ended, missing(one_object(text), {"": REPORT})) == (code, [])


def test_a_profile(folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(planning, "profile", lambda *_, **__: training_chain(8))
    code, text, _ = call(capsys, "profile", "unet", "-o", "made.json", "--json", "--quiet")
    assert (code, missing(one_object(text), {"": GRAPH})) == (0, [])
    assert (folder / "made.json").is_file()


@pytest.mark.parametrize(
    ("line", "code"),
    [("--max 90", 0), ("--max 89", 5), ("--baseline m.json", 0), ("--max 1G --baseline l.json", 5)],
)
def test_an_assertion(
    line: str, code: int, folder: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    graph = training_chain(8)
    found, less = memory_of(graph, "unet"), memory_of(training_chain(7), "unet")
    write_memory(folder / "m.json", found)
    write_memory(folder / "l.json", less)
    monkeypatch.setattr(assert_memory, "step_memory", lambda *_, **__: found)
    ended, text, _ = call(capsys, "assert", "unet", *shlex.split(line), "--json", "--quiet")
    keys = {
        "": "ok limits model framework batch_size peak_bytes fixed layers grown grown_with_batch",
        "limits": "name bytes allowed",
    }
    if "l.json" in line:
        keys["grown"] = "name before now why"
    assert (ended, missing(one_object(text), keys)) == (code, [])


def test_the_doctor(tmp_path: Path) -> None:
    """Test a machine without TensorFlow and Qt: looking at both takes long."""
    for name in ("tensorflow", "PySide6"):
        stub(tmp_path, name, f"raise ModuleNotFoundError('no module', name={name!r})\n")
    done = doctor("--json", stubs=tmp_path)
    told = one_object(done.stdout)
    keys = {"": "format version ok verdict lines seconds facts", "lines": "name title state text mend"}
    assert (done.returncode, missing(told, keys)) == (1, [])


@pytest.mark.heavy
def test_a_picture_of_the_window(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DISPLAY", ":987")
    monkeypatch.delenv("QT_QPA_PLATFORM", raising=False)
    process = start(
        "explore", "g.json", "--budget", "60", "--screenshot", "w.png", "--json", "--quiet", cwd=folder
    )
    text, _ = process.communicate(timeout=180)
    assert process.returncode == 0
    assert one_object(text) == {"file": "g.json", "written": ["w.png"]}
    assert (folder / "w.png").is_file()
