"""spjit collect and train, and kernels ranked by what they make."""

import json
import unittest

from spjit_tool import FAILED, OK, USAGE, ToolTest


class RankTest(ToolTest):
    twelve_groups = b""

    def collect(self, *arguments):
        return self.succeed("collect", "--out", "samples.jsonl", *arguments)

    def collect_twelve_groups(self):
        """Timed for the first test that asks; the next ones get the same."""
        if not RankTest.twelve_groups:
            self.collect("--groups", 12)
            RankTest.twelve_groups = (self.folder / "samples.jsonl").read_bytes()
        (self.folder / "samples.jsonl").write_bytes(RankTest.twelve_groups)

    def groups(self):
        lines = (self.folder / "samples.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    def train(self, *arguments):
        result = self.run_tool("train", "samples.jsonl", "--out", "model.json", "--rounds", 5,
                               *arguments)
        if "built without XGBoost" in result.stderr:
            self.skipTest("this spjit was built without XGBoost")
        self.assertEqual(result.returncode, OK, result.stderr)
        return (self.folder / "model.json").read_bytes()

    def test_collecting_goes_on_where_it_stopped(self):
        self.collect("--groups", 3)
        before = (self.folder / "samples.jsonl").read_bytes()
        with open(self.folder / "samples.jsonl", "ab") as file:
            file.write(b'{"schema": "half a li')

        result = self.collect("--groups", 5)

        self.assertTrue((self.folder / "samples.jsonl").read_bytes().startswith(before))
        groups = self.groups()
        self.assertEqual(len({group["name"] for group in groups}), 5)
        self.assertIn("21 bytes of an unfinished line were cut off", result.stderr)
        self.assertIn("3 groups are there already, 2 to do", result.stderr)
        for group in groups:
            times = [tile[group["columns"].index("us")] for tile in group["tiles"]]
            self.assertGreater(min(times), 0)

    def test_files_are_named_below_their_root(self):
        self.succeed("gen", "--rows", 64, "--cols", 64, "--out", "a.mtx")

        self.collect("a.mtx", "--root", ".", "--n", 16, 48)

        self.assertEqual([group["recipe"] for group in self.groups()], [{"file": "a.mtx"}] * 2)
        self.assertEqual([group["work"]["n"] for group in self.groups()], [16, 48])

    def test_a_model_is_the_same_to_the_byte_and_ranks(self):
        self.collect_twelve_groups()
        first = self.train("--name", "mine", "--validation", 0)
        second = self.train("--name", "mine", "--validation", 0)
        self.assertEqual(first, second)

        self.succeed("gen", "--rows", 128, "--cols", 128, "--out", "a.mtx")
        report = self.run_json("explain", "a.mtx", "--n", 64, "--search", "ranked",
                               "--family", "unrolled", "--rank-model", "model.json")
        self.assertEqual(report["matrices"][0]["choice"]["search"]["ranked_by"], "mine")
        report = self.run_json("explain", "a.mtx", "--n", 64, "--search", "ranked",
                               "--family", "unrolled", "--rank-model", "prior")
        self.assertEqual(report["matrices"][0]["choice"]["search"]["ranked_by"], "prior")

    def test_training_goes_on_from_a_model(self):
        self.collect_twelve_groups()
        first = json.loads(self.train("--validation", 0))
        (self.folder / "source.json").write_bytes((self.folder / "model.json").read_bytes())

        more = json.loads(self.train("--validation", 0, "--init", "source.json", "--few", 5))

        self.assertEqual(more["trees"][:5], first["trees"])
        self.assertEqual(len(more["trees"]), 10)
        self.assertEqual(more["provenance"]["samples"][0]["groups"], 5)

    def test_wrong_files_are_one_line(self):
        (self.folder / "notes.txt").write_text("dear diary\n")
        self.assert_error(self.run_tool("collect", "--out", "notes.txt"), FAILED,
                          "notes.txt, line 1")
        self.succeed("gen", "--rows", 8, "--cols", 8, "--out", "a.mtx")
        for model in ["notes.txt", "missing.json"]:
            result = self.run_tool("explain", "a.mtx", "--n", 8, "--search", "ranked",
                                   "--rank-model", model)
            self.assertNotEqual(result.returncode, OK)
            self.assertIn(model, result.stderr)
            self.assertNotIn("terminate called", result.stderr)
        self.assert_error(self.run_tool("collect", "--out", "s", "--target", "sm_90"), USAGE,
                          "sm_90")


if __name__ == "__main__":
    unittest.main()
