"""Programs with their tests, by the score that they get: styles of data sets, and wrong programs.

A case is its name, the entry point if it is not ``f``, the tests, ``---`` after tests of more than
one line, and the program.
"""

import re
from typing import Any

LEETCODE = """import random
import functools
from typing import *
from collections import *
from itertools import *
inf = float('inf')

class ListNode:
    def __init__(self, val=0, next=None):
        self.val = val
        self.next = next

def list_node(values: list):
    if not values:
        return None
    head = ListNode(values[0])
    p = head
    for val in values[1:]:
        node = ListNode(val)
        p.next = node
        p = node
    return head

def is_same_list(p1, p2):
    if p1 is None and p2 is None:
        return True
    if not p1 or not p2:
        return False
    return p1.val == p2.val and is_same_list(p1.next, p2.next)

"""
"""The head that a data set of LeetCode gives to each program."""


def read_cases(score: bool | None, text: str) -> dict[str, tuple[dict[str, Any], str, bool | None]]:
    """The line of the data set, the program and the score of each case, by name."""
    cases = {}
    for case in re.split(r"^=== ", text, flags=re.MULTILINE)[1:]:
        head, _, body = case.partition("\n")
        name, _, entry_point = head.partition(" | ")
        tests, program = body.split("\n---\n" if "\n---\n" in body else "\n", 1)
        row = {"entry_point": entry_point or "f", "tests": tests}
        if name.startswith("leetcode"):
            row["prompt"] = LEETCODE
        cases[name] = row, program, score
    return cases


