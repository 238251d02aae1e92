#include "kernels/unrolled_host/shipped_models.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "base/gzip.hpp"
#include "base/hash.hpp"
#include "kernels/unrolled_host/host_features.hpp"
#include "kernels/unrolled_host/shipped_model_bytes.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

std::shared_ptr<const LoadedRankModel> load_shipped(std::string_view name) {
  for (const EmbeddedFile& shipped : k_shipped_models) {
    if (shipped.name != name) continue;
    return parse_host_model(gunzip(std::as_bytes(shipped.bytes),
                                   static_cast<std::int64_t>(k_longest_rank_model_bytes)));
  }
  return nullptr;
}

}  // namespace

std::shared_ptr<const LoadedRankModel> parse_host_model(std::string_view text) {
  LoadedRankModel result{read_rank_model(text), {}};
  const FeatureSchema& schema = host_feature_schema();
  check_schema(result.model, schema.name, schema.version, schema.names());
  result.id = fmt::format("{} {}", result.model.name,
                          checksum_hex(std::as_bytes(std::span(text.data(), text.size()))));
  return std::make_shared<const LoadedRankModel>(std::move(result));
}

std::shared_ptr<const LoadedRankModel> shipped_host_model(HostIsa isa) {
  static const std::shared_ptr<const LoadedRankModel> avx512 = load_shipped("host-avx512");
  static const std::shared_ptr<const LoadedRankModel> avx2 = load_shipped("host-avx2");
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

std::vector<std::string> shipped_model_names() {
  std::vector<std::string> names;
  for (const EmbeddedFile& shipped : k_shipped_models) names.emplace_back(shipped.name);
  return names;
}

}  // namespace spjit
