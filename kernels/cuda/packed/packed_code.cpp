#include "kernels/cuda/packed/packed_code.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "base/arithmetic.hpp"
#include "kernels/cuda/code/bit_code.hpp"
#include "kernels/cuda/code/cuda_epilogue.hpp"
#include "kernels/cuda/code/cuda_parameters.hpp"
#include "kernels/cuda/code/sizes.hpp"

namespace spjit {
namespace {

/// With 128 registers a thread an SM holds so many blocks.
constexpr std::int64_t k_packed_blocks = 4;
/// Floats of a unit, whatever type its values have.
constexpr std::int64_t k_unit_floats = k_packed_unit_bytes / k_float_bytes;
/// Columns of C that a lane adds up for a row.
constexpr std::int64_t k_lane_columns = 4;
/// Between lists of places in shared memory: lanes that read theirs side by side share no banks.
constexpr std::int64_t k_list_pitch = k_packed_chunk + 4;

/// Writes the kernel of one width.
class PackedEmission {
 public:
  PackedEmission(CudaCode& code, const PackedProgram& program, std::int64_t width)
      : code_(code),
        layer_(program.layer),
        values_(program.form.values),
        unit_(program.form.unit()),
        columns_(program.columns),
        is_far_(program.is_far),
        width_(width),
        lane_columns_(std::min(program.columns, k_lane_columns)),
        parts_(program.columns / lane_columns_),
        pitch_(program.columns + (parts_ > 1 ? 4 : 0)),
        loads_(k_packed_most_rows * k_packed_chunk / (unit_ * k_packed_threads)),
        b_at_(units_at_ + loads_ * k_packed_threads * k_unit_floats) {}

  void run() {
    code_.begin_kernel({packed_kernel_name(width_), k_packed_threads, k_packed_blocks,
                        b_at_ + (k_packed_chunk + 1) * pitch_},
                       packed_parameters());
    find_lane();
    find_columns();
    for (std::int64_t i = 0; i < lane_columns_; ++i) zero(sum_names(i, 1).front());
    code_.read("chunks");
    code_.set("some", compare("gt", "chunks", 0));
    code_.begin_if("some");
    multiply_chunks();
    code_.end();
    store();
    code_.end_kernel();
  }

 private:
  [[nodiscard]] bool has_tokens_of_b() const { return layer_.has_tokens_of_b(); }
  void zero(const std::string& name) { code_.set(name, copy(CodeType::f32, CodeOperand::of(0))); }

  /// Sets `row`, whose products the thread adds up, `row_place` in its group, `part`, the first of
  /// its columns of the block, and whether there is such a row.
  void find_lane() {
    code_.set("thread", special("tid.x"));
    code_.set("group", special("ctaid.x"));
    code_.read("group_rows");
    code_.set("row_place", shift_right("thread", shift_of(parts_)));
    code_.set("part", bit_and("thread", parts_ - 1));
    code_.set("part", multiply("part", lane_columns_));
    code_.set("row", multiply_add("group", "group_rows", "row_place"));
    code_.read("rows");
    code_.set("has_row", compare("lt", "row", "rows"));
    code_.set("in_group", compare("lt", "row_place", "group_rows"));
    code_.set("has_row", both("has_row", "in_group"));
  }

  /// Sets `first_j` of the block, the thread's `j`, and the product's `b`.
  void find_columns() {
    code_.set("column_tile", special("ctaid.y"));
    code_.read("first_tile");
    code_.set("column_tile", add("column_tile", "first_tile"));
    code_.set("first_j", multiply("column_tile", columns_));
    code_.set("j", add("first_j", "part"));
    code_.read("n");
    code_.set("item", special("ctaid.z"));
    code_.read("b");
    code_.read("b_distance");
    code_.move_to_item("b", "item", "b_distance");
    ldb_ = code_.stride("ldb", is_far_);
  }

  // From memory into registers: units, bitmaps and B of a chunk.

  void prepare_loads() {
    prepare_a();
    if (has_tokens_of_b()) {
      prepare_tokens();
    } else {
      prepare_rows();
    }
    code_.read("cols");
    code_.set("cols_left", copy(CodeType::u32, "cols"));
  }

