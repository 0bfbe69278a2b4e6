"""A scheduled step as a folder that PyTorch alone can train: code of the two halves, and tensors."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from pprint import pformat
from runpy import run_path
from typing import Any

import torch

from checkmate.backends.torch.emission import emitted
from checkmate.backends.torch.graph import Region
from checkmate.backends.torch.meter import metered
from checkmate.backends.torch.private import boxed_code, tangent_places
from checkmate.errors import ExportError
from checkmate.ir import Schedule
from checkmate.processes.own import die_with_parent
from checkmate.processes.stages import Teller, probe
from checkmate.progress import Cancelled

_RESOURCES = Path(__file__).resolve().parents[2] / "resources" / "export"
_LIMIT_S = 3600.0
_CONSTANTS = """from pathlib import Path
from types import SimpleNamespace

CONSTANTS = SimpleNamespace(**torch.load(Path(__file__).with_name("constants.pt")))"""


def write_step(
    region: Region, schedule: Schedule, inputs: Sequence[Any], names: Sequence[str], folder: Path
) -> None:
    """Write ``halves.py``, ``step.py``, ``train_example.py`` and ``tensors.pt``: the module's parameters and
    buffers by name, and one batch; and ``constants.pt``, if the code has any.

    Raises:
        ExportError: the step is called with something that is no tensor.
    """
    if not all(isinstance(each, torch.Tensor) for each in inputs):
        raise ExportError("the step is called with values that are no tensors, which a file cannot keep")
    halves, joint = emitted(region, schedule), region.joint
    facts = {
        "inputs": list(names),
        "trained": [names[place] for place, each in enumerate(joint.gradients) if each is not None],
        "results": halves.results,
        "written": {names[primal]: place for primal, place in joint.written.items()},
        "returned": [place for place in range(halves.results) if place not in joint.written.values()],
        "tangents": tangent_places(joint.module),
    }
    parts = [
        '"""The halves of a scheduled training step, as PyTorch\'s FX wrote them."""',
        "import torch\nfrom torch import device, inf, nan",
        "import torch._prims.rng_prims  # operators that draw from a kept state",
        boxed_code(halves.forward, "forward"),
        boxed_code(halves.backward, "backward"),
        f"STEP = {pformat(facts, width=100, sort_dicts=False)}\n",
    ]
    if joint.constants:
        held = {str(node.target): getattr(joint.module, str(node.target)) for node in joint.constants}
        torch.save(held, folder / "constants.pt")
        parts.insert(3, _CONSTANTS)
    (folder / "halves.py").write_text("\n\n".join(parts), encoding="utf-8")
    tensors = {name: each.detach() for name, each in zip(names, inputs, strict=True)}
    torch.save(tensors, folder / "tensors.pt")
    for name in ("torch_step.py", "torch_train_example.py"):
        text = (_RESOURCES / f"{name}.in").read_text(encoding="utf-8")
        (folder / name.removeprefix("torch_")).write_text(text, encoding="utf-8")


def reloaded_peak(folder: Path, device: str, cancelled: Cancelled) -> int:
    """Run the step of a folder in a process of its own; return its peak above what it is called with.

    Raises:
        ExportError: it cannot be run.
    """
    found = probe([__name__, str(folder), device], limit_s=_LIMIT_S, cancelled=cancelled)
    if "reloaded" not in found.found:
        why = found.errors.get("reloaded") or found.why()
        raise ExportError(f"the written step cannot be run: {why}")
    return int(found.found["reloaded"])


def _answer(folder: Path, device: str) -> None:
    def run() -> int:
        sys.path.insert(0, str(folder))
        written = run_path(str(folder / "step.py"))
        state, batch = written["load"](folder / "tensors.pt")

        def once() -> None:
            results = written["step"](state, *batch)
            wanted = [each for each in results if each.requires_grad]
            torch.autograd.backward(wanted, [torch.ones_like(each) for each in wanted])

        once()
        for each in state.values():
            each.grad = None
        return metered(device, once)[1].whole

    teller = Teller()
    teller.stage("reloaded", run)
    teller.end()


if __name__ == "__main__":
    die_with_parent()
    _answer(Path(sys.argv[1]), sys.argv[2])
