"""bench/python/gpu_ranks_bench.py: how a way's times are judged by the oracle's."""

import sys
import unittest

import fixture

sys.path.insert(0, str(fixture.ROOT / "bench/python"))
import gpu_ranks_bench as bench  # noqa: E402


def told(way: str, times: dict, chosen: str | None) -> dict:
    tiles = [{"tile": tile, "us": us, "failure": None if us else "spilled"}
             for tile, us in times.items()]
    return {"way": way, "chosen": chosen, "tiles": tiles, "seconds": 3.0}


TRUTH = {"a": 10, "b": 12, "c": 20}


class GpuRanksTest(unittest.TestCase):
    def result(self) -> dict:
        return bench.result_of("case", 100, [
            told("oracle", {"b": 12, "a": 10, "c": 20, "d": None}, "a"),
            told("proxy-alone", {"a": 3, "b": 2, "c": 5, "not in the truth": 1}, "b")])

    def test_proxies_are_judged_by_the_oracle(self):
        oracle, proxy = self.result()["ways"]

        self.assertEqual((oracle["loss"], oracle["tau"], oracle["pair_accuracy"]), (0, 1, 1))
        self.assertAlmostEqual(proxy["loss"], 0.2)
        self.assertAlmostEqual(proxy["tau"], 1 / 3)
        self.assertAlmostEqual(proxy["pair_accuracy"], 2 / 3)
        self.assertEqual((oracle["failed"], oracle["problem"]), (1, "spilled"))
        self.assertEqual((proxy["timed"], proxy["failed"]), (4, 0))

    def test_ties_are_neither_in_order_nor_out_of_it(self):
        self.assertAlmostEqual(bench.kendall_tau({"a": 1, "b": 1, "c": 2}, TRUTH), 2 / 3)
        self.assertEqual(bench.kendall_tau({"a": 1}, TRUTH), 0)
        self.assertAlmostEqual(bench.pair_accuracy({"a": 1, "b": 1, "c": 2}, TRUTH), 2 / 3)
        self.assertEqual(bench.pair_accuracy({"a": 1, "b": 2}, {"a": 4, "b": 4}), 1)

    def test_a_tile_has_both_times_where_there_is_a_proxy(self):
        result = self.result()

        self.assertEqual(result["tiles"], [{"tile": "a", "us": 10, "proxy_us": 3},
                                           {"tile": "b", "us": 12, "proxy_us": 2},
                                           {"tile": "c", "us": 20, "proxy_us": 5}])
        self.assertEqual((result["best_us"], result["survivors"]), (10, 4))
        self.assertAlmostEqual(result["instant_loss"], 0.2)

    def test_a_way_that_timed_nothing_is_a_failure(self):
        with self.assertRaisesRegex(RuntimeError, "oracle timed nothing: spilled"):
            bench.result_of("case", 1, [told("oracle", {"a": None}, None)])

    def test_a_rehearsal_has_no_number_that_could_be_taken_for_a_time(self):
        result = bench.without_times(self.result())

        self.assertIsNone(result["best_us"])
        self.assertIsNone(result["tiles"][0]["us"])
        for member in ("loss", "tau", "pair_accuracy", "seconds"):
            self.assertIsNone(result["ways"][0][member], member)
        self.assertIn("rehearsed", bench.table_of(result))


if __name__ == "__main__":
    unittest.main()
