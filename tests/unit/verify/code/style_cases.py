"""Programs of published styles, and how they are judged: right, wrong, or not at all."""

CASES: dict[str, tuple[str, str, bool | None, str]] = {
    "attribute set on a class": (
        "Node.step = 3\nassert f(Node(1)) == 4 and Node.step == 3",
        "class Node:\n    def __init__(self, v): self.v = v\ndef f(n): return n.v + n.step",
        True,
        "f",
    ),
    "lent function returned": ("def g(): pass\nassert f(g) is g", "def f(g): return g", True, "f"),
    "seed by keyword": (
        "import random\nrandom.seed(a=3)\na = f()\nrandom.seed(a=3)\nassert f() == a",
        "import random\ndef f(): return random.random()",
        True,
        "f",
    ),
    "numpy prog wrong": (
        "assert f([1,2])==4",
        "import numpy as np\ndef f(x): return np.sum(x)",
        False,
        "f",
    ),
    "numpy tests": (
        "import numpy as np\nassert np.allclose(f(np.array([1.,2.])),[2,4])",
        "def f(x): return x*2",
        True,
        "f",
    ),
    "numpy testing": (
        "import numpy as np\nnp.testing.assert_allclose(f([1.,2.]),[2,4])",
        "def f(x): return [2*v for v in x]",
        True,
        "f",
    ),
    "humaneval+": (
        (
            "import numpy as np\n"
            "def is_floats(x):\n"
            "    return isinstance(x,float) or (isinstance(x,list) and all(isinstance(i,float) for i in x)) or isinstance(x,np.ndarray)\n"
            "def assertion(out,exp,atol):\n"
            "    exact_match = out == exp\n"
            "    if atol == 0 and is_floats(exp): atol=1e-6\n"
            "    if not exact_match and atol != 0:\n"
            "        assert np.allclose(out, exp, rtol=1e-07, atol=atol)\n"
            "    else:\n"
            "        assert exact_match\n"
            "def check(candidate):\n"
            "    inputs=[[1],[2]]\n"
            "    results=[2,4]\n"
            "    for i,(inp,exp) in enumerate(zip(inputs,results)):\n"
            "        assertion(candidate(*inp),exp,0)"
        ),
        "def f(x): return 2*x",
        True,
        "f",
    ),
    "generator arg": (
        "assert f(i for i in range(4))==6",
        "def f(x): return sum(x)",
        True,
        "f",
    ),
    "nested callback": (
        "assert f(lambda n: 1 if n<2 else n*f(lambda m: 1, n-1), 5)==5",
        "def f(g,n): return g(n)",
        True,
        "f",
    ),
    "gather": (
        (
            "import asyncio\n"
            "async def main():\n"
            "    assert await asyncio.gather(f(1),f(2))==[1,4]\n"
            "    assert await asyncio.wait_for(f(3),1)==9\n"
            "asyncio.run(main())"
        ),
        "async def f(x): return x*x",
        True,
        "f",
    ),
    "async gen": (
        (
            "import asyncio\n"
            "async def main():\n"
            "    assert [x async for x in f(3)]==[0,1,2]\n"
            "asyncio.run(main())"
        ),
        "async def f(n):\n    for i in range(n): yield i",
        True,
        "f",
    ),
    "pytest asyncio": (
        ("import pytest\n@pytest.mark.asyncio\nasync def test_f():\n    assert await f(2)==4"),
        "async def f(x): return x*x",
        True,
        "f",
    ),
    "send": (
        "g=f()\nnext(g)\nassert g.send(3)==6\ng.close()",
        "def f():\n    x=0\n    while True: x=2*(yield x)",
        True,
        "f",
    ),
    "threads in tests": (
        (
            "from concurrent.futures import ThreadPoolExecutor\n"
            "with ThreadPoolExecutor(2) as p:\n"
            "    assert list(p.map(f,[1,2]))==[1,4]"
        ),
        "def f(x): return x*x",
        None,
        "f",
    ),
    "file in tests": (
        "open('x.txt','w').write('3')\nassert f('x.txt')==3",
        "def f(p): return int(open(p).read())",
        None,
        "f",
    ),
    "isfunction": (
        "import inspect\nassert inspect.isfunction(f) and f(1)==1",
        "def f(x): return x",
        True,
        "f",
    ),
    "iscoroutinefunction": (
        "import inspect\nassert inspect.iscoroutinefunction(f)",
        "async def f(x): return x",
        None,
        "f",
    ),
    "signature": (
        ("import inspect\nassert list(inspect.signature(f).parameters)==['x'] and f(1)==1"),
        "def f(x): return x",
        None,
        "f",
    ),
    "getsource": (
        "import inspect\nassert 'def' in inspect.getsource(f) and f(1)==1",
        "def f(x): return x",
        None,
        "f",
    ),
    "type(f)": (
        "assert type(f).__name__=='function' and f(1)==1",
        "def f(x): return x",
        None,
        "f",
    ),
    "deep": (
        "x=[]\nfor _ in range(600): x=[x]\nr=f(600)\nassert r==x",
        "def f(n):\n    x=[]\n    for _ in range(n): x=[x]\n    return x",
        True,
        "f",
    ),
    "deque": (
        ("from collections import deque\nd=deque([1,2])\nf(d)\nassert d==deque([2,1])"),
        "def f(d): d.reverse()",
        True,
        "f",
    ),
    "counter": (
        "from collections import Counter\nd=Counter('a')\nf(d)\nassert d['b']==1",
        "def f(d): d['b']+=1",
        True,
        "f",
    ),
    "defaultdict": (
        ("from collections import defaultdict\nd=defaultdict(list)\nf(d)\nassert d['b']==[1]"),
        "def f(d): d['b'].append(1)",
        True,
        "f",
    ),
    "tuple list": (
        "t=([1],2)\nf(t)\nassert t[0]==[1,5]",
        "def f(t): t[0].append(5)",
        True,
        "f",
    ),
    "aliased": (
        "r=[[0]*2]*2\nf(r)\nassert r==[[1,0],[1,0]]",
        "def f(r): r[0][0]=1",
        None,
        "f",
    ),
    "exit": (
        "import sys\nassert f(1)==1\nsys.exit(0)",
        "def f(x): return x",
        True,
        "f",
    ),
    "exit wrong": (
        "import sys\nif f(1)!=1: sys.exit(1)",
        "def f(x): return 0",
        False,
        "f",
    ),
    "raise right": (
        "if f(1)!=1: raise RuntimeError('bad')",
        "def f(x): return x",
        True,
        "f",
    ),
    "reseed": (
        "import random\nrandom.seed(7)\na=f()\nrandom.seed(7)\nassert f()==a",
        "import random\ndef f(): return random.random()",
        True,
        "f",
    ),
    "environ": (
        "import os\nos.environ.update(K='3')\nassert f()=='3'",
        "import os\ndef f(): return os.environ['K']",
        True,
        "f",
    ),
    "argv": (
        "import sys as s\ns.argv=['a','b']\nassert f()=='b'",
        "import sys\ndef f(): return sys.argv[1]",
        True,
        "f",
    ),
    "stdin": (
        ("import io, sys\nold, sys.stdin = sys.stdin, io.StringIO('3 4')\nassert f()==7"),
        "def f(): return sum(map(int,input().split()))",
        True,
        "f",
    ),
    "patched input": (
        (
            "from unittest.mock import patch\n"
            "with patch('builtins.input', side_effect=['3','4']):\n"
            "    assert f()==7"
        ),
        "def f(): return int(input())+int(input())",
        True,
        "f",
    ),
    "patched print": (
        (
            "from unittest.mock import patch\n"
            "with patch('builtins.print') as p:\n"
            "    f(3)\n"
            "p.assert_called_once_with(3)"
        ),
        "def f(x): print(x)",
        True,
        "f",
    ),
    "assertLogs": (
        (
            "import logging, unittest\n"
            "class T(unittest.TestCase):\n"
            "    def test(self):\n"
            "        with self.assertLogs() as c:\n"
            "            f()\n"
            "        self.assertEqual(len(c.output),1)"
        ),
        "import logging\ndef f(): logging.warning('x')",
        None,
        "f",
    ),
    "csv": (
        ("import csv\ncsv.register_dialect('d',delimiter=';')\nassert f()==['a','b']"),
        "import csv\ndef f(): return next(csv.reader(['a;b'],'d'))",
        None,
        "f",
    ),
    "Solution().f": (
        ("def check(candidate):\n    assert candidate(nums=[3,3],target=6)==[0,1]"),
        (
            "class Solution:\n"
            "    def f(self, nums: List[int], target: int) -> List[int]:\n"
            "        d=defaultdict(int)\n"
            "        return [0,1]"
        ),
        True,
        "Solution().f",
    ),
    "List": (
        "assert f([1])==1",
        "def f(x: List[int]) -> Optional[int]:\n    return x[0]",
        True,
        "f",
    ),
    "LRU": (
        "c=LRU(2)\nc.put(1,1)\nassert c.get(1)==1\nassert c.get(2)==-1",
        (
            "class LRU:\n"
            "    def __init__(self,n): self.d={}\n"
            "    def put(self,k,v): self.d[k]=v\n"
            "    def get(self,k): return self.d.get(k,-1)"
        ),
        True,
        "LRU",
    ),
    "helper of tests": (
        "def helper(x): return x+1\nassert f(1)==2",
        "def f(x): return helper(x)",
        None,
        "f",
    ),
    "linked": (
        (
            "class ListNode:\n"
            "    def __init__(self,val=0,next=None):\n"
            "        self.val=val\n"
            "        self.next=next\n"
            "def build(v):\n"
            "    h=None\n"
            "    for x in reversed(v): h=ListNode(x,h)\n"
            "    return h\n"
            "def out(h):\n"
            "    r=[]\n"
            "    while h: r.append(h.val); h=h.next\n"
            "    return r\n"
            "assert out(f(build([1,2,3])))==[3,2,1]"
        ),
        (
            "def f(head: Optional[ListNode]) -> Optional[ListNode]:\n"
            "    p=ListNode(0)\n"
            "    p=None\n"
            "    while head:\n"
            "        head.next,p,head=p,head,head.next\n"
            "    return p"
        ),
        True,
        "f",
    ),
    "dataclass": (
        (
            "from dataclasses import dataclass\n"
            "@dataclass\n"
            "class Box:\n"
            "    value: int\n"
            "assert f(1)==Box(1)\n"
            "assert isinstance(f(1),Box)"
        ),
        (
            "from dataclasses import dataclass\n"
            "@dataclass\n"
            "class Box:\n"
            "    value: int\n"
            "def f(x): return Box(x)"
        ),
        True,
        "f",
    ),
    "dataclass forged": (
        (
            "from dataclasses import dataclass\n"
            "@dataclass\n"
            "class Box:\n"
            "    value: int\n"
            "assert f(1)==Box(1)"
        ),
        (
            "class Box:\n"
            "    def __init__(self,v): self.value=v\n"
            "    def __eq__(self,o): return True\n"
            "def f(x): return Box(5)"
        ),
        False,
        "f",
    ),
    "own exception": (
        (
            "class TooLow(Exception): pass\n"
            "try:\n"
            "    f(-1)\n"
            "except TooLow:\n"
            "    pass\n"
            "else:\n"
            "    assert False\n"
            "assert f(2)==2"
        ),
        ("class TooLow(Exception): pass\ndef f(x):\n    if x<0: raise TooLow\n    return x"),
        True,
        "f",
    ),
    "unittest own": (
        (
            "import unittest\n"
            "class TestF(unittest.TestCase):\n"
            "    def setUp(self): self.x=3\n"
            "    def test_a(self): self.assertEqual(f(self.x),9)\n"
            "    def test_b(self):\n"
            "        with self.assertRaises(TypeError): f('a')\n"
            "if __name__=='__main__': unittest.main()"
        ),
        "def f(x): return x*x",
        True,
        "f",
    ),
    "unittest main": (
        (
            "import unittest\n"
            "class TestF(unittest.TestCase):\n"
            "    def test_a(self): self.assertAlmostEqual(f(3),9.0)\n"
            "unittest.main()"
        ),
        "def f(x): return x*x",
        True,
        "f",
    ),
    "fixture": (
        (
            "import pytest\n"
            "@pytest.fixture\n"
            "def three(): return 3\n"
            "def test_a(three):\n"
            "    assert f(three)==9"
        ),
        "def f(x): return x*x",
        True,
        "f",
    ),
    "monotone": (
        "for n in range(1,5):\n    assert f(n - 1) <= f(n)",
        "def f(x): return x*x",
        True,
        "f",
    ),
}

