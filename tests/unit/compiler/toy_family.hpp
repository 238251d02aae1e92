#pragma once

/// @file
/// A family of host kernels that only tests have: the least that a family is.

#include <cmath>
#include <cstring>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "kernels/built_kernel.hpp"
#include "kernels/kernel_family.hpp"
#include "spjit/error.hpp"

namespace spjit::testing_support {

/// An entry of A, as it lies in the file of an artifact.
struct ToyEntry {
  std::int64_t row = 0;
  std::int64_t col = 0;
  float value = 0;
  float padding = 0;
};

inline constexpr const char* k_toy_file = "kernel.toy";

class ToyExecutable final : public Executable {
 public:
  ToyExecutable(std::int64_t rows, std::vector<ToyEntry> entries)
      : rows_(rows), entries_(std::move(entries)) {}

  void run(const Arguments& arguments) const override {
    for (std::int64_t i = 0; i < rows_; ++i) {
      for (std::int64_t j = 0; j < arguments.n; ++j)
        arguments.c.as<float>()[i * arguments.c.ld + j] = 0;
    }
    for (const ToyEntry& entry : entries_) {
      for (std::int64_t j = 0; j < arguments.n; ++j) {
        float& c = arguments.c.as<float>()[entry.row * arguments.c.ld + j];
        c = std::fmaf(entry.value, arguments.b.as<float>()[entry.col * arguments.b.ld + j], c);
      }
    }
  }

 private:
  std::int64_t rows_;
  std::vector<ToyEntry> entries_;
};

/// Refuses, declines or builds as its members say.
class ToyFamily final : public KernelFamily {
 public:
  [[nodiscard]] std::string_view name() const noexcept override { return "toy"; }
  [[nodiscard]] std::string version() const override { return "1"; }
  [[nodiscard]] ProblemFeatures features() const noexcept override { return known; }
  [[nodiscard]] Refusal refusal(const FamilyRequest&) const override { return refuses; }

  [[nodiscard]] BuiltKernel build(const BuildRequest& request) const override {
    BuiltKernel built;
    built.declined = declines;
    if (declines) return built;
    const CsrMatrix& a = *request.what.problem.a;
    std::vector<ToyEntry> entries;
    for (std::int64_t row = 0; row < a.rows; ++row) {
      for (auto i = a.row_ptrs.at(index_of(row)); i < a.row_ptrs.at(index_of(row + 1)); ++i) {
        entries.push_back({row, a.col_idxs.at(index_of(i)), a.values.at(index_of(i))});
      }
    }
    std::vector<std::byte> bytes(entries.size() * sizeof(ToyEntry));
    if (!bytes.empty()) std::memcpy(bytes.data(), entries.data(), bytes.size());
    Artifact artifact;
    artifact.add(k_toy_file, std::move(bytes));
    built.code = std::make_shared<const BuiltFiles>(*this, std::move(artifact.files));
    built.record = {
        {"toy", {{"rows", a.rows}, {"cols", a.cols}, {"n", request.what.problem.n.value}}}};
    built.reason = reason;
    return built;
  }

  [[nodiscard]] LoadedKernel load(const Artifact& artifact, const nlohmann::json& record,
                                  const Device&, const Cancellation&) const override {
    const std::span<const std::byte> bytes = artifact.file(k_toy_file);
    if (bytes.size() % sizeof(ToyEntry) != 0) throw Error("half an entry");
    std::vector<ToyEntry> entries(bytes.size() / sizeof(ToyEntry));
    if (!bytes.empty()) std::memcpy(entries.data(), bytes.data(), bytes.size());
    LoadedKernel loaded;
    loaded.info.family = name();
    loaded.info.rows = record.at("toy").at("rows");
    loaded.info.cols = record.at("toy").at("cols");
    loaded.info.n = loaded.info.ldb = loaded.info.ldc = record.at("toy").at("n");
    loaded.executable = std::make_shared<ToyExecutable>(loaded.info.rows, std::move(entries));
    return loaded;
  }

  ProblemFeatures known = {ProblemFeature::spmm};
  Refusal refuses = Refusal::none();
  Refusal declines = Refusal::none();
  std::string reason = {};

 private:
  static std::size_t index_of(std::int64_t value) { return static_cast<std::size_t>(value); }
};

}  // namespace spjit::testing_support
