#pragma once

/// @file
/// Instructions that there are loops of bytes for.

#include <cstdint>

#include "base/host_cpu.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Instructions that there are loops for.
enum class ByteForm : std::uint8_t {
  avx2,      ///< vpshufb, vpmaddubsw, vpmaddwd
  avx_vnni,  ///< vpshufb, vpdpbusd of AVX-VNNI
  avx512,    ///< as avx2, in twice the width: BW
  vnni,      ///< vpshufb, vpdpbusd, in twice the width: VNNI
  vbmi,      ///< vpermb or vpshufb, vpdpbusd: VBMI and VNNI
};

/// The form in which kernels of a target run on a CPU that has its instruction set.
[[nodiscard]] ByteForm byte_form(HostIsa isa, const HostCpu& cpu) noexcept;

/// Whether a CPU has the instructions of a form.
[[nodiscard]] bool has_byte_form(const HostCpu& cpu, ByteForm form) noexcept;

/// Whether a window of 64 columns is one table.
[[nodiscard]] constexpr bool permutes_bytes(ByteForm form) noexcept {
  return form == ByteForm::vbmi;
}
/// Whether four products are added up at once. B is unsigned then.
[[nodiscard]] constexpr bool adds_products(ByteForm form) noexcept {
  return form != ByteForm::avx2 && form != ByteForm::avx512;
}
/// Whether its registers are those of AVX2.
[[nodiscard]] constexpr bool has_eight_lanes(ByteForm form) noexcept {
  return form == ByteForm::avx2 || form == ByteForm::avx_vnni;
}

}  // namespace spjit
