"""bench/python/lab_goals.py: made-up cases that can be checked by hand, and files that are kept."""

import copy
import json
import math
import subprocess
import sys
import unittest

import fixture
from fixture import ReportTest

sys.path.insert(0, str(fixture.ROOT / "bench/python"))
import lab_goals as lab  # noqa: E402

HOST = {"facts": {"source": "dlmc", "peak_gflops": 100, "cold_compile_ms": 20, "encode_ms": 1,
                  "code_bytes": 1, "warm_hit_ms": 0.5}, "n": 128, "caches": "hot"}


def timing(way: str, median_us: float) -> dict:
    return {"way": way, "median_us": median_us, "noise": 0.0, "samples": 9, "ratio": None,
            "ratio_error": None, "chosen": ["compact"], "failed": None}


def case(ways: dict[str, float], **more: object) -> dict:
    """A layer of 100 rows with 50 entries each."""
    return copy.deepcopy({"workload": "minilm-80", "comparison": "layout", "rows": 100, "cols": 200,
                          "layers": 1, "nnz": 5000, "sparsity": 0.75, "n": 64, "threads": 1,
                          "caches": "cold", "facts": {},
                          "timings": [timing(*one) for one in ways.items()], **more})


def host(rows: int, cols: int, sparsity: float, ways: dict[str, float], **more: object) -> dict:
    """Of one matrix, hot, n = 128, on a machine of 100 GFLOP/s a core."""
    return case(ways, rows=rows, cols=cols, sparsity=sparsity,
                nnz=round(rows * cols * (1 - sparsity)), **{**HOST, **more})


def conv(ways: dict[str, float], kernel: str = "3x3", **more: object) -> dict:
    """Two layers of ResNet-50, 90 % sparse."""
    return case(ways, **{"workload": "resnet50-90", "rows": 64, "layers": 2, "n": 1, "facts": {
        "kernel": kernel, "shape": {"kernel": kernel}, "shape_text": "64 filters, 64x56x56"},
        **more})


def half_of_us(mean: bool) -> lab.Goal:
    return lab.Goal("made up", lambda one: None if one["caches"] == "hot" else lab.Figure(
        one["timings"][0]["median_us"] / 2, lab.describe(one), one["layers"]), 1.08,
        at_least=False, mean=mean)


