"""What soak cells are drawn of: what computes, what chooses and moves, what is seldom met. Each keeps rows apart."""

from __future__ import annotations

from collections.abc import Callable

from tests.drawn_steps import DoesNotFitError
from tests.soak_arithmetic import (
    along,
    binary,
    convolution,
    heads,
    linear,
    of_both,
    padding,
    pooling,
    reduction,
    row_by_row,
    scaled,
    scan,
    unary,
)
from tests.soak_drawing import Drawing
from tests.soak_places import (
    gathered,
    integers,
    join,
    looked_up,
    masked,
    overwritten,
    scattered,
    sorting,
    truths,
    view,
    written,
)


def gradients(d: Drawing) -> str:
    """Gradients that go elsewhere."""
    ways = """
        {t}.detach() * {t}; {t}.detach(); Through.apply({t}); Clipped.apply({t}, 0.5);
        {t} * torch.sigmoid({t}.detach()); {t} + (torch.round({t} + 0.0123) - {t}).detach();
        with torch.no_grad(): OUT = torch.tanh({t}) * 2
    """
    return d.one(ways, t=d.value())


def noise(d: Drawing) -> str:
    if not d.noisy:
        raise DoesNotFitError
    ways = """
        F.dropout({t}, 0.3); {t} * torch.rand_like({t}); {t} * torch.bernoulli(torch.full_like({t}, 0.6));
        {t} * torch.randn_like({t}); torch.where(torch.rand_like({t}) < 0.4, {t}, -{t});
        {t} * torch.empty_like({t}).uniform_(0.1, 0.9)
    """
    return d.one(ways, t=d.value())


def other(d: Drawing) -> str:
    """To and from the other floating dtype, as copies: they may be changed in place, also where both are one dtype."""
    if d.dtype == d.other:
        raise DoesNotFitError
    if d.often(0.3):
        return f"{d.value()}.to(OTHER, copy=True)"
    t = d.value("other")
    ways = "{t}.to(DTYPE, copy=True); torch.tanh({t}).to(DTYPE); {t} * 0.5; torch.sigmoid({t}).double()"
    if t.shape:
        ways += "; {t} + {o}; torch.cat([{t}, {t}.sin()], 1); {t}.softmax(-1)"
    return d.one(ways, t=t, o=d.like(t) if t.shape else "")


def seldom(d: Drawing) -> str:
    """Operations that the proof may know nothing of: such a cell runs in the plain loop, so there must be few."""
    t = d.value(axes=(1, 2), least=2)
    axis, last = d.axis(t, 2), t.shape[-1]
    ways = """
        F.logsigmoid({t}); ({t} + 0.0123) // 0.5 / 4; F.prelu({t}, {one}); (3 * {t} + 0.123).long() // 2;
        F.smooth_l1_loss({t}, {o} + 0 * {t}, reduction='none'); {t}.nansum({axis}) / 2; {t}.median({axis}).values;
        {t}.kthvalue(2, {axis}).values; torch.count_nonzero({t} > 0.1, {axis}); torch.logcumsumexp({t}, {axis});
        {t}.unfold({axis}, 2, 1); {t}.cummax({axis}).values; {t}.cummin({axis}).values;
        torch.rot90({t}, 1, [1, {t}.dim() - 1]); {t}.index_fill({axis}, torch.tensor([{i}]), 0.3);
        torch.take_along_dim({t}, {t}.argsort({axis}), {axis});
        {t}.index_copy({axis}, torch.tensor([{i}]), {t}.narrow({axis}, 0, 1) / 2)
    """
    if len(t.shape) == 1:
        ways += "; F.bilinear({t}, {t}, {square}); torch.outer({t}[:, 0], {one}); {t}[torch.arange(b), {t}.argmax(1)]"
    elif last > 1:
        ways += """;
            F.pad({t}, (1, 1), mode="reflect"); F.pad({t}, (1, 1), mode="replicate"); {t}.diagonal(dim1=1, dim2=2)
        """
    index = d.to(t.tensor.shape[axis] - 1)
    return d.one(ways, t=t, axis=axis, i=index, o=d.like(t), one=d.weight(1), square=d.weight(2, last, last))


Make = Callable[[Drawing], str]

COMPUTING: dict[Make, int] = {unary: 10, binary: 10, scaled: 3, linear: 9, of_both: 5, row_by_row: 6, heads: 4}
ALONG: dict[Make, int] = {convolution: 5, pooling: 2, padding: 2, reduction: 6, along: 6, scan: 4, sorting: 4}
CHOOSING: dict[Make, int] = {integers: 6, truths: 4, masked: 5, looked_up: 5, gathered: 4, scattered: 4}
MOVING: dict[Make, int] = {view: 9, join: 5, written: 5, overwritten: 1}
RARE: dict[Make, int] = {gradients: 2, noise: 6, other: 6, seldom: 1}

OPERATIONS = {**COMPUTING, **ALONG, **CHOOSING, **MOVING, **RARE}
"""With how often each is tried."""
