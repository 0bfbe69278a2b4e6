"""Test what a user is told whose call or model is unusual, and that training goes on and stays the same.

Plans are measured in processes of their own, which takes seconds. What needs no other region than ``Net``
finds its plan in a folder that a fixture fills once.
"""

from __future__ import annotations

import copy
import io
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from torch import Tensor, nn
from torch.optim import SGD
from torch.utils.checkpoint import checkpoint

import checkmate
import checkmate.torch
from checkmate.backends.torch import emission, graph
from checkmate.backends.torch.joint import is_random
from checkmate.errors import (
    BudgetBelowMinimumError,
    InfeasibleError,
    SolverUnavailableError,
    TraceError,
    UsageError,
)
from checkmate.training.torch_module import Backend
from tests.torch.small_modules import OddDraws

BUDGET = "90%"
OPTIONS = checkmate.SolveOptions(time_limit_s=0.3)


class Net(nn.Sequential):
    def __init__(self, seed: int = 0, dropout: float = 0.0) -> None:
        torch.manual_seed(seed)
        super().__init__(
            nn.Linear(16, 64),
            nn.GELU(),
            nn.Dropout(dropout),
            nn.Linear(64, 64),
            nn.GELU(),
            nn.Linear(64, 16),
        )


def batch(size: int = 32, seed: int = 1) -> Tensor:
    return torch.randn(size, 16, generator=torch.Generator().manual_seed(seed))


def compiled(module: nn.Module, budget: Any = BUDGET, **options: Any) -> tuple[nn.Module, Backend]:
    found = checkmate.torch.backend(budget, options=OPTIONS, **options)
    return torch.compile(module, backend=found, dynamic=False), found


def gradients(module: nn.Module) -> list[Tensor | None]:
    return [each.grad for each in module.parameters()]


def stepped(module: nn.Module, *inputs: Any, seed: int = 3) -> list[Tensor | None]:
    """The loss of a step, its gradients, and what is drawn next."""
    module.zero_grad()
    torch.manual_seed(seed)
    loss = module(*inputs).square().mean()
    loss.backward()
    return [loss.detach(), *(None if g is None else g.clone() for g in gradients(module)), torch.rand(2)]


def equal(one: list[Tensor | None], two: list[Tensor | None]) -> bool:
    return len(one) == len(two) and all(
        a is b if a is None or b is None else torch.equal(a, b) for a, b in zip(one, two, strict=True)
    )


def sentences(capsys: pytest.CaptureFixture[str]) -> list[str]:
    """What was said of regions, without progress."""
    lines = capsys.readouterr().err.splitlines()
    return [line.removeprefix("checkmate: ") for line in lines if line.startswith("checkmate: ")]


def unplanned(why: str, way_out: str = "") -> str:
    rest = f" To change that, {way_out}." if way_out else ""
    return f"this step cannot be scheduled: {why}. It trains as before.{rest}"


@pytest.fixture(scope="module", autouse=True)
def _kept_plans(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        torch._dynamo.reset()
        stepped(compiled(Net(), quiet=True)[0], batch())
        yield


@pytest.fixture(autouse=True)
def _nothing_compiled() -> Iterator[None]:
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


@pytest.mark.parametrize("given", [3, "net", Net, lambda x: x, None])
def test_what_is_no_module(given: Any) -> None:
    with pytest.raises(UsageError, match=r"^.* is no torch\.nn\.Module\n"):
        checkmate.torch.rematerialize(given, "60%")


@pytest.mark.parametrize(
    ("budget", "said"),
    [
        (0, "a budget of 0 leaves no memory at all"),
        ("-5%", "a budget of -5% is not positive; write it like "),
        ("200%", "a budget of 200% is more than keeping everything takes; write 100% or less"),
        (1.5, "1.5 is neither a size nor a share; write 1.5GiB"),
        ("much", "cannot read 'much' as a budget; write it like "),
        (None, "cannot read 'None' as a budget; write it like "),
    ],
)
def test_a_budget_that_is_none(budget: Any, said: str) -> None:
    with pytest.raises(UsageError, match=f"^{re.escape(said)}") as caught:
        checkmate.torch.rematerialize(Net(), budget)
    assert len(str(caught.value).splitlines()) == 1


def test_arguments_that_are_not_known() -> None:
    with pytest.raises(SolverUnavailableError, match=r"^there is no solver 'best'\n"):
        checkmate.torch.backend("60%", solver="best")
    with pytest.raises(UsageError, match=r"^options=3 are no checkmate\.SolveOptions\n"):
        checkmate.torch.backend("60%", options=3)  # type: ignore[arg-type]
    with pytest.raises(UsageError, match=r"^on_miss='stop' is not known\n"):
        checkmate.torch.backend("60%", on_miss="stop")  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="deadline"):
        checkmate.torch.rematerialize(Net(), "60%", deadline=3)


