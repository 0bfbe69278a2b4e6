"""Test training steps that are not Keras's own, as files make them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import keras
import numpy as np
import pytest

from checkmate.backends.tf.models.load import load_model
from checkmate.backends.tf.trace.coarsen import FoldedStep
from checkmate.backends.tf.trace.of_request import trace_request
from checkmate.errors import (
    CheckmateError,
    DynamicShapeError,
    JitCompiledError,
    LoadError,
    OnlySmallTensorsError,
    TraceError,
    UsageError,
)
from checkmate.ir import Phase
from checkmate.progress import never, silent
from checkmate.request import ModelRequest

STEPS = Path(__file__).parents[1] / "step_models.py"
Write = Callable[..., Path]


def prepared(spec: str, **options: Any) -> FoldedStep:
    request = ModelRequest(spec, allow_code=True, device="cpu", **options)
    return trace_request(request, report=silent, cancelled=never)


def groups(folded: FoldedStep, phase: Phase) -> list[str]:
    return list(dict.fromkeys(op.group for op in folded.graph.ops if op.phase is phase))


def test_a_function_with_an_example_has_the_batch_of_the_example() -> None:
    folded = prepared(f"{STEPS}:plain_step")
    graph, loaded = folded.graph, folded.traced.loaded
    assert (graph.name, graph.batch_size) == ("plain_step", 16)
    assert graph.metadata["request"]["batch_size"] == 16 and not graph.metadata["request"]["batch_chosen"]
    assert loaded.notes == (f"the batch is the example that {STEPS}:plain_step returns: 16 examples",)
    assert loaded.own is not None and loaded.own.names == ("images", "labels")
    images, labels = loaded.make_batch(seed=5)
    assert np.array_equal(images, np.random.default_rng(0).random((16, 32, 32, 3), dtype=np.float32))
    assert labels.numpy().tolist() == list(range(16))
    # Every variable counts, also the one that is only written.
    names = sorted(variable.name for variable in folded.traced.variables)
    assert len(names) == 12 and "last:0" in names
    assert graph.fixed == {
        "variables": 4 * (2 * (27 + 4 * 144) * 16 + 1) + 24,
        "inputs": images.numpy().nbytes + 128,
    }
    unplanned = folded.traced.unplanned
    assert unplanned is not None and unplanned.names == ("logits_0", "loss") and unplanned.loss == 1
    assert {op.phase for op in graph.ops} == {Phase.FORWARD, Phase.BACKWARD}  # updates are small


def test_a_function_that_takes_the_batch_size_gets_it() -> None:
    folded = prepared(f"{STEPS}:sized_step", batch_size=6, batch_chosen=True)
    assert folded.graph.batch_size == 6 and folded.traced.loaded.any_batch
    assert folded.traced.unplanned is not None and folded.traced.unplanned.loss is None
    blocks = [f"network/block_{i}" for i in range(5)]
    assert [name for name in groups(folded, Phase.FORWARD) if name] == blocks
    assert [name for name in groups(folded, Phase.BACKWARD) if name] == blocks[::-1]


@pytest.mark.heavy
def test_the_train_step_of_a_model_gets_a_batch_that_fits_its_largest_part() -> None:
    keras.utils.clear_session()
    folded = prepared(f"{STEPS}:autoencoder", batch_size=12)
    assert folded.graph.batch_size == 12
    assert folded.traced.loaded.notes == (
        "its train_step is given float32 of 12×32×32×3, as its part 'functional' takes it",
    )
    assert {"functional/conv2d", "functional_1/dense_1"} <= set(groups(folded, Phase.FORWARD))
    assert any(name.startswith("adam") for name in groups(folded, Phase.UPDATE))
    metric = [variable.name for variable in folded.traced.variables if "error" in variable.name]
    assert metric, "the metric's state is the step's too"


OWN = """
import tensorflow as tf
import numpy as np
class Own(keras.Model):
    def train_step(self, data):
        x, y = data
        with tf.GradientTape() as tape:
            loss = self.compute_loss(y=y, y_pred=self(x, training=True))
        self.optimizer.apply(tape.gradient(loss, self.trainable_weights), self.trainable_weights)
        return {"loss": loss}
