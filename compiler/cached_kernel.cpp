#include "compiler/cached_kernel.hpp"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "base/page_mapping.hpp"
#include "kernels/families.hpp"
#include "kernels/kernel_record.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

std::vector<Artifact::File> files_of(CacheEntry& entry) {
  std::vector<Artifact::File> files;
  for (auto& [name, file] : entry.files) {
    const auto owner = std::make_shared<const FileBytes>(std::move(file));
    files.push_back({name, owner->bytes(), owner});
  }
  return files;
}

/// Code for `code` serves a target: its instruction set, or its architecture on whatever card.
bool serves(const Target& code, const Target& target) {
  if (code.is_cuda() != target.is_cuda()) return false;
  return target.is_cuda() ? code.arch() == target.arch() : code.isa() == target.isa();
}

std::string mismatch(const KernelInfo& info, const Problem& problem, const Target& target) {
  if (serves(info.target, target) && info.n == problem.n.value) return {};
  return fmt::format("its code is for {} and n = {}, asked for were {} and n = {}",
                     info.target.name(), info.n, target.name(), problem.n.value);
}

}  // namespace

std::shared_ptr<Kernel::Impl> load_kernel(const KernelFamily& family,
                                          std::shared_ptr<const BuiltCode> code,
                                          nlohmann::json record, const Device& device,
                                          const Cancellation& cancel) {
  LoadedKernel loaded = code->load(record, device, cancel);
  return std::make_shared<Kernel::Impl>(family, std::move(loaded), std::move(code),
                                        std::move(record));
}

LoadedEntry load_entry(CacheEntry& entry, const Problem& problem, const Target& target,
                       const HostDevice& device, const Cancellation& cancel) {
  try {
    const KernelFamily& family = find_family(family_in(entry.record.kernel));
    auto code = std::make_shared<const BuiltFiles>(family, files_of(entry));
    auto kernel =
        load_kernel(family, std::move(code), std::move(entry.record.kernel), device, cancel);
    std::string wrong = mismatch(kernel->info, problem, target);
    if (!wrong.empty()) return {.problem = std::move(wrong)};
    kernel->info.cache_directory = entry.root.string();
    return {.kernel = std::move(kernel)};
  } catch (const Cancelled&) {
    throw;  // it was not the entry's fault
  } catch (const DeadlineExceeded&) {
    throw;
  } catch (const NoPages& error) {
    // It was not the entry's fault either.
    return {.note = fmt::format("cache: entry {} cannot be loaded: {}", entry.record.key,
                                error.what())};
  } catch (const nlohmann::json::exception& error) {
    return {.problem = error.what()};
  } catch (const Error& error) {
    return {.problem = error.what()};
  }
}

}  // namespace spjit