CASES |= {
    "more: type is": (
        "assert type(f(1)) is int\nassert f(1)==1",
        "def f(x): return x",
        True,
        "f",
    ),
    "more: lambda raising": (
        "def bad(x): raise ValueError('no')\nassert f(bad)=='no'",
        "def f(g):\n    try: g(1)\n    except ValueError as e: return str(e)",
        True,
        "f",
    ),
    "more: memo wrong": (
        (
            "calls=[]\n"
            "def slow(x):\n"
            "    calls.append(x)\n"
            "    return x\n"
            "m=f(slow)\n"
            "assert m(1)==1 and m(1)==1\n"
            "assert calls==[1]"
        ),
        "def f(fn): return fn",
        False,
        "f",
    ),
    "more: obj with method": (
        "class Dog:\n    def speak(self): return 'woof'\nassert f(Dog())=='woof'",
        "def f(d): return d.speak()",
        None,
        "f",
    ),
    "more: duck list": (
        (
            "class Rect:\n"
            "    def __init__(self,w,h): self.w,self.h=w,h\n"
            "assert f([Rect(1,2),Rect(3,4)])==14"
        ),
        "def f(rs): return sum(r.w*r.h for r in rs)",
        True,
        "f",
    ),
    "more: str subclass": (
        "assert f('a').upper()=='A!'",
        "def f(x): return x+'!'",
        True,
        "f",
    ),
    "more: any": (
        "assert any(f(i)==4 for i in range(5))",
        "def f(x): return x*x",
        True,
        "f",
    ),
    "more: isclose": (
        "import math\nassert math.isclose(f(2),1.41421356,rel_tol=1e-6)",
        "def f(x): return x**.5",
        True,
        "f",
    ),
    "more: raises not": (
        (
            "try:\n"
            "    f(-1)\n"
            "    assert False, 'no'\n"
            "except ValueError as e:\n"
            "    assert 'neg' in str(e)"
        ),
        "def f(x): return 1",
        False,
        "f",
    ),
    "more: warns": (
        (
            "import warnings\n"
            "with warnings.catch_warnings(record=True) as w:\n"
            "    warnings.simplefilter('always')\n"
            "    assert f(1)==1"
        ),
        "def f(x): return x",
        True,
        "f",
    ),
    "more: dataclass arg": (
        (
            "from dataclasses import dataclass, field\n"
            "@dataclass(order=True)\n"
            "class T:\n"
            "    pri:int\n"
            "    name:str=field(compare=False,default='')\n"
            "assert f([T(2),T(1)])[0]==T(1)"
        ),
        "def f(ts): return sorted(ts,key=lambda t:t.pri)",
        True,
        "f",
    ),
    "more: wrong w reclimit": (
        "import sys\nsys.setrecursionlimit(5000)\nassert f(3)==4",
        "def f(n): return n",
        None,
        "f",
    ),
    "more: graph class": (
        (
            "g=Graph()\n"
            "g.add_edge('a','b')\n"
            "assert g.neighbors('a')=={'b'}\n"
            "assert 'a' in g\n"
            "assert len(g)==2"
        ),
        (
            "class Graph:\n"
            "    def __init__(s): s.d={}\n"
            "    def add_edge(s,a,b):\n"
            "        s.d.setdefault(a,set()).add(b); s.d.setdefault(b,set()).add(a)\n"
            "    def neighbors(s,a): return s.d[a]\n"
            "    def __contains__(s,a): return a in s.d\n"
            "    def __len__(s): return len(s.d)"
        ),
        True,
        "Graph",
    ),
    "more: iterator class": (
        "assert list(Countdown(3))==[3,2,1]",
        (
            "class Countdown:\n"
            "    def __init__(s,n): s.n=n\n"
            "    def __iter__(s): return s\n"
            "    def __next__(s):\n"
            "        if s.n<=0: raise StopIteration\n"
            "        s.n-=1\n"
            "        return s.n+1"
        ),
        True,
        "Countdown",
    ),
    "more: abc": (
        ("import pytest\nwith pytest.raises(TypeError):\n    Shape()\nassert Square(2).area()==4"),
        (
            "from abc import ABC, abstractmethod\n"
            "class Shape(ABC):\n"
            "    @abstractmethod\n"
            "    def area(self): ...\n"
            "class Square(Shape):\n"
            "    def __init__(s,a): s.a=a\n"
            "    def area(s): return s.a**2"
        ),
        None,
        "Shape",
    ),
}

