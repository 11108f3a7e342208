"""Products of table rows in vector registers, for use inside compiled kernels.

Left to itself the compiler unrolls a loop over one row for long rows; the rows of a factor are
short. These functions work on C-contiguous float64 tables whose width is a multiple of `LANES`
(pad with zeros: `padded`), a register at a time. Sums may be reordered.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = ["LANES", "add_product", "add_row", "dot", "padded", "product_dot"]

LANES = 4
_VECTOR = ir.VectorType(ir.DoubleType(), LANES)
_FLAGS = ("reassoc", "contract")


def padded(table: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return a table whose width is a multiple of `LANES`, with zeros at the end of each row."""
    width = -(-table.shape[1] // LANES) * LANES
    if table.shape[1] == width and table.flags.c_contiguous:
        return table
    wide = np.zeros((len(table), width))
    wide[:, : table.shape[1]] = table
    return wide


class _Rows:
    """The rows that one call works on: pointers, and a loop over their registers."""

    def __init__(self, context: Any, builder: Any, signature: Any, arguments: Any) -> None:
        self.builder = builder
        self.pointers = []
        for k, kind in enumerate(signature.args[:-1]):
            if isinstance(kind, types.Array):
                table = context.make_array(kind)(context, builder, arguments[k])
                self.width = cgutils.unpack_tuple(builder, table.shape, 2)[1]
                start = builder.mul(arguments[k + 1], self.width)
                self.pointers.append(builder.gep(table.data, [start]))

    def _at(self, k: int, r: Any) -> Any:
        return self.builder.bitcast(self.builder.gep(self.pointers[k], [r]), _VECTOR.as_pointer())

    def each(self, body: Callable[[Any], None]) -> None:
        kind = self.width.type
        first, step = ir.Constant(kind, 0), ir.Constant(kind, LANES)
        with cgutils.for_range_slice(self.builder, first, self.width, step, kind) as (r, _):
            body(r)

    def product(self, tables: tuple[int, ...], r: Any) -> Any:
        """Return the product of some of the rows at r."""
        values = [self.builder.load(self._at(k, r), align=8) for k in tables]
        found = values[0]
        for value in values[1:]:
            found = self.builder.fmul(found, value, flags=_FLAGS)
        return found

    def sum_product(self, tables: tuple[int, ...]) -> Any:
        """Return Σ_r of the product of some of the rows."""
        b = self.builder
        total = cgutils.alloca_once_value(b, ir.Constant(_VECTOR, [0.0] * LANES))
        self.each(
            lambda r: b.store(b.fadd(b.load(total), self.product(tables, r), flags=_FLAGS), total)
        )
        lanes = b.load(total)
        found = None
        for k in range(LANES):
            lane = b.extract_element(lanes, ir.Constant(ir.IntType(32), k))
            found = lane if found is None else b.fadd(found, lane, flags=_FLAGS)
        return found

    def add_to_first(self, scale: Any, tables: tuple[int, ...]) -> None:
        """Add scale × the product of some of the rows to the first row."""
        b = self.builder
        spread = ir.Constant(_VECTOR, ir.Undefined)
        for k in range(LANES):
            spread = b.insert_element(spread, scale, ir.Constant(ir.IntType(32), k))

        def body(r: Any) -> None:
            added = b.fmul(spread, self.product(tables, r), flags=_FLAGS)
            before = b.load(self._at(0, r), align=8)
            b.store(b.fadd(before, added, flags=_FLAGS), self._at(0, r), align=8)

        self.each(body)


def _is_table(kind: Any) -> bool:
    return (
        isinstance(kind, types.Array)
        and kind.ndim == 2
        and kind.layout == "C"
        and kind.dtype == types.float64
    )


@intrinsic  # type: ignore[untyped-decorator]
def dot(_: Any, x: Any, i: Any, y: Any, j: Any) -> Any:
    """Return Σ_r x[i, r]·y[j, r]."""
    if not (_is_table(x) and _is_table(y)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _Rows(context, builder, signature, arguments).sum_product((0, 1))

    return types.float64(x, types.intp, y, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def product_dot(_: Any, x: Any, i: Any, y: Any, j: Any, z: Any, k: Any) -> Any:
    """Return Σ_r x[i, r]·y[j, r]·z[k, r]."""
    if not (_is_table(x) and _is_table(y) and _is_table(z)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        return _Rows(context, builder, signature, arguments).sum_product((0, 1, 2))

    return types.float64(x, types.intp, y, types.intp, z, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def add_row(_: Any, x: Any, i: Any, y: Any, j: Any, scale: Any) -> Any:
    """Add scale·y[j, r] to x[i, r] for every r."""
    if not (_is_table(x) and _is_table(y)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _Rows(context, builder, signature, arguments).add_to_first(arguments[-1], (1,))
        return context.get_dummy_value()

    return types.void(x, types.intp, y, types.intp, types.float64), generate


@intrinsic  # type: ignore[untyped-decorator]
def add_product(_: Any, x: Any, i: Any, y: Any, j: Any, z: Any, k: Any, scale: Any) -> Any:
    """Add scale·y[j, r]·z[k, r] to x[i, r] for every r."""
    if not (_is_table(x) and _is_table(y) and _is_table(z)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _Rows(context, builder, signature, arguments).add_to_first(arguments[-1], (1, 2))
        return context.get_dummy_value()

    return (
        types.void(x, types.intp, y, types.intp, z, types.intp, types.float64),
        generate,
    )
