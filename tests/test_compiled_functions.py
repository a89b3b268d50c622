"""Functions of single numbers in compiled loops: how far they are from the truth, and what they do at the ends.

Errors are counted in units in the last place (ulp) of the right result: half of one is what rounding alone may cost.
"""

from __future__ import annotations

import ctypes
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch

from unspool.engine.emit.cpp.libraries.build import Build
from unspool.engine.emit.cpp.libraries.kernels import header
from unspool.engine.emit.errors import CannotEmitError

FUNCTIONS = ("exp", "expm1", "log", "log1p", "sigmoid", "tanh")
TYPES = {"float": np.float32, "double": np.float64}
EXACT = {"float": np.float64, "double": np.longdouble}
"""What the right results are computed in: far more digits than the type has."""

LARGEST_ERRORS = {
    "exp": {"float": 1.06, "double": 1.03},
    "expm1": {"float": 1.87, "double": 1.84},
    "log": {"float": 0.77, "double": 0.78},
    "log1p": {"float": 1.45, "double": 1.45},
    "sigmoid": {"float": 2.5, "double": 2.5},
    "tanh": {"float": 2.43, "double": 2.6},
}
"""In ulp, over the numbers of `grid`."""

WRAPPER = """
extern "C" __attribute__((visibility("default")))
void {name}_{kind}(const {kind}* given, {kind}* results, int64_t count) {{
  #pragma omp simd
  for (int64_t i = 0; i < count; i++) results[i] = unspool::{name}(given[i]);
}}
"""

pytestmark = pytest.mark.compiled


@cache
def library() -> ctypes.CDLL:
    """Every function in a loop like those that are emitted."""
    text = header("functions.h") + "".join(WRAPPER.format(name=name, kind=kind) for name in FUNCTIONS for kind in TYPES)
    try:
        return Build.of(text).library()
    except CannotEmitError as reason:
        pytest.skip(f"nothing can be compiled here: {reason}")


def computed(name: str, kind: str, given: Any) -> Any:
    """What the compiled function makes of an array."""
    given = np.ascontiguousarray(given, TYPES[kind])
    results = np.empty_like(given)
    pointers = [ctypes.c_void_p(each.ctypes.data) for each in (given, results)]
    library()[f"{name}_{kind}"](*pointers, ctypes.c_int64(given.size))
    return results


def exact(name: str, kind: str, given: Any) -> Any:
    """The same with digits to spare."""
    with np.errstate(all="ignore"):
        wide = given.astype(EXACT[kind])
        if name == "sigmoid":
            # By the side that loses no digits.
            power = np.exp(-np.abs(wide))
            return np.where(wide < 0, power, EXACT[kind](1)) / (1 + power)
        return getattr(np, name)(wide)


def ulps(name: str, kind: str, found: Any, right: Any) -> Any:
    """How many units in the last place each number is away; those that are infinite or NaN must be just that.

    A sigmoid that is below the smallest normal number may be zero, as torch's is: e^-x is infinite there.
    """
    own = TYPES[kind]
    with np.errstate(all="ignore"):
        rounded = right.astype(own)
        finite = np.isfinite(rounded) & np.isfinite(found)
        unit = np.spacing(np.abs(rounded)).astype(EXACT[kind])
        errors = np.abs(found.astype(EXACT[kind]) - right) / unit
    same = (found == rounded) | (np.isnan(found) & np.isnan(rounded))
    errors = np.where(finite, errors, np.where(same, 0, np.inf)).astype(np.float64)
    if name == "sigmoid":
        errors[(found == 0) & (right < np.finfo(own).tiny)] = 0
    return errors


def every_size(kind: str) -> Any:
    """Numbers of all sizes and both signs: bit patterns at even distances, subnormal numbers among them."""
    if kind == "float":
        return np.arange(0, 2**32, 2039, dtype=np.uint64).astype(np.uint32).view(np.float32)
    return (np.arange(2**20, dtype=np.uint64) * np.uint64(2**64 // 2**20 - 1)).view(np.float64)


def grid(kind: str) -> Any:
    """All sizes, and more of those that matter: around zero and one, and as far out as any result still changes."""
    own = TYPES[kind]
    draw = np.random.default_rng(0)
    far = 105 if kind == "float" else 750
    spans = [np.linspace(-width, width, 200001) for width in (1e-3, 0.4, 1, 2, 20, 45, far)]
    drawn = [draw.uniform(-width, width, 200000) for width in (0.1, 1, 10, far)]
    small = [sign * np.exp2(draw.uniform(-1080, 0, 50000)) for sign in (-1, 1)]
    around_one = 1 + np.arange(-50000, 50000) * np.finfo(own).eps / 2
    subnormal = np.arange(1, 5000) * np.finfo(own).smallest_subnormal
    pieces = [*spans, *drawn, *small, around_one, subnormal, -subnormal, [np.finfo(own).max, np.finfo(own).tiny]]
    with np.errstate(all="ignore"):
        return np.concatenate([every_size(kind), *(np.asarray(piece).astype(own) for piece in pieces)])


def largest_error(name: str, kind: str) -> tuple[float, Any]:
    """And where it is."""
    given = grid(kind)
    errors = ulps(name, kind, computed(name, kind, given), exact(name, kind, given))
    worst = int(np.argmax(errors))
    return float(errors[worst]), given[worst]


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_errors_are_within_a_few_units_in_the_last_place(name: str, kind: str) -> None:
    if np.finfo(EXACT[kind]).nmant <= np.finfo(TYPES[kind]).nmant:
        pytest.skip("long double is no longer than double here")
    error, where = largest_error(name, kind)
    assert error <= LARGEST_ERRORS[name][kind], f"{name}({where!r}) is {error} ulp away"


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_nan_infinities_and_zeros_give_what_torch_gives(name: str, kind: str) -> None:
    """With the signs of zeros. Alone and in the middle of others, since compilers treat the ends of arrays apart."""
    special = np.array([np.nan, np.inf, -np.inf, 0.0, -0.0], TYPES[kind])
    for given in (special, np.repeat(special, 37), np.tile(special, 37)):
        found = computed(name, kind, given)
        expected = getattr(torch, name)(torch.from_numpy(given)).numpy()
        np.testing.assert_array_equal(found, expected)
        signs = ~np.isnan(expected)
        np.testing.assert_array_equal(np.signbit(found)[signs], np.signbit(expected)[signs])


@pytest.mark.parametrize("kind", TYPES)
def test_logarithms_of_what_has_none_are_nan(kind: str) -> None:
    below = np.array([-1e-30, -0.5, -1, -1.5, -3e30], TYPES[kind])
    assert np.isnan(computed("log", kind, below)).all()
    assert np.isnan(computed("log1p", kind, below[below < -1])).all()
    assert computed("log1p", kind, np.array([-1.0]))[0] == -np.inf


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("name", ["sigmoid", "tanh", "exp"])
def test_results_stay_in_their_range(name: str, kind: str) -> None:
    found = computed(name, kind, grid(kind))
    found = found[~np.isnan(found)]
    low, high = {"sigmoid": (0, 1), "tanh": (-1, 1), "exp": (0, np.inf)}[name]
    assert found.min() >= low
    assert found.max() <= high


@pytest.mark.parametrize("kind", TYPES)
def test_tanh_is_odd(kind: str) -> None:
    given = grid(kind)
    given = given[~np.isnan(given)]
    np.testing.assert_array_equal(computed("tanh", kind, -given), -computed("tanh", kind, given))
