"""Networks of PyTorch over ranges of sizes: a block of a decoder with a cache that grows, and an encoder."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tx8
from extras import needs_torch

pytestmark = [needs_torch, pytest.mark.filterwarnings("ignore")]  # PyTorch warns of its own deprecations


def decoder() -> Any:
    """A block as of Llama: normalisation, rotary embeddings, two heads of keys for four, gated products.

    Its inputs are the new rows, their positions, and the keys and values of earlier rows.
    """
    import torch
    from torch import nn

    class Block(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.norms = nn.ModuleList([nn.RMSNorm(64) for _ in range(2)])
            self.query, self.key, self.value = (nn.Linear(64, n, bias=False) for n in (64, 32, 32))
            self.joined = nn.Linear(64, 64, bias=False)
            self.gate, self.up = (nn.Linear(64, 96, bias=False) for _ in range(2))
            self.down = nn.Linear(96, 64, bias=False)
            self.register_buffer("rates", 100 ** (-torch.arange(8) / 8))

        def rotated(self, x: Any, positions: Any) -> Any:
            angles = positions[:, None, :, None].float() * self.rates
            angles = torch.cat([angles, angles], -1)
            turned = torch.cat([-x[..., 8:], x[..., :8]], -1)
            return x * angles.cos() + turned * angles.sin()

        def heads(self, x: Any, count: int) -> Any:
            return x.reshape(1, -1, count, 16).transpose(1, 2)

        def forward(self, x: Any, positions: Any, past_key: Any, past_value: Any) -> tuple[Any, Any, Any]:
            normal = self.norms[0](x)
            query = self.rotated(self.heads(self.query(normal), 4), positions)
            key = self.rotated(self.heads(self.key(normal), 2), positions)
            key = torch.cat([past_key, key], 2)
            value = torch.cat([past_value, self.heads(self.value(normal), 2)], 2)
            keys, values = (each.repeat_interleave(2, 1) for each in (key, value))
            scores = query @ keys.transpose(2, 3) / 4
            seen = torch.arange(key.shape[2])[None, :] <= positions[0, :, None]
            weights = torch.softmax(scores.masked_fill(~seen, -1e9), -1)
            x = x + self.joined((weights @ values).transpose(1, 2).reshape(1, -1, 64))
            normal = self.norms[1](x)
            hidden = torch.nn.functional.silu(self.gate(normal)) * self.up(normal)
            return x + self.down(hidden), key, value

    torch.manual_seed(5)
    return Block().eval()


def exported_decoder(module: Any) -> Any:
    import torch

    new, past = torch.export.Dim("new", max=8), torch.export.Dim("past", max=40)
    caches = (torch.randn(1, 2, 5, 16) for _ in range(2))
    inputs = (torch.randn(1, 3, 64), torch.arange(5, 8)[None], *caches)
    return torch.export.export(module, inputs, dynamic_shapes=({1: new}, {1: new}, {2: past}, {2: past}))


def present(program: Any) -> dict[str, str]:
    """The states: inputs by name, with the outputs that are their new values."""
    from torch.export.graph_signature import OutputKind

    specs = program.graph_signature.output_specs
    outputs = [spec.arg.name for spec in specs if spec.kind == OutputKind.USER_OUTPUT]
    return dict(zip(("past_key", "past_value"), outputs[1:], strict=True))


@pytest.mark.long
def test_a_decoder_with_a_cache_step_by_step() -> None:
    import torch

    module = decoder()
    exported = exported_decoder(module)
    dims = {"new": (1, 1, 8), "past": (0, 20, 40)}
    made = tx8.compile(exported, dtype="fp32", dims=dims, state=present(exported))
    assert all("writes new elements" in line for line in made.compiled.states)
    cache = [torch.zeros(1, 2, 0, 16)] * 2
    with tx8.Session(made) as session:
        at = 0
        for count in (7, 1, 1, 4):
            x, positions = torch.randn(1, count, 64), torch.arange(at, at + count)[None]
            with torch.no_grad():
                expected, *cache = module(x, positions, *cache)
            found = session.run(x=x, positions=positions)
            assert np.abs(next(iter(found.values())) - expected.numpy()).max() < 1e-4
            at += count
        assert np.abs(session.state["past_key"] - cache[0].numpy()).max() < 1e-4


@pytest.mark.long
def test_an_encoder_of_any_batch_and_length() -> None:
    import torch
    from torch import nn

    class Encoder(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.words = nn.Embedding(50, 32)
            self.norm, self.joined = nn.LayerNorm(32), nn.Linear(32, 32)
            self.projections = nn.ModuleList([nn.Linear(32, 32) for _ in range(3)])

        def forward(self, ids: Any) -> Any:
            x = self.words(ids)
            batch, length = ids.shape
            query, key, value = (
                each(x).reshape(batch, length, 2, 16).transpose(1, 2) for each in self.projections
            )
            seen = nn.functional.scaled_dot_product_attention(query, key, value)
            return self.norm(x + self.joined(seen.transpose(1, 2).reshape(batch, length, 32)))

    torch.manual_seed(6)
    module = Encoder().eval()
    batch, seq = torch.export.Dim("batch", max=4), torch.export.Dim("seq", max=64)
    shapes = ({0: batch, 1: seq},)
    exported = torch.export.export(module, (torch.randint(0, 50, (3, 5)),), dynamic_shapes=shapes)
    made = tx8.compile(exported, dtype="fp32", dims={"batch": (1, 1, 4), "seq": (1, 16, 64)})
    for size in ((1, 1), (2, 7), (3, 37), (4, 64)):
        ids = torch.randint(0, 50, size)
        with torch.no_grad():
            expected = module(ids).numpy()
        assert np.abs(made.run(ids)[0] - expected).max() < 1e-4
