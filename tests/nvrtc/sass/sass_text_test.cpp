// The decoder of machine code beside NVIDIA's disassembler: the same text for every instruction of
// our kernels, and for what it takes of others.

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "runtime/cuda/cuda_libraries.hpp"
#include "runtime/cuda/nvrtc.hpp"
#include "sass/cubin_code.hpp"
#include "sass/decode.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "tests/support/activations.hpp"
#include "tests/support/cuda/cubin_cases.hpp"
#include "tests/support/cuda/cuda_texts.hpp"
#include "tests/support/cuda/nvdisasm.hpp"
#include "tests/support/cuda/reading_kernels.hpp"
#include "tests/support/cuda/sass_golden.hpp"
#include "tests/support/long_tests.hpp"
#include "tests/support/spmm_testing.hpp"

namespace {

using namespace spjit;
using namespace spjit::testing_support;
namespace fs = std::filesystem;

constexpr int k_archs[] = {75, 80, 90};

/// The text of an instruction at `offset`, or nothing if the decoder refuses it.
std::optional<std::string> text_of(const sass::Encoding& encoding, std::uint32_t offset, int arch) {
  try {
    return plain_text(to_text(sass::decode(encoding, offset, arch)));
  } catch (const Error&) {
    return std::nullopt;
  }
}

/// The instructions of a cubin, without those that were there before.
void collect(std::span<const std::byte> cubin, std::set<sass::Encoding>& seen) {
  const sass::CubinCode code = sass::read_cubin_code(cubin);
  for (const sass::Function& function : code.functions) {
    for (const sass::Instruction& instruction : function.instructions) {
      seen.insert(instruction.encoding);
    }
  }
}

class SassText : public ::testing::Test {
 protected:
  void SetUp() override {
    nvdisasm_ = find_nvdisasm();
    if (!nvdisasm_) GTEST_SKIP() << "no nvdisasm: scripts/build/setup_cuda.sh fetches it";
    try {
      for (const int arch : k_archs) {
        toolchains_[arch] = load_cuda_toolchain({.arch = arch, .nvrtc = true, .nvjitlink = true},
                                                found_cuda_libraries());
      }
    } catch (const NotSupported& error) {
      GTEST_SKIP() << error.what();
    }
  }

  /// The instructions of all programs from PTX; of some also from CUDA C++, which takes ten times
  /// as long.
  [[nodiscard]] std::set<sass::Encoding> code_of_programs(int arch) const {
    const CudaToolchain& toolchain = toolchains_.at(arch);
    std::set<sass::Encoding> seen;
    std::size_t number = 0;
    for (const ProgramCase& item : program_cases()) {
      const std::string from_ptx = build_program(item, CudaSource::ptx, arch, toolchain);
      collect(std::as_bytes(std::span(from_ptx)), seen);
      if (++number % 6 != 0) continue;
      const std::string from_cuda = build_program(item, CudaSource::cuda, arch, toolchain);
      collect(std::as_bytes(std::span(from_cuda)), seen);
    }
    collect_families(arch, seen);
    for (const char* text : {k_csr_text, k_reduction_text, k_sgemm_text, k_mixed_text}) {
      NvrtcOptions options;
      options.arch = arch;
      const std::string cubin = toolchain.nvrtc->compile("texts", text, options).code;
      collect(std::as_bytes(std::span(cubin)), seen);
    }
    return seen;
  }

  /// Those that read A: every layout and activation; of C++ one.
  static void collect_families(int arch, std::set<sass::Encoding>& seen) {
    unsigned bits = 0;
    for (const char* family : {"csr", "dense", "narrow", "packed"}) {
      for (const Activation activation : k_activations) {
        CompileOptions options = gpu_options("sm_" + std::to_string(arch), family);
        options.policy.values["source"] = bits % 7 == 0 ? "cuda" : "ptx";
        LayerCase item = layer_case(random_matrix(37, 40, 0.6), cuda_spec(4, 12));
        item = in_layouts(item, k_all_layouts.at(bits % 4));
        item.spec.layer.epilogue = epilogue_of(bits % 8, activation);
        collect(Compiler(options, uncached()).compile(problem_of(item)).image(), seen);
        ++bits;
      }
    }
  }

  /// The operation with its modifiers and the kinds of its sources.
  static std::string name_of(const sass::Encoding& encoding, int arch) {
    const std::string text = *text_of(encoding, 0, arch);
    const std::size_t name = text.starts_with('@') ? text.find(' ') + 1 : 0;
    const std::string form = std::to_string(encoding[0] & 0xfff);
    return form + " " + text.substr(name, text.find(' ', name) - name);
  }

  /// Of each operation one instruction.
  static std::vector<sass::Encoding> one_of_each(const std::set<sass::Encoding>& code, int arch) {
    std::set<std::string> names;
    std::vector<sass::Encoding> chosen;
    for (const sass::Encoding& encoding : code) {
      if (names.insert(name_of(encoding, arch)).second) chosen.push_back(encoding);
    }
    return chosen;
  }

