"""check_symbols.py must find every way in which a library, its list and its header can differ."""

from __future__ import annotations

import unittest

import check_symbols

MAP = "# spjit_comment;\nSPJIT_0.1 {\n  global:\n    spjit_a;\n    spjit_b;\n};\nSPJIT_0.2 {\n" \
      "  global:\n    spjit_c;\n} SPJIT_0.1;\n"
NM = "0000000000001000 T spjit_a@@SPJIT_0.1\n0000000000001010 T spjit_b@@SPJIT_0.1\n" \
     "0000000000001020 T spjit_c@@SPJIT_0.2\n0000000000002000 T _ZN5spjit7compileEv\n" \
     "0000000000000000 A SPJIT_0.1\n"
HEADER = "/* SPJIT_API int spjit_old(void); */\nSPJIT_API int spjit_a(int);\n" \
         "SPJIT_API const char* spjit_b(void);\nSPJIT_API int spjit_c(const int* x,\n  int y);\n"


def differences(map_text: str = MAP, nm: str = NM, header: str = HEADER) -> list[str]:
    return check_symbols.differences(check_symbols.listed_symbols(map_text),
                                     check_symbols.symbols_of(nm),
                                     check_symbols.declared_names(header))


class CheckSymbols(unittest.TestCase):
    def test_finds_nothing_where_all_agree(self) -> None:
        self.assertEqual(differences(), [])

    def test_finds_a_symbol_that_is_gone(self) -> None:
        nm = NM.replace("0000000000001010 T spjit_b@@SPJIT_0.1\n", "")
        self.assertEqual(differences(nm=nm), ["spjit_b: the library does not have it"])

    def test_finds_a_symbol_that_nobody_listed(self) -> None:
        nm = NM + "0000000000003000 T spjit_new\n"
        self.assertEqual(differences(nm=nm), ["spjit_new: not in the list"])

    def test_finds_another_version(self) -> None:
        for other in ("spjit_a@@SPJIT_0.2", "spjit_a", "spjit_a@@SPJIT_0.1x"):
            nm = NM.replace("spjit_a@@SPJIT_0.1", other)
            self.assertEqual(len(differences(nm=nm)), 1, other)

    def test_finds_what_the_header_lacks_and_what_it_has_more(self) -> None:
        header = HEADER.replace("spjit_a(int)", "spjit_z(int)")
        self.assertEqual(differences(header=header),
                         ["spjit_a: spjit.h does not declare it",
                          "spjit_z: spjit.h declares it, but it is not in the list"])


if __name__ == "__main__":
    unittest.main()
