#include "kernels/host/unrolled/host_program.hpp"

#include <algorithm>

#include "base/arithmetic.hpp"
#include "kernels/host/unrolled/llvm_emitter.hpp"
#include "kernels/host/unrolled/weight_positions.hpp"
#include "matrix/rows_of_b.hpp"
#include "plan/problem.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Bytes of A at the end of the weights.
std::int64_t loop_bytes(const HostProgramRecord& record) noexcept {
  return record.row_ptrs.empty() ? 0 : csr_bytes(record.header);
}

void check_unrolled(const HostProgramRecord& record, const HostImage& image,
                    const Cancellation& cancel) {
  const std::size_t tiles = record.tile_ends.size();
  const std::size_t segments = tiles * to_size(record.k_blocks);
  const auto text_end = static_cast<std::int64_t>(image.text.size()) - 1;
  const std::int64_t bytes = std::ssize(image.weights) - loop_bytes(record);
  require_record(bytes >= 0, "weights without A");
  const std::int64_t floats = bytes / std::int64_t{sizeof(float)};
  require_record(record.segment_offsets.size() == segments, "segment count");
  require_record(record.weight_offsets.size() == segments, "weight offset count");
  require_record(record.tile_nnz_ends.size() == tiles, "tile count");
  require_record(ascending_within(record.tile_ends, 1, record.header.rows) &&
                     std::ranges::adjacent_find(record.tile_ends) == record.tile_ends.end(),
                 "joined tiles");
  require_record(ascending_within(record.segment_offsets, 0, text_end), "segment offsets");
  require_record(
      std::ranges::all_of(record.segment_offsets,
                          [](std::int64_t at) { return at % k_function_alignment == 0; }),
      "segments that are not aligned");
  require_record(ascending_within(record.weight_offsets, 0, floats), "weight offsets");
  require_record(ascending_within(record.tile_nnz_ends, 0, record.header.nnz), "tile ends");
  require_record(record.k_block * record.k_blocks >= record.header.cols, "k blocks do not cover k");
  require_record(registers_needed(record.tile) <= registers_of(record.header.isa),
                 "tile beyond the registers");
  const std::int64_t width = record.tile.nv * lanes_of(record.header.isa);
  const bool may_be_in_place =
      !record.header.runtime_n && record.header.b_layout != Layout::tokens_major;
  require_record(record.in_place_ldb == 0 || may_be_in_place, "B in place that has no place");
  require_record(record.row_ptrs.empty() || record.header.isa != HostIsa::generic,
                 "a loop that its instruction set has not");
  require_record(record.in_place_ldb == 0 ||
                     (record.in_place_ldb >= record.header.n && record.header.n >= width),
                 "B in place is narrower than n or a panel");
  require_record(!record.header.runtime_values ||
                     are_positions(weights_of(record, image), record.header.nnz, cancel),
                 "weights that are no positions of values");
}

HostTile read_tile(WordReader& reader) {
  constexpr std::int64_t k_most = std::int64_t{1} << 31;
  HostTile tile;
  tile.m1 = reader.word(1, 64);
  tile.nv = reader.word(1, 16);
  tile.k_block = reader.word(0, k_most);
  tile.panel_group = reader.word(1, k_most);
  tile.row_group = reader.word(0, k_most);
  tile.pack_b = reader.word(0, 1) != 0;
  tile.form = static_cast<WeightForm>(reader.word(0, 2));
  tile.memory_rows = reader.word(0, k_most);
  tile.stream_c = reader.word(0, 1) != 0;
  tile.read_ahead = reader.word(0, 1) != 0;
  tile.join_bytes = reader.word(0, k_most);
  return tile;
}

HostProgramRecord record_of(const KernelPlan& plan, const HostTile& tile,
                            const std::vector<std::int64_t>& tile_ends,
                            const Cancellation& cancel) {
  HostProgramRecord record;
  record.tile = tile;
  record.tile_ends = tile_ends;
  record.k_block = plan.k_block;
  record.k_blocks = plan.k_blocks;
  record.empty_rows = plan.grouping.empty_rows;
  record.rows_of_b = rows_of_b(plan.columns, plan.cols, cancel);
  for (const std::int64_t end : tile_ends) {
    const PlanSegment last = plan.segment(end - 1, plan.k_blocks - 1);
    record.tile_nnz_ends.push_back(plan.entry_ptrs[to_size(last.column_end)]);
  }
  return record;
}

/// The shape is the plan's: a proxy's is another than the problem's.
HostProgramHeader header_of(const KernelPlan& plan, const Problem& problem, HostIsa isa) {
  HostProgramHeader header;
  header.family = k_unrolled_host_name;
  header.isa = isa;
  header.rows = plan.rows;
  header.cols = plan.cols;
  header.n = problem.n.value;
  header.runtime_n = problem.n.runtime;
  header.ldb = problem.ldb();
  header.ldc = problem.ldc();
  header.nnz = plan.nnz();
  header.runtime_values = problem.runtime_values;
  header.b_layout = problem.b.layout;
  header.c_layout = problem.c.layout;
  header.epilogue = problem.epilogue;
  header.convolution = problem.convolution;
  header.numerics = problem.numerics;
  return header;
}

}  // namespace

