#include "kernels/unrolled_host/shipped_models.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <span>

#include "base/embedded_file.hpp"
#include "base/gzip.hpp"
#include "base/hash.hpp"
#include "kernels/unrolled_host/host_features.hpp"
#include "kernels/unrolled_host/host_prior.hpp"
#include "kernels/unrolled_host/sample_reader.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// The files of rankmodel/models/, compressed. Defined by a source that the build generates.
extern const std::span<const EmbeddedFile> k_shipped_models;

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

std::shared_ptr<const LoadedRankModel> host_rank_model(const CompileOptions& options) {
  if (options.policy.rank_model.empty()) return shipped_host_model(options.target.isa());
  if (options.policy.rank_model == k_host_prior_name) return nullptr;
  const std::string text = read_text_file(options.policy.rank_model, k_longest_rank_model_bytes);
  try {
    return parse_host_model(text);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", options.policy.rank_model.string(), error.what()));
  }
}

}  // namespace spjit