def test_the_backend_by_itself_says_what_it_found(capsys: pytest.CaptureFixture[str]) -> None:
    found = checkmate.torch.backend(BUDGET, options=OPTIONS)
    module = torch.compile(Net(), backend=found, dynamic=False)
    assert equal(stepped(module, batch()), stepped(Net(), batch()))
    (plan,), (sentence,) = found.plans, sentences(capsys)
    assert sentence == plan.sentence
    assert re.match(r"region of 17 ops: measured peak [\d.,]+ K?i?B of [\d.,]+ K?i?B \(plain ", sentence)
    assert sentence.endswith("gradients equal to the bit; from an earlier run's plan")


def test_options_for_other_backends(capsys: pytest.CaptureFixture[str]) -> None:
    found = checkmate.torch.backend(BUDGET, options=OPTIONS)
    module = torch.compile(Net(), backend=found, dynamic=False, mode="max-autotune")
    assert equal(stepped(module, batch()), stepped(Net(), batch()))
    assert sentences(capsys)[0] == "torch.compile(mode=…) is for PyTorch's own backends, and is not used here"


def test_a_module_that_is_compiled_already() -> None:
    for module in (torch.compile(Net()), checkmate.torch.rematerialize(Net(), BUDGET)):
        with pytest.raises(UsageError, match=r"^the module is compiled already\n"):
            checkmate.torch.rematerialize(module, BUDGET)


def test_a_module_where_nothing_is_traced(capsys: pytest.CaptureFixture[str]) -> None:
    hooked = Net()
    hooked[0].register_full_backward_hook(lambda module, of_inputs, of_outputs: None)
    module = checkmate.torch.rematerialize(hooked, BUDGET)
    with torch.no_grad():
        module(batch())
    assert sentences(capsys) == []
    for _ in range(2):
        assert equal(stepped(module, batch()), stepped(Net(), batch()))
    (sentence,) = sentences(capsys)
    assert sentence.startswith("torch.compile traced nothing of Net that has gradients: nothing is planned")


class Counting(Net):
    """Its count is a constant of what is traced, so every call is traced by itself."""

    count = 0

    def forward(self, x: Tensor) -> Tensor:
        self.count += 1
        return super().forward(x)


def test_what_is_traced_again_is_not_told_of_again(capsys: pytest.CaptureFixture[str]) -> None:
    module, found = compiled(Counting())
    for _ in range(3):
        assert equal(stepped(module, batch()), stepped(Net(), batch()))
    assert len(found.plans) == 3
    assert sentences(capsys) == [found.plans[0].sentence]


def test_a_module_is_copied_and_saved_after_a_step() -> None:
    module = checkmate.torch.rematerialize(Net(), BUDGET, options=OPTIONS, quiet=True)
    wanted = stepped(module, batch())
    saved = io.BytesIO()
    torch.save(module, saved)
    saved.seek(0)
    for other in (copy.deepcopy(module), torch.load(saved, weights_only=False)):
        assert equal(stepped(other, batch()), wanted)
        assert equal(stepped(module, batch()), wanted)


def test_quiet_says_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    module = checkmate.torch.rematerialize(Net(), BUDGET, options=OPTIONS, quiet=True)
    assert equal(stepped(module, batch()), stepped(Net(), batch()))
    assert capsys.readouterr().err == ""