  /// Four threads have a row's four bitmaps of a chunk, and know where the entries of theirs begin.
  void prepare_a() {
    for (const char* array : {"bitmaps", "starts", "values"}) code_.read(array);
    code_.set("first_place", multiply("group", "chunks"));
    code_.set("first_place", multiply("first_place", "group_rows"));
    code_.set("word_row", shift_right("thread", shift_of(k_packed_words)));
    code_.set("has_words", compare("lt", "word_row", "group_rows"));
    code_.set("word_place", add("first_place", "word_row"));
    code_.set("word_place", multiply("word_place", k_packed_words));
    code_.move("bitmaps", "bitmaps", "word_place");
    code_.set("word_number", bit_and("thread", k_packed_words - 1));
    code_.set("word_first", multiply("word_number", 32 * pitch_));
    code_.set("list", multiply("word_row", k_list_pitch));
    code_.move("group_starts", "starts", "first_place");
    code_.move("row_starts", "group_starts", "row_place");
    code_.load("unit_begin", {"group_starts"});
    code_.move("group_starts", "group_starts", "group_rows");
    code_.load("unit_end", {"group_starts"});
    code_.move("values", "values", "thread", {.fixed = k_unit_floats});
    code_.set("chunk_words", multiply("group_rows", k_packed_words));
  }

  /// Row-major: neighbouring threads have neighbouring columns of a row.
  void prepare_rows() {
    const std::int64_t across = columns_ / width_;
    code_.set("b_row", shift_right("thread", shift_of(across)));
    code_.set("b_column", bit_and("thread", across - 1));
    code_.set("b_column", multiply("b_column", width_));
    code_.set("b_place", multiply_add("b_row", pitch_, "b_column"));
    code_.set("b_column", add("b_column", "first_j"));
    code_.set("has_columns", compare("lt", "b_column", "n"));
    code_.move("from", "b", "b_column");
    code_.move("from", "from", "b_row", ldb_);
  }
  [[nodiscard]] std::int64_t b_loads() const { return columns_ / width_; }
  [[nodiscard]] std::int64_t rows_a_load() const { return k_packed_chunk / b_loads(); }

  /// Tokens: a thread has a feature of each of them. Behind the last one that one again, which
  /// costs no memory and needs no guards; what C would have of it nobody stores.
  void prepare_tokens() {
    code_.set("b_row", copy(CodeType::u32, "thread"));
    code_.set("b_place", multiply("b_row", pitch_));
    code_.move("from", "b", "b_row");
    code_.set("last_token", subtract("n", 1));
  }

  [[nodiscard]] static std::vector<std::string> names_of(std::string_view name, std::int64_t first,
                                                         std::int64_t count) {
    std::vector<std::string> names;
    names.reserve(to_size(count));
    for (std::int64_t i = 0; i < count; ++i) names.push_back(numbered(name, first + i));
    return names;
  }
  [[nodiscard]] static std::vector<std::string> unit_names(std::int64_t load) {
    return names_of(fmt::format("u{}_", load), 0, k_unit_floats);
  }
  /// What a thread has of B; as they lie in shared memory.
  [[nodiscard]] static std::vector<std::string> b_names(std::int64_t first, std::int64_t count) {
    return names_of("y", first, count);
  }

  /// Brings the next chunk of A and B, zeros past the last column.
  void load_chunk() {
    code_.set("units", subtract("unit_end", "unit_begin"));
    code_.move("from_units", "values", "unit_begin", {.fixed = k_unit_floats});
    for (std::int64_t i = 0; i < loads_; ++i) {
      is_unit(i);
      code_.load(unit_names(i), {"from_units", i * k_packed_threads * k_unit_floats}, {"is_unit"});
    }
    code_.load(names_of("word", 0, k_packed_words), {"bitmaps"}, {"has_words"});
    code_.load("row_begin", {"row_starts"}, {"has_row"});
    code_.load("row_end", {"row_starts", 1}, {"has_row"});
    code_.set("row_begin", subtract("row_begin", "unit_begin"));
    code_.set("row_end", subtract("row_end", "unit_begin"));
    code_.set("unit_begin", copy(CodeType::u32, "unit_end"));
    code_.move("group_starts", "group_starts", "group_rows");
    code_.load("unit_end", {"group_starts"});
    code_.move("row_starts", "row_starts", "group_rows");
    code_.move("bitmaps", "bitmaps", "chunk_words");
    if (has_tokens_of_b()) {
      load_tokens();
    } else {
      load_rows();
    }
    code_.set("here", smaller("cols_left", k_packed_chunk));
    code_.set("cols_left", subtract("cols_left", "here"));
  }
  /// Sets whether the thread's i-th unit is one of the chunk.
  void is_unit(std::int64_t i) {
    code_.set("unit", add("thread", i * k_packed_threads));
    code_.set("is_unit", compare("lt", "unit", "units"));
  }

