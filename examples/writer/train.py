"""Trains the writer on sentences of arithmetic, and writes its weights.

    python examples/writer/train.py [FOLDER]

FOLDER (default: the folder of this file) receives weights.safetensors, in FP16. It needs PyTorch and
safetensors, and takes about ten minutes on one core. Every random choice is seeded. The answers of the
trained weights are compared with the right ones.
"""

from __future__ import annotations

import argparse
import math
import random
from pathlib import Path

import numpy as np
import torch
from safetensors.numpy import save_file
from shape import SHAPE
from text import END, TOKENS, decode, sentence
from torch import Tensor, nn
from torch.nn import functional

STAGES = (1700, 300, 200)
"""Steps of the stages; the first two have no sums and differences of numbers with the same last digit."""
ROWS, LENGTH = 24, 96
RATE, WARM_UP, SEED = 2e-3, 100, 2026
UNTRAINED = -100  # the token of a prompt, which is not learnt


def rotated(x: Tensor, positions: Tensor) -> Tensor:
    """Rotary embeddings of rows [rows, heads, length, head], at positions [rows, length]."""
    half = SHAPE.head // 2
    angles = positions[..., None] * SHAPE.base ** -(torch.arange(half) / half)
    cos, sin = angles.cos()[:, None], angles.sin()[:, None]
    low, high = x[..., :half], x[..., half:]
    return torch.cat([low * cos - high * sin, high * cos + low * sin], -1)


class Layer(nn.Module):
    """Attention with grouped heads, then SwiGLU, each after an RMS norm."""

    def __init__(self) -> None:
        super().__init__()
        width, head = SHAPE.width, SHAPE.head
        self.attention_norm, self.mlp_norm = (
            nn.RMSNorm(width, SHAPE.epsilon),
            nn.RMSNorm(width, SHAPE.epsilon),
        )
        self.q = nn.Linear(width, SHAPE.heads * head, bias=False)
        self.k = nn.Linear(width, SHAPE.groups * head, bias=False)
        self.v = nn.Linear(width, SHAPE.groups * head, bias=False)
        self.o = nn.Linear(SHAPE.heads * head, width, bias=False)
        self.gate = nn.Linear(width, SHAPE.hidden, bias=False)
        self.up = nn.Linear(width, SHAPE.hidden, bias=False)
        self.down = nn.Linear(SHAPE.hidden, width, bias=False)

    def forward(self, x: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Rows [rows, length, width]; the mask [rows, 1, length, length] is true where a token is seen."""
        normal = self.attention_norm(x)
        q, k, v = (
            part(normal).unflatten(-1, (-1, SHAPE.head)).transpose(1, 2) for part in (self.q, self.k, self.v)
        )
        q, k = rotated(q, positions), rotated(k, positions)
        seen = functional.scaled_dot_product_attention(q, k, v, mask, enable_gqa=True)
        x = x + self.o(seen.transpose(1, 2).flatten(2))
        normal = self.mlp_norm(x)
        return x + self.down(functional.silu(self.gate(normal)) * self.up(normal))


class Writer(nn.Module):
    """The decoder; the embedding is also the matrix of the last product."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding = nn.Embedding(SHAPE.tokens, SHAPE.width)
        self.layers = nn.ModuleList(Layer() for _ in range(SHAPE.layers))
        self.norm = nn.RMSNorm(SHAPE.width, SHAPE.epsilon)
        for name, value in self.named_parameters():
            if "norm" not in name:
                last = name.endswith(("o.weight", "down.weight"))
                nn.init.normal_(value, std=0.04 / math.sqrt(2 * SHAPE.layers) if last else 0.04)

    def forward(self, tokens: Tensor, positions: Tensor, mask: Tensor) -> Tensor:
        """Logits [rows, length, tokens] of tokens [rows, length]."""
        x = self.embedding(tokens)
        for layer in self.layers:
            x = layer(x, positions, mask)
        return functional.linear(self.norm(x), self.embedding.weight)


def batch(draw: random.Random, twins: bool) -> tuple[Tensor, Tensor, Tensor, Tensor]:
    """Tokens, positions and targets [rows, length], and the mask.

    Every row has some sentences, which do not see each other.
    """
    tokens, positions, targets, places = (np.zeros((ROWS, LENGTH), np.int64) for _ in range(4))
    targets[:] = UNTRAINED
    for row in range(ROWS):
        begin, number = 0, 1
        while begin < LENGTH - 8:
            prompt, answer = sentence(draw, twins)
            text = [*prompt, *answer][: LENGTH - begin]
            end = begin + len(text)
            tokens[row, begin:end], positions[row, begin:end] = text, range(len(text))
            targets[row, begin + len(prompt) - 1 : end - 1] = text[len(prompt) :]
            places[row, begin:end] = number
            begin, number = end, number + 1
    same = torch.from_numpy(places[:, :, None] == places[:, None])
    mask = (same & torch.ones(LENGTH, LENGTH, dtype=torch.bool).tril())[:, None]
    return torch.from_numpy(tokens), torch.from_numpy(positions), torch.from_numpy(targets), mask


def first_rate(step: int) -> float:
    """The share of the learning rate in the first stage: it rises, then falls as a cosine that ends later."""
    if step < WARM_UP:
        return (step + 1) / WARM_UP
    return 0.01 + 0.99 * 0.5 * (1 + math.cos(math.pi * (step - WARM_UP) / (2600 - WARM_UP)))


def second_rate(step: int) -> float:
    """The share in the second stage: it falls to 0, where the weights settle."""
    return first_rate(STAGES[0]) * (1 - step / STAGES[1])


def last_rate(step: int) -> float:
    """The share in the last stage: it begins at half and falls to 0 again."""
    return second_rate(0) / 2 * (1 - step / STAGES[2])


RATES = (first_rate, second_rate, last_rate)


def stage(model: Writer, number: int) -> None:
    """Train a model in a stage that starts at step 0; prints the loss every 100 steps."""
    draw, steps, rate = random.Random(SEED + number), STAGES[number], RATES[number]
    optimizer = torch.optim.AdamW(model.parameters(), RATE, (0.9, 0.98), weight_decay=0.05)
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, rate)
    losses: list[float] = []
    for step in range(1, steps + 1):
        tokens, positions, targets, mask = batch(draw, twins=number == 2)
        logits = model(tokens, positions, mask)
        loss = functional.cross_entropy(logits.flatten(0, 1), targets.flatten(), ignore_index=UNTRAINED)
        optimizer.zero_grad()
        loss.backward()
        nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        schedule.step()
        losses.append(loss.item())
        if step % 100 == 0:
            print(f"step {step:5}/{steps}  mean loss {np.mean(losses[-100:]):.4f}", flush=True)


