#pragma once

/// @file
/// This CPU and others of x86-64.

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "kernels/backend.hpp"

namespace spjit {

class HostBackend final : public Backend {
 public:
  using Backend::Backend;

  [[nodiscard]] std::string_view name() const noexcept override { return "host"; }
  [[nodiscard]] std::span<const ChoiceRule> rules() const noexcept override;
  [[nodiscard]] std::span<const NamedOption* const> options() const noexcept override;
  [[nodiscard]] FamilyForecast forecast(const FamilyRequest& request) const override;
  [[nodiscard]] std::span<const EmittedFile> emitted() const noexcept override;

  [[nodiscard]] DeviceInfo device_info(const Target& target) const override;
  /// Widths of panels are whole vectors, of which one row fits the registers.
  void check(const Problem& problem, const Target& target) const override;
  void add_to_key(const CompileOptions& options, const DeviceInfo& device,
                  KeyBuilder& key) const override;
  /// The best instruction set that this CPU runs fits best, then what was chosen for its card.
  [[nodiscard]] int fitness(const Target& code, const std::string& card,
                            const Target* wanted) const override;

  [[nodiscard]] std::shared_ptr<ThreadPool> make_pool(const Resources& resources) const override;
  [[nodiscard]] int most_threads(const Resources& resources) const override;
  [[nodiscard]] Refusal lacks(const Target& target) const override;
  void require(const Target& target) const override;

  [[nodiscard]] std::optional<Device> timing_device(
      const Target& target, const DeviceInfo& info,
      const std::shared_ptr<ThreadPool>& pool) const override;
  /// The card, so that one CPU of a kind finds what another one timed; else the product.
  [[nodiscard]] std::string timed_on(const Target& target, const DeviceInfo& info) const override;
  [[nodiscard]] Refusal why_not_timed(const Target& target) const override;
  [[nodiscard]] Refusal too_large_to_time(const Problem& problem) const override;
  [[nodiscard]] std::vector<TuningResult> race(std::span<const RaceEntry> entries,
                                               const Problem& problem, const RaceOptions& options,
                                               const CompileContext& context) const override;
  [[nodiscard]] bool has_cold_runs() const noexcept override { return true; }
  [[nodiscard]] bool times_batches() const noexcept override { return true; }
  [[nodiscard]] bool explains_by_building() const noexcept override { return true; }
  [[nodiscard]] bool ranks_untimed() const noexcept override { return false; }
  [[nodiscard]] std::optional<HostIsa> peak_isa(const Target& target) const override;

  [[nodiscard]] CheckPlace check_place(
      const KernelInfo& info, const std::shared_ptr<const Executable>& loaded,
      const std::function<LoadedKernel(const Device&)>& load) const override;
};

}  // namespace spjit
