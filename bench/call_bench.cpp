/// @file
/// What a call costs beside the kernel. A kernel of a tiny matrix is called four ways: its product,
/// as a family computes it; the loaded kernel, with what a layer has around the product; and the
/// interfaces of C++ and C, which check their arguments. A line a case: nanoseconds of the product,
/// and how much longer each other way takes, least and median. `--json FILE` keeps them.

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <vector>

#include "artifact/families.hpp"
#include "artifact/kernel_files.hpp"
#include "base/arithmetic.hpp"
#include "bench/json_file.hpp"
#include "bindings/c/handles.hpp"
#include "kernels/host/object/host_executable.hpp"
#include "runtime/host/host_device_info.hpp"
#include "spjit/compiler.hpp"
#include "spjit/error.hpp"
#include "spjit/generate.hpp"

namespace {

constexpr std::int64_t k_size = 16;         // rows and columns of A
constexpr std::int64_t k_most_columns = 4;  // of B
constexpr int k_calls = 1000;               // of a sample
constexpr int k_samples = 201;              // of each way; ways are interleaved

struct Case {
  std::string_view family;
  std::string_view what;
  std::int64_t n = 1;
  spjit::Layout layout = spjit::Layout::row_major;
  bool any_n = false;
  bool has_bias = false;
};

constexpr auto k_tokens = spjit::Layout::tokens_major;
constexpr std::array k_cases = {
    Case{"windows", "n = 1"},
    Case{"windows", "one token", 1, k_tokens},
    Case{"windows", "one token, bias", 1, k_tokens, false, true},
    Case{"compact", "n = 1"},
    Case{"compact", "one token, any n", 1, k_tokens, true},
    Case{"compact", "one token, any n, bias", 1, k_tokens, true, true},
    Case{"compact", "four tokens, any n", 4, k_tokens, true},
    Case{"dense", "n = 1"},
    Case{"unrolled", "n = 4", 4},
    Case{"csr", "n = 1"},
};

spjit::Kernel compiled(const Case& of) {
  const double sparsity = of.family == "dense" ? 0.5 : 0.8;
  spjit::Problem problem{
      .a = spjit::generate_matrix({.rows = k_size, .cols = k_size, .sparsity = sparsity}),
      .n = of.any_n ? spjit::Extent::at_run_time(of.n) : spjit::Extent(of.n),
      .b = {.layout = of.layout},
      .c = {.layout = of.layout}};
  problem.epilogue.bias = of.has_bias;
  spjit::CompileOptions options;
  options.policy.family = of.family;
  return spjit::Compiler(options, {.enabled = false}).compile(problem);
}

/// A case, ready to be called each way.
class Calls {
 public:
  explicit Calls(const Case& of) : n_(of.n), kernel_(compiled(of)), handle_(kernel_) {
    const auto record = nlohmann::json::parse(kernel_.artifact().record);
    const spjit::KernelFamily& family = spjit::family_of(record);
    loaded_ = spjit::load_kernel(
        family, std::make_shared<const spjit::BuiltFiles>(family, kernel_.artifact().files), record,
        spjit::HostDevice{}, {});
    executable_ = &dynamic_cast<const spjit::HostExecutable&>(*loaded_->executable);
    const bool has_tokens = of.layout == k_tokens;
    const spjit::Strides strides{.ld = has_tokens ? k_size : n_, .layout = of.layout};
    arguments_.b = {b_.data(), strides};
    arguments_.c = {c_.data(), strides};
    arguments_.residual.layout = of.layout;
    arguments_.n = n_;
    arguments_.bias = of.has_bias ? bias_.data() : nullptr;
    of_c_.struct_size = sizeof(of_c_);
    of_c_.b = b_.data();
    of_c_.c = c_.data();
    of_c_.ldb = of_c_.ldc = strides.ld;
    of_c_.n = n_;
    of_c_.b_layout = of_c_.c_layout = has_tokens ? SPJIT_LAYOUT_TOKENS : SPJIT_LAYOUT_FEATURES;
    of_c_.bias = arguments_.bias;
  }
  Calls(const Calls&) = delete;
  Calls& operator=(const Calls&) = delete;

  static constexpr std::array<std::string_view, 4> k_ways = {"product", "layer", "cpp", "c"};

  void call(std::size_t way) {
    switch (way) {
      case 0:
        executable_->multiplier().multiply(
            {.b = b_.data(), .ldb = n_, .c = c_.data(), .ldc = n_, .n = n_});
        break;
      case 1:
        executable_->run(arguments_);
        break;
      case 2:
        kernel_.run(arguments_);
        break;
      default:
        if (spjit_kernel_run(&handle_, &of_c_) != SPJIT_OK) throw spjit::Error(spjit_last_error());
    }
  }

 private:
  std::int64_t n_;
  spjit::Kernel kernel_;
  spjit_kernel handle_;
  std::shared_ptr<const spjit::Kernel::Impl> loaded_;
  const spjit::HostExecutable* executable_ = nullptr;
  alignas(64) std::array<float, k_size * k_most_columns> b_{};
  alignas(64) std::array<float, k_size * k_most_columns> c_{};
  alignas(64) std::array<float, k_size> bias_{};
  spjit::Arguments arguments_;
  spjit_arguments of_c_{};
};

using Samples = std::array<std::vector<double>, Calls::k_ways.size()>;

/// Nanoseconds of a call, sample by sample.
Samples sampled(Calls& calls) {
  Samples samples;
  for (int sample = 0; sample < k_samples; ++sample) {
    for (std::size_t way = 0; way < samples.size(); ++way) {
      const auto begin = std::chrono::steady_clock::now();
      for (int call = 0; call < k_calls; ++call) calls.call(way);
      const std::chrono::duration<double, std::nano> time =
          std::chrono::steady_clock::now() - begin;
      samples[way].push_back(time.count() / k_calls);
    }
  }
  for (std::vector<double>& of_way : samples) std::ranges::sort(of_way);
  return samples;
}

nlohmann::json measured(const Case& of) {
  Calls calls(of);
  const Samples samples = sampled(calls);
  nlohmann::json result = {{"family", of.family}, {"case", of.what}};
  std::string line = fmt::format("{:<9} {:<23}", of.family, of.what);
  const auto tell = [&](std::string_view way, double least, double median) {
    line += fmt::format(" {:>7} {:4.0f} ({:4.0f})", way, least, median);
    result[std::string(way)] = {{"least_ns", std::round(least)}, {"median_ns", std::round(median)}};
  };
  const std::vector<double>& product = samples.front();
  tell(Calls::k_ways.front(), product.front(), product[product.size() / 2]);
  for (std::size_t way = 1; way < samples.size(); ++way) {
    tell(Calls::k_ways.at(way), samples.at(way).front() - product.front(),
         samples.at(way)[product.size() / 2] - product[product.size() / 2]);
  }
  fmt::print("{}\n", line);
  return result;
}

}  // namespace

int main(int count, char** words) {
  const std::vector<std::string> given(words + 1, words + count);
  if (!given.empty() && (given.size() != 2 || given[0] != "--json")) {
    fmt::print(stderr, "usage: call_bench [--json FILE]\n");
    return 2;
  }
  fmt::print("A [{} x {}], hot, one thread; ns of the product, and beside it: least (median)\n",
             k_size, k_size);
  nlohmann::json cases = nlohmann::json::array();
  for (const Case& of : k_cases) cases.push_back(measured(of));
  if (!given.empty()) {
    spjit::bench::save_json(given[1], {{"schema", "spjit-calls-1"}, {"cases", cases}});
  }
  return 0;
}
