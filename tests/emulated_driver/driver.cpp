#include "emulated_driver/driver.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <span>
#include <sstream>

#include "emulated_driver/program_error.hpp"

namespace spjit::emulated {

namespace {

// Far more than a test may touch: only what is written takes memory.
constexpr std::uint64_t k_memory_bytes = std::uint64_t{80} << 30;
// Between the first addresses of two devices: addresses are never used twice.
constexpr std::uint64_t k_device_address_bytes = std::uint64_t{1} << 44;
constexpr std::uint32_t k_max_threads = 1024;
constexpr std::uint32_t k_max_block_z = 64;
constexpr std::uint32_t k_max_grid_yz = 65535;

constexpr Architecture k_architectures[] = {
    {70, "V100", 80, 2048, 32, 98304, 98304, 0, 6 << 20},
    {75, "T4", 40, 1024, 16, 65536, 65536, 0, 4 << 20},
    {80, "A100", 108, 2048, 32, 167936, 166912, 1024, 40 << 20},
    {86, "RTX 3090", 82, 1536, 16, 102400, 101376, 1024, 6 << 20},
    {89, "RTX 4090", 128, 1536, 24, 102400, 101376, 1024, 72 << 20},
    {90, "H100", 132, 2048, 32, 233472, 232448, 1024, 50 << 20},
    {100, "B200", 148, 2048, 32, 233472, 232448, 1024, 126 << 20},
    {120, "RTX 5090", 170, 1536, 24, 102400, 101376, 1024, 96 << 20},
};

std::string environment_text(const char* name, const char* otherwise) {
  const char* text = std::getenv(name);
  return text == nullptr ? otherwise : text;
}

/// "90" or "90,75,80": an architecture for each device; nothing if one is not known.
std::vector<const Architecture*> parse_architectures(const std::string& text) {
  std::vector<const Architecture*> found;
  std::istringstream list(text);
  for (std::string arch; std::getline(list, arch, ',');) {
    found.push_back(find_architecture(static_cast<int>(std::strtol(arch.c_str(), nullptr, 10))));
    if (found.back() == nullptr) return {};
  }
  return found;
}

void*& current_slot() {
  thread_local void* current = nullptr;
  return current;
}

Result result_of(FaultKind kind) {
  switch (kind) {
    case FaultKind::invalid_ptx:
    case FaultKind::unresolved_symbol:
      return Result::invalid_ptx;
    case FaultKind::invalid_cubin:
      return Result::invalid_image;
    case FaultKind::other_architecture:
      return Result::no_binary_for_gpu;
    case FaultKind::illegal_address:
      return Result::illegal_address;
    case FaultKind::misaligned_address:
      return Result::misaligned_address;
    case FaultKind::hazard:
    case FaultKind::trap:
      return Result::illegal_instruction;
    case FaultKind::launch_out_of_range:
      return Result::invalid_value;
    case FaultKind::timeout:
      return Result::launch_timeout;
    case FaultKind::uninitialized_read:
    case FaultKind::illegal_barrier:
      return Result::launch_failed;
  }
  return Result::launch_failed;
}

constexpr unsigned char k_elf[] = {0x7f, 'E', 'L', 'F'};
constexpr unsigned char k_fat[] = {0x50, 0xed, 0x55, 0xba};

bool begins_with(const void* image, const unsigned char (&magic)[4]) {
  return std::memcmp(image, magic, sizeof magic) == 0;
}

/// The bytes of an ELF file: the driver is told where it begins, and its header where it ends.
std::span<const std::byte> elf_bytes(const void* image) {
  const auto* bytes = static_cast<const std::byte*>(image);
  if (bytes[EI_CLASS] != std::byte{ELFCLASS64} || bytes[EI_DATA] != std::byte{ELFDATA2LSB}) {
    throw ProgramError(FaultKind::invalid_cubin, "an ELF file that is no cubin");
  }
  Elf64_Ehdr header;
  std::memcpy(&header, bytes, sizeof header);
  const std::uint64_t sections =
      header.e_shoff + std::uint64_t{header.e_shnum} * header.e_shentsize;
  const std::uint64_t segments =
      header.e_phoff + std::uint64_t{header.e_phnum} * header.e_phentsize;
  return {bytes, std::max(sections, segments)};
}

// PTX has no register allocation: the declared registers, up to what a thread can have.
int registers_of(const Function& entry) {
  return static_cast<int>(std::clamp(entry.register_count - special_slots, 16U, 255U));
}

Kernel kernel_of(const Function& function, const Program& program) {
  Kernel kernel;
  kernel.entry = &function;
  kernel.name = function.name;
  for (const Parameter& parameter : function.parameters) {
    kernel.parameters.push_back({parameter.location, parameter.size_bytes});
  }
  kernel.parameter_bytes = function.parameter_bytes;
  kernel.max_threads =
      static_cast<int>(function.max_block[0] * function.max_block[1] * function.max_block[2]);
  kernel.shared_bytes = static_cast<int>(function.shared_bytes);
  kernel.local_bytes = static_cast<int>(function.local_bytes);
  kernel.registers = registers_of(function);
  kernel.ptx_version = program.version;
  return kernel;
}

// Sizes of a cubin are 32 bits in the file.
Kernel kernel_of(const SassKernel& from, const SassProgram& program) {
  const CubinKernel& info = from.info;
  Kernel kernel;
  kernel.entry = &from;
  kernel.name = info.name;
  for (const CubinParameter& parameter : info.parameters) {
    kernel.parameters.push_back(
        {static_cast<std::size_t>(parameter.offset), static_cast<std::size_t>(parameter.size)});
  }
  kernel.parameter_bytes = static_cast<std::size_t>(info.parameter_bytes);
  kernel.max_threads = static_cast<int>(info.max_threads);
  kernel.shared_bytes = static_cast<int>(info.static_shared_bytes);
  kernel.local_bytes = static_cast<int>(info.stack_bytes);
  kernel.constant_bytes = static_cast<int>(info.constant_bytes);
  kernel.registers = static_cast<int>(info.registers);
  kernel.ptx_version = program.arch;
  return kernel;
}

void add_kernel(Module& module, Kernel kernel) {
  constexpr int default_shared_bytes = 48 * 1024;
  kernel.module = &module;
  kernel.max_dynamic_shared_bytes = std::max(0, default_shared_bytes - kernel.shared_bytes);
  const std::string name = kernel.name;
  module.kernels.emplace(name, std::make_unique<Kernel>(std::move(kernel)));
}

void load_ptx(const char* text, Module& module) {
  Device& device = *module.device;
  Program program = parse_program(text, device.memory);
  if (program.target > device.architecture.arch) {
    throw ProgramError(FaultKind::invalid_ptx,
                       fmt::format("PTX for sm_{}, but the device is sm_{}", program.target,
                                   device.architecture.arch));
  }
  module.code = std::move(program);
  const auto& loaded = std::get<Program>(module.code);
  for (const Function& function : loaded.functions) {
    if (function.is_entry) add_kernel(module, kernel_of(function, loaded));
  }
}

void load_machine_code(const void* image, Module& module) {
  Device& device = *module.device;
  module.code = load_cubin(elf_bytes(image), device.architecture.arch, device.memory);
  const auto& loaded = std::get<SassProgram>(module.code);
  for (const SassKernel& kernel : loaded.kernels) add_kernel(module, kernel_of(kernel, loaded));
}

bool is_launchable(const LaunchShape& shape) {
  const auto& [bx, by, bz] = shape.block;
  const auto& [gx, gy, gz] = shape.grid;
  const bool some = bx > 0 && by > 0 && bz > 0 && gx > 0 && gy > 0 && gz > 0;
  return some && bx <= k_max_threads && by <= k_max_threads && bz <= k_max_block_z &&
         std::uint64_t{bx} * by * bz <= k_max_threads && gx <= 0x7fffffffU && gy <= k_max_grid_yz &&
         gz <= k_max_grid_yz;
}

}  // namespace

const Architecture* find_architecture(int arch) {
  const auto* found = std::find_if(std::begin(k_architectures), std::end(k_architectures),
                                   [&](const Architecture& one) { return one.arch == arch; });
  return found == std::end(k_architectures) ? nullptr : found;
}

Device::Device(const Architecture& description, std::size_t ordinal)
    : architecture(description),
      memory(k_memory_bytes, k_device_base + ordinal * k_device_address_bytes) {}

Driver& Driver::instance() {
  static Driver driver;
  return driver;
}

Result Driver::initialize() {
  if (initialized_) {
    return Result::success;
  }
  const std::string archs = environment_text("SPJIT_EMULATED_CUDA_ARCH", "90");
  const std::vector<const Architecture*> architectures = parse_architectures(archs);
  const std::string devices = environment_text("SPJIT_EMULATED_CUDA_DEVICES", "");
  const std::size_t count =
      devices.empty() ? architectures.size() : std::strtoul(devices.c_str(), nullptr, 10);
  if (architectures.empty() || count > 16) {
    log(
        fmt::format("SPJIT_EMULATED_CUDA_ARCH={}, SPJIT_EMULATED_CUDA_DEVICES={}; expected 70, 75, "
                    "80, 86, 89, 90, 100 or 120, or several with commas, and 0 to 16",
                    archs, devices));
    return Result::no_device;
  }
  if (count == 0) {
    return Result::no_device;
  }
  for (std::size_t i = 0; i < count; ++i) {
    devices_.push_back(std::make_unique<Device>(*architectures[i % architectures.size()], i));
  }
  initialized_ = true;
  return Result::success;
}

Device* Driver::device(int ordinal) {
  const auto index = static_cast<std::size_t>(ordinal);
  return ordinal >= 0 && index < devices_.size() ? devices_[index].get() : nullptr;
}

Context* Driver::context(const void* handle) {
  for (const auto& device : devices_) {
    if (handle != nullptr && device->context.get() == handle) {
      return device->context.get();
    }
  }
  return nullptr;
}

Context* Driver::current() { return context(current_slot()); }

void Driver::set_current(void* handle) { current_slot() = handle; }

void* Driver::current_handle() { return current_slot(); }

Result Driver::load(const void* image, Module*& loaded) {
  Context* context = current();
  if (image == nullptr || context == nullptr) {
    return image == nullptr ? Result::invalid_value : Result::invalid_context;
  }
  auto module = std::make_unique<Module>();
  module->device = &context->device;
  try {
    if (begins_with(image, k_fat)) {
      throw ProgramError(FaultKind::other_architecture, "a fat binary is not taken apart here");
    }
    if (begins_with(image, k_elf)) {
      load_machine_code(image, *module);
    } else {
      load_ptx(static_cast<const char*>(image), *module);
    }
  } catch (const ProgramError& error) {
    log(error.what());
    return result_of(error.kind());
  }
  loaded = module.get();
  context->modules.emplace(loaded, std::move(module));
  return Result::success;
}

Kernel* Driver::kernel(Module& module, std::string_view name) {
  const auto found = module.kernels.find(name);
  return found == module.kernels.end() ? nullptr : found->second.get();
}

std::optional<NamedMemory> find_variable(const Module& module, std::string_view name) {
  if (const auto* program = std::get_if<Program>(&module.code)) {
    for (const Variable& variable : program->variables) {
      if (variable.name == name) {
        return NamedMemory{variable.storage->address, variable.storage->contents.size()};
      }
    }
    return std::nullopt;
  }
  for (const SassVariable& variable : std::get<SassProgram>(module.code).variables) {
    if (variable.name == name) return NamedMemory{variable.address, variable.size};
  }
  return std::nullopt;
}

Module* Driver::find_module(const void* handle) {
  for (const auto& device : devices_) {
    if (device->context == nullptr) {
      continue;
    }
    const auto found = device->context->modules.find(handle);
    if (found != device->context->modules.end()) {
      return found->second.get();
    }
  }
  return nullptr;
}

Kernel* Driver::find_kernel(const void* handle) {
  for (const auto& device : devices_) {
    if (device->context == nullptr) {
      continue;
    }
    for (const auto& [key, module] : device->context->modules) {
      for (const auto& [name, kernel] : module->kernels) {
        if (kernel.get() == handle) {
          return kernel.get();
        }
      }
    }
  }
  return nullptr;
}

Result Driver::check_launch(const Kernel& kernel, const LaunchShape& shape) {
  if (!is_launchable(shape) ||
      shape.dynamic_shared_bytes > static_cast<std::uint32_t>(kernel.max_dynamic_shared_bytes)) {
    log(fmt::format(
        "{}: grid {} x {} x {}, block {} x {} x {}, {} bytes of dynamic shared memory: "
        "beyond what the device or the function's attribute ({} bytes) allows",
        kernel.name, shape.grid[0], shape.grid[1], shape.grid[2], shape.block[0], shape.block[1],
        shape.block[2], shape.dynamic_shared_bytes, kernel.max_dynamic_shared_bytes));
    return Result::invalid_value;
  }
  return Result::success;
}

Result Driver::launch(const Kernel& kernel, const LaunchShape& shape,
                      const std::vector<std::uint8_t>& parameters) {
  Module& module = *kernel.module;
  GlobalMemory& memory = module.device->memory;
  try {
    if (const auto* program = std::get_if<Program>(&module.code)) {
      const Function& entry = *std::get<const Function*>(kernel.entry);
      instructions_ += run_grid(*program, entry, shape, parameters, memory).instructions;
    } else {
      instructions_ +=
          run_sass(std::get<SassProgram>(module.code), *std::get<const SassKernel*>(kernel.entry),
                   {.shape = shape, .parameters = parameters, .observer = observer_}, memory)
              .instructions;
    }
  } catch (const ProgramError& error) {
    log(error.what());
    if (error.kind() == FaultKind::launch_out_of_range) {
      return Result::invalid_value;
    }
    // A launch is asynchronous: what goes wrong while it runs is seen by later calls.
    module.device->context->fault = result_of(error.kind());
  }
  return Result::success;
}

void Driver::log(const std::string& message) {
  last_message_ = message;
  std::fprintf(stderr, "emulated CUDA driver: %s\n", message.c_str());
}

}  // namespace spjit::emulated
