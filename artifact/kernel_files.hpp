#pragma once

/// @file
/// From the files of a kernel to the kernel.

#include <memory>
#include <nlohmann/json_fwd.hpp>

#include "artifact/kernel_impl.hpp"
#include "base/cancel.hpp"
#include "base/thread_pool.hpp"
#include "runtime/cache/cache_entry.hpp"
#include "spjit/parallel_for.hpp"

namespace spjit {

/// Where a kernel that no Compiler made has its runs.
struct RunThreads {
  int threads = 1;                ///< 0: all CPUs that this process may use
  ParallelFor parallel_for = {};  ///< empty: in threads of the kernel's own
};

/// Null for one thread. Throws InvalidArgument for threads outside 0 .. k_most_threads.
[[nodiscard]] std::shared_ptr<ThreadPool> thread_pool_of(RunThreads threads);

/// The files of a kernel as its family takes them: code that is mapped runs where it is. Throws
/// Error if a mapped file holds no kernel.
[[nodiscard]] std::shared_ptr<const BuiltCode> code_of_files(const KernelFamily& family,
                                                             KernelFiles files);

/// The kernel of built code and its record, for the host or for a GPU and in none. Throws as
/// KernelFamily::load().
[[nodiscard]] std::shared_ptr<Kernel::Impl> load_kernel(const KernelFamily& family,
                                                        std::shared_ptr<const BuiltCode> code,
                                                        nlohmann::json record, const Device& device,
                                                        const Cancellation& cancel);

/// All of it: files that were read and verified, with their record. Throws what the others do, and
/// Error for a record that names no family.
[[nodiscard]] std::shared_ptr<Kernel::Impl> load_kernel_files(KernelFiles files,
                                                              nlohmann::json record,
                                                              const Device& device,
                                                              const Cancellation& cancel = {});

}  // namespace spjit
