"""bench/paper_set.json: the paper's 41 shapes and five sparsities."""

import json
import unittest

from fixture import ROOT, ReportTest


class PaperSetTest(ReportTest):
    def setUp(self) -> None:
        super().setUp()
        self.set = json.loads((ROOT / "bench/paper_set.json").read_text(encoding="utf-8"))

    def test_it_is_what_the_script_makes(self):
        result = self.run_script("make_paper_set.py", "--check")

        self.assertEqual(result.returncode, 0, result.stdout)

    def test_a_file_that_differs_is_noticed(self):
        path = self.write("{}\n")

        self.assertEqual(self.run_script("make_paper_set.py", "--check", "--out", path).returncode,
                         1)

    def test_41_distinct_shapes_and_five_sparsities_fill_the_papers_ranges(self):
        shapes = {(s["m"], s["n"], s["k"]) for s in self.set["shapes"]}
        self.assertEqual(len(shapes), 41)
        self.assertEqual([s["id"] for s in self.set["shapes"]], list(range(1, 42)))
        self.assertEqual(len(shapes) * len(set(self.set["sparsities"])), 205)
        for index, ends in [(0, (64, 3072)), (1, (512, 50176)), (2, (27, 3072))]:
            values = [shape[index] for shape in shapes]
            self.assertEqual((min(values), max(values)), ends)

    def test_columns_are_output_pixels_or_tokens_times_the_batch(self):
        for shape in self.set["shapes"]:
            origin = shape["origin"]
            if origin["kind"] == "linear":
                per_sample = origin["sequence"]
            else:
                height, width = map(int, origin["output"].split("x"))
                per_sample = height * width
            self.assertEqual(shape["n"], per_sample * origin["batch"], shape)

    def test_layers_whose_shapes_are_well_known(self):
        found = {(s["network"], s["layer"]): (s["m"], s["k"]) for s in self.set["shapes"]
                 if s["n"] != 4096}

        self.assertEqual(found["ResNet-50", "conv1"], (64, 3 * 7 * 7))
        self.assertEqual(found["ResNet-50", "layer3.0.conv2"], (256, 256 * 3 * 3))
        self.assertEqual(found["BERT-base", "encoder.layer.0.intermediate.dense"], (3072, 768))
        self.assertEqual(found["MobileNetV2", "features.12.expand"], (576, 96))
        self.assertEqual(found["ShuffleNetV2 1x", "stage4.0.branch2.pointwise1"], (232, 232))

    def test_no_two_kernels_have_the_same_seed(self):
        seeds = {1000 * s["id"] + round(1000 * p) for s in self.set["shapes"]
                 for p in self.set["sparsities"]}

        self.assertEqual(len(seeds), 205)


if __name__ == "__main__":
    unittest.main()
