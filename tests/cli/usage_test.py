"""Help, version, wrong command lines."""

import json
import os
import re
import subprocess
import unittest

from spjit_tool import FAILED, OK, ROOT, TOOL, USAGE, ToolTest

COMMANDS = ["compile", "inspect", "plan", "work", "bench", "explain", "gen", "quantize", "cache",
            "bundle", "devices"]
MAKERS_COMMANDS = ["collect", "train"]
BUNDLE_ACTIONS = ["ls", "show", "verify", "merge", "filter"]
CACHE_ACTIONS = ["ls", "show", "verify", "prune", "clear", "export", "import", "push", "pull",
                 "check-remote", "stats", "why"]
SECTIONS = ["NAME", "SYNOPSIS", "DESCRIPTION", "OPTIONS", "ENVIRONMENT", "EXIT STATUS", "EXAMPLES"]


class HelpTest(ToolTest):
    def test_every_command_has_a_whole_manual_page_that_fits_a_terminal(self):
        for command in [[], *([name] for name in COMMANDS),
                        *(["bundle", action] for action in BUNDLE_ACTIONS),
                        *(["cache", action] for action in CACHE_ACTIONS)]:
            with self.subTest(command=command):
                result = self.succeed(*command, "--help")

                lines = result.stdout.splitlines()
                self.assertEqual([s for s in SECTIONS if s not in lines], [])
                body = lines[:lines.index("EXAMPLES")]
                self.assertLessEqual(max(map(len, body)), 100)
                self.assertEqual(result.stderr, "")

    def test_the_tools_page_lists_every_command(self):
        text = self.succeed("--help").stdout

        for name in COMMANDS:
            self.assertIn(f"\n    {name} ", text)

    def test_every_option_in_the_documentation_is_in_a_page(self):
        pages = "".join(self.succeed(*command, "--help").stdout
                        for command in [*([name] for name in [*COMMANDS, *MAKERS_COMMANDS]),
                                        *(["bundle", action] for action in BUNDLE_ACTIONS),
                                        *(["cache", action] for action in CACHE_ACTIONS)])
        options = set(re.findall(r"^    (?:-[a-z], )?(--[a-z0-9-]+)", pages, re.MULTILINE))
        documented = []
        for path in [ROOT / "README.md", *sorted((ROOT / "docs").glob("*/*.md"))]:
            text = path.read_text(encoding="utf-8")
            commands = [text] if path.name == "cli.md" else re.findall(r"\bspjit [a-z][^\n`]*", text)
            documented += [(path.name, option) for command in commands
                           for option in re.findall(r"(?<![\w-])--[a-z][a-z0-9-]*", command)]

        self.assertGreater(len(documented), 20)
        for name, option in documented:
            self.assertIn(option, options | {"--help", "--version"}, name)

    def test_version_is_one_line_on_standard_output(self):
        result = self.succeed("--version")

        self.assertRegex(result.stdout, r"\Aspjit \d+\.\d+\.\d+\n\Z")


