"""Mutation operators: each mutant changes one place of a module's source.

Comparisons and conditions negated, constants off by one, arithmetic and min/max swapped, statements
deleted. Strings, annotations, decorators, error messages and tests of TYPE_CHECKING are not mutated.
"""

import ast
from collections.abc import Iterator
from dataclasses import dataclass

from typing_extensions import override

COMPARISONS: dict[type[ast.cmpop], type[ast.cmpop]] = {
    ast.Lt: ast.LtE,
    ast.LtE: ast.Lt,
    ast.Gt: ast.GtE,
    ast.GtE: ast.Gt,
    ast.Eq: ast.NotEq,
    ast.NotEq: ast.Eq,
    ast.In: ast.NotIn,
    ast.NotIn: ast.In,
    ast.Is: ast.IsNot,
    ast.IsNot: ast.Is,
}
ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.Div,
    ast.Div: ast.Mult,
    ast.FloorDiv: ast.Mult,
    ast.Mod: ast.FloorDiv,
    ast.Pow: ast.Mult,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}
EXTREMES = {"min": "max", "max": "min", "any": "all", "all": "any"}
CONDITIONAL = ast.If | ast.While | ast.IfExp


@dataclass(frozen=True, slots=True)
class Mutant:
    """One place of a module and its replacement."""

    path: str
    line: int
    start: int
    """Byte offset in the UTF-8 source; ``end`` is exclusive."""
    end: int
    before: str
    after: str

    @override
    def __str__(self) -> str:
        shown = " ".join(f"{self.before} -> {self.after}".split())
        return f"{self.path}:{self.line}@{self.start}: {shown}"

    def apply(self, source: str) -> str:
        """The source with the mutation."""
        data = source.encode()
        return (data[: self.start] + self.after.encode() + data[self.end :]).decode()


def find_mutants(source: str, path: str) -> list[Mutant]:
    """All mutants of a module, by position."""
    data = source.encode()
    starts = [0]
    for line in data.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))
    found = set()
    for node, instead in _changes(ast.parse(source)):
        assert node.end_lineno is not None
        assert node.end_col_offset is not None
        start = starts[node.lineno - 1] + node.col_offset
        end = starts[node.end_lineno - 1] + node.end_col_offset
        before = data[start:end].decode()
        found.add(Mutant(path, node.lineno, start, end, before, instead))
    return sorted(found, key=lambda one: (one.start, one.end, one.after))


def _changes(node: ast.AST) -> Iterator[tuple[ast.expr | ast.stmt, str]]:
    """This node and those below it, each with a replacement text."""
    if isinstance(node, ast.stmt):
        yield from _delete(node)
    elif isinstance(node, ast.expr):
        for changed in _mutate(node):
            yield node, f"({ast.unparse(changed)})"
    if isinstance(node, CONDITIONAL) and ast.unparse(node.test) != "TYPE_CHECKING":
        yield node.test, f"(not ({ast.unparse(node.test)}))"
    if isinstance(node, ast.comprehension):
        for test in node.ifs:
            yield test, f"(not ({ast.unparse(test)}))"
    for child in _mutable_children(node):
        yield from _changes(child)


def _mutable_children(node: ast.AST) -> Iterator[ast.AST]:
    left_alone = {"annotation", "returns", "decorator_list", "type_comment", "msg", "type_params"}
    if isinstance(node, ast.Raise | ast.JoinedStr | ast.Import | ast.ImportFrom):
        return
    for name, value in ast.iter_fields(node):
        if name not in left_alone:
            children = value if isinstance(value, list) else [value]
            yield from (child for child in children if isinstance(child, ast.AST))


def _delete(node: ast.stmt) -> Iterator[tuple[ast.stmt, str]]:
    match node:
        case ast.Expr(value=ast.Call()) | ast.AugAssign() | ast.Raise() | ast.Continue():
            yield node, "pass"
        case ast.Break():
            yield node, "continue"
        case _:
            pass


def _mutate(node: ast.expr) -> Iterator[ast.expr]:
    """Mutations of one expression."""
    match node:
        case ast.Compare(left=left, ops=ops, comparators=others):
            for place, op in enumerate(ops):
                negated = [*ops[:place], COMPARISONS[type(op)](), *ops[place + 1 :]]
                yield ast.Compare(left, negated, others)
        case ast.BinOp(left=left, op=op, right=right) if _is_arithmetic(node):
            yield ast.BinOp(left, ARITHMETIC[type(op)](), right)
        case ast.BoolOp(op=op, values=values):
            yield ast.BoolOp(ast.Or() if isinstance(op, ast.And) else ast.And(), values)
        case ast.UnaryOp(op=ast.Not() | ast.USub(), operand=operand):
            yield operand
        case ast.Call(func=ast.Name(id=name), args=args, keywords=keywords) if name in EXTREMES:
            yield ast.Call(ast.Name(EXTREMES[name]), args, keywords)
        case ast.Constant(value=bool() | int() | float() as value):
            yield ast.Constant(_change_constant(value))
        case _:
            pass


def _change_constant(value: float) -> float:
    """The other truth value, the next whole number, or twice the number."""
    if isinstance(value, bool):
        return not value
    return value + 1 if isinstance(value, int) else value * 2 or 1.0


def _is_arithmetic(node: ast.BinOp) -> bool:
    """True for a mutated operator without a string literal on either side."""
    sides = (node.left, node.right)
    texts = [
        isinstance(side, ast.JoinedStr)
        or (isinstance(side, ast.Constant) and isinstance(side.value, str | bytes))
        for side in sides
    ]
    return type(node.op) in ARITHMETIC and not any(texts)