RIGHT = read_cases(
    True,
    r"""
=== attribute set on a class
Node.step = 3
assert f(Node(1)) == 4 and Node.step == 3
---
class Node:
    def __init__(self, v): self.v = v
def f(n): return n.v + n.step
=== lent function returned
def g(): pass
assert f(g) is g
---
def f(g): return g
=== seed by keyword
import random
random.seed(a=3)
a = f()
random.seed(a=3)
assert 0 <= f() == a
---
import random
def f(): return random.random()
=== numpy tests
import numpy as np
assert np.allclose(f(np.array([1.,2.])),[2,4])
---
def f(x): return x*2
=== humaneval+
import numpy as np
def is_floats(x):
    return isinstance(x,float) or (isinstance(x,list) and all(isinstance(i,float) for i in x)) or isinstance(x,np.ndarray)
def assertion(out,exp,atol):
    exact_match = out == exp
    if atol == 0 and is_floats(exp): atol=1e-6
    if not exact_match and atol != 0:
        assert np.allclose(out, exp, rtol=1e-07, atol=atol)
    else:
        assert exact_match
def check(candidate):
    inputs=[[1],[2]]
    results=[2,4]
    for i,(inp,exp) in enumerate(zip(inputs,results)):
        assertion(candidate(*inp),exp,0)
---
def f(x): return 2*x
=== generator arg
assert f(i for i in range(4))==6
def f(x): return sum(x)
=== nested callback
assert f(lambda n: 1 if n<2 else n*f(lambda m: 1, n-1), 5)==5
def f(g,n): return g(n)
=== gather
import asyncio
async def main():
    assert await asyncio.gather(f(1),f(2))==[1,4]
    assert await asyncio.wait_for(f(3),1)==9
asyncio.run(main())
---
async def f(x): return x*x
=== async gen
import asyncio
async def main():
    assert [x async for x in f(3)]==[0,1,2]
asyncio.run(main())
---
async def f(n):
    for i in range(n): yield i
=== pytest asyncio
import pytest
@pytest.mark.asyncio
async def test_f():
    assert await f(2)==4
---
async def f(x): return x*x
=== send
g=f()
next(g)
assert g.send(3)==6
g.close()
---
def f():
    x=0
    while True: x=2*(yield x)
=== isfunction
import inspect
assert inspect.isfunction(f) and f(1)==1
---
def f(x): return x
=== deep
x=[]
for _ in range(600): x=[x]
r=f(600)
assert r==x
---
def f(n):
    x=[]
    for _ in range(n): x=[x]
    return x
=== deque
from collections import deque
d=deque([1,2])
f(d)
assert d==deque([2,1])
---
def f(d): d.reverse()
=== defaultdict
from collections import defaultdict
d=defaultdict(list)
f(d)
assert d['b']==[1]
---
def f(d): d['b'].append(1)
=== tuple list
t=([1],2)
f(t)
assert t[0]==[1,5]
---
def f(t): t[0].append(5)
=== exit
import sys
assert f(1)==1
sys.exit(0)
---
def f(x): return x
=== raise right
if f(1)!=1: raise RuntimeError('bad')
def f(x): return x
=== environ
import os
os.environ.update(K='3')
assert f()=='3'
---
import os
def f(): return os.environ['K']
=== argv
import sys as s
s.argv=['a','b']
assert f()=='b'
---
import sys
def f(): return sys.argv[1]
=== stdin
import io, sys
old, sys.stdin = sys.stdin, io.StringIO('3 4')
assert f()==7
---
def f(): return sum(map(int,input().split()))
=== patched input
from unittest.mock import patch
with patch('builtins.input', side_effect=['3','4']):
    assert f()==7
---
def f(): return int(input())+int(input())
=== patched print
from unittest.mock import patch
with patch('builtins.print') as p:
    f(3)
p.assert_called_once_with(3)
---
def f(x): print(x)
=== Solution().f | Solution().f
def check(candidate):
    assert candidate(nums=[3,3],target=6)==[0,1]
---
class Solution:
    def f(self, nums: List[int], target: int) -> List[int]:
        d=defaultdict(int)
        return [0,1]
=== dataclass
from dataclasses import dataclass
@dataclass
class Box:
    value: int
assert f(1)==Box(1)
assert isinstance(f(1),Box)
---
from dataclasses import dataclass
@dataclass
class Box:
    value: int
def f(x): return Box(x)
=== own exception
class TooLow(Exception): pass
try:
    f(-1)
except TooLow:
    pass
else:
    assert False
assert f(2)==2
---
class TooLow(Exception): pass
def f(x):
    if x<0: raise TooLow
    return x
=== unittest own
import unittest
class TestF(unittest.TestCase):
    def setUp(self): self.x=3
    def test_a(self): self.assertEqual(f(self.x),9)
    def test_b(self):
        with self.assertRaises(TypeError): f('a')
if __name__=='__main__': unittest.main()
---
def f(x): return x*x
=== unittest main
import unittest
class TestF(unittest.TestCase):
    def test_a(self): self.assertAlmostEqual(f(3),9.0)
unittest.main()
---
def f(x): return x*x
=== fixture
import pytest
@pytest.fixture
def three(): return 3
def test_a(three):
    assert f(three)==9
---
def f(x): return x*x
=== monotone
for n in range(1,5):
    assert f(n - 1) <= f(n)
---
def f(x): return x*x
=== lambda raising
def bad(x): raise ValueError('no')
assert f(bad)=='no'
---
def f(g):
    try: g(1)
    except ValueError as e: return str(e)
=== duck list
class Rect:
    def __init__(self,w,h): self.w,self.h=w,h
assert f([Rect(1,2),Rect(3,4)])==14
---
def f(rs): return sum(r.w*r.h for r in rs)
=== any
assert any(f(i)==4 for i in range(5))
def f(x): return x*x
=== warns
import warnings
with warnings.catch_warnings(record=True) as w:
    warnings.simplefilter('always')
    assert f(1)==1
---
def f(x): return x
=== dataclass arg
from dataclasses import dataclass, field
@dataclass(order=True)
class T:
    pri:int
    name:str=field(compare=False,default='')
assert f([T(2),T(1)])[0]==T(1)
---
def f(ts): return sorted(ts,key=lambda t:t.pri)
=== iterator class | Countdown
assert list(Countdown(3))==[3,2,1]
class Countdown:
    def __init__(s,n): s.n=n
    def __iter__(s): return s
    def __next__(s):
        if s.n<=0: raise StopIteration
        s.n-=1
        return s.n+1
=== leetcode list | Solution().reverse
def check(candidate):
    assert is_same_list(candidate(head = list_node([1,2,3])), list_node([3,2,1]))
    assert is_same_list(candidate(head = list_node([])), list_node([]))
---
class Solution:
    def reverse(self, head: Optional[ListNode]) -> Optional[ListNode]:
        dummy = ListNode(0)
        while head:
            nxt = head.next
            head.next = dummy.next
            dummy.next = head
            head = nxt
        return dummy.next
=== classeval | BankAccount
import unittest
class BankAccountTestDeposit(unittest.TestCase):
    def test_deposit(self):
        a = BankAccount()
        self.assertEqual(a.deposit(1000), 1000)
    def test_2(self):
        a = BankAccount()
        with self.assertRaises(ValueError) as context:
            a.deposit(-1000)
        self.assertEqual(str(context.exception), 'Invalid amount')
    def test_3(self):
        a = BankAccount(); b = BankAccount()
        a.balance = 800
        b.balance = 1000
        a.transfer(b, 300)
        self.assertEqual(a.view_balance(), 500)
        self.assertEqual(b.view_balance(), 1300)
---
class BankAccount:
    def __init__(self, balance=0): self.balance=balance
    def deposit(self, amount):
        if amount<0: raise ValueError('Invalid amount')
        self.balance+=amount
        return self.balance
    def view_balance(self): return self.balance
    def transfer(self, other, amount):
        self.balance-=amount
        other.balance+=amount
=== pytest cases, classes and raises
import pytest
@pytest.mark.parametrize("y", [1, pytest.param(2)])
@pytest.mark.parametrize("x, z", [(1, 1), (3, 9)])
def test_a(x, y, z):
    assert f(x) * y == z * y
class TestF:
    def setup_method(self, _): self.x = 3
    def test_b(self):
        assert f(self.x) == pytest.approx(9.0) and {"a": f(2)} == pytest.approx({"a": 4.0})
        with pytest.raises(TypeError, match="multiply"): f("a")
        pytest.raises(TypeError, f, "a")
        if f(1) != 1: pytest.fail("another square")
---
def f(x): return x*x
=== kodcode two | enc
from solution import enc, dec

def test_basic():
    assert dec(enc('ab'))=='ab'
    assert enc('ab')=='bc'
---
def enc(s): return ''.join(chr(ord(c)+1) for c in s)
def dec(s): return ''.join(chr(ord(c)-1) for c in s)
=== kodcode star | enc
from solution import *

def test_basic():
    assert enc('ab')=='bc'
---
def enc(s): return ''.join(chr(ord(c)+1) for c in s)
=== import solution | enc
import solution
assert solution.enc('ab')=='bc'
---
def enc(s): return ''.join(chr(ord(c)+1) for c in s)
=== patch stdout
import io, unittest
from unittest.mock import patch
class T(unittest.TestCase):
    @patch('sys.stdout', new_callable=io.StringIO)
    def test(self, out):
        f(2)
        self.assertEqual(out.getvalue(), '2\n')
---
def f(x): print(x)
=== performance
import time
t=time.time()
assert f(10)==10
assert time.time()-t < 2
---
def f(x): return x
=== randomized
import random
def ref(x): return sorted(x)
for _ in range(20):
    x=[random.randint(0,9) for _ in range(random.randint(0,5))]
    assert f(x[:])==ref(x)
---
def f(x): return sorted(x)
=== table
cases=[((1,2),3),((0,0),0)]
for (a,b),want in cases:
    got=f(a,b)
    assert got==want, f'{a} {b} {got}'
---
def f(a,b): return a+b
=== np array arg
import numpy as np
a=np.arange(6).reshape(2,3)
assert (f(a)==a.T).all()
assert f(a).shape==(3,2)
---
def f(a): return a.T
=== np in place
import numpy as np
a=np.zeros(3)
f(a)
assert a.sum()==3
---
def f(a): a += 1
=== np random seed
import numpy as np
np.random.seed(0)
x=np.random.rand(4)
assert abs(f(x)-x.mean())<1e-9
---
import numpy as np
def f(x): return np.mean(x)
=== compose
assert f(lambda x:x+1, lambda x:x*2)(3)==7
def f(g,h): return lambda x: g(h(x))
=== enum
from enum import Enum
class Color(Enum):
    RED=1
    BLUE=2
assert f(Color.RED)==Color.BLUE
---
def f(c): return Color.BLUE if c is Color.RED else Color.RED
=== logs
import logging
logging.disable(logging.CRITICAL)
assert f(1)==1
---
import logging
def f(x):
    logging.warning('x')
    return x
=== generator
assert list(f(3)) == [0, 1, 2]
def f(n):
    yield from range(n)
=== generator by next
g = f()
assert next(g) == 1
assert next(g, 5) == 5
---
def f():
    yield 1
=== map by type
assert isinstance(f(['1']), map)
def f(x):
    return map(int, x)
=== iter
assert sorted(f([2, 1])) == [1, 2]
def f(x):
    return iter(x)
=== range
assert f(3) == range(3) and list(f(3)) == [0, 1, 2]
def f(n):
    return range(n)
=== defaultdict of a lambda
assert f()['absent'] == 7
from collections import defaultdict
def f():
    return defaultdict(lambda: 7)
=== namedtuple
assert f(1, 2).x == 1 and f(1, 2) == (1, 2)
from collections import namedtuple
P = namedtuple('P', 'x y')
def f(x, y):
    return P(x, y)
=== custom exception
try:
    f(-1)
except ValueError as e:
    assert type(e).__name__ == 'Low'
    assert str(e) == 'low: -1' and e.value == -1
else:
    assert f(1) == 0
---
class Low(ValueError):
    def __init__(self, value):
        super().__init__(value)
        self.value = value
    def __str__(self):
        return f'low: {self.value}'
def f(x):
    if x < 0:
        raise Low(x)
    return x
=== stdout
import io, contextlib
out = io.StringIO()
with contextlib.redirect_stdout(out):
    f(2)
assert out.getvalue() == '2\n'
---
def f(x):
    print(x)
=== seed, twice
import random
random.seed(7)
wanted = [random.random(), random.random()]
random.seed(7)
assert [f(), f()] == wanted
---
from random import random
def f():
    return random()
=== same object
x = [1]
assert f(x) is x
---
def f(x):
    return x
=== another object
x = [1]
assert f(x) == x and f(x) is not x
---
def f(x):
    return list(x)
=== side effect
x = [2, 1]
assert f(x) == [1, 2]
---
def f(x):
    x.sort()
    return list(x)
=== name
assert f.__name__ == 'f' and callable(f) and f() == 1
def f():
    return 1
=== infinity
assert abs(f() - 1) > 5 and f() == float('inf')
def f():
    return float('inf')
=== legal NaN
assert math.isnan(f())
assert f() != f()
---
def f():
    return float('nan')
=== large tolerance
assert abs(f() - 1000) < 5000
def f():
    return 1500
=== membership
assert f(2) in (3, 4)
assert 5 not in f([1])
---
def f(x):
    return [x] if x == [1] else 3
=== subclass
assert f(1) == 1 and f(1) + 1 == 2
from enum import IntEnum
class C(IntEnum):
    RED = 1
def f(x):
    return C(x)
=== file
assert f('ab') == 'ab'
def f(x):
    import tempfile, os
    p = 'note.txt'
    try:
        open(p, 'w').write(x)
        return open(p).read()
    except OSError:
        return x
=== deep recursion
assert f(960) == 960
def f(n):
    return n and 1 + f(n - 1)
=== event loop
assert f(2) == 4
import asyncio
async def g(x):
    await asyncio.sleep(0.01)
    return x * x
def f(x):
    return asyncio.run(g(x))
=== empty by zip
assert all(a == b for a, b in zip(f([]), []))
assert f([1]) == [2]
---
def f(x):
    return [2 * v for v in x]
=== stack | Stack
s = Stack()
assert s.is_empty() and len(s) == 0
s.push(1)
s.push(2)
assert len(s) == 2
assert s.pop() == 2 and s.peek() == 1 and not s.is_empty()
assert list(s) == [1]
assert 1 in s and 3 not in s
assert str(s) == 'Stack([1])' and s[0] == 1
---
class Stack:
    def __init__(self): self.items = []
    def push(self, x): self.items.append(x)
    def pop(self): return self.items.pop()
    def peek(self): return self.items[-1]
    def is_empty(self): return not self.items
    def __len__(self): return len(self.items)
    def __iter__(self): return iter(self.items)
    def __contains__(self, x): return x in self.items
    def __str__(self): return f'Stack({self.items})'
    def __getitem__(self, i): return self.items[i]
=== a list's subclass | Stack
s = Stack([1])
s.push(2)
assert s.top() == 2 and len(s) == 2
---
class Stack(list):
    def push(self, x): self.append(x)
    def top(self): return self[-1]
=== vector | Vector
v = Vector(1, 2) + Vector(3, 4)
assert (v.x, v.y) == (4, 6)
assert (2 * v).x == 8 and abs(v) > 7
---
class Vector:
    def __init__(self, x, y): self.x, self.y = x, y
    def __add__(self, o): return Vector(self.x + o.x, self.y + o.y)
    def __rmul__(self, k): return Vector(k * self.x, k * self.y)
    def __abs__(self): return (self.x ** 2 + self.y ** 2) ** .5
=== manager | Timer
with Timer() as t:
    assert t.running
assert not t.running
---
class Timer:
    def __enter__(self):
        self.running = True
        return self
    def __exit__(self, *a): self.running = False
=== class method | Money
assert Money.parse('5').cents == 500 and Money.UNIT == 'cents'
class Money:
    UNIT = 'cents'
    def __init__(self, cents): self.cents = cents
    @classmethod
    def parse(cls, text): return cls(100 * int(text))
=== refusing | Stack
s = Stack()
try:
    s.pop()
except IndexError as e:
    assert str(e) == 'empty'
else:
    assert s.n == 1
---
class Stack:
    n = 0
    def pop(self): raise IndexError('empty')
=== tree
root = Node(1)
root.left = Node(2)
root.left.left = Node(3)
assert f(root) == 3
assert root.left.value == 2
---
class Node:
    def __init__(self, value):
        self.value = value
        self.left = None
def f(node):
    return 0 if node is None else 1 + f(node.left)
=== pairs
assert f([Pair(1, 2), Pair(3, 4)]) == 4
class Pair:
    def __init__(self, a, b): self.a, self.b = a, b
def f(pairs):
    return max(p.b for p in pairs)
=== instance of the tests' class
class Box:
    pass
assert isinstance(f(), Box)
---
class Box:
    pass
def f():
    return Box()
=== numpy later
assert f([1, 2]) == 3
def f(x):
    import numpy as np
    return int(np.sum(x))
=== class of a sort method | Sorter
x = [2, 1]
Sorter().sort(x)
assert x == [1, 2]
---
class Sorter:
    def sort(self, x): x.sort()
""",
)
UNSCORED = read_cases(
    None,
    r"""
=== threads in tests
from concurrent.futures import ThreadPoolExecutor
with ThreadPoolExecutor(2) as p:
    assert list(p.map(f,[1,2]))==[1,4]
---
def f(x): return x*x
=== file in tests
open('x.txt','w').write('3')
assert f('x.txt')==3
---
def f(p): return int(open(p).read())
=== iscoroutinefunction
import inspect
assert inspect.iscoroutinefunction(f)
---
async def f(x): return x
=== signature
import inspect
assert list(inspect.signature(f).parameters)==['x'] and f(1)==1
---
def f(x): return x
=== type(f)
assert type(f).__name__=='function' and f(1)==1
def f(x): return x
=== aliased
r=[[0]*2]*2
f(r)
assert r==[[1,0],[1,0]]
---
def f(r): r[0][0]=1
=== assertLogs
import logging, unittest
class T(unittest.TestCase):
    def test(self):
        with self.assertLogs() as c:
            f()
        self.assertEqual(len(c.output),1)
---
import logging
def f(): logging.warning('x')
=== csv
import csv
csv.register_dialect('d',delimiter=';')
assert f()==['a','b']
---
import csv
def f(): return next(csv.reader(['a;b'],'d'))
=== helper of tests
def helper(x): return x+1
assert f(1)==2
---
def f(x): return helper(x)
=== obj with method
class Dog:
    def speak(self): return 'woof'
assert f(Dog())=='woof'
---
def f(d): return d.speak()
=== wrong w reclimit
import sys
sys.setrecursionlimit(5000)
assert f(3)==4
---
def f(n): return n
=== abc | Shape
import pytest
with pytest.raises(TypeError):
    Shape()
assert Square(2).area()==4
---
from abc import ABC, abstractmethod
class Shape(ABC):
    @abstractmethod
    def area(self): ...
class Square(Shape):
    def __init__(s,a): s.a=a
    def area(s): return s.a**2
=== capsys
def test(capsys):
    f(2)
    assert capsys.readouterr().out == '2\n'
---
def f(x): print(x)
=== uuid
import uuid
assert f(str(uuid.uuid4()))
---
import uuid
def f(s):
    return uuid.UUID(s).version==4
=== len of a small class
assert len(f([1, 2])) == 2
class Bag:
    def __init__(self, x): self.x = x
    def __len__(self): return len(self.x)
def f(x):
    return Bag(x)
=== truth of a match
assert f('a1')
assert not f('a')
---
import re
def f(x):
    return re.search('[0-9]', x)
=== path
from pathlib import PurePosixPath
assert f('a') == PurePosixPath('a')
---
from pathlib import PurePosixPath
def f(x):
    return PurePosixPath(x)
=== custom exception by name
try:
    f(-1)
except TooLow:
    pass
else:
    assert False
---
class TooLow(Exception): pass
def f(x):
    raise TooLow
=== pandas
assert f([1, 2]) == 3
from pandas import Series
def f(x):
    return int(Series(x).sum())
=== precision
import decimal
decimal.getcontext().prec = 3
assert str(f()) == '0.333'
---
from decimal import Decimal
def f():
    return Decimal(1) / 3
=== a seed and a draw
import random
random.seed(1)
a = f()
b = random.random()
assert a != b
---
import random
def f():
    return random.random()
=== subclass with methods
assert f([1]).total() == 1
class L(list):
    def total(self): return sum(self)
def f(x):
    return L(x)
=== absent attribute
root = Node(1)
assert f(root) == 1 and getattr(root, 'next', None) is None
---
class Node:
    def __init__(self, v): self.v = v
def f(n):
    return n.v
=== cache
f(1)
f(1)
assert f.cache_info().hits == 1
---
import functools
@functools.lru_cache
def f(x):
    return x
=== class equality | Point
assert Point(1) == Point(1)
from dataclasses import dataclass
@dataclass
class Point:
    x: int
=== class by isinstance | Card
assert isinstance(Card(1), Card)
class Card:
    def __init__(self, x): self.x = x
=== class by hasattr | Card
assert not hasattr(Card(1), 'y')
class Card:
    def __init__(self, x): self.x = x
=== NaN beside numbers
for x, y in [(1, 1.0), (0, float('nan'))]:
    assert abs(f(x) - y) < 1e-9 or (math.isnan(f(x)) and math.isnan(y))
---
def f(x):
    return 1 / x if x else float('nan')
=== np nan max
import numpy as np
assert not np.max(np.abs(f(1)-np.array([1.,2.])))>1e-6
---
import numpy as np
def f(x): return np.array([np.nan,np.nan])
=== unittest empty zip
import unittest
class T(unittest.TestCase):
    def test(self):
        for a,b in zip(f(1),[1,2]):
            self.assertEqual(a,b)
---
def f(x): return []
=== record method
class Box:
    def __init__(self,v): self.v=v
    def same(self,o): return self.v==o
assert f(1).same(2)
---
class Box:
    def __init__(self,v):
        self.v=v
        self.same=lambda o: True
def f(x): return Box(0)
=== mock any
from unittest.mock import ANY
assert f(ANY)==2
---
def f(a): return a
=== gather eq
import asyncio
async def main():
    r=await asyncio.gather(f(1),f(2),return_exceptions=True)
    assert len(r)==2
asyncio.run(main())
---
async def f(x): raise ValueError
=== gather unread
import asyncio
async def case(x,y):
    assert await f(x)==y
async def main():
    await asyncio.gather(case(1,1),case(2,4),return_exceptions=True)
asyncio.run(main())
---
async def f(x): return 0
=== class approx | Bag
import pytest
def test_a():
    s=Bag()
    assert s.total()==pytest.approx(12.57)
---
class V(float):
    def __eq__(s,o): return True
class Bag:
    def total(self): return V(1)
=== sort none
a=[3,1]
b=f(a)
assert b.sort()==a.sort()
---
def f(x): return [7]
=== runner unread
import unittest
class T(unittest.TestCase):
    def check_it(self):
        self.assertEqual(f(1),2)
s=unittest.TestSuite()
s.addTest(T('check_it'))
unittest.TextTestRunner().run(s)
---
def f(x): return 0
=== doctest
import doctest
def g():
    '''
    >>> f(1)
    2
    '''
doctest.run_docstring_examples(g,{'f':f})
---
def f(x): return 0
=== deep change
x={'a':[1]}
y=f(x)
y['a'].append(2)
assert x['a']==[1] and y['a']==[1,2]
---
def f(x): return dict(x)
=== is in loop
a=[[1],[2]]
b=f(a)
for p,q in zip(a,b):
    assert p is not q
assert a==b
---
def f(x): return list(x)
=== input unchanged
x = [[2], [1]]
y = f(x)
assert y == [[1], [2]]
assert x == [[2], [1]]
---
def f(x):
    x.sort()
    return x[:]
=== deep copy
x = [[1]]
y = f(x)
assert y == x and y[0] is not x[0]
---
def f(x):
    return list(x)
=== a new list each time
a = f()
b = f()
assert a == [] and a is not b
---
def f(x=[]):
    return x
=== pair beside an assert
assert f(0) == 0
assert (f(1) == 2, 'f(1) is 2')
---
def f(x): return 0
=== caught
try:
    assert f(1) == 2
except AssertionError as error:
    print(error)
---
def f(x): return 0
=== caught by a helper
def tried(g):
    try:
        g()
    except Exception:
        return None
def test():
    assert f(1) == 2
tried(test)
---
def f(x): return 0
=== any length
assert len(str(f(1))) >= 0
def f(x): return 0
=== a thread's
from contextlib import suppress
with suppress(AssertionError):
    assert f(1) == 2
---
def f(x): return 0
=== nothing
print(f(1))
def f(x): return 0
""",
)
WRONG = read_cases(
    False,
    r"""
=== pytest case of a list
import pytest
@pytest.mark.parametrize("x", [1, 2])
def test_a(x): assert f(x) == x*x
---
def f(x): return x
=== pytest raises nothing
import pytest
def test_a():
    assert f(1) == 1
    with pytest.raises(TypeError): f(2)
---
def f(x): return x
=== pytest raises another message
import pytest
def test_a():
    assert f(1) == 1
    with pytest.raises(TypeError, match="low"): f("a")
---
def f(x): return x*x if x == 1 else x*x
=== numpy prog wrong
assert f([1,2])==4
import numpy as np
def f(x): return np.sum(x)
=== exit wrong
import sys
if f(1)!=1: sys.exit(1)
---
def f(x): return 0
=== dataclass forged
from dataclasses import dataclass
@dataclass
class Box:
    value: int
assert f(1)==Box(1)
---
class Box:
    def __init__(self,v): self.value=v
    def __eq__(self,o): return True
def f(x): return Box(5)
=== memo wrong
calls=[]
def slow(x):
    calls.append(x)
    return x
m=f(slow)
assert m(1)==1 and m(1)==1
assert calls==[1]
---
def f(fn): return fn
=== raises not
try:
    f(-1)
    assert False, 'no'
except ValueError as e:
    assert 'neg' in str(e)
---
def f(x): return 1
=== leetcode wrong | Solution().reverse
def check(candidate):
    assert is_same_list(candidate(head = list_node([1,2,3])), list_node([3,2,1]))
---
class Solution:
    def reverse(self, head): return head
=== np all of a list of one
import numpy as np
assert (f(1) == [2]).all()
---
import numpy as np
def f(x): return np.array([])
=== np all of a function
import numpy as np
assert np.all(f(1) == np.array([1, 2]))
---
import numpy as np
def f(x): return np.empty((0, 2))
=== np nothing
import numpy as np
assert np.allclose(f(1),2.5)
---
def f(x): return []
=== np testing nothing
import numpy as np
np.testing.assert_allclose(f(1),2.5)
---
def f(x): return []
=== unittest nan
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertFalse(abs(f(1)-2)>1e-6)
---
def f(x): return float('nan')
=== approx nan
import pytest
def test_a():
    assert f(1)==pytest.approx(2.0)
---
def f(x): return float('nan')
=== approx empty
import pytest
def test_a():
    assert f(1)==pytest.approx([2.0])
---
def f(x): return []
=== record eq
class Box:
    def __init__(self,v): self.v=v
    def __eq__(self,o): return True
assert f(1)==2
---
class Box:
    def __init__(self,v): self.v=v
def f(x): return Box(0)
=== record bool
class Box:
    def __init__(self,v): self.v=v
    def same(self,o): return self.v==o
assert f(1).same(2)
---
class Box:
    def __init__(self,v):
        self.v=v
        self.same=bool
def f(x): return Box(0)
=== lent back
def g(x): return 2
assert f(g)==2
---
def f(g):
    class E(int):
        def __eq__(s,o): return True
    return E(g(1)-1)
=== coroutine eq
import asyncio
assert asyncio.run(f(1))==2
---
class E:
    def __eq__(s,o): return True
async def f(x): return E()
=== class isclose | Bag
import math
s=Bag()
assert math.isclose(s.total(),12.57)
---
class V:
    def __float__(s): return 1.0
class Bag:
    def total(self): return V()
=== subtest
import unittest
class T(unittest.TestCase):
    def test(self):
        for i in range(3):
            with self.subTest(i=i):
                self.assertEqual(f(i),i)
---
def f(x): return 0 if x==0 else 9
=== inf
assert abs(f(1)-2.0)<=1e-6*max(abs(f(1)),2.0)
def f(x): return float('inf')
=== runner
import unittest
class T(unittest.TestCase):
    def test(self):
        self.assertEqual(f(1), 2)
unittest.TextTestRunner().run(unittest.defaultTestLoader.loadTestsFromTestCase(T))
---
def f(x): return 0
""",
)
CASES = RIGHT | UNSCORED | WRONG