FORGED: dict[str, tuple[str, str, str]] = {
    "np all of a list of one": (
        "import numpy as np\nassert (f(1) == [2]).all()",
        "import numpy as np\ndef f(x): return np.array([])",
        "f",
    ),
    "attribute of a class of the program": (
        "assert f(1) == Answer.value",
        "class Answer: value = 0\ndef f(x): return 0",
        "f",
    ),
    "np all of a function": (
        "import numpy as np\nassert np.all(f(1) == np.array([1, 2]))",
        "import numpy as np\ndef f(x): return np.empty((0, 2))",
        "f",
    ),
    "np nothing": (
        "import numpy as np\nassert np.allclose(f(1),2.5)",
        "def f(x): return []",
        "f",
    ),
    "np nothing arr": (
        "import numpy as np\nassert np.allclose(f(1),[2.5])",
        "import numpy as np\ndef f(x): return np.array([])",
        "f",
    ),
    "np testing nothing": (
        "import numpy as np\nnp.testing.assert_allclose(f(1),2.5)",
        "def f(x): return []",
        "f",
    ),
    "np nan": (
        ("import numpy as np\nassert not np.any(np.abs(f(1)-np.array([1.,2.]))>1e-6)"),
        "import numpy as np\ndef f(x): return np.array([np.nan,np.nan])",
        "f",
    ),
    "np nan max": (
        ("import numpy as np\nassert not np.max(np.abs(f(1)-np.array([1.,2.])))>1e-6"),
        "import numpy as np\ndef f(x): return np.array([np.nan,np.nan])",
        "f",
    ),
    "np all empty": (
        "import numpy as np\nassert (f(1)==np.array([2.])).all()",
        "import numpy as np\ndef f(x): return np.array([])",
        "f",
    ),
    "np isclose": (
        "import numpy as np\nassert np.isclose(f(1),2.5).all()",
        "import numpy as np\ndef f(x): return np.array([])",
        "f",
    ),
    "unittest nan": (
        (
            "import unittest\n"
            "class T(unittest.TestCase):\n"
            "    def test(self):\n"
            "        self.assertFalse(abs(f(1)-2)>1e-6)"
        ),
        "def f(x): return float('nan')",
        "f",
    ),
    "unittest empty zip": (
        (
            "import unittest\n"
            "class T(unittest.TestCase):\n"
            "    def test(self):\n"
            "        for a,b in zip(f(1),[1,2]):\n"
            "            self.assertEqual(a,b)"
        ),
        "def f(x): return []",
        "f",
    ),
    "unittest all": (
        (
            "import unittest\n"
            "class T(unittest.TestCase):\n"
            "    def test(self):\n"
            "        self.assertTrue(all(a==b for a,b in zip(f(1),[1,2])))"
        ),
        "def f(x): return []",
        "f",
    ),
    "approx nan": (
        "import pytest\ndef test_a():\n    assert f(1)==pytest.approx(2.0)",
        "def f(x): return float('nan')",
        "f",
    ),
    "approx empty": (
        "import pytest\ndef test_a():\n    assert f(1)==pytest.approx([2.0])",
        "def f(x): return []",
        "f",
    ),
    "approx bool": (
        "import pytest\ndef test_a():\n    assert f(1)==pytest.approx([2.0])",
        ("class E(list):\n    def __eq__(s,o): return True\ndef f(x): return E([1])"),
        "f",
    ),
    "record eq": (
        (
            "class Box:\n"
            "    def __init__(self,v): self.v=v\n"
            "    def __eq__(self,o): return True\n"
            "assert f(1)==2"
        ),
        "class Box:\n    def __init__(self,v): self.v=v\ndef f(x): return Box(0)",
        "f",
    ),
    "record method": (
        (
            "class Box:\n"
            "    def __init__(self,v): self.v=v\n"
            "    def same(self,o): return self.v==o\n"
            "assert f(1).same(2)"
        ),
        (
            "class Box:\n"
            "    def __init__(self,v):\n"
            "        self.v=v\n"
            "        self.same=lambda o: True\n"
            "def f(x): return Box(0)"
        ),
        "f",
    ),
    "record bool": (
        (
            "class Box:\n"
            "    def __init__(self,v): self.v=v\n"
            "    def same(self,o): return self.v==o\n"
            "assert f(1).same(2)"
        ),
        (
            "class Box:\n"
            "    def __init__(self,v):\n"
            "        self.v=v\n"
            "        self.same=bool\n"
            "def f(x): return Box(0)"
        ),
        "f",
    ),
    "lent back": (
        "def g(x): return 2\nassert f(g)==2",
        (
            "def f(g):\n"
            "    class E(int):\n"
            "        def __eq__(s,o): return True\n"
            "    return E(g(1)-1)"
        ),
        "f",
    ),
    "mock any": (
        "from unittest.mock import ANY\nassert f(ANY)==2",
        "def f(a): return a",
        "f",
    ),
    "coroutine eq": (
        "import asyncio\nassert asyncio.run(f(1))==2",
        "class E:\n    def __eq__(s,o): return True\nasync def f(x): return E()",
        "f",
    ),
    "gather eq": (
        (
            "import asyncio\n"
            "async def main():\n"
            "    r=await asyncio.gather(f(1),f(2),return_exceptions=True)\n"
            "    assert len(r)==2\n"
            "asyncio.run(main())"
        ),
        "async def f(x): raise ValueError",
        "f",
    ),
    "gather unread": (
        (
            "import asyncio\n"
            "async def case(x,y):\n"
            "    assert await f(x)==y\n"
            "async def main():\n"
            "    await asyncio.gather(case(1,1),case(2,4),return_exceptions=True)\n"
            "asyncio.run(main())"
        ),
        "async def f(x): return 0",
        "f",
    ),
    "task unread": (
        (
            "import asyncio\n"
            "async def case(x,y):\n"
            "    assert await f(x)==y\n"
            "async def main():\n"
            "    t=asyncio.create_task(case(1,1))\n"
            "    await asyncio.sleep(0)\n"
            "asyncio.run(main())"
        ),
        "async def f(x): return 0",
        "f",
    ),
    "class contains": (
        "s=Bag()\nassert 12.5 in s.items()",
        (
            "class V:\n"
            "    def __contains__(s,o): return True\n"
            "class Bag:\n"
            "    def items(self): return V()"
        ),
        "Bag",
    ),
    "class round": (
        "s=Bag()\nassert round(s.total(),2)==12.57",
        (
            "class V:\n"
            "    def __round__(s,n): return 12.57\n"
            "    def __eq__(s,o): return True\n"
            "class Bag:\n"
            "    def total(self): return V()"
        ),
        "Bag",
    ),
    "class isclose": (
        "import math\ns=Bag()\nassert math.isclose(s.total(),12.57)",
        ("class V:\n    def __float__(s): return 1.0\nclass Bag:\n    def total(self): return V()"),
        "Bag",
    ),
    "class pow": (
        "s=Bag()\nassert (s.total()-12.57)**2 < 1e-9",
        (
            "class V:\n"
            "    def __sub__(s,o): return V()\n"
            "    def __pow__(s,o): return 0\n"
            "class Bag:\n"
            "    def total(self): return V()"
        ),
        "Bag",
    ),
    "class approx": (
        ("import pytest\ndef test_a():\n    s=Bag()\n    assert s.total()==pytest.approx(12.57)"),
        (
            "class V(float):\n"
            "    def __eq__(s,o): return True\n"
            "class Bag:\n"
            "    def total(self): return V(1)"
        ),
        "Bag",
    ),
    "class unittest": (
        (
            "import unittest\n"
            "class T(unittest.TestCase):\n"
            "    def test(self):\n"
            "        self.assertAlmostEqual(Bag().total(),12.57)"
        ),
        (
            "class V:\n"
            "    def __eq__(s,o): return True\n"
            "    def __sub__(s,o): return 0\n"
            "    def __abs__(s): return 0\n"
            "class Bag:\n"
            "    def total(self): return V()"
        ),
        "Bag",
    ),
    "role forged": (
        "assert 5 in f(1)",
        (
            "import os,struct,json\n"
            "class V:\n"
            "    def __contains__(s,o): return True\n"
            "def f(x): return V()"
        ),
        "f",
    ),
    "sort none": (
        "a=[3,1]\nb=f(a)\nassert b.sort()==a.sort()",
        "def f(x): return [7]",
        "f",
    ),
    "append none": (
        "a=f(1)\nassert a.append(1)==[].append(1)",
        "def f(x): return [7]",
        "f",
    ),
    "tuple assert": (
        "assert(f(1)==2,'msg')",
        "def f(x): return 0",
        "f",
    ),
    "subtest": (
        (
            "import unittest\n"
            "class T(unittest.TestCase):\n"
            "    def test(self):\n"
            "        for i in range(3):\n"
            "            with self.subTest(i=i):\n"
            "                self.assertEqual(f(i),i)"
        ),
        "def f(x): return 0 if x==0 else 9",
        "f",
    ),
    "runner unread": (
        (
            "import unittest\n"
            "class T(unittest.TestCase):\n"
            "    def check_it(self):\n"
            "        self.assertEqual(f(1),2)\n"
            "s=unittest.TestSuite()\n"
            "s.addTest(T('check_it'))\n"
            "unittest.TextTestRunner().run(s)"
        ),
        "def f(x): return 0",
        "f",
    ),
    "doctest": (
        (
            "import doctest\n"
            "def g():\n"
            "    '''\n"
            "    >>> f(1)\n"
            "    2\n"
            "    '''\n"
            "doctest.run_docstring_examples(g,{'f':f})"
        ),
        "def f(x): return 0",
        "f",
    ),
    "inf": (
        "assert abs(f(1)-2.0)<=1e-6*max(abs(f(1)),2.0)",
        "def f(x): return float('inf')",
        "f",
    ),
    "deep change": (
        ("x={'a':[1]}\ny=f(x)\ny['a'].append(2)\nassert x['a']==[1] and y['a']==[1,2]"),
        "def f(x): return dict(x)",
        "f",
    ),
    "is in loop": (
        ("a=[[1],[2]]\nb=f(a)\nfor p,q in zip(a,b):\n    assert p is not q\nassert a==b"),
        "def f(x): return list(x)",
        "f",
    ),
    "id": (
        "a=[[1]]\nb=f(a)\nassert id(a[0])!=id(b[0]) and a==b",
        "def f(x): return list(x)",
        "f",
    ),
    "input unchanged dict": (
        "d={'b':1}\nr=f(d)\nassert r=={'b':2}\nassert d=={'b':1}",
        "def f(d):\n    d['b']+=1\n    return d",
        "f",
    ),
    "copy.copy": (
        (
            "import copy\n"
            "x=[[1]]\n"
            "before=copy.deepcopy(x)\n"
            "y=f(x)\n"
            "assert y==[[1,2]]\n"
            "assert x==before"
        ),
        "def f(x):\n    x[0].append(2)\n    return x",
        "f",
    ),
}
"""Wrong programs, by what makes the tests believe them."""

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