def make():
    x = keras.Input((64,))
    m = Own(x, layers.Dense(5, activation="softmax")(layers.Dense(512)(x)), name="own")
"""


def test_labels_are_those_of_the_compiled_loss(code_file: Write) -> None:
    path = code_file(OWN + "    m.compile('sgd', 'sparse_categorical_crossentropy')\n    return m")
    loaded = load_model(ModelRequest(f"{path}:make", allow_code=True, batch_size=4))
    assert [spec.shape.as_list() for spec in loaded.input_specs] == [[4, 64], [4]]
    assert loaded.notes == ("its train_step is given float32 of 4×64 and int32 of 4",)
    assert 0 <= loaded.make_batch()[1].numpy().min() <= loaded.make_batch()[1].numpy().max() < 5


def test_a_model_may_come_with_its_batch(code_file: Write) -> None:
    path = code_file(
        OWN + "    m.compile('sgd', 'mse')\n    return m, (np.ones((3, 64), 'f4'), np.ones((3, 5)))"
    )
    loaded = load_model(ModelRequest(f"{path}:make", allow_code=True))
    assert loaded.own is not None and loaded.own.names == ("data_0", "data_1")
    assert loaded.batch_size == 3 and loaded.make_batch()[0].numpy().sum() == 192


def test_arguments_in_any_structure_have_names(code_file: Write) -> None:
    source = (
        "import tensorflow as tf\nimport numpy as np\nX = np.ones((4, 8), 'f4')\n"
        "class Trainer(tf.Module):\n"
        "    def __init__(self):\n        self.head = layers.Dense(3)\n"
        "    @tf.function\n    def step(self, batch, rate, *more, flag=True):\n"
        "        return tf.reduce_sum(batch['x y'] + batch['z'][0] + more[0]) * rate if flag else 0.0\n"
        "TRAINER = Trainer()\n"
        "def make():\n    return TRAINER.step, ({'x y': X, 'z': [X]}, 0.5, X)\n"
        "def lost():\n    return Trainer().step, ({'x y': X, 'z': [X]}, 0.5, X)"
    )
    path = code_file(source)
    with pytest.raises(LoadError, match="returned a method of an object that is gone"):
        load_model(ModelRequest(f"{path}:lost", allow_code=True))
    loaded = load_model(ModelRequest(f"{path}:make", allow_code=True))
    assert [layer.units for layer in loaded.model.layers] == [3]
    assert loaded.own is not None and loaded.own.names == ("batch_x_y", "batch_z_0", "input_2")
    assert loaded.own.call(*loaded.make_batch()).numpy() == 48.0


HEAD = """
import tensorflow as tf
import numpy as np
W = tf.Variable(tf.ones((256, 256)))
X = np.ones((64, 256), "float32")
def loss_of(x):
    return tf.reduce_mean(tf.tanh(x @ W))
