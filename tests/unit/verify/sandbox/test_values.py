"""The codec of plain values, the negative control, and the system call filter."""

import ast
import datetime as dt
import math
import socket
import struct
import threading
from array import array
from collections import Counter, OrderedDict, defaultdict, deque, namedtuple
from enum import IntEnum
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pipeline_lib.verify.sandbox.examiner.negative_control import alter, shift_far
from pipeline_lib.verify.sandbox.examiner.rewriting import (
    always_holds,
    is_plain,
    rewrite_asserts,
)
from pipeline_lib.verify.sandbox.jail.kernel import AUDIT_ARCH, assemble_filter
from pipeline_lib.verify.sandbox.protocol import (
    MAX_FRAME_BYTES,
    SUBCLASS_MARK,
    Channel,
    ChannelClosedError,
    FrameTooLargeError,
    NotPlainError,
    Records,
    decode,
    encode,
)

HASHABLE = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(min_value=-(10**400), max_value=10**400)
    | st.floats(allow_nan=False)
    | st.complex_numbers(allow_nan=False)
    | st.text()
    | st.binary(),
    lambda inner: st.lists(inner, max_size=4).map(tuple) | st.frozensets(inner, max_size=4),
    max_leaves=6,
)
PLAIN = st.recursive(
    HASHABLE | st.sets(HASHABLE, max_size=4),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(HASHABLE, inner, max_size=4),
    max_leaves=12,
)


def refuse(value):
    return None


def rewritten(tests):
    tree = ast.parse(tests)
    num_altered = rewrite_asserts(tree)
    return ast.unparse(tree), num_altered


def crossed(value):
    return decode(encode(value, refuse), refuse)


def types(value):
    """The value's shape, with the exact type of every part."""
    if isinstance(value, dict):
        return dict, [(types(k), types(v)) for k, v in value.items()]
    if isinstance(value, (list, tuple)):
        return type(value), [types(item) for item in value]
    return type(value)


@given(PLAIN)
def test_plain_values_cross_unchanged(value):
    """Value and types are the same on the other side, for every nesting of plain types."""
    assert crossed(value) == value
    assert types(crossed(value)) == types(value)


@pytest.mark.parametrize("number", [math.inf, -math.inf, -0.0, 5e-324, 0.1 + 0.2])
def test_floats_cross_exactly(number):
    """repr has 17 digits, so 0.1 + 0.2 stays 0.30000000000000004, and -0.0 keeps its sign."""
    assert struct.pack("d", crossed(number)) == struct.pack("d", number)


def test_not_a_number_and_lone_surrogates_cross():
    """NaN stays NaN, and text that is not UTF-8 stays what it is."""
    assert math.isnan(crossed(math.nan))
    assert crossed("\ud800") == "\ud800"


class Loud(list):
    def __eq__(self, other):
        return True

    __hash__ = None


def test_subclasses_arrive_as_their_base():
    """An IntEnum and a class of the program's arrive as int and list: nothing of theirs."""
    arrived = crossed([IntEnum("Colour", "RED").RED, Loud([1])])
    assert arrived == [1, [1]]
    assert [type(value) for value in arrived] == [int, list]
    assert SUBCLASS_MARK in encode(Loud(), refuse)
    assert SUBCLASS_MARK not in encode([SUBCLASS_MARK.decode(), {"sub": 1}], refuse)


PARTS = st.integers() | st.text(max_size=5) | st.booleans()
STANDARD = st.one_of(
    st.decimals(allow_nan=False, allow_infinity=False),
    st.fractions(),
    st.dates(),
    st.times(),
    st.datetimes(),
    st.datetimes(timezones=st.just(dt.UTC)),
    st.timedeltas(),
    st.binary().map(bytearray),
    st.builds(deque, st.lists(PARTS, max_size=4), st.none() | st.integers(0, 9)),
    st.lists(PARTS, max_size=4).map(Counter),
    st.dictionaries(PARTS, PARTS, max_size=4).map(OrderedDict),
    st.builds(defaultdict, st.sampled_from([int, list, None]), st.dictionaries(PARTS, PARTS)),
    st.builds(range, st.integers(-9, 9), st.integers(-9, 9), st.integers(1, 3)),
    st.lists(st.integers(-9, 9)).map(lambda items: array("i", items)),
    st.sampled_from([Ellipsis, NotImplemented]),
)