  [[nodiscard]] std::vector<std::string> texts_of(const std::vector<sass::Encoding>& code,
                                                  int arch) const {
    const TemporaryDirectory folder;
    const Disassembly result = disassemble(*nvdisasm_, code, arch, folder.path());
    EXPECT_EQ(result.output, "");
    return result.texts;
  }

  [[nodiscard]] std::string golden_lines(const std::vector<sass::Encoding>& code, int arch) const {
    std::string lines;
    const std::vector<std::string> texts = texts_of(code, arch);
    for (std::size_t i = 0; i < code.size(); ++i) {
      const auto offset = static_cast<std::uint32_t>(i * sass::k_instruction_bytes);
      lines += golden_line({arch, offset, code[i], texts.at(i)});
    }
    return lines;
  }

  /// Of names, those that no instruction of the golden file has.
  [[nodiscard]] static std::set<std::string> missing_in_golden(std::set<std::string> names,
                                                               int arch) {
    for (const GoldenInstruction& item : read_golden_instructions()) {
      if (item.arch == arch) names.erase(name_of(item.encoding, arch));
    }
    return names;
  }

  std::optional<fs::path> nvdisasm_;
  std::map<int, CudaToolchain> toolchains_;
};

/// SPJIT_UPDATE_GOLDEN=1 writes the golden file anew.
TEST_F(SassText, IsNvdisasmsForEveryInstructionOfOurKernels) {
  const bool updates = std::getenv("SPJIT_UPDATE_GOLDEN") != nullptr;
  const std::vector<int> all_archs(std::begin(k_archs), std::end(k_archs));
  const std::vector<int> archs = updates ? all_archs : in_turn(all_archs);
  std::size_t compared = 0;
  std::string golden;
  std::map<int, std::set<std::string>> names;
  for (const int arch : archs) {
    const std::set<sass::Encoding> all = code_of_programs(arch);
    const std::vector<sass::Encoding> code(all.begin(), all.end());
    const std::vector<std::string> expected = texts_of(code, arch);
    ASSERT_EQ(expected.size(), code.size());
    for (std::size_t i = 0; i < code.size(); ++i, ++compared) {
      const auto offset = static_cast<std::uint32_t>(i * sass::k_instruction_bytes);
      ASSERT_EQ(text_of(code[i], offset, arch), expected[i]) << "sm_" << arch;
    }
    const std::vector<sass::Encoding> chosen = one_of_each(all, arch);
    golden += golden_lines(chosen, arch);
    for (const sass::Encoding& encoding : chosen) names[arch].insert(name_of(encoding, arch));
  }
  if (updates) std::ofstream(golden_instructions_path()) << golden;
  for (const int arch : archs) {
    EXPECT_THAT(missing_in_golden(names[arch], arch), testing::IsEmpty())
        << "SPJIT_UPDATE_GOLDEN=1 adds them to " << golden_instructions_path();
  }
  RecordProperty("compared", static_cast<int>(compared));
  EXPECT_GT(compared, archs.size() * 10'000U);
}

/// A bit that the decoder ignored, or read otherwise, would be taken with another text.
TEST_F(SassText, IsNvdisasmsForWhatIsTakenWithOneBitFlipped) {
  constexpr unsigned k_bits = 128;
  for (const int arch : k_archs) {
    std::vector<sass::Encoding> taken;
    for (const GoldenInstruction& item : read_golden_instructions()) {
      for (unsigned bit = 0; item.arch == arch && bit < k_bits; ++bit) {
        sass::Encoding flipped = item.encoding;
        flipped[bit / 64] ^= std::uint64_t{1} << bit % 64;
        if (text_of(flipped, 0, arch)) taken.push_back(flipped);
      }
    }

    const std::vector<std::string> expected = texts_of(taken, arch);

    ASSERT_EQ(expected.size(), taken.size());
    for (std::size_t i = 0; i < taken.size(); ++i) {
      const auto offset = static_cast<std::uint32_t>(i * sass::k_instruction_bytes);
      EXPECT_EQ(text_of(taken[i], offset, arch), expected[i]) << "sm_" << arch;
    }
    EXPECT_GT(taken.size(), 5'000U);
  }
}

/// Tests without NVIDIA's libraries use it.
TEST_F(SassText, OfTheGoldenFileIsNvdisasms) {
  const std::vector<GoldenInstruction> golden = read_golden_instructions();
  for (const int arch : k_archs) {
    std::vector<sass::Encoding> code;
    std::vector<std::string> texts;
    for (const GoldenInstruction& item : golden) {
      if (item.arch != arch) continue;
      ASSERT_EQ(item.offset, code.size() * sass::k_instruction_bytes);
      code.push_back(item.encoding);
      texts.push_back(item.text);
    }
    EXPECT_EQ(texts_of(code, arch), texts);
  }
}

}  // namespace
