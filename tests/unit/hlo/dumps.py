"""A small training step as XLA would dump it, written by hand, in each form."""

from __future__ import annotations

from collections.abc import Iterable

# Two layers; the second weight's gradient is left out. A result is written over the donated weight.
STEP = """\
HloModule jit_step, is_scheduled=true, input_output_alias={ {0}: (0, {}, may-alias) }, \
entry_computation_layout={(f32[256,256]{1,0}, f32[512,256]{1,0})->(f32[256,256]{1,0}, f32[])}

%sum (a: f32[], b: f32[]) -> f32[] {
  %a = f32[] parameter(0)
  %b = f32[] parameter(1)
  ROOT %add.1 = f32[] add(%a, %b)
}

%tanh_of (p: f32[512,256]) -> f32[512,256] {
  %p = f32[512,256]{1,0} parameter(0)
  ROOT %tanh.1 = f32[512,256]{1,0} tanh(%p), metadata={op_name="jit(step)/jvp(Net)/Dense_0/tanh"}
}

%update (w: f32[256,256], g: f32[256,256]) -> f32[256,256] {
  %w = f32[256,256]{1,0} parameter(0)
  %g = f32[256,256]{1,0} parameter(1)
  ROOT %subtract.1 = f32[256,256]{1,0} subtract(%w, %g), metadata={op_name="jit(step)/sub"}
}

ENTRY %main (weight: f32[256,256], x: f32[512,256]) -> (f32[256,256], f32[]) {
  %weight = f32[256,256]{1,0} parameter(0), metadata={op_name="weight"}
  %x = f32[512,256]{1,0} parameter(1), metadata={op_name="x"}
  %zero = f32[] constant(0)
  %dot.1 = f32[512,256]{1,0} dot(%x, %weight), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(step)/jvp(Net)/Dense_0/dot_general"}
  %fusion.1 = f32[512,256]{1,0} fusion(%dot.1), kind=kLoop, calls=%tanh_of, \
metadata={op_name="jit(step)/jvp(Net)/Dense_0/tanh"}
  %dot.2 = f32[512,256]{1,0} dot(%fusion.1, %weight), lhs_contracting_dims={1}, rhs_contracting_dims={0}, \
metadata={op_name="jit(step)/jvp(Net)/Dense_1/dot_general"}
  %loss = f32[] reduce(%dot.2, %zero), dimensions={0,1}, to_apply=%sum
  %dot.3 = f32[256,256]{1,0} dot(%fusion.1, %dot.2), lhs_contracting_dims={0}, rhs_contracting_dims={0}, \
metadata={op_name="jit(step)/transpose(jvp(Net))/Dense_1/dot_general"}
  %fusion.2 = f32[256,256]{1,0} fusion(%weight, %dot.3), kind=kLoop, calls=%update, \
metadata={op_name="jit(step)/sub"}
  ROOT %tuple.1 = (f32[256,256]{1,0}, f32[]) tuple(%fusion.2, %loss)
}
"""
KIB = 1024
WEIGHT, ACTIVATION = 256 * KIB, 512 * KIB
TABLE, LOSS = 2 * 8, 4  # bytes of the result's tuple, and of a number

LOOP = """\
HloModule jit_loop, is_scheduled=true

%body (c: (s32[], f32[1024], f32[64,1024])) -> (s32[], f32[1024], f32[64,1024]) {
  %c = (s32[], f32[1024]{0}, f32[64,1024]{1,0}) parameter(0)
  %i = s32[] get-tuple-element(%c), index=0
  %h = f32[1024]{0} get-tuple-element(%c), index=1
  %kept = f32[64,1024]{1,0} get-tuple-element(%c), index=2
  %one = s32[] constant(1)
  %zero = s32[] constant(0)
  %row = f32[1,1024]{1,0} bitcast(%h)
  %written = f32[64,1024]{1,0} dynamic-update-slice(%kept, %row, %i, %zero)
  %next = f32[1024]{0} cosine(%h)
  %j = s32[] add(%i, %one)
  ROOT %out = (s32[], f32[1024]{0}, f32[64,1024]{1,0}) tuple(%j, %next, %written)
}

%test (d: (s32[], f32[1024], f32[64,1024])) -> pred[] {
  %d = (s32[], f32[1024]{0}, f32[64,1024]{1,0}) parameter(0)
  %k = s32[] get-tuple-element(%d), index=0
  %most = s32[] constant(64)
  ROOT %less = pred[] compare(%k, %most), direction=LT
}

ENTRY %main (x: f32[1024]) -> f32[64,1024] {
  %x = f32[1024]{0} parameter(0)
  %begin = s32[] constant(0)
  %nought = f32[] constant(0)
  %first = s32[] copy(%begin)
  %empty = f32[64,1024]{1,0} broadcast(%nought), dimensions={}
  %start = f32[1024]{0} copy(%x)
  %carried = (s32[], f32[1024]{0}, f32[64,1024]{1,0}) tuple(%first, %start, %empty)
  %while.1 = (s32[], f32[1024]{0}, f32[64,1024]{1,0}) while(%carried), condition=%test, body=%body
  ROOT %result = f32[64,1024]{1,0} get-tuple-element(%while.1), index=2
}
"""

