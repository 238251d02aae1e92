#include "kernels/host/object/csr_image.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

#include "base/arithmetic.hpp"
#include "kernels/host/object/stored_values.hpp"
#include "matrix/column_numbers.hpp"

namespace spjit {
namespace {

/// Above what Problem::panel_columns may be: rows * width fits 64 bits.
constexpr std::int64_t k_most_panel_columns = 1024;

void check(const CsrImage& read, const Cancellation& cancel) {
  const HostProgramHeader& header = read.header;
  require_record(read.row_ptrs.size() == to_size(header.rows) + 1, "csr row count");
  require_record(read.row_ptrs.front() == 0 && read.row_ptrs.back() == header.nnz, "csr ends");
  require_record(ascending_within(read.row_ptrs, 0, header.nnz, cancel), "csr row offsets");
  for_each_piece(header.nnz, cancel, [&](std::int64_t begin, std::int64_t end) {
    const auto piece = read.col_idxs.subspan(to_size(begin), to_size(end - begin));
    require_record(columns_are_within(piece, header.cols), "csr column out of range");
  });
}

}  // namespace

HostArtifact make_csr_artifact(const Problem& problem, const std::string& family, HostIsa isa,
                               const Cancellation& cancel) {
  HostArtifact artifact;
  append_csr(artifact.weights, problem, cancel);
  if (problem.group_scales != nullptr) {
    append_bits(artifact.weights, problem.group_scales->values, cancel);
  }
  artifact.program = write_header(header_of(problem, family, isa));
  artifact.program.push_back(problem.panel_columns.value_or(k_csr_panel_columns));
  append_words(artifact.program, problem.a->row_ptrs, cancel);
  return artifact;
}

void append_csr(std::vector<std::uint32_t>& weights, const Problem& problem,
                const Cancellation& cancel) {
  const CsrMatrix& matrix = *problem.a;
  const DataType type = stored_type(problem.numerics);
  const std::int64_t value_words = stored_bytes(type, matrix.nnz()) / 4;
  weights.reserve(weights.size() + to_size(value_words + matrix.nnz()));
  if (!problem.runtime_values && type == DataType::f32) {
    append_bits(weights, matrix.values, cancel);
  } else if (!problem.runtime_values) {
    append_values(weights, type, matrix.values, cancel);
  }
  append_bits(weights, matrix.col_idxs, cancel);
}

DataType stored_type(const Numerics& numerics) noexcept {
  return numerics.accumulate.promise == Promise::ordered ? numerics.a : DataType::f32;
}

std::int64_t csr_bytes(const HostProgramHeader& header) noexcept {
  const DataType type = stored_type(header.numerics);
  return header.nnz * 4 + (header.runtime_values ? 0 : stored_bytes(type, header.nnz));
}

std::int64_t group_scale_bytes(const HostProgramHeader& header) {
  if (header.group_columns == 0) return 0;
  constexpr std::int64_t k_scale_bytes = sizeof(float);
  const std::int64_t groups = groups_of(header.cols, header.group_columns);
  return checked_multiply(checked_multiply(header.rows, groups, "scales of groups"), k_scale_bytes,
                          "bytes of scales of groups");
}

std::vector<float> CsrImage::widen() const {
  return read_values(stored_type(header.numerics), stored_values, std::ssize(col_idxs));
}

CsrImage read_csr_image(const HostImage& image, const Cancellation& cancel) {
  WordReader reader(image.program, cancel);
  CsrImage read;
  read.header = read_header(reader);
  read.panel_columns = reader.word(1, k_most_panel_columns);
  read.row_ptrs = reader.words();
  reader.finish();
  require_record(image.text.empty(), "code that no csr kernel has");
  const std::int64_t scale_bytes = group_scale_bytes(read.header);
  require_record(std::ssize(image.weights) >= scale_bytes, "csr size");
  CsrImage csr = csr_of(read.header, std::move(read.row_ptrs),
                        image.weights.first(image.weights.size() - to_size(scale_bytes)), cancel);
  csr.groups = {read.header.group_columns,
                {reinterpret_cast<const float*>(image.weights.last(to_size(scale_bytes)).data()),
                 to_size(scale_bytes) / sizeof(float)}};
  for_each_piece(std::ssize(csr.groups.values), cancel, [&](std::int64_t begin, std::int64_t end) {
    const auto piece = csr.groups.values.subspan(to_size(begin), to_size(end - begin));
    require_record(std::ranges::all_of(piece, is_group_scale), "csr scales of groups");
  });
  csr.panel_columns = read.panel_columns;
  return csr;
}

CsrImage csr_of(const HostProgramHeader& header, std::vector<std::int64_t> row_ptrs,
                std::span<const std::byte> weights, const Cancellation& cancel) {
  CsrImage read;
  read.header = header;
  read.row_ptrs = std::move(row_ptrs);
  const auto nnz = to_size(header.nnz);
  require_record(std::ssize(weights) == csr_bytes(header), "csr size");
  require_record(reinterpret_cast<std::uintptr_t>(weights.data()) % alignof(float) == 0,
                 "weights that are not aligned");
  const std::span<const std::byte> columns = weights.last(nnz * 4);
  read.col_idxs = {reinterpret_cast<const std::int32_t*>(columns.data()), nnz};
  const DataType type = stored_type(header.numerics);
  if (!header.runtime_values && type == DataType::f32) {
    read.values = {reinterpret_cast<const float*>(weights.data()), nnz};
  } else if (!header.runtime_values) {
    read.stored_values = weights.first(weights.size() - columns.size());
    read.widened = std::make_shared<const std::vector<float>>(
        read_values(type, read.stored_values, header.nnz, cancel));
    read.values = *read.widened;
  }
  check(read, cancel);
  return read;
}

}  // namespace spjit
