"""spjit collect and train, and kernels ranked by what they make."""

import json
import os
import shutil
import tempfile
import unittest
from pathlib import Path

from spjit_tool import FAILED, OK, USAGE, ToolTest


class RankTest(ToolTest):

    def collect(self, *arguments):
        return self.succeed("collect", "--out", "samples.jsonl", *arguments)

    def collect_twelve_groups(self):
        """Of matrices whose tiles are timed in milliseconds."""
        for i in range(6):
            self.generate(f"{i}.mtx", 24 + 8 * i, 32)
        self.collect(*(f"{i}.mtx" for i in range(6)), "--n", 8, 24)
        self.assertEqual(len(self.groups()), 12)

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

        self.generate("a.mtx", 16, 12)
        ranked = ["explain", "a.mtx", "--n", 16, "--search", "ranked", "--family", "unrolled"]
        report = self.run_json(*ranked, "--rank-model", "model.json")
        self.assertEqual(report["matrices"][0]["choice"]["search"]["ranked_by"], "mine")
        report = self.run_json(*ranked, "--rank-model", "prior")
        self.assertEqual(report["matrices"][0]["choice"]["search"]["ranked_by"], "prior")

    def test_training_goes_on_from_a_model(self):
        self.collect_twelve_groups()
        first = json.loads(self.train("--validation", 0))
        (self.folder / "source.json").write_bytes((self.folder / "model.json").read_bytes())

        more = json.loads(self.train("--validation", 0, "--init", "source.json", "--few", 5))

        self.assertEqual(more["trees"][:5], first["trees"])
        self.assertEqual(len(more["trees"]), 10)
        self.assertEqual(more["provenance"]["samples"][0]["groups"], 10)

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
                          "sm_90", "--compile-only")
        self.assert_error(self.run_tool("collect"), USAGE, "--out is missing")
        self.assert_error(self.run_tool("collect", "--compile-only", "tiles"), USAGE,
                          "expected a GPU")
        self.assert_error(self.run_tool("collect", "--time", "nowhere", "--out", "s"), USAGE,
                          "no such folder")


# Of the smallest GPU that is emulated; what is timed there means nothing.
GPU = ["--target", "sm_90"]
EMULATED = {"SPJIT_CUDA_DRIVER": os.environ.get("SPJIT_EMULATED_CUDA", "")}
NO_GPU = {"SPJIT_CUDA_DRIVER": "/nowhere/libcuda.so.1"}


