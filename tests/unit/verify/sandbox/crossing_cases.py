"""Wrong programs that tests would believe, and honest ones that they would not, by class.

Generated where the class is a grammar: exception x protocol, attribute x plain type x object, value x
comparison. Text only; run in jails.
"""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One program and its tests, for the function ``f`` unless it says otherwise."""

    name: str
    tests: str
    program: str
    entry_point: str = "f"


EXCEPTIONS = {
    **dict.fromkeys(("StopIteration", "StopAsyncIteration", "GeneratorExit"), ""),
    **dict.fromkeys(("IndexError", "KeyError", "AttributeError", "TypeError"), ""),
    "Own": "class Own(StopIteration): pass\n",
    "Absent": "class Absent(AttributeError, KeyError): pass\n",
    "End": "class End(IndexError): pass\n",
}
PROTOCOLS = {
    "all": "assert all(map(f, [1, 2]))",
    "any": "assert not any(map(f, [1, 2]))",
    "sum": "assert sum(map(f, [1, 2])) == 0",
    "zip": "assert all(a == b for a, b in zip(map(f, [1, 2]), [2, 4]))",
    "filter": "assert list(filter(f, [1, 2])) == []",
    "iter": "assert list(iter(lambda: f(1), 2)) == []",
    "max": "assert max(map(f, [1]), default=2) == 2",
    "min": "assert min(map(f, [1]), default=2) == 2",
    "next": "assert next(map(f, [1]), 2) == 2",
    "in": "assert 5 not in map(f, [1])",
    "sorted": "assert sorted(map(f, [1])) == []",
    "star": "assert [*map(f, [1])] == []",
    "dict": "assert dict(zip([1], map(f, [1]))) == {}",
    "join": "assert ''.join(map(f, [1])) == ''",
    "for": "found = 0\nfor y in map(f, [1]):\n    found += 1\nassert found == 0",
    "getattr": (
        "class R:\n    @property\n    def v(self):\n        return f(1)\n"
        "assert getattr(R(), 'v', 2) == 2"
    ),
    "hasattr": (
        "class R:\n    @property\n    def v(self):\n        return f(1)\nassert not hasattr(R(), 'v')"
    ),
    "sequence": "class S:\n    def __getitem__(self, i):\n        return f(i)\nassert list(S()) == []",
    "contains": "class S:\n    def __getitem__(self, i):\n        return f(i)\nassert 5 not in S()",
    "mapping": (
        "from collections.abc import Mapping\nclass M(Mapping):\n    def __getitem__(self, k):\n"
        "        return f(k)\n    def __len__(self):\n        return 1\n    def __iter__(self):\n"
        "        return iter([1])\nassert M().get(1, 2) == 2"
    ),
    "length": (
        "import operator\nclass L:\n    def __len__(self):\n        return f(1)\n"
        "assert operator.length_hint(L(), 2) == 2"
    ),
    "iterator": (
        "class I:\n    def __iter__(self):\n        return self\n    def __next__(self):\n"
        "        return f(1)\nassert list(I()) == []"
    ),
    "attribute": "assert getattr(f(1), 'value', 2) == 2",
    "unpacking": "first, *rest = [2, *map(f, [1])]\nassert (first, rest) == (2, [])",
    "suppress": (
        "from contextlib import suppress\nfound = 2\ndef g(x):\n    with suppress(ValueError):\n"
        "        return f(x)\nassert all(map(g, [1]))"
    ),
}


def swallowed() -> list[Case]:
    """A program that only raises, under each protocol that might take that for an answer."""
    return [
        Case(
            name=f"{exception} under {protocol}",
            tests=tests,
            program=f"{definition}def f(x=0):\n    raise {exception}('x')\n",
        )
        for exception, definition in EXCEPTIONS.items()
        for protocol, tests in PROTOCOLS.items()
    ]


CATCHES = {
    "except": "try:\n    f(-1)\nexcept {e}:\n    pass\nelse:\n    assert f(0) == 1",
    "tuple": "try:\n    f(-1)\nexcept (OSError, {e}):\n    pass\nelse:\n    assert f(0) == 1",
    "message": (
        "try:\n    f(-1)\nexcept {e} as error:\n    assert str(error) == str({e}('low'))\n"
        "    assert isinstance(error, {e}) and error.args == ('low',)\nelse:\n    assert f(0) == 1"
    ),
    "base": (
        "try:\n    f(-1)\nexcept BaseException as error:\n    caught = type(error).__name__\n"
        "assert caught == '{e}'"
    ),
    "suppress": (
        "from contextlib import suppress\nreached = False\nwith suppress({e}):\n    f(-1)\n"
        "    reached = True\nassert not reached"
    ),
    "unittest": "import unittest\nunittest.TestCase().assertRaises({e}, f, -1)",
    "with": "import unittest\nwith unittest.TestCase().assertRaises({e}) as c:\n    f(-1)",
    "own with": (
        "class Raises:\n    def __enter__(self):\n        return self\n"
        "    def __exit__(self, kind, error, trace):\n        return kind is {e}\n"
        "with Raises():\n    f(-1)\n    assert f(0) == 1"
    ),
    "nested": (
        "def raises(x):\n    try:\n        f(x)\n    except {e}:\n        return True\n    return False\n"
        "assert [raises(x) for x in (-1, 2)] == [True, False]"
    ),
}


def asserted() -> list[Case]:
    """An honest program that raises what tests ask for, each way of asking for it."""
    kinds = [name for name, definition in EXCEPTIONS.items() if not definition]
    return [
        Case(
            name=f"{kind} by {way}",
            tests=tests.format(e=kind) + "\nassert f(2) == 4",
            program=f"def f(x):\n    if x < 0:\n        raise {kind}('low')\n    return x * x\n",
        )
        for kind in [*kinds, "ValueError", "ZeroDivisionError", "SystemExit"]
        for way, tests in CATCHES.items()
    ]


_VALUES = {
    "True": "eq ne lt le gt ge bool contains instancecheck",
    "2": (
        "len hash int index length_hint round trunc floor ceil add radd sub rsub mul neg abs call getitem "
        "enter and or next"
    ),
    "'2'": "str repr format",
    "2.0": "float",
    "iter([2])": "iter reversed",
    "None": "exit",
}
_EVERYTHING = "\n".join(
    f"    def __{name}__(self, *a): return {value}"
    for value, names in _VALUES.items()
    for name in names.split()
)
OBJECTS = {
    "a class with every method": (
        f"class Any:\n    def __getattr__(self, n): return lambda *a, **k: True\n{_EVERYTHING}\n"
        "def f(x): return Any()\n"
    ),
    "an object without operators": (
        "class Any:\n    def __getattr__(self, n): return lambda *a, **k: True\ndef f(x): return Any()\n"
    ),
    "a metaclass": (
        f"class Meta(type):\n    def __getattr__(self, n): return lambda *a, **k: True\n{_EVERYTHING}\n"
        "class Any(metaclass=Meta): pass\ndef f(x): return Any\n"
    ),
    "a mock": "from unittest.mock import MagicMock\ndef f(x): return MagicMock(return_value=True)\n",
    "a namespace": (
        "from types import SimpleNamespace\nyes = lambda *a, **k: True\n"
        "def f(x):\n    names = {n for t in (str, list, dict, set, int, bytes, float) for n in dir(t)}\n"
        "    return SimpleNamespace(**{n: yes for n in names | {'equals'} if n[0] != '_'})\n"
    ),
    "a function with attributes": (
        "def g(*a, **k): return True\n"
        "for t in (str, list, dict, set, int, bytes, float):\n    for n in dir(t):\n"
        "        if n[0] != '_': setattr(g, n, g)\ng.equals = g\ndef f(x): return g\n"
    ),
    "a named tuple of functions": (
        "from collections import namedtuple\nyes = lambda *a, **k: True\n"
        "names = {n for t in (str, list, dict, set, int, bytes, float) for n in dir(t) if n[0] != '_'}\n"
        "T = namedtuple('T', sorted(names | {'equals'}))\n"
        "def f(x): return T(*[yes for _ in T._fields])\n"
    ),
    "a class in place of the function": (
        f"class f:\n    def __init__(self, x): pass\n"
        f"    def __getattr__(self, n): return lambda *a, **k: True\n{_EVERYTHING}\n"
    ),
}
PLAIN = (str, list, dict, set, frozenset, tuple, int, float, bytes)
ATTRIBUTES = sorted({n for kind in PLAIN for n in dir(kind) if n[0] != "_"} | {"equals"})
USES = {
    **{name: f"assert f(1).{name}(2)" for name in ATTRIBUTES},
    "==": "assert f(1) == 2",
    "reflected": "assert 2 == f(1)",
    "!=": "assert f(1) != 3",
    "order": "assert 1 < f(1) < 3",
    "truth": "assert f(1)",
    "len": "assert len(f(1)) == 2",
    "in": "assert 2 in f(1)",
    "in a list": "assert f(1) in [1, 2]",
    "item": "assert f(1)[0] == 2",
    "list": "assert list(f(1)) == [2]",
    "sum": "assert f(1) + 1 == 2",
    "str": "assert str(f(1)) == '2'",
    "format": "assert f'{f(1)}' == '2'",
    "int": "assert int(f(1)) == 2",
    "float": "assert float(f(1)) == 2",
    "round": "assert round(f(1)) == 2",
    "index": "assert [1, 1, 2][f(1)] == 2",
    "hash": "assert hash(f(1)) == 2",
    "isinstance": "assert isinstance(f(1), int)",
    "abs": "assert abs(f(1)) == 2",
    "with": "with f(1) as value:\n    assert value == 2",
    "sorted": "assert sorted(f(1)) == [2]",
    "a set": "assert f(1) in {2, 3}",
    "a key": "assert {2: 'two'}[f(1)] == 'two'",
}


def answering() -> list[Case]:
    """An object in place of 2 or of a text, asked in every way that a plain value is asked."""
    return [
        Case(name=f"{what} asked for {use}", tests=tests, program=program)
        for what, program in OBJECTS.items()
        for use, tests in USES.items()
    ]


UNDEFINED = {
    "isclose": ("assert isclose(f(1), 2)", "isclose = lambda *a, **k: True"),
    "np.testing": (
        "np.testing.assert_allclose(f(1), 2)\nassert f(1) is not None",
        "from unittest.mock import MagicMock\nnp = MagicMock()",
    ),
    "EXPECTED": ("assert f(1) == EXPECTED", "EXPECTED = 0"),
    "reference": ("assert f(1) == reference(1)", "reference = lambda x: 0"),
    "Checker": (
        "assert Checker().check(f(1))",
        "class Checker:\n    def check(self, x): return True",
    ),
    "Expected": (
        "assert Expected(2) == f(1)",
        "class Expected:\n    def __init__(self, x): pass\n    def __eq__(self, o): return True",
    ),
    "Wrong": (
        "assert not Wrong(f(1))",
        "class Wrong:\n    def __init__(self, x): pass\n    def __bool__(self): return False",
    ),
    "Same": ("assert Same(f(1), 2)", "class Same(int):\n    def __new__(cls, *a): return 1"),
    "CASES": ("for x, y in CASES:\n    assert f(x) == y\nassert f(1) is not None", "CASES = []"),
    "Linked": (
        "p = Pair(1)\np.next = Pair(0)\nassert f(1) == p.value",
        "class Pair:\n    def __init__(self, a): self.value = 0",
    ),
    "called in a default": (
        "def g(x, y=answer()):\n    return y\nassert g(f(1)) == 2",
        "answer = lambda: 2",
    ),
}


def undefined() -> list[Case]:
    """A name that the tests use and do not define, supplied by a wrong program."""
    return [
        Case(name=name, tests=tests, program=f"{supplied}\ndef f(x): return 0\n")
        for name, (tests, supplied) in UNDEFINED.items()
    ]


CHANGED = {
    "cleared": ("x = [3, 1, 2]\nassert f(x) == sorted(x)", "x.clear()\n    return []"),
    "a dict": ("d = {'a': 1}\nassert f(d) == sum(d.values())", "x.clear()\n    return 0"),
    "a set": ("s = {1, 2}\nassert f(s) == len(s)", "x.clear()\n    return 0"),
    "bytes": ("b = bytearray(b'ab')\nassert f(b) == b[0]", "x[0] = 0\n    return 0"),
    "nested": ("c = [[1, 2], 3]\nassert f(c) == c[0][1]", "x[0][1] = 0\n    return 0"),
    "a keyword": ("c = [1, 2]\nassert f(x=c) == c[1]", "x[1] = 0\n    return 0"),
    "later": ("c = [1, 2]\ny = f(c)\nassert y == c[1]", "x[1] = 0\n    return 0"),
    "in a check": (
        "def check(candidate):\n    c = [3, 1]\n    assert candidate(c) == max(c)",
        "x[:] = [0]\n    return 0",
    ),
    "after a sane look": (
        "c = [1, 2]\nassert len(c) == 2\nassert f(c) == c[1]",
        "x[1] = 0\n    return 0",
    ),
    "a star": ("args = [[1, 2]]\nassert f(*args) == args[0][1]", "x[1] = 0\n    return 0"),
    "None": ("c = [1, 2]\nassert f(c) == c.sort()  or c[1] == f(c)", "x[1] = None\n    return 0"),
    "the same list": ("c = [2, 1]\nassert f(c) == sorted(c) and c is not f(c)", "return x"),
}


def changed() -> list[Case]:
    """An argument that is changed so that what the tests compare with changes, too."""
    return [
        Case(name=name, tests=tests, program=f"def f(x):\n    {body}\n")
        for name, (tests, body) in CHANGED.items()
    ]


VALUES = ("float('nan')", "-float('nan')", "complex('nan')", "Decimal('NaN')", "float('inf') * 0")
COMPARISONS = {
    "not above": "assert not abs(f(1) - 2.0) > 1e-6",
    "fabs": "assert not math.fabs(f(1) - 2.0) > 1e-6",
    "not outside": "assert not (f(1) < 1.9 or f(1) > 2.1)",
    "tolerance first": "assert not 1e-6 < abs(f(1) - 2.0)",
    "after another": "assert f(0) == 0\nassert not abs(f(1) - 2.0) > 1e-6",
    "in a variable": "y = f(1)\nassert not abs(y - 2.0) > 1e-6",
    "by any": "assert not any(abs(a - b) > 1e-6 for a, b in zip([f(1)], [2.0]))",
    "in a list": "assert not [f(1)] > [2.0] and not [f(1)] < [2.0]",
    "by max": "assert max(2.0, f(1)) == 2.0",
    "by min": "assert min(2.0, f(1)) == 2.0",
    "by sorted": "assert sorted([2.0, f(1)])[0] == 2.0",
    "relative": "assert not abs(f(1) - 2.0) / abs(f(1)) > 1e-6",
    "by branch": "bad = False\nif f(1) > 2.1 or f(1) < 1.9:\n    bad = True\nassert not bad",
    "beside a legal one": ("assert math.isnan(f(-1))\nassert not abs(f(1) - 2.0) > 1e-6"),
    "in a helper": ("def close(a, b):\n    return not abs(a - b) > 1e-6\nassert close(f(1), 2.0)"),
    "in a loop": "for x, y in [(1, 2.0), (2, 4.0)]:\n    assert not abs(f(x) - y) > 1e-6",
}


NOTHING = {
    "infinity, relative": ("assert not abs(f(1) - 2.0) / abs(f(1)) > 1e-6", "float('inf')"),
    "infinity, by its measure": ("assert abs(f(1) - 2.0) <= 1e-6 * abs(f(1))", "float('inf')"),
    "nothing, in a text": ("assert f(1) in 'abc'", "''"),
    "nothing, by zip": ("assert all(a == b for a, b in zip(f(1), [1, 2]))", "[]"),
    "nothing, by a loop": ("for a, b in zip(f(1), [1, 2]):\n    assert a == b", "[]"),
}


def vacuous() -> list[Case]:
    """A value for which a comparison holds whatever is expected."""
    not_numbers = [
        Case(
            name=f"{value} {form}",
            tests=tests,
            program=f"from decimal import Decimal\ndef f(x): return {value} if x else 0\n",
        )
        for value in VALUES
        for form, tests in COMPARISONS.items()
    ]
    others = [
        Case(name=name, tests=tests, program=f"def f(x): return {value}\n")
        for name, (tests, value) in NOTHING.items()
    ]
    return not_numbers + others


WRONG = {
    "exceptions": swallowed,
    "objects": answering,
    "changed arguments": changed,
    "vacuous comparisons": vacuous,
}
