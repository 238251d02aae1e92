#include "kernels/host/byte_windows/byte_passes.hpp"

#include <immintrin.h>

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/host/byte_windows/byte_vectors.hpp"
#include "kernels/host/operands/byte_quotients.hpp"
#include "kernels/host/operands/simd_ints.hpp"

namespace spjit {
namespace {

/// Asks for a line of A long before its use. It need not be there.
__attribute__((always_inline)) inline void fetch_line(const std::uint8_t* bytes) {
  constexpr std::ptrdiff_t k_bytes_ahead = 2048;
  _mm_prefetch(bytes + k_bytes_ahead, _MM_HINT_T0);
}

namespace bytes_avx2 {
#define SPJIT_BYTES_TARGET SPJIT_AVX2_TARGET
#define SPJIT_BYTES_INLINE SPJIT_AVX2_INLINE

#include "kernels/host/byte_windows/byte_loops.inc"
#include "kernels/host/byte_windows/byte_rows.inc"
#include "kernels/host/byte_windows/scaled_rows.inc"

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_avx2

namespace bytes_avx_vnni {
#define SPJIT_BYTES_TARGET SPJIT_AVXVNNI_TARGET
#define SPJIT_BYTES_INLINE SPJIT_AVXVNNI_INLINE

#include "kernels/host/byte_windows/byte_loops.inc"
#include "kernels/host/byte_windows/byte_rows.inc"
#include "kernels/host/byte_windows/scaled_rows.inc"

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_avx_vnni

namespace bytes_avx512 {
#define SPJIT_BYTES_TARGET SPJIT_AVX512BW_TARGET
#define SPJIT_BYTES_INLINE SPJIT_AVX512BW_INLINE

#include "kernels/host/byte_windows/byte_loops.inc"
#include "kernels/host/byte_windows/byte_rows.inc"
#include "kernels/host/byte_windows/scaled_rows.inc"

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_avx512

namespace bytes_vnni {
#define SPJIT_BYTES_TARGET SPJIT_VNNI_TARGET
#define SPJIT_BYTES_INLINE SPJIT_VNNI_INLINE

#include "kernels/host/byte_windows/byte_loops.inc"
#include "kernels/host/byte_windows/byte_rows.inc"
#include "kernels/host/byte_windows/scaled_rows.inc"

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_vnni

namespace bytes_vbmi {
#define SPJIT_BYTES_TARGET SPJIT_VBMI_TARGET
#define SPJIT_BYTES_INLINE SPJIT_VBMI_INLINE

#include "kernels/host/byte_windows/byte_loops.inc"
#include "kernels/host/byte_windows/byte_rows.inc"
#include "kernels/host/byte_windows/scaled_rows.inc"

#define SPJIT_QUOTIENTS_INLINE SPJIT_VBMI_INLINE
#include "kernels/host/byte_windows/byte_blocks.inc"
#undef SPJIT_QUOTIENTS_INLINE

#undef SPJIT_BYTES_TARGET
#undef SPJIT_BYTES_INLINE
}  // namespace bytes_vbmi

}  // namespace

const ByteLoop& byte_loop_of(ByteForm form, const ByteShape& shape, ByteKind kind) {
  switch (form) {
    case ByteForm::avx2:
      break;
    case ByteForm::avx_vnni:
      return bytes_avx_vnni::loop_of_products<VnniYmm>(shape);
    case ByteForm::avx512:
      return bytes_avx512::loop_without_products<ByteZmm>(shape, kind);
    case ByteForm::vnni:
      return bytes_vnni::loop_of_products<VnniZmm>(shape);
    case ByteForm::vbmi:
      if (shape.held == ByteSlots::packed)
        return bytes_vbmi::k_byte_loop<bytes_vbmi::PermutedNibbles<VbmiZmm>>;
      return shape.window == k_half_window
                 ? bytes_vnni::loop_of_products<VnniZmm>(shape)
                 : bytes_vbmi::k_byte_loop<bytes_vbmi::PermutedBytes<VbmiZmm>>;
  }
  return bytes_avx2::loop_without_products<ByteYmm>(shape, kind);
}

RunByteBlocks block_loop_of(std::size_t tokens) {
  return bytes_vbmi::k_block_kernels<bytes_vbmi::PermutedBytes<VbmiZmm>>[tokens - 1];
}

}  // namespace spjit