FEED = iter(tf.data.Dataset.from_tensors(X).repeat())
QUEUE = tf.queue.FIFOQueue(9, tf.float32)
"""


@pytest.mark.parametrize(
    ("dense_of", "example", "names"),
    [
        ("tf.strings.to_number", "tf.strings.as_string(X)", ("x",)),
        ("tf.sparse.to_dense", "tf.sparse.from_dense(X)", ("x_0", "x_1", "x_2")),
        ("lambda x: x.to_tensor(shape=(64, 256))", "tf.RaggedTensor.from_tensor(X)", ("x_0", "x_1")),
    ],
)
def test_text_and_sparse_and_ragged_arguments_are_planned(
    dense_of: str, example: str, names: tuple[str, ...], code_file: Write
) -> None:
    path = code_file(
        f"{HEAD}dense_of = {dense_of}\n"
        "def step(x):\n"
        "    with tf.GradientTape() as tape:\n        loss = loss_of(dense_of(x))\n"
        "    W.assign_sub(tape.gradient(loss, W))\n    return loss\n"
        f"def make():\n    return step, {example}"
    )
    folded = prepared(f"{path}:make")
    loaded = folded.traced.loaded
    assert loaded.own is not None and loaded.own.names == names
    assert "Tanh" in {kind for op in folded.graph.ops for kind in op.type.split("+")}
    assert loaded.own.call(*loaded.make_batch()).numpy() == pytest.approx(1.0)


REFUSED = (
    ("return loss_of", {}, LoadError, "{spec} returned a training step without an example of its arguments"),
    ("return loss_of, None", {}, LoadError, "{spec} returned None as the example of its step"),
    ("return loss_of, X, X", {}, LoadError,
     "{spec} returned a tuple of 3, not a keras.Model or a training step with its example"),
    ("return X, loss_of", {}, LoadError,
     "{spec} returned a pair of a ndarray and a function, not a keras.Model or a training step with its "
     "example"),
    ("return tf.function(loss_of).get_concrete_function(X), X", {}, LoadError,
     "{spec} returned a concrete function, which is traced for one layout already"),
    ("return loss_of, (3, 'x')", {}, TraceError, "the example of {spec} holds no tensors"),
    ("return loss_of, tf.TensorSpec((None, 256))", {}, DynamicShapeError,
     "{spec}: the example has a tensor of shape (None, 256), so its size is not known before it runs"),
    ("return (lambda x: loss_of(x + next(FEED))), X", {}, TraceError,
     "the training step of '{spec}' takes its data from an iterator itself, which cannot be undone after a "
     "trial run"),
    ("return (lambda x: (QUEUE.enqueue(1.0), loss_of(x))[1]), X", {}, TraceError,
     "the training step of '{spec}' keeps state outside of variables (QueueEnqueueV2), which cannot be "
     "undone after a trial run"),
    ("return (lambda x: loss_of(x) + tf.py_function(lambda: 1.0, [], tf.float32)), X", {}, TraceError,
     "the training step of '{spec}' calls Python code each time (tf.py_function or tf.numpy_function), which "
     "cannot be undone after a trial run"),
    ("return (lambda x, y: loss_of(x)), X", {}, TraceError,
     "the example of {spec} does not fit its step: missing a required argument: 'y'"),
    ("return loss_of, tf.TensorSpec((64, 256), tf.string)", {}, TraceError,
     "{spec}: the example has a tensor of string, for which no values can be made"),
    ("return (lambda x: tf.nn.relu(x[:2, :2])), X[:2, :2]", {}, OnlySmallTensorsError,
     "{spec}: the training step of 'make' has only small tensors; there is nothing to rematerialize"),
    ("return tf.function(loss_of, jit_compile=True), X", {}, JitCompiledError, "{spec}: the step calls "),
    ("return loss_of, X", {"batch_size": 32, "batch_chosen": True}, UsageError,
     "{spec} returns an example of 64, so its step has no batch of 32"),
    ("return loss_of, X", {"optimizer": "sgd"}, UsageError,
     "the optimizer sgd cannot change the step of {spec}, which brings its own"),
    ("return loss_of, X", {"input_shape": (8, 8)}, UsageError,
     "the input shape 8,8 cannot change the step of {spec}, which brings its own"),
)  # fmt: skip


@pytest.mark.parametrize(("source", "options", "error", "sentence"), REFUSED)
def test_a_step_that_cannot_be_taken_is_refused_in_one_sentence(
    source: str, options: dict[str, Any], error: type[CheckmateError], sentence: str, code_file: Write
) -> None:
    path = code_file(f"{HEAD}def make():\n    {source}")
    with pytest.raises(CheckmateError) as raised:
        prepared(f"{path}:make", **options)
    wanted = sentence.format(spec=f"{path}:make")
    assert type(raised.value) is error, raised.value
    assert str(raised.value).startswith(wanted), str(raised.value)
    assert raised.value.hint and "\n" not in str(raised.value)


def test_a_step_in_place_of_what_makes_it(code_file: Write) -> None:
    path = code_file(HEAD + "@tf.function\ndef make(x):\n    return loss_of(x)")
    with pytest.raises(LoadError, match="is a training step itself, and its example is not known"):
        prepared(f"{path}:make")


MODELS = (
    ("return m", UsageError, "the model of {spec} is not compiled, so it has no training step to trace"),
    (
        "m.compile('sgd', 'mse', run_eagerly=True); return m",
        UsageError,
        "the model of {spec} runs eagerly, and only a traced step can be scheduled",
    ),
    (
        "m.compile('sgd', 'mse', jit_compile=True); return m",
        JitCompiledError,
        "the model of {spec} is compiled with jit_compile=True, "
        "and its own train_step is scheduled for XLA by checkmate.rematerialize alone",
    ),
    ("m.compile('sgd'); return m", TraceError, "the train_step of {spec} takes no batch that was tried: "),
    (
        "m.compile('sgd', 'mse'); return m, tf.data.Dataset.from_tensors(np.ones((2, 64), 'f4')).batch(2)",
        TraceError,
        "{spec}: the batch holds a _BatchDataset, which is no tensor",
    ),
    (
        "m.compile('sgd', 'mse'); return m, m.optimizer",
        TraceError,
        "{spec}: the batch holds a SGD, which is no tensor",
    ),
)


@pytest.mark.parametrize(("source", "error", "sentence"), MODELS)
def test_a_model_whose_train_step_cannot_be_taken(
    source: str, error: type[CheckmateError], sentence: str, code_file: Write
) -> None:
    path = code_file(f"{OWN}    {source}")
    with pytest.raises(CheckmateError) as raised:
        prepared(f"{path}:make")
    assert type(raised.value) is error and raised.value.hint
    assert str(raised.value).startswith(sentence.format(spec=f"{path}:make")), str(raised.value)


def test_a_model_that_says_nothing_of_its_input_is_told_both_ways_out(code_file: Write) -> None:
    source = (
        "class Own(keras.Model):\n    def train_step(self, data): return {}\ndef make():\n    m = Own()\n"
    )
    path = code_file(f"{source}    m.compile('sgd')\n    return m")
    with pytest.raises(DynamicShapeError) as raised:
        prepared(f"{path}:make")
    assert str(raised.value).startswith(f"{path}:make: the model ")
    assert "input_shape=" in raised.value.hint and "(model, batch)" in raised.value.hint


@pytest.mark.parametrize("options", [{}, {"batch_size": 8, "batch_chosen": True}])
def test_an_example_of_another_size_than_was_asked_for(options: dict[str, Any], code_file: Write) -> None:
    path = code_file(f"{HEAD}def make(batch_size):\n    return loss_of, np.ones((2 * batch_size, 256), 'f4')")
    with pytest.raises(UsageError, match="and returns an example whose first dimension is") as raised:
        prepared(f"{path}:make", **options)
    assert "batch_size as its first dimension" in str(raised.value.hint)


def test_what_a_step_prints_while_it_is_traced_stays_off_standard_output(
    code_file: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    source = (
        "def told(x):\n    print('traced', x.shape)\n    return loss_of(x)\ndef make():\n    return told, X"
    )
    prepared(f"{code_file(HEAD + source)}:make")
    captured = capsys.readouterr()
    assert captured.out == "" and "traced" in captured.err


def test_layers_are_found_beside_plain_lists_partials_and_own_counts(code_file: Write) -> None:
    source = (
        "import functools\n"
        "class Block(layers.Layer):\n    def __init__(self, held):\n        super().__init__(name='block')\n"
        "        self.layers, self.inner = held, layers.Dense(256)\n"
        "    def call(self, x):\n        return self.inner(x)\n"
        "DATA, BY_NAME = list(range(10**6)), {'data': ['a'] * 10**6}\n"
        "def step_of(block, rate, x):\n"
        "    with tf.GradientTape() as tape:\n        loss = tf.reduce_mean(block(x)) * len(DATA)\n"
        "    block.inner.kernel.assign_sub(rate * tape.gradient(loss, block.inner.kernel))\n"
        "    return loss + len(BY_NAME)\n"
        "COUNT, NAMED = Block(6), Block({'first': layers.Dense(2)})\n"
        "def count():\n    return functools.partial(step_of, COUNT, 0.1), X\n"
        "def named():\n    return functools.partial(step_of, NAMED, 0.1), X\n"
    )
    path = code_file(HEAD + source)
    for maker in ("count", "named"):
        folded = prepared(f"{path}:{maker}")
        assert [layer.name for layer in folded.traced.loaded.model.layers] == ["block"]
        assert "block" in groups(folded, Phase.FORWARD)
