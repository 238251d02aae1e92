"""Where NVIDIA's compiler libraries are loaded from without having been named."""

import os
import shutil
import subprocess
import unittest
from pathlib import Path

from spjit_tool import OK, TOOL, ToolTest

# Says that it was loaded, and is then of no use.
SOURCE = r"""
#include <stdio.h>
#include <stdlib.h>
__attribute__((constructor)) static void loaded(void) {
  FILE* mark = fopen(getenv("MARK"), "w");
  if (mark) fclose(mark);
}
"""
NOBODY = 65534


class LibraryPlacesTest(ToolTest):
    """A copy of the tool in bin/, and a library in .cuda/lib/ above it."""

    def setUp(self):
        super().setUp()
        self.folder.chmod(0o755)
        self.mark = self.folder / "loaded"
        self.program = self.folder / "bin" / "spjit"
        self.program.parent.mkdir()
        shutil.copy(TOOL, self.program)
        library = Path(os.environ["SPJIT_LIBRARY"])
        if ".so" in library.name:  # then it is the library above which .cuda is looked for
            for file in library.parent.glob(library.name + "*"):
                shutil.copy(file, self.program.parent)
        self.lib = self.folder / ".cuda" / "lib"
        self.make_library(self.lib)

    def make_library(self, folder):
        folder.mkdir(parents=True)
        source = self.folder / "mark.c"
        source.write_text(SOURCE)
        command = [os.environ.get("SPJIT_CXX", "c++"), "-x", "c++", "-shared", "-fPIC", source,
                   "-o", folder / "libnvrtc.so.13"]
        subprocess.run([str(word) for word in command], check=True, timeout=300)
        for path in [folder.parent, folder, folder / "libnvrtc.so.13"]:
            path.chmod(0o755)

    def devices(self, program=None, cwd=None, **extra):
        """Whether a library was loaded, and what the tool says of those not used."""
        environment = self.environment(MARK=str(self.mark), **extra)
        environment["LD_LIBRARY_PATH"] = str(self.program.parent)
        result = subprocess.run([str(program or self.program), "devices", "--no-measure"],
                                cwd=cwd or self.folder, env=environment, text=True,
                                capture_output=True, timeout=300, check=False)
        self.assertEqual(result.returncode, OK, result.stderr)
        unused = [line for line in result.stdout.splitlines() if line.startswith("not used: ")]
        return self.mark.exists(), unused

    def assert_refused(self, *fragments):
        loaded, unused = self.devices()

        self.assertFalse(loaded)
        self.assertEqual(len(unused), 1, unused)
        for fragment in fragments:
            self.assertIn(fragment, unused[0])

    def need_root(self):
        if os.geteuid() != 0:
            self.skipTest("giving files to another user takes root")

    def test_a_library_that_only_this_user_can_change_is_loaded(self):
        loaded, unused = self.devices()

        self.assertTrue(loaded, unused)

    def test_a_folder_that_others_can_write_to(self):
        for path in [self.folder, self.lib.parent, self.lib]:
            with self.subTest(path=path):
                path.chmod(0o757)
                self.assert_refused(str(path), "mode 0757", "SPJIT_CUDA_PATH")
                path.chmod(0o755)

    def test_a_link_to_a_folder_that_holds_one_that_others_can_write_to(self):
        self.lib.parent.rename(self.folder / "real")
        (self.folder / ".cuda").symlink_to("real")
        (self.folder / "real" / "lib").chmod(0o777)

        self.assert_refused("real/lib' has mode 0777")

    def test_a_library_that_others_can_write_to(self):
        (self.lib / "libnvrtc.so.13").chmod(0o666)

        self.assert_refused("libnvrtc.so.13' has mode 0666")

    def test_a_folder_of_another_user(self):
        self.need_root()
        os.chown(self.lib, NOBODY, NOBODY)

        self.assert_refused("lib' belongs to user 65534")

    def test_a_library_of_another_user(self):
        self.need_root()
        os.chown(self.lib / "libnvrtc.so.13", NOBODY, NOBODY)

        self.assert_refused("libnvrtc.so.13' belongs to user 65534")

    def test_a_toolkit_of_cuda_home_that_others_can_write_to(self):
        toolkit = self.folder / "toolkit"
        self.lib.parent.rename(toolkit)
        (toolkit / "lib").chmod(0o777)

        loaded, unused = self.devices(CUDA_HOME=str(toolkit))

        self.assertFalse(loaded)
        self.assertIn("(CUDA_HOME): ", unused[0])

    def test_what_the_user_names_is_loaded_whoever_can_change_it(self):
        self.lib.chmod(0o777)

        loaded, _ = self.devices(SPJIT_CUDA_PATH=str(self.lib))

        self.assertTrue(loaded)

    def test_the_current_directory_is_no_place_for_libraries(self):
        self.lib.parent.rename(self.folder / "bin" / "kept")
        self.make_library(self.folder / "here" / ".cuda" / "lib")
        path = f"{self.program.parent}:{os.environ['PATH']}"

        loaded, unused = self.devices("spjit", cwd=self.folder / "here", PATH=path)

        self.assertFalse(loaded)
        self.assertEqual(unused, [])


if __name__ == "__main__":
    unittest.main()
