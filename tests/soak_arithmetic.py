"""Operations of soak cells that compute: element by element, products, convolutions, sums and norms along an axis.

Rows that norms see are never constant, and numbers are not rounded where they are likely to be round: results would
depend on the last bit. Not drawn: `hardsigmoid` and `hardswish`, whose gradients in float64 torch multiplies by a sixth
that is rounded to float32.
"""

from __future__ import annotations

import math

from tests.drawn_steps import DoesNotFitError
from tests.soak_drawing import Drawing, Value

UNARY = """
    torch.tanh({t}); torch.sigmoid({t}); torch.relu({t}); torch.sin({t}); torch.cos({t}); torch.atan({t}); -{t};
    torch.erf({t}); torch.erfc({t}); {t}.abs(); F.softplus({t}); F.gelu({t}); F.silu({t}); F.leaky_relu({t}, 0.2);
    F.hardtanh({t}); F.mish({t}); F.softsign({t}); F.relu6({t}); F.gelu({t}, approximate="tanh"); torch.asinh({t});
    torch.exp(-{t}.abs()); torch.expm1(torch.tanh({t})); torch.log1p({t}.square()); F.tanhshrink({t}); 1 - {t};
    torch.log({t}.abs() + 0.3); torch.sqrt({t}.abs() + 0.2); torch.rsqrt({t}.square() + 1); {t} / 3; 0.5 * {t} + 1;
    torch.reciprocal({t}.square() + 1); ({t}.abs() + 0.5) ** 0.3; torch.tanh({t}) ** 3; {t}.clamp(-0.7, 0.8);
    torch.sign({t} + 0.0123) * 0.5; torch.floor(3 * {t} + 0.123) / 3; torch.round(2 * {t} + 0.0321) / 2;
    torch.ceil(2 * {t} + 0.0321) / 3; torch.trunc(3 * {t} + 0.0123) / 3; torch.frac({t} + 0.0123);
    torch.remainder({t} + 0.0123, 0.7); torch.fmod({t} + 0.0123, 0.6); {t}.clamp(min=-0.31); {t}.clamp_max(0.47);
    2 / (1 + {t}.square()); torch.pow(1.3, torch.tanh({t})); torch.square(torch.tanh({t})); torch.nan_to_num({t});
    torch.exp2(-{t}.abs()); torch.logit(torch.sigmoid({t}) * 0.9 + 0.05); torch.acos(0.9 * torch.tanh({t}));
    torch.heaviside({t}, {t}); torch.lgamma({t}.abs() + 0.6); torch.sinh(torch.tanh({t})); F.threshold({t}, 0.1, 0.3);
    torch.deg2rad({t}); F.softshrink({t}, 0.2); F.hardshrink({t}, 0.2); torch.positive({t}); torch.log10({t}.abs() + 1)
"""

BINARY = """
    {a} + {b}; {a} - {b}; {a} * {b}; torch.maximum({a}, {b}); torch.minimum({a}, {b}); {a} / (1 + {b}.square());
    torch.atan2({a}, {b}.abs() + 0.1); torch.where({a} > 0.123, {a}, {b}); torch.where({a} > {b} + 0.0123, {a}, -{b});
    torch.lerp({a}, {b} + 0 * {a}, 0.3); torch.hypot({a}, {b} + 2); torch.lerp({a}, {b} + 0 * {a}, torch.sigmoid({a}));
    torch.addcmul({a}, {a}, {b}, value=0.5); torch.addcdiv({a}, {a}, {b}.abs() + 1); torch.sub({a}, {b}, alpha=0.5);
    torch.add({a}, {b}, alpha=-1.5); torch.sigmoid({a}) * {b} + (1 - torch.sigmoid({a})) * torch.tanh({b});
    ({a}.abs() + 0.5) ** torch.tanh({b}); torch.logaddexp({a}, {b}); torch.clamp({a}, min={b} - 1, max={b} + 0.5);
    torch.where({b}.abs() > 0.2, {a} / torch.where({b}.abs() > 0.2, {b}, 1), 0); torch.copysign({a}, {b} + 0.0123);
    torch.remainder({a} + 0.0123, {b}.abs() + 0.5); torch.fmax({a}, {b}); torch.xlogy({a}, {b}.abs() + 0.4);
    {a}.masked_fill({b} > 0.321, 0.5); (({a} > 0.1) ^ ({b} > 0.2)).to(DTYPE) - {a}
"""


