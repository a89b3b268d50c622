"""Operations of soak cells that choose and move: order, whole numbers, truths, look-ups, views, writes in place."""

from __future__ import annotations

from tests.drawn_steps import DoesNotFitError
from tests.soak_drawing import OUT, Drawing, Value


def sorting(d: Drawing) -> str:
    t = d.value(axes=(1, 2), least=2)
    axis = d.axis(t, 2)
    size = t.tensor.shape[axis]
    ways = """
        {t}.sort({axis}).values; {t}.sort({axis}, descending=True)[0]; {t}.topk({k}, {axis}).values;
        {t}.topk({k}, {axis}, largest=False)[0]; {t}.gather({axis}, {t}.argsort({axis}));
        {t}.gather({axis}, {t}.topk({k}, {axis}).indices); {t}.argmax({axis}); {t}.argsort({axis});
        {t}.topk({k}, {axis})[1]; {t}.max({axis}, keepdim=True).indices; F.one_hot({t}.argmax({axis}), {size});
        F.one_hot({t}.argmax({axis}), {size}).to(DTYPE); {t}.sort({axis}, stable=True).indices
    """
    return d.one(ways, t=t, axis=axis, size=size, k=d.to(size, 1))


# -- whole numbers and truths ------------------------------------------------------------------------------------------


def integers(d: Drawing) -> str:
    if d.often(0.35):
        t = d.value(d.of("float", "bool"))
        if t.tensor.is_floating_point():
            return d.one(
                "(3 * {t} + 0.123).floor().long() % 7; (2 * {t}.clamp(-2, 2) + 0.123).int(); ({t} > 0.1).long()", t=t
            )
        return d.one("{t}.long(); {t}.int() * 2 + 1" + "; {t}.sum(-1)" * bool(t.shape), t=t)
    t = d.value("int")
    ways = """
        ({t} + {o}) % 11; {t} - {o}; {t}.clamp(-9, 9) * 2 - 3; {t} % 5; {t}.clamp(0, 5); {t}.abs(); {t} & 6; {t} ^ 3;
        torch.div({t}, 3, rounding_mode='trunc'); {t} | 1; ({t} % 8) << 1; {t} >> 1; -{t}; {t}.bitwise_not() % 9;
        torch.maximum({t}, {t} % 4); torch.where({t} > 2, {t}, {t} % 3 + 1); {t}.sign(); torch.fmod({t}, 4);
        {t}.remainder(-4); {t}.square() % 13; ({t} % 3) ** 2
    """
    if t.shape:
        ways += """;
            {t}.sum({axis}) % 13; {t}.cumsum({axis}) % 9; {t}.amax({axis}); {t}.sort({axis}).values; {t}.flip({axis});
            {t}.argmax({axis}); torch.cat([{t}, {t} % 2], {axis}); {t}.roll(1, {axis}); {t}.unsqueeze({axis});
            {t}.select({axis}, 0); ({t} % 3).prod({axis}) % 7
        """
    axis = d.axis(t) if t.shape else 0
    return d.one(ways, t=t, o=d.of(str(d.to(5, 1)), d.like(t, "int")), axis=axis)


def truths(d: Drawing) -> str:
    if d.often(0.5):
        t = d.value(d.of("float", "float", "int"))
        limit = d.of("0.123", d.like(t, "float")) if t.tensor.is_floating_point() else "2"
        return d.one("{t} > {l}; {t} < {l}; ({t} >= {l}) & ({t} < 1); {t} != {l}; torch.isfinite({t})", t=t, l=limit)
    m = d.value("bool")
    ways = "{m} & {o}; {m} | {o}; {m} ^ {o}; ~{m}; torch.logical_and({m}, ~{o}); {m} == {o}"
    if m.shape:
        ways += "; {m}.any({axis}); {m}.all({axis}, keepdim=True); {m}.flip({axis}); {m}.cumsum({axis}) > 1"
    return d.one(ways, m=m, o=d.like(m, "bool"), axis=d.axis(m) if m.shape else 0)


def masked(d: Drawing) -> str:
    """What truths and whole numbers do to other numbers."""
    t = d.value()
    if d.often(0.5):
        ways = """
            torch.where({m}, {t}, -0.5); {t} * {m}; {t}.masked_fill({m}, 0.25); {t} + {m}.to(DTYPE);
            torch.where({m}, {t}, {o}); torch.where({m}, {t}, 0 * {t}.detach())
        """
        return d.one(ways, t=t, m=d.like(t, "bool"), o=d.like(t))
    ways = "{t} * {i} / 5; {t} + {i}.to(DTYPE) / 3; torch.where({i} > 1, {t}, 0.5); {t} / ({i}.abs() + 1); {i} - {t}"
    return d.one(ways, t=t, i=d.like(t, "int"))


