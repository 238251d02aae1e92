#include "kernels/host/unrolled/unrolled_executable.hpp"

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "kernels/host/loops/compact_loop.hpp"
#include "kernels/host/object/csr_view.hpp"
#include "kernels/host/unrolled/weight_positions.hpp"
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
  program.isa = record.header.isa;
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

UnrolledMultiplier::UnrolledMultiplier(const HostObject& object, HostProgramRecord record,
                                       const Cancellation& cancel)
    : Multiplier(HostThreads(object.pool)),
      program_(program_of(record)),
      weights_(weights_of(record, object.image)),
      loop_columns_(record.loop_columns) {
  if (!record.row_ptrs.empty()) {
    loop_ = make_compact_loop({object.image, object.owner, object.pool},
                              loop_of(record, object.image, cancel), cancel);
  }
  const HostImage& parts = object.image;
  const std::byte* text = parts.text.data();
  if (!parts.text.empty() && !object.executable) {
    code_ = ExecutableCode(parts.text);
    text = code_.code().data();
  }
  code_bytes_ = std::ssize(parts.text);
  program_.weights = reinterpret_cast<const float*>(weights_.data());
  program_.weight_offsets = std::move(record.weight_offsets);
  for (std::size_t i = 0; i < record.segment_offsets.size(); ++i) {
    const std::int64_t begin = record.segment_offsets[i];
    const std::int64_t end =
        i + 1 < record.segment_offsets.size() ? record.segment_offsets[i + 1] : code_bytes_;
    program_.segments.push_back(
        reinterpret_cast<HostSegment>(const_cast<std::byte*>(text + begin)));
    program_.segment_bytes.push_back(end - begin);
  }
  program_ = in_order_of(record.tile);
  plan_ = plan_for(record.header.n, threads().count());
}

const Executable* UnrolledMultiplier::suited_to_few(Arguments& arguments) const {
  if (loop_ == nullptr || arguments.n > loop_columns_) return nullptr;
  if (arguments.values != nullptr) {
    arguments.values = &dynamic_cast<const UnrolledValues&>(*arguments.values->stream()).of_loop;
  }
  return loop_.get();
}

std::shared_ptr<const PreparedValues::Stream> UnrolledMultiplier::prepare_values(
    std::uint64_t kernel, std::span<const float> values) const {
  const auto prepared = std::make_shared<UnrolledValues>(kernel);
  prepared->weights = values_at(weights_, values);
  if (loop_ != nullptr) prepared->of_loop = PreparedValues(loop_->prepare_values(values));
  return prepared;
}

UnrolledMultiplier::RunPlan UnrolledMultiplier::plan_for(std::int64_t n,
                                                         std::int64_t threads) const {
  const HostSplit split = choose_split(program_, n, threads);
  return {split, {workspace_floats(program_, split), touched_floats(program_, split)}};
}

