#!/usr/bin/env python3
"""Plants one violation of each kind in a small tree and expects check_dependencies to name it."""

from __future__ import annotations

import sys
import tempfile
import unittest
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import check_dependencies  # noqa: E402

CLEAN_TREE = {
    "include/spjit/error.hpp": "#pragma once\n#include <string>\n",
    "include/spjit/matrix.hpp": '#pragma once\n#include "spjit/error.hpp"\n',
    "include/spjit/reorder.hpp": '#pragma once\n#include "spjit/matrix.hpp"\n',
    "include/spjit/compiler.hpp": '#pragma once\n#include "spjit/reorder.hpp"\n',
    "include/spjit/spjit.hpp": "#pragma once\n" + "".join(
        f'#include "spjit/{name}.hpp"\n' for name in ("error", "matrix", "reorder", "compiler")),
    "base/environment.cpp": '#include "spjit/error.hpp"\nauto* p = std::getenv("HOME");\n',
    "matrix/a.cpp": '#include "spjit/matrix.hpp"\n#include <fmt/format.h>\n',
    "reorder/b.cpp": '#include "spjit/matrix.hpp"\n#include "spjit/reorder.hpp"\n',
    "artifact/families.cpp": '#include "kernels/host/csr/csr.hpp"\n'
                             '#include "kernels/cuda/csr/csr_cuda.hpp"\n',
    "artifact/tuned_families.cpp": '#include "kernels/cuda/csr/csr_cuda.hpp"\n',
    "kernels/host/csr/csr.hpp": '#pragma once\n#include "kernels/common.hpp"\n',
    "kernels/host/windows/windows.hpp": '#pragma once\n#include <llvm-c/Core.h>\n',
    "kernels/host/operands/packing.hpp": '#pragma once\n',
    "kernels/cuda/csr/csr_cuda.hpp": '#pragma once\n#include "kernels/cuda/code/text.hpp"\n',
    "proxy/select.cpp": '#include "kernels/host/operands/packing.hpp"\n',
    "bench/gpu/tiles.cpp": '#include "kernels/host/operands/packing.hpp"\n',
    "compiler/pipeline.cpp": '#include "proxy/select.hpp"\n#include "spjit/compiler.hpp"\n'
                             '#include "reorder/row_grouping.hpp"\n',
    "tools/main.cpp": '#include "spjit/spjit.hpp"\n#include "compiler/pipeline.hpp"\n',
}


