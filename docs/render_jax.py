"""Write the page of JAX steps from ``docs/results/jax/*.json``.

``python -m tests.benchmarks.jax -o docs/results/jax/NAME.json`` measures them, and ``python -m
tests.benchmarks.jax_gpu -o FOLDER`` those on a GPU; ``tests.benchmarks.jax_keras`` and
``tests.benchmarks.jax_equinox`` measure Keras on JAX and a step of Equinox. With ``--check`` this script only
says whether the page is up to date (exit code 1: it is not).
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from page_file import write_or_check

from checkmate.units import format_bytes

RESULTS = Path(__file__).parent / "results" / "jax"
PAGE = Path(__file__).parent / "pages" / "benchmarks" / "jax.md"

_HEAD = """\
# JAX steps

<!-- Written by docs/render_jax.py from docs/results/jax. Change those files, not this page. -->

Small networks in plain JAX, each a chain of equal blocks (`tests/benchmarks/jax_networks.py`).
*Temporary* is what XLA holds beside arguments and results, read from the compiled step. A share is the
budget, of the plain step's temporary bytes. *Extra time* is **measured**: two steps in turns in one
process, the least of each; rows that hold as much as the plain step show how rough it is. *Predicted* is
from counted operations and bytes; it does not know what XLA fuses less. *Compiled* says how often, and
the seconds of all. The *difference* is the largest of loss and updated weights. The other rows put
`jax.checkpoint` with a policy around each block. XLA:CPU drops the barriers that a policy relies on, and
orders for speed: only the dense network takes less by one. *Memory scheduler* is its other scheduler
(`xla_cpu_scheduler_type`), which a schedule may be compiled with as well. Under it the policies save memory
in all but the ResNet. Larger networks were measured [on a GPU](#on-a-gpu).

`python -m tests.benchmarks.jax -o docs/results/jax/NAME.json` measures it, and `python docs/render_jax.py`
writes this page.
"""
_COLUMNS = (
    "step",
    "temporary",
    "of plain",
    "kept",
    "recomputed",
    "predicted",
    "extra time",
    "compiled",
    "difference",
)


_GPU = """\
## On a GPU

Networks as wide as users train them, with few layers (`tests/benchmarks/jax_gpu_networks.py`): a GPT of four
layers of width 1024, four layers of a ViT-B, and a ResNet of four bottleneck blocks. Products are of
bfloat16, weights and Adam's moments float32. Each row is a process of its own. *Planned* is all that XLA
plans: arguments, results and temporaries, in bytes. *Peak* is the most that the device's allocator had handed
out once the first step was done, by its own count. *Extra time* is **measured**, alone on the card: the least
of ten steps against the plain step's. *Predicted* is what the schedule was chosen by. *Compiled* says how
often, and the seconds of all. The *difference* is that of all gradients after one step, relative to their
norm.

- **A budget that XLA's plan keeps, the device kept.** The peaks are the plans to a kilobyte (16,263,247,360
  bytes of 16,263,246,520 for the GPT at 60 %), or up to 59 MB more.
- The GPT at 45 % takes less memory *and* less time than with `dots_saveable`: 10.3 GiB at +11.8 %, against
  14.8 GiB at +18.0 %. At 75 % it takes 17.2 GiB at +8.8 %.
- **The GPT at 60 % took longer than at 45 %**, +23.7 % (measured before, with another schedule:
  +21.6 %). In the compiled step one layer's attention scores are written as 3 GB of float32 and
  read again: a recomputation waits between their conversion and its readers, which XLA would have joined. At
  30 % it is no better than `nothing_saveable`, which takes 5.80 GiB at +29.3 %.
- **The ResNet's schedules lose to `jax.checkpoint`.** `nothing_saveable` takes 7.04 GiB at +13.3 %. At 75 %
  the schedule takes 6.84 GiB at +27.9 %, and those at 60 %, 45 % and 30 % are over their budgets: nothing
  that was compiled takes less than 6.04 GiB.
- A GPT with a batch of 288, of which the plain step plans 126 GiB, trains within 60 GiB: 440 ms a step, 1.53
  ms for each sample, where the plain step takes 1.43 with a batch of 48.
- The ViT was measured before the others, once: its schedule was predicted with another speed of the card, and
  chosen with tuned kernels in each trial.
- Predictions are rough: the extra time was 0.5 to 2.4 times the predicted. The plain GPT, which took 68.6 ms,
  is counted as 85, and the ResNet, 38.7 ms, as 56.
- **Since then schedules are made for the kernels that XLA makes**, not for arrays that it never writes;
  barriers lie around kernels; whole segments are recomputed at once where that costs as little; and of the
  schedules that keep a budget the one is taken whose compiled kernels move the least. So the schedules of
  this page are not those of today. Today's were compiled for an H200, and not run.
- Trials are compiled without trying kernels out; only the step that trains is tuned. So a schedule of the GPT
  takes 24 to 31 s of compilations, of which the plain step's are about 20. Six processes compiled at a time
  on 16 cores.

