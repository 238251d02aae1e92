#include "kernels/host/unrolled/llvm_emitter.hpp"

#include <fmt/format.h>

#include "spjit/error.hpp"

#ifdef SPJIT_HAVE_LLVM

#include <llvm/IR/LLVMContext.h>
#include <llvm/IR/Module.h>

#include <algorithm>
#include <atomic>
#include <exception>
#include <numeric>
#include <string>
#include <thread>
#include <vector>

#include "base/arithmetic.hpp"
#include "base/host_cpu.hpp"
#include "kernels/host/unrolled/llvm_object.hpp"
#include "kernels/host/unrolled/llvm_segment.hpp"

namespace spjit {
namespace {

constexpr std::size_t k_sse_lanes = 4;  // floats an SSE vector holds
constexpr std::uint8_t k_int3 = 0xCC;
// A module costs about a millisecond besides its code; smaller ones spread over threads better.
constexpr std::int64_t k_entries_a_module = 8192;

void check(const HostTile& tile, std::int64_t b_stride_bytes) {
  // A vector of B and a product, whatever nv is: vectors of a row come one after another.
  const std::int64_t registers = tile.m1 + 2;
  if (tile.m1 < 1 || tile.nv < 1 || registers > registers_of(HostIsa::generic)) {
    throw InvalidArgument(fmt::format(
        "tile {} needs {} vector registers; {} has {}, so m1 must be 1 to {} and nv at least 1",
        to_string(tile), registers, to_string(HostIsa::generic), registers_of(HostIsa::generic),
        registers_of(HostIsa::generic) - 2));
  }
  constexpr std::int64_t k_max_stride = k_max_built_in_ldb * 4;
  if (b_stride_bytes < 4 || b_stride_bytes > k_max_stride) {
    throw InvalidArgument(fmt::format("rows of B are {} bytes apart; expected 4 to {}",
                                      b_stride_bytes, k_max_stride));
  }
}

PlanSegment segment_of(const KernelPlan& plan, std::int64_t index) {
  return plan.segment(index / plan.k_blocks, index % plan.k_blocks);
}

/// Entries before a segment's first.
std::int64_t first_entry(const KernelPlan& plan, std::int64_t segment) {
  const std::int64_t column = plan.segment_ptrs[static_cast<std::size_t>(segment)];
  return plan.entry_ptrs[static_cast<std::size_t>(column)];
}

/// Segments [ends[i - 1], ends[i]) make module i.
std::vector<std::int64_t> cut_into_modules(const KernelPlan& plan) {
  // Segments without entries have code too.
  constexpr std::int64_t k_segments_a_module = 256;
  std::vector<std::int64_t> ends;
  std::int64_t begin = 0;
  for (std::int64_t end = 1; end <= plan.segments(); ++end) {
    const std::int64_t entries = first_entry(plan, end) - first_entry(plan, begin);
    if (end == plan.segments() || entries >= k_entries_a_module ||
        end - begin == k_segments_a_module) {
      ends.push_back(end);
      begin = end;
    }
  }
  return ends;
}

PositionIndependentText compile_segments(const KernelPlan& plan, const SegmentShape& shape,
                                         std::int64_t begin, std::int64_t end) {
  llvm::LLVMContext context;
  context.setDiscardValueNames(true);
  llvm::Module module("spjit", context);
  std::vector<std::string> names;
  for (std::int64_t segment = begin; segment < end; ++segment) {
    names.push_back(fmt::format("segment_{}", segment));
    build_segment(module, names.back(), plan, segment_of(plan, segment), shape);
  }
  return compile_to_text(module, names);
}

/// `work(i)` for i = 0 .. count - 1 on the CPUs there are; the first exception, in order of i,
/// comes out.
template <class Work>
void for_each_in_parallel(std::size_t count, Work work) {
  std::vector<std::exception_ptr> errors(count);
  std::atomic<std::size_t> next = 0;
  const auto worker = [&] {
    for (std::size_t i = next++; i < count; i = next++) {
      try {
        work(i);
      } catch (...) {
        errors[i] = std::current_exception();
      }
    }
  };
  {
    std::vector<std::jthread> helpers;
    const std::size_t threads = std::min(count, static_cast<std::size_t>(usable_cpus()));
    for (std::size_t i = 1; i < threads; ++i) helpers.emplace_back(worker);
    worker();
  }
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

void append(HostCode& code, const PositionIndependentText& text) {
  const std::int64_t begin = round_up(std::ssize(code.text), k_function_alignment);
  code.text.resize(static_cast<std::size_t>(begin), k_int3);
  code.text.insert(code.text.end(), text.bytes.begin(), text.bytes.end());
  for (const std::int64_t offset : text.offsets) code.segment_offsets.push_back(begin + offset);
}

}  // namespace

HostCode emit_generic(const KernelPlan& plan, const HostTile& tile, std::int64_t b_stride_bytes,
                      const Cancellation& cancel) {
  check(tile, b_stride_bytes);
  const SegmentShape shape{tile.nv, b_stride_bytes};
  const std::vector<std::int64_t> ends = cut_into_modules(plan);
  std::vector<PositionIndependentText> texts(ends.size());
  for_each_in_parallel(ends.size(), [&](std::size_t i) {
    cancel.check();
    texts[i] = compile_segments(plan, shape, i == 0 ? 0 : ends[i - 1], ends[i]);
  });

  HostCode code;
  code.tile_ends.resize(to_size(plan.grouping.tiles()));
  std::iota(code.tile_ends.begin(), code.tile_ends.end(), 1);
  for (const PositionIndependentText& text : texts) append(code, text);
  code.weights.reserve(plan.entry_values.size() * k_sse_lanes);
  for (const float value : plan.entry_values)
    code.weights.insert(code.weights.end(), k_sse_lanes, value);
  for (std::int64_t segment = 0; segment < plan.segments(); ++segment) {
    code.weight_offsets.push_back(first_entry(plan, segment) * std::int64_t{k_sse_lanes});
  }
  return code;
}

}  // namespace spjit

#else

namespace spjit {

HostCode emit_generic(const KernelPlan& /*plan*/, const HostTile& /*tile*/,
                      std::int64_t /*b_stride_bytes*/, const Cancellation& /*cancel*/) {
  throw NotSupported(
      "the generic host target needs LLVM, and this spjit was built without it; install LLVM 19 "
      "and build again, or use a CPU with AVX2");
}

}  // namespace spjit

#endif
