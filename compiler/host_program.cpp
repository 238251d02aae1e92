#include "compiler/host_program.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "compiler/llvm_emitter.hpp"
#include "compiler/rows_of_b.hpp"
#include "compiler/sliced_kernel.hpp"
#include "runtime/elf_object.hpp"
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
  explicit WordReader(std::span<const std::byte> bytes) : bytes_(bytes) {
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
    std::vector<std::int64_t> values(count);
    if (count > 0) std::memcpy(values.data(), bytes_.data(), count * sizeof(std::int64_t));
    bytes_ = bytes_.subspan(count * sizeof(std::int64_t));
    return values;
  }

  void finish() const {
    if (!bytes_.empty()) throw Error("program record: bytes left over");
  }

 private:
  std::span<const std::byte> bytes_;
};

void append(std::vector<std::int64_t>& words, const std::vector<std::int64_t>& values) {
  words.push_back(static_cast<std::int64_t>(values.size()));
  words.insert(words.end(), values.begin(), values.end());
}

void require(bool good, const char* what) {
  if (!good) throw Error(fmt::format("program record: {}", what));
}

bool ascending_within(const std::vector<std::int64_t>& values, std::int64_t low,
                      std::int64_t high) {
  std::int64_t last = low;
  for (const std::int64_t value : values) {
    if (value < last || value > high) return false;
    last = value;
  }
  return true;
}

void check_unrolled(const HostProgramRecord& record, const HostImage& image) {
  const auto segments = static_cast<std::size_t>(record.tiles * record.k_blocks);
  const auto text_end = static_cast<std::int64_t>(image.text.size()) - 1;
  const auto floats = static_cast<std::int64_t>(image.weights.size() / sizeof(float));
  require(record.segment_offsets.size() == segments, "segment count");
  require(record.weight_offsets.size() == segments, "weight offset count");
  require(record.tile_nnz_ends.size() == static_cast<std::size_t>(record.tiles), "tile count");
  require(ascending_within(record.segment_offsets, 0, text_end), "segment offsets");
  require(ascending_within(record.weight_offsets, 0, floats), "weight offsets");
  require(ascending_within(record.tile_nnz_ends, 0, record.nnz), "tile ends");
  require(record.k_block * record.k_blocks >= record.cols, "k blocks do not cover k");
  require(record.rows_of_b.size() % 2 == 0 && ascending_within(record.rows_of_b, 0, record.cols),
          "rows of B");
  require(registers_needed(record.tile) <= registers_of(record.isa), "tile beyond the registers");
  const std::int64_t width = record.tile.nv * lanes_of(record.isa);
  require(record.in_place_ldb == 0 || (record.in_place_ldb >= record.n && record.n >= width),
          "B in place is narrower than n or a panel");
}

void check_csr(const HostProgramRecord& record, const HostImage& image) {
  require(record.kind != KernelKind::sliced || can_be_sliced(record.isa, record.n),
          "sliced columns");
  require(image.weights.size() == static_cast<std::size_t>(record.nnz) * 8, "csr size");
  require(record.row_ptrs.size() == static_cast<std::size_t>(record.rows) + 1, "csr row count");
  require(record.row_ptrs.front() == 0 && record.row_ptrs.back() == record.nnz, "csr ends");
  require(ascending_within(record.row_ptrs, 0, record.nnz), "csr row offsets");
  const std::byte* columns = image.weights.data() + image.weights.size() / 2;
  for (std::int64_t i = 0; i < record.nnz; ++i) {
    std::int32_t column = 0;
    std::memcpy(&column, columns + i * 4, sizeof(column));
    require(column >= 0 && column < record.cols, "csr column out of range");
  }
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

HostProgramRecord record_of(const KernelPlan& plan, const HostTile& tile, HostIsa isa) {
  HostProgramRecord record;
  record.isa = isa;
  record.rows = plan.rows;
  record.cols = plan.cols;
  record.nnz = plan.nnz();
  record.tile = tile;
  record.tiles = plan.grouping.tiles();
  record.k_block = plan.k_block;
  record.k_blocks = plan.k_blocks;
  record.empty_rows.assign(plan.grouping.empty_rows.begin(), plan.grouping.empty_rows.end());
  for (const RowRange& rows : rows_of_b(plan.columns, plan.cols)) {
    record.rows_of_b.insert(record.rows_of_b.end(), {rows.begin, rows.end});
  }
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
  HostProgramRecord record = record_of(plan, tile, shape.isa);
  record.n = shape.n;
  record.in_place_ldb = shape.in_place_ldb;
  record.segment_offsets = std::move(code.segment_offsets);
  record.weight_offsets = std::move(code.weight_offsets);

  HostArtifact artifact;
  artifact.text = std::move(code.text);
  artifact.weights.resize(code.weights.size());
  std::ranges::transform(code.weights, artifact.weights.begin(),
                         [](float weight) { return std::bit_cast<std::uint32_t>(weight); });
  artifact.program = write_program(record);
  return artifact;
}

HostArtifact make_csr_artifact(const CsrMatrix& matrix, KernelKind kind, HostIsa isa,
                               std::int64_t n) {
  HostProgramRecord record;
  record.kind = kind;
  record.isa = isa;
  record.rows = matrix.rows;
  record.cols = matrix.cols;
  record.n = n;
  record.nnz = matrix.nnz();
  record.row_ptrs = matrix.row_ptrs;

  HostArtifact artifact;
  artifact.weights.reserve(static_cast<std::size_t>(matrix.nnz()) * 2);
  for (const float value : matrix.values) {
    artifact.weights.push_back(std::bit_cast<std::uint32_t>(value));
  }
  for (const std::int32_t column : matrix.col_idxs) {
    artifact.weights.push_back(static_cast<std::uint32_t>(column));
  }
  artifact.program = write_program(record);
  return artifact;
}

std::vector<std::int64_t> write_program(const HostProgramRecord& record) {
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
  append(words, record.segment_offsets);
  append(words, record.weight_offsets);
  append(words, record.tile_nnz_ends);
  append(words, record.empty_rows);
  append(words, record.rows_of_b);
  append(words, record.row_ptrs);
  return words;
}

HostProgramRecord read_program(const HostImage& image) {
  constexpr std::int64_t k_most = (std::int64_t{1} << 31) - 1;
  constexpr std::int64_t k_most_nnz = std::int64_t{1} << 48;
  WordReader reader(image.program);
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
  record.empty_rows = reader.words();
  record.rows_of_b = reader.words();
  record.row_ptrs = reader.words();
  reader.finish();
  require(ascending_within(record.empty_rows, 0, record.rows - 1), "empty rows");
  if (record.kind == KernelKind::unrolled) {
    check_unrolled(record, image);
  } else {
    check_csr(record, image);
  }
  return record;
}

std::vector<std::byte> write_object(const HostImage& image, const std::string& name) {
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
  return write_elf_object(object);
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
