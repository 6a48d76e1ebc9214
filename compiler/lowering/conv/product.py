"""The instructions of the matrix engine for a slice of a convolution."""

from __future__ import annotations

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Argument, Kernel
from compiler.codegen.slices.aligned import Aligned
from compiler.codegen.slices.precision import PRODUCTS, engine_format, part_count

from .layer import ConvLayer, Kind


def multiply_slice(
    kernel: Kernel,
    layer: ConvLayer,
    pad: list[Value],
    images: list[Aligned],
    weights: list[Value],
    result: Aligned,
    start: Aligned | None,
    zeros: dict[str, Argument] | None = None,
) -> None:
    """Write the products of all parts of the operands to ``result``, added to ``start`` if that is given.

    ``pad``: rows and columns of zeros around the image, [top, bottom, left, right]. ``images`` and
    ``weights`` have an entry for each part. ``zeros``: operands that only products of bytes have.
    """
    geometry, data, fmt = layer.geometry, images[0], engine_format(layer.fmt).token
    common: dict[str, Argument] = {"out": result.base, "out_format": result.fmt.token, **(zeros or {})}
    mnemonic, right = f"{layer.kind.value}.{fmt}", "w"
    if layer.kind is Kind.GEMM:
        right = "b"
        common |= {"m": data.grid.positions, "k": data.channels, "n": result.channels}
    else:
        common |= {
            "shape": data.shape,
            "dst_shape": result.shape,
            "pad": pad,
            "window": [geometry.kernel[1], geometry.kernel[0], geometry.strides[1], geometry.strides[0]],
        }
        if layer.kind is Kind.CONV:
            common["dilation"] = [geometry.dilations[1], geometry.dilations[0]]
    for a, b in PRODUCTS[: 3 if part_count(layer.fmt) > 1 else 1]:
        operands = common | {"a": images[a].base, right: weights[b]}
        if start is not None:
            operands |= {"psum": start.base, "psum_format": start.fmt.token}
        kernel.emit(mnemonic, **operands)
        start = result
