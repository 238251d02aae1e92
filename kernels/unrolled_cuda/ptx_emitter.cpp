#include "kernels/unrolled_cuda/ptx_emitter.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <string>

#include "base/arithmetic.hpp"
#include "kernels/unrolled_cuda/cuda_units.hpp"
#include "kernels/unrolled_cuda/source_text.hpp"
#include "spjit/error.hpp"

namespace spjit {
namespace {

/// Text of about this size for each nonzero; only a reservation.
constexpr std::int64_t k_ptx_bytes_a_nonzero = 56;

/// Labels of one .branchtargets: from 16383 on nvJitLink 13.0 crashes.
constexpr std::int64_t k_most_targets = 16380;

/// A pointer register that is moved along so that offsets stay in [0, 2^23): what the immediate
/// offset of a load or store holds (24 bits, signed) on every architecture.
class MovingPointer {
 public:
  explicit MovingPointer(std::string_view name) : name_(name) {}

  /// Moves the pointer for an access at `bytes`, which never falls; returns the offset. The
  /// distance moved has 63 bits: `add.s64` takes it as it is, however far columns are apart.
  std::int64_t reach(SourceText& text, std::int64_t bytes) {
    constexpr std::int64_t k_reach = std::int64_t{1} << 23;
    if (bytes - position_ >= k_reach) {
      text << "add.s64 " << name_ << "," << name_ << "," << bytes - position_ << ";\n";
      position_ = bytes;
    }
    return bytes - position_;
  }

 private:
  std::string_view name_;
  std::int64_t position_ = 0;
};

class PtxEmission {
 public:
  PtxEmission(const KernelPlan& plan, const CudaKernelSpec& spec, int sm,
              const Cancellation& cancel)
      : plan_(plan),
        spec_(spec),
        pace_(cancel),
        sm_(sm),
        units_(cut_into_units(plan, spec.tile.unit_nonzeros)) {}

  std::vector<SourceUnit> run() {
    std::vector<SourceUnit> result;
    for (const UnitRange& range : units_) {
      pace_.spend(k_cuda_unit_work);
      result.push_back(unit(range));
    }
    return result;
  }

 private:
  bool runtime() const { return spec_.tile.runtime_sizes; }
  bool whole() const { return units_.size() == 1; }

  SourceUnit unit(const UnitRange& range) {
    SourceUnit unit = describe_unit(plan_, units_, range, runtime());
    unit.language = SourceLanguage::ptx;
    SourceText text(range.nonzeros * k_ptx_bytes_a_nonzero + (1 << 14));
    text << "// spjit, PTX emitter " << std::int64_t{k_ptx_emitter_version} << ".\n.version "
         << ptx_version(sm_) << "\n.target sm_" << std::int64_t{sm_} << "\n.address_size 64\n\n";
    for (std::int64_t function = range.begin; function < range.end; ++function) {
      this->function(text, function);
    }
    if (!unit.kernel.empty()) entry(text);
    unit.text = std::move(text).take();
    return unit;
  }

  /// Functions end the thread: what need not return need not save the caller's registers either
  /// (one of 32 accumulators saved 29 of them to local memory).
  void signature(SourceText& text, std::int64_t function) const {
    text << ".func " << function_name(function) << "(.param .b64 param_b, .param .b64 param_c"
         << (runtime() ? ", .param .b32 param_ldb, .param .b32 param_ldc)" : ")") << " .noreturn";
  }

  void function(SourceText& text, std::int64_t function) {
    if (!whole()) text << ".visible ";
    signature(text, function);
    text << "\n{\n.reg .b64 pb, pc, address;\n.reg .b32 ldb, ldc;\n"
         << "ld.param.b64 pb,[param_b];\nld.param.b64 pc,[param_c];\n";
    if (runtime()) text << "ld.param.b32 ldb,[param_ldb];\nld.param.b32 ldc,[param_ldc];\n";
    if (function < plan_.grouping.tiles()) {
      tile(text, function);
    } else {
      MovingPointer pointer("pc");
      for (const std::int32_t row : zero_rows(plan_, function)) {
        store_row(text, row, pointer) << "0f00000000;\n";
      }
    }
    text << "exit;\n}\n\n";
  }

