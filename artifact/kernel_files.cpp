#include "artifact/kernel_files.hpp"

#include <fmt/format.h>

#include <utility>
#include <vector>

#include "artifact/families.hpp"
#include "base/host_cpu.hpp"
#include "kernels/host/object/host_family.hpp"
#include "matrix/limits.hpp"
#include "spjit/error.hpp"

namespace spjit {

std::shared_ptr<ThreadPool> thread_pool_of(RunThreads threads) {
  if (threads.threads < 0 || threads.threads > k_most_threads) {
    throw InvalidArgument(
        fmt::format("threads is {}; expected 0 (all) to {}", threads.threads, k_most_threads));
  }
  return make_thread_pool(threads.threads == 0 ? usable_cpus() : threads.threads,
                          std::move(threads.parallel_for));
}

std::shared_ptr<const BuiltCode> code_of_files(const KernelFamily& family, KernelFiles files) {
  const auto* host = dynamic_cast<const HostFamily*>(&family);
  const auto object = files.find(k_object_file);
  if (host != nullptr && object != files.end() && object->second.is_mapped()) {
    return std::make_shared<const MappedImage>(*host, std::move(object->second));
  }
  std::vector<Artifact::File> all;
  for (auto& [name, file] : files) {
    const auto owner = std::make_shared<const FileBytes>(std::move(file));
    all.push_back({name, owner->bytes(), owner});
  }
  return std::make_shared<const BuiltFiles>(family, std::move(all));
}

std::shared_ptr<Kernel::Impl> load_kernel(const KernelFamily& family,
                                          std::shared_ptr<const BuiltCode> code,
                                          nlohmann::json record, const Device& device,
                                          const Cancellation& cancel) {
  LoadedKernel loaded = code->load(record, device, cancel);
  return std::make_shared<Kernel::Impl>(family, std::move(loaded), std::move(code),
                                        std::move(record));
}

std::shared_ptr<Kernel::Impl> load_kernel_files(KernelFiles files, nlohmann::json record,
                                                const Device& device, const Cancellation& cancel) {
  const KernelFamily& family = family_of(record);
  std::shared_ptr<const BuiltCode> code = code_of_files(family, std::move(files));
  return load_kernel(family, std::move(code), std::move(record), device, cancel);
}

}  // namespace spjit
