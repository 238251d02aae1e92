#pragma once

/// @file
/// NVIDIA GPUs, in this machine or not.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"

namespace spjit {

class CudaBackend final : public Backend {
 public:
  using Backend::Backend;

  [[nodiscard]] std::string_view name() const noexcept override { return "cuda"; }
  [[nodiscard]] std::span<const NamedOption* const> options() const noexcept override;
  [[nodiscard]] std::span<const ChoiceRule> rules() const noexcept override;
  [[nodiscard]] std::span<const EmittedFile> emitted() const noexcept override;

  [[nodiscard]] DeviceInfo device_info(const Target& target) const override;
  /// Throws InvalidArgument for panels, which GPUs do not take.
  void check(const Problem& problem, const Target& target) const override;
  void add_to_key(const CompileOptions& options, const DeviceInfo& device,
                  KeyBuilder& key) const override;
  /// An architecture has to be given. The newest code that it runs fits best.
  [[nodiscard]] int fitness(const Target& code, const std::string& card,
                            const Target* wanted) const override;
  [[nodiscard]] std::optional<Device> device(int ordinal) const override;

  [[nodiscard]] std::optional<Device> timing_device(
      const Target& target, const DeviceInfo& info,
      const std::shared_ptr<ThreadPool>& pool) const override;
  [[nodiscard]] std::string timed_on(const Target& target, const DeviceInfo& info) const override;
  [[nodiscard]] Refusal why_not_timed(const Target& target) const override;
  [[nodiscard]] std::vector<TuningResult> race(std::span<const RaceEntry> entries,
                                               const Problem& problem, const RaceOptions& options,
                                               const CompileContext& context) const override;
  [[nodiscard]] bool has_cold_runs() const noexcept override { return false; }
  [[nodiscard]] bool times_batches() const noexcept override { return false; }
  [[nodiscard]] bool explains_by_building() const noexcept override { return false; }
  [[nodiscard]] bool ranks_untimed() const noexcept override { return true; }

  /// The first GPU of this machine that takes the code, once it has done what it was given before.
  [[nodiscard]] CheckPlace check_place(
      const KernelInfo& info, const std::shared_ptr<const Executable>& loaded,
      const std::function<LoadedKernel(const Device&)>& load) const override;
  [[nodiscard]] bool is_fault(const DeviceError& error) const noexcept override;
  [[nodiscard]] bool is_out_of_memory(const DeviceError& error) const noexcept override;
};

}  // namespace spjit
