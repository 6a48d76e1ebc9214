"""The tables, in the order of ``TsmOperatorPointer`` (spec).

A table is in the order of the opcodes; members for parts of a packet follow a public list (proposed).
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
        Table("TsmConv", "conv_pointer", "", tuple(setters.convolutions(False))),
        Table("TsmDepthwiseConv", "depthwiseConv_pointer", "", tuple(setters.convolutions(True))),
        Table("TsmGemm", "gemm_pointer", "", tuple(setters.products())),
        Table("TsmRdma", "rdma_pointer", "TsmRdmaInstr", tuple(setters.transfers(Engine.RDMA))),
        Table("TsmWdma", "wdma_pointer", "TsmWdmaInstr", tuple(setters.transfers(Engine.WDMA))),
        Table("TsmArith", "arith_pointer", "TsmArithInstr", tuple(vectors.arithmetic())),
        Table("TsmRelation", "relation_pointer", "TsmRelationInstr", tuple(vectors.relations())),
        Table("TsmLogic", "logic_pointer", "TsmLogicInstr", tuple(vectors.logic())),
        Table(
            "TsmTranscendental",
            "transcendental_pointer",
            "TsmTranscendentalInstr",
            tuple(vectors.functions(transcendental)),
        ),
        Table(
            "TsmActivation", "activation_pointer", "TsmActivationInstr", tuple(vectors.functions(activation))
        ),
        Table("TsmReduce", "reduce_pointer", "TsmReduceInstr", tuple(vectors.reductions())),
        Table("TsmPool", "pool_pointer", "TsmPoolInstr", tuple(moves.pools())),
        Table("TsmUnPool", "unpool_pointer", "TsmUnPoolInstr", tuple(moves.unpools())),
        Table("TsmMaskDataMove", "maskdatamove_pointer", "TsmMaskDataMoveInstr", tuple(moves.masked_moves())),
        Table("TsmConvert", "convert_pointer", "TsmConvertInstr", tuple(vectors.converts())),
        Table("TsmPeripheral", "peripheral_pointer", "TsmPeripheralInstr", tuple(moves.peripherals())),
        Table("TsmDataMove", "datamove_pointer", "TsmDataMoveInstr", tuple(moves.moves())),
    )


def find(name: str) -> tuple[Table, Member]:
    """Find a member by a name such as ``TsmArith.AddVV``; MemberError when there is none."""
    table_name, _, member_name = name.partition(".")
    known = {table.name: table for table in tables()}
    if table_name not in known:
        raise MemberError(f"no table '{table_name}'{hint(table_name, known)}; the tables: {', '.join(known)}")
    members = {member.name: member for member in known[table_name].members}
    if member_name not in members:
        near = hint(member_name, members)
        raise MemberError(f"{table_name} has no member '{member_name}'{near}; it has {', '.join(members)}")
    return known[table_name], members[member_name]
