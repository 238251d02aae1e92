#include "kernels/spmm_kernel_impl.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <cstring>

#include "base/arithmetic.hpp"
#include "base/checked.hpp"
#include "base/host_cpu.hpp"
#include "matrix/limits.hpp"
#include "runtime/host/host_isa.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Columns a panel of a csr or sliced kernel's panel-major B and C has: one AVX-512 vector.
constexpr std::int64_t k_csr_panel_columns = 16;

/// From here on a workspace of which a run touches less than half is mapped sparsely.
constexpr std::int64_t k_sparse_floats = std::int64_t{1} << 28;

FloatBuffer workspace_of(const WorkspaceSize& wanted) {
  try {
    // Pages are promised before they are there: who takes more than there is gets killed.
    constexpr auto k_float_bytes = static_cast<std::int64_t>(sizeof(float));
    if (wanted.touched > memory_bytes() / k_float_bytes) throw std::bad_alloc();
    if (wanted.floats < k_sparse_floats || wanted.touched > wanted.floats / 2) {
      return FloatBuffer(to_size(wanted.floats));
    }
    return FloatBuffer::sparse(to_size(wanted.floats));
  } catch (const std::bad_alloc&) {
    throw NoMemory(
        fmt::format("a run needs a workspace of {:.2f} GB, and addresses for {:.2f} GB: more than "
                    "there are; use fewer columns, or B with the leading dimension that the kernel "
                    "was compiled for",
                    4e-9 * as_double(wanted.touched), 4e-9 * as_double(wanted.floats)));
  }
}

/// Floats of the pages that n floats lie in, of a row that has `stride`.
std::int64_t touched_of_row(std::int64_t n, std::int64_t stride) {
  constexpr std::int64_t k_page_floats = 1024;
  return std::min(stride, round_up(n, k_page_floats) + k_page_floats);
}

}  // namespace

WorkspacePool::Loan::Loan(const WorkspacePool& pool, const WorkspaceSize& wanted) : pool_(pool) {
  if (wanted.floats == 0) return;
  const std::size_t size = to_size(wanted.floats);
  {
    const std::lock_guard lock(pool.mutex_);
    const auto fit = std::ranges::find_if(
        pool.idle_, [size](const FloatBuffer& buffer) { return buffer.size() >= size; });
    if (fit != pool.idle_.end()) {
      buffer_ = std::move(*fit);
      pool.idle_.erase(fit);
      return;
    }
  }
  buffer_ = workspace_of(wanted);
}

WorkspacePool::Loan::~Loan() {
  if (buffer_.data() == nullptr) return;
  const std::lock_guard lock(pool_.mutex_);
  try {
    pool_.idle_.push_back(std::move(buffer_));
  } catch (const std::bad_alloc&) {  // then it is freed
  }
}

SpmmKernel::Impl::Impl(const HostImage& image_in, ImageOwner owner,
                       std::shared_ptr<ThreadPool> pool)
    : image(image_in), owner_(std::move(owner)), pool_(std::move(pool)) {}

std::shared_ptr<SpmmKernel::Impl> SpmmKernel::Impl::load(const HostImage& image, ImageOwner owner,
                                                         std::shared_ptr<ThreadPool> pool,
                                                         const Cancellation& cancel) {
  HostProgramRecord record = read_program(image, cancel);
  require_isa(host_cpu(), record.isa);
  std::shared_ptr<Impl> impl(new Impl(image, std::move(owner), std::move(pool)));
  const std::byte* text = nullptr;
  if (!image.text.empty()) {
    impl->code_ = ExecutableCode(image.text);
    text = impl->code_.code().data();
  }
  impl->prepare(std::move(record), text, cancel);
  return impl;
}

std::shared_ptr<SpmmKernel::Impl> SpmmKernel::Impl::link(const HostImage& image,
                                                         std::shared_ptr<ThreadPool> pool) {
  HostProgramRecord record = read_program(image);
  require_isa(host_cpu(), record.isa);
  std::shared_ptr<Impl> impl(new Impl(image, {}, std::move(pool)));
  impl->prepare(std::move(record), image.text.data(), {});
  return impl;
}

void SpmmKernel::Impl::prepare(HostProgramRecord record, const std::byte* text,
                               const Cancellation& cancel) {
  info.kind = record.kind;
  info.target = Target(record.isa);
  info.rows = record.rows;
  info.cols = record.cols;
  info.n = record.n;
  info.nnz = record.nnz;
  info.threads = pool_ == nullptr ? 1 : pool_->threads();
  info.code_bytes = static_cast<std::int64_t>(image.text.size());
  info.weight_bytes = static_cast<std::int64_t>(image.weights.size());
  if (record.kind == KernelKind::unrolled) {
    prepare_unrolled(std::move(record), text);
    return;
  }
  prepare_csr(std::move(record));
  if (info.kind == KernelKind::sliced) {
    sliced_ = SlicedMatrix(csr_, cancel);
    sliced_parts_ = sliced_.split(info.threads, info.n);
  }
}

