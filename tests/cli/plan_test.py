"""spjit plan and spjit work: kernels of a model made by several workers."""

import json
import os
import re
import shutil
import signal
import subprocess
import time
import unittest
from pathlib import Path

from spjit_tool import FAILED, OK, ROOT, SOME_FAILED, TOOL, USAGE, ToolTest, write_safetensors

FLEET = ROOT / "examples/fleet"
TARGETS = "host-generic:any,host-avx2:zen3"
OPTIONS = ["--n", "any:16", "--layout", "tokens", "--bias", "--activation", "gelu", "--target",
           TARGETS]


class PlanTest(ToolTest):
    def plan(self, *options: object, files: tuple[str, ...] = ("fc1.npz", "fc2.npz", "fc3.npz")
             ) -> list[dict]:
        """Of these matrices, into work.jsonl."""
        for seed, name in enumerate(files):
            if not (self.folder / name).exists():
                self.generate(name, 40 + 8 * seed, 32, 0.8, "--seed", seed)
        text = self.succeed("plan", *files, *(options or OPTIONS)).stdout
        (self.folder / "work.jsonl").write_text(text, encoding="utf-8")
        return [json.loads(line) for line in text.splitlines()]

    def work(self, *options: object, status: int = OK) -> dict:
        """With a cache of its own, as on another machine."""
        cache = self.folder / f"cache-{len(list(self.folder.glob('cache-*')))}"
        return self.run_json("work", "work.jsonl", "--out", "kernels", *options, status=status,
                             SPJIT_CACHE_DIR=str(cache))

    def change(self, **members: object) -> None:
        """Of the first line."""
        first, *rest = (self.folder / "work.jsonl").read_text().splitlines()
        changed = json.dumps({**json.loads(first), **members})
        (self.folder / "work.jsonl").write_text("\n".join([changed, *rest]) + "\n")

    def run_program_of_tool(self, command: list[str], **variables: str) -> None:
        """With `spjit` in PATH."""
        path = f"{Path(TOOL).resolve().parent}:{os.environ['PATH']}"
        result = subprocess.run(command, cwd=self.folder, capture_output=True, text=True,
                                env=self.environment(PATH=path, **variables), timeout=120,
                                check=False)
        self.assertEqual(result.returncode, OK, result.stderr)

    def run_example(self, name: str, *arguments: str, **variables: str) -> None:
        self.run_program_of_tool(["bash", str(FLEET / name), *arguments], **variables)

    def test_a_line_for_each_layer_and_target(self):
        lines = self.plan()

        self.assertEqual([(line["file"], line["layer"], line["target"]) for line in lines],
                         [(f"fc{i}.npz", f"fc{i}", target) for i in (1, 2, 3)
                          for target in TARGETS.split(",")])
        self.assertEqual(len({line["id"] for line in lines}), 6)
        self.assertEqual({line["resource"] for line in lines}, {"cpu"})
        self.assertEqual(lines[0]["nnz"], 256)
        self.assertEqual(lines, self.plan())
        self.assertFalse(self.cache.exists())

    def test_what_changes_an_id(self):
        ids = {self.plan("--n", 8, files=("fc1.npz",))[0]["id"]}
        for options in (["--n", 9], ["--n", 8, "--bias"], ["--n", 8, "--layout", "tokens"],
                        ["--n", 8, "--target", "host-generic"], ["--n", 8, "--threads", 2],
                        ["--n", 8, "--family", "csr"], ["--n", 8, "--runtime-values"]):
            ids.add(self.plan(*options, files=("fc1.npz",))[0]["id"])
        self.generate("fc1.npz", 40, 32, 0.8, "--seed", 9)
        ids.add(self.plan("--n", 8, files=("fc1.npz",))[0]["id"])
        self.assertEqual(len(ids), 9)

    def test_workers_make_the_bundle_that_compile_makes(self):
        self.plan()
        self.succeed("compile", "fc1.npz", "fc2.npz", "fc3.npz", *OPTIONS, "--no-measure",
                     "--bundle", "whole.spjit")

        reports = [self.work("--only", f"{i}/4") for i in (3, 1, 2, 4)]
        joined = self.work("--bundle", "joined.spjit")

        made = [line["line"] for report in reports for line in report["lines"]]
        self.assertEqual(sorted(made), [1, 2, 3, 4, 5, 6])
        self.assertEqual({line["state"] for report in reports for line in report["lines"]},
                         {"made"})
        self.assertEqual({line["state"] for line in joined["lines"]}, {"there"})
        self.assertEqual((self.folder / "joined.spjit").read_bytes(),
                         (self.folder / "whole.spjit").read_bytes())

    @unittest.skipIf(shutil.which("parallel") is None, "there is no GNU parallel")
    def test_the_example_with_gnu_parallel(self):
        self.plan()
        self.succeed("compile", "fc1.npz", "fc2.npz", *OPTIONS, "--no-measure", "-o", "whole.spjit")
        self.run_example("parallel.sh", "model.spjit", "fc1.npz", "fc2.npz", *OPTIONS)
        self.assertEqual((self.folder / "model.spjit").read_bytes(),
                         (self.folder / "whole.spjit").read_bytes())

    def test_the_example_for_an_array_of_slurm(self):
        """Its tasks one after another, with the variables that Slurm sets."""
        self.plan()
        for task in (1, 2, 3):
            self.run_example("slurm.sh", "work.jsonl", "kernels", SLURM_ARRAY_TASK_ID=str(task),
                             SLURM_ARRAY_TASK_COUNT="3")
        self.assertEqual({line["state"] for line in self.work()["lines"]}, {"there"})

    def test_the_example_for_an_indexed_job_of_kubernetes(self):
        """Its commands, with the variable that Kubernetes sets."""
        self.plan()
        text = (FLEET / "kubernetes.yaml").read_text(encoding="utf-8")
        command, = re.findall(r"args: \['(.*)'\]", text)
        pods, = re.findall(r"completions: (\d+)", text)
        for index in range(int(pods)):
            self.run_program_of_tool(["sh", "-c", command], JOB_COMPLETION_INDEX=str(index))
        self.assertEqual({line["state"] for line in self.work()["lines"]}, {"there"})

    def test_a_worker_goes_on_where_it_was(self):
        self.plan()
        self.work("--line", 2)
        short = self.folder / self.work("--line", 3)["lines"][0]["file"]
        short.chmod(0o644)
        short.write_bytes(short.read_bytes()[:-100])
        changed = self.folder / self.work("--line", 4)["lines"][0]["file"]
        file = self.run_json("bundle", "ls", changed)["kernels"][0]["files"][0]
        content = bytearray(changed.read_bytes())
        content[file["offset"] + file["bytes"] // 2] ^= 1
        changed.chmod(0o644)
        changed.write_bytes(content)

        states = [line["state"] for line in self.work()["lines"]]

        self.assertEqual(sorted(states), ["made"] * 5 + ["there"])
        self.assertEqual({line["state"] for line in self.work()["lines"]}, {"there"})

    def test_a_worker_that_is_killed_leaves_whole_bundles(self):
        self.plan()
        for delay in (0.01, 0.03, 0.06):
            worker = subprocess.Popen([TOOL, "work", "work.jsonl", "--out", "kernels"],
                                      cwd=self.folder, env=self.environment(),
                                      stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            time.sleep(delay)
            worker.send_signal(signal.SIGKILL)
            worker.wait()
            for bundle in (self.folder / "kernels").glob("*.spjit"):
                self.succeed("bundle", "verify", bundle)
        self.assertEqual(self.work("--bundle", "model.spjit")["failed"], 0)

    def test_only_what_changed_is_made_again(self):
        self.plan()
        self.work()
        self.generate("fc2.npz", 48, 32, 0.8, "--seed", 77)
        self.plan()

        states = {(line["layer"], line["state"]) for line in self.work()["lines"]}

        self.assertEqual(states, {("fc1", "there"), ("fc2", "made"), ("fc3", "there")})

    def test_what_changed_since_the_plan_fails(self):
        self.plan()
        self.generate("fc2.npz", 48, 32, 0.8, "--seed", 77)

        report = self.work(status=SOME_FAILED)

        failed = [line for line in report["lines"] if line["state"] == "failed"]
        self.assertEqual({line["layer"] for line in failed}, {"fc2"})
        self.assertIn("make the plan again", failed[0]["error"])
        self.assertEqual(len(list((self.folder / "kernels").iterdir())), 4)

    def test_a_bundle_of_some_lines_is_none(self):
        self.plan()
        result = self.run_tool("work", "work.jsonl", "--out", "kernels", "--line", 1, "--bundle",
                               "model.spjit")
        self.assert_error(result, FAILED, "5 of 6 lines have no bundle", "line 2", "'fc1'")
        self.assertFalse((self.folder / "model.spjit").exists())

    def test_searches_that_time_need_the_device(self):
        lines = self.plan("--n", 8, "--search", "ranked", "--target",
                          "host-avx2:zen3,host-avx2,sm_90:h100")
        self.assertEqual([line["resource"] for line in lines[:3]],
                         ["host:zen3", "host", "gpu:sm_90:h100"])
        self.assertGreater(lines[2]["seconds"], lines[0]["seconds"])

    def test_workers_get_about_the_same_work(self):
        lines = self.plan("--n", 8, "--target", "sm_90",
                          files=tuple(f"fc{i}.npz" for i in range(1, 8)))
        shares = []
        for i in (1, 2, 3):
            report = self.run_tool("work", "work.jsonl", "--out", "kernels", "--only", f"{i}/3",
                                   "--json", SPJIT_CUDA_PATH="/nowhere")
            shares.append([line["line"] for line in json.loads(report.stdout)["lines"]])
        seconds = [sum(lines[line - 1]["seconds"] for line in share) for share in shares]
        self.assertEqual(sorted(sum(shares, [])), [1, 2, 3, 4, 5, 6, 7])
        self.assertLess(max(seconds), sum(seconds) / 3 + max(line["seconds"] for line in lines))

    def test_layers_of_a_model_with_names_as_exporters_make_them(self):
        names = ["/x/y.weight", "encoder.0[a]*.weight", "a b\n.weight"]
        write_safetensors(self.folder / "model.safetensors", {
            name: ([24 + i, 16], [float(j % 7 == 0) for j in range((24 + i) * 16)])
            for i, name in enumerate(names)})
        for options in ([], ["--layers", "layers.json"]):
            (self.folder / "layers.json").write_text(json.dumps(
                {"layers": [{"name": names[0], "activation": "relu"}]}))
            lines = self.plan("--target", "host-avx2:zen3", *options, files=("model.safetensors",))
            self.assertEqual({line["layer"] for line in lines}, set(names))
            for line in (1, 2, 3):
                self.assertEqual(self.work("--line", line)["failed"], 0)
        joined = self.work("--bundle", "model.spjit")["bundle"]
        self.assertEqual(joined["kernels"], 3)

    def test_more_workers_than_lines(self):
        self.plan()
        self.assertEqual(self.work("--only", "9/9")["lines"], [])

    def test_files_that_cannot_be_read(self):
        self.generate("fc1.npz")
        (self.folder / "broken.npz").write_bytes(b"PK")
        result = self.run_tool("plan", "fc1.npz", "broken.npz", "--n", 8)
        self.assert_error(result, SOME_FAILED, "broken.npz")
        self.assertEqual(len(result.stdout.splitlines()), 1)

    def test_options_that_are_wrong(self):
        self.plan()
        for arguments in (["--only", "0/3"], ["--only", "4/3"], ["--only", "1"], ["--only", "a/b"],
                          ["--only", "1/3x"], ["--only=-1/3"]):
            result = self.run_tool("work", "work.jsonl", "--out", "kernels", *arguments)
            self.assert_error(result, USAGE, "expected I/N")
        for arguments, expected in ((["--line", 7], "expected 1 to 6"), (["--line", 0], "--line"),
                                    (["--line", 1, "--only", "1/2"], "--only"),
                                    (["--key", "a.pem"], "--key needs --bundle"),
                                    (["--bundle", "work.jsonl"], "--bundle")):
            result = self.run_tool("work", "work.jsonl", "--out", "kernels", *arguments)
            self.assert_error(result, USAGE, expected)
        self.assert_error(self.run_tool("work", "work.jsonl"), USAGE, "--out")
        self.assertFalse((self.folder / "kernels").exists())

    def test_plans_that_are_wrong(self):
        self.plan()
        good = (self.folder / "work.jsonl").read_text()
        for change, expected in (({"id": "../../etc/passwd"}, "expected 64 hexadecimal digits"),
                                 ({"id": 5}, '"id" is 5'), ({"nnz": "many"}, '"nnz"'),
                                 ({"arguments": ["--fast"]}, "--fast"),
                                 ({"arguments": ["--n=0"]}, "--n"),
                                 ({"arguments": "--n=8"}, '"arguments"'),
                                 ({"target": None}, '"target"')):
            (self.folder / "work.jsonl").write_text(good)
            self.change(**change)
            result = self.run_tool("work", "work.jsonl", "--out", "kernels", "--line", 1)
            self.assert_error(result, FAILED, "work.jsonl:1", expected)
        for text, expected in (("", "there is no line"), ("{}\n", 'there is no "id"'),
                               (good + "[1]\n", "work.jsonl:7"), (good + "\n", "work.jsonl:7")):
            (self.folder / "work.jsonl").write_text(text)
            self.assert_error(self.run_tool("work", "work.jsonl", "--out", "kernels"), FAILED,
                              expected)
        self.assert_error(self.run_tool("work", "none.jsonl", "--out", "kernels"), FAILED,
                          "none.jsonl")

    def test_targets_and_files_that_are_wrong(self):
        self.plan()
        good = (self.folder / "work.jsonl").read_text()
        for change, expected in (({"target": "sm_1"}, "sm_1"), ({"file": "gone.npz"}, "gone.npz"),
                                 ({"layer": "other"}, "make the plan again")):
            (self.folder / "work.jsonl").write_text(good)
            self.change(**change)
            result = self.run_tool("work", "work.jsonl", "--out", "kernels", "--line", 1)
            self.assert_error(result, FAILED, expected)
        self.assertEqual(list((self.folder / "kernels").iterdir()), [])

    @unittest.skipIf(os.geteuid() == 0, "root may write anywhere")
    def test_a_folder_that_cannot_be_written_to(self):
        self.plan()
        (self.folder / "kernels").mkdir(mode=0o500)
        self.assert_error(self.run_tool("work", "work.jsonl", "--out", "kernels"), FAILED,
                          "kernels")


if __name__ == "__main__":
    unittest.main()
