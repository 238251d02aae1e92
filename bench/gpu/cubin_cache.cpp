#include "bench/gpu/cubin_cache.hpp"

#include <fmt/format.h>

#include <array>
#include <span>
#include <utility>

#include "kernels/cuda/launch/cuda_program.hpp"
#include "kernels/kernel_record.hpp"
#include "runtime/cuda/local_gpus.hpp"
#include "spjit/error.hpp"
#include "spjit/version.hpp"

namespace spjit::bench {

CubinCache::CubinCache(const std::filesystem::path& folder, const std::string& target)
    : folder_(folder),
      target_(Target::parse(target)),
      card_(cuda_device_info_of(target_)),
      store_(folder, SPJIT_VERSION, {}) {}

void CubinCache::require(const CudaDeviceInfo& device) const {
  if (card_.arch == device.arch && card_.sms == device.sms) return;
  throw InvalidArgument(
      fmt::format("tiles are chosen for {}, which has {} SMs; the device {} is sm_{} with {}; "
                  "expected --target of its card",
                  card_.name(), card_.sms, device.product, device.arch, device.sms));
}

Kernel CubinCache::kernel(const Problem& problem, CompileOptions options) {
  options.target = target_;
  CacheOptions cache;
  cache.directory = folder_;
  cache.size_limit_bytes = 0;
  Kernel kernel = Compiler(options, cache).compile(problem);
  const KernelInfo& info = kernel.info();
  if (!info.not_cached.empty()) throw CacheError(info.not_cached);
  count(info.from_cache);
  return kernel;
}

StoredCubin CubinCache::cubin(const std::string& key, const std::function<StoredCubin()>& make) {
  const CacheLookup lookup = store_.lookup(key);
  if (lookup.entry && is_code_record(lookup.entry->record.kernel)) {
    const std::span<const std::byte> bytes = lookup.entry->file(k_cubin_file);
    count(true);
    return {{reinterpret_cast<const char*>(bytes.data()), bytes.size()},
            lookup.entry->record.kernel.at("more")};
  }
  StoredCubin made = make();
  nlohmann::json record = code_record();
  record["more"] = made.more;
  const std::array files = {
      CacheFile{std::string(k_cubin_file), std::as_bytes(std::span(made.cubin))}};
  store_.publish(key, files, record);
  count(false);
  return made;
}

void CubinCache::count(bool was_there) {
  const std::lock_guard lock(mutex_);
  ++(was_there ? counts_.found : counts_.compiled);
}

CubinCounts CubinCache::counts() const {
  const std::lock_guard lock(mutex_);
  return counts_;
}

std::string to_string(const CubinCounts& counts) {
  return fmt::format("{} cubins found in the folder, {} compiled", counts.found, counts.compiled);
}

}  // namespace spjit::bench
