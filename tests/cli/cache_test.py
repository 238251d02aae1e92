"""spjit cache verify, prune, export, import."""

import io
import json
import os
import subprocess
import tarfile
import unittest

from spjit_tool import FAILED, OK, SOME_FAILED, TOOL, USAGE, ToolTest


class CacheActionTest(ToolTest):
    def compile_kernels(self, count: int = 2) -> list[str]:
        """Kernels in the cache; their keys, ascending."""
        self.generate()
        for n in range(1, count + 1):
            self.succeed("compile", "layer.npz", "--n", n, "--no-measure", "--no-verify")
        return self.keys()

    def keys(self, *arguments: object) -> list[str]:
        return [entry["key"] for entry in self.run_json("cache", "ls", *arguments)["entries"]]

    def entry(self, key: str):
        return self.cache / key[:2] / key

    def damage(self, key: str) -> None:
        path = self.entry(key) / "kernel.o"
        path.chmod(0o600)
        with open(path, "r+b") as file:
            file.seek(100)
            byte = file.read(1)
            file.seek(100)
            file.write(bytes([byte[0] ^ 1]))

    def grow_old(self, key: str, seconds: int = 100_000) -> None:
        record = self.entry(key) / "record.json"
        time = record.stat().st_mtime - seconds
        os.utime(record, (time, time))


class VerifyTest(CacheActionTest):
    def test_a_whole_cache(self):
        keys = self.compile_kernels()

        report = self.run_json("cache", "verify")
        text = self.succeed("cache", "verify").stdout

        self.assertEqual(report["entries"], len(keys))
        self.assertEqual(report["bytes"], self.run_json("cache", "ls")["bytes"])
        self.assertEqual(report["damaged"], [])
        self.assertIn("2 kernels", text)
        self.assertIn("0 damaged", text)

    def test_damaged_kernels_are_named_and_put_aside(self):
        first, second = self.compile_kernels()
        self.damage(second)

        result = self.run_tool("cache", "verify")

        self.assert_error(result, SOME_FAILED, second, "kernel.o")
        self.assertIn("1 damaged", result.stdout)
        self.assertEqual(self.keys(), [first])
        self.assertEqual(self.run_json("cache", "verify")["damaged"], [])

    def test_json_names_what_is_damaged(self):
        for key in self.compile_kernels():
            self.damage(key)
            size = sum(file.stat().st_size for file in self.entry(key).iterdir())

        report = self.run_json("cache", "verify", status=SOME_FAILED)

        self.assertEqual(len(report["damaged"]), 2)
        self.assertEqual(report["damaged"][1]["key"], key)
        self.assertEqual(report["damaged"][1]["bytes"], size)
        self.assertIn("kernel.o", report["damaged"][1]["problem"])

    def test_a_cache_that_does_not_exist_is_whole(self):
        self.assertEqual(self.run_json("cache", "verify")["entries"], 0)

    def test_a_cache_that_is_named_and_not_there_is_an_error(self):
        for action in [["ls"], ["show", "3f"], ["verify"], ["prune", "--size", 1],
                       ["clear", "--yes"], ["export", "--out", "k.tar"]]:
            with self.subTest(action=action):
                result = self.run_tool("cache", *action, "--cache", "nowhere")

                self.assert_error(result, FAILED, "no cache directory 'nowhere'")
                self.assertEqual(list(self.folder.iterdir()), [])