std::int64_t HostProgramRecord::rows_a_tile() const noexcept {
  std::int64_t most = 1;
  std::int64_t begin = 0;
  for (const std::int64_t end : tile_ends) {
    most = std::max(most, end - begin);
    begin = end;
  }
  return most * tile.m1;
}

HostArtifact make_unrolled_artifact(const KernelPlan& plan, const HostTile& tile,
                                    const Problem& problem, HostIsa isa,
                                    const Cancellation& cancel) {
  if (!tile.pack_b && copies_b(problem)) {
    throw InvalidArgument("B is read in place by a tile; expected one that packs this B");
  }
  const std::int64_t in_place_ldb = tile.pack_b ? 0 : problem.ldb();
  const std::int64_t floats = in_place_ldb > 0 ? in_place_ldb : tile.nv * lanes_of(isa);
  const std::int64_t stride = floats * 4;
  HostCode code = isa == HostIsa::generic ? emit_generic(plan, tile, stride, cancel)
                                          : emit_host(plan, tile, isa, stride, cancel);
  HostProgramRecord record = record_of(plan, tile, code.tile_ends, cancel);
  record.header = header_of(plan, problem, isa);
  record.in_place_ldb = in_place_ldb;
  record.segment_offsets = std::move(code.segment_offsets);
  record.weight_offsets = std::move(code.weight_offsets);

  HostArtifact artifact;
  artifact.text = std::move(code.text);
  artifact.weights.reserve(code.weights.size());
  append_bits(artifact.weights, code.weights, cancel);
  artifact.program = write_program(record, cancel);
  return artifact;
}

void add_loop(HostArtifact& artifact, const Problem& problem, std::int64_t columns,
              const Cancellation& cancel) {
  append_csr(artifact.weights, problem, cancel);
  // The end of a record that has none.
  artifact.program.resize(artifact.program.size() - 2);
  artifact.program.push_back(columns);
  append_words(artifact.program, problem.a->row_ptrs, cancel);
}

std::span<const std::byte> weights_of(const HostProgramRecord& record,
                                      const HostImage& image) noexcept {
  return image.weights.first(image.weights.size() - to_size(loop_bytes(record)));
}

CsrImage loop_of(const HostProgramRecord& record, const HostImage& image,
                 const Cancellation& cancel) {
  HostProgramHeader header = record.header;
  header.n = std::clamp<std::int64_t>(header.n, 1, std::max<std::int64_t>(record.loop_columns, 1));
  CsrImage read =
      csr_of(header, record.row_ptrs, image.weights.last(to_size(loop_bytes(record))), cancel);
  read.panel_columns = record.tile.nv * lanes_of(record.header.isa);
  return read;
}

std::vector<std::int64_t> write_program(const HostProgramRecord& record,
                                        const Cancellation& cancel) {
  const HostTile& tile = record.tile;
  std::vector<std::int64_t> words = write_header(record.header);
  for (const std::int64_t word :
       {tile.m1, tile.nv, tile.k_block, tile.panel_group, tile.row_group, std::int64_t{tile.pack_b},
        static_cast<std::int64_t>(tile.form), tile.memory_rows, std::int64_t{tile.stream_c},
        std::int64_t{tile.read_ahead}, tile.join_bytes, record.k_block, record.in_place_ldb}) {
    words.push_back(word);
  }
  append_words(words, record.tile_ends, cancel);
  append_words(words, record.segment_offsets, cancel);
  append_words(words, record.weight_offsets, cancel);
  append_words(words, record.tile_nnz_ends, cancel);
  append_words(words, words_of(record.empty_rows), cancel);
  append_words(words, words_of(record.rows_of_b), cancel);
  words.push_back(record.loop_columns);
  append_words(words, record.row_ptrs, cancel);
  return words;
}

HostProgramRecord read_program(const HostImage& image, const Cancellation& cancel) {
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;
  WordReader reader(image.program, cancel);
  HostProgramRecord record;
  record.header = read_header(reader);
  const std::int64_t cols = record.header.cols;
  record.tile = read_tile(reader);
  record.k_block = reader.word(1, k_most);
  record.in_place_ldb = reader.word(0, k_most);
  record.k_blocks = std::max<std::int64_t>((cols + record.k_block - 1) / record.k_block, 1);
  record.tile_ends = reader.words();
  record.segment_offsets = reader.words();
  record.weight_offsets = reader.words();
  record.tile_nnz_ends = reader.words();
  record.empty_rows = ranges_of(reader.words(), record.header.rows, "empty rows");
  record.rows_of_b = ranges_of(reader.words(), cols, "rows of B");
  record.loop_columns = reader.word(0, k_most);
  record.row_ptrs = reader.words();
  reader.finish();
  check_unrolled(record, image, cancel);
  return record;
}

}  // namespace spjit
