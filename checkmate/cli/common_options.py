"""Options that several commands share, and the values that their texts mean."""

from __future__ import annotations

import argparse
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from checkmate.errors import one_line
from checkmate.machine.device_memory import is_device
from checkmate.progress import Report
from checkmate.request import ModelRequest, Target, parse_shape
from checkmate.terminal import Interrupt
from checkmate.units import Budget, parse_budget, parse_bytes, parse_overhead

if TYPE_CHECKING:
    from checkmate.solvers.problem import SolveOptions

ALLOW_CODE_HELP = "allow the model's own code to run; use it only for a file that you trust"
_DIGITS = 18  # of a whole number; nothing is counted with more
ALLOWED_HELP = "the extra cost allowed: 5%%, 0.05 or any (default: one extra forward pass)"
GRAPH_HELP = "a graph file, a bundled graph's name, or paper.NAME (a network of the paper)"


def typed(convert: Callable[[str], Any]) -> Callable[[str], Any]:
    """Make ``convert``'s ValueError argparse's one-sentence error."""

    def converted(text: str) -> Any:
        try:
            return convert(text)
        except ValueError as error:
            raise argparse.ArgumentTypeError(one_line(str(error))) from None

    return converted


budget: Callable[[str], Budget] = typed(parse_budget)
size_in_bytes: Callable[[str], int] = typed(parse_bytes)
overhead: Callable[[str], float] = typed(parse_overhead)
shape: Callable[[str], tuple[int, ...]] = typed(parse_shape)


@typed
def fixed_budget(text: str) -> int:
    parsed = parse_budget(text)
    if parsed.bytes_ is None:
        raise ValueError(f"{text!r} depends on the batch; write the budget as a size, like 16GiB")
    return int(parsed.bytes_)


@typed
def positive(text: str) -> int:
    if _parse_whole(text) < 1:
        raise ValueError(f"{text!r} is not a whole number of at least 1")
    return int(text)


@typed
def seconds(text: str) -> float:
    value = _number(text)
    if not 0 < value < 1e9:
        raise ValueError(f"{text!r} is not a number of seconds")
    return value


@typed
def fraction(text: str) -> float:
    value = _number(text)
    if not 0 <= value < 1:
        raise ValueError(f"{text!r} is not a fraction; write it like 0.01")
    return value


