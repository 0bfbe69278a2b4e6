"""Train a model, keep all that a step computes, and say where two trainings differ first."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from tests.torch.meter import Metered, meter
from tests.torch.models import Inputs, Model

Wrap = Callable[[nn.Module], nn.Module]


def unwrapped(module: nn.Module) -> nn.Module:
    return module


@dataclass(frozen=True)
class Pass:
    """One backward pass: its loss and the gradients after it, by the name of the parameter."""

    loss: Tensor
    gradients: dict[str, Tensor | None]


@dataclass(frozen=True)
class Trained:
    passes: tuple[tuple[Pass, ...], ...]  # of each step
    state: dict[str, Tensor]  # parameters and buffers at the end, by name

    def losses(self) -> list[float]:
        return [each.loss.item() for step in self.passes for each in step]


class Trainer:
    """A model under training; what ``wrap`` makes of its modules is called, and the modules are updated."""

    def __init__(self, model: Model, wrap: Wrap = unwrapped, seed: int = 0) -> None:
        torch.manual_seed(seed)
        self._model, self._modules = model, model.make()
        self._called = {name: wrap(module) for name, module in self._modules.items()}
        self._optimizers = {n: model.optimizer(m.parameters()) for n, m in self._modules.items()}

    def step(self, inputs: Inputs) -> Iterator[Tensor]:
        """Yield each loss after its backward pass and before the update."""
        for name, loss in self._model.step(self._called, inputs):
            self._optimizers[name].zero_grad()
            loss.backward()
            yield loss.detach()
            self._optimizers[name].step()

    def forget_gradients(self) -> None:
        for module in self._modules.values():
            module.zero_grad()

    def parameters(self) -> dict[str, nn.Parameter]:
        return {f"{n}.{k}": p for n, m in self._modules.items() for k, p in m.named_parameters()}

    def state(self) -> dict[str, Tensor]:
        buffers = {f"{n}.{k}": b for n, m in self._modules.items() for k, b in m.named_buffers()}
        return self.parameters() | buffers


def train(model: Model, wrap: Wrap = unwrapped, steps: int = 5, seed: int = 0) -> Trained:
    """The same seed gives the same weights, inputs and draws."""
    trainer = Trainer(model, wrap, seed)
    parameters = trainer.parameters()
    passes = tuple(
        tuple(
            Pass(loss.clone(), {name: _copy(each.grad) for name, each in parameters.items()})
            for loss in trainer.step(model.inputs(seed + i))
        )
        for i in range(steps)
    )
    return Trained(passes, {name: each.detach().clone() for name, each in trainer.state().items()})


def meter_step(model: Model, wrap: Wrap = unwrapped, seed: int = 0) -> Metered:
    """What a training step holds besides weights, the optimizer's state and inputs.

    The step before it compiles what ``wrap`` compiles and makes the optimizer's state. Its gradients are
    freed first, which the meter would not see.
    """
    trainer, inputs = Trainer(model, wrap, seed), model.inputs(seed)
    for _ in trainer.step(inputs):
        pass
    trainer.forget_gradients()
    return meter(lambda: list(trainer.step(inputs)))


@dataclass(frozen=True)
class Sameness:
    """Whether two trainings are equal bit by bit; where not, ``difference`` names the first."""

    difference: str | None

    def __bool__(self) -> bool:
        return self.difference is None


def same(a: Trained, b: Trained) -> Sameness:
    return Sameness(next(_differences(a, b), None))


def _differences(a: Trained, b: Trained) -> Iterator[str]:
    """In the order in which training computes them."""
    if len(a.passes) != len(b.passes):
        yield f"{len(a.passes)} and {len(b.passes)} steps"
    for i, (one_step, other_step) in enumerate(zip(a.passes, b.passes, strict=False)):
        if len(one_step) != len(other_step):
            yield f"step {i}: {len(one_step)} and {len(other_step)} losses"
        for j, (one, other) in enumerate(zip(one_step, other_step, strict=False)):
            yield from _different(f"step {i}, loss {j}", {"": one.loss}, {"": other.loss})
            yield from _different(f"step {i}, loss {j}, gradient of ", one.gradients, other.gradients)
    yield from _different("at the end, ", a.state, b.state)


def _different(what: str, a: Mapping[str, Tensor | None], b: Mapping[str, Tensor | None]) -> Iterator[str]:
    for name in {**a, **b}:
        found = _difference(a.get(name), b.get(name))
        if found:
            yield f"{what}{name}: {found}"


def _difference(a: Tensor | None, b: Tensor | None) -> str | None:
    if a is None or b is None:
        return None if a is b else "only one has it"
    if (a.shape, a.dtype) != (b.shape, b.dtype):
        return f"{a.dtype} {tuple(a.shape)} and {b.dtype} {tuple(b.shape)}"
    # Bytes tell 0 from -0, and a NaN is equal to itself.
    unlike = (_bytes(a) != _bytes(b)).any(-1)
    if not unlike.any():
        return None
    gap = (a.double() - b.double()).abs().max().item()
    return f"{int(unlike.sum())} of {a.numel()} elements differ, by up to {gap:.3g}"


def _bytes(tensor: Tensor) -> Tensor:
    """Each element's, in the last dimension."""
    flat = tensor.detach().cpu().contiguous().reshape(-1, 1)
    return flat.view(torch.uint8)


def _copy(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.clone()