def unary(d: Drawing) -> str:
    return d.one(UNARY, t=d.value())


def binary(d: Drawing) -> str:
    a = d.value()
    b = d.like(a)
    return d.one(BINARY, a=a, b=b) if d.often(0.7) else d.one(BINARY, a=b, b=a)


def scaled(d: Drawing) -> str:
    t = d.value()
    w = d.weight(*t.shape[d.to(len(t.shape)) :], scale=1)
    return d.one("{t} * {w}; {t} + {w}; {t} - {w}.abs(); {w} * {t} + {w}", t=t, w=w)


# -- products ----------------------------------------------------------------------------------------------------------


def linear(d: Drawing) -> str:
    t = d.value(axes=(1, 2, 3))
    inner, outer = t.shape[-1], d.of(1, 2, 3, 4, 6, 8, 16)
    ways = """
        {t} @ {w}; {t} @ {w} + {bias}; F.linear({t}, {turned}, {bias}); torch.matmul({t}, {turned}.t());
        ({turned} @ {t}.unsqueeze(-1)).squeeze(-1); torch.einsum('b...i,ij->b...j', {t}, {w});
        torch.tensordot({t}, {w}, dims=1); {t} @ torch.softmax({w}, 0); F.linear({t}, F.normalize({turned}))
    """
    if len(t.shape) == 1:
        ways += """;
            ({turned} @ {t}.t()).t(); torch.addmm({bias}, {t}, {w}, beta=0.5, alpha=2);
            torch.einsum('bi,ij->bj', {t}, {w}); torch.mm({t}, {w}).add({bias})
        """
    return d.one(ways, t=t, w=d.weight(inner, outer), turned=d.weight(outer, inner), bias=d.weight(outer))


def of_both(d: Drawing) -> str:
    a, b = d.value(axes=(1,)), d.value(axes=(1,))
    outer = d.of(2, 3, 4, 5, 8)
    ways = """
        torch.cat([{a}, {b}], 1) @ {w}; torch.cat([{a}, {b}], dim=-1) @ {w}; {a} @ {w}[:{cut}] + {b} @ {w}[{cut}:];
        torch.einsum('bi,oij,bj->bo', {a}, {both}, {b})
    """
    w, both = d.weight(a.size + b.size, outer), d.weight(outer, a.size, b.size, scale=0.4)
    return d.one(ways, a=a, b=b, w=w, both=both, cut=a.size)


MATRICES = """
    torch.bmm({a}, {b}) / 2; {a} @ {b}.transpose(1, 2) / 2; {a}.mT @ {b} / 2;
    torch.einsum('bij,bjk->bik', {a}, {b}) / 2;
    torch.baddbmm({a} @ {b}, {a}, {b}, beta=0.3, alpha=0.2); torch.einsum('bij,bij->b', {a}, {b}).tanh()
"""
MATRIX_AND_VECTOR = """
    torch.einsum('bmk,bk->bm', {a}, {b}) / 2; torch.einsum('bmk,bm->bk', {a}, {b}) / 2;
    ({b}.unsqueeze(1) @ {a}).squeeze(1) / 2; ({a} @ {b}[..., None])[..., 0] / 2;
    torch.softmax(({a} * {b}[:, None]).sum(-1), 1)[:, None].bmm({a}).squeeze(1)
"""
VECTORS = """
    torch.einsum('bi,bj->bij', {a}, {b}); {a}[:, :, None] * {b}[:, None]; {a}.unsqueeze(2) @ {b}.unsqueeze(1);
    ({a} * {b}).sum(1, keepdim=True); F.cosine_similarity({a} + 0.1, {b} - 0.1, dim=1);
    torch.linalg.vecdot({a}, {b}) / 2
"""


