#include "kernels/tuning/rank_models.hpp"

#include <fmt/format.h>

#include <cstdint>
#include <span>
#include <string>
#include <utility>

#include "base/embedded_file.hpp"
#include "base/gzip.hpp"
#include "base/hash.hpp"
#include "kernels/tuning/sample_reader.hpp"
#include "rankmodel/rank_model.hpp"
#include "spjit/error.hpp"

namespace spjit {

/// The files of rankmodel/models/, compressed. Defined by a source that the build generates.
extern const std::span<const EmbeddedFile> k_shipped_models;

std::shared_ptr<const LoadedRankModel> load_shipped_model(std::string_view name,
                                                          const FeatureSchema& schema) {
  for (const EmbeddedFile& shipped : k_shipped_models) {
    if (shipped.name != name) continue;
    return parse_model(
        gunzip(std::as_bytes(shipped.bytes), static_cast<std::int64_t>(k_longest_rank_model_bytes)),
        schema);
  }
  return nullptr;
}

std::shared_ptr<const LoadedRankModel> parse_model(std::string_view text,
                                                   const FeatureSchema& schema) {
  LoadedRankModel result{read_rank_model(text), {}};
  check_schema(result.model, schema.name, schema.version, schema.names());
  result.id = fmt::format("{} {}", result.model.name,
                          checksum_hex(std::as_bytes(std::span(text.data(), text.size()))));
  return std::make_shared<const LoadedRankModel>(std::move(result));
}

std::shared_ptr<const LoadedRankModel> find_rank_model(
    const std::filesystem::path& named, const FeatureSchema& schema,
    const std::shared_ptr<const LoadedRankModel>& shipped) {
  if (named.empty()) return shipped;
  if (named == k_prior_name) return nullptr;
  const std::string text = read_text_file(named, k_longest_rank_model_bytes);
  try {
    return parse_model(text, schema);
  } catch (const Error& error) {
    throw Error(fmt::format("{}: {}", named.string(), error.what()));
  }
}

}  // namespace spjit
