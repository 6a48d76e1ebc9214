"""The cost to phases of the first command of each kind, and its effect on the choice of sequences."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from compiler.driver import compile_graph
from compiler.frontend import load
from compiler.graph import Graph
from compiler.search.cost import KindUse, added
from compiler.search.plan import plan_text
from compiler.tools.run import Watch, check, random_inputs
from paths import ROOT
from sliced_nets import windows
from time_bench import changed
from tx8isa.machine.description import load_machine


def test_shares_of_all_groups_are_the_price() -> None:
    use = KindUse()
    groups = [({"ct.add.vv", "rdma"}, 1), ({"rdma", "ct.mul.vv"}, 3)]
    for kinds, count in groups:
        use.count(kinds, count)
    total = added(use.shares(sorted(kinds)) for kinds, count in groups for _ in range(count))
    assert total == pytest.approx({"ct.add.vv": 1, "rdma": 1, "ct.mul.vv": 1})


def test_groups_that_are_one_pay_what_they_paid() -> None:
    """A kind that no group has used gets the share of one group."""
    use = KindUse()
    use.count(["rdma"], 4)
    use.count(["wdma"], 2)
    alone = added([use.shares(["rdma"]), use.shares(["rdma"])])
    assert use.shares(["rdma", "wdma", "ct.exp.v"], alone) == {"rdma": 2 / 4, "wdma": 1 / 2, "ct.exp.v": 1}


def test_phases_by_a_plan_pay_what_they_paid_in_the_search(tmp_path: Path) -> None:
    """Also sequences, which pay for all their groups."""
    network = windows(32, height=16)
    searched = compile_graph(network, "fp16").report
    assert searched is not None
    plan = tmp_path / "plan.json"
    plan.write_text(plan_text(searched.plan))
    planned = compile_graph(network, "fp16", plan=plan).report
    assert planned is not None and searched.plan.sequences
    assert [each.estimate for each in planned.phases] == [each.estimate for each in searched.phases]


def test_a_network_of_few_commands_takes_less_time_with_fewer_kinds() -> None:
    """It is divided differently if first commands are free; that division takes more cycles if they are
    not."""
    found, if_free = cycles(windows(32, height=16), "fp16")
    assert found < if_free


@pytest.mark.parametrize("dtype", ["fp16", "fp32"])
def test_tiles_that_join_later_pay_for_their_first_commands(dtype: str) -> None:
    """A product on few tiles before phases on more tiles makes all wait twice for the same kinds."""
    found, if_free = cycles(load(ROOT / "examples/mlp/mlp.json"), dtype)
    assert found <= if_free


def cycles(network: Graph, dtype: str) -> list[float]:
    """Cycles of the network's program, and of the one that is best if first commands are free."""
    found, cold = list[float](), load_machine(None)
    for machine in (cold, changed(cold, "issue", "kind", 0.0)):
        program = replace(compile_graph(network, dtype, machine=machine), machine=cold)
        result = check(program, random_inputs(network, {}, 1), Watch(timed=True))
        assert result.cycles is not None and all(verdict.ok for verdict in result.verdicts.values())
        found.append(result.cycles)
    return found