ASSIGNMENT = """\
BufferAssignment:
allocation 0: size 262144, parameter 0, shape |f32[256,256]| at ShapeIndex {}, maybe-live-out:
 value: <3 weight @0> (size=262144,offset=0): f32[256,256]{1,0}
 value: <9 fusion.2 @0> (size=262144,offset=0): f32[256,256]{1,0}
allocation 1: size 524288, parameter 1, shape |f32[512,256]| at ShapeIndex {}:
 value: <4 x @0> (size=524288,offset=0): f32[512,256]{1,0}
allocation 2: size 16, output shape is |(f32[256,256], f32[])|, maybe-live-out:
 value: <10 tuple.1{} @0> (size=16,offset=0): (f32[256,256]{1,0}, f32[])
allocation 3: size 4, maybe-live-out:
 value: <7 loss @0> (size=4,offset=0): f32[]
allocation 4: size 4, constant:
 value: <5 zero @0> (size=4,offset=0): f32[]
allocation 5: size 4, thread-local:
 value: <0 a @0> (size=4,offset=0): f32[]
allocation 6: size 1310720, preallocated-temp:
 value: <2 dot.1 @0> (size=524288,offset=0): f32[512,256]{1,0}
 value: <1 fusion.1 @0> (size=524288,offset=0): f32[512,256]{1,0}
 value: <6 dot.2 @0> (size=524288,offset=524288): f32[512,256]{1,0}
 value: <8 dot.3 @0> (size=262144,offset=1048576): f32[256,256]{1,0}
"""

PEAKS = """\
XlaRuntimeError: RESOURCE_EXHAUSTED: Out of memory while trying to allocate 2147483648 bytes.
BufferAssignment stats:
             parameter allocation:    1.00GiB
     preallocated temp allocation:    3.00GiB
                 total allocation:    4.00GiB
Peak buffers:
\tBuffer 1:
\t\tSize: 2.00GiB
\t\tOperator: op_name="jit(step)/jvp(Net)/Dense_0/dot_general" source_file="a.py" source_line=12
\t\tXLA Label: fusion
\t\tShape: f32[65536,8192]
\t\t==========================

\tBuffer 2:
\t\tSize: 1.00GiB
\t\tEntry Parameter Subshape: f32[32768,8192]
\t\t==========================
"""


def chain(layers: int) -> str:
    """A training step before XLA's optimizations: dense layers, each followed by a sine."""
    big, small = "f32[512,256]{1,0}", "f32[256,256]{1,0}"
    ahead, back = "jit(step)/jvp(Net)/Dense_", "jit(step)/transpose(jvp(Net))/Dense_"
    forward, backward, kept, slope = [], [], "x", f"h{layers - 1}"
    for at in range(layers):
        named = f'metadata={{op_name="{ahead}{at}/op"}}'
        forward += [
            f"  %w{at} = {small} parameter({at + 1})",
            f"  %d{at} = {big} dot(%{kept}, %w{at}), lhs_contracting_dims={{1}}, {named}",
            f"  %h{at} = {big} sine(%d{at}), {named}",
        ]
        kept = f"h{at}"
    for at in reversed(range(layers)):
        named, read = f'metadata={{op_name="{back}{at}/op"}}', f"h{at - 1}" if at else "x"
        backward += [
            f"  %c{at} = {big} cosine(%d{at}), {named}",
            f"  %g{at} = {big} multiply(%c{at}, %{slope}), {named}",
            f"  %s{at} = {small} dot(%{read}, %g{at}), lhs_contracting_dims={{0}}, {named}",
            f"  %b{at} = {big} dot(%g{at}, %w{at}), lhs_contracting_dims={{1}}, {named}",
        ]
        slope = f"b{at}"
    slopes = ", ".join(f"%s{at}" for at in range(layers))
    root = f"  ROOT %all = ({', '.join([small] * layers)}) tuple({slopes})"
    lines = ["HloModule jit_step", "", "ENTRY %main () -> () {", f"  %x = {big} parameter(0)"]
    return "\n".join([*lines, *forward, *backward, root, "}", ""])


def varint(number: int) -> bytes:
    found = b""
    while number >= 0x80:
        found += bytes([number & 0x7F | 0x80])
        number >>= 7
    return found + bytes([number])


def number(field: int, value: int) -> bytes:
    return varint(field << 3) + varint(value)


