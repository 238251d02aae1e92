#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "emulated_driver/capture.hpp"
#include "emulated_driver/cuda_abi.hpp"
#include "emulated_driver/machine.hpp"
#include "emulated_driver/memory.hpp"
#include "emulated_driver/program.hpp"
#include "emulated_driver/sass/sass_machine.hpp"

namespace spjit::emulated {

/// Capacities of a device of a compute capability; CUDA C++ Programming Guide, "Technical
/// Specifications per Compute Capability". The number of SMs and the L2 are those of `card`.
struct Architecture {
  int arch;  ///< 75 for sm_75
  const char* card;
  int multiprocessors;
  int threads_per_sm;
  int blocks_per_sm;
  int shared_per_sm_bytes;
  int shared_per_block_optin_bytes;
  int shared_reserved_bytes;
  int l2_bytes;
};

/// The architecture `arch`, or null.
[[nodiscard]] const Architecture* find_architecture(int arch);

struct Context;

/// One device with its primary context.
struct Device {
  Device(const Architecture& description, std::size_t ordinal);

  const Architecture& architecture;
  GlobalMemory memory;
  std::unique_ptr<Context> context;
  int retained = 0;
};

struct Module;

/// A parameter's bytes among those of all.
struct KernelParameter {
  std::size_t offset = 0;
  std::size_t size_bytes = 0;
};

/// A kernel of a module, what CUfunction and CUkernel point to.
struct Kernel {
  Module* module = nullptr;
  /// One of the two: PTX, or machine code.
  std::variant<const Function*, const SassKernel*> entry;
  std::string name;
  std::vector<KernelParameter> parameters;
  std::size_t parameter_bytes = 0;
  int max_threads = 0;   ///< a block; 0: what the device allows
  int shared_bytes = 0;  ///< static
  int local_bytes = 0;
  int constant_bytes = 0;
  int registers = 0;
  int ptx_version = 0;               ///< 78 for 7.8; of a cubin its architecture
  int max_dynamic_shared_bytes = 0;  ///< beyond which a launch fails
};

struct Module {
  Device* device = nullptr;
  std::variant<Program, SassProgram> code;
  std::map<std::string, std::unique_ptr<Kernel>, std::less<>> kernels;
};

/// Memory that a module names.
struct NamedMemory {
  Address address = 0;
  std::uint64_t size = 0;
};
/// The variable of a module called `name`, or nothing.
[[nodiscard]] std::optional<NamedMemory> find_variable(const Module& module, std::string_view name);

struct Event {
  std::chrono::steady_clock::time_point recorded;
  bool is_recorded = false;
  bool is_captured = false;  ///< recorded last on a stream that was being captured
};

/// The state that a primary context owns. After a fault every call on it gives the fault's code
/// until it is reset, as with the real driver.
struct Context {
  explicit Context(Device& owner) : device(owner) {}

  Device& device;
  Result fault = Result::success;
  std::map<const void*, std::unique_ptr<Module>> modules;
  std::map<const void*, std::unique_ptr<Event>> events;
  std::map<const void*, std::unique_ptr<Stream>> streams;
  std::map<const void*, std::unique_ptr<Graph>> graphs;
};

/// The driver of one process. Its functions are called with `mutex` held.
class Driver {
 public:
  /// The process's driver. A library behind a C interface has no other place for its state.
  static Driver& instance();

  std::mutex mutex;

  /// Reads SPJIT_EMULATED_CUDA_ARCH (default 90; "90,75": one for each device, then again from the
  /// first) and SPJIT_EMULATED_CUDA_DEVICES (default: as many as there are architectures).
  Result initialize();
  [[nodiscard]] bool is_initialized() const noexcept { return initialized_; }
  [[nodiscard]] std::size_t device_count() const noexcept { return devices_.size(); }
  /// Null if there is no such device.
  [[nodiscard]] Device* device(int ordinal);
  /// The context that `handle` is, or null.
  [[nodiscard]] Context* context(const void* handle);

  /// The calling thread's context, or null.
  [[nodiscard]] Context* current();
  static void set_current(void* handle);
  static void* current_handle();

  Result load(const void* image, Module*& loaded);
  /// The kernel called `name`, or null.
  static Kernel* kernel(Module& module, std::string_view name);
  [[nodiscard]] Kernel* find_kernel(const void* handle);
  [[nodiscard]] Module* find_module(const void* handle);
  /// The error that refuses a launch before it runs.
  Result check_launch(const Kernel& kernel, const LaunchShape& shape);
  /// Runs what `check_launch` allows.
  Result launch(const Kernel& kernel, const LaunchShape& shape,
                const std::vector<std::uint8_t>& parameters);

  /// Writes one line to stderr and keeps it.
  void log(const std::string& message);
  [[nodiscard]] const std::string& last_message() const noexcept { return last_message_; }
  [[nodiscard]] std::uint64_t instructions() const noexcept { return instructions_; }
  /// Who is told every instruction of launches of machine code, or null.
  void observe(LaunchObserver* observer) noexcept { observer_ = observer; }

 private:
  bool initialized_ = false;
  std::vector<std::unique_ptr<Device>> devices_;
  std::string last_message_;
  std::uint64_t instructions_ = 0;
  LaunchObserver* observer_ = nullptr;
};

/// Runs `call(Driver&)` with the lock held; exceptions do not leave a C function.
template <typename Call>
int with_driver(Call&& call) {
  Driver& driver = Driver::instance();
  const std::lock_guard lock(driver.mutex);
  if (!driver.is_initialized()) {
    return static_cast<int>(Result::not_initialized);
  }
  try {
    return static_cast<int>(call(driver));
  } catch (const std::exception& error) {
    driver.log(error.what());
    return static_cast<int>(Result::launch_failed);
  }
}

/// As with_driver(), for calls that need a context without a fault: `call(Driver&, Context&)`.
template <typename Call>
int with_context(Call&& call) {
  return with_driver([&](Driver& driver) {
    Context* context = driver.current();
    if (context == nullptr) {
      return Result::invalid_context;
    }
    return context->fault != Result::success ? context->fault : call(driver, *context);
  });
}

/// As with_context(), for calls that captures forbid (unsafe_call()).
template <typename Call>
int with_uncaptured(Call&& call) {
  return with_context([&](Driver& driver, Context& context) {
    const Result result = unsafe_call(context);
    return result == Result::success ? call(driver, context) : result;
  });
}

}  // namespace spjit::emulated
