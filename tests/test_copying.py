"""Copies of many tensors: how many operations they take, and that they are copies."""

from __future__ import annotations

import torch
from torch import Tensor

from tests.seen_operations import SeenOperations
from unspool.engine.memory.copying import FEW, LARGE, copies, copy_all


def numbered(size: int, dtype: torch.dtype = torch.float32) -> Tensor:
    return torch.arange(size).to(dtype)


def copied(given: list[Tensor], own: list[Tensor] | None = None) -> list[str]:
    """The operations that copying them takes."""
    own = [torch.zeros_like(each) for each in given] if own is None else own
    with SeenOperations() as seen:
        copy_all(own, given)
    assert all(torch.equal(one, other) for one, other in zip(own, given, strict=True))
    return seen.names


def test_large_tensors_have_a_copy_each_and_many_others_share_one() -> None:
    large, small = LARGE // 4, [numbered(3), numbered(5), numbered(7)]
    assert copied([*small, numbered(large), numbered(large - 1), numbered(2 * large)]) == [
        "copy_",
        "copy_",
        "_foreach_copy_",
    ]


def test_few_small_tensors_have_a_copy_each() -> None:
    assert copied([numbered(3)] * FEW) == ["copy_"] * FEW
    assert copied([numbered(3)] * (FEW + 1)) == ["_foreach_copy_"]


def test_what_is_large_is_so_in_bytes() -> None:
    assert copied([numbered(LARGE // 8, torch.float64)] * 5) == ["copy_"] * 5
    assert copied([numbered(LARGE // 8)] * 5) == ["_foreach_copy_"]


def test_small_tensors_of_each_dtype_are_copied_together() -> None:
    kinds = [torch.float32, torch.int64] * 4
    assert copied([numbered(3, each) for each in [*kinds, torch.bool]]) == ["copy_", *["_foreach_copy_"] * 2]


def test_nothing_is_copied_of_nothing() -> None:
    assert copied([]) == []


def test_tensors_may_lie_otherwise() -> None:
    large, small = numbered(LARGE // 4).reshape(512, -1), numbered(6).reshape(2, 3)
    own = [torch.zeros(large.shape[::-1]).t(), torch.zeros(3, 2).t()]
    assert copied([large, small], own) == ["copy_", "copy_"]
    step = numbered(512).expand(1024, 512)
    assert copied([step], [torch.zeros(1024, 512)]) == ["copy_"]


def test_copies_lie_as_what_they_are_of() -> None:
    given = [numbered(LARGE // 4).reshape(512, -1).t(), *[numbered(6).reshape(2, 3).t()] * (FEW + 1)]
    for own, each in zip(copies(given), given, strict=True):
        assert torch.equal(own, each)
        assert own.stride() == each.stride()
        assert own.data_ptr() != each.data_ptr()
