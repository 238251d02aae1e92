#include "kernels/host/layer/recurrent_cell.hpp"

#include "kernels/host/layer/activation_vectors.hpp"
#include "kernels/host/layer/one_float.hpp"
#include "kernels/host/operands/simd.hpp"

#if defined(__GNUC__) && !defined(__clang__)
// g++ 12 says it of the registers that its own header leaves undefined (GCC bug 105593).
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"
#endif

namespace spjit {

namespace cell_avx512 {
using activation_avx512::sigmoid;
using activation_avx512::tanh;
#define SPJIT_CELL_INLINE SPJIT_AVX512_INLINE
#define SPJIT_CELL_TARGET SPJIT_AVX512_TARGET
#include "kernels/host/layer/recurrent_cell.inc"
#undef SPJIT_CELL_INLINE
#undef SPJIT_CELL_TARGET
}  // namespace cell_avx512

namespace cell_avx2 {
using activation_avx2::sigmoid;
using activation_avx2::tanh;
#define SPJIT_CELL_INLINE SPJIT_AVX2_INLINE
#define SPJIT_CELL_TARGET SPJIT_AVX2_TARGET
#include "kernels/host/layer/recurrent_cell.inc"
#undef SPJIT_CELL_INLINE
#undef SPJIT_CELL_TARGET
}  // namespace cell_avx2

namespace cell_generic {
#define SPJIT_ACTIVATION_INLINE inline
#include "kernels/host/layer/activation_vectors.inc"
#undef SPJIT_ACTIVATION_INLINE
#define SPJIT_CELL_INLINE inline
#define SPJIT_CELL_TARGET
#include "kernels/host/layer/recurrent_cell.inc"
#undef SPJIT_CELL_INLINE
#undef SPJIT_CELL_TARGET
}  // namespace cell_generic

namespace {

template <RecurrentCell Cell>
CellFunction cell_of(HostIsa isa) {
  if (isa == HostIsa::avx512) return cell_avx512::run_cell<Avx512Zmm, Cell>;
  if (isa == HostIsa::avx2) return cell_avx2::run_cell<Avx2Ymm, Cell>;
  return cell_generic::run_cell<OneFloat, Cell>;
}

}  // namespace

CellFunction cell_function(RecurrentCell cell, HostIsa isa) {
  switch (cell) {
    case RecurrentCell::lstm:
      return cell_of<RecurrentCell::lstm>(isa);
    case RecurrentCell::gru:
      return cell_of<RecurrentCell::gru>(isa);
    case RecurrentCell::gru_reset_first:
      return cell_of<RecurrentCell::gru_reset_first>(isa);
    case RecurrentCell::rnn_tanh:
      return cell_of<RecurrentCell::rnn_tanh>(isa);
    case RecurrentCell::rnn_relu:
      return cell_of<RecurrentCell::rnn_relu>(isa);
  }
  return nullptr;
}

CellFunction reset_function(HostIsa isa) {
  if (isa == HostIsa::avx512) return cell_avx512::run_reset<Avx512Zmm>;
  if (isa == HostIsa::avx2) return cell_avx2::run_reset<Avx2Ymm>;
  return cell_generic::run_reset<OneFloat>;
}

}  // namespace spjit