class CudaRankTest(ToolTest):
    """The chain from compiled tiles to a kernel whose tiles a model ranked."""

    kept: tempfile.TemporaryDirectory

    @classmethod
    def setUpClass(cls):
        cls.kept = tempfile.TemporaryDirectory(prefix="spjit-tiles-")
        cls.addClassCleanup(cls.kept.cleanup)

    def setUp(self):
        super().setUp()
        document = json.loads(self.run_tool("devices", "--no-measure", "--json").stdout)
        gpus = {entry["target"]: entry for entry in document["cuda"]["targets"]}
        if not gpus["sm_90"]["compiles"]:
            self.skipTest(gpus["sm_90"]["reason"])
        self.generate("a.npz", 96, 64)

    def compile(self, *arguments):
        return self.succeed("collect", "a.npz", "--n", 32, 128, "--tiles", 3, "--compile-only",
                            "tiles", *GPU, *arguments, **NO_GPU)

    def take_tiles(self):
        """Compiled for the first test that asks; the next ones get a copy."""
        kept = Path(self.kept.name) / "tiles"
        if kept.exists():
            shutil.copytree(kept, self.folder / "tiles")
        else:
            self.compile()
            shutil.copytree(self.folder / "tiles", kept)

    def lines(self, name):
        return [json.loads(line) for line in (self.folder / name).read_text().splitlines()]

    def cubins(self):
        return sorted((self.folder / "tiles/cubins").glob("??/*/kernel.cubin"))

    def test_tiles_are_compiled_without_a_gpu_and_what_is_lost_is_compiled_again(self):
        self.take_tiles()
        groups = self.lines("tiles/tiles.jsonl")
        self.assertEqual([group["times"] for group in groups], ["none"] * 2)
        self.assertEqual([len(group["tiles"]) for group in groups], [3, 3])
        cubins = self.cubins()
        self.assertEqual(len(cubins), 6)
        bytes_before = [cubin.read_bytes() for cubin in cubins]
        os.chmod(cubins[0], 0o600)
        cubins[0].write_bytes(b"damaged")
        shutil.rmtree(cubins[1].parent)

        result = self.compile()

        self.assertEqual([cubin.read_bytes() for cubin in self.cubins()], bytes_before)
        self.assertEqual(self.lines("tiles/tiles.jsonl"), groups)
        self.assertIn("2 groups are there already", result.stderr)
        times = [cubin.stat().st_mtime_ns for cubin in self.cubins()]
        self.compile()
        self.assertEqual([cubin.stat().st_mtime_ns for cubin in self.cubins()], times)

    def test_an_interrupted_group_takes_the_cubins_that_are_there(self):
        self.take_tiles()
        times = [cubin.stat().st_mtime_ns for cubin in self.cubins()]
        lines = (self.folder / "tiles/tiles.jsonl").read_text().splitlines()
        # As if it had been killed before the second line was whole.
        (self.folder / "tiles/tiles.jsonl").write_text(lines[0] + "\n" + lines[1][:100])

        result = self.compile()

        self.assertIn("100 bytes of an unfinished line were cut off", result.stderr)
        self.assertEqual(len(self.lines("tiles/tiles.jsonl")), 2)
        self.assertEqual([cubin.stat().st_mtime_ns for cubin in self.cubins()], times)

    def test_compiled_tiles_are_timed_trained_on_and_ranked(self):
        self.take_tiles()
        self.assert_error(self.run_tool("collect", "--time", "tiles", "--out", "s.jsonl", **NO_GPU),
                          FAILED, "cannot be timed here")
        self.assertFalse(any(self.lines("s.jsonl")))

        self.succeed("collect", "--time", "tiles", "--out", "s.jsonl", **EMULATED)

        groups = self.lines("s.jsonl")
        self.assertEqual([group["times"] for group in groups], ["measured"] * 2)
        for group in groups:
            for tile in group["tiles"]:
                self.assertGreater(tile[group["columns"].index("us")], 0)
        train = ["train", "s.jsonl", "--validation", 0, "--rounds", 3, "--name", "gpu", "--out",
                 "gpu.json"]
        result = self.run_tool(*train)
        if "built without XGBoost" in result.stderr:
            self.skipTest("this spjit was built without XGBoost")
        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertIn("measured times", result.stdout)

        # In mode ranked the clock chooses without a GPU.
        ranked = ["a.npz", "--n", 40, *GPU, "--search", "proxy", "--rank-model", "gpu.json"]
        report = self.run_json("explain", *ranked, **NO_GPU)
        self.assertEqual(report["matrices"][0]["ranked_by"], "gpu")
        self.assertIn("ranked, not timed", report["matrices"][0]["choice"]["reason"])
        key = self.run_json("compile", *ranked, **NO_GPU)["layers"][0]["kernel"]["key"]
        model = json.loads((self.folder / "gpu.json").read_text())
        model["provenance"]["times"] = "modelled"
        (self.folder / "gpu.json").write_text(json.dumps(model))
        report = self.run_json("explain", *ranked, **NO_GPU)
        self.assertEqual(report["matrices"][0]["ranked_by"],
                         "gpu (trained on modelled times, sm_90:h100)")
        other = self.run_json("compile", *ranked, **NO_GPU)["layers"][0]
        self.assertNotEqual(other["kernel"]["key"], key)
        self.assertEqual(other["record"]["search"]["ranked_by"],
                         "gpu (trained on modelled times, sm_90:h100)")

    def test_tiles_are_timed_by_the_clock_and_say_so(self):
        self.take_tiles()

        self.succeed("collect", "--time", "tiles", "--modelled", "--out", "m.jsonl", **NO_GPU)

        groups = self.lines("m.jsonl")
        self.assertEqual([group["times"] for group in groups], ["modelled"] * 2)
        for group in groups:
            self.assertEqual(len(group["tiles"]), 3)
            for tile in group["tiles"]:
                self.assertGreater(tile[group["columns"].index("us")], 0)
        self.assert_error(self.run_tool("collect", "--time", "tiles", "--out", "m.jsonl", **EMULATED),
                          FAILED, "expected cuda and measured")
        self.assert_error(self.run_tool("collect", "--modelled", "--out", "m.jsonl"), USAGE, "--time")
        result = self.run_tool("train", "m.jsonl", "--validation", 0, "--rounds", 3, "--name", "gpu",
                               "--out", "gpu.json")
        if "built without XGBoost" in result.stderr:
            self.skipTest("this spjit was built without XGBoost")
        self.assertIn("modelled times", result.stdout)
        report = self.run_tool("explain", "a.npz", "--n", 40, *GPU, "--search", "proxy",
                               "--rank-model", "gpu.json", **NO_GPU)
        self.assertIn("tiles ranked by gpu (trained on modelled times, sm_90:h100)", report.stdout)

    def test_times_of_two_kinds_and_two_devices_do_not_mix(self):
        self.take_tiles()
        result = self.run_tool("train", "tiles/tiles.jsonl", "--out", "m.json")
        if "built without XGBoost" in result.stderr:
            self.skipTest("this spjit was built without XGBoost")
        self.assert_error(result, FAILED, "has no times")
        lines = (self.folder / "tiles/tiles.jsonl").read_text()
        for name, times in [("a.jsonl", "measured"), ("b.jsonl", "modelled")]:
            (self.folder / name).write_text(lines.replace('"times":"none"', f'"times":"{times}"'))

        self.assert_error(self.run_tool("train", "a.jsonl", "b.jsonl", "--out", "m.json"), FAILED,
                          "expected one kind")
        self.assert_error(self.run_tool("collect", "--out", "a.jsonl", "--groups", 1), FAILED,
                          "expected host")


if __name__ == "__main__":
    unittest.main()
