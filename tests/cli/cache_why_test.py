"""spjit cache why and stats, and compile --compile never and --metrics."""

import importlib.util
import json
import os
import unittest

from remote_cache_test import RemoteTest
from spjit_tool import FAILED, OK, SOME_FAILED, USAGE, ToolTest


def samples(text):
    """By name with labels; prometheus_client reads the text if it is installed."""
    if importlib.util.find_spec("prometheus_client") is None:
        lines = [line.rpartition(" ") for line in text.splitlines() if not line.startswith("#")]
        return {name: float(value) for name, _, value in lines}
    from prometheus_client.parser import text_string_to_metric_families as families
    found = {}
    for family in families(text):
        assert family.type in ("counter", "gauge") and family.documentation, family
        for sample in family.samples:
            labels = ",".join(f'{name}="{value}"' for name, value in sample.labels.items())
            found[sample.name + (f"{{{labels}}}" if labels else "")] = sample.value
    return found


_HOST = ("--target", "host-avx2:zen3")


class WhyTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.generate(sparsity=0.5)

    def compile(self, *arguments, file="layer.npz", n=8):
        return self.succeed("compile", file, "--n", n, "--no-measure", *_HOST, *arguments)

    def why(self, *arguments, file="layer.npz", n=8, target=None, **extra):
        host = _HOST if target is None else ["--target", target]
        [kernel] = self.run_json("cache", "why", file, "--n", n, *host, *arguments,
                                 **extra)["kernels"]
        return kernel

    def fields(self, kernel):
        return [one["field"] for one in kernel["nearest"]["differences"]]

    def test_what_is_there_and_the_field_that_differs(self):
        self.compile("--bias")
        bias = ["--bias"]

        there = self.why(*bias)
        cases = {"n": self.why(*bias, n=9), "bias": self.why(),
                 "activation": self.why(*bias, "--activation", "relu"),
                 "threads": self.why(*bias, "--threads", 2),
                 "hot": self.why(*bias, "--hot"),
                 "target": self.why(*bias, target="host-avx512:zen4"),
                 "l1d_bytes": self.why(*bias, target="host-avx2:icelake")}

        self.assertEqual(there["found_in"], str(self.cache))
        self.assertIsNone(there["nearest"])
        for field, kernel in cases.items():
            with self.subTest(field=field):
                self.assertIsNone(kernel["found_in"])
                self.assertIn(field, self.fields(kernel))
                if field != "l1d_bytes":
                    self.assertEqual(self.fields(kernel), [field])

    def test_another_matrix_of_the_same_size(self):
        self.compile()
        self.generate("other.npz", 40, 30, 0.5, "--seed", 9)

        self.assertEqual(self.fields(self.why(file="other.npz")), ["pattern"])

    def test_a_bundle_and_what_a_person_reads(self):
        self.compile("-o", "model.spjit", "--no-cache")

        text = self.succeed("cache", "why", "layer.npz", "--n", 9, *_HOST, "--cache-layer",
                            "model.spjit").stdout

        self.assertIn("layer.npz for host-avx2:zen3: not there", text)
        self.assertIn("layer 'layer' of 'model.spjit'", text)
        self.assertIn("differs  n (8 there, 9 wanted)", text)
        self.assertIn("no kernel in the directory", self.succeed(
            "cache", "why", "layer.npz", "--n", 9, *_HOST).stdout)

    def test_nothing_is_compiled_or_made(self):
        self.why()

        self.assertFalse(list(self.cache.glob("??/*")))

    def test_files_that_are_none(self):
        result = self.run_tool("cache", "why", "layer.npz", "absent.npz", "--n", 8)

        self.assert_error(result, SOME_FAILED, "absent.npz")


