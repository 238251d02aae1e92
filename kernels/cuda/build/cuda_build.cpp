#include "kernels/cuda/build/cuda_build.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <exception>
#include <thread>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/thread_pool.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

struct Object {
  LinkInput::Kind kind = LinkInput::Kind::cubin;
  std::string code;
  std::exception_ptr error;
};

void check(std::span<const SourceUnit> units, const CudaToolchain& toolchain, int arch) {
  if (units.empty()) {
    throw InvalidArgument("no source units to build: expected at least one");
  }
  const CudaToolchainNeeds needs = needs_of(units, arch);
  if (needs.nvrtc && !toolchain.nvrtc) {
    throw InvalidArgument("CUDA C++ units, but a toolchain without NVRTC; load it as needs_of()");
  }
  if (needs.nvjitlink && !toolchain.nvjitlink) {
    throw InvalidArgument(
        "units to link, but a toolchain without nvJitLink; load it as needs_of()");
  }
}

std::vector<std::string> register_options(const CudaBuildOptions& options, const char* option) {
  if (!options.max_registers) return {};
  return {option + std::to_string(*options.max_registers)};
}

/// Compiles the units of one build; thread-safe.
class UnitCompiler {
 public:
  UnitCompiler(std::span<const SourceUnit> units, const CudaToolchain& toolchain,
               const CudaBuildOptions& options)
      : toolchain_(&toolchain),
        options_(&options),
        linked_(units.size() > 1 || units.front().relocatable),
        assembles_units_(needs_assembler(units) &&
                         (!linked_ || toolchain.nvjitlink->makes_relocatable(options.arch))) {}

  /// Whether the units are code to be linked, rather than one that is a whole program.
  [[nodiscard]] bool linked() const noexcept { return linked_; }

  [[nodiscard]] Object compile(const SourceUnit& unit) const {
    Object object;
    if (unit.language == SourceLanguage::cuda) {
      const NvrtcOptions options{.arch = options_->arch,
                                 .relocatable = linked_,
                                 .more = register_options(*options_, "--maxrregcount="),
                                 .cancel = options_->cancel};
      object.code = toolchain_->nvrtc->compile(unit.name, unit.text, options).code;
    } else if (assembles_units_) {
      object.code = assemble(unit);
    } else {
      object.kind = LinkInput::Kind::ptx;
      object.code = unit.text;
    }
    return object;
  }

 private:
  static bool needs_assembler(std::span<const SourceUnit> units) {
    return std::ranges::any_of(
        units, [](const SourceUnit& unit) { return unit.language == SourceLanguage::ptx; });
  }

  [[nodiscard]] std::string assemble(const SourceUnit& unit) const {
    if (options_->cancel.reached()) {
      throw CompileCancelled(
          fmt::format("assembling '{}' was given up: its deadline had passed or it was told to "
                      "stop; allow more "
                      "time",
                      unit.name));
    }
    const LinkInput input{LinkInput::Kind::ptx, unit.name, unit.text};
    const NvJitLinkOptions options{.arch = options_->arch,
                                   .relocatable = linked_,
                                   .more = register_options(*options_, "-maxrregcount=")};
    return toolchain_->nvjitlink->link({&input, 1}, options).code;
  }

  const CudaToolchain* toolchain_;
  const CudaBuildOptions* options_;
  bool linked_;
  bool assembles_units_;
};

int threads_for(const CudaBuildOptions& options, std::size_t units) {
  const int wanted = options.threads > 0
                         ? options.threads
                         : std::max(1, static_cast<int>(std::thread::hardware_concurrency()));
  return static_cast<int>(std::min(static_cast<std::size_t>(wanted), units));
}

// Units after one that failed need not be tried, those before it must: which one is reported then
// does not depend on the threads.
std::vector<Object> compile_all(std::span<const SourceUnit> units, const UnitCompiler& compiler,
                                const CudaBuildOptions& options) {
  std::vector<Object> objects(units.size());
  const int count = checked_cast<int>(std::ssize(units), "units of a program");
  std::atomic<int> first_failed = count;
  WorkerPool pool(threads_for(options, units.size()), std::chrono::nanoseconds(0));
  pool.run(count, [&](int task, int /*worker*/) {
    if (task > first_failed.load()) return;
    Object& object = objects[static_cast<std::size_t>(task)];
    try {
      object = compiler.compile(units[static_cast<std::size_t>(task)]);
    } catch (...) {
      object.error = std::current_exception();
      int seen = first_failed.load();
      while (task < seen && !first_failed.compare_exchange_weak(seen, task)) {
      }
    }
  });
  for (const Object& object : objects) {
    if (object.error) std::rethrow_exception(object.error);
  }
  return objects;
}

std::string link_all(std::span<const SourceUnit> units, const std::vector<Object>& objects,
                     const CudaToolchain& toolchain, const CudaBuildOptions& options) {
  if (options.cancel.reached()) {
    throw CompileCancelled(fmt::format(
        "linking {} units was given up: the deadline had passed or it was told to stop; allow more "
        "time",
        units.size()));
  }
  std::vector<LinkInput> inputs;
  inputs.reserve(units.size());
  for (std::size_t i = 0; i < units.size(); ++i) {
    inputs.push_back({objects[i].kind, units[i].name, objects[i].code});
  }
  // Registers are for PTX that the link assembles.
  const NvJitLinkOptions link_options{.arch = options.arch,
                                      .relocatable = false,
                                      .more = register_options(options, "-maxrregcount=")};
  return toolchain.nvjitlink->link(inputs, link_options).code;
}

}  // namespace

CudaToolchainNeeds needs_of(std::span<const SourceUnit> units, int arch) {
  CudaToolchainNeeds needs{.arch = arch, .nvrtc = false, .nvjitlink = units.size() > 1};
  for (const SourceUnit& unit : units) {
    if (unit.language == SourceLanguage::cuda) needs.nvrtc = true;
    if (unit.language == SourceLanguage::ptx || unit.relocatable) needs.nvjitlink = true;
  }
  return needs;
}

std::string to_string(const CudaToolchain& toolchain) {
  std::string text;
  if (toolchain.nvrtc) text = "NVRTC " + to_string(toolchain.nvrtc->version());
  if (toolchain.nvjitlink) {
    text +=
        (text.empty() ? "nvJitLink " : " + nvJitLink ") + to_string(toolchain.nvjitlink->version());
  }
  return text;
}

CudaToolchain nvrtc_alone(int arch, const FoundCudaLibraries& found) {
  try {
    return load_cuda_toolchain({.arch = arch, .nvrtc = true, .nvjitlink = false}, found);
  } catch (const NotSupported&) {
    return {};
  }
}

Cancellation limited(Cancellation cancel, double limit_ms) {
  using Clock = std::chrono::steady_clock;
  if (limit_ms <= 0) return cancel;
  const auto limit = Clock::now() + std::chrono::duration_cast<Clock::duration>(
                                        std::chrono::duration<double, std::milli>(limit_ms));
  cancel.deadline = std::min(cancel.deadline.value_or(limit), limit);
  return cancel;
}

std::string build_cubin(std::span<const SourceUnit> units, const CudaToolchain& toolchain,
                        const CudaBuildOptions& options) {
  check(units, toolchain, options.arch);
  const UnitCompiler compiler(units, toolchain, options);
  std::vector<Object> objects = compile_all(units, compiler, options);
  if (compiler.linked()) return link_all(units, objects, toolchain, options);
  return std::move(objects.front().code);
}

}  // namespace spjit