`python -m tests.benchmarks.jax_gpu -o FOLDER` measures it; its `results.json` goes to `docs/results/jax`. Why
a row has no result was put into words by hand there.

"""
_GPU_COLUMNS = (
    "step",
    "temporary",
    "of plain",
    "planned",
    "peak",
    "recomputed",
    "predicted",
    "extra time",
    "step's time",
    "compiled",
    "difference",
)
_VERSIONS = {"keras": "Keras", "equinox": "Equinox", "optax": "Optax", "jax": "JAX"}
_NOTES = {
    "Keras on JAX": """\
Networks of `tests/benchmarks/xla_networks.py`, trained by `model.train_step` with `KERAS_BACKEND=jax`:
the step that `checkmate.rematerialize` schedules. The state is donated in all rows. The *difference* is
the largest of a state's arrays after one step, relative to its norm; momenta are among them, which are
then the gradients times the learning rate. `keras.remat` and `dots_saveable` are around blocks, each a
submodel called by `stateless_call`, so that random seeds and statistics go in and out as values. A scope is
around the building of layers. *Memory scheduler* is XLA:CPU's other scheduler (`xla_cpu_scheduler_type`),
without a schedule of ours.

XLA:CPU drops the barriers of `jax.checkpoint`, so what a peer recomputes may be merged again. Where
`RematScope` stops with a `TracerBoolConversionError`, Keras gives `training` to `jax.checkpoint` as an
array, and a layer that asks `if training` (dropout, normalization, attention) cannot be traced.

