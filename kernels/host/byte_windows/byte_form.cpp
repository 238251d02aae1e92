#include "kernels/host/byte_windows/byte_form.hpp"

namespace spjit {

ByteForm byte_form(HostIsa isa, const HostCpu& cpu) noexcept {
  if (isa != HostIsa::avx512) return cpu.avx_vnni ? ByteForm::avx_vnni : ByteForm::avx2;
  if (!cpu.avx512_vnni) return ByteForm::avx512;
  return cpu.avx512_vbmi ? ByteForm::vbmi : ByteForm::vnni;
}

bool has_byte_form(const HostCpu& cpu, ByteForm form) noexcept {
  switch (form) {
    case ByteForm::avx2:
      break;
    case ByteForm::avx_vnni:
      return cpu.avx_vnni;
    case ByteForm::avx512:
      return cpu.avx512;
    case ByteForm::vnni:
      return cpu.avx512_vnni;
    case ByteForm::vbmi:
      return cpu.avx512_vnni && cpu.avx512_vbmi;
  }
  return cpu.avx2_fma;
}

}  // namespace spjit
