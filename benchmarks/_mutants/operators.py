"""Small mistakes, made from syntax trees.

Each operator looks at one node and yields the part of the source to replace, the new text, and
what goes wrong. Whether a mistake is critical (it lets a stated ε or a secret go) follows from the
operator, and for removed checks from what they raise.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from typing import NamedTuple

from benchmarks._mutants.mutant import Mutant

# refusals that stand between a value and the outside
GUARDS = {"BudgetExceeded", "NothingReleased", "RequestRefused", "NotCertified", "PolicyRefused",
          "VerificationFailed", "SiteFailure", "LedgerCorrupt", "LedgerError", "UnboundedData",
          "refused"}  # fmt: skip
PAYING = {"claim", "charge", "claim_step", "verify", "_check_process", "_step", "advance",
          "check_supported", "_check_consistent", "note", "subtract", "_keep", "_wipe",
          "write_durably", "check_arrays"}  # fmt: skip
FLIPS = {ast.LtE: ("<=", "<"), ast.Lt: ("<", "<="), ast.GtE: (">=", ">"), ast.Gt: (">", ">=")}
EXTREMES = {"max": "min", "min": "max", "maximum": "minimum", "minimum": "maximum"}
# what is learned or shown, and costs nobody any privacy
HARMLESS = ("variance", "entry_variance", "bias", "price_of", "citations", "assumptions")
ROUNDINGS = {"ceil": "floor", "floor": "ceil", "float_above": "float_below",
             "float_below": "float_above"}  # fmt: skip


class Edit(NamedTuple):
    """A part of the source, what to put there, what goes wrong, and whether that is critical."""

    node: ast.AST | tuple[int, int]
    new: str
    why: str
    critical: bool


class Text:
    """A file's text, by the positions of its syntax tree."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._starts = [0]
        for line in text.splitlines(keepends=True):
            self._starts.append(self._starts[-1] + len(line))
        self._lines = text.splitlines(keepends=True)

    def at(self, line: int, column: int) -> int:
        """Return the position of a line and a column in UTF-8 bytes."""
        inside = self._lines[line - 1].encode()[:column].decode()
        return self._starts[line - 1] + len(inside)

    def span(self, node: ast.AST | tuple[int, int]) -> tuple[int, int]:
        """Return where a node starts and stops."""
        if isinstance(node, tuple):
            return node
        return self.at(node.lineno, node.col_offset), self.at(
            node.end_lineno or 0, node.end_col_offset or 0
        )

    def of(self, node: ast.AST) -> str:
        """Return a node's text."""
        start, stop = self.span(node)
        return self.text[start:stop]


def _called(node: ast.AST) -> str:
    """Return the last name of what is called."""
    if not isinstance(node, ast.Call):
        return ""
    if isinstance(node.func, ast.Attribute):
        return node.func.attr
    return node.func.id if isinstance(node.func, ast.Name) else ""


def comparisons(node: ast.AST, text: Text) -> Iterator[Edit]:
    """`<=` for `<` and the like: a bound is missed by one, or by a hair."""
    if not isinstance(node, ast.Compare):
        return
    left = node.left
    for kind, right in zip(node.ops, node.comparators, strict=True):
        if type(kind) in FLIPS:
            old, new = FLIPS[type(kind)]
            start = text.text.find(old, text.span(left)[1], text.span(right)[0])
            if start >= 0:
                yield Edit((start, start + len(old)), new, f"{old} became {new}", False)
        left = right


def removed_checks(node: ast.AST, text: Text) -> Iterator[Edit]:
    """`if …: raise …` never raises."""
    if isinstance(node, ast.If) and not node.orelse and isinstance(node.body[-1], ast.Raise):
        raised = node.body[-1].exc
        name = _called(raised) or (raised.id if isinstance(raised, ast.Name) else "")
        yield Edit(node.test, "False", f"never raises {name or 'again'}", name in GUARDS)


def extremes(node: ast.AST, text: Text) -> Iterator[Edit]:
    """The least for the largest."""
    name = _called(node)
    if name in EXTREMES and isinstance(node, ast.Call):
        if len(node.args) < 2 and not isinstance(node.func, ast.Name):
            return  # an array's own largest number
        stop, new = text.span(node.func)[1], EXTREMES[name]
        yield Edit((stop - len(name), stop), new, f"{name} became {new}", True)


