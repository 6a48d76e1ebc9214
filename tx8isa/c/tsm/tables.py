"""The tables, in the order of ``TsmOperatorPointer`` (spec).

The order inside a table is that of the opcodes, and for parts of a packet that of a public list (proposed).
"""

from __future__ import annotations

from functools import cache

from tx8isa.records.record import Engine
from tx8isa.tools.suggestions import hint

from . import moves, setters, vectors
from .members import Member, MemberError, Table


@cache
def tables() -> tuple[Table, ...]:
    """The tables of the vendor's flow, in the order of its headers."""
    transcendental = ("Log2", "Ln", "Pow2", "Exp", "Explp", "Sin", "Cos")
    activation = ("Tanh", "Sigmoid", "Relu", "Satrelu", "Leakyrelu", "Softplus")
    return (
        Table("TsmConv", "conv_", "", tuple(setters.convolutions(False))),
        Table("TsmDepthwiseConv", "depthwiseConv_", "", tuple(setters.convolutions(True))),
        Table("TsmGemm", "gemm_", "", tuple(setters.products())),
        Table("TsmRdma", "rdma_", "TsmRdmaInstr", tuple(setters.transfers(Engine.RDMA))),
        Table("TsmWdma", "wdma_", "TsmWdmaInstr", tuple(setters.transfers(Engine.WDMA))),
        Table("TsmArith", "arith_", "TsmArithInstr", tuple(vectors.arithmetic())),
        Table("TsmRelation", "relation_", "TsmRelationInstr", tuple(vectors.relations())),
        Table("TsmLogic", "logic_", "TsmLogicInstr", tuple(vectors.logic())),
        Table(
            "TsmTranscendental",
            "transcendental_",
            "TsmTranscendentalInstr",
            tuple(vectors.functions(transcendental)),
        ),
        Table("TsmActivation", "activation_", "TsmActivationInstr", tuple(vectors.functions(activation))),
        Table("TsmReduce", "reduce_", "TsmReduceInstr", tuple(vectors.reductions())),
        Table("TsmPool", "pool_", "TsmPoolInstr", tuple(moves.pools())),
        Table("TsmUnPool", "unpool_", "TsmUnPoolInstr", tuple(moves.unpools())),
        Table("TsmMaskDataMove", "maskdatamove_", "TsmMaskDataMoveInstr", tuple(moves.masked_moves())),
        Table("TsmConvert", "convert_", "TsmConvertInstr", tuple(vectors.converts())),
        Table("TsmPeripheral", "peripheral_", "TsmPeripheralInstr", tuple(moves.peripherals())),
        Table("TsmDataMove", "datamove_", "TsmDataMoveInstr", tuple(moves.moves())),
    )


def find(name: str) -> tuple[Table, Member]:
    """The member that ``TsmArith.AddVV`` names; MemberError when there is none."""
    table_name, _, member_name = name.partition(".")
    known = {table.name: table for table in tables()}
    if table_name not in known:
        raise MemberError(f"no table '{table_name}'{hint(table_name, known)}; the tables: {', '.join(known)}")
    members = {member.name: member for member in known[table_name].members}
    if member_name not in members:
        near = hint(member_name, members)
        raise MemberError(f"{table_name} has no member '{member_name}'{near}; it has {', '.join(members)}")
    return known[table_name], members[member_name]
