#include "runtime/cuda/cubin_info.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <set>

#include "base/printable.hpp"
#include "runtime/cuda/cubin_file.hpp"

namespace spjit {
namespace {

// The numbers of .nv.info are the ones `cuobjdump -elf` prints by name.
constexpr std::uint32_t k_type_info = SHT_LOPROC;
constexpr std::uint8_t k_max_threads = 0x05;
constexpr std::uint8_t k_required_threads = 0x10;
constexpr std::uint8_t k_parameter_bank = 0x0a;
constexpr std::uint8_t k_parameter = 0x17;
constexpr std::uint8_t k_frame_size = 0x11;
constexpr std::uint8_t k_min_stack_size = 0x12;
constexpr std::uint8_t k_parameter_bytes = 0x19;
constexpr std::uint8_t k_register_count = 0x2f;
// Hopper and newer lay a kernel's static shared memory out behind the driver's 1 KiB.
constexpr std::int64_t k_first_arch_with_reserve_in_section = 90;
constexpr std::uint64_t k_reserved_shared_bytes = 1024;

/// What .nv.info says of one function.
struct FunctionResources {
  std::optional<std::int64_t> registers;
  std::int64_t frame_bytes = 0;
  std::optional<std::int64_t> min_stack_bytes;
};

/// By symbol index.
std::map<std::uint32_t, FunctionResources> read_resources(const CubinFile& file) {
  const std::size_t symbols = file.symbols().size();
  std::map<std::uint32_t, FunctionResources> resources;
  for (const CubinSection& section : file.sections()) {
    if (section.type != k_type_info || section.name != ".nv.info") continue;
    for (const CubinAttribute& attribute : read_cubin_attributes(section)) {
      if (attribute.code != k_register_count && attribute.code != k_frame_size &&
          attribute.code != k_min_stack_size) {
        continue;
      }
      const std::uint32_t symbol = attribute.word(0);
      const std::int64_t value = attribute.word(1);
      if (symbol >= symbols)
        refuse_cubin(fmt::format(".nv.info names symbol {} of {}", symbol, symbols));
      FunctionResources& function = resources[symbol];
      if (attribute.code == k_register_count) function.registers = value;
      if (attribute.code == k_frame_size) function.frame_bytes = value;
      if (attribute.code == k_min_stack_size) function.min_stack_bytes = value;
    }
  }
  return resources;
}

/// The product of a block's three dimensions.
std::int64_t read_threads(const CubinAttribute& attribute) {
  constexpr std::uint32_t most = 1024;  // of any dimension on any GPU
  std::int64_t threads = 1;
  for (std::uint64_t i = 0; i < 3; ++i) {
    const std::uint32_t extent = attribute.word(i);
    if (extent < 1 || extent > most) {
      refuse_cubin(fmt::format("a block bound of {} threads in one dimension", extent));
    }
    threads *= extent;
  }
  return threads;
}

/// The parameters of a kernel, each a record: an index, 16 bits of its number and of its offset,
/// and flags with its size.
std::vector<CubinParameter> read_parameters(const std::vector<CubinAttribute>& attributes) {
  std::map<std::uint32_t, CubinParameter> by_number;
  for (const CubinAttribute& attribute : attributes) {
    if (attribute.code != k_parameter) continue;
    const std::uint32_t place = attribute.word(1);
    by_number[place & 0xffff] = {.offset = place >> 16, .size = attribute.word(2) >> 18};
  }
  std::vector<CubinParameter> parameters;
  for (const auto& [number, parameter] : by_number) {
    if (number != parameters.size()) {
      refuse_cubin(fmt::format("a parameter has the number {}, not {}", number, parameters.size()));
    }
    parameters.push_back(parameter);
  }
  return parameters;
}

void read_attribute(const CubinAttribute& attribute, CubinKernel& kernel) {
  switch (attribute.code) {
    case k_parameter_bytes:
      kernel.parameter_bytes = attribute.value;
      break;
    case k_parameter_bank:
      kernel.parameter_base = attribute.word(1) & 0xffff;
      break;
    case k_max_threads:
    case k_required_threads:
      kernel.max_threads = read_threads(attribute);
      break;
    default:
      break;
  }
}

std::int64_t static_shared_bytes(const CubinFile& file, const std::string& kernel) {
  const CubinSection* section = file.find_section(".nv.shared." + kernel);
  if (section == nullptr) return 0;
  constexpr std::uint64_t most = std::uint64_t{1} << 31;
  const std::uint64_t bytes = section->size;
  if (bytes > most)
    refuse_cubin(fmt::format("{} bytes of shared memory for {}", bytes, printable(kernel)));
  // A relocatable object has a section of another type, before the reserve is added.
  const bool with_reserve =
      section->type == SHT_NOBITS && file.arch() >= k_first_arch_with_reserve_in_section;
  if (!with_reserve) return static_cast<std::int64_t>(bytes);
  return static_cast<std::int64_t>(bytes - std::min(bytes, k_reserved_shared_bytes));
}

std::int64_t constant_bytes(const CubinFile& file, const std::string& kernel) {
  constexpr int banks = 18;
  std::int64_t bytes = 0;
  for (int bank = 0; bank < banks; ++bank) {
    const CubinSection* section = file.find_section(fmt::format(".nv.constant{}.{}", bank, kernel));
    if (section != nullptr) bytes += static_cast<std::int64_t>(section->bytes.size());
  }
  return bytes;
}

CubinKernel read_kernel(const CubinFile& file, const std::string& name) {
  CubinKernel kernel;
  kernel.name = name;
  const CubinSection* text = file.find_section(".text." + name);
  if (text == nullptr || text->type != SHT_PROGBITS) {
    refuse_cubin(fmt::format("kernel {} has no code", printable(name)));
  }
  kernel.code_bytes = static_cast<std::int64_t>(text->bytes.size());
  kernel.static_shared_bytes = static_shared_bytes(file, name);
  kernel.constant_bytes = constant_bytes(file, name);
  const CubinSection* info = file.find_section(".nv.info." + name);
  if (info == nullptr) refuse_cubin(fmt::format("kernel {} has no .nv.info", printable(name)));
  const std::vector<CubinAttribute> attributes = read_cubin_attributes(*info);
  for (const CubinAttribute& attribute : attributes) read_attribute(attribute, kernel);
  kernel.parameters = read_parameters(attributes);
  return kernel;
}

std::int64_t count_code_bytes(const CubinFile& file) {
  std::int64_t bytes = 0;
  for (const CubinSection& section : file.sections()) {
    if (section.is_code()) bytes += static_cast<std::int64_t>(section.bytes.size());
  }
  return bytes;
}

}  // namespace

const CubinKernel* CubinInfo::find_kernel(std::string_view name) const noexcept {
  const auto found = std::ranges::find(kernels, name, &CubinKernel::name);
  return found == kernels.end() ? nullptr : &*found;
}

CubinInfo read_cubin_info(std::span<const std::byte> cubin) {
  const CubinFile file(cubin);
  CubinInfo info;
  info.arch = file.arch();
  info.relocatable = file.relocatable();
  info.code_bytes = count_code_bytes(file);

  std::set<std::string_view> kernel_names;
  const auto resources = read_resources(file);
  for (std::uint32_t i = 0; i < file.symbols().size(); ++i) {
    const CubinSymbol& symbol = file.symbols()[i];
    if (!symbol.is_function || symbol.section == SHN_UNDEF) continue;
    const std::string name(symbol.name);
    const auto found = resources.find(i);
    // A function that was merged into its caller's code has no registers of its own.
    const bool counted = found != resources.end() && found->second.registers.has_value();
    if (!symbol.is_kernel && !counted) continue;
    if (!counted) refuse_cubin(fmt::format("no register count for {}", printable(name)));
    const FunctionResources& function = found->second;
    if (!symbol.is_kernel) {
      info.functions.push_back({name, *function.registers, function.frame_bytes});
      continue;
    }
    // What belongs to a kernel is found by its name.
    if (!kernel_names.insert(symbol.name).second) {
      refuse_cubin(fmt::format("two kernels are called {}", printable(name)));
    }
    CubinKernel kernel = read_kernel(file, name);
    kernel.registers = *function.registers;
    kernel.frame_bytes = function.frame_bytes;
    kernel.stack_bytes = function.min_stack_bytes.value_or(function.frame_bytes);
    info.kernels.push_back(std::move(kernel));
  }
  return info;
}

}  // namespace spjit
