"""Test that an export's script says where it runs with kernels that were not measured."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from checkmate.backends.tf.devices import Kernels, kernels_here
from checkmate.backends.tf.emit.saved_model import save_step, write_example
from checkmate.ir import Schedule
from checkmate.request import ModelRequest
from tests.programs import run_python
from tests.quick_start import QUICK
from tests.tf.prepared import prepared, small


@pytest.fixture(scope="module")
def export(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("export")
    folded = small("convnet")
    save_step(folded, Schedule.plain(folded.graph), folder / "saved_model")
    write_example(folded, folded.traced.loaded.make_batch(), folder)
    return folder / "train_example.py"


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


@pytest.mark.heavy
def test_what_no_random_numbers_can_stand_for_is_kept_beside_it(tmp_path: Path) -> None:
    code = tmp_path / "step.py"
    code.write_text(
        "import tensorflow as tf\n"
        "W = tf.Variable(tf.random.stateless_normal((64, 64), [1, 2]))\n"
        "def step(words, texts, scale):\n"
        "    with tf.GradientTape() as tape:\n"
        "        rows = tf.tanh(tf.gather(W, words.values) @ W) * tf.strings.to_number(texts[0])\n"
        "        loss = tf.reduce_mean(rows ** 2) * tf.reduce_mean(scale)\n"
        "    W.assign_sub(tf.convert_to_tensor(tape.gradient(loss, W)))\n"
        "    return {'loss': loss}\n"
        "def make():\n"
        "    words = tf.ragged.constant([[n % 64] * (1 + n % 9) for n in range(200)], tf.int32)\n"
        "    return step, (words, tf.constant(['2.5', '1']), tf.ones((8,)))\n"
    )
    folded = prepared(ModelRequest(f"{code}:make", allow_code=True))
    save_step(folded, Schedule.plain(folded.graph), tmp_path / "saved_model")
    batch = folded.traced.loaded.make_batch()
    write_example(folded, batch, tmp_path)
    with np.load(tmp_path / "example.npz") as kept:
        assert sorted(kept) == ["scale", "texts", "words_0", "words_1"]  # the sizes depend on the data
    said = run_python(tmp_path / "train_example.py", 2, **QUICK).stdout
    loss = float(folded.traced.loaded.own.call(*batch)["loss"])
    assert f"step 0: loss {loss:.4f}, " in said and "step 1: loss " in said
