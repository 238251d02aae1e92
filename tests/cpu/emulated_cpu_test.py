"""The tool and the tests of kernels on CPUs that this machine may not be: QEMU (package qemu-user)
runs the programs as a Haswell (AVX2), a Nehalem and its plainest x86-64 (both generic).

Environment: SPJIT_TOOL, SPJIT_UNIT_KERNELS (test program), and SPJIT_QEMU, which names another
qemu-x86_64.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "cli"))
from spjit_tool import FAILED, OK, TOOL, ToolTest, in_turn  # noqa: E402

QEMU = shutil.which(os.environ.get("SPJIT_QEMU", "qemu-x86_64"))
UNIT_TESTS = os.environ.get("SPJIT_UNIT_KERNELS", "")

# As QEMU calls them, the best target of each, and all that it has.
CPUS = {"Haswell": ("avx2", ["host-avx2", "host-generic"]),
        "Nehalem": ("generic", ["host-generic"]),
        "qemu64": ("generic", ["host-generic"])}


@unittest.skipUnless(QEMU, "no qemu-x86_64 (Debian's package qemu-user)")
class EmulatedCpu(ToolTest):
    def setUp(self) -> None:
        super().setUp()
        self.prefix: list[str] = []

    def become(self, cpu: str) -> None:
        """From now on the tool runs as that CPU, with a cache of its own."""
        self.prefix = [QEMU, "-cpu", cpu]
        self.cache = self.folder / f"cache-{cpu}"

    def run_tool(self, *arguments: object, **extra: str) -> subprocess.CompletedProcess[str]:
        command = [*self.prefix, TOOL, *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, env=self.environment(**extra), text=True,
                              stdin=subprocess.DEVNULL, capture_output=True, timeout=280,
                              check=False)

    def test_devices_says_what_the_cpu_has(self) -> None:
        for cpu, (best, targets) in CPUS.items():
            with self.subTest(cpu):
                self.become(cpu)

                # NVIDIA's libraries are this machine's on every CPU, and slow to translate.
                devices = self.run_json("devices", "--no-measure", SPJIT_CUDA_PATH="/nowhere")

                self.assertEqual(devices["host"]["isa"], best)
                self.assertFalse(devices["host"]["avx512"])
                available = [t["target"] for t in devices["targets"] if t["available"]]
                self.assertEqual(available, targets)

    def test_kernels_of_every_target_compute_what_the_matrix_says(self) -> None:
        self.generate("layer.npz", 60, 50, 0.7)
        generic = [(cpu, "host-generic") for cpu in CPUS]
        for cpu, target in [("Haswell", "host-avx2"), *in_turn(self.id(), generic)]:
            self.become(cpu)
            for n, *options in ((1,), (19,), (1, "--hot"), (19, "--hot"), (19, "--family", "csr")):
                with self.subTest(cpu=cpu, target=target, n=n, options=options):
                    document = self.run_json("compile", "layer.npz", "--n", n, "--no-measure",
                                             "--target", target, *options)

                    layer = document["layers"][0]
                    self.assertEqual(layer["kernel"]["target"], target)
                    if options and options[-1] == "csr":
                        kinds = ["csr"]
                    elif target == "host-generic":  # without LLVM the csr kernel
                        kinds = ["unrolled", "csr"]
                    else:
                        # With AVX2 zeros are multiplied too for so few columns: hot, and cold from
                        # a far L3, which this machine may have. From a near one csr takes so few
                        # entries cold.
                        kinds = ["unrolled"] if options else ["compact", "csr"]
                        if n == 1 and target == "host-avx2":
                            kinds = ["dense", "windows"]
                            if not options:
                                kinds += ["compact", "csr"]
                    self.assertIn(layer["kernel"]["family"], kinds)
                    self.assertTrue(layer["verification"]["passed"])

    def test_the_target_host_is_the_best_that_the_cpu_has(self) -> None:
        self.generate("layer.npz", 20, 30, 0.7)
        for cpu, (best, _) in CPUS.items():
            with self.subTest(cpu):
                self.become(cpu)

                document = self.run_json("compile", "layer.npz", "--n", 8, "--no-measure")

                self.assertEqual(document["layers"][0]["kernel"]["target"], f"host-{best}")

    def test_a_target_that_the_cpu_lacks_is_compiled_and_neither_timed_nor_checked(self) -> None:
        self.generate("layer.npz", 20, 30, 0.3)  # `dense` takes it too
        every = in_turn(self.id(), [["--hot"], ["--family", "csr"], ["--family", "dense"],
                                    ["--runtime-values"], ["--search", "ranked"]])
        older = in_turn(self.id(), [("Nehalem", "host-avx2", "AVX2"),
                                    ("qemu64", "host-avx2", "AVX2")])
        for cpu, target, needs in (("Haswell", "host-avx512", "AVX-512"), *older):
            for options in [[], *(every if cpu == "Haswell" else [])]:
                with self.subTest(cpu, options=options):
                    self.become(cpu)

                    # With a measurement, for which the peak of the target would be measured.
                    layer = self.run_json("compile", "layer.npz", "--n", 8, "--target", target,
                                          *options, "--out", "o")["layers"][0]
                    again = self.run_json("compile", "layer.npz", "--n", 8, "--target",
                                          f"{target}:any", *options)["layers"][0]

                    self.assertEqual(layer["kernel"]["target"], target)
                    self.assertEqual(layer["record"]["card"]["name"], "any")
                    self.assertIsNone(layer["speed"])
                    self.assertIn(f"not checked: needs {needs}", "; ".join(layer["notes"]))
                    self.assertIsNone(layer["verification"])
                    self.assertTrue((self.folder / "o/layer.o").stat().st_size > 0)
                    self.assertTrue(again["kernel"]["from_cache"])

    def test_a_bundle_for_another_cpu_is_checked_where_it_runs(self) -> None:
        self.generate("fc1.npz", 40, 50, 0.7)
        self.generate("fc2.npz", 50, 40, 0.9)
        best = self.run_json("devices", "--no-measure")["host"]["isa"]
        layer = ("--layout", "tokens", "--bias", "--activation", "gelu")
        self.become("Nehalem")
        for n, options in in_turn(self.id(), [("any", ()), (3, ("--hot",))]):
            self.run_json("compile", "fc1.npz", "fc2.npz", "--n", n, *layer, *options, "--target",
                          "host-avx512:zen4,host-avx2,host-generic", "-o", "model.spjit")

            here = self.run_json("bundle", "verify", "model.spjit", "--run")["runs"]
            prefix, self.prefix = self.prefix, []
            there = self.run_json("bundle", "verify", "model.spjit", "--run")["runs"]
            self.prefix = prefix

            self.assertEqual([run["not_checked"] for run in here],
                             2 * ["needs AVX-512", "needs AVX2", None])
            self.assertEqual([run["passed"] for run in here], 2 * [False, False, True])
            skipped = {"avx512": [], "avx2": ["avx512"], "generic": ["avx512", "avx2"]}[best]
            for run in there:
                isa = run["target"].split(":")[0].removeprefix("host-")
                self.assertEqual(run["passed"], isa not in skipped, run)
                self.assertIsNone(run["error"])

    def test_bench_times_nothing_that_the_cpu_lacks(self) -> None:
        self.generate("layer.npz", 20, 30, 0.7)
        self.become("Haswell")

        result = self.run_tool("bench", "layer.npz", "--n", 8, "--target", "host-avx512")

        self.assert_error(result, FAILED, "nothing to time kernels on: needs AVX-512")

    @unittest.skipUnless(UNIT_TESTS, "no program unit_kernels")
    def test_kernels_pass_their_unit_tests(self) -> None:
        # Only with memory that is guarded at its start: QEMU 7.2 reads all of what a masked load of
        # AVX2 reads a part of.
        suites = ("*KernelOfAnotherCpu*:*CsrKernel.R*_at_start:*EmittedCode.R*_at_start:"
                  "*KernelOnIsa.ReadsNothing*/avx2_at_start")
        for cpu in CPUS:
            with self.subTest(cpu):
                result = subprocess.run([QEMU, "-cpu", cpu, UNIT_TESTS, f"--gtest_filter={suites}"],
                                        env=self.environment(), cwd=self.folder, text=True,
                                        capture_output=True, timeout=280, check=False)

                self.assertEqual(result.returncode, OK, result.stdout[-4000:] + result.stderr)
                self.assertIn("[  PASSED  ]", result.stdout)


if __name__ == "__main__":
    unittest.main()