- 27 of 28 schedules keep their budget. Over it is the ResNet within 30 %, by a tenth: 14.0 MiB of 12.7.
- 25 of those 27 take no more time than the plain step. Where there are residual streams, the plain step adds
  them up in each norm ([how it works](../jax.md#how-it-works)). The others are the ViT within 60 %, +4 %, and
  the ResNet within 45 %, +7 %.
- Under XLA's usual scheduler no peer holds as little as the schedule within 60 %, in any network.
- **Under the memory scheduler `keras.remat` holds less than that, and the schedules are ahead of it**: in the
  ViT it takes 40.3 MiB at +4 % of time, the schedules 35.3 at -8 % and 22.6 at -15 %; in the GPT 52.9 at
  +6 %, the schedule 36.2 at -24 %; in the text model 40.8 at +8 %, the schedule 28.7 at -19 %; in the
  transformer 88.8 at +8 %, the schedule 79.0 at -18 %.
- In the MLP-Mixer `RematScope("full")` takes 112.8 MiB at -27 %, the schedule within 60 % 89.7 at -26 %, and
  the one within 30 % 42.6 at -33 %.

`python -m tests.benchmarks.jax_keras -o docs/results/jax/keras-cpu.json` measures the seven networks;
`--networks` and `--shares` choose.
""",
    "Equinox": """\
A decoder of two blocks of `equinox.nn`, trained by `optax.adamw` (`tests/benchmarks/jax_equinox.py`). The
state is donated in all rows; the *difference* is relative, as for Keras, and Adam's moments are among the
state. A policy is around each block by `equinox.filter_checkpoint`. *Memory scheduler* is XLA:CPU's other
scheduler.

No policy saves a byte under XLA:CPU's usual scheduler, so the schedules are compiled with the other one, too.
Within 75 % its order is enough. The others recompute, and take no more time than the plain step: 27.8 MiB at
-18 % within 30 %, where `nothing_saveable` under the memory scheduler takes 35.7 at +3 %.

`pip install equinox optax`, then `python -m tests.benchmarks.jax_equinox -o
docs/results/jax/equinox-cpu.json` measures it.
""",
}
_TITLES = {"gpt": "GPT", "vit": "ViT", "resnet": "ResNet", "keras": "Keras"}


def page(results: Path = RESULTS) -> str:
    """Return the page as Markdown."""
    parts, on_gpus, beside = [_HEAD], [], []
    for path in sorted(results.glob("*.json")):
        facts = json.loads(path.read_text(encoding="utf-8"))
        if facts["platform"] == "gpu":
            on_gpus.append((path, facts))
            continue
        if "title" in facts:
            beside += [f"## {facts['title']}\n", _NOTES[facts["title"]], *_on_cpu(path, facts, "###")]
        else:
            parts += _on_cpu(path, facts, "##")
    return "\n".join([*parts, *beside, *(_on_gpu(path, facts) for path, facts in on_gpus)])


def _on_cpu(path: Path, facts: dict[str, Any], heading: str) -> list[str]:
    """Return the tables of one file, with the machine before them."""
    versions = [f"{title} {facts[name]}" for name, title in _VERSIONS.items() if name in facts]
    parts = [
        f"*{facts['processor']}, {facts['cores']} cores, load {_span(facts['load'])}, "
        f"{', '.join(versions)} on {facts['platform']}. From `docs/results/jax/{path.name}`.*\n"
    ]
    for name in dict.fromkeys(row["network"] for row in facts["rows"]):
        rows = [row for row in facts["rows"] if row["network"] == name]
        parts += [f"{heading} {name}\n", _table([row for row in rows if "problem" not in row])]
        parts += [
            f"Measured again later, at a load of {_span(again['load'])}.\n"
            for network, again in facts.get("remeasured", {}).items()
            if network == name
        ]
        problems = [f"- `{row['way']}`: {row['problem']}\n" for row in rows if "problem" in row]
        parts += ["Could not be used:\n", "".join(problems)] if problems else []
    return parts


def _span(loads: list[float]) -> str:
    return f"{min(loads):.0f} to {max(loads):.0f}"


def _on_gpu(path: Path, facts: dict[str, Any]) -> str:
    """Return the section of one card."""
    cuda = f" for CUDA {facts['cuda']}" if "cuda" in facts else ""
    parts = [
        _GPU,
        f"*{facts['device']}, driver {facts['driver']}, JAX {facts['jax']}{cuda}. From "
        f"`docs/results/jax/{path.name}`.*\n\n",
    ]
    for name, title in _TITLES.items():
        rows = sorted((row for row in facts["rows"] if row["network"] == name), key=_order)
        if not rows:
            continue
        plain = next((row["temporary"] for row in rows if row["way"] == "plain"), None)
        batch = next((row["batch"] for row in rows if "batch" in row), None)
        parts.append(f"### {title}{f', batch of {batch}' if batch else ''}\n\n")
        done = [row for row in rows if "problem" not in row]
        if done:
            parts.append("| " + " | ".join(_GPU_COLUMNS) + " |\n|---|" + "---:|" * 10 + "\n")
            parts += [
                "| "
                + " | ".join(_gpu_cells(row, plain if row.get("batch", batch) == batch else None))
                + " |\n"
                for row in done
            ]
            parts.append("\n")
        reasons: dict[str, list[str]] = {}
        for row in rows:
            if "problem" in row:
                other = f" at a batch of {row['batch']}" if row.get("batch", batch) != batch else ""
                reasons.setdefault(row["problem"], []).append(row["way"] + other)
        if reasons:
            parts.append("Without a result:\n\n")
            parts += [f"- {', '.join(ways)}: {reason}.\n" for reason, ways in reasons.items()]
            parts.append("\n")
    return "".join(parts).rstrip("\n") + "\n"


def _order(row: dict[str, Any]) -> tuple[int, int]:
    """Sort plain steps before shares, from the largest, and policies last."""
    way = row["way"]
    kind = 0 if way == "plain" else 1 if way.endswith("%") else 2 if way.endswith("iB") else 3
    size = int(way.rstrip("% GiB")) if kind in (1, 2) else 0
    return kind + 4 * ("batch" in row and "problem" in row), -size


def _gpu_cells(row: dict[str, Any], plain: int | None) -> list[str]:
    """Return the cells of a row; ``plain`` is None where the batch is another."""
    name = row["way"] if row["way"] == "plain" or "predicted" in row else f"`{row['way']}`"
    return [
        name + (f", batch of {row['batch']}" if plain is None else ""),
        format_bytes(row["temporary"]),
        f"{row['temporary'] / plain:.0%}" if plain else "–",
        f"{row['whole']:,}",
        f"{row['peak']:,}",
        str(row.get("recomputations", "–")),
        f"{row['predicted']:+.1%}" if "predicted" in row else "–",
        f"{row['measured']:+.1%}" if "measured" in row and row["way"] != "plain" else "–",
        f"{row['least_ms']:.1f} ms",
        f"{row['compilations']} in {row['compile_seconds']:.0f} s",
        _difference(row),
    ]


def _difference(row: dict[str, Any]) -> str:
    if "difference" not in row:
        return "–"
    return "none" if row["difference"] == 0 else f"{row['difference']:.0e}"


def _compiled(row: dict[str, Any]) -> str:
    if "compilations" not in row:
        return "–"
    return f"{row['compilations']} in {row['compile_seconds']:.0f} s"


def _table(rows: list[dict[str, Any]]) -> str:
    plain = rows[0]["temporary"]
    lines = ["| " + " | ".join(_COLUMNS) + " |", "|---|" + "---:|" * (len(_COLUMNS) - 1)]
    lines += ["| " + " | ".join(_cells(row, plain)) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def _cells(row: dict[str, Any], plain: int) -> list[str]:
    kept = "–" if "budget" not in row else "yes" if row["temporary"] <= row["budget"] else "no"
    way = row["way"] if "budget" in row or row["way"].startswith("plain") else f"`{row['way']}`"
    return [
        way,
        format_bytes(row["temporary"]),
        f"{row['temporary'] / plain:.0%}",
        kept,
        str(row.get("recomputations", "–")),
        f"{max(0.0, row['predicted']):+.1%}" if "predicted" in row else "–",
        f"{row['measured']:+.0%}" if "measured" in row else "–",
        _compiled(row),
        _difference(row),
    ]


if __name__ == "__main__":
    sys.exit(write_or_check(PAGE, page(), "docs/render_jax.py"))