@given(st.recursive(STANDARD, lambda inner: st.lists(inner, max_size=3), max_leaves=4))
def test_plain_types_of_the_standard_library_cross_unchanged(value):
    """Value and exact type are the same on the other side, alone and inside lists."""
    assert crossed(value) == value
    assert types(crossed(value)) == types(value)


def test_views_and_named_tuples_cross_as_what_they_are():
    """The views of a dict keep their kind; a named tuple keeps its fields, of a class made here."""
    table = {1: "a", 2: "b"}
    keys, values, items = crossed([table.keys(), table.values(), table.items()])
    assert (keys, list(values), items) == (table.keys(), ["a", "b"], table.items())
    point = crossed(namedtuple("Point", "x y")(1, Fraction(1, 2)))
    assert (point, point.y, type(point).__name__) == ((1, Fraction(1, 2)), Fraction(1, 2), "Point")
    assert crossed(defaultdict(int))["absent"] == 0


@pytest.mark.parametrize("value", [object(), lambda: 0, iter([]), refuse, Loud, math])
def test_other_values_are_refused(value):
    """A value that is not plain, at any depth, does not cross."""
    with pytest.raises(NotPlainError):
        encode([{"deep": value}], refuse)


def test_value_that_nests_too_deeply_is_refused():
    """100,000 nested lists are no value, in either direction, and no crash."""
    value: list = []
    for _ in range(100_000):
        value = [value]
    with pytest.raises(NotPlainError):
        encode(value, refuse)
    with pytest.raises(NotPlainError):
        decode(b"[" * 100_000 + b"]" * 100_000, refuse)


@given(st.binary() | st.text().map(str.encode))
def test_any_bytes_are_a_value_or_refused(data):
    """Decoding never raises anything else, whatever the candidate sends."""
    try:
        decode(data, refuse)
    except NotPlainError:
        return


FORGED = r"""
{"Decimal":["1E+999999999"]}
{"Fraction":[1,0]}
{"namedtuple":["P",["x","__class__"],[1,2]]}
{"namedtuple":["P",["x"],[1,2]]}
{"deque":[[],"9"]}
{"range":[0,1,0]}
{"datetime":["now"]}
{"defaultdict":[5,{"dict":[]}]}
{"array":["q",["a"]]}
{"ellipsis":["exit"]}
{"ndarray":["|O",[2],"00"]}
{"ndarray":["<f8",[1000000],"00"]}
{"ndarray":["|O",[1000000000],[1]]}
{"scalar":["|V8",1000000000]}
{"scalar":["<i8","x"]}
{"set":[[1]]}
{"dict":[[1]]}
{"dict":1}
{"type":"object"}
{"eval":"1"}
{"int":"zz"}
{"a":1,"b":2}
{}
{"int":5}
{"complex":[1,2,3]}
{"bytes":"0"}
"""


@pytest.mark.parametrize("data", [*FORGED.encode().split(), b"9" * 5000, b"\xff"])
def test_forged_content_is_refused(data):
    """Content that a constructor refuses, sizes in place of values; no name is ever looked up."""
    with pytest.raises(NotPlainError):
        decode(data, refuse)


def test_channel_carries_frames_and_says_when_it_ends():
    """Frames arrive whole and in order; the end of the other side is an error of its own."""
    one, other = socket.socketpair()
    sender, receiver = Channel(one.fileno()), Channel(other.fileno())
    frames = [b"", b"a", bytes(1 << 20)]
    with one, other:
        writer = threading.Thread(target=lambda: [sender.send(frame) for frame in frames])
        writer.start()
        assert [receiver.receive() for _ in frames] == frames
        writer.join()
        one.close()
        with pytest.raises(ChannelClosedError):
            receiver.receive()


def test_channel_refuses_frames_that_are_too_large():
    """Neither a frame above 8 MiB nor the announcement of one is taken."""
    one, other = socket.socketpair()
    with one, other:
        with pytest.raises(FrameTooLargeError):
            Channel(one.fileno()).send(bytes(MAX_FRAME_BYTES + 1))
        one.sendall(struct.pack("!I", MAX_FRAME_BYTES + 1))
        with pytest.raises(FrameTooLargeError):
            Channel(other.fileno()).receive()


