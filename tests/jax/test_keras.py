"""Test Keras on JAX, in processes of their own.

Keras chooses its backend once.
"""

from __future__ import annotations

import textwrap

import pytest

from tests.programs import run_python

pytest.importorskip("jax")
pytestmark = pytest.mark.heavy

COMMON = """
import keras, numpy as np, checkmate, checkmate.jax

def build(**compiled):
    keras.utils.set_random_seed(1)
    layers = [keras.layers.Input((64,))]
    for _ in range(5):
        layers += [keras.layers.Dense(64, activation="tanh"), keras.layers.Dropout(0.1)]
    model = keras.Sequential([*layers, keras.layers.Dense(10)])
    loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    model.compile(keras.optimizers.Adam(1e-3), loss, metrics=["accuracy"], **compiled)
    return model

made = np.random.default_rng(0)
x = made.normal(size=(5120, 64)).astype("float32")
y = made.integers(0, 10, size=5120)
fit = dict(batch_size=1024, epochs=4, verbose=0, shuffle=False)  # 20 steps
quick = dict(options=checkmate.SolveOptions(time_limit_s=1), quiet=True)
"""


def run(code: str) -> None:
    run_python("-c", COMMON + textwrap.dedent(code), KERAS_BACKEND="jax")


def test_fit_trains_as_plainly_within_the_budget() -> None:
    run("""
    plain, ours = build(), build()
    expected = plain.fit(x, y, **fit).history
    assert checkmate.rematerialize(ours, "50%", **quick) is ours
    found = ours.fit(x, y, **fit).history
    report = checkmate.jax.report_of(ours)
    assert report.reached.whole <= report.budget_bytes < report.plain.whole, report
    assert report.recomputations > 0
    assert found["accuracy"] == expected["accuracy"]  # metrics and the dropouts' seeds are as plainly
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-6)
    pairs = zip(plain.get_weights(), ours.get_weights())
    assert all(np.allclose(a, b, atol=1e-4) for a, b in pairs)
    assert ours.evaluate(x, y, verbose=0, return_dict=True)["loss"] < found["loss"][0]
    assert len(ours.make_train_function.step.plans) == 1
    """)


def test_several_steps_per_execution_and_a_scaled_loss() -> None:
    run("""
    def scaled():
        model = build(steps_per_execution=2)
        model.optimizer.loss_scale_factor = 128.0
        return model
    plain, ours = scaled(), scaled()
    expected = plain.fit(x, y, **fit).history
    checkmate.rematerialize(ours, "50%", example=(x[:1024], y[:1024]), **quick)
    assert checkmate.jax.report_of(ours).recomputations > 0
    found = ours.fit(x, y, **fit).history
    assert len(ours.make_train_function.step.plans) == 1  # that of the example
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-6)
    ours.train_on_batch(x[:1024], y[:1024])
    assert len(ours.make_train_function.step.plans) == 1
    """)


def test_what_cannot_be_scheduled_is_said() -> None:
    run("""
    def said(model, call=checkmate.rematerialize):
        try:
            call(model, "60%", **quick)
        except checkmate.CheckmateError as error:
            assert error.hint
            return str(error)
    assert "not compiled by XLA" in said(build(run_eagerly=True))
    assert "not compiled by XLA" in said(build(jit_compile=False))
    assert "not compiled" in said(keras.Sequential([keras.layers.Dense(1)]))
    assert "no Keras model" in said(3)
    assert "a step is a function" in said(build(), checkmate.train_step)
    """)


def test_what_keras_would_not_compile_is_scheduled_and_said() -> None:
    run("""
    import contextlib, io

    def zooming(**compiled):
        keras.utils.set_random_seed(1)
        h = image = keras.Input((16, 16, 3))
        h = keras.layers.RandomZoom(0.2, name="closer")(h)
        for _ in range(4):
            h = keras.layers.Dense(32, activation="gelu")(h)
        model = keras.Model(image, keras.layers.Dense(10)(keras.layers.GlobalAveragePooling2D()(h)))
        loss = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
        model.compile("sgd", loss, **compiled)
        return model

    images = made.normal(size=(256, 16, 16, 3)).astype("float32")
    kinds = made.integers(0, 10, size=256)
    few = dict(batch_size=64, epochs=2, verbose=0, shuffle=False)
    plain, ours = zooming(), zooming()
    assert not plain.jit_compile
    said = io.StringIO()
    with contextlib.redirect_stderr(said):
        checkmate.rematerialize(ours, "60%", options=quick["options"])
        found = ours.fit(images, kinds, **few).history["loss"]
    assert "because of 'closer'; the scheduled step is compiled by XLA" in said.getvalue()
    report = checkmate.jax.report_of(ours)
    assert report.recomputations > 0 and not report.over_bytes, report
    np.testing.assert_allclose(found, plain.fit(images, kinds, **few).history["loss"], rtol=1e-5)
    """)


