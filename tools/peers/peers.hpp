#pragma once

/// @file
/// Yardsticks of kernels: the machine's peak, a dense product, a CSR loop.

#include "tools/peers/blas_calls.hpp"
#include "tools/peers/csr_peer.hpp"
#include "tools/peers/dense_call.hpp"
#include "tools/peers/machine_peak.hpp"
#include "tools/peers/openblas.hpp"