  void load_rows() {
    for (std::int64_t i = 0; i < b_loads(); ++i) {
      code_.set("loaded_row", add("b_row", i * rows_a_load()));
      code_.set("loads", compare("lt", "loaded_row", "cols_left"));
      code_.set("loads", both("loads", "has_columns"));
      code_.move("from_now", "from", i * rows_a_load(), ldb_);
      code_.load(b_names(i * width_, width_), {"from_now"}, {"loads"});
    }
    code_.move("from", "from", k_packed_chunk, ldb_);
  }

  void load_tokens() {
    code_.set("has_feature", compare("lt", "b_row", "cols_left"));
    for (std::int64_t i = 0; i < columns_; ++i) {
      code_.set("token", add("first_j", i));
      code_.set("token", smaller("token", "last_token"));
      code_.move("from_now", "from", "token", ldb_);
      code_.load(b_names(i, 1), {"from_now"}, {"has_feature"});
    }
    code_.move("from", "from", k_packed_chunk);
  }

  // From registers into shared memory.

  void store_chunk() {
    code_.set("to", multiply("thread", k_unit_floats));
    code_.shared_at("to_units", "to");
    for (std::int64_t i = 0; i < loads_; ++i) {
      is_unit(i);
      code_.store(unit_names(i), {"to_units", units_at_ + i * k_packed_threads * k_unit_floats},
                  "is_unit");
    }
    code_.shared_at("to_b", "b_place");
    if (has_tokens_of_b()) {
      for (std::int64_t i = 0; i < columns_; i += lane_columns_) {
        code_.store(b_names(i, lane_columns_), {"to_b", b_at_ + i});
      }
    } else {
      for (std::int64_t i = 0; i < b_loads(); ++i) {
        code_.store(b_names(i * width_, width_), {"to_b", b_at_ + i * rows_a_load() * pitch_});
      }
    }
    list_places();
  }

  /// Writes where in B the entries of the thread's bitmap are, behind those of the row's bitmaps
  /// before.
  void list_places() {
    code_.set("before", copy(CodeType::u32, 0));
    code_.set("word", copy(CodeType::u32, "word0"));
    for (std::int64_t i = 1; i < k_packed_words; ++i) {
      code_.set("is_later", compare("ge", "word_number", i));
      code_.set("ones", ones_of(numbered("word", i - 1)));
      code_.set("ones", select("is_later", "ones", 0));
      code_.set("before", add("before", "ones"));
      code_.set("word", select("is_later", numbered("word", i), "word"));
    }
    code_.set("filled", ones_of("word"));
    code_.set("filled", add("filled", "before"));
    code_.set("to", add("list", "before"));
    code_.shared_at("to_list", "to");
    code_.set("has_more", compare("ne", "word", 0));
    code_.begin_if("has_more");
    code_.begin_loop("has_more");
    code_.set("lowest", subtract(0, "word"));
    code_.set("lowest", bit_and("lowest", "word"));
    code_.set("bit", leading_zeros("lowest"));
    code_.set("bit", subtract(31, "bit"));
    code_.set("bit", multiply_add("bit", pitch_, "word_first"));
    code_.set("entry_place", float_of_bits("bit"));
    code_.store("entry_place", {"to_list"});
    code_.shared_move("to_list", "to_list", 1);
    code_.set("lowest", subtract("word", 1));
    code_.set("word", bit_and("word", "lowest"));
    code_.set("has_more", compare("ne", "word", 0));
    code_.end_loop();
    code_.end();
    fill_unit();
  }