  void tile(SourceText& text, std::int64_t tile) {
    const std::span<const std::int32_t> rows = plan_.tile_rows(tile);
    const PlanSegment segment = plan_.segment(tile, 0);
    text << ".reg .f32 c<" << std::ssize(rows) << ">;\n.reg .f32 b;\n";
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      text << "mov.f32 c" << row << ",0f00000000;\n";
    }
    MovingPointer b("pb");
    for (std::int64_t column = segment.column_begin; column < segment.column_end; ++column) {
      pace_.spend(k_cuda_column_work);
      load(text, plan_.columns[to_size(column)], b);
      multiply(text, column);
    }
    MovingPointer c("pc");
    for (std::int64_t row = 0; row < std::ssize(rows); ++row) {
      store_row(text, rows[to_size(row)], c) << "c" << row << ";\n";
    }
  }

  void load(SourceText& text, std::int64_t column, MovingPointer& b) const {
    if (runtime()) {
      runtime_address(text, column, "ldb", "pb");
      text << "ld.global.nc.f32 b,[address];\n";
      return;
    }
    const std::int64_t offset = b.reach(text, column * spec_.ldb * 4);
    text << "ld.global.nc.f32 b,[pb+" << offset << "];\n";
  }

  void multiply(SourceText& text, std::int64_t column) const {
    for (std::int64_t e = plan_.entry_ptrs[to_size(column)];
         e < plan_.entry_ptrs[to_size(column) + 1]; ++e) {
      const std::int64_t row = plan_.entry_rows[to_size(e)];
      text << "fma.rn.f32 c" << row << ",b,";
      append_ptx_literal(text, plan_.entry_values[to_size(e)]) << ",c" << row << ";\n";
    }
  }

  /// ptxas makes one instruction of these two, but three of the mad.wide that says the same.
  void runtime_address(SourceText& text, std::int64_t row, std::string_view leading_dimension,
                       std::string_view base) const {
    text << "mul.wide.u32 address," << leading_dimension << "," << row
         << ";\nadd.s64 address,address," << base << ";\n";
  }

  /// "st.global.f32 [pc+384],", which the register or literal to store follows: the one place that
  /// stores a row of C, be it empty. An epilogue changes that register before the address, and gets
  /// it as an argument.
  SourceText& store_row(SourceText& text, std::int64_t row, MovingPointer& c) const {
    if (runtime()) {
      runtime_address(text, row, "ldc", "pc");
      return text << "st.global.f32 [address],";
    }
    const std::int64_t offset = c.reach(text, row * spec_.ldc * 4);
    return text << "st.global.f32 [pc+" << offset << "],";
  }

  void entry(SourceText& text) const {
    const std::int64_t functions = count_functions(plan_);
    for (std::int64_t function = 0; function < functions && !whole(); ++function) {
      text << ".extern ";
      signature(text, function);
      text << ";\n";
    }
    text << (whole() ? "" : "\n") << ".visible .entry " << k_cuda_kernel_name
         << "(.param .u64 kernel_b, .param .u64 kernel_c"
         << (runtime() ? ", .param .u32 kernel_n, .param .u32 kernel_ldb, .param .u32 kernel_ldc)"
                       : ")")
         << "\n.maxntid " << spec_.tile.n1 << ", 1, 1\n.minnctapersm " << spec_.min_blocks
         << "\n{\n";
    prologue(text);
    jump(text);
    for (std::int64_t function = 0; function < functions; ++function) call(text, function);
    text << "}\n";
  }

