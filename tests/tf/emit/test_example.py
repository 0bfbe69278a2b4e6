"""Test that an export's script says where it runs with kernels that were not measured."""

from __future__ import annotations

from pathlib import Path

import pytest

from checkmate.backends.tf.devices import Kernels, kernels_here
from checkmate.backends.tf.emit.saved_model import example_script, save_step
from checkmate.ir import Schedule
from tests.programs import run_python
from tests.quick_start import QUICK
from tests.tf.prepared import small


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    folded = small("convnet")
    save_step(folded, Schedule.plain(folded.graph), folder / "saved_model")
    script = folder / "train_example.py"
    script.write_text(example_script(folded, folded.traced.loaded.make_batch()), encoding="utf-8")
    return script


def said_by(script: Path, *, onednn: bool) -> list[str]:
    done = run_python(script, 1, **QUICK, TF_ENABLE_ONEDNN_OPTS=str(int(onednn)))
    assert "step 0: loss " in done.stdout
    return [line for line in done.stderr.splitlines() if line.startswith("note: ")]


@pytest.mark.heavy
def test_the_same_kernels_are_not_worth_a_word(export: Path) -> None:
    assert said_by(export, onednn=kernels_here("cpu") is Kernels.ONEDNN) == []


@pytest.mark.heavy
def test_other_kernels_are_named_and_it_trains_all_the_same(export: Path) -> None:
    here = kernels_here("cpu")
    other = Kernels.EIGEN if here is Kernels.ONEDNN else Kernels.ONEDNN
    assert said_by(export, onednn=other is Kernels.ONEDNN) == [
        f"note: this step was measured with the kernels {here.value}; here it runs with the kernels "
        f"{other.value}, so its peak may differ"
    ]


@pytest.mark.heavy
def test_another_version_is_named(export: Path, tmp_path: Path) -> None:
    text = export.read_text()
    start = text.index("'tensorflow': '") + len("'tensorflow': '")
    older = tmp_path / "train_example.py"
    older.write_text(text[:start] + "1.0" + text[text.index("'", start) :])
    (tmp_path / "saved_model").symlink_to(export.parent / "saved_model")
    (line,) = said_by(older, onednn=kernels_here("cpu") is Kernels.ONEDNN)
    assert "measured with TensorFlow 1.0; here it runs with TensorFlow " in line and "kernels" not in line