@given(PLAIN)
def test_altered_value_differs(value):
    """No plain value is equal to its alteration, so a right program fails the control; nor is infinity."""
    assert alter(value) != value
    assert alter(math.inf) == alter(-math.inf) == 0.0


@pytest.mark.parametrize("value", [0, 3, -7.5, 1e-9, 1e300, math.inf])
def test_far_is_beyond_any_tolerance(value):
    """A billion times the value and more, and 0 from infinity."""
    assert not abs(shift_far(value) - value) <= 1e8 * (1 + abs(value)) or math.isinf(value)
    assert shift_far(math.inf) == 0.0


@pytest.mark.parametrize(
    ("condition", "altered_condition"),
    [
        ("f(1) == 2", "f(1) == __far__(2)"),
        ("f(1) is None", "f(1) is __far__(None)"),
        ("f(1)", "not f(1)"),
        ("not f(1)", "not not f(1)"),
        ("f(1) in (2, 3)", "f(1) in __apart__((2, 3))"),
        ("f(1) not in (2, 3)", "not f(1) not in (2, 3)"),
        ("abs(f(1) - 0.5) < 1", "__checked__(abs(f(1) - __far__(0.5))) < __checked__(1)"),
        ("1 >= abs(f(1) - 0.5)", "__checked__(1) >= __checked__(abs(f(1) - __far__(0.5)))"),
        ("not abs(f(1) - x) > 1", "not __checked__(abs(f(1) - __far__(x))) > __checked__(1)"),
        ("f(2 - 1) <= f(2)", "not __checked__(f(2 - 1)) <= __checked__(f(2))"),
        ("f(1) == g(2)", "f(1) == __filled__(g(2))"),
        ("f(1) - 2 < 1", "not __checked__(f(1) - 2) < __checked__(1)"),
    ],
)
def test_condition_is_altered_by_its_form(condition, altered_condition):
    """An equality and a tolerance ask for another value; any other condition is negated."""
    changed, _ = rewritten(f"assert {condition}")
    assert f"__holds__ = bool({altered_condition})" in changed


@pytest.mark.parametrize(
    ("tests", "plain"),
    [
        ("assert f(1) == 2\nassert f(2) == 3", True),
        ("def check(c):\n    assert True\n    assert c(1) == 2\n    assert c(2) == 3", True),
        ("assert f(1) == 2\nassert f(2)", False),
        ("assert f(1) == 2\nassert max(f(2), 3) == 3", False),
        ("assert f(1) == 2\nassert (f(2) > 3) == False", False),
        ("assert f(1).sort() == [1].sort()", False),
        ("assert f(1) == 2\nfor i in range(3):\n    assert f(i) == i", False),
        ("assert f(1) == 2\ndef g():\n    assert f(2) == 3\ng()", False),
    ],
)
def test_equality_with_a_value_cannot_be_vacuous(tests, plain):
    """As soon as there is more than such equalities, all asserts are altered."""
    assert is_plain(ast.parse(tests), tests) is plain


def test_every_assert_is_altered():
    """Constant conditions say nothing; all others are decided, one after another."""
    tests = "assert True\nassert f(1) == 2\nfor i in range(3):\n    assert f(i)"
    changed, num_altered = rewritten(tests)
    assert (changed.count("__decide__"), changed.count("assert"), num_altered) == (2, 1, 2)


@pytest.mark.parametrize(
    ("condition", "holds"),
    [("(f(1) == 2, 'text')", True), ("[f(1)]", True), ("f'{f(1)}'", True), ("()", False)],
)
def test_assert_of_a_display_always_holds(condition, holds):
    """Python itself warns of a pair in brackets; it is no test."""
    assert always_holds(ast.parse(f"assert {condition}")) is holds


ALLOW, REFUSE, NO_SUCH_CALL, KILL = 0x7FFF0000, 0x00050001, 0x00050026, 0x80000000


