"""Test the commands with modules of PyTorch, and the folder that they write."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("torch")

from checkmate.catalog.model_names import is_torch_code
from checkmate.errors import ExitCode
from tests.programs import run_python

NETS = Path(__file__).with_name("nets.py")


def command(*words: object, code: int = 0) -> subprocess.CompletedProcess[str]:
    return run_python("-m", "checkmate", *words, "--quiet", code=code)


@pytest.mark.heavy
def test_a_folder_trains_with_pytorch_alone(tmp_path: Path) -> None:
    out = tmp_path / "out"
    command("run", f"{NETS}:net", "--budget", "60%", "-o", out, "--allow-code")
    assert (out / "constants.pt").exists()
    told = json.loads((out / "report.json").read_text())
    peak = told["peak_bytes"]
    assert peak["measured"] <= told["budget_bytes"]
    assert peak["predicted"] == pytest.approx(peak["measured"], rel=0.01)
    assert peak["reloaded_measured"] <= told["budget_bytes"]
    assert told["gradients"]["bitwise"] and told["recomputations"] and told["loss"]["plain"] is not None
    trained = subprocess.run(
        [sys.executable, str(out / "train_example.py")],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        timeout=120,
    )
    assert trained.returncode == 0, trained.stderr
    losses = [float(line.rpartition(" ")[2]) for line in trained.stdout.splitlines()]
    assert len(losses) == 5 and losses[-1] < losses[0]
    # The first loss is the plain module's, and what was trained goes back into it.
    run_python("-c", _BACK, NETS.parent, out, losses[0])


_BACK = """
import sys, torch
sys.path.insert(0, sys.argv[1])
import nets
net, inputs, loss = nets.net()
given = torch.load(f"{sys.argv[2]}/tensors.pt")
missing, unexpected = net.load_state_dict(
    {name: each for name, each in given.items() if " " not in name}, strict=False
)
assert not missing and not unexpected, (missing, unexpected)
batch = inputs[0], given["input 1"], given["input 2"]
found = loss(net(*batch)).item()
assert abs(found - float(sys.argv[3])) <= 1e-5 * abs(found), (found, sys.argv[3])
net.load_state_dict(torch.load(f"{sys.argv[2]}/trained.pt"), strict=False)
assert loss(net(*batch)).item() < found
"""


@pytest.mark.heavy
def test_a_graph_is_profiled_solved_and_verified(tmp_path: Path) -> None:
    graph, schedule, code = tmp_path / "g.json", tmp_path / "s.json", "--allow-code"
    done = command("profile", f"{NETS}:net", "-b", 8, "-o", graph, code)
    assert "nodes of PyTorch's graph, batch 8" in done.stdout
    command("solve", graph, "--budget", "70%", "-o", schedule)
    verified = command("verify", f"{NETS}:net", schedule, "-g", graph, code)
    assert "bitwise equal to the plain step's" in verified.stdout
    other = command("verify", f"{NETS}:wider", schedule, "-g", graph, code, code=ExitCode.BAD_INPUT)
    assert "trace and solve it anew" in other.stderr


@pytest.mark.parametrize(
    ("function", "sentence"),
    [
        ("alone", "returned a module without example inputs"),
        ("nothing", "returned nothing, not a module with inputs"),
        ("frozen", "no parameter of 'frozen' needs a gradient"),
        ("recurrent", "torch.compile traces nothing of 'recurrent' that has gradients"),
        ("broken", "the step of 'broken' fails: mat1 and mat2 shapes cannot be multiplied"),
    ],
)
@pytest.mark.heavy
def test_what_cannot_be_traced_is_said(function: str, sentence: str, tmp_path: Path) -> None:
    graph = tmp_path / "g.json"
    done = command("profile", f"{NETS}:{function}", "-o", graph, "--allow-code", code=ExitCode.BAD_INPUT)
    assert sentence in done.stderr and "Traceback" not in done.stderr
    assert not graph.exists()


def test_code_is_known_by_what_it_imports(tmp_path: Path) -> None:
    assert is_torch_code(f"{NETS}:net")
    keras = tmp_path / "keras_net.py"
    keras.write_text("import torch\nimport keras\n")
    assert not is_torch_code(f"{keras}:net")
    assert not is_torch_code("unet") and not is_torch_code(f"{tmp_path / 'none.py'}:net")


@pytest.mark.heavy
def test_a_baseline_names_the_modules_that_grew(tmp_path: Path) -> None:
    file = tmp_path / "memory.json"
    asked = ("assert", f"{NETS}:net", "--allow-code", "--baseline", file)
    command(*asked, "--write-baseline")
    assert "nothing grew" in command(*asked).stdout
    told = json.loads(command(*asked, "-b", "64", "--json", code=ExitCode.NOT_AS_PROMISED).stdout)
    assert told["grown"] == [] and told["grown_with_batch"] > 10
    code = NETS.read_text(encoding="utf-8").replace("width: int = 64", "width: int = 80")
    (tmp_path / NETS.name).write_text(code, encoding="utf-8")
    wider = ("assert", f"{tmp_path / NETS.name}:net", *asked[2:], "--json")
    told = json.loads(command(*wider, code=ExitCode.NOT_AS_PROMISED).stdout)
    assert "layers.0.linear" in [each["name"] for each in told["grown"]]
