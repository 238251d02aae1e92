#include "kernels/host/unrolled/unrolled_family.hpp"

#include <fmt/format.h>

#include <utility>

#include "kernels/built_kernel.hpp"
#include "kernels/host/host_rules.hpp"
#include "kernels/host/loops/compact_loop.hpp"
#include "kernels/host/unrolled/disassembler.hpp"
#include "kernels/host/unrolled/host_choice.hpp"
#include "kernels/host/unrolled/host_heuristic.hpp"
#include "kernels/host/unrolled/shipped_models.hpp"
#include "kernels/host/unrolled/tile_space.hpp"
#include "kernels/host/unrolled/unrolled_executable.hpp"
#include "kernels/host/unrolled/weight_positions.hpp"
#include "kernels/kernel_record.hpp"
#include "plan/operation.hpp"
#include "plan/search_policy.hpp"
#include "reorder/row_groupings.hpp"

namespace spjit {
namespace {

#ifdef SPJIT_HAVE_LLVM
constexpr bool k_have_llvm = true;
#else
constexpr bool k_have_llvm = false;
#endif

/// Up to how many columns a loop over A is faster than unrolled code for many.
std::int64_t loop_columns(const FamilyRequest& request, const HostTile& tile) {
  const std::int64_t panel = tile.nv * lanes_of(request.options.target.isa());
  return reuses_code(request) ? panel / 2
                              : most_loop_columns(std::get<HostDeviceInfo>(request.device));
}

}  // namespace

std::string_view UnrolledHostFamily::name() const noexcept { return k_unrolled_host_name; }

Refusal UnrolledHostFamily::refusal(const FamilyRequest& request) const {
  const HostIsa isa = request.options.target.isa();
  const CsrMatrix& a = *request.problem.a;
  if (isa == HostIsa::generic && !k_have_llvm) {
    return Refusal("the generic target needs LLVM, which this build was made without");
  }
  const HostTile tile = host_tile_by_rules(
      workload_of(request.problem, request.options.resources.threads, request.cancel),
      std::get<HostDeviceInfo>(request.device));
  if (tile.pack_b && !request.problem.panel_columns) {
    if (Refusal refusal = unread_refusal(a)) return refusal;
  }
  if (request.problem.runtime_values && a.nnz() > k_most_positions) {
    return Refusal(fmt::format("A has {} entries, it takes values of {} at run time", a.nnz(),
                               k_most_positions));
  }
  // Before any work: an FMA of a nonzero has at least five bytes (VEX) or six (EVEX).
  const std::int64_t fma_bytes = isa == HostIsa::avx512 ? 6 : 5;
  const std::int64_t vectors = isa == HostIsa::generic ? 1 : tile.nv;
  const std::int64_t bytes = a.nnz() * vectors * fma_bytes;
  const std::int64_t budget = request.options.policy.code_budget_bytes;
  if (bytes <= budget) return Refusal::none();
  return Refusal(fmt::format("at least {} bytes of code for {} nonzeros, the budget is {}", bytes,
                             a.nnz(), budget));
}

std::shared_ptr<const LoadedRankModel> UnrolledHostFamily::rank_model(
    const CompileOptions& options) const {
  if (options.policy.search == SearchMode::instant) return nullptr;  // rules choose
  return host_rank_model(options);
}

struct UnrolledHostFamily::BuiltWithSpace {
  BuiltKernel kernel;
  TileSpace space;  ///< no candidates where nothing was searched
};

BuiltKernel UnrolledHostFamily::build(const BuildRequest& request) const {
  return build_with_space(request).kernel;
}

UnrolledHostFamily::BuiltWithSpace UnrolledHostFamily::build_with_space(
    const BuildRequest& request) const {
  const FamilyRequest& asked = request.what;
  if (!asked.problem.runtime_values) return build_code(request);
  const Problem problem = with_positions(asked.problem, asked.cancel);
  const FamilyRequest what{problem, asked.options, asked.device, asked.cancel};
  return build_code({what, request.context, request.pool, request.rank_model, request.search});
}

UnrolledHostFamily::BuiltWithSpace UnrolledHostFamily::build_code(
    const BuildRequest& request) const {
  const FamilyRequest& what = request.what;
  // Tiles are timed as products of row-major operands.
  const bool is_in_rows = rules_of(what.problem).has_rows_of_b(what.problem.b.layout) &&
                          what.problem.numerics.b == DataType::f32;
  const std::int64_t workload_ldb = is_in_rows ? what.problem.ldb() : what.problem.n.value;
  const TimeHostKernels timer = [&](std::span<const HostTuningCandidate> candidates,
                                    const TuningOptions& options) {
    return time_host_kernels(candidates, options,
                             {workload_ldb, request.pool, bytes_between_runs(what.options.policy)});
  };
  BuiltHost made = build_host_choice(request, timer);
  BuiltKernel built;
  // Estimates let tiles through that need a little more.
  const std::int64_t budget = what.options.policy.code_budget_bytes;
  if (std::ssize(made.artifact.text) > budget) {
    built.declined = Refusal(
        fmt::format("{} bytes of code, the budget is {}", made.artifact.text.size(), budget));
    return {std::move(built), {}};
  }
  built.reason = made.trace.reason;
  built.record = image_record(made.artifact.image());
  built.record["tile"] = to_json(made.trace.tile);
  built.record["grouping"] = to_json(made.trace.grouping);
  built.record["compile_ms"] = {{"group", made.trace.group_ms}, {"emit", made.trace.emit_ms}};
  if (!made.trace.search.entries.empty()) built.record["search"] = to_json(made.trace.search);
  if (what.problem.n.runtime && what.options.target.isa() != HostIsa::generic) {
    add_loop(made.artifact, what.problem, loop_columns(what, made.trace.tile), what.cancel);
  }
  built.code = std::make_shared<const BuiltImage>(*this, std::move(made.artifact));
  return {std::move(built), std::move(made.trace.space)};
}

BuiltKernel UnrolledHostFamily::explain(const BuildRequest& request) const {
  auto [built, space] = build_with_space(request);
  if (built.declined) return std::move(built);
  nlohmann::json& search = built.record["search"];
  if (search.is_null()) {
    const FamilyRequest& what = request.what;
    const CompileOptions& options = what.options;
    RowGroupings groupings(*what.problem.a, options.policy.reorder, what.cancel);
    space = enumerate_host_tiles(
        what.problem, options, std::get<HostDeviceInfo>(what.device),
        [&](std::int64_t m1) { return groupings.statistics(m1); }, what.cancel);
    search = {{"mode", std::string(to_string(options.policy.search))}, {"timed", false}};
  }
  search["space"] = to_json(space);
  return std::move(built);
}

std::string UnrolledHostFamily::listing(const Artifact& artifact) const {
  const HostImage image = read_object(artifact.file(k_object_file), k_object_name);
  const HostProgramRecord program = read_program(image);
  const std::span<const std::uint8_t> code(reinterpret_cast<const std::uint8_t*>(image.text.data()),
                                           image.text.size());
  std::string text;
  // A segment's code ends where the next one's begins.
  for (std::size_t i = 0; i < program.segment_offsets.size(); ++i) {
    const auto begin = static_cast<std::size_t>(program.segment_offsets[i]);
    const auto end = i + 1 < program.segment_offsets.size()
                         ? static_cast<std::size_t>(program.segment_offsets[i + 1])
                         : code.size();
    const std::size_t tile = i / static_cast<std::size_t>(program.k_blocks);
    text += fmt::format("\n# row tiles {} to {}, block of columns {}: at {:#x}\n",
                        tile == 0 ? 0 : program.tile_ends[tile - 1], program.tile_ends[tile] - 1,
                        i % static_cast<std::size_t>(program.k_blocks), begin);
    text += disassembly_listing(code.subspan(begin, end - begin));
  }
  return text;
}

LoadedKernel UnrolledHostFamily::open(const HostObject& object, const Cancellation& cancel) const {
  HostProgramRecord record = read_program(object.image, cancel);
  LoadedKernel loaded;
  loaded.info = info_of(record.header, object);
  loaded.info.reads_a = false;
  loaded.info.tile = to_string(record.tile);
  HostProgramHeader header = record.header;
  auto multiplier = std::make_unique<const UnrolledMultiplier>(object, std::move(record), cancel);
  loaded.info.panel_columns = multiplier->program().panel_width();
  loaded.executable = std::make_shared<const HostExecutable>(
      object, HostLayer{std::move(header), loaded.info.panel_columns}, std::move(multiplier));
  return loaded;
}

}  // namespace spjit
