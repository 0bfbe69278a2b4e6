"""Read the dicts of a PyTorch memory snapshot from its pickle, as machine code and without Python's objects.

Nothing in the file is run: opcodes that name a class or call one are refused. Each dict becomes a row with
the values of the keys in ``_KEYS``; other values are skipped. Of a list of stack frames only the frame stays
by which the stack is known. Python's ``pickletools`` documents the opcodes. A snapshot may have a hundred
million objects, so all is in arrays, which take memory only as far as they are filled.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from enum import IntEnum
from typing import Any, NamedTuple, TypeVar

import numba
import numpy as np
from numba.core.cpu import CPUTargetOptions
from numpy.typing import NDArray

Function = TypeVar("Function", bound=Callable[..., Any])

_SLICE = 2**25  # bytes between two reports
_STACK = 2**20  # values; a pickle holds some thousands at a time
_MOST = 2**26  # dicts, lists, strings or other parts

_NONE, _NUMBER, _STRING, _LIST, _DICT = range(5)
# Columns of a row: numbers, and parts, which are strings or lists by their number, from 1.
ADDRESS, SIZE, TIME, REQUESTED, DEVICE, LINE = range(6)
ACTION, NAME, FILE, FRAMES, BLOCKS, SEGMENTS, TRACES = range(6, 13)
_NUMBERS, _COLUMNS = 6, 13
_KEYS = {
    "addr": ADDRESS, "address": ADDRESS, "device_free": ADDRESS, "size": SIZE, "total_size": SIZE,
    "time_us": TIME, "requested_size": REQUESTED, "device": DEVICE, "line": LINE, "action": ACTION,
    "state": ACTION, "name": NAME, "filename": FILE, "frames": FRAMES, "blocks": BLOCKS,
    "segments": SEGMENTS, "device_traces": TRACES,
}  # fmt: skip
_COLUMN_OF = np.array(list(_KEYS.values()))
# Of a user's Python file or module, and of what is around it.
_PYTHON = (".py", "ipykernel", "<ipython", "<stdin>", "nn.Module: ")
_LIBRARY = (
    "site-packages", "dist-packages", "lib/python", "<frozen", "torch/_", "torch/nn/", "torch/optim/",
    "torch/utils/", "torch/autograd/", "torch/cuda/", "torch/profiler/",
)  # fmt: skip
_BACKWARD = ("Backward",)
_LISTS = [list(_KEYS), list(_PYTHON), list(_LIBRARY), list(_BACKWARD)]
_FROM = np.cumsum([0, *map(len, _LISTS)]).tolist()
_WORDS = np.frombuffer("".join(word for words in _LISTS for word in words).encode(), np.uint8)
_ENDS = np.cumsum([0, *(len(word) for words in _LISTS for word in words)])
_K, _P, _L, _B, _END = _FROM

# Per opcode: the bytes of the number after it, and whether that is how many bytes come next.
_FIXED, _SIZED = np.zeros(256, np.int64), np.zeros(256, np.bool_)
_FIXED[list(b"Kqh\x80\x8cC\x8aU")] = 1
_FIXED[list(b"M")] = 2
_FIXED[list(b"JrjXB\x8bT")] = 4
_FIXED[list(b"G\x95\x8d\x8e")] = 8
_SIZED[list(b"\x8cX\x8dCB\x8e\x8a\x8bUT")] = True

# How well a frame names a stack: any; an op of the backward pass; a line of the user's. Or what a list is of.
OTHER, BACKWARD, OWN, OF_DICTS, OF_LISTS = range(1, 6)

_Bytes = NDArray[np.uint8]
_Ints = NDArray[np.int64]


class End(IntEnum):
    """How a scan ended; below 0: the pickle cannot be read."""

    DONE = 1
    DAMAGED = -1
    CODE = -2
    TYPE = -3
    LARGE = -4


_DONE, _DAMAGED, _CODE, _TYPE, _LARGE = (int(end) for end in End)
_PAUSED = 0
# Counters.
_POSITION, _TOP, _MARKED, _MEMO, _TEXTS, _DICTS, _LISTED, _PIECES, _ITEMS = range(9)


class Heap(NamedTuple):
    """What was read so far. Parts are numbered from 1; 0: there is none.

    ``numbers`` and ``parts``: per column and dict. ``frame``: of a list of frames, the dict that names the
    stack, and how well (``rank``). ``first``, ``last``: of other lists the pieces, in which ``items`` stand
    together; their ``rank`` says what the items are.
    """

    counts: _Ints
    kinds: NDArray[np.int8]
    stack: _Ints
    marks: _Ints
    memo_kinds: NDArray[np.int8]
    memo: NDArray[np.int32]
    text_at: _Ints
    text_size: NDArray[np.int32]
    text_key: NDArray[np.int8]
    text_rank: NDArray[np.int8]
    numbers: _Ints
    parts: NDArray[np.int32]
    frame: NDArray[np.int32]
    rank: NDArray[np.int8]
    first: NDArray[np.int32]
    last: NDArray[np.int32]
    piece_at: _Ints
    piece_size: NDArray[np.int32]
    piece_next: NDArray[np.int32]
    items: NDArray[np.int32]


_WHY = {
    End.DAMAGED: "it is damaged or cut off",
    End.CODE: "it holds objects whose code would have to be run, which this program does not do",
    End.TYPE: "its parts are not those of a snapshot",
    End.LARGE: "it has more parts than fit into its bytes",
}


def new_heap(size: int) -> Heap:
    """Return an empty heap with room for what fits into ``size`` bytes of a pickle that torch writes."""
    most = min(_MOST, size // 4 + 64)
    i8, i32, i64 = np.int8, np.int32, np.int64
    zeros = np.zeros
    return Heap(
        zeros(9, i64), zeros(_STACK, i8), zeros(_STACK, i64), zeros(_STACK, i64),
        zeros(2 * most, i8), zeros(2 * most, i32),
        zeros(most, i64), zeros(most, i32), zeros(most, i8), zeros(most, i8),
        zeros((_NUMBERS, most), i64), zeros((_COLUMNS - _NUMBERS, most), i32),
        zeros(most, i32), zeros(most, i8), zeros(most, i32), zeros(most, i32),
        zeros(most, i64), zeros(most, i32), zeros(most, i32), zeros(most, i32),
    )  # fmt: skip


def scan(data: _Bytes, heap: Heap, heard: Callable[[int], None]) -> int:
    """Read all of ``data`` into ``heap``; return the number of the dict that it is.

    ``heard`` is told how many bytes were read; it may raise to stop.

    Raises:
        ValueError: it is no pickle, or not one of plain data, or no dict.
    """
    end = _PAUSED
    while end == _PAUSED:
        end = _scan(data, heap, int(heap.counts[_POSITION]) + _SLICE)
        heard(int(heap.counts[_POSITION]))
    if end == _DONE and (heap.counts[_TOP] != 1 or heap.kinds[0] != _DICT):
        end = _TYPE
    if end != _DONE:
        raise ValueError(_WHY[End(end)])
    return int(heap.stack[0])


def text_of(data: _Bytes, heap: Heap, number: int) -> str:
    at = int(heap.text_at[number])
    return data[at : at + int(heap.text_size[number])].tobytes().decode("utf-8", "replace")


def column(heap: Heap, number: int) -> NDArray[Any]:
    """Return a column of all dicts."""
    found: NDArray[Any] = heap.numbers[number] if number < _NUMBERS else heap.parts[number - _NUMBERS]
    return found


def items_of(heap: Heap, number: int, rank: int = OF_DICTS) -> NDArray[np.int32]:
    """Return what is in list ``number``, which has to be one of dicts, or of lists."""
    found, piece = [np.zeros(0, np.int32)], int(heap.first[number])
    if piece and heap.rank[number] != rank:
        raise ValueError(_WHY[End.TYPE])
    while piece:
        at = int(heap.piece_at[piece])
        found.append(heap.items[at : at + int(heap.piece_size[piece])])
        piece = int(heap.piece_next[piece])
    return np.concatenate(found)


# Nothing is allocated here, so references need no counting: numba would count them at each call, with locked
# instructions, which took seven eighths of the time. The option has no public name yet.
_UNCOUNTED = {"_nrt": False} if hasattr(CPUTargetOptions, "_nrt") else {}


def _jit(function: Function) -> Function:
    made: Function = numba.njit(nogil=True, **_UNCOUNTED)(function)
    with suppress(RuntimeError):  # no folder can be written to: it is compiled each time
        made.enable_caching()  # type: ignore[attr-defined]
    return made


@_jit
def _unsigned(data: _Bytes, at: int, size: int) -> int:
    value = np.int64(0)
    for i in range(min(size, 8)):
        value |= np.int64(data[at + i]) << (8 * i)
    return value  # type: ignore[return-value]


@_jit
def _signed(data: _Bytes, at: int, size: int) -> int:
    value = _unsigned(data, at, size)
    if 0 < size < 8 and data[at + size - 1] >= 128:
        value -= 1 << (8 * size)
    return value


@_jit
def _same(data: _Bytes, at: int, word: int) -> bool:
    begin, end = _ENDS[word], _ENDS[word + 1]
    i = begin
    while i < end and data[at + i - begin] == _WORDS[i]:
        i += 1
    return bool(i == end)


@_jit
def _contains(data: _Bytes, at: int, size: int, begin: int, end: int) -> bool:
    for word in range(begin, end):
        for start in range(at, at + size - (_ENDS[word + 1] - _ENDS[word]) + 1):
            if _same(data, start, word):
                return True
    return False


@_jit
def _text(data: _Bytes, heap: Heap, at: int, size: int) -> int:
    number = heap.counts[_TEXTS] + 1
    heap.counts[_TEXTS] = number
    heap.text_at[number] = at
    heap.text_size[number] = size
    for word in range(_K, _P):
        if _ENDS[word + 1] - _ENDS[word] == size and _same(data, at, word):
            heap.text_key[number] = word - _K + 1
    return int(number)


@_jit
def _rank(data: _Bytes, heap: Heap, frame: int) -> int:
    """How well a frame tells whose the memory is."""
    best = 0
    for column in (FILE, NAME):  # PyTorch's profiler writes the file into the name
        text = heap.parts[column - _NUMBERS, frame]
        if text and heap.text_rank[text] == 0:
            at, size = heap.text_at[text], heap.text_size[text]
            rank = OTHER
            if _contains(data, at, size, _P, _L) and not _contains(data, at, size, _L, _B):
                rank = OWN
            elif _contains(data, at, size, _B, _END):
                rank = BACKWARD
            heap.text_rank[text] = rank
        best = max(best, heap.text_rank[text])
    return best


@_jit
def _extend(data: _Bytes, heap: Heap, number: int, begin: int, end: int) -> int:
    """Add what is on the stack from ``begin`` to ``end`` to a list."""
    kinds, stack = heap.kinds, heap.stack
    kind = kinds[begin]
    if kind != _DICT and kind != _LIST:
        return _PAUSED
    for i in range(begin, end):
        if kinds[i] != kind:
            return _TYPE
    best = heap.rank[number]
    if kind == _DICT and best <= OWN and heap.parts[FILE - _NUMBERS, stack[begin]]:
        for i in range(begin, end):
            if best == OWN:
                break
            rank = _rank(data, heap, stack[i])
            if rank > best:
                best, heap.frame[number] = rank, stack[i]
        heap.rank[number] = best
        return _PAUSED
    of = OF_DICTS if kind == _DICT else OF_LISTS
    if heap.rank[number] != 0 and heap.rank[number] != of:
        return _TYPE
    heap.rank[number] = of
    at, piece = heap.counts[_ITEMS], heap.counts[_PIECES] + 1
    if at + end - begin >= len(heap.items) or piece >= len(heap.piece_at):
        return _LARGE
    for i in range(begin, end):
        heap.items[at + i - begin] = stack[i]
    heap.counts[_ITEMS], heap.counts[_PIECES] = at + end - begin, piece
    heap.piece_at[piece], heap.piece_size[piece] = at, end - begin
    if heap.last[number]:
        heap.piece_next[heap.last[number]] = piece
    else:
        heap.first[number] = piece
    heap.last[number] = piece
    return _PAUSED


@_jit
def _set_items(heap: Heap, number: int, begin: int, end: int) -> int:
    """Put keys and values on the stack from ``begin`` to ``end`` into a dict."""
    if (end - begin) % 2:
        return _DAMAGED
    for i in range(begin, end, 2):
        if heap.kinds[i] != _STRING:
            continue
        key = heap.text_key[heap.stack[i]]
        if key == 0:
            continue
        column, kind, value = _COLUMN_OF[key - 1], heap.kinds[i + 1], heap.stack[i + 1]
        if kind == _NONE:
            continue
        if column < _NUMBERS:
            if kind != _NUMBER:
                return _TYPE
            heap.numbers[column, number] = value
        else:
            if kind != (_STRING if column <= FILE else _LIST):
                return _TYPE
            heap.parts[column - _NUMBERS, number] = value
    return _PAUSED


@_jit
def _scan(data: _Bytes, heap: Heap, until: int) -> int:
    """Read opcodes up to ``until`` or to the end; return how that ended."""
    counts, kinds, stack = heap.counts, heap.kinds, heap.stack
    memo_kinds, memo, marks = heap.memo_kinds, heap.memo, heap.marks
    parts_most, memo_most = len(heap.text_at), len(memo)
    at, top = counts[_POSITION], counts[_TOP]
    size, end = len(data), _PAUSED
    while end == _PAUSED and at < until:
        if at >= size:
            end = _DAMAGED
            break
        op = data[at]
        at += 1
        if op == 0x6A and at + 4 <= size and top + 2 < _STACK:  # most of a file: a stack's next frame
            number = (
                data[at]
                | np.int64(data[at + 1]) << 8
                | np.int64(data[at + 2]) << 16
                | np.int64(data[at + 3]) << 24
            )
            at += 4
            if number >= counts[_MEMO]:
                end = _DAMAGED
                break
            kinds[top], stack[top] = memo_kinds[number], memo[number]
            top += 1
            continue
        if (
            max(counts[_TEXTS], counts[_DICTS], counts[_LISTED]) + 2 >= parts_most
            or counts[_MEMO] + 2 >= memo_most
            or max(top, counts[_MARKED]) + 2 >= _STACK
        ):
            end = _LARGE
            break
        fixed = _FIXED[op]
        if fixed > size - at:
            end = _DAMAGED
            break
        number = _signed(data, at, fixed) if op == 0x4A else _unsigned(data, at, fixed)
        at += fixed
        if _SIZED[op]:
            if number < 0 or number > size - at:
                end = _DAMAGED
                break
            at += number

        if op == 0x68 or op == 0x6A:  # get from the memo
            if number >= counts[_MEMO]:
                end = _DAMAGED
                break
            kinds[top], stack[top] = memo_kinds[number], memo[number]
            top += 1
        elif op == 0x94 or op == 0x71 or op == 0x72:  # put into the memo
            place = counts[_MEMO] if op == 0x94 else number
            if top == 0:
                end = _DAMAGED
            elif place >= memo_most:
                end = _LARGE
            else:
                if kinds[top - 1] >= _STRING:
                    memo_kinds[place], memo[place] = kinds[top - 1], stack[top - 1]
                counts[_MEMO] = max(counts[_MEMO], place + 1)
        elif op in (0x4A, 0x4B, 0x4D):
            kinds[top], stack[top] = _NUMBER, number
            top += 1
        elif op == 0x8A or op == 0x8B:
            kinds[top], stack[top] = _NUMBER, _signed(data, at - number, number)
            top += 1
        elif op in (0x8C, 0x58, 0x8D):
            kinds[top], stack[top] = _STRING, _text(data, heap, at - number, number)
            top += 1
        elif op in (0x4E, 0x88, 0x89, 0x47, 0x43, 0x42, 0x8E, 0x55, 0x54, 0x29):
            kinds[top], stack[top] = _NONE, 0
            top += 1
        elif op == 0x7D or op == 0x5D:  # an empty dict or list
            which = _DICTS if op == 0x7D else _LISTED
            counts[which] += 1
            kinds[top], stack[top] = _DICT if op == 0x7D else _LIST, counts[which]
            top += 1
        elif op == 0x28:  # a mark
            marks[counts[_MARKED]] = top
            counts[_MARKED] += 1
        elif op in (0x65, 0x75, 0x74, 0x31):  # up to the mark: a list's, a dict's, a tuple, or nothing
            counts[_MARKED] -= 1
            begin = marks[counts[_MARKED]] if counts[_MARKED] >= 0 else size
            if begin > top or (op != 0x74 and op != 0x31 and begin == 0):
                end = _DAMAGED
                break
            if op == 0x74:
                kinds[begin], stack[begin] = _NONE, 0
                top = begin + 1
            else:
                if op == 0x65 and begin < top:
                    wrong = kinds[begin - 1] != _LIST
                    end = _DAMAGED if wrong else _extend(data, heap, stack[begin - 1], begin, top)
                elif op == 0x75:
                    wrong = kinds[begin - 1] != _DICT
                    end = _DAMAGED if wrong else _set_items(heap, stack[begin - 1], begin, top)
                top = begin
        elif op == 0x61:  # one item
            if top < 2 or kinds[top - 2] != _LIST:
                end = _DAMAGED
            else:
                end = _extend(data, heap, stack[top - 2], top - 1, top)
                top -= 1
        elif op == 0x73:  # one key and its value
            if top < 3 or kinds[top - 3] != _DICT:
                end = _DAMAGED
            else:
                end = _set_items(heap, stack[top - 3], top - 2, top)
                top -= 2
        elif 0x85 <= op <= 0x87:  # a tuple of one to three
            if top < op - 0x84:
                end = _DAMAGED
                break
            top -= op - 0x84
            kinds[top], stack[top] = _NONE, 0
            top += 1
        elif op == 0x30:
            top -= 1
            if top < 0:
                end = _DAMAGED
        elif op == 0x2E:
            end = _DONE
        elif op != 0x80 and op != 0x95:
            # What is left makes objects; other bytes are no opcode.
            known = op in (0x63, 0x93, 0x52, 0x62, 0x69, 0x6F, 0x81, 0x82, 0x83, 0x84, 0x92, 0x50, 0x51)
            end = _CODE if known else _DAMAGED
    counts[_POSITION], counts[_TOP] = at, top
    return end
