#include "kernels/host/unrolled/disassembler.hpp"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <charconv>
#include <map>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "kernels/host/unrolled/host_emitter.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

#ifdef SPJIT_HAVE_LLVM

using testing::ElementsAre;

TEST(Disassembler, TellsOffsetBytesAndText) {
  const std::vector<std::uint8_t> code = {0x48, 0x85, 0xC0, 0xC3};

  const std::vector<DisassembledInstruction> decoded = disassemble(code);

  ASSERT_EQ(decoded.size(), 2U);
  EXPECT_EQ(decoded[0].offset, 0U);
  EXPECT_THAT(decoded[0].bytes, ElementsAre(0x48, 0x85, 0xC0));
  EXPECT_EQ(decoded[0].text, "testq %rax, %rax");
  EXPECT_EQ(decoded[1].offset, 3U);
  EXPECT_EQ(decoded[1].text, "retq");
}

TEST(Disassembler, MarksWhatIsNoInstructionAndGoesOn) {
  const std::vector<std::uint8_t> code = {0x06, 0xC3};  // push %es: not in 64-bit mode

  const std::vector<DisassembledInstruction> decoded = disassemble(code);

  ASSERT_EQ(decoded.size(), 2U);
  EXPECT_EQ(decoded[0].text, "(bad)");
  EXPECT_THAT(decoded[0].bytes, ElementsAre(0x06));
  EXPECT_EQ(decoded[1].text, "retq");
}

TEST(Disassembler, MarksAnInstructionThatIsCutOff) {
  const std::vector<std::uint8_t> code = {0x48};

  EXPECT_EQ(disassemble(code).front().text, "(bad)");
}

TEST(Disassembler, ListsOneLineAnInstruction) {
  const std::vector<std::uint8_t> code = {0xC5, 0xF8, 0x77, 0xC3};

  EXPECT_EQ(disassembly_listing(code),
            "       0: c5 f8 77  vzeroupper\n"
            "       3: c3  retq\n");
}

TEST(Disassembler, OfNothingIsEmpty) {
  EXPECT_TRUE(disassemble({}).empty());
  EXPECT_EQ(disassembly_listing({}), "");
}

TEST(Disassembler, WorksFromManyThreads) {
  const std::vector<std::uint8_t> code(1000, 0xC3);
  std::vector<std::size_t> counts(4, 0);

  {
    std::vector<std::jthread> threads;
    for (std::size_t& count : counts) {
      threads.emplace_back([&] { count = disassemble(code).size(); });
    }
  }

  EXPECT_THAT(counts, testing::Each(1000U));
}

std::int64_t below(std::mt19937& random, std::int64_t bound) {
  return std::uniform_int_distribution<std::int64_t>(0, bound - 1)(random);
}

/// A random matrix with planted empty rows, grouped into tiles of m1 rows as they come.
KernelPlan random_plan(std::mt19937& random, std::int64_t m1, std::int64_t k_block) {
  CsrMatrix matrix;
  matrix.rows = 1 + below(random, 60);
  matrix.cols = 1 + below(random, 300);
  RowGrouping grouping;
  grouping.m1 = m1;
  const std::int64_t percent = 1 + below(random, 60);
  for (std::int64_t row = 0; row < matrix.rows; ++row) {
    for (std::int32_t col = 0; col < matrix.cols && row % 7 != 3; ++col) {
      if (below(random, 100) >= percent) continue;
      matrix.col_idxs.push_back(col);
      matrix.values.push_back(static_cast<float>(below(random, 1000)) - 500.0F);
    }
    const bool empty = matrix.row_ptrs.back() == matrix.nnz();
    matrix.row_ptrs.push_back(matrix.nnz());
    if (empty) {
      grouping.empty_rows.add(row, row + 1);
    } else {
      grouping.rows.push_back(static_cast<std::int32_t>(row));
    }
  }
  const std::int64_t rows = std::ssize(grouping.rows);
  for (std::int64_t end = 0; end < rows;) {
    end = std::min(end + m1, rows);
    grouping.tile_ptrs.push_back(end);
  }
  return build_plan(matrix, grouping, k_block);
}