  /// The thread of a row's last bitmap has what fills the last unit meet the zeros behind its B.
  void fill_unit() {
    code_.set("is_last", compare("eq", "word_number", k_packed_words - 1));
    code_.set("rest", bit_and("filled", unit_ - 1));
    code_.set("has_rest", compare("ne", "rest", 0));
    code_.set("has_rest", both("has_rest", "is_last"));
    code_.begin_if("has_rest");
    code_.set("bit", add("word_first", 32 * pitch_));
    code_.set("entry_place", float_of_bits("bit"));
    code_.begin_loop("has_rest");
    code_.store("entry_place", {"to_list"});
    code_.shared_move("to_list", "to_list", 1);
    code_.set("filled", add("filled", 1));
    code_.set("rest", bit_and("filled", unit_ - 1));
    code_.set("has_rest", compare("ne", "rest", 0));
    code_.end_loop();
    code_.end();
  }

  /// All chunks; while one is multiplied the next is on its way.
  void multiply_chunks() {
    prepare_loads();
    store_zeros_of_b();
    load_chunk();
    code_.begin_loop("more");
    store_chunk();
    code_.barrier();
    code_.set("row_units", subtract("row_end", "row_begin"));
    code_.set("row_unit", copy(CodeType::u32, "row_begin"));
    code_.set("chunks", subtract("chunks", 1));
    code_.set("more", compare("gt", "chunks", 0));
    code_.begin_if("more");
    load_chunk();
    code_.end();
    code_.begin_if("has_row");
    add_products();
    code_.end();
    code_.barrier();
    code_.end_loop();
  }

  /// Behind the chunk's rows of B, for entries that are none.
  void store_zeros_of_b() {
    zero("nothing");
    code_.set("is_zero", compare("lt", "thread", columns_));
    code_.shared_at("to_zeros", "thread");
    code_.store("nothing", {"to_zeros", b_at_ + k_packed_chunk * pitch_}, "is_zero");
  }

  // From shared memory into sums.

  void add_products() {
    code_.set("place", multiply("row_place", k_list_pitch));
    code_.shared_at("from_list", "place");
    code_.set("place", multiply("row_unit", k_unit_floats));
    code_.shared_at("from_values", "place");
    code_.shared_at("b_part", "part");
    constexpr std::int64_t k_entries = 8;
    const std::int64_t units = std::max<std::int64_t>(k_entries / unit_, 1);
    code_.set("many", compare("ge", "row_units", units));
    code_.begin_if("many");
    code_.begin_loop("many");
    add_units(units);
    code_.set("many", compare("ge", "row_units", units));
    code_.end_loop();
    code_.end();
    if (units == 1) return;
    code_.set("has_one", compare("gt", "row_units", 0));
    code_.begin_if("has_one");
    add_units(1);
    code_.end();
  }

  void add_units(std::int64_t units) {
    const std::int64_t entries = units * unit_;
    for (std::int64_t i = 0; i < entries; i += k_unit_floats) {
      code_.load(names_of("l", i, k_unit_floats), {"from_list", i});
    }
    for (std::int64_t i = 0; i < units; ++i) {
      code_.load(names_of("v", i * k_unit_floats, k_unit_floats),
                 {"from_values", units_at_ + i * k_unit_floats});
    }
    for (std::int64_t i = 0; i < entries; ++i) {
      code_.set("place", bits_of_float(numbered("l", i)));
      code_.shared_move("at", "b_part", "place");
      code_.load(elements(i), {"at", b_at_});
    }
    for (std::int64_t i = 0; i < entries; ++i) {
      const std::string value = widened(i);
      for (std::int64_t column = 0; column < lane_columns_; ++column) {
        const std::string sum = sum_names(column, 1).front();
        code_.set(sum, fused(elements(i)[to_size(column)], value, sum));
      }
    }
    code_.shared_move("from_list", "from_list", entries);
    code_.shared_move("from_values", "from_values", units * k_unit_floats);
    code_.set("row_units", subtract("row_units", units));
  }

  /// Variables of the elements of B that an entry meets.
  [[nodiscard]] std::vector<std::string> elements(std::int64_t entry) const {
    return names_of(fmt::format("b{}_", entry), 0, lane_columns_);
  }

