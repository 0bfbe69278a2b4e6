"""Translate the kernels into LLVM's language, with numba.

``python -m checkmate.solvers.compile.translate FILE``; without FILE, the kept translation is written anew.
numba compiles a function for the types that it is called with: here those of an example for each annotation.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path
from types import FunctionType
from typing import Any, get_type_hints

import numpy as np
from llvmlite import binding
from numpy.typing import NDArray

from checkmate.ir import GraphBuilder
from checkmate.solvers.addresses import allocator_kernels
from checkmate.solvers.chain import kernel
from checkmate.solvers.chain.chain_solver import tiny_table
from checkmate.solvers.compile.cache import KEPT, source_key
from checkmate.solvers.compile.jit import Kernel, Marks, marks_of
from checkmate.solvers.compile.machine_code import Optimization, Translation, slot_types
from checkmate.solvers.sequence import anneal, drops, edit
from checkmate.solvers.sequence.kernel_arrays import Model, State, build_model, new_state

# The modules with kernels that Python calls. The rest is found by following the calls.
_MODULES = (edit, drops, anneal, kernel, allocator_kernels)
# Settings that numba reads when it is imported: what it makes is optimized here, all kernels at once.
NUMBA = {"NUMBA_OPT": "0", "NUMBA_LOOP_VECTORIZE": "0", "NUMBA_SLP_VECTORIZE": "0"}


def translate() -> Translation:
    translator = _Translator()
    module, wrappers = binding.parse_assembly(""), []
    entries = [
        found
        for module in _MODULES
        for found in vars(module).values()
        if isinstance(found, Kernel) and found.plain.__module__ == module.__name__
    ]
    for entry in entries:
        text, name = translator.text(entry.plain)
        module.link_in(binding.parse_assembly(text))
        wrappers.append(_wrapper(entry.name, module.get_function(name)))
    module.link_in(binding.parse_assembly("\n".join(wrappers)))
    types = {entry.name: slot_types(translator.examples(entry.plain)) for entry in entries}
    for symbol in [*module.functions, *module.global_variables]:
        if not symbol.is_declaration and symbol.name not in types:
            symbol.linkage = "internal"
    Optimization(this_processor=False).run(module)
    return Translation(source_key(), types, module.as_bitcode())


def _wrapper(name: str, function: Any) -> str:
    """Return a function that calls ``function`` with what is in slots of eight bytes.

    Slot 0 receives the result. numba writes to slot 1 if there is an error; kernels raise none.
    """
    types = [str(argument.type) for argument in function.arguments]
    loads = [
        f"%p{i} = getelementptr i64, ptr %s, i64 {i}\n%v{i} = load {kind}, ptr %p{i}"
        for i, kind in enumerate(types[2:], 2)
    ]
    given = ", ".join(["ptr %s", "ptr %e", *(f"{kind} %v{i}" for i, kind in enumerate(types[2:], 2))])
    return (
        f"declare i32 @{function.name}({', '.join(types)})\n"
        f'define void @"{name}"(ptr %s) {{\n%e = getelementptr i64, ptr %s, i64 1\n'
        + "\n".join(loads)
        + f"\n%r = call i32 @{function.name}({given})\nret void\n}}\n"
    )


class _Translator:
    """Translates each kernel once, after those that it calls."""

    def __init__(self) -> None:
        self._made: dict[Any, Any] = {}
        self._examples = _examples()

    def text(self, plain: Any) -> tuple[str, str]:
        made = self._kernel(plain)
        [(types, compiled)] = made.overloads.items()
        return made.inspect_llvm(types), compiled.fndesc.llvm_func_name

    def examples(self, plain: Any) -> tuple[Any, ...]:
        hints = get_type_hints(plain)
        hints.pop("return", None)
        given = self._examples
        own = [f"{plain.__name__}.{name}" for name in hints]
        return tuple(
            given[name] if name in given else given[hint]
            for name, hint in zip(own, hints.values(), strict=True)
        )

    def _kernel(self, plain: Any) -> Any:
        if plain not in self._made:
            import numba
            from numba.core.cpu import CPUTargetOptions

            called = {name: self._kernel(needed) for name, needed in _called(plain)}
            function = FunctionType(plain.__code__, {**plain.__globals__, **called})
            marks: Marks = plain.kernel_marks
            # Kernels allocate nothing, and every array they are passed outlives the call, so references need
            # no counting. numba would count them with locked instructions at each access to a field, which
            # took half of the search's time. The option has no public name yet.
            uncounted = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}
            self._made[plain] = made = numba.njit(
                nogil=True,
                error_model="numpy",
                inline="always" if marks.inlined else "never",
                fastmath={"reassoc", "nnan", "nsz"} if marks.sums else False,
                no_cfunc_wrapper=True,
                no_cpython_wrapper=True,
                **uncounted,
            )(function)
            if not marks.inlined:
                made.compile(tuple(map(numba.typeof, self.examples(plain))))
                made.disable_compile()  # else a call with other types would be translated again
        return self._made[plain]


def _examples() -> dict[Any, Any]:
    tiny = GraphBuilder()
    tiny.op("a", (), (tiny.value("a", 2),), cost=1.0)
    model, chain = build_model(tiny.build()).model, tiny_table()
    row, table = np.zeros(1, np.int64), np.zeros((1, 1), np.int64)
    return {
        int: 0,
        float: 0.0,
        NDArray[np.int64]: row,
        Model: model,
        State: new_state(model, steps=1, seed=0),
        drops.Scores: drops.new_scores(model),
        kernel.Sizes: chain.sizes,
        "fill.costs": chain.costs,
        "fill.least": chain.least_slots(),
        allocator_kernels.Memory: allocator_kernels.new_memory(None, 1),
        allocator_kernels.Requests: allocator_kernels.Requests(row, row, table, row, table, row, row),
        allocator_kernels.Work: allocator_kernels.Work(table, table, row, row),
    }


def _called(plain: Any) -> Iterator[tuple[str, Any]]:
    for name in plain.__code__.co_names:
        found = plain.__globals__.get(name)
        if marks_of(found) is not None:
            yield name, found.plain if isinstance(found, Kernel) else found


def main() -> int:
    os.environ.update(NUMBA)
    path = Path(sys.argv[1]) if len(sys.argv) > 1 else KEPT
    path.write_bytes(translate().packed())
    return 0


if __name__ == "__main__":
    sys.exit(main())
