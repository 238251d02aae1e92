"""Whose turn it is of calls that are timed beside each other."""

import pytest

from spjit._timing import in_turn, turns


@pytest.mark.parametrize("count", [1, 2, 3, 4, 5])
def test_all_have_as_many_turns(count):
    order = list(turns(count, 0, 2 * count))

    assert [order.count(i) for i in range(count)] == [2 * count] * count


@pytest.mark.parametrize("count", [3, 4, 5])
def test_of_several_none_has_two_turns_running(count):
    order = list(turns(count, 0, 10))

    assert all(a != b for a, b in zip(order, order[1:]))


def test_of_two_both_have_two_turns_running():
    assert list(turns(2, 0, 4)) == [0, 1, 1, 0, 0, 1, 1, 0]


def test_the_second_call_of_a_turn_is_timed():
    calls = []

    times = in_turn([lambda: calls.append(0), lambda: calls.append(1)], 0, 2)

    assert calls == [0, 0, 1, 1, 1, 1, 0, 0]
    assert [len(each) for each in times] == [2, 2]
