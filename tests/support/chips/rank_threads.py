"""Ranks that are threads of this process: a post between them, and programs run over them."""

from __future__ import annotations

import queue
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from emulator.chips.ranks.letters import Item
from emulator.chips.ranks.mesh import RankMesh


class ThreadsPost:
    """The post of one of several threads. ``delay`` returns the seconds before an item is received."""

    def __init__(self, rank: int, office: Office, delay: Callable[[], float]) -> None:
        self.rank, self.size, self._office, self._delay = rank, office.size, office, delay
        self.sent: list[Item] = []

    def send(self, rank: int, item: Item) -> None:
        self.sent.append(item)
        self._office.boxes[rank].put((self.rank, item))

    def receive(self, wait: bool) -> tuple[int, Item] | None:
        time.sleep(self._delay())
        try:
            return self._office.boxes[self.rank].get(wait, 60 if wait else None)
        except queue.Empty:
            assert not wait, "nothing has come for a minute"
            return None

    def of_all(self, fact: Any) -> list[Any]:
        facts = self._office.facts
        facts[self.rank] = fact
        self._office.barrier.wait(60)
        found = [facts[rank] for rank in range(self.size)]
        self._office.barrier.wait(60)
        return found


class Office:
    """The data that the posts of the threads share."""

    def __init__(self, size: int) -> None:
        self.size = size
        self.boxes: list[queue.Queue[tuple[int, Item]]] = [queue.Queue() for _ in range(size)]
        self.barrier = threading.Barrier(size)
        self.facts: dict[int, Any] = {}


def run_ranks(make: Callable[[ThreadsPost], RankMesh], size: int, seed: int | None = None) -> list[RankMesh]:
    """The meshes of all ranks after a run. ``seed``: letters take random times, and rank 0 is slow."""
    office = Office(size)
    rng = random.Random(seed)

    def delay(rank: int) -> float:
        if seed is None:
            return 0.0
        return rng.choice((0.0, 0.0, 0.002, 0.005)) + (0.003 if rank == 0 else 0.0)

    meshes = [make(ThreadsPost(rank, office, lambda rank=rank: delay(rank))) for rank in range(size)]  # type: ignore[misc]
    with ThreadPoolExecutor(size) as pool:
        jobs = [pool.submit(mesh.run) for mesh in meshes]
        errors = [job.exception() for job in jobs]
    for error in errors:
        if error is not None:
            raise error
    return meshes


def chips_in_order(meshes: Sequence[RankMesh]) -> list[Any]:
    """The chips of all ranks."""
    return sorted((chip for mesh in meshes for chip in mesh.chips), key=lambda chip: chip.number)
