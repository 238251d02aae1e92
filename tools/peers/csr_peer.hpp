#pragma once

/// @file
/// The sparse peer: a CSR loop written by hand, with threads.

#include <memory>
#include <vector>

#include "base/thread_pool.hpp"
#include "kernels/host/loops/csr_kernel.hpp"
#include "kernels/host/operands/product.hpp"
#include "spjit/matrix.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// run_csr() on 1..T threads, each with rows of nearly equal work. Refers to the matrix.
class CsrPeer {
 public:
  /// Throws NotSupported if this CPU lacks `isa`, InvalidArgument for threads < 1.
  CsrPeer(const CsrMatrix& matrix, HostIsa isa, int threads);

  /// C = A * B. One run at a time.
  void run(const Product& operands) const;

 private:
  CsrView matrix_;
  HostIsa isa_;
  std::vector<RowRange> parts_;
  std::unique_ptr<ThreadPool> pool_;  ///< null for one thread
};

}  // namespace spjit
