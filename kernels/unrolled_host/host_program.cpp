#include "kernels/unrolled_host/host_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>

#include "base/arithmetic.hpp"
#include "base/elf_object.hpp"
#include "kernels/sliced/sliced_kernel.hpp"
#include "kernels/unrolled_host/llvm_emitter.hpp"
#include "matrix/rows_of_b.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

// "spjitprg" as little-endian bytes.
constexpr std::int64_t k_magic = 0x6772707469'6A7073;

template <class T>
std::span<const std::byte> bytes_of(const std::vector<T>& values) {
  return std::as_bytes(std::span(values));
}

/// Reads words one after another and refuses to read past the end.
class WordReader {
 public:
  WordReader(std::span<const std::byte> bytes, const Cancellation& cancel)
      : bytes_(bytes), cancel_(cancel) {
    if (bytes.size() % sizeof(std::int64_t) != 0) throw Error("program record: not whole words");
  }

  std::int64_t word() {
    if (bytes_.size() < sizeof(std::int64_t)) throw Error("program record: ends early");
    std::int64_t value = 0;
    std::memcpy(&value, bytes_.data(), sizeof(value));
    bytes_ = bytes_.subspan(sizeof(value));
    return value;
  }

  /// A scalar in [low, high].
  std::int64_t word(std::int64_t low, std::int64_t high) {
    const std::int64_t value = word();
    if (value < low || value > high) {
      throw Error(fmt::format("program record: {} where {} to {} was expected", value, low, high));
    }
    return value;
  }

  std::vector<std::int64_t> words() {
    const auto left = static_cast<std::int64_t>(bytes_.size() / sizeof(std::int64_t));
    const auto count = static_cast<std::size_t>(word(0, left - 1));
    std::vector<std::int64_t> values =
        filled(static_cast<std::int64_t>(count), std::int64_t{0}, cancel_);
    for_each_piece(std::ssize(values), cancel_, [&](std::int64_t begin, std::int64_t end) {
      std::memcpy(values.data() + begin, bytes_.data() + to_size(begin) * sizeof(std::int64_t),
                  to_size(end - begin) * sizeof(std::int64_t));
    });
    bytes_ = bytes_.subspan(count * sizeof(std::int64_t));
    return values;
  }

  void finish() const {
    if (!bytes_.empty()) throw Error("program record: bytes left over");
  }

 private:
  std::span<const std::byte> bytes_;
  const Cancellation& cancel_;
};

void append(std::vector<std::int64_t>& words, const std::vector<std::int64_t>& values,
            const Cancellation& cancel) {
  words.push_back(static_cast<std::int64_t>(values.size()));
  append_in_pieces(words, std::span(values), cancel);
}

/// First and one past the last row of each range.
std::vector<std::int64_t> words_of(const RowRanges& rows) {
  std::vector<std::int64_t> words;
  for (const RowRange& range : rows.ranges()) {
    words.push_back(range.begin);
    words.push_back(range.end);
  }
  return words;
}

void require(bool good, const char* what) {
  if (!good) throw Error(fmt::format("program record: {}", what));
}

bool ascending_within(const std::vector<std::int64_t>& values, std::int64_t low, std::int64_t high,
                      const Cancellation& cancel = {}) {
  std::int64_t last = low;
  bool good = true;
  for_each_piece(std::ssize(values), cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      const std::int64_t value = values[to_size(i)];
      good &= value >= last && value <= high;
      last = value;
    }
  });
  return good;
}

RowRanges ranges_of(const std::vector<std::int64_t>& words, std::int64_t rows, const char* what) {
  require(words.size() % 2 == 0, what);
  RowRanges ranges;
  std::int64_t end = -1;
  for (std::size_t i = 0; i < words.size(); i += 2) {
    // A range that touches the one before would have been part of it.
    require(words[i] > end && words[i + 1] > words[i] && words[i + 1] <= rows, what);
    end = words[i + 1];
    ranges.add(words[i], end);
  }
  return ranges;
}

