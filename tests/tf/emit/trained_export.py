"""``python trained_export.py FILE NAME POLICY FOLDER``: train a model's export without Keras.

Train the model by ``fit`` on the same batches; print as JSON how they compare.
"""

from __future__ import annotations

import json
import runpy
import sys
from pathlib import Path
from typing import Any

import keras
import numpy as np
import tensorflow as tf

from checkmate.backends.tf.emit.saved_model import save_step, write_example
from checkmate.backends.tf.live.measure import restored
from tests.programs import run_python
from tests.tf.prepared import prepared, request_of
from tests.tf.schedules import recompute_forward

STEPS, SEED = 5, 11
STRANGER = Path(__file__).with_name("without_keras.py")


def same(found: Any, expected: Any) -> bool:
    pairs = zip(keras.tree.flatten(found), keras.tree.flatten(expected), strict=True)
    return all(np.array_equal(one, other) for one, other in pairs)


def numbers(found: Any) -> dict[str, float]:
    return {name: float(value) for name, value in found.items() if np.ndim(value) == 0}


def main(file: str, name: str, policy: str, folder: Path) -> dict[str, Any]:
    folded = prepared(request_of(file, name, 16, mixed_precision=policy if policy != "float32" else None))
    loaded, schedule = folded.traced.loaded, recompute_forward(folded.graph)
    model, pack = loaded.model, loaded.pack if loaded.own is None else loaded.own.layout.pack
    folder.mkdir()
    save_step(folded, schedule, folder / "saved_model")
    script = folder / "train_example.py"
    write_example(folded, loaded.make_batch(), folder)
    # The same kernels: TensorFlow would fuse other ops in the one step than in the other.
    tf.config.optimizer.set_experimental_options({"disable_meta_optimizer": True})
    whole = loaded.make_batch()
    smaller = [tensor[:7] for tensor in whole]
    export = tf.saved_model.load(str(folder / "saved_model"))
    answer: dict[str, Any] = {"recomputations": schedule.recomputations}
    answer["names"] = list(export.weights) == [weight.path for weight in model.weights]
    answer["evaluated"] = all(
        numbers(export.evaluate(*batch)) == numbers(tested(model, pack(batch))) for batch in (whole, smaller)
    )
    with restored([each.value for each in (*model.variables, *model.optimizer.variables)]):
        model.train_on_batch(*pack(smaller))
        export.train_step(*smaller)
        answer["smaller"] = same(list(export.weights.values()), model.weights)

    run = ["--seed", SEED, "--learning-rate", 0.003]
    run_python(STRANGER, script, 3, *run)
    run_python(STRANGER, script, 2, *run[2:])  # it goes on
    example = runpy.run_path(str(script))
    for number, seed in enumerate(seed for seed in model.variables if "seed_generator" in seed.path):
        seed.assign([SEED + number, 0])
    model.optimizer.learning_rate = 0.003
    data = example["batches"](3, seed=1).concatenate(example["batches"](2, seed=2))
    model.fit(data.map(lambda *batch: pack(batch)), verbose=0)
    fitted = model.get_weights(), model.predict_step((pack(whole)[0],))
    with np.load(folder.with_name(f"{folder.name}-trained") / "weights.npz") as trained:
        model.set_weights([np.zeros_like(weight) for weight in model.get_weights()])
        model.set_weights([trained[name] for name in trained])
    answer["weights"] = same(model.get_weights(), fitted[0])
    answer["predictions"] = same(model.predict_step((pack(whole)[0],)), fitted[1])
    return answer


def tested(model: Any, data: Any) -> dict[str, float]:
    model.reset_metrics()
    return model.test_on_batch(*data, return_dict=True)  # type: ignore[no-any-return]


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:4], Path(sys.argv[4]))))
