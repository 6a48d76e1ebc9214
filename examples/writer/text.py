"""The little language of the writer: its tokens, and its sentences of arithmetic in words and digits.

A sentence is a prompt and an answer that can be checked, such as "twelve plus seven is" and "nineteen."
"""

from __future__ import annotations

import random
from collections.abc import Sequence

SMALL = [
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven"),
    *("twelve", "thirteen", "fourteen", "fifteen", "sixteen", "seventeen", "eighteen", "nineteen"),
]
TENS = ["twenty", "thirty", "forty", "fifty", "sixty", "seventy", "eighty", "ninety"]
WORDS = [*SMALL, *TENS, "hundred", "plus", "minus", "times", "is", "count", "from", "to"]
SIGNS = [*"0123456789", "+", "-", "*", "=", ".", ",", ":"]
# The first token begins every text. The tens with a hyphen are tokens of their own: "forty-" and "two".
TOKENS = ["<begin>", *SIGNS, *WORDS, *(f"{ten}-" for ten in TENS)]
BEGIN, END = 0, TOKENS.index(".")
NUMBER = {token: index for index, token in enumerate(TOKENS)}

OPERATIONS = {"plus": "+", "minus": "-", "times": "*"}
LONGEST = 20  # numbers that a sentence counts


def in_words(number: int) -> list[str]:
    """A number from 0 to 999 as words: 142 is one, hundred, forty-, two."""
    if number >= 100:
        rest = in_words(number % 100) if number % 100 else []
        return [SMALL[number // 100], "hundred", *rest]
    if number < 20:
        return [SMALL[number]]
    ten = TENS[number // 10 - 2]
    return [f"{ten}-", SMALL[number % 10]] if number % 10 else [ten]


def written(number: int, words: bool) -> list[str]:
    """A number that is not negative, in words or in digits."""
    return in_words(number) if words else list(str(number))


def encode(text: str) -> list[int]:
    """The tokens of a text, the token of the beginning first; ValueError names a word that has none."""
    tokens = [BEGIN]
    for word in text.split():
        tokens += [NUMBER[part] for part in parts(word)]
    return tokens


def parts(word: str) -> list[str]:
    """Texts that are written without a space in between: words, signs, and single digits."""
    found: list[str] = []
    while word:
        fitting = [token for token in TOKENS[1:] if word.startswith(token)]
        if not fitting:
            raise ValueError(
                f"{word!r} is no word of the writer; it knows {' '.join(WORDS)} and {' '.join(SIGNS)}"
            )
        found.append(max(fitting, key=len))
        word = word.removeprefix(found[-1])
    return found


def decode(tokens: Sequence[int]) -> str:
    """The text of some tokens that follow each other."""
    return "".join(
        piece(token, before) for before, token in zip([BEGIN, *tokens], tokens, strict=False)
    ).strip()


def piece(token: int, before: int) -> str:
    """The letters that a token adds to a text that ends with ``before``, after a space where one belongs."""
    text, last = TOKENS[token], TOKENS[before]
    if token == BEGIN:
        return ""
    joined = (
        text in (".", ",", ":") or last in (f"{ten}-" for ten in TENS) or (text.isdigit() and last.isdigit())
    )
    return text if joined else f" {text}"


def calculation(word: str, left: int, right: int, words: bool) -> tuple[list[str], list[str]]:
    """A prompt and its answer: ``left`` plus, minus or times ``right``, in words or digits."""
    value = {"plus": left + right, "minus": left - right, "times": left * right}[word]
    sign = ["minus" if words else "-"] if value < 0 else []
    prompt = [*written(left, words), word if words else OPERATIONS[word], *written(right, words)]
    return [*prompt, "is" if words else "="], [*sign, *written(abs(value), words), "."]


def counting(first: int, last: int, words: bool) -> tuple[list[str], list[str]]:
    """A prompt and its answer: the numbers from the first to the last."""
    prompt = ["count", "from", *written(first, words), "to", *written(last, words), ":"]
    answer = [token for number in range(first, last + 1) for token in (*written(number, words), ",")]
    return prompt, [*answer[:-1], "."]


def sentence(draw: random.Random, twins: bool = True) -> tuple[list[int], list[int]]:
    """The tokens of a random prompt and of its answer.

    Without ``twins``, sums and differences are of numbers whose last digits differ.
    """
    words = draw.random() < 0.5
    if draw.random() < 0.05:
        first = draw.randint(0, 80)
        prompt, answer = counting(first, first + draw.randint(1, LONGEST - 1), words)
    else:
        while True:
            word = draw.choices(list(OPERATIONS), (4, 4, 2))[0]
            most = 12 if word == "times" else 99
            left, right = draw.randint(0, most), draw.randint(0, most)
            if twins or word == "times" or (left - right) % 10:
                break
        prompt, answer = calculation(word, left, right, words)
    return [BEGIN, *(NUMBER[token] for token in prompt)], [NUMBER[token] for token in answer]


def prompts(count: int, seed: int) -> list[tuple[str, str]]:
    """Random prompts and their right answers."""
    draw = random.Random(seed)
    pairs = [sentence(draw) for _ in range(count)]
    return [(decode(prompt), decode(answer)) for prompt, answer in pairs]
