"""The chips of one rank. There is no global step; each rank advances as far as it knows the messages of the
others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar

from asm.image import Image
from tx8isa.machine.description import Machine

from ..links import Hop
from ..mesh import ChipMesh
from ..messages import Receipt
from .letters import Idle, Item, Letter, Post, Quiet, Sending
from .outlook import Outlook

Fact = TypeVar("Fact")


class RankMesh(ChipMesh):
    """The chips of one rank.

    ``ranks``: the rank of each chip; each has one. ``options`` as for ``ChipMesh``.
    """

    def __init__(
        self, image: Image, machine: Machine, post: Post, ranks: Sequence[int], **options: Any
    ) -> None:
        numbers = [number for number, rank in enumerate(ranks) if rank == post.rank]
        super().__init__(image, machine, numbers=numbers, **options)
        self._post, self._ranks = post, ranks
        self._outlook = Outlook(ranks)
        self._others = [rank for rank in range(post.size) if rank != post.rank]
        self._sendings: list[Sending] = []
        """Messages to other ranks that no letter has reported yet."""
        self._hops: dict[int, list[Hop]] = {rank: [] for rank in self._others}
        self._receipts: dict[int, list[tuple[Receipt, int]]] = {rank: [] for rank in self._others}
        """Receipts for the next letter, by rank."""
        self._received = [0] * post.size
        """Numbers of received hops and receipts, by the rank that they came from."""
        self._letters_sent, self._letters_received = [0] * post.size, [0] * post.size
        self._told: tuple[list[int], list[int]] | None = None
        """Promises and numbers of received messages that the others know."""
        self._idle: dict[int, Idle] = {}
        """Only in rank 0: the reports of idle ranks since all chips last stood still."""
        self._promises = self._outlook.times

    def _go_on(self, limit: int) -> bool:
        while (found := self._post.receive(wait=False)) is not None:
            self._take(*found)
        worked = super()._go_on(limit)
        self._write_letters()
        return worked

    # -- departures --------------------------------------------------------------------------------------

    def _forward(self, hop: Hop) -> None:
        rank = self._ranks[hop.chip]
        if rank == self._post.rank:
            super()._forward(hop)
            return
        self._hops[rank].append(hop)
        whole = self.chips[0].links.rates.ticks(hop.message.size) if hop.message.chip == hop.chip else 0
        self._send(Sending(rank, hop.chip, hop.time + whole))

    def _return(self, receipt: Receipt, time: int) -> None:
        rank = self._ranks[receipt.origin.chip]
        if rank == self._post.rank:
            super()._return(receipt, time)
            return
        self._receipts[rank].append((receipt, time))
        self._send(Sending(rank, receipt.origin.chip, time))

    def _send(self, sending: Sending) -> None:
        self._sendings.append(sending)
        self._outlook.sent(self._post.rank, sending)
        self._promises[sending.chip] = min(int(self._promises[sending.chip]), sending.time)

    def _show(self, before: int) -> None:
        if self._post.rank == 0:
            super()._show(before)

    def _write_letters(self) -> None:
        """Send the other ranks the changes, if there are any."""
        promises = [chip.promise for chip in self.chips]
        state = promises, list(self._received)
        printed = [] if self._post.rank == 0 else self._printed.take()
        if state == self._told and not self._sendings and not printed:
            return
        self._told = state
        self._outlook.promised(self._post.rank, promises)
        for rank in self._others:
            elsewhere = [sending for sending in self._sendings if sending.rank != rank]
            texts = printed if rank == 0 else []
            letter = Letter(promises, elsewhere, state[1], self._hops[rank], self._receipts[rank], texts)
            self._hops[rank], self._receipts[rank] = [], []
            self._post.send(rank, letter)
            self._letters_sent[rank] += 1
        self._sendings = []

    # -- arrivals ----------------------------------------------------------------------------------------

    def _take(self, sender: int, item: Item) -> None:
        if isinstance(item, Idle):
            self._idle[sender] = item
        if not isinstance(item, Letter):
            return
        self._letters_received[sender] += 1
        for sending in item.sendings:
            self._outlook.sent(sender, sending)
        self._outlook.promised(sender, item.promises)
        self._outlook.received(sender, item.received)
        for hop in item.hops:
            super()._forward(hop)
        for receipt, time in item.receipts:
            super()._return(receipt, time)
        self._received[sender] += len(item.hops) + len(item.receipts)
        for text in item.printed:
            self._printed.add(text)
        self._outlook.promised(self._post.rank, [chip.promise for chip in self.chips])
        self._promises = self._outlook.times

    # -- standing still ----------------------------------------------------------------------------------

    def _all_stand_still(self) -> bool:
        """Wait until a letter comes, or all ranks are idle.

        All ranks are idle if each has reported so after receiving as many letters as the others have sent to
        it, because only a letter makes a rank continue.
        """
        self._say_idle()
        while not self._nobody_goes_on():
            found = self._post.receive(wait=True)
            assert found is not None
            self._take(*found)
            if isinstance(found[1], Letter):
                return False
            if isinstance(found[1], Quiet):
                break
        self._idle.clear()
        return True

    def _say_idle(self) -> None:
        idle = Idle(list(self._letters_sent), list(self._letters_received))
        if self._post.rank == 0:
            self._idle[0] = idle
        else:
            self._post.send(0, idle)

    def _nobody_goes_on(self) -> bool:
        """In rank 0: return True, after telling the ranks, if all are idle."""
        if len(self._idle) < self._post.size:
            return False
        ranks = range(self._post.size)
        if any(self._idle[a].sent[b] != self._idle[b].received[a] for a in ranks for b in ranks):
            return False
        for rank in self._others:
            self._post.send(rank, Quiet())
        return True

    def _of_all(self, fact: Fact) -> list[Fact]:
        return self._post.of_all(fact)