class WhyRemoteTest(RemoteTest):
    def test_a_server_is_asked_and_nothing_is_taken(self):
        remote = self.options()
        why = ["cache", "why", "layer.npz", "--n", 8, "--cache", self.folder / "two",
               "--cache-remote"]
        (self.folder / "two").mkdir(mode=0o700)

        [absent] = self.run_json(*why, remote)["kernels"]
        self.compile("--cache-remote", remote, cache="one")
        [there] = self.run_json(*why, remote)["kernels"]
        [broken] = self.run_json(*why, self.options(fault="status/500"))["kernels"]

        self.assertEqual((absent["remote"]["has_kernel"], there["remote"]["has_kernel"]),
                         (False, True))
        self.assertIn("500", broken["remote"]["problem"])
        self.assertIsNone(there["found_in"])
        self.assertFalse(list((self.folder / "two").glob("??/*")))

    def test_metrics_and_stats(self):
        remote = self.options()
        for cache, n in [("one", 8), ("two", 8), ("two", 8)]:
            self.compile("--cache-remote", remote, "--metrics", f"{cache}.prom", cache=cache, n=n)
            if cache == "one":
                made = samples((self.folder / "one.prom").read_text())
        found = samples((self.folder / "two.prom").read_text())
        self.compile("--cache-remote", self.options(fault="status/500"), "--metrics", "bad.prom",
                     cache="two", n=9)
        failed = samples((self.folder / "bad.prom").read_text())
        stats = samples(self.succeed("cache", "stats", "--prometheus", "--cache", "two",
                                     "--cache-remote", self.options()).stdout)
        down = samples(self.succeed("cache", "stats", "--prometheus", "--cache", "two",
                                    "--cache-remote", self.options(fault="status/500")).stdout)

        self.assertEqual(made["spjit_kernels_compiled_total"], 1)
        self.assertEqual(made['spjit_cache_misses_total{reason="absent"}'], 1)
        self.assertEqual(made['spjit_remote_misses_total{reason="absent"}'], 1)
        self.assertEqual(made['spjit_remote_pushed_total{outcome="written"}'], 1)
        self.assertEqual(made['spjit_remote_bytes_total{direction="out"}'],
                         self.server.objects()[0].stat().st_size)
        self.assertGreater(made["spjit_compile_seconds_total"], 0)
        self.assertEqual(made["spjit_remote_left_alone"], 0)
        self.assertEqual(found['spjit_cache_hits_total{place="directory"}'], 1)
        self.assertEqual(found["spjit_kernels_compiled_total"], 0)
        self.assertGreater(found["spjit_cache_hit_seconds_total"], 0)
        self.assertEqual(failed['spjit_remote_misses_total{reason="status"}'], 1)
        [kernels] = [value for name, value in stats.items()
                     if name.startswith("spjit_cache_kernels")]
        self.assertEqual(kernels, 2)
        self.assertEqual((stats["spjit_remote_up"], down["spjit_remote_up"]), (1, 0))

    def test_stats_for_people(self):
        self.compile(cache="one")

        text = self.succeed("cache", "stats", "--cache", "one", "--cache-remote",
                            self.options()).stdout
        data = self.run_json("cache", "stats", "--cache", "one")

        self.assertRegex(text, r"host-\S+ +1 ")
        self.assertIn("answers, a miss took", text)
        self.assertIsNone(data["remote"])
        self.assertEqual([size["kernels"] for size in data["targets"].values()], [1])


class NeverTest(ToolTest):
    def setUp(self):
        super().setUp()
        self.generate(sparsity=0.5)

    def compile(self, *arguments, **extra):
        return self.run_tool("compile", "layer.npz", "--n", 8, "--no-measure", "--verify", "none",
                             "--compile", "never", *arguments, **extra)

    def test_a_bundle_is_enough_where_nothing_can_be_written(self):
        self.succeed("compile", "layer.npz", "--n", 8, "--no-measure", "-o", "model.spjit",
                     "--cache", "elsewhere")
        self.cache.mkdir(mode=0o500)
        os.chmod(self.folder / "model.spjit", 0o444)

        taken = self.compile("--cache-layer", "model.spjit", "--json")

        self.assertEqual(taken.returncode, OK, taken.stderr)
        self.assertTrue(json.loads(taken.stdout)["layers"][0]["kernel"]["from_cache"])

    def test_a_miss_names_the_file_and_what_there_is(self):
        self.succeed("compile", "layer.npz", "--n", 9, "--no-measure", "--cache", "one")

        result = self.compile("--cache", "one")

        self.assert_error(result, FAILED, "layer.npz", "no cache has a kernel of A [40 x 30]",
                          "with n = 9", "n (9 there, 8 wanted)", "spjit compile FILE --n 8")

    def test_a_gpu_needs_no_library_of_nvidia(self):
        result = self.compile("--target", "sm_90", SPJIT_CUDA_PATH="/nowhere")

        self.assert_error(result, FAILED, "for sm_90 with n = 8")
        self.assertNotIn("NVRTC", result.stderr)

    def test_other_words_are_refused(self):
        self.assert_error(self.run_tool("compile", "layer.npz", "--n", 8, "--compile", "always"),
                          USAGE, "needed or never")


del RemoteTest, ToolTest  # or they would be collected again

if __name__ == "__main__":
    unittest.main()
