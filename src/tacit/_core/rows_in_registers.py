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
from llvmlite.binding import get_host_cpu_features
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

if TYPE_CHECKING:
    from numpy.typing import NDArray

__all__ = [
    "LANES",
    "add_combination",
    "add_product",
    "add_product_twice",
    "add_row",
    "add_squares",
    "copy_row",
    "dot",
    "multiply_row",
    "padded",
    "product_dot",
    "take_products",
]

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
        return _vector_at(self.builder, self.pointers[k], r)

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
        spread = _spread(b, scale)

        def body(r: Any) -> None:
            added = b.fmul(spread, self.product(tables, r), flags=_FLAGS)
            before = b.load(self._at(0, r), align=8)
            b.store(b.fadd(before, added, flags=_FLAGS), self._at(0, r), align=8)

        self.each(body)

    def set_first(self, tables: tuple[int, ...]) -> None:
        """Replace the first row by the product of some of the rows."""
        b = self.builder
        self.each(lambda r: b.store(self.product(tables, r), self._at(0, r), align=8))


def _vector_at(builder: Any, pointer: Any, r: Any, vector: Any = _VECTOR) -> Any:
    return builder.bitcast(builder.gep(pointer, [r]), vector.as_pointer())


def _spread(builder: Any, scale: Any, vector: Any = _VECTOR) -> Any:
    """Return a number in every lane of a register."""
    spread = ir.Constant(vector, ir.Undefined)
    for k in range(vector.count):
        spread = builder.insert_element(spread, scale, ir.Constant(ir.IntType(32), k))
    return spread


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


