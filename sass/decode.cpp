#include "sass/decode.hpp"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "sass/decoders.hpp"
#include "spjit/error.hpp"

namespace spjit::sass {
namespace {

constexpr int k_first_arch = 75;
constexpr int k_last_arch = 90;

/// Decoders by the value of the lowest twelve bits: at most one for each architecture.
class DecoderTable {
 public:
  DecoderTable() {
    for (const std::span<const Decoder> family :
         {float_decoders(), integer_decoders(), convert_decoders(), move_decoders(),
          memory_decoders(), control_decoders()}) {
      for (const Decoder& decoder : family) add(decoder);
    }
  }

  /// The decoder of an operation that the architecture has, or null.
  [[nodiscard]] Decode find(std::uint32_t operation, int arch) const {
    const Decoder* decoder = table_[operation];
    const bool is_one =
        decoder != nullptr && arch >= decoder->first_arch && arch <= decoder->last_arch;
    return is_one ? decoder->decode : nullptr;
  }

 private:
  void add(const Decoder& decoder) {
    for (unsigned form = 0; form < 8; ++form) {
      if ((decoder.forms >> form & 1) == 0) continue;
      table_[form << 9 | decoder.operation] = &decoder;
    }
  }

  std::array<const Decoder*, 4096> table_ = {};
};

const DecoderTable& decoder_table() {
  static const DecoderTable table;
  return table;
}

}  // namespace

bool decodes(int arch) noexcept { return arch >= k_first_arch && arch <= k_last_arch; }

Instruction decode(const Encoding& encoding, std::uint32_t offset, int arch) {
  Reader reader(encoding, offset, arch);
  const Decode decode_operands =
      decodes(arch) ? decoder_table().find(reader.operation(), arch) : nullptr;
  if (decode_operands == nullptr) reader.refuse();
  decode_operands(reader);
  return reader.finish();
}

std::vector<Instruction> decode_all(std::span<const std::byte> code, int arch,
                                    std::string_view function) {
  if (code.size() % k_instruction_bytes != 0 || code.size() > std::uint32_t{1} << 31) {
    throw Error(fmt::format("{} has {} bytes of code, no whole number of instructions", function,
                            code.size()));
  }
  std::vector<Instruction> instructions;
  instructions.reserve(code.size() / k_instruction_bytes);
  for (std::size_t at = 0; at < code.size(); at += k_instruction_bytes) {
    Encoding encoding;
    std::memcpy(encoding.data(), code.data() + at, k_instruction_bytes);
    try {
      instructions.push_back(decode(encoding, static_cast<std::uint32_t>(at), arch));
    } catch (const Error& error) {
      throw Error(fmt::format("{}+{:#x}: {}", function, at, error.what()));
    }
  }
  return instructions;
}

}  // namespace spjit::sass
