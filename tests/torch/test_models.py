"""Test that each model trains, that its activations are most of its memory, and that compiled it is the same.

``aot_eager`` runs the ops of the graphs that Dynamo and AOTAutograd trace. Whoever rewrites such a graph and
finds the training changed can so tell that the rewriting did it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

pytest.importorskip("torch")

import torch
from torch import nn
from torch._dynamo.testing import CompileCounterWithBackend

from tests.torch.models import MODELS, LanguageModel, Model, next_tokens
from tests.torch.training import Trained, Trainer, meter_step, same, train

MIB = 2**20
GRAPHS = dict.fromkeys(MODELS, 1)
GRAPHS["lstm"] = 0  # Dynamo runs a function that calls nn.LSTM uncompiled, all of it
GRAPHS["gan"] = 3  # one of the generator, and the discriminator with and without the images' gradients


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.fixture(params=MODELS)
def model(request: pytest.FixtureRequest) -> Model:
    return MODELS[request.param]


def compiled(module: nn.Module) -> nn.Module:
    return torch.compile(module, backend="aot_eager", dynamic=False)


@pytest.mark.heavy
def test_a_seed_decides_all(model: Model) -> None:
    once = train(model, steps=3)
    assert same(once, train(model, steps=3)).difference is None
    assert torch.tensor(once.losses()).isfinite().all()
    _check_each_parameter_learns(once)


def _check_each_parameter_learns(trained: Trained) -> None:
    learns = {
        name
        for step in trained.passes
        for each in step
        for name, gradient in each.gradients.items()
        if gradient is not None and gradient.count_nonzero()
    }
    assert learns == trained.passes[0][-1].gradients.keys()


def test_activations_are_most_of_the_memory(model: Model) -> None:
    parameters = sum(each.nbytes for each in Trainer(model).parameters().values())
    found = meter_step(model)
    assert 30 * MIB < found.peak < 150 * MIB
    # One time the parameters, the peak may hold their gradients.
    assert found.peak >= 4 * parameters
    # The gradients stay, and the losses.
    assert 0 < found.left - parameters < 100


@pytest.mark.heavy
def test_compiled_it_trains_the_same(model: Model) -> None:
    counter = CompileCounterWithBackend("aot_eager")

    def wrap(module: nn.Module) -> nn.Module:
        whole = model.name != "lstm"  # then a break in the graph is an error
        return torch.compile(module, backend=counter, dynamic=False, fullgraph=whole)

    assert same(train(model, steps=2), train(model, wrap, steps=2)).difference is None
    assert counter.frame_count == GRAPHS[model.name]


def short_lstm(dropout: float) -> Model:
    def make() -> dict[str, nn.Module]:
        module = LanguageModel(64, 32)
        module.lstm.dropout = dropout
        return {"model": module}

    return replace(MODELS["lstm"], make=make, inputs=lambda seed: next_tokens(seed, 4, 6, 64))


def test_an_lstm_that_dynamo_traces_loses_the_dropout_between_its_layers() -> None:
    """What ``allow_rnn`` lets through, AOTAutograd writes out by a function that sets the dropout to 0 first
    (torch/_decomp/decompositions.py, _rnn_helper). Without dropout the two differ by rounding, as oneDNN
    computes an LSTM in another order, and not at all without oneDNN.
    """
    by_onednn = train(short_lstm(0.0), steps=2)
    with torch._dynamo.config.patch(allow_rnn=True), torch.backends.mkldnn.flags(enabled=False):
        traced = train(short_lstm(0.2), compiled, steps=2)
        assert not same(train(short_lstm(0.2), steps=2), traced)
        assert same(train(short_lstm(0.0), steps=2), traced).difference is None
    assert not same(by_onednn, traced)


def test_the_first_difference_is_named() -> None:
    model = MODELS["lstm"]
    a, b, other = train(model, steps=2), train(model, steps=2), train(model, steps=2, seed=1)
    assert (same(a, other).difference or "").startswith("step 0, loss 0: 1 of 1 elements differ")
    b.state["model.head.bias"][3] += 1
    found = same(a, b).difference or ""
    assert found.startswith("at the end, model.head.bias: 1 of 512 elements differ, by up to 1")
    gradients = b.passes[1][0].gradients
    gradients["model.token.weight"].copy_(-gradients["model.token.weight"])  # 0 becomes -0 too
    count = gradients["model.token.weight"].numel()
    found = same(a, b).difference or ""
    assert found.startswith(f"step 1, loss 0, gradient of model.token.weight: {count} of {count}")
    gradients["model.token.weight"] = None
    assert same(a, b).difference == "step 1, loss 0, gradient of model.token.weight: only one has it"
    assert same(a, train(model, steps=1)).difference == "2 and 1 steps"
