#include "kernels/csr_image.hpp"

#include <utility>

#include "base/arithmetic.hpp"

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
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int32_t column = read.col_idxs[to_size(i)];
      require_record(column >= 0 && column < header.cols, "csr column out of range");
    }
  });
}

}  // namespace

HostArtifact make_csr_artifact(const Problem& problem, const std::string& family, HostIsa isa,
                               const Cancellation& cancel) {
  const CsrMatrix& matrix = *problem.a;
  HostArtifact artifact;
  artifact.weights.reserve(to_size(matrix.nnz()) * 2);
  append_bits(artifact.weights, matrix.values, cancel);
  append_bits(artifact.weights, matrix.col_idxs, cancel);
  artifact.program = write_header(header_of(problem, family, isa));
  artifact.program.push_back(problem.panel_columns.value_or(k_csr_panel_columns));
  append_words(artifact.program, matrix.row_ptrs, cancel);
  return artifact;
}

CsrImage read_csr_image(const HostImage& image, const Cancellation& cancel) {
  WordReader reader(image.program, cancel);
  CsrImage read;
  read.header = read_header(reader);
  read.panel_columns = reader.word(1, k_most_panel_columns);
  read.row_ptrs = reader.words();
  reader.finish();
  require_record(image.text.empty(), "code that no csr kernel has");
  CsrImage csr = csr_of(read.header, std::move(read.row_ptrs), image.weights, cancel);
  csr.panel_columns = read.panel_columns;
  return csr;
}

CsrImage csr_of(const HostProgramHeader& header, std::vector<std::int64_t> row_ptrs,
                std::span<const std::byte> weights, const Cancellation& cancel) {
  CsrImage read;
  read.header = header;
  read.row_ptrs = std::move(row_ptrs);
  const auto nnz = to_size(header.nnz);
  require_record(weights.size() == nnz * 8, "csr size");
  require_record(reinterpret_cast<std::uintptr_t>(weights.data()) % alignof(float) == 0,
                 "weights that are not aligned");
  const std::byte* words = weights.data();
  read.values = {reinterpret_cast<const float*>(words), nnz};
  read.col_idxs = {reinterpret_cast<const std::int32_t*>(words + nnz * 4), nnz};
  check(read, cancel);
  return read;
}

}  // namespace spjit
