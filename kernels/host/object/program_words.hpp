#pragma once

/// @file
/// The program record of a host kernel: 64-bit words, written and read with checks.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "base/cancel.hpp"
#include "base/row_ranges.hpp"
#include "spjit/problem.hpp"
#include "spjit/target.hpp"

namespace spjit {

/// Changes whenever emitted code or a record's layout does: part of the cache key.
inline constexpr std::int64_t k_host_program_version = 12;

/// The beginning of every program record:
///   magic, version, family, isa, rows, cols, n, runtime_n, ldb, ldc, nnz, runtime_values,
///   b_layout, c_layout, epilogue, parts, convolution, numerics, group columns
/// An epilogue is 1 (scale) + 2 (bias) + 4 (residual), activation, low, high, alpha, beta, the last
/// four the bits of floats.
/// Parts are 1 (a convolution follows) + 2 (other numerics than the default do) + 4 (these quantise
/// B) + 8 (the columns of a group of A follow). A convolution is its sizes in their order, numerics
/// are the types of A, B and C, the promise, the bits of eps and, where B is quantised, how. The
/// magic is "spjitprg"; the isa 0 (avx512), 1 (avx2) or 2 (generic). The family is its name, at
/// most sixteen characters, as the bytes of two little-endian words.
struct HostProgramHeader {
  std::string family;
  HostIsa isa = HostIsa::generic;
  std::int64_t rows = 0;
  std::int64_t cols = 0;
  std::int64_t n = 0;
  bool runtime_n = false;
  std::int64_t ldb = 0;  ///< that was asked for: floats between rows of B
  std::int64_t ldc = 0;
  std::int64_t nnz = 0;
  bool runtime_values = false;
  Layout b_layout = Layout::row_major;
  Layout c_layout = Layout::row_major;
  Epilogue epilogue = {};
  std::optional<Convolution> convolution = {};
  Numerics numerics = {};
  std::int64_t group_columns = 0;  ///< of A that have a scale (GroupScales); 0: none

  friend bool operator==(const HostProgramHeader&, const HostProgramHeader&) = default;
};

/// The header of a kernel of `family` for a problem.
[[nodiscard]] HostProgramHeader header_of(const Problem& problem, std::string family, HostIsa isa);

/// Reads words one after another and refuses to read past the end. Every member throws Error.
class WordReader {
 public:
  explicit WordReader(std::span<const std::byte> bytes, Cancellation cancel = {});

  [[nodiscard]] std::int64_t word();
  /// A scalar in [low, high].
  [[nodiscard]] std::int64_t word(std::int64_t low, std::int64_t high);
  /// Reads words that append_words() wrote.
  [[nodiscard]] std::vector<std::int64_t> words();
  /// Throws if there is more.
  void finish() const;

 private:
  std::span<const std::byte> bytes_;
  Cancellation cancel_;
};

/// Throws Error `program record: WHAT` unless it is good.
void require_record(bool good, const char* what);

[[nodiscard]] std::vector<std::int64_t> write_header(const HostProgramHeader& header);
/// Throws Error for what is no record of this version.
[[nodiscard]] HostProgramHeader read_header(WordReader& reader);

/// Appends the number of values, then the values.
void append_words(std::vector<std::int64_t>& words, const std::vector<std::int64_t>& values,
                  const Cancellation& cancel = {});

/// First and one past the last row of each range, and back: ranges of rows below `rows`, ascending,
/// apart. Throws Error that calls them `what`.
[[nodiscard]] std::vector<std::int64_t> words_of(const RowRanges& rows);
[[nodiscard]] RowRanges ranges_of(const std::vector<std::int64_t>& words, std::int64_t rows,
                                  const char* what);

/// Whether the values ascend and lie in [low, high].
[[nodiscard]] bool ascending_within(const std::vector<std::int64_t>& values, std::int64_t low,
                                    std::int64_t high, const Cancellation& cancel = {});

}  // namespace spjit
