"""Options that are numbers: plain decimal ones in their range, or one short line."""

import unittest

from spjit_tool import USAGE, ToolTest, in_turn

COMPILE = ["compile", "a.npz", "--n", 8]
GENERATE = ["gen", "--rows", 4, "--cols", 4, "--out", "a.mtx"]
COLLECT = ["collect", "--out", "s.jsonl"]
TRAIN = ["train", "s.jsonl", "--out", "m.json"]

# A command line, an option of it, the least and the most that it takes.
WHOLE = [
    (["compile", "a.npz"], "--n", 1, 2147483647),
    (COMPILE, "--threads", 0, 4096),
    (COMPILE, "--contenders", 1, 2147483647),
    (COMPILE, "--top-k", 1, 2147483647),
    (COMPILE, "--code-budget", 0, 2**63 - 1),
    (COMPILE, "--panel-columns", 1, 2147483647),
    (COMPILE, "--seed", 0, 2**64 - 1),
    (COMPILE, "--m1", 0, 2147483647),
    (COMPILE, "--n1", 0, 2147483647),
    (["gen", "--cols", 4, "--out", "a.mtx"], "--rows", 0, 2147483647),
    (["gen", "--rows", 4, "--out", "a.mtx"], "--cols", 0, 2147483647),
    (GENERATE, "--block-rows", 1, 2147483647),
    (GENERATE, "--block-cols", 1, 2147483647),
    (GENERATE, "--seed", 0, 2**64 - 1),
    (COLLECT, "--groups", 1, 1000000),
    (COLLECT, "--n", 1, 2147483647),
    (COLLECT, "--threads", 0, 4096),
    (COLLECT, "--searches", 1, 100),
    (COLLECT, "--seed", 0, 2**64 - 1),
    (TRAIN, "--rounds", 1, 10000),
    (TRAIN, "--depth", 1, 12),
    (TRAIN, "--few", 0, 2**32 - 1),
    (TRAIN, "--seed", 0, 2**32 - 1),
]
REAL = [
    (COMPILE, "--timeout", "0", "100000000"),
    (COMPILE, "--search-budget", "0", "1000000000"),
    (COMPILE, "--compile-limit", "0", "1000000000"),
    (["bench", "a.npz", "--n", 8], "--budget", "0.001", "1000000000"),
    (GENERATE, "--sparsity", "0", "1"),
    (COLLECT, "--search-budget", "0", "1000000000"),
    (TRAIN, "--learning-rate", "0.0001", "1"),
    (TRAIN, "--validation", "0", "0.9"),
]


class NumbersTest(ToolTest):
    def refuse(self, command, option, value):
        with self.subTest(command=command[0], option=option, value=value):
            result = self.run_tool(*command, f"{option}={value}")

            self.assert_error(result, USAGE, f"{option}: expected a ", str(value)[:20])
            self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
            self.assertLess(len(result.stderr), 200)

    def test_whole_numbers(self):
        for command, option, least, most in WHOLE:
            words = [2**64, "0x10", "1e1", "1.0", "+1", "1_000", "1 ", "nan", "x"]
            for value in [least - 1, most + 1, *in_turn(f"{command} {option}", words, 3)]:
                self.refuse(command, option, value)

    def test_real_numbers(self):
        for command, option, _, most in REAL:
            words = ["1e30", "1e400", "nan", "inf", "-inf", "0x1p3", "1s"]
            for value in ["-1e-9", f"{most}1", *in_turn(f"{command} {option}", words, 3)]:
                self.refuse(command, option, value)

    def test_a_long_word_is_cut(self):
        self.refuse(["compile", "a.npz"], "--n", "9" * 1000)

    def test_a_number_that_begins_with_0_is_decimal(self):
        made = self.run_json("gen", "--rows", "010", "--cols", "08", "--seed", "017",
                             "--sparsity", "00.5", "--out", "a.mtx")

        self.assertEqual([made["rows"], made["cols"], made["seed"], made["nnz"]], [10, 8, 17, 40])

    def test_the_ends_of_a_range_are_taken(self):
        for sparsity in ["0", "1", "1e0", "5e-1"]:
            self.succeed("gen", "--rows", 4, "--cols", 4, "--sparsity", sparsity, "--out", "a.mtx",
                         "--seed", 2**64 - 1)
        self.generate("b.npz")
        self.succeed("compile", "b.npz", "--n", 1, "--no-measure", "--timeout", "1e8",
                     "--search-budget", "1e9", "--code-budget", 2**63 - 1)


if __name__ == "__main__":
    unittest.main()