def nested(field: int, body: bytes | str) -> bytes:
    data = body.encode() if isinstance(body, str) else body
    return varint(field << 3 | 2) + varint(len(data)) + data


def array(*dims: int) -> bytes:
    if not dims:
        return number(2, 11) + nested(5, b"")
    packed, order = b"".join(map(varint, dims)), bytes(reversed(range(len(dims))))
    return number(2, 11) + nested(3, packed) + nested(5, nested(1, order))


def pair(*parts: bytes) -> bytes:
    return number(2, 13) + b"".join(nested(4, part) for part in parts)


def _instruction(
    at: int, name: str, opcode: str, shape: bytes, operands: Iterable[int] = (), more: bytes = b""
) -> bytes:
    packed = b"".join(varint(each) for each in operands)
    read = nested(36, packed) if packed else b""
    return nested(2, nested(1, name) + nested(2, opcode) + nested(3, shape) + more + number(35, at) + read)


def _named(op_name: str) -> bytes:
    return nested(7, nested(2, op_name))


def step_proto() -> bytes:
    """``STEP`` as an ``HloModuleProto``, with its schedule told in another order than its instructions."""
    big, small, one = array(512, 256), array(256, 256), array()
    dot, left = nested(30, nested(1, b"\x01")), nested(30, nested(1, b"\x00"))
    scope = "jit(step)/jvp(Net)/Dense_"
    sum_of = b"".join([
        _instruction(1, "a", "parameter", one, (), number(9, 0)),
        _instruction(2, "b", "parameter", one, (), number(9, 1)),
        _instruction(3, "add.1", "add", one, (1, 2)),
    ])  # fmt: skip
    tanh = b"".join([
        _instruction(4, "p", "parameter", big, (), number(9, 0)),
        _instruction(5, "tanh.1", "tanh", big, (4,), _named(f"{scope}0/tanh")),
    ])  # fmt: skip
    update = b"".join([
        _instruction(6, "w", "parameter", small, (), number(9, 0)),
        _instruction(7, "g", "parameter", small, (), number(9, 1)),
        _instruction(8, "subtract.1", "subtract", small, (6, 7), _named("jit(step)/sub")),
    ])  # fmt: skip
    loop, tanh_of, subtract = nested(11, "kLoop"), nested(38, b"\x02"), nested(38, b"\x03")
    late = _named("jit(step)/transpose(jvp(Net))/Dense_1/dot_general")
    entry = b"".join([
        _instruction(10, "weight", "parameter", small, (), number(9, 0) + _named("weight")),
        _instruction(11, "x", "parameter", big, (), number(9, 1) + _named("x")),
        _instruction(13, "dot.1", "dot", big, (11, 10), dot + _named(f"{scope}0/dot_general")),
        _instruction(14, "fusion.1", "fusion", big, (13,), loop + tanh_of + _named(f"{scope}0/tanh")),
        _instruction(15, "dot.2", "dot", big, (14, 10), dot + _named(f"{scope}1/dot_general")),
        _instruction(17, "dot.3", "dot", small, (14, 15), left + late),
        _instruction(18, "fusion.2", "fusion", small, (10, 17), loop + subtract + _named("jit(step)/sub")),
        _instruction(12, "zero", "constant", one),
        _instruction(16, "loss", "reduce", one, (15, 12), nested(38, b"\x01")),
        _instruction(19, "tuple.1", "tuple", pair(small, one), (18, 16)),
    ])  # fmt: skip
    computations = (("sum", sum_of, 3), ("tanh_of", tanh, 5), ("update", update, 8), ("main", entry, 19))
    orders = (range(1, 4), range(4, 6), range(6, 9), range(10, 20))
    told = [
        nested(3, nested(1, name) + body + number(5, at) + number(6, root))
        for at, (name, body, root) in enumerate(computations, start=1)
    ]
    schedule = b"".join(
        nested(1, number(1, at) + nested(2, nested(1, bytes(order))))
        for at, order in enumerate(orders, start=1)
    )
    alias = nested(8, nested(1, nested(1, b"\x00") + number(2, 0)))
    return b"".join(
        [nested(1, "jit_step"), nested(2, "main"), *told, number(6, 4), nested(7, schedule), alias]
    )


def whole_proto() -> bytes:
    """``STEP`` as an ``HloProto``, with an assignment that takes more than is needed."""
    argument, result, local, constant = number(5, 1), number(7, 1), number(3, 1), number(12, 1)
    rows = (
        number(2, WEIGHT) + argument + result,
        number(2, ACTIVATION) + argument,
        number(2, TABLE) + result,
        number(2, LOSS) + result,
        number(2, 4) + local,
        number(2, 4) + constant,
        number(2, 2_000_000),
    )
    return nested(1, step_proto()) + nested(3, b"".join(nested(3, row) for row in rows))