std::string mnemonic(const DisassembledInstruction& instruction) {
  return instruction.text.substr(0, instruction.text.find(' '));
}

/// Where a jump goes; -1 for other instructions.
std::int64_t jump_target(const DisassembledInstruction& instruction) {
  if (mnemonic(instruction) != "jne" && mnemonic(instruction) != "jmp") return -1;
  const std::string distance = instruction.text.substr(4);
  std::int64_t value = 0;
  std::from_chars(distance.data(), distance.data() + distance.size(), value);
  return static_cast<std::int64_t>(instruction.offset + instruction.bytes.size()) + value;
}

/// Checks one kernel's code: it decodes from end to end into the instructions the encoder has, its
/// functions and jumps begin where instructions do, and it has an FMA for every entry and vector.
void check_code(const HostCode& code, const KernelPlan& plan, const HostTile& tile, HostIsa isa) {
  const std::set<std::string> common = {
      "vfmadd231ps", "vbroadcastss", "vmovups", "vmovntps",   "movq", "addq", "imulq",
      "testq",       "jne",          "jmp",     "vzeroupper", "retq", "int3"};
  const std::set<std::string> own = isa == HostIsa::avx512
                                        ? std::set<std::string>{"vpxord", "kmovw"}
                                        : std::set<std::string>{"vpxor", "vmaskmovps"};
  std::map<std::string, std::int64_t> counts;
  std::set<std::int64_t> starts;
  const std::vector<DisassembledInstruction> decoded = disassemble(code.text);
  for (const DisassembledInstruction& instruction : decoded) {
    const std::string name = mnemonic(instruction);
    ASSERT_TRUE(common.contains(name) || own.contains(name)) << instruction.text;
    ++counts[name];
    starts.insert(static_cast<std::int64_t>(instruction.offset));
  }

  for (const DisassembledInstruction& instruction : decoded) {
    const std::int64_t target = jump_target(instruction);
    ASSERT_TRUE(target == -1 || starts.contains(target)) << instruction.text;
  }
  ASSERT_EQ(std::ssize(code.segment_offsets), std::ssize(code.tile_ends) * plan.k_blocks);
  for (const std::int64_t offset : code.segment_offsets) {
    EXPECT_TRUE(starts.contains(offset));
    EXPECT_EQ(offset % 64, 0);
  }
  EXPECT_EQ(counts["vfmadd231ps"], plan.nnz() * tile.nv);
}

TEST(EmittedHostCode, DecodesCompletelyIntoKnownInstructions) {
  std::mt19937 random(7);

  for (int round = 0; round < 120; ++round) {
    const HostIsa isa = round % 2 == 0 ? HostIsa::avx512 : HostIsa::avx2;
    HostTile tile;
    tile.nv = 1 + below(random, 4);
    const std::int64_t most = (registers_of(isa) - tile.nv - 1) / tile.nv;
    tile.m1 = 1 + below(random, most);
    tile.form = static_cast<WeightForm>(below(random, 3));
    tile.memory_rows = below(random, 4);
    tile.stream_c = round % 5 == 0;
    tile.join_bytes = std::int64_t{1000} * (round % 7);
    const KernelPlan plan = random_plan(random, tile.m1, 1 + below(random, 300));
    const std::int64_t panel_bytes = tile.nv * lanes_of(isa) * 4;
    const std::int64_t stride = round % 3 == 0 ? 4 * (1 + below(random, 5000)) : panel_bytes;

    const HostCode code = emit_host(plan, tile, isa, stride);

    check_code(code, plan, tile, isa);
    if (HasFatalFailure()) FAIL() << "round " << round << ", tile " << to_string(tile);
  }
}

#else

TEST(Disassembler, SaysThatItNeedsLlvm) {
  const std::vector<std::uint8_t> code = {0xC3};

  EXPECT_THROW(static_cast<void>(disassemble(code)), NotSupported);
  EXPECT_THROW(static_cast<void>(disassembly_listing(code)), NotSupported);
}

#endif

}  // namespace
}  // namespace spjit