def test_without_gradients_there_is_nothing_to_plan(capsys: pytest.CaptureFixture[str]) -> None:
    module, found = compiled(Net())
    with torch.no_grad():
        assert torch.equal(module(batch()), Net()(batch()))
    with torch.inference_mode():
        assert torch.equal(module(batch()), Net()(batch()))
    frozen, other = compiled(Net().requires_grad_(False))
    assert torch.equal(frozen(batch()), Net()(batch()))
    assert found.plans == other.plans == sentences(capsys) == []


def test_symbolic_sizes_train_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    found = checkmate.torch.backend(BUDGET)
    module = torch.compile(Net(), backend=found, dynamic=True)
    for size in (32, 17):
        assert equal(stepped(module, batch(size)), stepped(Net(), batch(size)))
    assert found.plans == []
    why = "the sizes of 'primals_3' are known only when the step runs"
    assert sentences(capsys) == [unplanned(why, "compile with dynamic=False, or mark the sizes as static")]


def test_symbolic_sizes_raise_where_that_is_asked_for() -> None:
    found = checkmate.torch.backend(BUDGET, on_miss="raise", quiet=True)
    with pytest.raises(
        torch._dynamo.exc.BackendCompilerFailed, match="known only when the step runs"
    ) as caught:
        torch.compile(Net(), backend=found, dynamic=True)(batch())
    assert isinstance(caught.value.inner_exception, TraceError)


