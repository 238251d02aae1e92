"""The stubs must have what the old glibc had, where it had it, and nothing newer."""

import subprocess
import sys
import tempfile
import unittest

import stubs

HEADER = ("Symbol table '.dynsym' contains 9 entries:\n"
          "   Num:    Value          Size Type    Bind   Vis      Ndx Name\n")


def readelf(*symbols):
    """What readelf prints of symbols, each "TYPE NDX NAME"."""
    text = HEADER
    for number, symbol in enumerate(symbols):
        kind, index, name = symbol.split()
        text += f"    {number}: 0000000000001000     8 {kind:7} GLOBAL DEFAULT  {index:>3} {name}\n"
    return text


def old(*symbols, library="libc.so.6", newest=(2, 28)):
    """Library -> {name: version}."""
    found = stubs.old_symbols({library: list(stubs.read_symbols(readelf(*symbols)))}, newest)
    return {home: {one.name: one.version for one in of_home} for home, of_home in found.items()}


class OldSymbols(unittest.TestCase):
    def test_takes_the_newest_version_that_is_old_enough(self):
        symbols = ("FUNC 15 pow@GLIBC_2.2.5", "FUNC 15 pow@GLIBC_2.10", "FUNC 15 pow@@GLIBC_2.29")

        self.assertEqual(old(*symbols, library="libm.so.6"), {"libm.so.6": {"pow": "GLIBC_2.10"}})
        self.assertEqual(old(*symbols, library="libm.so.6", newest=(2, 29)),
                         {"libm.so.6": {"pow": "GLIBC_2.29"}})

    def test_leaves_out_what_is_newer(self):
        self.assertEqual(old("FUNC 15 stat@@GLIBC_2.33",
                             "OBJECT 15 __libc_single_threaded@@GLIBC_2.32"), {})

    def test_leaves_out_what_only_old_programs_call(self):
        self.assertEqual(old("FUNC 15 __xstat@GLIBC_2.2.5"), {})

    def test_moves_functions_back_to_their_libraries(self):
        symbols = ("FUNC 15 pthread_create@GLIBC_2.2.5", "FUNC 15 pthread_create@@GLIBC_2.34",
                   "FUNC 15 dlopen@GLIBC_2.2.5", "FUNC 15 dlopen@@GLIBC_2.34",
                   "FUNC 15 timer_create@GLIBC_2.3.3", "FUNC 15 timer_create@@GLIBC_2.34",
                   "FUNC 15 pthread_mutex_lock@@GLIBC_2.2.5")

        self.assertEqual(old(*symbols), {"libpthread.so.0": {"pthread_create": "GLIBC_2.2.5"},
                                         "libdl.so.2": {"dlopen": "GLIBC_2.2.5"},
                                         "librt.so.1": {"timer_create": "GLIBC_2.3.3"},
                                         "libc.so.6": {"pthread_mutex_lock": "GLIBC_2.2.5"}})

    def test_leaves_out_what_came_from_a_library_that_it_does_not_know(self):
        self.assertEqual(old("FUNC 15 openpty@GLIBC_2.2.5", "FUNC 15 openpty@@GLIBC_2.34"), {})

    def test_takes_neither_undefined_nor_private_symbols_nor_versions(self):
        self.assertEqual(old("FUNC UND malloc@GLIBC_2.2.5", "FUNC 15 __libc_early_init@@GLIBC_PRIVATE",
                             "OBJECT ABS GLIBC_2.2.5@@GLIBC_2.2.5"), {})


class Link(unittest.TestCase):
    """With the compiler and the glibc of this system."""

    def link(self, source):
        """A library of a C source, linked with stubs of 2.28: what the linker said, what it needs."""
        with tempfile.TemporaryDirectory() as name:
            folder, library = f"{name}/stubs", f"{name}/library.so"
            subprocess.run([sys.executable, stubs.__file__, "2.28", folder], check=True)
            linked = subprocess.run(
                ["cc", "-shared", "-fPIC", "-x", "c", "-", "-o", library, "-L", folder, "-Wl,-z,defs",
                 "-lm", "-lpthread", "-ldl"], input=source, capture_output=True, text=True,
                check=False, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})
            needed = subprocess.run(["readelf", "--wide", "--version-info", "--dyn-syms", library],
                                    capture_output=True, text=True, check=False)
            return linked.stderr, needed.stdout

    def test_a_library_needs_the_old_versions_alone(self):
        error, needed = self.link("double pow(double, double);\nvoid* dlopen(const char*, int);\n"
                                  "double f(double x) { dlopen(\"x\", 1); return pow(x, x); }\n")

        self.assertEqual(error, "")
        self.assertRegex(needed, r" pow@GLIBC_2\.2\.5")
        self.assertRegex(needed, r" dlopen@GLIBC_2\.2\.5")
        self.assertRegex(needed, "File: libdl.so.2")

    def test_the_linker_names_what_is_too_new(self):
        error, _ = self.link("unsigned arc4random(void);\nunsigned f(void) { return arc4random(); }\n")

        self.assertRegex(error, "undefined reference to `arc4random'")


class Version(unittest.TestCase):
    def test_orders_by_numbers(self):
        self.assertLess(stubs.version_number("GLIBC_2.4"), stubs.version_number("GLIBC_2.28"))
        self.assertLess(stubs.version_number("2.2.5"), stubs.version_number("2.3"))

    def test_refuses_what_is_no_version(self):
        refused = subprocess.run([sys.executable, stubs.__file__, "new", "folder"],
                                 capture_output=True, text=True, check=False)

        self.assertEqual(refused.returncode, 2)
        self.assertIn("the version is 'new'; expected numbers, such as 2.28", refused.stderr)


if __name__ == "__main__":
    unittest.main()