def test_a_fault_while_a_step_is_planned_trains_as_before() -> None:
    run("""
    import contextlib, io
    from checkmate.backends.jax import compiler

    def fail(*_, **__):
        raise KeyError("seeded")

    plain, ours = build(), build()
    few = {**fit, "epochs": 1}
    expected = plain.fit(x, y, **few).history
    compiler.read_program, said = fail, io.StringIO()
    with contextlib.redirect_stderr(said):
        checkmate.rematerialize(ours, "50%", options=quick["options"], example=(x[:1024], y[:1024]))
        found = ours.fit(x, y, **few).history
    np.testing.assert_allclose(found["loss"], expected["loss"], rtol=1e-6)
    (line,) = [line for line in said.getvalue().splitlines() if line.startswith("checkmate: ")]
    assert "cannot be scheduled: unexpected KeyError: 'seeded'. It trains as before." in line, line
    """)


def test_a_memory_report_logs_what_xla_says_and_changes_no_training() -> None:
    run("""
    import csv, logging, pathlib, tempfile, warnings, jax
    from checkmate.keras import MemoryReport

    def small():
        model = keras.Sequential([keras.Input((64,)), *(keras.layers.Dense(64, "tanh") for _ in range(3))])
        model.compile("sgd", "mse")
        return model

    def told_of(model):
        log, few = pathlib.Path(tempfile.mkdtemp(), "log.csv"), {**fit, "epochs": 2}
        start = [np.array(variable) for variable in model.variables]
        expected = model.fit(x, x, **few).history
        for variable, value in zip(model.variables, start, strict=True):
            variable.assign(value)
        ours = model.fit(x, x, callbacks=[MemoryReport(), keras.callbacks.CSVLogger(log)], **few).history
        told = {name: ours.pop(name) for name in list(ours) if name.startswith("memory/")}
        assert ours == expected  # bit for bit
        assert [int(row["memory/peak"]) for row in csv.DictReader(log.open())] == told["memory/peak"]
        return told

    compiled = []
    class Seen(logging.Handler):
        def emit(self, record):
            compiled.extend([record] if "XLA compilation of jit(train_step)" in record.getMessage() else [])
    logging.getLogger("jax._src.dispatch").addHandler(Seen())
    jax.config.update("jax_log_compiles", True)
    plain = small()
    told = told_of(plain)
    assert len(compiled) == 1, compiled  # the report asks for the step that ran
    jax.config.update("jax_log_compiles", False)
    state = plain._get_jax_state(trainable_variables=True, non_trainable_variables=True,
                                 optimizer_variables=True, metrics_variables=True)
    step = jax.jit(plain.train_step, donate_argnums=0).lower(state, (x[:1024], x[:1024])).compile()
    held = step.memory_analysis()
    whole = held.argument_size_in_bytes + held.output_size_in_bytes - held.alias_size_in_bytes
    temporary = held.temp_size_in_bytes
    assert told == {"memory/peak": [whole + temporary] * 2, "memory/activations": [temporary] * 2}, told

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        missed = checkmate.rematerialize(small(), "10%", **quick)
        told = told_of(missed)
    report = checkmate.jax.report_of(missed)
    assert report.over_bytes and told == {
        "memory/peak": [report.reached.whole] * 2,
        "memory/budget": [report.budget_bytes] * 2,
        "memory/activations": [report.reached.temporary] * 2,
        "memory/recompute_overhead": [report.predicted_overhead] * 2,
    }
    assert len([each for each in caught if "over its budget" in str(each.message)]) == 1
    """)
