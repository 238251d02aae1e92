#pragma once

/// @file
/// The forms of loops of bytes, for tests of each that can run here.

#include <array>
#include <cstdint>
#include <string>

#include "base/host_cpu.hpp"
#include "kernels/host/byte_windows/byte_form.hpp"
#include "tests/support/host/emulated_avx_vnni.hpp"

namespace spjit::testing_support {

inline constexpr std::array k_byte_forms = {ByteForm::avx2, ByteForm::avx_vnni, ByteForm::avx512,
                                            ByteForm::vnni, ByteForm::vbmi};

/// For names of tests.
[[nodiscard]] inline std::string to_string(ByteForm form) {
  switch (form) {
    case ByteForm::avx2:
      return "avx2";
    case ByteForm::avx_vnni:
      return "avx_vnni";
    case ByteForm::avx512:
      return "avx512";
    case ByteForm::vnni:
      return "avx512_vnni";
    case ByteForm::vbmi:
      break;
  }
  return "avx512_vbmi";
}

/// Why a form cannot run, where EmulatedAvxVnni may compute; empty: it can.
[[nodiscard]] inline std::string byte_form_skip(ByteForm form) {
  const bool runs =
      form == ByteForm::avx_vnni ? host_cpu().avx2_fma : has_byte_form(host_cpu(), form);
  if (runs && form == ByteForm::avx_vnni && !EmulatedAvxVnni::works()) {
    return "AVX-VNNI is not here, and signals do not come with registers to compute it in";
  }
  if (runs) return {};
  return form == ByteForm::avx2 || form == ByteForm::avx_vnni
             ? "this CPU has no AVX2"
             : "this CPU lacks instructions of AVX-512 that " + to_string(form) + " has";
}

/// Windows of a form, the narrow one first.
[[nodiscard]] constexpr std::array<std::int64_t, 2> byte_windows(ByteForm form) {
  return {16, permutes_bytes(form) ? 64 : 32};
}

}  // namespace spjit::testing_support
