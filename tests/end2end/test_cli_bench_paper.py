"""Test ``checkmate bench paper`` and ``bench published``.

They run through the real solvers. Other commands are tested with networks by name.
"""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from checkmate.formats import write_graph
from tests.end2end.test_cli import call, one_object, start
from tests.graphs_strategies import SHARED, training_chain

PAPER = ("bench", "paper", "--models", "vgg16", "--fractions", "0.5", "--time-limit", "2")


def test_smoke_is_saved_and_taken_up_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    out = tmp_path / "paper.json"
    code, text, _ = call(capsys, *PAPER, "--parts", "batches,curves", "--json", "-o", out)
    found = one_object(text)
    assert code == 0 and not found["cancelled"]
    assert [(row["kind"], row["model"]) for row in found["rows"]] == [("batch", "vgg16"), ("curve", "vgg16")]
    batch, curve = found["rows"]
    assert batch["batch"] <= batch["proved_limit"] == 289 and batch["plain_batch"] < batch["batch"]
    (point,) = curve["curve"]["budgets"]
    assert point["peak_bytes"] <= point["budget_bytes"] and point["lower_bound"] <= point["cost"] * (1 + 1e-9)
    (told,) = found["ratios"]
    assert told["geometric_means"]["chen-sqrt-ap"]["mean"] > told["geometric_means"]["checkmate"]["mean"] >= 1
    code, text, err = call(capsys, *PAPER, "--parts", "batches,curves", "-o", out)
    assert code == 0 and "frontier:" not in "".join(err)  # nothing was measured again
    assert text.splitlines()[1].split()[:3] == ["VGG16", str(batch["batch"]), "–"]
    assert json.loads(out.read_text())["rows"] == found["rows"]


def test_rounding_beside_ours(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = call(capsys, *PAPER, "--parts", "ratios", "--time-limit", "20", "--json")
    found = one_object(text)
    assert code == 0
    (rounding,) = found["rows"][1]["rounding"]
    assert rounding["status"] == "feasible" and rounding["peak_bytes"] <= rounding["budget_bytes"]
    means = found["ratios"][0]["geometric_means"]
    assert means["lp-rounding"]["mean"] >= means["checkmate"]["mean"] == pytest.approx(1.0)


@pytest.mark.parametrize(
    "wrong",
    [
        ("--models", "lenet"),
        ("--parts", "graphs"),
        ("--fractions", "2"),
        ("--budgets", "soon"),
        ("--time-limit", "0"),
    ],
)
def test_bad_input(capsys: pytest.CaptureFixture[str], wrong: tuple[str, str]) -> None:
    code, text, err = call(capsys, "bench", "paper", *wrong)
    assert code == 2 and text == "" and wrong[1] in "".join(err)


def test_published_uses_the_published_budgets(capsys: pytest.CaptureFixture[str]) -> None:
    path = SHARED / "graphs" / "moccasin" / "random_layered_n100_w0.27_nlv0.75_ed0.2_scd0.14.json"
    if not path.is_file():
        pytest.skip("the published graphs are not here")
    code, text, _ = call(capsys, "bench", "published", path, "--time-limit", "2", "--quiet")
    head, ours, *published = text.splitlines()[:5]
    assert code == 0 and head.split()[:3] == ["graph", "budget", "method"]
    assert ours.split()[:4] == ["RL1", "80%", "checkmate", "auto"] and float(ours.split()[4]) <= 2.3
    assert [line.split()[0] for line in published] == ["FastSA", "MOCCASIN", "Checkmate"]


def test_published_on_an_unknown_graph(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    write_graph(tmp_path / "chain.json", training_chain(6))
    arguments = (
        "bench",
        "published",
        tmp_path / "chain.json",
        "--solver",
        "greedy",
        "--budget",
        "80%",
        "--quiet",
    )
    code, text, _ = call(capsys, *arguments, "-o", tmp_path / "out.json")
    assert code == 0 and "nothing is published for these graphs" in text
    assert [trial["solver"] for trial in json.loads((tmp_path / "out.json").read_text())["trials"]] == [
        "greedy"
    ]


def test_a_network_by_name(capsys: pytest.CaptureFixture[str]) -> None:
    code, text, _ = call(capsys, "info", "paper.vgg16@4", "--json")
    found = one_object(text)
    assert code == 0 and (found["ops"], found["batch_size"]) == (45, 4)
    code, text, _ = call(
        capsys, "max-batch", "paper.vgg19", "--budget", "16GB", "--time-limit", "5", "--json"
    )
    found = one_object(text)
    assert code == 0 and found["upper_bound_batch"] == 289 and found["batch"] <= 289
    assert "exactly" in found["extrapolation"]
    code, _, err = call(capsys, "solve", "paper.lenet", "--budget", "60%")
    assert code == 2 and "lenet" in "".join(err)


@pytest.mark.heavy
def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    out = tmp_path / "paper.json"
    arguments = (
        "bench",
        "paper",
        "--models",
        "vgg16,resnet50",
        "--parts",
        "batches",
        "--time-limit",
        "300",
        "-o",
        out,
    )
    process = start(*arguments)
    assert process.stderr is not None
    for line in process.stderr:
        if "] paper: ResNet50" in line:
            break
    process.send_signal(signal.SIGINT)
    text, err = process.communicate(timeout=60)
    assert process.returncode == 130 and "Traceback" not in err and "so far is kept" in err
    assert text.splitlines()[1].split()[:2] == ["VGG16", "289"]
    kept = json.loads(out.read_text())["rows"]
    assert kept[0]["model"] == "vgg16" and all(row["cancelled"] for row in kept[1:])
