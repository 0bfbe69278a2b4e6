"""Plant regressions of memory into models; each must be found, and named with its layer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from checkmate.cli.main import main
from checkmate.planning.memory_growth import growth
from checkmate.planning.step_memory import StepMemory, step_memory
from checkmate.request import ModelRequest
from tests.end2end.test_cli import call, one_object
from tests.tf import planted


def held(model: Any, batch: int = 8) -> StepMemory:
    return step_memory(model, batch_size=batch, quiet=True)


def found(before: StepMemory, now: StepMemory) -> dict[str, tuple[str, ...]]:
    """Return what grew, the first four, with the reasons; the peak must have grown too."""
    assert now.peak_bytes > before.peak_bytes
    return {each.name: each.why for each in growth(before, now).grown[:4]}


@pytest.mark.heavy
@pytest.mark.parametrize("name", ["unet", "mobilenet", "lstm"])
def test_each_regression_is_found_and_named(name: str) -> None:
    base, half = held(planted.built(name)), held(planted.built(name, "mixed_bfloat16"))
    assert growth(base, held(planted.built(name))).grown == ()

    model = planted.built(name, "mixed_bfloat16")
    layer = planted.layer_of(model, "ReLU")
    cast = found(half, held(planted.with_layer(model, layer, dtype="float32")))
    assert next(iter(cast.items())) == (layer, ("bfloat16 → float32",))

    last = planted.built(name).layers[-1]
    wider = {"units": 5000} if hasattr(last, "units") else {"filters": 64}
    assert last.name in found(base, held(planted.with_layer(planted.built(name), last.name, **wider)))

    slots = found(held(planted.compiled(planted.built(name), "sgd")), base)
    assert slots["fixed: optimizer's momentum"] == slots["fixed: optimizer's velocity"] == ("new",)

    # An activation is computed in the node of the normalization before it.
    more = found(base, held(planted.with_output(planted.built(name), layer)))
    (kept,) = (each for each, why in more.items() if "kept to the end of the step" in why)
    assert kept.removesuffix("_norm") in layer

    batch = growth(base, held(planted.built(name), 12))
    assert batch.grown == () and batch.now.peak_bytes > base.peak_bytes
    assert batch.with_batch > len(base.layers) / 2


def test_a_lost_recomputation_is_named_by_its_layer() -> None:
    before, now = (
        step_memory(ModelRequest(f"{planted.__file__}:{made}", 8, allow_code=True, name="net"), quiet=True)
        for made in ("all_again", "one_lost")
    )
    assert next(iter(found(before, now))).startswith("block_1")


@pytest.mark.heavy
def test_the_command_writes_a_baseline_and_holds_to_it(tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "memory.json"
    step = ("assert", "unet", "--input-shape", "32,32,3", "--baseline", file, "--quiet")
    code, text, _ = call(capsys, *step, "-b", 2, "--max", "10MiB", "--write-baseline")
    assert code == 5 and "OVER by" in text and f"wrote {file}" in text
    assert call(capsys, *step, "-b", 2)[0] == 0
    code, text, _ = call(capsys, *step, "-b", 3)
    assert code == 5 and "batch 2 → 3: " in text and "nothing else grew" in text
    code, text, _ = call(capsys, *step, "-b", 3, "--tolerance", "50%", "--json")
    told = one_object(text)
    assert code == 0 and told["ok"] and told["grown"] == []
    assert told["peak_bytes"] > told["limits"][0]["bytes"]
    assert main(["assert", "lstm", "-b", "2", "--baseline", str(file), "--quiet"]) == 2
    assert "the baseline is of unet on tensorflow, not of lstm" in capsys.readouterr().err