class PruneTest(CacheActionTest):
    def test_by_time_of_last_use(self):
        first, second = self.compile_kernels()
        self.grow_old(first)

        report = self.run_json("cache", "prune", "--unused-for", "1d")

        self.assertEqual(report["entries_removed"], 1)
        self.assertGreater(report["bytes_removed"], 0)
        self.assertFalse(report["dry_run"])
        self.assertEqual(self.keys(), [second])

    def test_by_size_the_least_recently_used_go_first(self):
        first, second, third = self.compile_kernels(3)
        self.grow_old(first, 1000)
        self.grow_old(second, 3000)
        self.grow_old(third, 2000)
        sizes = {entry["key"]: entry["bytes"]
                 for entry in self.run_json("cache", "ls")["entries"]}

        self.succeed("cache", "prune", "--size", sizes[first] + sizes[third])

        self.assertEqual(self.keys(), [first, third])

    def test_kernels_in_use_stay(self):
        keys = self.compile_kernels()
        for key in keys:
            os.utime(self.entry(key) / "record.json")  # used just now

        self.succeed("cache", "prune", "--size", 0, "--unused-for", "0s", "--other-versions")

        self.assertEqual(self.keys(), keys)

    def test_a_dry_run_says_the_same_and_removes_nothing(self):
        keys = self.compile_kernels()
        for key in keys:
            self.grow_old(key)
        arguments = ["cache", "prune", "--size", 0, "--unused-for", "1h", "--other-versions"]

        promised = self.run_json(*arguments, "--dry-run")
        text = self.succeed(*arguments, "--dry-run").stdout
        kept = self.keys()
        done = self.run_json(*arguments)

        self.assertTrue(promised.pop("dry_run"))
        self.assertFalse(done.pop("dry_run"))
        self.assertEqual(promised, done)
        self.assertEqual(done["entries_removed"], 2)
        self.assertIn("would remove 2 kernels", text)
        self.assertEqual(kept, keys)
        self.assertEqual(self.keys(), [])

    def test_damaged_kernels_that_were_put_aside(self):
        first, second = self.compile_kernels()
        self.damage(second)
        self.run_tool("cache", "verify")

        promised = self.run_json("cache", "prune", "--other-versions", "--dry-run")
        done = self.run_json("cache", "prune", "--other-versions")

        self.assertEqual(promised["entries_removed"], 1)
        self.assertEqual(done["entries_removed"], 1)
        self.assertEqual(list((self.cache / "damaged").iterdir()), [])
        self.assertEqual(self.keys(), [first])

    def test_something_must_be_asked_for_in_known_units(self):
        for arguments in [[], ["--dry-run"], ["--size", "2X"], ["--size", "-1"],
                          ["--size", "1.5G"], ["--unused-for", "30"], ["--unused-for", "1y"],
                          ["--unused-for", ""]]:
            with self.subTest(arguments=arguments):
                self.assert_error(self.run_tool("cache", "prune", *arguments), USAGE, "expected")


class ArchiveTest(CacheActionTest):
    def setUp(self) -> None:
        super().setUp()
        self.generate()
        result = self.run_tool("cache", "export", "--out", "probe.tar")
        if "built without libarchive" in result.stderr:
            self.skipTest("this spjit was built without libarchive")

    def names(self, archive: str) -> list[str]:
        with tarfile.open(self.folder / archive) as tar:
            return tar.getnames()

    def pipe(self, *arguments: object, data: bytes = b"") -> subprocess.CompletedProcess[bytes]:
        command = [TOOL, *map(str, arguments)]
        return subprocess.run(command, cwd=self.folder, env=self.environment(), input=data,
                              capture_output=True, timeout=300, check=False)

    def repack(self, source: str, target: str, change) -> None:
        """Writes the members of an archive again, each as `change(info, data)` gives it."""
        with tarfile.open(self.folder / source) as old, \
                tarfile.open(self.folder / target, "w", format=tarfile.USTAR_FORMAT) as new:
            for info in old:
                data = old.extractfile(info).read()
                for info, data in change(info, data):
                    info.size = len(data)
                    new.addfile(info, io.BytesIO(data))


