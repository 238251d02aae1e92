#include <nlohmann/json.hpp>

// The record of a CUDA kernel, which its users may load from anywhere: its launch is within what a
// GPU takes, and the same after it was written and read.

#include "base/json_text.hpp"
#include "kernels/cuda/unrolled/cuda_artifact.hpp"
#include "tests/fuzz/fuzz_support.hpp"

namespace spjit::fuzz {
namespace {

KernelInfo info_of(const nlohmann::json& record, const UnrolledProgram& program) {
  return cuda_info(record, program,
                   {program.threads, program.blocks_x, program.blocks_y(program.n)});
}

void run(std::string_view text) {
  constexpr std::size_t k_per_byte = 64;
  constexpr std::size_t k_fixed = std::size_t{64} << 10;
  const std::size_t most = k_per_byte * text.size() + k_fixed;
  const auto record = read_within(most, {}, [&] { return parse_json(text); });
  if (!record || !record->is_object() || !record->contains("program")) return;
  const auto program =
      read_within(most, {}, [&] { return read_unrolled_program(record->at("program")); });
  if (!program) return;
  expect(read_unrolled_program(to_json(*program)) == *program,
         "the program is another after writing and reading");
  const auto info = read_within(most, {}, [&] { return info_of(*record, *program); });
  if (!info) return;
  expect(info->cuda.has_value(), "a kernel for a GPU without what is known of those");
  expect(info->cuda->threads >= 1 && info->cuda->threads <= 1024 && info->cuda->blocks_x >= 1 &&
             info->cuda->blocks_y >= 1,
         "a launch that no GPU takes");
}

}  // namespace
}  // namespace spjit::fuzz

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  spjit::fuzz::run(spjit::fuzz::as_text(spjit::fuzz::as_bytes(data, size)));
  return 0;
}
