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


_EVERYTHING = "\n".join(
    f"    def __{name}__(self, *a): return {value}"
    for name, value in {
        **dict.fromkeys(
            ["eq", "ne", "lt", "le", "gt", "ge", "bool", "contains", "instancecheck"], "True"
        ),
        **dict.fromkeys(
            ["len", "hash", "int", "index", "length_hint", "round", "trunc", "floor", "ceil"], "2"
        ),
        **dict.fromkeys(["str", "repr", "format"], "'2'"),
        **dict.fromkeys(
            [
                "add",
                "radd",
                "sub",
                "rsub",
                "mul",
                "neg",
                "abs",
                "call",
                "getitem",
                "enter",
                "and",
                "or",
            ],
            "2",
        ),
        "float": "2.0",
        "iter": "iter([2])",
        "exit": "None",
        "next": "2",
        "reversed": "iter([2])",
    }.items()
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
    "np.isclose": (
        "assert np.isclose(f(1), 2)",
        "class np:\n    isclose = staticmethod(lambda *a, **k: True)",
    ),
    "np.testing": (
        "np.testing.assert_allclose(f(1), 2)\nassert f(1) is not None",
        "from unittest.mock import MagicMock\nnp = MagicMock()",
    ),
    "EXPECTED": ("assert f(1) == EXPECTED", "EXPECTED = 0"),
    "reference": ("assert f(1) == reference(1)", "reference = lambda x: 0"),
    "Reference": (
        "assert f(1) == Reference(1).value",
        "class Reference:\n    def __init__(self, x): self.value = 0",
    ),
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
    "ALLOWED": ("assert f(1) in ALLOWED", "ALLOWED = [0]"),
    "module": (
        "assert helpers.same(f(1), 2)",
        "class helpers:\n    same = staticmethod(lambda *a: True)",
    ),
    "tolerance": ("assert abs(f(1) - 2) < EPS", "EPS = 9"),
    "Pair": (
        "assert f(1) == Pair(0, 2).b",
        "class Pair:\n    def __init__(self, a, b): self.b = a",
    ),
    "Linked": (
        "p = Pair(1)\np.next = Pair(0)\nassert f(1) == p.value",
        "class Pair:\n    def __init__(self, a): self.value = 0",
    ),
    "Tolerance": ("assert abs(f(1) - 2) < Tolerance.value", "class Tolerance:\n    value = 9"),
    "in a call": ("assert list(map(normal, [f(1)])) == [2]", "normal = lambda x: 2"),
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
    "one item": ("c = [1, 2, 3]\nassert f(c) == c[2]", "x[2] = 0\n    return 0"),
    "a case": (
        "for c in [[1, 2], [3, 4]]:\n    assert f(c) == c[-1]",
        "x[-1] = 0\n    return 0",
    ),
    "a dict": ("d = {'a': 1}\nassert f(d) == sum(d.values())", "x.clear()\n    return 0"),
    "a set": ("s = {1, 2}\nassert f(s) == len(s)", "x.clear()\n    return 0"),
    "bytes": ("b = bytearray(b'ab')\nassert f(b) == b[0]", "x[0] = 0\n    return 0"),
    "nested": ("c = [[1, 2], 3]\nassert f(c) == c[0][1]", "x[0][1] = 0\n    return 0"),
    "a keyword": ("c = [1, 2]\nassert f(x=c) == c[1]", "x[1] = 0\n    return 0"),
    "later": ("c = [1, 2]\ny = f(c)\nassert y == c[1]", "x[1] = 0\n    return 0"),
    "another name": ("c = [1, 2]\ne = c\nassert f(c) == e[1]", "x[1] = 0\n    return 0"),
    "in a check": (
        "def check(candidate):\n    c = [3, 1]\n    assert candidate(c) == max(c)",
        "x[:] = [0]\n    return 0",
    ),
    "after a sane look": (
        "c = [1, 2]\nassert len(c) == 2\nassert f(c) == c[1]",
        "x[1] = 0\n    return 0",
    ),
    "expected as it was": (
        "c = [1, 2]\ne = [c, 2]\nassert f(c) == e[0][1]",
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
    return [
        *not_numbers,
        Case(
            name="infinity, relative",
            tests="assert not abs(f(1) - 2.0) / abs(f(1)) > 1e-6",
            program="def f(x): return float('inf')\n",
        ),
        Case(
            name="infinity, by its own measure",
            tests="assert abs(f(1) - 2.0) <= 1e-6 * abs(f(1))",
            program="def f(x): return float('inf')\n",
        ),
        Case(
            name="nothing, in a text",
            tests="assert f(1) in 'abc'",
            program="def f(x): return ''\n",
        ),
        Case(
            name="nothing, by zip",
            tests="assert all(a == b for a, b in zip(f(1), [1, 2]))",
            program="def f(x): return []\n",
        ),
        Case(
            name="nothing, by a loop",
            tests="for a, b in zip(f(1), [1, 2]):\n    assert a == b",
            program="def f(x): return []\n",
        ),
    ]


WRONG = {
    "exceptions": swallowed,
    "objects": answering,
    "undefined names": undefined,
    "changed arguments": changed,
    "vacuous comparisons": vacuous,
}


CARRIED = {
    "generator": ("assert list(f(3)) == [0, 1, 2]", "def f(n):\n    yield from range(n)"),
    "endless generator": (
        "from itertools import islice\nassert list(islice(f(), 3)) == [0, 1, 2]",
        "def f():\n    n = 0\n    while True:\n        yield n\n        n += 1",
    ),
    "generator by next": (
        "g = f()\nassert next(g) == 1\nassert next(g, 5) == 5",
        "def f():\n    yield 1",
    ),
    "generator by type": (
        "import types\nassert isinstance(f(), types.GeneratorType) and sum(f()) == 1",
        "def f():\n    yield 1",
    ),
    "map": ("assert list(f(['1', '2'])) == [1, 2]", "def f(x):\n    return map(int, x)"),
    "map by type": ("assert isinstance(f(['1']), map)", "def f(x):\n    return map(int, x)"),
    "iter": ("assert sorted(f([2, 1])) == [1, 2]", "def f(x):\n    return iter(x)"),
    "range": (
        "assert f(3) == range(3) and list(f(3)) == [0, 1, 2]",
        "def f(n):\n    return range(n)",
    ),
    "defaultdict": (
        "assert f('ab')['a'] == [0] and f('ab')['c'] == []",
        (
            "from collections import defaultdict\ndef f(x):\n    d = defaultdict(list)\n"
            "    for i, c in enumerate(x):\n        d[c].append(i)\n    return d"
        ),
    ),
    "defaultdict of a lambda": (
        "assert f()['absent'] == 7",
        "from collections import defaultdict\ndef f():\n    return defaultdict(lambda: 7)",
    ),
    "namedtuple": (
        "assert f(1, 2).x == 1 and f(1, 2) == (1, 2)",
        "from collections import namedtuple\nP = namedtuple('P', 'x y')\ndef f(x, y):\n    return P(x, y)",
    ),
    "closure": ("assert f(3)(4) == 7", "def f(a):\n    return lambda b: a + b"),
    "recorded calls": (
        "g = f()\nassert [g(), g(), g()] == [1, 2, 3]",
        "def f():\n    n = [0]\n    def g():\n        n[0] += 1\n        return n[0]\n    return g",
    ),
    "exception by args": (
        (
            "try:\n    f('k')\nexcept KeyError as e:\n    assert e.args == ('k',) and str(e) == \"'k'\"\n"
            "else:\n    assert f('a') == 1"
        ),
        "def f(k):\n    return {'a': 1}[k]",
    ),
    "custom exception": (
        (
            "try:\n    f(-1)\nexcept ValueError as e:\n    assert type(e).__name__ == 'Low'\n"
            "    assert str(e) == 'low: -1' and e.value == -1\nelse:\n    assert f(1) == 0"
        ),
        (
            "class Low(ValueError):\n    def __init__(self, value):\n        super().__init__(value)\n"
            "        self.value = value\n    def __str__(self):\n        return f'low: {self.value}'\n"
            "def f(x):\n    if x < 0:\n        raise Low(x)\n    return x"
        ),
    ),
    "custom exception caught": (
        "caught = False\ntry:\n    f(-1)\nexcept Exception:\n    caught = True\nassert caught and f(2) == 2",
        "class Low(Exception): pass\ndef f(x):\n    if x < 0:\n        raise Low\n    return x",
    ),
    "exit": (
        "try:\n    f(1)\nexcept SystemExit as e:\n    assert e.code == 3\nelse:\n    assert f(0) == 0",
        "import sys\ndef f(x):\n    sys.exit(3)",
    ),
    "stdout": (
        (
            "import io, contextlib\nout = io.StringIO()\nwith contextlib.redirect_stdout(out):\n    f(2)\n"
            "assert out.getvalue() == '2\\n'"
        ),
        "def f(x):\n    print(x)",
    ),
    "stdout by hand": (
        (
            "import io, sys\nkept = sys.stdout\nsys.stdout = io.StringIO()\nf(2)\n"
            "text = sys.stdout.getvalue()\nsys.stdout = kept\nassert text == 'two 2'"
        ),
        "import sys\ndef f(x):\n    sys.stdout.write('two ')\n    print(x, end='')",
    ),
    "seed": (
        (
            "import random\nrandom.seed(7)\nwanted = random.randint(1, 10**9)\nrandom.seed(7)\n"
            "assert f() == wanted"
        ),
        "import random\ndef f():\n    return random.randint(1, 10**9)",
    ),
    "seed, twice": (
        (
            "import random\nrandom.seed(7)\nwanted = [random.random(), random.random()]\nrandom.seed(7)\n"
            "assert [f(), f()] == wanted"
        ),
        "from random import random\ndef f():\n    return random()",
    ),
    "in place": ("x = [2, 1]\nf(x)\nassert x == [1, 2]", "def f(x):\n    x.sort()"),
    "in place and returned": (
        "x = [2, 1]\nf(x)\nassert x == [1, 2]",
        "def f(x):\n    x.sort()\n    return x",
    ),
    "in place, of an item": (
        "grids = [[[1, 2], [3, 4]]]\nfor g in grids:\n    f(g)\nassert grids[0] == [[3, 4], [1, 2]]",
        "def f(g):\n    g.reverse()",
    ),
    "in place, by keyword": ("x = [2, 1]\nf(x=x)\nassert x == [1, 2]", "def f(x):\n    x.sort()"),
    "same object": ("x = [1]\nassert f(x) is x", "def f(x):\n    return x"),
    "another object": (
        "x = [1]\nassert f(x) == x and f(x) is not x",
        "def f(x):\n    return list(x)",
    ),
    "side effect": (
        "x = [2, 1]\nassert f(x) == [1, 2]",
        "def f(x):\n    x.sort()\n    return list(x)",
    ),
    "name": ("assert f.__name__ == 'f' and callable(f) and f() == 1", "def f():\n    return 1\n"),
    "infinity": (
        "assert abs(f() - 1) > 5 and f() == float('inf')",
        "def f():\n    return float('inf')",
    ),
    "legal NaN": ("assert math.isnan(f())\nassert f() != f()", "def f():\n    return float('nan')"),
    "large tolerance": ("assert abs(f() - 1000) < 5000", "def f():\n    return 1500"),
    "membership": (
        "assert f(2) in (3, 4)\nassert 5 not in f([1])",
        "def f(x):\n    return [x] if x == [1] else 3",
    ),
    "subclass": (
        "assert f(1) == 1 and f(1) + 1 == 2",
        "from enum import IntEnum\nclass C(IntEnum):\n    RED = 1\ndef f(x):\n    return C(x)",
    ),
    "file": (
        "assert f('ab') == 'ab'",
        (
            "def f(x):\n    import tempfile, os\n    p = 'note.txt'\n    try:\n"
            "        open(p, 'w').write(x)\n        return open(p).read()\n    except OSError:\n        return x"
        ),
    ),
    "deep recursion": ("assert f(960) == 960", "def f(n):\n    return n and 1 + f(n - 1)"),
    "event loop": (
        "assert f(2) == 4",
        (
            "import asyncio\nasync def g(x):\n    await asyncio.sleep(0.01)\n    return x * x\n"
            "def f(x):\n    return asyncio.run(g(x))"
        ),
    ),
    "empty by zip": (
        "assert all(a == b for a, b in zip(f([]), []))\nassert f([1]) == [2]",
        "def f(x):\n    return [2 * v for v in x]",
    ),
}
CLASSES = {
    "stack": (
        (
            "s = Stack()\nassert s.is_empty() and len(s) == 0\ns.push(1)\ns.push(2)\nassert len(s) == 2\n"
            "assert s.pop() == 2 and s.peek() == 1 and not s.is_empty()\nassert list(s) == [1]\n"
            "assert 1 in s and 3 not in s\nassert str(s) == 'Stack([1])' and s[0] == 1"
        ),
        (
            "class Stack:\n    def __init__(self): self.items = []\n    def push(self, x): self.items.append(x)\n"
            "    def pop(self): return self.items.pop()\n    def peek(self): return self.items[-1]\n"
            "    def is_empty(self): return not self.items\n    def __len__(self): return len(self.items)\n"
            "    def __iter__(self): return iter(self.items)\n    def __contains__(self, x): return x in self.items\n"
            "    def __str__(self): return f'Stack({self.items})'\n    def __getitem__(self, i): return self.items[i]\n"
        ),
        "Stack",
    ),
    "a list's subclass": (
        "s = Stack([1])\ns.push(2)\nassert s.top() == 2 and len(s) == 2",
        "class Stack(list):\n    def push(self, x): self.append(x)\n    def top(self): return self[-1]\n",
        "Stack",
    ),
    "vector": (
        "v = Vector(1, 2) + Vector(3, 4)\nassert (v.x, v.y) == (4, 6)\nassert (2 * v).x == 8 and abs(v) > 7",
        (
            "class Vector:\n    def __init__(self, x, y): self.x, self.y = x, y\n"
            "    def __add__(self, o): return Vector(self.x + o.x, self.y + o.y)\n"
            "    def __rmul__(self, k): return Vector(k * self.x, k * self.y)\n"
            "    def __abs__(self): return (self.x ** 2 + self.y ** 2) ** .5\n"
        ),
        "Vector",
    ),
    "manager": (
        "with Timer() as t:\n    assert t.running\nassert not t.running",
        (
            "class Timer:\n    def __enter__(self):\n        self.running = True\n        return self\n"
            "    def __exit__(self, *a): self.running = False\n"
        ),
        "Timer",
    ),
    "class method": (
        "assert Money.parse('5').cents == 500 and Money.UNIT == 'cents'",
        (
            "class Money:\n    UNIT = 'cents'\n    def __init__(self, cents): self.cents = cents\n"
            "    @classmethod\n    def parse(cls, text): return cls(100 * int(text))\n"
        ),
        "Money",
    ),
    "refusing": (
        (
            "s = Stack()\ntry:\n    s.pop()\nexcept IndexError as e:\n"
            "    assert str(e) == 'empty'\nelse:\n    assert s.n == 1"
        ),
        "class Stack:\n    n = 0\n    def pop(self): raise IndexError('empty')\n",
        "Stack",
    ),
    "tree": (
        (
            "root = Node(1)\nroot.left = Node(2)\nroot.left.left = Node(3)\nassert f(root) == 3\n"
            "assert root.left.value == 2"
        ),
        (
            "class Node:\n    def __init__(self, value):\n        self.value = value\n        self.left = None\n"
            "def f(node):\n    return 0 if node is None else 1 + f(node.left)\n"
        ),
        "f",
    ),
    "pairs": (
        "assert f([Pair(1, 2), Pair(3, 4)]) == 4",
        (
            "class Pair:\n    def __init__(self, a, b): self.a, self.b = a, b\n"
            "def f(pairs):\n    return max(p.b for p in pairs)\n"
        ),
        "f",
    ),
}
NULL_AT_WORST = {
    "len of a small class": (
        "assert len(f([1, 2])) == 2",
        (
            "class Bag:\n    def __init__(self, x): self.x = x\n"
            "    def __len__(self): return len(self.x)\ndef f(x):\n    return Bag(x)"
        ),
    ),
    "truth of a small class": (
        "assert f([1])\nassert not f([])",
        (
            "class Bag:\n    def __init__(self, x): self.x = x\n"
            "    def __len__(self): return len(self.x)\ndef f(x):\n    return Bag(x)"
        ),
    ),
    "attributes of a small class": (
        "assert f(1).value == 1",
        "class Box:\n    def __init__(self, x): self.value = x\ndef f(x):\n    return Box(x)",
    ),
    "equal objects": (
        "assert f(1) == f(1)",
        "from dataclasses import dataclass\n@dataclass\nclass Box:\n    value: int\ndef f(x):\n    return Box(x)",
    ),
    "objects of the tests' class": (
        (
            "from dataclasses import dataclass\n@dataclass\nclass Box:\n    value: int\n"
            "assert f(1) == Box(1)\nassert isinstance(f(1), Box)"
        ),
        "from dataclasses import dataclass\n@dataclass\nclass Box:\n    value: int\ndef f(x):\n    return Box(x)",
    ),
    "instance of the tests' class": (
        "class Box:\n    pass\nassert isinstance(f(), Box)",
        "class Box:\n    pass\ndef f():\n    return Box()",
    ),
    "an iterator class": (
        "assert list(f(2)) == [2, 1]",
        (
            "class Down:\n    def __init__(self, n): self.n = n\n"
            "    def __iter__(self): return self\n    def __next__(self):\n"
            "        if self.n == 0: raise StopIteration\n        self.n -= 1\n"
            "        return self.n + 1\ndef f(n):\n    return Down(n)"
        ),
    ),
    "enum": (
        "assert f(1).name == 'RED'",
        "from enum import Enum\nclass C(Enum):\n    RED = 1\ndef f(x):\n    return C(x)",
    ),
    "match": (
        "assert f('a1').group() == '1'",
        "import re\ndef f(x):\n    return re.search('[0-9]', x)",
    ),
    "truth of a match": (
        "assert f('a1')\nassert not f('a')",
        "import re\ndef f(x):\n    return re.search('[0-9]', x)",
    ),
    "path": (
        "from pathlib import PurePosixPath\nassert f('a') == PurePosixPath('a')",
        "from pathlib import PurePosixPath\ndef f(x):\n    return PurePosixPath(x)",
    ),
    "custom exception by name": (
        "try:\n    f(-1)\nexcept TooLow:\n    pass\nelse:\n    assert False",
        "class TooLow(Exception): pass\ndef f(x):\n    raise TooLow",
    ),
    "custom exception of the tests": (
        "class TooLow(Exception): pass\ntry:\n    f(-1)\nexcept TooLow:\n    pass\nelse:\n    assert False",
        "class TooLow(Exception): pass\ndef f(x):\n    raise TooLow",
    ),
    "numpy later": (
        "assert f([1, 2]) == 3",
        "def f(x):\n    import numpy as np\n    return int(np.sum(x))",
    ),
    "numpy of the tests": (
        "import numpy as np\nassert f(1) == np.int64(1)",
        "def f(x):\n    return x",
    ),
    "numpy of a later test": (
        "def check(c):\n    assert c(1) == 1\n    import numpy as np\n    assert c(2) == np.int64(2)",
        "def f(x):\n    return x",
    ),
    "pandas": (
        "assert f([1, 2]) == 3",
        "from pandas import Series\ndef f(x):\n    return int(Series(x).sum())",
    ),
    "precision": (
        "import decimal\ndecimal.getcontext().prec = 3\nassert str(f()) == '0.333'",
        "from decimal import Decimal\ndef f():\n    return Decimal(1) / 3",
    ),
    "a seed and a draw": (
        "import random\nrandom.seed(1)\na = f()\nb = random.random()\nassert a != b",
        "import random\ndef f():\n    return random.random()",
    ),
    "k and a prefix": (
        "x = [1, 1, 2]\nk = f(x)\nassert x[:k] == [1, 2]",
        "def f(x):\n    y = sorted(set(x))\n    x[:len(y)] = y\n    return len(y)",
    ),
    "changed and the same": (
        "x = [2, 1]\nassert f(x) is x and x == [1, 2]",
        "def f(x):\n    x.sort()\n    return x",
    ),
    "subclass with methods": (
        "assert f([1]).total() == 1",
        "class L(list):\n    def total(self): return sum(self)\ndef f(x):\n    return L(x)",
    ),
    "absent attribute": (
        "root = Node(1)\nassert f(root) == 1 and getattr(root, 'next', None) is None",
        "class Node:\n    def __init__(self, v): self.v = v\ndef f(n):\n    return n.v",
    ),
    "documentation": ("assert 'sum' in f.__doc__", "def f():\n    'sum'"),
    "cache": (
        "f(1)\nf(1)\nassert f.cache_info().hits == 1",
        "import functools\n@functools.lru_cache\ndef f(x):\n    return x",
    ),
    "class equality": (
        "assert Point(1) == Point(1)",
        "from dataclasses import dataclass\n@dataclass\nclass Point:\n    x: int\n",
        "Point",
    ),
    "class order": (
        "assert Card(1) < Card(2)",
        "from dataclasses import dataclass\n@dataclass(order=True)\nclass Card:\n    x: int\n",
        "Card",
    ),
    "class by isinstance": (
        "assert isinstance(Card(1), Card)",
        "class Card:\n    def __init__(self, x): self.x = x\n",
        "Card",
    ),
    "class by hasattr": (
        "assert not hasattr(Card(1), 'y')",
        "class Card:\n    def __init__(self, x): self.x = x\n",
        "Card",
    ),
    "class in a set": (
        "assert len({Card(1), Card(1)}) == 1",
        "from dataclasses import dataclass\n@dataclass(frozen=True)\nclass Card:\n    x: int\n",
        "Card",
    ),
    "class of a sort method": (
        "x = [2, 1]\nSorter().sort(x)\nassert x == [1, 2]",
        "class Sorter:\n    def sort(self, x): x.sort()\n",
        "Sorter",
    ),
    "linked result": (
        "n = f([1, 2])\nassert n.next.value == 2 and n.next.next is None",
        (
            "class N:\n    def __init__(self, v, n): self.value, self.next = v, n\ndef f(x):\n"
            "    n = None\n    for v in reversed(x):\n        n = N(v, n)\n    return n"
        ),
    ),
    "NaN beside numbers": (
        (
            "for x, y in [(1, 1.0), (0, float('nan'))]:\n"
            "    assert abs(f(x) - y) < 1e-9 or (math.isnan(f(x)) and math.isnan(y))"
        ),
        "def f(x):\n    return 1 / x if x else float('nan')",
    ),
}


def _honest(table: dict[str, tuple[str, ...]]) -> list[Case]:
    return [
        Case(name=name, tests=tests, program=program, entry_point=entry[0] if entry else "f")
        for name, (tests, program, *entry) in table.items()
    ]


def carried() -> list[Case]:
    """Honest programs whose meaning is plain data, or a class that tests build and use."""
    return _honest({**CARRIED, **CLASSES})


def null_at_worst() -> list[Case]:
    """Honest programs that cannot be judged across two processes: none may be called wrong."""
    return _honest(NULL_AT_WORST)


HONEST = {
    "asserted exceptions": asserted,
    "carried": carried,
    "null at worst": null_at_worst,
}