void check_unrolled(const HostProgramRecord& record, const HostImage& image) {
  const auto segments = static_cast<std::size_t>(record.tiles * record.k_blocks);
  const auto text_end = static_cast<std::int64_t>(image.text.size()) - 1;
  const auto floats = static_cast<std::int64_t>(image.weights.size() / sizeof(float));
  require(record.segment_offsets.size() == segments, "segment count");
  require(record.weight_offsets.size() == segments, "weight offset count");
  require(record.tile_nnz_ends.size() == static_cast<std::size_t>(record.tiles), "tile count");
  require(ascending_within(record.segment_offsets, 0, text_end), "segment offsets");
  require(std::ranges::all_of(record.segment_offsets,
                              [](std::int64_t at) { return at % k_function_alignment == 0; }),
          "segments that are not aligned");
  require(ascending_within(record.weight_offsets, 0, floats), "weight offsets");
  require(ascending_within(record.tile_nnz_ends, 0, record.nnz), "tile ends");
  require(record.k_block * record.k_blocks >= record.cols, "k blocks do not cover k");
  require(registers_needed(record.tile) <= registers_of(record.isa), "tile beyond the registers");
  const std::int64_t width = record.tile.nv * lanes_of(record.isa);
  require(record.in_place_ldb == 0 || (record.in_place_ldb >= record.n && record.n >= width),
          "B in place is narrower than n or a panel");
}

void check_csr(const HostProgramRecord& record, const HostImage& image,
               const Cancellation& cancel) {
  require(record.kind != KernelKind::sliced || can_be_sliced(record.isa, record.n),
          "sliced columns");
  require(image.weights.size() == static_cast<std::size_t>(record.nnz) * 8, "csr size");
  require(record.row_ptrs.size() == static_cast<std::size_t>(record.rows) + 1, "csr row count");
  require(record.row_ptrs.front() == 0 && record.row_ptrs.back() == record.nnz, "csr ends");
  require(ascending_within(record.row_ptrs, 0, record.nnz, cancel), "csr row offsets");
  const std::byte* columns = image.weights.data() + image.weights.size() / 2;
  for_each_piece(record.nnz, cancel, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      std::int32_t column = 0;
      std::memcpy(&column, columns + i * 4, sizeof(column));
      require(column >= 0 && column < record.cols, "csr column out of range");
    }
  });
}

template <class T>
void append_bits(std::vector<std::uint32_t>& words, const std::vector<T>& values,
                 const Cancellation& cancel) {
  for_each_piece(std::ssize(values), cancel, [&](std::int64_t begin, std::int64_t end) {
    std::transform(values.begin() + begin, values.begin() + end, std::back_inserter(words),
                   [](T value) { return std::bit_cast<std::uint32_t>(value); });
  });
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
  return tile;
}

HostProgramRecord record_of(const KernelPlan& plan, const HostTile& tile,
                            const HostCodeShape& shape) {
  HostProgramRecord record;
  record.isa = shape.isa;
  record.rows = plan.rows;
  record.cols = plan.cols;
  record.nnz = plan.nnz();
  record.tile = tile;
  record.tiles = plan.grouping.tiles();
  record.k_block = plan.k_block;
  record.k_blocks = plan.k_blocks;
  record.empty_rows = plan.grouping.empty_rows;
  record.rows_of_b = rows_of_b(plan.columns, plan.cols, shape.cancel);
  for (std::int64_t t = 0; t < record.tiles; ++t) {
    const PlanSegment last = plan.segment(t, plan.k_blocks - 1);
    record.tile_nnz_ends.push_back(plan.entry_ptrs[static_cast<std::size_t>(last.column_end)]);
  }
  return record;
}

}  // namespace

HostImage HostArtifact::image() const noexcept {
  return {bytes_of(text), bytes_of(weights), bytes_of(program)};
}

HostArtifact make_unrolled_artifact(const KernelPlan& plan, const HostTile& tile,
                                    const HostCodeShape& shape) {
  const std::int64_t floats =
      shape.in_place_ldb > 0 ? shape.in_place_ldb : tile.nv * lanes_of(shape.isa);
  const std::int64_t stride = floats * 4;
  HostCode code = shape.isa == HostIsa::generic
                      ? emit_generic(plan, tile, stride, shape.cancel)
                      : emit_host(plan, tile, shape.isa, stride, shape.cancel);
  HostProgramRecord record = record_of(plan, tile, shape);
  record.n = shape.n;
  record.in_place_ldb = shape.in_place_ldb;
  record.segment_offsets = std::move(code.segment_offsets);
  record.weight_offsets = std::move(code.weight_offsets);

  HostArtifact artifact;
  artifact.text = std::move(code.text);
  artifact.weights.reserve(code.weights.size());
  append_bits(artifact.weights, code.weights, shape.cancel);
  artifact.program = write_program(record, shape.cancel);
  return artifact;
}

HostArtifact make_csr_artifact(const CsrMatrix& matrix, KernelKind kind,
                               const HostCodeShape& shape) {
  HostProgramRecord record;
  record.kind = kind;
  record.isa = shape.isa;
  record.rows = matrix.rows;
  record.cols = matrix.cols;
  record.n = shape.n;
  record.nnz = matrix.nnz();
  append_in_pieces(record.row_ptrs, std::span(matrix.row_ptrs), shape.cancel);

  HostArtifact artifact;
  artifact.weights.reserve(static_cast<std::size_t>(matrix.nnz()) * 2);
  append_bits(artifact.weights, matrix.values, shape.cancel);
  append_bits(artifact.weights, matrix.col_idxs, shape.cancel);
  artifact.program = write_program(record, shape.cancel);
  return artifact;
}