  /// To the function of this block.
  void jump(SourceText& text) const {
    const std::int64_t blocks = cuda_grid(plan_, spec_).x;
    for (std::int64_t begin = 0; begin < blocks; begin += k_most_targets) {
      const std::int64_t end = std::min(begin + k_most_targets, blocks);
      // The first table's name is all that programs of one table have.
      const std::string table = begin == 0 ? "targets" : "targets_" + std::to_string(begin);
      if (end < blocks) {
        text << "setp.ge.u32 outside,tile," << k_most_targets << ";\n@outside bra after_" << begin
             << ";\n";
      }
      text << table << ": .branchtargets ";
      for (std::int64_t block = begin; block < end; ++block) {
        text << (block > begin ? ",to_" : "to_") << function_of(spec_, block);
      }
      text << ";\nbrx.idx tile," << table << ";\n";
      if (end < blocks)
        text << "after_" << begin << ":\nsub.u32 tile,tile," << k_most_targets << ";\n";
    }
  }

  /// Leaves where j >= n; then pb and pc point to column j, ldb and ldc are bytes.
  void prologue(SourceText& text) const {
    text << ".reg .pred outside;\n.reg .b32 tile, j, thread, ldb, ldc, n;\n"
            ".reg .b64 pb, pc, offset;\n"
            "mov.u32 tile,%ctaid.x;\nmov.u32 j,%ctaid.y;\nmov.u32 thread,%tid.x;\n";
    if (spec_.runtime_threads) {
      text << ".reg .b32 threads;\nmov.u32 threads,%ntid.x;\nmad.lo.u32 j,j,threads,thread;\n";
    } else {
      text << "mad.lo.u32 j,j," << spec_.tile.n1 << ",thread;\n";
    }
    if (runtime()) {
      text << "ld.param.u32 n,[kernel_n];\nsetp.ge.u32 outside,j,n;\n";
    } else {
      text << "setp.ge.u32 outside,j," << spec_.n << ";\n";
    }
    text << "@outside exit;\nmul.wide.u32 offset,j,4;\n"
            "ld.param.u64 pb,[kernel_b];\ncvta.to.global.u64 pb,pb;\nadd.s64 pb,pb,offset;\n"
            "ld.param.u64 pc,[kernel_c];\ncvta.to.global.u64 pc,pc;\nadd.s64 pc,pc,offset;\n";
    if (runtime()) {
      text << "ld.param.u32 ldb,[kernel_ldb];\nshl.b32 ldb,ldb,2;\n"
              "ld.param.u32 ldc,[kernel_ldc];\nshl.b32 ldc,ldc,2;\n";
    }
  }

  void call(SourceText& text, std::int64_t function) const {
    text << "to_" << function << ":\n{\n.param .b64 arg_b;\n.param .b64 arg_c;\n"
         << "st.param.b64 [arg_b],pb;\nst.param.b64 [arg_c],pc;\n";
    if (runtime()) {
      text << ".param .b32 arg_ldb;\n.param .b32 arg_ldc;\n"
              "st.param.b32 [arg_ldb],ldb;\nst.param.b32 [arg_ldc],ldc;\n";
    }
    text << "call " << function_name(function) << ",(arg_b,arg_c"
         << (runtime() ? ",arg_ldb,arg_ldc);\n" : ");\n") << "}\nexit;\n";
  }

  const KernelPlan& plan_;
  const CudaKernelSpec& spec_;
  CancelPace pace_;
  int sm_;
  std::vector<UnitRange> units_;
};

}  // namespace

std::string_view ptx_version(int sm) {
  switch (sm) {
    case 75:
      return "6.4";
    case 80:
      return "7.0";
    case 86:
      return "7.1";
    case 89:
    case 90:
      return "7.8";
    case 100:
      return "8.6";
    case 120:
      return "8.7";
    default:
      throw NotSupported(fmt::format(
          "no PTX for sm_{}; expected sm_75, sm_80, sm_86, sm_89, sm_90, sm_100 or sm_120", sm));
  }
}

std::vector<SourceUnit> emit_ptx(const KernelPlan& plan, const CudaKernelSpec& spec, int sm,
                                 const Cancellation& cancel) {
  check_cuda_spec(plan, spec);
  return PtxEmission(plan, spec, sm, cancel).run();
}

}  // namespace spjit
