"""`grid_sample` as a step is traced with it equals torch's: values, and gradients of image and grid."""

from __future__ import annotations

import itertools

import pytest
import torch
import torch.nn.functional as F

from unspool.engine.trace.decompose.sampling import grid_sample

MODES, PADDINGS = ("bilinear", "nearest"), ("zeros", "border", "reflection")


@pytest.mark.parametrize(("mode", "padding"), list(itertools.product(MODES, PADDINGS)))
@pytest.mark.parametrize("align_corners", [True, False])
def test_it_is_torchs(mode: str, padding: str, align_corners: bool) -> None:
    """With places on the border, between pixels, and far outside; one image is a single pixel wide."""
    torch.manual_seed(0)
    for sizes, places in (((4, 5), (3, 6)), ((1, 6), (2, 5)), ((3, 1, 4), (2, 3, 2))):
        x = torch.randn(2, 3, *sizes, dtype=torch.float64, requires_grad=True)
        grid = 1.5 * torch.randn(2, *places, len(sizes), dtype=torch.float64)
        grid.view(-1)[:6] = torch.tensor([-1.0, 1.0, 0.0, -1.0, 1.0, 1.0])
        grid.requires_grad_()
        options = (mode, padding, align_corners)
        found, expected = grid_sample(x, grid, *options), F.grid_sample(x, grid, *options)
        torch.testing.assert_close(found, expected, rtol=1e-12, atol=1e-12)
        d = torch.randn_like(found)
        ours, theirs = (
            torch.autograd.grad(each, [x, grid], d, allow_unused=True, materialize_grads=True)
            for each in (found, expected)
        )
        torch.testing.assert_close(ours, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize(("mode", "padding"), list(itertools.product(MODES, PADDINGS)))
def test_places_that_are_no_numbers(mode: str, padding: str) -> None:
    x = torch.arange(1.0, 10.0).view(1, 1, 3, 3)
    for place in (torch.nan, torch.inf, -torch.inf, 1e30):
        grid = torch.tensor([place, 0.1]).expand(1, 1, 9, 2)  # as many as torch computes at once, and one
        options = (mode, padding, False)
        found, expected = grid_sample(x, grid, *options), F.grid_sample(x, grid, *options)
        torch.testing.assert_close(found, expected, equal_nan=True)


def test_what_is_computed_otherwise_is_left_to_torch() -> None:
    x, grid = torch.randn(2, 1, 4, 4), torch.rand(2, 3, 3, 2)
    found = grid_sample(x, grid, "bicubic", align_corners=False)
    assert torch.equal(found, F.grid_sample(x, grid, "bicubic", align_corners=False))