std::vector<std::int64_t> write_program(const HostProgramRecord& record,
                                        const Cancellation& cancel) {
  const HostTile& tile = record.tile;
  std::vector<std::int64_t> words = {k_magic,
                                     k_host_program_version,
                                     static_cast<std::int64_t>(record.kind),
                                     static_cast<std::int64_t>(record.isa),
                                     record.rows,
                                     record.cols,
                                     record.n,
                                     record.nnz,
                                     tile.m1,
                                     tile.nv,
                                     tile.k_block,
                                     tile.panel_group,
                                     tile.row_group,
                                     tile.pack_b ? 1 : 0,
                                     static_cast<std::int64_t>(tile.form),
                                     tile.memory_rows,
                                     tile.stream_c ? 1 : 0,
                                     record.tiles,
                                     record.k_block,
                                     record.in_place_ldb};
  append(words, record.segment_offsets, cancel);
  append(words, record.weight_offsets, cancel);
  append(words, record.tile_nnz_ends, cancel);
  append(words, words_of(record.empty_rows), cancel);
  append(words, words_of(record.rows_of_b), cancel);
  append(words, record.row_ptrs, cancel);
  return words;
}

HostProgramRecord read_program(const HostImage& image, const Cancellation& cancel) {
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;
  constexpr std::int64_t k_most_nnz = std::int64_t{1} << 48;
  WordReader reader(image.program, cancel);
  if (reader.word() != k_magic) throw Error("program record: not one of spjit");
  const std::int64_t version = reader.word();
  if (version != k_host_program_version) {
    throw Error(
        fmt::format("program record: version {}, this build reads version {}; compile again",
                    version, k_host_program_version));
  }
  HostProgramRecord record;
  record.kind = static_cast<KernelKind>(reader.word(0, 2));
  record.isa = static_cast<HostIsa>(reader.word(0, 2));
  record.rows = reader.word(0, k_most);
  record.cols = reader.word(0, k_most);
  record.n = reader.word(1, k_most);
  record.nnz = reader.word(0, k_most_nnz);
  record.tile = read_tile(reader);
  record.tiles = reader.word(0, k_most);
  record.k_block = reader.word(1, k_most);
  record.in_place_ldb = reader.word(0, k_most);
  record.k_blocks = std::max<std::int64_t>((record.cols + record.k_block - 1) / record.k_block, 1);
  record.segment_offsets = reader.words();
  record.weight_offsets = reader.words();
  record.tile_nnz_ends = reader.words();
  record.empty_rows = ranges_of(reader.words(), record.rows, "empty rows");
  record.rows_of_b = ranges_of(reader.words(), record.cols, "rows of B");
  record.row_ptrs = reader.words();
  reader.finish();
  if (record.kind == KernelKind::unrolled) {
    check_unrolled(record, image);
  } else {
    check_csr(record, image, cancel);
  }
  return record;
}

std::vector<std::byte> write_object(const HostImage& image, const std::string& name,
                                    const Cancellation& cancel) {
  ElfObject object;
  object.source_name = "spjit";
  const std::string prefix = "spjit_" + name;
  const auto add = [&](const std::string& section, std::span<const std::byte> bytes,
                       bool executable, const std::string& symbol) {
    object.sections.push_back({section, bytes, executable, 64});
    object.symbols.push_back({prefix + symbol, section, 0, bytes.size(),
                              executable ? ElfSymbolKind::function : ElfSymbolKind::object,
                              ElfBinding::global});
  };
  add(".text", image.text, true, "_text");
  add(".rodata.weights", image.weights, false, "_weights");
  add(".rodata.program", image.program, false, "_program");
  return write_elf_object(object, cancel);
}

HostImage read_object(std::span<const std::byte> object, const std::string& name) {
  const ElfObjectView view(object);
  const auto part = [&](const char* section, const std::string& symbol) {
    const ElfSectionView* found = view.find_section(section);
    if (found == nullptr || view.find_symbol("spjit_" + name + symbol) == nullptr) {
      throw Error(fmt::format("object has no spjit_{}{} in {}", name, symbol, section));
    }
    return found->bytes;
  };
  return {part(".text", "_text"), part(".rodata.weights", "_weights"),
          part(".rodata.program", "_program")};
}

}  // namespace spjit
