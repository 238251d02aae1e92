"""The helpers by which tests take some of their cases; tests/unit/base/long_tests_test.cpp has the
same of those in C++."""

import os
import unittest
from unittest import mock

from long_tests import in_turn, long_tests, turn_of

CASES = list(range(10, 17))


def environment(**variables: str):
    kept = {k: v for k, v in os.environ.items() if k not in ("SPJIT_LONG", "SPJIT_TURN")}
    return mock.patch.dict(os.environ, {**kept, **variables}, clear=True)


class LongTestsTest(unittest.TestCase):
    def test_spjit_long_1_alone_asks_for_every_case(self) -> None:
        for value in ("", "0", "no", "11"):
            with environment(SPJIT_LONG=value):
                self.assertFalse(long_tests(), value)
                self.assertEqual(len(in_turn("a", CASES)), 1)
        with environment(SPJIT_LONG="1"):
            self.assertTrue(long_tests())
            self.assertEqual(in_turn("a", CASES), CASES)
            self.assertEqual(in_turn("a", CASES, 3), CASES)

    def test_runs_go_through_all_cases(self) -> None:
        for parts in (0, 3):
            taken = []
            for run in range(parts or len(CASES)):
                with environment(SPJIT_TURN=str(run)):
                    taken += in_turn("a", CASES, parts)
            self.assertEqual(sorted(taken), CASES)

    def test_the_turn_is_that_of_the_tests_in_cpp(self) -> None:
        with environment():
            self.assertEqual(turn_of(1000, "a"), 0xE40C292C % 1000)
            self.assertEqual(turn_of(1000, "b"), 0xE70C2DE5 % 1000)

    def test_a_run_that_is_no_number_is_refused(self) -> None:
        for value in ("", "-1", "1x", "main"):
            with environment(SPJIT_TURN=value), self.assertRaisesRegex(ValueError, "SPJIT_TURN"):
                turn_of(3, "a")


if __name__ == "__main__":
    unittest.main()
