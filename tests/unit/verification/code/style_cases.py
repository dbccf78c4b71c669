"""Programs of published styles, and how they are judged: right, wrong, or not at all."""

CASES: dict[str, tuple[str, str, bool | None, str]] = {
    "numpy prog": (
        "assert f([1,2])==3",
        "import numpy as np\ndef f(x): return np.sum(x)",
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
    "numpy tests wrong": (
        "import numpy as np\nassert np.allclose(f(np.array([1.,2.])),[2,5])",
        "def f(x): return x*2",
        False,
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
    "lambda arg": (
        "assert f(lambda v: v+1,[1,2])==[2,3]",
        "def f(g,x): return [g(v) for v in x]",
        True,
        "f",
    ),
    "lambda arg wrong": (
        "assert f(lambda v: v+1,[1,2])==[2,3]",
        "def f(g,x): return x",
        False,
        "f",
    ),
    "generator arg": (
        "assert f(i for i in range(4))==6",
        "def f(x): return sum(x)",
        True,
        "f",
    ),
    "builtin arg": (
        "assert f(len,['a','bb'])==[1,2]",
        "def f(g,x): return list(map(g,x))",
        True,
        "f",
    ),
    "nested callback": (
        "assert f(lambda n: 1 if n<2 else n*f(lambda m: 1, n-1), 5)==5",
        "def f(g,n): return g(n)",
        True,
        "f",
    ),
    "async": (
        "import asyncio\nassert asyncio.run(f(2))==4",
        ("import asyncio\nasync def f(x):\n    await asyncio.sleep(0)\n    return x*x"),
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
    "subprocess in tests": (
        ("import subprocess\nassert subprocess.run(['true']).returncode==0\nassert f(1)==1"),
        "def f(x): return x",
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
    "raise": (
        "if f(1)!=1: raise RuntimeError('bad')",
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
    "patched time": (
        (
            "from unittest.mock import patch\n"
            "with patch('time.time', return_value=5):\n"
            "    assert f()==5"
        ),
        "import time\ndef f(): return time.time()",
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
    "BST": (
        "b=BST()\nb.insert(3)\nassert b.items()==[3]",
        (
            "class BST:\n"
            "    def __init__(self): self.d=[]\n"
            "    def insert(self,k): self.d.append(k)\n"
            "    def items(self): return self.d"
        ),
        True,
        "BST",
    ),
    "Q": (
        "q=Q()\nq.push(3)\nassert q.pop()==3 and len(q)==0",
        (
            "class Q:\n"
            "    def __init__(self): self.d=[]\n"
            "    def push(self,k): self.d.append(k)\n"
            "    def pop(self): return self.d.pop()\n"
            "    def __len__(self): return len(self.d)"
        ),
        True,
        "Q",
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
    "tree own class": (
        (
            "class TreeNode:\n"
            "    def __init__(self,val=0,left=None,right=None):\n"
            "        self.val=val\n"
            "        self.left=left\n"
            "        self.right=right\n"
            "assert f(TreeNode(1,TreeNode(2)))==2"
        ),
        (
            "class TreeNode:\n"
            "    def __init__(self,val=0,left=None,right=None):\n"
            "        self.val=val; self.left=left; self.right=right\n"
            "def f(r): return 1+max(f(r.left),f(r.right)) if r else 0"
        ),
        True,
        "f",
    ),
    "linked wrong": (
        (
            "class ListNode:\n"
            "    def __init__(self,val=0,next=None):\n"
            "        self.val=val\n"
            "        self.next=next\n"
            "def out(h):\n"
            "    r=[]\n"
            "    while h: r.append(h.val); h=h.next\n"
            "    return r\n"
            "assert out(f(ListNode(1,ListNode(2))))==[2,1]"
        ),
        "def f(head): return head",
        False,
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
    "prop": (
        ("import random\nfor _ in range(5):\n    n=random.randint(1,99)\n    assert f(n)==n*n"),
        "def f(x): return x*x",
        True,
        "f",
    ),
}

FORGED: dict[str, tuple[str, str, str]] = {
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
