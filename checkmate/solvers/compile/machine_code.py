"""Make machine code from the kernels' translation, and call it.

The translation holds for every processor; here it is optimized for this one, by LLVM alone. That takes about
a second, and the result stays in the user's cache, which ``python -m checkmate.solvers.compile.machine_code``
fills.
"""

from __future__ import annotations

import ctypes
import json
import lzma
import struct
import subprocess
import tempfile
from array import array
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from llvmlite import binding

from checkmate.processes.children import module_command
from checkmate.solvers.compile.cache import KEPT, machine_code_file, read_whole, source_key, write_whole

_RESULT = 2  # slots before the first argument: the result, and numba's note of an error


@dataclass(frozen=True)
class Translation:
    """The kernels in LLVM's language. ``types``: the slots of those that Python calls."""

    key: str
    types: dict[str, str]
    bitcode: bytes

    def packed(self) -> bytes:
        header = json.dumps({"key": self.key, "types": self.types}).encode()
        return lzma.compress(header + b"\n" + self.bitcode)

    @classmethod
    def kept(cls, path: Path | None = None) -> Translation | None:
        """The one in ``path``, or the kept one; None if it is of other sources, or cannot be read."""
        try:
            header, _, bitcode = lzma.decompress((path or KEPT).read_bytes()).partition(b"\n")
        except (OSError, lzma.LZMAError):
            return None
        found = cls(**json.loads(header), bitcode=bitcode)
        return found if found.key == source_key() else None


class Optimization:
    """Optimize for this processor, or for any of this machine's kind, without vectors."""

    def __init__(self, *, this_processor: bool = True) -> None:
        binding.initialize_native_target()
        binding.initialize_native_asmprinter()
        processor, features = "", ""
        if this_processor:
            processor, features = binding.get_host_cpu_name(), binding.get_host_cpu_features().flatten()
        target = binding.Target.from_triple(binding.get_process_triple())
        self.machine = target.create_target_machine(
            cpu=processor, features=features, opt=3, reloc="static", codemodel="jitdefault", jit=True
        )
        self._options = binding.create_pipeline_tuning_options(speed_level=3)
        self._options.loop_vectorization = self._options.loop_interleaving = this_processor
        # These make the search no faster, and compiling by half slower.
        self._options.slp_vectorization = self._options.loop_unrolling = False

    def run(self, module: Any) -> None:
        builder = binding.create_pass_builder(self.machine, self._options)
        builder.getModulePassManager().run(module, builder)


def make() -> bytes:
    """Return the kernels' types and machine code; sources that have changed are translated again."""
    translation = Translation.kept() or _translated_again()
    optimization = Optimization()
    module = binding.parse_bitcode(translation.bitcode)
    module.triple, module.data_layout = binding.get_process_triple(), str(optimization.machine.target_data)
    optimization.run(module)
    code: bytes = optimization.machine.emit_object(module)
    return json.dumps(translation.types).encode() + b"\n" + code


def _translated_again() -> Translation:
    # In a process: numba reads its settings when it is imported, and stays in memory.
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / KEPT.name
        command = module_command("checkmate.solvers.compile.translate", str(path))
        done = subprocess.run(command, capture_output=True, text=True)
        translation = Translation.kept(path)
    if translation is None:
        raise RuntimeError(f"the kernels could not be translated: {done.stderr[-300:]}")
    return translation


class MachineCode:
    def __init__(self, made: bytes) -> None:
        types, _, code = made.partition(b"\n")
        self._types: dict[str, str] = json.loads(types)
        machine = Optimization().machine
        self._engine = binding.create_mcjit_compiler(binding.parse_assembly(""), machine)
        self._engine.add_object_file(binding.ObjectFileRef.from_data(code))
        self._engine.finalize_object()

    def function(self, name: str) -> Callable[..., int]:
        """Return a kernel as a function of numbers, arrays and tuples of arrays."""
        wanted, engine = self._types[name], self._engine
        call = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(engine.get_function_address(name))

        def run(*arguments: Any, engine: Any = engine) -> int:  # the engine's end would free the code
            given = slot_types(arguments)
            if given != wanted:
                raise TypeError(f"{name} was called with {given} instead of {wanted}")
            slots = array("q", [0] * _RESULT)
            for value in _leaves(arguments):
                slots.extend(_slots(value))
            call(slots.buffer_info()[0])
            return slots[0]

        return run


@cache
def machine_code() -> MachineCode:
    """Return the kernels; compile them if the cache does not have them."""
    made = read_whole(machine_code_file())
    if made is None:
        made = make()
        write_whole(machine_code_file(), made)
    return MachineCode(made)


def slot_types(arguments: tuple[Any, ...]) -> str:
    return " ".join([_type(value) for value in _leaves(arguments)])


def _leaves(arguments: tuple[Any, ...]) -> Iterator[Any]:
    for value in arguments:
        if isinstance(value, tuple):
            yield from value
        else:
            yield value


def _type(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"{value.dtype.char}{value.ndim}" if value.flags.c_contiguous else "strided"
    return "float" if isinstance(value, float) else "int"


def _slots(value: Any) -> tuple[int, ...]:
    # As numba passes them: an array is two unused owner pointers, then its facts.
    if isinstance(value, np.ndarray):
        address: int = value.__array_interface__["data"][0]
        return (0, 0, value.size, value.itemsize, address, *value.shape, *value.strides)
    return struct.unpack("q", struct.pack("d", value)) if isinstance(value, float) else (int(value),)


if __name__ == "__main__":
    write_whole(machine_code_file(), make())
