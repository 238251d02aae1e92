#!/usr/bin/env python3
"""Plants names that clash, and names that do not, in a small library and asks check_names."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import unittest
from pathlib import Path

SCRIPT = Path(__file__).resolve().parent / "check_names.py"


class CheckNames(unittest.TestCase):
    def check(self, files: dict[str, str], alone: str = "",
              targets: dict[str, str] | None = None) -> tuple[int, list[str]]:
        """Sources of one library, unless `targets` says another."""
        with tempfile.TemporaryDirectory() as folder:
            build = Path(folder)
            entries = []
            for name, text in files.items():
                (build / name).write_text(text, encoding="utf-8")
                target = (targets or {}).get(name, "lib")
                entries.append({"file": str(build / name), "directory": folder, "command": "",
                                "output": f"CMakeFiles/{target}.dir/{name}.o"})
            (build / "compile_commands.json").write_text(json.dumps(entries))
            (build / "compiled_alone.txt").write_text(str(build / alone) + "\n")
            done = subprocess.run([sys.executable, SCRIPT, folder], capture_output=True, text=True,
                                  check=False)
            lines = done.stdout.replace(f"{folder}/", "").splitlines()
            return done.returncode, lines[:-1]

    def expect_clash(self, first: str, second: str, name: str) -> None:
        code, lines = self.check({"a.cpp": first, "b.cpp": second})
        self.assertEqual(len(lines), 1, lines)
        self.assertTrue(lines[0].startswith("b.cpp:"), lines)
        self.assertIn(f"'{name}' is also in a.cpp:", lines[0])
        self.assertEqual(code, 1)

    def expect_none(self, first: str, second: str) -> None:
        self.assertEqual(self.check({"a.cpp": first, "b.cpp": second}), (0, []))

    def expect_both(self, text: str, name: str) -> None:
        hidden = f"namespace spjit {{\nnamespace {{\n{text}\n}}  // namespace\n}}\n"
        self.expect_clash(hidden, hidden, name)

    def test_names_of_each_kind_clash(self) -> None:
        self.expect_both("int size_of(const Row& row, int n = 3) { return n; }",
                         "size_of(const Row &, int)")
        self.expect_both("template <class T>\nT least(T a, T b) noexcept { return a; }",
                         "least(T, T)")
        self.expect_both("[[nodiscard]] auto text(std::span<int, 3> a) -> int { return 1; }",
                         "text(std :: span < int , 3 >)")
        self.expect_both("constexpr std::int64_t k_bytes = std::int64_t{1} << 20;", "k_bytes")
        self.expect_both('constexpr const char* k_brace = "{ ;";  // { and }', "k_brace")
        self.expect_both("constexpr std::array<int, 2> k_table{{1, 2}};", "k_table")
        self.expect_both("std::atomic<int> count[4];", "count")
        self.expect_both("struct Part final : Whole { int a; };", "Part")
        self.expect_both("enum class Way { here, there };", "Way")
        self.expect_both("TEST(Rows, AreThere) { EXPECT_TRUE(true); }", "Rows.AreThere")
        self.expect_both("TEST_P(Rows, AreThere) {}", "Rows.AreThere")

    def test_static_names_clash(self) -> None:
        self.expect_clash("static int a() { return 1; }\n", "\nstatic int a() { return 2; }\n",
                          "a()")

    def test_the_line_is_that_of_the_name(self) -> None:
        text = 'namespace {\n/* two\nlines */\nconst char* a = R"(x\ny)";\nint twice = 1;\n}\n'
        code, lines = self.check({"a.cpp": "namespace {\nint twice = 1;\n}\n", "b.cpp": text})
        self.assertEqual([line.split(" ")[0] for line in lines], ["b.cpp:6:"])
        self.assertEqual(code, 1)

    def test_others_do_not(self) -> None:
        one = "namespace { int twice(int a) { return a; } }\n"
        self.expect_none(one, "namespace { int twice(long a) { return a; } }\n")
        self.expect_none(one, "namespace { int twice(int a, int b) { return a + b; } }\n")
        self.expect_none(one, "namespace apart { namespace { int twice(int a) { return a; } } }\n")
        self.expect_none(one, "int Rows::twice(int a) { return a; }\n")
        self.expect_none(one, "namespace { struct Twice { int twice(int a) { return a; } }; }\n")
        self.expect_none("namespace { struct Ahead; int f(int); }\n",
                         "namespace { struct Ahead; int f(int); }\n")
        self.expect_none("namespace { using Clock = a::Clock; }\n",
                         "namespace { using Clock = a::Clock; }\n")
        self.expect_none("// namespace { int a = 1; }\n", "namespace { int a = 1; }\n")

    def test_aliases_of_two_meanings_clash(self) -> None:
        self.expect_clash("namespace { using Clock = a::Clock; }\n",
                          "namespace { using Clock = b::Clock; }\n", "Clock")

    def test_sources_of_other_libraries_and_those_alone_do_not(self) -> None:
        files = {"a.cpp": "namespace { int a = 1; }\n", "b.cpp": "namespace { int a = 2; }\n"}
        self.assertEqual(self.check(files, targets={"b.cpp": "other"}), (0, []))
        self.assertEqual(self.check(files, alone="b.cpp"), (0, []))
        self.assertEqual(self.check(files)[0], 1)

    def test_a_folder_that_is_not_configured_is_an_error(self) -> None:
        done = subprocess.run([sys.executable, SCRIPT, "/nowhere"], capture_output=True, text=True,
                              check=False)
        self.assertEqual(done.returncode, 2)
        self.assertIn("/nowhere has no compile_commands.json", done.stderr)


if __name__ == "__main__":
    unittest.main()
