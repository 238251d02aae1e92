"""What compile() is given: no seconds."""

from __future__ import annotations

import pytest

import spjit


def test_no_seconds_are_no_time(weights):
    """And not the library's default, which 0 is there: no limit, and a minute."""
    with pytest.raises(spjit.DeadlineExceeded):
        spjit.compile(weights, timeout=0, cache=False)
    budgets = [spjit.Options(search_budget=budget).as_struct().search_budget_ms
               for budget in (None, 0, 2)]
    assert budgets[0] == 0 < budgets[1] < 1e-3
    assert budgets[2] == 2000
