"""Sharded sequences: products, normalizations and attention in one phase, divided over a mesh of tiles.

Weights are divided by columns. Every tile has the rows of its mesh row: a product takes all columns of them
and gives some columns of the result, which the tiles of a mesh row exchange before the next product.
Attention is divided by heads; the tiles of a mesh column exchange the keys and values of their rows. These
tiles need the same weights too. Each loads a part on another worker of the engines, while earlier layers are
computed, and sends it to the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from compiler.codegen.expr import Value
from compiler.codegen.kernel import Kernel, Target
from compiler.codegen.slices.aligned import Grid, load_aligned, narrowed_slice, slice_buffer, store_aligned
from compiler.codegen.slices.tensors import BLOCK, DdrTensor
from compiler.codegen.slices.vector import Vector, convert
from compiler.codegen.spm import SpmOverflow
from compiler.codegen.teams.gather import enter
from compiler.lowering.record import Cut, Engine, SequenceWork, StageExchange, exchanges_in, lowering
from compiler.lowering.stack.constants import BIAS_PARTS
from tx8isa.numbers.formats import Format

from .attention import AttentionTables, TileMask, attend, attention_tables, load_mask
from .biases import ColumnBias, load_biases
from .byte_product import ByteVectors, load_byte_vectors, quantised_slice
from .divisions import fits, meshes
from .exchange import Outgoing, Participants, Weights, exchange, store_rows
from .layers import (
    PARTS,
    AttentionLayer,
    Layer,
    Layers,
    NormalizationLayer,
    ProductPart,
    QuantiseLayer,
    earlier_weights,
)
from .mesh import Gathered, Heads, Mesh, ShardedMatrix, mesh_of
from .normalization import Normalizer, folded
from .placement import exchanges_of_values, exchanges_of_weights, gathered_format
from .product import PreparedProduct, load_constants, load_piece, multiply, multiply_heads
from .reading import layers_of, results_of
from .schedule import Superstep, Task, steps_of

_WORKERS = (1, 2)
"""The workers that load weights, in turns."""


_LOADED_AHEAD = 3
"""Supersteps from the one whose exchange lets a worker load weights to the one that uses them."""
_EARLY = 2
"""Supersteps whose weights are loaded before the tiles meet for the first time."""


def _worker(number: int) -> int:
    """The worker that loads the weights of a superstep."""
    return 0 if number < _EARLY else _WORKERS[number % len(_WORKERS)]


def _cuts(target: Target, work: SequenceWork) -> Iterator[Cut]:
    """The meshes, the largest first."""
    yield from (mesh.cut() for mesh in meshes(layers_of(work), target))


@lowering("Sharded", cuts=_cuts, prefetch=True, engines=(Engine.MATRIX, Engine.VECTOR))
def sharded(kernel: Kernel, work: SequenceWork) -> None:
    """All layers of the work, on the tiles of a mesh."""
    layers, target = folded(layers_of(work)), kernel.target
    if work.cut is not None:
        mesh = mesh_of(target, work.cut)
        if mesh.size > target.tiles or not fits(layers, mesh):
            raise ValueError(
                f"a mesh of {mesh.rows} x {mesh.columns} tiles does not divide the layers evenly"
            )
    else:
        found = next(meshes(layers, target), None)
        if found is None:
            raise SpmOverflow("no mesh divides the layers evenly")
        mesh = found
    phase = _Phase(kernel, work, layers, mesh)
    with phase.participants.taking_part():
        phase.load_constants()
    enter(kernel)
    with phase.participants.taking_part():
        phase.run()


def _name_of(task: Task) -> str:
    """The graph node that a task computes, or a part of it."""
    return (task.layer if isinstance(task, ProductPart) else task).work.name


class _Phase:
    def __init__(self, kernel: Kernel, work: SequenceWork, layers: Layers, mesh: Mesh) -> None:
        self.kernel, self.work, self.layers, self.mesh = kernel, work, layers, mesh
        self.participants = Participants(kernel, mesh, layers.rows)
        exchanges = self._exchanges()
        self.steps = steps_of(layers, mesh, exchanges)
        self.exchanged = {each.symbol for each in exchanges}
        self.rows = self.participants.share
        self.kept = earlier_weights(layers, mesh.columns)
        self.meetings = self._meetings()
        self.weights: dict[tuple[int, int], Weights] = {}
        """The weights of parts of products, by the stage and the first row of the matrix."""
        self.prepared: dict[ProductPart, PreparedProduct] = {}
        self.byte_vectors: dict[str, ByteVectors] = {}
        self.biases: dict[str, ColumnBias] = {}
        self.sharded: dict[str, ShardedMatrix] = {}
        self.gathered: dict[str, Gathered] = {}
        self.heads: dict[str, Heads] = {}
        self.targets: dict[str, Value] = {}
        """Addresses at which the data of the next exchange will arrive."""
        self.tables: AttentionTables | None = None
        self.results = results_of(work)
        self.masks: dict[tuple[str, int], TileMask] = {}
        """This tile's rows of masks, transposed."""
        self.normalizer = Normalizer(kernel, layers, self.rows)

    def _exchanges(self) -> tuple[StageExchange, ...]:
        """The exchanges of the work. Values must be exchanged where layers need them; weights need not."""
        weights = tuple(exchanges_of_weights(self.layers, self.mesh))
        values = exchanges_in(self.work, tuple(exchanges_of_values(self.layers, self.mesh)))
        return values if self.work.exchanges is not None else (*values, *weights)

    def _is_shared(self, part: ProductPart) -> bool:
        """True if the tiles of a mesh column send each other the weights of a product."""
        return part.layer.matrix.symbol in self.exchanged

    def _is_loaded(self, part: ProductPart) -> bool:
        """True if a step loads the weights of a product; those of an earlier one may have stayed."""
        return part.layer.stage not in self.kept

    def load_constants(self) -> None:
        """Load the constants of the first layers, which do not depend on earlier phases.

        Worker 0 loads them, because nothing orders other workers after its commands of earlier phases.
        """
        self.byte_vectors = load_byte_vectors(self.participants, self.layers)
        self.biases = load_biases(self.participants, self.layers, self.normalizer.ones(BIAS_PARTS))
        for number in range(_EARLY):
            self._load_weights(number)
        self.normalizer.load()

    def run(self) -> None:
        """All layers; other tiles must be done with earlier phases.

        The parts of weights are sent a superstep before they are used. Meanwhile two workers load the parts
        of the two supersteps after that.
        """
        self._reserve_from(0)
        self._load_weights(_EARLY)
        self._send_weights(0)
        self._load_inputs()
        for number, step in enumerate(self.steps):
            self._exchange(number, step)
            if self.meetings[number]:
                self._reserve_from(number + 1)
            self._send_weights(number + 1)
            for task in step.tasks:
                with self.kernel.registers.scope(), self.kernel.computing(_name_of(task)):
                    self._compute(task)

    # --- constants and inputs ---------------------------------------------------------------------------

    def _load_weights(self, number: int) -> None:
        """Let a worker load the constants of the products of a step."""
        if number >= len(self.steps):
            return
        with self.kernel.on_worker(_worker(number)):
            for part in self.steps[number].products:
                user = self.layers.user_of_heads(part.layer)
                shared = self._is_shared(part)
                symbol = part.layer.result.symbol
                vectors, bias = self.byte_vectors.get(symbol), self.biases.get(symbol)
                before = self.weights.get((self.kept.get(part.layer.stage, -1), part.first))
                with self.kernel.computing(_name_of(part)):
                    self.prepared[part] = load_constants(
                        self.participants, part, user, self.rows, shared, vectors, bias, before
                    )
                self.weights[part.layer.stage, part.first] = self.prepared[part].weights

    def _load_inputs(self) -> None:
        """All columns of this tile's rows of the values that the layers read whole."""
        made = self.layers.made
        sources = {layer.source.symbol: layer.source for layer in self.layers.order}
        for symbol, tensor in sources.items():
            if symbol not in made:
                columns = tensor.shape[-1]
                matrix, grid = tensor.viewed(tensor.size // columns, columns), Grid(self.rows, 1, self.rows)
                first = self.participants.first_row * columns
                loaded = load_aligned(self.kernel, "x", matrix, first, columns, grid, columns)
                if (fmt := gathered_format(self.layers, tensor)) is not loaded.fmt:
                    loaded = narrowed_slice(self.kernel, loaded, fmt)
                self.gathered[symbol] = Gathered(loaded.base, loaded.fmt, self.rows, columns)

    # --- exchanges --------------------------------------------------------------------------------------

    def _meetings(self) -> list[bool]:
        """For each step, True if all tiles meet in its exchange.

        They also meet before the weights of a later step, which they send each other, are loaded: only then
        do their targets have buffers.
        """
        found: list[bool] = []
        needed = [
            step.gathered is not None
            or step.keys is not None
            or any(self._is_shared(part) and self._is_loaded(part) for part in step.products)
            for step in self.steps
        ]
        for number, own in enumerate(needed):
            apart = any(found) and not any(found[-_LOADED_AHEAD + 1 :])
            found.append(own or (apart and any(needed[number:])))
        return found

    def _reserve_from(self, number: int) -> None:
        """Reserve targets up to the next exchange in which all tiles meet, beginning with step ``number``."""
        for step, meets in zip(self.steps[number:], self.meetings[number:], strict=True):
            self._reserve(step)
            if meets:
                return

    def _reserve(self, step: Superstep) -> None:
        """Give the targets of an exchange their buffers: other tiles may write to them from here on."""
        kernel = self.kernel
        makers = {layer.result.symbol: layer for layer in self.layers.order}
        for symbol, copies in ((step.gathered, 1), (step.keys, 2)):
            if symbol is not None:
                maker = makers[symbol]
                size = self._bytes(maker, copies)
                with kernel.computing(maker.work.name):
                    self.targets[symbol] = kernel.buffer("gathered", size)
                kernel.receive(self.targets[symbol])
        for part in filter(self._is_shared, step.products):
            if self._is_loaded(part):
                kernel.receive(self.prepared[part].weights.target)

    def _bytes(self, maker: Layer, copies: int) -> int:
        """Bytes of all columns of this tile's rows; of keys and values: of this tile's heads for all rows."""
        if copies == 1:
            return self.rows * maker.columns * maker.result.bytes_each
        shared = maker.columns // PARTS // self.mesh.columns
        return copies * self.layers.rows * shared * maker.result.bytes_each

    def _await_weights(self, number: int) -> None:
        """Wait for the parts of the weights of a step, which are sent then."""
        if number < len(self.steps) and any(map(self._is_shared, self.steps[number].products)):
            self._await_worker(number)

    def _await_worker(self, number: int) -> None:
        if _worker(number):
            self.kernel.await_worker(_worker(number))

    def _send_weights(self, number: int) -> None:
        """Send the parts of the weights of a step, if they are shared."""
        for part in self.steps[number].products if number < len(self.steps) else ():
            if self._is_loaded(part):
                self.prepared[part].weights.send()

    def _exchange(self, number: int, step: Superstep) -> None:
        products = list(step.products)
        if products and not any(map(self._is_shared, products)):
            self._await_worker(number)
        values: list[Outgoing] = []
        if step.gathered is not None:
            own, target = self.sharded[step.gathered], self.targets[step.gathered]
            values.append(Outgoing(self.participants.own_row, own.base, target, own.bytes))
            columns = own.width * self.mesh.columns
            self.gathered[step.gathered] = Gathered(target, own.fmt, own.rows, columns)
        if step.keys is not None:
            part = self._keys_and_values(self.heads[step.keys])
            size = part.count * part.head_bytes
            values.append(Outgoing(self.participants.own_column, part.base, self.targets[step.keys], size))
        weights = [self.prepared[part].weights for part in filter(self._is_loaded, products)]
        ahead = partial(self._load_ahead, number)
        exchange(self.participants, values, weights, ahead, self.meetings[number])

    def _load_ahead(self, number: int) -> None:
        """Let the worker that has loaded the parts of the next step's weights go on."""
        self._await_weights(number + 1)
        self._load_weights(number + _LOADED_AHEAD)

    @staticmethod
    def _keys_and_values(heads: Heads) -> Heads:
        """Queries are the first third."""
        each = heads.count // PARTS
        return heads.part(each, 2 * each)

    # --- layers -----------------------------------------------------------------------------------------

    def _compute(self, task: Task) -> None:
        layer = task.layer if isinstance(task, ProductPart) else task
        symbol = layer.result.symbol
        if isinstance(task, NormalizationLayer):
            self.gathered[symbol] = self.normalizer.normalize(task, self.gathered[task.source.symbol])
        elif isinstance(task, QuantiseLayer):
            self._quantise(task)
        elif isinstance(task, AttentionLayer):
            self.sharded[symbol] = self._attention(task)
        else:
            self._multiply(task)
            if not task.ends:
                return
        if symbol in self.results:
            self._store(layer)
        if self.mesh.columns == 1 and symbol in self.sharded:
            own = self.sharded[symbol]
            self.gathered[symbol] = Gathered(own.base, own.fmt, own.rows, own.width)

    def _quantise(self, layer: QuantiseLayer) -> None:
        """Quantise a value in the form that a tile has: its own columns, or all."""
        kernel, symbol = self.kernel, layer.source.symbol
        own = self.sharded.get(symbol) or self.gathered[symbol]
        wide = slice_buffer(kernel, "wide", Format.FP32, own.slice.grid, own.slice.channels)
        if own.fmt is Format.FP32:
            Vector(kernel, Format.FP32, wide.elements).vs("add", wide.base, own.base, -0.0)
        else:
            convert(kernel, wide.base, own.base, wide.elements, own.fmt, Format.FP32)
        found = quantised_slice(kernel, wide, layer.quantised, exact=True)
        if isinstance(own, ShardedMatrix):
            self.sharded[layer.result.symbol] = ShardedMatrix(found.base, found.fmt, own.rows, own.width)
        else:
            self.gathered[layer.result.symbol] = Gathered(found.base, found.fmt, own.rows, own.channels)

    def _multiply(self, part: ProductPart) -> None:
        layer, prepared = part.layer, self.prepared[part]
        symbol, source = layer.result.symbol, self.gathered[layer.source.symbol]
        user = self.layers.user_of_heads(layer)
        if user is not None:
            before = None if part.begins else self.heads[symbol].base
            head = PARTS * user.heads // self.mesh.columns, user.depth
            self.heads[symbol] = multiply_heads(self.kernel, source, part, prepared, head, before)
        else:
            before = None if part.begins else self.sharded[symbol].base
            self.sharded[symbol] = multiply(self.participants, source, part, prepared, self._own, before)

    def _own(self, tensor: DdrTensor) -> ShardedMatrix:
        """This tile's columns of a value, which are loaded if it is in DDR."""
        if tensor.symbol in self.sharded:
            return self.sharded[tensor.symbol]
        if tensor.symbol in self.gathered:
            return self.gathered[tensor.symbol].sharded(self.participants.column, self.mesh.columns)
        return load_piece(self.participants, tensor)

    def _attention(self, layer: AttentionLayer) -> ShardedMatrix:
        kernel, found = self.kernel, self.heads[layer.source.symbol]
        each = found.count // PARTS
        parts = self._keys_and_values(found)
        if self.mesh.rows > 1:
            parts = self._of_all_rows(parts, self.targets[layer.source.symbol])
        keys, values = parts.part(0, each), parts.part(each, each)
        if self.tables is None:
            width = layer.depth * (each if self.rows <= BLOCK else 1)
            self.tables = attention_tables(kernel, layer.rows, layer.depth, width, found.fmt)
        target = layer.result.fmt if layer.quantised is not None else found.fmt
        mask = None if layer.mask is None else self._mask(layer.mask.symbol, layer, found.fmt)
        return attend(kernel, found.part(0, each), keys, values, self.tables, target, mask)

    def _mask(self, symbol: str, layer: AttentionLayer, fmt: Format) -> TileMask:
        """The mask of a layer; layers with the same mask load it once."""
        key = symbol, layer.work.spec.integer("zero_rows")
        if key not in self.masks:
            self.masks[key] = load_mask(self.participants, layer, fmt)
        return self.masks[key]

    def _of_all_rows(self, own: Heads, arrived: Value) -> Heads:
        """Keys and values of all rows, head by head; they have arrived mesh row by mesh row."""
        kernel, size, rows = self.kernel, own.head_bytes, self.mesh.rows
        target = kernel.buffer("keys", rows * own.count * size)
        kernel.emit(
            "td.gatherscatter",
            dst=target,
            src0=arrived,
            n=size,
            src_stride0=own.count * size,
            src_iter0=rows,
            src_stride1=size,
            src_iter1=own.count,
            dst_stride0=size,
            dst_iter0=rows * own.count,
        )
        return Heads(target, own.fmt, own.count, own.rows * rows, own.depth)

    def _store(self, layer: Layer) -> None:
        """A result of the sequence: this tile's columns of its rows."""
        participants, result, columns = self.participants, self._own(layer.result), layer.columns
        matrix = self.results[layer.result.symbol].viewed(self.layers.rows, columns)
        first = participants.first_row * columns + participants.column * result.width
        if participants.even:
            store_aligned(self.kernel, result.slice, matrix, first, columns)
            return
        with participants.own_rows() as (skipped, count):
            store_rows(self.kernel, result.slice, matrix, first, (skipped, count))
