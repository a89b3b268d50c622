"""A budget of memory: what was used longest ago makes room."""

from __future__ import annotations

from unspool.engine.memory.budget import Budget, Item


class Kept(Item):
    """Counts how often it had to give its memory back."""

    released = 0

    def release(self) -> None:
        self.released += 1


def test_those_used_longest_ago_make_room() -> None:
    budget, items = Budget(10), [Kept(4) for _ in range(3)]
    budget.use(items[0])
    budget.use(items[1])
    budget.use(items[0])
    budget.use(items[2])
    assert [each.released for each in items] == [0, 1, 0]
    budget.use(items[1])
    assert [each.released for each in items] == [1, 1, 0]


def test_one_alone_may_be_larger() -> None:
    budget, small, large = Budget(10), Kept(4), Kept(40)
    budget.use(small)
    budget.use(large)
    assert (small.released, large.released) == (1, 0)


def test_what_is_gone_takes_no_room() -> None:
    budget, item = Budget(10), Kept(6)
    budget.use(Kept(6))
    budget.use(item)
    budget.use(item)
    assert item.released == 0


def test_all_give_their_memory_back_at_once() -> None:
    budget, items = Budget(10), [Kept(4) for _ in range(2)]
    assert not budget.empty()
    for each in items:
        budget.use(each)
    assert budget.empty()
    assert [each.released for each in items] == [1, 1]
    assert not budget.empty()
