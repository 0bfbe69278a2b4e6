"""Measure training programs plainly and within their budget.

``python -m tests.benchmarks training [-o FILE.json] [--small] [--compiled] [--exact] [PROGRAM …]``

Each program of ``examples/`` (or those named; ``hub.py:gpt2`` gives a word to the program) runs three times,
each in a process of its own: plainly, within its budget with an empty cache folder, and the same again with
the cache kept. What every step returned is compared, and peak, seconds and set-up are noted. *Set-up* is what
all of the training took beyond its steps at their usual pace: in seconds, and in seconds of the processors,
which differ less on a busy machine. With ``--compiled`` the search that this machine has compiled is used;
without, the first run compiles it, as on a new machine.

With ``--exact`` a plain run and one within the budget are compared that both have Eigen's kernels, with
TensorFlow's graph rewriting off. Kernels and fusions are then the same, and what is left of the difference is
the schedule's.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import re
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from checkmate.backends.tf.environment import EXACT, METERED
from checkmate.solvers.compile.cache import cache_folder
from tests.benchmarks.measured_on import this_machine
from tests.quick_start import QUICK

EXAMPLES = Path(__file__).parents[2] / "examples"
PROGRAMS = [path.name for path in sorted(EXAMPLES.glob("*.py")) if path.name != "hub.py"]
_QUIET = {**METERED, "TF_CPP_MIN_LOG_LEVEL": "3"}
HUB = ["hub.py:bert", "hub.py:gpt2", "hub.py:resnet"]
_PLAN = re.compile(
    r"checkmate: batch of .*?: (?P<recomputations>\d+) recomputations?, \+(?P<predicted>[\d.]+) ?%"
    r".*?peak (?P<peak>[\d.,]+ \w+) of (?P<budget>[\d.,]+ \w+)"
)


def run(
    kind: str, program: str, words: Sequence[str], home: Path, environment: Mapping[str, str] = {}
) -> tuple[dict[str, Any], str]:
    """Run a program in a new process; return what was noted and said.

    ``environment``: variables beside those of this process.
    """
    answer = home / f"{kind}.json"
    answer.unlink(missing_ok=True)
    command = [sys.executable, str(Path(__file__).with_name("training_child.py")), kind, str(answer), program]
    done = subprocess.run(
        [*command, *words],
        env={**os.environ, **_QUIET, **environment, "XDG_CACHE_HOME": str(home)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode or not answer.is_file():
        return {}, done.stderr[-2000:]
    return json.loads(answer.read_text(encoding="utf-8")), done.stderr


def pace(found: dict[str, Any]) -> float:
    """Return the seconds that a step usually takes."""
    return statistics.median(step["seconds"] for step in found["steps"])


def setup(found: dict[str, Any], unit: str = "seconds") -> float:
    usual = statistics.median(step[unit] for step in found["steps"])
    return float(found[unit] - len(found["steps"]) * usual)


def difference(plain: dict[str, Any], other: dict[str, Any], what: str = "returned") -> float:
    """Return the largest relative difference of what steps returned.

    ``what``: ``losses`` for those alone. Other numbers may be nearly zero, such as the divergence of a VAE
    that encodes nothing yet, and then differ by much of themselves though by nothing beside the loss.
    """
    worst = 0.0
    for one, two in zip(plain["steps"], other["steps"], strict=True):
        for before, after in zip(one[what], two[what], strict=True):
            if math.isnan(before) != math.isnan(after):
                return math.inf
            if not math.isnan(before):
                worst = max(worst, abs(before - after) / max(abs(before), 1e-9))
    return worst


def differing_steps(plain: dict[str, Any], other: dict[str, Any]) -> int:
    pairs = zip(plain["steps"], other["steps"], strict=True)
    return sum(repr(one["returned"]) != repr(two["returned"]) for one, two in pairs)


def command_of(name: str, small: bool) -> tuple[str, list[str]]:
    """Return the file of the program that is called ``name``, and its words."""
    file, _, word = name.partition(":")
    words = [*([word] if word else []), *(["--small"] if small else [])]
    return str(EXAMPLES / file if not Path(file).is_file() else file), words


def use_compiled(home: Path) -> None:
    """Let programs use the search that is compiled here. They are those with the cache folder ``home``."""
    kernels = home / "checkmate-explorer" / "kernels"
    kernels.parent.mkdir()
    cache_folder().mkdir(parents=True, exist_ok=True)  # what one compiles, the next one finds
    kernels.symlink_to(cache_folder())


def exact_row(name: str, small: bool, compiled: bool) -> dict[str, Any]:
    """Return how far one program's steps are apart with the same kernels."""
    program, words = command_of(name, small)
    with tempfile.TemporaryDirectory(prefix="checkmate-training-") as folder:
        if compiled:
            use_compiled(Path(folder))
        kinds = ("plain-exact", "budgeted-exact")
        chosen = {**EXACT, **QUICK}
        found = {kind: run(kind, program, words, Path(folder), chosen) for kind in kinds}
    for answer, said in found.values():
        if not answer:
            return {"program": name, "problem": said}
    (plain, _), (within, said) = (found[kind] for kind in kinds)
    return {
        "program": name,
        "steps": len(plain["steps"]),
        "plans": [each.groupdict() for each in _PLAN.finditer(said)],
        "told": [line for line in said.splitlines() if line.startswith("checkmate: batch")],
        "difference": difference(plain, within),
        "difference_of_losses": difference(plain, within, "losses"),
        "differing_steps": differing_steps(plain, within),
    }


