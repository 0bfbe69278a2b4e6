"""Make the README's table of results from the files in ``docs/results``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NETWORKS = ("vgg16 b4", "resnet50 b8", "unet_small b4")


def readme_rows(results: Path) -> Iterator[tuple[str, str, str]]:
    """Yield what was asked, the result, and how it is known."""
    yield from _four_models(_read(results, "records/four-models"))
    yield _on_a_gpu(_read(results, "records/run-gpu"))
    yield from _fidelity(_read(results, "fidelity-eigen")["summary"])
    yield _one_line(_read(results, "records/one-line"))
    yield _peers(_read(results, "records/peers"))
    yield _largest_batch(_read(results, "paper-batches"))
    yield _solved(_read(results, "solvers-paper"))


def _read(results: Path, name: str) -> Any:
    return json.loads((results / f"{name}.json").read_text(encoding="utf-8"))


def _records(facts: dict[str, Any]) -> list[dict[str, str]]:
    return [dict(zip(facts["columns"], row, strict=True)) for row in facts["rows"]]


def _four_models(facts: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    rows = _records(facts)
    for row in rows[:2]:
        model = row["model"].replace(" (sample)", " sample")
        peak, cost = row["peak"].strip("*"), row["extra cost"].removeprefix("+")
        yield (
            f"{model}, batch 8 (`-b 8`), budget 60 %: peak of the exported step",
            f"{row['plain peak']} → {peak} MiB for {cost} more computation",
            "measured",
        )
    assert all(row["gradients"] == "bitwise" for row in rows)
    yield (
        "gradients of these two, of MobileNet and of a Transformer, compared with the plain step's",
        "bit for bit the same",
        "measured",
    )


def _on_a_gpu(facts: dict[str, Any]) -> tuple[str, str, str]:
    peak, *_ = _records(facts)
    reached = peak["within 60 %"].split(" of ")[0]
    return (
        "U-Net sample, batch 32 (`-b 32`), budget 60 %, on an NVIDIA H200: peak of the exported step",
        f"{peak['plain']} → {reached} MiB in the same time, gradients bit for bit the same",
        "measured",
    )


def _fidelity(summary: dict[str, Any]) -> Iterator[tuple[str, str, str]]:
    far, count = summary["allocated"], summary["allocated"]["count"]
    yield (
        f"{count} schedules of ten models: how far the measured peak is from the prediction",
        f"{100 * far['median']:.1f} % in the median, {100 * far['worst']:.1f} % at worst",
        "measured",
    )
    yield (
        f"how many of these {count} had a measured peak within the budget; the others were not exported",
        str(summary["within_budget"]),
        "measured",
    )


def _one_line(facts: dict[str, Any]) -> tuple[str, str, str]:
    figure = dict(facts["rows"])
    plain = figure["peak of plain training"].removesuffix(" MiB")
    peaks = f"{plain} → {figure['peak of `fit` within 240 MiB']}"
    result = f"{peaks} for {figure['extra computation']} more computation"
    return '`fit` on the U-Net with `budget="240MiB"`', result, "measured"


def _peers(facts: dict[str, Any]) -> tuple[str, str, str]:
    """Set each method beside our cheapest schedule in no more memory."""
    theirs, ours = [], []
    for network in _NETWORKS:
        rows = [row for row in _records(facts) if row["model"] == network and row[""] == "ok"]
        mine = [row for row in rows if row["method"].startswith("ours within")]
        for row in rows:
            if not row["method"].startswith("ours"):
                fits = [own for own in mine if float(own["peak MiB"]) <= float(row["peak MiB"])]
                theirs.append(float(row["overhead %"]))
                ours.append(min(float(own["overhead %"]) for own in fits))
    middle, others = statistics.median(ours), statistics.median(theirs)
    return (
        f"our schedules against {len(theirs)} runs of `tf.recompute_grad`, `keras.remat` and others on three "
        "networks, in no more memory than each",
        f"{middle:.1f} % more time in the median; theirs take {others:.1f} %",
        "measured",
    )


def _largest_batch(facts: dict[str, Any]) -> tuple[str, str, str]:
    found = next(row for row in facts["rows"] if row["model"] == "mobilenet")
    paper = next(row for row in facts["published"] if row["model"] == "mobilenet")
    assert found["batch"] == found["proved_limit"]
    return (
        "largest batch of the paper's MobileNet on 16 GB, one extra forward pass",
        f"{found['batch']} (paper: {paper['batch']})",
        "proved largest, estimated costs",
    )


def _solved(facts: dict[str, Any]) -> tuple[str, str, str]:
    found = next(
        trial
        for trial in facts["trials"]
        if (trial["graph"], trial["budget"], trial["solver"]) == ("unet", "f=0.1", "auto")
    )
    assert found["status"] == "optimal"
    return (
        "the paper's U-Net, with a budget one tenth of the way from the least memory to keep-everything",
        f"{found['overhead_percent']:.3f} % more computation, found in {found['seconds_to_final']:.2f} s",
        "proved optimal, estimated costs",
    )