class ExportTest(ArchiveTest):
    def test_any_tar_reader_reads_it(self):
        keys = self.compile_kernels()

        report = self.run_json("cache", "export", "--out", "kernels.tar")

        self.assertEqual(report["entries"], 2)
        self.assertEqual(report["left_out"], [])
        self.assertEqual(report["bytes"], (self.folder / "kernels.tar").stat().st_size)
        with tarfile.open(self.folder / "kernels.tar") as tar:
            members = tar.getmembers()
            records = [json.load(tar.extractfile(f"{key}/record.json")) for key in keys]
            content = tar.extractfile(f"{keys[0]}/kernel.o").read()
        self.assertEqual([member.name for member in members],
                         [f"{key}/{file}" for key in keys for file in ["kernel.o", "record.json"]])
        for member in members:
            self.assertTrue(member.isreg())
            self.assertEqual((member.mode, member.uid, member.gid, member.mtime),
                             (0o600, 0, 0, 0))
        self.assertEqual([record["key"] for record in records], keys)
        self.assertEqual(content, (self.entry(keys[0]) / "kernel.o").read_bytes())

    def test_the_same_kernels_give_the_same_bytes(self):
        self.compile_kernels()

        for name in ["one.tar", "two.tar"]:
            self.succeed("cache", "export", "--out", name)
        piped = self.pipe("cache", "export", "--out", "-")

        one = (self.folder / "one.tar").read_bytes()
        self.assertEqual(one, (self.folder / "two.tar").read_bytes())
        self.assertEqual(piped.returncode, OK, piped.stderr)
        self.assertEqual(one, piped.stdout)
        self.assertIn(b"2 kernels", piped.stderr)

    def test_prefixes_choose_kernels(self):
        first, second = self.compile_kernels()

        self.succeed("cache", "export", second[:12], "--out", "one.tar")
        self.succeed("cache", "export", first, second[:12], second, "--out", "both.tar")
        unknown = self.run_tool("cache", "export", first, "xyz", "--out", "none.tar")

        self.assertEqual({name[:64] for name in self.names("one.tar")}, {second})
        self.assertEqual(len(self.names("both.tar")), 4)
        self.assert_error(unknown, FAILED, "xyz", "cache ls")
        self.assertFalse((self.folder / "none.tar").exists())

    def test_a_damaged_kernel_is_left_out_and_named(self):
        first, second = self.compile_kernels()
        self.damage(second)

        result = self.run_tool("cache", "export", "--out", "kernels.tar")

        self.assert_error(result, SOME_FAILED, second, "left out", "kernel.o")
        self.assertEqual({name[:64] for name in self.names("kernels.tar")}, {first})
        self.assertEqual(self.keys(), [first, second])

    def test_of_nothing_but_damage_no_archive_is_written(self):
        for key in self.compile_kernels():
            self.damage(key)
        (self.folder / "kernels.tar").write_text("the one of yesterday")

        report = self.run_json("cache", "export", "--out", "kernels.tar", status=FAILED)

        self.assertEqual(len(report["left_out"]), 2)
        self.assertEqual((self.folder / "kernels.tar").read_text(), "the one of yesterday")

    def test_there_is_no_archive_of_a_cache_that_is_not_there(self):
        result = self.run_tool("cache", "export", "--out", "kernels.tar")

        self.assert_error(result, FAILED, "no cache directory", str(self.cache))
        self.assertFalse((self.folder / "kernels.tar").exists())

    def test_a_file_that_is_there_is_replaced_whole(self):
        self.compile_kernels(1)
        (self.folder / "kernels.tar").write_text("old")

        self.succeed("cache", "export", "--out", "kernels.tar")

        self.assertEqual(len(self.names("kernels.tar")), 2)
        self.assertEqual(sorted(path.name for path in self.folder.glob("kernels*")),
                         ["kernels.tar"])

    def test_an_archive_that_cannot_be_written(self):
        self.compile_kernels(1)

        self.assert_error(self.run_tool("cache", "export", "--out", "no/such/k.tar"), FAILED,
                          "no/such/k.tar")
        self.assert_error(self.run_tool("cache", "export", "--out", "/dev/null"), FAILED,
                          "/dev/null", "no regular file")
        self.assert_error(self.run_tool("cache", "export"), USAGE, "--out")
        self.assert_error(self.run_tool("cache", "export", "--out", "-", "--json"), USAGE,
                          "standard output")