class CheckDependencies(unittest.TestCase):
    def violations(self, planted: dict[str, str]) -> list[str]:
        with tempfile.TemporaryDirectory() as folder:
            root = Path(folder)
            for name, text in {**CLEAN_TREE, **planted}.items():
                path = root / name
                path.parent.mkdir(parents=True, exist_ok=True)
                path.write_text(text, encoding="utf-8")
            return [str(v) for v in check_dependencies.check(root)]

    def expect_one(self, planted: dict[str, str], start: str, part: str) -> None:
        found = self.violations(planted)
        self.assertEqual(len(found), 1, found)
        self.assertTrue(found[0].startswith(start), found[0])
        self.assertIn(part, found[0])

    def test_clean_tree_passes(self) -> None:
        self.assertEqual(self.violations({}), [])

    def test_build_without_a_module(self) -> None:
        modules = " ".join(check_dependencies.LIBRARY)
        self.assertEqual(
            self.violations({"CMakeLists.txt": f"\nspjit_add_modules({modules} bindings/c)\n"}), [])
        self.expect_one({"CMakeLists.txt": "\nspjit_add_modules(base bindings/c)\n"},
                        "CMakeLists.txt:2:", f"expected {modules}, then bindings")
        self.expect_one({"CMakeLists.txt": "project(spjit)\n"}, "CMakeLists.txt:1:", "has nothing")

    def test_include_against_the_direction(self) -> None:
        self.expect_one({"matrix/a.cpp": '\n\n#include "reorder/row_grouping.hpp"\n'},
                        "matrix/a.cpp:3:", "must not include reorder/row_grouping.hpp")

    def test_public_header_of_a_module_above(self) -> None:
        self.expect_one({"matrix/a.cpp": '#include "spjit/compiler.hpp"\n'},
                        "matrix/a.cpp:1:", "compiler lies above")

    def test_folders_of_one_layer_do_not_see_each_other(self) -> None:
        self.expect_one({"rankmodel/c.cpp": '#include "runtime/device.hpp"\n'},
                        "rankmodel/c.cpp:1:", "runtime lies above or beside it")

    def test_family_includes_another_one(self) -> None:
        self.expect_one({"kernels/host/windows/windows.hpp":
                         '#pragma once\n#include "kernels/host/csr/csr.hpp"\n'},
                        "kernels/host/windows/windows.hpp:2:", "of the family host/csr")

    def test_host_and_cuda_do_not_see_each_other(self) -> None:
        self.expect_one({"kernels/cuda/csr/csr_cuda.hpp":
                         '#include "kernels/host/operands/packing.hpp"\n'},
                        "kernels/cuda/csr/csr_cuda.hpp:1:", "outside of kernels/host")
        self.expect_one({"kernels/host/operands/packing.hpp":
                         '#include "kernels/cuda/code/text.hpp"\n'},
                        "kernels/host/operands/packing.hpp:1:", "outside of kernels/cuda")

    def test_what_is_common_to_kernels_sees_no_wing(self) -> None:
        self.expect_one({"kernels/tuning/space.hpp":
                         '#include "kernels/host/operands/packing.hpp"\n'},
                        "kernels/tuning/space.hpp:1:", "outside of kernels/host")

    def test_a_family_is_named_in_the_lists_alone(self) -> None:
        for file in ("proxy/select.cpp", "tools/main.cpp", "tools/commands/train_command.cpp",
                     "artifact/kernel.cpp", "bench/layer.cpp", "bench/gpu/tile_way.cpp"):
            self.expect_one({file: '#include "kernels/host/csr/csr.hpp"\n'}, f"{file}:1:",
                            "only artifact/families.cpp and artifact/tuned_families.cpp may name")

    def test_public_header_that_no_layer_owns(self) -> None:
        self.expect_one({"tools/main.cpp": '#include "spjit/nobodys.hpp"\n'},
                        "tools/main.cpp:1:", "no layer owns spjit/nobodys.hpp")

    def test_system_includes_count_too(self) -> None:
        self.expect_one({"base/cache.hpp": '#pragma once\n#  include <spjit/matrix.hpp>\n'},
                        "base/cache.hpp:2:", "base must not include spjit/matrix.hpp")

    def test_llvm_outside_of_the_kernels(self) -> None:
        self.expect_one({"runtime/jit.cpp": "#include <llvm-c/Orc.h>\n"},
                        "runtime/jit.cpp:1:", "only kernels may use LLVM")

    def test_public_header_includes_an_internal_one(self) -> None:
        self.expect_one({"include/spjit/matrix.hpp": '#include "matrix/csr.hpp"\n'},
                        "include/spjit/matrix.hpp:1:", "only public headers")

    def test_public_header_includes_another_library(self) -> None:
        self.expect_one({"include/spjit/matrix.hpp": "#include <fmt/format.h>\n"},
                        "include/spjit/matrix.hpp:1:", "not fmt/format.h")

    def test_umbrella_misses_a_header(self) -> None:
        self.expect_one({"include/spjit/target.hpp": "#pragma once\n"},
                        "include/spjit/spjit.hpp:1:", "does not include spjit/target.hpp")

    def test_environment_read_elsewhere(self) -> None:
        self.expect_one({"tools/main.cpp": 'int main() { return ::getenv("X") != nullptr; }\n'},
                        "tools/main.cpp:1:", "only base/environment.cpp")

    def test_comments_are_not_code(self) -> None:
        self.assertEqual(self.violations({"matrix/a.cpp": '// #include "tools/x.hpp"\n/*\n'
                                                          '#include "tools/x.hpp"\ngetenv("X")\n'
                                                          "*/\n"}), [])

    def test_repository_without_sources_is_an_error(self) -> None:
        with tempfile.TemporaryDirectory() as folder:
            argv, sys.argv = sys.argv, ["check_dependencies.py", "--root", folder]
            try:
                self.assertEqual(check_dependencies.main(), 2)
            finally:
                sys.argv = argv


if __name__ == "__main__":
    unittest.main()
