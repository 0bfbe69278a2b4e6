"""Make the README's table of results from the files in ``docs/results``."""

from __future__ import annotations

import json
import statistics
from collections.abc import Iterator
from pathlib import Path

from tables import Facts, records, rivals, torch_rivals

_NETWORKS = ("vgg16 b4", "resnet50 b8", "unet_small b4")


def readme_rows(results: Path) -> Iterator[tuple[str, str, str]]:
    """Yield what was asked, the result, and how it is known."""
    yield _on_a_cpu(_read(results, "records/four-models"))
    yield _on_a_gpu(_read(results, "records/run-gpu"))
    yield _peers(_read(results, "records/peers"))
    yield _torch_peers(_read(results, "torch/peers-cpu"))
    yield _fidelity(_read(results, "fidelity-eigen")["summary"])
    yield _largest_batch(_read(results, "paper-batches"))


def _read(results: Path, name: str) -> Facts:
    facts: Facts = json.loads((results / f"{name}.json").read_text(encoding="utf-8"))
    return facts


def _on_a_cpu(facts: Facts) -> tuple[str, str, str]:
    rows = records(facts)[:2]
    assert all(row["gradients"] == "bitwise" for row in rows)
    peaks = [f"{row['plain peak']} → {row['peak'].strip('*')} MiB" for row in rows]
    costs = [row["extra cost"].removeprefix("+") for row in rows]
    return (
        "U-Net sample and ResNet50, batch 8, within 60 % of the memory: peak of the exported step",
        f"{peaks[0]} for {costs[0]} more computation, {peaks[1]} for {costs[1]}; gradients bit for bit "
        "the same",
        "measured",
    )


def _on_a_gpu(facts: Facts) -> tuple[str, str, str]:
    peak, *_ = records(facts)
    reached = peak["within 60 %"].split(" of ")[0]
    return (
        "U-Net sample, batch 32, within 60 %, on an NVIDIA H200: peak of the exported step",
        f"{peak['plain']} → {reached} MiB in the same time; gradients bit for bit the same",
        "measured",
    )


def _peers(facts: Facts) -> tuple[str, str, str]:
    """Set each method beside our cheapest schedule in no more memory."""
    pairs = [pair for pair in rivals(facts) if pair[0]["model"] in _NETWORKS]
    theirs, ours = (
        statistics.median(float(row["overhead %"]) for row in rows) for rows in zip(*pairs, strict=True)
    )
    return (
        f"{len(pairs)} runs of `tf.recompute_grad`, `keras.remat` and others on three networks, and our "
        "schedules in no more memory than each",
        f"theirs take {theirs:.1f} % more time in the median, ours {ours:.1f} %",
        "measured",
    )


def _torch_peers(facts: Facts) -> tuple[str, str, str]:
    pairs = list(torch_rivals(facts))
    theirs, ours = (
        statistics.median(100 * float(row["seconds_over_plain"]) for row in rows)
        for rows in ([pair[0] for pair in pairs], [pair[1] for pair in pairs])
    )
    models = len({row["model"] for row, *_ in pairs})
    wrong = sum(not row["gradients_bitwise"] for row, *_ in pairs)
    return (
        f"{len(pairs)} runs of PyTorch's `activation_memory_budget` and checkpointing on {models} models, "
        "and our schedules in no more memory than each",
        f"theirs take {theirs:.0f} % more time than eager in the median, ours {ours:.0f} %; {wrong} of "
        "theirs have other gradients (dropout is drawn again), none of ours",
        "measured",
    )


def _fidelity(summary: Facts) -> tuple[str, str, str]:
    far, count = summary["allocated"], summary["allocated"]["count"]
    return (
        f"{count} schedules of ten models: how far the measured peak is from the prediction",
        f"{100 * far['median']:.1f} % in the median, {100 * far['worst']:.1f} % at worst; "
        f"{summary['within_budget']} were within the budget, the others were not exported",
        "measured",
    )


def _largest_batch(facts: Facts) -> tuple[str, str, str]:
    found = next(row for row in facts["rows"] if row["model"] == "mobilenet")
    paper = next(row for row in facts["published"] if row["model"] == "mobilenet")
    assert found["batch"] == found["proved_limit"]
    return (
        "largest batch of the paper's MobileNet on 16 GB, one extra forward pass",
        f"{found['batch']} (paper: {paper['batch']})",
        "proved largest, estimated costs",
    )