  /// The variable that has the i-th value of what was loaded, as fp32.
  std::string widened(std::int64_t i) {
    if (values_ == DataType::f32) return numbered("v", i);
    widen_half(code_, "value",
               {.type = values_, .pair = numbered("v", i / 2), .is_high = i % 2 != 0});
    return "value";
  }

  void store() {
    code_.begin_if("has_row");
    read_operands_of_c(code_, layer_, "item");
    load_row_operands(code_, layer_, "row");
    const bool has_residual = layer_.epilogue.residual;
    const CodeStride ldc = code_.stride("ldc", is_far_);
    const CodeStride ldr = has_residual ? code_.far_stride("ldr") : CodeStride{};
    std::vector<SumsOfRow> all;
    if (layer_.has_tokens_of_c()) {
      code_.move("c", "c", "row");
      if (has_residual) code_.move("residual", "residual", "row");
      for (std::int64_t i = 0; i < lane_columns_; ++i) all.push_back(token_of_c(i, ldc, ldr));
    } else {
      to_row("c", ldc);
      if (has_residual) to_row("residual", ldr);
      for (std::int64_t i = 0; i < lane_columns_; i += width_) {
        all.push_back({i, width_, {"c", i}, {"residual", i}, inside(i)});
      }
    }
    finish_sums(code_, layer_, all);
    code_.end();
  }

  SumsOfRow token_of_c(std::int64_t i, const CodeStride& ldc, const CodeStride& ldr) {
    const std::string guard = inside(i);
    code_.set("token", add("j", i));
    code_.move(numbered("c_of_", i), "c", "token", ldc);
    if (layer_.epilogue.residual) {
      code_.move(numbered("residual_of_", i), "residual", "token", ldr);
    }
    return {i, 1, {numbered("c_of_", i)}, {numbered("residual_of_", i)}, guard};
  }

  /// Sets whether C has the thread's i-th column; the name of that.
  std::string inside(std::int64_t i) {
    const std::string name = numbered("inside", i);
    code_.set("jj", add("j", i));
    code_.set(name, compare("lt", "jj", "n"));
    return name;
  }

  void to_row(std::string_view pointer, const CodeStride& ld) {
    code_.move(pointer, pointer, "row", ld);
    code_.move(pointer, pointer, "j");
  }

  CudaCode& code_;
  const CudaLayer& layer_;
  DataType values_;
  std::int64_t unit_;  ///< values of a unit
  std::int64_t columns_;
  bool is_far_;
  std::int64_t width_;
  std::int64_t lane_columns_;  ///< columns of C that a lane has
  std::int64_t parts_;         ///< lanes of a row
  std::int64_t pitch_;         ///< floats between rows of B in shared memory
  std::int64_t loads_;         ///< units that a thread brings of a chunk, at most
  /// In shared memory, behind the lists of places.
  std::int64_t units_at_ = k_packed_most_rows * k_list_pitch;
  std::int64_t b_at_;  ///< behind the units
  CodeStride ldb_;
};

}  // namespace

std::span<const std::int64_t> packed_widths(const PackedProgram& program) {
  return widths_up_to(program.layer.has_tokens_of_b() ? 1 : program.columns);
}

std::string packed_kernel_name(std::int64_t width) { return fmt::format("spjit_packed_{}", width); }

std::span<const CudaCode::Parameter> packed_parameters() {
  static const std::vector<CudaCode::Parameter> k_parameters =
      with_common_parameters({{"bitmaps", CodeType::words},
                              {"starts", CodeType::words},
                              {"rows", CodeType::u32},
                              {"cols", CodeType::u32},
                              {"group_rows", CodeType::u32},
                              {"chunks", CodeType::u32},
                              {"first_tile", CodeType::u32}});
  return k_parameters;
}

CudaCode::Texts emit_packed(const PackedProgram& program) {
  CudaCode code(static_cast<int>(program.arch), program.layer.epilogue);
  for (const std::int64_t width : packed_widths(program)) {
    PackedEmission(code, program, width).run();
  }
  return std::move(code).take();
}

}  // namespace spjit