def row_by_row(d: Drawing) -> str:
    """Products of what rows have: matrices and vectors."""
    a, b = d.value(axes=(1, 2)), d.value(axes=(1, 2))
    if len(a.shape) < len(b.shape):
        a, b = b, a
    ways = {(2, 2): MATRICES, (2, 1): MATRIX_AND_VECTOR, (1, 1): VECTORS}
    return d.one(ways[len(a.shape), len(b.shape)], a=a, b=b)


def heads(d: Drawing) -> str:
    t = d.value(axes=(2,))
    ways = """
        torch.einsum('bhk,hkj->bhj', {t}, {w}); torch.bmm({t}.transpose(0, 1), {w}).transpose(0, 1);
        torch.einsum('bhk,hk->bh', {t}, {v}); torch.einsum('bhk,hk->bk', {t}, {v}); ({t}.unsqueeze(2) @ {w}).squeeze(2);
        torch.einsum('bij->bji', {t})
    """
    if t.shape[0] == t.shape[1]:
        ways += "; torch.einsum('bii->bi', {t}); {t}.tril(); {t}.triu(1)"
    return d.one(ways, t=t, w=d.weight(*t.shape, d.of(1, 2, 3)), v=d.weight(*t.shape))


# -- images ------------------------------------------------------------------------------------------------------------


