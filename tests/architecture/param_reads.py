"""Attributes that source code reads, by class: a small type inference from annotations.

`run.params.train.lr` is resolved by the annotations of arguments, fields, properties and return
types, and by local assignments. A container counts as its elements, a union as all its members.
Functions and classes are told apart by name alone. An expression without a type is no read.
"""

import ast
from collections import defaultdict
from collections.abc import Iterable, Iterator

Names = set[str]
Function = ast.FunctionDef | ast.AsyncFunctionDef
_FUNCTIONS = (ast.FunctionDef, ast.AsyncFunctionDef)


def reads_of(indexed: Iterable[str], reading: Iterable[str]) -> set[tuple[str, str]]:
    """(class, attribute) of every attribute that the sources ``reading`` read.

    Args:
        indexed: further sources with classes and functions; what they read does not count.
        reading: sources.
    """
    reading_trees = [ast.parse(source) for source in reading]
    index = _Index([*map(ast.parse, indexed), *reading_trees])
    reads: set[tuple[str, str]] = set()
    # Types of attributes that are set in methods are complete after the first pass.
    for _ in range(2):
        reads = {read for tree in reading_trees for read in index.reads(tree)}
    return reads


class _Index:
    """Classes with the types of their attributes, and functions with their return types."""

    def __init__(self, trees: Iterable[ast.Module]) -> None:
        self.attributes: dict[str, dict[str, Names]] = defaultdict(lambda: defaultdict(set))
        self.returns: dict[str, Names] = defaultdict(set)
        for tree in trees:
            for node in ast.walk(tree):
                if isinstance(node, ast.ClassDef):
                    self._add_class(node)
                elif isinstance(node, _FUNCTIONS):
                    self.returns[node.name] |= _names_in(node.returns)
        for types in (self.returns, *self.attributes.values()):
            for name in types:
                types[name] &= self.attributes.keys()

    def _add_class(self, node: ast.ClassDef) -> None:
        attributes = self.attributes[node.name]
        for statement in node.body:
            if isinstance(statement, ast.AnnAssign) and isinstance(statement.target, ast.Name):
                attributes[statement.target.id] |= _names_in(statement.annotation)
            elif isinstance(statement, _FUNCTIONS):
                attributes[statement.name] |= _names_in(statement.returns)

    def reads(self, tree: ast.Module) -> Iterator[tuple[str, str]]:
        """All reads of a module: of its own level, then of each function and method."""
        apart = (*_FUNCTIONS, ast.ClassDef)
        module = _Scope(self, [s for s in tree.body if not isinstance(s, apart)])
        yield from module.reads()
        for statement in tree.body:
            if isinstance(statement, ast.ClassDef):
                for part in statement.body:
                    yield from _Scope(self, [part], module, owner=statement.name).reads()
            elif isinstance(statement, _FUNCTIONS):
                yield from _Scope(self, [statement], module).reads()


class _Scope:
    """Names with their types; nested functions share the scope of the outermost."""

    def __init__(
        self,
        index: _Index,
        body: list[ast.stmt],
        outer: "_Scope | None" = None,
        *,
        owner: str | None = None,
    ) -> None:
        self._index = index
        self._types: dict[str, Names] = defaultdict(set)
        if outer is not None:
            self._types.update({name: set(types) for name, types in outer._types.items()})
        self._nodes = [node for statement in body for node in ast.walk(statement)]
        for node in self._nodes:
            if isinstance(node, ast.arg):
                self._types[node.arg] |= _names_in(node.annotation) & index.attributes.keys()
        if owner is not None:
            self._types["self"] |= {owner}
        bindings = [binding for node in self._nodes for binding in _bindings(node)]
        for _ in range(2):  # nodes are in breadth-first order, not in that of execution
            for target, value in bindings:
                self._bind(target, value)

    def reads(self) -> Iterator[tuple[str, str]]:
        for node in self._nodes:
            if isinstance(node, ast.Attribute):
                yield from ((found, node.attr) for found in self._types_of(node.value))

    def _bind(self, target: ast.expr, value: ast.expr) -> None:
        if isinstance(target, ast.Name):
            self._types[target.id] |= self._types_of(value)
        elif isinstance(target, ast.Attribute):
            for owner in self._types_of(target.value):
                self._index.attributes[owner][target.attr] |= self._types_of(value)
        elif isinstance(target, ast.Tuple):
            same = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
            values = value.elts if same else [value] * len(target.elts)
            for one_target, one_value in zip(target.elts, values, strict=True):
                self._bind(one_target, one_value)

    def _types_of(self, node: ast.expr) -> Names:
        if isinstance(node, ast.Name):
            return self._types.get(node.id, set())
        if isinstance(node, ast.Attribute):
            return self._attribute(node)
        if isinstance(node, ast.Call):
            return self._call(node)
        if isinstance(node, ast.Lambda | ast.Constant | ast.Compare):
            return set()
        return self._union(child for child in ast.iter_child_nodes(node))

    def _attribute(self, node: ast.Attribute) -> Names:
        owners = self._types_of(node.value) & self._index.attributes.keys()
        return set().union(*(self._index.attributes[o].get(node.attr, set()) for o in owners))

    def _call(self, node: ast.Call) -> Names:
        called = node.func
        if isinstance(called, ast.Attribute) and (found := self._attribute(called)):
            return found
        name = called.attr if isinstance(called, ast.Attribute) else getattr(called, "id", "")
        if name in self._index.attributes:
            return {name}
        if name in self._index.returns:
            return self._index.returns[name]
        if name == "model_copy" and isinstance(called, ast.Attribute):
            return self._types_of(called.value)
        return self._union(node.args)  # replace, sorted, zip, next

    def _union(self, nodes: Iterable[ast.AST]) -> Names:
        return set().union(*(self._types_of(n) for n in nodes if isinstance(n, ast.expr)))


def _bindings(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets that ``node`` assigns, each with its value or the container of its values."""
    if isinstance(node, ast.Assign):
        yield from ((target, node.value) for target in node.targets)
    elif isinstance(node, ast.AnnAssign):
        yield node.target, _annotated(node.annotation)
    elif isinstance(node, ast.NamedExpr):
        yield node.target, node.value
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        yield node.target, node.iter
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        yield node.optional_vars, node.context_expr


def _annotated(annotation: ast.expr) -> ast.expr:
    """An expression of the type that ``annotation`` names: calls of all its classes."""
    calls = [
        ast.Call(func=ast.Name(id=name, ctx=ast.Load()), args=[], keywords=[])
        for name in sorted(_names_in(annotation))
    ]
    return ast.Set(elts=calls)


def _names_in(annotation: ast.expr | None) -> Names:
    if annotation is None:
        return set()
    found: Names = set()
    for node in ast.walk(annotation):
        if isinstance(node, ast.Name):
            found.add(node.id)
        elif isinstance(node, ast.Attribute):
            found.add(node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            found |= {n.id for n in ast.walk(_parsed(node.value)) if isinstance(n, ast.Name)}
    return found


def _parsed(text: str) -> ast.AST:
    try:
        return ast.parse(text, mode="eval")
    except SyntaxError:  # help of a command in Annotated
        return ast.Module(body=[], type_ignores=[])