void SpmmKernel::Impl::prepare_unrolled(HostProgramRecord record, const std::byte* text) {
  program.rows = record.rows;
  program.cols = record.cols;
  program.n = record.n;
  program.lanes = lanes_of(record.isa);
  program.nv = record.tile.nv;
  program.m1 = record.tile.m1;
  program.tiles = record.tiles;
  program.k_block = record.k_block;
  program.k_blocks = record.k_blocks;
  program.in_place_ldb = record.in_place_ldb;
  program.stream_c = record.tile.stream_c && record.isa != HostIsa::generic;
  program.tile_weight_ends = record.tile_nnz_ends;
  program.empty_rows = std::move(record.empty_rows);
  program.rows_of_b = std::move(record.rows_of_b);
  const auto* weights = reinterpret_cast<const float*>(image.weights.data());
  for (std::size_t i = 0; i < record.segment_offsets.size(); ++i) {
    const std::int64_t begin = record.segment_offsets[i];
    const std::int64_t end = i + 1 < record.segment_offsets.size()
                                 ? record.segment_offsets[i + 1]
                                 : static_cast<std::int64_t>(image.text.size());
    program.segments.push_back(reinterpret_cast<HostSegment>(const_cast<std::byte*>(text + begin)));
    program.weights.push_back(weights + record.weight_offsets[i]);
    program.segment_bytes.push_back(end - begin);
  }
  program = walked(record.tile);
  split_ = choose_split(program, info.threads);
  workspace_ = {workspace_floats(program, split_), touched_floats(program, split_)};
  info.tile = to_string(record.tile);
  info.panel_columns = program.panel_width();
}

HostProgram SpmmKernel::Impl::walked(const HostTile& tile) const {
  HostProgram result = program;
  result.panel_group = tile.panel_group;
  result.row_group = tile.row_group;
  // Half of L2: the rest is for B, C and weights.
  result.prefetch_code = tile.panel_group > 1 && info.code_bytes > host_cpu().l2_bytes / 2;
  return result;
}

void SpmmKernel::Impl::prepare_csr(HostProgramRecord record) {
  const auto nnz = static_cast<std::size_t>(record.nnz);
  const auto* words = image.weights.data();
  csr_row_ptrs_ = std::move(record.row_ptrs);
  csr_ = {record.rows,
          record.cols,
          csr_row_ptrs_,
          {reinterpret_cast<const std::int32_t*>(words + nnz * 4), nnz},
          {reinterpret_cast<const float*>(words), nnz}};
  csr_parts_ = split_rows(csr_, info.threads);
  program.rows = record.rows;
  program.cols = record.cols;
  program.n = record.n;
  program.lanes = k_csr_panel_columns;
  program.nv = 1;
  info.panel_columns = k_csr_panel_columns;
}

void SpmmKernel::Impl::run(const HostOperands& operands) const {
  if (program.rows == 0) return;
  if (info.kind == KernelKind::unrolled) {
    run_unrolled(operands);
  } else if (info.kind == KernelKind::sliced && operands.ldb > 0) {
    run_sliced(operands);
  } else {
    run_csr_kernel(operands);
  }
}

void SpmmKernel::Impl::run_csr_kernel(const HostOperands& operands) const {
  const std::int64_t width = program.panel_width();
  const auto part = [&](const RowRange& rows) {
    if (operands.ldb > 0) {
      run_csr(csr_, info.target.isa(), rows,
              {operands.b, operands.ldb, operands.c, operands.ldc, program.n});
      return;
    }
    const PanelLayout b = program.b_layout();
    const PanelLayout c = program.c_layout();
    for (std::int64_t panel = 0; panel < b.panels(); ++panel) {
      run_csr(
          csr_, info.target.isa(), rows,
          {operands.b + panel * b.stride(), width, operands.c + panel * c.stride(), width, width});
    }
  };
  run_parts(csr_parts_, part);
}

void SpmmKernel::Impl::run_sliced(const HostOperands& operands) const {
  const DenseOperands dense{operands.b, operands.ldb, operands.c, operands.ldc, program.n};
  SlicedOperands sliced{operands.b, operands.c, operands.ldc, program.n};
  const bool in_place = sliced_.takes_in_place(dense);
  WorkspaceSize copy;
  if (!in_place) copy = {sliced_.column_floats() * program.n, sliced_.copied_floats() * program.n};
  const WorkspacePool::Loan workspace(workspaces_, copy);
  if (!in_place) {
    sliced_.copy_columns(dense, workspace.data());
    sliced.b = workspace.data();
  }
  sliced_.zero_empty_rows(sliced);
  run_parts(sliced_parts_, [&](const RowRange& slices) { sliced_.run(slices, sliced); });
}

template <class Part>
void SpmmKernel::Impl::run_parts(const std::vector<RowRange>& parts, const Part& part) const {
  if (pool_ == nullptr || parts.size() <= 1) {
    std::ranges::for_each(parts, part);
    return;
  }
  pool_->run(static_cast<int>(parts.size()),
             [&](int task, int) { part(parts[static_cast<std::size_t>(task)]); });
}

void SpmmKernel::Impl::run_unrolled(const HostOperands& operands) const {
  if (program.in_place_ldb == 0 || operands.ldb == program.in_place_ldb) {
    const WorkspacePool::Loan workspace(workspaces_, workspace_);
    execute(program, split_, operands, workspace.data(), pool_.get());
    return;
  }
  if (operands.ldb == 0) {
    throw InvalidArgument(
        "this kernel reads B in place and cannot take panels; compile it with "
        "CompileOptions::panel_columns");
  }
  // The code has another distance between rows of B built in: bring B to it.
  const std::int64_t stride = program.in_place_ldb;
  const std::int64_t copy = checked_multiply(program.cols, stride, "floats of a copy of B");
  const WorkspacePool::Loan workspace(
      workspaces_,
      {checked_add(copy, workspace_.floats, "floats of a copy of B and workspace"),
       program.rows_of_b.count() * touched_of_row(program.n, stride) + workspace_.touched});
  for (const RowRange& rows : program.rows_of_b.ranges()) {
    for (std::int64_t row = rows.begin; row < rows.end; ++row) {
      std::memcpy(workspace.data() + row * stride, operands.b + row * operands.ldb,
                  static_cast<std::size_t>(program.n) * sizeof(float));
    }
  }
  const HostOperands moved{workspace.data(), stride, operands.c, operands.ldc};
  execute(program, split_, moved, workspace.data() + copy, pool_.get());
}

}  // namespace spjit
