#include "tools/peers/csr_peer.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

namespace spjit {

CsrPeer::CsrPeer(const CsrMatrix& matrix, HostIsa isa, int threads)
    : matrix_(view_of(matrix)), isa_(isa) {
  if (!Target(isa).runs_here()) {
    throw NotSupported(
        fmt::format("the CSR peer for {} cannot run: this CPU does not have it", to_string(isa)));
  }
  if (threads < 1) {
    throw InvalidArgument(fmt::format("{} threads for the CSR peer; expected 1 or more", threads));
  }
  parts_ = split_rows(matrix_, threads);
  if (threads > 1) pool_ = std::make_unique<WorkerPool>(threads);
}

void CsrPeer::run(const Product& operands) const {
  const auto run_part = [&](int part, int /*worker*/) {
    run_csr(matrix_, isa_, parts_[static_cast<std::size_t>(part)], operands);
  };
  const auto parts = static_cast<int>(parts_.size());
  if (pool_ != nullptr) {
    pool_->run(parts, run_part);
    return;
  }
  for (int part = 0; part < parts; ++part) run_part(part, 0);
}

}  // namespace spjit
