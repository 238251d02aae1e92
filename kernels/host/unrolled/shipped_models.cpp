#include "kernels/host/unrolled/shipped_models.hpp"

#include "kernels/host/unrolled/host_features.hpp"
#include "kernels/tuning/rank_models.hpp"
#include "rankmodel/rank_model.hpp"

namespace spjit {

std::shared_ptr<const LoadedRankModel> shipped_host_model(HostIsa isa) {
  static const std::shared_ptr<const LoadedRankModel> avx512 =
      load_shipped_model("host-avx512", host_feature_schema());
  static const std::shared_ptr<const LoadedRankModel> avx2 =
      load_shipped_model("host-avx2", host_feature_schema());
  switch (isa) {
    case HostIsa::avx512:
      return avx512;
    case HostIsa::avx2:
      return avx2;
    case HostIsa::generic:
      return nullptr;
  }
  return nullptr;
}

std::shared_ptr<const LoadedRankModel> host_rank_model(const CompileOptions& options) {
  return find_rank_model(options.policy.rank_model, host_feature_schema(),
                         shipped_host_model(options.target.isa()));
}

}  // namespace spjit