# -- by indices --------------------------------------------------------------------------------------------------------


def looked_up(d: Drawing) -> str:
    """Entries of tables, by whole numbers."""
    i, count, entry = d.value("int", axes=(0, 1, 2)), d.of(3, 5, 7), d.of((), (2,), (4,), (3,), (2, 3))
    ways = "{table}[{i}.long() % {n}]"
    if len(entry) == 1:
        ways += """;
            F.embedding({i}.long() % {n}, {table}); F.embedding({i}.long() % {n}, {table});
            F.one_hot({i}.long() % {n}, {n}).to(DTYPE) @ {table}; {table}.t()[:, {i}.long() % {n}].movedim(0, -1)
        """
    return d.one(ways, i=i, n=count, table=d.weight(count, *entry, scale=1))


def _addressed(d: Drawing, t: Value, axis: int) -> str:
    """Whole numbers that say for each row which of the entries along an axis."""
    i = d.value("int", axes=(len(t.shape),))
    others = [k for k in range(1, t.tensor.dim()) if k != axis % t.tensor.dim()]
    if any(i.tensor.shape[k] > t.tensor.shape[k] for k in others):
        raise DoesNotFitError
    return f"({i}.long() % {t.tensor.shape[axis]})"


def gathered(d: Drawing) -> str:
    t = d.value(axes=(1, 2))
    axis = d.axis(t)
    if d.often(0.4):
        chosen = [d.to(t.tensor.shape[axis] - 1) for _ in range(d.to(3, 1))]
        ways = "{t}.index_select({axis}, torch.tensor({c})); {t}[{before}{c}]; {t}[{before}torch.tensor({c})]"
        return d.one(ways, t=t, axis=axis, c=chosen, before=":, " * (axis % t.tensor.dim()))
    ways = "{t}.gather({axis}, {i}); {t}.gather({axis}, {i}); torch.gather({t}, {axis}, {i}.clamp(max=0))"
    return d.one(ways, t=t, axis=axis, i=_addressed(d, t, axis))


def scattered(d: Drawing) -> str:
    t = d.value(axes=(1, 2))
    axis = d.axis(t)
    size = t.tensor.shape[axis]
    if d.often(0.4):
        ways = """
            {t}.index_add({axis}, torch.tensor({c}), torch.tanh({part}), alpha=0.5);
            torch.zeros_like({t}).index_add_({axis}, torch.tensor({c}), {part})
        """
        chosen = [d.to(size - 1) for _ in range(d.to(size, 1))]
        return d.one(ways, t=t, axis=axis, c=chosen, part=f"{t}.narrow({axis}, 0, {len(chosen)})")
    ways = """
        {t}.scatter_add({axis}, {i}, {source}); torch.zeros_like({t}).scatter_add_({axis}, {i}, {source});
        {t}.scatter({axis}, {i}, 0.5); {t}.scatter({axis}, {i}, {source});
        torch.zeros_like({t}).scatter({axis}, {i}, 1.0)
    """
    index = _addressed(d, t, axis)
    return d.one(ways, t=t, axis=axis, i=index, source=f"torch.tanh({t}).gather({axis}, {index})")


# -- the same elements in other places ---------------------------------------------------------------------------------

VIEWS = """
    {t}.flatten(1); {t}.permute({order}); {t}.reshape(b, -1); {t}.unflatten({axis}, ({f}, {g})); {t}.unsqueeze({axis});
    {t}.permute({order}).reshape(b, -1); {t}.select({axis}, {i}); {t}.unbind({axis})[{i}]; {t}.movedim({axis}, 1);
    {t}.narrow({axis}, {i}, 1).expand_as({t}); torch.stack([{t}, 0.5 * {t}], {axis}); {t}[:, None]; {t}[..., -1:];
    torch.cat([{t}.narrow({axis}, {c}, {rest}), {t}.narrow({axis}, 0, {c})], {axis}); {t}[..., ::2]; {t}[..., {last}];
    torch.stack({t}.unbind({axis})[::-1], {axis}); {t}.flip({axis}); {t}.roll(1, {axis}); {t}.swapaxes(1, -1);
    {t}[:, 1:]; {t}.transpose(1, -1).contiguous(); {t}.repeat_interleave(2, {axis});
    {t}.view_as({t} + 1); {t}.expand(b, *{t}.shape[1:]); {t}.unsqueeze(1).expand(-1, 2, *[-1] * ({t}.dim() - 1));
    {t}.tensor_split(2, {axis})[0]; {t}.view(b, {f}, -1); {t}.clone(); {t}.contiguous().view(b, -1); {t}.t().t();
    {t}.reshape({t}.size(0), -1, {f}); {t}.tile((1, 2)); {t}.repeat(1, *[2] * ({t}.dim() - 1))
"""
HALVES = """;
    {t}.chunk(2, {axis})[1]; torch.sigmoid({t}.chunk(2, {axis})[0]) * {t}.chunk(2, {axis})[1];
    torch.cat({t}.split({half}, {axis})[::-1], {axis}); torch.sub(*{t}.tensor_split(2, {axis}))
"""


