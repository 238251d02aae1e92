"""scripts/gpu/gpu.sh from the first step that measures to the last on the emulated driver, with cubins
compiled beforehand: what is loaded, in which order steps come, and which GPUs are refused. Skips
without the programs (SPJIT_BUILD_DIR names the build), the emulated driver or NVIDIA's compilers."""

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
import time
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = Path(os.environ.get("SPJIT_BUILD_DIR", ROOT / "build/release"))
NEEDED = [BUILD / "bench/gpu_tiles", BUILD / "bench/side_by_side_bench",
          BUILD / "tests/emulated_driver/libspjit_emulated_cuda.so"]
MISSING = [str(path) for path in NEEDED if not path.is_file()]
STEPS = ["paper", "ranks"]


def gpu_sh(*arguments, **environment) -> subprocess.CompletedProcess:
    return subprocess.run(
        [ROOT / "scripts/gpu/gpu.sh", "--rehearse", "--build", BUILD, *arguments], text=True,
        capture_output=True, timeout=300, check=False, env={**os.environ, **environment})


def counts_in(text: str) -> list[tuple[int, int]]:
    """Cubins found and compiled, of each program that says so."""
    pattern = r"(\d+) cubins found in the folder, (\d+) compiled"
    return [(int(found), int(compiled)) for found, compiled in re.findall(pattern, text)]


@unittest.skipIf(MISSING, f"there is no {', '.join(MISSING)}")
class GpuScriptTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.scratch = Path(tempfile.mkdtemp(prefix="spjit-gpu-script-"))
        cls.addClassCleanup(shutil.rmtree, cls.scratch)
        cls.folder = cls.scratch / "cubins"
        cls.interrupted = cls.interrupt_a_run()
        cls.filled = cls.fill()
        missing = re.search(r"(NVRTC|nvJitLink) \(\S+\) was not found[^\n]*", cls.filled.stderr)
        if cls.filled.returncode != 0 and missing:
            raise unittest.SkipTest(missing.group())

    @classmethod
    def fill(cls) -> subprocess.CompletedProcess:
        return gpu_sh("--precompile", cls.folder, "--steps", ",".join(STEPS))

    @classmethod
    def interrupt_a_run(cls) -> bool:
        """Kills a run once it has a cubin; whether it was killed before its end."""
        run = subprocess.Popen(
            [ROOT / "scripts/gpu/gpu.sh", "--rehearse", "--build", BUILD, "--precompile", cls.folder,
             "--steps", ",".join(STEPS)], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
            start_new_session=True)
        while run.poll() is None and not list(cls.folder.glob("??/*/record.json")):
            time.sleep(0.005)
        try:
            os.killpg(run.pid, signal.SIGKILL)
        except ProcessLookupError:
            pass
        run.wait()
        return run.returncode == -signal.SIGKILL

    def setUp(self):
        self.out = Path(tempfile.mkdtemp(dir=self.scratch))

    def measure(self, *arguments, steps=STEPS, folder=None, **environment):
        return gpu_sh("--precompiled", folder or self.folder, "--steps", ",".join(steps), "--out",
                      self.out, *arguments, **environment)

    def test_an_interrupted_run_goes_on_where_it_was(self):
        self.assertTrue(self.interrupted)
        self.assertEqual(self.filled.returncode, 0, self.filled.stdout + self.filled.stderr)
        counts = counts_in(self.filled.stdout)
        self.assertGreaterEqual(sum(found for found, _ in counts), 1)
        self.assertGreater(sum(compiled for _, compiled in counts), 1)

    def test_all_steps_in_their_order_load_every_cubin(self):
        # No compiler can be found: what is not in the folder fails.
        result = self.measure(SPJIT_CUDA_PATH=str(self.out))

        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        begun = re.findall(r"^==> ([a-z0-9]+)$", result.stdout, re.MULTILINE)
        self.assertEqual(begun, STEPS)
        counts = counts_in(result.stdout)
        self.assertEqual(len(counts), len(STEPS))
        for found, compiled in counts:
            self.assertGreaterEqual(found, 1)
            self.assertEqual(compiled, 0)

        case, = self.result("paper")["cases"]
        self.assertTrue(case["checked"])
        self.assertEqual([timing["library"] for timing in case["timings"]],
                         ["spjit", "row-split", "sputnik-style"])
        ways = self.result("searches")["ranks"][0]["ways"]
        self.assertEqual([way["way"] for way in ways], ["oracle", "proxy-alone"])
        self.assertEqual({way["tau"] for way in ways}, {None})

    def result(self, name: str) -> dict:
        return json.loads((self.out / f"{name}-rehearsal.json").read_text())

    def test_what_is_damaged_is_made_anew(self):
        folder = self.out / "copy"
        shutil.copytree(self.folder, folder)
        for cubin in folder.glob("??/*/kernel.cubin"):
            content = bytearray(cubin.read_bytes())
            content[len(content) // 2] ^= 1
            cubin.chmod(0o600)
            cubin.write_bytes(content)
            cubin.chmod(0o400)

        result = self.measure(folder=folder, steps=["paper"])

        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertEqual(counts_in(result.stdout), [(0, 3)])
        case, = self.result("paper")["cases"]
        self.assertTrue(case["checked"])

    def test_a_gpu_of_another_architecture_is_refused(self):
        result = self.measure(SPJIT_EMULATED_CUDA_ARCH="80")

        self.assertEqual(result.returncode, 1, result.stdout + result.stderr)
        self.assertIn("tiles are chosen for sm_90:h100", result.stderr)
        self.assertIn("is sm_80", result.stderr)
        self.assertEqual(list(self.out.glob("*.json")), [])

    def test_nothing_is_begun_when_the_minutes_are_over(self):
        result = self.measure("--minutes", "0")

        self.assertEqual(result.returncode, 0, result.stderr)
        self.assertIn("no time was left for: " + ",".join(STEPS), result.stdout)

    def test_without_torch_its_step_says_so(self):
        result = gpu_sh("--steps", "torch", "--out", self.out, SPJIT_PYTHON="/nowhere/python")

        self.assertEqual(result.returncode, 0, result.stdout + result.stderr)
        self.assertRegex(result.stdout, "(?m)^.*(/nowhere/python|libspjit_python.so).*: nothing to do$")
        self.assertEqual(list(self.out.glob("torch*")), [])

    def test_arguments_that_make_no_sense_are_refused(self):
        for arguments, message in ((("--steps", "paper,dlmc"), "no step 'dlmc'"),
                                   (("--precompile", "a", "--precompiled", "b"), "go together"),
                                   (("--precompile", "a", "--steps", "test"), "no step 'test'"),
                                   (("--minutes", "soon"), "--minutes 'soon'")):
            result = gpu_sh(*arguments)
            self.assertEqual(result.returncode, 1)
            self.assertIn(message, result.stderr)


if __name__ == "__main__":
    unittest.main()