class Sparse(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net, self.table = Net(), nn.Embedding(50, 16, sparse=True)

    def forward(self, ids: Tensor) -> Tensor:
        return self.net(self.table(ids))


def test_sparse_gradients_train_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    ids, one, other = torch.arange(32) % 7, Sparse(), Sparse()
    other.load_state_dict(one.state_dict())
    module, found = compiled(other)
    for each in (one, module):
        each(ids).square().mean().backward()
    a, b = one.table.weight.grad, other.table.weight.grad
    assert a is not None and b is not None and b.is_sparse
    assert torch.equal(a.to_dense(), b.to_dense())
    assert equal(gradients(one.net), gradients(other.net))
    assert found.plans == []
    (sentence,) = sentences(capsys)
    assert sentence.endswith("is a tensor of layout sparse_coo, which is not planned. It trains as before.")


class WritesOver(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Tensor, y: Tensor) -> Tensor:
        x.add_(1)
        y.mul_(2)
        return self.net(x + y.sin())


def test_overlapping_inputs_that_are_written_over_train_plainly(capsys: pytest.CaptureFixture[str]) -> None:
    module, found = compiled(WritesOver())
    states = []
    for each in (WritesOver(), module):
        whole = batch()
        states.append([*stepped(each, whole[:16], whole[8:24]), whole])
    assert equal(*states)
    why = "inputs that share memory are written over, which is not planned"
    assert sentences(capsys) == [unplanned(why, "give the model copies of them")]
    assert found.plans == []


class Constant(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Tensor) -> Tensor:
        return self.net(x[:, list(range(15, -1, -1))])


def test_constants_are_read_in_both_halves() -> None:
    module, found = compiled(Constant(), quiet=True)
    assert equal(stepped(module, batch()), stepped(Constant(), batch()))
    assert [len(plan.region.joint.constants) for plan in found.plans] == [1]


def test_hooks_on_parameters_run() -> None:
    def tripled(parameter: Tensor) -> None:
        assert parameter.grad is not None
        parameter.grad.mul_(3)

    found = []
    for wrap in (lambda module: module, lambda module: compiled(module, quiet=True)[0]):
        module = Net()
        module[0].weight.register_hook(lambda gradient: gradient + 1)
        module[3].weight.register_post_accumulate_grad_hook(tripled)
        found.append(stepped(wrap(module), batch()))
    assert equal(*found)
    assert not equal(found[0], stepped(Net(), batch()))


@pytest.mark.parametrize("written", ["weight", "input"])
def test_what_is_written_over_before_the_backward_pass_is_noticed(written: str) -> None:
    for module in (Net(), compiled(Net(), quiet=True)[0]):
        x = batch()
        loss = module(x).square().mean()
        with torch.no_grad():
            (x if written == "input" else list(module.parameters())[2]).mul_(2)
        with pytest.raises(RuntimeError, match="has been modified by an inplace operation"):
            loss.backward()
        assert gradients(module)[0] is None


def test_the_backward_pass_runs_again_where_the_graph_is_retained() -> None:
    found = []
    for module in (Net(), compiled(Net(), quiet=True)[0]):
        loss = module(batch()).square().mean()
        loss.backward(retain_graph=True)
        loss.backward()
        found.append(gradients(module))
        with pytest.raises(RuntimeError, match="Trying to backward through the graph a second time"):
            loss.backward()
    assert equal(*found)


def test_gradients_accumulate_over_batches() -> None:
    found = []
    for module in (Net(), compiled(Net(), quiet=True)[0]):
        for seed in (1, 2):
            (module(batch(seed=seed)).square().mean() / 2).backward()
        losses = [module(batch(seed=seed)).square().mean() for seed in (3, 4)]  # both forward passes first
        for loss in losses:
            loss.backward()
        found.append(gradients(module))
    assert equal(*found)


@pytest.mark.heavy
def test_a_budget_below_the_least() -> None:
    near, first = compiled(Net(), "1KiB", quiet=True)
    assert equal(stepped(near, batch()), stepped(Net(), batch()))
    (plan,) = first.plans
    assert plan.peak_bytes > plan.budget_bytes == 1024
    assert ", over the budget of 1.00 KiB; raise it to " in plan.sentence
    # The plan that was kept does not keep the budget, so it is no answer here.
    module, found = compiled(Net(), "1KiB", on_miss="raise", quiet=True)
    torch._dynamo.reset()
    with pytest.raises(torch._dynamo.exc.BackendCompilerFailed) as caught:
        module(batch())
    assert isinstance(caught.value.inner_exception, InfeasibleError | BudgetBelowMinimumError)
    assert str(caught.value.inner_exception).startswith("budget 1.00 KiB is below the ")
    assert found.plans == []


class Broken(nn.Module):
    """Dynamo compiles three parts of it, each by itself."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = Net(1), Net(2), Net(3)

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x)
        print("between")
        x = self.b(x) * x.detach().abs().max().item()
        torch._dynamo.graph_break()
        return self.c(x)


@pytest.mark.heavy
def test_each_part_of_a_broken_graph_is_planned(capsys: pytest.CaptureFixture[str]) -> None:
    module, found = compiled(Broken())
    assert equal(stepped(module, batch()), stepped(Broken(), batch()))
    assert len(found.plans) >= 3
    said = capsys.readouterr()
    assert said.out == "between\nbetween\n"
    assert [line[11:] for line in said.err.splitlines() if line.startswith("checkmate: ")] == [
        plan.sentence for plan in found.plans
    ]


@pytest.mark.heavy
def test_each_size_of_a_batch_has_a_plan() -> None:
    module, found = compiled(Net(), quiet=True)
    for size, plans in ((32, 1), (48, 2), (32, 2), (7, 3)):
        assert equal(stepped(module, batch(size)), stepped(Net(), batch(size)))
        assert len(found.plans) == plans


@pytest.mark.heavy
def test_a_schedule_serves_for_other_sizes_of_a_batch(capsys: pytest.CaptureFixture[str]) -> None:
    module, found = compiled(Net(), budget="85%", cache=False)
    for size in (512, 768):
        assert equal(stepped(module, batch(size)), stepped(Net(), batch(size)))
    first, second = found.plans
    assert first.schedule.recomputations
    assert first.schedule.steps.tolist() == second.schedule.steps.tolist()
    assert capsys.readouterr().err.count("solve: solving") == 1


@pytest.mark.heavy
def test_double_backward_is_refused_by_torch() -> None:
    module, x = compiled(Net(), quiet=True)[0], batch().requires_grad_()
    (gradient,) = torch.autograd.grad(module(x).square().mean(), x, create_graph=True)
    with pytest.raises(RuntimeError, match="aot_autograd does not currently support double backward"):
        gradient.sum().backward()


class Hooked(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: Tensor) -> Tensor:
        first, *others = self.net
        x = first(x)
        x.register_hook(lambda gradient: gradient * 2)
        for each in others:
            x = each(x)
        return x


@pytest.mark.heavy
def test_a_hook_on_an_intermediate_runs() -> None:
    wanted = stepped(Hooked(), batch())
    assert equal(stepped(compiled(Hooked(), quiet=True)[0], batch()), wanted)
    assert not equal(wanted, stepped(Net(), batch()))


@pytest.mark.heavy
def test_mixed_precision_with_and_without_a_scaler() -> None:
    for scaled in (False, True):
        found = []
        for module in (Net(), compiled(Net(), quiet=True)[0]):
            optimizer, scaler = SGD(module.parameters(), lr=0.1), torch.amp.GradScaler("cpu", enabled=scaled)
            for _ in range(3):
                optimizer.zero_grad()
                with torch.autocast("cpu", torch.bfloat16):
                    loss = module(batch()).float().square().mean()
                scaler.scale(loss).backward()
                scaler.step(optimizer)
                scaler.update()
            found.append([loss.detach(), *(each.detach() for each in module.parameters())])
        assert equal(*found)


class Checkpointed(nn.Module):
    def __init__(self, reentrant: bool | None) -> None:
        super().__init__()
        self.a, self.b, self.reentrant = Net(1, 0.3), Net(2, 0.3), reentrant

    def forward(self, x: Tensor) -> Tensor:
        x = self.a(x) if self.reentrant is None else checkpoint(self.a, x, use_reentrant=self.reentrant)
        return self.b(x)


@pytest.mark.heavy
@pytest.mark.parametrize("reentrant", [False, True])
def test_checkpoints_are_planned_anew(reentrant: bool) -> None:
    """AOTAutograd traces the checkpointed part once, so the plan decides what of it is computed again."""
    module, found = compiled(Checkpointed(reentrant), quiet=True)
    x = batch().requires_grad_()  # else a reentrant checkpoint computes no gradients
    assert equal(stepped(module, x), stepped(Checkpointed(reentrant), x))
    (plan,) = found.plans
    nodes = plan.region.joint.nodes
    assert sum("aten.gelu.default" in str(node.target) for node in nodes) == 4
    assert sum(map(is_random, nodes)) == 2


@pytest.mark.heavy
@pytest.mark.parametrize("make", [OddDraws, lambda: Net(dropout=0.4)])
def test_draws_outside_of_the_region_are_the_same(make: Callable[[], nn.Module]) -> None:
    found = []
    for wrap in (lambda module: module, lambda module: compiled(module, "min", quiet=True)[0]):
        torch.manual_seed(5)
        module = wrap(make())
        x = torch.randn(60, next(module.parameters()).shape[1])
        torch.manual_seed(6)
        losses = [module(x).square().mean() * torch.rand(()) for _ in range(2)]
        for loss in losses:
            loss.backward(retain_graph=True)
            loss.backward()
        found.append([*losses, *gradients(module), torch.rand(3)])
    assert equal(*found)


def test_recurrent_layers_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    module = nn.Sequential(nn.LSTM(4, 4, num_layers=2))
    checkmate.torch.rematerialize(module, BUDGET)
    (sentence,) = sentences(capsys)
    assert sentence.startswith("torch.compile does not trace nn.LSTM (0)")


@pytest.mark.heavy
def test_a_schedule_with_other_gradients_is_not_trained(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Take draws for computations that can be repeated: the process that measures finds other gradients."""
    for module in (emission, graph):
        monkeypatch.setattr(module, "is_random", lambda node: False)
    net = nn.Sequential(*(nn.Sequential(nn.Linear(16, 16), nn.GELU(), nn.Dropout(0.5)) for _ in range(8)))
    found = checkmate.torch.backend("min", options=OPTIONS, cache=False)
    stepped(torch.compile(net, backend=found, dynamic=False), batch())
    (sentence,) = sentences(capsys)
    assert "gradients of the scheduled step are not the plain step's" in sentence
    assert "It trains as before" in sentence and found.plans == []