class WrongCommandLineTest(ToolTest):
    def check(self, arguments, *fragments):
        result = self.run_tool(*arguments)

        self.assert_error(result, USAGE, *fragments, "--help'")
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(result.stdout, "")

    def test_no_command(self):
        self.check([], "subcommand is required")

    def test_unknown_command(self):
        self.check(["assemble"], "'assemble' is no command", "compile")

        for action in (["bundle"], ["cache"]):
            self.check([*action, "frobnicate"], "'frobnicate' is no command; expected",
                       f"see 'spjit {action[0]} --help'")
        self.check(["bundle", "frobnicate", "a.spjit", "--out", "b"], "'frobnicate' is no command")
        self.check(["frobnicate", "--out", "b"], "'frobnicate' is no command", "collect or train")

    def test_the_page_of_the_command_that_is_wrong(self):
        for arguments, page in (
                (["bundle", "merge"], "bundle merge"), (["bundle", "merge", "a"], "bundle merge"),
                (["bundle", "ls"], "bundle ls"), (["bundle", "ls", "a", "--fast"], "bundle ls"),
                (["cache", "export"], "cache export"), (["bundle"], "bundle"),
                (["bundle", "--fast"], "bundle"), (["compile"], "compile")):
            self.check(arguments, f"see 'spjit {page} --help'")

    def test_unknown_command_with_help(self):
        self.check(["assemble", "--help"], "'assemble' is no command", "compile")
        self.check(["--help", "assemble"], "'assemble' is no command")
        self.check(["cache", "purge", "--help"], "'purge' is no command", "prune")
        self.check(["bundle", "list", "-h"], "'list' is no command", "ls")

    def test_unknown_option(self):
        self.check(["compile", "a.npz", "--n", 8, "--fast"], "--fast")

    def test_a_flag_takes_no_value(self):
        """The parser takes --no-cache=false for --no-cache."""
        for command, flag in ((["compile", "a.npz", "--n", 8], "--no-cache"),
                              (["compile", "a.npz", "--n", 8], "--drop-zeros"),
                              (["inspect", "a.npz"], "--json"), (["cache", "ls"], "--json"),
                              (["cache", "clear"], "--yes"), (["devices"], "--no-measure")):
            for value in ("false", "0", "x"):
                self.check([*command, f"{flag}={value}"], f"{flag}: takes no value")

    def test_shapes_of_inputs_that_are_none(self):
        for shape in ("abc", "=1x3", "x=", "x=1x", "x=0x3", "x=-1", "x=1,3"):
            self.check(["inspect", "a.npz", f"--input-shape={shape}"], "--input-shape: ",
                       "NAME=SIZES", f"'{shape}'")

    def test_outputs_that_are_inputs(self):
        layer = self.generate("a.npz")
        layers = self.folder / "l.json"
        layers.write_text('{"layers": []}')
        samples = self.folder / "s.jsonl"
        samples.write_text("{}")
        for arguments, option in (
                (["compile", "a.npz", "--n", 8, "-o", "./a.npz"], "--bundle"),
                (["compile", ".", "--n", 8, "-o", "a.npz"], "--bundle"),
                (["compile", "a.npz", "--n", 8, "--layers", "l.json", "-o", "l.json"], "--bundle"),
                (["explain", "a.npz", "--n", 8, "--search", "ranked", "--plot", "a.npz"], "--plot"),
                (["bundle", "merge", "b.spjit", "--key", "k.pem", "--out", "k.pem"], "--out")):
            before = layer.read_bytes()
            self.check(arguments, f"{option}: ", "would be lost")
            self.assertEqual(layer.read_bytes(), before)
        self.assertEqual(layers.read_text(), '{"layers": []}')
        result = self.run_tool("train", "s.jsonl", "--out", "s.jsonl")
        self.assertNotEqual(result.returncode, OK)
        self.assertEqual(samples.read_text(), "{}")

    def test_documents_that_are_no_json(self):
        self.generate("a.npz")
        (self.folder / "l.json").write_text("{")
        result = self.run_tool("compile", "a.npz", "--n", 8, "--layers", "l.json")
        self.assert_error(result, FAILED, "l.json: parse error at line 1")
        self.assertNotIn("json.exception", result.stderr)

    def test_no_file(self):
        self.check(["compile", "--n", 8], "FILE is required")

    def test_no_n(self):
        self.check(["compile", "a.npz"], "--n is required")

    def test_n_that_is_not_a_positive_number(self):
        for n in ["0", "-1", "x", "1.5"]:
            self.check(["compile", "a.npz", f"--n={n}"], "--n", n)

    def test_names_that_do_not_exist(self):
        for option in ["--reorder", "--search", "--target"]:
            self.check(["explain", "a.npz", "--n", 8, option, "nonsense"], "nonsense")

    def test_gpus_that_do_not_exist(self):
        self.check(["compile", "a.npz", "--n", 8, "--target", "cuda"], "cuda", "sm_90:h200")
        self.check(["compile", "a.npz", "--n", 8, "--target", "sm_72"], "sm_72", "dropped")
        self.check(["compile", "a.npz", "--n", 8, "--target", "sm_90:t4"], "t4", "h200")

    def test_gpu_options_out_of_range(self):
        for option, value in [("--m1", 129), ("--n1", 100), ("--n1", 2048)]:
            for command in ["compile", "explain"]:
                self.check([command, "a.npz", "--n", 8, "--target", "sm_90", f"{option}={value}"],
                           str(value))
        self.check(["compile", "a.npz", "--n", 8, "--target", "sm_90", "--from", "sass"], "sass")

    def test_a_prefetch_distance_is_not_an_option(self):
        self.check(["compile", "a.npz", "--n", 8, "--target", "sm_90", "--prefetch", 2],
                   "--prefetch")

    def test_cpus_that_do_not_exist(self):
        self.check(["compile", "a.npz", "--n", 8, "--target", "host-avx512:zen3"], "zen3", "avx512",
                   "zen4, zen5", "any")
        self.check(["compile", "a.npz", "--n", 8, "--target", "host-avx2:"], "zen3")

    def test_what_a_gpu_target_does_not_have(self):
        self.check(["compile", "a.npz", "--n", 8, "--target", "sm_90", "--panel-columns", 16],
                   "panel_columns")
        self.check(["compile", "a.npz", "--n", 8, "--target", "sm_90", "--out", "o", "--emit",
                    "obj"], "obj", "cubin")

    def test_a_plot_needs_a_search_or_a_gpu_and_one_matrix(self):
        self.check(["explain", "a.npz", "--n", 8, "--plot", "a.svg"], "--plot", "--search ranked",
                   "sm_90")
        self.generate("b.npz")
        self.generate("c.npz")
        self.check(["explain", "b.npz", "c.npz", "--n", 8, "--search", "ranked", "--plot", "a.svg"],
                   "--plot", "one matrix")

    def test_search_options_out_of_range(self):
        self.check(["compile", "a.npz", "--n", 8, "--search", "heuristic"], "heuristic", "ranked")
        for option in ["--top-k", "--contenders"]:
            self.check(["compile", "a.npz", "--n", 8, f"{option}=0"], option)
        self.check(["compile", "a.npz", "--n", 8, "--search-budget=-1"], "--search-budget")
        self.check(["compile", "a.npz", "--n", 8, "--search-budget=1e300"], "1e300")

    def test_panel_width_that_is_not_a_multiple_of_the_lanes(self):
        for command in ["compile", "bench", "explain"]:
            self.check([command, "a.npz", "--n", 8, "--panel-columns", 7], "7")

    def test_emit_without_out_or_with_an_unknown_kind(self):
        self.check(["compile", "a.npz", "--n", 8, "--emit", "obj"], "--out")
        self.check(["compile", "a.npz", "--n", 8, "--out", "o", "--emit", "obj,elf"], "elf")

    def test_an_empty_path_is_not_the_default(self):
        matrix = ["a.npz", "--n", 8]
        for option, command in [
                ("--cache", ["compile", *matrix]), ("--cache-layer", ["compile", *matrix]),
                ("--out", ["compile", *matrix]), ("--cuda", ["compile", *matrix]),
                ("--rank-model", ["bench", *matrix]), ("--plot", ["explain", *matrix]),
                *[("--cache", ["cache", action]) for action in ["ls", "verify", "prune", "clear"]],
                ("--out", ["cache", "export"]), ("--out", ["collect"]), ("--out", ["train", "s"]),
                ("--root", ["collect", "a.npz", "--out", "s"]),
                ("--init", ["train", "s", "--out", "m"])]:
            with self.subTest(command=command, option=option):
                self.check([*command, option, ""], option, "empty")
                self.check([*command, f"{option}="], option)
        for command in ["compile", "bench", "explain"]:
            self.check([command, "", "--n", 8], "FILE", "empty")

    def test_a_rank_model_that_is_missing_where_nothing_is_timed(self):
        self.generate()
        for command in ["compile", "bench", "explain", "inspect"]:
            with self.subTest(command=command):
                self.check([command, "layer.npz", "--n", 8, "--rank-model", "none.json"],
                           "--rank-model", "none.json")
        self.succeed("explain", "layer.npz", "--n", 8, "--rank-model", "prior")

    def test_cache_and_no_cache_together(self):
        self.check(["compile", "a.npz", "--n", 8, "--cache", "c", "--no-cache"], "--cache")

    def test_threads_variable_that_is_no_number(self):
        self.generate()

        result = self.run_tool("bench", "layer.npz", "--n", 8, "--threads", 0,
                               SPJIT_NUM_THREADS="many")

        self.assert_error(result, USAGE, "SPJIT_NUM_THREADS", "many")


