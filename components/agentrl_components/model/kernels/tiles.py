"""Sums of a tile of a matrix product, kept in the processor's vector registers.

The compiler keeps sums that are numbers in registers, but not those that are elements of an array:
a product written as a loop in Python reads and writes its sums for every term, and reaches less
than half of the speed of torch's matrix products. So this part is written for LLVM (Numba's
`intrinsic`). `benchmarks/compiled_update.py` shows what it is worth.
"""

from __future__ import annotations

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.extending import intrinsic

LANES = 8
"""Numbers of a vector: a register of AVX2."""
NUMBER, VECTOR, OFFSET = ir.FloatType(), ir.VectorType(ir.FloatType(), LANES), ir.IntType(64)
NOTHING = ir.Constant(VECTOR, [0.0] * LANES)
SIZE = 4
"""Bytes of a number."""


class Matrix:
    """The addresses of the elements of a matrix, in generated code."""

    def __init__(self, context: Any, builder: ir.IRBuilder, kind: Any, array: ir.Value) -> None:
        self._builder = builder
        matrix = context.make_array(kind)(context, builder, array)
        self._data = builder.bitcast(matrix.data, ir.IntType(8).as_pointer())
        self._strides = cgutils.unpack_tuple(builder, matrix.strides)
        self.height = cgutils.unpack_tuple(builder, matrix.shape)[0]

    def at(self, row: ir.Value, column: ir.Value, kind: ir.Type) -> ir.Value:
        """Pointer to what begins at a place."""
        builder, (row_stride, column_stride) = self._builder, self._strides
        offset = builder.add(builder.mul(row, row_stride), builder.mul(column, column_stride))
        return builder.bitcast(builder.gep(self._data, [offset]), kind.as_pointer())

    def number(self, row: ir.Value, column: ir.Value) -> ir.Value:
        """A number, in all lanes of a vector."""
        number = self._builder.load(self.at(row, column, NUMBER), align=SIZE)
        empty = ir.Constant(VECTOR, ir.Undefined)
        one = self._builder.insert_element(empty, number, ir.IntType(32)(0))
        lanes = ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
        return self._builder.shuffle_vector(one, empty, lanes)

    def vector(self, row: ir.Value, number: int) -> ir.Value:
        """Pointer to a vector of a row."""
        return self.at(row, OFFSET(number * LANES), VECTOR)


def tile(rows: int, vectors: int) -> Any:
    """A function multiply(a_IT, b_TJ, c_IJ, add) that sets the first `rows` rows and `vectors`
    times `LANES` columns of `c_IJ` to the product of `a_IT` and `b_TJ`, or adds it.

    Matrices are float32; rows of `b_TJ` and `c_IJ` are contiguous. Each number is a sum in the
    order of T, in which a product and a sum are rounded once, so it depends neither on the tile nor
    on the processor. Eight sums fill the pipeline of the processor's multipliers."""

    @intrinsic  # type: ignore[untyped-decorator]
    def multiply(typing_context: Any, a: Any, b: Any, c: Any, add: Any) -> Any:
        del typing_context

        def generate(context: Any, builder: ir.IRBuilder, signature: Any, values: Any) -> ir.Value:
            *matrices, add = zip(signature.args, values, strict=True)
            a_IT, b_TJ, c_IJ = (Matrix(context, builder, *one) for one in matrices)
            adding = context.cast(builder, add[1], add[0], types.boolean)
            multiply_add = cgutils.get_or_insert_function(
                builder.module, ir.FunctionType(VECTOR, [VECTOR] * 3), f"llvm.fma.v{LANES}f32"
            )
            # Variables of the function: LLVM keeps them in registers.
            sums = [(i, j, cgutils.alloca_once(builder, VECTOR))
                    for i in range(rows) for j in range(vectors)]  # fmt: skip
            for i, j, total in sums:
                there = builder.load(c_IJ.vector(OFFSET(i), j), align=SIZE)
                builder.store(builder.select(adding, there, NOTHING), total)
            with cgutils.for_range(builder, b_TJ.height) as loop:
                row = [builder.load(b_TJ.vector(loop.index, j), align=SIZE) for j in range(vectors)]
                factors = [a_IT.number(OFFSET(i), loop.index) for i in range(rows)]
                for i, j, total in sums:
                    term = (factors[i], row[j], builder.load(total))
                    builder.store(builder.call(multiply_add, term), total)
            for i, j, total in sums:
                builder.store(builder.load(total), c_IJ.vector(OFFSET(i), j), align=SIZE)
            return context.get_dummy_value()

        return types.void(a, b, c, types.boolean), generate

    return multiply
