#pragma once

/// @file
/// What kernels are measured against: the machine's peak, a dense product, a CSR loop.

#include "tools/peers/csr_peer.hpp"
#include "tools/peers/machine_peak.hpp"
#include "tools/peers/openblas.hpp"