class StreamTest(ToolTest):
    def test_a_reader_that_leaves_early_leaves_no_trace(self):
        self.generate("layer.npz", 200, 200)
        command = f"'{TOOL}' explain layer.npz --n 512 | head -n 1"

        result = subprocess.run(["bash", "-c", command], cwd=self.folder, text=True,
                                env=self.environment(), capture_output=True, timeout=300,
                                check=False)

        self.assertEqual(result.stdout, "layer.npz\n")
        self.assertEqual(result.stderr, "")

    @unittest.skipUnless(os.path.exists("/dev/full"), "this system has no /dev/full")
    def test_standard_output_that_cannot_be_written_is_a_failure(self):
        with open("/dev/full", "w", encoding="utf-8") as full:
            result = subprocess.run([TOOL, "devices", "--no-measure"], env=self.environment(),
                                    stdout=full, stderr=subprocess.PIPE, text=True, timeout=300,
                                    check=False)

        self.assertEqual(result.returncode, FAILED)
        self.assertIn("spjit: error: standard output", result.stderr)

    def test_a_closed_stream_is_not_the_next_file_that_is_opened(self):
        self.generate()
        collect = ["collect", "layer.npz", "--n", 8, "--searches", 1]
        self.succeed(*collect, "--out", "whole")

        for stream, status in [(0, OK), (1, FAILED), (2, OK)]:
            with self.subTest(stream=stream):
                result = self.run_tool(*collect, "--out", f"out{stream}",
                                       before=lambda closed=stream: os.close(closed))

                self.assertEqual(result.returncode, status, result.stderr)
                lines = (self.folder / f"out{stream}").read_text().splitlines()
                self.assertEqual([json.loads(line)["recipe"] for line in lines],
                                 [{"file": "layer.npz"}])

    def test_no_escape_sequences_without_a_terminal(self):
        self.generate()

        result = self.run_tool("compile", "layer.npz", "missing.npz", "--n", 8, "--no-measure")

        self.assertNotIn("\x1b", result.stdout + result.stderr)


