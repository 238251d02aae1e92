#include "compiler/code_cache.hpp"

#include <array>
#include <nlohmann/json.hpp>
#include <span>
#include <utility>

#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/kernel_record.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

using nlohmann::json;

std::shared_ptr<const SharedCode> read_code(const std::optional<LayeredCache>& cache,
                                            const std::string& key) {
  if (!cache) return nullptr;
  const CacheLookup found = cache->lookup(key);
  if (!found.entry || !is_code_record(found.entry->record.kernel)) return nullptr;
  try {
    const json& record = found.entry->record.kernel;
    const std::span<const std::byte> cubin = found.entry->file(k_cubin_file);
    SharedCode code;
    code.cubin.assign(reinterpret_cast<const char*>(cubin.data()), cubin.size());
    code.toolchain = record.at("toolchain").get<std::string>();
    code.compiled_from = record.at("compiled_from").get<std::string>();
    code.note = record.at("note").get<std::string>();
    return std::make_shared<const SharedCode>(std::move(code));
  } catch (const json::exception&) {
    return nullptr;
  } catch (const CacheError&) {
    return nullptr;
  }
}

void publish_code(const LayeredCache& cache, const std::string& key, const SharedCode& code,
                  const Cancellation& cancel) {
  const std::array files = {CacheFile{k_cubin_file, std::as_bytes(std::span(code.cubin))}};
  json record = code_record();
  record.update(
      {{"toolchain", code.toolchain}, {"compiled_from", code.compiled_from}, {"note", code.note}});
  try {
    cache.publish(key, files, record, cancel);
  } catch (const CacheError&) {
    // The kernel itself will not be published either, and says why.
  }
}

}  // namespace

std::shared_ptr<const SharedCode> CodeCache::known(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = codes_.find(key);
  return found == codes_.end() ? nullptr : found->second;
}

SharedCode CodeCache::find(const std::string& key, const std::function<SharedCode()>& make,
                           const std::optional<LayeredCache>& cache,
                           const CompileContext& context) {
  double build_ms = 0;  // of this caller
  const auto find_or_make = [&] {
    if (auto code = known(key)) return code;
    std::shared_ptr<const SharedCode> code = read_code(cache, key);
    if (code == nullptr) {
      SharedCode made = make();
      if (cache && cache->can_publish()) publish_code(*cache, key, made, context.cancel);
      build_ms = std::exchange(made.build_ms, 0);
      code = std::make_shared<const SharedCode>(std::move(made));
    }
    const std::lock_guard lock(mutex_);
    return codes_.emplace(key, std::move(code)).first->second;
  };
  SharedCode code =
      *flights_.run(key, context.cancel, find_or_make, [&] { context.stage("waiting"); });
  code.build_ms = build_ms;
  return code;
}

}  // namespace spjit
