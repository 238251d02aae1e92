#include "kernels/unrolled_host/unrolled_executable.hpp"

#include <algorithm>
#include <cstring>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Floats of the pages that n floats lie in, of a row that has `stride`.
std::int64_t touched_of_row(std::int64_t n, std::int64_t stride) {
  constexpr std::int64_t k_page_floats = 1024;
  return std::min(stride, round_up(n, k_page_floats) + k_page_floats);
}

/// All but the segments.
HostProgram program_of(HostProgramRecord& record) {
  HostProgram program;
  program.rows = record.header.rows;
  program.cols = record.header.cols;
  program.n = record.header.n;
  program.lanes = lanes_of(record.header.isa);
  program.nv = record.tile.nv;
  program.m1 = record.rows_a_tile();
  program.tiles = record.tiles();
  program.k_block = record.k_block;
  program.k_blocks = record.k_blocks;
  program.in_place_ldb = record.in_place_ldb;
  program.stream_c = record.tile.stream_c && record.header.isa != HostIsa::generic;
  program.tile_weight_ends = std::move(record.tile_nnz_ends);
  program.empty_rows = std::move(record.empty_rows);
  program.rows_of_b = std::move(record.rows_of_b);
  return program;
}

}  // namespace

UnrolledExecutable::UnrolledExecutable(HostObject object, HostProgramRecord record)
    : HostExecutable(std::move(object)), program_(program_of(record)) {
  const HostImage& parts = *image();
  const std::byte* text = parts.text.data();
  if (!parts.text.empty() && !is_executable()) {
    code_ = ExecutableCode(parts.text);
    text = code_.code().data();
  }
  code_bytes_ = std::ssize(parts.text);
  const auto* weights = reinterpret_cast<const float*>(parts.weights.data());
  for (std::size_t i = 0; i < record.segment_offsets.size(); ++i) {
    const std::int64_t begin = record.segment_offsets[i];
    const std::int64_t end =
        i + 1 < record.segment_offsets.size() ? record.segment_offsets[i + 1] : code_bytes_;
    program_.segments.push_back(
        reinterpret_cast<HostSegment>(const_cast<std::byte*>(text + begin)));
    program_.weights.push_back(weights + record.weight_offsets[i]);
    program_.segment_bytes.push_back(end - begin);
  }
  program_ = in_order_of(record.tile);
  split_ = choose_split(program_, threads());
  workspace_ = {workspace_floats(program_, split_), touched_floats(program_, split_)};
}

HostProgram UnrolledExecutable::in_order_of(const HostTile& tile) const {
  HostProgram result = program_;
  result.panel_group = tile.panel_group;
  result.row_group = tile.row_group;
  // Half of L2: the rest is for B, C and weights.
  const bool prefetch = tile.panel_group > 1 && code_bytes_ > host_cpu().l2_bytes / 2;
  result.code = tile.read_ahead ? CodeFetch::read
                : prefetch      ? CodeFetch::prefetch
                                : CodeFetch::none;
  return result;
}

void UnrolledExecutable::run(const Arguments& arguments) const {
  if (program_.rows == 0) return;
  const bool panels = arguments.layout == Layout::panel_major;
  if (program_.in_place_ldb == 0 || (!panels && arguments.ldb == program_.in_place_ldb)) {
    const WorkspacePool::Loan workspace(workspaces(), workspace_);
    execute(program_, split_, arguments, workspace.data(), pool());
    return;
  }
  if (panels) {
    throw InvalidArgument(
        "this kernel reads B in place and cannot take panels; compile it with "
        "Problem::panel_columns");
  }
  run_copied(arguments);
}

/// The code has another distance between rows of B built in: brings B to it.
void UnrolledExecutable::run_copied(const Arguments& arguments) const {
  const std::int64_t stride = program_.in_place_ldb;
  const std::int64_t copy = checked_multiply(program_.cols, stride, "floats of a copy of B");
  const WorkspacePool::Loan workspace(
      workspaces(),
      {checked_add(copy, workspace_.floats, "floats of a copy of B and workspace"),
       program_.rows_of_b.count() * touched_of_row(program_.n, stride) + workspace_.touched});
  for (const RowRange& rows : program_.rows_of_b.ranges()) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      std::memcpy(workspace.data() + row * stride, arguments.b + row * arguments.ldb,
                  to_size(program_.n) * sizeof(float));
    }
  }
  Arguments moved = arguments;
  moved.b = workspace.data();
  moved.ldb = stride;
  execute(program_, split_, moved, workspace.data() + copy, pool());
}

}  // namespace spjit
