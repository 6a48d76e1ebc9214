"""Arithmetic in prime fields, against Python's integers and fractions."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from tx8isa.numbers.formats import Format
from tx8isa.numbers.prime_field import MOST_TERMS, Elements, PrimeField
from tx8isa.numbers.rounding import rounded
from tx8isa.numbers.simple_fractions import simple_fractions

FIELD = PrimeField(7, exponentials=True)
PRIMES = [int(prime) for prime in FIELD.moduli]


def element(value: Fraction | int) -> list[int]:
    """A fraction in each of the fields."""
    number = Fraction(value)
    return [number.numerator * pow(number.denominator, -1, prime) % prime for prime in PRIMES]


def residues(x: Elements) -> list[list[int]]:
    """Elements [residues, n] as residues from 0 up, for each of the n elements."""
    found = FIELD.canonical(x)
    return [[int(found[at, k]) % prime for at, prime in enumerate(PRIMES)] for k in range(x.shape[1])]


def draw(name: str, count: int = 50) -> tuple[Elements, list[list[int]]]:
    x = FIELD.random(name, (count,))
    return x, residues(x)


def same(a: Elements, b: Elements) -> bool:
    return np.array_equal(FIELD.canonical(a), FIELD.canonical(b))


def test_the_moduli_are_primes_and_exponents_belong_to_them() -> None:
    for prime in PRIMES:
        assert all(prime % factor for factor in range(2, 2100))
    assert [2 * half + 1 for half in PRIMES[3:]] == PRIMES[:3]


def test_sums_differences_and_products() -> None:
    (a, left), (b, right) = draw("a"), draw("b")
    for found, function in (
        (FIELD.add(a, b), lambda x, y: x + y),
        (FIELD.subtract(a, b), lambda x, y: x - y),
        (FIELD.multiply(a, b), lambda x, y: x * y),
    ):
        wanted = [
            [function(x, y) % p for x, y, p in zip(*pair, PRIMES, strict=True)]
            for pair in zip(left, right, strict=True)
        ]
        assert residues(found) == wanted


def test_products_of_matrices_of_more_terms_than_are_exact_at_once() -> None:
    terms = 2 * MOST_TERMS + 3
    a, b = FIELD.random("a", (2, terms)), FIELD.random("b", (terms, 3))
    found = FIELD.canonical(FIELD.product(a, b))
    for at, prime in enumerate(PRIMES):
        row = [int(x) for x in a[at, 1]]
        column = [int(x) for x in b[at, :, 2]]
        assert int(found[at, 1, 2]) % prime == sum(x * y for x, y in zip(row, column, strict=True)) % prime


def test_inverses() -> None:
    a, left = draw("a")
    assert residues(FIELD.inverse(a)) == [
        [pow(x, -1, p) for x, p in zip(xs, PRIMES, strict=True)] for xs in left
    ]
    zero_and_infinity = np.array([[0.0, np.inf]] * len(PRIMES))
    assert (FIELD.inverse(zero_and_infinity) == np.array([np.inf, 0.0])).all()


def test_an_exponential_of_a_sum_is_the_product_of_exponentials() -> None:
    (a, _), (b, _) = draw("a"), draw("b")
    together = FIELD.canonical(FIELD.exp(FIELD.add(a, b)))
    apart = FIELD.canonical(FIELD.multiply(FIELD.exp(a), FIELD.exp(b)))
    assert (together == apart).all()
    assert (FIELD.exp(np.zeros((6, 1))) == 1.0).all()
    assert (FIELD.exp(np.full((6, 1), -np.inf)) == 0.0).all()


def test_exponentials_of_sums_of_exponentials_are_the_same_in_parts() -> None:
    """The denominator of a softmax in one sum, and in two that are rescaled; then an exponential of it."""
    (a, _), (b, _), (c, _) = draw("a"), draw("b"), draw("c")
    sums = FIELD.add(FIELD.exp(FIELD.subtract(a, c)), FIELD.exp(FIELD.subtract(b, c)))
    earlier = FIELD.add(np.ones_like(a), FIELD.exp(FIELD.subtract(b, a)))
    rescaled = FIELD.multiply(earlier, FIELD.exp(FIELD.subtract(a, c)))
    once, again = (FIELD.canonical(FIELD.exp(x)) for x in (sums, rescaled))
    assert (once == again).all()


@pytest.mark.parametrize("count", [*range(1, 129), 384, 768, 1024, 4096])
def test_the_root_of_a_length_is_that_of_the_number_of_fp32(count: int) -> None:
    """Also when it is a factor of a power of two, an inverse, or the power of two above it."""
    wanted = FIELD.sqrt(np.full((6, 1), float(count)))
    for factor in (1.0, 0.125, -4.0):
        for power, element_ in ((0.5, wanted), (-0.5, FIELD.inverse(wanted))):
            number = np.float64(np.float32(factor * count**power))
            found = FIELD.of_scalars(np.array([number]), Format.FP32)
            scaled = FIELD.multiply(element_, FIELD.of_numbers(np.array([factor])))
            assert (FIELD.canonical(found) == FIELD.canonical(scaled)).all()
            assert (FIELD.of_stored(np.array([number]), Format.FP32) == found).all()


def test_the_root_of_a_square_is_the_number() -> None:
    numbers = np.array([1.0, 2.0, 3.0, 0.25, 6.0, 7.0, 110.0, 1 / 1024])
    x = FIELD.of_numbers(numbers)
    assert (FIELD.canonical(FIELD.sqrt(FIELD.multiply(x, x))) == FIELD.canonical(x)).all()


def test_short_numbers_in_memory_stand_for_themselves() -> None:
    """The 16-bit number next to a third is taken literally; the 24-bit one is a third."""
    third = np.float64(np.float32(1 / 3))
    near = np.round(third * 2**17) / 2**17
    assert residues(FIELD.of_stored(np.array([near]), Format.FP32)) == [element(Fraction(near))]
    assert residues(FIELD.of_stored(np.array([third]), Format.FP32)) == [element(Fraction(1, 3))]
    short = np.asarray(rounded(np.array([third]), Format.TF32), np.float64)
    assert residues(FIELD.of_stored(short, Format.TF32)) == [element(Fraction(short[0]))]


@pytest.mark.parametrize("bits", [8, 11, 16])
def test_short_numbers_are_no_roots_nor_multiples_of_one(bits: int) -> None:
    """Some are near a root times log2(e), as 1161/32768 is."""
    whole = np.arange(2 ** (bits - 1), 2**bits, max(1, 2**bits // 5000)) | 1
    numbers = np.append(whole / 2.0**15, -1161 / 32768)
    found = FIELD.of_stored(numbers, Format.FP32)
    assert (FIELD.canonical(found) == FIELD.canonical(FIELD.of_numbers(numbers))).all()


def test_roots_are_multiplicative_and_their_squares_are_the_element_or_its_opposite() -> None:
    (a, left), (b, _) = draw("a"), draw("b")
    both = FIELD.canonical(FIELD.sqrt(FIELD.multiply(a, b)))
    assert (both == FIELD.canonical(FIELD.multiply(FIELD.sqrt(a), FIELD.sqrt(b)))).all()
    squares = residues(FIELD.multiply(FIELD.sqrt(a), FIELD.sqrt(a)))
    for found, own in zip(squares, left, strict=True):
        assert all(x in (y, -y % p) for x, y, p in zip(found, own, PRIMES, strict=True))


def test_a_maximum_is_associative_commutative_and_idempotent() -> None:
    a, b, c = (draw(name, 200)[0] for name in "abc")
    assert (FIELD.larger(a, FIELD.larger(b, c)) == FIELD.larger(FIELD.larger(a, b), c)).all()
    assert (FIELD.larger(a, b) == FIELD.larger(b, a)).all()
    assert (FIELD.larger(a, a) == a).all()
    assert (FIELD.larger(a, np.full_like(a, -np.inf)) == a).all()
    assert (FIELD.larger(FIELD.larger(a, b, -1), a) == a).all(), "absorption"
    stacked = np.stack([a, b, c], 1)
    assert (FIELD.extreme(stacked, 1)[:, 0] == FIELD.larger(a, FIELD.larger(b, c))).all()


def test_few_elements_come_before_zero_for_one_prime_and_most_for_another() -> None:
    """So a ReLU lets faults pass, and also has an effect after the maximum of many."""
    x = FIELD.random("x", (4000,))
    kept = (FIELD.larger(x, np.zeros((6, 1))) == x).mean(1)
    assert np.allclose(kept, [7 / 8, 1 / 2, 1 / 8] * 2, atol=0.05)


def test_hashes_depend_on_name_element_and_seed_and_are_never_zero() -> None:
    x, _ = draw("x", 2000)
    found = FIELD.canonical(FIELD.hashed("tanh", x))
    assert (found != 0).all()
    assert (found == FIELD.canonical(FIELD.hashed("tanh", x))).all()
    for other in (FIELD.hashed("sin", x), PrimeField(8, True).hashed("tanh", x), FIELD.hashed("tanh", x + 1)):
        assert (found == FIELD.canonical(other)).mean() < 0.01


def test_rounding_to_integers_keeps_integers() -> None:
    x, _ = draw("x", 500)
    once = FIELD.whole(x)
    assert (FIELD.whole(once) == once).all()
    assert (FIELD.whole(np.full((6, 1), -17.0)) == -17.0).all()


@pytest.mark.parametrize("fmt", [Format.FP16, Format.BF16, Format.FP32, Format.INT8])
def test_stored_numbers_are_exactly_what_they_mean(fmt: Format) -> None:
    rng = np.random.default_rng(3)
    if fmt is Format.INT8:
        values = np.arange(-128, 128).astype(np.int8)
        patterns = values.view(np.uint8).astype(np.int64)
    else:
        values = rounded(rng.standard_normal(60) * 10.0 ** rng.integers(-6, 4, 60), fmt)
        patterns = values.view(f"u{fmt.bits // 8}").astype(np.int64)
    wanted = [element(Fraction(float(value))) for value in values]
    assert residues(FIELD.of_patterns(patterns, fmt)) == wanted


@pytest.mark.parametrize("fmt", [Format.FP16, Format.FP32])
@pytest.mark.parametrize("fraction", ["1/3", "-1/49", "1/10", "3/7", "5", "0.5", "1/300", "-0.75"])
def test_a_number_of_an_instruction_is_the_fraction_that_was_rounded(fmt: Format, fraction: str) -> None:
    value = np.asarray(rounded(np.array([float(Fraction(fraction))]), fmt), np.float64)
    assert residues(FIELD.of_scalars(value, fmt)) == [element(Fraction(fraction))]


@pytest.mark.parametrize("compute", [Format.FP16, Format.BF16])
@pytest.mark.parametrize("value", [1 / 3, -1 / 49, 33 / 64, 0.75, 3e-5])
def test_a_rounded_number_means_the_same_in_instructions_of_fp32(compute: Format, value: float) -> None:
    field, number = PrimeField(7, True, compute), np.asarray(rounded(np.array([value]), compute), np.float64)
    assert np.array_equal(field.of_scalars(number, compute), field.of_scalars(number, Format.FP32))
    longer = np.float64(np.nextafter(np.float32(number), np.float32(1)))
    assert np.array_equal(field.of_scalars(longer, Format.FP32), FIELD.of_scalars(longer, Format.FP32))


def test_both_numbers_around_a_fraction_stand_for_it() -> None:
    """The weights of a mean are the numbers below and above 1/n."""
    for count in (3, 24, 100, 384, 500):
        near = np.float16(1 / count)
        for each in (near, np.nextafter(near, np.float16(0)), np.nextafter(near, np.float16(1))):
            if abs(float(each) - 1 / count) < float(np.spacing(near)):
                found = FIELD.of_scalars(np.array([float(each)]), Format.FP16)
                assert residues(found) == [element(Fraction(1, count))], count


def test_no_simpler_fraction_is_beside_a_value() -> None:
    rng = np.random.default_rng(5)
    values = rng.uniform(0.01, 3, 40).astype(np.float16).astype(np.float64)
    above, below, power = simple_fractions(values, 10)
    for value, a, b, exponent in zip(values, above, below, power, strict=True):
        if exponent or value == round(value):
            assert Fraction(int(a)) * Fraction(2) ** int(exponent) == Fraction(value)
            continue
        step = 2.0 ** (np.floor(np.log2(value)) - 10)
        simpler = [q for q in range(1, int(b)) if abs(round(value * q) / q - value) < 0.99 * step]
        assert not simpler, (value, a, b, simpler)


def test_infinities_hide_and_stay() -> None:
    a, _ = draw("a", 3)
    low = np.full_like(a, -np.inf)
    assert (FIELD.add(a, low) == -np.inf).all()
    assert (FIELD.multiply(low, a) == -np.inf).all()
    largest = FIELD.of_scalars(np.array([-65504.0]), Format.FP16)
    assert (largest == -np.inf).all()


def test_numbers_are_in_their_own_order_and_spread_over_the_keyed_one() -> None:
    values = np.array([-6e4, -513.0, -6.0, -0.5, -(2.0**-12), 0.0, 0.25, 0.5, 6.0, 6.25, 3000.0, 65536.0])
    order = FIELD.order(FIELD.of_numbers(values))
    assert (np.diff(order.astype(object)) > 0).all()
    others = FIELD.order(FIELD.random("others", (4000,)))
    for first, second in ((-6.0, -0.5), (0.0, 0.5), (0.5, 6.0)):
        low, high = (order[:, list(values).index(each)].reshape(-1, 1) for each in (first, second))
        assert (((low < others) & (others < high)).sum(1) > 40).all(), "a wrong bound is seen"


def test_the_order_is_one_of_residues() -> None:
    """A maximum takes each residue from one of its operands, and later maxima must agree with it."""
    x, zero = FIELD.random("x", (3, 4000)), FIELD.of_numbers(np.zeros((1, 1)))
    first, second = FIELD.larger(FIELD.extreme(x, 1), zero), FIELD.extreme(FIELD.larger(x, zero), 1)
    assert np.array_equal(FIELD.canonical(first), FIELD.canonical(second))


@pytest.mark.parametrize("value", [0.0, 6.0, 0.25, 1e7 + 1])
@pytest.mark.parametrize("sign", [1, -1])
def test_elements_that_differ_by_their_exponents_do_not_tie(value: float, sign: int) -> None:
    """A maximum of two elements whose residues modulo p are equal does not depend on their order."""
    x = np.repeat(FIELD.of_numbers(np.array([value])), 3, 1)
    x[FIELD.primes :, 1:] = [[5.0, -7.0]] * FIELD.primes
    pairs = [(x[:, [a]], x[:, [b]]) for a in range(3) for b in range(3) if a != b]
    for a, b in pairs:
        first, second = FIELD.larger(a, b, sign), FIELD.larger(b, a, sign)
        assert np.array_equal(FIELD.canonical(first), FIELD.canonical(second))
        assert (FIELD.holds("eq", a, b) == 0.0).all()
    found = [FIELD.extreme(x[:, order], 1, sign) for order in ([0, 1, 2], [2, 1, 0], [1, 0, 2])]
    assert all(np.array_equal(FIELD.canonical(found[0]), FIELD.canonical(each)) for each in found)


def test_an_element_with_an_exponent_is_true() -> None:
    x = FIELD.of_numbers(np.zeros(2))
    x[FIELD.primes :, 1] = 5.0
    assert FIELD.truth(x).tolist() == [[False, True]] * FIELD.residues


def test_other_elements_are_spread_evenly_over_the_keyed_order() -> None:
    x = FIELD.random("x", (20000,))
    places = FIELD.order(x) / 2.0**63
    assert np.allclose(places.mean(1), 0.5, atol=0.02)
    assert np.allclose(places.std(1), 12**-0.5, atol=0.03)


@pytest.mark.parametrize("terms", [3, MOST_TERMS + 3])
def test_sums_and_products_of_infinities_are_infinite_or_unknown(terms: int) -> None:
    """As with floats, there is no warning, because a program may add values that it must not use."""
    x = FIELD.random("x", (4, terms))
    x[:, 0, 0], x[:, 1, 0], x[:, 1, -1], x[:, 2, 1] = np.inf, np.inf, -np.inf, np.nan
    total = FIELD.sum(x, (1,))
    assert (total[:, 0] == np.inf).all() and np.isnan(total[:, 1:3]).all() and np.isfinite(total[:, 3]).all()
    ones = np.ones((len(PRIMES), terms, 1))
    np.testing.assert_array_equal(FIELD.product(x, ones), total)
    ones[:, 0] = 0.0
    product = FIELD.product(x, ones)
    assert np.isnan(product[:, 0]).all() and np.isfinite(product[:, 3]).all()
    np.testing.assert_array_equal(FIELD.add(x, -x)[:, 0, 0], np.nan)


def test_powers_of_two_obey_the_laws_of_exponentials() -> None:
    x, y = (FIELD.random(name, (50,)) for name in "xy")
    factors = np.array([math.log2(math.e), math.log2(math.e) / 8, 1 / math.log2(math.e), 0.3 * math.log(2)])
    whole, eighth, inverse, part = (
        FIELD.of_scalars(np.asarray(np.float32(each), np.float64), Format.FP32)[:, None] for each in factors
    )
    assert same(FIELD.pow2(FIELD.multiply(x, whole)), FIELD.exp(x))
    assert same(FIELD.pow2(FIELD.add(x, y)), FIELD.multiply(FIELD.pow2(x), FIELD.pow2(y)))
    assert same(FIELD.multiply(eighth, FIELD.of_numbers(np.array([8.0]))), whole)
    assert same(FIELD.multiply(FIELD.log2(x), inverse), FIELD.hashed("ln", x))
    three_tenths = FIELD.of_scalars(np.asarray(np.float64(np.float32(0.3))), Format.FP32)[:, None]
    assert same(FIELD.multiply(part, whole), three_tenths)
    assert not same(FIELD.pow2(x), FIELD.exp(x))


def test_numbers_of_masks_are_infinities() -> None:
    numbers = np.array([-1e30, 1e31, -1e29]).astype(np.float32).astype(np.float64)
    for found in (FIELD.of_scalars(numbers, Format.FP32), FIELD.of_stored(numbers, Format.FP32)):
        assert np.isneginf(found[:, 0]).all() and np.isposinf(found[:, 1]).all()
        assert np.isfinite(found[:, 2]).all()


# --- numbers of a graph, which programs round or not ------------------------------------------------------

GIVEN = PrimeField(
    7, exponentials=True, compute=Format.FP16, given=[32**-0.5, 0.7310586, 0.99999, -1e9, 1e-5]
)


def held(value: float, fmt: Format = Format.FP32) -> Elements:
    return GIVEN.of_scalars(np.asarray(rounded(np.asarray(value), fmt), np.float64), fmt)


@pytest.mark.parametrize("number", [32**-0.5, 0.7310586, 0.99999, -(32**-0.5), 1 / 0.7310586])
def test_a_given_number_is_one_element_in_each_format(number: float) -> None:
    """The same holds if an instruction of FP32 holds it as rounded to FP16; 0.99999 is 1 there."""
    narrow = float(np.float16(number))
    wide = held(number)
    assert same(wide, held(number, Format.FP16))
    assert same(wide, held(narrow))


@pytest.mark.parametrize("factor", [1 + 2**-20, 1 - 2**-12, 1 + 2**-9])
def test_a_number_beside_a_given_one_is_another_element(factor: float) -> None:
    assert not same(held(0.7310586), held(0.7310586 * factor))
    assert not same(held(32**-0.5), held(32**-0.5 * factor))


def test_given_numbers_of_few_digits_in_the_format_stay_themselves() -> None:
    """A small number loses digits in FP16, where programs do not put it."""
    assert residues(held(1.0).reshape(-1, 1)) == [element(1)]
    assert same(held(1e-5), GIVEN.of_scalars(np.asarray(np.float32(1e-5), np.float64), Format.FP32))
    assert not same(held(1e-5), held(float(np.float16(1e-5))))


def test_a_given_number_below_all_of_the_format_hides() -> None:
    assert np.isneginf(held(-1e9)).all()
    assert np.isfinite(held(-1e8)).all()


def test_the_sign_of_a_product_with_an_infinity() -> None:
    """0 hides nothing; the sign of other elements than whole numbers is taken as positive."""
    numbers = FIELD.of_numbers(np.array([0.0, 1.0, -1.0, 5.0, -3.0]))
    for infinity in (np.inf, -np.inf):
        found = FIELD.multiply(numbers, np.full_like(numbers, infinity))
        assert np.array_equal(
            found, np.broadcast_to([0, infinity, -infinity, infinity, -infinity], found.shape)
        )
    x, _ = draw("x", 5)
    assert np.isposinf(FIELD.multiply(np.full_like(x, np.inf), x)).all()
    assert np.isnan(FIELD.multiply(np.full_like(x, np.nan), np.full_like(x, np.inf))).all()


def test_rounding_in_another_mode_is_another_function() -> None:
    x, _ = draw("x")
    assert same(FIELD.whole(x, 3), FIELD.whole(x, 3))
    assert not same(FIELD.whole(x, 2), FIELD.whole(x, 3))
    numbers = FIELD.of_numbers(np.arange(-40.0, 40.0))
    assert same(FIELD.whole(numbers, 2), numbers)


def test_numbers_that_were_converted_before_are_those_of_their_format() -> None:
    """Elements of few numbers are kept, by format and kind."""
    field, number = PrimeField(7, exponentials=True), np.array([0x3DAAAAAB])  # a twelfth in FP32
    for _ in range(2):
        assert residues(field.of_patterns(number, Format.FP32)) == [element(Fraction(1, 12))]
        assert residues(field.of_patterns(number, Format.INT32)) == [element(0x3DAAAAAB)]
        assert residues(field.of_scalars(np.array([0.1]), Format.FP16)) == [element(Fraction(1, 10))]
        assert not same(field.of_numbers(np.array([0.1])), field.of_scalars(np.array([0.1]), Format.FP16))