def view(d: Drawing) -> str:
    t = d.value(axes=(1, 2, 3))
    axis = d.axis(t)
    size = t.tensor.shape[axis]
    factor, cut = d.of(*[k for k in range(1, size + 1) if size % k == 0]), d.to(size)
    order = [0, *d.chance.sample(range(1, t.tensor.dim()), t.tensor.dim() - 1)]
    numbers = dict(f=factor, g=size // factor, c=cut, rest=size - cut, i=d.to(size - 1), half=size // 2)
    ways = VIEWS if size % 2 else VIEWS + HALVES
    return d.one(ways, t=t, axis=axis, order=order, last=t.shape[-1] - 1, **numbers)


def join(d: Drawing) -> str:
    a = d.value(axes=(1, 2))
    same = [each for each in d.values if each.shape == a.shape and each.tensor.dtype == a.tensor.dtype]
    ways = """
        torch.cat([{a}, {b}], {axis}); torch.stack([{a}, {b}], {axis}); torch.cat(({a}, {b}, {a}), {axis});
        torch.hstack([{a}, {b}]); torch.cat([{a}.flatten(1), {o}.flatten(1)], 1);
        torch.cat([{a}, torch.zeros_like({a})], {axis})
    """
    if len(a.shape) == 1:
        ways += "; torch.cat([{a}, {w}.expand(b, -1)], 1); torch.cat([torch.ones(b, 1, dtype=DTYPE), {a}], 1)"
    w = d.weight(d.of(1, 2), scale=1)
    return d.one(ways, a=a, b=d.of(*same), axis=d.axis(a), o=d.value(axes=(1, 2, 3)), w=w)


# -- in place ----------------------------------------------------------------------------------------------------------

WRITES = """
    OUT = {t}.clone() | OUT[:, {some}] *= 0.5;
    OUT = torch.zeros_like({t}) | OUT.{part}.copy_(torch.tanh({t}.{part})) | OUT.{place}.add_(0.25);
    OUT = {t} * 1 | OUT.{place}.mul_({t}.{place}).sub_(0.1);
    OUT = torch.tanh({t}) | OUT += {o};
    OUT = {t} + 0 | OUT.masked_fill_({t} > 0.2, -0.3) | OUT.clamp_(-0.8, 1.1);
    OUT = {t}.clone() | OUT[:, 0] = {t}[:, -1] | OUT[..., -1] += 0.5;
    OUT = torch.full_like({t}, 0.3) | OUT.view(b, -1)[:, 0] = {t}.flatten(1)[:, -1];
    OUT = {t}.clone() | for piece in OUT.unbind({axis}): piece.mul_(0.7).add_({t}.select({axis}, 0));
    OUT = torch.empty_like({t}) | OUT.copy_({t}) | OUT.neg_().tanh_();
    OUT = torch.zeros(b, 5, dtype=DTYPE) | OUT[:, 1:3] = {t}.flatten(1)[:, :1] | OUT[:, 4].add_({t}.flatten(1).sum(1));
    OUT = {t}.clone() | OUT[{t} > 0.1] = 0.3;
    OUT = {t}.sigmoid().mul_({t});
    OUT = {t}.clone().zero_() | OUT.transpose(1, -1)[:, :1] += 1;
    OUT = {t}.clone() | OUT.{part}.fill_(0.4) | OUT = OUT * {t}
"""


def written(d: Drawing) -> str:
    """Changes in place, of tensors of the step's own and of views of them."""
    t = d.value(axes=(1, 2))
    axis = d.axis(t)
    cut = d.to(t.tensor.shape[axis] - 1)
    places = dict(
        part=f"narrow({axis}, 0, {cut + 1})", place=f"select({axis}, {cut})", some=d.of("0", ":1", "-1", "::2")
    )
    return d.one(WRITES, t=t, axis=axis, o=d.like(t), **places)


def overwritten(d: Drawing) -> str:
    """Changes in place of something that other lines use, before and after."""
    fresh = [each for each in d.values if each.fresh and each.tensor.dtype == d.dtype]
    if not fresh:
        raise DoesNotFitError
    t = d.of(*fresh)
    change = d.one("add_(0.1); mul_(0.5); add_({o}); sub_(0.3); neg_(); clamp_(-1, 1)", o=d.like(t))
    return f"{t}.{change} | {OUT} = {t} * 1.5"