class TerminalTest(ToolTest):
    """Behind a pseudo-terminal."""

    def run_in_terminal(self, *arguments, **extra):
        import pty
        try:
            master, slave = pty.openpty()
        except OSError as error:  # a container or chroot without /dev/pts
            self.skipTest(f"no pseudo-terminal here: {error}")
        with subprocess.Popen([TOOL, *map(str, arguments)], cwd=self.folder, stdin=slave,
                              stdout=slave, stderr=slave,
                              env=self.environment(TERM="xterm", **extra)) as process:
            os.close(slave)
            output = b""
            while True:
                try:
                    chunk = os.read(master, 65536)
                except OSError:  # Linux says EIO when the other side is closed
                    break
                if not chunk:
                    break
                output += chunk
            process.wait(timeout=300)
        os.close(master)
        return process.returncode, output.decode()

    def test_a_progress_bar_and_colour(self):
        self.generate()

        status, output = self.run_in_terminal("compile", "layer.npz", "--n", 8, "--no-measure",
                                              NO_COLOR="")

        self.assertEqual(status, OK)
        self.assertIn("] 0/1 layer.npz", output)
        self.assertIn("\x1b[1mfile", output)

    def test_no_color_is_honoured(self):
        self.generate()

        status, output = self.run_in_terminal("compile", "layer.npz", "--n", 8, "--no-measure",
                                              NO_COLOR="1")

        self.assertEqual(status, OK)
        self.assertNotIn("\x1b[1m", output)


if __name__ == "__main__":
    unittest.main()