def as_images(d: Drawing, axes: int) -> tuple[str, tuple[int, ...]]:
    """A value with channels and so many axes more, as it is written, and its row's shape."""
    t = d.value(least=4)
    if len(t.shape) == axes + 1:
        return t.name, t.shape
    if len(t.shape) == axes:
        return f"{t}.unsqueeze(1)", (1, *t.shape)
    factors = [k for k in range(2, t.size) if t.size % k == 0]
    if not factors or axes != 1:
        raise DoesNotFitError
    channels = d.of(*factors)
    return f"{t}.reshape(b, {channels}, {t.size // channels})", (channels, t.size // channels)


def convolution(d: Drawing) -> str:
    axes = 1 if d.often(0.7) else 2
    t, (channels, *_) = as_images(d, axes)
    groups = d.of(1, 1, channels) if channels < 6 else 1
    outer, kernel = groups * d.of(1, 2), d.of(1, 2, 3)
    sizes = [kernel] * axes
    ways = """
        F.conv{n}d({t}, {w}, {bias}, padding={padding}, groups={g});
        F.conv{n}d({t}, {w}, {bias}, padding={half}, groups={g});
        F.conv{n}d({t}, {w}, padding={padding}, stride=2, groups={g}); F.conv_transpose{n}d({t}, {turned});
        F.conv{n}d({t}, {w}, {bias}, padding=2, dilation=2, groups={g})
    """
    if axes == 1:
        ways += "; F.conv1d(F.pad({t}, ({before}, 0)), {w}, {bias}, groups={g})"
    if kernel % 2:
        ways += "; F.conv{n}d({t}, {w}, padding='same', groups={g})"
    w, turned = (
        d.weight(outer, channels // groups, *sizes, scale=0.4),
        d.weight(channels, d.of(1, 2), *sizes, scale=0.4),
    )
    numbers = dict(n=axes, g=groups, padding=d.of(0, 1, 2), half=kernel // 2, before=kernel - 1)
    return d.one(ways, t=t, w=w, turned=turned, bias=d.weight(outer), **numbers)


def pooling(d: Drawing) -> str:
    axes = 1 if d.often(0.6) else 2
    ways = """
        F.avg_pool{n}d({t}, 2, 1); F.max_pool{n}d({t}, 2, 1); F.max_pool{n}d({t}, 2); F.adaptive_avg_pool{n}d({t}, 1);
        F.avg_pool{n}d({t}, 2, 1, padding=1); F.max_pool{n}d({t}, 2, 1, padding=1);
        F.avg_pool{n}d({t}, 2, 1, padding=1, count_include_pad=False)
    """
    return d.one(ways, t=as_images(d, axes)[0], n=axes)


def padding(d: Drawing) -> str:
    ways = """
        F.pad({t}, (1, 0)); F.pad({t}, (1, 1), value=0.3); F.pad({t}, (0, 1, 1, 0)); F.pad({t}, (-1, 1));
        F.pad({t}, (1, 1), mode="circular")
    """
    return d.one(ways, t=as_images(d, 1)[0])


# -- elements of a row meet --------------------------------------------------------------------------------------------


def apart(d: Drawing, t: Value) -> str:
    """With something added, so that no row is constant."""
    return f"({t} + {d.weight(*t.shape, scale=1)})"


def reduction(d: Drawing) -> str:
    t = d.value(axes=(1, 2, 3))
    axes = sorted({d.axis(t) % t.tensor.dim(), d.axis(t) % t.tensor.dim()})
    ways = """
        {t}.sum({axes}{keep}) / 2; {t}.mean({axes}{keep}); {t}.amax({axes}{keep}); {t}.amin({axes}{keep});
        torch.logsumexp({t}, {axes}{keep}); {t}.max({axis}{keep}).values; {t}.min({axis}{keep})[0];
        torch.tanh({t}).prod({axis}{keep}); {apart}.norm(dim={axis}{keep}); {apart}.norm(1, dim={axis}{keep});
        torch.linalg.vector_norm({apart}, 3, {axes}{keep}); {apart}.var({axes}, correction=0{keep});
        torch.linalg.vector_norm({t}, float('inf'), {axes}{keep}); {t}.aminmax(dim={axis}{keep}).max
    """
    if math.prod(t.tensor.shape[each] for each in axes) > 1:
        ways += "; {apart}.std({axes}{keep}); {apart}.var({axes}{keep}); torch.var_mean({apart}, {axes}{keep})[0]"
    return d.one(ways, t=t, axis=d.axis(t), axes=axes, keep=d.of("", ", keepdim=True"), apart=apart(d, t))


def along(d: Drawing) -> str:
    t = d.value(axes=(1, 2, 3), least=2)
    channels, last = t.shape[0], t.shape[-1]
    ways = """
        {t}.softmax({axis}); {t}.log_softmax({axis}) / 2; F.softmin({t}, {axis}); {t} - {t}.mean({axis}, keepdim=True);
        F.normalize({apart}, dim={axis}); {t} / (1 + {apart}.norm(dim={axis}, keepdim=True)); F.glu({t}, {axis});
        F.rms_norm({apart}, ({last},), {scale}); F.layer_norm({apart}, {apart}.shape[1:])
    """
    if last > 1:
        ways += "; F.layer_norm({apart}, ({last},), {scale}, {bias}); F.layer_norm({apart}, ({last},))"
    if t.size > channels:
        ways += "; F.group_norm({apart}, {groups}, {each}, {more}); F.group_norm({apart}, {groups})"
    groups = d.of(*[k for k in range(1, channels + 1) if channels % k == 0])
    weights = dict(scale=d.weight(last), bias=d.weight(last), each=d.weight(channels), more=d.weight(channels))
    return d.one(ways, t=t, axis=d.axis(t), last=last, groups=groups, apart=apart(d, t), **weights)


def scan(d: Drawing) -> str:
    t = d.value(axes=(1, 2))
    ways = """
        {t}.cumsum({axis}) / 2; torch.tanh({t}).cumprod({axis}); {t}.flip({axis}).cumsum({axis}).flip({axis}) / 2;
        torch.cumsum(torch.sigmoid({t}), {axis}); torch.cumsum({t} > 0.1, {axis}).to(DTYPE) / 3;
        torch.diff({t}, dim={axis})
    """
    return d.one(ways, t=t, axis=d.axis(t))
