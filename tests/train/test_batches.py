from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from lorakit.train import draws
from lorakit.train.batches import Plan

SIZES = st.lists(st.sampled_from([(64, 64), (96, 64), (64, 96)]), min_size=1, max_size=40)


@given(sizes=SIZES, batch=st.integers(1, 9), seed=st.integers(0, 2**63 - 1))
def test_every_sample_is_seen_once_an_epoch_and_sizes_do_not_mix(
    sizes: list[tuple[int, int]], batch: int, seed: int
) -> None:
    plan = Plan(sizes, batch, seed)
    for epoch in range(3):
        first = epoch * plan.batches_per_epoch + 1
        picks = [plan.picks(first + i, 1)[0] for i in range(plan.batches_per_epoch)]
        assert {p.epoch for p in picks} == {epoch}
        assert Counter(i for p in picks for i in p.indices) == Counter(range(len(sizes)))
        for pick in picks:
            assert len({sizes[i] for i in pick.indices}) == 1
            assert 1 <= len(pick.indices) <= batch


@given(sizes=SIZES, accumulation=st.integers(1, 7), step=st.integers(1, 500))
def test_a_step_is_known_without_walking_there(
    sizes: list[tuple[int, int]], accumulation: int, step: int
) -> None:
    """Asked anew, out of order, or cut into other steps: the same pictures."""
    plan = Plan(sizes, 2, 5)
    asked = plan.picks(step, accumulation)
    singles = [
        pick
        for number in range((step - 1) * accumulation + 1, step * accumulation + 1)
        for pick in Plan(sizes, 2, 5).picks(number, 1)
    ]
    assert asked == singles


def test_epochs_and_seeds_shuffle_differently() -> None:
    def order(seed: int, epoch: int) -> list[tuple[int, ...]]:
        plan = Plan([(64, 64)] * 20, 1, seed)
        return [plan.picks(epoch * 20 + i, 1)[0].indices for i in range(1, 21)]

    assert order(1, 0) != order(1, 1)
    assert order(1, 0) != order(2, 0)
    assert order(1, 0) == order(1, 0)


def test_draws_are_named_not_counted() -> None:
    first = draws.normal((2, 3), 7, "noise", 0, 4)
    draws.normal((100,), 7, "noise", 0, 5)
    assert draws.normal((2, 3), 7, "noise", 0, 4).equal(first)
    others = [
        draws.normal((2, 3), 7, *p) for p in (("noise", 0, 5), ("noise", 1, 4), ("own", 0, 4))
    ]
    assert not any(other.equal(first) for other in others)
    assert not draws.normal((2, 3), 8, "noise", 0, 4).equal(first)