@typed
def share(text: str) -> float:
    value = _number(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    if not 0 <= value < 1:
        raise ValueError(f"{text!r} is not a share; write it like 1% or 0.01")
    return value


def _parse_whole(text: str) -> int:
    return int(text) if text.isdecimal() and len(text) <= _DIGITS else -1


def _number(text: str) -> float:
    try:
        return float(text)
    except ValueError:
        return -1.0


def bundled_or_given(text: str) -> str:
    """Return the file of the bundled graph called ``text``; any other text as it is."""
    from checkmate.catalog.bundled import find_graph

    return text if Path(text).exists() else str(find_graph(text) or text)


@typed
def device(text: str) -> str:
    if not is_device(text):
        raise ValueError(f"{text!r} is not a device; write cpu, gpu or gpu:1")
    return text


@typed
def window_size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if _parse_whole(width) < 1 or _parse_whole(height) < 1:
        raise ValueError(f"{text!r} is not a window size; write it like 1600x1000")
    return int(width), int(height)


def add_model(parser: argparse.ArgumentParser, *, any_device: bool = True) -> None:
    parser.add_argument(
        "model",
        metavar="MODEL",
        help="a .keras or .h5 file, keras.applications.NAME, a sample (checkmate list models), or "
        "file.py:function, which returns a model, or a training step and an example of its arguments",
    )
    parser.add_argument(
        "-b",
        "--batch-size",
        type=positive,
        help="examples per step (default 32, or those of the example that comes with a step)",
    )
    add_training(parser, any_device=any_device)
    add_target(parser)


def add_target(
    parser: argparse.ArgumentParser, default: str = "XLA for a model compiled with jit_compile=True"
) -> None:
    """``default``: what the help says of a step without the option."""
    parser.add_argument(
        "--target",
        choices=[target.value for target in Target],
        help=f"what runs the step: TensorFlow's executor, or XLA (default: {default})",
    )


def add_training(parser: argparse.ArgumentParser, *, any_device: bool = True) -> None:
    parser.add_argument(
        "--loss", help="Keras loss (default: the model's own, else chosen by its outputs' activations)"
    )
    parser.add_argument("--optimizer", help="Keras optimizer (default: the model's own, else adam)")
    parser.add_argument("--input-shape", type=shape, help="input shape without the batch, e.g. 224,224,3")
    if any_device:
        parser.add_argument(
            "--device",
            type=device,
            metavar="cpu|gpu|gpu:N",
            help="cpu, gpu or gpu:NUMBER (default: the first GPU if TensorFlow sees one)",
        )
    parser.add_argument(
        "--mixed-precision", metavar="POLICY", help="dtype policy: mixed_float16 or mixed_bfloat16"
    )
    parser.add_argument("--allow-code", action="store_true", help=ALLOW_CODE_HELP)


def add_solver(parser: argparse.ArgumentParser, *, limit_s: float) -> None:
    parser.add_argument(
        "--solver", default="auto", help="the solver, see: checkmate list solvers (default auto)"
    )
    parser.add_argument(
        "--engine",
        default="HiGHS",
        help="for --solver milp and lp-rounding: the program that PuLP calls, such as GUROBI (default HiGHS)",
    )
    parser.add_argument(
        "--time-limit", type=seconds, default=limit_s, help=f"time limit in seconds (default {limit_s:g})"
    )
    parser.add_argument(
        "--gap", type=fraction, default=0.0, help="stop when the proved gap is this small, e.g. 0.01 for 1 %%"
    )
    add_resources(parser)
    parser.add_argument("--no-gradient-recompute", action="store_true", help="run backward ops only once")


def add_resources(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--workers", type=positive, default=1, help="use at most this many cores (default 1)")
    parser.add_argument("--seed", type=int, default=0, help="seed for all random choices (default 0)")


def model_request(options: argparse.Namespace) -> ModelRequest:
    from checkmate.arguments import request_of

    return request_of(
        options.model,
        batch_size=options.batch_size,
        loss=options.loss,
        optimizer=options.optimizer,
        input_shape=options.input_shape,
        mixed_precision=options.mixed_precision,
        device=getattr(options, "device", None),  # assert counts for any
        allow_code=options.allow_code,
        target=getattr(options, "target", None),  # max-batch is for the executor alone
    )


def solve_options(options: argparse.Namespace) -> SolveOptions:
    from checkmate.solvers.problem import SolveOptions

    return SolveOptions(
        time_limit_s=options.time_limit,
        gap=options.gap,
        workers=options.workers,
        seed=options.seed,
        recompute_gradients=not options.no_gradient_recompute,
        engine=options.engine,
    )


def search_options(options: argparse.Namespace) -> SolveOptions:
    """--gap and --moves count where a command has them."""
    from checkmate.solvers.problem import SolveOptions

    return SolveOptions(
        time_limit_s=options.time_limit,
        workers=options.workers,
        seed=options.seed,
        gap=getattr(options, "gap", 0.0),
        moves=getattr(options, "moves", None),
    )


def search_arguments(options: argparse.Namespace, report: Report, interrupt: Interrupt) -> dict[str, Any]:
    """Return the arguments of a search for sizes within an extra cost."""
    return {
        "max_overhead": options.max_overhead,
        "options": search_options(options),
        "report": report,
        "cancelled": interrupt,
    }


def describe(
    parser: argparse.ArgumentParser,
    run: Callable[[argparse.Namespace, Interrupt], int],
    description: str = "",
    *,
    example: str = "",
    tensorflow: bool = False,
) -> None:
    """Say what a command does, and that ``run`` does it.

    ``tensorflow``: whether it may run TensorFlow, so that TensorFlow's own messages are kept off the screen.
    """
    parser.description = description or parser.description
    parser.epilog = f"Example: {example}" if example else None
    parser.set_defaults(command=run, tensorflow=tensorflow)


def add_graph(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("graph", type=Path, metavar="G.json", help=GRAPH_HELP)


def add_time_limit(parser: argparse.ArgumentParser, limit_s: float, what: str) -> None:
    """``what``: what the time limit is for, in words."""
    parser.add_argument("--time-limit", type=seconds, default=limit_s, help=f"{what} (default {limit_s:g})")


def add_max_overhead(parser: Any, help: str) -> None:
    parser.add_argument("--max-overhead", type=overhead, metavar="X", help=help)


def add_reserve(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--reserve",
        type=size_in_bytes,
        metavar="SIZE",
        help="what of each card is not there for the step: error correction, driver, CUDA and TensorFlow "
        "(default 2.75GiB, an estimate)",
    )


def add_costs(parser: argparse.ArgumentParser) -> None:
    add = parser.add_argument
    add(
        "--costs",
        choices=("measured", "analytic"),
        default="measured",
        help="measured: time every op (default); analytic: count operations",
    )
    add(
        "--refresh",
        action="store_true",
        help="measure all costs again, even those that are in the cost cache",
    )