def decided(program: bytes, *, machine: str, number: int, arguments: tuple[int, ...] = ()) -> int:
    """Run a filter as the kernel would: just the six operations that it is made of."""
    padded = (*arguments, 0, 0, 0, 0, 0, 0)[:6]
    data = struct.pack("=iIQ6Q", number, AUDIT_ARCH[machine], 0, *padded)
    code = list(struct.iter_unpack("=HBBI", program))
    position = accumulator = 0
    while True:
        operation, if_true, if_false, operand = code[position]
        position += 1
        match operation:
            case 0x20:
                accumulator = struct.unpack_from("=I", data, operand)[0]
            case 0x54:
                accumulator &= operand
            case 0x15:
                position += if_true if accumulator == operand else if_false
            case 0x35:
                position += if_true if accumulator >= operand else if_false
            case 0x45:
                position += if_true if accumulator & operand else if_false
            case 0x06:
                return operand
            case _:
                raise AssertionError(f"unknown operation {operation:#x}")


@pytest.mark.parametrize(
    ("machine", "numbers"),
    [
        ("x86_64", {"read": 0, "fork": 57, "execve": 59, "kill": 62, "openat": 257, "clone3": 435}),
        (
            "aarch64",
            {"read": 63, "clone": 220, "execve": 221, "kill": 129, "openat": 56, "clone3": 435},
        ),
    ],
)
def test_filter_decides_by_call_and_argument(machine, numbers):
    """Own process yes, others no; reading yes, writing by permission; unknown calls never."""

    def decide(name: str, *arguments: int, write: bool = False) -> int:
        program = assemble_filter(machine, own_pid=77, may_write_files=write)
        return decided(program, machine=machine, number=numbers[name], arguments=arguments)

    assert decide("read") == ALLOW
    assert decide("execve") == REFUSE
    assert decide("clone3") == NO_SUCH_CALL
    assert decide("kill", 77, 9) == ALLOW
    assert [decide("kill", pid, 9) for pid in (1, 0, 2**32 - 1, 78)] == [REFUSE] * 4
    assert decide("openat", 0, 0, 0) == ALLOW
    assert [decide("openat", 0, 0, flags) for flags in (1, 2, 0o100, 0o1000)] == [REFUSE] * 4
    assert decide("openat", 0, 0, 0o101, write=True) == ALLOW


@pytest.mark.parametrize("machine", ["x86_64", "aarch64"])
def test_filter_refuses_what_it_does_not_know(machine):
    """Numbers above all known ones, and numbers of the x32 interface, get no further."""
    program = assemble_filter(machine, own_pid=77, may_write_files=True)
    for number in (450, 1000, 0x40000000, 0x40000000 | 1):
        assert decided(program, machine=machine, number=number) == REFUSE


def test_filter_kills_a_foreign_architecture():
    """Numbers mean other calls there: a 32-bit call on a 64-bit machine ends the process."""
    program = assemble_filter("x86_64", own_pid=77, may_write_files=True)
    assert decided(program, machine="aarch64", number=0) == KILL


class Box:
    def __init__(self, value):
        self.value = value

    def same(self, other):
        return self.value == other


def own_records():
    return Records(lambda name: Box if name == "Box" else None, lambda kind: kind is Box)


def test_records_keep_cycles_and_what_is_there_twice():
    """A node that refers to itself, and one in two places, are so on the other side."""
    node = Box(1)
    node.value = [node, node]
    sender, receiver = own_records(), own_records()
    (arrived,) = decode(encode([node], sender.content), receiver.made)
    assert type(arrived) is Box
    assert arrived.value[0] is arrived.value[1] is arrived


@pytest.mark.parametrize(
    "pair",
    [
        '["same",1]',
        '["__class__",{"type":"int"}]',
        '["__dict__",{"dict":[["same",1]]}]',
        "[1,1]",
    ],
)
def test_record_with_forged_attributes_is_refused(pair):
    """No attribute hides a method, or replaces the class."""
    data = f'{{"opaque":["record","Box",0,{{"dict":[{pair}]}}]}}'.encode()
    with pytest.raises(NotPlainError):
        decode(data, own_records().made)


@pytest.mark.parametrize("dtype", ["f8", "i2", "?", "U3", "S2", "c16", "M8[D]", "O"])
def test_arrays_cross_unchanged(dtype):
    """Value, shape and dtype."""
    array_2d = np.zeros((2, 3), dtype)
    arrived = crossed(array_2d)
    assert (arrived.dtype, arrived.shape) == (array_2d.dtype, array_2d.shape)
    assert (arrived == array_2d).all()