@intrinsic  # type: ignore[untyped-decorator]
def add_product_twice(_: Any, x: Any, y: Any, j: Any, z: Any, k: Any, a: Any, b: Any) -> Any:
    """Add a·y[j, r]·z[k, r] to x[0, r], and b times it to x[1, r]: the product is formed once."""
    if not (_is_table(x) and _is_table(y) and _is_table(z)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        (out, width), (left, _), (right, _) = _tables(context, builder, signature, arguments)
        kind, totals = width.type, [out, builder.gep(out, [width])]
        left, right = (
            builder.gep(table, [builder.mul(arguments[n], width)])
            for table, n in ((left, 2), (right, 4))
        )
        scales = [_spread(builder, arguments[n]) for n in (5, 6)]
        zero, lanes = ir.Constant(kind, 0), ir.Constant(kind, LANES)
        with cgutils.for_range_slice(builder, zero, width, lanes, kind) as (r, _):
            rows = [builder.load(_vector_at(builder, row, r), align=8) for row in (left, right)]
            product = builder.fmul(*rows, flags=_FLAGS)
            for total, scale in zip(totals, scales, strict=True):
                at = _vector_at(builder, total, r)
                added = builder.fmul(scale, product, flags=_FLAGS)
                found = builder.fadd(builder.load(at, align=8), added, flags=_FLAGS)
                builder.store(found, at, align=8)
        return context.get_dummy_value()

    arguments = (x, y, types.intp, z, types.intp, types.float64, types.float64)
    return types.void(*arguments), generate


@intrinsic  # type: ignore[untyped-decorator]
def copy_row(_: Any, x: Any, i: Any, y: Any, j: Any) -> Any:
    """Replace x[i, r] by y[j, r] for every r."""
    if not (_is_table(x) and _is_table(y)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _Rows(context, builder, signature, arguments).set_first((1,))
        return context.get_dummy_value()

    return types.void(x, types.intp, y, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def multiply_row(_: Any, x: Any, i: Any, y: Any, j: Any) -> Any:
    """Multiply x[i, r] by y[j, r] for every r."""
    if not (_is_table(x) and _is_table(y)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        _Rows(context, builder, signature, arguments).set_first((0, 1))
        return context.get_dummy_value()

    return types.void(x, types.intp, y, types.intp), generate


# of the blocks of a square whose sums stay in registers: as many as the processor has room for
_WIDE = 2 * LANES
_TALL = 8 if get_host_cpu_features().get("avx512f") else 4
_LONG = ir.VectorType(ir.DoubleType(), _WIDE)


class _Sums:
    """Sums that stay in vector registers over a loop."""

    def __init__(self, builder: Any, count: int, vector: Any = _VECTOR) -> None:
        self.builder, self.vector = builder, vector
        nothing = ir.Constant(vector, [0.0] * vector.count)
        self.places = [cgutils.alloca_once_value(builder, nothing) for _ in range(count)]
        for place in self.places:
            builder.store(nothing, place)

    def add(self, k: int, left: Any, right: Any) -> None:
        b, place = self.builder, self.places[k]
        product = b.fmul(left, right, flags=_FLAGS)
        b.store(b.fadd(b.load(place), product, flags=_FLAGS), place)

    def pour(self, ks: tuple[int, ...], pointer: Any, r: Any) -> None:
        """Add some of the sums to memory."""
        b, at = self.builder, _vector_at(self.builder, pointer, r, self.vector)
        found = b.load(at, align=8)
        for k in ks:
            found = b.fadd(found, b.load(self.places[k]), flags=_FLAGS)
        b.store(found, at, align=8)


def _tables(context: Any, builder: Any, signature: Any, arguments: Any) -> list[Any]:
    """Return (pointer, width) of the tables among the first arguments."""
    found = []
    for kind, value in zip(signature.args, arguments, strict=True):
        if isinstance(kind, types.Array):
            table = context.make_array(kind)(context, builder, value)
            found.append((table.data, cgutils.unpack_tuple(builder, table.shape, 2)[1]))
    return found


@intrinsic  # type: ignore[untyped-decorator]
def add_squares(_: Any, total: Any, rows: Any, count: Any, columns: Any) -> Any:
    """Add Σ_c rows[c, i]·rows[c, j] over the first rows to total[i, j], for columns i ≤ j.

    Some entries below the diagonal are written as well. Both tables have the same width, a
    multiple of 2·`LANES`, and ``total`` has as many rows.
    """
    if not (_is_table(total) and _is_table(rows)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        b = builder
        (out, _), (source, width) = _tables(context, b, signature, arguments)
        kind = width.type

        def number(n: int) -> Any:
            return ir.Constant(kind, n)

        def block(i: Any, j: Any) -> None:
            sums = _Sums(b, _TALL, _LONG)
            with cgutils.for_range(b, arguments[2], intp=kind) as loop:
                row = b.gep(source, [b.mul(loop.index, width)])
                right = b.load(_vector_at(b, row, j, _LONG), align=8)
                for t in range(_TALL):
                    left = b.load(b.gep(row, [b.add(i, number(t))]))
                    sums.add(t, _spread(b, left, _LONG), right)
            for t in range(_TALL):
                sums.pour((t,), b.gep(out, [b.mul(b.add(i, number(t)), width)]), j)

        with cgutils.for_range_slice(b, number(0), arguments[3], number(_TALL), kind) as (i, _):
            start = b.sub(i, b.urem(i, number(_WIDE)))
            with cgutils.for_range_slice(b, start, width, number(_WIDE), kind) as (j, _):
                block(i, j)
        return context.get_dummy_value()

    return types.void(total, rows, types.intp, types.intp), generate


@intrinsic  # type: ignore[untyped-decorator]
def add_combination(_: Any, x: Any, i: Any, y: Any, scales: Any, pairs: Any, start: Any) -> Any:
    """Add Σ_c scales[0, c]·y[c, r] over the first pairs of rows c to x[i, r], for r ≥ start.

    Tables x and y have the same width, a multiple of 2·`LANES`, as is ``start``.
    """
    if not (_is_table(x) and _is_table(y) and _is_table(scales)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        b = builder
        (out, width), (source, _), (shares, _) = _tables(context, b, signature, arguments)
        kind = width.type
        target = b.gep(out, [b.mul(arguments[1], width)])
        wide = ir.Constant(kind, _WIDE)
        with cgutils.for_range_slice(b, arguments[5], width, wide, kind) as (r, _):
            far = b.add(r, ir.Constant(kind, LANES))
            sums = _Sums(b, 4)
            with cgutils.for_range(b, arguments[4], intp=kind) as loop:
                first = b.mul(loop.index, ir.Constant(kind, 2))
                for half in (0, 1):
                    c = b.add(first, ir.Constant(kind, half))
                    share = _spread(b, b.load(b.gep(shares, [c])))
                    row = b.gep(source, [b.mul(c, width)])
                    for k, place in enumerate((r, far)):
                        sums.add(2 * half + k, share, b.load(_vector_at(b, row, place), align=8))
            sums.pour((0, 2), target, r)
            sums.pour((1, 3), target, far)
        return context.get_dummy_value()

    arguments = (x, types.intp, y, scales, types.intp, types.intp)
    return types.void(*arguments), generate


@intrinsic  # type: ignore[untyped-decorator]
def take_products(
    _: Any,
    x: Any,
    i: Any,
    y: Any,
    m: Any,
    first: Any,
    step: Any,
    second: Any,
    stride: Any,
    count: Any,
) -> Any:
    """Replace x[i, r] by (x[i, r] − Σ_c x[first + c·step, r]·x[second + c·stride, r])·y[m, r].

    The sum is over c < count. Tables are 2·`LANES` wide.
    """
    if not (_is_table(x) and _is_table(y)):
        return None

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        b = builder
        (table, width), (scales, _) = _tables(context, b, signature, arguments)
        kind = width.type
        out, left, right = (b.gep(table, [b.mul(arguments[n], width)]) for n in (1, 4, 6))
        scale = b.gep(scales, [b.mul(arguments[3], width)])
        steps = [b.mul(arguments[n], width) for n in (5, 7)]
        places = (ir.Constant(kind, 0), ir.Constant(kind, LANES))
        sums = _Sums(b, 2)
        with cgutils.for_range(b, arguments[8], intp=kind) as loop:
            rows = [
                b.gep(row, [b.mul(loop.index, by)])
                for row, by in zip((left, right), steps, strict=True)
            ]
            for n, place in enumerate(places):
                sums.add(n, *(b.load(_vector_at(b, row, place), align=8) for row in rows))
        for n, place in enumerate(places):
            at = _vector_at(b, out, place)
            rest = b.fsub(b.load(at, align=8), b.load(sums.places[n]), flags=_FLAGS)
            by = b.load(_vector_at(b, scale, place), align=8)
            b.store(b.fmul(rest, by, flags=_FLAGS), at, align=8)
        return context.get_dummy_value()

    return types.void(x, types.intp, y, *(types.intp,) * 6), generate