def train() -> Writer:
    """The trained model."""
    torch.manual_seed(SEED)
    torch.set_num_threads(1)
    model = Writer()
    for number in range(len(STAGES)):
        stage(model, number)
        score(model)
    return model


@torch.no_grad()
def score(model: Writer, count: int = 300) -> None:
    """Print how many of some prompts are answered rightly, and the wrong answers."""
    draw, right = random.Random(1), 0
    for _ in range(count):
        prompt, answer = sentence(draw)
        text = list(prompt)
        while len(text) < SHAPE.room and text[-1] != END:
            length = len(text)
            mask = torch.ones(length, length, dtype=torch.bool).tril()
            logits = model(torch.tensor([text]), torch.arange(length)[None], mask[None, None])
            text.append(int(logits[0, -1].argmax()))
        right += text[len(prompt) :] == answer
        if text[len(prompt) :] != answer:
            print(f"  {decode(prompt)} {decode(text[len(prompt) :])}  (right: {decode(answer)})")
    print(f"{right} of {count} prompts are answered rightly", flush=True)


def main() -> None:
    """Trains, prints how many answers are right, and writes the weights."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", nargs="?", type=Path, default=Path(__file__).parent)
    arguments = parser.parse_args()
    assert len(TOKENS) <= SHAPE.tokens
    model = train()
    half = {name: value.detach().half() for name, value in model.state_dict().items()}
    arguments.folder.mkdir(parents=True, exist_ok=True)
    save_file({name: value.numpy() for name, value in half.items()}, arguments.folder / "weights.safetensors")
    model.load_state_dict({name: value.float() for name, value in half.items()})
    score(model)


if __name__ == "__main__":
    main()