def roots(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A square root is left out."""
    if _called(node) == "sqrt" and isinstance(node, ast.Call):
        yield Edit(node, f"({text.of(node.args[0])})", "no square root", True)


def roundings(node: ast.AST, text: Text) -> Iterator[Edit]:
    """What was rounded up is rounded down, or not rounded at all."""
    name = _called(node)
    if not isinstance(node, ast.Call):
        return
    if name in ROUNDINGS:
        stop = text.span(node.func)[1]
        new = ROUNDINGS[name]
        yield Edit((stop - len(name), stop), new, f"{name} became {new}", True)
    elif name == "round_up":
        yield Edit(node, f"({text.of(node.args[0])})", "not rounded up", True)


def clips(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A contribution is not clipped."""
    if _called(node) in ("clip", "clip_values", "clip_rows") and isinstance(node, ast.Call):
        yield Edit(node, f"({text.of(node.args[0])})", "not clipped", True)


def noise_scales(node: ast.AST, text: Text) -> Iterator[Edit]:
    """Half of the noise is drawn."""
    if (
        _called(node) in ("gaussian", "laplace", "geometric")
        and isinstance(node, ast.Call)
        and len(node.args) > 1
    ):
        scale = node.args[1]
        yield Edit(scale, f"({text.of(scale)}) * 0.5", "half of the noise", True)


def relations(node: ast.AST, text: Text) -> Iterator[Edit]:
    """One neighbour relation is taken for the other."""
    swap = {"REPLACE": "ADD_REMOVE", "ADD_REMOVE": "REPLACE"}
    if isinstance(node, ast.Name) and node.id in swap and isinstance(node.ctx, ast.Load):
        new = swap[node.id]
        value = {"REPLACE": '"replace-one"', "ADD_REMOVE": '"add-remove-one"'}[new]
        yield Edit(node, value, f"{node.id} became {new}", True)


def factors(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A factor of a product is halved."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Mult | ast.Div):
        for side in (node.left, node.right):
            if isinstance(side, ast.Constant) and side.value in (2, 4, 0.5, 8, 0.25):
                yield Edit(side, repr(side.value * 0.5), "a factor is halved", True)


def powers(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A square is left out."""
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Pow)
        and isinstance(node.right, ast.Constant)
        and node.right.value == 2
    ):
        yield Edit(node, f"({text.of(node.left)})", "not squared", True)


def off_by_one(node: ast.AST, text: Text) -> Iterator[Edit]:
    """`+ 1` or `− 1` is left out."""
    if (
        isinstance(node, ast.BinOp)
        and isinstance(node.op, ast.Add | ast.Sub)
        and isinstance(node.right, ast.Constant)
        and node.right.value == 1
    ):
        yield Edit(node, f"({text.of(node.left)})", "off by one", False)


def growths(node: ast.AST, text: Text) -> Iterator[Edit]:
    """What rounding to the grid adds to a sensitivity is forgotten."""
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.Add):
        right = text.of(node.right)
        if "growth" in right and isinstance(node.right, ast.Name | ast.Call | ast.Attribute):
            yield Edit(node, f"({text.of(node.left)})", "the growth is forgotten", True)


def skipped_calls(node: ast.AST, text: Text) -> Iterator[Edit]:
    """A claim, a charge or a check is not made."""
    if isinstance(node, ast.Expr) and _called(node.value) in PAYING:
        yield Edit(node, "pass", f"no {_called(node.value)}", True)


def connectives(node: ast.AST, text: Text) -> Iterator[Edit]:
    """`and` for `or`."""
    if isinstance(node, ast.BoolOp):
        old, new = ("and", "or") if isinstance(node.op, ast.And) else ("or", "and")
        first, second = node.values[:2]
        start = text.text.find(f"{old} ", text.span(first)[1], text.span(second)[0])
        if start >= 0:
            edit = (start, start + len(old))
            yield Edit(edit, new, f"{old} became {new}", False)


def magnitudes(node: ast.AST, text: Text) -> Iterator[Edit]:
    """Signs are kept where only the size counts."""
    if _called(node) == "abs" and isinstance(node, ast.Call):
        yield Edit(node, f"({text.of(node.args[0])})", "no absolute value", True)


OPERATORS: dict[str, Callable[[ast.AST, Text], Iterator[Edit]]] = {
    function.__name__.replace("_", "-"): function
    for function in (
        comparisons, removed_checks, extremes, roots, roundings, clips, noise_scales, relations,
        factors, powers, off_by_one, growths, skipped_calls, connectives, magnitudes,
    )
}  # fmt: skip


def mutants_of(file: str, source: str) -> Iterator[Mutant]:
    """Yield every mistake that the operators can make in one file."""
    text = Text(source)
    counts: dict[str, int] = {}
    for function, node in _inside(ast.parse(source), "module"):
        for operator, make in OPERATORS.items():
            for edit in make(node, text):
                start, stop = text.span(edit.node)
                key = f"{file}:{function}:{operator}"
                counts[key] = number = counts.get(key, 0) + 1
                line = source.count("\n", 0, start) + 1
                grave = edit.critical and _matters(file, function, operator)
                yield Mutant(f"{key}:{number}", file, start, stop, edit.new, line, edit.why, grave)


def _matters(file: str, function: str, operator: str) -> bool:
    """Whether a wrong number here is a wrong ε, rather than a worse result."""
    if function.rpartition(".")[2] in HARMLESS:
        return False
    if operator in ("removed-checks", "skipped-calls", "clips", "noise-scales", "relations"):
        return True
    return file.startswith(("privacy/", "mechanisms/")) or file.endswith(
        ("agreement.py", "layout.py", "design.py")
    )


def _inside(node: ast.AST, function: str) -> Iterator[tuple[str, ast.AST]]:
    """Yield every node that is run, with the function that it is in."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import | ast.ImportFrom | ast.AnnAssign) and function == "module":
            continue
        inner = function
        if isinstance(child, ast.FunctionDef | ast.ClassDef):
            inner = child.name if function == "module" else f"{function}.{child.name}"
            if child.name in ("__repr__", "__str__", "_repr_html_", "examples", "described"):
                continue  # words, and data of tests
        if isinstance(child, ast.If) and ast.unparse(child.test) == "TYPE_CHECKING":
            continue
        yield inner, child
        yield from _inside(child, inner)
