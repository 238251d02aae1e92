#include "sass/cubin_code.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstring>

#include "base/printable.hpp"
#include "runtime/cuda/cubin_file.hpp"
#include "sass/decode.hpp"
#include "spjit/error.hpp"

namespace spjit::sass {
namespace {

constexpr std::string_view k_text = ".text.";
constexpr std::string_view k_constant = ".nv.constant";
constexpr std::string_view k_global = ".nv.global";

RelocationKind kind_of(const CubinRelocation& relocation, std::string_view section) {
  switch (relocation.type) {
    case 2:
      return RelocationKind::address64;
    case 56:
      return RelocationKind::low32;
    case 57:
      return RelocationKind::high32;
    case 58:
      return RelocationKind::call47;
    case 75:
      return RelocationKind::call55;
    default:
      throw NotSupported(fmt::format("{}+{:#x}: relocation {} of a cubin is not known",
                                     printable(section), relocation.offset, relocation.type));
  }
}

/// The addend that lies in the field itself.
std::int64_t addend_in(std::span<const std::byte> bytes, const CubinRelocation& relocation,
                       RelocationKind kind) {
  std::uint64_t words[2] = {};
  const std::size_t needed = kind == RelocationKind::address64 ? 8 : k_instruction_bytes;
  if (bytes.size() - relocation.offset < needed) refuse_cubin("a relocation reaches past its end");
  std::memcpy(words, bytes.data() + relocation.offset, needed);
  switch (kind) {
    case RelocationKind::address64:
      return static_cast<std::int64_t>(words[0]);
    case RelocationKind::low32:
    case RelocationKind::high32:
      return static_cast<std::int64_t>(words[0] >> 32);
    default:  // of a call; as many bits as matter
      return static_cast<std::int64_t>((words[0] >> 34 | words[1] << 30) & 0x7fffffffffff);
  }
}

/// Sorts the parts of a cubin by what they are.
class CodeReader {
 public:
  CodeReader(std::span<const std::byte> bytes) : file_(bytes) {
    code_.info = read_cubin_info(bytes);
    if (!decodes(code_.arch())) {
      throw NotSupported(
          fmt::format("the machine code of sm_{} is not known; only of sm_75 to sm_90", arch()));
    }
  }

  CubinCode read() {
    for (std::uint32_t i = 0; i < file_.sections().size(); ++i) {
      const CubinSection& section = file_.sections()[i];
      if (section.is_code() && section.name.starts_with(k_text)) {
        code_.functions.push_back(
            {.name = std::string(section.name.substr(k_text.size())),
             .section = i,
             .instructions = decode_all(section.bytes, arch(), printable(section.name)),
             .relocations = {},
             .labels = {}});
      } else if (section.name.starts_with(k_constant)) {
        code_.constants.push_back(constant_bank(i));
      } else if (section.name == k_global || section.name.starts_with(".nv.global.")) {
        code_.globals.push_back({.section = i,
                                 .size = section.size,
                                 .bytes = {section.bytes.begin(), section.bytes.end()}});
      }
    }
    add_symbols();
    add_relocations();
    return std::move(code_);
  }

 private:
  [[nodiscard]] int arch() const { return code_.arch(); }

  /// ".nv.constant3", ".nv.constant2.KERNEL"
  ConstantBank constant_bank(std::uint32_t index) const {
    const CubinSection& section = file_.sections()[index];
    const std::string_view rest = section.name.substr(k_constant.size());
    ConstantBank bank;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), bank.bank);
    const std::string_view kernel = rest.substr(static_cast<std::size_t>(end - rest.data()));
    if (error != std::errc{} || (!kernel.empty() && !kernel.starts_with('.'))) {
      refuse_cubin(fmt::format("a section called {}", printable(section.name)));
    }
    if (!kernel.empty()) bank.kernel = kernel.substr(1);
    bank.section = index;
    bank.bytes.assign(section.bytes.begin(), section.bytes.end());
    return bank;
  }

  Function* function_in(std::uint32_t section) {
    const auto found = std::ranges::find(code_.functions, section, &Function::section);
    return found == code_.functions.end() ? nullptr : &*found;
  }

  void add_symbols() {
    for (const CubinSymbol& symbol : file_.symbols()) {
      if (symbol.section == SHN_UNDEF || symbol.name.empty()) continue;
      if (symbol.is_function) {
        if (Function* function = function_in(symbol.section)) {
          function->labels.push_back(
              {std::string(symbol.name), static_cast<std::uint32_t>(symbol.value)});
        }
      } else if (std::ranges::find(code_.globals, symbol.section, &GlobalSection::section) !=
                     code_.globals.end() &&
                 symbol.size > 0) {
        code_.variables.push_back(
            {std::string(symbol.name), symbol.section, symbol.value, symbol.size});
      }
    }
    for (Function& function : code_.functions) {
      std::ranges::stable_sort(function.labels, {}, &Label::offset);
    }
  }

  Relocation relocation(const CubinRelocation& raw) const {
    const CubinSection& section = file_.sections()[raw.section];
    const CubinSymbol& symbol = file_.symbols()[raw.symbol];
    Relocation made;
    made.offset = static_cast<std::uint32_t>(raw.offset);  // within its section, at most 2^31 bytes
    made.kind = kind_of(raw, section.name);
    made.symbol = symbol.name;
    made.section = symbol.section;
    const std::int64_t addend = raw.addend ? *raw.addend : addend_in(section.bytes, raw, made.kind);
    if (!raw.addend && made.kind == RelocationKind::high32 && addend != 0) {
      throw NotSupported(fmt::format("{}+{:#x}: the upper part of an address with an addend",
                                     printable(section.name), raw.offset));
    }
    made.value = static_cast<std::int64_t>(symbol.value) + addend;
    return made;
  }

  void add_relocations() {
    for (const CubinRelocation& raw : file_.relocations()) {
      const auto bank = std::ranges::find(code_.constants, raw.section, &ConstantBank::section);
      if (Function* function = function_in(raw.section)) {
        function->relocations.push_back(relocation(raw));
      } else if (bank != code_.constants.end()) {
        bank->relocations.push_back(relocation(raw));
      } else if (std::ranges::find(code_.globals, raw.section, &GlobalSection::section) !=
                 code_.globals.end()) {
        throw NotSupported("a variable of a cubin begins as an address");
      }
    }
  }

  CubinFile file_;
  CubinCode code_;
};

}  // namespace

std::string Function::place(std::uint32_t offset) const {
  const auto after = std::ranges::upper_bound(labels, offset, {}, &Label::offset);
  const Label nearest = after == labels.begin() ? Label{name, 0} : *std::prev(after);
  return fmt::format("{}+{:#x}", nearest.name, offset - nearest.offset);
}

const Function* CubinCode::find_function(std::string_view name) const noexcept {
  const auto found = std::ranges::find(functions, name, &Function::name);
  return found == functions.end() ? nullptr : &*found;
}

CubinCode read_cubin_code(std::span<const std::byte> cubin) { return CodeReader(cubin).read(); }

}  // namespace spjit::sass