def row(name: str, small: bool, compiled: bool) -> dict[str, Any]:
    program, words = command_of(name, small)
    with tempfile.TemporaryDirectory(prefix="checkmate-training-") as folder:
        if compiled:
            use_compiled(Path(folder))
        kinds = [("plain", "plain"), ("first", "budgeted"), ("second", "budgeted")]
        found = {called: run(kind, program, words, Path(folder)) for called, kind in kinds}
    if not all(answer for answer, _ in found.values()):
        return {"program": name, "problem": next(said for answer, said in found.values() if not answer)}
    plain, first, second = (found[called][0] for called, _ in kinds)
    plans = [each.groupdict() for each in _PLAN.finditer(found["first"][1])]
    told = [line for line in found["first"][1].splitlines() if line.startswith("checkmate: batch")]
    return {
        "program": name,
        "steps": len(plain["steps"]),
        "plain_peak_bytes": max(step["peak_bytes"] for step in plain["steps"][1:]),
        "peak_bytes": max(step["peak_bytes"] for step in first["steps"][1:]),
        "plans": plans,
        "told": told,
        "told_second": [line for line in found["second"][1].splitlines() if line.startswith("checkmate: ")],
        "plain_step_s": pace(plain),
        "step_s": pace(first),
        "step_again_s": pace(second),
        "setup_plain_s": setup(plain),
        "setup_s": setup(first),
        "setup_again_s": setup(second),
        "setup_plain_processor_s": setup(plain, "processor_seconds"),
        "setup_processor_s": setup(first, "processor_seconds"),
        "setup_again_processor_s": setup(second, "processor_seconds"),
        "first_step_after_s": first["first_step_after_s"],
        "seconds": first["seconds"],
        "difference": difference(plain, first),
        "difference_again": difference(plain, second),
        "difference_of_losses": difference(plain, first, "losses"),
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("programs", nargs="*", default=PROGRAMS)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--compiled", action="store_true")
    parser.add_argument("--exact", action="store_true")
    parser.add_argument("-o", "--output", type=Path)
    chosen = parser.parse_args()
    measured = exact_row if chosen.exact else row
    facts: dict[str, Any] = {"machine": this_machine(), "small": chosen.small, "rows": []}
    facts["exact"] = chosen.exact
    for name in chosen.programs:
        facts["rows"].append(measured(name, chosen.small, chosen.compiled))
        print(json.dumps(facts["rows"][-1]), flush=True)
        if chosen.output:
            chosen.output.write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
    for what in () if chosen.exact else ("setup", "setup_again"):
        for unit in ("s", "processor_s"):
            found = [each[f"{what}_{unit}"] for each in facts["rows"] if "problem" not in each]
            if found:
                print(f"{what}_{unit}: median {statistics.median(found):.1f}, worst {max(found):.1f}")


if __name__ == "__main__":
    main()