HostProgram UnrolledMultiplier::in_order_of(const HostTile& tile) const {
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

/// Code comes from memory for each group, so there are few. In place the last panel reaches back
/// over columns of the one before it.
ColumnGroups UnrolledMultiplier::column_groups(bool in_place) const noexcept {
  const std::int64_t columns = in_place ? 1024 : 256;
  const std::int64_t width = program_.panel_width();
  return {round_up(columns, width), width, program_.in_place_ldb > 0};
}

UnrolledMultiplier::RunPlan UnrolledMultiplier::plan_of(const Product& product) const {
  const bool is_planned = product.n == plan_.split.n && !product.serial;
  return is_planned ? plan_ : plan_for(product.n, product.serial ? 1 : threads().count());
}

/// Whether the code can read B where it is.
bool UnrolledMultiplier::reads_in_place(const Product& product) const noexcept {
  return product.layout == Layout::panel_major || program_.in_place_ldb == 0 ||
         product.ldb == program_.in_place_ldb;
}

WorkspaceNeed UnrolledMultiplier::workspace_need(const Product& product) const {
  if (program_.rows == 0) return {};
  const std::int64_t own = plan_of(product).workspace.floats;
  if (reads_in_place(product) && !may_straddle_lines(product)) return {1, own};
  return {1, checked_add(copy_size(product).floats, own, "floats of a copy of B and workspace")};
}

void UnrolledMultiplier::multiply(const Product& product) const {
  if (program_.rows == 0) return;
  const bool panels = product.layout == Layout::panel_major;
  const bool in_place = program_.in_place_ldb > 0;
  if (panels && in_place) {
    throw InvalidArgument(
        "this kernel reads B in place and cannot take panels; compile it with "
        "Problem::panel_columns");
  }
  const RunPlan plan = plan_of(product);
  if (!reads_in_place(product)) {
    run_copied(product, plan);
    return;
  }
  if (straddles_lines(product)) {
    try {
      run_copied(product, plan);
      return;
    } catch (const NoMemory&) {
      // The code can read B where it is, too.
    }
  }
  const WorkspacePool::Loan workspace(threads().workspaces(), plan.workspace, product.workspace);
  execute(program_, plan.split, product, workspace.data(),
          product.serial ? nullptr : threads().pool());
}

/// Whether vectors of B that code reads where they are straddle cache lines, so often that a copy
/// which does not is worth it: B of few rows stays in L1, where that costs little
/// (docs/results/host.md). Not of a B so large that there may be no room for it twice.
bool UnrolledMultiplier::straddles_lines(const Product& product) const {
  const std::size_t vector_bytes = to_size(program_.lanes) * sizeof(float);
  return reinterpret_cast<std::uintptr_t>(product.b) % vector_bytes != 0 &&
         may_straddle_lines(product);
}

/// Whether straddles_lines() holds for a B that begins within a cache line.
bool UnrolledMultiplier::may_straddle_lines(const Product& product) const {
  constexpr double k_enough_entries = 16;
  constexpr std::int64_t k_enough_rows = 128;
  if (product.has_tokens || product.places != nullptr) return false;
  const std::int64_t stride =
      product.layout == Layout::panel_major ? program_.panel_width() : program_.in_place_ldb;
  constexpr std::int64_t k_least_lanes = 8;  // of AVX2; a fourth of SSE's loads would straddle
  if (program_.lanes < k_least_lanes || stride == 0 || stride % program_.lanes != 0) return false;
  const std::int64_t nnz = program_.tiles > 0 ? program_.tile_weight_ends.back() : 0;
  constexpr std::int64_t k_most_floats = std::int64_t{1} << 26;  // 256 MB
  return program_.cols >= k_enough_rows &&
         entries_a_column(nnz, program_.cols) >= k_enough_entries &&
         copy_size(product).touched <= k_most_floats;
}

/// Of a copy of B.
WorkspaceSize UnrolledMultiplier::copy_size(const Product& product) const {
  const std::int64_t read = program_.rows_of_b.count();
  if (product.layout == Layout::panel_major) {
    const PanelLayout panels = program_.b_layout(product.n);
    return {panels.size(), read * program_.panel_width() * panels.panels()};
  }
  const std::int64_t stride = program_.in_place_ldb;
  return {checked_multiply(program_.cols, stride, "floats of a copy of B"),
          read * touched_of_row(product.n, stride)};
}

/// B is not where or as the code can read it, or not fast: runs on a copy.
void UnrolledMultiplier::run_copied(const Product& product, const RunPlan& plan) const {
  const WorkspaceSize copy = copy_size(product);
  const WorkspacePool::Loan workspace(
      threads().workspaces(),
      {checked_add(copy.floats, plan.workspace.floats, "floats of a copy of B and workspace"),
       copy.touched + plan.workspace.touched},
      product.workspace);
  Product moved = product;
  moved.b = workspace.data();
  moved.ldb = program_.in_place_ldb;
  threads().run_tasks(plan.split.threads, product.serial, [&](std::int64_t part) {
    const RowRange rows{program_.cols * part / plan.split.threads,
                        program_.cols * (part + 1) / plan.split.threads};
    if (rows.begin < rows.end) copy_rows_of_b(product, rows, workspace.data());
  });
  execute(program_, plan.split, moved, workspace.data() + copy.floats,
          product.serial ? nullptr : threads().pool());
}

void UnrolledMultiplier::copy_rows_of_b(const Product& from, const RowRange& rows,
                                        float* to) const {
  const std::int64_t width = program_.panel_width();
  const PanelLayout layout = program_.b_layout(from.n);
  program_.rows_of_b.for_each_within(rows, [&](const RowRange& read) {
    if (from.layout == Layout::panel_major) {
      const std::size_t bytes = to_size((read.end - read.begin) * width) * sizeof(float);
      for (std::int64_t panel = 0; panel < layout.panels(); ++panel) {
        const std::int64_t at = panel * layout.stride() + read.begin * width;
        std::memcpy(to + at, from.b + at, bytes);
      }
      return;
    }
    const bool has_gaps = from.ldb != from.n || program_.in_place_ldb != from.n;
    const std::int64_t at_once = has_gaps ? 1 : read.end - read.begin;
    for (std::int64_t row = read.begin; row < read.end; row += at_once) {
      std::memcpy(to + row * program_.in_place_ldb, from.b + row * from.ldb,
                  to_size(at_once * from.n) * sizeof(float));
    }
  });
}

}  // namespace spjit