class GoalsTest(ReportTest):
    def found(self, kind: str, cases: list[dict], text: str) -> dict:
        """The first whose text has it."""
        document = {"kind": kind, "cases": cases, "device": {"cpus": 2}}
        goal = next(one for one in lab.goals_of(document) if text in one.text)
        return lab.evaluate(goal, cases, 2)

    def test_goals_are_a_mean_or_the_worst(self):
        cases = [case({"a": 2}, layers=3), case({"a": 8}), case({"a": 99}, caches="hot")]

        mean, worst = (lab.evaluate(half_of_us(of), cases, 1) for of in (True, False))

        self.assertAlmostEqual(mean["measured"], math.sqrt(2))  # 4^(1/4): weights count
        self.assertEqual((mean["where"], mean["cases"]), ("4 cases", 2))
        self.assertEqual((worst["measured"], worst["where"], worst["state"]),
                         (4, "minilm-80 100x200 n=64 t=1 cold", "NOT MET"))
        self.assertEqual(len(worst["worst"]), 1)
        self.assertIn("NOT MET      4.00 x          made up", lab.to_text(worst))

    def test_a_goal_is_missed_by_a_hundredth_that_shows(self):
        states = [lab.evaluate(half_of_us(False), [case({"a": 2 * us})], 1)["state"]
                  for us in (1.0849, 1.0851)]

        self.assertEqual(states, ["MET", "NOT MET"])

    def test_without_cases_there_are_no_data(self):
        for kind in ("host", "conv"):
            goals = lab.goals_of({"kind": kind, "cases": [], "device": {"cpus": 2}})
            self.assertGreaterEqual(len(goals), 20)
            self.assertEqual({lab.evaluate(goal, [], 3)["state"] for goal in goals}, {"NO DATA"})
        self.assertEqual(lab.goals_of({"kind": "layer", "cases": []}), [])

    def test_a_ratio_is_of_pairs_before_medians(self):
        one = case({"features": 10, "tokens": 12})
        one["timings"][0]["noise"], one["timings"][1]["noise"] = 0.03, 0.04
        tokens = one["timings"][1]

        self.assertAlmostEqual(lab.over_first(one, tokens), 1.2)
        self.assertAlmostEqual(lab.error(one, tokens), 1.2533 * 0.05 / 3)  # of nine samples
        tokens.update(ratio=1.1, ratio_error=0.02)
        self.assertEqual((lab.over_first(one, tokens), lab.error(one, tokens)), (1.1, 0.02))
        one["timings"][0]["failed"] = "wrong"
        self.assertIsNone(lab.find(one, "features"))

    def test_the_peak_goal_takes_the_worst_case_that_fits(self):
        peak_us = 2 * 26214 * 128 / 1e5  # of 100 GFLOP/s
        good = host(512, 512, 0.9, {"spjit": peak_us / 0.97})
        bad = host(512, 512, 0.9, {"spjit": peak_us / 0.5}, workload="slow one")

        met = self.found("host", [good, {**bad, "n": 512}], "512 x 512, 90 %")
        missed = self.found("host", [good, bad], "512 x 512, 90 %")

        self.assertEqual((met["state"], missed["state"]), ("MET", "NOT MET"))
        self.assertAlmostEqual(met["measured"], 97)
        self.assertAlmostEqual(missed["measured"], 50)
        self.assertIn("slow one", missed["where"])

    def test_the_speedup_over_dense_is_a_geometric_mean(self):
        goal = self.found("host", [host(512, 512, 0.9, {"spjit": 10, "openblas": 40}),
                                   host(256, 64, 0.9, {"spjit": 10, "openblas": 160}),
                                   host(64, 64, 0.9, {"spjit": 10})], "8 x OpenBLAS")

        self.assertAlmostEqual(goal["measured"], 8)
        self.assertEqual(goal["where"], "2 cases")

    def test_two_threads_are_compared_with_the_same_case_on_one(self):
        goal = self.found("host", [host(1024, 512, 0.8, {"spjit": 100}),
                                   host(1024, 512, 0.8, {"spjit": 50}, threads=2),
                                   host(64, 64, 0.5, {"spjit": 10}, threads=2)], "two threads")

        self.assertEqual((goal["measured"], goal["state"], goal["cases"]), (2, "MET", 1))

    def test_compile_goals_are_upper_bounds(self):
        quick = host(512, 512, 0.9, {"spjit": 10})
        slow = {**quick, "facts": {**quick["facts"], "cold_compile_ms": 60}}

        self.assertEqual(self.found("host", [quick], "cold compile")["state"], "MET")
        self.assertEqual(self.found("host", [quick], "warm cache hit of 512")["state"], "MET")
        self.assertAlmostEqual(self.found("host", [quick], "encoding")["measured"], 1e5 / 26214)
        missed = self.found("host", [quick, slow], "cold compile")
        self.assertEqual((missed["state"], missed["measured"]), ("NOT MET", 60))

    def test_layers_keep_threads_and_caches_apart(self):
        cases = [case({"features": 10, "tokens": us}, **more) for us, more in (
            (20, {"threads": 2}), (10, {"caches": "hot"}), (8, {}))]

        results = [lab.evaluate(goal, cases, 1) for goal in lab.layer_goals(cases)]

        self.assertEqual(len(results), 6)  # the mean and the worst of each
        self.assertEqual([one["goal"] for one in results[:2]],
                         ["layout: tokens, t=1 cold, mean <= 1.08",
                          "layout: tokens, t=1 cold, worst <= 1.25"])
        self.assertAlmostEqual(results[0]["measured"], 0.8)
        self.assertEqual(results[2]["about"]["caches"], "hot")
        self.assertEqual((results[4]["about"]["threads"], results[4]["state"]), (2, "NOT MET"))
        self.assertEqual(results[5]["where"],
                         "minilm-80 100x200 n=64 t=2 cold compact (compact)")

    def test_goals_of_an_epilogue_are_of_long_rows(self):
        cases = [case({"product": 10, "fused": 20, "apart": 30}, comparison="epilogue", nnz=3999),
                 case({"product": 10, "fused": 10.4, "apart": 30}, comparison="epilogue-tokens")]

        results = [lab.evaluate(goal, cases, 1) for goal in lab.layer_goals(cases)]

        self.assertEqual(len(results), 4)
        self.assertEqual(results[0]["goal"], "epilogue-tokens: fused, t=1 cold, mean <= 1.05")
        self.assertAlmostEqual(results[0]["measured"], 1.04)
        self.assertEqual((results[1]["state"], results[2]["about"]["way"]), ("NO GOAL", "apart"))

    def test_goals_of_values_are_also_milliseconds_a_million(self):
        one = case({"own values": 10, "buffer": 10.2}, comparison="values")
        one["timings"][1]["values_ms"] = 0.03  # of 5000 values

        results = [lab.evaluate(goal, [one], 1) for goal in lab.layer_goals([one])]

        self.assertEqual(len(results), 4)
        self.assertEqual((results[3]["unit"], results[3]["state"]), ("ms", "NOT MET"))
        self.assertAlmostEqual(results[3]["measured"], 6)

    def test_means_of_convolutions_count_a_shape_as_often_as_it_is_there(self):
        often = conv({"spjit": 10, "onednn-nchw": 50, "onednn": 40, "openblas": 2}, layers=3)
        once = conv({"spjit": 10, "onednn": 10, "onednn-nhwc": 3}, layers=1)
        once["timings"][2]["failed"] = "wrong"

        mean = self.found("conv", [often, once], "NCHW, batch 1: 90 % sparse: mean")

        self.assertAlmostEqual(mean["measured"], 4**0.75)
        self.assertEqual((mean["state"], mean["where"]), ("MET", "4 layers"))
        self.assertEqual(self.found("conv", [often, once], "every layer")["state"], "MET")
        self.assertEqual(self.found("conv", [often, once, once], "90 % sparse: mean")["state"],
                         "NOT MET")

    def test_convolutions_say_which_layer_is_slower_than_dense_and_what_was_chosen(self):
        slow = conv({"spjit": 10, "onednn-nhwc": 9})
        slower_and_dense = conv({"spjit": 10, "onednn-nhwc": 8})
        slower_and_dense["timings"][0]["chosen"] = ["dense"]

        every = self.found("conv", [slow, slower_and_dense], "every layer")
        chosen = self.found("conv", [slow, slower_and_dense], "not by family dense")

        self.assertEqual((every["state"], every["measured"], chosen["measured"]),
                         ("NOT MET", 0.8, 0.9))
        self.assertEqual(chosen["where"], "resnet50-90 64 filters, 64x56x56 n=1 t=1 cold: "
                         "onednn-nhwc 9 us over spjit 10 us (compact)")

    def test_convolutions_keep_sparsities_layouts_batches_and_caches_apart(self):
        cases = [conv({"spjit": 10, "onednn": 14}, workload="resnet50-80"),
                 conv({"spjit-nhwc": 10, "onednn": 16}, workload="resnet50-80", n=8),
                 conv({"spjit": 1, "onednn": 99}, workload="resnet50-80", caches="hot"),
                 conv({"spjit": 1, "onednn": 99}, workload="rapidocr-det-80")]

        states = {text: self.found("conv", cases, text)["state"] for text in (
            "NCHW, batch 1: 80 %", "NHWC, batch 8: 80 %", "NHWC, batch 1: 80 %",
            "NCHW, batch 1: 90 % sparse: mean")}

        self.assertEqual([*states.values()], ["NOT MET", "MET", "NO DATA", "NO DATA"])
        self.assertEqual(self.found("conv", cases, "NCHW, batch 1: 80 %")["measured"], 1.4)

    def test_goals_of_patches_are_of_3x3_and_those_of_products_of_1x1(self):
        cases = [conv({"spjit": 10, "im2col+spmm": 14}),
                 conv({"spjit": 10.4, "im2col+spmm": 10}, "1x1")]
        pixels = [conv({"spjit-nhwc": 10.2, "im2col+spmm": 9, "im2col+spmm-nhwc": 10}, "1x1")]

        patches, products = (self.found("conv", cases, text) for text in ("3x3", "1x1"))

        self.assertEqual((patches["measured"], patches["state"]), (1.4, "MET"))
        self.assertAlmostEqual(products["measured"], 1.04)
        self.assertEqual(products["state"], "NOT MET")
        self.assertAlmostEqual(
            self.found("conv", pixels, "NHWC, batch 1: 1x1")["measured"], 1.02)

    def test_two_threads_are_held_against_one_of_the_same_layer(self):
        one, two = conv({"spjit": 18, "onednn": 19}), conv({"spjit": 10, "onednn": 10}, threads=2)
        alone = conv({"spjit": 10, "onednn": 10}, "1x1", threads=2)

        cases = [one, two, alone]
        mean = self.found("conv", cases, "two threads: mean")

        self.assertAlmostEqual(mean["measured"], 1.8)
        self.assertEqual(mean["state"], "MET")
        self.assertAlmostEqual(self.found("conv", cases, "threads: oneDNN")["measured"], 1.9)
        self.assertEqual(self.found("conv", [one, alone], "threads: mean")["state"], "NO DATA")

    def test_layers_that_do_worst_are_listed(self):
        cases = [conv({"spjit": 10, "onednn": 30, "unrolled": 5}),
                 conv({"spjit": 10, "spjit-nhwc": 20, "onednn": 10, "csr": 9, "csr-nhwc": 10})]

        dense = self.found("conv", cases, "spjit-nhwc: least times oneDNN's fastest")
        family = self.found("conv", cases, "spjit: least times the fastest family")

        self.assertEqual((dense["measured"], dense["state"]), (0.5, "NO GOAL"))
        self.assertEqual([one["figure"] for one in family["worst"]], [0.5, 0.9])
        self.assertIn("unrolled 5 us over spjit 10 us", family["worst"][0]["where"])

    def test_files_that_are_kept_have_these_goals(self):
        names = [path for kind in ("host", "layer", "conv")
                 for path in sorted((fixture.ROOT / "bench/results").glob(f"{kind}-*.json"))]
        self.assertGreaterEqual(len(names), 6)
        for path in names:
            document = json.loads(path.read_text(encoding="utf-8"))
            results = {goal.text: lab.evaluate(goal, document["cases"], 3)
                       for goal in lab.goals_of(document)}
            for kept in document["goals"]:
                with self.subTest(path.name + ": " + kept["goal"]):
                    found = results[kept["goal"]]
                    self.assertAlmostEqual(found["measured"], kept["measured"])
                    for member in ("state", "wanted", "unit", "over"):
                        self.assertEqual(found[member], kept[member])

    def test_a_file_gets_its_goals(self):
        path = self.write({"schema": lab.SCHEMA, "kind": "layer", "goals": [],
                           "cases": [case({"features": 10, "tokens": 12})]}, "layer.json")
        script = fixture.ROOT / "bench/python/lab_goals.py"

        done = subprocess.run([sys.executable, script, path], text=True, capture_output=True,
                              check=False)

        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("NOT MET      1.20 x          layout: tokens", done.stdout)
        self.assertEqual(len(json.loads(path.read_text(encoding="utf-8"))["goals"]), 2)
        other = self.write({"schema": lab.SCHEMA, "kind": "model", "cases": []}, "model.json")
        done = subprocess.run([sys.executable, script, other], text=True, capture_output=True,
                              check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("expected spjit-lab-1 of kind host, layer or conv", done.stderr)


if __name__ == "__main__":
    unittest.main()
