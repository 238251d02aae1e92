"""scripts/data/bench_report.py on files of lab_bench conv: layers of convolutional networks."""

import unittest

import fixture
from fixture import ReportTest, parse_page, table_rows


def convolution(times: dict[str, float], **more: object) -> dict:
    """Times of one layer."""
    layers = more.get("layers", 1)
    timings = [fixture.lab_timing(library, layers * us,
                                  chosen=["compact: rows=8"] if library == "spjit" else [])
               for library, us in times.items()]
    facts = {"origin": "generated, seed 7", "kernel": more.pop("kernel", "3x3"),
             "dense_gflop": 0.23, "shape": {"channels": 64, "height": 56, "width": 56}}
    return fixture.lab_case("resnet50-90", timings, **{
        "layer": "bottleneck_2_block_group1_1_1", "rows": 64, "cols": 576, "nnz": 3686, "n": 1,
        "facts": facts, **more})


def library(name: str, missing: str | None = None) -> dict:
    return {"name": name, "version": "1", "kind": "dense", "missing": missing}


def conv_bench(cases: list[dict], **more: object) -> dict:
    names = ("spjit", "spjit-nhwc", "onednn", "onednn-nhwc", "xnnpack")
    return fixture.lab("conv", cases, libraries=[library(name) for name in names], **more)


def two_layers() -> dict:
    """The fastest of oneDNN's ways takes 4, 4, 4 and 1/4 times as long: 2 in the mean."""
    return conv_bench([
        convolution({"spjit": 10, "onednn": 40, "onednn-nhwc": 50}, layers=3),
        convolution({"spjit": 40, "onednn": 20, "onednn-nhwc": 10, "xnnpack": 80}, kernel="1x1",
                    layer="bottleneck_3_block_group1_1_1")])


class ConvolutionsTest(ReportTest):
    def test_means_count_layers_and_take_the_fastest_of_onednn(self):
        page = parse_page(self.make_page(two_layers()))

        self.assertEqual(table_rows(page, "Times as long as spjit"), [
            ["resnet50 90 %", "1", "1", "cold", "spjit", "0.0700", "2.00x", "2.38x", "2.36x",
             "2.00x"]])

    def test_layers_are_listed(self):
        page = parse_page(self.make_page(two_layers()))

        rows = table_rows(page, "resnet50, 90 % sparse, 1 image, 1 thread, cold")
        self.assertEqual(rows[0], ["bottleneck_2_block_group1_1_1", "64x56x56", "3x3", "64", "3",
                                   "compact", "10.0", "4.00x", "5.00x", "-"])

    def test_layers_slower_than_dense_are_told_with_the_choice(self):
        page = parse_page(self.make_page(two_layers()))

        self.assertEqual(table_rows(page, "Layers of 90 % and more"), [
            ["resnet50 90 %", "bottleneck_3_block_group1_1_1", "1x1", "1", "1", "cold", "spjit",
             "compact: rows=8", "0.250x"]])

    def test_goals_are_told(self):
        goals = [fixture.lab_goal("NCHW, batch 1: 90 %", 2.4, 2.5, "NOT MET", where="53 layers"),
                 fixture.lab_goal("NCHW, batch 8: 90 %", 0, 2.5, "NO DATA", where="no case"),
                 fixture.lab_goal("spjit: least times oneDNN's fastest", 0.9, None, "NO GOAL")]

        page = parse_page(self.make_page({**two_layers(), "goals": goals}))

        self.assertEqual(table_rows(page, "Goals"), [
            ["NCHW, batch 1: 90 %", "NOT MET", "2.40x", "2.50x", "53 layers"],
            ["NCHW, batch 8: 90 %", "NO DATA", "-", "2.50x", "no case"]])

    def test_published_figures_name_their_device(self):
        page = parse_page(self.make_page(two_layers()))

        rows = table_rows(page, "Published: LO-SpMM")
        self.assertIn(["ResNet-50", "90 %", "TensorRT", "1.88x"], rows)
        self.assertIn("GeForce RTX 2080 Ti", " ".join(page.itertext()))

    def test_what_was_wrong_or_missing_is_told(self):
        document = two_layers()
        document["libraries"][-1] = library("xnnpack", "not built in")
        document["cases"][0]["timings"].append(fixture.lab_failed("onnxruntime", "wrong: layer 3"))
        document["cases"][0]["timings"].append(fixture.lab_failed("csr", "takes no strides"))

        text = " ".join(parse_page(self.make_page(document)).itertext())

        self.assertIn("1 result found wrong", text)
        self.assertIn("xnnpack was not run: not built in", text)

    def refused(self, document: dict) -> str:
        result = self.run_script("bench_report.py", self.write(document), "--markdown", "r.md")
        self.assertEqual(result.returncode, 1)
        self.assertEqual(len(result.stderr.splitlines()), 1)
        return result.stderr

    def test_what_contradicts_itself_is_refused(self):
        case = convolution({"spjit": 10})
        self.assertIn("a second case", self.refused(conv_bench([case, case])))
        self.assertIn("cases: is empty", self.refused(conv_bench([])))
        self.assertIn("one of cold, hot", self.refused(conv_bench(
            [convolution({"spjit": 10}, caches="warm")])))
        self.assertIn("above 0", self.refused(conv_bench([convolution({"spjit": 0})])))
        self.assertIn("NETWORK-PERCENT", self.refused(conv_bench([{**case, "workload": "vgg"}])))
        slow = convolution({"spjit": 10})
        slow["timings"][0]["min_us"] = 11
        self.assertIn("at most median_us", self.refused(conv_bench([slow])))
        goal = fixture.lab_goal("g", 1, 1, "OK")
        self.assertIn("one of MET", self.refused(conv_bench([case], goals=[goal])))


if __name__ == "__main__":
    unittest.main()
