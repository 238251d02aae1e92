#include "kernels/host/object/host_image.hpp"

#include <fmt/format.h>

#include "base/elf_object.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

}  // namespace

HostImage HostArtifact::image() const noexcept {
  return {bytes_of(text), bytes_of(weights), bytes_of(program)};
}

std::vector<std::byte> write_object(const HostImage& image, const std::string& name,
                                    const Cancellation& cancel, std::uint64_t alignment) {
  ElfObject object;
  object.source_name = "spjit";
  const std::string prefix = "spjit_" + name;
  const auto add = [&](const ElfSection& section, const std::string& symbol) {
    object.sections.push_back(section);
    object.symbols.push_back({prefix + symbol, section.name, 0, section.bytes.size(),
                              section.executable ? ElfSymbolKind::function : ElfSymbolKind::object,
                              ElfBinding::global});
  };
  add({".text", image.text, true, alignment}, "_text");
  add({".rodata.weights", image.weights, false, alignment}, "_weights");
  add({".rodata.program", image.program, false, k_linked_alignment}, "_program");
  return write_elf_object(object, cancel);
}

HostImage read_object(std::span<const std::byte> object, const std::string& name) {
  const ElfObjectView view(object);
  const auto part = [&](const char* section, const std::string& symbol) {
    const ElfSectionView* found = view.find_section(section);
    if (found == nullptr || view.find_symbol("spjit_" + name + symbol) == nullptr) {
      throw Error(fmt::format("object has no spjit_{}{} in {}", name, symbol, section));
    }
    return found->bytes;
  };
  return {part(".text", "_text"), part(".rodata.weights", "_weights"),
          part(".rodata.program", "_program")};
}

}  // namespace spjit