class TreeNode:
    def __init__(self, val=0, left=None, right=None):
        self.val = val
        self.left = left
        self.right = right

def tree_node(values: list):
    if not values:
        return None
    root = TreeNode(values[0])
    i = 1
    queue = deque()
    queue.append(root)
    while queue:
        node = queue.popleft()
        if i < len(values) and values[i] is not None:
            node.left = TreeNode(values[i])
            queue.append(node.left)
        i += 1
        if i < len(values) and values[i] is not None:
            node.right = TreeNode(values[i])
            queue.append(node.right)
        i += 1
    return root

"""
"""The head that a data set of LeetCode gives to each program."""
PUBLISHED: dict[str, tuple[dict[str, str], str, bool | None]] = {
    "leetcode list": (
        {
            "entry_point": "Solution().reverse",
            "prompt": LEETCODE,
            "tests": (
                "def check(candidate):\n"
                "    assert is_same_list(candidate(head = list_node([1,2,3])), list_node([3,2,1]))\n"
                "    assert is_same_list(candidate(head = list_node([])), list_node([]))"
            ),
        },
        (
            "class Solution:\n"
            "    def reverse(self, head: Optional[ListNode]) -> Optional[ListNode]:\n"
            "        dummy = ListNode(0)\n"
            "        while head:\n"
            "            nxt = head.next\n"
            "            head.next = dummy.next\n"
            "            dummy.next = head\n"
            "            head = nxt\n"
            "        return dummy.next\n"
        ),
        True,
    ),
    "leetcode tree": (
        {
            "entry_point": "Solution().depth",
            "prompt": LEETCODE,
            "tests": (
                "def check(candidate):\n"
                "    assert candidate(root = tree_node([3,9,20,None,None,15,7])) == 3"
            ),
        },
        (
            "```python\n"
            "class Solution:\n"
            "    def depth(self, root: Optional[TreeNode]) -> int:\n"
            "        if not root: return 0\n"
            "        q = deque([root]); d = 0\n"
            "        while q:\n"
            "            d += 1\n"
            "            for _ in range(len(q)):\n"
            "                n = q.popleft()\n"
            "                for c in (n.left, n.right):\n"
            "                    if c: q.append(c)\n"
            "        return d\n"
            "```"
        ),
        True,
    ),
    "leetcode wrong": (
        {
            "entry_point": "Solution().depth",
            "prompt": LEETCODE,
            "tests": (
                "def check(candidate):\n"
                "    assert candidate(root = tree_node([3,9,20,None,None,15,7])) == 3"
            ),
        },
        "class Solution:\n    def depth(self, root): return 2",
        False,
    ),
    "classeval": (
        {
            "entry_point": "BankAccount",
            "tests": (
                "import unittest\n"
                "class BankAccountTestDeposit(unittest.TestCase):\n"
                "    def test_deposit(self):\n"
                "        a = BankAccount()\n"
                "        self.assertEqual(a.deposit(1000), 1000)\n"
                "    def test_2(self):\n"
                "        a = BankAccount()\n"
                "        with self.assertRaises(ValueError) as context:\n"
                "            a.deposit(-1000)\n"
                "        self.assertEqual(str(context.exception), 'Invalid amount')\n"
                "    def test_3(self):\n"
                "        a = BankAccount(); b = BankAccount()\n"
                "        a.balance = 800\n"
                "        b.balance = 1000\n"
                "        a.transfer(b, 300)\n"
                "        self.assertEqual(a.view_balance(), 500)\n"
                "        self.assertEqual(b.view_balance(), 1300)\n"
            ),
        },
        (
            "class BankAccount:\n"
            "    def __init__(self, balance=0): self.balance=balance\n"
            "    def deposit(self, amount):\n"
            "        if amount<0: raise ValueError('Invalid amount')\n"
            "        self.balance+=amount\n"
            "        return self.balance\n"
            "    def view_balance(self): return self.balance\n"
            "    def transfer(self, other, amount):\n"
            "        self.balance-=amount\n"
            "        other.balance+=amount\n"
        ),
        True,
    ),
    "kodcode two": (
        {
            "entry_point": "enc",
            "tests": (
                "from solution import enc, dec\n"
                "\n"
                "def test_basic():\n"
                "    assert dec(enc('ab'))=='ab'\n"
                "    assert enc('ab')=='bc'"
            ),
        },
        (
            "def enc(s): return ''.join(chr(ord(c)+1) for c in s)\n"
            "def dec(s): return ''.join(chr(ord(c)-1) for c in s)"
        ),
        True,
    ),
    "kodcode star": (
        {
            "entry_point": "enc",
            "tests": "from solution import *\n\ndef test_basic():\n    assert enc('ab')=='bc'",
        },
        "def enc(s): return ''.join(chr(ord(c)+1) for c in s)",
        True,
    ),
    "import solution": (
        {"entry_point": "enc", "tests": "import solution\nassert solution.enc('ab')=='bc'"},
        "def enc(s): return ''.join(chr(ord(c)+1) for c in s)",
        True,
    ),
    "patch stdout": (
        {
            "entry_point": "f",
            "tests": (
                "import io, unittest\n"
                "from unittest.mock import patch\n"
                "class T(unittest.TestCase):\n"
                "    @patch('sys.stdout', new_callable=io.StringIO)\n"
                "    def test(self, out):\n"
                "        f(2)\n"
                "        self.assertEqual(out.getvalue(), '2\\n')\n"
            ),
        },
        "def f(x): print(x)",
        True,
    ),
    "capsys": (
        {
            "entry_point": "f",
            "tests": (
                "def test(capsys):\n    f(2)\n    assert capsys.readouterr().out == '2\\n'\n"
            ),
        },
        "def f(x): print(x)",
        None,
    ),
    "tmp_path": (
        {
            "entry_point": "f",
            "tests": (
                "def test(tmp_path):\n"
                "    p = tmp_path / 'a.txt'\n"
                "    p.write_text('3')\n"
                "    assert f(str(p)) == 3\n"
            ),
        },
        "def f(p): return int(open(p).read())",
        None,
    ),
    "performance": (
        {
            "entry_point": "f",
            "tests": "import time\nt=time.time()\nassert f(10)==10\nassert time.time()-t < 2",
        },
        "def f(x): return x",
        True,
    ),
    "randomized": (
        {
            "entry_point": "f",
            "tests": (
                "import random\n"
                "def ref(x): return sorted(x)\n"
                "for _ in range(20):\n"
                "    x=[random.randint(0,9) for _ in range(random.randint(0,5))]\n"
                "    assert f(x[:])==ref(x)"
            ),
        },
        "def f(x): return sorted(x)",
        True,
    ),
    "table": (
        {
            "entry_point": "f",
            "tests": (
                "cases=[((1,2),3),((0,0),0)]\n"
                "for (a,b),want in cases:\n"
                "    got=f(a,b)\n"
                "    assert got==want, f'{a} {b} {got}'"
            ),
        },
        "def f(a,b): return a+b",
        True,
    ),
    "np array arg": (
        {
            "entry_point": "f",
            "tests": (
                "import numpy as np\n"
                "a=np.arange(6).reshape(2,3)\n"
                "assert (f(a)==a.T).all()\n"
                "assert f(a).shape==(3,2)"
            ),
        },
        "def f(a): return a.T",
        True,
    ),
    "np in place": (
        {"entry_point": "f", "tests": "import numpy as np\na=np.zeros(3)\nf(a)\nassert a.sum()==3"},
        "def f(a): a += 1",
        True,
    ),
    "np random seed": (
        {
            "entry_point": "f",
            "tests": (
                "import numpy as np\n"
                "np.random.seed(0)\n"
                "x=np.random.rand(4)\n"
                "assert abs(f(x)-x.mean())<1e-9"
            ),
        },
        "import numpy as np\ndef f(x): return np.mean(x)",
        True,
    ),
    "compose": (
        {"entry_point": "f", "tests": "assert f(lambda x:x+1, lambda x:x*2)(3)==7"},
        "def f(g,h): return lambda x: g(h(x))",
        True,
    ),
    "vector eq": (
        {
            "entry_point": "Vector",
            "tests": (
                "v=Vector(1,2)+Vector(3,4)\n"
                "assert str(v)=='(4, 6)'\n"
                "assert (v*2).x==8\n"
                "assert v.length() > 7"
            ),
        },
        (
            "class Vector:\n"
            "    def __init__(s,x,y): s.x,s.y=x,y\n"
            "    def __add__(s,o): return Vector(s.x+o.x,s.y+o.y)\n"
            "    def __mul__(s,k): return Vector(s.x*k,s.y*k)\n"
            "    def __str__(s): return f'({s.x}, {s.y})'\n"
            "    def length(s): return (s.x**2+s.y**2)**.5"
        ),
        True,
    ),
    "property tolerance": (
        {
            "entry_point": "Circle",
            "tests": "c=Circle(2)\nassert abs(c.area()-12.566370614)<1e-6\nassert c.radius==2",
        },
        (
            "import math\n"
            "class Circle:\n"
            "    def __init__(s,r): s.radius=r\n"
            "    def area(s): return math.pi*s.radius**2"
        ),
        True,
    ),
    "enum": (
        {
            "entry_point": "f",
            "tests": (
                "from enum import Enum\n"
                "class Color(Enum):\n"
                "    RED=1\n"
                "    BLUE=2\n"
                "assert f(Color.RED)==Color.BLUE"
            ),
        },
        "def f(c): return Color.BLUE if c is Color.RED else Color.RED",
        True,
    ),
    "logs": (
        {
            "entry_point": "f",
            "tests": "import logging\nlogging.disable(logging.CRITICAL)\nassert f(1)==1",
        },
        "import logging\ndef f(x):\n    logging.warning('x')\n    return x",
        True,
    ),
    "uuid": (
        {"entry_point": "f", "tests": "import uuid\nassert f(str(uuid.uuid4()))"},
        "import uuid\ndef f(s):\n    return uuid.UUID(s).version==4",
        None,
    ),
}
"""Lines as data sets publish them, programs, and their scores."""
