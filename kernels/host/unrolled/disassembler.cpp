#include "kernels/host/unrolled/disassembler.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>

#include "spjit/error.hpp"

#ifdef SPJIT_HAVE_LLVM
#include <llvm-c/Disassembler.h>

#include <array>
#include <memory>

#include "kernels/host/unrolled/llvm_object.hpp"
#endif

namespace spjit {

#ifdef SPJIT_HAVE_LLVM

namespace {

struct DisposeContext {
  void operator()(void* context) const { LLVMDisasmDispose(context); }
};

// Every extension, or LLVM refuses what the baseline lacks.
constexpr const char* k_llvm_features =
    "+avx2,+fma,+avx512f,+avx512dq,+avx512bw,+avx512vl,+avx512bf16,+avx512vnni";

/// LLVM's text begins with a tab and separates the operands by another.
std::string normalized(const char* text) {
  std::string result;
  for (; *text != '\0'; ++text) {
    const bool space = *text == '\t' || *text == ' ';
    if (!space) {
      result += *text;
    } else if (!result.empty() && result.back() != ' ') {
      result += ' ';
    }
  }
  return result;
}

}  // namespace

std::vector<DisassembledInstruction> disassemble(std::span<const std::uint8_t> code) {
  initialize_llvm();
  const std::unique_ptr<void, DisposeContext> context(LLVMCreateDisasmCPUFeatures(
      "x86_64-unknown-linux-gnu", "x86-64", k_llvm_features, nullptr, 0, nullptr, nullptr));
  if (context == nullptr) throw NotSupported("this build's LLVM has no x86-64 disassembler");

  std::vector<DisassembledInstruction> instructions;
  std::vector<std::uint8_t> bytes(code.begin(), code.end());  // LLVM's interface is not const
  std::array<char, 256> text{};
  for (std::size_t offset = 0; offset < bytes.size();) {
    // Pc 0: the text depends on the bytes alone, not on where they lie.
    const std::size_t size = LLVMDisasmInstruction(
        context.get(), bytes.data() + offset, bytes.size() - offset, 0, text.data(), text.size());
    const std::size_t length = std::max<std::size_t>(size, 1);
    const auto begin = bytes.begin() + static_cast<std::ptrdiff_t>(offset);
    instructions.push_back({offset,
                            {begin, begin + static_cast<std::ptrdiff_t>(length)},
                            size == 0 ? "(bad)" : normalized(text.data())});
    offset += length;
  }
  return instructions;
}

#else

std::vector<DisassembledInstruction> disassemble(std::span<const std::uint8_t> /*code*/) {
  throw NotSupported(
      "disassembling needs LLVM, and this spjit was built without it; install LLVM 19 and build "
      "again, or use objdump on the object (spjit compile --emit obj)");
}

#endif

std::string disassembly_listing(std::span<const std::uint8_t> code) {
  std::string listing;
  for (const DisassembledInstruction& instruction : disassemble(code)) {
    fmt::format_to(std::back_inserter(listing), "{:8x}: {:02x}  {}\n", instruction.offset,
                   fmt::join(instruction.bytes, " "), instruction.text);
  }
  return listing;
}

}  // namespace spjit
