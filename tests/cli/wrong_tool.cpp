// Makes `spjit` compile wrong kernels: every unrolled one has a weight that is off by a thousandth.

#include "tests/support/wrong_kernels.hpp"

namespace {

const spjit::testing_support::SpoiledHostKernels k_spoiled(spjit::testing_support::change_a_weight);

}  // namespace