class ImportTest(ArchiveTest):
    def test_an_imported_kernel_is_used(self):
        keys = self.compile_kernels()
        self.succeed("cache", "export", "--out", "kernels.tar")

        report = self.run_json("cache", "import", "kernels.tar", "--cache", "other")
        layer = self.run_json("compile", "layer.npz", "--n", 2, "--cache", "other")["layers"][0]

        self.assertEqual(report["imported"], 2)
        self.assertEqual(report["already_there"], 0)
        self.assertEqual(report["other_versions"], 0)
        self.assertGreater(report["bytes"], 0)
        self.assertEqual(self.keys("--cache", "other"), keys)
        self.assertTrue(layer["kernel"]["from_cache"])
        self.assertTrue(layer["verification"]["passed"])

    def test_what_is_there_stays(self):
        self.compile_kernels()
        self.succeed("cache", "export", "--out", "kernels.tar")

        text = self.succeed("cache", "import", "kernels.tar").stdout

        self.assertIn("imported 0 kernels", text)
        self.assertIn("2 were there already", text)

    def test_through_a_pipe(self):
        keys = self.compile_kernels()
        archive = self.pipe("cache", "export", "--out", "-").stdout

        result = self.pipe("cache", "import", "-", "--cache", "other", data=archive)

        self.assertEqual(result.returncode, OK, result.stderr)
        self.assertEqual(self.keys("--cache", "other"), keys)

    def test_repacked_by_other_tools(self):
        keys = self.compile_kernels()
        self.succeed("cache", "export", "--out", "kernels.tar")
        with tarfile.open(self.folder / "kernels.tar") as old:
            contents = {info.name: old.extractfile(info).read() for info in old}
        for format_ in [tarfile.GNU_FORMAT, tarfile.PAX_FORMAT]:
            with tarfile.open(self.folder / "again.tar", "w", format=format_) as new:
                for name, data in contents.items():
                    if name.endswith("/kernel.o"):
                        directory = tarfile.TarInfo(name.split("/")[0])
                        directory.type = tarfile.DIRTYPE
                        new.addfile(directory)
                    info = tarfile.TarInfo(name)
                    info.size, info.mtime, info.uname = len(data), 1234567890.5, "someone"
                    new.addfile(info, io.BytesIO(data))

            self.succeed("cache", "import", "again.tar", "--cache", "other")
            self.assertEqual(self.keys("--cache", "other"), keys)
            self.succeed("cache", "clear", "--yes", "--cache", "other")

    def refused(self, change, *fragments: str) -> None:
        """An archive with its members changed is refused, and nothing of it arrives."""
        self.repack("kernels.tar", "evil.tar", change)

        result = self.run_tool("cache", "import", "evil.tar", "--cache", "other")

        self.assert_error(result, FAILED, "evil.tar", *fragments)
        self.assertEqual(len(result.stderr.splitlines()), 1, result.stderr)
        self.assertEqual(result.stdout, "")
        self.assertEqual(list((self.folder / "other").glob("??/*")), [])

    def test_hostile_archives(self):
        (key,) = self.compile_kernels(1)
        self.succeed("cache", "export", "--out", "kernels.tar")
        before = sorted(str(path) for path in self.folder.rglob("*"))

        def renamed(name):
            def change(info, data):
                if info.name.endswith("kernel.o"):
                    info.name = name
                return [(info, data)]
            return change

        def retyped(type_):
            def change(info, data):
                if not info.name.endswith("kernel.o"):
                    return [(info, data)]
                info.type, info.linkname = type_, "/etc/passwd"
                return [(info, b"")]
            return change

        for name in ["/tmp/evil", "../evil", f"{key}/../../evil", f"{key}/sub/kernel.o", "evil"]:
            with self.subTest(name=name):
                self.refused(renamed(name), name, "KEY/FILE")
        for type_ in [tarfile.SYMTYPE, tarfile.LNKTYPE, tarfile.FIFOTYPE, tarfile.CHRTYPE,
                      tarfile.BLKTYPE]:
            with self.subTest(type=type_):
                self.refused(retyped(type_), f"{key}/kernel.o", "expected a plain file")
        with self.subTest("twice"):
            self.refused(lambda info, data: [(info, data)] * (1 + info.name.endswith(".o")),
                         f"{key}/kernel.o", "is there twice")
        with self.subTest("longer"):
            self.refused(lambda info, data: [(info, data + b"!" * info.name.endswith(".o"))],
                         f"{key}/kernel.o", "record.json says")
        with self.subTest("no record"):
            self.refused(lambda info, data: [(info, data)] * info.name.endswith(".o"),
                         f"{key}/record.json", "is missing")
        (self.folder / "evil.tar").unlink()
        left = {path for path in before if "/other" not in path}
        after = {str(path) for path in self.folder.rglob("*")
                 if not path.is_relative_to(self.folder / "other")}
        self.assertEqual(after, left)

    def test_compressed_cut_short_and_too_large(self):
        self.compile_kernels(1)
        self.succeed("cache", "export", "--out", "kernels.tar")
        archive = (self.folder / "kernels.tar").read_bytes()
        (self.folder / "short.tar").write_bytes(archive[:2000])
        with tarfile.open(self.folder / "k.tar.gz", "w:gz") as tar:
            tar.add(self.folder / "layer.npz")

        for arguments, fragment in [(["short.tar"], "damaged"), (["k.tar.gz"], "no tar archive"),
                                    (["layer.npz"], "no tar archive"), ([""], "cannot be"),
                                    (["."], "cannot be read"), (["missing.tar"], "missing.tar"),
                                    (["kernels.tar", "--max-size", "1K"], "over 1024 bytes"),
                                    (["kernels.tar", "--max-entry-size", "1K"], "1024")]:
            with self.subTest(arguments=arguments):
                result = self.run_tool("cache", "import", *arguments, "--cache", "other")
                self.assert_error(result, FAILED, arguments[0], fragment)
        self.assertFalse((self.folder / "other").exists())

    def test_wrong_command_lines(self):
        for arguments in [[], ["a.tar", "b.tar"], ["a.tar", "--max-size", "2X"]]:
            self.assertEqual(self.run_tool("cache", "import", *arguments).returncode, USAGE)

    def test_the_help_says_that_kernels_are_code(self):
        self.assertIn("WARNING", self.succeed("cache", "import", "--help").stdout)


if __name__ == "__main__":
    unittest.main()
